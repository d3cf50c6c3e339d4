/* One pass of one chunk of layers, forward or backward: op by op, or as the summary of its blocks. */
#include <math.h>
#include <string.h>

#include "base/units.h"
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

/* Where the host waits for every transfer, it and the GPU start a pass together: one node. A part of a
 * pass that shares its GPU with gradient or weight collectives always has its host nodes. */
static struct pass_costs make_costs(struct builder *b, const struct sc_summary *sum, bool shares)
{
	bool together = b->sync_p2p && !shares;
	struct sc_cost lead = {.work_us = sum->lead_us, .owner_frac[SC_OWN_HOST] = 1};
	struct sc_cost rest = {.work_us = sum->host_us - sum->lead_us,
			       .owner_frac[SC_OWN_HOST] = 1};
	struct sc_cost gpu = {.work_us = sum->gpu_us + (together ? sum->lead_us : 0)};
	struct pass_costs out = {SC_NONE, SC_NONE, SC_NONE};

	for (int o = 0; o < SC_N_OWNERS && gpu.work_us > 0; o++)
		gpu.owner_frac[o] = sum->owner_us[o] / gpu.work_us;
	if (together && gpu.work_us > 0)
		gpu.owner_frac[SC_OWN_HOST] += sum->lead_us / gpu.work_us;
	if (shares && sum->gpu_us > 0) { /* what its kernels load on average */
		gpu.demand[SC_RES_SM] = fmin(sum->sm_us / gpu.work_us, 1);
		gpu.demand[SC_RES_HBM] = fmin(sum->hbm_us / gpu.work_us, 1);
		gpu.waves = sum->n_kernels;
	}
	out.gpu = sc_graph_add_cost(b->graph, &gpu);
	if (together)
		return out;
	out.lead = sc_graph_add_cost(b->graph, &lead);
	if (rest.work_us > 0)
		out.rest = sc_graph_add_cost(b->graph, &rest);
	return out;
}

/* The nodes of a coarse pass or part of one. `recv` is what its compute must wait for beside its lane. */
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
	if (st->awaited != SC_NONE && host == SC_NONE)
		sc_graph_add_dep(b->graph, node, st->awaited);
	st->last_compute = node;
	return node;
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
		if (st->awaited != SC_NONE)
			sc_graph_add_dep(b->graph, begin, st->awaited);
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

/* ---- passes in parts, beside which data-parallel collectives run ---- */

/* A pass that is added part by part: [lead block], runs of layers, [tail block]. */
struct parts {
	struct builder *b;
	uint32_t c;
	const struct pass *p;
	struct sc_emit emit; /* full detail */
	struct tp_ctx ctx;
	uint32_t chunk;
};

static struct sc_summary block_sum(const struct builder *b, uint32_t c, const struct pass *p,
				   int id)
{
	struct sc_summary none = {0};

	return id < 0 ? none : build_variant(b, c)->block[p->partial][id].sum;
}

static uint32_t add_part(struct parts *x, const struct sc_summary *sum, uint32_t recv,
			 enum sc_op_name name, unsigned n)
{
	struct pass_costs costs = make_costs(x->b, sum, true);

	return join_tp(x->b, x->c,
		       add_pass(x->b, x->c, &costs, recv, sc_op_pack(name, x->chunk, n)));
}

/* Begins the pass: the host's part of a micro-batch, and the lead block if there is one. */
static uint32_t add_lead(struct parts *x, uint32_t recv, uint32_t micro_batch)
{
	struct builder *b = x->b;
	struct class_state *st = &b->cls[x->c];
	struct sc_summary sum = host_summary(b, x->c), lead = block_sum(b, x->c, x->p, x->p->lead);

	if (b->full) {
		full_begin(b, &x->ctx, recv, &x->emit);
		emit_full_block(b, &x->emit, x->c, x->p->lead, x->p->partial);
		st->last_compute = x->emit.compute_dep;
		return st->last_compute;
	}
	if (b->sync_p2p) { /* the host has waited for all it asked for */
		uint32_t sync = sc_graph_add_node(b->graph, SC_NODE_SYNC, st->lanes.host,
						  b->zero_cost, SC_NAME_JOIN);
		const uint32_t on[] = {recv, st->awaited, st->last_compute};

		for (int i = 0; i < 3; i++)
			if (on[i] != SC_NONE)
				sc_graph_add_dep(b->graph, sync, on[i]);
	}
	sum = sc_summary_then(&sum, &lead);
	return add_part(x, &sum, recv,
			x->p->backward ? SC_NAME_BACKWARD_LEAD : SC_NAME_FORWARD_LEAD, micro_batch);
}

static uint32_t add_layers(struct parts *x, double n)
{
	struct builder *b = x->b;
	struct sc_summary one, all;

	if (b->full) {
		for (double i = 0; i < n; i++)
			emit_full_block(b, &x->emit, x->c, x->p->layer, x->p->partial);
		b->cls[x->c].last_compute = x->emit.compute_dep;
		return x->emit.compute_dep;
	}
	one = block_sum(b, x->c, x->p, x->p->layer);
	all = sc_summary_repeat(&one, n);
	return add_part(x, &all, SC_NONE,
			x->p->backward ? SC_NAME_BACKWARD_LAYERS : SC_NAME_FORWARD_LAYERS,
			(unsigned)n);
}

