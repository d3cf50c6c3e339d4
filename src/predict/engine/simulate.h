/* Runs an execution graph: the one engine for coarse and full graphs, configs and traces
 * (docs/decisions.md, 1). Deterministic; ties go to the lower node id.
 *
 * What a graph's author should know:
 * - A node without demands ends at start + latency + work exactly; a class's slowdown multiplies
 * both for SC_NODE_KERNEL nodes. A member's own cost is a delay before it arrives; its demands do
 * not count.
 * - demand[SC_RES_SM] of a kernel is the share of the SMs it can use: it starts on what is free, in
 *   order of lane priority, then readiness, and runs at granted / wanted. Until its last wave it
 * takes what waiters leave of freed SMs. At its wave boundaries it gives some to waiters of a
 * higher lane priority, to those of its own none. A group takes SMs only with holds_sm. All shares
 * are of one rank. */
#pragma once

#include <signal.h>

#include "base/err.h"
#include "core/graph/graph.h"
#include "core/graph/timeline.h"

struct sc_simulator; /* scratch kept between runs: no malloc once warm */

struct sc_sim_opts {
	/* Demand vectors are ignored: everything runs at its isolated rate. */
	int no_contention;
};

struct sc_simulator *sc_simulator_create(void);
void sc_simulator_destroy(struct sc_simulator *sim);
/* Runs a sealed graph; `opts` may be NULL. A run that ends with unfinished nodes is SC_EDEADLOCK,
 * whose text names the wait cycle (classes, groups, or the collectives that hold SMs). */
int sc_simulate(struct sc_simulator *sim, const struct sc_graph *graph,
		const struct sc_sim_opts *opts, struct sc_timeline *timeline, struct sc_err *err);
/* Once *stop is not 0, a run solves for no more rates and is SC_ECONFLICT; NULL: nothing ends it.
 */
void sc_simulator_stop_by(struct sc_simulator *sim, const volatile sig_atomic_t *stop);
/* Calls `observe` after every change of rates; NULL: no more. */
typedef void sc_simulator_watch(void *ctx, const struct sc_simulator *sim, double now_us);
void sc_simulator_observe(struct sc_simulator *sim, sc_simulator_watch *observe, void *ctx);
/* Returns, while observed, what limits a class now: the resource that is asked for most beyond what
 * there is; SC_RES_SM where only SMs are missing; SC_N_RES where all runs as if alone. */
enum sc_resource sc_simulator_limit(const struct sc_simulator *sim, uint32_t class_id);
