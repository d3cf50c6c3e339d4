/* A replay as text: measured beside simulated, who waited for whom, what changes would bring. */
#include "report/replay_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json_out.h"
#include "base/units.h"
#include "report/parts.h"

#define LAG_SHARE 0.01     /* of a step, from which it is told */
#define LEAST_BIAS_PCT 0.1 /* that is said */
#define LEAST_COST 0.01    /* of a step, of communication that may hold waits */
#define LEAST_UNKNOWN 0.05 /* of a step, of waits that nothing explains */
#define MOST_UNKNOWN 0.25

enum {
	MAX_ITERATION_LINES = 12,
	MAX_RANK_LINES = 32,
	MAX_PATH_LINES = 12,
	MAX_WHERE_LINES = 8,
	PATH_WIDTH = 48
};

static const char *const PART_HEADS[SC_N_PARTS] = {
	[SC_PART_COMPUTE] = "compute",   [SC_PART_MEMORY] = "memory", [SC_PART_COMM] = "exposed",
	[SC_PART_PIPELINE] = "pipeline", [SC_PART_PEERS] = "peers",   [SC_PART_HOST] = "gaps",
	[SC_PART_DONE] = "done",
};

static double pct_off(double value, double base)
{
	return SC_PCT * (value / base - 1);
}

static void append_error(const struct sc_replay_result *r, enum sc_replay_column column,
			 struct sc_strbuf *out)
{
	struct sc_replay_error error;

	sc_replay_error_of(r, column, &error);
	if (isnan(error.median_pct))
		sc_strbuf_append(out, "   not predicted: there is one iteration only");
	else
		sc_strbuf_printf(out, "   error median %.2f %%, largest %.2f %%", error.median_pct,
				 error.max_pct);
	if (error.typical_max_pct < error.max_pct)
		sc_strbuf_printf(out, ", %.2f %% without outliers", error.typical_max_pct);
	sc_strbuf_append(out, "\n");
}

static void append_mean(const char *what, double ms, double measured_ms, struct sc_strbuf *out)
{
	const struct sc_time_unit unit = sc_time_unit_of(measured_ms);

	if (isnan(ms))
		return;
	sc_strbuf_printf(out, "%-28s", what);
	sc_text_known(ms / unit.ms, 12, 2, out);
	sc_strbuf_printf(out, " %s", unit.name);
	sc_text_known(pct_off(ms, measured_ms), 8, 2, out);
	sc_strbuf_append(out, " %\n");
}

/* Largest first; "other" is what no name tells. */
static void append_families(const struct sc_replay_result *r, struct sc_strbuf *out)
{
	bool put[SC_N_KERNEL_FAMILIES] = {false};
	double sum = 0;

	for (int f = 0; f < SC_N_KERNEL_FAMILIES; f++)
		sum += r->family_ms[f];
	if (!(sum > 0))
		return;
	sc_strbuf_append(out, "devices     ");
	for (int n = 0; n < SC_N_KERNEL_FAMILIES; n++) {
		int next = -1;

		for (int f = 0; f < SC_N_KERNEL_FAMILIES; f++)
			if (!put[f] && r->family_ms[f] > 0 &&
			    (next < 0 || r->family_ms[f] > r->family_ms[next]))
				next = f;
		if (next < 0)
			break;
		put[next] = true;
		sc_strbuf_printf(out, "%s%s %.1f %%", n ? ", " : "",
				 sc_kernel_family_name((enum sc_kernel_family)next),
				 sc_share_pct(r->family_ms[next], sum));
	}
	sc_strbuf_append(out, "\n");
}

/* Steps end with their slowest rank: the slowest typical time is below the mean of the slowest. */
static void append_bias(const struct sc_replay_result *r, struct sc_strbuf *out)
{
	double measured_ms = 0, typical_ms = 0, off;

	for (size_t i = 0; i < r->iterations.n; i++) {
		measured_ms += r->iterations.at[i].measured_ms;
		typical_ms += r->iterations.at[i].predicted_ms;
	}
	off = pct_off(typical_ms, measured_ms);
	if (r->n_ranks > 1 && off < -LEAST_BIAS_PCT)
		sc_strbuf_printf(
			out,
			"typical times %+.2f %% in the mean: they lack the chance delays of "
			"the rank that each step waits for\n",
			off);
}