static uint32_t add_tail(struct parts *x, uint32_t micro_batch)
{
	struct builder *b = x->b;
	struct sc_summary tail = block_sum(b, x->c, x->p, x->p->tail);

	if (x->p->tail < 0)
		return b->cls[x->c].last_compute;
	if (b->full) {
		emit_full_block(b, &x->emit, x->c, x->p->tail, x->p->partial);
		b->cls[x->c].last_compute = x->emit.compute_dep;
		return x->emit.compute_dep;
	}
	return add_part(x, &tail, SC_NONE,
			x->p->backward ? SC_NAME_BACKWARD_TAIL : SC_NAME_FORWARD_TAIL, micro_batch);
}

/* The compute lane goes on only after `node`. */
static void wait_for(struct parts *x, uint32_t node)
{
	build_compute_after(x->b, x->c, node);
	x->emit.compute_dep = x->b->cls[x->c].last_compute;
}

/* Reduces gradients after `node`; where the software does not overlap, compute waits for it. */
static void reduce(struct parts *x, double params, uint32_t node)
{
	build_grad_reduce(x->b, x->c, params, node);
	if (x->b->tf->request->software.grad_sync == SC_GRAD_AFTER)
		wait_for(x, x->b->cls[x->c].last_grad);
}

/* Parameters of the embedding or head block that leads or trails a pass. */
static double end_params(const struct builder *b, int block)
{
	switch (block) {
	case SC_BLOCK_EMBED_F:
	case SC_BLOCK_EMBED_B:
		return sc_transformer_embed_params(b->tf->request);
	case SC_BLOCK_HEAD_F:
	case SC_BLOCK_HEAD_B:
		return sc_transformer_word_params(b->tf->request);
	default:
		return 0;
	}
}

/* A backward pass whose gradients are complete: buckets of layers, each followed by its reduction. With
 * one stage the head's weights are the embedding's, which is reduced last. */
static uint32_t reducing_backward(struct parts *x, uint32_t recv, uint32_t micro_batch)
{
	struct builder *b = x->b;
	const struct sc_request *req = b->tf->request;
	double params = sc_transformer_layer_params(req), n_layers = x->p->n_layers;
	double per_bucket = n_layers;
	uint32_t node = add_lead(x, recv, micro_batch);

	if (req->software.bucket_mib > 0)
		per_bucket = fmax(1, ceil(req->software.bucket_mib * SC_BYTES_PER_MIB /
					  (params * sc_grad_bytes(req))));
	if (x->p->lead == SC_BLOCK_HEAD_B && b->built->shape.pp > 1)
		reduce(x, end_params(b, x->p->lead), node);
	for (double done = 0; done < n_layers; done += per_bucket) {
		double n = fmin(per_bucket, n_layers - done);

		node = add_layers(x, n);
		reduce(x, n * params, node);
	}
	node = add_tail(x, micro_batch);
	if (x->p->tail >= 0)
		reduce(x, end_params(b, x->p->tail), node);
	return b->cls[x->c].last_compute;
}

/* Weights sharded over the data-parallel ranks (ZeRO-3, FSDP): each part's are gathered on demand or
 * while the part before it runs, and backward scatters its gradients, overlapped or not. */
static uint32_t sharded_pass(struct parts *x, uint32_t recv, uint32_t micro_batch)
{
	struct builder *b = x->b;
	double params = sc_transformer_layer_params(b->tf->request);
	bool ahead = b->tf->request->software.gather_ahead;
	uint32_t node = b->cls[x->c].last_compute, gather;

	if (x->p->lead >= 0)
		wait_for(x, build_weight_gather(b, x->c, end_params(b, x->p->lead), node));
	gather = ahead ? build_weight_gather(b, x->c, params, node) : SC_NONE;
	node = add_lead(x, recv, micro_batch);
	if (x->p->backward && x->p->lead >= 0)
		reduce(x, end_params(b, x->p->lead), node);
	for (double i = 0; i < x->p->n_layers; i++) {
		wait_for(x, ahead ? gather : build_weight_gather(b, x->c, params, node));
		if (ahead && i + 1 < x->p->n_layers)
			gather = build_weight_gather(b, x->c, params, node);
		node = add_layers(x, 1);
		if (x->p->backward)
			reduce(x, params, node);
	}
	if (x->p->tail == SC_BLOCK_HEAD_F)
		wait_for(x, build_weight_gather(b, x->c, end_params(b, x->p->tail), node));
	node = add_tail(x, micro_batch);
	if (x->p->backward && x->p->tail >= 0)
		reduce(x, end_params(b, x->p->tail), node);
	return b->cls[x->c].last_compute;
}

/* ---- whole passes ---- */

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
	struct tp_ctx ctx = {b, c};
	struct sc_emit emit;

	full_begin(b, &ctx, recv, &emit);
	emit_full_block(b, &emit, c, p->lead, p->partial);
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
	enum sc_sharding sharding = b->tf->request->config.parallel.sharding;
	bool overlaps = b->tf->request->software.grad_sync == SC_GRAD_OVERLAP;
	struct pass p = pass_of(b, c, slot);
	struct parts parts = {.b = b, .c = c, .p = &p, .ctx = {b, c}, .chunk = slot->chunk};
	uint32_t op = sc_op_pack(slot->backward ? SC_NAME_BACKWARD : SC_NAME_FORWARD, slot->chunk,
				 slot->micro_batch);

	if (b->tf->placement.classes[c].group[SC_AXIS_DP].span.n_ranks <= 1)
		return plain_pass(b, c, &p, recv, op);
	if (build_is_sharded(b))
		return sharded_pass(&parts, recv, slot->micro_batch);
	/* ZeRO-2 keeps a share of the gradients only: every micro-batch's are reduced */
	if (slot->backward && (sharding == SC_ZERO2 || (last_backward && overlaps)))
		return reducing_backward(&parts, recv, slot->micro_batch);
	return plain_pass(b, c, &p, recv, op);
}
