/* Text to numbers, whole text or nothing (end pointer, errno, isfinite, range): never atof. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

bool sc_parse_double(const char *text, double *out); /* finite decimal; no hex, inf, nan, spaces */
bool sc_parse_int(const char *text,
		  int64_t *out); /* 12, -3; 5.12e4 if integral, to 2^53; no spaces */
