/* The iteration's skeleton: classes, lanes, schedule slots and the transfers between stages. Each
 * class runs its slots in order; build_chunk.c and build_pair.c fill them, build_step_end.c ends
 * the step. */
#include "predict/transformer/build_transformer.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/config/config_schedule.h"
#include "predict/op_names.h"
#include "predict/transformer/build_priv.h"
#include "predict/transformer/transformer_memory.h"

const struct sc_variant *build_variant(const struct class_state *st)
{
	const struct builder *b = st->b;

	return b->tf->variant[b->tf->classes[st->id].variant];
}

uint32_t build_shared_group(struct builder *b, const struct sc_axis_group *axis,
			    struct group_use use)
{
	struct group_list *list = &b->instance[axis->instance];
	const struct sc_member *members = b->tf->placement.members + axis->first_member;

	while (list->ids.n <= use.seq)
		SC_VEC_PUSH(&list->ids, SC_NONE);
	if (list->ids.at[use.seq] == SC_NONE)
		list->ids.at[use.seq] = sc_graph_add_group(
			b->graph, (struct sc_node_use){use.cost, use.op}, members, axis->n_members);
	return list->ids.at[use.seq];
}

/* Says whether ranks of other classes are in the class's tensor-, context- or expert-parallel
 * groups. */
static bool joins(const struct sc_rank_class *rc)
{
	for (int a = 0; a < SC_N_COMM_AXES; a++) {
		const struct sc_axis_group *g = &rc->group[sc_comm_axis_of[a]];

		if (g->n_members > 1 && g->span.n_ranks > 1)
			return true;
	}
	return false;
}

static void add_classes(struct builder *b)
{
	const struct sc_placement *p = &b->tf->placement;

	for (uint32_t c = 0; c < p->n_classes; c++) {
		const struct sc_rank_class *rc = &p->classes[c];
		struct class_state *st = &b->cls[c];

		struct sc_class value = {
			.multiplicity = rc->multiplicity,
			.nic_domain = rc->nic_domain,
			.ranks_per_domain = rc->ranks_per_domain,
			.slowdown = 1, /* the costs of the class's variant are slowed */
			.name = (uint32_t)rc->stage,
		};

		sc_graph_add_class(b->graph, value);
		st->lanes.host = sc_graph_add_lane(b->graph, c, SC_LANE_HOST);
		st->lanes.compute = sc_graph_add_lane(b->graph, c, SC_LANE_COMPUTE);
		st->lanes.tp = sc_graph_add_lane(b->graph, c, SC_LANE_COMM);
		st->lanes.dp = sc_graph_add_lane(b->graph, c, SC_LANE_COMM);
		if (b->tf->pairs) /* exchanges come first */
			b->graph->lanes.at[st->lanes.tp].priority = 1;
		/* Running kernels make room for its kernels at wave boundaries; by c3.policy plain
		 * each ends first, which a coarse node of many does not. */
		if (!b->full || b->tf->request->c3[SC_C3_DP].policy != SC_C3_PLAIN)
			b->graph->lanes.at[st->lanes.dp].priority = 1;
		/* A loop sends activations to the next stage, their gradients to the one before. */
		for (int back = 0; back < (st->b->loops ? 1 : 2); back++)
			for (int gradient = 0; gradient < 2; gradient++)
				for (int sends = 1; sends >= 0; sends--)
					st->lanes
						.p2p[(gradient != sends) != back][gradient][sends] =
						sc_graph_add_lane(st->b->graph, st->id,
								  SC_LANE_COMM);
		if (b->offloads) {
			st->lanes.from_host = sc_graph_add_lane(b->graph, c, SC_LANE_COPY);
			st->lanes.to_host = sc_graph_add_lane(b->graph, c, SC_LANE_COPY);
		}
		st->last_compute = st->awaited = st->began_after = SC_NONE;
		memset(st->last, 0xff, sizeof(st->last));
		st->n_dp = 0;
		st->joins = joins(rc);
		st->ahead_us = -HUGE_VAL;
		st->host_after = SC_NONE;
	}
}

/* Returns the cost of moving one micro-batch's activations (or their gradients) to the neighbouring
 * stage, split over the tensor-parallel ranks where the software does so, then gathered at arrival.
 */
