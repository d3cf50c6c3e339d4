/* Op lists: FLOP of a layer against closed formulas of every family, what recomputation, LoRA and
 * the splits change, and parameters of the shipped models against their published totals. */
#include "models/memory.h"
#include "predict/op_names.h"
#include "predict/transformer/transformer_memory.h"
#include "predict/transformer/transformer_ops.h"
#include "request_fixture.h"
#include "runner.h"

#define TOLERANCE 1e-9 /* relative: the same products, summed in another order */

static struct sc_fabric fabric;
static struct sc_block block;

static void set_up(void)
{
	requests_begin();
	memset(&block, 0, sizeof(block));
}

static void tear_down(void)
{
	sc_block_release(&block);
	requests_end();
}

/* Of one micro-batch of 2 samples, unless `overrides` say another; unfused attention, whose FLOP
 * count. */
static int graphs; /* of steps_of's environment, as host_speed */
static double host_speed = 1;

static struct sc_request *make_request(const char *model, const char *overrides)
{
	return request_of("cluster.gpu=h100-sxm-80gb cluster.gpus_per_node=8 "
			  "cluster.nics_per_node=8 cluster.nic_gbit_s=400 parallel.dp=1 "
			  "parallel.pp=1 parallel.tp=1 training.precision=bf16 "
			  "training.attention=unfused training.software=megatron-core "
			  "parallel.sequence_parallel=false training.global_batch=2 "
			  "training.micro_batch=2",
			  sc_arena_printf(&arena, "%s %s", model, overrides));
}

static const struct sc_block *steps_of(const struct sc_request *req, enum sc_block_id id)
{
	const struct sc_parallel *par = &req->config.parallel;
	int tp = (int)par->tp, cp = (int)par->cp, ep = (int)par->ep;
	struct sc_block_env env = {
		.device = &req->device,
		.request = req,
		.software = &req->software,
		.fabric = &fabric,
		.span = {[SC_COMM_TP] = {tp, 1, tp},
			 [SC_COMM_CP] = {cp, 1, cp},
			 [SC_COMM_EP] = {ep, 1, ep}},
		.slowdown = 1,
		.cuda_graphs = graphs,
		.attention_eff = 1,
		.gemm_speed = 1,
		.hbm_speed = 1,
		.link_speed = 1,
		.nic_speed = 1,
		.host_speed = host_speed,
	};
	struct sc_err err = {0};

	ck_assert_msg(sc_fabric_from_request(req, &fabric, &err) == 0, "%s", err.text);
	sc_transformer_block(&env, id, (double)req->config.training.micro_batch, &block);
	return &block;
}

/* Of its matrices. */
static double flop_of(const struct sc_request *req, enum sc_block_id id)
{
	const struct sc_block *b = steps_of(req, id);
	double sum = 0;

	for (size_t i = 0; i < b->steps.n; i++)
		if (b->steps.at[i].model != SC_OP_ATTENTION)
			sum += b->steps.at[i].flop;
	return sum;
}

/* Of the first step with that name. */
static double step_us(const struct sc_request *req, enum sc_block_id id, enum sc_op_name name)
{
	const struct sc_block *b = steps_of(req, id);

	for (size_t i = 0; i < b->steps.n; i++)
		if (b->steps.at[i].name == name)
			return b->steps.at[i].cost.work_us;
	return 0;
}

static int count(const struct sc_request *req, enum sc_block_id id, enum sc_op_name name)
{
	const struct sc_block *b = steps_of(req, id);
	int n = 0;

	for (size_t i = 0; i < b->steps.n; i++)
		n += b->steps.at[i].name == name;
	return n;
}

static void assert_near(double got, double want)
{
	ck_assert_msg(fabs(got - want) <= TOLERANCE * fabs(want), "got %.15g, want %.15g", got,
		      want);
}

#define SIZES " model.layers=6 model.seq=512 model.vocab=32768 model.hidden=1024 model.heads=16"
#define GPT "model.family=gpt" SIZES
#define LLAMA "model.family=llama model.kv_heads=8 model.ffn_hidden=2816" SIZES
#define MOE                                                                         \
	"model.family=moe model.kv_heads=8 model.ffn_hidden=2816 model.experts=16 " \
	"model.top_k=3 model.expert_ffn_hidden=768 model.dense_layers=1 "           \
	"model.shared_experts=2 model.head_dim=128" SIZES
#define MLA                                                                          \
	"model.family=moe-mla model.ffn_hidden=2816 model.experts=16 model.top_k=3 " \
	"model.expert_ffn_hidden=768 model.dense_layers=1 model.shared_experts=2 "   \
	"model.q_lora_rank=384 model.kv_lora_rank=256 model.head_dim=96 "            \
	"model.rope_head_dim=32 model.v_head_dim=64" SIZES
#define MLA_FULL_Q MLA " model.q_lora_rank=0"
enum { H = 1024, S = 512, HEADS = 16, N_TOKENS = 2 * S };

/* Multiply-adds a token and layer: projections of attention; scores and context; feed-forward. */
struct macs {
	const char *model;
	double linear, scores, mlp, dense_mlp;
};
static const struct macs FAMILIES[] = {
	{GPT, 4.0 * H *H, 2.0 * S *H, 8.0 * H *H, 0},
	{"model.family=opt" SIZES, 4.0 * H *H, 2.0 * S *H, 8.0 * H *H, 0},
	{"model.family=mpt" SIZES, 4.0 * H *H, 2.0 * S *H, 8.0 * H *H, 0},
	{"model.family=bert" SIZES, 4.0 * H *H, 2.0 * S *H, 8.0 * H *H, 0},
	/* 8 key-value heads of 64 */
	{LLAMA, H *(2.0 * H + 2 * 8 * 64), 2.0 * S *H, 3.0 * H * 2816, 0},
	/* heads of 128: attention is 2048 wide */
	{MOE, H *(2.0 * 2048 + 2 * 8 * 128), 2.0 * S * 2048, H *(16 + 3.0 * 768 * 5),
	 3.0 * H * 2816},
	{MLA, H * 384.0 + 384.0 * HEADS * 128 + H * 288.0 + 256.0 * HEADS * 160 + HEADS * 64.0 * H,
	 S *HEADS *(128.0 + 64), H *(16 + 3.0 * 768 * 5), 3.0 * H * 2816},
	{MLA_FULL_Q, 1.0 * H *HEADS * 128 + H * 288.0 + 256.0 * HEADS * 160 + HEADS * 64.0 * H,
	 S *HEADS *(128.0 + 64), H *(16 + 3.0 * 768 * 5), 3.0 * H * 2816},
};

static double layer_flop(const struct macs *m)
{
	return 2.0 * N_TOKENS * (m->linear + m->scores + m->mlp);
}

FIXTURE(set_up, tear_down)

LOOP_TEST(a_layer_has_the_flop_of_its_matrices, N_OF(FAMILIES))
{
	const struct macs *m = &FAMILIES[_i];
	const struct sc_request *req = make_request(m->model, "training.recompute=none");

	assert_near(flop_of(req, SC_BLOCK_LAYER_F), layer_flop(m));
	/* two gradients a product */
	assert_near(flop_of(req, SC_BLOCK_LAYER_B), 2 * layer_flop(m));
	if (m->dense_mlp > 0) {
		double dense = layer_flop(m) + 2.0 * N_TOKENS * (m->dense_mlp - m->mlp);

		assert_near(flop_of(req, SC_BLOCK_DENSE_F), dense);
		assert_near(flop_of(req, SC_BLOCK_DENSE_B), 2 * dense);
	}
}

/* Its state goes along all tokens: twice as many scans as one take longer, backward longer than
 * forward; and behind a convolution, which Mamba-2's one function runs again backward. */
LOOP_TEST(linear_attention_scans_its_tokens, 2)
{
	static const char *const NAMES[] = {"gdn", "mamba2"};
	double us[2][2];
	struct sc_request *req;

	for (int k = 0; k < 2; k++) {
		char text[256];

		snprintf(text, sizeof(text),
			 "training.recompute=none model.layers=4 model.layers_pattern=4*%s "
			 "model.%s.value_heads=16 model.%s.key_dim=128 model.seq=%d",
			 NAMES[_i], NAMES[_i], NAMES[_i], k ? 8192 : 4096);
		req = make_request(LLAMA, text);
		us[k][0] = step_us(req, SC_BLOCK_LAYER_F, SC_NAME_SCAN);
		us[k][1] = step_us(req, SC_BLOCK_LAYER_B, SC_NAME_SCAN_GRAD);
		ck_assert_double_gt(us[k][0], 0);
		ck_assert_double_gt(us[k][1], us[k][0]);
	}
	ck_assert_double_gt(us[1][0], 1.2 * us[0][0]);
	ck_assert_double_gt(us[1][1], 1.2 * us[0][1]);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_CONV), 1);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_CONV_GRAD), 1);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_CONV), _i);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_FLASH), 0);
}

#define FLUX                                                                                       \
	"model.family=dit model.layers=3 model.layers_pattern=2*single,1*double model.hidden=512 " \
	"model.heads=8 model.seq=256 model.dit.text_seq=64 training.attention=flash "              \
	"training.recompute=none "

/* Single layers are kind 0, as most; both streams of a double layer have products and gated sums of
 * their own, over their tokens, and join for one attention. */
