/* Shared by fields.c, field_text.c (a scalar into a place), field_decode.c (YAML into structs). */
#pragma once

#include "base/fields.h"

enum { SC_NEAREST_MAX = 64 }; /* longer words get no hint */
enum { SC_NUMBER_BYTES = 8 };
_Static_assert(sizeof(int64_t) == SC_NUMBER_BYTES && sizeof(double) == SC_NUMBER_BYTES,
	       "elements of both kinds of list are as large");

/* The field whose key is the first n letters, or NULL. */
const struct sc_field *sc_find_key(const struct sc_field *table, const char *key, size_t n);
/* sc_nearest of structs of so many bytes whose first member is the name; a NULL ends them, too. */
const char *sc_nearest_of(const char *word, const void *list, size_t stride, size_t n);

/* field_text.c */
enum { SC_MAX_KEYS_TEXT = 216 }; /* a message is at most as long as the text of struct sc_err */
const char *sc_field_type_text(enum sc_ftype type);
/* "a, b, c" as far as it fits, "..." for the rest; of elements so many bytes apart that begin with
 * their word, the last with NULL. */
const char *sc_field_words(const void *first, size_t stride, char *buf, size_t n_buf);
/* One name of a list of SC_F_FLAGS, or-ed into *place; names below SC_FLAG stand alone only. */
int sc_field_add_flag(const struct sc_field *field, const char *name, void *place,
		      struct sc_err *err);
/* Parses `text` into *place as the field's type says; for SC_F_INTS and SC_F_DOUBLES, place is one
 * element. A quoted text is never a number or a bool. The message does not name the path:
 * "expected an integer from 1 to 4096, got \"x\"". Nothing is written on failure. */
int sc_field_parse_scalar(const struct sc_field_place *to, const char *text, void *at,
			  struct sc_err *err);
/* Writes the {pointer, count} of an SC_F_INTS or SC_F_DOUBLES field. */
void sc_field_put_list(const struct sc_field *field, void *at, size_t n, void *place);
/* True, and *place is written, if `text` is a name that stands for a list. */
bool sc_field_named_list(const struct sc_field_place *to, const char *text, void *place);