static struct sc_cost transfer_cost(const struct builder *b, const struct sc_variant *v,
				    bool remote, double samples)
{
	const struct sc_config *cfg = &b->tf->request->config;
	double tp = (double)cfg->parallel.tp;
	bool split =
		tp > 1 && (cfg->parallel.sequence_parallel || v->env.software->scatter_gather_p2p);
	enum sc_dtype dtype = sc_storage_dtype(cfg->training.precision);
	double e = sc_dtype_bytes(dtype);
	double tokens = samples * (double)cfg->model.seq * cfg->training.fill_fraction /
			(double)cfg->parallel.cp;
	double bytes = tokens * sc_model_streams(&cfg->model) * (double)cfg->model.hidden * e;
	struct sc_span span = {2, remote ? 2 : 1, remote ? 1 : 2};
	struct sc_collective_shape send = {SC_SEND_RECV, split ? bytes / tp : bytes, dtype};
	struct sc_collective_shape gather = {SC_ALL_GATHER, bytes, dtype};
	struct sc_cost out, arrival;

	out = sc_block_comm_alone(&v->env, &send, &span, v->env.node_peers);
	out.latency_us += sc_quantize_us(v->env.software->comm_host_us / v->env.host_speed);
	if (split && !cfg->parallel.sequence_parallel) {
		arrival = sc_block_comm_alone(&v->env, &gather, &v->env.span[SC_COMM_TP],
					      v->env.axis_node_peers[SC_COMM_TP]);
		out.work_us += sc_cost_alone_us(&arrival);
	}
	return out;
}

struct transfer {
	uint32_t from, to; /* two classes */
	uint32_t chunk;    /* the sender's */
	uint32_t micro_batch;
	bool gradient, remote, to_next;
};

static uint32_t transfer_at(const struct builder *b, const struct transfer *t)
{
	return (t->from * b->tf->map.n_chunks + t->chunk) * b->built->shape.micro_batches +
	       t->micro_batch;
}

static uint32_t add_transfer_member(struct builder *b, const struct transfer *t, bool sending)
{
	const struct class_lanes *lanes = &b->cls[sending ? t->from : t->to].lanes;
	uint32_t lane = lanes->p2p[t->to_next == sending][t->gradient][sending];
	uint32_t *slot = &b->transfer[t->gradient][transfer_at(b, t)];
	unsigned name = t->gradient ? SC_NAME_SEND_GRADIENT : SC_NAME_SEND_ACTIVATION;
	const bool prints = b->graph->prints;
	uint32_t node;

	b->graph->prints = false; /* transfers follow from the order of passes */
	if (*slot == SC_NONE) {
		struct sc_member pair[2] = {{t->from, 1}, {t->to, 1}};
		uint32_t cost = b->act_cost[b->tf->classes[t->from].variant][t->remote]
					   [build_is_partial(b, t->micro_batch)];

		*slot = sc_graph_add_group(
			b->graph,
			(struct sc_node_use){cost, sc_op_pack(name, t->chunk, t->micro_batch)},
			pair, 2);
	}
	node = sc_graph_add_member(
		b->graph, lane, *slot,
		(struct sc_node_use){b->zero_cost, b->graph->groups.at[*slot].op});
	b->graph->prints = prints;
	return node;
}

/* Returns the route of a chunk's forward passes, or of its backward ones, which send gradients. */
static struct route find_route(const struct class_state *st, uint32_t chunk, bool gradient,
			       bool incoming)
{
	const struct builder *b = st->b;
	const struct sc_rank_class *rc = &b->tf->placement.classes[st->id];
	const struct sc_stage_map *map = &b->tf->map;
	const struct sc_slot slot = {
		.virtual_stage = sc_virtual_stage(map, (uint32_t)rc->stage, chunk),
		/* replicas of the model are chunks */
		.micro_batch = map->replicas > 1 ? chunk : 0,
		.kind = gradient ? SC_PASS_BACKWARD : SC_PASS_FORWARD,
	};
	struct sc_stage_place peer;
	bool is_next;

	if (map->pp == 1 || !sc_slot_peer(map, &slot, incoming, &peer) ||
	    (peer.stage == (uint32_t)rc->stage && !b->loops))
		return (struct route){.peer = SC_NONE};
	if (b->loops)
		is_next = incoming == gradient;
	else if (map->pp == 2) /* the other stage is the next and the one before */
		is_next = peer.stage > (uint32_t)rc->stage;
	else
		is_next = peer.stage == ((uint32_t)rc->stage + 1) % map->pp;
	return (struct route){
		.peer = is_next ? rc->next_class : rc->prev_class,
		.peer_chunk = peer.chunk,
		.remote = is_next ? rc->next_remote : rc->prev_remote,
		.is_next = is_next,
	};
}

/* Finds the transfer that feeds a slot (incoming) or that it feeds; returns false at the pipeline's
 * ends, between chunks of one stage, and for gradients of weights. */
