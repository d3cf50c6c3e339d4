/* Collectives: NCCL's formula against hand-computed values, and the laws a time must obey. */
#include "base/units.h"
#include "models/collective/collective_priv.h"
#include "runner.h"

#define MIB (SC_BYTES_PER_MIB)

/* Round numbers, not the fitted ones: the laws hold for any. */
static const struct sc_fabric_ramp RAMP = {.nvls_slope = 5,
					   .net_slope = 60,

					   .ring_net_frac = 0.5,
					   .nvls_latency_us = 16,
					   .nvls_simple_us = 50,
					   .p2p_latency_us = 9,

					   .peer_us = 1.5,
					   .peer_fill_us = 12,
					   .pcie_eff = 0.75};

static struct sc_fabric_search search_of(int arch)
{
	if (arch >= 90)
		return (struct sc_fabric_search){30, 370.8, 48};
	return (struct sc_fabric_search){20, arch >= 80 ? 240 : 120, 48};
}

static struct sc_fabric fabric_of(int arch)
{
	return (struct sc_fabric){.link_gbps = arch >= 90 ? 450 : 300,
				  .pcie_gbps = 32,
				  .nic_gbps = 25,
				  .nics_per_node = 8,
				  .gpus_per_node = 8,
				  .link_gpus = 8,
				  .net.latency_us = 5,
				  .sm_arch = arch,
				  .link.search = search_of(arch),
				  .sm_count = 108,
				  .hbm_gbps = 2000,
				  .net.eff = 0.9,
				  .net.tree_eff = 0.5,
				  .net.p2p_eff = 0.8,
				  .net.a2a_eff = 0.6,
				  .net.simple_us = 10,
				  .link.eff = 0.8,
				  .link.p2p_eff = 1,
				  .link.copy_gbps = 500,
				  .link.nvls_eff = arch >= 90 ? 0.6 : 0,
				  .ramp = RAMP};
}

static struct sc_cost cost_of(const struct sc_fabric *f, enum sc_collective kind, double bytes,
			      struct sc_span span)
{
	struct sc_collective_shape shape = {.kind = kind, .bytes = bytes, .dtype = SC_FP16};
	struct sc_cost cost;

	cost = sc_collective_cost(f, &shape, &span, NULL);
	return cost;
}

static double time_of(const struct sc_fabric *f, enum sc_collective kind, double bytes,
		      struct sc_span span)
{
	struct sc_cost cost = cost_of(f, kind, bytes, span);

	return cost.latency_us + cost.work_us;
}

static struct sc_span span_of(int nodes, int per_node)
{
	return (struct sc_span){nodes * per_node, nodes, per_node};
}

/* Oversubscribed uplinks: 1 equals none; more is never faster; an all-to-all between switches is so
 * many times slower, rings and trees are not until a switch's uplinks carry less than one node's
 * NICs; nothing under one switch is. */
TEST(tiers_slow_what_leaves_a_switch)
{
	static const enum sc_collective KINDS[] = {SC_ALL_REDUCE, SC_ALL_GATHER, SC_REDUCE_SCATTER,
						   SC_ALL_TO_ALL, SC_SEND_RECV};
	struct sc_net_tier tier = {.nodes = 4, .oversubscription = 1};
	struct sc_fabric flat = fabric_of(80), tiered;
	double bytes = 16 * 1024 * MIB;

	flat.ramp.peer_fill_us = 0; /* no uplink slows it */
	tiered = flat;
	tiered.tiers = (struct sc_structs){&tier, 1};
	tiered.host_gpus = 8;
	for (int k = 0; k < 5; k++) {
		double last = 0;

		for (tier.oversubscription = 1; tier.oversubscription < 100;
		     tier.oversubscription *= 2) {
			double us = time_of(&tiered, KINDS[k], bytes, span_of(32, 8));
			double none = time_of(&flat, KINDS[k], bytes, span_of(32, 8));

			if (tier.oversubscription < 1.5)
				ck_assert_double_eq_tol(us, none, 1e-9 * none);
			if (tier.oversubscription <= 4 && KINDS[k] != SC_ALL_TO_ALL)
				ck_assert_double_eq_tol(us, none, 1e-9 * none);
			if (KINDS[k] == SC_ALL_TO_ALL && tier.oversubscription > 1.5)
				ck_assert_double_eq_tol(us / none, tier.oversubscription * 28 / 31,
							0.02);
			ck_assert(us >= last);
			ck_assert(us >= time_of(&tiered, KINDS[k], bytes / 2, span_of(32, 8)));
			ck_assert_double_eq_tol(time_of(&tiered, KINDS[k], bytes, span_of(4, 8)),
						time_of(&flat, KINDS[k], bytes, span_of(4, 8)),
						1e-9 * none);
			last = us;
		}
		ck_assert(last > time_of(&flat, KINDS[k], bytes, span_of(32, 8)));
	}
}

/* --- NCCL's formula: graphs as NCCL's search finds them, values computed by hand --- */

#define GRAPH(kind_, n, N, arch, c, gbps)                                           \
	{                                                                           \
		.kind = (kind_), .n_ranks = (n), .n_nodes = (N), .sm_arch = (arch), \
		.channels = (c), .channel_gbps = (gbps), .amd_cpu = true            \
	}

