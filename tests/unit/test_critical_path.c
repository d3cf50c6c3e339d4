/* The walk on graphs computed by hand; that it covers any timeline is in
 * test_simulate_properties.c. */
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

struct expected {
	uint32_t node, holder; /* holder: whose time it was */
	enum sc_reason reason;
	double start_us, end_us;
};

static uint32_t ran_cost(uint32_t node)
{
	const uint32_t group = f.g.nodes.at[node].group;

	return group == SC_NONE ? f.g.nodes.at[node].cost : f.g.groups.at[group].cost;
}

static void ck_path(uint32_t last, const struct expected *expected, size_t n)
{
	ck_assert_msg(fixture_run(&f) == SC_OK, "%s", f.err.text);
	sc_critical_path_walk(&f.g, &f.tl, last, &f.path);
	ck_assert_uint_eq(f.path.segments.n, n);
	for (size_t i = 0; i < n; i++) {
		const struct sc_segment *s = &f.path.segments.at[i];

		ck_assert_uint_eq(s->node, expected[i].node);
		ck_assert(s->cost == f.g.nodes.at[expected[i].holder].cost ||
			  s->cost == ran_cost(expected[i].holder));
		ck_assert_int_eq(s->reason, expected[i].reason);
		ck_assert_double_eq_tol(s->start_us, expected[i].start_us, 1e-9);
		ck_assert_double_eq_tol(s->end_us, expected[i].end_us, 1e-9);
	}
}
#define CK_PATH(last, ...)                                                          \
	do {                                                                        \
		const struct expected expected_[] = {__VA_ARGS__};                  \
		ck_path(last, expected_, sizeof(expected_) / sizeof(expected_[0])); \
	} while (0)

static void ck_owner(enum sc_owner owner, double us)
{
	double owner_us[SC_N_OWNERS];

	own_path(&f, owner_us);
	ck_assert_double_eq_tol(owner_us[owner], us, 1e-9);
}

static struct sc_cost owned(double us, enum sc_owner owner)
{
	struct sc_cost cost = {.work_us = us};

	cost.owner_frac[owner] = 1;
	return cost;
}

FIXTURE(setup, teardown)

TEST(test_nothing)
{
	ck_assert_int_eq(fixture_run(&f), SC_OK);
	sc_critical_path_walk(&f.g, &f.tl, SC_NONE, &f.path);
	ck_assert_uint_eq(f.path.segments.n, 0);
	ck_owner(SC_OWN_OTHER, 0);
}

/* Two lanes: the path changes lane over the dep; the shorter branch is not on it. */
TEST(test_deps)
{
	const uint32_t c = add_class(&f, 1), lane = add_lane(&f, c), side = add_lane(&f, c);
	const uint32_t a = add_node(&f, lane, owned(3, SC_OWN_COMPUTE));
	const uint32_t b = add_node(&f, side, owned(9, SC_OWN_COMM));
	const uint32_t d = add_node(&f, side, owned(1, SC_OWN_COMM));
	const uint32_t e = add_node(&f, lane, owned(2, SC_OWN_OPTIMIZER));

	sc_graph_add_dep(&f.g, b, a);
	sc_graph_add_dep(&f.g, e, b);
	CK_PATH(SC_NONE, {a, a, SC_BY_NONE, 0, 3}, {b, b, SC_BY_DEP, 3, 12},
		{e, e, SC_BY_DEP, 12, 14});
	ck_owner(SC_OWN_COMPUTE, 3);
	ck_owner(SC_OWN_COMM, 9);
	ck_owner(SC_OWN_OPTIMIZER, 2);
	CK_PATH(d, {a, a, SC_BY_NONE, 0, 3}, {b, b, SC_BY_DEP, 3, 12}, {d, d, SC_BY_LANE, 12, 13});
}

/* Both end at 5; the lowest node is taken, and along its lane rather than its dep. */
TEST(test_ties)
{
	const uint32_t c = add_class(&f, 1), lane = add_lane(&f, c), side = add_lane(&f, c);
	const uint32_t other = add_node(&f, side, work(0, 3)),
		       first = add_node(&f, lane, work(0, 3));
	const uint32_t last = add_node(&f, lane, work(0, 2));

	add_node(&f, side, work(0, 2));
	sc_graph_add_dep(&f.g, last, other);
	CK_PATH(SC_NONE, {first, first, SC_BY_NONE, 0, 3}, {last, last, SC_BY_LANE, 3, 5});
}

/* The path leaves a member for the peer that came last, and its own cost before it arrived. */
TEST(test_peer)
{
	const uint32_t c[2] = {add_class(&f, 1), add_class(&f, 1)};
	const uint32_t lane[2] = {add_lane(&f, c[0]), add_lane(&f, c[1])};
	const struct sc_cost before = owned(2, SC_OWN_HOST);
	const uint32_t group = add_group(&f, owned(4, SC_OWN_COMM), c, 2);
	const uint32_t early = add_member(&f, lane[0], group);
	const uint32_t k = add_node(&f, lane[1], owned(5, SC_OWN_COMPUTE));
	const uint32_t late = sc_graph_add_member(
		&f.g, lane[1], group,
		(struct sc_node_use){sc_graph_add_cost(&f.g, &before), SC_NONE});
	const uint32_t last = add_node(&f, lane[0], owned(1, SC_OWN_COMPUTE));

	CK_PATH(SC_NONE, {k, k, SC_BY_NONE, 0, 5}, {late, late, SC_BY_LANE, 5, 7},
		{early, early, SC_BY_PEER, 7, 11}, {last, last, SC_BY_LANE, 11, 12});
	ck_owner(SC_OWN_COMPUTE, 6);
	ck_owner(SC_OWN_HOST, 2);
	ck_owner(SC_OWN_COMM, 4);
}

