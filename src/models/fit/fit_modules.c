/* Rows of parts of layers: linear and sparse attention, latent attention, routed experts, as the
 * collectors of ai-dynamo/aiconfigurator time them in three serving frameworks. A row is told its
 * time whole: several kernels, some of them a framework's own, and what the host adds where no CUDA
 * graph was captured. */
#include <math.h>

#include "base/units.h"
#include "models/fit/fit_cells_priv.h"
#include "models/op_model_priv.h"

#define MODULE_SPREAD_FRAC 0.2
#define MOST_EXPANDED 256.0 /* of a head whose keys and values were expanded from latents */
#define SIZES4(a, b, c, d) SIZE(a), SIZE(b), SIZE(c), SIZE(d)
#define MEASURED TIME("time_us"), TEXT("source", source), NAMED("framework", framework, FRAMEWORKS)

enum { SGLANG, TRTLLM, VLLM };
static const struct sc_name FRAMEWORKS[] = {
	{"sglang", SGLANG}, {"trtllm", TRTLLM}, {"vllm", VLLM}, {0}};
enum { CONTEXT, DECODE, VERIFY };
static const struct sc_name PHASES[] = {
	{"context", CONTEXT}, {"decode", DECODE}, {"verify", VERIFY}, {0}};
enum { ADA = 89, HOPPER = 90, BLACKWELL = 100 }; /* CUDA capability */

static double op_us(const struct sc_fit_table *t, const struct sc_op *op, struct sc_fit_row *out)
{
	struct sc_op_time time;

	sc_op_model_get(op->kind)->time(t->device, op, &time);
	out->told_spread_frac = fmax(out->told_spread_frac, time.spread_frac);
	return time.total_us;
}

/* Tensors that kernels hand on; half of what fits in the last cache stays there. */
static double pass_us(const struct sc_fit_table *t, double bytes)
{
	const double fill = bytes / (t->device->l2_mib * SC_BYTES_PER_MIB);

	return sc_bytes_us(bytes, t->device->hbm_gbps * t->device->rowwise.hbm_eff) *
	       (1 - 0.5 / (1 + pow(fill, 4)));
}

/* ---- linear attention ---- */

enum { SCAN, CONV };
static const struct sc_name PARTS[] = {{"scan", SCAN}, {"conv", CONV}, {0}};
static const struct sc_name RULES[] = {
	{"mamba2", SC_SCAN_DECAY}, {"gdn", SC_SCAN_DELTA}, {"kda", SC_SCAN_CHANNEL_DELTA}, {0}};
static const struct sc_field LINEAR_CELLS[] = {SIZES4(batch, seq, v_heads, k_heads),
					       SIZE(k_dim),
					       SIZE(v_dim),
					       SIZE_OR(conv, 4),
					       SIZE_OR(chunk, 0),
					       NAMED("op", rule, RULES),
					       NAMED("part", part, PARTS),
					       NAMED("phase", phase, PHASES),
					       MEASURED,
					       {0}};

/* vLLM has kernels of its own from Hopper on, before them those that SGLang has. */
static enum sc_scan_kernel scan_kernel_of(const struct sc_fit_table *t)
{
	if (t->cells.framework != VLLM || sc_kernel_capability(t->device) < HOPPER)
		return SC_SCAN_CHUNKED;
	return sc_kernel_capability(t->device) < BLACKWELL ? SC_SCAN_FUSED
							   : SC_SCAN_FUSED_BLACKWELL;
}

/* The collectors convolve queries, keys and values; those of TensorRT-LLM, and the older one of
 * A100, of Gated DeltaNet the keys alone, in CUDA. Of Kimi Delta Attention each has a kernel. */
