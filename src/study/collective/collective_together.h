/* A collective while others run between the same GPUs, each on a communicator of its own: links, NICs, SMs and memory are
 * shared as they are between all that runs (predict/engine/simulate.h). */
#ifndef SC_STUDY_COLLECTIVE_TOGETHER_H
#define SC_STUDY_COLLECTIVE_TOGETHER_H

#include "models/collective.h"

struct sc_collective_together;

struct sc_collective_together *sc_collective_together_create(void);
void sc_collective_together_destroy(struct sc_collective_together *together);
/* Until `shape` ends, when it begins with the `n` others. Never less than alone. */
int sc_collective_together_us(struct sc_collective_together *together,
			      const struct sc_fabric *fabric, const struct sc_span *span,
			      const struct sc_collective_shape *shape,
			      const struct sc_collective_shape *others, size_t n, double *out,
			      struct sc_err *err);

#endif
