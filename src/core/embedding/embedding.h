/* Embedding tables of a recommendation model and how their rows are reused (no times). */
#pragma once

#include "base/fields.h"
#include "core/graph/op.h"

#define SC_MAX_TABLE_ROWS 1099511627776.0 /* 2^40 */
enum { SC_MAX_TABLE_DIM = 1 << 20, SC_MAX_TABLES = 10000000 };

/* training.optimizer. What is only of tables steps the dense part as sc_optimizer_dense says. */
enum sc_optimizer {
	SC_OPT_ADAM,
	SC_OPT_SGD,
	SC_OPT_ADAGRAD, /* of tables row-wise, if the software's is */
	SC_OPT_NONE,
	SC_OPT_ROWWISE_ADAGRAD,
	SC_OPT_ATOMIC_SGD,
	SC_OPT_ADAM_8BIT,
	SC_OPT_LION,
	SC_OPT_LAMB,
	SC_OPT_ADAFACTOR,
	SC_OPT_MUON,
	SC_OPT_SHAMPOO,
	SC_OPT_KFAC,
	SC_N_OPTIMIZERS
};
extern const struct sc_name sc_optimizer_names[];
enum sc_optimizer sc_optimizer_dense(enum sc_optimizer optimizer);
/* The work that is done with whole matrices of a layer. */
enum sc_matrix_step { SC_MATRIX_NONE, SC_MATRIX_MUON, SC_MATRIX_SHAMPOO, SC_MATRIX_KFAC };
/* The traits of an optimizer for a dense parameter. */
struct sc_optimizer_traits {
	double moments;      /* states of its size */
	double moment_bytes; /* of one; 0 = as the request says */
	double more_bytes;   /* that a step reads and writes beside gradient, weight and states */
	enum sc_matrix_step matrices;
	double factor_every,
		inverse_every; /* steps between updates of factors; of what is made of them */
	double block;          /* rows and columns of a factor, at most */
};
const struct sc_optimizer_traits *sc_optimizer_traits_of(enum sc_optimizer optimizer);
/* Bytes that a step of a dense parameter of a recommendation model or a table of layers moves, all
 * fp32: weight, gradient and states are read, weight and states written. */
double sc_optimizer_step_bytes(enum sc_optimizer optimizer);

/* Whose kernels look rows up and step them. */
enum sc_embedding_kernel {
	SC_KERNEL_TBE,     /* FBGEMM's, of many tables at once */
	SC_KERNEL_TBE_HIP, /* the same, translated for AMD, before loads were unrolled there */
	SC_KERNEL_HUGECTR,
	SC_KERNEL_PYTORCH, /* EmbeddingBag; an optimizer of PyTorch adds sparse gradients */
	SC_N_EMBEDDING_KERNELS
};
extern const struct sc_name sc_embedding_kernel_names[]; /* embedding.c */

/* How often the rows of a table come back within and across batches. One description is given;
 * none: the default prior (configs/reuse/default.yaml, from the dlrm_datasets histograms). */
enum sc_reuse_kind {
	SC_REUSE_DEFAULT,
	SC_REUSE_UNIFORM,
	SC_REUSE_ZIPF,
	SC_REUSE_BINS,
	SC_REUSE_MRC
};
struct sc_reuse {
	enum sc_reuse_kind kind;
	double zipf; /* exponent of the popularity of rows by rank; > 0 */
	/* BINS: share of the touched rows with a count of 1, 2, 3-4, 5-8, ... (each bin up to twice
	 * the one before), within `n_lookups` lookups that touched `n_unique` rows. */
	struct sc_doubles row_bins, lookup_bins; /* shares of rows; of lookups; each sums to 1 */
	double n_lookups, n_unique;
	double n_tables; /* that those are sums over: the histogram is of a mean table; 0 = 1 */
	double hot_frac; /* share of lookups that the hottest row gets; 0 = the histogram's */
	/* MRC: miss ratio of an LRU cache that holds a share of the table's rows. */
	struct sc_doubles cached_frac, miss_frac;
	const char *file; /* a profile of configs/reuse or an index sample; NULL = none */
};
/* `count` tables alike. `features` features look up in each: a sample makes features * pooling
 * lookups and as many as `features` pooled outputs of `dim` elements. */
struct sc_table {
	const char *name;
	int64_t rows, dim, count, features;
	double pooling;      /* mean lookups of a sample and feature; 0 < pooling */
	int storage;         /* of the weights: enum sc_dtype + 1; 0 = the software's habit */
	enum sc_dtype dtype; /* the same, resolved (sc_tables_expand) */
	bool weighted;       /* lookups have weights */
	bool sequence;       /* outputs are not pooled: one row for each lookup */
	struct sc_reuse reuse;
};
static inline double sc_table_bytes(const struct sc_table *table) /* of its weights */
{
	return (double)table->rows * (double)table->dim * sc_dtype_bytes(table->dtype);
}

/* Who places embedding tables where no plan is given. */
enum sc_planner {
	SC_PLANNER_NONE,            /* the software's */
	SC_PLANNER_STEPCAST,        /* our solver, for the predicted iteration */
	SC_PLANNER_TORCHREC,        /* TorchRec's planner, its constants */
	SC_PLANNER_HUGECTR,         /* the one of HugeCTR's MLPerf recipe */
	SC_PLANNER_MEMORY_BALANCED, /* distributed-embeddings: whole tables, by memory */
	SC_PLANNER_LOOKUPS          /* whole tables, by lookups */
};
extern const struct sc_name sc_planner_names[], sc_storage_names[]; /* embedding.c */
