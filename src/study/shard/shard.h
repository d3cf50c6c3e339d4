/* Embedding sharding as an optimisation problem: every table takes one of its options, every shard
 * of it goes to a rank, and the cost is that of the busiest rank. The objective sets the costs of
 * options (shard_torchrec.c, shard_hugectr.c, shard_iteration.c); the solver (shard_solve.c) knows
 * nothing of it. */
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/progress.h"
#include "base/vec.h"
#include "core/embedding/shard_plan.h"

/* A spread says how the shards of an option may lie. */
enum sc_spread {
	SC_SPREAD_FREE,    /* each on any rank */
	SC_SPREAD_UNIFORM, /* one on every rank: shard i on rank i */
	SC_SPREAD_HOST,    /* one on every rank of one host: shard i on its i-th rank */
	SC_SPREAD_ON_HOST  /* each on any rank of one host, the same for all */
};
struct sc_option_shard {
	int64_t row_offset, col_offset, rows, cols;
	double cost; /* on the rank that has it, in the objective's unit (ms); rank speed 1 */
	/* The parts of `cost` that some objectives tell apart: exchanges; fetches of host rows
	 * ahead of a lookup; kernels without their start-up. */
	double comms, prefetch_ms, forward_ms, backward_ms;
	/* vector_bytes are exchanged forward and again backward, for the whole batch; reduce_bytes
	 * are gradients that all ranks reduce, and stand in a table's first shard. */
	double vector_bytes, reduce_bytes;
	double hbm_bytes;  /* of that rank */
	double host_bytes; /* of its host's memory */
	double ssd_bytes;  /* of its host's SSD */
};
struct sc_option {
	uint32_t table;
	enum sc_shard_type type;
	enum sc_tier tier;
	double cache_frac;
	int64_t hot_rows; /* with UNIFORM, whose shards then carry the costs of the copies, too */
	enum sc_spread spread;
	/* The option's shards in shards[]. UNIFORM and HOST may list fewer than their ranks, at
	 * most SC_MAX_RUNS, each standing for a run of ranks: one for all, or several that end
	 * before run_end[0], [1], [2], the last with the rest. Then shard i of row-wise types is
	 * the i-th block of as many rows as the first has, and the last blocks are cut short.
	 * sc_option_n_shards and sc_option_shard_get tell them. */
	uint32_t first_shard, n_shards;
	uint32_t run_end[3];
};
enum { SC_MAX_RUNS = 4 };
/* Fills in the cost of a column slice of that width, for splits that are not in the list of
 * options; false: not allowed. It is NULL where the objective has none. The solver sets the
 * offsets. */
typedef bool (*sc_column_cost_fn)(const void *ctx, uint32_t table, enum sc_tier tier, int64_t cols,
				  struct sc_option_shard *out);
/* Fills in the cost of any shard of a placement, for plans with options that are not listed
 * (`table`: the problem's). */
typedef bool (*sc_shard_cost_fn)(const void *ctx, uint32_t table,
				 const struct sc_table_placement *placement,
				 const struct sc_shard *shard, struct sc_option_shard *out);
enum sc_constraint_kind { SC_PIN, SC_FORBID, SC_TOGETHER, SC_APART };
extern const struct sc_name sc_constraint_kind_names[];
struct sc_shard_constraint {
	enum sc_constraint_kind kind;
	uint32_t table, other; /* other: TOGETHER and APART */
	int32_t rank;          /* PIN, FORBID: rank, or -1: any */
	int type, tier;        /* PIN, FORBID: of enum sc_shard_type and sc_tier, or -1: any */
};
struct sc_search_watch;
struct sc_shard_problem {
	size_t n_tables;
	const struct sc_table *tables; /* count 1 each */
	uint32_t world, ranks_per_host;
	SC_VEC(struct sc_option) options; /* grouped by table, ascending */
	SC_VEC(uint32_t) first_option;    /* of each table, n_tables + 1 */
	SC_VEC(struct sc_option_shard) shards;
	/* The budgets: a rank's is what the dense part leaves. Arrays have one element a rank or
	 * host; NULL = all are alike. */
	double hbm_bytes, host_bytes, ssd_bytes;
	/* of each rank's HBM, in which all tables fit with room to spare; 0: not known */
	double hold_bytes;
	const double *rank_hbm_bytes, *rank_speed; /* heterogeneous ranks: cost / speed */
	sc_column_cost_fn column_cost;
	sc_shard_cost_fn
		shard_cost;     /* of plans that are rated; NULL: only those with listed options */
	const void *column_ctx; /* of both */
	const struct sc_exchange_rates *rates; /* NULL: of another objective than the iteration */
	int64_t min_cols;                      /* narrowest slice of column_cost; a multiple of 4 */
	const struct sc_shard_constraint *constraints;
	size_t n_constraints;
	struct sc_row_memo *rows; /* of its costs, released with it; or NULL */
	/* A signal leaves bounds as low as they are and searches with what they have; may be NULL.
	 */
	const struct sc_search_watch *watch;
};
void sc_shard_problem_release(struct sc_shard_problem *problem);
static inline double sc_rank_budget(const struct sc_shard_problem *p, uint32_t rank)
{
	return p->rank_hbm_bytes ? p->rank_hbm_bytes[rank] : p->hbm_bytes;
}
static inline double sc_rank_speed(const struct sc_shard_problem *p, uint32_t rank)
{
	return p->rank_speed ? p->rank_speed[rank] : 1;
}
/* The number of shards of a table that takes the option; the index in problem->shards that has the
 * cost of the i-th; and that shard with its own rows. */
