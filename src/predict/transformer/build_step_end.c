/* Adds what follows the last backward: gradients that wait for it, tied embeddings, gradient
 * checks, the optimizer, the gathering of parameters. */
#include <math.h>

#include "base/units.h"
#include "predict/op_names.h"
#include "predict/transformer/build_priv.h"

/* Lets the compute lane's next node wait for `dep` too. */
void build_compute_after(struct class_state *st, uint32_t dep)
{
	struct builder *b = st->b;
	uint32_t wait = sc_graph_add_node(b->graph, SC_NODE_EVENT, st->lanes.compute,
					  (struct sc_node_use){b->zero_cost, SC_NAME_JOIN});

	sc_graph_add_dep(b->graph, wait, dep);
	st->last_compute = wait;
}

enum { MOST_BUCKETS = 10000 };

/* Reduces all gradients in buckets after the last backward; a bucket has at least a layer. */
static void reduce_after(struct class_state *st)
{
	const struct builder *b = st->b;
	const struct sc_class_plan *plan = &b->tf->classes[st->id];
	const struct sc_params *all = &plan->params, *layer = b->tf->layer;
	double grad_bytes = sc_grad_bytes(b->tf->request);
	double bytes = (all->trainable + all->trainable_expert) * grad_bytes;
	double bucket = fmax(b->tf->request->software.bucket_mib * SC_BYTES_PER_MIB,
			     (layer->trainable + layer->trainable_expert) * grad_bytes);
	double share = b->tf->request->software.bucket_mib > 0 && bytes > bucket
			       ? fmax(bucket / bytes, 1.0 / MOST_BUCKETS)
			       : 1;

	for (double done = 0; done < 1; done += share)
		build_grad_reduce(st, all, fmin(share, 1 - done), st->last_compute);
}

/* Joins a group when its own gradients are there; the step's end waits for that. */
static void join_after_passes(struct class_state *st, uint32_t group, unsigned name)
{
	struct builder *b = st->b;
	uint32_t node = sc_graph_add_member(b->graph, st->lanes.tp, group,
					    (struct sc_node_use){b->zero_cost, name});

	sc_graph_add_dep(b->graph, node, st->last_compute);
	sc_graph_add_dep(b->graph, node, st->last[SC_BESIDE_GRAD]);
	st->awaited = node;
}

/* Sums gradients over classes of several stages, `first` too, each when its own are there. */
static void sum_with(const struct class_state *first, const struct sc_member *members,
		     const struct sc_span *span, double bytes, unsigned name)
{
	struct builder *b = first->b;
	const struct sc_block_env *env = &build_variant(first)->env;
	const struct sc_collective_shape shape = {SC_ALL_REDUCE, bytes, build_grad_dtype(b)};
	struct sc_cost cost = sc_block_comm_alone(env, &shape, span, env->node_peers);
	uint32_t n = (uint32_t)span->n_ranks, group;

	group = sc_graph_add_group(b->graph,
				   (struct sc_node_use){sc_graph_add_cost(b->graph, &cost), name},
				   members, n);
	for (uint32_t i = 0; i < n; i++)
		join_after_passes(&b->cls[members[i].class_id], group, name);
}

/* Sums the gradients of the word embeddings that the first and the last stage share. */
static void tie_embeddings(const struct builder *b, uint32_t first)
{
	const struct sc_rank_class *rc = &b->tf->placement.classes[first];
	const struct sc_span span = {2, rc->prev_remote ? 2 : 1, rc->prev_remote ? 1 : 2};

	sum_with(&b->cls[first], (struct sc_member[]){{first, 1}, {rc->prev_class, 1}}, &span,
		 b->tf->head.trainable * sc_grad_bytes(b->tf->request), SC_NAME_EMBED_TIE);
}

static struct sc_span members_span(const struct builder *b, const struct sc_member *members,
				   uint32_t n)
{
	const struct sc_rank_class *classes = b->tf->placement.classes;
	int nodes = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t seen = 0;

		while (classes[members[seen].class_id].nic_domain !=
		       classes[members[i].class_id].nic_domain)
			seen++;
		nodes += seen == i;
	}
	return (struct sc_span){(int)n, nodes, ((int)n + nodes - 1) / nodes};
}

