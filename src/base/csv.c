/* One pass over a copy of the text, in which cells are unquoted and ended in place: what a cell
 * turns into is never longer than what it was. */
#include "base/csv.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "base/vec.h"

struct reader {
	const char *file;
	struct sc_err *err;
	char *p, *end; /* *end is a NUL that is not part of the text */
	unsigned line; /* of p */
	SC_VEC(const char *) cells;
	SC_VEC(unsigned) lines; /* of each row */
	size_t n_cols;          /* 0 until the header is read */
};

static int csv_fail(const struct reader *r, enum sc_errc code, unsigned line, const char *text)
{
	return sc_err_at(r->err, code, r->file, line, 0, "%s", text);
}

/* From after the opening quote to after the closing one; *end is put after the content. */
static int read_quoted(struct reader *r, char **end)
{
	unsigned first_line = r->line;
	char *out = r->p;

	for (;;) {
		if (r->p == r->end)
			return csv_fail(
				r, SC_EFORMAT, first_line,
				"a quote that begins on this line is not closed; add the \"");
		if (*r->p == '"') {
			if (r->p[1] != '"')
				break;
			r->p++;
		}
		r->line += *r->p == '\n';
		*out++ = *r->p++;
	}
	r->p++;
	*end = out;
	return 0;
}

static int read_bare(struct reader *r, char **end)
{
	static const bool stops[UCHAR_MAX + 1] = {
		['\0'] = true, [','] = true, ['"'] = true, ['\r'] = true, ['\n'] = true};

	while (!stops[(unsigned char)*r->p])
		r->p++;
	if (*r->p == '"')
		return csv_fail(
			r, SC_EFORMAT, r->line,
			"a quote inside a cell; quote the whole cell and double the quotes in it");
	*end = r->p;
	return 0;
}

/* Steps over the comma or line end after a cell. *ends_row tells which it was. */
static int read_separator(struct reader *r, bool *ends_row)
{
	*ends_row = *r->p != ',';
	if (r->p == r->end)
		return 0;
	if (*r->p == '\r' && r->p[1] == '\n')
		r->p++;
	if (*r->p == '\r')
		return csv_fail(
			r, SC_EFORMAT, r->line,
			"a carriage return without a line feed; end lines with LF or CR LF");
	if (*r->p != ',' && *r->p != '\n')
		return csv_fail(r, SC_EFORMAT, r->line,
				"text after a closing quote; a quoted cell ends at its quote");
	r->p++;
	r->line += *ends_row;
	return 0;
}

static int read_cell(struct reader *r, bool *ends_row)
{
	bool quoted = *r->p == '"';
	unsigned line = r->line;
	char *start, *end;
	int rc;

	r->p += quoted;
	start = end = r->p;
	rc = quoted ? read_quoted(r, &end) : read_bare(r, &end);
	if (rc == 0 && end - start > SC_CSV_MAX_CELL)
		rc = csv_fail(r, SC_ELIMIT, line,
			      "a cell is too long; at most 1048576 bytes are read");
	if (rc == 0)
		rc = read_separator(r, ends_row);
	if (rc)
		return rc;
	*end = '\0'; /* its separator or quote has been read; at the end it is one already */
	if (r->cells.n == SC_CSV_MAX_CELLS)
		return csv_fail(r, SC_ELIMIT, line, "too many cells; split the file");
	SC_VEC_PUSH(&r->cells, start);
	return 0;
}

static int csv_read_row(struct reader *r)
{
	size_t first = r->cells.n;
	unsigned line = r->line;
	bool empty = *r->p == '\n' || *r->p == '\r';
	bool ends_row = false;

	SC_VEC_PUSH(&r->lines, line);
	while (!ends_row) {
		int rc = read_cell(r, &ends_row);

		if (rc)
			return rc;
		if (r->cells.n - first > SC_CSV_MAX_COLS)
			return csv_fail(r, SC_ELIMIT, line,
					"too many columns; at most 1024 are read");
	}
	if (!r->n_cols) {
		r->n_cols = r->cells.n - first;
		return 0;
	}
	const size_t n_cells = r->cells.n - first;
	if (n_cells == r->n_cols)
		return 0;
	if (empty)
		return csv_fail(r, SC_EFORMAT, line, "the line is empty; remove it");
	return sc_err_at(r->err, SC_EFORMAT, r->file, line, 0,
			 "the row has %zu %s, the header has %zu", n_cells,
			 n_cells == 1 ? "cell" : "cells", r->n_cols);
}

