/* Rates of running activities: max-min fair, by progressive filling (the reference's collectives
 * §4.4). A resource whose users could all run at full rate limits nobody, so only overloaded ones
 * connect activities; a change re-solves the connected component it touches and nothing else. */
#include <math.h>

#include "base/search.h"
#include "predict/engine/simulate_priv.h"

static int is_overloaded(const struct sim_res *res)
{
	return res->load > 1 + SIM_EPS_LEVEL;
}

static void add_use(struct sc_simulator *sim, uint32_t act, uint32_t res, double load)
{
	uint32_t id = sim->free_use;
	const struct sim_use use = {
		.load = load,
		.res = res,
		.act = act,
		.next_in_act = sim->acts.at[act].first_use,
		.next_in_res = sim->res[res].first,
		.prev_in_res = SC_NONE,
	};

	if (id != SC_NONE) {
		sim->free_use = sim->uses.at[id].next_in_act;
		sim->uses.at[id] = use;
	} else {
		id = (uint32_t)sim->uses.n;
		SC_VEC_PUSH(&sim->uses, use);
	}
	sim->acts.at[act].first_use = id;
	if (use.next_in_res != SC_NONE)
		sim->uses.at[use.next_in_res].prev_in_res = id;
	sim->res[res].first = id;
	sim->res[res].load += load;
}

/* Loads one representative rank of the class; its node's NICs carry all ranks of the class there,
 * since they do the same at the same time. */
static void load_class(struct sc_simulator *sim, uint32_t act, const double *demand,
		       uint32_t class_id)
{
	const struct sc_class *class = &sim->flow.class[class_id];
	const uint32_t nics = (uint32_t)sim->graph->classes.n * SC_N_RES;

	for (uint32_t r = 0; r < SC_N_RES; r++) {
		if (r == SC_RES_SM || !(demand[r] > 0))
			continue;
		if (r != SC_RES_NIC)
			add_use(sim, act, class_id * SC_N_RES + r, demand[r]);
		else if (class->ranks_per_domain > 0)
			add_use(sim, act, nics + class->nic_domain,
				demand[r] * class->ranks_per_domain);
	}
}

void sc_sim_rates_enter(struct sc_simulator *sim, uint32_t id)
{
	const struct sim_act *act = &sim->acts.at[id];

	if (act->kind == SIM_GROUP) {
		const struct sc_group *group = &sim->graph->groups.at[act->id];
		const struct sc_member *member = &sim->graph->members.at[group->first_member];

		for (uint32_t i = 0; i < group->n_members; i++)
			load_class(sim, id, act->cost->demand, member[i].class_id);
	} else {
		load_class(sim, id, act->cost->demand, act->class_id);
	}
	sc_sim_rates_touch(sim, id);
}

void sc_sim_rates_touch(struct sc_simulator *sim, uint32_t id)
{
	SC_VEC_PUSH(&sim->dirty_acts, id);
}

/* Takes a load off a resource. */
static void lighten(struct sc_simulator *sim, uint32_t id, double load)
{
	struct sim_res *res = &sim->res[id];

	if (is_overloaded(res) && !res->dirty) {
		res->dirty = 1;
		SC_VEC_PUSH(&sim->dirty_res, id);
	}
	res->load = res->first == SC_NONE ? 0 : res->load - load;
}

void sc_sim_rates_pass(struct sc_simulator *sim, uint32_t id, double load)
{
	sim->res[id].load += load;
	lighten(sim, id, load);
}

void sc_sim_rates_leave(struct sc_simulator *sim, uint32_t id)
{
	uint32_t next;

	for (uint32_t u = sim->acts.at[id].first_use; u != SC_NONE; u = next) {
		struct sim_use *use = &sim->uses.at[u];
		struct sim_res *res = &sim->res[use->res];

		if (use->prev_in_res != SC_NONE)
			sim->uses.at[use->prev_in_res].next_in_res = use->next_in_res;
		else
			res->first = use->next_in_res;
		if (use->next_in_res != SC_NONE)
			sim->uses.at[use->next_in_res].prev_in_res = use->prev_in_res;
		lighten(sim, use->res, use->load);
		next = use->next_in_act;
		use->next_in_act = sim->free_use;
		sim->free_use = u;
	}
	sim->acts.at[id].first_use = SC_NONE;
}

