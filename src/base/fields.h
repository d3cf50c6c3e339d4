/* One static table per struct says which keys a mapping may have, their type, place, limits and
 * default. The same table serves the YAML loader, dotted overrides (--set, table headers),
 * `config show` and the documentation. Sub-tables nest; a path is the dotted chain of keys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"

enum sc_ftype {
	SC_F_INT,     /* int64_t; accepts 51200 and 5.12e4, not 1.5 */
	SC_F_DOUBLE,  /* double, finite */
	SC_F_BOOL,    /* bool: true/false (yes/no, 1/0 refused with a hint) */
	SC_F_STR,     /* const char *, arena owned */
	SC_F_ENUM,    /* int, from `names` */
	SC_F_FLAGS,   /* int: one of `names`, or a list of those of SC_FLAG and more, or-ed */
	SC_F_STRUCT,  /* nested mapping, `sub`; held inline at offset */
	SC_F_INTS,    /* struct sc_ints */
	SC_F_DOUBLES, /* struct sc_doubles */
	SC_F_STRUCTS, /* struct sc_structs: a list of mappings, `sub`, `elem_bytes` */
	SC_F_IGNORE,  /* any value, checked for syntax only (reserved keys, free text) */
};
struct sc_ints {
	int64_t *at;
	size_t n;
};
struct sc_doubles {
	double *at;
	size_t n;
};
struct sc_structs {
	void *at;
	size_t n;
};
enum { SC_FLAG = 1 << 8 }; /* the lowest bit of a name that may stand in a list */
struct sc_name {
	const char *name; /* NULL ends the table */
	int value;
};
struct sc_field {
	const char *key; /* NULL ends the table */
	enum sc_ftype type;
	size_t offset;
	double min, max; /* numbers and list elements; both 0 = no limit */
	double absent;   /* what SC_F_INT, DOUBLE, ENUM and FLAGS hold while nobody gave a value */
	/* The words for such a value: "default: heads"; NULL = "default", as `plain`. */
	const char *from, *plain;
	/* Without what the key has no effect: bits of whoever made the table; 0 = nothing. */
	unsigned needs;
	bool required;
	/* SC_F_ENUM, SC_F_FLAGS; of SC_F_INTS: what may stand for a list, which then has its value
	 * alone. */
	const struct sc_name *names;
	/* SC_F_ENUM: a text that ends as a file of a table or of JSON is stored at file_offset
	 * (const char *, in the same struct), and the value is file_value; file_offset 0: no such
	 * texts. */
	size_t file_offset;
	int file_value;
	const struct sc_field *sub; /* SC_F_STRUCT(S) */
	size_t elem_bytes;          /* SC_F_STRUCTS */
	/* SC_F_STRUCT: a scalar is a path of a file that holds the mapping (`model:
	 * models/x.yaml`); filled by the loader through sc_yaml_opts.open_ref. */
	bool may_be_file;
	bool may_be_list;   /* SC_F_STR: of a list of texts they are joined by commas */
	const char *scalar; /* SC_F_STRUCT: a scalar is the value of this key of it, or NULL */
	const char *help;   /* with the unit */
};

/* Rows of a table whose keys are the members' names; after the help may follow what else is to be
 * set: SC_FIELD_IN(INT, sc_release, capability, 0, 999, "of the GPU", .required = true). */
#define SC_FIELD(type_, struct_, member, ...)                                                     \
	{                                                                                         \
		.key = #member, .type = SC_F_##type_, .offset = offsetof(struct struct_, member), \
		.help = __VA_ARGS__                                                               \
	}
#define SC_FIELD_IN(type_, struct_, member, lo, hi, ...) \
	SC_FIELD(type_, struct_, member, __VA_ARGS__, .min = lo, .max = hi)
#define SC_FIELD_OF(type_, struct_, member, table, ...) \
	SC_FIELD(type_, struct_, member, __VA_ARGS__, .names = table)
#define SC_FIELD_MAP(struct_, member, table, ...) \
	SC_FIELD(STRUCT, struct_, member, __VA_ARGS__, .sub = table)
#define SC_FIELD_LIST(struct_, member, table, element, ...)           \
	SC_FIELD(STRUCTS, struct_, member, __VA_ARGS__, .sub = table, \
		 .elem_bytes = sizeof(struct element))

/* The place where each value came from: one entry per field that was given. */
struct sc_origin {
	const char *path; /* "parallel.tp" */
	const char *file; /* or "--set", or the table's name */
	unsigned line, column;
};

/* Numbers and names become what absent ones hold, all else zero; lists of structs are emptied. */
void sc_fields_init(const struct sc_field *table, void *object);
/* Does the place hold what it does before a value is given? A mapping: all of it; a bool: false. */
bool sc_field_is_absent(const struct sc_field *field, const void *place);
/* The hash of all values in the object, as base/fnv.h, but not of what files that it names hold. */
uint64_t sc_fields_hash(uint64_t hash, const struct sc_field *table, const void *object);
size_t sc_field_bytes(const struct sc_field *field); /* of the value in its struct */
/* Bytes from the start of a struct to the end of the last field of its table. */
size_t sc_fields_extent(const struct sc_field *table);
/* Appends what a value may be: "integer, 1 to 4096", "one of 1f1b, gpipe", "list of ...". */
struct sc_strbuf;
void sc_field_value_text(const struct sc_field *field, struct sc_strbuf *out);
const char *sc_enum_name(const struct sc_name *names, int value); /* NULL if unknown */
/* A name's value, in capitals or not; an unknown one is an error with the nearest and all known. */
int sc_enum_parse(const struct sc_name *names, const char *text, int *out, struct sc_err *err);
/* The closest candidate by edit distance, or NULL if none is near (distance > a third). */
const char *sc_nearest(const char *word, const char *const *candidates, size_t n);
/* The place of a value in a struct: what sc_field_find finds of a dotted path. */
struct sc_field_place {
	const struct sc_field *field; /* NULL: there is none */
	/* The offset of the struct that holds the field in the outermost one, so the value is at
	 * base_offset + field->offset (0 for a top-level key). */
	size_t base_offset;
	const char *path;       /* for messages: "parallel.tp" */
	struct sc_arena *arena; /* of what the value refers to */
	const char *nearest;    /* where there is none: a path like it, or NULL */
};
struct sc_field_place sc_field_find(const struct sc_field *table, const char *path,
				    struct sc_arena *arena);
/* The field of a key that the table has. */
static inline const struct sc_field *sc_field_at(const struct sc_field *table, const char *key)
{
	while (strcmp(table->key, key) != 0)
		table++;
	return table;
}
/* The error where there is none: the key is unknown, or goes into a list (model.tables[0].rows),
 * whose elements cannot be set alone. */
int sc_field_unknown(const struct sc_field *table, const struct sc_field_place *at,
		     struct sc_err *err);
/* Parses one scalar text into its place in `object` (the outermost struct). Lists are written
 * "1,2,3" or "[1, 2, 3]". Messages name the path, as "parallel.tp: expected an integer from 1 to
 * 4096, got \"x\"". */
int sc_field_set_text(const struct sc_field_place *to, const char *text, void *object,
		      struct sc_err *err);
