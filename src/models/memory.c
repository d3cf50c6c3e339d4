/* Memory per GPU: weights, gradients, optimizer states by sharding; activations by recompute mode. */
#include "models/memory.h"

#include <math.h>

#include "base/units.h"

#define ADAM_STATES 3.0 /* master weight and two moments, fp32 */

static double element_bytes(const struct sc_request *request)
{
	return sc_dtype_bytes(sc_storage_dtype(request->config.training.precision));
}

/* Bytes of one layer's activations for one micro-batch, kept from forward to backward. */
static double layer_activation_bytes(const struct sc_request *request, double samples,
				     enum sc_recompute recompute)
{
	const struct sc_config *cfg = &request->config;
	double tp = (double)cfg->parallel.tp;
	double seq_tp = cfg->parallel.sequence_parallel ? tp : 1;
	double scale = element_bytes(request) / 2; /* the formula counts 2-byte elements */
	double sbh = samples * (double)cfg->model.seq * (double)cfg->model.hidden;
	double scores =
		5 * (double)cfg->model.heads * (double)cfg->model.seq / (double)cfg->model.hidden;

	if (recompute == SC_RECOMPUTE_FULL)
		return 2 * scale * sbh / seq_tp;
	if (recompute == SC_RECOMPUTE_SELECTIVE || cfg->training.attention == SC_ATT_FLASH)
		scores = 0;
	return scale * sbh * (10 / seq_tp + 24 / tp + scores / tp);
}

static double activation_bytes(const struct sc_request *request,
			       const struct sc_memory_shape *shape)
{
	const struct sc_config *cfg = &request->config;
	enum sc_recompute recompute = cfg->training.recompute;
	double bytes = shape->layers_in_flight *
		       layer_activation_bytes(request, shape->samples, recompute);

	if (recompute == SC_RECOMPUTE_FULL) /* one layer's worth while it is recomputed */
		bytes += layer_activation_bytes(request, shape->samples, SC_RECOMPUTE_NONE);
	if (shape->head) /* logits in the working dtype and fp32, and the softmax kept for backward */
		bytes += shape->samples * (double)cfg->model.seq * (double)cfg->model.vocab /
			 (double)cfg->parallel.tp *
			 (element_bytes(request) + 2 * sc_dtype_bytes(SC_FP32));
	return bytes;
}

static double state_bytes(const struct sc_request *request)
{
	double f = sc_dtype_bytes(SC_FP32);
	double master = element_bytes(request) < f ? f : 0;

	switch (request->config.training.optimizer) {
	case SC_OPT_ADAM:
		return (ADAM_STATES - 1) * f + master;
	case SC_OPT_ADAGRAD:
		return f + master;
	case SC_OPT_SGD:
		return f + master;
	case SC_OPT_NONE:
		break;
	}
	return 0;
}

/* Only where gradients are narrower than the optimizer's numbers. */
static double main_grad_bytes(const struct sc_request *request)
{
	return sc_grad_bytes(request) < sc_dtype_bytes(SC_FP32) ? request->software.main_grad_bytes
								: 0;
}

void sc_memory_estimate(const struct sc_request *request, const struct sc_memory_shape *shape,
			struct sc_memory *out)
{
	enum sc_sharding sharding = request->config.parallel.sharding;
	double gib = SC_BYTES_PER_GIB, p = shape->params;
	bool all = sharding == SC_ZERO3 || sharding == SC_FSDP;
	bool scattered = all || sharding == SC_ZERO2;
	bool states = sharding != SC_SHARD_NONE || request->software.distributed_optimizer;

	*out = (struct sc_memory){
		.weights_gib = p * element_bytes(request) / (all ? shape->dp : 1) / gib,
		.gradients_gib = p *
				 (sc_grad_bytes(request) / (scattered ? shape->dp : 1) +
				  main_grad_bytes(request) / (all ? shape->dp : 1)) /
				 gib,
		.optimizer_gib = p * state_bytes(request) / (states ? shape->dp : 1) / gib,
		.activations_gib = activation_bytes(request, shape) / gib,
		.buffers_gib = request->software.buffers_gib,
		.reserve_gib = request->software.reserve_gib,
		.capacity_gib = request->device.hbm_gib,
	};
	out->total_gib = out->weights_gib + out->gradients_gib + out->optimizer_gib +
			 out->activations_gib + out->buffers_gib + out->reserve_gib;
}
