/* TorchRec's estimates against values worked out by hand, and its planner on problems small enough
 * to see what it must do. */
#include "base/units.h"
#include "runner.h"
#include "study/shard/shard_solve_priv.h"

enum { MAX_TABLES = 64 };
static const double GIB_PER_S = SC_BYTES_PER_GIB / SC_MS_PER_S;

static struct sc_arena arena;
static struct sc_err err;
static struct sc_torchrec_topology topology;
static struct sc_table tables[MAX_TABLES];
static struct sc_table_list list;
static struct sc_shard_problem problem;
static struct sc_shard_solution solution;

/* The first table of MLPerf DLRM-DCNv2 on a node of eight. */
static void set_up(void)
{
	sc_arena_init(&arena, 1 << 12);
	memset(&err, 0, sizeof(err));
	memset(&problem, 0, sizeof(problem));
	memset(&solution, 0, sizeof(solution));
	memset(tables, 0, sizeof(tables));
	for (size_t i = 0; i < MAX_TABLES; i++)
		tables[i] = (struct sc_table){
			.name = sc_arena_printf(&arena, "t%zu", i),
			.rows = 40000000,
			.dim = 128,
			.pooling = 3,
			.count = 1,
			.features = 1,
		};
	list = (struct sc_table_list){tables, 1, 0};
	sc_torchrec_topology_init(&topology);
	topology.world = topology.ranks_per_host = 8;
	topology.batch_per_rank = 6912;
	topology.hbm_cap_bytes = 80 * SC_BYTES_PER_GIB;
}

static void tear_down(void)
{
	sc_shard_plan_release(&solution.plan);
	sc_shard_problem_release(&problem);
	sc_arena_release(&arena);
}

static void build(void)
{
	sc_shard_problem_release(&problem);
	ck_assert_msg(sc_torchrec_problem(&topology, &list, &arena, &problem, &err) == 0, "%s",
		      err.text);
}

static const struct sc_option *find(enum sc_shard_type type, enum sc_tier tier)
{
	for (uint32_t o = 0; o < problem.first_option.at[1]; o++)
		if (problem.options.at[o].type == type && problem.options.at[o].tier == tier)
			return &problem.options.at[o];
	return NULL;
}

static const struct sc_option_shard *shard_of(enum sc_shard_type type, enum sc_tier tier,
					      uint32_t i)
{
	const struct sc_option *option = find(type, tier);

	ck_assert_ptr_nonnull(option);
	ck_assert_uint_lt(i, sc_option_n_shards(&problem, option));
	return &problem.shards.at[sc_option_shard_index(&problem, option, i)];
}

static const struct sc_torchrec_perf *perf_of(enum sc_shard_type type, enum sc_tier tier)
{
	static struct sc_torchrec_perf perf;
	struct sc_torchrec_ask ask = {&topology, &tables[0], 1, type, tier};
	struct sc_option_shard shard = *shard_of(type, tier, 0);

	if (topology.poolings)
		ask.poolings = topology.poolings[0];
	sc_torchrec_cost(&ask, &shard, &perf);
	return &perf;
}

#define expect(value, want) \
	ck_assert_double_eq_tol(value, want, 1e-9 * fabs((double)(want)) + 1e-12)

FIXTURE(set_up, tear_down)

TEST(whole_table)
{
	const double hbm = 897 * GIB_PER_S, link = 600 * GIB_PER_S;
	const double out = 6912.0 * 8 * 128 * 4;
	double fwd = (3.0 * 6912 * 8 * 8 + 3.0 * 6912 * 8 * 128 * 4 + out) / hbm;
	const struct sc_torchrec_perf *perf;

	build();
	perf = perf_of(SC_TABLE_WISE, SC_TIER_HBM);
	expect(perf->fwd_compute, fwd);
	expect(perf->bwd_compute, 2 * fwd);
	expect(perf->fwd_comms, out / link);
	expect(perf->bwd_comms, out / link);
	expect(perf->input_dist, 3.0 * 6912 * 8 * 8 / link);
	expect(perf->prefetch, 0);
	expect(shard_of(SC_TABLE_WISE, SC_TIER_HBM, 0)->cost, 3 * fwd + 2 * out / link);
	expect(shard_of(SC_TABLE_WISE, SC_TIER_HBM, 0)->hbm_bytes, 40e6 * 128 * 4 + 1327104 + out);
	/* As the study of the planner has it, to its digits. */
	ck_assert_double_eq_tol(perf->fwd_compute, 0.118957, 5e-7);
	ck_assert_double_eq_tol(shard_of(SC_TABLE_WISE, SC_TIER_HBM, 0)->cost, 0.444763, 5e-7);
}

