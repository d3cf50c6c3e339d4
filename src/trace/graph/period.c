/* Every name that comes at even distances proposes its distance; the shortest that repeats through
 * at least half of the sequence is taken. A layer repeats too, but only inside an iteration, and
 * what comes in every second iteration proposes two. Source: own; no model of training is assumed.
 */
#include "trace/graph/period.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/search.h"
#include "trace/graph/trace_order.h"

enum {
	MIN_ITERATIONS = 3,
	TOLERANCE = 50,
	MIN_LENGTH = 2,
	MAX_LENGTHS = 256 /* that are tried: names of one iteration propose few */
};

/* By sc_trace_compare_pair. */
struct place {
	uint32_t name, at;
};

SC_COMPARE(compare_sizes, size_t, SC_ORDER(*a, *b));

/* The usual distance of a name's places, if most of its distances are that; else 0. */
static size_t even_distance(const struct place *places, size_t n, size_t *scratch)
{
	size_t median, n_even = 0;

	for (size_t i = 1; i < n; i++)
		scratch[i - 1] = places[i].at - places[i - 1].at;
	SC_SORT(scratch, n - 1, compare_sizes);
	median = scratch[(n - 1) / 2];
	for (size_t i = 0; i + 1 < n; i++)
		n_even += scratch[i] == median;
	/* Warming up may differ. */
	return n_even * 4 >= (n - 1) * 3 && median >= MIN_LENGTH ? median : 0;
}

bool sc_period_alike(const uint32_t *a, const uint32_t *b, size_t n)
{
	size_t n_different = 0;

	for (size_t i = 0; i < n; i++)
		n_different += a[i] != b[i];
	return n_different * TOLERANCE <= n;
}

/* The longest row of slices of `length` that follow each other, wherever it begins. rows[i]: how
 * many after the one that begins at i. */
static void longest_row(const struct sc_launches *l, size_t length, uint32_t *rows,
			struct sc_period *out)
{
	const size_t n = l->n;
	size_t n_different = 0;

	*out = (struct sc_period){.length = length};
	for (size_t i = n; i-- > 0;) {
		rows[i] = 0;
		if (i + length >= n)
			continue;
		n_different += l->names[i] != l->names[i + length];
		if (i + 2 * length > n)
			continue;
		if (i + 2 * length < n)
			n_different -= l->names[i + length] != l->names[i + 2 * length];
		if (n_different * TOLERANCE <= length)
			rows[i] = rows[i + length] + 1;
		if (rows[i] && rows[i] + 1u >= out->n) {
			out->n = rows[i] + 1u;
			out->first = i;
		}
	}
}

static bool meets_within(const struct sc_launches *l, size_t first, size_t n)
{
	for (size_t i = first; i < first + n; i++)
		if (l->meets[i])
			return true;
	return false;
}

/* Did the host take part before the row, when launches as those of the row had been there: at least
 * half of its names? */
static bool meets_before(const struct sc_launches *l, const struct sc_period *row)
{
	enum { OF_ROW = 1, BEFORE = 2 };
	size_t n_names = 0, n_before = 0, most = 0;
	uint8_t *seen;
	bool met = false;

	for (size_t i = 0; i < row->first + row->length; i++)
		most = l->names[i] > most ? l->names[i] : most;
	seen = sc_xcalloc(most + 1, sizeof(*seen));
	for (size_t i = row->first; i < row->first + row->length; i++) {
		n_names += !seen[l->names[i]];
		seen[l->names[i]] = OF_ROW;
	}
	for (size_t i = 0; i <= row->first && !met; i++) {
		met = l->meets[i] && 2 * n_before >= n_names;
		n_before += seen[l->names[i]] == OF_ROW;
		seen[l->names[i]] |= BEFORE;
	}
	free(seen);
	return met;
}

/* Is it a part of a step that is longer, as its layers? There the host takes part once in a row of
 * slices, or in none, but before or after them. */
static bool is_inner(const struct sc_launches *l, const struct sc_period *row)
{
	const size_t end = row->first + row->n * row->length;
	size_t n_met = 0;

	if (!l->meets)
		return false;
	for (size_t k = 0; k < row->n; k++)
		n_met += meets_within(l, row->first + k * row->length, row->length);
	return n_met == 1 ||
	       (n_met == 0 && (meets_within(l, end, l->n + 1 - end) || meets_before(l, row)));
}

bool sc_period_find(const struct sc_launches *l, struct sc_period *out)
{
	const size_t n = l->n;
	struct place *places = sc_xmalloc((n + 1) * sizeof(*places));
	size_t *scratch = sc_xmalloc((n + 1) * sizeof(*scratch));
	uint32_t *rows = sc_xmalloc((n + 1) * sizeof(*rows));
	bool *tried = sc_xcalloc(n + 1, sizeof(*tried)); /* by length */
	size_t best = 0, n_tried = 0;

	for (uint32_t i = 0; i < n; i++)
		places[i] = (struct place){l->names[i], i};
	SC_SORT(places, n, sc_trace_compare_pair);
	*out = (struct sc_period){.n = 0};
	for (size_t i = 0, end; i < n; i = end) {
		struct sc_period row;
		size_t length;

		for (end = i + 1; end < n && places[end].name == places[i].name; end++)
			;
		if (end - i < MIN_ITERATIONS)
			continue;
		length = even_distance(places + i, end - i, scratch);
		if (length == 0 || (best && length >= best) || length > n / MIN_ITERATIONS ||
		    tried[length] || n_tried == MAX_LENGTHS)
			continue;
		tried[length] = true;
		n_tried++;
		longest_row(l, length, rows, &row);
		if (row.n < MIN_ITERATIONS || row.n * row.length * 2 < n || is_inner(l, &row))
			continue;
		best = length;
		*out = row;
	}
	free(places);
	free(scratch);
	free(rows);
	free(tried);
	return out->n > 0;
}
