/* Two passes side by side on one GPU: each computes while the other's tokens travel to experts and
 * back (DeepSeek-V3, arXiv:2412.19437, §3.2.1; Megatron Core, combined_1f1b.py). Kernels of both
 * share one compute lane, exchanges of both one communication lane, each lane in one order; the
 * exchange's kernels hold the SMs that they need, and the engine says what each takes beside the
 * other. Tensor- and context-parallel collectives keep both waiting. This file finds the pairs and
 * adds their nodes, op by op or as the summary of both. */
#include <math.h>
#include <string.h>

#include "predict/op_names.h"
#include "predict/transformer/build_priv.h"
#include "predict/transformer/transformer_priv.h"

/* One pass of a pair: runs of equal blocks, and graph cost ids of their steps as in sc_block_emit.
 * `order` has the same steps, whose times decide the order of both passes' steps: the pass goes
 * first that can begin sooner, then the one that comes sooner to its next exchange. A program has
 * one order for all its ranks: a slow rank has that of the others. */
struct side {
	struct {
		const struct sc_block *block, *order;
		double n;
		uint32_t *costs;
	} run[MAX_RUNS];
	int n_runs;
};

/* The place to which a pass has come. */
struct place {
	const struct side *side;
	struct sc_emit *emit;
	int run;
	double nth;
	size_t step;
	double ready_us; /* the input of its next step is there */
	double left_us;  /* kernels before its next exchange; HUGE_VAL: there is none */
};

/* Returns the next step, as the order has it. */
static const struct sc_step *next_step(const struct place *p)
{
	return p->run < p->side->n_runs ? &p->side->run[p->run].order->steps.at[p->step] : NULL;
}

static bool is_exchange(const struct sc_step *step)
{
	return step->kind == SC_STEP_COMM && step->axis == SC_COMM_EP && !step->in_turn;
}

/* Goes to the first run and block from here that has steps. */
static void place_settle(struct place *p)
{
	while (p->run < p->side->n_runs && p->step >= p->side->run[p->run].block->steps.n) {
		if (p->emit && p->emit->node)
			p->emit->node += p->step;
		p->step = 0;
		if (++p->nth < p->side->run[p->run].n)
			continue;
		p->nth = 0;
		p->run++;
	}
}

static void advance(struct place *p)
{
	p->step++;
	place_settle(p);
}

static void find_left(struct place *p)
{
	struct place ahead = *p;
	const struct sc_step *step;
	double us = 0;

	ahead.emit = NULL;
	for (; (step = next_step(&ahead)) != NULL && !is_exchange(step); advance(&ahead))
		us += step->us;
	p->left_us = step ? us : HUGE_VAL;
}

static struct place side_begin(const struct side *side, struct sc_emit *emit)
{
	struct place p = {.side = side, .emit = emit};

	emit->in_flight = SC_NONE;
	place_settle(&p);
	find_left(&p);
	return p;
}

/* The times from which on the lanes are free. */
struct lanes_free {
	double compute_us, exchange_us;
};

static double begin_us(const struct place *p, const struct lanes_free *lanes)
{
	const struct sc_step *step = next_step(p);

	if (!step)
		return HUGE_VAL;
	if (step->kind == SC_STEP_HOST)
		return p->ready_us;
	return fmax(p->ready_us, is_exchange(step) ? lanes->exchange_us : lanes->compute_us);
}

static struct place *choose_side(struct place places[2], const struct lanes_free *lanes)
{
	double us[2] = {begin_us(&places[0], lanes), begin_us(&places[1], lanes)};

	if (us[0] < us[1] || us[1] < us[0])
		return &places[us[1] < us[0]];
	return &places[places[1].left_us < places[0].left_us];
}