static int check_header(const struct reader *r)
{
	for (size_t i = 0; i < r->n_cols; i++) {
		for (size_t j = 0; j < i; j++) {
			if (strcmp(r->cells.at[i], r->cells.at[j]) == 0)
				return sc_err_at(r->err, SC_EFORMAT, r->file, 1, 0,
						 "columns %zu and %zu are both named \"%.64s\"; "
						 "rename one",
						 j + 1, i + 1, r->cells.at[i]);
		}
	}
	return 0;
}

static int read_all(struct reader *r)
{
	static const char bom[] = "\xEF\xBB\xBF";
	const char *nul = memchr(r->p, '\0', (size_t)(r->end - r->p));
	int rc;

	if (nul)
		return csv_fail(r, SC_EFORMAT, 0, "contains a NUL byte; is it a CSV file?");
	if (strncmp(r->p, bom, sizeof(bom) - 1) == 0)
		r->p += sizeof(bom) - 1;
	if (r->p == r->end)
		return csv_fail(r, SC_EFORMAT, 0, "empty: expected a header line");
	rc = csv_read_row(r);
	if (rc == 0)
		rc = check_header(r);
	while (rc == 0 && r->p < r->end)
		rc = csv_read_row(r);
	return rc;
}

int sc_csv_parse(const struct sc_source *source, struct sc_arena *arena, struct sc_csv *out,
		 struct sc_err *err)
{
	struct reader r = {.file = source->file, .err = err, .line = 1};
	int rc;

	if (source->n > SC_CSV_MAX_BYTES)
		return csv_fail(&r, SC_ELIMIT, 0, "the file is too large; at most 1 GiB is read");
	r.p = memcpy(sc_arena_alloc(arena, source->n + 1), source->text, source->n);
	r.end = r.p + source->n;
	*r.end = '\0';
	rc = read_all(&r);
	if (rc == 0) {
		size_t n_rows = r.lines.n - 1;
		const char **cells = sc_arena_calloc(arena, r.cells.n, sizeof(*cells));
		unsigned *lines = sc_arena_calloc(arena, n_rows, sizeof(*lines));

		assert(r.cells.at && r.lines.at && r.cells.n == r.lines.n * r.n_cols);
		memcpy(cells, r.cells.at, r.cells.n * sizeof(*cells));
		memcpy(lines, r.lines.at + 1, n_rows * sizeof(*lines));
		*out = (struct sc_csv){
			.file = sc_arena_strdup(arena, r.file),
			.n_cols = r.n_cols,
			.n_rows = n_rows,
			.header = cells,
			.cell = cells + r.n_cols,
			.line = lines,
		};
	}
	SC_VEC_RELEASE(&r.cells);
	SC_VEC_RELEASE(&r.lines);
	return rc;
}

int sc_csv_load(const char *path, struct sc_arena *arena, struct sc_csv *out, struct sc_err *err)
{
	struct sc_source source;
	int rc = sc_file_read(path, SC_CSV_MAX_BYTES, &source, err);

	if (rc == 0)
		rc = sc_csv_parse(&source, arena, out, err);
	sc_source_release(&source);
	return rc;
}

int sc_csv_column(const struct sc_csv *csv, const char *name)
{
	for (size_t i = 0; i < csv->n_cols; i++)
		if (strcmp(csv->header[i], name) == 0)
			return (int)i;
	return -1;
}

unsigned sc_csv_cell_column(const struct sc_csv *csv, size_t row, size_t column)
{
	size_t at = 1;

	for (size_t i = 0; i < column; i++) {
		const char *cell = row == SIZE_MAX ? csv->header[i] : sc_csv_cell(csv, row, i);

		if (strpbrk(cell, "\",\r\n"))
			return 0;
		at += strlen(cell) + 1;
	}
	return (unsigned)at;
}

void sc_csv_put_cell(FILE *out, const char *text)
{
	if (!strpbrk(text, ",\"\r\n")) {
		fputs(text, out);
		return;
	}
	putc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', out);
		putc(*text, out);
	}
	putc('"', out);
}

void sc_csv_put_numbers(FILE *out, const double *numbers, size_t n)
{
	char text[SC_JSON_DIGITS + 8];

	for (size_t i = 0; i < n; i++) {
		const size_t length = sc_put_digits(numbers[i], text);

		text[length] = ',';
		if (length || !isfinite(numbers[i])) {
			fwrite(text, 1, length + 1, out);
			continue;
		}
		fprintf(out, "%.*g,", SC_JSON_DIGITS, numbers[i]);
	}
}

int sc_csv_end(FILE *out, struct sc_err *err)
{
	if (fflush(out) == 0 && !ferror(out))
		return 0;
	return sc_err_set(err, SC_EIO, "cannot write the CSV: %s", strerror(errno));
}