static struct sc_op conv_of(const struct sc_fit_table *t)
{
	const struct sc_fit_cells *c = &t->cells;
	const bool in_cuda = c->framework == TRTLLM || sc_kernel_capability(t->device) < ADA;
	const bool keys_alone = in_cuda && c->rule == SC_SCAN_DELTA;
	const double keys = c->k_heads * c->k_dim;
	struct sc_op op = {.kind = SC_OP_CONV, .dtype = SC_BF16};

	op.u.conv = (struct sc_conv_shape){
		.kernel = c->phase != CONTEXT ? SC_CONV_UPDATE
			  : in_cuda           ? SC_CONV_BLOCK
					      : SC_CONV_TILED,
		.batch = c->batch,
		.seq = c->seq,
		.channels = keys_alone ? keys : 2 * keys + c->v_heads * c->v_dim,
		.width = c->conv,
		.n_kernels = c->rule == SC_SCAN_CHANNEL_DELTA && c->phase == CONTEXT ? 3 : 1,
		.load = SC_LOAD_BURST};
	return op;
}

static int read_linear(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	const struct sc_fit_cells *c = &t->cells;
	struct sc_op op = {.kind = SC_OP_SCAN, .dtype = SC_BF16};

	if (c->part == CONV)
		op = conv_of(t);
	else
		op.u.scan = (struct sc_scan_shape){.rule = (enum sc_scan_rule)c->rule,
						   .kernel = scan_kernel_of(t),
						   .batch = c->batch,
						   .seq = c->seq,
						   .k_heads = c->k_heads,
						   .v_heads = c->v_heads,
						   .k_dim = c->k_dim,
						   .v_dim = c->v_dim,
						   .chunk = c->chunk,
						   .recurrent = c->phase != CONTEXT,
						   .load = SC_LOAD_BURST};
	out->told_us = op_us(t, &op, out);
	return 0;
}

/* ---- latent attention ---- */

static const struct sc_field MLA_CELLS[] = {
	SIZES4(batch, heads, seq, kv_len), SIZE(qk_dim), SIZE(v_dim), NAMED("phase", phase, PHASES),
	NAME(kv_dtype, sc_dtype_names),    MEASURED,     {0}};

/* A program: its start, the share of tensor peak that it reaches; of a context the bytes that it
 * moves a token and head, with the making of queries and keys, and a tile's start and end; of
 * decoding, the share of HBM bandwidth at which it reads latents, and cycles for a key where keys
 * are not split among SMs. As the table asks, 100 to 1,400 rows a line: median 10 % (of vLLM the
 * host's time is in its start: no CUDA graph). */
enum {
	EXPANDED,
	ABSORBED,
	CACHED
}; /* keys and values of each head; latents as both; the same of a cache */
struct latent_program {
	int shape, framework, capability, fp8; /* -1: any framework; from this capability on */
	double fixed_us, math_eff, bytes, step;
};
static const struct latent_program LATENT_PROGRAMS[] = {
	{EXPANDED, VLLM, HOPPER, 0, 167, 0.7, 4800, 0.12},
	{EXPANDED, VLLM, 0, 0, 270, 0.44, 6200, 1.4},
	{EXPANDED, TRTLLM, BLACKWELL, 0, 14.5, 0.519, 2110, 3.06},
	{EXPANDED, TRTLLM, BLACKWELL, 1, 18.5, 0.612, 4290, 3.08},
	{EXPANDED, SGLANG, BLACKWELL, 0, 14.5, 0.508, 4150, 3.1},
	{EXPANDED, SGLANG, BLACKWELL, 1, 22, 0.61, 5340, 2.94},
	{EXPANDED, -1, HOPPER, 0, 14.8, 0.556, 1770, 3.5},
	{EXPANDED, -1, HOPPER, 1, 18.6, 0.553, 3270, 3.2},
	{EXPANDED, -1, ADA, 0, 2.4, 0.403, 1350, 7.7},
	{EXPANDED, -1, 0, 0, 13.9, 0.449, 1840, 3.9},
	{ABSORBED, -1, HOPPER, 0, 17, 0.558, 3900, 0.03},
	{ABSORBED, -1, 0, 0, 5.8, 0.207, 83, 4.5},
	{CACHED, VLLM, HOPPER, 0, 156, 0.64, 0.97, 0.7},
	{CACHED, VLLM, HOPPER, 1, 197, 0.7, 0.53, 0.7},
	{CACHED, VLLM, 0, 0, 330, 0.12, 0.85, 29},
	{CACHED, -1, BLACKWELL, 0, 12.2, 0.76, 0.668, 1},
	{CACHED, -1, BLACKWELL, 1, 11.4, 0.94, 0.72, 0.75},
	{CACHED, SGLANG, HOPPER, 1, 18, 0.196, 0.086, 3.7},
	{CACHED, -1, HOPPER, 0, 14.5, 0.625, 0.86, 1},
	{CACHED, -1, HOPPER, 1, 14.7, 0.711, 0.805, 0.67},
	{CACHED, SGLANG, ADA, 0, 19.2, 0.126, 0.79, 0.43},
	{CACHED, -1, ADA, 0, 8.4, 0.324, 0.808, 190},
	{CACHED, -1, 0, 0, 13, 0.306, 0.325, 163},
};
#define LATENT_TILE 128.0 /* queries of a tile of a context */
#define LATENT_ROWS 16.0  /* heads that tensor cores multiply at least */

