/* sc_schedule_file_parse on any bytes: what it accepts has every pass, and runs to its end. */
#include <stdlib.h>

#include "fuzz.h"
#include "predict/schedule/schedule_file.h"
#include "study/schedule/schedule_play.h"

enum { MAX_PASSES = 1 << 16 };

static void expect(int holds)
{
	if (!holds)
		abort();
}

static void check_schedule(const struct sc_schedule_file *file, struct sc_arena *arena)
{
	struct sc_pass_times *times = sc_arena_calloc(arena, file->map.pp, sizeof(*times));
	struct sc_schedule_play play;
	uint64_t n = 0;

	for (uint32_t s = 0; s < file->map.pp; s++)
		n += file->passes.n[s];
	for (uint32_t s = 0; s < file->map.pp; s++)
		times[s] = (struct sc_pass_times){1, 1, 1, 0, 1};
	expect(n >= 2 * (uint64_t)file->map.depth * file->passes.micro_batches);
	for (uint32_t v = 0; v < file->map.depth; v++)
		expect(sc_virtual_stage(&file->map, file->map.place[v].stage,
					file->map.place[v].chunk) == v);
	if (n > MAX_PASSES)
		return;
	sc_schedule_play(&file->passes, times, arena, &play);
	expect(play.makespan > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_schedule_file file;
	struct sc_arena arena;

	sc_arena_init(&arena, 1024);
	if (sc_schedule_file_parse(&(struct sc_source){(const char *)data, size, "fuzz.csv"},
				   &arena, &file, &err) == 0)
		check_schedule(&file, &arena);
	else
		expect(err.code != SC_OK && err.text[0] != '\0');
	sc_arena_release(&arena);
	return 0;
}
