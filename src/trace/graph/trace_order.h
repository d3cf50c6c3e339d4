/* Orders to sort by: of times, ties by number; of pairs of numbers that begin a struct. Events by
 * correlation. */
#pragma once

#include <stdint.h>

#include "trace/format/trace_file.h"

struct sc_trace_order {
	int64_t key;
	uint32_t tie, index;
};
static inline int sc_trace_compare_pair(const void *left, const void *right)
{
	const uint32_t *a = left, *b = right;

	return a[0] != b[0] ? (a[0] < b[0] ? -1 : 1) : (a[1] > b[1]) - (a[1] < b[1]);
}
static inline int sc_trace_compare_order(const void *left, const void *right)
{
	const struct sc_trace_order *a = left, *b = right;

	return a->key != b->key ? (a->key < b->key ? -1 : 1)
				: sc_trace_compare_pair(&a->tie, &b->tie);
}

/* Correlation -> event of a class: the call that started something, of two the outer one, or the
 * record of an event. Release the list. */
struct sc_correlation {
	uint32_t correlation, event; /* sc_trace_compare_pair */
};
struct sc_correlations {
	SC_VEC(struct sc_correlation) list;
};
struct sc_correlations sc_correlations_of(const struct sc_trace *trace, enum sc_event_class cls);
uint32_t sc_correlations_find(const struct sc_correlations *table,
			      uint32_t correlation); /* or SC_NONE */
