/* Descent at the busiest rank by steps that each lower it: two shards change places, columns of a
 * slice go to another slice or to a new one, a unit is put elsewhere or sharded in another way.
 * Units are moved last: a move takes the first of many that helps, and so wears out what a swap or
 * a cut would have gained. */
#include <math.h>
#include <string.h>

#include "study/shard/shard_search_priv.h"

bool sc_shard_search_has(const struct sc_shard_search *q, const char *part)
{
	return !q->without || strcmp(q->without, part) != 0;
}

enum { MOST_SLICES = 64 };
static const double SHARPEST = 400.0;

bool sc_shard_search_is_over(const struct sc_shard_search *q)
{
	if (q->found && q->best_cost <= q->goal)
		return true;
	if (sc_search_is_stopped(q->watch))
		return true;
	if (q->deadline_s > 0.0 && sc_now_s() >= q->deadline_s)
		return true;
	return !q->is_endless && q->s->work >= q->max_work;
}

static bool same_place(const struct sc_shard_state *a, const struct sc_shard_state *b,
		       uint32_t unit)
{
	const struct sc_shard_model *m = a->model;
	uint32_t first = m->units.at[unit].first_rank;
	const struct sc_choice *c;
	uint32_t n;

	if (a->choice[unit] != b->choice[unit] || a->choice[unit] == SC_UNPLACED)
		return false;
	c = &m->choices.at[a->choice[unit]];
	n = sc_choice_n_ranks(c);
	return memcmp(&a->ranks[first], &b->ranks[first], sizeof(*a->ranks) * n) == 0;
}

bool sc_shard_search_allows(const struct sc_shard_search *q)
{
	const struct sc_move_budget *b = &q->budget;
	const struct sc_shard_state *s = q->s;
	double bytes = 0.0;
	int64_t tables = 0;
	bool replicated;

	if (!b->home)
		return true;
	for (uint32_t u = 0; u < s->model->units.n; u++) {
		if (same_place(s, b->home, u))
			continue;
		/* each replica may need all of the weights, slices share one copy */
		replicated = s->choice[u] != SC_UNPLACED && s->model->world > 1 &&
			     sc_unit_choice(s, u)->type == SC_DATA_PARALLEL;
		bytes += b->unit_bytes[u] * (replicated ? s->model->world - 1.0 : 1.0);
		tables += s->model->units.at[u].n_tables;
	}
	return (b->max_bytes < 0.0 || bytes <= b->max_bytes) &&
	       (b->max_tables < 0 || tables <= b->max_tables);
}

/* Makes search->change, and undoes it where memory or the budget of moves does not allow it. */
static bool try_change(struct sc_shard_search *q)
{
	struct sc_shard_state *s = q->s;
	bool fits = true;

	sc_shard_state_swap(s, &q->change);
	for (uint32_t i = 0; i < q->change.n; i++) {
		uint32_t unit = q->change.to[i].unit;
		const struct sc_choice *c = sc_unit_choice(s, unit);

		for (uint32_t k = 0; k < c->n && fits; k++)
			fits = !sc_ledger_is_over(
				&s->used,
				(uint32_t)sc_choice_rank(s->model, c, sc_unit_ranks(s, unit), k));
	}
	if (fits && sc_shard_search_allows(q))
		return true;
	sc_shard_state_swap(s, &q->change);
	return false;
}

/* The rank has room for `next` in place of `now` (NULL: beside what is there). */
static bool fits_for(const struct sc_shard_state *s, const struct sc_option_shard *now,
		     const struct sc_option_shard *next, int32_t rank)
{
	struct sc_option_shard more = *next;

	if (now) {
		more.hbm_bytes -= now->hbm_bytes;
		more.host_bytes -= now->host_bytes;
		more.ssd_bytes -= now->ssd_bytes;
	}
	return sc_ledger_fits(&s->used, &more, (uint32_t)rank);
}

/* ---- swaps ---- */

struct swap {
	uint32_t a, b;   /* units */
	uint32_t ia, ib; /* their shards */
	double max;      /* cost of the busier of the two ranks afterwards */
};

/* A shard that may change places, side by side with the others: a search for partners reads all of
 * them for each shard of the busiest rank. */
struct partner {
	double cost;
	uint32_t unit, shard, rank;
};
typedef SC_VEC(struct partner) partner_list;

static void list_partners(const struct sc_shard_state *s, partner_list *out)
{
	for (uint32_t u = 0; u < s->model->units.n; u++) {
		const struct sc_choice *c;

		if (!sc_shard_state_is_loose(s, u) || s->model->units.at[u].ruled)
			continue;
		c = sc_unit_choice(s, u);
		for (uint32_t i = 0; i < c->n; i++)
			SC_VEC_PUSH(out, ((struct partner){sc_choice_shard(c, i)->cost, u, i,
							   (uint32_t)sc_unit_ranks(s, u)[i]}));
	}
}

