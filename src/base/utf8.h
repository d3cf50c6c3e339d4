/* Text of unknown origin made safe for output that must be UTF-8. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

/* Bytes of the UTF-8 sequence that text begins with, 1 to 4; 0 if it is not one (RFC 3629: no
 * overlong forms, no surrogates). Text ends with a NUL, which is a sequence of 1. */
size_t sc_utf8_length(const char *text);
/* A character's bytes: 110xxxxx, 1110xxxx or 11110xxx, then 10xxxxxx each. Returns how many. */
static inline size_t sc_utf8_put(uint32_t c, char out[4])
{
	unsigned extra = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
	size_t n = 0;

	out[n++] = (char)(extra ? (0xFF00 >> (extra + 1) & 0xFF) | c >> (6 * extra) : c);
	while (extra--)
		out[n++] = (char)(0x80 | (c >> (6 * extra) & 0x3F));
	return n;
}

/* Wide text as UTF-8: at most n - 1 bytes and a NUL, whole characters only; what is none becomes
 * U+FFFD. Returns the bytes written. */
size_t sc_wide_to_utf8(const wchar_t *text, char *out, size_t n);
