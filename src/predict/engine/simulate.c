/* The engine's entry, and the flow of nodes whose end is known once they are ready. Shared
 * resources are handled in the other simulate_*.c files. */
#include "predict/engine/simulate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "predict/engine/simulate_priv.h"

/* ---- turning a run that stopped early into the wait cycle that stopped it ---- */

/* Waiters for SMs wait for the lowest member node that holds some on their class: kernels always
 * end, so only collectives can hold SMs for ever. */
static void find_holders(const struct sc_simulator *sim, struct sc_waits *waits)
{
	const size_t n = sim->graph->classes.n;
	uint32_t *holder = sc_xrealloc(NULL, n + 1, sizeof(*holder));

	memset(holder, 0xff, (n + 1) * sizeof(*holder));
	for (size_t i = 0; i < sim->acts.n; i++) {
		const struct sim_act *act = &sim->acts.at[i];

		if (act->state == SIM_HOLDING && act->id < holder[act->class_id])
			holder[act->class_id] = act->id;
	}
	for (size_t i = 0; i < sim->acts.n; i++) {
		const struct sim_act *act = &sim->acts.at[i];

		if (act->state != SIM_QUEUED)
			continue;
		waits->state[act->id] = SC_WAIT_SM;
		waits->on[act->id] = holder[act->class_id];
	}
	free(holder);
}

static int sim_deadlock(const struct sc_simulator *sim, struct sc_err *err)
{
	const struct sim_flow *f = &sim->flow;
	const size_t n = sim->graph->nodes.n;
	struct sc_waits waits = {sc_xcalloc(n, sizeof(*waits.state)),
				 sc_xrealloc(NULL, n, sizeof(*waits.on))};
	int rc;

	memset(waits.on, 0xff, n * sizeof(*waits.on));
	for (size_t i = 0; i < n; i++) {
		if (f->end_us[i] < 0)
			waits.state[i] = f->start_us[i] < 0 ? SC_WAIT_BLOCKED : SC_WAIT_PEER;
	}
	if (f->contends)
		find_holders(sim, &waits);
	rc = sc_waits_error(sim->graph, &waits, err);
	free(waits.state);
	free(waits.on);
	return rc;
}

void sc_simulator_stop_by(struct sc_simulator *sim, const volatile sig_atomic_t *stop)
{
	sim->stop = stop;
}

struct sc_simulator *sc_simulator_create(void)
{
	return sc_xcalloc(1, sizeof(struct sc_simulator));
}

void sc_simulator_destroy(struct sc_simulator *sim)
{
	if (!sim)
		return;
	SC_VEC_RELEASE(&sim->acts);
	SC_VEC_RELEASE(&sim->uses);
	SC_VEC_RELEASE(&sim->heap);
	SC_VEC_RELEASE(&sim->due);
	SC_VEC_RELEASE(&sim->dirty_acts);
	SC_VEC_RELEASE(&sim->dirty_res);
	SC_VEC_RELEASE(&sim->dirty_sm);
	SC_VEC_RELEASE(&sim->part_acts);
	SC_VEC_RELEASE(&sim->limits);
	SC_VEC_RELEASE(&sim->beyond);
	SC_VEC_RELEASE(&sim->stopped);
	SC_VEC_RELEASE(&sim->part_res);
	free(sim->res);
	free(sim->sm);
	SC_VEC_RELEASE(&sim->groups);
	SC_VEC_RELEASE(&sim->contends);
	SC_VEC_RELEASE(&sim->stack);
	SC_VEC_RELEASE(&sim->busy);
	SC_VEC_RELEASE(&sim->ready);
	free(sim);
}

/* Counts `from` as done for a node. Its binding reason is whatever ended last; on a tie its lane,
 * then the lowest node: so neither the order of edges nor of processing shows. */
