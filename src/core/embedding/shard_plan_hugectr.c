/* HugeCTR's plan: shard_matrix lists the tables of each GPU, shard_strategy says which are model
 * ("mp") and which data parallel ("dp"). Read as its planner logs them, as a Python script assigns
 * them, and as JSON. A model-parallel table on several GPUs is split by rows. Tables are named, or
 * numbered in the order of the model's; sizes come from there. Without a strategy a table on every
 * GPU is data parallel. */
#include <string.h>

#include "base/num.h"
#include "base/py_list.h"
#include "core/embedding/shard_plan_priv.h"

enum side { UNKNOWN, MODEL_PARALLEL, BOTH_PARALLEL };
struct matrix_reader {
	const struct sc_plan_reader *common;
	const struct sc_source *text;
	struct sc_shard_plan *plan;
	const struct sc_yaml *matrix, *strategy; /* lists, or NULL */
	SC_VEC(int32_t) * ranks;                 /* of each table of the model */
};

static int matrix_fail(const struct matrix_reader *r, const struct sc_yaml *at, struct sc_err *err,
		       const char *what)
{
	return sc_err_at(err, SC_EVALUE, r->text->file, at->line, at->column, "%s", what);
}

static bool is_side(const struct sc_yaml *node)
{
	return node && node->kind == SC_YAML_SCALAR && node->quoted &&
	       (strcmp(node->text, "mp") == 0 || strcmp(node->text, "dp") == 0);
}

/* A list of lists; the strategy's begin with "mp" or "dp". */
static void take_list(struct matrix_reader *r, const struct sc_yaml *list)
{
	const struct sc_yaml *first = list->child;

	if (!first || first->kind != SC_YAML_SEQ)
		return;
	if (is_side(first->child))
		r->strategy = list;
	else if (!r->matrix)
		r->matrix = list;
}

static int read_lists(struct matrix_reader *r, struct sc_err *err)
{
	const struct sc_source *text = r->text;
	bool named = strstr(text->text, "shard_matrix") != NULL;
	size_t pos = 0;

	while (pos < text->n && (!r->matrix || !r->strategy)) {
		const char *from = text->text + pos, *next;
		struct sc_yaml *list = NULL;
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
		pos = (size_t)(next - text->text);
		rc = sc_py_read(text, &pos, r->common->arena, &list, err);
		if (rc)
			return rc;
		take_list(r, list);
	}
	if (!r->matrix)
		return sc_err_at(err, SC_EFORMAT, text->file, 0, 0,
				 "no shard matrix: expected a list of tables for each GPU");
	return 0;
}

static int find_table(const struct matrix_reader *r, const struct sc_yaml *node, int64_t *out,
		      struct sc_err *err)
{
	size_t n_tables = r->common->tables->n;

	if (!n_tables)
		return matrix_fail(r, node, err,
				   "a shard matrix needs the model's tables for their sizes");
	if (node->kind != SC_YAML_SCALAR || (!node->quoted && !sc_parse_int(node->text, out)))
		return matrix_fail(r, node, err, "expected a table's name or number");
	if (node->quoted)
		*out = sc_plan_table_find(r->common, node->text);
	if (*out >= 0 && *out < (int64_t)n_tables)
		return 0;
	if (node->quoted)
		return sc_err_at(err, SC_ECONFLICT, r->text->file, node->line, node->column,
				 "the plan is for other tables: the model has no \"%.64s\"",
				 node->text);
	return sc_err_at(err, SC_ECONFLICT, r->text->file, node->line, node->column,
			 "the plan is for other tables: table %lld, the model has %zu",
			 (long long)*out, n_tables);
}

static int add_rank(struct matrix_reader *r, const struct sc_yaml *node, int32_t rank,
		    struct sc_err *err)
{
	int64_t table = 0;
	int rc = find_table(r, node, &table, err);

	if (rc)
		return rc;
	if (r->ranks[table].n && r->ranks[table].at[r->ranks[table].n - 1] == rank)
		return matrix_fail(r, node, err, "the table is on this GPU twice");
	SC_VEC_PUSH(&r->ranks[table], rank);
	return 0;
}

static int read_matrix(struct matrix_reader *r, struct sc_err *err)
{
	int32_t rank = 0;

	if (r->matrix->n_children > SC_PLAN_MAX_WORLD)
		return matrix_fail(r, r->matrix, err, "too many GPUs");
	r->plan->world = (uint32_t)r->matrix->n_children;
	for (const struct sc_yaml *gpu = r->matrix->child; gpu; gpu = gpu->next, rank++) {
		if (gpu->kind != SC_YAML_SEQ)
			return matrix_fail(r, gpu, err, "expected the list of a GPU's tables");
		for (const struct sc_yaml *table = gpu->child; table; table = table->next) {
			int rc = add_rank(r, table, rank, err);

			if (rc)
				return rc;
		}
	}
	return 0;
}

static int read_strategy(struct matrix_reader *r, enum side *sides, struct sc_err *err)
{
	const struct sc_yaml *entry = r->strategy ? r->strategy->child : NULL;

	for (; entry; entry = entry->next) {
		const struct sc_yaml *list = entry->child ? entry->child->next : NULL;

		if (entry->kind != SC_YAML_SEQ || entry->n_children != 2 ||
		    !is_side(entry->child) || list->kind != SC_YAML_SEQ)
			return matrix_fail(r, entry, err,
					   "expected (\"mp\", [tables]) or (\"dp\", [tables])");
		for (const struct sc_yaml *node = list->child; node; node = node->next) {
			int64_t table = 0;
			int rc = find_table(r, node, &table, err);

			if (rc)
				return rc;
			sides[table] = strcmp(entry->child->text, "dp") == 0 ? BOTH_PARALLEL
									     : MODEL_PARALLEL;
		}
	}
	return 0;
}

static int add_table(struct matrix_reader *r, size_t table, enum side side, struct sc_err *err)
{
	const struct sc_table *from = &r->common->tables->at[table];
	size_t n = r->ranks[table].n;

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
		sc_plan_begin_table(r->plan, from, SC_DATA_PARALLEL);
		sc_plan_add_replicas(r->plan);
	} else {
		sc_plan_begin_table(r->plan, from, n == 1 ? SC_TABLE_WISE : SC_ROW_WISE);
		sc_plan_add_rows(r->plan, r->ranks[table].at, n, 0, from->dim);
	}
	return 0;
}

int sc_shard_plan_read_hugectr(const struct sc_plan_reader *reader, const struct sc_source *text,
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
	return rc;
}