static const struct {
	struct sc_nccl_graph graph;
	double latency[6], algbw[6]; /* ring LL LL128 Simple, tree the same; 0 = not enabled */
} GOLDEN[] = {
	{GRAPH(SC_ALL_REDUCE, 8, 1, 80, 12, 20),
	 {15.0, 40.6, 56.0, 15.2, 31.5, 64.4},
	 {50.1, 126.2, 137.1, 29.1, 85.9, 110.4}},
	{GRAPH(SC_ALL_GATHER, 8, 1, 80, 12, 20),
	 {10.8, 27.3, 32.2, 0, 0, 0},
	 {100.2, 252.3, 274.3, 0, 0, 0}},
	{GRAPH(SC_ALL_REDUCE, 8, 1, 90, 12, 30),
	 {15.0, 40.6, 56.0, 15.2, 31.5, 64.4},
	 {80.6, 189.3, 205.7, 43.6, 128.8, 165.6}},
	{GRAPH(SC_ALL_GATHER, 8, 1, 90, 12, 30),
	 {10.8, 27.3, 32.2, 0, 0, 0},
	 {161.1, 378.5, 411.4, 0, 0, 0}},
	{GRAPH(SC_ALL_REDUCE, 8, 1, 100, 16, 45),
	 {15.0, 40.6, 56.0, 15.2, 31.5, 64.4},
	 {161.1, 365.7, 411.4, 87.2, 257.6, 331.2}},
	{GRAPH(SC_ALL_REDUCE, 16, 2, 90, 8, 48),
	 {68.0, 78.0, 204.4, 25.2, 48.5, 92.4},
	 {12.0, 156.6, 204.8, 11.2, 146.8, 165.6}},
	{GRAPH(SC_ALL_REDUCE, 128, 16, 90, 8, 48),
	 {535.6, 582.0, 1772.4, 55.2, 99.5, 176.4},
	 {9.6, 148.0, 193.5, 9.5, 116.0, 144.0}},
};
enum { N_GOLDEN = sizeof(GOLDEN) / sizeof(GOLDEN[0]) };

LOOP_TEST(nccl_golden, N_GOLDEN)
{
	struct sc_nccl_model model;

	sc_nccl_tune(&GOLDEN[_i].graph, &model);
	for (int i = 0; i < 6; i++) {
		int algo = i / 3, proto = i % 3;

		ck_assert_double_eq_tol(model.algbw_gbps[algo][proto], GOLDEN[_i].algbw[i], 0.1);
		if (GOLDEN[_i].algbw[i] > 0)
			ck_assert_double_eq_tol(model.latency_us[algo][proto],
						GOLDEN[_i].latency[i], 0.1);
	}
}

/* The first power of two at which each choice is taken, 1 MiB = 1. */
static const struct {
	int golden;
	struct {
		double mib;
		enum sc_algo algo;
		enum sc_proto proto;
	} from[4];
} CHOICES[] = {
	{0,
	 {{1.0 / 1024, SC_ALGO_RING, SC_PROTO_LL},
	  {4, SC_ALGO_RING, SC_PROTO_LL128},
	  {32, SC_ALGO_RING, SC_PROTO_SIMPLE}}},
	{5,
	 {{1.0 / 1024, SC_ALGO_TREE, SC_PROTO_LL},
	  {0.25, SC_ALGO_TREE, SC_PROTO_LL128},
	  {32, SC_ALGO_RING, SC_PROTO_LL128},
	  {256, SC_ALGO_RING, SC_PROTO_SIMPLE}}},
	{6,
	 {{1.0 / 1024, SC_ALGO_TREE, SC_PROTO_LL},
	  {0.25, SC_ALGO_TREE, SC_PROTO_LL128},
	  {128, SC_ALGO_TREE, SC_PROTO_SIMPLE},
	  {2048, SC_ALGO_RING, SC_PROTO_SIMPLE}}},
};
enum { N_CHOICES = sizeof(CHOICES) / sizeof(CHOICES[0]) };

LOOP_TEST(nccl_choice_boundaries, N_CHOICES)
{
	const struct sc_nccl_graph *graph = &GOLDEN[CHOICES[_i].golden].graph;

	for (double mib = 1.0 / 1024; mib <= 8192; mib *= 2) {
		struct sc_collective_choice c = {0};
		int k = 0;

		while (k < 3 && CHOICES[_i].from[k + 1].mib > 0 &&
		       mib >= CHOICES[_i].from[k + 1].mib)
			k++;
		ck_assert(sc_nccl_choose(graph, mib * MIB, SC_N_ALGOS, &c));
		ck_assert_msg(c.algo == CHOICES[_i].from[k].algo &&
				      c.proto == CHOICES[_i].from[k].proto,
			      "%g MiB: algo %d proto %d", mib, (int)c.algo, (int)c.proto);
	}
}

/* One NIC between two nodes of V100: large messages go round a ring, 15/8 of the bytes; on A100
 * down a tree. */
TEST(large_messages_of_volta_go_round)
{
	const struct sc_span span = {16, 2, 8};
	double us[2];

	for (int i = 0; i < 2; i++) {
		struct sc_fabric f = fabric_of(i ? 80 : 70);

		f.nics_per_node = 1;
		us[i] = cost_of(&f, SC_ALL_REDUCE, 1e9, span).work_us;
	}
	ck_assert_double_eq_tol(us[0], 15.0 / 8 * us[1], 0.02 * us[0]);
}

TEST(nccl_tree_correction_range)
{
	const struct sc_nccl_graph *graph = &GOLDEN[0].graph;
	struct sc_collective_choice c = {.algo = SC_ALGO_TREE, .proto = SC_PROTO_SIMPLE};
	struct sc_nccl_model m;
	double last = 64.0 * 4194304, us; /* 64 B * 2^22 begins the last entry */

	sc_nccl_tune(graph, &m);
	us = sc_nccl_time_us(graph, &m, &c, 63);
	ck_assert_double_eq_tol(us, 64.4 + 63 / 110.4e3, 1e-9);
	us = sc_nccl_time_us(graph, &m, &c, last);
	ck_assert_double_eq_tol(us, 64.4 + last / (0.9 * 110.4e3), 1e-3);
	us = sc_nccl_time_us(graph, &m, &c, 2 * last);
	ck_assert_double_eq_tol(us, 64.4 + 2 * last / 110.4e3, 1e-3);
}

