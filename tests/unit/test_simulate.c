/* The engine on graphs small enough to compute by hand. */
#include "runner.h"
#include "sim_fixture.h"

static struct sim_fixture f;

static void setup(void)
{
	fixture_begin(&f);
}

static void teardown(void)
{
	fixture_end(&f);
}

static void run_ok(void)
{
	ck_assert_msg(fixture_run(&f) == SC_OK, "%s", f.err.text);
}

/* A node of 0 demand that ends at `us`, on a lane of its own: things that depend on it come then.
 */
static uint32_t add_delay(uint32_t class_id, double us)
{
	return add_node(&f, add_lane(&f, class_id), work(0, us));
}

static struct sc_cost kernel(double work_us, double sm, double waves)
{
	struct sc_cost cost = demand(work_us, SC_RES_SM, sm);

	cost.waves = waves;
	return cost;
}

static struct sc_cost holding(double work_us, double sm)
{
	struct sc_cost cost = demand(work_us, SC_RES_SM, sm);

	cost.holds_sm = 1;
	return cost;
}

FIXTURE(setup, teardown)

/* ---- flow ---- */

TEST(test_empty)
{
	run_ok();
	ck_assert_double_eq(f.tl.total_us, 0);
	ck_assert_uint_eq(f.tl.n, 0);
}

TEST(test_lane_and_deps)
{
	const uint32_t c = add_class(&f, 4), lane = add_lane(&f, c), other = add_lane(&f, c);
	const uint32_t a = add_node(&f, lane, work(1, 2));
	const uint32_t b = add_node(&f, lane, work(0, 4));
	const uint32_t d = add_node(&f, other, work(0, 1));
	const uint32_t e = add_node(&f, lane, work(0, 1));

	sc_graph_add_dep(&f.g, d, b);
	sc_graph_add_dep(&f.g, e, d);
	run_ok();
	ck_times(&f, a, 0, 3);
	ck_times(&f, b, 3, 7);
	ck_times(&f, d, 7, 8);
	ck_times(&f, e, 8, 9);
	ck_reason(&f, a, SC_BY_NONE, SC_NONE);
	ck_reason(&f, b, SC_BY_LANE, a);
	ck_reason(&f, d, SC_BY_DEP, b);
	ck_reason(&f, e, SC_BY_DEP, d);
	ck_assert_double_eq(f.tl.total_us, 9);
}

TEST(test_launch)
{
	const uint32_t c = add_class(&f, 1);
	const uint32_t host = sc_graph_add_lane(&f.g, c, SC_LANE_HOST), lane = add_lane(&f, c);
	const struct sc_cost call = work(0, 5);
	const uint32_t cost = sc_graph_add_cost(&f.g, &call);
	const uint32_t l0 =
		sc_graph_add_node(&f.g, SC_NODE_LAUNCH, host, (struct sc_node_use){cost, SC_NONE});
	const uint32_t l1 =
		sc_graph_add_node(&f.g, SC_NODE_LAUNCH, host, (struct sc_node_use){cost, SC_NONE});
	const uint32_t k0 = add_node(&f, lane, work(0, 2)), k1 = add_node(&f, lane, work(0, 2));

	sc_graph_add_dep(&f.g, k0, l0);
	sc_graph_add_dep(&f.g, k1, l1);
	run_ok();
	ck_times(&f, k1, 10, 12);
	ck_reason(&f, k0, SC_BY_LAUNCH, l0);
	ck_reason(&f, k1, SC_BY_LAUNCH, l1);
}

/* Everything ends at 5: the lane wins, else the lowest node, in whatever order edges are given. */
LOOP_TEST(test_ties, 2)
{
	const uint32_t c = add_class(&f, 1), lane = add_lane(&f, c);
	const uint32_t a = add_delay(c, 5), b = add_delay(c, 5),
		       first = add_node(&f, lane, work(0, 5));
	const uint32_t x = add_node(&f, lane, work(0, 1));
	const uint32_t y = add_node(&f, add_lane(&f, c), work(0, 1));

	sc_graph_add_dep(&f.g, x, _i ? a : b);
	sc_graph_add_dep(&f.g, x, _i ? b : a);
	sc_graph_add_dep(&f.g, y, _i ? a : b);
	sc_graph_add_dep(&f.g, y, _i ? b : a);
	run_ok();
	ck_reason(&f, x, SC_BY_LANE, first);
	ck_reason(&f, y, SC_BY_DEP, a);
}

