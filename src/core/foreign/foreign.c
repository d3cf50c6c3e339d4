/* Takes the keys of another program's file over into ours by the tables of its format: each key is
 * one of ours, free, refused, or part of a rule that several say together. It notes where each
 * value came from, so that two files that say otherwise are an error at both places. */
#include "core/foreign/foreign_priv.h"

#include <inttypes.h>
#include <string.h>

#include "base/num.h"

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

bool sc_foreign_is_text(const struct sc_yaml *node, const char *text)
{
	return node && node->kind == SC_YAML_SCALAR && strcmp(node->text, text) == 0;
}

/* Megatron-Bridge writes one value as a mapping: a type or a function is {_target_: torch.bfloat16,
 * _call_: false}, and an enum has its number in _args_. NULL: the mapping is a section. */
static const struct sc_yaml *value_of(const struct sc_yaml *map)
{
	const struct sc_yaml *target = sc_yaml_get(map, "_target_");
	const struct sc_yaml *call = sc_yaml_get(map, "_call_"), *args = sc_yaml_get(map, "_args_");
	const struct sc_yaml *value = args && args->kind == SC_YAML_SEQ ? args->child : NULL;

	if (target && map->n_children == 2 && sc_foreign_is_text(call, "false"))
		value = target;
	else if (!target || !call || map->n_children != 3 || !value || value->next)
		return NULL;
	return value->kind == SC_YAML_SCALAR ? value : NULL;
}

/* The leaves of a tree as they are listed. */
struct leaves {
	const struct sc_foreign *file;
	struct sc_foreign_leaf **link;
	int n;
};

/* Deep mappings are limited by their reader; what their paths come to is here. */
static int list_leaves(struct leaves *to, const struct sc_yaml *map, const char *above,
		       struct sc_err *err)
{
	enum { MAX_LEAVES = 1 << 14, MAX_PATH_BYTES = 512 };
	int rc = 0;

	for (const struct sc_yaml *node = map->child; node && rc == 0; node = node->next) {
		const struct sc_yaml *value = node->kind == SC_YAML_MAP ? value_of(node) : node;
		const char *path = node->key;

		if (strlen(above) + strlen(path) >= MAX_PATH_BYTES)
			return sc_err_at(err, SC_ELIMIT, SC_AT(node),
					 "the key and its sections are longer than %d bytes",
					 MAX_PATH_BYTES);
		if (++to->n > MAX_LEAVES)
			return sc_err_at(err, SC_ELIMIT, SC_AT(node),
					 "too many keys; at most %d are read", MAX_LEAVES);
		if (*above)
			path = sc_arena_printf(to->file->lines->arena, "%s.%s", above, path);
		if (!value)
			rc = list_leaves(to, node, path, err);
		else {
			struct sc_foreign_leaf *leaf =
				sc_arena_alloc(to->file->lines->arena, sizeof(*leaf));

			*leaf = (struct sc_foreign_leaf){.path = path, .node = value};
			leaf->bare = without_section(to->file->format, path);
			*to->link = leaf;
			to->link = &leaf->next;
		}
	}
	return rc;
}

struct sc_foreign_leaf *sc_foreign_find(const struct sc_foreign *file, const char *theirs)
{
	struct sc_foreign_leaf *leaf = file->leaves;

	while (leaf && !sc_foreign_is_leaf(leaf, theirs))
		leaf = leaf->next;
	return leaf;
}

const struct sc_foreign_leaf *sc_foreign_get(const struct sc_foreign *file, const char *theirs)
{
	struct sc_foreign_leaf *leaf = sc_foreign_find(file, theirs);

	if (leaf)
		leaf->is_read = true;
	return leaf;
}

int64_t sc_foreign_count_of(const struct sc_yaml *node, int64_t absent)
{
	int64_t value;

	return node && node->kind == SC_YAML_SCALAR && sc_parse_int(node->text, &value) && value > 0
		       ? value
		       : absent;
}

