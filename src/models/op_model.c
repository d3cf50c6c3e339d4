/* The list of op models, and the step from an op's time to a graph cost. */
#include "models/op_model.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "models/op_model_priv.h"

static const struct sc_op_model *const MODELS[SC_N_OP_KINDS] = {
	[SC_OP_GEMM] = &sc_gemm_model,           [SC_OP_ATTENTION] = &sc_attention_model,
	[SC_OP_ROWWISE] = &sc_rowwise_model,     [SC_OP_OPTIMIZER] = &sc_optimizer_model,
	[SC_OP_EMBEDDING] = &sc_embedding_model, [SC_OP_LAYER] = &sc_layer_model,
	[SC_OP_SCAN] = &sc_scan_model,           [SC_OP_CONV] = &sc_conv_model,
	[SC_OP_SPARSE] = &sc_sparse_model,
};

const struct sc_op_model *sc_op_model_get(enum sc_op_kind kind)
{
	return (unsigned)kind < SC_N_OP_KINDS ? MODELS[kind] : NULL;
}

static enum sc_owner op_owner(const struct sc_op *op, const struct sc_op_time *time)
{
	if (op->kind == SC_OP_OPTIMIZER)
		return SC_OWN_OPTIMIZER;
	if (op->kind == SC_OP_ROWWISE || op->kind == SC_OP_EMBEDDING || op->kind == SC_OP_CONV ||
	    time->memory_us > time->math_us)
		return SC_OWN_MEMORY;
	return SC_OWN_COMPUTE;
}

void sc_op_time_cost(const struct sc_op *op, const struct sc_op_time *time, struct sc_cost *out)
{
	memset(out, 0, sizeof(*out));
	out->latency_us = time->fixed_us;
	out->work_us = time->total_us - time->fixed_us;
	if (out->work_us > 0) {
		double hbm = time->memory_us / out->work_us;

		out->demand[SC_RES_SM] = time->sm_frac;
		out->demand[SC_RES_HBM] = hbm < 1 ? hbm : 1;
		out->demand[SC_RES_PCIE] = time->host_us / out->work_us;
	}
	out->waves = time->waves;
	out->owner_frac[op_owner(op, time)] = 1;
}

void sc_op_cost(const struct sc_device *device, const struct sc_op *op, struct sc_cost *out)
{
	const struct sc_op_model *model = sc_op_model_get(op->kind);
	struct sc_op_time time;

	assert(model);
	model->time(device, op, &time);
	sc_op_time_cost(op, &time, out);
}

/* The spread that is added in quadrature where a model extrapolates, one sigma, relative; it is
 * set, not fitted. 173 iterations on NVIDIA GPUs without their own block ask for 0.17 beyond the
 * models (V100, 124 rows: 0.19; others: 0.05), 9 on MI100 and MI300X for 0.11. */
#define TREND_FRAC 0.15

void sc_op_trust(const struct sc_device *device, const char *block, double spread_frac,
		 struct sc_op_time *out)
{
	const struct sc_band_coef *c = &device->band;

	out->block = block;
	out->measured = sc_device_is_fitted(device, block);
	out->extrapolated = !out->measured || out->total_us < c->shortest_us ||
			    (c->longest_us > 0 && out->total_us > c->longest_us);
	out->spread_frac = out->extrapolated ? hypot(spread_frac, TREND_FRAC) : spread_frac;
}

double sc_smooth_max(double a, double b)
{
	double hi = a > b ? a : b, r = a > b ? b / a : a / b;

	return hi > 0 ? hi * cbrt(1 + r * r * r) : 0;
}
