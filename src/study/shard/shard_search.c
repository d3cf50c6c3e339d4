/* The search for better placements: insertion at a potential that grows sharper, then descent, then
 * removing a few units and putting them back; it begins from several starts. */
#include <math.h>
#include <stdlib.h>

#include "base/search.h"
#include "study/shard/shard_search_priv.h"

enum { MORE_WORK = 400000, PASSES = 2, LARGE = 1000000, MOST_ROUNDS = 3000, STALE_ROUNDS = 60 };
static const double KAPPAS[] = {6.0, 12.0, 24.0, 48.0, 96.0, 192.0};
enum { N_KAPPAS = sizeof(KAPPAS) / sizeof(KAPPAS[0]) };
static const double TARGETS[] = {1.0001, 1.01, 1.04}; /* times the bound */
enum { N_TARGETS = sizeof(TARGETS) / sizeof(TARGETS[0]) };
static const double NOISES[] = {0.0, 0.2, 1.0};

static void insert_all(struct sc_shard_search *q)
{
	for (size_t i = 0; i < q->model->units.n; i++) {
		uint32_t unit = q->order[i];

		if (i >= SC_UNITS_AT_ONCE && sc_search_is_ended(q->watch))
			return;
		if (q->s->choice[unit] == SC_UNPLACED)
			sc_shard_state_insert(q->s, unit);
	}
}

/* Puts every unit elsewhere, over and over, at a potential that grows sharper from that step on. */
static void settle(struct sc_shard_search *q, size_t step, int passes)
{
	struct sc_shard_state *s = q->s;
	bool large = q->model->units.n * q->model->world > LARGE;

	for (; step < N_KAPPAS; step += large ? 2 : 1) {
		for (int pass = 0; pass < (large ? 1 : passes); pass++) {
			sc_shard_state_sharpen(s, KAPPAS[step], sc_ledger_max(&s->used, NULL));
			for (size_t i = 0; i < q->model->units.n; i++) {
				if (sc_search_is_ended(q->watch))
					break;
				sc_shard_search_reinsert(q, q->order[i], false);
			}
			sc_shard_search_keep(q);
			if (sc_search_is_ended(q->watch))
				return;
		}
	}
}

static void construct(struct sc_shard_search *q)
{
	insert_all(q);
	if (sc_shard_state_is_complete(q->s))
		settle(q, 0, PASSES);
}

/* Makes room for units that have none: others, at random, step aside and are put back after. */
static void make_room(struct sc_shard_search *q)
{
	struct sc_shard_state *s = q->s;
	uint32_t unit = 0, n = sc_shard_state_unplaced(s, &unit);

	s->rng = &q->rng;
	s->noise = 2.0;
	for (int i = 0; n > 0 && i < MOST_ROUNDS && !sc_shard_search_is_over(q); i++) {
		uint32_t aside = 1 + (uint32_t)sc_rng_below(&q->rng, 4);

		sc_shard_state_copy(q->spare, s);
		for (uint32_t k = 0; k < aside; k++) {
			uint32_t u = (uint32_t)sc_rng_below(&q->rng, q->model->units.n);

			if (s->choice[u] != SC_UNPLACED)
				sc_shard_state_remove(s, u);
		}
		sc_shard_state_insert(s, unit);
		insert_all(q);
		if (sc_shard_state_unplaced(s, &unit) > n)
			sc_shard_state_copy(s, q->spare);
		n = sc_shard_state_unplaced(s, &unit);
	}
	s->noise = 0.0;
}

static void remove_some(struct sc_shard_search *q, uint32_t n)
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

