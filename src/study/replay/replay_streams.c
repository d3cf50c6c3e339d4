/* Replay of GPU streams. Iterations are built and simulated one after the other, so that only one graph is in
 * memory; each in all variants. */
#include "study/replay/replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/units.h"
#include "study/replay/replay_streams_priv.h"

/* The variants that every replay has; those of ranks without their slowness follow. */
enum { V_RECORDED, V_OTHERS, V_CHANGED, V_REFERENCE, V_NO_GAPS, V_TYPICAL, N_FIXED };

struct stream_replay {
	struct stream_study study;
	struct stream_scratch scratch;
	SC_VEC(struct stream_variant) variants;
	double *us; /* [variant][iteration]; NAN: not simulated */
	double *ends_us; /* of each rank: host, device, and how far the device was behind when recorded */
	int64_t n_simulated;
	bool changed;
};

static enum stream_times changed_gaps(const struct sc_replay_opts *opts)
{
	if (opts->gaps == SC_GAPS_MEASURED)
		return STREAM_MEASURED;
	return opts->gaps == SC_GAPS_NONE ? STREAM_ZERO : STREAM_TYPICAL;
}

static void choose_variants(struct stream_replay *replay)
{
	const struct sc_replay_opts *opts = replay->study.opts;
	const enum stream_times gaps = changed_gaps(opts);
	const struct stream_variant fixed[N_FIXED] = {
		[V_RECORDED] = {STREAM_MEASURED, STREAM_MEASURED, false, SIZE_MAX},
		[V_OTHERS] = {STREAM_OTHERS, STREAM_OTHERS, false, SIZE_MAX},
		[V_CHANGED] = {gaps, STREAM_MEASURED, true, SIZE_MAX},
		[V_REFERENCE] = {gaps, STREAM_MEASURED, false, SIZE_MAX},
		[V_NO_GAPS] = {STREAM_ZERO, STREAM_MEASURED, false, SIZE_MAX},
		[V_TYPICAL] = {STREAM_ZERO, STREAM_MEAN, false, SIZE_MAX},
	};

	for (size_t i = 0; i < N_FIXED; i++)
		SC_VEC_PUSH(&replay->variants, fixed[i]);
	for (size_t r = 0; r < replay->study.run.ranks.n; r++) {
		const struct stream_variant without = {gaps, STREAM_MEASURED, false, r};

		if (replay->study.run.ranks.n > 1 && !opts->no_what_if)
			SC_VEC_PUSH(&replay->variants, without);
	}
}

/* When a rank's iteration has ended on the host, and when all that it launched has on the device. */
static void rank_ends(const struct stream_scratch *s, double *host_us, double *device_us)
{
	const struct sc_graph *g = &s->graph.graph;

	for (size_t r = 0; r < s->graph.end.n; r++) {
		host_us[r] = s->timeline.end_us[s->graph.end.at[r]];
		device_us[r] = 0;
	}
	for (uint32_t i = 0; i < g->nodes.n; i++)
		if (s->graph.refs.at[i].kind == SC_TRACE_NODE_ACT) {
			double *last = &device_us[g->lanes.at[g->nodes.at[i].lane].class_id];

			*last = fmax(*last, s->timeline.end_us[i]);
		}
}

/* Until the last rank's iteration has ended. A host that runs ahead leaves the device work that the next
 * iteration begins with; what is left beyond what was recorded is this iteration's, since the next one has
 * no more room than this. */
static double iteration_us(struct stream_replay *replay, size_t v)
{
	const size_t n = replay->study.run.ranks.n;
	double *host_us = replay->ends_us, *device_us = &replay->ends_us[n],
	       *ahead_us = &device_us[n];
	double last = 0;

	rank_ends(&replay->scratch, host_us, device_us);
	for (size_t r = 0; r < n; r++) {
		if (v == V_RECORDED)
			ahead_us[r] = fmax(0, device_us[r] - host_us[r]);
		last = fmax(last, fmax(host_us[r], device_us[r] - ahead_us[r]));
	}
	return last;
}

static bool is_wanted(const struct stream_replay *replay, size_t v)
{
	if (v == V_CHANGED)
		return replay->changed;
	if (v == V_OTHERS)
		return replay->study.run.n_iterations > 1;
	return v < V_NO_GAPS || !replay->study.opts->no_what_if;
}

/* Graphs that were reshaped are built again for the variants after them. */
static bool reshapes(const struct stream_replay *replay, size_t v)
{
	const struct sc_replay_opts *opts = replay->study.opts;

	return v == V_CHANGED && (opts->overlap != SC_OVERLAP_AS_RECORDED || opts->bucket_mib > 0);
}

