/* Values of fields: from scalar text by the field's type and limits, from YAML nodes, and as text. */
#include <assert.h>
#include <float.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/fields.h"
#include "base/fields_priv.h"
#include "base/num.h"
#include "base/strbuf.h"
#include "base/yaml.h"

static bool has_limits(const struct sc_field *field)
{
	return field->min < 0.0 || field->min > 0.0 || field->max < 0.0 || field->max > 0.0;
}

/* "1 to 4096", "1 or more", "5 or less". */
static const char *limits_text(const struct sc_field *field, char *buf, size_t n_buf)
{
	if (field->max >= DBL_MAX)
		snprintf(buf, n_buf, "%.15g or more", field->min);
	else if (field->min <= -DBL_MAX)
		snprintf(buf, n_buf, "%.15g or less", field->max);
	else if (field->min > 0 && field->min <= DBL_MIN)
		snprintf(buf, n_buf, "more than 0, up to %.15g", field->max);
	else
		snprintf(buf, n_buf, "%.15g to %.15g", field->min, field->max);
	return buf;
}

static const char *type_text(enum sc_ftype type)
{
	return type == SC_F_INT || type == SC_F_INTS ? "an integer" : "a number";
}

void sc_field_value_text(const struct sc_field *field, struct sc_strbuf *out)
{
	static const char *const kinds[] = {
		[SC_F_INT] = "integer",
		[SC_F_DOUBLE] = "number",
		[SC_F_BOOL] = "true or false",
		[SC_F_STR] = "text",
		[SC_F_STRUCT] = "mapping",
		[SC_F_INTS] = "list of integers",
		[SC_F_DOUBLES] = "list of numbers",
		[SC_F_STRUCTS] = "list of mappings",
		[SC_F_IGNORE] = "any",
	};
	char limits[80];

	if (field->type == SC_F_ENUM || field->type == SC_F_FLAGS) {
		sc_strbuf_append(out, field->type == SC_F_FLAGS ? "one or a list of " : "one of ");
		for (const struct sc_name *name = field->names; name->name; name++)
			sc_strbuf_printf(out, "%s%s", name == field->names ? "" : ", ", name->name);
		return;
	}
	sc_strbuf_append(out, kinds[field->type]);
	if (field->may_be_file)
		sc_strbuf_append(out, ", or a file that holds it");
	if (has_limits(field))
		sc_strbuf_printf(out, ", %s", limits_text(field, limits, sizeof(limits)));
}

static int wrong_type(const struct sc_field *field, const char *text, struct sc_err *err)
{
	char limits[80];
	bool both = field->min > -DBL_MAX && field->max < DBL_MAX &&
		    (field->min <= 0 || field->min > DBL_MIN);

	if (!has_limits(field))
		return sc_err_set(err, SC_EVALUE, "expected %s, got \"%.64s\"",
				  type_text(field->type), text);
	return sc_err_set(err, SC_EVALUE, "expected %s %s %s, got \"%.64s\"",
			  type_text(field->type), both ? "from" : "of",
			  limits_text(field, limits, sizeof(limits)), text);
}

/* An int64_t or a double. */
static int parse_number(const struct sc_field *field, const char *text, void *place,
			struct sc_err *err)
{
	const bool is_int = field->type == SC_F_INT || field->type == SC_F_INTS;
	char limits[80];
	int64_t whole = 0;
	double value;

	if (is_int ? !sc_parse_int(text, &whole) : !sc_parse_double(text, &value))
		return wrong_type(field, text, err);
	if (is_int)
		value = (double)whole;
	if (has_limits(field) && !(value >= field->min && value <= field->max))
		return sc_err_set(err, SC_EVALUE, "%.64s is out of range; expected %s", text,
				  limits_text(field, limits, sizeof(limits)));
	memcpy(place, is_int ? (const void *)&whole : &value, SC_NUMBER_BYTES);
	return 0;
}

static int parse_bool(const char *text, void *place, struct sc_err *err)
{
	static const struct sc_name WORDS[] = {{"false", 0}, {"true", 1}, {"no", 0}, {"yes", 1},
					       {"off", 0},   {"on", 1},   {"n", 0},  {"y", 1},
					       {"0", 0},     {"1", 1},    {0}};
	const struct sc_name *word = WORDS;

	while (word->name && strcasecmp(text, word->name) != 0)
		word++;
	if (!word->name || word >= WORDS + 2)
		return sc_err_set(err, SC_EVALUE, "expected true or false, got \"%.64s\"%s%s", text,
				  word->name ? "; write " : "",
				  word->name ? WORDS[word->value].name : "");
	memcpy(place, &(const bool){word->value}, sizeof(bool));
	return 0;
}