TEST(streams_have_their_own_products)
{
	const struct sc_request *req = make_request(FLUX, "");
	const double tokens = 2 * 256, h = 512, once = 2;
	static const int DOUBLE[] = {SC_BLOCK_LAYER_F + SC_N_LAYER_BLOCKS,
				     SC_BLOCK_LAYER_B + SC_N_LAYER_BLOCKS};

	assert_near(flop_of(req, SC_BLOCK_LAYER_F), 2 * h * h * (12 * tokens + 3 * once));
	assert_near(flop_of(req, (enum sc_block_id)DOUBLE[0]),
		    2 * h * h * (12 * tokens + 12 * once));
	assert_near(flop_of(req, (enum sc_block_id)DOUBLE[1]),
		    4 * h * h * (12 * tokens + 12 * once));
	for (int i = 0; i < 2; i++) {
		const enum sc_block_id id = (enum sc_block_id)DOUBLE[i];

		ck_assert_int_eq(count(req, id, i ? SC_NAME_QKV_WGRAD : SC_NAME_QKV), 2);
		ck_assert_int_eq(count(req, id, i ? SC_NAME_FLASH_GRAD : SC_NAME_FLASH), 1);
		ck_assert_int_eq(count(req, id, SC_NAME_QKV_LAYOUT), 1);
		ck_assert_int_eq(count(req, id, i ? SC_NAME_GATED_ADD_GRAD : SC_NAME_GATED_ADD),
				 i ? 4 : 8);
	}
	for (int i = 0; i < 2; i++) { /* both streams' tokens are one sequence */
		struct sc_request *split =
			make_request(FLUX, "parallel.tp=2 parallel.sequence_parallel=true "
					   "training.precision=bf16");
		double kept = sc_layer_bytes_of(split, 2, i).kept;

		split->software.keeps_gathered = true;
		assert_near(sc_layer_bytes_of(split, 2, i).kept, kept + 2 * 2 * tokens * h / 2);
	}
	req = make_request(FLUX, "");
	/* 192 of a sample's tokens are patches */
	ck_assert_double_gt(step_us(req, (enum sc_block_id)DOUBLE[0], SC_NAME_GATED_ADD), 0);
	ck_assert_int_eq(count(req, SC_BLOCK_HEAD_F, SC_NAME_LOGITS), 0);
	assert_near(flop_of(req, SC_BLOCK_HEAD_F), 2 * h * (2 * h * once + 64 * 192 * 2));
	assert_near(flop_of(req, SC_BLOCK_EMBED_F),
		    2 * h * ((256 + h) * once + 64 * 192 * 2 + 4096 * 64 * 2));
	/* Nothing asks for gradients of patches, texts and times. */
	assert_near(flop_of(req, SC_BLOCK_EMBED_B),
		    2 * h * ((256 + 2 * h) * once + 64 * 192 * 2 + 4096 * 64 * 2));
}

/* Two branches are added, gradients are added to their buffer apart, and modulations stay out of
 * what is quantized. */
TEST(flux_is_run_as_nemo_runs_it)
{
	const char *mx =
		"cluster.gpu=b200-sxm-180gb training.precision=mxfp8 model.hidden=4096 model.heads=32";
	const struct sc_request *req = make_request(FLUX, "");
	double us[2];

	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_QKV_LAYOUT), 1);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_QKV_LAYOUT), 0);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_GRAD_ACCUMULATE), 1);
	ck_assert_int_eq(count(make_request(LLAMA, ""), SC_BLOCK_LAYER_B, SC_NAME_GRAD_ACCUMULATE),
			 0);
	/* The weights' casts come first: of 12 of 15 squares, and of 24 of 36. */
	for (int kind = 0; kind < 2; kind++)
		us[kind] = step_us(make_request(FLUX, mx),
				   (enum sc_block_id)(SC_BLOCK_LAYER_F + kind * SC_N_LAYER_BLOCKS),
				   SC_NAME_FP8_CAST);
	ck_assert_double_gt(us[1], 1.9 * us[0]);
	ck_assert_double_lt(us[1], 2.05 * us[0]);
}

/* Frozen, a layer has no gradients of modulations; a text beside the tokens is attended to by a
 * second attention. */
TEST(lora_of_flux_and_the_text_of_wan)
{
	const struct sc_request *lora = make_request(FLUX, "training.trainable=lora");
	const struct sc_request *wan = make_request(
		FLUX, "model.layers=1 model.layers_pattern=cross model.dit.text_seq=512");
	const double tokens = 2 * 256, h = 512, text = 2 * 512;

	ck_assert_int_eq(count(lora, SC_BLOCK_LAYER_F, SC_NAME_MODULATION), 1);
	ck_assert_int_eq(count(lora, SC_BLOCK_LAYER_B, SC_NAME_MODULATION_DGRAD), 0);
	ck_assert_int_eq(count(lora, SC_BLOCK_LAYER_B, SC_NAME_MODULATION_WGRAD), 0);
	ck_assert_int_eq(count(wan, SC_BLOCK_LAYER_F, SC_NAME_FLASH), 2);
	ck_assert_int_eq(count(wan, SC_BLOCK_LAYER_B, SC_NAME_FLASH_GRAD), 2);
	assert_near(flop_of(wan, SC_BLOCK_LAYER_F), 2 * h * h * (14 * tokens + 2 * text));
}

LOOP_TEST(fp8_changes_casts_not_flop, N_OF(FAMILIES))
{
	const struct macs *m = &FAMILIES[_i];
	const struct sc_request *req =
		make_request(m->model, "training.recompute=none training.precision=fp8");

	assert_near(flop_of(req, SC_BLOCK_LAYER_F), layer_flop(m));
	assert_near(flop_of(req, SC_BLOCK_LAYER_B), 2 * layer_flop(m));
	ck_assert_int_gt(count(req, SC_BLOCK_LAYER_F, SC_NAME_FP8_CAST), 0);
	req = make_request(m->model, "training.recompute=none");
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_FP8_CAST), 0);
}

/* Of each linear layer its input, backward its output's gradient; forward the weights, if trained.
 */
LOOP_TEST(every_input_of_an_fp8_product_is_cast, 3)
{
	static const struct {
		const char *model, *overrides;
		int forward, backward;
	} cases[] = {
		{LLAMA, "", 1 + 4, 4},
		{LLAMA, "training.trainable=lora", 4, 4},
		{MOE, "", 1 + 2 + 2 + 2, 2 + 2 + 2}, /* attention, experts, shared experts */
	};
	struct sc_request *req = make_request(cases[_i].model, cases[_i].overrides);

	req->config.training.precision = SC_P_FP8;
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_FP8_CAST), cases[_i].forward);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_FP8_CAST), cases[_i].backward);
}

/* Scales of blocks along k slow weight gradients, of which both operands have them, and no other
 * product; in bf16 none. */
TEST(scaled_blocks_slow_weight_gradients)
{
	static const enum sc_op_name slow[] = {SC_NAME_PROJ + 2, SC_NAME_EXPERT_UP + 2},
				     same[] = {SC_NAME_PROJ + 1, SC_NAME_EXPERT_UP + 1};
	const char *big = "model.hidden=8192 model.seq=4096 training.precision=fp8";
	double tensor[2], others[2];
	struct sc_request *req = make_request(MOE, big);

	req->config.training.fp8_recipe = SC_FP8_CURRENT;
	for (int i = 0; i < 2; i++) {
		tensor[i] = step_us(req, SC_BLOCK_LAYER_B, slow[i]);
		others[i] = step_us(req, SC_BLOCK_LAYER_B, same[i]);
	}
	for (int with = 0; with < 2; with++) {
		req->config.training.fp8_recipe = with ? SC_FP8_BLOCKWISE : SC_FP8_CURRENT;
		req->device.gemm.block_scale_loss = 0.5;
		for (int i = 0; i < 2; i++) {
			double us = step_us(req, SC_BLOCK_LAYER_B, slow[i]);

			ck_assert_double_gt(us, (with ? 1.2 : 1 - TOLERANCE) * tensor[i]);
			ck_assert_double_le(us, (with ? 1.5 : 1 + TOLERANCE) * tensor[i]);
			assert_near(step_us(req, SC_BLOCK_LAYER_B, same[i]), others[i]);
		}
	}
}

static double casts_us(struct sc_request *req, bool fused)
{
	const struct sc_block *b;
	double us = 0;

	req->software.fused_fp8_cast = fused;
	b = steps_of(req, SC_BLOCK_LAYER_F);
	for (size_t i = 0; i < b->steps.n; i++)
		if (b->steps.at[i].name == SC_NAME_FP8_CAST)
			us += b->steps.at[i].cost.work_us;
	return us;
}

/* With delayed scales casts may ride on what is before a product. */
TEST(casts_ride_on_what_is_before)
{
	struct sc_request *req =
		make_request(LLAMA, "training.precision=fp8 training.fp8_recipe=delayed");

	ck_assert_double_lt(casts_us(req, true), casts_us(req, false));
}

static const struct sc_step *find_step(const struct sc_block *b, enum sc_op_name name, int nth)
{
	for (size_t i = 0; i < b->steps.n; i++)
		if (b->steps.at[i].name == name && nth-- == 0)
			return &b->steps.at[i];
	ck_abort_msg("no such step");
	return NULL;
}

/* The gathering for the weight gradient runs beside the data gradient, not beside its input's cast.
 */
TEST(collectives_hide_behind_products_not_casts)
{
	struct sc_request *req = make_request(LLAMA, "parallel.tp=4 training.recompute=none "
						     "parallel.sequence_parallel=true");
	const struct sc_block *b = steps_of(req, SC_BLOCK_LAYER_B);

	ck_assert_int_eq(find_step(b, SC_NAME_TP_ALL_GATHER, 1)->hidden, 1);
	req->config.training.precision = SC_P_FP8;
	b = steps_of(req, SC_BLOCK_LAYER_B);
	ck_assert_int_eq(find_step(b, SC_NAME_TP_ALL_GATHER, 1)->hidden, 2);
	ck_assert_int_eq(find_step(b, SC_NAME_TP_REDUCE_SCATTER, 0)->hidden, 1);
}

