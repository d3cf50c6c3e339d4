/* Draws of model error that predictions share: errors that they have alike cancel in ratios. */
#pragma once

#include "base/rng.h"
#include "predict/predict.h"

/* Each number is one sigma of the logarithm of speeds. */
struct sc_model_error {
	double kernels; /* matrix products; memory-bound kernels: each its own draw */
	double links;   /* links; NICs */
	double host;
};
/* Kernels spread as wide as the prediction's band, which is theirs for the most part; links as the
 * fabric profile says, and the host as the device's profile says. */
struct sc_model_error sc_model_error_of(const struct sc_request *request);
void sc_model_error_draw(const struct sc_model_error *error, struct sc_rng *rng,
			 struct sc_predict_opts *out);