TEST(rows_and_replicas)
{
	const struct sc_torchrec_perf *perf;

	build();
	perf = perf_of(SC_ROW_WISE, SC_TIER_HBM);
	ck_assert_double_eq_tol(perf->fwd_compute, 0.040590, 5e-7);
	ck_assert_double_eq_tol(perf->fwd_comms, 0.043945, 5e-7);
	ck_assert_double_eq_tol(perf->bwd_comms, 0.043945 + 0.072165, 1e-6);
	perf = perf_of(SC_DATA_PARALLEL, SC_TIER_HBM);
	ck_assert_double_eq_tol(perf->fwd_compute, 0.029739, 5e-7);
	ck_assert_double_eq_tol(perf->bwd_comms, 582.836, 5e-4);
	expect(perf->fwd_comms, 0);
	expect(perf->input_dist, 0);
	ck_assert_uint_eq(find(SC_DATA_PARALLEL, SC_TIER_HBM)->n_shards, 1);
	ck_assert_int_eq(find(SC_DATA_PARALLEL, SC_TIER_HBM)->spread, SC_SPREAD_UNIFORM);
}

/* 16 hosts of 8: rows stay on a host, sums cross hosts. */
TEST(rows_of_a_host)
{
	const double intra = 600 * GIB_PER_S, inter = 12.5 * GIB_PER_S, hbm = 897 * GIB_PER_S;
	const double indices = 3.0 * 6912 / 8 * 128, out = 6912.0 * 128 * 128 * 4;
	const double across = 6912.0 * 16 * 128 * 4;
	const struct sc_torchrec_perf *perf;

	topology.world = 128;
	build();
	perf = perf_of(SC_TABLE_ROW_WISE, SC_TIER_HBM);
	expect(perf->fwd_compute, (indices * 8 + indices * 128 * 4 + out) / hbm);
	expect(perf->fwd_comms, out / intra + across / inter);
	expect(perf->bwd_comms, out / intra + across / inter + out * 2.455 / hbm);
	ck_assert_int_eq(find(SC_TABLE_ROW_WISE, SC_TIER_HBM)->spread, SC_SPREAD_HOST);
	ck_assert_uint_eq(find(SC_TABLE_ROW_WISE, SC_TIER_HBM)->n_shards, 1);
	/* Beyond two hosts the all-reduce takes twice the ring's time. */
	perf = perf_of(SC_DATA_PARALLEL, SC_TIER_HBM);
	expect(perf->bwd_comms, 40e6 * 128 * 4 * (2 * 1.5 / (inter * 8) + 9.22 / (hbm / 2)));
	expect(perf_of(SC_TABLE_WISE, SC_TIER_HBM)->fwd_comms, out / inter);
}

TEST(weights_and_sequences)
{
	const double hbm = 897 * GIB_PER_S;
	const double indices = 3.0 * 6912 * 8;
	double fwd;

	tables[0].weighted = true;
	build();
	fwd = (2 * indices * 8 + indices * 512 + 6912.0 * 8 * 512) / hbm;
	expect(perf_of(SC_TABLE_WISE, SC_TIER_HBM)->fwd_compute, fwd);
	expect(perf_of(SC_TABLE_WISE, SC_TIER_HBM)->bwd_compute, 3.1 * fwd);
	tables[0].weighted = false;
	tables[0].sequence = true;
	build();
	expect(perf_of(SC_TABLE_WISE, SC_TIER_HBM)->fwd_compute,
	       (indices * 8 + 2 * indices * 512) / hbm);
	/* A row slice puts out only what it has looked up. */
	expect(perf_of(SC_ROW_WISE, SC_TIER_HBM)->fwd_comms, indices / 8 * 512 / (600 * GIB_PER_S));
}

