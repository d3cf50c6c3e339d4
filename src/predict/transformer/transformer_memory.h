/* Activations of a Transformer on one rank, by model family and recompute mode: kept from forward
 * to backward, or held for a moment. */
#pragma once

#include "core/config/config.h"

/* Returns the ranks over which a checkpoint is divided; it is then gathered before its layer is
 * recomputed (DeepSpeed, runtime/activation_checkpointing/checkpointing.py, partition_activations).
 */
double sc_checkpoint_ranks(const struct sc_request *request);
/* The bytes of one layer for a micro-batch under the request's recompute mode: kept from forward to
 * backward; of them what the gradients of weights read where they are computed in passes of their
 * own; and held for a moment beside that: recomputed activations, and gradients of the widest. */
struct sc_layer_bytes {
	double kept, inputs, working;
};
struct sc_layer_bytes sc_layer_bytes_of(const struct sc_request *request, double samples, int kind);
/* Returns what the gradients of weights read over all that a stage of so many layers keeps for a
 * micro-batch: it stays from backward of the inputs until then. `bytes` are by kind. */
double sc_weight_inputs_frac(const struct sc_request *request, const struct sc_layer_bytes *bytes,
			     const struct sc_layer_counts *layers);
/* Returns the bytes of logits and what the loss makes of them. */
double sc_loss_bytes(const struct sc_request *request, double samples);

/* The layers that are alive on a rank at the peak. */
struct sc_layers_held {
	struct sc_layer_counts layers;      /* layers times micro-batches that wait for backward */
	const struct sc_layer_bytes *bytes; /* by kind, of one micro-batch */
	double samples;                     /* of one micro-batch */
	double micro_batches_in_flight;     /* on the stage */
	bool head;                          /* the stage holds the logits */
};
/* Returns the bytes on the GPU; `off_bytes` are those that training.offload keeps elsewhere. */
double sc_activation_bytes(const struct sc_request *request, const struct sc_layers_held *held,
			   double *off_bytes);