TEST(test_group)
{
	const uint32_t c[2] = {add_class(&f, 1), add_class(&f, 1)};
	const uint32_t lane[2] = {add_lane(&f, c[0]), add_lane(&f, c[1])};
	const uint32_t group = add_group(&f, work(1, 3), c, 2);
	const uint32_t early = add_node(&f, lane[0], work(0, 4));
	const uint32_t late = add_node(&f, lane[1], work(0, 10));
	const uint32_t m0 = add_member(&f, lane[0], group), m1 = add_member(&f, lane[1], group);
	const uint32_t after = add_node(&f, lane[0], work(0, 1));

	run_ok();
	ck_times(&f, early, 0, 4);
	ck_times(&f, m0, 10, 14);
	ck_times(&f, m1, 10, 14);
	ck_times(&f, after, 14, 15);
	ck_assert_double_eq(f.tl.ready_us[m0], 4);
	ck_assert_double_eq(f.tl.ready_us[m1], 10);
	ck_reason(&f, m0, SC_BY_PEER, m1);
	ck_reason(&f, m1, SC_BY_LANE, late);
}

/* A member's own cost comes before its arrival. */
TEST(test_member_cost)
{
	const uint32_t c[2] = {add_class(&f, 1), add_class(&f, 1)};
	const uint32_t lane[2] = {add_lane(&f, c[0]), add_lane(&f, c[1])};
	const uint32_t group = add_group(&f, work(1, 3), c, 2);
	const struct sc_cost before = work(2, 5);
	const uint32_t m0 = sc_graph_add_member(
		&f.g, lane[0], group,
		(struct sc_node_use){sc_graph_add_cost(&f.g, &before), SC_NONE});
	const uint32_t m1 = add_member(&f, lane[1], group);

	run_ok();
	ck_times(&f, m0, 7, 11);
	ck_times(&f, m1, 7, 11);
	ck_assert_double_eq(f.tl.ready_us[m0], 7);
	ck_assert_double_eq(f.tl.ready_us[m1], 0);
	ck_reason(&f, m1, SC_BY_PEER, m0);
}

/* A straggler's kernels are slower, shared or not; its groups and its host are not. */
LOOP_TEST(test_slowdown, 2)
{
	const uint32_t c[2] = {add_class(&f, 1), add_class(&f, 1)};
	const uint32_t lane[2] = {add_lane(&f, c[0]), add_lane(&f, c[1])};
	struct sc_cost cost = work(2, 8);
	uint32_t group, slow, fast, member, host;

	cost.demand[SC_RES_HBM] = _i ? 0.5 : 0;
	f.g.classes.at[1].slowdown = 1.5;
	slow = add_node(&f, lane[1], cost);
	fast = add_node(&f, lane[0], cost);
	group = add_group(&f, work(1, 3), c, 2);
	add_member(&f, lane[0], group);
	member = add_member(&f, lane[1], group);
	host = sc_graph_add_node(&f.g, SC_NODE_HOST, lane[1],
				 (struct sc_node_use){f.g.nodes.at[slow].cost, SC_NONE});
	run_ok();
	ck_times(&f, fast, 0, 10);
	ck_times(&f, slow, 0, 15);
	ck_times(&f, member, 15, 19);
	ck_times(&f, host, 19, 29);
}

/* Costs in units of 2^-20 us: sums and maxima are exact, with demands as without. */
LOOP_TEST(test_exact, 2)
{
	const double unit = 1.0 / 1048576;
	const uint32_t c = add_class(&f, 1), lane = add_lane(&f, c), n = 1000;
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct sc_cost cost = work((1 + i * 7919 % 1001) * unit, (1 + i * 104729) * unit);

		cost.demand[SC_RES_HBM] = _i ? 0.9 : 0;
		cost.demand[SC_RES_SM] = _i ? 1 : 0;
		add_node(&f, lane, cost);
		sum += cost.latency_us + cost.work_us;
	}
	run_ok();
	ck_assert_double_eq(f.tl.total_us, sum);
}

/* ---- sharing ---- */