static inline void reach(struct sc_simulator *sim, const struct sim_flow *f, uint32_t node,
			 uint32_t from, enum sc_reason why)
{
	const double at = f->end_us[from];

	if (at >= f->ready_us[node]) {
		const int later = at > f->ready_us[node];
		const uint8_t old = f->reason[node];

		if (later || (old != SC_BY_NONE && old != SC_BY_LANE &&
			      (why == SC_BY_LANE || from < f->bound_by[node]))) {
			f->ready_us[node] = at;
			f->bound_by[node] = from;
			f->reason[node] = (uint8_t)why;
		}
	}
	f->start_us[node] += 1;
	if (f->start_us[node] >= 0)
		f->stack[sim->n_stack++] = node;
}

static inline void done(struct sc_simulator *sim, const struct sim_flow *f, uint32_t node,
			double end_us)
{
	const uint32_t first = f->succ_start[node], end = f->succ_start[node + 1];
	const uint32_t next = f->lane_next[node];

	f->end_us[node] = end_us;
	sim->n_done++;
	if (end_us > sim->total_us)
		sim->total_us = end_us;
	if (first < end) {
		const enum sc_reason why =
			f->node[node].kind == SC_NODE_LAUNCH ? SC_BY_LAUNCH : SC_BY_DEP;

		for (uint32_t i = first; i < end; i++)
			reach(sim, f, f->succ[i], node, why);
	}
	if (next != SC_NONE)
		reach(sim, f, next, node, SC_BY_LANE);
}

void sc_sim_node_done(struct sc_simulator *sim, uint32_t node, double end_us)
{
	done(sim, &sim->flow, node, end_us);
}

/* Begins the data phase once the last member is there. Its end is known at once unless it contends.
 */
static void begin_group(struct sc_simulator *sim, uint32_t group)
{
	const struct sc_graph *graph = sim->graph;
	const struct sim_flow *f = &sim->flow;
	const struct sim_group *state = &sim->groups.at[group];
	const uint32_t cost_id = graph->groups.at[group].cost;
	const struct sc_cost *cost = &f->cost[cost_id];

	for (uint32_t i = graph->group_node_start[group]; i < graph->group_node_start[group + 1];
	     i++) {
		const uint32_t node = graph->group_node[i];

		if (f->start_us[node] < state->last_us) {
			f->bound_by[node] = state->last_node;
			f->reason[node] = SC_BY_PEER;
			f->start_us[node] = state->last_us;
		}
	}
	if (f->contends && f->contends[cost_id])
		sc_sim_request(sim, SIM_GROUP, group, state->last_us);
	else
		sc_sim_group_done(sim, group, state->last_us + cost->latency_us + cost->work_us);
}

void sc_sim_group_done(struct sc_simulator *sim, uint32_t group, double end_us)
{
	const struct sc_graph *graph = sim->graph;

	for (uint32_t i = graph->group_node_start[group]; i < graph->group_node_start[group + 1];
	     i++) {
		if (sim->apart)
			sim->busy.at[sc_sim_class_of(sim, graph->group_node[i])]--;
		done(sim, &sim->flow, graph->group_node[i], end_us);
	}
}

void sc_sim_member_arrived(struct sc_simulator *sim, uint32_t node, double at_us)
{
	const uint32_t group = sim->flow.node[node].group;
	struct sim_group *state = &sim->groups.at[group];

	sim->flow.start_us[node] = at_us;
	if (!state->n_arrived || at_us > state->last_us ||
	    (at_us >= state->last_us && node < state->last_node)) {
		state->last_us = at_us;
		state->last_node = node;
	}
	if (++state->n_arrived == sim->graph->groups.at[group].n_members)
		begin_group(sim, group);
}

/* Returns the end of a node that is no member: exactly start + latency + work unless its class is
 * slowed. */
static inline double alone_end_us(const struct sim_flow *f, const struct sc_node *node,
				  double start_us)
{
	const struct sc_cost *cost = &f->cost[node->cost];

	if (f->slowed && node->kind == SC_NODE_KERNEL) {
		const double slowdown = f->class[f->lane[node->lane].class_id].slowdown;

		return start_us + cost->latency_us * slowdown + cost->work_us * slowdown;
	}
	return start_us + cost->latency_us + cost->work_us;
}

