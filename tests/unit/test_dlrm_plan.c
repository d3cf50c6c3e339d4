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
	/* never into more than there are GPUs */
	plan_of("sharding.planner=memory_balanced sharding.column_slice_elements=1000");
	ck_assert_uint_eq(placement_of("j")->n_shards, 4);
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
	/* its recipe for one node, 8 MB, takes three */
	plan_of("sharding.planner=hugectr");
	ck_assert_int_eq((int)placement_of("c")->type, SC_DATA_PARALLEL);
	ck_assert_int_ne((int)placement_of("d")->type, SC_DATA_PARALLEL);
	/* and for more than two nodes, 12.5 MB, four */
	plan_of("gpus=16 sharding.planner=hugectr");
	ck_assert_int_eq((int)placement_of("d")->type, SC_DATA_PARALLEL);
	ck_assert_int_ne((int)placement_of("e")->type, SC_DATA_PARALLEL);
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

/* A predictor that has seen the neighbours of a request says what one that has seen nothing says:
 * each differs from the one before in one thing that lookups, or the form of the graph, depend on.
 */
TEST(what_was_seen_before_does_not_show)
{
	static const char *const overrides[] = {
		"",
		"training.global_batch=8192",
		"training.optimizer=adam",
		"training.precision=amp_fp16",
		"cluster.gpu=h100-sxm-80gb",
		"training.software=hugectr",
		"training.software=hugectr cluster.gpus_per_node=2 cluster.nics_per_node=2",
		"training.software=hugectr training.cuda_graphs=false",
		"training.software=nvidia-dlrm-pt",
		"training.software=distributed-embeddings",
		"gpus=2",
		"model.bottom_mlp=64",
		"model.interaction=dot",
		"stragglers=1",
		"load_cycles",
		"",
	};
	enum { N_CHANGES = 11, N_OVERRIDES = sizeof(overrides) / sizeof(overrides[0]) };
	int64_t rank = 1;
	struct sc_straggler late = {.ranks = {&rank, 1}, .slowdown = 1.5};
	struct sc_predictor *warm = sc_predictor_create();

	for (int i = 0; i < N_OVERRIDES * N_CHANGES; i++) {
		const int change = i % N_CHANGES;
		const char *text = overrides[i / N_CHANGES];
		const bool is_late = strcmp(text, "stragglers=1") == 0;
		const bool is_far = strcmp(text, "load_cycles") == 0;
		struct sc_predictor *fresh = sc_predictor_create();
		static struct sc_prediction a, b;
		struct sc_predict_opts opts;
		struct sc_shard_plan plan;
		struct sc_request *req;

		make_tables();
		tables[1].rows = change == 1 ? 70000 : 20000;
		tables[1].pooling = change == 2 ? 3 : 9;
		tables[1].weighted = change == 3;
		tables[1].sequence = change == 4;
		tables[1].features = change == 5 ? 2 : 1;
		tables[1].storage = change == 6 ? SC_FP16 + 1 : 0;
		if (change == 7)
			tables[1].reuse = (struct sc_reuse){.kind = SC_REUSE_ZIPF, .zipf = 1.1};
		if (change >
		    8) { /* the ranks of two tables are alike but for what is asked of them */
			tables[2].rows = tables[1].rows;
			tables[2].dim = tables[1].dim;
			tables[2].pooling = 90;
		}
		req = make_request(tables, 3, is_late || is_far ? "" : text);
		req->software.host_step_us = req->software.host_op_us = 0; /* it would hide all */
		req->software.dlrm.host_sample_us = 0;
		if (is_late)
			req->config.stragglers = (struct sc_structs){&late, 1};
		if (is_far)
			req->device.embedding.load_cycles = 1e4;
		plan_init(&plan, req);
		place(&plan, &tables[0], SC_DATA_PARALLEL, (int)plan.world, 0);
		place(&plan, &tables[1], change == 8 ? SC_ROW_WISE : SC_TABLE_WISE,
		      change == 8 ? (int)plan.world : 1, change == 8 || change == 10 ? 0 : 1);
		place(&plan, &tables[2], SC_TABLE_WISE, 1, change == 10);
		sc_predict_opts_init(&opts);
		opts.plan = &plan;
		ck_assert_int_eq(sc_predict(warm, req, &opts, &a, NULL), 0);
		ck_assert_int_eq(sc_predict(fresh, req, &opts, &b, NULL), 0);
		ck_assert_msg(!(fabs(a.iteration_ms - b.iteration_ms) > 0),
			      "%s, change %d: %.17g after others, %.17g alone", text, change,
			      a.iteration_ms, b.iteration_ms);
		ck_assert_uint_eq(a.n_nodes, b.n_nodes);
		ck_assert(!(fabs(a.memory.total_gib - b.memory.total_gib) > 0));
		sc_predictor_destroy(fresh);
		sc_shard_plan_release(&plan);
	}
	sc_predictor_destroy(warm);
}
