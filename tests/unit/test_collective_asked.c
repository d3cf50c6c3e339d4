/* Algorithms that the library takes where they are asked for: NCCL's own figures, laws, and where
 * they cannot be. */
#include "arena_fixture.h"
#include "base/units.h"
#include "models/collective/collective_files.h"
#include "models/collective/collective_priv.h"
#include "models/interference.h"
#include "runner.h"

#define MIB SC_BYTES_PER_MIB
#define GIB_S (SC_BYTES_PER_GIB / SC_BYTES_PER_GB) /* in 1e9 bytes/s */

static struct sc_request machine;
static struct sc_fabric fabric;

static const struct sc_span NODE = {8, 1, 8}, NODES = {32, 4, 8};

static void set_up(void)
{
	struct sc_cluster *cluster = &machine.config.cluster;

	arena_begin();
	sc_config_init(&machine.config);
	ck_assert_int_eq(sc_device_load("h100-sxm-80gb", &arena, &machine.device, NULL), 0);
	ck_assert_int_eq(sc_fabric_profile_load("default", &arena, &machine.fabric_profile, NULL),
			 0);
	machine.config.gpus = 32;
	cluster->gpus_per_node = cluster->scale_up_gpus = cluster->nics_per_node = 8;
	cluster->nic_gbit_s = 400;
	ck_assert_int_eq(sc_fabric_from_request(&machine, &fabric, NULL), 0);
}

static struct sc_cost cost_of(enum sc_algo algo, enum sc_collective kind, double bytes,
			      struct sc_span span)
{
	const struct sc_collective_shape shape = {kind, bytes, SC_BF16};
	struct sc_fabric asked = fabric;

	asked.asked[kind] = 1 + (int)algo;
	return sc_collective_cost(&asked, &shape, &span, NULL);
}

static double time_of(enum sc_algo algo, enum sc_collective kind, double bytes, struct sc_span span)
{
	struct sc_cost cost = cost_of(algo, kind, bytes, span);

	return sc_cost_alone_us(&cost);
}

/* What NCCL expects of its kernels (src/sym_kernels.cc), with the rates that it takes for the
 * links. */
static const struct golden {
	enum sc_collective kind;
	int n;
	double bytes;
	bool adds; /* the switch */
	struct {
		double us;
		int blocks;
	} hopper, blackwell;
} GOLDEN[] = {
	{SC_ALL_GATHER, 8, 1024, true, {4.8205, 1}, {8.8171, 1}},
	{SC_ALL_GATHER, 8, 1 << 20, true, {9.6427, 8}, {13.9275, 9}},
	{SC_ALL_GATHER, 8, 1 << 30, true, {2741.1750, 9}, {1470.3333, 13}},
	{SC_ALL_REDUCE, 8, 1 << 16, false, {8.2145, 2}, {17.3260, 12}},
	{SC_ALL_REDUCE, 8, 1 << 26, false, {348.5969, 7}, {200.7917, 12}},
	{SC_ALL_REDUCE, 8, 1 << 26, true, {153.2880, 2}, {88.8125, 3}},
	{SC_REDUCE_SCATTER, 4, 1 << 24, false, {43.4211, 9}, {31.5313, 12}},
};
enum { N_GOLDEN = sizeof(GOLDEN) / sizeof(GOLDEN[0]) };

FIXTURE(set_up, arena_end)

LOOP_TEST(symmetric_golden, N_GOLDEN)
{
	const struct golden *g = &GOLDEN[_i];
	const struct sc_collective_shape shape = {g->kind, g->bytes, SC_BF16};
	const double adds = g->adds ? 1 / (1 + 1.0 / g->n) : 0;
	struct sc_nccl_symmetric out;

	sc_nccl_symmetric(90, &shape, g->n, 320 * GIB_S, 480 * GIB_S * adds, &out);
	ck_assert_double_eq_tol(out.total_us, g->hopper.us, 1e-3);
	ck_assert_int_eq(out.blocks, g->hopper.blocks);
	sc_nccl_symmetric(100, &shape, g->n, 600 * GIB_S, 1000 * GIB_S * adds, &out);
	ck_assert_double_eq_tol(out.total_us, g->blackwell.us, 1e-3);
	ck_assert_int_eq(out.blocks, g->blackwell.blocks);
}

