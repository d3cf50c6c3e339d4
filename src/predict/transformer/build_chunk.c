/* One pass of one chunk of layers, forward or backward: op by op, or as the summary of its blocks.
 * Where collectives run beside it, it goes in parts, each followed by its reduction. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "core/config/config_schedule.h"
#include "predict/op_names.h"
#include "predict/transformer/build_priv.h"

static const struct sc_params NO_PARAMS;

/* The blocks of a kind of pass, and the names of its parts. */
struct parts {
	int embed, layer, head; /* enum sc_block_id; the layer's is that of kind 0 */
	enum sc_op_name embed_name, dense_name, layer_name, head_name, whole;
};
static const struct parts PARTS[SC_N_PASS_KINDS] = {
	[SC_PASS_FORWARD] = {SC_BLOCK_EMBED_F, SC_BLOCK_LAYER_F, SC_BLOCK_HEAD_F,
			     SC_NAME_FORWARD_LEAD, SC_NAME_FORWARD_DENSE, SC_NAME_FORWARD_LAYERS,
			     SC_NAME_FORWARD_TAIL, SC_NAME_FORWARD},
	[SC_PASS_BACKWARD] = {SC_BLOCK_EMBED_B, SC_BLOCK_LAYER_B, SC_BLOCK_HEAD_B,
			      SC_NAME_BACKWARD_TAIL, SC_NAME_BACKWARD_DENSE,
			      SC_NAME_BACKWARD_LAYERS, SC_NAME_BACKWARD_LEAD, SC_NAME_BACKWARD},
	[SC_PASS_BACKWARD_INPUT] = {SC_BLOCK_EMBED_B, SC_BLOCK_LAYER_I, SC_BLOCK_HEAD_I,
				    SC_NAME_BACKWARD_TAIL, SC_NAME_INPUT_DENSE,
				    SC_NAME_INPUT_LAYERS, SC_NAME_INPUT_LEAD,
				    SC_NAME_BACKWARD_INPUT},
	[SC_PASS_BACKWARD_WEIGHT] = {SC_BLOCK_EMBED_W, SC_BLOCK_LAYER_W, SC_BLOCK_HEAD_W,
				     SC_NAME_WEIGHT_TAIL, SC_NAME_WEIGHT_DENSE,
				     SC_NAME_WEIGHT_LAYERS, SC_NAME_WEIGHT_LEAD,
				     SC_NAME_BACKWARD_WEIGHT},
};

enum sc_op_name build_pass_name(enum sc_pass_kind kind)
{
	return PARTS[kind].whole;
}

void build_pass_runs(struct pass *p)
{
	const struct sc_transformer *tf = p->st->b->tf;
	uint32_t stage = (uint32_t)tf->placement.classes[p->st->id].stage;
	const struct parts *parts = &PARTS[p->kind];
	const struct sc_model *model = &tf->request->config.model;
	const bool moe = sc_model_is_moe(model);
	uint32_t vs = p->slot->virtual_stage;
	bool embed, head, share = sc_vocab_shares(&tf->request->config.parallel) > 1;
	bool backward = p->backward && p->kind != SC_PASS_BACKWARD_WEIGHT;

	sc_transformer_ends(tf, stage, p->slot->chunk, &embed, &head);
	struct run runs[MAX_RUNS] = {
		{parts->embed, embed, &tf->embed, parts->embed_name, false},
		{parts->head, head && (!share || p->backward), &tf->head, parts->head_name, false},
		/* A share of the output layer runs forward when the last stage is through. */
		{SC_BLOCK_HEAD_F, head && share && backward, &NO_PARAMS, SC_NAME_FORWARD_TAIL,
		 false},
	};

	memmove(&runs[1 + SC_N_LAYER_KINDS], &runs[1], 2 * sizeof(runs[0]));
	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
		runs[SC_N_LAYER_KINDS - kind] =
			(struct run){sc_block_of((enum sc_block_id)parts->layer, kind),
				     tf->stage_layers[vs].of[kind], &tf->layer[kind],
				     moe && sc_model_kind(model, kind).feed != SC_FEED_EXPERTS
					     ? parts->dense_name
					     : parts->layer_name,
				     true};

	for (int i = 0; i < MAX_RUNS; i++) {
		const struct run run = runs[p->backward ? MAX_RUNS - 1 - i : i];
		if (run.n > 0)
			p->run[p->n_runs++] = run;
	}
}

