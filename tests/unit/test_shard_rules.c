/* Constraints that cannot hold together: which of them the message names. Plans from elsewhere
 * against constraints. */
#include "runner.h"
#include "shard_fixture.h"
#include "study/shard/shard.h"

enum { N_TABLES = 3, WORLD = 4 };
#define ANY .rank = -1, .type = -1, .tier = -1

struct rules_case {
	struct sc_shard_constraint rules[4];
	size_t n;
	const char *text;
};
static const struct rules_case CASES[] = {
	{{{.kind = SC_PIN, .table = 0, .rank = 1, .type = -1, .tier = -1},
	  {.kind = SC_PIN, .table = 0, .rank = 2, .type = -1, .tier = -1}},
	 2,
	 "no plan keeps to \"pin t0 rank=1\", \"pin t0 rank=2\""},
	{{{.kind = SC_PIN, .table = 0, .rank = 1, .type = -1, .tier = -1},
	  {.kind = SC_TOGETHER, .table = 1, .other = 0, ANY},
	  {.kind = SC_PIN, .table = 1, .rank = 2, .type = -1, .tier = -1}},
	 3,
	 "no plan keeps to \"pin t0 rank=1\", \"together t1 t0\", \"pin t1 rank=2\""},
	{{{.kind = SC_PIN, .table = 2, .rank = 1, .type = -1, .tier = -1},
	  {.kind = SC_FORBID, .table = 2, .rank = 1, .type = -1, .tier = -1}},
	 2,
	 "no plan keeps to \"pin t2 rank=1\", \"forbid t2 rank=1\""},
	{{{.kind = SC_TOGETHER, .table = 1, .other = 0, ANY},
	  {.kind = SC_PIN, .table = 0, .rank = 1, .type = -1, .tier = -1},
	  {.kind = SC_FORBID, .table = 1, .rank = 1, .type = -1, .tier = -1}},
	 3,
	 "no plan keeps to \"together t1 t0\", \"pin t0 rank=1\", \"forbid t1 rank=1\""},
	{{{.kind = SC_TOGETHER, .table = 0, .other = 1, ANY},
	  {.kind = SC_TOGETHER, .table = 1, .other = 2, ANY},
	  {.kind = SC_APART, .table = 2, .other = 0, ANY}},
	 3,
	 "no plan keeps to \"together t0 t1\", \"together t1 t2\", \"apart t2 t0\""},
	{{{.kind = SC_PIN, .table = 0, .rank = 3, .type = -1, .tier = -1},
	  {.kind = SC_PIN, .table = 1, .rank = 3, .type = -1, .tier = -1},
	  {.kind = SC_APART, .table = 0, .other = 1, ANY}},
	 3,
	 "no plan keeps to \"pin t0 rank=3\", \"pin t1 rank=3\", \"apart t0 t1\""},
	/* The last is not needed for the conflict. */
	{{{.kind = SC_FORBID, .table = 0, .rank = 0, .type = -1, .tier = -1},
	  {.kind = SC_PIN, .table = 0, .rank = -1, .type = SC_ROW_WISE, .tier = -1},
	  {.kind = SC_FORBID, .table = 0, .rank = -1, .type = SC_ROW_WISE, .tier = -1}},
	 3,
	 "no plan keeps to \"forbid t0 rank=0\", \"pin t0 type=row_wise\""},
	{{{.kind = SC_PIN, .table = 1, .rank = -1, .type = SC_DATA_PARALLEL, .tier = -1}},
	 1,
	 "no plan keeps to \"pin t1 type=data_parallel\""},
	{{{.kind = SC_PIN, .table = 1, .rank = 2, .type = SC_ROW_WISE, .tier = -1}},
	 1,
	 "no plan keeps to \"pin t1 rank=2 type=row_wise\""},
	{{{.kind = SC_PIN, .table = 0, .rank = -1, .type = SC_ROW_WISE, .tier = -1},
	  {.kind = SC_PIN, .table = 1, .rank = -1, .type = SC_TABLE_WISE, .tier = -1},
	  {.kind = SC_TOGETHER, .table = 0, .other = 1, ANY}},
	 3,
	 "no plan keeps to \"pin t0 type=row_wise\", \"pin t1 type=table_wise\", \"together t0 t1\""},
	{{{.kind = SC_TOGETHER, .table = 0, .other = 1, ANY},
	  {.kind = SC_PIN, .table = 1, .rank = 2, .type = SC_TABLE_WISE, .tier = -1},
	  {.kind = SC_PIN, .table = 2, .rank = 2, .type = SC_TABLE_WISE, .tier = -1}},
	 3,
	 "what is pinned to rank 2, up to table t2, needs 2 bytes of HBM more than its 10"},
	{{{.kind = SC_TOGETHER, .table = 0, .other = 1, ANY},
	  {.kind = SC_TOGETHER, .table = 0, .other = 2, ANY},
	  {.kind = SC_PIN, .table = 0, .rank = -1, .type = SC_TABLE_WISE, .tier = -1}},
	 3,
	 "table t0 and the 2 together with it: the smallest shard needs 12 bytes of HBM, 2 over the "
	 "largest rank's 10"},
};

