/* Walks the field tables, so that a new key is shown without a change here. */
#include "report/config_show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fnv.h"
#include "base/num.h"

enum { COMMENT_COLUMN = 40, MAX_PATH_TEXT = 128, MAX_VALUE_TEXT = 64 };

/* Installed configs by their place in the configs folder, not on this machine. */
static const char *shown_file(const char *file)
{
	static const char folder[] = "/configs/";
	const char *shown = file;

	for (const char *at = strstr(file, folder); at && *file == '/'; at = strstr(at + 1, folder))
		shown = at + 1;
	return shown;
}

/* The text goes into a comment, which a line's end would close. */
static void append_comment(const char *text, struct sc_strbuf *out)
{
	for (; *text; text++)
		sc_strbuf_append_char(out,
				      (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
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
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(text, words[i]) == 0)
			return false;
	return true;
}

static void append_text(const char *text, struct sc_strbuf *out)
{
	if (is_plain(text)) {
		sc_strbuf_append(out, text);
		return;
	}
	sc_strbuf_append_char(out, '"');
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			sc_strbuf_printf(out, "\\%c", *text);
		else if ((unsigned char)*text < 0x20)
			sc_strbuf_printf(out, "\\x%02x", (unsigned)*text);
		else
			sc_strbuf_append_char(out, *text);
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

	if (n == 1 && field->names && sc_enum_name(field->names, (int)ints->at[0])) {
		sc_strbuf_append(out, sc_enum_name(field->names, (int)ints->at[0]));
		return;
	}
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

/* One name, or those of all its bits. */
static void append_flags(const struct sc_field *field, int value, struct sc_strbuf *out)
{
	const char *comma = "", *alone = sc_enum_name(field->names, value);

	if (alone) {
		sc_strbuf_append(out, alone);
		return;
	}
	sc_strbuf_append_char(out, '[');
	for (const struct sc_name *name = field->names; name->name; name++) {
		if (name->value < SC_FLAG || !(value & name->value))
			continue;
		sc_strbuf_printf(out, "%s%s", comma, name->name);
		comma = ", ";
	}
	sc_strbuf_append_char(out, ']');
}

static void append_structs(const struct sc_field *field, const void *place, struct sc_strbuf *out);
static void append_map(const struct sc_field *table, const unsigned char *element,
		       const struct sc_yaml *given, struct sc_strbuf *out);

void sc_config_show_value(const struct sc_field *field, const void *place, struct sc_strbuf *out)
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
	case SC_F_FLAGS:
		append_flags(field, *(const int *)place, out);
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
		append_map(field->sub, place, NULL, out);
		break;
	case SC_F_IGNORE:
		break;
	}
}

/* A mapping that a file holds is shown by its key `file`, which brings the rest. */
static const struct sc_field *file_key(const struct sc_field *table, const unsigned char *element)
{
	for (; table->key; table++)
		if (strcmp(table->key, "file") == 0 &&
		    !sc_field_is_absent(table, element + table->offset))
			return table;
	return NULL;
}

/* Appends a map; `given` limits it to the keys that it has. */
static void append_map(const struct sc_field *table, const unsigned char *element,
		       const struct sc_yaml *given, struct sc_strbuf *out)
{
	const struct sc_field *file = given ? NULL : file_key(table, element);
	const char *comma = "";

	sc_strbuf_append_char(out, '{');
	for (const struct sc_field *f = table; f->key; f++) {
		if (given ? !sc_yaml_get(given, f->key)
			  : sc_field_is_absent(f, element + f->offset) || (file && f != file))
			continue;
		sc_strbuf_printf(out, "%s%s: ", comma, f->key);
		sc_config_show_value(f, element + f->offset, out);
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
			   NULL, out);
	}
	sc_strbuf_append_char(out, ']');
}

/* The writer of the lines of a config. */
struct writer {
	const struct sc_config *config;       /* with origins */
	const struct sc_request *request;     /* NULL: what was imported */
	const struct sc_foreign_lines *lines; /* or NULL */
	bool is_bare;                         /* values alone, without where they came from */
};

static void begin_comment(size_t begin, struct sc_strbuf *out)
{
	do
		sc_strbuf_append_char(out, ' ');
	while (out->n - begin < COMMENT_COLUMN);
	sc_strbuf_append(out, "# ");
}

