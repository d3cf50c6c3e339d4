/* What the models of a DLRM's step may err by: factors on the time of kinds of work, all 1 where they are
 * right. For asking how much a choice between plans hangs on them. */
#ifndef SC_PREDICT_MODEL_ERRORS_H
#define SC_PREDICT_MODEL_ERRORS_H

#include <stddef.h>

#include "base/rng.h"

struct sc_model_errors {
	double lookup, update;        /* embedding kernels forward, backward */
	double all_to_all, reduction; /* reduction: all other collectives */
	double dense;                 /* matrix products */
	double *tables; /* of each table's part of its kernels, count written out; or NULL */
};
/* One sigma of the logarithm each. */
struct sc_model_spread {
	double kernel, collective, dense, table;
};
/* Log-normal errors of mean 1: a draw for each family, and one for each of n tables (`tables` is room for
 * them, which the errors then point at). */
void sc_model_errors_draw(const struct sc_model_spread *spread, struct sc_rng *rng, double *tables,
			  size_t n_tables, struct sc_model_errors *out);

#endif
