/* Ranks of any layout one by one, with groups and nodes, and the colours that fold into classes. */
#pragma once

#include "predict/transformer/parallel.h"

/* A set of ranks base + i*stride_a + j*stride_b, i < n_a, j < n_b. */
struct axis_shape {
	uint32_t n_a, n_b;
	uint32_t stride_a, stride_b;
};
struct layout_dims {
	uint32_t size[SC_N_AXES], stride[SC_N_AXES];
	uint32_t world, gpus_per_node;
	struct axis_shape experts; /* the ranks of an expert group */
};

/* The sets that ranks are in, one of each kind a rank: the groups of tp, cp, ep, dp, then the node.
 * A set is named by its lowest rank. */
enum { PLACEMENT_NODE = SC_AXIS_PP, PLACEMENT_N_SETS };

/* Every rank of any layout with its sets: tables as long as the world, in the caller's arena. */
struct placement_ranks {
	const struct layout_dims *d;
	struct sc_arena *arena;
	struct axis_shape shape[PLACEMENT_N_SETS];
	uint32_t *base[PLACEMENT_N_SETS]; /* set by rank */
	struct sc_span *span[SC_AXIS_PP]; /* by base */
	uint32_t *node, *stage;           /* by rank */
	double *slowdown;                 /* by rank */
	uint8_t *kind;                    /* kind of GPU by rank */
	const struct sc_layout *layout;
	uint32_t *color; /* class to be, by rank, numbered by their lowest ranks */
	uint32_t n_colors;
};

/* Returns the same position on the next or on the previous pipeline stage (wraps around). */
static inline uint32_t placement_beside(const struct placement_ranks *ranks, uint32_t rank,
					bool next)
{
	const uint32_t pp = ranks->d->size[SC_AXIS_PP], stage = ranks->stage[rank];
	const uint32_t to = (stage + (next ? 1 : pp - 1)) % pp;

	return rank - stage * ranks->d->stride[SC_AXIS_PP] + to * ranks->d->stride[SC_AXIS_PP];
}

/* Finds the coarsest colours: ranks split by the colours in their sets and of their pipeline
 * neighbours, until nothing splits any more (Weisfeiler and Leman, 1968). Sights are compared by
 * 64-bit hashes. Returns false if that takes too many colours, or too long. */
bool sc_placement_refine(struct placement_ranks *ranks);