static const struct latent_program *latent_program_of(const struct sc_fit_table *t, int shape)
{
	const int fp8 = t->cells.kv_dtype == SC_FP8;
	const size_t n = sizeof(LATENT_PROGRAMS) / sizeof(LATENT_PROGRAMS[0]);

	/* a line without fp8 of its own stands for both */
	for (int wanted = fp8; wanted >= 0; wanted--)
		for (size_t i = 0; i < n; i++) {
			const struct latent_program *p = &LATENT_PROGRAMS[i];

			if (p->shape == shape && p->fp8 == wanted &&
			    (p->framework < 0 || p->framework == t->cells.framework) &&
			    sc_kernel_capability(t->device) >= p->capability)
				return p;
		}
	return NULL;
}

static int read_mla(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	const struct sc_fit_cells *c = &t->cells;
	const bool absorbed = c->qk_dim > MOST_EXPANDED, decodes = c->phase != CONTEXT;
	const struct latent_program *p = latent_program_of(t, decodes    ? CACHED
							      : absorbed ? ABSORBED
									 : EXPANDED);
	const double dims = c->qk_dim + c->v_dim, sms = (double)t->device->sm_count;
	const double peak = t->device->peak_tflops[SC_BF16], hbm = t->device->hbm_gbps;
	const double heads = ceil(c->heads / LATENT_ROWS) * LATENT_ROWS;
	/* a cache of fp8 is read no faster before */
	const bool narrow = c->kv_dtype == SC_FP8 && sc_kernel_capability(t->device) >= HOPPER;
	double bytes, math_us, memory_us;

	if (decodes) {
		bytes = c->batch *
			(c->kv_len * c->qk_dim * (narrow ? 1 : 2) + c->heads * c->seq * dims * 2);
		math_us = sc_flop_us(2 * c->batch * heads * c->kv_len * dims, peak * p->math_eff);
		math_us = sc_smooth_max(math_us, c->kv_len * p->step / t->device->boost_mhz);
		memory_us = sc_bytes_us(bytes, hbm * p->bytes);
	} else {
		const double w = c->batch * c->heads * ceil(c->seq / LATENT_TILE) / sms;

		bytes = c->batch * c->seq * c->heads * p->bytes;
		math_us = sc_flop_us(c->batch * c->heads * c->seq * (c->seq + LATENT_TILE) * dims,
				     peak * p->math_eff) +
			  fmax(1, w) * p->step;
		memory_us = sc_bytes_us(bytes, hbm * t->device->rowwise.hbm_eff);
	}
	out->told_us = p->fixed_us + sc_smooth_max(math_us, memory_us);
	out->told_spread_frac = MODULE_SPREAD_FRAC;
	return 0;
}

