/* HugeCTR's plan: shard_matrix lists the tables of each GPU, shard_strategy says which are model ("mp") and
 * which data parallel ("dp"). Read as its planner logs them, as a Python script assigns them, and as JSON.
 * A model-parallel table on several GPUs is split by rows. Tables are named, or numbered in the order of the
 * model's; sizes come from there. Without a strategy a table on every GPU is data parallel. */
#include <stdlib.h>
#include <string.h>

#include "core/embedding/shard_plan_priv.h"

enum side { UNKNOWN, MODEL_PARALLEL, BOTH_PARALLEL };
struct matrix_reader {
	const struct sc_plan_reader *common;
	const struct sc_plan_text *text;
	struct sc_shard_plan *plan;
	sc_literals literals;
	size_t matrix, strategy; /* index of their lists + 1; 0: none */
	SC_VEC(int32_t) * ranks; /* of each table of the model */
};

static int bad(const struct matrix_reader *r, const struct sc_literal *at, struct sc_err *err,
	       const char *what)
{
	return sc_err_at(err, SC_EVALUE, r->text->file, at->line, at->column, "%s", what);
}

static bool is_side(const struct sc_literal *literal)
{
	return literal->kind == SC_LIT_TEXT &&
	       (strcmp(literal->text, "mp") == 0 || strcmp(literal->text, "dp") == 0);
}

/* A list of lists; the strategy's begin with "mp" or "dp". */
static void take_list(struct matrix_reader *r, size_t at)
{
	const struct sc_literal *list = &r->literals.at[at], *first = list + 1;

	if (list->number == 0 || first->kind != SC_LIT_LIST)
		return;
	if (first->number && is_side(first + 1))
		r->strategy = at + 1;
	else if (!r->matrix)
		r->matrix = at + 1;
}

static int read_lists(struct matrix_reader *r, struct sc_err *err)
{
	const struct sc_plan_text *text = r->text;
	bool named = strstr(text->at, "shard_matrix") != NULL;
	size_t pos = 0;

	while (pos < text->n && (!r->matrix || !r->strategy)) {
		const char *from = text->at + pos, *next;
		size_t before = r->literals.n;
		int rc;

		if (named) {
			const char *m = strstr(from, "shard_matrix"),
				   *s = strstr(from, "shard_strategy");

			next = m && (!s || m < s) ? m : s;
			next = next ? strpbrk(next, "[(") : NULL;
		} else {
			next = strchr(from, '[');
		}
		if (!next)
			break;
		pos = (size_t)(next - text->at);
		rc = sc_literal_read(text, &pos, r->common->arena, &r->literals, err);
		if (rc)
			return rc;
		take_list(r, before);
	}
	if (!r->matrix)
		return sc_err_at(err, SC_EFORMAT, text->file, 0, 0,
				 "no shard matrix: expected a list of tables for each GPU");
	return 0;
}

static int find_table(const struct matrix_reader *r, const struct sc_literal *literal, int64_t *out,
		      struct sc_err *err)
{
	size_t n_tables = r->common->tables->n;

	if (!n_tables)
		return bad(r, literal, err,
			   "a shard matrix needs the model's tables for their sizes");
	if (literal->kind == SC_LIT_LIST)
		return bad(r, literal, err, "expected a table's name or number");
	*out = literal->kind == SC_LIT_INT ? literal->number
					   : sc_plan_table_find(r->common, literal->text);
	if (*out >= 0 && *out < (int64_t)n_tables)
		return 0;
	if (literal->kind == SC_LIT_TEXT)
		return sc_err_at(err, SC_ECONFLICT, r->text->file, literal->line, literal->column,
				 "the plan is for other tables: the model has no \"%.64s\"",
				 literal->text);
	return sc_err_at(err, SC_ECONFLICT, r->text->file, literal->line, literal->column,
			 "the plan is for other tables: table %lld, the model has %zu",
			 (long long)literal->number, n_tables);
}

static int add_rank(struct matrix_reader *r, const struct sc_literal *literal, int32_t rank,
		    struct sc_err *err)
{
	int64_t table = 0;
	int rc = find_table(r, literal, &table, err);

	if (rc)
		return rc;
	if (r->ranks[table].n && r->ranks[table].at[r->ranks[table].n - 1] == rank)
		return bad(r, literal, err, "the table is on this GPU twice");
	SC_VEC_PUSH(&r->ranks[table], rank);
	return 0;
}