/* Emits the pass's next step. */
static void take_step(struct place *p, struct lanes_free *lanes)
{
	const struct sc_step *step = next_step(p);
	double end_us = begin_us(p, lanes) + step->us;

	sc_block_emit_step(p->side->run[p->run].block, p->step, p->emit,
			   p->side->run[p->run].costs);
	advance(p);
	if (step->kind == SC_STEP_HOST)
		return;
	p->ready_us = end_us;
	if (is_exchange(step)) {
		lanes->exchange_us = end_us;
		find_left(p);
		return;
	}
	lanes->compute_us = end_us;
	if (step->kind == SC_STEP_KERNEL) {
		p->left_us -= step->us;
	} else if (p->emit->in_flight == SC_NONE) { /* all kernels wait for this collective */
		p->emit->in_flight = p->emit->compute_dep;
		sc_block_emit_end(p->emit);
	}
}

/* Appends the passes op by op. Both emit to the same lanes; each emit.compute_dep is then what the
 * pass ended with, where the compute lane has not waited for it. */
static void emit_pair(const struct side side[2], struct sc_emit emit[2])
{
	struct place places[2] = {side_begin(&side[0], &emit[0]), side_begin(&side[1], &emit[1])};
	struct lanes_free lanes = {0, 0};

	while (next_step(&places[0]) || next_step(&places[1]))
		take_step(choose_side(places, &lanes), &lanes);
	for (int i = 0; i < 2; i++)
		sc_block_emit_end(&emit[i]);
}

/* ---- a pair alone ---- */

/* The sum over the steps of a side that ran. */
struct walk {
	const struct sc_build_scratch *scratch;
	double kernel_us, comm_us;
	double us[SC_N_OP_NAMES], count[SC_N_OP_NAMES];
	double owner_us[SC_N_OWNERS];
	bool is_comm[SC_N_OP_NAMES];
};

static void visit(struct walk *w, const struct sc_step *step, uint32_t node)
{
	const struct sc_timeline *tl = &w->scratch->timeline;
	double us;

	if (step->kind == SC_STEP_HOST)
		return;
	us = tl->end_us[node] - tl->start_us[node];
	w->us[step->name] += us;
	w->count[step->name]++;
	w->is_comm[step->name] = step->kind == SC_STEP_COMM;
	if (step->kind == SC_STEP_COMM) {
		w->comm_us += us;
		return;
	}
	w->kernel_us += us;
	for (int o = 0; o < SC_N_OWNERS; o++)
		w->owner_us[o] += us * step->cost.owner_frac[o];
}

/* Sums up a side; nothing hides the share `exposed` of its exchanges. */
static void conclude_side(const struct walk *w, double exposed, struct sc_arena *arena,
			  struct sc_pair_alone *out)
{
	out->gpu_us = w->kernel_us + exposed * w->comm_us;
	memcpy(out->owner_us, w->owner_us, sizeof(out->owner_us));
	out->owner_us[SC_OWN_COMM] += exposed * w->comm_us;
	out->hidden_us = (1 - fmin(1, exposed)) * w->comm_us;
	out->parts = sc_arena_calloc(arena, SC_N_OP_NAMES, sizeof(*out->parts));
	out->n_parts = 0;
	for (uint32_t n = 0; n < SC_N_OP_NAMES; n++)
		if (w->count[n] > 0)
			out->parts[out->n_parts++] = (struct sc_pair_part){
				n, w->us[n] * (w->is_comm[n] ? exposed : 1), w->count[n]};
}

/* Runs the pair alone on a GPU that is busy until `gpu_free_us`. Nodes of steps go to `node`. */
static int run_alone(const struct side side[2], double gpu_free_us,
		     struct sc_build_scratch *scratch, uint32_t *node[2], struct sc_err *err)
{
	struct side own[2] = {side[0], side[1]};
	struct sc_emit emit[2];
	size_t at = 0;

	sc_block_alone_begin(scratch, gpu_free_us, &emit[0]);
	scratch->graph.lanes.at[emit[0].lanes.comm].priority = 1;
	emit[0].shared = true;
	emit[1] = emit[0];
	for (int i = 0; i < 2; i++)
		emit[i].node = node[i];
	for (int i = 0; i < 2; i++)
		for (int r = 0; r < own[i].n_runs; r++)
			at += 2 * own[i].run[r].block->steps.n;
	scratch->ids.n = 0;
	for (size_t i = 0; i < at; i++)
		SC_VEC_PUSH(&scratch->ids, SC_NONE);
	at = 0;
	for (int i = 0; i < 2; i++)
		for (int r = 0; r < own[i].n_runs; r++) {
			own[i].run[r].costs = scratch->ids.at + at;
			at += 2 * own[i].run[r].block->steps.n;
		}
	emit_pair(own, emit);
	sc_graph_seal(&scratch->graph);
	return sc_simulate(scratch->sim, &scratch->graph, NULL, &scratch->timeline, err);
}

