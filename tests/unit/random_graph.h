/* Random graphs for property tests: first a plan in the order of one legal execution, so that it
 * has no cycle, then a graph of it with ids dealt out in any order that keeps each lane's. */
#pragma once

#include "base/rng.h"
#include "sim_fixture.h"

enum { PLAN_NODES = 160, PLAN_LANES = 12, PLAN_CLASSES = 4, PLAN_EDGES = 320, PLAN_GROUPS = 60 };

struct plan {
	uint32_t n_classes, n_lanes, n_nodes, n_edges, n_groups;
	struct sc_class classes[PLAN_CLASSES];
	uint32_t lane_class[PLAN_LANES];
	struct {
		uint32_t lane, group; /* group: SC_NONE or index */
		struct sc_cost cost;
	} nodes[PLAN_NODES];
	struct {
		uint32_t from, to;
	} edges[PLAN_EDGES];
	struct sc_cost groups[PLAN_GROUPS];
};

/* Graphs that differ for the engine; times are whole if not `shared`, so that they are exact.
 */
struct plan_opts {
	int shared; /* demands, latencies and priorities */
};

static inline double whole(struct sc_rng *rng, uint64_t n)
{
	return (double)sc_rng_below(rng, n);
}

static inline struct sc_cost plan_cost(struct sc_rng *rng, int shared, int group)
{
	struct sc_cost cost = {0};

	if (!shared) {
		cost = work(whole(rng, 4), whole(rng, 20));
		return cost;
	}
	cost.latency_us = sc_rng_below(rng, 3) ? 0 : 3 * sc_rng_uniform(rng);
	cost.work_us = 20 * sc_rng_uniform(rng);
	cost.owner_frac[group ? SC_OWN_COMM : SC_OWN_COMPUTE] = 0.75;
	cost.owner_frac[SC_OWN_MEMORY] = 0.25;
	for (int r = SC_RES_HBM; r < SC_N_RES; r++) {
		if (!sc_rng_below(rng, 3))
			cost.demand[r] = sc_rng_uniform(rng);
	}
	cost.waves = (double)sc_rng_below(rng, 8);
	if (sc_rng_below(rng, 2))
		cost.demand[SC_RES_SM] = (group ? 0.1 : 1.2) * sc_rng_uniform(rng);
	cost.holds_sm =
		(unsigned char)group; /* 9 lanes x 0.1: groups alone cannot exhaust the SMs */
	return cost;
}

static inline void plan_classes(struct plan *p, struct sc_rng *rng, const struct plan_opts *opts)
{
	p->n_classes = 1 + (uint32_t)sc_rng_below(rng, PLAN_CLASSES);
	for (uint32_t c = 0; c < p->n_classes; c++) {
		p->classes[c] = (struct sc_class){
			.multiplicity = 1 + (uint32_t)sc_rng_below(rng, 8),
			.nic_domain = (uint32_t)sc_rng_below(rng, p->n_classes),
			.ranks_per_domain = 1 + whole(rng, 8),
			.slowdown = opts->shared && !sc_rng_below(rng, 4) ? 1.25 : 1,
			.name = SC_NONE,
		};
	}
	p->n_lanes = p->n_classes + (uint32_t)sc_rng_below(rng, PLAN_LANES - p->n_classes + 1);
	for (uint32_t l = 0; l < p->n_lanes; l++)
		p->lane_class[l] = l < p->n_classes ? l : (uint32_t)sc_rng_below(rng, p->n_classes);
}

static inline uint32_t plan_node(struct plan *p, struct sc_rng *rng, uint32_t lane,
				 const struct sc_cost *cost)
{
	const uint32_t id = p->n_nodes++;

	p->nodes[id].lane = lane;
	p->nodes[id].group = SC_NONE;
	p->nodes[id].cost = *cost;
	while (id && p->n_edges < PLAN_EDGES && !sc_rng_below(rng, 2)) {
		p->edges[p->n_edges].from = (uint32_t)sc_rng_below(rng, id);
		p->edges[p->n_edges++].to = id;
	}
	return id;
}

/* One member on a random lane of each of several classes; no dep from one to another. */
static inline void plan_group(struct plan *p, struct sc_rng *rng, const struct plan_opts *opts)
{
	const uint32_t first = p->n_nodes, n_edges = p->n_edges;
	uint32_t n_lanes_seen;

	p->groups[p->n_groups] = plan_cost(rng, opts->shared, 1);
	for (uint32_t c = 0; c < p->n_classes; c++) {
		const struct sc_cost before = work(0, sc_rng_below(rng, 4) ? 0 : whole(rng, 5));
		uint32_t lane = c, id;

		n_lanes_seen = 0;
		if (c && sc_rng_below(rng, 2))
			continue;
		for (uint32_t l = 0; l < p->n_lanes; l++) {
			if (p->lane_class[l] == c && !sc_rng_below(rng, ++n_lanes_seen))
				lane = l;
		}
		id = plan_node(p, rng, lane, &before);
		p->nodes[id].group = p->n_groups;
	}
	for (uint32_t e = n_edges; e < p->n_edges; e++) {
		if (p->edges[e].from >= first)
			p->edges[e--] = p->edges[--p->n_edges];
	}
	p->n_groups++;
}

