/* The state that the stages of the search for a plan share: the placement at work, the best so far,
 * and what may still be spent. */
#pragma once

#include "study/shard/shard_solve_priv.h"

#define SC_TINY_GAIN 1e-9 /* less than this share of its load is no gain */

/* The price limit of a change when replanning. NULL members: anything may move. */
struct sc_move_budget {
	const struct sc_shard_state *home; /* the current plan, or NULL */
	const double *unit_bytes;          /* of weights */
	double max_bytes;                  /* < 0: any */
	int64_t max_tables;                /* < 0: any */
};

struct sc_shard_search {
	struct sc_shard_model *model;
	struct sc_shard_state *s;    /* at work */
	struct sc_shard_state *best; /* complete and within memory, once `found` */
	struct sc_shard_state *spare;
	struct sc_move_budget budget;
	struct sc_change change; /* scratch of steps */
	struct sc_rng rng;
	double bound;
	uint32_t *only;                /* for state->only, by target and unit */
	double best_cost, goal;        /* goal: a cost that ends the search */
	double deadline_s;             /* of the monotonic clock; 0 = none */
	bool is_endless;               /* it runs to the deadline; else to max_work, or that */
	struct sc_search_watch *watch; /* may be NULL */
	const char *without;
	uint64_t max_work;
	uint32_t *order; /* units, dearest first */
	int32_t *was;    /* ranks of a unit before a change, at its place in state->ranks */
	bool found;
};
/* The search has that part (sc_solve_parts). */
bool sc_shard_search_has(const struct sc_shard_search *q, const char *part);
bool sc_shard_search_is_over(const struct sc_shard_search *q);
/* The budget of moves allows the placement at work. */
bool sc_shard_search_allows(const struct sc_shard_search *q);
/* Takes the unit out and puts it where it is best; false: it stayed. `gain`: only if the potential
 * falls. */
bool sc_shard_search_reinsert(struct sc_shard_search *q, uint32_t unit, bool gain);
/* Keeps the placement at work if it is complete, allowed and the best so far. */
bool sc_shard_search_keep(struct sc_shard_search *q);
/* Descends to where no step helps, and keeps what is found. */
void sc_shard_search_improve(struct sc_shard_search *q);
