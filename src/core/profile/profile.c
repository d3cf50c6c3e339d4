/* Profile files: found by id, read after their defaults, checked to be complete. Does not know what
 * the keys mean. */
#include "core/profile/profile_priv.h"

#include <string.h>
#include <strings.h>

#include "base/strbuf.h"
#include "core/profile/paths.h"

enum { MAX_DEPTH = 8, MAX_ID = 64, MAX_LISTED = 5, MAX_NAMED = 8 };

int sc_schema_check(const struct sc_yaml *map, bool required, struct sc_err *err)
{
	const struct sc_yaml *schema = sc_yaml_get(map, "schema");

	if (!schema)
		return !required ? 0
				 : sc_err_at(err, SC_EFORMAT, SC_AT(map),
					     "missing key \"schema\"; begin the file with "
					     "`schema: " SC_SCHEMA "`");
	if (schema->kind == SC_YAML_SCALAR && strcmp(schema->text, SC_SCHEMA) == 0)
		return 0;
	return sc_err_at(err, SC_EFORMAT, SC_AT(schema),
			 "schema: this program reads " SC_SCHEMA ", not \"%.64s\"",
			 schema->kind == SC_YAML_SCALAR ? schema->text : "a mapping or list");
}

static bool is_hidden(const struct sc_profile_kind *kind, const char *id)
{
	return kind->hidden && strncmp(id, kind->hidden, strlen(kind->hidden)) == 0;
}

/* "a100-pcie-40gb, a100-pcie-80gb, ...": those that begin with what was written, in any case. */
static const char *begin_so(const char *id, const char *const *ids, size_t n,
			    struct sc_arena *arena)
{
	const char *list = "";
	size_t n_listed = 0;

	for (size_t i = 0; *id && i < n; i++) {
		if (strncasecmp(ids[i], id, strlen(id)) != 0)
			continue;
		if (n_listed++ == MAX_LISTED)
			return sc_arena_printf(arena, "%s, ...", list);
		list = sc_arena_printf(arena, "%s%s%s", list, *list ? ", " : "", ids[i]);
	}
	return list;
}

static int unknown_id(const struct sc_profile_kind *kind, const char *id, struct sc_arena *arena,
		      struct sc_err *err)
{
	const char *const *ids, *near, *alike, **shown;
	size_t n = sc_config_ids(kind->folder, arena, &ids), n_shown = 0;

	shown = sc_arena_calloc(arena, n, sizeof(*shown));
	for (size_t i = 0; i < n; i++)
		if (!is_hidden(kind, ids[i]))
			shown[n_shown++] = ids[i];
	alike = begin_so(id, shown, n_shown, arena);
	if (strchr(alike, ','))
		return sc_err_set(err, SC_EVALUE, "unknown %s \"%.64s\"; did you mean one of %s?",
				  kind->noun, id, alike);
	near = *alike ? alike : sc_nearest(id, shown, n_shown);
	if (near)
		return sc_err_set(err, SC_EVALUE, "unknown %s \"%.64s\"; did you mean \"%s\"?",
				  kind->noun, id, near);
	return sc_err_set(
		err, SC_EVALUE,
		"unknown %s \"%.64s\"; known are the files in the folder %s of the configs, "
		"and your own in ./%s or $STEPCAST_CONFIGS/%s",
		kind->noun, id, kind->folder, kind->folder, kind->folder);
}

static int find_file(const struct sc_profile_kind *kind, const char *id, struct sc_arena *arena,
		     const char **path)
{
	/* Ids are file stems: letters, digits, dot, dash, underscore; no way out of the folder. */
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	if (!(n > 0 && n <= MAX_ID && id[n] == '\0' && id[0] != '.') || is_hidden(kind, id))
		return -SC_EVALUE;
	return sc_config_path((struct sc_config_ref){.at = sc_arena_printf(arena, "%s/%s.yaml",
									   kind->folder, id)},
			      arena, path, NULL);
}

