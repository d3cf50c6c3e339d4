/* Traces of GPU streams as a kind of recording to study. Iterations of a variant follow each other: each begins with
 * what the one before left its devices to do. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "trace/replay/replay_streams_priv.h"

/* Of the time that a device was behind at first: by how much it still moves; how often that is asked. */
#define SETTLED 0.01
enum { MAX_SETTLED = 8 };

/* ---- iterations ---- */

static bool predicts(const void *model, size_t iteration)
{
	(void)iteration;
	return ((const struct stream_study *)model)->run.n_iterations > 1;
}

/* ---- their graphs ---- */

static void *create(void)
{
	struct stream_built *built = sc_xmalloc(sizeof(*built));

	*built = (struct stream_built){.begin_us = {0}};
	sc_graph_init(&built->graph.graph);
	return built;
}

static void destroy(void *p)
{
	struct stream_built *built = p;

	sc_trace_graph_release(&built->graph);
	SC_VEC_RELEASE(&built->begin_us);
	SC_VEC_RELEASE(&built->end_us);
	free(built);
}

static bool reshapes(const void *model)
{
	const struct sc_replay_opts *opts = ((const struct stream_study *)model)->opts;

	return opts->overlap != SC_OVERLAP_AS_RECORDED;
}

static int build(void *self, struct sc_graph **graph, struct sc_err *err)
{
	const struct replay_at *at = self;
	const struct stream_study *study = at->model;
	struct stream_built *built = at->s->built;

	(void)err;
	if (!sc_replay_is_built(at))
		sc_build_trace(&study->run, at->iteration, &built->graph);
	at->s->graph = *graph = &built->graph.graph;
	if (at->v != V_RECORDED)
		sc_streams_set(at, &built->graph);
	if (at->v != V_RECORDED && at->s->reshaped)
		sc_streams_overlap(study, &built->graph);
	return 0;
}

/* ---- when they begin and end ---- */

/* Of a rank: where its device, or its host if that is later, is done with what was before, and with this
 * iteration. A host that runs ahead of its device marks the first and the last call; the device takes from end
 * to end of what they launched. */
static void rank_ends(const struct replay_at *at, double *from_us, double *host_us,
		      double *device_us)
{
	const struct stream_built *s = at->s->built;
	const struct sc_timeline *t = &at->s->timeline;
	const struct sc_graph *g = at->s->graph;

	for (size_t r = 0; r < s->graph.end.n; r++) {
		from_us[r] = t->end_us[s->graph.begin.at[r]];
		host_us[r] = t->end_us[s->graph.end.at[r]];
		device_us[r] = 0;
	}
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const uint8_t kind = s->graph.refs.at[i].kind;
		double *last = kind == SC_TRACE_NODE_ACT ? device_us : from_us;

		if (kind != SC_TRACE_NODE_ACT && kind != SC_TRACE_NODE_CARRIED)
			continue;
		last += sc_graph_class_of(g, i);
		*last = fmax(*last, t->end_us[i]);
	}
}

/* The last of the rank on its device. */
static uint32_t last_on_device(const struct replay_at *at, size_t rank)
{
	const struct stream_built *built = at->s->built;
	const struct sc_graph *g = at->s->graph;
	uint32_t last = built->graph.end.at[rank];

	for (uint32_t i = 0; i < g->nodes.n; i++)
		if (built->graph.refs.at[i].kind == SC_TRACE_NODE_ACT &&
		    sc_graph_class_of(g, i) == rank &&
		    at->s->timeline.end_us[i] > at->s->timeline.end_us[last])
			last = i;
	return last;
}

/* How long a rank's host works: its marked thread from begin to end, without what any thread waits for its
 * device. */
static void host_works(const struct replay_at *at, double *work_us)
{
	const struct stream_built *s = at->s->built;
	const struct sc_timeline *t = &at->s->timeline;

	for (size_t r = 0; r < s->graph.end.n; r++)
		work_us[r] = t->end_us[s->graph.end.at[r]] - t->end_us[s->graph.begin.at[r]];
	for (uint32_t i = 1; i < at->s->graph->nodes.n; i++)
		if (s->graph.refs.at[i].kind == SC_TRACE_NODE_SYNC)
			work_us[sc_graph_class_of(at->s->graph, i)] -=
				t->end_us[i] - t->end_us[i - 1];
}

/* From where the last rank is done with what was before until the last is done with this; no less than a host
 * works, which can have run ahead only once. */
