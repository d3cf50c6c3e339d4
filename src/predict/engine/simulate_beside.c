/* A kernel that has a GPU's other SMs to itself while one activity runs beside it, as ops of a
 * layer do beside a gather of weights, and a collective beside which nothing runs: their ends
 * follow from where all stand, so they need no events. What they leave behind is what events would:
 * their order of sums is kept to the last bit. */
#include <assert.h>
#include <math.h>

#include "predict/engine/simulate_priv.h"

/* A resource that both would overload. */
struct shared_res {
	double left, open; /* the capacity not given yet; the load of those whose rate is open */
	double load[2];    /* the kernel's, the other's */
};

static double least(double a, double b)
{
	return a < b ? a : b;
}

static double level_of(const struct shared_res *r)
{
	return r->open > SIM_EPS_LEVEL ? r->left / r->open : HUGE_VAL;
}

/* Fills the rates of both, as fill_component does those of many. */
static void fill_both(struct shared_res *res, int n, const double cap[2], double rate[2])
{
	rate[0] = rate[1] = -1;
	while (rate[0] < 0 || rate[1] < 0) {
		double level = HUGE_VAL;
		bool stops[2];

		for (int a = 0; a < 2; a++)
			level = rate[a] < 0 && cap[a] < level ? cap[a] : level;
		for (int r = 0; r < n; r++)
			level = least(level, level_of(&res[r]));
		const double most = level * (1 + SIM_EPS_LEVEL);

		for (int a = 0; a < 2; a++)
			stops[a] = cap[a] <= most;
		for (int r = 0; r < n; r++)
			for (int a = 0; a < 2; a++)
				stops[a] |=
					res[r].load[a] > 0 &&
					level_of(&res[r]) <= most * (1 + SIM_EPS_LEVEL) &&
					res[r].left <= level * res[r].open * (1 + SIM_EPS_LEVEL);
		for (int a = 0; a < 2; a++) {
			if (!stops[a] || rate[a] >= 0)
				continue;
			rate[a] = least(cap[a], level);
			for (int r = 0; r < n; r++) {
				res[r].open -= res[r].load[a];
				res[r].left -= least(res[r].left, res[r].load[a] * rate[a]);
			}
		}
	}
}

/* Finds the rates of a kernel, by its share of SMs in rate[0], and of the other; false: they do not
 * slow each other. */
static bool slow_each_other(const struct sc_simulator *sim, const struct sc_cost *cost,
			    const struct sim_act *other, double rate[2])
{
	const double cap[2] = {rate[0], other->cap};
	struct shared_res res[SC_N_RES + 1];
	bool both = false;
	int n = 0;

	for (uint32_t u = other->first_use; u != SC_NONE; u = sim->uses.at[u].next_in_act) {
		const struct sim_use *use = &sim->uses.at[u];
		const double own = use->res < SC_N_RES ? cost->demand[use->res] : 0;

		if (sim->res[use->res].load + own <= 1 + SIM_EPS_LEVEL)
			continue;
		res[n++] = (struct shared_res){1, own + use->load, {own, use->load}};
		both = both || own > 0;
	}
	if (both)
		fill_both(res, n, cap, rate);
	return both;
}

static bool is_due(const struct sc_simulator *sim, double by_us)
{
	return sim->due.n || (sim->heap.n && sim->heap.at[0].at_us <= by_us);
}

/* Goes on to a time unless something is due by then. Events of now come before what SMs and rates
 * follow from them. */
static bool goes_on(struct sc_simulator *sim, double at_us)
{
	assert(at_us >= sim->now_us);
	if (is_due(sim, sim->now_us))
		return false;
	if (at_us > sim->now_us) {
		sc_sim_sm_update(sim);
		sc_sim_rates_solve(sim);
	}
	if (is_due(sim, at_us))
		return false;
	sim->now_us = at_us;
	return true;
}

/* Slows collectives of few SMs: a kernel begins. */
static void slow_copiers(struct sc_simulator *sim, struct sim_sm *sm)
{
	sm->resizable = 0; /* any kernel would */
	for (uint32_t m = sm->copiers; m != SC_NONE; m = sim->acts.at[m].run_next)
		sc_sim_slow_copier(sim, sim->flow.node[sim->acts.at[m].id].group);
	sm->resizable = SC_NONE;
}