/* Says how far single steps are from their prediction. */
static void append_band(const struct sc_replay_result *r, struct sc_strbuf *out)
{
	struct sc_replay_error of;
	size_t n_outliers = 0;

	sc_replay_error_of(r, SC_REPLAY_PREDICTED, &of);
	if (isnan(of.typical_low_pct))
		return;
	for (size_t i = 0; i < r->iterations.n; i++)
		n_outliers += r->iterations.at[i].outlier;
	sc_strbuf_printf(out, "single step   %+.1f to %+.1f %% off what the others say",
			 of.typical_low_pct, of.typical_high_pct);
	if (n_outliers)
		sc_strbuf_printf(out, "; with %zu outlier%s %+.1f to %+.1f %%", n_outliers,
				 sc_plural(n_outliers), of.low_pct, of.high_pct);
	sc_strbuf_append(out, "\n");
}

/* The range in which the host works most, else the operator. */
static const char *host_range(const struct sc_replay_result *r)
{
	const struct sc_replay_wheres *const tables[] = {&r->by_range, &r->by_op};
	const struct sc_replay_where *most = NULL;

	for (size_t t = 0; t < 2; t++)
		for (size_t i = 0; i < tables[t]->n; i++)
			if (tables[t]->at[i].host_ms > (most ? most->host_ms : 0))
				most = &tables[t]->at[i];
	return most ? most->name : NULL;
}

/* Names the time that no what-if can explain. */
static void append_unknown(const struct sc_replay_result *r, const struct sc_time_unit *unit,
			   struct sc_strbuf *out)
{
	double comm_ms = 0;

	for (size_t i = 0; i < r->ranks.n; i++)
		comm_ms = fmax(comm_ms, r->ranks.at[i].part_ms[SC_PART_COMM]);
	if (r->world > r->n_ranks && comm_ms >= LEAST_COST * r->measured_ms)
		sc_strbuf_printf(out,
				 " Communication holds waits for ranks that were not recorded "
				 "(%" PRId64 " of %" PRId64 ").",
				 r->world - r->n_ranks, r->world);
	if (r->unexplained_ms > LEAST_UNKNOWN * r->reading.iteration_ms)
		sc_strbuf_printf(out,
				 " For %.1f %s of step %" PRId64 " the trace does not say "
				 "what was waited for.",
				 r->unexplained_ms / unit->ms, unit->name, r->show_step);
	if (r->iterations.n == 1)
		sc_strbuf_append(out, " Whether the one step is like others is not known.");
}

/* The verdict names the greatest cost, the gain without it, and time that is not explained. */
static void append_verdict(const struct sc_replay_result *r, struct sc_strbuf *out)
{
	static const struct {
		const char *what, *without;
	} LOSSES[SC_N_LOSSES] = {
		[SC_LOSS_NONE] = {"Nothing but its kernels costs much: they compute", NULL},
		[SC_LOSS_HOST] = {"The GPU waits for its host", "with a host that is never late"},
		[SC_LOSS_COMM] = {"Exposed communication takes", "without its transfers"},
		[SC_LOSS_BUBBLE] = {"Waiting for other pipeline stages takes",
				    "were every operation typical"},
		[SC_LOSS_MEMORY] = {"Kernels bound by memory take", "at twice their speed"},
		[SC_LOSS_COPIES] = {"Copies that no kernel hides take", "without them"},
		[SC_LOSS_WAITS] = {"Waiting for other ranks takes", "were every operation typical"},
	};
	const struct sc_time_unit unit = sc_time_unit_of(r->reference_ms);
	const bool saves =
		r->reference_ms - r->without_loss_ms >= LEAST_COST * r->reference_ms; /* not NAN */

	if (r->loss_by == SC_LOSS_STRAGGLER) {
		const struct sc_replay_rank *worst = &r->ranks.at[r->slowest];

		sc_strbuf_printf(out,
				 "%c%s costs %.1f of %.1f %s: were it no slower than the others",
				 worst->name[0] - 'a' + 'A', worst->name + 1, r->loss_ms / unit.ms,
				 r->reference_ms / unit.ms, unit.name);
	} else {
		sc_strbuf_printf(out, "%s %.1f of %.1f %s", LOSSES[r->loss_by].what,
				 r->loss_ms / unit.ms, r->simulated_ms / unit.ms, unit.name);
		if (r->loss_by == SC_LOSS_HOST && host_range(r))
			sc_strbuf_printf(out, ", which works most in %.80s", host_range(r));
		if (saves)
			sc_strbuf_printf(out, ": %s", LOSSES[r->loss_by].without);
	}
	if (saves)
		sc_strbuf_printf(out, ", a step would take %.1f %s", r->without_loss_ms / unit.ms,
				 unit.name);
	sc_strbuf_append_char(out, '.');
	append_unknown(r, &unit, out);
}