LOOP_TEST(full_recomputation_runs_the_layer_again, N_OF(FAMILIES))
{
	const struct macs *m = &FAMILIES[_i];
	struct sc_request *req = make_request(m->model, "training.recompute=full");
	double dense_mlp = m->dense_mlp > 0 ? m->dense_mlp : m->mlp;
	double dense = layer_flop(m) + 2.0 * N_TOKENS * (dense_mlp - m->mlp);

	req->software.recompute_early_stop = false;
	assert_near(flop_of(req, SC_BLOCK_LAYER_F), layer_flop(m));
	assert_near(flop_of(req, SC_BLOCK_LAYER_B), 3 * layer_flop(m));
	/* or all but its last product */
	req->software.recompute_early_stop = true;
	dense = 3 * dense - 2.0 * N_TOKENS * H * (double)req->config.model.ffn_hidden;
	assert_near(flop_of(req, m->dense_mlp > 0 ? SC_BLOCK_DENSE_B : SC_BLOCK_LAYER_B), dense);
}

LOOP_TEST(selective_recomputation_runs_the_attention_again, N_OF(FAMILIES))
{
	const struct macs *m = &FAMILIES[_i];
	struct sc_request *req = make_request(m->model, "training.recompute=selective");

	req->software.selective = SC_SELECTIVE_ATTENTION;
	assert_near(flop_of(req, SC_BLOCK_LAYER_B), 2 * layer_flop(m) + 2.0 * N_TOKENS * m->scores);
}

/* Multiply-adds a token that a list of modules runs again, in a layer with experts and in one
 * without. */
static const struct {
	const char *list;
	double experts, dense;
} MODULES[] = {
	{"[core_attn]", S *HEADS *(128.0 + 64), S *HEADS *(128.0 + 64)},
	{"[layernorm]", 0, 0},
	{"[mla_up_proj]", 384.0 * HEADS * 128 + 256.0 * HEADS * 160,
	 384.0 * HEADS * 128 + 256.0 * HEADS * 160},
	{"[mlp]", 0, 3.0 * H * 2816},
	{"[moe]", H *(16 + 3.0 * 768 * 5), 0},
	{"[moe_act]", 0, 0},
	{"[layernorm,mlp_act,dropout]", 0, 0},
	{"[shared_experts,mlp]", H * 3.0 * 768 * 2, 3.0 * H * 2816},
};

LOOP_TEST(a_list_of_modules_runs_again, N_OF(MODULES))
{
	const struct macs *m = &FAMILIES[6];
	struct sc_request *req = make_request(
		MLA, sc_arena_printf(&arena, "training.recompute=%s", MODULES[_i].list));
	double dense = layer_flop(m) + 2.0 * N_TOKENS * (m->dense_mlp - m->mlp);

	assert_near(flop_of(req, SC_BLOCK_LAYER_B),
		    2 * layer_flop(m) + 2.0 * N_TOKENS * MODULES[_i].experts);
	assert_near(flop_of(req, SC_BLOCK_DENSE_B), 2 * dense + 2.0 * N_TOKENS * MODULES[_i].dense);
}

/* Two of six layers: a block is their mean. */
TEST(some_layers_run_again)
{
	struct sc_request *req =
		make_request(GPT, "training.recompute=full training.recompute_layers=2");

	req->software.recompute_early_stop = false;
	assert_near(flop_of(req, SC_BLOCK_LAYER_B), (2 + 2.0 / 6) * layer_flop(&FAMILIES[0]));
}

TEST(a_window_shortens_attention)
{
	static const char *const ARGS[] = {
		"model.seq=8192 training.attention=flash",
		"model.seq=8192 training.attention=flash model.sliding_window=128 "
		"model.full_attention_every=2",
		"model.seq=8192 training.attention=flash model.sliding_window=128",
		"model.seq=8192 training.attention=flash model.sliding_window=8192",
	};
	double us[N_OF(ARGS)];

	for (int i = 0; i < N_OF(ARGS); i++) {
		/* the second: of two kinds of layers the one without a window */
		int kind = i == 1 ? SC_LAYER_FULL : 0;
		const struct sc_block *b =
			steps_of(make_request(LLAMA, ARGS[i]),
				 (enum sc_block_id)sc_block_of(SC_BLOCK_LAYER_F, kind));

		us[i] = 0;
		for (size_t k = 0; k < b->steps.n; k++)
			if (b->steps.at[k].name == SC_NAME_FLASH)
				us[i] += b->steps.at[k].cost.work_us;
	}
	ck_assert(us[2] < us[0] / 4);
	ck_assert(fabs(us[1] - us[0]) < 1e-9 * us[0]);
	ck_assert(fabs(us[3] - us[0]) < 1e-9 * us[0]);
}

/* Of four ranks that of the middle, with most to do: its queries' tokens lie together, and it
 * passes through those before. */
LOOP_TEST(a_ring_reads_within_its_window, 5)
{
	static const int WINDOWS[] = {1, 500, 3000, 4500, 8192};
	const double window = WINDOWS[_i], first = 3 * 1024, end = 5 * 1024;
	const double full = fmin(fmax(window - first, 0), end - first); /* queries that reach all */
	const double area = full * (first + full / 2) + (end - first - full) * fmin(window, end);
	double flop = 0;
	const struct sc_block *b = steps_of(
		make_request(LLAMA, sc_arena_printf(&arena,
						    "model.seq=8192 training.attention=flash "
						    "parallel.cp=4 model.sliding_window=%d",
						    WINDOWS[_i])),
		SC_BLOCK_LAYER_F);

	for (size_t k = 0; k < b->steps.n; k++)
		if (b->steps.at[k].name == SC_NAME_FLASH)
			flop += b->steps.at[k].flop;
	ck_assert_double_eq_tol(flop / (4 * 2 * 1024), area, 1e-9 * area);
}

/* Experts with biases: a kernel more each way, for rows of all experts. */
TEST(biases_of_experts_are_weighed)
{
	struct sc_request *req = make_request(MOE, "model.biases=true");

	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_EXPERT_BIAS), 1);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_EXPERT_BIAS), 1);
	ck_assert_int_eq(count(make_request(MOE, "training.micro_batch=2"), SC_BLOCK_LAYER_F,
			       SC_NAME_EXPERT_BIAS),
			 0);
}

/* Queries and keys, a kernel each, both ways. */
TEST(heads_are_normed_where_the_model_says_so)
{
	static const struct {
		enum sc_block_id block;
		enum sc_op_name name;
	} CASES[] = {{SC_BLOCK_LAYER_F, SC_NAME_NORM}, {SC_BLOCK_LAYER_B, SC_NAME_NORM_GRAD}};
	const struct sc_request *plain = make_request(LLAMA, "training.recompute=none");
	const struct sc_request *normed =
		make_request(LLAMA, "training.recompute=none model.qk_norm=true");

	for (int i = 0; i < N_OF(CASES); i++)
		ck_assert_int_eq(count(normed, CASES[i].block, CASES[i].name),
				 count(plain, CASES[i].block, CASES[i].name) + 2);
	ck_assert(sc_layer_bytes_of(normed, 2, SC_LAYER_DENSE).kept >
		  sc_layer_bytes_of(plain, 2, SC_LAYER_DENSE).kept);
}

TEST(latent_heads_are_joined)
{
	static const enum sc_block_id BLOCKS[] = {SC_BLOCK_LAYER_F, SC_BLOCK_LAYER_B};
	const char *flash = "training.recompute=none training.attention=flash";
	struct sc_request *req = make_request(MLA, flash);

	for (int i = 0; i < N_OF(BLOCKS); i++)
		ck_assert_int_eq(count(req, BLOCKS[i], SC_NAME_QKV_LAYOUT), 1);
	ck_assert_int_eq(count(make_request(LLAMA, flash), SC_BLOCK_LAYER_F, SC_NAME_QKV_LAYOUT),
			 0);
}

/* The GPU waits until the host is ahead again: not longer than it takes for all launches, and as
 * much longer as the host is slower. */
TEST(experts_wait_for_their_counts_as_long_as_the_host_takes)
{
	struct sc_request *req = make_request(MOE, "training.micro_batch=1");
	double launches_us = 0, once, twice;
	const struct sc_block *b;

	req->software.host_sync_us = 50;
	req->software.host_expert_us = 1e4; /* no kernel is as long */
	b = steps_of(req, SC_BLOCK_LAYER_F);
	for (size_t i = 0; i < b->steps.n; i++)
		launches_us += b->steps.at[i].host_us;
	once = step_us(req, SC_BLOCK_LAYER_F, SC_NAME_EXPERTS_SYNC);
	ck_assert(once > 2 * 16 * 1e4 && once < launches_us + 50);
	host_speed = 0.5;
	twice = step_us(req, SC_BLOCK_LAYER_F, SC_NAME_EXPERTS_SYNC);
	host_speed = 1;
	ck_assert(fabs(twice / once - 2) < 0.02);
}

TEST(context_parallel_ranks_exchange_heads)
{
	struct sc_request *req = make_request(LLAMA, "parallel.cp=4 training.attention=flash "
						     "training.trainable=lora");

	req->software.lora_recipe = true;
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_HEADS_ALL_TO_ALL), 2);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_HEADS_ALL_TO_ALL), 2);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_QKV_LAYOUT), 2);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_RING_SEND_RECV), 0);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_FLASH), 1);
	req->config.model.kv_heads = 2; /* they do not divide */
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_RING_SEND_RECV), 3);
}

