/* Requests in other programs' words. A table's section `write` lists what is written, in order;
 * what the target cannot say is found by reading back what was written, so that no list of ours can
 * be wrong about it. */
#include "report/config_export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/yaml.h"
#include "core/foreign/foreign.h"
#include "report/config_show.h"

const char *const sc_export_targets[] = {"megatron", "torchtitan", "deepspeed", NULL};
static const char *const FILES[] = {"export.args", "export.toml", "export.json"};

struct export
{
	const struct sc_request *request;
	struct sc_arena *arena;
	struct sc_strbuf *out;
	int target;
	const char **unknown;              /* a name of the table that says nothing of ours */
	char section[SC_FOREIGN_MAX_NAME]; /* that is open, of TOML and JSON; "" */
};

/* ---- values ---- */

static const char *export_value(const struct export *e, const char *path);

/* A chunk's layers as Megatron Core's --pipeline-model-parallel-layout; NULL: all have as many. */
static const char *layout_of(const struct export *e)
{
	const struct sc_config *c = &e->request->config;
	const int64_t n = c->parallel.pp * c->parallel.virtual_stages;
	int64_t *layers = sc_arena_calloc(e->arena, (size_t)n, sizeof(*layers));
	struct sc_strbuf text = {0};
	bool even = true;
	const char *copy;

	sc_stage_layers(e->request, layers);
	layers[n - 1] -= c->model.mtp_layers;
	for (int64_t i = 0; i < n; i++) {
		even = even && layers[i] == layers[0];
		sc_strbuf_append(&text, i == 0 ? "E" : "|");
		if (layers[i] > 0)
			sc_strbuf_printf(&text, "%st*%" PRId64, i == 0 ? "," : "", layers[i]);
		if (i == n - 1 && c->model.mtp_layers > 0)
			sc_strbuf_printf(&text, "%sm*%" PRId64, layers[i] > 0 ? "," : "",
					 c->model.mtp_layers);
	}
	sc_strbuf_append(&text, ",L");
	copy = n < 2 || even ? NULL : sc_arena_printf(e->arena, "'%s'", sc_strbuf_get(&text));
	sc_strbuf_release(&text);
	return copy;
}

/* The name of the model's file, without folder and ending. */
static const char *shape_name(const struct export *e)
{
	const struct sc_origin *origin = sc_config_origin(&e->request->config, "model.layers");
	const char *slash = origin ? strrchr(origin->file, '/') : NULL;
	const char *name = slash ? slash + 1 : origin ? origin->file : "";

	return sc_arena_strndup(e->arena, name, strcspn(name, "."));
}

/* "[a, b]" as "a b"; NULL where a word alone says what is run again. */
static const char *modules_of(const struct export *e)
{
	const char *value = export_value(e, "training.recompute");
	char *text = value && *value == '[' ? sc_arena_strdup(e->arena, value + 1) : NULL;

	for (char *at = text; at && *at; at++)
		if (*at == ',' || *at == ']')
			memmove(at, at + 1, strlen(at));
	return text;
}

static int64_t node_gpus(const struct sc_config *c)
{
	int64_t n = c->cluster.gpus_per_node;

	return n > 0 && n < c->gpus ? n : c->gpus;
}

