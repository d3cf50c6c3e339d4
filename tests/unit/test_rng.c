/* The generator: known values, ranges, moments. */
#include "base/rng.h"
#include "runner.h"

/* First outputs of xoshiro256** from the state 1, 2, 3, 4, computed by hand for the first two:
 * rotl(2 * 5, 7) * 9 = 11520, then state[1] = 0, so 0. The rest is the reference program's. */
TEST(test_known_values)
{
	static const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240};
	struct sc_rng rng = {.state = {1, 2, 3, 4}};

	for (int i = 0; i < 4; i++)
		ck_assert_uint_eq(sc_rng_next(&rng), expected[i]);
}

/* splitmix64 from 1234567, the reference program's test values. */
TEST(test_seeding)
{
	struct sc_rng rng;

	sc_rng_init(&rng, 1234567);
	ck_assert_uint_eq(rng.state[0], 6457827717110365317u);
	ck_assert_uint_eq(rng.state[1], 3203168211198807973u);
	ck_assert_uint_eq(rng.state[2], 9817491932198370423u);
	ck_assert_uint_eq(rng.state[3], 4593380528125082431u);
}

TEST(test_same_seed_same_numbers)
{
	struct sc_rng a, b, c;

	sc_rng_init(&a, 7);
	sc_rng_init(&b, 7);
	sc_rng_init(&c, 8);
	for (int i = 0; i < 100; i++) {
		uint64_t value = sc_rng_next(&a);

		ck_assert_uint_eq(value, sc_rng_next(&b));
		ck_assert_uint_ne(value, sc_rng_next(&c));
	}
}

TEST(test_uniform)
{
	enum { N = 100000 };
	struct sc_rng rng;
	double sum = 0.0;

	sc_rng_init(&rng, 1);
	for (int i = 0; i < N; i++) {
		double x = sc_rng_uniform(&rng);

		ck_assert(x >= 0.0 && x < 1.0);
		sum += x;
	}
	/* the mean's deviation is 1 / sqrt(12 N) = 0.0009 */
	ck_assert_double_eq_tol(sum / N, 0.5, 0.005);
}

TEST(test_below)
{
	enum { N = 70000, SIDES = 7 };
	size_t count[SIDES] = {0};
	struct sc_rng rng;

	sc_rng_init(&rng, 2);
	for (int i = 0; i < N; i++) {
		uint64_t x = sc_rng_below(&rng, SIDES);

		ck_assert_uint_lt(x, SIDES);
		count[x]++;
	}
	for (int i = 0; i < SIDES; i++) {
		ck_assert_uint_gt(count[i], 9500);
		ck_assert_uint_lt(count[i], 10500);
	}
	ck_assert_uint_eq(sc_rng_below(&rng, 1), 0);
	/* half of all draws are drawn again */
	for (int i = 0; i < 1000; i++)
		ck_assert_uint_le(sc_rng_below(&rng, (UINT64_C(1) << 63) + 1), UINT64_C(1) << 63);
}

TEST(test_normal)
{
	enum { N = 100000 };
	double sum = 0.0, squares = 0.0;
	struct sc_rng rng;

	sc_rng_init(&rng, 3);
	for (int i = 0; i < N; i++) {
		double x = sc_rng_normal(&rng);

		ck_assert(isfinite(x));
		sum += x;
		squares += x * x;
	}
	ck_assert_double_eq_tol(sum / N, 0.0, 0.02);
	ck_assert_double_eq_tol(squares / N, 1.0, 0.03);
}