/* ---- routed experts ---- */

static const struct sc_name ROUTINGS[] = {{"balanced", 0}, {"power_law_1.2", 1}, {0}};
enum { BF16, FP8, FP8_BLOCK, NVFP4 };
static const struct sc_name FORMATS[] = {{"bf16", BF16},           {"bfloat16", BF16}, {"fp8", FP8},
					 {"fp8_block", FP8_BLOCK}, {"nvfp4", NVFP4},   {0}};
static const struct sc_field EXPERT_CELLS[] = {SIZES4(tokens, experts, hidden, topk),
					       NUMBER("inter", inter_dim, 1, SC_FIT_MAX_SIZE),
					       SIZE_OR(ep, 1),
					       SIZE_OR(tp, 1),
					       NAME(routing, ROUTINGS),
					       NAMED("variant", variant, FORMATS),
					       MEASURED,
					       {0}};
/* The busiest of ep GPUs under a power law of 1.2 has ep^0.45 times its share; of its experts a
 * part has most tokens: of R copies a share 1 - (1 + R / (0.6 n))^-0.6 of n has any. */
#define SKEW 0.45
#define SKEW_SPREAD 0.6

/* Copies of tokens that the GPU multiplies, and the experts that have any. */
static double routed_rows(const struct sc_fit_cells *c, double *n_hit)
{
	const double n_local = c->experts / c->ep;
	double rows = c->tokens * c->topk / c->ep * (c->routing == 1 ? pow(c->ep, SKEW) : 1);

	rows = fmin(rows, c->tokens * fmin(c->topk, n_local));
	*n_hit = n_local;
	if (c->routing == 1)
		*n_hit *= 1 - pow(1 + rows / n_local / SKEW_SPREAD, -SKEW_SPREAD);
	*n_hit = fmin(*n_hit, rows);
	return rows;
}

/* Beside its two products, which take `factor` of what the model of products says of them as one
 * batch: times that copies of tokens pass through memory in rows of the hidden size and of the
 * experts' width, and all of the group's tokens in rows of the hidden size. SGLang and vLLM pass
 * all the group's copies through buffers, vLLM's nvfp4 kernels and TensorRT-LLM this GPU's. */
struct expert_program {
	int framework, capability, formats; /* from this capability on; bits of the formats */
	double fixed_us, hidden_passes, inter_passes, group_passes, factor;
};
#define ALL_FORMATS 15
static const struct expert_program EXPERT_PROGRAMS[] = {
	{SGLANG, BLACKWELL, 1 << NVFP4, 16, 5, 0.7, 0, 1.44},
	{SGLANG, BLACKWELL, 1 << FP8_BLOCK, 49, 3.8, 51, 6.6, 1.17},
	{SGLANG, BLACKWELL, ALL_FORMATS, 53.7, 4.7, 122, 2.4, 1},
	{SGLANG, HOPPER, ALL_FORMATS, 36, 2.6, 32, 0, 0.98},
	{SGLANG, ADA, ALL_FORMATS, 0, 0.7, 29, 0, 1.13},
	{SGLANG, 0, ALL_FORMATS, 33, 1.9, 78, 2.5, 1.03},
	{TRTLLM, BLACKWELL, 1 << NVFP4, 32, 3.8, 0, 11.8, 1.31},
	{TRTLLM, BLACKWELL, 1 << FP8_BLOCK, 31, 9.6, 0, 9.5, 1.18},
	{TRTLLM, BLACKWELL, ALL_FORMATS, 30, 4.1, 0, 9.8, 0.94},
	{TRTLLM, HOPPER, 1 << FP8_BLOCK, 29, 10.4, 15, 4.8, 1.07},
	{TRTLLM, HOPPER, ALL_FORMATS, 38.5, 2.1, 0, 7.4, 0.99},
	{TRTLLM, ADA, ALL_FORMATS, 14.3, 0.85, 8.9, 2.6, 0.93},
	{TRTLLM, 0, ALL_FORMATS, 41, 1.6, 78, 6.3, 0.86},
	{VLLM, BLACKWELL, 1 << NVFP4, 18.5, 0, 0.3, 7.6, 1.25},
	{VLLM, BLACKWELL, 1 << FP8_BLOCK, 23, 0, 25, 29, 2.08},
	{VLLM, BLACKWELL, ALL_FORMATS, 22, 0.5, 14.5, 5, 1.26},
	{VLLM, HOPPER, 1 << FP8_BLOCK, 29.4, 0, 11.4, 13.1, 1.31},
	{VLLM, HOPPER, 1 << FP8, 17, 0, 8, 13.4, 2.54},
	{VLLM, HOPPER, ALL_FORMATS, 27.4, 1.2, 7.8, 7, 1.17},
	{VLLM, ADA, ALL_FORMATS, 9.4, 1.1, 8.8, 0.4, 1.04},
	{VLLM, 0, ALL_FORMATS, 23, 0, 16, 20, 1.25},
};

