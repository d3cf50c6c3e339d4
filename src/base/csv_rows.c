/* Rows of a CSV file as structs, by the table of fields that reads the same struct from YAML: a
 * column is a field, an empty cell leaves its field as it is. A column that no field has is an
 * error with the nearest name. */
#include "base/csv_rows.h"

#include <stdint.h>
#include <string.h>

#include "base/fields_priv.h"

/* A header that no field is of: a word that was spelt wrong. */
static int check_header(const struct sc_csv_rows *rows, struct sc_err *err)
{
	const struct sc_csv *csv = rows->csv;

	for (size_t i = 0; i < csv->n_cols; i++) {
		const char *name = csv->header[i], *nearest;

		if (sc_find_key(rows->fields, name, strlen(name)))
			continue;
		nearest = sc_nearest_of(name, rows->fields, sizeof(*rows->fields), SIZE_MAX);
		return sc_err_at(err, SC_EVALUE, csv->file, 1, sc_csv_cell_column(csv, SIZE_MAX, i),
				 "column \"%.64s\" is none of %s%s%s%s", name, rows->list,
				 nearest ? "; did you mean \"" : "", nearest ? nearest : "",
				 nearest ? "\"?" : "");
	}
	return 0;
}

int sc_csv_rows_bind(struct sc_csv_rows *rows, struct sc_arena *arena, struct sc_err *err)
{
	const struct sc_field *fields = rows->fields;
	const char *who = rows->who;
	size_t n = 0;
	int rc = 0;

	while (fields[n].key)
		n++;
	rows->column = sc_arena_calloc(arena, n + 1, sizeof(*rows->column));
	if (rows->list)
		rc = check_header(rows, err);
	for (size_t i = 0; i < n && rc == 0; i++) {
		rows->column[i] = sc_csv_column(rows->csv, fields[i].key);
		if (rows->column[i] < 0 && fields[i].required)
			rc = sc_err_at(err, SC_EFORMAT, rows->csv->file, 1, 0,
				       "no column \"%s\"%s%s%s", fields[i].key, who ? "; " : "",
				       who ? who : "", who ? " needs it" : "");
	}
	return rc;
}

int sc_csv_cell_error(const struct sc_csv *csv, size_t row, const char *column,
		      const char *expected, struct sc_err *err)
{
	const int at = sc_csv_column(csv, column);

	return sc_err_at(err, SC_EVALUE, csv->file, csv->line[row],
			 at < 0 ? 0 : sc_csv_cell_column(csv, row, (size_t)at),
			 "%s: expected %s, got \"%.64s\"", column, expected,
			 at < 0 ? "" : sc_csv_cell(csv, row, (size_t)at));
}

int sc_csv_rows_get(const struct sc_csv_rows *rows, size_t row, void *out, struct sc_err *err)
{
	const struct sc_csv *csv = rows->csv;

	for (size_t i = 0; rows->fields[i].key; i++) {
		const struct sc_field *field = &rows->fields[i];
		const struct sc_field_place to = {.field = field, .path = field->key};
		const size_t column = (size_t)rows->column[i];
		struct sc_err why = {.code = SC_OK};
		const char *text;

		if (rows->column[i] < 0 || field->type == SC_F_IGNORE)
			continue;
		text = sc_csv_cell(csv, row, column);
		if (*text == '\0' && !field->required)
			continue;
		if (*text == '\0')
			sc_err_set(&why, SC_EVALUE, "%s is empty", field->key);
		else if (field->type == SC_F_STR)
			memcpy((char *)out + field->offset, &text, sizeof(text));
		else
			sc_field_set_text(&to, text, out, &why);
		if (why.code != SC_OK)
			return sc_err_at(err, why.code, csv->file, csv->line[row],
					 sc_csv_cell_column(csv, row, column), "%s", why.text);
	}
	return 0;
}
