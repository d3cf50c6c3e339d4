/* Tells how sure it is that one plan is better than another, by paired Monte Carlo: every draw of
 * model error and of drift is applied to all plans alike (common random numbers), so that errors
 * that plans share cancel. */
#pragma once

#include "study/shard/shard_terms.h"

/* The family of a cost part: the error of a family's model is one draw for all of it. */
enum sc_cost_family {
	SC_COST_LOOKUP,  /* gathers and updates of rows */
	SC_COST_A2A,     /* all-to-all of whole tables and slices of columns */
	SC_COST_SCATTER, /* reduce-scatter and all-gather of slices of rows */
	SC_COST_REDUCE,  /* all-reduce of replicas */
	SC_COST_HOST,    /* rows over PCIe, from host memory or SSD */
	SC_N_COST_FAMILIES
};
/* Each number is one sigma of the logarithm; 0 leaves an effect out. */
struct sc_confidence_opts {
	int64_t samples;
	uint64_t seed;
	double kernel_frac;     /* model of the lookups and of rows over PCIe */
	double collective_frac; /* models of the collectives, each on its own */
	double shard_frac;      /* beside that: each kind of shard (table, type, tier, size) */
	double drift_frac;      /* a table's lookups now against those the costs were made with */
	double rest_frac;       /* of what all plans have alike (step_ms) */
};

struct sc_confidence_plan {
	const struct sc_shard_terms *terms;
	/* The time of a whole step, of which the busiest rank's cost is a part, and the share of a
	 * change of that cost that the step sees; 0: the busiest rank's cost is all there is. */
	double step_ms, exposed_frac;
};
struct sc_confidence {
	double p_best;                   /* equal costs share */
	double mean_ms, low_ms, high_ms; /* central 80 % */
	double regret_pct;               /* mean of cost over the draw's best - 1 */
	bool tied; /* no worse than the one of least regret in 10 % of the draws or more */
};
/* A term's exchanges are of the family of its type's collective, its prefetch is SC_COST_HOST, and
 * the rest is SC_COST_LOOKUP or, by its tier, SC_COST_HOST. */
int sc_shard_confidence(const struct sc_shard_problem *problem,
			const struct sc_confidence_plan *plans, size_t n_plans,
			const struct sc_confidence_opts *opts, struct sc_confidence *out,
			struct sc_err *err);