static const struct expert_program *expert_program_of(const struct sc_fit_table *t)
{
	const struct expert_program *p = EXPERT_PROGRAMS;

	while (p->framework != t->cells.framework ||
	       sc_kernel_capability(t->device) < p->capability ||
	       !(p->formats >> t->cells.variant & 1))
		p++;
	return p;
}

static int read_experts(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	const struct sc_fit_cells *c = &t->cells;
	const struct expert_program *p = expert_program_of(t);
	const double inter = c->inter_dim / c->tp;
	double n_hit, rows = routed_rows(c, &n_hit), bytes;
	struct sc_op op = {
		SC_OP_GEMM, SC_BF16, {.gemm = {.batch = fmax(1, n_hit), .load = SC_LOAD_BURST}}};

	if (c->variant != BF16)
		op.dtype = c->variant == NVFP4 ? SC_FP4 : SC_FP8;
	op.u.gemm.m = fmax(1, rows / fmax(1, n_hit));
	op.u.gemm.n = 2 * inter;
	op.u.gemm.k = c->hidden;
	out->told_us = op_us(t, &op, out);
	op.u.gemm.n = c->hidden;
	op.u.gemm.k = inter;
	out->told_us = p->factor * (out->told_us + op_us(t, &op, out));
	if (c->framework == SGLANG || (c->framework == VLLM && c->variant != NVFP4))
		rows = c->tokens * c->topk;
	bytes = rows * (p->hidden_passes * c->hidden + p->inter_passes * inter) +
		p->group_passes * c->tokens * c->hidden;
	out->told_us += p->fixed_us + pass_us(t, sc_dtype_bytes(SC_BF16) * bytes);
	out->told_spread_frac = fmax(out->told_spread_frac, MODULE_SPREAD_FRAC);
	return 0;
}

/* ---- sparse attention ---- */

/* The sizes that the modules of a model project to, and choose. */
struct module_model {
	double hidden, q_rank, nope, rope, value, index_heads, top_k;
};
enum { V3, V32, GLM5, V4_FLASH, V4_PRO, M3 };
static const struct sc_name MODULE_MODELS[] = {{"DeepSeek-V3", V3},
					       {"DeepSeek-V3.2", V32},
					       {"GLM-5", GLM5},
					       {"DeepSeek-V4-Flash", V4_FLASH},
					       {"DeepSeek-V4-Pro", V4_PRO},
					       {"MiniMax-M3", M3},
					       {0}};
