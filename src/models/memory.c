/* Memory per GPU: weights, gradients and optimizer states by sharding and precision; activations; what
 * sharding gathers. */
#include "models/memory.h"

#include <math.h>

#include "base/units.h"
#include "models/activations.h"
#include "models/offload.h"

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
	double moments = sc_optimizer_traits_of(request->config.training.optimizer)->moments;

	if (request->config.training.optimizer == SC_OPT_NONE)
		return 0;
	return moments * sc_moment_bytes(request) + master;
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
	bool by_shards = sc_sharding_rule(request).weights;
	double held = by_shards ? e : sc_grad_bytes(request);
	/* apex, DeepSpeed; an optimizer of shards casts its own as it goes */
	double step = held < f && !by_shards && !sw->distributed_optimizer ? f : 0;

	/* autograd's own gradients, where adding them up in fp32 does not free them at once */
	if (held > e && !sw->fused_grad_accumulation)
		held += e;
	return (struct gradient){.held = held, .step = step};
}

/* Sharded gradients are summed up whole until the last micro-batch's are reduced. */
static bool sums_whole_gradients(const struct sc_request *request)
{
	struct sc_sharding_rule rule = sc_sharding_rule(request);

	return rule.gradients && !rule.each && request->n_micro_batches > 1;
}

/* ---- parameters spread over `ranks` ---- */

struct held {
	const struct sc_request *request;
	double weights, gradients, optimizer; /* bytes */
	double step;                          /* gradients as the optimizer reads them */
	double off[SC_TIER_NVME + 1];         /* bytes on the host, by enum sc_offload_tier */
};

/* Moves a share of bytes to a tier. */
static void move_off(struct held *held, double *bytes, int tier, double share)
{
	if (tier != SC_TIER_CPU && tier != SC_TIER_NVME)
		return;
	held->off[tier] += share * *bytes;
	*bytes *= 1 - share;
}

static void add_held(struct held *held, double params, double trainable, double ranks)
{
	const struct sc_request *request = held->request;
	struct sc_sharding_rule rule = sc_sharding_rule(request);
	struct gradient grad = gradient_bytes(request);

	const struct sc_offload *off = &request->config.training.offload;
	double updated = trainable / (rule.states ? ranks : 1);
	double weights = (trainable * element_bytes(request) +
			  (params - trainable) * frozen_bytes(request)) /
			 (rule.weights ? ranks : 1);
	double gradients = trainable * grad.held / (rule.gradients ? ranks : 1);
	double states = updated * state_bytes(request), step = updated * grad.step;
	double share = sc_offload_states_frac(off);

	if (sums_whole_gradients(request) && ranks > 1 && off->gradients <= SC_TIER_NONE)
		gradients += trainable * sc_grad_bytes(request);
	move_off(held, &weights, off->weights, 1);
	move_off(held, &gradients, off->gradients, 1);
	move_off(held, &states, off->optimizer, share);
	/* the host steps on fp32 gradients; where states come from SSDs, on pieces of them */
	if (off->optimizer == SC_TIER_CPU &&
	    (off->gradients <= SC_TIER_NONE || grad.held < sc_dtype_bytes(SC_FP32)))
		held->off[SC_TIER_CPU] += share * updated * sc_dtype_bytes(SC_FP32);
	held->weights += weights;
	held->gradients += gradients;
	held->step += (1 - share) * step;
	held->optimizer += states;
}

static void add_matrices(struct held *held, double bytes, double ranks)
{
	held->optimizer += bytes / (sc_sharding_rule(held->request).states ? ranks : 1);
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
	const struct sc_offload *off = &request->config.training.offload;
	double e = element_bytes(request), layers = request->software.gather_ahead ? 2 : 1;
	double weights = 0, gradients = 0;

	if (rule.weights)
		weights = shape->params + shape->expert_params;
	if (off->weights > SC_TIER_NONE) {
		layers = 1 + (double)off->prefetch_layers;
		weights = shape->params + shape->expert_params;
	}
	if (rule.each || off->weights > SC_TIER_NONE)
		weights = fmin(weights,
			       layers * shape->layer_params + vocabulary_params(request, shape));
	if (off->gradients > SC_TIER_NONE || (rule.gradients && !sums_whole_gradients(request)))
		gradients = fmin(shape->trainable + shape->trainable_expert,
				 shape->layer_params * (sc_grad_bytes(request) / e + 1));
	return (weights + gradients) * e;
}

