/* HugeCTR's sharding planner of MLPerf DLRM-DCNv2 (samples/dlrm/sharding of NVIDIA-Merlin/HugeCTR
 * 2f2016fa), with its printed costs: small tables are data parallel; the others go, from the hottest down,
 * to the GPU that costs least; then the hottest shard is halved and all are placed again, 20 times.
 * Ties go by the tables' numbers; there, as NumPy 1.24's unstable sort leaves them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "core/graph/op.h"
#include "study/shard/shard.h"

enum { MAX_ITERATIONS = 20 };       /* max_search_iter */
static const double WORK_RATIO = 4; /* mem_comm_work_ratio */

struct piece {
	double hotness;
	uint32_t table;
};
/* A shard matrix: which tables each bucket (a GPU, or a node) has, in the order of placing. */
struct matrix {
	uint32_t *table;   /* n_buckets rows of n_tables */
	uint32_t *n;       /* of each bucket */
	uint32_t *n_split; /* of each table */
	double cost;       /* of the costliest bucket */
};
/* Buckets by table, rising: those of table t from first[t] to first[t + 1]. */
struct holders {
	uint32_t *first, *bucket;
};
/* To be sorted: HugeCTR's order of equal keys is that of NumPy's unstable sort, ours by index. */
struct keyed {
	double key;
	size_t index;
};
struct planner {
	uint32_t n_tables, n_buckets, gpus_per_bucket;
	double *hotness, *gb; /* of each table, whole */
	bool *replicated;
	double shard_cost; /* of a shard, beside its hotness */
	double bucket_gb;  /* that a bucket has for what is not replicated */
	struct piece *pieces, *sorted;
	size_t n_pieces;
	double *bucket_cost;
	double *bucket_hotness, *bucket_used_gb; /* so far, in the order of placing */
	struct keyed *order;
	struct matrix now, best;
	struct holders holders; /* of `best` */
};

static uint32_t *bucket_tables(const struct planner *p, const struct matrix *m, uint32_t bucket)
{
	return m->table + (size_t)bucket * p->n_tables;
}

/* Sum over a bucket's shards of what their tables have, each its part. */
static double sum_parts(const struct planner *p, const struct matrix *m, uint32_t bucket,
			const double *whole)
{
	const uint32_t *tables = bucket_tables(p, m, bucket);
	double sum = 0;

	for (uint32_t i = 0; i < m->n[bucket]; i++)
		sum += whole[tables[i]] / m->n_split[tables[i]];
	return sum;
}

static double bucket_cost(const struct planner *p, const struct matrix *m, uint32_t bucket)
{
	return sum_parts(p, m, bucket, p->hotness) + p->shard_cost * m->n[bucket];
}

static void alloc_matrix(const struct planner *p, struct sc_arena *arena, struct matrix *m)
{
	m->table = sc_arena_calloc(arena, (size_t)p->n_buckets * p->n_tables, sizeof(*m->table));
	m->n = sc_arena_calloc(arena, p->n_buckets, sizeof(*m->n));
	m->n_split = sc_arena_calloc(arena, p->n_tables, sizeof(*m->n_split));
}

static int by_key(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;

	if (x->key < y->key || x->key > y->key)
		return x->key > y->key ? 1 : -1;
	return x->index < y->index ? -1 : 1;
}

/* The hottest first. */
static void sort_pieces(struct planner *p)
{
	for (size_t i = 0; i < p->n_pieces; i++)
		p->order[i] = (struct keyed){p->pieces[i].hotness, i};
	qsort(p->order, p->n_pieces, sizeof(*p->order), by_key);
	for (size_t i = 0; i < p->n_pieces; i++)
		p->sorted[i] = p->pieces[p->order[p->n_pieces - 1 - i].index];
	memcpy(p->pieces, p->sorted, p->n_pieces * sizeof(*p->pieces));
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
		p->pieces[p->n_pieces++] = (struct piece){p->hotness[table] / n, table};
}

static bool has_table(const struct planner *p, const struct matrix *m, uint32_t bucket,
		      uint32_t table)
{
	const uint32_t *tables = bucket_tables(p, m, bucket);

	for (uint32_t i = 0; i < m->n[bucket]; i++)
		if (tables[i] == table)
			return true;
	return false;
}

/* In the cheapest bucket that lacks the table and has room. */
static bool place_piece(struct planner *p, uint32_t table)
{
	struct matrix *m = &p->now;
	double gb = p->gb[table] / m->n_split[table];

	for (uint32_t i = 0; i < p->n_buckets; i++)
		p->order[i] = (struct keyed){p->bucket_cost[i], i};
	qsort(p->order, p->n_buckets, sizeof(*p->order), by_key);
	for (uint32_t i = 0; i < p->n_buckets; i++) {
		uint32_t bucket = (uint32_t)p->order[i].index;

		if (p->bucket_used_gb[bucket] + gb > p->bucket_gb ||
		    (m->n_split[table] > 1 && has_table(p, m, bucket, table)))
			continue;
		bucket_tables(p, m, bucket)[m->n[bucket]++] = table;
		p->bucket_used_gb[bucket] += gb;
		p->bucket_hotness[bucket] += p->hotness[table] / m->n_split[table];
		p->bucket_cost[bucket] = p->bucket_hotness[bucket] + p->shard_cost * m->n[bucket];
		return true;
	}
	return false;
}

