/* What DreamShard and NeuroShard (github.com/daochenzha) write. A result, as NeuroShard prints it:
 *   Sharding steps: [0, 3], shards: [[0, 2], [1], ...]
 * or as its evaluator is given it: TASK|0,3|0,1,0,... (the device of each table). A step halves the dim of
 * a table and appends a copy of it, the other half, to the list. Tables are numbered as the model's. And a
 * task: a line of table numbers, in NeuroShard with their dims, over a table_configs.json. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_cursor.h"
#include "base/num.h"
#include "core/embedding/shard_plan_priv.h"

enum { MAX_STEPS = 1 << 20, MAX_TASK_BYTES = 64 << 20, N_BINS = 17 };
typedef SC_VEC(int64_t) numbers;

/* A table or a part of one, as the steps made it. */
struct part {
	uint32_t table;
	int64_t col_offset, cols;
	int32_t rank;
};
struct task_reader {
	const struct sc_plan_reader *common;
	const struct sc_plan_text *text;
	SC_VEC(struct part) parts;
	numbers steps, devices; /* devices: of each part, -1 = none */
	unsigned line, column;
};

static int bad(const struct task_reader *r, struct sc_err *err, const char *what)
{
	return sc_err_at(err, SC_EVALUE, r->text->file, r->line, r->column, "%s", what);
}

static int halve(struct task_reader *r, struct sc_err *err)
{
	const struct sc_table_list *tables = r->common->tables;

	for (size_t i = 0; i < tables->n; i++)
		SC_VEC_PUSH(&r->parts, ((struct part){(uint32_t)i, 0, tables->at[i].dim, -1}));
	for (size_t i = 0; i < r->steps.n; i++) {
		int64_t step = r->steps.at[i];
		struct part *part, half;

		if (step < 0 || step >= (int64_t)r->parts.n)
			return bad(r, err, "a sharding step of a table that does not exist");
		part = &r->parts.at[step];
		if (part->cols % 2)
			return bad(r, err, "a sharding step halves an odd dim");
		part->cols /= 2;
		half = *part;
		half.col_offset += half.cols;
		SC_VEC_PUSH(&r->parts, half);
	}
	return 0;
}

static int by_table(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	return x->col_offset < y->col_offset ? -1 : x->col_offset > y->col_offset;
}

static int build(struct task_reader *r, struct sc_shard_plan *out, struct sc_err *err)
{
	const struct sc_table_list *tables = r->common->tables;

	for (size_t i = 0; i < r->parts.n; i++) {
		if (i >= r->devices.n || r->devices.at[i] < 0)
			return bad(r, err, "a table is on no device");
		r->parts.at[i].rank = (int32_t)r->devices.at[i];
	}
	if (r->devices.n > r->parts.n)
		return sc_err_at(err, SC_ECONFLICT, r->text->file, r->line, r->column,
				 "the plan is for other tables: it places %zu, the model and the "
				 "steps make %zu",
				 r->devices.n, r->parts.n);
	qsort(r->parts.at, r->parts.n, sizeof(*r->parts.at), by_table);
	for (size_t i = 0; i < r->parts.n; i++) {
		const struct part *p = &r->parts.at[i];
		const struct sc_table *from = &tables->at[p->table];
		struct sc_shard shard = {.rank = p->rank,
					 .rows = from->rows,
					 .col_offset = p->col_offset,
					 .cols = p->cols};

		if (i == 0 || r->parts.at[i - 1].table != p->table) {
			struct sc_table_placement t = {
				.name = from->name,
				.rows = from->rows,
				.dim = from->dim,
				.type = p->cols == from->dim ? SC_TABLE_WISE : SC_COLUMN_WISE,
				.line = r->line,
				.column = r->column,
			};

			sc_plan_add_table(out, &t);
		}
		sc_plan_add_shard(out, &shard);
	}
	return 0;
}

/* "0,3,1" up to something else; an empty text is no numbers. */
static bool read_numbers(const char **at, numbers *out)
{
	while (**at >= '0' && **at <= '9') {
		int64_t value = 0;

		for (; **at >= '0' && **at <= '9'; ++*at) {
			value = value * 10 + (**at - '0');
			if (value > SC_PLAN_MAX_TABLES)
				return false;
		}
		if (out->n >= MAX_STEPS)
			return false;
		SC_VEC_PUSH(out, value);
		if (**at != ',')
			return true;
		++*at;
	}
	return out->n == 0;
}

/* TASK|steps|devices */
static int read_bars(struct task_reader *r, const char *bar, struct sc_shard_plan *out,
		     struct sc_err *err)
{
	const char *at = bar + 1;

	if (!read_numbers(&at, &r->steps) || *at != '|')
		return bad(r, err, "expected TASK|steps|devices");
	at++;
	if (!read_numbers(&at, &r->devices) || !r->devices.n)
		return bad(r, err, "expected the device of each table, as 0,1,0");
	for (size_t i = 0; i < r->devices.n; i++) {
		if (r->devices.at[i] >= SC_PLAN_MAX_WORLD)
			return bad(r, err, "a device number that is too large");
		if ((uint32_t)r->devices.at[i] >= out->world)
			out->world = (uint32_t)r->devices.at[i] + 1;
	}
	return 0;
}

