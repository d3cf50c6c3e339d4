/* Descriptions of reuse have numbers of their own, by content; answers are remembered by these. */
#include "models/row_memo.h"

#include <stdlib.h>

#include "base/memo.h"
#include "models/row_reuse.h"

enum { N_ANSWERS = 1 << 17, N_REUSES = 1 << 14 }; /* slots */

struct sc_row_memo {
	struct sc_memo *answers, *reuses;
	double n_reuses; /* that ever were: no number is given again */
};

struct sc_row_memo *sc_row_memo_create(void)
{
	return sc_xcalloc(1, sizeof(struct sc_row_memo));
}

void sc_row_memo_destroy(struct sc_row_memo *memo)
{
	if (!memo)
		return;
	sc_memo_destroy(memo->answers);
	sc_memo_destroy(memo->reuses);
	free(memo);
}

static void put_list(struct sc_memo_key *key, const struct sc_doubles *list)
{
	sc_memo_put(key, (double)list->n);
	sc_memo_put_all(key, list->at, list->n);
}

static double number_of(struct sc_row_memo *memo, const struct sc_reuse *r)
{
	const double numbers[] = {r->kind,     r->zipf,     r->n_lookups,
				  r->n_unique, r->n_tables, r->hot_frac};
	struct sc_memo_key *key = sc_memo_begin(memo->reuses);
	const double *known;

	sc_memo_put_all(key, numbers, sizeof(numbers) / sizeof(numbers[0]));
	put_list(key, &r->row_bins);
	put_list(key, &r->lookup_bins);
	put_list(key, &r->cached_frac);
	put_list(key, &r->miss_frac);
	known = sc_memo_find(memo->reuses);
	return known ? *known : (*sc_memo_add(memo->reuses, 1) = memo->n_reuses++);
}

static double answer(const struct sc_reuse *reuse, const struct sc_row_question *q)
{
	switch (q->fact) {
	case SC_ROWS_UNIQUE:
		return sc_reuse_unique(reuse, q->rows, q->lookups);
	case SC_ROWS_MISSES:
		return sc_reuse_misses(reuse, q->rows, q->lookups, q->cached_rows);
	case SC_ROWS_HOT_FRAC:
	case SC_N_ROW_FACTS:
		break;
	}
	return sc_reuse_hot_frac(reuse, q->rows);
}

double sc_row_fact(struct sc_row_memo *memo, const struct sc_reuse *reuse,
		   const struct sc_row_question *q)
{
	struct sc_memo_key *key;
	const double *known;

	if (!memo)
		return answer(reuse, q);
	if (!memo->answers) {
		memo->answers = sc_memo_create(N_ANSWERS);
		memo->reuses = sc_memo_create(N_REUSES);
	}
	key = sc_memo_begin(memo->answers);
	sc_memo_put(key, number_of(memo, reuse));
	sc_memo_put(key, q->fact);
	sc_memo_put(key, q->rows);
	sc_memo_put(key, q->lookups);
	sc_memo_put(key, q->cached_rows);
	known = sc_memo_find(memo->answers);
	return known ? *known : (*sc_memo_add(memo->answers, 1) = answer(reuse, q));
}
