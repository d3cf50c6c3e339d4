/* Ways to make a plan, by name. The sharders of papers are those of Lin et al. 2024 and the
 * baselines of DreamShard and NeuroShard; "chunk" and "norm_lookup_greedy" are known by name only:
 * their definitions here are assumed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/search.h"
#include "predict/dlrm/dlrm.h"
#include "study/shard/shard_ledger.h"
#include "study/shard/shard_objective.h"

/* distributed-embeddings' benchmarks run with this threshold (README: --column_slice_threshold 1280
 * Mi). */
#define SLICE_ELEMENTS (1280 * 1048576.0)

/* ---- our search, exchanges weighted and types left out ---- */

struct weighted {
	const struct sc_shard_problem *problem;
	double exchange;
};

static void weigh_exchange(struct sc_option_shard *shard, double exchange)
{
	shard->cost += (exchange - 1) * shard->comms;
	shard->comms *= exchange;
}

static bool weighted_columns(const void *ctx, uint32_t table, enum sc_tier tier, int64_t cols,
			     struct sc_option_shard *out)
{
	const struct weighted *w = ctx;

	if (!w->problem->column_cost(w->problem->column_ctx, table, tier, cols, out))
		return false;
	weigh_exchange(out, w->exchange);
	return true;
}

static void forbid(struct sc_shard_problem *p, unsigned types, struct sc_arena *arena)
{
	size_t n = p->n_constraints;
	struct sc_shard_constraint *all =
		sc_arena_calloc(arena, n + SC_N_SHARD_TYPES * p->n_tables + 1, sizeof(*all));

	for (size_t i = 0; i < n; i++)
		all[i] = p->constraints[i];
	for (int type = 0; type < SC_N_SHARD_TYPES; type++) {
		for (uint32_t t = 0; types >> type & 1 && t < p->n_tables; t++)
			all[n++] = (struct sc_shard_constraint){.kind = SC_FORBID,
								.table = t,
								.rank = -1,
								.type = type,
								.tier = -1};
	}
	p->constraints = all;
	p->n_constraints = n;
	if (types >> SC_COLUMN_WISE & 1)
		p->column_cost = NULL;
}

static int make_search(const struct sc_start *start, const struct sc_start_ask *ask,
		       struct sc_made_plan *out, struct sc_err *err)
{
	struct weighted w = {ask->problem,
			     start->exchange * (ask->exchange > 0 ? ask->exchange : 1)};
	struct sc_shard_problem own = *ask->problem;
	struct sc_shard_solution found = {.cost = 0};
	bool is_weighted = fabs(w.exchange - 1) > 0;
	int rc;

	if (is_weighted) {
		memset(&own.shards, 0, sizeof(own.shards));
		for (size_t i = 0; i < w.problem->shards.n; i++) {
			struct sc_option_shard shard = w.problem->shards.at[i];

			weigh_exchange(&shard, w.exchange);
			SC_VEC_PUSH(&own.shards, shard);
		}
		own.column_cost = own.column_cost ? weighted_columns : NULL;
		own.column_ctx = &w;
	}
	if (start->without)
		forbid(&own, start->without, ask->arena);
	rc = sc_shard_solve(&own, ask->solve, ask->arena, &found, err);
	if (is_weighted)
		SC_VEC_RELEASE(&own.shards);
	out->plan = found.plan;
	return rc;
}

/* ---- piece by piece on the rank with the least so far ---- */

/* A piece is a table, or a slice of its columns. */
struct piece {
	uint32_t table;
	int64_t col_offset, cols;
	double key, bytes;
	int32_t rank; /* result */
};
struct greedy {
	uint32_t world;
	size_t max_pieces; /* of a rank; 0: any number */
	/* The memory of each rank in bytes, or NULL: memory does not matter. Of ranks with equal
	 * keys the emptier is taken, and the emptiest of all where none has room. */
	const double *room;
};

SC_COMPARE(by_table, struct piece,
	   2 * SC_ORDER(a->table, b->table) + SC_ORDER(a->col_offset, b->col_offset));

SC_COMPARE(by_key_descending, struct piece, 4 * SC_ORDER(b->key, a->key) + by_table(a, b));