/* Names the parts of the changed step that the changes do not reach. */
static void append_still(const struct sc_reading *reading, struct sc_strbuf *out)
{
	int most = 0;

	for (int owner = 1; owner < SC_N_OWNERS; owner++)
		if (reading->path_owner_ms[owner] > reading->path_owner_ms[most])
			most = owner;
	if (reading->path_owner_ms[most] > 0)
		sc_strbuf_printf(out, "what holds the changed step: %s, %.0f %% of its path\n",
				 sc_owner_names[most],
				 sc_share_pct(reading->path_owner_ms[most], reading->iteration_ms));
}

static void append_head(const struct sc_replay_result *r, struct sc_strbuf *out)
{
	const char *gaps = r->gaps == SC_GAPS_MEASURED ? "with measured"
			   : r->gaps == SC_GAPS_NONE   ? "without"
						       : "with typical";
	char reference[32];

	append_verdict(r, out);
	sc_strbuf_append(out, "\n\n");
	sc_strbuf_printf(out,
			 "replay      %s: %" PRId64 " ranks of %" PRId64 " GPUs, %zu iterations, "
			 "%" PRId64 " operations\n",
			 r->source, r->n_ranks, r->gpus, r->iterations.n, r->n_events);
	sc_strbuf_printf(out, "iterations  %s\n", r->marked_by);
	sc_strbuf_printf(out, "reused      %s\n", r->reused);
	append_families(r, out);
	sc_strbuf_append(out, "as recorded");
	append_error(r, SC_REPLAY_SIMULATED, out);
	sc_strbuf_append(out, "from others");
	append_error(r, SC_REPLAY_PREDICTED, out);
	append_bias(r, out);
	append_band(r, out);
	sc_strbuf_append(out, "\niteration, mean                             over measured\n");
	append_mean("  measured", r->measured_ms, r->measured_ms, out);
	append_mean("  simulated", r->simulated_ms, r->measured_ms, out);
	append_mean("  without launch gaps", r->no_gaps_ms, r->measured_ms, out);
	snprintf(reference, sizeof(reference), "  %s gaps", gaps);
	if (r->gaps != SC_GAPS_NONE)
		append_mean(reference, r->reference_ms, r->measured_ms, out);
	append_mean("  every operation typical", r->typical_ms, r->measured_ms, out);
	append_mean("  changed", r->changed_ms, r->measured_ms, out);
	append_mean("  changed, unexplained waits too", r->changed_free_ms, r->measured_ms, out);
	if (!isnan(pct_off(r->changed_ms, r->reference_ms)))
		sc_strbuf_printf(out, "the changes make it %.2f %% %s than %s gaps\n",
				 fabs(pct_off(r->changed_ms, r->reference_ms)),
				 r->changed_ms < r->reference_ms ? "shorter" : "longer", gaps);
	if (!isnan(pct_off(r->changed_free_ms, r->reference_ms)))
		sc_strbuf_printf(
			out,
			"that is one bound, %+.2f %% the other: waits that nothing explains are "
			"%.0f %% of a step, and may follow what is changed\n",
			pct_off(r->changed_free_ms, r->reference_ms), SC_PCT * r->unexplained_frac);
	if (!isnan(r->changed_ms))
		append_still(&r->reading, out);
}

