/* Optimizers that step whole matrices: Muon, Shampoo, K-FAC. What is not done at every step counts with its share of
 * one. Knows nothing of models: who calls lists their matrices. */
#ifndef SC_PREDICT_MATRIX_STEPS_H
#define SC_PREDICT_MATRIX_STEPS_H

#include "predict/block.h"

/* Of a layer's weights. */
struct sc_matrix {
	double m, n, count; /* outputs, inputs, of so many layers */
	bool expert;
	struct sc_span
		shard; /* ranks that its states are spread over, element by element; none: all have them */
	double batch; /* of them in one tensor: a layer's experts; 0 = 1 */
	double rows; /* of its input that a replica makes in a step: tokens, or positions of its samples */
};
/* A step of `n` kinds of matrices, which `replicas` hold alike, appended to `out`: products, and K-FAC's exchanges. */
void sc_matrix_steps(const struct sc_block_env *env, const struct sc_matrix *a, int n,
		     const struct sc_span *replicas, struct sc_block *out);
/* The busiest owner's elements over the mean, of matrices that the same ranks hold. */
double sc_matrix_owner_excess(const struct sc_matrix *a, int n);
/* States that are not of the weights' size (Shampoo, K-FAC), on one of `replicas`. */
double sc_matrix_bytes(const struct sc_request *request, const struct sc_matrix *a,
		       double replicas);

#endif