/* Returns the table that fits nowhere, or n_tables. */
static uint32_t place_all(struct planner *p)
{
	memset(p->now.n, 0, p->n_buckets * sizeof(*p->now.n));
	memset(p->bucket_cost, 0, p->n_buckets * sizeof(*p->bucket_cost));
	memset(p->bucket_hotness, 0, p->n_buckets * sizeof(*p->bucket_hotness));
	memset(p->bucket_used_gb, 0, p->n_buckets * sizeof(*p->bucket_used_gb));
	for (size_t i = 0; i < p->n_pieces; i++)
		if (!place_piece(p, p->pieces[i].table))
			return p->pieces[i].table;
	p->now.cost = 0;
	for (uint32_t i = 0; i < p->n_buckets; i++)
		p->now.cost = fmax(p->now.cost, p->bucket_cost[i]);
	return p->n_tables;
}

static void search(struct planner *p)
{
	for (int i = 0; i < MAX_ITERATIONS; i++) {
		uint32_t left_out = place_all(p);
		size_t k = 0;

		if (left_out == p->n_tables && p->now.cost < p->best.cost) {
			memcpy(p->best.table, p->now.table,
			       (size_t)p->n_buckets * p->n_tables * sizeof(*p->now.table));
			memcpy(p->best.n, p->now.n, p->n_buckets * sizeof(*p->now.n));
			memcpy(p->best.n_split, p->now.n_split,
			       p->n_tables * sizeof(*p->now.n_split));
			p->best.cost = p->now.cost;
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

/* The plan it starts from: every table split over all buckets, which takes the least memory. */
static int start_uniform(struct planner *p, struct sc_err *err)
{
	for (uint32_t t = 0; t < p->n_tables; t++)
		p->best.n_split[t] = p->n_buckets;
	p->best.cost = 0;
	for (uint32_t b = 0; b < p->n_buckets; b++) {
		for (uint32_t t = 0; t < p->n_tables; t++)
			bucket_tables(p, &p->best, b)[t] = t;
		p->best.n[b] = p->n_tables;
		p->best.cost = fmax(p->best.cost, bucket_cost(p, &p->best, b));
	}
	if (sum_parts(p, &p->best, 0, p->gb) > p->bucket_gb)
		return sc_err_set(err, SC_ECONFLICT,
				  "split over all, the tables take %.1f GB of each, which has "
				  "%.1f GB; give more GPUs or memory",
				  sum_parts(p, &p->best, 0, p->gb), p->bucket_gb);
	return 0;
}

static int start_pieces(struct planner *p, double dp_threshold_gb, struct sc_err *err)
{
	double replicated_gb = 0;

	for (uint32_t t = 0; t < p->n_tables; t++) {
		p->replicated[t] = p->gb[t] < dp_threshold_gb;
		if (p->replicated[t]) {
			replicated_gb += p->gb[t];
			continue;
		}
		p->now.n_split[t] = 1;
		p->pieces[p->n_pieces++] = (struct piece){p->hotness[t], t};
	}
	p->bucket_gb -= replicated_gb;
	if (p->bucket_gb < 0)
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
	p->bucket_gb = opts->hbm_bytes > 0 ? opts->hbm_bytes * p->gpus_per_bucket / SC_BYTES_PER_GB
					   : HUGE_VAL;
	n_pieces = n + (size_t)MAX_ITERATIONS * p->n_buckets;
	p->pieces = sc_arena_calloc(arena, n_pieces, sizeof(*p->pieces));
	p->sorted = sc_arena_calloc(arena, n_pieces, sizeof(*p->sorted));
	p->order = sc_arena_calloc(arena, n_pieces, sizeof(*p->order));
	p->bucket_cost = sc_arena_calloc(arena, p->n_buckets, sizeof(double));
	p->bucket_hotness = sc_arena_calloc(arena, p->n_buckets, sizeof(double));
	p->bucket_used_gb = sc_arena_calloc(arena, p->n_buckets, sizeof(double));
	alloc_matrix(p, arena, &p->now);
	alloc_matrix(p, arena, &p->best);
	for (size_t t = 0; t < n; t++) {
		const struct sc_table *table = &tables->at[t];

		p->hotness[t] = (double)table->features * table->pooling;
		p->gb[t] = (double)table->rows * (double)table->dim * sc_dtype_bytes(table->dtype) *
			   factor / SC_BYTES_PER_GB;
	}
}

static struct holders find_holders(const struct planner *p, struct sc_arena *arena)
{
	struct holders h = {.first = sc_arena_calloc(arena, p->n_tables + 2, sizeof(*h.first))};
	uint32_t *next = h.first + 1; /* becomes the end of each, which is the next one's first */

	for (uint32_t b = 0; b < p->n_buckets; b++)
		for (uint32_t i = 0; i < p->best.n[b]; i++)
			h.first[bucket_tables(p, &p->best, b)[i] + 2]++;
	for (uint32_t t = 0; t < p->n_tables; t++)
		h.first[t + 2] += h.first[t + 1];
	h.bucket = sc_arena_calloc(arena, h.first[p->n_tables + 1] + 1, sizeof(*h.bucket));
	for (uint32_t b = 0; b < p->n_buckets; b++)
		for (uint32_t i = 0; i < p->best.n[b]; i++)
			h.bucket[next[bucket_tables(p, &p->best, b)[i]]++] = b;
	return h;
}

/* The GPUs that have a table, rising. */
static size_t list_gpus(const struct planner *p, uint32_t index, uint32_t world, int32_t *gpus)
{
	uint32_t at = p->holders.first[index], end = p->holders.first[index + 1];
	size_t n = 0;

	for (uint32_t gpu = 0; gpu < world; gpu++) {
		uint32_t bucket = gpu / p->gpus_per_bucket;

		while (at < end && p->holders.bucket[at] < bucket)
			at++;
		if (at < end && p->holders.bucket[at] == bucket)
			gpus[n++] = (int32_t)gpu;
	}
	return n;
}

/* HugeCTR deals a table's rows out one by one; a plan says how many. */
static void add_table(const struct planner *p, const struct sc_table *table, uint32_t index,
		      int32_t *gpus, struct sc_shard_plan *out)
{
	uint32_t local = out->ranks_per_host;
	size_t n;

	if (p->replicated[index]) {
		sc_plan_begin_table(out, table, SC_DATA_PARALLEL);
		sc_plan_add_replicas(out);
		return;
	}
	n = list_gpus(p, index, out->world, gpus);
	sc_plan_begin_table(out, table,
			    n == 1 ? SC_TABLE_WISE
			    : n < out->world && (uint32_t)gpus[0] / local ==
							(uint32_t)gpus[n - 1] / local
				    ? SC_TABLE_ROW_WISE
				    : SC_ROW_WISE);
	sc_plan_add_rows(out, gpus, n, 0, table->dim);
}

static int check_opts(const struct sc_hugectr_opts *opts, const struct sc_table_list *tables,
		      struct sc_err *err)
{
	if (opts->gpus < 1 || opts->gpus_per_node < 1 || opts->gpus % opts->gpus_per_node != 0)
		return sc_err_set(err, SC_EVALUE, "%u GPUs cannot be nodes of %u; give a multiple",
				  opts->gpus, opts->gpus_per_node);
	if (opts->hierarchical && opts->gpus == opts->gpus_per_node)
		return sc_err_set(
			err, SC_ECONFLICT,
			"the hierarchical plan is for more than one node; use the flat one");
	if (!(opts->bw_ratio >= 0 && isfinite(opts->bw_ratio)) || !(opts->dp_threshold_gb >= 0))
		return sc_err_set(err, SC_EVALUE,
				  "bandwidth ratio and data-parallel threshold must be 0 or more");
	if (tables->n == 0 || tables->n > UINT32_MAX / 2)
		return sc_err_set(err, SC_EVALUE, "%zu tables cannot be planned", tables->n);
	return 0;
}

/* It refuses a plan in which a GPU would have no table. */
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

/* As it prints them; of a node's memory, each GPU's part. */
static void rate(const struct planner *p, uint32_t gpus, struct sc_hugectr_rank *ranks)
{
	for (uint32_t gpu = 0; gpu < gpus; gpu++) {
		uint32_t bucket = gpu / p->gpus_per_bucket;

		ranks[gpu] = (struct sc_hugectr_rank){
			.hotness_cost = sum_parts(p, &p->best, bucket, p->hotness),
			.table_cost = p->shard_cost * p->best.n[bucket],
			.memory_gb = sum_parts(p, &p->best, bucket, p->gb) / p->gpus_per_bucket,
		};
	}
}

int sc_hugectr_plan(const struct sc_hugectr_opts *opts, const struct sc_table_list *tables,
		    struct sc_arena *arena, struct sc_shard_plan *out,
		    struct sc_hugectr_rank *ranks, struct sc_err *err)
{
	struct sc_shard_plan plan = {.world = opts->gpus, .ranks_per_host = opts->gpus_per_node};
	struct planner p;
	int32_t *gpus;
	int rc = check_opts(opts, tables, err);

	if (rc)
		return rc;
	init(&p, opts, tables, arena);
	rc = start_uniform(&p, err);
	if (rc == 0)
		rc = start_pieces(&p, opts->dp_threshold_gb, err);
	if (rc)
		return rc;
	search(&p);
	rc = check_used(&p, err);
	if (rc)
		return rc;
	if (ranks)
		rate(&p, opts->gpus, ranks);
	p.holders = find_holders(&p, arena);
	gpus = sc_arena_calloc(arena, opts->gpus, sizeof(*gpus));
	for (uint32_t t = 0; t < p.n_tables; t++)
		add_table(&p, &tables->at[t], t, gpus, &plan);
	*out = plan;
	return 0;
}
