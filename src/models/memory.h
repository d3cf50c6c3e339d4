/* Memory per GPU of a training run, by part. */
#ifndef SC_MODELS_MEMORY_H
#define SC_MODELS_MEMORY_H

#include "core/config/config.h"

struct sc_memory {
	double weights_gib, gradients_gib, optimizer_gib, activations_gib, buffers_gib, reserve_gib,
		total_gib, capacity_gib;
	/* What training.offload keeps off a GPU, or in a prediction off all GPUs of the fullest node; what a node has,
	 * below 0 where not known. */
	double host_gib, host_capacity_gib, ssd_gib, ssd_capacity_gib;
};
/* Of what there is, in the place that is the fullest; above 1 it does not fit. */
double sc_memory_fullness(const struct sc_memory *memory);
/* What one rank holds. Parameters are those on one rank before sharding over data-parallel ranks. */
struct sc_memory_shape {
	double params, expert_params;           /* all but the experts'; the experts' */
	double trainable, trainable_expert;     /* of them (LoRA: the adapters alone) */
	double shard_ranks, expert_shard_ranks; /* ranks that sharding spreads each over */
	/* States of an optimizer that are not of its parameters' size: of all but the experts; of the experts. */
	double matrix_bytes, expert_matrix_bytes;
	double layer_params; /* of the largest layer, experts included: what FSDP gathers */
	/* Layers x micro-batches whose activations are alive at the peak; of a mixture of experts, those
	 * without experts are counted apart. */
	double layers_in_flight, dense_layers_in_flight;
	double samples;                 /* of one micro-batch */
	double micro_batches_in_flight; /* on the stage */
	bool embed, head;               /* holds the embedding; the logits */
};
void sc_memory_estimate(const struct sc_request *request, const struct sc_memory_shape *shape,
			struct sc_memory *out);

/* Replicated weights, gradients and states, those of matrices apart, and what is kept for backward; capacity: of the
 * device. */
void sc_memory_replica(const struct sc_request *request, double params, double matrix_bytes,
		       double kept_bytes, struct sc_memory *out);

/* Bytes that activations keep on one rank from forward to backward, by model family and recompute mode. */

/* Ranks that a checkpoint is divided over; then it is gathered before its layer is recomputed (DeepSpeed, runtime/
 * activation_checkpointing/checkpointing.py, partition_activations). */
double sc_checkpoint_ranks(const struct sc_request *request);
/* What one layer keeps for a micro-batch of `samples` sequences under the recompute mode of the
 * request. `is_dense`: without experts. */
double sc_layer_kept_bytes(const struct sc_request *request, double samples, bool is_dense);
/* What the gradients of weights read where they are computed in passes of their own, over all that a stage of so many
 * layers keeps for a micro-batch: it stays from backward of the inputs until then. */
double sc_weight_inputs_frac(const struct sc_request *request, double layers, double dense_layers);
/* What one layer holds for a moment beside that: what is recomputed, and gradients of the widest
 * activations. */
double sc_layer_working_bytes(const struct sc_request *request, double samples, bool is_dense);
/* Logits and what the loss makes of them. */
double sc_loss_bytes(const struct sc_request *request, double samples);

#endif
