/* A fit as a page: held-out errors, measured against predicted, coefficients, regions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "report/chart.h"
#include "report/fit_report.h"

enum { MAX_POINTS_SHOWN = 5000 };

static void put_chart(struct sc_page *page, const struct sc_fit *fit)
{
	size_t every = 1 + fit->n_rows / MAX_POINTS_SHOWN, n = 0;
	double *x = sc_xcalloc(2 * fit->n_rows + 1, sizeof(*x)), *y = x + fit->n_rows;
	struct sc_series series = {"held out", sc_chart_color(0), x, y, NULL, 0, SC_POINTS};

	for (size_t i = 0; i < fit->n_rows; i += every) {
		x[n] = fit->points[i].measured_us;
		y[n++] = fit->points[i].held_out_us;
	}
	series.n = n;
	sc_page_heading(page, "Predicted against measured");
	if (every > 1)
		sc_page_text(page, "Every %zu-th of %zu rows.", every, fit->n_rows);
	sc_chart(page, &(struct sc_chart){.x_label = "measured, us",
					  .y_label = "predicted by fits that did not see them, us",
					  .log_x = true,
					  .log_y = true,
					  .equal = true,
					  .series = &series,
					  .n_series = 1});
	free(x);
}

static void put_accuracy(struct sc_page *page, const char *name, const struct sc_accuracy *a)
{
	sc_page_cell(page, "%s", name);
	sc_page_cell(page, "%zu", a->n);
	sc_page_number(page, 2, a->mape_pct);
	sc_page_number(page, 2, a->median_ape_pct);
	sc_page_number(page, 2, a->p90_ape_pct);
	sc_page_number(page, 2, a->bias_pct);
}

static void put_errors(struct sc_page *page, const struct sc_fit *fit)
{
	sc_page_heading(page, "Errors");
	sc_page_table(page, "rows|n#|MAPE %#|median %#|p90 %#|bias %#");
	put_accuracy(page, "as it was", &fit->before);
	put_accuracy(page, "in sample", &fit->in_sample);
	put_accuracy(page, fit->leave_out ? "left out" : "held out", &fit->held_out);
	if (fit->formula.n)
		put_accuracy(page, "without curves", &fit->formula);
	for (size_t i = 0; i < fit->n_regions; i++) {
		char name[128];

		snprintf(name, sizeof(name), "%s %s", fit->regions[i].by, fit->regions[i].value);
		put_accuracy(page, name, &fit->regions[i].accuracy);
	}
	sc_page_table_end(page);
}

static void put_coefs(struct sc_page *page, const struct sc_fit *fit)
{
	sc_page_heading(page, "Coefficients");
	sc_page_table(page, "block|name|value#|standard error#|before#|lower#|upper#|");
	for (size_t i = 0; i < fit->n_coefs; i++) {
		const struct sc_fit_coef *c = &fit->coefs[i];

		sc_page_cell(page, "%s", c->block);
		sc_page_cell(page, "%s", c->name);
		sc_page_cell(page, "%.5g", c->value);
		if (isnan(c->standard_error))
			sc_page_cell(page, "%s", "");
		else
			sc_page_cell(page, "%.2g", c->standard_error);
		sc_page_cell(page, "%.5g", c->start);
		sc_page_cell(page, "%.3g", c->lower);
		sc_page_cell(page, "%.3g", c->upper);
		sc_page_cell(page, "%s",
			     c->status == SC_FIT_FITTED ? "" : sc_fit_status_name(c->status));
	}
	sc_page_table_end(page);
}

void sc_html_fit(const struct sc_fit *fit, struct sc_strbuf *out)
{
	struct sc_page page;
	char figure[64];

	sc_page_begin(&page, "fit", fit->device_id, out);
	snprintf(figure, sizeof(figure), "%.2f %%", fit->held_out.mape_pct);
	sc_page_figure(&page, figure,
		       "mean absolute error of %s on rows that the fit did not see; %.2f %% before",
		       sc_fit_kind_names[fit->kind], fit->before.mape_pct);
	sc_page_text(&page, "%zu rows of %s.", fit->n_rows, fit->table);
	put_chart(&page, fit);
	put_errors(&page, fit);
	put_coefs(&page, fit);
	sc_page_end(&page);
}
