/* Memory: hand-computed cases of Korthikanti et al. 2022 and of sharding, parts that add up, and
 * more recomputation or sharding that never takes more. */
#include "base/units.h"
#include "models/memory.h"
#include "predict/transformer/transformer_memory.h"
#include "runner.h"

#define TOLERANCE 1e-9
enum { SEQ = 1024, HIDDEN = 2048, HEADS = 16, VOCAB = 32000, TP = 4 };

static const double SBH = 2.0 * SEQ * HIDDEN; /* two samples */

/* A GPT on four tensor-parallel ranks, fp16, unfused attention with dropout. */
static struct sc_request gpt(void)
{
	struct sc_request r = {0};

	r.config.model = (struct sc_model){.family = SC_GPT,
					   .layers = 8,
					   .hidden = HIDDEN,
					   .heads = HEADS,
					   .kv_heads = HEADS,
					   .head_dim = HIDDEN / HEADS,
					   .v_head_dim = HIDDEN / HEADS,
					   .ffn_hidden = 4 * HIDDEN,
					   .vocab = VOCAB,
					   .seq = SEQ};
	r.config.parallel = (struct sc_parallel){
		.tp = TP, .pp = 1, .dp = 8, .cp = 1, .ep = 1, .virtual_stages = 1};
	r.config.training = (struct sc_training){.precision = SC_P_FP16,
						 .attention = SC_ATT_UNFUSED,
						 .optimizer = SC_OPT_ADAM,
						 .fill_fraction = 1,
						 .master_bytes = -1,
						 .expert_imbalance = 1};
	r.software = (struct sc_software){
		.gather_ahead = true, .distributed_optimizer = true, .activation_factor = 1};
	r.device.hbm_gib = 80;
	r.n_micro_batches = 4;
	return r;
}

static struct sc_request llama(void)
{
	struct sc_request r = gpt();

	r.config.model.family = SC_LLAMA;
	r.config.model.kv_heads = HEADS / 4;
	r.config.training.attention = SC_ATT_FLASH;
	r.config.training.precision = SC_P_BF16;
	r.config.training.grad_bytes = 4;
	return r;
}

static struct sc_request mixture(void)
{
	struct sc_request r = llama();

	r.config.model.family = SC_MOE;
	r.config.model.experts = 16;
	r.config.model.top_k = 2;
	r.config.model.expert_ffn_hidden = HIDDEN / 2;
	return r;
}

/* What a rank holds: states, and layers. */
struct shape {
	struct sc_memory_shape rank;
	struct sc_layers_held held;
};

static struct shape shape(void)
{
	struct shape s = {{.params = 1e9,
			   .trainable = 1e9,
			   .shard_ranks = 8,
			   .expert_shard_ranks = 2,
			   .layer_params = 1e8},
			  {.layers = {{8}}, .samples = 2, .micro_batches_in_flight = 1}};

	return s;
}

static struct sc_memory estimate(const struct sc_request *request, struct shape *s)
{
	struct sc_layer_bytes bytes[SC_N_LAYER_KINDS];
	struct sc_memory m;

	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
		if (s->held.layers.of[kind] > 0)
			bytes[kind] = sc_layer_bytes_of(request, s->held.samples, kind);
	s->held.bytes = bytes;
	s->held.head = s->rank.head;
	s->rank.activation_bytes = sc_activation_bytes(request, &s->held, &s->rank.off_bytes);
	sc_memory_estimate(request, &s->rank, &m);
	return m;
}

static void near(double got, double want)
{
	ck_assert_double_eq_tol(got, want, TOLERANCE * fmax(1, fabs(want)));
}

/* ---- activations ---- */

TEST(gpt_layer_as_published)
{
	struct sc_request r = gpt();
	double scores = 5.0 * HEADS * SEQ / HIDDEN;

	/* Korthikanti et al. 2022, equation 2: sbh (10 + 24/t + 5as/(ht)) */
	near(sc_layer_bytes_of(&r, 2, 0).kept, SBH * (10 + 24.0 / TP + scores / TP));
	r.config.parallel.sequence_parallel = true; /* equation 4 */
	near(sc_layer_bytes_of(&r, 2, 0).kept, SBH * (34 + scores) / TP);
	r.config.training.recompute = SC_RECOMPUTE_SELECTIVE; /* equation 6 */
	near(sc_layer_bytes_of(&r, 2, 0).kept, SBH * 34 / TP);
	r.config.training.recompute = SC_RECOMPUTE_FULL;
	near(sc_layer_bytes_of(&r, 2, 0).kept, SBH * 2 / TP);
}

