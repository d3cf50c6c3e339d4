/* Collectives that begin together share what they need. */
#include "base/rng.h"
#include "runner.h"
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

/* Two share the NICs of their own ranks, however many NICs the node has besides: rings fill them, what goes to peers
 * leaves some of them alone. */
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

/* Not faster than alone, not slower than one after the other, and the order of the others is nothing. */
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
