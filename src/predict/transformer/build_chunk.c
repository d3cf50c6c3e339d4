/* One pass of one chunk of layers, forward or backward: op by op, or as the summary of its blocks. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "predict/build_priv.h"
#include "predict/op_names.h"

/* A run of equal blocks in a pass. */
struct run {
	int block; /* enum sc_block_id */
	double n;
	const struct sc_params *params; /* of one */
	enum sc_op_name name;           /* of a part of the pass */
};
enum { MAX_RUNS = 4 };
/* [embedding] dense layers, layers, [head]; backward the other way round. */
struct pass {
	struct run run[MAX_RUNS];
	int n_runs;
	bool backward, partial;
};

static void add_run(struct pass *p, int block, double n, const struct sc_params *params,
		    enum sc_op_name name)
{
	if (n > 0)
		p->run[p->n_runs++] = (struct run){block, n, params, name};
}

static void forward_runs(const struct sc_transformer *tf, uint32_t vs, bool last, struct pass *p)
{
	double dense = (double)tf->stage_dense[vs];

	add_run(p, SC_BLOCK_EMBED_F, vs == 0, &tf->embed, SC_NAME_FORWARD_LEAD);
	add_run(p, SC_BLOCK_DENSE_F, dense, &tf->dense_layer, SC_NAME_FORWARD_DENSE);
	add_run(p, SC_BLOCK_LAYER_F, (double)tf->stage_layers[vs] - dense, &tf->layer,
		SC_NAME_FORWARD_LAYERS);
	add_run(p, SC_BLOCK_HEAD_F, last, &tf->head, SC_NAME_FORWARD_TAIL);
}

static void backward_runs(const struct sc_transformer *tf, uint32_t vs, bool last, struct pass *p)
{
	double dense = (double)tf->stage_dense[vs];

	add_run(p, SC_BLOCK_HEAD_B, last, &tf->head, SC_NAME_BACKWARD_LEAD);
	add_run(p, SC_BLOCK_LAYER_B, (double)tf->stage_layers[vs] - dense, &tf->layer,
		SC_NAME_BACKWARD_LAYERS);
	add_run(p, SC_BLOCK_DENSE_B, dense, &tf->dense_layer, SC_NAME_BACKWARD_DENSE);
	add_run(p, SC_BLOCK_EMBED_B, vs == 0, &tf->embed, SC_NAME_BACKWARD_TAIL);
}

static struct pass pass_of(const struct builder *b, uint32_t c, const struct sc_slot *slot)
{
	const struct sc_schedule_shape *shape = &b->built->shape;
	uint32_t stage = (uint32_t)b->tf->placement.classes[c].stage;
	uint32_t vs = slot->chunk * shape->pp + stage;
	bool last = vs + 1 == shape->pp * shape->virtual_stages;
	struct pass p = {.backward = slot->backward,
			 .partial = build_is_partial(b, slot->micro_batch)};

	if (slot->backward)
		backward_runs(b->tf, vs, last, &p);
	else
		forward_runs(b->tf, vs, last, &p);
	return p;
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
		gpu.waves = fmax(1, gpu.work_us * gpu.work_us / fmax(sum->wave_us2, 1e-9));
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

/* Ranks of one tensor-, context- or expert-parallel group in several classes keep together at the
 * borders of passes. */
static uint32_t join_groups(struct builder *b, uint32_t c, uint32_t node)
{
	struct class_state *st = &b->cls[c];

	for (int a = 0; a < SC_N_COMM_AXES; a++) {
		const struct sc_axis_group *g =
			&b->tf->placement.classes[c].group[sc_comm_axis_of[a]];
		uint32_t group;

		if (g->n_members <= 1 || g->span.n_ranks <= 1)
			continue;
		group = build_shared_group(b, g, st->n_joined[a]++, b->zero_cost, SC_NAME_JOIN);
		node = sc_graph_add_member(b->graph, st->lanes.compute, group, b->zero_cost,
					   SC_NAME_JOIN);
		st->last_compute = node;
	}
	return node;
}

/* ---- full detail ---- */

struct comm_ctx {
	struct builder *b;
	uint32_t c;
};

static uint32_t full_group(void *ctx, const struct sc_step *step, uint32_t graph_cost)
{
	struct comm_ctx *x = ctx;
	const struct sc_axis_group *g =
		&x->b->tf->placement.classes[x->c].group[sc_comm_axis_of[step->axis]];

	if (g->n_members > 1)
		return build_shared_group(x->b, g, x->b->cls[x->c].n_joined[step->axis]++,
					  graph_cost, step->name);
	return sc_graph_add_group(x->b->graph, graph_cost,
				  x->b->tf->placement.members + g->first_member, 1, step->name);
}

static void emit_full_run(struct builder *b, struct sc_emit *emit, uint32_t c,
			  const struct run *run, bool partial)
{
	for (double i = 0; i < run->n; i++)
		sc_block_emit(&build_variant(b, c)->block[partial][run->block], emit,
			      b->cls[c].costs[partial][run->block]);
}

static void full_begin(struct builder *b, struct comm_ctx *ctx, uint32_t recv, struct sc_emit *emit)
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
		.comm_group = full_group,
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

/* A pass that is added part by part. */
struct parts {
	struct builder *b;
	uint32_t c;
	const struct pass *p;
	struct sc_emit emit; /* full detail */
	struct comm_ctx ctx;
	const struct sc_slot *slot;
	bool last_backward;
};

static struct sc_summary run_sum(const struct builder *b, uint32_t c, const struct pass *p,
				 const struct run *run, double n)
{
	return sc_summary_repeat(&build_variant(b, c)->block[p->partial][run->block].sum, n);
}

static uint32_t add_part(struct parts *x, const struct sc_summary *sum, uint32_t recv,
			 enum sc_op_name name, unsigned n)
{
	struct pass_costs costs = make_costs(x->b, sum, true);

