/* model.layers_pattern: which layers a text says, and what models of several kinds cost by an
 * independent count. */
#include <math.h>

#include "base/units.h"
#include "predict/predict.h"
#include "predict/transformer/transformer_memory.h"
#include "predict/transformer/transformer_ops.h"
#include "random_config.h"
#include "runner.h"

enum { N_RANDOM = 400, N_AT_ONCE = 100 };

/* The second says the same layers as the first. */
static const struct {
	const char *one, *same;
	int layers;
} SAME[] = {
	{"(3*gdn,1*attn)*2", "gdn,gdn,gdn,attn,gdn,gdn,gdn,attn", 8},
	{"(3*gdn,1*attn)*2", "2*(gdn*3,attn)", 8},
	{"(3*gdn,1*attn)*2",
	 "(linear_attention,linear_attention,linear_attention,full_attention)*2", 8},
	{"E*E*-", "moe,attn,moe,attn,mlp", 5},
	{"((attn))", "attention", 1},
	{"(3*gdn,1*attn)*1", "[gdn,gdn,gdn,attn]", 4},
};

/* A pattern, and with the layers behind it that a later token takes. */
static const struct {
	const char *pattern, *longer;
	int layers, more_layers;
} LATER[] = {
	{"gdn,attn,moe,gdn", "gdn,attn,moe,gdn,attn,moe", 4, 6},
	{"attn,moe,gdn,mlp", "attn,moe,gdn,mlp,attn,mlp", 4, 6},
	{"(attn,gdn)*2", "attn,gdn,attn,gdn*2", 4, 5},
};

FIXTURE(requests_begin, requests_end)

#define HYBRID                                                                                  \
	"model=models/qwen3-next-80b-a3b.yaml cluster.gpu=h100-sxm-80gb gpus=8 model.seq=4096 " \
	"training.software=megatron-core training.global_batch=64 training.precision=bf16 parallel.ep=8 "

static struct sc_request hybrid(const char *more)
{
	struct sc_config cfg;

	sc_config_init(&cfg);
	set_all(&cfg, HYBRID);
	set_all(&cfg, more);
	return *resolve_config(&cfg);
}

LOOP_TEST(texts_say_the_same_layers, N_OF(SAME))
{
	struct sc_request a, b;
	char text[256];

	snprintf(text, sizeof(text), "model.layers=%d model.layers_pattern=%s", SAME[_i].layers,
		 SAME[_i].one);
	a = hybrid(text);
	snprintf(text, sizeof(text), "model.layers=%d model.layers_pattern=%s", SAME[_i].layers,
		 SAME[_i].same);
	b = hybrid(text);
	for (int i = 0; i < SAME[_i].layers; i++) {
		const struct sc_layer_kind *of_a = &a.config.model.kinds[a.config.model.kind_of[i]];
		const struct sc_layer_kind *of_b = &b.config.model.kinds[b.config.model.kind_of[i]];

		ck_assert_int_eq(of_a->mixer, of_b->mixer);
		ck_assert_int_eq(of_a->feed, of_b->feed);
	}
	ck_assert_double_eq_tol(predict_request(&a, NULL)->iteration_ms,
				predict_request(&b, NULL)->iteration_ms, 1e-9);
}

/* A layer of a later token: where sub-layers stand alone as two of them, else as the last; the
 * head's part is the same. */
LOOP_TEST(later_tokens_take_attention_and_its_feed_forward, N_OF(LATER))
{
	struct sc_request plain, longer, ahead;
	double layer, head, two;
	char text[256];

	snprintf(text, sizeof(text), "model.layers=%d model.layers_pattern=%s", LATER[_i].layers,
		 LATER[_i].pattern);
	plain = hybrid(text);
	strcat(text, " model.mtp_layers=2");
	ahead = hybrid(text);
	snprintf(text, sizeof(text), "model.layers=%d model.layers_pattern=%s",
		 LATER[_i].more_layers, LATER[_i].longer);
	longer = hybrid(text);
	layer = sc_transformer_model_flop(&longer, NULL) - sc_transformer_model_flop(&plain, NULL);
	head = 6 * 4096 * 2048 * (151936.0 + 2 * 2048);
	two = sc_transformer_model_flop(&ahead, NULL) - sc_transformer_model_flop(&plain, NULL);
	ck_assert_double_eq_tol(two / (2 * (layer + head)), 1, 1e-12);
	ck_assert(predict_request(&ahead, NULL)->iteration_ms >
		  predict_request(&longer, NULL)->iteration_ms);
}