static int read_matrix(struct matrix_reader *r, struct sc_err *err)
{
	const struct sc_literal *matrix = &r->literals.at[r->matrix - 1], *gpu = matrix + 1;

	if (matrix->number > SC_PLAN_MAX_WORLD)
		return bad(r, matrix, err, "too many GPUs");
	r->plan->world = (uint32_t)matrix->number;
	for (int32_t rank = 0; rank < (int32_t)matrix->number; rank++, gpu += 1 + gpu->n_below) {
		if (gpu->kind != SC_LIT_LIST)
			return bad(r, gpu, err, "expected the list of a GPU's tables");
		for (int64_t i = 0; i < gpu->number; i++) {
			int rc = add_rank(r, gpu + 1 + i, rank, err);

			if (rc)
				return rc;
		}
	}
	return 0;
}

static int read_strategy(struct matrix_reader *r, enum side *sides, struct sc_err *err)
{
	const struct sc_literal *strategy, *entry;

	if (!r->strategy)
		return 0;
	strategy = &r->literals.at[r->strategy - 1];
	entry = strategy + 1;
	for (int64_t k = 0; k < strategy->number; k++, entry += 1 + entry->n_below) {
		const struct sc_literal *list = entry + 2;

		if (entry->kind != SC_LIT_LIST || entry->number != 2 || !is_side(entry + 1) ||
		    list->kind != SC_LIT_LIST)
			return bad(r, entry, err,
				   "expected (\"mp\", [tables]) or (\"dp\", [tables])");
		for (int64_t i = 0; i < list->number; i++) {
			int64_t table = 0;
			int rc = find_table(r, list + 1 + i, &table, err);

			if (rc)
				return rc;
			sides[table] = strcmp((entry + 1)->text, "dp") == 0 ? BOTH_PARALLEL
									    : MODEL_PARALLEL;
		}
	}
	return 0;
}

static int add_table(struct matrix_reader *r, size_t table, enum side side, struct sc_err *err)
{
	const struct sc_table *from = &r->common->tables->at[table];
	size_t n = r->ranks[table].n;
	struct sc_table_placement t = {.name = from->name, .rows = from->rows, .dim = from->dim};

	if (n == 0)
		return sc_err_at(err, SC_ECONFLICT, r->text->file, 0, 0,
				 "table \"%.64s\" is on no GPU", from->name);
	if (side == BOTH_PARALLEL && n != r->plan->world)
		return sc_err_at(err, SC_ECONFLICT, r->text->file, 0, 0,
				 "table \"%.64s\": data parallel, but on %zu of %u GPUs",
				 from->name, n, r->plan->world);
	if (r->plan->shards.n + n > SC_PLAN_MAX_SHARDS)
		return sc_err_at(err, SC_ELIMIT, r->text->file, 0, 0, "too many shards");
	if (side == BOTH_PARALLEL || (side == UNKNOWN && n == r->plan->world && n > 1)) {
		t.type = SC_DATA_PARALLEL;
		sc_plan_add_table(r->plan, &t);
		sc_plan_add_replicas(r->plan);
		return 0;
	}
	t.type = n == 1 ? SC_TABLE_WISE : SC_ROW_WISE;
	sc_plan_add_table(r->plan, &t);
	sc_plan_add_rows(r->plan, r->ranks[table].at, n, 0, t.dim);
	return 0;
}

int sc_shard_plan_read_hugectr(const struct sc_plan_reader *reader, const struct sc_plan_text *text,
			       struct sc_shard_plan *out, struct sc_err *err)
{
	struct matrix_reader r = {.common = reader, .text = text, .plan = out};
	size_t n_tables = reader->tables->n;
	enum side *sides = sc_arena_calloc(reader->arena, n_tables + 1, sizeof(*sides));
	int rc;

	r.ranks = sc_arena_calloc(reader->arena, n_tables + 1, sizeof(*r.ranks));
	rc = read_lists(&r, err);
	if (rc == 0)
		rc = read_matrix(&r, err);
	if (rc == 0)
		rc = read_strategy(&r, sides, err);
	for (size_t i = 0; i < n_tables && rc == 0; i++)
		rc = add_table(&r, i, sides[i], err);
	for (size_t i = 0; i < n_tables; i++)
		SC_VEC_RELEASE(&r.ranks[i]);
	SC_VEC_RELEASE(&r.literals);
	return rc;
}