/* Each table whole on a rank, or its rows over all. */
static void make_problem(struct sc_table *tables, struct sc_shard_problem *p)
{
	static const char *const NAMES[N_TABLES] = {"t0", "t1", "t2"};

	*p = (struct sc_shard_problem){
		.n_tables = N_TABLES,
		.tables = tables,
		.world = WORLD,
		.ranks_per_host = WORLD,
		.hbm_bytes = 10.0,
		.host_bytes = 1.0,
		.ssd_bytes = 1.0,
	};
	for (uint32_t t = 0; t < N_TABLES; t++) {
		tables[t] = (struct sc_table){
			.name = NAMES[t], .rows = 8, .dim = 4, .count = 1, .features = 1};
		SC_VEC_PUSH(&p->first_option, (uint32_t)p->options.n);
		for (int by_rows = 0; by_rows < 2; by_rows++) {
			struct sc_option_shard shard = {.rows = by_rows ? 2 : 8,
							.cols = 4,
							.cost = by_rows ? 0.5 : 1.0,
							.hbm_bytes = by_rows ? 1.0 : 4.0};
			struct sc_option option = {
				.table = t,
				.type = by_rows ? SC_ROW_WISE : SC_TABLE_WISE,
				.tier = SC_TIER_HBM,
				.spread = by_rows ? SC_SPREAD_UNIFORM : SC_SPREAD_FREE,
				.first_shard = (uint32_t)p->shards.n,
				.n_shards = 1,
			};

			SC_VEC_PUSH(&p->shards, shard);
			SC_VEC_PUSH(&p->options, option);
		}
	}
	SC_VEC_PUSH(&p->first_option, (uint32_t)p->options.n);
}

LOOP_TEST(test_message, N_OF(CASES))
{
	const struct rules_case *c = &CASES[_i];
	struct sc_table tables[N_TABLES];
	struct sc_shard_problem problem;
	struct sc_solve_opts opts;
	struct sc_shard_solution s;
	struct sc_err err = {.code = SC_OK};
	struct sc_arena arena;

	sc_arena_init(&arena, 1 << 12);
	make_problem(tables, &problem);
	problem.constraints = c->rules;
	problem.n_constraints = c->n;
	opts = sc_solve_defaults;
	ck_assert_int_eq(sc_shard_solve(&problem, &opts, &arena, &s, &err), -SC_ECONFLICT);
	ck_assert_str_eq(err.text, c->text);
	sc_shard_problem_release(&problem);
	sc_arena_release(&arena);
}

/* ---- shard plan rules ---- */

#define SHARD_PLAN_RULES_ANY .rank = -1, .type = -1, .tier = -1

