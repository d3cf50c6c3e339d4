/* Better and better placements: insertion at a potential that grows sharper, then descent, then
 * removing a few units and putting them back; from several starts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "study/shard/shard_solve_priv.h"

/* Replanning: what a change may cost. NULL members: anything may move. */
struct move_budget {
	const struct sc_shard_state *home; /* the current plan, or NULL */
	const double *unit_bytes;          /* of weights */
	double max_bytes;                  /* < 0: any */
	int64_t max_tables;                /* < 0: any */
};

struct search {
	struct sc_shard_model *model;
	struct sc_shard_state *s;    /* at work */
	struct sc_shard_state *best; /* complete and within memory, once `found` */
	struct sc_shard_state *spare;
	struct move_budget budget;
	struct sc_change change; /* scratch of steps */
	struct sc_rng rng;
	double bound;
	uint32_t *only;                /* of each unit: for state->only */
	double best_cost, goal;        /* goal: a cost that ends the search */
	double deadline_s;             /* of the monotonic clock; 0 = none */
	bool is_endless;               /* to the deadline; else to max_work, or that */
	struct sc_search_watch *watch; /* may be NULL */
	const char *without;
	uint64_t max_work;
	uint32_t *order; /* units, dearest first */
	int32_t *was;    /* ranks of a unit before a change, at its place in state->ranks */
	bool found;
};
/* Is it made of that part, too (sc_solve_parts)? */
static bool has_part(const struct search *q, const char *part)
{
	return !q->without || strcmp(q->without, part) != 0;
}

/* Descent at the busiest rank, by steps that each lower it: two shards change places, columns of a slice go to
 * another slice or to a new one, a unit is put elsewhere or sharded in another way. Units are moved last: of many
 * moves the first that helps is taken, so that they wear out what a swap or a cut would have gained. */

enum { MOST_SLICES = 64 };
#define TINY 1e-9 /* less than this share of its load is no gain */
static const double SHARPEST = 400.0;

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

/* Are all units placed? */
static bool is_complete(const struct sc_shard_state *s)
{
	uint32_t some;

	return count_unplaced(s, &some) == 0;
}

static const struct sc_choice *choice_of(const struct sc_shard_state *s, uint32_t unit)
{
	return &s->model->choices.at[s->choice[unit]];
}

static bool is_over(const struct search *q)
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

static bool move_budget_allows(const struct move_budget *b, const struct sc_shard_state *s)
{
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
			     choice_of(s, u)->type == SC_DATA_PARALLEL;
		bytes += b->unit_bytes[u] * (replicated ? s->model->world - 1.0 : 1.0);
		tables += s->model->units.at[u].n_tables;
	}
	return (b->max_bytes < 0.0 || bytes <= b->max_bytes) &&
	       (b->max_tables < 0 || tables <= b->max_tables);
}

/* Does search->change; undoes it where memory or the budget of moves does not allow it. */
static bool try_change(struct search *q)
{
	struct sc_shard_state *s = q->s;
	bool fits = true;

	sc_shard_state_change(s, &q->change);
	for (uint32_t i = 0; i < q->change.n; i++) {
		uint32_t unit = q->change.to[i].unit;
		const struct sc_choice *c = choice_of(s, unit);

		for (uint32_t k = 0; k < c->n && fits; k++)
			fits = !sc_ledger_is_over(
				&s->used,
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
	return sc_ledger_fits(&s->used, &more, (uint32_t)rank);
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
			double max = fmax(s->used.cost[rank] - diff / m->speed[rank],
					  s->used.cost[other] + diff / m->speed[other]);

			if (other != rank && max < best->max &&
			    fits_for(s, sb, sa, (int32_t)other) &&
			    fits_for(s, sa, sb, (int32_t)rank))
				*best = (struct swap){
					.a = a, .b = b, .ia = ia, .ib = i, .max = max};
		}
	}
}

static bool swap_step(struct search *q, uint32_t rank)
{
	struct sc_shard_state *s = q->s;
	struct swap best = {.max = s->used.cost[rank] * (1.0 - TINY)};
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
	cut.max = fmax(s->used.cost[own] + (less.cost - from->cost) / s->model->speed[own],
		       s->used.cost[rank] +
			       (more.cost - (to ? to->cost : 0.0)) / s->model->speed[rank]);
	if (cut.max < best->max && rank != own && fits_for(s, to, &more, rank) &&
	    fits_for(s, from, &less, own) && sc_shard_state_allows(s, cut.unit, c, rank))
		*best = cut;
}

static void try_cuts(struct search *q, uint32_t unit, uint32_t from, struct cut *best)
{
	struct sc_shard_state *s = q->s;
	const struct sc_choice *c = choice_of(s, unit);
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
	c = choice_of(s, unit);
	return c->type != SC_ROW_WISE && c->n < MOST_SLICES &&
	       sc_shard_model_may_split(s->model, unit, c->tier);
}

