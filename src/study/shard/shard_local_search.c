/* Better and better placements: insertion at a potential that grows sharper, then descent at the busiest
 * rank (move, other option, swap, uneven slices), then removing a few units and putting them back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/shard/shard_solve_priv.h"

enum { MORE_WORK = 600000, PASSES = 2, LARGE = 1000000, MOST_ROUNDS = 3000, STALE_ROUNDS = 60 };
static const double KAPPAS[] = {6.0, 12.0, 24.0, 48.0, 96.0, 192.0};
static const double TARGETS[] = {1.0001, 1.01, 1.04}; /* of the bound */
static const double NOISES[] = {0.0, 0.2, 1.0};
static const double SHARPEST = 400.0;

bool sc_shard_search_over(const struct sc_shard_search *q)
{
	if (q->found && q->best_cost <= q->goal)
		return true;
	if (sc_search_is_stopped(q->watch))
		return true;
	if (q->deadline_s > 0.0)
		return sc_shard_now_s() >= q->deadline_s;
	return q->s->work >= q->max_work;
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

bool sc_move_budget_allows(const struct sc_move_budget *b, const struct sc_shard_state *s)
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

bool sc_shard_search_keep(struct sc_shard_search *q)
{
	double cost = sc_shard_state_max(q->s, NULL);

	if (q->found && cost >= q->best_cost * (1.0 - SC_SHARD_TINY))
		return false;
	for (uint32_t u = 0; u < q->model->units.n; u++) {
		if (q->s->choice[u] == SC_UNPLACED)
			return false;
	}
	if (!sc_move_budget_allows(&q->budget, q->s))
		return false;
	sc_shard_state_copy(q->best, q->s);
	q->best_cost = cost;
	q->found = true;
	return true;
}

/* Of the ranks that the change is about. */
static bool fits(const struct sc_shard_state *s, const struct sc_change *change)
{
	const struct sc_shard_model *m = s->model;

	for (uint32_t i = 0; i < change->n; i++) {
		uint32_t unit = change->to[i].unit;
		const struct sc_choice *c = &m->choices.at[s->choice[unit]];

		for (uint32_t k = 0; k < c->n; k++) {
			int32_t rank = sc_choice_rank(m, c, sc_unit_ranks(s, unit), k);

			if (sc_shard_state_is_over(s, (uint32_t)rank))
				return false;
		}
	}
	return true;
}

bool sc_shard_search_try(struct sc_shard_search *q, double limit)
{
	struct sc_shard_state *s = q->s;

	sc_shard_state_change(s, &q->change);
	if (s->potential < limit && fits(s, &q->change) && sc_move_budget_allows(&q->budget, s))
		return true;
	sc_shard_state_change(s, &q->change);
	return false;
}

/* Takes the unit out and puts it where it is best; false: it stayed. `gain`: only if the potential
 * falls. */
static bool reinsert(struct sc_shard_search *q, uint32_t unit, bool gain)
{
	struct sc_shard_state *s = q->s;
	uint32_t first = q->model->units.at[unit].first_rank, old = s->choice[unit];
	uint32_t n = sc_unit_slots(q->model, unit);
	int32_t *was = &q->was[first];
	double before = s->potential;

	memcpy(was, &s->ranks[first], sizeof(*was) * n);
	sc_shard_state_remove(s, unit);
	if (sc_shard_state_insert(s, unit)) {
		bool worse = gain && s->potential >= before * (1.0 - SC_SHARD_TINY);

		if (!worse && sc_move_budget_allows(&q->budget, s))
			return true;
		sc_shard_state_remove(s, unit);
	}
	sc_shard_state_place(s, unit, old, was);
	return false;
}

static void insert_all(struct sc_shard_search *q)
{
	for (size_t i = 0; i < q->model->units.n; i++) {
		uint32_t unit = q->order[i];

		if (q->s->choice[unit] == SC_UNPLACED)
			sc_shard_state_insert(q->s, unit);
	}
}

static bool is_complete(const struct sc_shard_state *s)
{
	for (uint32_t u = 0; u < s->model->units.n; u++) {
		if (s->choice[u] == SC_UNPLACED)
			return false;
	}
	return true;
}

void sc_shard_construct(struct sc_shard_search *q)
{
	struct sc_shard_state *s = q->s;
	size_t n_kappas = sizeof(KAPPAS) / sizeof(KAPPAS[0]);
	bool large = q->model->units.n * q->model->world > LARGE;

	insert_all(q);
	if (!is_complete(s))
		return;
	for (size_t k = 0; k < n_kappas; k += large ? 2 : 1) {
		for (int pass = 0; pass < (large ? 1 : PASSES); pass++) {
			sc_shard_state_sharpen(s, KAPPAS[k], sc_shard_state_max(s, NULL));
			for (size_t i = 0; i < q->model->units.n; i++)
				reinsert(q, q->order[i], false);
			sc_shard_search_keep(q);
		}
	}
}

/* From scratch, by the choices that the relaxation takes at cost z. */
static void begin_with_target(struct sc_shard_search *q, double z, double scale)
{
	struct sc_shard_state *s = q->s;

	sc_shard_model_choices(q->model, z, q->only);
	sc_shard_state_clear(s);
	s->only = q->only;
	sc_shard_state_sharpen(s, KAPPAS[2], scale);
	insert_all(q);
}

static void place_target(struct sc_shard_search *q, double z)
{
	struct sc_shard_state *s = q->s;
	size_t n_kappas = sizeof(KAPPAS) / sizeof(KAPPAS[0]);

	begin_with_target(q, z, z);
	for (size_t k = 3; k < n_kappas && is_complete(s); k++) {
		sc_shard_state_sharpen(s, KAPPAS[k], sc_shard_state_max(s, NULL));
		for (size_t i = 0; i < q->model->units.n; i++)
			reinsert(q, q->order[i], false);
		sc_shard_search_keep(q);
	}
	s->only = NULL;
	if (q->max_work < s->work + MORE_WORK)
		q->max_work = s->work + MORE_WORK;
	sc_shard_improve(q);
}

void sc_shard_place_targets(struct sc_shard_search *q)
{
	if (q->model->units.n * q->model->world > LARGE)
		return;
	for (size_t i = 1; i < sizeof(TARGETS) / sizeof(TARGETS[0]); i++) {
		if (q->best_cost > q->goal)
			place_target(q, q->bound * TARGETS[i]);
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
	for (int i = 0; n > 0 && i < MOST_ROUNDS && !sc_shard_search_over(q); i++) {
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

static bool move_step(struct sc_shard_search *q, uint32_t rank)
{
	for (size_t i = 0; i < q->model->units.n; i++) {
		uint32_t unit = q->order[i];

		if (sc_shard_state_is_on(q->s, unit, (int32_t)rank) && reinsert(q, unit, true))
			return true;
	}
	return false;
}

void sc_shard_improve(struct sc_shard_search *q)
{
	uint32_t rank;
	double cost = sc_shard_state_max(q->s, &rank);

	if (!is_complete(q->s) || cost <= 0.0)
		return;
	sc_shard_state_sharpen(q->s, SHARPEST, cost);
	while (!sc_shard_search_over(q) &&
	       (move_step(q, rank) || sc_shard_swap_step(q, rank) || sc_shard_cut_step(q, rank) ||
		sc_shard_trade_step(q, rank))) {
		double now = sc_shard_state_max(q->s, &rank);

		if (now < cost * (1.0 - 1.0 / SHARPEST)) {
			cost = now;
			sc_shard_state_sharpen(q->s, SHARPEST, cost);
		}
	}
	sc_shard_search_keep(q);
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

	sc_shard_state_sharpen(s, KAPPAS[sc_rng_below(&q->rng, 6)], sc_shard_state_max(s, NULL));
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

	while (!sc_shard_search_over(q) && s->work < until) {
		double next;

		sc_shard_state_copy(now, s);
		shake(q);
		sc_shard_improve(q);
		next = sc_shard_state_max(s, NULL);
		stale = next < cost * (1.0 - SC_SHARD_TINY) ? 0 : stale + 1;
		if (next <= cost * (1.0 + 1e-3) && sc_move_budget_allows(&q->budget, s))
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
	if (is_complete(s)) {
		sc_shard_improve(q);
		wander(q, until);
	}
	s->block_hosts = SC_NO_SIDES;
}

static void start_with_target(struct sc_shard_search *q, double z, uint64_t until)
{
	begin_with_target(q, z, q->best_cost);
	q->s->only = NULL;
	if (is_complete(q->s)) {
		sc_shard_search_keep(q);
		sc_shard_improve(q);
		wander(q, until);
	}
}

void sc_shard_local_search(struct sc_shard_search *q)
{
	struct sc_shard_state *s = q->s;
	uint32_t n_hosts = q->model->n_hosts;
	uint32_t step = n_hosts > 8 ? n_hosts / 8 : 1;

	if (!q->found || q->model->units.n < 2 || q->model->world < 2)
		return;
	for (int i = 0; !q->budget.home && i < 3 && !sc_shard_search_over(q); i++)
		start_with_target(q, q->bound * TARGETS[i], s->work + q->max_work / 16);
	if (!q->budget.home && n_hosts > 1 && has_blocks(q->model)) {
		uint64_t share = q->max_work / 2 / (n_hosts / step + 1);

		for (uint32_t h = 0; h <= n_hosts && !sc_shard_search_over(q); h += step)
			start_with_sides(q, h, s->work + share);
	}
	sc_shard_state_copy(s, q->best);
	wander(q, UINT64_MAX);
}
