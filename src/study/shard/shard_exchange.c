/* Exchanges that lower the busiest rank: two shards change places, or two units take each other's place and
 * way to be sharded. */
#include <math.h>
#include <string.h>

#include "study/shard/shard_solve_priv.h"

enum { MOST_TRADERS = 200, MOST_TRADED_RANKS = 8 };

struct swap {
	uint32_t a, b;   /* units */
	uint32_t ia, ib; /* their shards */
	double max;      /* of the two ranks after */
};

/* Would the exchange keep memory and constraints? */
static bool swap_fits(struct sc_shard_state *s, const struct swap *w)
{
	const struct sc_shard_model *m = s->model;
	int32_t *ra = &s->ranks[m->units.at[w->a].first_rank + w->ia];
	int32_t *rb = &s->ranks[m->units.at[w->b].first_rank + w->ib];
	const struct sc_choice *ca = &m->choices.at[s->choice[w->a]];
	const struct sc_choice *cb = &m->choices.at[s->choice[w->b]];
	const struct sc_option_shard *sa = sc_choice_shard(ca, w->ia);
	const struct sc_option_shard *sb = sc_choice_shard(cb, w->ib);
	struct sc_option_shard more = {0};
	bool ruled = m->units.at[w->a].ruled || m->units.at[w->b].ruled;

	if (ruled)
		return false;
	more.hbm_bytes = sa->hbm_bytes - sb->hbm_bytes;
	more.host_bytes = sa->host_bytes - sb->host_bytes;
	more.ssd_bytes = sa->ssd_bytes - sb->ssd_bytes;
	if (!sc_shard_state_fits(s, &more, *rb))
		return false;
	more.hbm_bytes *= -1.0;
	more.host_bytes *= -1.0;
	more.ssd_bytes *= -1.0;
	return sc_shard_state_fits(s, &more, *ra);
}

static void best_partner(struct sc_shard_state *s, uint32_t rank, uint32_t a, uint32_t ia,
			 struct swap *best)
{
	const struct sc_shard_model *m = s->model;
	double cost = sc_choice_shard(&m->choices.at[s->choice[a]], ia)->cost;

	for (uint32_t b = 0; b < m->units.n; b++) {
		const struct sc_choice *c;
		const int32_t *ranks = &s->ranks[m->units.at[b].first_rank];

		if (b == a || !sc_shard_state_is_loose(s, b))
			continue;
		c = &m->choices.at[s->choice[b]];
		s->work += c->n;
		for (uint32_t i = 0; i < c->n; i++) {
			uint32_t other = (uint32_t)ranks[i];
			double diff = cost - sc_choice_shard(c, i)->cost;
			double there = s->load[other] + diff / m->speed[other];
			double here = s->load[rank] - diff / m->speed[rank];
			struct swap w = {
				.a = a, .b = b, .ia = ia, .ib = i, .max = fmax(here, there)};

			if (other != rank && w.max < best->max && swap_fits(s, &w))
				*best = w;
		}
	}
}

static bool do_swap(struct sc_shard_search *q, const struct swap *w)
{
	struct sc_change *change = &q->change;

	sc_change_begin(q->s, change, 0, w->a);
	sc_change_begin(q->s, change, 1, w->b);
	change->to[0].ranks[w->ia] = sc_unit_ranks(q->s, w->b)[w->ib];
	change->to[1].ranks[w->ib] = sc_unit_ranks(q->s, w->a)[w->ia];
	return sc_shard_search_try(q, HUGE_VAL);
}

bool sc_shard_swap_step(struct sc_shard_search *q, uint32_t rank)
{
	struct sc_shard_state *s = q->s;
	struct swap best = {.max = s->load[rank] * (1.0 - SC_SHARD_TINY)};
	double limit = best.max;

	for (uint32_t a = 0; a < q->model->units.n; a++) {
		const int32_t *ranks = &s->ranks[q->model->units.at[a].first_rank];

		if (!sc_shard_state_is_loose(s, a))
			continue;
		for (uint32_t i = 0; i < q->model->choices.at[s->choice[a]].n; i++) {
			if (ranks[i] == (int32_t)rank)
				best_partner(s, rank, a, i, &best);
		}
	}
	return best.max < limit && do_swap(q, &best);
}

