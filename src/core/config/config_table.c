/* Header cells are bound to fields once; a row is then a few number parses. */
#include "core/config/config_table.h"

#include <string.h>

/* Where a header cell begins in its line, if no cell before it is quoted. */
static unsigned header_column(const struct sc_csv *csv, size_t column)
{
	size_t at = 1;

	for (size_t i = 0; i < column; i++)
		at += strlen(csv->header[i]) + 1;
	return (unsigned)at;
}

static int unknown_header(const struct sc_csv *csv, size_t column, const char *nearest,
			  struct sc_err *err)
{
	unsigned at = header_column(csv, column);
	struct sc_err in_list = {.code = SC_OK};

	if (sc_field_in_list(sc_config_fields, csv->header[column], "", &in_list))
		return sc_err_at(err, in_list.code, csv->file, 1, at, "column \"%.64s\": %s",
				 csv->header[column], in_list.text);
	if (nearest)
		return sc_err_at(err, SC_EVALUE, csv->file, 1, at,
				 "column \"%.64s\" is no config key; did you mean \"%.64s\"?",
				 csv->header[column], nearest);
	return sc_err_at(err, SC_EVALUE, csv->file, 1, at,
			 "column \"%.64s\" is no config key; a column that is none has no dot",
			 csv->header[column]);
}

static int bind_column(struct sc_config_table *table, size_t column, struct sc_arena *arena,
		       struct sc_err *err)
{
	const struct sc_csv *csv = table->csv;
	const char *header = csv->header[column], *nearest = NULL;
	const struct sc_field *field;
	size_t base_offset = 0;

	if (!strchr(header, '.') && strcmp(header, "gpus") != 0)
		return 0;
	field = sc_field_find(sc_config_fields, header, &base_offset, arena, &nearest);
	if (!field)
		return unknown_header(csv, column, nearest, err);
	if (field->type == SC_F_IGNORE)
		return 0;
	table->columns[table->n_columns++] = (struct sc_config_column){
		.column = column, .field = field, .base_offset = base_offset};
	return 0;
}

static uint32_t add_file(struct sc_config_files *files, const char *key, const char *ref,
			 const char *base_file, struct sc_arena *arena)
{
	struct sc_config_file *file;

	for (size_t i = 0; i < files->n; i++)
		if (strcmp(files->at[i].ref, ref) == 0)
			return (uint32_t)i;
	file = &files->at[files->n];
	*file = (struct sc_config_file){.ref = ref};
	sc_config_init(&file->section);
	file->section.file = base_file;
	file->rc = sc_config_set(&file->section, key, ref, "", arena, &file->err);
	return (uint32_t)files->n++;
}

/* Reads each file once, however many rows name it. */
static void bind_files(struct sc_config_files *files, const struct sc_csv *csv, const char *key,
		       const char *base_file, struct sc_arena *arena)
{
	size_t n_given = 0;

	files->column = sc_csv_column(csv, key);
	if (files->column < 0)
		return;
	for (size_t row = 0; row < csv->n_rows; row++)
		n_given += sc_csv_cell(csv, row, (size_t)files->column)[0] != '\0';
	files->at = sc_arena_calloc(arena, n_given, sizeof(*files->at));
	files->of_row = sc_arena_calloc(arena, csv->n_rows, sizeof(*files->of_row));
	for (size_t row = 0; row < csv->n_rows; row++) {
		const char *ref = sc_csv_cell(csv, row, (size_t)files->column);

		files->of_row[row] =
			ref[0] ? add_file(files, key, ref, base_file, arena) : UINT32_MAX;
	}
}

int sc_config_table_bind(const struct sc_csv *csv, const char *base_file, struct sc_arena *arena,
			 struct sc_config_table *out, struct sc_err *err)
{
	struct sc_config_table table = {.csv = csv};

	table.columns = sc_arena_calloc(arena, csv->n_cols, sizeof(*table.columns));
	for (size_t i = 0; i < csv->n_cols; i++) {
		int rc = bind_column(&table, i, arena, err);

		if (rc)
			return rc;
	}
	bind_files(&table.model, csv, "model", base_file, arena);
	bind_files(&table.cluster, csv, "cluster", base_file, arena);
	*out = table;
	return 0;
}

struct row {
	const struct sc_csv *csv;
	size_t index;
	struct sc_config *config;
	struct sc_arena *arena;
	struct sc_err *err;
};

static void add_layer(const struct row *row, const struct sc_origin *at, size_t n)
{
	struct sc_origins *layer = sc_arena_alloc(row->arena, sizeof(*layer));

	*layer = (struct sc_origins){.at = at, .n = n, .older = row->config->origins};
	row->config->origins = layer;
}

static struct sc_origin row_origin(const struct row *row, const char *path)
{
	return (struct sc_origin){
		.path = path, .file = row->csv->file, .line = row->csv->line[row->index]};
}

/* Placed at the row; what is wrong in a file that the row names says where in its text. */
static int row_error(const struct row *row, const struct sc_err *own)
{
	const char *file = row->csv->file;
	unsigned line = row->csv->line[row->index];

	if (!own->file[0])
		return sc_err_at(row->err, own->code, file, line, 0, "%s", own->text);
	if (!own->line)
		return sc_err_at(row->err, own->code, file, line, 0, "%s: %s", own->file,
				 own->text);
	return sc_err_at(row->err, own->code, file, line, 0, "%s:%u:%u: %s", own->file, own->line,
			 own->column, own->text);
}

static int take_file(const struct row *row, const struct sc_config_files *files, const char *key)
{
	const struct sc_config_file *file;
	struct sc_origin *origin;

	if (files->column < 0 || files->of_row[row->index] == UINT32_MAX)
		return 0;
	file = &files->at[files->of_row[row->index]];
	if (file->rc)
		return row_error(row, &file->err);
	origin = sc_arena_alloc(row->arena, sizeof(*origin));
	*origin = row_origin(row, key);
	sc_config_take_section(row->config, key, &file->section);
	add_layer(row, origin, 1);
	add_layer(row, file->section.origins->at, file->section.origins->n);
	return 0;
}

static int set_values(const struct row *row, const struct sc_config_table *table)
{
	struct sc_origin *origins =
		sc_arena_alloc(row->arena, (table->n_columns + 1) * sizeof(*origins));
	size_t n = 0;

	origins[n++] = row_origin(row, ""); /* the row itself */
	for (size_t i = 0; i < table->n_columns; i++) {
		const struct sc_config_column *c = &table->columns[i];
		const char *path = row->csv->header[c->column];
		const char *text = sc_csv_cell(row->csv, row->index, c->column);
		struct sc_err own = {.code = SC_OK};

		if (!text[0])
			continue;
		if (sc_field_set_text(c->field, path, text, row->config, c->base_offset, row->arena,
				      &own))
			return row_error(row, &own);
		origins[n++] = row_origin(row, path);
	}
	add_layer(row, origins, n);
	return 0;
}

int sc_config_table_row(const struct sc_config_table *table, size_t row,
			const struct sc_config *base, struct sc_arena *arena, struct sc_config *out,
			struct sc_err *err)
{
	struct sc_config config = *base;
	struct row r = {
		.csv = table->csv, .index = row, .config = &config, .arena = arena, .err = err};
	int rc = take_file(&r, &table->model, "model");

	if (rc == 0)
		rc = take_file(&r, &table->cluster, "cluster");
	if (rc == 0)
		rc = set_values(&r, table);
	if (rc == 0)
		*out = config;
	return rc;
}
