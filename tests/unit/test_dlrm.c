/* The predicted step of a DLRM: ways that must agree, bounds, and what each habit and fault does to
 * it. */
#include "base/rng.h"
#include "base/units.h"
#include "dlrm_fixture.h"
#include "graph_check.h"
#include "predict/op_names.h"
#include "runner.h"

enum { N_TABLES = 12, N_RANDOM = 200 };
static struct sc_table tables[N_TABLES];

static struct sc_request *request(const char *overrides)
{
	static const char *const names[N_TABLES] = {"a", "b", "c", "d", "e", "f",
						    "g", "h", "i", "j", "k", "l"};

	for (int i = 0; i < N_TABLES; i++)
		tables[i] = make_table(names[i], 1000 << i, 1 + 7 * (i % 4));
	return make_request(tables, N_TABLES, overrides);
}

static double ms_of(const struct sc_request *req)
{
	return run_plan(req, NULL)->iteration_ms;
}

static struct sc_prediction *run_kept(const struct sc_request *req)
{
	struct sc_predict_opts opts;

	sc_predict_opts_init(&opts);
	opts.keep_graph = true;
	return run_opts(req, &opts);
}

/* Nodes of that name in the graph of the last prediction. */
static int count_nodes(enum sc_op_name name)
{
	const struct sc_graph *g = sc_predictor_ran(predictor).graph;
	int n = 0;

	for (size_t i = 0; i < g->nodes.n; i++)
		n += g->nodes.at[i].op != SC_NONE &&
		     sc_op_unpack_name(g->nodes.at[i].op) == (unsigned)name;
	return n;
}

#define GPUS8 "gpus=8 cluster.gpus_per_node=8 cluster.nics_per_node=8 "
#define NODES "gpus=16 cluster.gpus_per_node=8 cluster.nics_per_node=8 "
static const char *const CASES[] = {
	"",
	"gpus=1",
	GPUS8 "sharding.planner=hugectr training.software=hugectr training.precision=amp_fp16",
	NODES "sharding.planner=hugectr training.software=hugectr training.precision=amp_fp16",
	GPUS8 "sharding.planner=torchrec training.optimizer=adagrad",
	GPUS8 "training.software=nvidia-dlrm-pt model.interaction=dot training.precision=amp_fp16",
	GPUS8 "training.software=nvidia-dlrm-tf2 model.interaction=dcnv2 model.cross_layers=3 "
	      "model.low_rank=64",
	NODES "training.software=distributed-embeddings sharding.column_slice_elements=1000000",
	NODES "training.software=default sharding.planner=lookups cluster.gpu=h100-sxm-80gb",
	GPUS8 "training.global_batch=4099",
	NODES "sharding.planner=stepcast training.optimizer=adam",
};
enum { N_CASES = sizeof(CASES) / sizeof(CASES[0]) };

FIXTURE(set_up, tear_down)

LOOP_TEST(folded_and_unfolded_agree, many_cases() ? N_CASES : 5)
{
	struct sc_request *req = request(CASES[many_cases() ? _i : _i * N_CASES / 5]);
	struct sc_predict_opts opts;
	struct sc_prediction *unfolded;
	double folded = ms_of(req);

	sc_predict_opts_init(&opts);
	opts.unfolded = true;
	unfolded = run_opts(req, &opts);
	ck_assert_uint_eq(unfolded->reading.n_classes, (size_t)req->config.gpus);
	ck_assert_msg(fabs(unfolded->iteration_ms / folded - 1) < 1e-9, "%.9f %.9f ms: %s", folded,
		      unfolded->iteration_ms, req->config.training.software);
}

/* Ranks that take shapes of others, and classes that take blocks, have what they would have alone.
 */
