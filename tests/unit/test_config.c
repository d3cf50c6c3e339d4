/* Requests as written: files, references, overrides, origins, messages. */
#include "config_fixture.h"
#include "core/config/config.h"
#include "runner.h"

static struct sc_config config;

static int load(const char *text)
{
	memset(&err, 0, sizeof(err));
	return sc_config_load(write_file("request.yaml", text), &arena, &config, &err);
}

static int set(const char *path, const char *text)
{
	memset(&err, 0, sizeof(err));
	return sc_config_set(&config, &(struct sc_setting){path, text, "--set"}, &arena, &err);
}

FIXTURE(set_up, tear_down)

TEST(a_whole_request)
{
	ck_assert_int_eq(
		load("schema: stepcast/1\n"
		     "notes: a note\n"
		     "measured_ms: 12.5\n"
		     "cluster: {gpu: test-gpu, gpus_per_node: 4, nics_per_node: 0, nic_gbit_s: 0,\n"
		     "  scale_up_gpus: 4, nic_latency_us: 2, link_gbps: 100, fabric: infiniband}\n"
		     "gpus: 64\n"
		     "model: {family: moe-mla, layers: 48, hidden: 6144, heads: 64, kv_heads: 8,\n"
		     "  ffn_hidden: 24576, seq: 2048, vocab: 5.12e4, experts: 8, top_k: 2,\n"
		     "  expert_ffn_hidden: 128}\n"
		     "parallel: {tp: 8, pp: 2, dp: 4, cp: 1, ep: 2, virtual_stages: 3, schedule: gpipe,\n"
		     "  sharding: zero3, sequence_parallel: true, tp_overlap: true, order: tp-dp-pp,\n"
		     "  stage_layers: [20, 28]}\n"
		     "training: {global_batch: 32, micro_batch: 4, precision: amp_bf16,\n"
		     "  recompute: selective, attention: unfused, optimizer: adagrad, trainable: lora,\n"
		     "  unpadded: true, cuda_graphs: true, software: anything}\n"
		     "sharding: {planner: torchrec, plan: p.json, bw_ratio: 9}\n"
		     "stragglers: [{ranks: [3, 5], slowdown: 1.25}]\n"),
		0);
	ck_assert_str_eq(config.notes, "a note");
	ck_assert_double_eq(config.measured_ms, 12.5);
	ck_assert_str_eq(config.cluster.gpu, "test-gpu");
	ck_assert_int_eq(config.cluster.nics_per_node, 0);
	ck_assert_double_eq(config.cluster.link_gbps, 100);
	ck_assert_int_eq(config.model.family, SC_MOE_MLA);
	ck_assert_int_eq(config.model.vocab, 51200);
	ck_assert_int_eq(config.parallel.schedule, SC_SCHED_GPIPE);
	ck_assert_int_eq(config.parallel.sharding, SC_ZERO3);
	ck_assert(config.parallel.sequence_parallel && config.parallel.tp_overlap);
	ck_assert_uint_eq(config.parallel.stage_layers.n, 2);
	ck_assert_int_eq(config.parallel.stage_layers.at[1], 28);
	ck_assert_int_eq(config.training.precision, SC_P_AMP_BF16);
	ck_assert_int_eq(config.training.optimizer, SC_OPT_ADAGRAD);
	ck_assert(config.training.unpadded && config.training.cuda_graphs);
	ck_assert_int_eq(config.sharding.planner, SC_PLANNER_TORCHREC);
	ck_assert_str_eq(config.sharding.plan, "p.json");
	ck_assert_double_eq(config.sharding.bw_ratio, 9);
	ck_assert_uint_eq(config.stragglers.n, 1);
	ck_assert_int_eq(((struct sc_straggler *)config.stragglers.at)->ranks.at[1], 5);
}

