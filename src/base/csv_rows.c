#include "base/csv_rows.h"

#include <string.h>

int sc_csv_rows_init(const struct sc_csv *csv, const struct sc_field *fields, const char *who,
		     struct sc_arena *arena, struct sc_csv_rows *out, struct sc_err *err)
{
	size_t n = 0;

	while (fields[n].key)
		n++;
	*out = (struct sc_csv_rows){csv, fields, sc_arena_calloc(arena, n + 1, sizeof(int))};
	for (size_t i = 0; i < n; i++) {
		out->column[i] = sc_csv_column(csv, fields[i].key);
		if (out->column[i] < 0 && fields[i].required)
			return sc_err_at(err, SC_EFORMAT, csv->file, 1, 0,
					 "no column \"%s\"; %s needs it", fields[i].key, who);
	}
	return 0;
}

/* Where a cell begins in its line, 1-based; 0 where one before it is quoted, or holds a line's end. */
static unsigned cell_column(const struct sc_csv *csv, size_t row, size_t column)
{
	size_t at = 1;

	for (size_t i = 0; i < column; i++) {
		const char *cell = sc_csv_cell(csv, row, i);

		if (strpbrk(cell, "\",\r\n"))
			return 0;
		at += strlen(cell) + 1;
	}
	return (unsigned)at;
}

int sc_csv_cell_error(const struct sc_csv *csv, size_t row, const char *column,
		      const char *expected, struct sc_err *err)
{
	const int at = sc_csv_column(csv, column);

	return sc_err_at(err, SC_EVALUE, csv->file, csv->line[row],
			 at < 0 ? 0 : cell_column(csv, row, (size_t)at),
			 "%s: expected %s, got \"%.64s\"", column, expected,
			 at < 0 ? "" : sc_csv_cell(csv, row, (size_t)at));
}

static void set_absent(const struct sc_field *field, void *place)
{
	static const char *const empty = "";
	const int64_t integer = (int64_t)field->absent;
	const int name = (int)field->absent;

	if (field->type == SC_F_STR)
		memcpy(place, &empty, sizeof(empty));
	else if (field->type == SC_F_DOUBLE)
		memcpy(place, &field->absent, sizeof(field->absent));
	else if (field->type == SC_F_INT)
		memcpy(place, &integer, sizeof(integer));
	else if (field->type == SC_F_ENUM)
		memcpy(place, &name, sizeof(name));
}

int sc_csv_rows_get(const struct sc_csv_rows *rows, size_t row, void *out, struct sc_err *err)
{
	const struct sc_csv *csv = rows->csv;

	for (size_t i = 0; rows->fields[i].key; i++) {
		const struct sc_field *field = &rows->fields[i];
		const int column = rows->column[i];
		const char *text = column < 0 ? "" : sc_csv_cell(csv, row, (size_t)column);
		void *place = (char *)out + field->offset;
		struct sc_err why = {.code = SC_OK};

		if (*text == '\0' && !field->required) {
			set_absent(field, place);
		} else if (field->type == SC_F_STR) {
			memcpy(place, &text, sizeof(text));
		} else if (sc_field_set_text(
				   &(struct sc_field_place){.field = field, .path = field->key},
				   text, out, &why)) {
			return sc_err_at(err, why.code, csv->file, csv->line[row],
					 cell_column(csv, row, (size_t)column), "%s", why.text);
		}
	}
	return 0;
}