/* `value` as it is shown. */
static void append_origin(const struct writer *w, const struct sc_field *field, const char *path,
			  const char *value, struct sc_strbuf *out)
{
	const struct sc_origin *origin = field->type == SC_F_STRUCT
						 ? sc_config_origin_near(w->config, path)
						 : sc_config_origin(w->config, path);
	const struct sc_habit *habit =
		origin || !w->request ? NULL : sc_habit_taken(w->request, path);
	bool plain = !field->from || (field->plain && strcmp(field->plain, value) == 0);

	if (habit)
		origin = &habit->origin;
	if (!origin)
		sc_strbuf_append(out, plain ? "default" : field->from);
	else
		append_comment(shown_file(origin->file), out);
	if (origin && origin->line)
		sc_strbuf_printf(out, ":%u", origin->line);
}

static const struct sc_foreign_line *imported_line(const struct writer *w, const char *path)
{
	size_t n = strlen(path);

	for (const struct sc_foreign_line *line = w->lines ? w->lines->first : NULL; line;
	     line = line->next)
		if (strncmp(line->path, path, n) == 0 && (!line->path[n] || line->path[n] == '.'))
			return line;
	return NULL;
}

/* Tables one a line, with the keys that are given; `node` is what the list was made of. */
static void append_elements(const struct sc_field *field, const struct sc_structs *list,
			    const struct sc_yaml *node, struct sc_strbuf *out)
{
	const unsigned char *at = list->at, *end = at + list->n * field->elem_bytes;

	for (const struct sc_yaml *one = node->child; one && at < end; one = one->next) {
		size_t begin;

		sc_strbuf_append_char(out, '\n');
		begin = out->n;
		sc_strbuf_append(out, "    - ");
		append_map(field->sub, at, one, out);
		begin_comment(begin, out);
		append_comment(one->file, out);
		sc_strbuf_printf(out, ":%u", one->line);
		at += field->elem_bytes;
	}
	sc_strbuf_append_char(out, '\n');
}

static void append_import(const struct writer *w, const struct sc_field *field, const char *section,
			  const void *place, struct sc_strbuf *out)
{
	const struct sc_foreign_line *line;
	const struct sc_origin *origin;
	char path[MAX_PATH_TEXT];
	size_t begin = out->n;

	snprintf(path, sizeof(path), "%s%s%s", section, *section ? "." : "", field->key);
	line = imported_line(w, path);
	origin = sc_config_origin(w->config, path);
	if (!(origin || (line && field->type == SC_F_STRUCT)))
		return;
	if (line && origin && strcmp(origin->file, line->node->file) != 0)
		line = NULL; /* another value has its place */
	sc_strbuf_printf(out, "%s%s: ", *section ? "  " : "", field->key);
	if (line && line->node->child && field->type == SC_F_STRUCTS) {
		out->n--;
		append_elements(field, place, line->node, out);
		return;
	}
	sc_config_show_value(field, place, out);
	begin_comment(begin, out);
	append_origin(w, field, path, "", out);
	if (line) {
		sc_strbuf_append_char(out, ' ');
		append_comment(line->theirs, out);
	}
	sc_strbuf_append_char(out, '\n');
}

static void append_line(const struct writer *w, const struct sc_field *field, const char *section,
			const void *place, struct sc_strbuf *out)
{
	const struct sc_request *request = w->request;
	char path[MAX_PATH_TEXT], value[MAX_VALUE_TEXT];
	size_t begin = out->n, value_at;
	bool has_name;

	if (!request) {
		append_import(w, field, section, place, out);
		return;
	}
	/* Values that are still "not given" after resolving do not apply to this request, nor do
	 * those that no file may give. */
	has_name = (field->type == SC_F_ENUM || field->type == SC_F_FLAGS) &&
		   sc_enum_name(field->names, *(const int *)place);
	if (field->type != SC_F_BOOL && !has_name &&
	    (field->type == SC_F_ENUM || sc_field_is_absent(field, place) ||
	     (field->type == SC_F_INT && (double)*(const int64_t *)place < field->min)))
		return;
	snprintf(path, sizeof(path), "%s%s%s", section, *section ? "." : "", field->key);
	sc_strbuf_printf(out, "%s%s: ", *section ? "  " : "", field->key);
	value_at = out->n;
	sc_config_show_value(field, place, out);
	if (w->is_bare) {
		sc_strbuf_append_char(out, '\n');
		return;
	}
	snprintf(value, sizeof(value), "%s", out->at + value_at);
	begin_comment(begin, out);
	append_origin(w, field, path, value, out);
	if (strcmp(path, "training.software") == 0 &&
	    strcmp(value, request->config.training.software) != 0)
		sc_strbuf_printf(out, ": %s, whose release or successor this is",
				 request->config.training.software);
	if (strcmp(path, "parallel.schedule") == 0 && w->config->parallel.schedule_chosen)
		sc_strbuf_append(out, ": auto");
	sc_strbuf_append_char(out, '\n');
}

