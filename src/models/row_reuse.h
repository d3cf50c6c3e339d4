/* Numbers that follow from the reuse of a table's rows: distinct rows of any number of lookups, hit
 * rates of caches of any size, the skew of row-wise shards. `reuse` is resolved
 * (core/embedding/reuse.h); SC_REUSE_DEFAULT without a histogram counts as uniform. `rows` and
 * `lookups` are of one table; 0 lookups give 0. */
#pragma once

#include "core/embedding/embedding.h"

/* The expected distinct rows, at most rows and lookups. */
double sc_reuse_unique(const struct sc_reuse *reuse, double rows, double lookups);
/* The share of lookups, batch after batch, that find their row in a cache of `cached_rows`: with
 * the least recently used row going out, or with the most popular rows pinned (for MRC as LRU). */
double sc_reuse_hit(const struct sc_reuse *reuse, double rows, double cached_rows, bool pinned);
/* The number of rows that get at least such a share of the lookups, each. */
double sc_reuse_rows_above(const struct sc_reuse *reuse, double rows, double share);
/* The share of lookups that the most popular row gets. */
double sc_reuse_hot_frac(const struct sc_reuse *reuse, double rows);
/* The lookups, of so many, that do not find their row in a cache of `cached_rows`, at least 1, that
 * starts empty. The number of distinct rows is given and larger than that, and nothing else is
 * known, so that the rows count as alike. */
double sc_reuse_told_misses(double unique, double lookups, double cached_rows);
/* The lookups of the busiest of n equal row slices over the mean: it has the hottest row, and as
 * many of the others, taken as alike. It is 1 for uniform reuse, n for one row. */
double sc_reuse_row_skew(const struct sc_reuse *reuse, double rows, double n_slices);

/* Questions about a table's rows are remembered: a plan's shards keep most of their shapes from one
 * prediction to the next. Answers are the same to the last bit without a memo. */
enum sc_row_fact {
	SC_ROWS_UNIQUE,   /* sc_reuse_unique */
	SC_ROWS_MISSES,   /* of a cache that starts empty and is smaller than what is touched */
	SC_ROWS_HOT_FRAC, /* sc_reuse_hot_frac */
	SC_ROWS_HIT,      /* sc_reuse_hit, least recently used out */
	/* The `cached_rows` most frequent rows apart from the others: */
	SC_ROWS_TOP_SHARE,  /* of the lookups, that they get: sc_reuse_hit, pinned */
	SC_ROWS_TOP_UNIQUE, /* of SC_ROWS_UNIQUE, those among them */
	SC_ROWS_TOP_NEXT,   /* share of the lookups that the most frequent of the others gets */
	SC_N_ROW_FACTS
};
struct sc_row_question {
	enum sc_row_fact fact;
	double rows, lookups; /* of the whole table; lookups: of UNIQUE, MISSES, TOP_UNIQUE */
	double cached_rows;   /* of MISSES, HIT and TOP_... */
};
struct sc_row_memo; /* of one thread */
struct sc_row_memo *sc_row_memo_create(void);
void sc_row_memo_destroy(struct sc_row_memo *memo);
/* A number of its own for each reuse, as long as the memo lives. */
double sc_row_reuse_number(struct sc_row_memo *memo, const struct sc_reuse *reuse);
/* `memo` may be NULL. */
double sc_row_fact(struct sc_row_memo *memo, const struct sc_reuse *reuse,
		   const struct sc_row_question *question);
