/* Charts: bars of shares, axes with points and lines, maps. */
#include "report/chart.h"

#include <float.h>
#include <math.h>

enum {
	WIDTH = 960,
	BAR_HEIGHT = 34,
	MIN_LABEL_WIDTH = 60,
	LEFT = 80,
	BOTTOM = 44,
	TOP = 12,
	HEIGHT = 420,
	N_TICKS = 6,
	CELL_HEIGHT = 30,
	HEAT_LEFT = 110,
	HEAT_MAX_CELL = 120
};

static const char *const COLORS[] = {"#4269d0", "#ff725c", "#3ca951", "#efb118", "#a463f2",
				     "#6cc5b0", "#ff8ab7", "#97bbf5", "#9c6b4e", "#9498a0"};

const char *sc_chart_color(size_t i)
{
	return COLORS[i % (sizeof(COLORS) / sizeof(COLORS[0]))];
}

/* ---- shares ---- */

static void append_share(struct sc_strbuf *out, const struct sc_share *share, double at,
			 double width, double pct)
{
	sc_strbuf_printf(
		out, "<rect x=\"%.2f\" y=\"0\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>",
		at, width, BAR_HEIGHT, share->color);
	sc_page_escape(out, share->name);
	sc_strbuf_printf(out, " %.1f %%</title></rect>\n", pct);
	if (width > MIN_LABEL_WIDTH)
		sc_strbuf_printf(out,
				 "<text x=\"%.2f\" y=\"22\" font-size=\"14\" style=\"fill:#fff\">"
				 "%.1f %%</text>\n",
				 at + 6, pct);
}

void sc_chart_shares(struct sc_page *page, const char *label, const struct sc_share *shares,
		     size_t n, double total)
{
	struct sc_strbuf *out = page->out;
	double at = 0;

	sc_strbuf_printf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH,
			 BAR_HEIGHT);
	sc_page_escape(out, label);
	sc_strbuf_append(out, "\">\n");
	for (size_t i = 0; i < n && total > 0; i++) {
		double width = WIDTH * shares[i].value / total;

		if (!(width > 0) || !isfinite(width))
			continue;
		append_share(out, &shares[i], at, width, 100 * shares[i].value / total);
		at += width;
	}
	sc_strbuf_append(out, "</svg>\n");
}

/* ---- axes ---- */

struct axis {
	bool is_log;
	double low, high; /* of log10 of the values if is_log */
	double from, to;  /* in the picture */
};

static double scaled(const struct axis *axis, double value)
{
	return axis->is_log ? log10(value) : value;
}

static bool can_show(const struct axis *axis, double value)
{
	return isfinite(value) && (!axis->is_log || value > 0);
}

static double place(const struct axis *axis, double value)
{
	return axis->from + (axis->to - axis->from) * (scaled(axis, value) - axis->low) /
				    (axis->high - axis->low);
}

static void widen(struct axis *axis, double value)
{
	if (!can_show(axis, value))
		return;
	axis->low = fmin(axis->low, scaled(axis, value));
	axis->high = fmax(axis->high, scaled(axis, value));
}

/* 1, 2 or 5 times a power of ten: so wide that N_TICKS are enough. */
static double step_of(double span)
{
	double power = pow(10, floor(log10(span / N_TICKS))), ratio = span / N_TICKS / power;

	return power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
}

/* Some room, and linear axes begin at 0 where that is not far. */
static void round_axis(struct axis *axis)
{
	double span = axis->high - axis->low;

	if (!axis->is_log && axis->low > 0 && axis->low < 2 * span)
		axis->low = 0;
	if (!(span > 1e-9 * fmax(fabs(axis->high), 1))) {
		axis->low -= axis->is_log ? 0.5 : 0.5 * fmax(fabs(axis->low), 1e-9);
		axis->high += axis->is_log ? 0.5 : 0.5 * fmax(fabs(axis->high), 1e-9);
	}
	span = axis->high - axis->low;
	axis->high += 0.04 * span;
	if (axis->low != 0)
		axis->low -= 0.04 * span;
}

static void append_tick(struct sc_strbuf *out, double value, double at, bool is_x)
{
	if (is_x)
		sc_strbuf_printf(
			out,
			"<path class=\"axis\" d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\" "
			"text-anchor=\"middle\">%.4g</text>\n",
			at, TOP, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 18, value);
	else
		sc_strbuf_printf(
			out,
			"<path class=\"axis\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
			"text-anchor=\"end\">%.4g</text>\n",
			LEFT, at, WIDTH, LEFT - 6, at + 4, value);
}

