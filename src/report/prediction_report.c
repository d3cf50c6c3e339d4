/* A prediction as text and JSON. Numbers are rounded for reading; JSON has them in full. */
#include "report/prediction_report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/json_out.h"
#include "base/units.h"
#include "core/config/config_schedule.h"
#include "report/config_show.h"
#include "report/parts.h"
#include "report/schedule_report.h"
#include "study/shard/shard_choose.h"

enum {
	PREDICT_VERSION = 1,
	BAR_WIDTH = 18,
	MAX_PATH_LINES = 12,
	MAX_CONTRIBUTOR_LINES = 10,
	MAX_CLASS_LINES = 16
};

static void append_head(const struct sc_request *request, const struct sc_prediction *p,
			struct sc_strbuf *out)
{
	const struct sc_config *c = &request->config;
	bool reduced = c->parallel.pp == 1 && request->n_micro_batches > 1 &&
		       sc_memory_fullness(&p->memory) <= 1;

	sc_strbuf_append(out, "model       ");
	sc_text_model(c, &p->params, out);
	sc_strbuf_append(out, "\ncluster     ");
	sc_text_cluster(c, sc_request_n_kinds(request) == 1 ? request->device.id : NULL, out);
	sc_strbuf_append(out, "\nsplit       ");
	sc_text_split(request, out);
	if (c->model.family != SC_DLRM && !sc_config_origin(c, "training.micro_batch"))
		sc_strbuf_append(out, reduced ? " (default: the largest that fits)" : " (default)");
	sc_strbuf_append(out, "\n\n");
}

void sc_text_memory(const struct sc_memory *memory, struct sc_strbuf *out)
{
	const double needs_gib = memory->total_gib - memory->reserve_gib;
	const bool fits = sc_memory_fullness(memory) <= 1;

	sc_strbuf_printf(out, "%s%.1f of %.1f GiB a GPU",
			 fits ? "" : "Does not fit: ", memory->total_gib, memory->capacity_gib);
	if (memory->reserve_gib > 0)
		sc_strbuf_printf(out, "%s %.1f by the step, %.1f by the allocator beside it",
				 fits ? ":" : ",", needs_gib, memory->reserve_gib);
	if (fits && needs_gib > (1 - SC_MEMORY_MARGIN_FRAC) * memory->capacity_gib)
		sc_strbuf_printf(out, "; only %.1f are free, it may run out",
				 memory->capacity_gib - needs_gib);
	if (memory->host_gib > 0)
		sc_strbuf_printf(out, ", %.0f of %.0f GiB of a node's memory", memory->host_gib,
				 memory->host_capacity_gib);
	if (memory->ssd_gib > 0)
		sc_strbuf_printf(out, ", %.0f", memory->ssd_gib);
	if (memory->ssd_gib > 0 && memory->ssd_capacity_gib >= 0)
		sc_strbuf_printf(out, " of %.0f", memory->ssd_capacity_gib);
	if (memory->ssd_gib > 0)
		sc_strbuf_append(out, " GiB of its SSDs");
}

/* Tells whose runs the band rests on: always where a reader would take it for another, else only
 * where he asks why. */
static void append_band(const struct sc_prediction *p, bool explained, struct sc_strbuf *out)
{
	const struct sc_band *band = p->band;
	const char *software = band->like.at[SC_LIKE_SOFTWARE];
	const bool is_nameless = sc_band_is_nameless(band), is_own = band->own_ln > 0;
	const bool is_strange = !is_own && !is_nameless && !sc_band_is_seen(band);
	const bool is_new = !is_own && !is_nameless && !sc_band_knows_model(band);
	const bool is_far = !is_own && !is_nameless && !sc_band_knows_network(band);
	struct sc_band_rows rows[SC_BAND_ROWS];
	size_t n_all, n = sc_band_sources(band, rows, SC_BAND_ROWS, &n_all);

	if (is_nameless)
		sc_strbuf_printf(
			out,
			"software    none is named: ×÷ %.2g; %s is simulated, the middle of "
			"stacks of its kind\n",
			sc_band_factor(band, p->confidence_pct), software);
	if (is_own)
		sc_strbuf_printf(out, "band        by the runs that %s was calibrated with",
				 software);
	else if (explained && sc_band_softwares(band))
		sc_strbuf_printf(
			out,
			"band        from %zu measured rows of %zu softwares, predicted without "
			"their names;",
			n_all, sc_band_softwares(band));
	else if (explained || is_strange || is_new || is_far)
		sc_strbuf_printf(out, "band        from %zu measured rows;", n_all);
	else
		return;
	for (size_t i = 0; i < n && explained; i++)
		sc_strbuf_printf(out, "%s %.0f %% by the %zu of %s on %s", i ? "," : "",
				 SC_PCT * rows[i].share, rows[i].n, rows[i].software, rows[i].gpu);
	if (is_strange)
		sc_strbuf_printf(out, "%s none of %s on %s", n && explained ? ";" : "", software,
				 band->like.at[SC_LIKE_GPU]);
	if (is_new)
		sc_strbuf_printf(out, "%s none of a model like this (%s)",
				 is_strange || (n && explained) ? ";" : "",
				 band->like.at[SC_LIKE_MODEL]);
	if (is_far)
		sc_strbuf_printf(out, "%s none over %s",
				 is_strange || is_new || (n && explained) ? ";" : "",
				 band->like.at[SC_LIKE_NETWORK]);
	sc_strbuf_append_char(out, '\n');
}

