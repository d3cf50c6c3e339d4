/* Nsight Systems' exports: SQLite files of any bytes. */
#include "import_file.h"

static void check_output(const char *dir, int64_t n_events)
{
	DIR *list = opendir(dir);
	struct dirent *entry;
	struct sc_trace trace;
	char path[512];

	while (list && (entry = readdir(list)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%.200s", dir, entry->d_name);
		if (sc_trace_load(path, NULL, &trace, NULL) || trace.partial)
			abort();
		n_events -= (int64_t)trace.events.n;
		sc_trace_release(&trace);
	}
	if (list)
		closedir(list);
	if (n_events != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct sc_import_opts opts = {.rank = -1, .other_rank = -1};
	struct sc_import_stats stats = {.rank = -1};
	char dir[] = "/tmp/stepcast-fuzz-XXXXXX", in[64], out[64];
	FILE *file;

	if (!mkdtemp(dir))
		abort();
	snprintf(in, sizeof(in), "%s/a.sqlite", dir);
	snprintf(out, sizeof(out), "%s/out", dir);
	file = fopen(in, "wb");
	if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
		abort();
	if (sc_import_nsys.run(in, out, &opts, &stats, NULL) == 0)
		check_output(out, stats.n_events);
	import_remove(out);
	import_remove(dir);
	return 0;
}
