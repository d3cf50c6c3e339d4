/* Folded equals unfolded: ranks that do the same as one class with a multiplicity, or each as a
 * class of its own, give the same times. The graphs here are folded by hand;
 * predict/transformer/parallel.c has its own tests. */
#include "base/rng.h"
#include "runner.h"
#include "sim_fixture.h"

enum { MAX_RANKS = 64, N_LAYERS = 12 };
enum slot { LAUNCH, KERNEL, TP, DP, N_SLOTS };

/* Where ranks sit and how they fold: of `n_ranks`, tp innermost, then dp. */
struct layout {
	const char *name;
	uint32_t n_ranks, per_node, tp;
	uint32_t fold[MAX_RANKS]; /* class of each rank, repeated over the ranks; n_fold long */
	uint32_t n_fold;
	double nic; /* demand of one rank's collective that leaves its node */
};
static const struct layout layouts[] = {
	{"tp groups smaller than a node", 16, 8, 4, {0}, 1, 0.1},
	{"eight data-parallel rings on four NICs", 32, 8, 8, {0}, 1, 0.25},
	{"tp groups that span two nodes", 32, 8, 16, {0}, 1, 0.2},
	{"tp groups inside and across nodes",
	 24,
	 6,
	 4,
	 {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0},
	 12,
	 0.3},
};

struct build {
	struct sim_fixture f;
	const struct layout *layout;
	uint32_t cls[MAX_RANKS];
	uint32_t n_classes;
	uint32_t cost[N_SLOTS + 1]; /* by slot, and a tp collective that crosses nodes */
	uint32_t id[MAX_RANKS][N_LAYERS][N_SLOTS];
};

static struct sc_cost random_cost(struct sc_rng *rng, double us)
{
	return work(us / 8 * sc_rng_uniform(rng), us * (0.5 + sc_rng_uniform(rng)));
}

static void add_costs(struct build *b, uint64_t seed)
{
	struct sc_rng rng;
	struct sc_cost kernel, tp, dp, launch;

	sc_rng_init(&rng, seed);
	launch = random_cost(&rng, 4);
	kernel = random_cost(&rng, 40);
	tp = random_cost(&rng, 20);
	dp = random_cost(&rng, 60);
	kernel.demand[SC_RES_SM] = 1;
	kernel.demand[SC_RES_HBM] = 0.5 + 0.5 * sc_rng_uniform(&rng);
	kernel.waves = 1 + (double)sc_rng_below(&rng, 6);
	tp.demand[SC_RES_SM] = 0.15;
	tp.demand[SC_RES_LINK] = 0.9;
	tp.demand[SC_RES_HBM] = 0.3;
	dp.demand[SC_RES_SM] = 0.1;
	dp.demand[SC_RES_HBM] = 0.4;
	dp.demand[SC_RES_LINK] = 0.25;
	dp.demand[SC_RES_NIC] = b->layout->nic;
	tp.holds_sm = dp.holds_sm = 1;
	b->cost[LAUNCH] = sc_graph_add_cost(&b->f.g, &launch);
	b->cost[KERNEL] = sc_graph_add_cost(&b->f.g, &kernel);
	b->cost[TP] = sc_graph_add_cost(&b->f.g, &tp);
	b->cost[DP] = sc_graph_add_cost(&b->f.g, &dp);
	tp.demand[SC_RES_NIC] = b->layout->nic;
	b->cost[N_SLOTS] = sc_graph_add_cost(&b->f.g, &tp);
}

/* Nodes of one kind hold the same classes here, so all folded classes share one NIC domain. */
static void add_rank_classes(struct build *b, int folded, uint64_t seed)
{
	const struct layout *l = b->layout;

	b->n_classes = 0;
	for (uint32_t r = 0; r < l->n_ranks; r++) {
		b->cls[r] = folded ? l->fold[r % l->n_fold] : r;
		if (b->cls[r] >= b->n_classes)
			b->n_classes = b->cls[r] + 1;
	}
	for (uint32_t c = 0; c < b->n_classes; c++) {
		struct sc_class class = {.slowdown = 1, .name = SC_NONE};

		for (uint32_t r = 0; r < l->n_ranks; r++)
			class.multiplicity += b->cls[r] == c;
		class.nic_domain = folded ? 0 : c / l->per_node;
		class.ranks_per_domain = 0;
		for (uint32_t r = folded ? 0 : c; r < (folded ? l->per_node : c + 1); r++)
			class.ranks_per_domain += b->cls[r] == c;
		sc_graph_add_class(&b->f.g, class);
		sc_graph_add_lane(&b->f.g, c, SC_LANE_HOST);
		sc_graph_add_lane(&b->f.g, c, SC_LANE_COMPUTE);
		sc_graph_add_lane(&b->f.g, c, SC_LANE_COMM);
		sc_graph_add_lane(&b->f.g, c, SC_LANE_COMM);
		if (seed % 2)
			b->f.g.lanes.at[4 * c + 2].priority = b->f.g.lanes.at[4 * c + 3].priority =
				1;
	}
}

