/* See the header. */
#include "study/shard/shard_study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/shard/shard_choose.h"
#include "study/shard/shard_iteration.h"
#include "study/shard/shard_step.h"

#define SAME_STEP 1e-3 /* of the logarithm */
#define SLOWER_FRAC 0.1
/* Of the time of a search, what goes to whole steps. */
#define STEPS_SHARE 0.6

const struct sc_name sc_study_planners[] = {{"torchrec", SC_PLANNER_TORCHREC},
					    {"hugectr", SC_PLANNER_HUGECTR},
					    {"memory_balanced", SC_PLANNER_MEMORY_BALANCED},
					    {"lookups", SC_PLANNER_LOOKUPS},
					    {0}};

void sc_study_init(struct sc_study *study, const struct sc_objective *objective,
		   struct sc_arena *arena)
{
	*study = (struct sc_study){.objective = objective};
	if (objective->kind == SC_OBJECTIVE_ITERATION) {
		study->predictor = sc_predictor_create();
		study->prediction = sc_arena_calloc(arena, 1, sizeof(*study->prediction));
	}
	sc_solve_opts_init(&study->opts.solve);
	sc_confidence_opts_init(&study->opts.confidence);
	study->opts.samples_alone = study->opts.confidence.samples;
	sc_lint_limits_init(&study->opts.lint);
	if (objective->kind == SC_OBJECTIVE_TORCHREC)
		sc_lint_constants(&objective->topology, &objective->request->device,
				  &study->opts.lint, &study->lints);
}

static void release_plan(struct sc_ranked_plan *plan)
{
	sc_shard_plan_release(&plan->solution.plan);
	sc_shard_terms_release(&plan->terms);
	SC_VEC_RELEASE(&plan->lints);
}

void sc_study_release(struct sc_study *study)
{
	for (size_t i = 0; i < study->plans.n; i++)
		release_plan(&study->plans.at[i]);
	SC_VEC_RELEASE(&study->plans);
	SC_VEC_RELEASE(&study->lints);
	sc_predictor_destroy(study->predictor);
	study->predictor = NULL;
}

static bool over_budget(const struct sc_shard_problem *problem, const double *rank_hbm,
			const struct sc_shard_memory *memory)
{
	const double slack = 1 + 1e-9; /* sums in another order */

	if (memory->host_bytes > problem->host_bytes * slack ||
	    memory->ssd_bytes > problem->ssd_bytes * slack)
		return true;
	for (uint32_t rank = 0; rank < problem->world && rank_hbm; rank++) {
		double budget = sc_rank_budget(problem, rank);

		if (budget > 0 && rank_hbm[rank] > budget * slack)
			return true;
	}
	return false;
}

/* A search keeps to what was asked; plans of files and baselines need not. */
static bool is_barred(const struct sc_study *study, const struct sc_shard_plan *plan)
{
	const struct sc_solve_opts *opts = &study->opts.solve;
	struct sc_shard_diff diff = {.moved_bytes = 0};
	bool is_over;

	if (!sc_shard_keeps_constraints(&study->objective->problem, plan))
		return true;
	if (!opts->current || (opts->max_moved_bytes < 0 && opts->max_moved_tables < 0))
		return false;
	is_over = sc_shard_diff_compute(opts->current, plan, &study->objective->tables, &diff,
					NULL) != 0 ||
		  (opts->max_moved_bytes >= 0 && diff.moved_bytes > opts->max_moved_bytes) ||
		  (opts->max_moved_tables >= 0 && (int64_t)diff.moves.n > opts->max_moved_tables);
	sc_shard_diff_release(&diff);
	return is_over;
}

static int predict(struct sc_study *study, struct sc_ranked_plan *ranked, struct sc_err *err)
{
	int rc;

	if (!study->predictor || ranked->is_predicted)
		return 0;
	rc = sc_iteration_rate(study->predictor, study->objective->request, &ranked->solution.plan,
			       study->prediction, err);
	if (rc)
		return rc;
	ranked->is_predicted = true;
	ranked->iteration_ms = study->prediction->iteration_ms;
	ranked->low_ms = study->prediction->low_ms;
	ranked->high_ms = study->prediction->high_ms;
	return 0;
}

