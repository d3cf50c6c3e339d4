/* Rows, coefficients, search from several starts; then what the fit is worth: left-out groups, the
 * cost of moving each coefficient, the deviation of equal configs. */
#include "study/fit/fit_iterations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/threads.h"
#include "base/units.h"
#include "study/fit/fit_iterations_priv.h"

#define EFFECT_FLOOR 1e-9 /* a slope of nothing */
#define BOUND_FRAC 5e-3   /* this close to a bound, in logs */
#define RISE_DOWN 0.8
#define RISE_UP 1.2
enum { GROUP_BLOCK_BYTES = 64 << 10 };

/* What the steps share. */
struct fit {
	const struct sc_itfit_opts *opts;
	struct sc_itfit_problem problem;
	struct sc_itfit_crew crew;
	struct sc_itfit_local start, best; /* around the starts, and the fit of all rows */
	size_t *group;                     /* of each row */
	struct sc_progress *progress;
	struct sc_arena *arena;
	struct sc_itfit *out;
};

/* ---- all rows ---- */

static void fit_all(struct fit *fit)
{
	struct sc_itfit_job job = {.problem = &fit->problem, .crew = &fit->crew};

	sc_itfit_local_init(&fit->start, &fit->problem, fit->arena);
	sc_itfit_local_init(&fit->best, &fit->problem, fit->arena);
	for (size_t j = 0; j < fit->problem.n_params; j++)
		fit->start.x[j] = fit->problem.params[j].start;
	sc_itfit_linearize(&fit->problem, &fit->crew, &fit->start);
	sc_itfit_local_copy(&fit->best, &fit->start, &fit->problem);
	if (fit->opts->start_from_profile)
		sc_itfit_search(&job, &fit->best);
	else
		sc_itfit_search_far(&job, &fit->best);
	sc_progress_add(fit->progress, 1);
}

/* Does the time of any row that is in, or of any (in NULL), depend on the coefficient? */
static bool has_effect(const struct sc_itfit_problem *problem, const struct sc_itfit_local *local,
		       const bool *in, size_t param)
{
	for (size_t i = 0; i < problem->n_rows; i++) {
		size_t at = problem->rows[i].request * problem->n_params + param;

		if ((!in || in[i]) && fabs(local->slope[at]) > EFFECT_FLOOR)
			return true;
	}
	return false;
}

static double value_of(const struct sc_itfit_problem *problem, const struct sc_itfit_coef *coef,
		       double x, size_t param)
{
	return x == problem->params[param].start ? coef->start : exp(x);
}

static void take_coefs(struct fit *fit)
{
	const struct sc_itfit_problem *problem = &fit->problem;

	for (size_t j = 0; j < problem->n_params; j++) {
		const struct sc_itfit_param *param = &problem->params[j];
		struct sc_itfit_coef *coef = &fit->out->coefs[j];
		double x = fit->best.x[j];

		coef->has_effect = has_effect(problem, &fit->best, NULL, j) ||
				   has_effect(problem, &fit->start, NULL, j);
		if (!coef->has_effect)
			x = param->start;
		coef->value = value_of(problem, coef, x, j);
		coef->at_bound = coef->has_effect &&
				 (x < param->lower + BOUND_FRAC || x > param->upper - BOUND_FRAC);
	}
}

/* Each coefficient alone, down and up. */
static void measure_rises(struct fit *fit)
{
	const struct sc_itfit_problem *problem = &fit->problem;
	struct sc_itfit_job job = {.problem = problem, .crew = &fit->crew};
	size_t k = problem->n_params, n = problem->n_requests;
	double *points = sc_arena_calloc(fit->arena, 2 * k * k, sizeof(*points));
	double *ln_time = sc_arena_calloc(fit->arena, 2 * k * n, sizeof(*ln_time));
	double error = sc_itfit_error(&job, fit->best.ln_time);

	for (size_t i = 0; i < 2 * k; i++) {
		size_t j = i / 2;
		double moved = fit->best.x[j] + log(i % 2 ? RISE_UP : RISE_DOWN);

		memcpy(points + i * k, fit->best.x, k * sizeof(*points));
		points[i * k + j] =
			fmax(problem->params[j].lower, fmin(problem->params[j].upper, moved));
	}
	sc_itfit_predict(problem, &fit->crew, points, 2 * k, ln_time);
	for (size_t i = 0; i < 2 * k; i++)
		fit->out->coefs[i / 2].rise_pct[i % 2] =
			SC_PCT * (sc_itfit_error(&job, ln_time + i * n) - error);
}

/* ---- errors ---- */

/* Of the rows of a group (all: SIZE_MAX), with times by request, or by row where `by_row`. */
struct chosen {
	const struct fit *fit;
	size_t group;
	const double *ln_time;
	bool by_row;
};

