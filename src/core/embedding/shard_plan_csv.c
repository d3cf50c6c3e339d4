/* A plan by hand, as a CSV: a row a table, or several whose names begin alike.
 *   table   a name; PREFIX* or * for those that no other row names
 *   kind    a sharding type, or dp, tw, cw, rw, twrw, twcw
 *   ranks   3, 0-7, 0 4 5: of the table's shards, in their order; empty: all. Tables of a PREFIX*
 * that are whole (table_wise) are dealt out over them, one after another memory  a compute kernel;
 * empty: in GPU memory cached  of fused_uvm_caching: the share of rows in GPU memory hot_rows  so
 * many of the most frequent rows are on every rank, too; of a PREFIX* at most all of a table */
#include <stddef.h>
#include <string.h>

#include "base/csv_rows.h"
#include "core/embedding/shard_plan_priv.h"

struct row {
	const char *table, *ranks;
	int kind, memory;
	double cached;
	int64_t hot_rows;
};
static const struct sc_name kinds[] = {
	{"data_parallel", SC_DATA_PARALLEL},
	{"table_wise", SC_TABLE_WISE},
	{"column_wise", SC_COLUMN_WISE},
	{"row_wise", SC_ROW_WISE},
	{"table_row_wise", SC_TABLE_ROW_WISE},
	{"table_column_wise", SC_TABLE_COLUMN_WISE},
	{"dp", SC_DATA_PARALLEL},
	{"tw", SC_TABLE_WISE},
	{"cw", SC_COLUMN_WISE},
	{"rw", SC_ROW_WISE},
	{"twrw", SC_TABLE_ROW_WISE},
	{"twcw", SC_TABLE_COLUMN_WISE},
	{0},
};
#define COLUMN(name, kind, ...)                                                          \
	{                                                                                \
		.key = #name, .type = SC_F_##kind, .offset = offsetof(struct row, name), \
		__VA_ARGS__                                                              \
	}
static const struct sc_field fields[] = {
	COLUMN(table, STR, .required = true),
	COLUMN(kind, ENUM, .names = kinds, .required = true),
	COLUMN(ranks, STR, .required = false),
	COLUMN(memory, ENUM, .names = sc_tier_names),
	COLUMN(cached, DOUBLE, .min = 0, .max = 1),
	COLUMN(hot_rows, INT, .min = 0, .max = SC_MAX_TABLE_ROWS),
	{.key = "notes", .type = SC_F_IGNORE},
	{0},
};

struct reader {
	const struct sc_plan_reader *common;
	struct sc_csv csv;
	struct sc_csv_rows rows;
	struct sc_shard_plan *plan;
	bool *is_placed;     /* of each table */
	sc_plan_ranks ranks; /* of the row at hand */
};

/* "0 4-7", "all" or nothing. */
static int read_ranks(struct reader *r, size_t row, const char *text, struct sc_err *err)
{
	struct sc_arena *arena = r->common->arena;
	const uint32_t world = r->common->tables->world;
	const char *given =
		text && strcmp(text, "all") != 0 ? text : sc_arena_printf(arena, "0-%u", world - 1);
	bool *is_taken = sc_arena_calloc(arena, world, sizeof(*is_taken));
	bool fine = sc_plan_ranks_parse(sc_arena_strdup(arena, given), world, &r->ranks);

	for (size_t i = 0; i < r->ranks.n && fine; i++) {
		fine = !is_taken[r->ranks.at[i]];
		is_taken[r->ranks.at[i]] = true;
	}
	if (fine)
		return 0;
	return sc_csv_cell_error(
		&r->csv, row, "ranks",
		sc_arena_printf(arena, "ranks from 0 to %u, each once, as 3, 0-7 or 0 4 5",
				world - 1),
		err);
}