/* Simulates the pair alone; parts are in `arena`. `side` needs no costs. */
static int summarize_pair(const struct side side[2], struct sc_build_scratch *scratch,
			  struct sc_arena *arena, struct sc_pair *out, struct sc_err *err)
{
	uint32_t *node[2];
	struct walk walk[2];
	double gpu_us, exposed;
	int rc;

	*out = (struct sc_pair){.host_us = 0};
	for (int i = 0; i < 2; i++) {
		size_t n = 0;

		for (int r = 0; r < side[i].n_runs; r++)
			n += side[i].run[r].block->steps.n * (size_t)side[i].run[r].n;
		node[i] = sc_arena_calloc(arena, n + 1, sizeof(**node));
		walk[i] = (struct walk){.scratch = scratch};
		for (int r = 0; r < side[i].n_runs; r++)
			out->host_us += side[i].run[r].n * side[i].run[r].block->sum.host_us;
	}
	rc = run_alone(side, out->host_us, scratch, node, err);
	if (rc)
		return rc;
	gpu_us = sc_quantize_us(scratch->timeline.total_us - out->host_us);
	for (int i = 0; i < 2; i++) {
		size_t at = 0;

		for (int r = 0; r < side[i].n_runs; r++)
			for (double k = 0; k < side[i].run[r].n; k++)
				for (size_t s = 0; s < side[i].run[r].block->steps.n; s++)
					visit(&walk[i], &side[i].run[r].block->steps.at[s],
					      node[i][at++]);
	}
	exposed = gpu_us - walk[0].kernel_us - walk[1].kernel_us;
	exposed = fmax(exposed, 0) / fmax(walk[0].comm_us + walk[1].comm_us, 1e-9);
	for (int i = 0; i < 2; i++)
		conclude_side(&walk[i], exposed, arena, &out->side[i]);
	out->side[0].gpu_us = sc_quantize_us(out->side[0].gpu_us);
	out->side[1].gpu_us = gpu_us - out->side[0].gpu_us;
	rc = run_alone(side, 0, scratch, node, err);
	out->lead_us =
		sc_quantize_us(fmin(fmax(scratch->timeline.total_us - gpu_us, 0), out->host_us));
	return rc;
}

enum { FORWARD_PARTIAL = 1, BACKWARD_PARTIAL = 2, N_PARTIAL = 4 };

static size_t pair_at(const struct sc_transformer *tf, uint32_t c, uint32_t forward,
		      uint32_t backward)
{
	return ((c * tf->map.n_chunks + forward) * tf->map.n_chunks + backward) * (size_t)N_PARTIAL;
}

static bool same_steps(const struct sc_block *a, const struct sc_block *b)
{
	for (size_t i = 0; a->steps.n == b->steps.n && i < a->steps.n; i++)
		if (a->steps.at[i].kind != b->steps.at[i].kind)
			return false;
	return a->steps.n == b->steps.n;
}

static struct side side_of(const struct pass *p, uint32_t *const *costs)
{
	struct side out = {.n_runs = p->n_runs};

	for (int r = 0; r < p->n_runs; r++) {
		int block = p->run[r].block;

		out.run[r].block = &build_variant(p->st)->block[p->partial][block];
		/* The order is that of the fastest rank with the same steps. */
		const struct sc_block *best = NULL;

		for (size_t v = 0; v < p->st->b->tf->n_variants; v++) {
			const struct sc_block *one =
				&p->st->b->tf->variant[v]->block[p->partial][block];

			if (same_steps(one, out.run[r].block) &&
			    (!best || one->sum.gpu_us < best->sum.gpu_us))
				best = one;
		}
		out.run[r].order = best;
		out.run[r].n = p->run[r].n;
		out.run[r].costs = costs ? costs[block] : NULL;
	}
	return out;
}