TEST(few_lookups)
{
	tables[0].pooling = 0.5;
	tables[0].features = 2;
	build();
	/* Since 2026, a bag that is mostly empty is mostly not sent. */
	expect(perf_of(SC_TABLE_WISE, SC_TIER_HBM)->fwd_comms,
	       2 * 0.5 * 6912 * 8 * 512 / (600 * GIB_PER_S));
	topology.outputs_min_pooling = false;
	build();
	expect(perf_of(SC_TABLE_WISE, SC_TIER_HBM)->fwd_comms,
	       2.0 * 6912 * 8 * 512 / (600 * GIB_PER_S));
}

LOOP_TEST(narrow_rows, 5)
{
	static const struct {
		int64_t dim;
		double lookup_cols, penalty;
	} cases[] = {{4, 32, 1.75}, {32, 32, 1.75}, {64, 64, 1.15}, {96, 96, 1.15}, {256, 128, 1}};
	double indices = 3.0 * 6912 * 8, cols = fmin((double)cases[_i].dim, 128);

	tables[0].dim = cases[_i].dim;
	build();
	expect(perf_of(SC_COLUMN_WISE, SC_TIER_HBM)->fwd_compute,
	       (indices * 8 + indices * cases[_i].lookup_cols * 4 + 6912.0 * 8 * cols * 4) *
		       cases[_i].penalty / (897 * GIB_PER_S));
	/* The penalty is of whole rows alone. */
	expect(perf_of(SC_ROW_WISE, SC_TIER_HBM)->fwd_compute,
	       (indices + indices / 8 * (double)cases[_i].dim * 4 +
		6912.0 * 8 * (double)cases[_i].dim * 4) /
		       (897 * GIB_PER_S));
}

TEST(column_slices)
{
	const struct sc_option *option;
	struct sc_option_shard slice;
	int64_t at = 0;

	tables[0].dim = 300;
	build();
	option = find(SC_COLUMN_WISE, SC_TIER_HBM);
	ck_assert_uint_eq(option->n_shards, 3);
	ck_assert_int_eq(option->spread, SC_SPREAD_FREE);
	ck_assert_int_eq(find(SC_TABLE_COLUMN_WISE, SC_TIER_HBM)->spread, SC_SPREAD_ON_HOST);
	for (uint32_t i = 0; i < option->n_shards; i++) {
		const struct sc_option_shard *shard = &problem.shards.at[option->first_shard + i];

		ck_assert_int_eq(shard->col_offset, at);
		at += shard->cols;
		ck_assert(problem.column_cost(problem.column_ctx, 0, SC_TIER_HBM, shard->cols,
					      &slice));
		expect(slice.cost, shard->cost);
		expect(slice.hbm_bytes, shard->hbm_bytes);
	}
	ck_assert_int_eq(at, 300);
	ck_assert(!problem.column_cost(problem.column_ctx, 0, SC_TIER_HBM, 30, &slice));
	ck_assert(!problem.column_cost(problem.column_ctx, 0, SC_TIER_HBM, 304, &slice));
	ck_assert(!problem.column_cost(problem.column_ctx, 0, SC_TIER_HBM, 0, &slice));
	ck_assert(!problem.column_cost(problem.column_ctx, 0, SC_TIER_SSD, 64, &slice));
}

/* 3 rows over 8 ranks: five shards are empty, and cost what the others do. */
TEST(short_table)
{
	const struct sc_option_shard *last;

	tables[0].rows = 3;
	build();
	last = shard_of(SC_ROW_WISE, SC_TIER_HBM, 7);
	ck_assert_int_eq(last->rows, 0);
	ck_assert_int_eq(last->row_offset, 3);
	expect(last->hbm_bytes, 0);
	expect(last->cost, shard_of(SC_ROW_WISE, SC_TIER_HBM, 0)->cost);
	ck_assert_int_eq(shard_of(SC_ROW_WISE, SC_TIER_HBM, 2)->rows, 1);
}

