/* Sizes of a rank's part of the model, its linear layers with casts, adapters and gradients, and the
 * collectives of tensor-parallel regions. */
#include <math.h>

#include "core/config/config_schedule.h"
#include "predict/transformer/transformer_priv.h"

#define TOKEN_UNIT 8.0

struct dims dims_of(const struct sc_request *req, const struct sc_block_env *env, double samples,
		    struct sc_block *block)
{
	const struct sc_model *m = &req->config.model;
	const struct sc_training *tr = &req->config.training;
	double tp = (double)req->config.parallel.tp;

	struct dims x = {.req = req,
			 .model = m,
			 .traits = sc_family_traits(m->family),
			 .sw = &req->software,
			 .env = env,
			 .block = block,
			 .tp = tp,
			 .etp = (double)req->config.parallel.etp,
			 .b = samples};
	x.dtype = sc_precision_dtype(tr->precision);
	x.storage = sc_storage_dtype(tr->precision);
	x.e = sc_dtype_bytes(x.storage);
	x.quantized = x.dtype >= SC_FP8;
	x.lora = tr->trainable == SC_TRAIN_LORA;
	x.sp = req->config.parallel.sequence_parallel && tp > 1;
	x.dropout = req->software.dropout > 0 && x.traits->dropout;
	x.s_all = (double)m->seq;
	if (tr->fill_fraction < 1) /* a batch's tokens are padded to what tensor cores like */
		x.s_all = fmax(TOKEN_UNIT,
			       round(x.s_all * tr->fill_fraction / TOKEN_UNIT) * TOKEN_UNIT);
	x.s = x.s_all / (double)req->config.parallel.cp;
	x.tokens = samples * x.s;
	x.tokens_seq = x.sp ? x.tokens / tp : x.tokens;
	x.h = (double)m->hidden;
	x.heads = (double)m->heads / tp;
	x.kv_heads = fmax((double)m->kv_heads / tp, 1);
	x.d = (double)(m->head_dim + (sc_model_is_mla(m) ? m->rope_head_dim : 0));
	x.d_v = (double)(m->v_head_dim > 0 ? m->v_head_dim : m->head_dim);
	x.ctx = x.heads * x.d_v;
	x.gates = x.traits->gated ? 2 : 1;
	x.ffn = (double)m->ffn_hidden / tp;
	x.vocab = sc_transformer_padded_vocab(req) / tp /
		  (double)sc_vocab_shares(&req->config.parallel);
	return x;
}

int qkv_linears(const struct dims *x, struct linear out[MAX_LINEARS])
{
	const struct sc_model *m = x->model;
	double q_lora = (double)m->q_lora_rank, kv_lora = (double)m->kv_lora_rank;
	double q = x->heads * x->d;
	int n = 0;

	if (!sc_model_is_mla(m)) {
		double kv = x->kv_heads * (x->d + x->d_v);

		out[0] = (struct linear){SC_NAME_QKV, q + kv, x->h, .adapter = true};
		return 1;
	}
	if (q_lora > 0) {
		out[n++] = (struct linear){SC_NAME_Q_DOWN, q_lora, x->h, .replicated = true};
		out[n++] = (struct linear){SC_NAME_Q_UP, q, q_lora, .adapter = true};
	} else {
		out[n++] = (struct linear){SC_NAME_Q_UP, q, x->h, .adapter = true};
	}
	out[n++] = (struct linear){SC_NAME_KV_DOWN, kv_lora + (double)m->rope_head_dim, x->h,
				   .replicated = true};
	out[n++] = (struct linear){SC_NAME_KV_UP, x->heads * ((double)m->head_dim + x->d_v),
				   kv_lora, .adapter = true};
	return n;
}

struct linear proj_linear(const struct dims *x)
{
	return (struct linear){SC_NAME_PROJ, x->h, x->ctx, .adapter = true};
}

static bool adapts_mlp(const struct dims *x)
{
	return x->req->config.training.lora_targets == SC_LORA_ALL;
}

struct linear up_linear(const struct dims *x, double ffn)
{
	return (struct linear){SC_NAME_MLP_UP, x->gates * ffn, x->h, .adapter = adapts_mlp(x)};
}