TEST(what_ranks_share_is_each_ones)
{
	enum { WORLD = 8, N_WIDE = 4 };
	struct sc_request *req = request(GPUS8);
	int64_t slow_rank = 5;
	struct sc_straggler straggler = {.ranks = {&slow_rank, 1}, .slowdown = 1.5};
	struct sc_shard_plan plan;
	struct sc_dlrm dlrm;

	req->config.stragglers = (struct sc_structs){&straggler, 1};
	for (int i = 0; i < N_TABLES; i++)
		tables[i].reuse = (struct sc_reuse){.kind = SC_REUSE_ZIPF, .zipf = 1.05};
	plan_init(&plan, req);
	for (int i = 0; i < N_TABLES; i++)
		place(&plan, &tables[i], i < N_WIDE ? SC_ROW_WISE : SC_TABLE_WISE,
		      i < N_WIDE ? WORLD : 1, i < N_WIDE ? 0 : 1 + i % 3);
	init_dlrm(&dlrm, req, &plan);
	ck_assert_uint_ge(dlrm.n_classes, 4);
	for (size_t c = 0; c < dlrm.n_classes; c++) {
		const struct sc_dlrm_class *cls = &dlrm.classes[c];
		struct sc_embedding_use uses[N_TABLES];
		struct sc_embedding_shape own;
		size_t n = 0;

		for (size_t i = 0; i < plan.tables.n; i++)
			for (uint32_t s = 0; s < plan.tables.at[i].n_shards; s++) {
				const struct sc_table_placement *p = &plan.tables.at[i];
				const struct sc_shard *shard = &plan.shards.at[p->first_shard + s];

				if (shard->rank == (int32_t)cls->representative)
					uses[n++] = sc_dlrm_shard_use(req, &dlrm.tables.at[i], p,
								      shard, NULL);
			}
		own = sc_embedding_shape_of(&req->device, uses, n, SC_EMBEDDING_FORWARD);
		ck_assert_mem_eq(&own.tables, &cls->work.lookup.tables,
				 sizeof(own) - offsetof(struct sc_embedding_shape, tables));
		own = sc_embedding_shape_of(&req->device, uses, n, SC_EMBEDDING_BACKWARD);
		ck_assert_mem_eq(&own.tables, &cls->work.update.tables,
				 sizeof(own) - offsetof(struct sc_embedding_shape, tables));
		for (int id = 0; id < SC_N_DLRM_BLOCKS; id++) {
			struct sc_block alone = {0};

			sc_dlrm_dense_block(&dlrm, cls, (enum sc_dlrm_block)id, &alone);
			ck_assert_uint_eq(alone.steps.n, cls->block[id].steps.n);
			for (size_t i = 0; i < alone.steps.n; i++) {
				const struct sc_step *a = &alone.steps.at[i];
				const struct sc_step *b = &cls->block[id].steps.at[i];

				ck_assert(a->name == b->name && a->host_us == b->host_us);
				ck_assert(a->cost.work_us == b->cost.work_us &&
					  a->cost.latency_us == b->cost.latency_us);
			}
			sc_block_release(&alone);
		}
	}
	sc_shard_plan_release(&plan);
}

LOOP_TEST(parts_sum_to_the_iteration, n_cases(N_CASES))
{
	struct sc_prediction *out = run_plan(request(CASES[nth_case(_i, N_CASES)]), NULL);
	double sum = 0, path = 0;

	for (int o = 0; o < SC_N_OWNERS; o++) {
		ck_assert_double_ge(out->reading.breakdown_ms[o], 0);
		sum += out->reading.breakdown_ms[o];
	}
	for (size_t i = 0; i < out->reading.n_path; i++)
		path += out->reading.path[i].ms;
	ck_assert_double_eq_tol(sum, out->iteration_ms, 1e-9 * out->iteration_ms);
	ck_assert_double_eq_tol(path, out->iteration_ms, 1e-9 * out->iteration_ms);
	ck_assert_double_lt(out->low_ms, out->iteration_ms);
	ck_assert_double_gt(out->high_ms, out->iteration_ms);
	for (size_t c = 0; c < out->reading.n_classes; c++) {
		const struct sc_class_info *info = &out->reading.classes[c];

		ck_assert_double_le(info->comm_ms, out->iteration_ms * (1 + 1e-9));
		ck_assert_double_eq_tol(info->busy_ms + info->idle_ms, out->iteration_ms,
					1e-9 * out->iteration_ms);
	}
}

/* Longest node <= iteration; all of it <= its nodes one after another. */
LOOP_TEST(between_longest_and_serial, n_cases(N_CASES))
{
	struct sc_prediction *out = run_kept(request(CASES[nth_case(_i, N_CASES)]));
	const struct sc_graph *g = sc_predictor_ran(predictor).graph;
	const struct sc_timeline *t = sc_predictor_ran(predictor).timeline;
	double longest = 0, serial = 0;

	for (size_t i = 0; i < g->nodes.n; i++) {
		double us = t->end_us[i] - t->start_us[i];

		longest = fmax(longest, us);
		serial += us;
	}
	ck_assert_double_le(longest / SC_US_PER_MS, out->iteration_ms * (1 + 1e-9));
	ck_assert_double_le(t->total_us, serial * (1 + 1e-9));
	ck_assert_double_gt(out->iteration_ms, 0);
}

