/* Activities in time order: all events of one instant are handled before SMs are granted, and all
 * grants are made before rates are solved, so that the order within an instant does not show. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "predict/engine/simulate_priv.h"

static void sim_act_start(struct sc_simulator *sim, uint32_t id);

/* SMs are granted by space, in order of lane priority, then launch (the reference's collectives
 * §4.4). A kernel takes what is free, up to what it can use, and runs at granted / wanted; a
 * collective (or any cost with holds_sm) needs all it wants at once. The first in the queue blocks
 * those behind it, as the hardware's block scheduler does. A running kernel whose last wave has not
 * begun has blocks that wait: it takes freed SMs that are left. It gives SMs to a waiter of higher
 * priority only at its wave boundaries: a wave of fewer SMs takes as long, and does less. */

static void mark_dirty(struct sc_simulator *sim, uint32_t class_id)
{
	if (sim->sm[class_id].dirty)
		return;
	sim->sm[class_id].dirty = 1;
	SC_VEC_PUSH(&sim->dirty_sm, class_id);
}

static int before(const struct sc_simulator *sim, const struct sim_act *a, const struct sim_act *b)
{
	const double a_us = sim->flow.ready_us[a->id], b_us = sim->flow.ready_us[b->id];

	if (a->priority != b->priority)
		return a->priority > b->priority;
	if (a_us < b_us || b_us < a_us)
		return a_us < b_us;
	return a->id < b->id;
}

static void sim_sm_enqueue(struct sc_simulator *sim, uint32_t id)
{
	struct sim_act *act = &sim->acts.at[id];
	uint32_t *link = &sim->sm[act->class_id].queue;

	act->state = SIM_QUEUED;
	while (*link != SC_NONE && before(sim, &sim->acts.at[*link], act))
		link = &sim->acts.at[*link].next;
	act->next = *link;
	*link = id;
	mark_dirty(sim, act->class_id);
}

static int is_resizable(const struct sim_act *act)
{
	return act->kind == SIM_KERNEL && !act->cost->holds_sm;
}

/* The list is kept in the order of the queue. */
static void link_resizable(struct sc_simulator *sim, uint32_t id)
{
	struct sim_act *act = &sim->acts.at[id];
	uint32_t prev = SC_NONE, next = sim->sm[act->class_id].resizable;

	while (next != SC_NONE && before(sim, &sim->acts.at[next], act)) {
		prev = next;
		next = sim->acts.at[next].run_next;
	}
	act->run_prev = prev;
	act->run_next = next;
	if (next != SC_NONE)
		sim->acts.at[next].run_prev = id;
	if (prev != SC_NONE)
		sim->acts.at[prev].run_next = id;
	else
		sim->sm[act->class_id].resizable = id;
}

/* Moves SMs to the activity, or back from it if `amount` is negative. */
static void move(struct sc_simulator *sim, struct sim_act *act, double amount)
{
	struct sim_sm *sm = &sim->sm[act->class_id];
	const int had = act->sm_got > 0;

	act->sm_got += amount;
	sm->free -= amount;
	if (act->sm_got < SIM_EPS)
		act->sm_got = 0;
	if (act->sm_want - act->sm_got < SIM_EPS)
		act->sm_got = act->sm_want;
	sm->n_holders += (act->sm_got > 0) - (uint32_t)had;
	if (!sm->n_holders)
		sm->free = 1; /* no rounding is carried on */
	act->cap = act->sm_got >= act->sm_want ? 1 : act->sm_got / act->sm_want;
	mark_dirty(sim, act->class_id);
	if (amount >= 0)
		return;
	if (sm->released_us < sim->now_us || act->id < sm->released_by) {
		sm->released_us = sim->now_us;
		sm->released_by = act->id;
	}
}

static void sim_sm_release(struct sc_simulator *sim, uint32_t id)
{
	struct sim_act *act = &sim->acts.at[id];

	if (is_resizable(act)) {
		if (act->run_prev != SC_NONE)
			sim->acts.at[act->run_prev].run_next = act->run_next;
		else
			sim->sm[act->class_id].resizable = act->run_next;
		if (act->run_next != SC_NONE)
			sim->acts.at[act->run_next].run_prev = act->run_prev;
	}
	move(sim, act, -act->sm_got);
}

/* Slows a collective on few SMs while kernels run: as many of its loads are in flight, and they
 * come back later. */
