/* The tables of configs/foreign: what each key of another program is. */
#include <assert.h>
#include <ctype.h>
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

static int table_fail(const struct sc_yaml *at, const char *expected, struct sc_err *err)
{
	return sc_err_at(err, SC_EVALUE, SC_AT(at), "expected %s", expected);
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
		return node ? table_fail(node, "words: off, switch, one, a list or a mapping", err)
			    : 0;
	words = sc_arena_calloc(arena, node->n_children + 1, sizeof(*words));
	for (const struct sc_yaml *one = node->child; one; one = one->next, n++) {
		if (one->kind != SC_YAML_SCALAR)
			return table_fail(one, "a word", err);
		words[n].theirs = node->kind == SC_YAML_MAP ? one->key : one->text;
		if (strcmp(words[n].theirs, "(empty)") == 0)
			words[n].theirs = "";
		if (node->kind == SC_YAML_MAP && !sc_yaml_is_null(one))
			words[n].ours = one->text;
	}
	*out = words;
	return 0;
}

static int rule_read_row(const struct sc_yaml *node, struct sc_arena *arena,
			 struct sc_foreign_key *out, struct sc_err *err)
{
	const bool is_map = node->kind == SC_YAML_MAP;
	const struct sc_yaml *only = is_map ? sc_yaml_get(node, "only") : NULL;
	const struct sc_yaml *needs = is_map ? sc_yaml_get(node, "needs") : NULL;
	const struct sc_yaml *as = is_map ? sc_yaml_get(node, "as") : node;

	*out = (struct sc_foreign_key){.theirs = node->key, .rule = SC_KEY_ONLY, .words = OFF};
	if (needs && needs->kind == SC_YAML_SCALAR) {
		out->needs = needs->text;
		return 0;
	}
	if (only && !as)
		return read_words(only, arena, &out->words, err);
	if (!as || as->kind != SC_YAML_SCALAR)
		return table_fail(
			node, "a key of ours, {as: KEY, words: ...}, {only: ...} or {needs: ...}",
			err);
	*out = (struct sc_foreign_key){.theirs = node->key, .rule = SC_KEY_TAKE, .ours = as->text};
	return is_map ? read_words(sc_yaml_get(node, "words"), arena, &out->words, err) : 0;
}

/* A list's names are taken out one by one, into a buffer. */
static int check_names(const struct sc_yaml *list, struct sc_err *err)
{
	size_t n = 0;

	for (const char *text = list->text; *text && n < SC_FOREIGN_MAX_NAME; text++)
		n = *text == ' ' ? 0 : n + 1;
	return n < SC_FOREIGN_MAX_NAME ? 0 : table_fail(list, "names of less than 128 bytes", err);
}

static int read_rule(const struct sc_yaml *node, struct sc_arena *arena,
		     struct sc_foreign_says *out, struct sc_err *err)
{
	const struct {
		const char *key, **text;
	} texts[] = {
		{"as", &out->ours},     {"refuse", &out->refuse}, {"of", &out->of},
		{"value", &out->value}, {"absent", &out->absent}, {"if", &out->when},
		{"times", &out->times}, {"over", &out->over},     {"software", &out->software}};
	enum { N_TEXTS = sizeof(texts) / sizeof(texts[0]) };

	if (node->kind != SC_YAML_MAP)
		return table_fail(node, "a rule, as in {as: KEY, of: KEYS, if: CONDITIONS}", err);
	for (const struct sc_yaml *one = node->child; one; one = one->next) {
		size_t i = 0;

		while (i < N_TEXTS && strcmp(one->key, texts[i].key) != 0)
			i++;
		if (i < N_TEXTS && one->kind == SC_YAML_SCALAR)
			*texts[i].text = one->text;
		else if (strcmp(one->key, "words") != 0)
			return table_fail(
				one, "texts as, refuse, software, of, value, absent, if, or words",
				err);
		if (i < N_TEXTS && check_names(one, err))
			return -(int)SC_EVALUE;
	}
	if (!!out->ours + !!out->refuse + !!out->software != 1)
		return table_fail(node, "one of as, refuse and software", err);
	return read_words(sc_yaml_get(node, "words"), arena, &out->words, err);
}

static int read_table(const struct sc_yaml *root, struct sc_arena *arena,
		      struct sc_foreign_table *out, struct sc_err *err)
{
	const struct sc_yaml *keys = sc_yaml_get(root, "keys"), *rules, *node;
	const struct {
		const char *key, **names;
	} lists[] = {{"read", &out->names[SC_KEY_READ]},
		     {"open", &out->names[SC_KEY_OPEN]},
		     {"software", &out->names[SC_KEY_SOFTWARE]},
		     {"free", &out->names[SC_KEY_FREE]},
		     {"launch", &out->launch}};
	struct sc_foreign_says *says;
	struct sc_foreign_key *rows;
	int rc = sc_schema_check(root, true, err);

