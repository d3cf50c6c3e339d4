/* Pipeline schedules as per-stage orders of forward and backward passes. */
#include "predict/transformer/schedule.h"

#include <stdbool.h>

/* Interleaving takes micro-batches in groups of pp. Where pp does not divide them, the groups are a
 * little larger: smaller ones deadlock, as a chunk's output comes back before its turn. */
struct groups {
	uint32_t n, size, n_larger; /* the first n_larger groups have one more */
};

static struct groups groups_of(const struct sc_schedule_shape *shape)
{
	uint32_t m = shape->micro_batches, n = shape->virtual_stages > 1 ? m / shape->pp : 1;

	n = n ? n : 1;
	return (struct groups){n, m / n, m % n};
}

/* The i-th forward (or backward) pass of a stage. Within a group all of a chunk's passes come before
 * the next chunk's; backward takes the chunks in reverse. */
static struct sc_slot nth_pass(const struct sc_schedule_shape *shape, uint32_t i, bool backward)
{
	struct groups g = groups_of(shape);
	uint32_t v = shape->virtual_stages, larger = g.n_larger * (g.size + 1) * v;
	bool early = i < larger;
	uint32_t size = early ? g.size + 1 : g.size, j = early ? i : i - larger;
	uint32_t first = (early ? 0 : larger / v) + j / (size * v) * size;
	uint32_t within = j % (size * v), chunk = within / size;

	return (struct sc_slot){
		.micro_batch = first + within % size,
		.chunk = (uint16_t)(backward ? v - 1 - chunk : chunk),
		.backward = backward,
	};
}

static uint32_t warmup_passes(const struct sc_schedule_shape *shape, uint32_t stage)
{
	struct groups g = groups_of(shape);
	uint32_t total = shape->micro_batches * shape->virtual_stages;
	uint32_t behind = shape->pp - 1 - stage, n = behind;
	uint32_t largest = g.size + (g.n_larger > 0);

	if (shape->kind == SC_SCHED_GPIPE)
		return total;
	if (shape->virtual_stages > 1) {
		if (shape->micro_batches == shape->pp)
			return total;
		largest = largest > shape->pp ? largest : shape->pp;
		n = 2 * behind + (shape->virtual_stages - 1) * largest;
	}
	return n < total ? n : total;
}

void sc_schedule_stage(const struct sc_schedule_shape *shape, uint32_t stage, struct sc_slot *slots)
{
	uint32_t total = shape->micro_batches * shape->virtual_stages;
	uint32_t n_warmup = warmup_passes(shape, stage), f = 0, b = 0;

	while (f < n_warmup)
		*slots++ = nth_pass(shape, f++, false);
	while (f < total) {
		*slots++ = nth_pass(shape, f++, false);
		*slots++ = nth_pass(shape, b++, true);
	}
	while (b < total)
		*slots++ = nth_pass(shape, b++, true);
}