struct pass build_pass_begun(struct class_state *st, const struct sc_slot *slot, bool partial)
{
	return (struct pass){.st = st,
			     .slot = slot,
			     .kind = (enum sc_pass_kind)slot->kind,
			     .backward = sc_pass_is_backward((enum sc_pass_kind)slot->kind),
			     .partial = partial,
			     .by_op = st->b->full};
}

struct pass build_pass_of(struct class_state *st, const struct sc_slot *slot, bool partial)
{
	struct pass p = build_pass_begun(st, slot, partial);

	build_pass_runs(&p);
	return p;
}

struct sc_summary build_host_summary(const struct class_state *st)
{
	const struct sc_block_env *env = &build_variant(st)->env;
	double us = sc_quantize_us(env->software->host_micro_batch_us / env->host_speed);

	return (struct sc_summary){.host_us = us, .lead_us = 0};
}

/* Adds the costs of a pass. Where the host waits for every transfer, it and the GPU start a pass
 * together: one node. A part of a pass that shares its GPU with gradient or weight collectives
 * always has its host nodes. */
struct pass_costs build_costs(const struct class_state *st, const struct sc_summary *sum,
			      bool shares)
{
	struct builder *b = st->b;
	bool together = b->sync_p2p && !shares;
	struct sc_cost lead = {.work_us = sum->lead_us, .owner_frac[SC_OWN_HOST] = 1};
	struct sc_cost gpu = {.work_us = sum->gpu_us + (together ? sum->lead_us : 0),
			      .amount = sum->flop};
	struct pass_costs out = {.lead = SC_NONE,
				 .late = SC_NONE,
				 .lead_us = sum->lead_us,
				 .host_us = sum->host_us,
				 .gpu_us = sum->gpu_us,
				 .host_waits = sum->host_waits};

	for (int o = 0; o < SC_N_OWNERS && gpu.work_us > 0; o++)
		gpu.owner_frac[o] = sum->owner_us[o] / gpu.work_us;
	gpu.hidden_frac = gpu.work_us > 0 ? sum->hidden_us / gpu.work_us : 0;
	if (together && gpu.work_us > 0)
		gpu.owner_frac[SC_OWN_HOST] += sum->lead_us / gpu.work_us;
	if (shares && sum->beside_us > 0) {
		/* The demands slow a whole part of a pass and a collective beside it as much as its
		 * steps do: of SMs there is what slows the part, of all else what its steps load on
		 * average, so far as that slows it no more. Before its work begins the collective
		 * only holds its SMs. */
		const struct sc_cost *comm = &build_variant(st)->env.beside;
		double alone_us = sc_cost_alone_us(comm),
		       works = alone_us > 0 ? comm->work_us / alone_us : 0;
		double slowdown =
			(sum->beside_us * works + sum->beside_sm_us * (1 - works)) / sum->gpu_us;
		double left = 1 - comm->demand[SC_RES_SM];
		int path = comm->demand[SC_RES_L2] > 0 ? SC_RES_L2 : SC_RES_HBM;

		gpu.demand[SC_RES_SM] = fmin(1, slowdown * left);
		for (int r = SC_RES_SM + 1; r < SC_N_RES; r++)
			gpu.demand[r] = fmin(sum->load_us[r] / sum->gpu_us,
					     fmax(0, fmin(1, slowdown - comm->demand[r])));
		if (slowdown * left > 1) /* SMs explain no more than that */
			gpu.demand[path] = fmax(0, fmin(1, slowdown - comm->demand[path]));
		gpu.waves = fmax(1, gpu.work_us * gpu.work_us / fmax(sum->wave_us2, 1e-9));
	}
	out.gpu = sc_graph_add_cost(b->graph, &gpu);
	if (together)
		return out;
	out.lead = sc_graph_add_cost(b->graph, &lead);
	return out;
}

