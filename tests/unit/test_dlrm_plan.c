/* Where the planners put tables, and which plans a request takes. */
#include "base/units.h"
#include "dlrm_fixture.h"
#include "runner.h"

#define GPUS8 "gpus=8 cluster.gpus_per_node=8 "
enum { N_TABLES = 10 };
static struct sc_table tables[N_TABLES];
static struct sc_dlrm dlrm;

/* From 10,000 to 100,000 rows; those with fewer rows are looked up more. */
static void make_tables(void)
{
	static const char *const names[N_TABLES] = {"a", "b", "c", "d", "e",
						    "f", "g", "h", "i", "j"};

	for (int i = 0; i < N_TABLES; i++)
		tables[i] = make_table(names[i], (i + 1) * 10000, N_TABLES - i);
}

static void plan_of(const char *overrides)
{
	make_tables();
	init_dlrm(&dlrm, make_request(tables, N_TABLES, overrides), NULL);
}

static const struct sc_table_placement *placement_of(const char *name)
{
	for (size_t i = 0; i < dlrm.plan.tables.n; i++)
		if (strcmp(dlrm.plan.tables.at[i].name, name) == 0)
			return &dlrm.plan.tables.at[i];
	ck_abort_msg("no table %s", name);
	return NULL;
}

static void count_shards(int *counts, double *elements)
{
	for (uint32_t r = 0; r < dlrm.plan.world; r++) {
		counts[r] = 0;
		elements[r] = 0;
	}
	for (size_t i = 0; i < dlrm.plan.shards.n; i++) {
		const struct sc_shard *s = &dlrm.plan.shards.at[i];

		counts[s->rank]++;
		elements[s->rank] += (double)s->rows * (double)s->cols;
	}
}

FIXTURE(set_up, tear_down)

TEST(memory_balanced_keeps_counts_even)
{
	int counts[4];
	double elements[4];

	plan_of("sharding.planner=memory_balanced");
	count_shards(counts, elements);
	for (int r = 0; r < 4; r++) {
		ck_assert_int_le(counts[r], 3);
		ck_assert_int_ge(counts[r], 2);
		/* 550,000 rows over 4 ranks; the largest table has 100,000 */
		ck_assert_double_gt(elements[r], 110000 * FIX_DIM);
		ck_assert_double_lt(elements[r], 165000 * FIX_DIM);
	}
	for (size_t i = 0; i < dlrm.plan.tables.n; i++)
		ck_assert_int_eq((int)dlrm.plan.tables.at[i].type, SC_TABLE_WISE);
	sc_dlrm_release(&dlrm);
}

/* The three tables with most lookups, which have the fewest rows, lie apart. */
TEST(lookups_go_apart)
{
	int32_t a, b, c;

	plan_of("sharding.planner=lookups");
	a = dlrm.plan.shards.at[placement_of("a")->first_shard].rank;
	b = dlrm.plan.shards.at[placement_of("b")->first_shard].rank;
	c = dlrm.plan.shards.at[placement_of("c")->first_shard].rank;
	ck_assert(a != b && b != c && a != c);
	sc_dlrm_release(&dlrm);
}

/* The limit lies between the sizes of "e" and "f", and of "j" halved. */
TEST(large_tables_are_cut_into_columns)
{
	plan_of("sharding.planner=memory_balanced sharding.column_slice_elements=3500000");
	for (size_t i = 0; i < dlrm.plan.tables.n; i++) {
		const struct sc_table_placement *p = &dlrm.plan.tables.at[i];
		bool large = (double)p->rows * FIX_DIM > 3500000;

		ck_assert_uint_eq(p->n_shards, large ? 2 : 1);
		ck_assert_int_eq((int)p->type, large ? SC_COLUMN_WISE : SC_TABLE_WISE);
		for (uint32_t s = 0; s < p->n_shards; s++) {
			const struct sc_shard *shard = &dlrm.plan.shards.at[p->first_shard + s];

			ck_assert_int_eq(shard->cols, FIX_DIM / (int64_t)p->n_shards);
			ck_assert_int_eq(shard->col_offset, s * shard->cols);
		}
	}
	ck_assert_uint_eq(placement_of("e")->n_shards, 1);
	ck_assert_uint_eq(placement_of("f")->n_shards, 2);
	sc_dlrm_release(&dlrm);
	/* never into more than there are GPUs */
	plan_of("sharding.planner=memory_balanced sharding.column_slice_elements=1000");
	ck_assert_uint_eq(placement_of("j")->n_shards, 4);
	sc_dlrm_release(&dlrm);
}

