/* Builds an execution graph and its index arrays. Knows nothing of time: see
 * predict/engine/simulate.c. */
#include "core/graph/graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void sc_graph_init(struct sc_graph *graph)
{
	*graph = (struct sc_graph){0};
}

static void forget_notes(struct sc_graph *graph)
{
	if (!graph->notes)
		return;
	SC_VEC_RELEASE(&graph->notes->walk);
	SC_VEC_RELEASE(&graph->notes->starts);
	free(graph->notes);
	graph->notes = NULL;
}

void sc_graph_clear(struct sc_graph *graph)
{
	graph->classes.n = 0;
	graph->lanes.n = 0;
	graph->nodes.n = 0;
	graph->costs.n = 0;
	graph->groups.n = 0;
	graph->members.n = 0;
	graph->edges.n = 0;
	graph->sealed = 0;
	graph->print = 0;
	forget_notes(graph);
	graph->prints = graph->only_costs = false;
}

void sc_graph_release(struct sc_graph *graph)
{
	SC_VEC_RELEASE(&graph->classes);
	SC_VEC_RELEASE(&graph->lanes);
	SC_VEC_RELEASE(&graph->nodes);
	SC_VEC_RELEASE(&graph->costs);
	SC_VEC_RELEASE(&graph->groups);
	SC_VEC_RELEASE(&graph->members);
	SC_VEC_RELEASE(&graph->edges);
	free(graph->succ_start);
	free(graph->succ);
	free(graph->n_deps);
	free(graph->lane_first);
	free(graph->lane_next);
	free(graph->group_node_start);
	free(graph->group_node);
	free(graph->lane_last);
	forget_notes(graph);
	sc_graph_init(graph);
}

/* The id of the thing just added; ids are 32 bits and SC_NONE is taken. */
static uint32_t added_id(struct sc_graph *graph, size_t n)
{
	assert(n > 0 && n <= SC_NONE);
	graph->sealed = 0;
	return (uint32_t)(n - 1);
}

static inline void print_words(struct sc_graph *graph, uint64_t a, uint64_t b)
{
	uint64_t h = (graph->print ^ a) * UINT64_C(0x9e3779b97f4a7c15);

	h = (h ^ h >> 32 ^ b) * UINT64_C(0xbf58476d1ce4e5b9);
	graph->print = h ^ h >> 32;
}

uint32_t sc_graph_add_class(struct sc_graph *graph, struct sc_class value)
{
	SC_VEC_PUSH(&graph->classes, value);
	return added_id(graph, graph->classes.n);
}

uint32_t sc_graph_add_lane(struct sc_graph *graph, uint32_t class_id, enum sc_lane_kind kind)
{
	const struct sc_lane lane = {.class_id = class_id, .kind = (uint8_t)kind};

	SC_VEC_PUSH(&graph->lanes, lane);
	return added_id(graph, graph->lanes.n);
}

uint32_t sc_graph_add_cost(struct sc_graph *graph, const struct sc_cost *cost)
{
	SC_VEC_PUSH(&graph->costs, *cost);
	return added_id(graph, graph->costs.n);
}

uint32_t sc_graph_add_node(struct sc_graph *graph, enum sc_node_kind kind, uint32_t lane,
			   struct sc_node_use use)
{
	struct sc_node *node;

	if (graph->prints)
		print_words(graph, (uint64_t)kind << 32 | lane, (uint64_t)use.cost << 32 | use.op);
	if (graph->only_costs)
		return 0;
	/* It is filled in place: a copy would wait for the stores of its fields. */
	SC_VEC_RESERVE(&graph->nodes, graph->nodes.n + 1);
	node = &graph->nodes.at[graph->nodes.n++];
	node->lane = lane;
	node->cost = use.cost;
	node->group = SC_NONE;
	node->op = use.op;
	node->kind = (uint8_t)kind;
	return added_id(graph, graph->nodes.n);
}

uint32_t sc_graph_add_group(struct sc_graph *graph, struct sc_node_use use,
			    const struct sc_member *members, uint32_t n_members)
{
	struct sc_group group = {
		.cost = use.cost,
		.first_member = (uint32_t)graph->members.n,
		.n_members = n_members,
		.op = use.op,
	};

	for (uint32_t i = 0; i < n_members && graph->prints; i++)
		print_words(graph, (uint64_t)members[i].class_id << 32 | members[i].count,
			    (uint64_t)use.cost << 32 | use.op);
	if (graph->only_costs)
		return 0;
	for (uint32_t i = 0; i < n_members; i++) {
		SC_VEC_PUSH(&graph->members, members[i]);
		group.world += members[i].count;
	}
	SC_VEC_PUSH(&graph->groups, group);
	return added_id(graph, graph->groups.n);
}

uint32_t sc_graph_add_member(struct sc_graph *graph, uint32_t lane, uint32_t group,
			     struct sc_node_use use)
{
	const uint32_t node = sc_graph_add_node(graph, SC_NODE_MEMBER, lane, use);

	if (!graph->only_costs)
		graph->nodes.at[node].group = group;
	return node;
}

void sc_graph_add_dep(struct sc_graph *graph, uint32_t node, uint32_t on)
{
	if (on == SC_NONE || graph->only_costs)
		return;
	SC_VEC_PUSH(&graph->edges, (uint64_t)on << 32 | node);
	graph->sealed = 0;
}

