/* Options of tables under the iteration objective, and plans rated by the simulated step. */
#include "dlrm_fixture.h"
#include "runner.h"
#include "study/shard/shard_iteration.h"
#include "study/shard/shard_objective.h"

enum { N_TABLES = 4 };
static struct sc_table tables[N_TABLES];
static struct sc_shard_problem problem;

/* Two alike, one that is looked up more, and a small one. */
static struct sc_request *request(const char *overrides)
{
	tables[0] = make_table("a_0", 1000000, 10);
	tables[1] = make_table("a_1", 1000000, 10);
	tables[2] = make_table("b", 1000000, 40);
	tables[3] = make_table("c", 1000, 1);
	return make_request(tables, N_TABLES, overrides);
}

static void start(const struct sc_request *req)
{
	struct sc_err err = {0};

	ck_assert_msg(sc_iteration_problem(req, &arena, &problem, &err) == 0, "%s", err.text);
}

/* The option of that type, tier and number of shards; NULL: there is none. */
static const struct sc_option *find(uint32_t table, enum sc_shard_type type, enum sc_tier tier,
				    uint32_t n)
{
	for (uint32_t i = problem.first_option.at[table]; i < problem.first_option.at[table + 1];
	     i++) {
		const struct sc_option *o = &problem.options.at[i];

		if (o->type == type && o->tier == tier && sc_option_n_shards(&problem, o) == n)
			return o;
	}
	return NULL;
}

static const struct sc_option_shard *shard_of(const struct sc_option *option, uint32_t i)
{
	struct sc_option_shard *shard = sc_arena_alloc(&arena, sizeof(*shard));

	ck_assert_ptr_nonnull(option);
	sc_option_shard_get(&problem, option, i, shard);
	return shard;
}

#define GPUS8 "gpus=8 cluster.gpus_per_node=4 "

FIXTURE(set_up, tear_down)

TEST(options_of_a_table)
{
	start(request(GPUS8));
	ck_assert_uint_eq(problem.n_tables, N_TABLES);
	ck_assert_uint_eq(problem.world, 8);
	ck_assert_uint_eq(problem.ranks_per_host, 4);
	ck_assert_uint_eq(problem.first_option.n, N_TABLES + 1);
	ck_assert_ptr_nonnull(find(0, SC_TABLE_WISE, SC_TIER_HBM, 1));
	ck_assert_ptr_nonnull(find(0, SC_COLUMN_WISE, SC_TIER_HBM, 2));
	ck_assert_ptr_nonnull(find(0, SC_COLUMN_WISE, SC_TIER_HBM, 4));
	ck_assert_ptr_null(find(0, SC_COLUMN_WISE, SC_TIER_HBM, 8)); /* 8 columns: too narrow */
	ck_assert_ptr_nonnull(find(0, SC_ROW_WISE, SC_TIER_HBM, 8));
	ck_assert_ptr_nonnull(find(0, SC_TABLE_ROW_WISE, SC_TIER_HBM, 4));
	/* 244 MiB may be replicated; all fit in HBM, so nothing else is looked at */
	ck_assert_ptr_nonnull(find(0, SC_DATA_PARALLEL, SC_TIER_HBM, 8));
	ck_assert_ptr_null(find(0, SC_TABLE_WISE, SC_TIER_UVM, 1));
	sc_shard_problem_release(&problem);
	start(request("gpus=1"));
	for (uint32_t t = 0; t < N_TABLES; t++)
		ck_assert_uint_eq(problem.first_option.at[t + 1] - problem.first_option.at[t], 1);
	sc_shard_problem_release(&problem);
}