/* The layers of a model without a pattern, said by one. */
LOOP_TEST(a_pattern_of_attention_changes_nothing, N_RANDOM / N_AT_ONCE)
{
	static struct sc_prediction out[2];
	int n_same = 0;

	for (int i = 0; i < n_cases(N_AT_ONCE); i++) {
		const uint64_t seed = (uint64_t)(_i * N_AT_ONCE + i);
		struct sc_predict_opts opts;
		struct sc_err err = {0};
		int n_predicted = 0;

		sc_predict_opts_init(&opts);
		for (int pattern = 0; pattern < 2; pattern++) {
			struct sc_request request;
			struct sc_config config;
			char text[128];

			load_random(seed, &config);
			if (config.model.full_attention_every > 0)
				config.model.full_attention_every = SC_NOT_GIVEN;
			snprintf(text, sizeof(text),
				 pattern ? "model.layers_pattern=%d*attn model.layers=%d"
					 : "model.layers=%d",
				 (int)config.model.layers, (int)config.model.layers);
			set_all(&config, text);
			if (sc_config_resolve(&config, catalog, NULL, &request, &err) == 0 &&
			    sc_predict(predictor, &request, &opts, &out[pattern], &err) == 0)
				n_predicted++;
		}
		ck_assert_int_ne(n_predicted, 1);
		if (n_predicted == 0)
			continue;
		n_same++;
		ck_assert_double_eq_tol(out[0].iteration_ms, out[1].iteration_ms,
					1e-9 * out[0].iteration_ms);
		/* The widest layer of any kind, where without one the first kind's counts. */
		ck_assert_double_ge(out[1].memory.total_gib, out[0].memory.total_gib - 1e-9);
	}
	ck_assert_int_gt(n_same, 0);
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

/* A token's multiply-adds: mixture, head, and attention behind its projections. */
static double macs_of_v32(double s)
{
	const double h = 7168, mixture = 3 * h * 2048 * (8 + 1) + h * 256;
	const double projections =
		h * 1536 + 1536 * 128 * 192 + h * 576 + 512 * 128 * 256 + 128 * 128 * h;
	const double index = 1536 * 64 * 128 + h * (128 + 64) + 64 * 128 * s;

	return 61 * (projections + index + 128 * (576 + 512) * least(s, 2048)) + 58 * mixture +
	       3 * 3 * h * 18432 + h * 129280;
}

static double macs_of_glm5(double s)
{
	const double h = 6144, mixture = 3 * h * 2048 * (8 + 1) + h * 256;
	const double projections =
		h * 2048 + 2048 * 64 * 256 + h * 576 + 512 * 64 * (192 + 256) + 64 * 256 * h;
	const double index = 2048 * 32 * 128 + h * (128 + 32) + 32 * 128 * s;

	return 78 * (projections + index + 64 * (576 + 512) * least(s, 2048)) + 75 * mixture +
	       3 * 3 * h * 12288 + h * 154880;
}

static double macs_of_m3(double s)
{
	const double h = 6144, mixture = 3 * h * 3072 * (4 + 1) + h * 128;
	const double projections = h * (64 + 2 * 4) * 128 + 64 * 128 * h;
	const double index = h * (4 + 1) * 128 + 4 * 128 * s, head = 64 * 2 * 128;

	return 57 * (projections + index + head * least(s, 2048)) + 3 * (projections + head * s) +
	       57 * mixture + 3 * 3 * h * 12288 + h * 200064;
}

/* Compressors' keys and gates, twice where they overlap; outputs in 16 groups; weights of four
 * residual streams. */
static double macs_of_v4(double s)
{
	const double h = 7168, w = 128 * 512, mixture = 3 * h * 3072 * (6 + 1) + h * 384;
	const double both =
		h * 1536 + 1536 * w + h * 512 + w * 1024 + 16 * 1024 * h + 2 * 24 * 4 * h;
	const double csa = 2 * h * 2 * 512 + 1536 * 64 * 128 + h * 64 + 2 * h * 2 * 128 +
			   64 * 128 * s / 4 + 128 * 1024 * (least(s, 4096) / 4 + 128);
	const double hca = 2 * h * 512 + 128 * 1024 * (s / 128 + 128);

	return 61 * (both + mixture) + 30 * csa + 31 * hca + h * 129280;
}

static double macs_of_kimi(double s)
{
	const double h = 2304, w = 32 * 128, mixture = 3 * h * 1024 * (8 + 1) + h * 256;
	const double kda =
		h * (3 * w + 32 + 2 * 128) + 2 * 128 * w + 4 * 3 * w + 4 * w * 128 + w * h;
	const double mla = h * 32 * 192 + h * 576 + 512 * 32 * 256 + w * h + 32 * (192 + 128) * s;

	return 20 * kda + 7 * mla + 26 * mixture + 3 * h * 9216 + h * 163840;
}

static double macs_of_text01(double s)
{
	const double h = 6144, w = 64 * 128, mixture = 3 * h * 9216 * 2 + h * 32;
	const double lightning = 5 * h * w + 2 * w * 128;
	const double attention = 2 * h * w + 2 * h * 8 * 128 + 2 * w * s;

	return 70 * lightning + 10 * attention + 80 * mixture + h * 200064;
}

static double macs_of_qwen27(double s)
{
	const double h = 5120, keys = 16 * 128, values = 48 * 128, w = 24 * 256;
	const double gdn = h * (2 * keys + 2 * values + 2 * 48) + 4 * (2 * keys + values) +
			   4 * values * 128 + values * h;
	const double attention = h * (2 * w + 2 * 4 * 256) + w * h + 2 * w * s;

	return 48 * gdn + 16 * attention + 64 * 3 * h * 17408 + h * 248320;
}

static double macs_of_gemma27(double s)
{
	const double h = 5376, w = 32 * 128, qkvo = h * (2 * w + 2 * 16 * 128);

	return 62 * (qkvo + 3 * h * 21504) + 2 * w * (10 * s + 52 * least(s, 1024)) + h * 262208;
}

/* Five layers read all keys, which are values, too, by fewer and wider heads. */
static double macs_of_gemma4(double s)
{
	const double h = 2816, w = 16 * 256, all = 16 * 512;
	const double windows = h * (2 * w + 2 * 8 * 256) + 2 * w * least(s, 1024);
	const double full = h * (2 * all + 2 * 512) + 2 * all * s;

	return 25 * windows + 5 * full + 30 * (h * 128 + 3 * h * (8 * 704 + 2112)) + h * 262144;
}

static double macs_of_gpt_oss(double s)
{
	const double h = 2880, w = 64 * 64, qkvo = h * (2 * w + 2 * 8 * 64);

	return 24 * (qkvo + h * 32 + 3 * h * h * 4) + 2 * w * 12 * (s + least(s, 128)) + h * 201088;
}

/* Mamba's own products, 7 FLOP of an element of a state; experts in every second layer. */
static double macs_of_jamba(double s)
{
	const double h = 4096, w = 8192, n = 16, rank = 256, mlp = 3 * h * 14336;
	const double mamba =
		h * 2 * w + 4 * w + w * (rank + 2 * n) + rank * w + 3.5 * w * n + w * h;
	const double attention = h * (2 * h + 2 * 8 * 128) + 2 * h * s;

	return 28 * mamba + 4 * attention + 16 * mlp + 16 * (h * 16 + 2 * mlp) + h * 65536;
}

/* As Megatron Core counts a hybrid (training.py, num_floating_point_operations): products of all
 * layers thrice, of a state four times its size, attention over all keys. */
TEST(flop_of_a_hybrid_is_as_frameworks_count_it)
{
	struct sc_request req = hybrid("");
	const double h = 2048, s = 4096, keys = 16 * 128, values = 32 * 128;
	const double gdn = h * (2 * keys + 2 * values + 2 * 32) + 4 * (2 * keys + values) +
			   32 * 128 * 128 * 4 + values * h;
	const double attention = h * (2 * 16 * 256 + 2 * 2 * 256) + 16 * 256 * h + 2 * s * 16 * 256;
	const double experts = 3 * h * 512 * (10 + 1) + h * 512;
	const double macs = 36 * gdn + 12 * attention + 48 * experts + h * 151936;

	ck_assert_double_eq_tol(sc_transformer_model_flop(&req, NULL) / (6 * s * macs), 1, 1e-3);
}

/* The same of Nemotron's: 7 FLOP of an element of a state forward, each sublayer by itself. */
TEST(flop_of_mamba_is_as_frameworks_count_it)
{
	struct sc_config cfg;
	const double h = 8192, s = 8192, inner = 256 * 64, groups = 8 * 256;
	const double mamba = h * (2 * inner + 2 * groups + 256) + 3.5 * inner * 256 + inner * h;
	const double attention = 2 * h * 64 * 128 + 2 * h * 8 * 128 + 2 * s * 64 * 128;
	const double macs = 54 * mamba + 10 * attention + 54 * 2 * h * 32768 + h * 131072;

	sc_config_init(&cfg);
	set_all(&cfg, "model=models/nemotron-h-56b.yaml cluster.gpu=h100-sxm-80gb gpus=8 "
		      "training.software=megatron-core training.global_batch=8");
	ck_assert_double_eq_tol(
		sc_transformer_model_flop(resolve_config(&cfg), NULL) / (6 * s * macs), 1, 1e-3);
}

/* Counts of a layer of linear attention on one of tp ranks, and what it keeps. */
LOOP_TEST(a_rank_has_its_heads, 4)
{
	const double tp = (double)(1 << _i), h = 512, dk = 32, dv = 64, tokens = 1024;
	const double keys = 8 * dk / tp, values = 16 * dv / tp, heads = 16 / tp;
	char text[512];
	struct sc_request req;
	struct sc_params layer;

	snprintf(
		text, sizeof(text),
		"model.family=llama model.hidden=512 model.heads=8 model.kv_heads=8 model.seq=1024 "
		"model.head_dim=64 model.ffn_hidden=1024 model.layers=2 model.layers_pattern=2*gdn "
		"model.gdn.key_heads=8 model.gdn.value_heads=16 model.gdn.key_dim=32 "
		"model.gdn.value_dim=64 parallel.tp=%d parallel.ep=1 parallel.sequence_parallel=false "
		"training.recompute=none",
		(int)tp);
	struct sc_config cfg;
	sc_config_init(&cfg);
	set_all(&cfg, "cluster.gpu=h100-sxm-80gb gpus=8 training.software=megatron-core "
		      "training.global_batch=8 training.precision=bf16");
	set_all(&cfg, text);
	req = *resolve_config(&cfg);
	sc_transformer_layer_params(&req, 0, &layer);
	ck_assert_double_eq_tol(layer.dense,
				h * (2 * keys + 2 * values + 2 * heads) + 4 * (2 * keys + values) +
					2 * heads + dv + values * h + 3 * h * 1024 / tp + 2 * h,
				1e-6);
	/* Both norms' outputs and sums are whole; the rest is this rank's. */
	ck_assert_double_eq_tol(sc_layer_bytes_of(&req, 1, 0).kept,
				2 * tokens *
					(4 * h + (2 * keys + 2 * values + 2 * heads) +
					 (2 * keys + values) + 2 * heads * dk + heads * 66 +
					 2 * values + 3 * 1024 / tp),
				1);
}

/* More of the layers with a state instead of all keys: no slower over a long sequence, as FLOP and
 * bytes grow with it once. */
TEST(linear_layers_grow_with_the_sequence_once)
{
	double last_ms = 0;

	for (int k = 0; k < 3; k++) {
		static const int SEQ[] = {8192, 32768, 131072};
		char text[160];
		struct sc_request req;
		double ms;

		snprintf(text, sizeof(text),
			 "model.layers=4 model.layers_pattern=4*gdn model.seq=%d "
			 "training.global_batch=8",
			 SEQ[k]);
		req = hybrid(text);
		ms = predict_request(&req, NULL)->iteration_ms;
		if (k > 0)
			ck_assert_msg(ms < 4.1 * last_ms, "%d tokens: %g ms after %g", SEQ[k], ms,
				      last_ms);
		last_ms = ms;
	}
}

/* Sharded weights are gathered a layer at a time, and the largest has to fit, however few there are
 * of it. */
TEST(gathered_layers_fit_the_largest)
{
	struct sc_prediction *out = sc_arena_calloc(&arena, 1, sizeof(*out));
	struct sc_predict_opts opts;
	struct sc_err err = {0};
	struct sc_config cfg;
	struct sc_request *req;
	double most = 0;

	sc_config_init(&cfg);
	set_all(&cfg, "model=models/nemotron-3-nano-30b-a3b.yaml cluster.gpu=h100-sxm-80gb gpus=64 "
		      "training.software=torchtitan training.global_batch=64 "
		      "training.precision=bf16 parallel.sharding=fsdp");
	req = resolve_config(&cfg);
	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++) {
		struct sc_params layer;

		if (!(sc_model_count(&req->config.model, 0, req->config.model.layers).of[kind] > 0))
			continue;
		sc_transformer_layer_params(req, kind, &layer);
		most = fmax(most, layer.dense + layer.expert);
	}
	sc_predict_opts_init(&opts);
	ck_assert_int_eq(sc_predict(predictor, req, &opts, out, &err), 0);
	ck_assert_double_ge(out->memory.buffers_gib * SC_BYTES_PER_GIB,
			    most * sc_dtype_bytes(SC_BF16));
}

