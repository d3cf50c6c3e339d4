/* The ops of a Transformer layer, forward and backward, as Megatron-style stacks run them (Shoeybi et
 * al. 2019; Korthikanti et al. 2022 for sequence parallelism and selective recomputation). Memory-bound
 * ops are given by the tensors they read and write. */
#include "predict/transformer/transformer_ops.h"

#include "predict/transformer/transformer_memory.h"
#include "predict/transformer/transformer_priv.h"

/* The first and last parts of a Transformer: embedding; output layer and loss, of a language model or of
 * a masked one (BERT). */

/* One kernel, three passes over the tensor. */
static void add_norm(const struct dims *x, double n)
{
	add_rowwise(x, SC_NAME_NORM, n * (3 * x->e), 1);
}

static void embed_forward(const struct dims *x)
{
	double n = x->tokens * x->h;

	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	if (x->traits->learned_positions)
		/* word rows (masked outside the local vocabulary), position rows, their sum */
		add_rowwise(x, SC_NAME_EMBED_LOOKUP, n * (7 * x->e), 4);
	else
		add_rowwise(x, SC_NAME_EMBED_LOOKUP, n * ((x->tp > 1 ? 4 : 2) * x->e), 2);
	add_tp(x, x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE, n, 0);
	if (x->traits->masked_lm) { /* segment rows, norm */
		add_rowwise(x, SC_NAME_EMBED_LOOKUP, n * (4 * x->e), 2);
		add_norm(x, n);
	}
	if (x->dropout)
		add_rowwise(x, SC_NAME_EMBED_DROPOUT, x->tokens_seq * x->h * (2 * x->e + 1), 1);
}

/* Data gradient; gamma and beta gradients in two more passes with partial sums. */
static void add_norm_grad(const struct dims *x, double n)
{
	add_rowwise(x, SC_NAME_NORM_GRAD, n * (10 * x->e), 2);
}

static void embed_backward(const struct dims *x)
{
	struct sc_params params;

	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	if (x->lora)
		return;
	if (x->traits->masked_lm)
		add_norm_grad(x, x->tokens * x->h);
	if (x->sp)
		add_tp(x, SC_ALL_GATHER, x->tokens * x->h, 0);
	/* the dense gradient is zeroed, then rows are added at the tokens' places */
	add_rowwise(x, SC_NAME_EMBED_GRAD,
		    x->tokens * x->h * ((x->traits->learned_positions ? 6 : 3) * x->e), 3);
	add_rowwise(x, SC_NAME_EMBED_GRAD, x->vocab * x->h * x->e, 1);
	sc_transformer_embed_params(x->req, &params);
	accumulate_gradients(x, params.dense, 0);
}

/* A copy of these sizes with the head's rows as tokens, in the storage's precision. */
static struct dims head_dims(const struct dims *x)
{
	struct dims head = *x;

	/* The rows whose logits are computed. */
	head.tokens =
		x->traits->masked_lm && x->sw->mlm_gather ? x->tokens * MASKED_FRACTION : x->tokens;
	head.dtype = x->storage;
	head.quantized = false;
	return head;
}

static struct linear logits_linear(const struct dims *x)
{
	return (struct linear){SC_NAME_LOGITS, x->vocab, x->h, .adapter = false};
}

/* Multi-token prediction (DeepSeek-V3, arXiv:2412.19437, section 2.2): the embedding of the next token and what
 * came before, each normed, joined and projected; its layer is one of its stage's, and the output layer runs again. */
static struct linear mtp_linear(const struct dims *x)
{
	return (struct linear){SC_NAME_MTP_PROJ, x->h / x->tp, 2 * x->h, .adapter = false};
}