/* Returns the cost of a launch that stands behind what the host owes. */
static uint32_t late_cost(struct class_state *st, struct pass_costs *costs)
{
	struct sc_cost late = {.work_us = st->owed_us + costs->lead_us,
			       .owner_frac[SC_OWN_HOST] = 1};

	if (!(st->owed_us > 0))
		return costs->lead;
	if (costs->late == SC_NONE || costs->late_us < late.work_us ||
	    costs->late_us > late.work_us)
		costs->late = sc_graph_add_cost(st->b->graph, &late);
	costs->late_us = late.work_us;
	return costs->late;
}

/* A host that waits for nothing is ahead by what the GPU's work so far is longer than its own; its
 * work decides nothing while that is enough. */
static bool launches_wait(const struct class_state *st)
{
	return st->b->sync_p2p || build_variant(st)->env.host_waits;
}

/* Lets the host run ahead of a launch: what it does is owed. */
static void launch_early(struct class_state *st, const struct pass_costs *costs)
{
	st->ahead_us = st->ahead_us + costs->gpu_us - costs->host_us;
	st->owed_us += costs->host_us;
}

/* Launches a kernel, unless that cannot be late: then the host's part is owed to the next launch
 * that may be, and so is what the host does after a launch. */
uint32_t build_launch(struct class_state *st, struct pass_costs *costs, uint32_t op)
{
	uint32_t cost, launch;

	if (costs->lead == SC_NONE)
		return SC_NONE;
	if (!launches_wait(st) && st->ahead_us >= costs->lead_us) {
		launch_early(st, costs);
		return SC_NONE;
	}
	st->ahead_us = fmax(st->ahead_us, costs->lead_us) + costs->gpu_us - costs->host_us;
	cost = late_cost(st, costs);
	st->owed_us = costs->host_waits ? 0 : costs->host_us - costs->lead_us;
	launch = sc_graph_add_node(st->b->graph, SC_NODE_LAUNCH, st->lanes.host,
				   (struct sc_node_use){cost, op});
	sc_graph_add_dep(st->b->graph, launch, st->host_after);
	st->host_after = SC_NONE;
	return launch;
}

/* Lets `node` on the compute lane begin a pass or part of one; `recv` is what it must wait for
 * beside its lane. */
void build_begins(const struct class_state *st, uint32_t node, uint32_t launch, uint32_t recv)
{
	struct sc_graph *graph = st->b->graph;

	sc_graph_add_dep(graph, node, launch);
	sc_graph_add_dep(graph, node, recv);
	if (st->awaited != SC_NONE && launch == SC_NONE && st->b->sync_p2p)
		sc_graph_add_dep(graph, node, st->awaited);
}

uint32_t build_kernel(struct class_state *st, const struct pass_costs *costs, uint32_t op)
{
	st->last_compute = sc_graph_add_node(st->b->graph, SC_NODE_KERNEL, st->lanes.compute,
					     (struct sc_node_use){costs->gpu, op});
	st->host_after = costs->host_waits ? st->last_compute : SC_NONE;
	return st->last_compute;
}

/* Joins the classes of one tensor-, context- or expert-parallel group at the borders of passes,
 * where they keep together. */
