/* Reuse of embedding rows: profiles and what is refused; distinct rows and hits against counting.
 */
#include <unistd.h>

#include "arena_fixture.h"
#include "base/rng.h"
#include "core/embedding/reuse.h"
#include "models/row_reuse.h"
#include "runner.h"

static const struct sc_reuse uniform = {.kind = SC_REUSE_UNIFORM};

static struct sc_reuse load(const char *id)
{
	struct sc_reuse reuse;
	struct sc_err err = {.code = SC_OK};

	ck_assert_msg(sc_reuse_load(id, &arena, &reuse, &err) == 0, "%s", err.text);
	return reuse;
}

static void is_near(double got, double expected, double tolerance)
{
	ck_assert_msg(fabs(got - expected) <= tolerance * fabs(expected), "got %g, expected %g",
		      got, expected);
}

/* ---- profiles ---- */

FIXTURE(arena_begin, arena_end)

/* Distinct rows at the batch that the published histogram is of, and lookups over distinct rows at
 * smaller ones as thinned from it apart from this program. */
LOOP_TEST(published_batches, 2)
{
	static const struct {
		const char *id;
		double batch, at[4];
	} years[] = {
		{"dlrm-datasets-2021", 65536, {1.405, 1.678, 2.226, 3.555}},
		{"dlrm-datasets-2022", 131072, {1.45, 1.76, 2.36, 3.89}},
	};
	static const double batches[] = {256, 1024, 4096, 16384};
	struct sc_reuse reuse = load(years[_i].id);
	double lookups = reuse.n_lookups / reuse.n_tables;

	is_near(sc_reuse_unique(&reuse, 1e9, lookups) * reuse.n_tables, reuse.n_unique, 5e-3);
	for (int k = 0; k < 4; k++) {
		double n = lookups * batches[k] / years[_i].batch;

		is_near(n / sc_reuse_unique(&reuse, 1e9, n), years[_i].at[k], 5e-3);
	}
}

TEST(hit_rates_of_published_histogram)
{
	static const double cached[] = {0.001, 0.01, 0.1, 0.4};
	static const double lru[] = {0.152, 0.343, 0.612, 0.872};
	struct sc_reuse reuse = load("dlrm-datasets-2022");
	double rows = reuse.n_unique / reuse.n_tables;

	for (int i = 0; i < 4; i++) {
		double hit = sc_reuse_hit(&reuse, rows, cached[i] * rows, false);

		is_near(hit, lru[i], 0.02);
		ck_assert(sc_reuse_hit(&reuse, rows, cached[i] * rows, true) > hit);
	}
}

TEST(default_is_a_histogram)
{
	struct sc_reuse reuse = {.kind = SC_REUSE_DEFAULT}, again;
	struct sc_err err = {.code = SC_OK};

	ck_assert_int_eq(sc_reuse_resolve(&reuse, NULL, &arena, &err), 0);
	ck_assert_int_eq(reuse.kind, SC_REUSE_BINS);
	again = reuse;
	ck_assert_int_eq(sc_reuse_resolve(&again, NULL, &arena, &err), 0);
	ck_assert_int_eq(memcmp(&again, &reuse, sizeof(reuse)), 0);
}

static double half[] = {0.5, 0.5}, rising[] = {0.1, 0.5}, falling[] = {0.6, 0.2}, short_[] = {0.3};
static const struct {
	struct sc_reuse reuse;
	const char *text;
} REFUSED[] = {
	{{.zipf = 1, .file = "default"}, "beside a description"},
	{{.kind = SC_REUSE_UNIFORM, .zipf = 1}, "more than one description"},
	{{.zipf = 1, .cached_frac = {rising, 2}, .miss_frac = {falling, 2}},
	 "more than one description"},
	{{.kind = SC_REUSE_ZIPF}, "kind zipf without its numbers"},
	{{.row_bins = {half, 2}}, "row_bins and lookup_bins"},
	{{.row_bins = {half, 2}, .lookup_bins = {half, 2}}, "n_lookups >= n_unique"},
	{{.row_bins = {short_, 1}, .lookup_bins = {short_, 1}, .n_lookups = 9, .n_unique = 3},
	 "sum to 1, got 0.3"},
	{{.cached_frac = {rising, 2}, .miss_frac = {rising, 2}}, "point 2"},
	{{.cached_frac = {falling, 2}, .miss_frac = {falling, 2}}, "point 2"},
	{{.cached_frac = {rising, 2}}, "cached_frac and miss_frac"},
	{{.file = "dlrm-dataset-2021"}, "did you mean \"dlrm-datasets-2021\""},
};
enum { N_REFUSED = sizeof(REFUSED) / sizeof(REFUSED[0]) };

