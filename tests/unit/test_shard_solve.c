/* The sharding solver: against all plans of small problems, constraints, memory, uneven ranks,
 * column splits, replanning, and what it says when nothing holds. */
#include "base/rng.h"
#include "place_by.h"
#include "runner.h"
#include "shard_fixture.h"

static const double TOLERANCE = 1e-9;

static int solve(struct shard_fixture *f, struct sc_shard_solution *out, struct sc_err *err)
{
	struct sc_solve_opts opts;

	opts = sc_solve_defaults;
	return sc_shard_solve(&f->problem, &opts, &f->arena, out, err);
}

static int32_t rank_of(const struct sc_shard_solution *s, uint32_t table)
{
	return s->plan.shards.at[s->plan.tables.at[table].first_shard].rank;
}

/* Random tables with every kind of option on 2 hosts of 2 ranks. */
static void fill(struct shard_fixture *f, uint64_t seed)
{
	struct sc_rng rng;

	sc_rng_init(&rng, seed);
	fix_init(f, 4, 2);
	for (int t = 0; t < 6; t++) {
		double cost = 1.0 + 9.0 * sc_rng_uniform(&rng);
		double bytes = 1.0 + 9.0 * sc_rng_uniform(&rng);

		fix_table(f, 64, 16);
		fix_option(f, SC_TABLE_WISE, cost, bytes);
		if (sc_rng_below(&rng, 2))
			fix_option(f, SC_DATA_PARALLEL, cost * (0.1 + sc_rng_uniform(&rng)), bytes);
		if (sc_rng_below(&rng, 2))
			fix_option(f, SC_ROW_WISE, cost * (0.2 + 0.3 * sc_rng_uniform(&rng)),
				   bytes / 4.0);
		if (sc_rng_below(&rng, 2))
			fix_option(f, SC_TABLE_ROW_WISE, cost * (0.3 + 0.5 * sc_rng_uniform(&rng)),
				   bytes / 2.0);
	}
}

LOOP_TEST(test_finds_the_optimum, 25)
{
	static struct shard_fixture f;
	struct sc_shard_solution s;
	double optimum, lp;

	fill(&f, (uint64_t)_i + 1);
	optimum = fix_optimum(&f);
	ck_assert_int_eq(solve(&f, &s, NULL), 0);
	ck_assert_double_ge(s.cost, optimum * (1.0 - TOLERANCE));
	ck_assert_double_le(s.cost, optimum * (1.0 + TOLERANCE));
	ck_assert_double_le(s.bound, optimum * (1.0 + TOLERANCE));
	sc_shard_bound(&f.problem, &lp);
	ck_assert_double_le(lp, s.bound * (1.0 + TOLERANCE));
	ck_assert(!s.proven || s.bound >= s.cost * (1.0 - 1e-5));
	ck_assert_double_eq_tol(s.rank_cost[s.bottleneck], s.cost, TOLERANCE);
	ck_assert_int_eq(sc_shard_plan_check(&s.plan, NULL), 0);
	sc_shard_plan_release(&s.plan);
	fix_release(&f);
}

/* Memory for about a third more than the tables need whole. */
LOOP_TEST(test_memory_holds, 15)
{
	static struct shard_fixture f;
	struct sc_shard_solution s;
	double optimum;

	fill(&f, (uint64_t)_i + 101);
	f.problem.hbm_bytes = 11.0;
	optimum = fix_optimum(&f);
	if (optimum < 1e299) {
		ck_assert_int_eq(solve(&f, &s, NULL), 0);
		for (uint32_t r = 0; r < 4; r++)
			ck_assert_double_le(s.rank_hbm[r], 11.0 * (1.0 + TOLERANCE));
		ck_assert_double_le(s.cost, optimum * 1.1);
		ck_assert_double_ge(s.cost, optimum * (1.0 - TOLERANCE));
		sc_shard_plan_release(&s.plan);
	} else {
		ck_assert_int_eq(solve(&f, &s, NULL), -SC_ECONFLICT);
	}
	fix_release(&f);
}

