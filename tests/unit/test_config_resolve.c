/* Defaults of a request, and every nonsense with the sentence it gets. */
#include <inttypes.h>

#include "config_fixture.h"

#include "core/config/config.h"
#include "runner.h"

#define CLUSTER "cluster: {gpu: test-gpu, gpus_per_node: 8, nics_per_node: 8, nic_gbit_s: 200}\n"
#define GPUS "gpus: 64\n"
#define MODEL "model: {family: gpt, layers: 24, hidden: 1024, heads: 16, seq: 512, vocab: 1000}\n"
#define MLA                                                                                             \
	"model: {family: moe-mla, layers: 4, hidden: 1024, heads: 16, seq: 512, vocab: 1000, experts: " \
	"8, top_k: 2, expert_ffn_hidden: 256}\n"
#define PARALLEL "parallel: {tp: 4, pp: 2}\n"
#define TRAINING "training: {global_batch: 64, precision: fp16}\n"

static struct sc_catalog *catalog;
static struct sc_request request;

static void set_up_catalog(void)
{
	set_up();
	catalog = sc_catalog_create();
}

static void tear_down_catalog(void)
{
	sc_catalog_destroy(catalog);
	tear_down();
}

static int resolve(const char *text)
{
	const char *path = write_file("r.yaml", text);
	struct sc_config config;

	memset(&err, 0, sizeof(err));
	ck_assert_msg(sc_config_load(path, &arena, &config, &err) == 0, "%s", message());
	return sc_config_resolve(&config, catalog, path, &request, &err);
}

static void resolve_ok(const char *text)
{
	ck_assert_msg(resolve(text) == 0, "%s", message());
}

static void check_warnings(size_t n, const char *text)
{
	bool found = n == 0;

	for (size_t i = 0; i < request.warnings.n; i++)
		found = found || strcmp(request.warnings.text[i], text) == 0;
	ck_assert_msg(found && request.warnings.n == n, "%zu warnings, first: %s",
		      request.warnings.n, request.warnings.text[0]);
}

FIXTURE(set_up_catalog, tear_down_catalog)

TEST(defaults)
{
	const struct sc_config *config = &request.config;

	resolve_ok(CLUSTER GPUS MODEL PARALLEL TRAINING);
	ck_assert_int_eq(config->parallel.dp, 8);
	ck_assert_int_eq(config->parallel.cp, 1);
	ck_assert_int_eq(config->parallel.ep, 1);
	ck_assert_int_eq(config->parallel.virtual_stages, 1);
	ck_assert_int_eq(config->parallel.schedule, SC_SCHED_1F1B);
	ck_assert_str_eq(config->parallel.order, "tp-cp-ep-dp-pp");
	ck_assert_int_eq(config->training.micro_batch, 1);
	ck_assert_str_eq(config->training.software, "default");
	ck_assert_int_eq(config->model.kv_heads, 16);
	ck_assert_int_eq(config->model.ffn_hidden, 4096);
	ck_assert_int_eq(config->cluster.scale_up_gpus, 8);
	ck_assert_int_eq(request.n_micro_batches, 8);
	ck_assert_double_eq(request.last_micro_batch, 1);
	ck_assert_str_eq(request.device.id, "test-gpu");
	ck_assert_str_eq(request.software.id, "default-eager"); /* fp16 */
	ck_assert_uint_gt(request.fabric_profile.nets.n, 0);
	check_warnings(0, "");
}

TEST(without_a_pipeline_the_micro_batch_is_the_replicas_batch)
{
	resolve_ok(CLUSTER "gpus: 4\n" MODEL "parallel: {tp: 2}\n" TRAINING);
	ck_assert_int_eq(request.config.parallel.dp, 2);
	ck_assert_int_eq(request.config.training.micro_batch, 32);
	ck_assert_int_eq(request.n_micro_batches, 1);
}

TEST(gpus_follow_from_the_split)
{
	resolve_ok(CLUSTER MODEL "parallel: {tp: 4, pp: 2, dp: 3}\n" TRAINING);
	ck_assert_int_eq(request.config.gpus, 24);
	/* and dp alone splits nothing else */
	resolve_ok(CLUSTER "gpus: 8\n" MODEL TRAINING);
	ck_assert_int_eq(request.config.parallel.dp, 8);
}

TEST(virtual_stages_interleave)
{
	resolve_ok(CLUSTER GPUS MODEL "parallel: {tp: 4, pp: 2, virtual_stages: 3}\n" TRAINING);
	ck_assert_int_eq(request.config.parallel.schedule, SC_SCHED_INTERLEAVED);
	resolve_ok(CLUSTER GPUS MODEL "parallel: {tp: 4, pp: 2, schedule: interleaved}\n" TRAINING);
	ck_assert_int_eq(request.config.parallel.schedule, SC_SCHED_1F1B);
	check_warnings(1, "parallel.schedule interleaved without virtual_stages above 1 is 1f1b");
	resolve_ok(CLUSTER GPUS MODEL "parallel: {tp: 4, virtual_stages: 3}\n" TRAINING);
	ck_assert_int_eq(request.config.parallel.virtual_stages, 1);
	check_warnings(1, "parallel.virtual_stages 3 has no effect with pp 1; it is taken as 1");
}

TEST(the_usual_node_is_taken_and_told)
{
	resolve_ok("cluster: {gpu: test-gpu}\ngpus: 4\n" MODEL TRAINING);
	ck_assert_int_eq(request.config.cluster.gpus_per_node, 8);
	ck_assert_int_eq(request.config.cluster.nics_per_node, 4);
	check_warnings(0, "");
	resolve_ok("cluster: {gpu: test-gpu}\ngpus: 16\n" MODEL TRAINING);
	check_warnings(2, "cluster.gpus_per_node is not given; the usual 8 of test-gpu is taken");
	check_warnings(2,
		       "NICs are not given; the usual node of test-gpu is taken: nics_per_node 4, "
		       "nic_gbit_s 200");
	resolve_ok("cluster: {gpu: test-gpu, gpus_per_node: 8, nics_per_node: 0, nic_gbit_s: 0}\n"
		   "gpus: 8\n" MODEL TRAINING);
	check_warnings(0, "");
	/* all in one NVLink domain: no network needed */
	resolve_ok("cluster: {gpu: test-gpu, gpus_per_node: 4, nics_per_node: 0, nic_gbit_s: 0, "
		   "scale_up_gpus: 72}\ngpus: 64\n" MODEL TRAINING);
	check_warnings(0, "");
}