static bool slot_transfer(const struct class_state *st, const struct sc_slot *slot, bool incoming,
			  struct transfer *out)
{
	bool gradient = sc_pass_is_backward((enum sc_pass_kind)slot->kind);
	const struct route *route =
		&st->routes[slot->chunk * 4u + (gradient ? 2u : 0u) + (incoming ? 1u : 0u)];

	if (slot->kind == SC_PASS_BACKWARD_WEIGHT || route->peer == SC_NONE)
		return false;
	*out = (struct transfer){
		.from = incoming ? route->peer : st->id,
		.to = incoming ? st->id : route->peer,
		.chunk = incoming ? route->peer_chunk : slot->chunk,
		.micro_batch = slot->micro_batch,
		.gradient = gradient,
		.remote = route->remote,
		.to_next = route->is_next != incoming,
	};
	return true;
}

/* Receives what feeds a slot; receives are posted in the order in which the peer sends, which need
 * not be that of the passes. */
static uint32_t receive(struct class_state *st, const struct transfer *t)
{
	struct builder *b = st->b;
	const struct class_state *peer = &b->cls[t->from];
	uint32_t stage = (uint32_t)b->tf->placement.classes[t->from].stage;
	uint32_t *at = &st->n_received[!t->to_next][t->gradient];
	uint32_t *node = &b->received[t->gradient][transfer_at(b, t)];
	const struct sc_slot *sent = sc_passes_of(&b->built->passes, stage);

	while (*node == SC_NONE && *at < b->built->passes.n[stage]) {
		const struct sc_slot *slot = &sent[(*at)++];
		struct transfer other;

		if (sc_pass_is_backward((enum sc_pass_kind)slot->kind) != t->gradient ||
		    !slot_transfer(peer, slot, false, &other) || other.to_next != t->to_next)
			continue;
		other.to = t->to; /* the peer may send the same to several classes */
		b->received[t->gradient][transfer_at(b, &other)] =
			add_transfer_member(b, &other, false);
		if (b->posts_late && st->last_compute != SC_NONE)
			sc_graph_add_dep(b->graph, b->received[t->gradient][transfer_at(b, &other)],
					 st->last_compute);
	}
	assert(*node != SC_NONE);
	return *node;
}

static uint32_t build_slot(struct class_state *st, const struct sc_slot *slot)
{
	struct builder *b = st->b;
	struct transfer t;
	uint32_t recv = SC_NONE, node;

	if (slot_transfer(st, slot, true, &t))
		recv = receive(st, &t);
	node = build_chunk(st, slot, recv);
	if (slot_transfer(st, slot, false, &t)) {
		uint32_t send = add_transfer_member(b, &t, true);

		sc_graph_add_dep(b->graph, send, node);
		st->awaited = send;
	} else {
		st->awaited = SC_NONE;
	}
	return node;
}

/* Builds a pair: both begin when the inputs of both are there, and send when both are done. */
static void build_two(struct class_state *st, const struct sc_slot *slots, uint32_t node[2])
{
	struct transfer t;
	uint32_t recv[2] = {SC_NONE, SC_NONE};

	for (int i = 0; i < 2; i++)
		if (slot_transfer(st, &slots[i], true, &t))
			recv[i] = receive(st, &t);
	build_pair(st, slots, recv, node);
	st->awaited = SC_NONE;
	for (int i = 0; i < 2; i++)
		if (slot_transfer(st, &slots[i], false, &t))
			sc_graph_add_dep(st->b->graph, add_transfer_member(st->b, &t, true),
					 node[1]);
}

static bool is_pair(const struct class_state *st, const struct sc_slot *slots)
{
	/* A chunk's gradients are reduced in parts after its last pass. */
	return st->b->tf->pairs && slots[0].paired && slots[0].kind == SC_PASS_FORWARD &&
	       slots[1].kind == SC_PASS_BACKWARD && !slots[1].last;
}

static void end_slot(struct builder *b, uint32_t c, size_t at)
{
	for (int k = 0; k < SC_N_BESIDE; k++)
		b->built->slot_beside[k][at] = b->cls[c].last[k];
}

