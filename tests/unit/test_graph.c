/* Building, sealing and checking graphs. */
#include "runner.h"
#include "sim_fixture.h"

/* Two classes with a compute and a comm lane each; a kernel, then a group, then a kernel on both.
 */
enum { KERNEL_0, KERNEL_1, MEMBER_0, MEMBER_1, AFTER_0, AFTER_1 };
static void build(struct sim_fixture *f)
{
	const uint32_t classes[2] = {0, 1};
	uint32_t group;

	fixture_begin(f);
	for (uint32_t c = 0; c < 2; c++)
		add_class(f, 1);
	for (uint32_t c = 0; c < 2; c++) {
		add_lane(f, c);
		add_lane(f, c);
	}
	group = add_group(f, work(1, 2), classes, 2);
	for (uint32_t c = 0; c < 2; c++)
		add_node(f, 2 * c, work(0, 10));
	for (uint32_t c = 0; c < 2; c++)
		sc_graph_add_dep(&f->g, add_member(f, 2 * c + 1, group), c);
	for (uint32_t c = 0; c < 2; c++)
		sc_graph_add_dep(&f->g, add_node(f, 2 * c, work(0, 10)), MEMBER_0 + c);
}

TEST(test_seal)
{
	struct sim_fixture f;
	const struct sc_graph *g = &f.g;

	build(&f);
	sc_graph_add_dep(&f.g, AFTER_1, KERNEL_0);
	sc_graph_seal(&f.g);
	ck_assert_uint_eq(g->succ_start[KERNEL_0], 0);
	ck_assert_uint_eq(g->succ_start[KERNEL_1], 2);
	ck_assert_uint_eq(g->succ[0], MEMBER_0);
	ck_assert_uint_eq(g->succ[1], AFTER_1);
	ck_assert_uint_eq(g->succ_start[g->nodes.n], g->edges.n);
	ck_assert_uint_eq(g->n_deps[KERNEL_0], 0);
	ck_assert_uint_eq(g->n_deps[MEMBER_1], 1);
	ck_assert_uint_eq(g->n_deps[AFTER_1], 3);
	ck_assert_uint_eq(g->lane_next[KERNEL_0], AFTER_0);
	ck_assert_uint_eq(g->lane_next[AFTER_0], SC_NONE);
	ck_assert_uint_eq(g->group_node_start[1], 2);
	ck_assert_uint_eq(g->group_node[0], MEMBER_0);
	ck_assert_uint_eq(g->group_node[1], MEMBER_1);
	ck_assert_uint_eq(g->groups.at[0].world, 2);
	fixture_end(&f);
}

TEST(test_check_passes)
{
	struct sim_fixture f;
	const struct sc_graph empty = {0};
	struct sc_graph sealed = empty;

	build(&f);
	sc_graph_seal(&f.g);
	ck_assert_msg(!graph_check(&f.g, &f.err), "%s", f.err.text);
	sc_graph_seal(&sealed);
	ck_assert_int_eq(graph_check(&sealed, &f.err), SC_OK);
	sc_graph_release(&sealed);
	fixture_end(&f);
}

/* Clearing keeps the arrays; what is built next knows nothing of what was there. */
TEST(test_clear)
{
	struct sim_fixture f;
	const struct sc_node *nodes;
	const uint32_t *succ;

	build(&f);
	sc_graph_seal(&f.g);
	nodes = f.g.nodes.at;
	succ = f.g.succ;
	sc_graph_clear(&f.g);
	ck_assert_uint_eq(f.g.nodes.n, 0);
	ck_assert_int_eq(f.g.sealed, 0);
	f.none = sc_graph_add_cost(&f.g, &(struct sc_cost){0});
	add_class(&f, 1);
	add_lane(&f, 0);
	add_node(&f, 0, work(0, 1));
	sc_graph_seal(&f.g);
	ck_assert_ptr_eq(f.g.nodes.at, nodes);
	ck_assert_ptr_eq(f.g.succ, succ);
	ck_assert_uint_eq(f.g.succ_start[1], 0);
	ck_assert_uint_eq(f.g.n_deps[0], 0);
	ck_assert_int_eq(graph_check(&f.g, NULL), SC_OK);
	fixture_end(&f);
}

