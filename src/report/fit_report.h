/* A fit as text, JSON, a page, and a profile to use. */
#ifndef SC_REPORT_FIT_REPORT_H
#define SC_REPORT_FIT_REPORT_H

#include <stdio.h>

#include "base/json_out.h"
#include "base/strbuf.h"
#include "models/fit.h"

/* The errors of a fit, into a JSON object. */
void sc_json_accuracy(struct sc_json *json, json_t *object, const struct sc_accuracy *accuracy);
void sc_text_fit(const struct sc_fit *fit, struct sc_strbuf *out);
int sc_json_fit(const struct sc_fit *fit, FILE *out, struct sc_err *err);
/* Device kinds: a device file over the fitted device's own, named `id`; where `id` is that device
 * itself, its block alone, to paste. Collectives: entries of a fabric file, to paste. */
void sc_yaml_fit(const struct sc_fit *fit, const char *id, struct sc_strbuf *out);

#endif
