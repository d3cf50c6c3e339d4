/* Every name that comes at even distances proposes its distance; the shortest that repeats through at
 * least half of the sequence is taken. A layer repeats too, but only inside an iteration, and what comes
 * in every second iteration proposes two. Source: own; no model of training is assumed. */
#include "trace/capture/iterations.h"

#include <stdlib.h>
#include <string.h>

enum { MIN_ITERATIONS = 3, TOLERANCE = 50, MIN_LENGTH = 2 };

struct place {
	uint32_t name;
	size_t at;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

static int compare_sizes(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return (x > y) - (x < y);
}

/* The usual distance of a name's places, if most of its distances are that; else 0. */
static size_t even_distance(const struct place *places, size_t n, size_t *scratch)
{
	size_t median, n_even = 0;

	for (size_t i = 1; i < n; i++)
		scratch[i - 1] = places[i].at - places[i - 1].at;
	qsort(scratch, n - 1, sizeof(*scratch), compare_sizes);
	median = scratch[(n - 1) / 2];
	for (size_t i = 0; i + 1 < n; i++)
		n_even += scratch[i] == median;
	/* Warming up may differ. */
	return n_even * 4 >= (n - 1) * 3 && median >= MIN_LENGTH ? median : 0;
}

static bool is_like(const uint32_t *a, const uint32_t *b, size_t n)
{
	size_t n_different = 0;

	for (size_t i = 0; i < n; i++)
		n_different += a[i] != b[i];
	return n_different * TOLERANCE <= n;
}

/* Iterations of `length` that follow each other, the longest row of them. */
static void longest_row(const uint32_t *names, size_t n, size_t start, size_t length,
			struct sc_period *out)
{
	size_t first = start % length, run_first = first, run = 1;

	*out = (struct sc_period){.length = length};
	for (size_t at = first; at + 2 * length <= n; at += length) {
		if (is_like(names + at, names + at + length, length)) {
			run++;
		} else {
			run_first = at + length;
			run = 1;
		}
		if (run > out->n) {
			out->n = run;
			out->first = run_first;
		}
	}
}

bool sc_find_period(const uint32_t *names, size_t n, struct sc_period *out)
{
	struct place *places = malloc((n ? n : 1) * sizeof(*places));
	size_t *scratch = malloc((n ? n : 1) * sizeof(*scratch));
	size_t best = 0;

	for (size_t i = 0; places && scratch && i < n; i++)
		places[i] = (struct place){names[i], i};
	if (places && scratch)
		qsort(places, n, sizeof(*places), compare_places);
	*out = (struct sc_period){.n = 0};
	for (size_t i = 0, end; places && scratch && i < n; i = end) {
		struct sc_period row;
		size_t length;

		for (end = i + 1; end < n && places[end].name == places[i].name; end++)
			;
		if (end - i < MIN_ITERATIONS)
			continue;
		length = even_distance(places + i, end - i, scratch);
		if (length == 0 || (best && length >= best) || length > n / MIN_ITERATIONS)
			continue;
		longest_row(names, n, places[i + (end - i) / 2].at, length, &row);
		if (row.n < MIN_ITERATIONS || row.n * row.length * 2 < n)
			continue;
		best = length;
		*out = row;
	}
	free(places);
	free(scratch);
	return out->n > 0;
}