void sc_sim_rates_set(struct sc_simulator *sim, uint32_t id, double rate)
{
	struct sim_act *act = &sim->acts.at[id];
	const int same = fabs(rate - act->rate) <= SIM_EPS_LEVEL * rate;

	if (same && (act->heap_pos != SC_NONE || act->rate <= 0))
		return;
	if (!same) {
		sc_sim_act_settle(act, sim->now_us);
		act->rate = rate;
	}
	sc_sim_act_reschedule(sim, id);
}

static void visit_act(struct sc_simulator *sim, uint32_t id)
{
	struct sim_act *act = &sim->acts.at[id];

	if (act->stamp == sim->stamp)
		return;
	act->stamp = sim->stamp;
	act->new_rate = -1;
	SC_VEC_PUSH(&sim->part_acts, id);
}

/* A group is held at its rate where only one class of many changes. Of one class nothing is held,
 * and `bound` says nothing: kernels that run beside a collective set its rate themselves. */
static bool is_held(const struct sim_act *act)
{
	return act->kind == SIM_GROUP && act->rate > 0;
}

static bool holds_groups(const struct sc_simulator *sim)
{
	return sim->graph->classes.n > 1;
}

static void visit_res(struct sc_simulator *sim, uint32_t id)
{
	struct sim_res *res = &sim->res[id];

	if (res->stamp == sim->stamp || !is_overloaded(res))
		return;
	res->stamp = sim->stamp;
	res->left = 1;
	res->open = 0;
	for (uint32_t u = res->first; u != SC_NONE; u = sim->uses.at[u].next_in_res) {
		res->open += sim->uses.at[u].load;
		visit_act(sim, sim->uses.at[u].act);
	}
	SC_VEC_PUSH(&sim->part_res, id);
}

/* Limits of growth lie in a heap by their level: caps of activities, which stay, and resources,
 * which are put in anew when a user is frozen and leave an entry behind that no longer says their
 * level. */
static void limit_put(struct sc_simulator *sim, struct sim_limit limit)
{
	size_t pos = sim->limits.n;

	SC_VEC_PUSH(&sim->limits, limit);
	for (; pos && sim->limits.at[(pos - 1) / 2].level > limit.level; pos = (pos - 1) / 2)
		sim->limits.at[pos] = sim->limits.at[(pos - 1) / 2];
	sim->limits.at[pos] = limit;
}

static void limit_drop(struct sc_simulator *sim)
{
	struct sim_limit *at = sim->limits.at;
	const size_t n = --sim->limits.n;
	const struct sim_limit last = at[n];
	size_t pos = 0, next;

	for (; (next = 2 * pos + 1) < n; pos = next) {
		next += next + 1 < n && at[next + 1].level < at[next].level;
		if (at[next].level >= last.level)
			break;
		at[pos] = at[next];
	}
	at[pos] = last;
}

static void limit_res(struct sc_simulator *sim, uint32_t id)
{
	struct sim_res *res = &sim->res[id];

	res->level = res->open > SIM_EPS_LEVEL ? res->left / res->open : HUGE_VAL;
	if (res->level < HUGE_VAL)
		limit_put(sim, (struct sim_limit){res->level, id, false});
}

static int is_stale(const struct sc_simulator *sim, const struct sim_limit *limit)
{
	if (limit->is_act)
		return sim->acts.at[limit->id].new_rate >= 0;
	return limit->level < sim->res[limit->id].level || limit->level > sim->res[limit->id].level;
}

static void stop_act(struct sc_simulator *sim, uint32_t id, uint32_t by)
{
	struct sim_act *act = &sim->acts.at[id];

	if (act->new_rate >= 0)
		return;
	act->new_rate = 0;
	act->new_bound = by;
	SC_VEC_PUSH(&sim->stopped, act->part);
}