LOOP_TEST(refused, N_REFUSED)
{
	struct sc_reuse reuse = REFUSED[_i].reuse;
	struct sc_err err = {.code = SC_OK};

	ck_assert_int_ne(sc_reuse_resolve(&reuse, NULL, &arena, &err), 0);
	ck_assert_msg(strstr(err.text, REFUSED[_i].text), "%s", err.text);
	ck_assert_int_eq(memcmp(&reuse, &REFUSED[_i].reuse, sizeof(reuse)), 0);
}

/* ---- distinct rows ---- */

TEST(uniform_by_hand)
{
	is_near(sc_reuse_unique(&uniform, 2, 1), 1, 1e-12);
	is_near(sc_reuse_unique(&uniform, 2, 3), 1.75, 1e-12); /* 2 (1 - 1/8) */
	is_near(sc_reuse_unique(&uniform, 1, 1e6), 1, 1e-12);
	is_near(sc_reuse_unique(&uniform, 1e12, 1e6), 1e6, 1e-6);
	ck_assert(sc_reuse_unique(&uniform, 100, 0) <= 0);
	ck_assert(sc_reuse_unique(&uniform, 0, 100) <= 0);
}

/* Counts of so many draws by inversion of the ranks' cumulated weights; the caller frees them. */
static unsigned *draw_zipf(double a, size_t rows, size_t lookups)
{
	unsigned *count = calloc(rows, sizeof(*count));
	double *sum = malloc(rows * sizeof(*sum)), total = 0;
	struct sc_rng rng;

	sc_rng_init(&rng, 7);
	for (size_t i = 0; i < rows; i++)
		sum[i] = total += pow((double)i + 1, -a);
	for (size_t i = 0; i < lookups; i++) {
		double x = sc_rng_uniform(&rng) * total;
		size_t lo = 0, hi = rows - 1;

		while (lo < hi) {
			size_t middle = (lo + hi) / 2;

			if (sum[middle] < x)
				lo = middle + 1;
			else
				hi = middle;
		}
		count[lo]++;
	}
	free(sum);
	return count;
}

static const struct {
	double a;
	size_t rows, lookups;
} ZIPFS[] = {{0.6, 100000, 50000},
	     {1, 100000, 200000},
	     {1.05, 1000, 5000},
	     {1.15, 1000000, 300000},
	     {2, 1000, 100000}};
enum { N_ZIPFS = sizeof(ZIPFS) / sizeof(ZIPFS[0]) };

LOOP_TEST(zipf_against_monte_carlo, N_ZIPFS)
{
	struct sc_reuse reuse = {.kind = SC_REUSE_ZIPF, .zipf = ZIPFS[_i].a};
	unsigned *count = draw_zipf(ZIPFS[_i].a, ZIPFS[_i].rows, ZIPFS[_i].lookups);
	double unique = 0;

	for (size_t i = 0; i < ZIPFS[_i].rows; i++)
		unique += count[i] > 0;
	free(count);
	is_near(sc_reuse_unique(&reuse, (double)ZIPFS[_i].rows, (double)ZIPFS[_i].lookups), unique,
		0.05);
}

/* A sample's histogram tells the distinct rows of a smaller and of a larger sample of the same law.
 */
TEST(zipf_through_its_histogram)
{
	double rows_of[24] = {0}, lookups_of[24] = {0};
	struct sc_reuse zipf = {.kind = SC_REUSE_ZIPF, .zipf = 1.05};
	struct sc_reuse bins = {.kind = SC_REUSE_BINS, .n_lookups = 200000};
	unsigned *count = draw_zipf(1.05, 100000, 200000);

	for (size_t i = 0; i < 100000; i++) {
		if (count[i] == 0)
			continue;
		size_t bin = (size_t)ceil(log2((double)count[i]));

		rows_of[bin]++;
		lookups_of[bin] += count[i];
		bins.n_unique++;
	}
	for (size_t i = 0; i < 24; i++) {
		rows_of[i] /= bins.n_unique;
		lookups_of[i] /= bins.n_lookups;
	}
	bins.row_bins = (struct sc_doubles){rows_of, 24};
	bins.lookup_bins = (struct sc_doubles){lookups_of, 24};
	is_near(sc_reuse_unique(&bins, 100000, 20000), sc_reuse_unique(&zipf, 100000, 20000), 0.02);
	is_near(sc_reuse_unique(&bins, 100000, 200000), sc_reuse_unique(&zipf, 100000, 200000),
		0.02);
	is_near(sc_reuse_unique(&bins, 100000, 400000), sc_reuse_unique(&zipf, 100000, 400000),
		0.1);
	is_near(sc_reuse_hit(&bins, 100000, 1000, false), sc_reuse_hit(&zipf, 100000, 1000, false),
		0.05);
	is_near(sc_reuse_hot_frac(&bins, 100000), sc_reuse_hot_frac(&zipf, 100000), 0.4);
	free(count);
}

