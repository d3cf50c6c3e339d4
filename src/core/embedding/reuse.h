/* How the rows of a table are reused, as a config or a profile file says it: keys, checks,
 * defaults. What follows from it (distinct rows, hit rates) is in models/row_reuse.h. */
#pragma once

#include "core/embedding/embedding.h"

/* The fields of struct sc_reuse; the keys of model.tables[].reuse and of configs/reuse/ID.yaml. */
extern const struct sc_field sc_reuse_fields[];
/* configs/reuse/ID.yaml. Strings and lists live in the arena. */
int sc_reuse_load(const char *id, struct sc_arena *arena, struct sc_reuse *out, struct sc_err *err);
/* Checks what is given and completes it: finds the kind, loads `file` (an id of configs/reuse; with
 * a slash or ending in .npy, .bin or .txt, the path of an index sample), and takes `fallback` where
 * nothing is given; NULL: configs/reuse/default.yaml, read anew. What is resolved names no file;
 * once more changes nothing. Untouched on failure. */
int sc_reuse_resolve(struct sc_reuse *reuse, const struct sc_reuse *fallback,
		     struct sc_arena *arena, struct sc_err *err);

/* A sample of a table's indices as a histogram: integers in text, .npy (int32 or int64, one
 * dimension), or .bin (int64, little-endian); at most 1 GiB. */
int sc_index_sample_load(const char *path, struct sc_arena *arena, struct sc_reuse *out,
			 struct sc_err *err);