static int put_device(struct task_reader *r, int64_t part, int64_t device, struct sc_err *err)
{
	if (part < 0 || part >= SC_PLAN_MAX_TABLES)
		return bad(r, err, "a shard that does not exist");
	while (r->devices.n <= (size_t)part)
		SC_VEC_PUSH(&r->devices, -1);
	if (r->devices.at[part] >= 0)
		return bad(r, err, "a table is on two devices");
	r->devices.at[part] = device;
	return 0;
}

static int read_shards(struct task_reader *r, const sc_literals *lists, struct sc_shard_plan *out,
		       struct sc_err *err)
{
	const struct sc_literal *shards = &lists->at[0], *device = shards + 1;
	int rc = 0;

	out->world = (uint32_t)shards->number;
	for (int64_t i = 0; i < shards->number && rc == 0; i++, device += 1 + device->n_below) {
		if (device->kind != SC_LIT_LIST)
			return bad(r, err, "expected the list of a device's tables");
		for (int64_t k = 0; k < device->number && rc == 0; k++) {
			if (device[1 + k].kind != SC_LIT_INT)
				return bad(r, err, "expected table numbers");
			rc = put_device(r, device[1 + k].number, i, err);
		}
	}
	return rc;
}

static int read_printed(struct task_reader *r, const char *shards, struct sc_shard_plan *out,
			struct sc_err *err)
{
	const char *steps = strstr(r->text->at, "steps:");
	sc_literals lists = {0};
	size_t pos;
	int rc = 0;

	if (steps && steps < shards && (steps = strchr(steps, '[')) && steps < shards) {
		pos = (size_t)(steps - r->text->at);
		rc = sc_literal_read(r->text, &pos, r->common->arena, &lists, err);
		for (size_t i = 1; i < lists.n && rc == 0; i++) {
			if (lists.at[i].kind != SC_LIT_INT)
				rc = bad(r, err, "expected the numbers of tables that are halved");
			else
				SC_VEC_PUSH(&r->steps, lists.at[i].number);
		}
	}
	lists.n = 0;
	shards = strchr(shards, '[');
	if (rc == 0 && !shards)
		rc = bad(r, err, "expected shards: [[...], ...]");
	if (rc == 0) {
		pos = (size_t)(shards - r->text->at);
		rc = sc_literal_read(r->text, &pos, r->common->arena, &lists, err);
	}
	if (rc == 0)
		rc = read_shards(r, &lists, out, err);
	SC_VEC_RELEASE(&lists);
	return rc;
}

int sc_shard_plan_read_task(const struct sc_plan_reader *reader, const struct sc_plan_text *text,
			    struct sc_shard_plan *out, struct sc_err *err)
{
	struct task_reader r = {.common = reader, .text = text, .line = 1, .column = 1};
	const char *shards = strstr(text->at, "shards:"), *bar = strchr(text->at, '|');
	const char *from = shards ? shards : bar;
	int rc;

	sc_plan_where(text, (size_t)(from - text->at), &r.line, &r.column);
	if (shards && strstr(shards + 1, "shards:"))
		return bad(&r, err, "more than one plan: cut out the line of one task");
	if (!reader->tables->n)
		return bad(&r, err, "a task's plan needs the model's tables for their sizes");
	rc = shards ? read_printed(&r, shards, out, err) : read_bars(&r, bar, out, err);
	if (rc == 0)
		rc = halve(&r, err);
	if (rc == 0)
		rc = build(&r, out, err);
	SC_VEC_RELEASE(&r.parts);
	SC_VEC_RELEASE(&r.steps);
	SC_VEC_RELEASE(&r.devices);
	return rc;
}

/* --- tasks --- */

typedef SC_VEC(struct sc_table) table_vec;

/* One entry of table_configs.json; its keys: row, dim, pooling_factor, bin_0 ... bin_16 (of lookups). */
static bool read_config(struct sc_json_cursor *c, struct sc_arena *arena, table_vec *out)
{
	struct sc_table table = {.dim = 16, .count = 1, .features = 1, .pooling = 1};
	const char *key;

	if (!sc_json_cursor_open(c, '{'))
		return false;
	while ((key = sc_json_cursor_key(c, arena))) {
		if (strcmp(key, "row") == 0 || strcmp(key, "num_embeddings") == 0)
			table.rows = sc_json_cursor_int(c, 1, (int64_t)SC_MAX_TABLE_ROWS);
		else if (strcmp(key, "dim") == 0 || strcmp(key, "embedding_dim") == 0)
			table.dim = sc_json_cursor_int(c, 1, SC_MAX_TABLE_DIM);
		else if (strcmp(key, "pooling_factor") == 0)
			table.pooling = sc_json_cursor_real(c);
		else
			sc_json_cursor_skip(c);
	}
	if (sc_json_cursor_failed(c))
		return false;
	if (table.rows < 1)
		return sc_json_cursor_fail(c, SC_EVALUE, "a table needs a row count");
	if (table.pooling < 0 || table.pooling > 1e6)
		return sc_json_cursor_fail(c, SC_EVALUE, "a pooling_factor outside 0 to 1e6");
	if (out->n >= SC_PLAN_MAX_TABLES)
		return sc_json_cursor_fail(c, SC_ELIMIT, "too many tables");
	SC_VEC_PUSH(out, table);
	return true;
}

