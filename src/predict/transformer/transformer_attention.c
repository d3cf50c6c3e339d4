/* Attention between its projections: rotary positions, flash or unfused, over one rank or as a ring
 * of context-parallel ranks (Liu et al., Ring Attention, 2023; balanced by pairing early and late
 * chunks of a causal sequence, as in Megatron Core and torchtitan), or over heads. */
#include <math.h>

#include "predict/transformer/transformer_priv.h"

static void rotate(const struct dims *x, enum sc_op_name name, bool absorbs)
{
	double q = x->heads * x->d, k = x->kv_heads * x->d;

	if (!x->traits->rope)
		return;
	if (absorbs && x->model->rope_head_dim > 0) {
		q = x->heads * (double)x->model->rope_head_dim;
		k = (double)x->model->rope_head_dim;
	} else if (sc_model_is_mla(x->model)) { /* each head has its part, and all one key */
		q = x->heads * (double)x->model->rope_head_dim;
		k = (double)x->model->rope_head_dim;
		/* Latent attention joins keys from what is expanded and the rotated part, which all
		 * heads share, and copies values to lie together, in one kernel (Megatron Core,
		 * fused_mla_yarn_rope_apply.py). Backward splits them again. */
		double own = x->d - (double)x->model->rope_head_dim;
		double keys = own + x->d, values = 2 * x->d_v;

		add_rowwise(x, SC_NAME_QKV_LAYOUT, x->tokens * x->heads * x->e * (keys + values),
			    1);
	}
	if (x->sw->fused_chains)
		add_rowwise(x, name, x->tokens * (q + k) * (2 * x->e), 2);
	else /* half is swapped, negated, joined; times cosine and sine; added */
		add_rowwise(x, name, x->tokens * (q + k) * (10 * x->e), 10);
}

void rotary(const struct dims *x, const struct part *p)
{
	rotate(x, SC_NAME_ROPE, sc_mixer_is_sparse(p->mixer));
}

void rotary_grad(const struct dims *x, const struct part *p)
{
	rotate(x, SC_NAME_ROPE_GRAD, sc_mixer_is_sparse(p->mixer));
}

static bool model_has_windows(const struct dims *x)
{
	return x->model->sliding_window > 0 && (double)x->model->sliding_window < x->s_all;
}

/* Returns how many keys a query reaches back, itself included; 0: all. */
static double window_of(const struct dims *x)
{
	return x->all_keys || !model_has_windows(x) ? 0 : (double)x->model->sliding_window;
}

#define NARROW_HEAD 128.0

/* Says whether attention multiplies in fp8. Before Blackwell that gains nothing over 16 bits once
 * casts and the backward pass are counted (LoRA iterations on H100 and H200, 60 rows). Wider heads
 * than 128 ask for it from Blackwell Ultra on (Megatron-Bridge's recipes of DeepSeek-V3); with a
 * window there is none (Transformer Engine, get_attention_backend), nor with sinks, nor in such a
 * model's layers without: with it there five rows of gpt-oss in mxfp8 are 1 to 2 points farther
 * from measured. */
static bool in_fp8(const struct dims *x)
{
	int capability = (int)x->env->device->cuda_capability;
	enum sc_precision precision = x->req->config.training.precision;
	bool asked = (precision == SC_P_MXFP8 && (x->lora || sc_model_is_moe(x->model))) ||
		     (precision == SC_P_FP8 && x->lora) ||
		     (precision == SC_P_NVFP4 && (x->lora || x->req->config.parallel.cp < 2));

	return x->sw->mx_fp8_attention && x->quantized && asked && !model_has_windows(x) &&
	       x->model->attention_sinks <= 0 &&
	       capability >= (x->d > NARROW_HEAD ? BLACKWELL_ULTRA : BLACKWELL);
}

/* The keys that the rank's queries read: all up to themselves, or `n` up to `gap` tokens before. */
struct keys {
	double n, gap;
	bool causal;
};

#define TILE_EDGES 128.0 /* keys of a window's first and last tile, which a query reads in part */

/* Adds a flash kernel over s queries. Where queries look both ways, the window lies around them. */
static void add_flash(const struct dims *x, const struct keys *keys, bool backward)
{
	double window = window_of(x);
	struct sc_op flash = {SC_OP_ATTENTION,
			      in_fp8(x) ? SC_FP8 : x->storage,
			      {.attention = {.batch = x->b,
					     .heads = x->heads,
					     .kv_heads = x->kv_heads,
					     .seq_q = x->s,
					     .seq_kv = keys->n,
					     .head_dim = (x->d + x->d_v) / 2,
					     .causal = keys->causal,
					     .backward = backward}}};

	if (window > 0 && x->traits->causal) {
		flash.u.attention.window = window;
		flash.u.attention.gap = keys->gap;
	} else if (window > 0)
		flash.u.attention.seq_kv = fmin(keys->n, window + TILE_EDGES - keys->gap);
	if (!(window > 0 && keys->gap >= window))
		sc_block_add_op(x->block, x->env, backward ? SC_NAME_FLASH_GRAD : SC_NAME_FLASH,
				&flash);
}