int64_t sc_foreign_count(const struct sc_foreign *file, const char *theirs, int64_t absent)
{
	const struct sc_foreign_leaf *leaf = sc_foreign_get(file, theirs);

	return sc_foreign_count_of(leaf ? leaf->node : NULL, absent);
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

struct sc_foreign_line *sc_foreign_line_at(const struct sc_foreign_lines *lines, const char *path)
{
	for (struct sc_foreign_line *line = lines->first; line; line = line->next)
		if (strcmp(line->path, path) == 0)
			return line;
	return NULL;
}

const struct sc_yaml *sc_foreign_line_of(const struct sc_foreign_lines *lines, const char *path)
{
	const struct sc_foreign_line *line = sc_foreign_line_at(lines, path);

	return line ? line->node : NULL;
}

int64_t sc_foreign_ours(const struct sc_foreign *file, const char *path, int64_t absent)
{
	return sc_foreign_count_of(sc_foreign_line_of(file->lines, path), absent);
}

static void line_append(struct sc_foreign_line **first, struct sc_foreign_line **last,
			const struct sc_foreign_line *add, struct sc_arena *arena)
{
	struct sc_foreign_line *line = sc_arena_alloc(arena, sizeof(*line));

	*line = *add;
	*(*last ? &(*last)->next : first) = line;
	*last = line;
}

void sc_foreign_note_ignored(struct sc_foreign_lines *lines, const struct sc_yaml *node,
			     const char *theirs, enum sc_foreign_ignored why)
{
	line_append(&lines->ignored, &lines->last_ignored,
		    &(struct sc_foreign_line){.node = node, .theirs = theirs, .why = why},
		    lines->arena);
}

/* Checks that two files say the same of one key. */
static int check_agrees(const struct sc_foreign_line *old, const struct sc_foreign_leaf *leaf,
			const char *text, struct sc_err *err)
{
	if (text && old->node->text && strcmp(text, old->node->text) == 0)
		return 0;
	return sc_err_at(err, SC_ECONFLICT, SC_AT(leaf->node),
			 "%.64s is %.40s, and %.80s:%u: %.40s says %.40s; make them agree",
			 leaf->path, text ? text : "a list", old->node->file, old->node->line,
			 old->theirs, old->node->text ? old->node->text : "a list");
}

static int put_line(struct sc_foreign *file, const struct sc_foreign_leaf *leaf, const char *path,
		    const char *text, bool weak, struct sc_err *err)
{
	struct sc_foreign_lines *lines = file->lines;
	struct sc_foreign_line *old = sc_foreign_line_at(lines, path);
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
	line_append(&lines->first, &lines->last, &line, lines->arena);
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

const struct sc_foreign_word *sc_foreign_word_of(const struct sc_foreign_word *words,
						 const struct sc_yaml *node)
{
	const char *text = sc_yaml_is_null(node) ? "null" : node->text;

	for (; text && words->theirs; words++)
		if (sc_foreign_is_like(text, words->theirs))
			return words;
	return NULL;
}

/* Takes a key; keys of one file that are one key of ours may not differ. */
static int put_or_check_key(struct sc_foreign *file, const struct sc_foreign_leaf *leaf,
			    const char *path, const char *text, struct sc_err *err)
{
	const struct sc_foreign_line *old = sc_foreign_line_at(file->lines, path);

	return old && old->of == file ? check_agrees(old, leaf, text ? text : leaf->node->text, err)
				      : sc_foreign_put(file, leaf, path, text, err);
}

int sc_foreign_not_understood(const struct sc_foreign_leaf *leaf, struct sc_err *err)
{
	const struct sc_yaml *at = leaf->node;

	return sc_err_at(err, SC_EVALUE, SC_AT(at), "%.64s: \"%.64s\" is not understood",
			 leaf->path, at->text ? at->text : "a list");
}

static int take_word(struct sc_foreign *file, const struct sc_foreign_leaf *leaf,
		     const struct sc_foreign_key *row, struct sc_err *err)
{
	const struct sc_foreign_word *word = sc_foreign_word_of(row->words, leaf->node);

	if (!word && row->needs)
		return sc_err_at(err, SC_EUNSUPPORTED, SC_AT(leaf->node),
				 "%.64s needs %.80s, which is not modelled", leaf->path,
				 row->needs);
	if (!word && row->rule == SC_KEY_ONLY)
		return sc_foreign_fail(leaf, err,
				       "changes what a step costs, and is not understood");
	if (!word)
		return sc_foreign_not_understood(leaf, err);
	return word->ours ? put_or_check_key(file, leaf, row->ours, word->ours, err) : 0;
}

/* A script's variable. */
static int check_known(const struct sc_foreign_leaf *leaf, struct sc_err *err)
{
	const struct sc_yaml *node = leaf->node;

	if (node->kind != SC_YAML_SCALAR || !strchr(node->text, '$'))
		return 0;
	return sc_err_at(
		err, SC_EVALUE, SC_AT(node),
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
	enum sc_foreign_rule rule = sc_foreign_rule_of(file, leaf, &row);
	const bool is_open =
		rule == SC_KEY_OPEN ||
		(file->format->open && sc_foreign_is_text(leaf->node, file->format->open));
	const bool idle = file->lines->gpus && sc_foreign_is_in(file->table->launch, leaf);
	int rc = row || (rule == SC_KEY_READ && !idle) ? check_known(leaf, err) : 0;

	if (rc || (rule == SC_KEY_READ && !is_open) || sc_yaml_is_null(leaf->node))
		return rc;
	if (!is_open && rule == SC_KEY_UNKNOWN && may_cost(file, leaf->node))
		return sc_foreign_fail(leaf, err,
				       "may change what a step costs, and is not understood; "
				       "remove it if it does not");
	if (!is_open && row && row->words)
		rc = take_word(file, leaf, row, err);
	else if (!is_open && row)
		rc = put_or_check_key(file, leaf, row->ours, NULL, err);
	if (rc == 0 && (is_open || rule != SC_KEY_TAKE))
		sc_foreign_note_ignored(file->lines, leaf->node, leaf->path,
					is_open                   ? SC_IGNORED_OPEN
					: rule == SC_KEY_SOFTWARE ? SC_IGNORED_SOFTWARE
								  : SC_IGNORED_FREE);
	return rc;
}

/* Notes a fault of a key, so that others are looked at, too; lenient lines go without it. */
static void note_problem(struct sc_foreign *file, const struct sc_foreign_leaf *leaf,
			 const struct sc_err *problem)
{
	struct sc_foreign_lines *lines = file->lines;
	struct sc_foreign_problem **last = &lines->problems;

	if (lines->lenient && problem->code == SC_EVALUE) {
		sc_foreign_note_ignored(lines, leaf->node, leaf->path, SC_IGNORED_UNKNOWN);
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
			note_problem(file, leaf, &own);
	}
	if (!file->lines->problems)
		return 0;
	first = &file->lines->problems->err;
	return sc_err_at(err, first->code, SC_AT(first), "%s", first->text);
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
	rc = sc_foreign_table_get(file->lines, file->format->table, &file->table, err);
	if (rc == 0 && file->format->more)
		rc = sc_foreign_table_get(file->lines, file->format->more, &file->more, err);
	if (rc == 0)
		rc = list_leaves(&leaves, map, "", err);
	if (rc == 0 && file->format->begin)
		rc = file->format->begin(file, err);
	return rc ? rc : take_leaves(file, err);
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
		/* A file that is named comes before what is said beside it, which counts. */
		for (link = &map->child; *link && strcmp((*link)->key, path) != 0;)
			link = &(*link)->next;
		node->next = *link;
		*link = node;
		map->n_children++;
	}
	return root;
}
