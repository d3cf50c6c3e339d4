/* Pairs of passes: in which order their ops go to the lanes, and what they take together. */
#include "predict/pair.h"

#include <math.h>
#include <string.h>

#include "predict/op_names.h"

/* Where a pass has come to. */
struct place {
	const struct sc_pair_side *side;
	struct sc_emit *emit;
	int run;
	double nth;
	size_t step;
	double ready_us; /* what its next step waits for is done */
	double left_us;  /* of kernels before its next exchange; HUGE_VAL: there is none */
};

/* As the order has it. */
static const struct sc_step *next_step(const struct place *p)
{
	return p->run < p->side->n_runs ? &p->side->run[p->run].order->steps.at[p->step] : NULL;
}

static bool is_exchange(const struct sc_step *step)
{
	return step->kind == SC_STEP_COMM && step->axis == SC_COMM_EP && !step->in_turn;
}

/* To the first run and block from here that has steps. */
static void settle(struct place *p)
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
	settle(p);
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

static struct place place_of(const struct sc_pair_side *side, struct sc_emit *emit)
{
	struct place p = {.side = side, .emit = emit};

	emit->in_flight = SC_NONE;
	settle(&p);
	find_left(&p);
	return p;
}

/* Lanes are free from then on. */
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

static struct place *choose(struct place places[2], const struct lanes_free *lanes)
{
	double us[2] = {begin_us(&places[0], lanes), begin_us(&places[1], lanes)};

	if (us[0] < us[1] || us[1] < us[0])
		return &places[us[1] < us[0]];
	return &places[places[1].left_us < places[0].left_us];
}

/* Emits the pass's next step. */
static void take(struct place *p, struct lanes_free *lanes)
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
	} else if (p->emit->in_flight == SC_NONE) { /* a collective that all kernels wait for */
		p->emit->in_flight = p->emit->compute_dep;
		sc_block_emit_end(p->emit);
	}
}

void sc_pair_emit(const struct sc_pair_side side[2], struct sc_emit emit[2])
{
	struct place places[2] = {place_of(&side[0], &emit[0]), place_of(&side[1], &emit[1])};
	struct lanes_free lanes = {0, 0};

	while (next_step(&places[0]) || next_step(&places[1]))
		take(choose(places, &lanes), &lanes);
	for (int i = 0; i < 2; i++)
		sc_block_emit_end(&emit[i]);
}

/* ---- alone ---- */

/* Calls `visit` for each step of a side, in its order, with the step's index over all of them. */
struct walk {
	const struct sc_build_scratch *scratch;
	const uint32_t *node;
	double kernel_us, comm_us;
	double us[SC_N_OP_NAMES], count[SC_N_OP_NAMES];
	double owner_us[SC_N_OWNERS];
};

static size_t n_steps(const struct sc_pair_side *side)
{
	size_t n = 0;

	for (int r = 0; r < side->n_runs; r++)
		n += side->run[r].block->steps.n * (size_t)side->run[r].n;
	return n;
}

static void visit(struct walk *w, const struct sc_step *step, uint32_t node)
{
	const struct sc_timeline *tl = &w->scratch->timeline;
	double us;

	if (step->kind == SC_STEP_HOST)
		return;
	us = tl->end_us[node] - tl->start_us[node];
	w->us[step->name] += us;
	w->count[step->name]++;
	if (step->kind == SC_STEP_COMM) {
		w->comm_us += us;
		return;
	}
	w->kernel_us += us;
	for (int o = 0; o < SC_N_OWNERS; o++)
		w->owner_us[o] += us * step->cost.owner_frac[o];
}

static void walk_side(const struct sc_pair_side *side, struct walk *w)
{
	size_t at = 0;

	for (int r = 0; r < side->n_runs; r++)
		for (double i = 0; i < side->run[r].n; i++)
			for (size_t s = 0; s < side->run[r].block->steps.n; s++)
				visit(w, &side->run[r].block->steps.at[s], w->node[at++]);
}

static bool is_comm(const struct sc_pair_side *side, uint32_t name)
{
	for (int r = 0; r < side->n_runs; r++)
		for (size_t s = 0; s < side->run[r].block->steps.n; s++)
			if (side->run[r].block->steps.at[s].name == name)
				return side->run[r].block->steps.at[s].kind == SC_STEP_COMM;
	return false;
}

/* Of its exchanges the share `exposed` is hidden by nothing. */
static void conclude_side(const struct sc_pair_side *side, const struct walk *w, double exposed,
			  struct sc_arena *arena, struct sc_pair_alone *out)
{
	out->gpu_us = w->kernel_us + exposed * w->comm_us;
	memcpy(out->owner_us, w->owner_us, sizeof(out->owner_us));
	out->owner_us[SC_OWN_COMM] += exposed * w->comm_us;
	out->parts = sc_arena_calloc(arena, SC_N_OP_NAMES, sizeof(*out->parts));
	out->n_parts = 0;
	for (uint32_t n = 0; n < SC_N_OP_NAMES; n++)
		if (w->count[n] > 0)
			out->parts[out->n_parts++] = (struct sc_pair_part){
				n, w->us[n] * (is_comm(side, n) ? exposed : 1), w->count[n]};
}

/* The pair alone, its GPU busy until `gpu_free_us`: its end. Nodes of steps go to `node`. */
static int run_alone(const struct sc_pair_side side[2], double gpu_free_us,
		     struct sc_build_scratch *scratch, uint32_t *node[2], struct sc_err *err)
{
	struct sc_pair_side own[2] = {side[0], side[1]};
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
	sc_pair_emit(own, emit);
	sc_graph_seal(&scratch->graph);
	return sc_simulate(scratch->sim, &scratch->graph, NULL, &scratch->timeline, err);
}

int sc_pair_summarize(const struct sc_pair_side side[2], struct sc_build_scratch *scratch,
		      struct sc_arena *arena, struct sc_pair *out, struct sc_err *err)
{
	uint32_t *node[2];
	struct walk walk[2];
	double gpu_us, exposed;
	int rc;

	*out = (struct sc_pair){.host_us = 0};
	for (int i = 0; i < 2; i++) {
		node[i] = sc_arena_calloc(arena, n_steps(&side[i]) + 1, sizeof(**node));
		walk[i] = (struct walk){.scratch = scratch, .node = node[i]};
		for (int r = 0; r < side[i].n_runs; r++)
			out->host_us += side[i].run[r].n * side[i].run[r].block->sum.host_us;
	}
	rc = run_alone(side, out->host_us, scratch, node, err);
	if (rc)
		return rc;
	gpu_us = sc_quantize_us(scratch->timeline.total_us - out->host_us);
	for (int i = 0; i < 2; i++)
		walk_side(&side[i], &walk[i]);
	exposed = gpu_us - walk[0].kernel_us - walk[1].kernel_us;
	exposed = fmax(exposed, 0) / fmax(walk[0].comm_us + walk[1].comm_us, 1e-9);
	for (int i = 0; i < 2; i++)
		conclude_side(&side[i], &walk[i], exposed, arena, &out->side[i]);
	out->side[0].gpu_us = sc_quantize_us(out->side[0].gpu_us);
	out->side[1].gpu_us = gpu_us - out->side[0].gpu_us;
	rc = run_alone(side, 0, scratch, node, err);
	out->lead_us =
		sc_quantize_us(fmin(fmax(scratch->timeline.total_us - gpu_us, 0), out->host_us));
	return rc;
}