static void append_ticks(struct sc_strbuf *out, const struct axis *axis, bool is_x)
{
	double span = axis->high - axis->low, step = step_of(span);

	if (axis->is_log && span < 1.3) { /* decades would be too few: round values */
		double low = pow(10, axis->low), high = pow(10, axis->high);

		step = step_of(high - low);
		for (double t = ceil(low / step) * step; t <= high; t += step)
			if (can_show(axis, t))
				append_tick(out, t, place(axis, t), is_x);
		return;
	}
	if (axis->is_log)
		step = fmax(1, ceil(span / N_TICKS));
	for (double t = ceil(axis->low / step) * step; t <= axis->high; t += step) {
		double shown = fabs(t) < 1e-9 * span ? 0 : t;
		double value = axis->is_log ? pow(10, shown) : shown;

		if (can_show(axis, value))
			append_tick(out, value, place(axis, value), is_x);
	}
}

static void append_axes(struct sc_strbuf *out, const struct sc_chart *chart, const struct axis *x,
			const struct axis *y)
{
	append_ticks(out, x, true);
	append_ticks(out, y, false);
	sc_strbuf_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", WIDTH, HEIGHT - 6);
	sc_page_escape(out, chart->x_label);
	sc_strbuf_printf(out, "</text>\n<text x=\"%d\" y=\"%d\">", LEFT + 6, TOP + 10);
	sc_page_escape(out, chart->y_label);
	sc_strbuf_append(out, "</text>\n");
}

static void append_points(struct sc_strbuf *out, const struct sc_series *s, const struct axis *x,
			  const struct axis *y)
{
	for (size_t i = 0; i < s->n; i++) {
		if (!can_show(x, s->x[i]) || !can_show(y, s->y[i]))
			continue;
		sc_strbuf_printf(out,
				 "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" fill=\"%s\" "
				 "fill-opacity=\"0.75\"><title>",
				 place(x, s->x[i]), place(y, s->y[i]), s->color);
		if (s->label)
			sc_page_escape(out, s->label[i]);
		sc_strbuf_printf(out, "%s%.5g, %.5g</title></circle>\n", s->label ? ": " : "",
				 s->x[i], s->y[i]);
	}
}

static void append_line(struct sc_strbuf *out, const struct sc_series *s, const struct axis *x,
			const struct axis *y)
{
	char verb = 'M';

	sc_strbuf_printf(out, "<path fill=\"none\" stroke-width=\"2\" stroke=\"%s\" d=\"",
			 s->color);
	for (size_t i = 0; i < s->n; i++) {
		if (!can_show(x, s->x[i]) || !can_show(y, s->y[i])) {
			verb = 'M';
			continue;
		}
		sc_strbuf_printf(out, "%c%.1f %.1f", verb, place(x, s->x[i]), place(y, s->y[i]));
		verb = 'L';
	}
	sc_strbuf_append(out, "\"/>\n");
}

static void append_names(struct sc_strbuf *out, const struct sc_chart *chart)
{
	sc_strbuf_append(out, "<p class=\"keys\">");
	for (size_t i = 0; i < chart->n_series; i++) {
		sc_strbuf_printf(
			out,
			"<span><span class=\"key\" style=\"background:%s;margin-right:.4rem\">"
			"</span>",
			chart->series[i].color);
		sc_page_escape(out, chart->series[i].name);
		sc_strbuf_append(out, "</span>\n");
	}
	sc_strbuf_append(out, "</p>\n");
}

static bool find_axes(const struct sc_chart *chart, struct axis *x, struct axis *y)
{
	*x = (struct axis){chart->log_x, DBL_MAX, -DBL_MAX, LEFT, WIDTH};
	*y = (struct axis){chart->log_y, DBL_MAX, -DBL_MAX, HEIGHT - BOTTOM, TOP};
	for (size_t s = 0; s < chart->n_series; s++)
		for (size_t i = 0; i < chart->series[s].n; i++) {
			double px = chart->series[s].x[i], py = chart->series[s].y[i];

			if (!can_show(x, px) || !can_show(y, py))
				continue;
			widen(x, px);
			widen(y, py);
		}
	if (x->low > x->high)
		return false;
	if (chart->equal) {
		x->low = y->low = fmin(x->low, y->low);
		x->high = y->high = fmax(x->high, y->high);
	}
	if (chart->from_zero)
		widen(y, 0);
	round_axis(x);
	round_axis(y);
	return true;
}