/* The curve of a uniform law: m = 1 - C / E. */
TEST(mrc_of_uniform)
{
	double cached[20], miss[20];
	struct sc_reuse mrc = {
		.kind = SC_REUSE_MRC, .cached_frac = {cached, 20}, .miss_frac = {miss, 20}};

	for (int i = 0; i < 20; i++) {
		cached[i] = 0.05 * (i + 1);
		miss[i] = 1 - cached[i];
	}
	miss[19] = 0;
	for (double n = 100; n < 1e6; n *= 10)
		is_near(sc_reuse_unique(&mrc, 1e4, n), sc_reuse_unique(&uniform, 1e4, n), 1e-2);
	is_near(sc_reuse_hit(&mrc, 1e4, 1250, false), 0.125, 1e-9);
}

/* ---- properties of all kinds ---- */

static struct sc_reuse kind_of(int i)
{
	static double cached[] = {0.01, 0.1, 0.5}, miss[] = {0.7, 0.4, 0.2};

	switch (i) {
	case 0:
		return uniform;
	case 1:
		return (struct sc_reuse){.kind = SC_REUSE_ZIPF, .zipf = 1.1};
	case 2:
		return load("dlrm-datasets-2021");
	case 3:
		return load("dlrm-datasets-2022");
	default:
		return (struct sc_reuse){
			.kind = SC_REUSE_MRC, .cached_frac = {cached, 3}, .miss_frac = {miss, 3}};
	}
}

LOOP_TEST(distinct_rows_are_sane, 5)
{
	struct sc_reuse reuse = kind_of(_i);

	for (double rows = 1; rows < 1e12; rows *= 37) {
		double last = 0;

		for (double n = 1; n < 1e15; n *= 3) {
			double unique = sc_reuse_unique(&reuse, rows, n);

			ck_assert(isfinite(unique));
			ck_assert(unique >= last * (1 - 1e-9));
			ck_assert(unique <= fmin(rows, n) * (1 + 1e-9));
			/* the second half brings no more new rows than the first */
			ck_assert(sc_reuse_unique(&reuse, rows, 2 * n) <= 2 * unique * (1 + 1e-6));
			last = unique;
		}
	}
}

LOOP_TEST(hit_rates_are_sane, 5)
{
	struct sc_reuse reuse = kind_of(_i);

	for (double rows = 10; rows < 1e10; rows *= 31) {
		double lru = 0, pinned = 0;

		for (double frac = 1e-4; frac < 1; frac *= 1.7) {
			double l = sc_reuse_hit(&reuse, rows, frac * rows, false);
			double p = sc_reuse_hit(&reuse, rows, frac * rows, true);

			ck_assert(l >= lru - 1e-9 && l <= 1 && p >= pinned - 1e-9 && p <= 1);
			ck_assert(p >= l - 1e-6); /* nothing beats the most popular rows */
			lru = l;
			pinned = p;
		}
		ck_assert(sc_reuse_hit(&reuse, rows, rows, false) >= 1);
		ck_assert(sc_reuse_hit(&reuse, rows, 0, false) <= 0);
		ck_assert(sc_reuse_hot_frac(&reuse, rows) <= 1);
		ck_assert(sc_reuse_row_skew(&reuse, rows, 1) <= 1);
		ck_assert(sc_reuse_row_skew(&reuse, rows, 8) >= 1);
		ck_assert(sc_reuse_row_skew(&reuse, rows, 8) <= 8);
	}
}

/* Alike rows have no hot slice, be they as few as the slices; a row that all look up is on one
 * slice. */