static bool do_cut(struct search *q, const struct cut *cut)
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

static bool cut_step(struct search *q, uint32_t rank)
{
	struct sc_shard_state *s = q->s;
	struct cut best = {.max = s->used.cost[rank] * (1.0 - TINY)};
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
static bool reinsert(struct search *q, uint32_t unit, bool gain)
{
	struct sc_shard_state *s = q->s;
	uint32_t first = q->model->units.at[unit].first_rank, old = s->choice[unit];
	int32_t *was = &q->was[first];
	double before = s->potential;

	memcpy(was, &s->ranks[first], sizeof(*was) * sc_unit_slots(q->model, unit));
	sc_shard_state_remove(s, unit);
	if (sc_shard_state_insert(s, unit)) {
		bool worse = gain && s->potential >= before * (1.0 - TINY);

		if (!worse && move_budget_allows(&q->budget, s))
			return true;
		sc_shard_state_remove(s, unit);
	}
	sc_shard_state_place(s, unit, old, was);
	return false;
}

static bool move_step(struct search *q, uint32_t rank)
{
	for (size_t i = 0; i < q->model->units.n; i++) {
		uint32_t unit = q->order[i];

		if (sc_shard_state_is_on(q->s, unit, (int32_t)rank) && reinsert(q, unit, true))
			return true;
	}
	return false;
}

static bool any_step(struct search *q, uint32_t rank)
{
	static const struct {
		const char *name;
		bool (*try)(struct search *, uint32_t rank);
	} steps[] = {{"swaps", swap_step}, {"cuts", cut_step}, {"moves", move_step}};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (has_part(q, steps[i].name) && steps[i].try(q, rank))
			return true;
	}
	return false;
}

static bool keep(struct search *q)
{
	double cost = sc_ledger_max(&q->s->used, NULL);

	if (q->found && cost >= q->best_cost * (1.0 - TINY))
		return false;
	if (!is_complete(q->s) || !move_budget_allows(&q->budget, q->s))
		return false;
	sc_shard_state_copy(q->best, q->s);
	q->best_cost = cost;
	q->found = true;
	return true;
}

static void improve(struct search *q)
{
	uint32_t rank;
	double cost = sc_ledger_max(&q->s->used, &rank);

	if (!is_complete(q->s) || cost <= 0.0)
		return;
	sc_shard_state_sharpen(q->s, SHARPEST, cost);
	while (!is_over(q) && any_step(q, rank)) {
		double now = sc_ledger_max(&q->s->used, &rank);

		if (now < cost * (1.0 - 1.0 / SHARPEST)) {
			cost = now;
			sc_shard_state_sharpen(q->s, SHARPEST, cost);
		}
	}
	keep(q);
}

enum { MORE_WORK = 400000, PASSES = 2, LARGE = 1000000, MOST_ROUNDS = 3000, STALE_ROUNDS = 60 };
static const double KAPPAS[] = {6.0, 12.0, 24.0, 48.0, 96.0, 192.0};
enum { N_KAPPAS = sizeof(KAPPAS) / sizeof(KAPPAS[0]) };
static const double TARGETS[] = {1.0001, 1.01, 1.04}; /* of the bound */
static const double NOISES[] = {0.0, 0.2, 1.0};

static void insert_all(struct search *q)
{
	for (size_t i = 0; i < q->model->units.n; i++) {
		uint32_t unit = q->order[i];

		if (q->s->choice[unit] == SC_UNPLACED)
			sc_shard_state_insert(q->s, unit);
	}
}

/* Puts every unit elsewhere, over and over, at a potential that grows sharper from that step on. */
static void settle(struct search *q, size_t step, int passes)
{
	struct sc_shard_state *s = q->s;
	bool large = q->model->units.n * q->model->world > LARGE;

	for (; step < N_KAPPAS; step += large ? 2 : 1) {
		for (int pass = 0; pass < (large ? 1 : passes); pass++) {
			sc_shard_state_sharpen(s, KAPPAS[step], sc_ledger_max(&s->used, NULL));
			for (size_t i = 0; i < q->model->units.n; i++)
				reinsert(q, q->order[i], false);
			keep(q);
		}
	}
}

static void construct(struct search *q)
{
	insert_all(q);
	if (is_complete(q->s))
		settle(q, 0, PASSES);
}

