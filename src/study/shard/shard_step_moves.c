/* The moves that a descent by steps may try: how they are found, and how each changes the
 * placement. */
#include "study/shard/shard_solve_priv.h"

#include <math.h>

#include "base/search.h"

enum {
	MAX_TARGETS = 10,   /* ranks that a shard is tried on */
	MAX_HOT_UNITS = 24, /* of a busy rank */
	MAX_REPLICAS = 6,   /* units that are asked back from replication */
	N_RANDOM_UNITS = 4,
};

static int32_t rank_of(const struct sc_shard_state *s, uint32_t unit, uint32_t i)
{
	return sc_choice_rank(s->model, sc_unit_choice(s, unit), sc_unit_ranks(s, unit), i);
}

/* ---- making a move ---- */

/* The time of what the rank alone has, ms. */
static double phases_load(const struct sc_shard_state *s, uint32_t rank)
{
	const struct sc_phases *p = s->phases;
	double per_byte = p->rates->by_node ? p->rates->host_scatter : p->rates->a2a;

	return p->forward[rank] + p->backward[rank] + 2 * p->sent[rank] * per_byte;
}

/* The n idlest ranks in the order of their numbers. */
static void pick_idlest(const struct sc_shard_state *s, uint32_t n, int32_t *out)
{
	uint32_t world = s->model->world, n_picked = 0;

	while (n_picked < n) {
		uint32_t best = world, at;
		double least = INFINITY;

		for (uint32_t i = 0, k = 0; i < world; i++) {
			double load;

			if (k < n_picked && out[k] == (int32_t)i) {
				k++;
				continue;
			}
			load = phases_load(s, i);
			if (load < least) {
				best = i;
				least = load;
			}
		}
		for (at = n_picked++; at > 0 && out[at - 1] > (int32_t)best; at--)
			out[at] = out[at - 1];
		out[at] = (int32_t)best;
	}
}

void sc_step_move_do(struct sc_step_hunt *hunt, const struct sc_step_move *m)
{
	struct sc_shard_state *s = hunt->s;
	struct sc_change *change = &hunt->change;
	int32_t *ranks = change->to[0].ranks;
	uint32_t was;

	sc_change_begin(s, change, 0, m->unit);
	change->to[0].choice = m->choice;
	switch (m->kind) {
	case SC_MOVE_SHARD:
		ranks[m->shard] = m->rank;
		break;
	case SC_MOVE_SWAP:
		sc_change_begin(s, change, 1, m->other);
		ranks[m->shard] = rank_of(s, m->other, m->other_shard);
		change->to[1].ranks[m->other_shard] = rank_of(s, m->unit, m->shard);
		break;
	case SC_MOVE_PLACE:
		ranks[0] = m->rank;
		break;
	case SC_MOVE_SPREAD:
		was = s->choice[m->unit];
		sc_shard_state_remove(s, m->unit);
		pick_idlest(s, s->model->choices.at[m->choice].n, ranks);
		sc_shard_state_place(s, m->unit, was, sc_unit_ranks(s, m->unit));
		break;
	}
	sc_shard_state_swap(s, change);
}

/* ---- finding moves ---- */

static void offer(struct sc_step_hunt *h, struct sc_step_move move)
{
	sc_step_move_do(h, &move);
	if (!sc_ledger_has_over(&h->s->used)) {
		move.estimate = sc_phases_estimate(h->s, h->w);
		SC_VEC_PUSH(h->out, move);
	}
	sc_shard_state_swap(h->s, &h->change);
}

/* Each of the unit's shards may change ranks alone. Those of one host stay there together. */
static bool may_move(const struct sc_shard_state *s, uint32_t unit)
{
	const struct sc_choice *c = sc_unit_choice(s, unit);
	bool of_host = c->type == SC_TABLE_ROW_WISE || c->type == SC_TABLE_COLUMN_WISE;

	return c->spread == SC_SPREAD_FREE && !(of_host && s->model->n_hosts > 1);
}

