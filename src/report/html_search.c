/* A search as a page: the best and how sure it is, the landscape of splits, the front, what each setting is worth.
 * And scaling: the best at each size. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/html_cases.h"
#include "report/search_report.h"

enum { MAX_POINTS_SHOWN = 4000 };

struct view {
	const struct sc_search *search;
	const struct sc_search_result *result;
	const char **names; /* of the candidates: their settings */
	struct sc_page page;
};

/* The last part of a key. */
static const char *short_key(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot ? dot + 1 : path;
}

static void name_all(struct view *v)
{
	const struct sc_csv *cases = &v->result->cases;
	struct sc_strbuf name = {0};

	v->names = sc_xcalloc(cases->n_rows + 1, sizeof(*v->names));
	for (size_t row = 0; row < cases->n_rows; row++) {
		for (size_t i = 0; i < cases->n_cols; i++)
			sc_strbuf_printf(&name, "%s%s %s", i ? ", " : "",
					 short_key(cases->header[i]), sc_csv_cell(cases, row, i));
		v->names[row] = sc_strbuf_detach(&name);
	}
}

static const char *unit_of(const struct view *v, int objective)
{
	return sc_search_unit(v->search, v->search->objective[objective]);
}

static void put_verdict(struct view *v)
{
	const struct sc_search_result *r = v->result;
	const struct sc_search_shown *best = &r->shown[0];
	const struct sc_outcome *o = &r->at[best->row].outcome;
	char figure[64];

	snprintf(figure, sizeof(figure), "%.6g %s", best->value[0], unit_of(v, 0));
	sc_page_figure(&v->page, figure, "%s", v->names[best->row]);
	if (r->by_regret)
		sc_page_verdict(
			&v->page, SC_VERDICT_GOOD,
			"The least expected regret of the %zu best of %zu candidates. Without model "
			"error rank %zu is the best, proven.",
			r->n_shown, r->cases.n_rows, sc_search_fastest(r) + 1);
	else if (r->proven)
		sc_page_verdict(&v->page, SC_VERDICT_GOOD,
				"The best of %zu candidates, proven under the model.",
				r->cases.n_rows);
	else
		sc_page_verdict(&v->page, SC_VERDICT_FAIR,
				"The best so far: %zu candidates were left for want of time.",
				r->n_in[SC_SEARCH_LEFT]);
	sc_page_text(&v->page, "%.6g ms (80 %% band %.6g to %.6g), %.1f %% MFU, %.1f of %.1f GiB.",
		     o->iteration_ms, o->low_ms, o->high_ms, 100 * o->mfu, o->memory_total_gib,
		     o->capacity_gib);
	if (!isnan(best->best_in))
		sc_page_text(
			&v->page,
			"It leads in %.0f %% of %d draws of model error; its expected regret is "
			"%.2f %%.",
			100 * best->best_in, SC_SEARCH_DRAWS, 100 * best->regret_frac);
	sc_page_text(&v->page,
		     "%zu refused, %zu too large for %.0f %% of the memory, %zu pruned by their "
		     "floor, %zu simulated.",
		     r->n_in[SC_SEARCH_REFUSED], r->n_in[SC_SEARCH_TOO_LARGE],
		     100 * (1 - v->search->memory_margin), r->n_in[SC_SEARCH_PRUNED],
		     r->n_in[SC_SEARCH_SIMULATED]);
}

/* Two keys of the split, tp and pp where they were searched; false: fewer than two were. */
static bool find_sides(const struct sc_csv *cases, size_t *down, size_t *across)
{
	int tp = sc_csv_column(cases, "parallel.tp"), pp = sc_csv_column(cases, "parallel.pp");

	*down = tp >= 0 ? (size_t)tp : pp == 0 ? 1 : 0;
	*across = pp >= 0 ? (size_t)pp : *down == 0 ? 1 : 0;
	return cases->n_cols >= 2;
}

