/* Makes rows of a table requests, and names of coefficients places in their profiles; the solver
 * and the errors are those of all fits (models/fit). */
#include "study/fit/fit_iterations.h"

#include <assert.h>
#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "study/fit/iteration_rows.h"

#define SPAN_LOG 6.9 /* a factor 1000 either way, where the field's own limits are wider */
/* The pull to the start is so weak that a factor 2 must save 0.08 % of the error and a factor 100
 * 0.6 %, because a start may be a guess. */
#define PULL 0.002
#define STEP 0.02 /* of differences: an iteration is a sum of whole nanoseconds */
#define START_MARGIN 1.01

/* The profiles of the rows, by first appearance. */
struct profiles {
	struct profile {
		const char *id;
		const void *object;
	} * at;
	size_t n;
};
struct fit {
	struct sc_itrows set;
	struct profiles profiles[2]; /* of software, of devices */
	struct sc_fit_params params;
	size_t n_groups;
};

static int form_groups(struct fit *fit, const char **leave_out)
{
	const struct sc_itfit_opts *opts = fit->set.opts;
	const struct sc_csv *table = fit->set.validation.table;
	int *columns = sc_arena_calloc(fit->set.arena, opts->n_leave_out, sizeof(*columns));

	*leave_out = opts->leave_out[0];
	for (size_t i = 0; i < opts->n_leave_out; i++) {
		const char *near;

		columns[i] = sc_csv_column(table, opts->leave_out[i]);
		if (i > 0)
			*leave_out = sc_arena_printf(fit->set.arena, "%s, %s", *leave_out,
						     opts->leave_out[i]);
		if (columns[i] >= 0)
			continue;
		near = sc_nearest(opts->leave_out[i], table->header, table->n_cols);
		return sc_err_set(fit->set.err, SC_EUSAGE,
				  "--leave-out: no column \"%.64s\" in %.64s%s%.64s%s",
				  opts->leave_out[i], table->file, near ? "; did you mean \"" : "",
				  near ? near : "", near ? "\"?" : "");
	}
	for (size_t i = 0; i < fit->set.n_rows; i++)
		fit->set.rows[i].group =
			sc_itrows_joined(&fit->set, i, columns, opts->n_leave_out, ", ");
	return sc_fit_deal_groups(fit->set.rows, fit->set.n_rows, "--leave-out", *leave_out,
				  &fit->n_groups, table->file, fit->set.err);
}

/* ---- coefficients ---- */

static void add_profile(struct profiles *list, const char *id, const void *object)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->at[i].id, id) == 0)
			return;
	list->at[list->n++] = (struct profile){id, object};
}

/* Takes a name apart into a profile and a key in it. Ids may have dots, so the profile is the one
 * that the text begins with. */