/* What is published of shapes' parameters, 1e9 (expected.csv of the data beside), and multiply-adds
 * by hand: latents that all heads read, or grouped keys; the indexer's scores of all keys; a
 * state's updates. */
static const struct {
	const char *name;
	double params, active;
	double (*macs)(double s);
} SHAPES[] = {
	{"deepseek-v3.2", 671.877944064, 38.403822336, macs_of_v32},
	{"glm-5", 743.911218432, 41.784728832, macs_of_glm5},
	{"deepseek-v4-pro", 1572.997088222, 49.778967518, macs_of_v4},
	{"minimax-m3", 426.174572928, 25.962473856, macs_of_m3},
	/* By the names and shapes in its modeling_kimi.py; "48B-A3B" leaves the embedding out. */
	{"kimi-linear-48b-a3b", 49.12, 3.484, macs_of_kimi},
	{"minimax-text-01", 456.09, 48.4,
	 macs_of_text01}, /* 456 and, without embedding and head, 45.9 */
	{"qwen3.5-27b", 26.895998464, 26.895998464, macs_of_qwen27},
	{"qwen3.5-397b-a17b", 396.346350336, 17.349040896, NULL},
	{"qwen3.5-9b", 8.954, 8.954, NULL},
	{"gemma-3-27b", 27.01, 27.01, macs_of_gemma27},
	{"gemma-3-12b", 11.766, 11.766, NULL},
	{"gemma-4-26b-a4b", 25.233141790, 3.822530590, macs_of_gemma4},
	{"jamba-v0.1", 51.570323328, 12.113, macs_of_jamba}, /* by its files of weights */
	{"gpt-oss-20b", 20.914757184, 4.1875,
	 macs_of_gpt_oss}, /* by its file of weights, unquantized */
};

