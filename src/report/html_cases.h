/* What pages of many cases have in common. */
#ifndef SC_REPORT_HTML_CASES_H
#define SC_REPORT_HTML_CASES_H

#include "base/csv.h"
#include "report/chart.h"

/* A value of each case (NAN: none), over two columns the least over all others. */
struct sc_cases_map {
	const struct sc_csv *cases;
	size_t down, across; /* columns */
	const double *values;
	const char *const *labels; /* of the cases, or NULL */
	const char *unit;
};
/* Nothing where a column has too many values for a picture. */
void sc_page_cases_map(struct sc_page *page, const char *heading, const struct sc_cases_map *map);

#endif
