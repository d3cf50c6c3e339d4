/* Cuts that lower the busiest rank: columns of a slice there go to another slice, or to a new one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/shard/shard_solve_priv.h"

enum { WIDTH_STEP = SC_WIDTH_STEP, MOST_SLICES = 64 };

/* Some columns of one slice given to another, or to a new one. */
struct cut {
	uint32_t unit, from, to; /* slices; to = n: a new one */
	int32_t rank;            /* of the new one */
	int64_t cols;
	double max;
};

static bool cut_fits(const struct sc_shard_state *s, const struct sc_option_shard *now,
		     const struct sc_option_shard *next, int32_t rank)
{
	struct sc_option_shard more = *next;

	more.hbm_bytes -= now ? now->hbm_bytes : 0.0;
	more.host_bytes -= now ? now->host_bytes : 0.0;
	more.ssd_bytes -= now ? now->ssd_bytes : 0.0;
	return sc_shard_state_fits(s, &more, rank);
}

static void try_cut(struct sc_shard_state *s, const struct sc_choice *c, struct cut cut,
		    struct cut *best)
{
	const struct sc_shard_problem *p = s->model->problem;
	const int32_t *ranks = &s->ranks[s->model->units.at[cut.unit].first_rank];
	uint32_t table = s->model->tables.at[s->model->units.at[cut.unit].first_table];
	const struct sc_option_shard *from = sc_choice_shard(c, cut.from);
	const struct sc_option_shard *to = cut.to < c->n ? sc_choice_shard(c, cut.to) : NULL;
	int32_t rank = to ? ranks[cut.to] : cut.rank;
	struct sc_option_shard less, more;
	double here, there;

	s->work += 16;
	if (!p->column_cost(p->column_ctx, table, c->tier, from->cols - cut.cols, &less) ||
	    !p->column_cost(p->column_ctx, table, c->tier, cut.cols + (to ? to->cols : 0), &more))
		return;
	here = s->load[ranks[cut.from]] +
	       (less.cost - from->cost) / s->model->speed[ranks[cut.from]];
	there = s->load[rank] + (more.cost - (to ? to->cost : 0.0)) / s->model->speed[rank];
	cut.max = fmax(here, there);
	if (cut.max < best->max && rank != ranks[cut.from] && cut_fits(s, to, &more, rank) &&
	    cut_fits(s, from, &less, ranks[cut.from]) &&
	    sc_shard_state_allows(s, cut.unit, c, rank))
		*best = cut;
}

static uint32_t lightest(const struct sc_shard_state *s)
{
	uint32_t found = 0;

	for (uint32_t r = 1; r < s->model->world; r++) {
		if (s->load[r] < s->load[found])
			found = r;
	}
	return found;
}

static void try_cuts(struct sc_shard_search *q, uint32_t unit, uint32_t from, struct cut *best)
{
	struct sc_shard_state *s = q->s;
	const struct sc_choice *c = &q->model->choices.at[s->choice[unit]];
	int64_t cols = sc_choice_shard(c, from)->cols, least = q->model->problem->min_cols;
	uint32_t ends = c->n + (c->n < sc_unit_slots(q->model, unit) ? 1 : 0);
	struct cut cut = {.unit = unit, .from = from, .rank = (int32_t)lightest(s)};

	least = least > WIDTH_STEP ? least : WIDTH_STEP;
	for (cut.to = 0; cut.to < ends; cut.to++) {
		int64_t first = cut.to == c->n ? least : WIDTH_STEP;

		if (cut.to == from)
			continue;
		for (cut.cols = first; cols - cut.cols >= least; cut.cols += WIDTH_STEP)
			try_cut(s, c, cut, best);
	}
}

/* False too when it would go over the budget of moves. */
static bool do_cut(struct sc_shard_search *q, const struct cut *cut)
{
	const struct sc_choice *c = &q->model->choices.at[q->s->choice[cut->unit]];
	uint32_t n = cut->to == c->n ? c->n + 1 : c->n;
	int64_t *cols = sc_xrealloc(NULL, n, sizeof(*cols));
	uint32_t made;

	for (uint32_t i = 0; i < n; i++)
		cols[i] = i < c->n ? sc_choice_shard(c, i)->cols : 0;
	cols[cut->from] -= cut->cols;
	cols[cut->to] += cut->cols;
	sc_change_begin(q->s, &q->change, 0, cut->unit);
	if (cut->to == c->n)
		q->change.to[0].ranks[cut->to] = cut->rank;
	made = sc_shard_model_slices(q->model, cut->unit, q->s->choice[cut->unit], cols, n);
	free(cols);
	if (made == SC_UNPLACED)
		return false;
	q->change.to[0].choice = made;
	return sc_shard_search_try(q, HUGE_VAL);
}

static bool can_cut(const struct sc_shard_state *s, uint32_t unit)
{
	const struct sc_choice *c;

	if (!sc_shard_state_is_loose(s, unit) || s->model->units.at[unit].ruled)
		return false;
	c = &s->model->choices.at[s->choice[unit]];
	return c->type != SC_ROW_WISE && c->n < MOST_SLICES &&
	       sc_shard_model_may_split(s->model, unit, c->tier);
}

bool sc_shard_cut_step(struct sc_shard_search *q, uint32_t rank)
{
	struct sc_shard_state *s = q->s;
	struct cut best = {.max = s->load[rank] * (1.0 - SC_SHARD_TINY)};
	double limit = best.max;

	if (!q->model->problem->column_cost)
		return false;
	for (uint32_t u = 0; u < q->model->units.n; u++) {
		const int32_t *ranks = &s->ranks[q->model->units.at[u].first_rank];

		if (!can_cut(s, u))
			continue;
		for (uint32_t i = 0; i < q->model->choices.at[s->choice[u]].n; i++) {
			if (ranks[i] == (int32_t)rank)
				try_cuts(q, u, i, &best);
		}
	}
	return best.max < limit && do_cut(q, &best);
}