/* The first, and all outliers. */
static void append_iterations(const struct sc_replay_result *r, struct sc_strbuf *out)
{
	const struct sc_time_unit unit = sc_time_unit_of(r->measured_ms);
	size_t n_more = 0;
	bool lags = false;

	for (size_t i = 0; i < r->iterations.n; i++)
		lags = lags ||
		       r->iterations.at[i].lag_ms > LAG_SHARE * r->iterations.at[i].measured_ms;
	sc_strbuf_printf(out, "\nstep%8s measured%s    simulated  from others      changed\n",
			 unit.name, lags ? "   device lag" : "");
	for (size_t i = 0; i < r->iterations.n; i++) {
		const struct sc_replay_iteration *it = &r->iterations.at[i];

		if (i >= MAX_ITERATION_LINES && !it->outlier) {
			n_more++;
			continue;
		}
		sc_strbuf_printf(out, "%-10" PRId64, it->step);
		sc_text_known(it->measured_ms / unit.ms, 12, 2, out);
		if (lags)
			sc_text_known(it->lag_ms / unit.ms, 12, 2, out);
		sc_text_known(it->simulated_ms / unit.ms, 12, 2, out);
		sc_text_known(it->predicted_ms / unit.ms, 12, 2, out);
		sc_text_known(it->changed_ms / unit.ms, 12, 2, out);
		if (it->outlier)
			sc_strbuf_printf(out, "  outlier: %s %+.1f %s", PART_HEADS[it->more_of],
					 it->more_ms / unit.ms, unit.name);
		sc_strbuf_append(out, "\n");
	}
	if (n_more)
		sc_strbuf_printf(out, "... and %zu more\n", n_more);
}

/* Only recordings of streams have memory operations. */
static bool has_part(const struct sc_replay_result *r, int part)
{
	bool has = part != SC_PART_MEMORY;

	for (size_t i = 0; i < r->ranks.n; i++)
		has = has || r->ranks.at[i].part_ms[part] > 0;
	return has;
}

static void append_ranks(const struct sc_replay_result *r, struct sc_strbuf *out)
{
	const struct sc_time_unit unit = sc_time_unit_of(r->measured_ms);

	sc_strbuf_printf(out, "\nwhere ranks spend their time, %s\n%-10s", unit.name, "");
	for (int p = 0; p < SC_N_PARTS; p++)
		if (has_part(r, p))
			sc_strbuf_printf(out, " %8s", PART_HEADS[p]);
	sc_strbuf_append(out, " slowness    costs\n");
	for (size_t i = 0; i < r->ranks.n && i < MAX_RANK_LINES; i++) {
		const struct sc_replay_rank *rank = &r->ranks.at[i];

		sc_strbuf_printf(out, "  %-8s", rank->name);
		for (int p = 0; p < SC_N_PARTS; p++)
			if (has_part(r, p))
				sc_strbuf_printf(out, " %8.*f", 1 + (unit.ms > 1),
						 rank->part_ms[p] / unit.ms);
		sc_text_known(rank->slowness, 8, 3, out);
		sc_text_known((r->reference_ms - rank->without_ms) / unit.ms, 8, 1 + (unit.ms > 1),
			      out);
		sc_strbuf_append(out, "\n");
	}
	if (r->ranks.n > MAX_RANK_LINES)
		sc_strbuf_printf(out, "  ... and %zu more\n", r->ranks.n - MAX_RANK_LINES);
}

/* The largest, by what is named. */
static void append_where(const char *by, const struct sc_replay_wheres *table,
			 struct sc_strbuf *out)
{
	if (table->n)
		sc_strbuf_printf(out, "\n%-*s     host ms  kernels ms  launched\n", PATH_WIDTH + 2,
				 by);
	for (size_t i = 0; i < table->n && i < MAX_WHERE_LINES; i++)
		sc_strbuf_printf(out, "  %-*.*s %11.2f %11.2f %9.0f\n", PATH_WIDTH, PATH_WIDTH,
				 table->at[i].name, table->at[i].host_ms, table->at[i].device_ms,
				 table->at[i].n_launched);
}

/* Idle time is told by its reasons, because people look for why a GPU does not compute. */
static void append_idle(const struct sc_replay_result *r, struct sc_strbuf *out)
{
	double sum = 0;

	for (int k = 0; k < SC_N_IDLES; k++)
		sum += r->idle_ms[k];
	if (!(sum > 0))
		return;
	sc_strbuf_printf(out, "\nidle          %.2f ms of a step nothing is computed: ", sum);
	for (int k = 0; k < SC_N_IDLES; k++)
		sc_strbuf_printf(out, "%s%s %.2f", k ? ", " : "", sc_replay_idle_names[k],
				 r->idle_ms[k]);
	sc_strbuf_append(out, "\n");
}

