/* The hash by which parts of a sweep, and processes that share one, are known to be of the same: of
 * values, and of the files that they and the profiles come from, which may change between parts. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/fnv.h"
#include "core/config/config_table.h"
#include "core/profile/paths.h"
#include "study/sweep/sweep.h"

enum { MOST_FILE_BYTES = 64 << 20 };

/* A file that cannot be read says nothing here: the rows that name it tell. */
static uint64_t hash_file(uint64_t hash, const char *path)
{
	struct sc_source file;

	if (sc_file_read(path, MOST_FILE_BYTES, &file, NULL) == 0)
		hash = sc_fnv(hash, file.text, file.n);
	sc_source_release(&file);
	return hash;
}

/* Hashes all profiles, one's own in the working directory among them: which of them rows come to
 * read is known only when they are resolved. */
static uint64_t hash_profiles(uint64_t hash, struct sc_arena *arena)
{
	static const char *const FOLDERS[] = {"devices", "software", "fabrics",
					      "reuse",   "models",   "."};
	const char *const *at, *path;
	size_t n;

	for (size_t f = 0; f < sizeof(FOLDERS) / sizeof(FOLDERS[0]); f++) {
		n = sc_config_ids(FOLDERS[f], arena, &at);
		for (size_t i = 0; i < n; i++) {
			path = sc_arena_printf(arena, "%s/%s.yaml", FOLDERS[f], at[i]);
			if (!sc_config_path((struct sc_config_ref){.at = path}, arena, &path, NULL))
				hash = hash_file(hash, path);
		}
		if (strcmp(FOLDERS[f], ".") != 0 &&
		    !sc_folder_list(FOLDERS[f], "", ".yaml", arena, &at, &n, NULL))
			for (size_t i = 0; i < n; i++)
				hash = hash_file(hash, at[i]);
	}
	if (!sc_config_path((struct sc_config_ref){.at = "likeness.csv"}, arena, &path, NULL))
		hash = hash_file(hash, path);
	return hash;
}

/* Keys whose values are files that are read when a row is resolved or predicted. */
#define NAMED(member) #member, offsetof(struct sc_config, member)
static const struct named {
	const char *path;
	size_t offset;
} FILES[] = {
	{NAMED(cluster.topology)},
	{"parallel.schedule", offsetof(struct sc_config, parallel.schedule_file)},
	{NAMED(sharding.plan)},
	{NAMED(cluster.algorithms.all_reduce)},
	{NAMED(cluster.algorithms.all_gather)},
	{NAMED(cluster.algorithms.reduce_scatter)},
	{NAMED(cluster.algorithms.all_to_all)},
};
enum { N_FILES = sizeof(FILES) / sizeof(FILES[0]) };

static uint64_t hash_named(uint64_t hash, const struct sc_config *config, const char *key,
			   const char *text, struct sc_arena *arena)
{
	const char *path;
	const int rc =
		sc_config_file_of(config, (struct sc_key_text){key, text}, arena, &path, NULL);

	return rc ? hash : hash_file(hash, path);
}

/* Hashes the values of a config, and the files that they name. */
static uint64_t hash_config(uint64_t hash, const struct sc_config *config, struct sc_arena *arena)
{
	hash = sc_fields_hash(hash, sc_config_fields, config);
	for (size_t i = 0; i < N_FILES; i++) {
		const char *text = *(const char *const *)((const char *)config + FILES[i].offset);

		if (text)
			hash = hash_named(hash, config, FILES[i].path, text, arena);
	}
	return hash;
}

/* Hashes the files that a column names, each value once. */
static uint64_t hash_column(uint64_t hash, const struct sc_sweep *sweep, const char *key,
			    struct sc_arena *arena)
{
	const int column = sc_csv_column(sweep->cases, key);
	struct sc_intern seen = {0};

	for (size_t i = 0; column >= 0 && i < sweep->cases->n_rows; i++) {
		const char *text = sc_csv_cell(sweep->cases, i, (size_t)column);
		const size_t n = sc_intern_count(&seen);

		if (sc_intern_add(&seen, text) == n)
			hash = hash_named(hash, sweep->base, key, text, arena);
	}
	sc_intern_release(&seen);
	return hash;
}

uint64_t sc_sweep_fingerprint(const struct sc_sweep *sweep)
{
	struct sc_config_table table = {.csv = sweep->cases, .base = sweep->base};
	static const struct sc_config_files none;
	const struct sc_config_files *files[] = {&table.model, &table.cluster};
	const struct sc_csv *cases = sweep->cases;
	uint64_t h = sc_fnv(SC_FNV_START, SC_VERSION, sizeof(SC_VERSION));
	struct sc_err err = {.code = SC_OK}; /* the run tells it */
	struct sc_arena arena;

	sc_arena_init(&arena, 0);
	h = hash_config(h, sweep->base, &arena);
	if (sc_config_table_bind(&table, &arena, &err))
		files[0] = files[1] = &none;
	for (size_t f = 0; f < 2; f++)
		for (size_t i = 0; i < files[f]->n; i++)
			if (files[f]->at[i].rc == 0)
				h = hash_config(h, &files[f]->at[i].section, &arena);
	for (size_t i = 0; i < N_FILES; i++)
		h = hash_column(h, sweep, FILES[i].path, &arena);
	h = hash_profiles(h, &arena);
	sc_arena_release(&arena);
	for (size_t i = 0; i < (cases->n_rows + 1) * cases->n_cols; i++) {
		const char *text = i < cases->n_cols ? cases->header[i]
						     : sc_csv_cell(cases, i / cases->n_cols - 1,
								   i % cases->n_cols);

		h = sc_fnv(h, text, strlen(text) + 1);
	}
	if (sweep->size)
		h = sc_fnv(h, &sweep->size->tokens,
			   2 * sizeof(double)); /* and samples behind them */
	for (size_t i = 0; sweep->size && i < sweep->size->n_prices; i++) {
		const struct sc_gpu_price *price = &sweep->size->prices[i];

		h = sc_fnv(h, price->gpu, price->gpu ? strlen(price->gpu) : 0);
		h = sc_fnv(h, &price->usd_per_hour, sizeof(price->usd_per_hour));
	}
	return sc_fnv(h, &sweep->opts->confidence_pct, sizeof(sweep->opts->confidence_pct));
}