TEST(test_same_seed_same_plan)
{
	static struct shard_fixture f;
	struct sc_shard_solution a, b;

	fill(&f, 77);
	ck_assert_int_eq(solve(&f, &a, NULL), 0);
	ck_assert_int_eq(solve(&f, &b, NULL), 0);
	ck_assert_uint_eq(a.plan.shards.n, b.plan.shards.n);
	for (size_t i = 0; i < a.plan.shards.n; i++)
		ck_assert_int_eq(a.plan.shards.at[i].rank, b.plan.shards.at[i].rank);
	sc_shard_plan_release(&a.plan);
	sc_shard_plan_release(&b.plan);
	fix_release(&f);
}

/* 8 + 1 on the fast rank of speed 3: 3; the slow one takes 3. */
TEST(test_uneven_ranks)
{
	static const double SPEED[] = {1.0, 3.0};
	static struct shard_fixture f;
	struct sc_shard_solution s;

	fix_init(&f, 2, 2);
	f.problem.rank_speed = SPEED;
	fix_whole(&f, 8.0, 1.0);
	fix_whole(&f, 3.0, 1.0);
	fix_whole(&f, 1.0, 1.0);
	ck_assert_int_eq(solve(&f, &s, NULL), 0);
	ck_assert_double_eq_tol(s.cost, 3.0, TOLERANCE);
	ck_assert_double_le(s.bound, 3.0 + TOLERANCE);
	ck_assert_double_ge(s.bound, 3.0 * (1.0 - 1e-6));
	ck_assert_int_eq(rank_of(&s, 1), 0);
	sc_shard_plan_release(&s.plan);
	fix_release(&f);
}

TEST(test_constraints)
{
	static const struct sc_shard_constraint RULES[] = {
		{.kind = SC_PIN, .table = 0, .rank = 3, .type = -1, .tier = -1},
		{.kind = SC_FORBID, .table = 1, .rank = 0, .type = -1, .tier = -1},
		{.kind = SC_TOGETHER, .table = 2, .other = 3},
		{.kind = SC_APART, .table = 4, .other = 5},
		{.kind = SC_PIN, .table = 6, .rank = -1, .type = SC_DATA_PARALLEL, .tier = -1},
	};
	static struct shard_fixture f;
	struct sc_shard_solution s;

	fix_init(&f, 4, 2);
	for (int t = 0; t < 6; t++) {
		fix_whole(&f, 1.0, 1.0);
		fix_option(&f, SC_DATA_PARALLEL, 0.01, 1.0);
	}
	fix_whole(&f, 0.1, 1.0);
	fix_option(&f, SC_DATA_PARALLEL, 5.0, 1.0);
	f.problem.constraints = RULES;
	f.problem.n_constraints = sizeof(RULES) / sizeof(RULES[0]);
	ck_assert_int_eq(solve(&f, &s, NULL), 0);
	ck_assert_int_eq(s.plan.tables.at[0].type, SC_TABLE_WISE);
	ck_assert_int_eq(rank_of(&s, 0), 3);
	ck_assert(s.plan.tables.at[1].n_shards == 1 && rank_of(&s, 1) != 0);
	ck_assert_int_eq(rank_of(&s, 2), rank_of(&s, 3));
	ck_assert_int_ne(rank_of(&s, 4), rank_of(&s, 5));
	ck_assert_int_eq(s.plan.tables.at[6].type, SC_DATA_PARALLEL);
	ck_assert_double_le(s.bound, s.cost * (1.0 + TOLERANCE));
	sc_shard_plan_release(&s.plan);
	fix_release(&f);
}

/* Slices cost their width, and one more each. */
static bool slice_cost(const void *ctx, uint32_t table, enum sc_tier tier, int64_t cols,
		       struct sc_option_shard *out)
{
	(void)ctx;
	(void)table;
	if (tier != SC_TIER_HBM || cols < 4)
		return false;
	*out = (struct sc_option_shard){.cost = (double)cols + 1.0, .hbm_bytes = (double)cols};
	return true;
}

