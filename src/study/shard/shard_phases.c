/* A placement judged by the predicted step, by an estimate: the busiest rank of each phase, phases one after
 * another. Ignores what overlaps and how kernels start: whole steps are simulated before anything is
 * believed. */
#include <math.h>
#include <string.h>

#include "predict/dlrm/dlrm.h"
#include "study/shard/shard_solve_priv.h"

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

void sc_phases_clear(struct sc_phases *p, const struct sc_shard_model *m)
{
	memset(p->forward, 0, m->world * sizeof(double));
	memset(p->backward, 0, m->world * sizeof(double));
	memset(p->sent, 0, m->world * sizeof(double));
	memset(p->host_columns, 0, m->n_hosts * sizeof(double));
	p->scatter_bytes = p->replica_ms = p->reduce_bytes = 0;
}

static void add_replicas(struct sc_shard_state *s, const struct sc_choice *c, double sign)
{
	const struct sc_option_shard *each = &c->shards[0];

	s->phases->replica_ms += sign * (each->forward_ms + each->backward_ms);
	s->phases->reduce_bytes +=
		sign * (double)each->rows * (double)each->cols * sc_dtype_bytes(SC_FP32);
	for (uint32_t r = 0; r < c->n; r++)
		sc_shard_state_add_bytes(s, sc_choice_shard(c, r), r, sign);
}

static bool is_by_rows(enum sc_shard_type type)
{
	return type == SC_ROW_WISE || type == SC_TABLE_ROW_WISE || type == SC_GRID;
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
		if (host != last || !is_by_rows(c->type))
			p->host_columns[host] += sign * sc_choice_shard(c, i)->vector_bytes;
	}
}

void sc_phases_add(struct sc_shard_state *s, const struct sc_choice *c, const int32_t *ranks,
		   double sign)
{
	const struct sc_shard_model *m = s->model;
	struct sc_phases *p = s->phases;
	struct sc_dlrm_sends sends = sc_dlrm_sends_of(c->type, p->rates->partial_sums, m->per_host);

	if (c->type == SC_DATA_PARALLEL) {
		add_replicas(s, c, sign);
		return;
	}
	for (uint32_t i = 0; i < c->n; i++) {
		const struct sc_option_shard *shard = sc_choice_shard(c, i);
		uint32_t rank = (uint32_t)sc_choice_rank(m, c, ranks, i);

		sc_shard_state_add_bytes(s, shard, rank, sign);
		p->forward[rank] += sign * shard->forward_ms / m->speed[rank];
		p->backward[rank] += sign * shard->backward_ms / m->speed[rank];
		p->sent[rank] += sign * shard->vector_bytes * sends.to_all;
	}
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

double sc_phases_load(const struct sc_shard_state *s, uint32_t rank)
{
	const struct sc_phases *p = s->phases;
	double per_byte = p->rates->by_node ? p->rates->host_scatter : p->rates->a2a;

	return p->forward[rank] + p->backward[rank] + 2 * p->sent[rank] * per_byte;
}
