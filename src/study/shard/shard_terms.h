/* A plan as a sum: what each of its shards adds to its rank, by a problem's costs. Reports and
 * questions about one plan read it; the solver has its own, faster, bookkeeping. */
#pragma once

#include "study/shard/shard.h"

struct sc_shard_term {
	uint32_t table; /* of the problem */
	uint32_t rank;
	uint32_t option_shard; /* in problem->shards; UINT32_MAX: made by column_cost */
	int64_t rows, cols, hot_rows;
	enum sc_shard_type type;
	enum sc_tier tier;
	double ms, hbm_bytes, host_bytes, ssd_bytes;
	double comms_ms, prefetch_ms; /* of ms, where the objective tells them apart */
};
struct sc_shard_terms {
	SC_VEC(struct sc_shard_term) at; /* a shard each, in the plan's order */
};
/* Makes the terms of a plan whose tables are in the problem's order. SC_EUNSUPPORTED means that the
 * objective has no cost for a table's placement. */
int sc_shard_terms_of(const struct sc_shard_problem *problem, const struct sc_shard_plan *plan,
		      struct sc_shard_terms *out, struct sc_err *err);

/* A rank's cost by table, dearest first; sc_rank_parts returns how many of `max` were written. */
struct sc_rank_part {
	const struct sc_shard_term *term; /* the first of the table there */
	double ms, hbm_bytes;
};
size_t sc_rank_parts(const struct sc_shard_terms *terms, uint32_t rank, struct sc_rank_part *out,
		     size_t max);
