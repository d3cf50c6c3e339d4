/* Rows of a table as resolved requests; rows with equal config cells share one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "core/config/config_table.h"
#include "study/fit/fit_iterations_priv.h"

#define CELL_END '\x1f'

struct keyed {
	const char *key;
	size_t row; /* of the problem */
};

static int by_key(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;
	int order = strcmp(x->key, y->key);

	if (order)
		return order;
	return x->row < y->row ? -1 : x->row > y->row;
}

static void append_cell(const struct sc_csv *csv, size_t row, int column, struct sc_strbuf *key)
{
	if (column >= 0)
		sc_strbuf_append(key, sc_csv_cell(csv, row, (size_t)column));
	sc_strbuf_append_char(key, CELL_END);
}

/* The cells of a row that a prediction reads. */
static const char *config_key(const struct sc_config_table *table, size_t row,
			      struct sc_strbuf *key, struct sc_arena *arena)
{
	sc_strbuf_clear(key);
	append_cell(table->csv, row, table->model.column, key);
	append_cell(table->csv, row, table->cluster.column, key);
	for (size_t i = 0; i < table->n_columns; i++)
		append_cell(table->csv, row, (int)table->columns[i].column, key);
	return sc_arena_strndup(arena, sc_strbuf_get(key), key->n);
}

static void choose_rows(const struct sc_validation *v, struct sc_arena *arena,
			struct sc_itfit_problem *out)
{
	out->rows = sc_arena_calloc(arena, v->n_cases, sizeof(*out->rows));
	for (size_t i = 0; i < v->n_cases; i++) {
		if (v->cases[i].skipped)
			continue;
		out->rows[out->n_rows++] = (struct sc_itfit_row){
			.case_idx = i, .ln_measured = log(v->cases[i].measured_ms)};
	}
}

static int resolve(const struct sc_itfit_source *source, const struct sc_config_table *table,
		   size_t row, struct sc_request *out, struct sc_err *err)
{
	struct sc_config config;
	int rc = sc_config_table_row(table, row, source->arena, &config, err);

	return rc ? rc : sc_resolve_request(&config, source->catalog, table->csv->file, out, err);
}

int sc_itfit_rows_read(const struct sc_itfit_source *source, struct sc_itfit_problem *out,
		       struct sc_err *err)
{
	const struct sc_validation *v = source->validation;
	struct sc_strbuf text = {0};
	struct sc_config_table table = {.csv = v->table, .base = source->base};
	struct keyed *keyed;
	int rc = sc_config_table_bind(&table, source->arena, err);

	if (rc)
		return rc;
	choose_rows(v, source->arena, out);
	keyed = sc_arena_calloc(source->arena, out->n_rows + 1, sizeof(*keyed));
	out->requests = sc_arena_calloc(source->arena, out->n_rows + 1, sizeof(*out->requests));
	for (size_t i = 0; i < out->n_rows; i++)
		keyed[i] = (struct keyed){config_key(&table, v->cases[out->rows[i].case_idx].row,
						     &text, source->arena),
					  i};
	sc_strbuf_release(&text);
	qsort(keyed, out->n_rows, sizeof(*keyed), by_key);
	for (size_t i = 0; i < out->n_rows && rc == 0; i++) {
		struct sc_itfit_row *row = &out->rows[keyed[i].row];

		if (i == 0 || strcmp(keyed[i - 1].key, keyed[i].key) != 0)
			rc = resolve(source, &table, v->cases[row->case_idx].row,
				     &out->requests[out->n_requests++], err);
		row->request = out->n_requests - 1;
	}
	return rc;
}
