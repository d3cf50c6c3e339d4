/* Walks the field tables, so that a new key is shown without a change here. */
#include "report/config_show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

enum { COMMENT_COLUMN = 40, MAX_PATH_TEXT = 128, MAX_VALUE_TEXT = 64 };

/* What a value that nobody gave came from; keys that are not here have a plain default. */
static const struct {
	const char *path, *from;
} DERIVED[] = {
	{"gpus", "tp * pp * cp * dp"},
	{"cluster.gpu", "the first of nodes"},
	{"cluster.gpus_per_node", "usual node of the GPU"},
	{"cluster.nics_per_node", "usual node of the GPU"},
	{"cluster.nic_gbit_s", "usual node of the GPU"},
	{"cluster.scale_up_gpus", "default: gpus_per_node"},
	{"cluster.host_memory_gib", "default: 128 a GPU, as TorchRec's planner"},
	{"model.kv_heads", "default: heads"},
	{"model.ffn_hidden", "default: 4 * hidden"},
	{"parallel.dp", "default: gpus / (tp * pp * cp)"},
	{"parallel.order", "the software"},
	{"training.micro_batch", "default: global_batch / dp without a pipeline, else 1"},
	{"training.precision", "default: bf16 where the GPU has it, else fp16"},
};

/* Installed configs by their place in the configs folder, not on this machine. */
static const char *shown_file(const char *file)
{
	static const char folder[] = "/configs/";
	const char *shown = file;

	for (const char *at = strstr(file, folder); at && *file == '/'; at = strstr(at + 1, folder))
		shown = at + 1;
	return shown;
}

static void append_origin(const struct sc_config *config, const char *path, struct sc_strbuf *out)
{
	const struct sc_origin *origin = sc_config_origin(config, path);

	if (origin && origin->line)
		sc_strbuf_printf(out, "%s:%u", shown_file(origin->file), origin->line);
	else if (origin)
		sc_strbuf_append(out, shown_file(origin->file));
	if (origin)
		return;
	for (size_t i = 0; i < sizeof(DERIVED) / sizeof(DERIVED[0]); i++) {
		if (strcmp(DERIVED[i].path, path) == 0) {
			sc_strbuf_append(out, DERIVED[i].from);
			return;
		}
	}
	sc_strbuf_append(out, "default");
}

/* A plain scalar that no reader takes for something else; anything else is quoted. */
static bool is_plain(const char *text)
{
	static const char safe[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-";
	static const char *const words[] = {"true", "false", "null", "yes", "no", "on", "off"};
	double number;

	if (!*text || strspn(text, safe) != strlen(text) || sc_parse_double(text, &number) ||
	    *text == '-' || *text == '.')
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(text, words[i]) == 0)
			return false;
	}
	return true;
}

static void append_text(const char *text, struct sc_strbuf *out)
{
	if (is_plain(text)) {
		sc_strbuf_append(out, text);
		return;
	}
	sc_strbuf_append_char(out, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			sc_strbuf_printf(out, "\\%c", *text);
		else if ((unsigned char)*text < 0x20)
			sc_strbuf_printf(out, "\\x%02x", (unsigned)*text);
		else
			sc_strbuf_append_char(out, *text);
	}
	sc_strbuf_append_char(out, '"');
}

static void append_double(double value, struct sc_strbuf *out)
{
	char text[MAX_VALUE_TEXT];
	double again = 0;

	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (sc_parse_double(text, &again) && !(again < value) && !(again > value))
			break;
	}
	sc_strbuf_append(out, text);
}

static void append_numbers(const struct sc_field *field, const void *place, struct sc_strbuf *out)
{
	const struct sc_ints *ints = place;
	const struct sc_doubles *doubles = place;
	size_t n = field->type == SC_F_INTS ? ints->n : doubles->n;

	sc_strbuf_append_char(out, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			sc_strbuf_append(out, ", ");
		if (field->type == SC_F_INTS)
			sc_strbuf_printf(out, "%" PRId64, ints->at[i]);
		else
			append_double(doubles->at[i], out);
	}
	sc_strbuf_append_char(out, ']');
}

static void append_structs(const struct sc_field *field, const void *place, struct sc_strbuf *out);
static void append_map(const struct sc_field *table, const unsigned char *element,
		       struct sc_strbuf *out);

static void append_value(const struct sc_field *field, const void *place, struct sc_strbuf *out)
{
	const char *name;

	switch (field->type) {
	case SC_F_INT:
		sc_strbuf_printf(out, "%" PRId64, *(const int64_t *)place);
		break;
	case SC_F_DOUBLE:
		append_double(*(const double *)place, out);
		break;
	case SC_F_BOOL:
		sc_strbuf_append(out, *(const bool *)place ? "true" : "false");
		break;
	case SC_F_STR:
		append_text(*(const char *const *)place, out);
		break;
	case SC_F_ENUM:
		name = sc_enum_name(field->names, *(const int *)place);
		sc_strbuf_append(out, name ? name : "?");
		break;
	case SC_F_INTS:
	case SC_F_DOUBLES:
		append_numbers(field, place, out);
		break;
	case SC_F_STRUCTS:
		append_structs(field, place, out);
		break;
	case SC_F_STRUCT:
		append_map(field->sub, place, out);
		break;
	case SC_F_IGNORE:
		break;
	}
}

