/* Rows of a table as requests, names of coefficients as places in their profiles; the solver and the errors are those of
 * all fits (models/fit). */
#include "study/fit/fit_iterations.h"

#include <assert.h>
#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/search.h"
#include "base/strbuf.h"
#include "base/threads.h"
#include "base/units.h"
#include "core/config/config_table.h"
#include "models/fit/fit_solve.h"
#include "study/shard/shard_choose.h"

#define SPAN_LOG 6.9 /* a factor 1000 either way, where the field's own limits are wider */
/* A factor 2 must save 0.08 % of the error, a factor 100 0.6 %: a start may be a guess. */
#define PULL 0.002
#define STEP 0.02 /* of differences: an iteration is a sum of whole nanoseconds */
#define START_MARGIN 1.01
#define CELL_END '\x1f'
enum { ITEMS_AT_A_TIME = 16 };

/* Where a coefficient is. */
struct place {
	bool of_device; /* else of software */
	const char *id; /* of the profile */
	size_t offset;
};
struct worker {
	struct sc_predictor *predictor;
	struct sc_request request;
	struct sc_device kinds[SC_MAX_GPU_KINDS];
	struct sc_prediction prediction;
};
/* Profiles of the rows, by first appearance. */
struct profiles {
	struct profile {
		const char *id;
		const void *object;
	} * at;
	size_t n;
};
struct fit {
	const struct sc_itfit_opts *opts;
	struct sc_validation *validation;
	struct sc_fit_row *rows;
	const struct sc_case **cases; /* of the rows */
	size_t n_rows, n_groups;
	struct sc_request *requests; /* of the different configs */
	size_t n_requests;
	struct profiles profiles[2]; /* of software, of devices */
	struct place places[SC_ITFIT_MAX_COEFS];
	struct sc_fit_params params;
	void **workers;
	struct sc_arena *arena;
	struct sc_err *err;
};

/* ---- rows ---- */

struct keyed {
	const char *key;
	size_t row;
};

static int by_key(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;
	int order = strcmp(x->key, y->key);

	return order ? order : SC_ORDER(x->row, y->row);
}

/* The cells of a row in these columns (< 0: not there), as a text of the arena. */
static const char *joined(const struct fit *fit, size_t row, const int *columns, size_t n,
			  const char *between)
{
	const struct sc_csv *csv = fit->validation->table;
	struct sc_strbuf text = {0};
	const char *out;

	for (size_t i = 0; i < n; i++)
		sc_strbuf_printf(&text, "%s%s", i ? between : "",
				 columns[i] < 0 ? ""
						: sc_csv_cell(csv, fit->cases[row]->row,
							      (size_t)columns[i]));
	out = sc_arena_strdup(fit->arena, sc_strbuf_get(&text));
	sc_strbuf_release(&text);
	return out;
}

