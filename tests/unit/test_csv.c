/* The CSV reader: RFC 4180, its limits, and files plain and gzip. */
#include <math.h>
#include <zlib.h>

#include "arena_fixture.h"
#include "base/csv.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "runner.h"

enum { PATH_BYTES = 32 };

static struct sc_err err;
static struct sc_csv csv;

static void set_up(void)
{
	arena_begin();
	memset(&err, 0, sizeof(err));
	memset(&csv, 0, sizeof(csv));
}

static int parse(const char *text)
{
	return sc_csv_parse(&(struct sc_source){text, strlen(text), "t.csv"}, &arena, &csv, &err);
}

static const char *error_text(void)
{
	static char buf[600];

	return sc_err_format(&err, buf, sizeof(buf));
}

static const struct {
	const char *text;
	size_t n_rows, n_cols;
	const char *cells; /* header first, joined by "|" */
} good[] = {
	{"a,b\n1,2\n", 1, 2, "a|b|1|2|"},
	{"a,b\n1,2", 1, 2, "a|b|1|2|"},
	{"a,b\r\n1,2\r\n", 1, 2, "a|b|1|2|"},
	{"a,b\r\n1,2\n3,4\r\n", 2, 2, "a|b|1|2|3|4|"},
	{"a,b\n", 0, 2, "a|b|"},
	{"a,b", 0, 2, "a|b|"},
	{"a\n", 0, 1, "a|"},
	{"\xEF\xBB\xBF"
	 "a,b\n1,2\n",
	 1, 2, "a|b|1|2|"},
	{"a,b\n,\n", 1, 2, "a|b|||"},
	{"a,b\n1,", 1, 2, "a|b|1||"},
	{"a\n\nx\n", 2, 1, "a||x|"},
	{"a\n\"\"\n", 1, 1, "a||"},
	{"\"a\",\"b\"\n\"1\",\"2\"\n", 1, 2, "a|b|1|2|"},
	{"a\n\"x,\"\"y\"\"\"\n", 1, 1, "a|x,\"y\"|"},
	{"a\n\"\"\"\"\n", 1, 1, "a|\"|"},
	{"a,b\n\"l1\nl2\r\nl3\",2\n", 1, 2, "a|b|l1\nl2\r\nl3|2|"},
	{"a,b\n\"1\",\"2\"", 1, 2, "a|b|1|2|"},
	{"a,b\n 1 , 2\n", 1, 2, "a|b| 1 | 2|"},
	{",b\n0,1\n", 1, 2, "|b|0|1|"},
	{"a;b\n1;2\n", 1, 1, "a;b|1;2|"},
};

FIXTURE(set_up, arena_end)

LOOP_TEST(test_good, N_OF(good))
{
	struct sc_strbuf cells = {0};

	ck_assert_msg(parse(good[_i].text) == 0, "%s", error_text());
	ck_assert_uint_eq(csv.n_rows, good[_i].n_rows);
	ck_assert_uint_eq(csv.n_cols, good[_i].n_cols);
	for (size_t i = 0; i < csv.n_cols; i++)
		sc_strbuf_printf(&cells, "%s|", csv.header[i]);
	for (size_t row = 0; row < csv.n_rows; row++) {
		for (size_t col = 0; col < csv.n_cols; col++)
			sc_strbuf_printf(&cells, "%s|", sc_csv_cell(&csv, row, col));
	}
	ck_assert_str_eq(sc_strbuf_get(&cells), good[_i].cells);
	sc_strbuf_release(&cells);
}

static const struct {
	const char *text, *message;
} bad[] = {
	{"", "t.csv: error: empty: expected a header line"},
	{"\xEF\xBB\xBF", "t.csv: error: empty: expected a header line"},
	{"a,b\n1\n", "t.csv:2: error: the row has 1 cell, the header has 2"},
	{"a,b\n1,2\n1,2,3\n", "t.csv:3: error: the row has 3 cells, the header has 2"},
	{"a,b\n\"x\ny\",2\n1\n", "t.csv:4: error: the row has 1 cell, the header has 2"},
	{"a,b\n\n1,2\n", "t.csv:2: error: the line is empty; remove it"},
	{"a,b\r\n\r\n", "t.csv:2: error: the line is empty; remove it"},
	{"a,b,a\n", "t.csv:1: error: columns 1 and 3 are both named \"a\"; rename one"},
	{"a,,\n", "t.csv:1: error: columns 2 and 3 are both named \"\"; rename one"},
	{"a\n\"x\n\n",
	 "t.csv:2: error: a quote that begins on this line is not closed; add the \""},
	{"\"a", "t.csv:1: error: a quote that begins on this line is not closed; add the \""},
	{"a\n\"x\"\"\n",
	 "t.csv:2: error: a quote that begins on this line is not closed; add the \""},
	{"a\nx\"y\"\n",
	 "t.csv:2: error: a quote inside a cell; quote the whole cell and double the "
	 "quotes in it"},
	{"a\n \"y\"\n",
	 "t.csv:2: error: a quote inside a cell; quote the whole cell and double the "
	 "quotes in it"},
	{"a\n\"x\"y\n",
	 "t.csv:2: error: text after a closing quote; a quoted cell ends at its quote"},
	{"a\rb\r", "t.csv:1: error: a carriage return without a line feed; end lines with LF or CR "
		   "LF"},
	{"a\n\"x\"\ry\n",
	 "t.csv:2: error: a carriage return without a line feed; end lines with LF "
	 "or CR LF"},
};

