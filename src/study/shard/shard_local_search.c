/* Better and better placements: insertion at a potential that grows sharper, then descent, then
 * removing a few units and putting them back; from several starts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/shard/shard_solve_priv.h"

/* Descent at the busiest rank, by steps that each lower it: two shards change places, columns of a slice go to
 * another slice or to a new one, a unit is put elsewhere or sharded in another way. Units are moved last: of many
 * moves the first that helps is taken, so that they wear out what a swap or a cut would have gained. */

enum { MOST_SLICES = 64 };
static const double SHARPEST = 400.0;

/* Are all units placed? */
static bool shard_state_is_complete(const struct sc_shard_state *s)
{
	for (uint32_t u = 0; u < s->model->units.n; u++) {
		if (s->choice[u] == SC_UNPLACED)
			return false;
	}
	return true;
}

static const struct sc_choice *choice_of(const struct sc_shard_state *s, uint32_t unit)
{
	return &s->model->choices.at[s->choice[unit]];
}

static bool shard_search_over(const struct sc_shard_search *q)
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

/* Ranks that may need all of a unit's weights: each replica does, slices share one copy. */
static double n_copies(const struct sc_shard_state *s, uint32_t unit)
{
	bool is_replicated = s->choice[unit] != SC_UNPLACED &&
			     s->model->choices.at[s->choice[unit]].type == SC_DATA_PARALLEL;

	return is_replicated && s->model->world > 1 ? s->model->world - 1.0 : 1.0;
}

static bool move_budget_allows(const struct sc_move_budget *b, const struct sc_shard_state *s)
{
	double bytes = 0.0;
	int64_t tables = 0;

	if (!b->home)
		return true;
	for (uint32_t u = 0; u < s->model->units.n; u++) {
		if (same_place(s, b->home, u))
			continue;
		bytes += b->unit_bytes[u] * n_copies(s, u);
		tables += s->model->units.at[u].n_tables;
	}
	return (b->max_bytes < 0.0 || bytes <= b->max_bytes) &&
	       (b->max_tables < 0 || tables <= b->max_tables);
}

/* Does search->change; undoes it where memory or the budget of moves does not allow it. */
static bool try_change(struct sc_shard_search *q)
{
	struct sc_shard_state *s = q->s;
	bool fits = true;

	sc_shard_state_change(s, &q->change);
	for (uint32_t i = 0; i < q->change.n; i++) {
		uint32_t unit = q->change.to[i].unit;
		const struct sc_choice *c = choice_of(s, unit);

		for (uint32_t k = 0; k < c->n && fits; k++)
			fits = !sc_shard_state_is_over(
				s,
				(uint32_t)sc_choice_rank(s->model, c, sc_unit_ranks(s, unit), k));
	}
	if (fits && move_budget_allows(&q->budget, s))
		return true;
	sc_shard_state_change(s, &q->change);
	return false;
}

/* Is there room on the rank for a shard in place of another (NULL: beside what is there)? */
static bool fits_for(const struct sc_shard_state *s, const struct sc_option_shard *now,
		     const struct sc_option_shard *next, int32_t rank)
{
	struct sc_option_shard more = *next;

	if (now) {
		more.hbm_bytes -= now->hbm_bytes;
		more.host_bytes -= now->host_bytes;
		more.ssd_bytes -= now->ssd_bytes;
	}
	return sc_shard_state_fits(s, &more, rank);
}

/* ---- swaps ---- */

struct swap {
	uint32_t a, b;   /* units */
	uint32_t ia, ib; /* their shards */
	double max;      /* of the two ranks after */
};

static void best_partner(struct sc_shard_state *s, uint32_t rank, uint32_t a, uint32_t ia,
			 struct swap *best)
{
	const struct sc_shard_model *m = s->model;
	const struct sc_option_shard *sa = sc_choice_shard(choice_of(s, a), ia);