struct linear down_linear(const struct dims *x, double ffn)
{
	return (struct linear){SC_NAME_MLP_DOWN, x->h, ffn, .adapter = adapts_mlp(x)};
}

static void gemm_of(const struct dims *x, enum sc_op_name name, enum sc_dtype dtype,
		    struct mnk size)
{
	struct sc_op op = {
		SC_OP_GEMM, dtype, {.gemm = {.batch = 1, .m = size.m, .n = size.n, .k = size.k}}};

	sc_block_add_op(x->block, x->env, (uint16_t)name, &op);
}

void add_gemm(const struct dims *x, enum sc_op_name name, struct mnk size)
{
	gemm_of(x, name, x->storage, size);
}

void sum_rows(const struct dims *x, enum sc_op_name name, struct mnk size)
{
	struct sc_op op = {
		SC_OP_GEMM,
		x->storage,
		{.gemm = {.batch = 1, .m = size.m, .n = size.n, .k = size.k, .sums_rows = true}}};

	sc_block_add_op(x->block, x->env, (uint16_t)name, &op);
}

void add_rowwise(const struct dims *x, enum sc_op_name name, double bytes, int n_kernels)
{
	struct sc_op op = {SC_OP_ROWWISE,
			   x->storage,
			   {.rowwise = {.read_bytes = bytes * x->sw->elementwise_factor,
					.n_kernels = n_kernels}}};

	sc_block_add_op(x->block, x->env, (uint16_t)name, &op);
}

void add_host(const struct dims *x, enum sc_op_name name, double us)
{
	sc_block_add_host(x->block, x->env, (uint16_t)name, us);
}

enum { BLACKWELL = 100 }; /* CUDA capability */
#define MX_SCALE_BYTES \
	(1.0 / 32) /* of an element: one of a byte for 32 (OCP MX v1.0), or for 16 in nvfp4 */
#define NVFP4_SCALE_BYTES (1.0 / 16)

/* Bytes that the quantized copies of an element take. One copy for both uses where one scale holds for the
 * whole tensor and tensor cores take operands along either side (Transformer Engine,
 * nvte_is_non_tn_fp8_gemm_supported); else a second one, transposed or with the scales of columns. */
static double quantized_bytes(const struct dims *x)
{
	const struct sc_training *tr = &x->req->config.training;
	double e = sc_dtype_bytes(x->dtype);

	if (tr->precision == SC_P_NVFP4)
		return 2 * (e + NVFP4_SCALE_BYTES);
	if (tr->precision == SC_P_MXFP8)
		return 2 * (e + MX_SCALE_BYTES);
	if (tr->fp8_recipe == SC_FP8_BLOCKWISE || x->env->device->cuda_capability < BLACKWELL)
		return 2 * e;
	return e;
}

/* A scale known beforehand lets the cast ride on the kernel that made the tensor; a tensor's own needs its
 * maximum first, which the kernel before finds, if anything is fused with it. In nvfp4 the maximum is that of
 * rotated blocks, another pass (NVIDIA, "Pretraining LLMs with NVFP4", arXiv:2509.25149). */
void quantize(const struct dims *x, double n)
{
	const struct sc_training *tr = &x->req->config.training;
	bool of_tensor = tr->precision == SC_P_FP8 && tr->fp8_recipe != SC_FP8_BLOCKWISE;
	bool delayed = of_tensor && tr->fp8_recipe == SC_FP8_DELAYED;
	int passes = 1;

	if (!x->quantized)
		return;
	if (delayed && x->sw->fused_fp8_cast)
		passes = 0;
	else if (tr->precision == SC_P_NVFP4 || (of_tensor && !delayed && !x->sw->fused_fp8_cast))
		passes = 2;
	add_rowwise(x, SC_NAME_FP8_CAST, n * (passes * x->e + quantized_bytes(x)), passes);
}

static double lora_rank(const struct dims *x, const struct linear *l)
{
	return x->lora && l->adapter ? (double)x->req->config.training.lora_rank : 0;
}