LOOP_TEST(test_bad, N_OF(bad))
{
	ck_assert_int_eq(parse(bad[_i].text), -SC_EFORMAT);
	ck_assert_str_eq(error_text(), bad[_i].message);
	ck_assert_ptr_null(csv.cell);
}

TEST(test_lines)
{
	ck_assert_int_eq(parse("a,b\n1,2\n\"x\n\ny\",3\n4,5\n"), 0);
	ck_assert_uint_eq(csv.line[0], 2);
	ck_assert_uint_eq(csv.line[1], 3);
	ck_assert_uint_eq(csv.line[2], 6);
}

TEST(test_column)
{
	ck_assert_int_eq(parse("case,parallel.tp\n"), 0);
	ck_assert_int_eq(sc_csv_column(&csv, "parallel.tp"), 1);
	ck_assert_int_eq(sc_csv_column(&csv, "parallel"), -1);
	ck_assert_str_eq(csv.file, "t.csv");
}

TEST(test_nul_byte)
{
	ck_assert_int_eq(
		sc_csv_parse(&(struct sc_source){"a\n1\0\n", 5, "t.csv"}, &arena, &csv, &err),
		-SC_EFORMAT);
	ck_assert_str_eq(error_text(), "t.csv: error: contains a NUL byte; is it a CSV file?");
}

static void append_columns(struct sc_strbuf *text, int n)
{
	for (int i = 0; i < n; i++)
		sc_strbuf_printf(text, "%sc%d", i ? "," : "", i);
}

TEST(test_too_many_columns)
{
	struct sc_strbuf text = {0};

	append_columns(&text, SC_CSV_MAX_COLS);
	ck_assert_int_eq(parse(sc_strbuf_get(&text)), 0);
	ck_assert_uint_eq(csv.n_cols, SC_CSV_MAX_COLS);
	sc_strbuf_append(&text, ",one-more\n");
	ck_assert_int_eq(parse(sc_strbuf_get(&text)), -SC_ELIMIT);
	ck_assert_str_eq(error_text(), "t.csv:1: error: too many columns; at most 1024 are read");
	sc_strbuf_release(&text);
}

TEST(test_long_cell)
{
	char *text = sc_xmalloc(SC_CSV_MAX_CELL + 8);

	memcpy(text, "a\n", 2);
	memset(text + 2, 'x', SC_CSV_MAX_CELL + 1);
	text[SC_CSV_MAX_CELL + 2] = '\0';
	ck_assert_int_eq(parse(text), 0);
	text[SC_CSV_MAX_CELL + 2] = 'x';
	text[SC_CSV_MAX_CELL + 3] = '\0';
	ck_assert_int_eq(parse(text), -SC_ELIMIT);
	ck_assert_str_eq(error_text(),
			 "t.csv:2: error: a cell is too long; at most 1048576 bytes are read");
	free(text);
}

TEST(test_too_large)
{
	ck_assert_int_eq(
		sc_csv_parse(&(struct sc_source){"", (size_t)SC_CSV_MAX_BYTES + 1, "t.csv"}, &arena,
			     &csv, &err),
		-SC_ELIMIT);
	ck_assert_str_eq(error_text(),
			 "t.csv: error: the file is too large; at most 1 GiB is read");
}

/* A file without a name, gone when closed; opened again through its descriptor. */
static FILE *temp_file(char path[PATH_BYTES], const void *data, size_t n)
{
	FILE *file = tmpfile();

	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(data, 1, n, file), n);
	ck_assert_int_eq(fflush(file), 0);
	snprintf(path, PATH_BYTES, "/dev/fd/%d", fileno(file));
	return file;
}

