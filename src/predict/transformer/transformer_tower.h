/* A tower of images in front of a language model, model.tower: its ops, which run where the
 * embedding does, and its parameters, FLOP and memory. */
#pragma once

#include "predict/transformer/transformer_priv.h"

bool sc_has_tower(const struct sc_request *request);
/* Add the tower to the block of the embedding. */
void tower_forward(const struct dims *x);
void tower_backward(const struct dims *x);
/* Counts the parameters that one tensor-parallel rank holds; none without a tower. */
void sc_tower_params(const struct sc_request *request, struct sc_params *out);
/* Returns the FLOP of a sample's images, forward and backward. */
double sc_tower_flop(const struct sc_request *request);
/* Returns what so many samples leave from forward to backward. */
double sc_tower_kept_bytes(const struct sc_request *request, double samples);
