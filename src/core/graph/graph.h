/* The execution graph: what a config or a trace becomes before it is simulated. Ids are
 * indices; nodes are added in any order, lanes run in the order their nodes were added. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "core/graph/cost.h"

#define SC_NONE UINT32_MAX

enum sc_node_kind {
	SC_NODE_HOST,   /* work on a host lane */
	SC_NODE_LAUNCH, /* host side of a kernel start */
	SC_NODE_KERNEL,
	SC_NODE_COPY,
	SC_NODE_MEMBER, /* one rank's (class's) part in a group */
	SC_NODE_EVENT,  /* event record or wait: zero length */
	SC_NODE_SYNC,   /* host blocks until its deps are done */
	SC_NODE_MARK    /* iteration or phase border */
};

enum sc_lane_kind { SC_LANE_HOST, SC_LANE_COMPUTE, SC_LANE_COMM, SC_LANE_COPY, SC_LANE_NIC };

/* Ranks that do the same work on the same hardware. */
struct sc_class {
	uint32_t multiplicity;   /* ranks in this class */
	uint32_t nic_domain;     /* classes on the same node(s) share one; capacity 1 unit */
	double ranks_per_domain; /* ranks of this class in one such node: each loads the NICs */
	double slowdown;         /* >= 1 multiplies kernel times: stragglers */
	uint32_t name;           /* interned in the builder's string table, or SC_NONE */
};
struct sc_lane {
	uint32_t class_id;
	uint8_t kind;    /* enum sc_lane_kind */
	int8_t priority; /* higher first when SMs are granted */
};
struct sc_node {
	uint32_t lane;  /* its class is the lane's class */
	uint32_t cost;  /* index in costs */
	uint32_t group; /* SC_NODE_MEMBER, else SC_NONE */
	uint32_t op;    /* what it is, for reports: meaning is the builder's; SC_NONE = nameless */
	uint8_t kind;
	uint8_t pad[3];
};
struct sc_member {
	uint32_t class_id;
	uint32_t count; /* ranks of that class in one instance */
};
/* One collective or send/recv. Its cost is the group's: the members' node cost is only what they
 * do before arriving (usually 0). Members start together once the last has arrived. */
struct sc_group {
	uint32_t cost;
	uint32_t first_member, n_members; /* in members[] */
	uint32_t world;                   /* ranks in one instance = sum of counts */
	uint32_t op;
};

struct sc_graph {
	SC_VEC(struct sc_class) classes;
	SC_VEC(struct sc_lane) lanes;
	SC_VEC(struct sc_node) nodes;
	SC_VEC(struct sc_cost) costs;
	SC_VEC(struct sc_group) groups;
	SC_VEC(struct sc_member) members;
	SC_VEC(uint64_t) edges; /* from << 32 | to, in the order added */
	/* After sc_graph_seal: */
	uint32_t *succ_start; /* n nodes + 1 */
	uint32_t *succ;
	uint32_t *n_deps;                        /* explicit deps and the lane predecessor */
	uint32_t *lane_first;                    /* by lane: its first node, or SC_NONE */
	uint32_t *lane_next;                     /* node after this one on its lane, or SC_NONE */
	uint32_t *group_node_start, *group_node; /* member nodes of each group, CSR */
	uint32_t *lane_last;                     /* scratch of sc_graph_seal */
	size_t cap_nodes, cap_edges, cap_lanes, cap_groups, cap_group_nodes; /* of these arrays */
	int sealed; /* 0 again after any add */
	bool apart; /* classes meet in groups alone: no edge leads from one to another */
	/* For who builds graphs that may be alike: a print of nodes and groups in the order added,
	 * without edges and ids of groups; and where only their costs are asked for, nothing else
	 * is kept of them and all ids are 0. */
	uint64_t print;
	bool prints, only_costs;
	struct sc_graph_notes *notes; /* of a graph that runs again with other costs, or NULL */
};
/* Those who run and read such a graph keep of it, empty to begin with, the order of its steps
 * (predict/engine/simulate_walk.c) and of the starts on each class (predict/account.c). */
struct sc_graph_notes {
	SC_VEC(uint32_t) walk, starts;
};

static inline uint32_t sc_graph_class_of(const struct sc_graph *graph, uint32_t node)
{
	return graph->lanes.at[graph->nodes.at[node].lane].class_id;
}

void sc_graph_init(struct sc_graph *graph);
void sc_graph_clear(struct sc_graph *graph); /* empties, keeps memory for the next prediction */
void sc_graph_release(struct sc_graph *graph);

uint32_t sc_graph_add_class(struct sc_graph *graph, struct sc_class value);
uint32_t sc_graph_add_lane(struct sc_graph *graph, uint32_t class_id, enum sc_lane_kind kind);
/* Equal costs may share an id: the caller keeps the id; nothing is deduplicated here. */
uint32_t sc_graph_add_cost(struct sc_graph *graph, const struct sc_cost *cost);
/* The cost of a node or group, and the name of what it does. */
struct sc_node_use {
	uint32_t cost, op;
};
uint32_t sc_graph_add_node(struct sc_graph *graph, enum sc_node_kind kind, uint32_t lane,
			   struct sc_node_use use);
/* The group's members are copied; then add one SC_NODE_MEMBER node for each member class. */
uint32_t sc_graph_add_group(struct sc_graph *graph, struct sc_node_use use,
			    const struct sc_member *members, uint32_t n_members);
uint32_t sc_graph_add_member(struct sc_graph *graph, uint32_t lane, uint32_t group,
			     struct sc_node_use use);
/* on SC_NONE: nothing. */
void sc_graph_add_dep(struct sc_graph *graph, uint32_t node, uint32_t on);
/* Gives a sealed graph the costs of one of equal nodes, which takes its own. */
void sc_graph_take_costs(struct sc_graph *graph, struct sc_graph *from);
/* Builds the CSR arrays; call after the last add, again after more adds. Ids out of range are left
 * out here (tests/unit/graph_check.h names them). No malloc once the arrays are large enough. */
void sc_graph_seal(struct sc_graph *graph);

/* --- the cycle of nodes that wait for each other, of graphs that cannot end --- */
enum sc_wait_state {
	SC_WAIT_DONE,
	SC_WAIT_BLOCKED, /* its lane or a dep is not done */
	SC_WAIT_PEER,    /* a member that has arrived; its group is not complete */
	SC_WAIT_SM,      /* wants SMs that others hold */
};
/* One entry a node, caller owned. `on` is filled by sc_waits_error, except for SC_WAIT_SM, where
 * the caller says who holds the SMs. */
struct sc_waits {
	uint8_t *state; /* enum sc_wait_state */
	uint32_t *on;   /* the node it waits for, or SC_NONE */
};

/* Follows who waits for whom among the nodes that are not done (there must be one) and sets
 * SC_EDEADLOCK with the cycle in words. */
int sc_waits_error(const struct sc_graph *graph, struct sc_waits *waits, struct sc_err *err);
