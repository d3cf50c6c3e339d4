/* Progress: silent when short or NULL, drawn a few times a second otherwise. */
#include <time.h>

#include "base/progress.h"
#include "runner.h"

static FILE *out;

static void set_up(void)
{
	out = tmpfile();
	ck_assert_ptr_nonnull(out);
}

static void tear_down(void)
{
	fclose(out);
}

static const char *drawn(void)
{
	static char text[4096];
	size_t n;

	rewind(out);
	n = fread(text, 1, sizeof(text) - 1, out);
	text[n] = '\0';
	return text;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
	struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	while (nanosleep(&left, &left) != 0)
		;
}

static long count_drawings(const char *text)
{
	long n = 0;

	for (; *text; text++)
		n += *text == '\r';
	return n;
}

FIXTURE(set_up, tear_down)

TEST(test_null)
{
	sc_progress_add(NULL, 1);
	sc_progress_destroy(NULL);
}

/* Unless the machine stalls for the half second. */
TEST(test_short_task_draws_nothing)
{
	struct sc_progress *progress = sc_progress_create(out, "rows", 100000);
	long start = now_ms();

	for (int i = 0; i < 1000; i++)
		sc_progress_add(progress, 1);
	sc_progress_destroy(progress);
	if (now_ms() - start < 490)
		ck_assert_str_eq(drawn(), "");
}

/* Nothing before the half second, then at most four drawings a second, the last state at the end. */
TEST(test_drawn)
{
	struct sc_progress *progress = sc_progress_create(out, "rows", 200000);
	static const char first[] = "\rrows:   1% (2000/200000)\r";
	static const char last[] = "\rrows: 100% (200000/200000)\n";
	long start;

	sc_progress_add(progress, 1000);
	sleep_ms(510);
	start = now_ms();
	for (int i = 0; i < 198; i++)
		sc_progress_add(progress, 1000);
	sc_progress_add(progress, 1000);
	sc_progress_destroy(progress);
	ck_assert_ptr_eq(strstr(drawn(), first), drawn());
	ck_assert_str_eq(drawn() + strlen(drawn()) - strlen(last), last);
	ck_assert_int_le(count_drawings(drawn()), 2 + (now_ms() - start) / 250 + 1);
}

TEST(test_no_total)
{
	struct sc_progress *progress = sc_progress_create(out, "events", 0);

	sleep_ms(510);
	sc_progress_add(progress, 5);
	sleep_ms(260);
	sc_progress_add(progress, 5);
	sc_progress_destroy(progress);
	ck_assert_str_eq(drawn(), "\revents: 5\revents: 10\revents: 10\n");
}
