/* Row-wise and elementwise kernels, and the optimizer: bytes over achieved HBM bandwidth, or over
 * what the SMs move, with a ramp for small sizes and a floor per kernel. This is also the commented
 * template of an op model: read the shape, fill struct sc_op_time, export one const struct. */
#include "models/rowwise.h"

#include <math.h>

#include "base/units.h"
#include "models/op_model_priv.h"

/* PyTorch's softmax keeps rows of up to this many elements in registers (PersistentSoftmax.cuh). */
#define SOFTMAX_MAX_ROW 1024.0

/* The elements moved for one of the result, each a stream from or to memory, and at most one number
 * that was fitted, over all GPUs at once: every row of the published tables (NeuSight on five GPUs,
 * fp32; estimate-train-time on an A100, fp16), each GPU with equal weight. */
struct traffic {
	double read[2], write[2], reread[2]; /* fwd, bwd; reread: see sc_rowwise_shape */
	double long_row[2];                  /* read besides, of rows that no register holds */
	double factor[2];                    /* of all of them: how far the kernels are from that */
	double flop[2];
	double row_sm_us[2];
};
static const struct traffic TRAFFIC[SC_N_ROWWISE_KINDS] = {
	/* Backward hands one gradient to both branches. */
	[SC_ROW_ADD] = {.read = {2, 1}, .write = {1, 2}, .factor = {1, 1}},
	/* The FLOP are fitted; they are erf's in fp32. */
	[SC_ROW_GELU] = {.read = {1, 2}, .write = {1, 1}, .factor = {1, 1}, .flop = {38, 38}},
	/* Long rows are read for the maximum, the sum and the result; the last two find part of
	 * them in caches: 0.45 of two, fitted. Backward of the table's one source has masks and
	 * scaling in it. */
	[SC_ROW_SOFTMAX] = {.read = {1, 2},
			    .write = {1, 1},
			    .long_row = {0.9, 0},
			    .factor = {1, 2.05}},
	/* The input is read for the moments and for the result; row_sm_us is fitted. Backward reads
	 * the incoming gradient and the input for moments, result and weights' gradients. */
	[SC_ROW_LAYERNORM] = {.read = {1, 6},
			      .write = {1, 1},
			      .reread = {1, 0},
			      .factor = {1, 1.47},
			      .row_sm_us = {0.31, 0}},
	/* RMSNorm is not fused: norm, division, weight and their gradients are kernels apart. */
	[SC_ROW_RMSNORM] = {.read = {3, 6}, .write = {2, 4}, .factor = {2.19, 5.14}},
};
const char *const sc_rowwise_names[] = {"add", "gelu", "softmax", "layernorm", "rmsnorm", NULL};

void sc_rowwise_shape_set(enum sc_rowwise_kind kind, bool backward, double element_bytes,
			  double rows, double cols, struct sc_rowwise_shape *out)
{
	const struct traffic *t = &TRAFFIC[kind];
	double bytes = rows * cols * element_bytes * t->factor[backward];
	double more = cols > SOFTMAX_MAX_ROW ? t->long_row[backward] : 0;

	*out = (struct sc_rowwise_shape){
		.read_bytes = bytes * (t->read[backward] + more),
		.write_bytes = bytes * t->write[backward],
		.reread_bytes = bytes * t->reread[backward],
		.rows = rows,
		.cols = cols,
		.row_sm_us = t->row_sm_us[backward],
		.flop = rows * cols * t->flop[backward],
		.n_kernels = 1,
	};
}

double sc_memory_us(const struct sc_device *device, double bytes, double eff, double half_bytes)
{
	return sc_bytes_us(bytes + half_bytes, device->hbm_gbps * eff);
}

#define BLOCKS_OF_SM                                                                         \
	32.0 /* at most (CUDA C++ Programming Guide); the 16 and 24 of Turing and Ada fit no \
		better */

/* The share of what is read again that comes from memory: rows in flight against the last cache. */
static double reread_share(const struct sc_device *device, const struct sc_rowwise_shape *s)
{
	double in_flight = s->rows > 0 ? s->reread_bytes / s->rows : 0, cache;

	in_flight *= fmin(s->rows, BLOCKS_OF_SM * (double)device->sm_count);
	cache = device->l2_mib * SC_BYTES_PER_MIB;
	return in_flight * in_flight / (in_flight * in_flight + cache * cache);
}

static void rowwise_time(const struct sc_device *device, const struct sc_op *op,
			 struct sc_op_time *out)
{
	const struct sc_rowwise_shape *s = &op->u.rowwise;
	const struct sc_rowwise_coef *c = &device->rowwise;
	double n = s->n_kernels > 1 ? s->n_kernels : 1;
	double bytes = s->read_bytes + s->write_bytes +
		       (s->reread_bytes > 0 ? s->reread_bytes * reread_share(device, s) : 0);
	double memory_us = sc_memory_us(device, bytes, c->hbm_eff, n * c->half_bytes);
	double math_us = s->flop > 0 ? sc_flop_us(s->flop, device->peak_tflops[SC_FP32]) : 0;
	double fixed_us = n * c->fixed_us + s->rows * s->row_sm_us / (double)device->sm_count;
	/* Loads, stores and what is between them take instructions: where memory is fast for the
	 * number of SMs, they are the limit (Little's law says the same of the loads in flight). */
	double bytes_clk = device->rowwise.sm_bytes_clk * (double)device->sm_count;
	double issue_us = bytes_clk > 0 ? bytes / (bytes_clk * device->boost_mhz) : 0;
	double us = sc_smooth_max(math_us, memory_us);

	*out = (struct sc_op_time){
		.total_us = fixed_us + fmax(us, issue_us),
		.math_us = fmax(math_us, issue_us),
		.memory_us = memory_us,
		.fixed_us = fixed_us,
		/* A block streams a few KB: many short waves, so SMs change hands quickly. */
		.waves = 1 + floor(bytes / c->half_bytes),
		.sm_frac = issue_us > us ? 1 : SC_MEMORY_SM_FRAC,
		.limit = fmax(math_us, issue_us) > memory_us ? issue_us > math_us ? "issue" : "math"
			 : memory_us > fixed_us              ? "memory"
							     : "fixed",
	};
	sc_op_trust(device, "rowwise", c->spread_frac, out);
}

const struct sc_op_model sc_rowwise_model = {.name = "rowwise", .time = rowwise_time};
const struct sc_op_model sc_optimizer_model = {.name = "optimizer", .time = rowwise_time};
