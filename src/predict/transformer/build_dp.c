/* The data-parallel collectives: the cost of one, of which those asked for again are remembered,
 * and its node. */
#include <math.h>
#include <string.h>

#include "predict/op_names.h"
#include "predict/transformer/build_priv.h"

enum sc_dtype build_grad_dtype(const struct builder *b)
{
	return sc_grad_bytes(b->tf->request) > sc_dtype_bytes(SC_FP16) ? SC_FP32 : SC_FP16;
}

/* One collective after another, as one node: their times and loads add up. Each is as long as the
 * node's other ranks, which do the same, leave it of the NICs: beside one that leaves them free,
 * that would be lost. */
struct series {
	struct class_state *st;
	struct sc_cost sum;
};

static double beside(const struct sc_cost *cost)
{
	return cost->beside_frac > 0 ? cost->beside_frac : 1;
}

static void append(struct sc_cost *sum, struct sc_cost cost, double peers)
{
	if (!(sc_cost_alone_us(sum) > 0)) {
		*sum = cost;
		return;
	}
	sc_block_share_nics(peers, sum);
	sc_block_share_nics(peers, &cost);
	/* The share that is left beside kernels is that of both works. */
	const double beside_us = sum->work_us / beside(sum) + cost.work_us / beside(&cost);

	sum->beside_frac = (sum->work_us + cost.work_us) / fmax(beside_us, 1e-9);
	for (int r = 0; r < SC_N_RES && sum->work_us + cost.work_us > 0; r++)
		sum->demand[r] = (sum->demand[r] * sum->work_us + cost.demand[r] * cost.work_us) /
				 (sum->work_us + cost.work_us);
	sum->latency_us += cost.latency_us;
	sum->work_us += cost.work_us;
	sum->holds_sm |= cost.holds_sm;
	sum->amount += sum->comm == cost.comm ? cost.amount : 0;
}

static void add_collective_cost(struct series *series, enum sc_collective kind, double bytes,
				const struct sc_span *span)
{
	const struct builder *b = series->st->b;
	struct sc_block_env env = build_variant(series->st)->env;
	/* Some stacks move weights sharded over dp tensor by tensor. */
	double pieces = b->sharding.weights ? b->tf->request->software.gathers_per_layer : 1;
	struct sc_collective_shape shape = {kind, bytes / pieces, build_grad_dtype(b)};
	struct sc_cost cost;

	if (span->n_ranks <= 1 || bytes <= 0)
		return;
	env.fabric = sc_transformer_fabric(b->tf, series->st->id, SC_AXIS_DP);
	sc_block_comm_by(&env, SC_C3_DP, &shape, span, &cost);
	cost.latency_us = sc_quantize_us(
		pieces * (cost.latency_us + env.software->comm_host_us / env.host_speed));
	cost.work_us = sc_quantize_us(pieces * cost.work_us);
	cost.amount = bytes;
	append(&series->sum, cost, env.node_peers);
}

static uint32_t build_dp_node(struct class_state *st, uint32_t cost, unsigned name, uint32_t after)
{
	static const struct sc_member self = {0, 1};
	struct builder *b = st->b;
	const struct sc_axis_group *dp = &b->tf->placement.classes[st->id].group[SC_AXIS_DP];
	struct sc_node_use use = {cost, name};
	uint32_t group =
		b->alone ? sc_graph_add_group(b->graph, use, &self, 1)
			 : build_shared_group(b, dp, (struct group_use){st->n_dp++, cost, name});
	uint32_t node = sc_graph_add_member(b->graph, st->lanes.dp, group,
					    (struct sc_node_use){b->zero_cost, name});

	sc_graph_add_dep(b->graph, node, after);
	return node;
}

/* Adds the reduction of one kind of parameters' gradients: all-reduced, or scattered over the ranks
 * that shard them and all-reduced over the copies. */
static void add_reduction(struct series *series, double bytes, const struct sc_replica_spans *spans)
{
	if (!series->st->b->sharding.scatters) {
		add_collective_cost(series, SC_ALL_REDUCE, bytes, &spans->all);
		return;
	}
	add_collective_cost(series, SC_REDUCE_SCATTER, bytes, &spans->shard);
	add_collective_cost(series, SC_ALL_REDUCE, bytes / spans->shard.n_ranks, &spans->copies);
}

/* The question for a data-parallel exchange of so many bytes of the parameters but the experts',
 * and of theirs; bytes without a meaning are 0. */
struct dp_key {
	struct sc_replicas spans;
	const struct sc_fabric *fabric;
	double bytes, expert_bytes;
	uint32_t variant;
	uint32_t gathers;
};
struct dp_cost {
	struct dp_key key;
	struct sc_cost cost;
	struct dp_cost *next;
};

