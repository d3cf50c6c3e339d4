/* Fused (flash) attention: FLOP over an achieved share of tensor peak. Kernels exist for head
 * dimensions in steps of 32 and pad to them; the softmax costs head_half columns more for each score;
 * a causal mask halves the work. Backward does 2.5 times the forward's FLOP (Dao, FlashAttention-2,
 * 2023: five matrix products against two, all recomputing the scores). */
#include <math.h>

#include "base/units.h"
#include "models/op_model_priv.h"

#define BACKWARD_FLOP_RATIO 2.5
#define TILE_ROWS 128.0
#define HEAD_STEP 32.0
#define WIDE_HEAD 128.0 /* wider heads leave room for smaller tiles only */

/* A coefficient that a device file leaves out (0) leaves its effect out. */
static double factor(double frac)
{
	return frac > 0 ? frac : 1;
}

static double padded_head(const struct sc_attention_shape *s)
{
	return ceil(s->head_dim / HEAD_STEP) * HEAD_STEP;
}

/* Exponentials are no faster in a narrower format: in its FLOPs they take more columns. */
static double softmax_columns(const struct sc_device *device, enum sc_dtype dtype, double peak)
{
	double wide = sc_device_peak_tflops(device, SC_BF16);

	return device->attention.head_half * (dtype >= SC_FP8 && wide > 0 ? peak / wide : 1);
}

/* Of queries, of all heads: one that is not full takes as long. */
static double tiles(const struct sc_attention_shape *s)
{
	return s->batch * s->heads * ceil(s->seq_q / TILE_ROWS);
}

static double scores_flop(const struct sc_attention_shape *s, double head_half)
{
	double flop = 4 * tiles(s) * TILE_ROWS * s->seq_kv * (padded_head(s) + head_half);

	return flop * (s->causal ? 0.5 : 1) * (s->backward ? BACKWARD_FLOP_RATIO : 1);
}

static double achieved_eff(const struct sc_attention_coef *c, const struct sc_attention_shape *s)
{
	double head = padded_head(s);
	double half =
		(s->backward ? c->bwd_seq_half : c->seq_half) + (s->causal ? c->causal_half : 0);
	double eff = s->backward ? c->bwd_eff : c->fwd_eff;

	if (head - s->head_dim > 0.5)
		eff *= factor(c->padded_eff);
	if (head > WIDE_HEAD)
		eff *= factor(s->backward ? c->bwd_wide_eff : c->fwd_wide_eff);
	return eff * s->seq_kv / (s->seq_kv + half);
}

static void attention_time(const struct sc_device *device, const struct sc_op *op,
			   struct sc_op_time *out)
{
	const struct sc_attention_shape *s = &op->u.attention;
	const struct sc_attention_coef *c = &device->attention;
	double peak = sc_device_peak_tflops(device, op->dtype);
	double elements =
		2 * s->batch * s->head_dim * (s->heads * s->seq_q + s->kv_heads * s->seq_kv);
	double w = tiles(s) / (double)device->sm_count;
	double waves = fmax(1, w + c->wave_frac * (ceil(w) - w));
	double math_us, memory_us;

	if (peak <= 0)
		peak = device->peak_tflops.fp32;
	math_us = sc_flop_us(scores_flop(s, softmax_columns(device, op->dtype, peak)),
			     peak * achieved_eff(c, s)) *
		  waves / w;
	memory_us =
		sc_memory_us(device, elements * (s->backward ? 2 : 1) * sc_dtype_bytes(op->dtype),
			     device->rowwise.hbm_eff, 0);
	*out = (struct sc_op_time){
		.total_us = c->fixed_us + sc_smooth_max(math_us, memory_us),
		.math_us = math_us,
		.memory_us = memory_us,
		.fixed_us = c->fixed_us,
		.waves = ceil(w),
		.sm_frac = 1,
		.limit = math_us >= memory_us ? "math" : "memory",
	};
	sc_op_trust(device, "attention", c->spread_frac, out);
}

const struct sc_op_model sc_attention_model = {.name = "attention", .time = attention_time};