/* A shard never costs more than what it was cut from, and all its parts never less. */
TEST(costs_of_parts)
{
	start(request(GPUS8));
	for (uint32_t t = 0; t < 3; t++) {
		double whole = shard_of(find(t, SC_TABLE_WISE, SC_TIER_HBM, 1), 0)->cost;

		for (uint32_t n = 2; n <= 4; n *= 2) {
			double part = shard_of(find(t, SC_COLUMN_WISE, SC_TIER_HBM, n), 0)->cost;

			ck_assert_double_gt(part, 0);
			ck_assert_double_lt(part, whole);
			ck_assert_double_ge(n * part, whole * (1 - 1e-9));
		}
		ck_assert_double_lt(shard_of(find(t, SC_ROW_WISE, SC_TIER_HBM, 8), 1)->cost, whole);
	}
	/* more lookups cost more, and copies the same */
	ck_assert_double_gt(shard_of(find(2, SC_TABLE_WISE, SC_TIER_HBM, 1), 0)->cost,
			    1.5 * shard_of(find(0, SC_TABLE_WISE, SC_TIER_HBM, 1), 0)->cost);
	ck_assert_double_eq_tol(shard_of(find(1, SC_TABLE_WISE, SC_TIER_HBM, 1), 0)->cost,
				shard_of(find(0, SC_TABLE_WISE, SC_TIER_HBM, 1), 0)->cost, 1e-15);
	sc_shard_problem_release(&problem);
}

TEST(bytes_of_shards)
{
	const double bytes = 1e6 * FIX_DIM * 4;
	const struct sc_option_shard *s;

	start(request(GPUS8 "training.optimizer=adagrad"));
	s = shard_of(find(0, SC_TABLE_WISE, SC_TIER_HBM, 1), 0);
	ck_assert_double_eq_tol(s->hbm_bytes, 2 * bytes, 1);
	ck_assert_double_eq_tol(s->host_bytes, 0, 1e-9);
	s = shard_of(find(0, SC_COLUMN_WISE, SC_TIER_HBM, 4), 3);
	ck_assert_double_eq_tol(s->hbm_bytes, 2 * bytes / 4, 1);
	ck_assert_int_eq(s->col_offset, 48);
	s = shard_of(find(0, SC_ROW_WISE, SC_TIER_HBM, 8), 7);
	ck_assert_int_eq(s->row_offset, 875000);
	ck_assert_int_eq(s->rows, 125000);
	ck_assert_double_eq_tol(s->hbm_bytes, 2 * bytes / 8, 1);
	sc_shard_problem_release(&problem);
}

/* TorchRec's planner counts at least what a table is held to take, so that its plans keep the
 * budget that it is given. */
TEST(torchrec_counts_what_is_held)
{
	static const char *const optimizers[] = {"sgd", "adagrad", "rowwise_adagrad", "adam"};
	struct sc_table_list list = {.at = tables, .n = N_TABLES};
	struct sc_torchrec_topology topology;
	struct sc_err err = {0};
	double held, before = 0;

	for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
		const struct sc_request *req = request(
			sc_arena_printf(&arena, GPUS8 "training.optimizer=%s", optimizers[i]));

		start(req);
		held = shard_of(find(0, SC_TABLE_WISE, SC_TIER_HBM, 1), 0)->hbm_bytes;
		sc_shard_problem_release(&problem);
		sc_torchrec_topology_of(req, false, &topology);
		ck_assert_int_eq(sc_torchrec_problem(&topology, &list, &arena, &problem, &err), 0);
		ck_assert_double_ge(shard_of(find(0, SC_TABLE_WISE, SC_TIER_HBM, 1), 0)->hbm_bytes,
				    held);
		before += held;
		sc_shard_problem_release(&problem);
	}
	ck_assert_double_gt(before, 4 * 1e6 * FIX_DIM * 4); /* their states differ */
}

