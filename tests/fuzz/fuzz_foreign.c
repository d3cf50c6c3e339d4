/* sc_foreign_add on any bytes under the name of each format; what it takes must have a key and a
 * place on every line, and be a config or an error with a place. */
#include <stdlib.h>
#include <string.h>

#include "core/config/config.h"
#include "core/foreign/foreign.h"
#include "fuzz.h"

static void expect(int holds)
{
	if (!holds)
		abort();
}

static void check_lines(const struct sc_foreign_lines *lines, struct sc_arena *arena)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_config config;
	int rc;

	for (const struct sc_foreign_line *line = lines->first; line; line = line->next) {
		expect(line->path[0] && line->theirs && line->node->file && line->node->line > 0);
		for (const struct sc_foreign_line *next = line->next; next; next = next->next)
			expect(strcmp(line->path, next->path) != 0);
	}
	for (const struct sc_foreign_line *line = lines->ignored; line; line = line->next)
		expect(line->theirs && line->node->file);
	rc = sc_config_take(sc_foreign_tree(lines, "fuzz"), arena, &config, &err);
	expect(rc == 0 || (rc == -(int)err.code && err.text[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"f.sh", "f.yaml", "f.toml", "f.py", "f.csv"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct sc_source text = {(const char *)data, size, names[i]};
		struct sc_foreign_lines lines = {.gpus = (int64_t)(size % 3) * 8};
		struct sc_err err = {.code = SC_OK};
		struct sc_arena arena;
		int rc;

		sc_arena_init(&arena, 1024);
		lines.arena = &arena;
		rc = sc_foreign_add(&lines, &text, &err);
		if (rc == 0)
			rc = sc_foreign_finish(&lines, &err);
		if (rc == 0)
			check_lines(&lines, &arena);
		else
			expect(rc == -(int)err.code && err.text[0] && err.file[0]);
		sc_arena_release(&arena);
	}
	return 0;
}
