/* The backward walk: at any moment it stands at time `at` inside or at the end of `node`, with all
 * after `at` explained. Each segment that is added ends there, so the segments cover everything
 * once. */
#include "predict/engine/critical_path.h"

#include <assert.h>

struct walk {
	const struct sc_graph *graph;
	const struct sc_timeline *tl;
	struct sc_critical_path *path;
	uint32_t node;
	double at_us;
};

/* Returns the cost of a node from its start_us on: a member's is its group's data phase. */
static uint32_t run_cost(const struct sc_graph *graph, uint32_t node)
{
	const struct sc_node *n = &graph->nodes.at[node];

	return n->group == SC_NONE ? n->cost : graph->groups.at[n->group].cost;
}

void sc_segment_own(const struct sc_graph *graph, const struct sc_segment *segment, double us,
		    double *owner_us)
{
	if (segment->gap != SC_GAP_NONE)
		owner_us[sc_gaps[segment->gap].owner] += us;
	else
		sc_cost_own(&graph->costs.at[segment->cost], us, owner_us);
}

/* Adds the segment from from_us to where the walk stands, if it lasts at all. */
static void add_segment(struct walk *walk, double from_us, uint32_t cost, enum sc_gap gap)
{
	const struct sc_segment segment = {
		.node = walk->node,
		.cost = cost,
		.reason = walk->tl->reason[walk->node],
		.gap = (uint8_t)gap,
		.start_us = from_us,
		.end_us = walk->at_us,
	};

	if (!(from_us < walk->at_us))
		return;
	SC_VEC_PUSH(&walk->path->segments, segment);
	walk->at_us = from_us;
}

/* While the node waited for SMs, their holder was on the path: the time is named after the node and
 * owned as what the holder did. The holder may still run after at_us, with fewer SMs. */
static void step_resource(struct walk *walk)
{
	const uint32_t holder = walk->tl->bound_by[walk->node];
	double from_us = walk->tl->ready_us[walk->node];

	if (from_us < walk->tl->start_us[holder])
		from_us = walk->tl->start_us[holder];
	add_segment(walk, from_us, run_cost(walk->graph, holder), SC_GAP_NONE);
	walk->node = holder;
}

/* Adds the part of a node's own cost that ends where the walk stands: its gap, or what a member
 * does before it arrives. */
static void add_own(struct walk *walk, double from_us)
{
	const uint32_t cost = walk->graph->nodes.at[walk->node].cost;

	add_segment(walk, from_us, cost, (enum sc_gap)walk->graph->costs.at[cost].gap);
}

/* Goes from the arrival of the node to what let it arrive; returns 0 when the walk is at time 0. */
static int step_to_binder(struct walk *walk)
{
	const uint32_t by = walk->tl->bound_by[walk->node];

	if (walk->tl->reason[walk->node] == SC_BY_RESOURCE) {
		step_resource(walk);
		return 1;
	}
	if (walk->tl->reason[walk->node] == SC_BY_NONE) {
		add_own(walk, 0);
		return 0;
	}
	/* A member's own cost comes before its arrival; for all others this adds nothing. */
	add_own(walk, walk->tl->end_us[by]);
	walk->node = by;
	return 1;
}

static int step(struct walk *walk)
{
	/* A node's work begins after its gap, if it is no member of a group. */
	const struct sc_node *node = &walk->graph->nodes.at[walk->node];
	const struct sc_cost *cost = &walk->graph->costs.at[node->cost];
	double start_us = walk->tl->start_us[walk->node];

	if (cost->gap != SC_GAP_NONE && node->group == SC_NONE)
		start_us += cost->latency_us;
	add_segment(walk, start_us, run_cost(walk->graph, walk->node), SC_GAP_NONE);
	add_own(walk, walk->tl->start_us[walk->node]);
	if (walk->tl->reason[walk->node] == SC_BY_PEER)
		walk->node = walk->tl->bound_by[walk->node];
	return step_to_binder(walk);
}

void sc_critical_path_walk(const struct sc_graph *graph, const struct sc_timeline *timeline,
			   uint32_t last, struct sc_critical_path *path)
{
	struct walk walk = {.graph = graph, .tl = timeline, .path = path};
	size_t n_steps = 0;

	path->segments.n = 0;
	if (!timeline->n)
		return;
	walk.node = last == SC_NONE ? sc_timeline_last(timeline) : last;
	walk.at_us = timeline->end_us[walk.node];
	while (walk.at_us > 0 && step(&walk)) {
		n_steps++;
		assert(n_steps <= timeline->n);
	}
	for (size_t i = 0, j = path->segments.n; i + 1 < j; i++) {
		const struct sc_segment segment = path->segments.at[i];

		path->segments.at[i] = path->segments.at[--j];
		path->segments.at[j] = segment;
	}
}
