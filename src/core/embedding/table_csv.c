/* Header cells are bound to fields once; a row is then one parse a cell, with the limits that the same keys
 * have in a config. */
#include "core/embedding/table_csv.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/intern.h"
#include "base/num.h"

struct row {
	struct sc_table table;
	double pooling_factor;
};

#define MAX_POOLING 1e6
#define MIN_POOLING 1e-9
#define MIN_ZIPF 1e-3
#define MAX_ZIPF 10
enum { MAX_FEATURES = 1000, MAX_COLUMNS = 16 };

static const struct sc_name dtype_names[] = {
	{"fp32", SC_FP32 + 1},
	{"fp16", SC_FP16 + 1},
	{"bf16", SC_BF16 + 1},
	{"fp8", SC_FP8 + 1},
	{0},
};
#define TABLE(member) offsetof(struct row, table.member)
static const struct sc_field fields[] = {
	{.key = "name", .type = SC_F_STR, .offset = TABLE(name)},
	{.key = "table", .type = SC_F_STR, .offset = TABLE(name)},
	{.key = "rows",
	 .type = SC_F_INT,
	 .offset = TABLE(rows),
	 .min = 1,
	 .max = SC_MAX_TABLE_ROWS},
	{.key = "dim", .type = SC_F_INT, .offset = TABLE(dim), .min = 1, .max = SC_MAX_TABLE_DIM},
	{.key = "pooling",
	 .type = SC_F_DOUBLE,
	 .offset = TABLE(pooling),
	 .min = MIN_POOLING,
	 .max = MAX_POOLING},
	{.key = "pooling_factor",
	 .type = SC_F_DOUBLE,
	 .offset = offsetof(struct row, pooling_factor),
	 .min = MIN_POOLING,
	 .max = MAX_POOLING},
	{.key = "count", .type = SC_F_INT, .offset = TABLE(count), .min = 1, .max = SC_MAX_TABLES},
	{.key = "features",
	 .type = SC_F_INT,
	 .offset = TABLE(features),
	 .min = 1,
	 .max = MAX_FEATURES},
	{.key = "storage", .type = SC_F_ENUM, .offset = TABLE(storage), .names = dtype_names},
	{.key = "dtype", .type = SC_F_ENUM, .offset = TABLE(storage), .names = dtype_names},
	{.key = "weighted", .type = SC_F_BOOL, .offset = TABLE(weighted)},
	{.key = "sequence", .type = SC_F_BOOL, .offset = TABLE(sequence)},
	{.key = "zipf",
	 .type = SC_F_DOUBLE,
	 .offset = TABLE(reuse.zipf),
	 .min = MIN_ZIPF,
	 .max = MAX_ZIPF},
	{.key = "notes", .type = SC_F_IGNORE},
	{.key = "source", .type = SC_F_IGNORE},
	{0},
};
/* One of each line has to be there; of all lines, at most one. */
static const char *const required[][2] = {
	{"name", "table"}, {"rows", NULL}, {"dim", NULL}, {"pooling", "pooling_factor"}};
static const char *const optional[][2] = {{"storage", "dtype"}};

struct reader {
	const struct sc_csv *csv;
	const struct sc_field *field[MAX_COLUMNS]; /* of each column */
	bool required[MAX_COLUMNS];
	struct sc_arena *arena;
	struct sc_err *err;
};

static int fail_row(const struct reader *r, size_t row, enum sc_errc code, const char *text)
{
	return sc_err_at(r->err, code, r->csv->file, r->csv->line[row], 0, "%s", text);
}

static const struct sc_field *find_field(const char *key)
{
	for (const struct sc_field *field = fields; field->key; field++)
		if (strcmp(field->key, key) == 0)
			return field;
	return NULL;
}

static int fail_header(const struct reader *r, size_t column)
{
	const char *keys[sizeof(fields) / sizeof(fields[0])], *nearest;
	const struct sc_csv *csv = r->csv;
	size_t n = 0;

	for (const struct sc_field *field = fields; field->key; field++)
		keys[n++] = field->key;
	nearest = sc_nearest(csv->header[column], keys, n);
	return sc_err_at(r->err, SC_EVALUE, csv->file, 1, sc_csv_header_column(csv, column),
			 "column \"%.64s\" is none of a list of tables%s%s%s", csv->header[column],
			 nearest ? "; did you mean \"" : "", nearest ? nearest : "",
			 nearest ? "\"?" : "");
}

static bool is_required(const char *key)
{
	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
		for (size_t k = 0; k < 2; k++)
			if (required[i][k] && strcmp(required[i][k], key) == 0)
				return true;
	return false;
}

static int check_twins(const struct reader *r, const char *const (*twins)[2], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *a = twins[i][0], *b = twins[i][1];

		if (b && sc_csv_column(r->csv, a) >= 0 && sc_csv_column(r->csv, b) >= 0)
			return sc_err_at(r->err, SC_ECONFLICT, r->csv->file, 1, 0,
					 "columns \"%s\" and \"%s\" say the same; remove one", a,
					 b);
	}
	return 0;
}

static int check_required(const struct reader *r)
{
	const size_t n = sizeof(required) / sizeof(required[0]);
	int rc = check_twins(r, required, n);

	for (size_t i = 0; i < n && rc == 0; i++) {
		const char *a = required[i][0], *b = required[i][1];

		if (sc_csv_column(r->csv, a) < 0 && (!b || sc_csv_column(r->csv, b) < 0))
			rc = sc_err_at(r->err, SC_EVALUE, r->csv->file, 1, 0,
				       "no column \"%s\"%s%s%s", a, b ? " (or \"" : "", b ? b : "",
				       b ? "\")" : "");
	}
	return rc;
}

