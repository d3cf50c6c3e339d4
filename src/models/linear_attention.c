/* Times of linear attention and of the causal convolution before it. A sequence is cut into chunks:
 * products within each fill all SMs, a state goes from chunk to chunk, one after another. So a scan
 * takes the longest of what its tensors take in memory, its products on the SMs, and its chunks in
 * their order. Products of 64 x 64 x 128 leave most of a tensor core idle: kernels reach so many
 * FLOP a clock and SM on every generation, and no more of the peak of a newer one. */
#include "models/linear_attention.h"

#include <math.h>

#include "base/units.h"
#include "models/op_model_priv.h"

#define STATE_BYTES 4.0 /* of an element of a state */
/* The share of a pipeline's traffic that is alive at a time, in a burst maybe in the last cache. */
#define ALIVE_FRAC 0.4
#define SPREAD_FRAC 0.25

/* FLOP of a token and head of values, in products of chunk x k_dim, chunk x v_dim and k_dim x v_dim
 * elements, 2 each. The forward pass of a delta rule (Yang et al. 2024, Parallelizing Linear
 * Transformers with the Delta Rule) has k k', w, q k' | u, (q k') v | w s, k' u, q s. Its backward
 * pass computes w, u and the states anew (1, 1, 2), and the gradients of states (3), of q, k, w and
 * u (3, 2, 3) and of the inverse (4, 2, 0). Without the rule (Dao and Gu 2024, Transformers are
 * SSMs) there are q k' | (q k') v | k' v, q s, backward each product twice, scores and states anew,
 * and decays' gradients by a product of their own (mamba_ssm, ssd_combined.py,
 * _chunk_scan_bwd_ddAcs_stable). */
struct products {
	double ck, cv, kv;
};
static const struct products PRODUCTS[SC_N_SCAN_RULES][2] = {
	[SC_SCAN_DECAY] = {{1, 1, 2}, {3, 3, 5}},
	[SC_SCAN_DELTA] = {{3, 2, 3}, {8, 5, 8}},
	[SC_SCAN_CHANNEL_DELTA] = {{3, 2, 3}, {8, 5, 8}},
};

/* A pipeline of kernels. The coefficients are those of the programs, not of a GPU: aiconfigurator's
 * times of H100, L40S, B200, GB200 and GB300 ask for them together. */
struct pipeline {
	double fixed_us;    /* the starts of its kernels */
	double tensors;     /* bytes that it moves a token and head, over k_dim + v_dim */
	double flop_clk;    /* on an SM */
	double step_cycles; /* from chunk to chunk */
};
static const struct pipeline PIPELINES[SC_N_SCAN_RULES][SC_N_SCAN_KERNELS] = {
	/* TensorRT-LLM's Mamba-2 (225 rows of B200) moves its tensors once, states four times. */
	[SC_SCAN_DECAY] = {{23.2, 7, 250, 13300}, {23.2, 7, 250, 13300}, {23.2, 7, 250, 13300}},
	/* The rows are those of SGLang, TensorRT-LLM, and vLLM on L40S (1,256), vLLM on H100 (203)
	 * and on Blackwell (497). */
	[SC_SCAN_DELTA] = {{21.3, 23.5, 364, 5370}, {9.6, 4, 1490, 5280}, {19.3, 4, 1810, 4520}},
	/* Rows are SGLang's and, on L40S, vLLM's (596), and vLLM's on H100 and Blackwell (427). */
	[SC_SCAN_CHANNEL_DELTA] = {{23.9, 49.6, 211, 10700},
				   {18.7, 9, 670, 8360},
				   {18.7, 9, 670, 8360}},
};
/* A step of the recurrence, an SM's cycles for an element of a state (637 rows, seven GPUs). */
static const struct {
	double fixed_us, bytes_frac, element_cycles;
} STEP = {4.6, 0.96, 0.297};

/* Convolutions take cycles of an SM for an element and for a block (a channel of a sequence). A
 * tile reads the tokens before it again. Below 8 tokens blocks were seen to take half as long
 * again, which is left out: more is never faster. */
