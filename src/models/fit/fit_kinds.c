/* The kinds of kernels: the columns of a row, the op that it makes, the time that no machine of
 * these peaks beats, and the coefficients of a profile fitted to it. A new one is one line here. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/fnv.h"
#include "base/units.h"
#include "models/embedding_kernel.h"
#include "models/fit/fit_cells_priv.h"
#include "models/op_model_priv.h"
#include "models/rowwise.h"

#define MAX_POOLING 1e6
#define MAX_ROWS 1e15
#define MAX_ZIPF 10.0
/* No cache is this many times faster than memory: the bound of what fits is this much lower. */
#define CACHE_GAIN 8.0
#define BACKWARD_ATTENTION_FLOP 2.5 /* of forward; five products against two */
/* Mixed-precision Adam: 4 + 3 * 4 bytes read, 3 * 4 + 2 written a parameter. */
#define ADAM_BYTES 30.0
enum { HOPPER = 90, BLACKWELL = 100 }; /* CUDA capability */
#define TILE 128.0                     /* rows and columns of a tile of most products */

/* ---- columns ---- */

static const struct sc_name PASSES[] = {{"fwd", 0}, {"bwd", 1}, {0}};
static const struct sc_name YES_NO[] = {{"false", 0}, {"true", 1}, {0}};
static const struct sc_name GEMM_OPS[] = {{"linear", 0}, {"bmm", 1}, {0}};
static const struct sc_name INCLUDES[] = {{"product", 0}, {"cast+product", 1}, {0}};
enum { OWN_SCALE, BLOCK_SCALE }; /* c->variant; -1: not said */
static const struct sc_name VARIANTS[] = {{"bf16", OWN_SCALE},
					  {"fp8_tensor_or_token", OWN_SCALE},
					  {"fp8_block128", BLOCK_SCALE},
					  {"nvfp4_block16", BLOCK_SCALE},
					  {0}};
static const struct sc_name ATTENTION_OPS[] = {{"flash", 0}, {0}};
static const struct sc_name ROWWISE_OPS[] = {
	{"add", SC_ROW_ADD},         {"gelu", SC_ROW_GELU},
	{"softmax", SC_ROW_SOFTMAX}, {"layernorm", SC_ROW_LAYERNORM},
	{"rmsnorm", SC_ROW_RMSNORM}, {0}};

static const struct sc_field GEMM_CELLS[] = {SIZE_OR(batch, 1),
					     SIZE(m),
					     SIZE(n),
					     SIZE(k),
					     TIME("time_us"),
					     NAME(op, GEMM_OPS),
					     NAME(dtype, sc_dtype_names),
					     NAME(pass, PASSES),
					     NAME(regime, sc_load_names),
					     NAME(includes, INCLUDES),
					     NAME(variant, VARIANTS),
					     ORIGIN,
					     {0}};
static const struct sc_field ATTENTION_CELLS[] = {SIZE_OR(batch, 1),
						  SIZE(heads),
						  SIZE(seq),
						  SIZE(head_dim),
						  TIME("time_us"),
						  SIZE_OR(kv_heads, 0),
						  SIZE_OR(seq_kv, 0),
						  NAME(causal, YES_NO),
						  NAME(op, ATTENTION_OPS),
						  NAME(dtype, sc_dtype_names),
						  NAME(pass, PASSES),
						  ORIGIN,
						  {0}};
static const struct sc_field DECODE_CELLS[] = {SIZE_OR(batch, 1),
					       SIZE(heads),
					       SIZE(kv_len),
					       SIZE(head_dim),
					       TIME("time_us"),
					       SIZE_OR(kv_heads, 0),
					       NAME(kv_dtype, sc_dtype_names),
					       NAME(dtype, sc_dtype_names),
					       ORIGIN,
					       {0}};
static const struct sc_field ROWWISE_CELLS[] = {SIZE(rows),
						SIZE(cols),
						TIME("time_us"),
						{.key = "op",
						 .type = SC_F_ENUM,
						 .offset = offsetof(struct sc_fit_cells, op),
						 .names = ROWWISE_OPS,
						 .required = true},
						NAME(dtype, sc_dtype_names),
						NAME(pass, PASSES),
						ORIGIN,
						{0}};