/* Rows that the validation could predict, as requests; rows with equal config cells share one. */
static int read_rows(struct fit *fit, struct sc_catalog *catalog)
{
	static const char end[] = {CELL_END, '\0'};
	const struct sc_validation *v = fit->validation;
	struct sc_config_table table = {.csv = v->table, .base = fit->opts->base};
	struct keyed *keyed = sc_arena_calloc(fit->arena, v->n_cases + 1, sizeof(*keyed));
	int rc = sc_config_table_bind(&table, fit->arena, fit->err), *columns;

	if (rc)
		return rc;
	columns = sc_arena_calloc(fit->arena, table.n_columns + 2, sizeof(*columns));
	columns[0] = table.model.column;
	columns[1] = table.cluster.column;
	for (size_t i = 0; i < table.n_columns; i++)
		columns[i + 2] = (int)table.columns[i].column;
	fit->rows = sc_arena_calloc(fit->arena, v->n_cases + 1, sizeof(*fit->rows));
	fit->cases = sc_arena_calloc(fit->arena, v->n_cases + 1, sizeof(const struct sc_case *));
	fit->requests = sc_arena_calloc(fit->arena, v->n_cases + 1, sizeof(*fit->requests));
	for (size_t i = 0; i < v->n_cases; i++) {
		size_t n = fit->n_rows;

		if (v->cases[i].skipped)
			continue;
		fit->cases[n] = &v->cases[i];
		fit->rows[n] = (struct sc_fit_row){
			.time_us = v->cases[i].measured_ms * SC_US_PER_MS, .weight = 1};
		keyed[n] = (struct keyed){joined(fit, n, columns, table.n_columns + 2, end), n};
		fit->n_rows++;
	}
	qsort(keyed, fit->n_rows, sizeof(*keyed), by_key);
	for (size_t i = 0; i < fit->n_rows && rc == 0; i++) {
		const size_t row = fit->cases[keyed[i].row]->row;
		struct sc_config config;

		if (i == 0 || strcmp(keyed[i - 1].key, keyed[i].key) != 0) {
			rc = sc_config_table_row(&table, row, fit->arena, &config, fit->err);
			if (rc == 0)
				rc = sc_resolve_request(&config, catalog, v->table->file,
							&fit->requests[fit->n_requests++],
							fit->err);
		}
		fit->rows[keyed[i].row].request = (unsigned)fit->n_requests - 1;
	}
	if (rc)
		return rc;
	if (!v->n_cases)
		return sc_err_at(fit->err, SC_EVALUE, v->table->file, 0, 0, "no row is chosen");
	if (fit->n_rows > fit->opts->n_coefs)
		return 0;
	return sc_err_at(fit->err, SC_EVALUE, v->table->file, 0, 0,
			 "%zu rows to fit, too few for %zu coefficients%s%.128s", fit->n_rows,
			 fit->opts->n_coefs, v->all.n_skipped ? "; first row skipped: " : "",
			 v->all.n_skipped ? v->all.skipped[0]->skipped : "");
}

static int form_groups(struct fit *fit, const char **leave_out)
{
	const struct sc_itfit_opts *opts = fit->opts;
	const struct sc_csv *table = fit->validation->table;
	int *columns = sc_arena_calloc(fit->arena, opts->n_leave_out, sizeof(*columns));

	*leave_out = opts->leave_out[0];
	for (size_t i = 0; i < opts->n_leave_out; i++) {
		const char *near;

		columns[i] = sc_csv_column(table, opts->leave_out[i]);
		if (i > 0)
			*leave_out = sc_arena_printf(fit->arena, "%s, %s", *leave_out,
						     opts->leave_out[i]);
		if (columns[i] >= 0)
			continue;
		near = sc_nearest(opts->leave_out[i], table->header, table->n_cols);
		return sc_err_set(fit->err, SC_EUSAGE,
				  "--leave-out: no column \"%.64s\" in %.64s%s%.64s%s",
				  opts->leave_out[i], table->file, near ? "; did you mean \"" : "",
				  near ? near : "", near ? "\"?" : "");
	}
	for (size_t i = 0; i < fit->n_rows; i++)
		fit->rows[i].group = joined(fit, i, columns, opts->n_leave_out, ", ");
	return sc_fit_deal_groups(fit->rows, fit->n_rows, "--leave-out", *leave_out, &fit->n_groups,
				  table->file, fit->err);
}

/* ---- coefficients ---- */

static void add_profile(struct profiles *list, const char *id, const void *object)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->at[i].id, id) == 0)
			return;
	list->at[list->n++] = (struct profile){id, object};
}

