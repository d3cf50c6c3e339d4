/* What repeats in a sequence of launches: iterations, and not layers of one. */
#include <stdint.h>

#include "runner.h"
#include "trace/graph/period.h"

enum { MAX_NAMES = 1 << 20 };
static uint32_t names[MAX_NAMES];
static bool meets[MAX_NAMES + 1];
static struct sc_period period;

static bool find(size_t n)
{
	const struct sc_launches all = {names, meets, n};

	return sc_period_find(&all, &period);
}

/* `n` iterations of: begin, `layers` of three kernels, as many backwards, an optimizer; every other
 * one logs. The first two are warming up. */
static size_t make_names(int n, int layers)
{
	size_t at = 0;

	for (int k = 0; k < 40; k++)
		names[at++] = 90 + (uint32_t)(k * k % 7);
	for (int i = 0; i < n; i++) {
		names[at++] = 1;
		for (int k = 0; k < 3 * layers; k++)
			names[at++] = 2 + (uint32_t)(k % 3);
		for (int k = 0; k < 5 * layers; k++)
			names[at++] = 10 + (uint32_t)(k % 5);
		names[at++] = i % 2 ? 20 : 21;
		names[at++] = 22;
	}
	return at;
}

TEST(iterations_are_what_repeats)
{
	const size_t n = make_names(10, 24), length = 24 * 8 + 3;
	ck_assert(find(n));
	ck_assert_uint_eq(period.length, length);
	ck_assert_uint_ge(period.n, 9);
	ck_assert_uint_le(period.first + period.n * period.length, n);
	ck_assert(!find(40 + 2 * length)); /* two are no proof */
	ck_assert(!find(0));
	for (size_t i = 0; i < n; i++)
		names[i] = (uint32_t)i;
	ck_assert(!find(n));
}

/* Exactly three: wherever a name is in the middle of one. */
TEST(three_are_found)
{
	for (size_t i = 0; i < 39; i++)
		names[i] = (uint32_t)(i % 13);
	ck_assert(find(39));
	ck_assert_uint_eq(period.n, 3);
	ck_assert_uint_eq(period.first, 0);
	ck_assert_uint_eq(period.length, 13);
	ck_assert(!find(38));
}

/* Names that propose many lengths, of which none repeats: the time is bounded. */
TEST(many_lengths)
{
	for (size_t i = 0; i < MAX_NAMES; i++)
		names[i] = MAX_NAMES + (uint32_t)i;
	for (uint32_t k = 0; k < MAX_NAMES / 4; k++)
		for (size_t i = 0; i < 3; i++) {
			size_t at = k + i * (k + 2);

			if (at < MAX_NAMES)
				names[at] = k;
		}
	ck_assert(!find(MAX_NAMES));
}

/* A decode step: tokens to the device, 18 layers, the head, a token back. */
static size_t make_step(size_t at)
{
	meets[at] = true;
	names[at++] = 100;
	for (uint32_t layer = 0; layer < 18; layer++)
		for (uint32_t k = 0; k < 9; k++)
			names[at++] = k;
	names[at++] = 101;
	meets[at] = true;
	return at;
}

TEST(layers_are_no_iterations)
{
	size_t n = 0;

	memset(meets, 0, sizeof(meets));
	n = make_step(n);
	ck_assert(!find(n));
	meets[n] = false;
	meets[50] = true; /* recorded from the middle of a step to the middle of its last layer */
	ck_assert(!find(n - 3));
	/* Of a loop that never meets the host nothing else is known. */
	memset(meets, 0, sizeof(meets));
	ck_assert(find(n));
	ck_assert_uint_eq(period.length, 9);
	/* Of several steps the steps repeat. */
	n = 0;
	for (int step = 0; step < 5; step++)
		n = make_step(n);
	ck_assert(find(n));
	ck_assert_uint_eq(period.length, 18 * 9 + 2);
	ck_assert_uint_eq(period.n, 5);
	memset(meets, 0, sizeof(meets));
}
