/* Helpers of all op models: trust in a time, limits that overlap, rates of memory and caches. */
#pragma once

#include "models/op_model.h"

extern const struct sc_op_model sc_gemm_model, sc_attention_model, sc_rowwise_model,
	sc_optimizer_model, sc_embedding_model, sc_layer_model, sc_scan_model, sc_conv_model,
	sc_sparse_model;

/* Sets how far out->total_us is to be trusted: `spread_frac` of the block's residuals, wider where
 * the device lacks the block in `fitted` or the kernel is too short. */
void sc_op_trust(const struct sc_device *device, const char *block, double spread_frac,
		 struct sc_op_time *out);
/* The time in which a burst reads operands again, so many bytes of which must stay in the cache. */
double sc_repeat_us(const struct sc_device *device, double kept_bytes, double memory_us);
/* Joins two limits that overlap, but not perfectly near the ridge: (a^3 + b^3)^(1/3). */
double sc_smooth_max(double a, double b);
/* The CUDA capability whose kernels run: cards of 12.x lack the tensor core instructions of 9.0 and
 * 10.0, as Ada does. */
static inline int64_t sc_kernel_capability(const struct sc_device *device)
{
	return device->cuda_capability < 120 ? device->cuda_capability : 89;
}
/* The time of `bytes` over the device's memory with a ramp: half of the rate at half_bytes. */
double sc_memory_us(const struct sc_device *device, double bytes, double eff, double half_bytes);
