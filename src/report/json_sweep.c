/* A sweep as JSON: what its page shows. */
#include <string.h>

#include "report/json.h"
#include "report/sweep_csv.h"

enum { SWEEP_VERSION = 1 };

static void add_case(struct sc_json *json, json_t *list, const struct sc_csv *cases, size_t row,
		     const struct sc_outcome *o)
{
	json_t *object = sc_json_object(json, list, NULL), *config;

	sc_json_int(json, object, "case", (int64_t)row + 1);
	config = sc_json_object(json, object, "config");
	for (size_t c = 0; c < cases->n_cols; c++)
		sc_json_text(json, config, cases->header[c], sc_csv_cell(cases, row, c));
	if (o->code != SC_OK) {
		sc_json_text(json, object, "error", o->error);
		return;
	}
	sc_json_real(json, object, "iteration_ms", o->iteration_ms);
	sc_json_real(json, object, "low_ms", o->low_ms);
	sc_json_real(json, object, "high_ms", o->high_ms);
	sc_json_real(json, object, "memory_gib", o->memory_total_gib);
	sc_json_real(json, object, "capacity_gib", o->capacity_gib);
	sc_json_real(json, object, "mfu", o->mfu);
	sc_json_real(json, object, "samples_per_s", o->samples_per_s);
	sc_json_real(json, object, "tokens_per_s", o->tokens_per_s);
	sc_json_bool(json, object, "fits", o->fits);
}

int sc_json_sweep(const struct sc_config *base, const struct sc_csv *cases,
		  const struct sc_outcome *outcomes, FILE *out, struct sc_err *err)
{
	size_t n_fit = 0, n_done = 0;
	struct sc_json json;
	json_t *list;

	sc_json_init(&json, "stepcast/sweep", SWEEP_VERSION);
	sc_json_base(&json, base);
	list = sc_json_array(&json, json.root, "varied"); /* keys whose cells differ */
	for (size_t c = 0; c < cases->n_cols; c++)
		for (size_t r = 1; r < cases->n_rows; r++)
			if (strcmp(sc_csv_cell(cases, r, c), sc_csv_cell(cases, 0, c)) != 0) {
				sc_json_text(&json, list, NULL, cases->header[c]);
				break;
			}
	list = sc_json_array(&json, json.root, "cases");
	for (size_t i = 0; i < cases->n_rows; i++) {
		n_done += outcomes[i].code == SC_OK;
		n_fit += outcomes[i].code == SC_OK && outcomes[i].fits;
		add_case(&json, list, cases, i, &outcomes[i]);
	}
	sc_json_verdict(&json,
			n_fit == 0              ? SC_STANDS_BADLY
			: n_fit < cases->n_rows ? SC_STANDS_FAIR
						: SC_STANDS_WELL,
			"%s%zu of %zu cases fit the memory; %zu could not be predicted.",
			n_fit == 0 && n_done ? "Does not fit: " : "", n_fit, cases->n_rows,
			cases->n_rows - n_done);
	return sc_json_write(&json, out, err);
}
