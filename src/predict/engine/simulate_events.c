/* Activities in time order: all events of one instant are handled before SMs are granted, and all
 * grants are made before rates are solved, so that the order within an instant does not show. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "predict/engine/simulate_priv.h"

enum { HEAP_WAYS = 4 };

static void heap_place(struct sc_simulator *sim, size_t pos, struct sim_event event)
{
	sim->heap.at[pos] = event;
	sim->acts.at[event.act].heap_pos = (uint32_t)pos;
}

static size_t heap_up(struct sc_simulator *sim, size_t pos, struct sim_event event)
{
	while (pos) {
		const size_t parent = (pos - 1) / HEAP_WAYS;

		if (sim->heap.at[parent].at_us <= event.at_us)
			break;
		heap_place(sim, pos, sim->heap.at[parent]);
		pos = parent;
	}
	heap_place(sim, pos, event);
	return pos;
}

static void heap_down(struct sc_simulator *sim, size_t pos, struct sim_event event)
{
	for (;;) {
		const size_t first = pos * HEAP_WAYS + 1;
		size_t best = first;

		if (first >= sim->heap.n)
			break;
		for (size_t i = first + 1; i < first + HEAP_WAYS && i < sim->heap.n; i++) {
			if (sim->heap.at[i].at_us < sim->heap.at[best].at_us)
				best = i;
		}
		if (sim->heap.at[best].at_us >= event.at_us)
			break;
		heap_place(sim, pos, sim->heap.at[best]);
		pos = best;
	}
	heap_place(sim, pos, event);
}

static void heap_remove(struct sc_simulator *sim, uint32_t act)
{
	const size_t pos = sim->acts.at[act].heap_pos;
	struct sim_event last;

	if (pos == SC_NONE)
		return;
	sim->acts.at[act].heap_pos = SC_NONE;
	last = sim->heap.at[--sim->heap.n];
	if (pos < sim->heap.n)
		heap_down(sim, heap_up(sim, pos, last), last);
}

static void sim_act_schedule(struct sc_simulator *sim, uint32_t id, double at_us)
{
	const struct sim_event event = {.at_us = at_us, .act = id};
	const uint32_t pos = sim->acts.at[id].heap_pos;

	if (at_us <= sim->now_us || at_us >= HUGE_VAL) {
		heap_remove(sim, id);
		if (at_us <= sim->now_us)
			SC_VEC_PUSH(&sim->due, id);
	} else if (pos == SC_NONE) {
		SC_VEC_PUSH(&sim->heap, event);
		heap_up(sim, sim->heap.n - 1, event);
	} else {
		heap_down(sim, heap_up(sim, pos, event), event);
	}
}

void sc_sim_act_settle(struct sim_act *act, double now_us)
{
	act->remaining_us = sc_sim_act_left(act, now_us);
	act->since_us = now_us;
}

void sc_sim_act_reschedule(struct sc_simulator *sim, uint32_t id)
{
	struct sim_act *act = &sim->acts.at[id];
	double at_us = HUGE_VAL;

	act->at_boundary = 0;
	if (act->rate > 0)
		at_us = act->since_us + act->remaining_us / act->rate;
	if (act->wants_boundary && act->rate > 0) {
		const double boundary_us = sc_sim_boundary_us(act, sim->now_us);

		if (boundary_us < at_us) {
			at_us = boundary_us;
			act->at_boundary = 1;
		}
	}
	sim_act_schedule(sim, id, at_us);
}

static uint32_t new_act(struct sc_simulator *sim)
{
	const uint32_t id = sim->free_act;

	if (id != SC_NONE) {
		sim->free_act = sim->acts.at[id].next;
		return id;
	}
	SC_VEC_PUSH(&sim->acts, (struct sim_act){0});
	return (uint32_t)(sim->acts.n - 1);
}

static void free_act(struct sc_simulator *sim, uint32_t id)
{
	sim->acts.at[id].state = SIM_FREE;
	sim->acts.at[id].next = sim->free_act;
	sim->free_act = id;
}

static void init_node_act(const struct sc_simulator *sim, struct sim_act *act)
{
	const struct sim_flow *f = &sim->flow;
	const struct sc_node *node = &f->node[act->id];
	const struct sc_lane *lane = &f->lane[node->lane];

	act->class_id = lane->class_id;
	act->priority = lane->priority;
	act->sm_want = fmin(act->cost->demand[SC_RES_SM], 1);
	if (f->slowed && node->kind == SC_NODE_KERNEL) {
		act->latency_us *= f->class[act->class_id].slowdown;
		act->work_us *= f->class[act->class_id].slowdown;
	}
}

static uint32_t act_cost(const struct sc_simulator *sim, enum sim_kind kind, uint32_t id)
{
	const struct sc_group *groups = sim->graph->groups.at;

	if (kind == SIM_GROUP)
		return groups[id].cost;
	return kind == SIM_MEMBER ? groups[sim->flow.node[id].group].cost : sim->flow.node[id].cost;
}

void sc_sim_request(struct sc_simulator *sim, enum sim_kind kind, uint32_t id, double at_us)
{
	const uint32_t act_id = new_act(sim);
	const struct sc_cost *cost = &sim->flow.cost[act_cost(sim, kind, id)];
	struct sim_act *act = &sim->acts.at[act_id];

	*act = (struct sim_act){
		.cost = cost,
		.latency_us = cost->latency_us,
		.work_us = cost->work_us,
		.class_id = SC_NONE,
		.id = id,
		.kind = (uint8_t)kind,
		.state = SIM_ARRIVING,
		.comes_later = at_us > sim->now_us,
		.cap = 1,
		.first_use = SC_NONE,
		.bound = SC_NONE,
		.heap_pos = SC_NONE,
		.next = SC_NONE,
	};
	if (kind != SIM_GROUP)
		init_node_act(sim, act);
	sim_act_schedule(sim, act_id, at_us);
}

static void sim_act_finish(struct sc_simulator *sim, uint32_t id)
{
	const uint32_t what = sim->acts.at[id].id;

	if (sim->acts.at[id].state == SIM_WORKING)
		sc_sim_rates_leave(sim, id);
	if (sim->acts.at[id].kind == SIM_KERNEL) {
		if (sim->acts.at[id].sm_want > 0)
			sc_sim_sm_release(sim, id);
		if (sim->apart)
			sim->busy.at[sc_sim_class_of(sim, what)]--;
		sc_sim_node_done(sim, what, sim->now_us);
	} else {
		uint32_t holder = sim->groups.at[what].holders;

		while (holder != SC_NONE) {
			const uint32_t next = sim->acts.at[holder].next;

			sc_sim_unlink_copier(sim, holder);
			sc_sim_sm_release(sim, holder);
			free_act(sim, holder);
			holder = next;
		}
		sim->groups.at[what].act = SC_NONE;
		sc_sim_group_done(sim, what, sim->now_us);
	}
	free_act(sim, id);
}

static void work(struct sc_simulator *sim, uint32_t id)
{
	struct sim_act *act = &sim->acts.at[id];

	if (act->work_us > 0) {
		act->state = SIM_WORKING;
		act->since_us = sim->now_us;
		if (act->kind == SIM_GROUP && act->cost->beside_frac > 0) {
			sim->groups.at[act->id].act = id;
			sc_sim_slow_copier(sim, act->id);
		}
		sc_sim_rates_enter(sim, id);
	} else {
		sim_act_finish(sim, id);
	}
}

void sc_sim_act_start(struct sc_simulator *sim, uint32_t id)
{
	struct sim_act *act = &sim->acts.at[id];

	act->remaining_us = act->work_us;
	if (act->kind == SIM_KERNEL)
		sim->flow.start_us[act->id] = sim->now_us;
	if (act->latency_us > 0) {
		act->state = SIM_LATENCY;
		sim_act_schedule(sim, id, sim->now_us + act->latency_us);
	} else {
		work(sim, id);
	}
}

static void handle(struct sc_simulator *sim, uint32_t id)
{
	const struct sim_act *act = &sim->acts.at[id];
	double end_us;

	if (act->state == SIM_ARRIVING && act->kind == SIM_KERNEL && act->comes_later &&
	    sc_sim_runs_beside(sim, act->id)) {
		free_act(sim, id);
	} else if (act->state == SIM_ARRIVING && act->kind != SIM_GROUP && act->sm_want > 0) {
		sc_sim_sm_enqueue(sim, id);
	} else if (act->state == SIM_ARRIVING && act->kind == SIM_GROUP &&
		   sc_sim_group_alone(sim, act->id, &end_us)) {
		sim->now_us = end_us;
		sim_act_finish(sim, id);
	} else if (act->state == SIM_ARRIVING) {
		sc_sim_act_start(sim, id);
	} else if (act->state == SIM_LATENCY) {
		work(sim, id);
	} else {
		assert(act->state == SIM_WORKING);
		if (act->at_boundary) {
			sim->acts.at[id].boundary_due = 1;
			sc_sim_sm_touch(sim, sim->acts.at[id].class_id);
		} else
			sim_act_finish(sim, id);
	}
}

static int next_due(struct sc_simulator *sim, uint32_t *act)
{
	if (sim->due.n) {
		*act = sim->due.at[--sim->due.n];
		return 1;
	}
	if (sim->heap.n && sim->heap.at[0].at_us <= sim->now_us) {
		*act = sim->heap.at[0].act;
		heap_remove(sim, *act);
		return 1;
	}
	return 0;
}

void sc_sim_events_run(struct sc_simulator *sim)
{
	for (;;) {
		uint32_t act;

		if (sim->n_stack)
			sc_sim_flow_ready(sim);
		else if (next_due(sim, &act))
			handle(sim, act);
		else if (sim->dirty_sm.n)
			sc_sim_sm_update(sim);
		else if ((sim->dirty_acts.n || sim->dirty_res.n) && !sc_sim_is_stopped(sim))
			sc_sim_rates_solve(sim);
		else if (sim->heap.n && !sc_sim_is_stopped(sim))
			sim->now_us = sim->heap.at[0].at_us;
		else
			break;
	}
}

static void begin_resources(struct sc_simulator *sim, size_t n_res, size_t n_sm)
{
	size_t old_res = sim->cap_res, old_sm = sim->cap_sm;

	if (n_res > sim->cap_res) {
		sim->res = sc_xrealloc(sim->res, n_res, sizeof(*sim->res));
		sim->cap_res = n_res;
	}
	if (n_sm > sim->cap_sm) {
		sim->sm = sc_xrealloc(sim->sm, n_sm, sizeof(*sim->sm));
		sim->cap_sm = n_sm;
	}
	if (sim->unclean)
		old_res = old_sm = 0;
	for (size_t i = old_res; i < sim->cap_res; i++)
		sim->res[i] = (struct sim_res){.first = SC_NONE};
	for (size_t i = old_sm; i < sim->cap_sm; i++)
		sim->sm[i] = (struct sim_sm){
			.free = 1, .queue = SC_NONE, .resizable = SC_NONE, .copiers = SC_NONE};
	sim->unclean = 1;
}

void sc_sim_events_begin(struct sc_simulator *sim)
{
	const size_t n_classes = sim->graph->classes.n;

	begin_resources(sim, n_classes * (SC_N_RES + 1), n_classes);
	for (size_t i = 0; i < n_classes; i++)
		sim->sm[i].released_us = -1;
	sim->now_us = 0;
	sim->acts.n = 0;
	sim->uses.n = 0;
	sim->free_act = SC_NONE;
	sim->free_use = SC_NONE;
	sim->heap.n = 0;
	sim->due.n = 0;
	sim->dirty_acts.n = 0;
	sim->dirty_res.n = 0;
	sim->dirty_sm.n = 0;
}