/* Returns the time of a pass's exchanges that nothing hides. */
static double exchange_us(const struct pass *p)
{
	double us = 0;

	for (int r = 0; r < p->n_runs; r++) {
		const struct sc_block *block =
			&build_variant(p->st)->block[p->partial][p->run[r].block];

		for (size_t i = 0; i < block->steps.n; i++)
			if (block->steps.at[i].kind == SC_STEP_COMM &&
			    block->steps.at[i].axis == SC_COMM_EP)
				us += p->run[r].n * sc_block_exposed_us(block, i);
	}
	return us;
}

double build_pass_us(const struct sc_transformer *tf, uint32_t class_id, const struct sc_slot *slot,
		     bool partial)
{
	struct builder b = {.tf = tf};
	struct class_state st = {.b = &b, .id = class_id};
	struct pass p = build_pass_of(&st, slot, partial);

	return build_pass_summary(&p).gpu_us - (tf->pairs ? exchange_us(&p) : 0);
}

/* ---- the pairs of a schedule ---- */

/* The pairs that were simulated: those of stages with the same layers are alike. */
struct known_pair {
	const struct known_pair *next;
	struct side side[2];
	struct sc_pair pair;
};
struct known_pairs {
	const struct known_pair *first;
	struct sc_build_scratch *scratch;
};

static bool same_side(const struct side *a, const struct side *b)
{
	for (int r = 0; a->n_runs == b->n_runs && r < a->n_runs; r++)
		if (a->run[r].block != b->run[r].block || a->run[r].order != b->run[r].order ||
		    a->run[r].n != b->run[r].n)
			return false;
	return a->n_runs == b->n_runs;
}

/* Finds the pair of a class's passes on two chunks. */
static int find_pair(const struct sc_transformer *tf, size_t at, struct known_pairs *known,
		     const struct sc_pair **out, struct sc_err *err)
{
	uint32_t n = tf->map.n_chunks, partial = at % N_PARTIAL,
		 c = (uint32_t)(at / N_PARTIAL / n / n);
	uint32_t chunk[2] = {(uint32_t)(at / N_PARTIAL / n % n), (uint32_t)(at / N_PARTIAL % n)};
	struct builder b = {.tf = tf};
	struct class_state st = {.b = &b, .id = c};
	struct side side[2];

	if (partial && !tf->partial)
		return 0;
	for (int k = 0; k < 2; k++) {
		const struct sc_slot slot =
			build_slot_of(tf, c, chunk[k], k ? SC_PASS_BACKWARD : SC_PASS_FORWARD);
		struct pass p = build_pass_of(&st, &slot, partial >> k & 1);

		side[k] = side_of(&p, NULL);
	}
	struct known_pair *pair;

	for (const struct known_pair *k = known->first; k; k = k->next)
		if (same_side(&k->side[0], &side[0]) && same_side(&k->side[1], &side[1])) {
			*out = &k->pair;
			return 0;
		}
	pair = sc_arena_calloc(known->scratch->arena, 1, sizeof(*pair));
	pair->next = known->first;
	memcpy(pair->side, side, sizeof(pair->side));
	known->first = pair;
	*out = &pair->pair;
	return summarize_pair(side, known->scratch, known->scratch->arena, &pair->pair, err);
}

int sc_transformer_find_pairs(struct sc_transformer *tf, struct sc_build_scratch *scratch,
			      struct sc_err *err)
{
	size_t n = pair_at(tf, (uint32_t)tf->placement.n_classes, 0, 0);
	struct known_pairs known = {.scratch = scratch};
	int rc = 0;

	const struct sc_config *cfg = &tf->request->config;
	bool pairs = cfg->parallel.schedule == SC_SCHED_FILE
			     ? tf->file.pairs && !cfg->training.moe_overlap
			     : sc_schedule_traits(cfg->parallel.schedule).pairs;