static void append_path(const struct sc_replay_result *r, struct sc_strbuf *out)
{
	sc_strbuf_printf(out, "\ncritical path of step %-44" PRId64 "        ms      %%    count\n",
			 r->show_step);
	for (size_t i = 0; i < r->reading.n_contributors && i < MAX_PATH_LINES; i++) {
		const struct sc_contributor *part = &r->reading.contributors[i];

		sc_text_symbol(part->what, PATH_WIDTH, out);
		sc_strbuf_printf(out, " %11.2f %6.1f %8.0f\n", part->ms,
				 sc_share_pct(part->ms, r->reading.iteration_ms), part->count);
	}
	sc_text_breakdown(&r->reading, out);
}

static void put_replay_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_replay_result *r = result;

	append_head(r, out);
	append_iterations(r, out);
	append_ranks(r, out);
	append_idle(r, out);
	append_where("host and its kernels by range", &r->by_range, out);
	append_where("host and its kernels by operator", &r->by_op, out);
	if (r->factors.n)
		sc_strbuf_append(out, "\nslowdown over all typical, with these as recorded\n");
	for (size_t i = 0; i < r->factors.n; i++)
		sc_strbuf_printf(out, "  %-8s %-32s %8.4f\n", r->factors.at[i].by,
				 r->factors.at[i].name, r->factors.at[i].slowdown);
	append_path(r, out);
}

/* A replay as JSON. What is not known is null. */

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
	SC_JSON_PUT(json, object, *loss, n_files, reason);
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

static void add_iterations(struct sc_json *json, const struct sc_replay_result *r)
{
	json_t *array = sc_json_array(json, json->root, "iterations");

	for (size_t i = 0; i < r->iterations.n; i++) {
		const struct sc_replay_iteration *it = &r->iterations.at[i];
		json_t *row = sc_json_object(json, array, NULL);

		SC_JSON_PUT(json, row, *it, step, outlier);
		SC_JSON_KNOWN(json, row, *it, lag_ms, measured_ms, simulated_ms, predicted_ms,
			      changed_ms);
	}
}

static void add_ranks(struct sc_json *json, const struct sc_replay_result *r)
{
	json_t *array = sc_json_array(json, json->root, "ranks");

	for (size_t i = 0; i < r->ranks.n; i++) {
		const struct sc_replay_rank *rank = &r->ranks.at[i];
		json_t *row = sc_json_object(json, array, NULL), *parts;

		sc_json_text(json, row, "name", rank->name);
		SC_JSON_KNOWN(json, row, *rank, rank, dp_rank, stage);
		parts = sc_json_object(json, row, "breakdown_ms");
		for (int p = 0; p < SC_N_PARTS; p++)
			sc_json_real(json, parts, sc_replay_part_names[p], rank->part_ms[p]);
		sc_json_real(json, row, "late_ms", rank->late_ms);
		SC_JSON_KNOWN(json, row, *rank, slowness, host_slowness, without_ms);
		sc_json_known_real(json, row, "cost_ms", r->reference_ms - rank->without_ms);
	}
}

static void add_where(struct sc_json *json, const char *key, const struct sc_replay_wheres *table)
{
	json_t *array = table->n ? sc_json_array(json, json->root, key) : NULL;

	for (size_t i = 0; i < table->n; i++) {
		json_t *row = sc_json_object(json, array, NULL);

		SC_JSON_PUT(json, row, table->at[i], name, host_ms, device_ms);
		sc_json_real(json, row, "launched", table->at[i].n_launched);
	}
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

		SC_JSON_PUT(json, row, r->reading.contributors[i], what, ms);
		sc_json_int(json, row, "count", (int64_t)r->reading.contributors[i].count);
	}
}

