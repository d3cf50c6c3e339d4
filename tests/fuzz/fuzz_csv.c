/* sc_csv_parse on any bytes; what it accepts must keep its promises. */
#include "base/csv.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static void expect(int holds)
{
	if (!holds)
		abort();
}

static void check_table(const struct sc_csv *csv)
{
	size_t n_bytes = 0;

	expect(csv->n_cols > 0);
	for (size_t i = 0; i < csv->n_cols; i++)
		expect(sc_csv_column(csv, csv->header[i]) == (int)i);
	for (size_t row = 0; row < csv->n_rows; row++) {
		expect(csv->line[row] > (row ? csv->line[row - 1] : 1));
		for (size_t col = 0; col < csv->n_cols; col++)
			n_bytes += strlen(sc_csv_cell(csv, row, col));
	}
	expect(n_bytes <= SC_CSV_MAX_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_arena arena;
	struct sc_csv csv;

	sc_arena_init(&arena, 1024);
	if (sc_csv_parse(&(struct sc_source){(const char *)data, size, "fuzz.csv"}, &arena, &csv,
			 &err) == 0)
		check_table(&csv);
	else
		expect(err.code != SC_OK && err.text[0] && strcmp(err.file, "fuzz.csv") == 0);
	sc_arena_release(&arena);
	return 0;
}
