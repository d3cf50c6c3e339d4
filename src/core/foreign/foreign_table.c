/* Files of configs/foreign. */
#include <string.h>

#include "core/foreign/foreign.h"
#include "core/profile/paths.h"
#include "core/profile/profile_priv.h"

static const struct sc_foreign_word OFF[] = {
	{"false", NULL}, {"False", NULL}, {"0", NULL},    {"0.0", NULL},
	{"none", NULL},  {"null", NULL},  {"None", NULL}, {0},
};
static const struct sc_foreign_word SWITCH[] = {
	{"true", "true"}, {"True", "true"}, {"false", "false"}, {"False", "false"}, {0}};
static const struct sc_foreign_word ONE[] = {{"1", NULL}, {"1.0", NULL}, {0}};
static const struct {
	const char *name;
	const struct sc_foreign_word *words;
} USUAL[] = {{"off", OFF}, {"switch", SWITCH}, {"one", ONE}};

static int wrong(const struct sc_yaml *at, const char *expected, struct sc_err *err)
{
	return sc_err_at(err, SC_EVALUE, at->file, at->line, at->column, "expected %s", expected);
}

/* A name of USUAL, a list, or a mapping of theirs to ours. */
static int read_words(const struct sc_yaml *node, struct sc_arena *arena,
		      const struct sc_foreign_word **out, struct sc_err *err)
{
	struct sc_foreign_word *words;
	size_t n = 0;

	for (size_t i = 0; node && i < sizeof(USUAL) / sizeof(USUAL[0]); i++)
		if (node->kind == SC_YAML_SCALAR && strcmp(node->text, USUAL[i].name) == 0) {
			*out = USUAL[i].words;
			return 0;
		}
	if (!node || node->kind == SC_YAML_SCALAR)
		return node ? wrong(node, "words: off, switch, one, a list or a mapping", err) : 0;
	words = sc_arena_calloc(arena, node->n_children + 1, sizeof(*words));
	for (const struct sc_yaml *one = node->child; one; one = one->next, n++) {
		if (one->kind != SC_YAML_SCALAR)
			return wrong(one, "a word", err);
		words[n].theirs = node->kind == SC_YAML_MAP ? one->key : one->text;
		if (strcmp(words[n].theirs, "(empty)") == 0)
			words[n].theirs = "";
		if (node->kind == SC_YAML_MAP && !sc_yaml_is_null(one))
			words[n].ours = one->text;
	}
	*out = words;
	return 0;
}

static int read_row(const struct sc_yaml *node, struct sc_arena *arena, struct sc_foreign_key *out,
		    struct sc_err *err)
{
	const struct sc_yaml *only = node, *as = node;

	if (node->kind == SC_YAML_MAP) {
		only = sc_yaml_get(node, "only");
		as = sc_yaml_get(node, "as");
	}
	*out = (struct sc_foreign_key){.theirs = node->key, .rule = SC_KEY_TAKE};
	if (node->kind == SC_YAML_MAP && only && !as) {
		out->rule = SC_KEY_ONLY;
		return read_words(only, arena, &out->words, err);
	}
	if (!as || as->kind != SC_YAML_SCALAR)
		return wrong(node, "a key of ours, {as: KEY, words: ...} or {only: ...}", err);
	out->ours = as->text;
	return as == node ? 0 : read_words(sc_yaml_get(node, "words"), arena, &out->words, err);
}

static int read_table(const struct sc_yaml *root, struct sc_arena *arena,
		      struct sc_foreign_table *out, struct sc_err *err)
{
	const struct sc_yaml *keys = sc_yaml_get(root, "keys"), *node;
	const struct {
		const char *key, **names;
	} lists[] = {{"read", &out->read},
		     {"launch", &out->launch},
		     {"open", &out->open},
		     {"software", &out->software},
		     {"free", &out->free}};
	struct sc_foreign_key *rows;
	int rc = sc_schema_check(root, true, err);

	if (rc == 0 && (!keys || keys->kind != SC_YAML_MAP))
		rc = wrong(root, "a mapping `keys`", err);
	if (rc)
		return rc;
	out->root = root;
	out->rows = rows = sc_arena_calloc(arena, keys->n_children + 1, sizeof(*rows));
	for (node = keys->child; node && rc == 0; node = node->next)
		rc = read_row(node, arena, rows++, err);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && rc == 0; i++) {
		node = sc_yaml_get(root, lists[i].key);
		if (node && node->kind != SC_YAML_SCALAR)
			rc = wrong(node, "names with spaces between", err);
		*lists[i].names = node ? node->text : NULL;
	}
	return rc;
}

int sc_foreign_table_get(struct sc_foreign_lines *lines, const char *id,
			 const struct sc_foreign_table **out, struct sc_err *err)
{
	struct sc_foreign_table *table;
	struct sc_yaml *root;
	const char *path;
	int rc;

	for (*out = lines->tables; *out; *out = (*out)->next)
		if (strcmp((*out)->id, id) == 0)
			return 0;
	table = sc_arena_calloc(lines->arena, 1, sizeof(*table));
	table->id = id;
	table->next = lines->tables;
	path = sc_arena_printf(lines->arena, "foreign/%s.yaml", id);
	rc = sc_config_path((struct sc_config_ref){path, NULL}, lines->arena, &path, err);
	if (rc == 0)
		rc = sc_yaml_load(path, lines->arena, &root, err);
	if (rc == 0)
		rc = read_table(root, lines->arena, table, err);
	if (rc == 0)
		*out = lines->tables = table;
	return rc;
}