TEST(flash_keeps_no_scores)
{
	struct sc_request r = gpt();

	r.config.training.attention = SC_ATT_FLASH;
	near(sc_layer_bytes_of(&r, 2, 0).kept, SBH * (10 + 24.0 / TP));
}

TEST(llama_layer)
{
	struct sc_request r = llama();
	/* queries and output 4, keys and values a quarter of that; gate, up and product of 4h each
	 */
	double split = 4 + 4.0 / 4 + 2 * 3 * 4;

	near(sc_layer_bytes_of(&r, 2, 0).kept, SBH * (8 + split / TP));
}

TEST(context_and_padding_count_tokens)
{
	struct sc_request r = llama();
	double whole = sc_layer_bytes_of(&r, 2, 0).kept;

	r.config.parallel.cp = 4;
	near(sc_layer_bytes_of(&r, 2, 0).kept, whole / 4);
	r.config.parallel.cp = 1;
	r.config.training.fill_fraction = 0.5;
	near(sc_layer_bytes_of(&r, 2, 0).kept, whole / 2);
}

TEST(experts_layer)
{
	struct sc_request r = mixture();
	/* each of two copies of a token: its input, and three times h/2; routing is small */
	double routed = 2 * 2 * (1 + 1.5), attention = 4 + 4.0 / 4;
	double router = 2 * 2 * 16.0 / HIDDEN;

	near(sc_layer_bytes_of(&r, 2, 0).kept, SBH * (8 + (attention + routed + router) / TP));
	near(sc_layer_bytes_of(&r, 2, SC_LAYER_DENSE).kept, SBH * (8 + (attention + 24) / TP));
	r.config.model.shared_experts = 1;
	near(sc_layer_bytes_of(&r, 2, 0).kept, SBH * (8 + (attention + routed + router + 3) / TP));
	r.config.model.shared_experts = 0;
	r.software.keeps_expert_outputs = true;
	near(sc_layer_bytes_of(&r, 2, 0).kept, SBH * (8 + (attention + routed + 4 + router) / TP));
	/* inputs before they are weighed, in fp32, or as they came once */
	r.software.keeps_expert_outputs = false;
	r.software.weighs_inputs = true;
	near(sc_layer_bytes_of(&r, 2, 0).kept, SBH * (8 + (attention + routed + 8 + router) / TP));
	r.config.training.moe_dispatcher = SC_DISPATCH_DEEPEP;
	near(sc_layer_bytes_of(&r, 2, 0).kept, SBH * (8 + (attention + routed + 4 + router) / TP));
}

TEST(latent_attention_keeps_whole_heads)
{
	struct sc_request r = mixture();
	double plain = sc_layer_bytes_of(&r, 2, SC_LAYER_DENSE).kept;

	r.config.model.kv_lora_rank = 512;
	r.config.model.rope_head_dim = 64;
	/* queries and keys of 128 + 64, what 128 + 128 are expanded to, output of 128, compressed
	 * twice */
	double mla = 2.0 * HEADS * (192 + 192 + 256 + 128) + 2 * 2 * 512;
	double gqa = 2.0 * (2 * HIDDEN + 2 * HIDDEN / 4);

	near(sc_layer_bytes_of(&r, 2, SC_LAYER_DENSE).kept, plain + 2 * SEQ * (mla - gqa) / TP);
}