static struct sc_cost dp_cost(struct class_state *st, double bytes, double expert_bytes,
			      bool gathers)
{
	struct dp_key key;

	memset(&key, 0, sizeof(key));
	key.spans = st->b->tf->classes[st->id].replicas;
	key.fabric = sc_transformer_fabric(st->b->tf, st->id, SC_AXIS_DP);
	key.bytes = bytes;
	key.expert_bytes = expert_bytes;
	key.variant = st->b->tf->classes[st->id].variant;
	key.gathers = gathers;
	struct series series = {.st = st};
	struct dp_cost *found;

	for (found = *st->b->dp_costs; found; found = found->next)
		if (memcmp(&found->key, &key, sizeof(key)) == 0)
			return found->cost;
	if (key.gathers) {
		add_collective_cost(&series, SC_ALL_GATHER, key.bytes, &key.spans.dense.shard);
		add_collective_cost(&series, SC_ALL_GATHER, key.expert_bytes,
				    &key.spans.expert.shard);
	} else {
		add_reduction(&series, key.bytes, &key.spans.dense);
		add_reduction(&series, key.expert_bytes, &key.spans.expert);
	}
	found = sc_arena_calloc(st->b->arena, 1, sizeof(*found));
	*found = (struct dp_cost){key, series.sum, *st->b->dp_costs};
	*st->b->dp_costs = found;
	return found->cost;
}

struct sc_cost build_reduce_cost(struct class_state *st, const struct sc_params *params, double n)
{
	double bytes = n * sc_grad_bytes(st->b->tf->request);

	return dp_cost(st, params->trainable * bytes, params->trainable_expert * bytes, false);
}

struct sc_cost build_gather_cost(struct class_state *st, const struct sc_params *params)
{
	double bytes = sc_transformer_gathered_bytes(st->b->tf->request);

	return dp_cost(st, params->dense * bytes, params->expert * bytes, true);
}

void build_grad_reduce(struct class_state *st, const struct sc_params *params, double n,
		       uint32_t after)
{
	struct sc_cost cost = build_reduce_cost(st, params, n);

	st->last[SC_BESIDE_GRAD] = build_dp_node(st, sc_graph_add_cost(st->b->graph, &cost),
						 SC_NAME_GRAD_REDUCE, after);
}

uint32_t build_weight_gather(struct class_state *st, const struct sc_params *params, uint32_t after)
{
	struct sc_cost cost = build_gather_cost(st, params);

	return build_dp_node(st, sc_graph_add_cost(st->b->graph, &cost), SC_NAME_PARAM_GATHER,
			     after);
}

/* Returns the share of the step in which a class's passes run beside the reduction of their
 * gradients, once in `n` micro-batches. */
static double reducing_frac(struct class_state *st, double n)
{
	const struct builder *b = st->b;
	const struct sc_class_plan *plan = &b->tf->classes[st->id];
	struct sc_cost cost = build_reduce_cost(st, &plan->params, 1);
	double forward_us = 0, backward_us = 0;

	sc_block_share_nics(build_variant(st)->env.node_peers, &cost);
	for (uint32_t k = 0; k < b->tf->map.n_chunks; k++) {
		struct sc_slot slot = build_slot_of(b->tf, st->id, k, SC_PASS_FORWARD);

		forward_us += build_pass_us(b->tf, st->id, &slot, false);
		slot.kind = SC_PASS_BACKWARD;
		backward_us += build_pass_us(b->tf, st->id, &slot, false);
	}
	return fmin(sc_cost_alone_us(&cost), backward_us) / (n * (forward_us + backward_us));
}

/* A block's mean tells little of steps that go so differently beside a reduction for so long: of
 * 3,072 splits at random it was more than 1 % off in 75 of the 791 above this, in 14 of others. */
#define UNEVEN 0.03

bool build_reduces_unevenly(struct builder *b)
{
	bool each = b->sharding.gradients && b->sharding.each;
	bool reduces = each || b->tf->request->software.grad_sync == SC_GRAD_OVERLAP;
	double n = each ? 1 : (double)b->tf->request->n_micro_batches, uneven = 0;
	const struct sc_variant *last = NULL;
	int n_kinds = b->tf->request->config.model.layers_pattern ? SC_N_LAYER_KINDS : 1;

	for (uint32_t c = 0; reduces && !b->sharding.weights && c < b->tf->placement.n_classes;
	     c++) {
		const struct sc_variant *v = build_variant(&b->cls[c]);

		if (!b->tf->classes[c].is_replicated)
			continue;
		if (v != last)
			uneven = 0;
		for (int kind = 0; v != last && kind < n_kinds; kind++)
			uneven = fmax(uneven, v->uneven[kind]);
		last = v;
		if (uneven > UNEVEN * n && uneven * reducing_frac(&b->cls[c], n) > UNEVEN)
			return true;
	}
	return false;
}