/* In a list, what was not given is zero: elements have no "not given" of their own. */
static bool is_zero(const struct sc_field *field, const void *place)
{
	const struct sc_field *sub = field->sub;

	switch (field->type) {
	case SC_F_INT:
		return *(const int64_t *)place == 0;
	case SC_F_DOUBLE:
		return !(*(const double *)place < 0) && !(*(const double *)place > 0);
	case SC_F_BOOL:
		return !*(const bool *)place;
	case SC_F_STR:
		return !*(const char *const *)place;
	case SC_F_ENUM:
		return !sc_enum_name(field->names, *(const int *)place);
	case SC_F_INTS:
	case SC_F_DOUBLES:
		return ((const struct sc_ints *)place)->n == 0;
	case SC_F_STRUCTS:
		return ((const struct sc_structs *)place)->n == 0;
	case SC_F_STRUCT:
		while (sub->key && is_zero(sub, (const unsigned char *)place + sub->offset))
			sub++;
		return !sub->key;
	case SC_F_IGNORE:
		break;
	}
	return true;
}

/* A mapping that a file holds is shown by its key `file`, which brings the rest. */
static const struct sc_field *file_key(const struct sc_field *table, const unsigned char *element)
{
	for (; table->key; table++)
		if (strcmp(table->key, "file") == 0 && !is_zero(table, element + table->offset))
			return table;
	return NULL;
}

static void append_map(const struct sc_field *table, const unsigned char *element,
		       struct sc_strbuf *out)
{
	const struct sc_field *file = file_key(table, element);
	const char *comma = "";

	sc_strbuf_append_char(out, '{');
	for (const struct sc_field *f = table; f->key; f++) {
		if (is_zero(f, element + f->offset) || (file && f != file))
			continue;
		sc_strbuf_printf(out, "%s%s: ", comma, f->key);
		append_value(f, element + f->offset, out);
		comma = ", ";
	}
	sc_strbuf_append_char(out, '}');
}

static void append_structs(const struct sc_field *field, const void *place, struct sc_strbuf *out)
{
	const struct sc_structs *list = place;

	sc_strbuf_append_char(out, '[');
	for (size_t i = 0; i < list->n; i++) {
		sc_strbuf_append(out, i ? ", " : "");
		append_map(field->sub, (const unsigned char *)list->at + i * field->elem_bytes,
			   out);
	}
	sc_strbuf_append_char(out, ']');
}

/* Values that are still "not given" after resolving do not apply to this request. */
static bool is_given(const struct sc_field *field, const void *place)
{
	switch (field->type) {
	case SC_F_INT:
		return *(const int64_t *)place != SC_NOT_GIVEN;
	case SC_F_DOUBLE:
		return *(const double *)place >= 0 &&
		       !(*(const double *)place <= 0 && strcmp(field->key, "measured_ms") == 0);
	case SC_F_STR:
		return *(const char *const *)place != NULL;
	case SC_F_ENUM:
		return sc_enum_name(field->names, *(const int *)place) != NULL;
	case SC_F_INTS:
	case SC_F_DOUBLES:
		return ((const struct sc_ints *)place)->n > 0;
	case SC_F_STRUCTS:
		return ((const struct sc_structs *)place)->n > 0;
	case SC_F_BOOL:
		return true;
	case SC_F_STRUCT:
	case SC_F_IGNORE:
		break;
	}
	return false;
}

static void append_line(const struct sc_config *config, const struct sc_field *field,
			const char *section, const void *place, struct sc_strbuf *out)
{
	char path[MAX_PATH_TEXT];
	size_t begin = out->n;

	if (!is_given(field, place))
		return;
	snprintf(path, sizeof(path), "%s%s%s", section, *section ? "." : "", field->key);
	sc_strbuf_printf(out, "%s%s: ", *section ? "  " : "", field->key);
	append_value(field, place, out);
	do
		sc_strbuf_append_char(out, ' ');
	while (out->n - begin < COMMENT_COLUMN);
	sc_strbuf_append(out, "# ");
	append_origin(config, path, out);
	sc_strbuf_append_char(out, '\n');
}

void sc_config_show(const struct sc_request *request, struct sc_strbuf *out)
{
	const struct sc_config *config = &request->config;
	size_t begin, heading;

	for (const struct sc_field *f = sc_config_fields; f->key; f++) {
		const unsigned char *place = (const unsigned char *)config + f->offset;

		if (f->type != SC_F_STRUCT) {
			append_line(config, f, "", place, out);
			continue;
		}
		begin = out->n;
		sc_strbuf_printf(out, "%s:\n", f->key);
		heading = out->n;
		for (const struct sc_field *sub = f->sub; sub->key; sub++)
			append_line(config, sub, f->key, place + sub->offset, out);
		if (out->n == heading) { /* nothing below it */
			out->n = begin;
			out->at[begin] = '\0';
		}
	}
}
