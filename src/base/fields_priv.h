/* Shared by fields.c and field_text.c: one scalar into one place. */
#ifndef SC_BASE_FIELDS_PRIV_H
#define SC_BASE_FIELDS_PRIV_H

#include "base/fields.h"

enum { SC_NEAREST_MAX = 64 }; /* longer words get no hint */
enum { SC_NUMBER_BYTES = 8 };
_Static_assert(sizeof(int64_t) == SC_NUMBER_BYTES && sizeof(double) == SC_NUMBER_BYTES,
	       "elements of both kinds of list are as large");

/* The field whose key is the first n letters, or NULL. */
const struct sc_field *sc_find_key(const struct sc_field *table, const char *key, size_t n);
/* sc_nearest of structs of so many bytes whose first member is the name; a NULL ends them, too. */
const char *sc_nearest_of(const char *word, const void *list, size_t stride, size_t n);

#endif
