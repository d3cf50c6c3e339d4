/* Header cells are bound to fields once; a row is then a few number parses. */
#include "core/config/config_table.h"

#include <string.h>

static int bind_column(struct sc_config_table *table, size_t column, struct sc_arena *arena,
		       struct sc_err *err)
{
	const struct sc_csv *csv = table->csv;
	const char *header = csv->header[column];
	struct sc_err own = {.code = SC_OK};
	struct sc_field_place place;

	if (!strchr(header, '.') && strcmp(header, "gpus") != 0)
		return 0;
	place = sc_field_find(sc_config_fields, header, arena);
	if (!place.field && sc_field_unknown(sc_config_fields, &place, &own))
		return sc_err_at(err, own.code, csv->file, 1,
				 sc_csv_cell_column(csv, SIZE_MAX, column),
				 "a column with a dot is a key: %s", own.text);
	if (place.field->type == SC_F_IGNORE)
		return 0;
	table->columns[table->n_columns++] =
		(struct sc_config_column){.column = column, .place = place};
	return 0;
}

static const struct sc_config_file *find_file(const struct sc_config_files *files, const char *ref)
{
	for (size_t i = 0; i < files->n; i++)
		if (strcmp(files->at[i].ref, ref) == 0)
			return &files->at[i];
	return NULL;
}

/* Reads each file once, however many rows name it. */
static void bind_files(const struct sc_config_table *table, struct sc_config_files *files,
		       struct sc_arena *arena)
{
	const struct sc_csv *csv = table->csv;
	const int column = files->column = sc_csv_column(csv, files->key);
	const struct sc_csv_digit *digit =
		csv->codes && column >= 0 ? &csv->codes->column[column] : NULL;
	const size_t n = column < 0 ? 0 : digit ? digit->n : csv->n_rows;

	files->at = sc_arena_calloc(arena, n, sizeof(*files->at));
	for (size_t i = 0; i < n; i++) {
		const char *ref = digit ? digit->values[i] : sc_csv_cell(csv, i, (size_t)column);
		struct sc_config_file *file = &files->at[files->n];

		if (!ref[0] || find_file(files, ref))
			continue;
		*file = (struct sc_config_file){.ref = ref};
		sc_config_init(&file->section);
		file->section.file = table->base->file;
		file->rc = sc_config_set(&file->section, &(struct sc_setting){files->key, ref, ""},
					 arena, &file->err);
		files->n++;
	}
}

int sc_config_table_bind(struct sc_config_table *table, struct sc_arena *arena, struct sc_err *err)
{
	if (table->csv->n_rows == 0)
		return sc_err_at(err, SC_EFORMAT, table->csv->file, 1, 0,
				 "a header without rows: nothing to do");
	table->columns = sc_arena_calloc(arena, table->csv->n_cols, sizeof(*table->columns));
	for (size_t i = 0; i < table->csv->n_cols; i++) {
		int rc = bind_column(table, i, arena, err);

		if (rc)
			return rc;
	}
	table->model.key = "model";
	table->cluster.key = "cluster";
	bind_files(table, &table->model, arena);
	bind_files(table, &table->cluster, arena);
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
		.path = path, .file = row->csv->file, .line = sc_csv_line(row->csv, row->index)};
}

/* Placed at the row; what is wrong in a file that the row names says where in its text. */
static int row_error(const struct row *row, const struct sc_err *own)
{
	const char *file = row->csv->file;
	unsigned line = sc_csv_line(row->csv, row->index);

	if (!own->file[0])
		return sc_err_at(row->err, own->code, file, line, 0, "%s", own->text);
	if (!own->line)
		return sc_err_at(row->err, own->code, file, line, 0, "%s: %s", own->file,
				 own->text);
	return sc_err_at(row->err, own->code, file, line, 0, "%s:%u:%u: %s", own->file, own->line,
			 own->column, own->text);
}

static int take_file(const struct row *row, const struct sc_config_files *files)
{
	const struct sc_config_file *file;
	struct sc_origin *origin;
	const char *ref =
		files->column < 0 ? "" : sc_csv_cell(row->csv, row->index, (size_t)files->column);

	if (!ref[0])
		return 0;
	file = find_file(files, ref);
	if (file->rc)
		return row_error(row, &file->err);
	origin = sc_arena_alloc(row->arena, sizeof(*origin));
	*origin = row_origin(row, files->key);
	sc_config_take_section(row->config, files->key, &file->section);
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
		struct sc_field_place place = c->place;
		const char *text = sc_csv_cell(row->csv, row->index, c->column);
		struct sc_err own = {.code = SC_OK};

		if (!text[0])
			continue;
		place.arena = row->arena;
		if (sc_field_set_text(&place, text, row->config, &own))
			return row_error(row, &own);
		origins[n++] = row_origin(row, place.path);
	}
	add_layer(row, origins, n);
	return 0;
}

int sc_config_table_row(const struct sc_config_table *table, size_t row, struct sc_arena *arena,
			struct sc_config *out, struct sc_err *err)
{
	struct sc_config config = *table->base;
	struct row r = {
		.csv = table->csv, .index = row, .config = &config, .arena = arena, .err = err};
	int rc = take_file(&r, &table->model);

	if (rc == 0)
		rc = take_file(&r, &table->cluster);
	if (rc == 0)
		rc = set_values(&r, table);
	if (rc == 0)
		*out = config;
	return rc;
}
