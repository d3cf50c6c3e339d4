/* Figures as SVG, for papers and slides: points on two equal axes, or bars by case. Each is
 * complete by itself, needs no script, and has no colour of a theme, so that it can be printed. A
 * page draws its own figures (share/page.html). */
#pragma once

#include "base/strbuf.h"
#include "base/vec.h"

struct sc_figure_point {
	char series[64]; /* its colour in the legend */
	const char *name;
	double x, y;
};
struct sc_figure {
	const char *title, *x, *y; /* of the axes; bars have no x */
	SC_VEC(struct sc_figure_point) points;
};
/* x beside y with the diagonal on which they are equal; points that are not finite are left out. */
void sc_figure_scatter(const struct sc_figure *figure, struct sc_strbuf *out);
/* A bar of length y a point, those of one name under it; x is a mark across them, NAN: none. */
void sc_figure_bars(const struct sc_figure *figure, struct sc_strbuf *out);

/* Text between the tags of XML. */
void sc_svg_text(const char *text, struct sc_strbuf *out);
