/* training.offload: every example with something kept off its GPUs needs no more memory there,
 * loses nothing, is no faster, and the coarse prediction is that of full detail; the published cost
 * of an optimizer on the CPU. */
#include "base/rng.h"
#include "base/units.h"
#include "example_fixture.h"
#include "models/offload.h"
#include "runner.h"

enum { N_OFFLOADS = 12 };

static void set(struct sc_config *config, const char *path, const char *value)
{
	struct sc_err err = {0};

	ck_assert_msg(sc_config_set(config, &(struct sc_setting){path, value, "--set"}, &arena,
				    &err) == 0,
		      "%s", err.text);
}

static struct sc_prediction *predict(const struct sc_config *config, enum sc_detail detail)
{
	struct sc_predict_opts how = opts;

	how.detail = detail;
	return predict_request(resolve_config(config), &how);
}

static void set_hosts(struct sc_config *config)
{
	set(config, "cluster.ssd_read_gbps", "25");
	set(config, "cluster.ssd_write_gbps", "12");
}

/* False: nothing is. */
static bool offload_some(struct sc_rng *rng, struct sc_config *config)
{
	static const char *const TIERS[] = {"none", "cpu", "nvme"};
	static const char *const LAYERS[] = {"1", "4", "1000"};
	static const char *const AHEAD[] = {"0", "1", "4"};
	size_t activations = sc_rng_below(rng, 3), weights = sc_rng_below(rng, 3);

	set_hosts(config);
	set(config, "training.offload.activations", TIERS[activations]);
	set(config, "training.offload.weights", TIERS[weights]);
	set(config, "training.offload.prefetch_layers", AHEAD[sc_rng_below(rng, 3)]);
	if (activations && sc_rng_below(rng, 2))
		set(config, "training.offload.activation_layers", LAYERS[sc_rng_below(rng, 3)]);
	return activations || weights;
}

/* Not the allocator's slack, which takes what room there is, and what comes and goes. */
static double tensors_gib(const struct sc_prediction *p)
{
	return p->memory.total_gib - p->memory.reserve_gib - p->memory.buffers_gib;
}

FIXTURE(set_up, tear_down)

LOOP_TEST(less_on_the_gpu_and_no_faster, find_examples())
{
	struct sc_arena_mark mark = sc_arena_mark(&arena);
	struct sc_config plain;
	struct sc_rng rng;

	sc_rng_init(&rng, (uint64_t)_i);
	load_example(_i, &plain);
	if (!sc_model_is_transformer(&plain.model))
		return;
	for (int i = 0; i < n_cases(N_OFFLOADS); i++) {
		struct sc_config config;
		const struct sc_prediction *before, *after;

		sc_arena_rewind(&arena, mark);
		load_example(_i, &config);
		before = predict(&config, SC_DETAIL_COARSE);
		if (!offload_some(&rng, &config))
			continue;
		after = predict(&config, SC_DETAIL_COARSE);
		ck_assert_double_ge(after->iteration_ms, before->iteration_ms * (1 - 1e-9));
		ck_assert_double_le(after->memory.weights_gib, before->memory.weights_gib);
		ck_assert_double_le(after->memory.activations_gib, before->memory.activations_gib);
		ck_assert_double_gt(after->memory.host_gib + after->memory.ssd_gib, 0);
		ck_assert_double_ge(tensors_gib(after) + after->memory.host_gib +
					    after->memory.ssd_gib,
				    tensors_gib(before) * (1 - 1e-9));
	}
}

static const struct sc_prediction *with(const char *activations, const char *tiles,
					const char *partition)
{
	static const char *const SET[][2] = {
		{"parallel.sequence_parallel", "false"},
		{"parallel.tp", "4"},
		{"parallel.dp", "2"},
		{"parallel.sharding", "zero3"},
		{"training.recompute", "full"},
		{"training.offload.activations", "cpu"},
		{"training.global_batch", "8"},
		{"training.software", "deepspeed-zero3"},
		{"cluster.host_link_gbps", "3"},
	};
	struct sc_config config;
	int at = 0;

	while (strcmp(example_name(at), "gpt-22b-selene.yaml") != 0)
		at++;
	load_example(at, &config);
	for (size_t i = 0; i < sizeof(SET) / sizeof(SET[0]); i++)
		set(&config, SET[i][0], SET[i][1]);
	set(&config, "training.offload.activations", activations);
	set(&config, "training.offload.tiles", tiles);
	set(&config, "training.offload.partition_activations", partition);
	return predict(&config, SC_DETAIL_COARSE);
}

/* Layers in tiles take their share of what is gathered; checkpoints over 4 ranks a fourth of the
 * host, over a slow link in less time; where nothing leaves the GPU their gathers cost some. */
