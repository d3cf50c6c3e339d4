/* Options that list fewer shards than they have, and the ledger that a placement of shards is kept
 * in. */
#include "base/rng.h"
#include "base/units.h"
#include "runner.h"
#include "study/shard/shard_ledger.h"

static struct sc_arena arena;
static struct sc_shard_problem problem;
static struct sc_table table;

static void set_up(void)
{
	sc_arena_init(&arena, 1 << 12);
	table = (struct sc_table){.name = "t", .dim = 64, .count = 1, .features = 1, .pooling = 3};
}

static void tear_down(void)
{
	sc_shard_problem_release(&problem);
	sc_arena_release(&arena);
}

static void build(int64_t rows, uint32_t world, uint32_t per_host)
{
	struct sc_torchrec_topology topology;
	struct sc_table_list list = {&table, 1, 0};
	struct sc_err err = {.code = SC_OK};

	table.rows = rows;
	sc_torchrec_topology_init(&topology);
	topology.world = world;
	topology.ranks_per_host = per_host;
	ck_assert_msg(sc_torchrec_problem(&topology, &list, &arena, &problem, &err) == 0, "%s",
		      err.text);
}

/* Rows, ranks; how many of the row-wise slices differ: whole, cut short, without rows. */
static const struct {
	int64_t rows;
	uint32_t world, per_host, n_listed;
} CASES[] = {
	{1024, 16, 8, 1}, {1030, 16, 8, 2}, {17, 16, 8, 3}, {10, 16, 8, 2},
	{1, 16, 8, 2},    {7, 4, 4, 4},     {9, 1, 1, 1},   {1000003, 96, 8, 2},
};

FIXTURE(set_up, tear_down)

LOOP_TEST(slices_cover_the_table, N_OF(CASES))
{
	build(CASES[_i].rows, CASES[_i].world, CASES[_i].per_host);
	for (size_t o = 0; o < problem.options.n; o++) {
		const struct sc_option *option = &problem.options.at[o];
		uint32_t n = sc_option_n_shards(&problem, option);
		int64_t at = 0;

		if (option->type == SC_ROW_WISE) {
			ck_assert_uint_eq(n, CASES[_i].world);
			ck_assert_uint_eq(option->n_shards, CASES[_i].n_listed);
		}
		for (uint32_t i = 0; i < n; i++) {
			struct sc_option_shard s, listed;

			sc_option_shard_get(&problem, option, i, &s);
			listed = problem.shards.at[sc_option_shard_index(&problem, option, i)];
			ck_assert_double_eq(s.cost, listed.cost);
			ck_assert_int_eq(s.rows, listed.rows);
			if (option->type != SC_ROW_WISE && option->type != SC_TABLE_ROW_WISE)
				continue;
			ck_assert_int_eq(s.row_offset, at);
			at += s.rows;
		}
		if (option->type == SC_ROW_WISE || option->type == SC_TABLE_ROW_WISE)
			ck_assert_int_eq(at, table.rows);
	}
}

/* The same option written out says the same of a plan. */
LOOP_TEST(runs_rate_as_all_do, N_OF(CASES))
{
	struct sc_shard_problem whole;
	struct sc_shard_solution runs, all;
	struct sc_solve_opts opts;
	struct sc_shard_constraint pin = {SC_PIN, 0, 0, -1, SC_ROW_WISE, SC_TIER_HBM};

	build(CASES[_i].rows, CASES[_i].world, CASES[_i].per_host);
	whole = problem;
	memset(&whole.options, 0, sizeof(whole.options));
	memset(&whole.shards, 0, sizeof(whole.shards));
	for (size_t o = 0; o < problem.options.n; o++) {
		struct sc_option option = problem.options.at[o];

		option.first_shard = (uint32_t)whole.shards.n;
		option.n_shards = sc_option_n_shards(&problem, &option);
		for (uint32_t i = 0; i < option.n_shards; i++) {
			struct sc_option_shard s;

			sc_option_shard_get(&problem, &problem.options.at[o], i, &s);
			SC_VEC_PUSH(&whole.shards, s);
		}
		SC_VEC_PUSH(&whole.options, option);
	}
	problem.constraints = whole.constraints = &pin;
	problem.n_constraints = whole.n_constraints = 1;
	opts = sc_solve_defaults;
	ck_assert_int_eq(sc_shard_solve(&problem, &opts, &arena, &runs, NULL), 0);
	ck_assert_int_eq(sc_shard_solve(&whole, &opts, &arena, &all, NULL), 0);
	ck_assert_double_eq(runs.cost, all.cost);
	ck_assert_double_eq_tol(runs.bound, all.bound, 1e-12 * all.bound);
	ck_assert_uint_eq(runs.plan.shards.n, CASES[_i].world);
	ck_assert_mem_eq(runs.rank_hbm, all.rank_hbm, sizeof(double) * CASES[_i].world);
	ck_assert_mem_eq(runs.plan.shards.at, all.plan.shards.at,
			 sizeof(struct sc_shard) * CASES[_i].world);
	ck_assert_int_eq(sc_shard_plan_check(&runs.plan, NULL), 0);
	sc_shard_plan_release(&runs.plan);
	sc_shard_plan_release(&all.plan);
	SC_VEC_RELEASE(&whole.options);
	SC_VEC_RELEASE(&whole.shards);
}

