/* What shard_torchrec_search.c and shard_torchrec_place.c share: a proposal and the ranks it gets. */
#ifndef SC_STUDY_SHARD_TORCHREC_SEARCH_PRIV_H
#define SC_STUDY_SHARD_TORCHREC_SEARCH_PRIV_H

#include "study/shard/shard.h"

/* Of all shards of an option. */
struct sc_storage {
	double hbm, host, ssd;
};
/* Arrays live in the arena of sc_placer_init. */
struct sc_placer {
	const struct sc_shard_problem *problem;
	const struct sc_storage *storage;               /* of each option */
	double *cost, *hbm_left, *host_left, *ssd_left; /* of each rank */
	double limit;
	bool over;          /* a rank reached the limit */
	double work;        /* shards placed so far, and half the tables looked at */
	uint32_t *order;    /* tables, those of more storage first, as of the last proposal */
	size_t *first_rank; /* where a table's shards begin in rank[] */
	int32_t *rank;      /* of each shard of the proposal */
	uint32_t *heap, *passed;
	uint32_t n_heap; /* 0: to be built */
	uint32_t *hosts; /* by cost */
	double *host_sum, *saved;
};
void sc_placer_init(struct sc_placer *placer, const struct sc_shard_problem *problem,
		    struct sc_arena *arena);
/* Gives every shard of the options chosen (one a table) a rank, and the cost of the busiest in *cost;
 * false if one does not fit, or as soon as a rank costs `limit`. */
bool sc_placer_place(struct sc_placer *placer, const uint32_t *chosen, double limit, double *cost);

#endif
