/* How planners and papers place whole tables, for comparison (the sharders of Lin et al. 2024 and the
 * baselines of DreamShard and NeuroShard). "chunk" and "norm_lookup_greedy" are known by name only: their
 * definitions here are assumed. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "study/shard/shard.h"

enum rule { NAIVE, CHUNK, RANDOM, GREEDY };
typedef double (*key_fn)(const struct sc_table *table, double cost);

static double dim_key(const struct sc_table *t, double cost)
{
	(void)cost;
	return (double)t->dim;
}

static double size_key(const struct sc_table *t, double cost)
{
	(void)cost;
	return (double)t->rows * (double)t->dim * sc_dtype_bytes(t->dtype);
}

static double lookup_key(const struct sc_table *t, double cost)
{
	(void)cost;
	return (double)t->dim * t->pooling;
}

static double size_lookup_key(const struct sc_table *t, double cost)
{
	return lookup_key(t, cost) * log10((double)t->rows);
}

static double cost_key(const struct sc_table *t, double cost)
{
	(void)t;
	return cost;
}

const char *const sc_baseline_names[] = {"naive",
					 "chunk",
					 "random",
					 "dim_greedy",
					 "size_greedy",
					 "lookup_greedy",
					 "size_lookup_greedy",
					 "norm_lookup_greedy",
					 "lpt",
					 NULL};
static const struct {
	enum rule rule;
	key_fn key;
} BASELINES[] = {
	{NAIVE, NULL},
	{CHUNK, NULL},
	{RANDOM, NULL},
	{GREEDY, dim_key},
	{GREEDY, size_key},
	{GREEDY, lookup_key},
	{GREEDY, size_lookup_key},
	{GREEDY, lookup_key},
	{GREEDY, cost_key},
};

/* The option that is one shard of the whole table: in HBM, or else in the first tier there is. */
static const struct sc_option *whole_option(const struct sc_shard_problem *p, uint32_t table)
{
	const struct sc_option *found = NULL;

	for (uint32_t i = p->first_option.at[table]; i < p->first_option.at[table + 1]; i++) {
		const struct sc_option *o = &p->options.at[i];

		if (o->spread == SC_SPREAD_FREE && o->n_shards == 1 &&
		    (!found || o->tier < found->tier))
			found = o;
	}
	return found;
}

struct placed {
	const struct sc_option **option; /* of each table */
	double *key;
	uint32_t *order;
	int32_t *rank;
	double *sum, *hbm; /* of each rank */
};

static bool is_after(const struct placed *x, uint32_t a, uint32_t b)
{
	if (x->key[a] < x->key[b] || x->key[a] > x->key[b])
		return x->key[a] < x->key[b];
	return a > b;
}

/* By falling key, ties by table: a heap sort, since qsort has no context. */
static void sift(const struct placed *x, uint32_t *at, size_t i, size_t n)
{
	for (size_t child = 2 * i + 1; child < n; i = child, child = 2 * i + 1) {
		uint32_t kept = at[i];

		if (child + 1 < n && is_after(x, at[child + 1], at[child]))
			child++;
		if (!is_after(x, at[child], kept))
			return;
		at[i] = at[child];
		at[child] = kept;
	}
}

static void sort_tables(const struct placed *x, uint32_t *at, size_t n)
{
	for (size_t i = n / 2; i-- > 0;)
		sift(x, at, i, n);
	for (size_t end = n; end-- > 1;) {
		uint32_t last = at[end];

		at[end] = at[0];
		at[0] = last;
		sift(x, at, 0, end);
	}
}

/* The device with the least sum among those with room, ties by memory; the emptiest if none has room. */
static uint32_t choose(const struct sc_shard_problem *p, const struct placed *x, double bytes)
{
	uint32_t found = p->world, empty = 0;

	for (uint32_t r = 0; r < p->world; r++) {
		double cap = p->rank_hbm_bytes ? p->rank_hbm_bytes[r] : p->hbm_bytes;

		if (x->hbm[r] < x->hbm[empty])
			empty = r;
		if (x->hbm[r] + bytes > cap)
			continue;
		if (found == p->world || x->sum[r] < x->sum[found] ||
		    (x->sum[r] <= x->sum[found] && x->hbm[r] < x->hbm[found]))
			found = r;
	}
	return found < p->world ? found : empty;
}