static void compute_accuracy(const struct chosen *c, struct sc_accuracy *out)
{
	const struct sc_itfit_problem *problem = &c->fit->problem;
	struct sc_arena_mark mark = sc_arena_mark(c->fit->arena);
	double *predicted = sc_arena_calloc(c->fit->arena, problem->n_rows, sizeof(double));
	double *measured = sc_arena_calloc(c->fit->arena, problem->n_rows, sizeof(double));
	size_t n = 0;

	for (size_t i = 0; i < problem->n_rows; i++) {
		const struct sc_itfit_row *row = &problem->rows[i];

		if (c->group != SIZE_MAX && c->fit->group[i] != c->group)
			continue;
		predicted[n] = exp(c->ln_time[c->by_row ? i : row->request]);
		measured[n++] = c->fit->out->validation->cases[row->case_idx].measured_ms;
	}
	*out = sc_accuracy_compute(predicted, measured, n, c->fit->arena);
	sc_arena_rewind(c->fit->arena, mark);
}

/* The profiles as they are, by row. */
static double *old_times(const struct fit *fit)
{
	const struct sc_itfit_problem *problem = &fit->problem;
	double *out = sc_arena_calloc(fit->arena, problem->n_rows, sizeof(*out));

	for (size_t i = 0; i < problem->n_rows; i++) {
		size_t at = problem->rows[i].case_idx;

		out[i] = log(fit->out->validation->cases[at].outcome.iteration_ms);
	}
	return out;
}

/* ---- groups left out ---- */

struct keyed {
	const char *key;
	size_t row;
};

static int by_key(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;
	int order = strcmp(x->key, y->key);

	if (order)
		return order;
	return x->row < y->row ? -1 : x->row > y->row;
}

static int find_columns(const struct fit *fit, size_t *columns, struct sc_err *err)
{
	const struct sc_csv *table = fit->out->validation->table;
	const struct sc_itfit_opts *opts = fit->opts;

	for (size_t i = 0; i < opts->n_leave_out; i++) {
		int column = sc_csv_column(table, opts->leave_out[i]);
		const char *near;

		columns[i] = (size_t)column;
		if (column >= 0)
			continue;
		near = sc_nearest(opts->leave_out[i], table->header, table->n_cols);
		return sc_err_set(err, SC_EUSAGE,
				  "--leave-out: no column \"%.64s\" in %.64s%s%.64s%s",
				  opts->leave_out[i], table->file, near ? "; did you mean \"" : "",
				  near ? near : "", near ? "\"?" : "");
	}
	return 0;
}

/* "2048, 24" */
static const char *join(const char *const *texts, size_t n, struct sc_arena *arena)
{
	const char *out = n ? texts[0] : "";

	for (size_t i = 1; i < n; i++)
		out = sc_arena_printf(arena, "%s, %s", out, texts[i]);
	return out;
}

static const char *group_value(const struct fit *fit, const size_t *columns, size_t row)
{
	const struct sc_validation *v = fit->out->validation;
	size_t n = fit->opts->n_leave_out;
	const char **cells = sc_arena_calloc(fit->arena, n, sizeof(*cells));

	for (size_t i = 0; i < n; i++)
		cells[i] = sc_csv_cell(v->table, v->cases[fit->problem.rows[row].case_idx].row,
				       columns[i]);
	return join(cells, n, fit->arena);
}

/* Numbers the rows' groups in the order of their values. */
static int form_groups(struct fit *fit, struct sc_err *err)
{
	size_t n = fit->problem.n_rows;
	size_t *columns = sc_arena_calloc(fit->arena, fit->opts->n_leave_out, sizeof(*columns));
	struct keyed *keyed = sc_arena_calloc(fit->arena, n, sizeof(*keyed));
	struct sc_itfit *out = fit->out;
	int rc = find_columns(fit, columns, err);

	if (rc)
		return rc;
	fit->group = sc_arena_calloc(fit->arena, n, sizeof(*fit->group));
	out->groups = sc_arena_calloc(fit->arena, n, sizeof(*out->groups));
	out->leave_out = join(fit->opts->leave_out, fit->opts->n_leave_out, fit->arena);
	for (size_t i = 0; i < n; i++)
		keyed[i] = (struct keyed){group_value(fit, columns, i), i};
	qsort(keyed, n, sizeof(*keyed), by_key);
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || strcmp(keyed[i - 1].key, keyed[i].key) != 0)
			out->groups[out->n_groups++].value = keyed[i].key;
		fit->group[keyed[i].row] = out->n_groups - 1;
	}
	if (out->n_groups < 2)
		return sc_err_set(
			err, SC_EVALUE,
			"--leave-out %.64s: all rows have \"%.64s\"; without them there is "
			"nothing to fit",
			out->leave_out, out->groups[0].value);
	return 0;
}

