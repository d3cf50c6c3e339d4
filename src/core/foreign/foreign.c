#include "core/foreign/foreign.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "core/profile/paths.h"
#include "core/profile/profile_priv.h"

/* Files of configs/foreign. */

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
		return wrong(node,
			     "a key of ours, {as: KEY, words: ...}, {only: ...} or {needs: ...}",
			     err);
	*out = (struct sc_foreign_key){.theirs = node->key, .rule = SC_KEY_TAKE, .ours = as->text};
	return is_map ? read_words(sc_yaml_get(node, "words"), arena, &out->words, err) : 0;
}

static int read_rule(const struct sc_yaml *node, struct sc_arena *arena,
		     struct sc_foreign_says *out, struct sc_err *err)
{
	const struct {
		const char *key, **text;
	} texts[] = {{"as", &out->ours},     {"refuse", &out->refuse}, {"of", &out->of},
		     {"value", &out->value}, {"absent", &out->absent}, {"if", &out->when}};
	enum { N_TEXTS = sizeof(texts) / sizeof(texts[0]) };

	if (node->kind != SC_YAML_MAP)
		return wrong(node, "a rule, as in {as: KEY, of: KEYS, if: CONDITIONS}", err);
	for (const struct sc_yaml *one = node->child; one; one = one->next) {
		size_t i = 0;

		while (i < N_TEXTS && strcmp(one->key, texts[i].key) != 0)
			i++;
		if (i < N_TEXTS && one->kind == SC_YAML_SCALAR)
			*texts[i].text = one->text;
		else if (strcmp(one->key, "words") != 0)
			return wrong(one, "texts as, refuse, of, value, absent, if, or words", err);
	}
	if (!out->ours == !out->refuse)
		return wrong(node, "either as or refuse", err);
	return read_words(sc_yaml_get(node, "words"), arena, &out->words, err);
}

static int read_table(const struct sc_yaml *root, struct sc_arena *arena,
		      struct sc_foreign_table *out, struct sc_err *err)
{
	const struct sc_yaml *keys = sc_yaml_get(root, "keys"), *rules, *node;
	const struct {
		const char *key, **names;
	} lists[] = {{"read", &out->read},
		     {"launch", &out->launch},
		     {"open", &out->open},
		     {"software", &out->software},
		     {"free", &out->free}};
	struct sc_foreign_says *says;
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
	rules = sc_yaml_get(root, "rules");
	out->rules = says =
		sc_arena_calloc(arena, rules ? rules->n_children + 1 : 1, sizeof(*says));
	for (node = rules ? rules->child : NULL; node && rc == 0; node = node->next)
		rc = read_rule(node, arena, says++, err);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && rc == 0; i++) {
		node = sc_yaml_get(root, lists[i].key);
		if (node && node->kind != SC_YAML_SCALAR)
			rc = wrong(node, "names with spaces between", err);
		*lists[i].names = node ? node->text : NULL;
	}
	return rc;
}

