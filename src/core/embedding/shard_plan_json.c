/* Our JSON, which mirrors TorchRec's ParameterSharding and ShardMetadata:
 *
 *   {"schema": "stepcast/shard-plan", "version": 1, "world_size": 8, "ranks_per_host": 8,
 *    "plan": {"model.ebc": {"t_0": {"sharding_type": "column_wise", "compute_kernel": "fused",
 *      "shape": [1000, 128], "ranks": [0, 3],
 *      "sharding_spec": [{"shard_offsets": [0, 0], "shard_sizes": [1000, 64],
 *                         "placement": "rank:0/cuda:0"}, ...]}}}}
 *
 * As in TorchRec a data-parallel parameter has no sharding_spec. `shape` is ours: it says what no
 * shard of such a parameter does. So is `hot_rows`: so many of the most frequent rows are on every
 * rank, too. Other keys are passed over. Names of parameters are those of tables. */
#include <string.h>

#include "base/json_cursor.h"
#include "base/num.h"
#include "core/embedding/shard_plan_priv.h"

#define SCHEMA "stepcast/shard-plan"
enum { VERSION = 1 };
#define NEEDS_RANKS "it needs ranks, or a placement of each shard"
#define MAX_ROWS INT64_C(1000000000000)
#define MAX_DIM INT64_C(1048576)

struct json_reader {
	const struct sc_plan_reader *common;
	struct sc_json_cursor cursor;
	struct sc_shard_plan *plan;
	SC_VEC(int32_t) ranks; /* of the parameter at hand */
	bool has_spec, has_world;
};

static bool fail_at(struct json_reader *r, const struct sc_table_placement *t, const char *what)
{
	sc_err_at(&r->cursor.err, SC_EVALUE, r->cursor.file, t->line, t->column,
		  "table \"%.64s\": %s", t->name, what);
	return false;
}

/* "rank:3/cuda:3"; the device is not looked at. */
static void read_placement(struct json_reader *r, struct sc_shard *shard)
{
	struct sc_json_cursor *c = &r->cursor, before = *c;
	const char *text = sc_json_cursor_text(c, r->common->arena);
	int64_t rank = -1;

	if (!text)
		return;
	if (strncmp(text, "rank:", 5) ||
	    !sc_parse_int(sc_arena_strndup(r->common->arena, text + 5, strcspn(text + 5, "/")),
			  &rank) ||
	    rank < 0 || rank >= SC_PLAN_MAX_WORLD) {
		*c = before;
		sc_json_cursor_fail(c, SC_EVALUE, "expected \"rank:R/cuda:D\", got \"%.40s\"",
				    text);
	}
	shard->rank = (int32_t)rank;
}

static void read_pair(struct sc_json_cursor *c, int64_t min, int64_t *rows, int64_t *cols)
{
	if (!sc_json_cursor_open(c, '['))
		return;
	for (int i = 0; i < 2; i++) {
		if (!sc_json_cursor_next(c)) {
			if (!sc_json_cursor_failed(c))
				sc_json_cursor_fail(c, SC_EVALUE, "expected [rows, columns]");
			return;
		}
		*(i ? cols : rows) = sc_json_cursor_int(c, i ? min : 0, i ? MAX_DIM : MAX_ROWS);
	}
	if (sc_json_cursor_next(c))
		sc_json_cursor_fail(c, SC_EVALUE, "expected [rows, columns] and no more");
}

static bool read_shard(struct json_reader *r)
{
	struct sc_json_cursor *c = &r->cursor;
	struct sc_shard shard = {.rank = -1, .row_offset = -1, .rows = -1};
	const char *key;
	unsigned line, column;

	sc_json_cursor_where(c, &line, &column);
	if (!sc_json_cursor_open(c, '{'))
		return false;
	while ((key = sc_json_cursor_key(c, r->common->arena)))
		if (strcmp(key, "shard_offsets") == 0)
			read_pair(c, 0, &shard.row_offset, &shard.col_offset);
		else if (strcmp(key, "shard_sizes") == 0)
			read_pair(c, 0, &shard.rows, &shard.cols);
		else if (strcmp(key, "placement") == 0)
			read_placement(r, &shard);
		else
			sc_json_cursor_skip(c);
	if (sc_json_cursor_failed(c))
		return false;
	if (shard.row_offset < 0 || shard.rows < 0) {
		sc_err_at(&c->err, SC_EVALUE, c->file, line, column,
			  "a shard needs shard_offsets and shard_sizes");
		return false;
	}
	if (r->plan->shards.n >= SC_PLAN_MAX_SHARDS)
		return sc_json_cursor_fail(c, SC_ELIMIT, "more than %d shards", SC_PLAN_MAX_SHARDS);
	sc_plan_add_shard(r->plan, &shard);
	return true;
}

