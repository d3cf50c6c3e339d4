/* TorchRec's formulas and planner against what TorchRec printed: the reference options and plans of
 * six instances, and a production plan. The files are in the data folder beside the checkout;
 * without it the test is skipped. */
#include <unistd.h>

#include "base/csv.h"
#include "base/num.h"
#include "base/units.h"
#include "runner.h"
#include "study/shard/shard_solve_priv.h"

#define DATA "../shared/data/embedding/"

/* Of a value that the files print with nine decimals. */
static const double REL_TOLERANCE = 1e-4, PRINTED = 1e-9;

static struct sc_arena arena;
static struct sc_err err;

static void set_up(void)
{
	sc_arena_init(&arena, 1 << 16);
	memset(&err, 0, sizeof(err));
}

static void tear_down(void)
{
	sc_arena_release(&arena);
}

static void load(const char *name, struct sc_csv *csv)
{
	ck_assert_msg(sc_csv_load(name, &arena, csv, &err) == 0, "%s", err.text);
}

static const char *cell(const struct sc_csv *csv, size_t row, const char *column)
{
	int at = sc_csv_column(csv, column);

	ck_assert_msg(at >= 0, "no column %s", column);
	return sc_csv_cell(csv, row, (size_t)at);
}

static double number(const struct sc_csv *csv, size_t row, const char *column)
{
	double value = 0;

	ck_assert_msg(sc_parse_double(cell(csv, row, column), &value), "%s:%u: %s", csv->file,
		      csv->line[row], column);
	return value;
}

static bool is(const struct sc_csv *csv, size_t row, const char *column, const char *text)
{
	return strcmp(cell(csv, row, column), text) == 0;
}

static const struct {
	const char *name;
	double planned_ms; /* best_max_rank_perf_ms of torchrec_reference_summary.csv */
} instances[] = {
	{"dcnv2_1x8", 3.521258},  {"dcnv2_2x8", 7.169312},  {"dcnv2_8x8", 7.884511},
	{"prod26_1x8", 0.643154}, {"prod64_2x8", 4.133082}, {"prod100_1x8", 3.1045},
};

struct instance {
	struct sc_table_list tables;
	struct sc_torchrec_topology topology;
	struct sc_shard_problem problem;
};

static void add_table(struct instance *in, const struct sc_csv *csv, size_t row)
{
	in->topology.world = (uint32_t)number(csv, row, "world_size");
	in->topology.ranks_per_host = (uint32_t)number(csv, row, "local_world_size");
	in->topology.batch_per_rank = number(csv, row, "batch_per_rank");
	in->topology.hbm_cap_bytes = number(csv, row, "hbm_gib") * SC_BYTES_PER_GIB;
	in->tables.at[in->tables.n++] = (struct sc_table){
		.name = cell(csv, row, "table"),
		.rows = (int64_t)number(csv, row, "rows"),
		.dim = (int64_t)number(csv, row, "dim"),
		.pooling = number(csv, row, "pooling_factor"),
		.dtype = is(csv, row, "dtype", "fp16") ? SC_FP16 : SC_FP32,
		.count = 1,
		.features = 1,
	};
}

static void load_instance(const char *name, struct instance *in)
{
	struct sc_csv csv;

	*in = (struct instance){0};
	load(DATA "torchrec_reference_tables.csv", &csv);
	in->tables.at = sc_arena_calloc(&arena, csv.n_rows, sizeof(*in->tables.at));
	sc_torchrec_topology_init(&in->topology);
	for (size_t row = 0; row < csv.n_rows; row++)
		if (is(&csv, row, "instance", name))
			add_table(in, &csv, row);
	ck_assert_uint_gt(in->tables.n, 0);
	ck_assert_msg(sc_torchrec_problem(&in->topology, &in->tables, &arena, &in->problem, &err) ==
			      0,
		      "%s", err.text);
}

static void release_instance(struct instance *in)
{
	sc_shard_problem_release(&in->problem);
}

static uint32_t table_index(const struct instance *in, const char *name)
{
	for (size_t i = 0; i < in->tables.n; i++)
		if (strcmp(in->tables.at[i].name, name) == 0)
			return (uint32_t)i;
	ck_abort_msg("no table %s", name);
	return 0;
}

