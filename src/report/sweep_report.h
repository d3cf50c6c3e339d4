/* Results of many cases as CSV and JSON. */
#pragma once

#include "report/forms.h"
#include "study/validate/validate.h"

/* A column of the cases that the result has too is an error: it would be there twice. */
int sc_sweep_csv_check(const struct sc_csv *cases, struct sc_err *err);
/* Part `index` of n, from 1, of a sweep of n_rows: its CSV says so in place of `same_as`, and of
 * each row has a print. */
struct sc_sweep_part {
	size_t index, n, n_rows;
	uint64_t of; /* sc_sweep_fingerprint of the whole */
};
int sc_sweep_part_parse(const char *text, struct sc_sweep_part *out, struct sc_err *err);
/* The first row behind part `index`, which the next begins with. */
size_t sc_sweep_part_begin(const struct sc_sweep_part *part, size_t index);
void sc_sweep_part_print(const struct sc_sweep_part *part, FILE *out);
/* The table that the parts are of, in any order. SC_EVALUE names what is missing or not whole. */
int sc_sweep_merge(const struct sc_csv *parts, size_t n, FILE *out, struct sc_err *err);

/* The columns of the cases, then the prediction, then `error`. */
struct sc_sweep_report {
	const struct sc_config *base;
	const struct sc_csv *cases;
	const struct sc_run_size *size; /* NULL: no costs */
	const struct sc_outcome
		*outcomes; /* of the JSON: one a row of the cases, without their warnings */
	const struct sc_sweep_part *part; /* NULL: whole */
};
/* Adds the outcome of a case, a candidate or a size to its object. */
void sc_json_outcome(struct sc_json *json, json_t *object, const struct sc_outcome *outcome,
		     bool has_costs);
int sc_sweep_csv_header(const struct sc_sweep_report *all, FILE *out, struct sc_err *err);
/* One row, flushed: whoever reads the file sees it. */
int sc_sweep_csv_row(const struct sc_sweep_report *all, size_t row,
		     const struct sc_outcome *outcome, FILE *out, struct sc_err *err);
extern const struct sc_forms sc_sweep_forms; /* of a struct sc_sweep_report: JSON alone */
/* Writes the errors of a struct sc_validation as configs/likeness.csv has them, a line for rows
 * that are alike. */
int sc_likeness_csv_write(const void *validation, FILE *out, struct sc_err *err);
/* A line for each case that is not like its kin (study/validate/kin.h); nothing if all are. */
void sc_text_unlike(const struct sc_validation *validation, struct sc_strbuf *out);
extern const struct sc_forms sc_validation_forms; /* of a struct sc_validation; CSV: its cases */
