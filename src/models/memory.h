/* Memory per GPU of a training run, by part: from parameters, activations and sharding. */
#pragma once

#include "core/config/config.h"

struct sc_memory {
	double weights_gib, gradients_gib, optimizer_gib, activations_gib, buffers_gib, reserve_gib,
		total_gib, capacity_gib;
	/* The bytes that training.offload keeps off a GPU, or in a prediction off all GPUs of the
	 * fullest node, and the capacity of a node, below 0 where not known. */
	double host_gib, host_capacity_gib, ssd_gib, ssd_capacity_gib;
};
/* The share in use of the place that is the fullest; above 1 it does not fit. */
double sc_memory_fullness(const struct sc_memory *memory);
/* The share of a GPU's memory that a search and advice leave free, unless told: allocators,
 * libraries and longer samples need room. */
#define SC_MEMORY_MARGIN_FRAC 0.05
/* It fits everywhere, and leaves that share of its GPU free. */
bool sc_memory_has_margin(const struct sc_memory *memory);
/* It fits, and so does a share of the GPU's memory beside it. */
bool sc_memory_leaves(const struct sc_memory *memory, double free_frac);
/* A rank's part of a model. Parameters are those of a rank before data-parallel sharding. */
struct sc_memory_shape {
	double params, expert_params;           /* all but the experts'; the experts' */
	double trainable, trainable_expert;     /* of them (LoRA: the adapters alone) */
	double shard_ranks, expert_shard_ranks; /* ranks that sharding spreads each over */
	/* The states of an optimizer that are not of its parameters' size: of all but the experts;
	 * of the experts. */
	double matrix_bytes, expert_matrix_bytes;
	double layer_params;     /* of the largest layer, experts included: what FSDP gathers */
	double activation_bytes; /* at the peak */
	double off_bytes;        /* of activations that training.offload keeps elsewhere */
	bool embed, head;        /* holds the embedding; the logits */
};
void sc_memory_estimate(const struct sc_request *request, const struct sc_memory_shape *shape,
			struct sc_memory *out);

/* Fills in replicated weights, gradients and states, those of matrices apart, and what is kept for
 * backward; the capacity is the device's. */
void sc_memory_replica(const struct sc_request *request, double params, double matrix_bytes,
		       double kept_bytes, struct sc_memory *out);