struct convolution {
	double fixed_us, element_cycles, block_cycles, element_moves, tile_tokens;
};
static const struct convolution CONVOLUTIONS[SC_N_CONV_KERNELS] = {
	[SC_CONV_BLOCK] = {5.1, 0.255, 211, 2, 1}, /* TensorRT-LLM's (2,199 rows) */
	[SC_CONV_TILED] = {3.2, 0.404, 0, 2, 8},   /* SGLang's and vLLM's (2,927) */
	[SC_CONV_UPDATE] = {3.9, 1.18, 0, 5.7, 1}, /* all three's (789): its state, too */
};
/* Before Ada blocks take twice that: SGLang's library on A100 (661 rows), alone 3.6 % (median). */
#define OLD_BLOCK_FACTOR 2.06
enum { ADA = 89 }; /* CUDA capability */

static double chunk_of(const struct sc_scan_shape *s)
{
	return s->chunk > 0 ? s->chunk : s->rule == SC_SCAN_DECAY ? 128 : 64;
}

/* The FLOP of a token and head. */
static double token_flop(const struct sc_scan_shape *s, bool backward)
{
	const struct products *p = &PRODUCTS[s->rule][backward];
	const double scores_shared = s->rule == SC_SCAN_DECAY ? s->k_heads / s->v_heads : 1;

	return 2 * (p->ck * chunk_of(s) * s->k_dim * scores_shared +
		    p->cv * chunk_of(s) * s->v_dim + p->kv * s->k_dim * s->v_dim);
}

double sc_scan_flop(const struct sc_scan_shape *s)
{
	const double chunk = chunk_of(s);

	if (s->rule == SC_SCAN_SELECTIVE) /* backward takes states anew, and the gradients of all
					     that makes them */
		return 7 * (s->backward ? 3 : 1) * s->batch * s->seq * s->v_heads * s->k_dim;
	if (s->recurrent) /* w s, the key's outer product, q s */
		return 6 * s->batch * s->seq * s->v_heads * s->k_dim * s->v_dim;
	return s->batch * ceil(s->seq / chunk) * chunk * s->v_heads * token_flop(s, s->backward);
}

/* A burst finds in the last cache what it left there, and pays only its SMs' time for it. */
static double traffic_us(const struct sc_device *device, enum sc_load load, double bytes,
			 double alive)
{
	const double us = sc_memory_us(device, bytes, device->rowwise.hbm_eff, 0);
	const double fill = alive / (device->l2_mib * SC_BYTES_PER_MIB);

	return load == SC_LOAD_BURST ? us * (1 - 1 / (1 + pow(fill, 4))) : us;
}

static void finish(const struct sc_device *device, struct sc_op_time *out)
{
	out->total_us = out->fixed_us + sc_smooth_max(out->math_us, out->memory_us);
	out->limit = out->math_us >= out->memory_us ? "math" : "memory";
	sc_op_trust(device, "linear_attention", SPREAD_FRAC, out);
}

static void recurrent_time(const struct sc_device *device, const struct sc_op *op,
			   struct sc_op_time *out)
{
	const struct sc_scan_shape *s = &op->u.scan;
	const double elements = s->batch * s->v_heads * s->k_dim * s->v_dim;
	/* A state is read once, and left behind after each token. */
	const double bytes = STEP.bytes_frac * elements * STATE_BYTES * (1 + s->seq);

	out->fixed_us = STEP.fixed_us;
	out->math_us = elements * s->seq * STEP.element_cycles /
		       ((double)device->sm_count * device->boost_mhz);
	out->memory_us = traffic_us(device, s->load, bytes, bytes);
}

/* An element of a state takes an exponential of a special-function unit, 16 a clock and SM, and
 * some ten instructions of 128 lanes, backward thrice (mamba_ssm, selective_scan_fwd_kernel.cuh and
 * _bwd_); blocks of one channel wait for their own prefix sums, so that half of both is reached. No
 * GPU was measured with it. Channels, steps and gates come once and the output goes, backward with
 * their gradients. */
#define SELECTIVE_CYCLES (2 * (1.0 / 16 + 10.0 / 128))

