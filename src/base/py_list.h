/* A list as Python or JSON writes it: of calls with named arguments, NAME(key=value, ...), or of
 * mappings with texts as keys; values are texts, numbers, names, lists. Nothing is computed. */
#pragma once

#include "base/yaml.h"

#define SC_PY_CLASS "class" /* the key of what a call calls */
/* The value that begins at text->text[*pos], which moves behind it; (a, b) is a sequence, too. */
int sc_py_read(const struct sc_source *text, size_t *pos, struct sc_arena *arena,
	       struct sc_yaml **out, struct sc_err *err);
/* The first list of the text, as a sequence; what is before its '[' is not read, behind it nothing
 * but comments may be. True, False and None are as in YAML. Depth and number of values are limited.
 */
int sc_py_list_parse(const struct sc_source *text, struct sc_arena *arena, struct sc_yaml **out,
		     struct sc_err *err);