	for (uint32_t b = 0; b < m->units.n; b++) {
		const struct sc_choice *c;
		const int32_t *ranks = sc_unit_ranks(s, b);

		if (b == a || !sc_shard_state_is_loose(s, b) || m->units.at[b].ruled)
			continue;
		c = choice_of(s, b);
		s->work += c->n;
		for (uint32_t i = 0; i < c->n; i++) {
			const struct sc_option_shard *sb = sc_choice_shard(c, i);
			uint32_t other = (uint32_t)ranks[i];
			double diff = sa->cost - sb->cost;
			double max = fmax(s->load[rank] - diff / m->speed[rank],
					  s->load[other] + diff / m->speed[other]);

			if (other != rank && max < best->max &&
			    fits_for(s, sb, sa, (int32_t)other) &&
			    fits_for(s, sa, sb, (int32_t)rank))
				*best = (struct swap){
					.a = a, .b = b, .ia = ia, .ib = i, .max = max};
		}
	}
}

static bool swap_step(struct sc_shard_search *q, uint32_t rank)
{
	struct sc_shard_state *s = q->s;
	struct swap best = {.max = s->load[rank] * (1.0 - SC_SHARD_TINY)};
	double limit = best.max;

	for (uint32_t a = 0; a < q->model->units.n; a++) {
		if (!sc_shard_state_is_loose(s, a) || q->model->units.at[a].ruled)
			continue;
		for (uint32_t i = 0; i < choice_of(s, a)->n; i++) {
			if (sc_unit_ranks(s, a)[i] == (int32_t)rank)
				best_partner(s, rank, a, i, &best);
		}
	}
	if (best.max >= limit)
		return false;
	sc_change_begin(s, &q->change, 0, best.a);
	sc_change_begin(s, &q->change, 1, best.b);
	q->change.to[0].ranks[best.ia] = sc_unit_ranks(s, best.b)[best.ib];
	q->change.to[1].ranks[best.ib] = sc_unit_ranks(s, best.a)[best.ia];
	return try_change(q);
}

/* ---- cuts ---- */

/* Some columns of one slice given to another, or to a new one. */
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
	cut.max = fmax(s->load[own] + (less.cost - from->cost) / s->model->speed[own],
		       s->load[rank] + (more.cost - (to ? to->cost : 0.0)) / s->model->speed[rank]);
	if (cut.max < best->max && rank != own && fits_for(s, to, &more, rank) &&
	    fits_for(s, from, &less, own) && sc_shard_state_allows(s, cut.unit, c, rank))
		*best = cut;
}

static void try_cuts(struct sc_shard_search *q, uint32_t unit, uint32_t from, struct cut *best)
{
	struct sc_shard_state *s = q->s;
	const struct sc_choice *c = choice_of(s, unit);
	int64_t cols = sc_choice_shard(c, from)->cols, least = q->model->problem->min_cols;
	uint32_t ends = c->n + (c->n < sc_unit_slots(q->model, unit) ? 1 : 0);
	struct cut cut = {.unit = unit, .from = from};

	for (uint32_t r = 1; r < s->model->world; r++)
		cut.rank = s->load[r] < s->load[cut.rank] ? (int32_t)r : cut.rank;
	least = least > SC_WIDTH_STEP ? least : SC_WIDTH_STEP;
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
	c = choice_of(s, unit);
	return c->type != SC_ROW_WISE && c->n < MOST_SLICES &&
	       sc_shard_model_may_split(s->model, unit, c->tier);
}

static bool do_cut(struct sc_shard_search *q, const struct cut *cut)
{
	const struct sc_choice *c = choice_of(q->s, cut->unit);
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
	struct cut best = {.max = s->load[rank] * (1.0 - SC_SHARD_TINY)};
	double limit = best.max;

	for (uint32_t u = 0; q->model->problem->column_cost && u < q->model->units.n; u++) {
		if (!can_cut(s, u))
			continue;
		for (uint32_t i = 0; i < choice_of(s, u)->n; i++) {
			if (sc_unit_ranks(s, u)[i] == (int32_t)rank)
				try_cuts(q, u, i, &best);
		}
	}
	return best.max < limit && do_cut(q, &best);
}