TEST(a_node_may_be_partly_filled)
{
	resolve_ok(CLUSTER "gpus: 12\n" MODEL "training: {global_batch: 12, precision: fp16}\n");
	check_warnings(1, "gpus 12 do not fill nodes of 8; the last node has 4");
}

TEST(batches_that_do_not_divide)
{
	resolve_ok(CLUSTER GPUS MODEL PARALLEL "training: {global_batch: 60, precision: fp16}\n");
	check_warnings(1, "training.global_batch 60 does not divide over dp 8; the replicas with 8 "
			  "samples set the time");
	ck_assert_int_eq(request.n_micro_batches, 8);
	resolve_ok(CLUSTER GPUS MODEL PARALLEL
		   "training: {global_batch: 64, micro_batch: 3, precision: fp16}\n");
	check_warnings(
		1, "training.micro_batch 3 does not divide the 8 samples of a replica; the last "
		   "one has 2");
	ck_assert_int_eq(request.n_micro_batches, 3);
	ck_assert_double_eq(request.last_micro_batch, 2);
	resolve_ok(CLUSTER GPUS MODEL PARALLEL
		   "training: {global_batch: 64, micro_batch: 16, precision: fp16}\n");
	check_warnings(
		1, "training.micro_batch 16 is more than the 8 samples of a replica; it is taken "
		   "as 8");
	ck_assert_int_eq(request.n_micro_batches, 1);
	ck_assert_double_eq(request.last_micro_batch, 8);
}

TEST(precision_by_device)
{
	resolve_ok(CLUSTER GPUS MODEL PARALLEL "training: {global_batch: 64}\n");
	ck_assert_int_eq(request.config.training.precision, SC_P_BF16);
	check_warnings(1, "training.precision is not given; bf16 is taken");
}

TEST(every_software_profile_is_known)
{
	static const char *const ids[] = {"default", "primus", "maxtext", "fms-fsdp"};

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		char text[1024];

		snprintf(text, sizeof(text),
			 "%s%straining: {global_batch: 64, precision: bf16, software: %s}\n",
			 CLUSTER GPUS MODEL, PARALLEL, ids[i]);
		resolve_ok(text);
		ck_assert_str_eq(request.software.id, ids[i]);
	}
}

static void check_release(const char *model, const char *software, const char *id)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "%smodel: {family: %s, layers: 4, hidden: 64, heads: 4, seq: 8, vocab: 9}\n"
		 "training: {global_batch: 64, software: %s}\n",
		 CLUSTER GPUS PARALLEL, model, software);
	resolve_ok(text);
	ck_assert_str_eq(request.software.id, id);
}

TEST(a_release_that_can_do_what_the_model_asks_is_taken)
{
	check_release("gpt", "megatron-lm", "megatron-lm");
	ck_assert_int_eq(request.config.training.attention, SC_ATT_UNFUSED);
	check_release("llama", "megatron-lm", "megatron-lm-2023"); /* embeddings are not tied */
	ck_assert_int_eq(request.config.training.attention, SC_ATT_FLASH);
	check_release("gpt", "megatron-lm, software_version: '23.08'", "megatron-lm-2023");
	check_release("llama", "megatron-lm, software_version: v2.2", "megatron-lm");
	check_release("gpt", "nemo, software_version: NeMo 24.03.1", "nemo-24.03");
	/* A number alone may be of other recipes: it is said that it names none. */
	check_release("gpt", "nemo, software_version: '24.03.1'", "nemo");
	check_warnings(request.warnings.n,
		       "training.software_version 24.03.1 names no release: nemo is simulated; "
		       "\"NeMo 24.03\" has habits of its own");
	check_release("gpt", "nemo, software_version: '24.07'", "nemo");
}

TEST(bert_without_padding_is_mlperfs)
{
	static const char BERT[] = CLUSTER GPUS PARALLEL
		"model: {family: bert, layers: 4, hidden: 64, heads: 4, seq: 8, vocab: 9}\n"
		"training: {global_batch: 64, software: nvidia-pytorch";
	char text[1024];

	snprintf(text, sizeof(text), "%s}\n", BERT);
	resolve_ok(text);
	ck_assert_str_eq(request.software.id, "nvidia-pytorch");
	snprintf(text, sizeof(text), "%s, unpadded: true}\n", BERT);
	resolve_ok(text);
	ck_assert_str_eq(request.software.id, "nvidia-mlperf-bert");
}

static void check_layers(const char *model_parallel, const int64_t *want, size_t n)
{
	char text[1024];
	int64_t layers[16];

	snprintf(text, sizeof(text), "%s%s%s", CLUSTER GPUS,
		 strstr(model_parallel, "training:") ? "" : TRAINING, model_parallel);
	resolve_ok(text);
	sc_stage_layers(&request, layers);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(layers[i], want[i]);
}

TEST(layers_of_stages)
{
	check_layers("parallel: {tp: 4, pp: 2}\n" MODEL, (int64_t[]){12, 12}, 2);
	check_layers("parallel: {tp: 4, pp: 2, stage_layers: [10, 14]}\n" MODEL,
		     (int64_t[]){10, 14}, 2);
	check_layers("parallel: {tp: 4, pp: 4}\n"
		     "model: {family: gpt, layers: 6, hidden: 64, heads: 4, seq: 8, vocab: 9}\n",
		     (int64_t[]){2, 2, 1, 1}, 4);
	check_layers("parallel: {tp: 4, pp: 2, virtual_stages: 2}\n"
		     "model: {family: gpt, layers: 7, hidden: 64, heads: 4, seq: 8, vocab: 9}\n",
		     (int64_t[]){2, 2, 2, 1}, 4);
	/* later stages hold less */
	check_layers("parallel: {tp: 4, pp: 4, stage_layers: balanced}\n"
		     "model: {family: gpt, layers: 8, hidden: 64, heads: 4, seq: 8, vocab: 1536}\n",
		     (int64_t[]){2, 2, 3, 1}, 4);
	/* or one after the other has its share, of which 2.5 layers are one; a tie ends it */
	check_layers("parallel: {tp: 4, pp: 4, stage_layers: balanced}\n"
		     "model: {family: gpt, layers: 8, hidden: 64, heads: 4, seq: 8, vocab: 1536}\n"
		     "training: {global_batch: 64, software: nanotron}\n",
		     (int64_t[]){3, 2, 3, 0}, 4);
	check_layers("parallel: {tp: 4, pp: 2, stage_layers: balanced}\n"
		     "model: {family: gpt, layers: 8, hidden: 64, heads: 4, seq: 8, vocab: 1536}\n"
		     "training: {global_batch: 64, software: nanotron}\n",
		     (int64_t[]){5, 3}, 2);
	/* chunks of a layout, which says how many a stage has; ends may be alone in theirs */
	check_layers("parallel: {tp: 4, pp: 2, layout: 'Et*3|(t*2,|)*2t*5L'}\n"
		     "model: {family: gpt, layers: 12, hidden: 64, heads: 4, seq: 8, vocab: 9}\n",
		     (int64_t[]){3, 2, 2, 5}, 4);
	ck_assert_int_eq(request.config.parallel.virtual_stages, 2);
	ck_assert_int_eq(request.config.parallel.schedule, SC_SCHED_INTERLEAVED);
	check_layers(
		"parallel: {tp: 4, pp: 4, layout: 'E|ttt|t*9|mL'}\n"
		"model: {family: gpt, layers: 12, hidden: 64, heads: 4, seq: 8, vocab: 9, mtp_layers: 1}\n",
		(int64_t[]){0, 3, 9, 1}, 4);
	/* layers for later tokens are of the last chunk, and count with the loss */
	check_layers("parallel: {tp: 4, pp: 4}\n"
		     "model: {family: llama, layers: 6, hidden: 64, heads: 4, seq: 8, vocab: 9, "
		     "mtp_layers: 1}\n",
		     (int64_t[]){2, 2, 2, 1}, 4);
	check_layers("parallel: {tp: 4, pp: 4}\n"
		     "model: {family: llama, layers: 5, hidden: 64, heads: 4, seq: 8, vocab: 9, "
		     "mtp_layers: 1}\n",
		     (int64_t[]){1, 2, 2, 1}, 4);
	check_layers("parallel: {tp: 4, pp: 4, virtual_stages: 4}\n"
		     "model: {family: llama, layers: 61, hidden: 64, heads: 4, seq: 8, vocab: 9, "
		     "mtp_layers: 1}\n",
		     (int64_t[]){4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2}, 16);
}

