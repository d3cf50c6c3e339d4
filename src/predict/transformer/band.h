/* The error band of an iteration, from the residual spreads of the models that it is made of. */
#ifndef SC_PREDICT_TRANSFORMER_BAND_H
#define SC_PREDICT_TRANSFORMER_BAND_H

#include "predict/predict.h"
#include "predict/transformer/build_transformer.h"

/* One sigma of the iteration by source, in ms. Within a source errors are alike, so its times add up
 * before they are weighted; sources are independent. */
enum sc_band_part {
	SC_BAND_GEMM,
	SC_BAND_ATTENTION,
	SC_BAND_ROWWISE, /* memory-bound kernels, the optimizer */
	SC_BAND_COMM,
	SC_BAND_HOST,
	SC_BAND_RESIDUAL, /* whole iterations of the software around its model */
	SC_N_BAND_PARTS
};
/* From what runs on the critical path, whose kernels are mixed as those of the busiest class. */
void sc_band_parts(const struct sc_transformer *tf, const struct sc_prediction *out,
		   double sigma_ms[SC_N_BAND_PARTS]);
/* Sets low_ms and high_ms, the central 80 % of a log-normal around iteration_ms, and warns of GPUs
 * that were not measured. */
void sc_find_band(const struct sc_transformer *tf, struct sc_prediction *out);

#endif