static void logits_forward(const struct dims *x)
{
	struct dims head = head_dims(x);
	const struct linear logits = logits_linear(&head);
	double n_logits = head.tokens * x->vocab, f = sc_dtype_bytes(SC_FP32);

	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	if (x->traits->masked_lm) {
		const struct linear transform = {SC_NAME_MLM_TRANSFORM, head.h, head.h,
						 .adapter = false};

		if (head.sw->mlm_gather)
			add_rowwise(&head, SC_NAME_MASKED_GATHER,
				    head.tokens * head.h * (2 * head.e), 2);
		add_linear(&head, &transform);
		add_activation(&head, head.tokens * head.h);
		add_norm(&head, head.tokens * head.h);
	} else
		add_norm(x, x->tokens_seq * x->h);
	if (x->sp)
		add_tp(x, SC_ALL_GATHER, x->tokens * x->h, 0);
	cast_weights(&head, x->vocab * x->h);
	add_linear(&head, &logits);
	/* to fp32; row maximum, subtraction, exponentials, sum, division in place (kept). Fused: one pass
	 * for the statistics, one for the gradient, in place */
	if (x->sw->fused_loss)
		add_rowwise(x, SC_NAME_CROSS_ENTROPY, n_logits * (2 * x->e), 2);
	else
		add_rowwise(x, SC_NAME_CROSS_ENTROPY, n_logits * (x->e + f + 7 * f), 7);
	struct sc_block_comm comm = {
		SC_NAME_LOSS_COMM,
		SC_COMM_TP,
		{SC_ALL_REDUCE, head.tokens * sc_dtype_bytes(SC_FP32), SC_FP32},
		0,
		0,
		0,
		0};

	for (int i = 0; i < 3; i++)
		sc_block_add_comm(x->block, x->env, &comm);
}

static void head_forward(const struct dims *x)
{
	logits_forward(x);
	for (int64_t i = 0; i < x->model->mtp_layers; i++) {
		const struct linear proj = mtp_linear(x);

		embed_forward(x);
		add_norm(x, 2 * x->tokens_seq * x->h);
		add_linear(x, &proj);
		if (x->tp > 1)
			add_tp(x, SC_ALL_GATHER, x->tokens * x->h, 0);
		logits_forward(x);
	}
}

static void logits_backward(const struct dims *x)
{
	struct dims head = head_dims(x);
	const struct linear logits = logits_linear(&head);
	double n_logits = head.tokens * x->vocab, f = sc_dtype_bytes(SC_FP32);

	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	/* probabilities minus targets, times the loss gradient; back to the activations' dtype */
	if (x->sw->fused_loss)
		add_rowwise(x, SC_NAME_CROSS_ENTROPY_GRAD, n_logits * (2 * x->e), 1);
	else
		add_rowwise(x, SC_NAME_CROSS_ENTROPY_GRAD, n_logits * (2 * f + f + x->e), 3);
	enter_region_grad(&head, &logits, 1);
	if (x->traits->masked_lm) {
		const struct linear transform = {SC_NAME_MLM_TRANSFORM, head.h, head.h,
						 .adapter = false};

		add_norm_grad(&head, head.tokens * head.h);
		add_activation_grad(&head, head.tokens * head.h);
		add_dgrad(&head, &transform);
		add_wgrad(&head, &transform);
		if (head.sw->mlm_gather)
			add_rowwise(&head, SC_NAME_MASKED_GATHER,
				    head.tokens * head.h * (2 * head.e), 2);
	} else
		add_norm_grad(x, x->tokens_seq * x->h);
	accumulate_gradients(x, x->vocab * x->h, 0);
}

static void head_backward(const struct dims *x)
{
	for (int64_t i = 0; i < x->model->mtp_layers; i++) {
		logits_backward(x);
		const struct linear proj = mtp_linear(x);

		add_dgrad(x, &proj);
		if (x->tp > 1)
			add_tp(x, x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE, 2 * x->tokens * x->h,
			       0);
		add_wgrad(x, &proj);
		add_norm_grad(x, 2 * x->tokens_seq * x->h);
		embed_backward(x);
		accumulate_gradients(x, proj.n * proj.k, 0);
	}
	logits_backward(x);
}

static void logits_weights(const struct dims *x)
{
	struct dims head = head_dims(x);
	const struct linear logits = logits_linear(&head);
	const struct linear transform = {SC_NAME_MLM_TRANSFORM, head.h, head.h, .adapter = false};

	region_weights(&head, &logits, 1);
	if (x->traits->masked_lm)
		add_wgrad(&head, &transform);
	accumulate_gradients(x, x->vocab * x->h, 0);
}

static void head_weights(const struct dims *x)
{
	const struct linear proj = mtp_linear(x);

	logits_weights(x);
	for (int64_t i = 0; i < x->model->mtp_layers; i++) {
		logits_weights(x);
		add_wgrad(x, &proj);
	}
}

