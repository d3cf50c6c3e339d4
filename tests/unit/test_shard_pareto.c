/* Less memory never costs less. */
#include "runner.h"
#include "shard_study_fixture.h"
#include "study/shard/shard_study.h"

static struct sc_shard_problem problem;
static struct sc_err err;

static void set_up(void)
{
	fixture_problem(&problem);
	memset(&err, 0, sizeof(err));
}

static void tear_down(void)
{
	fixture_release(&problem);
}

FIXTURE(set_up, tear_down)

TEST(test_front)
{
	struct sc_pareto *front = calloc(1, sizeof(*front));
	struct sc_solve_opts opts;
	struct sc_arena arena;

	ck_assert_ptr_nonnull(front);
	sc_arena_init(&arena, 4096);
	opts = sc_solve_defaults;
	ck_assert_int_eq(sc_shard_pareto(&problem, &opts, &arena, front, &err), 0);
	ck_assert_uint_ge(front->n, 1);
	for (size_t i = 0; i < front->n; i++) {
		ck_assert_double_le(front->at[i].bound, front->at[i].cost * (1 + 1e-9));
		ck_assert_int_eq(sc_shard_plan_check(&front->at[i].plan, &err), 0);
		if (i) {
			ck_assert_double_gt(front->at[i].cost, front->at[i - 1].cost);
			ck_assert_double_lt(front->at[i].hbm_bytes, front->at[i - 1].hbm_bytes);
		}
		sc_shard_plan_release(&front->at[i].plan);
	}
	sc_arena_release(&arena);
	free(front);
}
