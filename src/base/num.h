/* Text to numbers, whole text or nothing (end pointer, errno, isfinite, range): never atof. Numbers
 * to text, fast. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool sc_parse_double(const char *text, double *out); /* finite decimal; no hex, inf, nan, spaces */
bool sc_parse_int(const char *text,
		  int64_t *out); /* 12, -3; 5.12e4 if integral, to 2^53; no spaces */

enum { SC_JSON_DIGITS = 9 }; /* that results have */
/* Writes 0, or a number of 1e-4 to 1e9, as %.9g would, and says how long it is; 0: ask printf. Its
 * digits are those of number * 10^n, which is at most half an ulp (1e-7) from the truth. */
size_t sc_put_digits(double number, char text[SC_JSON_DIGITS + 8]);
