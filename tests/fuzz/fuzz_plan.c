/* sc_shard_plan_parse on any bytes, with and without tables; what it accepts must be a plan, and be
 * read back from what is written of it. */
#include <stdlib.h>
#include <string.h>

#include "core/embedding/shard_plan.h"
#include "fuzz.h"

/* Larger worlds are right, and slow. */
enum { MAX_SHARDS = 1 << 14 };

static void expect(int holds)
{
	if (!holds)
		abort();
}

static void check_plan(const struct sc_shard_plan *plan, struct sc_arena *arena)
{
	const struct sc_table_list none = {NULL, 0, 0};
	struct sc_err err = {.code = SC_OK};
	struct sc_shard_plan again;
	struct sc_strbuf text = {0};

	expect(sc_shard_plan_check(plan, &err) == 0);
	if (plan->shards.n > MAX_SHARDS)
		return;
	sc_shard_plan_print(plan, &text);
	expect(sc_shard_plan_parse(sc_strbuf_get(&text), text.n, "again", &none, arena, &again,
				   &err) == 0);
	expect(again.tables.n == plan->tables.n && again.shards.n == plan->shards.n &&
	       again.world == plan->world);
	sc_shard_plan_release(&again);
	sc_strbuf_release(&text);
}

static void try_tables(const uint8_t *data, size_t size, const struct sc_table_list *tables)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_shard_plan plan;
	struct sc_arena arena;

	sc_arena_init(&arena, 1024);
	if (sc_shard_plan_parse((const char *)data, size, "fuzz", tables, &arena, &plan, &err) ==
	    0) {
		check_plan(&plan, &arena);
		sc_shard_plan_release(&plan);
	} else {
		expect(err.code != SC_OK && err.text[0]);
	}
	sc_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_table tables[] = {
		{.name = "a", .rows = 100, .dim = 128, .count = 1},
		{.name = "b", .rows = 10, .dim = 64, .count = 1},
	};
	const struct sc_table_list list = {tables, 2, 8}, none = {NULL, 0, 0};

	try_tables(data, size, &none);
	try_tables(data, size, &list);
	return 0;
}
