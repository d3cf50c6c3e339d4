/* The iteration's skeleton: classes, lanes, schedule slots and the transfers between stages. */
#include "predict/transformer/build_transformer.h"

#include <math.h>
#include <string.h>

#include "predict/build_priv.h"
#include "predict/op_names.h"

const struct sc_variant *build_variant(const struct builder *b, uint32_t c)
{
	return &b->tf->variant[b->tf->classes[c].variant];
}

uint32_t build_shared_group(struct builder *b, const struct sc_axis_group *axis, uint32_t seq,
			    uint32_t cost, uint32_t op)
{
	struct group_list *list = &b->instance[axis->instance];
	const struct sc_member *members = b->tf->placement.members + axis->first_member;

	while (list->ids.n <= seq)
		SC_VEC_PUSH(&list->ids, SC_NONE);
	if (list->ids.at[seq] == SC_NONE)
		list->ids.at[seq] =
			sc_graph_add_group(b->graph, cost, members, axis->n_members, op);
	return list->ids.at[seq];
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
			.slowdown = 1, /* already in the costs of the class's variant */
			.name = (uint32_t)rc->stage,
		};

		sc_graph_add_class(b->graph, value);
		st->lanes.host = sc_graph_add_lane(b->graph, c, SC_LANE_HOST);
		st->lanes.compute = sc_graph_add_lane(b->graph, c, SC_LANE_COMPUTE);
		st->lanes.tp = sc_graph_add_lane(b->graph, c, SC_LANE_COMM);
		st->lanes.dp = sc_graph_add_lane(b->graph, c, SC_LANE_COMM);
		/* running kernels make room for it at wave boundaries */
		b->graph->lanes.at[st->lanes.dp].priority = 1;
		st->lanes.act_send = sc_graph_add_lane(b->graph, c, SC_LANE_COMM);
		st->lanes.act_recv = sc_graph_add_lane(b->graph, c, SC_LANE_COMM);
		st->lanes.grad_send = sc_graph_add_lane(b->graph, c, SC_LANE_COMM);
		st->lanes.grad_recv = sc_graph_add_lane(b->graph, c, SC_LANE_COMM);
		st->last_compute = st->awaited = st->last_grad = SC_NONE;
		st->n_dp = 0;
	}
}

/* Cost of moving one micro-batch's activations (or their gradients) to the neighbouring stage. Split
 * over the tensor-parallel ranks where the software does so, then gathered at arrival. */
static void transfer_cost(const struct builder *b, const struct sc_variant *v, bool remote,
			  double samples, struct sc_cost *out)
{
	const struct sc_config *cfg = &b->tf->request->config;
	double tp = (double)cfg->parallel.tp;
	bool split =
		tp > 1 && (cfg->parallel.sequence_parallel || v->env.software->scatter_gather_p2p);
	enum sc_dtype dtype = sc_storage_dtype(cfg->training.precision);
	double e = sc_dtype_bytes(dtype);
	double tokens = samples * (double)cfg->model.seq * cfg->training.fill_fraction /
			(double)cfg->parallel.cp;
	double bytes = tokens * (double)cfg->model.hidden * e;
	struct sc_span span = {2, remote ? 2 : 1, remote ? 1 : 2};
	struct sc_collective_shape send = {SC_SEND_RECV, split ? bytes / tp : bytes, dtype};
	struct sc_collective_shape gather = {SC_ALL_GATHER, bytes, dtype};
	struct sc_cost arrival;

	sc_block_comm_alone(&v->env, &send, &span, v->env.node_peers, out);
	out->latency_us += sc_quantize_us(v->env.software->comm_host_us / v->env.host_speed);
	if (split && !cfg->parallel.sequence_parallel) {
		sc_block_comm_alone(&v->env, &gather, &v->env.span[SC_COMM_TP],
				    v->env.axis_node_peers[SC_COMM_TP], &arrival);
		out->work_us += arrival.latency_us + arrival.work_us;
	}
}

static double micro_batch_samples(const struct sc_transformer *tf, bool partial)
{
	return partial ? tf->request->last_micro_batch
		       : (double)tf->request->config.training.micro_batch;
}