static enum sc_tier tier_of(const char *kernel)
{
	if (strcmp(kernel, "fused_uvm") == 0)
		return SC_TIER_UVM;
	return strcmp(kernel, "fused_uvm_caching") == 0 ? SC_TIER_CACHED : SC_TIER_HBM;
}

static enum sc_shard_type type_of(const char *name)
{
	static const char *const names[] = {
		[SC_DATA_PARALLEL] = "data_parallel",
		[SC_TABLE_WISE] = "table_wise",
		[SC_COLUMN_WISE] = "column_wise",
		[SC_ROW_WISE] = "row_wise",
		[SC_TABLE_ROW_WISE] = "table_row_wise",
		[SC_TABLE_COLUMN_WISE] = "table_column_wise",
	};

	for (size_t i = 0; i < N_OF(names); i++)
		if (strcmp(names[i], name) == 0)
			return (enum sc_shard_type)i;
	ck_abort_msg("no type %s", name);
	return SC_N_SHARD_TYPES;
}

static const struct sc_option *find_option(const struct instance *in, uint32_t table,
					   enum sc_shard_type type, enum sc_tier tier)
{
	for (uint32_t o = in->problem.first_option.at[table];
	     o < in->problem.first_option.at[table + 1]; o++)
		if (in->problem.options.at[o].type == type &&
		    in->problem.options.at[o].tier == tier)
			return &in->problem.options.at[o];
	ck_abort_msg("no such option");
	return NULL;
}

static void expect(const struct sc_csv *csv, size_t row, const char *column, double value)
{
	double want = number(csv, row, column);

	ck_assert_msg(fabs(value - want) <= REL_TOLERANCE * fabs(want) + PRINTED,
		      "%s:%u: %s is %.9f there, %.9f here", csv->file, csv->line[row], column, want,
		      value);
}

static void expect_bytes(const struct sc_csv *csv, size_t row, const char *column, double value)
{
	double want = number(csv, row, column);

	ck_assert_msg(fabs(value - want) < 0.5, "%s:%u: %s is %.0f there, %.0f here", csv->file,
		      csv->line[row], column, want, value);
}

static void check_option(const struct instance *in, const struct sc_csv *csv, size_t row)
{
	const struct sc_option *option = find_option(in, table_index(in, cell(csv, row, "table")),
						     type_of(cell(csv, row, "sharding_type")),
						     tier_of(cell(csv, row, "compute_kernel")));
	const struct sc_option_shard *first = in->problem.shards.at + option->first_shard;
	uint32_t n = sc_option_n_shards(&in->problem, option);
	const struct sc_torchrec_ask ask = {&in->topology, &in->tables.at[option->table], 1,
					    option->type, option->tier};
	struct sc_torchrec_perf sum = {0};
	double total = 0, most = 0, hbm = 0, most_hbm = 0, ddr = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = sc_option_shard_index(&in->problem, option, i);
		const struct sc_option_shard *shard = &in->problem.shards.at[at];
		struct sc_option_shard again = *shard;
		struct sc_torchrec_perf perf;

		sc_torchrec_cost(&ask, &again, &perf);
		sum.fwd_compute += perf.fwd_compute;
		sum.fwd_comms += perf.fwd_comms;
		sum.bwd_compute += perf.bwd_compute;
		sum.bwd_comms += perf.bwd_comms;
		sum.input_dist += perf.input_dist;
		sum.prefetch += perf.prefetch;
		total += shard->cost;
		most = fmax(most, shard->cost);
		hbm += shard->hbm_bytes;
		most_hbm = fmax(most_hbm, shard->hbm_bytes);
		ddr += shard->host_bytes;
	}
	expect_bytes(csv, row, "num_shards", n);
	expect_bytes(csv, row, "shard0_rows", (double)first->rows);
	expect_bytes(csv, row, "shard0_cols", (double)first->cols);
	expect_bytes(csv, row, "max_shard_hbm_bytes", most_hbm);
	expect_bytes(csv, row, "sum_hbm_bytes", hbm);
	expect_bytes(csv, row, "sum_ddr_bytes", ddr);
	expect(csv, row, "fwd_compute_ms", sum.fwd_compute);
	expect(csv, row, "fwd_comms_ms", sum.fwd_comms);
	expect(csv, row, "bwd_compute_ms", sum.bwd_compute);
	expect(csv, row, "bwd_comms_ms", sum.bwd_comms);
	expect(csv, row, "prefetch_ms", sum.prefetch);
	expect(csv, row, "input_dist_ms", sum.input_dist);
	expect(csv, row, "sum_total_ms", total);
	expect(csv, row, "max_shard_total_ms", most);
}

