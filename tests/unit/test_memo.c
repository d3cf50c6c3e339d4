/* Remembered answers: those to the same key, bit by bit, and none else; few enough at any time. */
#include "base/memo.h"
#include "base/rng.h"
#include "runner.h"

enum { N_SLOTS = 4096, N_QUESTIONS = 20000, N_KEYS = 3000, MOST_NUMBERS = 40, LARGE = 1 << 18 };

static struct sc_memo *memo;

static void set_up(void)
{
	memo = sc_memo_create(N_SLOTS);
}

static void tear_down(void)
{
	sc_memo_destroy(memo);
}

/* The k-th key: numbers that begin alike, of any length, also none. */
static void ask(int k)
{
	struct sc_memo_key *key = sc_memo_begin(memo);
	int n = k % MOST_NUMBERS;

	for (int i = 0; i < n; i++)
		sc_memo_put(key, i + 1 < n ? 1 : k);
}

/* The same as that of others only where keys are the same. */
static double answer(int k)
{
	return k % MOST_NUMBERS == 0 ? 0.5 : k;
}

FIXTURE(set_up, tear_down)

/* As of a store that forgets nothing. */
TEST(any_questions)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 1);
	for (int i = 0; i < n_cases(N_QUESTIONS); i++) {
		int k = (int)sc_rng_below(&rng, N_KEYS);
		const double *known;

		ask(k);
		known = sc_memo_find(memo);
		if (!known) {
			double *numbers = sc_memo_add(memo, 2);

			numbers[0] = answer(k);
			numbers[1] = -answer(k);
			known = sc_memo_find(memo);
		}
		ck_assert_ptr_nonnull(known);
		ck_assert_double_eq(known[0], answer(k));
		ck_assert_double_eq(known[1], -answer(k));
	}
}

/* Bits count: zeros of both signs are two keys; what is no number is one. */
TEST(bits)
{
	const double numbers[] = {0.0, -0.0, NAN, INFINITY, -INFINITY};

	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 5; i++) {
			const double *known;

			sc_memo_put_all(sc_memo_begin(memo), &numbers[i], 1);
			known = sc_memo_find(memo);
			ck_assert_int_eq(known != NULL, round);
			if (known)
				ck_assert_double_eq(known[0], i);
			else
				sc_memo_add(memo, 1)[0] = i;
		}
}

/* Answers larger than all it keeps are given all the same, and others are forgotten. */
TEST(forgets)
{
	for (int k = 1; k < 40; k++) {
		ask(k);
		ck_assert_ptr_null(sc_memo_find(memo));
		sc_memo_add(memo, LARGE)[LARGE - 1] = k;
		ck_assert_double_eq(sc_memo_find(memo)[LARGE - 1], k);
	}
	ask(1);
	ck_assert_ptr_null(sc_memo_find(memo));
}