static void add_transfer_costs(struct builder *b)
{
	for (size_t v = 0; v < b->tf->n_variants; v++)
		for (int remote = 0; remote < 2; remote++)
			for (int partial = 0; partial < 2; partial++) {
				struct sc_cost cost;

				transfer_cost(b, &b->tf->variant[v], remote,
					      micro_batch_samples(b->tf, partial), &cost);
				b->act_cost[v][remote][partial] =
					sc_graph_add_cost(b->graph, &cost);
			}
}

struct transfer {
	uint32_t from, to; /* classes */
	uint32_t chunk;    /* of the sender */
	uint32_t micro_batch;
	bool gradient, remote;
};

static uint32_t transfer_group(struct builder *b, const struct transfer *t)
{
	const struct sc_schedule_shape *shape = &b->built->shape;
	uint32_t *table = t->gradient ? b->grad_group : b->act_group;
	uint32_t *slot =
		&table[(t->from * shape->virtual_stages + t->chunk) * shape->micro_batches +
		       t->micro_batch];
	unsigned name = t->gradient ? SC_NAME_SEND_GRADIENT : SC_NAME_SEND_ACTIVATION;

	if (*slot == SC_NONE) {
		struct sc_member pair[2] = {{t->from, 1}, {t->to, 1}};
		uint32_t cost = b->act_cost[b->tf->classes[t->from].variant][t->remote]
					   [build_is_partial(b, t->micro_batch)];

		*slot = sc_graph_add_group(b->graph, cost, pair, 2,
					   sc_op_pack(name, t->chunk, t->micro_batch));
	}
	return *slot;
}

static uint32_t add_transfer_member(struct builder *b, const struct transfer *t, bool sending)
{
	struct class_lanes *lanes = &b->cls[sending ? t->from : t->to].lanes;
	uint32_t lane = t->gradient ? (sending ? lanes->grad_send : lanes->grad_recv)
				    : (sending ? lanes->act_send : lanes->act_recv);
	uint32_t group = transfer_group(b, t);

	return sc_graph_add_member(b->graph, lane, group, b->zero_cost,
				   b->graph->groups.at[group].op);
}

/* The transfer that feeds a slot (incoming) or that it feeds. False at the pipeline's ends. */
static bool slot_transfer(const struct builder *b, uint32_t c, const struct sc_slot *slot,
			  bool incoming, struct transfer *out)
{
	const struct sc_schedule_shape *shape = &b->built->shape;
	const struct sc_rank_class *rc = &b->tf->placement.classes[c];
	uint32_t stage = (uint32_t)rc->stage, last = shape->pp - 1;
	bool up = incoming != (bool)slot->backward; /* the peer is the previous virtual stage */
	bool wraps = up ? stage == 0 : stage == last;
	uint32_t peer = up ? rc->prev_class : rc->next_class;
	uint32_t peer_chunk = slot->chunk;

	if (shape->pp == 1)
		return false;
	if (wraps) {
		if (up ? slot->chunk == 0 : slot->chunk + 1u == shape->virtual_stages)
			return false;
		peer_chunk = up ? slot->chunk - 1u : slot->chunk + 1u;
	}
	*out = (struct transfer){
		.from = incoming ? peer : c,
		.to = incoming ? c : peer,
		.chunk = incoming ? peer_chunk : slot->chunk,
		.micro_batch = slot->micro_batch,
		.gradient = slot->backward,
		.remote = up ? rc->prev_remote : rc->next_remote,
	};
	return true;
}

static uint32_t build_slot(struct builder *b, uint32_t c, const struct sc_slot *slot,
			   bool last_backward)
{
	struct class_state *st = &b->cls[c];
	struct transfer t;
	uint32_t recv = SC_NONE, node;

	if (slot_transfer(b, c, slot, true, &t))
		recv = add_transfer_member(b, &t, false);
	node = build_chunk(b, c, slot, recv, last_backward);
	if (slot_transfer(b, c, slot, false, &t)) {
		uint32_t send = add_transfer_member(b, &t, true);

		sc_graph_add_dep(b->graph, send, node);
		st->awaited = send;
	} else {
		st->awaited = SC_NONE;
	}
	return node;
}

