/* Plans: their checks, JSON there and back, the formats of others, hostile input. */
#include "core/embedding/shard_plan.h"
#include "runner.h"

static struct sc_arena arena;
static struct sc_err err;
static struct sc_shard_plan plan;
static struct sc_table tables[] = {
	{.name = "a", .rows = 100, .dim = 128, .count = 1, .features = 1, .pooling = 1},
	{.name = "b", .rows = 10, .dim = 64, .count = 1, .features = 1, .pooling = 2},
	{.name = "c", .rows = 7, .dim = 16, .count = 1, .features = 1, .pooling = 3},
};
static const struct sc_table_list LIST = {tables, 3, 0}, NONE = {NULL, 0, 0};

static void set_up(void)
{
	sc_arena_init(&arena, 1024);
	memset(&err, 0, sizeof(err));
	memset(&plan, 0, sizeof(plan));
}

static void tear_down(void)
{
	sc_shard_plan_release(&plan);
	sc_arena_release(&arena);
}

static int parse(const char *text, const struct sc_table_list *list)
{
	return sc_shard_plan_parse(text, strlen(text), "x", list, &arena, &plan, &err);
}

static const struct sc_table_placement *placed(const char *name)
{
	for (size_t i = 0; i < plan.tables.n; i++) {
		if (strcmp(plan.tables.at[i].name, name) == 0)
			return &plan.tables.at[i];
	}
	ck_abort_msg("no table %s", name);
	return NULL;
}

static const struct sc_shard *shard(const char *name, uint32_t i)
{
	const struct sc_table_placement *t = placed(name);

	ck_assert_uint_lt(i, t->n_shards);
	return &plan.shards.at[t->first_shard + i];
}

#define HEAD "{\"world_size\": 4, \"ranks_per_host\": 2, \"plan\": {\"m\": {"
#define TAIL "}}}"
#define SHARD(ro, co, r, c, rank)                                                     \
	"{\"shard_offsets\": [" #ro ", " #co "], \"shard_sizes\": [" #r ", " #c "], " \
	"\"placement\": \"rank:" #rank "/cuda:0\"}"

FIXTURE(set_up, tear_down)

TEST(test_json)
{
	static const char text[] = HEAD
		"\"a\": {\"sharding_type\": \"column_wise\", \"compute_kernel\": \"fused\", "
		"\"enforce_hbm\": null, \"ranks\": [3, 0], \"sharding_spec\": {\"shards\": [" SHARD(
			0, 0, 100, 96,
			3) ", " SHARD(0, 96, 100, 32,
				      0) "]}}, "
					 "\"b\": {\"sharding_type\": \"data_parallel\", \"compute_kernel\": \"dense\", "
					 "\"shape\": [10, 64], \"sharding_spec\": null}, "
					 "\"c\": {\"sharding_type\": \"table_wise\", \"compute_kernel\": "
					 "\"fused_uvm_caching\", \"cache_params\": {\"load_factor\": 0.25}, "
					 "\"sharding_spec\": [" SHARD(0, 0, 7, 16, 2) "]}" TAIL;
	struct sc_table backwards[] = {{.name = "c"}, {.name = "b"}, {.name = "a"}};
	struct sc_strbuf out = {0}, again = {0};

	ck_assert_msg(parse(text, &NONE) == 0, "%s", err.text);
	ck_assert_uint_eq(plan.world, 4);
	ck_assert_uint_eq(plan.ranks_per_host, 2);
	ck_assert_int_eq(placed("a")->rows, 100);
	ck_assert_int_eq(placed("a")->dim, 128);
	ck_assert_int_eq(shard("a", 1)->rank, 0);
	ck_assert_int_eq(shard("a", 1)->col_offset, 96);
	ck_assert_uint_eq(placed("b")->n_shards, 4);
	ck_assert_int_eq(shard("b", 3)->rank, 3);
	ck_assert_int_eq(placed("c")->tier, SC_TIER_CACHED);
	ck_assert_double_eq_tol(placed("c")->cache_frac, 0.25, 1e-12);
	ck_assert_int_eq(sc_shard_plan_check_tables(&plan, &LIST, &err), 0);
	sc_shard_plan_release(&plan);
	ck_assert_msg(parse(text, &(struct sc_table_list){.at = backwards, .n = 3}) == 0, "%s",
		      err.text);
	ck_assert_str_eq(plan.tables.at[0].name, "c"); /* as the model has them */
	ck_assert_int_eq(shard("a", 1)->col_offset, 96);
	sc_shard_plan_print(&plan, &out);
	sc_shard_plan_release(&plan);
	ck_assert_msg(parse(sc_strbuf_get(&out), &NONE) == 0, "%s", err.text);
	sc_shard_plan_print(&plan, &again);
	ck_assert_str_eq(sc_strbuf_get(&out), sc_strbuf_get(&again));
	ck_assert_str_eq(placed("a")->module, "m");
	sc_strbuf_release(&out);
	sc_strbuf_release(&again);
}