/* Both want all of HBM: the short one ends at 2 x 4, the other has the rest alone. */
TEST(test_share_hbm)
{
	const uint32_t c = add_class(&f, 1);
	const uint32_t a = add_node(&f, add_lane(&f, c), demand(10, SC_RES_HBM, 1));
	const uint32_t b = add_node(&f, add_lane(&f, c), demand(4, SC_RES_HBM, 1));
	const struct sc_sim_opts alone = {.no_contention = 1};

	run_ok();
	ck_times(&f, b, 0, 8);
	ck_times(&f, a, 0, 14);
	ck_assert_int_eq(sc_simulate(f.sim, &f.g, &alone, &f.tl, &f.err), SC_OK);
	ck_times(&f, b, 0, 4);
	ck_times(&f, a, 0, 10);
}

/* a and b share a link; b, c and d the HBM. b, c, d get 1/2 each (0.8 + 0.6 + 0.6 = 2), a the rest
 * of the link: 1 - 0.5 * 0.8 = 0.6 of its 1. Other classes are not touched. */
TEST(test_max_min)
{
	const uint32_t cl = add_class(&f, 1), far = add_class(&f, 1);
	struct sc_cost both = demand(10, SC_RES_LINK, 0.8);
	uint32_t a, b, c, d, e;

	both.demand[SC_RES_HBM] = 0.8;
	a = add_node(&f, add_lane(&f, cl), demand(6, SC_RES_LINK, 1));
	b = add_node(&f, add_lane(&f, cl), both);
	c = add_node(&f, add_lane(&f, cl), demand(5, SC_RES_HBM, 0.6));
	d = add_node(&f, add_lane(&f, cl), demand(5, SC_RES_HBM, 0.6));
	e = add_node(&f, add_lane(&f, far), demand(5, SC_RES_HBM, 1));
	f.g.classes.at[far].nic_domain = 1;
	run_ok();
	ck_times(&f, e, 0, 5);
	ck_times(&f, a, 0, 10);
	ck_times(&f, c, 0, 10);
	ck_times(&f, d, 0, 10);
	ck_times(&f, b, 0, 15);
}

/* Only the work is slowed: a's latency passes beside b at full rate. */
TEST(test_latency_is_not_shared)
{
	const uint32_t c = add_class(&f, 1);
	struct sc_cost cost = demand(6, SC_RES_PCIE, 1);
	uint32_t a, b;

	b = add_node(&f, add_lane(&f, c), demand(6, SC_RES_PCIE, 1));
	cost.latency_us = 4;
	a = add_node(&f, add_lane(&f, c), cost);
	run_ok();
	ck_times(&f, b, 0, 8);
	ck_times(&f, a, 0, 12);
}

/* The reference's test 15: nothing shared, T = max; everything shared at full demand, T = sum. */
LOOP_TEST(test_c3_limits, 2)
{
	const uint32_t c = add_class(&f, 1);

	add_node(&f, add_lane(&f, c), demand(10, SC_RES_HBM, 1));
	add_node(&f, add_lane(&f, c), demand(7, _i ? SC_RES_HBM : SC_RES_LINK, 1));
	run_ok();
	ck_assert_double_eq_tol(f.tl.total_us, _i ? 17 : 10, 1e-9);
}

/* Eight ranks of a folded class on a node, each wanting a quarter of its NICs: twice too much. */
TEST(test_folded_nic)
{
	const uint32_t c = add_class(&f, 16);
	const struct sc_member all = {.class_id = c, .count = 2};
	const struct sc_cost ring = demand(10, SC_RES_NIC, 0.25);
	uint32_t member;

	f.g.classes.at[c].ranks_per_domain = 8;
	member = add_member(
		&f, add_lane(&f, c),
		sc_graph_add_group(&f.g, (struct sc_node_use){sc_graph_add_cost(&f.g, &ring), 0},
				   &all, 1));
	run_ok();
	ck_times(&f, member, 0, 20);
}

/* A group runs at the rate of its most loaded member. */
TEST(test_group_rate)
{
	const uint32_t c[2] = {add_class(&f, 1), add_class(&f, 1)};
	const uint32_t group = add_group(&f, demand(10, SC_RES_LINK, 1), c, 2);
	const uint32_t m0 = add_member(&f, add_lane(&f, c[0]), group);
	const uint32_t m1 = add_member(&f, add_lane(&f, c[1]), group);
	const uint32_t other = add_node(&f, add_lane(&f, c[1]), demand(5, SC_RES_LINK, 1));

	run_ok();
	ck_times(&f, other, 0, 10);
	ck_times(&f, m0, 0, 15);
	ck_times(&f, m1, 0, 15);
}