/* Dropout of a sub-layer's output with its bias, and the residual's addition. */
static void bias_dropout_add(const struct dims *x)
{
	double n = x->tokens_seq * x->h, mask = x->dropout ? 1 : 0;

	if (x->sw->fused_chains || (!x->biases && !x->dropout))
		add_rowwise(x, SC_NAME_BIAS_DROPOUT_ADD, n * (3 * x->e + mask), 1);
	else if (x->dropout)
		add_rowwise(x, SC_NAME_BIAS_DROPOUT_ADD, n * (7 * x->e + mask), 3);
	else
		add_rowwise(x, SC_NAME_BIAS_DROPOUT_ADD, n * (5 * x->e), 2);
}

static void bias_dropout_add_backward(const struct dims *x)
{
	double n = x->tokens_seq * x->h;

	/* dropout gradient, then the bias gradient's reduction over tokens */
	if (x->dropout)
		add_rowwise(x, SC_NAME_BIAS_DROPOUT_ADD_GRAD, n * (3 * x->e + 1), 2);
	else if (x->biases)
		add_rowwise(x, SC_NAME_BIAS_DROPOUT_ADD_GRAD, n * x->e, 1);
}

void add_activation(const struct dims *x, double n)
{
	add_rowwise(x, SC_NAME_ACTIVATION, n * ((x->traits->gated ? 3 : 2) * x->e), 1);
}

void add_activation_grad(const struct dims *x, double n)
{
	if (x->traits->gated)
		add_rowwise(x, SC_NAME_ACTIVATION_GRAD, n * (5 * x->e), 1);
	else if (x->biases) /* and the bias gradient's reduction */
		add_rowwise(x, SC_NAME_ACTIVATION_GRAD, n * (4 * x->e), 2);
	else
		add_rowwise(x, SC_NAME_ACTIVATION_GRAD, n * (3 * x->e), 1);
}

static void mlp_inner(const struct dims *x, double ffn)
{
	const struct linear up = up_linear(x, ffn);

	enter_region(x, &up);
	add_activation(x, x->tokens * ffn);
}

void mlp_forward(const struct dims *x, double ffn)
{
	const struct linear down = down_linear(x, ffn);

	mlp_inner(x, ffn);
	leave_region(x, &down);
}

void mlp_backward(const struct dims *x, double ffn)
{
	const struct linear up = up_linear(x, ffn), down = down_linear(x, ffn);

	leave_region_grad(x, &down);
	add_activation_grad(x, x->tokens * ffn);
	enter_region_grad(x, &up, 1);
}

void mlp_weights(const struct dims *x, double ffn)
{
	const struct linear up = up_linear(x, ffn), down = down_linear(x, ffn);

	add_wgrad(x, &down);
	region_weights(x, &up, 1);
}

/* Of queries and of keys, by a kernel each. */
static void norm_heads(const struct dims *x, void (*norm)(const struct dims *, double))
{
	if (x->model->qk_norm <= 0)
		return;
	norm(x, x->tokens * x->heads * x->d);
	norm(x, x->tokens * x->kv_heads * x->d);
}

/* Up to the feed-forward part. */
static void attention_half(const struct dims *x)
{
	struct linear qkv[MAX_LINEARS], proj = proj_linear(x);
	int n_qkv = qkv_linears(x, qkv);
	double n = x->tokens_seq * x->h;

	x->block->scope = SC_GRAPH_ATTN;
	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	add_norm(x, n);
	enter_region(x, &qkv[0]);
	for (int i = 1; i < n_qkv; i++)
		add_linear(x, &qkv[i]);
	if (n_qkv > 1) /* norms of the latents */
		add_norm(x, x->tokens * (double)(x->model->q_lora_rank + x->model->kv_lora_rank));
	norm_heads(x, add_norm);
	attention_forward(x);
	leave_region(x, &proj);
	bias_dropout_add(x);
	add_norm(x, n);
}

static void layer_forward(const struct dims *x, bool has_experts)
{
	if (has_experts)
		exchange_beside(x);
	attention_half(x);
	x->block->scope = SC_GRAPH_MLP;
	if (has_experts)
		experts_forward(x);
	else
		mlp_forward(x, x->ffn);
	bias_dropout_add(x);
}

