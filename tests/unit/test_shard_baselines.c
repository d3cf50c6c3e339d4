/* The placements that planners and papers use, by hand. */
#include "place_by.h"
#include "runner.h"
#include "shard_fixture.h"

/* Dims 8, 4, 4, 4; lookups 1, 10, 1, 1; costs 1, 2, 3, 4; rows 10, 20, 1000, 40. */
static void fill(struct shard_fixture *f)
{
	static const int64_t ROWS[] = {10, 20, 1000, 40}, DIMS[] = {8, 4, 4, 4};
	static const double POOLING[] = {1.0, 10.0, 1.0, 1.0};

	fix_init(f, 2, 2);
	for (int t = 0; t < 4; t++) {
		fix_table(f, ROWS[t], DIMS[t]);
		f->tables[t].pooling = POOLING[t];
		fix_option(f, SC_TABLE_WISE, 1.0 + t, (double)(ROWS[t] * DIMS[t]));
	}
}

static const struct {
	const char *name;
	int32_t ranks[4];
	double cost;
} CASES[] = {
	{"naive", {0, 1, 0, 1}, 6.0},
	{"chunk", {0, 0, 1, 1}, 7.0},
	/* 8 | 4, then 4 on the second, both at 8: the last goes where less is held. */
	{"dim_greedy", {0, 1, 1, 0}, 5.0},
	/* 4000 | 160, then 80, 80 on the second. */
	{"size_greedy", {1, 1, 0, 1}, 7.0},
	/* 40 | 8, 4, 4 */
	{"lookup_greedy", {1, 0, 1, 1}, 8.0},
	{"norm_lookup_greedy", {1, 0, 1, 1}, 8.0},
	/* 52 | 12, 8, 6.4 */
	{"size_lookup_greedy", {1, 0, 1, 1}, 8.0},
	/* 4 | 3, 2 | 1 */
	{"lpt", {0, 1, 1, 0}, 5.0},
};

LOOP_TEST(test_placement, N_OF(CASES))
{
	static struct shard_fixture f;
	struct sc_shard_solution s;

	fill(&f);
	ck_assert_int_eq(place_by(&f.problem, CASES[_i].name, 1, &f.arena, &s, NULL), 0);
	for (int t = 0; t < 4; t++)
		ck_assert_int_eq(s.plan.shards.at[t].rank, CASES[_i].ranks[t]);
	ck_assert_double_eq_tol(s.cost, CASES[_i].cost, 1e-12);
	ck_assert_int_eq(sc_shard_plan_check(&s.plan, NULL), 0);
	sc_shard_plan_release(&s.plan);
	fix_release(&f);
}

TEST(test_random_follows_its_seed)
{
	static struct shard_fixture f;
	struct sc_shard_solution a, b;
	int differ = 0;

	fill(&f);
	for (uint64_t seed = 0; seed < 20; seed++) {
		ck_assert_int_eq(place_by(&f.problem, "random", seed, &f.arena, &a, NULL), 0);
		ck_assert_int_eq(place_by(&f.problem, "random", seed, &f.arena, &b, NULL), 0);
		for (int t = 0; t < 4; t++) {
			ck_assert_int_eq(a.plan.shards.at[t].rank, b.plan.shards.at[t].rank);
			differ += a.plan.shards.at[t].rank;
		}
		sc_shard_plan_release(&a.plan);
		sc_shard_plan_release(&b.plan);
	}
	ck_assert_int_gt(differ, 20);
	ck_assert_int_lt(differ, 60);
	fix_release(&f);
}

/* The greedy ones pass over a rank without room. */
TEST(test_room)
{
	static struct shard_fixture f;
	struct sc_shard_solution s;

	fill(&f);
	f.problem.hbm_bytes = 4000.0;
	ck_assert_int_eq(place_by(&f.problem, "lpt", 1, &f.arena, &s, NULL), 0);
	ck_assert_int_eq(s.plan.shards.at[3].rank, 0);
	ck_assert_int_eq(s.plan.shards.at[2].rank, 1);
	ck_assert_int_eq(s.plan.shards.at[1].rank, 0);
	ck_assert_int_eq(s.plan.shards.at[0].rank, 0);
	sc_shard_plan_release(&s.plan);
	fix_release(&f);
}