uint32_t build_join_groups(struct class_state *st, uint32_t node)
{
	struct builder *b = st->b;

	for (int a = 0; st->joins && a < SC_N_COMM_AXES; a++) {
		const struct sc_axis_group *g =
			&b->tf->placement.classes[st->id].group[sc_comm_axis_of[a]];
		uint32_t group;

		if (g->n_members <= 1 || g->span.n_ranks <= 1)
			continue;
		group = build_shared_group(
			b, g, (struct group_use){st->n_joined[a]++, b->zero_cost, SC_NAME_JOIN});
		node = sc_graph_add_member(b->graph, st->lanes.compute, group,
					   (struct sc_node_use){b->zero_cost, SC_NAME_JOIN});
		st->last_compute = node;
	}
	return node;
}

static uint32_t full_group(void *ctx, const struct sc_step *step, uint32_t graph_cost)
{
	struct class_state *st = ctx;
	struct builder *b = st->b;
	const struct sc_axis_group *g =
		&b->tf->placement.classes[st->id].group[sc_comm_axis_of[step->axis]];

	if (g->n_members > 1)
		return build_shared_group(
			b, g,
			(struct group_use){st->n_joined[step->axis]++, graph_cost, step->name});
	return sc_graph_add_group(b->graph, (struct sc_node_use){graph_cost, step->name},
				  b->tf->placement.members + g->first_member, 1);
}

static void emit_full_run(struct pass *p, int block, double n)
{
	const struct sc_transformer *tf = p->st->b->tf;
	struct sc_variant *v = tf->variant[tf->classes[p->st->id].variant];
	const struct sc_block *steps = &v->block[p->partial][block];
	uint32_t **costs = &p->st->costs[p->partial][block];

	sc_variant_make_steps(tf, v);
	if (!*costs)
		*costs = sc_block_no_costs(steps, p->st->b->arena);
	for (double i = 0; i < n; i++)
		sc_block_emit(steps, &p->emit, *costs);
	p->st->ahead_us = -HUGE_VAL;
}

void build_full_begin(struct pass *p, uint32_t recv)
{
	struct class_state *st = p->st;
	struct builder *b = st->b;
	struct sc_summary host = build_host_summary(st);
	struct sc_cost cost = {.work_us = host.host_us, .owner_frac[SC_OWN_HOST] = 1};
	uint32_t begin = sc_graph_add_node(
		b->graph, SC_NODE_HOST, st->lanes.host,
		(struct sc_node_use){sc_graph_add_cost(b->graph, &cost), SC_NAME_MICRO_BATCH_HOST});

	p->emit = (struct sc_emit){
		.graph = b->graph,
		.lanes = {st->lanes.host, st->lanes.compute, st->lanes.tp},
		.comm_group = full_group,
		.ctx = st,
		.zero_cost = b->zero_cost,
		.compute_dep = st->last_compute,
		.host_waits = build_variant(st)->env.host_waits,
		.shared = b->tf->classes[st->id].is_replicated,
	};
	if (b->sync_p2p) { /* the host waits for all it has asked for */
		sc_graph_add_dep(b->graph, begin, recv);
		sc_graph_add_dep(b->graph, begin, st->awaited);
		sc_graph_add_dep(b->graph, begin, st->last_compute);
	} else if (recv != SC_NONE) {
		uint32_t wait = sc_graph_add_node(b->graph, SC_NODE_EVENT, st->lanes.compute,
						  (struct sc_node_use){b->zero_cost, SC_NAME_JOIN});

		sc_graph_add_dep(b->graph, wait, recv);
		sc_graph_add_dep(b->graph, wait, st->last_compute); /* it may be a collective */
		p->emit.compute_dep = wait;
	}
}

/* ---- passes in parts, beside which data-parallel collectives run ---- */

struct sc_summary build_run_sum(const struct pass *p, int block, double n)
{
	return sc_summary_repeat(&build_variant(p->st)->block[p->partial][block].sum, n);
}

