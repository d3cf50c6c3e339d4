/* For the tests of importers: a file from text, imported into a folder of its own, and read back.
 */
#pragma once

#include <dirent.h>
#include <unistd.h>

#include "runner.h"
#include "trace/import/import.h"

struct fixture {
	char dir[64], out[80], path[128];
	struct sc_import_opts opts;
	struct sc_import_stats stats;
	struct sc_err err;
	struct sc_trace trace; /* after fixture_load */
};

static inline void fixture_open(struct fixture *f, const char *name, const void *text, size_t n)
{
	FILE *file;

	memset(f, 0, sizeof(*f));
	f->opts.rank = f->opts.other_rank = -1;
	snprintf(f->dir, sizeof(f->dir), "%s", "/tmp/stepcast-import-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(f->dir));
	snprintf(f->out, sizeof(f->out), "%s/out", f->dir);
	snprintf(f->path, sizeof(f->path), "%s/%s", f->dir, name);
	file = fopen(f->path, "wb");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(text, 1, n, file), n);
	ck_assert_int_eq(fclose(file), 0);
}

static inline int fixture_import(struct fixture *f)
{
	f->opts.dir = f->out;
	return sc_import(f->path, &f->opts, &f->stats, &f->err);
}

/* The number of files in the output; the name of one of them. */
static inline int fixture_list(const struct fixture *f, char *name, size_t n_name)
{
	DIR *dir = opendir(f->out);
	struct dirent *entry;
	int n = 0;

	while (dir && (entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(name, n_name, "%.200s", entry->d_name);
		n++;
	}
	if (dir)
		closedir(dir);
	return n;
}

static inline void fixture_load(struct fixture *f)
{
	char name[256], path[400];
	struct sc_err err = {.code = SC_OK};

	ck_assert_msg(fixture_import(f) == 0, "%s", f->err.text);
	ck_assert_int_eq(fixture_list(f, name, sizeof(name)), 1);
	snprintf(path, sizeof(path), "%s/%s", f->out, name);
	ck_assert_msg(sc_trace_load(path, NULL, &f->trace, &err) == 0, "%s", err.text);
}

/* Output is overwritten by the next import, so that one file is what there is. */
static inline void fixture_close(struct fixture *f)
{
	char name[256], path[400];

	if (f->trace.path)
		sc_trace_release(&f->trace);
	while (fixture_list(f, name, sizeof(name)) > 0) {
		snprintf(path, sizeof(path), "%s/%s", f->out, name);
		ck_assert_int_eq(unlink(path), 0);
	}
	rmdir(f->out);
	unlink(f->path);
	rmdir(f->dir);
}

static inline void fixture_text(struct fixture *f, const char *name, const char *text)
{
	fixture_open(f, name, text, strlen(text));
}

static inline const char *fixture_string(const struct fixture *f, uint32_t id)
{
	ck_assert_uint_lt(id, f->trace.strings.n);
	return f->trace.strings.at[id];
}

/* The first event of that name. */
static inline const struct sc_trace_event *fixture_event(const struct fixture *f, const char *name)
{
	for (size_t i = 0; i < f->trace.events.n; i++) {
		if (strcmp(fixture_string(f, f->trace.events.at[i].name), name) == 0)
			return &f->trace.events.at[i];
	}
	ck_abort_msg("no event called %s", name);
	return NULL;
}

static inline int64_t fixture_bad(const struct fixture *f, const char *reason)
{
	for (size_t i = 0; i < f->stats.n_reasons; i++) {
		if (strcmp(f->stats.bad[i].reason, reason) == 0)
			return f->stats.bad[i].n;
	}
	return 0;
}
