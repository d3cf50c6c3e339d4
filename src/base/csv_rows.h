/* Rows of a CSV as structs: the key of each field is the name of a column. Errors name file, line and column. */
#ifndef SC_BASE_CSV_ROWS_H
#define SC_BASE_CSV_ROWS_H

#include "base/csv.h"
#include "base/fields.h"

struct sc_csv_rows {
	const struct sc_csv *csv;
	const struct sc_field
		*fields; /* texts, numbers, names; the same column may be in several */
	int *column;     /* of each field, -1: the table lacks it */
};
/* A column of a required field that is not there is an error: `who` needs it ("--kind gemm"). */
int sc_csv_rows_init(const struct sc_csv *csv, const struct sc_field *fields, const char *who,
		     struct sc_arena *arena, struct sc_csv_rows *out, struct sc_err *err);
/* What is empty or has no column is `absent` of its field, a text "", or an error where it is required. Texts are
 * borrowed. */
int sc_csv_rows_get(const struct sc_csv_rows *rows, size_t row, void *out, struct sc_err *err);
/* "file:line:column: error: name: ..., got "cell"" */
int sc_csv_cell_error(const struct sc_csv *csv, size_t row, const char *column,
		      const char *expected, struct sc_err *err);

#endif
