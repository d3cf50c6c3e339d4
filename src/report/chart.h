/* Charts as SVG inside a page, in the colours of the page: bars of shares, points and lines over two axes, maps. */
#ifndef SC_REPORT_CHART_H
#define SC_REPORT_CHART_H

#include "report/page.h"

/* A bar of parts one after the other; parts of 0 or less are left out. */
struct sc_share {
	const char *name, *color;
	double value;
};
void sc_chart_shares(struct sc_page *page, const char *label, const struct sc_share *shares,
		     size_t n, double total);

struct sc_series {
	const char *name, *color;
	const double *x,
		*y; /* n of each; points that an axis cannot show (not finite, <= 0 on a log axis) are left out */
	const char *const *label; /* shown over a point; NULL: none */
	size_t n;
	enum { SC_POINTS, SC_LINE, SC_LINE_AND_POINTS } as;
};
struct sc_chart {
	const char *x_label, *y_label;
	bool log_x, log_y, from_zero; /* y begins at 0 */
	bool equal; /* both axes alike, and the line where they are equal: measured against predicted */
	const struct sc_series *series;
	size_t n_series;
};
/* Nothing where no point can be shown. */
void sc_chart(struct sc_page *page, const struct sc_chart *chart);

/* One colour a cell, from the least (best) to the most; NAN is empty. */
struct sc_heat_map {
	const char *row_name, *column_name;
	const char *const *rows, *const *columns; /* labels */
	size_t n_rows, n_columns;
	const double *values;     /* [n_rows][n_columns] */
	const char *const *label; /* over a cell, as values; may be NULL */
	const char *unit;         /* "ms" */
};
void sc_chart_heat_map(struct sc_page *page, const struct sc_heat_map *map);

/* The i-th of colours that can be told apart; again from the first after the last. */
const char *sc_chart_color(size_t i);

#endif
