/* Algorithms that are built step by step, one GPU after the other: for msccl_build.c. */
#pragma once

#include "base/vec.h"
#include "models/msccl/msccl.h"

struct sc_msccl_builder {
	const struct sc_msccl_recipe *recipe;
	SC_VEC(struct sc_msccl_tb) tbs;
	SC_VEC(struct sc_msccl_step) steps;
	int gpu, n;      /* that is built now, of how many */
	size_t first_tb; /* of the GPU */
};
enum { SC_MSCCL_NEXT_CHANNELS = 3 }; /* of an instance: one in nodes, two by turns between them */
void sc_msccl_ring_all_gather(struct sc_msccl_builder *b);
void sc_msccl_ring_all_reduce(struct sc_msccl_builder *b);
void sc_msccl_pairs(struct sc_msccl_builder *b);
void sc_msccl_pairs_all_reduce(struct sc_msccl_builder *b);
void sc_msccl_two_step_all_to_all(struct sc_msccl_builder *b);
void sc_msccl_all_to_next(struct sc_msccl_builder *b);
void sc_msccl_hierarchical_all_reduce(struct sc_msccl_builder *b);
void sc_msccl_tree_all_reduce(struct sc_msccl_builder *b);
/* Thread blocks of a rank's instance of the hierarchical algorithm. */
int sc_msccl_blocks_of(const struct sc_msccl_recipe *recipe);
