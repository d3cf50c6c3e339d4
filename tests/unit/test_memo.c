/* Remembered answers: those to the same key, bit by bit, and none else; few enough at any time.
 * Names to ids and back. */
#include "base/fnv.h"
#include "base/intern.h"
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

/* ---- intern ---- */

static struct sc_intern table;

static void intern_set_up(void)
{
	table = (struct sc_intern){0};
}

static void intern_tear_down(void)
{
	sc_intern_release(&table);
}

FIXTURE(intern_set_up, intern_tear_down)

TEST(test_equal_texts_share_an_id)
{
	char again[] = "gemm";

	ck_assert_uint_eq(sc_intern_add(&table, "gemm"), 0);
	ck_assert_uint_eq(sc_intern_add(&table, "all-reduce"), 1);
	ck_assert_uint_eq(sc_intern_add(&table, ""), 2);
	ck_assert_uint_eq(sc_intern_add(&table, again), 0);
	ck_assert_uint_eq(sc_intern_add_n(&table, "gemm kernel", 4), 0);
	ck_assert_uint_eq(sc_intern_add_n(&table, "gemm kernel", 6), 3);
	ck_assert_uint_eq(sc_intern_count(&table), 4);
	again[0] = 'x';
	ck_assert_str_eq(sc_intern_get(&table, 0), "gemm");
	ck_assert_str_eq(sc_intern_get(&table, 2), "");
	ck_assert_str_eq(sc_intern_get(&table, 3), "gemm k");
}

TEST(test_texts_with_nul)
{
	ck_assert_uint_eq(sc_intern_add_n(&table, "a\0b", 3), 0);
	ck_assert_uint_eq(sc_intern_add_n(&table, "a\0c", 3), 1);
	ck_assert_uint_eq(sc_intern_add_n(&table, "a", 1), 2);
	ck_assert_uint_eq(sc_intern_add_n(&table, "a\0b", 3), 0);
	ck_assert_mem_eq(sc_intern_get(&table, 1), "a\0c", 4);
}

TEST(test_find)
{
	ck_assert_uint_eq(sc_intern_find(&table, "a"), SC_INTERN_NONE);
	sc_intern_add(&table, "a");
	ck_assert_uint_eq(sc_intern_find(&table, "a"), 0);
	ck_assert_uint_eq(sc_intern_find(&table, "b"), SC_INTERN_NONE);
	ck_assert_uint_eq(sc_intern_count(&table), 1);
}

TEST(test_many)
{
	enum { N = 20000 };
	const char *first = NULL;
	char name[32];

	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < N; i++) {
			snprintf(name, sizeof(name), "kernel_%u", (unsigned)i);
			ck_assert_uint_eq(sc_intern_add(&table, name), i);
			if (!first)
				first = sc_intern_get(&table, 0);
		}
	}
	ck_assert_uint_eq(sc_intern_count(&table), N);
	ck_assert_ptr_eq(sc_intern_get(&table, 0), first);
	ck_assert_str_eq(sc_intern_get(&table, N - 1), "kernel_19999");
}

/* Values of the reference implementation. */
TEST(test_fnv)
{
	ck_assert_uint_eq(sc_fnv(SC_FNV_START, "", 0), SC_FNV_START);
	ck_assert_uint_eq(sc_fnv(SC_FNV_START, "a", 1), UINT64_C(0xaf63dc4c8601ec8c));
	ck_assert_uint_eq(sc_fnv(sc_fnv(SC_FNV_START, "foo", 3), "bar", 3),
			  UINT64_C(0x85944171f73967e8));
}