/* Text of a plan of one table "a", 100 x 128 on 4 ranks, 2 a host, and the message it must give. */
struct bad_plan {
	const char *text, *message;
};
#define ONE(type, shards)                         \
	HEAD "\"a\": {\"sharding_type\": \"" type \
	     "\", \"shape\": [100, 128], \"sharding_spec\": [" shards "]}" TAIL
static const struct bad_plan BAD[] = {
	{ONE("column_wise", SHARD(0, 0, 100, 64, 0) "," SHARD(0, 60, 100, 68, 1)),
	 "table \"a\": shards 0 and 1 overlap at column 60"},
	{ONE("column_wise", SHARD(0, 0, 100, 64, 0) "," SHARD(0, 96, 100, 32, 1)),
	 "table \"a\": columns 64 to 95 are on no rank"},
	{ONE("column_wise", SHARD(0, 0, 100, 64, 0)),
	 "table \"a\": columns 64 to 127 are on no rank"},
	{ONE("row_wise", SHARD(0, 0, 50, 128, 0) "," SHARD(40, 0, 60, 128, 1)),
	 "table \"a\": shards 0 and 1 overlap at row 40"},
	{ONE("row_wise", SHARD(0, 0, 50, 128, 0)), "table \"a\": rows 50 to 99 are on no rank"},
	{ONE("row_wise", SHARD(0, 0, 100, 64, 0) "," SHARD(0, 64, 100, 64, 1)),
	 "table \"a\": row_wise, but shard 0 has only some columns"},
	{ONE("table_wise", SHARD(0, 0, 100, 128, 4)),
	 "table \"a\": shard 0: rank 4; the plan has ranks 0 to 3"},
	{ONE("table_wise", SHARD(0, 0, 101, 128, 0)),
	 "table \"a\": shard 0: 101 x 128 at (0, 0) is outside the table of 100 x 128"},
	{ONE("table_wise", SHARD(0, 0, 100, 64, 0) "," SHARD(0, 64, 100, 64, 1)),
	 "table \"a\": table_wise, but 2 shards"},
	{ONE("table_row_wise", SHARD(0, 0, 50, 128, 1) "," SHARD(50, 0, 50, 128, 2)),
	 "table \"a\": table_row_wise, but ranks 1 and 2 are on different hosts"},
	{ONE("data_parallel", SHARD(0, 0, 100, 128, 1)),
	 "table \"a\": data_parallel, but 1 shards for 4 ranks"},
	{HEAD "\"a\": {\"sharding_type\": \"data_parallel\", \"shape\": [100, 128], "
	      "\"hot_rows\": 7}" TAIL,
	 "table \"a\": hot_rows with data_parallel; they go with table_wise, row_wise or "
	 "table_row_wise, whose rows are whole"},
	{HEAD "\"a\": {\"sharding_type\": \"table_wise\", \"shape\": [100, 128], \"ranks\": [0], "
	      "\"hot_rows\": 101, \"sharding_spec\": [" SHARD(0, 0, 100, 128, 0) "]}" TAIL,
	 "table \"a\": 101 hot rows of 100"},
	{HEAD "\"a\": {\"sharding_type\": \"table_wise\", \"hot_rows\": -1}" TAIL,
	 "expected an integer from 0 to 1000000000000, got -1"},
	{ONE("best_wise", SHARD(0, 0, 100, 128, 1)), "unknown sharding type \"best_wise\""},
	{ONE("table_wise", SHARD(0, -1, 100, 128, 0)),
	 "expected an integer from 0 to 1048576, got -1"},
	{ONE("table_wise", SHARD(0, 0, 1e300, 128, 0)),
	 "expected an integer from 0 to 1000000000000, got 1e300"},
	{ONE("table_wise", "{\"shard_sizes\": [100, 128]}"),
	 "a shard needs shard_offsets and shard_sizes"},
	{ONE("table_wise", ""), "table \"a\": it needs ranks, or a placement of each shard"},
	{HEAD "\"a\": {\"sharding_type\": \"table_wise\", \"shape\": [1, 4], \"ranks\": [0, 1], "
	      "\"sharding_spec\": [" SHARD(0, 0, 1, 4, 0) "]}" TAIL,
	 "table \"a\": ranks and sharding_spec differ in length"},
	{HEAD "\"a\": {\"ranks\": [0]}" TAIL, "table \"a\": it needs a sharding_type"},
	{"{\"plan\": {\"m\": {\"a\": {\"sharding_type\": \"data_parallel\", \"shape\": [1, 4]}}}}",
	 "it needs world_size"},
	{"{\"schema\": \"stepcast/other\", \"plan\": {}}",
	 "expected the schema stepcast/shard-plan, got \"stepcast/other\""},
	{"{\"world_size\": 4}", "it has no \"plan\""},
	{"{\"world_size\": 4, \"plan\": {}}", "a plan needs ranks and tables"},
	{"{\"plan\": {\"m\": {\"a\": {", "the file ends too early"},
	{"{\"plan\": {}} x", "something follows the end of the JSON text"},
	{"hello", "not a sharding plan: expected JSON, TorchRec's plan table, HugeCTR's shard "
		  "matrix or a CSV with the columns table,kind,ranks"},
	{"[[0, 1], [2]", "expected \",\" or the end of the list; nothing is computed"},
	{"[[0, 1], [7]]", "the plan is for other tables: table 7, the model has 3"},
	{"[[\"a\", \"b\"], [\"x\"]]", "the plan is for other tables: the model has no \"x\""},
	{"[[0, 1], []]", "table \"c\" is on no GPU"},
	{"# FQN   Sharding   Ranks #", "the plan table has no column \"Compute Kernel\""},
};

