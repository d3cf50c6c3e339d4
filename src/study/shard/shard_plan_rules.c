/* Does a plan that was not searched for keep to the constraints? A search is built to; see shard_model.c. */
#include <stdlib.h>

#include "study/shard/shard_solve_priv.h"

struct placed {
	const struct sc_shard_plan *plan;
	const struct sc_table_placement **at; /* by table of the problem */
};

static bool is_on(const struct placed *x, uint32_t table, int32_t rank)
{
	const struct sc_shard *shards = &x->plan->shards.at[x->at[table]->first_shard];

	for (uint32_t i = 0; i < x->at[table]->n_shards; i++) {
		if (shards[i].rank == rank)
			return true;
	}
	return false;
}

/* How many of the first table's shards lie on ranks that the other has too. */
static uint32_t n_common(const struct placed *x, uint32_t table, uint32_t other)
{
	const struct sc_shard *shards = &x->plan->shards.at[x->at[table]->first_shard];
	uint32_t n = 0;

	for (uint32_t i = 0; i < x->at[table]->n_shards; i++)
		n += is_on(x, other, shards[i].rank);
	return n;
}

static bool holds(const struct placed *x, const struct sc_shard_constraint *c)
{
	const struct sc_table_placement *at = x->at[c->table];
	bool is_pair = c->kind == SC_TOGETHER || c->kind == SC_APART, named;

	if (!at || (is_pair && !x->at[c->other]))
		return false;
	named = (c->type < 0 || c->type == (int)at->type) &&
		(c->tier < 0 || c->tier == (int)at->tier);
	switch (c->kind) {
	case SC_PIN:
		return named && (c->rank < 0 || (at->n_shards == 1 && is_on(x, c->table, c->rank)));
	case SC_FORBID:
		return !named || (c->rank >= 0 && !is_on(x, c->table, c->rank));
	case SC_TOGETHER:
		return n_common(x, c->table, c->other) == at->n_shards &&
		       n_common(x, c->other, c->table) == x->at[c->other]->n_shards;
	case SC_APART:
		break;
	}
	return n_common(x, c->table, c->other) == 0;
}

bool sc_shard_keeps_constraints(const struct sc_shard_problem *problem,
				const struct sc_shard_plan *plan)
{
	struct placed placed = {.plan = plan};
	size_t i = 0;

	if (!problem->n_constraints)
		return true;
	placed.at = sc_shard_placements(problem, plan);
	while (i < problem->n_constraints && holds(&placed, &problem->constraints[i]))
		i++;
	free(placed.at);
	return i == problem->n_constraints;
}
