/* Where the time of each rank went in a simulated iteration: at every moment the first of these that is true
 * of its device: computes, copies or sets memory, transfers, waits for a peer; else it waits for the host, or is done.
 * And for whom others waited. */
#include <stdlib.h>

#include "study/replay/replay_streams_priv.h"

/* A stretch of one rank's device, as its start and its end. */
struct edge {
	double us;
	int8_t part, add;
};

static int compare_edges(const void *left, const void *right)
{
	const struct edge *a = left, *b = right;

	if (a->us > b->us || a->us < b->us)
		return a->us < b->us ? -1 : 1;
	return (int)b->add - (int)a->add;
}

struct edges {
	SC_VEC(struct edge) list;
};

static void add_stretch(struct edges *e, enum sc_replay_part part, double from, double to)
{
	const struct edge begin = {from, (int8_t)part, 1}, end = {to, (int8_t)part, -1};

	if (!(to > from))
		return;
	SC_VEC_PUSH(&e->list, begin);
	SC_VEC_PUSH(&e->list, end);
}

static bool is_p2p(const struct stream_study *study, size_t rank, const struct sc_act *act)
{
	return study->run.ranks.at[rank].collectives.at[act->merge_call].kind == SC_SEND_RECV;
}

static void add_node(const struct stream_study *study, size_t rank, const struct stream_scratch *s,
		     uint32_t node, struct edges *edges)
{
	const struct sc_trace_node *ref = &s->graph.refs.at[node];
	const struct sc_timeline *t = &s->timeline;
	const struct sc_cost *cost = &s->graph.graph.costs.at[s->graph.graph.nodes.at[node].cost];
	const struct sc_act *act;

	if (ref->kind != SC_TRACE_NODE_ACT && ref->kind != SC_TRACE_NODE_CARRIED)
		return;
	act = &study->run.ranks.at[rank].acts.at[ref->index];
	if (act->kind != SC_ACT_COLLECTIVE) {
		add_stretch(edges, act->kind == SC_ACT_KERNEL ? SC_PART_COMPUTE : SC_PART_MEMORY,
			    t->start_us[node] + cost->latency_us, t->end_us[node]);
	} else if (s->graph.graph.nodes.at[node].group == SC_NONE) {
		add_stretch(edges, SC_PART_COMM, t->start_us[node] + cost->latency_us,
			    t->end_us[node]);
	} else {
		add_stretch(edges, is_p2p(study, rank, act) ? SC_PART_PIPELINE : SC_PART_PEERS,
			    t->ready_us[node], t->start_us[node]);
		add_stretch(edges, SC_PART_COMM, t->start_us[node], t->end_us[node]);
	}
}

/* Computing before copying before transferring before waiting. */
static enum sc_replay_part first_of(const int *active, double us, double begin_us, double end_us)
{
	static const enum sc_replay_part order[] = {SC_PART_COMPUTE, SC_PART_MEMORY, SC_PART_COMM,
						    SC_PART_PIPELINE, SC_PART_PEERS};

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (active[order[i]] > 0)
			return order[i];
	return us < begin_us || us >= end_us ? SC_PART_DONE : SC_PART_HOST;
}

static void sweep(struct edges *e, double begin_us, double end_us, double total_us, double *part_us)
{
	int active[SC_N_PARTS] = {0};
	double at = 0;

	/* Borders, so that no stretch goes across them. */
	add_stretch(e, SC_PART_DONE, begin_us, end_us);
	add_stretch(e, SC_PART_DONE, 0, total_us);
	if (e->list.n)
		qsort(e->list.at, e->list.n, sizeof(*e->list.at), compare_edges);
	for (size_t i = 0; i < e->list.n; i++) {
		const double to = e->list.at[i].us < total_us ? e->list.at[i].us : total_us;

		if (to > at) {
			part_us[first_of(active, at, begin_us, end_us)] += to - at;
			at = to;
		}
		active[e->list.at[i].part] += e->list.at[i].add;
	}
}

static void add_late(struct stream_study *study, const struct stream_scratch *s)
{
	const struct sc_graph *g = &s->graph.graph;

	for (uint32_t i = 0; i < g->nodes.n; i++)
		if (s->timeline.reason[i] == SC_BY_PEER && s->timeline.bound_by[i] != SC_NONE)
			study->late_us[g->lanes.at[g->nodes.at[s->timeline.bound_by[i]].lane]
					       .class_id] +=
				s->timeline.start_us[i] - s->timeline.ready_us[i];
}

void sc_streams_parts(struct stream_study *study, const struct stream_scratch *scratch,
		      double total_us)
{
	const struct sc_graph *g = &scratch->graph.graph;
	const size_t n = study->run.ranks.n;
	struct edges *edges = sc_xmalloc((n + 1) * sizeof(*edges));

	for (size_t r = 0; r < n; r++)
		edges[r] = (struct edges){.list = {0}};
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const uint32_t r = g->lanes.at[g->nodes.at[i].lane].class_id;

		add_node(study, r, scratch, i, &edges[r]);
	}
	for (size_t r = 0; r < n; r++) {
		sweep(&edges[r], scratch->timeline.end_us[scratch->graph.begin.at[r]],
		      scratch->timeline.end_us[scratch->graph.end.at[r]], total_us,
		      &study->part_us[r * SC_N_PARTS]);
		SC_VEC_RELEASE(&edges[r].list);
	}
	free(edges);
	add_late(study, scratch);
}
