/* HugeCTR's sharding planner of MLPerf DLRM-DCNv2 (samples/dlrm/sharding of NVIDIA-Merlin/HugeCTR
 * 2f2016fa), with its printed costs: small tables are data parallel; the others go, from the
 * hottest down, to the GPU that costs least; then the hottest shard is halved and all are placed
 * again, 20 times. Ties go by the tables' numbers; in HugeCTR they are as NumPy 1.24's unstable
 * sort leaves them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/units.h"
#include "study/shard/shard_ledger.h"

enum { MAX_ITERATIONS = 20 };       /* max_search_iter */
static const double WORK_RATIO = 4; /* mem_comm_work_ratio */

struct piece {
	double hotness;
	uint32_t table;
	size_t place; /* its place before the sort */
};
/* The tables that each bucket has; a bucket is a GPU, or a node. */
struct matrix {
	bool *has;         /* [bucket][table] */
	uint32_t *n;       /* shards of each bucket */
	uint32_t *n_split; /* of each table */
	double cost;       /* of the costliest bucket */
};
struct planner {
	uint32_t n_tables, n_buckets, gpus_per_bucket;
	double *hotness, *gb; /* of each table, whole */
	bool *replicated;
	double shard_cost; /* of a shard, beside its hotness */
	struct piece *pieces;
	size_t n_pieces;
	struct sc_ledger used; /* by bucket: hotness, and GB of what is not replicated */
	double *bucket_gb;     /* each bucket's */
	struct matrix now, best;
};

static bool *at(const struct planner *p, const struct matrix *m, uint32_t bucket, uint32_t table)
{
	return m->has + (size_t)bucket * p->n_tables + table;
}

static void alloc_matrix(const struct planner *p, struct sc_arena *arena, struct matrix *m)
{
	m->has = sc_arena_calloc(arena, (size_t)p->n_buckets * p->n_tables, sizeof(*m->has));
	m->n = sc_arena_calloc(arena, p->n_buckets, sizeof(*m->n));
	m->n_split = sc_arena_calloc(arena, p->n_tables, sizeof(*m->n_split));
}

SC_COMPARE(hottest_first, struct piece,
	   2 * SC_ORDER(b->hotness, a->hotness) + SC_ORDER(b->place, a->place));

static void sort_pieces(struct planner *p)
{
	for (size_t i = 0; i < p->n_pieces; i++)
		p->pieces[i].place = i;
	SC_SORT(p->pieces, p->n_pieces, hottest_first);
}

static bool can_split(const struct planner *p, uint32_t table)
{
	return p->now.n_split[table] * 2 <= p->n_buckets;
}

/* Halves the pieces of a table; the caller sorts. */
static void split(struct planner *p, uint32_t table)
{
	uint32_t n = p->now.n_split[table] *= 2;
	size_t n_kept = 0;

	for (size_t i = 0; i < p->n_pieces; i++)
		if (p->pieces[i].table != table)
			p->pieces[n_kept++] = p->pieces[i];
	p->n_pieces = n_kept;
	for (uint32_t i = 0; i < n; i++)
		p->pieces[p->n_pieces++] =
			(struct piece){.hotness = p->hotness[table] / n, .table = table};
}

static double bucket_cost(const struct planner *p, uint32_t bucket)
{
	return p->used.cost[bucket] + p->shard_cost * p->now.n[bucket];
}

/* Places a piece in the cheapest bucket that lacks the table and has room. */
static bool place_piece(struct planner *p, uint32_t table)
{
	struct matrix *m = &p->now;
	const struct sc_option_shard piece = {.cost = p->hotness[table] / m->n_split[table],
					      .hbm_bytes = p->gb[table] / m->n_split[table]};
	uint32_t best = p->n_buckets;

	for (uint32_t i = 0; i < p->n_buckets; i++)
		if (sc_ledger_fits(&p->used, &piece, i) && !*at(p, m, i, table) &&
		    (best == p->n_buckets || bucket_cost(p, i) < bucket_cost(p, best)))
			best = i;
	if (best == p->n_buckets)
		return false;
	*at(p, m, best, table) = true;
	m->n[best]++;
	sc_ledger_add(&p->used, &piece, best);
	return true;
}