static void build_class(struct builder *b, uint32_t c, struct sc_slot *slots)
{
	const struct sc_schedule_shape *shape = &b->built->shape;
	struct sc_cost start = {
		.work_us = sc_quantize_us(build_variant(b, c)->env.software->host_step_us /
					  build_variant(b, c)->env.host_speed),
		.owner_frac[SC_OWN_HOST] = 1,
	};
	uint32_t first = sc_graph_add_node(b->graph, SC_NODE_HOST, b->cls[c].lanes.host,
					   sc_graph_add_cost(b->graph, &start), SC_NAME_STEP_HOST);

	sc_schedule_stage(shape, (uint32_t)b->tf->placement.classes[c].stage, slots);
	b->cls[c].awaited = first; /* the first pass waits for the step's start */
	for (size_t i = 0; i < b->built->n_slots; i++) {
		bool last = slots[i].backward && slots[i].micro_batch + 1 == shape->micro_batches;

		b->built->slot_node[c * b->built->n_slots + i] = build_slot(b, c, &slots[i], last);
		b->built->slot_grad[c * b->built->n_slots + i] = b->cls[c].last_grad;
	}
}

static uint32_t *id_table(struct sc_arena *arena, size_t n)
{
	uint32_t *ids = sc_arena_calloc(arena, n ? n : 1, sizeof(*ids));

	memset(ids, 0xff, n * sizeof(*ids)); /* SC_NONE */
	return ids;
}

static void builder_init(struct builder *b, struct sc_arena *arena)
{
	const struct sc_transformer *tf = b->tf;
	const struct sc_schedule_shape *shape = &b->built->shape;
	size_t n = tf->placement.n_classes;
	size_t per_class = (size_t)shape->virtual_stages * shape->micro_batches;

	b->arena = arena;
	b->cls = sc_arena_calloc(arena, n, sizeof(*b->cls));
	b->instance = sc_arena_calloc(arena, tf->placement.n_instances + 1, sizeof(*b->instance));
	b->act_group = id_table(arena, shape->pp > 1 ? n * per_class : 0);
	b->grad_group = id_table(arena, shape->pp > 1 ? n * per_class : 0);
	b->pass_costs =
		sc_arena_calloc(arena, 4 * n * shape->virtual_stages, sizeof(*b->pass_costs));
	memset(b->pass_costs, 0xff, 4 * n * shape->virtual_stages * sizeof(*b->pass_costs));
	b->built->n_slots = 2 * per_class;
	b->built->slot_node = sc_arena_calloc(arena, n * b->built->n_slots, sizeof(uint32_t));
	b->built->slot_grad = sc_arena_calloc(arena, n * b->built->n_slots, sizeof(uint32_t));
	b->sync_p2p = shape->pp > 1 && tf->request->software.p2p_sync == SC_P2P_SYNC;
	b->full = tf->opts->detail == SC_DETAIL_FULL;
	for (size_t c = 0; b->full && c < n; c++)
		for (int p = 0; p < 2; p++)
			for (int k = 0; k < SC_N_BLOCKS; k++)
				b->cls[c].costs[p][k] = id_table(
					arena,
					2 * build_variant(b, (uint32_t)c)->block[p][k].steps.n);
}

void sc_transformer_build(const struct sc_transformer *tf, uint32_t micro_batches,
			  struct sc_build_scratch *scratch, struct sc_graph *graph,
			  struct sc_built *built)
{
	const struct sc_parallel *par = &tf->request->config.parallel;
	struct builder b = {.tf = tf, .graph = graph, .built = built};
	struct sc_cost zero = {0};
	struct sc_slot *slots;

	built->shape = (struct sc_schedule_shape){
		.kind = par->schedule,
		.pp = (uint32_t)par->pp,
		.virtual_stages = (uint32_t)par->virtual_stages,
		.micro_batches = micro_batches,
	};
	sc_graph_clear(graph);
	builder_init(&b, scratch->arena);
	slots = sc_arena_calloc(scratch->arena, built->n_slots, sizeof(*slots));
	b.zero_cost = sc_graph_add_cost(graph, &zero);
	add_classes(&b);
	add_transfer_costs(&b);
	for (uint32_t c = 0; c < tf->placement.n_classes; c++)
		build_class(&b, c, slots);
	build_step_end(&b);
	for (size_t i = 0; i < tf->placement.n_instances; i++)
		SC_VEC_RELEASE(&b.instance[i].ids);
	sc_graph_seal(graph);
}