static void find_end(const struct replay_at *at)
{
	const struct stream_study *study = at->model;
	struct stream_built *built = at->s->built;
	const size_t n = study->run.ranks.n;
	double *host_us = study->ends_us, *device_us = &host_us[n], *from_us = &host_us[2 * n],
	       *work_us = &host_us[3 * n];
	size_t whose = 0;

	rank_ends(at, from_us, host_us, device_us);
	host_works(at, work_us);
	built->from_us = built->last_us = 0;
	for (size_t r = 0; r < n; r++) {
		const double end_us = fmax(host_us[r], device_us[r]);

		built->from_us = fmax(built->from_us, from_us[r]);
		if (end_us > built->last_us) {
			built->last_us = end_us;
			whose = r;
		}
	}
	for (size_t r = 0; r < n; r++)
		built->from_us = fmin(built->from_us, built->last_us - work_us[r]);
	built->last = device_us[whose] > host_us[whose] ? last_on_device(at, whose)
							: built->graph.end.at[whose];
}

/* Of how far the devices were behind at the begin, the part with which they are so at the end as well. */
static double settled_frac(const struct replay_at *at, double frac)
{
	const struct stream_study *study = at->model;
	const struct stream_built *s = at->s->built;
	const size_t n = study->run.ranks.n;
	const double *host_us = study->ends_us, *device_us = &host_us[n],
		     *from_us = &host_us[2 * n];
	double before = 0, after = 0;

	for (size_t r = 0; r < n; r++) {
		before += from_us[r] - at->s->timeline.end_us[s->graph.begin.at[r]];
		after += fmax(0, device_us[r] - host_us[r]);
	}
	return before > 0 ? fmin(1, frac * after / before) : frac;
}

/* For the next iteration: what this one left to run. */
static void keep_left(const struct replay_at *at, struct stream_follow *follow)
{
	const struct stream_study *study = at->model;
	const struct stream_built *s = at->s->built;
	const struct sc_graph *g = at->s->graph;

	follow->left.n = 0;
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const uint32_t rank = sc_graph_class_of(g, i);
		const struct stream_left left = {rank, s->graph.refs.at[i].index,
						 at->s->timeline.end_us[i] - study->ends_us[rank]};

		if (s->graph.refs.at[i].kind == SC_TRACE_NODE_ACT)
			SC_VEC_PUSH(&follow->left, left);
	}
}

/* Nobody knows how far the device was behind before the first iteration if all was as it is now: it is taken
 * to be so at its begin as at its end. */
static bool again(void *self, const struct sc_timeline *timeline)
{
	struct replay_at *at = self;
	struct stream_study *study = at->model;
	struct stream_follow *follow = &study->follow[at->v];

	(void)timeline;
	find_end(at);
	if (at->v == V_RECORDED || at->v == V_OTHERS)
		return false;
	if (at->iteration == 0 && at->n_settled < MAX_SETTLED) {
		const double frac = settled_frac(at, follow->behind_frac);
		const bool moves = fabs(frac - follow->behind_frac) > SETTLED;

		follow->behind_frac = frac;
		at->n_settled++;
		if (moves)
			return true;
	}
	keep_left(at, follow);
	return false;
}

/* ---- what they say ---- */

static int typical(struct replay_study *study, struct sc_err *err)
{
	struct stream_study *streams = study->model;

	(void)err;
	streams->outlier = study->outlier;
	sc_streams_medians(streams);
	return 0;
}

static enum sc_wait wait_of(const void *ctx, uint32_t node)
{
	const struct replay_at *at = ctx;
	const struct stream_study *study = at->model;
	const struct stream_built *built = at->s->built;
	const struct sc_trace_rank *r = &study->run.ranks.at[sc_replay_class(at, node)];
	const struct sc_act *act = &r->acts.at[built->graph.refs.at[node].index];

	return r->collectives.at[act->merge_call].kind == SC_SEND_RECV ? SC_WAIT_STAGE
								       : SC_WAIT_PEERS;
}

