/* Keys taken one by one (foreign.c) and rules of several (foreign_rules.c) share these. */
#pragma once

#include "core/foreign/foreign.h"

bool sc_foreign_is_text(const struct sc_yaml *node, const char *text);
/* NULL: the file has no such key. */
struct sc_foreign_leaf *sc_foreign_find(const struct sc_foreign *file, const char *theirs);
/* A whole number above 0, else `absent`. */
int64_t sc_foreign_count_of(const struct sc_yaml *node, int64_t absent);
struct sc_foreign_line *sc_foreign_line_at(const struct sc_foreign_lines *lines, const char *path);
void sc_foreign_note_ignored(struct sc_foreign_lines *lines, const struct sc_yaml *node,
			     const char *theirs, enum sc_foreign_ignored why);
/* The first of the words that the value is like, or NULL. */
const struct sc_foreign_word *sc_foreign_word_of(const struct sc_foreign_word *words,
						 const struct sc_yaml *node);
int sc_foreign_not_understood(const struct sc_foreign_leaf *leaf, struct sc_err *err);