static void add_whole_flash(const struct dims *x, bool backward)
{
	add_flash(x, &(struct keys){.n = x->s, .causal = x->traits->causal}, backward);
}

/* Adds what travels beside a step of the ring: the next one's keys and values; backward also the
 * gradients of the step before, which are home after the last one (Transformer Engine,
 * AttnFuncWithCPAndKVP2P). */
static void ring_transfer(const struct dims *x, int step, bool backward, int n_hidden)
{
	int last = (int)x->req->config.parallel.cp - 1;
	int n = (step < last) + (backward && step > 0);
	double n_kv = x->tokens * x->kv_heads * (x->d + x->d_v);
	struct sc_block_comm comm = {SC_NAME_RING_SEND_RECV,
				     SC_COMM_CP,
				     {SC_SEND_RECV, n * n_kv * x->e, x->storage},
				     n_hidden,
				     0,
				     0,
				     0};

	if (n > 0)
		sc_block_add_comm(x->block, x->env, &comm);
}

/* Joins what the steps of a ring leave (Transformer Engine, AttnFuncWithCPAndKVP2P): outputs,
 * weighed by their sums of exponentials, and gradients of queries are copied from the first step
 * and added from the others. Keys and values are copied to lie together before they travel, their
 * gradients at each step, to be added to those that come by. */
static void join_steps(const struct dims *x, bool backward)
{
	double n = (double)x->req->config.parallel.cp;
	double adds = 3 * n - 1, copies = backward ? 2 * n + 2 + adds : 2;
	double kv = x->kv_heads * (x->d + x->d_v), own = backward ? x->heads * x->d : x->ctx;

	add_rowwise(x, SC_NAME_RING_JOIN, x->tokens * (own * adds + kv * copies) * x->e,
		    (int)n * (backward ? 3 : 1) + 1);
}

/* A causal rank works on its own chunks first, then on half of what arrives: the middle rank, whose
 * chunks lie together, has most to do under a window, and reads backwards through the chunks before
 * them. Transformer Engine runs windows only where keys are gathered before, or heads exchanged:
 * the same bytes and products. */
static void ring(const struct dims *x, bool backward)
{
	int steps = (int)x->req->config.parallel.cp;

	for (int i = 0; i < steps; i++) {
		ring_transfer(x, i, backward, x->req->c3[SC_C3_CP].policy != SC_C3_SERIAL);
		if (i == 0)
			add_whole_flash(x, backward);
		else if (x->traits->causal)
			add_flash(x, &(struct keys){x->s / 2, (i - 1) * x->s / 2, false}, backward);
		else
			add_flash(x, &(struct keys){x->s, i * x->s, false}, backward);
	}
	join_steps(x, backward);
}

/* Sends each rank's tokens to those that have their heads, or back; heads and chunks of the
 * sequence are copied into order around it (Transformer Engine, flash_attn_a2a_communicate and
 * reorder_seq_chunks_for_a2a_before_attn, with the sequence first). */
static void exchange_heads(const struct dims *x, double width)
{
	struct sc_block_comm comm = {
		.name = SC_NAME_HEADS_ALL_TO_ALL,
		.axis = SC_COMM_CP,
		.shape = {SC_ALL_TO_ALL, x->tokens * width * x->e, x->storage},
	};

	sc_block_add_comm(x->block, x->env, &comm);
	add_rowwise(x, SC_NAME_QKV_LAYOUT, x->tokens * width * (4 * x->e), 2);
}

static double qkv_width(const struct dims *x)
{
	return x->heads * x->d + x->kv_heads * (x->d + x->d_v);
}

/* Documents packed into a sample are as many sequences; a context-parallel rank has its share of
 * each (Transformer Engine, format thd). */
static struct dims dims_of_documents(const struct dims *x)
{
	double documents =
		x->s_all / fmin((double)x->req->config.training.document_tokens, x->s_all);
	struct dims own = *x;

	own.b *= documents;
	own.s /= documents;
	own.s_all /= documents;
	return own;
}

static void flash(const struct dims *sample, bool backward)
{
	const struct dims of_documents = dims_of_documents(sample), *x = &of_documents;

	if (x->req->config.parallel.cp < 2)
		add_whole_flash(x, backward);
	else if (x->lora && x->sw->lora_recipe &&
		 fmod(x->kv_heads, (double)x->req->config.parallel.cp) < 0.5) {
		/* A rank sees all tokens of its share of the heads (Jacobs et al., DeepSpeed
		 * Ulysses, 2023); backward goes the same ways (Transformer Engine, a2a). */
		double cp = (double)x->req->config.parallel.cp;
		struct dims whole = *x;

		whole.s = x->s_all;
		whole.heads /= cp;
		whole.kv_heads /= cp;
		exchange_heads(x, backward ? x->ctx : qkv_width(x));
		add_whole_flash(&whole, backward);
		exchange_heads(x, backward ? qkv_width(x) : x->ctx);
	} else
		ring(x, backward);
}