void add_linear(const struct dims *x, const struct linear *l)
{
	double r = lora_rank(x, l);

	quantize(x, x->tokens * l->k);
	gemm_of(x, l->name, x->dtype, (struct mnk){x->tokens, l->n, l->k});
	if (r > 0) {
		add_gemm(x, SC_NAME_ADAPTER, (struct mnk){x->tokens, r, l->k});
		add_gemm(x, SC_NAME_ADAPTER, (struct mnk){x->tokens, l->n, r});
		add_rowwise(x, SC_NAME_ADAPTER_ADD, x->tokens * l->n * (3 * x->e), 1);
	}
}

void add_dgrad(const struct dims *x, const struct linear *l)
{
	double r = lora_rank(x, l);

	quantize(x, x->tokens * l->n);
	gemm_of(x, (enum sc_op_name)(l->name + 1), x->dtype, (struct mnk){x->tokens, l->k, l->n});
	if (r > 0) {
		add_gemm(x, SC_NAME_ADAPTER_GRAD, (struct mnk){x->tokens, r, l->n});
		add_gemm(x, SC_NAME_ADAPTER_GRAD, (struct mnk){x->tokens, l->k, r});
		add_rowwise(x, SC_NAME_ADAPTER_ADD, x->tokens * l->k * (3 * x->e), 1);
	}
}

void add_wgrad(const struct dims *x, const struct linear *l)
{
	double r = lora_rank(x, l);
	struct sc_op op = {SC_OP_GEMM,
			   x->dtype,
			   {.gemm = {.batch = 1,
				     .m = l->k,
				     .n = l->n,
				     .k = x->tokens,
				     .sums_rows = true,
				     .accumulate = x->sw->fused_grad_accumulation}}};

	if (x->inputs_only)
		return;
	if (!x->lora)
		sc_block_add_op(x->block, x->env, (uint16_t)(l->name + 2), &op);
	if (r > 0) {
		sum_rows(x, SC_NAME_ADAPTER_GRAD, (struct mnk){r, l->n, x->tokens});
		sum_rows(x, SC_NAME_ADAPTER_GRAD, (struct mnk){l->k, r, x->tokens});
	}
}

/* Layer norm in one kernel, three passes over the tensor. An RMS norm in eager PyTorch goes through
 * fp32: cast, square, mean, scale, cast, weight. */
void add_norm(const struct dims *x, double n)
{
	if (x->sw->fused_norm || !x->traits->rms_norm)
		add_rowwise(x, SC_NAME_NORM, n * (3 * x->e), 1);
	else
		add_rowwise(x, SC_NAME_NORM, n * (18 * x->e), 6);
}

/* Data gradient; gamma and beta gradients in two more passes with partial sums. */
void add_norm_grad(const struct dims *x, double n)
{
	if (x->sw->fused_norm || !x->traits->rms_norm)
		add_rowwise(x, SC_NAME_NORM_GRAD, n * (10 * x->e), 2);
	else
		add_rowwise(x, SC_NAME_NORM_GRAD, n * (28 * x->e), 9);
}

void add_tp(const struct dims *x, enum sc_collective kind, double n, int n_hidden)
{
	static const enum sc_op_name NAMES[SC_N_COLLECTIVES] = {
		[SC_ALL_REDUCE] = SC_NAME_TP_ALL_REDUCE,
		[SC_ALL_GATHER] = SC_NAME_TP_ALL_GATHER,
		[SC_REDUCE_SCATTER] = SC_NAME_TP_REDUCE_SCATTER,
	};
	struct sc_block_comm comm = {
		(uint16_t)NAMES[kind], SC_COMM_TP, {kind, n * x->e, x->storage}, n_hidden, 0};

	sc_block_add_comm(x->block, x->env, &comm);
}

/* Of a linear layer: quantized, the cast of its input comes first. */
static int product_kernels(const struct dims *x)
{
	return x->quantized ? 2 : 1;
}

/* Collective and GEMM decomposed into one piece a rank (Wang et al., ASPLOS 2023; PyTorch's async TP):
 * all but the first or last piece of the collective runs beside the GEMM. */
static void add_overlapped(const struct dims *x, enum sc_collective kind, const struct linear *l)
{
	double first = x->tokens * x->h / x->tp, rest = first * (x->tp - 1);

	add_tp(x, kind, first, 0);
	add_tp(x, kind, rest, product_kernels(x));
	add_linear(x, l);
}

static bool overlaps(const struct dims *x)
{
	return x->req->config.parallel.tp_overlap && x->tp > 1;
}

