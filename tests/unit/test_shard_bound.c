/* Lower bounds of sharding problems: by hand, and never over the best of all plans. */
#include "base/rng.h"
#include "runner.h"
#include "shard_fixture.h"

static const double TOLERANCE = 1e-6;

/* 1 + 2 + 3 + 4 on 4 ranks: 2.5 by work; the largest shard alone is 4. */
TEST(test_work_and_largest_shard)
{
	static struct shard_fixture f;
	double lp, bound;

	fix_init(&f, 4, 4);
	for (int t = 1; t <= 4; t++)
		fix_whole(&f, t, 1.0);
	bound = sc_shard_bound(&f.problem, &lp);
	ck_assert_double_eq_tol(lp, 2.5, TOLERANCE);
	ck_assert_double_eq_tol(bound, 4.0, TOLERANCE * 4.0);
	fix_release(&f);
}

/* Five shards of 3 on 4 ranks: two share one, though work and size ask for no more than 3.75. */
TEST(test_two_large_shards_share_a_rank)
{
	static struct shard_fixture f;
	double lp, bound;

	fix_init(&f, 4, 4);
	for (int t = 0; t < 5; t++)
		fix_whole(&f, 3.0, 1.0);
	bound = sc_shard_bound(&f.problem, &lp);
	ck_assert_double_eq_tol(lp, 3.75, TOLERANCE);
	ck_assert_double_le(bound, 6.0 * (1.0 + TOLERANCE));
	ck_assert_double_ge(bound, 6.0 * 0.98);
	fix_release(&f);
}

/* Of 33 shards of 3, no two share one of 32 ranks: a table has to take its option of more
 * work, 3.52 on a host. */
TEST(test_large_shards_raise_the_work)
{
	static struct shard_fixture f;
	double lp, bound;

	fix_init(&f, 32, 16);
	for (int t = 0; t < 33; t++) {
		fix_whole(&f, 3.0, 1.0);
		fix_option(&f, SC_TABLE_ROW_WISE, 0.22, 1.0);
	}
	bound = sc_shard_bound(&f.problem, &lp);
	ck_assert_double_eq_tol(lp, 33 * 3.0 / 32, TOLERANCE * 4.0);
	ck_assert_double_eq_tol(bound, (32 * 3.0 + 3.52) / 32, 1e-3);
	fix_release(&f);
}

/* A table of 10 whole, or 2 on each of 4 ranks: by z = 6 the whole one is out, so 2 lies everywhere
 * and the other table, of 5, comes on top. Work alone: (8 + 5) / 4. */
TEST(test_elimination)
{
	static struct shard_fixture f;
	double lp, bound;

	fix_init(&f, 4, 4);
	fix_table(&f, 64, 16);
	fix_option(&f, SC_TABLE_WISE, 10.0, 1.0);
	fix_option(&f, SC_ROW_WISE, 2.0, 1.0);
	fix_whole(&f, 5.0, 1.0);
	bound = sc_shard_bound(&f.problem, &lp);
	ck_assert_double_eq_tol(lp, 3.25, TOLERANCE);
	ck_assert_double_eq_tol(bound, 7.0, 1e-4);
	fix_release(&f);
}

/* Ranks of speed 1 and 3 finish 8 of work at 2. */
TEST(test_uneven_ranks)
{
	static const double SPEED[] = {1.0, 3.0};
	static struct shard_fixture f;
	double lp;

	fix_init(&f, 2, 2);
	f.problem.rank_speed = SPEED;
	for (int t = 0; t < 8; t++)
		fix_whole(&f, 1.0, 1.0);
	sc_shard_bound(&f.problem, &lp);
	ck_assert_double_eq_tol(lp, 2.0, TOLERANCE);
	fix_release(&f);
}

/* Up to 6 tables on 2 or 4 ranks, some of these slower; every third with memory for little more
 * than all tables. */
