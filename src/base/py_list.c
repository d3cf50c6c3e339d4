/* Reads a Python list of calls, as `[EmbeddingBagConfig(name="t1", num_embeddings=10), ...]`, into
 * a tree of mappings with lines and columns (base/yaml.h). It knows texts, numbers, names, lists
 * and calls with keywords, to a small depth; any other expression is an error, and nothing is ever
 * run. */
#include "base/py_list.h"

#include <ctype.h>
#include <string.h>

enum { MAX_DEPTH = 8 };

struct reader {
	const struct sc_source *text;
	const char *file;
	struct sc_arena *arena;
	struct sc_err *err;
	size_t pos, line_begin, n_nodes;
	unsigned line, depth;
};

static int list_fail(struct reader *r, enum sc_errc code, const char *what)
{
	return sc_err_at(r->err, code, r->file, r->line, (unsigned)(r->pos - r->line_begin) + 1,
			 "%s", what);
}

/* The next character that counts, 0 at the end. */
static char peek_char(struct reader *r)
{
	bool comment = false;

	for (; r->pos < r->text->n; r->pos++) {
		char c = r->text->text[r->pos];

		if (c == '\n') {
			r->line++;
			r->line_begin = r->pos + 1;
			comment = false;
		} else if (c == '#') {
			comment = true;
		} else if (!comment && c != ' ' && c != '\t' && c != '\r') {
			return c;
		}
	}
	return 0;
}

static struct sc_yaml *new_node(struct reader *r, enum sc_yaml_kind kind)
{
	struct sc_yaml *node = sc_arena_calloc(r->arena, 1, sizeof(*node));

	node->kind = kind;
	node->file = r->file;
	node->line = r->line;
	node->column = (unsigned)(r->pos - r->line_begin) + 1;
	r->n_nodes++;
	return node;
}

static int read_quoted(struct reader *r, struct sc_yaml **out)
{
	struct sc_yaml *node = new_node(r, SC_YAML_SCALAR);
	const char *begin = r->text->text + r->pos + 1;
	size_t left = r->text->n - r->pos - 1, n = 0;

	while (n < left && begin[n] != begin[-1] && begin[n] != '\n' && begin[n] != '\\' &&
	       begin[n])
		n++;
	if (n == left || begin[n] != begin[-1])
		return list_fail(r, SC_EFORMAT,
				 "a text without its closing quote, or with a backslash");
	node->text = sc_arena_strndup(r->arena, begin, n);
	node->quoted = true;
	r->pos += n + 2;
	*out = node;
	return 0;
}

/* A name or a number, without the underscores of 1_000. */
static int read_bare(struct reader *r, struct sc_yaml **out)
{
	static const char *const names[][2] = {
		{"True", "true"}, {"False", "false"}, {"None", "null"}};
	struct sc_yaml *node = new_node(r, SC_YAML_SCALAR);
	const char *begin = r->text->text + r->pos;
	size_t n = 0, k = 0;
	char *text;

	while (r->pos + n < r->text->n && (isalnum((unsigned char)begin[n]) || begin[n] == '_' ||
					   begin[n] == '.' || begin[n] == '-' || begin[n] == '+'))
		n++;
	if (n == 0)
		return list_fail(r, SC_EFORMAT, "expected a value");
	text = sc_arena_strndup(r->arena, begin, n);
	for (size_t i = 0; isdigit((unsigned char)text[0]) && i <= n; i++)
		if (text[i] != '_')
			text[k++] = text[i];
	node->text = text;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(text, names[i][0]) == 0)
			node->text = names[i][1];
	r->pos += n;
	*out = node;
	return 0;
}

static int read_value(struct reader *r, struct sc_yaml **out);

static int read_key(struct reader *r, struct sc_yaml **out, char colon)
{
	char c = peek_char(r);
	int rc = c == '"' || c == '\'' ? read_quoted(r, out) : read_bare(r, out);

	if (rc == 0 && peek_char(r) != colon)
		rc = list_fail(
			r, SC_EFORMAT,
			colon == ':'
				? "expected \":\" behind a key"
				: "expected an argument with its name, as in num_embeddings=1000");
	if (rc == 0)
		r->pos++;
	return rc;
}

