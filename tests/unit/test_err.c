/* Errors: first one wins, cutting, masking, printing. */
#include "base/err.h"
#include "runner.h"

static struct sc_err err;

static void reset(void)
{
	memset(&err, 0, sizeof(err));
}

FIXTURE(reset, NULL)

TEST(test_set)
{
	ck_assert_int_eq(sc_err_set(&err, SC_EVALUE, "bad %d", 7), -SC_EVALUE);
	ck_assert_int_eq(err.code, SC_EVALUE);
	ck_assert_str_eq(err.text, "bad 7");
	ck_assert_str_eq(err.file, "");
	ck_assert_uint_eq(err.line, 0);
}

TEST(test_first_wins)
{
	sc_err_at(&err, SC_EIO, "a.yaml", 3, 4, "first");
	ck_assert_int_eq(sc_err_set(&err, SC_EVALUE, "second"), -SC_EIO);
	ck_assert_int_eq(sc_err_at(&err, SC_EVALUE, "b.yaml", 1, 1, "third"), -SC_EIO);
	ck_assert_str_eq(err.text, "first");
	ck_assert_str_eq(err.file, "a.yaml");
	ck_assert_uint_eq(err.line, 3);
	ck_assert_uint_eq(err.column, 4);
}

TEST(test_null)
{
	ck_assert_int_eq(sc_err_set(NULL, SC_EVALUE, "x"), -SC_EVALUE);
	ck_assert_int_eq(sc_err_at(NULL, SC_EFORMAT, "f", 1, 1, "x"), -SC_EFORMAT);
	sc_err_prefix(NULL, "x");
}

TEST(test_long_text_is_cut)
{
	char text[1000];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	sc_err_set(&err, SC_EVALUE, "%s", text);
	ck_assert_uint_eq(strlen(err.text), sizeof(err.text) - 1);
	ck_assert_str_eq(err.text + sizeof(err.text) - 5, "x...");
}

/* Two-byte characters, at both alignments: never half of one before the "...". */
LOOP_TEST(test_cut_between_characters, 2)
{
	char text[600] = "";
	size_t n;

	if (_i)
		text[0] = 'a';
	for (n = strlen(text); n < 500; n += 2)
		memcpy(text + n, "\xC3\xA9", 3);
	sc_err_set(&err, SC_EVALUE, "%s", text);
	n = strlen(err.text);
	ck_assert_str_eq(err.text + n - 3, "...");
	ck_assert_int_eq((unsigned char)err.text[n - 4], 0xA9);
}

TEST(test_long_file_keeps_its_end)
{
	char file[400];

	memset(file, 'd', sizeof(file));
	memcpy(file + 380, "/model.yaml", sizeof("/model.yaml"));
	sc_err_at(&err, SC_EVALUE, file, 1, 1, "x");
	ck_assert_uint_eq(strlen(err.file), sizeof(err.file) - 1);
	ck_assert_int_eq(strncmp(err.file, "...d", 4), 0);
	ck_assert_str_eq(err.file + strlen(err.file) - 11, "/model.yaml");
}

TEST(test_controls_are_masked)
{
	sc_err_at(&err, SC_EVALUE, "a\nb", 1, 1, "x\033[31m\x7Fy\tz");
	ck_assert_str_eq(err.text, "x?[31m?y?z");
	ck_assert_str_eq(err.file, "a?b");
}

TEST(test_prefix)
{
	sc_err_prefix(&err, "nothing is set");
	ck_assert_str_eq(err.text, "");
	sc_err_set(&err, SC_EVALUE, "inner");
	sc_err_prefix(&err, "row %d", 3);
	ck_assert_str_eq(err.text, "row 3: inner");
}

TEST(test_prefix_is_cut)
{
	char text[250];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	sc_err_set(&err, SC_EVALUE, "%s", text);
	sc_err_prefix(&err, "%s", text);
	ck_assert_uint_eq(strlen(err.text), sizeof(err.text) - 1);
	ck_assert_str_eq(err.text + strlen(err.text) - 3, "...");
}

static const struct {
	const char *file;
	unsigned line, column;
	const char *expected;
} formats[] = {
	{"a.yaml", 3, 5, "a.yaml:3:5: error: text"},
	{"a.yaml", 3, 0, "a.yaml:3: error: text"},
	{"a.yaml", 0, 0, "a.yaml: error: text"},
	{NULL, 0, 0, "error: text"},
	{NULL, 3, 5, "error: text"},
};

LOOP_TEST(test_format, N_OF(formats))
{
	char buf[512], small[8];

	sc_err_at(&err, SC_EVALUE, formats[_i].file, formats[_i].line, formats[_i].column, "text");
	ck_assert_str_eq(sc_err_format(&err, buf, sizeof(buf)), formats[_i].expected);
	sc_err_format(&err, small, sizeof(small));
	ck_assert_int_eq(strncmp(small, formats[_i].expected, 7), 0);
	ck_assert_uint_eq(strlen(small), 7);
}
