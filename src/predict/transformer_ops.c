/* The ops of a GPT layer, embedding and head, forward and backward, as Megatron-style stacks run
 * them (Shoeybi et al. 2019; Korthikanti et al. 2022 for sequence parallelism and selective
 * recomputation). Memory-bound ops are given by the tensors they read and write. */
#include "predict/transformer_ops.h"

#include <math.h>

#include "predict/op_names.h"

/* Sizes on one tensor-parallel rank. */
struct dims {
	const struct sc_request *req;
	const struct sc_block_env *env;
	struct sc_block *block;
	enum sc_dtype dtype;
	double e; /* bytes of an activation element */
	double b, s, tokens;
	double tokens_seq; /* tokens outside the tensor-parallel region: / tp with sequence parallel */
	double h, heads, d, q, kv, ffn, vocab; /* q, kv: widths of the local projections */
	bool sp;
};

static void dims_init(struct dims *x, const struct sc_request *req, const struct sc_block_env *env,
		      double samples, struct sc_block *block)
{
	const struct sc_model *m = &req->config.model;
	double tp = (double)req->config.parallel.tp;
	double kv_heads = fmax((double)m->kv_heads / tp, 1);

	*x = (struct dims){.req = req, .env = env, .block = block, .b = samples};
	x->dtype = sc_precision_dtype(req->config.training.precision);
	x->e = sc_dtype_bytes(sc_storage_dtype(req->config.training.precision));
	x->sp = req->config.parallel.sequence_parallel && tp > 1;
	x->s = (double)m->seq;
	x->tokens = samples * x->s;
	x->tokens_seq = x->sp ? x->tokens / tp : x->tokens;
	x->h = (double)m->hidden;
	x->heads = (double)m->heads / tp;
	x->d = x->h / (double)m->heads;
	x->q = x->h / tp;
	x->kv = kv_heads * x->d;
	x->ffn = (double)m->ffn_hidden / tp;
	x->vocab = sc_transformer_padded_vocab(req) / tp;
}

static enum sc_dtype attention_dtype(const struct dims *x)
{
	return sc_storage_dtype(x->req->config.training.precision);
}

static void gemm(const struct dims *x, enum sc_op_name name, double m, double n, double k)
{
	struct sc_op op = {SC_OP_GEMM, x->dtype, {.gemm = {.batch = 1, .m = m, .n = n, .k = k}}};

	sc_block_add_op(x->block, x->env, (uint16_t)name, &op);
}

static void weight_gradient(const struct dims *x, enum sc_op_name name, double n, double k)
{
	struct sc_op op = {SC_OP_GEMM,
			   x->dtype,
			   {.gemm = {.batch = 1,
				     .m = k,
				     .n = n,
				     .k = x->tokens,
				     .accumulate = x->env->software->fused_grad_accumulation}}};

	sc_block_add_op(x->block, x->env, (uint16_t)name, &op);
}

static void batched_gemm(const struct dims *x, enum sc_op_name name, double m, double n, double k)
{
	struct sc_op op = {
		SC_OP_GEMM,
		attention_dtype(x),
		{.gemm = {.batch = x->b * x->heads, .m = m, .n = n, .k = k, .bmm = true}}};

	sc_block_add_op(x->block, x->env, (uint16_t)name, &op);
}

/* A memory-bound op by the bytes it reads and writes per element of an n-element tensor. */
static void rowwise(const struct dims *x, enum sc_op_name name, double n, double bytes_per_element,
		    int n_kernels)
{
	struct sc_op op = {
		SC_OP_ROWWISE,
		x->dtype,
		{.rowwise = {.read_bytes = n * bytes_per_element, .n_kernels = n_kernels}}};

	sc_block_add_op(x->block, x->env, (uint16_t)name, &op);
}

static void tp_comm(const struct dims *x, enum sc_collective kind, double n, int n_hidden)
{
	static const enum sc_op_name NAMES[SC_N_COLLECTIVES] = {
		[SC_ALL_REDUCE] = SC_NAME_TP_ALL_REDUCE,
		[SC_ALL_GATHER] = SC_NAME_TP_ALL_GATHER,
		[SC_REDUCE_SCATTER] = SC_NAME_TP_REDUCE_SCATTER,
	};
	struct sc_collective_shape shape = {kind, n * x->e, attention_dtype(x)};

	sc_block_add_tp(x->block, x->env, (uint16_t)NAMES[kind], &shape, n_hidden);
}

