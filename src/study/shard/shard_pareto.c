/* See the header. Budgets fall from what the best plan needs until none is found. */
#include "study/shard/shard_pareto.h"

/* Of the memory of the best plan so far; a budget below another plan's need is a new plan. */
static const double STEPS[] = {0.97, 0.93, 0.88, 0.82, 0.75, 0.68,
			       0.6,  0.52, 0.44, 0.36, 0.28, 0.2};

static double most(const double *values, size_t n)
{
	double max = 0;

	for (size_t i = 0; i < n; i++)
		max = values[i] > max ? values[i] : max;
	return max;
}

static int solve(const struct sc_shard_problem *problem, const struct sc_solve_opts *opts,
		 struct sc_arena *arena, struct sc_pareto_point *out, struct sc_err *err)
{
	struct sc_shard_solution solution = {.cost = 0};
	int rc = sc_shard_solve(problem, opts, arena, &solution, err);

	if (rc)
		return rc;
	*out = (struct sc_pareto_point){
		.cost = solution.cost,
		.bound = solution.bound,
		.hbm_bytes = most(solution.rank_hbm, problem->world),
		.plan = solution.plan,
	};
	return 0;
}

/* Keeps only the points that none is better than in both. */
static void add_point(struct sc_pareto *out, struct sc_pareto_point *point)
{
	while (out->n && out->at[out->n - 1].cost >= point->cost)
		sc_shard_plan_release(&out->at[--out->n].plan);
	if (out->n == SC_PARETO_MAX ||
	    (out->n && out->at[out->n - 1].hbm_bytes <= point->hbm_bytes)) {
		sc_shard_plan_release(&point->plan);
		return;
	}
	out->at[out->n++] = *point;
}

int sc_shard_pareto(const struct sc_shard_problem *problem, const struct sc_solve_opts *opts,
		    struct sc_arena *arena, struct sc_pareto *out, struct sc_err *err)
{
	struct sc_shard_problem smaller = *problem;
	struct sc_pareto_point point;
	double first_bytes;
	int rc = solve(problem, opts, arena, &point, err);

	out->n = 0;
	if (rc)
		return rc;
	first_bytes = point.hbm_bytes;
	add_point(out, &point);
	for (size_t i = 0; i < sizeof(STEPS) / sizeof(STEPS[0]); i++) {
		struct sc_err none = {.code = SC_OK};

		smaller.hbm_bytes = first_bytes * STEPS[i];
		smaller.rank_hbm_bytes = NULL;
		if (out->n && smaller.hbm_bytes >= out->at[out->n - 1].hbm_bytes)
			continue;
		if (solve(&smaller, opts, arena, &point, &none))
			break; /* no plan holds: nor will a smaller one */
		add_point(out, &point);
	}
	return 0;
}
