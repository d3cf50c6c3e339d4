/* Two passes side by side on one GPU: each computes while the other's tokens travel to experts and back
 * (DeepSeek-V3, arXiv:2412.19437, §3.2.1; Megatron Core, combined_1f1b.py). Kernels of both share one compute lane,
 * exchanges of both one communication lane, each lane in one order; the exchange's kernels hold the SMs that
 * they need, and the engine says what each takes beside the other. Tensor- and context-parallel collectives keep both
 * waiting.
 *
 * Of the two passes the one goes first that can begin sooner, then the one that comes sooner to its next
 * exchange. A program has one order for all its ranks: a slow rank has that of the others. */
#ifndef SC_PREDICT_PAIR_H
#define SC_PREDICT_PAIR_H

#include "predict/block.h"

enum { SC_PAIR_RUNS = 5 };
/* A pass: runs of equal blocks, and graph cost ids of their steps as in sc_block_emit. `order` has the same
 * steps; its times say in which order the two passes' steps go. */
struct sc_pair_side {
	struct {
		const struct sc_block *block, *order;
		double n;
		uint32_t *costs;
	} run[SC_PAIR_RUNS];
	int n_runs;
};

/* Time of ops of one name, us on the GPU that nothing hides. */
struct sc_pair_part {
	uint32_t name;
	double us, count;
};
struct sc_pair {
	/* Of both: on the host, and as sc_summary. */
	double host_us, lead_us;
	/* Of each: its kernels, and its share of the exchanges that nothing hides; sum to what both take. */
	struct sc_pair_alone {
		double gpu_us, owner_us[SC_N_OWNERS];
		double hidden_us; /* of its exchanges */
		struct sc_pair_part *parts;
		size_t n_parts;
	} side[2];
};

#endif