/* The table of that id, loaded once for the lines. */
static int foreign_table_get(struct sc_foreign_lines *lines, const char *id,
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

static char plain(char c)
{
	return c == '_' ? '-' : c;
}

static bool begins(const char *key, const char *with, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (plain(key[i]) != plain(with[i]))
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
		return (open_end || n == n_key) && begins(key, form, n);
	for (size_t at = open_end ? 0 : n_key - n; at + n <= n_key; at++)
		if (begins(key + at, form, n))
			return true;
	return false;
}

static bool is_leaf(const struct sc_foreign_leaf *leaf, const char *form)
{
	return sc_foreign_is_like(leaf->path, form) ||
	       (leaf->bare != leaf->path && sc_foreign_is_like(leaf->bare, form));
}

static const struct sc_foreign_key *row_of(const struct sc_foreign_key *row,
					   const struct sc_foreign_leaf *leaf)
{
	while (row->theirs && !is_leaf(leaf, row->theirs))
		row++;
	return row->theirs ? row : NULL;
}

enum { MAX_NAME = 128 };

/* The next of a list, behind which it goes; false: there is none. */
static bool next_name(const char **list, const char *between, char name[MAX_NAME])
{
	size_t n;

	if (!*list)
		return false;
	*list += strspn(*list, between);
	n = strcspn(*list, between);
	if (n == 0)
		return false;
	assert(n < MAX_NAME);
	memcpy(name, *list, n);
	name[n] = '\0';
	*list += n;
	return true;
}

static bool is_in(const char *names, const struct sc_foreign_leaf *leaf)
{
	char name[MAX_NAME];

	while (next_name(&names, " ", name))
		if (is_leaf(leaf, name))
			return true;
	return false;
}

static bool is_of_rule(const struct sc_foreign_says *rule, const struct sc_foreign_leaf *leaf)
{
	for (; rule->ours || rule->refuse; rule++)
		if (is_in(rule->of, leaf))
			return true;
	return false;
}

static enum sc_foreign_rule rule_of(const struct sc_foreign *file,
				    const struct sc_foreign_leaf *leaf,
				    const struct sc_foreign_key **row)
{
	static const struct sc_foreign_key no_row = {0};
	static const struct sc_foreign_says no_rule = {0};
	static const struct sc_foreign_table none = {.rows = &no_row, .rules = &no_rule};
	const struct sc_foreign_table *keys = file->table, *more = file->more ? file->more : &none;

	*row = row_of(keys->rows, leaf);
	if (!*row)
		*row = row_of(more->rows, leaf);
	if (*row)
		return (*row)->rule;
	if (is_in(keys->read, leaf) || is_in(more->read, leaf) || is_of_rule(keys->rules, leaf) ||
	    is_of_rule(more->rules, leaf))
		return SC_KEY_READ;
	if (is_in(keys->open, leaf) || is_in(more->open, leaf))
		return SC_KEY_OPEN;
	if (is_in(keys->software, leaf) || is_in(more->software, leaf))
		return SC_KEY_SOFTWARE;
	return is_in(keys->free, leaf) || is_in(more->free, leaf) ? SC_KEY_FREE : SC_KEY_UNKNOWN;
}

int sc_foreign_fail(const struct sc_foreign_leaf *leaf, struct sc_err *err, const char *why)
{
	const struct sc_yaml *at = leaf->node;
	bool keyed = at->key_line > 0;

	return sc_err_at(err, SC_EVALUE, at->file, keyed ? at->key_line : at->line,
			 keyed ? at->key_column : at->column, "%.64s: %s", leaf->path, why);
}

static const char *without_section(const struct sc_foreign_format *format, const char *path)
{
	if (format->mark && strncmp(path, format->mark, strlen(format->mark)) == 0)
		return path + strlen(format->mark);
	for (const char *const *section = format->sections; section && *section; section++)
		if (strncmp(path, *section, strlen(*section)) == 0)
			return path + strlen(*section);
	return path;
}

/* The leaves of a tree as they are listed. */
struct leaves {
	const struct sc_foreign *file;
	const struct sc_foreign_leaf **link;
	int n;
};

/* Deep mappings are limited by their reader; what their paths come to is here. */
static int flatten(struct leaves *to, const struct sc_yaml *map, const char *above,
		   struct sc_err *err)
{
	enum { MAX_LEAVES = 1 << 14, MAX_PATH_BYTES = 512 };
	int rc = 0;

	for (const struct sc_yaml *node = map->child; node && rc == 0; node = node->next) {
		const char *path = node->key;

		if (strlen(above) + strlen(path) >= MAX_PATH_BYTES)
			return sc_err_at(err, SC_ELIMIT, node->file, node->line, node->column,
					 "the key and its sections are longer than %d bytes",
					 MAX_PATH_BYTES);
		if (++to->n > MAX_LEAVES)
			return sc_err_at(err, SC_ELIMIT, node->file, node->line, node->column,
					 "too many keys; at most %d are read", MAX_LEAVES);
		if (*above)
			path = sc_arena_printf(to->file->lines->arena, "%s.%s", above, path);
		if (node->kind == SC_YAML_MAP)
			rc = flatten(to, node, path, err);
		else {
			struct sc_foreign_leaf *leaf =
				sc_arena_alloc(to->file->lines->arena, sizeof(*leaf));

			*leaf = (struct sc_foreign_leaf){.path = path, .node = node};
			leaf->bare = without_section(to->file->format, path);
			*to->link = leaf;
			to->link = &leaf->next;
		}
	}
	return rc;
}

const struct sc_foreign_leaf *sc_foreign_get(const struct sc_foreign *file, const char *theirs)
{
	for (const struct sc_foreign_leaf *leaf = file->leaves; leaf; leaf = leaf->next)
		if (is_leaf(leaf, theirs))
			return leaf;
	return NULL;
}

static bool is_text(const struct sc_yaml *node, const char *text)
{
	return node && node->kind == SC_YAML_SCALAR && strcmp(node->text, text) == 0;
}

bool sc_foreign_is(const struct sc_foreign *file, const char *theirs, const char *text)
{
	const struct sc_foreign_leaf *leaf = sc_foreign_get(file, theirs);

	return leaf && is_text(leaf->node, text);
}

static int64_t count_of(const struct sc_yaml *node, int64_t absent)
{
	int64_t value;

	return node && node->kind == SC_YAML_SCALAR && sc_parse_int(node->text, &value) && value > 0
		       ? value
		       : absent;
}

int64_t sc_foreign_count(const struct sc_foreign *file, const char *theirs, int64_t absent)
{
	const struct sc_foreign_leaf *leaf = sc_foreign_get(file, theirs);

	return count_of(leaf ? leaf->node : NULL, absent);
}

enum { MAX_GPUS = 1 << 20 };

int64_t sc_foreign_gpus(const struct sc_foreign *file)
{
	int64_t n = file->lines->gpus ? file->lines->gpus : sc_foreign_ours(file, "gpus", 0);

	return n > MAX_GPUS ? 0 : n;
}

int64_t sc_foreign_replica(const struct sc_foreign *file)
{
	static const char *const axes[] = {"parallel.tp", "parallel.pp", "parallel.cp"};
	int64_t n = 1;

	for (size_t i = 0; i < sizeof(axes) / sizeof(axes[0]); i++) {
		int64_t ranks = sc_foreign_ours(file, axes[i], 1);

		n = ranks > MAX_GPUS / n ? MAX_GPUS : n * ranks;
	}
	return n;
}

static struct sc_foreign_line *line_of(const struct sc_foreign_lines *lines, const char *path)
{
	for (struct sc_foreign_line *line = lines->first; line; line = line->next)
		if (strcmp(line->path, path) == 0)
			return line;
	return NULL;
}

const struct sc_yaml *sc_foreign_line_of(const struct sc_foreign_lines *lines, const char *path)
{
	const struct sc_foreign_line *line = line_of(lines, path);

	return line ? line->node : NULL;
}

int64_t sc_foreign_ours(const struct sc_foreign *file, const char *path, int64_t absent)
{
	return count_of(sc_foreign_line_of(file->lines, path), absent);
}

static void append(struct sc_foreign_line **first, struct sc_foreign_line **last,
		   const struct sc_foreign_line *add, struct sc_arena *arena)
{
	struct sc_foreign_line *line = sc_arena_alloc(arena, sizeof(*line));

	*line = *add;
	*(*last ? &(*last)->next : first) = line;
	*last = line;
}

/* What two files say of one key must be the same. */
static int check_agrees(const struct sc_foreign_line *old, const struct sc_foreign_leaf *leaf,
			const char *text, struct sc_err *err)
{
	if (text && old->node->text && strcmp(text, old->node->text) == 0)
		return 0;
	return sc_err_at(err, SC_ECONFLICT, leaf->node->file, leaf->node->line, leaf->node->column,
			 "%.64s is %.40s, and %.80s:%u: %.40s says %.40s; make them agree",
			 leaf->path, text ? text : "a list", old->node->file, old->node->line,
			 old->theirs, old->node->text ? old->node->text : "a list");
}

static int put_line(struct sc_foreign *file, const struct sc_foreign_leaf *leaf, const char *path,
		    const char *text, bool weak, struct sc_err *err)
{
	struct sc_foreign_lines *lines = file->lines;
	struct sc_foreign_line *old = line_of(lines, path);
	struct sc_foreign_line line = {
		.path = path, .theirs = leaf->path, .of = file, .weak = weak};
	struct sc_yaml *node;

	if (old && (old->of == file || weak))
		return 0;
	if (old && !old->weak)
		return check_agrees(old, leaf, text ? text : leaf->node->text, err);
	node = sc_arena_alloc(lines->arena, sizeof(*node));
	*node = *leaf->node;
	node->next = NULL;
	if (text) {
		node->text = text;
		node->kind = SC_YAML_SCALAR;
		node->quoted = false;
		node->child = NULL;
		node->n_children = 0;
	}
	line.node = node;
	if (old) {
		line.next = old->next;
		*old = line;
		return 0;
	}
	append(&lines->first, &lines->last, &line, lines->arena);
	return 0;
}

int sc_foreign_put(struct sc_foreign *file, const struct sc_foreign_leaf *leaf, const char *path,
		   const char *text, struct sc_err *err)
{
	return put_line(file, leaf, path, text, false, err);
}

int sc_foreign_put_count(struct sc_foreign *file, const struct sc_foreign_leaf *leaf,
			 const char *path, int64_t value, struct sc_err *err)
{
	const char *text = sc_arena_printf(file->lines->arena, "%" PRId64, value);

	return sc_foreign_put(file, leaf, path, text, err);
}

int sc_foreign_put_absent(struct sc_foreign *file, const char *theirs, const char *path,
			  const char *text, struct sc_err *err)
{
	const char *mark = file->format->mark ? file->format->mark : "";
	struct sc_foreign_leaf leaf = {.path = file->format->name, .node = file->map};

	if (theirs)
		leaf.path = sc_arena_printf(file->lines->arena, "no %s%s", mark, theirs);
	return put_line(file, &leaf, path, text, true, err);
}

static const struct sc_foreign_word *word_of(const struct sc_foreign_word *words,
					     const struct sc_yaml *node)
{
	const char *text = sc_yaml_is_null(node) ? "null" : node->text;

	for (; text && words->theirs; words++)
		if (sc_foreign_is_like(text, words->theirs))
			return words;
	return NULL;
}

/* Of keys of one file that are one key of ours, none may say otherwise. */
static int take_key(struct sc_foreign *file, const struct sc_foreign_leaf *leaf, const char *path,
		    const char *text, struct sc_err *err)
{
	const struct sc_foreign_line *old = line_of(file->lines, path);

	return old && old->of == file ? check_agrees(old, leaf, text ? text : leaf->node->text, err)
				      : sc_foreign_put(file, leaf, path, text, err);
}

static int not_understood(const struct sc_foreign_leaf *leaf, struct sc_err *err)
{
	const struct sc_yaml *at = leaf->node;

	return sc_err_at(err, SC_EVALUE, at->file, at->line, at->column,
			 "%.64s: \"%.64s\" is not understood", leaf->path,
			 at->text ? at->text : "a list");
}

static int take_word(struct sc_foreign *file, const struct sc_foreign_leaf *leaf,
		     const struct sc_foreign_key *row, struct sc_err *err)
{
	const struct sc_foreign_word *word = word_of(row->words, leaf->node);

	if (!word && row->needs)
		return sc_err_at(err, SC_EUNSUPPORTED, leaf->node->file, leaf->node->line,
				 leaf->node->column, "%.64s needs %.80s, which is not modelled",
				 leaf->path, row->needs);
	if (!word && row->rule == SC_KEY_ONLY)
		return sc_foreign_fail(leaf, err,
				       "changes what a step costs, and is not understood");
	if (!word)
		return not_understood(leaf, err);
	return word->ours ? take_key(file, leaf, row->ours, word->ours, err) : 0;
}

/* A script's variable. */
static int check_known(const struct sc_foreign_leaf *leaf, struct sc_err *err)
{
	const struct sc_yaml *node = leaf->node;

	if (node->kind != SC_YAML_SCALAR || !strchr(node->text, '$'))
		return 0;
	return sc_err_at(
		err, SC_EVALUE, node->file, node->line, node->column,
		"%.64s: %.64s is not filled in; give the arguments as run: stepcast config "
		"import --shim prints them",
		leaf->path, node->text);
}

static bool may_cost(const struct sc_foreign *file, const struct sc_yaml *node)
{
	double value;

	if (file->format->strict)
		return true;
	return node->kind == SC_YAML_SCALAR && !node->quoted &&
	       (sc_parse_double(node->text, &value) || strcmp(node->text, "true") == 0);
}

static int take_leaf(struct sc_foreign *file, const struct sc_foreign_leaf *leaf,
		     struct sc_err *err)
{
	const struct sc_foreign_key *row;
	enum sc_foreign_rule rule = rule_of(file, leaf, &row);
	const bool is_open = rule == SC_KEY_OPEN ||
			     (file->format->open && is_text(leaf->node, file->format->open));
	const struct sc_foreign_line ignored = {.node = leaf->node,
						.theirs = leaf->path,
						.why = is_open ? SC_IGNORED_OPEN
						       : rule == SC_KEY_SOFTWARE
							       ? SC_IGNORED_SOFTWARE
							       : SC_IGNORED_FREE};
	const bool idle = file->lines->gpus && is_in(file->table->launch, leaf);
	int rc = row || (rule == SC_KEY_READ && !idle) ? check_known(leaf, err) : 0;

	if (rc || (rule == SC_KEY_READ && !is_open) || sc_yaml_is_null(leaf->node))
		return rc;
	if (is_open) {
		append(&file->lines->ignored, &file->lines->last_ignored, &ignored,
		       file->lines->arena);
		return 0;
	}
	if (rule == SC_KEY_UNKNOWN && may_cost(file, leaf->node))
		return sc_foreign_fail(leaf, err,
				       "may change what a step costs, and is not understood; "
				       "remove it if it does not");
	if (row && row->words)
		rc = take_word(file, leaf, row, err);
	else if (row)
		rc = take_key(file, leaf, row->ours, NULL, err);
	if (rc == 0 && rule != SC_KEY_TAKE)
		append(&file->lines->ignored, &file->lines->last_ignored, &ignored,
		       file->lines->arena);
	return rc;
}

/* Of a key, so that the others are looked at, too; lenient lines go without what is not understood. */
static void note(struct sc_foreign *file, const struct sc_foreign_leaf *leaf,
		 const struct sc_err *problem)
{
	struct sc_foreign_lines *lines = file->lines;
	struct sc_foreign_problem **last = &lines->problems;

	if (lines->lenient && problem->code == SC_EVALUE) {
		append(&lines->ignored, &lines->last_ignored,
		       &(struct sc_foreign_line){
			       .node = leaf->node, .theirs = leaf->path, .why = SC_IGNORED_UNKNOWN},
		       lines->arena);
		return;
	}
	while (*last)
		last = &(*last)->next;
	*last = sc_arena_alloc(lines->arena, sizeof(**last));
	**last = (struct sc_foreign_problem){.err = *problem};
}

static int take_leaves(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_err *first;

	for (const struct sc_foreign_leaf *leaf = file->leaves; leaf; leaf = leaf->next) {
		struct sc_err own = {.code = SC_OK};

		if (take_leaf(file, leaf, &own))
			note(file, leaf, &own);
	}
	if (!file->lines->problems)
		return 0;
	first = &file->lines->problems->err;
	return sc_err_at(err, first->code, first->file, first->line, first->column, "%s",
			 first->text);
}

int sc_foreign_take(struct sc_foreign *file, const struct sc_yaml *map, struct sc_err *err)
{
	struct leaves leaves = {.file = file, .link = &file->leaves};
	struct sc_foreign **last = &file->lines->files;
	int rc;

	while (*last)
		last = &(*last)->next;
	*last = file;
	file->map = map;
	rc = foreign_table_get(file->lines, file->format->table, &file->table, err);
	if (rc == 0 && file->format->more)
		rc = foreign_table_get(file->lines, file->format->more, &file->more, err);
	if (rc == 0 && file->format->begin)
		rc = file->format->begin(file, err);
	if (rc == 0)
		rc = flatten(&leaves, map, "", err);
	return rc ? rc : take_leaves(file, err);
}

static bool has_value(const struct sc_yaml *node, const char *form)
{
	const struct sc_foreign_word words[] = {{form, form}, {0}};

	if (node->kind != SC_YAML_SEQ)
		return word_of(words, node);
	for (node = node->child; node; node = node->next)
		if (has_value(node, form))
			return true;
	return false;
}

bool sc_foreign_holds(const struct sc_foreign *file, const char *condition)
{
	const bool no = condition[0] == '!';
	bool any = false;
	char name[MAX_NAME];

	condition += no;
	while (!any && next_name(&condition, "|", name)) {
		char *value = name + strcspn(name, "=>"), sign = *value;
		const struct sc_foreign_leaf *leaf;

		*value = '\0';
		leaf = sc_foreign_get(file, name);
		if (sign == '=')
			any = leaf && has_value(leaf->node, value + 1);
		else if (sign == '>')
			any = count_of(leaf ? leaf->node : NULL, 0) > strtol(value + 1, NULL, 10);
		else if (strcmp(name, "arguments") == 0)
			any = file->format->mark != NULL;
		else
			any = leaf && !sc_yaml_is_null(leaf->node) &&
			      !is_text(leaf->node, "false") && !is_text(leaf->node, "False") &&
			      (leaf->node->kind == SC_YAML_SCALAR || leaf->node->child);
	}
	return any != no;
}

/* Of a rule, whose conditions hold. */
static int apply_rule(struct sc_foreign *file, const struct sc_foreign_says *rule,
		      struct sc_err *err)
{
	const struct sc_foreign_line *old = rule->ours ? line_of(file->lines, rule->ours) : NULL;
	const struct sc_foreign_leaf *leaf = NULL;
	const struct sc_foreign_word *word = NULL;
	const char *names = rule->of, *text = rule->value;
	char name[MAX_NAME], first[MAX_NAME] = "";

	if (old && old->of == file)
		return 0;
	while (!leaf && next_name(&names, " ", name)) {
		if (!*first)
			memcpy(first, name, sizeof(first));
		leaf = sc_foreign_get(file, name);
		word = leaf && rule->words ? word_of(rule->words, leaf->node) : NULL;
		if (leaf && sc_yaml_is_null(leaf->node) && !word)
			leaf = NULL;
	}
	if (rule->refuse && leaf)
		return sc_foreign_fail(leaf, err, rule->refuse);
	if (rule->refuse)
		return sc_err_at(err, SC_EVALUE, file->map->file, file->map->line,
				 file->map->column, "%s", rule->refuse);
	if (!leaf)
		return rule->absent ? sc_foreign_put_absent(file, *first ? first : NULL, rule->ours,
							    rule->absent, err)
				    : 0;
	if (rule->words && !word)
		return not_understood(leaf, err);
	if (word && !word->ours)
		return 0;
	return sc_foreign_put(file, leaf, rule->ours, word ? word->ours : text, err);
}

static int apply_rules(struct sc_foreign *file, const struct sc_foreign_table *table,
		       struct sc_err *err)
{
	const struct sc_foreign_says *rule = table ? table->rules : NULL;
	char condition[MAX_NAME];
	int rc = 0;

	for (; rule && (rule->ours || rule->refuse) && rc == 0; rule++) {
		const char *when = rule->when;
		bool holds = true;

		while (holds && next_name(&when, " ", condition))
			holds = sc_foreign_holds(file, condition);
		if (holds)
			rc = apply_rule(file, rule, err);
	}
	return rc;
}

int sc_foreign_finish(struct sc_foreign_lines *lines, struct sc_err *err)
{
	enum { N_ORDERS = 3 };
	int rc = 0;

	for (int order = 0; order < N_ORDERS; order++)
		for (struct sc_foreign *file = lines->files; file && rc == 0; file = file->next) {
			if (file->format->order != order)
				continue;
			if (file->format->finish)
				rc = file->format->finish(file, err);
			if (rc == 0)
				rc = apply_rules(file, file->table, err);
			if (rc == 0)
				rc = apply_rules(file, file->more, err);
		}
	return rc;
}

/* The mapping `key` below a mapping, made if it is not there. */
static struct sc_yaml *child_map(struct sc_yaml *map, const char *key, const struct sc_yaml *like,
				 struct sc_arena *arena)
{
	struct sc_yaml **link = &map->child, *made;

	for (; *link; link = &(*link)->next)
		if (strcmp((*link)->key, key) == 0 && (*link)->kind == SC_YAML_MAP)
			return *link;
	made = sc_arena_alloc(arena, sizeof(*made));
	*made = (struct sc_yaml){.kind = SC_YAML_MAP, .file = like->file, .line = like->line};
	made->column = like->column;
	made->key = key;
	made->key_line = like->line;
	made->key_column = like->column;
	*link = made;
	map->n_children++;
	return made;
}

struct sc_yaml *sc_foreign_tree(const struct sc_foreign_lines *lines, const char *file)
{
	struct sc_yaml *root = sc_arena_alloc(lines->arena, sizeof(*root));

	*root = (struct sc_yaml){.kind = SC_YAML_MAP, .file = file, .line = 1, .column = 1};
	for (const struct sc_foreign_line *line = lines->first; line; line = line->next) {
		struct sc_yaml *map = root, *node, **link;
		const char *path = line->path, *dot;

		for (dot = strchr(path, '.'); dot; path = dot + 1, dot = strchr(path, '.'))
			map = child_map(map,
					sc_arena_strndup(lines->arena, path, (size_t)(dot - path)),
					line->node, lines->arena);
		node = sc_arena_alloc(lines->arena, sizeof(*node));
		*node = *line->node;
		node->key = path;
		if (!node->key_line) {
			node->key_line = node->line;
			node->key_column = node->column;
		}
		for (link = &map->child; *link;)
			link = &(*link)->next;
		*link = node;
		map->n_children++;
	}
	return root;
}
