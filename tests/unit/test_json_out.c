/* JSON results: bytes, digits, faults. */
#include "base/json_out.h"
#include "base/json_text.h"
#include "runner.h"

static struct sc_json json;
static struct sc_err err;
static FILE *out;

static void set_up(void)
{
	sc_json_init(&json, "stepcast-test", 1);
	memset(&err, 0, sizeof(err));
	out = tmpfile();
	ck_assert_ptr_nonnull(out);
}

static void tear_down(void)
{
	sc_json_release(&json);
	fclose(out);
}

static const char *written(void)
{
	static char text[1 << 14];
	size_t n;

	rewind(out);
	n = fread(text, 1, sizeof(text) - 1, out);
	text[n] = '\0';
	return text;
}

FIXTURE(set_up, tear_down)

TEST(test_document)
{
	json_t *list, *part;

	sc_json_real(&json, json.root, "iteration_ms", 1234.5678901234);
	part = sc_json_object(&json, json.root, "breakdown_ms");
	sc_json_real(&json, part, "other", 0.1);
	sc_json_real(&json, part, "compute", 3.0);
	list = sc_json_array(&json, json.root, "list");
	sc_json_int(&json, list, NULL, -5);
	sc_json_text(&json, list, NULL, "a \"b\"");
	sc_json_bool(&json, list, NULL, true);
	sc_json_text(&json, list, NULL, NULL);
	sc_json_real(&json, sc_json_object(&json, list, NULL), "x", -0.0);
	sc_json_array(&json, list, NULL);
	ck_assert_int_eq(sc_json_write(&json, out, &err), 0);
	ck_assert_str_eq(written(), "{\n"
				    "  \"breakdown_ms\": {\n"
				    "    \"compute\": 3.0,\n"
				    "    \"other\": 0.1\n"
				    "  },\n"
				    "  \"iteration_ms\": 1234.56789,\n"
				    "  \"list\": [\n"
				    "    -5,\n"
				    "    \"a \\\"b\\\"\",\n"
				    "    true,\n"
				    "    null,\n"
				    "    {\n"
				    "      \"x\": 0.0\n"
				    "    },\n"
				    "    []\n"
				    "  ],\n"
				    "  \"schema\": \"stepcast-test\",\n"
				    "  \"version\": 1,\n"
				    "  \"warnings\": []\n"
				    "}\n");
}

/* Rows that are written as the document is give the bytes of an array of objects. */
static const double reals[] = {0,     -0.0,          1,       24576,    0.1,       1.0 / 3,
			       -2.5,  1e-5,          1.25e-7, 1e9,      123456789, 1e12,
			       1e300, 0.99999999949, 1234.5,  1e8 - .5, -1e-9,     999999999.6};
enum { N_REALS = N_OF(reals) };

static void put_reals(const void *ctx, size_t i, struct sc_json_stream *to)
{
	ck_assert_ptr_eq(ctx, reals);
	for (size_t k = 0; i > 0 && k < N_REALS; k++) {
		sc_json_stream_object(to, NULL);
		sc_json_stream_text(to, "kind", "a\"b");
		sc_json_stream_int(to, "number", -(int64_t)k);
		sc_json_stream_real(to, "real", reals[k]);
		sc_json_stream_end(to);
	}
}

/* The i-th rows, as elements of the document or put by put_reals. */
static void add_reals(json_t *parent, size_t i, bool as_rows)
{
	json_t *list;

	if (as_rows) {
		sc_json_rows(&json, parent, "rows", i);
		return;
	}
	list = sc_json_array(&json, parent, "rows");
	for (size_t k = 0; i > 0 && k < N_REALS; k++) {
		json_t *one = sc_json_object(&json, list, NULL);

		sc_json_text(&json, one, "kind", "a\"b");
		sc_json_int(&json, one, "number", -(int64_t)k);
		sc_json_real(&json, one, "real", reals[k]);
	}
}

