/* What every file of check tests ends with. */
#ifndef SC_TESTS_RUNNER_H
#define SC_TESTS_RUNNER_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77 };

/* Under a debugger or valgrind tests do not fork (CK_FORK=no), and none may end the program. */
static inline bool tests_fork(void)
{
	const char *fork = getenv("CK_FORK");

	return !fork || strcmp(fork, "no") != 0;
}

/* How many of n random cases a property test takes: all, or the percentage STEPCAST_TEST_CASES, which slow
 * builds set (scripts/test). At least one. */
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

/* Whether a run takes enough cases for tests that are long and reach no code that the others do not. */
static inline bool many_cases(void)
{
	return n_cases(100) >= 25;
}

/* A suite of NULL: the data that it needs is not here; what makes it has said so. */
static inline int run_suite(Suite *suite)
{
	SRunner *runner;
	int n_failed;

	if (!suite)
		return SKIPPED;
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	n_failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* All test files are one program, whose first argument names the file (tests/CMakeLists.txt, unit.c). */
#define TEST_MAIN(make_suite)                   \
	int SC_TEST_NAME(void);                 \
	int SC_TEST_NAME(void)                  \
	{                                       \
		return run_suite(make_suite()); \
	}

#endif
