/* Embedding tables listed in a CSV file, one a row. Columns:
 *   name (or table)   required
 *   rows, dim         required; entries of a table, elements of an entry
 *   pooling           mean lookups of a sample and feature, above 0; or
 *   pooling_factor    the same of all its features together, as published lists have it
 *   count, features   tables alike; features that share a table; 1 if empty or left out
 *   storage (or dtype) of the weights: fp32, fp16, bf16, fp8; empty = the software's
 *   weighted          true: lookups have weights
 *   sequence          true: lookups are not pooled
 *   zipf              exponent of the popularity of rows by rank; empty = the default reuse
 *   notes, source     any text, not read
 * or by TorchRec's names: num_embeddings, embedding_dim, num_features or feature_names (apart by
 * spaces, ';' or '|'), data_type, is_weighted; there pooling_factor is of tables with one feature.
 * Anything else is an error, with file and line. */
#pragma once

#include "base/csv.h"
#include "core/embedding/shard_plan.h"

/* One entry a row, `count` not written out; strings and entries in the arena. At most SC_MAX_TABLES
 * tables, counts included. */
/* The same of a table that is in memory. */
int sc_tables_read_csv(const struct sc_csv *csv, struct sc_arena *arena, struct sc_table_list *out,
		       struct sc_err *err);