static const struct module_model MODULES[] = {
	[V3] = {7168, 1536, 128, 64, 128, 0, 0},
	[V32] = {7168, 1536, 128, 64, 128, 64, 2048},
	[GLM5] = {6144, 2048, 192, 64, 256, 32, 2048},
	[V4_FLASH] = {4096, 1024, 448, 64, 512, 64, 512},
	[V4_PRO] = {7168, 1536, 448, 64, 512, 64, 1024},
	[M3] = {6144, 0, 64, 64, 128, 4, 2048},
};
enum { DSA_SKIP = SC_N_SPARSE_KINDS };
static const struct sc_name MODULE_OPS[] = {{"mla", SC_SPARSE_ALL},
					    {"dsa", SC_SPARSE_TOP_K},
					    {"dsa_skip_indexer", DSA_SKIP},
					    {"csa", SC_SPARSE_COMPRESSED_TOP_K},
					    {"hca", SC_SPARSE_COMPRESSED},
					    {"msa", SC_SPARSE_BLOCKS},
					    {0}};
static const struct sc_field SPARSE_CELLS[] = {SIZES4(batch, heads, seq, kv_len),
					       NAMED("op", rule, MODULE_OPS),
					       NAMED("model", module, MODULE_MODELS),
					       NAMED("phase", phase, PHASES),
					       NAME(kv_dtype, sc_dtype_names),
					       NAMED("weights", variant, FORMATS),
					       MEASURED,
					       {0}};
/* Beside the op model: a start (with the host, where it is long), products over their roofline, and
 * elementwise kernels: passes of the tokens in the hidden size and in all heads. [0]: of contexts,
 * [1]: of caches. */
struct module_program {
	int kind, framework, capability;
	struct {
		double fixed_us, products, absorbed, passes;
	} of[2];
};
static const struct module_program MODULE_PROGRAMS[] = {
	{SC_SPARSE_ALL, TRTLLM, 0, {{50, 0.26, 1.48, 11.3}, {45, 0.53, 3.72, 0}}},
	{SC_SPARSE_ALL, VLLM, HOPPER, {{91, 0.32, 1.48, 17.1}, {81, 0.82, 3.72, 19.7}}},
	{SC_SPARSE_ALL, VLLM, 0, {{58.5, 0.82, 1.62, 4.8}, {80.4, 0.53, 5.56, 0}}},
	{SC_SPARSE_TOP_K, SGLANG, 0, {{700, 0, 0, 12.6}, {124, 0.17, 2.33, 17.8}}},
	{SC_SPARSE_TOP_K, TRTLLM, 0, {{101, 0.92, 0, 36.5}, {95.5, 0.91, 2.33, 17.4}}},
	{SC_SPARSE_TOP_K, VLLM, 0, {{1495, 0, 0, 40.7}, {182, 0.8, 2.33, 43}}},
	{SC_SPARSE_COMPRESSED_TOP_K, SGLANG, 0, {{104, 0.86, 0, 15.3}, {83, 1.09, 0, 20.6}}},
	{SC_SPARSE_COMPRESSED_TOP_K, TRTLLM, 0, {{128.5, 0.27, 0, 19.3}, {88.6, 1.58, 0, 17}}},
	{SC_SPARSE_COMPRESSED_TOP_K, VLLM, 0, {{95.5, 0, 0, 25.6}, {71.2, 1.42, 0, 19.2}}},
	{SC_SPARSE_COMPRESSED, SGLANG, 0, {{62, 0.87, 0, 13.5}, {54.8, 1.1, 0, 13.3}}},
	{SC_SPARSE_COMPRESSED, TRTLLM, 0, {{65, 1.34, 0, 12.6}, {54.2, 1.54, 0, 12.5}}},
	{SC_SPARSE_COMPRESSED, VLLM, 0, {{68.7, 0.44, 0, 19.4}, {49.7, 1.34, 0, 16}}},
	{SC_SPARSE_BLOCKS, SGLANG, 0, {{735, 1.19, 0, 15.5}, {39.6, 1.15, 0, 19.8}}},
	{SC_SPARSE_BLOCKS, TRTLLM, HOPPER, {{237, 0.06, 0, 98}, {137.6, 1.29, 0, 244}}},
	{SC_SPARSE_BLOCKS, TRTLLM, 0, {{91, 1.4, 0, 54.4}, {160, 1.16, 0, 8.1}}},
	{SC_SPARSE_BLOCKS, VLLM, HOPPER, {{29.1, 1.24, 0, 6.6}, {29.1, 0.98, 0, 16.6}}},
	{SC_SPARSE_BLOCKS, VLLM, 0, {{13.1, 1.11, 0, 2.8}, {13.8, 1.11, 0, 2.2}}},
};
#define PRODUCT_EFF 0.8   /* of tensor peak, that products of modules are compared with */
#define OPERAND_EFF 0.83  /* of HBM bandwidth */
#define ABSORBED_EFF 0.67 /* of tensor peak, of products with the keys' and values' expansion */
#define KV_RANK 512.0     /* of latents; with what carries positions 576 */
#define OUTPUT_GROUPS 8.0
#define OUTPUT_RANK 1024.0
#define HEADS_A_KEY 16.0
#define M3_DIM 128.0
#define V4_WINDOW 128.0
#define HEAVY 128.0 /* tokens of a key of heavily compressed attention; 4 of the other */