_Static_assert(offsetof(struct sc_name, name) == 0 && offsetof(struct sc_field, key) == 0,
	       "words_text reads the first member");

/* "a, b, c" as far as it fits, "..." for the rest; of elements so many bytes apart that begin with their word, the last
 * with NULL. */
static const char *words_text(const void *first, size_t stride, char *buf, size_t n_buf)
{
	static const char rest[] = ", ...";
	size_t used = 0, room = n_buf - (sizeof(rest) - 1);

	buf[0] = '\0';
	for (const char *at = first; *(const char *const *)(const void *)at; at += stride) {
		int n = snprintf(buf + used, room - used, "%s%s", used ? ", " : "",
				 *(const char *const *)(const void *)at);

		if (n < 0 || (size_t)n >= room - used) {
			snprintf(buf + used, n_buf - used, "%s", rest);
			break;
		}
		used += (size_t)n;
	}
	return buf;
}

enum { MAX_KEYS_TEXT = 216 }; /* a message is at most as long as the text of struct sc_err */

int sc_field_unknown(const struct sc_field *table, const struct sc_field_place *at,
		     struct sc_err *err)
{
	const struct sc_field *field, *in = table;
	char keys[MAX_KEYS_TEXT];

	for (const char *key = at->path;; in = field->sub) {
		const size_t n_key = strcspn(key, ".[");

		field = sc_find_key(in, key, n_key);
		key += n_key;
		if (!field || !*key)
			break;
		if (field->type == SC_F_STRUCTS)
			return sc_err_set(
				err, SC_EVALUE,
				"%.*s is a list of sections; its elements can only be set in "
				"a file",
				(int)(key - at->path), at->path);
		if (field->type == SC_F_INTS || field->type == SC_F_DOUBLES)
			return sc_err_set(
				err, SC_EVALUE,
				"%.*s is a list, whose elements cannot be set alone; give "
				"the whole, as [1, 2, 3]",
				(int)(key - at->path), at->path);
		if (field->type != SC_F_STRUCT || *key++ != '.')
			break;
	}
	if (at->nearest)
		return sc_err_set(err, SC_EVALUE, "unknown key \"%.64s\"; did you mean \"%.64s\"?",
				  at->path, at->nearest);
	return sc_err_set(err, SC_EVALUE, "unknown key \"%.64s\"; known keys: %s", at->path,
			  words_text(in, sizeof(*in), keys, sizeof(keys)));
}

int sc_enum_parse(const struct sc_name *names, const char *text, int *out, struct sc_err *err)
{
	const char *nearest;
	char known[160];

	for (const struct sc_name *name = names; name->name; name++)
		if (strcasecmp(name->name, text) == 0) {
			*out = name->value;
			return 0;
		}
	nearest = sc_nearest_of(text, names, sizeof(*names), SIZE_MAX);
	words_text(names, sizeof(struct sc_name), known, sizeof(known));
	if (nearest)
		return sc_err_set(err, SC_EVALUE,
				  "unknown value \"%.64s\"; did you mean \"%s\"? Known: %s", text,
				  nearest, known);
	return sc_err_set(err, SC_EVALUE, "unknown value \"%.64s\"; expected one of: %s", text,
			  known);
}

/* One name of a list of SC_F_FLAGS, or-ed into *place; names below SC_FLAG stand alone only. */
static int field_add_flag(const struct sc_field *field, const char *name, void *place,
			  struct sc_err *err)
{
	int flag = 0, flags;
	int rc = sc_enum_parse(field->names, name, &flag, err);

	if (rc)
		return rc;
	if (flag < SC_FLAG)
		return sc_err_set(err, SC_EVALUE, "\"%.64s\" stands alone, not in a list", name);
	memcpy(&flags, place, sizeof(flags));
	flags |= flag;
	memcpy(place, &flags, sizeof(flags));
	return 0;
}

/* Parses `text` into *place as the field's type says; for SC_F_INTS and SC_F_DOUBLES, place is one
 * element. A quoted text is never a number or a bool. The message does not name the path:
 * "expected an integer from 1 to 4096, got \"x\"". Nothing is written on failure. */
static int field_parse_scalar(const struct sc_field_place *to, const char *text, void *at,
			      struct sc_err *err)
{
	enum sc_ftype type = to->field->type;
	const char *copy, *dot;

