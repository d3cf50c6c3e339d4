/* Predictions and validations as JSON. */
#include "report/json.h"

#include <stdarg.h>

#include "base/json_out.h"
#include "base/units.h"
#include "core/config/config_schedule.h"
#include "report/config_show.h"
#include "report/labels.h"
#include "report/prediction_report.h"
#include "report/schedule_report.h"
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

void sc_json_warnings(struct sc_json *json, const struct sc_warnings *warnings)
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
		sc_json_text(json, row, "meaning", w->meaning);
		sc_json_real(json, row, "speed", explanation->speed);
		sc_json_real(json, row, "iteration_ms", w->iteration_ms);
		sc_json_real(json, row, "gain_pct", w->gain_pct);
	}
	sc_json_known_real(json, object, "twice_the_nics_ms", explanation->twice_the_nics_ms);
}

void sc_json_verdict(struct sc_json *json, enum sc_standing standing, const char *fmt, ...)
{
	static const char *const NAMES[] = {"good", "fair", "bad", "plain"};
	json_t *object = sc_json_object(json, json->root, "verdict");
	struct sc_strbuf text = {0};
	va_list args;

	va_start(args, fmt);
	sc_strbuf_vprintf(&text, fmt, args);
	va_end(args);
	sc_json_text(json, object, "standing", NAMES[standing]);
	sc_json_text(json, object, "text", sc_strbuf_get(&text));
	sc_strbuf_release(&text);
}

static json_t *add_config(struct sc_json *json, const struct sc_config *config, const char *gpu)
{
	json_t *object = sc_json_object(json, json->root, "config");
	struct sc_strbuf line = {0};

	sc_text_cluster(config, gpu, &line);
	sc_json_text(json, object, "cluster", sc_strbuf_get(&line));
	sc_strbuf_clear(&line);
	sc_text_model(config, &line);
	sc_json_text(json, object, "model", sc_strbuf_get(&line));
	sc_strbuf_release(&line);
	return object;
}

void sc_json_base(struct sc_json *json, const struct sc_config *config)
{
	add_config(json, config, config->cluster.nodes.n ? NULL : config->cluster.gpu);
}

json_t *sc_json_request(struct sc_json *json, const struct sc_request *request)
{
	json_t *object = add_config(json, &request->config,
				    sc_request_n_kinds(request) == 1 ? request->device.id : NULL);
	char hash[SC_CONFIG_HASH_BYTES];
	struct sc_strbuf line = {0};

	sc_text_split(request, &line);
	sc_json_text(json, object, "split", sc_strbuf_get(&line));
	sc_strbuf_release(&line);
	sc_json_int(json, object, "gpus", request->config.gpus);
	sc_json_text(json, object, "software", request->software.id);
	sc_json_text(json, object, "hash", sc_config_hash(request, hash));
	sc_json_text(json, object, "stepcast", SC_VERSION);
	return object;
}

/* What only pages and explanations show: every value of the config with its origin, and the passes of a pipeline. */
static void add_drawn(struct sc_json *json, json_t *config,
		      const struct sc_prediction_report *report)
{
	const struct sc_parallel *par = &report->request->config.parallel;
	struct sc_strbuf text = {0};

	sc_config_show(report->request, &text);
	sc_json_text(json, config, "resolved", sc_strbuf_get(&text));
	sc_strbuf_release(&text);
	if (report->play)
		sc_schedule_to_json(json, sc_json_object(json, json->root, "schedule"),
				    par->schedule == SC_SCHED_FILE
					    ? par->schedule_file
					    : sc_enum_name(sc_schedule_names, (int)par->schedule),
				    report->play);
}

