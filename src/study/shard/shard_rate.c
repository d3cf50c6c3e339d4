/* What a given plan costs under the problem's options. */
#include <math.h>
#include <string.h>

#include "study/shard/shard_solve_priv.h"

void sc_shard_problem_release(struct sc_shard_problem *p)
{
	SC_VEC_RELEASE(&p->options);
	SC_VEC_RELEASE(&p->first_option);
	SC_VEC_RELEASE(&p->shards);
}

/* A placement, its shards and what they cost. */
struct rated {
	const struct sc_shard_plan *plan;
	const struct sc_table_placement *at;
	uint32_t table;
	const struct sc_option *option; /* NULL: costs of column_cost */
};

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

static bool is_by_columns(enum sc_shard_type type)
{
	return type == SC_TABLE_WISE || type == SC_COLUMN_WISE || type == SC_TABLE_COLUMN_WISE;
}

static bool shard_cost(const struct sc_shard_problem *p, const struct rated *x, uint32_t i,
		       struct sc_option_shard *out)
{
	const struct sc_shard *shard = &x->plan->shards.at[x->at->first_shard + i];

	if (x->option) {
		*out = p->shards.at[sc_option_shard_index(p, x->option, i)];
		return true;
	}
	memset(out, 0, sizeof(*out));
	if (p->column_cost && is_by_columns(x->at->type) &&
	    shard->rows == p->tables[x->table].rows && shard->cols > 0)
		return p->column_cost(p->column_ctx, x->table, x->at->tier, shard->cols, out);
	return p->shard_cost && p->shard_cost(p->column_ctx, x->table, x->at, shard, out);
}

struct sums {
	double *cost, *hbm; /* of ranks */
	double *host, *ssd; /* of hosts */
};

static int add_placement(const struct sc_shard_problem *p, struct rated *x, struct sums *sums,
			 struct sc_err *err)
{
	uint32_t match = sc_shard_match_option(p, x->plan, x->at, x->table);

	x->option = match == SC_UNPLACED ? NULL : &p->options.at[match];
	for (uint32_t i = 0; i < x->at->n_shards; i++) {
		const struct sc_shard *shard = &x->plan->shards.at[x->at->first_shard + i];
		uint32_t rank = (uint32_t)shard->rank;
		struct sc_option_shard cost;

		if (shard->rank < 0 || rank >= p->world)
			return sc_err_set(err, SC_EVALUE, "table %s: rank %d of %u ranks",
					  x->at->name, (int)shard->rank, p->world);
		if (!shard_cost(p, x, i, &cost))
			return sc_err_set(err, SC_EUNSUPPORTED,
					  "table %s: the objective has no cost for its sharding "
					  "(%s, %u shards)",
					  x->at->name,
					  sc_enum_name(sc_shard_type_names, (int)x->at->type),
					  x->at->n_shards);
		sums->cost[rank] += cost.cost / (p->rank_speed ? p->rank_speed[rank] : 1.0);
		sums->hbm[rank] += cost.hbm_bytes;
		sums->host[rank / p->ranks_per_host] += cost.host_bytes;
		sums->ssd[rank / p->ranks_per_host] += cost.ssd_bytes;
	}
	return 0;
}

/* Bytes are whole numbers, but sums of shares of a cache are not. */
static bool is_over(double bytes, double budget)
{
	return bytes > budget * (1.0 + 1e-12);
}

static int check_budgets(const struct sc_shard_problem *p, const struct sums *sums,
			 struct sc_err *err)
{
	for (uint32_t r = 0; r < p->world; r++) {
		double cap = p->rank_hbm_bytes ? p->rank_hbm_bytes[r] : p->hbm_bytes;
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

/* Index of the table of that name, tried first where it should be; n_tables if there is none. */
uint32_t sc_shard_find_table(const struct sc_shard_problem *p, const char *name, uint32_t hint)
{
	for (uint32_t i = 0; i < p->n_tables; i++) {
		uint32_t t = (uint32_t)((hint + i) % p->n_tables);

		if (strcmp(p->tables[t].name, name) == 0)
			return t;
	}
	return (uint32_t)p->n_tables;
}

static int add_plan(const struct sc_shard_problem *p, const struct sc_shard_plan *plan,
		    struct sums *sums, struct sc_err *err)
{
	if (plan->tables.n != p->n_tables)
		return sc_err_set(err, SC_ECONFLICT, "the plan places %zu tables of %zu",
				  plan->tables.n, p->n_tables);
	for (uint32_t i = 0; i < plan->tables.n; i++) {
		struct rated x = {.plan = plan, .at = &plan->tables.at[i]};
		int rc;

		x.table = sc_shard_find_table(p, x.at->name, i);
		if (x.table == p->n_tables)
			return sc_err_set(err, SC_ECONFLICT,
					  "the plan has a table %s, the model not", x.at->name);
		rc = add_placement(p, &x, sums, err);
		if (rc)
			return rc;
	}
	return 0;
}

static void copy_plan(const struct sc_shard_plan *from, struct sc_shard_plan *to)
{
	to->world = from->world;
	to->ranks_per_host = from->ranks_per_host;
	for (size_t i = 0; i < from->tables.n; i++)
		SC_VEC_PUSH(&to->tables, from->tables.at[i]);
	for (size_t i = 0; i < from->shards.n; i++)
		SC_VEC_PUSH(&to->shards, from->shards.at[i]);
}

int sc_shard_rate(const struct sc_shard_problem *p, const struct sc_shard_plan *plan, bool over_ok,
		  struct sc_arena *arena, struct sc_shard_solution *out, struct sc_err *err)
{
	struct sc_shard_solution rated = {.cost = 0.0};
	uint32_t n_hosts = (p->world + p->ranks_per_host - 1) / p->ranks_per_host;
	struct sums sums = {
		.cost = sc_arena_calloc(arena, p->world, sizeof(double)),
		.hbm = sc_arena_calloc(arena, p->world, sizeof(double)),
		.host = sc_arena_calloc(arena, n_hosts, sizeof(double)),
		.ssd = sc_arena_calloc(arena, n_hosts, sizeof(double)),
	};
	int rc;

	if (plan->world != p->world)
		return sc_err_set(err, SC_ECONFLICT, "a plan for %u ranks, not %u", plan->world,
				  p->world);
	if (p->rank_base_cost)
		memcpy(sums.cost, p->rank_base_cost, sizeof(double) * p->world);
	rc = add_plan(p, plan, &sums, err);
	if (rc == 0 && !over_ok)
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
	copy_plan(plan, &rated.plan);
	*out = rated;
	return 0;
}
