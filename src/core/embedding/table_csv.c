/* Header cells are bound to fields once; a row is then one parse a cell, with the limits that the
 * same keys have in a config. */
#include "core/embedding/table_csv.h"

#include <stddef.h>
#include <string.h>

#include "base/csv_rows.h"

struct row {
	struct sc_table table;
	double pooling_factor;
	const char *feature_names;
};

#define MAX_POOLING 1e6
#define MIN_POOLING 1e-9
#define MIN_ZIPF 1e-3
#define MAX_ZIPF 10
enum { MAX_FEATURES = 1000 };

#define AT(member) offsetof(struct row, member)
#define COLUMN(name, kind, at, ...)                                             \
	{                                                                       \
		.key = name, .type = SC_F_##kind, .offset = AT(at), __VA_ARGS__ \
	}
#define PLAIN(name, kind, at) COLUMN(name, kind, at, .required = false)
#define COUNT(name, at, most) COLUMN(name, INT, at, .min = 1, .max = most)
#define REAL(name, at, least, most) COLUMN(name, DOUBLE, at, .min = least, .max = most)
static const struct sc_field fields[] = {
	PLAIN("name", STR, table.name),
	PLAIN("table", STR, table.name),
	COUNT("rows", table.rows, SC_MAX_TABLE_ROWS),
	COUNT("num_embeddings", table.rows, SC_MAX_TABLE_ROWS),
	COUNT("dim", table.dim, SC_MAX_TABLE_DIM),
	COUNT("embedding_dim", table.dim, SC_MAX_TABLE_DIM),
	REAL("pooling", table.pooling, MIN_POOLING, MAX_POOLING),
	REAL("pooling_factor", pooling_factor, MIN_POOLING, MAX_POOLING),
	COUNT("count", table.count, SC_MAX_TABLES),
	COUNT("features", table.features, MAX_FEATURES),
	COUNT("num_features", table.features, MAX_FEATURES),
	PLAIN("feature_names", STR, feature_names),
	COLUMN("storage", ENUM, table.storage, .names = sc_storage_names),
	COLUMN("dtype", ENUM, table.storage, .names = sc_storage_names),
	COLUMN("data_type", ENUM, table.storage, .names = sc_storage_names),
	PLAIN("weighted", BOOL, table.weighted),
	PLAIN("is_weighted", BOOL, table.weighted),
	PLAIN("sequence", BOOL, table.sequence),
	REAL("zipf", table.reuse.zipf, MIN_ZIPF, MAX_ZIPF),
	{.key = "notes", .type = SC_F_IGNORE},
	{.key = "source", .type = SC_F_IGNORE},
	{0},
};
/* At most one of each line may be there. */
static const char *const twins[][2] = {{"name", "table"},
				       {"pooling", "pooling_factor"},
				       {"rows", "num_embeddings"},
				       {"dim", "embedding_dim"},
				       {"storage", "dtype"},
				       {"storage", "data_type"},
				       {"dtype", "data_type"},
				       {"features", "num_features"},
				       {"features", "feature_names"},
				       {"weighted", "is_weighted"},
				       {"num_features", "feature_names"}};
enum { NAME, POOLING, ROWS, DIM };

struct reader {
	const struct sc_csv *csv;
	struct sc_csv_rows rows;
	struct sc_arena *arena;
	struct sc_err *err;
};

static int bind_columns(struct reader *r)
{
	int rc;

	r->rows = (struct sc_csv_rows){.csv = r->csv, .fields = fields, .list = "a list of tables"};
	rc = sc_csv_rows_bind(&r->rows, r->arena, r->err);
	for (size_t i = 0; i < sizeof(twins) / sizeof(twins[0]) && rc == 0; i++) {
		const char *a = twins[i][0], *b = twins[i][1];
		const int n = (sc_csv_column(r->csv, a) >= 0) + (sc_csv_column(r->csv, b) >= 0);

		if (n == 2)
			rc = sc_err_at(r->err, SC_ECONFLICT, r->csv->file, 1, 0,
				       "columns \"%s\" and \"%s\" say the same; remove one", a, b);
		else if (n == 0 && i <= DIM)
			rc = sc_err_at(r->err, SC_EVALUE, r->csv->file, 1, 0,
				       "no column \"%s\" (or \"%s\")", a, b);
	}
	return rc;
}

static int table_read_row(const struct reader *r, size_t row, struct sc_table *out)
{
	struct row read = {.table = {.count = 1, .features = 1}};
	int rc = sc_csv_rows_get(&r->rows, row, &read, r->err), empty = -1;

	if (rc)
		return rc;
	if (read.feature_names) {
		/* Apart by spaces, ';' or '|'. */
		int64_t n = 0;

		for (size_t at = strspn(read.feature_names, " ;|"); read.feature_names[at]; n++) {
			at += strcspn(read.feature_names + at, " ;|");
			at += strspn(read.feature_names + at, " ;|");
		}
		read.table.features = n > 0 ? n : 1;
	}
	/* Published lists count all features together, TorchRec each of them. */
	if (read.pooling_factor > 0 && read.table.features > 1 &&
	    sc_csv_column(r->csv, "num_embeddings") >= 0)
		return sc_err_at(
			r->err, SC_ECONFLICT, r->csv->file, r->csv->line[row], 0,
			"pooling_factor of %lld features: of each, or of all together? Name "
			"the column pooling, and give that of each",
			(long long)read.table.features);
	if (read.pooling_factor > 0)
		read.table.pooling = read.pooling_factor / (double)read.table.features;
	if (!read.table.name)
		empty = NAME;
	else if (!(read.table.pooling > 0))
		empty = POOLING;
	else if (read.table.rows == 0 || read.table.dim == 0)
		empty = read.table.rows ? DIM : ROWS;
	if (empty >= 0)
		return sc_err_at(r->err, SC_EVALUE, r->csv->file, r->csv->line[row], 0,
				 "%s is empty",
				 twins[empty][sc_csv_column(r->csv, twins[empty][0]) < 0]);
	if (read.table.storage)
		read.table.dtype = (enum sc_dtype)(read.table.storage - 1);
	*out = read.table;
	return 0;
}

int sc_tables_read_csv(const struct sc_csv *csv, struct sc_arena *arena, struct sc_table_list *out,
		       struct sc_err *err)
{
	struct reader reader = {.csv = csv, .arena = arena, .err = err};
	struct sc_table_list list = {.n = csv->n_rows};
	int64_t n_tables = 0;
	int rc = bind_columns(&reader);

	if (rc)
		return rc;
	if (list.n == 0)
		return sc_err_at(err, SC_EVALUE, csv->file, 1, 0, "no tables below the header");
	list.at = sc_arena_calloc(arena, list.n, sizeof(*list.at));
	for (size_t row = 0; row < list.n && rc == 0; row++) {
		rc = table_read_row(&reader, row, &list.at[row]);
		n_tables += list.at[row].count;
		if (rc == 0 && n_tables > SC_MAX_TABLES)
			rc = sc_err_at(err, SC_ELIMIT, csv->file, csv->line[row], 0,
				       "more than %d tables up to here; give fewer, or a smaller "
				       "count",
				       SC_MAX_TABLES);
	}
	if (rc == 0)
		*out = list;
	return rc;
}
