/* A fit as text: what it saw, its errors, the coefficients, the regions, what was skipped; then
 * what a calibration, which is a fit, says besides: the band to expect of further runs. */
#include "report/fit_report.h"

#include <math.h>
#include <string.h>

#include "base/json_out.h"
#include "base/units.h"
#include "report/parts.h"
#include "report/sweep_report.h"

enum { MAX_SKIPPED = 8 };

static void append_counts(const struct sc_fit *fit, struct sc_strbuf *out)
{
	if (fit->kind == SC_FIT_ITERATION) {
		sc_strbuf_printf(out, "iterations of %s: %zu rows, %zu different configs\n",
				 fit->table, fit->n_rows, fit->n_shapes);
		return;
	}
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

/* spread_frac: NAN: not shown. */
static void append_accuracy(struct sc_strbuf *out, const char *name, const struct sc_accuracy *a,
			    double spread_frac)
{
	sc_strbuf_printf(out, "%-30.60s %7zu %8.2f %8.2f %8.2f %+8.2f", name, a->n, a->mape_pct,
			 a->median_ape_pct, a->p90_ape_pct, a->bias_pct);
	if (!isnan(spread_frac))
		sc_strbuf_printf(out, " %8.2f", spread_frac * SC_PCT);
	sc_strbuf_append_char(out, '\n');
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
	append_accuracy(out, "as it was", &fit->before, NAN);
	append_accuracy(out, "in sample", &fit->in_sample, NAN);
	if (fit->held_out.n > 0)
		append_accuracy(out, folds, &fit->held_out, fit->spread_frac);
	if (!isnan(fit->group_median_pct))
		sc_strbuf_printf(out, "%-30s %25.2f\n", "median of their medians",
				 fit->group_median_pct);
	if (fit->formula.n > 0)
		append_accuracy(out, "the same without curves", &fit->formula,
				fit->formula_spread_frac);
	if (fit->n_repeated > 0)
		sc_strbuf_printf(out, "%-30s %7zu %8.2f  from the mean of equal configs\n",
				 "measured twice or more", fit->n_repeated, fit->repeated_pct);
}

static void append_coefs(const struct sc_fit *fit, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "\n%-34s %11s %10s %11s %9s %9s\n", "coefficient", "value", "+-",
			 "start", "lower", "upper");
	for (size_t i = 0; i < fit->coefs->n; i++) {
		const struct sc_fit_param *c = &fit->coefs->at[i];

		sc_strbuf_printf(out, "%-16.40s %-17.24s %11.5g", c->block, c->name, c->value);
		if (isnan(c->standard_error))
			sc_strbuf_printf(out, " %10s", "-");
		else
			sc_strbuf_printf(out, " %10.2g", c->standard_error);
		sc_strbuf_printf(out, " %11.5g %9.3g %9.3g", c->start, c->lower, c->upper);
		if (c->status != SC_FIT_FITTED)
			sc_strbuf_printf(out, "  %s", sc_fit_status_names[c->status]);
		else if (fit->kind == SC_FIT_ITERATION && !isnan(c->left_out_lowest))
			sc_strbuf_printf(out, "  left out %.4g to %.4g", c->left_out_lowest,
					 c->left_out_highest);
		sc_strbuf_append_char(out, '\n');
	}
	if (fit->curves.n > 0)
		sc_strbuf_printf(out, "curves: %zu, of %s each\n", fit->curves.n,
				 fit->kind == SC_FIT_GEMM ? "one weight matrix"
							  : "a collective on as many ranks");
	if (!isnan(fit->condition))
		sc_strbuf_printf(out, "condition of the fitted ones: %.3g\n", fit->condition);
}

static void put_fit_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_fit *fit = result;
	const char *by = "";

	append_counts(fit, out);
	append_errors(fit, out);
	append_coefs(fit, out);
	for (size_t i = 0; i < fit->n_regions; i++) {
		const struct sc_fit_region *r = &fit->regions[i];

		if (strcmp(by, r->by) != 0)
			sc_strbuf_printf(out, "\n%s out, by %s\n", fit->leave_out ? "left" : "held",
					 r->by);
		by = r->by;
		append_accuracy(out, *r->value ? r->value : "(empty)", &r->accuracy,
				r->spread_frac);
	}
	if (fit->n_skipped > 0)
		sc_strbuf_printf(out, "\nskipped %zu of %zu rows\n", fit->n_skipped,
				 fit->n_skipped + fit->n_rows);
	for (size_t i = 0; i < fit->n_skipped && i < MAX_SKIPPED; i++)
		sc_strbuf_printf(out, "  %s: %s\n", fit->skipped[i].row, fit->skipped[i].reason);
	if (fit->n_skipped > MAX_SKIPPED)
		sc_strbuf_printf(out, "  and %zu more; --json lists them\n",
				 fit->n_skipped - MAX_SKIPPED);
}