/* Takes a name apart: whose, and the key in that profile. Ids may have dots: the one that the text begins with. */
static int find_profile(const struct fit *fit, const char *name, struct place *place,
			const struct profile **profile, const char **key)
{
	static const char *const kinds[] = {"software", "device"};
	const struct profiles *list;
	struct sc_strbuf ids = {0};
	size_t kind = 0, n = 0;

	for (; kind < 2; kind++) {
		n = strlen(kinds[kind]);
		if (strncmp(name, kinds[kind], n) == 0 && (name[n] == ':' || name[n] == '.'))
			break;
	}
	if (kind == 2)
		return sc_err_set(fit->err, SC_EUSAGE,
				  "--coef %.64s: expected software.FIELD or device.SECTION.FIELD",
				  name);
	list = &fit->profiles[kind];
	place->of_device = kind == 1;
	*key = name + n + 1;
	*profile = name[n] == '.' ? &list->at[0] : NULL;
	if (name[n] == '.' && list->n > 1)
		return sc_err_set(fit->err, SC_EUSAGE,
				  "--coef %.64s: the rows have %zu %s profiles, %.40s and %.40s "
				  "among them; say whose, as %s:%.40s.%.40s, or choose rows",
				  name, list->n, kinds[kind], list->at[0].id, list->at[1].id,
				  kinds[kind], list->at[0].id, *key);
	for (size_t i = 0; i < list->n && name[n] == ':'; i++) {
		size_t n_id = strlen(list->at[i].id);

		sc_strbuf_printf(&ids, "%s%s", i ? ", " : "", list->at[i].id);
		if (strncmp(name + n + 1, list->at[i].id, n_id) != 0 || name[n + 1 + n_id] != '.')
			continue;
		*profile = &list->at[i];
		*key = name + n + 1 + n_id + 1;
	}
	if (!*profile)
		sc_err_set(fit->err, SC_EUSAGE, "--coef %.64s: the rows have the %s %.128s", name,
			   kind == 1 ? "GPUs" : "software", sc_strbuf_get(&ids));
	sc_strbuf_release(&ids);
	return *profile ? 0 : -SC_EUSAGE;
}

static int bind_coef(struct fit *fit, const struct sc_itfit_name *name)
{
	struct place *place = &fit->places[fit->params.n];
	struct sc_fit_param *p = &fit->params.at[fit->params.n];
	const struct profile *profile = NULL;
	const struct sc_field *fields;
	struct sc_err own = {.code = SC_OK};
	struct sc_field_place at;
	const char *key = NULL;
	int rc = find_profile(fit, name->name, place, &profile, &key);

	if (rc)
		return rc;
	assert(profile);
	fields = place->of_device ? sc_device_fields : sc_software_fields;
	at = sc_field_find(fields, key, fit->arena);
	if (!at.field && sc_field_unknown(fields, &at, &own))
		return sc_err_set(fit->err, SC_EUSAGE, "--coef %.64s: %s", name->name, own.text);
	if (at.field->type != SC_F_DOUBLE)
		return sc_err_set(fit->err, SC_EUSAGE,
				  "--coef %.64s: only numbers that are not counts can be fitted",
				  name->name);
	place->id = profile->id;
	place->offset = at.base_offset + at.field->offset;
	*p = (struct sc_fit_param){
		.block = sc_arena_printf(fit->arena, "%s:%s",
					 place->of_device ? "device" : "software", profile->id),
		.name = sc_arena_strdup(fit->arena, key),
		.standard_error = (double)NAN,
		.left_out_lowest = (double)NAN,
		.left_out_highest = (double)NAN};
	memcpy(&p->old, (const char *)profile->object + place->offset, sizeof(p->old));
	p->start = p->value = isnan(name->start) ? p->old : name->start;
	p->lower = p->start * exp(-SPAN_LOG);
	p->upper = p->start * exp(SPAN_LOG);
	if (!(p->start > 0))
		return sc_err_set(fit->err, SC_EUSAGE,
				  "--coef %.64s: it is %g in the profile, and the search is by "
				  "factors; give a start, as %.64s=0.5",
				  name->name, p->start, name->name);
	for (size_t j = 0; j < fit->params.n; j++)
		if (fit->places[j].offset == place->offset &&
		    strcmp(fit->params.at[j].block, p->block) == 0)
			return sc_err_set(fit->err, SC_EUSAGE, "--coef: %.64s is given twice",
					  name->name);
	fit->params.n++;
	if (!(at.field->min < at.field->max))
		return 0;
	if (!isnan(name->start) && (p->start < at.field->min || p->start > at.field->max))
		return sc_err_set(fit->err, SC_EUSAGE,
				  "--coef %.64s=%g: expected a start from %g to %g", name->name,
				  name->start, at.field->min, at.field->max);
	p->lower = fmax(p->lower, at.field->min);
	p->upper = fmin(p->upper, at.field->max);
	/* a start on a bound would not move */
	p->value = fmin(fmax(p->value, p->lower * START_MARGIN), p->upper / START_MARGIN);
	return 0;
}

