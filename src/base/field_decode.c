/* A tree of YAML nodes into a struct, by its field table: recursion follows the nesting of the
 * table, and each value that was given leaves its place. A text that sets one field by its dotted
 * path is read the same way. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/fields_priv.h"
#include "base/strbuf.h"
#include "base/yaml.h"

/* The place where a value goes, and the way to it from the outermost mapping, whose `up` is NULL,
 * for messages. */
struct place {
	const struct sc_field *field;
	unsigned char *at;
	const struct place *up;
	const char *key;
	size_t index; /* of a list element, where key is NULL */
};
struct decoder {
	struct sc_arena *arena;
	struct sc_yaml_opts *opts; /* or NULL */
	struct sc_err *err;
};
enum { MAX_PATH_TEXT = 160 };

static const char *path_text(const struct place *place, char buf[MAX_PATH_TEXT])
{
	size_t used;

	buf[0] = '\0';
	if (!place->up)
		return buf;
	path_text(place->up, buf);
	used = strlen(buf);
	if (place->key)
		snprintf(buf + used, MAX_PATH_TEXT - used, "%s%s", used ? "." : "", place->key);
	else
		snprintf(buf + used, MAX_PATH_TEXT - used, "[%zu]", place->index);
	return buf;
}

static int field_fail(struct decoder *d, const struct sc_yaml *node, const struct place *place,
		      const char *text)
{
	char path[MAX_PATH_TEXT];

	return sc_err_at(d->err, SC_EVALUE, SC_AT(node), "%s: %s", path_text(place, path), text);
}

static int wrong_kind(struct decoder *d, const struct sc_yaml *node, const struct place *place,
		      const char *expected)
{
	static const char *const text[] = {
		[SC_YAML_SCALAR] = "a single value",
		[SC_YAML_MAP] = "a mapping",
		[SC_YAML_SEQ] = "a list",
	};
	char path[MAX_PATH_TEXT];

	return sc_err_at(d->err, SC_EVALUE, SC_AT(node), "%s: expected %s, got %s",
			 path_text(place, path), expected, text[node->kind]);
}

static void add_origin(struct decoder *d, const struct sc_yaml *node, const struct place *place)
{
	struct sc_yaml_opts *opts = d->opts;
	char path[MAX_PATH_TEXT];

	if (!opts || !opts->origins)
		return;
	if (opts->n_origins < opts->cap_origins)
		opts->origins[opts->n_origins] = (struct sc_origin){
			.path = sc_arena_strdup(d->arena, path_text(place, path)),
			.file = node->file,
			.line = node->line,
			.column = node->column,
		};
	opts->n_origins++;
}

static int decode_map(struct decoder *d, const struct sc_yaml *map, const struct sc_field *table,
		      const struct place *object);

static int decode_scalar(struct decoder *d, const struct sc_yaml *node, const struct place *place)
{
	const struct sc_field_place target = {.field = place->field, .arena = d->arena};
	const enum sc_ftype type = place->field->type;
	struct sc_err own = {.code = SC_OK};

	if (sc_yaml_is_null(node))
		return field_fail(d, node, place,
				  "no value is given; write one, or remove the key");
	if (node->kind != SC_YAML_SCALAR)
		return wrong_kind(d, node, place, "a single value");
	if (node->quoted && type != SC_F_ENUM && type != SC_F_FLAGS && type != SC_F_STR)
		sc_err_set(&own, SC_EVALUE,
			   "expected %s, got the quoted text \"%.64s\"; remove the quotes",
			   type == SC_F_BOOL ? "true or false" : sc_field_type_text(type),
			   node->text);
	else
		sc_field_parse_scalar(&target, node->text, place->at, &own);
	return own.code == SC_OK ? 0 : field_fail(d, node, place, own.text);
}

static int decode_numbers(struct decoder *d, const struct sc_yaml *node, const struct place *place)
{
	const struct sc_field_place target = {.field = place->field, .arena = d->arena};
	struct place here = {.up = place, .field = place->field};
	unsigned char *at;

	if (node->kind == SC_YAML_SCALAR && sc_field_named_list(&target, node->text, place->at))
		return 0;
	if (node->kind != SC_YAML_SEQ)
		return wrong_kind(d, node, place, "a list as [1, 2, 3]");
	at = here.at = sc_arena_calloc(d->arena, node->n_children, SC_NUMBER_BYTES);
	for (const struct sc_yaml *child = node->child; child; child = child->next) {
		int rc = decode_scalar(d, child, &here);

		if (rc)
			return rc;
		here.index++;
		here.at += SC_NUMBER_BYTES;
	}
	sc_field_put_list(place->field, at, node->n_children, place->at);
	return 0;
}

