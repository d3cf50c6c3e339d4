/* Skipping the steady state of a long pipeline. With every duration fixed, a schedule is a max-plus
 * linear system: once all slot times of two consecutive periods differ by the same constant from
 * those of the period before, they do so until the first stage leaves its steady state; and so does
 * a stage that waits for no other and on which the end depends, if no other slot's times differ by
 * more. A short run that shows this gives the long run exactly. */
#include "predict/transformer/summarize.h"

#define CLOSE 1e-12

/* Returns how many periods must be like the one before. A period of interleaving is a round of all
 * chunks, longer than any output waits for its turn: one is enough. Where a micro-batch passes a
 * stage twice, more are on their way than on a loop, and what two of them show need not last. */
uint32_t sc_steady_n_to_check(const struct sc_schedule_shape *shape)
{
	bool twice = shape->kind == SC_SCHED_ZB_V || shape->kind == SC_SCHED_V_HALF ||
		     shape->kind == SC_SCHED_V_MIN;

	return twice ? 8 : shape->kind == SC_SCHED_INTERLEAVED ? 1 : 2;
}

/* The slots of a class in a phase from one moment on, and their number in a period. */
struct window {
	const struct sc_built *built;
	const struct sc_timeline *timeline;
	const struct sc_slot *slots;
	size_t at;           /* the class in slot_node */
	uint32_t first, end; /* from the moment on, to the phase's end */
	uint32_t per_period, micro_batches;
	uint32_t n_check; /* slots that must repeat those a period before */
};

static double slot_end_us(const struct window *w, uint32_t slot)
{
	return w->timeline->end_us[w->built->slot_node[w->at + slot]];
}

/* Returns the end of what has run beside passes so far, which must not fall behind; 0 if none. */
static double beside_end_us(const struct window *w, int kind, uint32_t slot)
{
	uint32_t node = w->built->slot_beside[kind][w->at + slot];

	return node == SC_NONE ? 0 : w->timeline->end_us[node];
}

static struct window window_of(const struct sc_steady_run *r, uint32_t c, uint32_t phase)
{
	const struct sc_built *built = r->run->built;
	uint32_t stage = (uint32_t)r->run->tf->placement.classes[c].stage;
	uint32_t period = sc_schedule_period(&built->shape);
	uint32_t n = built->passes.n[stage] / built->passes.n_phases;
	uint32_t per_period = n / built->shape.micro_batches * period;

	return (struct window){
		.built = built,
		.timeline = r->run->timeline,
		.slots = sc_passes_of(&built->passes, stage),
		.at = (size_t)c * built->passes.stride,
		.first = n * phase,
		.end = n * (phase + 1),
		.per_period = per_period,
		.micro_batches = period,
		.n_check = sc_steady_n_to_check(&built->shape) * per_period,
	};
}

/* Returns a middle window: the last micro-batches may be partial or beside reductions. */
static struct window middle_of(const struct sc_steady_run *r, uint32_t c, uint32_t phase)
{
	struct window w = window_of(r, c, phase);
	uint32_t n = w.end - w.first, want = w.per_period + w.n_check;

	w.first = n < want ? w.end : w.first + (n - want) / 2;
	return w;
}

/* Says whether periods from the window's begin on took `period_us` each, by slot; or `at_most`. */
static bool repeats(const struct window *w, double period_us, bool at_most)
{
	double most_us = period_us * (1 + CLOSE), least_us = at_most ? 0 : period_us * (1 - CLOSE);
	uint32_t n = w->per_period;

	if (w->first + n + w->n_check > w->end)
		return false;
	for (uint32_t i = w->first; i < w->first + w->n_check; i++) {
		double step = slot_end_us(w, i + n) - slot_end_us(w, i);

		const struct sc_slot *b = &w->slots[i + n];
		if (!(w->slots[i].kind == b->kind && w->slots[i].chunk == b->chunk &&
		      w->slots[i].micro_batch + w->micro_batches == b->micro_batch) ||
		    step > most_us || step < least_us)
			return false;
		/* Work of an earlier phase may run beside this slot and not beside later ones. */
		for (int k = 0; k < SC_N_BESIDE; k++) {
			double was_us = beside_end_us(w, k, i);

			step = beside_end_us(w, k, i + n) - was_us;
			if (step > 0 ? step > most_us || step < least_us
				     : was_us > slot_end_us(w, i))
				return false;
		}
	}
	return true;
}

