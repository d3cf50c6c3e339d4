/* CSV as base/csv.h reads it: cells that need it are quoted, numbers have fixed digits. */
#include "report/sweep_csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_out.h"
#include "base/strbuf.h"
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
static const struct column MEMORY[] = {
	{"memory_total_gib", AT(memory_total_gib)},
	{"capacity_gib", AT(capacity_gib)},
};
static const char FITS[] = "fits"; /* true, false */
static const struct column AFTER[] = {
	{"mfu", AT(mfu)},
	{"samples_per_s", AT(samples_per_s)},
	{"tokens_per_s", AT(tokens_per_s)},
	{"network_gbps", AT(network_gbps)},
};
/* The first row with the same prediction, from 1; texts, "; " between them; why there is none. */
static const char *const TEXTS[] = {"same_as", "warnings", "error"};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void put_number(FILE *out, double value)
{
	fprintf(out, "%.*g", SC_JSON_DIGITS, value);
}

static double field(const struct sc_outcome *outcome, const struct column *column)
{
	const void *at = (const unsigned char *)outcome + column->offset;

	return *(const double *)at;
}

/* Calls for each column that a sweep adds, in order; a name lives until the call returns. */
static void each_column(void (*visit)(void *ctx, const char *name), void *ctx)
{
	char owner_ms[64];

	for (size_t i = 0; i < COUNT(BEFORE); i++)
		visit(ctx, BEFORE[i].name);
	for (int owner = 0; owner < SC_N_OWNERS; owner++) {
		snprintf(owner_ms, sizeof(owner_ms), "%s_ms", sc_owner_name((enum sc_owner)owner));
		visit(ctx, owner_ms);
	}
	for (size_t i = 0; i < COUNT(MEMORY); i++)
		visit(ctx, MEMORY[i].name);
	visit(ctx, FITS);
	for (size_t i = 0; i < COUNT(AFTER); i++)
		visit(ctx, AFTER[i].name);
	for (size_t i = 0; i < COUNT(TEXTS); i++)
		visit(ctx, TEXTS[i]);
}

struct wanted {
	const char *name;
	bool is_there;
};

static void look_for(void *ctx, const char *name)
{
	struct wanted *wanted = ctx;

	wanted->is_there |= strcmp(name, wanted->name) == 0;
}

static bool is_result(const char *name)
{
	struct wanted wanted = {.name = name};

	each_column(look_for, &wanted);
	return wanted.is_there;
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

static int check_written(FILE *out, struct sc_err *err)
{
	if (fflush(out) == 0 && !ferror(out))
		return 0;
	return sc_err_set(err, SC_EIO, "cannot write the CSV: %s", strerror(errno));
}

static void put_name(void *ctx, const char *name)
{
	fprintf(ctx, strcmp(name, "error") == 0 ? "%s\n" : "%s,", name);
}

int sc_sweep_csv_header(const struct sc_csv *cases, FILE *out, struct sc_err *err)
{
	for (size_t i = 0; i < cases->n_cols; i++) {
		sc_csv_put_cell(out, cases->header[i]);
		putc(',', out);
	}
	each_column(put_name, out);
	return check_written(out, err);
}

static void put_columns(const struct sc_outcome *outcome, const struct column *columns, size_t n,
			FILE *out)
{
	for (size_t i = 0; i < n; i++) {
		put_number(out, field(outcome, &columns[i]));
		putc(',', out);
	}
}

static void put_warnings(const struct sc_warnings *warnings, FILE *out)
{
	struct sc_strbuf text = {0};

	for (size_t i = 0; warnings && i < warnings->n; i++)
		sc_strbuf_printf(&text, "%s%s", i ? "; " : "", warnings->text[i]);
	sc_csv_put_cell(out, sc_strbuf_get(&text));
	sc_strbuf_release(&text);
}

static void put_outcome(const struct sc_outcome *outcome, FILE *out)
{
	put_columns(outcome, BEFORE, COUNT(BEFORE), out);
	for (int owner = 0; owner < SC_N_OWNERS; owner++) {
		put_number(out,
			   sc_without_dust(outcome->breakdown_ms[owner], outcome->iteration_ms));
		putc(',', out);
	}
	put_columns(outcome, MEMORY, COUNT(MEMORY), out);
	fputs(outcome->fits ? "true," : "false,", out);
	put_columns(outcome, AFTER, COUNT(AFTER), out);
	if (outcome->same_as)
		fprintf(out, "%zu", outcome->same_as);
	putc(',', out);
	put_warnings(outcome->warnings, out);
	putc(',', out);
}

static void put_nothing(void *ctx, const char *name)
{
	if (strcmp(name, "error") != 0)
		putc(',', ctx);
}

int sc_sweep_csv_row(const struct sc_csv *cases, size_t row, const struct sc_outcome *outcome,
		     FILE *out, struct sc_err *err)
{
	for (size_t i = 0; i < cases->n_cols; i++) {
		sc_csv_put_cell(out, sc_csv_cell(cases, row, i));
		putc(',', out);
	}
	if (outcome->code == SC_OK)
		put_outcome(outcome, out);
	else
		each_column(put_nothing, out);
	sc_csv_put_cell(out, outcome->error);
	putc('\n', out);
	return check_written(out, err);
}

static void put_case(const struct sc_validation *v, const struct sc_case *c, const int *columns,
		     size_t n, FILE *out)
{
	sc_csv_put_cell(out, c->name);
	putc(',', out);
	for (size_t i = 0; i < n; i++) {
		sc_csv_put_cell(out, sc_csv_cell(v->table, c->row, (size_t)columns[i]));
		putc(',', out);
	}
	if (c->measured_ms > 0)
		put_number(out, c->measured_ms);
	putc(',', out);
	if (c->skipped) {
		fputs(",,,,", out);
		sc_csv_put_cell(out, c->skipped);
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
		sc_csv_put_cell(out, by[i]);
		putc(',', out);
	}
	fputs("measured_ms,predicted_ms,low_ms,high_ms,error_pct,skipped\n", out);
	for (size_t i = 0; i < v->n_cases; i++)
		put_case(v, &v->cases[i], columns, n_by, out);
	free(columns);
	return check_written(out, err);
}