static int check_new(struct reader *r, const struct sc_yaml *map, const struct sc_yaml *key)
{
	for (const struct sc_yaml *node = map->child; node; node = node->next)
		if (strcmp(node->key, key->text) == 0)
			return sc_err_at(r->err, SC_EFORMAT, r->file, key->line, key->column,
					 "duplicate key \"%.64s\"; it is already given on line %u",
					 key->text, node->key_line);
	return 0;
}

/* To `close`: values, or with `colon` keys and values; the opening is behind. */
static int read_items(struct reader *r, struct sc_yaml *into, char close, char colon)
{
	enum { MAX_KEYS = 256 };
	struct sc_yaml **link = &into->child;

	while (*link)
		link = &(*link)->next;
	while (peek_char(r) != close) {
		struct sc_yaml *key = NULL, *value = NULL;
		int rc = colon ? read_key(r, &key, colon) : 0;

		if (rc == 0 && key)
			rc = into->n_children < MAX_KEYS
				     ? check_new(r, into, key)
				     : list_fail(r, SC_ELIMIT,
						 "too many keys; at most 256 are read");
		if (rc == 0)
			rc = read_value(r, &value);
		if (rc)
			return rc;
		if (key) {
			value->key = key->text;
			value->key_line = key->line;
			value->key_column = key->column;
		}
		*link = value;
		link = &value->next;
		into->n_children++;
		if (peek_char(r) == ',')
			r->pos++;
		else if (peek_char(r) != close)
			return list_fail(
				r, SC_EFORMAT,
				"expected \",\" or the end of the list; nothing is computed");
	}
	r->pos++;
	return 0;
}

static int read_call(struct reader *r, struct sc_yaml **out)
{
	struct sc_yaml *name, *map;
	int rc = read_bare(r, &name);

	*out = name;
	if (rc || peek_char(r) != '(')
		return rc;
	map = new_node(r, SC_YAML_MAP);
	map->line = name->line;
	map->column = name->column;
	name->key = SC_PY_CLASS;
	name->key_line = name->line;
	name->key_column = name->column;
	map->child = name;
	map->n_children = 1;
	r->pos++;
	*out = map;
	return read_items(r, map, ')', '=');
}

static int read_value(struct reader *r, struct sc_yaml **out)
{
	char c = peek_char(r);
	int rc;

	if (r->n_nodes >= SC_YAML_MAX_NODES)
		return list_fail(r, SC_ELIMIT, "too many values; at most 1048576 are read");
	if (r->depth == MAX_DEPTH)
		return list_fail(r, SC_ELIMIT, "nested too deeply; at most 8 levels are read");
	r->depth++;
	if (c == '[' || c == '(' || c == '{') {
		*out = new_node(r, c == '{' ? SC_YAML_MAP : SC_YAML_SEQ);
		r->pos++;
		rc = read_items(r, *out, c == '[' ? ']' : c == '(' ? ')' : '}', c == '{' ? ':' : 0);
	} else if (c == '"' || c == '\'') {
		rc = read_quoted(r, out);
	} else {
		rc = read_call(r, out);
	}
	r->depth--;
	return rc;
}

int sc_py_read(const struct sc_source *text, size_t *pos, struct sc_arena *arena,
	       struct sc_yaml **out, struct sc_err *err)
{
	struct reader r = {.text = text, .arena = arena, .err = err, .line = 1, .pos = *pos};
	int rc;

	r.file = sc_arena_strdup(arena, text->file);
	for (size_t i = 0; i < *pos; i++) {
		r.line += text->text[i] == '\n';
		r.line_begin = text->text[i] == '\n' ? i + 1 : r.line_begin;
	}
	rc = read_value(&r, out);
	*pos = r.pos;
	return rc;
}

int sc_py_list_parse(const struct sc_source *text, struct sc_arena *arena, struct sc_yaml **out,
		     struct sc_err *err)
{
	struct reader r = {.text = text, .arena = arena, .err = err, .line = 1};
	struct sc_yaml *list = NULL;
	char c;
	int rc;

	r.file = sc_arena_strdup(arena, text->file);
	for (c = peek_char(&r); c && c != '['; c = peek_char(&r))
		r.pos++;
	if (!c)
		return list_fail(&r, SC_EFORMAT, "no list is in this file");
	rc = read_value(&r, &list);
	if (rc == 0 && peek_char(&r) == '}')
		r.pos++;
	if (rc == 0 && peek_char(&r))
		rc = list_fail(&r, SC_EFORMAT, "expected nothing behind the list");
	if (rc == 0)
		*out = list;
	return rc;
}
