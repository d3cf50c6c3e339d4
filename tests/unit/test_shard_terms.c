/* A plan as a sum: costs, memory and tables of each rank, by hand. */
#include "arena_fixture.h"
#include "runner.h"
#include "shard_study_fixture.h"
#include "study/shard/shard_terms.h"

static struct sc_shard_problem problem;
static struct sc_err err;

static void set_up(void)
{
	arena_begin();
	fixture_problem(&problem);
	memset(&err, 0, sizeof(err));
}

static void tear_down(void)
{
	fixture_release(&problem);
	arena_end();
}

FIXTURE(set_up, tear_down)

TEST(test_sum)
{
	struct sc_shard_plan plan;
	struct sc_shard_terms terms;
	struct sc_shard_solution rated;
	struct sc_rank_part parts[4];

	fixture_plan(&plan, "0cd");
	ck_assert_int_eq(sc_shard_terms_of(&problem, &plan, &terms, &err), 0);
	ck_assert_uint_eq(terms.at.n, 5);
	ck_assert_uint_eq(sc_rank_parts(&terms, 0, parts, 4), 3);
	ck_assert_uint_eq(parts[0].term->table, 0);
	ck_assert_double_eq_tol(parts[0].ms, 4, 1e-12);
	ck_assert_double_eq_tol(parts[1].ms, 1.2, 1e-12);
	ck_assert_double_eq_tol(parts[2].ms, 0.1, 1e-12);
	ck_assert_uint_eq(sc_rank_parts(&terms, 1, parts, 1), 1);
	ck_assert_uint_eq(parts[0].term->table, 1);
	ck_assert_int_eq(sc_shard_rate(&problem, &plan, true, &arena, &rated, &err), 0);
	ck_assert_double_eq_tol(rated.memory.hbm_bytes, 100 * 64 * 4 + 50 * 32 * 4 + 10 * 32 * 4,
				1e-6);
	sc_shard_plan_release(&rated.plan);
	SC_VEC_RELEASE(&terms.at);
	sc_shard_plan_release(&plan);
}

TEST(test_no_option)
{
	struct sc_shard_plan plan;
	struct sc_shard_terms terms;

	fixture_plan(&plan, "010");
	plan.tables.at[1].tier = SC_TIER_UVM;
	ck_assert_int_ne(sc_shard_terms_of(&problem, &plan, &terms, &err), 0);
	ck_assert_str_eq(err.text,
			 "table \"b\": the objective has no cost for table_wise fused_uvm "
			 "in 1 shards");
	sc_shard_plan_release(&plan);
}

TEST(test_speed)
{
	static const double speed[FIXTURE_WORLD] = {1, 0.5};
	struct sc_shard_plan plan;
	struct sc_shard_terms terms;
	struct sc_rank_part part;

	problem.rank_speed = speed;
	fixture_plan(&plan, "1cd");
	ck_assert_int_eq(sc_shard_terms_of(&problem, &plan, &terms, &err), 0);
	ck_assert_uint_eq(sc_rank_parts(&terms, 1, &part, 1), 1);
	ck_assert_double_eq_tol(part.ms, 8, 1e-12);
	SC_VEC_RELEASE(&terms.at);
	sc_shard_plan_release(&plan);
}
