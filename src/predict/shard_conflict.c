/* Why no plan holds: the smallest reason that can be proved, from single tables up to all of them. */
#include <math.h>

#include "predict/shard_solve_priv.h"

/* Rank that constraints pin a table to, or -1. */
static int32_t pinned_rank(const struct sc_shard_problem *p, uint32_t table)
{
	for (size_t i = 0; i < p->n_constraints; i++) {
		const struct sc_shard_constraint *c = &p->constraints[i];

		if (c->kind == SC_PIN && c->table == table && c->rank >= 0)
			return c->rank;
	}
	return -1;
}

static double most_room(const struct sc_shard_model *m)
{
	double most = 0.0;

	for (uint32_t r = 0; r < m->world; r++)
		most = fmax(most, m->hbm_cap[r]);
	return most;
}

/* Least bytes that a rank with a shard of the unit must hold. */
static double least_shard(const struct sc_shard_model *m, uint32_t unit)
{
	const struct sc_unit *u = &m->units.at[unit];
	double least = HUGE_VAL;

	for (uint32_t i = 0; i < u->n_choices; i++) {
		const struct sc_choice *c = &m->choices.at[u->first_choice + i];
		struct sc_option_shard slice = {0};
		int64_t cols =
			m->problem->min_cols > SC_WIDTH_STEP ? m->problem->min_cols : SC_WIDTH_STEP;

		least = fmin(least, c->hbm);
		if (c->spread == SC_SPREAD_FREE && sc_shard_model_may_split(m, unit) &&
		    m->problem->column_cost(m->problem->column_ctx, m->tables.at[u->first_table],
					    c->tier, cols, &slice))
			least = fmin(least, slice.hbm_bytes);
	}
	return least;
}

static double least_total(const struct sc_shard_model *m, uint32_t unit)
{
	const struct sc_unit *u = &m->units.at[unit];
	double least = HUGE_VAL;

	for (uint32_t i = 0; i < u->n_choices; i++) {
		const struct sc_choice *c = &m->choices.at[u->first_choice + i];
		double sum = 0.0;

		for (uint32_t k = 0; k < sc_choice_n_listed(c); k++)
			sum += c->shards[k].hbm_bytes * sc_choice_repeats(c, k);
		least = fmin(least, sum);
	}
	return least;
}

static const char *unit_name(const struct sc_shard_model *m, uint32_t unit)
{
	return m->problem->tables[m->tables.at[m->units.at[unit].first_table]].name;
}

static int large_table(const struct sc_shard_model *m, struct sc_err *err)
{
	double room = most_room(m);

	for (uint32_t u = 0; u < m->units.n; u++) {
		int32_t rank = pinned_rank(m->problem, m->tables.at[m->units.at[u].first_table]);
		double need = least_shard(m, u), has = rank < 0 ? room : m->hbm_cap[rank];

		if (need <= has)
			continue;
		if (rank >= 0)
			return sc_err_set(err, SC_ECONFLICT,
					  "table %s is pinned to rank %d but needs %.0f bytes of "
					  "HBM there, over its %.0f",
					  unit_name(m, u), (int)rank, need, has);
		return sc_err_set(err, SC_ECONFLICT,
				  "table %s fits no rank: its smallest shard needs %.0f bytes of "
				  "HBM, the largest rank has %.0f",
				  unit_name(m, u), need, has);
	}
	return 0;
}

static int full_rank(const struct sc_shard_model *m, struct sc_err *err)
{
	double *sum = sc_xrealloc(NULL, m->world, sizeof(*sum));
	uint32_t *n = sc_xrealloc(NULL, m->world, sizeof(*n));
	int rc = 0;

	for (uint32_t r = 0; r < m->world; r++) {
		sum[r] = 0.0;
		n[r] = 0;
	}
	for (uint32_t u = 0; u < m->units.n; u++) {
		int32_t rank = pinned_rank(m->problem, m->tables.at[m->units.at[u].first_table]);

		if (rank >= 0) {
			sum[rank] += least_total(m, u);
			n[rank]++;
		}
	}
	for (uint32_t r = 0; r < m->world && rc == 0; r++) {
		if (sum[r] > m->hbm_cap[r])
			rc = sc_err_set(err, SC_ECONFLICT,
					"the %u tables pinned to rank %u need %.0f bytes of HBM, "
					"over its %.0f",
					n[r], r, sum[r], m->hbm_cap[r]);
	}
	free(sum);
	free(n);
	return rc;
}

static int full_cluster(const struct sc_shard_model *m, struct sc_err *err)
{
	double need = 0.0, room = 0.0;

	for (uint32_t u = 0; u < m->units.n; u++)
		need += least_total(m, u);
	for (uint32_t r = 0; r < m->world; r++)
		room += m->hbm_cap[r];
	if (need <= room)
		return 0;
	return sc_err_set(err, SC_ECONFLICT,
			  "the tables need at least %.0f bytes of HBM, all %u ranks have %.0f",
			  need, m->world, room);
}

/* Tables to be apart, pinned to one rank. */
static int close_pair(const struct sc_shard_model *m, struct sc_err *err)
{
	const struct sc_shard_problem *p = m->problem;

	for (size_t i = 0; i < p->n_constraints; i++) {
		const struct sc_shard_constraint *c = &p->constraints[i];

		if (c->kind != SC_APART)
			continue;
		if (pinned_rank(p, c->table) >= 0 &&
		    pinned_rank(p, c->table) == pinned_rank(p, c->other))
			return sc_err_set(err, SC_ECONFLICT,
					  "tables %s and %s are to be apart but both pinned to "
					  "rank %d",
					  p->tables[c->table].name, p->tables[c->other].name,
					  (int)pinned_rank(p, c->table));
	}
	return 0;
}

int sc_shard_conflict(const struct sc_shard_problem *problem, struct sc_err *err)
{
	static int (*const REASONS[])(const struct sc_shard_model *, struct sc_err *) = {
		close_pair, large_table, full_rank, full_cluster};
	struct sc_shard_model m;
	int rc = sc_shard_model_init(&m, problem, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < sizeof(REASONS) / sizeof(REASONS[0]) && rc == 0; i++)
		rc = REASONS[i](&m, err);
	sc_shard_model_release(&m);
	if (rc)
		return rc;
	return sc_err_set(err, SC_ECONFLICT,
			  "found no plan within memory and constraints, though each table fits by "
			  "itself and all do in total");
}
