/* Names the cycle of nodes that wait for each other, for graphs that cannot end: found before a run
 * (sc_graph_check) or by one (sc_simulate). Slow paths only. */
#ifndef SC_CORE_GRAPH_CYCLE_H
#define SC_CORE_GRAPH_CYCLE_H

#include "core/graph/graph.h"

enum sc_wait_state {
	SC_WAIT_DONE,
	SC_WAIT_BLOCKED, /* its lane or a dep is not done */
	SC_WAIT_PEER,    /* a member that has arrived; its group is not complete */
	SC_WAIT_SM,      /* wants SMs that others hold */
};
/* One entry a node, caller owned. `on` is filled by sc_waits_find, except for SC_WAIT_SM, where the
 * caller says who holds the SMs. */
struct sc_waits {
	uint8_t *state; /* enum sc_wait_state */
	uint32_t *on;   /* the node it waits for, or SC_NONE */
};

void sc_waits_alloc(struct sc_waits *waits, size_t n_nodes); /* all SC_WAIT_DONE, SC_NONE */
void sc_waits_release(struct sc_waits *waits);
/* Follows who waits for whom among the nodes that are not done (there must be one) and sets
 * SC_EDEADLOCK with the cycle in words. */
int sc_waits_error(const struct sc_graph *graph, struct sc_waits *waits, struct sc_err *err);

#endif
