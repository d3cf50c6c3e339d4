/* A shard's cost by TorchRec's model, which shard_torchrec.c and its tests ask. */
#ifndef SC_STUDY_SHARD_TORCHREC_PRIV_H
#define SC_STUDY_SHARD_TORCHREC_PRIV_H

#include "study/shard/shard.h"

/* A table placed by one type in one tier. */
struct sc_torchrec_ask {
	const struct sc_torchrec_topology *topology;
	const struct sc_table *table;
	double poolings; /* of a sample and feature */
	enum sc_shard_type type;
	enum sc_tier tier;
};
/* The parts of a shard's cost, ms; input_dist is in no sum. */
struct sc_torchrec_perf {
	double fwd_compute, fwd_comms, bwd_compute, bwd_comms, prefetch, input_dist;
};
/* Fills cost and bytes of a shard whose rows and cols are given; `perf` may be NULL. */
void sc_torchrec_cost(const struct sc_torchrec_ask *ask, struct sc_option_shard *shard,
		      struct sc_torchrec_perf *perf);

#endif
