/* Replanning starts from the plan at hand: where its tables lie, and what of it cannot stay. */
#include <stdlib.h>
#include <string.h>

#include "study/shard/shard_solve_priv.h"

enum { MOST_MENDS = 100000 };

/* The choice of a unit whose tables have these options; made for a single table if left out. */
static uint32_t choice_with(struct sc_shard_model *m, uint32_t unit, const uint32_t *options)
{
	const struct sc_unit *u = &m->units.at[unit];

	for (uint32_t i = u->first_choice; i < u->first_choice + u->n_choices; i++) {
		const struct sc_choice *c = &m->choices.at[i];

		if (!c->made && memcmp(&m->members.at[c->first_option], options,
				       sizeof(*options) * u->n_tables) == 0)
			return i;
	}
	return u->n_tables == 1 ? sc_shard_model_option(m, options[0]) : SC_UNPLACED;
}

enum { MOST_SLICES = 64 };

/* May a placement that is no option be adopted as it is? Else only slices of columns within the rules. */
static bool may_make(const struct sc_shard_model *m, uint32_t unit,
		     const struct sc_table_placement *at, const struct sc_shard *shards)
{
	if (m->takes_any)
		return true;
	if (!sc_shard_model_may_split(m, unit, at->tier) || at->n_shards > MOST_SLICES ||
	    at->type == SC_DATA_PARALLEL)
		return false;
	for (uint32_t i = 0; i < at->n_shards; i++) {
		if (shards[i].rows != at->rows)
			return false;
	}
	return true;
}

const struct sc_table_placement **sc_shard_placements(const struct sc_shard_problem *p,
						      const struct sc_shard_plan *plan)
{
	const struct sc_table_placement **found =
		sc_xrealloc(NULL, p->n_tables + 1, sizeof(*found));
	struct sc_intern names = {.n_slots = 0};

	for (size_t t = 0; t < p->n_tables; t++)
		found[t] = NULL;
	for (uint32_t i = 0; i < plan->tables.n; i++) {
		uint32_t table = sc_shard_table_of(p, plan->tables.at[i].name, i, &names);

		if (table != SC_INTERN_NONE)
			found[table] = &plan->tables.at[i];
	}
	sc_intern_release(&names);
	return found;
}

/* Do the shards lie as the choice has them? Their ranks into `ranks`. */
static bool take_ranks(const struct sc_shard_model *m, const struct sc_choice *c,
		       const struct sc_shard *shards, int32_t *ranks)
{
	for (uint32_t i = 0; i < c->n; i++) {
		int32_t rank = shards[i].rank, first = shards[0].rank;

		if (rank < 0 || (uint32_t)rank >= m->world)
			return false;
		if (c->spread == SC_SPREAD_UNIFORM && rank != (int32_t)i)
			return false;
		if (c->spread == SC_SPREAD_HOST &&
		    (rank != first + (int32_t)i || first % (int32_t)m->per_host != 0))
			return false;
		if (c->spread == SC_SPREAD_FREE || c->spread == SC_SPREAD_ON_HOST)
			ranks[i] = rank;
	}
	if (c->spread == SC_SPREAD_HOST)
		ranks[0] = shards[0].rank / (int32_t)m->per_host;
	return true;
}

/* The choice of an option for each table of the unit, if that is what the plan has. */
static uint32_t option_choice(struct sc_shard_model *m, uint32_t unit,
			      const struct sc_shard_plan *plan,
			      const struct sc_table_placement **at)
{
	const struct sc_unit u = m->units.at[unit];
	const uint32_t *tables = m->tables.at + u.first_table;
	uint32_t *options = sc_xrealloc(NULL, u.n_tables, sizeof(*options));
	uint32_t choice = SC_UNPLACED, n = 0;

	for (; n < u.n_tables && at[tables[n]]; n++) {
		options[n] = sc_shard_match_option(m->problem, plan, at[tables[n]], tables[n]);
		if (options[n] == SC_UNPLACED)
			break;
	}
	if (n == u.n_tables)
		choice = choice_with(m, unit, options);
	free(options);
	return choice;
}