static void selective_time(const struct sc_device *device, const struct sc_op *op,
			   struct sc_op_time *out)
{
	const struct sc_scan_shape *s = &op->u.scan;
	const double channels = s->batch * s->seq * s->v_heads, passes = s->backward ? 3 : 1;
	const double bytes = channels * (s->backward ? 9 : 4) * sc_dtype_bytes(op->dtype);

	*out = (struct sc_op_time){.sm_frac = 1, .waves = 1, .fixed_us = 5};
	out->math_us = passes * channels * s->k_dim * SELECTIVE_CYCLES /
		       ((double)device->sm_count * device->boost_mhz);
	out->memory_us = traffic_us(device, s->load, bytes, ALIVE_FRAC * bytes);
	out->total_us = out->fixed_us + sc_smooth_max(out->math_us, out->memory_us);
	out->limit = out->math_us >= out->memory_us ? "math" : "memory";
	sc_op_trust(device, "selective_scan", SPREAD_FRAC, out);
}

static void scan_time(const struct sc_device *device, const struct sc_op *op,
		      struct sc_op_time *out)
{
	const struct sc_scan_shape *s = &op->u.scan;
	const struct pipeline *p = &PIPELINES[s->rule][s->kernel];
	if (s->rule == SC_SCAN_SELECTIVE) {
		selective_time(device, op, out);
		return;
	}
	const double chunk = chunk_of(s), n_chunks = ceil(s->seq / chunk);
	const double w = s->batch * s->v_heads / (double)device->sm_count;
	const double back = token_flop(s, s->backward) / token_flop(s, false);
	const double cycles = chunk * token_flop(s, s->backward) / p->flop_clk;
	const double bytes = back * p->tensors * s->batch * s->seq * s->v_heads *
			     (s->k_dim + s->v_dim) * sc_dtype_bytes(op->dtype) / 2;

	*out = (struct sc_op_time){.sm_frac = 1, .waves = fmax(1, ceil(w))};
	if (s->recurrent) {
		recurrent_time(device, op, out);
	} else {
		out->fixed_us = p->fixed_us * (s->backward ? 2 : 1);
		/* Backward computes states anew, and their gradients the other way. */
		out->math_us = n_chunks / device->boost_mhz *
			       sc_smooth_max(p->step_cycles * (s->backward ? 2 : 1), w * cycles);
		out->memory_us = traffic_us(device, s->load, bytes, ALIVE_FRAC * bytes);
	}
	out->math_us =
		fmax(out->math_us, sc_flop_us(sc_scan_flop(s), fmax(device->peak_tflops[op->dtype],
								    device->peak_tflops[SC_FP32])));
	finish(device, out);
}

static void conv_time(const struct sc_device *device, const struct sc_op *op,
		      struct sc_op_time *out)
{
	const struct sc_conv_shape *s = &op->u.conv;
	const struct convolution *c = &CONVOLUTIONS[s->kernel];
	const double n = s->n_kernels > 1 ? s->n_kernels : 1;
	const double rows = s->batch * s->channels;
	const bool is_old = device->cuda_capability > 0 && sc_kernel_capability(device) < ADA;
	const double old = is_old ? OLD_BLOCK_FACTOR : 1;
	const double again = c->tile_tokens > 1 ? (s->width - 1) / c->tile_tokens : 0;
	const double bytes = rows * s->seq * sc_dtype_bytes(op->dtype) *
			     (c->element_moves + (s->backward ? 1 : 0) + again);
	double cycles = rows * ceil(s->seq / c->tile_tokens) * c->tile_tokens * c->element_cycles;

	cycles += rows * c->block_cycles * old;
	*out = (struct sc_op_time){.sm_frac = 1,
				   .waves = 1 + floor(rows / (double)device->sm_count),
				   .fixed_us = c->fixed_us * n};
	out->math_us =
		cycles * (s->backward ? 2 : 1) / ((double)device->sm_count * device->boost_mhz);
	out->memory_us = traffic_us(device, s->load, bytes, bytes / n);
	finish(device, out);
}

const struct sc_op_model sc_scan_model = {.name = "scan", .time = scan_time};
const struct sc_op_model sc_conv_model = {.name = "conv", .time = conv_time};