TEST(recompute_keeps_less)
{
	struct sc_request r = llama();
	double none = sc_layer_bytes_of(&r, 2, 0).kept, ops, full;

	r.config.training.recompute = SC_RECOMPUTE_SELECTIVE;
	r.software.selective = SC_SELECTIVE_OPS;
	ops = sc_layer_bytes_of(&r, 2, 0).kept;
	/* input, down; attention's output, queries, values (a quarter), gate */
	near(ops, SBH * (2 + 2 + (2 + 2 + 2.0 / 4 + 8) / TP));
	r.config.training.recompute = SC_RECOMPUTE_FULL;
	full = sc_layer_bytes_of(&r, 2, 0).kept;
	ck_assert_double_lt(ops, none);
	ck_assert_double_lt(full, ops);
	/* what was not kept has to lie there once */
	ck_assert_double_ge(sc_layer_bytes_of(&r, 2, 0).working, none);
	/* a half of the layers */
	r.config.training.recompute_layers = r.config.model.layers / r.config.parallel.pp / 2;
	near(sc_layer_bytes_of(&r, 2, 0).kept, (none + full) / 2);
}

/* Experts' grouped products run again, what is exchanged for them does not: two copies there, and
 * back, or from one of two ranks 1.47 (16 experts, 2 of 15 others) and their sum. In fp4 no product
 * is kept. */
TEST(ops_keep_what_is_exchanged)
{
	struct sc_request r = mixture();
	double kept;

	r.config.training.recompute = SC_RECOMPUTE_SELECTIVE;
	r.software.selective = SC_SELECTIVE_OPS;
	r.config.model.expert_groups = r.config.model.top_groups = 1;
	kept = SBH * (2 + (2 + 2 + 2.0 / 4) / TP);
	near(sc_layer_bytes_of(&r, 2, 0).kept, kept);
	r.config.parallel.ep = 2;
	near(sc_layer_bytes_of(&r, 2, 0).kept, kept + SBH * 2 * 4 / TP);
	r.config.training.moe_dispatcher = SC_DISPATCH_DEEPEP;
	near(sc_layer_bytes_of(&r, 2, 0).kept, kept + SBH * 2 * (2 * (1 - 0.5 * 7 / 15) + 1) / TP);
	r = llama();
	r.config.training.recompute = SC_RECOMPUTE_SELECTIVE;
	r.software.selective = SC_SELECTIVE_OPS;
	r.config.training.precision = SC_P_NVFP4;
	near(sc_layer_bytes_of(&r, 2, 0).kept, SBH * (2 + 2.0 / TP));
	near(sc_layer_bytes_of(&r, 2, SC_LAYER_WIDE).kept,
	     SBH * (2 + 2 + (2 + 2 + 2.0 / 4 + 8) / TP));
}

/* A chunk's logits at a time; what they are made of has its gradient in fp32 for all of them. */
TEST(logits_come_in_chunks)
{
	struct sc_request r = llama();
	double whole = sc_loss_bytes(&r, 2);

	r.software.loss_chunks = 8;
	near(sc_loss_bytes(&r, 2), whole / 8 + 4 * SBH);
	r.config.model.mtp_layers = 1; /* each output's */
	near(sc_loss_bytes(&r, 2), 2 * (whole / 8 + 4 * SBH));
}

TEST(modules_keep_less)
{
	static const struct {
		int module;
		double sbh; /* of the layer's, by hand: s b h elements */
	} CASES[] = {
		{SC_RECOMPUTE_CORE_ATTN, 0}, /* flash keeps no scores */
		{SC_RECOMPUTE_NORMS, 2},     /* input of attention */
		{SC_RECOMPUTE_MLA_UP, 0},    /* there is none */
		{SC_RECOMPUTE_MOE, 0},
		{SC_RECOMPUTE_DROPOUT, 0}, /* there is none */
		{SC_RECOMPUTE_NORMS | SC_RECOMPUTE_MLP_ACT, 2 + 2 * 4.0 / TP},
	};
	struct sc_request r = llama();
	double none = sc_layer_bytes_of(&r, 2, 0).kept, mlp;

	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		r.config.training.recompute = CASES[i].module;
		near(sc_layer_bytes_of(&r, 2, 0).kept, none - SBH * CASES[i].sbh);
	}
	r.config.training.recompute = SC_RECOMPUTE_MLP;
	mlp = sc_layer_bytes_of(&r, 2, 0).kept;
	ck_assert_double_lt(mlp, none);
}

