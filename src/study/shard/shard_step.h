/* Search by whole steps: plans of several starts are simulated, and the best are changed a table or
 * two at a time as long as the simulated step gets shorter. */
#pragma once

#include "base/strbuf.h"
#include "predict/predict.h"
#include "study/shard/shard.h"

struct sc_step_search {
	const struct sc_request *request;
	const struct sc_shard_problem *problem; /* of sc_iteration_problem */
	struct sc_predictor *predictor;
	struct sc_prediction *prediction; /* scratch */
	/* solve.seconds is the deadline; 0: one round, which ends by `work`, the same on every
	 * machine. */
	struct sc_solve_opts solve;
	double work; /* graph nodes and shards to simulate in a round; about 5e6 a second; 0: the
			usual */
	/* Results: */
	double step_ms;
	size_t n_simulated;
	struct sc_strbuf left_out; /* names of starts that are not tried where tables and ranks are
				      so many; the caller's */
};
/* Changes the plan into one whose step is shorter, if one is found; else it stays. Tables that a
 * constraint names, or that are not all in GPU memory, stay where they are. The names live as long
 * as the problem. */
int sc_step_improve(struct sc_step_search *search, struct sc_shard_plan *plan, struct sc_err *err);

struct sc_step_candidate {
	const char *name;
	struct sc_shard_plan plan;
	double step_ms; /* 0: not simulated */
};
typedef SC_VEC(struct sc_step_candidate) sc_step_candidates;
/* Returns the shortest step of each start that is a search, and at the end, except when replanning,
 * "search, by steps": the shortest of all that were ever seen. Its rounds follow each other until
 * the deadline, each from starts with exchanges weighted in another way: so a longer search does
 * what a shorter one does, and then more. It fails if not even the first plan can be made. */
int sc_step_search_run(struct sc_step_search *search, struct sc_arena *arena,
		       sc_step_candidates *out, struct sc_err *err);
void sc_step_candidates_release(sc_step_candidates *candidates);
/* Makes a plan for a request that leaves it to us, the quick way. */
int sc_step_plan(const struct sc_request *request, struct sc_arena *arena,
		 struct sc_shard_plan *out, struct sc_err *err);
