/* More or less overlap of collectives with other device work, as edges of an iteration's graph. */
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "trace/graph/build_trace.h"
#include "trace/graph/trace_order.h"

static bool is_collective(const struct sc_trace_run *run, const struct sc_trace_graph *g,
			  uint32_t node)
{
	return sc_trace_node_runs(&g->refs.at[node]) &&
	       run->ranks.at[sc_graph_class_of(&g->graph, node)]
			       .acts.at[g->refs.at[node].index]
			       .kind == SC_ACT_COLLECTIVE;
}

/* ---- none ---- */

/* An activity in the order of launches: none comes before what it waits for. */
struct launched {
	uint32_t call, node; /* sc_trace_compare_pair */
	uint32_t lane;
	bool collective;
};
struct launch_order {
	SC_VEC(struct launched) list; /* of one rank */
	size_t n_carried;             /* first in the list */
	SC_VEC(uint32_t) key; /* by node: the last call of its own and of what it waits for + 1 */
	SC_VEC(uint32_t) joined; /* by lane: who was next after the last collective it waits for */
};

static void raise_to(uint32_t *key, uint32_t call)
{
	*key = call > *key ? call : *key;
}

/* One whose call the trace does not have may seem to be later than those of what waits for it. */
static void list_launched(const struct sc_trace_run *run, const struct sc_trace_graph *g,
			  uint32_t rank, struct launch_order *order)
{
	const struct sc_graph *graph = &g->graph;
	uint32_t *key = order->key.at;

	order->list.n = order->n_carried = 0;
	memset(key, 0, graph->nodes.n * sizeof(*key));
	for (uint32_t node = 0; node < graph->nodes.n; node++) {
		const struct sc_trace_node *ref = &g->refs.at[node];

		if (sc_graph_class_of(graph, node) != rank || !sc_trace_node_runs(ref))
			continue;
		if (ref->kind == SC_TRACE_NODE_CARRIED) {
			order->n_carried++;
		} else {
			raise_to(&key[node], run->ranks.at[rank].acts.at[ref->index].place + 1);
			for (uint32_t e = graph->succ_start[node]; e < graph->succ_start[node + 1];
			     e++)
				raise_to(&key[graph->succ[e]], key[node]);
			if (graph->lane_next[node] != SC_NONE)
				raise_to(&key[graph->lane_next[node]], key[node]);
		}
		SC_VEC_PUSH(&order->list,
			    ((struct launched){key[node], node, graph->nodes.at[node].lane,
					       is_collective(run, g, node)}));
	}
	SC_SORT(order->list.at, order->list.n, sc_trace_compare_pair);
}

/* Behind the collective: it waited for all before it, so that who waits for it does. The first of a
 * lane is enough. */
static void join_collective(struct sc_trace_graph *g, struct launch_order *order, size_t first,
			    size_t i)
{
	const struct launched *l = &order->list.at[i];

	if (order->joined.at[l->lane] == first)
		return;
	order->joined.at[l->lane] = (uint32_t)first;
	/* Each activity that an earlier iteration left running is for itself. */
	for (size_t k = first ? first - 1 : 0; k < (first ? first : order->n_carried); k++)
		if (order->list.at[k].collective && order->list.at[k].lane != l->lane)
			sc_graph_add_dep(&g->graph, l->node, order->list.at[k].node);
}

void sc_trace_serialize(const struct sc_trace_run *run, struct sc_trace_graph *g)
{
	struct launch_order order = {.list = {0}};

	SC_VEC_RESERVE(&order.joined, g->graph.lanes.n + 1);
	SC_VEC_RESERVE(&order.key, g->graph.nodes.n + 1);
	for (uint32_t r = 0; r < run->ranks.n; r++) {
		size_t first = 0; /* after the last collective */

		list_launched(run, g, r, &order);
		memset(order.joined.at, 0xff, g->graph.lanes.n * sizeof(uint32_t));
		/* An activity that an earlier iteration left running waits for nothing more: its
		 * replay said when it ends. */
		for (size_t i = order.n_carried; i < order.list.n; i++) {
			const struct launched *l = &order.list.at[i];

			join_collective(g, &order, first, i);
			if (!l->collective)
				continue;
			for (size_t k = first; k < i; k++)
				if (order.list.at[k].lane != l->lane)
					sc_graph_add_dep(&g->graph, l->node, order.list.at[k].node);
			first = i + 1;
		}
	}
	SC_VEC_RELEASE(&order.list);
	SC_VEC_RELEASE(&order.joined);
	SC_VEC_RELEASE(&order.key);
	sc_graph_seal(&g->graph);
}

/* ---- free ---- */

void sc_trace_drop_inferred(const struct sc_trace_run *run, struct sc_trace_graph *g)
{
	size_t kept = 0;

	for (size_t i = 0; i < g->graph.edges.n; i++) {
		const uint64_t edge = g->graph.edges.at[i];
		const uint32_t from = (uint32_t)(edge >> 32), to = (uint32_t)edge;

		if (run->ranks.at[sc_graph_class_of(&g->graph, from)].has_waits ||
		    !is_collective(run, g, from) || !sc_trace_node_runs(&g->refs.at[to]) ||
		    is_collective(run, g, to))
			g->graph.edges.at[kept++] = edge;
	}
	g->graph.edges.n = kept;
	sc_graph_seal(&g->graph);
}