LOOP_TEST(shapes_have_published_counts, N_OF(SHAPES))
{
	for (int seq = 1024; seq <= 65536; seq *= 8) {
		struct sc_model_params params;
		struct sc_request req;
		struct sc_config cfg;
		char text[256];

		snprintf(text, sizeof(text),
			 "model=models/%s.yaml cluster.gpu=h100-sxm-80gb gpus=64 model.seq=%d "
			 "training.software=megatron-core training.global_batch=64",
			 SHAPES[_i].name, seq);
		sc_config_init(&cfg);
		set_all(&cfg, text);
		req = *resolve_config(&cfg);
		sc_transformer_model_params(&req, &params);
		ck_assert_double_eq_tol(params.total / (1e9 * SHAPES[_i].params), 1, 5e-4);
		ck_assert_double_eq_tol(params.active / (1e9 * SHAPES[_i].active), 1, 2e-3);
		if (SHAPES[_i].macs)
			ck_assert_double_eq_tol(sc_transformer_model_flop(&req, NULL) /
							(6 * seq * SHAPES[_i].macs(seq)),
						1, 5e-3);
	}
}

/* Keys that say of layers without a window what holds for all change nothing, also where the window
 * holds the sequence. */
LOOP_TEST(full_layers_with_the_same_heads_are_the_same, 2)
{
	static const char *const HEADS[] = {"", "model.full_head_dim=256 model.full_kv_heads=8"};
	double ms[2];

	for (int i = 0; i < 2; i++) {
		struct sc_config cfg;

		sc_config_init(&cfg);
		set_all(&cfg, "model=models/gemma-3-12b.yaml cluster.gpu=h100-sxm-80gb gpus=8 "
			      "training.software=megatron-core training.global_batch=8");
		set_all(&cfg, _i ? "model.seq=512" : "model.seq=8192");
		set_all(&cfg, HEADS[i]);
		ms[i] = predict_request(resolve_config(&cfg), NULL)->iteration_ms;
	}
	ck_assert_double_eq_tol(ms[1] / ms[0], 1, 1e-9);
}

