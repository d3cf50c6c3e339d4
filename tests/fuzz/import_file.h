/* Importers read files: the input becomes one, the output is thrown away. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "trace/import/import.h"

static inline void import_remove(const char *dir)
{
	DIR *list = opendir(dir);
	struct dirent *entry;
	char path[512];

	while (list && (entry = readdir(list)) != NULL) {
		snprintf(path, sizeof(path), "%s/%.200s", dir, entry->d_name);
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlink(path);
	}
	if (list)
		closedir(list);
	rmdir(dir);
}

/* What comes out must be readable, and the counts must add up. */
static inline void import_check(const char *dir, const struct sc_import_stats *stats)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_trace trace;
	struct dirent *entry;
	DIR *list = opendir(dir);
	char path[512];
	int n = 0;

	if (!list)
		abort();
	while ((entry = readdir(list)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%.200s", dir, entry->d_name);
		if (sc_trace_load(path, NULL, &trace, &err) ||
		    trace.partial != (stats->truncated != NULL) ||
		    (int64_t)trace.events.n != stats->n_events + stats->n_derived)
			abort();
		sc_trace_release(&trace);
		n++;
	}
	closedir(list);
	if (n != 1 || stats->n_events > stats->n_records)
		abort();
}

/* The input as a file; where it is, and where the output is to go. */
static inline void import_put(const uint8_t *data, size_t size, char in[64], char out[64])
{
	const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".";
	FILE *file;

	snprintf(in, 64, "%s/fuzz-import-%ld", tmp, (long)getpid());
	snprintf(out, 64, "%s/fuzz-import-%ld.out", tmp, (long)getpid());
	file = fopen(in, "wb");
	if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
		abort();
}

/* `mate` is the input too, if it is to be one. */
static inline void import_bytes(const struct sc_importer *importer, const uint8_t *data,
				size_t size, bool mate)
{
	struct sc_import_stats stats = {.rank = -1};
	struct sc_err err = {.code = SC_OK};
	char in[64], out[64];
	struct sc_import_opts opts = {.dir = out, .rank = -1, .other_rank = -1};

	import_put(data, size, in, out);
	opts.mate = mate ? in : NULL;
	if (importer->run(in, &opts, &stats, &err) == 0)
		import_check(out, &stats);
	else if (err.code == SC_OK || !err.text[0])
		abort();
	import_remove(out);
	unlink(in);
}
