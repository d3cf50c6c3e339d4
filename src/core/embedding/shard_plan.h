/* The placement of embedding tables: which shard of which table is on which rank, in which memory.
 * As JSON it mirrors TorchRec's ParameterSharding and ShardMetadata, so that a loader of a few
 * lines turns it into a ShardingPlan. A plan belongs to a list of tables, by name; copies of a
 * table (count > 1) are named name_0, name_1 ... */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "core/embedding/embedding.h"

enum sc_shard_type {
	SC_DATA_PARALLEL,     /* a replica on every rank */
	SC_TABLE_WISE,        /* one shard */
	SC_COLUMN_WISE,       /* slices of columns, each on any rank */
	SC_ROW_WISE,          /* slices of rows, one on every rank */
	SC_TABLE_ROW_WISE,    /* slices of rows over the ranks of one host */
	SC_TABLE_COLUMN_WISE, /* slices of columns on ranks of one host */
	SC_GRID,              /* slices of columns, each row-wise over the ranks of a host */
	SC_N_SHARD_TYPES
};
extern const struct sc_name sc_shard_type_names[]; /* TorchRec's: data_parallel, table_wise ... */
enum sc_tier { SC_TIER_HBM, SC_TIER_CACHED, SC_TIER_UVM, SC_TIER_SSD, SC_N_TIERS };
/* TorchRec's kernels: fused (data_parallel: dense), fused_uvm_caching, fused_uvm, key_value */
extern const struct sc_name sc_tier_names[];

struct sc_shard {
	uint32_t table; /* index in the plan's tables */
	int32_t rank;   /* a data-parallel table has one shard on every rank */
	int64_t row_offset, col_offset, rows, cols;
};
struct sc_table_placement {
	const char *name;
	int64_t rows, dim;
	enum sc_shard_type type;
	enum sc_tier tier;
	double cache_frac; /* CACHED: rows in HBM over all rows; else 0 */
	/* The most frequent rows, of which every rank has a copy beside the shards, which cover all
	 * rows: their lookups stay on the rank, their gradients are reduced (HugeCTR's hybrid
	 * embedding). 0: none. */
	int64_t hot_rows;
	uint32_t first_shard, n_shards;
	const char *module;    /* the path of the module that has it; NULL = not said */
	unsigned line, column; /* where its entry begins in plan->file; 0 = not known */
};
struct sc_shard_plan {
	uint32_t world, ranks_per_host;           /* ranks_per_host 0: a file that does not say */
	SC_VEC(struct sc_table_placement) tables; /* strings in the arena it was made with */
	SC_VEC(struct sc_shard) shards;           /* of a table together, by offset */
	const char *file;                         /* it was read from, or NULL */
};
enum { SC_PLAN_MAX_BYTES = 256 << 20, SC_PLAN_MAX_TABLES = 1 << 20, SC_PLAN_MAX_SHARDS = 1 << 24 };
enum { SC_PLAN_MAX_WORLD = 1 << 20 };
void sc_shard_plan_release(struct sc_shard_plan *plan);
/* `to` is a plan, or empty; names are borrowed as `from` borrows them. */
void sc_shard_plan_copy(const struct sc_shard_plan *from, struct sc_shard_plan *to);
/* Proves: shards of each table cover it once without overlap (every rank has all of it if it is
 * data parallel), ranks in range, host-wise types on one host (if the plan says what a host is).
 * Row-wise shards may lie on fewer ranks, and be empty. The error names table and shard. */
int sc_shard_plan_check(const struct sc_shard_plan *plan, struct sc_err *err);
/* Plans are built table by table: its placement, which begins without shards, then those. */
struct sc_table_placement *sc_plan_begin_table(struct sc_shard_plan *plan,
					       const struct sc_table *table,
					       enum sc_shard_type type);
void sc_plan_add_table(struct sc_shard_plan *plan, const struct sc_table_placement *table);
/* Shards of the last table: one; all on every rank; row slices of ceil(rows / n) on n ranks. */
void sc_plan_add_shard(struct sc_shard_plan *plan, const struct sc_shard *shard);
void sc_plan_add_replicas(struct sc_shard_plan *plan);
void sc_plan_add_rows(struct sc_shard_plan *plan, const int32_t *ranks, size_t n,
		      int64_t col_offset, int64_t cols);
/* One entry a table: `count` written out, with names name_0 ... where it is more than one. */
struct sc_table_list {
	struct sc_table *at;
	size_t n;
	uint32_t world; /* ranks that they are for; 0: not known */
};
void sc_tables_expand(const struct sc_table *tables, size_t n_tables, struct sc_arena *arena,
		      struct sc_table_list *out);

/* Does the plan place exactly these tables (names, rows, dims), in their order, as a plan that was
 * loaded with them does? */
int sc_shard_plan_check_tables(const struct sc_shard_plan *plan, const struct sc_table_list *tables,
			       struct sc_err *err);

/* By content: our JSON; TorchRec's printed plan table; HugeCTR's shard matrix; a CSV by hand
 * (shard_plan_csv.c). Formats that do not say sizes take them, and the ranks, from `tables` (may be
 * empty). The plan's tables stand in their order. */
int sc_shard_plan_load(const char *path, const struct sc_table_list *tables, struct sc_arena *arena,
		       struct sc_shard_plan *out, struct sc_err *err);
/* The same of text in memory; `file` names it in messages. */
int sc_shard_plan_parse(const char *text, size_t n, const char *file,
			const struct sc_table_list *tables, struct sc_arena *arena,
			struct sc_shard_plan *out, struct sc_err *err);
/* As our JSON. */
void sc_shard_plan_print(const struct sc_shard_plan *plan, struct sc_strbuf *out);
