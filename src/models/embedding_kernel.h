/* Embedding kernels of the tables (or shards of tables) that one rank looks up together: one fused
 * kernel forward, one update backward, one prefetch where rows are cached from host memory. */
#pragma once

#include "core/embedding/shard_plan.h"
#include "core/machine/device.h"
#include "models/row_reuse.h"

/* The step of a row decides what is read and written beside it. */
enum sc_row_optimizer {
	SC_ROW_SGD,
	SC_ROW_ROWWISE_ADAGRAD, /* one number a row */
	SC_ROW_ADAGRAD,         /* one an element */
	SC_ROW_ADAM,            /* two an element */
	SC_ROW_ATOMIC_SGD       /* every lookup adds its gradient to the row; nothing is sorted */
};
extern const struct sc_name sc_row_optimizer_names[]; /* sgd, rowwise_adagrad ... */
/* A table as one rank uses it; 0 means the default in brackets. */
struct sc_embedding_use {
	const struct sc_table *table; /* reuse resolved; `count` of them alike [1], each used so */
	double samples;     /* whose lookups reach it: the whole batch where a rank has the table */
	double cols;        /* of the shard [dim] */
	double row_frac;    /* share of the rows, and of the lookups, that are here [1] */
	double skew;        /* its lookups over those of an even slice of so many rows [1] */
	double output_frac; /* share of the bags that have a lookup, and so an output, here [1] */
	enum sc_tier tier;
	double cache_frac;   /* CACHED: rows in HBM over rows here */
	enum sc_dtype dtype; /* of rows, where the table does not say */
	double output_bytes; /* of an element of outputs and gradients [4] */
	enum sc_row_optimizer optimizer;
	enum sc_embedding_kernel kernel;
	/* Numbers for each table, where they are known better than its reuse says [by reuse]. */
	double unique_rows, longest_run;
	struct sc_row_memo *memo; /* of what rows come to; may be NULL */
	bool warm; /* a benchmark's: rows of the call before are in the last cache if they fit */
};
/* Makes all uses one kernel. FORWARD and BACKWARD of cached tables find their rows in HBM: PREFETCH
 * brings those that were not there; its shape has no lookups where no use is cached. */
struct sc_embedding_shape sc_embedding_shape_of(const struct sc_device *device,
						const struct sc_embedding_use *uses, size_t n,
						enum sc_embedding_pass pass);
/* Fills the shapes of all passes, by pass. */
void sc_embedding_shapes_of(const struct sc_device *device, const struct sc_embedding_use *uses,
			    size_t n, struct sc_embedding_shape *out);
/* The bytes of optimizer state of one row of that many columns. */
double sc_row_state_bytes(enum sc_row_optimizer optimizer, double cols);
