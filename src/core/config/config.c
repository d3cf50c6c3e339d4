/* A request from a file and from dotted overrides: what the user said, nothing filled in. */
#include "core/config/config.h"

#include <string.h>
#include <unistd.h>

#include "core/config/config_priv.h"
#include "core/foreign/foreign.h"
#include "core/profile/paths.h"
#include "core/profile/profile_priv.h"

enum { MAX_ORIGINS = 1024 };

void sc_config_init(struct sc_config *config)
{
	memset(config, 0, sizeof(*config));
	sc_fields_init(sc_config_fields, config);
}

static int load_section_file(const char *path, struct sc_arena *arena, struct sc_yaml **out,
			     struct sc_err *err)
{
	int rc = sc_yaml_load(path, arena, out, err);

	if (rc == 0 && sc_yaml_get(*out, SC_HF_MARK))
		rc = sc_hf_model_take(*out, arena, err);
	if (rc == 0)
		rc = sc_schema_check(*out, false, err);
	if (rc == 0) {
		/* The mapping of a cluster or model file, without keys about the file. */
		static const char *const keys[] = {"schema", "source", "sources", "notes"};
		struct sc_yaml **link = &(*out)->child;

		while (*link) {
			bool drop = false;

			for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
				drop = drop || strcmp((*link)->key, keys[i]) == 0;
			if (drop) {
				*link = (*link)->next;
				(*out)->n_children--;
			} else {
				link = &(*link)->next;
			}
		}
	}
	return rc;
}

static int open_ref(const struct sc_yaml *ref, struct sc_arena *arena, struct sc_yaml **out,
		    struct sc_err *err)
{
	const char *path;
	int rc = sc_config_path((struct sc_config_ref){.at = ref->text, .from = ref->file}, arena,
				&path, err);

	return rc ? rc : load_section_file(path, arena, out, err);
}

static void add_origins(struct sc_config *config, const struct sc_origin *at, size_t n,
			struct sc_arena *arena)
{
	struct sc_origins *layer = sc_arena_alloc(arena, sizeof(*layer));

	*layer = (struct sc_origins){.at = at, .n = n, .older = config->origins};
	config->origins = layer;
}

/* A layer of one: of a key whose text has no place in a file; file NULL: it hides what is older. */
static void add_origin(struct sc_config *config, const char *path, const char *file,
		       struct sc_arena *arena)
{
	struct sc_origin *origin = sc_arena_alloc(arena, sizeof(*origin));

	*origin = (struct sc_origin){.path = path,
				     .file = file ? sc_arena_strdup(arena, file) : NULL};
	add_origins(config, origin, 1, arena);
}

/* Files that a config names: a text, and what it is read into, if a config may also list that. */
static const struct {
	const char *key;
	size_t text, list; /* offsets; list 0: none */
	int (*load)(struct sc_config *config, const char *path, struct sc_arena *arena,
		    struct sc_err *err);
} FILES[] = {
#define AT(member) offsetof(struct sc_config, member)
	{"model.tables_csv", AT(model.tables_csv), AT(model.tables), sc_config_load_tables},
	{"model.rows_csv", AT(model.rows_csv), AT(model.rows), sc_config_load_rows},
	{"cluster.topology", AT(cluster.topology), 0, sc_config_load_topology},
};
enum { N_FILES = sizeof(FILES) / sizeof(FILES[0]) };

/* Named in file `from`; typed: in the working directory first. `at`: where, or NULL. */
static int load_named(struct sc_config *config, size_t i, struct sc_config_ref ref,
		      const struct sc_origin *at, struct sc_arena *arena, struct sc_err *err)
{
	struct sc_err own = {.code = SC_OK};
	const char *path;

	ref.at = *(const char *const *)(const void *)((const char *)config + FILES[i].text);
	if (!ref.at)
		return 0;
	if (sc_config_path(ref, arena, &path, &own))
		return sc_err_at(err, own.code, at ? at->file : "", at ? at->line : 0,
				 at ? at->column : 0, "%s: %s", FILES[i].key, own.text);
	return FILES[i].load(config, path, arena, err);
}

/* Decodes over `config`; what is given becomes the newest layer of origins. */
static int decode_config(const struct sc_yaml *map, struct sc_config *config,
			 struct sc_arena *arena, struct sc_err *err)
{
	/* a section's own file, if it is one's */
	const char *file = map->child && map->n_children == 1 ? map->child->file : map->file;
	struct sc_yaml_opts own = {.open_ref = open_ref, .cap_origins = MAX_ORIGINS};
	size_t n;
	int rc;

	own.origins = sc_arena_alloc(arena, MAX_ORIGINS * sizeof(*own.origins));
	rc = sc_yaml_decode(map, sc_config_fields, config, arena, &own, err);
	if (rc)
		return rc;
	n = own.n_origins < MAX_ORIGINS ? own.n_origins : MAX_ORIGINS;
	add_origins(config, own.origins, n, arena);
	for (size_t i = 0; i < N_FILES && rc == 0; i++) {
		const struct sc_structs *list = (void *)((char *)config + FILES[i].list);

		if (!FILES[i].list || !list->n)
			rc = load_named(config, i, (struct sc_config_ref){.from = file},
					sc_config_origin(config, FILES[i].key), arena, err);
	}
	return rc ? rc : sc_model_fill_tables(&config->model, arena, err);
}

int sc_config_take(const struct sc_yaml *root, struct sc_arena *arena, struct sc_config *out,
		   struct sc_err *err)
{
	struct sc_config config;
	int rc = sc_schema_check(root, false, err);

