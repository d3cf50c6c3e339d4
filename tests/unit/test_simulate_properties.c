/* What must hold for any graph, on several hundred random ones of each kind. */
#include "predict/engine/simulate_priv.h"
#include "random_graph.h"
#include "runner.h"

enum { N_GRAPHS = 400, N_PAIRS = 1000 };
static const struct plan_opts alone = {.shared = 0};
static const struct plan_opts shared = {.shared = 1};

static struct sim_fixture f;
static struct plan plan;
static uint32_t id[PLAN_NODES];

static void setup(void)
{
	fixture_begin(&f);
}

static void teardown(void)
{
	fixture_end(&f);
}

static void simulate_plan(const struct plan_opts *opts, uint64_t seed)
{
	plan_init(&plan, seed, opts);
	plan_build(&plan, &f.g, NULL, SC_NONE, id);
	ck_assert_msg(fixture_run(&f) == SC_OK, "%s", f.err.text);
}

static double alone_us(const struct sc_cost *cost)
{
	return cost->latency_us + cost->work_us;
}

FIXTURE(setup, teardown)

/* Longest op <= critical path <= serial sum. */
LOOP_TEST(test_bounds, n_cases(N_GRAPHS))
{
	double longest = 0, sum = 0, path = 0;

	simulate_plan(&alone, (uint64_t)_i);
	for (uint32_t i = 0; i < plan.n_nodes; i++) {
		longest = fmax(longest, alone_us(&plan.nodes[i].cost));
		sum += alone_us(&plan.nodes[i].cost);
	}
	for (uint32_t i = 0; i < plan.n_groups; i++) {
		longest = fmax(longest, alone_us(&plan.groups[i]));
		sum += alone_us(&plan.groups[i]);
	}
	sc_critical_path_walk(&f.g, &f.tl, SC_NONE, &f.path);
	for (size_t i = 0; i < f.path.segments.n; i++)
		path += f.path.segments.at[i].end_us - f.path.segments.at[i].start_us;
	ck_assert_double_eq(path, f.tl.total_us);
	ck_assert_double_ge(path, longest);
	ck_assert_double_le(path, sum);
}

LOOP_TEST(test_fewer_edges, n_cases(N_GRAPHS / 2))
{
	double total_us;

	simulate_plan(&alone, (uint64_t)_i);
	total_us = f.tl.total_us;
	for (uint32_t e = 0; e < plan.n_edges; e++) {
		plan_build(&plan, &f.g, NULL, e, id);
		ck_assert_int_eq(sc_simulate(f.sim, &f.g, NULL, &f.tl, NULL), SC_OK);
		ck_assert_double_le(f.tl.total_us, total_us);
	}
}

/* Ids in another order: the same times (to the last bit without sharing, where sums are exact), and
 * then also the same reasons. */
static void check_order(const struct plan_opts *opts, uint64_t seed)
{
	double start_us[PLAN_NODES], end_us[PLAN_NODES];
	const double tol = opts->shared ? 1e-9 : 0;
	uint8_t reason[PLAN_NODES];
	struct sc_rng rng;

	sc_rng_init(&rng, seed + 1000);
	simulate_plan(opts, seed);
	for (uint32_t i = 0; i < plan.n_nodes; i++) {
		start_us[i] = f.tl.start_us[id[i]];
		end_us[i] = f.tl.end_us[id[i]];
		reason[i] = f.tl.reason[id[i]];
	}
	for (int k = 0; k < 4; k++) {
		plan_build(&plan, &f.g, &rng, SC_NONE, id);
		ck_assert_int_eq(sc_simulate(f.sim, &f.g, NULL, &f.tl, NULL), SC_OK);
		for (uint32_t i = 0; i < plan.n_nodes; i++) {
			ck_assert_double_le(fabs(start_us[i] - f.tl.start_us[id[i]]),
					    tol * f.tl.total_us);
			ck_assert_double_le(fabs(end_us[i] - f.tl.end_us[id[i]]),
					    tol * f.tl.total_us);
			ck_assert_int_eq(reason[i], f.tl.reason[id[i]]);
		}
	}
}

LOOP_TEST(test_order_alone, n_cases(N_GRAPHS))
{
	check_order(&alone, (uint64_t)_i);
}

