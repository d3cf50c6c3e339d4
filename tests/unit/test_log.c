/* Levels and the sink. */
#include "base/log.h"
#include "runner.h"

static struct {
	int n;
	enum sc_log_level level;
	char text[2048];
} seen;

static void sink(void *ctx, enum sc_log_level level, const char *text)
{
	ck_assert_ptr_eq(ctx, &seen);
	seen.n++;
	seen.level = level;
	snprintf(seen.text, sizeof(seen.text), "%s", text);
}

static void set_up(void)
{
	memset(&seen, 0, sizeof(seen));
	sc_log_to(sink, &seen, SC_LOG_WARNING);
}

FIXTURE(set_up, NULL)

TEST(test_levels)
{
	for (enum sc_log_level kept = SC_LOG_ERROR; kept <= SC_LOG_DEBUG; kept++) {
		sc_log_to(sink, &seen, kept);
		for (enum sc_log_level level = SC_LOG_ERROR; level <= SC_LOG_DEBUG; level++) {
			seen.n = 0;
			sc_log(level, "rows=%d", 3);
			ck_assert_int_eq(seen.n, level <= kept);
			if (seen.n) {
				ck_assert_int_eq(seen.level, level);
				ck_assert_str_eq(seen.text, "rows=3");
			}
		}
	}
}

TEST(test_no_sink)
{
	sc_log_to(NULL, NULL, SC_LOG_DEBUG);
	sc_log(SC_LOG_ERROR, "nobody hears this");
	ck_assert_int_eq(seen.n, 0);
}

TEST(test_long_text_is_cut)
{
	sc_log(SC_LOG_ERROR, "%2000d", 7);
	ck_assert_uint_eq(strlen(seen.text), 1023);
	ck_assert_str_eq(seen.text + 1020, "...");
}