static uint32_t least_loaded(const struct greedy *how, const struct sc_ledger *used,
			     const size_t *n_pieces, const struct sc_option_shard *next)
{
	uint32_t found = how->world, empty = 0;

	for (uint32_t r = 0; r < how->world; r++) {
		if (used->hbm[r] < used->hbm[empty])
			empty = r;
		if ((how->max_pieces && n_pieces[r] >= how->max_pieces) ||
		    !sc_ledger_fits(used, next, r))
			continue;
		if (found == how->world || used->cost[r] < used->cost[found] ||
		    (how->room && used->cost[r] <= used->cost[found] &&
		     used->hbm[r] < used->hbm[found]))
			found = r;
	}
	return found < how->world ? found : empty;
}

/* Places the pieces of most key first, and leaves them in the order of tables. */
static void place_greedily(const struct greedy *how, struct piece *pieces, size_t n,
			   struct sc_arena *arena)
{
	struct sc_ledger used = {.n_ranks = how->world, .per_pool = 1, .hbm_cap = how->room};
	size_t *n_pieces = sc_arena_calloc(arena, how->world, sizeof(*n_pieces));

	sc_ledger_init(&used, arena);
	SC_SORT(pieces, n, by_key_descending);
	for (size_t i = 0; i < n; i++) {
		const struct sc_option_shard next = {.cost = pieces[i].key,
						     .hbm_bytes = pieces[i].bytes};
		uint32_t rank = least_loaded(how, &used, n_pieces, &next);

		pieces[i].rank = (int32_t)rank;
		sc_ledger_add(&used, &next, rank);
		n_pieces[rank]++;
	}
	SC_SORT(pieces, n, by_table);
}

/* ---- whole tables of the problem ---- */

/* The factors of what a greedy placement balances. */
enum {
	POOLING = 1 << 0,
	FEATURES = 1 << 1,
	DIM = 1 << 2,
	ROWS = 1 << 3,
	LOG_ROWS = 1 << 4,
	BYTES = 1 << 5,
	COST = 1 << 6
};

static double key_of(const struct sc_start *start, const struct sc_table *t, double cost)
{
	const double factors[] = {t->pooling,
				  (double)t->features,
				  (double)t->dim,
				  (double)t->rows,
				  log10((double)t->rows),
				  sc_dtype_bytes(t->dtype),
				  cost};
	double product = 1;

	for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++)
		product *= start->key >> i & 1 ? factors[i] : 1;
	return product;
}

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

static int make_whole(const struct sc_start *start, const struct sc_start_ask *ask,
		      struct sc_made_plan *out, struct sc_err *err)
{
	const struct sc_shard_problem *p = ask->problem;
	size_t n = p->n_tables, block = (n + p->world - 1) / p->world;
	struct piece *pieces = sc_arena_calloc(ask->arena, n + 1, sizeof(*pieces));
	uint32_t *option = sc_arena_calloc(ask->arena, n + 1, sizeof(*option));
	double *room = sc_arena_calloc(ask->arena, p->world, sizeof(*room));
	bool is_naive = strcmp(start->name, "naive") == 0, is_chunk = !strcmp(start->name, "chunk");
	struct sc_rng rng;

	sc_rng_init(&rng, ask->solve->seed);
	for (uint32_t t = 0; t < n; t++) {
		const struct sc_option *whole = whole_option(p, t);

		if (!whole)
			return sc_err_set(err, SC_EUNSUPPORTED,
					  "table %s has no option of one whole shard",
					  p->tables[t].name);
		option[t] = (uint32_t)(whole - p->options.at);
		pieces[t] = (struct piece){
			.table = t,
			.bytes = p->shards.at[whole->first_shard].hbm_bytes,
			.key = key_of(start, &p->tables[t], p->shards.at[whole->first_shard].cost),
			.rank = (int32_t)(is_naive   ? t % p->world
					  : is_chunk ? t / block
						     : sc_rng_below(&rng, p->world)),
		};
	}
	for (uint32_t r = 0; r < p->world; r++)
		room[r] = sc_rank_budget(p, r);
	if (start->key)
		place_greedily(&(struct greedy){.world = p->world, .room = room}, pieces, n,
			       ask->arena);
	out->plan.world = p->world;
	out->plan.ranks_per_host = p->ranks_per_host;
	for (uint32_t t = 0; t < n; t++)
		sc_plan_add_option(&out->plan, p, option[t], &pieces[t].rank);
	return 0;
}

/* ---- planners of other programs, under their own costs ---- */

/* HugeCTR 2.2's LocalizedSlotSparseEmbeddingOneHot, before parts of vectors were added up: table i
 * whole on GPU i mod n. */
