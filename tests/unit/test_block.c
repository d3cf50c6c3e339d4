/* Blocks: a summary says exactly what simulating the block's ops says, alone and in chains. */
#include "base/rng.h"
#include "predict/block.h"
#include "predict/op_names.h"
#include "runner.h"

static struct sc_build_scratch scratch;
static struct sc_arena arena;
/* The host runs ahead; it waits for each block. */
static const struct sc_block_env envs[] = {{.slowdown = 1}, {.slowdown = 1, .host_waits = true}};
static const struct sc_block_env env = {.slowdown = 1};

static void set_up(void)
{
	sc_arena_init(&arena, 1 << 16);
	sc_build_scratch_init(&scratch, &arena);
}

static void tear_down(void)
{
	sc_build_scratch_release(&scratch);
	sc_arena_release(&arena);
}

static double draw_us(struct sc_rng *rng, double most)
{
	return sc_quantize_us(most * sc_rng_uniform(rng));
}

static void random_block(struct sc_rng *rng, struct sc_block *block)
{
	size_t n = 1 + (size_t)(12 * sc_rng_uniform(rng));
	double host_us = 40 * sc_rng_uniform(rng);

	sc_block_clear(block);
	for (size_t i = 0; i < n; i++) {
		struct sc_step step = {.kind = SC_STEP_KERNEL, .name = SC_NAME_QKV};
		double what = sc_rng_uniform(rng);

		step.host_us = draw_us(rng, host_us);
		if (what < 0.15) {
			step.kind = SC_STEP_HOST;
		} else {
			step.cost.work_us = draw_us(rng, 60);
			step.cost.latency_us = draw_us(rng, 5);
			step.cost.owner_frac[what < 0.6 ? SC_OWN_COMPUTE : SC_OWN_MEMORY] = 1;
		}
		if (what > 0.85) {
			step.kind = SC_STEP_COMM;
			step.hidden = (uint8_t)(3 * sc_rng_uniform(rng));
		}
		SC_VEC_PUSH(&block->steps, step);
	}
}

/* A block that the host waits for ends on the GPU. */
static void end_on_gpu(struct sc_block *block)
{
	while (block->steps.n > 0 && block->steps.at[block->steps.n - 1].kind == SC_STEP_HOST)
		block->steps.n--;
}

static uint32_t lone_group(void *ctx, const struct sc_step *step, uint32_t cost)
{
	struct sc_member self = {0, 1};

	return sc_graph_add_group(ctx, (struct sc_node_use){cost, step->name}, &self, 1);
}

/* End of the compute lane when `n` blocks run one after the other, the lane busy until busy_us. */
static double run_ops(const struct sc_block *blocks, int n, double busy_us, bool host_waits)
{
	struct sc_class one = {.multiplicity = 1, .ranks_per_domain = 1, .slowdown = 1};
	struct sc_cost zero = {0}, busy = {.work_us = busy_us};
	struct sc_timeline tl = {0};
	struct sc_graph g;
	struct sc_emit emit = {
		.graph = &g,
		.comm_group = lone_group,
		.ctx = &g,
		.host_waits = host_waits,
	};
	uint32_t costs[64];
	double end;

	sc_graph_init(&g);
	sc_graph_add_class(&g, one);
	emit.lanes.host = sc_graph_add_lane(&g, 0, SC_LANE_HOST);
	emit.lanes.compute = sc_graph_add_lane(&g, 0, SC_LANE_COMPUTE);
	emit.lanes.comm = sc_graph_add_lane(&g, 0, SC_LANE_COMM);
	emit.zero_cost = sc_graph_add_cost(&g, &zero);
	emit.compute_dep =
		sc_graph_add_node(&g, SC_NODE_KERNEL, emit.lanes.compute,
				  (struct sc_node_use){sc_graph_add_cost(&g, &busy), SC_NONE});
	for (int b = 0; b < n; b++) {
		for (int i = 0; i < 64; i++)
			costs[i] = SC_NONE;
		sc_block_emit(&blocks[b], &emit, costs);
	}
	sc_graph_seal(&g);
	ck_assert_int_eq(sc_simulate(scratch.sim, &g, NULL, &tl, NULL), 0);
	end = tl.end_us[emit.compute_dep];
	sc_timeline_release(&tl);
	sc_graph_release(&g);
	return end;
}