/* Fills in what is asked of every plan; the plan itself is in the solution. */
static int examine(struct sc_study *study, struct sc_ranked_plan *ranked, struct sc_err *err)
{
	const struct sc_objective *objective = study->objective;
	struct sc_err own = {.code = SC_OK};
	int rc = 0;

	if (ranked->has_cost)
		rc = sc_shard_terms_of(&objective->problem, &ranked->solution.plan, &ranked->terms,
				       &own);
	if (rc && !study->predictor)
		return sc_err_at(err, own.code, own.file, own.line, own.column, "%s", own.text);
	if (rc)
		ranked->has_cost = false; /* its step can be simulated all the same */
	sc_shard_memory_of(&objective->problem, &ranked->terms, &ranked->memory);
	ranked->over_budget =
		over_budget(&objective->problem, ranked->solution.rank_hbm, &ranked->memory);
	ranked->is_barred = is_barred(study, &ranked->solution.plan);
	sc_lint_plan(&objective->problem, &ranked->solution.plan, &ranked->terms, &study->opts.lint,
		     &ranked->lints);
	return predict(study, ranked, err);
}

static const char *reason(const struct sc_objective *objective, const struct sc_err *err)
{
	char text[512];

	return err->file[0]
		       ? sc_arena_strdup(objective->arena, sc_err_format(err, text, sizeof(text)))
		       : sc_arena_strdup(objective->arena, err->text);
}

/* Takes the solution, whatever comes. */
static void add(struct sc_study *study, const struct sc_step_candidate *candidate,
		const char *origin)
{
	struct sc_ranked_plan ranked = {
		.name = candidate->name,
		.origin = origin,
		.solution = candidate->solution,
		.has_cost = candidate->solution.rank_cost != NULL,
		.is_predicted = candidate->step_ms > 0,
		.iteration_ms = candidate->step_ms,
		.low_ms = candidate->low_ms,
		.high_ms = candidate->high_ms,
	};
	struct sc_err err = {.code = SC_OK};

	if (examine(study, &ranked, &err))
		ranked.error = reason(study->objective, &err);
	SC_VEC_PUSH(&study->plans, ranked);
}

void sc_study_add_plan(struct sc_study *study, const char *name, struct sc_shard_plan *plan)
{
	const struct sc_objective *objective = study->objective;
	struct sc_step_candidate rated = {.name = name};
	struct sc_ranked_plan failed = {.name = name, .origin = "plan"};
	struct sc_err err = {.code = SC_OK};
	int rc;

	rc = sc_shard_rate(&objective->problem, plan, true, objective->arena, &rated.solution,
			   &err);
	if (rc && !study->predictor) {
		failed.error = reason(objective, &err);
		failed.solution.plan = *plan;
		SC_VEC_PUSH(&study->plans, failed);
	} else {
		if (rc)
			rated.solution = (struct sc_shard_solution){.cost = 0};
		else if (rated.solution.plan.tables.at != plan->tables.at)
			sc_shard_plan_release(&rated.solution.plan);
		rated.solution.plan = *plan;
		add(study, &rated, "plan");
	}
	*plan = (struct sc_shard_plan){.world = 0};
}

/* By the proxy alone, or the only objective. */
static int search_cost(struct sc_study *study, struct sc_err *err)
{
	const struct sc_objective *objective = study->objective;
	struct sc_step_candidate found = {.name = "search"};
	int rc = sc_shard_solve(&objective->problem, &study->opts.solve, objective->arena,
				&found.solution, err);

	if (rc == 0)
		add(study, &found, "search");
	return rc;
}

/* The candidates, rated; then whole steps from the best of them. Bounds hold for the first: all types. */
static int search_steps(struct sc_study *study, sc_step_candidates *list, struct sc_err *err)
{
	const struct sc_objective *objective = study->objective;
	struct sc_shard_plan plan = {.world = 0};
	struct sc_step_search q;
	double seconds = study->opts.solve.seconds;
	int rc;

	sc_step_search_init(&q);
	q.request = objective->request;
	q.problem = &objective->problem;
	q.predictor = study->predictor;
	q.prediction = study->prediction;
	q.seconds = seconds * STEPS_SHARE;
	q.seed = study->opts.solve.seed;
	q.watch = study->opts.solve.watch;
	rc = sc_step_best(&q, list, &plan, err);
	if (rc)
		return rc;
	sc_study_add_plan(study, "search, by steps", &plan);
	study->plans.at[study->plans.n - 1].origin = "search";
	return 0;
}

