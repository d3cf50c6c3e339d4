/* Gathers plans, examines each (terms, step, confidence, oddities), and orders them. Few plans
 * come, so sorting is by insertion. */
#include "study/shard/shard_study.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/shard/shard_iteration.h"
#include "study/shard/shard_objective.h"
#include "study/shard/shard_step.h"

#define SAME_STEP 1e-6
#define SLOWER_FRAC 0.1
#define HIDDEN_FRAC 0.01

void sc_study_init(struct sc_study *study, const struct sc_objective *objective,
		   struct sc_arena *arena)
{
	*study = (struct sc_study){.objective = objective,
				   .ranking = sc_ranking_request(objective->request, arena)};
	if (objective->kind == SC_OBJECTIVE_ITERATION) {
		study->predictor = sc_predictor_create();
		study->is_by_gpu = study->ranking != objective->request;
		study->prediction = sc_arena_calloc(arena, 1, sizeof(*study->prediction));
	}
	study->opts.solve = sc_solve_defaults;
	study->opts.confidence = (struct sc_confidence_opts){.samples = 1000, .seed = 1};
	study->opts.samples_alone = study->opts.confidence.samples;
	if (objective->kind == SC_OBJECTIVE_TORCHREC)
		sc_lint_constants(&objective->topology, &objective->request->device, &study->lints);
}

void sc_study_release(struct sc_study *study)
{
	for (size_t i = 0; i < study->plans.n; i++) {
		struct sc_ranked_plan *plan = &study->plans.at[i];

		sc_shard_plan_release(&plan->solution.plan);
		SC_VEC_RELEASE(&plan->terms.at);
		SC_VEC_RELEASE(&plan->lints);
	}
	SC_VEC_RELEASE(&study->plans);
	SC_VEC_RELEASE(&study->lints);
	sc_predictor_destroy(study->predictor);
	study->predictor = NULL;
}

/* A plan of a file or a baseline may break what a search keeps to. */
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
	SC_VEC_RELEASE(&diff.moves);
	return is_over;
}

static void step_opts(const struct sc_study *study, const struct sc_ranked_plan *ranked,
		      struct sc_predict_opts *opts)
{
	sc_predict_opts_init(opts);
	opts->plan = &ranked->solution.plan;
	opts->brief = true;
	opts->stop = study->opts.solve.watch ? study->opts.solve.watch->stop : NULL;
}

/* A signal ends the step of a plan that others made; the search's own is the answer. */
static int predict_plan(struct sc_study *study, struct sc_ranked_plan *ranked, struct sc_err *err)
{
	struct sc_predict_opts opts;
	int rc = 0;

	if (!study->predictor)
		return 0;
	step_opts(study, ranked, &opts);
	if (strcmp(ranked->origin, "search") == 0)
		opts.stop = NULL;
	if (!(ranked->rank_ms > 0)) {
		rc = sc_predict(study->predictor, study->ranking, &opts, study->prediction, err);
		ranked->rank_ms = study->prediction->iteration_ms;
	}
	ranked->iteration_ms = ranked->rank_ms;
	if (rc == 0 && study->is_by_gpu) {
		rc = sc_predict(study->predictor, study->objective->request, &opts,
				study->prediction, err);
		ranked->iteration_ms = study->prediction->iteration_ms;
	}
	ranked->is_predicted = rc == 0;
	return rc;
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
	ranked->is_barred = is_barred(study, &ranked->solution.plan);
	sc_lint_plan(&objective->problem, &ranked->solution.plan, &ranked->terms, &ranked->lints);
	return predict_plan(study, ranked, err);
}

static const char *reason(const struct sc_objective *objective, const struct sc_err *err)
{
	char text[512];

	return err->file[0]
		       ? sc_arena_strdup(objective->arena, sc_err_format(err, text, sizeof(text)))
		       : sc_arena_strdup(objective->arena, err->text);
}