TEST(per_op_recomputation_runs_every_second_product_again)
{
	struct sc_request *req =
		make_request(LLAMA, "training.recompute=selective training.attention=flash");
	double none, keys = 8 * 64.0 * H, proj = 1.0 * H * H, gate = 2816.0 * H;

	req->software.selective = SC_SELECTIVE_OPS;
	none = flop_of(make_request(LLAMA, "training.recompute=none training.attention=flash"),
		       SC_BLOCK_LAYER_B);
	assert_near(flop_of(req, SC_BLOCK_LAYER_B), none + 2.0 * N_TOKENS * (keys + proj + gate));
}

TEST(per_op_recomputation_runs_experts_again)
{
	struct sc_request *req =
		make_request(MOE, "training.recompute=selective training.attention=flash");
	double keys = 8 * 128.0 * H, proj = 2048.0 * H, none, dense;

	req->software.selective = SC_SELECTIVE_OPS;
	req->config.training.recompute = SC_RECOMPUTE_NONE;
	none = flop_of(req, SC_BLOCK_LAYER_B);
	dense = flop_of(req, SC_BLOCK_DENSE_B);
	req->config.training.recompute = SC_RECOMPUTE_SELECTIVE;
	assert_near(flop_of(req, SC_BLOCK_LAYER_B),
		    none + 2.0 * N_TOKENS * (keys + proj + FAMILIES[5].mlp));
	assert_near(flop_of(req, SC_BLOCK_DENSE_B),
		    dense + 2.0 * N_TOKENS * (keys + proj + 2816.0 * H));
}

LOOP_TEST(lora_has_no_weight_gradients, N_OF(FAMILIES))
{
	static const enum sc_op_name WGRADS[] = {
		SC_NAME_QKV_WGRAD,       SC_NAME_Q_UP_WGRAD,        SC_NAME_KV_DOWN_WGRAD,
		SC_NAME_KV_UP_WGRAD,     SC_NAME_PROJ_WGRAD,        SC_NAME_MLP_UP_WGRAD,
		SC_NAME_Q_DOWN_WGRAD,    SC_NAME_MLP_DOWN_WGRAD,    SC_NAME_ROUTER_WGRAD,
		SC_NAME_EXPERT_UP_WGRAD, SC_NAME_EXPERT_DOWN_WGRAD,
	};
	const struct macs *m = &FAMILIES[_i];
	const struct sc_request *req =
		make_request(m->model, "training.recompute=none training.trainable=lora "
				       "training.lora_rank=16");
	int n = 0;

	for (int i = 0; i < N_OF(WGRADS); i++)
		n += count(req, SC_BLOCK_LAYER_B, WGRADS[i]);
	ck_assert_int_eq(n, 0);
	ck_assert_int_gt(count(req, SC_BLOCK_LAYER_F, SC_NAME_ADAPTER), 0);
	/* all of attention's gradients, half of the others', and the adapters */
	ck_assert(flop_of(req, SC_BLOCK_LAYER_B) > layer_flop(m) + 2.0 * N_TOKENS * m->scores);
	ck_assert(flop_of(req, SC_BLOCK_LAYER_B) < 2 * layer_flop(m));
}

static const struct {
	const char *targets;
	double widths; /* inputs and outputs of the layers with adapters */
} ADAPTERS[] = {
	{"training.lora_targets=attention", (H + H + 2 * 8 * 64) + (H + H)},
	{"training.lora_targets=all", (H + H + 2 * 8 * 64) + (H + H) + (H + 2 * 2816) + (2816 + H)},
};

LOOP_TEST(adapters_cost_rank_times_widths, N_OF(ADAPTERS))
{
	struct sc_request *req = make_request(
		LLAMA, sc_arena_printf(&arena,
				       "training.recompute=none training.trainable=lora "
				       "training.lora_rank=16 %s",
				       ADAPTERS[_i].targets));
	const struct macs *m = &FAMILIES[4];
	double adapters = 2.0 * N_TOKENS * 16 * ADAPTERS[_i].widths;
	struct sc_params params;

	assert_near(flop_of(req, SC_BLOCK_LAYER_F), layer_flop(m) + adapters);
	assert_near(flop_of(req, SC_BLOCK_LAYER_B),
		    layer_flop(m) + 2.0 * N_TOKENS * m->scores + 2 * adapters);
	sc_transformer_layer_params(req, 0, &params);
	assert_near(params.trainable, 16 * ADAPTERS[_i].widths);
	assert_near(params.dense, m->linear + m->mlp + 2 * H + params.trainable);
}

static const char *const SPLITS[] = {
	"parallel.tp=2",
	"parallel.tp=8",
	"parallel.cp=4",
	"parallel.tp=4 parallel.cp=2",
	"parallel.tp=2 parallel.sequence_parallel=true",
	"parallel.tp=4 parallel.cp=2 parallel.sequence_parallel=true",
	"parallel.tp=4 parallel.sequence_parallel=true parallel.tp_overlap=true",
};
/* What every tensor-parallel rank computes: the router, without sequence parallelism; the way down
 * to the latents. */
static double replicated_macs(const struct sc_request *req)
{
	const struct sc_model *m = &req->config.model;
	double macs = 0;

	if (sc_model_is_moe(m) && !req->config.parallel.sequence_parallel)
		macs += H * (double)m->experts;
	if (sc_model_is_mla(m))
		macs += H * (double)(m->q_lora_rank + m->kv_lora_rank + m->rope_head_dim);
	return macs;
}

LOOP_TEST(splits_divide_the_flop, N_OF(FAMILIES) * N_OF(SPLITS))
{
	const struct macs *m = &FAMILIES[_i / N_OF(SPLITS)];
	const struct sc_request *req =
		make_request(m->model, sc_arena_printf(&arena, "training.recompute=full %s",
						       SPLITS[_i % N_OF(SPLITS)]));
	double tp = (double)req->config.parallel.tp, cp = (double)req->config.parallel.cp;
	double once_more = 2.0 * N_TOKENS * (tp - 1) * replicated_macs(req);

	assert_near(tp * cp * flop_of(req, SC_BLOCK_LAYER_F), layer_flop(m) + once_more);
	if (!req->software.recompute_early_stop)
		assert_near(tp * cp * flop_of(req, SC_BLOCK_LAYER_B),
			    3 * (layer_flop(m) + once_more));
}

TEST(fewer_key_value_heads_than_ranks_are_copied)
{
	const struct sc_request *req =
		make_request(LLAMA, "parallel.tp=16 parallel.dp=1 training.recompute=none");
	double copied = 2.0 * N_TOKENS * H * 2 * 8 * 64; /* 8 heads on 16 ranks */

	assert_near(16 * flop_of(req, SC_BLOCK_LAYER_F), layer_flop(&FAMILIES[4]) + copied);
}

TEST(expert_ranks_share_experts_not_tokens)
{
	static const char *const ep[] = {"parallel.dp=8 parallel.ep=1 training.global_batch=16",
					 "parallel.dp=8 parallel.ep=8 training.global_batch=16"};

	for (int i = 0; i < 2; i++) {
		const struct sc_request *req = make_request(MOE, ep[i]);
		struct sc_params params;

		assert_near(flop_of(req, SC_BLOCK_LAYER_F), layer_flop(&FAMILIES[5]));
		sc_transformer_layer_params(req, 0, &params);
		assert_near(params.expert, (i ? 2 : 16) * 3.0 * 768 * H);
		ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_DISPATCH), i);
		ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_COMBINE), i);
	}
}

/* Tensor-parallel ranks have all tokens, or a part of the sequence each. */
LOOP_TEST(tensor_ranks_of_experts_exchange_what_they_lack, 2)
{
	const struct sc_request *req =
		make_request(MOE " model.shared_experts=0",
			     _i ? "parallel.tp=4 parallel.sequence_parallel=true"
				: "parallel.tp=4 parallel.sequence_parallel=false");
	static const enum sc_block_id BLOCKS[] = {SC_BLOCK_LAYER_F, SC_BLOCK_LAYER_B};

	for (int i = 0; i < 2; i++) { /* of attention and of the experts */
		int regathered = i;   /* attention's input, for its weight gradient */

		ck_assert_int_eq(count(req, BLOCKS[i], SC_NAME_TP_ALL_REDUCE), _i ? 0 : 2);
		ck_assert_int_eq(count(req, BLOCKS[i], SC_NAME_TP_REDUCE_SCATTER), _i ? 2 : 0);
		ck_assert_int_eq(count(req, BLOCKS[i], SC_NAME_TP_ALL_GATHER),
				 _i ? 2 + regathered : 0);
	}
}

TEST(imbalance_is_paid_by_the_routed_experts)
{
	const struct sc_request *req = make_request(MOE, "training.expert_imbalance=1.5");

	assert_near(flop_of(req, SC_BLOCK_LAYER_F),
		    layer_flop(&FAMILIES[5]) + 2.0 * N_TOKENS * 0.5 * 3 * 3 * 768 * H);
}

static double attention_flop(const char *more)
{
	const struct sc_request *req =
		make_request(LLAMA, sc_arena_printf(&arena, "training.recompute=none %s", more));
	const struct sc_block *b = steps_of(req, SC_BLOCK_LAYER_B);
	double sum = 0;

	for (size_t i = 0; i < b->steps.n; i++)
		if (b->steps.at[i].model == SC_OP_ATTENTION)
			sum += b->steps.at[i].flop;
	return sum;
}

/* Four documents in a sample have a quarter of its scores, on one rank, in a ring and by heads; all
 * else is as it was. */