/* 64 columns and a table of 28 on 2 ranks: 65 + 29 = 94 as they are; 64 = 44 + 20 gives 49 and 46,
 * and no cut in two is better: 95 in all, slices of 4. */
TEST(test_uneven_columns)
{
	static struct shard_fixture f;
	struct sc_shard_solution s;

	fix_init(&f, 2, 2);
	fix_table(&f, 8, 64);
	fix_option(&f, SC_TABLE_WISE, 65.0, 64.0);
	fix_table(&f, 8, 28);
	fix_option(&f, SC_TABLE_WISE, 29.0, 28.0);
	f.problem.column_cost = slice_cost;
	f.problem.min_cols = 4;
	ck_assert_int_eq(solve(&f, &s, NULL), 0);
	ck_assert_double_le(s.cost, 50.0 + TOLERANCE);
	ck_assert_double_ge(s.cost, 47.0);
	ck_assert_double_le(s.bound, s.cost);
	ck_assert_int_eq(sc_shard_plan_check(&s.plan, NULL), 0);
	for (size_t i = 0; i < s.plan.shards.n; i++)
		ck_assert_int_eq(s.plan.shards.at[i].cols % 4, 0);
	sc_shard_plan_release(&s.plan);
	fix_release(&f);
}

/* Of the same tables, the first barred from other types, or from this one. */
LOOP_TEST(test_columns_under_constraints, 7)
{
	static const struct {
		struct sc_shard_constraint rule;
		bool may_split;
	} cases[] = {
		{{.kind = SC_FORBID, .rank = -1, .type = SC_ROW_WISE, .tier = -1}, true},
		{{.kind = SC_FORBID, .rank = -1, .type = SC_DATA_PARALLEL, .tier = SC_TIER_HBM},
		 true},
		{{.kind = SC_FORBID, .rank = -1, .type = -1, .tier = SC_TIER_UVM}, true},
		{{.kind = SC_PIN, .rank = -1, .type = -1, .tier = SC_TIER_HBM}, true},
		{{.kind = SC_FORBID, .rank = -1, .type = SC_COLUMN_WISE, .tier = -1}, false},
		{{.kind = SC_FORBID, .rank = -1, .type = SC_COLUMN_WISE, .tier = SC_TIER_HBM},
		 false},
		{{.kind = SC_PIN, .rank = -1, .type = SC_TABLE_WISE, .tier = -1}, false},
	};
	static struct shard_fixture f;
	struct sc_shard_solution s;

	fix_init(&f, 2, 2);
	fix_table(&f, 8, 64);
	fix_option(&f, SC_TABLE_WISE, 65.0, 64.0);
	fix_whole(&f, 29.0, 28.0);
	f.problem.column_cost = slice_cost;
	f.problem.min_cols = 4;
	f.problem.constraints = &cases[_i].rule;
	f.problem.n_constraints = 1;
	ck_assert_int_eq(solve(&f, &s, NULL), 0);
	if (cases[_i].may_split)
		ck_assert_double_le(s.cost, 50.0 + TOLERANCE);
	else
		ck_assert_double_eq_tol(s.cost, 65.0, TOLERANCE);
	ck_assert_double_le(s.bound, s.cost + TOLERANCE);
	ck_assert(sc_shard_keeps_constraints(&f.problem, &s.plan));
	sc_shard_plan_release(&s.plan);
	fix_release(&f);
}

