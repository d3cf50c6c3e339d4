/* The trace files of a run. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "trace/format/frame_file.h"
#include "trace/format/trace_file.h"

struct listed {
	const char *path;
	int32_t rank;
};
typedef SC_VEC(struct listed) listed_vec;

/* Without the other tables: a run may have hundreds of files. */
static int read_rank(const char *path, int32_t *rank, struct sc_err *err)
{
	struct sc_trace_identity identity = {.rank = -1};
	struct sc_frame_file file;
	int rc = sc_frame_file_open(path, &file, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < file.frames.n; i++) {
		const struct sc_frame_header *frame = &file.frames.at[i];

		if (frame->type == SC_FRAME_IDENTITY && sc_frame_file_read(&file, frame))
			sc_frame_get_identity(file.coder, &file.header, file.payload, &identity);
	}
	*rank = identity.rank;
	sc_frame_file_close(&file);
	return 0;
}

/* By rank, those without one last; then by name. */
static int compare(const void *left, const void *right)
{
	const struct listed *a = left, *b = right;

	if ((uint32_t)a->rank != (uint32_t)b->rank)
		return (uint32_t)a->rank < (uint32_t)b->rank ? -1 : 1;
	return strcmp(a->path, b->path);
}

static int list_directory(const char *path, struct sc_arena *arena, listed_vec *out,
			  struct sc_err *err)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	size_t n = strlen(path);
	int rc = 0;

	if (!dir)
		return sc_err_at(err, SC_EIO, path, 0, 0, "cannot read: %s", strerror(errno));
	while (n > 1 && path[n - 1] == '/')
		n--;
	while (rc == 0 && (entry = readdir(dir))) {
		struct listed file;

		if (entry->d_name[0] == '.' || !sc_ends_with(entry->d_name, SC_TRACE_SUFFIX))
			continue;
		file.path = sc_arena_printf(arena, "%.*s/%s", (int)n, path, entry->d_name);
		rc = read_rank(file.path, &file.rank, err);
		SC_VEC_PUSH(out, file);
	}
	closedir(dir);
	if (rc == 0 && out->n == 0)
		rc = sc_err_at(
			err, SC_EVALUE, path, 0, 0,
			"no trace here (*%s); stepcast import makes one of a profiler's files",
			SC_TRACE_SUFFIX);
	if (rc == 0 && out->n)
		qsort(out->at, out->n, sizeof(*out->at), compare);
	return rc;
}

int sc_trace_list(const char *path, struct sc_arena *arena, const char *const **files, size_t *n,
		  struct sc_err *err)
{
	listed_vec found = {.n = 0};
	const char **paths;
	struct stat st;
	int rc = 0;

	if (stat(path, &st) != 0)
		return sc_err_at(err, SC_EIO, path, 0, 0, "cannot read: %s", strerror(errno));
	if (S_ISDIR(st.st_mode))
		rc = list_directory(path, arena, &found, err);
	else
		SC_VEC_PUSH(&found, ((struct listed){.path = sc_arena_strdup(arena, path)}));
	if (rc == 0) {
		paths = sc_arena_calloc(arena, found.n, sizeof(*paths));
		for (size_t i = 0; i < found.n; i++)
			paths[i] = found.at[i].path;
		*files = paths;
		*n = found.n;
	}
	SC_VEC_RELEASE(&found);
	return rc;
}
