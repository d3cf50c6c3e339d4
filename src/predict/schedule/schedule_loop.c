/* Schedules of a loop of chunks whose backward pass is whole: GPipe (Huang et al., NeurIPS 2019, §2.2), all
 * forward, then all backward; the same with chunks, breadth first (Lamy-Poirier, MLSys 2023, §4); 1F1B
 * (Narayanan et al., SC21, §2.2.1); interleaved (§2.2.2). */
#include "predict/schedule/schedule_priv.h"

/* Interleaving takes micro-batches in groups of pp. Where pp does not divide them, the groups are a
 * little larger: smaller ones deadlock, as a chunk's output comes back before its turn. */
struct groups {
	uint32_t n, size, n_larger; /* the first n_larger groups have one more */
};

static struct groups groups_of(const struct sc_schedule_shape *shape)
{
	uint32_t m = shape->micro_batches;
	uint32_t n = shape->kind == SC_SCHED_INTERLEAVED ? m / shape->pp : 1;

	n = n ? n : 1;
	return (struct groups){n, m / n, m % n};
}

/* The i-th forward (or backward) pass of a stage. Within a group all of a chunk's passes come before
 * the next chunk's; backward takes the chunks in reverse. */
static void put_nth(const struct slot_writer *w, uint32_t stage, uint32_t i, enum sc_pass_kind kind)
{
	struct groups g = groups_of(w->shape);
	uint32_t v = w->shape->virtual_stages, larger = g.n_larger * (g.size + 1) * v;
	bool early = i < larger;
	uint32_t size = early ? g.size + 1 : g.size, j = early ? i : i - larger;
	uint32_t first = (early ? 0 : larger / v) + j / (size * v) * size;
	uint32_t within = j % (size * v), chunk = within / size;

	chunk = sc_pass_is_backward(kind) ? v - 1 - chunk : chunk;
	put_slot(w, kind, (struct slot_id){stage, chunk, first + within % size});
}

/* Forward passes before the first backward. */
static uint32_t warmup_passes(const struct sc_schedule_shape *shape, uint32_t stage)
{
	struct groups g = groups_of(shape);
	uint32_t total = shape->micro_batches * shape->virtual_stages;
	uint32_t behind = shape->pp - 1 - stage, n = behind + shape->delay;
	uint32_t largest = g.size + (g.n_larger > 0);

	if (shape->kind == SC_SCHED_GPIPE || shape->kind == SC_SCHED_BREADTH_FIRST)
		return total;
	if (shape->virtual_stages > 1) {
		if (shape->micro_batches == shape->pp)
			return total;
		largest = largest > shape->pp ? largest : shape->pp;
		n = 2 * behind + (shape->virtual_stages - 1) * largest;
	}
	return n < total ? n : total;
}

static void write_stage(const struct slot_writer *w, uint32_t stage)
{
	uint32_t total = w->shape->micro_batches * w->shape->virtual_stages;
	uint32_t n_warmup = warmup_passes(w->shape, stage), f = 0, b = 0;

	while (f < n_warmup)
		put_nth(w, stage, f++, SC_PASS_FORWARD);
	while (f < total) {
		put_nth(w, stage, f++, SC_PASS_FORWARD);
		put_nth(w, stage, b++, SC_PASS_BACKWARD);
	}
	while (b < total)
		put_nth(w, stage, b++, SC_PASS_BACKWARD);
}

void write_loop(const struct slot_writer *w)
{
	for (uint32_t stage = 0; stage < w->shape->pp; stage++)
		write_stage(w, stage);
}