	if ((type == SC_F_INT || type == SC_F_DOUBLE) && !to->field->required &&
	    strcmp(text, "auto") == 0) {
		sc_fields_init((const struct sc_field[]){*to->field, {0}},
			       (unsigned char *)at - to->field->offset);
		return 0;
	}
	switch (type) {
	case SC_F_INT:
	case SC_F_INTS:
	case SC_F_DOUBLE:
	case SC_F_DOUBLES:
		return parse_number(to->field, text, at, err);
	case SC_F_BOOL:
		return parse_bool(text, at, err);
	case SC_F_ENUM:
		dot = to->field->file_offset ? strrchr(text, '.') : NULL;
		if (dot && (!strcmp(dot, ".csv") || !strcmp(dot, ".json"))) {
			copy = sc_arena_strdup(to->arena, text);
			memcpy(at, &to->field->file_value, sizeof(to->field->file_value));
			memcpy((unsigned char *)at - to->field->offset + to->field->file_offset,
			       &copy, sizeof(copy));
			return 0;
		}
		return sc_enum_parse(to->field->names, text, at, err);
	case SC_F_FLAGS:
		return sc_enum_parse(to->field->names, text, at, err);
	case SC_F_STR:
		copy = sc_arena_strdup(to->arena, text);
		memcpy(at, &copy, sizeof(copy));
		return 0;
	case SC_F_STRUCT:
	case SC_F_STRUCTS:
	case SC_F_IGNORE:
		break;
	}
	assert(false && "not a scalar type");
	return 0;
}

/* Writes the {pointer, count} of an SC_F_INTS or SC_F_DOUBLES field. */
static void field_put_list(const struct sc_field *field, void *at, size_t n, void *place)
{
	if (field->type == SC_F_INTS)
		*(struct sc_ints *)place = (struct sc_ints){.at = at, .n = n};
	else
		*(struct sc_doubles *)place = (struct sc_doubles){.at = at, .n = n};
}

/* True, and *place is written, if `text` is a name that stands for a list. */
static bool field_named_list(const struct sc_field_place *to, const char *text, void *place)
{
	int64_t *at;

	for (const struct sc_name *name = to->field->names; name && name->name; name++)
		if (strcmp(name->name, text) == 0) {
			at = sc_arena_calloc(to->arena, 1, SC_NUMBER_BYTES);
			*at = name->value;
			field_put_list(to->field, at, 1, place);
			return true;
		}
	return false;
}

/* ---- a tree of YAML nodes into a struct, by its field table; recursion follows the nesting of the table ---- */

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
			   type == SC_F_BOOL ? "true or false" : type_text(type), node->text);
	else
		field_parse_scalar(&target, node->text, place->at, &own);
	return own.code == SC_OK ? 0 : field_fail(d, node, place, own.text);
}

static int decode_numbers(struct decoder *d, const struct sc_yaml *node, const struct place *place)
{
	const struct sc_field_place target = {.field = place->field, .arena = d->arena};
	struct place here = {.up = place, .field = place->field};
	unsigned char *at;

	if (node->kind == SC_YAML_SCALAR && field_named_list(&target, node->text, place->at))
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
	field_put_list(place->field, at, node->n_children, place->at);
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
		if (field_add_flag(place->field, child->text, &flags, &own))
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
	char path[MAX_PATH_TEXT], keys[MAX_KEYS_TEXT];
	const char *dot;

	path_text(up, path);
	dot = path[0] ? "." : "";
	if (nearest)
		return sc_err_at(d->err, SC_EVALUE, node->file, node->key_line, node->key_column,
				 "unknown key \"%s%s%.64s\"; did you mean \"%s%s%s\"?", path, dot,
				 node->key, path, dot, nearest);
	return sc_err_at(d->err, SC_EVALUE, node->file, node->key_line, node->key_column,
			 "unknown key \"%s%s%.64s\"; known keys: %s", path, dot, node->key,
			 words_text(table, sizeof(struct sc_field), keys, sizeof(keys)));
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
	if (field->type == SC_F_IGNORE || (is_list && field_named_list(to, text, at)))
		return 0;
	if (is_list || (field->type == SC_F_FLAGS && text[0] == '['))
		return set_list(to, text, at, &own) ? sc_err_set(err, own.code, "%s", own.text) : 0;
	if (field_parse_scalar(to, text, at, &own))
		return sc_err_set(err, own.code, "%s: %s", to->path, own.text);
	return 0;
}
