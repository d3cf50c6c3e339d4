/* Scalar text to typed values, by the field's type and limits. Knows nothing of YAML. */
#include <assert.h>
#include <float.h>
#include <stdio.h>
#include <string.h>

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
	else
		snprintf(buf, n_buf, "%.15g to %.15g", field->min, field->max);
	return buf;
}

static const char *type_text(enum sc_ftype type)
{
	return type == SC_F_INT || type == SC_F_INTS ? "an integer" : "a number";
}

static void append_names(const struct sc_field *field, struct sc_strbuf *out)
{
	sc_strbuf_append(out, field->type == SC_F_FLAGS ? "one or a list of " : "one of ");
	for (const struct sc_name *name = field->names; name->name; name++)
		sc_strbuf_printf(out, "%s%s", name == field->names ? "" : ", ", name->name);
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
		append_names(field, out);
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
	bool both = field->min > -DBL_MAX && field->max < DBL_MAX;

	if (!has_limits(field))
		return sc_err_set(err, SC_EVALUE, "expected %s, got \"%.64s\"",
				  type_text(field->type), text);
	return sc_err_set(err, SC_EVALUE, "expected %s %s %s, got \"%.64s\"",
			  type_text(field->type), both ? "from" : "of",
			  limits_text(field, limits, sizeof(limits)), text);
}

int sc_field_refuse_quoted(const struct sc_field *field, const char *text, struct sc_err *err)
{
	if (field->type == SC_F_ENUM || field->type == SC_F_FLAGS || field->type == SC_F_STR)
		return 0;
	return sc_err_set(
		err, SC_EVALUE, "expected %s, got the quoted text \"%.64s\"; remove the quotes",
		field->type == SC_F_BOOL ? "true or false" : type_text(field->type), text);
}

static int check_limits(const struct sc_field *field, double value, const char *text,
			struct sc_err *err)
{
	char limits[80];

	if (!has_limits(field) || (value >= field->min && value <= field->max))
		return 0;
	return sc_err_set(err, SC_EVALUE, "%.64s is out of range; expected %s", text,
			  limits_text(field, limits, sizeof(limits)));
}

static int parse_int(const struct sc_field *field, const char *text, void *place,
		     struct sc_err *err)
{
	int64_t value;
	int rc;

	if (!sc_parse_int(text, &value))
		return wrong_type(field, text, err);
	rc = check_limits(field, (double)value, text, err);
	if (rc == 0)
		memcpy(place, &value, sizeof(value));
	return rc;
}

static int parse_double(const struct sc_field *field, const char *text, void *place,
			struct sc_err *err)
{
	double value;
	int rc;

	if (!sc_parse_double(text, &value))
		return wrong_type(field, text, err);
	rc = check_limits(field, value, text, err);
	if (rc == 0)
		memcpy(place, &value, sizeof(value));
	return rc;
}

static int parse_bool(const char *text, void *place, struct sc_err *err)
{
	static const char *const spelled[] = {"false", "true", "False", "True", "FALSE", "TRUE"};
	static const char *const trues[] = {"yes", "on", "y", "1", "Yes", "On"};
	static const char *const falses[] = {"no", "off", "n", "0", "No", "Off"};
	const char *hint = NULL;

	for (size_t i = 0; i < sizeof(spelled) / sizeof(spelled[0]); i++) {
		const bool value = i % 2;

		if (strcmp(text, spelled[i]) == 0) {
			memcpy(place, &value, sizeof(value));
			return 0;
		}
	}
	for (size_t i = 0; i < sizeof(trues) / sizeof(trues[0]) && !hint; i++) {
		if (strcmp(text, trues[i]) == 0)
			hint = "true";
		else if (strcmp(text, falses[i]) == 0)
			hint = "false";
	}
	if (hint)
		return sc_err_set(err, SC_EVALUE, "expected true or false, got \"%.64s\"; write %s",
				  text, hint);
	return sc_err_set(err, SC_EVALUE, "expected true or false, got \"%.64s\"", text);
}

/* "a, b, c" as far as it fits. */
static const char *names_text(const struct sc_name *names, char *buf, size_t n_buf)
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; names[i].name; i++) {
		int n = snprintf(buf + used, n_buf - used, "%s%s", i ? ", " : "", names[i].name);

		if (n < 0 || (size_t)n >= n_buf - used) {
			buf[used] = '\0';
			break;
		}
		used += (size_t)n;
	}
	return buf;
}

int sc_enum_parse(const struct sc_name *names, const char *text, int *out, struct sc_err *err)
{
	const char *nearest = NULL;
	size_t distance = SIZE_MAX;
	char known[160];

	for (const struct sc_name *name = names; name->name; name++) {
		size_t d;

		if (strcmp(name->name, text) == 0) {
			*out = name->value;
			return 0;
		}
		d = sc_near_distance(text, name->name);
		if (d < distance) {
			distance = d;
			nearest = name->name;
		}
	}
	names_text(names, known, sizeof(known));
	if (nearest)
		return sc_err_set(err, SC_EVALUE,
				  "unknown value \"%.64s\"; did you mean \"%s\"? Known: %s", text,
				  nearest, known);
	return sc_err_set(err, SC_EVALUE, "unknown value \"%.64s\"; expected one of: %s", text,
			  known);
}