void enter_region(const struct dims *x, const struct linear *first)
{
	if (x->sp && overlaps(x)) {
		add_overlapped(x, SC_ALL_GATHER, first);
		return;
	}
	if (x->sp)
		add_tp(x, SC_ALL_GATHER, x->tokens * x->h, 0);
	add_linear(x, first);
}

void leave_region(const struct dims *x, const struct linear *last)
{
	enum sc_collective kind = x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE;

	if (overlaps(x)) {
		add_overlapped(x, kind, last);
		return;
	}
	add_linear(x, last);
	add_tp(x, kind, x->tokens * x->h, 0);
}

void leave_region_grad(const struct dims *x, const struct linear *last)
{
	double n = x->tokens * x->h;

	if (x->sp && overlaps(x)) {
		add_tp(x, SC_ALL_GATHER, n / x->tp, 0);
		add_tp(x, SC_ALL_GATHER, n * (x->tp - 1) / x->tp, product_kernels(x));
	} else if (x->sp) {
		add_tp(x, SC_ALL_GATHER, n, 0);
	}
	add_dgrad(x, last);
	add_wgrad(x, last);
}

/* The input is gathered again for the weight gradient. */
static bool gathers_again(const struct dims *x)
{
	return x->sp && !x->lora && !x->sw->sp_keeps_gathered;
}

void region_weights(const struct dims *x, const struct linear *first, int n)
{
	if (gathers_again(x))
		add_tp(x, SC_ALL_GATHER, x->tokens * x->h, 0);
	for (int i = n - 1; i >= 0; i--)
		add_wgrad(x, &first[i]);
}

/* The collective of the data gradient hides behind the last weight gradient. */
void enter_region_grad(const struct dims *x, const struct linear *first, int n)
{
	bool gathers = gathers_again(x) && !x->inputs_only;
	bool hide =
		!x->lora && !x->inputs_only && (gathers || x->sw->tp_dgrad_overlap || overlaps(x));

	if (gathers)
		add_tp(x, SC_ALL_GATHER, x->tokens * x->h, product_kernels(x));
	for (int i = n - 1; i > 0; i--) {
		add_dgrad(x, &first[i]);
		add_wgrad(x, &first[i]);
	}
	add_dgrad(x, first);
	add_tp(x, x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE, x->tokens * x->h, hide ? 1 : 0);
	add_wgrad(x, first);
}

static bool autocasts(const struct dims *x)
{
	const enum sc_precision p = x->req->config.training.precision;

	return x->sw->casts_weights && (p == SC_P_AMP_FP16 || p == SC_P_AMP_BF16);
}

/* Quantized: the weights are cast at the first micro-batch and kept (Transformer Engine), so each has its
 * share; frozen ones are so from the start. Autocast casts fp32 weights every time. */
void cast_weights(const struct dims *x, double params)
{
	if (x->quantized && !x->lora)
		add_rowwise(x, SC_NAME_FP8_CAST,
			    params / (double)x->req->n_micro_batches * (x->e + quantized_bytes(x)),
			    4);
	else if (autocasts(x))
		add_rowwise(x, SC_NAME_WEIGHT_CAST, params * (sc_dtype_bytes(SC_FP32) + x->e), 4);
}

/* Autocast's gradients of the cast weights become fp32 before they are added. */
void accumulate_gradients(const struct dims *x, double params)
{
	double f = sc_dtype_bytes(SC_FP32);

	if (x->lora || x->inputs_only)
		return;
	if (autocasts(x) && !x->sw->grad_accumulate_fp32) {
		add_rowwise(x, SC_NAME_GRAD_ACCUMULATE,
			    params * (x->e + f + (x->req->n_micro_batches > 1 ? 3 * f : 0)), 12);
		return;
	}
	if (x->sw->grad_accumulate_fp32 && !x->sw->fused_grad_accumulation)
		add_rowwise(x, SC_NAME_GRAD_ACCUMULATE, params * (x->e + 8), 12);
	else if (!x->sw->fused_grad_accumulation && x->req->n_micro_batches > 1)
		add_rowwise(x, SC_NAME_GRAD_ACCUMULATE, params * (3 * x->e), 12);
}
