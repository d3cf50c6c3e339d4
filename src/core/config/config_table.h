/* A CSV whose header cells are config keys: one case a row, over a base config (docs/keys.md). */
#pragma once

#include "base/csv.h"
#include "core/config/config.h"

/* A column that sets a value. */
struct sc_config_column {
	size_t column;
	struct sc_field_place place;
};
/* A file named in the columns `model` or `cluster`, read once. */
struct sc_config_file {
	const char *ref;
	int rc;
	struct sc_err err;        /* why it cannot be used, if rc */
	struct sc_config section; /* only the section is filled */
};
struct sc_config_files {
	const char *key; /* "model" */
	int column;      /* or -1 */
	size_t n;
	struct sc_config_file *at;
};
struct sc_config_table {
	const struct sc_csv *csv; /* these two are given by the caller */
	const struct sc_config *base;
	struct sc_config_column *columns;
	size_t n_columns;
	struct sc_config_files model, cluster;
};

/* Binds the header to the config's keys. A header with a dot that is no key is an error with the
 * nearest one; `gpus`, `model` and `cluster` are keys, every other bare header is carried through.
 * Files that the rows name are looked up beside the base config's file (if it has one), then
 * installed; one not read is its rows' error. Borrows csv; the rest lives in the arena. */
int sc_config_table_bind(struct sc_config_table *table, struct sc_arena *arena, struct sc_err *err);
/* Base and row together: the row's `model` and `cluster` replace the base's sections, then its
 * values apply; an empty cell is not given. Threads may share it, each with its arena. */
int sc_config_table_row(const struct sc_config_table *table, size_t row, struct sc_arena *arena,
			struct sc_config *out, struct sc_err *err);