static void add_batched(const struct dims *x, enum sc_op_name name,
			const struct sc_gemm_shape *shape)
{
	struct sc_op op = {SC_OP_GEMM, x->storage, {.gemm = *shape}};

	op.u.gemm.batch = x->b * x->heads;
	op.u.gemm.bmm = true;
	sc_block_add_op(x->block, x->env, (uint16_t)name, &op);
}

static void batched_gemm(const struct dims *x, enum sc_op_name name, struct mnk size)
{
	add_batched(x, name, &(struct sc_gemm_shape){.m = size.m, .n = size.n, .k = size.k});
}

/* Adds gradients of keys or values, d wide: scores (transposed) by queries or outputs'. */
static void batched_kv_grad(const struct dims *x, enum sc_op_name name, double d)
{
	add_batched(x, name,
		    &(struct sc_gemm_shape){.m = x->s_all, .n = d, .k = x->s, .sums_rows = true});
}

/* Megatron's fused softmax works on four heads of the batch at a time; else it falls back to
 * PyTorch's, in fp32: cast, scale, mask, softmax, cast (megatron/fused_softmax.py,
 * is_kernel_available). */
#define FUSED_SOFTMAX_HEADS 4.0
#define FALLBACK_BYTES 37.0 /* read and written for a score in two bytes */
enum { FALLBACK_KERNELS = 6 };

bool softmax_is_fused(const struct dims *x)
{
	return x->sw->fused_chains && fmod(x->b * x->heads, FUSED_SOFTMAX_HEADS) < 0.5;
}

/* Adds the softmax of scores. Fused, scale, mask and softmax read and write once, and the gradient
 * reads twice; else they are apart, with a mask of bytes. */
static void softmax(const struct dims *x, enum sc_op_name name, double n_scores, bool backward)
{
	if (softmax_is_fused(x))
		add_rowwise(x, name, n_scores * ((backward ? 3 : 2) * x->e), 1);
	else if (x->sw->fused_chains)
		add_rowwise(x, name, n_scores * FALLBACK_BYTES, FALLBACK_KERNELS);
	else
		add_rowwise(x, name, n_scores * ((backward ? 7 : 6) * x->e + 1), 3);
}

/* Adds scores, softmax and dropout: the part that selective recomputation runs again. */
static void attention_core(const struct dims *x)
{
	double n_scores = x->b * x->heads * x->s * x->s_all;

	batched_gemm(x, SC_NAME_SCORES, (struct mnk){x->s, x->s_all, x->d});
	softmax(x, SC_NAME_SOFTMAX, n_scores, false);
	if (x->dropout)
		add_rowwise(x, SC_NAME_ATTENTION_DROPOUT, n_scores * (2 * x->e + 1), 1);
	batched_gemm(x, SC_NAME_CONTEXT, (struct mnk){x->s, x->d_v, x->s_all});
}

/* Adds a ring: unfused attention needs all keys and values at once; it runs alone. */
static void ring_alone(const struct dims *x, bool backward)
{
	for (int i = 0; i < (int)x->req->config.parallel.cp; i++)
		ring_transfer(x, i, backward, 0);
}

void attention_forward(const struct dims *x, const struct part *p)
{
	(void)p;
	if (x->req->config.training.attention != SC_ATT_UNFUSED) {
		flash(x, false);
		return;
	}
	add_rowwise(x, SC_NAME_QKV_LAYOUT, x->tokens * qkv_width(x) * (2 * x->e), 2);
	ring_alone(x, false);
	attention_core(x);
	add_rowwise(x, SC_NAME_CONTEXT_LAYOUT, x->tokens * x->ctx * (2 * x->e), 1);
}

void attention_backward(const struct dims *x, const struct part *p)
{
	(void)p;
	if (x->req->config.training.attention != SC_ATT_UNFUSED) {
		if (sc_recomputes(x->req, SC_RECOMPUTE_CORE_ATTN))
			flash(x, false);
		flash(x, true);
	} else {
		ring_alone(x, true);
		double n_scores = x->b * x->heads * x->s * x->s_all;

		if (sc_recomputes(x->req, SC_RECOMPUTE_CORE_ATTN))
			attention_core(x);
		add_rowwise(x, SC_NAME_CONTEXT_LAYOUT, x->tokens * x->ctx * (2 * x->e), 1);
		batched_gemm(x, SC_NAME_CONTEXT_DGRAD, (struct mnk){x->s, x->s_all, x->d_v});
		batched_kv_grad(x, SC_NAME_CONTEXT_DGRAD, x->d_v);
		if (x->dropout)
			add_rowwise(x, SC_NAME_ATTENTION_DROPOUT_GRAD, n_scores * (2 * x->e + 1),
				    1);
		softmax(x, SC_NAME_SOFTMAX_GRAD, n_scores, true);
		batched_gemm(x, SC_NAME_SCORES_DGRAD, (struct mnk){x->s, x->d, x->s_all});
		batched_kv_grad(x, SC_NAME_SCORES_DGRAD, x->d);
		add_rowwise(x, SC_NAME_QKV_LAYOUT, x->tokens * qkv_width(x) * (2 * x->e), 2);
	}
}
