/* Plans from elsewhere against constraints. */
#include "runner.h"
#include "shard_fixture.h"

#define ANY .rank = -1, .type = -1, .tier = -1

/* Of t0 whole on rank 1, t1 whole on rank 1, t2 in rows on all four. */
struct rule_case {
	struct sc_shard_constraint rule;
	bool holds;
};
static const struct rule_case CASES[] = {
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
	{{.kind = SC_TOGETHER, .table = 0, .other = 1, ANY}, true},
	{{.kind = SC_TOGETHER, .table = 0, .other = 2, ANY}, false},
	{{.kind = SC_TOGETHER, .table = 2, .other = 0, ANY}, false},
	{{.kind = SC_APART, .table = 0, .other = 1, ANY}, false},
	{{.kind = SC_APART, .table = 0, .other = 2, ANY}, false},
};

LOOP_TEST(test_rule, N_OF(CASES))
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
	f.problem.constraints = &CASES[_i].rule;
	f.problem.n_constraints = 1;
	ck_assert_int_eq(sc_shard_keeps_constraints(&f.problem, &plan), CASES[_i].holds);
	plan.tables.n = 0; /* of no table of these, nothing holds */
	ck_assert(!sc_shard_keeps_constraints(&f.problem, &plan));
	fix_release(&f);
}
