/* A fit to iterations as text, JSON and a profile to use. */
#ifndef SC_REPORT_FIT_ITERATIONS_REPORT_H
#define SC_REPORT_FIT_ITERATIONS_REPORT_H

#include <stdio.h>

#include "base/strbuf.h"
#include "study/fit/fit_iterations.h"

void sc_text_itfit(const struct sc_itfit *fit, struct sc_strbuf *out);
int sc_json_itfit(const struct sc_itfit *fit, FILE *out, struct sc_err *err);
/* A file over the profile of the coefficients (all are of one), named `id`; where `id` is that
 * profile itself, its lines alone, to paste. */
void sc_yaml_itfit(const struct sc_itfit *fit, const char *id, struct sc_strbuf *out);

#endif