TEST(tiers)
{
	const double table = 40e6 * 512, io = 3.0 * 6912 * 64 + 6912.0 * 8 * 512;
	const struct sc_option_shard *cached, *ssd;
	double hbm_fwd;

	topology.ssd = true;
	build();
	hbm_fwd = perf_of(SC_TABLE_WISE, SC_TIER_HBM)->fwd_compute;
	cached = shard_of(SC_TABLE_WISE, SC_TIER_CACHED, 0);
	expect(perf_of(SC_TABLE_WISE, SC_TIER_UVM)->fwd_compute, hbm_fwd * 897 / 3.2);
	expect(perf_of(SC_TABLE_WISE, SC_TIER_CACHED)->fwd_compute,
	       hbm_fwd * 8970 / (0.2 * 897 + 0.8 * 32));
	expect(cached->hbm_bytes, 0.2 * table + 40e6 * (4 + 0.2 * 16) + io);
	expect(cached->host_bytes, table);
	expect(shard_of(SC_TABLE_WISE, SC_TIER_UVM, 0)->hbm_bytes, io);
	ssd = shard_of(SC_TABLE_WISE, SC_TIER_SSD, 0);
	expect(ssd->ssd_bytes, table + 40e6 * 7.2);
	expect(ssd->host_bytes, 0);
	ck_assert_uint_eq(problem.options.n, 21);
	expect(problem.hbm_bytes, floor(0.85 * 80 * SC_BYTES_PER_GIB));
	expect(problem.host_bytes, 8 * 128 * SC_BYTES_PER_GIB);
}

LOOP_TEST(optimizer, 4)
{
	static const struct {
		enum sc_optimizer_state state;
		double factor;
	} cases[] = {{SC_STATE_NONE, 1},
		     {SC_STATE_ROW, 1 + 1.0 / 128},
		     {SC_STATE_SAME, 2},
		     {SC_STATE_TWICE, 3}};
	double input_and_output = 3.0 * 6912 * 64 + 6912.0 * 8 * 128 * 4;

	topology.optimizer = cases[_i].state;
	build();
	expect(shard_of(SC_TABLE_WISE, SC_TIER_HBM, 0)->hbm_bytes,
	       40e6 * 512 * cases[_i].factor + input_and_output);
	expect(shard_of(SC_TABLE_WISE, SC_TIER_UVM, 0)->hbm_bytes, input_and_output);
	expect(shard_of(SC_TABLE_WISE, SC_TIER_CACHED, 0)->hbm_bytes,
	       0.2 * 40e6 * 512 * cases[_i].factor + 40e6 * 7.2 + input_and_output);
}

/* Misses at a fifth of the rows: half way between 0.6 and 0.2. */
TEST(prefetch_of_a_miss_curve)
{
	double cached[] = {0.1, 0.3}, miss[] = {0.6, 0.2};

	tables[0].reuse = (struct sc_reuse){
		.kind = SC_REUSE_MRC,
		.cached_frac = {cached, 2},
		.miss_frac = {miss, 2},
		.n_unique = 1e5,
	};
	build();
	expect(perf_of(SC_TABLE_WISE, SC_TIER_CACHED)->prefetch,
	       0.4 * 1e5 * 512 / (32 * GIB_PER_S));
	expect(perf_of(SC_ROW_WISE, SC_TIER_CACHED)->prefetch,
	       0.4 * 1e5 * 512 / 8 / (32 * GIB_PER_S));
	expect(perf_of(SC_TABLE_WISE, SC_TIER_HBM)->prefetch, 0);
}

TEST(too_many_shards)
{
	topology.world = 1 << 20;
	list.n = MAX_TABLES;
	ck_assert_int_ne(sc_torchrec_problem(&topology, &list, &arena, &problem, &err), 0);
	ck_assert_str_eq(err.text, "64 tables on 1048576 ranks have 268437568 shards to choose "
				   "from; at most 268435456 are handled");
	ck_assert_uint_eq(problem.options.n, 0);
}

static void plan(void)
{
	build();
	ck_assert_msg(sc_torchrec_plan(&problem, NULL, &arena, &solution, &err) == 0, "%s",
		      err.text);
}

/* The plan says what the solution costs. */
static void check_solution(void)
{
	double most = 0;

	ck_assert_uint_eq(solution.plan.tables.n, list.n);
	for (uint32_t r = 0; r < problem.world; r++) {
		most = fmax(most, solution.rank_cost[r]);
		ck_assert(solution.rank_hbm[r] <= problem.hbm_bytes);
	}
	expect(solution.cost, most);
	expect(solution.rank_cost[solution.bottleneck], most);
	for (size_t t = 0; t < list.n; t++) {
		const struct sc_table_placement *placed = &solution.plan.tables.at[t];

		ck_assert_str_eq(placed->name, tables[t].name);
		for (uint32_t i = 0; i < placed->n_shards; i++)
			ck_assert_uint_eq(solution.plan.shards.at[placed->first_shard + i].table,
					  t);
	}
}