static void deal_whole(const struct sc_table_list *tables, uint32_t gpus, struct sc_shard_plan *out)
{
	for (size_t i = 0; i < tables->n; i++) {
		const struct sc_table *t = &tables->at[i];

		sc_plan_begin_table(out, t, SC_TABLE_WISE);
		sc_plan_add_shard(out, &(struct sc_shard){.rank = (int32_t)(i % gpus),
							  .rows = t->rows,
							  .cols = t->dim});
	}
}

/* HugeCTR's recipes choose the hybrid embedding for tables with one lookup a sample; it steps by
 * SGD alone. */
static bool is_hybrid(const struct sc_request *request, const struct sc_table_list *tables)
{
	size_t n = 0;

	while (n < tables->n && sc_hybrid_takes(&tables->at[n]))
		n++;
	return n == tables->n && request->config.training.optimizer == SC_OPT_SGD &&
	       request->config.gpus > 1 && request->software.dlrm.partial_sums;
}

static int make_hugectr(const struct sc_start *start, const struct sc_start_ask *ask,
			struct sc_made_plan *out, struct sc_err *err)
{
	struct sc_hugectr_opts opts;
	struct sc_table_list tables;

	(void)start;
	sc_dlrm_tables(ask->request, ask->arena, &tables);
	sc_hugectr_opts_of(ask->request, &opts);
	if (ask->request->software.dlrm.embedding_kernel == SC_KERNEL_HUGECTR &&
	    !ask->request->software.dlrm.partial_sums) {
		out->plan.world = opts.gpus;
		out->plan.ranks_per_host = opts.gpus_per_node;
		deal_whole(&tables, opts.gpus, &out->plan);
		return 0;
	}
	if (is_hybrid(ask->request, &tables)) {
		const struct sc_hybrid_opts hybrid = {
			(double)ask->request->config.training.global_batch, opts.gpus,
			opts.gpus_per_node};

		sc_hybrid_plan(&hybrid, &tables, ask->arena, &out->plan);
		return 0;
	}
	return sc_hugectr_plan(&opts, &tables, ask->arena, &out->plan, err);
}

static int make_torchrec(const struct sc_start *start, const struct sc_start_ask *ask,
			 struct sc_made_plan *out, struct sc_err *err)
{
	struct sc_shard_solution solution = {.cost = 0};
	struct sc_torchrec_topology topology;
	struct sc_shard_problem problem;
	struct sc_table_list tables;
	int rc = sc_shard_check_size(&ask->request->config.model, err);

	(void)start;
	if (rc)
		return rc;
	sc_dlrm_tables(ask->request, ask->arena, &tables);
	sc_torchrec_topology_of(ask->request, ask->device_constants, &topology);
	rc = sc_torchrec_problem(&topology, &tables, ask->arena, &problem, err);
	if (rc)
		return rc;
	rc = sc_torchrec_plan(&problem, ask->solve ? ask->solve->watch : NULL, ask->arena,
			      &solution, err);
	out->plan = solution.plan;
	out->cut_short_tables = solution.cut_short ? tables.n : 0;
	sc_shard_problem_release(&problem);
	return rc;
}

/* Tables above the threshold are halved until below it (distributed-embeddings), into at most as
 * many slices as ranks. NVIDIA's DLRM in PyTorch has none: distribute_to_buckets takes whole
 * tables. */
static int64_t n_slices(const struct sc_request *request, const struct sc_table *t)
{
	double limit = request->config.sharding.column_slice_elements;
	double elements = (double)t->rows * (double)t->dim;
	int64_t n = 1;

	if (!(limit > 0))
		limit = sc_dlrm_one_rank_bottom(request) ? HUGE_VAL : SLICE_ELEMENTS;
	while (elements / (double)n > limit && 2 * n <= request->config.gpus &&
	       t->dim % (2 * n) == 0)
		n *= 2;
	return n;
}

enum { FEW_RANKS = 5 };

/* Balances memory (distributed-embeddings) or lookups (NVIDIA's DLRM). Exchanges go by the rank
 * with most pieces, so both keep counts even. */
