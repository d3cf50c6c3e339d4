/* Reads the files that `config import` and `model.tables` name: YAML, JSON, TOML, CSV, a list of
 * Python or a command line, told apart by their names and first bytes. Source of the keys of
 * tables: torchrec/modules/embedding_configs.py. */
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/py_list.h"
#include "base/toml.h"
#include "core/foreign/foreign.h"

/* In a cell of CSV names are apart by spaces, ';' or '|'. */
static int take_features(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *names = sc_foreign_get(file, "feature_names");
	const char *text = names && names->node->text ? names->node->text : "";
	int64_t n = names ? (int64_t)names->node->n_children : 0;

	for (size_t at = 0; text[at]; n++) {
		at += strcspn(text + at, " ;|");
		at += strspn(text + at, " ;|");
	}
	return n > 0 ? sc_foreign_put_count(file, names, "features", n, err) : 0;
}

static const struct sc_foreign_format FORMAT = {
	.name = "tables of TorchRec", .table = "torchrec", .strict = true, .finish = take_features};

/* One table, as a mapping of ours. */
static int take_table(struct sc_foreign_lines *lines, const struct sc_yaml *map,
		      struct sc_yaml **out, struct sc_err *err)
{
	struct sc_foreign_lines own = {
		.arena = lines->arena, .tables = lines->tables, .lenient = lines->lenient};
	struct sc_foreign table = {.format = &FORMAT, .lines = &own};
	int rc;

	if (map->kind != SC_YAML_MAP)
		return sc_err_at(err, SC_EVALUE, SC_AT(map),
				 "expected a table, as in EmbeddingBagConfig(name=\"t\", "
				 "num_embeddings=1000, embedding_dim=64, feature_names=[\"f\"])");
	rc = sc_foreign_take(&table, map, err);
	lines->tables = own.tables;
	lines->problems = own.problems;
	if (rc == 0)
		rc = sc_foreign_finish(&own, err);
	if (rc)
		return rc;
	*out = sc_foreign_tree(&own, map->file);
	(*out)->line = map->line;
	(*out)->column = map->column;
	/* Keys without cost are alike in all tables: those of the first are named. */
	if (!lines->ignored) {
		lines->ignored = own.ignored;
		lines->last_ignored = own.last_ignored;
	}
	return 0;
}

static int take_list(struct sc_foreign_lines *lines, const struct sc_yaml *list, struct sc_err *err)
{
	struct sc_foreign *file = sc_arena_calloc(lines->arena, 1, sizeof(*file));
	struct sc_yaml *tables = sc_arena_alloc(lines->arena, sizeof(*tables)), **link;
	const struct sc_foreign_leaf leaf = {.path = "the list", .bare = "", .node = tables};
	int rc = 0;

	*file = (struct sc_foreign){.format = &FORMAT, .lines = lines, .map = list};
	*tables = *list;
	tables->child = NULL;
	link = &tables->child;
	for (const struct sc_yaml *one = list->child; one && rc == 0; one = one->next) {
		rc = take_table(lines, one, link, err);
		if (rc == 0)
			link = &(*link)->next;
	}
	if (rc == 0 && !tables->child)
		rc = sc_err_at(err, SC_EVALUE, SC_AT(list), "no table is in this list");
	if (rc == 0)
		rc = sc_foreign_put(file, &leaf, "model.tables", NULL, err);
	if (rc == 0)
		rc = sc_foreign_put(file, &leaf, "model.family", "dlrm", err);
	return rc ? rc : sc_foreign_put(file, &leaf, "training.software", "torchrec", err);
}

/* Empty cells are not given. */
static struct sc_yaml *rows_of(const struct sc_csv *csv, struct sc_arena *arena)
{
	struct sc_yaml *list = sc_arena_calloc(arena, 1, sizeof(*list)), **link = &list->child;

	list->kind = SC_YAML_SEQ;
	list->file = csv->file;
	list->line = list->column = 1;
	for (size_t row = 0; row < csv->n_rows; row++) {
		struct sc_yaml *map = sc_arena_calloc(arena, 1, sizeof(*map)), **cell = &map->child;

		map->kind = SC_YAML_MAP;
		map->file = csv->file;
		map->line = csv->line[row];
		map->column = 1;
		for (size_t col = 0; col < csv->n_cols; col++)
			if (*sc_csv_cell(csv, row, col)) {
				struct sc_yaml *node = sc_arena_calloc(arena, 1, sizeof(*node));

				node->file = csv->file;
				node->line = node->key_line = csv->line[row];
				node->column = node->key_column = 1;
				node->key = csv->header[col];
				node->text = sc_csv_cell(csv, row, col);
				*cell = node;
				cell = &(*cell)->next;
				map->n_children++;
			}
		*link = map;
		link = &map->next;
		list->n_children++;
	}
	return list;
}

