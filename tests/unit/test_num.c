/* Text to numbers: whole text or nothing. Conversions, each against a case in whole numbers. The
 * generator: known values, ranges, moments. Means, percentiles and error measures against
 * hand-computed values. */
#include <float.h>
#include <stdint.h>

#include "arena_fixture.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/stats.h"
#include "base/units.h"
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

/* ---- num ---- */

TEST(test_conversions)
{
	ck_assert_double_eq(sc_bytes_us(2e9, 2.0), 1e6);     /* 2 GB at 2 GB/s: a second */
	ck_assert_double_eq(sc_flop_us(312e12, 312.0), 1e6); /* 312 TFLOP at 312 TFLOP/s */
	ck_assert_double_eq(sc_gbit_to_gbps(200.0), 25.0);
	ck_assert_double_eq(sc_mbit_to_gbit(200e3), 200.0);
	ck_assert_double_eq(sc_mhz_cycles_us(1410.0, 1410.0), 1.0);
	ck_assert_double_eq(SC_BYTES_PER_GIB, 1073741824.0);
	ck_assert_int_eq(SC_NS_PER_S, SC_NS_PER_MS * 1000);
	ck_assert_int_eq(SC_NS_PER_MS, SC_NS_PER_US * 1000);
}

/* ---- num ---- */

static const struct {
	const char *text;
	double value;
} doubles[] = {
	{"0", 0.0},
	{"12", 12.0},
	{"-3.5", -3.5},
	{"+4", 4.0},
	{".5", 0.5},
	{"5.", 5.0},
	{"1e3", 1e3},
	{"1E-3", 1e-3},
	{"2.5e+2", 250.0},
	{"007", 7.0},
	{"1.7976931348623157e308", DBL_MAX},
	{"0.1", 0.1},
	{"123456789012345678901234567890", 1.2345678901234568e29},
};

LOOP_TEST(test_double, N_OF(doubles))
{
	double value = -1.0;

	ck_assert(sc_parse_double(doubles[_i].text, &value));
	ck_assert_double_eq(value, doubles[_i].value);
}

static const struct {
	const char *text;
	int64_t value;
} ints[] = {
	{"0", 0},
	{"-0", 0},
	{"12", 12},
	{"-3", -3},
	{"+4", 4},
	{"007", 7},
	{"5.12e4", 51200},
	{"1e0", 1},
	{"100e-2", 1},
	{"1.50e1", 15},
	{"12.000", 12},
	{"1.0000000000000000000000000000", 1},
	{"0.000000000000000000000000001e27", 1},
	{"0e999999999999999999999", 0},
	{"0.0e-5", 0},
	{"1000000000000000000000e-20", 10},
	{"9223372036854775807", INT64_MAX},
	{"-9223372036854775808", INT64_MIN},
	{"9.007199254740992e15", 9007199254740992},
	{"9007199254740993", 9007199254740993},
};

LOOP_TEST(test_int, N_OF(ints))
{
	int64_t value = -1;

	ck_assert(sc_parse_int(ints[_i].text, &value));
	ck_assert_int_eq(value, ints[_i].value);
}

static const char *const neither[] = {
	"",     "x",   " 1",   "1 ",  "1x",  "-",     "+",   ".",     "e5",  "1e",  "1e+",
	"0x10", "inf", "-inf", "nan", "1,5", "1.2.3", "--1", "1e5.0", "1_0", "\t1", "1\n",
};

LOOP_TEST(test_neither, N_OF(neither))
{
	int64_t i = 42;
	double d = 42.0;

	ck_assert(!sc_parse_double(neither[_i], &d));
	ck_assert(!sc_parse_int(neither[_i], &i));
	ck_assert_int_eq(i, 42);
	ck_assert_double_eq(d, 42.0);
}

TEST(test_null)
{
	int64_t i;
	double d;

	ck_assert(!sc_parse_double(NULL, &d));
	ck_assert(!sc_parse_int(NULL, &i));
}

static const char *const not_doubles[] = {"1e309", "-1e309", "1e-400", "1e99999999999999999999"};

LOOP_TEST(test_not_double, N_OF(not_doubles))
{
	double d = 42.0;

	ck_assert(!sc_parse_double(not_doubles[_i], &d));
	ck_assert_double_eq(d, 42.0);
}

