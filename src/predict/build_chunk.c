/* One pass of one chunk of layers, forward or backward: op by op, or as the summary of its blocks. */
#include <math.h>
#include <string.h>

#include "predict/build_priv.h"
#include "predict/op_names.h"

/* The run of blocks in a pass: [lead block] + layers + [tail block]. */
struct pass {
	int lead, layer, tail; /* enum sc_block_id, -1 = none */
	double n_layers;
	bool backward, partial;
};

static struct pass pass_of(const struct builder *b, uint32_t c, const struct sc_slot *slot)
{
	const struct sc_schedule_shape *shape = &b->built->shape;
	uint32_t stage = (uint32_t)b->tf->placement.classes[c].stage;
	uint32_t virtual_stage = slot->chunk * shape->pp + stage;
	bool first = virtual_stage == 0;
	bool last = virtual_stage + 1 == shape->pp * shape->virtual_stages;

	return (struct pass){
		.lead = slot->backward ? (last ? SC_BLOCK_HEAD_B : -1)
			: first        ? SC_BLOCK_EMBED_F
				       : -1,
		.layer = slot->backward ? SC_BLOCK_LAYER_B : SC_BLOCK_LAYER_F,
		.tail = slot->backward ? (first ? SC_BLOCK_EMBED_B : -1)
			: last         ? SC_BLOCK_HEAD_F
				       : -1,
		.n_layers = (double)b->tf->stage_layers[virtual_stage],
		.backward = slot->backward,
		.partial = build_is_partial(b, slot->micro_batch),
	};
}

static struct sc_summary host_summary(const struct builder *b, uint32_t c)
{
	const struct sc_block_env *env = &build_variant(b, c)->env;
	double us = sc_quantize_us(env->software->host_micro_batch_us / env->host_speed);

	return (struct sc_summary){.host_us = us, .lead_us = 0};
}

/* Where the host waits for every transfer, it and the GPU start a pass together: one node. */
static struct pass_costs make_costs(struct builder *b, const struct sc_summary *sum, bool shares)
{
	struct sc_cost lead = {.work_us = sum->lead_us, .owner_frac[SC_OWN_HOST] = 1};
	struct sc_cost rest = {.work_us = sum->host_us - sum->lead_us,
			       .owner_frac[SC_OWN_HOST] = 1};
	struct sc_cost gpu = {.work_us = sum->gpu_us + (b->sync_p2p ? sum->lead_us : 0)};
	struct pass_costs out = {SC_NONE, SC_NONE, SC_NONE};

	for (int o = 0; o < SC_N_OWNERS && gpu.work_us > 0; o++)
		gpu.owner_frac[o] = sum->owner_us[o] / gpu.work_us;
	if (b->sync_p2p && gpu.work_us > 0)
		gpu.owner_frac[SC_OWN_HOST] += sum->lead_us / gpu.work_us;
	if (shares && sum->gpu_us > 0) { /* what its kernels load on average */
		gpu.demand[SC_RES_SM] = fmin(sum->sm_us / gpu.work_us, 1);
		gpu.demand[SC_RES_HBM] = fmin(sum->hbm_us / gpu.work_us, 1);
		gpu.waves = sum->n_kernels;
	}
	out.gpu = sc_graph_add_cost(b->graph, &gpu);
	if (b->sync_p2p)
		return out;
	out.lead = sc_graph_add_cost(b->graph, &lead);
	if (rest.work_us > 0)
		out.rest = sc_graph_add_cost(b->graph, &rest);
	return out;
}