/* Alike tables on alike ranks: one each. */
TEST(plan_balances)
{
	list.n = 8;
	plan();
	check_solution();
	for (uint32_t r = 1; r < 8; r++)
		expect(solution.rank_cost[r], solution.rank_cost[0]);
}

/* What does not fit is moved out of HBM, and no further. */
TEST(plan_in_little_memory)
{
	const struct sc_table_placement *placed;

	list.n = 1;
	topology.world = topology.ranks_per_host = 1;
	topology.hbm_cap_bytes = 12 * SC_BYTES_PER_GIB; /* the table has 19 */
	plan();
	check_solution();
	placed = &solution.plan.tables.at[0];
	ck_assert_int_eq(placed->tier, SC_TIER_CACHED);
	expect(placed->cache_frac, 0.2);
	sc_shard_plan_release(&solution.plan);
	topology.hbm_cap_bytes = 1e6;
	build();
	ck_assert_int_eq(sc_torchrec_plan(&problem, NULL, &arena, &solution, &err), -SC_ECONFLICT);
	ck_assert_str_eq(err.text, "no proposal of TorchRec's planner fits the memory of 1 ranks");
}

/* More tables than the grid of proposals takes, over two hosts, so that host-wise types are placed.
 */
TEST(plan_over_hosts)
{
	topology.world = 16;
	list.n = 40;
	for (size_t i = 0; i < list.n; i++) {
		tables[i].rows = 1000 * (int64_t)(i + 1) * (int64_t)(i + 1);
		tables[i].pooling = 1 + (double)(i * 7 % 11);
		tables[i].dim = i % 3 ? 64 : 256;
	}
	plan();
	check_solution();
}

/* A signal ends the proposals; the best so far is the plan. */
TEST(stopped_early)
{
	struct sc_search_watch watch = {.most_asked = 2};
	double whole_cost;

	list.n = 16;
	plan();
	whole_cost = solution.cost;
	ck_assert(!solution.cut_short);
	sc_shard_plan_release(&solution.plan);
	ck_assert_int_eq(sc_torchrec_plan(&problem, &watch, &arena, &solution, &err), 0);
	check_solution();
	ck_assert(solution.cut_short && solution.cost >= whole_cost);
	ck_assert_uint_le(watch.n_asked, 4);
	sc_shard_plan_release(&solution.plan);
}

TEST(constraints)
{
	struct sc_shard_constraint list_of[] = {
		{.kind = SC_PIN, .table = 0, .rank = -1, .type = SC_ROW_WISE, .tier = -1},
		{.kind = SC_FORBID, .table = 1, .rank = -1, .type = -1, .tier = SC_TIER_HBM},
		{.kind = SC_PIN, .table = 1, .rank = 3, .type = -1, .tier = -1},
	};

	list.n = 4;
	build();
	problem.constraints = list_of;
	problem.n_constraints = 2;
	ck_assert_int_eq(sc_torchrec_plan(&problem, NULL, &arena, &solution, &err), 0);
	check_solution();
	ck_assert_int_eq(solution.plan.tables.at[0].type, SC_ROW_WISE);
	ck_assert_int_ne(solution.plan.tables.at[1].tier, SC_TIER_HBM);
	sc_shard_plan_release(&solution.plan);
	problem.n_constraints = 3;
	ck_assert_int_eq(sc_torchrec_plan(&problem, NULL, &arena, &solution, &err),
			 -SC_EUNSUPPORTED);
	memset(&err, 0, sizeof(err));
	list_of[1].table = 0;
	list_of[1].tier = -1;
	problem.n_constraints = 2;
	ck_assert_int_eq(sc_torchrec_plan(&problem, NULL, &arena, &solution, &err), -SC_ECONFLICT);
	ck_assert_str_eq(err.text, "the constraints leave table t0 no type and tier");
}