static void add_failed(struct sc_study *study, const char *name, const char *origin,
		       const struct sc_err *err)
{
	struct sc_ranked_plan failed = {.name = name, .origin = origin};

	failed.error = reason(study->objective, err);
	SC_VEC_PUSH(&study->plans, failed);
}

/* Takes the plan, whatever comes; a step of 0 is not simulated yet. `rated` is what the solver says
 * of it, or NULL. */
static void add_ranked(struct sc_study *study, const struct sc_step_candidate *from,
		       const struct sc_shard_solution *rated, const char *origin)
{
	const struct sc_objective *objective = study->objective;
	struct sc_ranked_plan ranked = {
		.name = from->name,
		.origin = origin,
		.rank_ms = from->step_ms,
	};
	struct sc_err err = {.code = SC_OK};
	/* a reader of its file makes the same check */
	int rc = sc_shard_plan_check(&from->plan, &err);
	bool is_whole = rc == 0;

	if (rated)
		ranked.solution = *rated;
	else if (is_whole)
		rc = sc_shard_rate(&objective->problem, &from->plan, true, objective->arena,
				   &ranked.solution, &err);
	ranked.has_cost = rc == 0;
	if (!rated)
		sc_shard_plan_release(&ranked.solution.plan); /* a copy, which knows no file */
	ranked.solution.plan = from->plan;
	if (rc == 0 || (is_whole && study->predictor)) /* its step can be simulated all the same */
		rc = examine(study, &ranked, &err);
	if (rc)
		ranked.error = reason(objective, &err);
	SC_VEC_PUSH(&study->plans, ranked);
}

void sc_study_add_plan(struct sc_study *study, const char *name, struct sc_shard_plan *plan)
{
	add_ranked(study, &(struct sc_step_candidate){.name = name, .plan = *plan}, NULL, "plan");
	*plan = (struct sc_shard_plan){.world = 0};
}

static int search_plans(struct sc_study *study, struct sc_err *err)
{
	const struct sc_objective *objective = study->objective;
	const struct sc_solve_opts *opts = &study->opts.solve;
	struct sc_shard_solution found = {.cost = 0};
	struct sc_lint note = {.code = "starts-left-out"};
	sc_step_candidates list = {0};
	struct sc_step_search q = {.request = study->ranking,
				   .problem = &objective->problem,
				   .predictor = study->predictor,
				   .prediction = study->prediction,
				   .solve = *opts};
	int rc;

	if (!study->predictor || study->opts.solver_alone) {
		rc = sc_shard_solve(&objective->problem, opts, objective->arena, &found, err);
		if (rc)
			return rc;
		if (!objective->problem.n_constraints) {
			study->bound = found.all_bound;
			study->lp_bound = found.lp_bound;
		}
		add_ranked(study, &(struct sc_step_candidate){"search", found.plan, 0}, &found,
			   "search");
		return 0;
	}
	rc = sc_step_search_run(&q, objective->arena, &list, err);
	snprintf(note.text, sizeof(note.text),
		 "with %zu tables on %u ranks the search does not start from %s",
		 objective->problem.n_tables, objective->problem.world, sc_strbuf_get(&q.left_out));
	if (q.left_out.n)
		SC_VEC_PUSH(&study->lints, note);
	sc_strbuf_release(&q.left_out);
	/* The best plan is the last of the list and is taken first: a signal leaves it alone. */
	if (rc == 0 && list.n)
		add_ranked(study, &list.at[--list.n], NULL, "search");
	for (size_t i = 0; i < list.n && rc == 0 && !sc_search_is_ended(opts->watch); i++) {
		add_ranked(study, &list.at[i], NULL, "search");
		list.at[i].plan = (struct sc_shard_plan){.world = 0};
	}
	sc_step_candidates_release(&list);
	return rc;
}

int sc_study_search(struct sc_study *study, struct sc_err *err)
{
	struct sc_err own = {.code = SC_OK};
	int rc = search_plans(study, &own);

	if (rc == 0 || !sc_search_is_ended(study->opts.solve.watch))
		return rc ? sc_err_at(err, own.code, own.file, own.line, own.column, "%s", own.text)
			  : 0;
	add_failed(study, "search", "search", &own); /* other plans are there all the same */
	return 0;
}