/* Norms, activation and dropout of a GPT run again: by hand, the inputs of both norms, queries,
 * keys and values, attention's output and the activation's input are what stays. */
TEST(norms_apart_activation_and_dropout_keep_least)
{
	struct sc_request r = gpt();

	r.config.training.attention = SC_ATT_FLASH;
	r.software.norms_apart = true;
	r.config.training.recompute =
		SC_RECOMPUTE_NORMS | SC_RECOMPUTE_MLP_ACT | SC_RECOMPUTE_DROPOUT;
	near(sc_layer_bytes_of(&r, 2, 0).kept, SBH * 2 * (2 + (3 + 1 + 4) / (double)TP));
}

TEST(loss)
{
	struct sc_request r = gpt();
	double logits = 2.0 * SEQ * VOCAB / TP;

	near(sc_loss_bytes(&r, 2), logits * (2 + 2 * 4));
	r.software.fused_loss = true;
	near(sc_loss_bytes(&r, 2), logits * (2 + 4));
	r.software.loss_copies = 3;
	near(sc_loss_bytes(&r, 2), logits * (2 + 3 * 4));
	r.config.model.family = SC_BERT;
	r.software.mlm_gather = true;
	near(sc_loss_bytes(&r, 2), 0.15 * logits * (2 + 3 * 4));
}

/* ---- parameters ---- */

static const struct {
	enum sc_zero sharding;
	double weights, gradients, optimizer; /* bytes a parameter, 8 ranks */
} SHARDED[] = {
	{SC_ZERO_NONE, 2, 2, 12},
	{SC_ZERO1, 2, 2, 12.0 / 8},
	{SC_ZERO2, 2, 2.0 / 8, 12.0 / 8},
	{SC_ZERO3, 2.0 / 8, 2.0 / 8, 12.0 / 8},
	{SC_FSDP, 2.0 / 8, 2.0 / 8, 12.0 / 8},
};

/* Rajbhandari et al. 2020 (ZeRO), figure 1 */
LOOP_TEST(sharded_states, N_OF(SHARDED))
{
	struct sc_request r = gpt();
	struct shape s = shape();
	struct sc_memory m;

	r.config.parallel.sharding = SHARDED[_i].sharding;
	m = estimate(&r, &s);
	near(m.weights_gib * SC_BYTES_PER_GIB, 1e9 * SHARDED[_i].weights);
	near(m.gradients_gib * SC_BYTES_PER_GIB, 1e9 * SHARDED[_i].gradients);
	near(m.optimizer_gib * SC_BYTES_PER_GIB, 1e9 * SHARDED[_i].optimizer);
}

static const struct {
	enum sc_precision precision;
	bool fused;
	double weights, gradients, optimizer;
} PRECISIONS[] = {
	{SC_P_FP32, false, 4, 4, 8},
	{SC_P_FP16, false, 2, 2, 12},
	/* autograd's bf16 gradients stay beside the fp32 ones, unless added up there at once */
	{SC_P_BF16, false, 2, 6, 12},
	{SC_P_BF16, true, 2, 4, 12},
	{SC_P_FP8, true, 2, 4, 12},
};

LOOP_TEST(precision, N_OF(PRECISIONS))
{
	struct sc_request r = gpt();
	struct shape s = shape();
	struct sc_memory m;

	r.config.training.precision = PRECISIONS[_i].precision;
	if (sc_storage_dtype(r.config.training.precision) == SC_BF16)
		r.config.training.grad_bytes = 4;
	r.software.fused_grad_accumulation = PRECISIONS[_i].fused;
	m = estimate(&r, &s);
	near(m.weights_gib * SC_BYTES_PER_GIB, 1e9 * PRECISIONS[_i].weights);
	near(m.gradients_gib * SC_BYTES_PER_GIB, 1e9 * PRECISIONS[_i].gradients);
	near(m.optimizer_gib * SC_BYTES_PER_GIB, 1e9 * PRECISIONS[_i].optimizer);
}