static void append_rates(const struct sc_prediction *p, int64_t gpus, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "throughput  %.2f samples/s", p->samples_per_s);
	if (p->tokens_per_s > 0)
		sc_strbuf_printf(out, ", %.0f tokens/s, %.1f a GPU", p->tokens_per_s,
				 p->tokens_per_s / (double)gpus);
	sc_strbuf_printf(out, "\nefficiency  MFU %.1f %%, %.1f TFLOP/s a GPU", SC_PCT * p->mfu,
			 p->tflops_gpu);
	if (p->mfu_causal > 0 && p->mfu_causal < p->mfu)
		sc_strbuf_printf(out, " (%.1f %%, %.1f by causal attention alone)",
				 SC_PCT * p->mfu_causal, p->tflops_gpu_causal);
	if (p->mfu_bf16 > 0)
		sc_strbuf_printf(out, "; %.1f %% of the peak in bf16", SC_PCT * p->mfu_bf16);
	sc_strbuf_append_char(out, '\n');
}

static void append_totals(const struct sc_prediction_report *report, struct sc_strbuf *out)
{
	const struct sc_prediction *p = report->prediction;
	const struct sc_time_unit unit = sc_time_unit_of(p->iteration_ms);

	sc_strbuf_printf(out, "iteration   %.2f %s   (%d %% band: %.2f to %.2f %s)\n",
			 p->iteration_ms / unit.ms, unit.name, p->confidence_pct,
			 p->low_ms / unit.ms, p->high_ms / unit.ms, unit.name);
	append_band(p, report->explanation, out);
	append_rates(p, report->request->config.gpus, out);
	if (p->network_gbps > 0)
		sc_strbuf_printf(out,
				 "network     %.1f GB/s a GPU while in use, %.1f %% of its links\n",
				 p->network_gbps, 100 * p->network_frac);
	sc_strbuf_append(out, "memory      ");
	sc_text_memory(&p->memory, out);
	sc_strbuf_append(out,
			 p->mfu_bf16 > 0 ? "; as in bf16: narrow copies are not counted\n" : "\n");
}

void sc_text_breakdown(const struct sc_reading *reading, struct sc_strbuf *out)
{
	const double all_ms = reading->iteration_ms;
	const struct sc_time_unit unit = sc_time_unit_of(all_ms);

	sc_strbuf_append(out, "\nwhere the time of the busiest GPU goes      ms      %  path %\n");
	for (int owner = 0; owner < SC_N_OWNERS; owner++) {
		double ms = sc_without_dust(reading->breakdown_ms[owner], all_ms);
		double pct = sc_share_pct(ms, all_ms);
		int bar = (int)(fmin(pct, 100) / 100.0 * BAR_WIDTH + 0.5);

		sc_strbuf_printf(out, "  %-32s %11.2f %6.1f %7.1f", sc_owner_labels[owner], ms, pct,
				 sc_share_pct(reading->path_owner_ms[owner], all_ms));
		if (bar > 0)
			sc_strbuf_append(out, "  ");
		for (int i = 0; i < bar; i++)
			sc_strbuf_append_char(out, '#');
		sc_strbuf_append_char(out, '\n');
	}
	if (reading->n_classes > 1 && reading->busiest < reading->n_classes)
		sc_strbuf_printf(out, "  busiest: %s; path: the critical path\n",
				 reading->classes[reading->busiest].name);
	if (reading->comm_ms > 0)
		sc_strbuf_printf(out, "  it communicates %.2f of %.2f %s, %.2f exposed\n",
				 reading->comm_ms / unit.ms, all_ms / unit.ms, unit.name,
				 reading->breakdown_ms[SC_OWN_COMM] / unit.ms);
}