TEST(documents_attend_within_their_own)
{
	static const char *const split[] = {"parallel.cp=1", "parallel.cp=4",
					    "parallel.cp=4 training.trainable=lora "
					    "training.software=nemo"};

	for (int i = 0; i < N_OF(split); i++) {
		const char *flash =
			sc_arena_printf(&arena, "training.attention=flash %s", split[i]);
		double whole = attention_flop(flash), quarter, same;

		quarter = attention_flop(
			sc_arena_printf(&arena, "%s training.document_tokens=128", flash));
		same = attention_flop(
			sc_arena_printf(&arena, "%s training.document_tokens=9999", flash));
		assert_near(quarter, whole / 4);
		assert_near(same, whole);
	}
	assert_near(flop_of(make_request(LLAMA, "training.attention=flash "
						"training.document_tokens=128"),
			    SC_BLOCK_LAYER_F),
		    flop_of(make_request(LLAMA, "training.attention=flash"), SC_BLOCK_LAYER_F));
}

/* A token of a document takes the FLOP of one of a sample as long: a rate of documents is not above
 * the GPU's peak. */
LOOP_TEST(documents_take_the_flop_of_samples_as_long, 2)
{
	const char *window = _i ? "model.sliding_window=1024 model.seq" : "model.seq";
	double packed, alone, packed_causal, alone_causal;

	packed = sc_transformer_model_flop(
		make_request(LLAMA, sc_arena_printf(&arena,
						    "%s=65536 training.attention=flash "
						    "training.document_tokens=2048",
						    window)),
		&packed_causal);
	alone = sc_transformer_model_flop(
		make_request(LLAMA,
			     sc_arena_printf(&arena, "%s=2048 training.attention=flash", window)),
		&alone_causal);
	assert_near(packed, 32 * alone);
	assert_near(packed_causal, 32 * alone_causal);
}

/* Keys and values go round; backward, their gradients go on to where they belong. */
LOOP_TEST(context_parallel_attention_is_a_ring, N_OF(FAMILIES))
{
	const struct sc_request *req =
		make_request(FAMILIES[_i].model, "parallel.cp=4 training.attention=flash "
						 "training.recompute=none");

	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_FLASH), 4);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_RING_SEND_RECV), 3);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_FLASH_GRAD), 4);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_RING_SEND_RECV), 4);
}

/* First keys and values alone, last their gradients alone, both between. */
TEST(both_directions_of_a_ring_travel_as_far)
{
	const struct sc_request *req = make_request(LLAMA, "parallel.cp=4 training.attention=flash "
							   "training.recompute=none");
	const struct sc_block *b = steps_of(req, SC_BLOCK_LAYER_B);
	double us[4];

	for (int i = 0; i < 4; i++) {
		const struct sc_step *step = find_step(b, SC_NAME_RING_SEND_RECV, i);

		us[i] = step->cost.work_us;
		ck_assert_int_eq(step->hidden, 1);
	}
	assert_near(us[0], us[3]);
	assert_near(us[1], us[2]);
	ck_assert(us[1] > 1.5 * us[0]);
	/* unfused attention has nothing to hide them behind */
	req = make_request(LLAMA, "parallel.cp=4 training.recompute=none");
	b = steps_of(req, SC_BLOCK_LAYER_F);
	ck_assert_int_eq(find_step(b, SC_NAME_RING_SEND_RECV, 2)->hidden, 0);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_RING_SEND_RECV), 4);
}

/* Passes over as many columns as outputs have, keys and values having as many together, over a
 * norm's three: of four steps one is copied and three are added, 2 + 3 x 3, and keys and values
 * copied, 2; backward the same, and at each step gradients of keys and values are copied, and
 * added, too. */
TEST(what_steps_of_a_ring_leave_is_joined)
{
	const struct sc_request *req =
		make_request(LLAMA " model.seq=262144", "parallel.cp=4 training.attention=flash "
							"training.recompute=none");
	const double norm = step_us(req, SC_BLOCK_LAYER_F, SC_NAME_NORM);

	ck_assert_double_eq_tol(step_us(req, SC_BLOCK_LAYER_F, SC_NAME_RING_JOIN) / norm, 13 / 3.0,
				0.03);
	ck_assert_double_eq_tol(step_us(req, SC_BLOCK_LAYER_B, SC_NAME_RING_JOIN) / norm, 32 / 3.0,
				0.03);
	req = make_request(LLAMA, "training.attention=flash training.recompute=none");
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_RING_JOIN), 0);
}

/* Of a ring's four ranks on a node only one sends out of it; a second ring shares its one NIC. */
TEST(a_ring_leaves_a_node_once)
{
	static const double PEERS[] = {1, 4, 8};
	const struct sc_request *req = make_request(
		LLAMA, "parallel.dp=8 training.global_batch=16 cluster.gpus_per_node=4 "
		       "cluster.nics_per_node=1");
	const struct sc_block_comm comm = {
		SC_NAME_RING_SEND_RECV, SC_COMM_CP, {SC_SEND_RECV, 1e8, SC_BF16}, 0, 0, 0, 0};
	struct sc_block_env env = {.device = &req->device,
				   .request = req,
				   .software = &req->software,
				   .fabric = &fabric,
				   .span = {[SC_COMM_CP] = {8, 2, 4}},
				   .link_speed = 1,
				   .nic_speed = 1,
				   .host_speed = 1};
	struct sc_err err = {0};
	double us[3];

	ck_assert_int_eq(sc_fabric_from_request(req, &fabric, &err), 0);
	for (int i = 0; i < 3; i++) {
		env.axis_node_peers[SC_COMM_CP] = PEERS[i];
		sc_block_add_comm(&block, &env, &comm);
		us[i] = block.steps.at[i].cost.work_us;
	}
	assert_near(us[1], us[0]);
	ck_assert(us[2] > 1.5 * us[1]);
}

/* Kernels that send a token once to a node feed a NIC of 400 Gbit/s and no more; NCCL's exchange
 * all of a faster one. */
TEST(dispatch_kernels_feed_no_faster_nics)
{
	double us[2][2];

	for (int fast = 0; fast < 2; fast++)
		for (int once = 0; once < 2; once++) {
			const struct sc_request *req = make_request(
				LLAMA,
				fast ? "cluster.gpus_per_node=1 parallel.dp=2 cluster.nics_per_node=1 "
				       "cluster.nic_gbit_s=800"
				     : "cluster.gpus_per_node=1 parallel.dp=2 cluster.nics_per_node=1");
			const struct sc_block_comm comm = {SC_NAME_EXCHANGE,
							   SC_COMM_EP,
							   {SC_ALL_TO_ALL, 1e9, SC_BF16},
							   0,
							   once ? 5e8 : 0,
							   0,
							   0};
			struct sc_block_env env = {.device = &req->device,
						   .request = req,
						   .software = &req->software,
						   .fabric = &fabric,
						   .span = {[SC_COMM_EP] = {2, 2, 1}},
						   .axis_node_peers = {[SC_COMM_EP] = 1},
						   .link_speed = 1,
						   .nic_speed = 1,
						   .host_speed = 1};
			struct sc_err err = {0};

			ck_assert_int_eq(sc_fabric_from_request(req, &fabric, &err), 0);
			sc_block_add_comm(&block, &env, &comm);
			us[fast][once] = block.steps.at[block.steps.n - 1].cost.work_us;
		}
	assert_near(us[1][1], us[0][1]);
	assert_near(us[1][0], us[0][0] / 2);
}

/* Over links of one node they are slower than NCCL. */
TEST(dispatch_kernels_are_slower_over_links)
{
	const struct sc_request *req = make_request(LLAMA, "");
	struct sc_block_comm comm = {
		SC_NAME_EXCHANGE, SC_COMM_EP, {SC_ALL_TO_ALL, 1e9, SC_BF16}, 0, 0, 0, 0};
	struct sc_block_env env = {.device = &req->device,
				   .request = req,
				   .software = &req->software,
				   .fabric = &fabric,
				   .span = {[SC_COMM_EP] = {8, 1, 8}},
				   .link_speed = 1,
				   .nic_speed = 1,
				   .host_speed = 1};
	struct sc_err err = {0};
	double us[2];

	ck_assert_int_eq(sc_fabric_from_request(req, &fabric, &err), 0);
	for (int once = 0; once < 2; once++) {
		comm.node_bytes = once * 1e9;
		sc_block_add_comm(&block, &env, &comm);
		us[once] = block.steps.at[block.steps.n - 1].cost.work_us;
	}
	ck_assert_double_eq_tol(us[0] / us[1], 0.87, 0.001);
}

/* A collective of four ranks waits for three others, on one node or on four; of more than eight for
 * seven. */
TEST(collectives_wait_for_the_hosts_of_all)
{
	static const struct sc_span SPANS[] = {{2, 1, 2}, {4, 1, 4}, {4, 4, 1}, {16, 2, 8}};
	struct sc_request *req = make_request(GPT, "");
	struct sc_block_env env = {.device = &req->device,
				   .request = req,
				   .software = &req->software,
				   .fabric = &fabric,
				   .link_speed = 1,
				   .nic_speed = 1,
				   .host_speed = 1};
	const struct sc_block_comm comm = {
		SC_NAME_RING_SEND_RECV, SC_COMM_TP, {SC_ALL_REDUCE, 1e6, SC_BF16}, 0, 0, 0, 0};
	struct sc_err err = {0};
	double own_us[4];

	req->software.comm_host_us = 100;
	ck_assert_int_eq(sc_fabric_from_request(req, &fabric, &err), 0);
	for (int i = 0; i < 4; i++) {
		env.span[SC_COMM_TP] = SPANS[i];
		sc_block_add_comm(&block, &env, &comm);
		own_us[i] = block.steps.at[i].host_us - req->device.host.launch_us;
	}
	ck_assert_double_eq_tol(own_us[0], 100, 0.1);
	ck_assert_double_eq_tol(own_us[1], 300, 0.1);
	ck_assert_double_eq_tol(own_us[2], 300, 0.1);
	ck_assert_double_eq_tol(own_us[3], 700, 0.1);
}