/* The third step, which is the one predicted, takes what all after it do, but for the last: nothing
 * runs beside its end. */
LOOP_TEST(steps_become_steady, n_cases(N_CASES))
{
	enum { N_STEPS = 7 };
	struct sc_request *req = request(CASES[nth_case(_i, N_CASES)]);
	struct sc_dlrm dlrm;
	struct sc_dlrm_built built = {.print = 0};
	struct sc_graph graph;
	struct sc_timeline timeline = {0};
	struct sc_simulator *sim = sc_simulator_create();
	double end[N_STEPS] = {0}, third;

	sc_graph_init(&graph);
	init_dlrm(&dlrm, req, NULL);
	sc_dlrm_build(&dlrm, N_STEPS, &graph, &built);
	ck_assert_int_eq(graph_check(&graph, NULL), 0);
	ck_assert_int_eq(sc_simulate(sim, &graph, NULL, &timeline, NULL), 0);
	for (uint32_t s = 0; s < N_STEPS; s++)
		for (size_t c = 0; c < dlrm.n_classes; c++)
			end[s] = fmax(end[s],
				      timeline.end_us[built.step_end.at[s * dlrm.n_classes + c]]);
	third = end[2] - end[1];
	for (int s = 3; s < N_STEPS - 1; s++)
		ck_assert_msg(fabs(end[s] - end[s - 1] - third) < 1e-6 * third,
			      "step %d takes %.6f us, the third %.6f: %s", s, end[s] - end[s - 1],
			      third, CASES[nth_case(_i, N_CASES)]);
	ck_assert_double_eq_tol(run_plan(req, NULL)->iteration_ms, third / SC_US_PER_MS,
				1e-6 * third / SC_US_PER_MS);
	sc_timeline_release(&timeline);
	sc_graph_release(&graph);
	sc_dlrm_built_release(&built);
	sc_simulator_destroy(sim);
}

LOOP_TEST(faster_parts_are_never_slower, n_cases(N_CASES))
{
	struct sc_request *req = request(CASES[nth_case(_i, N_CASES)]);
	struct sc_predict_opts opts;
	double base = ms_of(req);

	for (int part = 0; part < 5; part++) {
		/* An exchange over links that ends sooner lets updates begin beside the
		 * reduction that ends the step (test_monotone). */
		double frac = part == 2 ? 5e-3 : 1e-9, ms;
		double *speed[] = {&opts.gemm_speed, &opts.hbm_speed, &opts.link_speed,
				   &opts.nic_speed, &opts.host_speed};

		sc_predict_opts_init(&opts);
		*speed[part] = 2;
		ms = run_opts(req, &opts)->iteration_ms;
		ck_assert_msg(ms <= base * (1 + frac), "part %d: %g ms, %g before: %s", part, ms,
			      base, CASES[nth_case(_i, N_CASES)]);
	}
}

/* Sums are made within what links join: hosts of one domain are as one host. */
TEST(hosts_of_a_domain_are_one)
{
#define SUMS " gpus=8 cluster.nics_per_node=4 sharding.planner=hugectr training.software=hugectr"
	double host = ms_of(request("cluster.gpus_per_node=8" SUMS));
	double domain = ms_of(request("cluster.gpus_per_node=4 cluster.scale_up_gpus=8" SUMS));
	double apart = ms_of(request("cluster.gpus_per_node=4" SUMS));

	ck_assert_double_eq_tol(domain, host, 1e-9 * host);
	ck_assert_double_gt(apart, 1.05 * domain);
}

TEST(one_gpu_exchanges_nothing)
{
	struct sc_prediction *out = run_kept(request("gpus=1"));

	ck_assert_uint_eq(sc_predictor_ran(predictor).graph->groups.n, 0);
	ck_assert_double_eq_tol(out->reading.breakdown_ms[SC_OWN_COMM], 0, 1e-12);
	ck_assert_double_eq_tol(out->reading.breakdown_ms[SC_OWN_PEER], 0, 1e-12);
}

