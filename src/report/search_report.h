/* A search as text, JSON, and all of its candidates as CSV. */
#ifndef SC_REPORT_SEARCH_REPORT_H
#define SC_REPORT_SEARCH_REPORT_H

#include <stdio.h>

#include "base/strbuf.h"
#include "study/search/split_search.h"

/* Of those shown, the one of the least value. */
size_t sc_search_fastest(const struct sc_search_result *result);
void sc_search_to_text(const struct sc_search *search, const struct sc_search_result *result,
		       struct sc_strbuf *out);
int sc_search_to_json(const struct sc_search *search, const struct sc_search_result *result,
		      FILE *out, struct sc_err *err);
/* Columns: the keys; state; floor_ms, iteration_ms, low_ms, high_ms, memory_gib, capacity_gib: empty where not known;
 * the values of the objectives; error. */
int sc_search_to_csv(const struct sc_search *search, const struct sc_search_result *result,
		     FILE *out, struct sc_err *err);

void sc_scaling_to_text(const struct sc_scaling *scaling, const struct sc_scaling_point *points,
			struct sc_strbuf *out);
int sc_scaling_to_json(const struct sc_scaling *scaling, const struct sc_scaling_point *points,
		       FILE *out, struct sc_err *err);

#endif