/* A fit as JSON. */

enum { FIT_VERSION = 2, MAX_POINTS = 1000 };

static void put_accuracy(struct sc_json *json, json_t *object, const struct sc_accuracy *a)
{
	SC_JSON_PUT(json, object, *a, n, mape_pct, median_ape_pct, p90_ape_pct, bias_pct);
}

static void put_coefs(struct sc_json *json, const struct sc_fit *fit)
{
	json_t *array = sc_json_array(json, json->root, "coefficients");

	for (size_t i = 0; i < fit->coefs->n; i++) {
		const struct sc_fit_param *c = &fit->coefs->at[i];
		json_t *object = sc_json_object(json, array, NULL);

		SC_JSON_PUT(json, object, *c, block, name, value, start);
		if (fit->kind == SC_FIT_ITERATION)
			sc_json_real(json, object, "profile_value", c->old);
		SC_JSON_PUT(json, object, *c, lower, upper);
		sc_json_text(json, object, "status", sc_fit_status_names[c->status]);
		sc_json_known_real(json, object, "standard_error", c->standard_error);
		if (isnan(c->left_out_lowest))
			continue;
		SC_JSON_PUT(json, object, *c, left_out_lowest, left_out_highest);
	}
}

static void put_lists(struct sc_json *json, const struct sc_fit *fit)
{
	json_t *list = sc_json_array(json, json->root, "points");

	for (size_t i = 0, every = 1 + fit->n_rows / MAX_POINTS; i < fit->n_rows; i += every) {
		json_t *pair;

		if (isnan(fit->points[i].held_out_us))
			continue;
		pair = sc_json_array(json, list, NULL);
		sc_json_real(json, pair, NULL, fit->points[i].measured_us);
		sc_json_real(json, pair, NULL, fit->points[i].held_out_us);
	}
	list = sc_json_object(json, json->root, "range");
	for (size_t i = 0; i < fit->n_ranges; i++) {
		json_t *pair = sc_json_array(json, list, fit->ranges[i].name);

		sc_json_real(json, pair, NULL, fit->ranges[i].lowest);
		sc_json_real(json, pair, NULL, fit->ranges[i].highest);
	}
	list = sc_json_array(json, json->root, "regions");
	for (size_t i = 0; i < fit->n_regions; i++) {
		const struct sc_fit_region *r = &fit->regions[i];
		json_t *object = sc_json_object(json, list, NULL);

		SC_JSON_PUT(json, object, *r, by, value);
		put_accuracy(json, object, &r->accuracy);
		SC_JSON_PUT(json, object, *r, before_mape_pct, spread_frac);
	}
	list = sc_json_array(json, json->root, "sources");
	for (size_t i = 0; i < fit->n_sources; i++)
		sc_json_text(json, list, NULL, fit->sources[i]);
	list = sc_json_array(json, json->root, "skipped");
	for (size_t i = 0; i < fit->n_skipped; i++) {
		json_t *object = sc_json_object(json, list, NULL);

		sc_json_text(json, object, "case", fit->skipped[i].row);
		sc_json_text(json, object, "reason", fit->skipped[i].reason);
	}
}