static int decode_texts(struct decoder *d, const struct sc_yaml *node, const struct place *place)
{
	struct place here = {.up = place, .field = place->field, .at = place->at};
	struct sc_strbuf all = {0};
	const char *text;
	int rc = node->child ? 0 : field_fail(d, node, place, "the list is empty");

	for (const struct sc_yaml *child = node->child; child && rc == 0; child = child->next) {
		rc = decode_scalar(d, child, &here);
		if (rc == 0)
			sc_strbuf_printf(&all, "%s%s", here.index++ ? "," : "", child->text);
	}
	text = sc_arena_strdup(d->arena, sc_strbuf_get(&all));
	memcpy(place->at, &text, sizeof(text));
	sc_strbuf_release(&all);
	return rc;
}

/* One name, or a list of names. */
static int decode_flags(struct decoder *d, const struct sc_yaml *node, const struct place *place)
{
	struct place here = {.up = place};
	int flags = 0;

	if (node->kind != SC_YAML_SEQ || !node->child)
		return decode_scalar(d, node, place);
	for (const struct sc_yaml *child = node->child; child; child = child->next) {
		struct sc_err own = {.code = SC_OK};

		if (child->kind != SC_YAML_SCALAR || sc_yaml_is_null(child))
			return wrong_kind(d, child, &here, "a name");
		if (sc_field_add_flag(place->field, child->text, &flags, &own))
			return field_fail(d, child, &here, own.text);
		here.index++;
	}
	memcpy(place->at, &flags, sizeof(flags));
	return 0;
}

static int decode_structs(struct decoder *d, const struct sc_yaml *node, const struct place *place)
{
	const struct sc_field *field = place->field;
	struct place here = {.up = place, .field = place->field};
	unsigned char *at;

	assert(field->elem_bytes >= sc_fields_extent(field->sub));
	if (node->kind != SC_YAML_SEQ)
		return wrong_kind(d, node, place, "a list of mappings");
	at = here.at = sc_arena_calloc(d->arena, node->n_children, field->elem_bytes);
	for (const struct sc_yaml *child = node->child; child; child = child->next) {
		int rc;

		if (child->kind != SC_YAML_MAP)
			return wrong_kind(d, child, &here, "a mapping");
		rc = decode_map(d, child, field->sub, &here);
		if (rc)
			return rc;
		here.index++;
		here.at += field->elem_bytes;
	}
	*(struct sc_structs *)(void *)place->at =
		(struct sc_structs){.at = at, .n = node->n_children};
	return 0;
}

/* `model: models/x.yaml`: the mapping is in that file. */
static int decode_ref(struct decoder *d, const struct sc_yaml *node, const struct place *place)
{
	struct sc_err own = {.code = SC_OK};
	struct sc_yaml *map = NULL;
	char path[MAX_PATH_TEXT];
	int rc;

	if (!d->opts || !d->opts->open_ref)
		return wrong_kind(d, node, place, "a mapping");
	rc = d->opts->open_ref(node, d->arena, &map, &own);
	if (rc && !own.file[0])
		return sc_err_at(d->err, own.code, SC_AT(node), "%s: %s", path_text(place, path),
				 own.text);
	if (rc)
		return sc_err_at(d->err, own.code, SC_AT(&own), "%s", own.text);
	add_origin(d, node, place);
	return decode_map(d, map, place->field->sub, place);
}

static int decode_value(struct decoder *d, const struct sc_yaml *node, const struct place *place);

static int decode_struct(struct decoder *d, const struct sc_yaml *node, const struct place *place)
{
	if (node->kind == SC_YAML_MAP)
		return decode_map(d, node, place->field->sub, place);
	if (node->kind == SC_YAML_SCALAR && place->field->may_be_file)
		return decode_ref(d, node, place);
	if (node->kind == SC_YAML_SCALAR && place->field->scalar) {
		/* A scalar in a mapping's place, the value of one of its keys. */
		const struct sc_field *field = sc_find_key(place->field->sub, place->field->scalar,
							   strlen(place->field->scalar));
		struct place here = {.field = field, .up = place, .key = field->key};

		here.at = place->at + field->offset;
		return decode_value(d, node, &here);
	}
	return wrong_kind(d, node, place,
			  place->field->may_be_file ? "a mapping or the path of a file"
						    : "a mapping");
}

static int decode_value(struct decoder *d, const struct sc_yaml *node, const struct place *place)
{
	int rc = 0;

	if (sc_yaml_is_null(node) && place->field->type != SC_F_IGNORE)
		return field_fail(d, node, place,
				  "no value is given; write one, or remove the key");
	switch (place->field->type) {
	case SC_F_STRUCT: /* its leaves are the origins */
		return decode_struct(d, node, place);
	case SC_F_STRUCTS:
		rc = decode_structs(d, node, place);
		break;
	case SC_F_INTS:
	case SC_F_DOUBLES:
		rc = decode_numbers(d, node, place);
		break;
	case SC_F_FLAGS:
		rc = decode_flags(d, node, place);
		break;
	case SC_F_IGNORE:
		break;
	default:
		rc = node->kind == SC_YAML_SEQ && place->field->may_be_list
			     ? decode_texts(d, node, place)
			     : decode_scalar(d, node, place);
		break;
	}
	if (rc == 0)
		add_origin(d, node, place);
	return rc;
}