void sc_graph_take_costs(struct sc_graph *graph, struct sc_graph *from)
{
	struct sc_cost *const at = graph->costs.at;
	const size_t cap = graph->costs.cap;

	assert(graph->costs.n == from->costs.n);
	graph->costs.at = from->costs.at;
	graph->costs.cap = from->costs.cap;
	from->costs.at = at;
	from->costs.cap = cap;
}

/* At least n entries, old contents dropped. */
static void graph_grow(uint32_t **array, size_t n)
{
	free(*array);
	*array = sc_xrealloc(NULL, n, sizeof(**array));
}

static void graph_reserve(struct sc_graph *graph)
{
	if (graph->cap_nodes < graph->nodes.n + 1) {
		graph->cap_nodes = graph->nodes.n + 1;
		graph_grow(&graph->succ_start, graph->cap_nodes);
		graph_grow(&graph->n_deps, graph->cap_nodes);
		graph_grow(&graph->lane_next, graph->cap_nodes);
	}
	if (graph->cap_edges < graph->edges.n + 1) {
		graph->cap_edges = graph->edges.n + 1;
		graph_grow(&graph->succ, graph->cap_edges);
	}
	if (graph->cap_lanes < graph->lanes.n + 1) {
		graph->cap_lanes = graph->lanes.n + 1;
		graph_grow(&graph->lane_first, graph->cap_lanes);
		graph_grow(&graph->lane_last, graph->cap_lanes);
	}
	if (graph->cap_groups < graph->groups.n + 1) {
		graph->cap_groups = graph->groups.n + 1;
		graph_grow(&graph->group_node_start, graph->cap_groups);
	}
}

/* Counts become the ends of the ranges; filling backwards then turns them into starts. */
static uint32_t make_prefix_sums(uint32_t *count, size_t n)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		sum += count[i];
		count[i] = sum;
	}
	count[n] = sum;
	return sum;
}

/* Each lane's last node so far; group_node_start counts each group's members. Returns how many. */
static size_t seal_lanes(struct sc_graph *graph)
{
	const size_t n = graph->nodes.n, n_lanes = graph->lanes.n, n_groups = graph->groups.n;
	size_t n_members = 0;

	memset(graph->lane_first, 0xff, (n_lanes + 1) * sizeof(*graph->lane_first));
	memset(graph->lane_last, 0xff, (n_lanes + 1) * sizeof(*graph->lane_last));
	memset(graph->group_node_start, 0, (n_groups + 1) * sizeof(*graph->group_node_start));
	for (size_t i = 0; i < n; i++) {
		const uint32_t lane = graph->nodes.at[i].lane, group = graph->nodes.at[i].group;

		graph->lane_next[i] = SC_NONE;
		if (group < n_groups) {
			graph->group_node_start[group]++;
			n_members++;
		}
		if (lane >= n_lanes)
			continue;
		if (graph->lane_last[lane] != SC_NONE) {
			graph->lane_next[graph->lane_last[lane]] = (uint32_t)i;
			graph->n_deps[i]++;
		} else {
			graph->lane_first[lane] = (uint32_t)i;
		}
		graph->lane_last[lane] = (uint32_t)i;
	}
	return n_members;
}

static bool is_apart(const struct sc_graph *graph)
{
	const struct sc_node *node = graph->nodes.at;
	const size_t n_lanes = graph->lanes.n;

	for (uint32_t i = 0; graph->classes.n > 1 && i < graph->nodes.n; i++) {
		for (uint32_t e = graph->succ_start[i]; e < graph->succ_start[i + 1]; e++) {
			const uint32_t to = graph->succ[e];

			if (node[i].lane >= n_lanes || node[to].lane >= n_lanes ||
			    sc_graph_class_of(graph, i) != sc_graph_class_of(graph, to))
				return false;
		}
	}
	return true;
}

void sc_graph_seal(struct sc_graph *graph)
{
	assert(graph->edges.n < SC_NONE);
	graph_reserve(graph);
	const size_t n = graph->nodes.n;
	const uint64_t *edge = graph->edges.at;

	memset(graph->succ_start, 0, (n + 1) * sizeof(*graph->succ_start));
	memset(graph->n_deps, 0, (n + 1) * sizeof(*graph->n_deps));
	for (size_t i = 0; i < graph->edges.n; i++) {
		const uint32_t from = (uint32_t)(edge[i] >> 32), to = (uint32_t)edge[i];

		if (from >= n || to >= n)
			continue;
		graph->succ_start[from]++;
		graph->n_deps[to]++;
	}
	make_prefix_sums(graph->succ_start, n);
	for (size_t i = graph->edges.n; i-- > 0;) {
		const uint32_t from = (uint32_t)(edge[i] >> 32), to = (uint32_t)edge[i];

		if (from < n && to < n)
			graph->succ[--graph->succ_start[from]] = to;
	}
	const size_t n_members = seal_lanes(graph);
	const struct sc_node *node = graph->nodes.at;

	if (graph->cap_group_nodes < n_members + 1) {
		graph->cap_group_nodes = n_members + 1;
		graph_grow(&graph->group_node, graph->cap_group_nodes);
	}
	make_prefix_sums(graph->group_node_start, graph->groups.n);
	for (size_t i = n_members ? graph->nodes.n : 0; i-- > 0;)
		if (node[i].group < graph->groups.n)
			graph->group_node[--graph->group_node_start[node[i].group]] = (uint32_t)i;
	graph->apart = is_apart(graph);
	graph->sealed = 1;
}
