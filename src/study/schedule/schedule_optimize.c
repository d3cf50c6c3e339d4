/* A climb in the space of pass times: the heuristic is fast, and small lies about times lead it to other orders, each
 * judged by the true ones. */
#include "study/schedule/schedule_optimize.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"

enum { SEED = 1, MIN_TRIES = 64, MAX_TRIES = 300, SLOTS_TRIED = 1200000 };
#define CLOSE_ENOUGH 1e-6

struct climb {
	const struct sc_schedule_shape *shape;
	const struct sc_stage_map *map;
	struct sc_rng rng;
	struct sc_arena *arena;
	struct sc_pass_times *lied, *best_lied; /* by stage */
	double *end[2];                         /* forward, backward of inputs: [stage * m + i] */
	uint32_t *at;                           /* by stage: slots that have run */
	double *free_at, *first;
};

static const struct sc_pass_times *true_times(const struct sc_schedule_shape *shape, uint32_t stage)
{
	return shape->stage_times ? &shape->stage_times[stage] : &shape->times;
}

/* ---- what an order takes ---- */

/* When the slot's input is there; negative: not yet. */
static double ready_at(const struct climb *c, uint32_t stage, const struct sc_slot *slot)
{
	bool backward = slot->kind != SC_PASS_FORWARD;
	uint32_t from = backward ? stage + 1 : stage - 1;
	double end;

	if (slot->kind == SC_PASS_BACKWARD_WEIGHT || (backward ? from >= c->map->pp : stage == 0))
		return 0;
	end = c->end[backward][(size_t)from * c->shape->micro_batches + slot->micro_batch];
	return end < 0 ? end : end + c->shape->times.send;
}

/* Runs a stage as far as its inputs are there. */
static bool run_stage(struct climb *c, const struct sc_passes *passes, uint32_t stage)
{
	const struct sc_slot *slots = sc_passes_of(passes, stage);
	const struct sc_pass_times *t = true_times(c->shape, stage);
	const double took[SC_N_PASS_KINDS] = {[SC_PASS_FORWARD] = t->forward,
					      [SC_PASS_BACKWARD_INPUT] = t->input,
					      [SC_PASS_BACKWARD_WEIGHT] = t->weight};
	uint32_t before = c->at[stage];

	for (; c->at[stage] < passes->n[stage]; c->at[stage]++) {
		const struct sc_slot *slot = &slots[c->at[stage]];
		double ready = ready_at(c, stage, slot), begin;

		if (ready < 0)
			break;
		begin = fmax(ready, c->free_at[stage]);
		if (c->at[stage] == 0)
			c->first[stage] = begin;
		c->free_at[stage] = begin + took[slot->kind];
		if (slot->kind != SC_PASS_BACKWARD_WEIGHT)
			c->end[slot->kind != SC_PASS_FORWARD]
			      [(size_t)stage * c->shape->micro_batches + slot->micro_batch] =
				c->free_at[stage];
	}
	return c->at[stage] > before;
}

static double longest_stage(struct climb *c, const struct sc_passes *passes)
{
	uint32_t pp = c->map->pp;
	double longest = 0;
	bool moves = true;

	for (size_t i = 0; i < (size_t)pp * c->shape->micro_batches; i++)
		c->end[0][i] = c->end[1][i] = -1;
	memset(c->at, 0, pp * sizeof(*c->at));
	memset(c->free_at, 0, pp * sizeof(*c->free_at));
	while (moves) {
		moves = false;
		for (uint32_t s = 0; s < pp; s++)
			moves |= run_stage(c, passes, s);
		for (uint32_t s = pp; s-- > 0;)
			moves |= run_stage(c, passes, s);
	}
	for (uint32_t s = 0; s < pp; s++)
		longest = fmax(longest, c->free_at[s] - c->first[s]);
	return longest;
}

/* ---- what no order can beat ---- */

/* Every stage has its work. From its first forward pass to its first backward the micro-batch goes down all later
 * stages and comes back, and meanwhile it only has the forward passes that memory holds. */
static double bound_of(const struct climb *c)
{
	const struct sc_schedule_shape *shape = c->shape;
	uint32_t memories = shape->kind == SC_SCHED_ZB_2P ? 2 : 1;
	double m = shape->micro_batches, held = fmin(m, memories * c->map->pp), away = 0, most = 0;

	for (uint32_t s = c->map->pp; s-- > 0;) {
		const struct sc_pass_times *t = true_times(shape, s);

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

/* Times near the best ones, from nearly the same to half as much again. */
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

static void climb_init(struct climb *c, struct sc_arena *arena)
{
	uint32_t pp = c->map->pp;
	size_t n = (size_t)pp * c->shape->micro_batches;

	c->arena = arena;
	sc_rng_init(&c->rng, SEED);
	c->lied = sc_arena_calloc(arena, pp, sizeof(*c->lied));
	c->best_lied = sc_arena_calloc(arena, pp, sizeof(*c->best_lied));
	for (uint32_t s = 0; s < pp; s++)
		c->best_lied[s] = *true_times(c->shape, s);
	for (int b = 0; b < 2; b++)
		c->end[b] = sc_arena_calloc(arena, n, sizeof(double));
	c->at = sc_arena_calloc(arena, pp, sizeof(*c->at));
	c->free_at = sc_arena_calloc(arena, pp, sizeof(double));
	c->first = sc_arena_calloc(arena, pp, sizeof(double));
}

void sc_schedule_optimize(const struct sc_schedule_shape *shape, struct sc_arena *arena,
			  struct sc_passes *passes, struct sc_optimized *out)
{
	struct climb c = {.shape = shape, .map = passes->map};
	size_t n_slots = (size_t)passes->map->pp * passes->stride;
	unsigned n_tries =
		(unsigned)fmin(MAX_TRIES, fmax(MIN_TRIES, SLOTS_TRIED / (double)n_slots));

	assert(shape->kind == SC_SCHED_ZB_1P || shape->kind == SC_SCHED_ZB_2P);
	climb_init(&c, arena);
	*out = (struct sc_optimized){.longest = longest_stage(&c, passes), .bound = bound_of(&c)};
	while (out->n_tried < n_tries && out->longest > out->bound * (1 + CLOSE_ENOUGH)) {
		struct sc_arena_mark mark = sc_arena_mark(arena);
		struct sc_schedule_shape tried = next_shape(&c, out->n_tried++);
		struct sc_passes now;
		double longest;

		sc_passes_build(&tried, passes->map, arena, &now);
		longest = longest_stage(&c, &now);
		if (longest < out->longest) {
			out->longest = longest;
			memcpy(passes->slots, now.slots, n_slots * sizeof(*now.slots));
			memcpy(c.best_lied, c.lied, passes->map->pp * sizeof(*c.lied));
		}
		sc_arena_rewind(arena, mark);
	}
}
