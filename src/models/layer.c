/* A layer whose FLOP and bytes alone are known: a roofline of the rates that products and
 * elementwise kernels reach. */
#include <math.h>

#include "base/units.h"
#include "models/op_model_priv.h"
#include "models/rowwise.h"

static void layer_time(const struct sc_device *device, const struct sc_op *op,
		       struct sc_op_time *out)
{
	const struct sc_layer_shape *s = &op->u.layer;
	const struct sc_gemm_coef *c = &device->gemm;
	const double eff =
		sc_device_has_tensor(device, op->dtype) ? c->eff_max * c->power_eff : c->eff_simt;
	const double math_us = sc_flop_us(s->flop, device->peak_tflops[op->dtype] * eff);
	const double memory_us = sc_bytes_us(s->bytes, device->hbm_gbps * device->rowwise.hbm_eff);

	*out = (struct sc_op_time){
		.total_us = c->fixed_us + sc_smooth_max(math_us, memory_us),
		.math_us = math_us,
		.memory_us = memory_us,
		.fixed_us = c->fixed_us,
		.waves = 1 + floor(s->bytes / device->rowwise.half_bytes),
		.sm_frac = math_us > memory_us ? 1 : SC_MEMORY_SM_FRAC,
		.limit = math_us > memory_us ? "math" : "memory",
	};
	sc_op_trust(device, sc_device_math_block(device, op->dtype), c->spread_frac, out);
}

const struct sc_op_model sc_layer_model = {.name = "layer", .time = layer_time};
