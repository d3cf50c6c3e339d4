/* Plans side by side under one objective: those given, those searched for, baselines. Each has its
 * cost against a lower bound, its reasons, how sure that is, and what is odd about it. */
#pragma once

#include "study/shard/shard_confidence.h"
#include "study/shard/shard_diff.h"
#include "study/shard/shard_lint.h"
#include "study/shard/shard_objective.h"
#include "study/shard/shard_terms.h"

struct sc_ranked_plan {
	const char *name;   /* a file's, "search", a baseline's */
	const char *origin; /* "plan", "search", "baseline" */
	const char *error;  /* why it cannot be rated; NULL = it is */
	bool has_cost;      /* the problem has its options; else only its step is known */
	double bound;       /* a bound of plans that keep to the same constraints as this one */
	struct sc_shard_solution solution;
	struct sc_shard_terms terms;
	bool is_predicted;
	bool is_barred;      /* breaks a constraint, or moves more than a replan may */
	double iteration_ms; /* if it is predicted */
	double rank_ms;      /* the step by which it is ranked (sc_ranking_request) */
	struct sc_confidence confidence;
	sc_lints lints;
};
typedef SC_VEC(struct sc_ranked_plan) sc_ranked_plans;
struct sc_study_opts {
	struct sc_solve_opts solve;
	/* the search ends with the plan of least cost by the proxy, without descent by steps */
	bool solver_alone;
	struct sc_confidence_opts confidence; /* samples 0: none */
	/* the limit of samples where there is one plan: no choice hangs on them */
	int64_t samples_alone;
};
struct sc_study {
	const struct sc_objective *objective;
	const struct sc_request *ranking; /* sc_ranking_request */
	bool is_by_gpu; /* plans are ranked by the step of a host that takes no time */
	struct sc_predictor *predictor;   /* ITERATION; NULL: no steps are simulated */
	struct sc_prediction *prediction; /* scratch */
	struct sc_study_opts opts;
	double bound, lp_bound; /* of every plan's cost under the problem, without constraints */
	double kept_bound; /* of those that keep to constraints and moves; after sc_study_rank */
	sc_ranked_plans plans; /* after sc_study_rank: best first, then those that cannot be used,
				* then those that cannot be rated */
	sc_lints lints;        /* of the objective's constants */
};
void sc_study_init(struct sc_study *study, const struct sc_objective *objective,
		   struct sc_arena *arena);
void sc_study_release(struct sc_study *study);
/* Takes the plan. One that the objective cannot rate is kept, with the reason. */
void sc_study_add_plan(struct sc_study *study, const char *name, struct sc_shard_plan *plan);
/* Adds a plan for each candidate of the search: with ITERATION the proxy searches for several kinds
 * of plan, since what overlaps is only seen in a simulated step. */
int sc_study_search(struct sc_study *study, struct sc_err *err);
/* Adds the plan of another planner, or of a paper, by its name in sc_starts. */
int sc_study_add_baseline(struct sc_study *study, const char *name, struct sc_err *err);
/* Orders the plans, and judges confidence and oddities. SC_ECONFLICT means that no plan could be
 * rated. */
int sc_study_rank(struct sc_study *study, struct sc_err *err);
/* The cost by which plans are ordered; of equal steps the lower cost of the busiest rank is better.
 */
double sc_ranked_cost(const struct sc_study *study, const struct sc_ranked_plan *plan);

/* Cost against memory: the best plan for each of several HBM budgets, which fall from what the best
 * plan needs until none is found. */
enum { SC_PARETO_MAX = 16 };
struct sc_pareto_point {
	double cost, bound; /* of the busiest rank */
	double hbm_bytes;   /* of the fullest rank */
	struct sc_shard_plan plan;
};
/* The points have falling memory and rising cost, each better than the others in one of the two.
 * The first is the answer for the problem's own budget. The caller releases the plans. */
struct sc_pareto {
	size_t n;
	struct sc_pareto_point at[SC_PARETO_MAX];
};
int sc_shard_pareto(const struct sc_shard_problem *problem, const struct sc_solve_opts *opts,
		    struct sc_arena *arena, struct sc_pareto *out, struct sc_err *err);