/* Waits are dropped of what was recorded, and added to what is there in the end. */
static void reshape(struct stream_replay *replay, size_t iteration)
{
	const struct sc_replay_opts *opts = replay->study.opts;
	struct sc_trace_graph *graph = &replay->scratch.graph;

	if (opts->overlap == SC_OVERLAP_FREE)
		sc_streams_overlap(&replay->study, graph);
	if (opts->bucket_mib > 0)
		sc_streams_bucket(&replay->study, iteration, graph);
	if (opts->overlap == SC_OVERLAP_NONE)
		sc_streams_overlap(&replay->study, graph);
}

static int simulate(struct stream_replay *replay, size_t iteration, size_t v, struct sc_err *err)
{
	static const struct sc_sim_opts opts = {.no_contention = 1};
	struct stream_scratch *s = &replay->scratch;
	int rc;

	if (v != V_RECORDED)
		sc_streams_set(&replay->study, iteration, &replay->variants.at[v], &s->graph);
	if (reshapes(replay, v))
		reshape(replay, iteration);
	rc = sc_simulate(s->sim, &s->graph.graph, &opts, &s->timeline, err);
	if (rc) {
		sc_err_prefix(err, "iteration %" PRId64,
			      replay->study.run.ranks.at[0].iterations.at[iteration].step);
		return rc;
	}
	replay->n_simulated += (int64_t)s->graph.graph.nodes.n;
	replay->us[v * replay->study.run.n_iterations + iteration] = iteration_us(replay, v);
	return 0;
}

static int simulate_all(struct stream_replay *replay, struct sc_err *err)
{
	const size_t n = replay->study.run.n_iterations;
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		sc_build_trace(&replay->study.run, i, &replay->scratch.graph);
		for (size_t v = 0; v < replay->variants.n; v++) {
			if (!is_wanted(replay, v))
				continue;
			rc = simulate(replay, i, v, err);
			if (rc)
				return rc;
			if (reshapes(replay, v))
				sc_build_trace(&replay->study.run, i, &replay->scratch.graph);
			if (v == V_RECORDED)
				sc_streams_parts(&replay->study, &replay->scratch,
						 replay->us[V_RECORDED * n + i]);
		}
	}
	return 0;
}

/* ---- results ---- */

static double measured_us(const struct sc_trace_run *run, size_t iteration)
{
	int64_t first = INT64_MAX, last = INT64_MIN;

	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct sc_trace_rank *rank = &run->ranks.at[r];
		const struct sc_trace_iteration *it = &rank->iterations.at[iteration];

		if (rank->calls.at[it->begin].start_ns < first)
			first = rank->calls.at[it->begin].start_ns;
		if (rank->calls.at[it->end].start_ns > last)
			last = rank->calls.at[it->end].start_ns;
	}
	return (double)(last - first) / (double)SC_NS_PER_US;
}

static double mean_ms(const struct stream_replay *replay, size_t v)
{
	const size_t n = replay->study.run.n_iterations;

	if (v >= replay->variants.n)
		return NAN;
	return sc_mean(&replay->us[v * n], n) / SC_US_PER_MS;
}

static void put_iterations(const struct stream_replay *replay, struct sc_replay_result *out)
{
	const size_t n = replay->study.run.n_iterations;
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		const struct sc_replay_iteration it = {
			.step = replay->study.run.ranks.at[0].iterations.at[i].step,
			.measured_ms = measured_us(&replay->study.run, i) / SC_US_PER_MS,
			.simulated_ms = replay->us[V_RECORDED * n + i] / SC_US_PER_MS,
			.predicted_ms = replay->us[V_OTHERS * n + i] / SC_US_PER_MS,
			.changed_ms = replay->us[V_CHANGED * n + i] / SC_US_PER_MS,
		};

		sum += it.measured_ms;
		SC_VEC_PUSH(&out->iterations, it);
	}
	out->measured_ms = sum / (double)n;
	out->simulated_ms = mean_ms(replay, V_RECORDED);
	out->predicted_ms = mean_ms(replay, V_OTHERS);
	out->changed_ms = mean_ms(replay, V_CHANGED);
	out->reference_ms = mean_ms(replay, V_REFERENCE);
	out->no_gaps_ms = mean_ms(replay, V_NO_GAPS);
	out->typical_ms = mean_ms(replay, V_TYPICAL);
	for (size_t r = 0; r < out->ranks.n; r++)
		out->ranks.at[r].without_ms = mean_ms(replay, N_FIXED + r);
}

/* ---- the shown iteration ---- */

static int find_shown(const struct stream_replay *replay, size_t *iteration, struct sc_err *err)
{
	const struct sc_trace_run *run = &replay->study.run;
	const int64_t step = replay->study.opts->show_step;
	double *us = sc_xmalloc(run->n_iterations * sizeof(*us)), middle;

	for (size_t i = 0; i < run->n_iterations; i++)
		us[i] = measured_us(run, i);
	sc_sort_doubles(us, run->n_iterations);
	middle = us[(run->n_iterations - 1) / 2];
	free(us);
	for (size_t i = 0; i < run->n_iterations; i++) {
		*iteration = i;
		if (step < 0 ? !(measured_us(run, i) < middle || measured_us(run, i) > middle)
			     : run->ranks.at[0].iterations.at[i].step == step)
			return 0;
	}
	return sc_err_set(err, SC_EVALUE, "the trace has no step %" PRId64, step);
}

