/* The folders of configs: beside the naming file first, then $STEPCAST_CONFIGS, the installation
 * that the program is part of, its source tree, and the prefix it was built for. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"

/* A path as it was written, and the file that names it (or NULL). */
struct sc_config_ref {
	const char *at, *from;
	bool typed; /* given on the command line: from the working directory first */
};
/* Full path of `ref` ("models/x.yaml"), named in file `from` (may be NULL). The error lists where
 * it looked, relative names only. */
int sc_config_path(struct sc_config_ref ref, struct sc_arena *arena, const char **out,
		   struct sc_err *err);
/* Ids (file stems, sorted) in the installed configs folder `kind` ("devices"); for hints. */
size_t sc_config_ids(const char *kind, struct sc_arena *arena, const char *const **out);
