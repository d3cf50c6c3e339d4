/* Rows of parts of layers: linear and sparse attention, latent attention, routed experts, as the collectors of
 * ai-dynamo/aiconfigurator time them in three serving frameworks. A row is told its time whole: several kernels, some of
 * them a framework's own, and what the host adds where no CUDA graph was captured. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/units.h"
#include "models/fit/fit_priv.h"
#include "models/linear_attention.h"
#include "models/op_model.h"

#define MAX_TIME_US 1e12
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

const struct sc_fit_reader *sc_fit_module_reader(enum sc_fit_kind kind)
{
	static const struct sc_fit_reader readers[] = {
		[SC_FIT_LINEAR_ATTENTION] = {LINEAR_CELLS, 4, read_linear},
	};

	return &readers[kind];
}
