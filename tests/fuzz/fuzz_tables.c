/* sc_tables_read_csv on any bytes; what it accepts must be within its limits. */
#include <stdlib.h>
#include <string.h>

#include "core/embedding/table_csv.h"
#include "fuzz.h"

static void expect(int holds)
{
	if (!holds)
		abort();
}

static void check_list(const struct sc_table_list *list)
{
	int64_t n = 0;

	expect(list->n > 0);
	for (size_t i = 0; i < list->n; i++) {
		const struct sc_table *table = &list->at[i];

		expect(table->name && table->name[0]);
		expect(table->rows >= 1 && (double)table->rows <= SC_MAX_TABLE_ROWS);
		expect(table->dim >= 1 && table->dim <= SC_MAX_TABLE_DIM);
		expect(table->pooling > 0 && table->pooling < 1e7);
		expect(table->features >= 1 && table->count >= 1);
		expect(table->storage >= 0 && table->storage <= SC_FP8 + 1);
		n += table->count;
	}
	expect(n <= SC_MAX_TABLES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_table_list list = {0};
	struct sc_arena arena;
	struct sc_csv csv;

	sc_arena_init(&arena, 1024);
	if (sc_csv_parse(&(struct sc_source){(const char *)data, size, "fuzz.csv"}, &arena, &csv,
			 &err) == 0) {
		if (sc_tables_read_csv(&csv, &arena, &list, &err) == 0)
			check_list(&list);
		else
			expect(err.code != SC_OK && err.text[0] && list.n == 0 && err.line > 0);
	}
	sc_arena_release(&arena);
	return 0;
}
