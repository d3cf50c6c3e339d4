/* Whole files into memory, plain or gzip (by content), with a limit on what comes out; folders;
 * names of files; what lies beside the program. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"

/* A packed file gives at most so much, whatever max_bytes: a small one can hold any amount. */
enum { SC_FILE_MAX_UNPACKED = 32 << 20 };
/* A text, and the file it is of, for messages. */
struct sc_source {
	const char *text;
	size_t n;
	const char *file;
};
/* The bytes of a file and a NUL after them, to be released, also after a failure. More than
 * max_bytes, packed or unpacked, is SC_ELIMIT, found without reading on. A pipe that nobody writes
 * to is waited for. */
int sc_file_read(const char *path, size_t max_bytes, struct sc_source *out, struct sc_err *err);
static inline void sc_source_release(struct sc_source *source)
{
	free((char *)source->text);
}

/* Makes a folder, and those above it that are missing; one that is there is fine. */
int sc_make_folder(const char *path, struct sc_err *err);

/* The files of a folder with names that begin with `prefix`, not with a dot, and end in `suffix`:
 * "folder/name" each, sorted, in the arena. */
int sc_folder_list(const char *folder, const char *prefix, const char *suffix,
		   struct sc_arena *arena, const char *const **files, size_t *n,
		   struct sc_err *err);

/* The part after the last '/'. */
static inline const char *sc_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}
bool sc_begins_with(const char *text, const char *begin);
bool sc_ends_with(const char *text, const char *end);

/* The real path of `path`, which is relative to the folder of the program or library that this
 * function is part of, wherever that was moved to and through whatever link it was started; NULL if
 * nothing is there. */
const char *sc_beside_program(const char *path, struct sc_arena *arena);