static void add_replay_verdict(struct sc_json *json, const struct sc_replay_result *r)
{
	enum { GOOD_PCT = 5, FAIR_PCT = 15 };
	/* Nothing tells the end of the step of a file that was cut, or what a step did in a quarter
	 * of its time. */
	const bool is_dark = (r->loss.is_cut && r->iterations.n == 1) ||
			     r->unexplained_ms > MOST_UNKNOWN * r->reading.iteration_ms;
	struct sc_replay_error error;
	struct sc_strbuf text = {0};

	sc_replay_error_of(r, SC_REPLAY_SIMULATED, &error);
	if (isnan(error.median_pct))
		return;
	sc_strbuf_printf(&text, "%lld %s%s: ", (long long)r->gpus, r->gpu ? "x " : "GPUs",
			 r->gpu ? r->gpu : "");
	append_verdict(r, &text);
	sc_strbuf_append_char(&text, ' ');
	sc_json_verdict(json,
			is_dark || r->broken_frac > 1 ? SC_STANDS_BADLY
			: error.median_pct < GOOD_PCT && r->broken_frac <= SC_LOSS_STANDS_FRAC
				? SC_STANDS_WELL
			: error.median_pct < FAIR_PCT ? SC_STANDS_FAIR
						      : SC_STANDS_BADLY,
			"%sThe replay is off by %.2f %% (median), %.2f %% at most.",
			sc_strbuf_get(&text), error.median_pct, error.max_pct);
	sc_strbuf_release(&text);
}

static void put_replay_json(const void *result, struct sc_json *json)
{
	const struct sc_replay_result *r = result;
	json_t *at, *by = NULL;
	struct sc_replay_error of;

	sc_json_init(json, "stepcast/replay", REPLAY_VERSION);
	add_replay_verdict(json, r);
	sc_json_text(json, json->root, "source", r->source);
	if (r->gpu)
		sc_json_text(json, json->root, "device", r->gpu);
	sc_json_text(json, json->root, "iterations_found", r->marked_by);
	SC_JSON_PUT(json, json->root, *r, reused, n_ranks, gpus, n_events, n_simulated);
	sc_json_loss(json, json->root, &r->loss);
	at = sc_json_object(json, json->root, "mean_ms");
	sc_json_known_real(json, at, "measured", r->measured_ms);
	sc_json_known_real(json, at, "simulated", r->simulated_ms);
	sc_json_known_real(json, at, "predicted", r->predicted_ms);
	sc_json_known_real(json, at, "no_gaps", r->no_gaps_ms);
	sc_json_known_real(json, at, "reference", r->reference_ms);
	sc_json_known_real(json, at, "typical", r->typical_ms);
	sc_json_known_real(json, at, "changed", r->changed_ms);
	sc_json_known_real(json, at, "changed_free", r->changed_free_ms);
	add_error(json, r, "simulated", SC_REPLAY_SIMULATED);
	add_error(json, r, "predicted", SC_REPLAY_PREDICTED);
	at = sc_json_object(json, json->root, "band_pct");
	sc_replay_error_of(r, SC_REPLAY_PREDICTED, &of);
	sc_json_known_real(json, at, "typical_low", of.typical_low_pct);
	sc_json_known_real(json, at, "typical_high", of.typical_high_pct);
	sc_json_known_real(json, at, "low", of.low_pct);
	sc_json_known_real(json, at, "high", of.high_pct);
	add_iterations(json, r);
	add_ranks(json, r);
	at = sc_json_object(json, json->root, "family_ms");
	for (int f = 0; f < SC_N_KERNEL_FAMILIES; f++)
		if (r->family_ms[f] > 0)
			sc_json_real(json, at, sc_kernel_family_name((enum sc_kernel_family)f),
				     r->family_ms[f]);
	at = sc_json_object(json, json->root, "slowdown");
	for (size_t i = 0; i < r->factors.n; i++) {
		const struct sc_replay_factor *factor = &r->factors.at[i];

		if (i == 0 || factor->by != factor[-1].by)
			by = sc_json_object(json, at, factor->by);
		sc_json_real(json, by, factor->name, factor->slowdown);
	}
	add_path(json, r);
	if (r->by_op.n || r->by_range.n)
		at = sc_json_object(json, json->root, "idle_ms");
	for (int k = 0; (r->by_op.n || r->by_range.n) && k < SC_N_IDLES; k++)
		sc_json_real(json, at, sc_replay_idle_names[k], r->idle_ms[k]);
	add_where(json, "by_range", &r->by_range);
	add_where(json, "by_operator", &r->by_op);
	sc_json_warnings(json, &r->warnings);
}

const struct sc_forms sc_replay_forms = {.json = put_replay_json, .text = put_replay_text};
