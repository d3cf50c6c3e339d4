/* Optimizers that step whole matrices: Muon, Shampoo, K-FAC. Work that is not done at every step
 * counts with its share of one. This file knows nothing of models: callers list their matrices. */
#pragma once

#include "predict/block.h"

/* The weights of `count` layers. */
struct sc_matrix {
	double m, n, count; /* outputs, inputs, number of layers */
	bool expert;
	struct sc_span shard; /* ranks that its states are spread over; none: all have them */
	double batch;         /* matrices in one tensor, as a layer's experts; 0 = 1 */
	double rows;          /* rows of its input that a replica makes in a step */
};
/* Appends to `out` a step of `n` kinds of matrices, which `replicas` hold: products, exchanges. */
void sc_matrix_steps(const struct sc_block_env *env, const struct sc_matrix *a, int n,
		     const struct sc_span *replicas, struct sc_block *out);
/* Returns the busiest owner's elements over the mean, for matrices that the same ranks hold. */
double sc_matrix_owner_excess(const struct sc_matrix *a, int n);
/* Returns the states that are not of the weights' size (Shampoo, K-FAC) on one of `replicas`. */
double sc_matrix_bytes(const struct sc_request *request, const struct sc_matrix *a,
		       double replicas);