static void place_greedily(const struct sc_shard_problem *p, struct placed *x)
{
	sort_tables(x, x->order, p->n_tables);
	for (size_t i = 0; i < p->n_tables; i++) {
		uint32_t table = x->order[i];
		double bytes = p->shards.at[x->option[table]->first_shard].hbm_bytes;
		uint32_t rank = choose(p, x, bytes);

		x->rank[table] = (int32_t)rank;
		x->sum[rank] += x->key[table];
		x->hbm[rank] += bytes;
	}
}

static void place(const struct sc_shard_problem *p, enum rule rule, uint64_t seed, struct placed *x)
{
	size_t block = (p->n_tables + p->world - 1) / p->world;
	struct sc_rng rng;

	sc_rng_init(&rng, seed);
	if (rule == GREEDY) {
		place_greedily(p, x);
		return;
	}
	for (size_t t = 0; t < p->n_tables; t++) {
		if (rule == NAIVE)
			x->rank[t] = (int32_t)(t % p->world);
		else if (rule == CHUNK)
			x->rank[t] = (int32_t)(t / block);
		else
			x->rank[t] = (int32_t)sc_rng_below(&rng, p->world);
	}
}

static void write_plan(const struct sc_shard_problem *p, const struct placed *x,
		       struct sc_shard_plan *plan)
{
	plan->world = p->world;
	plan->ranks_per_host = p->ranks_per_host;
	for (uint32_t t = 0; t < p->n_tables; t++) {
		const struct sc_option *o = x->option[t];
		struct sc_table_placement at = {
			.name = p->tables[t].name,
			.rows = p->tables[t].rows,
			.dim = p->tables[t].dim,
			.type = o->type,
			.tier = o->tier,
			.cache_frac = o->tier == SC_TIER_CACHED ? o->cache_frac : 0.0,
			.first_shard = t,
			.n_shards = 1};
		struct sc_shard shard = {.table = t,
					 .rank = x->rank[t],
					 .rows = p->shards.at[o->first_shard].rows,
					 .cols = p->shards.at[o->first_shard].cols};

		SC_VEC_PUSH(&plan->tables, at);
		SC_VEC_PUSH(&plan->shards, shard);
	}
}

static int find_options(const struct sc_shard_problem *p, key_fn key, struct placed *x,
			struct sc_err *err)
{
	for (uint32_t t = 0; t < p->n_tables; t++) {
		x->option[t] = whole_option(p, t);
		x->order[t] = t;
		if (!x->option[t])
			return sc_err_set(err, SC_EUNSUPPORTED,
					  "table %s has no option of one whole shard",
					  p->tables[t].name);
		if (key)
			x->key[t] =
				key(&p->tables[t], p->shards.at[x->option[t]->first_shard].cost);
	}
	return 0;
}

int sc_shard_baseline(const struct sc_shard_problem *p, const char *name, uint64_t seed,
		      struct sc_arena *arena, struct sc_shard_solution *out, struct sc_err *err)
{
	struct sc_shard_plan plan = {.world = 0};
	struct placed x = {
		.option = sc_arena_calloc(arena, p->n_tables + 1, sizeof(*x.option)),
		.key = sc_arena_calloc(arena, p->n_tables + 1, sizeof(*x.key)),
		.order = sc_arena_calloc(arena, p->n_tables + 1, sizeof(*x.order)),
		.rank = sc_arena_calloc(arena, p->n_tables + 1, sizeof(*x.rank)),
		.sum = sc_arena_calloc(arena, p->world, sizeof(*x.sum)),
		.hbm = sc_arena_calloc(arena, p->world, sizeof(*x.hbm)),
	};
	size_t i = 0;
	int rc;

	while (sc_baseline_names[i] && strcmp(sc_baseline_names[i], name) != 0)
		i++;
	if (!sc_baseline_names[i])
		return sc_err_set(err, SC_EVALUE, "unknown baseline \"%s\"", name);
	rc = find_options(p, BASELINES[i].key, &x, err);
	if (rc)
		return rc;
	place(p, BASELINES[i].rule, seed, &x);
	write_plan(p, &x, &plan);
	rc = sc_shard_rate(p, &plan, true, arena, out, err);
	sc_shard_plan_release(&plan);
	return rc;
}