static const struct sc_field OPTIMIZER_CELLS[] = {
	SIZE(params), TIME("time_us"), SIZE_OR(bytes, ADAM_BYTES), ORIGIN, {0}};
/* unique_rows and longest_run, of each of the tables: where the generator of the indices is known
 * better than a law says it; sorted, false: the time holds no sort. */
static const struct sc_field EMBEDDING_CELLS[] = {
	SIZE(tables),
	SIZE(rows),
	SIZE(dim),
	SIZE_OR(batch, 1),
	TIME("time_us"),
	NUMBER_OR("pooling", pooling, 1e-3, MAX_POOLING, 1),
	NUMBER_OR("zipf", zipf, 0, MAX_ZIPF, 0),
	NUMBER_OR("unique_rows", unique_rows, 1, MAX_ROWS, 0),
	NUMBER_OR("longest_run", longest_run, 1, MAX_ROWS, 0),
	NAME(optimizer, sc_row_optimizer_names),
	NAME(sorted, YES_NO),
	NAME(warm, YES_NO),
	TEXT("kernel", kernel),
	NAME(dtype, sc_dtype_names),
	NAME(pass, PASSES),
	ORIGIN,
	{0}};
static const struct sc_field HOST_CELLS[] = {SIZE_OR(launches, 1), TIME("time_us"), ORIGIN, {0}};
/* As `stepcast c3 --from` writes them. */
static const struct sc_field SEEN_CELLS[] = {NUMBER("alone_us", alone_us, 1e-6, MAX_TIME_US),
					     NUMBER("beside_frac", beside_frac, 0, 1),
					     NUMBER("blocks", blocks, 0, SC_FIT_MAX_SIZE),
					     NUMBER("comm_blocks", comm_blocks, 0, SC_FIT_MAX_SIZE),
					     TIME("time_us"),
					     NUMBER_OR("comm_load", comm_load, 1e-3, 1, 1),
					     NAME(computes, YES_NO),
					     TEXT("collective", collective),
					     ORIGIN,
					     {0}};
/* A pair, as `c3 --measured` and scripts/measure-c3 have it; a kernel without n is no product. */
static const struct sc_field PAIR_CELLS[] = {
	TIME("overlapped_us"),
	NUMBER("compute_us", compute_us, 1e-6, SC_FIT_MAX_SIZE),
	NUMBER("comm_us", comm_us, 1e-6, SC_FIT_MAX_SIZE),
	SIZE(m),
	NUMBER_OR("n", n, 0, SC_FIT_MAX_SIZE, 0),
	SIZE(bytes),
	SIZE_OR(gpus, 1),
	NUMBER_OR("ctas", ctas, 0, SC_FIT_MAX_SIZE, 0),
	TEXT("collective", collective),
	ORIGIN,
	{0}};
#define MAX_RANKS (1 << 20)
static const struct sc_field COLLECTIVE_CELLS[] = {
	SIZE(bytes),
	NUMBER("ranks", ranks, 2, MAX_RANKS),
	NUMBER_OR("nodes", nodes, 1, MAX_RANKS, 1),
	TIME("time_us"),
	NUMBER_OR("gpus_per_node", gpus_per_node, 1, MAX_RANKS, 0),
	TEXT("collective", collective),
	TEXT("sweep", sweep),
	TEXT("algo", algo),
	TEXT("library", library),
	TEXT("intra", intra),
	TEXT("inter", inter),
	ORIGIN,
	{0}};

/* ---- bounds ---- */

static double memory_bound_us(const struct sc_device *device, double bytes)
{
	double us = sc_bytes_us(bytes, device->hbm_gbps);

	return bytes <= device->l2_mib * SC_BYTES_PER_MIB ? us / CACHE_GAIN : us;
}

static double math_bound_us(const struct sc_device *device, enum sc_dtype dtype, double flop)
{
	return sc_flop_us(flop, fmax(device->peak_tflops[dtype], device->peak_tflops[SC_FP32]));
}

/* ---- rows ---- */

