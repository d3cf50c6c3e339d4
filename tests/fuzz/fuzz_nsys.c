/* Nsight Systems' exports: SQLite files of any bytes. */
#include "import_file.h"

/* Damage in the rows of one process leaves the traces of others whole: at least one says that it is
 * partial. */
static void check_output(const char *dir, const struct sc_import_stats *stats)
{
	DIR *list = opendir(dir);
	struct dirent *entry;
	struct sc_trace trace;
	char path[512];
	int64_t n_events = stats->n_events;
	size_t n_traces = 0, n_partial = 0;

	while (list && (entry = readdir(list)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%.200s", dir, entry->d_name);
		if (sc_trace_load(path, NULL, &trace, NULL))
			abort();
		n_traces++;
		n_partial += trace.partial;
		n_events -= (int64_t)trace.events.n;
		sc_trace_release(&trace);
	}
	if (list)
		closedir(list);
	if (n_events != 0 || (n_traces > 0 && (n_partial > 0) != (stats->truncated != NULL)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_import_stats stats = {.rank = -1};
	char dir[] = "/tmp/stepcast-fuzz-XXXXXX", in[64], out[64];
	const struct sc_import_opts opts = {.dir = out, .rank = -1, .other_rank = -1};
	FILE *file;

	if (!mkdtemp(dir))
		abort();
	snprintf(in, sizeof(in), "%s/a.sqlite", dir);
	snprintf(out, sizeof(out), "%s/out", dir);
	file = fopen(in, "wb");
	if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
		abort();
	if (sc_import_nsys.run(in, &opts, &stats, NULL) == 0)
		check_output(out, &stats);
	import_remove(out);
	import_remove(dir);
	return 0;
}
