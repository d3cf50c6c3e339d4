/* Shared by the two ways of folding ranks into classes. */
#ifndef SC_PREDICT_PLACEMENT_PRIV_H
#define SC_PREDICT_PLACEMENT_PRIV_H

#include "predict/parallel.h"

/* A set of ranks base + i*stride_a + j*stride_b, i < n_a, j < n_b. */
struct axis_shape {
	uint32_t n_a, n_b;
	uint32_t stride_a, stride_b;
};
struct layout_dims {
	uint32_t size[SC_N_AXES], stride[SC_N_AXES];
	uint32_t world, gpus_per_node;
};
struct axis_shape placement_axis(const struct layout_dims *d, enum sc_axis axis);
uint32_t placement_base(const struct layout_dims *d, enum sc_axis axis, uint32_t rank);
static inline uint32_t placement_coord(const struct layout_dims *d, enum sc_axis axis,
				       uint32_t rank)
{
	return rank / d->stride[axis] % d->size[axis];
}
/* The same position on another pipeline stage, `step` stages on (wraps around). */
uint32_t placement_neighbour(const struct layout_dims *d, uint32_t rank, uint32_t step);
/* placement_refine.c: any layout, time O(ranks) a round. */
void placement_refine(const struct sc_layout *layout, const struct layout_dims *d,
		      struct sc_arena *arena, struct sc_placement *out);

#endif