/* More of what only layers without a window have is never faster. */
TEST(wider_heads_of_full_layers_take_longer)
{
	static const char *const WIDER[] = {"model.full_keys_as_values=true", "",
					    "model.full_head_dim=512",
					    "model.full_head_dim=512 model.full_kv_heads=16"};
	double last_ms = 0;

	for (int i = 0; i < N_OF(WIDER); i++) {
		struct sc_config cfg;
		double ms;

		sc_config_init(&cfg);
		set_all(&cfg, "model=models/gemma-3-12b.yaml cluster.gpu=h100-sxm-80gb gpus=8 "
			      "training.software=megatron-core training.global_batch=8");
		set_all(&cfg, WIDER[i]);
		ms = predict_request(resolve_config(&cfg), NULL)->iteration_ms;
		ck_assert_double_gt(ms, last_ms);
		last_ms = ms;
	}
}

static struct sc_request asked_request(const char *text)
{
	struct sc_config cfg;

	sc_config_init(&cfg);
	set_all(&cfg, text);
	return *resolve_config(&cfg);
}

#define MIXTURE_IN_MXFP8                                                                   \
	"model=models/qwen3-30b-a3b.yaml cluster.gpu=b200-sxm-180gb gpus=8 parallel.ep=8 " \
	"training.software=megatron-bridge-26.06 training.global_batch=64 "                \
	"training.precision=mxfp8 model.seq=16384 "