/* Returns the table that fits nowhere, or n_tables. */
static uint32_t place_all(struct planner *p)
{
	memset(p->now.has, 0, (size_t)p->n_buckets * p->n_tables * sizeof(*p->now.has));
	memset(p->now.n, 0, p->n_buckets * sizeof(*p->now.n));
	sc_ledger_clear(&p->used);
	for (size_t i = 0; i < p->n_pieces; i++)
		if (!place_piece(p, p->pieces[i].table))
			return p->pieces[i].table;
	p->now.cost = 0;
	for (uint32_t i = 0; i < p->n_buckets; i++)
		p->now.cost = fmax(p->now.cost, bucket_cost(p, i));
	return p->n_tables;
}

static void search(struct planner *p)
{
	for (int i = 0; i < MAX_ITERATIONS; i++) {
		uint32_t left_out = place_all(p);
		size_t k = 0;

		if (left_out == p->n_tables && p->now.cost < p->best.cost) {
			struct matrix was = p->best;

			p->best = p->now;
			p->now = was;
			memcpy(p->now.n_split, p->best.n_split,
			       p->n_tables * sizeof(*p->now.n_split));
		}
		if (left_out < p->n_tables && !can_split(p, left_out))
			return;
		while (left_out == p->n_tables && k < p->n_pieces &&
		       !can_split(p, p->pieces[k].table))
			k++; /* to the hottest */
		if (left_out < p->n_tables || k < p->n_pieces)
			split(p, left_out < p->n_tables ? left_out : p->pieces[k].table);
		sort_pieces(p);
	}
}

/* The planner begins with every table split over all buckets, which takes the least memory, and
 * with the pieces whole. */
static int start(struct planner *p, double dp_threshold_gb, struct sc_err *err)
{
	double replicated_gb = 0, gb = 0;

	p->best.cost = p->shard_cost * p->n_tables;
	memset(p->best.has, true, (size_t)p->n_buckets * p->n_tables);
	for (uint32_t b = 0; b < p->n_buckets; b++)
		p->best.n[b] = p->n_tables;
	for (uint32_t t = 0; t < p->n_tables; t++) {
		p->best.n_split[t] = p->n_buckets;
		p->best.cost += p->hotness[t] / p->n_buckets;
		gb += p->gb[t] / p->n_buckets;
		p->replicated[t] = p->gb[t] < dp_threshold_gb;
		if (p->replicated[t]) {
			replicated_gb += p->gb[t];
			continue;
		}
		p->now.n_split[t] = 1;
		p->pieces[p->n_pieces++] = (struct piece){.hotness = p->hotness[t], .table = t};
	}
	if (gb > *p->bucket_gb)
		return sc_err_set(err, SC_ECONFLICT,
				  "split over all, the tables take %.1f GB of each, which has "
				  "%.1f GB; give more GPUs or memory",
				  gb, *p->bucket_gb);
	for (uint32_t b = 0; b < p->n_buckets; b++)
		p->bucket_gb[b] -= replicated_gb;
	if (*p->bucket_gb < 0)
		return sc_err_set(
			err, SC_ECONFLICT,
			"the data-parallel tables take %.1f GB, more than there is; lower "
			"the threshold under which tables are data parallel",
			replicated_gb);
	sort_pieces(p);
	return 0;
}