static void build_class(struct builder *b, uint32_t c)
{
	uint32_t stage = (uint32_t)b->tf->placement.classes[c].stage;
	const struct sc_slot *slots = sc_passes_of(&b->built->passes, stage);
	size_t at = (size_t)c * b->built->passes.stride;
	const struct sc_block_env *env = &build_variant(&b->cls[c])->env;
	const struct sc_node_use start = {
		sc_block_host_cost(b->graph, env, env->software->host_step_us), SC_NAME_STEP_HOST};

	/* The first pass waits for the step's start. */
	b->cls[c].awaited = sc_graph_add_node(b->graph, SC_NODE_HOST, b->cls[c].lanes.host, start);
	const uint32_t n = b->built->passes.n[stage];

	for (uint32_t i = 0; b->only_costs && (i = build_go_on(&b->cls[c], slots, i, n)) < n; i++)
		build_chunk(&b->cls[c], &slots[i], SC_NONE);
	for (size_t i = 0; i < n && !b->only_costs; i++) {
		end_slot(b, c, at + i);
		if (is_pair(&b->cls[c], &slots[i])) {
			build_two(&b->cls[c], &slots[i], &b->built->slot_node[at + i]);
			i++;
		} else
			b->built->slot_node[at + i] = build_slot(&b->cls[c], &slots[i]);
		end_slot(b, c, at + i);
	}
	b->built->compute[c] = b->cls[c].lanes.compute;
}

/* Returns a table of ids that are SC_NONE, or of structs of such. */
static void *none_table(struct sc_arena *arena, size_t n, size_t size)
{
	return memset(sc_arena_calloc(arena, n + 1, size), 0xff, n * size);
}

static void builder_init(struct builder *b, struct sc_arena *arena)
{
	const struct sc_transformer *tf = b->tf;
	const struct sc_schedule_shape *shape = &b->built->shape;
	size_t n = tf->placement.n_classes;
	const bool sends = shape->pp > 1 && !b->only_costs;
	size_t n_transfers = sends ? n * tf->map.n_chunks * shape->micro_batches : 0;
	size_t n_costs = n * tf->map.n_chunks * SC_N_PASS_KINDS * 2;
	size_t n_slots = b->only_costs ? 0 : n * b->built->passes.stride;
	size_t n_pairs = tf->pairs ? n * tf->map.n_chunks * tf->map.n_chunks * 4 : 0;

	b->arena = arena;
	b->cls = sc_arena_calloc(arena, n, sizeof(*b->cls));
	b->instance = sc_arena_calloc(arena, tf->placement.n_instances + 1, sizeof(*b->instance));
	for (int gradient = 0; gradient < 2; gradient++) {
		b->transfer[gradient] = none_table(arena, n_transfers, sizeof(uint32_t));
		b->received[gradient] = none_table(arena, n_transfers, sizeof(uint32_t));
	}
	b->pass_costs = none_table(arena, n_costs, sizeof(*b->pass_costs));
	if (b->sharding.weights)
		b->sharded_costs = none_table(arena, n_costs * 4, sizeof(*b->sharded_costs));
	b->dp_costs = sc_arena_calloc(arena, 1, sizeof(*b->dp_costs));
	b->pair_costs = none_table(arena, n_pairs, sizeof(*b->pair_costs));
	b->built->beside = sc_arena_calloc(arena, 2 * n_pairs + 1, sizeof(*b->built->beside));
	b->built->n_beside = 0;
	b->built->slot_node = sc_arena_calloc(arena, n_slots, sizeof(uint32_t));
	for (int k = 0; k < SC_N_BESIDE; k++)
		b->built->slot_beside[k] = sc_arena_calloc(arena, n_slots, sizeof(uint32_t));
	b->built->compute = sc_arena_calloc(arena, n, sizeof(uint32_t));
	b->built->last = sc_arena_calloc(arena, n, sizeof(uint32_t));
	b->loops = sc_schedule_traits(shape->kind).loops;
	b->validates_after = shape->pp > 1 && sc_schedule_validates_after(
						      &tf->request->config.parallel, tf->schedule);
	/* The runtimes of other schedules go on without the host (zero-bubble, DualPipe, PyTorch's
	 * pipelining), but ask for what a pass needs after the one before it, and NCCL's stream
	 * waits for what was launched. */
	b->posts_late = shape->kind > SC_SCHED_INTERLEAVED && shape->kind != SC_SCHED_PIPEDREAM_2BW;
	b->sync_p2p =
		shape->pp > 1 && tf->request->c3[SC_C3_PP].policy == SC_C3_SERIAL && !b->posts_late;
	b->full = tf->opts->detail == SC_DETAIL_FULL;
	for (uint32_t c = 0; c < n; c++) {
		b->cls[c].b = b;
		b->cls[c].id = c;
		if (!b->only_costs) {
			b->cls[c].costs = sc_arena_calloc(arena, 4, sizeof(*b->cls[c].costs));
			b->cls[c].pair_costs = b->cls[c].costs + 2;
		}
		b->cls[c].routes =
			sc_arena_calloc(arena, 4 * (size_t)tf->map.n_chunks, sizeof(struct route));
		for (uint32_t i = 0; i < 4 * tf->map.n_chunks && !b->only_costs; i++)
			b->cls[c].routes[i] = find_route(&b->cls[c], i / 4, i & 2, i & 1);
		for (int p = 0; b->full && tf->pairs && p < 2; p++)
			for (int k = 0; k < SC_N_BLOCKS; k++)
				b->cls[c].pair_costs[p][k] = sc_block_no_costs(
					&build_variant(&b->cls[c])->block[p][k], arena);
	}
}

