/* Rows of parts of layers: linear and sparse attention, latent attention, routed experts, as the collectors of
 * ai-dynamo/aiconfigurator time them in three serving frameworks. A row is told its time whole: several kernels, some of
 * them a framework's own, and what the host adds where no CUDA graph was captured. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/units.h"
#include "models/fit/fit_priv.h"
#include "models/linear_attention.h"
#include "models/op_model_priv.h"

#define MAX_TIME_US 1e12
#define MODULE_SPREAD_FRAC 0.2
#define MOST_EXPANDED \
	256.0 /* dimensions of a head whose keys and values were expanded from latents */
#define CELL(key_, member, type_, lo, hi, absent_, required_)                                \
	{                                                                                    \
		.key = key_, .type = type_, .offset = offsetof(struct sc_fit_cells, member), \
		.min = lo, .max = hi, .absent = absent_, .required = required_               \
	}
#define SIZE(member) CELL(#member, member, SC_F_DOUBLE, 1, SC_FIT_MAX_SIZE, 0, true)
#define SIZE_OR(member, absent_) \
	CELL(#member, member, SC_F_DOUBLE, 1, SC_FIT_MAX_SIZE, absent_, false)
#define NAMED(key_, member, names_, required_)                                                   \
	{                                                                                        \
		.key = key_, .type = SC_F_ENUM, .offset = offsetof(struct sc_fit_cells, member), \
		.names = names_, .absent = -1, .required = required_                             \
	}
#define TIME CELL("time_us", time_us, SC_F_DOUBLE, 1e-6, MAX_TIME_US, 0, true)
#define ORIGIN                                                                                \
	{.key = "source", .type = SC_F_STR, .offset = offsetof(struct sc_fit_cells, source)}, \
		NAMED("framework", framework, FRAMEWORKS, true),                              \
		NAMED("dtype", dtype, sc_dtype_names, false)

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
static const struct sc_field LINEAR_CELLS[] = {SIZE(batch),
					       SIZE(seq),
					       SIZE(v_heads),
					       SIZE(k_heads),
					       SIZE(k_dim),
					       SIZE(v_dim),
					       SIZE_OR(conv, 4),
					       SIZE_OR(chunk, 0),
					       TIME,
					       NAMED("op", rule, RULES, true),
					       NAMED("part", part, PARTS, true),
					       NAMED("phase", phase, PHASES, true),
					       ORIGIN,
					       {0}};

/* vLLM has kernels of its own from Hopper on, before them those that SGLang has. */
static enum sc_scan_kernel scan_kernel_of(const struct sc_fit_table *t)
{
	if (t->cells.framework != VLLM || t->device->cuda_capability < HOPPER)
		return SC_SCAN_CHUNKED;
	return t->device->cuda_capability < BLACKWELL ? SC_SCAN_FUSED : SC_SCAN_FUSED_BLACKWELL;
}

/* The collectors convolve queries, keys and values; those of TensorRT-LLM, and the older one of A100, of Gated DeltaNet the
 * keys alone, in CUDA. Of Kimi Delta Attention each has a kernel. */
static struct sc_op conv_of(const struct sc_fit_table *t)
{
	const struct sc_fit_cells *c = &t->cells;
	const bool in_cuda = c->framework == TRTLLM || t->device->cuda_capability < ADA;
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

static const struct sc_field MLA_CELLS[] = {SIZE(batch),
					    SIZE(heads),
					    SIZE(seq),
					    SIZE(kv_len),
					    SIZE(qk_dim),
					    SIZE(v_dim),
					    TIME,
					    NAMED("phase", phase, PHASES, true),
					    NAMED("kv_dtype", kv_dtype, sc_dtype_names, false),
					    ORIGIN,
					    {0}};

/* A program: its start, the share of tensor peak that it reaches; of a context the bytes that it moves a token and head,
 * with the making of queries and keys, and a tile's start and end; of decoding, the share of HBM bandwidth at which it
 * reads latents, and cycles for a key where keys are not split among SMs. As the table asks, 100 to 1,400 rows a line:
 * median 10 % (of vLLM the host's time is in its start: no CUDA graph). */
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
	{EXPANDED, VLLM, HOPPER, 0, 145, 0.7, 5520, 0.17},
	{EXPANDED, VLLM, HOPPER, 1, 191, 0.7, 4140, 0.08},
	{EXPANDED, VLLM, 0, 0, 270, 0.44, 6200, 1.4},
	{EXPANDED, TRTLLM, BLACKWELL, 0, 14.5, 0.519, 2110, 3.06},
	{EXPANDED, TRTLLM, BLACKWELL, 1, 18.5, 0.612, 4290, 3.08},
	{EXPANDED, SGLANG, BLACKWELL, 0, 14.5, 0.508, 4150, 3.1},
	{EXPANDED, SGLANG, BLACKWELL, 1, 22, 0.61, 5340, 2.94},
	{EXPANDED, -1, HOPPER, 0, 14.8, 0.556, 1770, 3.5},
	{EXPANDED, -1, HOPPER, 1, 18.6, 0.553, 3270, 3.2},
	{EXPANDED, -1, ADA, 0, 2.4, 0.403, 1350, 7.7},
	{EXPANDED, -1, 0, 0, 13.9, 0.449, 1840, 3.9},
	{ABSORBED, -1, HOPPER, 0, 14.1, 0.557, 3720, 0.03},
	{ABSORBED, -1, HOPPER, 1, 20.3, 0.56, 4110, 0.03},
	{ABSORBED, -1, 0, 0, 5.8, 0.207, 83, 4.5},
	{CACHED, VLLM, HOPPER, 0, 156, 0.64, 0.97, 0.7},
	{CACHED, VLLM, HOPPER, 1, 197, 0.7, 0.53, 0.7},
	{CACHED, VLLM, ADA, 0, 334, 0.137, 0.93, 30},
	{CACHED, VLLM, 0, 0, 325, 0.1, 0.77, 28},
	{CACHED, -1, BLACKWELL, 0, 12.2, 0.76, 0.668, 1},
	{CACHED, -1, BLACKWELL, 1, 11.4, 0.94, 0.72, 0.75},
	{CACHED, SGLANG, HOPPER, 1, 18, 0.196, 0.086, 3.7},
	{CACHED, -1, HOPPER, 0, 14.5, 0.625, 0.86, 1},
	{CACHED, -1, HOPPER, 1, 14.7, 0.711, 0.805, 0.67},
	{CACHED, SGLANG, ADA, 0, 19.2, 0.126, 0.79, 0.43},
	{CACHED, -1, ADA, 0, 8.4, 0.324, 0.808, 190},
	{CACHED, -1, ADA, 1, 8, 0.309, 0.448, 190},
	{CACHED, -1, 0, 0, 13, 0.306, 0.325, 163},
	{CACHED, -1, 0, 1, 12.5, 0.302, 0.172, 163},
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
			    t->device->cuda_capability >= p->capability)
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
	double bytes, math_us, memory_us;

	if (decodes) {
		bytes = c->batch * (c->kv_len * c->qk_dim * (c->kv_dtype == SC_FP8 ? 1 : 2) +
				    c->heads * c->seq * dims * 2);
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
enum { BF16, FP8, FP8_BLOCK, NVFP4, N_FORMATS };
static const struct sc_name FORMATS[] = {
	{"bfloat16", BF16}, {"fp8", FP8}, {"fp8_block", FP8_BLOCK}, {"nvfp4", NVFP4}, {0}};
static const struct sc_field EXPERT_CELLS[] = {
	SIZE(tokens),
	SIZE(experts),
	SIZE(hidden),
	CELL("inter", inter_dim, SC_F_DOUBLE, 1, SC_FIT_MAX_SIZE, 0, true),
	SIZE(topk),
	SIZE_OR(ep, 1),
	SIZE_OR(tp, 1),
	TIME,
	NAMED("routing", routing, ROUTINGS, false),
	NAMED("variant", variant, FORMATS, true),
	ORIGIN,
	{0}};
/* The busiest of ep GPUs under a power law of 1.2 has ep^0.45 times its share; of its experts a part has most tokens: of
 * R copies a share 1 - (1 + R / (0.6 n))^-0.6 of n has any. */
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

/* Beside its two products, which take `factor` of what the model of products says of them as one batch: times that copies
 * of tokens pass through memory in rows of the hidden size and of the experts' width, and all of the group's tokens
 * in rows of the hidden size. SGLang and vLLM pass all copies of the group through their buffers, FlashInfer's nvfp4
 * kernels and TensorRT-LLM those of this GPU. Each line is a program, as some hundred rows of it ask (median of the
 * whole table 13 %). */
struct expert_program {
	int framework, capability, formats; /* from this capability on; bits of the formats */
	double fixed_us, hidden_passes, inter_passes, group_passes, factor;
};
#define ALL_FORMATS 15
static const struct expert_program EXPERT_PROGRAMS[] = {
	{SGLANG, BLACKWELL, 1 << NVFP4, 19.4, 1.2, 1.5, 8.1, 1.2},
	{SGLANG, BLACKWELL, ALL_FORMATS, 49, 4.2, 64, 9.9, 1.1},
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
	{VLLM, BLACKWELL, 1 << NVFP4, 19.4, 1.2, 1.5, 8.1, 1.2},
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

	while (p->framework != t->cells.framework || t->device->cuda_capability < p->capability ||
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
	if (c->framework != TRTLLM && c->variant != NVFP4)
		rows = c->tokens * c->topk;
	bytes = rows * (p->hidden_passes * c->hidden + p->inter_passes * inter) +
		p->group_passes * c->tokens * c->hidden;
	out->told_us += p->fixed_us + pass_us(t, sc_dtype_bytes(SC_BF16) * bytes);
	out->told_spread_frac = fmax(out->told_spread_frac, MODULE_SPREAD_FRAC);
	return 0;
}

const struct sc_fit_reader *sc_fit_module_reader(enum sc_fit_kind kind)
{
	static const struct sc_fit_reader readers[] = {
		[SC_FIT_LINEAR_ATTENTION] = {LINEAR_CELLS, 4, read_linear},
		[SC_FIT_MLA] = {MLA_CELLS, 4, read_mla},
		[SC_FIT_EXPERTS] = {EXPERT_CELLS, 4, read_experts},
	};

	return &readers[kind];
}
