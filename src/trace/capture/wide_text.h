/* Wide text as UTF-8. */
#ifndef SC_TRACE_CAPTURE_WIDE_TEXT_H
#define SC_TRACE_CAPTURE_WIDE_TEXT_H

#include <stddef.h>
#include <wchar.h>

/* At most n - 1 bytes and a NUL, whole characters only; what is none becomes U+FFFD. Bytes written. */
size_t sc_wide_to_utf8(const wchar_t *text, char *out, size_t n);

#endif
