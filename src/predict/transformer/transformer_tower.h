/* A tower of images in front of a language model, model.tower: what it runs, has, computes and keeps. */
#ifndef SC_PREDICT_TRANSFORMER_TOWER_H
#define SC_PREDICT_TRANSFORMER_TOWER_H

#include "predict/transformer/transformer_priv.h"

bool sc_has_tower(const struct sc_request *request);
/* Both add to the block of the embedding. */
void tower_forward(const struct dims *x);
void tower_backward(const struct dims *x);
/* One tensor-parallel rank holds these; none without a tower. */
void sc_tower_params(const struct sc_request *request, struct sc_params *out);
/* A sample's images take so many, forward and backward. */
double sc_tower_flop(const struct sc_request *request);
/* So many samples leave these from forward to backward. */
double sc_tower_kept_bytes(const struct sc_request *request, double samples);

#endif
