/* What marks iterations, and in which order it counts. */
#include "runner.h"
#include "trace/graph/iteration_ranges.h"

enum { STEP_NS = 1000, N_CALLS = 20 };
static struct sc_trace trace;
static struct sc_marks marks;
static char names[4096][64];
static size_t n_names;

static void begin(void)
{
	trace = (struct sc_trace){.path = "t"};
	n_names = 0;
	SC_VEC_PUSH(&trace.strings, "");
}

static void end(void)
{
	SC_VEC_RELEASE(&trace.strings);
	SC_VEC_RELEASE(&trace.events);
	SC_VEC_RELEASE(&trace.meta);
	SC_VEC_RELEASE(&marks.list);
}

static uint32_t string(const char *text)
{
	for (size_t i = 0; i < trace.strings.n; i++)
		if (strcmp(trace.strings.at[i], text) == 0)
			return (uint32_t)i;
	snprintf(names[n_names], sizeof(names[0]), "%s", text);
	SC_VEC_PUSH(&trace.strings, names[n_names]);
	n_names++;
	return (uint32_t)trace.strings.n - 1;
}

static void add(int cls, const char *name, int64_t start_ns, int64_t dur_ns)
{
	const struct sc_trace_event e = {.cls = (uint8_t)cls,
					 .lane = 1,
					 .name = string(name),
					 .start_ns = start_ns,
					 .dur_ns = dur_ns};

	SC_VEC_PUSH(&trace.events, e);
}

/* A step of twenty calls: zero_grad before the first, Optimizer.step around the last two. `first`
 * to `end` of the calls are in the trace. */
static void add_step(int step, int first, int last, const char *around)
{
	const int64_t at = (int64_t)step * STEP_NS;
	char name[64];

	snprintf(name, sizeof(name), "%s%d", around, step);
	if (*around)
		add(SC_EV_RANGE, name, at, STEP_NS - 10);
	for (int i = first; i < last; i++) {
		if (i == 0)
			add(SC_EV_RANGE, "Optimizer.zero_grad#SGD.zero_grad", at + 1, 1);
		if (i == N_CALLS - 2)
			add(SC_EV_RANGE, "Optimizer.step#SGD.step", at + 40 * i, 60);
		add(SC_EV_API, "cudaLaunchKernel", at + 40 * i + 5, 10);
	}
}

TEST(test_optimizer)
{
	begin();
	for (int i = 0; i < 5; i++)
		add_step(i, 0, N_CALLS, "");
	ck_assert(sc_marks_find(&trace, NULL, &marks));
	ck_assert_int_eq(marks.found_by, SC_FOUND_ZERO_GRAD);
	ck_assert_uint_eq(marks.list.n, 5);
	ck_assert_int_eq(marks.list.at[1].start_ns, STEP_NS + 1);
	ck_assert_int_eq(marks.list.at[1].end_ns, 2 * STEP_NS + 1);
	end();
}

/* A trace that begins and ends within an iteration has the whole ones between. */
TEST(test_cut_trace)
{
	begin();
	add_step(0, 7, N_CALLS, "");
	for (int i = 1; i < 4; i++)
		add_step(i, 0, N_CALLS, "");
	add_step(4, 0, 11, "");
	ck_assert(sc_marks_find(&trace, NULL, &marks));
	ck_assert_uint_eq(marks.list.n, 3);
	end();
}

/* The profiler's own steps count first. */
TEST(test_order)
{
	begin();
	for (int i = 0; i < 5; i++)
		add_step(i, 0, N_CALLS, "ProfilerStep#");
	ck_assert(sc_marks_find(&trace, NULL, &marks));
	ck_assert_int_eq(marks.found_by, SC_FOUND_STEPS);
	ck_assert_uint_eq(marks.list.n, 5);
	SC_VEC_RELEASE(&marks.list);
	ck_assert(!sc_marks_find(&trace, "no such range", &marks));
	SC_VEC_RELEASE(&marks.list);
	ck_assert(sc_marks_find(&trace, "ProfilerStep#2", &marks));
	ck_assert_uint_eq(marks.list.n, 1);
	SC_VEC_RELEASE(&marks.list);
	ck_assert(sc_marks_find(&trace, "Profiler*[12]", &marks));
	ck_assert_uint_eq(marks.list.n, 2);
	end();
}

/* Ranges with a word for it, that hold the calls; a range in each step that holds few is none. */
static const struct {
	const char *name;
	int64_t dur_ns;
	size_t n;
} WORDS[] = {
	{"iteration ", STEP_NS - 10, 4},
	{"train_step_", STEP_NS - 10, 4},
	{"load_batch ", 90, 0},
	{"micro_batch ", STEP_NS - 10, 0},
	{"stepping ", STEP_NS - 10, 0},
	{"execute_context_1(64)_generation_", STEP_NS - 10, 4},
	{"step[DECODE bs=", STEP_NS - 10, 4},
};

LOOP_TEST(test_words, N_OF(WORDS))
{
	char name[32];

	begin();
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "%s%d", WORDS[_i].name, i);
		add(SC_EV_RANGE, name, i * STEP_NS, WORDS[_i].dur_ns);
		for (int k = 0; k < N_CALLS; k++)
			add(SC_EV_API, "cudaLaunchKernel", i * STEP_NS + 40 * k + 5, 10);
	}
	ck_assert(sc_marks_find(&trace, NULL, &marks) == (WORDS[_i].n > 0));
	ck_assert_uint_eq(marks.list.n, WORDS[_i].n);
	end();
}

/* Two optimizers a step are one cut. */
TEST(test_two_optimizers)
{
	begin();
	for (int i = 0; i < 4; i++) {
		add(SC_EV_RANGE, "Optimizer.zero_grad#Adam.zero_grad", i * STEP_NS, 1);
		add(SC_EV_API, "cudaMemsetAsync", i * STEP_NS + 2, 1);
		add(SC_EV_RANGE, "Optimizer.zero_grad#Adam.zero_grad", i * STEP_NS + 4, 1);
		for (int k = 0; k < N_CALLS; k++)
			add(SC_EV_API, "cudaLaunchKernel", i * STEP_NS + 40 * k + 5, 10);
	}
	ck_assert(sc_marks_find(&trace, NULL, &marks));
	ck_assert_uint_eq(marks.list.n, 4);
	end();
}