TEST(kv_heads_may_be_copied)
{
	resolve_ok(CLUSTER GPUS PARALLEL TRAINING
		   "model: {family: llama, layers: 24, hidden: 1024, heads: "
		   "16, kv_heads: 2, seq: 512, vocab: 1000}\n");
	ck_assert_int_eq(request.config.model.kv_heads, 2);
}

TEST(a_recommender_needs_no_layers)
{
	resolve_ok(CLUSTER GPUS "model: {family: dlrm, tables: [{rows: 3, dim: 4}], top_mlp: [1]}\n"
				"training: {global_batch: 65536, precision: fp16}\n");
	ck_assert_int_eq(request.config.parallel.dp, 64);
	ck_assert_int_eq(request.config.model.interaction, SC_INTERACT_DOT);
}

static const struct {
	const char *model, *message;
} bad_recommenders[] = {
	{"top_mlp: [1]", "model.tables is not given"},
	{"tables: [{rows: 3, dim: 4}]", "model.top_mlp is not given"},
	{"tables: [{rows: 3, dim: 4}], top_mlp: [1], bottom_mlp: [4]", "model.dense_features"},
	{"tables: [{rows: 3, dim: 4}, {rows: 3, dim: 8}], top_mlp: [1]", "all must be alike"},
	{"tables: [{rows: 3, dim: 4}], top_mlp: [1], dense_features: 2, bottom_mlp: [8]",
	 "they must be alike"},
	{"tables: [{rows: 3, dim: 4}], top_mlp: [1], cross_layers: 2",
	 "needs model.interaction dcnv2"},
	{"tables: [{rows: 3, dim: 4}], top_mlp: [1], interact_stride: 2",
	 "needs model.interaction cat"},
	{"tables: [{rows: 3, dim: 4, count: 9000000}, {rows: 3, dim: 4, count: 9000000}], top_mlp: [1]",
	 "at most 10000000"},
};

LOOP_TEST(bad_recommenders_are_told, N_OF(bad_recommenders))
{
	char text[1024];

	snprintf(text, sizeof(text),
		 CLUSTER GPUS "model: {family: dlrm, %s}\n"
			      "training: {global_batch: 65536, precision: fp16}\n",
		 bad_recommenders[_i].model);
	ck_assert_int_ne(resolve(text), 0);
	ck_assert_msg(strstr(message(), bad_recommenders[_i].message) != NULL, "%s", message());
}

#define MIXED(nodes)                                                         \
	"cluster: {nodes: [" nodes "], gpus_per_node: 8, nics_per_node: 8, " \
	"nic_gbit_s: 200}\n"
#define TEST_4 "{gpu: test-gpu, count: 4}"
#define V100_4 "{gpu: v100-sxm-16gb, count: 4}"
#define H100_4 "{gpu: h100-sxm-80gb, count: 4}"

TEST(nodes_of_several_kinds)
{
	const struct sc_gpu_nodes *nodes;

	resolve_ok(MIXED(TEST_4 ", " V100_4) GPUS MODEL PARALLEL
		   "training: {global_batch: 64, precision: fp16, software: default-te}\n");
	nodes = request.config.cluster.nodes.at;
	ck_assert_str_eq(request.config.cluster.gpu, "test-gpu");
	ck_assert_str_eq(request.device.id, "test-gpu");
	ck_assert_uint_eq(sc_request_n_kinds(&request), 2);
	ck_assert_str_eq(sc_request_device(&request, 0)->id, "test-gpu");
	ck_assert_str_eq(sc_request_device(&request, 1)->id, "v100-sxm-16gb");
	ck_assert_uint_eq(sc_request_kind_of(&request, &nodes[0]), 0);
	ck_assert_uint_eq(sc_request_kind_of(&request, &nodes[1]), 1);
	/* what one of them does not run no rank runs */
	ck_assert_int_eq(request.config.training.attention, SC_ATT_UNFUSED);
	check_warnings(1, "training.attention is not given: unfused is taken, as on "
			  "v100-sxm-16gb, before Ampere, default-te has no fused kernel");
	/* a kind may come back, and be alone */
	resolve_ok(MIXED("{gpu: test-gpu, count: 2}, " V100_4 ", {gpu: test-gpu, count: 2}")
			   GPUS MODEL PARALLEL TRAINING);
	ck_assert_uint_eq(sc_request_n_kinds(&request), 2);
	nodes = request.config.cluster.nodes.at;
	ck_assert_uint_eq(sc_request_kind_of(&request, &nodes[2]), 0);
	resolve_ok(MIXED(TEST_4 ", " TEST_4) GPUS MODEL PARALLEL TRAINING);
	ck_assert_uint_eq(sc_request_n_kinds(&request), 1);
	resolve_ok(CLUSTER GPUS MODEL PARALLEL TRAINING);
	ck_assert_uint_eq(sc_request_n_kinds(&request), 1);
}

