/* Fused (flash) attention: FLOP over an achieved share of tensor peak that grows with the sequence
 * length, halved work for a causal mask; backward does 2.5 times the forward's FLOP (Dao,
 * FlashAttention-2, 2023: five matrix products against two, all recomputing the scores). */
#include <math.h>

#include "base/units.h"
#include "models/op_model_priv.h"

#define BACKWARD_FLOP_RATIO 2.5
#define TILE_ROWS 128.0

static void attention_time(const struct sc_device *device, const struct sc_op *op,
			   struct sc_op_time *out)
{
	const struct sc_attention_shape *s = &op->u.attention;
	const struct sc_attention_coef *c = &device->attention;
	double peak = sc_device_peak_tflops(device, op->dtype);
	double flop = 4 * s->batch * s->heads * s->seq_q * s->seq_kv * s->head_dim;
	double q_elements = s->batch * s->heads * s->seq_q * s->head_dim;
	double kv_elements = s->batch * s->kv_heads * s->seq_kv * s->head_dim;
	double elements = 2 * q_elements + 2 * kv_elements;
	double eff = s->backward ? c->bwd_eff : c->fwd_eff;
	double math_us, memory_us;

	if (peak <= 0)
		peak = device->peak_tflops.fp32;
	if (s->causal)
		flop *= 0.5;
	if (s->backward) {
		flop *= BACKWARD_FLOP_RATIO;
		elements *= 2;
	}
	eff *= s->seq_kv / (s->seq_kv + c->seq_half);
	math_us = sc_flop_us(flop, peak * eff);
	memory_us = sc_memory_us(device, elements * sc_dtype_bytes(op->dtype),
				 device->rowwise.hbm_eff, 0);
	*out = (struct sc_op_time){
		.total_us = c->fixed_us + sc_smooth_max(math_us, memory_us),
		.math_us = math_us,
		.memory_us = memory_us,
		.fixed_us = c->fixed_us,
		.waves = ceil(s->batch * s->heads * ceil(s->seq_q / TILE_ROWS) /
			      (double)device->sm_count),
		.sm_frac = 1,
		.spread_frac = c->spread_frac,
		.limit = math_us >= memory_us ? "math" : "memory",
	};
}

const struct sc_op_model sc_attention_model = {.name = "attention", .time = attention_time};
