/* How planners and papers place whole tables, for comparison (the sharders of Lin et al. 2024 and the
 * baselines of DreamShard and NeuroShard). "chunk" and "norm_lookup_greedy" are known by name only: their
 * definitions here are assumed. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "study/shard/shard.h"
#include "study/shard/shard_greedy.h"

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

static int find_pieces(const struct sc_shard_problem *p, key_fn key, struct sc_piece *pieces,
		       uint32_t *option, struct sc_err *err)
{
	for (uint32_t t = 0; t < p->n_tables; t++) {
		const struct sc_option *whole = whole_option(p, t);
		const struct sc_option_shard *shard;

		if (!whole)
			return sc_err_set(err, SC_EUNSUPPORTED,
					  "table %s has no option of one whole shard",
					  p->tables[t].name);
		option[t] = (uint32_t)(whole - p->options.at);
		shard = &p->shards.at[whole->first_shard];
		pieces[t] = (struct sc_piece){
			.table = t,
			.bytes = shard->hbm_bytes,
			.key = key ? key(&p->tables[t], shard->cost) : 0,
		};
	}
	return 0;
}

static void place(const struct sc_shard_problem *p, enum rule rule, uint64_t seed,
		  struct sc_piece *pieces)
{
	size_t block = (p->n_tables + p->world - 1) / p->world;
	struct sc_rng rng;

	sc_rng_init(&rng, seed);
	for (size_t t = 0; t < p->n_tables; t++) {
		if (rule == NAIVE)
			pieces[t].rank = (int32_t)(t % p->world);
		else if (rule == CHUNK)
			pieces[t].rank = (int32_t)(t / block);
		else
			pieces[t].rank = (int32_t)sc_rng_below(&rng, p->world);
	}
}

static void place_greedily(const struct sc_shard_problem *p, struct sc_arena *arena,
			   struct sc_piece *pieces)
{
	double *room = sc_arena_calloc(arena, p->world, sizeof(*room));

	for (uint32_t r = 0; r < p->world; r++)
		room[r] = sc_rank_budget(p, r);
	sc_place_greedily(&(struct sc_greedy){.world = p->world, .room = room}, pieces,
			  p->n_tables);
}

int sc_shard_baseline(const struct sc_shard_problem *p, const char *name, uint64_t seed,
		      struct sc_arena *arena, struct sc_shard_solution *out, struct sc_err *err)
{
	struct sc_shard_plan plan = {.world = p->world, .ranks_per_host = p->ranks_per_host};
	struct sc_piece *pieces = sc_arena_calloc(arena, p->n_tables + 1, sizeof(*pieces));
	uint32_t *option = sc_arena_calloc(arena, p->n_tables + 1, sizeof(*option));
	int32_t *rank = sc_arena_calloc(arena, p->n_tables + 1, sizeof(*rank));
	size_t i = 0;
	int rc;

	while (sc_baseline_names[i] && strcmp(sc_baseline_names[i], name) != 0)
		i++;
	if (!sc_baseline_names[i])
		return sc_err_set(err, SC_EVALUE, "unknown baseline \"%s\"", name);
	rc = find_pieces(p, BASELINES[i].key, pieces, option, err);
	if (rc)
		return rc;
	if (BASELINES[i].rule == GREEDY)
		place_greedily(p, arena, pieces);
	else
		place(p, BASELINES[i].rule, seed, pieces);
	for (uint32_t t = 0; t < p->n_tables; t++)
		rank[pieces[t].table] = pieces[t].rank;
	for (uint32_t t = 0; t < p->n_tables; t++)
		sc_plan_add_option(&plan, p, option[t], &rank[t]);
	rc = sc_shard_rate(p, &plan, true, arena, out, err);
	sc_shard_plan_release(&plan);
	return rc;
}