/* 2 moments of 2 bytes and weights of 4 for each parameter. */
TEST(moments_may_be_narrow)
{
	struct sc_request r = llama();
	struct shape s = shape();
	double wide = estimate(&r, &s).optimizer_gib;

	r.config.training.moment_bytes = 2;
	near(estimate(&r, &s).optimizer_gib, wide * 8 / 12);
}

/* Eager SwiGLU keeps act(gate), which GELU has no product to read. Sums that wait for the network
 * are whole sequences, two a layer, and there are none without a group to sum over. */
TEST(eager_code_holds_more_of_a_layer)
{
	struct sc_request r = llama(), old = gpt();
	double kept, of_gelu = sc_layer_bytes_of(&old, 2, 0).kept;

	r.config.parallel.sequence_parallel = true;
	kept = sc_layer_bytes_of(&r, 2, 0).kept;
	r.software.keeps_gate = old.software.keeps_gate = true;
	near(sc_layer_bytes_of(&r, 2, 0).kept, kept + 2 * SBH * 4 / TP);
	near(sc_layer_bytes_of(&old, 2, 0).kept, of_gelu);
	r.software.keeps_gate = false;
	r.software.activation_factor = 1.5;
	near(sc_layer_bytes_of(&r, 2, 0).kept, 1.5 * kept);
	r.software.activation_factor = 1;
	r.software.keeps_gathered = true;
	near(sc_layer_bytes_of(&r, 2, 0).kept, kept + 2 * 2 * SBH * (1 - 1.0 / TP));
	r.config.parallel.tp = 1;
	near(sc_layer_bytes_of(&r, 2, 0).kept, kept * TP);
	r.config.training.recompute = SC_RECOMPUTE_FULL;
	near(sc_layer_bytes_of(&r, 2, 0).kept, 2 * SBH);
}

/* Latent attention's gate, queries and keys read what is gathered once. */
TEST(a_region_is_gathered_once)
{
	struct sc_request r = mixture();
	double kept[2];

	r.config.parallel.sequence_parallel = true;
	r.config.model.kv_lora_rank = 512;
	r.config.model.rope_head_dim = 64;
	r.config.model.attention_gate = true;
	for (int rank = 0; rank < 2; rank++) {
		r.config.model.q_lora_rank = 768 * rank;
		for (int i = 0; i < 2; i++) {
			r.software.keeps_gathered = i > 0;
			kept[i] = sc_layer_bytes_of(&r, 2, SC_LAYER_DENSE).kept;
		}
		near(kept[1], kept[0] + 2 * 2 * SBH * (1 - 1.0 / TP));
	}
}

TEST(experts_have_their_own_replicas)
{
	struct sc_request r = mixture();
	struct shape s = shape();

	s.rank.expert_params = s.rank.trainable_expert = 4e9;
	r.config.parallel.sharding = SC_ZERO1;
	near(estimate(&r, &s).optimizer_gib * SC_BYTES_PER_GIB, 12 * (1e9 / 8 + 4e9 / 2));
}

TEST(adapters_alone_are_trained)
{
	struct sc_request r = llama();
	struct shape s = shape();
	struct sc_memory m;
	double kept = sc_layer_bytes_of(&r, 2, 0).kept;

	r.config.training.trainable = SC_TRAIN_LORA;
	r.software.fused_grad_accumulation = true;
	s.rank.trainable = 1e7;
	m = estimate(&r, &s);
	near(m.gradients_gib * SC_BYTES_PER_GIB, 4 * 1e7);
	near(m.optimizer_gib * SC_BYTES_PER_GIB, 12 * 1e7);
	near(m.weights_gib * SC_BYTES_PER_GIB, 2 * 1e9);
	/* inputs of the frozen feed-forward layers are not kept */
	near(sc_layer_bytes_of(&r, 2, 0).kept, kept - SBH * (2 + 8.0 / TP));
	r.config.training.lora_targets = SC_LORA_ALL;
	near(sc_layer_bytes_of(&r, 2, 0).kept, kept);
	r.config.training.precision = SC_P_FP8; /* frozen weights are read in fp8 alone */
	near(estimate(&r, &s).weights_gib * SC_BYTES_PER_GIB, 1e9 - 1e7 + 2 * 1e7);
}

/* ---- what lies beside them ---- */

