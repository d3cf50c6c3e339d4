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
