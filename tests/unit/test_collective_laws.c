/* Laws of collectives that hold for any machine: bytes that must pass a port, a bisection or a
 * node's NICs; forced algorithms against the library's choice. Over shipped machines, so with their
 * fitted coefficients. */
#include "arena_fixture.h"
#include "base/rng.h"
#include "base/units.h"
#include "models/collective/collective_priv.h"
#include "runner.h"

#define MIB SC_BYTES_PER_MIB
enum { N_RANKS = 6 };

static const char *const GPUS[] = {"v100-sxm-32gb", "a100-sxm-80gb", "h100-sxm-80gb",
				   "b200-sxm-180gb", "mi300x"};
enum { N_GPUS = sizeof(GPUS) / sizeof(GPUS[0]) };

static struct sc_fabric fabric_of(const char *gpu)
{
	struct sc_request *request = sc_arena_calloc(&arena, 1, sizeof(*request));
	struct sc_cluster *cluster = &request->config.cluster;
	struct sc_fabric fabric;

	sc_config_init(&request->config);
	ck_assert_int_eq(sc_device_load(gpu, &arena, &request->device, NULL), 0);
	ck_assert_int_eq(sc_fabric_profile_load("default", &arena, &request->fabric_profile, NULL),
			 0);
	request->config.gpus = 64;
	cluster->gpus_per_node = cluster->scale_up_gpus = cluster->nics_per_node = 8;
	cluster->nic_gbit_s = 200;
	ck_assert_int_eq(sc_fabric_from_request(request, &fabric, NULL), 0);
	return fabric;
}

static struct sc_cost cost_of(const struct sc_fabric *f, enum sc_collective kind, double bytes,
			      struct sc_span span)
{
	const struct sc_collective_shape shape = {kind, bytes, SC_BF16};

	return sc_collective_cost(f, &shape, &span, NULL);
}

static double time_of(const struct sc_fabric *f, enum sc_collective kind, double bytes,
		      struct sc_span span)
{
	struct sc_cost cost = cost_of(f, kind, bytes, span);

	return sc_cost_alone_us(&cost);
}

static struct sc_span span_of(int nodes, int per_node)
{
	return (struct sc_span){nodes * per_node, nodes, per_node};
}

FIXTURE(arena_begin, arena_end)

/* One rank moves nothing, and no bytes need no time, whatever is asked of whom. */
TEST(nothing_is_nothing)
{
	for (int g = 0; g < N_GPUS; g++) {
		struct sc_fabric f = fabric_of(GPUS[g]);

		for (int k = 0; k < SC_N_COLLECTIVES; k++) {
			struct sc_cost one = cost_of(&f, (enum sc_collective)k, MIB, span_of(1, 1));
			struct sc_cost none = cost_of(&f, (enum sc_collective)k, 0, span_of(2, 8));

			ck_assert_double_eq(sc_cost_alone_us(&one) + sc_cost_alone_us(&none), 0);
		}
	}
}

/* Large sizes on one rate: busbw is the rate of the links for any number of ranks; algbw that of
 * two ranks, and n / (n - 1) of it where each rank has its part already. */
TEST(large_sizes)
{
	struct sc_fabric f = fabric_of("a100-sxm-80gb");
	double s = 1e13, rate = f.link_gbps * f.link.eff;

	f.link.copy_gbps = 1e9;
	for (int n = 2; n <= 8; n++) {
		struct sc_span span = span_of(1, n);
		double part = (n - 1.0) / n;

		ck_assert_double_eq_tol(sc_bytes_us(s, 1) / rate * 2 * part /
						time_of(&f, SC_ALL_REDUCE, s, span),
					1, 1e-4);
		ck_assert_double_eq_tol(sc_bytes_us(s, 1) / rate * part /
						time_of(&f, SC_ALL_GATHER, s, span),
					1, 1e-4);
		ck_assert_double_eq_tol(sc_bytes_us(s, 1) / rate * part /
						time_of(&f, SC_REDUCE_SCATTER, s, span),
					1, 1e-4);
		ck_assert_double_eq_tol(sc_bytes_us(s, 1) / rate / f.link.p2p_eff * part /
						time_of(&f, SC_ALL_TO_ALL, s, span),
					1, 1e-4);
	}
}

/* Bytes through a rank's port: 2 (n - 1) / n of an all-reduce by rings, as many as of its two
 * halves; each once where the switch adds. */
TEST(bytes_of_a_port)
{
	for (int g = 0; g < N_GPUS; g++) {
		struct sc_fabric f = fabric_of(GPUS[g]);
		double bytes = 256 * MIB, sum = 0, port = f.link_gbps * f.link.eff;
		static const enum sc_collective halves[] = {SC_REDUCE_SCATTER, SC_ALL_GATHER};
		struct sc_cost cost;

		for (int h = 0; h < 2; h++) {
			cost = cost_of(&f, halves[h], bytes, span_of(1, 8));
			sum += cost.demand[SC_RES_LINK] * cost.work_us;
		}
		ck_assert_double_eq_tol(sum / sc_bytes_us(bytes * 14 / 8, port), 1, 1e-6);
		f.asked[SC_ALL_REDUCE] = 1 + SC_ALGO_RING;
		cost = cost_of(&f, SC_ALL_REDUCE, bytes, span_of(1, 8));
		ck_assert_double_eq_tol(cost.demand[SC_RES_LINK] * cost.work_us / sum, 1, 1e-6);
		f.asked[SC_ALL_REDUCE] = 1 + SC_ALGO_NVLS;
		cost = cost_of(&f, SC_ALL_REDUCE, bytes, span_of(1, 8));
		if (f.link.nvls_eff > 0)
			ck_assert_double_ge(cost.demand[SC_RES_LINK] * cost.work_us,
					    sc_bytes_us(bytes, port) * (1 - 1e-9));
	}
}