TEST(row_skew_by_hand)
{
	struct sc_reuse reuse = {.kind = SC_REUSE_UNIFORM};

	ck_assert_double_eq_tol(sc_reuse_row_skew(&reuse, 1e6, 8), 1, 1e-9);
	ck_assert_double_eq_tol(sc_reuse_row_skew(&reuse, 8, 8), 1, 1e-9);
	/* 4 rows on 8 ranks: a quarter of the lookups where an eighth is the mean */
	ck_assert_double_eq_tol(sc_reuse_row_skew(&reuse, 4, 8), 2, 1e-9);
	ck_assert_double_eq_tol(sc_reuse_row_skew(&reuse, 1, 8), 8, 1e-9);
	reuse.hot_frac = 0.5;
	/* 5 of 10 rows: 0.5 and 4 / 9 of the rest, over a half */
	ck_assert_double_eq_tol(sc_reuse_row_skew(&reuse, 10, 2), 2 * (0.5 + 0.5 * 4 / 9), 1e-9);
	reuse.hot_frac = 1;
	ck_assert_double_eq_tol(sc_reuse_row_skew(&reuse, 1e6, 8), 8, 1e-9);
}

/* ---- samples of indices ---- */

static char path[64];

static void make_file(const char *end, const void *bytes, size_t n)
{
	FILE *file;

	snprintf(path, sizeof(path), "test_reuse_%ld%s", (long)getpid(), end);
	file = fopen(path, "wb");
	ck_assert(file != NULL);
	ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
	ck_assert_int_eq(fclose(file), 0);
}

static int load_sample(struct sc_reuse *out, struct sc_err *err)
{
	int rc = sc_index_sample_load(path, &arena, out, err);

	remove(path);
	return rc;
}

TEST(sample_of_text)
{
	static const char text[] = "5 5,5\n7\n5 9 9 12\n";
	struct sc_reuse sample;
	struct sc_err err = {.code = SC_OK};

	make_file(".txt", text, strlen(text));
	ck_assert_msg(load_sample(&sample, &err) == 0, "%s", err.text);
	is_near(sample.n_lookups, 8, 0);
	is_near(sample.n_unique, 4, 0);
	is_near(sample.hot_frac, 0.5, 1e-12);
	/* once: 7, 12; twice: 9; 3-4 times: 5 */
	ck_assert_uint_eq(sample.row_bins.n, 3);
	is_near(sample.row_bins.at[0], 0.5, 1e-12);
	is_near(sample.lookup_bins.at[2], 0.5, 1e-12);
	is_near(sc_reuse_unique(&sample, 100, 8), 4, 1e-9);
}

TEST(sample_of_npy)
{
	static const char head[] = "\x93NUMPY\x01\x00\x46\x00{'descr': '<i4', 'fortran_order': "
				   "False, 'shape': (3,), }          \n";
	unsigned char bytes[256];
	struct sc_reuse sample;
	struct sc_err err = {.code = SC_OK};
	size_t n = 10 + 70;

	memset(bytes, ' ', sizeof(bytes));
	memcpy(bytes, head, sizeof(head) - 1);
	memcpy(bytes + n, "\x01\0\0\0\x01\0\0\0\x00\x01\0\0", 12);
	make_file(".npy", bytes, n + 12);
	ck_assert_msg(load_sample(&sample, &err) == 0, "%s", err.text);
	is_near(sample.n_lookups, 3, 0);
	is_near(sample.n_unique, 2, 0);
	is_near(sample.lookup_bins.at[1], 2.0 / 3, 1e-12);
}

/* Rows counted one by one, however many. */
TEST(sample_of_many_rows)
{
	enum { N = 400000, ROWS = 100000, HOT = 30000 };
	int64_t *indices = malloc(N * sizeof(*indices));
	int *counts = calloc(ROWS, sizeof(*counts));
	double once = 0, unique = 0;
	struct sc_reuse sample;
	struct sc_err err = {.code = SC_OK};
	struct sc_rng rng;

	sc_rng_init(&rng, 11);
	for (size_t i = 0; i < N; i++) {
		indices[i] = i % (N / HOT) == 0 ? 42 : (int64_t)sc_rng_below(&rng, ROWS);
		counts[indices[i]]++;
	}
	for (size_t i = 0; i < ROWS; i++) {
		once += counts[i] == 1;
		unique += counts[i] > 0;
	}
	make_file(".bin", indices, N * sizeof(*indices));
	ck_assert_int_eq(load_sample(&sample, &err), 0);
	is_near(sample.n_lookups, N, 0);
	is_near(sample.n_unique, unique, 0);
	is_near(sample.hot_frac, (double)counts[42] / N, 1e-12);
	is_near(sample.row_bins.at[0], once / unique, 1e-12);
	free(counts);
	free(indices);
}