/* Latency first; then the port's rate: a switch that adds takes each byte once. */
TEST(symmetric_limits)
{
	const double port = fabric.link_gbps * fabric.link.eff, large = 1024 * 1024 * MIB;
	const double adds = sc_nvls_gbps(&fabric, 8);

	ck_assert_double_lt(time_of(SC_ALGO_SYMMETRIC, SC_ALL_REDUCE, 8, NODE),
			    time_of(SC_ALGO_RING, SC_ALL_REDUCE, 8, NODE));
	ck_assert_double_eq_tol(time_of(SC_ALGO_SYMMETRIC, SC_ALL_GATHER, large, NODE) /
					sc_bytes_us(large * 7 / 8, port),
				1, 1e-3);
	ck_assert_double_eq_tol(time_of(SC_ALGO_SYMMETRIC, SC_ALL_REDUCE, large, NODE) /
					sc_bytes_us(large, adds),
				1, 1e-3);
	fabric.link.nvls_eff = 0;
	ck_assert_double_eq_tol(time_of(SC_ALGO_SYMMETRIC, SC_ALL_REDUCE, large, NODE) /
					sc_bytes_us(large * 14 / 8, port),
				1, 1e-3);
}

/* The study of overlap has the same copies; no SMs, and the path of copies to memory. They lose
 * small and win large. */
TEST(copies_are_those_of_c3)
{
	static const enum sc_collective kinds[] = {SC_ALL_GATHER, SC_ALL_TO_ALL};
	double crossed = 0;

	for (int i = 0; i < 2; i++) {
		struct sc_transfer transfer = {.device = &machine.device,
					       .fabric = &fabric,
					       .shape = {kinds[i], 64 * MIB, SC_BF16},
					       .n_ranks = 8};
		struct sc_cost mine = cost_of(SC_ALGO_COPY, kinds[i], 64 * MIB, NODE), theirs;

		sc_interfere_copy(&transfer, 1, 7, &theirs);
		ck_assert_double_eq_tol(sc_cost_alone_us(&mine), sc_cost_alone_us(&theirs), 1e-9);
		for (int r = 0; r < SC_N_RES; r++)
			if (r != SC_RES_L2) /* the study's alone */
				ck_assert_double_eq_tol(mine.demand[r], theirs.demand[r], 1e-12);
		ck_assert_double_eq(mine.demand[SC_RES_SM], 0);
	}
	for (double bytes = 1024; bytes < 1024 * MIB && !(crossed > 0); bytes *= 2)
		if (time_of(SC_ALGO_COPY, SC_ALL_GATHER, bytes, NODE) <
		    time_of(SC_ALGO_RING, SC_ALL_GATHER, bytes, NODE))
			crossed = bytes;
	ck_assert_double_ge(crossed, MIB);
	ck_assert_double_le(crossed, 64 * MIB);
}

/* Of eight GPUs that are joined pair by pair four use three of a port's seven links. */
TEST(copies_on_a_mesh)
{
	const struct sc_span four = {4, 1, 4};
	struct sc_cost cost;

	fabric.topology = SC_LINK_MESH;
	cost = cost_of(SC_ALGO_COPY, SC_ALL_GATHER, 64 * MIB, four);
	ck_assert_double_eq_tol(cost.work_us,
				sc_bytes_us(48 * MIB, fabric.link_gbps * fabric.link.eff *
							      fabric.copy_speed * 3 / 7),
				1e-6);
	ck_assert_double_eq_tol(cost.demand[SC_RES_LINK], 3.0 / 7, 1e-9);
}

/* Phases one after the other, each as its like alone; half the NICs take twice as long between
 * nodes. */
TEST(phases_are_summed)
{
	const struct sc_span rail = {4, 4, 1};
	const double bytes = 1024 * MIB, part = bytes / 8;
	double want = time_of(SC_ALGO_RING, SC_REDUCE_SCATTER, bytes, NODE) +
		      time_of(SC_ALGO_RING, SC_ALL_GATHER, bytes, NODE),
	       between;
	struct sc_cost all, half;

	between = fmin(time_of(SC_ALGO_RING, SC_ALL_REDUCE, part, rail),
		       time_of(SC_ALGO_TREE, SC_ALL_REDUCE, part, rail));
	all = cost_of(SC_ALGO_HIERARCHICAL, SC_ALL_REDUCE, bytes, NODES);
	ck_assert_double_eq_tol(sc_cost_alone_us(&all), want + between, 1e-6 * want);
	fabric.nics_per_node = 4;
	half = cost_of(SC_ALGO_HIERARCHICAL, SC_ALL_REDUCE, bytes, NODES);
	ck_assert_double_gt(half.work_us, all.work_us + 0.9 * between);
	for (int r = 0; r < SC_N_RES; r++)
		ck_assert_double_le(half.demand[r], 1);
}

/* A network's bytes: each node's part of an all-gather crosses its NICs once from each of the
 * others. */
