#include "report/keys.h"

#include <stdio.h>
#include <string.h>

#include "core/config/config.h"
#include "core/embedding/reuse.h"
#include "core/machine/device.h"
#include "core/machine/fabric.h"
#include "core/machine/software.h"

enum { MAX_PATH = 200, PATH_COLUMN = 34 };

static const struct {
	const char *title, *where;
	const struct sc_field *fields;
} files[] = {
	{"Requests",
	 "a config, --set, columns of a table; cluster and model also as files of their own",
	 sc_config_fields},
	{"Devices", "configs/devices", sc_device_fields},
	{"Fabrics", "configs/fabrics", sc_fabric_fields},
	{"Software", "configs/software", sc_software_fields},
};

struct keys_writer {
	const char *pattern;
	const char *title, *where; /* of the file, until its first key is written */
	bool markdown;
	size_t n;
	struct sc_strbuf *out;
};

static bool has_value(const struct sc_field *field, const char *word, size_t n)
{
	bool has = false;

	for (const struct sc_name *name = field->names; name && name->name && !has; name++)
		has = sc_text_has(name->name, word, n);
	return has;
}

static bool matches(const struct keys_writer *w, const char *path, const struct sc_field *field)
{
	const char *at = w->pattern ? w->pattern : "";

	for (size_t n; *at; at += n) {
		at += strspn(at, " ");
		n = strcspn(at, " ");
		if (n > 0 && !sc_text_has(path, at, n) && !sc_text_has(field->help, at, n) &&
		    !has_value(field, at, n))
			return false;
	}
	return true;
}

static const char *needs_text(unsigned needs)
{
	static const struct sc_name names[] = {
		{"Transformers", SC_NEEDS_TRANSFORMER},
		{"DLRMs", SC_NEEDS_DLRM},
		{"mixtures of experts", SC_NEEDS_EXPERTS},
		{"LoRA", SC_NEEDS_LORA},
		{"tables of layers", SC_NEEDS_LAYERS},
		{"tori", SC_NEEDS_TORUS},
		{"K-FAC", SC_NEEDS_KFAC},
		{0},
	};
	return sc_enum_name(names, (int)needs);
}

/* What stands for a value that is not given, if the table knows it. */
static void append_absent(const struct sc_field *field, struct sc_strbuf *out)
{
	bool is_number = field->type == SC_F_INT || field->type == SC_F_DOUBLE;
	const char *name = field->names && field->absent >= 0
				   ? sc_enum_name(field->names, (int)field->absent)
				   : NULL;

	if (field->required)
		sc_strbuf_append(out, "must be given");
	else if (field->from && field->plain)
		sc_strbuf_printf(out, "%s, or what %s says", field->plain, field->from);
	else if (field->from && strncmp(field->from, "default: ", 9) == 0)
		sc_strbuf_append(out, field->from + 9);
	else if (field->from)
		sc_strbuf_append(out, field->from);
	else if (name)
		sc_strbuf_append(out, name);
	else if (is_number && field->absent > 0)
		sc_strbuf_printf(out, "%.15g", field->absent);
	else if (field->type == SC_F_BOOL)
		sc_strbuf_append(out, "false");
}

static void append_cell(const char *text, bool markdown, struct sc_strbuf *out)
{
	for (; *text; text++) {
		if (markdown && (*text == '|' || *text == '*' || *text == '<'))
			sc_strbuf_append_char(out, '\\');
		sc_strbuf_append_char(out, *text);
	}
}

static void begin_file(struct keys_writer *w)
{
	if (!w->title)
		return;
	if (w->markdown)
		sc_strbuf_printf(w->out,
				 "\n## %s\n\n%s\n\n| key | value | default | meaning |\n"
				 "|---|---|---|---|\n",
				 w->title, w->where);
	else
		sc_strbuf_printf(w->out, "%s%s (%s)\n", w->n ? "\n" : "", w->title, w->where);
	w->title = NULL;
}

static void write_key(struct keys_writer *w, const char *path, const struct sc_field *field)
{
	struct sc_strbuf value = {0}, absent = {0}, *out = w->out;
	const char *whose = needs_text(field->needs), *help = field->help ? field->help : "";

	begin_file(w);
	w->n++;
	sc_field_value_text(field, &value);
	append_absent(field, &absent);
	if (w->markdown) {
		sc_strbuf_printf(out, "| `%s` | ", path);
		append_cell(sc_strbuf_get(&value), true, out);
		sc_strbuf_append(out, " | ");
		append_cell(sc_strbuf_get(&absent), true, out);
		sc_strbuf_append(out, " | ");
		append_cell(help, true, out);
		sc_strbuf_printf(out, "%s%s%s |\n", whose ? " (" : "", whose ? whose : "",
				 whose ? ")" : "");
	} else {
		sc_strbuf_printf(out, "  %-*s %s", PATH_COLUMN, path, sc_strbuf_get(&value));
		if (absent.n)
			sc_strbuf_printf(out, "; default: %s", sc_strbuf_get(&absent));
		sc_strbuf_printf(out, "\n  %*s %s%s%s%s\n", PATH_COLUMN, "", help,
				 whose ? " (" : "", whose ? whose : "", whose ? ")" : "");
	}
	sc_strbuf_release(&value);
	sc_strbuf_release(&absent);
}

static void write_table(struct keys_writer *w, const struct sc_field *table, const char *prefix)
{
	char path[MAX_PATH];

	for (const struct sc_field *field = table; field->key; field++) {
		snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", field->key);
		if ((field->type != SC_F_STRUCT || field->may_be_file) && matches(w, path, field))
			write_key(w, path, field);
		if (field->type == SC_F_STRUCTS)
			snprintf(path, sizeof(path), "%s%s%s[]", prefix, *prefix ? "." : "",
				 field->key);
		if (field->sub)
			write_table(w, field->sub, path);
	}
}

size_t sc_keys_write(const char *pattern, bool markdown, struct sc_strbuf *out)
{
	struct keys_writer w = {.pattern = pattern, .markdown = markdown, .out = out};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		w.title = files[i].title;
		w.where = files[i].where;
		write_table(&w, files[i].fields, "");
	}
	return w.n;
}