/* Finds what a layer of each kind keeps, once: every pass asks for it. */
static void find_layer_kept(struct builder *b)
{
	const struct sc_transformer *tf = b->tf;
	const struct sc_training *training = &tf->request->config.training;
	double samples[] = {(double)training->micro_batch, tf->request->last_micro_batch};

	if (training->offload.activations <= SC_TIER_NONE)
		return;
	for (int partial = 0; partial < (tf->partial ? 2 : 1); partial++)
		for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
			if (tf->layers.of[kind] > 0 || kind == 0)
				b->layer_kept[partial][kind] =
					sc_layer_bytes_of(tf->request, samples[partial], kind).kept;
}

/* Builds all but what passes and the step's end add. */
static void builder_begin(struct builder *b)
{
	const struct sc_transformer *tf = b->tf;
	const double samples[2] = {(double)tf->request->config.training.micro_batch,
				   tf->request->last_micro_batch};
	struct sc_cost zero = {0};

	sc_graph_clear(b->graph);
	builder_init(b, b->scratch->arena);
	b->zero_cost = sc_graph_add_cost(b->graph, &zero);
	add_classes(b);
	b->act_cost = sc_arena_alloc(b->scratch->arena, tf->n_variants * sizeof(*b->act_cost));
	for (size_t v = 0; v < tf->n_variants; v++)
		for (int remote = 0; remote < 2; remote++)
			for (int partial = 0; partial < 2; partial++) {
				struct sc_cost cost;

				if (partial && !tf->partial) {
					b->act_cost[v][remote][1] = b->act_cost[v][remote][0];
					continue;
				}
				cost = transfer_cost(b, tf->variant[v], remote, samples[partial]);
				b->act_cost[v][remote][partial] =
					sc_graph_add_cost(b->graph, &cost);
			}
	b->by_op = !b->full && build_reduces_unevenly(b);
}

static void builder_run(struct builder *b)
{
	const struct sc_placement *placement = &b->tf->placement;

	for (uint32_t c = 0; c < placement->n_classes; c++)
		build_class(b, c);
	build_step_end(b);
	for (size_t i = 0; i < placement->n_instances; i++)
		SC_VEC_RELEASE(&b->instance[i].ids);
}

/* Takes a kept graph. Neighbours of a sweep have pipelines of the same nodes, if hosts are as
 * early: those that are kept get their costs. Otherwise the builder has its graph to build. */
static bool build_again(struct builder *b)
{
	struct builder again = *b;
	const struct sc_passes own = b->built->passes;
	const struct kept_graph *like;

	again.only_costs = true;
	builder_begin(&again);
	like = build_find_kept(&again);
	if (!like)
		return false;
	if (!own.slots)
		b->built->passes = *build_kept_passes(like);
	again.graph->prints = again.graph->only_costs = true;
	builder_run(&again);
	if (build_take_kept(&again, like))
		return true;
	b->built->passes = own;
	return false;
}

void sc_transformer_build(const struct sc_transformer *tf, struct sc_build_scratch *scratch,
			  struct sc_graph *graph, struct sc_built *built)
{
	struct builder b = {.tf = tf,
			    .scratch = scratch,
			    .graph = graph,
			    .built = built,
			    .sharding = sc_sharding_rule(tf->request),
			    .offloads = sc_offload_moves(&tf->request->config.training.offload)};
	const bool timed = sc_schedule_traits(built->shape.kind).is_timed;

	if (b.offloads) {
		sc_host_rates(tf->request, &tf->fabric, &b.host_rates);
		find_layer_kept(&b);
	}
	sc_graph_store_give_back(tf->store, graph);
	built->passes.slots = NULL;
	if (timed)
		sc_passes_build(&built->shape, &tf->map, scratch->arena, &built->passes);
	if (build_is_kept(&b)) {
		if (build_again(&b))
			return;
		build_keep_begin(&b);
	}
	if (!timed)
		sc_passes_build(&built->shape, &tf->map, scratch->arena, &built->passes);
	builder_begin(&b);
	graph->prints = build_is_kept(&b);
	builder_run(&b);
	sc_graph_seal(graph);
	if (graph->prints)
		build_keep(&b);
}