static int torchrec_take(struct sc_foreign_lines *lines, const struct sc_source *text, bool is_csv,
			 struct sc_err *err)
{
	struct sc_source own = *text;
	struct sc_yaml *list = NULL;
	struct sc_csv csv;
	int rc;

	own.file = sc_arena_strdup(lines->arena, text->file);
	rc = is_csv ? sc_csv_parse(&own, lines->arena, &csv, err)
		    : sc_py_list_parse(&own, lines->arena, &list, err);
	if (rc)
		return rc;
	return take_list(lines, is_csv ? rows_of(&csv, lines->arena) : list, err);
}

#define WANTED "--hidden-size"

/* By a key that the format's files have at the top. */
static const struct {
	const char *key;
	const struct sc_foreign_format *format;
} MAPPINGS[] = {
	{"model_type", &sc_format_hf},
	{"train_batch_size", &sc_format_deepspeed},
	{"train_micro_batch_size_per_gpu", &sc_format_deepspeed},
	{"zero_optimization", &sc_format_deepspeed},
	{"gradient_accumulation_steps", &sc_format_deepspeed},
	{"trainer", &sc_format_nemo},
	{"train", &sc_format_nemo},
	{"model", &sc_format_nemo},
};

static int format_take(struct sc_foreign_lines *lines, const struct sc_foreign_format *format,
		       const struct sc_yaml *map, struct sc_err *err)
{
	struct sc_foreign *file = sc_arena_calloc(lines->arena, 1, sizeof(*file));

	*file = (struct sc_foreign){.format = format, .lines = lines};
	return sc_foreign_take(file, map, err);
}

static int take_mapping(struct sc_foreign_lines *lines, const struct sc_yaml *map,
			struct sc_err *err)
{
	for (size_t i = 0; i < sizeof(MAPPINGS) / sizeof(MAPPINGS[0]); i++)
		if (sc_yaml_get(map, MAPPINGS[i].key))
			return format_take(lines, MAPPINGS[i].format, map, err);
	return sc_err_at(err, SC_EFORMAT, SC_AT(map),
			 "neither of NeMo, Megatron-Bridge or DeepSpeed nor a config.json: none of "
			 "their sections is here");
}

/* Text may hold NULs: what is looked for is on lines without. */
static bool text_holds(const struct sc_source *text, const char *part)
{
	size_t n = strlen(part);

	for (size_t i = 0; i + n <= text->n; i++)
		if (text->text[i] == part[0] && memcmp(text->text + i, part, n) == 0)
			return true;
	return false;
}

static char first_char(const struct sc_source *text)
{
	for (size_t i = 0; i < text->n; i++)
		if (!strchr(" \t\r\n", text->text[i]))
			return text->text[i];
	return '\0';
}

int sc_foreign_add(struct sc_foreign_lines *lines, const struct sc_source *text, struct sc_err *err)
{
	bool is_tree = sc_ends_with(text->file, ".yaml") || sc_ends_with(text->file, ".yml") ||
		       sc_ends_with(text->file, ".json") || first_char(text) == '{';
	struct sc_yaml *map = NULL;
	int rc;

	if (sc_ends_with(text->file, ".csv"))
		return torchrec_take(lines, text, true, err);
	if (sc_ends_with(text->file, ".toml")) {
		rc = sc_toml_parse(text, lines->arena, &map, err);
		return rc ? rc : format_take(lines, &sc_format_torchtitan, map, err);
	}
	if (sc_ends_with(text->file, ".py") || first_char(text) == '[' ||
	    text_holds(text, "EmbeddingBagConfig(") || text_holds(text, "EmbeddingConfig(") ||
	    (text_holds(text, "\"num_embeddings\"") && first_char(text) == '{'))
		return torchrec_take(lines, text, false, err);
	if (is_tree) {
		rc = sc_yaml_parse(text, lines->arena, &map, err);
		return rc ? rc : take_mapping(lines, map, err);
	}
	if (!text_holds(text, WANTED))
		return sc_err_at(
			err, SC_EFORMAT, text->file, 0, 0,
			"not a config that is understood: no command with " WANTED
			", and its name ends neither in .yaml, .json, .toml, .py nor .csv");
	rc = sc_shell_args_parse(text, WANTED, lines->arena, &map, err);
	return rc ? rc : format_take(lines, &sc_format_megatron, map, err);
}

int sc_foreign_load(struct sc_foreign_lines *lines, const char *path, struct sc_err *err)
{
	struct sc_source source;
	int rc = sc_file_read(path, SC_YAML_MAX_BYTES, &source, err);

	if (rc == 0)
		rc = sc_foreign_add(lines, &source, err);
	sc_source_release(&source);
	return rc;
}
