/* Results as JSON documents (keys: DESIGN.md §7, a contract). */
#ifndef SC_REPORT_JSON_H
#define SC_REPORT_JSON_H

#include <stdio.h>

#include "base/json_out.h"
#include "study/validate/validate.h"

/* The keys of a reading that predictions and replays have, into `object`. */
void sc_json_breakdown(struct sc_json *json, json_t *object, const struct sc_reading *reading);
int sc_json_validation(const struct sc_validation *validation, FILE *out, struct sc_err *err);

#endif
