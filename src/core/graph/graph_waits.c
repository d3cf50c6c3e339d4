/* Who waits for whom, in words. Every node that is not done waits for another such node, so
 * following the waits from anywhere ends in a cycle (or at a group that lacks a member). */
#include "base/strbuf.h"
#include "core/graph/graph.h"

enum { ENOUGH = 512 }; /* bytes of a message */

/* A member that has arrived waits for the lowest node of its group that has not. */
static void find_peers(const struct sc_graph *graph, struct sc_waits *waits)
{
	for (uint32_t g = 0; g < graph->groups.n; g++) {
		uint32_t missing = SC_NONE;
		const uint32_t first = graph->group_node_start[g];
		const uint32_t end = graph->group_node_start[g + 1];

		for (uint32_t m = end; m-- > first;) {
			const uint8_t state = waits->state[graph->group_node[m]];

			if (state == SC_WAIT_BLOCKED || state == SC_WAIT_SM)
				missing = graph->group_node[m];
		}
		for (uint32_t m = first; m < end; m++)
			if (waits->state[graph->group_node[m]] == SC_WAIT_PEER)
				waits->on[graph->group_node[m]] = missing;
	}
}

static int is_lane_wait(const struct sc_graph *graph, const struct sc_waits *waits, uint32_t node)
{
	return waits->state[node] == SC_WAIT_BLOCKED && waits->on[node] != SC_NONE &&
	       graph->lane_next[waits->on[node]] == node;
}

/* Says what `node` waits for; returns the node where that wait leads, a run along a lane as one. */
static uint32_t say_wait(const struct sc_graph *graph, const struct sc_waits *waits, uint32_t node,
			 uint32_t stop, struct sc_strbuf *text)
{
	uint32_t on = waits->on[node];

	sc_strbuf_printf(text, "%snode %u of class %u", text->n ? "; " : "", node,
			 sc_graph_class_of(graph, node));
	if (waits->state[node] == SC_WAIT_PEER) {
		sc_strbuf_printf(text, " waits in group %u for ", graph->nodes.at[node].group);
		if (on == SC_NONE)
			sc_strbuf_printf(text, "a member that has no node");
		else
			sc_strbuf_printf(text, "class %u", sc_graph_class_of(graph, on));
	} else if (waits->state[node] == SC_WAIT_SM) {
		sc_strbuf_printf(text, " waits for SMs held by node %u", on);
	} else if (is_lane_wait(graph, waits, node)) {
		while (on != stop && is_lane_wait(graph, waits, on))
			on = waits->on[on];
		sc_strbuf_printf(text, " is behind node %u on lane %u", on,
				 graph->nodes.at[node].lane);
	} else {
		sc_strbuf_printf(text, " depends on node %u", on);
	}
	return on;
}

/* A node of the cycle (or the one where the waits end) reached from the lowest open node. */
static uint32_t find_cycle(const struct sc_graph *graph, const struct sc_waits *waits)
{
	uint32_t slow = 0, fast;

	while (slow + 1 < graph->nodes.n && waits->state[slow] == SC_WAIT_DONE)
		slow++;
	fast = slow;
	do { /* Floyd: the two meet on the cycle */
		slow = waits->on[slow];
		for (int i = 0; i < 2; i++) {
			if (waits->on[fast] == SC_NONE)
				return fast;
			fast = waits->on[fast];
		}
	} while (slow != fast);
	return slow;
}

/* Starts at the lowest node of the cycle that waits for a group, or at its lowest node. */
static uint32_t cycle_start(const struct sc_waits *waits, uint32_t node)
{
	uint32_t at = node, best = node;

	do {
		const int better = waits->state[at] == SC_WAIT_PEER;
		const int best_is = waits->state[best] == SC_WAIT_PEER;

		if (better > best_is || (better == best_is && at < best))
			best = at;
		at = waits->on[at];
	} while (at != node && at != SC_NONE);
	return best;
}

int sc_waits_error(const struct sc_graph *graph, struct sc_waits *waits, struct sc_err *err)
{
	struct sc_strbuf text = {0};
	uint32_t start, at;
	int rc;

	/* A blocked node waits for its lane's predecessor if open, else for its lowest open dep. */
	for (uint32_t i = 0; i < graph->nodes.n; i++) {
		if (waits->state[i] == SC_WAIT_DONE)
			continue;
		for (uint32_t e = graph->succ_start[i]; e < graph->succ_start[i + 1]; e++) {
			const uint32_t to = graph->succ[e];

			if (waits->state[to] == SC_WAIT_BLOCKED && waits->on[to] == SC_NONE)
				waits->on[to] = i;
		}
	}
	for (uint32_t i = 0; i < graph->nodes.n; i++) {
		const uint32_t next = graph->lane_next[i];

		if (waits->state[i] != SC_WAIT_DONE && next != SC_NONE)
			waits->on[next] = i;
	}
	if (graph->groups.n)
		find_peers(graph, waits);
	start = cycle_start(waits, find_cycle(graph, waits));
	at = start;
	do {
		at = say_wait(graph, waits, at, start, &text);
	} while (at != start && at != SC_NONE && text.n < ENOUGH);
	rc = sc_err_set(err, SC_EDEADLOCK, "wait cycle: %s", sc_strbuf_get(&text));
	sc_strbuf_release(&text);
	return rc;
}