/* A value that follows from several keys of ours. */
static const char *computed_text(const struct export *e, const char *name)
{
	const struct sc_config *c = &e->request->config;
	const int64_t unit = 128 * c->parallel.tp;
	const struct {
		const char *name;
		int64_t value;
	} counts[] = {
		{"node_gpus", node_gpus(c)},
		{"nodes", c->gpus / node_gpus(c)},
		{"replica_batch", c->training.global_batch / c->parallel.dp},
		{"vocab_unit", c->model.vocab % unit == 0 ? 128 : 1},
		{"shared_ffn", c->model.shared_experts * c->model.expert_ffn_hidden},
	};

	if (strcmp(name, "layout") == 0)
		return layout_of(e);
	if (strcmp(name, "recompute_modules") == 0)
		return modules_of(e);
	if (strcmp(name, "gqa") == 0)
		return c->model.kv_heads < c->model.heads ? "true" : NULL;
	if (strcmp(name, "window") == 0)
		return c->model.sliding_window > 0
			       ? sc_arena_printf(e->arena, "%" PRId64 ",0", c->model.sliding_window)
			       : NULL;
	if (strcmp(name, "moe_layers") == 0)
		return c->model.experts > 0 && c->model.dense_layers > 0
			       ? sc_arena_printf(e->arena, "'([0]*%" PRId64 "+[1]*%" PRId64 ")'",
						 c->model.dense_layers,
						 c->model.layers - c->model.dense_layers)
			       : NULL;
	if (strcmp(name, "shape") == 0)
		return shape_name(e);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		if (strcmp(name, counts[i].name) == 0)
			return sc_arena_printf(e->arena, "%" PRId64, counts[i].value);
	*e->unknown = name;
	return NULL;
}

/* The value of a key of ours, or of `computed`, as text; NULL: not given, and it does not apply. */
static const char *export_value(const struct export *e, const char *path)
{
	const struct sc_field_place at = sc_field_find(sc_config_fields, path, e->arena);
	struct sc_strbuf text = {0};
	const unsigned char *place;
	const char *copy;

	if (!at.field)
		return computed_text(e, path);
	place = (const unsigned char *)&e->request->config + at.base_offset + at.field->offset;
	if (at.field->type == SC_F_ENUM && *(const int *)place < 0)
		return NULL;
	if (at.field->type != SC_F_ENUM && at.field->type != SC_F_BOOL &&
	    sc_field_is_absent(at.field, place))
		return NULL;
	sc_config_show_value(at.field, place, &text);
	copy = sc_arena_strdup(e->arena, sc_strbuf_get(&text));
	sc_strbuf_release(&text);
	return copy;
}

/* One of "path", "path=form", "path>n" and "!" before it. */
static bool holds_one(const struct export *e, const char *condition)
{
	const bool is_not = *condition == '!';
	const char *path = condition + is_not, *sign = path + strcspn(path, "=>");
	const char *value =
		export_value(e, sc_arena_strndup(e->arena, path, (size_t)(sign - path)));
	double number = 0, least = 0;
	bool holds;

	if (*sign == '>')
		holds = value && sc_parse_double(value, &number) &&
			sc_parse_double(sign + 1, &least) && number > least;
	else
		holds = value &&
			(*sign ? sc_foreign_is_like(value, sign + 1) : strcmp(value, "false") != 0);
	return holds != is_not;
}

static bool export_holds(const struct export *e, const char *conditions)
{
	char one[SC_FOREIGN_MAX_NAME];

	while (sc_foreign_next(&conditions, " ", one))
		if (!holds_one(e, one))
			return false;
	return true;
}

/* ---- lines ---- */

/* A switch has no value on a command line: "" for it. */
static void write_option(const struct export *e, const char *key, const char *value)
{
	sc_strbuf_printf(e->out, "%s%s%s%s",
			 *key == '-' ? " \\\n  "
			 : e->out->n ? " "
				     : "",
			 key, *value ? " " : "", value);
}

/* Numbers and truth values are bare in TOML and JSON. */
static bool is_bare(const char *value)
{
	double number;

	return strcmp(value, "true") == 0 || strcmp(value, "false") == 0 || *value == '[' ||
	       sc_parse_double(value, &number);
}

static void close_section(struct export *e)
{
	if (e->target == 2 && *e->section)
		sc_strbuf_append(e->out, "\n  }");
	*e->section = '\0';
}

