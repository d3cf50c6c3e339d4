/* Shared by the ways of folding ranks into classes: arithmetic, and what makes classes of colours (parallel.c);
 * colour refinement (placement_refine.c). */
#ifndef SC_PREDICT_PLACEMENT_PRIV_H
#define SC_PREDICT_PLACEMENT_PRIV_H

#include "predict/transformer/parallel.h"

/* A set of ranks base + i*stride_a + j*stride_b, i < n_a, j < n_b. */
struct axis_shape {
	uint32_t n_a, n_b;
	uint32_t stride_a, stride_b;
};
struct layout_dims {
	uint32_t size[SC_N_AXES], stride[SC_N_AXES];
	uint32_t world, gpus_per_node;
	struct axis_shape experts; /* an expert group */
};
static inline uint32_t placement_coord(const struct layout_dims *d, enum sc_axis axis,
				       uint32_t rank)
{
	return rank / d->stride[axis] % d->size[axis];
}

/* Sets that ranks are in, one of each kind a rank: the groups of tp, cp, ep, dp, then the node. A
 * set is named by its lowest rank. */
enum { PLACEMENT_NODE = SC_AXIS_PP, PLACEMENT_N_SETS };

/* Every rank with its sets: any layout, tables as long as the world, in the caller's arena. */
struct placement_ranks {
	const struct layout_dims *d;
	struct sc_arena *arena;
	struct axis_shape shape[PLACEMENT_N_SETS];
	uint32_t *base[PLACEMENT_N_SETS]; /* by rank: its set */
	struct sc_span *span[SC_AXIS_PP]; /* by base */
	uint32_t *node, *stage;           /* by rank */
	double *slowdown;                 /* by rank */
	uint8_t *kind;                    /* by rank: of its GPU */
	const struct sc_layout *layout;
	uint32_t *color; /* by rank: its class to be, 0 .. n_colors - 1 */
	uint32_t n_colors;
};
/* Ranks in the set named `base`, in the order of placement_member. */
uint32_t placement_set_size(const struct placement_ranks *ranks, int set, uint32_t base);
static inline uint32_t placement_member(const struct placement_ranks *ranks, int set, uint32_t base,
					uint32_t i)
{
	const struct axis_shape *x = &ranks->shape[set];

	if (x->n_b == 1)
		return base + i * x->stride_a;
	return base + i % x->n_a * x->stride_a + i / x->n_a * x->stride_b;
}
/* The same position on the next and on the previous pipeline stage (wraps around). */
static inline uint32_t placement_next(const struct placement_ranks *ranks, uint32_t rank)
{
	uint32_t pp = ranks->d->size[SC_AXIS_PP], stride = ranks->d->stride[SC_AXIS_PP];

	return ranks->stage[rank] + 1 < pp ? rank + stride : rank - (pp - 1) * stride;
}
static inline uint32_t placement_prev(const struct placement_ranks *ranks, uint32_t rank)
{
	uint32_t pp = ranks->d->size[SC_AXIS_PP], stride = ranks->d->stride[SC_AXIS_PP];

	return ranks->stage[rank] > 0 ? rank - stride : rank + (pp - 1) * stride;
}

/* placement_refine.c: the coarsest colours. False if that takes too many of them, or too long. */
bool placement_refine(struct placement_ranks *ranks);

#endif