TEST(nccl_graph_of_machines)
{
	struct sc_fabric f = fabric_of(80);
	struct sc_span node = span_of(1, 8), pair = span_of(2, 8);
	struct sc_nccl_graph g;

	sc_nccl_graph_from(&f, SC_ALL_REDUCE, &node, &g);
	ck_assert_int_eq(g.channels, 12);
	ck_assert_double_eq_tol(g.channel_gbps, 20, 1e-9);
	f = fabric_of(90);
	sc_nccl_graph_from(&f, SC_ALL_REDUCE, &node, &g);
	ck_assert_int_eq(g.channels, 12);
	f.nic_gbps = 50;
	sc_nccl_graph_from(&f, SC_ALL_REDUCE, &pair, &g);
	ck_assert_int_eq(g.channels, 8);
	ck_assert_double_eq_tol(g.channel_gbps, 370.8 / 8, 2); /* 48 by NIC, 46 by NVLink */
}

/* --- times --- */

static const struct sc_span SPANS[] = {
	{2, 1, 2},  {3, 1, 3},  {4, 1, 4},  {8, 1, 8},     {2, 2, 1},      {16, 2, 8}, {8, 8, 1},
	{64, 8, 8}, {12, 2, 8}, {24, 3, 8}, {128, 128, 1}, {1024, 128, 8}, {16, 4, 4}, {6, 2, 4}};
enum { N_SPANS = sizeof(SPANS) / sizeof(SPANS[0]) };

TEST(nothing_to_do_is_free)
{
	struct sc_fabric f = fabric_of(80);
	struct sc_cost one = cost_of(&f, SC_ALL_REDUCE, MIB, span_of(1, 1));
	struct sc_cost empty = cost_of(&f, SC_ALL_GATHER, 0, span_of(1, 8));

	ck_assert_double_eq_tol(one.latency_us + one.work_us, 0, 1e-12);
	ck_assert_double_eq_tol(empty.latency_us + empty.work_us, 0, 1e-12);
	ck_assert_int_eq(one.holds_sm, 0);
	for (int r = 0; r < SC_N_RES; r++)
		ck_assert_double_eq_tol(one.demand[r] + empty.demand[r], 0, 1e-12);
}

/* Law: more bytes, slower links or slower NICs never make it faster; splitting never helps. */
LOOP_TEST(monotone_in_bytes_and_rates, 2)
{
	for (int kind = 0; kind < SC_N_COLLECTIVES; kind++)
		for (int s = 0; s < N_SPANS; s++) {
			struct sc_fabric f = fabric_of(_i ? 90 : 80), slow = f, thin = f;
			double last = 0;

			slow.link_gbps /= 2;
			thin.nic_gbps /= 2;
			for (double b = 8; b < 2e10; b *= 1.37) {
				enum sc_collective k = (enum sc_collective)kind;
				double us = time_of(&f, k, b, SPANS[s]);

				ck_assert(isfinite(us) && us > 0);
				ck_assert_double_ge(us, last);
				ck_assert_double_ge(time_of(&slow, k, b, SPANS[s]), us - 1e-9);
				ck_assert_double_ge(time_of(&thin, k, b, SPANS[s]), us - 1e-9);
				ck_assert_double_ge(2 * time_of(&f, k, b / 2, SPANS[s]), us);
				last = us;
			}
		}
}

/* Law: more NICs never make it slower: over PCIe, which feeds few, over links. */
LOOP_TEST(more_nics_are_never_slower, 4)
{
	for (int nodes = 2; nodes <= 64; nodes *= 2)
		for (double b = 8; b < 2e10; b *= 2.3) {
			struct sc_fabric f = fabric_of(_i / 2 ? 90 : 80);
			double last = HUGE_VAL;

			f.link_gbps *= _i % 2;
			for (f.nics_per_node = 1; f.nics_per_node <= 8; f.nics_per_node *= 2) {
				double us = time_of(&f, SC_ALL_REDUCE, b, span_of(nodes, 8));

				ck_assert_double_le(us, last + 1e-9);
				last = us;
			}
		}
}

/* Law: more ranks, each holding the same bytes, never make it faster. Without in-switch reduction,
 * which only larger groups may use. */
TEST(monotone_in_ranks)
{
	static const enum sc_collective GATHERED[] = {SC_ALL_GATHER, SC_REDUCE_SCATTER};
	struct sc_fabric f = fabric_of(80);

	for (double b = 1e3; b < 5e9; b *= 4) {
		double last = 0, last_net = 0;

		for (int n = 2; n <= 8; n++) {
			double us = time_of(&f, SC_ALL_REDUCE, b, span_of(1, n));

			ck_assert_double_ge(us, last);
			last = us;
		}
		for (int nodes = 2; nodes <= 256; nodes++) {
			double us = time_of(&f, SC_ALL_REDUCE, b, span_of(nodes, 8));

			ck_assert_double_ge(us, last_net);
			last_net = us;
		}
		for (int k = 0; k < 2; k++) {
			last = 0;
			for (int nodes = 2; nodes <= 256; nodes++) {
				double us = time_of(&f, GATHERED[k], b * nodes, span_of(nodes, 1));

				ck_assert_double_ge(us, last);
				last = us;
			}
		}
		last = 0;
		for (int n = 9; n <= 64; n++) { /* the last node may have fewer */
			struct sc_span span = {n, (n + 7) / 8, 8};
			double us = time_of(&f, SC_ALL_TO_ALL, b * n, span);

			ck_assert_double_ge(us, last);
			last = us;
		}
	}
}