static const char *const not_ints[] = {
	"1.5",
	"5e-1",
	"9223372036854775808",
	"-9223372036854775809",
	"1e19",
	"18446744073709551616",
	"99999999999999999999",
	"100000000000000000001",
	"1e16",
	"1e99999999999999999999",
	"10e9223372036854775807",
	"1e-99999999999999999999",
	"0.1",
};

LOOP_TEST(test_not_int, N_OF(not_ints))
{
	int64_t i = 42;

	ck_assert(!sc_parse_int(not_ints[_i], &i));
	ck_assert_int_eq(i, 42);
}

/* ---- stats ---- */

static const double tolerance = 1e-12;

static const double sample[] = {4.0, 1.0, 3.0, 2.0, 10.0};

FIXTURE(arena_begin, arena_end)

TEST(test_mean)
{
	ck_assert_double_eq_tol(sc_mean(sample, 5), 4.0, tolerance);
	ck_assert_double_eq_tol(sc_mean(sample, 1), 4.0, tolerance);
}

TEST(test_empty)
{
	struct sc_accuracy accuracy;

	ck_assert(isnan(sc_mean(NULL, 0)));
	sc_sort_doubles(NULL, 0);
	accuracy = sc_accuracy_compute(NULL, NULL, 0, &arena);
	ck_assert_uint_eq(accuracy.n, 0);
	ck_assert(isnan(accuracy.mape_pct) && isnan(accuracy.median_ape_pct));
	ck_assert(isnan(accuracy.p90_ape_pct) && isnan(accuracy.geomean_ape_pct));
	ck_assert(isnan(accuracy.bias_pct));
}

static const struct {
	double pct, value;
} percentiles[] = {
	{0.0, 1.0},  {25.0, 2.0}, {50.0, 3.0},   {75.0, 4.0},
	{90.0, 7.6}, {95.0, 8.8}, {100.0, 10.0}, {12.5, 1.5},
};

LOOP_TEST(test_percentile, N_OF(percentiles))
{
	double sorted[5];

	memcpy(sorted, sample, sizeof(sorted));
	sc_sort_doubles(sorted, 5);
	ck_assert_double_eq_tol(sc_percentile_sorted(sorted, 5, percentiles[_i].pct),
				percentiles[_i].value, tolerance);
	ck_assert_double_eq_tol(sc_percentile_sorted(sample, 1, percentiles[_i].pct), 4.0,
				tolerance);
}

TEST(test_median_sorting)
{
	double x[] = {3, 1, 2, 10};

	ck_assert_double_eq(sc_median_sorting(x, 3), 2);
	ck_assert_double_eq(x[0], 1);
	ck_assert_double_eq(sc_median_sorting(x, 4), 2.5);
	ck_assert(isnan(sc_median_sorting(x, 0)));
}

TEST(test_sort)
{
	double x[] = {3.0, -1.0, 2.0, -1.0, 1e300, -1e300};

	sc_sort_doubles(x, N_OF(x));
	for (size_t i = 1; i < N_OF(x); i++)
		ck_assert_double_le(x[i - 1], x[i]);
	ck_assert_double_eq(x[0], -1e300);
}

/* Errors of +10, -20, 0 and +40 %. */
TEST(test_accuracy)
{
	static const double measured[] = {100.0, 50.0, 10.0, 1000.0};
	static const double predicted[] = {110.0, 40.0, 10.0, 1400.0};
	struct sc_accuracy a;

	a = sc_accuracy_compute(predicted, measured, 4, &arena);
	ck_assert_uint_eq(a.n, 4);
	ck_assert_double_eq_tol(a.mape_pct, 17.5, 1e-9);
	ck_assert_double_eq_tol(a.median_ape_pct, 15.0, 1e-9);
	ck_assert_double_eq_tol(a.p90_ape_pct, 34.0, 1e-9);
	ck_assert_double_eq_tol(a.geomean_ape_pct, pow(10.0 * 20.0 * 0.01 * 40.0, 0.25), 1e-9);
	ck_assert_double_eq_tol(a.bias_pct, 7.5, 1e-9);
}
