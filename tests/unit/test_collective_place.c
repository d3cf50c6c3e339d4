/* Which GPUs jobs get: known answers of a DGX-1, laws over random jobs, and what has nothing to choose. */
#include "arena_fixture.h"
#include "base/rng.h"
#include "runner.h"
#include "study/collective/collective_place.h"

static struct sc_request machine;
static struct sc_fabric fabric;

static void set_up(void)
{
	struct sc_cluster *cluster = &machine.config.cluster;

	arena_begin();
	sc_config_init(&machine.config);
	ck_assert_int_eq(sc_device_load("v100-sxm-16gb", &arena, &machine.device, NULL), 0);
	ck_assert_int_eq(sc_fabric_profile_load("default", &arena, &machine.fabric_profile, NULL),
			 0);
	machine.config.gpus = cluster->gpus_per_node = cluster->scale_up_gpus = 8;
	cluster->links = SC_LINKS_CUBE_MESH;
	ck_assert_int_eq(sc_fabric_from_request(&machine, &fabric, NULL), 0);
}

static int place(enum sc_collective kind, const int *sizes, size_t n,
		 struct sc_collective_place *out)
{
	const struct sc_collective_place_opts opts = {kind, 64e6, &fabric, sizes, n};

	return sc_collective_place(&opts, out, NULL);
}

FIXTURE(set_up, arena_end)

/* Eight V100 are wired as a DGX-1's where their module exists there: that of 16-GPU nodes is behind switches alone. */
TEST(a_module_of_switches_has_no_cube)
{
	machine.config.cluster.links = SC_LINKS_USUAL;
	ck_assert_int_eq(sc_fabric_from_request(&machine, &fabric, NULL), 0);
	ck_assert_int_eq(fabric.topology, SC_LINK_WIRED);
	ck_assert_int_eq(sc_device_load("v100-sxm3-32gb", &arena, &machine.device, NULL), 0);
	for (int64_t n = 4; n <= 16; n *= 2) {
		machine.config.gpus = machine.config.cluster.gpus_per_node = n;
		machine.config.cluster.scale_up_gpus = n;
		ck_assert_int_eq(sc_fabric_from_request(&machine, &fabric, NULL), 0);
		ck_assert_int_eq(fabric.topology, SC_LINK_SWITCH);
	}
}

/* Pairs get two links each where the first that are free get one or two; after a square of four the other's pairs. */
TEST(pairs_of_a_dgx1)
{
	static const int pairs[] = {2, 2, 2, 2}, after[] = {4, 2, 2};
	struct sc_collective_place p;

	ck_assert_int_eq(place(SC_ALL_REDUCE, pairs, 4, &p), 0);
	ck_assert_uint_eq(p.n_tried, 105); /* 8! / (2!^4 4!) */
	for (int j = 0; j < 4; j++) {
		ck_assert_double_eq_tol(p.in_turn.jobs[j].gbps, j & 1 ? 50 : 25, 1e-9);
		ck_assert_double_eq_tol(p.best.jobs[j].gbps, 50, 1e-9);
	}
	ck_assert_int_eq(place(SC_ALL_REDUCE, after, 3, &p), 0);
	ck_assert_double_eq_tol(p.best.jobs[0].gbps, 100, 1e-9);
	ck_assert_double_eq_tol(p.best.jobs[1].gbps + p.best.jobs[2].gbps, 100, 1e-9);
	ck_assert_double_lt(p.best.sum_us, p.in_turn.sum_us);
}

/* The whole node is what the model has for it without a choice. */
TEST(all_gpus_are_the_node)
{
	static const int eight[] = {8};
	const struct sc_collective_shape shape = {SC_ALL_GATHER, 64e6, SC_FP32};
	const struct sc_span node = {8, 1, 8};
	struct sc_cost cost;
	struct sc_collective_place p;

	fabric.curves.n = 0;
	cost = sc_collective_cost(&fabric, &shape, &node, NULL);
	ck_assert_int_eq(place(SC_ALL_GATHER, eight, 1, &p), 0);
	ck_assert_double_eq_tol(p.best.sum_us, sc_cost_alone_us(&cost), 1e-6);
}

/* No GPU twice, all of each job; the best is no worse than the first; one job more is never faster for all. */
TEST(laws)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 3);
	for (int i = 0; i < n_cases(20); i++) {
		int sizes[SC_PLACE_MOST_JOBS], left = 8;
		struct sc_collective_place p, fewer;
		unsigned taken = 0;
		size_t n = 0;

		for (; n < 3 && left > 0; n++) {
			sizes[n] = 1 + (int)sc_rng_below(&rng, (uint64_t)(left < 4 ? left : 4));
			left -= sizes[n];
		}
		ck_assert_int_eq(place(SC_REDUCE_SCATTER, sizes, n, &p), 0);
		for (size_t j = 0; j < n; j++) {
			ck_assert_int_eq(p.best.jobs[j].n, sizes[j]);
			for (int g = 0; g < sizes[j]; g++) {
				ck_assert_uint_eq(taken >> p.best.jobs[j].gpus[g] & 1, 0);
				taken |= 1u << p.best.jobs[j].gpus[g];
			}
		}
		ck_assert_double_le(p.best.sum_us, p.in_turn.sum_us);
		if (n < 2)
			continue;
		ck_assert_int_eq(place(SC_REDUCE_SCATTER, sizes, n - 1, &fewer), 0);
		ck_assert_double_le(fewer.best.sum_us, p.best.sum_us * (1 + 1e-9));
	}
}

TEST(nothing_to_choose)
{
	static const int sizes[] = {4, 4, 4};
	struct sc_collective_place p;

	ck_assert_int_eq(place(SC_ALL_REDUCE, sizes, 3, &p), -(int)SC_ECONFLICT);
	ck_assert_int_eq(place(SC_ALL_TO_ALL, sizes, 2, &p), -(int)SC_EUNSUPPORTED);
	fabric.topology = SC_LINK_SWITCH;
	ck_assert_int_eq(place(SC_ALL_REDUCE, sizes, 2, &p), -(int)SC_EUNSUPPORTED);
}