TEST(nothing_is_filled_in)
{
	ck_assert_int_eq(load("schema: stepcast/1\n"), 0);
	ck_assert_ptr_null(config.cluster.gpu);
	ck_assert_int_eq(config.gpus, SC_NOT_GIVEN);
	ck_assert_int_eq(config.cluster.nics_per_node, SC_NOT_GIVEN);
	ck_assert(config.cluster.nic_gbit_s < 0 && config.cluster.link_gbps < 0);
	ck_assert_int_eq(config.model.family, SC_FAMILY_NONE);
	ck_assert_int_eq(config.model.experts, SC_NOT_GIVEN);
	ck_assert_int_eq(config.parallel.dp, SC_NOT_GIVEN);
	ck_assert_int_eq((int)config.training.precision, SC_NOT_GIVEN);
	ck_assert_int_eq((int)config.training.attention, SC_NOT_GIVEN);
	ck_assert_int_eq((int)config.training.optimizer, SC_NOT_GIVEN);
	ck_assert_ptr_null(sc_config_origin(&config, "gpus"));
}

static const char *const names[][2] = {
	{"model.family", "gpt"},         {"model.family", "llama"},
	{"model.family", "mpt"},         {"model.family", "bert"},
	{"model.family", "opt"},         {"model.family", "moe"},
	{"model.family", "moe-mla"},     {"model.family", "dlrm"},
	{"parallel.schedule", "1f1b"},   {"parallel.schedule", "interleaved"},
	{"parallel.sharding", "none"},   {"parallel.sharding", "zero1"},
	{"parallel.sharding", "zero2"},  {"parallel.sharding", "fsdp"},
	{"training.precision", "fp32"},  {"training.precision", "tf32"},
	{"training.precision", "fp16"},  {"training.precision", "bf16"},
	{"training.precision", "fp8"},   {"training.precision", "amp_fp16"},
	{"training.recompute", "none"},  {"training.recompute", "full"},
	{"training.attention", "flash"}, {"training.optimizer", "adam"},
	{"training.optimizer", "sgd"},   {"training.optimizer", "none"},
	{"training.trainable", "all"},
};

LOOP_TEST(every_name_of_the_contract_is_known, N_OF(names))
{
	sc_config_init(&config);
	ck_assert_msg(set(names[_i][0], names[_i][1]) == 0, "%s", message());
}

TEST(tables_are_filled)
{
	const struct sc_table *tables;

	ck_assert_msg(load("model: {family: dlrm, dense_features: 13, bottom_mlp: [512, 256],\n"
			   "  top_mlp: [1], interaction: dcnv2, cross_layers: 3, low_rank: 512,\n"
			   "  tables: [{name: a, rows: 10, dim: 128, pooling: 3, count: 2,\n"
			   "    storage: fp16, reuse: {zipf: 1.2}}, {rows: 5, dim: 64,\n"
			   "    reuse: {kind: uniform}}]}\n") == 0,
		      "%s", message());
	tables = config.model.tables.at;
	ck_assert_int_eq(config.model.family, SC_DLRM);
	ck_assert_int_eq(config.model.interaction, SC_INTERACT_DCNV2);
	ck_assert_uint_eq(config.model.tables.n, 2);
	ck_assert_double_eq(sc_model_n_tables(&config.model), 3);
	ck_assert_double_eq(tables[0].pooling, 3);
	ck_assert_int_eq(tables[0].storage, SC_FP16 + 1);
	ck_assert_int_eq(tables[0].reuse.kind, SC_REUSE_ZIPF);
	ck_assert_str_eq(tables[1].name, "table_1");
	ck_assert_int_eq(tables[1].count, 1);
	ck_assert_int_eq(tables[1].features, 1);
	ck_assert_double_eq(tables[1].pooling, 1);
	ck_assert_int_eq(tables[1].reuse.kind, SC_REUSE_UNIFORM);
	ck_assert_int_ne(set("model.tables", "x"), 0);
}

