/* A fit to iterations as JSON. */
#include <math.h>

#include "base/json_out.h"
#include "report/fit_iterations_report.h"
#include "report/fit_report.h"

enum { ITFIT_VERSION = 1 };

static void put_accuracy(struct sc_json *json, json_t *parent, const char *key,
			 const struct sc_accuracy *a)
{
	sc_json_accuracy(json, sc_json_object(json, parent, key), a);
}

static void put_coefs(struct sc_json *json, const struct sc_itfit *fit)
{
	json_t *array = sc_json_array(json, json->root, "coefficients");

	for (size_t i = 0; i < fit->n_coefs; i++) {
		const struct sc_itfit_coef *c = &fit->coefs[i];
		json_t *object = sc_json_object(json, array, NULL);

		sc_json_text(json, object, "kind", c->of_device ? "device" : "software");
		sc_json_text(json, object, "profile", c->id);
		sc_json_text(json, object, "field", c->field);
		sc_json_real(json, object, "value", c->value);
		sc_json_real(json, object, "start", c->start);
		sc_json_real(json, object, "profile_value", c->old);
		sc_json_real(json, object, "lower", c->lower);
		sc_json_real(json, object, "upper", c->upper);
		sc_json_real(json, object, "rise_at_0_8_pct", c->rise_pct[0]);
		sc_json_real(json, object, "rise_at_1_2_pct", c->rise_pct[1]);
		sc_json_bool(json, object, "has_effect", c->has_effect);
		sc_json_bool(json, object, "at_bound", c->at_bound);
		if (!fit->n_groups)
			continue;
		sc_json_real(json, object, "left_out_lowest", c->left_out_lowest);
		sc_json_real(json, object, "left_out_highest", c->left_out_highest);
	}
}

static void put_groups(struct sc_json *json, const struct sc_itfit *fit)
{
	json_t *array = sc_json_array(json, json->root, "groups");

	for (size_t i = 0; i < fit->n_groups; i++) {
		const struct sc_itfit_group *g = &fit->groups[i];
		json_t *object = sc_json_object(json, array, NULL), *values;

		sc_json_text(json, object, "value", g->value);
		put_accuracy(json, object, "before", &g->before);
		put_accuracy(json, object, "left_out", &g->left_out);
		sc_json_int(json, object, "n_undetermined", (int64_t)g->n_undetermined);
		values = sc_json_array(json, object, "coefficients");
		for (size_t j = 0; j < fit->n_coefs; j++)
			sc_json_real(json, values, NULL, g->values[j]);
	}
}

static void put_skipped(struct sc_json *json, const struct sc_score *score)
{
	json_t *array = sc_json_array(json, json->root, "skipped");

	for (size_t i = 0; i < score->n_skipped; i++) {
		json_t *object = sc_json_object(json, array, NULL);

		sc_json_text(json, object, "case", score->skipped[i]->name);
		sc_json_text(json, object, "reason", score->skipped[i]->skipped);
	}
}

int sc_json_itfit(const struct sc_itfit *fit, FILE *out, struct sc_err *err)
{
	struct sc_json json;
	int rc;

	sc_json_init(&json, "stepcast/fit-iteration", ITFIT_VERSION);
	sc_json_text(&json, json.root, "table", fit->table);
	sc_json_int(&json, json.root, "n_rows", (int64_t)fit->n_rows);
	sc_json_int(&json, json.root, "n_configs", (int64_t)fit->n_configs);
	sc_json_int(&json, json.root, "n_duplicates", (int64_t)fit->n_duplicates);
	if (fit->n_duplicates)
		sc_json_real(&json, json.root, "duplicate_floor_pct", fit->duplicate_floor_pct);
	put_accuracy(&json, json.root, "before", &fit->before);
	put_accuracy(&json, json.root, "in_sample", &fit->in_sample);
	put_coefs(&json, fit);
	if (fit->n_groups) {
		sc_json_text(&json, json.root, "left_out_by", fit->leave_out);
		put_accuracy(&json, json.root, "left_out", &fit->left_out);
		put_groups(&json, fit);
	}
	put_skipped(&json, &fit->validation->all);
	rc = sc_json_write(&json, out, err);
	sc_json_release(&json);
	return rc;
}
