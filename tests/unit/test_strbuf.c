/* Growing text. */
#include <signal.h>

#include "base/strbuf.h"
#include "runner.h"

static struct sc_strbuf buf;

static void set_up(void)
{
	buf = (struct sc_strbuf){0};
}

static void tear_down(void)
{
	sc_strbuf_release(&buf);
}

FIXTURE(set_up, tear_down)

TEST(test_empty)
{
	ck_assert_str_eq(sc_strbuf_get(&buf), "");
	sc_strbuf_clear(&buf);
	sc_strbuf_append(&buf, "");
	ck_assert_str_eq(sc_strbuf_get(&buf), "");
	ck_assert_uint_eq(buf.n, 0);
}

TEST(test_append)
{
	sc_strbuf_append(&buf, "ab");
	sc_strbuf_append_char(&buf, 'c');
	sc_strbuf_append_n(&buf, "defg", 2);
	sc_strbuf_printf(&buf, "-%d-%s", 7, "x");
	ck_assert_str_eq(sc_strbuf_get(&buf), "abcde-7-x");
	ck_assert_uint_eq(buf.n, 9);
}

TEST(test_nul_inside)
{
	sc_strbuf_append_n(&buf, "a\0b", 3);
	ck_assert_uint_eq(buf.n, 3);
	ck_assert_mem_eq(buf.at, "a\0b", 4);
}

/* At every length: the NUL is there and n < cap. */
TEST(test_growth)
{
	for (size_t i = 0; i < 1000; i++) {
		sc_strbuf_append_char(&buf, (char)('a' + i % 26));
		ck_assert_uint_eq(buf.n, i + 1);
		ck_assert_uint_lt(buf.n, buf.cap);
		ck_assert_int_eq(buf.at[buf.n], '\0');
	}
	for (size_t i = 0; i < 1000; i++)
		ck_assert_int_eq(buf.at[i], (char)('a' + i % 26));
}

TEST(test_large_printf)
{
	sc_strbuf_append(&buf, "x");
	sc_strbuf_printf(&buf, "%5000d", 3);
	ck_assert_uint_eq(buf.n, 5001);
	ck_assert_int_eq(buf.at[5000], '3');
}

TEST(test_clear_keeps_memory)
{
	const char *at;

	sc_strbuf_append(&buf, "abc");
	at = buf.at;
	sc_strbuf_clear(&buf);
	ck_assert_str_eq(sc_strbuf_get(&buf), "");
	sc_strbuf_append(&buf, "de");
	ck_assert_ptr_eq(buf.at, at);
	ck_assert_str_eq(sc_strbuf_get(&buf), "de");
}

TEST(test_detach)
{
	char *text;

	text = sc_strbuf_detach(&buf);
	ck_assert_str_eq(text, "");
	free(text);
	sc_strbuf_append(&buf, "mine");
	text = sc_strbuf_detach(&buf);
	ck_assert_str_eq(text, "mine");
	ck_assert_ptr_null(buf.at);
	ck_assert_uint_eq(buf.cap, 0);
	free(text);
}

ABORT_TEST(test_impossible_size, 1)
{
	sc_strbuf_append(&buf, "x");
	sc_strbuf_append_n(&buf, "", SIZE_MAX - 1);
}
