/* Whether the replay of an unmodified step gives back what was measured; where it does not, what is to blame. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "trace/replay/replay_study.h"

#define OFF_PCT 0.5

static double off_pct(const struct sc_replay_iteration *it)
{
	return SC_PCT * (it->simulated_ms / it->measured_ms - 1);
}

static size_t worst_off(const struct sc_replay_result *result)
{
	size_t worst = SIZE_MAX;

	for (size_t i = 0; i < result->iterations.n; i++) {
		const double pct = fabs(off_pct(&result->iterations.at[i]));

		if (pct > OFF_PCT &&
		    (worst == SIZE_MAX || pct > fabs(off_pct(&result->iterations.at[worst]))))
			worst = i;
	}
	return worst;
}

/* Of the simulated path to the last node, the link whose time differs most from the recorded, the way in which
 * the whole does. `by` is SC_NONE where nothing does. */
struct link {
	uint32_t node, by;
	double off_us;
};

static struct link find_link(const struct sc_timeline *t, const double *recorded_us, uint32_t last)
{
	const double way = t->end_us[last] < recorded_us[last] ? -1 : 1;
	struct link worst = {.by = SC_NONE};

	for (uint32_t node = last, by; (by = t->bound_by[node]) != SC_NONE; node = by) {
		const double off_us =
			(t->end_us[node] - t->end_us[by]) - (recorded_us[node] - recorded_us[by]);

		if (way * off_us > way * worst.off_us)
			worst = (struct link){node, by, off_us};
	}
	return worst;
}

static double recorded_us(const struct replay_at *at, uint32_t node)
{
	const struct sc_trace_run *run = &at->study->run;
	const struct sc_trace_rank *rank = &run->ranks.at[sc_replay_class(at, node)];
	const struct sc_trace_node *ref = &at->s->graph.refs.at[node];
	int64_t end_ns;

	if (ref->kind == SC_TRACE_NODE_ACT || ref->kind == SC_TRACE_NODE_CARRIED)
		end_ns = sc_act_end(&rank->acts.at[ref->index]);
	else
		end_ns = rank->calls.at[ref->index].start_ns +
			 (ref->kind == SC_TRACE_NODE_SYNC ? rank->calls.at[ref->index].dur_ns : 0);
	return sc_ns_us(end_ns - sc_trace_first_begin(run, at->iteration));
}

/* The link to the last of the nodes that may end the iteration. */
static struct link worst_link(const struct replay_at *at)
{
	const uint32_t n = (uint32_t)at->s->graph.graph.nodes.n;
	double *ends_us = sc_xmalloc((n + 1) * sizeof(*ends_us));
	uint32_t last = SC_NONE;
	struct link link;

	for (uint32_t i = 0; i < n; i++) {
		ends_us[i] = recorded_us(at, i);
		if (at->s->graph.end.at[sc_replay_class(at, i)] == i &&
		    (last == SC_NONE || ends_us[i] > ends_us[last]))
			last = i;
	}
	link = find_link(&at->s->timeline, ends_us, last);
	free(ends_us);
	return link;
}

static const char *name_of(const struct replay_at *at, uint32_t node)
{
	return sc_trace_run_name(&at->study->run, at->s->graph.graph.nodes.at[node].op);
}

static void blame(const struct replay_at *at, const struct link *link)
{
	struct sc_replay_result *out = at->study->out;
	const struct sc_replay_iteration *it = &out->iterations.at[at->iteration];
	char cause[512] = "";
	size_t n = 0;

	for (size_t i = 0; i < out->iterations.n; i++)
		n += fabs(off_pct(&out->iterations.at[i])) > OFF_PCT;
	if (link->by != SC_NONE)
		snprintf(cause, sizeof(cause),
			 ": %.32s of %s ends %.3f ms %s after %.24s than it did",
			 name_of(at, link->node),
			 out->ranks.at[sc_replay_class(at, link->node)].name,
			 fabs(link->off_us) / SC_US_PER_MS, link->off_us < 0 ? "sooner" : "later",
			 name_of(at, link->by));
	sc_warn(&out->warnings,
		"as recorded, step %" PRId64 " comes out %+.1f %% (n=%zu of %zu are off)%s",
		it->step, off_pct(it), n, out->iterations.n, cause);
}

int sc_replay_check_recorded(const struct replay_study *study, struct sc_err *err)
{
	const size_t worst = worst_off(study->out);
	struct sc_reading_input in;
	struct replay_at at;
	struct link link;
	int rc;

	if (worst == SIZE_MAX)
		return 0;
	at = sc_replay_at(study, &study->scratch[0], worst, V_RECORDED);
	rc = sc_replay_simulate(&at, &in, err);
	if (rc)
		return rc;
	link = worst_link(&at);
	blame(&at, &link);
	return 0;
}