static void break_multiplicity(struct sc_graph *g)
{
	g->classes.at[1].multiplicity = 0;
}
static void break_domain(struct sc_graph *g)
{
	g->classes.at[1].nic_domain = 2;
}
static void break_ranks(struct sc_graph *g)
{
	g->classes.at[0].ranks_per_domain = NAN;
}
static void break_slowdown(struct sc_graph *g)
{
	g->classes.at[0].slowdown = 0.5;
}
static void break_lane(struct sc_graph *g)
{
	g->lanes.at[3].class_id = 7;
}
static void break_latency(struct sc_graph *g)
{
	g->costs.at[1].latency_us = -1;
}
static void break_work(struct sc_graph *g)
{
	g->costs.at[2].work_us = INFINITY;
}
static void break_demand(struct sc_graph *g)
{
	g->costs.at[2].demand[SC_RES_NIC] = -0.1;
}
static void break_holds(struct sc_graph *g)
{
	g->costs.at[2].holds_sm = 1;
	g->costs.at[2].demand[SC_RES_SM] = 1.5;
}
static void break_owner(struct sc_graph *g)
{
	g->costs.at[2].owner_frac[SC_OWN_COMM] = NAN;
}
static void break_owners(struct sc_graph *g)
{
	g->costs.at[2].owner_frac[SC_OWN_COMM] = 0.5;
}
static void break_node_lane(struct sc_graph *g)
{
	g->nodes.at[2].lane = 4;
}
static void break_node_cost(struct sc_graph *g)
{
	g->nodes.at[0].cost = 99;
}
static void break_node_kind(struct sc_graph *g)
{
	g->nodes.at[0].kind = 8;
}
static void break_node_group(struct sc_graph *g)
{
	g->nodes.at[2].group = 1;
}
static void break_not_member(struct sc_graph *g)
{
	g->nodes.at[2].kind = SC_NODE_KERNEL;
}
static void break_edge(struct sc_graph *g)
{
	sc_graph_add_dep(g, 6, 0);
}
static void break_group_cost(struct sc_graph *g)
{
	g->groups.at[0].cost = 50;
}
static void break_group_range(struct sc_graph *g)
{
	g->groups.at[0].n_members = 3;
}
static void break_group_class(struct sc_graph *g)
{
	g->members.at[1].class_id = 2;
}
static void break_group_count(struct sc_graph *g)
{
	g->members.at[1].count = 0;
}
static void break_group_twice(struct sc_graph *g)
{
	g->members.at[1].class_id = 0;
}
static void break_world(struct sc_graph *g)
{
	g->groups.at[0].world = 3;
}
static void break_incomplete(struct sc_graph *g)
{
	g->nodes.at[MEMBER_1].kind = SC_NODE_KERNEL;
	g->nodes.at[MEMBER_1].group = SC_NONE;
}
static void break_second_node(struct sc_graph *g)
{
	g->nodes.at[MEMBER_1].lane = 1;
}
static void break_foreign(struct sc_graph *g)
{
	g->lanes.at[3].class_id = sc_graph_add_class(g, g->classes.at[0]);
}
static void break_self(struct sc_graph *g)
{
	sc_graph_add_dep(g, KERNEL_1, KERNEL_1);
}
static void break_dep_cycle(struct sc_graph *g)
{
	sc_graph_add_dep(g, KERNEL_0, MEMBER_0);
}
static void break_lane_cycle(struct sc_graph *g)
{
	sc_graph_add_dep(g, KERNEL_0, AFTER_0);
}
static void break_group_cycle(struct sc_graph *g)
{
	sc_graph_add_dep(g, MEMBER_1, AFTER_0);
}

