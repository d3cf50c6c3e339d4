/* Predictions and validations as JSON. */
#include "report/json.h"

#include "base/json_out.h"
#include "report/config_show.h"
#include "report/labels.h"
#include "report/prediction_report.h"
#include "report/text.h"

enum { PREDICT_VERSION = 1, VALIDATE_VERSION = 1 };

static void add_owners(struct sc_json *json, json_t *object, const double *ms, double iteration_ms)
{
	for (int owner = 0; owner < SC_N_OWNERS; owner++)
		sc_json_real(json, object, sc_owner_name((enum sc_owner)owner),
			     sc_without_dust(ms[owner], iteration_ms));
}

void sc_json_breakdown(struct sc_json *json, json_t *object, const struct sc_reading *reading)
{
	const double all_ms = reading->iteration_ms;

	add_owners(json, sc_json_object(json, object, "breakdown_ms"), reading->breakdown_ms,
		   all_ms);
	add_owners(json, sc_json_object(json, object, "path_breakdown_ms"), reading->path_owner_ms,
		   all_ms);
	sc_json_int(json, object, "busiest_class", reading->busiest);
}

static void add_memory(struct sc_json *json, const struct sc_memory *memory)
{
	json_t *object = sc_json_object(json, json->root, "memory_gib");

	for (size_t i = 0; i < SC_N_MEMORY_PARTS; i++)
		sc_json_real(json, object, sc_memory_parts[i].name, sc_memory_part_gib(memory, i));
	sc_json_real(json, object, "total", memory->total_gib);
	sc_json_real(json, object, "capacity", memory->capacity_gib);
	if (memory->host_gib > 0) {
		sc_json_real(json, object, "host", memory->host_gib);
		sc_json_real(json, object, "host_capacity", memory->host_capacity_gib);
	}
	if (memory->ssd_gib > 0)
		sc_json_real(json, object, "ssd", memory->ssd_gib);
	if (memory->ssd_gib > 0 && memory->ssd_capacity_gib >= 0)
		sc_json_real(json, object, "ssd_capacity", memory->ssd_capacity_gib);
}

static void add_path(struct sc_json *json, const struct sc_prediction *p)
{
	json_t *array = sc_json_array(json, json->root, "critical_path");

	for (size_t i = 0; i < p->reading.n_path; i++) {
		const struct sc_path_step *step = &p->reading.path[i];
		json_t *object = sc_json_object(json, array, NULL);

		sc_json_text(json, object, "what", step->what);
		sc_json_int(json, object, "class", step->class_id);
		sc_json_real(json, object, "start_ms", step->start_ms);
		sc_json_real(json, object, "ms", step->ms);
		sc_json_text(json, object, "owner", sc_owner_name(step->owner));
		sc_json_text(json, object, "reason", sc_reason_name((enum sc_reason)step->reason));
	}
}

static void add_classes(struct sc_json *json, const struct sc_prediction *p)
{
	json_t *array = sc_json_array(json, json->root, "classes");

	for (size_t i = 0; i < p->reading.n_classes; i++) {
		json_t *object = sc_json_object(json, array, NULL);

		sc_json_text(json, object, "name", p->reading.classes[i].name);
		sc_json_int(json, object, "ranks", p->reading.classes[i].ranks);
		sc_json_real(json, object, "busy_ms", p->reading.classes[i].busy_ms);
		sc_json_real(json, object, "idle_ms", p->reading.classes[i].idle_ms);
		sc_json_real(json, object, "comm_ms", p->reading.classes[i].comm_ms);
	}
}

static void add_warnings(struct sc_json *json, const struct sc_warnings *warnings)
{
	json_t *array = sc_json_array(json, json->root, "warnings");

	for (size_t i = 0; i < warnings->n; i++)
		sc_json_text(json, array, NULL, warnings->text[i]);
}

