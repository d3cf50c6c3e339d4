/* More or less overlap of collectives with other device work, as edges of an iteration's graph.
 * None: in the order in which a rank's host launched its device work, a collective waits for all before it,
 * and all after it for the collective. The recorded edges stay, so that it never makes a replay shorter.
 * Free: of ranks whose trace has no event waits, the waits for collectives are dropped: they were inferred
 * from starts just after ends, which does not show that their data was needed. What a trace says stays. */
#include <stdlib.h>
#include <string.h>

#include "trace/replay/replay_study.h"

/* ---- none ---- */

/* An activity in the order of launches: none comes before what it waits for. */
struct launched {
	uint32_t call, place, node, lane;
	bool collective;
};
struct launch_order {
	SC_VEC(struct launched) list; /* of one rank */
	size_t n_carried;             /* first in the list */
	SC_VEC(uint32_t) joined; /* by lane: who was next after the last collective it waits for */
	SC_VEC(uint32_t) sorted; /* nodes, each after what it waits for */
	SC_VEC(uint32_t) n_deps; /* by node: not yet sorted */
	SC_VEC(uint32_t) call;   /* by node: the last of its own and of what it waits for */
};

static int compare_launched(const void *left, const void *right)
{
	const struct launched *a = left, *b = right;

	if (a->call != b->call)
		return a->call < b->call ? -1 : 1;
	return (a->place > b->place) - (a->place < b->place);
}

static bool is_activity(const struct sc_trace_graph *g, uint32_t node)
{
	return g->refs.at[node].kind == SC_TRACE_NODE_ACT ||
	       g->refs.at[node].kind == SC_TRACE_NODE_CARRIED;
}

static bool is_collective(const struct replay_study *study, const struct sc_trace_graph *g,
			  uint32_t node)
{
	return is_activity(g, node) && study->run.ranks.at[sc_graph_class_of(&g->graph, node)]
						       .acts.at[g->refs.at[node].index]
						       .kind == SC_ACT_COLLECTIVE;
}

static uint32_t call_of(const struct replay_study *study, const struct sc_trace_graph *g,
			uint32_t node)
{
	const struct sc_trace_rank *rank = &study->run.ranks.at[sc_graph_class_of(&g->graph, node)];
	const struct sc_trace_node *ref = &g->refs.at[node];

	if (ref->kind == SC_TRACE_NODE_CARRIED)
		return 0;
	return is_activity(g, node) ? rank->acts.at[ref->index].place : ref->index;
}

static void sort_after(struct launch_order *order, uint32_t node, uint32_t next)
{
	if (order->call.at[next] < order->call.at[node])
		order->call.at[next] = order->call.at[node];
	if (--order->n_deps.at[next] == 0)
		SC_VEC_PUSH(&order->sorted, next);
}

/* A call that the trace does not have may seem to be later than those of what waits for its activity. */
static void sort_nodes(const struct replay_study *study, const struct sc_trace_graph *g,
		       struct launch_order *order)
{
	const struct sc_graph *graph = &g->graph;
	const uint32_t n = (uint32_t)graph->nodes.n;

	SC_VEC_RESERVE(&order->n_deps, n + 1);
	SC_VEC_RESERVE(&order->call, n + 1);
	memcpy(order->n_deps.at, graph->n_deps, n * sizeof(uint32_t));
	for (uint32_t i = 0; i < n; i++) {
		order->call.at[i] = call_of(study, g, i);
		if (graph->n_deps[i] == 0)
			SC_VEC_PUSH(&order->sorted, i);
	}
	for (size_t i = 0; i < order->sorted.n; i++) {
		const uint32_t node = order->sorted.at[i], end = graph->succ_start[node + 1];

		for (uint32_t e = graph->succ_start[node]; e < end; e++)
			sort_after(order, node, graph->succ[e]);
		if (graph->lane_next[node] != SC_NONE)
			sort_after(order, node, graph->lane_next[node]);
	}
}

