/* SMs are granted by space, in order of lane priority, then launch (the reference's collectives
 * §4.4). A kernel takes what is free, up to what it can use, and runs at granted / wanted; a
 * collective (or any cost with holds_sm) needs all it wants at once. The first in the queue blocks
 * those behind it, as the hardware's block scheduler does. A running kernel whose last wave has not
 * begun has blocks that wait: it takes freed SMs that are left. It gives SMs to a waiter of higher
 * priority only at its wave boundaries: a wave of fewer SMs takes as long, and does less. */
#include <math.h>

#include "predict/engine/simulate_priv.h"

void sc_sim_sm_touch(struct sc_simulator *sim, uint32_t class_id)
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

void sc_sim_sm_enqueue(struct sc_simulator *sim, uint32_t id)
{
	struct sim_act *act = &sim->acts.at[id];
	uint32_t *link = &sim->sm[act->class_id].queue;

	act->state = SIM_QUEUED;
	while (*link != SC_NONE && before(sim, &sim->acts.at[*link], act))
		link = &sim->acts.at[*link].next;
	act->next = *link;
	*link = id;
	sc_sim_sm_touch(sim, act->class_id);
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

static void note_released(const struct sc_simulator *sim, struct sim_sm *sm, uint32_t node)
{
	if (sm->released_us < sim->now_us || node < sm->released_by) {
		sm->released_us = sim->now_us;
		sm->released_by = node;
	}
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
	sc_sim_sm_touch(sim, act->class_id);
	if (amount < 0)
		note_released(sim, sm, act->id);
}

void sc_sim_sm_pass(struct sc_simulator *sim, uint32_t node, double sms, double want)
{
	struct sim_sm *sm = &sim->sm[0];

	sm->free -= sms;
	sm->free += want - sms < SIM_EPS ? want : sms;
	if (!sm->n_holders)
		sm->free = 1;
	sc_sim_sm_touch(sim, 0);
	note_released(sim, sm, node);
}

void sc_sim_sm_release(struct sc_simulator *sim, uint32_t id)
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
void sc_sim_slow_copier(struct sc_simulator *sim, uint32_t group_id)
{
	const struct sim_group *group = &sim->groups.at[group_id];
	struct sim_act *act;
	double cap = 1;

	if (group->act == SC_NONE)
		return;
	act = &sim->acts.at[group->act];
	for (uint32_t m = group->holders; m != SC_NONE && cap >= 1; m = sim->acts.at[m].next)
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

void sc_sim_unlink_copier(struct sc_simulator *sim, uint32_t id)
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
		sc_sim_act_start(sim, id);
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

double sc_sim_boundary_us(const struct sim_act *act, double now_us)
{
	return now_us + (next_wave(act, now_us) - work_done(act, now_us)) / act->rate;
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
	sc_sim_sm_enqueue(sim, id);
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
static void mark_givers(struct sc_simulator *sim, const struct sim_sm *sm)
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

void sc_sim_sm_update(struct sc_simulator *sim)
{
	const size_t n = sim->dirty_sm.n;

	for (size_t i = 0; i < n; i++) {
		struct sim_sm *sm = &sim->sm[sim->dirty_sm.at[i]];

		yield(sim, sm);
		while (sm->queue != SC_NONE && grant_first(sim, sm))
			continue;
		expand(sim, sm);
		mark_givers(sim, sm);
		for (uint32_t m = sm->copiers; m != SC_NONE; m = sim->acts.at[m].run_next)
			sc_sim_slow_copier(sim, sim->flow.node[sim->acts.at[m].id].group);
		sm->dirty = 0;
	}
	sim->dirty_sm.n = 0;
}
