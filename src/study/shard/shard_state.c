/* Where everything lies, whatever it is judged by: units' choices and ranks, the memory they take, changes
 * and their undoing. What a change does to the cost is counted by shard_potential.c. */
#include <math.h>
#include <string.h>

#include "predict/dlrm/dlrm.h"
#include "study/shard/shard_solve_priv.h"

/* A placement judged by the predicted step, by an estimate: the busiest rank of each phase, phases one after
 * another. Ignores what overlaps and how kernels start: whole steps are simulated before anything is
 * believed. */

struct sc_phases *sc_phases_make(const struct sc_shard_model *m, struct sc_arena *arena)
{
	struct sc_phases *p = sc_arena_calloc(arena, 1, sizeof(*p));

	p->rates = sc_iteration_rates(m->problem);
	p->forward = sc_arena_calloc(arena, m->world, sizeof(double));
	p->backward = sc_arena_calloc(arena, m->world, sizeof(double));
	p->sent = sc_arena_calloc(arena, m->world, sizeof(double));
	p->host_columns = sc_arena_calloc(arena, m->n_hosts, sizeof(double));
	return p;
}

/* Sums of vectors: over all ranks, within a host. Where slices send partial sums over several hosts, vectors
 * that leave one: of slices of the same rows there, one. */
static void add_sums(struct sc_shard_state *s, const struct sc_choice *c, const int32_t *ranks,
		     const struct sc_dlrm_sends *sends, double sign)
{
	const struct sc_shard_model *m = s->model;
	struct sc_phases *p = s->phases;
	uint32_t last = UINT32_MAX, host = (uint32_t)sc_choice_rank(m, c, ranks, 0) / m->per_host;
	double bytes = sign * c->shards[0].vector_bytes;

	if (!p->rates->by_node) {
		p->scatter_bytes += bytes * sends->all_sum;
		p->host_columns[host] += bytes * sends->host_sum;
		return;
	}
	for (uint32_t i = 0; i < c->n; i++, last = host) {
		host = (uint32_t)sc_choice_rank(m, c, ranks, i) / m->per_host;
		if (host != last ||
		    !(c->type == SC_ROW_WISE || c->type == SC_TABLE_ROW_WISE || c->type == SC_GRID))
			p->host_columns[host] += sign * sc_choice_shard(c, i)->vector_bytes;
	}
}

static void phases_add(struct sc_shard_state *s, const struct sc_choice *c, const int32_t *ranks,
		       double sign)
{
	const struct sc_shard_model *m = s->model;
	struct sc_phases *p = s->phases;
	struct sc_dlrm_sends sends = sc_dlrm_sends_of(c->type, p->rates->partial_sums, m->per_host);

	if (c->type == SC_DATA_PARALLEL) {
		p->replica_ms += sign * (c->shards[0].forward_ms + c->shards[0].backward_ms);
		p->reduce_bytes += sign * (double)c->shards[0].rows * (double)c->shards[0].cols *
				   sc_dtype_bytes(SC_FP32);
	}
	for (uint32_t i = 0; i < c->n; i++) {
		const struct sc_option_shard *shard = sc_choice_shard(c, i);
		uint32_t rank = (uint32_t)sc_choice_rank(m, c, ranks, i);

		sc_shard_state_add_bytes(s, shard, rank, sign);
		if (c->type == SC_DATA_PARALLEL)
			continue;
		p->forward[rank] += sign * shard->forward_ms / m->speed[rank];
		p->backward[rank] += sign * shard->backward_ms / m->speed[rank];
		p->sent[rank] += sign * shard->vector_bytes * sends.to_all;
	}
	if (c->type != SC_DATA_PARALLEL)
		add_sums(s, c, ranks, &sends, sign);
}

/* A little of the mean square goes with the most: of equal ranks, it tells that one has become free. */
#define MEAN_SHARE 0.02

