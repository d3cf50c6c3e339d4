/* Reads the rows of a table as requests, and predicts them with changed numbers of their profiles
 * on several threads. Rows with equal config cells share one request. */
#include "study/fit/iteration_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/strbuf.h"
#include "base/threads.h"
#include "base/units.h"
#include "core/config/config_table.h"
#include "study/evaluate/evaluate.h"

#define CELL_END '\x1f'
enum { ITEMS_AT_A_TIME = 16 };

struct worker {
	struct sc_evaluator *by;
	struct sc_device kinds[SC_MAX_GPU_KINDS];
};

static unsigned n_workers(const struct sc_itfit_opts *opts)
{
	return opts->n_jobs ? opts->n_jobs : 1;
}

/* ---- rows ---- */

struct keyed {
	const char *key;
	size_t row;
};

SC_COMPARE(by_key, struct keyed,
	   2 * SC_ORDER(strcmp(a->key, b->key), 0) + SC_ORDER(a->row, b->row));

const char *sc_itrows_joined(const struct sc_itrows *set, size_t row, const int *columns, size_t n,
			     const char *between)
{
	const struct sc_csv *csv = set->validation.table;
	struct sc_strbuf text = {0};
	const char *out;

	for (size_t i = 0; i < n; i++)
		sc_strbuf_printf(&text, "%s%s", i ? between : "",
				 columns[i] < 0 ? ""
						: sc_csv_cell(csv, set->cases[row]->row,
							      (size_t)columns[i]));
	out = sc_arena_strdup(set->arena, sc_strbuf_get(&text));
	sc_strbuf_release(&text);
	return out;
}

/* Makes rows that the validation could predict requests; rows with equal config cells share one. */
static int read_rows(struct sc_itrows *set, struct sc_catalog *catalog)
{
	static const char end[] = {CELL_END, '\0'};
	const struct sc_validation *v = &set->validation;
	struct sc_config_table table = {.csv = v->table, .base = set->opts->base};
	struct keyed *keyed = sc_arena_calloc(set->arena, v->n_cases + 1, sizeof(*keyed));
	int rc = sc_config_table_bind(&table, set->arena, set->err), *columns;

	if (rc)
		return rc;
	columns = sc_arena_calloc(set->arena, table.n_columns + 2, sizeof(*columns));
	columns[0] = table.model.column;
	columns[1] = table.cluster.column;
	for (size_t i = 0; i < table.n_columns; i++)
		columns[i + 2] = (int)table.columns[i].column;
	set->rows = sc_arena_calloc(set->arena, v->n_cases + 1, sizeof(*set->rows));
	set->cases = sc_arena_calloc(set->arena, v->n_cases + 1, sizeof(const struct sc_case *));
	set->requests = sc_arena_calloc(set->arena, v->n_cases + 1, sizeof(*set->requests));
	for (size_t i = 0; i < v->n_cases; i++) {
		size_t n = set->n_rows;

		if (v->cases[i].skipped || (set->no_unlike && v->cases[i].kin))
			continue;
		set->cases[n] = &v->cases[i];
		set->rows[n] = (struct sc_fit_row){
			.time_us = v->cases[i].measured_ms * SC_US_PER_MS, .weight = 1};
		keyed[n] = (struct keyed){
			sc_itrows_joined(set, n, columns, table.n_columns + 2, end), n};
		set->n_rows++;
	}
	SC_SORT(keyed, set->n_rows, by_key);
	for (size_t i = 0; i < set->n_rows && rc == 0; i++) {
		const size_t row = set->cases[keyed[i].row]->row;
		struct sc_config config;

		if (i == 0 || strcmp(keyed[i - 1].key, keyed[i].key) != 0) {
			rc = sc_config_table_row(&table, row, set->arena, &config, set->err);
			if (rc == 0)
				rc = sc_resolve_request(&config, catalog, v->table->file,
							&set->requests[set->n_requests++],
							set->err);
		}
		set->rows[keyed[i].row].request = (unsigned)set->n_requests - 1;
	}
	if (rc)
		return rc;
	if (!v->n_cases)
		return sc_err_at(set->err, SC_EVALUE, v->table->file, 0, 0, "no row is chosen");
	if (set->n_rows > set->opts->n_coefs)
		return 0;
	return sc_err_at(set->err, SC_EVALUE, v->table->file, 0, 0,
			 "%zu rows to fit, too few%s%s%.128s", set->n_rows,
			 set->opts->n_coefs ? sc_arena_printf(set->arena, " for %zu coefficients",
							      set->opts->n_coefs)
					    : "",
			 v->all.n_skipped ? "; first row skipped: " : "",
			 v->all.n_skipped ? v->all.skipped[0]->skipped : "");
}

