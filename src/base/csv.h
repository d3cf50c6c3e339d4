/* RFC 4180 CSV, strict: one header, every row as wide as the header, quotes doubled inside quotes.
 * Reads .csv and .csv.gz (by content). Everything is held in memory; limits give SC_ELIMIT. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/file.h"

/* Rows that are combinations: each column's value is a digit of the row's code. The lowest digits
 * take all their n_side values side by side, behind each of `first`. */
struct sc_csv_codes {
	const uint64_t *first;
	size_t n_side;
	struct sc_csv_digit {
		const char *const *values;
		uint64_t n, unit;
	} * column;
};
struct sc_csv {
	const char *file;
	size_t n_cols, n_rows;
	const char **header; /* n_cols names, unique; one may be empty (an index column) */
	const char **cell;   /* n_rows * n_cols, row-major; "" = empty */
	unsigned *line;      /* of each row, 1-based (a quoted cell may span lines) */
	const struct sc_csv_codes *codes; /* in place of cells and lines; NULL: none */
};
enum { SC_CSV_MAX_COLS = 1024, SC_CSV_MAX_BYTES = 1 << 30, SC_CSV_MAX_CELL = 1 << 20 };
enum { SC_CSV_MAX_CELLS = 1 << 26 }; /* in the file, header included */

int sc_csv_parse(const struct sc_source *source, struct sc_arena *arena, struct sc_csv *out,
		 struct sc_err *err);
int sc_csv_load(const char *path, struct sc_arena *arena, struct sc_csv *out, struct sc_err *err);
/* Index of a column, or -1. */
int sc_csv_column(const struct sc_csv *csv, const char *name);
/* The column where a cell begins in its line, 1-based; 0 where one before it is quoted, or holds a
 * line's end. Row SIZE_MAX: the header. */
unsigned sc_csv_cell_column(const struct sc_csv *csv, size_t row, size_t column);
/* The code of a row of combinations, and the index of its value among its column's. */
static inline uint64_t sc_csv_code(const struct sc_csv *csv, size_t row)
{
	return csv->codes->first[row / csv->codes->n_side] + row % csv->codes->n_side;
}
static inline size_t sc_csv_digit(const struct sc_csv *csv, size_t row, size_t col)
{
	const struct sc_csv_digit *digit = &csv->codes->column[col];

	return sc_csv_code(csv, row) / digit->unit % digit->n;
}
static inline const char *sc_csv_cell(const struct sc_csv *csv, size_t row, size_t col)
{
	return csv->codes ? csv->codes->column[col].values[sc_csv_digit(csv, row, col)]
			  : csv->cell[row * csv->n_cols + col];
}
static inline unsigned sc_csv_line(const struct sc_csv *csv, size_t row)
{
	return csv->codes ? (unsigned)row + 1 : csv->line[row];
}
/* Writes one cell, quoted if it must be. */
void sc_csv_put_cell(FILE *out, const char *text);
/* Cells of numbers, a comma behind each; empty where one is not known (NAN, infinite). */
void sc_csv_put_numbers(FILE *out, const double *numbers, size_t n);
/* Flushed: SC_EIO where not all was written. */
int sc_csv_end(FILE *out, struct sc_err *err);
