/* What every file of check tests starts with. A test registers by being there:
 *
 *	TEST(name) {...}                   is run
 *	LOOP_TEST(name, n) {...}           with _i from 0 to n - 1
 *	RANGE_TEST(name, from, to) {...}   with _i from `from` to `to` - 1
 *	ABORT_TEST(name, n) {...}          the same n times; must end by SIGABRT
 *	FORK_TEST(name, n) {...}           the same, where each test is a process of its own
 *(CK_FORK is not "no") FIXTURE(set_up, tear_down)         run before and after each test that
 *stands below it in the file NEEDS(path)                        without that file, tests below are
 *left out; a file of which none is left is skipped
 */
#pragma once

#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Under a debugger or valgrind tests do not fork (CK_FORK=no), and none may end the program. */
static inline bool tests_fork(void)
{
	const char *fork = getenv("CK_FORK");

	return !fork || strcmp(fork, "no") != 0;
}

/* How many of n random cases a property test takes: all, or the percentage STEPCAST_TEST_CASES,
 * which slow builds set (scripts/test). At least one. */
static inline int n_cases(int n)
{
	const char *percent = getenv("STEPCAST_TEST_CASES");
	long taken = percent ? n * strtol(percent, NULL, 10) / 100 : n;

	return taken < 1 ? 1 : (int)taken;
}

/* Which of n the i-th of n_cases(n) cases is, so that few are spread over all. */
static inline int nth_case(int i, int n)
{
	return (int)((long)i * n / n_cases(n));
}

/* Whether the i-th of n is such a case: for tests that loop over all. */
static inline bool takes_case(int i, int n)
{
	return i == 0 || (long)i * n_cases(n) / n != (long)(i - 1) * n_cases(n) / n;
}

/* Whether a run takes enough cases for tests that are long and reach no code that the others do
 * not. */
static inline bool many_cases(void)
{
	return n_cases(100) >= 50;
}

/* One of the above. Its macro adds it to the list of unit.c before main; what it says is asked for
 * when its file runs. */
struct unit_test {
	TTest test; /* no function: FIXTURE or NEEDS */
	int from, to, signal;
	void (*set_up)(void), (*tear_down)(void);
	const char *needs;
};
struct unit_entry {
	const char *file;
	int line;
	struct unit_test (*get)(void);
	struct unit_entry *next;
};

void unit_add(struct unit_entry *entry);

#define UNIT_ENTRY(name, ...)                                                            \
	static struct unit_test name##_get(void)                                         \
	{                                                                                \
		return (struct unit_test){__VA_ARGS__};                                  \
	}                                                                                \
	__attribute__((constructor)) static void name##_add(void)                        \
	{                                                                                \
		static struct unit_entry entry = {__FILE__, __LINE__, name##_get, NULL}; \
		unit_add(&entry);                                                        \
	}
#define UNIT_TEST(name, from_, to_, signal_)                                                  \
	static void name(int _i);                                                             \
	UNIT_ENTRY(name, .test = {#name, name, __FILE__, __LINE__}, .from = from_, .to = to_, \
		   .signal = signal_)                                                         \
	static void name(int _i CK_ATTRIBUTE_UNUSED)

#define TEST(name) UNIT_TEST(name, 0, 1, 0)
#define LOOP_TEST(name, n) UNIT_TEST(name, 0, n, 0)
#define RANGE_TEST(name, from, to) UNIT_TEST(name, from, to, 0)
#define ABORT_TEST(name, n) UNIT_TEST(name, 0, tests_fork() ? (n) : 0, SIGABRT)
#define FORK_TEST(name, n) UNIT_TEST(name, 0, tests_fork() ? (n) : 0, 0)
#define FIXTURE(before, after) UNIT_ENTRY(before, .set_up = before, .tear_down = after)
#define NEEDS(path) UNIT_ENTRY(needs, .needs = path)
