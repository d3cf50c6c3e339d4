/* Changes between plans, and the bytes that move. Less memory never costs less. A plan as a sum:
 * costs, memory and tables of each rank, by hand. What is odd about a plan is said once, with its
 * count and first table. */
#include "arena_fixture.h"
#include "runner.h"
#include "shard_study_fixture.h"
#include "study/shard/shard_diff.h"
#include "study/shard/shard_lint.h"
#include "study/shard/shard_study.h"
#include "study/shard/shard_terms.h"

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

/* ---- shard pareto ---- */

static void shard_pareto_set_up(void)
{
	fixture_problem(&problem);
	memset(&err, 0, sizeof(err));
}

static void shard_pareto_tear_down(void)
{
	fixture_release(&problem);
}

FIXTURE(shard_pareto_set_up, shard_pareto_tear_down)

TEST(test_front)
{
	struct sc_pareto *front = calloc(1, sizeof(*front));
	struct sc_solve_opts opts;
	struct sc_arena front_arena;

	ck_assert_ptr_nonnull(front);
	sc_arena_init(&front_arena, 4096);
	opts = sc_solve_defaults;
	ck_assert_int_eq(sc_shard_pareto(&problem, &opts, &front_arena, front, &err), 0);
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
	sc_arena_release(&front_arena);
	free(front);
}

/* ---- shard terms ---- */

static void shard_terms_set_up(void)
{
	arena_begin();
	fixture_problem(&problem);
	memset(&err, 0, sizeof(err));
}

static void shard_terms_tear_down(void)
{
	fixture_release(&problem);
	arena_end();
}

FIXTURE(shard_terms_set_up, shard_terms_tear_down)

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

/* ---- shard lint ---- */

static void shard_lint_set_up(void)
{
	fixture_problem(&problem);
	memset(&err, 0, sizeof(err));
}

static void shard_lint_tear_down(void)
{
	fixture_release(&problem);
}

static const char *find(const sc_lints *lints, const char *code)
{
	for (size_t i = 0; i < lints->n; i++) {
		if (strcmp(lints->at[i].code, code) == 0)
			return lints->at[i].text;
	}
	return NULL;
}

static void lint(const char *how, int64_t rows_of_c, sc_lints *out)
{
	struct sc_table tables[FIXTURE_TABLES];
	struct sc_shard_plan plan;
	struct sc_shard_terms terms;

	fixture_plan(&plan, how);
	ck_assert_int_eq(sc_shard_terms_of(&problem, &plan, &terms, &err), 0);
	memcpy(tables, fixture_tables, sizeof(tables));
	tables[2].rows = rows_of_c;
	problem.tables = tables;
	sc_lint_plan(&problem, &plan, &terms, out);
	problem.tables = fixture_tables;
	SC_VEC_RELEASE(&terms.at);
	sc_shard_plan_release(&plan);
}

FIXTURE(shard_lint_set_up, shard_lint_tear_down)

TEST(test_clean)
{
	sc_lints lints = {0};

	lint("01d", 10, &lints);
	ck_assert_uint_eq(lints.n, 0);
}

TEST(test_odd)
{
	sc_lints lints = {0};

	problem.hbm_bytes = 30000;
	lint("00c", 10000000, &lints);
	ck_assert_ptr_nonnull(find(&lints, "narrow-columns"));
	ck_assert_ptr_nonnull(
		strstr(find(&lints, "narrow-columns"), "1 table has slices below 32"));
	ck_assert_ptr_nonnull(find(&lints, "over-budget"));
	ck_assert_ptr_null(find(&lints, "large-replicas"));
	ck_assert_ptr_null(find(&lints, "idle-ranks"));
	lints.n = 0;
	lint("00d", 10000000, &lints);
	ck_assert_ptr_nonnull(strstr(find(&lints, "large-replicas"), "first=c"));
	lints.n = 0;
	lint("000", 10000000, &lints);
	ck_assert_ptr_nonnull(strstr(find(&lints, "idle-ranks"), "1 rank has no shard; first=1"));
	SC_VEC_RELEASE(&lints);
}

TEST(test_constants)
{
	struct sc_torchrec_topology topology;
	struct sc_device device = {.id = "gpu", .hbm_gbps = 900};
	sc_lints lints = {0};

	sc_torchrec_topology_init(&topology);
	sc_lint_constants(&topology, &device, &lints);
	ck_assert_uint_eq(lints.n, 0);
	device.hbm_gbps = 3350;
	sc_lint_constants(&topology, &device, &lints);
	ck_assert_ptr_nonnull(find(&lints, "hbm-constant"));
	SC_VEC_RELEASE(&lints);
}
