/* What a given plan costs under the problem's options. */
#include <math.h>
#include <string.h>

#include "models/row_memo.h"
#include "study/shard/shard_solve_priv.h"
#include "study/shard/shard_terms.h"

void sc_shard_problem_release(struct sc_shard_problem *p)
{
	SC_VEC_RELEASE(&p->options);
	SC_VEC_RELEASE(&p->first_option);
	SC_VEC_RELEASE(&p->shards);
	sc_row_memo_destroy(p->rows);
	p->rows = NULL;
}

static bool option_matches(const struct sc_shard_problem *p, const struct sc_option *o,
			   const struct sc_shard_plan *plan, const struct sc_table_placement *at)
{
	const struct sc_shard *shards = &plan->shards.at[at->first_shard];

	if (o->type != at->type || o->tier != at->tier)
		return false;
	if (o->tier == SC_TIER_CACHED && fabs(o->cache_frac - at->cache_frac) > 1e-9)
		return false;
	if (sc_option_n_shards(p, o) != at->n_shards)
		return false;
	for (uint32_t i = 0; i < at->n_shards; i++) {
		struct sc_option_shard own;

		sc_option_shard_get(p, o, i, &own);
		if (own.rows != shards[i].rows || own.cols != shards[i].cols)
			return false;
	}
	return true;
}

uint32_t sc_shard_match_option(const struct sc_shard_problem *p, const struct sc_shard_plan *plan,
			       const struct sc_table_placement *at, uint32_t table)
{
	for (uint32_t o = p->first_option.at[table]; o < p->first_option.at[table + 1]; o++) {
		if (option_matches(p, &p->options.at[o], plan, at))
			return o;
	}
	return SC_UNPLACED;
}

/* Bytes are whole numbers, but sums of shares of a cache are not. */
static bool is_over(double bytes, double budget)
{
	return bytes > budget * (1.0 + 1e-12);
}

static int check_budgets(const struct sc_shard_problem *p, const struct sc_shard_sums *sums,
			 struct sc_err *err)
{
	for (uint32_t r = 0; r < p->world; r++) {
		double cap = sc_rank_budget(p, r);
		uint32_t host = r / p->ranks_per_host;

		if (is_over(sums->hbm[r], cap))
			return sc_err_set(err, SC_ECONFLICT,
					  "rank %u holds %.0f bytes of HBM, over its %.0f", r,
					  sums->hbm[r], cap);
		if (is_over(sums->host[host], p->host_bytes))
			return sc_err_set(err, SC_ECONFLICT,
					  "host %u holds %.0f bytes in its memory, over its %.0f",
					  host, sums->host[host], p->host_bytes);
		if (is_over(sums->ssd[host], p->ssd_bytes))
			return sc_err_set(err, SC_ECONFLICT,
					  "host %u holds %.0f bytes on its SSD, over its %.0f",
					  host, sums->ssd[host], p->ssd_bytes);
	}
	return 0;
}

uint32_t sc_shard_table_of(const struct sc_shard_problem *p, const char *name, size_t hint,
			   struct sc_intern *names)
{
	if (hint < p->n_tables && strcmp(p->tables[hint].name, name) == 0)
		return (uint32_t)hint;
	if (names->n_slots == 0) {
		for (size_t i = 0; i < p->n_tables; i++)
			sc_intern_add(names, p->tables[i].name);
	}
	return sc_intern_find(names, name);
}

int sc_shard_rate(const struct sc_shard_problem *p, const struct sc_shard_plan *plan, bool over_ok,
		  struct sc_arena *arena, struct sc_shard_solution *out, struct sc_err *err)
{
	struct sc_shard_solution rated = {.cost = 0.0};
	struct sc_shard_terms terms = {.at = {0}};
	struct sc_shard_sums sums;
	int rc;

	if (plan->tables.n != p->n_tables)
		return sc_err_set(err, SC_ECONFLICT, "the plan places %zu tables of %zu",
				  plan->tables.n, p->n_tables);
	rc = sc_shard_terms_of(p, plan, &terms, err);
	if (rc)
		return rc;
	sc_shard_sums_make(&sums, p, &terms, arena);
	sc_shard_terms_release(&terms);
	if (!over_ok)
		rc = check_budgets(p, &sums, err);
	if (rc)
		return rc;
	rated.rank_cost = sums.cost;
	rated.rank_hbm = sums.hbm;
	for (uint32_t r = 0; r < p->world; r++) {
		if (sums.cost[r] > sums.cost[rated.bottleneck])
			rated.bottleneck = r;
	}
	rated.cost = sums.cost[rated.bottleneck];
	sc_shard_plan_copy(plan, &rated.plan);
	*out = rated;
	return 0;
}