static double level(const double *of_rank, uint32_t n)
{
	double most = 0, sum = 0;

	for (uint32_t r = 0; r < n; r++) {
		most = fmax(most, of_rank[r]);
		sum += of_rank[r] * of_rank[r];
	}
	return most + MEAN_SHARE * sqrt(sum / (double)n);
}

double sc_phases_estimate(const struct sc_shard_state *s, const struct sc_phase_weights *w)
{
	const struct sc_phases *p = s->phases;
	const struct sc_exchange_rates *rates = p->rates;
	uint32_t world = s->model->world, per_host = s->model->per_host;
	double sent = level(p->sent, world), columns = level(p->host_columns, s->model->n_hosts);
	double exchange = p->scatter_bytes * rates->scatter;

	if (rates->by_node)
		exchange += sent * rates->host_scatter + columns / (double)per_host * rates->a2a;
	else
		exchange += sent * rates->a2a + columns * rates->host_scatter;
	return level(p->forward, world) + level(p->backward, world) + 2 * w->exchange * exchange +
	       w->replica * p->replica_ms + w->reduce * p->reduce_bytes * rates->reduce;
}

/* Of ranks and of hosts: one block. */
static size_t n_sums(const struct sc_shard_model *m)
{
	return 4 * ((size_t)m->world + m->n_hosts);
}

struct sc_shard_state sc_shard_state_make(const struct sc_shard_model *m, struct sc_arena *arena)
{
	struct sc_shard_state s = {.model = m,
				   .kappa = 8.0,
				   .scale = 1.0,
				   .block_hosts = SC_NO_SIDES,
				   .bias = {1.0, 1.0, 1.0, 1.0}};
	size_t room = 1;

	for (size_t i = 0; i < m->choices.n; i++)
		room = m->choices.at[i].n > room ? m->choices.at[i].n : room;
	s.load = sc_arena_calloc(arena, n_sums(m), sizeof(double));
	s.hbm = s.load + m->world;
	s.weight = s.hbm + m->world;
	s.mem_weight = s.weight + m->world;
	s.host = s.mem_weight + m->world;
	s.ssd = s.host + m->n_hosts;
	s.host_weight = s.ssd + m->n_hosts;
	s.host_mem_weight = s.host_weight + m->n_hosts;
	s.choice = sc_arena_alloc(arena, sizeof(*s.choice) * (m->units.n + 1));
	s.ranks = sc_arena_alloc(arena, sizeof(*s.ranks) * (m->n_ranks_room + 1));
	s.trial = sc_arena_alloc(arena, sizeof(*s.trial) * room);
	s.best = sc_arena_alloc(arena, sizeof(*s.best) * room);
	sc_shard_state_clear(&s);
	return s;
}