TEST(all_kinds_must_have_the_precision)
{
	resolve_ok(MIXED(TEST_4 ", " V100_4) GPUS MODEL PARALLEL
		   "training: {global_batch: 64, attention: unfused}\n");
	ck_assert_int_eq(request.config.training.precision, SC_P_FP16);
	check_warnings(1, "training.precision is not given; fp16 is taken");
}

static const struct {
	const char *text, *message;
} bad[] = {
	{MIXED(H100_4 ", " TEST_4) GPUS MODEL PARALLEL
	 "training: {global_batch: 64, precision: fp8}\n",
	 "r.yaml:5:41: error: training.precision: test-gpu has no fp8 math; its peaks in TFLOP/s: "
	 "fp32 20, tf32 150, fp16 300, bf16 300"},
	{MIXED(H100_4 ", " TEST_4) "gpus: 128\n" MODEL PARALLEL TRAINING,
	 "r.yaml:1:18: error: cluster.nodes: 8 nodes of 8 GPUs have 64, but gpus is 128; change the counts "
	 "or gpus"},
	{MIXED(H100_4 ", {gpu: test-gpi, count: 4}") GPUS MODEL PARALLEL TRAINING,
	 "r.yaml:1:18: error: cluster.nodes: unknown GPU \"test-gpi\"; did you mean \"test-gpu\"?"},
	{"cluster: {gpu: test-gpu, nodes: [" H100_4 ", " TEST_4 "]}\n" GPUS MODEL PARALLEL TRAINING,
	 "r.yaml:1:16: error: cluster.gpu is test-gpu, but the first of cluster.nodes have "
	 "h100-sxm-80gb; remove one of the two keys"},
	{MIXED(H100_4 ", {gpu: mi300x, count: 4}") GPUS MODEL PARALLEL TRAINING,
	 "r.yaml:1:18: error: cluster.nodes: h100-sxm-80gb and mi300x are of different vendors and have no "
	 "collectives in common; use one vendor's"},
	{MIXED("") GPUS MODEL PARALLEL TRAINING,
	 "r.yaml:1:18: error: cluster.nodes is empty; list the kinds of nodes, or remove it and give "
	 "cluster.gpu"},

	{GPUS MODEL PARALLEL TRAINING,
	 "r.yaml: error: cluster.gpu is not given; name a GPU as in `cluster: {gpu: a100-sxm-80gb}`"},
	{GPUS "cluster: {gpu: test-gpi}\n" MODEL,
	 "r.yaml:2:16: error: cluster.gpu: unknown GPU \"test-gpi\"; did you mean \"test-gpu\"?"},
	{CLUSTER GPUS PARALLEL TRAINING,
	 "r.yaml: error: model.family is not given; write one of gpt, "
	 "llama, mpt, bert, opt, moe, moe-mla, nemotron-h, dit, dlrm, layers"},
	{CLUSTER GPUS TRAINING "model: {family: gpt, layers: 3}\n",
	 "r.yaml:4:17: error: model.hidden is not given; write it, or name a file as in `model: "
	 "models/gpt-22b.yaml`"},
	{CLUSTER MODEL PARALLEL TRAINING,
	 "r.yaml: error: gpus is not given; write it, or all of parallel.tp, pp and dp"},
	{CLUSTER MODEL TRAINING "gpus: 65\nparallel: {tp: 4, pp: 2}\n",
	 "r.yaml:4:7: error: gpus 65 do not split into replicas of tp 4 x pp 2 x cp 1 = 8 GPUs; make gpus "
	 "a multiple of that"},
	{CLUSTER GPUS MODEL TRAINING "parallel: {tp: 4, pp: 2, dp: 4}\n",
	 "r.yaml:5:30: error: tp 4 x pp 2 x cp 1 x dp 4 = 32, but gpus is 64; dp 8 would fit"},
	{CLUSTER GPUS MODEL TRAINING "parallel: {tp: 3, pp: 2, dp: 4}\n",
	 "r.yaml:5:30: error: tp 3 x pp 2 x cp 1 x dp 4 = 24, but gpus is 64; change gpus or the split"},
	{CLUSTER MODEL TRAINING "parallel: {tp: 4096, pp: 24, dp: 1048576}\n",
	 "r.yaml:4:34: error: 103079215104 GPUs (tp x pp x cp x dp) are too many; at most 1048576"},
	{CLUSTER GPUS MODEL PARALLEL "training: {precision: fp16}\n",
	 "r.yaml:5:23: error: training.global_batch is not given; it is the number of samples of one "
	 "iteration, over all replicas"},
	{CLUSTER GPUS MODEL PARALLEL "training: {global_batch: 7}\n",
	 "r.yaml:5:26: error: training.global_batch 7 is less than the 8 data-parallel replicas; each "
	 "needs a sample, so raise it or use fewer replicas (more tp, pp or cp)"},
	{CLUSTER GPUS MODEL PARALLEL "training: {global_batch: 64, precision: fp8}\n",
	 "r.yaml:5:41: error: training.precision: test-gpu has no fp8 math; its peaks in TFLOP/s: "
	 "fp32 20, tf32 150, fp16 300, bf16 300"},
	{CLUSTER GPUS MODEL TRAINING "parallel: {tp: 32, pp: 2}\n",
	 "r.yaml:5:16: error: model.heads 16 do not split over parallel.tp 32; choose a tp that divides "
	 "them"},
	{CLUSTER GPUS TRAINING PARALLEL
	 "model: {family: gpt, layers: 24, hidden: 1000, heads: 16, seq: 512, vocab: 1000}\n",
	 "r.yaml:5:55: error: model.hidden 1000 is no multiple of model.heads 16; a head needs a whole "
	 "width, or give model.head_dim"},
	{CLUSTER GPUS TRAINING PARALLEL "model: {family: gpt, layers: 24, hidden: 1024, heads: 16, "
					"kv_heads: 3, seq: 512, vocab: 1000}\n",
	 "r.yaml:5:69: error: model.heads 16 is no multiple of model.kv_heads 3; as many query heads must "
	 "share each key-value head"},
	{CLUSTER "gpus: 48\n" TRAINING
		 "parallel: {tp: 6}\nmodel: {family: gpt, layers: 24, hidden: 1056, "
		 "heads: 12, kv_heads: 4, seq: 512, vocab: 1000}\n",
	 "r.yaml:4:16: error: model.kv_heads 4 neither split nor copy evenly over parallel.tp 6; one must "
	 "be a multiple of the other"},
	{CLUSTER GPUS TRAINING PARALLEL "model: {family: gpt, layers: 24, hidden: 1024, heads: 16, "
					"ffn_hidden: 1022, seq: 512, vocab: 1000}\n",
	 "r.yaml:4:16: error: model.ffn_hidden 1022 does not split over parallel.tp 4; choose a tp that "
	 "divides it"},
	{CLUSTER "gpus: 48\n" MODEL TRAINING "parallel: {cp: 3}\n",
	 "r.yaml:5:16: error: model.seq 512 does not split over parallel.cp 3"},
	{CLUSTER GPUS TRAINING
	 "parallel: {tp: 4, sequence_parallel: true}\nmodel: {family: gpt, layers: "
	 "24, hidden: 1024, heads: 16, seq: 510, vocab: 1000}\n",
	 "r.yaml:4:38: error: the 510 tokens of a rank do not split over parallel.tp 4, as "
	 "parallel.sequence_parallel true needs; pad model.seq to 512, or set it false"},
	{CLUSTER GPUS MODEL TRAINING "parallel: {pp: 32}\n",
	 "r.yaml:5:16: error: model.layers 24 are fewer than the 32 chunks of pp 32 x virtual_stages 1; "
	 "each needs a layer"},
	{CLUSTER GPUS MODEL TRAINING "parallel: {pp: 8, virtual_stages: 4}\n",
	 "r.yaml:5:35: error: model.layers 24 are fewer than the 32 chunks of pp 8 x virtual_stages 4; "
	 "each needs a layer"},
	{CLUSTER GPUS MODEL TRAINING "parallel: {pp: 2, virtual_stages: 2, schedule: gpipe}\n",
	 "r.yaml:5:48: error: parallel.schedule gpipe has no virtual stages; use 1f1b, or virtual_stages "
	 "1"},
	{CLUSTER GPUS MODEL TRAINING "parallel: {pp: 2, stage_layers: [12, 13]}\n",
	 "r.yaml:5:33: error: parallel.stage_layers sums to 25, model.layers is 24"},
	{CLUSTER GPUS MODEL TRAINING "parallel: {pp: 2, stage_layers: [8, 8, 8]}\n",
	 "r.yaml:5:33: error: parallel.stage_layers has 3 entries, parallel.pp is 2; give one entry a "
	 "stage"},
	{CLUSTER GPUS MODEL TRAINING
	 "parallel: {pp: 2, virtual_stages: 2, stage_layers: [12, 12]}\n",
	 "r.yaml:5:52: error: parallel.stage_layers cannot be combined with virtual_stages above 1; "
	 "remove one of them"},
	{CLUSTER GPUS MODEL TRAINING "parallel: {ep: 8}\n",
	 "r.yaml:5:16: error: parallel.ep is 8, but the model has no experts; remove it, or choose family "
	 "moe"},
	{CLUSTER GPUS TRAINING
	 "parallel: {ep: 3}\nmodel: {family: moe, layers: 24, hidden: 1024, heads: "
	 "16, seq: 512, vocab: 1000, experts: 6}\n",
	 "r.yaml:4:16: error: parallel.ep 3 x etp 1 does not divide the 64 ranks of tp x cp x dp, "
	 "which expert groups are cut out of; change gpus or parallel.ep"},
	{CLUSTER GPUS TRAINING
	 "parallel: {ep: 4}\nmodel: {family: moe, layers: 24, hidden: 1024, heads: "
	 "16, seq: 512, vocab: 1000, experts: 6}\n",
	 "r.yaml:4:16: error: model.experts 6 do not split over parallel.ep 4"},
	{CLUSTER GPUS TRAINING
	 "model: {family: moe, layers: 24, hidden: 1024, heads: 16, seq: 512, vocab: "
	 "1000, experts: 6, top_k: 7}\n",
	 "r.yaml:4:101: error: model.top_k 7 is more than the 6 experts"},
	{CLUSTER GPUS MODEL TRAINING "parallel: {order: tp-tp}\n",
	 "r.yaml:5:19: error: parallel.order \"tp-tp\": expected each of tp, cp, ep, dp, pp once, innermost "
	 "first, as in tp-cp-ep-dp-pp"},
	{CLUSTER GPUS MODEL TRAINING "parallel: {tp: 2, order: tp-pp}\n",
	 "r.yaml:5:26: error: parallel.order \"tp-pp\" does not say where dp stands, which is 32"},
	{GPUS MODEL TRAINING "cluster: {gpu: test-gpu, gpus_per_node: 8, nics_per_node: 0}\n",
	 "r.yaml:4:59: error: 64 GPUs on nodes of 8 need a network; set cluster.nics_per_node and "
	 "cluster.nic_gbit_s above 0"},
	{GPUS MODEL TRAINING
	 "cluster: {gpu: test-gpu, gpus_per_node: 8, nics_per_node: 2, nic_gbit_s: 0}\n",
	 "r.yaml:4:74: error: 64 GPUs on nodes of 8 need a network; set cluster.nics_per_node and "
	 "cluster.nic_gbit_s above 0"},
	{GPUS MODEL TRAINING "cluster: {gpu: test-gpu, gpus_per_node: 8, scale_up_gpus: 12}\n",
	 "r.yaml:4:59: error: cluster.scale_up_gpus 12 and gpus_per_node 8 do not fit; one must be a "
	 "multiple of the other"},
	{CLUSTER GPUS MODEL TRAINING "stragglers: [{ranks: [64], slowdown: 2}]\n",
	 "r.yaml:5:13: error: stragglers: there is no rank 64; the last is 63"},
	{CLUSTER GPUS MODEL TRAINING
	 "stragglers: [{ranks: [1, 2], slowdown: 2}, {ranks: [2], slowdown: "
	 "3}]\n",
	 "r.yaml:5:13: error: stragglers: rank 2 is listed twice"},
	{CLUSTER GPUS MODEL TRAINING "stragglers: [{ranks: [], slowdown: 2}]\n",
	 "r.yaml:5:13: error: stragglers: entry 1 has no ranks"},
	{CLUSTER GPUS TRAINING
	 "model: {family: gpt, layers: 10000, hidden: 1048576, heads: 16, seq: 512, "
	 "vocab: 1000}\n",
	 "r.yaml:4:45: error: the model would have 1.76e+17 parameters; at most 2^53 are predicted"},
	{CLUSTER GPUS
	 "model: {family: gpt, layers: 1, hidden: 16, heads: 16, seq: 16777216, vocab: 9}\n"
	 "training: {global_batch: 6400, precision: fp16}\n",
	 "r.yaml:3:61: error: one layer of a micro-batch would have 4.5e+17 activations; at most 2^53 are "
	 "predicted, so lower micro_batch or model.seq"},
};

