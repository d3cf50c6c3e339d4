/* A replay as JSON. What is not known is null. */
#include <math.h>

#include "base/json_out.h"
#include "report/json.h"
#include "report/replay_report.h"

enum { REPLAY_VERSION = 1 };

void sc_json_loss(struct sc_json *json, json_t *parent, const struct sc_trace_loss *loss)
{
	json_t *object;

	if (!loss->n_files) {
		sc_json_text(json, parent, "loss", NULL);
		return;
	}
	object = sc_json_object(json, parent, "loss");
	sc_json_int(json, object, "n_events", loss->n_lost);
	sc_json_real(json, object, "frac", sc_trace_loss_frac(loss));
	sc_json_bool(json, object, "counted", !loss->is_estimate && !loss->is_unknown);
	sc_json_bool(json, object, "more_unknown", loss->is_unknown);
	sc_json_bool(json, object, "ends_early", loss->is_cut);
	sc_json_bool(json, object, "stands", sc_trace_loss_stands(loss));
	sc_json_int(json, object, "n_files", (int64_t)loss->n_files);
	sc_json_text(json, object, "reason", loss->reason);
}

static void add_error(struct sc_json *json, const struct sc_replay_result *r, const char *key,
		      enum sc_replay_column column)
{
	json_t *object = sc_json_object(json, json->root, key);
	struct sc_replay_error error;

	sc_replay_error_of(r, column, &error);
	sc_json_known_real(json, object, "median_ape_pct", error.median_pct);
	sc_json_known_real(json, object, "max_ape_pct", error.max_pct);
	sc_json_known_real(json, object, "bias_pct", error.bias_pct);
	sc_json_known_real(json, object, "typical_max_ape_pct", error.typical_max_pct);
}

static void add_band(struct sc_json *json, const struct sc_replay_result *r)
{
	json_t *object = sc_json_object(json, json->root, "band_pct");
	double low, high;

	sc_replay_band(r, true, &low, &high);
	sc_json_known_real(json, object, "typical_low", low);
	sc_json_known_real(json, object, "typical_high", high);
	sc_replay_band(r, false, &low, &high);
	sc_json_known_real(json, object, "low", low);
	sc_json_known_real(json, object, "high", high);
}

static void add_iterations(struct sc_json *json, const struct sc_replay_result *r)
{
	json_t *array = sc_json_array(json, json->root, "iterations");

	for (size_t i = 0; i < r->iterations.n; i++) {
		const struct sc_replay_iteration *it = &r->iterations.at[i];
		json_t *row = sc_json_object(json, array, NULL);

		sc_json_int(json, row, "step", it->step);
		sc_json_known_real(json, row, "lag_ms", it->lag_ms);
		sc_json_known_real(json, row, "measured_ms", it->measured_ms);
		sc_json_known_real(json, row, "simulated_ms", it->simulated_ms);
		sc_json_known_real(json, row, "predicted_ms", it->predicted_ms);
		sc_json_known_real(json, row, "changed_ms", it->changed_ms);
		sc_json_bool(json, row, "outlier", it->outlier);
	}
}

static void add_ranks(struct sc_json *json, const struct sc_replay_result *r)
{
	json_t *array = sc_json_array(json, json->root, "ranks");

	for (size_t i = 0; i < r->ranks.n; i++) {
		const struct sc_replay_rank *rank = &r->ranks.at[i];
		json_t *row = sc_json_object(json, array, NULL), *parts;

		sc_json_text(json, row, "name", rank->name);
		sc_json_known_int(json, row, "rank", rank->rank);
		sc_json_known_int(json, row, "dp_rank", rank->dp_rank);
		sc_json_known_int(json, row, "stage", rank->stage);
		parts = sc_json_object(json, row, "breakdown_ms");
		for (int p = 0; p < SC_N_PARTS; p++)
			sc_json_real(json, parts, sc_replay_part_names[p], rank->part_ms[p]);
		sc_json_real(json, row, "late_ms", rank->late_ms);
		sc_json_known_real(json, row, "slowness", rank->slowness);
		sc_json_known_real(json, row, "host_slowness", rank->host_slowness);
		sc_json_known_real(json, row, "without_ms", rank->without_ms);
		sc_json_known_real(json, row, "cost_ms", r->reference_ms - rank->without_ms);
	}
}