/* A plan: t0 whole on rank 1, t1 whole on rank 1, t2 in rows on all four. */
struct rule_case {
	struct sc_shard_constraint rule;
	bool holds;
};
static const struct rule_case SHARD_PLAN_RULES_CASES[] = {
	{{.kind = SC_PIN, .table = 0, .rank = 1, .type = -1, .tier = -1}, true},
	{{.kind = SC_PIN, .table = 0, .rank = 2, .type = -1, .tier = -1}, false},
	{{.kind = SC_PIN, .table = 0, .rank = 1, .type = SC_ROW_WISE, .tier = -1}, false},
	{{.kind = SC_PIN, .table = 2, .rank = 1, .type = -1, .tier = -1}, false},
	{{.kind = SC_PIN, .table = 2, .rank = -1, .type = SC_ROW_WISE, .tier = -1}, true},
	{{.kind = SC_PIN, .table = 2, .rank = -1, .type = -1, .tier = SC_TIER_UVM}, false},
	{{.kind = SC_FORBID, .table = 0, .rank = 1, .type = -1, .tier = -1}, false},
	{{.kind = SC_FORBID, .table = 0, .rank = 2, .type = -1, .tier = -1}, true},
	{{.kind = SC_FORBID, .table = 2, .rank = 3, .type = SC_ROW_WISE, .tier = -1}, false},
	{{.kind = SC_FORBID, .table = 2, .rank = -1, .type = SC_ROW_WISE, .tier = -1}, false},
	{{.kind = SC_FORBID, .table = 2, .rank = -1, .type = SC_TABLE_WISE, .tier = -1}, true},
	{{.kind = SC_TOGETHER, .table = 0, .other = 1, SHARD_PLAN_RULES_ANY}, true},
	{{.kind = SC_TOGETHER, .table = 0, .other = 2, SHARD_PLAN_RULES_ANY}, false},
	{{.kind = SC_TOGETHER, .table = 2, .other = 0, SHARD_PLAN_RULES_ANY}, false},
	{{.kind = SC_APART, .table = 0, .other = 1, SHARD_PLAN_RULES_ANY}, false},
	{{.kind = SC_APART, .table = 0, .other = 2, SHARD_PLAN_RULES_ANY}, false},
};

LOOP_TEST(test_rule, N_OF(SHARD_PLAN_RULES_CASES))
{
	struct sc_shard shards[] = {{.table = 0, .rank = 1}, {.table = 1, .rank = 1},
				    {.table = 2, .rank = 0}, {.table = 2, .rank = 1},
				    {.table = 2, .rank = 2}, {.table = 2, .rank = 3}};
	struct sc_table_placement at[] = {
		{.name = "t0", .type = SC_TABLE_WISE, .n_shards = 1},
		{.name = "t1", .type = SC_TABLE_WISE, .first_shard = 1, .n_shards = 1},
		{.name = "t2", .type = SC_ROW_WISE, .first_shard = 2, .n_shards = 4}};
	struct sc_shard_plan plan = {.world = 4,
				     .ranks_per_host = 4,
				     .tables = {.at = at, .n = 3},
				     .shards = {.at = shards, .n = 6}};
	static struct shard_fixture f;

	fix_init(&f, 4, 4);
	for (int t = 0; t < 3; t++)
		fix_whole(&f, 1.0, 1.0);
	ck_assert(sc_shard_keeps_constraints(&f.problem, &plan));
	f.problem.constraints = &SHARD_PLAN_RULES_CASES[_i].rule;
	f.problem.n_constraints = 1;
	ck_assert_int_eq(sc_shard_keeps_constraints(&f.problem, &plan),
			 SHARD_PLAN_RULES_CASES[_i].holds);
	plan.tables.n = 0; /* of no table of these, nothing holds */
	ck_assert(!sc_shard_keeps_constraints(&f.problem, &plan));
	fix_release(&f);
}
