/* The state of a placement, whatever it is judged by: units' choices and ranks, the memory they
 * take, changes and their undoing. A change's effect on the cost is judged in one of two ways
 * (shard_potential.c, shard_phases.c). */
#include <string.h>

#include "study/shard/shard_solve_priv.h"

static size_t n_blocks(const struct sc_shard_model *m)
{
	return (m->world + SC_RANK_BLOCK - 1) / SC_RANK_BLOCK;
}

static size_t n_weights(const struct sc_shard_model *m)
{
	return 2 * (m->world + m->n_hosts + n_blocks(m));
}

struct sc_shard_state sc_shard_state_make(const struct sc_shard_model *m, bool by_phases,
					  struct sc_arena *arena)
{
	struct sc_shard_state s = {.model = m,
				   .used = {.n_ranks = m->world,
					    .per_pool = m->per_host,
					    .hbm_cap = m->hbm_cap,
					    .host_cap = m->problem->host_bytes,
					    .ssd_cap = m->problem->ssd_bytes},
				   .kappa = 8.0,
				   .scale = 1.0,
				   .block_hosts = SC_NO_SIDES,
				   .bias = {1.0, 1.0, 1.0, 1.0}};
	size_t room = 1;

	for (size_t i = 0; i < m->choices.n; i++)
		room = m->choices.at[i].n > room ? m->choices.at[i].n : room;
	sc_ledger_init(&s.used, arena);
	s.weight = sc_arena_calloc(arena, n_weights(m), sizeof(double));
	s.mem_weight = s.weight + m->world;
	s.host_weight = s.mem_weight + m->world;
	s.host_mem_weight = s.host_weight + m->n_hosts;
	s.block_least = s.host_mem_weight + m->n_hosts;
	s.block_mem_least = s.block_least + n_blocks(m);
	s.choice = sc_arena_alloc(arena, sizeof(*s.choice) * (m->units.n + 1));
	s.ranks = sc_arena_alloc(arena, sizeof(*s.ranks) * (m->n_ranks_room + 1));
	s.trial = sc_arena_alloc(arena, sizeof(*s.trial) * room);
	s.best = sc_arena_alloc(arena, sizeof(*s.best) * room);
	if (by_phases) {
		s.phases = sc_arena_calloc(arena, 1, sizeof(*s.phases));
		s.phases->rates = m->problem->rates;
		s.phases->forward =
			sc_arena_calloc(arena, 3 * (size_t)m->world + m->n_hosts, sizeof(double));
		s.phases->backward = s.phases->forward + m->world;
		s.phases->sent = s.phases->backward + m->world;
		s.phases->host_columns = s.phases->sent + m->world;
	}
	sc_shard_state_clear(&s);
	return s;
}

static void clear_sums(struct sc_shard_state *s)
{
	const struct sc_shard_model *m = s->model;

	sc_ledger_clear(&s->used);
	if (!s->phases)
		return;
	memset(s->phases->forward, 0, sizeof(double) * (3 * (size_t)m->world + m->n_hosts));
	s->phases->scatter_bytes = s->phases->replica_ms = s->phases->reduce_bytes = 0;
}

void sc_shard_state_clear(struct sc_shard_state *s)
{
	clear_sums(s);
	for (size_t u = 0; u < s->model->units.n; u++)
		s->choice[u] = SC_UNPLACED;
	sc_potential_weigh(s);
}

void sc_shard_state_copy(struct sc_shard_state *to, const struct sc_shard_state *from)
{
	const struct sc_shard_model *m = from->model;

	sc_ledger_copy(&to->used, &from->used, 0, m->world);
	memcpy(to->weight, from->weight, sizeof(double) * n_weights(m));
	memcpy(to->choice, from->choice, sizeof(*to->choice) * m->units.n);
	memcpy(to->ranks, from->ranks, sizeof(*to->ranks) * m->n_ranks_room);
	to->mem_potential = from->mem_potential;
	to->potential = from->potential;
	to->is_old = from->is_old;
	to->kappa = from->kappa;
	to->scale = from->scale;
}

void sc_shard_state_sum_anew(struct sc_shard_state *s)
{
	clear_sums(s);
	for (uint32_t u = 0; u < s->model->units.n; u++) {
		uint32_t choice = s->choice[u];

		if (choice != SC_UNPLACED)
			sc_shard_state_place(s, u, choice, sc_unit_ranks(s, u));
	}
}

static void add_choice(struct sc_shard_state *s, uint32_t unit, const struct sc_choice *c,
		       double sign)
{
	if (s->phases)
		sc_phases_add(s, unit, c, sign);
	else
		sc_potential_add(s, c, sc_unit_ranks(s, unit), sign);
}

