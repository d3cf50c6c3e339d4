/* Bytes that activations keep on one rank from forward to backward, by model family and recompute mode. */
#ifndef SC_MODELS_ACTIVATIONS_H
#define SC_MODELS_ACTIVATIONS_H

#include "core/config/config.h"

/* A layer's input, for a micro-batch of `samples` sequences. */
double sc_layer_input_bytes(const struct sc_request *request, double samples);
/* What one layer keeps for a micro-batch of `samples` sequences under the recompute mode of the
 * request. `is_dense`: without experts. */
double sc_layer_kept_bytes(const struct sc_request *request, double samples, bool is_dense);
/* What a stage sends to the next stays until its backward; 0 without stages. */
double sc_sent_bytes(const struct sc_request *request, double samples);
/* What the gradients of weights read where they are computed in passes of their own, over all that a stage of so many
 * layers keeps for a micro-batch: it stays from backward of the inputs until then. */
double sc_weight_inputs_frac(const struct sc_request *request, double layers, double dense_layers);
/* What one layer holds for a moment beside that: what is recomputed, and gradients of the widest
 * activations. */
double sc_layer_working_bytes(const struct sc_request *request, double samples, bool is_dense);
/* Sequence parallelism: the whole sequence gathered before a matrix product, and its part of the sum
 * after the next. */
double sc_gathered_sequence_bytes(const struct sc_request *request, double samples);
/* Logits and what the loss makes of them. */
double sc_loss_bytes(const struct sc_request *request, double samples);

#endif