/* Keys of one section stand together in the table. */
static void write_key(struct export *e, const char *key, const char *value)
{
	const char *dot = strrchr(key, '.'), *quote = is_bare(value) ? "" : "\"";
	const int n = dot ? (int)(dot - key) : 0;
	const bool json = e->target == 2;

	if (strlen(e->section) != (size_t)n || strncmp(e->section, key, (size_t)n) != 0) {
		close_section(e);
		snprintf(e->section, sizeof(e->section), "%.*s", n, key);
		if (n && json)
			sc_strbuf_printf(e->out, "%s\n  \"%s\": {", e->out->n > 1 ? "," : "",
					 e->section);
		else if (n)
			sc_strbuf_printf(e->out, "%s[%s]\n", e->out->n ? "\n" : "", e->section);
	}
	key = dot ? dot + 1 : key;
	if (json) {
		const char last = sc_strbuf_get(e->out)[e->out->n - 1];

		sc_strbuf_printf(e->out, "%s\n%s\"%s\": %s%s%s", last == '{' ? "" : ",",
				 n ? "    " : "  ", key, quote, value, quote);
	} else {
		sc_strbuf_printf(e->out, "%s = %s%s%s\n", key, quote, value, quote);
	}
}

static const char *text_of(const struct sc_yaml *entry, const char *key)
{
	const struct sc_yaml *node = sc_yaml_get(entry, key);

	return node && node->kind == SC_YAML_SCALAR ? node->text : NULL;
}

/* An entry: `key`, theirs, `of` ours, or a `value`; `words`, ours to theirs, where another value is
 * not said; `if`. */
static void write_entry(struct export *e, const struct sc_yaml *entry)
{
	const struct sc_yaml *words = sc_yaml_get(entry, "words");
	const char *key = text_of(entry, "key"), *of = text_of(entry, "of");
	const char *value = text_of(entry, "value");

	if (!key || !export_holds(e, text_of(entry, "if")))
		return;
	if (!value)
		value = of ? export_value(e, of) : "";
	if (value && words)
		value = text_of(words, value);
	if (!value)
		return;
	if (e->target == 0)
		write_option(e, key, value);
	else
		write_key(e, key, value);
}

/* ---- read back ---- */

/* The lines of `sc_config_show` without where they came from, each "path: value". */
static void list_values(const struct sc_request *request, struct sc_arena *arena,
			struct sc_strbuf *out)
{
	struct sc_strbuf shown = {0};
	char section[SC_FOREIGN_MAX_NAME] = "";
	char *text, *line, *rest;

	sc_config_show(request, &shown);
	text = sc_arena_strdup(arena, sc_strbuf_get(&shown));
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *comment = strstr(line, " #");
		size_t n;

		if (comment)
			*comment = '\0';
		n = strlen(line);
		while (n && line[n - 1] == ' ')
			line[--n] = '\0';
		if (n && line[n - 1] == ':' && *line != ' ')
			snprintf(section, sizeof(section), "%.*s.", (int)n - 1, line);
		else if (*line == ' ')
			sc_strbuf_printf(out, "%s%s\n", section, line + strspn(line, " "));
		else
			sc_strbuf_printf(out, "%s\n", line);
	}
	sc_strbuf_release(&shown);
}

