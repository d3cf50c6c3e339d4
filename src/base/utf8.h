/* Text of unknown origin made safe for output that must be UTF-8. */
#ifndef SC_BASE_UTF8_H
#define SC_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the UTF-8 sequence that text begins with, 1 to 4; 0 if it is not one (RFC 3629: no
 * overlong forms, no surrogates). Text ends with a NUL, which is a sequence of 1. */
size_t sc_utf8_length(const char *text);

#endif