static void read_shard_list(struct json_reader *r)
{
	struct sc_json_cursor *c = &r->cursor;

	if (r->has_spec) {
		sc_json_cursor_fail(c, SC_EVALUE, "sharding_spec is given twice");
		return;
	}
	r->has_spec = true;
	if (!sc_json_cursor_open(c, '['))
		return;
	while (sc_json_cursor_next(c) && read_shard(r))
		;
}

/* A list of shards, or TorchRec's EnumerableShardingSpec: {"shards": [...]}. */
static void read_spec(struct json_reader *r)
{
	struct sc_json_cursor *c = &r->cursor;
	const char *key;

	if (sc_json_cursor_peek(c) == '[') {
		read_shard_list(r);
		return;
	}
	if (!sc_json_cursor_open(c, '{'))
		return;
	while ((key = sc_json_cursor_key(c, r->common->arena)))
		if (strcmp(key, "shards") == 0)
			read_shard_list(r);
		else
			sc_json_cursor_skip(c);
}

static void read_ranks(struct json_reader *r)
{
	struct sc_json_cursor *c = &r->cursor;

	r->ranks.n = 0;
	if (!sc_json_cursor_open(c, '['))
		return;
	while (sc_json_cursor_next(c)) {
		int64_t rank = sc_json_cursor_int(c, 0, SC_PLAN_MAX_WORLD - 1);

		if (r->ranks.n >= SC_PLAN_MAX_SHARDS)
			sc_json_cursor_fail(c, SC_ELIMIT, "more than %d ranks", SC_PLAN_MAX_SHARDS);
		if (sc_json_cursor_failed(c))
			return;
		SC_VEC_PUSH(&r->ranks, (int32_t)rank);
	}
}

static int read_name(struct json_reader *r, const struct sc_name *names, const char *what)
{
	struct sc_json_cursor *c = &r->cursor, before = *c;
	const char *text = sc_json_cursor_text(c, r->common->arena);
	int value = 0;

	if (text && sc_enum_parse(names, text, &value, NULL)) {
		*c = before;
		sc_json_cursor_fail(c, SC_EVALUE, "unknown %s \"%.40s\"", what, text);
	}
	return value;
}

static void read_cache(struct json_reader *r, struct sc_table_placement *t)
{
	struct sc_json_cursor *c = &r->cursor;
	const char *key;

	if (!sc_json_cursor_open(c, '{'))
		return;
	while ((key = sc_json_cursor_key(c, r->common->arena))) {
		if (strcmp(key, "load_factor") == 0 && sc_json_cursor_peek(c) != 'n') {
			t->cache_frac = sc_json_cursor_real(c);
			if (!(t->cache_frac >= 0 && t->cache_frac <= 1))
				sc_json_cursor_fail(c, SC_EVALUE,
						    "load_factor must be from 0 to 1");
		} else {
			sc_json_cursor_skip(c);
		}
	}
}

/* Sets the shape where neither `shape` nor a list of tables says it: as far as the shards reach. */
static bool settle_shape(struct json_reader *r, struct sc_table_placement *t)
{
	int64_t known = sc_plan_table_find(r->common, t->name);

	if (t->rows == 0 && known >= 0) {
		t->rows = r->common->tables->at[known].rows;
		t->dim = r->common->tables->at[known].dim;
	}
	if (t->rows > 0)
		return true;
	for (uint32_t i = 0; i < t->n_shards; i++) {
		const struct sc_shard *s = &r->plan->shards.at[t->first_shard + i];

		if (s->row_offset + s->rows > t->rows)
			t->rows = s->row_offset + s->rows;
		if (s->col_offset + s->cols > t->dim)
			t->dim = s->col_offset + s->cols;
	}
	return t->rows > 0 || fail_at(r, t, "it needs a shape or a sharding_spec");
}

static bool settle_table(struct json_reader *r, bool has_type)
{
	struct sc_table_placement *t = &r->plan->tables.at[r->plan->tables.n - 1];
	struct sc_shard *shards = r->plan->shards.n ? &r->plan->shards.at[t->first_shard] : NULL;
	size_t n = t->n_shards;

	if (sc_json_cursor_failed(&r->cursor))
		return false;
	if (!has_type)
		return fail_at(r, t, "it needs a sharding_type");
	if (!settle_shape(r, t))
		return false;
	if (t->tier != SC_TIER_CACHED)
		t->cache_frac = 0;
	if (t->type == SC_DATA_PARALLEL && n == 0)
		return true; /* its shards are made when the number of ranks is known */
	if (r->ranks.n && r->ranks.n != n)
		return fail_at(r, t, "ranks and sharding_spec differ in length");
	if (n == 0 && !r->ranks.n)
		return fail_at(r, t, NEEDS_RANKS);
	for (size_t i = 0; i < n; i++) {
		if (!r->ranks.n && shards[i].rank < 0)
			return fail_at(r, t, NEEDS_RANKS);
		if (shards[i].rank < 0)
			shards[i].rank = r->ranks.at[i];
		else if (r->ranks.n && shards[i].rank != r->ranks.at[i])
			return fail_at(r, t, "ranks and placements differ");
	}
	return true;
}

