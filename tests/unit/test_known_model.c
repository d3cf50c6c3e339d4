/* Mixtures of experts known by their shape, and the shipped models and software profiles. */
#include "config_fixture.h"
#include "core/config/config.h"
#include "core/profile/paths.h"
#include "runner.h"

#define HEAD                                                                              \
	"cluster: {gpu: test-gpu, gpus_per_node: 8, nics_per_node: 8, nic_gbit_s: 200}\n" \
	"gpus: 8\n"
#define TRAINING "training: {global_batch: 64, precision: bf16}\n"
#define MIX_A                                                                              \
	"family: moe\nlayers: 10\nhidden: 640\nheads: 10\nkv_heads: 2\nffn_hidden: 2000\n" \
	"vocab: 5000\nseq: 4096\ndense_layers: 3\nexperts: 24\ntop_k: 3\n"                 \
	"shared_experts: 2\nexpert_ffn_hidden: 96\nhead_dim: 80\n"
#define MIX_B                                                                         \
	"family: moe\nlayers: 7\nhidden: 640\nheads: 10\nkv_heads: 10\nvocab: 5000\n" \
	"seq: 4096\nexperts: 16\ntop_k: 1\nkv_lora_rank: 33\nq_lora_rank: 44\n"       \
	"rope_head_dim: 55\nv_head_dim: 66\nhead_dim: 77\ntied_embeddings: true\n"

static struct sc_catalog *catalog;
static struct sc_request request;