static void slow_copier(struct sc_simulator *sim, uint32_t group_id)
{
	const struct sim_group *group = &sim->groups.at[group_id];
	struct sim_act *act;
	double cap = 1;

	if (group->act == SC_NONE)
		return;
	act = &sim->acts.at[group->act];
	for (uint32_t m = group->holders; m != SC_NONE; m = sim->acts.at[m].next)
		if (sim->sm[sim->acts.at[m].class_id].resizable != SC_NONE)
			cap = act->cost->beside_frac;
	if (cap < act->cap || cap > act->cap) {
		act->cap = cap;
		sc_sim_rates_touch(sim, group->act);
	}
}

static void link_copier(struct sc_simulator *sim, uint32_t id)
{
	struct sim_act *act = &sim->acts.at[id];
	uint32_t *first = &sim->sm[act->class_id].copiers;

	if (!(act->cost->beside_frac > 0))
		return;
	act->run_next = *first;
	*first = id;
}

static void unlink_copier(struct sc_simulator *sim, uint32_t id)
{
	const struct sim_act *act = &sim->acts.at[id];
	uint32_t *link = &sim->sm[act->class_id].copiers;

	if (!(act->cost->beside_frac > 0))
		return;
	while (*link != id)
		link = &sim->acts.at[*link].run_next;
	*link = act->run_next;
}

/* Starts, resumes or lets arrive the first in the queue, which has its SMs. This may move
 * sim->acts. */
static void admit(struct sc_simulator *sim, uint32_t id)
{
	struct sim_act *act = &sim->acts.at[id];
	const struct sim_flow *f = &sim->flow;
	const uint32_t node = act->id;

	if (act->started) {
		act->state = SIM_WORKING;
		sc_sim_rates_touch(sim, id);
		return;
	}
	if (sim->now_us > f->ready_us[node]) {
		f->reason[node] = SC_BY_RESOURCE;
		f->bound_by[node] = sim->sm[act->class_id].released_by;
	}
	if (act->kind == SIM_KERNEL) {
		act->started = 1;
		if (is_resizable(act))
			link_resizable(sim, id);
		sim_act_start(sim, id);
	} else {
		struct sim_group *group = &sim->groups.at[f->node[node].group];

		act->state = SIM_HOLDING;
		act->next = group->holders;
		group->holders = id;
		link_copier(sim, id);
		sc_sim_member_arrived(sim, node, sim->now_us);
	}
}

static int grant_first(struct sc_simulator *sim, struct sim_sm *sm)
{
	const uint32_t id = sm->queue;
	struct sim_act *act = &sim->acts.at[id];
	const int all = act->kind == SIM_MEMBER || act->cost->holds_sm;

	if (sm->free < SIM_EPS || (all && sm->free + SIM_EPS < act->sm_want))
		return 0;
	sm->queue = act->next;
	act->next = SC_NONE;
	move(sim, act, all || act->sm_want < sm->free ? act->sm_want : sm->free);
	admit(sim, id);
	return 1;
}

static double work_done(const struct sim_act *act, double now_us)
{
	return act->work_us - act->remaining_us + act->rate * (now_us - act->since_us);
}

/* Returns the work done at the next wave boundary, HUGE_VAL in the last wave. */
static double next_wave(const struct sim_act *act, double now_us)
{
	const double step = act->work_us / fmax(act->cost->waves, 1) * act->cap;
	const double passed = floor((work_done(act, now_us) - act->wave_from) / step + SIM_EPS);
	const double next = act->wave_from + (passed + 1) * step;

	return next < act->work_us * (1 - SIM_EPS) ? next : HUGE_VAL;
}

/* Says whether the first in the queue comes before a running kernel. */
static int is_outranked(const struct sc_simulator *sim, const struct sim_sm *sm,
			const struct sim_act *act)
{
	return sm->queue != SC_NONE && sim->acts.at[sm->queue].priority > act->priority;
}

/* Returns how many SMs waiters of a higher priority lack. */
static double lacking(const struct sc_simulator *sim, const struct sim_sm *sm, int priority)
{
	double want = 0;

	for (uint32_t id = sm->queue; id != SC_NONE; id = sim->acts.at[id].next) {
		if (sim->acts.at[id].priority <= priority)
			break;
		want += sim->acts.at[id].sm_want;
	}
	return want > sm->free ? want - sm->free : 0;
}

static void resize(struct sc_simulator *sim, uint32_t id, double amount)
{
	struct sim_act *act = &sim->acts.at[id];

	sc_sim_act_settle(act, sim->now_us);
	act->wave_from = act->work_us - act->remaining_us;
	move(sim, act, amount);
	sc_sim_rates_touch(sim, id);
	if (act->sm_got > 0)
		return;
	act->wants_boundary = act->boundary_due = 0;
	sim_sm_enqueue(sim, id);
}

/* Takes SMs from kernels at their boundary for waiters that outrank them; the last in order give
 * first. */