/* Other planners' plans stay candidates; what the proxy's searches found is listed. */
static void list_searched(struct sc_study *study, sc_step_candidates *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++) {
		struct sc_step_candidate *c = &list->at[i];

		if (strncmp(c->name, "search", strlen("search")) == 0)
			add(study, c, "search");
		else
			list->at[kept++] = *c;
	}
	list->n = kept;
}

static void note_left_out(struct sc_study *study)
{
	struct sc_strbuf names = {0};

	sc_step_candidates_left_out(&study->objective->problem, &names);
	sc_lint_starts(&study->objective->problem, sc_strbuf_get(&names), &study->lints);
	sc_strbuf_release(&names);
}

int sc_study_search(struct sc_study *study, struct sc_err *err)
{
	const struct sc_objective *objective = study->objective;
	struct sc_solve_opts opts = study->opts.solve;
	bool is_free = !opts.current && !objective->problem.n_constraints;
	size_t first = study->plans.n;
	sc_step_candidates list = {0};
	const struct sc_shard_solution *found;
	int rc;

	if (study->predictor) {
		if (is_free)
			note_left_out(study);
		opts.seconds *= 1 - STEPS_SHARE;
		rc = sc_step_candidates_find(objective->request, &objective->problem, &opts,
					     objective->arena, &list, err);
		if (rc == 0 && !opts.current)
			rc = search_steps(study, &list, err);
		list_searched(study, &list);
		sc_step_candidates_release(&list);
		if (rc == 0 && !opts.current)
			first++; /* after the one by steps */
	} else {
		rc = search_cost(study, err);
	}
	if (rc)
		return rc;
	found = &study->plans.at[first].solution;
	if (is_free) {
		study->bound = fmax(study->bound, found->bound);
		study->lp_bound = fmax(study->lp_bound, found->lp_bound);
		study->has_bound = true;
	} else {
		study->kept_bound = fmax(study->kept_bound, found->bound);
	}
	return 0;
}

/* Of all plans, whatever constraints a search has to keep to; and of those that keep to them. */
static void find_bounds(struct sc_study *study)
{
	struct sc_shard_problem free_problem = study->objective->problem;

	free_problem.constraints = NULL;
	free_problem.n_constraints = 0;
	if (!study->has_bound)
		study->bound = sc_shard_bound(&free_problem, &study->lp_bound);
	study->has_bound = true;
	study->kept_bound = fmax(study->kept_bound, study->bound);
	if (study->objective->problem.n_constraints)
		study->kept_bound =
			fmax(study->kept_bound, sc_shard_bound(&study->objective->problem, NULL));
}

/* Planners search under their own costs; the plan is then rated as any other. */
static int add_planner(struct sc_study *study, const char *name, enum sc_planner planner,
		       struct sc_err *err)
{
	const struct sc_planner_ask ask = {study->objective->request, planner,
					   study->objective->device_constants};
	struct sc_planned planned;
	int rc = sc_plan_by(&ask, study->objective->arena, &planned, err);

	if (rc)
		return rc;
	sc_study_add_plan(study, name, &planned.plan);
	study->plans.at[study->plans.n - 1].origin = "baseline";
	return 0;
}

static int add_sharder(struct sc_study *study, const char *name, struct sc_err *err)
{
	const struct sc_objective *objective = study->objective;
	struct sc_step_candidate placed = {.name = name};
	int rc = sc_shard_baseline(&objective->problem, name, study->opts.solve.seed,
				   objective->arena, &placed.solution, err);

	if (rc == 0)
		add(study, &placed, "baseline");
	return rc;
}

int sc_study_add_baseline(struct sc_study *study, const char *name, struct sc_err *err)
{
	struct sc_ranked_plan failed = {.name = name, .origin = "baseline"};
	struct sc_err own = {.code = SC_OK};
	size_t i = 0;
	int rc;

	while (sc_study_planners[i].name && strcmp(sc_study_planners[i].name, name) != 0)
		i++;
	rc = sc_study_planners[i].name
		     ? add_planner(study, name, (enum sc_planner)sc_study_planners[i].value, &own)
		     : add_sharder(study, name, &own);
	if (own.code == SC_EUSAGE || own.code == SC_EVALUE)
		return sc_err_set(err, own.code, "%s", own.text);
	if (rc) {
		failed.error = reason(study->objective, &own);
		SC_VEC_PUSH(&study->plans, failed);
	}
	return 0;
}