LOOP_TEST(test_bad, N_OF(BAD))
{
	const struct bad_plan *bad = &BAD[_i];

	ck_assert_int_ne(parse(bad->text, &LIST), 0);
	ck_assert_str_eq(err.text, bad->message);
	ck_assert_str_eq(err.file, "x");
}

TEST(test_position)
{
	ck_assert_int_ne(
		parse("{\n \"plan\": {\"m\": {\n  \"a\": {\"sharding_type\": 3}}}}", &NONE), 0);
	ck_assert_uint_eq(err.line, 3);
	ck_assert_uint_eq(err.column, 26);
}

TEST(test_other_tables)
{
	static const char text[] = HEAD
		"\"a\": {\"sharding_type\": \"table_wise\", \"ranks\": [0], \"sharding_spec\": [" SHARD(
			0, 0, 100, 64, 0) "]}" TAIL;

	ck_assert_int_eq(parse(text, &NONE), 0);
	ck_assert_int_ne(
		sc_shard_plan_check_tables(&plan, &(struct sc_table_list){tables, 1, 0}, &err), 0);
	ck_assert_str_eq(err.text, "table \"a\": 100 x 64 in the plan, 100 x 128 in the model");
	err.code = SC_OK;
	ck_assert_int_ne(
		sc_shard_plan_check_tables(&plan, &(struct sc_table_list){tables + 1, 1, 0}, &err),
		0);
	ck_assert_str_eq(err.text, "the plan is for other tables: it has no \"b\"");
}

