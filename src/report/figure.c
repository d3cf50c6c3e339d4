/* Each figure is laid out in fixed units of its view box; its axis begins at zero or at a round
 * number below the least value, and has steps of 1, 2 or 5 times a power of ten. */
#include "report/figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIDE = 420, EDGE = 60, ROW = 16, NAMES = 230, BARS = 420, MAX_SERIES = 12, STEPS = 5 };

/* Colours that stay apart in print and for the colour-blind (Okabe and Ito, 2008), then greys. */
static const char *const COLOURS[MAX_SERIES] = {"#0072b2", "#e69f00", "#009e73", "#d55e00",
						"#cc79a7", "#56b4e9", "#f0e442", "#000000",
						"#666666", "#999999", "#bbbbbb", "#dddddd"};

struct axis {
	double low, high, step;
};

void sc_svg_text(const char *text, struct sc_strbuf *out)
{
	for (; *text; text++)
		if (*text == '<' || *text == '&')
			sc_strbuf_append(out, *text == '<' ? "&lt;" : "&amp;");
		else
			sc_strbuf_append_char(out, *text);
}

static struct axis axis_over(double least, double most)
{
	const double span = most > least ? most - least : fmax(fabs(most), 1);
	const double power = pow(10, floor(log10(span / STEPS))), share = span / STEPS / power;
	const double step = power * (share <= 2 ? 2 : share <= 5 ? 5 : 10);

	return (struct axis){step * floor(least / step), step * ceil(most / step), step};
}

static double axis_share(const struct axis *axis, double value)
{
	return (value - axis->low) / (axis->high - axis->low);
}

static void put_label(double x, double y, const char *anchor, const char *text,
		      struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	sc_svg_text(text, out);
	sc_strbuf_append(out, "</text>\n");
}

static void put_line(double x1, double y1, double x2, double y2, struct sc_strbuf *out)
{
	sc_strbuf_printf(
		out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#aaa\"/>\n",
		x1, y1, x2, y2);
}

static void open_figure(const struct sc_figure *figure, double width, double height,
			struct sc_strbuf *out)
{
	sc_strbuf_printf(out,
			 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
			 "font-family=\"sans-serif\" font-size=\"11\">\n<title>",
			 width, height);
	sc_svg_text(figure->title, out);
	sc_strbuf_append(out, "</title>\n");
}

/* The colour of a point's series: those that come first have one of their own. */
static int series_of(const struct sc_figure *figure, size_t i, const char *seen[MAX_SERIES])
{
	int s = 0;

	while (s < MAX_SERIES - 1 && seen[s] && strcmp(seen[s], figure->points.at[i].series) != 0)
		s++;
	if (!seen[s])
		seen[s] = figure->points.at[i].series;
	return s;
}

static void put_legend(const char *const seen[MAX_SERIES], double x, double y,
		       struct sc_strbuf *out)
{
	for (int s = 0; s < MAX_SERIES && seen[s]; s++) {
		sc_strbuf_printf(
			out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"9\" fill=\"%s\"/>\n",
			x, y + ROW * s - 8, COLOURS[s]);
		put_label(x + ROW, y + ROW * s, "start", seen[s], out);
	}
}

static void scatter_axes(const struct sc_figure *figure, const struct axis *axis,
			 struct sc_strbuf *out)
{
	const int n = (int)lround((axis->high - axis->low) / axis->step);

	for (int i = 0; i <= n; i++) {
		const double value = axis->low + i * axis->step;
		const double at = SIDE * axis_share(axis, value);
		char text[32];

		snprintf(text, sizeof(text), "%.4g", value);
		put_line(EDGE + at, EDGE / 2.0, EDGE + at, EDGE / 2.0 + SIDE, out);
		put_line(EDGE, EDGE / 2.0 + SIDE - at, EDGE + SIDE, EDGE / 2.0 + SIDE - at, out);
		put_label(EDGE + at, EDGE / 2.0 + SIDE + ROW, "middle", text, out);
		put_label(EDGE - 5, EDGE / 2.0 + SIDE - at + 4, "end", text, out);
	}
	put_line(EDGE, EDGE / 2.0 + SIDE, EDGE + SIDE, EDGE / 2.0, out);
	put_label(EDGE + SIDE / 2.0, EDGE / 2.0 + SIDE + 2 * ROW + 4, "middle", figure->x, out);
	sc_strbuf_printf(out, "<g transform=\"translate(14 %.1f) rotate(-90)\">\n",
			 EDGE / 2.0 + SIDE / 2.0);
	put_label(0, 0, "middle", figure->y, out);
	sc_strbuf_append(out, "</g>\n");
}