/* The cheapest choice of a unit whose shards lie like those of `like`; SC_UNPLACED if it has none. */
static uint32_t choice_like(const struct sc_shard_model *m, uint32_t unit, uint32_t like)
{
	const struct sc_choice *l = &m->choices.at[like];
	const struct sc_unit *u = &m->units.at[unit];
	uint32_t found = SC_UNPLACED;

	for (uint32_t i = u->first_choice; i < u->first_choice + u->n_choices; i++) {
		const struct sc_choice *c = &m->choices.at[i];

		if (c->spread == l->spread && c->n == l->n &&
		    (found == SC_UNPLACED || c->total < m->choices.at[found].total))
			found = i;
	}
	return found;
}

/* What a choice at those ranks puts on a rank. */
static double load_on(const struct sc_shard_model *m, uint32_t choice, const int32_t *ranks,
		      int32_t rank)
{
	const struct sc_option_shard *shard =
		sc_choice_shard_on(m, &m->choices.at[choice], ranks, rank);

	return shard ? shard->cost / m->speed[rank] : 0.0;
}

struct trade {
	uint32_t a, b;   /* units */
	uint32_t ca, cb; /* their choices now */
	uint32_t na, nb; /* and then */
};

/* A look at three ranks tells most trades that cannot help. */
static bool may_help(const struct sc_shard_state *s, const struct trade *t, int32_t rank)
{
	const struct sc_shard_model *m = s->model;
	const int32_t *ra = &s->ranks[m->units.at[t->a].first_rank];
	const int32_t *rb = &s->ranks[m->units.at[t->b].first_rank];
	int32_t look[3] = {rank, rank, rank};
	uint32_t n = 1;

	if (m->choices.at[t->ca].spread == SC_SPREAD_FREE)
		look[n++] = ra[0];
	if (m->choices.at[t->cb].spread == SC_SPREAD_FREE)
		look[n++] = rb[0];
	for (uint32_t i = 0; i < n; i++) {
		double load = s->load[look[i]] - load_on(m, t->ca, ra, look[i]) -
			      load_on(m, t->cb, rb, look[i]) + load_on(m, t->na, rb, look[i]) +
			      load_on(m, t->nb, ra, look[i]);

		if (load >= s->load[rank] * (1.0 - SC_SHARD_TINY))
			return false;
	}
	return true;
}

/* Each takes the place of the other, and its way to be sharded. Kept if the potential falls. */
static bool trade(struct sc_shard_search *q, const struct trade *t)
{
	struct sc_change *change = &q->change;

	change->n = 2;
	change->to[0].unit = t->a;
	change->to[1].unit = t->b;
	change->to[0].choice = t->na;
	change->to[1].choice = t->nb;
	memcpy(change->to[0].ranks, sc_unit_ranks(q->s, t->b),
	       sizeof(int32_t) * sc_choice_n_ranks(&q->model->choices.at[t->cb]));
	memcpy(change->to[1].ranks, sc_unit_ranks(q->s, t->a),
	       sizeof(int32_t) * sc_choice_n_ranks(&q->model->choices.at[t->ca]));
	return sc_shard_search_try(q, q->s->potential * (1.0 - SC_SHARD_TINY));
}

static bool trade_with(struct sc_shard_search *q, struct trade *t, uint32_t rank)
{
	struct sc_shard_state *s = q->s;
	const struct sc_shard_model *m = q->model;

	t->cb = s->choice[t->b];
	if (m->units.at[t->b].ruled ||
	    sc_choice_n_ranks(&m->choices.at[t->cb]) > MOST_TRADED_RANKS ||
	    m->choices.at[t->cb].spread == m->choices.at[t->ca].spread)
		return false;
	s->work += 8;
	t->na = choice_like(m, t->a, t->cb);
	t->nb = choice_like(m, t->b, t->ca);
	return t->na != SC_UNPLACED && t->nb != SC_UNPLACED && may_help(s, t, (int32_t)rank) &&
	       trade(q, t);
}

bool sc_shard_trade_step(struct sc_shard_search *q, uint32_t rank)
{
	struct sc_shard_state *s = q->s;
	const struct sc_shard_model *m = q->model;
	struct trade t;

	if (m->units.n > MOST_TRADERS)
		return false;
	for (t.a = 0; t.a < m->units.n; t.a++) {
		t.ca = s->choice[t.a];
		if (m->units.at[t.a].ruled ||
		    sc_choice_n_ranks(&m->choices.at[t.ca]) > MOST_TRADED_RANKS ||
		    !sc_shard_state_is_on(s, t.a, (int32_t)rank))
			continue;
		for (t.b = 0; t.b < m->units.n; t.b++) {
			if (trade_with(q, &t, rank))
				return true;
		}
	}
	return false;
}
