/* The relaxed problem behind the lower bounds: options by what they ask of ranks, not where they lie. */
#ifndef SC_STUDY_SHARD_BOUND_PRIV_H
#define SC_STUDY_SHARD_BOUND_PRIV_H

#include "study/shard/shard_solve_priv.h"

struct sc_way {
	double cost, least; /* of the dearest and the cheapest shard */
	double work, hbm;   /* of all shards */
	uint32_t ranks;     /* that each shard is on: more than 1 for the blocks of a host */
	uint32_t shards, choice;
	bool everywhere; /* a load on every rank */
};
struct sc_slice_cost {
	double cost, work;
};
struct sc_relaxation {
	const struct sc_shard_model *model;
	SC_VEC(struct sc_way) ways;          /* of each unit by work */
	SC_VEC(struct sc_slice_cost) slices; /* by cost, work falling */
	SC_VEC(uint32_t) first_way;          /* of each unit, and the end */
	SC_VEC(uint32_t) first_slice;
	double *forced; /* load each unit must put on every rank */
	double *weight; /* of each way, for the question at hand */
	double always;  /* after sc_relaxation_allows said yes: load that is on every rank */
	double hbm_total;
};
void sc_relaxation_init(struct sc_relaxation *x, const struct sc_shard_model *model);
void sc_relaxation_release(struct sc_relaxation *x);
/* Least work of a table cut into columns, no slice dearer than `limit`; INFINITY: none. */
double sc_relaxation_slices(const struct sc_relaxation *x, uint32_t unit, double limit);
/* False: no plan costs z or less. */
bool sc_relaxation_allows(struct sc_relaxation *x, double z, bool weights);

#endif