static int profile_read_file(const struct sc_profile_kind *kind, const char *path, void *object,
			     struct sc_arena *arena, struct sc_err *err)
{
	struct sc_yaml *files[MAX_DEPTH];
	size_t n = 0;
	int rc;

	do {
		const struct sc_yaml *defaults;

		rc = sc_yaml_load(path, arena, &files[n], err);
		if (rc == 0)
			rc = sc_schema_check(files[n], true, err);
		if (rc)
			return rc;
		defaults = sc_yaml_get(files[n++], "defaults");
		if (!defaults)
			break;
		if (defaults->kind != SC_YAML_SCALAR || n == MAX_DEPTH)
			return sc_err_at(err, SC_EVALUE, SC_AT(defaults),
					 "defaults: expected the name of one file, at most %d deep",
					 MAX_DEPTH);
		/* Named from the configs folder, not from the file's own. */
		rc = sc_config_path((struct sc_config_ref){.at = defaults->text}, arena, &path,
				    err);
	} while (rc == 0);
	while (rc == 0 && n > 0) {
		rc = sc_yaml_decode(files[--n], kind->fields, object, arena, NULL, err);
		if (rc == 0 && kind->take)
			kind->take(files[n], object, arena);
	}
	return rc;
}

/* The keys that are not given, with commas between, of which the first few are named: a file that a
 * user begins lacks many, and he wants to know them all at once. */
static void list_missing(const struct sc_field *fields, const unsigned char *object, const char *up,
			 size_t *n, struct sc_strbuf *out)
{
	for (; fields->key; fields++) {
		const unsigned char *place = object + fields->offset;
		double number = 0;
		int64_t integer = 0;

		if (fields->type == SC_F_STRUCT)
			list_missing(fields->sub, place, fields->key, n, out);
		if (fields->type == SC_F_DOUBLE)
			memcpy(&number, place, sizeof(number));
		if (fields->type == SC_F_INT)
			memcpy(&integer, place, sizeof(integer));
		if (!(number < 0) && integer >= 0)
			continue;
		if (++*n <= MAX_NAMED)
			sc_strbuf_printf(out, "%s\"%s%s%s\"", *n > 1 ? ", " : "", up,
					 up[0] ? "." : "", fields->key);
	}
}

static int check_complete(const struct sc_profile_kind *kind, const void *object,
			  struct sc_err *err)
{
	struct sc_strbuf names = {0};
	size_t n = 0;

	list_missing(kind->fields, object, "", &n, &names);
	if (n > MAX_NAMED)
		sc_strbuf_printf(&names, " and %zu more", n - MAX_NAMED);
	if (n)
		sc_err_set(err, SC_EVALUE,
			   "missing key%s %s; give %s here or in the file of defaults",
			   sc_plural(n), sc_strbuf_get(&names), n > 1 ? "them" : "it");
	sc_strbuf_release(&names);
	return n ? -(int)SC_EVALUE : 0;
}

int sc_profile_load(const struct sc_profile_kind *kind, const char *id, void *object,
		    struct sc_arena *arena, struct sc_err *err)
{
	struct sc_err own = {.code = SC_OK};
	const char *path;
	int rc;

	if (find_file(kind, id, arena, &path))
		return unknown_id(kind, id, arena, err);
	sc_fields_init(kind->fields, object);
	rc = profile_read_file(kind, path, object, arena, &own);
	if (rc == 0)
		rc = check_complete(kind, object, &own);
	for (const struct sc_field *field = kind->fields; rc == 0 && field->key; field++) {
		const char **given = (void *)((unsigned char *)object + field->offset);

		if (strcmp(field->key, "id") != 0)
			continue;
		if (!*given)
			*given = sc_arena_strdup(arena, id);
		if (strcmp(*given, id) != 0)
			rc = sc_err_set(&own, SC_EVALUE,
					"its id is \"%.64s\"; it must be the file's name", *given);
	}
	if (rc == 0)
		return 0;
	return sc_err_at(err, own.code, own.file[0] ? own.file : path, own.line, own.column, "%s",
			 own.text);
}