/* Of layers that wait for backward. Those that leave the GPU do so but for the ones that come and go. */
static double kept_bytes(const struct sc_request *request, const struct sc_memory_shape *shape,
			 double *off_bytes)
{
	const struct sc_offload *off = &request->config.training.offload;
	double layer = sc_layer_kept_bytes(request, shape->samples, false);
	double dense = sc_layer_kept_bytes(request, shape->samples, true);
	double layers = shape->layers_in_flight + shape->dense_layers_in_flight;
	double bytes = shape->layers_in_flight * layer + shape->dense_layers_in_flight * dense;
	double flying = shape->micro_batches_in_flight;
	double share = flying > 0 ? sc_offload_layers_frac(off, layers / flying) : 0;
	double moving = (1 + (double)off->prefetch_layers) * fmax(layer, dense);

	*off_bytes = share * bytes;
	return fmin(bytes, (1 - share) * bytes + (share > 0 ? moving : 0));
}

static double activation_bytes(const struct sc_request *request,
			       const struct sc_memory_shape *shape, double *off_bytes)
{
	bool is_dense = shape->layers_in_flight <= 0;
	double bytes = kept_bytes(request, shape, off_bytes);
	double sent = sc_sent_bytes(request, shape->samples) * shape->micro_batches_in_flight;
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

static void sum_up_hosts(const struct held *held, struct sc_memory *out)
{
	const struct sc_cluster *cl = &held->request->config.cluster;

	out->host_gib = held->off[SC_TIER_CPU] / SC_BYTES_PER_GIB;
	out->ssd_gib = held->off[SC_TIER_NVME] / SC_BYTES_PER_GIB;
	out->host_capacity_gib = cl->host_memory_gib;
	out->ssd_capacity_gib = cl->ssd_gib;
}

double sc_memory_fullness(const struct sc_memory *m)
{
	double full = m->total_gib / m->capacity_gib;

	if (m->host_gib > 0)
		full = fmax(full, m->host_gib / m->host_capacity_gib);
	if (m->ssd_gib > 0 && m->ssd_capacity_gib >= 0)
		full = fmax(full, m->ssd_gib / m->ssd_capacity_gib);
	return full;
}

void sc_memory_estimate(const struct sc_request *request, const struct sc_memory_shape *shape,
			struct sc_memory *out)
{
	double gib = SC_BYTES_PER_GIB, off_bytes;
	double activations = activation_bytes(request, shape, &off_bytes);
	struct held held = {.request = request};

	add_held(&held, shape->params, shape->trainable, shape->shard_ranks);
	add_held(&held, shape->expert_params, shape->trainable_expert, shape->expert_shard_ranks);
	add_matrices(&held, shape->matrix_bytes, shape->shard_ranks);
	add_matrices(&held, shape->expert_matrix_bytes, shape->expert_shard_ranks);
	*out = (struct sc_memory){
		.weights_gib = held.weights / gib,
		/* the optimizer's copy takes the place that activations leave */
		.gradients_gib = (held.gradients + fmax(0, held.step - activations)) / gib,
		.optimizer_gib = held.optimizer / gib,
		.activations_gib = activations / gib,
		.buffers_gib = gathered_bytes(request, shape) / gib,
		.capacity_gib = request->device.hbm_gib,
	};
	if (off_bytes > 0)
		held.off[request->config.training.offload.activations] += off_bytes;
	sum_up(request, out);
	sum_up_hosts(&held, out);
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
		.capacity_gib = request->device.hbm_gib,
	};
	sum_up(request, out);
}
