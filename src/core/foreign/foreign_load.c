#include "core/foreign/foreign_load.h"

#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/toml.h"
#include "core/foreign/hf_model.h"
#include "core/foreign/megatron_keys.h"
#include "core/foreign/shell_args.h"
#include "core/foreign/torch_keys.h"
#include "core/foreign/torchrec_tables.h"

#define WANTED "--num-layers"

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

static int take(struct sc_foreign_lines *lines, const struct sc_foreign_format *format,
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
			return take(lines, MAPPINGS[i].format, map, err);
	return sc_err_at(err, SC_EFORMAT, map->file, map->line, map->column,
			 "neither of NeMo, Megatron-Bridge or DeepSpeed nor a config.json: none of "
			 "their sections is here");
}

/* Text may hold NULs: what is looked for is on lines without. */
static bool holds(const struct sc_source *text, const char *part)
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

static bool is_table_list(const struct sc_source *text)
{
	return sc_ends_with(text->file, ".py") || first_char(text) == '[' ||
	       holds(text, "EmbeddingBagConfig(") || holds(text, "EmbeddingConfig(") ||
	       (holds(text, "\"num_embeddings\"") && first_char(text) == '{');
}

int sc_foreign_add(struct sc_foreign_lines *lines, const struct sc_source *text, struct sc_err *err)
{
	bool is_tree = sc_ends_with(text->file, ".yaml") || sc_ends_with(text->file, ".yml") ||
		       sc_ends_with(text->file, ".json") || first_char(text) == '{';
	struct sc_yaml *map = NULL;
	int rc;

	if (sc_ends_with(text->file, ".csv"))
		return sc_torchrec_take(lines, text, true, err);
	if (sc_ends_with(text->file, ".toml")) {
		rc = sc_toml_parse(text, lines->arena, &map, err);
		return rc ? rc : take(lines, &sc_format_torchtitan, map, err);
	}
	if (is_table_list(text))
		return sc_torchrec_take(lines, text, false, err);
	if (is_tree) {
		rc = sc_yaml_parse(text, lines->arena, &map, err);
		return rc ? rc : take_mapping(lines, map, err);
	}
	if (!holds(text, WANTED))
		return sc_err_at(
			err, SC_EFORMAT, text->file, 0, 0,
			"not a config that is understood: no command with " WANTED
			", and its name ends neither in .yaml, .json, .toml, .py nor .csv");
	rc = sc_shell_args_parse(text, WANTED, lines->arena, &map, err);
	return rc ? rc : take(lines, &sc_format_megatron, map, err);
}

int sc_foreign_load(struct sc_foreign_lines *lines, const char *path, struct sc_err *err)
{
	char *text;
	size_t n;
	int rc = sc_file_read(path, SC_YAML_MAX_BYTES, &text, &n, err);

	if (rc)
		return rc;
	rc = sc_foreign_add(lines, &(struct sc_source){text, n, path}, err);
	free(text);
	return rc;
}