TEST(bandwidth_limit_of_a_ring)
{
	struct sc_fabric f = fabric_of(80);
	double s = 1e12, gbps;

	f.link.copy_gbps = 1e9;
	for (int n = 2; n <= 8; n++) {
		gbps = 2.0 * (n - 1) / n * s / 1e3 / time_of(&f, SC_ALL_REDUCE, s, span_of(1, n));
		ck_assert_double_eq_tol(gbps, 240, 0.5);
		gbps = (n - 1.0) / n * s / 1e3 / time_of(&f, SC_ALL_GATHER, s, span_of(1, n));
		ck_assert_double_eq_tol(gbps, 240, 0.5);
	}
	/* eight NICs of 25 GB/s at 0.9, or one */
	gbps = 2.0 * 63 / 64 * s / 1e3 / time_of(&f, SC_ALL_REDUCE, s, span_of(8, 8));
	ck_assert_double_eq_tol(gbps, 180, 0.5);
	gbps = 2.0 * 7 / 8 * s / 1e3 / time_of(&f, SC_ALL_REDUCE, s, span_of(8, 1));
	ck_assert_double_eq_tol(gbps, 22.5, 0.1);
}

/* Nothing goes faster than its bytes through a port or a node's NICs. */
TEST(never_above_line_rate)
{
	struct sc_fabric f = fabric_of(90);

	for (double b = 1e4; b < 1e11; b *= 3) {
		ck_assert_double_ge(time_of(&f, SC_ALL_REDUCE, b, span_of(1, 8)), b / 450e3);
		ck_assert_double_ge(time_of(&f, SC_BROADCAST, b, span_of(1, 8)), b / 450e3);
		ck_assert_double_ge(time_of(&f, SC_SEND_RECV, b, span_of(2, 1)), b / 25e3);
		ck_assert_double_ge(time_of(&f, SC_ALL_TO_ALL, b, span_of(2, 8)), b / 2 / 25e3);
		ck_assert_double_ge(time_of(&f, SC_ALL_REDUCE, b, span_of(2, 8)), b / 200e3);
		ck_assert_double_ge(time_of(&f, SC_REDUCE_SCATTER, b, span_of(4, 8)),
				    b * 31 / 32 / 200e3);
	}
}

/* Two halves take at least what the whole takes without its latency; without bounds on rates only
 * latency is left. */
TEST(halves_and_endless_rates)
{
	static const enum sc_collective KINDS[] = {SC_ALL_REDUCE, SC_ALL_GATHER, SC_REDUCE_SCATTER,
						   SC_BROADCAST,  SC_ALL_TO_ALL, SC_SEND_RECV};
	struct sc_fabric f = fabric_of(90), endless = f;

	endless.link_gbps = endless.pcie_gbps = endless.nic_gbps = endless.link.copy_gbps = 1e30;
	endless.link.search.channel_gbps = 1e15;
	for (size_t k = 0; k < sizeof(KINDS) / sizeof(KINDS[0]); k++) {
		for (int nodes = 1; nodes <= 8; nodes *= 2) {
			struct sc_span span = span_of(nodes, 8);

			if (KINDS[k] == SC_SEND_RECV)
				span = span_of(nodes > 1 ? 2 : 1, nodes > 1 ? 1 : 2);
			for (double bytes = 1024; bytes < 1e10; bytes *= 4) {
				struct sc_cost whole = cost_of(&f, KINDS[k], bytes, span);
				double half_us = time_of(&f, KINDS[k], bytes / 2, span);

				ck_assert(2 * half_us >=
					  (sc_cost_alone_us(&whole) - whole.latency_us) *
						  (1 - 1e-9));
				ck_assert_double_eq_tol(time_of(&endless, KINDS[k], bytes, span),
							time_of(&endless, KINDS[k], 1024, span),
							1e-3);
			}
		}
	}
}

TEST(all_reduce_is_two_halves)
{
	struct sc_fabric f = fabric_of(80);

	f.link.copy_gbps = 1e9; /* an all-reduce copies one chunk, its halves one each */
	for (int s = 0; s < N_SPANS; s++) {
		double b = 4e10, whole = time_of(&f, SC_ALL_REDUCE, b, SPANS[s]);
		double halves = time_of(&f, SC_REDUCE_SCATTER, b, SPANS[s]) +
				time_of(&f, SC_ALL_GATHER, b, SPANS[s]);

		if (SPANS[s].n_nodes == 2 || SPANS[s].n_nodes == 3)
			ck_assert_double_le(whole, halves); /* a tree crosses once, a ring twice */
		else
			ck_assert_double_eq_tol(whole / halves, 1, 0.05);
	}
}

TEST(in_switch_reduction)
{
	struct sc_collective_shape shape = {.kind = SC_ALL_REDUCE, .bytes = 256 * MIB};
	struct sc_span eight = span_of(1, 8), two = span_of(1, 2);
	struct sc_fabric h = fabric_of(90), a = fabric_of(80), mesh = h;
	struct sc_collective_choice c;

	sc_collective_cost(&h, &shape, &eight, &c);
	ck_assert_int_eq((int)c.algo, SC_ALGO_NVLS);
	ck_assert_int_eq(c.channels, 16);
	sc_collective_cost(&h, &shape, &two, &c);
	ck_assert_int_eq((int)c.algo, SC_ALGO_RING);
	sc_collective_cost(&a, &shape, &eight, &c);
	ck_assert_int_eq((int)c.algo, SC_ALGO_RING);
	ck_assert_int_eq((int)c.proto, SC_PROTO_SIMPLE);
	ck_assert_int_eq(c.channels, 24);
	mesh.topology = SC_LINK_MESH;
	sc_collective_cost(&mesh, &shape, &eight, &c);
	ck_assert_int_ne((int)c.algo, SC_ALGO_NVLS);
}