/* Finds the bound of all plans, whatever constraints a search has to keep to, unless the search
 * did, and that of plans that keep to them. */
static void find_bounds(struct sc_study *study)
{
	struct sc_shard_problem free_problem = study->objective->problem;

	free_problem.constraints = NULL;
	free_problem.n_constraints = 0;
	if (!(study->bound > 0))
		study->bound = sc_shard_bound(&free_problem, &study->lp_bound);
	study->kept_bound = fmax(study->kept_bound, study->bound);
	if (study->objective->problem.n_constraints)
		study->kept_bound =
			fmax(study->kept_bound, sc_shard_bound(&study->objective->problem, NULL));
}

int sc_study_add_baseline(struct sc_study *study, const char *name, struct sc_err *err)
{
	const struct sc_objective *objective = study->objective;
	const struct sc_start_ask ask = {.request = objective->request,
					 .problem = &objective->problem,
					 .solve = &study->opts.solve,
					 .device_constants = objective->device_constants,
					 .arena = objective->arena};
	const struct sc_start *start = sc_start_find(name);
	struct sc_made_plan made = {.cut_short_tables = 0};
	struct sc_err own = {.code = SC_OK};

	if (!start || start->is_search)
		return sc_err_set(err, SC_EUSAGE, "unknown baseline \"%s\"", name);
	if (start->make(start, &ask, &made, &own) == 0) {
		add_ranked(study, &(struct sc_step_candidate){name, made.plan, 0}, NULL,
			   "baseline");
		return 0;
	}
	sc_shard_plan_release(&made.plan);
	if (own.code == SC_EUSAGE || own.code == SC_EVALUE)
		return sc_err_set(err, own.code, "%s", own.text);
	add_failed(study, name, "baseline", &own);
	return 0;
}

double sc_ranked_cost(const struct sc_study *study, const struct sc_ranked_plan *plan)
{
	return study->predictor ? plan->rank_ms : plan->solution.cost;
}

/* Usable plans stand before unusable ones, and those before unrated ones. */
static int standing(const struct sc_ranked_plan *plan)
{
	if (plan->error)
		return 2;
	return plan->solution.over_budget || plan->is_barred;
}

/* Standing decides, then cost. */
static bool is_better(const struct sc_study *study, const struct sc_ranked_plan *x,
		      const struct sc_ranked_plan *y)
{
	int rank = standing(x) - standing(y);
	double x_cost = sc_ranked_cost(study, x), y_cost = sc_ranked_cost(study, y);

	if (rank || x->error)
		return rank < 0;
	if (study->predictor && fabs(x_cost - y_cost) <= SAME_STEP * y_cost) {
		if (x->has_cost != y->has_cost)
			return x->has_cost;
		return x->solution.cost < y->solution.cost;
	}
	return x_cost < y_cost;
}

/* Insertion keeps the order of equals. */
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

/* The share of a change of the embeddings' cost that the step sees, found by a step with their
 * resources 10 % slower. */