/* A rank has a logit of each of its heads, and attention that would multiply in fp8 does so no
 * more. */
TEST(sinks_are_a_logit_of_each_head)
{
	struct sc_request req[2] = {
		asked_request(MIXTURE_IN_MXFP8 "parallel.tp=2"),
		asked_request(MIXTURE_IN_MXFP8 "parallel.tp=2 model.attention_sinks=true")};
	struct sc_params layer[2];

	for (int i = 0; i < 2; i++)
		sc_transformer_layer_params(&req[i], 0, &layer[i]);
	ck_assert_double_eq_tol(layer[1].dense - layer[0].dense, 32.0 / 2, 1e-6);
	ck_assert_double_gt(predict_request(&req[1], NULL)->iteration_ms,
			    predict_request(&req[0], NULL)->iteration_ms * 1.001);
}

/* Channels split over ranks, and each has all of the narrow product's outputs, whose sums are
 * reduced. */
LOOP_TEST(a_rank_has_its_channels, 3)
{
	const double tp = (double)(1 << _i), h = 4096, w = 8192 / tp, narrow = 256 + 32;
	const double mamba = h * 2 * w + 5 * w + w * narrow + (256 + 1) * w + 17 * w + w * h;
	struct sc_params layer;
	struct sc_request req;
	char text[320];

	snprintf(text, sizeof(text),
		 "model=models/jamba-v0.1.yaml cluster.gpu=h100-sxm-80gb gpus=8 parallel.ep=1 "
		 "training.software=megatron-core training.global_batch=8 parallel.tp=%d",
		 (int)tp);
	req = asked_request(text);
	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
		if (sc_model_kind(&req.config.model, kind).mixer == SC_MIX_MAMBA1 &&
		    sc_model_kind(&req.config.model, kind).feed == SC_FEED_MLP) {
			sc_transformer_layer_params(&req, kind, &layer);
			ck_assert_double_eq_tol(layer.dense, mamba + 3 * h * 14336 / tp + 2 * h, 1);
			return;
		}
	ck_abort_msg("no layer of it");
}

/* A section of layers that the model does not have is told of, whatever of it stands there. */
TEST(sections_of_no_layer_are_told_of)
{
	static const char *const IDLE[][2] = {
		{"model.csa.heavy_compression=64", "model.csa.heavy_compression "},
		{"model.csa.output_groups=4", "model.csa.output_groups "},
		{"model.kda.key_dim=64", "model.kda.key_dim "},
		{"model.gdn.conv=4", "model.gdn.conv "},
		{"model.full_head_dim=512", "model.full_head_dim "},
		{"model.full_kv_heads=8", "model.full_kv_heads "},
		{"parallel.etp=1", "parallel.etp "},
	};

	for (int i = 0; i < N_OF(IDLE); i++) {
		const struct sc_warnings *told;
		struct sc_config cfg;
		bool found = false;

		sc_config_init(&cfg);
		set_all(&cfg, "model=models/llama3-8b.yaml cluster.gpu=h100-sxm-80gb gpus=8 "
			      "training.software=megatron-core training.global_batch=8");
		set_all(&cfg, IDLE[i][0]);
		told = &resolve_config(&cfg)->warnings;
		for (size_t k = 0; k < told->n; k++)
			found = found ||
				strncmp(told->text[k], IDLE[i][1], strlen(IDLE[i][1])) == 0;
		ck_assert_msg(found, "%s goes without a word", IDLE[i][0]);
	}
}

/* A layer that takes the keys of the one before is one without an indexer: less to hold and to do.
 */