TEST(tiles_and_divided_checkpoints)
{
	struct sc_prediction before = *with("cpu", "1", "false"), after;

	after = *with("cpu", "16", "false");
	ck_assert_double_lt(after.memory.buffers_gib, 0.6 * before.memory.buffers_gib);
	ck_assert_double_eq_tol(after.iteration_ms, before.iteration_ms, 1e-9);
	after = *with("cpu", "1", "true");
	ck_assert_double_eq_tol(after.memory.host_gib, before.memory.host_gib / 4,
				1e-6 * before.memory.host_gib);
	ck_assert_double_lt(after.memory.activations_gib, before.memory.activations_gib);
	ck_assert_double_lt(after.iteration_ms, before.iteration_ms);
	before = *with("none", "1", "false");
	after = *with("none", "1", "true");
	ck_assert_double_lt(after.memory.activations_gib, before.memory.activations_gib);
	ck_assert_double_gt(after.iteration_ms, before.iteration_ms);
}

static const struct sc_prediction *infinity(const char *key, const char *tier, const char *gbps,
					    bool waits)
{
	struct sc_config config;
	struct sc_request *request;
	int at = 0;

	while (strcmp(example_name(at), "gpt-22b-selene.yaml") != 0)
		at++;
	load_example(at, &config);
	set(&config, "cluster.ssd_read_gbps", gbps);
	set(&config, "cluster.ssd_write_gbps", gbps);
	set(&config, "parallel.sharding", "zero3");
	set(&config, "training.recompute", "full");
	set(&config, "cluster.host_link_gbps", gbps);
	set(&config, "training.global_batch", "8");
	set(&config, "training.micro_batch", "8");
	set(&config, key, tier);
	request = resolve_config(&config);
	request->software.blocking_checkpoints = waits;
	return predict_request(request, &opts);
}

/* States that come from SSDs tile by tile hide the step on the CPU, or are hidden by it;
 * checkpoints that kernels wait for take their bytes' time, there and back. */
TEST(what_zero_infinity_overlaps)
{
	static const char states[] = "training.offload.optimizer";
	static const char kept[] = "training.offload.activations";
	double own = infinity(states, "none", "300", false)->iteration_ms;
	double step = infinity(states, "cpu", "300", false)->iteration_ms - own;
	double hidden = infinity(states, "nvme", "300", false)->iteration_ms - own;
	double slow = infinity(states, "nvme", "2", false)->iteration_ms - own;
	double ahead = infinity(kept, "cpu", "3", false)->iteration_ms;
	const struct sc_prediction *waits = infinity(kept, "cpu", "3", true);
	double bytes = waits->memory.host_gib / 8 * SC_BYTES_PER_GIB;

	ck_assert_double_gt(step, 0);
	ck_assert_double_eq_tol(hidden, step, 1e-3 * step);
	ck_assert_double_gt(slow, 2 * step);
	ck_assert_double_ge(waits->iteration_ms - ahead, 0.8 * 2 * bytes / 3e6);
}

LOOP_TEST(coarse_is_full_detail, find_examples())
{
	struct sc_config config;
	const struct sc_prediction *coarse, *full;

	if (!takes_case(_i, find_examples()))
		return;
	load_example(_i, &config);
	if (!sc_model_is_transformer(&config.model))
		return;
	set(&config, "training.offload.activations", "cpu");
	coarse = predict(&config, SC_DETAIL_COARSE);
	if (coarse->iteration_ms > 2e4) /* long runs take full detail long */
		return;
	full = predict(&config, SC_DETAIL_FULL);
	ck_assert_double_eq_tol(coarse->iteration_ms, full->iteration_ms,
				0.01 * full->iteration_ms);
}

/* Megatron-Bridge, skills/nemo-mbridge-perf-cpu-offloading: Qwen3-30B on 16 H100 (tp 2, pp 2, dp 4,
 * ep 4) takes so much longer with a share of its optimizer on the CPU. The CPU's rate is fitted on
 * these four. */
TEST(optimizer_on_the_cpu_costs_what_was_measured)
{
	static const struct {
		const char *share;
		double added_ms;
	} MEASURED[] = {{"0.25", 875}, {"0.5", 1488}, {"0.75", 2191}, {"1", 3193}};
	static const char *const SET[][2] = {
		{"parallel.tp", "2"},
		{"parallel.pp", "2"},
		{"parallel.dp", "4"},
		{"parallel.ep", "4"},
		{"parallel.virtual_stages", "1"},
		{"training.precision", "bf16"},
		{"training.micro_batch", "1"},
		{"cluster.host_memory_gib", "2000"},
	};
	struct sc_config config;
	double before_ms, least_gib = HUGE_VAL;
	int at = 0;

	while (strcmp(example_name(at), "qwen3-30b-a3b-h100.yaml") != 0)
		at++;
	load_example(at, &config);
	for (size_t i = 0; i < sizeof(SET) / sizeof(SET[0]); i++)
		set(&config, SET[i][0], SET[i][1]);
	before_ms = predict(&config, SC_DETAIL_COARSE)->iteration_ms;
	for (size_t i = 0; i < sizeof(MEASURED) / sizeof(MEASURED[0]); i++) {
		const struct sc_prediction *p;

		set(&config, "training.offload.optimizer_fraction", MEASURED[i].share);
		p = predict(&config, SC_DETAIL_COARSE);
		ck_assert_double_eq_tol(p->iteration_ms - before_ms, MEASURED[i].added_ms,
					0.15 * MEASURED[i].added_ms);
		ck_assert_double_lt(tensors_gib(p), least_gib);
		least_gib = tensors_gib(p);
	}
}