static bool adopt_as(struct sc_shard_state *s, uint32_t unit, uint32_t choice,
		     const struct sc_shard *shards)
{
	const struct sc_shard_model *m = s->model;
	int32_t *ranks = sc_unit_ranks(s, unit);

	if (choice == SC_UNPLACED ||
	    sc_choice_n_ranks(&m->choices.at[choice]) > sc_unit_slots(m, unit) ||
	    !take_ranks(m, &m->choices.at[choice], shards, ranks))
		return false;
	sc_shard_state_place(s, unit, choice, ranks);
	return true;
}

static bool adopt_unit(struct sc_shard_state *s, struct sc_shard_model *m, uint32_t unit,
		       const struct sc_shard_plan *plan, const struct sc_table_placement **at)
{
	const struct sc_table_placement *first = at[m->tables.at[m->units.at[unit].first_table]];
	const struct sc_shard *shards;
	uint32_t choice;

	if (!first)
		return false;
	shards = &plan->shards.at[first->first_shard];
	choice = option_choice(m, unit, plan, at);
	if (adopt_as(s, unit, choice, shards))
		return true;
	if (m->units.at[unit].n_tables > 1 || (choice != SC_UNPLACED && !m->takes_any) ||
	    !may_make(m, unit, first, shards))
		return false;
	return adopt_as(s, unit, sc_shard_model_made(m, unit, first, shards), shards);
}

bool sc_shard_state_adopt(struct sc_shard_state *s, struct sc_shard_model *m,
			  const struct sc_shard_plan *plan)
{
	const struct sc_table_placement **at;
	bool all = true;

	if (plan->world != m->world)
		return false;
	at = sc_shard_placements(m->problem, plan);
	for (uint32_t u = 0; u < m->units.n; u++)
		all = adopt_unit(s, m, u, plan, at) && all;
	free(at);
	return all;
}

/* A unit's constraints, where it lies. */
static bool may_stay(const struct sc_shard_state *s, uint32_t unit)
{
	const struct sc_shard_model *m = s->model;
	const struct sc_unit *u = &m->units.at[unit];
	const struct sc_choice *c = &m->choices.at[s->choice[unit]];
	bool offered = s->choice[unit] >= u->first_choice &&
		       s->choice[unit] < u->first_choice + u->n_choices;

	for (uint32_t r = 0; u->ruled && r < m->world; r++) {
		if (sc_shard_state_is_on(s, unit, (int32_t)r) &&
		    !sc_shard_state_allows(s, unit, c, (int32_t)r))
			return false;
	}
	/* slices that are no option were made within the rules of types */
	return offered || !(u->ruled || (u->typed && !c->made));
}

/* A rank over its memory, or on a host that is, or -1. A budget may be nothing at all. */
static int32_t full_rank(const struct sc_shard_state *s)
{
	for (uint32_t r = 0; r < s->model->world; r++) {
		if (sc_shard_state_is_over(s, r))
			return (int32_t)r;
	}
	return -1;
}

static uint32_t largest_on(const struct sc_shard_state *s, int32_t rank)
{
	uint32_t found = SC_UNPLACED;
	double most = -1.0;

	for (uint32_t u = 0; u < s->model->units.n; u++) {
		if (s->choice[u] != SC_UNPLACED && sc_shard_state_is_on(s, u, rank) &&
		    s->model->choices.at[s->choice[u]].hbm > most) {
			most = s->model->choices.at[s->choice[u]].hbm;
			found = u;
		}
	}
	return found;
}

void sc_shard_state_mend(struct sc_shard_state *s)
{
	int32_t rank;

	for (uint32_t u = 0; u < s->model->units.n; u++) {
		if (s->choice[u] != SC_UNPLACED && !may_stay(s, u))
			sc_shard_state_remove(s, u);
	}
	for (int i = 0; i < MOST_MENDS && (rank = full_rank(s)) >= 0; i++) {
		uint32_t unit = largest_on(s, rank);

		if (unit == SC_UNPLACED)
			break;
		sc_shard_state_remove(s, unit);
	}
	for (uint32_t u = 0; u < s->model->units.n; u++) {
		if (s->choice[u] == SC_UNPLACED)
			sc_shard_state_insert(s, u);
	}
}
