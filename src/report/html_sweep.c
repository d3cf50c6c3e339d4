/* A sweep as a page: what is fastest and fits, the landscape, every case. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/html_cases.h"
#include "report/sweep_csv.h"

enum { MAX_CASES_SHOWN = 3000, MAX_POINTS_SHOWN = 4000 };

/* Columns of the cases whose cells differ. */
struct varied {
	size_t *columns, n;
};

static void find_varied(const struct sc_csv *cases, struct varied *out)
{
	out->columns = sc_xcalloc(cases->n_cols + 1, sizeof(*out->columns));
	out->n = 0;
	for (size_t c = 0; c < cases->n_cols; c++)
		for (size_t r = 1; r < cases->n_rows; r++)
			if (strcmp(sc_csv_cell(cases, r, c), sc_csv_cell(cases, 0, c)) != 0) {
				out->columns[out->n++] = c;
				break;
			}
}

/* "parallel.tp 4, parallel.pp 2". */
static void append_settings(const struct sc_csv *cases, const struct varied *varied, size_t row,
			    struct sc_strbuf *out)
{
	for (size_t i = 0; i < varied->n; i++)
		sc_strbuf_printf(out, "%s%s %s", i ? ", " : "", cases->header[varied->columns[i]],
				 sc_csv_cell(cases, row, varied->columns[i]));
	if (varied->n == 0)
		sc_strbuf_append(out, "the only case");
}

static void put_verdict(struct sc_page *page, const struct sc_csv *cases,
			const struct sc_outcome *outcomes, const struct varied *varied)
{
	const struct sc_outcome *best = NULL;
	size_t n_fit = 0, n_done = 0;
	struct sc_strbuf text = {0};
	char figure[64];

	for (size_t i = 0; i < cases->n_rows; i++) {
		n_done += outcomes[i].code == SC_OK;
		if (outcomes[i].code != SC_OK || !outcomes[i].fits)
			continue;
		n_fit++;
		if (!best || outcomes[i].iteration_ms < best->iteration_ms)
			best = &outcomes[i];
	}
	if (best) {
		append_settings(cases, varied, (size_t)(best - outcomes), &text);
		snprintf(figure, sizeof(figure), "%.2f ms", best->iteration_ms);
		sc_page_figure(page, figure, "the fastest that fits: %s", sc_strbuf_get(&text));
	}
	sc_page_verdict(page,
			n_fit == 0              ? SC_VERDICT_BAD
			: n_fit < cases->n_rows ? SC_VERDICT_FAIR
						: SC_VERDICT_GOOD,
			"%s%zu of %zu cases fit the memory; %zu could not be predicted.",
			n_fit == 0 && n_done ? "Does not fit: " : "", n_fit, cases->n_rows,
			cases->n_rows - n_done);
	sc_strbuf_release(&text);
}

/* The cases that fit, or not. */
static void add_points(const struct sc_csv *cases, const struct sc_outcome *outcomes, bool fit,
		       const char *const *names, struct sc_series *out)
{
	double *x = sc_xcalloc(2 * cases->n_rows + 1, sizeof(*x)), *y = x + cases->n_rows;
	const char **labels = sc_xcalloc(cases->n_rows + 1, sizeof(*labels));

	*out = (struct sc_series){fit ? "fits" : "does not fit",
				  fit ? "#3ca951" : "#ff725c",
				  x,
				  y,
				  labels,
				  0,
				  SC_POINTS};
	for (size_t i = 0; i < cases->n_rows && out->n < MAX_POINTS_SHOWN; i++) {
		if (outcomes[i].code != SC_OK || outcomes[i].fits != fit)
			continue;
		x[out->n] = outcomes[i].memory_total_gib;
		y[out->n] = outcomes[i].iteration_ms;
		labels[out->n++] = names[i];
	}
}