static void add_explanation(struct sc_json *json, const struct sc_prediction *p,
			    const struct sc_explanation *explanation)
{
	json_t *object = sc_json_object(json, json->root, "explain");
	json_t *contributors = sc_json_array(json, object, "contributors");
	json_t *what_if = sc_json_array(json, object, "what_if");

	for (size_t i = 0; i < p->reading.n_contributors; i++) {
		json_t *row = sc_json_object(json, contributors, NULL);

		sc_json_text(json, row, "what", p->reading.contributors[i].what);
		sc_json_real(json, row, "ms", p->reading.contributors[i].ms);
		sc_json_real(json, row, "count", p->reading.contributors[i].count);
	}
	for (size_t i = 0; i < SC_N_WHAT_IFS; i++) {
		const struct sc_what_if *w = &explanation->what_if[i];
		json_t *row = sc_json_object(json, what_if, NULL);

		sc_json_text(json, row, "resource", w->resource);
		sc_json_real(json, row, "speed", explanation->speed);
		sc_json_real(json, row, "iteration_ms", w->iteration_ms);
		sc_json_real(json, row, "gain_pct", w->gain_pct);
	}
	sc_json_known_real(json, object, "twice_the_nics_ms", explanation->twice_the_nics_ms);
}

/* Of a torus. */
static void add_network(struct sc_json *json, const struct sc_prediction *p)
{
	json_t *object;

	if (!(p->network_gbps > 0))
		return;
	object = sc_json_object(json, json->root, "network");
	sc_json_real(json, object, "sent_gbps", p->network_gbps);
	sc_json_real(json, object, "links_frac", p->network_frac);
}

static void add_request(struct sc_json *json, const struct sc_request *request)
{
	json_t *object = sc_json_object(json, json->root, "config");
	char hash[SC_CONFIG_HASH_BYTES];
	struct sc_strbuf line = {0};

	sc_text_model(request, &line);
	sc_json_text(json, object, "model", sc_strbuf_get(&line));
	sc_strbuf_clear(&line);
	sc_text_cluster(request, &line);
	sc_json_text(json, object, "cluster", sc_strbuf_get(&line));
	sc_strbuf_clear(&line);
	sc_text_split(request, &line);
	sc_json_text(json, object, "split", sc_strbuf_get(&line));
	sc_strbuf_release(&line);
	sc_json_int(json, object, "gpus", request->config.gpus);
	sc_json_text(json, object, "software", request->software.id);
	sc_json_text(json, object, "hash", sc_config_hash(request, hash));
	sc_json_text(json, object, "stepcast", SC_VERSION);
}

static void add_alternatives(struct sc_json *json, const struct sc_alternatives *a)
{
	json_t *array = sc_json_array(json, json->root, "settings");

	for (size_t i = 0; i < a->n; i++) {
		json_t *row = sc_json_object(json, array, NULL);

		sc_json_text(json, row, "settings", a->at[i].settings);
		sc_json_real(json, row, "iteration_ms", a->at[i].iteration_ms);
		sc_json_real(json, row, "gain_pct", a->at[i].gain_pct);
		sc_json_real(json, row, "memory_gib", a->at[i].memory_gib);
		sc_json_real(json, row, "saved_gib", a->at[i].saved_gib);
		sc_json_bool(json, row, "fits", a->at[i].fits);
	}
}

static void add_amounts(struct sc_json *json, const char *key, const struct sc_run_cost *cost,
			double steps)
{
	json_t *object = sc_json_object(json, json->root, key);

	sc_json_real(json, object, "steps", steps);
	sc_json_real(json, object, "gpu_hours", steps * cost->gpu_hours);
	sc_json_known_real(json, object, "usd", steps * cost->usd);
	sc_json_known_real(json, object, "kwh", steps * cost->kwh);
}