/* What was not simulated has its floor. */
static void put_map(struct view *v)
{
	const struct sc_search_result *r = v->result;
	double *values = sc_xcalloc(r->cases.n_rows + 1, sizeof(*values));
	const char **labels = sc_xcalloc(r->cases.n_rows + 1, sizeof(*labels));
	struct sc_cases_map map = {
		.cases = &r->cases, .values = values, .labels = labels, .unit = unit_of(v, 0)};

	for (size_t i = 0; i < r->cases.n_rows; i++) {
		const struct sc_search_case *c = &r->at[i];
		bool simulated = c->state == SC_SEARCH_SIMULATED;

		values[i] =
			c->state > SC_SEARCH_TOO_LARGE
				? c->factor[0] * (simulated ? c->outcome.iteration_ms : c->floor_ms)
				: (double)NAN;
		labels[i] = simulated ? v->names[i] : "at least (not simulated)";
	}
	if (find_sides(&r->cases, &map.down, &map.across))
		sc_page_cases_map(&v->page, "The best of each split", &map);
	sc_page_text(&v->page,
		     "What was not simulated counts with its floor; the label of a cell says so.");
	free((void *)labels);
	free(values);
}

static double y_of(const struct view *v, const struct sc_search_case *c)
{
	return v->search->pareto ? c->factor[1] * c->outcome.iteration_ms : c->memory_gib;
}

/* Points of rows (NULL: of all that are simulated), to be freed: x, and label. */
static struct sc_series series_of(const struct view *v, bool shown)
{
	const struct sc_search_result *r = v->result;
	size_t n = shown ? r->n_shown : r->cases.n_rows;
	double *x = sc_xcalloc(2 * n + 1, sizeof(*x)), *y = x + n;
	const char **labels = sc_xcalloc(n + 1, sizeof(*labels));
	struct sc_series s = {.x = x, .y = y, .label = labels, .as = SC_POINTS};

	for (size_t i = 0; i < n && s.n < MAX_POINTS_SHOWN; i++) {
		size_t row = shown ? r->shown[i].row : i;
		const struct sc_search_case *c = &r->at[row];

		if (c->state != SC_SEARCH_SIMULATED)
			continue;
		x[s.n] = c->factor[0] * c->outcome.iteration_ms;
		y[s.n] = y_of(v, c);
		labels[s.n++] = v->names[row];
	}
	return s;
}

static void put_front(struct view *v)
{
	const bool pareto = v->search->pareto;
	struct sc_series series[2] = {series_of(v, false), series_of(v, true)};

	series[0].name = "simulated";
	series[1].name = pareto ? "front" : "the best";
	for (size_t i = 0; i < 2; i++)
		series[i].color = sc_chart_color(i);
	series[1].as = pareto ? SC_LINE_AND_POINTS : SC_POINTS;
	sc_page_heading(&v->page, pareto ? "Pareto front" : "What was simulated");
	sc_chart(&v->page, &(struct sc_chart){.x_label = unit_of(v, 0),
					      .y_label = pareto ? unit_of(v, 1) : "GiB of a GPU",
					      .series = series,
					      .n_series = 2});
	for (int i = 0; i < 2; i++) {
		free((void *)series[i].x);
		free((void *)series[i].label);
	}
}

static void put_shown(struct view *v)
{
	const struct sc_search_result *r = v->result;
	const bool pareto = v->search->pareto;

	struct sc_strbuf heads = {0};

	sc_strbuf_printf(&heads, "rank#|%s#|%s#|ms#|GiB#|best in %%#|regret %%#|settings",
			 unit_of(v, 0), pareto ? unit_of(v, 1) : "loss %");
	sc_page_heading(&v->page, pareto ? "The front" : "The best that differ");
	sc_page_table(&v->page, sc_strbuf_get(&heads));
	for (size_t i = 0; i < r->n_shown; i++) {
		const struct sc_search_shown *s = &r->shown[i];
		const struct sc_search_case *c = &r->at[s->row];

		sc_page_number(&v->page, 0, (double)i + 1);
		sc_page_cell(&v->page, "%.6g", s->value[0]);
		if (pareto)
			sc_page_cell(&v->page, "%.6g", s->value[1]);
		else
			sc_page_number(&v->page, 2, 100 * (s->value[0] / r->shown[0].value[0] - 1));
		sc_page_number(&v->page, 2, c->outcome.iteration_ms);
		sc_page_number(&v->page, 1, c->memory_gib);
		sc_page_number(&v->page, 0, 100 * s->best_in);
		sc_page_number(&v->page, 2, 100 * s->regret_frac);
		sc_page_cell(&v->page, "%s", v->names[s->row]);
	}
	sc_page_table_end(&v->page);
	sc_strbuf_release(&heads);
	sc_page_text(&v->page, "Best in: of %d draws of model error, which all candidates share.",
		     SC_SEARCH_DRAWS);
}

