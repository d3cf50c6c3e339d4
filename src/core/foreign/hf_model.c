/* Source: the configuration_*.py of transformers. */
#include "core/foreign/foreign.h"

#include <string.h>

#include "base/num.h"

/* The row of a model_type, of a wrapper with vision or speech that of its language half; NULL with
 * an error where it is not known. */
static const struct sc_yaml *type_of(const struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_yaml *language = sc_yaml_get(file->map, "text_config");
	const struct sc_yaml *inner = language && language->kind == SC_YAML_MAP
					      ? sc_yaml_get(language, SC_HF_MARK)
					      : NULL;
	const struct sc_yaml *given = inner ? inner : sc_yaml_get(file->map, SC_HF_MARK);
	const struct sc_yaml *types = sc_yaml_get(file->table->root, "types"), *type;
	const bool is_name = given->kind == SC_YAML_SCALAR;
	const char **names, *near;
	size_t n = 0;

	names = sc_arena_calloc(file->lines->arena, types ? types->n_children : 1, sizeof(*names));
	for (type = types ? types->child : NULL; type; type = type->next) {
		if (is_name && strcmp(type->key, given->text) == 0)
			return type;
		names[n++] = type->key;
	}
	near = is_name && n ? sc_nearest(given->text, names, n) : NULL;
	sc_err_at(err, SC_EVALUE, SC_AT(given),
		  "model_type \"%.64s\" is not known%s%s%s; write its shape as a model file, as in "
		  "configs/models",
		  is_name ? given->text : "?", near ? " (did you mean \"" : "", near ? near : "",
		  near ? "\"?)" : "");
	return NULL;
}

static bool is_null(const struct sc_foreign_leaf *leaf)
{
	return !leaf || sc_yaml_is_null(leaf->node);
}

/* Layers' kinds as one that is full in so many; 0: all are, -1: none is, -2: another order. */
static int64_t period_of(const struct sc_yaml *types)
{
	int64_t first = 0, i = 0;

	for (const struct sc_yaml *one = types->child; one; one = one->next) {
		bool full = one->kind == SC_YAML_SCALAR && strcmp(one->text, "full_attention") == 0;

		if (!full &&
		    (one->kind != SC_YAML_SCALAR || strcmp(one->text, "sliding_attention") != 0))
			return -2;
		i++;
		first = full && !first ? i : first;
		if (first && full != (i % first == 0))
			return -2;
	}
	return first == 1 ? 0 : first ? first : -1;
}

/* All but one layer in so many are of linear attention, where no list says it (Qwen3-Next). */
static int take_interval(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *at = sc_foreign_get(file, "layer_types");
	int64_t layers = sc_foreign_ours(file, "model.layers", 0), every;

	if (!is_null(at))
		return at->node->kind == SC_YAML_SEQ ? 0
						     : sc_foreign_fail(at, err, "expected a list");
	at = sc_foreign_get(file, "full_attention_interval");
	if (is_null(at))
		return 0;
	every = sc_foreign_count(file, at->path, 0);
	if (every < 2 || layers % every)
		return sc_foreign_fail(at, err, "expected a divisor of the number of layers");
	return sc_foreign_put(file, at, "model.layers_pattern",
			      sc_arena_printf(file->lines->arena,
					      "(%d*linear_attention,full_attention)*%d",
					      (int)every - 1, (int)(layers / every)),
			      err);
}

/* One layer of attention in so many, at an offset; others are Mamba's (configuration_jamba.py). */
static int take_offset(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *at = sc_foreign_get(file, "attn_layer_period");
	int64_t layers = sc_foreign_ours(file, "model.layers", 0), every, before;

	if (is_null(at))
		return 0;
	every = sc_foreign_count(file, at->path, 0);
	before = sc_foreign_count(file, "attn_layer_offset", 0);
	if (every < 2 || layers % every || before >= every)
		return sc_foreign_fail(at, err,
				       "expected a divisor of the number of layers above "
				       "attn_layer_offset");
	return sc_foreign_put(
		file, at, "model.layers_pattern",
		sc_arena_printf(
			file->lines->arena, "(%s,%d*mamba1)*%d",
			before ? sc_arena_printf(file->lines->arena, "%d*mamba1,attn", (int)before)
			       : "attn",
			(int)(every - 1 - before), (int)(layers / every)),
		err);
}

static bool has_number(const struct sc_foreign_leaf *leaf, int64_t number)
{
	int64_t n;

	for (const struct sc_yaml *one = leaf ? leaf->node->child : NULL; one; one = one->next)
		if (one->kind == SC_YAML_SCALAR && sc_parse_int(one->text, &n) && n == number)
			return true;
	return false;
}

/* Kimi-Linear lists the numbers of its layers, of one kind and of the other. */
static int take_kimi_layers(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *kda = sc_foreign_get(file, "linear_attn_config.kda_layers");
	const struct sc_foreign_leaf *full =
		sc_foreign_get(file, "linear_attn_config.full_attn_layers");
	int64_t layers = sc_foreign_ours(file, "model.layers", 0);
	const char *text = "";

	if (is_null(kda) && is_null(full))
		return 0;
	for (int64_t i = 1; i <= layers && i <= SC_FOREIGN_MAX_LAYERS; i++) {
		bool is_kda = has_number(kda, i);

		if (is_kda == has_number(full, i))
			return sc_foreign_fail(kda ? kda : full, err,
					       "expected each layer's number, from 1 on, in one of "
					       "kda_layers and full_attn_layers");
		text = sc_arena_printf(file->lines->arena, "%s%s%s", text, i > 1 ? "," : "",
				       is_kda ? "kda" : "attn");
	}
	return sc_foreign_put(file, kda ? kda : full, "model.layers_pattern", text, err);
}