static uint32_t add_part(struct pass *p, const struct sc_summary *sum, uint32_t recv, uint32_t op)
{
	struct pass_costs costs = build_costs(p->st, sum, true);
	const uint32_t launch = build_launch(p->st, &costs, op),
		       node = build_kernel(p->st, &costs, op);

	build_begins(p->st, node, launch, recv);
	return build_join_groups(p->st, node);
}

/* Lets the host do at once what it owes (build_launch). */
static void pay_host(struct class_state *st)
{
	struct builder *b = st->b;
	struct sc_cost owed = {.work_us = st->owed_us, .owner_frac[SC_OWN_HOST] = 1};

	if (owed.work_us > 0)
		sc_graph_add_node(
			b->graph, SC_NODE_HOST, st->lanes.host,
			(struct sc_node_use){sc_graph_add_cost(b->graph, &owed), SC_NAME_JOIN});
	st->owed_us = 0;
}

/* Returns the node at which the host has come to the pass, and has waited for all it asked for, if
 * it does so. */
static uint32_t host_arrives(struct pass *p, uint32_t recv)
{
	struct class_state *st = p->st;
	struct builder *b = st->b;
	const uint32_t on[] = {recv, st->awaited, st->last_compute};
	uint32_t sync;

	pay_host(st);
	sync = sc_graph_add_node(b->graph, SC_NODE_SYNC, st->lanes.host,
				 (struct sc_node_use){b->zero_cost, SC_NAME_JOIN});

	for (int i = 0; b->sync_p2p && i < 3; i++)
		sc_graph_add_dep(b->graph, sync, on[i]);
	return sync;
}

/* Begins the pass with the host's part of a micro-batch. */
void build_begin_parts(struct pass *p, uint32_t recv)
{
	struct class_state *st = p->st;
	struct builder *b = st->b;
	struct sc_summary sum = build_host_summary(st);
	uint32_t sync = SC_NONE;

	if (p->by_op || b->sync_p2p)
		sync = host_arrives(p, recv);
	if (!p->by_op) {
		add_part(
			p, &sum, recv,
			sc_op_pack(SC_NAME_MICRO_BATCH_HOST, p->slot->chunk, p->slot->micro_batch));
		return;
	}
	build_full_begin(p, recv);
	/* Weights are asked for when the host has come to the pass. */
	build_compute_after(st, sync);
	sc_graph_add_dep(b->graph, st->last_compute, p->emit.compute_dep);
	p->emit.compute_dep = st->last_compute;
}

/* Adds `n` blocks of a run; returns their last node. */
uint32_t build_blocks(struct pass *p, const struct run *run, double n)
{
	struct sc_summary sum;

	if (p->by_op) {
		emit_full_run(p, run->block, n);
		p->st->last_compute = p->emit.compute_dep;
		return p->emit.compute_dep;
	}
	sum = build_run_sum(p, run->block, n);
	return add_part(p, &sum, SC_NONE,
			sc_op_pack(run->name, p->slot->chunk,
				   (unsigned)n | (unsigned)(run - p->run) << SC_OP_LAYERS_BITS));
}

/* Lets the compute lane go on only after `node`. */
void build_wait_for(struct pass *p, uint32_t node)
{
	build_compute_after(p->st, node);
	p->emit.compute_dep = p->st->last_compute;
}

/* Reduces gradients after `node`; where the software does not overlap, compute waits for it. */
void build_reduce(struct pass *p, const struct run *run, double n, uint32_t node)
{
	build_grad_reduce(p->st, run->params, n, node);
	if (p->st->b->tf->request->software.grad_sync == SC_GRAD_AFTER)
		build_wait_for(p, p->st->last[SC_BESIDE_GRAD]);
}

/* Says whether a run's gradients are reduced with the embedding's, which come last: with one stage
 * a tied head's weights are the embedding's. */
bool build_reduces_later(const struct pass *p, const struct run *run)
{
	const struct builder *b = p->st->b;

	return run->params == &b->tf->head && b->built->shape.pp == 1 &&
	       b->tf->request->config.model.tied_embeddings;
}

