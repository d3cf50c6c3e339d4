/* Shared by fields.c and field_text.c: one scalar into one place. */
#ifndef SC_BASE_FIELDS_PRIV_H
#define SC_BASE_FIELDS_PRIV_H

#include "base/fields.h"

enum { SC_NEAREST_MAX = 64 }; /* longer words get no hint */
enum { SC_NUMBER_BYTES = 8 };
_Static_assert(sizeof(int64_t) == SC_NUMBER_BYTES && sizeof(double) == SC_NUMBER_BYTES,
	       "elements of both kinds of list are as large");

/* Edit distance if near (at most a third of the longer word), else SIZE_MAX. */
size_t sc_near_distance(const char *word, const char *candidate);
/* The key of the table nearest to `key`, or NULL. */
const char *sc_field_nearest(const struct sc_field *table, const char *key);

#endif
