/* What is asked of a table's rows again and again, remembered: a plan's shards keep most of their shapes from
 * one prediction to the next. Answers are the same to the last bit with a memo and without. */
#ifndef SC_MODELS_ROW_MEMO_H
#define SC_MODELS_ROW_MEMO_H

#include "core/embedding/embedding.h"

enum sc_row_fact {
	SC_ROWS_UNIQUE,   /* sc_reuse_unique */
	SC_ROWS_MISSES,   /* of a cache that starts empty and is smaller than what is touched */
	SC_ROWS_HOT_FRAC, /* sc_reuse_hot_frac */
	SC_N_ROW_FACTS
};
struct sc_row_question {
	enum sc_row_fact fact;
	double rows, lookups; /* of the whole table; lookups: but for HOT_FRAC */
	double cached_rows;   /* MISSES alone */
};
struct sc_row_memo; /* of one thread */
struct sc_row_memo *sc_row_memo_create(void);
void sc_row_memo_destroy(struct sc_row_memo *memo);
/* `memo` may be NULL. */
double sc_row_fact(struct sc_row_memo *memo, const struct sc_reuse *reuse,
		   const struct sc_row_question *question);

#endif