/* HugeCTR 2.2 deals tables out in turn; NVIDIA's DLRM in PyTorch places them by their size. Neither
 * cuts the largest, as distributed-embeddings does. */
TEST(some_software_keeps_tables_whole)
{
	static const struct {
		const char *overrides;
		bool is_cut, in_turn;
	} cases[] = {
		{"training.software=hugectr training.software_version=2.2 sharding.planner=hugectr",
		 false, true},
		{"training.software=hugectr sharding.planner=hugectr", true, false},
		{"training.software=nvidia-dlrm-pt sharding.planner=memory_balanced", false, false},
		{"training.software=nvidia-dlrm-pt sharding.planner=memory_balanced "
		 "sharding.column_slice_elements=1e7",
		 true, false},
		{"training.software=distributed-embeddings sharding.planner=memory_balanced", true,
		 false},
	};

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		bool is_cut = false, in_turn = true;

		make_tables();
		tables[9].rows = 40000000;
		init_dlrm(&dlrm, make_request(tables, N_TABLES, cases[c].overrides), NULL);
		for (size_t i = 0; i < dlrm.plan.tables.n; i++) {
			const struct sc_table_placement *p = &dlrm.plan.tables.at[i];

			is_cut |= p->n_shards > 1;
			in_turn &= p->type == SC_TABLE_WISE &&
				   dlrm.plan.shards.at[p->first_shard].rank == (int32_t)(i % 4);
		}
		ck_assert_msg(is_cut == cases[c].is_cut, "%s", cases[c].overrides);
		ck_assert_msg(in_turn == cases[c].in_turn, "%s", cases[c].overrides);
		sc_dlrm_release(&dlrm);
	}
}

/* "a" holds 10,000 * 64 * 4 = 2.56e6 bytes, "j" ten times that. */
TEST(hugectr_replicates_what_is_small)
{
	plan_of("sharding.planner=hugectr sharding.dp_threshold_gb=0.003");
	for (size_t i = 0; i < dlrm.plan.tables.n; i++) {
		const struct sc_table_placement *p = &dlrm.plan.tables.at[i];

		ck_assert_msg((p->type == SC_DATA_PARALLEL) == (p->rows <= 10000), "%s", p->name);
	}
	sc_dlrm_release(&dlrm);
	/* its recipe for one node, 8 MB, takes three */
	plan_of("sharding.planner=hugectr");
	ck_assert_int_eq((int)placement_of("c")->type, SC_DATA_PARALLEL);
	ck_assert_int_ne((int)placement_of("d")->type, SC_DATA_PARALLEL);
	sc_dlrm_release(&dlrm);
	/* and for more than two nodes, 12.5 MB, four */
	plan_of("gpus=16 sharding.planner=hugectr");
	ck_assert_int_eq((int)placement_of("d")->type, SC_DATA_PARALLEL);
	ck_assert_int_ne((int)placement_of("e")->type, SC_DATA_PARALLEL);
	sc_dlrm_release(&dlrm);
}

TEST(software_has_its_planner)
{
	static const struct {
		const char *overrides;
		enum sc_planner planner;
	} cases[] = {
		{"training.software=hugectr sharding.planner=lookups", SC_PLANNER_LOOKUPS},
		{"training.software=torchrec sharding.planner=stepcast", SC_PLANNER_STEPCAST},
	};
	static const struct {
		const char *software;
		enum sc_planner planner;
	} own[] = {
		{"hugectr", SC_PLANNER_HUGECTR},
		{"torchrec", SC_PLANNER_TORCHREC},
		{"distributed-embeddings", SC_PLANNER_MEMORY_BALANCED},
		{"nvidia-dlrm-pt", SC_PLANNER_MEMORY_BALANCED},
		{"default", SC_PLANNER_STEPCAST},
	};

	make_tables();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_int_eq(
			(int)sc_request_planner(make_request(tables, N_TABLES, cases[i].overrides)),
			(int)cases[i].planner);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		char text[64];
		struct sc_request *req;

		snprintf(text, sizeof(text), "training.software=%s", own[i].software);
		req = make_request(tables, N_TABLES, text);
		req->config.sharding.planner = SC_PLANNER_NONE;
		ck_assert_int_eq((int)sc_request_planner(req), (int)own[i].planner);
	}
}

static const char *const PLANNERS[] = {"stepcast", "torchrec", "hugectr", "memory_balanced",
				       "lookups"};