static void wander(struct sc_shard_search *q, uint64_t until)
{
	struct sc_shard_state *s = q->s;
	struct sc_shard_state *now = q->spare;
	double cost = sc_ledger_max(&s->used, NULL);
	int stale = 0;

	while (sc_shard_search_has(q, "shakes") && !sc_shard_search_is_over(q) && s->work < until) {
		double next;

		sc_shard_state_copy(now, s);
		shake(q);
		sc_shard_search_improve(q);
		next = sc_ledger_max(&s->used, NULL);
		stale = next < cost * (1.0 - SC_TINY_GAIN) ? 0 : stale + 1;
		if (next <= cost * (1.0 + 1e-3) && sc_shard_search_allows(q))
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

/* Starts from scratch, with so many hosts kept for blocks. */
static void start_with_sides(struct sc_shard_search *q, uint32_t block_hosts, uint64_t until)
{
	struct sc_shard_state *s = q->s;

	sc_shard_state_clear(s);
	s->block_hosts = block_hosts;
	sc_shard_state_sharpen(s, KAPPAS[0], q->best_cost);
	construct(q);
	if (sc_shard_state_is_complete(s)) {
		sc_shard_search_improve(q);
		wander(q, until);
	}
	s->block_hosts = SC_NO_SIDES;
}

/* Starts from scratch, by the choices that the relaxation takes at a cost z, and only then by
 * others: insertion at a potential shies away from large shards even where splitting them is much
 * more work. */
static void start_at_target(struct sc_shard_search *q, double z, const uint32_t *only)
{
	struct sc_shard_state *s = q->s;
	bool large = q->model->units.n * q->model->world > LARGE;

	if (!large && q->max_work < s->work + MORE_WORK)
		q->max_work = s->work + MORE_WORK;
	if (sc_shard_search_is_over(q))
		return;
	sc_shard_state_clear(s);
	s->only = only;
	sc_shard_state_sharpen(s, KAPPAS[2], z);
	insert_all(q);
	sc_shard_search_keep(q);
	if (!large && sc_shard_state_is_complete(s))
		settle(q, 3, 1);
	s->only = NULL;
	if (sc_shard_state_is_complete(s)) {
		sc_shard_search_improve(q);
		wander(q, s->work + q->max_work / 16);
	}
}

static void start_at_targets(struct sc_shard_search *q)
{
	double z[N_TARGETS];

	if (q->best_cost <= q->goal || sc_search_is_ended(q->watch))
		return;
	for (int i = 0; i < N_TARGETS; i++)
		z[i] = q->bound * TARGETS[i];
	sc_shard_model_choices(q->model, z, N_TARGETS, q->only);
	for (int i = 0; i < N_TARGETS; i++)
		start_at_target(q, z[i], q->only + (size_t)i * q->model->units.n);
}

static void local_search(struct sc_shard_search *q)
{
	struct sc_shard_state *s = q->s;
	uint32_t n_hosts = q->model->n_hosts;
	uint32_t step = n_hosts > 8 ? n_hosts / 8 : 1;
	bool anew = !q->budget.home; /* starts from nothing are far from home */
	bool has_blocks = false;

	if (!q->found || q->model->units.n < 2 || q->model->world < 2)
		return;
	if (anew && q->bound > 0.0 && sc_shard_search_has(q, "targets"))
		start_at_targets(q);
	for (size_t i = 0; i < q->model->choices.n && !has_blocks; i++)
		has_blocks = q->model->choices.at[i].spread == SC_SPREAD_HOST;
	if (anew && n_hosts > 1 && has_blocks && sc_shard_search_has(q, "sides")) {
		uint64_t share = q->max_work / 8 / (n_hosts / step + 1);

		for (uint32_t h = 0; h <= n_hosts && !sc_shard_search_is_over(q); h += step)
			start_with_sides(q, h, s->work + share);
	}
	sc_shard_state_copy(s, q->best);
	wander(q, UINT64_MAX);
}

/* ---- all of it ---- */

/* The work of the quick answer, in candidates looked at, where construction leaves some. */
enum { QUICK_WORK = 9000000 };

static const double HOME_KAPPA = 50.0;

struct keyed {
	double key;
	uint32_t unit;
};

SC_COMPARE(by_key, struct keyed, 2 * SC_ORDER(b->key, a->key) + SC_ORDER(a->unit, b->unit));

/* Sorts units, dearest first. */
static void sort_units(struct sc_shard_search *q)
{
	const struct sc_shard_model *m = q->model;
	struct keyed *keys = sc_xrealloc(NULL, m->units.n + 1, sizeof(*keys));

	for (uint32_t u = 0; u < m->units.n; u++) {
		double least = HUGE_VAL;

		for (uint32_t i = 0; i < m->units.at[u].n_choices; i++)
			least = fmin(least, m->choices.at[m->units.at[u].first_choice + i].total);
		keys[u] = (struct keyed){.key = least, .unit = u};
	}
	SC_SORT(keys, m->units.n, by_key);
	for (uint32_t u = 0; u < m->units.n; u++)
		q->order[u] = keys[u].unit;
	free(keys);
}

/* Tries sharpnesses until some plan fits the memory. */
static void first_plan(struct sc_shard_search *q, double scale)
{
	static const double FIRST_KAPPAS[] = {6.0, 1.0, 0.1};

	sort_units(q);
	for (int i = 0; i < 3 && !q->found && !(i && sc_search_is_ended(q->watch)); i++) {
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
static void go_home(struct sc_shard_search *q, const struct sc_solve_opts *opts,
		    struct sc_shard_state *home, struct sc_arena *scratch)
{
	const struct sc_shard_model *m = q->model;
	double *bytes = sc_arena_calloc(scratch, m->units.n + 1, sizeof(*bytes));

	for (uint32_t t = 0; t < m->problem->n_tables; t++)
		bytes[m->unit_of[t]] += sc_table_bytes(&m->problem->tables[t]);
	*home = sc_shard_state_make(m, false, scratch);
	sc_shard_state_adopt(home, q->model, opts->current);
	q->budget = (struct sc_move_budget){.home = home,
					    .unit_bytes = bytes,
					    .max_bytes = opts->max_moved_bytes,
					    .max_tables = opts->max_moved_tables};
	sc_shard_state_copy(q->s, home);
	sc_shard_state_sharpen(q->s, HOME_KAPPA, fmax(sc_ledger_max(&q->s->used, NULL), q->bound));
	sort_units(q);
	sc_shard_state_mend(q->s);
	sc_shard_search_keep(q);
}

bool sc_shard_search_run(struct sc_shard_model *m, const struct sc_solve_opts *opts, double bound,
			 double start_s, struct sc_shard_plan *out)
{
	struct sc_shard_state states[3], home;
	struct sc_shard_search q = {.model = m,
				    .s = &states[0],
				    .best = &states[1],
				    .spare = &states[2],
				    .bound = bound,
				    .goal = bound * (1.0 + opts->stop_gap),
				    .max_work = QUICK_WORK,
				    .watch = opts->watch,
				    .without = opts->without,
				    .deadline_s =
					    opts->seconds > 0.0 ? start_s + opts->seconds : 0.0,
				    .is_endless = opts->seconds > 0.0 && !opts->quick};
	struct sc_arena scratch;

	sc_arena_init(&scratch, 1 << 16);
	for (int i = 0; i < 3; i++)
		states[i] = sc_shard_state_make(m, false, &scratch);
	q.order = sc_arena_calloc(&scratch, m->units.n + 1, sizeof(*q.order));
	q.was = sc_arena_calloc(&scratch, m->n_ranks_room + 1, sizeof(*q.was));
	q.only = sc_arena_calloc(&scratch, N_TARGETS * m->units.n + 1, sizeof(*q.only));
	q.change = sc_change_make(m, &scratch);
	sc_rng_init(&q.rng, opts->seed);
	if (opts->current)
		go_home(&q, opts, &home, &scratch);
	else
		first_plan(&q, bound > 0.0 ? bound : 1.0);
	if (q.found) {
		sc_shard_state_copy(q.s, q.best);
		q.max_work = (uint64_t)fmax(QUICK_WORK, (double)q.s->work + QUICK_WORK / 4.0);
		sc_shard_search_improve(&q);
		local_search(&q);
		sc_shard_state_plan(q.best, out);
	}
	sc_arena_release(&scratch);
	return q.found;
}
