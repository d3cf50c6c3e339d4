/* A bound below every simulation of an iteration. The compute lane of a GPU runs its passes one after another,
 * and what else runs beside them only makes them longer; its first pass waits for a forward through the virtual
 * stages before its own, and after its last backward the same stages run theirs, where backward is one pass. */
#include <math.h>

#include "base/units.h"
#include "core/config/config_schedule.h"
#include "predict/transformer/build_priv.h"
#include "predict/transformer/summarize_priv.h"

/* Sums of passes are made in another order than the simulation's. */
#define ROUNDING 1e-9

struct bound {
	const struct sc_transformer *tf;
	double whole, partial;            /* micro-batches that a chunk sees at least */
	bool splits;                      /* gradients of weights in passes of their own */
	double *forward_us, *backward_us; /* the least of any class, by virtual stage */
};

static double pass_us(const struct bound *b, uint32_t c, uint32_t chunk, enum sc_pass_kind kind)
{
	uint32_t stage = (uint32_t)b->tf->placement.classes[c].stage;
	const struct sc_slot slot = {.virtual_stage = sc_virtual_stage(&b->tf->map, stage, chunk),
				     .chunk = (uint16_t)chunk,
				     .kind = (uint8_t)kind};
	double us = b->whole * build_pass_us(b->tf, c, &slot, false);

	return b->partial > 0 ? us + build_pass_us(b->tf, c, &slot, true) : us;
}

/* All passes of a class. A schedule that can split a backward pass need not do so each time. */
static double work_us(const struct bound *b, uint32_t c)
{
	double us = 0;

	for (uint32_t k = 0; k < b->tf->map.n_chunks; k++) {
		double whole_us = pass_us(b, c, k, SC_PASS_BACKWARD);
		double parts_us = b->splits ? pass_us(b, c, k, SC_PASS_BACKWARD_INPUT) +
						      pass_us(b, c, k, SC_PASS_BACKWARD_WEIGHT)
					    : whole_us;

		us += pass_us(b, c, k, SC_PASS_FORWARD) + fmin(whole_us, parts_us);
	}
	return us;
}

/* The shortest pass of each virtual stage, one micro-batch: the partial one may be the first or the last. */
static void find_shortest(struct bound *b, struct sc_arena *arena)
{
	const struct sc_transformer *tf = b->tf;
	enum sc_pass_kind back = b->splits ? SC_PASS_BACKWARD_INPUT : SC_PASS_BACKWARD;
	uint32_t depth = tf->map.depth;
	int n_kinds = b->partial > 0 ? 2 : 1;

	b->forward_us = sc_arena_calloc(arena, depth, sizeof(double));
	b->backward_us = sc_arena_calloc(arena, depth, sizeof(double));
	for (uint32_t vs = 0; vs < depth; vs++)
		b->forward_us[vs] = b->backward_us[vs] = HUGE_VAL;
	for (uint32_t c = 0; c < tf->placement.n_classes; c++) {
		for (uint32_t k = 0; k < tf->map.n_chunks; k++) {
			uint32_t stage = (uint32_t)tf->placement.classes[c].stage;
			uint32_t vs = sc_virtual_stage(&tf->map, stage, k);

			for (int partial = 0; partial < n_kinds; partial++) {
				struct sc_slot slot = {.virtual_stage = vs, .chunk = (uint16_t)k};

				b->forward_us[vs] = fmin(b->forward_us[vs],
							 build_pass_us(tf, c, &slot, partial));
				slot.kind = (uint8_t)back;
				b->backward_us[vs] = fmin(b->backward_us[vs],
							  build_pass_us(tf, c, &slot, partial));
			}
		}
	}
}

/* Before the first pass of a stage and after its last. */
static double idle_us(const struct bound *b, uint32_t stage)
{
	uint32_t first = b->tf->map.depth;
	double us = 0;

	if (b->tf->map.replicas > 1)
		return 0;
	for (uint32_t k = 0; k < b->tf->map.n_chunks; k++) {
		uint32_t vs = sc_virtual_stage(&b->tf->map, stage, k);

		first = vs < first ? vs : first;
	}
	for (uint32_t vs = 0; vs < first; vs++)
		us += b->forward_us[vs] + (b->splits ? 0 : b->backward_us[vs]);
	return us;
}

static double floor_us(const struct sc_transformer *tf, struct sc_arena *arena)
{
	const struct sc_request *request = tf->request;
	double m = floor((double)request->n_micro_batches / tf->map.replicas), most_us = 0;
	struct bound b = {.tf = tf,
			  .partial = tf->partial && tf->map.replicas == 1,
			  .splits = sc_schedule_splits(request->config.parallel.schedule)};

	b.whole = m - (tf->partial ? 1 : 0);
	find_shortest(&b, arena);
	for (uint32_t c = 0; c < tf->placement.n_classes; c++) {
		double us = work_us(&b, c) + idle_us(&b, (uint32_t)tf->placement.classes[c].stage);

		most_us = fmax(most_us, us);
	}
	return most_us * (1 - ROUNDING);
}

void sc_run_floor(const struct sc_run *run, struct sc_built *built, struct sc_arena *arena,
		  struct sc_floor *out)
{
	sc_passes_build(&built->shape, &run->tf->map, arena, &built->passes);
	sc_fullest_memory(run, &out->memory);
	out->iteration_ms = floor_us(run->tf, arena) / SC_US_PER_MS;
}