	if (rc)
		return rc;
	sc_config_init(&config);
	config.file = root->file;
	rc = decode_config(root, &config, arena, err);
	if (rc == 0)
		*out = config;
	return rc;
}

int sc_config_load(const char *path, struct sc_arena *arena, struct sc_config *out,
		   struct sc_err *err)
{
	struct sc_yaml *root;
	int rc = sc_yaml_load(path, arena, &root, err);

	return rc ? rc : sc_config_take(root, arena, out, err);
}

/* Beside the config, then installed; a path that the shell completed is tried last. */
static const char *section_path(const struct sc_config *config, const char *ref,
				struct sc_arena *arena, struct sc_err *err)
{
	const char *path;

	if (sc_config_path((struct sc_config_ref){.at = ref, .from = config->file}, arena, &path,
			   err) == 0)
		return path;
	return ref[0] && access(ref, R_OK) == 0 ? ref : NULL;
}

void sc_config_take_section(struct sc_config *config, const char *key,
			    const struct sc_config *section)
{
	if (strcmp(key, "model") == 0)
		config->model = section->model;
	else
		config->cluster = section->cluster;
}

static int set_section(struct sc_config *config, const struct sc_setting *set,
		       struct sc_arena *arena, struct sc_err *err)
{
	const char *key = set->path, *from = set->from;
	struct sc_yaml root = {.kind = SC_YAML_MAP, .file = from, .n_children = 1}, *map;
	struct sc_config section;
	struct sc_err own = {.code = SC_OK};
	const char *path = section_path(config, set->text, arena, &own);
	int rc;

	if (!path)
		return sc_err_set(err, own.code, "%s: %s", key, own.text);
	rc = load_section_file(path, arena, &map, err);
	if (rc)
		return rc;
	map->key = key;
	root.child = map;
	sc_config_init(&section);
	section.origins = config->origins;
	rc = decode_config(&root, &section, arena, err);
	if (rc)
		return rc;
	sc_config_take_section(config, key, &section);
	/* The reference is older than the values it brought. */
	add_origin(config, key, from, arena);
	add_origins(config, section.origins->at, section.origins->n, arena);
	return 0;
}

/* an option: on the command line */
static bool origin_is_typed(const char *from)
{
	return strncmp(from, "--", 2) == 0;
}

int sc_config_file_of(const struct sc_config *config, struct sc_key_text given,
		      struct sc_arena *arena, const char **out, struct sc_err *err)
{
	const struct sc_origin *origin = sc_config_origin(config, given.path);
	int rc = sc_config_path((struct sc_config_ref){given.text, config->file,
						       origin && origin_is_typed(origin->file)},
				arena, out, err);

	if (rc)
		sc_err_prefix(err, "%s", given.path);
	return rc;
}

static int set_value(struct sc_config *config, const struct sc_setting *set, struct sc_arena *arena,
		     struct sc_err *err)
{
	const char *path = set->path, *from = set->from;
	const char *key = sc_arena_strdup(arena, path);
	struct sc_field_place to = sc_field_find(sc_config_fields, path, arena);
	const struct sc_field *field = to.field;
	size_t named = 0;
	int rc;

	while (named < N_FILES && strcmp(FILES[named].key, key) != 0)
		named++;
	if (!field)
		return sc_field_unknown(sc_config_fields, &to, err);
	if (!*set->text && named < N_FILES)
		return sc_err_set(err, SC_EVALUE, "%s: can be another file, but not unset", key);
	if (!*set->text || ((field->type == SC_F_INT || field->type == SC_F_DOUBLE) &&
			    strcmp(set->text, "auto") == 0)) {
		/* As if nobody had given it. */
		sc_fields_init((const struct sc_field[]){*field, {0}},
			       (unsigned char *)config + to.base_offset);
		add_origin(config, key, NULL, arena);
		return 0;
	}
	if (field->type == SC_F_STRUCT && field->may_be_file)
		return set_section(config, set, arena, err);
	if (field->type == SC_F_IGNORE)
		return sc_err_set(err, SC_EUNSUPPORTED, "%s: can only be set in a file", path);
	rc = sc_field_set_text(&to, set->text, config, err);
	if (rc && strcmp(set->text, "auto") == 0 && !field->required) {
		*err = (struct sc_err){.code = SC_OK};
		return sc_err_set(err, SC_EVALUE, "%s: is not \"auto\"; write %s= to unset it",
				  path, path);
	}
	if (rc == 0 && named < N_FILES)
		rc = load_named(config, named,
				(struct sc_config_ref){.from = config->file,
						       .typed = origin_is_typed(from)},
				NULL, arena, err);
	if (rc == 0 && named < N_FILES)
		rc = sc_model_fill_tables(&config->model, arena, err);
	if (rc == 0)
		add_origin(config, key, from, arena);
	return rc;
}

int sc_config_set(struct sc_config *config, const struct sc_setting *set, struct sc_arena *arena,
		  struct sc_err *err)
{
	struct sc_err own = {.code = SC_OK};
	struct sc_config copy = *config;
	int rc = set_value(&copy, set, arena, &own);

	if (rc == 0 && copy.schema && strcmp(copy.schema, SC_SCHEMA) != 0)
		rc = sc_err_set(&own, SC_EFORMAT, "schema: this program reads " SC_SCHEMA);
	if (rc)
		return sc_err_at(err, own.code, own.file[0] ? own.file : set->from, own.line,
				 own.column, "%s", own.text);
	*config = copy;
	return 0;
}