/* All on rank 0 of hosts that lend nothing; then at most so many tables may move. */
LOOP_TEST(test_replan, 3)
{
	static struct shard_fixture f;
	struct sc_shard_solution now, s;
	struct sc_solve_opts opts;
	int moved = 0;

	fix_init(&f, 4, 2);
	f.problem.host_bytes = f.problem.ssd_bytes = 0;
	for (int t = 0; t < 8; t++)
		fix_whole(&f, 1.0 + t % 2, 1.0);
	ck_assert_int_eq(place_by(&f.problem, "naive", 1, &f.arena, &now, NULL), 0);
	for (size_t i = 0; i < now.plan.shards.n; i++)
		now.plan.shards.at[i].rank = 0;
	opts = sc_solve_defaults;
	opts.current = &now.plan;
	opts.max_moved_tables = _i;
	ck_assert_int_eq(sc_shard_solve(&f.problem, &opts, &f.arena, &s, NULL), 0);
	for (uint32_t t = 0; t < 8; t++)
		moved += rank_of(&s, t) != 0;
	ck_assert_int_le(moved, _i);
	ck_assert_double_eq_tol(s.cost, _i == 0 ? 12.0 : _i == 1 ? 10.0 : 8.0, TOLERANCE);
	sc_shard_plan_release(&now.plan);
	sc_shard_plan_release(&s.plan);
	fix_release(&f);
}

TEST(test_moved_bytes)
{
	static struct shard_fixture f;
	struct sc_shard_solution now, s;
	struct sc_solve_opts opts;

	fix_init(&f, 2, 2);
	for (int t = 0; t < 4; t++)
		fix_whole(&f, 1.0, 1.0); /* of 64 x 16 x 4 bytes */
	ck_assert_int_eq(place_by(&f.problem, "naive", 1, &f.arena, &now, NULL), 0);
	for (size_t i = 0; i < now.plan.shards.n; i++)
		now.plan.shards.at[i].rank = 1;
	opts = sc_solve_defaults;
	opts.current = &now.plan;
	opts.max_moved_bytes = 64 * 16 * 4;
	ck_assert_int_eq(sc_shard_solve(&f.problem, &opts, &f.arena, &s, NULL), 0);
	ck_assert_double_eq_tol(s.cost, 3.0, TOLERANCE);
	sc_shard_plan_release(&now.plan);
	sc_shard_plan_release(&s.plan);
	fix_release(&f);
}

/* Row slices of 1 byte of host memory each: two on a host are over its 1.5, so the table stays
 * whole. */
LOOP_TEST(test_host_memory_of_a_block, 2)
{
	static struct shard_fixture f;
	struct sc_shard_solution s;

	fix_init(&f, 4, 2);
	f.problem.host_bytes = 1.5;
	fix_table(&f, 8, 64);
	fix_option(&f, _i ? SC_TABLE_ROW_WISE : SC_ROW_WISE, 1.0, 0.0);
	for (size_t i = 0; i < f.problem.shards.n; i++)
		f.problem.shards.at[i].host_bytes = 1.0;
	fix_option(&f, SC_TABLE_WISE, 65.0, 64.0);
	ck_assert_int_eq(solve(&f, &s, NULL), 0);
	ck_assert_int_eq(s.plan.tables.at[0].type, SC_TABLE_WISE);
	sc_shard_plan_release(&s.plan);
	fix_release(&f);
}

static void expect_conflict(struct shard_fixture *f, const char *text)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_shard_solution s;

	ck_assert_int_eq(solve(f, &s, &err), -SC_ECONFLICT);
	ck_assert_ptr_nonnull(strstr(err.text, text));
	fix_release(f);
}

TEST(test_table_too_large)
{
	static struct shard_fixture f;

	fix_init(&f, 2, 2);
	f.problem.hbm_bytes = 10.0;
	fix_whole(&f, 1.0, 5.0);
	fix_whole(&f, 1.0, 11.0);
	expect_conflict(&f,
			"table t1: the smallest shard needs 11 bytes of HBM, 1 over the largest "
			"rank's 10");
}

TEST(test_total_too_large)
{
	static struct shard_fixture f;

	fix_init(&f, 2, 2);
	f.problem.hbm_bytes = 10.0;
	for (int t = 0; t < 3; t++)
		fix_whole(&f, 1.0, 7.0);
	expect_conflict(&f,
			"the tables need at least 21 bytes of HBM, 1 over the 20 of all 2 ranks");
}

