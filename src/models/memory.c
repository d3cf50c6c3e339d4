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

/* Weights that are not trained need no more digits than the matrix products read. */
static double frozen_bytes(const struct sc_request *request)
{
	return sc_dtype_bytes(sc_precision_dtype(request->config.training.precision));
}

static double state_bytes(const struct sc_request *request)
{
	double f = sc_dtype_bytes(SC_FP32);
	double master = element_bytes(request) < f ? f : 0;

	switch (sc_optimizer_dense(request->config.training.optimizer)) {
	case SC_OPT_ADAM:
		return 2 * sc_moment_bytes(request) + master;
	case SC_OPT_ADAGRAD:
	case SC_OPT_SGD:
		return sc_moment_bytes(request) + master;
	default:
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
	double held = sc_sharding_rule(request).weights ? e : sc_grad_bytes(request);
	double step = held < f ? sw->main_grad_bytes : 0;

	/* autograd's own gradients, where adding them up in fp32 does not free them at once */
	if (held > e && !sw->grad_accumulate_fp32 && !sw->fused_grad_accumulation)
		held += e;
	return (struct gradient){.held = held, .step = step};
}

/* Sharded gradients are summed up whole until the last micro-batch's are reduced. */
static bool sums_whole_gradients(const struct sc_request *request)
{
	struct sc_sharding_rule rule = sc_sharding_rule(request);

	return rule.gradients && !rule.reduces_each && request->n_micro_batches > 1;
}

/* ---- parameters spread over `ranks` ---- */

struct held {
	const struct sc_request *request;
	double weights, gradients, optimizer; /* bytes */
	double step;                          /* gradients as the optimizer reads them */
};

static void add_held(struct held *held, double params, double trainable, double ranks)
{
	const struct sc_request *request = held->request;
	struct sc_sharding_rule rule = sc_sharding_rule(request);
	struct gradient grad = gradient_bytes(request);

	held->weights += (trainable * element_bytes(request) +
			  (params - trainable) * frozen_bytes(request)) /
			 (rule.weights ? ranks : 1);
	held->gradients += trainable * grad.held / (rule.gradients ? ranks : 1);
	if (sums_whole_gradients(request))
		held->gradients += trainable * sc_grad_bytes(request);
	held->step += trainable * grad.step / (rule.states ? ranks : 1);
	held->optimizer += trainable * state_bytes(request) / (rule.states ? ranks : 1);
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
	struct sc_sharding_rule rule = sc_sharding_rule(request);
	double e = element_bytes(request), layers = request->software.gather_ahead ? 2 : 1;
	double weights = 0, gradients = 0;

	if (rule.weights)
		weights = shape->params + shape->expert_params;
	if (rule.gathers_backward)
		weights = fmin(weights,
			       layers * shape->layer_params + vocabulary_params(request, shape));
	if (rule.gradients && !sums_whole_gradients(request))
		gradients = fmin(shape->trainable + shape->trainable_expert,
				 shape->layer_params * (sc_grad_bytes(request) / e + 1));
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

/* The allocator's cached blocks take what room there is: it gives them back before it fails. */
static void sum_up(const struct sc_request *request, struct sc_memory *out)
{
	const struct sc_software *sw = &request->software;
	const double tensors = out->weights_gib + out->gradients_gib + out->optimizer_gib +
			       out->activations_gib + out->buffers_gib;
	const double room = request->device.hbm_gib - tensors - sw->reserve_gib;

	out->reserve_gib = sw->reserve_gib + fmin(sw->reserve_frac * tensors, fmax(0, room));
	out->total_gib = tensors + out->reserve_gib;
}

void sc_memory_estimate(const struct sc_request *request, const struct sc_memory_shape *shape,
			struct sc_memory *out)
{
	double gib = SC_BYTES_PER_GIB;
	double activations = activation_bytes(request, shape);
	struct held held = {.request = request};

	add_held(&held, shape->params, shape->trainable, shape->shard_ranks);
	add_held(&held, shape->expert_params, shape->trainable_expert, shape->expert_shard_ranks);
	*out = (struct sc_memory){
		.weights_gib = held.weights / gib,
		/* the optimizer's copy takes the place that activations leave */
		.gradients_gib = (held.gradients + fmax(0, held.step - activations)) / gib,
		.optimizer_gib = held.optimizer / gib,
		.activations_gib = activations / gib,
		.buffers_gib = request->software.buffers_gib + gathered_bytes(request, shape) / gib,
		.capacity_gib = request->device.hbm_gib,
	};
	sum_up(request, out);
}

void sc_memory_replica(const struct sc_request *request, double params, double kept_bytes,
		       struct sc_memory *out)
{
	struct held held = {.request = request};

	add_held(&held, params, params, 1);
	*out = (struct sc_memory){
		.weights_gib = held.weights / SC_BYTES_PER_GIB,
		.gradients_gib =
			(held.gradients + fmax(0, held.step - kept_bytes)) / SC_BYTES_PER_GIB,
		.optimizer_gib = held.optimizer / SC_BYTES_PER_GIB,
		.activations_gib = kept_bytes / SC_BYTES_PER_GIB,
		.buffers_gib = request->software.buffers_gib,
		.capacity_gib = request->device.hbm_gib,
	};
	sum_up(request, out);
}