struct left_out {
	struct fit *fit;
	double *ln_time; /* by row, of the fit that did not see it */
};

/* The fit of the rows that are in: from the starts, and from where all rows lead. */
static void fit_others(const struct fit *fit, const struct sc_itfit_job *job,
		       struct sc_itfit_local *local, struct sc_arena *scratch)
{
	struct sc_itfit_local other;

	sc_itfit_local_init(&other, &fit->problem, scratch);
	sc_itfit_local_copy(local, &fit->best, &fit->problem);
	sc_itfit_search(job, local);
	sc_itfit_local_copy(&other, &fit->start, &fit->problem);
	sc_itfit_search(job, &other);
	if (sc_itfit_cost(job, other.x, other.ln_time) <
	    sc_itfit_cost(job, local->x, local->ln_time))
		sc_itfit_local_copy(local, &other, &fit->problem);
}

/* Coefficients that the others do not determine go back to their starts. */
static void take_group(const struct left_out *l, size_t group, const struct sc_itfit_job *job,
		       struct sc_itfit_local *local)
{
	const struct sc_itfit_problem *problem = &l->fit->problem;
	struct sc_itfit_group *out = &l->fit->out->groups[group];
	double *values = out->values;

	for (size_t j = 0; j < problem->n_params; j++) {
		if (!has_effect(problem, local, job->in, j) &&
		    !has_effect(problem, &l->fit->start, job->in, j)) {
			local->x[j] = problem->params[j].start;
			out->n_undetermined++;
		}
		values[j] = value_of(problem, &l->fit->out->coefs[j], local->x[j], j);
	}
	if (out->n_undetermined)
		sc_itfit_predict(problem, job->crew, local->x, 1, local->ln_time);
	for (size_t i = 0; i < problem->n_rows; i++)
		if (l->fit->group[i] == group)
			l->ln_time[i] = local->ln_time[problem->rows[i].request];
}

static int leave_out_group(void *shared, void *thread_ctx, size_t index, struct sc_err *err)
{
	const struct left_out *l = shared;
	const struct sc_itfit_problem *problem = &l->fit->problem;
	struct sc_itfit_crew crew = {.workers = &thread_ctx, .n = 1};
	struct sc_itfit_job job = {.problem = problem, .crew = &crew};
	struct sc_itfit_local local;
	struct sc_arena scratch;
	bool *in;

	(void)err;
	sc_arena_init(&scratch, GROUP_BLOCK_BYTES);
	in = sc_arena_calloc(&scratch, problem->n_rows, sizeof(*in));
	for (size_t i = 0; i < problem->n_rows; i++)
		in[i] = l->fit->group[i] != index;
	job.in = in;
	sc_itfit_local_init(&local, problem, &scratch);
	fit_others(l->fit, &job, &local, &scratch);
	take_group(l, index, &job, &local);
	sc_arena_release(&scratch);
	sc_progress_add(l->fit->progress, 1);
	return 0;
}

static void leave_out_all(struct fit *fit)
{
	size_t n = fit->out->n_groups, k = fit->problem.n_params;
	struct left_out l = {fit, sc_arena_calloc(fit->arena, fit->problem.n_rows, sizeof(double))};
	double *values = sc_arena_calloc(fit->arena, n * k, sizeof(*values));
	struct sc_work work = {.n_items = n,
			       .n_jobs = fit->crew.n,
			       .item = leave_out_group,
			       .shared = &l,
			       .contexts = fit->crew.workers};
	const double *old = old_times(fit);

	for (size_t g = 0; g < n; g++)
		fit->out->groups[g].values = values + g * k;
	sc_parallel_for(&work, NULL);
	compute_accuracy(&(struct chosen){fit, SIZE_MAX, l.ln_time, true}, &fit->out->left_out);
	for (size_t g = 0; g < n; g++) {
		struct sc_itfit_group *group = &fit->out->groups[g];

		compute_accuracy(&(struct chosen){fit, g, old, true}, &group->before);
		compute_accuracy(&(struct chosen){fit, g, l.ln_time, true}, &group->left_out);
		for (size_t j = 0; j < k; j++) {
			struct sc_itfit_coef *coef = &fit->out->coefs[j];

			coef->left_out_lowest = fmin(coef->left_out_lowest, group->values[j]);
			coef->left_out_highest = fmax(coef->left_out_highest, group->values[j]);
		}
	}
}

/* ---- rows of equal configs ---- */