TEST(shared_keys_cost_no_indexer)
{
	static const char *const PATTERNS[] = {"8*dsa", "4*(dsa,dsa_shared)", "dsa,7*dsa_shared"};
	const double index = 1536 * 64 * 128 + 7168 * (128 + 64) + 2 * 128;
	double last_ms = 1e30, last_params = 0;

	for (int i = 0; i < 3; i++) {
		struct sc_model_params params;
		struct sc_request *req;
		struct sc_config cfg;
		char text[400];
		double ms;

		sc_config_init(&cfg);
		snprintf(text, sizeof(text),
			 "model=models/deepseek-v3.2.yaml cluster.gpu=h100-sxm-80gb gpus=64 "
			 "model.layers=8 model.layers_pattern=%s training.software=megatron-core "
			 "training.global_batch=64 parallel.ep=64 training.precision=bf16",
			 PATTERNS[i]);
		set_all(&cfg, text);
		req = resolve_config(&cfg);
		sc_transformer_model_params(req, &params);
		ms = predict_request(req, NULL)->iteration_ms;
		ck_assert_double_lt(ms, last_ms);
		if (i > 0)
			ck_assert_double_eq_tol(last_params - params.total,
						(i == 1 ? 4 : 3) * index, 1e-3 * index);
		last_ms = ms;
		last_params = params.total;
	}
}

/* Attention to all keys is outgrown by attention to as many as before; what scores them is narrow.
 */
TEST(chosen_keys_grow_with_the_sequence_once)
{
	double ms[2][2];

	for (int sparse = 0; sparse < 2; sparse++)
		for (int k = 0; k < 2; k++) {
			struct sc_config cfg;
			char text[400];

			snprintf(
				text, sizeof(text),
				"model=models/deepseek-v3.2.yaml cluster.gpu=h100-sxm-80gb gpus=64 "
				"model.layers=4 model.layers_pattern=4*%s model.seq=%d "
				"training.software=megatron-core training.global_batch=64 "
				"training.precision=bf16 parallel.ep=64",
				sparse ? "dsa" : "attn", k ? 65536 : 16384);
			sc_config_init(&cfg);
			set_all(&cfg, text);
			ms[sparse][k] = predict_request(resolve_config(&cfg), NULL)->iteration_ms;
		}
	ck_assert_double_lt(ms[1][1] / ms[1][0], ms[0][1] / ms[0][0]);
}

/* Of 4096 tokens there are 1024 keys of four each, whichever number is asked for. */
TEST(no_more_keys_are_kept_than_there_are)
{
	double kept[2];

	for (int i = 0; i < 2; i++) {
		struct sc_config cfg;
		struct sc_request req;

		sc_config_init(&cfg);
		set_all(&cfg, "model=models/deepseek-v4-pro.yaml cluster.gpu=h100-sxm-80gb gpus=64 "
			      "training.software=megatron-core training.global_batch=64");
		set_all(&cfg, i ? "model.dsa.top_k=1024" : "model.dsa.top_k=8192");
		req = *resolve_config(&cfg);
		kept[i] = sc_layer_bytes_of(&req, 1, 0).kept + sc_layer_bytes_of(&req, 1, 1).kept;
	}
	ck_assert_double_eq_tol(kept[0] / kept[1], 1, 1e-12);
}

/* Counts of a layer of Kimi's on one of tp ranks: its narrow gates are whole on each. */
LOOP_TEST(a_rank_has_its_heads_and_all_narrow_gates, 4)
{
	const double tp = (double)(1 << _i), h = 512, w = 16 * 64 / tp, heads = 16 / tp;
	const double rank = _i % 2 ? 0 : 64;
	struct sc_params layer;
	struct sc_config cfg;
	char text[512];

	snprintf(
		text, sizeof(text),
		"model.family=llama model.hidden=512 model.heads=8 model.kv_heads=8 model.seq=1024 "
		"model.head_dim=64 model.ffn_hidden=1024 model.layers=2 model.layers_pattern=2*kda "
		"model.kda.value_heads=16 model.kda.key_dim=64 model.kda.gate_rank=%d parallel.tp=%d "
		"parallel.sequence_parallel=false",
		(int)rank, (int)tp);
	sc_config_init(&cfg);
	set_all(&cfg, "cluster.gpu=h100-sxm-80gb gpus=8 training.software=megatron-core "
		      "training.global_batch=8 training.precision=bf16");
	set_all(&cfg, text);
	sc_transformer_layer_params(resolve_config(&cfg), 0, &layer);
	ck_assert_double_eq_tol(layer.dense,
				h * (3 * w + heads + 64) + 64 * w + w /* biases of decays */ +
					(rank > 0 ? h * rank + rank * w : h * w) + 4 * 3 * w +
					heads + 64 + w * h + 3 * h * 1024 / tp + 2 * h,
				1e-6);
}

