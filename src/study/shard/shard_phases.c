/* Judges a placement by an estimate of the predicted step: the busiest rank of each phase, phases
 * one after another. It ignores what overlaps and how kernels start: whole steps are simulated
 * before anything is believed. */
#include <math.h>

#include "predict/dlrm/dlrm.h"
#include "study/shard/shard_solve_priv.h"

/* Adds the sums of vectors over all ranks and within a host. Where slices send partial sums over
 * several hosts, only vectors that leave a host count: slices of the same rows there send one, but
 * those of a table with hot rows send different ones. */
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
		if (host != last || c->hot_rows ||
		    !(c->type == SC_ROW_WISE || c->type == SC_TABLE_ROW_WISE || c->type == SC_GRID))
			p->host_columns[host] += sign * sc_choice_shard(c, i)->vector_bytes;
	}
}

void sc_phases_add(struct sc_shard_state *s, uint32_t unit, const struct sc_choice *c, double sign)
{
	const struct sc_shard_model *m = s->model;
	const int32_t *ranks = sc_unit_ranks(s, unit);
	const uint32_t table = m->tables.at[m->units.at[unit].first_table];
	struct sc_phases *p = s->phases;
	struct sc_dlrm_sends sends = sc_dlrm_sends_of(&m->problem->tables[table], c->type,
						      p->rates->partial_sums, m->per_host);

	if (c->type == SC_DATA_PARALLEL)
		p->replica_ms += sign * (c->shards[0].forward_ms + c->shards[0].backward_ms);
	p->reduce_bytes += sign * c->shards[0].reduce_bytes;
	for (uint32_t i = 0; i < c->n; i++) {
		const struct sc_option_shard *shard = sc_choice_shard(c, i);
		uint32_t rank = (uint32_t)sc_choice_rank(m, c, ranks, i);

		sc_ledger_add_bytes(&s->used, shard, rank, sign);
		if (c->type == SC_DATA_PARALLEL)
			continue;
		p->forward[rank] += sign * shard->forward_ms / m->speed[rank];
		p->backward[rank] += sign * shard->backward_ms / m->speed[rank];
		p->sent[rank] += sign * shard->vector_bytes * sends.to_all;
	}
	if (c->type != SC_DATA_PARALLEL)
		add_sums(s, c, ranks, &sends, sign);
}

/* A little of the mean square goes with the most: of equal ranks, it tells that one has become
 * free. */
#define MEAN_SHARE 0.02

static double level(double most, double squares, uint32_t n)
{
	return most + MEAN_SHARE * sqrt(squares / (double)n);
}

/* The levels of all phases by rank: a sum waits for each of its additions, and three wait at the
 * same time, in registers. */
static void rank_levels(const struct sc_phases *p, uint32_t world, double out[3])
{
	double most_f = 0, most_b = 0, most_s = 0, squares_f = 0, squares_b = 0, squares_s = 0;

	for (uint32_t r = 0; r < world; r++) {
		const double f = p->forward[r], b = p->backward[r], s = p->sent[r];

		most_f = f > most_f ? f : most_f;
		most_b = b > most_b ? b : most_b;
		most_s = s > most_s ? s : most_s;
		squares_f += f * f;
		squares_b += b * b;
		squares_s += s * s;
	}
	out[0] = level(most_f, squares_f, world);
	out[1] = level(most_b, squares_b, world);
	out[2] = level(most_s, squares_s, world);
}

static double host_level(const double *of_host, uint32_t n)
{
	double most = 0, squares = 0;

	for (uint32_t h = 0; h < n; h++) {
		most = of_host[h] > most ? of_host[h] : most;
		squares += of_host[h] * of_host[h];
	}
	return level(most, squares, n);
}

double sc_phases_estimate(const struct sc_shard_state *s, const struct sc_phase_weights *w)
{
	const struct sc_phases *p = s->phases;
	const struct sc_exchange_rates *rates = p->rates;
	uint32_t per_host = s->model->per_host;
	double columns = host_level(p->host_columns, s->model->n_hosts);
	double exchange = p->scatter_bytes * rates->scatter, of_ranks[3];

	rank_levels(p, s->model->world, of_ranks);
	if (rates->by_node)
		exchange +=
			of_ranks[2] * rates->host_scatter + columns / (double)per_host * rates->a2a;
	else
		exchange += of_ranks[2] * rates->a2a + columns * rates->host_scatter;
	return of_ranks[0] + of_ranks[1] + 2 * w->exchange * exchange + w->replica * p->replica_ms +
	       w->reduce * p->reduce_bytes * rates->reduce;
}
