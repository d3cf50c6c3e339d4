/* Strict YAML over libyaml: one document, mappings with unique keys, no aliases or anchors or tags,
 * depth, size and count limited. Values are decoded through field tables (base/fields.h). Errors
 * carry file, 1-based line and column, and a nearest-key hint. */
#pragma once

#include "base/fields.h"
#include "base/file.h"

enum sc_yaml_kind { SC_YAML_SCALAR, SC_YAML_MAP, SC_YAML_SEQ };
struct sc_yaml {
	enum sc_yaml_kind kind;
	bool quoted; /* a quoted scalar is never a number or a bool */
	unsigned line, column;
	const char *file;
	const char *text; /* scalar */
	const char *key;  /* as a child of a mapping */
	unsigned key_line, key_column;
	struct sc_yaml *child; /* first child of a map or sequence */
	struct sc_yaml *next;  /* next sibling */
	size_t n_children;
};

enum { SC_YAML_MAX_BYTES = 4 << 20, SC_YAML_MAX_DEPTH = 32, SC_YAML_MAX_NODES = 1 << 20 };

/* Everything lives in the arena. Size, depth and node limits give SC_ELIMIT errors. The root is
 * always a mapping; an empty text is an error. Block scalars (| and >) count as quoted. */
int sc_yaml_parse(const struct sc_source *source, struct sc_arena *arena, struct sc_yaml **out,
		  struct sc_err *err);
int sc_yaml_load(const char *path, struct sc_arena *arena, struct sc_yaml **out,
		 struct sc_err *err);
const struct sc_yaml *sc_yaml_get(const struct sc_yaml *map, const char *key); /* or NULL */
bool sc_yaml_is_null(const struct sc_yaml *node); /* nothing, ~ or null, not quoted */

struct sc_yaml_opts {
	/* For may_be_file fields: loads the file that `ref` names. NULL: refs are errors. */
	int (*open_ref)(const struct sc_yaml *ref, struct sc_arena *arena, struct sc_yaml **out,
			struct sc_err *err);
	/* If not NULL every leaf given is appended here as a struct sc_origin (see fields.h). */
	struct sc_origin *origins;
	size_t n_origins, cap_origins; /* beyond cap they are counted, not kept */
};
/* Fills `object` from a mapping: only keys that are given are written, so defaults stay; on failure
 * nothing is written. Elements of SC_F_STRUCTS start zeroed. A key without a value is an error.
 * `opts` may be NULL. */
int sc_yaml_decode(const struct sc_yaml *map, const struct sc_field *table, void *object,
		   struct sc_arena *arena, struct sc_yaml_opts *opts, struct sc_err *err);