void sc_figure_scatter(const struct sc_figure *figure, struct sc_strbuf *out)
{
	const char *seen[MAX_SERIES] = {0};
	double least = INFINITY, most = -INFINITY;
	struct axis axis;

	for (size_t i = 0; i < figure->points.n; i++) {
		const struct sc_figure_point *p = &figure->points.at[i];

		if (isfinite(p->x) && isfinite(p->y)) {
			least = fmin(least, fmin(p->x, p->y));
			most = fmax(most, fmax(p->x, p->y));
		}
	}
	axis = most >= least ? axis_over(least, most) : (struct axis){0, 1, 1};
	open_figure(figure, SIDE + EDGE + NAMES, SIDE + 2 * EDGE, out);
	scatter_axes(figure, &axis, out);
	for (size_t i = 0; i < figure->points.n; i++) {
		const struct sc_figure_point *p = &figure->points.at[i];

		if (!isfinite(p->x) || !isfinite(p->y))
			continue;
		sc_strbuf_printf(out,
				 "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\" "
				 "fill-opacity=\"0.8\"><title>",
				 EDGE + SIDE * axis_share(&axis, p->x),
				 EDGE / 2.0 + SIDE * (1 - axis_share(&axis, p->y)),
				 COLOURS[series_of(figure, i, seen)]);
		sc_svg_text(p->name, out);
		sc_strbuf_printf(out, ": %.4g, %.4g</title></circle>\n", p->x, p->y);
	}
	put_legend(seen, EDGE + SIDE + ROW, EDGE, out);
	sc_strbuf_append(out, "</svg>\n");
}

void sc_figure_bars(const struct sc_figure *figure, struct sc_strbuf *out)
{
	const char *seen[MAX_SERIES] = {0}, *name = "";
	double most = 0, y = 2.0 * ROW, height = 4.0 * ROW;
	struct axis axis;

	for (size_t i = 0; i < figure->points.n; i++) {
		const struct sc_figure_point *p = &figure->points.at[i];

		most = fmax(most, fmax(p->y, isfinite(p->x) ? p->x : 0));
		height += strcmp(p->name, name) == 0 ? ROW : 2 * ROW;
		name = p->name;
	}
	axis = axis_over(0, most);
	open_figure(figure, NAMES + BARS + NAMES, height, out);
	put_label(NAMES, ROW, "start", figure->y, out);
	name = "";
	for (size_t i = 0; i < figure->points.n; i++, y += ROW) {
		const struct sc_figure_point *p = &figure->points.at[i];
		const double width = BARS * axis_share(&axis, p->y);
		char text[32];

		if (strcmp(p->name, name) != 0) {
			put_label(ROW, y, "start", p->name, out);
			y += ROW;
		}
		name = p->name;
		put_label(NAMES - 5, y, "end", p->series, out);
		sc_strbuf_printf(out,
				 "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"12\" "
				 "fill=\"%s\"/>\n",
				 NAMES, y - 10, width, COLOURS[series_of(figure, i, seen)]);
		snprintf(text, sizeof(text), "%.4g", p->y);
		put_label(NAMES + width + 4, y, "start", text, out);
		if (isfinite(p->x)) {
			const double mark = NAMES + BARS * axis_share(&axis, p->x);

			put_line(mark, y - 12, mark, y + 4, out);
		}
	}
	sc_strbuf_append(out, "</svg>\n");
}
