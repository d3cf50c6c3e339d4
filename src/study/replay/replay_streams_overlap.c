/* More or less overlap of collectives with other device work, as edges of an iteration's graph.
 * None: in the order in which a rank's host launched its device work, a collective waits for all before it,
 * and all after it for the collective. The recorded edges stay, so that it never makes a replay shorter.
 * Free: of ranks whose trace has no event waits, the waits for collectives are dropped: they were inferred
 * from starts just after ends, which does not show that their data was needed. What a trace says stays. */
#include <stdlib.h>
#include <string.h>

#include "study/replay/replay_streams_priv.h"

/* ---- none ---- */

/* An activity in the order of launches: no earlier than what is before it on its lane, and in the order of
 * the recorded starts where one call launched several. */
struct launched {
	uint32_t call, act, node, lane;
	bool collective;
};
struct launch_order {
	SC_VEC(struct launched) list;
	SC_VEC(uint32_t) last_other;      /* node, by lane: not a collective */
	SC_VEC(uint32_t) last_collective; /* node, by lane */
	SC_VEC(uint32_t) lane_call;       /* while it is filled: of the last on each lane */
};

static int compare_launched(const void *left, const void *right)
{
	const struct launched *a = left, *b = right;

	if (a->call != b->call)
		return a->call < b->call ? -1 : 1;
	return (a->act > b->act) - (a->act < b->act);
}

static bool is_activity(const struct sc_trace_graph *g, uint32_t node)
{
	return g->refs.at[node].kind == SC_TRACE_NODE_ACT ||
	       g->refs.at[node].kind == SC_TRACE_NODE_CARRIED;
}

static uint32_t rank_of(const struct sc_trace_graph *g, uint32_t node)
{
	return g->graph.lanes.at[g->graph.nodes.at[node].lane].class_id;
}

/* The last call that started before an activity: stands for the call that the trace does not have. */
static uint32_t call_before(const struct sc_trace_rank *rank, const struct sc_act *act)
{
	size_t low = 0, high = rank->calls.n;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (rank->calls.at[middle].start_ns <= act->start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? (uint32_t)(low - 1) : 0;
}

/* What an earlier iteration left running was launched before all others. */
static void add_launched(const struct sc_trace_rank *rank, const struct sc_trace_graph *g,
			 uint32_t node, struct launch_order *order)
{
	const struct sc_act *act = &rank->acts.at[g->refs.at[node].index];
	const bool own = g->refs.at[node].kind == SC_TRACE_NODE_ACT;
	struct launched l = {
		.call = !own                     ? 0
			: act->launch != SC_NONE ? act->launch
						 : call_before(rank, act),
		.act = g->refs.at[node].index,
		.node = node,
		.lane = g->graph.nodes.at[node].lane,
		.collective = act->kind == SC_ACT_COLLECTIVE,
	};

	if (l.call < order->lane_call.at[l.lane])
		l.call = order->lane_call.at[l.lane];
	order->lane_call.at[l.lane] = l.call;
	SC_VEC_PUSH(&order->list, l);
}

static void wait_for_all(struct sc_trace_graph *g, const struct launched *l, const uint32_t *last)
{
	for (uint32_t lane = 0; lane < g->graph.lanes.n; lane++)
		if (lane != l->lane && last[lane] != SC_NONE)
			sc_graph_add_dep(&g->graph, l->node, last[lane]);
}

static void add_serial_edges(struct sc_trace_graph *g, struct launch_order *order)
{
	const size_t n_lanes = g->graph.lanes.n;

	if (order->list.n)
		qsort(order->list.at, order->list.n, sizeof(*order->list.at), compare_launched);
	memset(order->last_other.at, 0xff, n_lanes * sizeof(uint32_t));
	memset(order->last_collective.at, 0xff, n_lanes * sizeof(uint32_t));
	for (size_t i = 0; i < order->list.n; i++) {
		const struct launched *l = &order->list.at[i];

		wait_for_all(g, l, order->last_collective.at);
		if (l->collective)
			wait_for_all(g, l, order->last_other.at);
		(l->collective ? order->last_collective.at : order->last_other.at)[l->lane] =
			l->node;
	}
}

static void reserve_lanes(struct launch_order *order, size_t n)
{
	SC_VEC_RESERVE(&order->last_other, n + 1);
	SC_VEC_RESERVE(&order->last_collective, n + 1);
	SC_VEC_RESERVE(&order->lane_call, n + 1);
	memset(order->lane_call.at, 0, n * sizeof(uint32_t));
}

static void serialize(const struct stream_study *study, struct sc_trace_graph *g)
{
	struct launch_order order = {.list = {0}};

	reserve_lanes(&order, g->graph.lanes.n);
	for (size_t r = 0; r < study->run.ranks.n; r++) {
		order.list.n = 0;
		for (uint32_t i = 0; i < g->graph.nodes.n; i++)
			if (rank_of(g, i) == r && is_activity(g, i))
				add_launched(&study->run.ranks.at[r], g, i, &order);
		add_serial_edges(g, &order);
	}
	SC_VEC_RELEASE(&order.list);
	SC_VEC_RELEASE(&order.last_other);
	SC_VEC_RELEASE(&order.last_collective);
	SC_VEC_RELEASE(&order.lane_call);
}

/* ---- free ---- */

static bool is_collective(const struct stream_study *study, const struct sc_trace_graph *g,
			  uint32_t node)
{
	return is_activity(g, node) &&
	       study->run.ranks.at[rank_of(g, node)].acts.at[g->refs.at[node].index].kind ==
		       SC_ACT_COLLECTIVE;
}

static void drop_inferred(const struct stream_study *study, struct sc_trace_graph *g)
{
	size_t kept = 0;

	for (size_t i = 0; i < g->graph.edges.n; i++) {
		const uint64_t edge = g->graph.edges.at[i];
		const uint32_t from = (uint32_t)(edge >> 32), to = (uint32_t)edge;

		if (!study->run.ranks.at[rank_of(g, from)].has_waits && is_activity(g, to) &&
		    is_collective(study, g, from) && !is_collective(study, g, to))
			continue;
		g->graph.edges.at[kept++] = edge;
	}
	g->graph.edges.n = kept;
}

void sc_streams_overlap(const struct stream_study *study, struct sc_trace_graph *graph)
{
	if (study->opts->overlap == SC_OVERLAP_NONE)
		serialize(study, graph);
	if (study->opts->overlap == SC_OVERLAP_FREE)
		drop_inferred(study, graph);
	sc_graph_seal(&graph->graph);
}
