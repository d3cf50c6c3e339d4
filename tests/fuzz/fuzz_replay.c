/* Any trace that can be imported, replayed: as recorded, and every other one with changes. */
#include "import_file.h"
#include "trace/replay/replay.h"

enum { MAX_EVENTS = 2000 };

static void replay(const char *dir, bool changed)
{
	const struct sc_replay_change slower = {
		.action = SC_REPLAY_SCALE, .selector = {.text = "all"}, .factor = 2};
	struct sc_err err = {.code = SC_OK};
	struct sc_replay_result result;
	struct sc_replay_opts opts;

	sc_replay_opts_init(&opts);
	opts.no_what_if = !changed;
	opts.changes = &slower;
	opts.n_changes = changed;
	if (sc_replay(dir, &opts, &result, &err)) {
		if (err.code == SC_OK || !err.text[0])
			abort();
		return;
	}
	for (size_t i = 0; i < result.iterations.n; i++)
		if (!(result.iterations.at[i].simulated_ms >= 0))
			abort();
	sc_replay_result_release(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_import_stats stats;
	char in[64], out[64];
	struct sc_import_opts opts = {.dir = out, .rank = -1, .other_rank = -1};

	import_put(data, size, in, out);
	if (sc_import(in, &opts, &stats, NULL) == 0 && stats.n_events <= MAX_EVENTS)
		replay(out, size % 2 == 1);
	import_remove(out);
	unlink(in);
	return 0;
}
