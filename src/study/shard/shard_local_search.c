/* Better and better placements: insertion at a potential that grows sharper, then descent (shard_descent.c), then
 * removing a few units and putting them back; from several starts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/shard/shard_solve_priv.h"

enum { MORE_WORK = 400000, PASSES = 2, LARGE = 1000000, MOST_ROUNDS = 3000, STALE_ROUNDS = 60 };
static const double KAPPAS[] = {6.0, 12.0, 24.0, 48.0, 96.0, 192.0};
enum { N_KAPPAS = sizeof(KAPPAS) / sizeof(KAPPAS[0]) };
static const double TARGETS[] = {1.0001, 1.01, 1.04}; /* of the bound */
static const double NOISES[] = {0.0, 0.2, 1.0};

bool sc_shard_search_over(const struct sc_shard_search *q)
{
	if (q->found && q->best_cost <= q->goal)
		return true;
	if (sc_search_is_stopped(q->watch))
		return true;
	if (q->deadline_s > 0.0 && sc_shard_now_s() >= q->deadline_s)
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
	if (!sc_shard_state_is_complete(q->s) || !sc_move_budget_allows(&q->budget, q->s))
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
	if (!sc_shard_state_is_complete(s))
		return;
	for (size_t k = 0; k < N_KAPPAS; k += large ? 2 : 1) {
		for (int pass = 0; pass < (large ? 1 : PASSES); pass++) {
			sc_shard_state_sharpen(s, KAPPAS[k], sc_shard_state_max(s, NULL));
			for (size_t i = 0; i < q->model->units.n; i++)
				sc_shard_reinsert(q, q->order[i], false);
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

	while (sc_shard_search_has(q, "shakes") && !sc_shard_search_over(q) && s->work < until) {
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
	if (sc_shard_state_is_complete(s)) {
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
	if (sc_shard_search_over(q))
		return;
	sc_shard_model_choices(q->model, z, q->only);
	sc_shard_state_clear(s);
	s->only = q->only;
	sc_shard_state_sharpen(s, KAPPAS[2], z);
	insert_all(q);
	sc_shard_search_keep(q);
	for (size_t k = 3; k < N_KAPPAS && !large && sc_shard_state_is_complete(s); k++) {
		sc_shard_state_sharpen(s, KAPPAS[k], sc_shard_state_max(s, NULL));
		for (size_t i = 0; i < q->model->units.n; i++)
			sc_shard_reinsert(q, q->order[i], false);
		sc_shard_search_keep(q);
	}
	s->only = NULL;
	if (sc_shard_state_is_complete(s)) {
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

		for (uint32_t h = 0; h <= n_hosts && !sc_shard_search_over(q); h += step)
			start_with_sides(q, h, s->work + share);
	}
	sc_shard_state_copy(s, q->best);
	wander(q, UINT64_MAX);
}
