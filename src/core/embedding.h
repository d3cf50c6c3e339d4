/* Embedding tables of a recommendation model and how their rows are reused (no times). */
#ifndef SC_CORE_EMBEDDING_H
#define SC_CORE_EMBEDDING_H

#include "base/fields.h"
#include "core/op.h"

/* How often the rows of a table come back within and across batches. One description is given;
 * nothing given: the default prior (configs/reuse/default.yaml, from the dlrm_datasets histograms). */
enum sc_reuse_kind { SC_REUSE_DEFAULT, SC_REUSE_UNIFORM, SC_REUSE_ZIPF, SC_REUSE_BINS, SC_REUSE_MRC };
struct sc_reuse {
	enum sc_reuse_kind kind;
	double zipf; /* exponent of the popularity of rows by rank; > 0 */
	/* BINS: share of the touched rows with a count of 1, 2, 3-4, 5-8, ... (each bin up to twice the
	 * one before), within `n_lookups` lookups that touched `n_unique` rows. */
	struct sc_doubles row_bins, lookup_bins; /* shares of rows; of lookups; each sums to 1 */
	double n_lookups, n_unique;
	/* MRC: miss ratio of an LRU cache that holds a share of the table's rows. */
	struct sc_doubles cached_frac, miss_frac;
	const char *file; /* profile of configs/reuse, or an index sample; NULL = written in place */
};
/* `count` tables alike. `features` features look up in each: a sample makes features * pooling lookups
 * and as many as `features` pooled outputs of `dim` elements. */
struct sc_table {
	const char *name;
	int64_t rows, dim, count, features;
	double pooling; /* mean lookups of a sample and feature; 0 < pooling */
	enum sc_dtype dtype;
	bool dtype_given; /* else the training's */
	bool weighted; /* lookups have weights */
	bool sequence; /* outputs are not pooled: one row for each lookup */
	struct sc_reuse reuse;
};

#endif
