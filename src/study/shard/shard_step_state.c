/* A plan that changes table by table, and what its step costs by an estimate: the busiest rank of each
 * phase, phases one after another. Ignores what overlaps and how kernels start: whole steps are simulated
 * before anything is believed. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "study/shard/shard_solve_priv.h"
#include "study/shard/shard_step_priv.h"

void sc_step_state_init(struct sc_step_state *s, const struct sc_shard_problem *problem)
{
	uint32_t world = problem->world;
	uint32_t n_hosts = (world + problem->ranks_per_host - 1) / problem->ranks_per_host;

	*s = (struct sc_step_state){.problem = problem, .rates = sc_iteration_rates(problem)};
	s->homes = sc_xrealloc(NULL, problem->n_tables + 1, sizeof(*s->homes));
	memset(s->homes, 0, problem->n_tables * sizeof(*s->homes));
	s->known = sc_xrealloc(NULL, problem->n_tables + 1, sizeof(*s->known));
	memset(s->known, 0, problem->n_tables * sizeof(*s->known));
	s->forward = sc_xrealloc(NULL, 4 * (size_t)world + n_hosts, sizeof(double));
	s->backward = s->forward + world;
	s->sent = s->backward + world;
	s->hbm = s->sent + world;
	s->node_columns = s->hbm + world;
}

void sc_home_release(struct sc_home *home)
{
	SC_VEC_RELEASE(&home->shards);
}

void sc_step_state_release(struct sc_step_state *s)
{
	for (size_t t = 0; t < s->problem->n_tables; t++) {
		sc_home_release(&s->homes[t]);
		SC_VEC_RELEASE(&s->known[t]);
	}
	free(s->homes);
	free(s->known);
	free(s->forward);
}

void sc_home_begin(struct sc_home *out, const struct sc_table *table, enum sc_shard_type type)
{
	out->shards.n = 0;
	out->placement = (struct sc_table_placement){
		.name = table->name, .rows = table->rows, .dim = table->dim, .type = type};
}

void sc_home_copy(struct sc_home *to, const struct sc_home *from)
{
	to->placement = from->placement;
	to->shards.n = 0;
	for (size_t i = 0; i < from->shards.n; i++)
		SC_VEC_PUSH(&to->shards, from->shards.at[i]);
}

/* A kernel's time hangs on sizes, on replication, and on having the first, most popular row. */
static struct sc_step_part part_of(struct sc_step_state *s, const struct sc_table_placement *p,
				   const struct sc_shard *shard)
{
	sc_known_parts *known = &s->known[shard->table];
	struct sc_known_part new = {
		.rows = shard->rows,
		.cols = shard->cols,
		.first = shard->row_offset == 0,
		.replica = p->type == SC_DATA_PARALLEL,
	};

	for (size_t i = 0; i < known->n && p->tier == SC_TIER_HBM; i++) {
		const struct sc_known_part *k = &known->at[i];

		if (k->rows == new.rows && k->cols == new.cols && k->first == new.first &&
		    k->replica == new.replica)
			return k->part;
	}
	if (shard->rows > 0 && shard->cols > 0)
		sc_iteration_part(s->problem, p, shard, &new.part);
	if (p->tier == SC_TIER_HBM)
		SC_VEC_PUSH(known, new);
	return new.part;
}

void sc_home_add(struct sc_step_state *s, uint32_t table, struct sc_home *home,
		 const struct sc_step_slice *slice)
{
	struct sc_step_shard shard = {
		.at = {.table = table,
		       .rank = slice->rank,
		       .row_offset = slice->row_offset,
		       .col_offset = slice->col_offset,
		       .rows = slice->rows,
		       .cols = slice->cols},
	};

	shard.part = part_of(s, &home->placement, &shard.at);
	SC_VEC_PUSH(&home->shards, shard);
}

/* Vectors that leave a node: of slices of the same rows there, one. */
static void add_node_columns(struct sc_step_state *s, const struct sc_home *home, double sign)
{
	uint32_t per_host = s->problem->ranks_per_host, last = UINT32_MAX;

	for (size_t i = 0; i < home->shards.n; i++) {
		const struct sc_step_shard *shard = &home->shards.at[i];
		uint32_t node = (uint32_t)shard->at.rank / per_host;

		if (shard->at.rows < home->placement.rows && node == last)
			continue;
		last = node;
		s->node_columns[node] += sign * shard->part.vector_bytes;
	}
}

static double speed_of(const struct sc_step_state *s, int32_t rank)
{
	return s->problem->rank_speed ? s->problem->rank_speed[rank] : 1;
}

static void add_replicas(struct sc_step_state *s, const struct sc_home *home, double sign)
{
	const struct sc_step_part *part = &home->shards.at[0].part;

	s->replica_ms += sign * (part->forward_ms + part->backward_ms);
	s->reduce_bytes += sign * (double)home->placement.rows * (double)home->placement.dim *
			   sc_dtype_bytes(SC_FP32);
}