TEST(more_gpus_have_less_each)
{
	static const char *const gpus[] = {"gpus=1", "gpus=2", "gpus=4", GPUS8};
	double before = INFINITY;

	for (size_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++) {
		struct sc_dlrm dlrm;
		double most = 0;

		init_dlrm(&dlrm, request(gpus[i]), NULL);
		for (size_t c = 0; c < dlrm.n_classes; c++)
			most = fmax(most, dlrm.classes[c].work.table_bytes);
		ck_assert_double_le(most, before);
		before = most;
	}
}

static struct sc_straggler slow = {.slowdown = 1.5};

TEST(a_straggler_slows_all)
{
	static int64_t rank[] = {3};
	struct sc_request *req = request(
		GPUS8
		"sharding.planner=hugectr training.software=hugectr training.global_batch=65536");
	double base = ms_of(req), with;

	slow.ranks = (struct sc_ints){rank, 1};
	req->config.stragglers = (struct sc_structs){&slow, 1};
	with = ms_of(req);
	ck_assert_double_gt(with, 1.1 * base);
	ck_assert_double_lt(with, 1.51 * base);
}

/* Host costs are another matter: the plan is the same, so each kind's kernels decide. */
TEST(mixed_clusters_lie_between)
{
	static struct sc_gpu_nodes mixed[] = {{"h100-sxm-80gb", 1}, {"a100-sxm-80gb", 1}};
	static struct sc_gpu_nodes fast[] = {{"h100-sxm-80gb", 2}}, old[] = {{"a100-sxm-80gb", 2}};
	struct {
		struct sc_gpu_nodes *at;
		size_t n;
	} kinds[] = {{fast, 1}, {mixed, 2}, {old, 1}};
	double ms[3];

	for (int i = 0; i < 3; i++) {
		struct sc_config cfg;
		struct sc_request *req = request(NODES "training.software=hugectr "
						       "training.global_batch=131072"),
				  *own = sc_arena_calloc(&arena, 1, sizeof(*own));
		struct sc_err err = {0};

		cfg = req->config;
		cfg.cluster.gpu = NULL;
		cfg.cluster.link_gbps = SC_NOT_GIVEN;
		cfg.cluster.nodes = (struct sc_structs){kinds[i].at, kinds[i].n};
		ck_assert_msg(sc_config_resolve(&cfg, catalog, "test", own, &err) == 0, "%s",
			      err.text);
		ms[i] = ms_of(own);
	}
	ck_assert_double_lt(ms[0], 0.9 * ms[2]);
	ck_assert_double_gt(ms[1], ms[0]);
	ck_assert_double_le(ms[1], 1.02 * ms[2]);
}

/* 4,097 samples over 4 GPUs: one has 1,025, and all wait for it. */
TEST(batch_that_does_not_divide)
{
	struct sc_dlrm dlrm;
	double even, odd;

	init_dlrm(&dlrm, request("training.global_batch=4097"), NULL);
	ck_assert_double_eq_tol(dlrm.batch, 1025, 1e-9);
	even = ms_of(request("training.global_batch=4096"));
	odd = ms_of(request("training.global_batch=4097"));
	ck_assert_double_ge(odd, even);
	ck_assert_double_lt(odd, 1.01 * even);
}

/* Small tables and batches: kernels of less than a wave beside others. Under one plan. What ends
 * sooner may let what shares memory with the longest begin sooner (Graham 1969): 2 %. */
