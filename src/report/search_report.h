/* A search as text, JSON, and all of its candidates as CSV. */
#ifndef SC_REPORT_SEARCH_REPORT_H
#define SC_REPORT_SEARCH_REPORT_H

#include "report/forms.h"
#include "study/search/split_search.h"

extern const struct sc_forms
	sc_search_forms; /* of a struct sc_search_result; CSV: all candidates */
extern const struct sc_forms sc_scaling_forms; /* of a struct sc_scaling */

#endif
