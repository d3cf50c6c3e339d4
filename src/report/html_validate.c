/* A validation as a page: how far off, measured against predicted, by group, every case. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/chart.h"
#include "report/text.h"

enum { MAX_CASES_SHOWN = 4000, MAX_COLORS = 10 };

static void put_score(struct sc_page *page, const char *name, const struct sc_score *s)
{
	const double numbers[] = {s->accuracy.mape_pct, s->accuracy.median_ape_pct,
				  s->accuracy.p90_ape_pct, s->accuracy.bias_pct, s->coverage_pct};

	sc_page_cell(page, "%s", *name ? name : "(empty)");
	sc_page_cell(page, "%zu", s->n_rows);
	sc_page_cell(page, "%zu", s->accuracy.n);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sc_page_number(page, 2, numbers[i]);
}

static const char HEADS[] = "|rows#|predicted#|MAPE %#|median %#|p90 %#|bias %#|in the band %#";

static void put_groups(struct sc_page *page, const struct sc_validation *v)
{
	const char *column = NULL;

	sc_page_heading(page, "Errors");
	sc_page_table(page, HEADS);
	put_score(page, "all", &v->all);
	sc_page_table_end(page);
	for (size_t i = 0; i < v->n_groups; i++) {
		const struct sc_group_score *group = &v->groups[i];

		if (group->column != column && column)
			sc_page_table_end(page);
		if (group->column != column) {
			sc_page_heading(page, group->column);
			sc_page_table(page, HEADS);
		}
		column = group->column;
		put_score(page, group->value, &group->score);
	}
	if (column)
		sc_page_table_end(page);
}

/* Of the first column that groups the cases, a colour a group; of all others, and without groups, one. */
static size_t color_of(const struct sc_validation *v, const struct sc_case *c)
{
	int column = v->n_groups ? sc_csv_column(v->table, v->groups[0].column) : -1;
	size_t n = 0;

	if (column < 0)
		return 0;
	for (; n < v->n_groups && v->groups[n].column == v->groups[0].column; n++)
		if (strcmp(sc_csv_cell(v->table, c->row, (size_t)column), v->groups[n].value) == 0)
			break;
	return n < MAX_COLORS ? n : MAX_COLORS - 1;
}

static void put_chart(struct sc_page *page, const struct sc_validation *v)
{
	double *at = sc_xcalloc((size_t)2 * MAX_COLORS * (v->n_cases + 1), sizeof(*at));
	const char **labels = sc_xcalloc(MAX_COLORS * (v->n_cases + 1), sizeof(*labels));
	struct sc_series series[MAX_COLORS];
	size_t n = 1, n_first = 0;

	while (n_first < v->n_groups && v->groups[n_first].column == v->groups[0].column)
		n_first++;
	for (size_t k = 0; k < MAX_COLORS; k++) {
		double *x = at + 2 * k * (v->n_cases + 1);
		bool is_rest = k + 1 == MAX_COLORS && n_first > MAX_COLORS;

		series[k] = (struct sc_series){"all",
					       sc_chart_color(k),
					       x,
					       x + v->n_cases + 1,
					       labels + k * (v->n_cases + 1),
					       0,
					       SC_POINTS};
		if (k < n_first) {
			series[k].name = is_rest ? "others" : v->groups[k].value;
			n = k + 1;
		}
	}
	for (size_t i = 0; i < v->n_cases; i++) {
		const struct sc_case *c = &v->cases[i];
		struct sc_series *s = &series[color_of(v, c)];

		if (c->skipped)
			continue;
		((double *)(uintptr_t)s->x)[s->n] = c->measured_ms;
		((double *)(uintptr_t)s->y)[s->n] = c->outcome.iteration_ms;
		((const char **)(uintptr_t)s->label)[s->n++] = c->name;
	}
	sc_page_heading(page, "Predicted against measured");
	sc_chart(page, &(struct sc_chart){.x_label = "measured, ms",
					  .y_label = "predicted, ms",
					  .log_x = true,
					  .log_y = true,
					  .equal = true,
					  .series = series,
					  .n_series = n});
	free(at);
	free((void *)labels);
}

static void put_cases(struct sc_page *page, const struct sc_validation *v)
{
	const double none = (double)NAN;

	sc_page_heading(page, "Cases");
	sc_page_table(page, "case|measured ms#|predicted ms#|off %#|low#|high#|");
	for (size_t i = 0; i < v->n_cases && i < MAX_CASES_SHOWN; i++) {
		const struct sc_case *c = &v->cases[i];
		const int digits = c->measured_ms < 10 ? 4 : 2;

		sc_page_cell(page, "%s", c->name);
		sc_page_number(page, digits, c->measured_ms);
		sc_page_number(page, digits, c->skipped ? none : c->outcome.iteration_ms);
		sc_page_number(page, 2, c->skipped ? none : c->error_pct);
		sc_page_number(page, digits, c->skipped ? none : c->outcome.low_ms);
		sc_page_number(page, digits, c->skipped ? none : c->outcome.high_ms);
		sc_page_cell(page, "%s", c->skipped ? c->skipped : "");
	}
	sc_page_table_end(page);
	if (v->n_cases > MAX_CASES_SHOWN)
		sc_page_text(page, "And %zu more; --out-cases writes all.",
			     v->n_cases - MAX_CASES_SHOWN);
}

/* The bands are the promise: where they hold, all is well. */
static enum sc_verdict verdict_of(const struct sc_score *all)
{
	enum { MOST_PCT = 65, HALF_PCT = 50 };

	if (all->accuracy.n == 0 || all->coverage_pct < HALF_PCT)
		return SC_VERDICT_BAD;
	return all->n_skipped == 0 && all->coverage_pct >= MOST_PCT ? SC_VERDICT_GOOD
								    : SC_VERDICT_FAIR;
}

void sc_html_validation(const char *title, const struct sc_validation *v, struct sc_strbuf *out)
{
	const struct sc_accuracy *a = &v->all.accuracy;
	struct sc_page page;
	char figure[64];

	sc_page_begin(&page, "validate", title, out);
	snprintf(figure, sizeof(figure), "%.2f %%", a->mape_pct);
	if (a->n)
		sc_page_figure(&page, figure, "mean absolute error, median %.2f %%, p90 %.2f %%",
			       a->median_ape_pct, a->p90_ape_pct);
	sc_page_verdict(
		&page, verdict_of(&v->all),
		"%zu of %zu rows were predicted; %.0f %% of the measured times are in their "
		"bands, which should hold 80 %%.",
		a->n, v->all.n_rows, a->n ? v->all.coverage_pct : 0);
	put_chart(&page, v);
	put_groups(&page, v);
	put_cases(&page, v);
	sc_page_end(&page);
}