/* The nodes of a coarse pass. `recv` is what its compute must wait for beside its lane. */
static uint32_t add_pass(struct builder *b, uint32_t c, const struct pass_costs *costs,
			 uint32_t recv, uint32_t op)
{
	struct class_state *st = &b->cls[c];
	uint32_t host = SC_NONE, node;

	if (costs->lead != SC_NONE)
		host = sc_graph_add_node(b->graph, SC_NODE_LAUNCH, st->lanes.host, costs->lead, op);
	if (costs->rest != SC_NONE)
		sc_graph_add_node(b->graph, SC_NODE_HOST, st->lanes.host, costs->rest, op);
	node = sc_graph_add_node(b->graph, SC_NODE_KERNEL, st->lanes.compute, costs->gpu, op);
	if (host != SC_NONE)
		sc_graph_add_dep(b->graph, node, host);
	if (recv != SC_NONE)
		sc_graph_add_dep(b->graph, node, recv);
	if (st->last_send != SC_NONE && (b->sync_p2p || st->last_compute == SC_NONE))
		sc_graph_add_dep(b->graph, node, st->last_send);
	st->last_compute = node;
	return node;
}

/* A part of a pass beside which gradient or weight collectives run: its resources are shared. */
static uint32_t add_summary(struct builder *b, uint32_t c, const struct sc_summary *sum,
			    uint32_t recv, uint32_t op)
{
	struct pass_costs costs = make_costs(b, sum, true);

	return add_pass(b, c, &costs, recv, op);
}

/* Ranks of one tensor-parallel group in several classes keep together at pass borders. */
static uint32_t join_tp(struct builder *b, uint32_t c, uint32_t node)
{
	const struct sc_axis_group *tp = &b->tf->placement.classes[c].group[SC_AXIS_TP];
	struct class_state *st = &b->cls[c];
	uint32_t group, member;

	if (tp->n_members <= 1 || tp->span.n_ranks <= 1)
		return node;
	group = build_shared_group(b, tp, st->n_tp++, b->zero_cost, SC_NAME_JOIN);
	member =
		sc_graph_add_member(b->graph, st->lanes.compute, group, b->zero_cost, SC_NAME_JOIN);
	st->last_compute = member;
	return member;
}

/* ---- full detail ---- */

struct tp_ctx {
	struct builder *b;
	uint32_t c;
};

static uint32_t full_tp_group(void *ctx, const struct sc_step *step, uint32_t graph_cost)
{
	struct tp_ctx *x = ctx;
	const struct sc_axis_group *tp = &x->b->tf->placement.classes[x->c].group[SC_AXIS_TP];

	if (tp->n_members > 1)
		return build_shared_group(x->b, tp, x->b->cls[x->c].n_tp++, graph_cost, step->name);
	return sc_graph_add_group(x->b->graph, graph_cost,
				  x->b->tf->placement.members + tp->first_member, 1, step->name);
}

static void emit_full_block(struct builder *b, struct sc_emit *emit, uint32_t c, int id,
			    bool partial)
{
	if (id >= 0)
		sc_block_emit(&build_variant(b, c)->block[partial][id], emit,
			      b->cls[c].costs[partial][id]);
}

static void full_begin(struct builder *b, struct tp_ctx *ctx, uint32_t recv, struct sc_emit *emit)
{
	struct class_state *st = &b->cls[ctx->c];
	struct sc_summary host = host_summary(b, ctx->c);
	struct sc_cost cost = {.work_us = host.host_us, .owner_frac[SC_OWN_HOST] = 1};
	uint32_t begin =
		sc_graph_add_node(b->graph, SC_NODE_HOST, st->lanes.host,
				  sc_graph_add_cost(b->graph, &cost), SC_NAME_MICRO_BATCH_HOST);

	*emit = (struct sc_emit){
		.graph = b->graph,
		.lanes = {st->lanes.host, st->lanes.compute, st->lanes.tp},
		.tp_group = full_tp_group,
		.ctx = ctx,
		.zero_cost = b->zero_cost,
		.compute_dep = st->last_compute,
		.host_dep = SC_NONE,
	};
	if (b->sync_p2p) { /* the host waits for all it has asked for */
		if (recv != SC_NONE)
			sc_graph_add_dep(b->graph, begin, recv);
		if (st->last_send != SC_NONE)
			sc_graph_add_dep(b->graph, begin, st->last_send);
		if (st->last_compute != SC_NONE)
			sc_graph_add_dep(b->graph, begin, st->last_compute);
	} else if (recv != SC_NONE) {
		uint32_t wait = sc_graph_add_node(b->graph, SC_NODE_EVENT, st->lanes.compute,
						  b->zero_cost, SC_NAME_JOIN);

		sc_graph_add_dep(b->graph, wait, recv);
		if (st->last_compute != SC_NONE) /* may be a collective */
			sc_graph_add_dep(b->graph, wait, st->last_compute);
		emit->compute_dep = wait;
	}
}