static struct sc_op op_of(const struct sc_fit_table *t, enum sc_op_kind kind)
{
	return (struct sc_op){.kind = kind,
			      .dtype =
				      t->cells.dtype < 0 ? SC_FP16 : (enum sc_dtype)t->cells.dtype};
}

/* The cast of the input from bf16, which is read for its scale, and cast. The scale of a tensor or
 * row is a kernel of its own; those of fp8's blocks are laid out anew for Blackwell. */
static struct sc_op cast_of(const struct sc_fit_table *t, enum sc_dtype to)
{
	const bool blocks = t->cells.variant == BLOCK_SCALE, fp8 = to == SC_FP8;
	const bool laid_out = blocks && fp8 && t->device->cuda_capability >= BLACKWELL;
	const int n_reads = fp8 ? 2 + laid_out : 1;
	const double n = t->cells.batch * t->cells.m * t->cells.k;
	const double in = n * sc_dtype_bytes(SC_BF16), out = n * sc_dtype_bytes(to);
	const double left = sc_repeat_us(t->device, in + out, 1);
	struct sc_op op = {.kind = SC_OP_ROWWISE, .dtype = SC_BF16};

	op.u.rowwise = (struct sc_rowwise_shape){.read_bytes = left * n_reads * in,
						 .write_bytes = left * out,
						 .rows = t->cells.m,
						 .cols = t->cells.k,
						 .n_kernels = blocks && !laid_out ? 1 : 2};
	return op;
}

static int read_gemm(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	const struct sc_fit_cells *c = &t->cells;
	const bool in_blocks = c->dtype == SC_FP8 && c->variant == BLOCK_SCALE;
	const bool widens = in_blocks && t->device->cuda_capability < HOPPER; /* Triton's kernels */
	const struct sc_gemm_shape s = {.batch = c->batch,
					.m = c->m,
					.n = c->n,
					.k = c->k,
					.bmm = c->op == 1 || (c->op < 0 && c->batch > 1),
					.block_scaled = widens,
					.row_scaled = c->dtype == SC_FP8 && (!in_blocks || widens),
					.load = c->regime < 0 ? SC_LOAD_SECOND
							      : (enum sc_load)c->regime};
	double flop = 2 * s.batch * s.m * s.n * s.k;
	double elements = s.batch * (s.m * s.k + s.k * s.n + s.m * s.n);

	out->op[0] = out->op[1] = op_of(t, SC_OP_GEMM);
	out->op[0].u.gemm = s;
	out->n_ops = 1;
	if (c->pass == 1) { /* gradients of the input and of the weight */
		struct sc_gemm_shape *input = &out->op[0].u.gemm, *weight = &out->op[1].u.gemm;

		input->block_scaled = input->row_scaled = false;
		input->n = s.k;
		input->k = s.n;
		*weight = *input;
		weight->m = s.k;
		weight->n = s.n;
		weight->k = s.m;
		weight->sums_rows = true;
		out->n_ops = 2;
	}
	out->bound_us =
		out->n_ops *
		fmax(math_bound_us(t->device, out->op[0].dtype, flop),
		     memory_bound_us(t->device, elements * sc_dtype_bytes(out->op[0].dtype)));
	if (c->includes == 1)
		out->op[out->n_ops++] = cast_of(t, out->op[0].dtype);
	return 0;
}

static int read_attention(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	const struct sc_fit_cells *c = &t->cells;
	struct sc_attention_shape *s = &out->op[0].u.attention;
	double flop, elements;

	out->op[0] = op_of(t, SC_OP_ATTENTION);
	out->n_ops = 1;
	*s = (struct sc_attention_shape){.batch = c->batch,
					 .heads = c->heads,
					 .kv_heads = c->kv_heads > 0 ? c->kv_heads : c->heads,
					 .seq_q = c->seq,
					 .seq_kv = c->seq_kv > 0 ? c->seq_kv : c->seq,
					 .head_dim = c->head_dim,
					 .causal = c->causal == 1,
					 .backward = c->pass == 1};
	flop = 4 * s->batch * s->heads * s->seq_q * s->seq_kv * s->head_dim;
	flop *= (s->causal ? 0.5 : 1) * (s->backward ? BACKWARD_ATTENTION_FLOP : 1);
	elements = 2 * s->batch * s->head_dim * (s->heads * s->seq_q + s->kv_heads * s->seq_kv);
	out->bound_us =
		fmax(math_bound_us(t->device, out->op[0].dtype, flop),
		     memory_bound_us(t->device, elements * sc_dtype_bytes(out->op[0].dtype)));
	return 0;
}

