/* Two tables by open addressing: descriptions of reuse, by content, and answers. Both are emptied when one is
 * full. */
#include "models/row_memo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "models/row_reuse.h"

enum { N_ANSWERS = 1 << 17, N_REUSES = 1 << 14 }; /* slots: at most half of them are taken */

struct answer {
	uint32_t reuse; /* its slot + 1; 0: empty */
	struct sc_row_question question;
	double value;
};
struct sc_row_memo {
	struct answer *answers;
	struct sc_reuse *reuses; /* copies; their lists in the arena */
	bool *taken;             /* of reuses */
	size_t n_answers, n_reuses;
	uint32_t last; /* slot of the reuse asked about before: mostly the same again */
	struct sc_arena arena;
};

struct sc_row_memo *sc_row_memo_create(void)
{
	struct sc_row_memo *memo = sc_xmalloc(sizeof(*memo));

	*memo = (struct sc_row_memo){.answers = NULL};
	sc_arena_init(&memo->arena, 1 << 16);
	return memo;
}

void sc_row_memo_destroy(struct sc_row_memo *memo)
{
	if (!memo)
		return;
	free(memo->answers);
	free(memo->reuses);
	free(memo->taken);
	sc_arena_release(&memo->arena);
	free(memo);
}

static void clear(struct sc_row_memo *memo)
{
	struct sc_arena_mark start = {0};

	if (!memo->answers) {
		memo->answers = sc_xcalloc(N_ANSWERS, sizeof(*memo->answers));
		memo->reuses = sc_xcalloc(N_REUSES, sizeof(*memo->reuses));
		memo->taken = sc_xcalloc(N_REUSES, sizeof(*memo->taken));
	} else {
		memset(memo->answers, 0, N_ANSWERS * sizeof(*memo->answers));
		memset(memo->taken, 0, N_REUSES * sizeof(*memo->taken));
	}
	memo->n_answers = memo->n_reuses = 0;
	sc_arena_rewind(&memo->arena, start);
}

static uint64_t mix(uint64_t h, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	h = (h ^ bits) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static uint64_t mix_list(uint64_t h, const struct sc_doubles *list)
{
	for (size_t i = 0; i < list->n; i++)
		h = mix(h, list->at[i]);
	return mix(h, (double)list->n);
}

static const struct sc_doubles *list_of(const struct sc_reuse *r, int i)
{
	const struct sc_doubles *const lists[] = {&r->row_bins, &r->lookup_bins, &r->cached_frac,
						  &r->miss_frac};

	return lists[i];
}
enum { N_LISTS = 4, N_NUMBERS = 6 };

static void numbers_of(const struct sc_reuse *r, double *out)
{
	const double numbers[N_NUMBERS] = {r->kind,     r->zipf,     r->n_lookups,
					   r->n_unique, r->n_tables, r->hot_frac};

	memcpy(out, numbers, sizeof(numbers));
}

static bool same_reuse(const struct sc_reuse *a, const struct sc_reuse *b)
{
	double x[N_NUMBERS], y[N_NUMBERS];

	numbers_of(a, x);
	numbers_of(b, y);
	if (memcmp(x, y, sizeof(x)) != 0)
		return false;
	for (int i = 0; i < N_LISTS; i++) {
		const struct sc_doubles *p = list_of(a, i), *q = list_of(b, i);

		if (p->n != q->n || (p->n && memcmp(p->at, q->at, p->n * sizeof(*p->at)) != 0))
			return false;
	}
	return true;
}

static struct sc_doubles copy_list(struct sc_arena *arena, const struct sc_doubles *from)
{
	double *at = sc_arena_alloc(arena, (from->n + 1) * sizeof(*at));

	if (from->n)
		memcpy(at, from->at, from->n * sizeof(*at));
	return (struct sc_doubles){.at = at, .n = from->n};
}

/* Its slot. */
static uint32_t find_reuse(struct sc_row_memo *memo, const struct sc_reuse *reuse)
{
	double numbers[N_NUMBERS];
	uint64_t h = 0;
	uint32_t at;

	if (memo->taken[memo->last] && same_reuse(&memo->reuses[memo->last], reuse))
		return memo->last;
	numbers_of(reuse, numbers);
	for (int i = 0; i < N_NUMBERS; i++)
		h = mix(h, numbers[i]);
	for (int i = 0; i < N_LISTS; i++)
		h = mix_list(h, list_of(reuse, i));
	at = (uint32_t)h & (N_REUSES - 1);
	for (; memo->taken[at]; at = (at + 1) & (N_REUSES - 1)) {
		if (same_reuse(&memo->reuses[at], reuse))
			return memo->last = at;
	}
	memo->last = at;
	memo->taken[at] = true;
	memo->n_reuses++;
	memo->reuses[at] = *reuse;
	memo->reuses[at].row_bins = copy_list(&memo->arena, &reuse->row_bins);
	memo->reuses[at].lookup_bins = copy_list(&memo->arena, &reuse->lookup_bins);
	memo->reuses[at].cached_frac = copy_list(&memo->arena, &reuse->cached_frac);
	memo->reuses[at].miss_frac = copy_list(&memo->arena, &reuse->miss_frac);
	return at;
}

static bool same_question(const struct sc_row_question *a, const struct sc_row_question *b)
{
	return a->fact == b->fact && memcmp(&a->rows, &b->rows, sizeof(a->rows)) == 0 &&
	       memcmp(&a->lookups, &b->lookups, sizeof(a->lookups)) == 0 &&
	       memcmp(&a->cached_rows, &b->cached_rows, sizeof(a->cached_rows)) == 0;
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
	struct answer *found;
	uint32_t reuse_at, at;

	if (!memo)
		return answer(reuse, q);
	if (!memo->answers || memo->n_answers >= N_ANSWERS / 2 || memo->n_reuses >= N_REUSES / 2)
		clear(memo);
	reuse_at = find_reuse(memo, reuse);
	at = (uint32_t)(mix(mix(mix(mix(0, q->rows), q->lookups), q->cached_rows),
			    (double)reuse_at * SC_N_ROW_FACTS + q->fact) >>
			32) &
	     (N_ANSWERS - 1);
	for (; memo->answers[at].reuse; at = (at + 1) & (N_ANSWERS - 1)) {
		found = &memo->answers[at];
		if (found->reuse == reuse_at + 1 && same_question(&found->question, q))
			return found->value;
	}
	found = &memo->answers[at];
	*found = (struct answer){reuse_at + 1, *q, answer(reuse, q)};
	memo->n_answers++;
	return found->value;
}
