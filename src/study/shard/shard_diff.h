/* The tables that change from one plan to another, and the bytes that have to move for it. */
#pragma once

#include "study/shard/shard.h"

struct sc_shard_side {
	enum sc_shard_type type;
	enum sc_tier tier;
	uint32_t shards;
	int32_t rank; /* the one shard's; -1: there are several */
};
struct sc_shard_move {
	const char *table;
	struct sc_shard_side from, to;
	double moved_bytes; /* weights that a rank needs and does not have */
};
struct sc_shard_diff {
	SC_VEC(struct sc_shard_move) moves; /* most bytes first, then by the new plan's order */
	double moved_bytes;
};
/* Both plans place these tables, in their order, on as many ranks; `tables` gives the bytes of an
 * element. A table that changes its tier alone is a move without bytes. */
int sc_shard_diff_compute(const struct sc_shard_plan *from, const struct sc_shard_plan *to,
			  const struct sc_table_list *tables, struct sc_shard_diff *out,
			  struct sc_err *err);