static FILE *temp_gz(char path[PATH_BYTES], const char *text, int n_times)
{
	FILE *file = temp_file(path, "", 0);
	gzFile out = gzopen(path, "wb1");

	ck_assert_ptr_nonnull(out);
	for (int i = 0; i < n_times; i++)
		ck_assert_int_gt(gzputs(out, text), 0);
	ck_assert_int_eq(gzclose(out), Z_OK);
	return file;
}

TEST(test_load_plain)
{
	char path[PATH_BYTES];
	FILE *file = temp_file(path, "a,b\n1,2\n", 8);

	ck_assert_int_eq(sc_csv_load(path, &arena, &csv, &err), 0);
	ck_assert_str_eq(sc_csv_cell(&csv, 0, 1), "2");
	ck_assert_str_eq(csv.file, path);
	fclose(file);
}

/* Known by its content: the name does not end in .gz. */
TEST(test_load_gz)
{
	char path[PATH_BYTES];
	FILE *file = temp_gz(path, "aaa,bbb\n", 1);

	ck_assert_int_eq(sc_csv_load(path, &arena, &csv, &err), 0);
	ck_assert_str_eq(csv.header[1], "bbb");
	fclose(file);
}

/* Larger than the first buffers: it grows as the text comes out. */
TEST(test_load_large_gz)
{
	char path[PATH_BYTES];
	FILE *file = temp_gz(path, "one,two\n", 20000);

	ck_assert_int_eq(sc_csv_load(path, &arena, &csv, &err), 0);
	ck_assert_uint_eq(csv.n_rows, 19999);
	fclose(file);
}

static void expect_bad_gz(const char *data, size_t n)
{
	char path[PATH_BYTES];
	FILE *file = temp_file(path, data, n);

	memset(&err, 0, sizeof(err));
	ck_assert_int_eq(sc_csv_load(path, &arena, &csv, &err), -SC_EFORMAT);
	ck_assert_ptr_null(csv.cell);
	ck_assert_ptr_nonnull(strstr(err.text, "gzip data"));
	fclose(file);
}

/* Cut off at every length, or with a wrong checksum: an error, never a shorter table. */
TEST(test_load_bad_gz)
{
	char path[PATH_BYTES], data[512];
	FILE *file = temp_gz(path, "a,b\n1,2\n3,4\n", 1);
	size_t n;

	rewind(file);
	n = fread(data, 1, sizeof(data), file);
	fclose(file);
	ck_assert_uint_gt(n, 20);
	for (size_t cut = 3; cut < n; cut++)
		expect_bad_gz(data, cut);
	data[n - 6] ^= 1;
	expect_bad_gz(data, n);
}

TEST(test_load_system_errors)
{
	ck_assert_int_eq(sc_csv_load("no/such.csv", &arena, &csv, &err), -SC_EIO);
	ck_assert_str_eq(error_text(),
			 "no/such.csv: error: cannot be opened: No such file or directory");
	memset(&err, 0, sizeof(err));
	ck_assert_int_eq(sc_csv_load("/", &arena, &csv, &err), -SC_EIO);
	ck_assert_str_eq(error_text(), "/: error: is a folder; name a file");
}

/* Numbers are written as %.9g writes them, whichever way. */
LOOP_TEST(test_put_numbers, n_cases(20))
{
	enum { N = 2000 };
	double numbers[N + 10] = {0,    -0.0, -1,      99999999.95, 999999999.5,
				  1e-4, 1e-5, 1.00005, 0.125,       1e9};
	char *text = NULL, want[32];
	const char *at;
	size_t n;
	struct sc_rng rng;
	FILE *out = open_memstream(&text, &n);

	sc_rng_init(&rng, (uint64_t)_i);
	for (int i = 10; i < N + 10; i++) {
		numbers[i] = pow(10, 20 * sc_rng_uniform(&rng) - 8);
		if (i % 3 == 0) /* few digits, or halves of the last */
			numbers[i] = floor(numbers[i] * 1e3) / 1e3;
		if (i % 7 == 0)
			numbers[i] = (floor(1e9 * sc_rng_uniform(&rng)) + 0.5) / 256;
	}
	sc_csv_put_numbers(out, numbers, N + 10);
	fclose(out);
	at = text;
	for (int i = 0; i < N + 10; i++) {
		const int length = snprintf(want, sizeof(want), "%.9g,", numbers[i]);

		ck_assert_msg(strncmp(at, want, (size_t)length) == 0, "%s for %s", at, want);
		at += length;
	}
	ck_assert_str_eq(at, "");
	free(text);
}