LOOP_TEST(nonsense_is_told, N_OF(bad))
{
	int rc;

	memset(&request, 7, sizeof(request));
	rc = resolve(bad[_i].text);
	ck_assert_int_lt(rc, 0);
	ck_assert_int_eq(rc, -(int)err.code);
	ck_assert_str_eq(message(), bad[_i].message);
	ck_assert_int_eq(((unsigned char *)&request)[100], 7);
}

TEST(errors_of_overrides_name_them)
{
	struct sc_config config;

	ck_assert_int_eq(sc_config_load(write_file("r.yaml", CLUSTER GPUS MODEL TRAINING), &arena,
					&config, &err),
			 0);
	ck_assert_int_eq(sc_config_set(&config, &(struct sc_setting){"parallel.tp", "32", "--set"},
				       &arena, &err),
			 0);
	ck_assert_int_ne(sc_config_resolve(&config, catalog, NULL, &request, &err), 0);
	ck_assert_str_eq(message(),
			 "--set: error: model.heads 16 do not split over parallel.tp 32; choose "
			 "a tp that divides them");
}

static int resolve_own(const char *pieces, const char *training)
{
	char file[600], text[600];

	snprintf(file, sizeof(file),
		 "schema: stepcast/1\ndefaults: software/megatron-core.yaml\nid: own\nconfig:\n%s",
		 pieces);
	write_file("software/own.yaml", file);
	snprintf(text, sizeof(text),
		 CLUSTER GPUS MODEL "training: {global_batch: 64, software: own%s}\n", training);
	return resolve(text);
}

