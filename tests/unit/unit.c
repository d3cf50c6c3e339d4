/* One program of all unit tests, so that they are linked once: unit NAME runs tests/unit/NAME.c. The build
 * writes the list of files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEST(name) int name(void);
#include "unit_tests.inc"
#undef TEST

static const struct {
	const char *name;
	int (*run)(void);
} TESTS[] = {
#define TEST(name) {#name, name},
#include "unit_tests.inc"
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(TESTS) / sizeof(TESTS[0]); i++)
		if (strcmp(TESTS[i].name, argv[1]) == 0)
			return TESTS[i].run();
	fprintf(stderr, "usage: unit NAME, of a file tests/unit/NAME.c\n");
	return EXIT_FAILURE;
}