static int bind(struct reader *r)
{
	const struct sc_csv *csv = r->csv;
	int rc;

	for (size_t i = 0; i < csv->n_cols; i++) {
		const struct sc_field *field = find_field(csv->header[i]);

		if (!field || i == MAX_COLUMNS)
			return fail_header(r, i);
		r->field[i] = field;
		r->required[i] = is_required(field->key);
	}
	rc = check_required(r);
	return rc ? rc : check_twins(r, optional, sizeof(optional) / sizeof(optional[0]));
}

static int read_cell(const struct reader *r, size_t row, size_t column, struct row *out)
{
	const struct sc_field *field = r->field[column];
	struct sc_field_place to = {.field = field, .arena = r->arena};
	const char *text = sc_csv_cell(r->csv, row, column);
	struct sc_err own = {.code = SC_OK};

	assert(field); /* bind found each column's */
	if (field->type == SC_F_IGNORE)
		return 0;
	if (text[0] == '\0') {
		if (!r->required[column])
			return 0;
		return fail_row(r, row, SC_EVALUE,
				sc_arena_printf(r->arena, "%s is empty", field->key));
	}
	to.path = field->key;
	if (sc_field_set_text(&to, text, out, &own) == 0)
		return 0;
	return fail_row(r, row, own.code, own.text);
}

static int read_row(const struct reader *r, size_t row, struct sc_table *out)
{
	struct row read = {.table = {.count = 1, .features = 1}};

	for (size_t i = 0; i < r->csv->n_cols; i++) {
		int rc = read_cell(r, row, i, &read);

		if (rc)
			return rc;
	}
	if (read.pooling_factor > 0)
		read.table.pooling = read.pooling_factor / (double)read.table.features;
	if (read.table.storage)
		read.table.dtype = (enum sc_dtype)(read.table.storage - 1);
	*out = read.table;
	return 0;
}

static int fail_name(const struct reader *r, size_t row, const char *name, size_t other)
{
	return sc_err_at(r->err, SC_ECONFLICT, r->csv->file, r->csv->line[row], 0,
			 "table \"%.64s\" is already on line %u", name, r->csv->line[other]);
}

/* Copies of a table are named name_0, name_1 ...: no other may have such a name. */
static int check_copies(const struct reader *r, const struct sc_intern *names,
			const struct sc_table_list *list, size_t row)
{
	const char *name = list->at[row].name, *bar;
	uint32_t base;
	int64_t number;

	assert(name); /* a column that is required */
	bar = strrchr(name, '_');
	if (!bar || (bar[1] == '0' && bar[2]) || strspn(bar + 1, "0123456789") != strlen(bar + 1) ||
	    !sc_parse_int(bar + 1, &number))
		return 0;
	base = sc_intern_find(names, sc_arena_strndup(r->arena, name, (size_t)(bar - name)));
	if (base == SC_INTERN_NONE || list->at[base].count < 2 || number >= list->at[base].count)
		return 0;
	return fail_name(r, row, name, base);
}

static int check_names(const struct reader *r, const struct sc_table_list *list)
{
	struct sc_intern names = {0};
	int rc = 0;

	/* Ids count up from 0, so that of a new name is its row. */
	for (size_t row = 0; row < list->n && rc == 0; row++) {
		uint32_t id = sc_intern_add(&names, list->at[row].name);

		if (id != row)
			rc = fail_name(r, row, list->at[row].name, id);
	}
	for (size_t row = 0; row < list->n && rc == 0; row++)
		rc = check_copies(r, &names, list, row);
	sc_intern_release(&names);
	return rc;
}

static int read_rows(const struct reader *r, struct sc_table_list *list)
{
	int64_t n_tables = 0;

	for (size_t row = 0; row < list->n; row++) {
		int rc = read_row(r, row, &list->at[row]);

		if (rc)
			return rc;
		n_tables += list->at[row].count;
		if (n_tables > SC_MAX_TABLES)
			return sc_err_at(r->err, SC_ELIMIT, r->csv->file, r->csv->line[row], 0,
					 "more than %d tables up to here; give fewer, or a smaller "
					 "count",
					 SC_MAX_TABLES);
	}
	return check_names(r, list);
}

int sc_tables_read_csv(const struct sc_csv *csv, struct sc_arena *arena, struct sc_table_list *out,
		       struct sc_err *err)
{
	struct reader reader = {.csv = csv, .arena = arena, .err = err};
	struct sc_table_list list = {.n = csv->n_rows};
	int rc = bind(&reader);

	if (rc)
		return rc;
	if (list.n == 0)
		return sc_err_at(err, SC_EVALUE, csv->file, 1, 0, "no tables below the header");
	list.at = sc_arena_calloc(arena, list.n, sizeof(*list.at));
	rc = read_rows(&reader, &list);
	if (rc == 0)
		*out = list;
	return rc;
}

int sc_tables_load_csv(const char *path, struct sc_arena *arena, struct sc_table_list *out,
		       struct sc_err *err)
{
	struct sc_csv csv;
	int rc = sc_csv_load(path, arena, &csv, err);

	return rc ? rc : sc_tables_read_csv(&csv, arena, out, err);
}
