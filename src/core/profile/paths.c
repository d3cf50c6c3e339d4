/* Finds config files by reference. Knows folders, not what is in the files. */
#include "core/profile/paths.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fields.h"
#include "base/file.h"
#include "base/search.h"
#include "base/vec.h"

#ifndef SC_SOURCE_CONFIGS
#define SC_SOURCE_CONFIGS NULL
#endif
#ifndef SC_INSTALL_CONFIGS
#define SC_INSTALL_CONFIGS NULL
#endif
#define SUFFIX ".yaml"

enum { MAX_REF = 1024, N_FOLDERS = 5 };

static bool is_readable(const char *path)
{
	return access(path, R_OK) == 0;
}

/* The installed configs, best first; entries may be NULL. */
static void installed_folders(const char *folders[N_FOLDERS], struct sc_arena *arena)
{
	const char *env = getenv("STEPCAST_CONFIGS");

	folders[0] = env && env[0] ? env : NULL;
	folders[1] = sc_beside_program("../share/stepcast/configs", arena);
	/* A library may lie in lib/ARCHITECTURE. */
	folders[2] = sc_beside_program("../../share/stepcast/configs", arena);
	folders[3] = SC_SOURCE_CONFIGS;
	folders[4] = SC_INSTALL_CONFIGS;
}

/* "configs/x.yaml" and "models/y.yaml" give "configs/models/y.yaml". */
static const char *path_beside(const char *from, const char *ref, struct sc_arena *arena)
{
	const char *slash = from ? strrchr(from, '/') : NULL;

	if (!slash)
		return sc_arena_strdup(arena, ref);
	return sc_arena_printf(arena, "%.*s/%s", (int)(slash - from), from, ref);
}

static const char *profile_find(const char *ref, const char *from, struct sc_arena *arena)
{
	const char *folders[N_FOLDERS], *path;

	if (ref[0] == '/')
		return is_readable(ref) ? sc_arena_strdup(arena, ref) : NULL;
	path = path_beside(from, ref, arena);
	if (is_readable(path))
		return path;
	installed_folders(folders, arena);
	for (size_t i = 0; i < N_FOLDERS; i++) {
		if (!folders[i])
			continue;
		path = sc_arena_printf(arena, "%s/%s", folders[i], ref);
		if (is_readable(path))
			return path;
	}
	return NULL;
}

/* "models/gpt-22b.yaml" for "gpt-22b": an id where a path is asked for. */
static const char *ref_of_id(const char *id, struct sc_arena *arena)
{
	static const char *const folders[] = {"models", "clusters"};
	const char *path;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		path = sc_arena_printf(arena, "%s/%s" SUFFIX, folders[i], id);
		if (profile_find(path, NULL, arena))
			return path;
	}
	return NULL;
}

/* "models/gpt-22b.yaml" for "models/gpt-22.yaml"; NULL if nothing installed is near. */
static const char *nearest_ref(const char *ref, struct sc_arena *arena)
{
	const char *slash = strrchr(ref, '/');
	const char *const *ids, *stem, *near;
	size_t n_stem, n_ids;

	if (!slash)
		return ref_of_id(ref, arena);
	n_stem = strlen(slash + 1);
	if (sc_ends_with(slash + 1, SUFFIX))
		n_stem -= strlen(SUFFIX);
	stem = sc_arena_strndup(arena, slash + 1, n_stem);
	n_ids = sc_config_ids(sc_arena_strndup(arena, ref, (size_t)(slash - ref)), arena, &ids);
	near = sc_nearest(stem, ids, n_ids);
	return near ? sc_arena_printf(arena, "%.*s/%s" SUFFIX, (int)(slash - ref), ref, near)
		    : NULL;
}

int sc_config_path(struct sc_config_ref ref, struct sc_arena *arena, const char **out,
		   struct sc_err *err)
{
	const char *path, *near;

	if (ref.typed && ref.at[0] && is_readable(ref.at)) {
		*out = sc_arena_strdup(arena, ref.at);
		return 0;
	}
	if (!ref.at[0] || strlen(ref.at) > MAX_REF)
		return sc_err_set(err, SC_EVALUE,
				  "expected the path of a config file, got \"%.64s\"", ref.at);
	path = profile_find(ref.at, ref.from, arena);
	if (path) {
		*out = path;
		return 0;
	}
	if (ref.at[0] == '/')
		return sc_err_set(err, SC_EIO, "cannot read %.160s", ref.at);
	if (ref.typed)
		return sc_err_set(err, SC_EIO,
				  "no file \"%.64s\"; looked in the working directory%s, in "
				  "$STEPCAST_CONFIGS and in the installed configs",
				  ref.at, ref.from ? ", beside the config" : "");
	near = nearest_ref(ref.at, arena);
	if (near)
		return sc_err_set(err, SC_EIO, "no file \"%.64s\"; did you mean \"%.64s\"?", ref.at,
				  near);
	return sc_err_set(err, SC_EIO,
			  "no file \"%.64s\"; looked beside %.64s, in $STEPCAST_CONFIGS and in the "
			  "installed configs",
			  ref.at, ref.from ? "the file that names it" : "here");
}

size_t sc_config_ids(const char *kind, struct sc_arena *arena, const char *const **out)
{
	const char *folders[N_FOLDERS];
	const char *const *files;
	SC_VEC(const char *) names = {0};
	const char **ids;
	size_t n = 0, n_files;

	installed_folders(folders, arena);
	for (size_t i = 0; i < N_FOLDERS; i++)
		if (folders[i] && sc_folder_list(sc_arena_printf(arena, "%s/%s", folders[i], kind),
						 "", SUFFIX, arena, &files, &n_files, NULL) == 0)
			for (size_t k = 0; k < n_files; k++) {
				const char *name = sc_file_name(files[k]);

				SC_VEC_PUSH(&names,
					    sc_arena_strndup(arena, name,
							     strlen(name) - strlen(SUFFIX)));
			}
	SC_SORT(names.at, names.n, sc_compare_texts);
	ids = sc_arena_calloc(arena, names.n, sizeof(*ids));
	for (size_t i = 0; i < names.n; i++)
		if (n == 0 || strcmp(ids[n - 1], names.at[i]) != 0)
			ids[n++] = names.at[i];
	SC_VEC_RELEASE(&names);
	*out = ids;
	return n;
}