static inline void plan_init(struct plan *p, uint64_t seed, const struct plan_opts *opts)
{
	struct sc_rng rng;
	uint32_t want;

	sc_rng_init(&rng, seed);
	memset(p, 0, sizeof(*p));
	plan_classes(p, &rng, opts);
	for (uint32_t l = 0; opts->shared && l < p->n_lanes; l++) {
		const struct sc_cost delay = work(0, 10 * sc_rng_uniform(&rng));

		plan_node(p, &rng, l, &delay); /* no two lanes start at the same time */
	}
	want = p->n_nodes + 1 + (uint32_t)sc_rng_below(&rng, PLAN_NODES - PLAN_LANES - 8);
	while (p->n_nodes < want) {
		const struct sc_cost cost = plan_cost(&rng, opts->shared, 0);

		if (p->n_groups < PLAN_GROUPS && !sc_rng_below(&rng, 4))
			plan_group(p, &rng, opts);
		else
			plan_node(p, &rng, (uint32_t)sc_rng_below(&rng, p->n_lanes), &cost);
	}
}

/* order[i] = the plan's i-th thing to be added; NULL rng = as planned. */
static inline void deal(uint32_t *order, uint32_t n, struct sc_rng *rng)
{
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	for (uint32_t i = n; rng && i > 1; i--) {
		const uint32_t j = (uint32_t)sc_rng_below(rng, i), swap = order[j];

		order[j] = order[i - 1];
		order[i - 1] = swap;
	}
}

/* The first of the plan's nodes on a random lane that has some left. */
static inline uint32_t next_node(const struct plan *p, const uint32_t *id, struct sc_rng *rng)
{
	uint32_t n_seen = 0, pick = SC_NONE;

	for (uint32_t l = 0; l < p->n_lanes; l++) {
		uint32_t i = 0;

		while (i < p->n_nodes && (p->nodes[i].lane != l || id[i] != SC_NONE))
			i++;
		if (i == p->n_nodes)
			continue;
		if (rng ? !sc_rng_below(rng, ++n_seen) : i < pick)
			pick = i;
	}
	return pick;
}

static inline void plan_add_classes(const struct plan *p, struct sc_graph *g, struct sc_rng *rng,
				    uint32_t *lane_id)
{
	uint32_t order[PLAN_LANES], class_id[PLAN_CLASSES];

	deal(order, p->n_classes, rng);
	for (uint32_t c = 0; c < p->n_classes; c++)
		class_id[order[c]] = sc_graph_add_class(g, p->classes[order[c]]);
	deal(order, p->n_lanes, rng);
	for (uint32_t i = 0; i < p->n_lanes; i++) {
		const uint32_t l = order[i];

		lane_id[l] = sc_graph_add_lane(g, class_id[p->lane_class[l]], SC_LANE_COMPUTE);
		g->lanes.at[lane_id[l]].priority = (int8_t)l; /* no ties for SMs */
	}
}

static inline void plan_add_groups(const struct plan *p, struct sc_graph *g, struct sc_rng *rng,
				   const uint32_t *lane_id, uint32_t *group_id)
{
	uint32_t order[PLAN_GROUPS];

	deal(order, p->n_groups, rng);
	for (uint32_t i = 0; i < p->n_groups; i++) {
		struct sc_member member[PLAN_CLASSES];
		uint32_t n = 0;

		for (uint32_t k = 0; k < p->n_nodes; k++) {
			if (p->nodes[k].group != order[i])
				continue;
			member[n++] = (struct sc_member){
				.class_id = g->lanes.at[lane_id[p->nodes[k].lane]].class_id,
				.count = 1,
			};
		}
		group_id[order[i]] = sc_graph_add_group(
			g, (struct sc_node_use){sc_graph_add_cost(g, &p->groups[order[i]]), 0},
			member, n);
	}
}

/* id[i]: the graph's node of the plan's node i. The edge `skip` of the plan is left out. */
static inline void plan_build(const struct plan *p, struct sc_graph *g, struct sc_rng *rng,
			      uint32_t skip, uint32_t *id)
{
	uint32_t order[PLAN_EDGES], lane_id[PLAN_LANES], group_id[PLAN_GROUPS];

	sc_graph_clear(g);
	plan_add_classes(p, g, rng, lane_id);
	plan_add_groups(p, g, rng, lane_id, group_id);
	for (uint32_t i = 0; i < p->n_nodes; i++)
		id[i] = SC_NONE;
	for (uint32_t i = 0; i < p->n_nodes; i++) {
		const uint32_t k = next_node(p, id, rng);
		const uint32_t cost = sc_graph_add_cost(g, &p->nodes[k].cost);
		const uint32_t lane = lane_id[p->nodes[k].lane];

		id[k] = p->nodes[k].group == SC_NONE
				? sc_graph_add_node(g, SC_NODE_KERNEL, lane,
						    (struct sc_node_use){cost, k})
				: sc_graph_add_member(g, lane, group_id[p->nodes[k].group],
						      (struct sc_node_use){cost, k});
	}
	deal(order, p->n_edges, rng);
	for (uint32_t i = 0; i < p->n_edges; i++) {
		if (order[i] != skip)
			sc_graph_add_dep(g, id[p->edges[order[i]].to], id[p->edges[order[i]].from]);
	}
	sc_graph_seal(g);
}