static void measure_duplicates(struct fit *fit)
{
	const struct sc_itfit_problem *problem = &fit->problem;
	const struct sc_case *cases = fit->out->validation->cases;
	double *sum = sc_arena_calloc(fit->arena, problem->n_requests, sizeof(*sum)), off = 0;
	size_t *n = sc_arena_calloc(fit->arena, problem->n_requests, sizeof(*n));
	struct sc_itfit *out = fit->out;

	for (size_t i = 0; i < problem->n_rows; i++) {
		sum[problem->rows[i].request] += cases[problem->rows[i].case_idx].measured_ms;
		n[problem->rows[i].request]++;
	}
	for (size_t i = 0; i < problem->n_rows; i++) {
		size_t at = problem->rows[i].request;
		double mean = sum[at] / (double)n[at];

		if (n[at] < 2)
			continue;
		off += fabs(cases[problem->rows[i].case_idx].measured_ms / mean - 1);
		out->n_duplicates++;
	}
	out->duplicate_floor_pct =
		out->n_duplicates ? SC_PCT * off / (double)out->n_duplicates : (double)NAN;
}

/* ---- together ---- */

static int check_rows(const struct fit *fit, struct sc_err *err)
{
	const struct sc_validation *v = fit->out->validation;

	if (!v->n_cases)
		return sc_err_at(err, SC_EVALUE, v->table->file, 0, 0, "no row is chosen");
	if (fit->problem.n_rows > fit->opts->n_coefs)
		return 0;
	return sc_err_at(err, SC_EVALUE, v->table->file, 0, 0,
			 "%zu rows to fit, too few for %zu coefficients%s%.128s",
			 fit->problem.n_rows, fit->opts->n_coefs,
			 v->all.n_skipped ? "; first row skipped: " : "",
			 v->all.n_skipped ? v->all.skipped[0]->skipped : "");
}

static int prepare(struct fit *fit, const struct sc_itfit_source *source, struct sc_err *err)
{
	struct sc_itfit *out = fit->out;
	int rc = sc_itfit_rows_read(source, &fit->problem, err);

	if (rc == 0)
		rc = check_rows(fit, err);
	if (rc)
		return rc;
	out->n_rows = fit->problem.n_rows;
	out->n_configs = fit->problem.n_requests;
	out->n_coefs = fit->opts->n_coefs;
	out->coefs = sc_arena_calloc(fit->arena, SC_ITFIT_MAX_COEFS, sizeof(*out->coefs));
	rc = sc_itfit_coefs_bind(&fit->problem, fit->opts, fit->arena, out->coefs, err);
	/* Ids live in the catalog, which goes before the result does. */
	for (size_t j = 0; j < out->n_coefs && rc == 0; j++)
		out->coefs[j].id = sc_arena_strdup(fit->arena, out->coefs[j].id);
	if (rc == 0 && fit->opts->n_leave_out)
		rc = form_groups(fit, err);
	return rc;
}

static void run(struct fit *fit)
{
	const struct sc_itfit_opts *opts = fit->opts;
	struct sc_itfit *out = fit->out;

	sc_itfit_crew_init(&fit->crew, opts->n_jobs);
	if (opts->progress)
		fit->progress = opts->progress(opts->progress_ctx, 1 + out->n_groups);
	fit_all(fit);
	take_coefs(fit);
	measure_rises(fit);
	measure_duplicates(fit);
	compute_accuracy(&(struct chosen){fit, SIZE_MAX, old_times(fit), true}, &out->before);
	compute_accuracy(&(struct chosen){fit, SIZE_MAX, fit->best.ln_time, false},
			 &out->in_sample);
	if (out->n_groups)
		leave_out_all(fit);
	sc_progress_destroy(fit->progress);
	sc_itfit_crew_release(&fit->crew);
}

int sc_itfit_run(const struct sc_itfit_opts *opts, struct sc_arena *arena, struct sc_itfit *out,
		 struct sc_err *err)
{
	struct sc_validate_opts choose = {.base = opts->base,
					  .table = opts->table,
					  .where = opts->where,
					  .n_where = opts->n_where,
					  .n_jobs = opts->n_jobs,
					  .predict = opts->predict};
	struct sc_validation *validation = sc_arena_calloc(arena, 1, sizeof(*validation));
	struct sc_itfit result = {.table = sc_file_name(opts->table->file),
				  .validation = validation};
	struct sc_itfit_source source = {
		.base = opts->base, .validation = validation, .arena = arena};
	struct fit fit = {.opts = opts,
			  .problem = {.predict = opts->predict},
			  .arena = arena,
			  .out = &result};
	int rc = sc_validate(&choose, arena, validation, err);

	if (rc)
		return rc;
	source.catalog = sc_catalog_create();
	rc = prepare(&fit, &source, err);
	if (rc == 0) {
		run(&fit);
		*out = result;
	}
	sc_catalog_destroy(source.catalog);
	return rc;
}