LOOP_TEST(test_order_shared, n_cases(N_GRAPHS))
{
	check_order(&shared, (uint64_t)_i);
}

/* Two runs, and a run by a simulator that has never run before, give the same bytes. */
LOOP_TEST(test_same_bytes, n_cases(N_GRAPHS))
{
	struct sc_timeline again = {0};
	struct sc_simulator *fresh = sc_simulator_create();
	struct sc_simulator *const sims[] = {f.sim, fresh};

	simulate_plan(&alone, (uint64_t)_i + 1);
	simulate_plan(&shared, (uint64_t)_i);
	for (int k = 0; k < 2; k++) {
		ck_assert_int_eq(sc_simulate(sims[k], &f.g, NULL, &again, NULL), SC_OK);
		ck_assert_mem_eq(again.ready_us, f.tl.ready_us, f.tl.n * sizeof(double));
		ck_assert_mem_eq(again.start_us, f.tl.start_us, f.tl.n * sizeof(double));
		ck_assert_mem_eq(again.end_us, f.tl.end_us, f.tl.n * sizeof(double));
		ck_assert_mem_eq(again.bound_by, f.tl.bound_by, f.tl.n * sizeof(uint32_t));
		ck_assert_mem_eq(again.reason, f.tl.reason, f.tl.n);
	}
	sc_simulator_destroy(fresh);
	sc_timeline_release(&again);
}

/* Leaves classes no other way to meet than groups. */
static void part_classes(void)
{
	size_t n = 0;

	for (size_t i = 0; i < f.g.edges.n; i++)
		if (sc_graph_class_of(&f.g, (uint32_t)(f.g.edges.at[i] >> 32)) ==
		    sc_graph_class_of(&f.g, (uint32_t)f.g.edges.at[i]))
			f.g.edges.at[n++] = f.g.edges.at[i];
	f.g.edges.n = n;
	sc_graph_seal(&f.g);
}

static void count_solves(void *ctx, const struct sc_simulator *sim, double now_us)
{
	(void)sim;
	(void)now_us;
	++*(size_t *)ctx;
}

/* Kernels that a class has to itself need no events: under an observer all have them, and end at
 * the same times for the same reasons. */
LOOP_TEST(test_no_events, n_cases(N_GRAPHS))
{
	struct sc_timeline slow = {0};
	size_t n_solves = 0;

	simulate_plan(&shared, (uint64_t)_i);
	part_classes();
	ck_assert_int_eq(fixture_run(&f), SC_OK);
	sc_simulator_observe(f.sim, count_solves, &n_solves);
	ck_assert_int_eq(sc_simulate(f.sim, &f.g, NULL, &slow, NULL), SC_OK);
	sc_simulator_observe(f.sim, NULL, NULL);
	ck_assert_uint_gt(n_solves, 0);
	ck_assert_mem_eq(slow.reason, f.tl.reason, f.tl.n);
	ck_assert_mem_eq(slow.bound_by, f.tl.bound_by, f.tl.n * sizeof(uint32_t));
	for (size_t i = 0; i < f.tl.n; i++) {
		ck_assert_double_le(fabs(slow.start_us[i] - f.tl.start_us[i]),
				    1e-13 * f.tl.total_us);
		ck_assert_double_le(fabs(slow.end_us[i] - f.tl.end_us[i]), 1e-13 * f.tl.total_us);
	}
	sc_timeline_release(&slow);
}

/* Adds a GPU's kernels, launched by a host that may be late, and collectives beside them: each
 * begins after a kernel and lets a later one wait. */
