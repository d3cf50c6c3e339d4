/* What the op models share among themselves. */
#ifndef SC_MODELS_OP_MODEL_PRIV_H
#define SC_MODELS_OP_MODEL_PRIV_H

#include "models/op_model.h"

extern const struct sc_op_model sc_gemm_model, sc_attention_model, sc_rowwise_model,
	sc_optimizer_model;

/* (a^3 + b^3)^(1/3): two limits that overlap, but not perfectly near the ridge. */
double sc_smooth_max(double a, double b);
/* Time of `bytes` over the device's memory with a ramp: half of the rate at half_bytes. */
double sc_memory_us(const struct sc_device *device, double bytes, double eff, double half_bytes);

#endif