/* A kernel that asks for shared resources is requested at once, or when all that is ready to flow
 * has. */
static inline void meet(struct sc_simulator *sim, const struct sim_flow *f, uint32_t id)
{
	if (sim->apart) {
		sim->busy.at[sc_sim_class_of(sim, id)]++;
		SC_VEC_PUSH(&sim->ready, id);
	} else {
		sc_sim_request(sim, SIM_KERNEL, id, f->ready_us[id]);
	}
}

static void flow(struct sc_simulator *sim)
{
	const struct sim_flow f = sim->flow;

	while (sim->n_stack) {
		const uint32_t id = f.stack[--sim->n_stack];
		const struct sc_node *node = &f.node[id];

		if (node->group != SC_NONE) {
			const struct sc_cost *before = &f.cost[f.node[id].cost];
			const uint32_t cost_id = sim->graph->groups.at[f.node[id].group].cost;

			if (sim->apart)
				sim->busy.at[sc_sim_class_of(sim, id)]++;
			f.ready_us[id] += sc_cost_alone_us(before);
			if (f.contends && f.contends[cost_id] & SIM_SM && f.cost[cost_id].holds_sm)
				sc_sim_request(sim, SIM_MEMBER, id, f.ready_us[id]);
			else
				sc_sim_member_arrived(sim, id, f.ready_us[id]);
		} else if (f.contends && f.contends[node->cost]) {
			meet(sim, &f, id);
		} else {
			f.start_us[id] = f.ready_us[id];
			done(sim, &f, id, alone_end_us(&f, node, f.ready_us[id]));
		}
	}
}

/* A kernel that is all its class has to do until it ends needs no event, whatever others do: what
 * else the class has waits for it, or for a group that it has not come to. */
void sc_sim_flow_ready(struct sc_simulator *sim)
{
	const struct sim_flow *f = &sim->flow;

	for (flow(sim); sim->ready.n; flow(sim)) {
		const uint32_t id = sim->ready.at[--sim->ready.n];
		uint32_t *busy = &sim->busy.at[sc_sim_class_of(sim, id)];

		const bool own = f->contends[f->node[id].cost] & SIM_OWN;

		if (*busy > 1 && sc_sim_runs_beside(sim, id))
			continue;
		if (*busy > 1 || !own) {
			sc_sim_request(sim, SIM_KERNEL, id, f->ready_us[id]);
			continue;
		}
		*busy = 0;
		f->start_us[id] = f->ready_us[id];
		done(sim, f, id, alone_end_us(f, &f->node[id], f->ready_us[id]));
	}
}

/* Marks the costs that have demands; returns NULL if none has. */
static const uint8_t *find_contends(struct sc_simulator *sim)
{
	const size_t n = sim->graph->costs.n;
	uint8_t any = 0;

	SC_VEC_RESERVE(&sim->contends, n);
	for (size_t i = 0; i < n; i++) {
		const double *demand = sim->graph->costs.at[i].demand;
		const bool of_sm = demand[SC_RES_SM] > 0;
		double most = 0; /* of anything else */

		for (int r = SC_RES_SM + 1; r < SC_N_RES; r++)
			most = demand[r] > most ? demand[r] : most;
		const bool own = most <= 1 && !(demand[SC_RES_NIC] > 0);
		const uint8_t contends = !of_sm && !(most > 0) ? 0
							       : SIM_ANY | (of_sm ? SIM_SM : 0) |
									 (own ? SIM_OWN : 0);

		sim->contends.at[i] = contends;
		any |= contends;
	}
	return any ? sim->contends.at : NULL;
}

static void begin_flow(struct sc_simulator *sim, const struct sc_sim_opts *opts,
		       struct sc_timeline *timeline)
{
	const struct sc_graph *graph = sim->graph;

