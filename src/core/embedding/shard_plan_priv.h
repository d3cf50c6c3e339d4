/* Readers of plan formats and what they share. Each fills `out`, which begins empty and is released
 * by the caller on failure; sc_shard_plan_check comes after, and shards of data-parallel tables
 * that have none. */
#pragma once

#include "base/file.h"
#include "base/intern.h"
#include "core/embedding/shard_plan.h"

struct sc_plan_reader {
	const struct sc_table_list *tables; /* sizes of formats without; may be empty */
	struct sc_arena *arena;
	struct sc_intern names; /* of `tables`, id = index; released by sc_shard_plan_parse */
};
/* "0 4-7", or with commas: numbers below `end`, at least one. The text is cut up. */
typedef SC_VEC(int32_t) sc_plan_ranks;
bool sc_plan_ranks_parse(char *text, int64_t end, sc_plan_ranks *out);
/* Index of a table in reader->tables, or -1. */
int64_t sc_plan_table_find(const struct sc_plan_reader *reader, const char *name);
int sc_shard_plan_read_json(const struct sc_plan_reader *reader, const struct sc_source *text,
			    struct sc_shard_plan *out, struct sc_err *err);
int sc_shard_plan_read_torchrec(const struct sc_plan_reader *reader, const struct sc_source *text,
				struct sc_shard_plan *out, struct sc_err *err);
int sc_shard_plan_read_csv(const struct sc_plan_reader *reader, const struct sc_source *text,
			   struct sc_shard_plan *out, struct sc_err *err);
int sc_shard_plan_read_hugectr(const struct sc_plan_reader *reader, const struct sc_source *text,
			       struct sc_shard_plan *out, struct sc_err *err);

/* Tables are named by their parameter; by module and parameter where the model has that name, or
 * where two modules have a parameter of the same name. `grows`: the plan has all ranks that its
 * shards are on. */
void sc_plan_settle(const struct sc_plan_reader *reader, struct sc_shard_plan *plan, bool grows);