static int bind_coefs(struct fit *fit)
{
	int rc = 0;

	if (fit->opts->n_coefs < 1 || fit->opts->n_coefs > SC_ITFIT_MAX_COEFS)
		return sc_err_set(fit->err, SC_EUSAGE, "--coef: name 1 to %d coefficients",
				  SC_ITFIT_MAX_COEFS);
	for (size_t i = 0; i < 2; i++)
		fit->profiles[i].at = sc_arena_calloc(
			fit->arena, fit->n_requests * SC_MAX_GPU_KINDS, sizeof(struct profile));
	for (size_t i = 0; i < fit->n_requests; i++) {
		const struct sc_request *req = &fit->requests[i];

		add_profile(&fit->profiles[0], req->software.id, &req->software);
		for (size_t k = 0; k < sc_request_n_kinds(req); k++)
			add_profile(&fit->profiles[1], sc_request_device(req, k)->id,
				    sc_request_device(req, k));
	}
	for (size_t i = 0; i < fit->opts->n_coefs && rc == 0; i++)
		rc = bind_coef(fit, &fit->opts->coefs[i]);
	return rc;
}

/* ---- predicting with changed profiles ---- */

struct batch {
	const struct fit *fit;
	const size_t *requests; /* that are needed */
	size_t n;
	const double *values; /* by setting, then coefficient */
	double *us; /* by setting, then request that is needed; NAN: could not be predicted */
};

static void patch(void *object, const char *id, const struct place *place, const double *value)
{
	if (strcmp(id, place->id) == 0)
		memcpy((char *)object + place->offset, value, sizeof(*value));
}

/* With the worker's own copy of the request. */
static int predict_item(void *shared, void *thread_ctx, size_t index, struct sc_err *err)
{
	const struct batch *batch = shared;
	const struct fit *fit = batch->fit;
	const double *values = batch->values + index / batch->n * fit->params.n;
	const struct sc_request *from = &fit->requests[batch->requests[index % batch->n]];
	struct worker *worker = thread_ctx;
	struct sc_request *req = &worker->request;
	struct sc_prediction *p = &worker->prediction;

	(void)err; /* values that cannot be are worse than any */
	*req = *from;
	for (size_t k = 0; k < from->n_kinds; k++) {
		worker->kinds[k] = *from->kinds[k];
		req->kinds[k] = &worker->kinds[k];
	}
	for (size_t j = 0; j < fit->params.n; j++) {
		const struct place *place = &fit->places[j];

		if (!place->of_device) {
			patch(&req->software, req->software.id, place, &values[j]);
			continue;
		}
		patch(&req->device, req->device.id, place, &values[j]);
		for (size_t k = 0; k < req->n_kinds; k++)
			patch(&worker->kinds[k], worker->kinds[k].id, place, &values[j]);
	}
	batch->us[index] = (double)NAN;
	if (sc_predict_chosen(worker->predictor, req, fit->opts->predict, p, NULL) == 0 &&
	    p->iteration_ms > 0)
		batch->us[index] = p->iteration_ms * SC_US_PER_MS;
	return 0;
}

static void times(const struct sc_fit_problem *problem, const double *values, size_t n, double *us)
{
	const struct fit *fit = problem->model;
	size_t *needed = sc_xcalloc(2 * fit->n_requests, sizeof(*needed));
	size_t *at = needed + fit->n_requests; /* 1 + its place among those that are needed */
	struct batch batch = {fit, needed, 0, values, NULL};
	struct sc_work work = {.chunk = ITEMS_AT_A_TIME,
			       .n_jobs = fit->opts->n_jobs ? fit->opts->n_jobs : 1,
			       .item = predict_item,
			       .shared = &batch,
			       .contexts = fit->workers};

	for (size_t i = 0; i < problem->n; i++) {
		const size_t request = problem->rows[i]->request;

		if (at[request] == 0) {
			needed[batch.n++] = request;
			at[request] = batch.n;
		}
	}
	batch.us = sc_xcalloc(n * batch.n, sizeof(*batch.us));
	work.n_items = n * batch.n;
	sc_parallel_for(&work, NULL);
	for (size_t s = 0; s < n; s++)
		for (size_t i = 0; i < problem->n; i++)
			us[s * problem->n + i] =
				batch.us[s * batch.n + at[problem->rows[i]->request] - 1];
	free(batch.us);
	free(needed);
}