/* ---- moves ---- */

/* Takes the unit out and puts it where it is best; false: it stayed. `gain`: only if the potential falls. */
static bool shard_reinsert(struct sc_shard_search *q, uint32_t unit, bool gain)
{
	struct sc_shard_state *s = q->s;
	uint32_t first = q->model->units.at[unit].first_rank, old = s->choice[unit];
	int32_t *was = &q->was[first];
	double before = s->potential;

	memcpy(was, &s->ranks[first], sizeof(*was) * sc_unit_slots(q->model, unit));
	sc_shard_state_remove(s, unit);
	if (sc_shard_state_insert(s, unit)) {
		bool worse = gain && s->potential >= before * (1.0 - SC_SHARD_TINY);

		if (!worse && move_budget_allows(&q->budget, s))
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
		    shard_reinsert(q, unit, true))
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

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (sc_shard_search_has(q, steps[i].name) && steps[i].try(q, rank))
			return true;
	}
	return false;
}

void sc_shard_improve(struct sc_shard_search *q)
{
	uint32_t rank;
	double cost = sc_shard_state_max(q->s, &rank);

	if (!shard_state_is_complete(q->s) || cost <= 0.0)
		return;
	sc_shard_state_sharpen(q->s, SHARPEST, cost);
	while (!shard_search_over(q) && any_step(q, rank)) {
		double now = sc_shard_state_max(q->s, &rank);

		if (now < cost * (1.0 - 1.0 / SHARPEST)) {
			cost = now;
			sc_shard_state_sharpen(q->s, SHARPEST, cost);
		}
	}
	sc_shard_search_keep(q);
}

enum { MORE_WORK = 400000, PASSES = 2, LARGE = 1000000, MOST_ROUNDS = 3000, STALE_ROUNDS = 60 };
static const double KAPPAS[] = {6.0, 12.0, 24.0, 48.0, 96.0, 192.0};
enum { N_KAPPAS = sizeof(KAPPAS) / sizeof(KAPPAS[0]) };
static const double TARGETS[] = {1.0001, 1.01, 1.04}; /* of the bound */
static const double NOISES[] = {0.0, 0.2, 1.0};

bool sc_shard_search_keep(struct sc_shard_search *q)
{
	double cost = sc_shard_state_max(q->s, NULL);

	if (q->found && cost >= q->best_cost * (1.0 - SC_SHARD_TINY))
		return false;
	if (!shard_state_is_complete(q->s) || !move_budget_allows(&q->budget, q->s))
		return false;
	sc_shard_state_copy(q->best, q->s);
	q->best_cost = cost;
	q->found = true;
	return true;
}

static void insert_all(struct sc_shard_search *q)
{
	for (size_t i = 0; i < q->model->units.n; i++) {
		uint32_t unit = q->order[i];

		if (q->s->choice[unit] == SC_UNPLACED)
			sc_shard_state_insert(q->s, unit);
	}
}

void sc_shard_construct(struct sc_shard_search *q)
{
	struct sc_shard_state *s = q->s;
	bool large = q->model->units.n * q->model->world > LARGE;

	insert_all(q);
	if (!shard_state_is_complete(s))
		return;
	for (size_t k = 0; k < N_KAPPAS; k += large ? 2 : 1) {
		for (int pass = 0; pass < (large ? 1 : PASSES); pass++) {
			sc_shard_state_sharpen(s, KAPPAS[k], sc_shard_state_max(s, NULL));
			for (size_t i = 0; i < q->model->units.n; i++)
				shard_reinsert(q, q->order[i], false);
			sc_shard_search_keep(q);
		}
	}
}

static uint32_t count_unplaced(const struct sc_shard_state *s, uint32_t *some)
{
	uint32_t n = 0;

	for (uint32_t u = 0; u < s->model->units.n; u++) {
		if (s->choice[u] == SC_UNPLACED) {
			*some = u;
			n++;
		}
	}
	return n;
}