static int read_decode(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	const struct sc_fit_cells *c = &t->cells;
	struct sc_attention_shape *s = &out->op[0].u.attention;

	out->op[0] = op_of(t, SC_OP_ATTENTION);
	out->n_ops = 1;
	*s = (struct sc_attention_shape){
		.batch = c->batch,
		.heads = c->heads,
		.kv_heads = c->kv_heads > 0 ? c->kv_heads : c->heads,
		.seq_q = 1,
		.seq_kv = c->kv_len,
		.head_dim = c->head_dim,
		.cache_bytes = sc_dtype_bytes(c->kv_dtype < 0 ? out->op[0].dtype
							      : (enum sc_dtype)c->kv_dtype)};
	out->bound_us = memory_bound_us(t->device, 2 * s->batch * s->kv_heads * s->head_dim *
							   s->seq_kv * s->cache_bytes);
	return 0;
}

static int read_rowwise(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	struct sc_rowwise_shape *s = &out->op[0].u.rowwise;

	out->op[0] = op_of(t, SC_OP_ROWWISE);
	out->n_ops = 1;
	sc_rowwise_shape_set((enum sc_rowwise_kind)t->cells.op, t->cells.pass == 1,
			     sc_dtype_bytes(out->op[0].dtype), t->cells.rows, t->cells.cols, s);
	out->bound_us = memory_bound_us(t->device, s->read_bytes + s->write_bytes);
	return 0;
}

static int read_optimizer(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	double bytes = t->cells.bytes * t->cells.params;

	out->op[0] = (struct sc_op){.kind = SC_OP_OPTIMIZER, .dtype = SC_FP16};
	out->op[0].u.rowwise = (struct sc_rowwise_shape){
		.read_bytes = bytes, .rows = t->cells.params, .cols = 1, .n_kernels = 1};
	out->n_ops = 1;
	out->bound_us = memory_bound_us(t->device, bytes);
	return 0;
}

/* By what its source calls it: "FBGEMM TBE forward, hipified kernel". The rest is FBGEMM's. */
static enum sc_embedding_kernel kernel_of(const char *text)
{
	static const struct sc_name words[] = {
		{"hipified", SC_KERNEL_TBE_HIP}, {"pytorch", SC_KERNEL_PYTORCH},
		{"PyTorch", SC_KERNEL_PYTORCH},  {"hugectr", SC_KERNEL_HUGECTR},
		{"HugeCTR", SC_KERNEL_HUGECTR},  {0},
	};

	for (const struct sc_name *word = words; word->name; word++)
		if (strstr(text, word->name))
			return (enum sc_embedding_kernel)word->value;
	return SC_KERNEL_TBE;
}

/* `tables` alike tables in one kernel. */
static int read_embedding(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	const struct sc_fit_cells *c = &t->cells;
	struct sc_embedding_shape *s = &out->op[0].u.embedding;
	struct sc_table table = {
		.rows = (int64_t)c->rows,
		.dim = (int64_t)c->dim,
		.count = (int64_t)c->tables,
		.features = 1,
		.pooling = c->pooling,
		.reuse = {.zipf = c->zipf, .kind = c->zipf > 0 ? SC_REUSE_ZIPF : SC_REUSE_UNIFORM}};
	struct sc_embedding_use use = {
		.table = &table,
		.samples = c->batch,
		.unique_rows = c->unique_rows,
		.longest_run = c->longest_run,
		.kernel = kernel_of(c->kernel),
		.optimizer = c->optimizer < 0 ? SC_ROW_SGD : (enum sc_row_optimizer)c->optimizer,
		.warm = c->warm == 1};

	out->op[0] = op_of(t, SC_OP_EMBEDDING);
	out->n_ops = 1;
	table.storage = (int)out->op[0].dtype + 1;
	*s = sc_embedding_shape_of(t->device, &use, 1,
				   c->pass == 1 ? SC_EMBEDDING_BACKWARD : SC_EMBEDDING_FORWARD);
	if (c->sorted == 0)
		s->sort_keys = 0;
	out->shape = sc_fnv(out->shape, &table.pooling, sizeof(table.pooling));
	out->bound_us = memory_bound_us(t->device,
					s->unique_rows * c->dim * sc_dtype_bytes(out->op[0].dtype));
	return 0;
}

