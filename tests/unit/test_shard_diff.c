/* What changes between plans, and the bytes that move. */
#include "runner.h"
#include "shard_study_fixture.h"
#include "study/shard/shard_diff.h"

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

/* Bytes that move from one plan to another; checks how many tables change. */
static double moved(const char *from, const char *to, size_t n_changed)
{
	struct sc_table copies[FIXTURE_TABLES];
	const struct sc_table_list tables = {copies, FIXTURE_TABLES, 0};
	struct sc_shard_plan old, new;
	struct sc_shard_diff diff;
	double bytes;

	memcpy(copies, fixture_tables, sizeof(copies));
	fixture_plan(&old, from);
	fixture_plan(&new, to);
	ck_assert_int_eq(sc_shard_diff_compute(&old, &new, &tables, &diff, &err), 0);
	ck_assert_uint_eq(diff.moves.n, n_changed);
	bytes = diff.moved_bytes;
	SC_VEC_RELEASE(&diff.moves);
	sc_shard_plan_release(&old);
	sc_shard_plan_release(&new);
	return bytes;
}

FIXTURE(set_up, tear_down)

TEST(test_moves)
{
	ck_assert_double_eq_tol(moved("01d", "01d", 0), 0, 1e-9);
	ck_assert_double_eq_tol(moved("01d", "11d", 1), 100 * 64 * 4, 1e-9);
	/* one half stays where it is */
	ck_assert_double_eq_tol(moved("01d", "c1d", 1), 100 * 32 * 4, 1e-9);
	ck_assert_double_eq_tol(moved("c1d", "01d", 1), 100 * 32 * 4, 1e-9);
	/* a replica is there already; a new one is wanted on one rank */
	ck_assert_double_eq_tol(moved("01d", "011", 1), 0, 1e-9);
	ck_assert_double_eq_tol(moved("011", "01d", 1), 10 * 32 * 4, 1e-9);
}

TEST(test_worlds)
{
	const struct sc_table_list none = {NULL, 0, 0};
	struct sc_shard_plan old, new;
	struct sc_shard_diff diff;

	fixture_plan(&old, "000");
	fixture_plan(&new, "000");
	new.world = 4;
	ck_assert_int_ne(sc_shard_diff_compute(&old, &new, &none, &diff, &err), 0);
	ck_assert_str_eq(err.text, "plans for 2 and 4 ranks cannot be compared");
	sc_shard_plan_release(&old);
	sc_shard_plan_release(&new);
}