#define DIFFUSION                                                                  \
	"cluster.gpu=gb200 gpus=8 training.software=nemo training.precision=bf16 " \
	"training.global_batch=64 training.micro_batch=2 parallel.sequence_parallel=false "

static struct sc_request diffusion(const char *model, const char *more)
{
	struct sc_config cfg;

	sc_config_init(&cfg);
	set_all(&cfg, DIFFUSION);
	set_all(&cfg, model);
	set_all(&cfg, more);
	return *resolve_config(&cfg);
}

/* Matrices and biases as black-forest-labs/flux and Wan have them; and what is published: 11.89e9
 * and 14.29e9 by the files of weights, 1.42e9. */
TEST(parameters_of_diffusion_transformers_are_counted)
{
	const double h = 3072, f = 12288;
	const double attention = 4 * h * h + 4 * h + 2 * 128, feed = 2 * h * f + f + h;
	const double modulation = h * h + h;
	const double lead = 64 * h + 4096 * h + (256 + 768) * h + 2 * h * h + 6 * h;
	const double flux = 19 * 2 * (attention + feed + 6 * modulation) +
			    38 * (attention + feed + 3 * modulation) + lead + 2 * modulation +
			    64 * h + 64;
	static const struct {
		const char *model;
		double published;
	} models[] = {{"model=models/flux-1.yaml", 11.891e9},
		      {"model=models/wan-2.1-1.3b.yaml", 1.419e9},
		      {"model=models/wan-2.1-14b.yaml", 14.288e9}};

	for (size_t i = 0; i < N_OF(models); i++) {
		const struct sc_request req = diffusion(models[i].model, "");
		struct sc_model_params params;

		sc_transformer_model_params(&req, &params);
		ck_assert_double_eq_tol(params.total / models[i].published, 1, 0.001);
		if (i == 0)
			ck_assert_double_eq_tol(params.total, flux, 1);
	}
}

/* PyTorch's attention is a fused kernel, too. */
TEST(diffusion_runs_on_what_calls_sdpa)
{
	const struct sc_request req =
		diffusion("model=models/flux-1.yaml", "training.software=torchtitan");

	ck_assert_int_eq(req.config.training.attention, SC_ATT_SDPA);
}

/* Each token goes through its own stream's products, a sample's modulations are computed once: 20.3
 * TFLOP a sample of MLPerf's (NVIDIA's configs of Flux.1 in v5.1). */
TEST(flop_of_diffusion_transformers_are_those_of_the_streams)
{
	const struct sc_request req = diffusion("model=models/flux-1.yaml", "");
	const double h = 3072, s = 512, feed = 2 * 4 * h * h, attention = 4 * h * h + 2 * s * h;
	const double tokens = 57 * s * (attention + feed);
	const double once = (19 * 12 + 38 * 3 + 2) * h * h + (256 + 768) * h + 2 * h * h;
	const double ends = 256 * (2 * 64 + 4096) * h;
	const double flop = sc_transformer_model_flop(&req, NULL);

	ck_assert_double_eq_tol(flop / (6 * (tokens + once + ends)), 1, 1e-6);
	ck_assert_double_eq_tol(flop / 20.3e12, 1, 0.01);
}

/* Modulations are whole on each rank of a tensor-parallel group; of a layer's kept tokens each
 * stream has its half. */
LOOP_TEST(a_rank_of_flux_has_its_heads, 3)
{
	const double tp = (double)(1 << _i), h = 3072, tokens = 512;
	char text[64];
	struct sc_request req;

	snprintf(text, sizeof(text), "parallel.tp=%d", (int)tp);
	req = diffusion("model=models/flux-1.yaml", text);
	for (int kind = 0; kind < 2; kind++) { /* single layers are the most */
		const double streams = kind + 1, modulated = kind ? 6 : 3;
		struct sc_params layer;

		sc_transformer_layer_params(&req, kind, &layer);
		ck_assert_double_eq_tol(layer.dense,
					streams * (12 * h * h / tp + 7 * h / tp + 2 * h + 256 +
						   modulated * (h * h + h)),
					1);
		/* Queries, keys, values; those before their norm; what attention gives; before and
		 * behind the activation. Modulated norms, branches and sums are whole. */
		ck_assert_double_eq_tol(sc_layer_bytes_of(&req, 1, kind).kept /
						(2 * (tokens * (14 * h / tp + 3 * streams * h) +
						      streams * modulated * h / tp)),
					1, 0.001);
	}
}