/* Into and out of a tensor-parallel region, forward. */
static void enter_region(const struct dims *x)
{
	if (x->sp)
		tp_comm(x, SC_ALL_GATHER, x->tokens * x->h, 0);
}

static void leave_region(const struct dims *x)
{
	tp_comm(x, x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE, x->tokens * x->h, 0);
}

/* Scores, softmax, dropout: the part that selective recomputation runs again. */
static void attention_core(const struct dims *x)
{
	const struct sc_software *sw = x->env->software;
	double n_scores = x->b * x->heads * x->s * x->s;

	batched_gemm(x, SC_NAME_SCORES, x->s, x->s, x->d);
	/* fused scale, mask, softmax: read and write once; else scale, mask (byte mask), softmax apart */
	if (sw->fused_softmax)
		rowwise(x, SC_NAME_SOFTMAX, n_scores, 2 * x->e, 1);
	else
		rowwise(x, SC_NAME_SOFTMAX, n_scores, 6 * x->e + 1, 3);
	if (sw->dropout > 0)
		rowwise(x, SC_NAME_ATTENTION_DROPOUT, n_scores, 2 * x->e + 1, 1);
	batched_gemm(x, SC_NAME_CONTEXT, x->s, x->d, x->s);
}

static void attention_forward(const struct dims *x)
{
	struct sc_op flash = {SC_OP_ATTENTION,
			      attention_dtype(x),
			      {.attention = {.batch = x->b,
					     .heads = x->heads,
					     .kv_heads = x->kv / x->d,
					     .seq_q = x->s,
					     .seq_kv = x->s,
					     .head_dim = x->d,
					     .causal = true}}};

	if (x->req->config.training.attention == SC_ATT_FLASH) {
		sc_block_add_op(x->block, x->env, SC_NAME_FLASH, &flash);
		return;
	}
	rowwise(x, SC_NAME_QKV_LAYOUT, x->tokens * (x->q + 2 * x->kv), 2 * x->e, 2);
	attention_core(x);
	rowwise(x, SC_NAME_CONTEXT_LAYOUT, x->tokens * x->q, 2 * x->e, 1);
}

static void bias_dropout_add(const struct dims *x)
{
	const struct sc_software *sw = x->env->software;
	double n = x->tokens_seq * x->h;
	double mask = sw->dropout > 0 ? 1 : 0;

	if (sw->fused_bias_dropout)
		rowwise(x, SC_NAME_BIAS_DROPOUT_ADD, n, 3 * x->e + mask, 1);
	else if (sw->dropout > 0)
		rowwise(x, SC_NAME_BIAS_DROPOUT_ADD, n, 7 * x->e + mask, 3);
	else
		rowwise(x, SC_NAME_BIAS_DROPOUT_ADD, n, 5 * x->e, 2);
}

static void layer_forward(const struct dims *x)
{
	const struct sc_software *sw = x->env->software;
	double n = x->tokens_seq * x->h;

	sc_block_add_host(x->block, x->env, SC_NAME_LAYER_HOST, sw->host_layer_us);
	rowwise(x, SC_NAME_LAYER_NORM, n, 3 * x->e, 1);
	enter_region(x);
	gemm(x, SC_NAME_QKV, x->tokens, x->q + 2 * x->kv, x->h);
	attention_forward(x);
	gemm(x, SC_NAME_PROJ, x->tokens, x->h, x->q);
	leave_region(x);
	bias_dropout_add(x);
	rowwise(x, SC_NAME_LAYER_NORM, n, 3 * x->e, 1);
	enter_region(x);
	gemm(x, SC_NAME_MLP_UP, x->tokens, x->ffn, x->h);
	rowwise(x, SC_NAME_BIAS_GELU, x->tokens * x->ffn, (sw->fused_bias_gelu ? 2 : 4) * x->e,
		sw->fused_bias_gelu ? 1 : 2);
	gemm(x, SC_NAME_MLP_DOWN, x->tokens, x->h, x->ffn);
	leave_region(x);
	bias_dropout_add(x);
}

