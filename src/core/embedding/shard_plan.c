/* Plans as data: their checks, and which reader a file is for. */
#include "core/embedding/shard_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/intern.h"
#include "base/num.h"
#include "base/search.h"
#include "base/utf8.h"
#include "core/embedding/shard_plan_priv.h"

const struct sc_name sc_shard_type_names[] = {
	{"data_parallel", SC_DATA_PARALLEL},
	{"table_wise", SC_TABLE_WISE},
	{"column_wise", SC_COLUMN_WISE},
	{"row_wise", SC_ROW_WISE},
	{"table_row_wise", SC_TABLE_ROW_WISE},
	{"table_column_wise", SC_TABLE_COLUMN_WISE},
	{"grid_shard", SC_GRID},
	{0},
};
const struct sc_name sc_tier_names[] = {
	{"fused", SC_TIER_HBM},     {"fused_uvm_caching", SC_TIER_CACHED},
	{"fused_uvm", SC_TIER_UVM}, {"key_value", SC_TIER_SSD},
	{"dense", SC_TIER_HBM},     {0},
};

void sc_shard_plan_release(struct sc_shard_plan *plan)
{
	SC_VEC_RELEASE(&plan->tables);
	SC_VEC_RELEASE(&plan->shards);
	*plan = (struct sc_shard_plan){.world = 0};
}

void sc_shard_plan_copy(const struct sc_shard_plan *from, struct sc_shard_plan *to)
{
	to->world = from->world;
	to->ranks_per_host = from->ranks_per_host;
	to->tables.n = to->shards.n = 0;
	for (size_t i = 0; i < from->tables.n; i++)
		SC_VEC_PUSH(&to->tables, from->tables.at[i]);
	for (size_t i = 0; i < from->shards.n; i++)
		SC_VEC_PUSH(&to->shards, from->shards.at[i]);
}

void sc_plan_add_table(struct sc_shard_plan *plan, const struct sc_table_placement *table)
{
	struct sc_table_placement copy = *table;

	copy.first_shard = (uint32_t)plan->shards.n;
	copy.n_shards = 0;
	SC_VEC_PUSH(&plan->tables, copy);
}

struct sc_table_placement *sc_plan_begin_table(struct sc_shard_plan *plan,
					       const struct sc_table *table,
					       enum sc_shard_type type)
{
	sc_plan_add_table(plan, &(struct sc_table_placement){.name = table->name,
							     .rows = table->rows,
							     .dim = table->dim,
							     .type = type});
	return &plan->tables.at[plan->tables.n - 1];
}

void sc_plan_add_shard(struct sc_shard_plan *plan, const struct sc_shard *shard)
{
	struct sc_shard copy = *shard;

	copy.table = (uint32_t)plan->tables.n - 1;
	SC_VEC_PUSH(&plan->shards, copy);
	plan->tables.at[copy.table].n_shards++;
}

void sc_plan_add_replicas(struct sc_shard_plan *plan)
{
	const struct sc_table_placement *table = &plan->tables.at[plan->tables.n - 1];
	struct sc_shard shard = {.rows = table->rows, .cols = table->dim};

	for (uint32_t rank = 0; rank < plan->world; rank++) {
		shard.rank = (int32_t)rank;
		sc_plan_add_shard(plan, &shard);
	}
}

void sc_plan_add_rows(struct sc_shard_plan *plan, const int32_t *ranks, size_t n,
		      int64_t col_offset, int64_t cols)
{
	int64_t rows = plan->tables.at[plan->tables.n - 1].rows;
	int64_t block = (rows + (int64_t)n - 1) / (int64_t)n;

	for (size_t i = 0; i < n; i++) {
		int64_t begin = block * (int64_t)i < rows ? block * (int64_t)i : rows;
		int64_t left = rows - begin;
		struct sc_shard shard = {
			.rank = ranks[i],
			.row_offset = begin,
			.rows = left < block ? left : block,
			.col_offset = col_offset,
			.cols = cols,
		};

		sc_plan_add_shard(plan, &shard);
	}
}

/* --- checks --- */

/* A table of a plan that is checked. */
struct checked {
	const struct sc_shard_plan *plan;
	const struct sc_table_placement *t;
	struct sc_err *err;
};