/* Returns the CPU time that a class needs for one period: it must not fall behind later. */
static double host_us(const struct sc_transformer *tf, const struct sc_built *built, uint32_t c)
{
	const struct sc_variant *v = tf->variant[tf->classes[c].variant];
	const struct sc_block *block = v->block[0];
	struct sc_stage_parts parts = sc_transformer_stage(tf, tf->placement.classes[c].stage);
	bool splits = block[SC_BLOCK_LAYER_W].sum.host_us > 0;
	double chunks = (double)tf->map.n_chunks, us = 0;

	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++) {
		const struct sc_block *of = block + sc_block_of(SC_BLOCK_LAYER_F, kind);

		us += parts.layers.of[kind] *
		      (of[0].sum.host_us +
		       (splits ? of[2].sum.host_us + of[3].sum.host_us : of[1].sum.host_us));
	}
	us += (splits ? 3 : 2) * chunks * v->env.software->host_micro_batch_us / v->env.host_speed;
	if (parts.embed)
		us += block[SC_BLOCK_EMBED_F].sum.host_us + block[SC_BLOCK_EMBED_B].sum.host_us;
	if (parts.head)
		us += block[SC_BLOCK_HEAD_F].sum.host_us + block[SC_BLOCK_HEAD_B].sum.host_us;
	return us * sc_schedule_period(&built->shape) / tf->map.replicas;
}

static struct sc_repeat last_period(const struct window *w)
{
	uint32_t to = w->first + w->n_check;

	return (struct sc_repeat){.from_us = slot_end_us(w, to - w->per_period),
				  .to_us = slot_end_us(w, to)};
}

/* The claim on a phase: from `from_us` on every class does in each period what it did in the one
 * before, in the same time or, where `at_most`, no more. */
struct claim {
	uint32_t phase;
	double from_us, period_us;
	bool at_most;
};

static bool all_repeat(const struct sc_steady_run *r, const struct claim *claim)
{
	for (uint32_t c = 0; c < r->run->tf->placement.n_classes; c++) {
		struct window w = claim->at_most ? middle_of(r, c, claim->phase)
						 : window_of(r, c, claim->phase);

		while (!claim->at_most && w.first < w.end &&
		       slot_end_us(&w, w.first) < claim->from_us)
			w.first++;
		if (!repeats(&w, claim->period_us, claim->at_most) ||
		    host_us(r->run->tf, r->run->built, c) > claim->period_us * (1 + CLOSE))
			return false;
	}
	return true;
}

static struct claim claim_of(const struct window *w, uint32_t phase, bool at_most)
{
	double from_us = slot_end_us(w, w->first);

	return (struct claim){phase, from_us, slot_end_us(w, w->first + w->per_period) - from_us,
			      at_most};
}

/* Goes back from the end over what it waited for, to the first node that was done when its class
 * was through the window of a phase; SC_NONE: never. */
static uint32_t find_decisive(const struct sc_steady_run *r, uint32_t phase)
{
	for (uint32_t node = sc_run_last(r->run); node != SC_NONE;
	     node = r->run->timeline->bound_by[node]) {
		struct window w = middle_of(r, sc_graph_class_of(r->run->graph, node), phase);

		if (w.first < w.end &&
		    r->run->timeline->end_us[node] <= slot_end_us(&w, w.first + w.n_check))
			return node;
	}
	return SC_NONE;
}

/* Says whether a node's class waited for nothing but itself for a period before it: its passes, its
 * host, and transfers that it asks for after them. */
static bool is_busy(const struct sc_steady_run *r, uint32_t node, double period_us)
{
	const double from_us = r->run->timeline->end_us[node] - period_us * (1 - CLOSE);
	const uint32_t c = sc_graph_class_of(r->run->graph, node);

	while (node != SC_NONE && sc_graph_class_of(r->run->graph, node) == c &&
	       r->run->timeline->end_us[node] > from_us)
		node = r->run->timeline->bound_by[node];
	return node != SC_NONE && sc_graph_class_of(r->run->graph, node) == c;
}