TEST(demand_on_nics)
{
	struct sc_fabric f = fabric_of(80);
	struct sc_cost one = cost_of(&f, SC_ALL_REDUCE, 1e9, span_of(8, 1));
	struct sc_cost all = cost_of(&f, SC_ALL_REDUCE, 1e9, span_of(8, 8));
	struct sc_cost p2p = cost_of(&f, SC_SEND_RECV, 1e8, span_of(2, 1));
	struct sc_cost local = cost_of(&f, SC_ALL_REDUCE, 1e9, span_of(1, 8));

	ck_assert_double_eq_tol(one.demand[SC_RES_NIC], 1.0 / 8, 1e-9);
	ck_assert_double_eq_tol(all.demand[SC_RES_NIC], 1.0 / 8, 1e-9);
	ck_assert_double_eq_tol(p2p.demand[SC_RES_NIC], 0.8 / 8, 1e-9); /* p2p_eff */
	ck_assert_double_eq_tol(one.demand[SC_RES_LINK], 0, 1e-12);
	ck_assert_double_eq_tol(local.demand[SC_RES_NIC], 0, 1e-12);
	ck_assert_double_eq_tol(local.demand[SC_RES_LINK], 1, 0.1);
	ck_assert_double_lt(all.demand[SC_RES_LINK], 0.9); /* 180 of 240 GB/s */
	ck_assert_double_eq_tol(all.demand[SC_RES_LINK], 0.75, 0.01);
	ck_assert_double_eq_tol(local.demand[SC_RES_SM], 24.0 / 108, 1e-9);
	ck_assert_int_eq(local.holds_sm, 1);
	ck_assert_double_eq_tol(one.owner_frac[SC_OWN_COMM], 1, 1e-12);
	ck_assert_double_gt(one.work_us / all.work_us, 6); /* one NIC against eight */
}

TEST(several_nics_a_gpu)
{
	struct sc_fabric f = fabric_of(90);
	struct sc_cost cost;

	f.nics_per_node = 32;
	f.nic_gbps = 12.5;
	cost = cost_of(&f, SC_ALL_GATHER, 1e9, span_of(8, 1));
	ck_assert_double_eq_tol(cost.demand[SC_RES_NIC], 4.0 / 32, 1e-9);
}

TEST(fewer_nics_than_ranks)
{
	struct sc_fabric f = fabric_of(80), half = f;

	half.nics_per_node = 4;
	ck_assert_double_gt(time_of(&half, SC_ALL_REDUCE, 1e9, span_of(8, 8)),
			    1.8 * time_of(&f, SC_ALL_REDUCE, 1e9, span_of(8, 8)));
	ck_assert_double_eq_tol(time_of(&half, SC_ALL_REDUCE, 1e9, span_of(8, 4)),
				time_of(&f, SC_ALL_REDUCE, 1e9, span_of(8, 4)), 1e-6);
}

TEST(uneven_straddle)
{
	struct sc_fabric f = fabric_of(80);
	struct sc_span even = {8, 2, 4}, uneven = {8, 2, 6}, one = {8, 1, 8};

	ck_assert_int_eq(sc_span_nics(&f, &even), 4);
	ck_assert_int_eq(sc_span_nics(&f, &uneven), 2);
	ck_assert_double_gt(time_of(&f, SC_ALL_REDUCE, 1e9, uneven),
			    time_of(&f, SC_ALL_REDUCE, 1e9, even));
	ck_assert_double_gt(time_of(&f, SC_ALL_REDUCE, 1e9, even),
			    time_of(&f, SC_ALL_REDUCE, 1e9, one));
}

TEST(pcie_and_pairs)
{
	struct sc_fabric pairs = fabric_of(80), none = pairs;
	struct sc_cost two, four;

	pairs.link_gpus = 2;
	none.link_gbps = 0;
	two = cost_of(&pairs, SC_ALL_REDUCE, 1e9, span_of(1, 2));
	four = cost_of(&pairs, SC_ALL_REDUCE, 1e9, span_of(1, 4));
	ck_assert_double_gt(two.demand[SC_RES_LINK], 0.5);
	ck_assert_double_eq_tol(two.demand[SC_RES_PCIE], 0, 1e-12);
	ck_assert_double_eq_tol(four.demand[SC_RES_LINK], 0, 1e-12);
	ck_assert_double_gt(four.demand[SC_RES_PCIE], 0.9);
	ck_assert_double_ge(four.work_us, 1.5 * 1e9 / (32e3 * 0.75));
	ck_assert_double_eq_tol(time_of(&none, SC_ALL_REDUCE, 1e9, span_of(1, 4)),
				four.latency_us + four.work_us, 1e-6);
}

TEST(meshes)
{
	struct sc_fabric f = fabric_of(80), cube;

	f.gpus_per_node = f.link_gpus = 4;
	f.topology = SC_LINK_MESH;
	/* two of four: a third of the port */
	ck_assert_double_gt(time_of(&f, SC_SEND_RECV, 1e9, span_of(1, 2)), 1e9 / (0.8 * 100e3));
	ck_assert_double_eq_tol(cost_of(&f, SC_SEND_RECV, 1e9, span_of(1, 2)).demand[SC_RES_LINK],
				1.0 / 3, 1e-9);
	cube = fabric_of(70);
	cube.link_gbps = 150;
	cube.topology = SC_LINK_WIRED;
	cube.wiring = (struct sc_wiring){.n_gpus = 8, .neighbours = 4};
	cube.wiring.share[2] = 1.0 / 6;
	cube.wiring.share[8] = 1;
	ck_assert_double_gt(time_of(&cube, SC_ALL_REDUCE, 1e9, span_of(1, 2)), 1e9 / (0.8 * 25e3));
	ck_assert_double_lt(time_of(&cube, SC_ALL_REDUCE, 1e9, span_of(1, 8)),
			    time_of(&cube, SC_ALL_REDUCE, 1e9, span_of(1, 2)));
}

