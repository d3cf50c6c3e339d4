/* CSV as base/csv.h reads it: cells that need it are quoted, numbers have fixed digits. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_out.h"
#include "base/strbuf.h"
#include "report/json.h"
#include "report/labels.h"
#include "report/sweep_report.h"

/* A sweep as JSON: what its page shows. */

enum { SWEEP_VERSION = 1 };

static void add_case(struct sc_json *json, json_t *list, const struct sc_csv *cases, size_t row,
		     const struct sc_outcome *o)
{
	json_t *object = sc_json_object(json, list, NULL), *config;

	sc_json_int(json, object, "case", (int64_t)row + 1);
	config = sc_json_object(json, object, "config");
	for (size_t c = 0; c < cases->n_cols; c++)
		sc_json_text(json, config, cases->header[c], sc_csv_cell(cases, row, c));
	if (o->code != SC_OK) {
		sc_json_text(json, object, "error", o->error);
		return;
	}
	sc_json_real(json, object, "iteration_ms", o->iteration_ms);
	sc_json_real(json, object, "low_ms", o->low_ms);
	sc_json_real(json, object, "high_ms", o->high_ms);
	sc_json_real(json, object, "memory_gib", o->memory_total_gib);
	sc_json_real(json, object, "capacity_gib", o->capacity_gib);
	sc_json_real(json, object, "mfu", o->mfu);
	sc_json_real(json, object, "samples_per_s", o->samples_per_s);
	sc_json_real(json, object, "tokens_per_s", o->tokens_per_s);
	sc_json_bool(json, object, "fits", o->fits);
}

int sc_json_sweep(const struct sc_config *base, const struct sc_csv *cases,
		  const struct sc_outcome *outcomes, FILE *out, struct sc_err *err)
{
	size_t n_fit = 0, n_done = 0;
	struct sc_json json;
	json_t *list;

	sc_json_init(&json, "stepcast/sweep", SWEEP_VERSION);
	sc_json_base(&json, base);
	list = sc_json_array(&json, json.root, "varied"); /* keys whose cells differ */
	for (size_t c = 0; c < cases->n_cols; c++)
		for (size_t r = 1; r < cases->n_rows; r++)
			if (strcmp(sc_csv_cell(cases, r, c), sc_csv_cell(cases, 0, c)) != 0) {
				sc_json_text(&json, list, NULL, cases->header[c]);
				break;
			}
	list = sc_json_array(&json, json.root, "cases");
	for (size_t i = 0; i < cases->n_rows; i++) {
		n_done += outcomes[i].code == SC_OK;
		n_fit += outcomes[i].code == SC_OK && outcomes[i].fits;
		add_case(&json, list, cases, i, &outcomes[i]);
	}
	sc_json_verdict(&json,
			n_fit == 0              ? SC_STANDS_BADLY
			: n_fit < cases->n_rows ? SC_STANDS_FAIR
						: SC_STANDS_WELL,
			"%s%zu of %zu cases fit the memory; %zu could not be predicted.",
			n_fit == 0 && n_done ? "Does not fit: " : "", n_fit, cases->n_rows,
			cases->n_rows - n_done);
	return sc_json_write(&json, out, err);
}