/* Of sharded gradients a rank sends its own: over a slow link the step takes so much less. */
TEST(sharded_gradients_are_sent_once)
{
	static const char *const SET[][2] = {
		{"parallel.tp", "1"},
		{"parallel.pp", "1"},
		{"parallel.dp", "8"},
		{"gpus", "8"},
		{"cluster.gpus_per_node", "8"},
		{"training.micro_batch", "1"},
		{"training.global_batch", "8"},
		{"cluster.host_link_gbps", "0.1"},
		{"training.offload.optimizer", "cpu"},
		{"training.offload.gradients", "cpu"},
		{"training.optimizer", "adam"},
	};
	struct sc_config config;
	double ms[2];
	int at = 0;

	while (strcmp(example_name(at), "opt-1.3b-h100.yaml") != 0)
		at++;
	for (int sharded = 0; sharded < 2; sharded++) {
		load_example(at, &config);
		for (size_t i = 0; i < sizeof(SET) / sizeof(SET[0]); i++)
			set(&config, SET[i][0], SET[i][1]);
		set(&config, "parallel.sharding", sharded ? "zero2" : "none");
		ms[sharded] = predict(&config, SC_DETAIL_COARSE)->iteration_ms;
	}
	ck_assert_double_gt(ms[0], 7 * ms[1]);
}

static double added_ms(const char *software, const char *host_gbps)
{
	struct sc_config config;
	double ms;
	int at = 0;

	while (strcmp(example_name(at), "opt-1.3b-h100.yaml") != 0)
		at++;
	load_example(at, &config);
	set(&config, "training.software", software);
	set(&config, "parallel.sharding", "zero1");
	set(&config, "training.optimizer", "adam");
	set(&config, "cluster.host_memory_gbps", host_gbps);
	ms = predict(&config, SC_DETAIL_COARSE)->iteration_ms;
	set(&config, "training.offload.optimizer", "cpu");
	return predict(&config, SC_DETAIL_COARSE)->iteration_ms - ms;
}

/* A fused step on all cores takes twice as long on a memory half as fast, beside what is copied;
 * one thread does not reach a fast one. */
TEST(a_step_is_as_fast_as_the_hosts_memory)
{
	double slow = added_ms("deepspeed-zero3", "100"), fast = added_ms("deepspeed-zero3", "200"),
	       faster = added_ms("deepspeed-zero3", "400"),
	       thread = added_ms("megatron-core", "1000");

	ck_assert_double_eq_tol(slow - fast, 2 * (fast - faster), 0.01 * slow);
	ck_assert_double_eq_tol(thread, added_ms("megatron-core", "2000"), 0.01 * thread);
	ck_assert_double_gt(added_ms("megatron-core", "40"), 1.5 * thread);
}

/* A rack is one NVLink domain, and each of its hosts has a memory of its own. */
TEST(a_host_of_a_rack_holds_what_a_host_holds)
{
	static const char *const DOMAINS[] = {"8", "16"};
	double gib[2];
	int at = 0;

	while (strcmp(example_name(at), "qwen3-30b-optimizer-offload-h100.yaml") != 0)
		at++;
	for (int i = 0; i < 2; i++) {
		struct sc_config config;

		load_example(at, &config);
		set(&config, "cluster.scale_up_gpus", DOMAINS[i]);
		gib[i] = predict(&config, SC_DETAIL_COARSE)->memory.host_gib;
	}
	ck_assert_double_gt(gib[0], 1);
	ck_assert_double_eq_tol(gib[0], gib[1], 1e-9 * gib[0]);
}

/* Copies that take as long share a cost, which is larger than the rest of them. */
TEST(copies_share_costs)
{
	const struct sc_graph *graph;
	struct sc_config config;
	int at = 0;

	while (strcmp(example_name(at), "gpt-1t-selene.yaml") != 0)
		at++;
	load_example(at, &config);
	set(&config, "training.offload.activations", "cpu");
	opts.keep_graph = true;
	predict(&config, SC_DETAIL_COARSE);
	graph = sc_predictor_ran(predictor).graph;
	ck_assert_uint_gt(graph->nodes.n, 10000);
	ck_assert_uint_lt(graph->costs.n, 2000);
}