/* The end that the summaries predict. */
static double run_summary(const struct sc_summary *sum, double busy_us)
{
	return fmax(busy_us, sum->lead_us) + sum->gpu_us;
}

FIXTURE(set_up, tear_down)

LOOP_TEST(chains_equal_their_ops, 8)
{
	const struct sc_block_env *of = &envs[_i % 2];
	struct sc_rng rng;

	sc_rng_init(&rng, (uint64_t)_i + 1);
	for (int round = 0; round < 50; round++) {
		struct sc_block block[4] = {0};
		struct sc_summary sum = {0};
		double busy_us = draw_us(&rng, 2000);

		for (int b = 0; b < 4; b++) {
			random_block(&rng, &block[b]);
			if (of->host_waits)
				end_on_gpu(&block[b]);
			ck_assert_int_eq(sc_block_summarize(&block[b], of, &scratch, NULL), 0);
			sum = b ? sc_summary_then(&sum, &block[b].sum) : block[0].sum;
		}
		ck_assert_double_eq_tol(run_ops(block, 4, busy_us, of->host_waits),
					run_summary(&sum, busy_us), 1e-6);
		for (int b = 0; b < 4; b++)
			sc_block_release(&block[b]);
	}
}

TEST(repeat_is_a_chain_of_itself)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 77);
	for (int round = 0; round < 100; round++) {
		struct sc_block block = {0};
		struct sc_summary chain, repeat;

		random_block(&rng, &block);
		ck_assert_int_eq(sc_block_summarize(&block, &envs[round % 2], &scratch, NULL), 0);
		chain = block.sum;
		for (int i = 1; i < 7; i++)
			chain = sc_summary_then(&chain, &block.sum);
		repeat = sc_summary_repeat(&block.sum, 7);
		ck_assert_double_eq_tol(chain.host_us, repeat.host_us, 1e-6);
		ck_assert_double_eq_tol(chain.gpu_us, repeat.gpu_us, 1e-6);
		ck_assert_double_eq_tol(chain.lead_us, repeat.lead_us, 1e-6);
		sc_block_release(&block);
	}
}

TEST(the_gpu_waits_where_launches_block)
{
	struct sc_device device = {.host.launch_us = 4};
	struct sc_block_env of = {.device = &device, .slowdown = 1, .host_speed = 1};

	for (int blocking = 0; blocking < 2; blocking++) {
		struct sc_block block = {0};

		of.launch_blocking = blocking;
		sc_block_add_host(&block, &of, SC_NAME_QKV, 32);
		sc_block_add_wait(&block, SC_NAME_QKV, 8);
		ck_assert_int_eq(sc_block_summarize(&block, &of, &scratch, NULL), 0);
		ck_assert_double_eq_tol(block.sum.gpu_us, blocking ? 40 : 8, 1e-6);
		ck_assert_double_eq_tol(block.sum.host_us, blocking ? 0 : 32, 1e-6);
		sc_block_release(&block);
	}
}

TEST(owners_cover_the_gpu_time)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 5);
	for (int round = 0; round < 100; round++) {
		struct sc_block block = {0};
		double sum = 0;

		random_block(&rng, &block);
		ck_assert_int_eq(sc_block_summarize(&block, &env, &scratch, NULL), 0);
		for (int o = 0; o < SC_N_OWNERS; o++)
			sum += block.sum.owner_us[o];
		ck_assert_double_eq_tol(sum, block.sum.gpu_us, 1e-6);
		sc_block_release(&block);
	}
}

TEST(quantized_sums_are_exact)
{
	double a = sc_quantize_us(0.1), b = sc_quantize_us(12345.678901);

	ck_assert_double_eq_tol(a, 0.1, 1e-6);
	ck_assert(a + b - b == a && a + 3 * b - 3 * b == a);
	ck_assert(sc_quantize_us(0) == 0);
}