/* Collects all that stops at the least level; levels that are equal may differ by rounding. */
static void find_stopped(struct sc_simulator *sim, double level)
{
	const double most = level * (1 + SIM_EPS_LEVEL);

	sim->beyond.n = sim->stopped.n = 0;
	while (sim->limits.n && sim->limits.at[0].level <= most * (1 + SIM_EPS_LEVEL)) {
		const struct sim_limit limit = sim->limits.at[0];
		const struct sim_res *res = &sim->res[limit.id];

		limit_drop(sim);
		if (is_stale(sim, &limit))
			continue;
		if (limit.is_act && limit.level <= most)
			stop_act(sim, limit.id, SC_NONE);
		else if (!limit.is_act && res->left <= level * res->open * (1 + SIM_EPS_LEVEL))
			for (uint32_t u = res->first; u != SC_NONE; u = sim->uses.at[u].next_in_res)
				stop_act(sim, sim->uses.at[u].act, limit.id);
		else
			SC_VEC_PUSH(&sim->beyond, limit);
	}
	for (size_t i = 0; i < sim->beyond.n; i++)
		limit_put(sim, sim->beyond.at[i]);
}

static void freeze(struct sc_simulator *sim, struct sim_act *act, double level)
{
	act->new_rate = fmin(act->cap, level);
	for (uint32_t u = act->first_use; u != SC_NONE; u = sim->uses.at[u].next_in_act) {
		const double load = sim->uses.at[u].load;
		struct sim_res *res = &sim->res[sim->uses.at[u].res];

		if (res->stamp != sim->stamp)
			continue;
		res->open -= load;
		res->left = fmax(0, res->left - load * act->new_rate);
		limit_res(sim, sim->uses.at[u].res);
	}
}

SC_COMPARE(by_number, uint32_t, SC_ORDER(*a, *b));

/* Fills the component in part_acts and part_res: what is not frozen grows together to the next
 * level. */
static void fill_component(struct sc_simulator *sim, bool holds)
{
	sim->limits.n = 0;
	for (size_t i = 0; i < sim->part_acts.n; i++) {
		struct sim_act *act = &sim->acts.at[sim->part_acts.at[i]];
		const double most = holds && is_held(act) ? fmin(act->cap, act->rate) : act->cap;

		act->part = (uint32_t)i;
		limit_put(sim, (struct sim_limit){most, sim->part_acts.at[i], true});
	}
	for (size_t i = 0; i < sim->part_res.n; i++)
		limit_res(sim, sim->part_res.at[i]);
	while (sim->limits.n) {
		const double level = sim->limits.at[0].level;

		if (is_stale(sim, &sim->limits.at[0])) {
			limit_drop(sim);
			continue;
		}
		find_stopped(sim, level);
		if (sim->stopped.n > 1)
			SC_SORT(sim->stopped.at, sim->stopped.n, by_number);
		for (size_t i = 0; i < sim->stopped.n; i++)
			freeze(sim, &sim->acts.at[sim->part_acts.at[sim->stopped.at[i]]], level);
	}
}

static bool is_limited(const struct sc_simulator *sim, const struct sim_act *act)
{
	for (uint32_t u = act->first_use; u != SC_NONE; u = sim->uses.at[u].next_in_act)
		if (is_overloaded(&sim->res[sim->uses.at[u].res]))
			return true;
	return false;
}

/* Finds the new rates of what the seed is connected with, through groups only if they are not held;
 * false: a held one would change. A group that is bound elsewhere, and is not slowed here, keeps
 * its rate whatever this class does. */
static bool find_part_rates(struct sc_simulator *sim, uint32_t seed, bool holds)
{
	sim->stamp++;
	sim->part_acts.n = 0;
	sim->part_res.n = 0;
	visit_act(sim, seed);
	for (size_t i = 0; i < sim->part_acts.n; i++) {
		const struct sim_act *act = &sim->acts.at[sim->part_acts.at[i]];

		for (uint32_t u = act->first_use; u != SC_NONE && !(holds && is_held(act));
		     u = sim->uses.at[u].next_in_act)
			visit_res(sim, sim->uses.at[u].res);
	}
	fill_component(sim, holds);
	for (size_t i = 0; holds && i < sim->part_acts.n; i++) {
		const struct sim_act *act = &sim->acts.at[sim->part_acts.at[i]];

		if (is_held(act) &&
		    (act->new_rate < act->rate * (1 - SIM_EPS_LEVEL) ||
		     (act->bound != SC_NONE && sim->res[act->bound].stamp == sim->stamp)))
			return false;
	}
	return true;
}