TEST(column_cost_is_the_options)
{
	struct sc_option_shard out;
	const struct sc_option_shard *half;
	double before = 0;

	start(request(GPUS8));
	half = shard_of(find(0, SC_COLUMN_WISE, SC_TIER_HBM, 2), 0);
	ck_assert(problem.column_cost(problem.column_ctx, 0, SC_TIER_HBM, FIX_DIM / 2, &out));
	ck_assert_double_eq_tol(out.cost, half->cost, 1e-15);
	ck_assert_double_eq_tol(out.hbm_bytes, half->hbm_bytes, 1e-9);
	ck_assert(!problem.column_cost(problem.column_ctx, 0, SC_TIER_HBM, FIX_DIM + 4, &out));
	ck_assert(!problem.column_cost(problem.column_ctx, 0, SC_TIER_HBM, 0, &out));
	for (int64_t cols = 16; cols <= FIX_DIM; cols += 4) {
		ck_assert(problem.column_cost(problem.column_ctx, 0, SC_TIER_HBM, cols, &out));
		ck_assert_double_gt(out.cost, before);
		before = out.cost;
	}
	sc_shard_problem_release(&problem);
}

/* The first slice of a skewed table's rows is looked up more. */
TEST(hot_rows_cost_their_rank)
{
	struct sc_request *req = request(GPUS8);
	const struct sc_option *rows;

	tables[2].reuse = (struct sc_reuse){.kind = SC_REUSE_ZIPF, .zipf = 1.2};
	start(req);
	rows = find(2, SC_ROW_WISE, SC_TIER_HBM, 8);
	ck_assert_double_gt(shard_of(rows, 0)->cost, shard_of(rows, 1)->cost);
	ck_assert_double_eq_tol(shard_of(rows, 7)->cost, shard_of(rows, 1)->cost, 1e-15);
	sc_shard_problem_release(&problem);
}

/* 4 GPUs of 80 GiB, 286 GiB of rows: other memory is looked at, and costs more. */
TEST(other_memory_when_hbm_is_short)
{
	struct sc_request *req = request("");
	const struct sc_option_shard *hbm, *cached, *uvm;

	tables[2].rows = 1200000000;
	start(req);
	ck_assert_ptr_null(find(2, SC_DATA_PARALLEL, SC_TIER_HBM, 4));
	hbm = shard_of(find(2, SC_TABLE_WISE, SC_TIER_HBM, 1), 0);
	cached = shard_of(find(2, SC_TABLE_WISE, SC_TIER_CACHED, 1), 0);
	uvm = shard_of(find(2, SC_TABLE_WISE, SC_TIER_UVM, 1), 0);
	ck_assert_double_gt(cached->cost, hbm->cost);
	ck_assert_double_gt(uvm->cost, hbm->cost);
	ck_assert_double_gt(cached->hbm_bytes, 0);
	ck_assert_double_lt(cached->hbm_bytes, 0.5 * hbm->hbm_bytes);
	ck_assert_double_eq_tol(uvm->hbm_bytes, 0, 1e-9);
	ck_assert_double_eq_tol(uvm->host_bytes, hbm->hbm_bytes, 1);
	sc_shard_problem_release(&problem);
}

TEST(slow_ranks_are_known)
{
	static int64_t rank[] = {2};
	static struct sc_straggler slow = {.ranks = {rank, 1}, .slowdown = 2};
	struct sc_request *req = request("");

	start(req);
	ck_assert_ptr_null(problem.rank_speed);
	sc_shard_problem_release(&problem);
	req->config.stragglers = (struct sc_structs){&slow, 1};
	start(req);
	ck_assert_ptr_nonnull(problem.rank_speed);
	ck_assert_double_eq_tol(problem.rank_speed[2], 0.5, 1e-12);
	ck_assert_double_eq_tol(problem.rank_speed[1], 1, 1e-12);
	sc_shard_problem_release(&problem);
}

/* ---- whole steps ---- */