static void add_layers(struct sc_rng *rng)
{
	const uint32_t class_id = add_class(&f, 4), host = add_lane(&f, class_id);
	const uint32_t compute = add_lane(&f, class_id), comm = add_lane(&f, class_id);
	const uint32_t beside = sc_rng_below(rng, 2) ? compute : add_lane(&f, class_id);
	const double late_us = sc_rng_below(rng, 2) ? 0 : 20;
	uint32_t kernel = SC_NONE, flying = SC_NONE;

	for (int i = 0; i < 60; i++) {
		const uint32_t last = sc_rng_below(rng, 2) ? kernel : SC_NONE;
		struct sc_cost cost = plan_cost(rng, 1, 0);
		const struct sc_member self = {class_id, 1};
		const uint32_t launched =
			add_node(&f, host, work(0, late_us * sc_rng_uniform(rng)));

		cost.latency_us = sc_rng_below(rng, 6) ? 2 * sc_rng_uniform(rng) : 0;
		cost.demand[SC_RES_SM] = 1.1 * sc_rng_uniform(rng);
		cost.demand[SC_RES_NIC] *= !sc_rng_below(rng, 9);
		kernel = add_node(&f, sc_rng_below(rng, 2) ? compute : beside, cost);
		sc_graph_add_dep(&f.g, kernel, last);
		sc_graph_add_dep(&f.g, kernel, launched);
		if (flying != SC_NONE && !sc_rng_below(rng, 4)) {
			sc_graph_add_dep(&f.g, kernel, flying);
			flying = SC_NONE;
		}
		if (sc_rng_below(rng, 6))
			continue;
		cost = plan_cost(rng, 1, 1);
		cost.work_us *= 4;
		cost.beside_frac = sc_rng_below(rng, 2) ? 0 : sc_rng_uniform(rng);
		const struct sc_node_use use = {sc_graph_add_cost(&f.g, &cost), SC_NONE};
		const struct sc_node_use none = {f.none, SC_NONE};

		flying = sc_graph_add_member(&f.g, comm, sc_graph_add_group(&f.g, use, &self, 1),
					     none);
		sc_graph_add_dep(&f.g, flying, kernel);
	}
}

/* Kernels beside one collective need no events either: they end when events say, to the last bit.
 * In two of these graphs one becomes ready while others are due. */
LOOP_TEST(test_beside, n_cases(N_GRAPHS))
{
	struct sc_timeline slow = {0};
	struct sc_rng rng;
	size_t n_solves = 0;

	sc_rng_init(&rng, (uint64_t)_i + 2850);
	add_layers(&rng);
	ck_assert_int_eq(fixture_run(&f), SC_OK);
	sc_simulator_observe(f.sim, count_solves, &n_solves);
	ck_assert_int_eq(sc_simulate(f.sim, &f.g, NULL, &slow, NULL), SC_OK);
	sc_simulator_observe(f.sim, NULL, NULL);
	ck_assert_uint_gt(n_solves, 0);
	ck_assert_mem_eq(slow.reason, f.tl.reason, f.tl.n);
	ck_assert_mem_eq(slow.bound_by, f.tl.bound_by, f.tl.n * sizeof(uint32_t));
	ck_assert_mem_eq(slow.start_us, f.tl.start_us, f.tl.n * sizeof(double));
	ck_assert_mem_eq(slow.end_us, f.tl.end_us, f.tl.n * sizeof(double));
	sc_timeline_release(&slow);
}

/* What ends last takes no longer than alone once all else has ended: it has the SMs that were given
 * back. */
static void check_last(void)
{
	uint32_t last = 0;
	double others_us = 0;

	for (uint32_t i = 1; i < f.g.nodes.n; i++)
		if (f.tl.end_us[i] > f.tl.end_us[last])
			last = i;
	const struct sc_node *node = &f.g.nodes.at[last];
	const struct sc_cost *cost = &f.g.costs.at[node->cost];
	const struct sc_class *class = &f.g.classes.at[f.g.lanes.at[node->lane].class_id];

	for (uint32_t i = 0; i < f.g.nodes.n; i++)
		if (i != last)
			others_us = fmax(others_us, f.tl.end_us[i]);
	if (node->group == SC_NONE && !(cost->demand[SC_RES_NIC] > 0))
		ck_assert_double_le(f.tl.end_us[last],
				    others_us + alone_us(cost) * class->slowdown + 1e-9);
}

