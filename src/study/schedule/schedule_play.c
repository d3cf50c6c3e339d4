/* Plays schedules by times that are given, and searches for better orders by climbing. */
#include "study/schedule/schedule_play.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"

void sc_schedule_play(const struct sc_passes *passes, const struct sc_pass_times *times,
		      struct sc_arena *arena, struct sc_schedule_play *out)
{
	struct sc_passes_ran ran;

	sc_passes_run(passes, times, arena, &ran);
	*out = (struct sc_schedule_play){
		.passes = passes,
		.start = ran.start,
		.end = ran.end,
		.held = sc_arena_calloc(arena, passes->map->pp, sizeof(*out->held)),
		.time_unit = "",
		.held_unit = "micro-batches",
	};
	for (uint32_t s = 0; s < passes->map->pp; s++)
		out->held[s] = (struct sc_stage_held){
			.each = (double)passes->map->replicas / passes->map->n_chunks,
			.kept = times[s].kept,
		};
	sc_schedule_measure(out, arena);
}

/* The climb is in the space of pass times: the heuristic is fast, and small lies about times lead
 * it to other orders, each judged by the true ones. */

enum { SEED = 1, MIN_TRIES = 64, MAX_TRIES = 300, SLOTS_TRIED = 1200000 };
#define CLOSE_ENOUGH 1e-6

struct climb {
	const struct sc_schedule_shape *shape;
	const struct sc_stage_map *map;
	struct sc_rng rng;
	struct sc_pass_times *times, *lied, *best_lied; /* by stage; times: the true ones */
};

/* ---- a bound that no order beats ---- */

/* Every stage has its work. From its first forward pass to its first backward the micro-batch goes
 * down all later stages and comes back, and meanwhile the stage only has the forward passes that
 * memory holds. */
static double bound_of(const struct climb *c)
{
	const struct sc_schedule_shape *shape = c->shape;
	uint32_t memories = shape->kind == SC_SCHED_ZB_2P ? 2 : 1;
	double m = shape->micro_batches, held = fmin(m, memories * c->map->pp), away = 0, most = 0;

	for (uint32_t s = c->map->pp; s-- > 0;) {
		const struct sc_pass_times *t = &c->times[s];

		most = fmax(most, m * (t->forward + t->input + t->weight) +
					  fmax(0, t->forward + away - held * t->forward));
		away += t->forward + t->input + 2 * shape->times.send;
	}
	return most;
}

/* ---- the climb ---- */

static double lie(struct climb *c, double value, double by)
{
	return value * (1 + by * (2 * sc_rng_uniform(&c->rng) - 1));
}

/* Draws times near the best ones, from nearly the same to half as much again. */
static struct sc_schedule_shape next_shape(struct climb *c, unsigned i)
{
	static const double BY[] = {0.02, 0.1, 0.25, 0.5};
	const double by = BY[i % (sizeof(BY) / sizeof(BY[0]))];
	struct sc_schedule_shape shape = *c->shape;

	for (uint32_t s = 0; s < c->map->pp; s++) {
		c->lied[s] = c->best_lied[s];
		c->lied[s].forward = lie(c, c->lied[s].forward, by);
		c->lied[s].input = lie(c, c->lied[s].input, by);
		c->lied[s].weight = lie(c, c->lied[s].weight, by);
	}
	shape.times.send += 0.25 * sc_rng_uniform(&c->rng) * shape.times.forward * (i % 3);
	shape.stage_times = c->lied;
	return shape;
}

void sc_schedule_optimize(const struct sc_schedule_shape *shape, struct sc_arena *arena,
			  struct sc_passes *passes, struct sc_optimized *out)
{
	const uint32_t pp = passes->map->pp;
	struct climb c = {.shape = shape,
			  .map = passes->map,
			  .times = sc_arena_calloc(arena, pp, sizeof(*c.times)),
			  .lied = sc_arena_calloc(arena, pp, sizeof(*c.lied)),
			  .best_lied = sc_arena_calloc(arena, pp, sizeof(*c.lied))};
	size_t n_slots = (size_t)pp * passes->stride;
	struct sc_passes_ran ran;
	unsigned n_tries =
		(unsigned)fmin(MAX_TRIES, fmax(MIN_TRIES, SLOTS_TRIED / (double)n_slots));

	assert(shape->kind == SC_SCHED_ZB_1P || shape->kind == SC_SCHED_ZB_2P);
	sc_rng_init(&c.rng, SEED);
	for (uint32_t s = 0; s < pp; s++)
		c.times[s] = c.best_lied[s] =
			shape->stage_times ? shape->stage_times[s] : shape->times;
	sc_passes_run(passes, c.times, arena, &ran);
	*out = (struct sc_optimized){.longest = ran.longest, .bound = bound_of(&c)};
	while (out->n_tried < n_tries && out->longest > out->bound * (1 + CLOSE_ENOUGH)) {
		struct sc_arena_mark mark = sc_arena_mark(arena);
		struct sc_schedule_shape tried = next_shape(&c, out->n_tried++);
		struct sc_passes now;

		sc_passes_build(&tried, passes->map, arena, &now);
		sc_passes_run(&now, c.times, arena, &ran);
		if (ran.longest < out->longest) {
			out->longest = ran.longest;
			memcpy(passes->slots, now.slots, n_slots * sizeof(*now.slots));
			memcpy(c.best_lied, c.lied, pp * sizeof(*c.lied));
		}
		sc_arena_rewind(arena, mark);
	}
}