static const struct {
	const char *end, *bytes;
	size_t n;
	unsigned line;
	const char *text;
} BAD_FILES[] = {
	{".txt", "1 2\n3 -4\n", 9, 2, "expected indices"},
	{".txt", "1\n2\nx", 5, 3, "expected indices"},
	{".txt", "12a", 3, 1, "expected indices"},
	{".txt", "9223372036854775808", 19, 1, "expected indices"},
	{".txt", " \n", 2, 0, "no index"},
	{".txt", "", 0, 0, "no index"},
	{".bin", "\1\0\0\0\0\0\0\0\1", 9, 0, "cut off"},
	{".bin", "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 0, "index 0 is negative"},
	{".npy", "\x93NUMPY\x01\x00\xff\x00{}", 12, 0, "cut off"},
	{".npy", "\x93NUMPY\x09\x00\x02\x00{}", 12, 0, "unknown version"},
	{".npy", "\x93NUMPY\x01\x00\x02\x00{}", 12, 0, "no 'descr'"},
};
enum { N_BAD_FILES = sizeof(BAD_FILES) / sizeof(BAD_FILES[0]) };

LOOP_TEST(bad_files, N_BAD_FILES)
{
	struct sc_reuse sample;
	struct sc_err err = {.code = SC_OK};

	make_file(BAD_FILES[_i].end, BAD_FILES[_i].bytes, BAD_FILES[_i].n);
	ck_assert_int_ne(load_sample(&sample, &err), 0);
	ck_assert_msg(strstr(err.text, BAD_FILES[_i].text), "%s", err.text);
	ck_assert_uint_eq(err.line, BAD_FILES[_i].line);
}

/* Remembered answers are those that are computed, also when one list of numbers takes another's
 * place, when the memo was full in between, and for descriptions that differ in one number. */
TEST(memo_gives_the_same)
{
	struct sc_row_memo *memo = sc_row_memo_create();
	struct sc_reuse bins = load("dlrm-datasets-2021"), other = load("dlrm-datasets-2022");
	struct sc_reuse lookups = bins, of_more = bins, of_fewer = bins, of_two = bins, hot = bins;
	double cached[2][2] = {{0.1, 0.5}, {0.2, 0.6}}, missed[2][2] = {{0.5, 0.1}, {0.6, 0.2}};
	struct sc_reuse curves[3], nothing = {.kind = SC_REUSE_DEFAULT};
	struct sc_rng rng;

	sc_rng_init(&rng, 1);
	lookups.lookup_bins = other.lookup_bins;
	of_more.n_lookups *= 2;
	of_fewer.n_unique /= 2;
	of_two.n_tables = 2;
	hot.hot_frac = 0.3;
	for (int i = 0; i < 3; i++)
		curves[i] = (struct sc_reuse){.kind = SC_REUSE_MRC,
					      .cached_frac = {cached[i == 1], 2},
					      .miss_frac = {missed[i == 2], 2}};
	for (int i = 0; i < 20000; i++) {
		struct sc_reuse zipf = {.kind = SC_REUSE_ZIPF,
					.zipf = 0.5 + 1e-4 * (double)sc_rng_below(&rng, 20000)};
		const struct sc_reuse *kinds[] = {&nothing, curves,    &curves[1], &curves[2],
						  &bins,    &zipf,     &uniform,   &lookups,
						  &of_more, &of_fewer, &of_two,    &hot};
		struct sc_row_question q = {
			.fact = (enum sc_row_fact)sc_rng_below(&rng, SC_N_ROW_FACTS),
			.rows = 100.0 * (double)(1 + sc_rng_below(&rng, 5)),
			.lookups = 1e4 * (double)(1 + sc_rng_below(&rng, 3)),
			.cached_rows = 20.0 * (double)(1 + sc_rng_below(&rng, 2)),
		};
		const struct sc_reuse *reuse =
			kinds[i < 2 ? (size_t)i : sc_rng_below(&rng, N_OF(kinds))];
		double got = sc_row_fact(memo, reuse, &q), want = sc_row_fact(NULL, reuse, &q);

		ck_assert_mem_eq(&got, &want, sizeof(got));
		if (i % 100 == 0)
			memcpy(bins.row_bins.at, other.row_bins.at,
			       (i % 200 ? bins.row_bins.n : 4) * sizeof(double));
	}
	sc_row_memo_destroy(memo);
}