void sc_shard_state_place(struct sc_shard_state *s, uint32_t unit, uint32_t choice,
			  const int32_t *ranks)
{
	const struct sc_choice *c = &s->model->choices.at[choice];
	int32_t *own = sc_unit_ranks(s, unit);

	if (own != ranks)
		memcpy(own, ranks, sizeof(*own) * sc_choice_n_ranks(c));
	s->choice[unit] = choice;
	add_choice(s, unit, c, 1.0);
}

void sc_shard_state_remove(struct sc_shard_state *s, uint32_t unit)
{
	add_choice(s, unit, &s->model->choices.at[s->choice[unit]], -1.0);
	s->choice[unit] = SC_UNPLACED;
}

struct sc_change sc_change_make(const struct sc_shard_model *m, struct sc_arena *arena)
{
	struct sc_change c = {.n = 0};
	uint32_t most = 0;

	for (uint32_t u = 0; u < m->units.n; u++)
		most = sc_unit_slots(m, u) > most ? sc_unit_slots(m, u) : most;
	for (int i = 0; i < 2; i++)
		c.to[i].ranks = sc_arena_alloc(arena, sizeof(*c.to[i].ranks) * (most + 1));
	return c;
}

void sc_change_begin(const struct sc_shard_state *s, struct sc_change *change, uint32_t i,
		     uint32_t unit)
{
	change->n = i + 1;
	change->to[i].unit = unit;
	change->to[i].choice = s->choice[unit];
	memcpy(change->to[i].ranks, sc_unit_ranks(s, unit),
	       sizeof(int32_t) * sc_unit_slots(s->model, unit));
}

void sc_shard_state_swap(struct sc_shard_state *s, struct sc_change *change)
{
	uint32_t next[2];

	for (uint32_t i = 0; i < change->n; i++) {
		uint32_t unit = change->to[i].unit, n = sc_unit_slots(s->model, unit);
		int32_t *own = sc_unit_ranks(s, unit), *ranks = change->to[i].ranks;

		next[i] = change->to[i].choice;
		change->to[i].choice = s->choice[unit];
		sc_shard_state_remove(s, unit);
		for (uint32_t k = 0; k < n; k++) {
			int32_t was = own[k];

			own[k] = ranks[k];
			ranks[k] = was;
		}
	}
	for (uint32_t i = 0; i < change->n; i++) {
		uint32_t unit = change->to[i].unit;

		sc_shard_state_place(s, unit, next[i], sc_unit_ranks(s, unit));
	}
}

const struct sc_option_shard *sc_choice_shard_on(const struct sc_shard_model *m,
						 const struct sc_choice *c, const int32_t *ranks,
						 int32_t rank)
{
	if (c->spread == SC_SPREAD_UNIFORM)
		return sc_choice_shard(c, (uint32_t)rank);
	if (c->spread == SC_SPREAD_HOST)
		return rank / (int32_t)m->per_host == ranks[0]
			       ? sc_choice_shard(c, (uint32_t)rank % m->per_host)
			       : NULL;
	for (uint32_t i = 0; i < c->n; i++)
		if (ranks[i] == rank)
			return sc_choice_shard(c, i);
	return NULL;
}

bool sc_shard_state_is_on(const struct sc_shard_state *s, uint32_t unit, int32_t rank)
{
	return s->choice[unit] != SC_UNPLACED &&
	       sc_choice_shard_on(s->model, &s->model->choices.at[s->choice[unit]],
				  sc_unit_ranks(s, unit), rank);
}

bool sc_shard_rules_allow(const struct sc_shard_state *s, uint32_t unit, const struct sc_choice *c,
			  int32_t rank)
{
	const struct sc_shard_problem *p = s->model->problem;

	for (size_t i = 0; i < p->n_constraints; i++) {
		const struct sc_shard_constraint *k = &p->constraints[i];
		uint32_t a = s->model->unit_of[k->table];

		if (k->kind == SC_APART) {
			uint32_t b = s->model->unit_of[k->other];

			if ((a == unit && sc_shard_state_is_on(s, b, rank)) ||
			    (b == unit && sc_shard_state_is_on(s, a, rank)))
				return false;
		} else if (a == unit && k->rank >= 0) {
			if (k->kind == SC_PIN && k->rank != rank)
				return false;
			if (k->kind == SC_FORBID && k->rank == rank &&
			    sc_rule_names(k, c->type, c->tier))
				return false;
		}
	}
	return true;
}

uint32_t sc_shard_state_unplaced(const struct sc_shard_state *s, uint32_t *some)
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

bool sc_shard_state_is_complete(const struct sc_shard_state *s)
{
	uint32_t some;

	return sc_shard_state_unplaced(s, &some) == 0;
}
