/* Column splits that are not in the list of options: the objective says what a slice of a width costs. */
#include <stdlib.h>

#include "study/shard/shard_solve_priv.h"

enum { WIDTH_STEP = SC_WIDTH_STEP, MOST_SLICES = 8 };
/* Tables whose shard is at least this share of a rank's load are worth a split. */
static const double SPLIT_SHARE = 0.25;

uint32_t sc_shard_model_slices(struct sc_shard_model *m, uint32_t unit, uint32_t like,
			       const int64_t *cols, uint32_t n)
{
	int64_t rows = m->problem->tables[m->tables.at[m->units.at[unit].first_table]].rows, at = 0;
	struct sc_table_placement slices = {.type = SC_COLUMN_WISE,
					    .tier = m->choices.at[like].tier,
					    .cache_frac = m->choices.at[like].cache_frac,
					    .n_shards = n};
	struct sc_shard *shards = sc_xrealloc(NULL, n, sizeof(*shards));
	uint32_t made;

	for (uint32_t i = 0; i < n; at += cols[i++])
		shards[i] = (struct sc_shard){.col_offset = at, .rows = rows, .cols = cols[i]};
	made = sc_shard_model_made(m, unit, &slices, shards);
	free(shards);
	return made;
}

bool sc_shard_model_may_split(const struct sc_shard_model *m, uint32_t unit, enum sc_tier tier)
{
	const struct sc_unit *u = &m->units.at[unit];

	return m->problem->column_cost && u->n_tables == 1 && !u->whole_in[tier];
}

/* The cheapest whole table that could be split: its choice, or SC_UNPLACED. */
static uint32_t whole(const struct sc_shard_model *m, uint32_t index)
{
	const struct sc_unit *unit = &m->units.at[index];
	uint32_t found = SC_UNPLACED;

	for (uint32_t i = unit->first_choice; i < unit->first_choice + unit->n_choices; i++) {
		const struct sc_choice *c = &m->choices.at[i];

		if (c->spread == SC_SPREAD_FREE && sc_shard_model_may_split(m, index, c->tier) &&
		    (found == SC_UNPLACED || c->total < m->choices.at[found].total))
			found = i;
	}
	return found;
}

static void split_evenly(struct sc_shard_model *m, uint32_t unit, uint32_t like)
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
			sc_shard_model_slices(m, unit, like, cols, n);
	}
}

/* Choices of a unit lie together: those of a unit that is split move to the end of the list. */
void sc_shard_model_split(struct sc_shard_model *m, double load)
{
	if (!m->problem->column_cost)
		return;
	for (uint32_t u = 0; u < m->units.n; u++) {
		struct sc_unit *unit = &m->units.at[u];
		uint32_t like = whole(m, u);
		uint32_t old = unit->first_choice, first = (uint32_t)m->choices.n;

		if (like == SC_UNPLACED || m->choices.at[like].n != 1 ||
		    m->choices.at[like].cost < SPLIT_SHARE * load)
			continue;
		for (uint32_t i = 0; i < unit->n_choices; i++) {
			struct sc_choice copy = m->choices.at[old + i];

			SC_VEC_PUSH(&m->choices, copy);
		}
		unit->first_choice = first;
		split_evenly(m, u, like);
		unit->n_choices = (uint32_t)m->choices.n - first;
	}
}
