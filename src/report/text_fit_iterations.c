/* A fit to iterations as text: errors, coefficients, the groups that fared worst, what was skipped. */
#include <math.h>
#include <stdlib.h>

#include "report/fit_iterations_report.h"

enum { MAX_GROUPS = 10, MAX_SKIPPED = 8 };

static void append_accuracy(struct sc_strbuf *out, const char *name, const struct sc_accuracy *a)
{
	sc_strbuf_printf(out, "%-34.60s %6zu %8.2f %8.2f %8.2f %+8.2f\n", name, a->n, a->mape_pct,
			 a->median_ape_pct, a->p90_ape_pct, a->bias_pct);
}

static void append_errors(const struct sc_itfit *fit, struct sc_strbuf *out)
{
	char name[64];

	sc_strbuf_printf(out, "iterations of %s: %zu rows, %zu different configs\n", fit->table,
			 fit->n_rows, fit->n_configs);
	sc_strbuf_printf(out, "\n%-34s %6s %8s %8s %8s %8s\n", "error", "n", "MAPE %", "median %",
			 "p90 %", "bias %");
	append_accuracy(out, "as it was", &fit->before);
	append_accuracy(out, "in sample", &fit->in_sample);
	if (fit->n_groups) {
		snprintf(name, sizeof(name), "left out, %zu groups", fit->n_groups);
		append_accuracy(out, name, &fit->left_out);
	}
	if (fit->n_duplicates)
		sc_strbuf_printf(out, "%-34s %6zu %8.2f  from the mean of equal configs\n",
				 "measured twice or more", fit->n_duplicates,
				 fit->duplicate_floor_pct);
}

static const char *remark(const struct sc_itfit_coef *coef)
{
	if (!coef->has_effect)
		return "  no row depends on it: as it was";
	return coef->at_bound ? "  at its bound" : "";
}

static void append_coefs(const struct sc_itfit *fit, struct sc_strbuf *out)
{
	char name[160];

	sc_strbuf_printf(out, "\n%-46s %10s %10s %9s %9s %9s %9s", "coefficient", "value", "start",
			 "lower", "upper", "-20 %", "+20 %");
	sc_strbuf_append(out, fit->n_groups ? "   left out\n" : "\n");
	for (size_t i = 0; i < fit->n_coefs; i++) {
		const struct sc_itfit_coef *c = &fit->coefs[i];

		snprintf(name, sizeof(name), "%s:%s.%s", c->of_device ? "device" : "software",
			 c->id, c->field);
		sc_strbuf_printf(out, "%-46s %10.5g %10.5g %9.3g %9.3g %+9.2f %+9.2f", name,
				 c->value, c->start, c->lower, c->upper, c->rise_pct[0],
				 c->rise_pct[1]);
		if (fit->n_groups)
			sc_strbuf_printf(out, "   %.4g to %.4g", c->left_out_lowest,
					 c->left_out_highest);
		sc_strbuf_printf(out, "%s\n", remark(c));
	}
	sc_strbuf_append(out,
			 "(-20 %, +20 %: what that change of the value adds to the mean error, in "
			 "percent)\n");
}

static int by_error(const void *a, const void *b)
{
	const struct sc_itfit_group *x = *(const struct sc_itfit_group *const *)a;
	const struct sc_itfit_group *y = *(const struct sc_itfit_group *const *)b;

	if (x->left_out.mape_pct > y->left_out.mape_pct)
		return -1;
	if (x->left_out.mape_pct < y->left_out.mape_pct)
		return 1;
	return x < y ? -1 : x > y;
}

static void append_groups(const struct sc_itfit *fit, struct sc_strbuf *out)
{
	const struct sc_itfit_group **worst = sc_xrealloc(NULL, fit->n_groups, sizeof(*worst));
	size_t n = fit->n_groups < MAX_GROUPS ? fit->n_groups : MAX_GROUPS;

	for (size_t i = 0; i < fit->n_groups; i++)
		worst[i] = &fit->groups[i];
	qsort(worst, fit->n_groups, sizeof(*worst), by_error);
	sc_strbuf_printf(out, "\nleft out by %s%s\n%-34s %6s %8s %8s %8s %8s\n", fit->leave_out,
			 n < fit->n_groups ? ", the worst" : "", "", "n", "before %", "MAPE %",
			 "p90 %", "bias %");
	for (size_t i = 0; i < n; i++) {
		const struct sc_itfit_group *g = worst[i];

		sc_strbuf_printf(out, "%-34.60s %6zu %8.2f %8.2f %8.2f %+8.2f",
				 *g->value ? g->value : "(empty)", g->left_out.n,
				 g->before.mape_pct, g->left_out.mape_pct, g->left_out.p90_ape_pct,
				 g->left_out.bias_pct);
		if (g->n_undetermined)
			sc_strbuf_printf(out,
					 "  %zu of the coefficients at their starts: no "
					 "other row says",
					 g->n_undetermined);
		sc_strbuf_append_char(out, '\n');
	}
	free(worst);
}

static void append_skipped(const struct sc_score *score, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "\nskipped %zu of %zu rows\n", score->n_skipped, score->n_rows);
	for (size_t i = 0; i < score->n_skipped && i < MAX_SKIPPED; i++)
		sc_strbuf_printf(out, "  %s: %s\n", score->skipped[i]->name,
				 score->skipped[i]->skipped);
	if (score->n_skipped > MAX_SKIPPED)
		sc_strbuf_printf(out, "  and %zu more; --json lists them\n",
				 score->n_skipped - MAX_SKIPPED);
}

void sc_text_itfit(const struct sc_itfit *fit, struct sc_strbuf *out)
{
	append_errors(fit, out);
	append_coefs(fit, out);
	if (fit->n_groups)
		append_groups(fit, out);
	if (fit->validation->all.n_skipped)
		append_skipped(&fit->validation->all, out);
}