static void append_explanation(const struct sc_prediction *p, const struct sc_explanation *e,
			       struct sc_strbuf *out)
{
	sc_strbuf_append(out,
			 "\nlargest contributors                       ms      %       count\n");
	for (size_t i = 0; i < p->reading.n_contributors && i < MAX_CONTRIBUTOR_LINES; i++)
		sc_strbuf_printf(out, "  %-32.48s %11.2f %6.1f %11.0f\n",
				 p->reading.contributors[i].what, p->reading.contributors[i].ms,
				 sc_share_pct(p->reading.contributors[i].ms, p->iteration_ms),
				 p->reading.contributors[i].count);
	sc_strbuf_printf(out, "\nwhat %.0f %% more of it would buy            ms  gain %%\n",
			 100.0 * (e->speed - 1.0));
	for (size_t i = 0; i < SC_N_WHAT_IFS; i++)
		sc_strbuf_printf(out, "  %-32s %11.2f %7.2f\n", e->what_if[i].meaning,
				 e->what_if[i].iteration_ms, e->what_if[i].gain_pct);
}

static void append_alternatives(const struct sc_alternatives *a, const struct sc_prediction *p,
				struct sc_strbuf *out)
{
	bool fits = sc_memory_fullness(&p->memory) <= 1;

	if (a->n)
		sc_strbuf_append(out,
				 "\nwhat other settings would do                        ms  gain %"
				 "      GiB    saved\n");
	for (size_t i = 0; i < a->n; i++) {
		sc_strbuf_printf(out, "  %-42s ", a->at[i].settings);
		if (isfinite(a->at[i].iteration_ms))
			sc_strbuf_printf(out, "%11.2f %7.2f", a->at[i].iteration_ms,
					 a->at[i].gain_pct);
		else
			sc_strbuf_printf(out, "%11s %7s", "-", "-");
		sc_strbuf_printf(out, " %8.1f %8.1f%s\n", a->at[i].memory_gib, a->at[i].saved_gib,
				 a->at[i].fits                                  ? ""
				 : a->at[i].memory_gib > p->memory.capacity_gib ? "  does not fit"
				 : a->at[i].memory_gib > (1 - SC_MEMORY_MARGIN_FRAC) *
								 p->memory.capacity_gib
					 ? "  leaves no margin"
					 : "  its node has too little");
		fits = fits || a->at[i].fits;
	}
	if (!fits) /* nor does any of these */
		sc_strbuf_printf(out, "%s  %s\n", a->n ? "" : "\n", SC_TEXT_SEARCH);
}

/* Amounts that are not known are left out. */
static void append_cost(const struct sc_amounts *cost, struct sc_strbuf *out)
{
	const double amounts[] = {cost->gpu_hours, cost->usd, cost->kwh};
	static const char *const UNITS[] = {" GPU-hours", " USD", " kWh"};

	for (size_t i = 0; i < 3; i++) {
		if (!isfinite(amounts[i]))
			continue;
		sc_strbuf_append(out, i ? ", " : "");
		sc_text_grouped(amounts[i], out);
		sc_strbuf_append(out, UNITS[i]);
	}
	sc_strbuf_append_char(out, '\n');
}

void sc_text_costs(const struct sc_run_cost *cost, struct sc_strbuf *out)
{
	sc_strbuf_append(out, "cost        a step ");
	append_cost(&cost->step, out);
	if (!(cost->run.steps > 0))
		return;
	sc_strbuf_append(out, "run         ");
	sc_text_grouped(cost->run.steps, out);
	sc_strbuf_append(out, " steps in ");
	sc_text_ms(cost->run.days * 24 * SC_MS_PER_HOUR, out);
	sc_strbuf_append(out, ": ");
	append_cost(&cost->run, out);
}

