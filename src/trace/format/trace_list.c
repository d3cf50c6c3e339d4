/* The trace files of a run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/search.h"
#include "trace/format/frame_file.h"
#include "trace/format/trace_file.h"

struct listed {
	const char *path;
	int32_t rank;
};

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
static int compare_listed(const void *left, const void *right)
{
	const struct listed *a = left, *b = right;

	if ((uint32_t)a->rank != (uint32_t)b->rank)
		return (uint32_t)a->rank < (uint32_t)b->rank ? -1 : 1;
	return strcmp(a->path, b->path);
}

int sc_trace_list(const char *path, struct sc_arena *arena, const char *const **files, size_t *n,
		  struct sc_err *err)
{
	struct listed *found;
	const char **paths;
	struct stat st;
	int rc;

	if (stat(path, &st) != 0)
		return sc_err_at(err, SC_EIO, path, 0, 0, "cannot read: %s", strerror(errno));
	if (!S_ISDIR(st.st_mode)) {
		paths = sc_arena_calloc(arena, 1, sizeof(*paths));
		paths[0] = sc_arena_strdup(arena, path);
		*files = paths;
		*n = 1;
		return 0;
	}
	rc = sc_folder_list(path, "", SC_TRACE_SUFFIX, arena, files, n, err);
	if (rc == 0 && *n == 0)
		rc = sc_err_at(
			err, SC_EVALUE, path, 0, 0,
			"no trace here (*%s); stepcast import makes one of a profiler's files",
			SC_TRACE_SUFFIX);
	if (rc)
		return rc;
	found = sc_arena_calloc(arena, *n, sizeof(*found));
	paths = sc_arena_calloc(arena, *n, sizeof(*paths));
	for (size_t i = 0; i < *n && rc == 0; i++) {
		found[i].path = (*files)[i];
		rc = read_rank(found[i].path, &found[i].rank, err);
	}
	if (rc)
		return rc;
	SC_SORT(found, *n, compare_listed);
	for (size_t i = 0; i < *n; i++)
		paths[i] = found[i].path;
	*files = paths;
	return 0;
}