/* The columns that a sweep adds, in order: doubles of struct sc_outcome, and texts, which have no offset. */
#define AT(member) offsetof(struct sc_outcome, member)
#define OWNER(owner) AT(breakdown_ms[owner])
enum { TEXT = -1 };
static const struct column {
	const char *name;
	long offset;
} COLUMNS[] = {
	{"iteration_ms", AT(iteration_ms)},
	{"low_ms", AT(low_ms)},
	{"high_ms", AT(high_ms)},
	{"compute_ms", OWNER(SC_OWN_COMPUTE)},
	{"memory_bound_ms", OWNER(SC_OWN_MEMORY)},
	{"exposed_comm_ms", OWNER(SC_OWN_COMM)},
	{"bubble_ms", OWNER(SC_OWN_BUBBLE)},
	{"host_ms", OWNER(SC_OWN_HOST)},
	{"peer_wait_ms", OWNER(SC_OWN_PEER)},
	{"optimizer_ms", OWNER(SC_OWN_OPTIMIZER)},
	{"other_ms", OWNER(SC_OWN_OTHER)},
	{"memory_total_gib", AT(memory_total_gib)},
	{"capacity_gib", AT(capacity_gib)},
	{"fits", TEXT}, /* true, false */
	{"mfu", AT(mfu)},
	{"samples_per_s", AT(samples_per_s)},
	{"tokens_per_s", AT(tokens_per_s)},
	{"network_gbps", AT(network_gbps)},
	{"same_as", TEXT},  /* the first row with the same prediction, from 1 */
	{"warnings", TEXT}, /* "; " between them */
	{"error", TEXT},    /* why there is none */
};
enum { N_COLUMNS = sizeof(COLUMNS) / sizeof(COLUMNS[0]) };

static void put_number(FILE *out, double value)
{
	fprintf(out, "%.*g", SC_JSON_DIGITS, value);
}

int sc_sweep_csv_check(const struct sc_csv *cases, struct sc_err *err)
{
	for (size_t i = 0; i < cases->n_cols; i++)
		for (size_t k = 0; k < N_COLUMNS; k++)
			if (strcmp(cases->header[i], COLUMNS[k].name) == 0)
				return sc_err_at(
					err, SC_ECONFLICT, cases->file, 1, 0,
					"column \"%s\" is one that sweep adds; rename or remove it",
					cases->header[i]);
	return 0;
}

static int check_written(FILE *out, struct sc_err *err)
{
	if (fflush(out) == 0 && !ferror(out))
		return 0;
	return sc_err_set(err, SC_EIO, "cannot write the CSV: %s", strerror(errno));
}

int sc_sweep_csv_header(const struct sc_csv *cases, FILE *out, struct sc_err *err)
{
	for (size_t i = 0; i < cases->n_cols; i++) {
		sc_csv_put_cell(out, cases->header[i]);
		putc(',', out);
	}
	for (size_t i = 0; i < N_COLUMNS; i++)
		fprintf(out, "%s%c", COLUMNS[i].name, i + 1 < N_COLUMNS ? ',' : '\n');
	return check_written(out, err);
}

static void put_text(const char *column, const struct sc_outcome *outcome, FILE *out)
{
	const struct sc_warnings *warnings = outcome->warnings;
	struct sc_strbuf text = {0};

	if (strcmp(column, "fits") == 0)
		fputs(outcome->fits ? "true" : "false", out);
	else if (strcmp(column, "same_as") == 0 && outcome->same_as)
		fprintf(out, "%zu", outcome->same_as);
	else if (strcmp(column, "warnings") == 0) {
		for (size_t i = 0; warnings && i < warnings->n; i++)
			sc_strbuf_printf(&text, "%s%s", i ? "; " : "", warnings->text[i]);
		sc_csv_put_cell(out, sc_strbuf_get(&text));
	}
	sc_strbuf_release(&text);
}

int sc_sweep_csv_row(const struct sc_csv *cases, size_t row, const struct sc_outcome *outcome,
		     FILE *out, struct sc_err *err)
{
	for (size_t i = 0; i < cases->n_cols; i++) {
		sc_csv_put_cell(out, sc_csv_cell(cases, row, i));
		putc(',', out);
	}
	for (size_t i = 0; i + 1 < N_COLUMNS; i++) {
		const struct column *c = &COLUMNS[i];
		const void *at = (const unsigned char *)outcome + (c->offset < 0 ? 0 : c->offset);
		bool owner = c->offset >= (long)OWNER(0) && c->offset < (long)OWNER(SC_N_OWNERS);

		if (outcome->code == SC_OK && c->offset < 0)
			put_text(c->name, outcome, out);
		else if (outcome->code == SC_OK && owner)
			put_number(out,
				   sc_without_dust(*(const double *)at, outcome->iteration_ms));
		else if (outcome->code == SC_OK)
			put_number(out, *(const double *)at);
		putc(',', out);
	}
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

		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
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