static void put_landscape(struct sc_page *page, const struct sc_csv *cases,
			  const struct sc_outcome *outcomes, const char *const *names)
{
	struct sc_series series[2];

	add_points(cases, outcomes, true, names, &series[0]);
	add_points(cases, outcomes, false, names, &series[1]);
	sc_page_heading(page, "Time against memory");
	sc_chart(page, &(struct sc_chart){.x_label = "GiB of a GPU",
					  .y_label = "ms an iteration",
					  .log_y = true,
					  .series = series,
					  .n_series = 2});
	for (int i = 0; i < 2; i++) {
		free((void *)series[i].x);
		free((void *)series[i].label);
	}
}

/* The least time over all other columns, for the first two that vary. */
static void put_map(struct sc_page *page, const struct sc_csv *cases,
		    const struct sc_outcome *outcomes, const struct varied *varied)
{
	double *values = sc_xcalloc(cases->n_rows + 1, sizeof(*values));

	for (size_t i = 0; i < cases->n_rows; i++)
		values[i] = outcomes[i].code == SC_OK && outcomes[i].fits ? outcomes[i].iteration_ms
									  : (double)NAN;
	if (varied->n >= 2)
		sc_page_cases_map(page, "Least time of what fits",
				  &(struct sc_cases_map){cases, varied->columns[0],
							 varied->columns[1], values, NULL, "ms"});
	free(values);
}

static void put_case(struct sc_page *page, const struct sc_csv *cases, size_t row,
		     const struct varied *varied, const struct sc_outcome *o)
{
	sc_page_cell(page, "%zu", row + 1);
	for (size_t i = 0; i < varied->n; i++)
		sc_page_cell(page, "%s", sc_csv_cell(cases, row, varied->columns[i]));
	if (o->code != SC_OK) {
		for (int i = 0; i < 5; i++)
			sc_page_cell(page, "%s", "");
		sc_page_cell(page, "%s", o->error);
		return;
	}
	sc_page_cell(page, "%.2f", o->iteration_ms);
	sc_page_cell(page, "%.2f", o->low_ms);
	sc_page_cell(page, "%.2f", o->high_ms);
	sc_page_cell(page, "%.1f", o->memory_total_gib);
	sc_page_cell(page, "%.1f", 100 * o->mfu);
	sc_page_cell(page, "%s", o->fits ? "fits" : "does not fit");
}

static void put_cases(struct sc_page *page, const struct sc_csv *cases,
		      const struct sc_outcome *outcomes, const struct varied *varied)
{
	struct sc_strbuf heads = {0};

	sc_page_head(&heads, "case", true);
	for (size_t i = 0; i < varied->n; i++)
		sc_page_head(&heads, cases->header[varied->columns[i]], false);
	sc_strbuf_append(&heads, "|ms#|low#|high#|GiB#|MFU %#|");
	sc_page_heading(page, "Cases");
	sc_page_table(page, sc_strbuf_get(&heads));
	for (size_t i = 0; i < cases->n_rows && i < MAX_CASES_SHOWN; i++)
		put_case(page, cases, i, varied, &outcomes[i]);
	sc_page_table_end(page);
	if (cases->n_rows > MAX_CASES_SHOWN)
		sc_page_text(page, "And %zu more; the CSV has all.",
			     cases->n_rows - MAX_CASES_SHOWN);
	sc_strbuf_release(&heads);
}

void sc_html_sweep(const char *title, const struct sc_csv *cases, const struct sc_outcome *outcomes,
		   struct sc_strbuf *out)
{
	const char **names = sc_xcalloc(cases->n_rows + 1, sizeof(*names));
	struct sc_strbuf name = {0};
	struct varied varied;
	struct sc_page page;

	find_varied(cases, &varied);
	for (size_t i = 0; i < cases->n_rows; i++) {
		append_settings(cases, &varied, i, &name);
		names[i] = sc_strbuf_detach(&name);
	}
	sc_page_begin(&page, "sweep", title, out);
	put_verdict(&page, cases, outcomes, &varied);
	put_landscape(&page, cases, outcomes, names);
	put_map(&page, cases, outcomes, &varied);
	put_cases(&page, cases, outcomes, &varied);
	sc_page_end(&page);
	for (size_t i = 0; i < cases->n_rows; i++)
		free((void *)names[i]);
	free((void *)names);
	free(varied.columns);
}