static void yield(struct sc_simulator *sim, const struct sim_sm *sm)
{
	uint32_t id = sm->resizable, prev;

	while (id != SC_NONE && sim->acts.at[id].run_next != SC_NONE)
		id = sim->acts.at[id].run_next;
	for (; id != SC_NONE; id = prev) {
		const struct sim_act *act = &sim->acts.at[id];

		prev = act->run_prev;
		if (act->boundary_due && is_outranked(sim, sm, act))
			resize(sim, id, -fmin(act->sm_got, lacking(sim, sm, act->priority)));
	}
}

static int runs(const struct sim_act *act)
{
	return act->state == SIM_WORKING || act->state == SIM_LATENCY;
}

/* Gives free SMs to running kernels that have blocks left to start, in their order. */
static void expand(struct sc_simulator *sim, const struct sim_sm *sm)
{
	for (uint32_t id = sm->resizable; id != SC_NONE; id = sim->acts.at[id].run_next) {
		const struct sim_act *act = &sim->acts.at[id];

		if (sm->free < SIM_EPS ||
		    (sm->queue != SC_NONE && before(sim, &sim->acts.at[sm->queue], act)))
			return;
		if (runs(act) && act->sm_got < act->sm_want &&
		    next_wave(act, sim->now_us) < HUGE_VAL)
			resize(sim, id, fmin(sm->free, act->sm_want - act->sm_got));
	}
}

/* Marks the kernels that should give SMs at their next wave boundary. */
static void plan_boundaries(struct sc_simulator *sim, const struct sim_sm *sm)
{
	for (uint32_t id = sm->resizable; id != SC_NONE; id = sim->acts.at[id].run_next) {
		struct sim_act *act = &sim->acts.at[id];
		const int wants = is_outranked(sim, sm, act) && act->sm_got > 0;

		if (!runs(act) || (wants == act->wants_boundary && !act->boundary_due))
			continue;
		act->wants_boundary = (uint8_t)wants;
		act->boundary_due = 0;
		if (act->state == SIM_WORKING) /* at the old rate, until rates are solved */
			sc_sim_act_reschedule(sim, id);
	}
}

/* Grants SMs on every class that changed. */
static void sim_sm_update(struct sc_simulator *sim)
{
	const size_t n = sim->dirty_sm.n;

	for (size_t i = 0; i < n; i++) {
		struct sim_sm *sm = &sim->sm[sim->dirty_sm.at[i]];

		yield(sim, sm);
		while (sm->queue != SC_NONE && grant_first(sim, sm))
			continue;
		expand(sim, sm);
		plan_boundaries(sim, sm);
		for (uint32_t m = sm->copiers; m != SC_NONE; m = sim->acts.at[m].run_next)
			slow_copier(sim, sim->flow.node[sim->acts.at[m].id].group);
		sm->dirty = 0;
	}
	sim->dirty_sm.n = 0;
}

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
	act->remaining_us -= act->rate * (now_us - act->since_us);
	if (act->remaining_us < 0)
		act->remaining_us = 0;
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
		/* HUGE_VAL where no boundary is left */
		const double boundary_us =
			sim->now_us +
			(next_wave(act, sim->now_us) - work_done(act, sim->now_us)) / act->rate;

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
		.cap = 1,
		.first_use = SC_NONE,
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
			sim_sm_release(sim, id);
		if (sim->apart)
			sim->busy.at[sc_sim_class_of(sim, what)]--;
		sc_sim_node_done(sim, what, sim->now_us);
	} else {
		uint32_t holder = sim->groups.at[what].holders;

		while (holder != SC_NONE) {
			const uint32_t next = sim->acts.at[holder].next;

			unlink_copier(sim, holder);
			sim_sm_release(sim, holder);
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
			slow_copier(sim, act->id);
		}
		sc_sim_rates_enter(sim, id);
	} else {
		sim_act_finish(sim, id);
	}
}

static void sim_act_start(struct sc_simulator *sim, uint32_t id)
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

	if (act->state == SIM_ARRIVING && act->kind != SIM_GROUP && act->sm_want > 0) {
		sim_sm_enqueue(sim, id);
	} else if (act->state == SIM_ARRIVING) {
		sim_act_start(sim, id);
	} else if (act->state == SIM_LATENCY) {
		work(sim, id);
	} else {
		assert(act->state == SIM_WORKING);
		if (act->at_boundary) {
			sim->acts.at[id].boundary_due = 1;
			mark_dirty(sim, sim->acts.at[id].class_id);
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
			sim_sm_update(sim);
		else if (sim->dirty_acts.n || sim->dirty_res.n)
			sc_sim_rates_solve(sim);
		else if (sim->heap.n)
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
