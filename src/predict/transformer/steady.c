/* Detects the steady state of a simulated pipeline schedule. */
#include "predict/transformer/steady.h"

#include <math.h>

uint32_t sc_steady_choose(const struct sc_schedule_shape *shape, uint32_t micro_batches,
			  unsigned attempt)
{
	uint32_t period = sc_schedule_period(shape);
	uint64_t want = (uint64_t)(sc_schedule_warmup(shape) + 6 * period) << attempt;

	if (period == 0 || micro_batches % period || want + period >= micro_batches)
		return micro_batches;
	return (uint32_t)want + (micro_batches - (uint32_t)want) % period;
}

/* The slots of a class from one moment on, and how many of them a period has. */
struct window {
	const struct sc_built *built;
	const struct sc_timeline *timeline;
	const struct sc_slot *slots;
	size_t at; /* of the class in slot_node */
	uint32_t n_slots, first, per_period, micro_batches;
};

static double slot_end_us(const struct window *w, uint32_t slot)
{
	return w->timeline->end_us[w->built->slot_node[w->at + slot]];
}

/* Of the gradients reduced so far: they must not fall behind the passes; 0 without any. */
static double grad_end_us(const struct window *w, uint32_t slot)
{
	uint32_t node = w->built->slot_grad[w->at + slot];

	return node == SC_NONE ? 0 : w->timeline->end_us[node];
}

static struct window window_of(const struct sc_transformer *tf, const struct sc_built *built,
			       const struct sc_timeline *timeline, uint32_t c)
{
	uint32_t stage = (uint32_t)tf->placement.classes[c].stage;
	uint32_t period = sc_schedule_period(&built->shape);

	return (struct window){
		.built = built,
		.timeline = timeline,
		.slots = sc_passes_of(&built->passes, stage),
		.at = (size_t)c * built->passes.stride,
		.n_slots = built->passes.n[stage],
		.per_period = built->passes.n[stage] / built->shape.micro_batches * period,
		.micro_batches = period,
	};
}

static bool same_pass(const struct window *w, const struct sc_slot *a, const struct sc_slot *b)
{
	return a->kind == b->kind && a->chunk == b->chunk &&
	       a->micro_batch + w->micro_batches == b->micro_batch;
}

/* The two periods from the window's beginning on took `period_us` each, slot by slot. */
static bool repeats(const struct window *w, double period_us)
{
	uint32_t n = w->per_period;

	if (w->first + 3 * n > w->n_slots)
		return false;
	for (uint32_t i = w->first; i < w->first + 2 * n; i++) {
		double step = slot_end_us(w, i + n) - slot_end_us(w, i);
		double grad = grad_end_us(w, i + n) - grad_end_us(w, i);

		if (!same_pass(w, &w->slots[i], &w->slots[i + n]) ||
		    fabs(step - period_us) > period_us * 1e-12)
			return false;
		if (grad > 0 && fabs(grad - period_us) > period_us * 1e-12)
			return false;
	}
	return true;
}

/* CPU time that a class needs for one period: it must not fall behind later. */
static double host_us(const struct sc_transformer *tf, const struct sc_built *built, uint32_t c)
{
	const struct sc_variant *v = &tf->variant[tf->classes[c].variant];
	const struct sc_block *block = v->block[0];
	struct sc_stage_parts parts = sc_transformer_stage(tf, tf->placement.classes[c].stage);
	bool splits = block[SC_BLOCK_LAYER_W].sum.host_us > 0;
	double chunks = (double)tf->map.n_chunks;
	double us =
		(parts.layers + parts.dense) *
		(block[SC_BLOCK_LAYER_F].sum.host_us +
		 (splits ? block[SC_BLOCK_LAYER_I].sum.host_us + block[SC_BLOCK_LAYER_W].sum.host_us
			 : block[SC_BLOCK_LAYER_B].sum.host_us));

	us += (splits ? 3 : 2) * chunks * v->env.software->host_micro_batch_us / v->env.host_speed;
	if (parts.embed)
		us += block[SC_BLOCK_EMBED_F].sum.host_us + block[SC_BLOCK_EMBED_B].sum.host_us;
	if (parts.head)
		us += block[SC_BLOCK_HEAD_F].sum.host_us + block[SC_BLOCK_HEAD_B].sum.host_us;
	return us * sc_schedule_period(&built->shape) / tf->map.replicas;
}

bool sc_steady_detect(const struct sc_transformer *tf, const struct sc_built *built,
		      const struct sc_timeline *timeline, struct sc_steady *out)
{
	struct window w = window_of(tf, built, timeline, 0);
	double from_us, period_us;

	if (w.n_slots < 3 * w.per_period)
		return false;
	/* in the middle: the last micro-batches may be partial or overlap the gradient reduction */
	w.first = (w.n_slots - 3 * w.per_period) / 2;
	from_us = slot_end_us(&w, w.first);
	period_us = slot_end_us(&w, w.first + w.per_period) - from_us;
	for (uint32_t c = 0; c < tf->placement.n_classes; c++) {
		w = window_of(tf, built, timeline, c);
		while (w.first < w.n_slots && slot_end_us(&w, w.first) < from_us)
			w.first++;
		if (!repeats(&w, period_us) || host_us(tf, built, c) > period_us * (1 + 1e-12))
			return false;
	}
	*out = (struct sc_steady){
		.period_us = period_us,
		.window_us = from_us,
		.micro_batches = sc_schedule_period(&built->shape),
	};
	return true;
}