/* Threads of the network without cores of their own: two turns a hop between nodes; of every rank
 * where stages send over it and a kernel waits for the collective. */
TEST(collectives_wait_for_threads_of_the_network)
{
	static const struct {
		struct sc_span span;
		enum sc_collective kind;
		bool apart;
		int n_hidden;
		double gpu_turns, host_turns;
	} CASES[] = {{{8, 1, 8}, SC_ALL_GATHER, false, 0, 0, 0},
		     {{8, 1, 8}, SC_ALL_GATHER, true, 0, 0, 8},
		     {{8, 1, 8}, SC_ALL_GATHER, true, 1, 0, 0},
		     {{16, 2, 8}, SC_REDUCE_SCATTER, false, 0, 2, 0},
		     {{16, 2, 8}, SC_ALL_REDUCE, false, 0, 4, 0},
		     {{32, 4, 8}, SC_ALL_GATHER, true, 0, 6, 32}};
	struct sc_request *req = make_request(GPT, "");
	struct sc_block_env env = {.device = &req->device,
				   .request = req,
				   .software = &req->software,
				   .fabric = &fabric,
				   .link_speed = 1,
				   .nic_speed = 1,
				   .host_speed = 1};
	struct sc_err err = {0};

	ck_assert_int_eq(sc_fabric_from_request(req, &fabric, &err), 0);
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		const struct sc_block_comm comm = {SC_NAME_RING_SEND_RECV,
						   SC_COMM_TP,
						   {CASES[i].kind, 1e6, SC_BF16},
						   CASES[i].n_hidden,
						   0,
						   0,
						   0};
		double gpu_us[2], host_us[2];

		env.span[SC_COMM_TP] = CASES[i].span;
		env.stages_apart = CASES[i].apart;
		for (int with = 0; with < 2; with++) {
			env.progress_us = 100 * with;
			sc_block_add_comm(&block, &env, &comm);
			gpu_us[with] = sc_cost_alone_us(&block.steps.at[block.steps.n - 1].cost);
			host_us[with] = block.steps.at[block.steps.n - 1].host_us;
		}
		ck_assert_double_eq_tol(gpu_us[1] - gpu_us[0], 100 * CASES[i].gpu_turns, 0.1);
		ck_assert_double_eq_tol(host_us[1] - host_us[0], 100 * CASES[i].host_turns, 0.1);
	}
}

/* Under autocast a gradient becomes fp32; elsewhere it is only added to those of micro-batches
 * before. */
TEST(gradients_of_the_output_layer_are_accumulated_too)
{
	struct sc_request *req = make_request(LLAMA, "training.software=hf-pytorch");

	ck_assert_int_eq(count(req, SC_BLOCK_HEAD_B, SC_NAME_GRAD_ACCUMULATE), 0);
	req->n_micro_batches = 2;
	ck_assert_int_eq(count(req, SC_BLOCK_HEAD_B, SC_NAME_GRAD_ACCUMULATE), 1);
	req->n_micro_batches = 1;
	req->config.training.precision = SC_P_AMP_BF16;
	ck_assert_int_eq(count(req, SC_BLOCK_HEAD_B, SC_NAME_GRAD_ACCUMULATE), 1);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_GRAD_ACCUMULATE), 1);
	ck_assert_int_eq(count(req, SC_BLOCK_HEAD_F, SC_NAME_WEIGHT_CAST), 1);
}

/* Where every micro-batch's gradients are reduced to shards; a pipeline that sums them up whole
 * adds all. The first's shard is added to nothing. */
TEST(a_shard_is_added_to_a_shard)
{
	static const char *const SHARDED[] = {
		"parallel.sharding=zero1 parallel.dp=8 training.global_batch=64",
		"parallel.sharding=zero2 parallel.dp=8 training.global_batch=64",
		"parallel.sharding=zero3 parallel.dp=8 parallel.shard_ranks=2 training.global_batch=64",
		"parallel.sharding=zero3 parallel.dp=8 parallel.pp=2 training.global_batch=64",
		"parallel.sharding=zero2 parallel.dp=8 training.global_batch=32",
	};
	/* ranks; three of four micro-batches add, and one of two */
	static const double RANKS[] = {1, 8 * 4 / 3.0, 2 * 4 / 3.0, 1, 8 * 2};
	double whole_us = 0;

	for (int i = 0; i < N_OF(SHARDED); i++) {
		struct sc_request *req = make_request(
			LLAMA,
			sc_arena_printf(&arena,
					"model.vocab=1000000 training.software=torchtitan %s",
					SHARDED[i]));
		double us = step_us(req, SC_BLOCK_HEAD_B, SC_NAME_GRAD_ACCUMULATE);

		whole_us = i ? whole_us : us;
		ck_assert_double_eq_tol(whole_us / us, RANKS[i], 0.15 * RANKS[i]);
	}
}

TEST(the_output_layer_is_split_over_the_vocabulary)
{
	const struct sc_request *req = make_request(LLAMA, "parallel.tp=4");
	double logits = 2.0 * N_TOKENS * 32768 * H;

	assert_near(4 * flop_of(req, SC_BLOCK_HEAD_F), logits);
	assert_near(4 * flop_of(req, SC_BLOCK_HEAD_B), 2 * logits);
}

TEST(a_masked_model_has_a_transform_and_few_rows)
{
	struct sc_request *req = make_request("model.family=bert" SIZES, "");
	double all = 2.0 * N_TOKENS * (32768.0 * H + 1.0 * H * H);

	req->software.mlm_gather = false;
	assert_near(flop_of(req, SC_BLOCK_HEAD_F), all);
	req->software.mlm_gather = true; /* 15 % of the positions are masked */
	assert_near(flop_of(req, SC_BLOCK_HEAD_F), 0.15 * all);
	assert_near(flop_of(req, SC_BLOCK_HEAD_B), 0.30 * all);
}

TEST(unpadded_samples_have_fewer_tokens)
{
	const struct sc_request *req = make_request(
		"model.family=bert" SIZES, "training.unpadded=true training.fill_fraction=0.25");
	const struct macs *m = &FAMILIES[3];

	assert_near(flop_of(req, SC_BLOCK_LAYER_F),
		    2.0 * N_TOKENS * (0.25 * (m->linear + m->mlp) + 0.0625 * m->scores));
}

static const struct sc_step *step_of(const struct sc_request *req, enum sc_block_id id,
				     enum sc_op_name name)
{
	const struct sc_block *b = steps_of(req, id);

	for (size_t i = 0; i < b->steps.n; i++)
		if (b->steps.at[i].name == name)
			return &b->steps.at[i];
	ck_abort_msg("no such step");
	return NULL;
}

/* 16 heads over 8 ranks: two of a sample on each, which the fused kernel does not take alone. */
TEST(fused_softmax_takes_four_heads_at_a_time)
{
	static const enum sc_op_name names[] = {SC_NAME_SOFTMAX, SC_NAME_SOFTMAX_GRAD};
	static const enum sc_block_id blocks[] = {SC_BLOCK_LAYER_F, SC_BLOCK_LAYER_B};

	for (int i = 0; i < 2; i++) {
		double host[2], work[2];

		for (int mb = 1; mb <= 2; mb++) {
			char overrides[160];
			const struct sc_step *step;

			snprintf(overrides, sizeof(overrides),
				 "parallel.tp=8 gpus=8 training.attention=unfused "
				 "training.software=megatron-lm cluster.gpu=a100-sxm-80gb "
				 "training.micro_batch=%d",
				 mb);
			step = step_of(make_request(GPT, overrides), blocks[i], names[i]);
			host[mb - 1] = step->host_us;
			work[mb - 1] = step->cost.work_us;
		}
		assert_near(host[0], 6 * host[1]);
		ck_assert_double_gt(work[0], work[1]);
	}
}

/* What MFU counts: every product of the model, forward and backward, once. */
LOOP_TEST(model_flop_is_what_the_blocks_do, N_OF(FAMILIES))
{
	const struct macs *m = &FAMILIES[_i];
	const struct sc_request *req = make_request(m->model, "training.recompute=none");
	double sum, dense = m->dense_mlp > 0 ? 1 : 0;

	sum = (6 - dense) * (flop_of(req, SC_BLOCK_LAYER_F) + flop_of(req, SC_BLOCK_LAYER_B));
	sum += dense * (flop_of(req, SC_BLOCK_DENSE_F) + flop_of(req, SC_BLOCK_DENSE_B));
	sum += flop_of(req, SC_BLOCK_HEAD_F) + flop_of(req, SC_BLOCK_HEAD_B);
	assert_near(2 * sc_transformer_model_flop(req, NULL), sum);
}

/* A layer, the output layer once more, and two hidden vectors joined to one, for each token ahead.
 */
