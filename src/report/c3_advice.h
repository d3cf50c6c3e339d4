/* Pairs of computation and communication under every policy: text with bars, JSON, CSV that a runtime can look up
 * and `c3 --measured` reads. */
#ifndef SC_REPORT_C3_ADVICE_H
#define SC_REPORT_C3_ADVICE_H

#include <stdio.h>

#include "base/strbuf.h"
#include "models/memory.h"
#include "study/c3/c3.h"

struct sc_c3_advices {
	const struct sc_c3_advice *at;
	size_t n;
	const struct sc_memory *memory;   /* of the config that they are of, or NULL */
	const struct sc_request *request; /* that config, or NULL */
};
void sc_text_c3_advice(const struct sc_c3_advices *advices, struct sc_strbuf *out);
int sc_json_c3_advice(const struct sc_c3_advices *advices, FILE *out, struct sc_err *err);
/* One row a pair and policy, the best marked. */
int sc_csv_c3_advice(const struct sc_c3_advices *advices, FILE *out, struct sc_err *err);

#endif