static uint32_t full_chunk(struct builder *b, uint32_t c, const struct pass *p, uint32_t recv,
			   struct sc_emit *emit, struct tp_ctx *ctx)
{
	*ctx = (struct tp_ctx){b, c};
	full_begin(b, ctx, recv, emit);
	emit_full_block(b, emit, c, p->lead, p->partial);
	return emit->compute_dep;
}

/* ---- layers that a data-parallel collective must follow or precede ---- */

static struct sc_summary block_sum(const struct builder *b, uint32_t c, const struct pass *p,
				   int id)
{
	struct sc_summary none = {0};

	return id < 0 ? none : build_variant(b, c)->block[p->partial][id].sum;
}

static uint32_t add_layers(struct builder *b, uint32_t c, const struct pass *p, double n,
			   struct sc_emit *emit, uint32_t op)
{
	struct sc_summary one, all;

	if (b->full) {
		for (double i = 0; i < n; i++)
			emit_full_block(b, emit, c, p->layer, p->partial);
		b->cls[c].last_compute = emit->compute_dep;
		return emit->compute_dep;
	}
	one = block_sum(b, c, p, p->layer);
	all = sc_summary_repeat(&one, n);
	return add_summary(b, c, &all, SC_NONE, op);
}

static uint32_t add_lead(struct builder *b, uint32_t c, const struct pass *p, uint32_t recv,
			 struct sc_emit *emit, struct tp_ctx *ctx, uint32_t op)
{
	struct sc_summary host = host_summary(b, c), lead = block_sum(b, c, p, p->lead);
	struct sc_summary sum = sc_summary_then(&host, &lead);

	if (b->full) {
		b->cls[c].last_compute = full_chunk(b, c, p, recv, emit, ctx);
		return b->cls[c].last_compute;
	}
	return add_summary(b, c, &sum, recv, op);
}

static uint32_t add_tail(struct builder *b, uint32_t c, const struct pass *p, struct sc_emit *emit,
			 uint32_t op)
{
	struct sc_summary tail = block_sum(b, c, p, p->tail);

	if (p->tail < 0)
		return b->cls[c].last_compute;
	if (b->full) {
		emit_full_block(b, emit, c, p->tail, p->partial);
		b->cls[c].last_compute = emit->compute_dep;
		return emit->compute_dep;
	}
	return add_summary(b, c, &tail, SC_NONE, op);
}

/* The last backward of a chunk: buckets of layers, each followed by its gradients' reduction. */
static uint32_t overlapped_backward(struct builder *b, uint32_t c, const struct pass *p,
				    uint32_t recv, uint32_t op)
{
	const struct sc_software *sw = build_variant(b, c)->env.software;
	double layer_bytes = sc_transformer_layer_params(b->tf->request) * sw->grad_bytes;
	double per_bucket = sw->bucket_mib > 0
				    ? fmax(1, ceil(sw->bucket_mib * 0x1p20 / layer_bytes))
				    : p->n_layers;
	struct sc_emit emit;
	struct tp_ctx ctx;
	uint32_t node;

	add_lead(b, c, p, recv, &emit, &ctx, op);
	b->cls[c].last_send = SC_NONE;
	for (double done = 0; done < p->n_layers; done += per_bucket) {
		double n = fmin(per_bucket, p->n_layers - done);

		node = add_layers(b, c, p, n, &emit, op);
		build_grad_reduce(b, c, n * sc_transformer_layer_params(b->tf->request), node);
	}
	node = add_tail(b, c, p, &emit, op);
	if (p->tail >= 0)
		build_grad_reduce(b, c, sc_transformer_embed_params(b->tf->request), node);
	return node;
}