static int read_seen(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	const struct sc_fit_cells *c = &t->cells;
	const bool sums = strcmp(c->collective, sc_collective_names[SC_ALL_REDUCE]) == 0 ||
			  strcmp(c->collective, sc_collective_names[SC_REDUCE_SCATTER]) == 0;
	struct sc_interfere_seen *seen = &out->seen;

	*seen = (struct sc_interfere_seen){.alone_us = c->alone_us,
					   .beside_frac = c->beside_frac,
					   .blocks = c->blocks,
					   .comm_blocks = c->comm_blocks,
					   .comm_load = c->comm_load,
					   .computes = c->computes == 1,
					   .sums = sums};
	if (!t->is_of_pairs)
		return 0;
	*seen = (struct sc_interfere_seen){
		.alone_us = c->compute_us,
		.comm_us = c->comm_us,
		.beside_frac = fmin(1, c->comm_us / c->compute_us),
		.blocks = c->n > 0 ? ceil(c->m / TILE) * ceil(c->n / TILE) : 0,
		.comm_blocks = c->ctas,
		.comm_load = sc_interfere_port_share(t->device, c->bytes, c->gpus, c->comm_us),
		.computes = c->n > 0,
		.sums = sums,
	};
	out->dim[0] = seen->alone_us;
	out->dim[1] = seen->beside_frac;
	out->dim[2] = seen->blocks;
	out->dim[3] = seen->comm_blocks;
	out->shape = sc_fnv(SC_FNV_START, out->dim, sizeof(out->dim));
	return 0;
}

const struct sc_fit_reader *sc_fit_reader_of(const struct sc_fit_table *table)
{
	static const struct sc_fit_reader readers[SC_N_FIT_KINDS] = {
		[SC_FIT_GEMM] = {GEMM_CELLS, 4, read_gemm},
		[SC_FIT_ATTENTION] = {ATTENTION_CELLS, 4, read_attention},
		[SC_FIT_ATTENTION_DECODE] = {DECODE_CELLS, 4, read_decode},
		[SC_FIT_ROWWISE] = {ROWWISE_CELLS, 2, read_rowwise},
		[SC_FIT_OPTIMIZER] = {OPTIMIZER_CELLS, 1, read_optimizer},
		[SC_FIT_EMBEDDING] = {EMBEDDING_CELLS, 4, read_embedding},
		[SC_FIT_HOST] = {HOST_CELLS, 1, NULL},
		[SC_FIT_COLLECTIVE] = {COLLECTIVE_CELLS, 3, NULL},
		[SC_FIT_INTERFERENCE] = {SEEN_CELLS, 4, read_seen},
	};
	static const struct sc_fit_reader pairs = {PAIR_CELLS, 0, read_seen};

	if (table->opts->kind >= SC_FIT_LINEAR_ATTENTION)
		return sc_fit_module_reader(table->opts->kind);
	return table->is_of_pairs ? &pairs : &readers[table->opts->kind];
}

/* ---- coefficients ---- */

#define MINOR SC_FIT_MINOR
#define OFF SC_FIT_MAY_BE_OFF