/* Order and arrival: nothing starts before what it waits for, nothing runs faster than alone. */
LOOP_TEST(test_causal, n_cases(N_GRAPHS))
{
	simulate_plan(&shared, (uint64_t)_i);
	for (size_t i = 0; i < f.g.edges.n; i++)
		ck_assert_double_ge(f.tl.ready_us[(uint32_t)f.g.edges.at[i]],
				    f.tl.end_us[f.g.edges.at[i] >> 32]);
	for (uint32_t i = 0; i < f.g.nodes.n; i++) {
		const uint32_t group = f.g.nodes.at[i].group, next = f.g.lane_next[i];
		const uint32_t cost =
			group == SC_NONE ? f.g.nodes.at[i].cost : f.g.groups.at[group].cost;

		ck_assert_double_ge(f.tl.start_us[i], f.tl.ready_us[i]);
		ck_assert_double_ge(f.tl.end_us[i] - f.tl.start_us[i] + 1e-9,
				    alone_us(&f.g.costs.at[cost]));
		ck_assert(f.tl.reason[i] == SC_BY_NONE || f.tl.bound_by[i] < f.g.nodes.n);
		if (next != SC_NONE)
			ck_assert_double_ge(f.tl.ready_us[next], f.tl.end_us[i]);
	}
	check_last();
}

/* ---- rates, seen through the observer ---- */

struct integral {
	double done_us, rate, since_us;
};
struct seen {
	struct integral node[PLAN_NODES], group[PLAN_GROUPS];
	size_t n_limited; /* activities seen below their cap */
};

static int runs(const struct sim_act *act)
{
	return act->state == SIM_WORKING || (act->state == SIM_QUEUED && act->started);
}

static double load_of(const struct sc_simulator *sim, uint32_t res, double *highest)
{
	double load = 0;

	*highest = 0;
	for (uint32_t u = sim->res[res].first; u != SC_NONE; u = sim->uses.at[u].next_in_res) {
		const struct sim_act *act = &sim->acts.at[sim->uses.at[u].act];

		load += sim->uses.at[u].load * act->rate;
		*highest = fmax(*highest, act->rate);
	}
	return load;
}

/* At its cap, or on a full resource where nobody is faster: it cannot rise without lowering one
 * that is not above it. */
static void check_max_min(const struct sc_simulator *sim, const struct sim_act *act,
			  struct seen *seen)
{
	int limited = 0;

	ck_assert_double_le(act->rate, act->cap + 1e-12);
	ck_assert_double_le(act->cap, 1);
	for (uint32_t u = act->first_use; u != SC_NONE; u = sim->uses.at[u].next_in_act) {
		double highest;
		const double load = load_of(sim, sim->uses.at[u].res, &highest);

		ck_assert_double_le(load, 1 + 1e-9);
		limited |= load >= 1 - 1e-9 && act->rate >= highest - 1e-9;
	}
	if (act->rate >= act->cap - 1e-9)
		return;
	ck_assert(limited);
	seen->n_limited++;
}

static void observe(void *ctx, const struct sc_simulator *sim, double now_us)
{
	struct seen *seen = ctx;
	double granted[PLAN_CLASSES] = {0};

	for (size_t i = 0; i < sim->acts.n; i++) {
		const struct sim_act *act = &sim->acts.at[i];
		struct integral *sum =
			act->kind == SIM_GROUP ? &seen->group[act->id] : &seen->node[act->id];

		if (act->state != SIM_FREE && act->kind != SIM_GROUP)
			granted[act->class_id] += act->sm_got;
		if (!runs(act))
			continue;
		check_max_min(sim, act, seen);
		sum->done_us += sum->rate * (now_us - sum->since_us);
		sum->since_us = now_us;
		sum->rate = act->rate;
	}
	for (uint32_t c = 0; c < PLAN_CLASSES; c++)
		ck_assert_double_le(granted[c], 1 + 1e-9);
}

static void check_integral(const struct integral *sum, const struct sc_cost *cost, double slowdown,
			   double end_us)
{
	const double done_us = sum->done_us + sum->rate * (end_us - sum->since_us);

	ck_assert_double_eq_tol(done_us, cost->work_us * slowdown, 1e-9 * (1 + end_us));
}