/* One instance over the ranks first, first + stride...; folded instances that are the same are one.
 */
static void add_instance(struct build *b, uint32_t layer, enum slot slot, uint32_t first,
			 uint32_t stride)
{
	const struct layout *l = b->layout;
	const uint32_t n = slot == TP ? l->tp : l->n_ranks / l->tp;
	struct sc_member member[MAX_RANKS] = {{0}};
	uint32_t n_members = 0, cost = b->cost[slot], group;

	if (b->id[b->cls[first]][layer][slot] != SC_NONE)
		return;
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t rank = first + i * stride;
		uint32_t m = 0;

		if (slot == TP && rank / l->per_node != first / l->per_node)
			cost = b->cost[N_SLOTS];
		while (m < n_members && member[m].class_id != b->cls[rank])
			m++;
		if (m == n_members)
			member[n_members++] = (struct sc_member){.class_id = b->cls[rank]};
		member[m].count++;
	}
	group = sc_graph_add_group(&b->f.g, (struct sc_node_use){cost, SC_NONE}, member, n_members);
	for (uint32_t m = 0; m < n_members; m++) {
		const uint32_t c = member[m].class_id;
		const uint32_t node = add_member(&b->f, 4 * c + (slot == TP ? 2 : 3), group);

		sc_graph_add_dep(&b->f.g, node, b->id[c][layer][KERNEL]);
		b->id[c][layer][slot] = node;
	}
}

static void add_layer(struct build *b, uint32_t layer)
{
	const struct layout *l = b->layout;

	for (uint32_t c = 0; c < b->n_classes; c++) {
		uint32_t *id = b->id[c][layer];

		id[LAUNCH] = sc_graph_add_node(&b->f.g, SC_NODE_LAUNCH, 4 * c,
					       (struct sc_node_use){b->cost[LAUNCH], 0});
		id[KERNEL] = sc_graph_add_node(&b->f.g, SC_NODE_KERNEL, 4 * c + 1,
					       (struct sc_node_use){b->cost[KERNEL], 0});
		id[TP] = id[DP] = SC_NONE;
		sc_graph_add_dep(&b->f.g, id[KERNEL], id[LAUNCH]);
		if (layer)
			sc_graph_add_dep(&b->f.g, id[KERNEL], b->id[c][layer - 1][TP]);
	}
	for (uint32_t r = 0; r < l->n_ranks; r += l->tp)
		add_instance(b, layer, TP, r, 1);
	for (uint32_t r = 0; r < l->tp; r++)
		add_instance(b, layer, DP, r, l->tp);
}

static void build_and_run(struct build *b, const struct layout *layout, int folded, uint64_t seed)
{
	fixture_begin(&b->f);
	b->layout = layout;
	add_costs(b, seed);
	add_rank_classes(b, folded, seed);
	for (uint32_t layer = 0; layer < N_LAYERS; layer++)
		add_layer(b, layer);
	ck_assert_msg(fixture_run(&b->f) == SC_OK, "%s: %s", layout->name, b->f.err.text);
}

static void compare(const struct build *one, const struct build *all, uint32_t rank)
{
	const struct sc_timeline *a = &one->f.tl, *b = &all->f.tl;
	const double tol = 1e-9 * a->total_us;

	for (uint32_t layer = 0; layer < N_LAYERS; layer++) {
		for (int slot = 0; slot < N_SLOTS; slot++) {
			const uint32_t i = one->id[one->cls[rank]][layer][slot];
			const uint32_t j = all->id[rank][layer][slot];

			ck_assert_double_eq_tol(a->start_us[i], b->start_us[j], tol);
			ck_assert_double_eq_tol(a->end_us[i], b->end_us[j], tol);
		}
	}
}

/* Contention on, then off on the same graphs. */
LOOP_TEST(test_folded, 160)
{
	static struct build one, all;
	const struct layout *layout = &layouts[_i % 4];
	const struct sc_sim_opts alone = {.no_contention = 1};
	double shared_us;

	build_and_run(&one, layout, 1, (uint64_t)_i);
	build_and_run(&all, layout, 0, (uint64_t)_i);
	ck_assert_uint_eq(all.n_classes, layout->n_ranks);
	ck_assert_uint_eq(one.n_classes, layout->n_fold == 1 ? 1 : 2);
	for (uint32_t r = 0; r < layout->n_ranks; r++)
		compare(&one, &all, r);
	shared_us = one.f.tl.total_us;
	ck_assert_int_eq(sc_simulate(one.f.sim, &one.f.g, &alone, &one.f.tl, NULL), SC_OK);
	ck_assert_int_eq(sc_simulate(all.f.sim, &all.f.g, &alone, &all.f.tl, NULL), SC_OK);
	for (uint32_t r = 0; r < layout->n_ranks; r++)
		compare(&one, &all, r);
	ck_assert_double_lt(one.f.tl.total_us * 1.001,
			    shared_us); /* there was something to share */
	fixture_end(&one.f);
	fixture_end(&all.f);
}