static double exposed_frac(struct sc_study *study, const struct sc_ranked_plan *plan)
{
	struct sc_predict_opts opts;
	struct sc_err none = {.code = SC_OK};
	double slower_ms;

	step_opts(study, plan, &opts);
	opts.hbm_speed = opts.link_speed = opts.nic_speed = 1 / (1 + SLOWER_FRAC);
	if (!plan->has_cost || !(plan->solution.cost > 0) ||
	    sc_predict(study->predictor, study->ranking, &opts, study->prediction, &none))
		return 0;
	slower_ms = study->prediction->iteration_ms - plan->rank_ms;
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
			plans[i].step_ms = from->rank_ms;
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

/* Notes how many steps the host makes longer than the GPUs'. */
static void note_host(struct sc_study *study)
{
	struct sc_lint note = {.code = "host-hides"};
	size_t n = 0, n_hidden = 0;
	char of[48] = "all";

	for (size_t i = 0; i < study->plans.n; i++) {
		const struct sc_ranked_plan *plan = &study->plans.at[i];

		n += !plan->error;
		n_hidden += !plan->error && plan->rank_ms * (1 + HIDDEN_FRAC) < plan->iteration_ms;
	}
	if (n < 2 || !n_hidden)
		return;
	if (n_hidden < n)
		snprintf(of, sizeof(of), "%zu of %zu", n_hidden, n);
	snprintf(note.text, sizeof(note.text),
		 "the host, as in the example script of %.40s, hides %s plans: they are ranked by "
		 "the GPUs' step; give your own as dlrm.host_sample_us",
		 study->objective->request->software.id, of);
	SC_VEC_PUSH(&study->lints, note);
}

int sc_study_rank(struct sc_study *study, struct sc_err *err)
{
	size_t n = 0;
	int rc = 0;

	sort(study);
	for (size_t i = 0; i < study->plans.n; i++)
		n += !study->plans.at[i].error;
	if (n == 0 && study->plans.n)
		return sc_err_set(err, SC_ECONFLICT, "%s", study->plans.at[0].error);
	if (n == 0)
		return sc_err_set(err, SC_EUSAGE, "no plan to rank; give --plan or --search");
	find_bounds(study);
	note_host(study);
	for (size_t i = 0; i < study->plans.n; i++) {
		struct sc_ranked_plan *plan = &study->plans.at[i];

		plan->bound = plan->is_barred ? study->bound : study->kept_bound;
	}
	if (study->opts.confidence.samples > 0 && !sc_search_is_ended(study->opts.solve.watch))
		rc = judge(study, n, err);
	/* Steps that a signal cut short say nothing of confidence. */
	if (sc_search_is_ended(study->opts.solve.watch))
		study->opts.confidence.samples = 0;
	return rc;
}

/* ---- cost against memory ---- */

/* The shares of the best plan's memory that are tried as budgets; a budget below another plan's
 * need gives a new plan. */
static const double STEPS[] = {0.97, 0.93, 0.88, 0.82, 0.75, 0.68,
			       0.6,  0.52, 0.44, 0.36, 0.28, 0.2};

/* Keeps only the points that none is better than in both. */
static void add_point(struct sc_pareto *out, struct sc_shard_solution *found)
{
	while (out->n && out->at[out->n - 1].cost >= found->cost)
		sc_shard_plan_release(&out->at[--out->n].plan);
	if (out->n == SC_PARETO_MAX ||
	    (out->n && out->at[out->n - 1].hbm_bytes <= found->memory.hbm_bytes)) {
		sc_shard_plan_release(&found->plan);
		return;
	}
	out->at[out->n++] = (struct sc_pareto_point){.cost = found->cost,
						     .bound = found->bound,
						     .hbm_bytes = found->memory.hbm_bytes,
						     .plan = found->plan};
}

int sc_shard_pareto(const struct sc_shard_problem *problem, const struct sc_solve_opts *opts,
		    struct sc_arena *arena, struct sc_pareto *out, struct sc_err *err)
{
	struct sc_shard_problem smaller = *problem;
	struct sc_shard_solution found = {.cost = 0};
	double first_bytes;
	int rc = sc_shard_solve(problem, opts, arena, &found, err);

	out->n = 0;
	if (rc)
		return rc;
	first_bytes = found.memory.hbm_bytes;
	add_point(out, &found);
	for (size_t i = 0; i < sizeof(STEPS) / sizeof(STEPS[0]); i++) {
		struct sc_err none = {.code = SC_OK};

		smaller.hbm_bytes = first_bytes * STEPS[i];
		smaller.rank_hbm_bytes = NULL;
		if (out->n && smaller.hbm_bytes >= out->at[out->n - 1].hbm_bytes)
			continue;
		if (sc_shard_solve(&smaller, opts, arena, &found, &none))
			break; /* a smaller budget holds no plan either */
		add_point(out, &found);
	}
	return 0;
}