static void offer_swaps(struct sc_step_hunt *h, uint32_t unit, uint32_t shard, int32_t rank)
{
	struct sc_shard_state *s = h->s;
	int32_t own = rank_of(s, unit, shard);

	for (uint32_t k = h->first_loose[rank]; k < h->first_loose[rank + 1]; k++) {
		const struct sc_loose_shard *with = &h->loose[k];
		bool is_first = k == h->first_loose[rank] || with[-1].unit != with->unit;

		if (with->unit != unit && is_first && !sc_shard_state_is_on(s, with->unit, own))
			offer(h, (struct sc_step_move){.kind = SC_MOVE_SWAP,
						       .unit = unit,
						       .other = with->unit,
						       .choice = s->choice[unit],
						       .shard = shard,
						       .other_shard = with->shard});
	}
}

static void offer_ranks(struct sc_step_hunt *h, uint32_t unit, uint32_t shard)
{
	for (uint32_t i = 0; i < h->s->model->world && i < MAX_TARGETS; i++) {
		int32_t rank = (int32_t)h->ranks[i];

		if (sc_shard_state_is_on(h->s, unit, rank))
			continue;
		offer(h, (struct sc_step_move){.kind = SC_MOVE_SHARD,
					       .unit = unit,
					       .choice = h->s->choice[unit],
					       .shard = shard,
					       .rank = rank});
		if (i < MAX_TARGETS / 2)
			offer_swaps(h, unit, shard, rank);
	}
}

/* Offers the places worth a trial of a table that is sharded so. */
static void offer_choice(struct sc_step_hunt *h, uint32_t unit, uint32_t choice)
{
	const struct sc_shard_model *m = h->s->model;
	const struct sc_choice *c = &m->choices.at[choice];
	struct sc_step_move move = {.kind = SC_MOVE_PLACE, .unit = unit, .choice = choice};
	bool same_type = c->type == sc_unit_choice(h->s, unit)->type;

	if (c->spread == SC_SPREAD_UNIFORM) {
		if (!same_type || c->type != SC_DATA_PARALLEL)
			offer(h, move);
	} else if (c->spread == SC_SPREAD_HOST) {
		for (move.rank = 0; (uint32_t)move.rank < m->world / m->per_host; move.rank++)
			offer(h, move);
	} else if (c->n == 1) {
		for (uint32_t i = 0; !same_type && i < m->world && i < MAX_TARGETS; i++) {
			move.rank = (int32_t)h->ranks[i];
			offer(h, move);
		}
	} else {
		move.kind = SC_MOVE_SPREAD;
		offer(h, move);
	}
}

/* Asks every way to place the unit anew, and to move its shards that lie on `rank` (-1: none). */
static void ask_unit(struct sc_step_hunt *h, uint32_t unit, int32_t rank)
{
	const struct sc_unit *u = &h->s->model->units.at[unit];

	if (h->frozen[unit])
		return;
	for (uint32_t i = 0; i < sc_unit_choice(h->s, unit)->n && may_move(h->s, unit); i++)
		if (rank_of(h->s, unit, i) == rank)
			offer_ranks(h, unit, i);
	if (h->seen[unit])
		return;
	h->seen[unit] = true;
	for (uint32_t c = u->first_choice; c < u->first_choice + u->n_choices; c++)
		if (h->s->model->choices.at[c].tier == SC_TIER_HBM)
			offer_choice(h, unit, c);
}

/* The unit's cost on a rank, or as a replica where `rank` is -1. */
static double cost_on(const struct sc_shard_state *s, uint32_t unit, int32_t rank)
{
	const struct sc_choice *c = sc_unit_choice(s, unit);
	const struct sc_option_shard *shard;

	if ((c->type == SC_DATA_PARALLEL) != (rank < 0))
		return 0;
	shard = rank < 0 ? c->shards
			 : sc_choice_shard_on(s->model, c, sc_unit_ranks(s, unit), rank);
	return shard ? shard->forward_ms + shard->backward_ms : 0;
}

/* Asks the dearest units of a rank, or of the replicas where `rank` is -1. */
static void ask_dearest(struct sc_step_hunt *h, int32_t rank, uint32_t n_most)
{
	struct {
		double ms;
		uint32_t unit;
	} dear[MAX_HOT_UNITS];
	uint32_t n = 0;

	for (uint32_t u = 0; u < h->s->model->units.n; u++) {
		double ms = cost_on(h->s, u, rank);
		uint32_t k;

		if (!(ms > (n == n_most ? dear[n - 1].ms : 0)))
			continue;
		for (k = n < n_most ? n++ : n - 1; k > 0 && dear[k - 1].ms < ms; k--)
			dear[k] = dear[k - 1];
		dear[k].ms = ms;
		dear[k].unit = u;
	}
	for (uint32_t i = 0; i < n; i++)
		ask_unit(h, dear[i].unit, rank);
}