/* ---- fits ---- */

/* Sets the member at `offset` of the points of a fold, with these coefficients. */
static void predict_fold(struct fit *fit, size_t fold, size_t offset, struct sc_fit_params *params,
			 struct sc_fit_point *points)
{
	const struct sc_fit_row **rows = sc_xcalloc(fit->n_rows, sizeof(const struct sc_fit_row *));
	struct sc_fit_problem problem = {.model = fit, .rows = rows, .params = params};
	double values[SC_ITFIT_MAX_COEFS], *us = sc_xcalloc(fit->n_rows, sizeof(*us));

	for (size_t j = 0; j < params->n; j++)
		values[j] = params->at[j].value;
	for (size_t i = 0; i < fit->n_rows; i++)
		if (fold == SC_FIT_ALL || fit->rows[i].fold == fold)
			rows[problem.n++] = &fit->rows[i];
	times(&problem, values, 1, us);
	for (size_t i = 0; i < problem.n; i++)
		memcpy((char *)&points[rows[i] - fit->rows] + offset, &us[i], sizeof(*us));
	free(rows);
	free(us);
}

static int solve(struct fit *fit, struct sc_progress *progress, struct sc_fit *out)
{
	const struct sc_fit_row **rows =
		sc_arena_calloc(fit->arena, fit->n_rows, sizeof(const struct sc_fit_row *));
	const struct sc_fit_params start = fit->params;
	struct sc_fit_params params;
	struct sc_fit_problem problem = {
		.times = times,
		.model = fit,
		.rows = rows,
		.n = sc_fit_pick(fit->rows, fit->n_rows, SC_FIT_ALL, fit->n_rows, rows),
		.params = &fit->params,
		.near = fit->opts->start_from_profile ? &start : NULL,
		.pull = PULL,
		.step = STEP};
	double condition;
	int rc = sc_fit_search(&problem, &out->condition, fit->err);

	predict_fold(fit, SC_FIT_ALL, offsetof(struct sc_fit_point, in_sample_us), &fit->params,
		     out->points);
	sc_progress_add(progress, 1);
	problem.params = &params;
	problem.near = &fit->params; /* from the starts, and from where all rows lead */
	for (size_t fold = 0; fold < fit->n_groups && rc == 0; fold++) {
		params = start;
		problem.n = sc_fit_pick(fit->rows, fit->n_rows, fold, fit->n_rows, rows);
		rc = sc_fit_search(&problem, &condition, fit->err);
		predict_fold(fit, fold, offsetof(struct sc_fit_point, held_out_us), &params,
			     out->points);
		for (size_t j = 0; j < params.n; j++) {
			struct sc_fit_param *p = &fit->params.at[j];

			p->left_out_lowest = fmin(p->left_out_lowest, params.at[j].value);
			p->left_out_highest = fmax(p->left_out_highest, params.at[j].value);
		}
		sc_progress_add(progress, 1);
	}
	return rc;
}

/* Rows of equal configs. */
static void measure_repeated(const struct fit *fit, struct sc_fit *out)
{
	double *sum = sc_arena_calloc(fit->arena, fit->n_requests, sizeof(*sum)), off = 0;
	size_t *n = sc_arena_calloc(fit->arena, fit->n_requests, sizeof(*n));

	for (size_t i = 0; i < fit->n_rows; i++) {
		sum[fit->rows[i].request] += fit->rows[i].time_us;
		n[fit->rows[i].request]++;
	}
	for (size_t i = 0; i < fit->n_rows; i++) {
		size_t at = fit->rows[i].request;

		if (n[at] < 2)
			continue;
		off += SC_PCT * fabs(fit->rows[i].time_us / (sum[at] / (double)n[at]) - 1.0);
		out->n_repeated++;
	}
	out->repeated_pct = out->n_repeated ? off / (double)out->n_repeated : (double)NAN;
}

