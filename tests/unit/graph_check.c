/* See the header. */
#include "graph_check.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *const resource_names[SC_N_RES] = {
	[SC_RES_SM] = "sm",     [SC_RES_HBM] = "hbm",   [SC_RES_L2] = "l2",
	[SC_RES_LINK] = "link", [SC_RES_PCIE] = "pcie", [SC_RES_NIC] = "nic",
	[SC_RES_COPY] = "copy", [SC_RES_HOST] = "host",
};

static bool is_amount(double value)
{
	return isfinite(value) && value >= 0;
}

static int check_classes(const struct sc_graph *graph, struct sc_err *err)
{
	for (size_t i = 0; i < graph->classes.n; i++) {
		const struct sc_class *class = &graph->classes.at[i];

		if (!class->multiplicity)
			return sc_err_set(err, SC_EVALUE, "class %zu has no ranks", i);
		if (class->nic_domain >= graph->classes.n)
			return sc_err_set(err, SC_EVALUE,
					  "class %zu: nic_domain=%u, but there are %zu classes", i,
					  class->nic_domain, graph->classes.n);
		if (!is_amount(class->ranks_per_domain))
			return sc_err_set(err, SC_EVALUE,
					  "class %zu: ranks_per_domain is not a finite number >= 0",
					  i);
		if (!isfinite(class->slowdown) || class->slowdown < 1)
			return sc_err_set(err, SC_EVALUE,
					  "class %zu: slowdown is not a finite number >= 1", i);
	}
	for (size_t i = 0; i < graph->lanes.n; i++) {
		if (graph->lanes.at[i].class_id >= graph->classes.n)
			return sc_err_set(err, SC_EVALUE, "lane %zu: class %u does not exist", i,
					  graph->lanes.at[i].class_id);
	}
	return SC_OK;
}

static int check_cost(const struct sc_cost *cost, size_t id, struct sc_err *err)
{
	double sum = 0;

	if (!is_amount(cost->latency_us) || !is_amount(cost->work_us) || !is_amount(cost->waves))
		return sc_err_set(err, SC_EVALUE,
				  "cost %zu: latency_us, work_us and waves must be finite and >= 0",
				  id);
	for (int r = 0; r < SC_N_RES; r++) {
		if (!is_amount(cost->demand[r]))
			return sc_err_set(err, SC_EVALUE,
					  "cost %zu: demand of %s is not a finite number >= 0", id,
					  resource_names[r]);
	}
	if (cost->holds_sm && cost->demand[SC_RES_SM] > 1)
		return sc_err_set(err, SC_EVALUE,
				  "cost %zu: holds %g of the SMs, more than there are", id,
				  cost->demand[SC_RES_SM]);
	for (int o = 0; o < SC_N_OWNERS; o++) {
		if (!is_amount(cost->owner_frac[o]))
			return sc_err_set(err, SC_EVALUE,
					  "cost %zu: owner_frac of %s is not a finite number >= 0",
					  id, sc_owner_names[o]);
		sum += cost->owner_frac[o];
	}
	if (sum > 1 + 1e-6)
		return sc_err_set(err, SC_EVALUE, "cost %zu: owner_frac sums to %g, more than 1",
				  id, sum);
	return SC_OK;
}

static int check_costs(const struct sc_graph *graph, struct sc_err *err)
{
	int rc = SC_OK;

	for (size_t i = 0; i < graph->costs.n && !rc; i++)
		rc = check_cost(&graph->costs.at[i], i, err);
	return rc;
}

