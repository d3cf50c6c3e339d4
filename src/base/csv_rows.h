/* Rows of a CSV as structs: a field's key is a column's name. Errors name file, line, column. */
#pragma once

#include "base/csv.h"
#include "base/fields.h"

struct sc_csv_rows {
	const struct sc_csv *csv; /* these are given by the caller */
	const struct sc_field
		*fields;  /* texts, numbers, names; the same column may be in several */
	const char *who;  /* needs the columns, for messages: "--kind gemm"; or NULL */
	const char *list; /* "a list of tables": other columns than those of fields are errors; or
			     NULL */
	int *column;      /* of each field, -1: the table lacks it */
};
/* Finds the columns; one of a required field that is not there is an error. */
int sc_csv_rows_bind(struct sc_csv_rows *rows, struct sc_arena *arena, struct sc_err *err);
/* A cell that is empty, or of no column, leaves `out` as it is; of a required field it is an error.
 * Texts are borrowed. */
int sc_csv_rows_get(const struct sc_csv_rows *rows, size_t row, void *out, struct sc_err *err);
/* "file:line:column: error: name: ..., got "cell"" */
int sc_csv_cell_error(const struct sc_csv *csv, size_t row, const char *column,
		      const char *expected, struct sc_err *err);