static inline bool run_beside(struct sc_simulator *sim, uint32_t node)
{
	const struct sim_flow *f = &sim->flow;
	const struct sc_cost *cost = &f->cost[f->node[node].cost];
	struct sim_sm *sm = &sim->sm[0];
	const double want = least(cost->demand[SC_RES_SM], 1);
	struct sim_act *other = NULL;

	if (!(f->contends[f->node[node].cost] & SIM_OWN) || sim->ready.n || sm->queue != SC_NONE ||
	    sm->resizable != SC_NONE || cost->holds_sm || !(cost->work_us > 0) ||
	    !goes_on(sim, f->ready_us[node]) || sim->dirty_acts.n || sim->heap.n > 1)
		return false;
	const double sms = least(want, sm->free), at_us = sim->now_us + cost->latency_us;
	double rate[2] = {want - sms < SIM_EPS ? 1 : sms / want, 0};

	if (sim->heap.n)
		other = &sim->acts.at[sim->heap.at[0].act];
	if (sms < SIM_EPS)
		return false;
	slow_copiers(sim, sm);
	const bool works = other && other->state == SIM_WORKING;
	const bool slows = works && slow_each_other(sim, cost, other, rate);
	const bool at_once = slows && !(cost->latency_us > 0);

	if (!at_once && (sim->dirty_acts.n || sim->dirty_res.n))
		sc_sim_rates_solve(sim);
	if (is_due(sim, at_us))
		return false;
	const double end_us = at_us + cost->work_us / rate[0];
	double next_us = sim->heap.n ? sim->heap.at[0].at_us : HUGE_VAL;

	if (slows && fabs(rate[1] - other->rate) > SIM_EPS_LEVEL * rate[1])
		next_us = at_us + sc_sim_act_left(other, at_us) / rate[1];
	if (!(end_us < next_us))
		return false;
	f->start_us[node] = sim->now_us;
	sim->now_us = at_us;
	if (at_once) /* the rates that follow are those of both */
		sc_sim_rates_forget(sim);
	if (slows)
		sc_sim_rates_set(sim, sim->heap.at[0].act, rate[1]);
	sim->now_us = end_us;
	sc_sim_sm_pass(sim, node, sms, want);
	/* Nothing is on any resource yet where the other does not work. */
	for (uint32_t r = SC_RES_SM + 1; works && r < SC_N_RES; r++)
		if (cost->demand[r] > 0)
			sc_sim_rates_pass(sim, r, cost->demand[r]);
	sim->busy.at[0]--;
	sc_sim_node_done(sim, node, end_us);
	return true;
}

bool sc_sim_runs_beside(struct sc_simulator *sim, uint32_t node)
{
	const struct sim_flow *f = &sim->flow;

	if (!sim->apart || sim->graph->classes.n > 1 || f->slowed || !run_beside(sim, node))
		return false;
	/* As a rule the next one of its lane follows, and nothing else: it need not flow first. */
	while (sim->n_stack == 1 && sim->busy.at[0] > 0) {
		const uint32_t next = f->stack[0];

		if (f->node[next].group != SC_NONE || !f->contends[f->node[next].cost])
			break;
		sim->n_stack = 0;
		sim->busy.at[0]++;
		if (run_beside(sim, next))
			continue;
		sim->busy.at[0]--;
		f->stack[sim->n_stack++] = next;
		break;
	}
	return true;
}

/* A kernel that waits for the host is in the heap, and uses nothing yet. */
static bool only_arrivals_after(const struct sc_simulator *sim, double us)
{
	for (size_t i = 0; i < sim->heap.n; i++)
		if (sim->heap.at[i].at_us <= us ||
		    sim->acts.at[sim->heap.at[i].act].state != SIM_ARRIVING)
			return false;
	return true;
}

bool sc_sim_group_alone(const struct sc_simulator *sim, uint32_t group, double *end_us)
{
	const struct sc_group *of = &sim->graph->groups.at[group];
	const struct sc_cost *cost = &sim->flow.cost[of->cost];
	const double ranks = sim->flow.class[0].ranks_per_domain;

	if (!sim->apart || sim->graph->classes.n > 1 || of->n_members > 1 || sim->due.n ||
	    sim->dirty_acts.n || sim->sm[0].queue != SC_NONE || sim->sm[0].resizable != SC_NONE)
		return false;
	for (int r = SC_RES_SM + 1; r < SC_N_RES; r++)
		if (cost->demand[r] * (r == SC_RES_NIC ? ranks : 1) > 1)
			return false;
	*end_us = sim->now_us + cost->latency_us + cost->work_us;
	return only_arrivals_after(sim, *end_us);
}