static int check_nodes(const struct sc_graph *graph, struct sc_err *err)
{
	for (size_t i = 0; i < graph->nodes.n; i++) {
		const struct sc_node *node = &graph->nodes.at[i];

		if (node->lane >= graph->lanes.n)
			return sc_err_set(err, SC_EVALUE, "node %zu: lane %u does not exist", i,
					  node->lane);
		if (node->cost >= graph->costs.n)
			return sc_err_set(err, SC_EVALUE, "node %zu: cost %u does not exist", i,
					  node->cost);
		if (node->kind > SC_NODE_MARK)
			return sc_err_set(err, SC_EVALUE, "node %zu: kind %d is unknown", i,
					  node->kind);
		if (node->kind == SC_NODE_MEMBER && node->group >= graph->groups.n)
			return sc_err_set(err, SC_EVALUE, "node %zu: group %u does not exist", i,
					  node->group);
		if (node->kind != SC_NODE_MEMBER && node->group != SC_NONE)
			return sc_err_set(err, SC_EVALUE,
					  "node %zu is in group %u, but is not a member node", i,
					  node->group);
	}
	for (size_t i = 0; i < graph->edges.n; i++) {
		const uint32_t from = (uint32_t)(graph->edges.at[i] >> 32);
		const uint32_t to = (uint32_t)graph->edges.at[i];
		const uint32_t bad = from < graph->nodes.n ? to : from;

		if (bad >= graph->nodes.n)
			return sc_err_set(err, SC_EVALUE, "edge %zu: node %u does not exist", i,
					  bad);
	}
	return SC_OK;
}

/* listed[c], seen[c]: 1 + the last group that lists class c, that has a member node on it. */
static int check_members(const struct sc_graph *graph, uint32_t g, uint32_t *listed,
			 struct sc_err *err)
{
	const struct sc_group *group = &graph->groups.at[g];
	uint64_t world = 0;

	if (group->cost >= graph->costs.n)
		return sc_err_set(err, SC_EVALUE, "group %u: cost %u does not exist", g,
				  group->cost);
	if (!group->n_members || group->first_member > graph->members.n ||
	    group->n_members > graph->members.n - group->first_member)
		return sc_err_set(err, SC_EVALUE, "group %u: its members do not exist", g);
	for (uint32_t i = 0; i < group->n_members; i++) {
		const struct sc_member *member = &graph->members.at[group->first_member + i];

		if (member->class_id >= graph->classes.n)
			return sc_err_set(err, SC_EVALUE, "group %u: class %u does not exist", g,
					  member->class_id);
		if (!member->count)
			return sc_err_set(err, SC_EVALUE, "group %u: no ranks of class %u", g,
					  member->class_id);
		if (listed[member->class_id] == g + 1)
			return sc_err_set(err, SC_EVALUE, "group %u lists class %u twice", g,
					  member->class_id);
		listed[member->class_id] = g + 1;
		world += member->count;
	}
	if (world != group->world)
		return sc_err_set(err, SC_EVALUE, "group %u: world=%u, but its members sum to %llu",
				  g, group->world, (unsigned long long)world);
	return SC_OK;
}

static int check_group_nodes(const struct sc_graph *graph, uint32_t g, const uint32_t *listed,
			     uint32_t *seen, struct sc_err *err)
{
	const struct sc_group *group = &graph->groups.at[g];

	for (uint32_t i = graph->group_node_start[g]; i < graph->group_node_start[g + 1]; i++) {
		const uint32_t node = graph->group_node[i];
		const uint32_t c = sc_graph_class_of(graph, node);

		if (listed[c] != g + 1)
			return sc_err_set(
				err, SC_EVALUE,
				"group %u: node %u is on a lane of class %u, not a member", g, node,
				c);
		if (seen[c] == g + 1)
			return sc_err_set(err, SC_EVALUE,
					  "group %u: node %u is the second one of class %u", g,
					  node, c);
		seen[c] = g + 1;
	}
	for (uint32_t i = 0; i < group->n_members; i++) {
		const uint32_t c = graph->members.at[group->first_member + i].class_id;

		if (seen[c] != g + 1)
			return sc_err_set(err, SC_EVALUE,
					  "group %u is not complete: class %u has no member node",
					  g, c);
	}
	return SC_OK;
}