static double step_ms(const struct sc_request *req, const int *ranks)
{
	struct sc_shard_plan plan;
	struct sc_prediction *out = sc_arena_calloc(&arena, 1, sizeof(*out));
	struct sc_err err = {0};

	plan_init(&plan, req);
	for (int i = 0; i < N_TABLES; i++)
		place(&plan, &tables[i], SC_TABLE_WISE, 1, ranks[i]);
	ck_assert_msg(sc_iteration_rate(predictor, req, &plan, out, &err) == 0, "%s", err.text);
	sc_shard_plan_release(&plan);
	return out->iteration_ms;
}

#define BIG "training.global_batch=131072 training.software=hugectr "

TEST(balanced_steps_are_shorter)
{
	static const int together[] = {0, 0, 0, 0}, mixed[] = {0, 0, 1, 2}, apart[] = {0, 1, 2, 3};
	struct sc_request *req = request(BIG);
	double worst = step_ms(req, together), middle = step_ms(req, mixed),
	       best = step_ms(req, apart);

	ck_assert_double_lt(middle, 0.9 * worst);
	ck_assert_double_le(best, middle);
}

/* What the solver finds by the proxy is no slower, simulated, than any way to place the tables
 * whole. */
TEST(search_is_not_worse_than_whole_tables)
{
	struct sc_request *req = request(BIG);
	struct sc_shard_solution solution;
	struct sc_solve_opts opts;
	struct sc_prediction *out = sc_arena_calloc(&arena, 1, sizeof(*out));
	struct sc_err err = {0};
	double best = INFINITY;

	start(req);
	opts = sc_solve_defaults;
	ck_assert_msg(sc_shard_solve(&problem, &opts, &arena, &solution, &err) == 0, "%s",
		      err.text);
	ck_assert_double_ge(solution.cost, solution.bound * (1 - 1e-9));
	ck_assert_int_eq(sc_shard_plan_check(&solution.plan, NULL), 0);
	ck_assert_int_eq(sc_iteration_rate(predictor, req, &solution.plan, out, NULL), 0);
	for (int i = 0; i < 256; i++) {
		const int ranks[] = {i & 3, i >> 2 & 3, i >> 4 & 3, i >> 6 & 3};

		best = fmin(best, step_ms(req, ranks));
	}
	ck_assert_double_le(out->iteration_ms, 1.001 * best);
	sc_shard_plan_release(&solution.plan);
	sc_shard_problem_release(&problem);
}

/* The forward time of the table of that name, for each lookup, in us. */
static double lookup_us(const char *name)
{
	uint32_t t = 0;

	while (t < problem.n_tables && strcmp(problem.tables[t].name, name) != 0)
		t++;
	ck_assert_uint_lt(t, problem.n_tables);
	return 1e3 * shard_of(find(t, SC_TABLE_WISE, SC_TIER_HBM, 1), 0)->forward_ms /
	       (65536 * problem.tables[t].pooling);
}

/* Production tables with as many lookups are in thirds by how often their rows come back: by their
 * own reuse, those whose rows do are looked up for less. */
TEST(production_tables_cost_by_their_own_reuse)
{
	const struct sc_request *req =
		request_of("gpus=64 model=models/dlrm-datasets-2021.yaml",
			   "cluster.gpu=a100-sxm-80gb cluster.gpus_per_node=8 "
			   "cluster.nics_per_node=8 cluster.nic_gbit_s=200 "
			   "training.global_batch=65536 training.precision=tf32 "
			   "training.optimizer=sgd training.software=torchrec");
	int n_cheaper = 0;

	start(req);
	ck_assert_uint_eq(problem.n_tables, 820);
	for (int band = 4; band <= 8; band++) {
		double us[3];

		for (int third = 0; third < 3; third++)
			us[third] =
				lookup_us(sc_arena_printf(&arena, "p%d_%c_0", band, 'a' + third));
		ck_assert_double_gt(us[0], us[1]);
		ck_assert_double_gt(us[1], us[2]);
		n_cheaper += us[2] < 0.6 * us[0];
	}
	ck_assert_int_ge(n_cheaper, 3);
	sc_shard_problem_release(&problem);
}