/* Sums gradients over the stages that hold the same virtual stages, each of another replica;
 * `first` is of the lowest. */
static void sum_replicas(struct builder *b, uint32_t first)
{
	const struct sc_stage_map *map = &b->tf->map;
	const struct sc_params *params = &b->tf->classes[first].params;
	uint32_t stage = (uint32_t)b->tf->placement.classes[first].stage, n = map->replicas;
	struct sc_member *members = sc_arena_calloc(b->arena, n, sizeof(*members));
	struct sc_span span;

	for (uint32_t r = 0; r < n; r++) {
		uint32_t at = map->place[r * map->depth + sc_virtual_stage(map, stage, 0)].stage;

		if (at < stage)
			return;
		/* The member is the class on that stage that the pipeline of `first` meets. */
		uint32_t c = first;
		const struct sc_rank_class *classes = b->tf->placement.classes;

		while ((uint32_t)classes[c].stage != at)
			c = classes[c].next_class;
		members[r] = (struct sc_member){c, 1};
	}
	span = members_span(b, members, n);
	sum_with(&b->cls[first], members, &span,
		 (params->trainable + params->trainable_expert) * sc_grad_bytes(b->tf->request),
		 SC_NAME_GRAD_REDUCE);
}

enum { SMALL_REDUCTIONS = 3 };

/* Returns the group of the small all-reduces over everybody, overflow flag, gradient norm, loss:
 * the iteration's barrier. */
static uint32_t world_group(struct builder *b)
{
	const struct sc_placement *p = &b->tf->placement;
	const struct sc_block_env *env = &b->tf->variant[0]->env;
	uint32_t per_node = (uint32_t)b->tf->fabric.gpus_per_node;
	struct sc_span span = {(int)p->world, (int)((p->world + per_node - 1) / per_node),
			       (int)(p->world < per_node ? p->world : per_node)};
	struct sc_collective_shape shape = {SC_ALL_REDUCE, sc_dtype_bytes(SC_FP32), SC_FP32};
	struct sc_member *all = sc_arena_calloc(b->arena, p->n_classes, sizeof(*all));
	const double n = SMALL_REDUCTIONS;
	struct sc_cost cost;

	cost = sc_block_comm_alone(env, &shape, &span, env->node_peers);
	if (p->world > 1)
		cost.latency_us += env->software->comm_host_us / env->host_speed;
	cost.latency_us = sc_quantize_us(n * cost.latency_us);
	cost.work_us = sc_quantize_us(n * cost.work_us);
	cost.amount *= n;
	for (uint32_t c = 0; c < p->n_classes; c++)
		all[c] = (struct sc_member){c, p->classes[c].multiplicity};
	return sc_graph_add_group(
		b->graph,
		(struct sc_node_use){sc_graph_add_cost(b->graph, &cost), SC_NAME_STEP_COMM}, all,
		(uint32_t)p->n_classes);
}

static uint32_t add_gpu_optimizer(struct class_state *st)
{
	struct builder *b = st->b;
	const struct sc_summary *sum = &b->tf->classes[st->id].optimizer;
	struct sc_cost cost = {.work_us = sum->lead_us + sum->gpu_us};
	uint32_t node;

	if (cost.work_us <= 0)
		return SC_NONE;
	cost.owner_frac[SC_OWN_COMM] = sum->owner_us[SC_OWN_COMM] / cost.work_us;
	cost.owner_frac[SC_OWN_OPTIMIZER] =
		sum->gpu_us / cost.work_us - cost.owner_frac[SC_OWN_COMM];
	cost.owner_frac[SC_OWN_HOST] = sum->lead_us / cost.work_us;
	node = sc_graph_add_node(
		b->graph, SC_NODE_KERNEL, st->lanes.compute,
		(struct sc_node_use){sc_graph_add_cost(b->graph, &cost), SC_NAME_OPTIMIZER});
	sc_graph_add_dep(b->graph, node, st->last_compute);
	return node;
}