static int run(struct fit *fit, struct sc_fit *out)
{
	const struct sc_itfit_opts *opts = fit->opts;
	const unsigned n_jobs = opts->n_jobs ? opts->n_jobs : 1;
	struct sc_progress *progress = NULL;
	struct sc_fit_label group = {"group", NULL};
	int rc;

	out->n_rows = out->n_used = fit->n_rows;
	out->n_shapes = fit->n_requests;
	out->n_folds = fit->n_groups;
	out->coefs = &fit->params;
	out->points = sc_arena_calloc(fit->arena, fit->n_rows, sizeof(*out->points));
	group.of_row = sc_arena_calloc(fit->arena, fit->n_rows, sizeof(const char *));
	for (size_t i = 0; i < fit->n_rows; i++) {
		out->points[i] = (struct sc_fit_point){
			.measured_us = fit->rows[i].time_us,
			.before_us = fit->cases[i]->outcome.iteration_ms * SC_US_PER_MS,
			.held_out_us = (double)NAN,
			.formula_us = (double)NAN};
		group.of_row[i] = fit->rows[i].group;
	}
	fit->workers = sc_xcalloc(n_jobs, sizeof(*fit->workers));
	for (unsigned i = 0; i < n_jobs; i++) {
		struct worker *worker = fit->workers[i] = sc_xmalloc(sizeof(*worker));

		worker->predictor = sc_predictor_create();
	}
	if (opts->progress)
		progress = opts->progress(opts->progress_ctx, 1 + fit->n_groups);
	rc = solve(fit, progress, out);
	sc_progress_destroy(progress);
	for (unsigned i = 0; i < n_jobs; i++) {
		struct worker *worker = fit->workers[i];

		sc_predictor_destroy(worker->predictor);
		free(worker);
	}
	free(fit->workers);
	if (rc)
		return rc;
	measure_repeated(fit, out);
	sc_fit_score(&group, 1, fit->arena, out);
	out->n_skipped = fit->validation->all.n_skipped;
	out->skipped = sc_arena_calloc(fit->arena, out->n_skipped + 1, sizeof(*out->skipped));
	for (size_t i = 0; i < out->n_skipped; i++)
		out->skipped[i] = (struct sc_fit_skipped){fit->validation->all.skipped[i]->name,
							  fit->validation->all.skipped[i]->skipped};
	return 0;
}

int sc_itfit_run(const struct sc_itfit_opts *opts, struct sc_arena *arena, struct sc_fit *out,
		 struct sc_err *err)
{
	/* GSL's default ends the program; every status is checked here. */
	gsl_error_handler_t *handler = gsl_set_error_handler_off();
	struct sc_validate_opts choose = {.base = opts->base,
					  .table = opts->table,
					  .where = opts->where,
					  .n_where = opts->n_where,
					  .n_jobs = opts->n_jobs,
					  .predict = opts->predict};
	struct fit *fit = sc_arena_calloc(arena, 1, sizeof(*fit));
	struct sc_fit result = {.kind = SC_FIT_ITERATION, .table = sc_file_name(opts->table->file)};
	struct sc_catalog *catalog = sc_catalog_create();
	int rc;

	fit->opts = opts;
	fit->arena = arena;
	fit->err = err;
	fit->validation = sc_arena_calloc(arena, 1, sizeof(*fit->validation));
	rc = sc_validate(&choose, arena, fit->validation, err);
	if (rc == 0 && fit->validation->n_bad) {
		*err = fit->validation->bad;
		rc = -(int)err->code;
	}
	if (rc == 0)
		rc = read_rows(fit, catalog);
	if (rc == 0)
		rc = bind_coefs(fit);
	if (rc == 0 && opts->n_leave_out)
		rc = form_groups(fit, &result.leave_out);
	if (rc == 0)
		rc = run(fit, &result);
	if (rc == 0)
		*out = result;
	sc_catalog_destroy(catalog);
	gsl_set_error_handler(handler);
	return rc;
}
