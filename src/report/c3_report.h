/* Pairs of computation and communication, predicted beside measured or recorded, as text and JSON (keys: DESIGN.md §7). */
#ifndef SC_REPORT_C3_REPORT_H
#define SC_REPORT_C3_REPORT_H

#include <stdio.h>

#include "base/strbuf.h"
#include "study/c3/c3.h"

struct sc_c3_recording;

void sc_text_c3(const struct sc_c3_table *table, struct sc_strbuf *out);
int sc_json_c3(const struct sc_c3_table *table, FILE *out, struct sc_err *err);
void sc_text_c3_recording(const struct sc_c3_recording *recording, struct sc_strbuf *out);
/* The kernels whose time alone is known, as `stepcast fit --kind interference` reads them. */
int sc_csv_c3_recording(const struct sc_c3_recording *recording, FILE *out, struct sc_err *err);
int sc_json_c3_recording(const struct sc_c3_recording *recording, FILE *out, struct sc_err *err);

#endif