static void put_others(struct view *v)
{
	const struct sc_search_result *r = v->result;

	if (!r->n_others)
		return;
	sc_page_heading(&v->page, "What each setting is worth");
	sc_page_table(&v->page, "key|value|loss %#|why not");
	for (size_t i = 0; i < r->n_others; i++) {
		const struct sc_search_other *o = &r->others[i];

		sc_page_cell(&v->page, "%s", o->path);
		sc_page_cell(&v->page, "%s", o->value);
		sc_page_number(&v->page, 1, o->text ? (double)NAN : 100 * o->loss);
		sc_page_cell(&v->page, "%s", o->text ? o->text : "");
	}
	sc_page_table_end(&v->page);
}

void sc_html_search(const char *title, const struct sc_search *search,
		    const struct sc_search_result *result, struct sc_strbuf *out)
{
	struct view v = {.search = search, .result = result};

	name_all(&v);
	sc_page_begin(&v.page, "search", title, out);
	put_verdict(&v);
	put_map(&v);
	put_front(&v);
	put_shown(&v);
	put_others(&v);
	sc_page_end(&v.page);
	for (size_t i = 0; i < result->cases.n_rows; i++)
		free((void *)v.names[i]);
	free((void *)v.names);
}

/* ---- scaling ---- */

static void put_curve(struct sc_page *page, const struct sc_scaling *scaling,
		      const struct sc_scaling_point *points)
{
	double *x = sc_xcalloc(3 * scaling->n + 1, sizeof(*x)), *y = x + scaling->n,
	       *ideal = y + scaling->n;
	struct sc_series series[] = {{.name = "tokens/s", .x = x, .y = y, .as = SC_LINE_AND_POINTS},
				     {.name = "as the GPUs", .x = x, .y = ideal, .as = SC_LINE}};
	size_t n = 0;

	for (size_t i = 0; i < scaling->n; i++) {
		if (points[i].error)
			continue;
		x[n] = (double)points[i].gpus;
		y[n] = points[i].best.tokens_per_s;
		ideal[n] = y[0] * x[n] / x[0];
		n++;
	}
	for (size_t i = 0; i < 2; i++) {
		series[i].color = sc_chart_color(i);
		series[i].n = n;
	}
	sc_page_heading(page, "Throughput");
	sc_chart(page, &(struct sc_chart){.x_label = "GPUs",
					  .y_label = "tokens/s",
					  .log_x = true,
					  .log_y = true,
					  .series = series,
					  .n_series = 2});
	free(x);
}

static void put_point(struct sc_page *page, const struct sc_scaling_point *p)
{
	sc_page_number(page, 0, (double)p->gpus);
	if (p->error) {
		for (int i = 0; i < 5; i++)
			sc_page_number(page, 0, (double)NAN);
		sc_page_cell(page, "%s", p->error);
		return;
	}
	sc_page_number(page, 2, p->best.iteration_ms);
	sc_page_number(page, 0, p->best.tokens_per_s);
	sc_page_number(page, 2, p->speedup);
	sc_page_number(page, 1, 100 * p->efficiency);
	sc_page_number(page, 1, p->best.memory_total_gib);
	sc_page_cell(page, "%s%s", p->split, p->proven ? "" : " (not proven)");
}

void sc_html_scaling(const char *title, const struct sc_scaling *scaling,
		     const struct sc_scaling_point *points, struct sc_strbuf *out)
{
	struct sc_page page;

	sc_page_begin(&page, "scale", title, out);
	sc_page_text(&page, "%s scaling, the best split of each size.",
		     scaling->weak ? "Weak" : "Strong");
	put_curve(&page, scaling, points);
	sc_page_table(&page, "GPUs#|ms#|tokens/s#|speedup#|efficiency %#|GiB#|split");
	for (size_t i = 0; i < scaling->n; i++)
		put_point(&page, &points[i]);
	sc_page_table_end(&page);
	sc_page_end(&page);
}
