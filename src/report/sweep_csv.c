/* CSV as base/csv.h reads it: cells that need it are quoted, numbers have fixed digits. */
#include "report/sweep_csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_out.h"
#include "report/labels.h"

struct column {
	const char *name;
	size_t offset; /* of a double in struct sc_outcome */
};
#define AT(member) offsetof(struct sc_outcome, member)
static const struct column BEFORE[] = {
	{"iteration_ms", AT(iteration_ms)},
	{"low_ms", AT(low_ms)},
	{"high_ms", AT(high_ms)},
};
static const struct column AFTER[] = {
	{"memory_total_gib", AT(memory_total_gib)},
	{"mfu", AT(mfu)},
	{"samples_per_s", AT(samples_per_s)},
	{"tokens_per_s", AT(tokens_per_s)},
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void put_cell(FILE *out, const char *text)
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

static void put_number(FILE *out, double value)
{
	fprintf(out, "%.*g", SC_JSON_DIGITS, value);
}

static double field(const struct sc_outcome *outcome, const struct column *column)
{
	const void *at = (const unsigned char *)outcome + column->offset;

	return *(const double *)at;
}

static bool is_result(const char *name)
{
	char owner_ms[64];

	for (size_t i = 0; i < COUNT(BEFORE); i++) {
		if (strcmp(name, BEFORE[i].name) == 0)
			return true;
	}
	for (int owner = 0; owner < SC_N_OWNERS; owner++) {
		snprintf(owner_ms, sizeof(owner_ms), "%s_ms", sc_owner_name((enum sc_owner)owner));
		if (strcmp(name, owner_ms) == 0)
			return true;
	}
	for (size_t i = 0; i < COUNT(AFTER); i++) {
		if (strcmp(name, AFTER[i].name) == 0)
			return true;
	}
	return strcmp(name, "error") == 0;
}

int sc_sweep_csv_check(const struct sc_csv *cases, struct sc_err *err)
{
	for (size_t i = 0; i < cases->n_cols; i++) {
		if (is_result(cases->header[i]))
			return sc_err_at(
				err, SC_ECONFLICT, cases->file, 1, 0,
				"column \"%s\" is one that sweep adds; rename or remove it",
				cases->header[i]);
	}
	return 0;
}

static void put_header(const struct sc_csv *cases, FILE *out)
{
	for (size_t i = 0; i < cases->n_cols; i++) {
		put_cell(out, cases->header[i]);
		putc(',', out);
	}
	for (size_t i = 0; i < COUNT(BEFORE); i++)
		fprintf(out, "%s,", BEFORE[i].name);
	for (int owner = 0; owner < SC_N_OWNERS; owner++)
		fprintf(out, "%s_ms,", sc_owner_name((enum sc_owner)owner));
	for (size_t i = 0; i < COUNT(AFTER); i++)
		fprintf(out, "%s,", AFTER[i].name);
	fputs("error\n", out);
}

static void put_numbers(const struct sc_outcome *outcome, FILE *out)
{
	for (size_t i = 0; i < COUNT(BEFORE); i++) {
		put_number(out, field(outcome, &BEFORE[i]));
		putc(',', out);
	}
	for (int owner = 0; owner < SC_N_OWNERS; owner++) {
		put_number(out,
			   sc_without_dust(outcome->breakdown_ms[owner], outcome->iteration_ms));
		putc(',', out);
	}
	for (size_t i = 0; i < COUNT(AFTER); i++) {
		put_number(out, field(outcome, &AFTER[i]));
		putc(',', out);
	}
}

static void put_row(const struct sc_csv *cases, size_t row, const struct sc_outcome *outcome,
		    FILE *out)
{
	for (size_t i = 0; i < cases->n_cols; i++) {
		put_cell(out, sc_csv_cell(cases, row, i));
		putc(',', out);
	}
	if (outcome->code == SC_OK)
		put_numbers(outcome, out);
	for (size_t i = 0; outcome->code != SC_OK && i < COUNT(BEFORE) + SC_N_OWNERS + COUNT(AFTER);
	     i++)
		putc(',', out);
	put_cell(out, outcome->error);
	putc('\n', out);
}

static int check_written(FILE *out, struct sc_err *err)
{
	if (fflush(out) == 0 && !ferror(out))
		return 0;
	return sc_err_set(err, SC_EIO, "cannot write the CSV: %s", strerror(errno));
}

int sc_sweep_csv_write(const struct sc_csv *cases, const struct sc_outcome *outcomes, FILE *out,
		       struct sc_err *err)
{
	put_header(cases, out);
	for (size_t row = 0; row < cases->n_rows; row++)
		put_row(cases, row, &outcomes[row], out);
	return check_written(out, err);
}

static void put_case(const struct sc_validation *v, const struct sc_case *c, const int *columns,
		     size_t n, FILE *out)
{
	put_cell(out, c->name);
	putc(',', out);
	for (size_t i = 0; i < n; i++) {
		put_cell(out, sc_csv_cell(v->table, c->row, (size_t)columns[i]));
		putc(',', out);
	}
	if (c->measured_ms > 0)
		put_number(out, c->measured_ms);
	putc(',', out);
	if (c->skipped) {
		fputs(",,,,", out);
		put_cell(out, c->skipped);
	} else {
		const double numbers[] = {c->outcome.iteration_ms, c->outcome.low_ms,
					  c->outcome.high_ms, c->error_pct};

		for (size_t i = 0; i < COUNT(numbers); i++) {
			put_number(out, numbers[i]);
			putc(',', out);
		}
	}
	putc('\n', out);
}

int sc_validation_csv_write(const struct sc_validation *v, const char *const *by, size_t n_by,
			    FILE *out, struct sc_err *err)
{
	int *columns = sc_xrealloc(NULL, n_by + 1, sizeof(*columns));

	fputs("case,", out);
	for (size_t i = 0; i < n_by; i++) {
		columns[i] = sc_csv_column(v->table, by[i]);
		put_cell(out, by[i]);
		putc(',', out);
	}
	fputs("measured_ms,predicted_ms,low_ms,high_ms,error_pct,skipped\n", out);
	for (size_t i = 0; i < v->n_cases; i++)
		put_case(v, &v->cases[i], columns, n_by, out);
	free(columns);
	return check_written(out, err);
}