/* The last piece that fits wins, those of defaults before the file's own; what is given stays. */
TEST(pieces_of_config_in_a_profile)
{
	const struct sc_config *cfg = &request.config;
	const struct sc_habit *habit;

	ck_assert_int_eq(
		resolve_own("  - {training: {recompute: full, precision: fp16}}\n"
			    "  - {when: {experts: true}, training: {cuda_graphs: true}}\n"
			    "  - {when: {gpu_below_gib: 1}, training: {attention: unfused}}\n"
			    "  - {when: {not_given: training.precision}, training: {recompute: "
			    "selective}}\n"
			    "  - parallel: {sequence_parallel: false}\n",
			    ""),
		0);
	ck_assert_int_eq(cfg->training.recompute, SC_RECOMPUTE_SELECTIVE);
	ck_assert_int_eq(cfg->training.precision, SC_P_FP16);
	ck_assert_int_eq(cfg->training.cuda_graphs, 0);
	ck_assert_int_eq(cfg->training.attention, SC_ATT_FLASH);
	ck_assert(!cfg->parallel.sequence_parallel);
	habit = sc_habit_taken(&request, "training.recompute");
	ck_assert_ptr_nonnull(habit);
	ck_assert_uint_eq(habit->origin.line, 8);
	ck_assert_int_eq(resolve_own("  - training: {recompute: full}\n", ", recompute: none"), 0);
	ck_assert_int_eq(cfg->training.recompute, SC_RECOMPUTE_NONE);
	ck_assert_ptr_null(sc_habit_taken(&request, "training.recompute"));
	sc_catalog_destroy(catalog); /* which knows the file as it was */
	catalog = sc_catalog_create();
	ck_assert_int_eq(resolve_own("  - training: {recompute: full}\n", ", recompute: none"), 0);
	ck_assert_int_eq(cfg->training.recompute, SC_RECOMPUTE_NONE);
}

/* Nemotron 3 Super is recomputed in part where its recipes say, by GPU and precision; Nano is not.
 */
TEST(a_piece_of_a_precision)
{
	static const struct {
		const char *model, *gpu, *precision;
		int recompute;
	} cases[] = {
		{"nemotron-3-super-120b-a12b", "b300-sxm-270gb", "nvfp4",
		 SC_RECOMPUTE_MOE_ACT | SC_RECOMPUTE_NORMS},
		{"nemotron-3-super-120b-a12b", "b300-sxm-270gb", "mxfp8", SC_RECOMPUTE_NONE},
		{"nemotron-3-super-120b-a12b", "b200-sxm-180gb", "mxfp8",
		 SC_RECOMPUTE_MOE_ACT | SC_RECOMPUTE_NORMS},
		{"nemotron-3-super-120b-a12b", "b200-sxm-180gb", "nvfp4", SC_RECOMPUTE_NONE},
		{"nemotron-3-nano-30b-a3b", "b300-sxm-270gb", "nvfp4", SC_RECOMPUTE_NONE},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[600];

		snprintf(text, sizeof(text),
			 "schema: stepcast/1\nmodel: models/%s.yaml\ngpus: 64\n"
			 "cluster: {gpu: %s, gpus_per_node: 8, nics_per_node: 8, nic_gbit_s: 800}\n"
			 "parallel: {dp: 64, ep: 8}\ntraining: {global_batch: 512, precision: %s, "
			 "software: megatron-bridge, routing: balanced}\n",
			 cases[i].model, cases[i].gpu, cases[i].precision);
		ck_assert_int_eq(resolve(text), 0);
		ck_assert_int_eq(request.config.training.recompute, cases[i].recompute);
	}
}

/* Megatron-Bridge replays parts of layers of Nemotron on nodes of eight, too, where other mixtures
 * run without graphs. */
TEST(a_piece_of_models_with_mamba)
{
	static const struct {
		const char *model;
		int graphs;
		enum sc_dispatcher dispatcher;
	} cases[] = {
		{"nemotron-3-super-120b-a12b",
		 SC_GRAPH_ATTN | SC_GRAPH_ROUTER | SC_GRAPH_PREPROCESS, SC_DISPATCH_HYBRIDEP},
		{"nemotron-3-nano-30b-a3b", SC_GRAPH_ATTN | SC_GRAPH_ROUTER | SC_GRAPH_PREPROCESS,
		 SC_DISPATCH_HYBRIDEP},
		{"qwen3-next-80b-a3b", 0, SC_DISPATCH_DEEPEP},
		{"qwen3-30b-a3b", 0, SC_DISPATCH_DEEPEP},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[600];

		snprintf(
			text, sizeof(text),
			"schema: stepcast/1\nmodel: models/%s.yaml\ngpus: 64\n"
			"cluster: {gpu: b300-sxm-270gb, gpus_per_node: 8, nics_per_node: 8, "
			"nic_gbit_s: 800}\nparallel: {dp: 64, ep: 8}\ntraining: {global_batch: 512, "
			"software: megatron-bridge, routing: balanced}\n",
			cases[i].model);
		ck_assert_int_eq(resolve(text), 0);
		ck_assert_int_eq(request.config.training.cuda_graphs, cases[i].graphs);
		ck_assert_int_eq(request.config.training.moe_dispatcher, cases[i].dispatcher);
	}
}

