/* Our own form of a schedule: {"schema": "stepcast/schedule/1", "ranks": [["0F0", "0B0"], …]}, with comments. The
 * cells are those of the CSV. */
#include <string.h>

#include "base/json_cursor.h"
#include "predict/schedule/schedule_file_priv.h"

#define SCHEMA "stepcast/schedule/1"

static int read_cells(struct reader *r, struct sc_json_cursor *c)
{
	int rc = 0;

	while (rc == 0 && sc_json_cursor_next(c)) {
		const char *begin;

		if (sc_json_cursor_peek(c) != '"') {
			sc_json_cursor_fail(c, SC_EVALUE, "expected a cell in quotes, as \"0F0\"");
			break;
		}
		begin = c->at + 1;
		r->line = c->line;
		r->line_start = c->line_start;
		if (!sc_json_cursor_text(c, r->arena))
			break;
		if (c->at - 1 == begin)
			rc = FAIL(
				r, (unsigned)(begin - r->line_start) + 1,
				"an empty cell; expected a stage, a kind and a micro-batch, as 0F0");
		else
			rc = read_cell(r, begin, c->at - 1);
	}
	return rc;
}

static int read_ranks(struct reader *r, struct sc_json_cursor *c)
{
	unsigned column;
	int rc = 0;

	if (!sc_json_cursor_open(c, '['))
		return 0;
	while (rc == 0 && sc_json_cursor_next(c)) {
		sc_json_cursor_where(c, &r->line, &column);
		rc = begin_rank(r);
		if (rc || !sc_json_cursor_open(c, '['))
			break;
		rc = read_cells(r, c);
		r->n_ranks++;
	}
	return rc;
}

static void read_schema(struct reader *r, struct sc_json_cursor *c)
{
	struct sc_json_cursor at = *c;
	const char *schema = sc_json_cursor_text(c, r->arena);

	if (schema && strcmp(schema, SCHEMA) != 0) {
		*c = at;
		sc_json_cursor_fail(c, SC_EVALUE, "unknown schema \"%.32s\"; this reads \"%s\"",
				    schema, SCHEMA);
	}
}

/* Faults of the cursor are told by the caller. */
static int read_object(struct reader *r, struct sc_json_cursor *c)
{
	bool has_schema = false, has_ranks = false;
	const char *key;
	int rc = 0;

	sc_json_cursor_open(c, '{');
	while (rc == 0 && (key = sc_json_cursor_key(c, r->arena))) {
		bool is_schema = strcmp(key, "schema") == 0, is_ranks = strcmp(key, "ranks") == 0;

		if (!is_schema && !is_ranks)
			sc_json_cursor_fail(c, SC_EVALUE,
					    "unknown key \"%.32s\"; known keys: schema, ranks",
					    key);
		else if (is_schema ? has_schema : has_ranks)
			sc_json_cursor_fail(c, SC_EVALUE, "\"%s\" is given twice", key);
		else if (is_schema)
			read_schema(r, c);
		else
			rc = read_ranks(r, c);
		has_schema |= is_schema;
		has_ranks |= is_ranks;
	}
	if (rc == 0)
		sc_json_cursor_finish(c);
	if (rc == 0 && !sc_json_cursor_failed(c) && !(has_schema && has_ranks))
		sc_json_cursor_fail(c, SC_EVALUE, "\"%s\" is missing",
				    has_schema ? "ranks" : "schema");
	return rc;
}

int read_json(struct reader *r)
{
	struct sc_json_cursor c;
	int rc;

	sc_json_cursor_init(&c, r->source->text, r->source->n, r->source->file);
	c.comments = true;
	rc = read_object(r, &c);
	if (rc || !sc_json_cursor_failed(&c))
		return rc;
	return sc_err_at(r->err, c.err.code, c.err.file, c.err.line, c.err.column, "%s",
			 c.err.text);
}
