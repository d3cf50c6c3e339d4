/* Neighbours of a config: any key of a request, with another value that its type allows, as a user
 * would write it. Many are refused, and some have no effect. */
#pragma once

#include <inttypes.h>

#include "core/config/config_schedule.h"
#include "core/profile/paths.h"
#include "random_config.h"

enum { MAX_KEYS = 640, KEY_TEXT = 96 };

struct key {
	const char *path;
	const struct sc_field *field; /* NULL: a file that is a whole section */
	size_t offset;                /* in struct sc_config, or another that a table is of */
	unsigned needs;               /* without what it has no effect, as sc_field has it */
};
struct keys {
	struct key at[MAX_KEYS];
	size_t n;
};

/* Finds the keys of a table, or below a section, which is "" for all. Lists of mappings cannot be
 * set as texts, and free texts say nothing. */
static inline void find_keys(const struct sc_field *field, struct key section, struct keys *out)
{
	for (; field->key; field++) {
		const struct key key = {
			*section.path ? sc_arena_printf(&arena, "%s.%s", section.path, field->key)
				      : field->key,
			field, section.offset + field->offset, section.needs | field->needs};

		if (field->may_be_file)
			out->at[out->n++] = (struct key){.path = key.path};
		if (field->type == SC_F_STRUCT)
			find_keys(field->sub, key, out);
		else if (field->type != SC_F_STRUCTS && field->type != SC_F_IGNORE &&
			 (*section.path || field->type != SC_F_STR))
			out->at[out->n++] = key;
		ck_assert_uint_lt(out->n, MAX_KEYS - 1);
	}
}

/* Says whether a key is likely to have an effect on a resolved config. */
static inline bool may_matter(const struct key *key, const struct sc_config *now)
{
	const bool is_dlrm = now->model.family == SC_DLRM;

	if (key->needs & (is_dlrm ? SC_NEEDS_TRANSFORMER : SC_NEEDS_DLRM))
		return false;
	if (strncmp(key->path, "cluster.torus", 13) == 0)
		return now->cluster.torus.dims.n > 0;
	if (key->field && strncmp(key->path, "model.", 6) == 0)
		return !sc_field_is_absent(key->field, (const char *)now + key->offset);
	return key->field || !is_dlrm;
}

/* A name of a folder of configs. */
static inline const char *random_id(struct sc_rng *rng, const char *folder)
{
	const char *const *ids;
	const size_t n = sc_config_ids(folder, &arena, &ids);

	return ids[sc_rng_below(rng, n)];
}

static inline const char *random_name(struct sc_rng *rng, const struct sc_name *names)
{
	size_t n = 0;

	while (names[n].name)
		n++;
	return names[sc_rng_below(rng, n)].name;
}

static inline const char *random_policy(struct sc_rng *rng)
{
	static const char *const POLICIES[] = {"serial",
					       "plain",
					       "comm_first",
					       "reserve",
					       "reserve:8",
					       "reserve:20",
					       "copy_engine",
					       "chunked",
					       "chunked:2",
					       "comm_first_reserve:12",
					       "copy_engine:4",
					       "tile_fused",
					       "copy_engine_relief"};

	return PICK(rng, POLICIES);
}