/* --- a request's fabric, with the profile that ships --- */

static struct sc_request request_of(struct sc_arena *arena)
{
	struct sc_request r = {0};
	struct sc_err err = {0};

	ck_assert_msg(sc_fabric_profile_load("default", arena, &r.fabric_profile, &err) == 0, "%s",
		      err.text);
	r.device = (struct sc_device){.vendor = "nvidia",
				      .sm_count = 108,
				      .cuda_capability = 80,
				      .hbm_gbps = 2039,
				      .nvlink_links = 12,
				      .nvlink_link_gbps = 25,
				      .pcie_gbps = 31};
	r.config.gpus = 16;
	r.config.cluster = (struct sc_cluster){.gpus_per_node = 8,
					       .nics_per_node = 8,
					       .scale_up_gpus = -1,
					       .nic_gbit_s = 200,
					       .nic_latency_us = -1,
					       .link_gbps = -1};
	return r;
}

TEST(fabric_of_a_request)
{
	static const int TAKEN[][2] = {{256, 64}, {1024, 64}, {1152, 72}, {1008, 72}, {1000, 72}};
	struct sc_arena arena;
	struct sc_request r;
	struct sc_fabric f;
	struct sc_err err = {0};

	sc_arena_init(&arena, 1 << 16);
	r = request_of(&arena);
	ck_assert_int_eq(sc_fabric_from_request(&r, &f, &err), 0);
	ck_assert_double_eq_tol(f.link_gbps, 300, 1e-9);
	ck_assert_double_eq_tol(f.nic_gbps, 25, 1e-9);
	ck_assert_int_eq((int)f.topology, SC_LINK_SWITCH);
	ck_assert_double_eq_tol(f.link.nvls_eff, 0, 1e-12);
	r.config.cluster.scale_up_gpus = 72; /* NVL72: 18 hosts of 4 GPUs */
	r.config.cluster.gpus_per_node = r.config.cluster.nics_per_node = 4;
	ck_assert_int_eq(sc_fabric_from_request(&r, &f, &err), 0);
	ck_assert_int_eq(f.gpus_per_node, 72);
	ck_assert_int_eq(f.nics_per_node, 72);
	for (size_t i = 0; i < sizeof(TAKEN) / sizeof(TAKEN[0]); i++) {
		r.config.gpus = TAKEN[i][0];
		ck_assert_int_eq(sc_node_gpus_of(&r), TAKEN[i][1]);
	}
	r.config.gpus = 16;
	r.config.cluster.scale_up_gpus = -1;
	ck_assert_int_eq(sc_fabric_from_request(&r, &f, &err), 0);
	ck_assert_int_eq((int)f.topology, SC_LINK_MESH);
	r.device.cuda_capability = 70;
	r.config.cluster.gpus_per_node = 8;
	ck_assert_int_eq(sc_fabric_from_request(&r, &f, &err), 0);
	ck_assert_int_eq((int)f.topology, SC_LINK_WIRED);
	r.config.cluster.nics_per_node = 0;
	ck_assert_int_eq(sc_fabric_from_request(&r, &f, &err), -SC_ECONFLICT);
	sc_arena_release(&arena);
}

/* Published measurements, microseconds: a guard on the shipped profile, not a fit. */
static const struct {
	int n, capability;
	double port, mib, us;
} MEASURED[] = {
	{8, 80, 300, 64, 580},    /* vTrain all-reduce table, A100 */
	{8, 80, 300, 1024, 8196}, /* the same */
	{2, 80, 300, 64, 405},    /* the same */
	{8, 80, 300, 16, 226},    /* SuperBench test data, A100 */
	{8, 90, 450, 64, 328},    /* SimuMax, H100 */
	{8, 90, 450, 1024, 4022}, /* the same */
};
enum { N_MEASURED = sizeof(MEASURED) / sizeof(MEASURED[0]) };

LOOP_TEST(shipped_profile_on_measurements, N_MEASURED)
{
	struct sc_arena arena;
	struct sc_request r;
	struct sc_fabric f;
	double us;

	sc_arena_init(&arena, 1 << 16);
	r = request_of(&arena);
	r.device.cuda_capability = MEASURED[_i].capability;
	r.config.cluster.link_gbps = MEASURED[_i].port;
	ck_assert_int_eq(sc_fabric_from_request(&r, &f, NULL), 0);
	us = time_of(&f, SC_ALL_REDUCE, MEASURED[_i].mib * MIB, span_of(1, MEASURED[_i].n));
	ck_assert_msg(fabs(us / MEASURED[_i].us - 1) < 0.2, "%g us, measured %g", us,
		      MEASURED[_i].us);
	sc_arena_release(&arena);
}

/* nccl-tests on p5.48xlarge, GB/s (crazyguitar/aws-gpu-communication-benchmark@a77f70db, data;
 * chunks of 512 KiB between nodes in all-to-alls, which AWS sets): a guard on EFA's shares. */