/* Idle before the host of a rank begins, and after it ends, is no gap. */
static void op_info(void *self, const struct sc_timeline *timeline, struct sc_reading_input *out)
{
	const struct replay_at *at = self;
	struct stream_built *built = at->s->built;
	const size_t n = built->graph.begin.n;

	SC_VEC_RESERVE(&built->begin_us, n + 1);
	SC_VEC_RESERVE(&built->end_us, n + 1);
	for (size_t r = 0; r < n; r++) {
		built->begin_us.at[r] = timeline->end_us[built->graph.begin.at[r]];
		built->end_us.at[r] = timeline->end_us[built->graph.end.at[r]];
	}
	*out = (struct sc_reading_input){
		.account = {.ran = {at->s->graph, timeline, wait_of, at},
			    .period = {.from_us = built->from_us, .to_us = built->last_us},
			    .begin_us = built->begin_us.at,
			    .end_us = built->end_us.at},
		.last = built->last,
	};
}

static const char *node_name(const struct replay_at *at, uint32_t node)
{
	const struct stream_study *study = at->model;

	return sc_trace_run_name(&study->run, at->s->graph->nodes.at[node].op);
}

static int64_t recorded_end(const struct sc_trace_rank *rank, const struct sc_trace_node *ref)
{
	if (ref->kind == SC_TRACE_NODE_ACT || ref->kind == SC_TRACE_NODE_CARRIED)
		return sc_act_end(&rank->acts.at[ref->index]);
	return rank->calls.at[ref->index].start_ns +
	       (ref->kind == SC_TRACE_NODE_SYNC ? rank->calls.at[ref->index].dur_ns : 0);
}

static double recorded_us(const struct replay_at *at, uint32_t node)
{
	const struct sc_trace_run *run = &((const struct stream_study *)at->model)->run;
	const struct stream_built *built = at->s->built;
	const int64_t end_ns = recorded_end(&run->ranks.at[sc_replay_class(at, node)],
					    &built->graph.refs.at[node]);

	return sc_ns_us(end_ns - sc_trace_first_begin(run, at->iteration));
}

static bool ends(const struct replay_at *at, uint32_t node)
{
	const struct stream_built *built = at->s->built;

	return built->graph.end.at[sc_replay_class(at, node)] == node;
}

static const struct replay_kind STREAMS = {
	.workload = {.build = build, .again = again, .op_info = op_info, .no_contention = true},
	.leaves_outliers = true,
	.create = create,
	.destroy = destroy,
	.reshapes = reshapes,
	.typical = typical,
	.predicts = predicts,
	.name = node_name,
	.recorded_us = recorded_us,
	.ends = ends,
	.say = sc_streams_results,
	.matches = sc_streams_matches,
	.check = sc_streams_check_change,
};

/* ---- the whole ---- */

static void begin_study(struct stream_study *study)
{
	const size_t n = study->run.ranks.n;

	study->medians = sc_xcalloc(n, sizeof(*study->medians));
	sc_streams_means(study);
	study->ends_us = sc_xcalloc(4 * n, sizeof(double));
}

static void end_study(struct stream_study *study, size_t n_variants)
{
	for (size_t r = 0; r < study->run.ranks.n; r++)
		sc_streams_release_medians(&study->medians[r]);
	for (size_t v = 0; v < n_variants; v++)
		SC_VEC_RELEASE(&study->follow[v].left);
	free(study->follow);
	free(study->medians);
	free(study->mean_us);
	free(study->slowness);
	free(study->host_slowness);
	free(study->ends_us);
	sc_trace_run_release(&study->run);
}

static void begin_follow(struct stream_study *study, size_t n_variants)
{
	study->follow = sc_xmalloc((n_variants + 1) * sizeof(*study->follow));
	for (size_t v = 0; v < n_variants; v++)
		study->follow[v] = (struct stream_follow){.behind_frac = 1};
}

static int run_streams(const struct sc_trace_files *files, const struct sc_replay_opts *opts,
		       struct sc_replay_result *out, struct sc_err *err)
{
	struct stream_study streams = {.opts = opts};
	struct replay_study study = {.kind = &STREAMS, .model = &streams, .opts = opts, .out = out};
	int rc = sc_trace_run_load(files, opts->range, &streams.run, err);

	if (rc)
		return rc;
	sc_streams_describe(&streams, out);
	sc_replay_study_begin(&study);
	begin_follow(&streams, study.variants.n);
	begin_study(&streams);
	rc = sc_replay_study_check(&study, err);
	if (rc == 0)
		rc = sc_streams_check(&streams, &out->warnings, err);
	if (rc == 0)
		rc = sc_replay_study_run(&study, err);
	end_study(&streams, study.variants.n);
	sc_replay_study_release(&study);
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
