/* FLOP of linear attention. Times of a scan and of its convolution are op models
 * (models/op_model.h), of SC_OP_SCAN and SC_OP_CONV. */
#pragma once

#include "core/graph/op.h"

/* The FLOP of the chunked algorithm, in whole chunks, or of the recurrence. */
double sc_scan_flop(const struct sc_scan_shape *shape);