static void list_launched(const struct replay_study *study, const struct sc_trace_graph *g,
			  size_t rank, struct launch_order *order)
{
	order->list.n = order->n_carried = 0;
	for (uint32_t i = 0; i < order->sorted.n; i++) {
		const uint32_t node = order->sorted.at[i];
		const bool own = g->refs.at[node].kind == SC_TRACE_NODE_ACT;
		const struct launched l = {
			.call = own ? order->call.at[node] + 1 : 0,
			.place = i,
			.node = node,
			.lane = g->graph.nodes.at[node].lane,
			.collective = is_collective(study, g, node),
		};

		if (sc_graph_class_of(&g->graph, node) != rank || !is_activity(g, node))
			continue;
		SC_VEC_PUSH(&order->list, l);
		order->n_carried += !own;
	}
	if (order->list.n)
		qsort(order->list.at, order->list.n, sizeof(*order->list.at), compare_launched);
}

/* Behind the collective: it waited for all before it, so that who waits for it does. The first of a lane is
 * enough. */
static void join_collective(struct sc_trace_graph *g, struct launch_order *order, size_t first,
			    size_t i)
{
	const struct launched *l = &order->list.at[i];

	if (order->joined.at[l->lane] == first)
		return;
	order->joined.at[l->lane] = (uint32_t)first;
	/* Of what an earlier iteration left running, each is for itself. */
	for (size_t k = first ? first - 1 : 0; k < (first ? first : order->n_carried); k++)
		if (order->list.at[k].collective && order->list.at[k].lane != l->lane)
			sc_graph_add_dep(&g->graph, l->node, order->list.at[k].node);
}

/* What an earlier iteration left running waits for nothing more: its replay said when it ends. */
static void add_serial_edges(struct sc_trace_graph *g, struct launch_order *order)
{
	size_t first = 0; /* after the last collective */

	memset(order->joined.at, 0xff, g->graph.lanes.n * sizeof(uint32_t));
	for (size_t i = order->n_carried; i < order->list.n; i++) {
		const struct launched *l = &order->list.at[i];

		join_collective(g, order, first, i);
		if (!l->collective)
			continue;
		for (size_t k = first; k < i; k++)
			if (order->list.at[k].lane != l->lane)
				sc_graph_add_dep(&g->graph, l->node, order->list.at[k].node);
		first = i + 1;
	}
}

static void serialize(const struct replay_study *study, struct sc_trace_graph *g)
{
	struct launch_order order = {.list = {0}};

	SC_VEC_RESERVE(&order.joined, g->graph.lanes.n + 1);
	sort_nodes(study, g, &order);
	for (size_t r = 0; r < study->run.ranks.n; r++) {
		list_launched(study, g, r, &order);
		add_serial_edges(g, &order);
	}
	SC_VEC_RELEASE(&order.list);
	SC_VEC_RELEASE(&order.joined);
	SC_VEC_RELEASE(&order.sorted);
	SC_VEC_RELEASE(&order.n_deps);
	SC_VEC_RELEASE(&order.call);
}

/* ---- free ---- */

static void drop_inferred(const struct replay_study *study, struct sc_trace_graph *g)
{
	size_t kept = 0;

	for (size_t i = 0; i < g->graph.edges.n; i++) {
		const uint64_t edge = g->graph.edges.at[i];
		const uint32_t from = (uint32_t)(edge >> 32), to = (uint32_t)edge;

		if (!study->run.ranks.at[sc_graph_class_of(&g->graph, from)].has_waits &&
		    is_activity(g, to) && is_collective(study, g, from) &&
		    !is_collective(study, g, to))
			continue;
		g->graph.edges.at[kept++] = edge;
	}
	g->graph.edges.n = kept;
}

void sc_replay_overlap(const struct replay_study *study, struct sc_trace_graph *graph)
{
	if (study->opts->overlap == SC_OVERLAP_NONE)
		serialize(study, graph);
	if (study->opts->overlap == SC_OVERLAP_FREE)
		drop_inferred(study, graph);
	sc_graph_seal(&graph->graph);
}