double sc_ranked_cost(const struct sc_study *study, const struct sc_ranked_plan *plan)
{
	return study->predictor ? plan->iteration_ms : plan->solution.cost;
}

/* What can be used, what cannot, what is not rated. */
static int standing(const struct sc_ranked_plan *plan)
{
	if (plan->error)
		return 2;
	return plan->over_budget || plan->is_barred;
}

/* By standing, then by cost. */
static bool is_better(const struct sc_study *study, const struct sc_ranked_plan *x,
		      const struct sc_ranked_plan *y)
{
	int rank = standing(x) - standing(y);
	double x_cost = sc_ranked_cost(study, x), y_cost = sc_ranked_cost(study, y);

	if (rank || x->error)
		return rank < 0;
	if (study->predictor && x_cost > 0 && y_cost > 0) {
		double steps = floor(log(x_cost) / SAME_STEP) - floor(log(y_cost) / SAME_STEP);

		if (steps < 0 || steps > 0)
			return steps < 0;
		if (x->has_cost != y->has_cost)
			return x->has_cost;
		if (x->solution.cost < y->solution.cost || x->solution.cost > y->solution.cost)
			return x->solution.cost < y->solution.cost;
	}
	return x_cost < y_cost;
}

/* Insertion: few plans, and the order of equals stays. */
static void sort(struct sc_study *study)
{
	struct sc_ranked_plan *at = study->plans.at;

	for (size_t i = 1; i < study->plans.n; i++) {
		struct sc_ranked_plan plan = at[i];
		size_t k = i;

		for (; k > 0 && is_better(study, &plan, &at[k - 1]); k--)
			at[k] = at[k - 1];
		at[k] = plan;
	}
}

/* How much of a change of the embeddings' cost the step sees: 10 % less of what they run on. */
static double exposed_frac(struct sc_study *study, const struct sc_ranked_plan *plan)
{
	struct sc_predict_opts opts;
	struct sc_err none = {.code = SC_OK};
	double slower_ms;

	sc_predict_opts_init(&opts);
	opts.plan = &plan->solution.plan;
	opts.hbm_speed = opts.link_speed = opts.nic_speed = 1 / (1 + SLOWER_FRAC);
	if (!plan->has_cost || !(plan->solution.cost > 0) ||
	    sc_predict(study->predictor, study->objective->request, &opts, study->prediction,
		       &none))
		return 0;
	slower_ms = study->prediction->iteration_ms - plan->iteration_ms;
	return fmin(1, fmax(0, slower_ms / (SLOWER_FRAC * plan->solution.cost)));
}

static int judge(struct sc_study *study, size_t n, struct sc_err *err)
{
	struct sc_confidence_plan *plans = sc_xrealloc(NULL, n, sizeof(*plans));
	struct sc_confidence *out = sc_xrealloc(NULL, n, sizeof(*out));
	struct sc_confidence_opts opts = study->opts.confidence;
	int rc;

	for (size_t i = 0; i < n; i++) {
		const struct sc_ranked_plan *from = &study->plans.at[i];

		plans[i] = (struct sc_confidence_plan){.terms = &from->terms};
		if (study->predictor) {
			plans[i].step_ms = from->iteration_ms;
			plans[i].exposed_frac = n > 1 ? exposed_frac(study, from) : 1;
		}
	}
	if (n == 1 && opts.samples > study->opts.samples_alone)
		opts.samples = study->opts.samples_alone;
	rc = sc_shard_confidence(&study->objective->problem, plans, n, &opts, out, err);
	for (size_t i = 0; i < n && rc == 0; i++)
		study->plans.at[i].confidence = out[i];
	free(plans);
	free(out);
	return rc;
}

int sc_study_rank(struct sc_study *study, struct sc_err *err)
{
	size_t n = 0;

	find_bounds(study);
	sort(study);
	for (size_t i = 0; i < study->plans.n; i++) {
		struct sc_ranked_plan *plan = &study->plans.at[i];

		n += !plan->error;
		plan->bound = plan->is_barred ? study->bound : study->kept_bound;
	}
	if (n == 0 && study->plans.n)
		return sc_err_set(err, SC_ECONFLICT, "%s", study->plans.at[0].error);
	if (n == 0)
		return sc_err_set(err, SC_EUSAGE, "no plan to rank; give --plan or --search");
	if (study->opts.confidence.samples > 0)
		return judge(study, n, err);
	return 0;
}
