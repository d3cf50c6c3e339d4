/* The error band. The kernels' part is taken by the mix of kernels of one micro-batch on the
 * class of the busiest GPU: each kernel knows how far its model's level is to
 * be trusted on that device, measured or not (models/op_model.c). What differs from shape to
 * shape is taken to average out over the shapes of an iteration, and is left out; what all
 * kernels of a model share is not. */
#include "predict/transformer/band.h"

#include <math.h>

#include "base/stats.h"

/* Kernel time of a micro-batch by model, and the same weighted by level_frac. */
struct mix {
	double us[SC_N_OP_KINDS], level_us[SC_N_OP_KINDS];
	double total_us;
};

static void add_block(struct mix *mix, const struct sc_block *block, double times)
{
	for (size_t i = 0; i < block->steps.n; i++) {
		const struct sc_step *step = &block->steps.at[i];
		double us = times * sc_cost_alone_us(&step->cost);

		if (step->kind != SC_STEP_KERNEL)
			continue;
		mix->us[step->model] += us;
		mix->level_us[step->model] += us * step->level_frac;
		mix->total_us += us;
	}
}

static void find_mix(const struct sc_transformer *tf, uint32_t class_id, struct mix *mix)
{
	const struct sc_block *block = tf->variant[tf->classes[class_id].variant]->block[0];
	struct sc_stage_parts parts =
		sc_transformer_stage(tf, tf->placement.classes[class_id].stage);

	*mix = (struct mix){.total_us = 0};
	add_block(mix, &block[SC_BLOCK_DENSE_F], parts.dense);
	add_block(mix, &block[SC_BLOCK_LAYER_F], parts.layers);
	add_block(mix, &block[SC_BLOCK_LAYER_B], parts.layers);
	add_block(mix, &block[SC_BLOCK_DENSE_B], parts.dense);
	add_block(mix, &block[SC_BLOCK_EMBED_F], parts.embed);
	add_block(mix, &block[SC_BLOCK_EMBED_B], parts.embed);
	add_block(mix, &block[SC_BLOCK_HEAD_F], parts.head);
	add_block(mix, &block[SC_BLOCK_HEAD_B], parts.head);
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

void sc_band_parts(const struct sc_transformer *tf, const struct sc_prediction *out,
		   double sigma_ms[SC_N_BAND_PARTS])
{
	const struct sc_request *req = tf->request;
	const double *b = out->reading.path_owner_ms;
	double kernels = b[SC_OWN_COMPUTE] + b[SC_OWN_MEMORY];
	struct mix mix;

	find_mix(tf, out->reading.busiest, &mix);
	sigma_ms[SC_BAND_GEMM] = kernels * ratio(mix.level_us[SC_OP_GEMM], mix.total_us);
	sigma_ms[SC_BAND_ATTENTION] = kernels * ratio(mix.level_us[SC_OP_ATTENTION], mix.total_us);
	sigma_ms[SC_BAND_ROWWISE] =
		kernels * ratio(mix.level_us[SC_OP_ROWWISE], mix.total_us) +
		b[SC_OWN_OPTIMIZER] * ratio(mix.level_us[SC_OP_ROWWISE], mix.us[SC_OP_ROWWISE]);
	sigma_ms[SC_BAND_COMM] =
		(b[SC_OWN_COMM] + b[SC_OWN_PEER]) * req->fabric_profile.spread_frac;
	sigma_ms[SC_BAND_HOST] = b[SC_OWN_HOST] * req->device.host.spread_frac;
	sigma_ms[SC_BAND_RESIDUAL] = out->iteration_ms * req->software.residual_frac;
}

/* Once for each kind of GPU whose matrix products were not measured. */
static void warn_of_trends(const struct sc_request *req, struct sc_warnings *warnings)
{
	enum sc_dtype dtype = sc_precision_dtype(req->config.training.precision);

	for (size_t kind = 0; kind < sc_request_n_kinds(req); kind++) {
		const struct sc_device *device = sc_request_device(req, kind);
		const char *block = sc_device_math_block(device, dtype);

		if (!sc_device_is_fitted(device, block))
			sc_warn(warnings,
				"%s coefficients of %.40s: trend, not measured; the band is wider",
				block, device->id);
	}
}

void sc_find_band(const struct sc_transformer *tf, struct sc_prediction *out)
{
	double sigma_ms[SC_N_BAND_PARTS], variance = 0, sigma;

	sc_band_parts(tf, out, sigma_ms);
	for (int i = 0; i < SC_N_BAND_PARTS; i++)
		variance += sigma_ms[i] * sigma_ms[i];
	sigma = ratio(sqrt(variance), out->iteration_ms);
	out->low_ms = out->iteration_ms * exp(-SC_Z_CENTRAL_80 * sigma);
	out->high_ms = out->iteration_ms * exp(SC_Z_CENTRAL_80 * sigma);
	warn_of_trends(tf->request, &out->warnings);
}