/* ---- predicting with changed profiles ---- */

struct batch {
	const struct sc_itrows *set;
	const size_t *requests; /* that are needed */
	size_t n;
	const double *values; /* by setting, then coefficient */
	double *us; /* by setting, then request that is needed; NAN: could not be predicted */
};

static void patch(void *object, const char *id, const struct sc_itplace *place, const double *value)
{
	if (strcmp(id, place->id) == 0)
		memcpy((char *)object + place->offset, value, sizeof(*value));
}

/* Predicts with the worker's own copy of the request, because threads change its profiles. */
static int predict_item(void *shared, void *thread_ctx, size_t index, struct sc_err *err)
{
	const struct batch *batch = shared;
	const struct sc_itrows *set = batch->set;
	const double *values = batch->values + index / batch->n * set->n_places;
	const struct sc_request *from = &set->requests[batch->requests[index % batch->n]];
	struct worker *worker = thread_ctx;
	struct sc_request *req = &worker->by->request;

	(void)err; /* values that no config can have are worse than any */
	*req = *from;
	for (size_t k = 0; k < from->n_kinds; k++) {
		worker->kinds[k] = *from->kinds[k];
		req->kinds[k] = &worker->kinds[k];
	}
	for (size_t j = 0; j < set->n_places; j++) {
		const struct sc_itplace *place = &set->places[j];

		if (!place->of_device) {
			patch(&req->software, req->software.id, place, &values[j]);
			continue;
		}
		patch(&req->device, req->device.id, place, &values[j]);
		for (size_t k = 0; k < req->n_kinds; k++)
			patch(&worker->kinds[k], worker->kinds[k].id, place, &values[j]);
	}
	batch->us[index] = (double)NAN;
	if (sc_evaluate_request(worker->by, NULL) == 0 && worker->by->prediction.iteration_ms > 0)
		batch->us[index] = worker->by->prediction.iteration_ms * SC_US_PER_MS;
	return 0;
}

void sc_itrows_times(const struct sc_fit_problem *problem, const double *values, size_t n,
		     double *us)
{
	const struct sc_itrows *set = problem->model;
	size_t *needed = sc_xcalloc(2 * set->n_requests, sizeof(*needed));
	size_t *at = needed + set->n_requests; /* 1 + its place among those that are needed */
	struct batch batch = {set, needed, 0, values, NULL};
	struct sc_work work = {.chunk = ITEMS_AT_A_TIME,
			       .n_jobs = n_workers(set->opts),
			       .item = predict_item,
			       .shared = &batch,
			       .contexts = set->workers};

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

/* ---- open and close ---- */

int sc_itrows_open(struct sc_itrows *set, struct sc_catalog *catalog)
{
	const struct sc_itfit_opts *opts = set->opts;
	const struct sc_validate_opts choose = {.base = opts->base,
						.table = opts->table,
						.where = opts->where,
						.n_where = opts->n_where,
						.n_jobs = opts->n_jobs,
						.catalog = catalog,
						.predict = opts->predict};
	int rc = sc_validate(&choose, set->arena, &set->validation, set->err);

	if (rc == 0 && set->validation.n_bad)
		rc = sc_err_at(set->err, set->validation.bad.code, SC_AT(&set->validation.bad),
			       "%s", set->validation.bad.text);
	if (rc == 0)
		rc = read_rows(set, catalog);
	if (rc)
		return rc;
	set->workers = sc_xcalloc(n_workers(opts), sizeof(*set->workers));
	for (unsigned i = 0; i < n_workers(opts); i++) {
		struct worker *worker = set->workers[i] = sc_xmalloc(sizeof(*worker));

		worker->by = sc_evaluator_create(catalog);
		worker->by->opts = *opts->predict;
	}
	return 0;
}

void sc_itrows_close(struct sc_itrows *set)
{
	for (unsigned i = 0; set->workers && i < n_workers(set->opts); i++) {
		struct worker *worker = set->workers[i];

		sc_evaluator_destroy(worker->by);
		free(worker);
	}
	free(set->workers);
	set->workers = NULL;
}
