/* Memory per GPU: weights, gradients and optimizer states by sharding and precision; activations; what
 * sharding gathers. */
#include "models/memory.h"

#include <math.h>

#include "base/units.h"
#include "models/activations.h"

static double element_bytes(const struct sc_request *request)
{
	return sc_dtype_bytes(sc_storage_dtype(request->config.training.precision));
}

/* Weights themselves are spread, not only what the optimizer keeps. */
static bool shards_weights(const struct sc_request *request)
{
	enum sc_sharding sharding = request->config.parallel.sharding;

	return sharding == SC_ZERO3 || sharding == SC_FSDP;
}

/* Weights that are not trained need no more digits than the matrix products read. */
static double frozen_bytes(const struct sc_request *request)
{
	return sc_dtype_bytes(sc_precision_dtype(request->config.training.precision));
}

static double state_bytes(const struct sc_request *request)
{
	double f = sc_dtype_bytes(SC_FP32);
	double master = element_bytes(request) < f ? f : 0;

	switch (request->config.training.optimizer) {
	case SC_OPT_ADAM:
		return 2 * f + master; /* two moments */
	case SC_OPT_ADAGRAD:
		return f + master;
	case SC_OPT_SGD:
		return f + master;
	case SC_OPT_NONE:
		break;
	}
	return 0;
}

/* Bytes of gradients for each trained parameter. */
struct gradient {
	double held; /* from backward to the optimizer */
	double step; /* what the optimizer copies them to; as its states, on the ranks that update */
};

static struct gradient gradient_bytes(const struct sc_request *request)
{
	const struct sc_software *sw = &request->software;
	double f = sc_dtype_bytes(SC_FP32), e = element_bytes(request);
	double held = shards_weights(request) ? e : sc_grad_bytes(request);
	double step = held < f ? sw->main_grad_bytes : 0;

	/* autograd's own gradients, where adding them up in fp32 does not free them at once */
	if (held > e && !sw->grad_accumulate_fp32 && !sw->fused_grad_accumulation)
		held += e;
	return (struct gradient){.held = held, .step = step};
}

/* ---- parameters spread over `ranks` ---- */

struct held {
	double weights, gradients, optimizer; /* bytes */
	double step;                          /* gradients as the optimizer reads them */
};

static void add_held(const struct sc_request *request, double params, double trainable,
		     double ranks, struct held *held)
{
	enum sc_sharding sharding = request->config.parallel.sharding;
	bool all = shards_weights(request);
	bool states = sharding != SC_SHARD_NONE || request->software.distributed_optimizer;
	struct gradient grad = gradient_bytes(request);

	held->weights += (trainable * element_bytes(request) +
			  (params - trainable) * frozen_bytes(request)) /
			 (all ? ranks : 1);
	held->gradients += trainable * grad.held / (all || sharding == SC_ZERO2 ? ranks : 1);
	held->step += trainable * grad.step / (states ? ranks : 1);
	held->optimizer += trainable * state_bytes(request) / (states ? ranks : 1);
}

/* ---- what lies beside them for a while ---- */

/* Word embedding, or output layer. */
static double vocabulary_params(const struct sc_request *request,
				const struct sc_memory_shape *shape)
{
	const struct sc_model *m = &request->config.model;
	double one = (double)m->vocab * (double)m->hidden / (double)request->config.parallel.tp;

	return one * ((shape->embed ? 1 : 0) + (shape->head ? 1 : 0));
}

/* Whole weights and gradients of the layers that run, where sharding keeps parts of them. */
static double gathered_bytes(const struct sc_request *request, const struct sc_memory_shape *shape)
{
	const struct sc_software *sw = &request->software;
	bool pipeline = request->config.parallel.pp > 1;
	double e = element_bytes(request), layers = sw->gather_ahead ? 2 : 1;
	double params = shape->params + shape->expert_params;
	double trainable = shape->trainable + shape->trainable_expert;
	double weights =
		fmin(params, layers * shape->layer_params + vocabulary_params(request, shape));
	double gradients = fmin(trainable, shape->layer_params * (sc_grad_bytes(request) / e + 1));

	if (!shards_weights(request))
		return 0;
	/* a pipeline would gather and reduce for every micro-batch: PyTorch's does so once */
	if (pipeline || !sw->reshard_after_forward)
		weights = params;
	if (request->n_micro_batches > 1 && (pipeline || !sw->reduce_each_micro_batch))
		return weights * e + trainable * sc_grad_bytes(request);
	return (weights + gradients) * e;
}

static double activation_bytes(const struct sc_request *request,
			       const struct sc_memory_shape *shape)
{
	bool is_dense = shape->layers_in_flight <= 0;
	double bytes =
		shape->layers_in_flight * sc_layer_kept_bytes(request, shape->samples, false) +
		shape->dense_layers_in_flight * sc_layer_kept_bytes(request, shape->samples, true);
	/* what a stage sends stays until its backward */
	double sent = request->config.parallel.pp > 1
			      ? sc_layer_input_bytes(request, shape->samples) *
					shape->micro_batches_in_flight
			      : 0;
	double loss = shape->head ? sc_loss_bytes(request, shape->samples) : 0;
	/* the logits are gone when the first layer runs backward */
	double widest = fmax(loss, sc_layer_working_bytes(request, shape->samples, is_dense));

	return bytes + sent + widest + sc_gathered_sequence_bytes(request, shape->samples);
}

void sc_memory_estimate(const struct sc_request *request, const struct sc_memory_shape *shape,
			struct sc_memory *out)
{
	double gib = SC_BYTES_PER_GIB, tensors;
	double activations = activation_bytes(request, shape);
	struct held held = {0};

	add_held(request, shape->params, shape->trainable, shape->shard_ranks, &held);
	add_held(request, shape->expert_params, shape->trainable_expert, shape->expert_shard_ranks,
		 &held);
	*out = (struct sc_memory){
		.weights_gib = held.weights / gib,
		/* the optimizer's copy takes the place that activations leave */
		.gradients_gib = (held.gradients + fmax(0, held.step - activations)) / gib,
		.optimizer_gib = held.optimizer / gib,
		.activations_gib = activations / gib,
		.buffers_gib = request->software.buffers_gib + gathered_bytes(request, shape) / gib,
		.capacity_gib = request->device.hbm_gib,
	};
	tensors = out->weights_gib + out->gradients_gib + out->optimizer_gib +
		  out->activations_gib + out->buffers_gib;
	out->reserve_gib = request->software.reserve_gib + request->software.reserve_frac * tensors;
	out->total_gib = tensors + out->reserve_gib;
}
