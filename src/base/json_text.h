/* Decodes a text of JSON. */
#pragma once

#include "base/strbuf.h"

/* Appends what stands between the quotes, escapes resolved. What is none (bytes that are not UTF-8,
 * control characters, NULs, half surrogate pairs) becomes U+FFFD; an escape that JSON does not have
 * stands for itself. */
struct sc_json_faults {
	size_t n_bad, n_escapes;
};
struct sc_json_faults sc_json_decode(const char *at, size_t n, struct sc_strbuf *out);
/* The other way: appends the text in quotes, escaped; bytes that are not UTF-8 become "?". */
void sc_json_quote(const char *text, struct sc_strbuf *out);
/* The value of a hex digit, or -1. */
int sc_hex_digit(char c);