TEST(later_tokens_take_a_layer_and_the_output_layer)
{
	const char *one = "training.recompute=none model.mtp_layers=1";
	const struct sc_request *plain = make_request(LLAMA, "training.recompute=none");
	const struct sc_request *ahead = make_request(LLAMA, one);
	double head = flop_of(plain, SC_BLOCK_HEAD_F), h = 1024, tokens = 2 * 512;
	double sum = 7 * (flop_of(ahead, SC_BLOCK_LAYER_F) + flop_of(ahead, SC_BLOCK_LAYER_B));

	assert_near(flop_of(ahead, SC_BLOCK_HEAD_F), 2 * head + tokens * 2 * 2 * h * h);
	ck_assert_int_eq(count(ahead, SC_BLOCK_HEAD_F, SC_NAME_EMBED_LOOKUP), 1);
	ck_assert_int_eq(count(ahead, SC_BLOCK_HEAD_B, SC_NAME_MTP_PROJ_WGRAD), 1);
	sum += flop_of(ahead, SC_BLOCK_HEAD_F) + flop_of(ahead, SC_BLOCK_HEAD_B);
	assert_near(2 * sc_transformer_model_flop(ahead, NULL), sum);
}

/* Attention narrows where a profile says so, on Blackwell: of mixtures and frozen weights; not with
 * a window. */
TEST(attention_narrows_on_blackwell)
{
	static const struct {
		const char *model, *overrides;
		bool narrow;
	} CASES[] = {
		{MOE, "training.precision=mxfp8", true},
		{LLAMA, "training.precision=mxfp8", false},
		{MOE, "training.precision=mxfp8 model.sliding_window=128", false},
		{LLAMA, "training.precision=fp8", false},
		{LLAMA, "training.precision=fp8 training.trainable=lora", true},
		{LLAMA, "training.precision=nvfp4", true},
		{LLAMA, "training.precision=nvfp4 parallel.cp=2", false},
		{LLAMA, "training.precision=nvfp4 parallel.cp=2 training.trainable=lora", true},
	};

	for (int i = 0; i < N_OF(CASES); i++) {
		char text[256];
		struct sc_request *req;
		double wide, narrow;

		snprintf(text, sizeof(text),
			 "cluster.gpu=b200-sxm-180gb training.attention=flash %s",
			 CASES[i].overrides);
		req = make_request(CASES[i].model, text);
		wide = step_us(req, SC_BLOCK_LAYER_F, SC_NAME_FLASH);
		req->software.mx_fp8_attention = true;
		narrow = step_us(req, SC_BLOCK_LAYER_F, SC_NAME_FLASH);
		ck_assert_msg(CASES[i].narrow ? narrow < wide : !(narrow < wide), "%s", text);
		req->device.cuda_capability = 90;
		assert_near(step_us(req, SC_BLOCK_LAYER_F, SC_NAME_FLASH), wide);
	}
}

/* In mxfp8 on Blackwell, within graphs of the whole step: what is between both products is in their
 * kernels, and bytes are cast for half of the products. */
TEST(products_of_experts_are_fused_in_graphs)
{
	struct sc_request *req = make_request(MOE, "training.precision=mxfp8 model.biases=true "
						   "cluster.gpu=b200-sxm-180gb");
	int casts = count(req, SC_BLOCK_LAYER_F, SC_NAME_FP8_CAST);
	int sums = count(req, SC_BLOCK_LAYER_F, SC_NAME_EXPERT_BIAS);
	double us = step_us(req, SC_BLOCK_LAYER_B, SC_NAME_EXPERT_BIAS);
	/* one is the shared experts' */
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_ACTIVATION), 2);
	ck_assert_int_eq(sums, 1);
	graphs = 1;
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_ACTIVATION), 1);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_ACTIVATION_GRAD), 1);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_EXPERT_CLAMP), 0);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_EXPERT_CLAMP), 0);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_EXPERT_BIAS), 0);
	ck_assert(step_us(req, SC_BLOCK_LAYER_B, SC_NAME_EXPERT_BIAS) < us);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_FP8_CAST), casts);
	req->device.cuda_capability = 90;
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_ACTIVATION), 2);
	graphs = 0;
}

TEST(what_experts_keep_is_copied_in_graphs)
{
	struct sc_request *req = make_request(MOE, "training.cuda_graphs=full_iteration");

	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_EXPERT_STASH), 0);
	graphs = req->config.training.cuda_graphs;
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_EXPERT_STASH), 1);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_EXPERT_STASH), 1);
	graphs = 0;
}

/* Both sides of both products' way, forward and backward; a fixed capacity needs none, nor do 16
 * bits. */
TEST(rows_of_quantized_experts_are_padded)
{
	static const struct {
		const char *overrides;
		int n;
	} CASES[] = {
		{"training.precision=fp8", 2},
		{"training.precision=bf16", 0},
		{"training.precision=fp8 training.routing=dropped", 0},
		{"training.precision=fp8 training.moe_dispatcher=hybridep", 0},
	};

	for (int i = 0; i < N_OF(CASES); i++) {
		struct sc_request *req = make_request(MOE, CASES[i].overrides);

		req->software.pads_experts = true;
		ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_EXPERT_PADDING), CASES[i].n);
		ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_EXPERT_PADDING), CASES[i].n);
		req->software.pads_experts = false;
		ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_EXPERT_PADDING), 0);
	}
}

/* HybridEP gathers a byte a token and expert of all ranks, forward alone, and again where the
 * forward pass is. */
static struct sc_request *routed(const char *more)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "parallel.dp=8 training.global_batch=16 parallel.ep=4 training.recompute=none %s",
		 more);
	return make_request(MOE, text);
}

TEST(hybrid_ep_gathers_where_tokens_go)
{
	const char *hybrid = "training.moe_dispatcher=hybridep";
	const char *again = "training.moe_dispatcher=hybridep training.recompute=full";
	const char *wide = "training.moe_dispatcher=hybridep parallel.ep=8";
	double near = step_us(routed(hybrid), SC_BLOCK_LAYER_F, SC_NAME_ROUTES);

	ck_assert_int_eq(count(routed(hybrid), SC_BLOCK_LAYER_F, SC_NAME_ROUTES), 1);
	ck_assert_int_eq(count(routed(hybrid), SC_BLOCK_LAYER_B, SC_NAME_ROUTES), 0);
	ck_assert_int_eq(count(routed(again), SC_BLOCK_LAYER_B, SC_NAME_ROUTES), 1);
	ck_assert_int_eq(
		count(routed("training.moe_dispatcher=deepep"), SC_BLOCK_LAYER_F, SC_NAME_ROUTES),
		0);
	ck_assert(near > 0);
	ck_assert(step_us(routed(wide), SC_BLOCK_LAYER_F, SC_NAME_ROUTES) > near);
}

/* Returns on how many of `ranks` a token's top_k experts are on average, token after token taking
 * the next ones, for as many tokens as bring all turns. */
static double ranks_in_turn(int experts, int ranks, int top_k)
{
	double all = 0;

	for (int token = 0; token < experts; token++) {
		unsigned seen = 0;

		for (int i = 0; i < top_k; i++)
			seen |= 1u << (token * top_k + i) % experts / (experts / ranks);
		all += __builtin_popcount(seen);
	}
	return all / experts;
}

static double permute_us(int ranks, int top_k, const char *routing)
{
	char text[200];

	snprintf(text, sizeof(text),
		 "training.moe_dispatcher=deepep model.seq=65536 model.top_k=%d parallel.ep=%d "
		 "training.routing=%s",
		 top_k, ranks, routing);
	return step_us(routed(text), SC_BLOCK_LAYER_F, SC_NAME_PERMUTE);
}

/* Each of the ranks that have one of a token's experts gets it once, and copies it to each of them;
 * without expert parallelism that is one rank. Drawn at random, four of sixteen experts are on 2.9
 * of four ranks. */
TEST(experts_in_turn_are_neighbours)
{
	for (int ranks = 1; ranks <= 8; ranks *= 2)
		for (int k = 1; k <= 16; k++) {
			const double one = permute_us(1, k, "balanced");
			const double us = permute_us(ranks, k, "in_turn");

			ck_assert_double_eq_tol(us / one,
						(k + ranks_in_turn(16, ranks, k)) / (k + 1), 0.005);
		}
	ck_assert_double_eq_tol(permute_us(4, 4, "balanced") / permute_us(1, 4, "balanced"),
				(4 + 4 * (1 - 495.0 / 1820)) / 5, 0.005);
}

/* Run again without reentry, a mixture ends before its combine, if that leaves nothing for
 * backward. Once more it is the gradient of the dispatch. */
TEST(recomputation_ends_before_the_combine)
{
	static const struct {
		const char *dispatcher;
		bool early;
		int n;
	} CASES[] = {{"deepep", true, 1}, {"deepep", false, 2}, {"all_to_all", true, 2}};

	for (int i = 0; i < N_OF(CASES); i++) {
		char text[128];
		struct sc_request *req;

		snprintf(text, sizeof(text), "training.moe_dispatcher=%s training.recompute=full",
			 CASES[i].dispatcher);
		req = routed(text);
		req->software.recompute_early_stop = CASES[i].early;
		ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_COMBINE), CASES[i].n);
		ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_DISPATCH), 2);
	}
}

/* A region that stays gathered is not gathered again: backward has the gathers of gradients of both
 * regions' outputs alone, and waits for its sums unless the software hides them. */
TEST(what_stays_gathered_is_not_gathered_again)
{
	struct sc_request *req =
		make_request(LLAMA, "parallel.tp=2 parallel.sequence_parallel=true "
				    "training.recompute=none");

	req->software.tp_dgrad_overlap = false;
	for (int keeps = 0; keeps < 2; keeps++) {
		req->software.keeps_gathered = keeps > 0;
		ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_TP_ALL_GATHER),
				 keeps ? 2 : 4);
		ck_assert_int_eq(
			find_step(steps_of(req, SC_BLOCK_LAYER_B), SC_NAME_TP_REDUCE_SCATTER, 0)
				->hidden,
			keeps ? 0 : 1);
	}
}