static void append_all(const struct writer *w, const struct sc_config *values,
		       struct sc_strbuf *out)
{
	size_t begin, heading;

	for (const struct sc_field *f = sc_config_fields; f->key; f++) {
		const unsigned char *place = (const unsigned char *)values + f->offset;

		if (f->type != SC_F_STRUCT) {
			append_line(w, f, "", place, out);
			continue;
		}
		begin = out->n;
		sc_strbuf_printf(out, "%s:\n", f->key);
		heading = out->n;
		for (const struct sc_field *sub = f->sub; sub->key; sub++)
			append_line(w, sub, f->key, place + sub->offset, out);
		if (out->n == heading) { /* nothing below it */
			out->n = begin;
			out->at[begin] = '\0';
		}
	}
}

static void append_resolved(const struct sc_request *request, bool is_bare, struct sc_strbuf *out)
{
	const struct writer writer = {
		.config = &request->config, .request = request, .is_bare = is_bare};
	struct sc_config simulated = request->config;

	simulated.training.software = request->software.id;
	append_all(&writer, &simulated, out);
}

void sc_config_show(const struct sc_request *request, struct sc_strbuf *out)
{
	append_resolved(request, false, out);
}

const char *sc_config_hash(const struct sc_request *request, char buf[static SC_CONFIG_HASH_BYTES])
{
	struct sc_strbuf text = {0};

	append_resolved(request, true, &text);
	snprintf(buf, SC_CONFIG_HASH_BYTES, "%016" PRIx64,
		 sc_fnv(SC_FNV_START, sc_strbuf_get(&text), text.n));
	sc_strbuf_release(&text);
	return buf;
}

static void append_ignored(const struct sc_foreign_line *line, enum sc_foreign_ignored why,
			   const char *heading, struct sc_strbuf *out)
{
	for (; line; line = line->next) {
		if (line->why != why)
			continue;
		sc_strbuf_printf(out, "%s# ", heading);
		heading = "";
		append_comment(line->node->file, out);
		sc_strbuf_printf(out, ":%u ",
				 line->node->key_line ? line->node->key_line : line->node->line);
		append_comment(line->theirs, out);
		sc_strbuf_append_char(out, '\n');
	}
}

void sc_config_show_import(const struct sc_config *config, const struct sc_foreign_lines *lines,
			   struct sc_strbuf *out)
{
	const struct writer writer = {.config = config, .lines = lines};

	sc_strbuf_append(out, "schema: stepcast/1\n");
	append_all(&writer, config, out);
	append_ignored(
		lines->ignored, SC_IGNORED_UNKNOWN,
		"# Not taken over, for these are not understood: a step may cost more or less "
		"with them:\n",
		out);
	append_ignored(
		lines->ignored, SC_IGNORED_SOFTWARE,
		"# Not taken over; training.software stands for these, and may do otherwise:\n",
		out);
	append_ignored(lines->ignored, SC_IGNORED_OPEN,
		       "# Not taken over: left open here, for what starts the program to fill in; "
		       "give them with --set where they matter:\n",
		       out);
	append_ignored(lines->ignored, SC_IGNORED_BESIDE,
		       "# Not taken over, for they say nothing beside the other keys:\n", out);
	append_ignored(lines->ignored, SC_IGNORED_FREE,
		       "# Not taken over, for a step costs as much without:\n", out);
}
