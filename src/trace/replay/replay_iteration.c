/* One iteration in one variant. Iterations of a variant follow each other: each begins with what
 * the one before left its devices to do. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "trace/replay/replay_study.h"

/* The share of the time that a device was behind at first by which it may still move; how often
 * that is asked. */
#define SETTLED 0.01
enum { MAX_SETTLED = 8 };

/* Only costs change where the graph is there. */
static void build_graph(const struct replay_at *at)
{
	const bool reshapes = (at->v == V_CHANGED || at->v == V_FREE) &&
			      at->study->opts->overlap != SC_OVERLAP_AS_RECORDED;
	struct replay_scratch *s = at->s;

	if (!s->is_built || s->iteration != at->iteration || s->reshaped || reshapes ||
	    at->v == V_RECORDED)
		sc_build_trace(&at->study->run, at->iteration, &s->graph);
	s->is_built = true;
	s->iteration = at->iteration;
	s->reshaped = reshapes;
	if (at->v != V_RECORDED)
		sc_replay_set(at, &s->graph);
	if (!reshapes)
		return;
	if (at->study->opts->overlap == SC_OVERLAP_NONE)
		sc_trace_serialize(&at->study->run, &s->graph);
	if (at->study->opts->overlap == SC_OVERLAP_FREE)
		sc_trace_drop_inferred(&at->study->run, &s->graph);
}

/* ---- when they begin and end ---- */

/* From where the last rank is done with what was before until the last is done with this; no less
 * than a host works, which can have run ahead only once. A host that runs ahead of its device marks
 * the first and the last call; the device takes from end to end of what they launched. */
static void find_end(const struct replay_at *at)
{
	struct replay_scratch *s = at->s;
	const struct sc_graph *g = &s->graph.graph;
	const double *end_us = s->timeline.end_us;
	uint32_t whose = 0;

	for (size_t r = 0; r < s->graph.end.n; r++) {
		s->begin_us[r] = s->free_us[r] = end_us[s->graph.begin.at[r]];
		s->host_us[r] = end_us[s->graph.end.at[r]];
		s->device_us[r] = 0;
		s->work_us[r] = s->host_us[r] - s->begin_us[r];
	}
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const struct sc_trace_node *ref = &s->graph.refs.at[i];
		double *last = ref->kind == SC_TRACE_NODE_ACT ? s->device_us : s->free_us;

		if (ref->kind == SC_TRACE_NODE_SYNC)
			s->work_us[sc_graph_class_of(g, i)] -= end_us[i] - end_us[i - 1];
		last += sc_graph_class_of(g, i);
		if (sc_trace_node_runs(ref))
			*last = fmax(*last, end_us[i]);
	}
	s->from_us = s->last_us = 0;
	for (uint32_t r = 0; r < s->graph.end.n; r++) {
		const double last_us = fmax(s->host_us[r], s->device_us[r]);

		s->from_us = fmax(s->from_us, s->free_us[r]);
		if (last_us > s->last_us) {
			s->last_us = last_us;
			whose = r;
		}
	}
	for (size_t r = 0; r < s->graph.end.n; r++)
		s->from_us = fmin(s->from_us, s->last_us - s->work_us[r]);
	s->last = s->graph.end.at[whose];
	for (uint32_t i = 0; i < g->nodes.n; i++)
		if (s->graph.refs.at[i].kind == SC_TRACE_NODE_ACT &&
		    sc_graph_class_of(g, i) == whose && end_us[i] > end_us[s->last])
			s->last = i;
}

/* For the next iteration: what this one left to run. */
static void keep_left(const struct replay_at *at, struct replay_follow *follow)
{
	const struct replay_scratch *s = at->s;
	const struct sc_graph *g = &at->s->graph.graph;

	follow->left.n = 0;
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const uint32_t rank = sc_graph_class_of(g, i);
		const struct replay_left left = {rank, s->graph.refs.at[i].index,
						 s->timeline.end_us[i] - s->host_us[rank]};

		if (s->graph.refs.at[i].kind == SC_TRACE_NODE_ACT)
			SC_VEC_PUSH(&follow->left, left);
	}
}

/* Nobody knows how far the device was behind before the first iteration if all was as it is now: it
 * is taken to be so at its begin as at its end, as a part of how far it was. Does that move? */
static bool still_moves(const struct replay_at *at)
{
	struct replay_follow *follow = &at->study->follow[at->v];
	const struct replay_scratch *s = at->s;
	const double frac = follow->behind_frac;
	double before = 0, after = 0;

	for (size_t r = 0; r < s->graph.end.n; r++) {
		before += s->free_us[r] - s->begin_us[r];
		after += fmax(0, s->device_us[r] - s->host_us[r]);
	}
	if (before > 0)
		follow->behind_frac = fmin(1, frac * after / before);
	return fabs(follow->behind_frac - frac) > SETTLED;
}

/* ---- the whole ---- */

static enum sc_wait wait_of(const void *ctx, uint32_t node)
{
	const struct replay_at *at = ctx;
	const struct sc_trace_rank *r =
		&at->study->run.ranks.at[sc_graph_class_of(&at->s->graph.graph, node)];
	const struct sc_act *act = &r->acts.at[at->s->graph.refs.at[node].index];

	return r->collectives.at[act->merge_call].kind == SC_SEND_RECV ? SC_WAIT_STAGE
								       : SC_WAIT_PEERS;
}

/* Recorded times have contention already. Steps of a job leave nothing to the next. */
int sc_replay_simulate(const struct replay_at *at, struct sc_reading_input *out, struct sc_err *err)
{
	const struct sc_sim_opts opts = {.no_contention = 1};
	const struct replay_study *study = at->study;
	const bool follows = at->v != V_RECORDED && at->v != V_OTHERS && study->run.n_replicas == 0;
	struct replay_scratch *s = at->s;
	struct sc_err why = {.code = SC_OK};
	int n_settled = 0, rc;

	do {
		build_graph(at);
		rc = sc_simulate(s->sim, &s->graph.graph, &opts, &s->timeline, &why);
		if (rc)
			return sc_err_at(
				err, why.code, study->run.ranks.at[0].path, 0, 0,
				"step %" PRId64 ": %s%s",
				study->out->iterations.at[at->iteration].step, why.text,
				study->run.n_replicas ? "; are rows of the timeline missing?" : "");
		s->n_simulated += (int64_t)s->graph.graph.nodes.n;
		find_end(at);
	} while (follows && at->iteration == 0 && n_settled++ < MAX_SETTLED && still_moves(at));
	if (follows)
		keep_left(at, &study->follow[at->v]);
	/* Idle before the host of a rank begins, and after it ends, is no gap. */
	*out = (struct sc_reading_input){
		.account = {.ran = {&s->graph.graph, &s->timeline, wait_of, at},
			    .period = {.from_us = s->from_us, .to_us = s->last_us},
			    .begin_us = s->begin_us,
			    .end_us = s->host_us},
		.last = s->last,
	};
	study->us[at->v * study->n_iterations + at->iteration] = s->last_us - s->from_us;
	return 0;
}
