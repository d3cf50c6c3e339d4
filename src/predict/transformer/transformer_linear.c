/* The sizes of a rank's part of the model, its linear layers with casts, adapters and gradients,
 * and the collectives of tensor-parallel regions. */
#include <math.h>

#include "core/config/config_schedule.h"
#include "models/interference.h"
#include "predict/transformer/transformer_priv.h"

#define TOKEN_UNIT 8.0

static double padded_vocab(const struct sc_request *request)
{
	double tp = (double)request->config.parallel.tp;
	double split = tp * (double)sc_vocab_shares(&request->config.parallel), unit = 128 * split;
	double vocab = (double)request->config.model.vocab;

	if (!request->software.pad_vocab && split < 2)
		return vocab;
	return ceil(vocab / unit) * unit;
}

double sc_transformer_batches(const struct sc_request *request)
{
	const struct sc_sharding_rule rule = sc_sharding_rule(request);
	const double n = (double)request->n_micro_batches;

	if (sc_precision_dtype(request->config.training.precision) >= SC_FP8 ||
	    (rule.gradients && rule.each))
		return n;
	return fmin(n, 2);
}

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
	x.dropout = x.traits->dropout;
	x.biases = m->biases > 0;
	x.s_all = (double)m->seq;
	if (tr->fill_fraction < 1) /* a batch is padded to what tensor cores like */
		x.s_all = fmax(TOKEN_UNIT,
			       round(x.s_all * tr->fill_fraction / TOKEN_UNIT) * TOKEN_UNIT);
	x.s = x.s_all / (double)req->config.parallel.cp;
	x.tokens = samples * x.s;
	x.tokens_seq = x.sp ? x.tokens / tp : x.tokens;
	x.h = (double)m->hidden;
	x.expert_h = m->expert_latent > 0 ? (double)m->expert_latent : x.h;
	x.heads = (double)m->heads / tp;
	x.all_kv_heads = (double)m->kv_heads;
	x.kv_heads = fmax(x.all_kv_heads / tp, 1);
	x.d = (double)(m->head_dim + (sc_model_is_mla(m) ? m->rope_head_dim : 0));
	x.d_v = (double)(m->v_head_dim > 0 ? m->v_head_dim : m->head_dim);
	x.ctx = x.heads * x.d_v;
	x.gates = x.traits->gated ? 2 : 1;
	x.ffn = (double)m->ffn_hidden / tp;
	x.vocab = padded_vocab(req) / tp / (double)sc_vocab_shares(&req->config.parallel);
	return x;
}

struct dims dims_of_kind(const struct dims *x, int kind)
{
	const struct sc_model *m = x->model;
	const struct sc_layer_kind of = sc_model_kind(m, kind);
	struct dims out = *x;