struct sc_summary build_pass_summary(const struct pass *p)
{
	struct sc_summary sum = build_host_summary(p->st);

	for (int i = 0; i < p->n_runs; i++) {
		struct sc_summary part = build_run_sum(p, p->run[i].block, p->run[i].n);

		sum = sc_summary_then(&sum, &part);
	}
	return sum;
}

static struct pass_costs *pass_costs_of(const struct class_state *st, const struct sc_slot *slot,
					bool partial)
{
	const uint32_t chunk = st->id * st->b->tf->map.n_chunks + slot->chunk;

	return &st->b->pass_costs[(chunk * SC_N_PASS_KINDS + slot->kind) * 2 + partial];
}

static bool reduces_each(const struct class_state *st)
{
	const struct sc_sharding_rule *sharding = &st->b->sharding;

	return sharding->gradients && sharding->each && st->b->tf->classes[st->id].is_replicated;
}

/* Finds the costs of the same pass on the class before, which as a rule has as many layers. */
static const struct pass_costs *costs_of_twin(const struct class_state *st,
					      const struct sc_slot *slot, bool partial)
{
	const struct sc_transformer *tf = st->b->tf;
	bool ends[4];

	if (st->id == 0 || tf->classes[st->id].variant != tf->classes[st->id - 1].variant ||
	    tf->classes[st->id].is_replicated != tf->classes[st->id - 1].is_replicated)
		return NULL;
	const uint32_t stage = (uint32_t)tf->placement.classes[st->id].stage,
		       before = (uint32_t)tf->placement.classes[st->id - 1].stage;
	const struct sc_layer_counts *layers = tf->stage_layers;

	sc_transformer_ends(tf, stage, slot->chunk, &ends[0], &ends[1]);
	sc_transformer_ends(tf, before, slot->chunk, &ends[2], &ends[3]);
	if (ends[0] != ends[2] || ends[1] != ends[3] ||
	    memcmp(&layers[sc_virtual_stage(&tf->map, stage, slot->chunk)],
		   &layers[sc_virtual_stage(&tf->map, before, slot->chunk)], sizeof(*layers)) != 0)
		return NULL;
	return pass_costs_of(st - 1, slot, partial);
}

uint32_t build_go_on(struct class_state *st, const struct sc_slot *slots, uint32_t i, uint32_t n)
{
	const bool reduces = reduces_each(st), waits = launches_wait(st);
	const uint32_t last = st->b->tf->partial ? st->b->built->shape.micro_batches - 1 : SC_NONE;
	struct pass_costs *all = pass_costs_of(st, &(struct sc_slot){.kind = 0}, false);

	for (; i < n && !reduces && !slots[i].last; i++) {
		const uint32_t chunk = slots[i].chunk,
			       kind = chunk * SC_N_PASS_KINDS + slots[i].kind;
		struct pass_costs *costs = &all[kind * 2 + (slots[i].micro_batch == last)];

		if (costs->gpu == SC_NONE)
			break;
		if (costs->lead == SC_NONE)
			continue;
		if (waits || st->ahead_us < costs->lead_us)
			break;
		launch_early(st, costs);
	}
	return i;
}

/* Adds a coarse pass as a node: passes of a chunk cost the same, whatever their micro-batch. Where
 * each backward reduces its gradients, that goes on beside what follows. */