	return join_groups(x->b, x->c,
			   add_pass(x->b, x->c, &costs, recv, sc_op_pack(name, x->slot->chunk, n)));
}

/* The host has come to the pass, and has waited for all it asked for, if it does so. */
static uint32_t host_arrives(struct parts *x, uint32_t recv)
{
	struct builder *b = x->b;
	const struct class_state *st = &b->cls[x->c];
	const uint32_t on[] = {recv, st->awaited, st->last_compute};
	uint32_t sync = sc_graph_add_node(b->graph, SC_NODE_SYNC, st->lanes.host, b->zero_cost,
					  SC_NAME_JOIN);

	for (int i = 0; b->sync_p2p && i < 3; i++)
		if (on[i] != SC_NONE)
			sc_graph_add_dep(b->graph, sync, on[i]);
	return sync;
}

/* Begins the pass: the host's part of a micro-batch. */
static void begin_parts(struct parts *x, uint32_t recv)
{
	struct builder *b = x->b;
	struct class_state *st = &b->cls[x->c];
	struct sc_summary sum = host_summary(b, x->c);
	uint32_t sync = SC_NONE;

	if (b->full || b->sync_p2p)
		sync = host_arrives(x, recv);
	if (!b->full) {
		add_part(x, &sum, recv, SC_NAME_MICRO_BATCH_HOST, x->slot->micro_batch);
		return;
	}
	full_begin(b, &x->ctx, recv, &x->emit);
	/* weights are asked for when the host has come to the pass */
	build_compute_after(b, x->c, sync);
	if (x->emit.compute_dep != SC_NONE)
		sc_graph_add_dep(b->graph, st->last_compute, x->emit.compute_dep);
	x->emit.compute_dep = st->last_compute;
}

/* `n` blocks of a run. */
static uint32_t add_blocks(struct parts *x, const struct run *run, double n)
{
	struct builder *b = x->b;
	struct run some = *run;
	struct sc_summary sum;

	some.n = n;
	if (b->full) {
		emit_full_run(b, &x->emit, x->c, &some, x->p->partial);
		b->cls[x->c].last_compute = x->emit.compute_dep;
		return x->emit.compute_dep;
	}
	sum = run_sum(b, x->c, x->p, run, n);
	return add_part(x, &sum, SC_NONE, run->name, (unsigned)n);
}

/* The compute lane goes on only after `node`. */
static void wait_for(struct parts *x, uint32_t node)
{
	build_compute_after(x->b, x->c, node);
	x->emit.compute_dep = x->b->cls[x->c].last_compute;
}

/* Reduces gradients after `node`; where the software does not overlap, compute waits for it. */
static void reduce(struct parts *x, const struct run *run, double n, uint32_t node)
{
	build_grad_reduce(x->b, x->c, run->params, n, node);
	if (x->b->tf->request->software.grad_sync == SC_GRAD_AFTER)
		wait_for(x, x->b->cls[x->c].last_grad);
}

static bool is_layers(const struct run *run)
{
	return run->block != SC_BLOCK_HEAD_B && run->block != SC_BLOCK_EMBED_B &&
	       run->block != SC_BLOCK_HEAD_F && run->block != SC_BLOCK_EMBED_F;
}

/* With one stage a tied head's weights are the embedding's, whose gradients are reduced last. */
static bool reduces_later(const struct parts *x, const struct run *run)
{
	return run->block == SC_BLOCK_HEAD_B && x->b->built->shape.pp == 1 &&
	       x->b->tf->request->config.model.tied_embeddings;
}

/* A backward pass whose gradients are complete: buckets of layers, each followed by its reduction. */
static uint32_t reducing_backward(struct parts *x, uint32_t recv)
{
	struct builder *b = x->b;
	const struct sc_request *req = b->tf->request;
	double bucket = req->software.bucket_mib * SC_BYTES_PER_MIB / sc_grad_bytes(req);

	begin_parts(x, recv);
	for (int i = 0; i < x->p->n_runs; i++) {
		const struct run *run = &x->p->run[i];
		double params = run->params->trainable + run->params->trainable_expert;
		double per_bucket = run->n;

		if (is_layers(run) && bucket > 0 && params > 0)
			per_bucket = fmin(run->n, fmax(1, ceil(bucket / params)));
		for (double done = 0; done < run->n; done += per_bucket) {
			double n = fmin(per_bucket, run->n - done);
			uint32_t node = add_blocks(x, run, n);

			if (!reduces_later(x, run) && params > 0)
				reduce(x, run, n, node);
		}
	}
	return b->cls[x->c].last_compute;
}

/* Does this pass gather sharded weights? They stay over the iteration where a pipeline would gather
 * them for every micro-batch (torchtitan's default), or from forward to backward if the software
 * keeps them. */
static bool gathers(const struct parts *x)
{
	if (x->b->built->shape.pp > 1)
		return !x->p->backward && x->slot->micro_batch == 0;
	return !x->p->backward || x->b->tf->request->software.reshard_after_forward;
}

static bool reduces(const struct parts *x)
{
	const struct sc_software *sw = &x->b->tf->request->software;

	return x->p->backward &&
	       (x->last_backward || (sw->reduce_each_micro_batch && x->b->built->shape.pp == 1));
}

/* Where the next gather goes, if the software asks for it ahead: while the block before it runs. */
static const struct run *next_block(const struct pass *p, int run, double i)
{
	if (i + 1 < p->run[run].n)
		return &p->run[run];
	return run + 1 < p->n_runs ? &p->run[run + 1] : NULL;
}

/* Weights sharded over the data-parallel ranks (ZeRO-3, FSDP): each block's are gathered on demand or
 * while the block before it runs, and backward scatters its gradients, overlapped or not. */
static uint32_t sharded_pass(struct parts *x, uint32_t recv)
{
	struct builder *b = x->b;
	bool ahead = b->tf->request->software.gather_ahead, gather = gathers(x);
	uint32_t node = b->cls[x->c].last_compute, gathered = SC_NONE;

	if (gather && ahead && x->p->n_runs)
		gathered = build_weight_gather(b, x->c, x->p->run[0].params, node);
	begin_parts(x, recv);
	for (int r = 0; r < x->p->n_runs; r++) {
		const struct run *run = &x->p->run[r], *next;

		for (double i = 0; i < run->n; i++) {
			node = b->cls[x->c].last_compute;
			if (gather && !ahead)
				gathered = build_weight_gather(b, x->c, run->params, node);
			if (gather)
				wait_for(x, gathered);
			next = next_block(x->p, r, i);
			if (gather && ahead && next)
				gathered = build_weight_gather(b, x->c, next->params, node);
			node = add_blocks(x, run, 1);
			if (reduces(x) && !reduces_later(x, run))
				reduce(x, run, 1, node);
		}
	}
	return b->cls[x->c].last_compute;
}

/* ---- whole passes ---- */

static struct sc_summary pass_summary(const struct builder *b, uint32_t c, const struct pass *p)
{
	struct sc_summary sum = host_summary(b, c);

