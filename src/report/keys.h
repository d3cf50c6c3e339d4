/* The reference of keys: requests, devices, fabrics and software files, written from the tables that read them. */
#ifndef SC_REPORT_KEYS_H
#define SC_REPORT_KEYS_H

#include <stdbool.h>

#include "base/strbuf.h"

/* Appends the keys whose path or help has every word of `pattern` (NULL: all), a case apart, as text for a
 * terminal or as Markdown; returns how many. A list's elements are keys too: "model.tables[].rows". */
size_t sc_keys_write(const char *pattern, bool markdown, struct sc_strbuf *out);

#endif
