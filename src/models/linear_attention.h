/* Linear attention. Times of a scan and of its convolution are op models (models/op_model.h), of SC_OP_SCAN and SC_OP_CONV. */
#ifndef SC_MODELS_LINEAR_ATTENTION_H
#define SC_MODELS_LINEAR_ATTENTION_H

#include "core/graph/op.h"

/* FLOP of the chunked algorithm, or of the recurrence; whole chunks. */
double sc_scan_flop(const struct sc_scan_shape *shape);

#endif
