/* Parts of a sweep that jobs made each by itself become the table that one would have made. A
 * part's header says which rows it has to have, and its rows say by a print which are predicted
 * alike: a row's number is known to the whole alone. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "report/sweep_report.h"

#define PART "part "
enum { MAX_PARTS = 1 << 20, MAX_TEXT = 64 };

/* "3/8" of n numbers, each at least 1. */
static bool read_numbers(const char *text, int64_t *out, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const size_t length = strcspn(text, "/");
		char number[MAX_TEXT];

		snprintf(number, sizeof(number), "%.*s", (int)length, text);
		if (!sc_parse_int(number, &out[i]) || out[i] < 1 ||
		    text[length] != (i + 1 < n ? '/' : '\0'))
			return false;
		text += length + 1;
	}
	return out[0] <= out[1] && out[1] <= MAX_PARTS;
}

int sc_sweep_part_parse(const char *text, struct sc_sweep_part *out, struct sc_err *err)
{
	int64_t numbers[2];

	if (!read_numbers(text, numbers, 2))
		return sc_err_set(err, SC_EUSAGE, "--part: expected I/N, as 3/8, got \"%.64s\"",
				  text);
	*out = (struct sc_sweep_part){(size_t)numbers[0], (size_t)numbers[1], 0, 0};
	return 0;
}

size_t sc_sweep_part_begin(const struct sc_sweep_part *part, size_t index)
{
	return part->n_rows / part->n * index + part->n_rows % part->n * index / part->n;
}

void sc_sweep_part_print(const struct sc_sweep_part *part, FILE *out)
{
	fprintf(out, PART "%zu/%zu/%zu/%" PRIu64, part->index, part->n, part->n_rows,
		part->of & INT64_MAX);
}

struct merging {
	const struct sc_csv **part; /* by index - 1 */
	struct sc_sweep_part first;
	size_t column; /* whose name says which part it is */
};

static bool find_part(const struct sc_csv *csv, size_t *column, struct sc_sweep_part *out)
{
	int64_t numbers[4];

	for (size_t c = 0; c < csv->n_cols; c++)
		if (strncmp(csv->header[c], PART, strlen(PART)) == 0 &&
		    read_numbers(csv->header[c] + strlen(PART), numbers, 4)) {
			*out = (struct sc_sweep_part){(size_t)numbers[0], (size_t)numbers[1],
						      (size_t)numbers[2], (uint64_t)numbers[3]};
			*column = c;
			return true;
		}
	return false;
}

static int add_part(struct merging *m, const struct sc_csv *csv, const struct sc_csv *first,
		    struct sc_err *err)
{
	struct sc_sweep_part part;
	size_t column, n_rows;
	bool like;

	if (!find_part(csv, &column, &part))
		return sc_err_at(err, SC_EVALUE, csv->file, 1, 0, "this is no part of a sweep");
	if (csv == first)
		*m = (struct merging){sc_xcalloc(part.n, sizeof(*m->part)), part, column};
	like = part.n == m->first.n && part.n_rows == m->first.n_rows && part.of == m->first.of &&
	       column == m->column && csv->n_cols == first->n_cols;
	for (size_t i = 0; like && i < csv->n_cols; i++)
		like = i == column || strcmp(csv->header[i], first->header[i]) == 0;
	if (!like)
		return sc_err_at(err, SC_EVALUE, csv->file, 1, 0,
				 "this is of another sweep than %s", first->file);
	if (m->part[part.index - 1])
		return sc_err_at(err, SC_EVALUE, csv->file, 1, 0, "part %zu is given twice",
				 part.index);
	n_rows =
		sc_sweep_part_begin(&part, part.index) - sc_sweep_part_begin(&part, part.index - 1);
	if (csv->n_rows != n_rows)
		return sc_err_at(err, SC_EVALUE, csv->file, 0, 0,
				 "part %zu of %zu has %zu of its %zu rows: run it again",
				 part.index, part.n, csv->n_rows, n_rows);
	m->part[part.index - 1] = csv;
	return 0;
}

static void put_rows(const struct merging *m, FILE *out)
{
	struct sc_likes likes = {.rows = {0}};
	size_t row = 0;

	for (size_t p = 0; p < m->first.n; p++)
		for (size_t i = 0; i < m->part[p]->n_rows; i++, row++)
			for (size_t c = 0; c < m->part[p]->n_cols; c++) {
				const char *cell = sc_csv_cell(m->part[p], i, c);
				size_t like = 0;

				if (c != m->column)
					sc_csv_put_cell(out, cell);
				else if (*cell)
					like = sc_likes_first(&likes, cell, strlen(cell), row);
				if (like)
					fprintf(out, "%zu", like);
				putc(c + 1 < m->part[p]->n_cols ? ',' : '\n', out);
			}
	sc_likes_release(&likes);
}

int sc_sweep_merge(const struct sc_csv *parts, size_t n, FILE *out, struct sc_err *err)
{
	struct merging m = {.part = NULL};
	struct sc_strbuf missing = {0};
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = add_part(&m, &parts[i], parts, err);
	for (size_t p = 0; p < m.first.n && rc == 0; p++)
		if (!m.part[p])
			sc_strbuf_printf(&missing, "%s%zu", missing.n ? ", " : "", p + 1);
	if (missing.n)
		rc = sc_err_set(err, SC_EVALUE, "of %zu parts these are missing: %.200s", m.first.n,
				sc_strbuf_get(&missing));
	if (rc == 0) {
		for (size_t c = 0; c < parts->n_cols; c++) {
			sc_csv_put_cell(out, c == m.column ? "same_as" : parts->header[c]);
			putc(c + 1 < parts->n_cols ? ',' : '\n', out);
		}
		put_rows(&m, out);
		rc = sc_csv_end(out, err);
	}
	sc_strbuf_release(&missing);
	free(m.part);
	return rc;
}
