/* Radix sort from the lowest digit; digits that are the same in all keys are left out. */
#include "trace/format/row_sort.h"

#include <stdbool.h>

enum { DIGIT_BITS = 11, N_DIGITS = 1 << DIGIT_BITS };

static inline uint32_t key_digit(const struct sc_row_key *key, unsigned shift, bool of_group)
{
	uint64_t value = of_group ? key->group : key->time;

	return (uint32_t)(value >> shift) & (N_DIGITS - 1);
}

static bool is_sorted(const struct sc_row_key *keys, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (keys[i].group < keys[i - 1].group ||
		    (keys[i].group == keys[i - 1].group && keys[i].time < keys[i - 1].time))
			return false;
	return true;
}

/* One pass; true if `to` now has the keys, false if the digit is the same in all. */
static bool sort_by_digit(const struct sc_row_key *from, struct sc_row_key *to, size_t n,
			  unsigned shift, bool of_group)
{
	size_t at[N_DIGITS] = {0}, sum = 0;

	for (size_t i = 0; i < n; i++)
		at[key_digit(&from[i], shift, of_group)]++;
	if (at[key_digit(&from[0], shift, of_group)] == n)
		return false;
	for (size_t i = 0; i < N_DIGITS; i++) {
		size_t here = at[i];

		at[i] = sum;
		sum += here;
	}
	for (size_t i = 0; i < n; i++)
		to[at[key_digit(&from[i], shift, of_group)]++] = from[i];
	return true;
}

struct sc_row_key *sc_row_sort(struct sc_row_key *keys, struct sc_row_key *spare, size_t n)
{
	uint64_t times = 0;
	uint32_t groups = 0;

	if (is_sorted(keys, n))
		return keys;
	for (size_t i = 0; i < n; i++) {
		times |= keys[i].time;
		groups |= keys[i].group;
	}
	for (unsigned pass = 0; pass < 2; pass++) {
		uint64_t used = pass ? groups : times;

		for (unsigned shift = 0; shift < 64 && used >> shift; shift += DIGIT_BITS) {
			struct sc_row_key *old = keys;

			if (!sort_by_digit(keys, spare, n, shift, pass == 1))
				continue;
			keys = spare;
			spare = old;
		}
	}
	return keys;
}