void sc_chart(struct sc_page *page, const struct sc_chart *chart)
{
	struct sc_strbuf *out = page->out;
	struct axis x, y;

	if (!find_axes(chart, &x, &y))
		return;
	if (chart->n_series > 1)
		append_names(out, chart);
	sc_strbuf_printf(out,
			 "<svg viewBox=\"0 0 %d %d\" role=\"img\" font-size=\"13\" aria-label=\"",
			 WIDTH + 8, HEIGHT);
	sc_page_escape(out, chart->y_label);
	sc_strbuf_append(out, " over ");
	sc_page_escape(out, chart->x_label);
	sc_strbuf_append(out, "\">\n");
	append_axes(out, chart, &x, &y);
	if (chart->equal)
		sc_strbuf_printf(out, "<path class=\"equal\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n",
				 x.from, y.from, x.to, y.to);
	for (size_t i = 0; i < chart->n_series; i++) {
		if (chart->series[i].as != SC_POINTS)
			append_line(out, &chart->series[i], &x, &y);
		if (chart->series[i].as != SC_LINE)
			append_points(out, &chart->series[i], &x, &y);
	}
	sc_strbuf_append(out, "</svg>\n");
}

/* ---- maps ---- */

static void append_heat_cell(struct sc_strbuf *out, const struct sc_heat_map *map, size_t i,
			     const double box[3], double share)
{
	sc_strbuf_printf(out,
			 "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" "
			 "fill=\"hsl(%.0f 60%% 42%%)\"><title>",
			 box[0], box[1], box[2] - 2, CELL_HEIGHT - 2, 140 - 140 * share);
	if (map->label)
		sc_page_escape(out, map->label[i]);
	sc_strbuf_printf(out, "%s%.5g ", map->label ? ": " : "", map->values[i]);
	sc_page_escape(out, map->unit);
	sc_strbuf_printf(out,
			 "</title></rect><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" "
			 "style=\"fill:#fff\">%.4g</text>\n",
			 box[0] + box[2] / 2 - 1, box[1] + 19, map->values[i]);
}

static void append_heat_label(struct sc_strbuf *out, double x, double y, const char *name,
			      const char *value)
{
	sc_strbuf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", x, y);
	sc_page_escape(out, name);
	sc_strbuf_append(out, *value ? " " : "");
	sc_page_escape(out, value);
	sc_strbuf_append(out, "</text>\n");
}

void sc_chart_heat_map(struct sc_page *page, const struct sc_heat_map *map)
{
	double low = DBL_MAX, high = -DBL_MAX, width;
	struct sc_strbuf *out = page->out;

	for (size_t i = 0; i < map->n_rows * map->n_columns; i++)
		if (isfinite(map->values[i])) {
			low = fmin(low, map->values[i]);
			high = fmax(high, map->values[i]);
		}
	if (low > high)
		return;
	width = fmin(HEAT_MAX_CELL, (double)(WIDTH - HEAT_LEFT) / (double)map->n_columns);
	sc_strbuf_printf(out, "<svg viewBox=\"0 0 %d %zu\" role=\"img\" font-size=\"13\">\n", WIDTH,
			 (map->n_rows + 1) * CELL_HEIGHT);
	for (size_t c = 0; c < map->n_columns; c++)
		append_heat_label(out, HEAT_LEFT + width * (double)(c + 1) - 6, 19,
				  map->column_name, map->columns[c]);
	for (size_t r = 0; r < map->n_rows; r++) {
		double y = CELL_HEIGHT * (double)(r + 1);

		append_heat_label(out, HEAT_LEFT - 8, y + 19, map->row_name, map->rows[r]);
		for (size_t c = 0; c < map->n_columns; c++) {
			size_t i = r * map->n_columns + c;
			const double box[] = {HEAT_LEFT + width * (double)c, y, width};

			if (isfinite(map->values[i]))
				append_heat_cell(out, map, i, box,
						 high > low ? (map->values[i] - low) / (high - low)
							    : 0);
		}
	}
	sc_strbuf_append(out, "</svg>\n");
}