static int put_shown(struct stream_replay *replay, struct sc_replay_result *out, struct sc_err *err)
{
	struct stream_scratch *s = &replay->scratch;
	size_t iteration = 0;
	int rc = find_shown(replay, &iteration, err);

	if (rc)
		return rc;
	sc_build_trace(&replay->study.run, iteration, &s->graph);
	rc = simulate(replay, iteration, replay->changed ? V_CHANGED : V_RECORDED, err);
	if (rc)
		return rc;
	out->node_names =
		sc_arena_calloc(&out->arena, s->graph.graph.nodes.n, sizeof(*out->node_names));
	for (size_t i = 0; i < s->graph.graph.nodes.n; i++)
		out->node_names[i] = sc_arena_strdup(
			&out->arena,
			sc_trace_run_name(&replay->study.run, s->graph.graph.nodes.at[i].op));
	out->show_step = replay->study.run.ranks.at[0].iterations.at[iteration].step;
	out->graph = s->graph.graph;
	out->timeline = s->timeline;
	sc_graph_init(&s->graph.graph);
	s->timeline = (struct sc_timeline){.n = 0};
	sc_replay_show(out);
	return 0;
}

/* ---- the whole ---- */

static int begin_replay(struct stream_replay *replay, struct sc_err *err)
{
	struct stream_study *study = &replay->study;
	const size_t n = study->run.ranks.n;
	int rc = 0;

	if (study->opts->cluster) {
		rc = sc_fabric_from_request(study->opts->cluster, &study->fabric, err);
		study->has_fabric = rc == 0;
	}
	study->medians = sc_xmalloc((n + 1) * sizeof(*study->medians));
	sc_streams_medians(&study->run, study->medians);
	sc_streams_means(study);
	study->part_us = sc_xmalloc((n + 1) * SC_N_PARTS * sizeof(double));
	memset(study->part_us, 0, (n + 1) * SC_N_PARTS * sizeof(double));
	study->late_us = sc_xmalloc((n + 1) * sizeof(double));
	memset(study->late_us, 0, (n + 1) * sizeof(double));
	choose_variants(replay);
	replay->us = sc_xmalloc(replay->variants.n * study->run.n_iterations * sizeof(double));
	for (size_t i = 0; i < replay->variants.n * study->run.n_iterations; i++)
		replay->us[i] = NAN;
	replay->ends_us = sc_xmalloc(3 * n * sizeof(double));
	sc_graph_init(&replay->scratch.graph.graph);
	replay->scratch.sim = sc_simulator_create();
	return rc;
}

static void end_replay(struct stream_replay *replay)
{
	struct stream_study *study = &replay->study;

	for (size_t r = 0; r < study->run.ranks.n; r++)
		sc_streams_release_medians(&study->medians[r]);
	free(study->medians);
	free(study->mean_us);
	free(study->slowness);
	free(study->part_us);
	free(study->late_us);
	SC_VEC_RELEASE(&study->fits);
	free(replay->us);
	free(replay->ends_us);
	SC_VEC_RELEASE(&replay->variants);
	sc_simulator_destroy(replay->scratch.sim);
	sc_timeline_release(&replay->scratch.timeline);
	sc_trace_graph_release(&replay->scratch.graph);
	sc_trace_run_release(&study->run);
}

static int run_streams(const char *const *files, size_t n_files, const struct sc_replay_opts *opts,
		       struct sc_replay_result *out, struct sc_err *err)
{
	struct stream_replay replay = {.study = {.opts = opts},
				       .changed = sc_replay_has_change(opts)};
	int rc = sc_trace_run_load(files, n_files, opts->range, &replay.study.run, err);

	if (rc)
		return rc;
	rc = begin_replay(&replay, err);
	if (rc == 0)
		rc = sc_streams_check_changes(&replay.study, err);
	if (rc == 0 && opts->bucket_mib > 0)
		rc = sc_streams_fit_sizes(&replay.study, err);
	if (rc == 0)
		rc = simulate_all(&replay, err);
	if (rc == 0) {
		sc_streams_results(&replay.study, out);
		put_iterations(&replay, out);
		rc = put_shown(&replay, out, err);
		out->n_simulated = replay.n_simulated;
	}
	end_replay(&replay);
	return rc;
}

static bool takes_streams(const struct sc_trace *tables)
{
	return strcmp(tables->identity.source, "job") != 0;
}

const struct sc_replay_source sc_replay_streams = {.name = "streams",
						   .reshapes = true,
						   .models = true,
						   .takes = takes_streams,
						   .run = run_streams};
