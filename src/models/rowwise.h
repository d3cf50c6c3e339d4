/* Bytes and FLOP of the usual row-wise kernels, by their names in tables and on command lines. */
#pragma once

#include "core/graph/op.h"

enum sc_rowwise_kind {
	SC_ROW_ADD,
	SC_ROW_GELU,
	SC_ROW_SOFTMAX,
	SC_ROW_LAYERNORM,
	SC_ROW_RMSNORM,
	SC_N_ROWWISE_KINDS
};
extern const char *const sc_rowwise_names[]; /* NULL-ended, in the order of sc_rowwise_kind */

#define SC_MEMORY_SM_FRAC 0.7 /* share of the SMs that saturates memory */

/* Makes one op over rows x cols elements of `element_bytes`; the backward pass is the gradient of
 * the input and, for norms, of their weights. */
void sc_rowwise_shape_set(enum sc_rowwise_kind kind, bool backward, double element_bytes,
			  double rows, double cols, struct sc_rowwise_shape *out);