static bool names_file(const struct sc_field *field, const char *text)
{
	const char *dot = strrchr(text, '.');

	return field->file_offset && dot && (!strcmp(dot, ".csv") || !strcmp(dot, ".json"));
}

static void take_file(const struct sc_field_place *to, const char *text, void *at)
{
	const struct sc_field *field = to->field;
	const char *copy = sc_arena_strdup(to->arena, text);

	memcpy(at, &field->file_value, sizeof(field->file_value));
	memcpy((unsigned char *)at - field->offset + field->file_offset, &copy, sizeof(copy));
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
	const char *copy;

	if ((type == SC_F_INT || type == SC_F_DOUBLE) && !to->field->required &&
	    strcmp(text, "auto") == 0) {
		sc_fields_init((const struct sc_field[]){*to->field, {0}},
			       (unsigned char *)at - to->field->offset);
		return 0;
	}
	switch (type) {
	case SC_F_INT:
	case SC_F_INTS:
		return parse_int(to->field, text, at, err);
	case SC_F_DOUBLE:
	case SC_F_DOUBLES:
		return parse_double(to->field, text, at, err);
	case SC_F_BOOL:
		return parse_bool(text, at, err);
	case SC_F_ENUM:
		if (names_file(to->field, text)) {
			take_file(to, text, at);
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

/* Cuts spaces off both ends, in place. */
static char *trim(char *text)
{
	size_t n;

	text += strspn(text, " ");
	n = strlen(text);
	while (n > 0 && text[n - 1] == ' ')
		n--;
	text[n] = '\0';
	return text;
}

/* A copy of "1, 2, 3" or "[1, 2, 3]" without the brackets; NULL if only one is there. */
static char *list_body(const char *text, struct sc_arena *arena)
{
	char *body = trim(sc_arena_strdup(arena, text));
	size_t n = strlen(body);
	bool opens = n > 0 && body[0] == '[', closes = n > 0 && body[n - 1] == ']';

	if (opens != closes || (opens && n < 2))
		return NULL;
	if (opens) {
		body[n - 1] = '\0';
		body = trim(body + 1);
	}
	return body;
}

static size_t count_items(const char *body)
{
	size_t n = 1;

	if (!*body)
		return 0;
	for (; *body; body++)
		n += *body == ',';
	return n;
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

static int parse_list(const struct sc_field_place *to, const char *text, void *place,
		      struct sc_err *err)
{
	char *item = list_body(text, to->arena);
	size_t n = item ? count_items(item) : 0;
	unsigned char *at;

	if (!item)
		return sc_err_set(err, SC_EVALUE, "expected a list as \"[1, 2, 3]\", got \"%.64s\"",
				  text);
	at = sc_arena_calloc(to->arena, n, SC_NUMBER_BYTES);
	for (size_t i = 0; i < n; i++) {
		char *comma = strchr(item, ',');
		int rc;

		if (comma)
			*comma = '\0';
		rc = sc_field_parse_scalar(to, trim(item), at + i * SC_NUMBER_BYTES, err);
		if (rc) {
			sc_err_prefix(err, "element %zu", i + 1);
			return rc;
		}
		item = comma ? comma + 1 : item;
	}
	sc_field_put_list(to->field, at, n, place);
	return 0;
}

/* "full", or "[attn, mlp]". */
static int parse_flags(const struct sc_field_place *to, const char *text, void *place,
		       struct sc_err *err)
{
	char *item = list_body(text, to->arena), *comma;
	int flags = 0, rc = 0;

	if (text[0] != '[' || !item || !*item)
		return sc_enum_parse(to->field->names, text, place, err);
	for (; item && rc == 0; item = comma ? comma + 1 : NULL) {
		comma = strchr(item, ',');
		if (comma)
			*comma = '\0';
		rc = sc_field_add_flag(to->field, trim(item), &flags, err);
	}
	if (rc == 0)
		memcpy(place, &flags, sizeof(flags));
	return rc;
}

static int set_value(const struct sc_field_place *to, const char *text, void *place,
		     struct sc_err *err)
{
	const struct sc_field *field = to->field;

	switch (field->type) {
	case SC_F_STRUCT:
		return sc_err_set(err, SC_EVALUE, "is a section; set one of its keys, as \"%s.%s\"",
				  field->key, field->sub[0].key ? field->sub[0].key : "key");
	case SC_F_STRUCTS:
		return sc_err_set(err, SC_EVALUE,
				  "is a list of sections; it can only be set in a file");
	case SC_F_IGNORE:
		return 0;
	case SC_F_INTS:
	case SC_F_DOUBLES:
		if (sc_field_named_list(to, text, place))
			return 0;
		return parse_list(to, text, place, err);
	case SC_F_FLAGS:
		return parse_flags(to, text, place, err);
	default:
		return sc_field_parse_scalar(to, text, place, err);
	}
}

int sc_field_set_text(const struct sc_field_place *to, const char *text, void *object,
		      struct sc_err *err)
{
	struct sc_err own = {.code = SC_OK};
	void *place = (unsigned char *)object + to->base_offset + to->field->offset;
	int rc = set_value(to, text, place, &own);

	return rc ? sc_err_set(err, own.code, "%s: %s", to->path, own.text) : 0;
}
