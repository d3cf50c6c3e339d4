/* Detects the steady state of a simulated pipeline schedule. */
#include "predict/transformer/steady.h"

#include <math.h>

uint32_t sc_steady_choose(const struct sc_schedule_shape *shape, uint32_t micro_batches,
			  unsigned attempt)
{
	uint32_t period = sc_schedule_period(shape);
	uint32_t least = sc_schedule_warmup(shape, 0) / shape->virtual_stages + 6 * period;
	uint64_t want = (uint64_t)least << attempt;

	if (shape->kind == SC_SCHED_GPIPE || micro_batches % period ||
	    want + period >= micro_batches)
		return micro_batches;
	return (uint32_t)want + (micro_batches - (uint32_t)want) % period;
}

struct window {
	const struct sc_built *built;
	const struct sc_timeline *timeline;
	uint32_t c, warmup, pair; /* first pair of the last but one period */
};

static double slot_end_us(const struct window *w, uint32_t slot)
{
	uint32_t node = w->built->slot_node[w->c * w->built->n_slots + w->warmup + slot];

	return w->timeline->end_us[node];
}

/* Of the gradients reduced so far: they must not fall behind the passes; 0 without any. */
static double grad_end_us(const struct window *w, uint32_t slot)
{
	uint32_t node = w->built->slot_grad[w->c * w->built->n_slots + w->warmup + slot];

	return node == SC_NONE ? 0 : w->timeline->end_us[node];
}

/* Both of the last two steady periods took `period_us`, slot by slot. */
static bool repeats(const struct window *w, uint32_t pairs, double period_us)
{
	for (uint32_t i = 2 * w->pair; i < 2 * (w->pair + 2 * pairs); i++) {
		double step = slot_end_us(w, i + 2 * pairs) - slot_end_us(w, i);

		double grad = grad_end_us(w, i + 2 * pairs) - grad_end_us(w, i);

		if (fabs(step - period_us) > period_us * 1e-12)
			return false;
		if (grad > 0 && fabs(grad - period_us) > period_us * 1e-12)
			return false;
	}
	return true;
}

/* CPU time that a class needs for one period: it must not fall behind later. */
static double host_us(const struct sc_transformer *tf, uint32_t c, uint32_t micro_batches)
{
	const struct sc_variant *v = &tf->variant[tf->classes[c].variant];
	const struct sc_block *block = v->block[0];
	struct sc_stage_parts parts = sc_transformer_stage(tf, tf->placement.classes[c].stage);
	double chunks = (double)tf->request->config.parallel.virtual_stages;
	double us = (parts.layers + parts.dense) *
		    (block[SC_BLOCK_LAYER_F].sum.host_us + block[SC_BLOCK_LAYER_B].sum.host_us);

	us += 2 * chunks * v->env.software->host_micro_batch_us / v->env.host_speed;
	if (parts.embed)
		us += block[SC_BLOCK_EMBED_F].sum.host_us + block[SC_BLOCK_EMBED_B].sum.host_us;
	if (parts.head)
		us += block[SC_BLOCK_HEAD_F].sum.host_us + block[SC_BLOCK_HEAD_B].sum.host_us;
	return us * micro_batches;
}

bool sc_steady_detect(const struct sc_transformer *tf, const struct sc_built *built,
		      const struct sc_timeline *timeline, struct sc_steady *out)
{
	const struct sc_schedule_shape *shape = &built->shape;
	uint32_t period = sc_schedule_period(shape);
	uint32_t pairs = period * shape->virtual_stages;
	uint32_t total = shape->micro_batches * shape->virtual_stages;
	/* the last micro-batches may be partial or overlap the gradient reduction: stay clear */
	uint32_t last = total - sc_schedule_warmup(shape, 0);
	struct window w = {.built = built, .timeline = timeline};
	double period_us;

	if (last < 5 * pairs)
		return false;
	w.pair = last - 5 * pairs;
	w.warmup = sc_schedule_warmup(shape, (uint32_t)tf->placement.classes[0].stage);
	period_us = slot_end_us(&w, 2 * (w.pair + pairs)) - slot_end_us(&w, 2 * w.pair);
	for (uint32_t c = 0; c < tf->placement.n_classes; c++) {
		w.c = c;
		w.warmup = sc_schedule_warmup(shape, (uint32_t)tf->placement.classes[c].stage);
		if (!repeats(&w, pairs, period_us) ||
		    host_us(tf, c, period) > period_us * (1 + 1e-12))
			return false;
	}
	w.c = 0;
	w.warmup = sc_schedule_warmup(shape, (uint32_t)tf->placement.classes[0].stage);
	*out = (struct sc_steady){
		.period_us = period_us,
		.window_us = slot_end_us(&w, 2 * (w.pair + pairs)),
		.micro_batches = period,
	};
	return true;
}
