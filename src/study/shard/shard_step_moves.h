/* Moves of one unit, or of two, that might shorten the step. */
#ifndef SC_STUDY_SHARD_STEP_MOVES_H
#define SC_STUDY_SHARD_STEP_MOVES_H

#include "study/shard/shard_solve_priv.h"

enum sc_move_kind {
	SC_MOVE_SHARD, /* one shard to `rank` */
	SC_MOVE_SWAP,  /* with a shard of `other` */
	SC_MOVE_PLACE, /* as `choice`: whole on `rank`, rows on all of host `rank`, or on every rank */
	SC_MOVE_SPREAD, /* as `choice`: a slice on each of as many of the idlest ranks */
	SC_MOVE_HOSTS   /* as `choice`: slices over all ranks of as many of the idlest hosts */
};
struct sc_step_move {
	enum sc_move_kind kind;
	uint32_t unit, other;
	uint32_t shard, other_shard;
	int32_t rank;
	uint32_t choice;
	double estimate;
};
typedef SC_VEC(struct sc_step_move) sc_step_moves;
/* Moves of the units of the ranks that are the busiest in some phase, of the dearest replicas, and of some
 * units at random, that fit the memory; by their estimate, best first. `frozen`: units left alone. */
struct sc_step_hunt {
	struct sc_shard_state *s;
	const bool *frozen;
	struct sc_rng *rng;
	struct sc_change change; /* scratch */
};
void sc_step_moves_find(struct sc_step_hunt *hunt, const struct sc_phase_weights *weights,
			sc_step_moves *out);
/* Does it; sc_shard_state_change with hunt->change undoes it. */
void sc_step_move_do(struct sc_step_hunt *hunt, const struct sc_step_move *move);

#endif
