/* Binary search and comparisons to sort by, written once. */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Binary search over from..to-1, of which a first part is `before` (said in terms of the index
 * `at`, which the macro declares): `found` is the first that is not; `to` if all are. */
#define SC_FIRST_NOT(found, at, from, to, before)                   \
	do {                                                        \
		size_t sc_low_ = (from), sc_high_ = (to);           \
		while (sc_low_ < sc_high_) {                        \
			const size_t at = (sc_low_ + sc_high_) / 2; \
			if (before)                                 \
				sc_low_ = at + 1;                   \
			else                                        \
				sc_high_ = at;                      \
		}                                                   \
		(found) = sc_low_;                                  \
	} while (0)

/* For comparisons to sort by: -1, 0 or 1. Of several keys the first that differs: 2 *
 * SC_ORDER(a->x, b->x) + SC_ORDER(a->y, b->y), of three 4, 2 and 1 times. */
#define SC_ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* A comparison for qsort, said in terms of `a` and `b`, which point to two of `type`:
 * SC_COMPARE(compare_points, struct point, 2 * SC_ORDER(a->x, b->x) + SC_ORDER(a->y, b->y)); */
#define SC_COMPARE(name, type, order)                                \
	static int name(const void *sc_left_, const void *sc_right_) \
	{                                                            \
		const type *a = sc_left_;                            \
		const type *b = sc_right_;                           \
		return order;                                        \
	}                                                            \
	static int name(const void *sc_left_, const void *sc_right_)

static inline int sc_compare_texts(const void *left, const void *right)
{
	return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* qsort of an array that may be empty, where its address may be NULL. */
#define SC_SORT(at, n, compare) ((n) > 0 ? qsort((at), (n), sizeof(*(at)), (compare)) : (void)0)