/* Room for units that have none: others, at random, step aside and are put back after. */
static void make_room(struct search *q)
{
	struct sc_shard_state *s = q->s;
	uint32_t unit = 0, n = count_unplaced(s, &unit);

	s->rng = &q->rng;
	s->noise = 2.0;
	for (int i = 0; n > 0 && i < MOST_ROUNDS && !is_over(q); i++) {
		uint32_t aside = 1 + (uint32_t)sc_rng_below(&q->rng, 4);

		sc_shard_state_copy(q->spare, s);
		for (uint32_t k = 0; k < aside; k++) {
			uint32_t u = (uint32_t)sc_rng_below(&q->rng, q->model->units.n);

			if (s->choice[u] != SC_UNPLACED)
				sc_shard_state_remove(s, u);
		}
		sc_shard_state_insert(s, unit);
		insert_all(q);
		if (count_unplaced(s, &unit) > n)
			sc_shard_state_copy(s, q->spare);
		n = count_unplaced(s, &unit);
	}
	s->noise = 0.0;
}

static void remove_some(struct search *q, uint32_t n)
{
	struct sc_shard_state *s = q->s;
	uint64_t n_units = q->model->units.n;
	uint32_t rank;

	sc_ledger_max(&s->used, &rank);
	for (uint32_t i = 0, tries = 0; i < n && tries < 20 * n; tries++) {
		uint32_t unit = (uint32_t)sc_rng_below(&q->rng, n_units);

		if (s->choice[unit] == SC_UNPLACED ||
		    (i == 0 && !sc_shard_state_is_on(s, unit, (int32_t)rank)))
			continue;
		sc_shard_state_remove(s, unit);
		i++;
	}
}

static void remove_host(struct search *q)
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