static const struct {
	enum sc_collective kind;
	int nodes;
	double mib, gbps;
} OVER_EFA[] = {
	{SC_ALL_TO_ALL, 2, 64, 66.3},     {SC_ALL_TO_ALL, 2, 2048, 84.53},
	{SC_ALL_TO_ALL, 4, 256, 56.03},   {SC_ALL_TO_ALL, 8, 64, 35.24},
	{SC_ALL_TO_ALL, 8, 2048, 50.4},   {SC_ALL_TO_ALL, 16, 512, 40.4},
	{SC_ALL_TO_ALL, 32, 128, 27.13},  {SC_ALL_TO_ALL, 32, 2048, 40.94},
	{SC_ALL_REDUCE, 2, 1024, 232.08}, {SC_ALL_REDUCE, 4, 64, 78.66},
	{SC_ALL_REDUCE, 8, 256, 117.88},  {SC_ALL_REDUCE, 8, 2048, 141.28},
	{SC_ALL_REDUCE, 16, 128, 65.11},  {SC_ALL_REDUCE, 16, 1024, 135.67},
	{SC_ALL_REDUCE, 32, 256, 69.26},  {SC_ALL_REDUCE, 32, 4096, 152},
};

LOOP_TEST(sixteen_to_256_over_efa, sizeof(OVER_EFA) / sizeof(OVER_EFA[0]))
{
	struct sc_arena arena;
	struct sc_request r;
	struct sc_fabric f;
	double gbps;

	sc_arena_init(&arena, 1 << 16);
	r = request_of(&arena);
	r.device.cuda_capability = 90;
	r.config.cluster.link_gbps = 450;
	r.config.cluster.nics_per_node = 32;
	r.config.cluster.nic_gbit_s = 100;
	r.config.cluster.fabric = "efa";
	ck_assert_int_eq(sc_fabric_from_request(&r, &f, NULL), 0);
	gbps = sc_bytes_us(OVER_EFA[_i].mib * MIB, 1) / time_of(&f, OVER_EFA[_i].kind,
								OVER_EFA[_i].mib * MIB,
								span_of(OVER_EFA[_i].nodes, 8));
	ck_assert_msg(fabs(gbps / OVER_EFA[_i].gbps - 1) < 0.2, "%g GB/s, measured %g", gbps,
		      OVER_EFA[_i].gbps);
	sc_arena_release(&arena);
}

/* A message to a peer on another node takes twice its bytes' time while it is short, and so much
 * more at most. */
TEST(a_peers_buffer_fills)
{
	struct sc_fabric f = fabric_of(90), none = f;

	none.ramp.peer_fill_us = 0;
	for (double bytes = 1 << 12; bytes < 1e11; bytes *= 8) {
		const struct sc_span span = span_of(4, 8);
		double alone = time_of(&none, SC_ALL_TO_ALL, bytes, span);
		double more = time_of(&f, SC_ALL_TO_ALL, bytes, span) - alone;
		double at_line = sc_bytes_us(bytes / 32, f.nic_gbps * f.net.eff);

		ck_assert_double_gt(more, 0);
		ck_assert_double_le(more, 24 * fmin(at_line, f.ramp.peer_fill_us));
		ck_assert_double_ge(more, 12 * fmin(at_line, f.ramp.peer_fill_us) * (1 - 1e-9));
		ck_assert_double_eq(time_of(&f, SC_ALL_TO_ALL, bytes, span_of(1, 8)),
				    time_of(&none, SC_ALL_TO_ALL, bytes, span_of(1, 8)));
	}
}

TEST(shipped_fabric_kinds)
{
	struct sc_arena arena;
	struct sc_request r;

	sc_arena_init(&arena, 1 << 16);
	r = request_of(&arena);
	ck_assert_str_eq(sc_fabric_net_get(&r.fabric_profile, "slingshot")->kind, "slingshot");
	ck_assert_str_eq(sc_fabric_net_get(&r.fabric_profile, "unheard-of")->kind, "infiniband");
	ck_assert_str_eq(sc_fabric_net_get(&r.fabric_profile, NULL)->kind, "infiniband");
	ck_assert_str_eq(sc_fabric_link_get(&r.fabric_profile, "nvidia", 60)->id, "nvlink2");
	ck_assert_str_eq(sc_fabric_link_get(&r.fabric_profile, "nvidia", 89)->id, "ada");
	ck_assert_str_eq(sc_fabric_link_get(&r.fabric_profile, "nvidia", 103)->id, "nvlink5");
	ck_assert_str_eq(sc_fabric_link_get(&r.fabric_profile, "amd", 0)->id, "xgmi");
	sc_arena_release(&arena);
}