#define LOG "INFO:torchrec.distributed.planner.stats:# "
TEST(test_torchrec)
{
	static const char text[] = LOG
		"  Rank     HBM (GB)     DDR (GB)     Perf (ms)   #\n" LOG
		"     0   1.0 (2%)   0.0 (0%)   1.5 (1,0.2,0.3,0,0)   #\n" LOG
		"     1   1.0 (2%)   0.0 (0%)   1.5 (1,0.2,0.3,0,0)   #\n" LOG
		"     2   1.0 (2%)   0.0 (0%)   1.5 (1,0.2,0.3,0,0)   #\n" LOG
		"     3   1.0 (2%)   0.0 (0%)   1.5 (1,0.2,0.3,0,0)   #\n" LOG
		"Parameter Info:   #\n" LOG
		"  FQN   Sharding   Compute Kernel   Perf (ms)   Storage (HBM, DDR)   "
		"Cache Load Factor   Emb Dim (CW Dim)   Hash Size   Ranks   #\n" LOG
		"-----   ----------   -----   -----   -----   -----   ------   ------   -----   #\n" LOG
		"  m.ebc.a   CW   fused   1.2 (1,0,0,0,0)   (1 GB, 0.0 GB)   None   128 (48)   "
		"100   0,2,3   #\n" LOG
		"  m.ebc.b   RW   fused_uvm_caching   1 (1,0,0,0,0)   (1 GB, 0 GB)   0.2   64   10"
		"   0-3   #\n" LOG
		"  m.ebc.c   DP   dense   1 (1,0,0,0,0)   (1 GB, 0 GB)   None   16   7   0-3   #\n" LOG
		"  #\n" LOG "Batch Size: 512   #\n";

	ck_assert_msg(parse(text, &NONE) == 0, "%u: %s", err.line, err.text);
	ck_assert_uint_eq(plan.world, 4);
	ck_assert_uint_eq(plan.tables.n, 3);
	ck_assert_str_eq(placed("a")->module, "m.ebc");
	ck_assert_int_eq(shard("a", 2)->cols, 32);
	ck_assert_int_eq(shard("a", 2)->rank, 3);
	ck_assert_int_eq(shard("b", 0)->rows, 3);
	ck_assert_int_eq(shard("b", 3)->rows, 1);
	ck_assert_double_eq_tol(placed("b")->cache_frac, 0.2, 1e-12);
	ck_assert_int_eq(placed("c")->type, SC_DATA_PARALLEL);
	ck_assert_int_eq(shard("c", 3)->rows, 7);
	ck_assert_int_eq(sc_shard_plan_check_tables(&plan, &LIST, &err), 0);
}

/* A name that two modules have is told by its path, and is written as it was. */
TEST(test_same_parameter)
{
	static const char text[] =
		"# FQN   Sharding   Compute Kernel   Emb Dim   Hash Size   Ranks #\n"
		"# m.a.t   TW   fused   64   10   0 #\n# m.b.t   TW   fused   64   10   1 #\n"
		"# m.b.u   TW   fused   64   10   1 #\n";
	struct sc_strbuf out = {0};

	ck_assert_msg(parse(text, &NONE) == 0, "%s", err.text);
	ck_assert_str_eq(plan.tables.at[0].name, "m.a.t");
	ck_assert_str_eq(plan.tables.at[1].name, "m.b.t");
	ck_assert_str_eq(plan.tables.at[2].name, "u");
	sc_shard_plan_print(&plan, &out);
	ck_assert_ptr_nonnull(strstr(sc_strbuf_get(&out), "\"m.b\": {\n      \"t\": {"));
	sc_shard_plan_release(&plan);
	ck_assert_msg(parse(sc_strbuf_get(&out), &NONE) == 0, "%s", err.text);
	ck_assert_str_eq(plan.tables.at[1].name, "m.b.t");
	sc_strbuf_release(&out);
}