static void put_prediction_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_prediction_report *report = result;
	const struct sc_prediction *p = report->prediction;
	const struct sc_reading *reading = &p->reading;
	double rest_ms = 0;

	append_head(report->request, p, out);
	append_totals(report, out);
	if (report->cost)
		sc_text_costs(report->cost, out);
	sc_text_breakdown(&p->reading, out);
	sc_strbuf_append(out, "\nmemory of the fullest GPU                 GiB      %\n");
	for (size_t i = 0; i < SC_N_MEMORY_PARTS; i++) {
		double gib = sc_memory_part_gib(&p->memory, i);

		sc_strbuf_printf(out, "  %-32s %11.2f %6.1f\n", sc_memory_parts[i].name, gib,
				 sc_share_pct(gib, p->memory.total_gib));
	}
	sc_strbuf_append(out, "\ncritical path                        start ms          ms  "
			      "mostly\n");
	for (size_t i = 0; i < reading->n_path; i++) {
		const struct sc_path_step *s = &reading->path[i];

		if (i < MAX_PATH_LINES)
			sc_strbuf_printf(out, "  %-32.48s %10.2f %11.2f  %s\n", s->what,
					 s->start_ms, s->ms, sc_owner_labels[s->owner]);
		else
			rest_ms += s->ms;
	}
	if (reading->n_path > MAX_PATH_LINES)
		sc_strbuf_printf(out, "  %-32s %10s %11.2f\n", "... and then", "", rest_ms);
	if (reading->n_classes > 1)
		sc_strbuf_append(out, "\nranks that do the same       ranks     busy ms     idle ms"
				      "     comm ms\n");
	for (size_t i = 0; reading->n_classes > 1 && i < reading->n_classes && i < MAX_CLASS_LINES;
	     i++)
		sc_strbuf_printf(out, "  %-24s %7u %11.2f %11.2f %11.2f\n",
				 reading->classes[i].name, (unsigned)reading->classes[i].ranks,
				 reading->classes[i].busy_ms, reading->classes[i].idle_ms,
				 reading->classes[i].comm_ms);
	if (reading->n_classes > MAX_CLASS_LINES)
		sc_strbuf_printf(out, "  ... and %zu more\n",
				 reading->n_classes + reading->classes_left_out - MAX_CLASS_LINES);
	if (report->explanation)
		append_explanation(p, report->explanation, out);
	if (report->alternatives)
		append_alternatives(report->alternatives, p, out);
}

static void add_owners(struct sc_json *json, json_t *object, const double *ms, double iteration_ms)
{
	for (int owner = 0; owner < SC_N_OWNERS; owner++)
		sc_json_real(json, object, sc_owner_names[owner],
			     sc_without_dust(ms[owner], iteration_ms));
}

void sc_json_breakdown(struct sc_json *json, json_t *object, const struct sc_reading *reading)
{
	const double all_ms = reading->iteration_ms;

	add_owners(json, sc_json_object(json, object, "breakdown_ms"), reading->breakdown_ms,
		   all_ms);
	add_owners(json, sc_json_object(json, object, "path_breakdown_ms"), reading->path_owner_ms,
		   all_ms);
	sc_json_real(json, object, "communication_ms", reading->comm_ms);
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

void sc_json_warnings(struct sc_json *json, const struct sc_warnings *warnings)
{
	json_t *array = json_object_get(json->root, "warnings");

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

		SC_JSON_PUT(json, row, p->reading.contributors[i], what, ms, count);
	}
	for (size_t i = 0; i < SC_N_WHAT_IFS; i++) {
		const struct sc_what_if *w = &explanation->what_if[i];
		json_t *row = sc_json_object(json, what_if, NULL);

		SC_JSON_PUT(json, row, *w, resource, meaning, iteration_ms, gain_pct);
		sc_json_real(json, row, "speed", explanation->speed);
	}
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

/* Only pages and explanations show these: every value of the config with its origin, and the passes
 * of a pipeline. */
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

static void add_prediction_verdict(struct sc_json *json, const struct sc_memory *memory)
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

		SC_JSON_PUT(json, row, a->at[i], settings, memory_gib, saved_gib, fits);
		SC_JSON_KNOWN(json, row, a->at[i], iteration_ms, gain_pct);
	}
}

