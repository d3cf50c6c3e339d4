/* Shared by fields.c and yaml_decode.c: one scalar into one place. */
#ifndef SC_BASE_FIELDS_PRIV_H
#define SC_BASE_FIELDS_PRIV_H

#include "base/fields.h"

enum { SC_NEAREST_MAX = 64 }; /* longer words get no hint */
enum { SC_NUMBER_BYTES = 8 };
_Static_assert(sizeof(int64_t) == SC_NUMBER_BYTES && sizeof(double) == SC_NUMBER_BYTES,
	       "elements of both kinds of list are as large");

/* Parses `text` into *place as the field's type says; for SC_F_INTS and SC_F_DOUBLES, place is one
 * element. A quoted text is never a number or a bool. The message does not name the path:
 * "expected an integer from 1 to 4096, got \"x\"". Nothing is written on failure. */
int sc_field_parse_scalar(const struct sc_field_place *to, const char *text, void *at,
			  struct sc_err *err);
/* A number or a bool cannot be quoted. */
int sc_field_refuse_quoted(const struct sc_field *field, const char *text, struct sc_err *err);
/* Writes the {pointer, count} of an SC_F_INTS or SC_F_DOUBLES field. */
void sc_field_put_list(const struct sc_field *field, void *at, size_t n, void *place);
/* True, and *place is written, if `text` is a name that stands for a list. */
bool sc_field_named_list(const struct sc_field_place *to, const char *text, void *place);
/* One name of a list of SC_F_FLAGS, or-ed into *place; names below SC_FLAG stand alone only. */
int sc_field_add_flag(const struct sc_field *field, const char *name, void *place,
		      struct sc_err *err);
/* Edit distance if near (at most a third of the longer word), else SIZE_MAX. */
size_t sc_near_distance(const char *word, const char *candidate);
/* The key of the table nearest to `key`, or NULL. */
const char *sc_field_nearest(const struct sc_field *table, const char *key);

#endif