	for (int i = 0; i < p->n_runs; i++) {
		struct sc_summary part = run_sum(b, c, p, &p->run[i], p->run[i].n);

		sum = sc_summary_then(&sum, &part);
	}
	return sum;
}

static uint32_t full_pass(struct builder *b, uint32_t c, const struct pass *p, uint32_t recv)
{
	struct comm_ctx ctx = {b, c};
	struct sc_emit emit;

	full_begin(b, &ctx, recv, &emit);
	for (int i = 0; i < p->n_runs; i++)
		emit_full_run(b, &emit, c, &p->run[i], p->partial);
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
	return join_groups(b, c, add_pass(b, c, costs, recv, op));
}

uint32_t build_chunk(struct builder *b, uint32_t c, const struct sc_slot *slot, uint32_t recv,
		     bool last_backward)
{
	enum sc_sharding sharding = b->tf->request->config.parallel.sharding;
	bool overlaps = b->tf->request->software.grad_sync == SC_GRAD_OVERLAP;
	struct pass p = pass_of(b, c, slot);
	struct parts parts = {.b = b,
			      .c = c,
			      .p = &p,
			      .ctx = {b, c},
			      .slot = slot,
			      .last_backward = last_backward};
	uint32_t op = sc_op_pack(slot->backward ? SC_NAME_BACKWARD : SC_NAME_FORWARD, slot->chunk,
				 slot->micro_batch);

	if (b->tf->placement.classes[c].group[SC_AXIS_DP].span.n_ranks <= 1)
		return plain_pass(b, c, &p, recv, op);
	if (build_is_sharded(b))
		return sharded_pass(&parts, recv);
	/* ZeRO-2 keeps a share of the gradients only: every micro-batch's are reduced */
	if (slot->backward && (sharding == SC_ZERO2 || (last_backward && overlaps)))
		return reducing_backward(&parts, recv);
	return plain_pass(b, c, &p, recv, op);
}