static void solve_component(struct sc_simulator *sim, uint32_t seed)
{
	struct sim_act *first = &sim->acts.at[seed];
	const bool holds = first->kind != SIM_GROUP && holds_groups(sim);
	bool is_whole = !holds;

	if (first->solved == sim->solve)
		return;
	if (!is_limited(sim, first)) {
		first->solved = sim->solve;
		first->bound = SC_NONE;
		sc_sim_rates_set(sim, seed, first->cap);
		return;
	}
	if (!find_part_rates(sim, seed, holds)) {
		is_whole = true;
		find_part_rates(sim, seed, false);
	}
	for (size_t i = 0; i < sim->part_acts.n; i++) {
		struct sim_act *act = &sim->acts.at[sim->part_acts.at[i]];

		if (!is_whole && is_held(act))
			continue;
		act->solved = sim->solve;
		act->bound = act->new_bound;
		sc_sim_rates_set(sim, sim->part_acts.at[i], act->new_rate);
	}
}

void sc_sim_rates_forget(struct sc_simulator *sim)
{
	for (size_t i = 0; i < sim->dirty_res.n; i++)
		sim->res[sim->dirty_res.at[i]].dirty = 0;
	sim->dirty_acts.n = 0;
	sim->dirty_res.n = 0;
}

void sc_sim_rates_solve(struct sc_simulator *sim)
{
	sim->solve++;
	for (size_t i = 0; i < sim->dirty_acts.n; i++) {
		/* An activity that has lost all its SMs still counts, at rate 0. */
		const struct sim_act *act = &sim->acts.at[sim->dirty_acts.at[i]];
		if (act->state == SIM_WORKING || (act->state == SIM_QUEUED && act->started))
			solve_component(sim, sim->dirty_acts.at[i]);
	}
	for (size_t i = 0; i < sim->dirty_res.n; i++) {
		const uint32_t id = sim->dirty_res.at[i];

		for (uint32_t u = sim->res[id].first; u != SC_NONE;
		     u = sim->uses.at[u].next_in_res) {
			const struct sim_act *act = &sim->acts.at[sim->uses.at[u].act];

			if (!holds_groups(sim) || !is_held(act) || act->bound == id)
				solve_component(sim, sim->uses.at[u].act);
		}
	}
	sc_sim_rates_forget(sim);
	if (sim->observe)
		sim->observe(sim->observe_ctx, sim, sim->now_us);
}

void sc_simulator_observe(struct sc_simulator *sim, sc_simulator_watch *observe, void *ctx)
{
	sim->observe = observe;
	sim->observe_ctx = ctx;
}

enum sc_resource sc_simulator_limit(const struct sc_simulator *sim, uint32_t class_id)
{
	enum sc_resource limit = SC_N_RES;
	double most = 1 + SIM_EPS_LEVEL;

	for (uint32_t r = 0; r < SC_N_RES; r++) {
		const uint32_t nics = (uint32_t)sim->graph->classes.n * SC_N_RES;
		const uint32_t at = r == SC_RES_NIC ? nics + sim->flow.class[class_id].nic_domain
						    : class_id * SC_N_RES + r;

		if (sim->res[at].load > most) {
			most = sim->res[at].load;
			limit = (enum sc_resource)r;
		}
	}
	for (size_t i = 0; limit == SC_N_RES && i < sim->acts.n; i++) {
		const struct sim_act *act = &sim->acts.at[i];

		if (act->state != SIM_FREE && act->class_id == class_id &&
		    (act->state == SIM_QUEUED || act->cap < 1))
			limit = SC_RES_SM;
	}
	return limit;
}