/* A list, or DreamShard's {"tables": [...]}. */
static void read_configs(struct sc_json_cursor *c, struct sc_arena *arena, table_vec *out)
{
	const char *key;

	if (sc_json_cursor_peek(c) == '{') {
		sc_json_cursor_open(c, '{');
		while ((key = sc_json_cursor_key(c, arena))) {
			if (strcmp(key, "tables") == 0 && sc_json_cursor_peek(c) == '[')
				read_configs(c, arena, out);
			else
				sc_json_cursor_skip(c);
		}
		return;
	}
	if (!sc_json_cursor_open(c, '['))
		return;
	while (sc_json_cursor_next(c) && read_config(c, arena, out))
		;
}

static int load_configs(const char *path, struct sc_arena *arena, table_vec *out,
			struct sc_err *err)
{
	struct sc_json_cursor c;
	char *text = NULL;
	size_t n;
	int rc = sc_file_read(path, MAX_TASK_BYTES, &text, &n, err);

	if (rc)
		return rc;
	sc_json_cursor_init(&c, text, n, path);
	read_configs(&c, arena, out);
	sc_json_cursor_finish(&c);
	if (!sc_json_cursor_failed(&c) && !out->n)
		sc_json_cursor_fail(&c, SC_EVALUE, "no tables in it");
	if (sc_json_cursor_failed(&c))
		rc = sc_err_at(err, c.err.code, c.err.file, c.err.line, c.err.column, "%s",
			       c.err.text);
	free(text);
	return rc;
}

/* Line `task`: table numbers, and perhaps their dims. */
static int pick(const struct sc_shard_task *task, const char *line, const table_vec *configs,
		struct sc_arena *arena, struct sc_table_list *out, struct sc_err *err)
{
	numbers ids = {0}, dims = {0};
	bool ok = read_numbers(&line, &ids) && ids.n;
	int rc = 0;

	line += strspn(line, " \t");
	ok = ok && read_numbers(&line, &dims) && (dims.n == 0 || dims.n == ids.n);
	line += strspn(line, " \t\r");
	if (!ok || (*line && *line != '\n'))
		rc = sc_err_at(err, SC_EFORMAT, task->tasks, (unsigned)task->task, 0,
			       "expected table numbers and perhaps as many dims, as 3,1 64,32");
	*out = (struct sc_table_list){.n = 0};
	if (rc == 0)
		out->at = sc_arena_calloc(arena, ids.n, sizeof(*out->at));
	for (size_t i = 0; i < ids.n && rc == 0; i++) {
		if (ids.at[i] >= (int64_t)configs->n) {
			rc = sc_err_at(err, SC_EVALUE, task->tasks, (unsigned)task->task, 0,
				       "table %lld, but there are %zu", (long long)ids.at[i],
				       configs->n);
		} else if (dims.n && (dims.at[i] < 1 || dims.at[i] > SC_MAX_TABLE_DIM)) {
			rc = sc_err_at(err, SC_EVALUE, task->tasks, (unsigned)task->task, 0,
				       "a dim of %lld", (long long)dims.at[i]);
		} else {
			out->at[i] = configs->at[ids.at[i]];
			out->at[i].name = sc_arena_printf(arena, "table_%zu", i);
			if (dims.n)
				out->at[i].dim = dims.at[i];
			out->n++;
		}
	}
	SC_VEC_RELEASE(&ids);
	SC_VEC_RELEASE(&dims);
	return rc;
}

int sc_shard_task_load(const struct sc_shard_task *task, struct sc_arena *arena,
		       struct sc_table_list *out, struct sc_err *err)
{
	table_vec configs = {0};
	const char *line;
	char *text = NULL;
	size_t n;
	int rc = load_configs(task->configs, arena, &configs, err);

	if (rc == 0)
		rc = sc_file_read(task->tasks, MAX_TASK_BYTES, &text, &n, err);
	line = text;
	for (size_t i = 1; rc == 0 && i < task->task && line; i++) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	if (rc == 0 && (!line || !*line))
		rc = sc_err_at(err, SC_EVALUE, task->tasks, 0, 0, "it has no line %zu", task->task);
	if (rc == 0)
		rc = pick(task, line, &configs, arena, out, err);
	SC_VEC_RELEASE(&configs);
	free(text);
	return rc;
}
