/* What all replays share: finding the source, the critical path as people read it, errors. */
#include "trace/replay/replay_study.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/stats.h"
#include "base/units.h"

enum { ARENA_BYTES = 64 << 10 };

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
	return opts->overlap != SC_OVERLAP_AS_RECORDED || opts->missing != SC_MISSING_RECORDED;
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

/* --cluster, where nothing asks its network. */
static void warn_of_cluster(const struct replay_study *study, struct sc_replay_result *out)
{
	const struct sc_replay_opts *opts = study->opts;
	bool asked = opts->gpus > 0;

	for (size_t i = 0; i < opts->n_changes; i++)
		asked = asked || opts->changes[i].action == SC_REPLAY_MODEL;
	if (!opts->network.us)
		return;
	if (study->run.n_replicas)
		sc_warn(&out->warnings,
			"the config of --cluster is not used: the trace of a job has no sizes to ask "
			"its network about");
	else if (!asked)
		sc_warn(&out->warnings, "the config of --cluster is not used: nothing asks it, as "
					"--replace collective=model and --set gpus do");
}

static int load(const struct sc_trace_files *files, const struct sc_replay_opts *opts,
		struct sc_trace_run *out, struct sc_err *err)
{
	const struct sc_trace_load_opts only_tables = {.skip_events = true};
	struct sc_trace tables;
	int rc = sc_trace_load(files->at[0], &only_tables, &tables, err);
	bool job;

	if (rc)
		return rc;
	job = strcmp(tables.identity.source, "job") == 0;
	sc_trace_release(&tables);
	if (job && (wants_reshaping(opts) || opts->range))
		return sc_err_at(err, SC_EUNSUPPORTED, files->at[0], 0, 0,
				 "--overlap, --missing and --iteration-range are for traces of GPU "
				 "streams; this is a job");
	return job ? sc_trace_run_load_job(files, out, err)
		   : sc_trace_run_load(files, opts->range, out, err);
}

int sc_replay(const char *path, const struct sc_replay_opts *opts, struct sc_replay_result *out,
	      struct sc_err *err)
{
	struct replay_study study = {.opts = opts, .out = out};
	struct sc_trace_files files;
	int rc;

	init_result(out);
	out->gaps = opts->gaps;
	rc = sc_trace_list(path, &out->arena, &files.at, &files.n, err);
	if (rc == 0)
		rc = sc_trace_loss_of_run(files.at, files.n, &out->loss, err);
	if (rc == 0)
		rc = load(&files, opts, &study.run, err);
	if (rc) {
		sc_replay_result_release(out);
		return rc;
	}
	sc_replay_describe(&study, out);
	sc_replay_study_begin(&study);
	rc = sc_replay_study_check(&study, err);
	if (rc == 0)
		rc = sc_replay_check(&study, &out->warnings, err);
	if (rc == 0)
		rc = sc_replay_study_run(&study, err);
	if (rc == 0)
		warn_of_cluster(&study, out);
	else
		sc_replay_result_release(out);
	sc_replay_study_release(&study);
	return rc;
}

/* ---- errors ---- */

void sc_replay_error_of(const struct sc_replay_result *result, enum sc_replay_column column,
			struct sc_replay_error *out)
{
	double *pct = sc_xmalloc(result->iterations.n * sizeof(*pct) + 1), sum = 0;
	double typical_max_pct = (double)NAN;
	size_t n = 0;

	for (size_t i = 0; i < result->iterations.n; i++) {
		const struct sc_replay_iteration *it = &result->iterations.at[i];
		const double ms =
			column == SC_REPLAY_SIMULATED ? it->simulated_ms : it->predicted_ms;
		const double e = SC_PCT * (ms / it->measured_ms - 1);

		if (!isfinite(e))
			continue;
		sum += e;
		pct[n++] = fabs(e);
		if (!it->outlier)
			typical_max_pct =
				fmax(fabs(e), isnan(typical_max_pct) ? 0 : typical_max_pct);
	}
	sc_sort_doubles(pct, n);
	*out = (struct sc_replay_error){
		.median_pct = sc_percentile_sorted(pct, n, 50),
		.max_pct = n ? pct[n - 1] : (double)NAN,
		.bias_pct = n ? sum / (double)n : (double)NAN,
		.typical_max_pct = typical_max_pct,
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

/* ---- the reading of the shown iteration ---- */

/* What the path is made of, by text. */
struct names {
	struct sc_replay_result *result;
	const struct sc_graph *graph;
	struct sc_intern *texts;
	struct sc_strbuf *text; /* scratch */
};

/* A segment of the path as text: an activity or the wait before it, and its rank. */
static void tally_segment(const void *ctx, const struct sc_path_part *part, struct sc_tally *tally)
{
	const struct sc_segment *s = part->segment;
	const struct names *names = ctx;
	const struct sc_lane *lane = &names->graph->lanes.at[names->graph->nodes.at[s->node].lane];
	const enum sc_gap gap = (enum sc_gap)s->gap;

	sc_strbuf_clear(names->text);
	if (gap != SC_GAP_NONE)
		sc_strbuf_append(names->text, sc_gap_name(gap));
	if (gap != SC_GAP_NONE && gap != SC_GAP_LAUNCH)
		sc_strbuf_append(names->text, " before ");
	if (gap != SC_GAP_LAUNCH)
		sc_strbuf_append(names->text, names->result->node_names[s->node]);
	sc_strbuf_printf(names->text, " of %s", names->result->ranks.at[lane->class_id].name);
	sc_tally_add(tally, sc_intern_add(names->texts, names->text->at), part->us, part->times);
}

static const char *tally_name(const void *ctx, uint32_t id)
{
	const struct names *names = ctx;

	return sc_arena_strdup(&names->result->arena, sc_intern_get(names->texts, id));
}

static void class_name(const void *ctx, uint32_t class_id, char *buf, size_t n_buf)
{
	const struct names *names = ctx;

	snprintf(buf, n_buf, "%s", names->result->ranks.at[class_id].name);
}

void sc_replay_read(struct sc_reading_input *in, struct sc_replay_result *r)
{
	struct sc_reader reader = {.tally = {.by_id = {.n = 0}}};
	struct sc_intern texts = {.n_slots = 0};
	struct sc_strbuf text = {0};
	const struct names names = {r, in->account.ran.graph, &texts, &text};

	in->info = (struct sc_op_info){.ctx = &names,
				       .tally = tally_segment,
				       .tally_name = tally_name,
				       .class_name = class_name};
	sc_read_timeline(&reader, in, &r->reading);
	sc_intern_release(&texts);
	sc_strbuf_release(&text);
	sc_reader_release(&reader);
}
