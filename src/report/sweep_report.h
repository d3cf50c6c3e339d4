/* Results of many cases as CSV and JSON. */
#ifndef SC_REPORT_SWEEP_REPORT_H
#define SC_REPORT_SWEEP_REPORT_H

#include <stdio.h>

#include "base/strbuf.h"
#include "study/validate/validate.h"

/* A column of the cases that the result has too is an error: it would be there twice. */
int sc_sweep_csv_check(const struct sc_csv *cases, struct sc_err *err);
/* The columns of the cases, then the prediction, then `error`. */
int sc_sweep_csv_header(const struct sc_csv *cases, FILE *out, struct sc_err *err);
/* One row, flushed: whoever reads the file sees it. */
int sc_sweep_csv_row(const struct sc_csv *cases, size_t row, const struct sc_outcome *outcome,
		     FILE *out, struct sc_err *err);
/* `outcomes`: one a row of the cases, without their warnings. */
int sc_json_sweep(const struct sc_config *base, const struct sc_csv *cases,
		  const struct sc_outcome *outcomes, FILE *out, struct sc_err *err);
/* case, the `by` columns, measured and predicted, error in percent, why it was skipped. */
int sc_validation_csv_write(const struct sc_validation *validation, const char *const *by,
			    size_t n_by, FILE *out, struct sc_err *err);

#endif
