/* What all replays share: finding the source, the critical path as people read it, errors. */
#include "study/replay/replay.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/units.h"
#include "predict/engine/critical_path.h"

enum { ARENA_BYTES = 64 << 10 };

static const struct sc_replay_source *const SOURCES[] = {&sc_replay_job, &sc_replay_streams};

const char *const sc_replay_part_names[SC_N_PARTS] = {
	[SC_PART_COMPUTE] = "compute",   [SC_PART_MEMORY] = "memory",
	[SC_PART_COMM] = "exposed_comm", [SC_PART_PIPELINE] = "pipeline_wait",
	[SC_PART_PEERS] = "peer_wait",   [SC_PART_HOST] = "host",
	[SC_PART_DONE] = "done_early",
};

void sc_replay_opts_init(struct sc_replay_opts *opts)
{
	*opts = (struct sc_replay_opts){.without_rank = -1, .show_step = -1};
}

static bool wants_reshaping(const struct sc_replay_opts *opts)
{
	return opts->overlap != SC_OVERLAP_AS_RECORDED || opts->missing != SC_MISSING_RECORDED ||
	       opts->bucket_mib > 0;
}

bool sc_replay_has_change(const struct sc_replay_opts *opts)
{
	return opts->n_changes || opts->gpus || opts->without_rank >= 0 ||
	       opts->gaps != SC_GAPS_AUTO || wants_reshaping(opts);
}

void sc_replay_result_release(struct sc_replay_result *result)
{
	SC_VEC_RELEASE(&result->iterations);
	SC_VEC_RELEASE(&result->ranks);
	SC_VEC_RELEASE(&result->factors);
	sc_graph_release(&result->graph);
	sc_timeline_release(&result->timeline);
	sc_arena_release(&result->arena);
}

static void init_result(struct sc_replay_result *out)
{
	*out = (struct sc_replay_result){
		.measured_ms = NAN,
		.simulated_ms = NAN,
		.predicted_ms = NAN,
		.no_gaps_ms = NAN,
		.reference_ms = NAN,
		.typical_ms = NAN,
		.changed_ms = NAN,
	};
	sc_arena_init(&out->arena, ARENA_BYTES);
}

static const struct sc_replay_source *find_source(const struct sc_trace *tables)
{
	for (size_t i = 0; i < sizeof(SOURCES) / sizeof(SOURCES[0]); i++)
		if (SOURCES[i]->takes(tables))
			return SOURCES[i];
	return NULL;
}

static bool asks_cluster(const struct sc_replay_opts *opts)
{
	for (size_t i = 0; i < opts->n_changes; i++)
		if (opts->changes[i].action == SC_REPLAY_MODEL)
			return true;
	return opts->gpus > 0 || opts->bucket_mib > 0;
}

static void warn_of_cluster(const struct sc_replay_source *source,
			    const struct sc_replay_opts *opts, struct sc_replay_result *out)
{
	if (!opts->cluster)
		return;
	if (!source->models)
		sc_warn(&out->warnings,
			"the config of --cluster is not used: the trace of a %s has no sizes to ask "
			"its network about",
			source->name);
	else if (!asks_cluster(opts))
		sc_warn(&out->warnings,
			"the config of --cluster is not used: nothing asks it, as "
			"--replace collective=model, --set gpus or --bucket-mib do");
}

static int run_source(const struct sc_replay_source *source, const char *const *files,
		      size_t n_files, const struct sc_replay_opts *opts,
		      struct sc_replay_result *out, struct sc_err *err)
{
	int rc;

	if (wants_reshaping(opts) && !source->reshapes)
		return sc_err_at(err, SC_EUNSUPPORTED, files[0], 0, 0,
				 "--overlap, --missing and --bucket-mib are for traces of GPU "
				 "streams; this is a %s",
				 source->name);
	rc = source->run(files, n_files, opts, out, err);
	if (rc == 0)
		warn_of_cluster(source, opts, out);
	return rc;
}

int sc_replay(const char *path, const struct sc_replay_opts *opts, struct sc_replay_result *out,
	      struct sc_err *err)
{
	const struct sc_trace_load_opts only_tables = {.skip_events = true};
	const struct sc_replay_source *source;
	const char *const *files;
	struct sc_trace tables;
	size_t n_files;
	int rc;

	init_result(out);
	out->gaps = opts->gaps;
	rc = sc_trace_list(path, &out->arena, &files, &n_files, err);
	if (rc == 0)
		rc = sc_trace_load(files[0], &only_tables, &tables, err);
	if (rc == 0) {
		source = find_source(&tables);
		if (source)
			rc = run_source(source, files, n_files, opts, out, err);
		else
			rc = sc_err_at(err, SC_EUNSUPPORTED, files[0], 0, 0,
				       "no replay of traces from \"%s\"", tables.identity.source);
		sc_trace_release(&tables);
	}
	if (rc)
		sc_replay_result_release(out);
	return rc;
}