static int check_groups(const struct sc_graph *graph, struct sc_err *err)
{
	const size_t n_bytes = (graph->classes.n + 1) * sizeof(uint32_t);
	uint32_t *listed, *seen;
	int rc = SC_OK;

	if (!graph->groups.n)
		return SC_OK;
	listed = sc_xmalloc(n_bytes);
	seen = sc_xmalloc(n_bytes);
	memset(listed, 0, n_bytes);
	memset(seen, 0, n_bytes);
	for (uint32_t g = 0; g < graph->groups.n && !rc; g++) {
		rc = check_members(graph, g, listed, err);
		if (!rc)
			rc = check_group_nodes(graph, g, listed, seen, err);
	}
	free(listed);
	free(seen);
	return rc;
}

/* Kahn's algorithm with each group as one vertex: a node is ready when all it waits for is done, a
 * group when all its members are ready. */
struct order {
	const struct sc_graph *graph;
	uint32_t *open;    /* deps of a node that are not done */
	uint32_t *missing; /* members of a group that are not ready */
	uint32_t *stack;   /* nodes that are done and not yet followed */
	size_t n_stack, n_done;
	struct sc_waits waits;
};

static void order_done(struct order *order, uint32_t node)
{
	order->waits.state[node] = SC_WAIT_DONE;
	order->stack[order->n_stack++] = node;
	order->n_done++;
}

static void order_ready(struct order *order, uint32_t node)
{
	const struct sc_graph *graph = order->graph;
	const uint32_t group = graph->nodes.at[node].group;

	if (group == SC_NONE) {
		order_done(order, node);
		return;
	}
	order->waits.state[node] = SC_WAIT_PEER;
	if (--order->missing[group])
		return;
	for (uint32_t i = graph->group_node_start[group]; i < graph->group_node_start[group + 1];
	     i++)
		order_done(order, graph->group_node[i]);
}

static void order_follow(struct order *order, uint32_t node)
{
	const struct sc_graph *graph = order->graph;
	const uint32_t next = graph->lane_next[node];

	for (uint32_t i = graph->succ_start[node]; i < graph->succ_start[node + 1]; i++) {
		if (!--order->open[graph->succ[i]])
			order_ready(order, graph->succ[i]);
	}
	if (next != SC_NONE && !--order->open[next])
		order_ready(order, next);
}

static int check_acyclic(const struct sc_graph *graph, struct sc_err *err)
{
	const size_t n = graph->nodes.n;
	struct order order = {.graph = graph};
	int rc = SC_OK;

	order.open = sc_xrealloc(NULL, n + 1, sizeof(*order.open));
	order.stack = sc_xrealloc(NULL, n + 1, sizeof(*order.stack));
	order.missing = sc_xrealloc(NULL, graph->groups.n + 1, sizeof(*order.missing));
	order.waits.state = sc_xmalloc(n + 1);
	order.waits.on = sc_xrealloc(NULL, n + 1, sizeof(*order.waits.on));
	memset(order.waits.state, SC_WAIT_BLOCKED, n);
	memset(order.waits.on, 0xff, (n + 1) * sizeof(*order.waits.on));
	memcpy(order.open, graph->n_deps, n * sizeof(*order.open));
	for (size_t g = 0; g < graph->groups.n; g++)
		order.missing[g] = graph->groups.at[g].n_members;
	for (uint32_t i = 0; i < n; i++) {
		if (!graph->n_deps[i])
			order_ready(&order, i);
		while (order.n_stack)
			order_follow(&order, order.stack[--order.n_stack]);
	}
	if (order.n_done < n)
		rc = sc_waits_error(graph, &order.waits, err);
	free(order.open);
	free(order.stack);
	free(order.missing);
	free(order.waits.state);
	free(order.waits.on);
	return rc;
}

int graph_check(const struct sc_graph *graph, struct sc_err *err)
{
	int rc;

	if (!graph->sealed)
		return sc_err_set(err, SC_EVALUE, "the graph is not sealed");
	rc = check_classes(graph, err);
	if (!rc)
		rc = check_costs(graph, err);
	if (!rc)
		rc = check_nodes(graph, err);
	if (!rc)
		rc = check_groups(graph, err);
	if (!rc)
		rc = check_acyclic(graph, err);
	return rc;
}