static void attention_backward(const struct dims *x)
{
	const struct sc_software *sw = x->env->software;
	double n_scores = x->b * x->heads * x->s * x->s;
	struct sc_op flash = {SC_OP_ATTENTION,
			      attention_dtype(x),
			      {.attention = {.batch = x->b,
					     .heads = x->heads,
					     .kv_heads = x->kv / x->d,
					     .seq_q = x->s,
					     .seq_kv = x->s,
					     .head_dim = x->d,
					     .causal = true,
					     .backward = true}}};

	if (x->req->config.training.attention == SC_ATT_FLASH) {
		sc_block_add_op(x->block, x->env, SC_NAME_FLASH_GRAD, &flash);
		return;
	}
	if (x->req->config.training.recompute == SC_RECOMPUTE_SELECTIVE)
		attention_core(x);
	rowwise(x, SC_NAME_CONTEXT_LAYOUT, x->tokens * x->q, 2 * x->e, 1);
	batched_gemm(x, SC_NAME_CONTEXT_DGRAD, x->s, x->s, x->d);
	batched_gemm(x, SC_NAME_CONTEXT_DGRAD, x->s, x->d, x->s);
	if (sw->dropout > 0)
		rowwise(x, SC_NAME_ATTENTION_DROPOUT_GRAD, n_scores, 2 * x->e + 1, 1);
	if (sw->fused_softmax)
		rowwise(x, SC_NAME_SOFTMAX_GRAD, n_scores, 3 * x->e, 1);
	else
		rowwise(x, SC_NAME_SOFTMAX_GRAD, n_scores, 7 * x->e + 1, 3);
	batched_gemm(x, SC_NAME_SCORES_DGRAD, x->s, x->d, x->s);
	batched_gemm(x, SC_NAME_SCORES_DGRAD, x->s, x->d, x->s);
	rowwise(x, SC_NAME_QKV_LAYOUT, x->tokens * (x->q + 2 * x->kv), 2 * x->e, 2);
}

static void bias_dropout_add_backward(const struct dims *x)
{
	double n = x->tokens_seq * x->h;

	/* dropout gradient, then the bias gradient's reduction over tokens */
	if (x->env->software->dropout > 0)
		rowwise(x, SC_NAME_BIAS_DROPOUT_ADD_GRAD, n, 3 * x->e + 1, 2);
	else
		rowwise(x, SC_NAME_BIAS_DROPOUT_ADD_GRAD, n, x->e, 1);
}

/* Data and weight gradient of a column-parallel layer (input gathered forward), n outputs. */
static void column_backward(const struct dims *x, const enum sc_op_name name[2], double n)
{
	bool hide = x->sp || x->env->software->tp_dgrad_overlap;

	if (x->sp) /* the input is gathered again for the weight gradient, behind the data gradient */
		tp_comm(x, SC_ALL_GATHER, x->tokens * x->h, hide ? 1 : 0);
	gemm(x, name[0], x->tokens, x->h, n);
	tp_comm(x, x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE, x->tokens * x->h, hide ? 1 : 0);
	weight_gradient(x, name[1], n, x->h);
}

/* Data and weight gradient of a row-parallel layer, k inputs. */
static void row_backward(const struct dims *x, const enum sc_op_name name[2], double k)
{
	if (x->sp)
		tp_comm(x, SC_ALL_GATHER, x->tokens * x->h, 0);
	gemm(x, name[0], x->tokens, k, x->h);
	weight_gradient(x, name[1], x->h, k);
}

/* Adding the micro-batch's weight gradients to those so far. */
static void accumulate_gradients(const struct dims *x, double params)
{
	const struct sc_software *sw = x->env->software;
	double micro_batches = (double)x->req->n_micro_batches;

	if (x->req->config.training.trainable != SC_TRAIN_ALL)
		return;
	if (sw->grad_accumulate_fp32 && !sw->fused_grad_accumulation)
		rowwise(x, SC_NAME_GRAD_ACCUMULATE, params, x->e + 8, 12);
	else if (!sw->fused_grad_accumulation && micro_batches > 1)
		rowwise(x, SC_NAME_GRAD_ACCUMULATE, params, 3 * x->e, 12);
}

