/* A plan by a start of that name (naive, lpt ...), rated. */
#pragma once

#include "study/shard/shard_objective.h"

static inline int place_by(const struct sc_shard_problem *problem, const char *name, uint64_t seed,
			   struct sc_arena *arena, struct sc_shard_solution *out,
			   struct sc_err *err)
{
	const struct sc_solve_opts opts = {.seed = seed};
	const struct sc_start_ask ask = {.problem = problem, .solve = &opts, .arena = arena};
	const struct sc_start *start = sc_start_find(name);
	struct sc_made_plan made = {.cut_short_tables = 0};
	int rc = start->make(start, &ask, &made, err);

	if (rc == 0)
		rc = sc_shard_rate(problem, &made.plan, true, arena, out, err);
	sc_shard_plan_release(&made.plan);
	return rc;
}