TEST(rows_are_an_array)
{
	char *as_array = NULL;

	for (int as_rows = 0; as_rows < 2; as_rows++) {
		json.put_rows = as_rows ? put_reals : NULL;
		json.rows = reals;
		add_reals(json.root, 2, as_rows);
		sc_json_text(&json, json.root, "name", "\": -9223372036854775808, \"rows");
		add_reals(sc_json_object(&json, sc_json_array(&json, json.root, "others"), NULL), 1,
			  as_rows);
		add_reals(sc_json_object(&json, json.root, "empty"), 0, as_rows);
		ck_assert_int_eq(sc_json_write(&json, out, &err), 0);
		if (as_rows)
			ck_assert_str_eq(written(), as_array);
		else
			as_array = strdup(written());
		fclose(out);
		set_up();
	}
	free(as_array);
}

/* A row that is no number is a fault, told at the end. */
static void put_nan(const void *ctx, size_t i, struct sc_json_stream *to)
{
	(void)ctx;
	(void)i;
	sc_json_stream_real(to, NULL, NAN);
}

TEST(rows_are_finite)
{
	json.put_rows = put_nan;
	sc_json_rows(&json, json.root, "rows", 0);
	ck_assert_int_eq(sc_json_write(&json, out, &err), -SC_EVALUE);
}

static const struct {
	const char *text, *expected;
} texts[] = {
	{"", ""},
	{"plain", "plain"},
	{"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"},
	{"a\xFFz", "a?z"},
	{"\xC3", "?"},
	{"\xC3(", "?("},
	{"\xC0\xAF", "??"},           /* overlong */
	{"\xE2\x82", "??"},           /* cut off */
	{"\xED\xA0\x80", "???"},      /* a surrogate */
	{"\xF4\x90\x80\x80", "????"}, /* beyond U+10FFFF */
	{"\x80", "?"},
	{"\xE0\x9F\xBF", "???"},
	{"\xF0\x90\x80\x41", "???A"},
};

LOOP_TEST(test_text, N_OF(texts))
{
	sc_json_text(&json, json.root, "t", texts[_i].text);
	ck_assert_str_eq(json_string_value(json_object_get(json.root, "t")), texts[_i].expected);
	ck_assert_int_eq(sc_json_write(&json, out, &err), 0);
}

/* Every character of ASCII, control characters and DEL among them. */
TEST(what_is_written_is_read)
{
	struct sc_strbuf quoted = {0}, text = {0};
	char all[0x80];
	struct sc_json_faults faults;

	for (int c = 1; c < 0x80; c++)
		all[c - 1] = (char)c;
	all[0x7F] = '\0';
	sc_json_quote(all, &quoted);
	faults = sc_json_decode(sc_strbuf_get(&quoted) + 1, quoted.n - 2, &text);
	ck_assert_int_eq((int)faults.n_bad, 0);
	ck_assert_int_eq((int)faults.n_escapes, 0);
	ck_assert_str_eq(sc_strbuf_get(&text), all);
	sc_strbuf_release(&quoted);
	sc_strbuf_release(&text);
}

LOOP_TEST(test_not_finite, 3)
{
	static const double bad[] = {HUGE_VAL, -HUGE_VAL, (double)NAN};
	static const char *const message[] = {
		"a result is not a finite number: key=low_ms value=inf",
		"a result is not a finite number: key=low_ms value=-inf",
		"a result is not a finite number: key=low_ms value=nan",
	};

	sc_json_real(&json, json.root, "iteration_ms", 1.0);
	sc_json_real(&json, json.root, "low_ms", bad[_i]);
	sc_json_real(&json, sc_json_array(&json, json.root, "list"), NULL, bad[_i]);
	ck_assert_int_eq(sc_json_write(&json, out, &err), -SC_EVALUE);
	ck_assert_str_eq(err.text, message[_i]);
	ck_assert_str_eq(written(), "");
}

TEST(test_disk_full)
{
	FILE *full = fopen("/dev/full", "w");

	if (!full)
		return;
	ck_assert_int_eq(sc_json_write(&json, full, &err), -SC_EIO);
	ck_assert_str_eq(err.text, "cannot write the JSON result: No space left on device");
	fclose(full);
}

TEST(test_release_twice)
{
	sc_json_release(&json);
	ck_assert_ptr_null(json.root);
}
