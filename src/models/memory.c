/* Memory per GPU: weights, gradients and optimizer states by sharding and precision, and what
 * sharding gathers. It knows nothing of layers: their activations are given. */
#include "models/memory.h"

#include <math.h>

#include "base/units.h"
#include "core/config/config_schedule.h"
#include "models/offload.h"

static double element_bytes(const struct sc_request *request)
{
	return sc_dtype_bytes(sc_storage_dtype(request->config.training.precision));
}

static double state_bytes(const struct sc_request *request)
{
	double moments = sc_optimizer_traits_of(request->config.training.optimizer)->moments;

	if (request->config.training.optimizer == SC_OPT_NONE)
		return 0;
	return moments * sc_moment_bytes(request) + sc_master_bytes(request);
}

/* The bytes of gradients for each trained parameter. */
struct gradient {
	double held; /* from backward to the optimizer */
	double step; /* what the optimizer copies them to; as states, on the ranks that update */
};

static struct gradient gradient_bytes(const struct sc_request *request)
{
	const struct sc_software *sw = &request->software;
	double e = element_bytes(request);
	bool by_shards = sc_sharding_rule(request).weights;
	double held = by_shards ? e : sc_grad_bytes(request);
	/* apex and DeepSpeed have a copy; an optimizer of shards casts its own as it goes */
	double master = by_shards || sw->distributed_optimizer ? 0 : sc_master_bytes(request);
	double step = held < master ? master : 0;

	/* Autograd's own gradients stay where adding them up in fp32 does not free them at once. */
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
	/* Weights that are not trained need no more digits than the matrix products read. */
	double weights =
		(trainable * element_bytes(request) +
		 (params - trainable) *
			 sc_dtype_bytes(sc_precision_dtype(request->config.training.precision))) *
		(double)sc_schedule_versions(&request->config.parallel) /
		(rule.weights ? ranks : 1);
	double gradients = trainable * grad.held / (rule.gradients ? ranks : 1);
	double states = updated * state_bytes(request), step = updated * grad.step;
	double share = sc_offload_states_frac(off);

	if (sums_whole_gradients(request) && ranks > 1 && off->gradients <= SC_TIER_NONE)
		gradients += trainable * sc_grad_bytes(request);
	move_off(held, &weights, off->weights, 1);
	move_off(held, &gradients, off->gradients, 1);
	move_off(held, &states, off->optimizer, share);
	/* The host steps on fp32 gradients; where states come from SSDs, on pieces of them. */
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

/* ---- buffers beside them for a while ---- */

/* The parameters of word embedding and output layer, where the stage has them. */
static double vocabulary_params(const struct sc_request *request,
				const struct sc_memory_shape *shape)
{
	const struct sc_model *m = &request->config.model;
	double one = (double)m->vocab * (double)m->hidden / (double)request->config.parallel.tp;

	return one * ((shape->embed ? 1 : 0) + (shape->head ? 1 : 0));
}

/* The whole weights and gradients of the layers that run, where sharding keeps parts of them. */
static double gathered_bytes(const struct sc_request *request, const struct sc_memory_shape *shape)
{
	struct sc_sharding_rule rule = sc_sharding_rule(request);
	const struct sc_offload *off = &request->config.training.offload;
	double e = element_bytes(request), layers = request->software.gather_ahead ? 2 : 1;
	double layer = shape->layer_params / (double)(off->tiles > 1 ? off->tiles : 1);
	double weights = 0, gradients = 0;

	if (rule.weights)
		weights = shape->params + shape->expert_params;
	if (off->weights > SC_TIER_NONE) {
		layers = 1 + (double)off->prefetch_layers;
		weights = shape->params + shape->expert_params;
	}
	if (rule.each || off->weights > SC_TIER_NONE)
		weights = fmin(weights, layers * layer + vocabulary_params(request, shape));
	if (off->gradients > SC_TIER_NONE || (rule.gradients && !sums_whole_gradients(request)))
		gradients = fmin(shape->trainable + shape->trainable_expert,
				 layer * (sc_grad_bytes(request) / e + 1));
	return (weights + gradients) * e;
}

static void sum_up(const struct held *held, double activations, double buffers,
		   struct sc_memory *out)
{
	const struct sc_software *sw = &held->request->software;
	const double gib = SC_BYTES_PER_GIB;
	double tensors, room;

	*out = (struct sc_memory){
		.weights_gib = held->weights / gib,
		/* the optimizer's copy takes the place that activations leave */
		.gradients_gib = (held->gradients + fmax(0, held->step - activations)) / gib,
		.optimizer_gib = held->optimizer / gib,
		.activations_gib = activations / gib,
		.buffers_gib = buffers / gib,
		.capacity_gib = held->request->device.hbm_gib,
	};
	tensors = out->weights_gib + out->gradients_gib + out->optimizer_gib +
		  out->activations_gib + out->buffers_gib;
	/* The allocator's cached blocks take what room is left: it frees them before it fails. */
	room = out->capacity_gib - tensors - sw->reserve_gib;
	out->reserve_gib = sw->reserve_gib + fmin(sw->reserve_frac * tensors, fmax(0, room));
	out->total_gib = tensors + out->reserve_gib;
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

bool sc_memory_leaves(const struct sc_memory *m, double free_frac)
{
	return sc_memory_fullness(m) <= 1 && m->total_gib <= (1 - free_frac) * m->capacity_gib;
}

bool sc_memory_has_margin(const struct sc_memory *m)
{
	return sc_memory_leaves(m, SC_MEMORY_MARGIN_FRAC);
}

void sc_memory_estimate(const struct sc_request *request, const struct sc_memory_shape *shape,
			struct sc_memory *out)
{
	const struct sc_cluster *cl = &request->config.cluster;
	struct held held = {.request = request};

	add_held(&held, shape->params, shape->trainable, shape->shard_ranks);
	add_held(&held, shape->expert_params, shape->trainable_expert, shape->expert_shard_ranks);
	add_matrices(&held, shape->matrix_bytes, shape->shard_ranks);
	add_matrices(&held, shape->expert_matrix_bytes, shape->expert_shard_ranks);
	if (shape->off_bytes > 0)
		held.off[request->config.training.offload.activations] += shape->off_bytes;
	sum_up(&held, shape->activation_bytes, gathered_bytes(request, shape), out);
	out->host_gib = held.off[SC_TIER_CPU] / SC_BYTES_PER_GIB;
	out->ssd_gib = held.off[SC_TIER_NVME] / SC_BYTES_PER_GIB;
	out->host_capacity_gib = cl->host_memory_gib;
	out->ssd_capacity_gib = cl->ssd_gib;
}

void sc_memory_replica(const struct sc_request *request, double params, double matrix_bytes,
		       double kept_bytes, struct sc_memory *out)
{
	struct held held = {.request = request};

	add_held(&held, params, params, 1);
	add_matrices(&held, matrix_bytes, 1);
	sum_up(&held, kept_bytes, 0, out);
}