static const struct sc_fit_coef GEMM[] = {
	{"eff_max", 0.05, 1, 0, 0},
	{"eff_tf32", 0.05, 2, OFF, 0},
	{"eff_fp8", 0.05, 2, OFF, 0},
	{"eff_fp4", 0.05, 2, OFF, 0},
	{"power_eff", 0.05, 2, 0, 0},
	{"power_eff_fp8", 0.05, 2, OFF, 0},
	{"power_eff_fp4", 0.05, 2, OFF, 0},
	{"eff_simt", 0.05, 1, 0, 0},
	{"tile_half", 0.5, 1e3, MINOR, 0},
	{"k_half", 0.5, 1e4, MINOR, 0},
	{"k_half_batched", 0.5, 1e4, MINOR, 0},
	{"wave_frac", 1e-3, 1, MINOR, 0},
	{"hbm_eff", 0.05, 1, 0, 0},
	{"fixed_us", 0.1, 100, 0, 0},
	{"misaligned_eff", 0.02, 1, 0, 0},
	{"split_us", 0.1, 100, MINOR, 0},
	{"align_loss", 1e-3, 1, MINOR, 0},
	{"odd_rows_loss", 1e-3, 1, MINOR | OFF, 0},
	{"reread_frac", 1e-3, 1, MINOR | OFF, 0},
	{"tensor_pj", 0.05, 20, MINOR | OFF, 0},
	{"l2_ratio", 1, 20, MINOR | OFF, 0},
	{0},
};
/* The tile and the blocks are the library's choice. */
static const struct sc_fit_coef SIMT[] = {
	{"eff_batched", 0.05, 4, OFF, 0},
	{"tile_half", 0.5, 1e3, MINOR | OFF, 10},
	{"k_half", 0.5, 1e4, MINOR | OFF, 40},
	{"k_half_batched", 0.5, 1e4, MINOR | OFF, 7},
	{"wave_frac", 1e-3, 1, MINOR | OFF, 0.9},
	{"far_loss", 1e-3, 10, MINOR | OFF, 1.5},
	{"droop_frac", 1e-3, 1, MINOR | OFF, 0},
	{"flop_pj", 1, 100, MINOR | OFF, 22},
	{0},
};
static const struct sc_fit_coef ATTENTION[] = {
	{"fwd_eff", 0.02, 1, 0, 0},
	{"bwd_eff", 0.02, 1, 0, 0},
	{"fixed_us", 0.1, 500, 0, 0},
	{"fwd_tile_us", 0.1, 100, MINOR, 0},
	{"bwd_tile_us", 0.1, 100, MINOR, 0},
	{"fp8_eff", 0.05, 2, MINOR | OFF, 0},
	{"fp8_wide_eff", 0.05, 2, MINOR | OFF, 0},
	{"head_half", 0.5, 1e3, MINOR, 0},
	{"padded_eff", 0.1, 1, MINOR, 0},
	{"fwd_wide_eff", 0.1, 1, MINOR, 0},
	{"bwd_wide_eff", 0.1, 1, MINOR, 0},
	{"wave_frac", 1e-3, 1, MINOR, 0},
	{"decode_eff", 0.05, 1, OFF, 0},
	{0},
};
static const struct sc_fit_coef ROWWISE[] = {
	{"hbm_eff", 0.05, 1, 0, 0},
	{"half_bytes", 1e3, 1e9, MINOR, 0},
	{"fixed_us", 0.1, 500, 0, 0},
	{"sm_bytes_clk", 1, 100, MINOR | OFF, 0},
	{0},
};
/* Tables hold no rows of the host's memory. */
static const struct sc_fit_coef EMBEDDING[] = {
	{"hbm_eff", 0.05, 1, 0, 0},
	{"update_eff", 0.05, 1, 0, 0},
	{"l2_ratio", 0.5, 20, MINOR, 0},
	{"lookup_cycles", 0.1, 1e3, MINOR, 0},
	{"row_cycles", 1, 1e5, 0, 0},
	{"run_cycles", 0.1, 1e3, MINOR, 0},
	{"run_max", 1e2, 1e7, MINOR, 0},
	{"sort_bytes", 1, 1e4, MINOR, 0},
	{"sort_us", 0.1, 1e3, MINOR, 0},
	{"fixed_us", 0.1, 500, 0, 0},
	{"load_cycles", 50, 1e4, MINOR | OFF, 0},
	{0},
};
static const struct sc_fit_coef HOST[] = {{"launch_us", 0.05, 1e3, 0, 0}, {0}};
/* The coefficients of recordings; others are of pairs under policies, which none has. */
static const struct sc_fit_coef INTERFERENCE[] = {
	{"path_compute", 0.01, 1, MINOR, 0},
	{"path_comm", 0.01, 1, 0, 0},
	{"start_us", 0.01, 100, 0, 0},
	{"start_sum_us", 0.01, 100, 0, 0},
	{0},
};
static const struct sc_fit_coef LINKS[] = {
	{"eff", 0.05, 1, 0, 0.8},        {"p2p_eff", 0.05, 1, 0, 0.92},
	{"copy_gbps", 200, 1e4, 0, 500}, {"nvls_eff", 0.05, 1.1, OFF, 0.5},
	{"latency_us", 0.05, 1e3, 0, 5}, {"hop_us", 0.05, 100, 0, 1},
	{"simple_us", 0.05, 1e3, 0, 8},  {0},
};
static const struct sc_fit_coef NETS[] = {
	{"eff", 0.02, 1, 0, 0.89},        {"tree_eff", 0.02, 1, 0, 0.8},
	{"p2p_eff", 0.02, 1.1, 0, 0.8},   {"a2a_eff", 0.02, 1.1, 0, 0.6},
	{"sharp_eff", 0.02, 1.1, 0, 0.5}, {"latency_us", 0.05, 1e3, 0, 1},
	{"simple_us", 0.05, 1e3, 0, 9},   {0},
};
/* Coefficients of every machine; the rows of one alone do not tell them. Starts: NCCL's own
 * constants where it has them. */
