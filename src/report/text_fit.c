/* A fit as text: what it saw, its errors, the coefficients, the regions. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "report/fit_report.h"

static void append_counts(const struct sc_fit *fit, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "%s of %s: %zu rows of %s, %zu shapes\n",
			 sc_fit_kind_names[fit->kind], fit->device_id, fit->n_rows, fit->table,
			 fit->n_shapes);
	sc_strbuf_append(out, "sources ");
	for (size_t i = 0; i < fit->n_sources; i++)
		sc_strbuf_printf(out, "%s %s", i ? "," : "",
				 *fit->sources[i] ? fit->sources[i] : "-");
	sc_strbuf_append(out, "\nrange   ");
	for (size_t i = 0; i < fit->n_ranges; i++)
		sc_strbuf_printf(out, "%s %s %.6g to %.6g", i ? "," : "", fit->ranges[i].name,
				 fit->ranges[i].lowest, fit->ranges[i].highest);
	sc_strbuf_append(out, "\n");
	if (fit->n_empty)
		sc_strbuf_printf(out, "left out: %zu rows without a time\n", fit->n_empty);
	if (fit->n_forced)
		sc_strbuf_printf(out, "left out: %zu rows of forced algorithms\n", fit->n_forced);
	if (fit->n_bound)
		sc_strbuf_printf(out,
				 "left out: %zu rows of quality bound, with waiting in their times "
				 "(--where quality=bound takes them)\n",
				 fit->n_bound);
	if (fit->n_used < fit->n_rows)
		sc_strbuf_printf(out, "fitted to %zu of them, evenly taken; errors are of all\n",
				 fit->n_used);
}

static void append_accuracy(struct sc_strbuf *out, const char *name, const struct sc_accuracy *a)
{
	sc_strbuf_printf(out, "%-30.60s %7zu %8.2f %8.2f %8.2f %+8.2f", name, a->n, a->mape_pct,
			 a->median_ape_pct, a->p90_ape_pct, a->bias_pct);
}

static void append_errors(const struct sc_fit *fit, struct sc_strbuf *out)
{
	char folds[64];

	if (fit->leave_out)
		snprintf(folds, sizeof(folds), "left out, by %s", fit->leave_out);
	else
		snprintf(folds, sizeof(folds), "held out, %zu folds", fit->n_folds);
	sc_strbuf_printf(out, "\n%-30s %7s %8s %8s %8s %8s %8s\n", "error", "n", "MAPE %",
			 "median %", "p90 %", "bias %", "spread %");
	append_accuracy(out, "as it was", &fit->before);
	sc_strbuf_append_char(out, '\n');
	append_accuracy(out, "in sample", &fit->in_sample);
	sc_strbuf_append_char(out, '\n');
	append_accuracy(out, folds, &fit->held_out);
	sc_strbuf_printf(out, " %8.2f\n", fit->spread_frac * SC_PCT);
	if (!isnan(fit->group_median_pct))
		sc_strbuf_printf(out, "%-30s %25.2f\n", "median of their medians",
				 fit->group_median_pct);
	if (fit->formula.n == 0)
		return;
	append_accuracy(out, "the same without curves", &fit->formula);
	sc_strbuf_printf(out, " %8.2f\n", fit->formula_spread_frac * SC_PCT);
}

static void append_coefs(const struct sc_fit *fit, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "\n%-34s %11s %10s %11s %9s %9s\n", "coefficient", "value", "+-",
			 "start", "lower", "upper");
	for (size_t i = 0; i < fit->n_coefs; i++) {
		const struct sc_fit_coef *c = &fit->coefs[i];

		sc_strbuf_printf(out, "%-16.20s %-17.24s %11.5g", c->block, c->name, c->value);
		if (isnan(c->standard_error))
			sc_strbuf_printf(out, " %10s", "-");
		else
			sc_strbuf_printf(out, " %10.2g", c->standard_error);
		sc_strbuf_printf(out, " %11.5g %9.3g %9.3g", c->start, c->lower, c->upper);
		if (c->status != SC_FIT_FITTED)
			sc_strbuf_printf(out, "  %s", sc_fit_status_name(c->status));
		sc_strbuf_append_char(out, '\n');
	}
	if (fit->curves.n > 0)
		sc_strbuf_printf(out, "curves: %zu, of %s each\n", fit->curves.n,
				 fit->kind == SC_FIT_GEMM ? "one weight matrix"
							  : "a collective on as many ranks");
	if (fit->condition > 0)
		sc_strbuf_printf(out, "condition of the fitted ones: %.3g\n", fit->condition);
}

void sc_text_fit(const struct sc_fit *fit, struct sc_strbuf *out)
{
	const char *by = NULL;

	append_counts(fit, out);
	append_errors(fit, out);
	append_coefs(fit, out);
	for (size_t i = 0; i < fit->n_regions; i++) {
		const struct sc_fit_region *r = &fit->regions[i];

		if (!by || strcmp(by, r->by) != 0)
			sc_strbuf_printf(out, "\n%s out, by %s\n", fit->leave_out ? "left" : "held",
					 r->by);
		by = r->by;
		append_accuracy(out, r->value, &r->accuracy);
		sc_strbuf_printf(out, " %8.2f\n", r->spread_frac * SC_PCT);
	}
}