uint32_t sc_option_n_shards(const struct sc_shard_problem *problem, const struct sc_option *option);
uint32_t sc_option_shard_index(const struct sc_shard_problem *problem,
			       const struct sc_option *option, uint32_t i);
void sc_option_shard_get(const struct sc_shard_problem *problem, const struct sc_option *option,
			 uint32_t i, struct sc_option_shard *out);
/* A maker computes the cost of a shard whose rows and columns are given. option->n_shards is the
 * number of slices of rows. */
struct sc_option_maker {
	struct sc_shard_problem *problem;
	void (*cost)(const void *ctx, const struct sc_option *option,
		     struct sc_option_shard *shard);
	const void *ctx;
};
/* Appends an option like that one, in slices of so many columns (the last takes the rest), each in
 * n_rows slices of rows; n_rows is 1 for data-parallel tables. Equal shards are listed in runs
 * where each has its own rank. */
void sc_option_add(const struct sc_option_maker *maker, const struct sc_option *like,
		   uint32_t n_rows, int64_t cols);
/* Computes the cost of a shard whose placement is no option; false: the problem has no cost for it.
 */
bool sc_shard_cost_of(const struct sc_shard_problem *problem, uint32_t table,
		      const struct sc_table_placement *at, const struct sc_shard *shard,
		      struct sc_option_shard *out);
/* Appends a table as its option shards it, shard i on ranks[i]. */
void sc_plan_add_option(struct sc_shard_plan *plan, const struct sc_shard_problem *problem,
			uint32_t option, const int32_t *ranks);

struct sc_solve_opts {
	double seconds;  /* deadline; 0 = the quick answer: no more than local search to its end */
	bool quick;      /* the quick answer with a deadline */
	uint64_t seed;   /* the same answer on every machine, when `seconds` is 0 */
	double stop_gap; /* stop when (cost - bound) / bound is below; default 1e-6 */
	/* Replanning limits the tables that may move from `current`, and their bytes; NULL = a new
	 * plan. */
	const struct sc_shard_plan *current;
	double max_moved_bytes; /* -1 = any */
	int64_t max_moved_tables;
	struct sc_search_watch *watch; /* may be NULL */
	const char *without; /* a part of the search to leave out, of sc_solve_parts, or NULL */
};
/* The memory in use on the fullest rank (HBM) and the fullest host (its memory, its SSD). */
struct sc_shard_memory {
	double hbm_bytes, host_bytes, ssd_bytes;
};
struct sc_shard_solution {
	double cost, bound;           /* of the busiest rank; a lower bound of it */
	double all_bound, lp_bound;   /* sc_shard_bound of the problem that was solved */
	bool proven;                  /* cost is within stop_gap of the bound */
	uint32_t bottleneck;          /* rank */
	bool over_budget;             /* of a plan that was rated all the same */
	bool cut_short;               /* TorchRec's planner had more proposals than we try */
	double *rank_cost, *rank_hbm; /* world of them, in the arena */
	struct sc_shard_memory memory;
	struct sc_shard_plan plan;
};
extern const struct sc_solve_opts sc_solve_defaults;
/* The parts of a search; tests leave out one after the other to see what each is worth. */
extern const char *const sc_solve_parts[]; /* NULL ends */
/* Returns SC_ECONFLICT where no plan can hold; the text names the smallest reason (a table larger
 * than any rank, the total over the budget, tables pinned to one rank). */
int sc_shard_solve(const struct sc_shard_problem *problem, const struct sc_solve_opts *opts,
		   struct sc_arena *arena, struct sc_shard_solution *out, struct sc_err *err);
/* Tells whether a plan that may come from elsewhere keeps to the problem's constraints. Its tables
 * are in the problem's order. */
bool sc_shard_keeps_constraints(const struct sc_shard_problem *problem,
				const struct sc_shard_plan *plan);
/* Computes the lower bound alone. */
double sc_shard_bound(const struct sc_shard_problem *problem, double *lp_bound);

/* Rates a plan under the problem's costs: each table is rated as its option with the same type,
 * tier and shard sizes; column_cost rates a column split that is not listed. A plan over a budget
 * is an error that names rank and bytes, unless `over_ok`. bound and proven stay zero:
 * sc_shard_bound computes them. */
int sc_shard_rate(const struct sc_shard_problem *problem, const struct sc_shard_plan *plan,
		  bool over_ok, struct sc_arena *arena, struct sc_shard_solution *out,
		  struct sc_err *err);

/* --- TorchRec's objective (meta-pytorch/torchrec, distributed/planner); defaults are its constants
 * --- */