/* ---- errors ---- */

static double error_pct(const struct sc_replay_iteration *it, enum sc_replay_column column)
{
	const double ms = column == SC_REPLAY_SIMULATED ? it->simulated_ms : it->predicted_ms;

	return SC_PCT * (ms / it->measured_ms - 1);
}

void sc_replay_error_of(const struct sc_replay_result *result, enum sc_replay_column column,
			struct sc_replay_error *out)
{
	double *pct = sc_xmalloc(result->iterations.n * sizeof(*pct) + 1), sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < result->iterations.n; i++) {
		const double e = error_pct(&result->iterations.at[i], column);

		if (!isfinite(e))
			continue;
		sum += e;
		pct[n++] = fabs(e);
	}
	sc_sort_doubles(pct, n);
	*out = (struct sc_replay_error){
		.median_pct = sc_percentile_sorted(pct, n, 50),
		.max_pct = n ? pct[n - 1] : (double)NAN,
		.bias_pct = n ? sum / (double)n : (double)NAN,
	};
	free(pct);
}

double sc_median_without(const double *sorted, size_t n, size_t k)
{
	const size_t left = n - 1, mid = left / 2;
	double high, low;

	assert(k < n);
	if (n == 1)
		return NAN;
	high = sorted[mid + (mid >= k)];
	if (left % 2)
		return high;
	low = sorted[mid - 1 + (mid - 1 >= k)];
	return (low + high) / 2;
}

/* ---- the critical path of the shown iteration ---- */

struct stretch {
	const char *name;
	uint32_t class_id;
	double us;
	int64_t count;
};

static int compare_place(const void *left, const void *right)
{
	const struct stretch *a = left, *b = right;
	const int by_name = strcmp(a->name, b->name);

	if (by_name)
		return by_name;
	return (a->class_id > b->class_id) - (a->class_id < b->class_id);
}

static int compare_time(const void *left, const void *right)
{
	const struct stretch *a = left, *b = right;

	if (a->us > b->us || a->us < b->us)
		return a->us > b->us ? -1 : 1;
	return compare_place(a, b);
}

/* Segments of the same name and class become one. Returns how many are left. */
static size_t add_up(struct stretch *stretch, size_t n)
{
	size_t kept = 0;

	if (n == 0)
		return 0;
	qsort(stretch, n, sizeof(*stretch), compare_place);
	for (size_t i = 1; i < n; i++) {
		if (compare_place(&stretch[kept], &stretch[i]) == 0) {
			stretch[kept].us += stretch[i].us;
			stretch[kept].count += stretch[i].count;
		} else {
			stretch[++kept] = stretch[i];
		}
	}
	qsort(stretch, kept + 1, sizeof(*stretch), compare_time);
	return kept + 1;
}

static void show_stretch(struct sc_replay_result *r, const struct stretch *stretch)
{
	struct sc_replay_path *path = &r->path[r->n_path++];

	*path = (struct sc_replay_path){.ms = stretch->us / SC_US_PER_MS, .count = stretch->count};
	if (stretch->class_id < r->ranks.n)
		snprintf(path->what, sizeof(path->what), "%.44s of %s", stretch->name,
			 r->ranks.at[stretch->class_id].name);
	else
		snprintf(path->what, sizeof(path->what), "%.90s", stretch->name);
}

void sc_replay_show(struct sc_replay_result *r)
{
	struct sc_critical_path path = {.segments = {0}};
	struct stretch *stretch;
	size_t n;

	sc_critical_path_walk(&r->graph, &r->timeline, SC_NONE, &path);
	stretch = sc_xmalloc(path.segments.n * sizeof(*stretch) + 1);
	for (size_t i = 0; i < path.segments.n; i++) {
		const struct sc_segment *s = &path.segments.at[i];

		stretch[i] = (struct stretch){
			.name = r->node_names[s->node],
			.class_id = r->graph.lanes.at[r->graph.nodes.at[s->node].lane].class_id,
			.us = s->end_us - s->start_us,
			.count = 1,
		};
	}
	n = add_up(stretch, path.segments.n);
	r->n_path = 0;
	for (size_t i = 0; i < n && i < SC_REPLAY_MAX_PATH; i++)
		show_stretch(r, &stretch[i]);
	for (int o = 0; o < SC_N_OWNERS; o++)
		r->breakdown_ms[o] = path.owner_us[o] / SC_US_PER_MS;
	r->show_ms = r->timeline.total_us / SC_US_PER_MS;
	free(stretch);
	sc_critical_path_release(&path);
}