static bool read_parameter(struct json_reader *r, const char *module, const char *name)
{
	struct sc_table_placement table = {.name = name, .module = module};
	bool has_type = false;
	const char *key;

	if (r->plan->tables.n >= SC_PLAN_MAX_TABLES)
		return sc_json_cursor_fail(&r->cursor, SC_ELIMIT, "more than %d tables",
					   SC_PLAN_MAX_TABLES);
	sc_json_cursor_where(&r->cursor, &table.line, &table.column);
	sc_plan_add_table(r->plan, &table);
	r->ranks.n = 0;
	r->has_spec = false;
	if (!sc_json_cursor_open(&r->cursor, '{'))
		return false;
	while ((key = sc_json_cursor_key(&r->cursor, r->common->arena))) {
		struct sc_table_placement *t = &r->plan->tables.at[r->plan->tables.n - 1];
		struct sc_json_cursor *c = &r->cursor;

		if (sc_json_cursor_peek(c) == 'n') {
			sc_json_cursor_skip(c);
		} else if (strcmp(key, "sharding_type") == 0) {
			t->type = (enum sc_shard_type)read_name(r, sc_shard_type_names,
								"sharding type");
			has_type = true;
		} else if (strcmp(key, "compute_kernel") == 0) {
			t->tier = (enum sc_tier)read_name(r, sc_tier_names, "compute kernel");
		} else if (strcmp(key, "hot_rows") == 0) {
			t->hot_rows = sc_json_cursor_int(c, 0, MAX_ROWS);
		} else if (strcmp(key, "shape") == 0) {
			read_pair(c, 1, &t->rows, &t->dim);
		} else if (strcmp(key, "ranks") == 0) {
			read_ranks(r);
		} else if (strcmp(key, "cache_params") == 0) {
			read_cache(r, t);
		} else if (strcmp(key, "sharding_spec") == 0) {
			read_spec(r);
		} else {
			sc_json_cursor_skip(c);
		}
	}
	return settle_table(r, has_type);
}

static void read_modules(struct json_reader *r)
{
	struct sc_json_cursor *c = &r->cursor;
	const char *module, *name;

	if (!sc_json_cursor_open(c, '{'))
		return;
	while ((module = sc_json_cursor_key(c, r->common->arena))) {
		if (!sc_json_cursor_open(c, '{'))
			return;
		while ((name = sc_json_cursor_key(c, r->common->arena)))
			if (!read_parameter(r, module, name))
				return;
	}
}

static void read_document(struct json_reader *r)
{
	struct sc_json_cursor *c = &r->cursor;
	const char *key;
	bool has_plan = false;

	if (!sc_json_cursor_open(c, '{'))
		return;
	while ((key = sc_json_cursor_key(c, r->common->arena))) {
		if (strcmp(key, "schema") == 0) {
			const char *schema = sc_json_cursor_text(c, r->common->arena);

			if (schema && strcmp(schema, SCHEMA) != 0)
				sc_json_cursor_fail(c, SC_EVALUE,
						    "expected the schema " SCHEMA ", got \"%.40s\"",
						    schema);
		} else if (strcmp(key, "version") == 0) {
			sc_json_cursor_int(c, VERSION, VERSION);
		} else if (strcmp(key, "world_size") == 0) {
			r->plan->world = (uint32_t)sc_json_cursor_int(c, 1, SC_PLAN_MAX_WORLD);
			r->has_world = true;
		} else if (strcmp(key, "ranks_per_host") == 0) {
			r->plan->ranks_per_host =
				(uint32_t)sc_json_cursor_int(c, 0, SC_PLAN_MAX_WORLD);
		} else if (strcmp(key, "plan") == 0) {
			has_plan = true;
			read_modules(r);
		} else {
			sc_json_cursor_skip(c);
		}
	}
	sc_json_cursor_finish(c);
	if (!has_plan)
		sc_json_cursor_fail(c, SC_EVALUE, "it has no \"plan\"");
}

int sc_shard_plan_read_json(const struct sc_plan_reader *reader, const struct sc_source *text,
			    struct sc_shard_plan *out, struct sc_err *err)
{
	struct json_reader r = {.common = reader, .plan = out};
	int rc = 0;

	sc_json_cursor_init(&r.cursor, text->text, text->n, text->file);
	read_document(&r);
	if (sc_json_cursor_failed(&r.cursor))
		rc = sc_err_at(err, r.cursor.err.code, r.cursor.err.file, r.cursor.err.line,
			       r.cursor.err.column, "%s", r.cursor.err.text);
	if (rc == 0)
		sc_plan_settle(reader, out, !r.has_world);
	if (rc == 0 && out->tables.n && !out->world)
		rc = sc_err_at(err, SC_EVALUE, text->file, 0, 0, "it needs world_size");
	SC_VEC_RELEASE(&r.ranks);
	return rc;
}
