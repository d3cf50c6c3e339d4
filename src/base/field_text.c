/* Values of fields from scalar text, by the field's type and limits, and as text; the words of
 * messages about them. YAML nodes are read by field_decode.c. */
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

const char *sc_field_type_text(enum sc_ftype type)
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
				  sc_field_type_text(field->type), text);
	return sc_err_set(err, SC_EVALUE, "expected %s %s %s, got \"%.64s\"",
			  sc_field_type_text(field->type), both ? "from" : "of",
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

const char *sc_field_words(const void *first, size_t stride, char *buf, size_t n_buf)
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

int sc_field_unknown(const struct sc_field *table, const struct sc_field_place *at,
		     struct sc_err *err)
{
	const struct sc_field *field, *in = table;
	char keys[SC_MAX_KEYS_TEXT];

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
			  sc_field_words(in, sizeof(*in), keys, sizeof(keys)));
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
	sc_field_words(names, sizeof(struct sc_name), known, sizeof(known));
	if (nearest)
		return sc_err_set(err, SC_EVALUE,
				  "unknown value \"%.64s\"; did you mean \"%s\"? Known: %s", text,
				  nearest, known);
	return sc_err_set(err, SC_EVALUE, "unknown value \"%.64s\"; expected one of: %s", text,
			  known);
}

int sc_field_add_flag(const struct sc_field *field, const char *name, void *place,
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

int sc_field_parse_scalar(const struct sc_field_place *to, const char *text, void *at,
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

void sc_field_put_list(const struct sc_field *field, void *at, size_t n, void *place)
{
	if (field->type == SC_F_INTS)
		*(struct sc_ints *)place = (struct sc_ints){.at = at, .n = n};
	else
		*(struct sc_doubles *)place = (struct sc_doubles){.at = at, .n = n};
}

bool sc_field_named_list(const struct sc_field_place *to, const char *text, void *place)
{
	int64_t *at;

	for (const struct sc_name *name = to->field->names; name && name->name; name++)
		if (strcmp(name->name, text) == 0) {
			at = sc_arena_calloc(to->arena, 1, SC_NUMBER_BYTES);
			*at = name->value;
			sc_field_put_list(to->field, at, 1, place);
			return true;
		}
	return false;
}