static void add_verdict(struct sc_json *json, const struct sc_memory *memory)
{
	enum { TIGHT_PCT = 92 };
	const double full_pct = SC_PCT * sc_memory_fullness(memory);
	struct sc_strbuf text = {0};

	sc_text_memory(memory, &text);
	sc_json_verdict(json,
			full_pct > SC_PCT      ? SC_STANDS_BADLY
			: full_pct > TIGHT_PCT ? SC_STANDS_FAIR
					       : SC_STANDS_WELL,
			"%s%s.", full_pct > SC_PCT ? "" : "Fits: ", sc_strbuf_get(&text));
	sc_strbuf_release(&text);
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
	sc_json_real(json, object, "days", steps * cost->days);
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
	json_t *config;

	sc_json_init(&json, "stepcast/predict", PREDICT_VERSION);
	config = sc_json_request(&json, report->request);
	add_verdict(&json, &p->memory);
	add_totals(&json, p);
	if (report->cost)
		add_amounts(&json, "step_cost", report->cost, 1);
	if (report->cost && report->cost->steps > 0)
		add_amounts(&json, "run_cost", report->cost, report->cost->steps);
	sc_json_breakdown(&json, json.root, &p->reading);
	add_memory(&json, &p->memory);
	sc_json_bool(&json, json.root, "fits", sc_memory_fullness(&p->memory) <= 1);
	if (p->network_gbps > 0) { /* of a torus */
		json_t *network = sc_json_object(&json, json.root, "network");

		sc_json_real(&json, network, "sent_gbps", p->network_gbps);
		sc_json_real(&json, network, "links_frac", p->network_frac);
	}
	add_path(&json, p);
	add_classes(&json, p);
	sc_json_warnings(&json, &p->warnings);
	if (report->explanation) {
		add_explanation(&json, p, report->explanation);
		add_drawn(&json, config, report);
	}
	if (report->alternatives)
		add_alternatives(&json, report->alternatives);
	return sc_json_write(&json, out, err);
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

/* The bands are the promise: where they hold, all is well. */
static void add_promise(struct sc_json *json, const struct sc_score *all)
{
	enum { MOST_PCT = 65, HALF_PCT = 50 };

	sc_json_verdict(
		json,
		all->accuracy.n == 0 || all->coverage_pct < HALF_PCT ? SC_STANDS_BADLY
		: all->n_skipped || all->coverage_pct < MOST_PCT     ? SC_STANDS_FAIR
								     : SC_STANDS_WELL,
		"%zu of %zu rows were predicted; %.0f %% of the measured times are in their "
		"bands, which should hold 80 %%.",
		all->accuracy.n, all->n_rows, all->accuracy.n ? all->coverage_pct : 0);
}

static void add_cases(struct sc_json *json, const struct sc_validation *v)
{
	json_t *cases = sc_json_array(json, json->root, "cases");
	int group = v->n_groups ? sc_csv_column(v->table, v->groups[0].column) : -1;

	for (size_t i = 0; i < v->n_cases; i++) {
		const struct sc_case *c = &v->cases[i];
		json_t *row = sc_json_object(json, cases, NULL);

		sc_json_text(json, row, "case", c->name);
		if (group >= 0)
			sc_json_text(json, row, "group",
				     sc_csv_cell(v->table, c->row, (size_t)group));
		sc_json_known_real(json, row, "measured_ms", c->measured_ms);
		if (c->skipped) {
			sc_json_text(json, row, "skipped", c->skipped);
			continue;
		}
		sc_json_real(json, row, "predicted_ms", c->outcome.iteration_ms);
		sc_json_real(json, row, "low_ms", c->outcome.low_ms);
		sc_json_real(json, row, "high_ms", c->outcome.high_ms);
		sc_json_real(json, row, "error_pct", c->error_pct);
	}
}

int sc_json_validation(const struct sc_validation *v, FILE *out, struct sc_err *err)
{
	struct sc_json json;
	json_t *groups, *column = NULL;
	const char *name = NULL;

	sc_json_init(&json, "stepcast/validate", VALIDATE_VERSION);
	sc_json_text(&json, json.root, "table", v->table->file);
	add_promise(&json, &v->all);
	add_score(&json, json.root, &v->all, v->has_memory);
	add_cases(&json, v);
	groups = sc_json_object(&json, json.root, "groups");
	for (size_t i = 0; i < v->n_groups; i++) {
		const struct sc_group_score *group = &v->groups[i];

		if (group->column != name)
			column = sc_json_object(&json, groups, group->column);
		name = group->column;
		add_score(&json, sc_json_object(&json, column, group->value), &group->score,
			  v->has_memory);
	}
	return sc_json_write(&json, out, err);
}