/* No program is told these: the machine, which software it is, and what only we ask. */
static bool is_ours_alone(const char *line)
{
	static const char *const names[] = {
		"schema", "notes",     "measured_ms",    "cluster.",  "training.software",
		"c3.",    "sharding.", "parallel.order", "model.file"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(line, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* Megatron's layout says each stage's layers; latent attention makes one family of two names. */
static bool is_said_otherwise(const struct export *e, const char *line)
{
	return (e->target == 0 && strncmp(line, "parallel.stage_layers", 21) == 0) ||
	       (sc_model_is_mla(&e->request->config.model) &&
		strncmp(line, "model.family", 12) == 0);
}

static void list_unsaid(const struct export *e, const struct sc_request *back,
			struct sc_strbuf *unsaid)
{
	struct sc_arena *arena = e->arena;
	struct sc_strbuf a = {0}, b = {0};
	char *line, *rest;

	list_values(e->request, arena, &a);
	list_values(back, arena, &b);
	for (line = strtok_r(sc_arena_strdup(arena, sc_strbuf_get(&a)), "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		const char *same = sc_arena_printf(arena, "\n%s\n", line);

		if (is_ours_alone(line) || is_said_otherwise(e, line) ||
		    strstr(sc_strbuf_get(&b), same) ||
		    strncmp(sc_strbuf_get(&b), same + 1, strlen(same + 1)) == 0)
			continue;
		sc_strbuf_printf(unsaid, "%s\n", line);
	}
	sc_strbuf_release(&a);
	sc_strbuf_release(&b);
}

static int read_back(const struct export *e, struct sc_catalog *catalog, struct sc_strbuf *unsaid,
		     struct sc_err *err)
{
	const struct sc_config *asked = &e->request->config;
	const struct sc_source text = {sc_strbuf_get(e->out), e->out->n, FILES[e->target]};
	struct sc_foreign_lines lines = {.arena = e->arena, .gpus = asked->gpus};
	struct sc_request *back = sc_arena_calloc(e->arena, 1, sizeof(*back));
	struct sc_config config;
	int rc = sc_foreign_add(&lines, &text, err);

	if (asked->gpus % node_gpus(asked))
		sc_strbuf_printf(unsaid, "gpus: %" PRId64 ", which are no whole nodes\n",
				 asked->gpus);
	if (rc == 0)
		rc = sc_foreign_finish(&lines, err);
	if (rc == 0)
		rc = sc_config_take(sc_foreign_tree(&lines, text.file), e->arena, &config, err);
	if (rc == 0) {
		config.cluster = asked->cluster;
		if (asked->training.software &&
		    strcmp(asked->training.software, config.training.software) != 0)
			sc_strbuf_printf(unsaid,
					 "training.software: %s; what was written is imported as "
					 "%s, unless --set says otherwise\n",
					 asked->training.software, config.training.software);
		config.training.software = asked->training.software;
		config.training.software_version = asked->training.software_version;
		if (config.gpus <= 0)
			config.gpus = asked->gpus;
		if (config.model.layers <= 0) {
			sc_strbuf_append(unsaid, "model, which its own file describes\n");
			config.model = asked->model;
		}
		rc = sc_config_resolve(&config, catalog, text.file, back, err);
	}
	if (rc)
		sc_err_prefix(err, "%s cannot be told this: what was written is not read back",
			      sc_export_targets[e->target]);
	else
		list_unsaid(e, back, unsaid);
	return rc;
}

int sc_export_target(const char *name, struct sc_err *err)
{
	for (int i = 0; sc_export_targets[i]; i++)
		if (strcmp(sc_export_targets[i], name) == 0)
			return i;
	return sc_err_set(err, SC_EUSAGE,
			  "--to: expected megatron, torchtitan or deepspeed, got \"%.64s\"", name);
}

int sc_config_export(const struct sc_request *request, const char *target,
		     struct sc_catalog *catalog, struct sc_arena *arena, struct sc_strbuf *out,
		     struct sc_strbuf *unsaid, struct sc_err *err)
{
	const char *unknown = NULL;
	struct export e = {.request = request, .arena = arena, .out = out, .unknown = &unknown};
	struct sc_foreign_lines lines = {.arena = arena};
	const struct sc_model *model = &request->config.model;
	const struct sc_foreign_table *table;
	const struct sc_yaml *list;
	int rc;

	e.target = sc_export_target(target, err);
	if (e.target < 0)
		return e.target;
	if (!sc_model_is_transformer(model) || model->layers_pattern)
		return sc_err_set(
			err, SC_EUNSUPPORTED, "--to %s: %s", target,
			model->layers_pattern
				? "layers of several kinds (model.layers_pattern) are not written"
				: "it trains Transformers alone");
	rc = sc_foreign_table_get(&lines, target, &table, err);
	if (rc)
		return rc;
	list = sc_yaml_get(table->root, "write");
	if (e.target == 2)
		sc_strbuf_append(out, "{");
	for (const struct sc_yaml *entry = list ? list->child : NULL; entry; entry = entry->next) {
		write_entry(&e, entry);
		if (unknown)
			return sc_err_at(err, SC_EVALUE, SC_AT(entry),
					 "\"%.64s\" is no key of ours, and follows from none",
					 unknown);
	}
	close_section(&e);
	sc_strbuf_append(out, e.target == 2 ? "\n}\n" : e.target == 0 ? "\n" : "");
	return read_back(&e, catalog, unsaid, err);
}