static bool put_back(struct search *q)
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
static void shake(struct search *q)
{
	struct sc_shard_state *s = q->s;
	uint64_t most = q->model->units.n - 1;

	sc_shard_state_sharpen(s, KAPPAS[sc_rng_below(&q->rng, N_KAPPAS)],
			       sc_ledger_max(&s->used, NULL));
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

static void wander(struct search *q, uint64_t until)
{
	struct sc_shard_state *s = q->s;
	struct sc_shard_state *now = q->spare;
	double cost = sc_ledger_max(&s->used, NULL);
	int stale = 0;

	while (has_part(q, "shakes") && !is_over(q) && s->work < until) {
		double next;

		sc_shard_state_copy(now, s);
		shake(q);
		improve(q);
		next = sc_ledger_max(&s->used, NULL);
		stale = next < cost * (1.0 - TINY) ? 0 : stale + 1;
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

/* From scratch, with so many hosts kept for blocks. */
static void start_with_sides(struct search *q, uint32_t block_hosts, uint64_t until)
{
	struct sc_shard_state *s = q->s;

	sc_shard_state_clear(s);
	s->block_hosts = block_hosts;
	sc_shard_state_sharpen(s, KAPPAS[0], q->best_cost);
	construct(q);
	if (is_complete(s)) {
		improve(q);
		wander(q, until);
	}
	s->block_hosts = SC_NO_SIDES;
}

/* From scratch, by the choices that the relaxation takes at a cost z, and only then by others: insertion at a
 * potential shies away from large shards even where splitting them is much more work. */
static void start_at_target(struct search *q, double z)
{
	struct sc_shard_state *s = q->s;
	bool large = q->model->units.n * q->model->world > LARGE;

	if (!large && q->max_work < s->work + MORE_WORK)
		q->max_work = s->work + MORE_WORK;
	if (is_over(q))
		return;
	sc_shard_model_choices(q->model, z, q->only);
	sc_shard_state_clear(s);
	s->only = q->only;
	sc_shard_state_sharpen(s, KAPPAS[2], z);
	insert_all(q);
	keep(q);
	if (!large && is_complete(s))
		settle(q, 3, 1);
	s->only = NULL;
	if (is_complete(s)) {
		improve(q);
		wander(q, s->work + q->max_work / 16);
	}
}

static void local_search(struct search *q)
{
	struct sc_shard_state *s = q->s;
	uint32_t n_hosts = q->model->n_hosts;
	uint32_t step = n_hosts > 8 ? n_hosts / 8 : 1;
	bool anew = !q->budget.home; /* starts from nothing are far from home */
	bool has_blocks = false;

	if (!q->found || q->model->units.n < 2 || q->model->world < 2)
		return;
	for (int i = 0; anew && q->bound > 0.0 && i < 3 && has_part(q, "targets"); i++)
		start_at_target(q, q->bound * TARGETS[i]);
	for (size_t i = 0; i < q->model->choices.n && !has_blocks; i++)
		has_blocks = q->model->choices.at[i].spread == SC_SPREAD_HOST;
	if (anew && n_hosts > 1 && has_blocks && has_part(q, "sides")) {
		uint64_t share = q->max_work / 8 / (n_hosts / step + 1);

		for (uint32_t h = 0; h <= n_hosts && !is_over(q); h += step)
			start_with_sides(q, h, s->work + share);
	}
	sc_shard_state_copy(s, q->best);
	wander(q, UINT64_MAX);
}

/* ---- all of it ---- */

/* Work of the quick answer, in candidates looked at, where construction leaves some. */
enum { QUICK_WORK = 9000000 };

static const double HOME_KAPPA = 50.0;

struct keyed {
	double key;
	uint32_t unit;
};

static int by_key(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;

	return 2 * SC_ORDER(y->key, x->key) + SC_ORDER(x->unit, y->unit);
}

/* Units, dearest first. */
static void sort_units(struct search *q)
{
	const struct sc_shard_model *m = q->model;
	struct keyed *keys = sc_xrealloc(NULL, m->units.n + 1, sizeof(*keys));

	for (uint32_t u = 0; u < m->units.n; u++) {
		double least = HUGE_VAL;

		for (uint32_t i = 0; i < m->units.at[u].n_choices; i++)
			least = fmin(least, m->choices.at[m->units.at[u].first_choice + i].total);
		keys[u] = (struct keyed){.key = least, .unit = u};
	}
	qsort(keys, m->units.n, sizeof(*keys), by_key);
	for (uint32_t u = 0; u < m->units.n; u++)
		q->order[u] = keys[u].unit;
	free(keys);
}

/* Tries sharpnesses until some plan fits the memory. */
static void first_plan(struct search *q, double scale)
{
	static const double FIRST_KAPPAS[] = {6.0, 1.0, 0.1};

	sort_units(q);
	for (int i = 0; i < 3 && !q->found; i++) {
		sc_shard_state_clear(q->s);
		sc_shard_state_sharpen(q->s, FIRST_KAPPAS[i], scale);
		construct(q);
	}
	if (!q->found) {
		make_room(q);
		construct(q);
	}
}

/* The plan at hand, mended, is the first; what moves from there is counted. */
static void go_home(struct search *q, const struct sc_solve_opts *opts, struct sc_shard_state *home,
		    struct sc_arena *scratch)
{
	const struct sc_shard_model *m = q->model;
	double *bytes = sc_arena_calloc(scratch, m->units.n + 1, sizeof(*bytes));

	for (uint32_t t = 0; t < m->problem->n_tables; t++)
		bytes[m->unit_of[t]] += sc_table_bytes(&m->problem->tables[t]);
	*home = sc_shard_state_make(m, false, scratch);
	sc_shard_state_adopt(home, q->model, opts->current);
	q->budget = (struct move_budget){.home = home,
					 .unit_bytes = bytes,
					 .max_bytes = opts->max_moved_bytes,
					 .max_tables = opts->max_moved_tables};
	sc_shard_state_copy(q->s, home);
	sc_shard_state_sharpen(q->s, HOME_KAPPA, fmax(sc_ledger_max(&q->s->used, NULL), q->bound));
	sort_units(q);
	sc_shard_state_mend(q->s);
	keep(q);
}

bool sc_shard_search_run(struct sc_shard_model *m, const struct sc_solve_opts *opts, double bound,
			 double start_s, struct sc_shard_plan *out)
{
	struct sc_shard_state states[3], home;
	struct search q = {.model = m,
			   .s = &states[0],
			   .best = &states[1],
			   .spare = &states[2],
			   .bound = bound,
			   .goal = bound * (1.0 + opts->stop_gap),
			   .max_work = QUICK_WORK,
			   .watch = opts->watch,
			   .without = opts->without,
			   .deadline_s = opts->seconds > 0.0 ? start_s + opts->seconds : 0.0,
			   .is_endless = opts->seconds > 0.0 && !opts->quick};
	struct sc_arena scratch;

	sc_arena_init(&scratch, 1 << 16);
	for (int i = 0; i < 3; i++)
		states[i] = sc_shard_state_make(m, false, &scratch);
	q.order = sc_arena_calloc(&scratch, m->units.n + 1, sizeof(*q.order));
	q.was = sc_arena_calloc(&scratch, m->n_ranks_room + 1, sizeof(*q.was));
	q.only = sc_arena_calloc(&scratch, m->units.n + 1, sizeof(*q.only));
	q.change = sc_change_make(m, &scratch);
	sc_rng_init(&q.rng, opts->seed);
	if (opts->current)
		go_home(&q, opts, &home, &scratch);
	else
		first_plan(&q, bound > 0.0 ? bound : 1.0);
	if (q.found) {
		sc_shard_state_copy(q.s, q.best);
		q.max_work = (uint64_t)fmax(QUICK_WORK, (double)q.s->work + QUICK_WORK / 4.0);
		improve(&q);
		local_search(&q);
		sc_shard_state_plan(q.best, out);
	}
	sc_arena_release(&scratch);
	return q.found;
}