/* Room for units that have none: others, at random, step aside and are put back after. */
void sc_shard_make_room(struct sc_shard_search *q)
{
	struct sc_shard_state *s = q->s;
	uint32_t unit = 0, n = count_unplaced(s, &unit);

	s->rng = &q->rng;
	s->noise = 2.0;
	for (int i = 0; n > 0 && i < MOST_ROUNDS && !shard_search_over(q); i++) {
		uint32_t aside = 1 + (uint32_t)sc_rng_below(&q->rng, 4), left;

		sc_shard_state_copy(q->spare, s);
		for (uint32_t k = 0; k < aside; k++) {
			uint32_t u = (uint32_t)sc_rng_below(&q->rng, q->model->units.n);

			if (s->choice[u] != SC_UNPLACED)
				sc_shard_state_remove(s, u);
		}
		sc_shard_state_insert(s, unit);
		insert_all(q);
		left = count_unplaced(s, &unit);
		if (left > n)
			sc_shard_state_copy(s, q->spare);
		else
			n = left;
		n = count_unplaced(s, &unit);
	}
	s->noise = 0.0;
}

static void remove_some(struct sc_shard_search *q, uint32_t n)
{
	struct sc_shard_state *s = q->s;
	uint64_t n_units = q->model->units.n;
	uint32_t rank;

	sc_shard_state_max(s, &rank);
	for (uint32_t i = 0, tries = 0; i < n && tries < 20 * n; tries++) {
		uint32_t unit = (uint32_t)sc_rng_below(&q->rng, n_units);

		if (s->choice[unit] == SC_UNPLACED ||
		    (i == 0 && !sc_shard_state_is_on(s, unit, (int32_t)rank)))
			continue;
		sc_shard_state_remove(s, unit);
		i++;
	}
}

static void remove_host(struct sc_shard_search *q)
{
	struct sc_shard_state *s = q->s;
	int32_t rank = (int32_t)sc_rng_below(&q->rng, q->model->world);

	for (uint32_t u = 0; u < q->model->units.n; u++) {
		uint32_t choice = s->choice[u];

		if (choice == SC_UNPLACED)
			continue;
		if (q->model->choices.at[choice].spread != SC_SPREAD_UNIFORM &&
		    sc_shard_state_is_on(s, u, rank))
			sc_shard_state_remove(s, u);
	}
}

static bool put_back(struct sc_shard_search *q)
{
	uint64_t n = q->model->units.n;
	bool by_size = sc_rng_below(&q->rng, 2) == 0;
	uint64_t at = by_size ? 0 : sc_rng_below(&q->rng, n);

	for (uint64_t i = 0; i < n; i++, at = at + 1 < n ? at + 1 : 0) {
		uint32_t unit = q->order[at];

		if (q->s->choice[unit] == SC_UNPLACED && !sc_shard_state_insert(q->s, unit))
			return false;
	}
	return true;
}

/* Takes some units out and puts them back with other prices. */
static void shake(struct sc_shard_search *q)
{
	struct sc_shard_state *s = q->s;
	uint64_t most = q->model->units.n - 1;

	sc_shard_state_sharpen(s, KAPPAS[sc_rng_below(&q->rng, N_KAPPAS)],
			       sc_shard_state_max(s, NULL));
	for (int i = 0; i < 4; i++)
		s->bias[i] = exp(0.4 * sc_rng_normal(&q->rng));
	s->noise = NOISES[sc_rng_below(&q->rng, 3)];
	s->rng = &q->rng;
	if (sc_rng_below(&q->rng, 8) == 0)
		remove_host(q);
	else
		remove_some(q, 2 + (uint32_t)sc_rng_below(&q->rng, most < 8 ? most : 8));
	if (!put_back(q))
		sc_shard_state_copy(s, q->best);
	for (int i = 0; i < 4; i++)
		s->bias[i] = 1.0;
	s->noise = 0.0;
	s->work += 4 * q->model->units.n + 4 * q->model->world;
}