/* `turn`: which of the row's tables it is. */
static void add_placement(const struct reader *r, size_t row, const struct row *read, size_t table,
			  size_t turn)
{
	struct sc_table_placement *t = sc_plan_begin_table(r->plan, &r->common->tables->at[table],
							   (enum sc_shard_type)read->kind);

	t->tier = (enum sc_tier)read->memory;
	t->cache_frac = t->tier == SC_TIER_CACHED ? read->cached : 0;
	t->hot_rows = read->hot_rows;
	if (read->table[strlen(read->table) - 1] == '*' && t->hot_rows > t->rows)
		t->hot_rows = t->rows;
	t->line = r->csv.line[row];
	r->is_placed[table] = true;
	if (read->kind == SC_DATA_PARALLEL)
		sc_plan_add_replicas(r->plan);
	else if (read->kind == SC_TABLE_WISE)
		sc_plan_add_shard(r->plan,
				  &(struct sc_shard){.rank = r->ranks.at[turn % r->ranks.n],
						     .rows = t->rows,
						     .cols = t->dim});
	else if (read->kind == SC_ROW_WISE || read->kind == SC_TABLE_ROW_WISE)
		sc_plan_add_rows(r->plan, r->ranks.at, r->ranks.n, 0, t->dim);
	else {
		const int64_t dim = t->dim, rows = t->rows, n = (int64_t)r->ranks.n;

		for (int64_t i = 0; i < n; i++)
			sc_plan_add_shard(r->plan, &(struct sc_shard){.rank = r->ranks.at[i],
								      .rows = rows,
								      .col_offset = dim * i / n,
								      .cols = dim * (i + 1) / n -
									      dim * i / n});
	}
}

/* Names first, patterns with what is left. */
static int take_row(struct reader *r, size_t row, bool patterns, struct sc_err *err)
{
	const struct sc_table_list *tables = r->common->tables;
	struct row read = {.cached = 0};
	size_t n, turn = 0;
	bool is_pattern;
	int64_t at;
	int rc = sc_csv_rows_get(&r->rows, row, &read, err);

	if (rc)
		return rc;
	n = strlen(read.table);
	is_pattern = read.table[n - 1] == '*';
	if (is_pattern != patterns)
		return 0;
	rc = read_ranks(r, row, read.ranks, err);
	if (rc == 0) {
		const char *what = NULL;

		if (read.kind == SC_DATA_PARALLEL && r->ranks.n != r->common->tables->world)
			what = "data_parallel is on every rank: leave ranks empty";
		else if (read.kind == SC_TABLE_WISE && !is_pattern && r->ranks.n != 1)
			what = "table_wise: give the one rank that has the table; only those of a PREFIX* are dealt out";
		else if (read.memory == SC_TIER_CACHED && !(read.cached > 0))
			what = "fused_uvm_caching: a column cached, the share of its rows in GPU memory";
		rc = what ? sc_err_at(err, SC_EVALUE, r->csv.file, r->csv.line[row], 0,
				      "table \"%.64s\": %s", read.table, what)
			  : 0;
	}
	if (rc)
		return rc;
	if (is_pattern) {
		for (size_t i = 0; i < tables->n; i++)
			if (!r->is_placed[i] && strncmp(tables->at[i].name, read.table, n - 1) == 0)
				add_placement(r, row, &read, i, turn++);
		return 0;
	}
	at = sc_plan_table_find(r->common, read.table);
	if (at < 0 || r->is_placed[at])
		return sc_err_at(err, SC_ECONFLICT, r->csv.file, r->csv.line[row], 0,
				 at < 0 ? "the plan is for other tables: the model has no \"%.64s\""
					: "table \"%.64s\" is already on a line above",
				 read.table);
	add_placement(r, row, &read, (size_t)at, 0);
	return 0;
}

int sc_shard_plan_read_csv(const struct sc_plan_reader *reader, const struct sc_source *text,
			   struct sc_shard_plan *out, struct sc_err *err)
{
	const struct sc_table_list *tables = reader->tables;
	struct reader r = {.common = reader, .plan = out};
	int rc = sc_csv_parse(text, reader->arena, &r.csv, err);

	if (rc == 0 && (tables->n == 0 || tables->world == 0))
		rc = sc_err_at(err, SC_EVALUE, text->file, 0, 0,
			       "a plan by hand needs a config, for its tables and GPUs");
	if (rc)
		return rc;
	r.rows = (struct sc_csv_rows){.csv = &r.csv, .fields = fields, .list = "a plan by hand"};
	r.is_placed = sc_arena_calloc(reader->arena, tables->n, sizeof(*r.is_placed));
	out->world = tables->world;
	rc = sc_csv_rows_bind(&r.rows, reader->arena, err);
	for (int patterns = 0; patterns < 2; patterns++)
		for (size_t row = 0; row < r.csv.n_rows && rc == 0; row++)
			rc = take_row(&r, row, patterns, err);
	SC_VEC_RELEASE(&r.ranks);
	return rc;
}