/* PyTorch's pipelines wait for each transfer, Megatron Core's send beside the next pass. */
TEST(pipelines_of_pytorch_wait_for_transfers)
{
	static const char *const SOFTWARE[] = {"megatron-core", "torchtitan"};

	for (int i = 0; i < 2; i++) {
		char text[600];

		snprintf(text, sizeof(text),
			 "schema: stepcast/1\nmodel: models/qwen3-30b-a3b.yaml\ngpus: 8\n"
			 "cluster: {gpu: h100-sxm-80gb}\nparallel: {pp: 4}\n"
			 "training: {global_batch: 64, software: %s}\n",
			 SOFTWARE[i]);
		ck_assert_int_eq(resolve(text), 0);
		ck_assert_int_eq(request.c3[SC_C3_PP].policy, i ? SC_C3_SERIAL : SC_C3_COMM_FIRST);
	}
}

/* Balanced routing is in turn with a software whose benchmarks send tokens so, where it is asked
 * for. */
TEST(a_software_balances_in_turn)
{
	static const struct {
		const char *training;
		int routing;
	} cases[] = {
		{"software: automodel, routing: balanced", SC_ROUTING_IN_TURN},
		{"software: torchtitan, routing: balanced", SC_ROUTING_IN_TURN},
		{"software: automodel", SC_NOT_GIVEN},
		{"software: megatron-core, routing: balanced", SC_ROUTING_BALANCED},
		{"software: megatron-core, routing: in_turn", SC_ROUTING_IN_TURN},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[600];

		snprintf(text, sizeof(text),
			 "schema: stepcast/1\nmodel: models/qwen3-30b-a3b.yaml\ngpus: 8\n"
			 "cluster: {gpu: h100-sxm-80gb}\nparallel: {dp: 8, ep: 8}\n"
			 "training: {global_batch: 512, %s}\n",
			 cases[i].training);
		ck_assert_int_eq(resolve(text), 0);
		ck_assert_int_eq(request.config.training.routing, cases[i].routing);
	}
}

/* How transfers between stages share the GPU, below what a request says; and all of a replica's
 * samples at once. */
TEST(a_piece_says_policies_and_whole_batches)
{
	static const char PIECES[] = "  - {c3: {policy: {pp: serial}}}\n"
				     "  - {parallel: {pp: 8}, training: {micro_batch: 1000000}}\n";

	resolve_own("  - {}\n", "");
	ck_assert_int_eq(request.c3[SC_C3_PP].policy, SC_C3_COMM_FIRST);
	sc_catalog_destroy(catalog);
	catalog = sc_catalog_create();
	ck_assert_int_eq(resolve_own(PIECES, ", micro_batch: 2"), 0);
	ck_assert_int_eq(request.config.training.micro_batch, 2);
	ck_assert_int_eq(resolve_own(PIECES, "}\nc3: {policy: plain"), 0);
	ck_assert_int_eq(request.c3[SC_C3_PP].policy, SC_C3_PLAIN);
	ck_assert_int_eq(resolve_own(PIECES, ""), 0);
	ck_assert_int_eq(request.c3[SC_C3_PP].policy, SC_C3_SERIAL);
	ck_assert_int_eq(request.n_micro_batches, 1);
	for (size_t i = 0; i < request.warnings.n; i++)
		ck_assert_ptr_null(strstr(request.warnings.text[i], "micro_batch"));
}

/* The network of published runs, where NICs have its rate and none is said. */
TEST(a_piece_names_the_network)
{
	static const char PIECES[] =
		"  - {when: {nic_gbit_s: 100}, cluster: {fabric: omni-path}}\n";
	static const struct {
		const char *cluster, *fabric;
	} cases[] = {{"nic_gbit_s: 100", "omni-path"},
		     {"nic_gbit_s: 200", NULL},
		     {"nic_gbit_s: 100, fabric: efa", "efa"}};

	for (size_t i = 0; i < N_OF(cases); i++) {
		char text[600];

		resolve_own(PIECES, "");
		snprintf(text, sizeof(text),
			 "cluster: {gpu: a100-sxm-80gb, %s}\n" GPUS MODEL
			 "training: {global_batch: 64, software: own}\n",
			 cases[i].cluster);
		ck_assert_int_eq(resolve(text), 0);
		if (cases[i].fabric)
			ck_assert_str_eq(request.config.cluster.fabric, cases[i].fabric);
		else
			ck_assert_ptr_null(request.config.cluster.fabric);
		ck_assert_int_eq(sc_habit_taken(&request, "cluster.fabric") != NULL, i == 0);
	}
}

/* Types of gradients and moments by that of the weights and the kind of model; an optimizer's own
 * moments stay. */
TEST(a_piece_knows_what_weights_are_stored_as)
{
	static const struct {
		const char *training, *model;
		double grad, moment;
	} cases[] = {{"precision: fp16, software: megatron-lm", MODEL, 2, 4},
		     {"precision: bf16, software: megatron-lm", MODEL, 4, 4},
		     {"precision: bf16, grad_bytes: 2, software: megatron-lm", MODEL, 2, 4},
		     {"software: megatron-lm", MODEL, 4, 4}, /* bf16 is taken */
		     {"precision: bf16, software: megatron-bridge", MODEL, 2, 4},
		     {"precision: bf16, software: megatron-bridge", MLA, 2, 2},
		     {"precision: bf16, moment_bytes: 4, software: megatron-bridge", MLA, 2, 4},
		     {"precision: bf16, optimizer: lion, software: megatron-core", MLA, 4, 4},
		     {"precision: fp32, software: jax-pax", MODEL, 4, 4}};
	char text[600];

	for (size_t i = 0; i < N_OF(cases); i++) {
		snprintf(text, sizeof(text), CLUSTER GPUS "%straining: {global_batch: 64, %s}\n",
			 cases[i].model, cases[i].training);
		resolve_ok(text);
		ck_assert_double_eq_tol(sc_grad_bytes(&request), cases[i].grad, 1e-12);
		ck_assert_double_eq_tol(sc_moment_bytes(&request), cases[i].moment, 1e-12);
	}
	snprintf(text, sizeof(text),
		 CLUSTER GPUS MLA "training: {global_batch: 64, precision: bf16, "
				  "optimizer: adam8bit, software: "
				  "megatron-bridge}\n");
	resolve_ok(text);
	ck_assert_double_lt(sc_moment_bytes(&request), 1.1);
}