static int make_sliced(const struct sc_start *start, const struct sc_start_ask *ask,
		       struct sc_made_plan *out, struct sc_err *err)
{
	const struct sc_request *req = ask->request;
	/* NVIDIA's DLRM in PyTorch gives one of 5 ranks or more to the bottom MLP alone
	 * (get_device_mapping of dlrm/utils/distributed.py). */
	const uint32_t apart = sc_dlrm_one_rank_bottom(req) && req->config.gpus >= FEW_RANKS;
	struct greedy how = {.world = (uint32_t)req->config.gpus - apart};
	size_t n = 0;
	struct sc_table_list tables;
	struct piece *pieces;

	(void)err;
	sc_dlrm_tables(req, ask->arena, &tables);
	for (size_t i = 0; i < tables.n; i++)
		n += (size_t)n_slices(req, &tables.at[i]);
	pieces = sc_arena_calloc(ask->arena, n + 1, sizeof(*pieces));
	n = 0;
	for (size_t i = 0; i < tables.n; i++) {
		const struct sc_table *t = &tables.at[i];
		int64_t slices = n_slices(req, t), cols = t->dim / slices;

		for (int64_t s = 0; s < slices; s++)
			pieces[n++] = (struct piece){.table = (uint32_t)i,
						     .col_offset = s * cols,
						     .cols = cols,
						     .key = key_of(start, t, 0) / (double)slices};
	}
	how.max_pieces = (n + how.world - 1) / how.world;
	place_greedily(&how, pieces, n, ask->arena);
	out->plan.world = how.world + apart;
	out->plan.ranks_per_host = sc_dlrm_ranks_together(req);
	for (size_t i = 0; i < n; i++) {
		const struct sc_table *t = &tables.at[pieces[i].table];

		if (pieces[i].col_offset == 0)
			sc_plan_begin_table(&out->plan, t,
					    pieces[i].cols < t->dim ? SC_COLUMN_WISE
								    : SC_TABLE_WISE);
		sc_plan_add_shard(&out->plan,
				  &(struct sc_shard){.rank = pieces[i].rank + (int32_t)apart,
						     .col_offset = pieces[i].col_offset,
						     .rows = t->rows,
						     .cols = pieces[i].cols});
	}
	return 0;
}

enum {
	ROW_SLICES = 1 << SC_ROW_WISE | 1 << SC_TABLE_ROW_WISE,
	COLUMN_SLICES = 1 << SC_COLUMN_WISE | 1 << SC_TABLE_COLUMN_WISE,
	FEW = 4096,
	MANY = 1000000
};
#define SEARCH(name_, exchange_, without_, most)                                       \
	{                                                                              \
		.name = name_, .is_search = true, .begins = true, .make = make_search, \
		.exchange = exchange_, .without = without_, .max_cells = most          \
	}
#define OTHER(name_, make_, key_, most)                                                            \
	{                                                                                          \
		.name = name_, .make = make_, .key = key_, .begins = (most) > 0, .max_cells = most \
	}
const struct sc_start sc_starts[] = {
	SEARCH("search", 1, 0, 0),
	SEARCH("search, no replicas", 1, 1 << SC_DATA_PARALLEL, MANY),
	SEARCH("search, no row slices", 1, ROW_SLICES, MANY),
	SEARCH("search, no column slices", 1, COLUMN_SLICES, 0),
	SEARCH("search, exchanges hidden", 0.3, 0, FEW),
	SEARCH("search, exchanges first", 3, 0, FEW),
	OTHER("naive", make_whole, 0, 0),
	OTHER("chunk", make_whole, 0, 0),
	OTHER("random", make_whole, 0, 0),
	OTHER("dim_greedy", make_whole, DIM, 0),
	OTHER("size_greedy", make_whole, DIM | ROWS | BYTES, 0),
	OTHER("lookup_greedy", make_whole, POOLING | DIM, 0),
	OTHER("size_lookup_greedy", make_whole, POOLING | DIM | LOG_ROWS, 0),
	OTHER("norm_lookup_greedy", make_whole, POOLING | DIM, 0),
	OTHER("lpt", make_whole, COST, 0),
	OTHER("torchrec", make_torchrec, 0, FEW),
	OTHER("hugectr", make_hugectr, 0, MANY),
	OTHER("memory_balanced", make_sliced, DIM | ROWS, MANY),
	OTHER("lookups", make_sliced, POOLING | FEATURES | DIM, MANY),
	{0},
};

const struct sc_start *sc_start_find(const char *name)
{
	for (const struct sc_start *s = sc_starts; s->name; s++)
		if (strcmp(s->name, name) == 0)
			return s;
	return NULL;
}
