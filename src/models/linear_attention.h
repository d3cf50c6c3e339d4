/* Linear attention: what a scan and its convolution compute and move at least. Their times are op models
 * (models/op_model.h), of SC_OP_SCAN and SC_OP_CONV. */
#ifndef SC_MODELS_LINEAR_ATTENTION_H
#define SC_MODELS_LINEAR_ATTENTION_H

#include "core/graph/op.h"

/* Of the chunked algorithm, or of the recurrence; whole chunks. */
double sc_scan_flop(const struct sc_scan_shape *shape);
/* Queries, keys and values read once, outputs written once, in elements of so many bytes; of a recurrence the states. */
double sc_scan_least_bytes(const struct sc_scan_shape *shape, double element_bytes);
double sc_conv_least_bytes(const struct sc_conv_shape *shape, double element_bytes);

#endif
