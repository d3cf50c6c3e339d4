/* One iteration in one variant. Iterations of a variant follow each other: each begins with what the one before left its
 * devices to do. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/replay/replay_study.h"

/* Of the time that a device was behind at first: by how much it still moves; how often that is asked. */
#define SETTLED 0.01
enum { MAX_SETTLED = 8 };

/* Only costs change where the graph is there. */
static void build(const struct replay_at *at)
{
	const bool reshapes =
		at->v == V_CHANGED && at->study->opts->overlap != SC_OVERLAP_AS_RECORDED;
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

/* Of a rank: how long its host works, its marked thread from begin to end without what any thread waits for its device;
 * where its device, or its host if that is later, is done with what was before, and with this
 * iteration. A host that runs ahead of its device marks the first and the last call; the device takes from end
 * to end of what they launched. */
static void rank_ends(const struct replay_at *at, double *from_us, double *host_us,
		      double *device_us, double *work_us)
{
	const struct replay_scratch *s = at->s;
	const struct sc_timeline *t = &at->s->timeline;
	const struct sc_graph *g = &at->s->graph.graph;

	for (size_t r = 0; r < s->graph.end.n; r++) {
		from_us[r] = t->end_us[s->graph.begin.at[r]];
		host_us[r] = t->end_us[s->graph.end.at[r]];
		device_us[r] = 0;
		work_us[r] = host_us[r] - from_us[r];
	}
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const uint8_t kind = s->graph.refs.at[i].kind;
		double *last = kind == SC_TRACE_NODE_ACT ? device_us : from_us;

		if (kind == SC_TRACE_NODE_SYNC)
			work_us[sc_graph_class_of(g, i)] -= t->end_us[i] - t->end_us[i - 1];
		if (kind != SC_TRACE_NODE_ACT && kind != SC_TRACE_NODE_CARRIED)
			continue;
		last += sc_graph_class_of(g, i);
		*last = fmax(*last, t->end_us[i]);
	}
}

/* The last of the rank on its device. */
static uint32_t last_on_device(const struct replay_at *at, size_t rank)
{
	const struct replay_scratch *s = at->s;
	const struct sc_graph *g = &at->s->graph.graph;
	uint32_t last = s->graph.end.at[rank];

	for (uint32_t i = 0; i < g->nodes.n; i++)
		if (s->graph.refs.at[i].kind == SC_TRACE_NODE_ACT &&
		    sc_graph_class_of(g, i) == rank &&
		    at->s->timeline.end_us[i] > at->s->timeline.end_us[last])
			last = i;
	return last;
}

/* From where the last rank is done with what was before until the last is done with this; no less than a host
 * works, which can have run ahead only once. */
static void find_end(const struct replay_at *at)
{
	const struct replay_study *study = at->study;
	struct replay_scratch *s = at->s;
	const size_t n = study->run.ranks.n;
	double *host_us = at->s->ends_us, *device_us = &host_us[n], *from_us = &host_us[2 * n],
	       *work_us = &host_us[3 * n];
	size_t whose = 0;

	rank_ends(at, from_us, host_us, device_us, work_us);
	s->from_us = s->last_us = 0;
	for (size_t r = 0; r < n; r++) {
		const double end_us = fmax(host_us[r], device_us[r]);

		s->from_us = fmax(s->from_us, from_us[r]);
		if (end_us > s->last_us) {
			s->last_us = end_us;
			whose = r;
		}
	}
	for (size_t r = 0; r < n; r++)
		s->from_us = fmin(s->from_us, s->last_us - work_us[r]);
	s->last = device_us[whose] > host_us[whose] ? last_on_device(at, whose)
						    : s->graph.end.at[whose];
}

/* Of how far the devices were behind at the begin, the part with which they are so at the end as well. */
static double settled_frac(const struct replay_at *at, double frac)
{
	const struct replay_study *study = at->study;
	const struct replay_scratch *s = at->s;
	const size_t n = study->run.ranks.n;
	const double *host_us = at->s->ends_us, *device_us = &host_us[n],
		     *from_us = &host_us[2 * n];
	double before = 0, after = 0;

	for (size_t r = 0; r < n; r++) {
		before += from_us[r] - at->s->timeline.end_us[s->graph.begin.at[r]];
		after += fmax(0, device_us[r] - host_us[r]);
	}
	return before > 0 ? fmin(1, frac * after / before) : frac;
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
						 at->s->timeline.end_us[i] - at->s->ends_us[rank]};

		if (s->graph.refs.at[i].kind == SC_TRACE_NODE_ACT)
			SC_VEC_PUSH(&follow->left, left);
	}
}

/* Nobody knows how far the device was behind before the first iteration if all was as it is now: it is taken
 * to be so at its begin as at its end. Does that move? */
static bool settles(const struct replay_at *at)
{
	struct replay_follow *follow = &at->study->follow[at->v];
	const double frac = settled_frac(at, follow->behind_frac);
	const bool moves = fabs(frac - follow->behind_frac) > SETTLED;

	follow->behind_frac = frac;
	return moves;
}

/* ---- the whole ---- */

static enum sc_wait wait_of(const void *ctx, uint32_t node)
{
	const struct replay_at *at = ctx;
	const struct sc_trace_rank *r = &at->study->run.ranks.at[sc_replay_class(at, node)];
	const struct sc_act *act = &r->acts.at[at->s->graph.refs.at[node].index];

	return r->collectives.at[act->merge_call].kind == SC_SEND_RECV ? SC_WAIT_STAGE
								       : SC_WAIT_PEERS;
}

/* Idle before the host of a rank begins, and after it ends, is no gap. */
static void put_input(const struct replay_at *at, struct sc_reading_input *out)
{
	struct replay_scratch *s = at->s;
	const size_t n = s->graph.begin.n;

	SC_VEC_RESERVE(&s->begin_us, n + 1);
	SC_VEC_RESERVE(&s->end_us, n + 1);
	for (size_t r = 0; r < n; r++) {
		s->begin_us.at[r] = s->timeline.end_us[s->graph.begin.at[r]];
		s->end_us.at[r] = s->timeline.end_us[s->graph.end.at[r]];
	}
	*out = (struct sc_reading_input){
		.account = {.ran = {&s->graph.graph, &s->timeline, wait_of, at},
			    .period = {.from_us = s->from_us, .to_us = s->last_us},
			    .begin_us = s->begin_us.at,
			    .end_us = s->end_us.at},
		.last = s->last,
	};
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
		build(at);
		rc = sc_simulate(s->sim, &s->graph.graph, &opts, &s->timeline, &why);
		if (rc)
			return sc_err_at(
				err, why.code, study->run.ranks.at[0].path, 0, 0,
				"step %" PRId64 ": %s%s",
				study->out->iterations.at[at->iteration].step, why.text,
				study->run.n_replicas ? "; are rows of the timeline missing?" : "");
		s->n_simulated += (int64_t)s->graph.graph.nodes.n;
		find_end(at);
	} while (follows && at->iteration == 0 && n_settled++ < MAX_SETTLED && settles(at));
	if (follows)
		keep_left(at, &study->follow[at->v]);
	put_input(at, out);
	study->us[at->v * study->n_iterations + at->iteration] = s->last_us - s->from_us;
	return 0;
}