static const struct {
	void (*break_it)(struct sc_graph *g);
	enum sc_errc code;
	const char *text;
} broken[] = {
	{break_multiplicity, SC_EVALUE, "class 1 has no ranks"},
	{break_domain, SC_EVALUE, "class 1: nic_domain=2, but there are 2 classes"},
	{break_ranks, SC_EVALUE, "class 0: ranks_per_domain is not a finite number >= 0"},
	{break_slowdown, SC_EVALUE, "class 0: slowdown is not a finite number >= 1"},
	{break_lane, SC_EVALUE, "lane 3: class 7 does not exist"},
	{break_latency, SC_EVALUE, "cost 1: latency_us, work_us and waves must be finite and >= 0"},
	{break_work, SC_EVALUE, "cost 2: latency_us, work_us and waves must be finite and >= 0"},
	{break_demand, SC_EVALUE, "cost 2: demand of nic is not a finite number >= 0"},
	{break_holds, SC_EVALUE, "cost 2: holds 1.5 of the SMs, more than there are"},
	{break_owner, SC_EVALUE, "cost 2: owner_frac of exposed_comm is not a finite number >= 0"},
	{break_owners, SC_EVALUE, "cost 2: owner_frac sums to 1.5, more than 1"},
	{break_node_lane, SC_EVALUE, "node 2: lane 4 does not exist"},
	{break_node_cost, SC_EVALUE, "node 0: cost 99 does not exist"},
	{break_node_kind, SC_EVALUE, "node 0: kind 8 is unknown"},
	{break_node_group, SC_EVALUE, "node 2: group 1 does not exist"},
	{break_not_member, SC_EVALUE, "node 2 is in group 0, but is not a member node"},
	{break_edge, SC_EVALUE, "edge 4: node 6 does not exist"},
	{break_group_cost, SC_EVALUE, "group 0: cost 50 does not exist"},
	{break_group_range, SC_EVALUE, "group 0: its members do not exist"},
	{break_group_class, SC_EVALUE, "group 0: class 2 does not exist"},
	{break_group_count, SC_EVALUE, "group 0: no ranks of class 1"},
	{break_group_twice, SC_EVALUE, "group 0 lists class 0 twice"},
	{break_world, SC_EVALUE, "group 0: world=3, but its members sum to 2"},
	{break_incomplete, SC_EVALUE, "group 0 is not complete: class 1 has no member node"},
	{break_second_node, SC_EVALUE, "group 0: node 3 is the second one of class 0"},
	{break_foreign, SC_EVALUE, "group 0: node 3 is on a lane of class 2, not a member"},
	{break_self, SC_EDEADLOCK, "wait cycle: node 1 of class 1 depends on node 1"},
	{break_dep_cycle, SC_EDEADLOCK,
	 "wait cycle: node 0 of class 0 depends on node 2; node 2 of class 0 depends on node 0"},
	{break_lane_cycle, SC_EDEADLOCK,
	 "wait cycle: node 0 of class 0 depends on node 4; "
	 "node 4 of class 0 is behind node 0 on lane 0"},
	{break_group_cycle, SC_EDEADLOCK,
	 "wait cycle: node 2 of class 0 waits in group 0 for class 1; "
	 "node 3 of class 1 depends on node 4; node 4 of class 0 depends on node 2"},
};

LOOP_TEST(test_check_error, N_OF(broken))
{
	struct sim_fixture f;

	build(&f);
	broken[_i].break_it(&f.g);
	sc_graph_seal(&f.g);
	ck_assert_int_eq(graph_check(&f.g, &f.err), -(int)broken[_i].code);
	ck_assert_str_eq(f.err.text, broken[_i].text);
	ck_assert_int_eq(graph_check(&f.g, NULL), -(int)broken[_i].code);
	fixture_end(&f);
}

TEST(test_check_unsealed)
{
	struct sim_fixture f;

	build(&f);
	ck_assert_int_eq(graph_check(&f.g, &f.err), -SC_EVALUE);
	ck_assert_str_eq(f.err.text, "the graph is not sealed");
	sc_graph_seal(&f.g);
	ck_assert_int_eq(graph_check(&f.g, NULL), SC_OK);
	add_node(&f, 0, work(0, 1));
	ck_assert_int_eq(graph_check(&f.g, NULL), -SC_EVALUE);
	fixture_end(&f);
}

/* Names are the JSON keys of breakdown_ms, each once. */
TEST(test_owner_names)
{
	ck_assert_str_eq(sc_owner_names[SC_OWN_COMPUTE], "compute");
	ck_assert_str_eq(sc_owner_names[SC_OWN_MEMORY], "memory_bound");
	ck_assert_str_eq(sc_owner_names[SC_OWN_OTHER], "other");
	for (int a = 0; a < SC_N_OWNERS; a++) {
		for (int b = 0; b < a; b++)
			ck_assert_str_ne(sc_owner_names[a], sc_owner_names[b]);
	}
}
