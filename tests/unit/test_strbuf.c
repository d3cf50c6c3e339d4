/* Growing text. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

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

START_TEST(test_empty)
{
	ck_assert_str_eq(sc_strbuf_get(&buf), "");
	sc_strbuf_clear(&buf);
	sc_strbuf_append(&buf, "");
	ck_assert_str_eq(sc_strbuf_get(&buf), "");
	ck_assert_uint_eq(buf.n, 0);
}
END_TEST

START_TEST(test_append)
{
	sc_strbuf_append(&buf, "ab");
	sc_strbuf_append_char(&buf, 'c');
	sc_strbuf_append_n(&buf, "defg", 2);
	sc_strbuf_printf(&buf, "-%d-%s", 7, "x");
	ck_assert_str_eq(sc_strbuf_get(&buf), "abcde-7-x");
	ck_assert_uint_eq(buf.n, 9);
}
END_TEST

START_TEST(test_nul_inside)
{
	sc_strbuf_append_n(&buf, "a\0b", 3);
	ck_assert_uint_eq(buf.n, 3);
	ck_assert_mem_eq(buf.at, "a\0b", 4);
}
END_TEST

/* At every length: the NUL is there and n < cap. */
START_TEST(test_growth)
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
END_TEST

START_TEST(test_large_printf)
{
	sc_strbuf_append(&buf, "x");
	sc_strbuf_printf(&buf, "%5000d", 3);
	ck_assert_uint_eq(buf.n, 5001);
	ck_assert_int_eq(buf.at[5000], '3');
}
END_TEST

START_TEST(test_clear_keeps_memory)
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
END_TEST

START_TEST(test_detach)
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
END_TEST

START_TEST(test_reserve)
{
	sc_strbuf_reserve(&buf, 1000);
	ck_assert_uint_gt(buf.cap, 1000);
	ck_assert_str_eq(sc_strbuf_get(&buf), "");
}
END_TEST

START_TEST(test_impossible_size)
{
	sc_strbuf_append(&buf, "x");
	sc_strbuf_reserve(&buf, SIZE_MAX - 1);
}
END_TEST

static Suite *strbuf_suite(void)
{
	Suite *suite = suite_create("strbuf");
	TCase *tcase = tcase_create("strbuf");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, test_empty);
	tcase_add_test(tcase, test_append);
	tcase_add_test(tcase, test_nul_inside);
	tcase_add_test(tcase, test_growth);
	tcase_add_test(tcase, test_large_printf);
	tcase_add_test(tcase, test_clear_keeps_memory);
	tcase_add_test(tcase, test_detach);
	tcase_add_test(tcase, test_reserve);
	if (tests_fork())
		tcase_add_test_raise_signal(tcase, test_impossible_size, SIGABRT);
	suite_add_tcase(suite, tcase);
	return suite;
}

TEST_MAIN(strbuf_suite)