static int plan_fail(const struct checked *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static int plan_fail(const struct checked *c, const char *fmt, ...)
{
	char text[sizeof(c->err->text)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return sc_err_at(c->err, SC_ECONFLICT, c->plan->file, c->t->line, c->t->column,
			 "table \"%.64s\": %s", c->t->name, text);
}

static int check_shape(const struct checked *c)
{
	const struct sc_table_placement *t = c->t;

	if (t->rows < 1 || t->dim < 1)
		return plan_fail(c, "%lld rows of dim %lld; both must be at least 1",
				 (long long)t->rows, (long long)t->dim);
	if (t->type < 0 || t->type >= SC_N_SHARD_TYPES || t->tier < 0 || t->tier >= SC_N_TIERS)
		return plan_fail(c, "an unknown sharding type or tier");
	if (!(t->cache_frac >= 0 && t->cache_frac <= 1))
		return plan_fail(c, "a cached share of %g; it must be 0 to 1", t->cache_frac);
	if (t->hot_rows < 0 || t->hot_rows > t->rows)
		return plan_fail(c, "%lld hot rows of %lld", (long long)t->hot_rows,
				 (long long)t->rows);
	if (t->hot_rows && t->type != SC_TABLE_WISE && t->type != SC_ROW_WISE &&
	    t->type != SC_TABLE_ROW_WISE)
		return plan_fail(c,
				 "hot_rows with %s; they go with table_wise, row_wise or "
				 "table_row_wise, whose rows are whole",
				 sc_enum_name(sc_shard_type_names, (int)t->type));
	if (t->first_shard > c->plan->shards.n || t->n_shards > c->plan->shards.n - t->first_shard)
		return plan_fail(c, "its shards are not in the plan");
	if (t->n_shards == 0)
		return plan_fail(c, "it has no shards");
	if (t->type == SC_TABLE_WISE && t->n_shards != 1)
		return plan_fail(c, "table_wise, but %u shards", t->n_shards);
	if (t->type == SC_DATA_PARALLEL && t->n_shards != c->plan->world)
		return plan_fail(c, "data_parallel, but %u shards for %u ranks", t->n_shards,
				 c->plan->world);
	return 0;
}

static int check_shard(const struct checked *c, uint32_t i)
{
	const struct sc_table_placement *t = c->t;
	const struct sc_shard *s = &c->plan->shards.at[t->first_shard + i];

	if (s->rank < 0 || (uint32_t)s->rank >= c->plan->world)
		return plan_fail(c, "shard %u: rank %d; the plan has ranks 0 to %u", i,
				 (int)s->rank, c->plan->world - 1);
	if (s->row_offset < 0 || s->rows < 0 || s->rows > t->rows ||
	    s->row_offset > t->rows - s->rows || s->col_offset < 0 || s->cols < 1 ||
	    s->cols > t->dim || s->col_offset > t->dim - s->cols)
		return plan_fail(
			c,
			"shard %u: %lld x %lld at (%lld, %lld) is outside the table of %lld x %lld",
			i, (long long)s->rows, (long long)s->cols, (long long)s->row_offset,
			(long long)s->col_offset, (long long)t->rows, (long long)t->dim);
	if (t->type == SC_DATA_PARALLEL &&
	    (s->rank != (int32_t)i || s->rows != t->rows || s->cols != t->dim))
		return plan_fail(c, "data_parallel, but shard %u is not all of it on rank %u", i,
				 i);
	return 0;
}

SC_COMPARE(by_offset, struct sc_shard *const,
	   8 * SC_ORDER((*a)->col_offset, (*b)->col_offset) +
		   4 * SC_ORDER((*a)->row_offset, (*b)->row_offset) +
		   2 * SC_ORDER((*a)->rows, (*b)->rows) + SC_ORDER(*a, *b));

/* Column slices side by side, each of row slices one below the other. */
static int check_cover(const struct checked *c, const struct sc_shard **sorted)
{
	const struct sc_table_placement *t = c->t;
	const struct sc_shard *shards = c->plan->shards.at + t->first_shard, *slice = NULL;
	const struct sc_shard end = {.row_offset = t->rows, .col_offset = t->dim};
	int64_t row = t->rows, col = 0; /* so far */

	for (uint32_t i = 0; i < t->n_shards; i++)
		sorted[i] = &shards[i];
	SC_SORT(sorted, t->n_shards, by_offset);
	for (uint32_t i = 0; i <= t->n_shards; i++) {
		const struct sc_shard *s = i < t->n_shards ? sorted[i] : &end;
		unsigned last = i ? (unsigned)(sorted[i - 1] - shards) : 0;

		if (s == &end || !slice || s->col_offset != slice->col_offset) {
			if (row < t->rows)
				return plan_fail(c, "rows %lld to %lld are on no rank",
						 (long long)row, (long long)t->rows - 1);
			if (s->col_offset > col)
				return plan_fail(c, "columns %lld to %lld are on no rank",
						 (long long)col, (long long)s->col_offset - 1);
			if (s->col_offset < col)
				return plan_fail(c, "shards %u and %u overlap at column %lld", last,
						 (unsigned)(s - shards), (long long)s->col_offset);
			if (s == &end)
				break;
			slice = s;
			row = 0;
			col += s->cols;
		}
		if (s->cols != slice->cols)
			return plan_fail(c, "shards %u and %u overlap", (unsigned)(slice - shards),
					 (unsigned)(s - shards));
		if (s->rows && s->row_offset < row)
			return plan_fail(c, "shards %u and %u overlap at row %lld", last,
					 (unsigned)(s - shards), (long long)s->row_offset);
		if (s->rows && s->row_offset > row)
			return plan_fail(c, "rows %lld to %lld are on no rank", (long long)row,
					 (long long)s->row_offset - 1);
		row += s->rows;
	}
	return 0;
}

static int check_type(const struct checked *c)
{
	const struct sc_table_placement *t = c->t;
	const struct sc_shard *s = c->plan->shards.at + t->first_shard;
	const char *name = sc_enum_name(sc_shard_type_names, (int)t->type);
	bool by_rows = t->type == SC_ROW_WISE || t->type == SC_TABLE_ROW_WISE;
	bool by_cols = t->type == SC_COLUMN_WISE || t->type == SC_TABLE_COLUMN_WISE;
	bool one_host = t->type == SC_TABLE_ROW_WISE || t->type == SC_TABLE_COLUMN_WISE;
	uint32_t per_host = c->plan->ranks_per_host;

	for (uint32_t i = 0; i < t->n_shards; i++) {
		if (by_rows && s[i].cols != t->dim)
			return plan_fail(c, "%s, but shard %u has only some columns", name, i);
		if (by_cols && s[i].rows != t->rows)
			return plan_fail(c, "%s, but shard %u has only some rows", name, i);
		if (one_host && per_host &&
		    (uint32_t)s[i].rank / per_host != (uint32_t)s[0].rank / per_host)
			return plan_fail(c, "%s, but ranks %d and %d are on different hosts", name,
					 (int)s[0].rank, (int)s[i].rank);
	}
	return 0;
}

static int check_table(const struct sc_shard_plan *plan, size_t index,
		       const struct sc_shard **scratch, struct sc_err *err)
{
	const struct sc_table_placement *t = &plan->tables.at[index];
	const struct checked c = {plan, t, err};
	int rc = check_shape(&c);

	for (uint32_t i = 0; i < t->n_shards && rc == 0; i++) {
		rc = check_shard(&c, i);
		if (rc == 0 && plan->shards.at[t->first_shard + i].table != index)
			rc = plan_fail(&c, "shard %u belongs to another table", i);
	}
	if (rc)
		return rc;
	if (t->type == SC_DATA_PARALLEL)
		return 0;
	rc = check_cover(&c, scratch);
	return rc ? rc : check_type(&c);
}

int sc_shard_plan_check(const struct sc_shard_plan *plan, struct sc_err *err)
{
	const struct sc_shard **scratch;
	struct sc_intern names = {.n_slots = 0};
	int rc = 0;

	if (plan->world < 1 || plan->tables.n == 0)
		return sc_err_at(err, SC_ECONFLICT, plan->file, 0, 0,
				 "a plan needs ranks and tables");
	if (plan->ranks_per_host && plan->world % plan->ranks_per_host)
		return sc_err_at(err, SC_ECONFLICT, plan->file, 0, 0,
				 "%u ranks are no whole hosts of %u", plan->world,
				 plan->ranks_per_host);
	scratch = sc_xrealloc(NULL, plan->shards.n + 1, sizeof(const struct sc_shard *));
	for (size_t i = 0; i < plan->tables.n && rc == 0; i++)
		if (sc_intern_add(&names, plan->tables.at[i].name) != i)
			rc = plan_fail(&(struct checked){plan, &plan->tables.at[i], err},
				       "it is in the plan twice");
		else
			rc = check_table(plan, i, scratch, err);
	sc_intern_release(&names);
	free(scratch);
	return rc;
}

int sc_shard_plan_check_tables(const struct sc_shard_plan *plan, const struct sc_table_list *tables,
			       struct sc_err *err)
{
	for (size_t i = 0; i < tables->n; i++) {
		const struct sc_table *table = &tables->at[i];
		const struct sc_table_placement *t = &plan->tables.at[i];

		if (i >= plan->tables.n || strcmp(t->name, table->name) != 0)
			return sc_err_at(err, SC_ECONFLICT, plan->file, 0, 0,
					 "the plan is for other tables: it has no \"%.64s\"",
					 table->name);
		if (t->rows != table->rows || t->dim != table->dim)
			return plan_fail(&(struct checked){plan, t, err},
					 "%lld x %lld in the plan, %lld x %lld in the model",
					 (long long)t->rows, (long long)t->dim,
					 (long long)table->rows, (long long)table->dim);
	}
	if (plan->tables.n > tables->n)
		return plan_fail(&(struct checked){plan, &plan->tables.at[tables->n], err},
				 "the model has no such table");
	return 0;
}

void sc_tables_expand(const struct sc_table *tables, size_t n_tables, struct sc_arena *arena,
		      struct sc_table_list *out)
{
	size_t n = 0;

	for (size_t i = 0; i < n_tables; i++)
		n += tables[i].count > 1 ? (size_t)tables[i].count : 1;
	out->n = 0;
	out->at = sc_arena_calloc(arena, n, sizeof(*out->at));
	for (size_t i = 0; i < n_tables; i++) {
		for (int64_t k = 0; k < (tables[i].count > 1 ? tables[i].count : 1); k++) {
			struct sc_table *table = &out->at[out->n++];

			*table = tables[i];
			table->count = 1;
			if (table->storage)
				table->dtype = (enum sc_dtype)(table->storage - 1);
			if (tables[i].count > 1)
				table->name = sc_arena_printf(arena, "%s_%lld", tables[i].name,
							      (long long)k);
		}
	}
}

/* --- files --- */

void sc_plan_settle(const struct sc_plan_reader *reader, struct sc_shard_plan *plan, bool grows)
{
	struct sc_intern names = {.n_slots = 0};
	uint32_t *n_uses = sc_xcalloc(plan->tables.n + 1, sizeof(*n_uses));
	uint32_t *ids = sc_xcalloc(plan->tables.n + 1, sizeof(*ids));

	for (size_t i = 0; grows && i < plan->shards.n; i++)
		if ((uint32_t)plan->shards.at[i].rank >= plan->world)
			plan->world = (uint32_t)plan->shards.at[i].rank + 1;
	for (size_t i = 0; i < plan->tables.n; i++) {
		ids[i] = sc_intern_add(&names, plan->tables.at[i].name);
		n_uses[ids[i]]++;
	}
	for (size_t i = 0; i < plan->tables.n; i++) {
		struct sc_table_placement *t = &plan->tables.at[i];
		const char *path;

		if (!t->module)
			continue;
		path = sc_arena_printf(reader->arena, "%s.%s", t->module, t->name);
		if (n_uses[ids[i]] > 1 || sc_plan_table_find(reader, path) >= 0)
			t->name = path;
	}
	sc_intern_release(&names);
	free(n_uses);
	free(ids);
}

bool sc_plan_ranks_parse(char *text, int64_t end, sc_plan_ranks *out)
{
	char *save = NULL;

	out->n = 0;
	for (char *word = strtok_r(text, " ,", &save); word; word = strtok_r(NULL, " ,", &save)) {
		char *dash = strchr(word, '-');
		int64_t from, to;

		if (dash)
			*dash = '\0';
		if (!sc_parse_int(word, &from) || !sc_parse_int(dash ? dash + 1 : word, &to) ||
		    from < 0 || to < from || to >= end || (int64_t)out->n > end)
			return false;
		for (; from <= to; from++)
			SC_VEC_PUSH(out, (int32_t)from);
	}
	return out->n > 0;
}

int64_t sc_plan_table_find(const struct sc_plan_reader *reader, const char *name)
{
	uint32_t id = sc_intern_find(&reader->names, name);

	return id == SC_INTERN_NONE ? -1 : (int64_t)id;
}

/* Tables in the order of the reader's, others behind them: users of a plan and of its model's
 * tables go through both by index. Data-parallel tables that have no shards get theirs. */
static int order_tables(const struct sc_plan_reader *reader, struct sc_shard_plan *plan,
			struct sc_err *err)
{
	const size_t n_places = reader->tables->n + plan->tables.n;
	uint32_t *at = sc_arena_calloc(reader->arena, n_places + 1, sizeof(*at));
	struct sc_shard_plan ordered = {
		.world = plan->world, .ranks_per_host = plan->ranks_per_host, .file = plan->file};
	size_t n_bare = 0;

	for (size_t i = 0; i < plan->tables.n; i++) {
		const struct sc_table_placement *t = &plan->tables.at[i];
		const int64_t id = sc_plan_table_find(reader, t->name);
		const size_t place = id < 0 ? reader->tables->n + i : (size_t)id;

		if (at[place])
			return plan_fail(&(struct checked){plan, t, err},
					 "it is in the plan twice");
		at[place] = (uint32_t)i + 1;
		n_bare += t->type == SC_DATA_PARALLEL && t->n_shards == 0;
	}
	if (plan->world && n_bare > (SC_PLAN_MAX_SHARDS - plan->shards.n) / plan->world)
		return sc_err_at(err, SC_ELIMIT, plan->file, 0, 0, "more than %d shards",
				 SC_PLAN_MAX_SHARDS);
	for (size_t place = 0; place < n_places; place++) {
		const struct sc_table_placement *t;

		if (!at[place])
			continue;
		t = &plan->tables.at[at[place] - 1];
		sc_plan_add_table(&ordered, t);
		for (uint32_t s = 0; s < t->n_shards; s++)
			sc_plan_add_shard(&ordered, &plan->shards.at[t->first_shard + s]);
		if (t->type == SC_DATA_PARALLEL && t->n_shards == 0)
			sc_plan_add_replicas(&ordered);
	}
	sc_shard_plan_release(plan);
	*plan = ordered;
	return 0;
}

typedef int (*plan_reader)(const struct sc_plan_reader *, const struct sc_source *,
			   struct sc_shard_plan *, struct sc_err *);

/* Tells the format by what only that one has. The text ends with a NUL. */
static plan_reader reader_of(const struct sc_source *text)
{
	const char *at = text->text + strspn(text->text, " \t\r\n");

	if (strstr(at, "shard_matrix") || strstr(at, "('mp',") || *at == '[')
		return sc_shard_plan_read_hugectr;
	if (*at == '{')
		return sc_shard_plan_read_json;
	if (strstr(at, "Parameter Info:") || (strstr(at, "FQN") && strstr(at, "Sharding")))
		return sc_shard_plan_read_torchrec;
	if (strncmp(at, "table,", 6) == 0)
		return sc_shard_plan_read_csv;
	return NULL;
}

/* Two names that differ in bytes outside UTF-8 alone would be one name in every output. */
static int check_utf8(const struct sc_source *whole, struct sc_err *err)
{
	const char *at = whole->text, *line_start = whole->text;
	uint32_t line = 1;
	size_t length;

	for (; at < whole->text + whole->n; at += length) {
		length = sc_utf8_length(at);
		if (length == 0)
			return sc_err_at(err, SC_EFORMAT, whole->file, line,
					 (uint32_t)(at - line_start) + 1,
					 "byte 0x%02x is not UTF-8: save the plan as UTF-8",
					 (unsigned char)*at);
		if (*at == '\n') {
			line++;
			line_start = at + 1;
		}
	}
	return 0;
}

int sc_shard_plan_parse(const char *text, size_t n, const char *file,
			const struct sc_table_list *tables, struct sc_arena *arena,
			struct sc_shard_plan *out, struct sc_err *err)
{
	struct sc_source whole = {.text = sc_arena_strndup(arena, text, n), .n = n, .file = file};
	struct sc_plan_reader reader = {.tables = tables, .arena = arena};
	struct sc_shard_plan plan = {.file = sc_arena_strdup(arena, file)};
	plan_reader read = NULL;
	int rc;

	if (memchr(text, 0, n))
		return sc_err_at(err, SC_EFORMAT, file, 0, 0, "a NUL byte: not a sharding plan");
	rc = check_utf8(&whole, err);
	if (rc)
		return rc;
	read = reader_of(&whole);
	if (!read)
		return sc_err_at(
			err, SC_EFORMAT, file, 1, 1,
			"not a sharding plan: expected JSON, TorchRec's plan table, "
			"HugeCTR's shard matrix or a CSV with the columns table,kind,ranks");
	for (size_t i = 0; i < tables->n; i++)
		sc_intern_add(&reader.names, tables->at[i].name);
	rc = read(&reader, &whole, &plan, err);
	if (rc == 0)
		rc = order_tables(&reader, &plan, err);
	if (rc == 0)
		rc = sc_shard_plan_check(&plan, err);
	sc_intern_release(&reader.names);
	if (rc)
		sc_shard_plan_release(&plan);
	else
		*out = plan;
	return rc;
}

int sc_shard_plan_load(const char *path, const struct sc_table_list *tables, struct sc_arena *arena,
		       struct sc_shard_plan *out, struct sc_err *err)
{
	struct sc_source source;
	int rc = sc_file_read(path, SC_PLAN_MAX_BYTES, &source, err);

	if (rc == 0)
		rc = sc_shard_plan_parse(source.text, source.n, path, tables, arena, out, err);
	sc_source_release(&source);
	return rc;
}