TEST(gathered_layers)
{
	struct sc_request r = gpt();
	struct shape s = shape();

	near(estimate(&r, &s).buffers_gib, 0);
	r.config.parallel.sharding = SC_FSDP;
	/* two layers of weights; one layer of gradients, and as they are reduced */
	near(estimate(&r, &s).buffers_gib * SC_BYTES_PER_GIB, 2 * (2 * 1e8 + 2 * 1e8));
	s.rank.embed = true; /* which is gathered, too */
	near(estimate(&r, &s).buffers_gib * SC_BYTES_PER_GIB,
	     2 * (2 * 1e8 + 2 * 1e8 + (double)VOCAB * HIDDEN / TP));
}

/* Of what is gathered and reduced once an iteration, a stage holds all. */
TEST(a_pipeline_holds_what_moves_once)
{
	struct sc_request r = gpt();
	struct shape s = shape();

	r.config.parallel.pp = 2;
	r.config.parallel.sharding = SC_ZERO2;
	near(estimate(&r, &s).gradients_gib * SC_BYTES_PER_GIB, 2 * (1e9 + 1e9 / 8));
	near(estimate(&r, &s).buffers_gib, 0);
	r.config.parallel.sharding = SC_ZERO3;
	near(estimate(&r, &s).gradients_gib * SC_BYTES_PER_GIB, 2 * (1e9 + 1e9 / 8));
	near(estimate(&r, &s).buffers_gib * SC_BYTES_PER_GIB, 2 * 1e9);
	r.software.sharded_pipeline = SC_SHARDED_EACH;
	near(estimate(&r, &s).gradients_gib * SC_BYTES_PER_GIB, 2 * 1e9 / 8);
	near(estimate(&r, &s).buffers_gib * SC_BYTES_PER_GIB, 2 * (2 * 1e8 + 2 * 1e8));
	r.config.parallel.sharding = SC_ZERO2;
	near(estimate(&r, &s).buffers_gib * SC_BYTES_PER_GIB, 2 * 2 * 1e8);
}

TEST(step_gradients_follow_activations)
{
	struct sc_request r = gpt();
	struct shape s = shape();
	double activations;

	r.software.distributed_optimizer = false;
	activations = estimate(&r, &s).activations_gib * SC_BYTES_PER_GIB;
	ck_assert_double_lt(activations, 4 * 1e9);
	near(estimate(&r, &s).gradients_gib * SC_BYTES_PER_GIB, 2 * 1e9 + 4 * 1e9 - activations);
	s.held.samples *= 16; /* more activations than the copy takes */
	near(estimate(&r, &s).gradients_gib * SC_BYTES_PER_GIB, 2 * 1e9);
}

TEST(reserve_grows_with_tensors)
{
	struct sc_request r = gpt();
	struct shape s = shape();
	double tensors = estimate(&r, &s).total_gib;

	r.software.reserve_gib = 2;
	r.software.reserve_frac = 0.1;
	near(estimate(&r, &s).reserve_gib, 2 + 0.1 * tensors);
	near(estimate(&r, &s).total_gib, 2 + 1.1 * tensors);
}

LOOP_TEST(parts_add_up, 3)
{
	struct sc_request requests[] = {gpt(), llama(), mixture()};
	struct shape s = shape();
	double before = INFINITY;

	for (int sharding = SC_ZERO_NONE; sharding <= SC_ZERO3; sharding++) {
		struct sc_request *r = &requests[_i];
		struct sc_memory m;
		double states;

		r->config.parallel.sharding = (enum sc_zero)sharding;
		s.rank.head = s.rank.embed = sharding % 2 == 0;
		s.held.layers.of[SC_LAYER_DENSE] = sharding;
		m = estimate(r, &s);
		states = m.weights_gib + m.gradients_gib + m.optimizer_gib;
		near(m.total_gib, states + m.activations_gib + m.buffers_gib + m.reserve_gib);
		ck_assert_double_gt(states, 0);
		ck_assert_double_lt(states, before);
		ck_assert_double_gt(m.activations_gib, 0);
		near(m.capacity_gib, 80);
		before = states;
	}
}