static void check_integrals(const struct seen *seen)
{
	for (uint32_t i = 0; i < f.g.nodes.n; i++) {
		const struct sc_cost *cost = &f.g.costs.at[f.g.nodes.at[i].cost];
		const struct sc_lane *lane = &f.g.lanes.at[f.g.nodes.at[i].lane];
		int contends = 0;

		for (int r = 0; r < SC_N_RES; r++)
			contends |= cost->demand[r] > 0;
		if (f.g.nodes.at[i].group == SC_NONE && contends)
			check_integral(&seen->node[i], cost,
				       f.g.classes.at[lane->class_id].slowdown, f.tl.end_us[i]);
	}
	for (uint32_t g = 0; g < f.g.groups.n; g++) {
		const struct sc_cost *cost = &f.g.costs.at[f.g.groups.at[g].cost];

		if (seen->group[g].rate > 0)
			check_integral(&seen->group[g], cost, 1,
				       f.tl.end_us[f.g.group_node[f.g.group_node_start[g]]]);
	}
}

/* Capacity is never exceeded, rates are max-min fair, and over time each does all its work. */
LOOP_TEST(test_rates, n_cases(N_GRAPHS / 4))
{
	static struct seen seen;
	size_t n_limited = 0;

	f.sim->observe = observe;
	f.sim->observe_ctx = &seen;
	for (int k = 0; k < 10; k++) {
		memset(&seen, 0, sizeof(seen));
		simulate_plan(&shared, (uint64_t)(10 * _i + k));
		check_integrals(&seen);
		n_limited += seen.n_limited;
	}
	ck_assert_uint_gt(n_limited, 0);
}

/* Two that share nothing take as long as the longer; two that need all of one resource, the sum. */
TEST(test_all_or_nothing)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 1);
	for (int i = 0; i < n_cases(N_PAIRS); i++) {
		const double a = 1 + 10 * sc_rng_uniform(&rng), b = 1 + 10 * sc_rng_uniform(&rng);
		const enum sc_resource one =
			(enum sc_resource)(SC_RES_HBM + sc_rng_below(&rng, SC_N_RES - 1));
		const enum sc_resource other = one == SC_RES_HBM ? SC_RES_LINK : SC_RES_HBM;
		const bool same = i & 1;

		sc_graph_clear(&f.g);
		add_class(&f, 1);
		add_node(&f, add_lane(&f, 0), demand(a, one, 1));
		add_node(&f, add_lane(&f, 0), demand(b, same ? one : other, 1));
		ck_assert_int_eq(fixture_run(&f), SC_OK);
		ck_assert_double_eq_tol(f.tl.total_us, same ? a + b : fmax(a, b), 1e-9);
	}
}

/* On one resource: identical activities get identical rates, and one less never slows another. */
static void check_one_resource(int seed)
{
	struct sc_rng rng;
	double before[16], us[16];
	struct sc_cost cost[16];
	const uint32_t n = 3 + (uint32_t)seed % 13;

	sc_rng_init(&rng, (uint64_t)seed);
	for (uint32_t i = 0; i < n; i++)
		cost[i] = demand(1 + 10 * sc_rng_uniform(&rng), SC_RES_LINK, sc_rng_uniform(&rng));
	cost[1] = cost[0];
	for (uint32_t gone = n; gone + 1 > 2; gone--) { /* first all, then without one of 2.. */
		sc_graph_clear(&f.g);
		add_class(&f, 1);
		for (uint32_t i = 0; i < n; i++) {
			const uint32_t lane = add_lane(&f, 0);

			add_node(&f, lane, i == gone ? work(0, 0) : cost[i]);
		}
		ck_assert_int_eq(fixture_run(&f), SC_OK);
		for (uint32_t i = 0; i < n; i++)
			us[i] = f.tl.end_us[i];
		ck_assert_double_eq(us[0], us[1]);
		for (uint32_t i = 0; i < n && gone < n; i++)
			ck_assert_double_le(us[i], before[i] + 1e-9);
		if (gone == n)
			memcpy(before, us, sizeof(before));
	}
}

TEST(test_one_resource)
{
	for (int i = 0; i < n_cases(N_PAIRS); i++)
		check_one_resource(i);
}