/* Kernels on the GPU of one of its members slow it while they run. */
TEST(test_group_beside_kernels)
{
	const uint32_t c[2] = {add_class(&f, 1), add_class(&f, 1)};
	struct sc_cost ring = holding(10, 0.25);
	uint32_t group, member, k[2];

	ring.beside_frac = 0.5;
	group = add_group(&f, ring, c, 2);
	member = add_member(&f, add_lane(&f, c[0]), group);
	add_member(&f, add_lane(&f, c[1]), group);
	k[0] = add_node(&f, add_lane(&f, c[1]), kernel(6, 0.5, 0));
	k[1] = add_node(&f, add_lane(&f, c[0]), kernel(1, 0.5, 0));
	sc_graph_add_dep(&f.g, k[1], add_delay(c[0], 8));
	run_ok();
	ck_times(&f, k[0], 0, 6);
	ck_times(&f, k[1], 8, 9);
	ck_times(&f, member, 0, 13.5);
}

/* ---- SMs ---- */

TEST(test_sm_launch_order)
{
	const uint32_t c = add_class(&f, 1);
	const uint32_t a = add_node(&f, add_lane(&f, c), kernel(10, 0.75, 0));
	const uint32_t b = add_node(&f, add_lane(&f, c), kernel(4, 0.5, 0));
	const uint32_t d = add_node(&f, add_lane(&f, c), kernel(1, 1, 0));

	run_ok();
	ck_times(&f, a, 0, 10);
	ck_times(&f, b, 0, 8);    /* on half of what it wants */
	ck_times(&f, d, 8, 10.5); /* on a quarter, then on all: of its one wave most waits */
	ck_reason(&f, d, SC_BY_RESOURCE, b);
	ck_assert_double_eq(f.tl.ready_us[d], 0);
}

/* Three give their SMs back at once, whichever started first: the lowest is named; one that gave
 * its own before is not. */