static void add_home(struct sc_step_state *s, const struct sc_home *home, double sign)
{
	const struct sc_shard_problem *p = s->problem;
	enum sc_shard_type type = home->placement.type;
	struct sc_dlrm_sends sends =
		sc_dlrm_sends_of(type, s->rates->partial_sums, p->ranks_per_host);

	for (size_t i = 0; i < home->shards.n; i++) {
		const struct sc_step_shard *shard = &home->shards.at[i];
		double speed = speed_of(s, shard->at.rank);

		s->hbm[shard->at.rank] += sign * shard->part.hbm_bytes;
		if (type == SC_DATA_PARALLEL)
			continue;
		s->forward[shard->at.rank] += sign * shard->part.forward_ms / speed;
		s->backward[shard->at.rank] += sign * shard->part.backward_ms / speed;
		s->sent[shard->at.rank] += sign * shard->part.vector_bytes * sends.to_all;
	}
	if (!home->shards.n)
		return;
	if (type == SC_DATA_PARALLEL) {
		add_replicas(s, home, sign);
	} else if (s->rates->by_node) {
		add_node_columns(s, home, sign);
	} else {
		double bytes = sign * home->shards.at[0].part.vector_bytes;

		s->scatter_bytes += bytes * sends.all_sum;
		s->node_columns[(uint32_t)home->shards.at[0].at.rank / p->ranks_per_host] +=
			bytes * sends.host_sum;
	}
}

void sc_step_state_swap(struct sc_step_state *s, uint32_t table, struct sc_home *home)
{
	struct sc_home was = s->homes[table];

	add_home(s, &was, -1);
	add_home(s, home, 1);
	s->homes[table] = *home;
	*home = was;
}

/* Sums anew: no trace of what was added and taken away. */
static void sum_up(struct sc_step_state *s)
{
	const struct sc_shard_problem *p = s->problem;
	uint32_t n_hosts = (p->world + p->ranks_per_host - 1) / p->ranks_per_host;

	memset(s->forward, 0, (4 * (size_t)p->world + n_hosts) * sizeof(double));
	s->scatter_bytes = s->replica_ms = s->reduce_bytes = 0;
	for (size_t t = 0; t < p->n_tables; t++)
		add_home(s, &s->homes[t], 1);
}

bool sc_step_state_load(struct sc_step_state *s, const struct sc_shard_plan *plan)
{
	const struct sc_shard_problem *p = s->problem;

	if (plan->tables.n != p->n_tables || plan->world != p->world)
		return false;
	for (uint32_t i = 0; i < plan->tables.n; i++) {
		const struct sc_table_placement *from = &plan->tables.at[i];
		uint32_t table = sc_shard_find_table(p, from->name, i);
		struct sc_home *home;

		if (table == p->n_tables)
			return false;
		home = &s->homes[table];
		sc_home_begin(home, &p->tables[table], from->type);
		home->placement.tier = from->tier;
		home->placement.cache_frac = from->cache_frac;
		for (uint32_t k = 0; k < from->n_shards; k++) {
			const struct sc_shard *at = &plan->shards.at[from->first_shard + k];
			struct sc_step_slice slice = {at->rank, at->row_offset, at->col_offset,
						      at->rows, at->cols};

			sc_home_add(s, table, home, &slice);
		}
	}
	sum_up(s);
	return true;
}

void sc_step_state_plan(const struct sc_step_state *s, struct sc_shard_plan *out)
{
	const struct sc_shard_problem *p = s->problem;

	out->world = p->world;
	out->ranks_per_host = p->ranks_per_host;
	out->tables.n = out->shards.n = 0;
	for (uint32_t t = 0; t < p->n_tables; t++) {
		struct sc_table_placement placement = s->homes[t].placement;

		placement.first_shard = (uint32_t)out->shards.n;
		placement.n_shards = (uint32_t)s->homes[t].shards.n;
		SC_VEC_PUSH(&out->tables, placement);
		for (size_t i = 0; i < s->homes[t].shards.n; i++)
			SC_VEC_PUSH(&out->shards, s->homes[t].shards.at[i].at);
	}
}

bool sc_step_state_fits(const struct sc_step_state *s)
{
	const struct sc_shard_problem *p = s->problem;

	for (uint32_t r = 0; r < p->world; r++) {
		double budget = p->rank_hbm_bytes ? p->rank_hbm_bytes[r] : p->hbm_bytes;

		if (s->hbm[r] > budget)
			return false;
	}
	return true;
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

double sc_step_estimate(const struct sc_step_state *s, const struct sc_step_weights *w)
{
	const struct sc_exchange_rates *rates = s->rates;
	uint32_t world = s->problem->world, per_host = s->problem->ranks_per_host;
	uint32_t n_hosts = (world + per_host - 1) / per_host;
	double sent = level(s->sent, world), columns = level(s->node_columns, n_hosts);
	double exchange = s->scatter_bytes * rates->scatter;

	if (rates->by_node)
		exchange += sent * rates->host_scatter + columns / (double)per_host * rates->a2a;
	else
		exchange += sent * rates->a2a + columns * rates->host_scatter;
	return level(s->forward, world) + level(s->backward, world) + 2 * w->exchange * exchange +
	       w->replica * s->replica_ms + w->reduce * s->reduce_bytes * rates->reduce;
}