/* A gate of latent attention reads what its queries and keys read: one gather, and one sum of their
 * gradients. */
TEST(latent_attention_with_a_gate_is_one_region)
{
	for (int rank = 0; rank < 2; rank++) {
		const char *model = rank ? MLA : MLA_FULL_Q;
		int n[2][2];

		for (int gate = 0; gate < 2; gate++) {
			struct sc_request *req = make_request(
				model, "parallel.tp=2 parallel.sequence_parallel=true");

			req->config.model.attention_gate = gate;
			n[gate][0] = count(req, SC_BLOCK_LAYER_F, SC_NAME_TP_ALL_GATHER);
			n[gate][1] = count(req, SC_BLOCK_LAYER_B, SC_NAME_TP_REDUCE_SCATTER);
		}
		ck_assert_int_gt(n[0][0], 0);
		ck_assert_mem_eq(n[0], n[1], sizeof(n[0]));
	}
}

/* Each of a token's three experts gets it in bf16, cast to fp32, multiplied and cast back: 20 bytes
 * an element. Backward has both factors' gradients: 36. Those who get it once multiply in bf16: 4
 * and 12, by a kernel and three. */
TEST(inputs_of_experts_are_weighed)
{
	struct sc_request *req =
		routed("model.seq=65536 training.precision=bf16 training.moe_dispatcher=deepep");
	double us[2], wide_us;

	req->software.weighs_inputs = true;
	us[0] = find_step(steps_of(req, SC_BLOCK_LAYER_F), SC_NAME_PERMUTE, 1)->cost.work_us;
	us[1] = find_step(steps_of(req, SC_BLOCK_LAYER_B), SC_NAME_UNPERMUTE, 0)->cost.work_us;
	ck_assert_double_eq_tol(us[1] / us[0], 3, 0.01);
	req = routed("model.seq=65536 training.precision=bf16");
	wide_us = 5 * us[0];

	for (int i = 0; i < 2; i++) {
		req->software.weighs_inputs = i > 0;
		ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_PERMUTE), 2 + i);
		ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_UNPERMUTE), 2 + i);
	}
	us[0] = find_step(steps_of(req, SC_BLOCK_LAYER_F), SC_NAME_PERMUTE, 2)->cost.work_us;
	us[1] = find_step(steps_of(req, SC_BLOCK_LAYER_B), SC_NAME_UNPERMUTE, 0)->cost.work_us;
	ck_assert_double_eq_tol(us[1] / us[0], 36.0 / 20, 0.01);
	ck_assert_double_eq_tol(us[0] / wide_us, 1, 0.01);
	/* beside two copies that read and write them, for the way there */
	ck_assert_double_eq_tol(us[0] / step_us(req, SC_BLOCK_LAYER_F, SC_NAME_PERMUTE), 20.0 / 4,
				0.05);
}

/* One kernel reads a tensor for both of its copies of a byte and a 32nd, or one each; weights then
 * at each of the micro-batches. */
TEST(copies_in_mxfp8_are_cast_apart)
{
	struct sc_request *req = make_request(
		LLAMA, "cluster.gpu=b200-sxm-180gb model.seq=65536 training.precision=mxfp8 "
		       "training.micro_batch=1 training.global_batch=4 training.recompute=none");
	const double q = 2 + 2.0 / 32;
	double weights[2], input[2];

	for (int apart = 0; apart < 2; apart++) {
		const struct sc_block *b;

		req->software.casts_apart = apart > 0;
		b = steps_of(req, SC_BLOCK_LAYER_F);
		weights[apart] = find_step(b, SC_NAME_FP8_CAST, 0)->cost.work_us;
		input[apart] = find_step(b, SC_NAME_FP8_CAST, 1)->cost.work_us;
	}
	ck_assert_double_eq_tol(input[1] / input[0], (4 + q) / (2 + q), 0.01);
	ck_assert_double_gt(weights[1] / weights[0],
			    3); /* less than 4 * 1.5: kernels take time to start */
}

TEST(activations_of_experts_with_biases_are_clamped)
{
	struct sc_request *req =
		make_request(MOE, "model.biases=true training.recompute=[moe_act]");

	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_F, SC_NAME_EXPERT_CLAMP), 1);
	ck_assert_int_eq(count(req, SC_BLOCK_LAYER_B, SC_NAME_EXPERT_CLAMP), 2); /* once again */
}

TEST(model_flop_counts_neither_copies_nor_frozen_gradients)
{
	double one = sc_transformer_model_flop(make_request(LLAMA, ""), NULL);
	double copies = sc_transformer_model_flop(make_request(LLAMA, "parallel.tp=16"), NULL);
	double lora =
		sc_transformer_model_flop(make_request(LLAMA, "training.trainable=lora"), NULL);
	double scores = 6.0 * 6 * S * FAMILIES[4].scores;

	assert_near(copies, one);
	assert_near(lora, scores + (one - scores) * 2 / 3);
}

/* Published totals: model cards and papers that the model files name. */
static const struct {
	const char *model;
	double billions;
} PUBLISHED[] = {
	{"llama2-7b", 6.738},
	{"llama2-13b", 13.016},
	{"llama2-70b", 68.98},
	{"llama3-8b", 8.03},
	{"llama3-70b", 70.55},
	{"llama3.1-405b", 405.9},
	{"mixtral-8x7b", 46.7},
	{"deepseek-v2", 235.7},
	{"deepseek-v3", 671.0},
	{"qwen3-30b-a3b", 30.5},
	{"qwen3-235b-a22b", 235},
	{"gpt-oss-120b", 116.8},
	{"mixtral-8x22b", 140.6},
	{"deepseek-v2-lite", 15.7},
	{"deepseek-moe-16b", 16.4},
	{"gpt-oss-20b", 20.9},
	{"kimi-k2", 1026},
	{"grok-1", 316},
	{"dbrx", 131.6},
	{"qwen2-57b-a14b", 57.4},
	{"llama4-scout", 107.8},
	{"llama4-maverick", 400.7},
	{"glm-4.5", 353.0},
	{"qwen3-coder-480b-a35b", 480},
	{"olmoe-1b-7b", 6.92},
	{"phi-3.5-moe", 41.9},
	{"bert-base", 0.110},
	{"bert-large", 0.335},
	{"opt-1.3b", 1.316},
	{"mpt-7b", 6.65},
	{"mpt-30b", 29.96},
	{"gpt2-large", 0.774},
	{"gpt-22b", 22.0},
	{"gpt-175b", 174.6},
	{"gpt-530b", 529.6},
	{"gpt-1t", 1008.0},
	{"bloom-176b", 176.2},
};

LOOP_TEST(shipped_models_have_the_published_parameters, N_OF(PUBLISHED))
{
	const char *model = sc_arena_printf(&arena, "model=models/%s.yaml", PUBLISHED[_i].model);
	const struct sc_request *req = make_request(model, "training.software=default");
	const struct sc_model *m = &req->config.model;
	struct sc_params layer, dense, ends;
	double n_dense = sc_model_count(m, 0, m->layers).of[SC_LAYER_DENSE], sum;

	sc_transformer_layer_params(req, 0, &layer);
	sc_transformer_layer_params(req, SC_LAYER_DENSE, &dense);
	sum = n_dense * (dense.dense + dense.expert) +
	      ((double)m->layers - n_dense) * (layer.dense + layer.expert);
	sc_transformer_embed_params(req, &ends);
	sum += ends.dense;
	sc_transformer_head_params(req, &ends);
	if (!m->tied_embeddings)
		sum += ends.dense;
	sum *= 1e-9;
	ck_assert_msg(fabs(sum / PUBLISHED[_i].billions - 1) < 0.01, "%s: %.4f, published %.4f",
		      PUBLISHED[_i].model, sum, PUBLISHED[_i].billions);
}

/* Layers counted one by one, whatever the ranges, and by kind in all; a model's FLOP lie between
 * those of its kinds of layer. */
TEST(one_layer_in_so_many_has_experts)
{
	struct sc_request *req = make_request(MOE, "model.layers=24");
	struct sc_model *m = &req->config.model;
	double flop[4];

	for (m->experts_every = 1; m->experts_every <= 3; m->experts_every++)
		for (m->dense_layers = 0; m->dense_layers <= 4; m->dense_layers++)
			for (int64_t begin = 0, n = 0; begin < m->layers; begin++, n = 0)
				for (int64_t end = begin; end <= m->layers; end++) {
					int64_t at = end - m->dense_layers;

					ck_assert_int_eq((int)sc_model_count(m, begin, end)
								 .of[SC_LAYER_DENSE],
							 n);
					n += at < 0 || (at + 1) % m->experts_every != 0;
				}
	m->dense_layers = 1;
	m->sliding_window = m->seq / 2;
	for (int64_t every = m->full_attention_every = 1; every <= 6;
	     m->full_attention_every = ++every) {
		const struct sc_layer_counts of = sc_model_count(m, 0, m->layers + 1);

		assert_near(of.of[SC_LAYER_FULL] + of.of[SC_LAYER_FULL | SC_LAYER_DENSE],
			    (double)(m->layers / every));
		assert_near(sc_layers_in_all(&of), (double)m->layers + 1);
	}
	m->sliding_window = -1;
	m->dense_layers = 0;
	for (int i = 0; i < 4; i++) {
		m->experts_every = (int64_t[]){1, 2, 3, 24}[i];
		flop[i] = sc_transformer_model_flop(req, NULL);
	}
	assert_near((flop[0] - flop[1]) / 12, (flop[0] - flop[2]) / 16);
	assert_near((flop[0] - flop[1]) / 12, (flop[0] - flop[3]) / 23);
}
