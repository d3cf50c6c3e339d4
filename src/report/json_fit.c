/* A fit as JSON. */
#include <math.h>

#include "base/json_out.h"
#include "report/fit_report.h"
#include "report/json.h"

enum { FIT_VERSION = 2, MAX_POINTS = 1000 };

static void put_accuracy(struct sc_json *json, json_t *object, const struct sc_accuracy *a)
{
	sc_json_int(json, object, "n", (int64_t)a->n);
	sc_json_real(json, object, "mape_pct", a->mape_pct);
	sc_json_real(json, object, "median_ape_pct", a->median_ape_pct);
	sc_json_real(json, object, "p90_ape_pct", a->p90_ape_pct);
	sc_json_real(json, object, "bias_pct", a->bias_pct);
}

/* null where it is not known. */
static void put_known(struct sc_json *json, json_t *object, const char *key, double value)
{
	if (isnan(value))
		sc_json_text(json, object, key, NULL);
	else
		sc_json_real(json, object, key, value);
}

static void put_coefs(struct sc_json *json, const struct sc_fit *fit)
{
	json_t *array = sc_json_array(json, json->root, "coefficients");

	for (size_t i = 0; i < fit->coefs->n; i++) {
		const struct sc_fit_param *c = &fit->coefs->at[i];
		json_t *object = sc_json_object(json, array, NULL);

		sc_json_text(json, object, "block", c->block);
		sc_json_text(json, object, "name", c->name);
		sc_json_real(json, object, "value", c->value);
		sc_json_real(json, object, "start", c->start);
		if (fit->kind == SC_FIT_ITERATION)
			sc_json_real(json, object, "profile_value", c->old);
		sc_json_real(json, object, "lower", c->lower);
		sc_json_real(json, object, "upper", c->upper);
		sc_json_text(json, object, "status", sc_fit_status_name(c->status));
		put_known(json, object, "standard_error", c->standard_error);
		if (isnan(c->left_out_lowest))
			continue;
		sc_json_real(json, object, "left_out_lowest", c->left_out_lowest);
		sc_json_real(json, object, "left_out_highest", c->left_out_highest);
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

		sc_json_text(json, object, "by", r->by);
		sc_json_text(json, object, "value", r->value);
		put_accuracy(json, object, &r->accuracy);
		sc_json_real(json, object, "before_mape_pct", r->before_mape_pct);
		sc_json_real(json, object, "spread_frac", r->spread_frac);
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

int sc_json_fit(const struct sc_fit *fit, FILE *out, struct sc_err *err)
{
	const bool of_iterations = fit->kind == SC_FIT_ITERATION;
	struct sc_json json;

	sc_json_init(&json, "stepcast/fit", FIT_VERSION);
	sc_json_text(&json, json.root, "kind",
		     of_iterations ? "iteration" : sc_fit_kind_names[fit->kind]);
	sc_json_text(&json, json.root, "device", fit->device_id);
	sc_json_text(&json, json.root, "table", fit->table);
	sc_json_int(&json, json.root, "n_rows", (int64_t)fit->n_rows);
	sc_json_int(&json, json.root, of_iterations ? "n_configs" : "n_shapes",
		    (int64_t)fit->n_shapes);
	sc_json_int(&json, json.root, "n_folds", (int64_t)fit->n_folds);
	sc_json_int(&json, json.root, "n_curves", (int64_t)fit->curves.n);
	sc_json_text(&json, json.root, "left_out_by", fit->leave_out);
	sc_json_int(&json, json.root, "n_used", (int64_t)fit->n_used);
	sc_json_int(&json, json.root, "n_not_chosen", (int64_t)fit->n_other);
	sc_json_int(&json, json.root, "n_without_time", (int64_t)fit->n_empty);
	sc_json_int(&json, json.root, "n_forced_algorithm", (int64_t)fit->n_forced);
	sc_json_int(&json, json.root, "n_quality_bound", (int64_t)fit->n_bound);
	sc_json_int(&json, json.root, "n_duplicates", (int64_t)fit->n_repeated);
	if (fit->n_repeated)
		sc_json_real(&json, json.root, "duplicate_floor_pct", fit->repeated_pct);
	put_accuracy(&json, sc_json_object(&json, json.root, "before"), &fit->before);
	put_accuracy(&json, sc_json_object(&json, json.root, "in_sample"), &fit->in_sample);
	if (fit->held_out.n > 0) {
		put_accuracy(&json, sc_json_object(&json, json.root, "held_out"), &fit->held_out);
		sc_json_real(&json, json.root, "spread_frac", fit->spread_frac);
		sc_json_verdict(&json,
				fit->held_out.mape_pct <= fit->before.mape_pct ? SC_STANDS_WELL
									       : SC_STANDS_FAIR,
				"%.2f %% mean error on rows that the fit did not see; %.2f %% "
				"before.",
				fit->held_out.mape_pct, fit->before.mape_pct);
	}
	if (fit->formula.n > 0)
		put_accuracy(&json, sc_json_object(&json, json.root, "held_out_without_curves"),
			     &fit->formula);
	if (!isnan(fit->group_median_pct))
		sc_json_real(&json, json.root, "group_median_ape_pct", fit->group_median_pct);
	sc_json_real(&json, json.root, "condition", fit->condition);
	put_coefs(&json, fit);
	put_lists(&json, fit);
	return sc_json_write(&json, out, err);
}