LOOP_TEST(test_sm_released_together, 6)
{
	static const int starts[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
					 {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	const uint32_t c = add_class(&f, 1);
	uint32_t waiter, holder[3];

	add_node(&f, add_lane(&f, c), kernel(2, 0.1, 0));
	for (int i = 0; i < 3; i++)
		holder[i] = add_node(&f, add_lane(&f, c), kernel(4 - starts[_i][i], 0.3, 0));
	for (int i = 0; i < 3; i++)
		sc_graph_add_dep(&f.g, holder[i], add_delay(c, starts[_i][i]));
	waiter = add_node(&f, add_lane(&f, c), holding(1, 1));
	sc_graph_add_dep(&f.g, waiter, add_delay(c, 3));
	run_ok();
	ck_times(&f, waiter, 4, 5);
	ck_reason(&f, waiter, SC_BY_RESOURCE, holder[0]);
}

/* The collective has 0.2 until 7; the kernel then stands at 5.6 and takes the rest. From t = 20 on
 * it is in its last wave, and nothing of it waits for SMs. */
LOOP_TEST(test_sm_expand, 4)
{
	const uint32_t c = add_class(&f, 1);
	const double until = _i & 1 ? 21 : 7;
	const uint32_t coll = add_node(&f, add_lane(&f, c), holding(until, 0.2));
	const uint32_t k = add_node(&f, add_lane(&f, c), kernel(20, 1, _i & 2 ? 4 : 0.5));

	run_ok();
	ck_times(&f, coll, 0, until);
	ck_times(&f, k, 0, _i & 1 ? 25 : 21.4);
}

/* A collective comes at 3. With priority it has its SMs at the first wave's end, t = 5; the kernel
 * then runs at 0.8 until 13, and ends at 21.6. Without, it waits. */
LOOP_TEST(test_sm_priority, 2)
{
	const uint32_t c = add_class(&f, 1);
	const uint32_t k = add_node(&f, add_lane(&f, c), kernel(20, 1, 4));
	const uint32_t lane = add_lane(&f, c);
	const uint32_t coll = add_node(&f, lane, holding(8, 0.2));

	f.g.lanes.at[lane].priority = (int8_t)_i;
	sc_graph_add_dep(&f.g, coll, add_delay(c, 3));
	run_ok();
	ck_times(&f, k, 0, _i ? 21.6 : 20);
	ck_times(&f, coll, _i ? 5 : 20, _i ? 13 : 28);
	ck_reason(&f, coll, SC_BY_RESOURCE, k);
	ck_assert_double_eq(f.tl.ready_us[coll], 3);
}

/* A kernel that loses all its SMs goes on where it stopped, before later ones of its priority. */
TEST(test_sm_suspend)
{
	const uint32_t c = add_class(&f, 1), lane = add_lane(&f, c);
	const uint32_t k = add_node(&f, add_lane(&f, c), kernel(20, 1, 4));
	const uint32_t urgent = add_node(&f, lane, kernel(6, 1, 1));
	const uint32_t later = add_node(&f, add_lane(&f, c), kernel(2, 1, 1));

	f.g.lanes.at[lane].priority = 1;
	sc_graph_add_dep(&f.g, urgent, add_delay(c, 3));
	sc_graph_add_dep(&f.g, later, add_delay(c, 4));
	run_ok();
	ck_times(&f, urgent, 5, 11);
	ck_times(&f, k, 0, 26);
	ck_times(&f, later, 26, 28);
	ck_reason(&f, urgent, SC_BY_RESOURCE, k);
	ck_reason(&f, later, SC_BY_RESOURCE, k);
}

/* A member that waits for its peer holds its SMs from its own arrival. */
TEST(test_sm_held_while_waiting)
{
	const uint32_t c[2] = {add_class(&f, 1), add_class(&f, 1)};
	const uint32_t group = add_group(&f, holding(5, 0.5), c, 2);
	const uint32_t m0 = add_member(&f, add_lane(&f, c[0]), group);
	const uint32_t k = add_node(&f, add_lane(&f, c[0]), kernel(4, 1, 0));
	const uint32_t m1 = add_member(&f, add_lane(&f, c[1]), group);

	sc_graph_add_dep(&f.g, m1, add_delay(c[1], 6));
	run_ok();
	ck_times(&f, m0, 6, 11);
	ck_times(&f, k, 0, 8);
	ck_reason(&f, m0, SC_BY_PEER, m1);
}

/* A member that has to wait for SMs makes its peers wait. */
TEST(test_sm_late_member)
{
	const uint32_t c[2] = {add_class(&f, 1), add_class(&f, 1)};
	const uint32_t k = add_node(&f, add_lane(&f, c[0]), kernel(9, 1, 0));
	const uint32_t group = add_group(&f, holding(5, 0.5), c, 2);
	const uint32_t m0 = add_member(&f, add_lane(&f, c[0]), group);
	const uint32_t m1 = add_member(&f, add_lane(&f, c[1]), group);

	run_ok();
	ck_times(&f, k, 0, 9);
	ck_times(&f, m0, 9, 14);
	ck_times(&f, m1, 9, 14);
	ck_reason(&f, m0, SC_BY_RESOURCE, k);
	ck_reason(&f, m1, SC_BY_PEER, m0);
	ck_assert_double_eq(f.tl.ready_us[m0], 0);
}

/* The reference's test 17: the more SMs a collective keeps, the slower a kernel, as 1 / (1 -
 * share). */
RANGE_TEST(test_sm_split, 1, 300)
{
	const uint32_t c = add_class(&f, 1);
	const double share = _i / 304.0;
	const uint32_t coll = add_node(&f, add_lane(&f, c), holding(10000, share));
	const uint32_t k = add_node(&f, add_lane(&f, c), kernel(100, 1, 1));

	run_ok();
	ck_times(&f, coll, 0, 10000);
	ck_times(&f, k, 0, 100 / (1 - share));
}

/* ---- graphs that cannot end ---- */

/* Two ranks meet two collectives in opposite order. Found by the check and by the run. */
TEST(test_opposite_order)
{
	const uint32_t c[2] = {add_class(&f, 1), add_class(&f, 1)};
	const uint32_t lane[2] = {add_lane(&f, c[0]), add_lane(&f, c[1])};
	const uint32_t g0 = add_group(&f, work(0, 1), c, 2), g1 = add_group(&f, work(0, 1), c, 2);
	static const char text[] = "wait cycle: node 0 of class 0 waits in group 0 for class 1; "
				   "node 3 of class 1 is behind node 2 on lane 1; "
				   "node 2 of class 1 waits in group 1 for class 0; "
				   "node 1 of class 0 is behind node 0 on lane 0";

	add_member(&f, lane[0], g0);
	add_member(&f, lane[0], g1);
	add_member(&f, lane[1], g1);
	add_member(&f, lane[1], g0);
	ck_assert_int_eq(fixture_run(&f), -SC_EDEADLOCK);
	ck_assert_str_eq(f.err.text, text);
	f.err = (struct sc_err){0};
	ck_assert_int_eq(sc_simulate(f.sim, &f.g, NULL, &f.tl, &f.err), -SC_EDEADLOCK);
	ck_assert_int_eq(f.err.code, SC_EDEADLOCK);
	ck_assert_str_eq(f.err.text, text);
}

/* Each rank's first collective keeps the SMs that the other's needs: legal to the check, no end. */
static void build_exhausted(double sm)
{
	const uint32_t c[2] = {add_class(&f, 1), add_class(&f, 1)};
	uint32_t lane[4], member[4], delay[2];

	for (int i = 0; i < 4; i++)
		lane[i] = add_lane(&f, c[i / 2]);
	for (int g = 0; g < 2; g++) {
		const uint32_t group = add_group(&f, holding(5, sm), c, 2);

		for (int i = 0; i < 2; i++)
			member[2 * g + i] = add_member(&f, lane[2 * i + g], group);
		delay[g] = add_delay(c[g], 1);
	}
	sc_graph_add_dep(&f.g, member[1], delay[1]); /* group 0 is late on class 1 */
	sc_graph_add_dep(&f.g, member[2], delay[0]); /* group 1 on class 0 */
}

TEST(test_exhausted_sms)
{
	build_exhausted(0.6);
	sc_graph_seal(&f.g);
	ck_assert_int_eq(graph_check(&f.g, &f.err), SC_OK);
	ck_assert_int_eq(sc_simulate(f.sim, &f.g, NULL, &f.tl, &f.err), -SC_EDEADLOCK);
	ck_assert_str_eq(f.err.text, "wait cycle: node 0 of class 0 waits in group 0 for class 1; "
				     "node 1 of class 1 waits for SMs held by node 4; "
				     "node 4 of class 1 waits in group 1 for class 0; "
				     "node 3 of class 0 waits for SMs held by node 0");
}

/* With half the SMs each there is room for both; and a failed run leaves nothing behind. */
TEST(test_run_after_deadlock)
{
	double total_us;

	build_exhausted(0.5);
	run_ok();
	total_us = f.tl.total_us;
	ck_assert_double_eq_tol(total_us, 6, 1e-9);
	for (size_t i = 0; i < f.g.groups.n; i++)
		f.g.costs.at[f.g.groups.at[i].cost].demand[SC_RES_SM] = 0.6;
	ck_assert_int_eq(sc_simulate(f.sim, &f.g, NULL, &f.tl, NULL), -SC_EDEADLOCK);
	for (size_t i = 0; i < f.g.groups.n; i++)
		f.g.costs.at[f.g.groups.at[i].cost].demand[SC_RES_SM] = 0.5;
	run_ok();
	ck_assert_double_eq(f.tl.total_us, total_us);
}

/* Work is shared from the first instant on; a run that is stopped solves for rates once more at
 * most, says so, and leaves nothing behind. */
static volatile sig_atomic_t stop;

static void stop_run(void *ctx, const struct sc_simulator *sim, double now_us)
{
	(void)sim;
	(void)now_us;
	stop = 1;
	++*(size_t *)ctx;
}

TEST(test_stopped_run)
{
	size_t n_solves = 0;
	double total_us;

	build_exhausted(0.5);
	run_ok();
	total_us = f.tl.total_us;
	sc_simulator_stop_by(f.sim, &stop);
	sc_simulator_observe(f.sim, stop_run, &n_solves);
	ck_assert_int_eq(sc_simulate(f.sim, &f.g, NULL, &f.tl, &f.err), -SC_ECONFLICT);
	ck_assert_str_eq(f.err.text, "the simulation was stopped before its end");
	ck_assert_uint_eq(n_solves, 1);
	sc_simulator_observe(f.sim, NULL, NULL);
	stop = 0;
	run_ok();
	ck_assert_double_eq(f.tl.total_us, total_us);
}

/* A graph that was not checked: the member that has no node is named. */
TEST(test_incomplete_group)
{
	const uint32_t c[2] = {add_class(&f, 1), add_class(&f, 1)};

	add_member(&f, add_lane(&f, c[0]), add_group(&f, work(0, 1), c, 2));
	sc_graph_seal(&f.g);
	ck_assert_int_eq(sc_simulate(f.sim, &f.g, NULL, &f.tl, &f.err), -SC_EDEADLOCK);
	ck_assert_str_eq(f.err.text, "wait cycle: node 0 of class 0 waits in group 0 for "
				     "a member that has no node");
}
