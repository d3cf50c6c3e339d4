/* Pipeline schedules as per-stage orders of forward and backward passes. */
#include "predict/schedule/schedule.h"

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
static struct sc_slot nth_pass(const struct sc_schedule_shape *shape, uint32_t stage, uint32_t i,
			       enum sc_pass_kind kind)
{
	struct groups g = groups_of(shape);
	uint32_t v = shape->virtual_stages, larger = g.n_larger * (g.size + 1) * v;
	bool early = i < larger;
	uint32_t size = early ? g.size + 1 : g.size, j = early ? i : i - larger;
	uint32_t first = (early ? 0 : larger / v) + j / (size * v) * size;
	uint32_t within = j % (size * v), chunk = within / size;

	chunk = sc_pass_is_backward(kind) ? v - 1 - chunk : chunk;
	return (struct sc_slot){
		.micro_batch = first + within % size,
		.virtual_stage = sc_virtual_stage(shape, stage, chunk),
		.chunk = (uint16_t)chunk,
		.kind = (uint8_t)kind,
	};
}

/* Forward passes before the first backward. */
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

struct sc_schedule_shape sc_schedule_shape_of(const struct sc_parallel *parallel,
					      uint32_t micro_batches)
{
	return (struct sc_schedule_shape){
		.kind = parallel->schedule,
		.pp = (uint32_t)parallel->pp,
		.virtual_stages = (uint32_t)parallel->virtual_stages,
		.micro_batches = micro_batches,
	};
}

void sc_schedule_stage(const struct sc_schedule_shape *shape, uint32_t stage, struct sc_slot *slots)
{
	uint32_t total = shape->micro_batches * shape->virtual_stages;
	uint32_t n_warmup = warmup_passes(shape, stage), f = 0, b = 0;

	while (f < n_warmup)
		*slots++ = nth_pass(shape, stage, f++, SC_PASS_FORWARD);
	while (f < total) {
		*slots++ = nth_pass(shape, stage, f++, SC_PASS_FORWARD);
		*slots++ = nth_pass(shape, stage, b++, SC_PASS_BACKWARD);
	}
	while (b < total)
		*slots++ = nth_pass(shape, stage, b++, SC_PASS_BACKWARD);
}

bool sc_slot_peer(const struct sc_schedule_shape *shape, const struct sc_slot *slot, bool incoming,
		  struct sc_slot_peer *out)
{
	bool is_next = incoming == sc_pass_is_backward((enum sc_pass_kind)slot->kind);
	uint32_t vs = slot->virtual_stage;

	if (shape->pp == 1 || slot->kind == SC_PASS_BACKWARD_WEIGHT)
		return false;
	if (is_next ? sc_virtual_stage_is_last(shape, vs) : sc_virtual_stage_is_first(vs))
		return false;
	*out = (struct sc_slot_peer){is_next, (is_next ? vs + 1 : vs - 1) / shape->pp};
	return true;
}

uint32_t sc_schedule_in_flight(const struct sc_schedule_shape *shape, uint32_t stage)
{
	uint32_t total = shape->micro_batches * shape->virtual_stages;
	uint32_t n = warmup_passes(shape, stage) + 1; /* then one forward before each backward */

	return n < total ? n : total;
}

uint32_t sc_schedule_warmup(const struct sc_schedule_shape *shape, uint32_t stage)
{
	uint32_t behind = shape->pp - 1 - stage;

	return shape->virtual_stages > 1 ? 2 * behind + (shape->virtual_stages - 1) * shape->pp
					 : behind;
}

uint32_t sc_schedule_period(const struct sc_schedule_shape *shape)
{
	return shape->virtual_stages > 1 ? shape->pp : 1;
}