LOOP_TEST(more_lookups_take_longer, n_cases(N_RANDOM))
{
	static const char *const GPUS[] = {"b200-sxm-180gb", "h100-sxm-80gb", "a100-sxm-80gb",
					   "v100-sxm-16gb", "mi300x"};
	static const char *const SOFTWARE[] = {"hugectr", "torchrec", "nvidia-dlrm-pt",
					       "distributed-embeddings"};
	static const double GROW[] = {1, 1.5, 2, 4, 8};
	double pooling[N_TABLES], most_ms = 0, ms;
	struct sc_rng rng;
	char text[512];

	sc_rng_init(&rng, (uint64_t)_i);
	const int n = 1 + (int)sc_rng_below(&rng, 8), gpus = 1 << sc_rng_below(&rng, 4);

	snprintf(text, sizeof(text),
		 "gpus=%d cluster.gpus_per_node=8 cluster.nics_per_node=8 cluster.gpu=%s "
		 "training.software=%s training.global_batch=%d sharding.planner=lookups "
		 "model.interaction=dot model.bottom_mlp=512,256,%d model.top_mlp=1024,512,1 "
		 "training.precision=%s",
		 gpus, GPUS[sc_rng_below(&rng, 5)], SOFTWARE[sc_rng_below(&rng, 4)],
		 gpus * (16 << sc_rng_below(&rng, 6)), 4 << (_i % 4),
		 sc_rng_below(&rng, 2) ? "fp32" : "fp16");
	request("");
	for (int i = 0; i < n; i++) {
		tables[i].rows = (int64_t)pow(10, 3 + 4.6 * sc_rng_uniform(&rng));
		tables[i].dim = 4 << (_i % 4);
		pooling[i] = 1 + (double)sc_rng_below(&rng, 20);
	}
	for (int g = 0; g < 5; g++) {
		const struct sc_request *req;

		for (int i = 0; i < n; i++)
			tables[i].pooling = pooling[i] * GROW[g];
		req = make_request(tables, (size_t)n, text);
		if (g == 0)
			ck_assert_int_eq(sc_chosen_plan_init(&chosen, req, NULL), 0);
		ms = run_plan(req, &chosen.made.plan)->iteration_ms;
		ck_assert_msg(ms >= 0.98 * most_ms, "%s: %g times the lookups take %g ms, fewer %g",
			      text, GROW[g], ms, most_ms);
		most_ms = fmax(most_ms, ms);
	}
}

LOOP_TEST(larger_batches_take_longer, n_cases(N_CASES))
{
	double before = 0;
	char text[256];

	for (int batch = 1024; batch <= 262144; batch *= 4) {
		double ms;

		snprintf(text, sizeof(text), "%s training.global_batch=%d",
			 CASES[nth_case(_i, N_CASES)], batch);
		ms = ms_of(request(text));
		ck_assert_double_ge(ms, before * (1 - 1e-9));
		before = ms;
	}
}

/* ---- habits ---- */

/* The same request with a habit on and off. */
static void compare(const char *overrides, size_t offset, double *off, double *on)
{
	struct sc_request *req = request(overrides);
	bool *habit = (bool *)((char *)&req->software.dlrm + offset);

	*habit = false;
	*off = ms_of(req);
	*habit = true;
	*on = ms_of(req);
}
#define HABIT(name) offsetof(struct sc_dlrm_habits, name)
#define BIG GPUS8 "training.global_batch=65536 training.software=hugectr "

/* Rows of a sequence are on one rank each: those of a table cut by rows are exchanged like whole
 * tables', and put in order; what is pooled is added up instead. */
TEST(rows_of_a_sequence_are_not_added_up)
{
	double sent[2], lookups = BATCH / 4 * 10;

	for (int sequence = 0; sequence < 2; sequence++) {
		struct sc_table t = make_table("t", 1 << 20, 10);
		struct sc_shard_plan plan;
		const struct sc_request *req;
		struct sc_dlrm dlrm;

		t.sequence = sequence == 1;
		req = make_request(&t, 1, "");
		plan_init(&plan, req);
		place(&plan, &t, SC_ROW_WISE, 4, 0);
		init_dlrm(&dlrm, req, &plan);
		sent[sequence] = dlrm.exchange.output_bytes;
		ck_assert_double_eq_tol(dlrm.exchange.scatter_bytes,
					sequence ? 0 : BATCH * FIX_DIM * 4, 1);
		ck_assert_double_eq_tol(dlrm.exchange.ordered_bytes,
					sequence ? lookups * FIX_DIM * 4 : 0, 1);
		ck_assert_double_eq_tol(dlrm.exchange.bucketed_ids, lookups, 1e-9);
		sc_shard_plan_release(&plan);
	}
	ck_assert_double_eq_tol(sent[0], 0, 1e-9);
	ck_assert_double_eq_tol(sent[1], lookups * FIX_DIM * 4, 1);
}

/* Pooled vectors of whole tables are copied around TorchRec's all-to-all, two times forward and
 * three backward, each read and written; those of software whose kernels write where the exchange
 * reads are not. */