/* A fabric with one machine's curves: between them in size and span, never falling. */
TEST(curves_go_before_the_formula)
{
	double bytes[] = {1e4, 1e6, 1e8}, few[] = {40, 90, 4000}, many[] = {160, 360, 16000};
	struct sc_fabric_curve curves[] = {{"all_reduce", 16, 2, {bytes, 3}, {few, 3}},
					   {"all_reduce", 64, 8, {bytes, 3}, {many, 3}},
					   {"all_gather", 16, 2, {bytes, 3}, {few, 3}},
					   {"all_gather", 64, 8, {bytes, 3}, {many, 3}}};
	struct sc_span two = {16, 2, 8}, four = {32, 4, 8}, sixteen = {128, 16, 8};
	struct sc_fabric plain = fabric_of(80), f = plain;

	f.curves = (struct sc_structs){curves, 4};
	ck_assert_double_eq_tol(time_of(&f, SC_ALL_REDUCE, 1e6, two), 90, 1e-9);
	ck_assert_double_eq_tol(time_of(&f, SC_ALL_REDUCE, 1e5, two), sqrt(40.0 * 90.0), 1e-9);
	/* of 40 and 160 the mean, as a tree's depth, or a third of the way, as a ring's steps; and
	 * sqrt(50 * 200) */
	ck_assert_double_eq_tol(time_of(&f, SC_ALL_REDUCE, 1e6, four), 200, 1e-9);
	ck_assert_double_eq_tol(time_of(&f, SC_ALL_GATHER, 1e6, four), 180, 1e-9);
	/* as large a block on each rank: 5e7 bytes of 16, 2e8 of 64 */
	ck_assert_double_eq_tol(
		time_of(&f, SC_ALL_REDUCE, 1e8, four),
		100 + sqrt((time_of(&f, SC_ALL_REDUCE, 5e7, two) - 40) *
			   (time_of(&f, SC_ALL_REDUCE, 2e8, (struct sc_span){64, 8, 8}) - 160)),
		1e-6);
	ck_assert_double_eq_tol(time_of(&f, SC_ALL_REDUCE, 1e6, sixteen),
				time_of(&plain, SC_ALL_REDUCE, 1e6, sixteen), 1e-9);
	ck_assert_double_eq_tol(time_of(&f, SC_REDUCE_SCATTER, 1e6, two),
				time_of(&plain, SC_REDUCE_SCATTER, 1e6, two), 1e-9);
	for (int kind = SC_ALL_REDUCE; kind <= SC_ALL_GATHER; kind++) {
		double last = 0;

		for (double b = 16; b < 1e11; b *= 1.01) {
			double us = time_of(&f, (enum sc_collective)kind, b, four);

			ck_assert(us >= last * (1 - 1e-12) && (last <= 0 || us < 1.2 * last));
			last = us;
		}
	}
}

/* Base and hops as RCCL's table has them; shares of the ring's rate instead of caps. */
TEST(rccl_constants)
{
	struct sc_nccl_graph g = {.kind = SC_ALL_REDUCE,
				  .n_ranks = 8,
				  .n_nodes = 1,
				  .sm_arch = 90,
				  .rccl = true,
				  .channels = 7,
				  .channel_gbps = 48};
	struct sc_nccl_model m;
	struct sc_collective_choice c = {.algo = SC_ALGO_RING, .proto = SC_PROTO_SIMPLE};

	sc_nccl_tune(&g, &m);
	ck_assert_double_eq_tol(m.latency_us[SC_ALGO_RING][SC_PROTO_LL], 12 + 14 * 0.8, 1e-9);
	ck_assert_double_eq_tol(m.latency_us[SC_ALGO_TREE][SC_PROTO_LL], 12 + 14 * 0.9, 1e-9);
	ck_assert_double_eq_tol(m.algbw_gbps[SC_ALGO_RING][SC_PROTO_SIMPLE], 7 * 48 * 8.0 / 14,
				1e-9);
	ck_assert_double_eq_tol(m.algbw_gbps[SC_ALGO_RING][SC_PROTO_LL], 0.08 * 7 * 48 * 8.0 / 14,
				1e-9);
	ck_assert_double_eq_tol(m.algbw_gbps[SC_ALGO_TREE][SC_PROTO_SIMPLE], 0, 1e-9);
	/* 512 MiB: corrected to 0.8 */
	ck_assert_double_eq_tol(sc_nccl_time_us(&g, &m, &c, 512 * MIB),
				17 + 14 * 2.1 + 512 * MIB / (0.8 * 7 * 48e3 * 8 / 14), 1e-6);
	ck_assert(sc_nccl_choose(&g, 4096 * MIB, SC_N_ALGOS, &c));
	ck_assert_int_eq((int)c.algo, SC_ALGO_RING);
	ck_assert_int_eq((int)c.proto, SC_PROTO_SIMPLE);
}

/* One rank on each of many nodes: trees for small gathers, rings for large ones. */
TEST(pat_of_gathers)
{
	struct sc_fabric f = fabric_of(90);
	struct sc_collective_choice c;
	const struct sc_span span = {.n_ranks = 64, .n_nodes = 64, .max_ranks_per_node = 1};
	struct sc_collective_shape shape = {.kind = SC_ALL_GATHER, .bytes = 65536};

	sc_collective_cost(&f, &shape, &span, &c);
	ck_assert_int_eq((int)c.algo, SC_ALGO_PAT);
	shape.bytes = 4e9;
	sc_collective_cost(&f, &shape, &span, &c);
	ck_assert_int_eq((int)c.algo, SC_ALGO_RING);
	shape.kind = SC_ALL_REDUCE;
	shape.bytes = 65536;
	sc_collective_cost(&f, &shape, &span, &c);
	ck_assert_int_eq((int)c.algo, SC_ALGO_TREE);
}

/* NCCL doubles the channels of a send where each would move more than 16 MiB: four of eight ranks,
 * of a pair sixteen. */
TEST(channels_of_a_send)
{
	struct sc_fabric f = fabric_of(100);
	const struct sc_span eight = span_of(1, 8), pair = span_of(1, 2);
	const double most = 16 * 1048576.0, least_us = time_of(&f, SC_SEND_RECV, 1, eight);

	f.ramp.p2p_channel_gbps = 20;
	ck_assert_double_eq_tol(time_of(&f, SC_SEND_RECV, most, eight) - least_us, most / 80e3, 1);
	ck_assert_double_eq_tol(time_of(&f, SC_SEND_RECV, 4 * most, eight) - least_us, most / 20e3,
				1);
	ck_assert_double_eq_tol(time_of(&f, SC_SEND_RECV, 8 * most, eight) - least_us, most / 20e3,
				1);
	ck_assert_double_eq_tol(time_of(&f, SC_SEND_RECV, 64 * most, eight) - least_us,
				64 * most / (450e3 * 0.8), 1);
	ck_assert_double_eq_tol(time_of(&f, SC_SEND_RECV, most, pair) - least_us, most / 320e3, 1);
}