static void set_up_catalog(void)
{
	set_up();
	write_file("models/mix-a.yaml", MIX_A);
	write_file("models/mix-b.yaml", MIX_B);
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

static const struct sc_model *model_of(const char *model)
{
	char text[512];

	snprintf(text, sizeof(text), HEAD "model: {%s}\n" TRAINING, model);
	ck_assert_msg(resolve(text) == 0, "%s", message());
	return &request.config.model;
}

FIXTURE(set_up_catalog, tear_down_catalog)

TEST(what_is_left_out_is_taken)
{
	const struct sc_model *model = model_of("family: moe, layers: 10, hidden: 640, heads: 10, "
						"seq: 128");

	ck_assert_int_eq(model->kv_heads, 2);
	ck_assert_int_eq(model->ffn_hidden, 2000);
	ck_assert_int_eq(model->vocab, 5000);
	ck_assert_int_eq(model->dense_layers, 3);
	ck_assert_int_eq(model->experts, 24);
	ck_assert_int_eq(model->top_k, 3);
	ck_assert_int_eq(model->shared_experts, 2);
	ck_assert_int_eq(model->expert_ffn_hidden, 96);
	ck_assert_int_eq(model->head_dim, 80);
	ck_assert_int_eq(model->tied_embeddings, 0);
	/* they belong to the run */
	ck_assert_int_eq(model->seq, 128);
	ck_assert_int_eq(model->layers, 10);
	ck_assert_uint_eq(request.warnings.n, 1);
	ck_assert_str_eq(request.warnings.text[0],
			 "model.experts is not given; the model is taken for models/mix-a.yaml: "
			 "experts 24, top_k 3");
}

TEST(what_is_given_stays)
{
	const struct sc_model *model =
		model_of("family: moe, layers: 10, hidden: 640, heads: 10, kv_heads: 2, seq: 128, "
			 "top_k: 5, ffn_hidden: 1000, head_dim: 64, dense_layers: 0, "
			 "tied_embeddings: true");

	ck_assert_int_eq(model->top_k, 5);
	ck_assert_int_eq(model->ffn_hidden, 1000);
	ck_assert_int_eq(model->head_dim, 64);
	ck_assert_int_eq(model->dense_layers, 0);
	ck_assert_int_eq(model->tied_embeddings, 1);
	ck_assert_int_eq(model->experts, 24);
}

TEST(the_number_of_layers_chooses_between_two)
{
	const struct sc_model *model =
		model_of("family: moe, layers: 7, hidden: 640, heads: 10, seq: 128");

	ck_assert_int_eq(model->experts, 16);
	ck_assert_int_eq(model->kv_lora_rank, 33);
	ck_assert_int_eq(model->q_lora_rank, 44);
	ck_assert_int_eq(model->rope_head_dim, 55);
	ck_assert_int_eq(model->v_head_dim, 66);
	ck_assert_int_eq(model->head_dim, 77);
	ck_assert_int_eq(model->tied_embeddings, 1);
	ck_assert_int_eq(model->dense_layers, 0);
}

TEST(a_model_with_fewer_layers_has_no_more_dense_ones)
{
	const struct sc_model *model =
		model_of("family: moe, layers: 2, hidden: 640, heads: 10, seq: 128");

	ck_assert_int_eq(model->experts, 24);
	ck_assert_int_eq(model->layers, 2);
	ck_assert_int_eq(model->dense_layers, 2);
}

static const struct {
	const char *model;
} other[] = {
	/* of the two, only one of 10 key-value heads has latent attention */
	{"family: moe-mla, layers: 10, hidden: 640, heads: 10, kv_heads: 2, seq: 128"},
	{"family: moe, layers: 10, hidden: 1280, heads: 10, seq: 128"},
	{"family: moe, layers: 10, hidden: 640, heads: 20, seq: 128"},
	{"family: moe, layers: 10, hidden: 640, heads: 10, kv_heads: 5, seq: 128"},
	{"family: moe, layers: 10, hidden: 640, heads: 10, vocab: 5001, seq: 128"},
};

LOOP_TEST(another_shape_is_not_known, N_OF(other))
{
	char text[512];

	snprintf(text, sizeof(text), HEAD "model: {%s}\n" TRAINING, other[_i].model);
	ck_assert_int_eq(resolve(text), -SC_EVALUE);
	ck_assert_ptr_nonnull(strstr(err.text, "model.experts is not given"));
}

TEST(given_experts_need_no_known_model)
{
	/* not even a file that can be read */
	write_file("models/broken.yaml", "family: moe\nexprts: 3\n");
	ck_assert_int_eq(model_of("family: moe, layers: 10, hidden: 640, heads: 10, seq: 128, "
				  "vocab: 5000, experts: 4")
				 ->top_k,
			 1);
	ck_assert_uint_eq(request.warnings.n, 0);
}

TEST(a_broken_model_file_is_told_where_it_is)
{
	write_file("models/broken.yaml", "family: moe\nexprts: 3\n");
	ck_assert_int_eq(resolve(HEAD "model: {family: moe, layers: 10, hidden: 640, heads: 10, "
				      "seq: 128}\n" TRAINING),
			 -SC_EVALUE);
	ck_assert_str_eq(message(),
			 "models/broken.yaml:2:1: error: unknown key \"model.exprts\"; did "
			 "you mean \"model.experts\"?");
	/* and again: nothing half read was kept */
	ck_assert_int_eq(resolve(HEAD "model: {family: moe, layers: 10, hidden: 640, heads: 10, "
				      "seq: 128}\n" TRAINING),
			 -SC_EVALUE);
}

static const struct {
	const char *model, *name;
	int64_t experts, top_k, kv_lora_rank, shared;
} published[] = {
	{"family: moe-mla, layers: 4, hidden: 5120, heads: 128, seq: 4096", "deepseek-v2", 160, 6,
	 512, 2},
	{"family: moe, layers: 61, hidden: 7168, heads: 128, vocab: 129280, seq: 4096",
	 "deepseek-v3", 256, 8, 512, 1},
	{"family: moe, layers: 36, hidden: 2880, heads: 64, kv_heads: 8, seq: 4096", "gpt-oss-120b",
	 128, 4, 0, 0},
	{"family: moe, layers: 48, hidden: 2048, heads: 32, kv_heads: 4, seq: 4096",
	 "qwen3-30b-a3b", 128, 8, 0, 0},
	{"family: moe, layers: 94, hidden: 4096, heads: 64, kv_heads: 4, seq: 4096",
	 "qwen3-235b-a22b", 128, 8, 0, 0},
	{"family: moe, layers: 32, hidden: 4096, heads: 32, kv_heads: 8, seq: 4096", "mixtral-8x7b",
	 8, 2, 0, 0},
};

LOOP_TEST(published_mixtures_are_known, N_OF(published))
{
	const struct sc_model *model = model_of(published[_i].model);

	ck_assert_int_eq(model->experts, published[_i].experts);
	ck_assert_int_eq(model->top_k, published[_i].top_k);
	ck_assert_int_eq(model->shared_experts, published[_i].shared);
	ck_assert_int_eq(sc_model_is_mla(model), published[_i].kv_lora_rank > 0);
	if (published[_i].kv_lora_rank > 0)
		ck_assert_int_eq(model->kv_lora_rank, published[_i].kv_lora_rank);
	ck_assert_ptr_nonnull(strstr(request.warnings.text[0], published[_i].name));
}

TEST(every_shipped_model_is_complete)
{
	const char *const *ids;
	size_t n = sc_config_ids("models", &arena, &ids);

	ck_assert_uint_gt(n, 30);
	for (size_t i = 0; i < n; i++) {
		struct sc_config config;
		const char *path = "r.yaml";

		memset(&err, 0, sizeof(err));
		sc_config_init(&config);
		config.cluster.gpu = "test-gpu";
		config.gpus = 1;
		config.training.global_batch = 1;
		ck_assert_msg(
			sc_config_set(&config,
				      &(struct sc_setting){
					      "model",
					      sc_arena_printf(&arena, "models/%s.yaml", ids[i]),
					      path},
				      &arena, &err) == 0,
			"%s", message());
		ck_assert_msg(sc_config_resolve(&config, catalog, path, &request, &err) == 0,
			      "%s: %s", ids[i], message());
	}
}

TEST(every_shipped_software_loads)
{
	const char *const *ids;
	size_t n = sc_config_ids("software", &arena, &ids);

	ck_assert_uint_gt(n, 15);
	for (size_t i = 0; i < n; i++) {
		struct sc_software software, later;

		memset(&err, 0, sizeof(err));
		ck_assert_msg(sc_software_load(ids[i], &arena, &software, &err) == 0, "%s",
			      message());
		for (size_t k = 0; k < software.releases.n; k++) {
			const struct sc_release *release = software.releases.at;

			ck_assert_msg(sc_software_load(release[k].profile, &arena, &later, &err) ==
					      0,
				      "%s", message());
		}
	}
}

static const char *software_on(const char *gpu, const char *training)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "cluster: {gpu: %s, gpus_per_node: 8, nics_per_node: 8, nic_gbit_s: 200}\n"
		 "gpus: 8\nmodel: {family: gpt, layers: 2, hidden: 640, heads: 10, vocab: 5000, "
		 "seq: 128}\n"
		 "training: {global_batch: 64, %s}\n",
		 gpu, training);
	ck_assert_msg(resolve(text) == 0, "%s", message());
	return request.software.id;
}

TEST(a_later_gpu_runs_a_later_release)
{
	const char *megatron = "precision: bf16, software: megatron-lm";

	ck_assert_str_eq(software_on("a100-sxm-80gb", megatron), "megatron-lm");
	ck_assert_str_eq(software_on("h100-sxm-80gb", megatron), "megatron-core");
	ck_assert(request.software.distributed_optimizer);
	ck_assert_str_eq(software_on("b200-sxm-180gb", megatron), "megatron-core");
	ck_assert_str_eq(request.warnings.text[request.warnings.n - 1],
			 "training.software megatron-lm has no release for this GPU: its successor "
			 "megatron-core is simulated");
	ck_assert_str_eq(software_on("b200-sxm-180gb", "precision: bf16, software: torchtitan"),
			 "torchtitan");
	ck_assert_str_eq(software_on("b200-sxm-180gb",
				     "precision: mxfp8, recompute: none, software: torchtitan"),
			 "torchtitan-2026");
	ck_assert_str_eq(request.warnings.text[request.warnings.n - 1],
			 "training.software torchtitan is taken as its release torchtitan-2026 in "
			 "this precision on this GPU");
}