	if (rc == 0 && (!keys || keys->kind != SC_YAML_MAP))
		rc = table_fail(root, "a mapping `keys`", err);
	if (rc)
		return rc;
	out->root = root;
	out->rows = rows = sc_arena_calloc(arena, keys->n_children + 1, sizeof(*rows));
	for (node = keys->child; node && rc == 0; node = node->next)
		rc = rule_read_row(node, arena, rows++, err);
	rules = sc_yaml_get(root, "rules");
	out->n_rules = rules ? rules->n_children : 0;
	out->rules = says = sc_arena_calloc(arena, out->n_rules, sizeof(*says));
	for (node = rules ? rules->child : NULL; node && rc == 0; node = node->next)
		rc = read_rule(node, arena, says++, err);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && rc == 0; i++) {
		node = sc_yaml_get(root, lists[i].key);
		if (node && node->kind != SC_YAML_SCALAR)
			rc = table_fail(node, "names with spaces between", err);
		else if (node)
			rc = check_names(node, err);
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
	rc = sc_config_path((struct sc_config_ref){.at = path}, lines->arena, &path, err);
	if (rc == 0)
		rc = sc_yaml_load(path, lines->arena, &root, err);
	if (rc == 0)
		rc = read_table(root, lines->arena, table, err);
	if (rc == 0)
		*out = lines->tables = table;
	return rc;
}

static char plain_char(char c)
{
	return c == '_' ? '-' : c;
}

static bool key_begins(const char *key, const char *with, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (plain_char(key[i]) != plain_char(with[i]))
			return false;
	return true;
}

bool sc_foreign_is_like(const char *key, const char *form)
{
	size_t n = strlen(form), n_key = strlen(key);
	bool open_begin = n && form[0] == '*', open_end = n > 1 && form[n - 1] == '*';

	form += open_begin;
	n -= (size_t)open_begin + (size_t)open_end;
	if (n > n_key)
		return false;
	if (!open_begin)
		return (open_end || n == n_key) && key_begins(key, form, n);
	for (size_t at = open_end ? 0 : n_key - n; at + n <= n_key; at++)
		if (key_begins(key + at, form, n))
			return true;
	return false;
}

bool sc_foreign_is_leaf(const struct sc_foreign_leaf *leaf, const char *form)
{
	return sc_foreign_is_like(leaf->path, form) ||
	       (leaf->bare != leaf->path && sc_foreign_is_like(leaf->bare, form));
}

static const struct sc_foreign_key *row_of(const struct sc_foreign_key *row,
					   const struct sc_foreign_leaf *leaf)
{
	while (row->theirs && !sc_foreign_is_leaf(leaf, row->theirs))
		row++;
	return row->theirs ? row : NULL;
}

bool sc_foreign_next(const char **list, const char *between, char name[SC_FOREIGN_MAX_NAME])
{
	size_t n;

	if (!*list)
		return false;
	*list += strspn(*list, between);
	n = strcspn(*list, between);
	if (n == 0)
		return false;
	assert(n < SC_FOREIGN_MAX_NAME);
	memcpy(name, *list, n);
	name[n] = '\0';
	*list += n;
	return true;
}

/* The last part of a path names the key; the sections before it only say where it lies. */
static const char *last_part(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot ? dot + 1 : path;
}

static bool has_word_begun(const char *part, const char *word)
{
	for (const char *at = strstr(part, word); at; at = strstr(at + 1, word))
		if (at == part || !isalnum((unsigned char)at[-1]))
			return true;
	return false;
}

/* A star would take keys that decide memory, as exp-avg-dtype, for ones that cost nothing. */
static bool star_may_take(const char *form, const struct sc_foreign_leaf *leaf)
{
	static const char *const words[] = {"dtype", "state", "optim", "offload",
					    "main",  "param", "grad"};
	const char *part = last_part(leaf->path), *named = last_part(form);

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (has_word_begun(part, words[i]) && !has_word_begun(named, words[i]))
			return false;
	return true;
}

bool sc_foreign_is_in(const char *names, const struct sc_foreign_leaf *leaf)
{
	char name[SC_FOREIGN_MAX_NAME];

	while (sc_foreign_next(&names, " ", name))
		if (sc_foreign_is_leaf(leaf, name) &&
		    (!strchr(name, '*') || star_may_take(name, leaf)))
			return true;
	return false;
}

static bool is_of_rule(const struct sc_foreign_table *table, const struct sc_foreign_leaf *leaf)
{
	for (size_t i = 0; i < table->n_rules; i++)
		if (sc_foreign_is_in(table->rules[i].of, leaf))
			return true;
	return false;
}

enum sc_foreign_rule sc_foreign_rule_of(const struct sc_foreign *file,
					const struct sc_foreign_leaf *leaf,
					const struct sc_foreign_key **row)
{
	const struct sc_foreign_table *const tables[] = {file->table, file->more, NULL}, *const * t;

	*row = NULL;
	for (t = tables; *t && !*row; t++)
		*row = row_of((*t)->rows, leaf);
	if (*row)
		return (*row)->rule;
	for (int rule = SC_KEY_READ; rule < SC_KEY_UNKNOWN; rule++)
		for (t = tables; *t; t++)
			if (sc_foreign_is_in((*t)->names[rule], leaf) ||
			    (rule == SC_KEY_READ && is_of_rule(*t, leaf)))
				return (enum sc_foreign_rule)rule;
	return SC_KEY_UNKNOWN;
}