static void wander(struct sc_shard_search *q, uint64_t until)
{
	struct sc_shard_state *s = q->s;
	struct sc_shard_state *now = q->spare;
	double cost = sc_shard_state_max(s, NULL);
	int stale = 0;

	while (sc_shard_search_has(q, "shakes") && !shard_search_over(q) && s->work < until) {
		double next;

		sc_shard_state_copy(now, s);
		shake(q);
		sc_shard_improve(q);
		next = sc_shard_state_max(s, NULL);
		stale = next < cost * (1.0 - SC_SHARD_TINY) ? 0 : stale + 1;
		if (next <= cost * (1.0 + 1e-3) && move_budget_allows(&q->budget, s))
			cost = next;
		else
			sc_shard_state_copy(s, now);
		if (stale > STALE_ROUNDS) {
			sc_shard_state_copy(s, q->best);
			cost = q->best_cost;
			stale = 0;
		}
	}
}

static bool has_blocks(const struct sc_shard_model *m)
{
	for (size_t i = 0; i < m->choices.n; i++) {
		if (m->choices.at[i].spread == SC_SPREAD_HOST)
			return true;
	}
	return false;
}

/* From scratch, with so many hosts kept for blocks. */
static void start_with_sides(struct sc_shard_search *q, uint32_t block_hosts, uint64_t until)
{
	struct sc_shard_state *s = q->s;

	sc_shard_state_clear(s);
	s->block_hosts = block_hosts;
	sc_shard_state_sharpen(s, KAPPAS[0], q->best_cost);
	sc_shard_construct(q);
	if (shard_state_is_complete(s)) {
		sc_shard_improve(q);
		wander(q, until);
	}
	s->block_hosts = SC_NO_SIDES;
}

/* From scratch, by the choices that the relaxation takes at a cost z, and only then by others: insertion at a
 * potential shies away from large shards even where splitting them is much more work. */
static void start_at_target(struct sc_shard_search *q, double z)
{
	struct sc_shard_state *s = q->s;
	bool large = q->model->units.n * q->model->world > LARGE;

	if (!large && q->max_work < s->work + MORE_WORK)
		q->max_work = s->work + MORE_WORK;
	if (shard_search_over(q))
		return;
	sc_shard_model_choices(q->model, z, q->only);
	sc_shard_state_clear(s);
	s->only = q->only;
	sc_shard_state_sharpen(s, KAPPAS[2], z);
	insert_all(q);
	sc_shard_search_keep(q);
	for (size_t k = 3; k < N_KAPPAS && !large && shard_state_is_complete(s); k++) {
		sc_shard_state_sharpen(s, KAPPAS[k], sc_shard_state_max(s, NULL));
		for (size_t i = 0; i < q->model->units.n; i++)
			shard_reinsert(q, q->order[i], false);
		sc_shard_search_keep(q);
	}
	s->only = NULL;
	if (shard_state_is_complete(s)) {
		sc_shard_improve(q);
		wander(q, s->work + q->max_work / 16);
	}
}

void sc_shard_local_search(struct sc_shard_search *q)
{
	struct sc_shard_state *s = q->s;
	uint32_t n_hosts = q->model->n_hosts;
	uint32_t step = n_hosts > 8 ? n_hosts / 8 : 1;
	bool anew = !q->budget.home; /* starts from nothing are far from home */

	if (!q->found || q->model->units.n < 2 || q->model->world < 2)
		return;
	for (int i = 0; anew && q->bound > 0.0 && i < 3 && sc_shard_search_has(q, "targets"); i++)
		start_at_target(q, q->bound * TARGETS[i]);
	if (anew && n_hosts > 1 && has_blocks(q->model) && sc_shard_search_has(q, "sides")) {
		uint64_t share = q->max_work / 8 / (n_hosts / step + 1);

		for (uint32_t h = 0; h <= n_hosts && !shard_search_over(q); h += step)
			start_with_sides(q, h, s->work + share);
	}
	sc_shard_state_copy(s, q->best);
	wander(q, UINT64_MAX);
}