/* A member with its own cost from the very beginning. */
TEST(test_member_first)
{
	const uint32_t c[1] = {add_class(&f, 1)};
	const struct sc_cost before = owned(2, SC_OWN_HOST);
	const uint32_t group = add_group(&f, owned(4, SC_OWN_COMM), c, 1);
	const uint32_t m = sc_graph_add_member(
		&f.g, add_lane(&f, c[0]), group,
		(struct sc_node_use){sc_graph_add_cost(&f.g, &before), SC_NONE});

	CK_PATH(SC_NONE, {m, m, SC_BY_NONE, 0, 2}, {m, m, SC_BY_NONE, 2, 6});
	ck_owner(SC_OWN_HOST, 2);
	ck_owner(SC_OWN_COMM, 4);
}

/* The second kernel waits from 2 for SMs that the first has: that time is named after it, and is
 * compute, as what the first did. */
TEST(test_waiting)
{
	const uint32_t c = add_class(&f, 1), lane = add_lane(&f, c);
	struct sc_cost big = owned(8, SC_OWN_COMPUTE), small = owned(3, SC_OWN_MEMORY);
	uint32_t first, before, second;

	big.demand[SC_RES_SM] = small.demand[SC_RES_SM] = 1;
	first = add_node(&f, add_lane(&f, c), big);
	before = add_node(&f, lane, owned(2, SC_OWN_HOST));
	second = add_node(&f, lane, small);
	CK_PATH(SC_NONE, {first, first, SC_BY_NONE, 0, 2}, {second, first, SC_BY_RESOURCE, 2, 8},
		{second, second, SC_BY_RESOURCE, 8, 11});
	ck_owner(SC_OWN_COMPUTE, 8);
	ck_owner(SC_OWN_MEMORY, 3);
	ck_owner(SC_OWN_HOST, 0);
	CK_PATH(before, {before, before, SC_BY_NONE, 0, 2});
}

/* The holder of the SMs waited for its own peer until 6: from there the path is the peer's. */
TEST(test_waiting_for_a_member)
{
	const uint32_t c[2] = {add_class(&f, 1), add_class(&f, 1)};
	const uint32_t lane = add_lane(&f, c[0]), far = add_lane(&f, c[1]);
	struct sc_cost coll = owned(5, SC_OWN_COMM), kernel = owned(1, SC_OWN_COMPUTE);
	uint32_t group, holder, late, k;

	coll.demand[SC_RES_SM] = kernel.demand[SC_RES_SM] = 1;
	coll.holds_sm = 1;
	group = add_group(&f, coll, c, 2);
	holder = add_member(&f, add_lane(&f, c[0]), group);
	add_node(&f, lane, owned(2, SC_OWN_HOST));
	k = add_node(&f, lane, kernel);
	late = add_node(&f, far, owned(6, SC_OWN_COMPUTE));
	add_member(&f, far, group);
	CK_PATH(SC_NONE, {late, late, SC_BY_NONE, 0, 6}, {k, holder, SC_BY_RESOURCE, 6, 11},
		{k, k, SC_BY_RESOURCE, 11, 12});
	ck_owner(SC_OWN_COMPUTE, 7);
	ck_owner(SC_OWN_COMM, 5);
}

/* The holder goes on with fewer SMs after it gave some at its wave boundary, at 5. */
TEST(test_waiting_for_a_wave)
{
	const uint32_t c = add_class(&f, 1), lane = add_lane(&f, c);
	struct sc_cost kernel = owned(20, SC_OWN_COMPUTE), coll = owned(30, SC_OWN_COMM);
	uint32_t k, delay, m;

	kernel.demand[SC_RES_SM] = 1;
	kernel.waves = 4;
	coll.demand[SC_RES_SM] = 0.2;
	coll.holds_sm = 1;
	f.g.lanes.at[lane].priority = 1;
	k = add_node(&f, add_lane(&f, c), kernel);
	delay = add_node(&f, lane, owned(3, SC_OWN_HOST));
	m = add_member(&f, lane, add_group(&f, coll, &c, 1));
	CK_PATH(SC_NONE, {k, k, SC_BY_NONE, 0, 3}, {m, k, SC_BY_RESOURCE, 3, 5},
		{m, m, SC_BY_RESOURCE, 5, 35});
	ck_owner(SC_OWN_COMPUTE, 5);
	ck_owner(SC_OWN_COMM, 30);
	ck_assert_uint_ne(delay, m);
	ck_assert_double_eq_tol(f.tl.end_us[k], 23.75, 1e-9); /* 5 + 15 / 0.8 */
}

/* Shares of a cost that do not sum to 1 leave the rest to OTHER. */
TEST(test_owners_sum)
{
	const uint32_t lane = add_lane(&f, add_class(&f, 1));
	struct sc_cost cost = owned(10, SC_OWN_COMM);
	uint32_t a, b;

	cost.owner_frac[SC_OWN_COMM] = 0.25;
	cost.owner_frac[SC_OWN_COMPUTE] = 0.5;
	a = add_node(&f, lane, cost);
	b = add_node(&f, lane, (struct sc_cost){.latency_us = 1});
	CK_PATH(SC_NONE, {a, a, SC_BY_NONE, 0, 10}, {b, b, SC_BY_LANE, 10, 11});
	ck_owner(SC_OWN_COMM, 2.5);
	ck_owner(SC_OWN_COMPUTE, 5);
	ck_owner(SC_OWN_OTHER, 3.5);
}