/* Nothing needs the output of the last matrix product again: PyTorch's checkpoint without reentry
 * stops when all saved tensors are there. */
static void layer_again(const struct dims *x, bool has_experts)
{
	if (!x->sw->recompute_early_stop || has_experts) {
		layer_forward(x, has_experts);
		return;
	}
	attention_half(x);
	mlp_inner(x, x->ffn);
}

/* What a per-op policy runs again: norms, rotations and activation, and of the matrix products every
 * second one: keys, projection, one of the gates (torchtitan, activation_checkpoint.py: in the order
 * q, k, v, o, w1, w3, w2). Grouped products and exchanges of tokens are not on its list of what stays. */
static void recompute_ops(const struct dims *x, bool has_experts)
{
	struct linear proj = proj_linear(x), gate = up_linear(x, x->ffn);

	gate.n /= x->gates;
	add_norm(x, 2 * x->tokens_seq * x->h);
	add_gemm(x, SC_NAME_QKV, (struct mnk){x->tokens, x->kv_heads * x->d, x->h});
	add_linear(x, &proj);
	if (has_experts) {
		experts_forward(x);
		return;
	}
	add_linear(x, &gate);
	add_activation(x, x->tokens * x->ffn);
}

/* Attention's core is run again where its backward is. */
static void modules_again(const struct dims *x, bool has_experts)
{
	if (sc_recomputes(x->req, SC_RECOMPUTE_NORMS)) {
		/* Norms fused with the product behind them are none of their own, as those of layers without experts often are. */
		add_norm(x, (has_experts || x->sw->norms_apart ? 2 : 1) * x->tokens_seq * x->h);
	}
	if (sc_recomputes(x->req, SC_RECOMPUTE_MLA_UP) && sc_model_is_mla(x->model)) {
		/* Keys, values and queries from their latents, and their norms and rotations (Megatron Core,
		 * multi_latent_attention.py). */
		struct linear qkv[MAX_LINEARS];
		int n_qkv = qkv_linears(x, qkv);

		for (int i = 0; i < n_qkv; i++)
			if (qkv[i].name == SC_NAME_Q_UP || qkv[i].name == SC_NAME_KV_UP)
				add_linear(x, &qkv[i]);
		add_norm(x, x->tokens * (double)(x->model->q_lora_rank + x->model->kv_lora_rank));
		rotary(x, SC_NAME_ROPE);
	}
	for (int i = 0; x->dropout && sc_recomputes(x->req, SC_RECOMPUTE_DROPOUT) && i < 2; i++)
		bias_dropout_add(x);
	if (!has_experts) {
		if (sc_recomputes(x->req, SC_RECOMPUTE_MLP))
			mlp_forward(x, x->ffn);
		else if (sc_recomputes(x->req, SC_RECOMPUTE_MLP_ACT))
			add_activation(x, x->tokens * x->ffn);
		return;
	}
	if (sc_recomputes(x->req, SC_RECOMPUTE_MOE)) {
		experts_forward(x);
		return;
	}
	if (sc_recomputes(x->req, SC_RECOMPUTE_MOE_ACT))
		experts_activation(x);
	if (sc_recomputes(x->req, SC_RECOMPUTE_SHARED_EXPERTS) && x->model->shared_experts > 0)
		mlp_forward(x, shared_width(x));
}

static void recompute(const struct dims *x, bool has_experts)
{
	int mode = x->req->config.training.recompute;
	size_t first = x->block->steps.n;

	if (mode == SC_RECOMPUTE_FULL) {
		if (sc_checkpoint_ranks(x->req) > 1)
			add_tp(x, SC_ALL_GATHER, x->tokens * x->h, 0);
		layer_again(x, has_experts);
		sc_block_share(x->block, first, sc_recompute_frac(x->req));
	} else if (mode == SC_RECOMPUTE_SELECTIVE && x->sw->selective == SC_SELECTIVE_OPS) {
		recompute_ops(x, has_experts);
	} else {
		modules_again(x, has_experts);
	}
}