static int find_profile(const struct fit *fit, const char *name, struct sc_itplace *place,
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
		return sc_err_set(fit->set.err, SC_EUSAGE,
				  "--coef %.64s: expected software.FIELD or device.SECTION.FIELD",
				  name);
	list = &fit->profiles[kind];
	place->of_device = kind == 1;
	*key = name + n + 1;
	*profile = name[n] == '.' ? &list->at[0] : NULL;
	if (name[n] == '.' && list->n > 1)
		return sc_err_set(fit->set.err, SC_EUSAGE,
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
		sc_err_set(fit->set.err, SC_EUSAGE, "--coef %.64s: the rows have the %s %.128s",
			   name, kind == 1 ? "GPUs" : "software", sc_strbuf_get(&ids));
	sc_strbuf_release(&ids);
	return *profile ? 0 : -SC_EUSAGE;
}

static int bind_coef(struct fit *fit, const struct sc_itfit_name *name)
{
	struct sc_itplace *place = &fit->set.places[fit->params.n];
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
	at = sc_field_find(fields, key, fit->set.arena);
	if (!at.field && sc_field_unknown(fields, &at, &own))
		return sc_err_set(fit->set.err, SC_EUSAGE, "--coef %.64s: %s", name->name,
				  own.text);
	if (at.field->type != SC_F_DOUBLE)
		return sc_err_set(fit->set.err, SC_EUSAGE,
				  "--coef %.64s: only numbers that are not counts can be fitted",
				  name->name);
	place->id = profile->id;
	place->offset = at.base_offset + at.field->offset;
	*p = (struct sc_fit_param){
		.block = sc_arena_printf(fit->set.arena, "%s:%s",
					 place->of_device ? "device" : "software", profile->id),
		.name = sc_arena_strdup(fit->set.arena, key),
		.standard_error = (double)NAN,
		.left_out_lowest = (double)NAN,
		.left_out_highest = (double)NAN};
	memcpy(&p->old, (const char *)profile->object + place->offset, sizeof(p->old));
	p->start = p->value = isnan(name->start) ? p->old : name->start;
	p->lower = p->start * exp(-SPAN_LOG);
	p->upper = p->start * exp(SPAN_LOG);
	if (!(p->start > 0))
		return sc_err_set(fit->set.err, SC_EUSAGE,
				  "--coef %.64s: it is %g in the profile, and the search is by "
				  "factors; give a start, as %.64s=0.5",
				  name->name, p->start, name->name);
	for (size_t j = 0; j < fit->params.n; j++)
		if (fit->set.places[j].offset == place->offset &&
		    strcmp(fit->params.at[j].block, p->block) == 0)
			return sc_err_set(fit->set.err, SC_EUSAGE, "--coef: %.64s is given twice",
					  name->name);
	fit->params.n++;
	fit->set.n_places++;
	if (!(at.field->min < at.field->max))
		return 0;
	if (!isnan(name->start) && (p->start < at.field->min || p->start > at.field->max))
		return sc_err_set(fit->set.err, SC_EUSAGE,
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

	if (fit->set.opts->n_coefs < 1 || fit->set.opts->n_coefs > SC_ITFIT_MAX_COEFS)
		return sc_err_set(fit->set.err, SC_EUSAGE, "--coef: name 1 to %d coefficients",
				  SC_ITFIT_MAX_COEFS);
	for (size_t i = 0; i < 2; i++)
		fit->profiles[i].at =
			sc_arena_calloc(fit->set.arena, fit->set.n_requests * SC_MAX_GPU_KINDS,
					sizeof(struct profile));
	for (size_t i = 0; i < fit->set.n_requests; i++) {
		const struct sc_request *req = &fit->set.requests[i];

		add_profile(&fit->profiles[0], req->software.id, &req->software);
		for (size_t k = 0; k < sc_request_n_kinds(req); k++)
			add_profile(&fit->profiles[1], sc_request_device(req, k)->id,
				    sc_request_device(req, k));
	}
	for (size_t i = 0; i < fit->set.opts->n_coefs && rc == 0; i++)
		rc = bind_coef(fit, &fit->set.opts->coefs[i]);
	return rc;
}

/* ---- fits ---- */

/* Sets the member at `offset` of the points of a fold, predicted with these coefficients. */
static void predict_fold(struct fit *fit, size_t fold, size_t offset, struct sc_fit_params *params,
			 struct sc_fit_point *points)
{
	const struct sc_fit_row **rows =
		sc_xcalloc(fit->set.n_rows, sizeof(const struct sc_fit_row *));
	struct sc_fit_problem problem = {.model = &fit->set, .rows = rows, .params = params};
	double values[SC_ITFIT_MAX_COEFS], *us = sc_xcalloc(fit->set.n_rows, sizeof(*us));

	for (size_t j = 0; j < params->n; j++)
		values[j] = params->at[j].value;
	for (size_t i = 0; i < fit->set.n_rows; i++)
		if (fold == SC_FIT_ALL || fit->set.rows[i].fold == fold)
			rows[problem.n++] = &fit->set.rows[i];
	sc_itrows_times(&problem, values, 1, us);
	for (size_t i = 0; i < problem.n; i++)
		memcpy((char *)&points[rows[i] - fit->set.rows] + offset, &us[i], sizeof(*us));
	free(rows);
	free(us);
}

static int solve(struct fit *fit, struct sc_progress *progress, struct sc_fit *out)
{
	const struct sc_fit_row **rows =
		sc_arena_calloc(fit->set.arena, fit->set.n_rows, sizeof(const struct sc_fit_row *));
	const struct sc_fit_params start = fit->params;
	struct sc_fit_params params;
	struct sc_fit_problem problem = {
		.times = sc_itrows_times,
		.model = &fit->set,
		.rows = rows,
		.n = sc_fit_pick(fit->set.rows, fit->set.n_rows, SC_FIT_ALL, fit->set.n_rows, rows),
		.params = &fit->params,
		.near = fit->set.opts->start_from_profile ? &start : NULL,
		.pull = PULL,
		.step = STEP};
	double condition;
	int rc = sc_fit_search(&problem, &out->condition, fit->set.err);

	predict_fold(fit, SC_FIT_ALL, offsetof(struct sc_fit_point, in_sample_us), &fit->params,
		     out->points);
	sc_progress_add(progress, 1);
	problem.params = &params;
	problem.near = &fit->params; /* from the starts, and from where all rows lead */
	for (size_t fold = 0; fold < fit->n_groups && rc == 0; fold++) {
		params = start;
		problem.n =
			sc_fit_pick(fit->set.rows, fit->set.n_rows, fold, fit->set.n_rows, rows);
		rc = sc_fit_search(&problem, &condition, fit->set.err);
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

/* Measures how far repeated runs of equal configs are apart. */
static void measure_repeated(const struct fit *fit, struct sc_fit *out)
{
	double *sum = sc_arena_calloc(fit->set.arena, fit->set.n_requests, sizeof(*sum)), off = 0;
	size_t *n = sc_arena_calloc(fit->set.arena, fit->set.n_requests, sizeof(*n));

	for (size_t i = 0; i < fit->set.n_rows; i++) {
		sum[fit->set.rows[i].request] += fit->set.rows[i].time_us;
		n[fit->set.rows[i].request]++;
	}
	for (size_t i = 0; i < fit->set.n_rows; i++) {
		size_t at = fit->set.rows[i].request;

		if (n[at] < 2)
			continue;
		off += SC_PCT * fabs(fit->set.rows[i].time_us / (sum[at] / (double)n[at]) - 1.0);
		out->n_repeated++;
	}
	out->repeated_pct = out->n_repeated ? off / (double)out->n_repeated : (double)NAN;
}

static int run_fit(struct fit *fit, struct sc_fit *out)
{
	const struct sc_itfit_opts *opts = fit->set.opts;
	struct sc_progress *progress = NULL;
	struct sc_fit_label group = {"group", NULL};
	int rc;

	out->n_rows = out->n_used = fit->set.n_rows;
	out->n_shapes = fit->set.n_requests;
	out->n_folds = fit->n_groups;
	out->coefs = &fit->params;
	out->points = sc_arena_calloc(fit->set.arena, fit->set.n_rows, sizeof(*out->points));
	group.of_row = sc_arena_calloc(fit->set.arena, fit->set.n_rows, sizeof(const char *));
	for (size_t i = 0; i < fit->set.n_rows; i++) {
		out->points[i] = (struct sc_fit_point){
			.measured_us = fit->set.rows[i].time_us,
			.before_us = fit->set.cases[i]->outcome.iteration_ms * SC_US_PER_MS,
			.held_out_us = (double)NAN,
			.formula_us = (double)NAN};
		group.of_row[i] = fit->set.rows[i].group;
	}
	if (opts->progress)
		progress = opts->progress(opts->progress_ctx, 1 + fit->n_groups);
	rc = solve(fit, progress, out);
	sc_progress_destroy(progress);
	if (rc)
		return rc;
	measure_repeated(fit, out);
	sc_fit_score(&group, 1, fit->set.arena, out);
	out->n_skipped = fit->set.validation.all.n_skipped;
	out->skipped = sc_arena_calloc(fit->set.arena, out->n_skipped + 1, sizeof(*out->skipped));
	for (size_t i = 0; i < out->n_skipped; i++)
		out->skipped[i] =
			(struct sc_fit_skipped){fit->set.validation.all.skipped[i]->name,
						fit->set.validation.all.skipped[i]->skipped};
	return 0;
}

int sc_itfit_run(const struct sc_itfit_opts *opts, struct sc_arena *arena, struct sc_fit *out,
		 struct sc_err *err)
{
	/* GSL's default ends the program; every status is checked here. */
	gsl_error_handler_t *handler = gsl_set_error_handler_off();
	struct fit *fit = sc_arena_calloc(arena, 1, sizeof(*fit));
	struct sc_fit result = {.kind = SC_FIT_ITERATION, .table = sc_file_name(opts->table->file)};
	struct sc_catalog *catalog = sc_catalog_create();
	int rc;

	fit->set = (struct sc_itrows){.opts = opts, .arena = arena, .err = err};
	rc = sc_itrows_open(&fit->set, catalog);
	if (rc == 0)
		rc = bind_coefs(fit);
	if (rc == 0 && opts->n_leave_out)
		rc = form_groups(fit, &result.leave_out);
	if (rc == 0)
		rc = run_fit(fit, &result);
	if (rc == 0)
		*out = result;
	sc_itrows_close(&fit->set);
	sc_catalog_destroy(catalog);
	gsl_set_error_handler(handler);
	return rc;
}
