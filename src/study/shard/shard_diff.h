/* What changes from one plan to another, and the bytes that have to move for it. */
#ifndef SC_PREDICT_SHARD_DIFF_H
#define SC_PREDICT_SHARD_DIFF_H

#include "study/shard/shard.h"

struct sc_shard_move {
	const char *table;
	enum sc_shard_type from_type, to_type;
	enum sc_tier from_tier, to_tier;
	uint32_t from_shards, to_shards;
	int32_t from_rank, to_rank; /* of the one shard; -1: several */
	double moved_bytes;         /* weights that a rank needs and does not have */
};
struct sc_shard_diff {
	SC_VEC(struct sc_shard_move) moves; /* most bytes first, then by the new plan's order */
	double moved_bytes;
};
void sc_shard_diff_release(struct sc_shard_diff *diff);
/* Both plans place the same tables on as many ranks; `tables` gives the bytes of an element. A table whose
 * tier alone changes is a move without bytes. */
int sc_shard_diff_compute(const struct sc_shard_plan *from, const struct sc_shard_plan *to,
			  const struct sc_table_list *tables, struct sc_shard_diff *out,
			  struct sc_err *err);

#endif
