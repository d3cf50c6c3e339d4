#include "report/html_cases.h"

#include <math.h>
#include <string.h>

#include "base/num.h"

enum { MAX_CELLS_A_SIDE = 24 };

/* The index of a text in the list, where it is put if it was not there. */
static size_t place_of(const char *text, const char **list, size_t *n)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp(list[i], text) == 0)
			return i;
	if (*n < MAX_CELLS_A_SIDE)
		list[*n] = text;
	return (*n)++;
}

/* What stands in each cell. */
struct cells {
	const char *rows[MAX_CELLS_A_SIDE], *columns[MAX_CELLS_A_SIDE];
	double values[MAX_CELLS_A_SIDE * MAX_CELLS_A_SIDE];
	const char *labels[MAX_CELLS_A_SIDE * MAX_CELLS_A_SIDE];
	size_t n_rows, n_columns;
};

/* Ascending, where all are numbers. */
static void sort_numbers(const char **list, size_t n)
{
	double a, b;

	for (size_t i = 1; i < n; i++)
		for (size_t k = i; k > 0; k--) {
			const char *text = list[k];

			if (!sc_parse_double(list[k - 1], &a) || !sc_parse_double(text, &b) ||
			    a <= b)
				break;
			list[k] = list[k - 1];
			list[k - 1] = text;
		}
}

static bool list_sides(const struct sc_cases_map *map, struct cells *out)
{
	const struct sc_csv *cases = map->cases;

	for (size_t i = 0; i < cases->n_rows; i++) {
		place_of(sc_csv_cell(cases, i, map->down), out->rows, &out->n_rows);
		place_of(sc_csv_cell(cases, i, map->across), out->columns, &out->n_columns);
		if (out->n_rows > MAX_CELLS_A_SIDE || out->n_columns > MAX_CELLS_A_SIDE)
			return false;
	}
	sort_numbers(out->rows, out->n_rows);
	sort_numbers(out->columns, out->n_columns);
	return out->n_rows > 1 && out->n_columns > 1;
}

static void fill(const struct sc_cases_map *map, struct cells *out)
{
	const struct sc_csv *cases = map->cases;

	for (size_t i = 0; i < out->n_rows * out->n_columns; i++) {
		out->values[i] = (double)NAN;
		out->labels[i] = "";
	}
	for (size_t i = 0; i < cases->n_rows; i++) {
		size_t r = place_of(sc_csv_cell(cases, i, map->down), out->rows, &out->n_rows);
		size_t c =
			place_of(sc_csv_cell(cases, i, map->across), out->columns, &out->n_columns);
		size_t at = r * out->n_columns + c;

		if (isnan(map->values[i]) || map->values[i] >= out->values[at])
			continue;
		out->values[at] = map->values[i];
		out->labels[at] = map->labels ? map->labels[i] : "";
	}
}

void sc_page_cases_map(struct sc_page *page, const char *heading, const struct sc_cases_map *map)
{
	struct cells cells = {.n_rows = 0};

	if (!list_sides(map, &cells))
		return;
	fill(map, &cells);
	sc_page_heading(page, heading);
	sc_page_text(page, "%s down, %s across; %s.", map->cases->header[map->down],
		     map->cases->header[map->across], map->unit);
	sc_chart_heat_map(page, &(struct sc_heat_map){.row_name = "",
						      .column_name = "",
						      .rows = cells.rows,
						      .columns = cells.columns,
						      .n_rows = cells.n_rows,
						      .n_columns = cells.n_columns,
						      .values = cells.values,
						      .label = map->labels ? cells.labels : NULL,
						      .unit = map->unit});
}
