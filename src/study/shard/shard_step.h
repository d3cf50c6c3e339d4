/* Search by whole steps: plans at hand are simulated, and the best one is changed a table or two at a time
 * as long as its simulated step gets shorter. */
#ifndef SC_STUDY_SHARD_STEP_H
#define SC_STUDY_SHARD_STEP_H

#include "base/strbuf.h"
#include "predict/predict.h"
#include "study/shard/shard.h"

struct sc_step_search {
	const struct sc_request *request;
	const struct sc_shard_problem *problem; /* of sc_iteration_problem */
	struct sc_predictor *predictor;
	struct sc_prediction *prediction; /* scratch */
	double seconds; /* deadline; 0: stop by `work` alone, the same on every machine */
	double work;    /* graph nodes and shards to simulate; about 5e6 a second */
	uint64_t seed;
	struct sc_search_watch *watch; /* may be NULL */
	/* Results: */
	double step_ms;
	size_t n_simulated;
};
void sc_step_search_init(struct sc_step_search *search);
/* Changes the plan into one whose step is shorter, if one is found; else it stays. Tables that a constraint
 * names, or that are not all in GPU memory, stay where they are. The names live as long as the problem. */
int sc_step_improve(struct sc_step_search *search, struct sc_shard_plan *plan, struct sc_err *err);

/* The step under a plan, into `prediction`. */
int sc_step_simulate(const struct sc_step_search *search, const struct sc_shard_plan *plan,
		     struct sc_err *err);

/* Plans worth simulating: by the proxy with the exchange weighted in several ways or some types of
 * sharding left out ("search ..."), and, where nothing constrains the plan, those of other planners. */
struct sc_step_candidate {
	const char *name;
	struct sc_shard_solution solution;
	double step_ms, low_ms, high_ms; /* once it was simulated */
};
typedef SC_VEC(struct sc_step_candidate) sc_step_candidates;
/* `opts`: of the proxy's search, for all together. Fails if not even the first can be made. */
int sc_step_candidates_find(const struct sc_request *request,
			    const struct sc_shard_problem *problem,
			    const struct sc_solve_opts *opts, struct sc_arena *arena,
			    sc_step_candidates *out, struct sc_err *err);
/* Starts that are not tried where tables and ranks are so many, by name; nothing: all are. */
void sc_step_candidates_left_out(const struct sc_shard_problem *problem, struct sc_strbuf *out);
void sc_step_candidates_release(sc_step_candidates *candidates);
/* Simulates all candidates and improves the best few. `out` is another plan than theirs. */
int sc_step_best(struct sc_step_search *search, sc_step_candidates *candidates,
		 struct sc_shard_plan *out, struct sc_err *err);
/* The quick path for a request that leaves the plan to us: candidates, and a short search from the best. */
int sc_step_plan(const struct sc_request *request, struct sc_arena *arena,
		 struct sc_shard_plan *out, struct sc_err *err);

#endif