static double product_us(const struct sc_fit_table *t, double m, double k, double n)
{
	const enum sc_dtype dtype = t->cells.variant == BF16    ? SC_BF16
				    : t->cells.variant == NVFP4 ? SC_FP4
								: SC_FP8;
	const double wide = t->device->peak_tflops[SC_BF16], own = t->device->peak_tflops[dtype];
	const double weights = k * n * (dtype == SC_FP4 ? 0.5625 : sc_dtype_bytes(dtype));

	return sc_smooth_max(
		sc_flop_us(2 * m * k * n, (own > 0 ? own : wide) * PRODUCT_EFF),
		sc_bytes_us(weights + m * (k + n) * 2, t->device->hbm_gbps * OPERAND_EFF));
}

/* The projections of a module, and beside them those that latent attention absorbs. */
static double projections_us(const struct sc_fit_table *t, const struct module_model *model,
			     double *absorbed_us)
{
	const struct sc_fit_cells *c = &t->cells;
	const double m = c->batch * c->seq, h = c->heads, dims = model->nope + model->value;
	const double keys = fmax(1, h / HEADS_A_KEY);

	*absorbed_us = 0;
	if (c->module == M3)
		return product_us(t, m, model->hidden, (h + 2 * keys) * M3_DIM) +
		       product_us(t, m, h * M3_DIM, model->hidden);
	if (c->module == V4_FLASH || c->module == V4_PRO)
		return product_us(t, m, model->hidden, model->q_rank + KV_RANK) +
		       product_us(t, m, model->q_rank, h * model->value) +
		       product_us(t, m, h * model->value / OUTPUT_GROUPS, OUTPUT_RANK) +
		       product_us(t, m, OUTPUT_RANK * h / OUTPUT_GROUPS, model->hidden);
	*absorbed_us = sc_flop_us(2 * m * h * dims * KV_RANK,
				  t->device->peak_tflops[SC_BF16] * ABSORBED_EFF) +
		       sc_bytes_us(2 * h * (dims * KV_RANK + m * (2 * KV_RANK + dims)),
				   t->device->hbm_gbps);
	return product_us(t, m, model->hidden, model->q_rank + KV_RANK + model->rope) +
	       product_us(t, m, model->q_rank, h * (model->nope + model->rope)) +
	       product_us(t, m, h * model->value, model->hidden);
}