/* Qwen2's windows are those of the layers from max_window_layers on. */
static bool has_windows(const struct sc_foreign *file)
{
	const struct sc_foreign_leaf *window = sc_foreign_get(file, "sliding_window");
	int64_t layers = sc_foreign_ours(file, "model.layers", 0);

	return !is_null(window) && !sc_foreign_holds(file, "layer_types=linear_attention") &&
	       !sc_foreign_holds(file, "use_sliding_window=false") &&
	       !(sc_foreign_holds(file, "use_sliding_window") &&
		 sc_foreign_count(file, "max_window_layers", 0) >= layers);
}

static int take_windows(struct sc_foreign *file, const struct sc_yaml *type, struct sc_err *err)
{
	const struct sc_foreign_leaf *window = sc_foreign_get(file, "sliding_window"), *pattern;
	const struct sc_foreign_leaf *types, *from;
	const struct sc_yaml *windows = sc_yaml_get(type, "windows");
	int64_t period = -1;
	int rc;

	if (!has_windows(file))
		return 0;
	pattern = sc_foreign_get(file, "*sliding_window_pattern");
	types = sc_foreign_get(file, "layer_types");
	from = sc_foreign_get(file, "max_window_layers");
	if (windows)
		(void)sc_parse_int(windows->text, &period);
	if (sc_foreign_holds(file, "use_sliding_window") && from &&
	    sc_foreign_count(file, from->path, 0))
		return sc_foreign_fail(from, err,
				       "windows of the last layers alone are not understood");
	if (!is_null(pattern))
		period = sc_foreign_count(file, pattern->path, period);
	if (!is_null(types))
		period = period_of(types->node);
	if (period == -2)
		return sc_foreign_fail(types, err,
				       "expected sliding_attention, and every n-th "
				       "layer full_attention");
	if (period == 0)
		return 0;
	rc = sc_foreign_put(file, window, "model.sliding_window", NULL, err);
	return rc || period < 0 ? rc
				: sc_foreign_put_count(file, is_null(types) ? window : types,
						       "model.full_attention_every", period, err);
}

/* Takes what a type implies where its file does not say it. */
static int take_implied(struct sc_foreign *file, const struct sc_yaml *type, struct sc_err *err)
{
	const struct sc_foreign_leaf *at = sc_foreign_get(file, SC_HF_MARK);
	int rc = 0;

	for (const struct sc_yaml *one = type->child; one && rc == 0; one = one->next) {
		const char *path = sc_arena_printf(file->lines->arena, "model.%s", one->key);

		if (one->kind == SC_YAML_SCALAR && strcmp(one->key, "windows") != 0)
			rc = sc_foreign_put(file, at, path, one->text, err);
	}
	type = sc_yaml_get(type, "of");
	for (const struct sc_yaml *one = type ? type->child : NULL; one && rc == 0;
	     one = one->next) {
		const struct sc_foreign_leaf *leaf = sc_foreign_get(file, one->text);

		if (!is_null(leaf))
			rc = sc_foreign_put(
				file, leaf,
				sc_arena_printf(file->lines->arena, "model.%s", one->key), NULL,
				err);
	}
	return rc;
}

/* A type's layers that are not modelled are named before any of its keys. */
static int begin_hf(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_yaml *type = type_of(file, err);
	const struct sc_yaml *needs = type ? sc_yaml_get(type, "needs") : NULL;
	const struct sc_yaml *at = sc_yaml_get(file->map, SC_HF_MARK);

	if (!needs)
		return type ? 0 : -(int)SC_EVALUE;
	return sc_err_at(err, SC_EUNSUPPORTED, SC_AT(at),
			 "model_type %.40s needs %.80s, which is not modelled", type->key,
			 needs->text);
}

static int finish_hf(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *embed = sc_foreign_get(file, "word_embed_proj_dim");
	const struct sc_yaml *type = type_of(file, err);
	int64_t hidden = sc_foreign_count(file, "hidden_size", 0);
	int rc;

	if (!type)
		return -(int)SC_EVALUE;
	if (!is_null(embed) && hidden && sc_foreign_count(file, embed->path, hidden) != hidden)
		return sc_foreign_fail(embed, err,
				       "embeddings of another width are not understood");
	rc = take_interval(file, err);
	if (rc == 0)
		rc = take_offset(file, err);
	if (rc == 0)
		rc = take_kimi_layers(file, err);
	if (rc == 0)
		rc = take_windows(file, type, err);
	return rc ? rc : take_implied(file, type, err);
}

static const char *const SECTIONS[] = {"text_config.", NULL};
const struct sc_foreign_format sc_format_hf = {.name = "config.json of Hugging Face",
					       .table = "huggingface",
					       .begin = begin_hf,
					       .sections = SECTIONS,
					       .finish = finish_hf};

int sc_hf_model_take(struct sc_yaml *map, struct sc_arena *arena, struct sc_err *err)
{
	struct sc_foreign_lines lines = {.arena = arena};
	struct sc_foreign file = {.format = &sc_format_hf, .lines = &lines};
	const struct sc_yaml *model;
	int rc = sc_foreign_take(&file, map, err);

	if (rc == 0)
		rc = sc_foreign_finish(&lines, err);
	if (rc)
		return rc;
	model = sc_yaml_get(sc_foreign_tree(&lines, map->file), "model");
	map->child = model->child;
	map->n_children = model->n_children;
	return 0;
}
