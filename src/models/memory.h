/* Memory per GPU of a training run, by part. */
#ifndef SC_MODELS_MEMORY_H
#define SC_MODELS_MEMORY_H

#include "core/config.h"

struct sc_memory {
	double weights_gib, gradients_gib, optimizer_gib, activations_gib, buffers_gib, reserve_gib,
		total_gib, capacity_gib;
};
/* What one pipeline stage holds. */
struct sc_memory_shape {
	double params;           /* on one rank, before sharding over dp */
	double dp;               /* ranks that sharding spreads over */
	double layers_in_flight; /* layers x micro-batches whose activations are alive at the peak */
	double samples;          /* of one micro-batch */
	bool head;               /* holds logits */
};
/* Activations: Korthikanti et al. 2022, §4: per layer s·b·h·(34 + 5·a·s/h) bytes at 2-byte elements,
 * divided as tensor and sequence parallelism allow; full recomputation keeps the layer's input only. */
void sc_memory_estimate(const struct sc_request *request, const struct sc_memory_shape *shape,
			struct sc_memory *out);

#endif