static void layer_backward(const struct dims *x)
{
	static const enum sc_op_name DOWN[2] = {SC_NAME_MLP_DOWN_DGRAD, SC_NAME_MLP_DOWN_WGRAD},
				     UP[2] = {SC_NAME_MLP_UP_DGRAD, SC_NAME_MLP_UP_WGRAD},
				     PROJ[2] = {SC_NAME_PROJ_DGRAD, SC_NAME_PROJ_WGRAD},
				     QKV[2] = {SC_NAME_QKV_DGRAD, SC_NAME_QKV_WGRAD};
	const struct sc_software *sw = x->env->software;
	double n = x->tokens_seq * x->h;

	if (x->req->config.training.recompute == SC_RECOMPUTE_FULL) {
		sc_block_add_host(x->block, x->env, SC_NAME_RECOMPUTE_HOST, sw->host_recompute_us);
		layer_forward(x);
	}
	sc_block_add_host(x->block, x->env, SC_NAME_LAYER_HOST, sw->host_layer_us);
	bias_dropout_add_backward(x);
	row_backward(x, DOWN, x->ffn);
	/* gelu gradient and the bias gradient's reduction */
	rowwise(x, SC_NAME_BIAS_GELU_GRAD, x->tokens * x->ffn, 4 * x->e, 2);
	column_backward(x, UP, x->ffn);
	/* data gradient; gamma and beta gradients in two more passes with partial sums */
	rowwise(x, SC_NAME_LAYER_NORM_GRAD, n, 10 * x->e, 2);
	rowwise(x, SC_NAME_RESIDUAL_GRAD, n, 3 * x->e, 1);
	bias_dropout_add_backward(x);
	row_backward(x, PROJ, x->q);
	attention_backward(x);
	column_backward(x, QKV, x->q + 2 * x->kv);
	rowwise(x, SC_NAME_LAYER_NORM_GRAD, n, 10 * x->e, 2);
	rowwise(x, SC_NAME_RESIDUAL_GRAD, n, 3 * x->e, 1);
	accumulate_gradients(x, sc_transformer_layer_params(x->req));
}

static void embed_forward(const struct dims *x)
{
	double n = x->tokens * x->h;

	sc_block_add_host(x->block, x->env, SC_NAME_LAYER_HOST, x->env->software->host_layer_us);
	/* word rows (masked outside the local vocabulary), position rows, their sum */
	rowwise(x, SC_NAME_EMBED_LOOKUP, n, 7 * x->e, 4);
	tp_comm(x, x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE, n, 0);
	if (x->env->software->dropout > 0)
		rowwise(x, SC_NAME_EMBED_DROPOUT, x->tokens_seq * x->h, 2 * x->e + 1, 1);
}

static void embed_backward(const struct dims *x)
{
	sc_block_add_host(x->block, x->env, SC_NAME_LAYER_HOST, x->env->software->host_layer_us);
	if (x->sp)
		tp_comm(x, SC_ALL_GATHER, x->tokens * x->h, 0);
	/* the dense gradient is zeroed, then rows are added at the tokens' places */
	rowwise(x, SC_NAME_EMBED_GRAD, x->tokens * x->h, 6 * x->e, 3);
	rowwise(x, SC_NAME_EMBED_GRAD, x->vocab * x->h, x->e, 1);
	accumulate_gradients(x, sc_transformer_embed_params(x->req));
}

static void loss_comm(const struct dims *x, int n)
{
	struct sc_collective_shape shape = {SC_ALL_REDUCE, x->tokens * sc_dtype_bytes(SC_FP32),
					    SC_FP32};

	for (int i = 0; i < n; i++)
		sc_block_add_tp(x->block, x->env, SC_NAME_LOSS_COMM, &shape, 0);
}

static void head_forward(const struct dims *x)
{
	double n_logits = x->tokens * x->vocab, f = sc_dtype_bytes(SC_FP32);

	sc_block_add_host(x->block, x->env, SC_NAME_LAYER_HOST, x->env->software->host_layer_us);
	rowwise(x, SC_NAME_LAYER_NORM, x->tokens_seq * x->h, 3 * x->e, 1);
	enter_region(x);
	gemm(x, SC_NAME_LOGITS, x->tokens, x->vocab, x->h);
	/* to fp32; row maximum, subtraction, exponentials, sum, division in place (kept) */
	rowwise(x, SC_NAME_CROSS_ENTROPY, n_logits, x->e + f + 7 * f, 7);
	loss_comm(x, 3);
}

static void head_backward(const struct dims *x)
{
	static const enum sc_op_name NAMES[2] = {SC_NAME_LOGITS_DGRAD, SC_NAME_LOGITS_WGRAD};
	double n_logits = x->tokens * x->vocab, f = sc_dtype_bytes(SC_FP32);

	sc_block_add_host(x->block, x->env, SC_NAME_LAYER_HOST, x->env->software->host_layer_us);
	/* probabilities minus targets, times the loss gradient; back to the activations' dtype */
	rowwise(x, SC_NAME_CROSS_ENTROPY_GRAD, n_logits, 2 * f + f + x->e, 3);
	column_backward(x, NAMES, x->vocab);
	rowwise(x, SC_NAME_LAYER_NORM_GRAD, x->tokens_seq * x->h, 10 * x->e, 2);
}