/* Adds the optimizer. The CPU's share of the step, copies included, runs beside the GPU's; the GPU
 * waits for what is left of it, and its lane says what for. */
static void add_optimizer(struct class_state *st)
{
	struct builder *b = st->b;
	const struct sc_class_plan *plan = &b->tf->classes[st->id];
	uint32_t gpu = add_gpu_optimizer(st), node;
	double gpu_us = gpu == SC_NONE ? 0 : plan->optimizer.lead_us + plan->optimizer.gpu_us;
	struct sc_cost rest = {.work_us = plan->host_optimizer_us - gpu_us,
			       .owner_frac[SC_OWN_OPTIMIZER] = 1};

	if (gpu != SC_NONE)
		st->last_compute = gpu;
	if (rest.work_us <= 0)
		return;
	node = sc_graph_add_node(
		b->graph, SC_NODE_KERNEL, st->lanes.compute,
		(struct sc_node_use){sc_graph_add_cost(b->graph, &rest), SC_NAME_HOST_OPTIMIZER});
	sc_graph_add_dep(b->graph, node, st->last_compute);
	st->last_compute = node;
}

/* Returns the end of the step's passes and gradients, and of the others' if the optimizer waits to
 * hear of them. */
static uint32_t end_of_passes(struct class_state *st, uint32_t world)
{
	struct builder *b = st->b;
	struct sc_node_use nothing = {b->zero_cost, SC_NAME_STEP_COMM};
	uint32_t node = b->validates_after
				? sc_graph_add_node(b->graph, SC_NODE_EVENT, st->lanes.tp, nothing)
				: sc_graph_add_member(b->graph, st->lanes.tp, world, nothing);

	sc_graph_add_dep(b->graph, node, st->last_compute);
	sc_graph_add_dep(b->graph, node, st->last[SC_BESIDE_GRAD]);
	sc_graph_add_dep(b->graph, node, st->awaited);
	return node;
}

static void finish_class(struct class_state *st, uint32_t world)
{
	struct builder *b = st->b;
	const struct sc_class_plan *plan = &b->tf->classes[st->id];

	build_compute_after(st, end_of_passes(st, world));
	add_optimizer(st);
	b->built->last[st->id] = st->last_compute;
	/* A rank updates a share of the parameters, and all ranks need all of them again. */
	if (plan->is_replicated && b->tf->request->config.training.optimizer != SC_OPT_NONE &&
	    b->sharding.states && !b->sharding.weights) {
		struct sc_params updated = {.dense = plan->params.trainable,
					    .expert = plan->params.trainable_expert};

		b->built->last[st->id] = build_weight_gather(st, &updated, st->last_compute);
	}
}

void build_step_end(struct builder *b)
{
	const struct sc_config *cfg = &b->tf->request->config;
	const struct sc_placement *p = &b->tf->placement;
	const struct sc_sharding_rule *sharding = &b->sharding;
	bool reduced = sharding->weights || (sharding->gradients && sharding->each) ||
		       b->tf->request->software.grad_sync == SC_GRAD_OVERLAP;
	uint32_t world;

	for (uint32_t c = 0; c < p->n_classes; c++)
		if (!reduced && b->tf->classes[c].is_replicated)
			reduce_after(&b->cls[c]);
	for (uint32_t c = 0; c < p->n_classes; c++)
		if (cfg->parallel.pp > 1 && p->classes[c].stage == 0 &&
		    !sc_transformer_stage(b->tf, 0).head && cfg->model.tied_embeddings &&
		    b->tf->head.trainable > 0)
			tie_embeddings(b, c);
	for (uint32_t c = 0; b->tf->map.replicas > 1 && c < p->n_classes; c++)
		sum_replicas(b, c);
	world = b->validates_after ? SC_NONE : world_group(b);
	for (uint32_t c = 0; c < p->n_classes; c++)
		finish_class(&b->cls[c], world);
}
