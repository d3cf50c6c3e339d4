/* Warnings of a result. */
#include "base/warnings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sc_warn(struct sc_warnings *warnings, const char *fmt, ...)
{
	size_t n_max = sizeof(warnings->text[0]);
	va_list args;
	char *text;
	int n;

	if (warnings->n == SC_MAX_WARNINGS)
		return;
	text = warnings->text[warnings->n++];
	va_start(args, fmt);
	n = vsnprintf(text, n_max, fmt, args);
	va_end(args);
	if (n >= (int)n_max)
		memcpy(text + n_max - 4, "...", 4);
}
