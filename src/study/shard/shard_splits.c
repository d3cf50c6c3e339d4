/* Column splits that are not in the list of options: the objective says what a slice of a width costs. */
#include <math.h>

#include "study/shard/shard_solve_priv.h"

enum { WIDTH_STEP = SC_WIDTH_STEP, MOST_SLICES = 8 };
/* Tables whose shard is at least this share of a rank's load are worth a split. */
static const double SPLIT_SHARE = 0.25;

uint32_t sc_shard_model_slices(struct sc_shard_model *m, uint32_t unit, enum sc_tier tier,
			       const int64_t *cols, uint32_t n)
{
	const struct sc_shard_problem *p = m->problem;
	uint32_t table = m->tables.at[m->units.at[unit].first_table];
	struct sc_option_shard *shards = sc_arena_calloc(&m->arena, n, sizeof(*shards));
	struct sc_choice c = {.spread = SC_SPREAD_FREE,
			      .type = SC_COLUMN_WISE,
			      .tier = tier,
			      .made = true,
			      .n = n,
			      .shards = shards};
	int64_t at = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!p->column_cost(p->column_ctx, table, tier, cols[i], &shards[i]))
			return UINT32_MAX;
		shards[i].row_offset = 0;
		shards[i].rows = p->tables[table].rows;
		shards[i].col_offset = at;
		shards[i].cols = cols[i];
		at += cols[i];
	}
	sc_choice_sum_up(&c);
	SC_VEC_PUSH(&m->choices, c);
	return (uint32_t)m->choices.n - 1;
}

bool sc_shard_model_may_split(const struct sc_shard_model *m, uint32_t unit, enum sc_tier tier)
{
	const struct sc_unit *u = &m->units.at[unit];

	return m->problem->column_cost && u->n_tables == 1 && !u->whole_in[tier];
}

/* The cheapest whole table that could be split: its choice, or NULL. */
static const struct sc_choice *whole(const struct sc_shard_model *m, uint32_t index)
{
	const struct sc_unit *unit = &m->units.at[index];
	const struct sc_choice *found = NULL;

	for (uint32_t i = 0; i < unit->n_choices; i++) {
		const struct sc_choice *c = &m->choices.at[unit->first_choice + i];

		if (c->spread == SC_SPREAD_FREE && sc_shard_model_may_split(m, index, c->tier) &&
		    (!found || c->total < found->total))
			found = c;
	}
	return found;
}

static void split_evenly(struct sc_shard_model *m, uint32_t unit, enum sc_tier tier)
{
	uint32_t table = m->tables.at[m->units.at[unit].first_table];
	int64_t dim = m->problem->tables[table].dim;
	int64_t least = m->problem->min_cols > WIDTH_STEP ? m->problem->min_cols : WIDTH_STEP;
	int64_t cols[MOST_SLICES];

	for (uint32_t n = 2; n <= MOST_SLICES && dim / n >= least && dim / n >= WIDTH_STEP; n++) {
		int64_t steps = dim / WIDTH_STEP, left = dim;

		for (uint32_t i = 0; i < n; i++) {
			cols[i] = i + 1 == n ? left
					     : (steps / n + (i < steps % n ? 1 : 0)) * WIDTH_STEP;
			left -= cols[i];
		}
		if (cols[n - 1] >= least)
			sc_shard_model_slices(m, unit, tier, cols, n);
	}
}

/* Choices of a unit lie together: those of a unit that is split move to the end of the list. */
void sc_shard_model_split(struct sc_shard_model *m, double load)
{
	if (!m->problem->column_cost)
		return;
	for (uint32_t u = 0; u < m->units.n; u++) {
		struct sc_unit *unit = &m->units.at[u];
		const struct sc_choice *c = whole(m, u);
		uint32_t old = unit->first_choice, first = (uint32_t)m->choices.n;
		enum sc_tier tier;

		if (!c || c->n != 1 || c->cost < SPLIT_SHARE * load)
			continue;
		tier = c->tier;
		for (uint32_t i = 0; i < unit->n_choices; i++) {
			struct sc_choice copy = m->choices.at[old + i];

			SC_VEC_PUSH(&m->choices, copy);
		}
		unit->first_choice = first;
		split_evenly(m, u, tier);
		unit->n_choices = (uint32_t)m->choices.n - first;
	}
}
