/* Means, percentiles and error measures against hand-computed values. */
#include "arena_fixture.h"
#include "base/stats.h"
#include "runner.h"

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