/* Ranks all but full: where a table is left over, others step aside for it. */
TEST(test_full_ranks)
{
	enum { N = 40, RANKS = 4, PIECES = 4 };
	static struct shard_fixture f;
	const int n = n_cases(N);
	int n_found = 0;

	for (uint64_t seed = 1; seed <= (uint64_t)n; seed++) {
		struct sc_shard_solution s;
		struct sc_rng rng;

		sc_rng_init(&rng, seed);
		fix_init(&f, RANKS, RANKS);
		f.problem.hbm_bytes = 1000.0;
		for (int r = 0; r < RANKS; r++) {
			double left = 990.0;

			for (int i = 1; i <= PIECES; i++) {
				double share = (0.5 + sc_rng_uniform(&rng)) / (PIECES - i + 1);
				double bytes = i < PIECES ? floor(fmin(share, 1) * left) : left;

				fix_whole(&f, 1.0 + sc_rng_uniform(&rng), bytes);
				left -= bytes;
			}
		}
		if (solve(&f, &s, NULL) == 0) {
			n_found++;
			sc_shard_plan_release(&s.plan);
		}
		fix_release(&f);
	}
	ck_assert_int_ge(n_found, n - 1 - n / N); /* 15 of 40 where none does */
}

TEST(test_pinned_rank_too_full)
{
	static const struct sc_shard_constraint RULES[] = {
		{.kind = SC_PIN, .table = 0, .rank = 1, .type = -1, .tier = -1},
		{.kind = SC_PIN, .table = 1, .rank = 1, .type = -1, .tier = -1},
	};
	static struct shard_fixture f;

	fix_init(&f, 4, 2);
	f.problem.hbm_bytes = 10.0;
	f.problem.constraints = RULES;
	f.problem.n_constraints = 2;
	fix_whole(&f, 1.0, 6.0);
	fix_whole(&f, 1.0, 6.0);
	expect_conflict(
		&f,
		"what is pinned to rank 1, up to table t1, needs 2 bytes of HBM more than its 10");
}

TEST(test_together_and_apart)
{
	static const struct sc_shard_constraint RULES[] = {
		{.kind = SC_TOGETHER, .table = 0, .other = 1},
		{.kind = SC_APART, .table = 1, .other = 0},
	};
	static struct shard_fixture f;

	fix_init(&f, 2, 2);
	f.problem.constraints = RULES;
	f.problem.n_constraints = 2;
	fix_whole(&f, 1.0, 6.0);
	fix_whole(&f, 1.0, 6.0);
	expect_conflict(&f, "no plan keeps to \"together t0 t1\", \"apart t1 t0\"");
}

TEST(test_rate_says_what_is_wrong)
{
	static struct shard_fixture f;
	struct sc_shard_solution now, s;
	struct sc_err err = {.code = SC_OK}, other = {.code = SC_OK};

	fix_init(&f, 2, 2);
	fix_whole(&f, 1.0, 6.0);
	fix_whole(&f, 2.0, 6.0);
	ck_assert_int_eq(place_by(&f.problem, "naive", 1, &f.arena, &now, NULL), 0);
	f.problem.hbm_bytes = 5.0;
	ck_assert_int_eq(sc_shard_rate(&f.problem, &now.plan, false, &f.arena, &s, &err),
			 -SC_ECONFLICT);
	ck_assert_ptr_nonnull(strstr(err.text, "rank 0 holds 6 bytes of HBM, over its 5"));
	ck_assert_int_eq(sc_shard_rate(&f.problem, &now.plan, true, &f.arena, &s, NULL), 0);
	ck_assert_double_eq_tol(s.cost, 2.0, TOLERANCE);
	sc_shard_plan_release(&s.plan);
	now.plan.tables.at[1].type = SC_ROW_WISE;
	ck_assert_int_eq(sc_shard_rate(&f.problem, &now.plan, true, &f.arena, &s, &other),
			 -SC_EUNSUPPORTED);
	ck_assert_ptr_nonnull(strstr(other.text, "table \"t1\": the objective has no cost"));
	sc_shard_plan_release(&now.plan);
	fix_release(&f);
}
