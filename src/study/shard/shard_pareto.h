/* Cost against memory: the best plan for each of several HBM budgets. */
#ifndef SC_STUDY_SHARD_PARETO_H
#define SC_STUDY_SHARD_PARETO_H

#include "study/shard/shard.h"

enum { SC_PARETO_MAX = 16 };
struct sc_pareto_point {
	double cost, bound; /* of the busiest rank */
	double hbm_bytes;   /* of the fullest rank */
	struct sc_shard_plan plan;
};
/* Falling memory, rising cost; each better than the others in one of the two. The first is the answer for
 * the problem's own budget. Plans are the caller's to release. */
struct sc_pareto {
	size_t n;
	struct sc_pareto_point at[SC_PARETO_MAX];
};
int sc_shard_pareto(const struct sc_shard_problem *problem, const struct sc_solve_opts *opts,
		    struct sc_arena *arena, struct sc_pareto *out, struct sc_err *err);

#endif
