/* One program of all unit tests, so that they are linked once: unit FILE [TEST] runs those of
 * tests/unit/FILE.c, or one of them. */
#include <unistd.h>

#include "runner.h"

enum { SKIPPED = 77, MAX_ENTRIES = 1000 };

static struct unit_entry *all;

void unit_add(struct unit_entry *entry)
{
	entry->next = all;
	all = entry;
}

static int by_line(const void *a, const void *b)
{
	const struct unit_entry *const *x = a, *const *y = b;

	return (*x)->line - (*y)->line;
}

/* What stands in NAME.c, from top to bottom: no order of constructors is promised. */
static int entries_of(const char *name, const struct unit_entry **out)
{
	size_t len = strlen(name);
	int n = 0;

	for (const struct unit_entry *e = all; e && n < MAX_ENTRIES; e = e->next) {
		const char *slash = strrchr(e->file, '/');
		const char *base = slash ? slash + 1 : e->file;

		if (strncmp(base, name, len) == 0 && strcmp(base + len, ".c") == 0)
			out[n++] = e;
	}
	qsort(out, (size_t)n, sizeof(struct unit_entry *), by_line);
	return n;
}

/* Adds the tests of a file, or the one of that name, to the suite; how many, or -SKIPPED where what
 * they need is not here. */
static int add_tests(Suite *suite, const char *file, const char *name)
{
	static struct unit_test tests[MAX_ENTRIES]; /* the suite refers to them */
	const struct unit_entry *entries[MAX_ENTRIES];
	const struct unit_test *fixture = NULL;
	int n_entries = entries_of(file, entries), n = 0;

	for (int i = 0; i < n_entries; i++) {
		struct unit_test *t = &tests[i];
		TCase *tc;

		*t = entries[i]->get();
		if (t->needs && access(t->needs, R_OK) != 0) {
			printf("skipped: %s is not here\n", t->needs);
			return n ? n : -SKIPPED;
		}
		if (!t->test.fn && !t->needs)
			fixture = t;
		if (!t->test.fn || (name && strcmp(name, t->test.name) != 0))
			continue;
		tc = tcase_create(t->test.name);
		if (fixture)
			tcase_add_checked_fixture(tc, fixture->set_up, fixture->tear_down);
		tcase_set_timeout(tc, 600);
		tcase_add_loop_test_raise_signal(tc, &t->test, t->signal, t->from, t->to);
		suite_add_tcase(suite, tc);
		n++;
	}
	return n;
}

int main(int argc, char **argv)
{
	Suite *suite = suite_create(argc > 1 ? argv[1] : "");
	SRunner *runner = srunner_create(suite);
	int n = argc > 1 ? add_tests(suite, argv[1], argv[2]) : 0, code = EXIT_FAILURE;

	if (n > 0) {
		srunner_run_all(runner, CK_NORMAL);
		code = srunner_ntests_failed(runner) ? EXIT_FAILURE : EXIT_SUCCESS;
	} else if (n < 0) {
		code = -n;
	} else {
		fprintf(stderr, "usage: unit FILE [TEST], of tests/unit/FILE.c\n");
	}
	srunner_free(runner);
	return code;
}