static uint32_t most_of(const double *of_rank, uint32_t n)
{
	uint32_t at = 0;

	for (uint32_t r = 1; r < n; r++)
		if (of_rank[r] > of_rank[at])
			at = r;
	return at;
}

static void sort_ranks(struct sc_step_hunt *h)
{
	for (uint32_t r = 0; r < h->s->model->world; r++) {
		double load = phases_load(h->s, r);
		uint32_t k = r;

		for (; k > 0 && h->load[k - 1] > load; k--) {
			h->load[k] = h->load[k - 1];
			h->ranks[k] = h->ranks[k - 1];
		}
		h->load[k] = load;
		h->ranks[k] = r;
	}
}

static bool may_swap(const struct sc_step_hunt *h, uint32_t unit)
{
	return !h->frozen[unit] && may_move(h->s, unit);
}

/* Lists the shards that may change places: rank after rank, in the order of units. */
static void list_loose(struct sc_step_hunt *h)
{
	const struct sc_shard_state *s = h->s;
	uint32_t world = s->model->world, n_units = (uint32_t)s->model->units.n;
	uint32_t *next = sc_xcalloc(world + 2, sizeof(*next));

	h->first_loose = next;
	for (uint32_t u = 0; u < n_units; u++)
		for (uint32_t i = 0; may_swap(h, u) && i < sc_unit_choice(s, u)->n; i++)
			next[sc_unit_ranks(s, u)[i] + 2]++;
	for (uint32_t r = 1; r <= world; r++)
		next[r + 1] += next[r];
	h->loose = sc_xrealloc(NULL, next[world + 1] + 1, sizeof(*h->loose));
	next++; /* of rank r: where its next shard goes; in the end, where the next rank's begin */
	for (uint32_t u = 0; u < n_units; u++)
		for (uint32_t i = 0; may_swap(h, u) && i < sc_unit_choice(s, u)->n; i++)
			h->loose[next[sc_unit_ranks(s, u)[i]]++] = (struct sc_loose_shard){u, i};
}

SC_COMPARE(by_estimate, struct sc_step_move,
	   64 * SC_ORDER(a->estimate, b->estimate) + 32 * SC_ORDER(a->kind, b->kind) +
		   16 * SC_ORDER(a->unit, b->unit) + 8 * SC_ORDER(a->rank, b->rank) +
		   4 * SC_ORDER(a->choice, b->choice) + 2 * SC_ORDER(a->shard, b->shard) +
		   SC_ORDER(a->other, b->other));

void sc_step_moves_find(struct sc_step_hunt *h, const struct sc_phase_weights *w,
			sc_step_moves *out)
{
	const struct sc_phases *phases = h->s->phases;
	uint32_t world = h->s->model->world, n_units = (uint32_t)h->s->model->units.n;
	uint32_t hot[4];

	h->w = w;
	h->out = out;
	out->n = 0;
	h->ranks = sc_xrealloc(NULL, world, sizeof(*h->ranks));
	h->load = sc_xrealloc(NULL, world, sizeof(*h->load));
	h->seen = sc_xcalloc(n_units + 1, sizeof(*h->seen));
	sort_ranks(h);
	list_loose(h);
	hot[0] = h->ranks[world - 1];
	hot[1] = most_of(phases->forward, world);
	hot[2] = most_of(phases->backward, world);
	hot[3] = most_of(phases->sent, world);
	for (int i = 0; i < 4; i++) {
		bool known = false;

		for (int k = 0; k < i; k++)
			known = known || hot[k] == hot[i];
		if (!known)
			ask_dearest(h, (int32_t)hot[i], MAX_HOT_UNITS);
	}
	ask_dearest(h, -1, MAX_REPLICAS);
	for (int i = 0; i < N_RANDOM_UNITS; i++)
		ask_unit(h, (uint32_t)sc_rng_below(h->rng, n_units), -1);
	SC_SORT(out->at, out->n, by_estimate);
	free(h->ranks);
	free(h->load);
	free(h->seen);
	free(h->first_loose);
	free(h->loose);
}