/* Segments follow on each other from 0 to the end, and their owners sum to it. */
static void check_path(uint32_t last, double end_us)
{
	double at_us = 0, owned_us = 0, owner_us[SC_N_OWNERS];

	sc_critical_path_walk(&f.g, &f.tl, last, &f.path);
	for (size_t i = 0; i < f.path.segments.n; i++) {
		const struct sc_segment *s = &f.path.segments.at[i];

		ck_assert_double_eq(s->start_us, at_us);
		ck_assert_double_lt(s->start_us, s->end_us);
		at_us = s->end_us;
	}
	ck_assert_double_eq(at_us, end_us);
	own_path(&f, owner_us);
	for (int o = 0; o < SC_N_OWNERS; o++)
		owned_us += owner_us[o];
	ck_assert_double_eq_tol(owned_us, end_us, 1e-9 * (1 + end_us));
}

LOOP_TEST(test_path_covers, n_cases(N_GRAPHS))
{
	simulate_plan(_i % 2 ? &shared : &alone, (uint64_t)_i);
	check_path(SC_NONE, f.tl.total_us);
	for (uint32_t i = 0; i < f.g.nodes.n; i++)
		check_path(i, f.tl.end_us[i]);
}

/* A random order of two collectives on each of several ranks: ends if all agree, else both the
 * check and the run name a cycle. */
LOOP_TEST(test_collective_order, n_cases(N_GRAPHS / 4))
{
	struct sc_rng rng;
	uint32_t classes[4], group[2];
	const uint32_t n = 2 + (uint32_t)_i % 3;
	uint32_t n_swapped = 0;
	int expected;

	sc_rng_init(&rng, (uint64_t)_i);
	for (uint32_t c = 0; c < n; c++) {
		classes[c] = add_class(&f, 1);
		add_lane(&f, c);
	}
	for (int g = 0; g < 2; g++)
		group[g] = add_group(&f, demand(5, SC_RES_LINK, 0.7), classes, n);
	for (uint32_t c = 0; c < n; c++) {
		const uint32_t swap = (uint32_t)sc_rng_below(&rng, 2);

		n_swapped += swap;
		add_member(&f, c, group[swap]);
		add_member(&f, c, group[!swap]);
	}
	expected = n_swapped % n ? -SC_EDEADLOCK : SC_OK;
	ck_assert_int_eq(fixture_run(&f), expected);
	ck_assert_int_eq(sc_simulate(f.sim, &f.g, NULL, &f.tl, NULL), expected);
	ck_assert(!expected || (strstr(f.err.text, "waits in group 0 for class") &&
				strstr(f.err.text, "waits in group 1 for class")));
}

static void check_same(const struct sc_timeline *got)
{
	ck_assert(got->total_us == f.tl.total_us);
	ck_assert_mem_eq(got->ready_us, f.tl.ready_us, f.tl.n * sizeof(double));
	ck_assert_mem_eq(got->start_us, f.tl.start_us, f.tl.n * sizeof(double));
	ck_assert_mem_eq(got->end_us, f.tl.end_us, f.tl.n * sizeof(double));
	ck_assert_mem_eq(got->bound_by, f.tl.bound_by, f.tl.n * sizeof(uint32_t));
	ck_assert_mem_eq(got->reason, f.tl.reason, f.tl.n);
}

/* A graph that is walked runs as any other, with other costs, and where other costs contend. */
LOOP_TEST(test_walks, n_cases(N_GRAPHS))
{
	struct sc_timeline walked = {0};
	struct sc_graph_notes *notes = sc_xcalloc(1, sizeof(*notes));
	struct sc_rng rng;

	sc_rng_init(&rng, (uint64_t)_i);
	simulate_plan(_i % 4 ? &shared : &alone, (uint64_t)_i);
	for (int k = 0; k < 4; k++) {
		f.g.notes = notes;
		ck_assert_int_eq(sc_simulate(f.sim, &f.g, NULL, &walked, NULL), SC_OK);
		f.g.notes = NULL;
		ck_assert_int_eq(fixture_run(&f), SC_OK);
		check_same(&walked);
		for (size_t i = 0; i < f.g.costs.n; i++) {
			f.g.costs.at[i].work_us *= 2 * sc_rng_uniform(&rng);
			if (k == 2 && i % 2)
				f.g.costs.at[i].demand[SC_RES_HBM] = 0.7;
		}
	}
	f.g.notes = notes;
	sc_timeline_release(&walked);
}