static const char *const GPU_COUNTS[] = {"gpus=1", "gpus=2", "gpus=4", GPUS8, "gpus=8", "gpus=16"};
enum {
	N_PLANNERS = sizeof(PLANNERS) / sizeof(PLANNERS[0]),
	N_COUNTS = sizeof(GPU_COUNTS) / sizeof(GPU_COUNTS[0])
};

/* Every planner places every table once, whatever the number of GPUs; sc_dlrm_init proves it. */
LOOP_TEST(every_planner_for_any_gpus, n_cases(N_PLANNERS *N_COUNTS))
{
	const int i = nth_case(_i, N_PLANNERS * N_COUNTS);
	char text[128];

	snprintf(text, sizeof(text), "%s sharding.planner=%s", GPU_COUNTS[i % N_COUNTS],
		 PLANNERS[i / N_COUNTS]);
	plan_of(text);
	ck_assert_uint_eq(dlrm.plan.tables.n, N_TABLES);
	ck_assert_int_eq(sc_shard_plan_check_tables(&dlrm.plan, &dlrm.tables, NULL), 0);
	sc_dlrm_release(&dlrm);
}

/* TorchRec's planner keeps 15 % of a GPU's memory free, once, and counts the optimizer's state. */
LOOP_TEST(torchrec_fills_the_memory_it_has, 7)
{
	static const struct {
		const char *optimizer;
		double gib; /* of weights, on 68 GiB */
		enum sc_tier tier;
	} cases[] = {{"sgd", 60, SC_TIER_HBM},
		     {"sgd", 70, SC_TIER_UVM},
		     {"adam", 20, SC_TIER_HBM},
		     {"adam", 30, SC_TIER_UVM},
		     {"rowwise_adagrad", 60, SC_TIER_HBM},
		     {"adagrad", 30, SC_TIER_HBM},
		     {"adagrad", 40, SC_TIER_UVM}};
	double row_bytes = FIX_DIM * sc_dtype_bytes(SC_FP32);
	int64_t rows = (int64_t)(cases[_i].gib * SC_BYTES_PER_GIB / row_bytes);
	struct sc_table one = make_table("a", rows, 1);
	char text[128];

	snprintf(text, sizeof(text), "gpus=1 sharding.planner=torchrec training.optimizer=%s",
		 cases[_i].optimizer);
	init_dlrm(&dlrm, make_request(&one, 1, text), NULL);
	ck_assert_int_eq(dlrm.plan.tables.at[0].tier == SC_TIER_HBM, cases[_i].tier == SC_TIER_HBM);
	sc_dlrm_release(&dlrm);
}

static int init_with(const struct sc_request *req, const struct sc_shard_plan *plan,
		     struct sc_err *err)
{
	struct sc_predict_opts opts;
	struct sc_prediction out;

	sc_predict_opts_init(&opts);
	opts.plan = plan;
	return sc_predict(predictor, req, &opts, &out, err);
}

TEST(plan_for_other_gpus_is_refused)
{
	struct sc_table one = make_table("a", 1000, 1);
	struct sc_request *req = make_request(&one, 1, "");
	struct sc_shard_plan plan = {.world = 2, .ranks_per_host = 2};
	struct sc_err err = {0};

	place(&plan, &one, SC_TABLE_WISE, 1, 1);
	ck_assert_int_eq(init_with(req, &plan, &err), -SC_ECONFLICT);
	ck_assert_str_eq(err.text, "the sharding plan is for 2 ranks, the request has 4 GPUs");
	plan.world = plan.ranks_per_host = 4;
	ck_assert_int_eq(init_with(req, &plan, NULL), 0);
	sc_shard_plan_release(&plan);
}

/* Files of other tools do not say how many ranks share a host: the cluster does. */
TEST(plan_without_hosts_takes_the_clusters)
{
	static const char *const software[] = {"training.software=hugectr",
					       "training.software=torchrec"};
	struct sc_table one = make_table("a", 1000, 1);

	for (int i = 0; i < 2; i++) {
		struct sc_request *req = make_request(&one, 1, software[i]);
		struct sc_shard_plan plan = {.world = 4};
		double without, with;

		place(&plan, &one, SC_TABLE_ROW_WISE, 4, 0);
		without = run_plan(req, &plan)->iteration_ms;
		plan.ranks_per_host = 4;
		with = run_plan(req, &plan)->iteration_ms;
		ck_assert_double_eq_tol(without, with, 1e-12);
		sc_shard_plan_release(&plan);
	}
}