static void add_totals(struct sc_json *json, const struct sc_prediction *p)
{
	sc_json_real(json, json->root, "iteration_ms", p->iteration_ms);
	sc_json_real(json, json->root, "low_ms", p->low_ms);
	sc_json_real(json, json->root, "high_ms", p->high_ms);
	sc_json_real(json, json->root, "mfu", p->mfu);
	if (p->mfu_bf16 > 0)
		sc_json_real(json, json->root, "mfu_bf16", p->mfu_bf16);
	if (p->mfu_causal > 0)
		sc_json_real(json, json->root, "mfu_causal", p->mfu_causal);
	sc_json_real(json, json->root, "model_flop", p->model_flop);
	sc_json_real(json, json->root, "samples_per_s", p->samples_per_s);
	sc_json_real(json, json->root, "tokens_per_s", p->tokens_per_s);
	sc_json_int(json, json->root, "n_nodes", (int64_t)p->n_nodes);
}

int sc_json_prediction(const struct sc_prediction_report *report, FILE *out, struct sc_err *err)
{
	const struct sc_prediction *p = report->prediction;
	struct sc_json json;
	int rc;

	sc_json_init(&json, "stepcast/predict", PREDICT_VERSION);
	add_request(&json, report->request);
	add_totals(&json, p);
	if (report->cost)
		add_amounts(&json, "step_cost", report->cost, 1);
	if (report->cost && report->cost->steps > 0)
		add_amounts(&json, "run_cost", report->cost, report->cost->steps);
	sc_json_breakdown(&json, json.root, &p->reading);
	add_memory(&json, &p->memory);
	sc_json_bool(&json, json.root, "fits", sc_memory_fullness(&p->memory) <= 1);
	add_network(&json, p);
	add_path(&json, p);
	add_classes(&json, p);
	add_warnings(&json, &p->warnings);
	if (report->explanation)
		add_explanation(&json, p, report->explanation);
	if (report->alternatives)
		add_alternatives(&json, report->alternatives);
	rc = sc_json_write(&json, out, err);
	sc_json_release(&json);
	return rc;
}

/* ---- validation ---- */

/* Null where there is no case to take it from. */
static void add_score(struct sc_json *json, json_t *object, const struct sc_score *score,
		      bool has_memory)
{
	json_t *skipped = sc_json_array(json, object, "skipped");

	sc_json_int(json, object, "n_rows", (int64_t)score->n_rows);
	sc_json_int(json, object, "n", (int64_t)score->accuracy.n);
	sc_json_known_real(json, object, "mape_pct", score->accuracy.mape_pct);
	sc_json_known_real(json, object, "median_ape_pct", score->accuracy.median_ape_pct);
	sc_json_known_real(json, object, "p90_ape_pct", score->accuracy.p90_ape_pct);
	sc_json_known_real(json, object, "geomean_ape_pct", score->accuracy.geomean_ape_pct);
	sc_json_known_real(json, object, "bias_pct", score->accuracy.bias_pct);
	sc_json_known_real(json, object, "coverage_pct", score->coverage_pct);
	sc_json_known_real(json, object, "band_pct", score->band_pct);
	if (has_memory) {
		sc_json_int(json, object, "n_memory", (int64_t)score->memory.n);
		sc_json_known_real(json, object, "memory_mape_pct", score->memory.mape_pct);
	}
	for (size_t i = 0; i < score->n_skipped; i++) {
		json_t *row = sc_json_object(json, skipped, NULL);

		sc_json_text(json, row, "case", score->skipped[i]->name);
		sc_json_text(json, row, "reason", score->skipped[i]->skipped);
	}
}

int sc_json_validation(const struct sc_validation *v, FILE *out, struct sc_err *err)
{
	struct sc_json json;
	json_t *groups, *column = NULL;
	const char *name = NULL;
	int rc;

	sc_json_init(&json, "stepcast/validate", VALIDATE_VERSION);
	add_score(&json, json.root, &v->all, v->has_memory);
	groups = sc_json_object(&json, json.root, "groups");
	for (size_t i = 0; i < v->n_groups; i++) {
		const struct sc_group_score *group = &v->groups[i];

		if (group->column != name)
			column = sc_json_object(&json, groups, group->column);
		name = group->column;
		add_score(&json, sc_json_object(&json, column, group->value), &group->score,
			  v->has_memory);
	}
	rc = sc_json_write(&json, out, err);
	sc_json_release(&json);
	return rc;
}