static void add_factors(struct sc_json *json, const struct sc_replay_result *r)
{
	json_t *object = sc_json_object(json, json->root, "slowdown"), *by = NULL;
	const char *last = NULL;

	for (size_t i = 0; i < r->factors.n; i++) {
		const struct sc_replay_factor *factor = &r->factors.at[i];

		if (factor->by != last)
			by = sc_json_object(json, object, factor->by);
		last = factor->by;
		sc_json_real(json, by, factor->name, factor->slowdown);
	}
}

static void add_families(struct sc_json *json, const struct sc_replay_result *r)
{
	json_t *object = sc_json_object(json, json->root, "family_ms");

	for (int f = 0; f < SC_N_KERNEL_FAMILIES; f++)
		if (r->family_ms[f] > 0)
			sc_json_real(json, object, sc_kernel_family_name((enum sc_kernel_family)f),
				     r->family_ms[f]);
}

static void add_path(struct sc_json *json, const struct sc_replay_result *r)
{
	json_t *shown = sc_json_object(json, json->root, "shown"), *array;

	sc_json_int(json, shown, "step", r->show_step);
	sc_json_real(json, shown, "iteration_ms", r->reading.iteration_ms);
	sc_json_breakdown(json, shown, &r->reading);
	array = sc_json_array(json, shown, "critical_path");
	for (size_t i = 0; i < r->reading.n_contributors; i++) {
		json_t *row = sc_json_object(json, array, NULL);

		sc_json_text(json, row, "what", r->reading.contributors[i].what);
		sc_json_real(json, row, "ms", r->reading.contributors[i].ms);
		sc_json_int(json, row, "count", (int64_t)r->reading.contributors[i].count);
	}
}

static void add_means(struct sc_json *json, const struct sc_replay_result *r)
{
	json_t *mean = sc_json_object(json, json->root, "mean_ms");

	sc_json_known_real(json, mean, "measured", r->measured_ms);
	sc_json_known_real(json, mean, "simulated", r->simulated_ms);
	sc_json_known_real(json, mean, "predicted", r->predicted_ms);
	sc_json_known_real(json, mean, "no_gaps", r->no_gaps_ms);
	sc_json_known_real(json, mean, "reference", r->reference_ms);
	sc_json_known_real(json, mean, "typical", r->typical_ms);
	sc_json_known_real(json, mean, "changed", r->changed_ms);
}

static void add_verdict(struct sc_json *json, const struct sc_replay_result *r)
{
	enum { GOOD_PCT = 5, FAIR_PCT = 15 };
	struct sc_replay_error error;

	sc_replay_error_of(r, SC_REPLAY_SIMULATED, &error);
	if (isnan(error.median_pct))
		return;
	sc_json_verdict(json,
			error.median_pct < GOOD_PCT   ? SC_STANDS_WELL
			: error.median_pct < FAIR_PCT ? SC_STANDS_FAIR
						      : SC_STANDS_BADLY,
			"The replay is off by %.2f %% (median), %.2f %% at most.", error.median_pct,
			error.max_pct);
}

int sc_json_replay(const struct sc_replay_result *r, FILE *out, struct sc_err *err)
{
	struct sc_json json;

	sc_json_init(&json, "stepcast/replay", REPLAY_VERSION);
	add_verdict(&json, r);
	sc_json_text(&json, json.root, "source", r->source);
	sc_json_text(&json, json.root, "iterations_found", r->marked_by);
	sc_json_text(&json, json.root, "reused", r->reused);
	sc_json_int(&json, json.root, "n_ranks", r->n_ranks);
	sc_json_int(&json, json.root, "gpus", r->gpus);
	sc_json_int(&json, json.root, "n_events", r->n_events);
	sc_json_int(&json, json.root, "n_simulated", r->n_simulated);
	sc_json_loss(&json, json.root, &r->loss);
	add_means(&json, r);
	add_error(&json, r, "simulated", SC_REPLAY_SIMULATED);
	add_error(&json, r, "predicted", SC_REPLAY_PREDICTED);
	add_band(&json, r);
	add_iterations(&json, r);
	add_ranks(&json, r);
	add_families(&json, r);
	add_factors(&json, r);
	add_path(&json, r);
	sc_json_warnings(&json, &r->warnings);
	return sc_json_write(&json, out, err);
}