static void make_problem(struct shard_fixture *f, uint64_t seed)
{
	static double speed[4];
	const uint32_t world = seed % 2 ? 4 : 2;
	struct sc_rng rng;
	double bytes = 0;

	sc_rng_init(&rng, seed);
	fix_init(f, world, 2);
	for (uint64_t t = 0, n = 2 + sc_rng_below(&rng, 5); t < n; t++) {
		const double cost = 1.0 + 9.0 * sc_rng_uniform(&rng);
		const double size = 1.0 + 3.0 * sc_rng_uniform(&rng);

		fix_table(f, 64, 16);
		fix_option(f, SC_TABLE_WISE, cost, size);
		if (sc_rng_below(&rng, 2))
			fix_option(f, SC_DATA_PARALLEL, cost * sc_rng_uniform(&rng), size);
		if (sc_rng_below(&rng, 2))
			fix_option(f, SC_TABLE_ROW_WISE, cost * sc_rng_uniform(&rng), size / 2);
		if (sc_rng_below(&rng, 2))
			fix_option(f, SC_ROW_WISE, cost * sc_rng_uniform(&rng), size / world);
		bytes += size;
	}
	if (seed % 3 == 0)
		f->problem.hbm_bytes = 1.2 * bytes / world;
	if (seed % 5 == 0) {
		for (uint32_t r = 0; r < world; r++)
			speed[r] = 0.5 + sc_rng_uniform(&rng);
		f->problem.rank_speed = speed;
	}
}

TEST(test_never_over_the_optimum)
{
	enum { N_PROBLEMS = 500 };
	static struct shard_fixture f;
	int n = n_cases(N_PROBLEMS), n_held = 0, n_near = 0;

	for (int i = 0; i < n; i++) {
		const uint64_t seed = (uint64_t)nth_case(i, N_PROBLEMS) + 1;
		double bound, optimum;

		make_problem(&f, seed);
		bound = sc_shard_bound(&f.problem, NULL);
		optimum = fix_optimum(&f);
		ck_assert_msg(bound <= optimum * (1.0 + TOLERANCE) && bound > 0.0,
			      "%llu: bound %g, optimum %g", (unsigned long long)seed, bound,
			      optimum);
		n_held += optimum < 1e300;
		n_near += bound >= 0.9 * optimum;
		fix_release(&f);
	}
	/* most have a plan, and the bound says much of it */
	ck_assert(!many_cases() || (10 * n_held >= 9 * n && 4 * n_near >= 3 * n));
}

/* Whole, or in slices of any width: in a GPU's memory at a tenth of the cost. */
static bool cost_columns(const void *ctx, uint32_t table, enum sc_tier tier, int64_t cols,
			 struct sc_option_shard *out)
{
	double share = (double)cols / 16;

	(void)ctx;
	(void)table;
	*out = (struct sc_option_shard){.rows = 64,
					.cols = cols,
					.cost = tier == SC_TIER_HBM ? share : 10 * share,
					.hbm_bytes = tier == SC_TIER_HBM ? share : 0};
	return true;
}

/* GPUs have room for half of the tables: 4 x 1 and 4 x 10 over 4 ranks; the work alone is 8 over 4.
 */
TEST(test_memory_of_slices)
{
	static struct shard_fixture f;

	fix_init(&f, 4, 4);
	f.problem.hbm_bytes = 1;
	f.problem.column_cost = cost_columns;
	f.problem.min_cols = 4;
	for (int t = 0; t < 8; t++) {
		fix_whole(&f, 1.0, 1.0);
		fix_option(&f, SC_TABLE_WISE, 10.0, 0.0);
		f.problem.options.at[f.problem.options.n - 1].tier = SC_TIER_UVM;
	}
	ck_assert_double_gt(sc_shard_bound(&f.problem, NULL), 10.5);
	ck_assert_double_le(sc_shard_bound(&f.problem, NULL), 11.0 * (1.0 + TOLERANCE));
	fix_release(&f);
}

TEST(test_nothing_to_place)
{
	static struct shard_fixture f;
	double lp;

	fix_init(&f, 2, 2);
	ck_assert_double_eq_tol(sc_shard_bound(&f.problem, &lp), 0.0, TOLERANCE);
	ck_assert_double_eq_tol(lp, 0.0, TOLERANCE);
	fix_release(&f);
}