struct sc_torchrec_topology {
	uint32_t world, ranks_per_host;
	double batch_per_rank;
	double hbm_cap_bytes, ddr_cap_bytes, ssd_cap_bytes;    /* of a rank, after reservation */
	double hbm_bw, hbm_ddr_bw, ssd_bw, intra_bw, inter_bw; /* bytes per ms */
	double uvm_cache_frac, min_cw_dim;
	double reserved_frac; /* share of HBM that is kept free; 0.15 by default */
	enum sc_optimizer_state {
		SC_STATE_NONE,
		SC_STATE_ROW,
		SC_STATE_SAME,
		SC_STATE_TWICE
	} optimizer;
	/* The bytes of an output and communicated element; 0 = the table's. */
	double comm_bytes;
	bool outputs_min_pooling; /* bo = min(1, L) P B (2026) */
	bool ssd;               /* options of tier SSD are listed, too; hosts need ssd_cap_bytes */
	const double *poolings; /* P of each table: bags of a sample and feature; NULL = 1 */
};
void sc_torchrec_topology_init(struct sc_torchrec_topology *topology); /* the planner's defaults */
/* Lists all 16 options of a table, and with `ssd` five more, in the planner's order; a cost is the
 * sum of the parts without input_dist. Row slices past the end of a short table have no rows but
 * cost what the others do, as in TorchRec; equal ones are listed once. The topology, copied, and
 * column_ctx live in the arena; `tables` must outlive the problem. A rank's budget is HBM less
 * reserved_frac; a host's DDR and SSD are a rank's times its ranks. */
int sc_torchrec_problem(const struct sc_torchrec_topology *topology,
			const struct sc_table_list *tables, struct sc_arena *arena,
			struct sc_shard_problem *out, struct sc_err *err);
/* Runs TorchRec's own search: a grid search (up to 10,000 proposals), greedy and uniform proposers
 * over its greedy partitioner. Its time grows as the square of the tables: after 2e8 placements of
 * a table (2,000 tables whole) the best so far stands, and `cut_short` says so. Constraints on type
 * and tier hold; one on ranks is SC_EUNSUPPORTED. SC_ECONFLICT means that no proposal fits. A watch
 * (NULL: none) ends it with the best proposal so far. */
int sc_torchrec_plan(const struct sc_shard_problem *problem, struct sc_search_watch *watch,
		     struct sc_arena *arena, struct sc_shard_solution *out, struct sc_err *err);

/* --- HugeCTR's planner (NVIDIA-Merlin/HugeCTR, samples/dlrm): small tables are data parallel, the
 * hottest are split --- */
struct sc_hugectr_opts {
	bool hierarchical;      /* hier_auto: per node */
	double bw_ratio;        /* memory over communication bandwidth */
	double dp_threshold_gb; /* 1e9 bytes; below: data parallel */
	uint32_t gpus, gpus_per_node;
	double optimizer_factor; /* bytes of weights and optimizer over those of weights; 0 = 1 */
	double hbm_bytes;        /* of a GPU, for tables; 0 = no limit */
};
/* Plans for whole nodes, of which there is more than one if hierarchical. A table on several GPUs
 * is row-wise over those: SC_TABLE_ROW_WISE if they are some of one node, else SC_ROW_WISE, on as
 * many ranks as have it. Its lookups are features * pooling. */
int sc_hugectr_plan(const struct sc_hugectr_opts *opts, const struct sc_table_list *tables,
		    struct sc_arena *arena, struct sc_shard_plan *out, struct sc_err *err);

/* --- HugeCTR's hybrid embedding: hot rows are on every GPU, all rows are dealt out --- */
struct sc_hybrid_opts {
	double batch; /* samples of all */
	uint32_t gpus, gpus_per_node;
};
/* The hybrid embedding takes only tables with one lookup a sample. */
bool sc_hybrid_takes(const struct sc_table *table);
/* Counts a table's rows that are looked up more often than so many times the threshold; 0 on one
 * GPU. */
int64_t sc_hybrid_hot_rows(const struct sc_hybrid_opts *opts, const struct sc_table *table,
			   double times);
void sc_hybrid_plan(const struct sc_hybrid_opts *opts, const struct sc_table_list *tables,
		    struct sc_arena *arena, struct sc_shard_plan *out);

/* A watch stands for whoever waits for a search, and may end it early with what it has. */
struct sc_search_watch {
	const volatile sig_atomic_t *stop; /* may be NULL; once it is not 0, searches end */
	struct sc_progress *progress;      /* counts seconds; may be NULL */
	double start_s;                    /* when the search began, by sc_now_s */
	uint64_t shown_s;
	/* The number of times a search has asked whether to stop, and how often the answer is no;
	 * 0: any number. Tests stop a search so, whatever time it takes. */
	uint64_t n_asked, most_asked;
};
/* Tells whether to stop, and draws the progress. NULL: nobody stops it. */
bool sc_search_is_stopped(struct sc_search_watch *watch);
/* A signal has ended the search, after which nothing more is made of what there is. */
static inline bool sc_search_is_ended(const struct sc_search_watch *watch)
{
	return watch && watch->stop && *watch->stop;
}
/* The error of a search that a signal ended before it had a plan. */
int sc_search_no_plan(struct sc_err *err);