void sc_json_cost(struct sc_json *json, json_t *parent, const struct sc_run_cost *both)
{
	for (int run = 0; run < (both->run.steps > 0 ? 2 : 1); run++) {
		const struct sc_amounts *cost = run ? &both->run : &both->step;
		json_t *object = sc_json_object(json, parent, run ? "run_cost" : "step_cost");

		SC_JSON_PUT(json, object, *cost, steps, days, gpu_hours);
		SC_JSON_KNOWN(json, object, *cost, usd, kwh);
		sc_json_text(json, object, "kwh_of",
			     "tdp_w of the GPUs, all the time; no host, "
			     "network or cooling");
	}
}

static void add_totals(struct sc_json *json, const struct sc_prediction *p)
{
	struct sc_band_rows rows[SC_BAND_ROWS];
	size_t n_all, n = sc_band_sources(p->band, rows, SC_BAND_ROWS, &n_all);
	json_t *list = sc_json_array(json, json->root, "band_rows");

	SC_JSON_PUT(json, json->root, *p, iteration_ms, low_ms, high_ms, confidence_pct);
	for (size_t i = 0; i < n; i++) { /* from which measured rows the band is */
		json_t *object = sc_json_object(json, list, NULL);

		SC_JSON_PUT(json, object, rows[i], gpu, software);
		sc_json_int(json, object, "rows", (int64_t)rows[i].n);
		sc_json_real(json, object, "share_pct", SC_PCT * rows[i].share);
	}
	sc_json_real(json, json->root, "mfu", p->mfu);
	if (p->mfu_bf16 > 0)
		sc_json_real(json, json->root, "mfu_bf16", p->mfu_bf16);
	if (p->mfu_causal > 0)
		sc_json_real(json, json->root, "mfu_causal", p->mfu_causal);
	SC_JSON_PUT(json, json->root, *p, model_flop, tflops_gpu);
	sc_json_real(json, json->root, "parameters", p->params.total);
	sc_json_real(json, json->root, "active_parameters", p->params.active);
	if (p->tflops_gpu_causal > 0)
		sc_json_real(json, json->root, "tflops_gpu_causal", p->tflops_gpu_causal);
	SC_JSON_PUT(json, json->root, *p, samples_per_s, tokens_per_s, n_nodes);
}

static void put_prediction_json(const void *result, struct sc_json *json)
{
	const struct sc_prediction_report *report = result;
	const struct sc_prediction *p = report->prediction;
	json_t *config, *array;

	sc_json_init(json, "stepcast/predict", PREDICT_VERSION);
	config = sc_json_request(json, report->request);
	add_prediction_verdict(json, &p->memory);
	add_totals(json, p);
	if (report->cost)
		sc_json_cost(json, json->root, report->cost);
	sc_json_breakdown(json, json->root, &p->reading);
	add_memory(json, &p->memory);
	sc_json_bool(json, json->root, "fits", sc_memory_fullness(&p->memory) <= 1);
	if (p->network_gbps > 0) { /* of a torus */
		json_t *network = sc_json_object(json, json->root, "network");

		sc_json_real(json, network, "sent_gbps", p->network_gbps);
		sc_json_real(json, network, "links_frac", p->network_frac);
	}
	array = sc_json_array(json, json->root, "critical_path");
	for (size_t i = 0; i < p->reading.n_path; i++) {
		const struct sc_path_step *step = &p->reading.path[i];
		json_t *object = sc_json_object(json, array, NULL);

		SC_JSON_PUT(json, object, *step, what, start_ms, ms);
		sc_json_int(json, object, "class", step->class_id);
		sc_json_text(json, object, "owner", sc_owner_names[step->owner]);
		sc_json_text(json, object, "reason", sc_reason_names[step->reason]);
	}
	array = sc_json_array(json, json->root, "classes");
	for (size_t i = 0; i < p->reading.n_classes; i++) {
		json_t *object = sc_json_object(json, array, NULL);

		SC_JSON_PUT(json, object, p->reading.classes[i], name, ranks, busy_ms, idle_ms,
			    comm_ms);
	}
	SC_JSON_PUT(json, json->root, p->reading, classes_left_out, ranks_left_out);
	sc_json_warnings(json, &p->warnings);
	if (report->explanation) {
		add_explanation(json, p, report->explanation);
		add_drawn(json, config, report);
	}
	if (report->alternatives)
		add_alternatives(json, report->alternatives);
}

const struct sc_forms sc_prediction_forms = {.json = put_prediction_json,
					     .text = put_prediction_text};