static const struct {
	const char *text, *message;
} bad[] = {
	{"schema: stepcast/9\n",
	 "request.yaml:1:9: error: schema: this program reads stepcast/1, not \"stepcast/9\""},
	{"gpus: 4\nparalel: {tp: 2}\n",
	 "request.yaml:2:1: error: unknown key \"paralel\"; did you mean \"parallel\"?"},
	{"parallel: {tp: 0}\n",
	 "request.yaml:1:16: error: parallel.tp: 0 is out of range; expected 1 to 4096"},
	{"gpus: 1.5\n",
	 "request.yaml:1:7: error: gpus: expected an integer from 1 to 1048576, got \"1.5\""},
	{"model: {family: gtp}\n",
	 "request.yaml:1:17: error: model.family: unknown value \"gtp\"; did you mean \"gpt\"? Known: gpt, "
	 "llama, mpt, bert, opt, moe, dlrm, moe-mla, layers, nemotron-h, dit"},
	{"stragglers: [{ranks: [1]}]\n",
	 "request.yaml:1:14: error: missing key \"stragglers[0].slowdown\": factor on their kernel times"},
	{"model: models/none-such.yaml\n",
	 "request.yaml:1:8: error: model: no file \"models/none-such.yaml\"; looked beside the file that "
	 "names it, in $STEPCAST_CONFIGS and in the installed configs"},
};

LOOP_TEST(bad_requests_are_told, N_OF(bad))
{
	ck_assert_int_ne(load(bad[_i].text), 0);
	ck_assert_str_eq(message(), bad[_i].message);
}

TEST(sections_from_files)
{
	const struct sc_origin *origin;

	write_file("models/m.yaml",
		   "schema: stepcast/1\nnotes: x\nsources: {a: b}\nfamily: gpt\nlayers: 7\n");
	write_file("clusters/c.yaml", "gpu: test-gpu\ngpus_per_node: 4\n");
	ck_assert_int_eq(load("model: models/m.yaml\ncluster: clusters/c.yaml\n"), 0);
	ck_assert_int_eq(config.model.layers, 7);
	ck_assert_int_eq(config.cluster.gpus_per_node, 4);
	origin = sc_config_origin(&config, "model.layers");
	ck_assert_ptr_nonnull(origin);
	ck_assert_ptr_nonnull(strstr(origin->file, "models/m.yaml"));
	ck_assert_uint_eq(origin->line, 5);
	ck_assert_uint_eq(sc_config_origin(&config, "cluster")->line, 2);
}

TEST(bad_section_files_are_told)
{
	write_file("models/m.yaml", "family: gpt\nlayres: 7\n");
	ck_assert_int_ne(load("model: models/m.yaml\n"), 0);
	ck_assert_str_eq(message(),
			 "models/m.yaml:2:1: error: unknown key \"model.layres\"; did you mean "
			 "\"model.layers\"?");
	write_file("models/m.yaml", "schema: stepcast/0\nfamily: gpt\n");
	ck_assert_int_ne(load("model: models/m.yaml\n"), 0);
	ck_assert_str_eq(message(),
			 "models/m.yaml:1:9: error: schema: this program reads stepcast/1, not "
			 "\"stepcast/0\"");
}

TEST(overrides_apply_in_order)
{
	ck_assert_int_eq(load("parallel: {tp: 2}\n"), 0);
	ck_assert_int_eq(set("parallel.tp", "4"), 0);
	ck_assert_int_eq(set("gpus", "16"), 0);
	ck_assert_int_eq(set("parallel.stage_layers", "[3,4]"), 0);
	ck_assert_int_eq(config.parallel.tp, 4);
	ck_assert_int_eq(config.gpus, 16);
	ck_assert_int_eq(config.parallel.stage_layers.at[1], 4);
	ck_assert_str_eq(sc_config_origin(&config, "parallel.tp")->file, "--set");
	ck_assert_int_ne(set("parallel.shedule", "4"), 0);
	ck_assert_str_eq(
		message(),
		"--set: error: unknown key \"parallel.shedule\"; did you mean \"parallel.schedule\"?");
	ck_assert_int_ne(set("parallel.tp", "x"), 0);
	ck_assert_str_eq(
		message(),
		"--set: error: parallel.tp: expected an integer from 1 to 4096, got \"x\"");
	ck_assert_int_eq(config.parallel.tp, 4);
	ck_assert_int_ne(set("parallel", "x"), 0);
	ck_assert_int_ne(set("schema", "stepcast/2"), 0);
	ck_assert_int_ne(set("", "1"), 0);
}

