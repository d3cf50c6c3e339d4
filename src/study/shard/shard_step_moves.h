/* Changes of one table's placement, or of two, that might shorten the step. */
#ifndef SC_STUDY_SHARD_STEP_MOVES_H
#define SC_STUDY_SHARD_STEP_MOVES_H

#include "study/shard/shard_step_priv.h"

enum sc_move_kind {
	SC_MOVE_SHARD,    /* one shard to `rank` */
	SC_MOVE_SWAP,     /* with a shard of `other` */
	SC_MOVE_WHOLE,    /* the table, to `rank` */
	SC_MOVE_COLUMNS,  /* n slices, to the n idlest ranks */
	SC_MOVE_ROWS,     /* n slices, to the n idlest ranks; all: one a rank */
	SC_MOVE_HOST,     /* n slices of rows, over the ranks of host `rank` */
	SC_MOVE_HOSTS,    /* n slices of rows, over all ranks of as many of the idlest hosts */
	SC_MOVE_REPLICATE /* to every rank */
};
struct sc_step_move {
	enum sc_move_kind kind;
	uint32_t table, other;
	uint32_t shard, other_shard; /* of their homes */
	int32_t rank;
	uint32_t n;
	double estimate;
};
typedef SC_VEC(struct sc_step_move) sc_step_moves;
/* Moves of the tables of the ranks that are the busiest in some phase, of the dearest replicas, and of some
 * tables at random, that fit the memory; by their estimate, best first. `frozen`: tables left alone. */
void sc_step_moves_find(struct sc_step_state *s, const struct sc_step_weights *w,
			const bool *frozen, struct sc_rng *rng, sc_step_moves *out);
/* Does it; once more with the same homes undoes it. */
struct sc_step_undo {
	struct sc_home first, second;
	bool two;
};
void sc_step_move_do(struct sc_step_state *s, const struct sc_step_move *move,
		     struct sc_step_undo *undo);
void sc_step_move_undo(struct sc_step_state *s, const struct sc_step_move *move,
		       struct sc_step_undo *undo);
void sc_step_undo_release(struct sc_step_undo *undo);

#endif