/* ---- the ledger ---- */

/* Pools fill up at unlike times, before their ranks do. */
enum { RANKS = 7, PER_POOL = 3, SHARDS = 40, HOST_CAP = 280, SSD_CAP = 840 };

/* A shard takes its bytes on its rank and from the pool of its host, where the last pool is
 * smaller; one more byte than is left has no room, and what is taken away leaves what was. */
TEST(ledger_has_what_lies_on_each_rank)
{
	double caps[RANKS], hbm[RANKS] = {0}, host[RANKS] = {0}, ssd[RANKS] = {0},
			    cost[RANKS] = {0};
	struct sc_ledger used = {.n_ranks = RANKS,
				 .per_pool = PER_POOL,
				 .hbm_cap = caps,
				 .host_cap = HOST_CAP,
				 .ssd_cap = SSD_CAP};
	struct sc_ledger was;
	struct sc_rng rng;
	uint32_t busiest;

	sc_rng_init(&rng, 5);
	was = used;
	sc_ledger_init(&used, &arena);
	sc_ledger_init(&was, &arena);
	for (uint32_t r = 0; r < RANKS; r++)
		caps[r] = 300 + 100 * r;
	for (int i = 0; i < SHARDS; i++) {
		const uint32_t r = (uint32_t)sc_rng_below(&rng, RANKS), pool = r / PER_POOL;
		const struct sc_option_shard shard = {
			.cost = (double)sc_rng_below(&rng, 50),
			.hbm_bytes = (double)sc_rng_below(&rng, 90),
			.host_bytes = (double)sc_rng_below(&rng, 2) * 70,
			.ssd_bytes = (double)sc_rng_below(&rng, 2) * 210,
		};
		const bool fits =
			hbm[r] + shard.hbm_bytes <= caps[r] &&
			(!(shard.host_bytes > 0) || host[pool] + shard.host_bytes <= HOST_CAP) &&
			(!(shard.ssd_bytes > 0) || ssd[pool] + shard.ssd_bytes <= SSD_CAP);

		ck_assert_int_eq(sc_ledger_fits(&used, &shard, r), fits);
		sc_ledger_copy(&was, &used, 0, RANKS);
		sc_ledger_add_bytes(&used, &shard, r, 1);
		ck_assert_int_eq(sc_ledger_is_over(&used, r), !fits);
		sc_ledger_add_bytes(&used, &shard, r, -1);
		ck_assert_mem_eq(used.cost, was.cost, 2 * (RANKS + 3) * sizeof(double));
		if (!fits)
			continue;
		sc_ledger_add(&used, &shard, r);
		cost[r] += shard.cost;
		hbm[r] += shard.hbm_bytes;
		host[pool] += shard.host_bytes;
		ssd[pool] += shard.ssd_bytes;
	}
	ck_assert_double_eq(sc_ledger_max(&used, &busiest), cost[busiest]);
	for (uint32_t r = 0; r < RANKS; r++) {
		ck_assert(cost[r] < cost[busiest] || (cost[r] <= cost[busiest] && r >= busiest));
		ck_assert_double_eq(used.hbm[r], hbm[r]);
		ck_assert_double_eq(used.ssd[r / PER_POOL], ssd[r / PER_POOL]);
	}
	/* of one pool alone */
	sc_ledger_clear(&was);
	sc_ledger_copy(&was, &used, PER_POOL, PER_POOL);
	ck_assert_double_eq(was.host[1], host[1]);
	ck_assert_double_eq(was.host[0] + was.host[2] + was.hbm[0] + was.hbm[2 * PER_POOL], 0);
}