static void best_partner(struct sc_shard_state *s, const partner_list *all, const struct partner *a,
			 struct swap *best)
{
	const double *speed = s->model->speed, *cost = s->used.cost;
	const uint32_t rank = a->rank;
	const struct sc_choice *c = sc_unit_choice(s, a->unit);
	const struct sc_option_shard *sa = sc_choice_shard(c, a->shard), *sb;

	s->work += all->n - c->n;
	for (const struct partner *b = all->at; b < all->at + all->n; b++) {
		double diff = a->cost - b->cost, own = cost[rank] - diff / speed[rank], other;

		if (!(own < best->max) || b->rank == rank || b->unit == a->unit)
			continue;
		other = cost[b->rank] + diff / speed[b->rank];
		if (!(other < best->max))
			continue;
		sb = sc_choice_shard(sc_unit_choice(s, b->unit), b->shard);
		if (fits_for(s, sb, sa, (int32_t)b->rank) && fits_for(s, sa, sb, (int32_t)rank))
			*best = (struct swap){.a = a->unit,
					      .b = b->unit,
					      .ia = a->shard,
					      .ib = b->shard,
					      .max = fmax(own, other)};
	}
}

static bool swap_step(struct sc_shard_search *q, uint32_t rank)
{
	struct sc_shard_state *s = q->s;
	struct swap best = {.max = s->used.cost[rank] * (1.0 - SC_TINY_GAIN)};
	double limit = best.max;
	partner_list all = {0};

	list_partners(s, &all);
	for (size_t i = 0; i < all.n; i++)
		if (all.at[i].rank == rank)
			best_partner(s, &all, &all.at[i], &best);
	SC_VEC_RELEASE(&all);
	if (best.max >= limit)
		return false;
	sc_change_begin(s, &q->change, 0, best.a);
	sc_change_begin(s, &q->change, 1, best.b);
	q->change.to[0].ranks[best.ia] = sc_unit_ranks(s, best.b)[best.ib];
	q->change.to[1].ranks[best.ib] = sc_unit_ranks(s, best.a)[best.ia];
	return try_change(q);
}

/* ---- cuts ---- */

/* A cut gives some columns of one slice to another, or to a new one. */
struct cut {
	uint32_t unit, from, to; /* slices; to = n: a new one */
	int32_t rank;            /* of the new one */
	int64_t cols;
	double max;
};

static void try_cut(struct sc_shard_state *s, const struct sc_choice *c, struct cut cut,
		    struct cut *best)
{
	const struct sc_shard_problem *p = s->model->problem;
	const int32_t *ranks = sc_unit_ranks(s, cut.unit);
	uint32_t table = s->model->tables.at[s->model->units.at[cut.unit].first_table];
	const struct sc_option_shard *from = sc_choice_shard(c, cut.from);
	const struct sc_option_shard *to = cut.to < c->n ? sc_choice_shard(c, cut.to) : NULL;
	int32_t rank = to ? ranks[cut.to] : cut.rank, own = ranks[cut.from];
	struct sc_option_shard less, more;

	s->work += 16;
	if (!p->column_cost(p->column_ctx, table, c->tier, from->cols - cut.cols, &less) ||
	    !p->column_cost(p->column_ctx, table, c->tier, cut.cols + (to ? to->cols : 0), &more))
		return;
	cut.max = fmax(s->used.cost[own] + (less.cost - from->cost) / s->model->speed[own],
		       s->used.cost[rank] +
			       (more.cost - (to ? to->cost : 0.0)) / s->model->speed[rank]);
	if (cut.max < best->max && rank != own && fits_for(s, to, &more, rank) &&
	    fits_for(s, from, &less, own) && sc_shard_state_allows(s, cut.unit, c, rank))
		*best = cut;
}

static void try_cuts(struct sc_shard_search *q, uint32_t unit, uint32_t from, struct cut *best)
{
	struct sc_shard_state *s = q->s;
	const struct sc_choice *c = sc_unit_choice(s, unit);
	int64_t cols = sc_choice_shard(c, from)->cols, least = q->model->least_cols;
	uint32_t ends = c->n + (c->n < sc_unit_slots(q->model, unit) ? 1 : 0);
	struct cut cut = {.unit = unit, .from = from};

	for (uint32_t r = 1; r < s->model->world; r++)
		cut.rank = s->used.cost[r] < s->used.cost[cut.rank] ? (int32_t)r : cut.rank;
	for (cut.to = 0; cut.to < ends; cut.to++) {
		cut.cols = cut.to == c->n ? least : SC_WIDTH_STEP;
		for (; cut.to != from && cols - cut.cols >= least; cut.cols += SC_WIDTH_STEP)
			try_cut(s, c, cut, best);
	}
}