static struct sc_op sparse_op_of(const struct sc_fit_cells *c, const struct module_model *model)
{
	const double bytes = c->kv_dtype == SC_FP8 ? 1 : 2;
	const bool is_v4 = c->module == V4_FLASH || c->module == V4_PRO;
	const double keys = fmax(1, c->heads / HEADS_A_KEY);
	struct sc_op op = {.kind = SC_OP_SPARSE, .dtype = SC_BF16};
	struct sc_sparse_shape *s = &op.u.sparse;

	*s = (struct sc_sparse_shape){.kind = c->rule == DSA_SKIP ? SC_SPARSE_TOP_K
								  : (enum sc_sparse_kind)c->rule,
				      .batch = c->batch,
				      .seq = c->seq,
				      .past = fmax(0, c->kv_len - c->seq),
				      .heads = c->heads,
				      .top_k = model->top_k,
				      .index_heads = model->index_heads,
				      .index_dim = M3_DIM,
				      .cached = c->phase != CONTEXT};
	s->dims = c->module == M3 ? 2 * M3_DIM : is_v4 ? 2 * KV_RANK : 2 * KV_RANK + model->rope;
	s->entry_bytes = bytes * (c->module == M3 ? 2 * M3_DIM * keys
				  : is_v4         ? KV_RANK
						  : KV_RANK + model->rope);
	if (is_v4) {
		s->window = V4_WINDOW;
		s->compression = s->kind == SC_SPARSE_COMPRESSED ? HEAVY : 4;
	}
	if (s->kind == SC_SPARSE_COMPRESSED || s->kind == SC_SPARSE_ALL)
		s->top_k = 0;
	if (s->top_k <= 0 || c->rule == DSA_SKIP)
		s->index_heads = 0;
	return op;
}

static int read_sparse(const struct sc_fit_table *t, struct sc_fit_row *out)
{
	const struct sc_fit_cells *c = &t->cells;
	const struct module_model *model = &MODULES[c->module];
	const struct sc_op op = sparse_op_of(c, model);
	const int kind = (int)op.u.sparse.kind, cached = op.u.sparse.cached;
	const struct module_program *p = MODULE_PROGRAMS;
	const size_t n = sizeof(MODULE_PROGRAMS) / sizeof(MODULE_PROGRAMS[0]);
	const double width =
		c->module >= V4_FLASH && c->module <= V4_PRO ? KV_RANK : model->nope + model->value;
	struct sc_op_time time;
	double absorbed_us, products_us = projections_us(t, model, &absorbed_us);

	while (p < MODULE_PROGRAMS + n && (p->kind != kind || p->framework != c->framework ||
					   sc_kernel_capability(t->device) < p->capability))
		p++;
	if (p == MODULE_PROGRAMS + n)
		return sc_err_at(t->err, SC_EVALUE, t->csv.file, t->csv.line[t->row], 1,
				 "of this op no program of that framework is known");
	sc_op_model_get(SC_OP_SPARSE)->time(t->device, &op, &time);
	out->told_us = p->of[cached].fixed_us + p->of[cached].products * products_us +
		       p->of[cached].absorbed * absorbed_us + time.total_us - time.fixed_us;
	out->told_us += p->of[cached].passes *
			sc_bytes_us(2 * c->batch * c->seq * (model->hidden + c->heads * width),
				    t->device->hbm_gbps);
	out->told_spread_frac = MODULE_SPREAD_FRAC;
	return 0;
}

const struct sc_fit_reader *sc_fit_module_reader(enum sc_fit_kind kind)
{
	static const struct sc_fit_reader readers[] = {
		[SC_FIT_LINEAR_ATTENTION] = {LINEAR_CELLS, 4, read_linear},
		[SC_FIT_SPARSE_ATTENTION] = {SPARSE_CELLS, 4, read_sparse},
		[SC_FIT_MLA] = {MLA_CELLS, 4, read_mla},
		[SC_FIT_EXPERTS] = {EXPERT_CELLS, 4, read_experts},
	};

	return &readers[kind];
}