static void layer_backward(const struct dims *x, bool has_experts)
{
	struct linear qkv[MAX_LINEARS], proj = proj_linear(x);
	int n_qkv = qkv_linears(x, qkv);
	double n = x->tokens_seq * x->h;
	struct sc_params params;

	recompute(x, has_experts);
	if (has_experts)
		exchange_beside(x);
	x->block->scope = SC_GRAPH_MLP;
	add_host(x, SC_NAME_LAYER_HOST, x->sw->host_layer_us);
	bias_dropout_add_backward(x);
	if (has_experts)
		experts_backward(x);
	else
		mlp_backward(x, x->ffn);
	x->block->scope = SC_GRAPH_ATTN;
	add_norm_grad(x, n);
	add_rowwise(x, SC_NAME_RESIDUAL_GRAD, n * (3 * x->e), 1);
	bias_dropout_add_backward(x);
	leave_region_grad(x, &proj);
	attention_backward(x);
	norm_heads(x, add_norm_grad);
	if (n_qkv > 1)
		add_norm_grad(x,
			      x->tokens * (double)(x->model->q_lora_rank + x->model->kv_lora_rank));
	enter_region_grad(x, qkv, n_qkv);
	add_norm_grad(x, n);
	add_rowwise(x, SC_NAME_RESIDUAL_GRAD, n * (3 * x->e), 1);
	sc_transformer_layer_params(x->req, !has_experts, &params);
	accumulate_gradients(x, params.dense, params.expert);
}

/* The inputs and gradients that backward of the input has left are multiplied. */
static void layer_weights(const struct dims *x, bool has_experts)
{
	struct linear qkv[MAX_LINEARS], proj = proj_linear(x);
	int n_qkv = qkv_linears(x, qkv);
	struct sc_params params;

	if (has_experts)
		experts_weights(x);
	else
		mlp_weights(x, x->ffn);
	add_wgrad(x, &proj);
	region_weights(x, qkv, n_qkv);
	sc_transformer_layer_params(x->req, !has_experts, &params);
	accumulate_gradients(x, params.dense, params.expert);
}

static void whole_layer_forward(const struct dims *x, bool has_experts)
{
	struct sc_params params;

	sc_transformer_layer_params(x->req, !has_experts, &params);
	cast_weights(x, params.dense + params.expert);
	layer_forward(x, has_experts);
}

/* What a block runs: one part of the model, or a layer. */
static const struct {
	void (*part)(const struct dims *x);
	void (*layer)(const struct dims *x, bool has_experts);
	bool dense; /* without experts, of a mixture too */
} BLOCKS[SC_N_BLOCKS] = {
	[SC_BLOCK_EMBED_F] = {.part = embed_forward},
	[SC_BLOCK_DENSE_F] = {.layer = whole_layer_forward, .dense = true},
	[SC_BLOCK_LAYER_F] = {.layer = whole_layer_forward},
	[SC_BLOCK_HEAD_F] = {.part = head_forward},
	[SC_BLOCK_HEAD_B] = {.part = head_backward},
	[SC_BLOCK_LAYER_B] = {.layer = layer_backward},
	[SC_BLOCK_DENSE_B] = {.layer = layer_backward, .dense = true},
	[SC_BLOCK_EMBED_B] = {.part = embed_backward},
	[SC_BLOCK_HEAD_I] = {.part = head_backward},
	[SC_BLOCK_LAYER_I] = {.layer = layer_backward},
	[SC_BLOCK_DENSE_I] = {.layer = layer_backward, .dense = true},
	[SC_BLOCK_HEAD_W] = {.part = head_weights},
	[SC_BLOCK_LAYER_W] = {.layer = layer_weights},
	[SC_BLOCK_DENSE_W] = {.layer = layer_weights, .dense = true},
};

void sc_transformer_block(const struct sc_block_env *env, enum sc_block_id id, double samples,
			  struct sc_block *out)
{
	struct dims x = dims_of(env->request, env, samples, out);

	sc_block_clear(out);
	x.inputs_only = id >= SC_BLOCK_HEAD_I && id <= SC_BLOCK_DENSE_I;
	if (BLOCKS[id].part)
		BLOCKS[id].part(&x);
	if (BLOCKS[id].layer)
		BLOCKS[id].layer(&x, !BLOCKS[id].dense && sc_model_is_moe(x.model));
}
