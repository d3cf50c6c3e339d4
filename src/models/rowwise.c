/* Row-wise and elementwise kernels, and the optimizer: bytes over achieved HBM bandwidth with a ramp
 * for small sizes and a floor per kernel. Also the commented template of an op model: read the
 * shape, fill struct sc_op_time, export one const struct. */
#include <math.h>

#include "base/units.h"
#include "models/op_model_priv.h"

double sc_memory_us(const struct sc_device *device, double bytes, double eff, double half_bytes)
{
	return sc_bytes_us(bytes + half_bytes, device->hbm_gbps * eff);
}

static void rowwise_time(const struct sc_device *device, const struct sc_op *op,
			 struct sc_op_time *out)
{
	const struct sc_rowwise_shape *s = &op->u.rowwise;
	const struct sc_rowwise_coef *c = &device->rowwise;
	double n = s->n_kernels > 1 ? s->n_kernels : 1;
	double bytes = s->read_bytes + s->write_bytes;
	double memory_us = sc_memory_us(device, bytes, c->hbm_eff, n * c->half_bytes);
	double math_us = s->flop > 0 ? sc_flop_us(s->flop, device->peak_tflops.fp32) : 0;
	double fixed_us = n * c->fixed_us;

	*out = (struct sc_op_time){
		.total_us = fixed_us + sc_smooth_max(math_us, memory_us),
		.math_us = math_us,
		.memory_us = memory_us,
		.fixed_us = fixed_us,
		/* A block streams a few KB: many short waves, SMs change hands quickly. */
		.waves = 1 + floor(bytes / c->half_bytes),
		.sm_frac = c->sm_frac,
		.spread_frac = c->spread_frac,
		.limit = math_us > memory_us    ? "math"
			 : memory_us > fixed_us ? "memory"
						: "fixed",
	};
}

const struct sc_op_model sc_rowwise_model = {.name = "rowwise", .time = rowwise_time};
const struct sc_op_model sc_optimizer_model = {.name = "optimizer", .time = rowwise_time};