void sc_transformer_block(const struct sc_request *request, const struct sc_block_env *env,
			  enum sc_block_id id, double samples, struct sc_block *out)
{
	static void (*const BUILD[SC_N_BLOCKS])(const struct dims *) = {
		[SC_BLOCK_EMBED_F] = embed_forward,  [SC_BLOCK_LAYER_F] = layer_forward,
		[SC_BLOCK_HEAD_F] = head_forward,    [SC_BLOCK_HEAD_B] = head_backward,
		[SC_BLOCK_LAYER_B] = layer_backward, [SC_BLOCK_EMBED_B] = embed_backward,
	};
	struct dims x;

	sc_block_clear(out);
	dims_init(&x, request, env, samples, out);
	BUILD[id](&x);
}

double sc_transformer_padded_vocab(const struct sc_request *request)
{
	double tp = (double)request->config.parallel.tp, unit = 128 * tp;
	double vocab = (double)request->config.model.vocab;

	if (!request->software.pad_vocab && tp < 2)
		return vocab;
	return ceil(vocab / unit) * unit;
}

double sc_transformer_layer_params(const struct sc_request *request)
{
	struct dims x;

	dims_init(&x, request, NULL, 1, NULL);
	return x.h * (x.q + 2 * x.kv) + x.q * x.h + 2 * x.h * x.ffn /* matrices */
	       + (x.q + 2 * x.kv) + x.ffn + 2 * x.h + 4 * x.h;      /* biases, norms */
}

double sc_transformer_word_params(const struct sc_request *request)
{
	return sc_transformer_padded_vocab(request) / (double)request->config.parallel.tp *
	       (double)request->config.model.hidden;
}

double sc_transformer_embed_params(const struct sc_request *request)
{
	struct dims x;

	dims_init(&x, request, NULL, 1, NULL);
	return (x.vocab + x.s) * x.h;
}

double sc_transformer_model_flop(const struct sc_request *request)
{
	const struct sc_model *m = &request->config.model;
	double s = (double)m->seq, h = (double)m->hidden, layers = (double)m->layers;
	double kv = h * (double)m->kv_heads / (double)m->heads;
	double linear = h * (h + 2 * kv) + h * h + 2 * h * (double)m->ffn_hidden;

	return 3 * (2 * s * (layers * linear + h * (double)m->vocab) + layers * 4 * s * s * h);
}

/* Weights narrower than fp32 have a master copy. */
static bool has_master(const struct sc_request *request)
{
	return sc_dtype_bytes(sc_storage_dtype(request->config.training.precision)) <
	       sc_dtype_bytes(SC_FP32);
}

/* Bytes an update reads and writes per parameter: fp32 gradient read; weight and moments read and
 * written in fp32; working copy written if it is not the master. */
static double update_bytes(const struct sc_request *request)
{
	double f = sc_dtype_bytes(SC_FP32);
	double moments = request->config.training.optimizer == SC_OPT_ADAM ? 2 : 1;

	return f + (1 + moments) * 2 * f +
	       (has_master(request)
			? sc_dtype_bytes(sc_storage_dtype(request->config.training.precision))
			: 0);
}

void sc_transformer_optimizer(const struct sc_request *request, const struct sc_block_env *env,
			      double params, double updated, struct sc_block *out)
{
	const struct sc_software *sw = env->software;
	double f = sc_dtype_bytes(SC_FP32);
	double tensors =
		12 * (double)request->config.model.layers / (double)request->config.parallel.pp;
	int n = sw->fused_optimizer ? 4 : (int)tensors;
	struct dims x;

	sc_block_clear(out);
	dims_init(&x, request, env, 1, out);
	if (request->config.training.optimizer == SC_OPT_NONE)
		return;
	if (has_master(request)) /* to fp32 master gradients, scaled; checked for infinities */
		rowwise(&x, SC_NAME_GRAD_CHECK, params, sc_grad_bytes(request) + 2 * f, n);
	rowwise(&x, SC_NAME_GRAD_NORM, updated, f, n);
	/* clipping scales the gradients once more */
	rowwise(&x, SC_NAME_GRAD_NORM, updated, 2 * f, n);
	struct sc_op op = {
		SC_OP_OPTIMIZER,
		SC_FP32,
		{.rowwise = {.read_bytes = updated * update_bytes(request), .n_kernels = n}}};
	sc_block_add_op(out, env, SC_NAME_OPTIMIZER, &op);
	/* gradients are zeroed for the next iteration */
	rowwise(&x, SC_NAME_GRAD_ZERO, params, sc_grad_bytes(request), n);
}