static void clear_sums(struct sc_shard_state *s)
{
	const struct sc_shard_model *m = s->model;

	memcpy(s->load, m->base, sizeof(double) * m->world);
	memset(s->hbm, 0, sizeof(double) * m->world);
	memset(s->host, 0, sizeof(double) * m->n_hosts);
	memset(s->ssd, 0, sizeof(double) * m->n_hosts);
	if (!s->phases)
		return;
	memset(s->phases->forward, 0, m->world * sizeof(double));
	memset(s->phases->backward, 0, m->world * sizeof(double));
	memset(s->phases->sent, 0, m->world * sizeof(double));
	memset(s->phases->host_columns, 0, m->n_hosts * sizeof(double));
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

	memcpy(to->load, from->load, sizeof(double) * n_sums(m));
	memcpy(to->choice, from->choice, sizeof(*to->choice) * m->units.n);
	memcpy(to->ranks, from->ranks, sizeof(*to->ranks) * m->n_ranks_room);
	to->mem_potential = from->mem_potential;
	to->potential = from->potential;
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

double sc_shard_state_max(const struct sc_shard_state *s, uint32_t *rank)
{
	uint32_t found = 0;

	for (uint32_t r = 1; r < s->model->world; r++) {
		if (s->load[r] > s->load[found])
			found = r;
	}
	if (rank)
		*rank = found;
	return s->load[found];
}

static void add_choice(struct sc_shard_state *s, uint32_t unit, const struct sc_choice *c,
		       double sign)
{
	if (s->phases)
		phases_add(s, c, sc_unit_ranks(s, unit), sign);
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

void sc_shard_state_change(struct sc_shard_state *s, struct sc_change *change)
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
	for (uint32_t i = 0; i < c->n; i++) {
		if (ranks[i] == rank)
			return sc_choice_shard(c, i);
	}
	return NULL;
}

bool sc_shard_state_is_on(const struct sc_shard_state *s, uint32_t unit, int32_t rank)
{
	return s->choice[unit] != SC_UNPLACED &&
	       sc_choice_shard_on(s->model, &s->model->choices.at[s->choice[unit]],
				  sc_unit_ranks(s, unit), rank);
}

bool sc_shard_state_allows(const struct sc_shard_state *s, uint32_t unit, const struct sc_choice *c,
			   int32_t rank)
{
	const struct sc_shard_problem *p = s->model->problem;

	if (!s->model->units.at[unit].ruled)
		return true;
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

bool sc_shard_state_fits(const struct sc_shard_state *s, const struct sc_option_shard *shard,
			 int32_t rank)
{
	const struct sc_shard_model *m = s->model;
	uint32_t host = (uint32_t)rank / m->per_host;

	if (s->hbm[rank] + shard->hbm_bytes > m->hbm_cap[rank])
		return false;
	return (shard->host_bytes <= 0.0 ||
		s->host[host] + shard->host_bytes <= m->problem->host_bytes) &&
	       (shard->ssd_bytes <= 0.0 ||
		s->ssd[host] + shard->ssd_bytes <= m->problem->ssd_bytes);
}

bool sc_shard_state_is_over(const struct sc_shard_state *s, uint32_t rank)
{
	const struct sc_shard_model *m = s->model;
	uint32_t host = rank / m->per_host;

	return s->hbm[rank] > m->hbm_cap[rank] || s->host[host] > m->problem->host_bytes ||
	       s->ssd[host] > m->problem->ssd_bytes;
}

/* ---- the plan of it ---- */

static void write_table(const struct sc_shard_state *s, uint32_t table, uint32_t member,
			struct sc_shard_plan *plan)
{
	const struct sc_shard_model *m = s->model;
	uint32_t unit = m->unit_of[table];
	const struct sc_choice *c = &m->choices.at[s->choice[unit]];
	const struct sc_option *o =
		c->made ? NULL : &m->problem->options.at[m->members.at[c->first_option + member]];
	struct sc_table_placement *at =
		sc_plan_begin_table(plan, &m->problem->tables[table], o ? o->type : c->type);

	at->tier = o ? o->tier : c->tier;
	if (at->tier == SC_TIER_CACHED)
		at->cache_frac = o ? o->cache_frac : c->cache_frac;
	for (uint32_t i = 0; i < c->n; i++) {
		struct sc_option_shard shard;

		if (o)
			sc_option_shard_get(m->problem, o, i, &shard);
		else
			shard = c->shards[i];
		sc_plan_add_shard(plan,
				  &(struct sc_shard){
					  .rank = sc_choice_rank(m, c, sc_unit_ranks(s, unit), i),
					  .row_offset = shard.row_offset,
					  .col_offset = shard.col_offset,
					  .rows = shard.rows,
					  .cols = shard.cols,
				  });
	}
}

void sc_shard_state_plan(const struct sc_shard_state *s, struct sc_shard_plan *plan)
{
	const struct sc_shard_model *m = s->model;

	plan->world = m->world;
	plan->ranks_per_host = m->problem->ranks_per_host;
	plan->tables.n = plan->shards.n = 0;
	for (uint32_t table = 0; table < m->problem->n_tables; table++) {
		const struct sc_unit *unit = &m->units.at[m->unit_of[table]];
		uint32_t member = 0;

		while (m->tables.at[unit->first_table + member] != table)
			member++;
		write_table(s, table, member, plan);
	}
}