/* Weights sharded over the data-parallel ranks (ZeRO-3, FSDP): each layer's are gathered on demand or
 * one layer ahead of its use, and backward scatters its gradients, overlapped or not. */
static uint32_t sharded_pass(struct builder *b, uint32_t c, const struct pass *p, uint32_t recv,
			     uint32_t op)
{
	double params = sc_transformer_layer_params(b->tf->request);
	const struct sc_software *sw = build_variant(b, c)->env.software;
	uint32_t before = b->cls[c].last_compute;
	struct sc_emit emit;
	struct tp_ctx ctx;
	uint32_t node = add_lead(b, c, p, recv, &emit, &ctx, op);

	b->cls[c].last_send = SC_NONE;
	for (double i = 0; i < p->n_layers; i++) {
		uint32_t gather =
			build_weight_gather(b, c, params, sw->gather_ahead ? before : node);

		build_compute_after(b, c, gather);
		if (b->full)
			emit.compute_dep = b->cls[c].last_compute;
		before = node;
		node = add_layers(b, c, p, 1, &emit, op);
		if (!p->backward)
			continue;
		build_grad_reduce(b, c, params, node);
		if (sw->grad_sync == SC_GRAD_AFTER) {
			build_compute_after(b, c, b->cls[c].last_grad);
			node = b->cls[c].last_compute;
			emit.compute_dep = node;
		}
	}
	node = add_tail(b, c, p, &emit, op);
	return node;
}

static struct sc_summary pass_summary(const struct builder *b, uint32_t c, const struct pass *p)
{
	struct sc_summary sum = host_summary(b, c), part = block_sum(b, c, p, p->lead), layers;

	sum = sc_summary_then(&sum, &part);
	part = block_sum(b, c, p, p->layer);
	layers = sc_summary_repeat(&part, p->n_layers);
	sum = sc_summary_then(&sum, &layers);
	part = block_sum(b, c, p, p->tail);
	return sc_summary_then(&sum, &part);
}

static uint32_t full_pass(struct builder *b, uint32_t c, const struct pass *p, uint32_t recv)
{
	struct sc_emit emit;
	struct tp_ctx ctx;

	full_chunk(b, c, p, recv, &emit, &ctx);
	for (double i = 0; i < p->n_layers; i++)
		emit_full_block(b, &emit, c, p->layer, p->partial);
	emit_full_block(b, &emit, c, p->tail, p->partial);
	b->cls[c].last_compute = emit.compute_dep;
	return emit.compute_dep;
}

static uint32_t plain_pass(struct builder *b, uint32_t c, const struct pass *p, uint32_t recv,
			   uint32_t op)
{
	uint32_t chunk = c * b->built->shape.virtual_stages + sc_op_unpack_chunk(op);
	struct pass_costs *costs = &b->pass_costs[4 * chunk + 2 * p->backward + p->partial];

	if (b->full)
		return full_pass(b, c, p, recv);
	if (costs->gpu == SC_NONE) {
		struct sc_summary sum = pass_summary(b, c, p);

		*costs = make_costs(b, &sum, false);
	}
	return join_tp(b, c, add_pass(b, c, costs, recv, op));
}

uint32_t build_chunk(struct builder *b, uint32_t c, const struct sc_slot *slot, uint32_t recv,
		     bool last_backward)
{
	const struct sc_config *cfg = &b->tf->request->config;
	const struct sc_rank_class *rc = &b->tf->placement.classes[c];
	bool dp = rc->group[SC_AXIS_DP].span.n_ranks > 1;
	struct pass p = pass_of(b, c, slot);
	uint32_t op = sc_op_pack(slot->backward ? SC_NAME_BACKWARD : SC_NAME_FORWARD, slot->chunk,
				 slot->micro_batch);

	if (dp && (cfg->parallel.sharding == SC_ZERO3 || cfg->parallel.sharding == SC_FSDP))
		return sharded_pass(b, c, &p, recv, op);
	if (dp && last_backward && b->tf->request->software.grad_sync == SC_GRAD_OVERLAP)
		return overlapped_backward(b, c, &p, recv, op);
	return plain_pass(b, c, &p, recv, op);
}