	if (of.wide)
		keep_wide(&out);
	out.all_keys = of.mixer == SC_MIX_FULL;
	if (!out.all_keys)
		return out;
	if (m->full_head_dim > 0)
		out.d = out.d_v = (double)m->full_head_dim;
	if (m->full_kv_heads > 0)
		out.all_kv_heads = (double)m->full_kv_heads;
	out.kv_heads = fmax(out.all_kv_heads / x->tp, 1);
	out.ctx = out.heads * out.d_v;
	out.keys_as_values = m->full_keys_as_values > 0;
	return out;
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

static bool autocasts(const struct dims *x)
{
	const enum sc_precision p = x->req->config.training.precision;

	return p == SC_P_AMP_FP16 || p == SC_P_AMP_BF16;
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

#define MX_SCALE_BYTES (1.0 / 32) /* a byte scales 32 elements (OCP MX v1.0), or 16 in nvfp4 */
#define NVFP4_SCALE_BYTES (1.0 / 16)

static bool has_tensor_scales(const struct dims *x)
{
	const struct sc_training *tr = &x->req->config.training;

	return x->quantized && tr->precision == SC_P_FP8 &&
	       (tr->fp8_recipe == SC_FP8_DELAYED || tr->fp8_recipe == SC_FP8_CURRENT);
}

/* Returns the bytes that the quantized copies of an element take: one copy for both uses where one
 * scale holds for the whole tensor and tensor cores take operands along either side (Transformer
 * Engine, nvte_is_non_tn_fp8_gemm_supported); else a second, transposed or with columns' scales. */
double quantized_element_bytes(const struct dims *x)
{
	const struct sc_training *tr = &x->req->config.training;
	double e = sc_dtype_bytes(x->dtype);

	if (tr->precision == SC_P_NVFP4)
		return 2 * (e + NVFP4_SCALE_BYTES);
	if (tr->precision == SC_P_MXFP8 || tr->precision == SC_P_MXFP4)
		return 2 * (e + MX_SCALE_BYTES);
	if (!has_tensor_scales(x) || x->env->device->cuda_capability < BLACKWELL)
		return 2 * e;
	return e;
}

/* Returns how often a tensor in mxfp8 is read for its two copies: each has a kernel of its own in
 * torchao (mx_linear.py, mx_mm: along rows forward, along columns backward). */
static int mx_reads(const struct dims *x)
{
	return x->sw->casts_apart && x->req->config.training.precision == SC_P_MXFP8 ? 2 : 1;
}

/* Casts a tensor. A scale known beforehand lets the cast ride on the kernel that made the tensor; a
 * tensor's own needs its maximum first, which the kernel before finds, if anything is fused with
 * it. Scales of rows ask one pass, and two for the copy with those of columns, whose maximum is not
 * in one block. In nvfp4 the maximum is that of rotated blocks, another pass (NVIDIA, "Pretraining
 * LLMs with NVFP4", arXiv:2509.25149). */
static void cast(const struct dims *x, double n, bool fused)
{
	const struct sc_training *tr = &x->req->config.training;
	bool of_tensor = has_tensor_scales(x);
	bool delayed = of_tensor && tr->fp8_recipe == SC_FP8_DELAYED;
	int passes = mx_reads(x);

	if (!x->quantized)
		return;
	if (delayed && fused)
		passes = 0;
	else if (tr->precision == SC_P_NVFP4 || (of_tensor && !delayed && !fused))
		passes = 2;
	else if (tr->precision == SC_P_FP8 && tr->fp8_recipe == SC_FP8_ROWWISE)
		passes = 3;
	add_rowwise(x, SC_NAME_FP8_CAST, n * (passes * x->e + quantized_element_bytes(x)), passes);
}

void quantize(const struct dims *x, double n)
{
	cast(x, n, x->sw->fused_fp8_cast);
}

static double lora_rank(const struct dims *x, const struct part *l)
{
	return x->lora && (l->flags & PART_ADAPTED) ? (double)x->req->config.training.lora_rank : 0;
}

/* Adds adapters beside a product, or its data gradient, which goes from outputs to inputs. */
static void add_adapters(const struct dims *x, const struct part *l, bool grad)
{
	const enum sc_op_name name = grad ? SC_NAME_ADAPTER_GRAD : SC_NAME_ADAPTER;
	double r = lora_rank(x, l), from = grad ? l->n : l->k, to = grad ? l->k : l->n;

	if (r > 0) {
		add_gemm(x, name, (struct mnk){x->tokens, r, from});
		add_gemm(x, name, (struct mnk){x->tokens, to, r});
		add_rowwise(x, SC_NAME_ADAPTER_ADD, x->tokens * to * (3 * x->e), 1);
	}
}

void add_linear(const struct dims *x, const struct part *l)
{
	quantize(x, x->tokens * l->k);
	gemm_of(x, l->name, x->dtype, (struct mnk){x->tokens, l->n, l->k});
	add_adapters(x, l, false);
}

void add_dgrad(const struct dims *x, const struct part *l)
{
	quantize(x, x->tokens * l->n);
	gemm_of(x, (enum sc_op_name)(l->name + 1), x->dtype, (struct mnk){x->tokens, l->k, l->n});
	add_adapters(x, l, true);
}

/* In fp8 with scales of blocks both operands of a weight gradient have them along its k, the
 * tokens; in other products one operand, the weight, has a scale for a whole tile (DeepSeek-V3,
 * arXiv:2412.19437, section 3.3.2). */
bool sums_scaled_blocks(const struct dims *x)
{
	const struct sc_training *tr = &x->req->config.training;

	return x->quantized && tr->precision == SC_P_FP8 && tr->fp8_recipe == SC_FP8_BLOCKWISE;
}

void add_wgrad(const struct dims *x, const struct part *l)
{
	double r = lora_rank(x, l);
	struct sc_op op = {
		SC_OP_GEMM,
		x->dtype,
		{.gemm = {.batch = 1,
			  .m = l->k,
			  .n = l->n,
			  .k = x->tokens,
			  .sums_rows = true,
			  .block_scaled = sums_scaled_blocks(x),
			  .accumulate = x->sw->fused_grad_accumulation && !x->traits->denoises}}};

	if (x->inputs_only)
		return;
	if (!x->lora)
		sc_block_add_op(x->block, x->env, (uint16_t)(l->name + 2), &op);
	if (r > 0) {
		sum_rows(x, SC_NAME_ADAPTER_GRAD, (struct mnk){r, l->n, x->tokens});
		sum_rows(x, SC_NAME_ADAPTER_GRAD, (struct mnk){l->k, r, x->tokens});
	}
}

static enum sc_op_name tp_name(enum sc_collective kind)
{
	return kind == SC_ALL_GATHER       ? SC_NAME_TP_ALL_GATHER
	       : kind == SC_REDUCE_SCATTER ? SC_NAME_TP_REDUCE_SCATTER
					   : SC_NAME_TP_ALL_REDUCE;
}

/* Returns the bytes of an input gathered for a product: in fp8 it is cast before it goes. */
static double gathered_bytes(const struct dims *x, double n)
{
	return n * (x->sw->gather_fp8 && has_tensor_scales(x) ? sc_dtype_bytes(SC_FP8) : x->e);
}

static void add_bytes(const struct dims *x, enum sc_collective kind, double bytes, int n_hidden)
{
	struct sc_block_comm comm = {
		(uint16_t)tp_name(kind), SC_COMM_TP, {kind, bytes, x->storage}, n_hidden, 0, 0, 0};

	sc_block_add_comm(x->block, x->env, &comm);
}

void add_tp(const struct dims *x, enum sc_collective kind, double n, int n_hidden)
{
	add_bytes(x, kind, n * x->e, n_hidden);
}

static void gather_input(const struct dims *x, int n_hidden)
{
	add_bytes(x, SC_ALL_GATHER, gathered_bytes(x, x->tokens * x->h), n_hidden);
}

/* The smallest tile has so many rows: frameworks cut no finer. */
#define MIN_PIECE_ROWS 64.0

static bool overlaps(const struct dims *x)
{
	return x->req->config.parallel.tp_overlap && x->tp > 1;
}

/* A product and the collective that it waits for, or that waits for it. */
struct joint {
	enum sc_op_name name;
	struct mnk size;
	enum sc_collective kind;
	double n, gap_us; /* pieces, and the time lost before each */
	double call_us;   /* lost once, if no collective is called that loses it */
	bool fused;
};

static struct joint joint_of(const struct dims *x, enum sc_op_name name, struct mnk size,
			     enum sc_collective kind)
{
	const struct sc_interference_coef *c = &x->env->device->interference;
	const struct sc_c3_choice *choice = &x->req->c3[SC_C3_TP];
	struct joint out = {.name = name, .size = size, .kind = kind};

	out.fused = choice->policy == SC_C3_TILE_FUSED;
	out.gap_us = out.fused               ? c->copy_us * x->tp
		     : kind == SC_ALL_GATHER ? c->copy_us
					     : c->push_us;
	out.n = out.fused ? 1 : choice->n > 0 ? choice->n : x->tp;
	if (floor(size.m / MIN_PIECE_ROWS) < out.n)
		out.n = 1;
	out.call_us = out.n > 1 || out.fused ? x->sw->comm_latency_us : 0;
	return out;
}

/* Adds `n` pieces of the product on several streams: they fill each other's last waves, and are
 * shares of one. */
static void add_products(const struct dims *x, const struct joint *j, double n, double call_us)
{
	double share = n / j->n;
	double gap_us = call_us + (j->n > 1 || j->fused ? n * j->gap_us : 0);
	const struct sc_op op = {
		SC_OP_GEMM,
		x->dtype,
		{.gemm = {.batch = 1, .m = j->size.m, .n = j->size.n, .k = j->size.k}}};

	if (n < 1)
		return;
	sc_block_add_pieces(
		x->block, x->env,
		&(struct sc_block_pieces){
			(uint16_t)j->name, &op, share, gap_us / share,
			j->fused ? sc_interfere_fused_factor(x->env->device, &op, x->tp) : 1});
}

static struct sc_block_comm joint_comm(const struct dims *x, const struct joint *j)
{
	double n = x->tokens * x->h;
	double bytes = j->kind == SC_ALL_GATHER ? gathered_bytes(x, n) : n * x->e;

	return (struct sc_block_comm){
		(uint16_t)tp_name(j->kind),      SC_COMM_TP, {j->kind, bytes, x->storage}, 0, 0,
		j->n > 1 || j->fused ? j->n : 0, 0};
}

/* Decomposes collective and product (Wang et al., ASPLOS 2023; PyTorch's async TP): pieces are
 * multiplied while the next arrive, the rank's own first; or, fused, tiles wait (Flux). */
static void gather_and_multiply(const struct dims *x, const struct joint *j)
{
	struct sc_block_comm comm = joint_comm(x, j);

	comm.n_hidden = j->n > 1 || j->fused;
	sc_block_add_comm(x->block, x->env, &comm);
	add_products(x, j, j->n > 1 ? j->n - 1 : 1, j->n > 1 ? 0 : j->call_us);
	add_products(x, j, j->n > 1 ? 1 : 0, j->call_us);
}

/* Does so before a reduction: pieces travel while the next are multiplied, then added up. */
static void multiply_and_push(const struct dims *x, const struct joint *j)
{
	struct sc_block_comm comm = joint_comm(x, j), last = comm;

	comm.n_hidden = j->n > 1 || j->fused;
	add_products(x, j, j->fused ? 0 : 1, j->call_us);
	sc_block_add_comm(x->block, x->env, &comm);
	add_products(x, j, j->fused ? 1 : j->n - 1, j->fused ? j->call_us : 0);
	last.shape.bytes /= fmax(1, x->tp - 1);
	if (j->fused)
		sc_block_add_comm(x->block, x->env, &last);
	else if (j->n > 1)
		sc_block_add_sum(x->block, x->env, &comm);
}

enum { REDUCED_PIECES = 4 };

/* Reduces piece by piece by kernels on few SMs (Transformer Engine's user buffers, "pipeline"). */
static void multiply_and_reduce(const struct dims *x, struct joint j)
{
	struct sc_block_comm comm = joint_comm(x, &j), last;

	j.n = REDUCED_PIECES;
	j.gap_us = 0;
	comm.n_pieces = 0;
	comm.most_sms = x->sw->tp_scatter_sms;
	last = comm;
	last.shape.bytes /= j.n;
	comm.shape.bytes -= last.shape.bytes;
	comm.n_hidden = 1;
	add_products(x, &j, 1, 0);
	sc_block_add_comm(x->block, x->env, &comm);
	add_products(x, &j, j.n - 1, 0);
	sc_block_add_comm(x->block, x->env, &last);
}

void enter_region(const struct dims *x, const struct part *first)
{
	struct joint j = joint_of(x, first->name, (struct mnk){x->tokens, first->n, first->k},
				  SC_ALL_GATHER);

	if (x->sp && overlaps(x)) {
		quantize(x, x->tokens * first->k);
		gather_and_multiply(x, &j);
		add_adapters(x, first, false);
		return;
	}
	if (x->sp)
		gather_input(x, 0);
	add_linear(x, first);
}

void leave_region(const struct dims *x, const struct part *last)
{
	enum sc_collective kind = x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE;
	struct joint j = joint_of(x, last->name, (struct mnk){x->tokens, last->n, last->k}, kind);

	if (overlaps(x)) {
		quantize(x, x->tokens * last->k);
		if (x->sw->tp_scatter_sms > 0 && !j.fused && j.n > 1)
			multiply_and_reduce(x, j);
		else
			multiply_and_push(x, &j);
		add_adapters(x, last, false);
		return;
	}
	add_linear(x, last);
	add_tp(x, kind, x->tokens * x->h, 0);
}

void leave_region_backward(const struct dims *x, const struct part *last)
{
	struct joint j = joint_of(x, (enum sc_op_name)(last->name + 1),
				  (struct mnk){x->tokens, last->k, last->n}, SC_ALL_GATHER);

	if (x->sp && overlaps(x)) {
		quantize(x, x->tokens * last->n);
		gather_and_multiply(x, &j);
		add_adapters(x, last, true);
	} else {
		if (x->sp)
			gather_input(x, 0);
		add_dgrad(x, last);
	}
	add_wgrad(x, last);
}

/* Says whether the input is gathered again for the weight gradient; else it stays, or the layer
 * that is run again has gathered it. */
static bool gathers_again(const struct dims *x)
{
	return x->sp && !x->lora && !x->sw->keeps_gathered;
}

void region_weights(const struct dims *x, const struct part *first, int n)
{
	if (gathers_again(x))
		gather_input(x, 0);
	for (int i = n - 1; i >= 0; i--)
		add_wgrad(x, &first[i]);
}

/* Hides the collective of the data gradient behind the last weight gradient. */
void enter_region_grad(const struct dims *x, const struct part *first, int n)
{
	enum sc_collective kind = x->sp ? SC_REDUCE_SCATTER : SC_ALL_REDUCE;
	bool serial = x->req->c3[SC_C3_TP].policy == SC_C3_SERIAL;
	bool gathers = gathers_again(x) && !x->inputs_only;
	bool hide = !x->lora && !x->inputs_only && !serial && (gathers || x->sw->tp_dgrad_overlap);

	/* A quantized linear layer casts its input first. */
	if (gathers)
		gather_input(x, serial ? 0 : (x->quantized ? 2 : 1));
	for (int i = n - 1; i > 0; i--) {
		add_dgrad(x, &first[i]);
		add_wgrad(x, &first[i]);
	}
	add_dgrad(x, first);
	add_tp(x, kind, x->tokens * x->h, hide ? 1 : 0);
	add_wgrad(x, first);
}

/* Casts weights: quantized ones at the first micro-batch, to be kept (Transformer Engine), so that
 * each has its share, or every time; frozen ones are so from the start. Autocast casts fp32 weights
 * every time. */
void cast_weights(const struct dims *x, double params)
{
	const int reads = mx_reads(x);

	if (x->quantized && !x->lora)
		add_rowwise(x, SC_NAME_FP8_CAST,
			    params / (reads > 1 ? 1 : sc_transformer_batches(x->req)) *
				    (reads * x->e + quantized_element_bytes(x)),
			    4);
	else if (autocasts(x))
		add_rowwise(x, SC_NAME_WEIGHT_CAST, params * (sc_dtype_bytes(SC_FP32) + x->e), 4);
}

/* Adds a micro-batch's gradients, fp32 ones of autocast, to those before: whole to a buffer that
 * begins as zeros (Megatron's main gradients); or, where each micro-batch's are reduced to shards,
 * the rank's own, which the first one's are. */
void accumulate_gradients(const struct dims *x, double dense, double expert)
{
	const struct sc_sharding_rule rule = sc_sharding_rule(x->req);
	const bool shards = rule.gradients && rule.each;
	const size_t first = x->block->steps.n;
	double f = sc_dtype_bytes(SC_FP32), n = sc_transformer_batches(x->req);
	double added = shards ? dense / rule.ranks + expert / rule.expert_ranks : dense + expert;
	double share = shards ? (n - 1) / n : n > 1; /* the micro-batches that add */

	if (x->lora || x->inputs_only)
		return;
	if (autocasts(x))
		add_rowwise(x, SC_NAME_GRAD_ACCUMULATE,
			    (dense + expert) * (x->e + f) + added * 3 * f * share, 12);
	else if (x->traits->denoises && x->sw->fused_grad_accumulation)
		/* MLPerf switches the fusion off for Flux (training_results_v5.1, NVIDIA,
		 * flux1/conf/model/schnell.yaml). */
		add_rowwise(x, SC_NAME_GRAD_ACCUMULATE, (dense + expert) * (3 * x->e), 12);
	else if (!x->sw->fused_grad_accumulation && share > 0) {
		add_rowwise(x, SC_NAME_GRAD_ACCUMULATE, added * 3 * x->e, 12);
		sc_block_share(x->block, first, share);
	}
}