uint32_t build_plain_pass(struct class_state *st, const struct sc_slot *slot, bool partial,
			  uint32_t recv)
{
	struct builder *b = st->b;
	struct pass_costs *costs = pass_costs_of(st, slot, partial);
	uint32_t op = sc_op_pack(PARTS[slot->kind].whole, slot->chunk, slot->micro_batch);
	const bool shares = reduces_each(st), prints = b->graph->prints;
	const bool is_first = costs->gpu == SC_NONE;

	if (b->full || (b->by_op && shares)) {
		pay_host(st);
		struct pass p = build_pass_of(st, slot, partial);

		build_full_begin(&p, recv);
		for (int i = 0; i < p.n_runs; i++)
			emit_full_run(&p, p.run[i].block, p.run[i].n);
		st->last_compute = p.emit.compute_dep;
		return p.emit.compute_dep;
	}
	const struct pass_costs *twin = is_first ? costs_of_twin(st, slot, partial) : NULL;

	if (twin && twin->gpu != SC_NONE) {
		*costs = *twin;
		costs->late = SC_NONE;
	} else if (is_first) {
		struct pass p = build_pass_of(st, slot, partial);
		struct sc_summary sum = build_pass_summary(&p);

		*costs = build_costs(st, &sum, shares);
	}
	const uint32_t launch = build_launch(st, costs, op);

	b->graph->prints &= is_first; /* those after it follow from the order of passes */
	const uint32_t node = build_kernel(st, costs, op);

	b->graph->prints = prints;
	build_begins(st, node, launch, recv);
	return build_join_groups(st, node);
}

/* Says whether a bucket goes on from one run to the next, as from layers with a window to those
 * without. */
static bool is_as_large(const struct run *a, const struct run *b)
{
	return a->is_layer && b->is_layer &&
	       fabs(a->params->trainable - b->params->trainable) < 0.5 &&
	       fabs(a->params->trainable_expert - b->params->trainable_expert) < 0.5;
}

static uint32_t build_pass(struct class_state *st, const struct sc_slot *slot, uint32_t recv)
{
	const struct builder *b = st->b;
	const struct sc_sharding_rule *sharding = &b->sharding;
	bool overlaps = b->tf->request->software.grad_sync == SC_GRAD_OVERLAP;
	bool partial = build_is_partial(b, slot->micro_batch);
	bool reduces = sc_pass_makes_gradients((enum sc_pass_kind)slot->kind) &&
		       ((sharding->gradients && sharding->each) || (slot->last && overlaps));
	struct pass p;

	if (!b->tf->classes[st->id].is_replicated || !(sharding->weights || reduces))
		return build_plain_pass(st, slot, partial, recv);
	if (sharding->weights)
		return build_sharded_pass(st, slot, partial, recv);
	p = build_pass_of(st, slot, partial);
	p.by_op |= b->by_op;
	/* A backward pass whose gradients are complete is buckets of layers, each followed by its
	 * reduction. */
	const struct sc_request *req = p.st->b->tf->request;
	double bucket = req->software.bucket_mib * SC_BYTES_PER_MIB / sc_grad_bytes(req);
	double open = 0; /* layers of a bucket that is not full */

	build_begin_parts(&p, recv);
	for (int i = 0; i < p.n_runs; i++) {
		const struct run *run = &p.run[i];
		double params = run->params->trainable + run->params->trainable_expert;
		bool goes_on = i + 1 < p.n_runs && is_as_large(run, run + 1);
		double per_bucket = HUGE_VAL, n;

		if (run->is_layer && bucket > 0 && params > 0)
			per_bucket = fmax(1, ceil(bucket / params));
		for (double done = 0; done < run->n; done += n) {
			n = fmin(per_bucket - open, run->n - done);
			uint32_t node = build_blocks(&p, run, n);

			open += n;
			if (open < per_bucket && (goes_on || done + n < run->n))
				continue;
			if (!build_reduces_later(&p, run) && params > 0)
				build_reduce(&p, run, open, node);
			open = 0;
		}
	}
	return p.st->last_compute;
}

uint32_t build_chunk(struct class_state *st, const struct sc_slot *slot, uint32_t recv)
{
	struct pass_copies copies;

	if (!st->b->offloads)
		return build_pass(st, slot, recv);
	copies = build_pass_begin(st, slot, build_is_partial(st->b, slot->micro_batch));
	return build_pass_end(st, &copies, build_pass(st, slot, recv));
}