/* Says whether the end depends on a stage that waits for no other, while no stage needs more for a
 * period. The others may go ahead of it or fall back to it for long, but never keep it waiting, and
 * behind the steady state nothing is later than it would be now. */
static bool one_is_busy(const struct sc_steady_run *r, uint32_t phase, struct sc_repeat *out)
{
	uint32_t node = find_decisive(r, phase);
	struct claim claim;
	struct window w;

	if (node == SC_NONE)
		return false;
	w = middle_of(r, sc_graph_class_of(r->run->graph, node), phase);
	claim = claim_of(&w, phase, true);
	*out = last_period(&w);
	return is_busy(r, node, claim.period_us) && repeats(&w, claim.period_us, false) &&
	       all_repeat(r, &claim);
}

/* Says whether all stages repeat as one. */
static bool all_are_equal(const struct sc_steady_run *r, uint32_t phase, struct sc_repeat *out)
{
	struct window w = middle_of(r, 0, phase);
	struct claim claim;

	if (w.first == w.end)
		return false;
	claim = claim_of(&w, phase, false);
	*out = (struct sc_repeat){.from_us = claim.from_us,
				  .to_us = claim.from_us + claim.period_us};
	return all_repeat(r, &claim);
}

/* Returns a period of each class, which may be shorter, in each phase. */
static struct sc_repeat *own_repeats(const struct sc_steady_run *r)
{
	size_t n = r->run->tf->placement.n_classes, n_phases = r->run->built->passes.n_phases;
	struct sc_repeat *own = sc_arena_calloc(r->arena, n * n_phases, sizeof(*own)), *to = own;

	for (uint32_t c = 0; c < n; c++) {
		for (uint32_t p = 0; p < n_phases; p++) {
			struct window w = middle_of(r, c, p);

			*to++ = last_period(&w);
			to[-1].n = r->n_left_out;
		}
	}
	return own;
}

/* Returns the phase that a node on a compute lane is of, or the number of phases behind them. */
static uint32_t phase_of(const struct sc_steady_run *r, uint32_t c, uint32_t node)
{
	uint32_t phase = 0;

	for (; phase < r->run->built->passes.n_phases; phase++) {
		const struct window w = window_of(r, c, phase);

		if (r->run->timeline->end_us[node] <= slot_end_us(&w, w.end - 1))
			break;
	}
	return phase;
}

/* Says whether the end depends on an output that came round for the next chunk just then. Of a
 * longer run more outputs are there before the first stage asks: a stage that is done with a chunk
 * no longer waits for the next, and the phases' periods do not add up. */
static bool waits_for_round(const struct sc_steady_run *r)
{
	const struct sc_built *built = r->run->built;
	uint32_t later = SC_NONE, later_phase = 0;

	if (built->passes.n_phases <= 2)
		return false;
	for (uint32_t node = sc_run_last(r->run); node != SC_NONE;
	     node = r->run->timeline->bound_by[node]) {
		const uint32_t c = sc_graph_class_of(r->run->graph, node);
		uint32_t phase;

		if (r->run->graph->nodes.at[node].lane != built->compute[c])
			continue;
		phase = phase_of(r, c, node);
		if (later != SC_NONE && later != c && later_phase != phase &&
		    later_phase < built->passes.n_phases)
			return true;
		later = c;
		later_phase = phase;
	}
	return false;
}

bool sc_steady_detect(const struct sc_steady_run *r, struct sc_steady *out)
{
	uint32_t n_phases = r->run->built->passes.n_phases;
	/* A pipeline that never drains is read off its first stage, not off its end. */
	const bool drains = r->run->built->shape.kind != SC_SCHED_PIPEDREAM_2BW;
	struct sc_repeat *repeats = sc_arena_calloc(r->arena, n_phases, sizeof(*repeats));
	bool equal = true;

	if (waits_for_round(r))
		return false;
	for (uint32_t p = 0; p < n_phases; p++) {
		if (!all_are_equal(r, p, &repeats[p])) {
			equal = false;
			if (!drains || !one_is_busy(r, p, &repeats[p]))
				return false;
		}
		repeats[p].n = r->n_left_out;
	}
	*out = (struct sc_steady){repeats, n_phases, equal ? NULL : own_repeats(r)};
	return true;
}