TEST(test_hugectr)
{
	static const char text[] = "Planner took 0.01 sec\n[('mp', [0, 1]), ('dp', [2])]\n"
				   "[[0, 1, 2], [0, 2]]\nhotness cost is: [3, 2]\n";

	ck_assert_msg(parse(text, &LIST) == 0, "%s", err.text);
	ck_assert_uint_eq(plan.world, 2);
	ck_assert_int_eq(placed("a")->type, SC_ROW_WISE);
	ck_assert_int_eq(shard("a", 1)->row_offset, 50);
	ck_assert_int_eq(placed("b")->type, SC_TABLE_WISE);
	ck_assert_int_eq(placed("c")->type, SC_DATA_PARALLEL);
}

/* By hand, by a pattern that no table is too small for; in our JSON and back. */
TEST(test_hot_rows)
{
	static const struct sc_table_list for_2 = {tables, 3, 2};
	struct sc_strbuf out = {0};

	ck_assert_msg(parse("table,kind,ranks,hot_rows\na,rw,,30\n*,rw,,8\n", &for_2) == 0, "%s",
		      err.text);
	ck_assert_int_eq(placed("a")->hot_rows, 30);
	ck_assert_int_eq(placed("b")->hot_rows, 8);
	ck_assert_int_eq(placed("c")->hot_rows, 7);
	sc_shard_plan_print(&plan, &out);
	sc_shard_plan_release(&plan);
	ck_assert_msg(parse(sc_strbuf_get(&out), &NONE) == 0, "%s", err.text);
	ck_assert_int_eq(placed("a")->hot_rows, 30);
	ck_assert_int_eq(placed("c")->hot_rows, 7);
	sc_strbuf_release(&out);
	sc_shard_plan_release(&plan);
	ck_assert_int_ne(parse("table,kind,ranks,hot_rows\na,rw,,101\n*,rw,,\n", &for_2), 0);
	ck_assert_str_eq(err.text, "table \"a\": 101 hot rows of 100");
}

TEST(test_hugectr_named)
{
	ck_assert_msg(parse("{\"shard_matrix\": [[\"a\"], [\"b\", \"c\"]], \"shard_strategy\": "
			    "[[\"mp\", [\"a\", \"b\", \"c\"]]]}",
			    &LIST) == 0,
		      "%s", err.text);
	ck_assert_int_eq(shard("c", 0)->rank, 1);
}

TEST(test_expand)
{
	struct sc_table from[] = {tables[0], tables[1]};
	struct sc_table_list out;

	from[1].count = 3;
	sc_tables_expand(from, 2, &arena, &out);
	ck_assert_uint_eq(out.n, 4);
	ck_assert_str_eq(out.at[0].name, "a");
	ck_assert_str_eq(out.at[3].name, "b_2");
	ck_assert_int_eq(out.at[3].count, 1);
}

TEST(test_check_assembled)
{
	struct sc_shard_plan made = {.world = 1};

	ck_assert_int_ne(sc_shard_plan_check(&made, &err), 0);
	err.code = SC_OK;
	SC_VEC_PUSH(&made.tables,
		    ((struct sc_table_placement){.name = "t", .rows = 2, .dim = 4, .n_shards = 1}));
	made.tables.at[0].type = SC_TABLE_WISE;
	ck_assert_int_ne(sc_shard_plan_check(&made, &err), 0);
	ck_assert_str_eq(err.text, "table \"t\": its shards are not in the plan");
	err.code = SC_OK;
	SC_VEC_PUSH(&made.shards, ((struct sc_shard){.rows = 2, .cols = 4}));
	ck_assert_int_eq(sc_shard_plan_check(&made, &err), 0);
	SC_VEC_PUSH(&made.tables, made.tables.at[0]);
	ck_assert_int_ne(sc_shard_plan_check(&made, &err), 0);
	ck_assert_str_eq(err.text, "table \"t\": it is in the plan twice");
	sc_shard_plan_release(&made);
}
