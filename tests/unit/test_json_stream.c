/* Streamed JSON: bytes, number formats, many events, faults. */
#include <jansson.h>

#include "base/json_stream.h"
#include "runner.h"

static struct sc_json_stream stream;
static struct sc_err err;
static FILE *out;

static void set_up(void)
{
	out = tmpfile();
	ck_assert_ptr_nonnull(out);
	stream = (struct sc_json_stream){.out = out};
	memset(&err, 0, sizeof(err));
}

static void tear_down(void)
{
	fclose(out);
}

static const char *written(void)
{
	static char text[4096];
	size_t n;

	rewind(out);
	n = fread(text, 1, sizeof(text) - 1, out);
	text[n] = '\0';
	return text;
}

FIXTURE(set_up, tear_down)

TEST(test_document)
{
	sc_json_stream_object(&stream, NULL);
	sc_json_stream_array(&stream, "traceEvents");
	for (int i = 0; i < 2; i++) {
		sc_json_stream_object(&stream, NULL);
		sc_json_stream_text(&stream, "name", "gemm");
		sc_json_stream_fixed(&stream, "ts", 1.5 * i, 3);
		sc_json_stream_int(&stream, "tid", -i);
		sc_json_stream_end(&stream);
	}
	sc_json_stream_end(&stream);
	sc_json_stream_array(&stream, "list");
	sc_json_stream_int(&stream, NULL, 1);
	sc_json_stream_int(&stream, NULL, 2);
	sc_json_stream_end(&stream);
	sc_json_stream_object(&stream, "none");
	sc_json_stream_end(&stream);
	sc_json_stream_end(&stream);
	ck_assert_int_eq(sc_json_stream_finish(&stream, &err), 0);
	ck_assert_str_eq(written(), "{\"traceEvents\":[\n"
				    "{\"name\":\"gemm\",\"ts\":0.000,\"tid\":0},\n"
				    "{\"name\":\"gemm\",\"ts\":1.500,\"tid\":-1}],"
				    "\"list\":[1,2],\"none\":{}}\n");
}

static const struct {
	double value;
	unsigned n_decimals;
	const char *expected;
} fixeds[] = {
	{0.0, 0, "0"},
	{0.0, 3, "0.000"},
	{-0.0, 3, "0.000"},
	{-0.0001, 3, "0.000"},
	{-0.001, 3, "-0.001"},
	{0.9996, 3, "1.000"},
	{12345.678, 2, "12345.68"},
	{-12.0, 1, "-12.0"},
	{7.0, 0, "7"},
	{10.0, 0, "10"},
	{0.05, 2, "0.05"},
	{9e12, 6, "9000000000000.000000"},
	{1e300, 3, "1.0000000000000001e+300"},
};

LOOP_TEST(test_fixed, N_OF(fixeds))
{
	char expected[64];

	sc_json_stream_array(&stream, NULL);
	sc_json_stream_fixed(&stream, NULL, fixeds[_i].value, fixeds[_i].n_decimals);
	sc_json_stream_end(&stream);
	ck_assert_int_eq(sc_json_stream_finish(&stream, &err), 0);
	snprintf(expected, sizeof(expected), "[%s]\n", fixeds[_i].expected);
	ck_assert_str_eq(written(), expected);
}

TEST(test_int_limits)
{
	sc_json_stream_array(&stream, NULL);
	sc_json_stream_int(&stream, NULL, INT64_MIN);
	sc_json_stream_int(&stream, NULL, INT64_MAX);
	sc_json_stream_end(&stream);
	ck_assert_int_eq(sc_json_stream_finish(&stream, &err), 0);
	ck_assert_str_eq(written(), "[-9223372036854775808,9223372036854775807]\n");
}

TEST(test_escapes)
{
	sc_json_stream_array(&stream, NULL);
	sc_json_stream_text(&stream, NULL, "a\"b\\c\n\x01 \xC3\xA9 \xFF/");
	sc_json_stream_end(&stream);
	ck_assert_int_eq(sc_json_stream_finish(&stream, &err), 0);
	ck_assert_str_eq(written(), "[\"a\\\"b\\\\c\\u000a\\u0001 \xC3\xA9 ?/\"]\n");
}

/* Many times the buffer; a strict parser reads it back. */
TEST(test_many_events)
{
	enum { N = 20000 };
	json_t *root;

	sc_json_stream_array(&stream, NULL);
	for (int i = 0; i < N; i++) {
		sc_json_stream_object(&stream, NULL);
		sc_json_stream_text(&stream, "name", "a kernel with a name of some length");
		sc_json_stream_fixed(&stream, "ts", i * 0.25, 3);
		sc_json_stream_end(&stream);
		ck_assert_uint_le(stream.buf.n, 1 << 17);
	}
	sc_json_stream_end(&stream);
	ck_assert_int_eq(sc_json_stream_finish(&stream, &err), 0);
	rewind(out);
	root = json_loadf(out, JSON_REJECT_DUPLICATES, NULL);
	ck_assert_ptr_nonnull(root);
	ck_assert_uint_eq(json_array_size(root), N);
	ck_assert_double_eq(json_real_value(json_object_get(json_array_get(root, N - 1), "ts")),
			    (N - 1) * 0.25);
	json_decref(root);
}

TEST(test_not_finite)
{
	sc_json_stream_object(&stream, NULL);
	sc_json_stream_fixed(&stream, "ts", (double)NAN, 3);
	sc_json_stream_fixed(&stream, "dur", HUGE_VAL, 3);
	sc_json_stream_end(&stream);
	ck_assert_int_eq(sc_json_stream_finish(&stream, &err), -SC_EVALUE);
	ck_assert_str_eq(err.text, "a result is not a finite number: key=ts value=nan");
}

LOOP_TEST(test_disk_full, 2)
{
	FILE *full = fopen("/dev/full", "w");

	if (!full)
		return;
	stream = (struct sc_json_stream){.out = full};
	sc_json_stream_array(&stream, NULL);
	for (int i = 0; _i && i < 100000; i++) {
		sc_json_stream_object(&stream, NULL);
		sc_json_stream_end(&stream);
	}
	sc_json_stream_end(&stream);
	ck_assert_int_eq(sc_json_stream_finish(&stream, &err), -SC_EIO);
	ck_assert_str_eq(err.text, "cannot write: No space left on device");
	fclose(full);
}
