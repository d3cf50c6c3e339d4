/* Activations of a Transformer on one rank, by model family and recompute mode. */
#ifndef SC_PREDICT_TRANSFORMER_MEMORY_H
#define SC_PREDICT_TRANSFORMER_MEMORY_H

#include "core/config/config.h"

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

/* What is alive on a rank at the peak. */
struct sc_layers_held {
	/* Layers x micro-batches that wait for backward; of a mixture of experts, those without experts are counted apart. */
	double layers, dense_layers;
	double samples;                 /* of one micro-batch */
	double micro_batches_in_flight; /* on the stage */
	bool head;                      /* holds the logits */
};
/* `off_bytes`: beside these, what training.offload keeps elsewhere. */
double sc_activation_bytes(const struct sc_request *request, const struct sc_layers_held *held,
			   double *off_bytes);

#endif