static void init(struct planner *p, const struct sc_hugectr_opts *opts,
		 const struct sc_table_list *tables, struct sc_arena *arena)
{
	size_t n = tables->n, n_pieces;
	double factor = opts->optimizer_factor > 0 ? opts->optimizer_factor : 1;

	*p = (struct planner){
		.n_tables = (uint32_t)n,
		.gpus_per_bucket = opts->hierarchical ? opts->gpus_per_node : 1,
		.shard_cost = opts->bw_ratio / WORK_RATIO,
		.hotness = sc_arena_calloc(arena, n, sizeof(double)),
		.gb = sc_arena_calloc(arena, n, sizeof(double)),
		.replicated = sc_arena_calloc(arena, n, sizeof(bool)),
	};
	p->n_buckets = opts->gpus / p->gpus_per_bucket;
	p->bucket_gb = sc_arena_calloc(arena, p->n_buckets, sizeof(double));
	for (uint32_t b = 0; b < p->n_buckets; b++)
		p->bucket_gb[b] = opts->hbm_bytes > 0
					  ? opts->hbm_bytes * p->gpus_per_bucket / SC_BYTES_PER_GB
					  : HUGE_VAL;
	p->used =
		(struct sc_ledger){.n_ranks = p->n_buckets, .per_pool = 1, .hbm_cap = p->bucket_gb};
	sc_ledger_init(&p->used, arena);
	n_pieces = n + (size_t)MAX_ITERATIONS * p->n_buckets;
	p->pieces = sc_arena_calloc(arena, n_pieces, sizeof(*p->pieces));
	alloc_matrix(p, arena, &p->now);
	alloc_matrix(p, arena, &p->best);
	for (size_t t = 0; t < n; t++) {
		const struct sc_table *table = &tables->at[t];

		p->hotness[t] = (double)table->features * table->pooling;
		p->gb[t] = sc_table_bytes(table) * factor / SC_BYTES_PER_GB;
	}
}

/* HugeCTR deals a table's rows out one by one; a plan says how many each GPU has. */
static void add_placed_table(const struct planner *p, const struct sc_table *table, uint32_t index,
			     int32_t *gpus, struct sc_shard_plan *out)
{
	uint32_t local = out->ranks_per_host;
	size_t n = 0;

	if (p->replicated[index]) {
		sc_plan_begin_table(out, table, SC_DATA_PARALLEL);
		sc_plan_add_replicas(out);
		return;
	}
	for (uint32_t gpu = 0; gpu < out->world; gpu++)
		if (*at(p, &p->best, gpu / p->gpus_per_bucket, index))
			gpus[n++] = (int32_t)gpu;
	sc_plan_begin_table(out, table,
			    n == 1 ? SC_TABLE_WISE
			    : n < out->world && (uint32_t)gpus[0] / local ==
							(uint32_t)gpus[n - 1] / local
				    ? SC_TABLE_ROW_WISE
				    : SC_ROW_WISE);
	sc_plan_add_rows(out, gpus, n, 0, table->dim);
}

/* HugeCTR refuses a plan in which a GPU would have no table. */
static int check_used(const struct planner *p, struct sc_err *err)
{
	for (uint32_t t = 0; t < p->n_tables; t++)
		if (p->replicated[t])
			return 0;
	for (uint32_t b = 0; b < p->n_buckets; b++)
		if (p->best.n[b] == 0)
			return sc_err_set(
				err, SC_ECONFLICT,
				"HugeCTR's planner leaves GPU %u without a table, which it "
				"does not allow; use fewer GPUs",
				b * p->gpus_per_bucket);
	return 0;
}

int sc_hugectr_plan(const struct sc_hugectr_opts *opts, const struct sc_table_list *tables,
		    struct sc_arena *arena, struct sc_shard_plan *out, struct sc_err *err)
{
	struct sc_shard_plan plan = {.world = opts->gpus, .ranks_per_host = opts->gpus_per_node};
	struct planner p;
	int32_t *gpus = sc_arena_calloc(arena, opts->gpus, sizeof(*gpus));
	int rc;

	init(&p, opts, tables, arena);
	rc = start(&p, opts->dp_threshold_gb, err);
	if (rc)
		return rc;
	search(&p);
	rc = check_used(&p, err);
	if (rc)
		return rc;
	for (uint32_t t = 0; t < p.n_tables; t++)
		add_placed_table(&p, &tables->at[t], t, gpus, &plan);
	*out = plan;
	return 0;
}
