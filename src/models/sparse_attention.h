/* The pairs of queries and keys that meet in sparse attention. Times are an op model
 * (models/op_model.h), of SC_OP_SPARSE. */
#pragma once

#include "core/graph/op.h"

/* The pairs of a query and a key that attention multiplies, of one head. */
double sc_sparse_pairs(const struct sc_sparse_shape *shape);
/* The FLOP of attention and of the indexer's scores. */
double sc_sparse_flop(const struct sc_sparse_shape *shape);
