/* Configs side by side: what differs, times by owner, memory. */
#ifndef SC_REPORT_COMPARE_REPORT_H
#define SC_REPORT_COMPARE_REPORT_H

#include <stdio.h>

#include "base/strbuf.h"
#include "study/compare/compare.h"

void sc_compare_to_text(const struct sc_compare *compare, struct sc_strbuf *out);
int sc_compare_to_json(const struct sc_compare *compare, FILE *out, struct sc_err *err);

#endif
