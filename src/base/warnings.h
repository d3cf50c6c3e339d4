/* What a result must be read with: few, short, in the order in which they were found. */
#ifndef SC_BASE_WARNINGS_H
#define SC_BASE_WARNINGS_H

#include <stddef.h>

enum { SC_MAX_WARNINGS = 16 };
struct sc_warnings {
	size_t n;
	char text[SC_MAX_WARNINGS][160];
};
void sc_warn(struct sc_warnings *warnings, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