NEEDS(DATA "torchrec_reference_options.csv")

FIXTURE(set_up, tear_down)

TEST(all_reference_options)
{
	size_t n_checked = 0;
	struct sc_csv csv;

	load(DATA "torchrec_reference_options.csv", &csv);
	for (size_t i = 0; i < N_OF(instances); i++) {
		struct instance in;

		load_instance(instances[i].name, &in);
		for (size_t row = 0; row < csv.n_rows; row++) {
			if (is(&csv, row, "instance", instances[i].name)) {
				check_option(&in, &csv, row);
				n_checked++;
			}
		}
		release_instance(&in);
	}
	ck_assert_uint_eq(n_checked, 4288);
}

static struct sc_option_shard find_shard(const struct instance *in, const struct sc_option *option,
					 uint32_t index)
{
	struct sc_option_shard shard;

	ck_assert_uint_lt(index, sc_option_n_shards(&in->problem, option));
	sc_option_shard_get(&in->problem, option, index, &shard);
	return shard;
}

LOOP_TEST(reference_plans, N_OF(instances))
{
	double cost[64] = {0}, most = 0;
	struct instance in;
	struct sc_csv csv;

	load_instance(instances[_i].name, &in);
	load(DATA "torchrec_reference_plans.csv", &csv);
	for (size_t row = 0; row < csv.n_rows; row++) {
		struct sc_option_shard shard;
		uint32_t rank;

		if (!is(&csv, row, "instance", instances[_i].name))
			continue;
		rank = (uint32_t)number(&csv, row, "rank");
		ck_assert_uint_lt(rank, in.topology.world);
		shard = find_shard(&in,
				   find_option(&in, table_index(&in, cell(&csv, row, "table")),
					       type_of(cell(&csv, row, "sharding_type")),
					       tier_of(cell(&csv, row, "compute_kernel"))),
				   (uint32_t)number(&csv, row, "shard_index"));
		expect_bytes(&csv, row, "rows", (double)shard.rows);
		expect_bytes(&csv, row, "row_offset", (double)shard.row_offset);
		expect_bytes(&csv, row, "hbm_bytes", shard.hbm_bytes);
		expect(&csv, row, "perf_total_ms", shard.cost);
		cost[rank] += shard.cost;
		most = fmax(most, cost[rank]);
	}
	ck_assert_double_eq_tol(most, instances[_i].planned_ms, 1e-6);
	release_instance(&in);
}

/* Its search finds what it found there, within the six decimals printed. */
LOOP_TEST(planner_finds_the_published_cost, N_OF(instances))
{
	struct sc_shard_solution solution;
	struct instance in;

	load_instance(instances[_i].name, &in);
	ck_assert_msg(sc_torchrec_plan(&in.problem, NULL, &arena, &solution, &err) == 0, "%s",
		      err.text);
	ck_assert_double_eq_tol(solution.cost, instances[_i].planned_ms, 1e-6);
	sc_shard_plan_release(&solution.plan);
	release_instance(&in);
}

/* Printed with three decimals, as are pooling factor and poolings: anything that they may stand
 * for. */
static const double HALF_DIGIT = 0.0005;

struct printed {
	struct sc_table table;
	double poolings, comm_bytes, total_ms;
	double cols; /* of a column slice */
};

static struct printed read_printed(const struct sc_csv *csv, size_t row)
{
	const char *fqn = cell(csv, row, "fqn");
	bool wide = strstr(fqn, ".position_ebc.") || strstr(fqn, ".score_ebc.");
	struct printed printed = {
		.table = {.name = fqn,
			  .rows = (int64_t)number(csv, row, "hash_size"),
			  .dim = (int64_t)number(csv, row, "emb_dim"),
			  .pooling = number(csv, row, "sum_pooling_factor"),
			  .dtype = SC_FP16,
			  .count = 1,
			  .features = 1},
		.poolings = number(csv, row, "sum_num_poolings"),
		.comm_bytes = wide ? 2 : 1,
		.total_ms = number(csv, row, "est_perf_ms"),
	};

	return printed;
}

