/* Shared by the simulator's tests: a graph with its simulator, and short ways to add things. */
#pragma once

#include <stdint.h>

#include "core/graph/graph.h"
#include "core/graph/timeline.h"
#include "graph_check.h"
#include "predict/engine/critical_path.h"
#include "predict/engine/simulate.h"
#include "runner.h"

struct sim_fixture {
	struct sc_graph g;
	struct sc_timeline tl;
	struct sc_critical_path path;
	struct sc_simulator *sim;
	struct sc_err err;
	uint32_t none; /* a cost of no time */
};

static inline void fixture_begin(struct sim_fixture *f)
{
	const struct sc_cost none = {0};

	memset(f, 0, sizeof(*f));
	sc_graph_init(&f->g);
	f->sim = sc_simulator_create();
	f->none = sc_graph_add_cost(&f->g, &none);
}

static inline void fixture_end(struct sim_fixture *f)
{
	sc_graph_release(&f->g);
	sc_timeline_release(&f->tl);
	SC_VEC_RELEASE(&f->path.segments);
	sc_simulator_destroy(f->sim);
}

/* Seals, checks, simulates. */
static inline int fixture_run(struct sim_fixture *f)
{
	int rc;

	f->err = (struct sc_err){0};
	sc_graph_seal(&f->g);
	rc = graph_check(&f->g, &f->err);
	return rc ? rc : sc_simulate(f->sim, &f->g, NULL, &f->tl, &f->err);
}

static inline uint32_t add_class(struct sim_fixture *f, uint32_t multiplicity)
{
	return sc_graph_add_class(&f->g, (struct sc_class){.multiplicity = multiplicity,
							   .ranks_per_domain = multiplicity,
							   .slowdown = 1,
							   .name = SC_NONE});
}

static inline uint32_t add_lane(struct sim_fixture *f, uint32_t class_id)
{
	return sc_graph_add_lane(&f->g, class_id, SC_LANE_COMPUTE);
}

static inline struct sc_cost work(double latency_us, double work_us)
{
	return (struct sc_cost){
		.latency_us = latency_us, .work_us = work_us, .owner_frac[SC_OWN_COMPUTE] = 1};
}

static inline struct sc_cost demand(double work_us, enum sc_resource resource, double share)
{
	struct sc_cost cost = work(0, work_us);

	cost.demand[resource] = share;
	return cost;
}

static inline uint32_t add_node(struct sim_fixture *f, uint32_t lane, struct sc_cost cost)
{
	return sc_graph_add_node(&f->g, SC_NODE_KERNEL, lane,
				 (struct sc_node_use){sc_graph_add_cost(&f->g, &cost), SC_NONE});
}

/* A group of one rank of each class. */
static inline uint32_t add_group(struct sim_fixture *f, struct sc_cost cost,
				 const uint32_t *classes, uint32_t n)
{
	struct sc_member member[16];

	ck_assert_uint_le(n, 16);
	for (uint32_t i = 0; i < n; i++)
		member[i] = (struct sc_member){.class_id = classes[i], .count = 1};
	return sc_graph_add_group(
		&f->g, (struct sc_node_use){sc_graph_add_cost(&f->g, &cost), SC_NONE}, member, n);
}

static inline uint32_t add_member(struct sim_fixture *f, uint32_t lane, uint32_t group)
{
	return sc_graph_add_member(&f->g, lane, group, (struct sc_node_use){f->none, SC_NONE});
}

/* Time of the path by owner. */
static inline void own_path(const struct sim_fixture *f, double owner_us[SC_N_OWNERS])
{
	for (int o = 0; o < SC_N_OWNERS; o++)
		owner_us[o] = 0;
	for (size_t i = 0; i < f->path.segments.n; i++) {
		const struct sc_segment *s = &f->path.segments.at[i];

		sc_segment_own(&f->g, s, s->end_us - s->start_us, owner_us);
	}
}

static inline void ck_times(const struct sim_fixture *f, uint32_t node, double start_us,
			    double end_us)
{
	ck_assert_double_eq_tol(f->tl.start_us[node], start_us, 1e-9);
	ck_assert_double_eq_tol(f->tl.end_us[node], end_us, 1e-9);
}

static inline void ck_reason(const struct sim_fixture *f, uint32_t node, enum sc_reason reason,
			     uint32_t by)
{
	ck_assert_int_eq(f->tl.reason[node], reason);
	ck_assert_uint_eq(f->tl.bound_by[node], by);
}