	tf->pairs = NULL;
	if (!pairs || !sc_transformer_may_pair(tf->request))
		return 0;
	tf->pairs = sc_arena_calloc(scratch->arena, n, sizeof(*tf->pairs));
	/* A pair's order may be that of any variant's steps. */
	for (size_t v = 0; v < tf->n_variants; v++)
		sc_variant_make_steps(tf, tf->variant[v]);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = find_pair(tf, i, &known, &tf->pairs[i], err);
	return rc;
}

static struct sc_summary summary_of(const struct sc_pair_alone *pass)
{
	struct sc_summary out = {.gpu_us = pass->gpu_us, .hidden_us = pass->hidden_us};

	memcpy(out.owner_us, pass->owner_us, sizeof(out.owner_us));
	return out;
}

static void note_beside(struct builder *b, uint32_t cost, const struct sc_pair_alone *pass)
{
	b->built->beside[b->built->n_beside++] = (struct sc_beside){cost, pass};
}

static void find_costs(const struct class_state *st, const struct sc_pair *pair,
		       struct pair_costs *out)
{
	struct sc_summary host = build_host_summary(st), hosts = sc_summary_repeat(&host, 2);
	struct sc_summary sum[2] = {summary_of(&pair->side[0]), summary_of(&pair->side[1])};
	struct pass_costs second;

	sum[0].host_us = pair->host_us;
	sum[0].lead_us = pair->lead_us;
	sum[0] = sc_summary_then(&hosts, &sum[0]);
	out->first = build_costs(st, &sum[0], false);
	second = build_costs(st, &sum[1], false);
	out->second = second.gpu;
	note_beside(st->b, out->first.gpu, &pair->side[0]);
	note_beside(st->b, out->second, &pair->side[1]);
}

static void full_pair(struct class_state *st, const struct sc_slot *slots, const uint32_t recv[2],
		      uint32_t node[2])
{
	struct builder *b = st->b;
	struct sc_emit emit[2];
	struct side side[2];
	struct sc_node_use join = {b->zero_cost, SC_NAME_JOIN};

	for (int i = 0; i < 2; i++) {
		struct pass p =
			build_pass_of(st, &slots[i], build_is_partial(b, slots[i].micro_batch));

		build_full_begin(&p, recv[i]);
		emit[i] = p.emit;
		emit[i].shared = true;
		side[i] = side_of(&p, st->pair_costs[p.partial]);
	}
	emit_pair(side, emit);
	for (int i = 0; i < 2; i++) {
		node[i] = sc_graph_add_node(b->graph, SC_NODE_EVENT, st->lanes.compute, join);
		for (int k = 0; i == 0 && k < 2; k++)
			sc_graph_add_dep(b->graph, node[i], emit[k].compute_dep);
	}
	st->last_compute = node[1];
}

void build_pair(struct class_state *st, const struct sc_slot *slots, const uint32_t recv[2],
		uint32_t node[2])
{
	if (st->b->full)
		full_pair(st, slots, recv, node);
	else {
		struct builder *b = st->b;
		size_t at = pair_at(b->tf, st->id, slots[0].chunk, slots[1].chunk) +
			    (build_is_partial(b, slots[0].micro_batch) ? FORWARD_PARTIAL : 0) +
			    (build_is_partial(b, slots[1].micro_batch) ? BACKWARD_PARTIAL : 0);
		struct pair_costs *costs = &b->pair_costs[at];
		struct pass_costs second = {.lead = SC_NONE, .late = SC_NONE};
		uint32_t op, launch;

		if (costs->second == SC_NONE)
			find_costs(st, b->tf->pairs[at], costs);
		second.gpu = costs->second;
		op = sc_op_pack(SC_NAME_FORWARD_BESIDE, slots[0].chunk, slots[0].micro_batch);
		launch = build_launch(st, &costs->first, op);
		node[0] = build_kernel(st, &costs->first, op);
		build_begins(st, node[0], launch, recv[0]);
		sc_graph_add_dep(b->graph, node[0], recv[1]);
		op = sc_op_pack(SC_NAME_BACKWARD_BESIDE, slots[1].chunk, slots[1].micro_batch);
		node[1] = build_join_groups(st, build_kernel(st, &second, op));
	}
}