static bool can_cut(const struct sc_shard_state *s, uint32_t unit)
{
	const struct sc_choice *c;

	if (!sc_shard_state_is_loose(s, unit) || s->model->units.at[unit].ruled)
		return false;
	c = sc_unit_choice(s, unit);
	return c->type != SC_ROW_WISE && c->n < MOST_SLICES &&
	       sc_shard_model_may_split(s->model, unit, c->tier);
}

static bool do_cut(struct sc_shard_search *q, const struct cut *cut)
{
	const struct sc_choice *c = sc_unit_choice(q->s, cut->unit);
	uint32_t n = cut->to == c->n ? c->n + 1 : c->n;
	int64_t cols[MOST_SLICES];

	for (uint32_t i = 0; i < n; i++)
		cols[i] = i < c->n ? sc_choice_shard(c, i)->cols : 0;
	cols[cut->from] -= cut->cols;
	cols[cut->to] += cut->cols;
	sc_change_begin(q->s, &q->change, 0, cut->unit);
	if (cut->to == c->n)
		q->change.to[0].ranks[cut->to] = cut->rank;
	q->change.to[0].choice =
		sc_shard_model_slices(q->model, cut->unit, q->s->choice[cut->unit], cols, n);
	return q->change.to[0].choice != SC_UNPLACED && try_change(q);
}

static bool cut_step(struct sc_shard_search *q, uint32_t rank)
{
	struct sc_shard_state *s = q->s;
	struct cut best = {.max = s->used.cost[rank] * (1.0 - SC_TINY_GAIN)};
	double limit = best.max;

	for (uint32_t u = 0; q->model->problem->column_cost && u < q->model->units.n; u++) {
		if (!can_cut(s, u))
			continue;
		for (uint32_t i = 0; i < sc_unit_choice(s, u)->n; i++)
			if (sc_unit_ranks(s, u)[i] == (int32_t)rank)
				try_cuts(q, u, i, &best);
	}
	return best.max < limit && do_cut(q, &best);
}

/* ---- moves ---- */

bool sc_shard_search_reinsert(struct sc_shard_search *q, uint32_t unit, bool gain)
{
	struct sc_shard_state *s = q->s;
	uint32_t first = q->model->units.at[unit].first_rank, old = s->choice[unit];
	int32_t *was = &q->was[first];
	double before = gain ? sc_potential_of(s) : 0.0;

	memcpy(was, &s->ranks[first], sizeof(*was) * sc_unit_slots(q->model, unit));
	sc_shard_state_remove(s, unit);
	if (sc_shard_state_insert(s, unit)) {
		bool worse = gain && sc_potential_of(s) >= before * (1.0 - SC_TINY_GAIN);

		if (!worse && sc_shard_search_allows(q))
			return true;
		sc_shard_state_remove(s, unit);
	}
	sc_shard_state_place(s, unit, old, was);
	return false;
}

static bool move_step(struct sc_shard_search *q, uint32_t rank)
{
	for (size_t i = 0; i < q->model->units.n; i++) {
		uint32_t unit = q->order[i];

		if (sc_shard_state_is_on(q->s, unit, (int32_t)rank) &&
		    sc_shard_search_reinsert(q, unit, true))
			return true;
	}
	return false;
}

static bool any_step(struct sc_shard_search *q, uint32_t rank)
{
	static const struct {
		const char *name;
		bool (*try)(struct sc_shard_search *, uint32_t rank);
	} steps[] = {{"swaps", swap_step}, {"cuts", cut_step}, {"moves", move_step}};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (sc_shard_search_has(q, steps[i].name) && steps[i].try(q, rank))
			return true;
	return false;
}

bool sc_shard_search_keep(struct sc_shard_search *q)
{
	double cost = sc_ledger_max(&q->s->used, NULL);

	if (q->found && cost >= q->best_cost * (1.0 - SC_TINY_GAIN))
		return false;
	if (!sc_shard_state_is_complete(q->s) || !sc_shard_search_allows(q))
		return false;
	sc_shard_state_copy(q->best, q->s);
	q->best_cost = cost;
	q->found = true;
	return true;
}

void sc_shard_search_improve(struct sc_shard_search *q)
{
	uint32_t rank;
	double cost = sc_ledger_max(&q->s->used, &rank);

	if (!sc_shard_state_is_complete(q->s) || cost <= 0.0 || sc_search_is_ended(q->watch))
		return;
	sc_shard_state_sharpen(q->s, SHARPEST, cost);
	while (!sc_shard_search_is_over(q) && any_step(q, rank)) {
		double now = sc_ledger_max(&q->s->used, &rank);

		if (now < cost * (1.0 - 1.0 / SHARPEST)) {
			cost = now;
			sc_shard_state_sharpen(q->s, SHARPEST, cost);
		}
	}
	sc_shard_search_keep(q);
}