TEST(pooled_vectors_are_copied_around_their_exchange)
{
	static const char *const softwares[] = {"torchrec", "nvidia-dlrm-pt"};

	for (int i = 0; i < N_OF(softwares); i++) {
		struct sc_table t = make_table("t", 1 << 20, 10);
		struct sc_shard_plan plan;
		struct sc_dlrm dlrm;
		const struct sc_request *req = make_request(
			&t, 1, sc_arena_printf(&arena, "training.software=%s", softwares[i]));

		plan_init(&plan, req);
		place(&plan, &t, SC_TABLE_WISE, 1, 2);
		init_dlrm(&dlrm, req, &plan);
		ck_assert_double_eq_tol(dlrm.exchange.ordered_bytes,
					i ? 0 : 2.5 * BATCH / 4 * FIX_DIM * 4, 1e-6);
		sc_shard_plan_release(&plan);
	}
}

/* A host that waits for the GPU is felt beside it, whatever it takes; one that runs ahead only
 * where it takes longer. */
TEST(a_waiting_host_is_felt)
{
	struct sc_request *req = request(GPUS8 "training.software=nvidia-dlrm-pt");
	double gpu, host = req->software.host_step_us / SC_US_PER_MS;

	ck_assert(req->software.host_waits);
	req->software.host_step_us = 0;
	gpu = ms_of(req);
	req->software.host_step_us = host * SC_US_PER_MS;
	ck_assert_double_eq_tol(ms_of(req), gpu + host, 0.02);
	req->software.host_waits = false;
	ck_assert_double_eq_tol(ms_of(req), fmax(gpu, host), 0.02);
}

TEST(what_habits_gain)
{
	static const struct {
		const char *overrides;
		size_t habit;
	} cases[] = {
		{BIG "model.interaction=dot", HABIT(embedding_stream)},
		{BIG "model.interaction=dot", HABIT(fused_mlp)},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double off, on;

		compare(cases[i].overrides, cases[i].habit, &off, &on);
		ck_assert_msg(on < off, "habit %zu: %g ms, without %g", i, on, off);
	}
}

/* One rank's products for all samples take longer than each rank's for its own; it has no tables,
 * and all ranks get what it sends. Slower kernels of embeddings make its step longer. */
TEST(one_rank_has_the_bottom_mlp)
{
	struct sc_request *req =
		request(GPUS8 "training.global_batch=65536 training.software=nvidia-dlrm-pt "
			      "model.interaction=dot training.precision=fp32");
	struct sc_dlrm dlrm;
	double one = ms_of(req);

	ck_assert(sc_dlrm_one_rank_bottom(req));
	init_dlrm(&dlrm, req, NULL);
	ck_assert_double_le(class_of(&dlrm, 0)->work.n_tables, 0);
	ck_assert_double_ge(dlrm.exchange.output_bytes, 65536.0 * FIX_DIM * 4);
	req->software.dlrm.one_rank_bottom = false;
	ck_assert_double_lt(ms_of(req), one);
	req->software.dlrm.one_rank_bottom = true;
	req->software.dlrm.embedding_eff = 0.5;
	ck_assert_double_gt(ms_of(req), one);
	req->config.gpus = 1;
	ck_assert(!sc_dlrm_one_rank_bottom(req));
}

TEST(graphs_launch_at_once)
{
	struct sc_request *req = request("training.cuda_graphs=false training.global_batch=256");
	double eager;

	req->software.dlrm.host_sample_us = 0;
	req->software.host_step_us = 10;
	eager = ms_of(req);
	req->config.training.cuda_graphs = true;
	ck_assert_double_lt(ms_of(req), 0.7 * eager);
}

/* ---- names ---- */

TEST(names_of_what_runs)
{
	static const enum sc_op_name always[] = {
		SC_NAME_TABLE_LOOKUP, SC_NAME_TABLE_UPDATE, SC_NAME_BOTTOM_MLP, SC_NAME_TOP_MLP,
		SC_NAME_BCE_LOSS,     SC_NAME_INTERACTION,  SC_NAME_OPTIMIZER,  SC_NAME_INPUT_HOST};
	struct sc_request *req = request("");

	run_kept(req);
	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		ck_assert_msg(count_nodes(always[i]) > 0, "%s", sc_op_name(always[i]));
	ck_assert_int_gt(count_nodes(SC_NAME_INDEX_EXCHANGE), 0);
	ck_assert_int_gt(count_nodes(SC_NAME_OUTPUT_EXCHANGE), 0);
	ck_assert_int_eq(count_nodes(SC_NAME_OUTPUT_SCATTER), 0);
	ck_assert_int_eq(count_nodes(SC_NAME_REPLICA_LOOKUP), 0);
	ck_assert_int_eq(count_nodes(SC_NAME_ROW_PREFETCH), 0);
	req->software.dlrm.index_exchange = false;
	run_kept(req);
	ck_assert_int_eq(count_nodes(SC_NAME_INDEX_EXCHANGE), 0);
}

