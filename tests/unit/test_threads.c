/* The parallel loop: every item once, contexts apart, the lowest failure reported. */
#include <stdatomic.h>
#include <stdint.h>

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