/* Over random machines, sizes and nodes: no faster than the bytes that leave a node over all its
 * NICs' line rate, a rank over its port, or half of the ranks to the other half. */
TEST(bounds)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 21);
	for (int i = 0; i < n_cases(2000); i++) {
		struct sc_fabric f = fabric_of(GPUS[sc_rng_below(&rng, N_GPUS)]);
		int nodes = 2 << sc_rng_below(&rng, 3);
		double s = exp(8 + 16 * sc_rng_uniform(&rng)), n = 8.0 * nodes;
		double nics = 8 * f.nic_gbps, away = (nodes - 1.0) / nodes;
		struct sc_span many = span_of(nodes, 8), one = span_of(1, 8);

		ck_assert_double_ge(time_of(&f, SC_ALL_GATHER, s, many),
				    sc_bytes_us(s * away, nics));
		ck_assert_double_ge(time_of(&f, SC_REDUCE_SCATTER, s, many),
				    sc_bytes_us(s * away, nics));
		ck_assert_double_ge(time_of(&f, SC_BROADCAST, s, many), sc_bytes_us(s, nics));
		ck_assert_double_ge(time_of(&f, SC_ALL_REDUCE, s, many), sc_bytes_us(s, nics));
		/* (n / 2)^2 pairs over the NICs of half of the nodes */
		ck_assert_double_ge(time_of(&f, SC_ALL_TO_ALL, s, many),
				    sc_bytes_us(n / 2 * (n / 2) * s / n, nics * nodes / 2));
		ck_assert_double_ge(time_of(&f, SC_BROADCAST, s, one), sc_bytes_us(s, f.link_gbps));
		ck_assert_double_ge(time_of(&f, SC_ALL_TO_ALL, s, one),
				    sc_bytes_us(s * 7 / 8, f.link_gbps));
		ck_assert_double_ge(time_of(&f, SC_ALL_GATHER, s, one),
				    sc_bytes_us(s * 7 / 8, f.link_gbps));
		sc_arena_release(&arena);
		sc_arena_init(&arena, 1 << 16);
	}
}

/* Of all that can be forced the library's choice is the fastest. */
TEST(the_choice_is_the_fastest)
{
	static const enum sc_algo own[] = {SC_ALGO_RING, SC_ALGO_TREE, SC_ALGO_NVLS};
	struct sc_span spans[] = {span_of(1, 8), span_of(2, 8), span_of(8, 8)};

	for (int g = 0; g < N_GPUS; g++) {
		struct sc_fabric f = fabric_of(GPUS[g]);

		for (int s = 0; s < 3; s++)
			for (double bytes = 256; bytes < 1e11; bytes *= 7) {
				double least = HUGE_VAL, us;

				memset(f.asked, 0, sizeof(f.asked));
				us = time_of(&f, SC_ALL_REDUCE, bytes, spans[s]);
				for (int a = 0; a < 3; a++) {
					f.asked[SC_ALL_REDUCE] = 1 + (int)own[a];
					least = fmin(least,
						     time_of(&f, SC_ALL_REDUCE, bytes, spans[s]));
				}
				ck_assert_double_eq_tol(us / least, 1, 1e-9);
			}
	}
}

/* A reduction is a broadcast backwards, a scatter a gather: as long. What one rank sends or gets
 * passes its own port, and its own NICs between nodes; a broadcast all of it. */
TEST(one_rank_and_all)
{
	for (int g = 0; g < N_GPUS; g++) {
		struct sc_fabric f = fabric_of(GPUS[g]);

		for (int nodes = 1; nodes <= 8; nodes *= 2)
			for (double bytes = 64; bytes < 1e11; bytes *= 9) {
				struct sc_span span = span_of(nodes, 8);
				double away = (nodes - 1.0) / nodes, us;

				us = time_of(&f, SC_BROADCAST, bytes, span);
				ck_assert_double_eq_tol(time_of(&f, SC_REDUCE, bytes, span), us,
							1e-9 * us);
				us = time_of(&f, SC_GATHER, bytes, span);
				ck_assert_double_eq_tol(time_of(&f, SC_SCATTER, bytes, span), us,
							1e-9 * us);
				ck_assert_double_ge(us, sc_bytes_us(bytes * away, f.nic_gbps));
				ck_assert_double_ge(
					us, sc_bytes_us(bytes * 7 / 8 / nodes, f.link_gbps));
				ck_assert_double_le(us, time_of(&f, SC_GATHER, bytes * 2, span));
			}
	}
}

/* Hops that must follow each other: 2 (n - 1) in a ring, log2 of the nodes down a tree. */
TEST(steps)
{
	ck_assert_int_eq(sc_ring_steps(SC_ALL_REDUCE, 8), 14);
	ck_assert_int_eq(sc_ring_steps(SC_ALL_GATHER, 8), 7);
	ck_assert_int_eq(sc_ring_steps(SC_REDUCE_SCATTER, 8), 7);
	ck_assert_int_eq(sc_ring_steps(SC_BROADCAST, 8), 8);
	for (int n = 1; n < 5000; n++) {
		ck_assert_int_le(1 << sc_floor_log2(n), n);
		ck_assert_int_gt(2 << sc_floor_log2(n), n);
	}
}