TEST(names_by_placement)
{
	struct sc_request *req = request("");
	struct sc_predict_opts opts;
	struct sc_shard_plan plan;

	plan_init(&plan, req);
	place(&plan, &tables[0], SC_DATA_PARALLEL, 4, 0);
	place(&plan, &tables[1], SC_ROW_WISE, 4, 0);
	for (int i = 2; i < N_TABLES; i++)
		place(&plan, &tables[i], SC_TABLE_WISE, 1, i % 4);
	plan.tables.at[2].tier = SC_TIER_CACHED;
	plan.tables.at[2].cache_frac = 0.1;
	sc_predict_opts_init(&opts);
	opts.plan = &plan;
	run_opts(req, &opts);
	ck_assert_int_gt(count_nodes(SC_NAME_REPLICA_LOOKUP), 0);
	ck_assert_int_gt(count_nodes(SC_NAME_REPLICA_GRAD), 0);
	ck_assert_int_gt(count_nodes(SC_NAME_OUTPUT_SCATTER), 0);
	ck_assert_int_gt(count_nodes(SC_NAME_GRAD_GATHER), 0);
	ck_assert_int_gt(count_nodes(SC_NAME_ROW_PREFETCH), 0);
	sc_shard_plan_release(&plan);
}

/* ---- memory ---- */

TEST(fullest_rank_is_told)
{
	static struct sc_table huge;
	struct sc_request *req;
	struct sc_prediction *out;

	huge = make_table("huge", 400000000, 1); /* 95 GiB */
	req = make_request(&huge, 1, "sharding.column_slice_elements=100000000000");
	out = run_plan(req, NULL);
	ck_assert_double_gt(out->memory.weights_gib, 95);
	ck_assert_double_gt(out->memory.total_gib, out->memory.capacity_gib);
	ck_assert_msg(strstr(out->warnings.text[out->warnings.n - 1], "will not fit") ||
			      strstr(out->warnings.text[0], "will not fit"),
		      "no warning");
	req = make_request(&huge, 1, "");
	out = run_plan(req, NULL);
	ck_assert_double_lt(out->memory.total_gib, out->memory.capacity_gib);
}

static struct sc_request *sequences(const char *overrides)
{
	struct sc_config cfg;

	sc_config_init(&cfg);
	set_all(&cfg, "gpus=8 cluster.gpu=mi350x cluster.gpus_per_node=8 cluster.nics_per_node=8 "
		      "cluster.nic_gbit_s=400 model=models/dlrmv4.yaml training.global_batch=8192 "
		      "training.precision=bf16 training.optimizer=rowwise_adagrad "
		      "training.software=torchrec");
	set_all(&cfg, overrides);
	return resolve_config(&cfg);
}

/* Matrices of meta-recsys/generative-recommenders (modules/stu.py, preprocessors.py, dlrm_hstu.py):
 * FLOP of a sample of 4,096 tokens, forward thrice, of causal attention half of all pairs. The
 * 315.7 GFLOP that MLPerf's document has are those with 4 h x h for a token beside its layers, as
 * large as the product of the candidate's vectors, where its code has 3.02 of what makes tokens.
 * Parameters are the tables' and the dense part's. */
TEST(sequences_are_counted)
{
	struct sc_request *req =
		sequences("model.hstu.tokens=4096 model.hstu.tokens_cv=0 training.global_batch=64");
	const struct sc_prediction *out = run_plan(req, NULL);
	const double h = 512, s = 4096, rows = 293051712;
	const double layer = h * 4 * h + 3 * h * h;
	const double token = (h + 2 * h + 24 + 3 * h) * 256;
	const double sample = 8 * h * h + 3 * h * h + h * h + (h + 4) * h + h * h + h;
	const double macs = s * (3 * layer + token) + sample + 3 * s * s * h;
	const double flop = out->tflops_gpu * 1e12 * out->iteration_ms * 1e-3 * 8 / 64;
	const double biases = 3 * (4 * h + h) + 3 * (256 + h) + h + 3 * h + h + 1;

	ck_assert_double_eq_tol(flop / (6 * macs), 1, 1e-4);
	ck_assert_double_eq_tol(6 * s * (3 * layer + 4 * h * h + 3 * s * h) / 315.7e9, 1, 1e-3);
	ck_assert_double_eq_tol(out->params.total - rows * h,
				3 * (layer + 4 * h) + token + sample + biases, 1);
}

