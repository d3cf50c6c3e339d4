/* Collectives that begin together share what they need. Which GPUs jobs get: known answers of a
 * DGX-1, laws over random jobs, and what has nothing to choose. */
#include "arena_fixture.h"
#include "base/rng.h"
#include "runner.h"
#include "study/collective/collective_place.h"
#include "study/collective/collective_sizes.h"

enum { MOST_OTHERS = 4 };

static struct sc_arena arena;

static void setup(void)
{
	sc_arena_init(&arena, 1 << 16);
}

static void teardown(void)
{
	sc_arena_release(&arena);
}

static struct sc_fabric fabric_of(const char *gpu, int64_t gpus)
{
	struct sc_request *request = sc_arena_calloc(&arena, 1, sizeof(*request));
	struct sc_fabric out;
	struct sc_err err = {.code = SC_OK};

	sc_config_init(&request->config);
	request->config.gpus = gpus;
	request->config.cluster.gpu = gpu;
	request->config.cluster.gpus_per_node = request->config.cluster.nics_per_node = 8;
	request->config.cluster.nic_gbit_s = 400;
	ck_assert(sc_device_load(gpu, &arena, &request->device, &err) == 0 &&
		  sc_fabric_profile_load("default", &arena, &request->fabric_profile, &err) == 0);
	ck_assert_msg(sc_fabric_from_request(request, &out, &err) == 0, "%s", err.text);
	return out;
}

static double alone_us(const struct sc_fabric *f, const struct sc_span *span,
		       const struct sc_collective_shape *shape)
{
	struct sc_cost cost = sc_collective_cost(f, shape, span, NULL);

	return sc_cost_alone_us(&cost);
}

static double run(const struct sc_fabric *f, const struct sc_span *span,
		  const struct sc_collective_shape *shapes, size_t n_others)
{
	double us;

	ck_assert_int_eq(
		sc_collective_together_us(f, span, shapes, shapes + 1, n_others, &us, NULL), 0);
	return us;
}

FIXTURE(setup, teardown)

/* Two that fill the links each have half of them; what waits for latencies alone loses nothing. */
TEST(links_are_halved)
{
	const struct sc_span node = {8, 1, 8};
	struct sc_fabric f = fabric_of("a100-sxm-80gb", 8);
	struct sc_collective_shape two[] = {{.kind = SC_ALL_REDUCE, .bytes = 1e9},
					    {.kind = SC_ALL_REDUCE, .bytes = 1e9}};
	struct sc_cost cost = sc_collective_cost(&f, &two[0], &node, NULL);
	double share = cost.demand[SC_RES_LINK];

	ck_assert_double_gt(share, 0.9);
	ck_assert_double_eq_tol(run(&f, &node, two, 1), cost.latency_us + 2 * share * cost.work_us,
				1e-6 * cost.work_us);
	two[0].bytes = 8;
	ck_assert_double_eq_tol(run(&f, &node, two, 1), alone_us(&f, &node, &two[0]), 0.01);
}

/* Two share the NICs of their own ranks, however many NICs the node has besides: rings fill them,
 * what goes to peers leaves some of them alone. */
LOOP_TEST(nics_are_halved, 4)
{
	static const struct sc_span spans[] = {{32, 4, 8}, {16, 2, 8}, {4, 4, 1}, {2, 2, 1}};
	static const struct {
		enum sc_collective kind;
		double least;
	} cases[] = {{SC_REDUCE_SCATTER, 1.95},
		     {SC_ALL_GATHER, 1.95},
		     {SC_ALL_TO_ALL, 1.1},
		     {SC_SEND_RECV, 1.1}};
	struct sc_fabric f = fabric_of("h100-sxm-80gb", 32);

	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		struct sc_collective_shape one = {.kind = cases[k].kind, .bytes = 4e9};
		struct sc_collective_shape two[] = {one, one};
		struct sc_cost cost = sc_collective_cost(&f, &one, &spans[_i], NULL);
		double load = sc_collective_nic_load(&f, one.kind, &spans[_i], &cost);
		double us = run(&f, &spans[_i], two, 1);

		ck_assert_double_ge(us, cases[k].least * alone_us(&f, &spans[_i], &one));
		ck_assert_double_eq_tol(us, cost.latency_us + 2 * load * cost.work_us, 1e-6 * us);
	}
}

/* Not faster than alone, not slower than one after the other, and the order of the others is
 * nothing. */
TEST(between_alone_and_in_turn)
{
	static const char *const gpus[] = {"a100-sxm-80gb", "h100-sxm-80gb", "mi300x", "l40s"};
	struct sc_rng rng;

	sc_rng_init(&rng, 11);
	for (int i = 0; i < n_cases(1000); i++) {
		int nodes = 1 + (int)sc_rng_below(&rng, 4);
		struct sc_fabric f = fabric_of(gpus[sc_rng_below(&rng, 4)], 8 * nodes);
		struct sc_span span = {8 * nodes, nodes, 8};
		struct sc_collective_shape shapes[1 + MOST_OTHERS], swapped[1 + MOST_OTHERS];
		size_t n = sc_rng_below(&rng, MOST_OTHERS + 1);
		double sum_us = 0, us;

		for (size_t k = 0; k <= n; k++) {
			shapes[k] = (struct sc_collective_shape){
				.kind = (enum sc_collective)sc_rng_below(&rng, SC_SEND_RECV + 1),
				.bytes = exp(25 * sc_rng_uniform(&rng))};
			swapped[k ? n + 1 - k : 0] = shapes[k];
			sum_us += alone_us(&f, &span, &shapes[k]);
		}
		us = run(&f, &span, shapes, n);
		ck_assert_double_ge(us, alone_us(&f, &span, &shapes[0]) * (1 - 1e-9));
		ck_assert_double_le(us, sum_us * (1 + 1e-9));
		if (n)
			ck_assert_double_le(run(&f, &span, shapes, n - 1), us * (1 + 1e-9));
		ck_assert_double_eq_tol(run(&f, &span, swapped, n), us, 1e-6 * us);
		sc_arena_release(&arena);
		sc_arena_init(&arena, 1 << 16);
	}
}

/* ---- collective place ---- */

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

/* Eight V100 are wired as a DGX-1's where their module exists there: that of 16-GPU nodes is behind
 * switches alone. */
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

/* Pairs get two links each where the first that are free get one or two; after a square of four the
 * other's pairs. */
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

/* No GPU twice, all of each job; the best is no worse than the first; one job more is never faster
 * for all. */
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