static int unknown_key(struct decoder *d, const struct sc_yaml *node, const struct sc_field *table,
		       const struct place *up)
{
	const char *nearest = sc_nearest_of(node->key, table, sizeof(*table), SIZE_MAX);
	char path[MAX_PATH_TEXT], keys[SC_MAX_KEYS_TEXT];
	const char *dot;

	path_text(up, path);
	dot = path[0] ? "." : "";
	if (nearest)
		return sc_err_at(d->err, SC_EVALUE, node->file, node->key_line, node->key_column,
				 "unknown key \"%s%s%.64s\"; did you mean \"%s%s%s\"?", path, dot,
				 node->key, path, dot, nearest);
	return sc_err_at(d->err, SC_EVALUE, node->file, node->key_line, node->key_column,
			 "unknown key \"%s%s%.64s\"; known keys: %s", path, dot, node->key,
			 sc_field_words(table, sizeof(struct sc_field), keys, sizeof(keys)));
}

static int decode_map(struct decoder *d, const struct sc_yaml *map, const struct sc_field *table,
		      const struct place *object)
{
	for (const struct sc_yaml *child = map->child; child; child = child->next) {
		const struct sc_field *field = sc_find_key(table, child->key, strlen(child->key));
		struct place here = {.field = field, .up = object, .key = child->key};
		int rc;

		if (!field)
			return unknown_key(d, child, table, object);
		here.at = object->at + field->offset;
		rc = decode_value(d, child, &here);
		if (rc)
			return rc;
	}
	char path[MAX_PATH_TEXT];

	for (; table->key; table++) {
		struct place here = {.up = object, .key = table->key};

		if (!table->required || sc_yaml_get(map, table->key))
			continue;
		return sc_err_at(d->err, SC_EVALUE, SC_AT(map), "missing key \"%s\"%s%s",
				 path_text(&here, path), table->help ? ": " : "",
				 table->help ? table->help : "");
	}
	return 0;
}

/* Decoded into a copy, so that a failure leaves the object as it was. */
int sc_yaml_decode(const struct sc_yaml *map, const struct sc_field *table, void *object,
		   struct sc_arena *arena, struct sc_yaml_opts *opts, struct sc_err *err)
{
	struct decoder d = {.arena = arena, .opts = opts, .err = err};
	size_t n_bytes = sc_fields_extent(table);
	const struct place copy = {.at = memcpy(sc_arena_alloc(arena, n_bytes), object, n_bytes)};
	int rc;

	assert(map->kind == SC_YAML_MAP);
	rc = decode_map(&d, map, table, &copy);
	if (rc == 0)
		memcpy(object, copy.at, n_bytes);
	return rc;
}

/* "1, 2, 3" or "[1, 2, 3]", as YAML has it. */
static int set_list(const struct sc_field_place *to, const char *text, unsigned char *at,
		    struct sc_err *err)
{
	static const struct place root = {.up = NULL};
	const struct place place = {.field = to->field, .at = at, .up = &root, .key = to->path};
	struct decoder d = {.arena = to->arena, .err = err};
	const bool is_open = text[strspn(text, " ")] == '[';
	const char *yaml = sc_arena_printf(to->arena, is_open ? "list: %s" : "list: [%s]", text);
	const struct sc_source source = {yaml, strlen(yaml), ""};
	struct sc_yaml *map;

	if (sc_yaml_parse(&source, to->arena, &map, NULL) || map->n_children != 1 ||
	    map->child->kind != SC_YAML_SEQ)
		return sc_err_set(err, SC_EVALUE,
				  "%s: expected a list as \"[1, 2, 3]\", got \"%.64s\"", to->path,
				  text);
	return to->field->type == SC_F_FLAGS ? decode_flags(&d, map->child, &place)
					     : decode_numbers(&d, map->child, &place);
}

int sc_field_set_text(const struct sc_field_place *to, const char *text, void *object,
		      struct sc_err *err)
{
	const struct sc_field *field = to->field;
	const bool is_list = field->type == SC_F_INTS || field->type == SC_F_DOUBLES;
	unsigned char *at = (unsigned char *)object + to->base_offset + field->offset;
	struct sc_err own = {.code = SC_OK};

	if (field->type == SC_F_STRUCT)
		return sc_err_set(err, SC_EVALUE,
				  "%s: is a section; set one of its keys, as \"%s.%s\"", to->path,
				  field->key, field->sub[0].key ? field->sub[0].key : "key");
	if (field->type == SC_F_STRUCTS)
		return sc_err_set(err, SC_EVALUE,
				  "%s: is a list of sections; it can only be set in a file",
				  to->path);
	if (field->type == SC_F_IGNORE || (is_list && sc_field_named_list(to, text, at)))
		return 0;
	if (is_list || (field->type == SC_F_FLAGS && text[0] == '['))
		return set_list(to, text, at, &own) ? sc_err_set(err, own.code, "%s", own.text) : 0;
	if (sc_field_parse_scalar(to, text, at, &own))
		return sc_err_set(err, own.code, "%s: %s", to->path, own.text);
	return 0;
}
