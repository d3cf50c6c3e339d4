/* The parallel loop: every item once, contexts apart, the lowest failure reported. Progress: silent
 * when short or NULL, drawn a few times a second otherwise. */
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "base/progress.h"
#include "base/threads.h"
#include "runner.h"

enum { N_ITEMS = 5000, MAX_JOBS = 8 };

struct shared {
	atomic_int runs[N_ITEMS];
	size_t fail_from, fail_every; /* fail_every 0: never */
};
struct context {
	atomic_flag busy;
	size_t n;
};

static struct shared shared;
static struct context contexts[MAX_JOBS];
static void *context_list[MAX_JOBS];
static struct sc_err err;

static void set_up(void)
{
	memset(&shared, 0, sizeof(shared));
	memset(&err, 0, sizeof(err));
	for (int i = 0; i < MAX_JOBS; i++) {
		contexts[i].n = 0;
		atomic_flag_clear(&contexts[i].busy);
		context_list[i] = &contexts[i];
	}
}

static int run_item(void *arg, void *ctx, size_t index, struct sc_err *e)
{
	struct shared *s = arg;
	struct context *context = ctx;

	if (context) {
		if (atomic_flag_test_and_set(&context->busy))
			return sc_err_set(e, SC_ECONFLICT, "a context is used twice at once");
		context->n++;
	}
	atomic_fetch_add(&s->runs[index], 1);
	if (context)
		atomic_flag_clear(&context->busy);
	if (s->fail_every && index >= s->fail_from && index % s->fail_every == 0)
		return sc_err_set(e, SC_EVALUE, "item %zu", index);
	return 0;
}

static const struct {
	unsigned n_jobs;
	size_t n_items, chunk;
} shapes[] = {
	{0, 100, 0}, {1, 100, 1},    {2, N_ITEMS, 1}, {8, N_ITEMS, 64}, {8, 3, 1},
	{4, 0, 1},   {4, 100, 1000}, {3, 1, 1},       {4, 101, 10},
};

FIXTURE(set_up, NULL)

LOOP_TEST(test_every_item_once, N_OF(shapes))
{
	struct sc_work work = {
		.n_items = shapes[_i].n_items,
		.chunk = shapes[_i].chunk,
		.n_jobs = shapes[_i].n_jobs,
		.item = run_item,
		.shared = &shared,
		.contexts = context_list,
	};
	size_t n = 0;

	ck_assert_int_eq(sc_parallel_for(&work, &err), 0);
	ck_assert_int_eq(err.code, SC_OK);
	for (size_t i = 0; i < N_ITEMS; i++)
		ck_assert_int_eq(shared.runs[i], i < shapes[_i].n_items);
	for (int i = 0; i < MAX_JOBS; i++)
		n += contexts[i].n;
	ck_assert_uint_eq(n, shapes[_i].n_items);
}

/* Whatever the timing: the lowest of the failing items, and all before it have run. */
LOOP_TEST(test_lowest_failure, 20)
{
	struct sc_work work = {
		.n_items = N_ITEMS,
		.chunk = 1 + (size_t)_i * 3,
		.n_jobs = 1 + (unsigned)_i % 4,
		.item = run_item,
		.shared = &shared,
	};

	shared.fail_from = 1000;
	shared.fail_every = 7;
	ck_assert_int_eq(sc_parallel_for(&work, &err), -SC_EVALUE);
	ck_assert_str_eq(err.text, "item 1001");
	for (size_t i = 0; i <= 1001; i++)
		ck_assert_int_eq(shared.runs[i], 1);
}

TEST(test_stops_after_a_failure)
{
	struct sc_work work = {
		.n_items = N_ITEMS, .n_jobs = 1, .item = run_item, .shared = &shared};

	shared.fail_every = 10;
	ck_assert_int_eq(sc_parallel_for(&work, NULL), -SC_EVALUE);
	ck_assert_int_eq(shared.runs[0], 1);
	ck_assert_int_eq(shared.runs[1], 0);
}

TEST(test_first_error_stays)
{
	struct sc_work work = {.n_items = 10, .n_jobs = 2, .item = run_item, .shared = &shared};

	sc_err_set(&err, SC_EIO, "before");
	shared.fail_every = 1;
	ck_assert_int_eq(sc_parallel_for(&work, &err), -SC_EVALUE);
	ck_assert_str_eq(err.text, "before");
}

TEST(test_cpu_count)
{
	ck_assert_uint_ge(sc_cpu_count(), 1);
}

/* ---- progress ---- */

static FILE *out;

static void progress_set_up(void)
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

FIXTURE(progress_set_up, tear_down)

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

/* Nothing before the half second, then at most four drawings a second, the last state at the end.
 */
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