static void production_topology(struct sc_torchrec_topology *topology)
{
	sc_torchrec_topology_init(topology);
	topology->world = 96;
	topology->ranks_per_host = 8;
	topology->batch_per_rank = 2560;
	topology->outputs_min_pooling = false; /* older than that rule */
}

/* The estimate of the table's column slices, `sign` half digits away from what is printed. */
static double estimate(const struct printed *printed, double sign)
{
	double poolings = fmax(printed->poolings + sign * HALF_DIGIT, 0), total = 0;
	struct sc_torchrec_topology topology;
	struct sc_shard_problem problem;
	struct sc_table table = printed->table;
	struct sc_table_list list = {&table, 1, 0};
	struct instance in = {0};
	const struct sc_option *option;

	table.pooling = fmax(table.pooling + sign * HALF_DIGIT, 0);
	production_topology(&topology);
	topology.comm_bytes = printed->comm_bytes;
	topology.min_cw_dim = printed->cols;
	topology.poolings = &poolings;
	ck_assert_int_eq(sc_torchrec_problem(&topology, &list, &arena, &problem, &err), 0);
	in.problem = problem;
	option = find_option(&in, 0, SC_COLUMN_WISE, SC_TIER_HBM);
	for (uint32_t i = 0; i < option->n_shards; i++)
		total += problem.shards.at[option->first_shard + i].cost;
	sc_shard_problem_release(&problem);
	return total;
}

TEST(production_plan)
{
	size_t n_checked = 0, n_exact = 0;
	struct sc_csv csv;

	load(DATA "torchrec_prod_plan_1935_tables.csv", &csv);
	for (size_t row = 0; row < csv.n_rows; row++) {
		struct sc_arena_mark mark = sc_arena_mark(&arena);
		struct printed printed;
		double low, high, slack;

		if (!is(&csv, row, "output", "pooled") || !is(&csv, row, "num_features", "1"))
			continue;
		printed = read_printed(&csv, row);
		printed.cols = number(&csv, row, "cw_shard_dim");
		low = estimate(&printed, -1);
		high = estimate(&printed, 1);
		slack = HALF_DIGIT + PRINTED;
		ck_assert_msg(low - slack <= printed.total_ms && printed.total_ms <= high + slack,
			      "%s:%u: %s is %.3f ms there, %.4f to %.4f here", csv.file,
			      csv.line[row], printed.table.name, printed.total_ms, low, high);
		n_exact += fabs(estimate(&printed, 0) - printed.total_ms) <=
			   REL_TOLERANCE * printed.total_ms + slack;
		n_checked++;
		sc_arena_rewind(&arena, mark);
	}
	ck_assert_uint_eq(n_checked, 1889);
	/* The others are a few tables whose poolings are so few that three decimals are not enough.
	 */
	printf("within 1e-4: %zu of %zu\n", n_exact, n_checked);
	ck_assert_uint_ge(n_exact, 1850);
}

/* Its two tables of sequences, row-wise over all ranks; all their features together as one. */
TEST(production_sequences)
{
	size_t n_checked = 0;
	struct sc_csv csv;

	load(DATA "torchrec_prod_plan_1935_tables.csv", &csv);
	for (size_t row = 0; row < csv.n_rows; row++) {
		struct sc_torchrec_topology topology;
		const struct sc_option *option;
		struct instance in = {0};
		struct sc_table table;
		double total = 0;

		if (!is(&csv, row, "output", "sequence"))
			continue;
		ck_assert(is(&csv, row, "sharding", "RW"));
		table = read_printed(&csv, row).table;
		table.pooling = number(&csv, row, "num_indices");
		table.sequence = true;
		in.tables = (struct sc_table_list){&table, 1, 0};
		production_topology(&topology);
		topology.comm_bytes = 1;
		ck_assert_int_eq(
			sc_torchrec_problem(&topology, &in.tables, &arena, &in.problem, &err), 0);
		option = find_option(&in, 0, SC_ROW_WISE, SC_TIER_HBM);
		for (uint32_t i = 0; i < topology.world; i++)
			total += in.problem.shards.at[sc_option_shard_index(&in.problem, option, i)]
					 .cost;
		expect(&csv, row, "est_perf_ms", total);
		release_instance(&in);
		n_checked++;
	}
	ck_assert_uint_eq(n_checked, 2);
}