TEST(phases_load_nics)
{
	struct sc_cost cost = cost_of(SC_ALGO_HIERARCHICAL, SC_ALL_GATHER, 1024 * MIB, NODES);
	double node_gbps = 8 * fabric.nic_gbps * fabric.net.eff;

	ck_assert_double_eq_tol(cost.demand[SC_RES_NIC] * cost.work_us * 8,
				sc_bytes_us(1024 * MIB * 3 / 4, node_gbps), 1);
}

LOOP_TEST(never_falls_with_bytes, 11)
{
	static const struct {
		enum sc_algo algo;
		enum sc_collective kind;
		bool nodes;
	} cases[] = {{SC_ALGO_SYMMETRIC, SC_ALL_REDUCE, false},
		     {SC_ALGO_SYMMETRIC, SC_ALL_GATHER, false},
		     {SC_ALGO_SYMMETRIC, SC_REDUCE_SCATTER, false},
		     {SC_ALGO_COPY, SC_ALL_TO_ALL, false},
		     {SC_ALGO_COPY, SC_GATHER, false},
		     {SC_ALGO_HIERARCHICAL, SC_REDUCE, true},
		     {SC_ALGO_HIERARCHICAL, SC_ALL_REDUCE, true},
		     {SC_ALGO_HIERARCHICAL, SC_ALL_GATHER, true},
		     {SC_ALGO_HIERARCHICAL, SC_REDUCE_SCATTER, true},
		     {SC_ALGO_HIERARCHICAL, SC_BROADCAST, true},
		     {SC_ALGO_HIERARCHICAL, SC_ALL_TO_ALL, true}};
	struct sc_span span = cases[_i].nodes ? NODES : NODE;
	double last = 0;

	ck_assert_ptr_null(sc_algo_unfit(&fabric, cases[_i].kind, &span, cases[_i].algo));
	for (double bytes = 1; bytes < 1e12; bytes *= 1.3) {
		struct sc_cost cost = cost_of(cases[_i].algo, cases[_i].kind, bytes, span);
		double us = sc_cost_alone_us(&cost);

		ck_assert_double_ge(us, last);
		for (int r = 0; r < SC_N_RES; r++) {
			ck_assert_double_ge(cost.demand[r], 0);
			ck_assert_double_le(cost.demand[r], 1);
		}
		last = us;
	}
}

/* What cannot be takes the library's choice, in a config with a warning that says why. */
LOOP_TEST(what_cannot_be_is_said, 7)
{
	static const struct {
		enum sc_algo algo;
		enum sc_collective kind;
		bool nodes;
	} cases[] = {{SC_ALGO_SYMMETRIC, SC_ALL_REDUCE, true},
		     {SC_ALGO_SYMMETRIC, SC_ALL_TO_ALL, false},
		     {SC_ALGO_COPY, SC_REDUCE_SCATTER, false},
		     {SC_ALGO_COPY, SC_ALL_GATHER, true},
		     {SC_ALGO_HIERARCHICAL, SC_ALL_REDUCE, false},
		     {SC_ALGO_TREE, SC_ALL_GATHER, false},
		     {SC_ALGO_SHARP, SC_ALL_REDUCE, true}};
	struct sc_span span = cases[_i].nodes ? NODES : NODE;
	const struct sc_collective_shape shape = {cases[_i].kind, 64 * MIB, SC_BF16};
	struct sc_cost own = sc_collective_cost(&fabric, &shape, &span, NULL);

	ck_assert_ptr_nonnull(sc_algo_unfit(&fabric, cases[_i].kind, &span, cases[_i].algo));
	ck_assert_double_eq_tol(time_of(cases[_i].algo, cases[_i].kind, 64 * MIB, span),
				sc_cost_alone_us(&own), 1e-9);
}

TEST(names_in_a_config)
{
	const struct sc_collective_shape gather = {SC_ALL_GATHER, 64 * MIB, SC_BF16};
	struct sc_warnings warnings = {.n = 0};
	struct sc_collective_choice choice;

	machine.config.cluster.algorithms.all_gather = "copy_engine";
	machine.config.cluster.algorithms.all_reduce = "tree";
	ck_assert_int_eq(sc_collective_files_load(&machine, &arena, &fabric, NULL), 0);
	sc_collective_cost(&fabric, &gather, &NODE, &choice);
	ck_assert_int_eq((int)choice.algo, SC_ALGO_COPY);
	sc_collective_cost(&fabric, &gather, &NODES, &choice);
	ck_assert_int_eq((int)choice.algo, SC_ALGO_RING);
	sc_collective_files_warn(&fabric, &warnings);
	ck_assert_uint_eq(warnings.n, 2); /* not between nodes; no all-reduce was asked for */
	machine.config.cluster.algorithms.all_gather =
		machine.config.cluster.algorithms.all_reduce = NULL;
}