static void put_fit_json(const void *result, struct sc_json *json)
{
	const struct sc_fit *fit = result;
	const bool of_iterations = fit->kind == SC_FIT_ITERATION;

	sc_json_init(json, "stepcast/fit", FIT_VERSION);
	sc_json_text(json, json->root, "kind",
		     of_iterations ? "iteration" : sc_fit_kind_names[fit->kind]);
	sc_json_text(json, json->root, "device", fit->device_id);
	SC_JSON_PUT(json, json->root, *fit, table, n_rows, n_folds, n_used);
	sc_json_int(json, json->root, of_iterations ? "n_configs" : "n_shapes",
		    (int64_t)fit->n_shapes);
	sc_json_int(json, json->root, "n_curves", (int64_t)fit->curves.n);
	sc_json_text(json, json->root, "left_out_by", fit->leave_out);
	sc_json_int(json, json->root, "n_not_chosen", (int64_t)fit->n_other);
	sc_json_int(json, json->root, "n_without_time", (int64_t)fit->n_empty);
	sc_json_int(json, json->root, "n_forced_algorithm", (int64_t)fit->n_forced);
	sc_json_int(json, json->root, "n_quality_bound", (int64_t)fit->n_bound);
	sc_json_int(json, json->root, "n_duplicates", (int64_t)fit->n_repeated);
	if (fit->n_repeated)
		sc_json_real(json, json->root, "duplicate_floor_pct", fit->repeated_pct);
	put_accuracy(json, sc_json_object(json, json->root, "before"), &fit->before);
	put_accuracy(json, sc_json_object(json, json->root, "in_sample"), &fit->in_sample);
	if (fit->held_out.n > 0) {
		put_accuracy(json, sc_json_object(json, json->root, "held_out"), &fit->held_out);
		sc_json_real(json, json->root, "spread_frac", fit->spread_frac);
		sc_json_verdict(json,
				fit->held_out.mape_pct <= fit->before.mape_pct ? SC_STANDS_WELL
									       : SC_STANDS_FAIR,
				"%s: %.2f %% mean error on rows that the fit did not see; %.2f %% "
				"before.",
				of_iterations ? fit->table : fit->device_id, fit->held_out.mape_pct,
				fit->before.mape_pct);
	}
	if (fit->formula.n > 0)
		put_accuracy(json, sc_json_object(json, json->root, "held_out_without_curves"),
			     &fit->formula);
	if (!isnan(fit->group_median_pct))
		sc_json_real(json, json->root, "group_median_ape_pct", fit->group_median_pct);
	sc_json_known_real(json, json->root, "condition", fit->condition);
	put_coefs(json, fit);
	put_lists(json, fit);
}

const struct sc_forms sc_fit_forms = {.json = put_fit_json, .text = put_fit_text};

/* The band with so many more runs that leave as much. */
static double band_pct(const struct sc_calibration *c, size_t n_more)
{
	return SC_PCT *
	       expm1(sc_calibration_band_ln(c->start_ln, c->rms_ln, c->fit.n_rows + n_more));
}

static void put_calibration_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_calibration *c = result;
	const size_t k = c->fit.n_rows;

	sc_fit_forms.text(&c->fit, out);
	sc_strbuf_printf(
		out,
		"\nband        +- %.0f %% holds 80 %% of other runs of this stack; %.0f %% "
		"before. With %zu, %zu more runs like these +- %.0f, %.0f %%\n",
		band_pct(c, 0), SC_PCT * expm1(c->start_ln), k, 3 * k, band_pct(c, k),
		band_pct(c, 3 * k));
	for (size_t i = 0; i < c->fit.coefs->n; i++)
		if (c->fit.coefs->at[i].status == SC_FIT_LEANT)
			sc_strbuf_printf(out,
					 "%-19s is hardly told by these runs; it shows in %s\n",
					 c->fit.coefs->at[i].name, c->runs[i]);
	sc_text_unlike(c->validation, out);
}

static void put_calibration_json(const void *result, struct sc_json *json)
{
	const struct sc_calibration *c = result;
	json_t *unlike;

	sc_fit_forms.json(&c->fit, json);
	SC_JSON_PUT(json, json->root, *c, software, band_ln);
	sc_json_real(json, json->root, "start_band_ln", c->start_ln);
	sc_json_real(json, json->root, "left_rms_ln", c->rms_ln);
	unlike = sc_json_array(json, json->root, "unlike_kin");
	for (size_t i = 0; i < c->validation->n_cases; i++)
		if (c->validation->cases[i].kin)
			sc_json_text(json, unlike, NULL, c->validation->cases[i].name);
}

const struct sc_forms sc_calibration_forms = {.json = put_calibration_json,
					      .text = put_calibration_text};

void sc_yaml_calibration(const struct sc_calibration *c, const char *id, struct sc_strbuf *out)
{
	sc_yaml_fit(&c->fit, id, out);
	sc_strbuf_printf(out, "band_ln: %.4g # of %zu runs\n", c->band_ln, c->fit.n_rows);
}