/* FlashAttention starts with Ampere; PyTorch's scaled_dot_product_attention has a kernel for GPUs
 * before. */
TEST(attention_before_ampere)
{
	static const struct {
		const char *training;
		int attention;
		bool warns;
	} cases[] = {{"software: megatron-core", SC_ATT_UNFUSED, true},
		     {"software: megatron-core, attention: flash", SC_ATT_FLASH, true},
		     {"software: megatron-core, attention: sdpa", SC_ATT_SDPA, false},
		     {"software: torchtitan", SC_ATT_SDPA, false},
		     {"software: torchtitan, attention: flash", SC_ATT_FLASH, false},
		     {"software: torchtitan, attention: unfused", SC_ATT_UNFUSED, false}};
	char text[600];

	for (size_t i = 0; i < N_OF(cases); i++) {
		bool warned = false;

		snprintf(text, sizeof(text),
			 "cluster: {gpu: v100-sxm-32gb}\n" GPUS MODEL
			 "training: {global_batch: 64, precision: fp16, %s}\n",
			 cases[i].training);
		resolve_ok(text);
		ck_assert_int_eq((int)request.config.training.attention, cases[i].attention);
		for (size_t w = 0; w < request.warnings.n; w++)
			warned |= strstr(request.warnings.text[w], "before Ampere") != NULL;
		ck_assert_int_eq(warned, cases[i].warns);
	}
}

/* A stack that balances its stages by habit: what a request says of them is more. Gradients of
 * states that are sharded may wait for the last backward where those of replicas do not. */
TEST(a_profile_balances_stages_and_reduces_by_sharding)
{
	static const struct {
		const char *parallel;
		int64_t first, last;
	} cases[] = {{"pp: 4", 7, 3},
		     {"pp: 4, stage_layers: [6, 6, 6, 6]", 6, 6},
		     {"pp: 4, count_loss: true", 6, 6},
		     {"pp: 4, layout: 'Et*9|t*6|t*6|t*3L'", 9, 3}};
	int64_t layers[4];
	char text[600];

	for (size_t i = 0; i < N_OF(cases); i++) {
		resolve_own("  - {parallel: {stage_layers: balanced}}\n", "");
		snprintf(text, sizeof(text),
			 CLUSTER GPUS
			 "model: {family: gpt, layers: 24, hidden: 1024, heads: 16, seq: "
			 "512, vocab: 60000}\ntraining: {global_batch: 64, software: "
			 "own}\nparallel: {%s}\n",
			 cases[i].parallel);
		resolve_ok(text);
		sc_stage_layers(&request, layers);
		ck_assert_msg(layers[0] == cases[i].first && layers[3] == cases[i].last,
			      "%s: %" PRId64 " to %" PRId64, cases[i].parallel, layers[0],
			      layers[3]);
		ck_assert_int_eq(sc_stages_are_balanced(&request.config.parallel), i == 0);
	}
	for (int i = 0; i < 2; i++) {
		resolve_ok(i ? CLUSTER GPUS MODEL
				   "parallel: {sharding: zero1}\n"
				   "training: {global_batch: 64, software: nanotron}\n"
			     : CLUSTER GPUS MODEL
				   "training: {global_batch: 64, software: nanotron}\n");
		ck_assert_int_eq(request.software.grad_sync, i ? SC_GRAD_AFTER : SC_GRAD_OVERLAP);
		ck_assert(!request.software.layer_updates);
	}
	resolve_ok(CLUSTER GPUS MODEL "training: {global_batch: 64, software: astra-sim}\n");
	ck_assert_int_eq(request.software.grad_sync, SC_GRAD_OVERLAP);
	ck_assert(request.software.layer_updates);
}

static const struct {
	const char *pieces, *message;
} bad_pieces[] = {
	{"  - {parallel: {stage_layers: [3, 4]}}\n",
	 "software/own.yaml:5:31: error: config: parallel.stage_layers: a profile may give single values"},
	{"  - {training: {recomputes: full}}\n",
	 "software/own.yaml:5:17: error: unknown key \"training.recomputes\"; did you mean \"training.recompute\"?"},
	{"  - {when: {moe: true}, training: {recompute: full}}\n",
	 "software/own.yaml:5:13: error: unknown key"},
	{"  - {model: {layers: 3}}\n",
	 "software/own.yaml:5:22: error: config: model.layers: a profile may give single values of parallel, training and sharding, c3.policy by family, and cluster.fabric"},
	{"  - {c3: {policy: serial}}\n",
	 "software/own.yaml:5:19: error: config: c3.policy.all: a profile may give single values"},
	{"  - {c3: {policy: {pp: slow}}}\n",
	 "software/own.yaml:5:24: error: config: c3.policy.pp: unknown policy \"slow\""},
	{"  - {when: {nvlink_domain: true}, parallel: {tp: 2}}\n",
	 "software/own.yaml:5:50: error: config: parallel.tp cannot depend on nvlink_domain"},
	{"  - {when: {stored_as: bf16}, parallel: {tp: 2}}\n",
	 "software/own.yaml:5:46: error: config: parallel.tp cannot depend on stored_as"},
	{"  - {when: {precision: nvfp4}, parallel: {tp: 2}}\n",
	 "software/own.yaml:5:47: error: config: parallel.tp cannot depend on precision, which "
	 "may be a habit itself"},
	{"  - {when: {stored_as: bf16}, training: {precision: fp8}}\n",
	 "software/own.yaml:5:53: error: config: training.precision cannot depend on stored_as"},
	{"  - {when: {gpus_above: 8}, parallel: {tp: 2}}\n",
	 "software/own.yaml:5:44: error: config: parallel.tp cannot depend on gpus_above"},
	{"  - {}\ngrad_bytes: 4\n", "software/own.yaml:6:1: error: unknown key \"grad_bytes\""},
	{"  - {}\nefficient_attention: true\n",
	 "software/own.yaml:6:1: error: unknown key \"efficient_attention\""},
	{"  - full\n", "software/own.yaml:5:5: error: config: expected a mapping"},
	{"  a: 1\n", "software/own.yaml:5:3: error: config: expected a list"},
};

LOOP_TEST(bad_pieces_of_config_are_told, N_OF(bad_pieces))
{
	ck_assert_int_ne(resolve_own(bad_pieces[_i].pieces, ""), 0);
	ck_assert_msg(strstr(message(), bad_pieces[_i].message), "%s", message());
}