static const struct sc_fit_coef RAMP[] = {
	{"nvls_slope", 1, 100, 0, 4},
	{"net_slope", 1, 1e4, 0, 100},
	{"ring_net_frac", 0.05, 1, 0, 0.5},
	{"nvls_latency_us", 5, 100, 0, 25},
	{"nvls_simple_us", 5, 100, 0, 25},
	{"p2p_latency_us", 0.05, 200, 0, 2},
	{"peer_us", 0.01, 50, 0, 1},
	{"local_peer_us", 0.01, 50, 0, 0.3},
	{"peer_fill_us", 0.1, 100, 0, 10},
	{"pcie_eff", 0.05, 1, 0, 0.75},
	{0},
};

const struct sc_fit_coef *sc_fit_coefs_of(const char *section)
{
	static const struct {
		const char *name;
		const struct sc_fit_coef *coefs;
	} sections[] = {{"gemm", GEMM},
			{"simt", SIMT},
			{"attention", ATTENTION},
			{"rowwise", ROWWISE},
			{"embedding", EMBEDDING},
			{"host", HOST},
			{"interference", INTERFERENCE},
			{"links", LINKS},
			{"nets", NETS},
			{"ramp", RAMP}};

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		if (strcmp(sections[i].name, section) == 0)
			return sections[i].coefs;
	return NULL;
}

const struct sc_fit_fixed sc_fit_fixed[] = {
	{"simt", "far_k", 5000},
	{"simt", "droop_us", 2000},
	{"simt", "batched_blocks", 0},
	{"simt", "droop_frac", 0},
	{0},
};

/* The optimizer's model shares the coefficients of the row-wise one. */
const char *const sc_fit_sections[SC_N_FIT_KINDS] = {
	[SC_FIT_GEMM] = "gemm",
	[SC_FIT_ATTENTION] = "attention",
	[SC_FIT_ATTENTION_DECODE] = "attention",
	[SC_FIT_ROWWISE] = "rowwise",
	[SC_FIT_OPTIMIZER] = "rowwise",
	[SC_FIT_EMBEDDING] = "embedding",
	[SC_FIT_HOST] = "host",
	[SC_FIT_INTERFERENCE] = "interference",
};
const char *const sc_fit_kind_names[] = {SC_FIT_KIND_NAMES, NULL};

const char *const sc_fit_status_names[] = {
	[SC_FIT_FITTED] = "fitted",
	[SC_FIT_AT_BOUND] = "at its bound",
	[SC_FIT_UNDETERMINED] = "not determined",
	[SC_FIT_OFF] = "off",
	[SC_FIT_KEPT] = "kept",
	[SC_FIT_LEANT] = "hardly told",
};
