/* Results as JSON documents (keys: DESIGN.md §7, a contract). `explanation` may be NULL. */
#ifndef SC_REPORT_JSON_H
#define SC_REPORT_JSON_H

#include <stdio.h>

#include "study/explain/explain.h"
#include "study/validate/validate.h"

int sc_json_prediction(const struct sc_prediction *prediction,
		       const struct sc_explanation *explanation, FILE *out, struct sc_err *err);
int sc_json_validation(const struct sc_validation *validation, FILE *out, struct sc_err *err);

#endif