static inline const char *random_text(struct sc_rng *rng, const char *path)
{
	static const char *const ORDERS[] = {"tp-cp-ep-dp-pp", "tp-pp-dp",       "pp-tp-dp",
					     "dp-tp-pp",       "tp-ep-cp-pp-dp", "cp-tp-dp"};
	static const char *const FABRICS[] = {"infiniband", "ethernet", "efa", "omni-path",
					      "slingshot"};
	static const char *const ALGORITHMS[] = {"ring",    "tree",       "nvls",
						 "collnet", "symmetric",  "hierarchical",
						 "pat",     "copy_engine"};
	static const char *const VERSIONS[] = {"0.9", "0.12", "24.03", "25.09", "26.06", "2.1"};
	static const char *const PATTERNS[] = {"attn", "full_attn", "mlp",
					       "moe",  "lightning", "(3*attn,1*full_attn)"};
	static const struct {
		const char *path, *folder;
	} FOLDERS[] = {{"cluster.gpu", "devices"}, {"training.software", "software"}};

	for (int i = 0; i < N_OF(FOLDERS); i++)
		if (strcmp(path, FOLDERS[i].path) == 0)
			return random_id(rng, FOLDERS[i].folder);
	if (strncmp(path, "c3.policy", 9) == 0)
		return random_policy(rng);
	if (strncmp(path, "cluster.algorithms", 18) == 0)
		return PICK(rng, ALGORITHMS);
	if (strcmp(path, "cluster.fabric") == 0)
		return sc_rng_below(rng, 2) ? PICK(rng, FABRICS) : random_id(rng, "fabrics");
	if (strcmp(path, "parallel.order") == 0)
		return PICK(rng, ORDERS);
	if (strcmp(path, "training.software_version") == 0)
		return PICK(rng, VERSIONS);
	if (strcmp(path, "model.layers_pattern") == 0)
		return sc_arena_printf(&arena, "%s*%d", PICK(rng, PATTERNS),
				       1 + (int)sc_rng_below(rng, 32));
	return NULL;
}

/* Layers of each stage, of which one gives some to another. */
static inline const char *random_stages(struct sc_rng *rng, const struct sc_config *now)
{
	const int64_t n = now->parallel.pp * now->parallel.virtual_stages;
	const size_t from = sc_rng_below(rng, (uint64_t)n), to = sc_rng_below(rng, (uint64_t)n);
	const char *out = "";

	if (sc_rng_below(rng, 4) == 0)
		return "balanced";
	for (int64_t i = 0; i < n; i++) {
		int64_t layers = now->model.layers / n + (i < now->model.layers % n);

		layers += ((size_t)i == to) - ((size_t)i == from);
		out = sc_arena_printf(&arena, "%s%s%" PRId64, out, i ? "," : "", layers);
	}
	return out;
}

static inline const char *random_int(struct sc_rng *rng, const struct sc_field *field, int64_t now)
{
	const int64_t start = now > 0 ? now : 1 << sc_rng_below(rng, 10);
	const int64_t steps[] = {2 * start, 2 * start, start / 2, start / 2, start * 3 / 2,
				 start + 1, start - 1, 1,         start};

	return sc_arena_printf(&arena, "%.0f",
			       fmin(fmax((double)PICK(rng, steps), field->min), field->max));
}

static inline const char *random_double(struct sc_rng *rng, const struct sc_field *field,
					double now)
{
	static const double STEPS[] = {0.5, 0.8, 0.95, 1.25, 2};
	const double some =
		field->max > 1 ? 0.5 * pow(4000, sc_rng_uniform(rng)) : sc_rng_uniform(rng);
	const double next = now > 0 ? now * PICK(rng, STEPS) : some;

	return sc_arena_printf(&arena, "%g", fmin(fmax(next, field->min), field->max));
}

/* Another value of a key of a resolved config; NULL: none is known. */
static inline const char *random_value(struct sc_rng *rng, const struct key *key,
				       const struct sc_config *now)
{
	const void *at = (const char *)now + key->offset;
	const struct sc_field *field = key->field;
	const char *name;

	if (!field)
		return strcmp(key->path, "model") && strcmp(key->path, "cluster")
			       ? NULL
			       : sc_arena_printf(&arena, "%ss/%s.yaml", key->path,
						 random_id(rng, strcmp(key->path, "model")
									? "clusters"
									: "models"));
	switch (field->type) {
	case SC_F_INT:
		return random_int(rng, field, *(const int64_t *)at);
	case SC_F_DOUBLE:
		return random_double(rng, field, *(const double *)at);
	case SC_F_BOOL:
		return *(const bool *)at ? "false" : "true";
	case SC_F_STR:
		return random_text(rng, key->path);
	case SC_F_ENUM:
		return random_name(rng, field->names);
	case SC_F_FLAGS:
		name = random_name(rng, field->names);
		return sc_rng_below(rng, 2) ? name
					    : sc_arena_printf(&arena, "[%s, %s]", name,
							      random_name(rng, field->names));
	case SC_F_INTS:
		if (strcmp(key->path, "parallel.stage_layers") == 0)
			return random_stages(rng, now);
		return NULL;
	default:
		return NULL;
	}
}
