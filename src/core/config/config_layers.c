/* A model that is a table of layers: rows from a CSV file, and whether the request fits them. */
#include <inttypes.h>
#include <string.h>

#include "base/csv.h"
#include "core/config/config_priv.h"
#include "core/profile/paths.h"

enum { MAX_COLUMNS = 16 };

struct reader {
	const struct sc_csv *csv;
	const struct sc_field *field[MAX_COLUMNS]; /* of each column */
	struct sc_arena *arena;
	struct sc_err *err;
};

static int fail_header(const struct reader *r, size_t column, const char *text)
{
	return sc_err_at(r->err, SC_EVALUE, r->csv->file, 1, sc_csv_header_column(r->csv, column),
			 "%s", text);
}

/* Where the cell begins, if none before it is quoted. */
static int fail_cell(const struct reader *r, size_t row, size_t column, const char *text)
{
	size_t at = 1;

	for (size_t i = 0; i < column; i++)
		at += strlen(sc_csv_cell(r->csv, row, i)) + 1;
	return sc_err_at(r->err, SC_EVALUE, r->csv->file, r->csv->line[row], (unsigned)at, "%s",
			 text);
}

static int unknown_column(const struct reader *r, size_t column)
{
	const char *name = r->csv->header[column], *keys[MAX_COLUMNS], *nearest;
	size_t n = 0;

	for (const struct sc_field *f = sc_layer_row_fields; f->key; f++)
		keys[n++] = f->key;
	nearest = sc_nearest(name, keys, n);
	return fail_header(r, column,
			   sc_arena_printf(r->arena,
					   "column \"%.64s\" is none of a list of layers%s%s%s",
					   name, nearest ? "; did you mean \"" : "",
					   nearest ? nearest : "", nearest ? "\"?" : ""));
}

static int bind(struct reader *r)
{
	for (size_t i = 0; i < r->csv->n_cols; i++) {
		const struct sc_field *f = sc_layer_row_fields;

		while (f->key && strcmp(f->key, r->csv->header[i]) != 0)
			f++;
		if (!f->key || i == MAX_COLUMNS)
			return unknown_column(r, i);
		r->field[i] = f;
	}
	for (const struct sc_field *f = sc_layer_row_fields; f->key; f++)
		if (f->required && sc_csv_column(r->csv, f->key) < 0)
			return fail_header(r, 0,
					   sc_arena_printf(r->arena, "no column \"%s\"", f->key));
	return 0;
}

static int read_cell(const struct reader *r, size_t row, size_t column, struct sc_layer_row *out)
{
	const struct sc_field *field = r->field[column];
	const struct sc_field_place to = {.field = field, .path = field->key, .arena = r->arena};
	const char *text = sc_csv_cell(r->csv, row, column);
	struct sc_err own = {.code = SC_OK};

	if (!*text && !field->required)
		return 0;
	if (!*text)
		return fail_cell(r, row, column,
				 sc_arena_printf(r->arena, "%s is empty", field->key));
	if (sc_field_set_text(&to, text, out, &own) == 0)
		return 0;
	return fail_cell(r, row, column, sc_arena_strdup(r->arena, own.text));
}

static int read_rows(struct reader *r, struct sc_structs *out)
{
	struct sc_layer_row *rows = sc_arena_calloc(r->arena, r->csv->n_rows + 1, sizeof(*rows));
	int rc = bind(r);

	if (rc == 0 && !r->csv->n_rows)
		rc = fail_header(r, 0, "no layers below the header");
	for (size_t i = 0; i < r->csv->n_rows && rc == 0; i++)
		for (size_t c = 0; c < r->csv->n_cols && rc == 0; c++)
			rc = read_cell(r, i, c, &rows[i]);
	if (rc == 0)
		*out = (struct sc_structs){.at = rows, .n = r->csv->n_rows};
	return rc;
}

static int no_file(const struct sc_config *config, const struct sc_err *own, struct sc_err *err)
{
	const struct sc_origin *at = sc_config_origin(config, "model.rows_csv");

	return sc_err_at(err, own->code, at ? at->file : "", at ? at->line : 0, at ? at->column : 0,
			 "model.rows_csv: %s", own->text);
}

int sc_config_load_rows(struct sc_config *config, const char *from, bool typed,
			struct sc_arena *arena, struct sc_err *err)
{
	const struct sc_config_ref ref = {config->model.rows_csv, from};
	struct reader r = {.arena = arena, .err = err};
	struct sc_err own = {.code = SC_OK};
	struct sc_csv csv;
	const char *path;
	int rc;

	if (!config->model.rows_csv)
		return 0;
	rc = typed ? sc_config_path_typed(ref, arena, &path, &own)
		   : sc_config_path(ref, arena, &path, &own);
	if (rc)
		return no_file(config, &own, err);
	rc = sc_csv_load(path, arena, &csv, err);
	if (rc)
		return rc;
	r.csv = &csv;
	return read_rows(&r, &config->model.rows);
}

/* ---- checks ---- */

static int check_rows(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;

	if (!cfg->model.rows.n)
		return sc_resolve_fail(
			res, SC_EVALUE, "model",
			"model.rows is not given; list the layers, as in `rows: [{name: conv1, "
			"flop: 2.4e8, bytes: 1.9e6, params: 9408}]`, or name a CSV file in "
			"model.rows_csv");
	return 0;
}

/* One kind of rank, whole micro-batches: nothing is known of a layer that could be cut. */
static int check_ranks(const struct sc_resolver *res)
{
	const struct sc_request *req = res->request;

	if (sc_request_n_kinds(req) > 1 || req->config.stragglers.n)
		return sc_resolve_fail(res, SC_EUNSUPPORTED,
				       req->config.stragglers.n ? "stragglers" : "cluster.nodes",
				       "a model of family layers runs on GPUs that are alike; "
				       "remove %s",
				       req->config.stragglers.n ? "stragglers" : "cluster.nodes");
	if (req->config.parallel.sharding != SC_ZERO_NONE)
		return sc_resolve_fail(res, SC_EUNSUPPORTED, "parallel.sharding",
				       "parallel.sharding: a model of family layers is replicated "
				       "whole; remove it");
	if (req->last_micro_batch < (double)req->config.training.micro_batch)
		return sc_resolve_fail(res, SC_EUNSUPPORTED, "training.micro_batch",
				       "training.micro_batch %" PRId64
				       " does not divide a replica's samples; choose one that does",
				       req->config.training.micro_batch);
	return 0;
}

int sc_config_check_layers(const struct sc_resolver *res)
{
	int rc = sc_config_check_data_parallel(res, "a model of family layers is data parallel");

	if (rc == 0)
		rc = check_rows(res);
	return rc ? rc : check_ranks(res);
}

void sc_config_warn_layers(struct sc_request *req)
{
	const struct sc_training *tr = &req->config.training;

	if (tr->recompute != SC_RECOMPUTE_NONE)
		sc_warn(&req->warnings,
			"training.recompute has no effect: the model is a table of layers");
	if (tr->trainable == SC_TRAIN_LORA)
		sc_warn(&req->warnings,
			"training.trainable has no effect: all of a table of layers is trained");
}