TEST(an_overridden_section_is_replaced_whole)
{
	write_file("models/m.yaml", "family: llama\nhidden: 128\n");
	ck_assert_int_eq(load("model: {family: gpt, layers: 7, heads: 8}\nparallel: {tp: 2}\n"), 0);
	ck_assert_int_eq(set("model", "models/m.yaml"), 0);
	ck_assert_int_eq(config.model.family, SC_LLAMA);
	ck_assert_int_eq(config.model.hidden, 128);
	ck_assert_int_eq(config.model.layers, SC_NOT_GIVEN);
	ck_assert_ptr_null(sc_config_origin(&config, "model.layers"));
	ck_assert_uint_eq(sc_config_origin(&config, "model.hidden")->line, 2);
	ck_assert_str_eq(sc_config_origin(&config, "model")->file, "--set");
	ck_assert_uint_eq(sc_config_origin(&config, "parallel.tp")->line, 2);
	ck_assert_int_eq(set("model.layers", "3"), 0);
	ck_assert_str_eq(sc_config_origin(&config, "model.layers")->file, "--set");
	ck_assert_int_ne(set("model", "models/none.yaml"), 0);
	ck_assert_ptr_nonnull(strstr(message(), "--set: error: model: no file"));
	ck_assert_int_eq(config.model.layers, 3);
}

TEST(the_caller_gets_the_origins)
{
	const struct sc_origin *at;

	ck_assert_int_eq(
		sc_config_load(write_file("request.yaml", "gpus: 4\nparallel: {tp: 2, pp: 1}\n"),
			       &arena, &config, &err),
		0);
	at = config.origins->at;
	ck_assert_uint_eq(config.origins->n, 3);
	ck_assert_str_eq(at[1].path, "parallel.tp");
	ck_assert_uint_eq(at[1].line, 2);
	ck_assert_uint_eq(at[1].column, 16);
}

TEST(orders)
{
	static const char *const refused[] = {"",  "tp-tp", "tp-",       "tp_dp",
					      "x", "t",     "tp-dp-pp-", "tpp"};
	int axes[SC_N_ORDER_AXES], n;

	ck_assert(sc_order_parse("tp-cp-ep-dp-pp", axes, &n));
	ck_assert_int_eq(n, 5);
	for (int i = 0; i < SC_N_ORDER_AXES; i++)
		ck_assert_int_eq(axes[i], i);
	ck_assert(sc_order_parse("pp-dp", axes, &n));
	ck_assert_int_eq(n, 2);
	ck_assert(axes[0] == 4 && axes[1] == 3 && axes[2] == 0 && axes[3] == 1 && axes[4] == 2);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		ck_assert_msg(!sc_order_parse(refused[i], axes, NULL), "%s", refused[i]);
}

TEST(warnings_are_cut_and_counted)
{
	struct sc_warnings warnings = {.n = 0};
	char text[400];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < SC_MAX_WARNINGS + 3; i++)
		sc_warn(&warnings, "%d%s", i, text);
	ck_assert_uint_eq(warnings.n, SC_MAX_WARNINGS);
	ck_assert_uint_eq(strlen(warnings.text[0]), sizeof(warnings.text[0]) - 1);
	ck_assert_str_eq(warnings.text[0] + sizeof(warnings.text[0]) - 4, "...");
}

TEST(dtypes_of_precisions)
{
	ck_assert_int_eq(sc_precision_dtype(SC_P_TF32), SC_TF32);
	ck_assert_int_eq(sc_precision_dtype(SC_P_AMP_FP16), SC_FP16);
	ck_assert_int_eq(sc_precision_dtype(SC_P_AMP_BF16), SC_BF16);
	ck_assert_int_eq(sc_precision_dtype(SC_P_FP8), SC_FP8);
}