/* Layers go by the tokens, exchanges by the lookups: a word where they are not of one sample. */
TEST(tokens_are_what_tables_look_up)
{
	static const struct {
		const char *overrides;
		bool told;
	} cases[] = {
		{"", false},
		{"model.hstu.tokens=2635", false},
		{"model.hstu.tokens=2644", false},
		{"model.hstu.tokens=2660", true},
		{"model.hstu.tokens=4096", true},
		{"model.hstu.tokens=2000", true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct sc_request *req = sequences(cases[i].overrides);
		bool told = false;

		for (size_t w = 0; w < req->warnings.n; w++)
			told |= strstr(req->warnings.text[w], "model.hstu.tokens is ") != NULL;
		ck_assert_msg(told == cases[i].told, "%s", cases[i].overrides);
	}
}

/* Attention takes the lengths' squares, and the rank with most tokens is waited for: of 8 ranks'
 * sums of 1,024 samples it has 1.42 deviations more than the mean. */
TEST(lengths_that_differ_take_longer)
{
	const struct sc_request *req = sequences("model.hstu.tokens_cv=0.5");
	const double mean = sc_hstu_tokens(req, false), most = sc_hstu_tokens(req, true);
	const struct sc_prediction *out;
	double ms[2], few[2], gib;

	ck_assert_double_eq_tol(most / mean, 1 + 0.5 / 32 * 1.43, 0.0005);
	ms[0] = ms_of(sequences("model.hstu.tokens_cv=0"));
	ms[1] = ms_of(req);
	ck_assert_double_gt(ms[1], 1.1 * ms[0]);
	/* The others are done before it, and it holds more. */
	out = run_plan(sequences("model.hstu.tokens_cv=0"), NULL);
	gib = out->memory.activations_gib;
	out = run_plan(req, NULL);
	ck_assert_double_gt(out->memory.activations_gib, gib * (1 + 0.5 * (most / mean - 1)));
	ck_assert_double_lt(out->reading.classes[1].busy_ms,
			    0.99 * out->reading.classes[0].busy_ms);
	/* In batches of 64 samples the longest of eight counts for more. */
	few[0] = ms_of(sequences("model.hstu.tokens_cv=0 training.global_batch=512"));
	few[1] = ms_of(sequences("model.hstu.tokens_cv=0.5 training.global_batch=512"));
	ck_assert_double_gt(few[1] / few[0], 1.05 * ms[1] / ms[0]);
	ck_assert_double_eq_tol(sc_hstu_tokens(sequences("gpus=1 training.global_batch=8 "
							 "cluster.gpus_per_node=1 "
							 "cluster.host_memory_gib=1000"),
					       true),
				mean, 1e-9);
}

/* Products are run again backward, attention is as slow as its kernels are, and vectors travel as
 * the tables are stored. */
TEST(sequences_are_run_as_their_stack_runs_them)
{
	struct sc_request *req = sequences("");
	const struct sc_prediction *out = run_kept(req);
	const double columns = (3 * 2635.0 + 8) * 512;
	const double ms = out->iteration_ms;
	const int again = count_nodes(SC_NAME_UVQK);

	ck_assert_int_gt(again, 0);
	ck_assert_int_eq(again, 2 * count_nodes(SC_NAME_UVQK_DGRAD));
	ck_assert_int_eq(count_nodes(SC_NAME_UVQK_DGRAD), count_nodes(SC_NAME_JAGGED));
	ck_assert_int_eq(count_nodes(SC_NAME_INTERACTION), 0);
	ck_assert_double_gt(out->memory.buffers_gib * SC_BYTES_PER_GIB, 3 * 1024 * columns * 4);
	req->software.dlrm.jagged_eff *= 2;
	ck_assert_double_lt(ms_of(req), 0.85 * ms);
}