	SC_VEC_RESERVE(&sim->stack, graph->lanes.n);
	sim->flow = (struct sim_flow){
		.node = graph->nodes.at,
		.cost = graph->costs.at,
		.lane = graph->lanes.at,
		.class = graph->classes.at,
		.succ_start = graph->succ_start,
		.succ = graph->succ,
		.lane_next = graph->lane_next,
		.contends = opts && opts->no_contention ? NULL : find_contends(sim),
		.ready_us = timeline->ready_us,
		.start_us = timeline->start_us,
		.end_us = timeline->end_us,
		.bound_by = timeline->bound_by,
		.reason = timeline->reason,
		.stack = sim->stack.at,
	};
	for (size_t i = 0; i < graph->classes.n; i++)
		sim->flow.slowed |= graph->classes.at[i].slowdown > 1;
	sim->n_stack = 0;
	sim->n_done = 0;
	sim->total_us = 0;
	sim->ready.n = 0;
	sim->apart = sim->flow.contends && !sim->observe && graph->apart;
	SC_VEC_RESERVE(&sim->busy, graph->classes.n);
	for (size_t i = 0; i < graph->classes.n; i++)
		sim->busy.at[i] = 0;
}

/* Lets every node wait, and puts those without dependencies on the stack of the ready. */
static void begin_nodes(struct sc_simulator *sim)
{
	const struct sim_flow *f = &sim->flow;
	const uint32_t *n_deps = sim->graph->n_deps;
	const size_t n = sim->graph->nodes.n;

	for (size_t i = 0; i < sim->graph->groups.n; i++)
		sim->groups.at[i] = (struct sim_group){.holders = SC_NONE, .act = SC_NONE};
	for (size_t i = 0; i < n; i++) {
		f->ready_us[i] = 0;
		f->start_us[i] = -(double)n_deps[i];
		f->end_us[i] = -1;
		f->bound_by[i] = SC_NONE;
	}
	if (n)
		memset(f->reason, SC_BY_NONE, n);
	for (size_t i = n; i-- > 0;) {
		if (!n_deps[i])
			f->stack[sim->n_stack++] = (uint32_t)i;
	}
}

int sc_simulate(struct sc_simulator *sim, const struct sc_graph *graph,
		const struct sc_sim_opts *opts, struct sc_timeline *timeline, struct sc_err *err)
{
	assert(graph->sealed);
	/* A grown timeline needs no copy: its contents are undefined here. */
	if (graph->nodes.n > timeline->cap) {
		sc_timeline_release(timeline);
		timeline->ready_us = sc_xrealloc(NULL, graph->nodes.n, sizeof(*timeline->ready_us));
		timeline->start_us = sc_xrealloc(NULL, graph->nodes.n, sizeof(*timeline->start_us));
		timeline->end_us = sc_xrealloc(NULL, graph->nodes.n, sizeof(*timeline->end_us));
		timeline->bound_by = sc_xrealloc(NULL, graph->nodes.n, sizeof(*timeline->bound_by));
		timeline->reason = sc_xrealloc(NULL, graph->nodes.n, sizeof(*timeline->reason));
		timeline->cap = graph->nodes.n;
	}
	timeline->n = graph->nodes.n;
	timeline->total_us = 0;
	sim->graph = graph;
	begin_flow(sim, opts, timeline);
	SC_VEC_RESERVE(&sim->groups, graph->groups.n);
	if (opts || !sc_sim_walk(sim))
		begin_nodes(sim);
	if (sim->flow.contends) {
		sc_sim_events_begin(sim);
		sc_sim_events_run(sim);
	} else {
		sc_sim_flow_ready(sim);
	}
	timeline->total_us = sim->total_us;
	if (sim->n_done < graph->nodes.n && sc_sim_is_stopped(sim))
		return sc_err_set(err, SC_ECONFLICT, "the simulation was stopped before its end");
	if (sim->n_done < graph->nodes.n)
		return sim_deadlock(sim, err);
	sim->unclean = 0;
	return SC_OK;
}
