/* Text to a tree of nodes: libyaml's events, with all that the format allows and we do not refused.
 * Knows nothing of field tables. No recursion: the open nodes are a stack of fixed size. */
#include "base/yaml.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/file.h"
#include "base/search.h"

/* A map or sequence that has begun and not yet ended. */
struct level {
	struct sc_yaml *node, *last; /* last child */
	const char *key;             /* read, its value not yet; or NULL */
	unsigned key_line, key_column;
};
struct builder {
	const char *file;
	struct sc_arena *arena;
	struct sc_err *err;
	struct sc_yaml *root;
	size_t n_nodes;
	unsigned line; /* the first that libyaml sees */
	unsigned depth;
	struct level level[SC_YAML_MAX_DEPTH];
};

static unsigned line_of(const struct builder *b, const yaml_mark_t *mark)
{
	return b->line + (unsigned)mark->line;
}

static int yaml_fail(struct builder *b, enum sc_errc code, const yaml_mark_t *mark,
		     const char *text)
{
	return sc_err_at(b->err, code, b->file, line_of(b, mark), (unsigned)mark->column + 1, "%s",
			 text);
}

static int check_plain(struct builder *b, const yaml_event_t *event, const yaml_char_t *anchor,
		       const yaml_char_t *tag)
{
	if (anchor)
		return yaml_fail(
			b, SC_EFORMAT, &event->start_mark,
			"anchors (&name) are not allowed; write the value where it is used");
	if (tag)
		return yaml_fail(b, SC_EFORMAT, &event->start_mark,
				 "tags (!name) are not allowed; remove the tag");
	return 0;
}

/* A new node below the open one. A mapping's child takes the pending key. */
static int add_node(struct builder *b, enum sc_yaml_kind kind, const yaml_event_t *event,
		    struct sc_yaml **out)
{
	struct level *parent = b->depth ? &b->level[b->depth - 1] : NULL;
	struct sc_yaml *node;

	if (++b->n_nodes > SC_YAML_MAX_NODES)
		return yaml_fail(b, SC_ELIMIT, &event->start_mark,
				 "too many values; at most 1048576 are read");
	if (parent && parent->node->kind == SC_YAML_MAP && !parent->key)
		return yaml_fail(b, SC_EFORMAT, &event->start_mark,
				 "a key must be a plain name, not a list or a mapping");
	node = sc_arena_calloc(b->arena, 1, sizeof(*node));
	node->kind = kind;
	node->file = b->file;
	node->line = line_of(b, &event->start_mark);
	node->column = (unsigned)event->start_mark.column + 1;
	*out = node;
	if (!parent) {
		b->root = node;
		return 0;
	}
	node->key = parent->key;
	node->key_line = parent->key_line;
	node->key_column = parent->key_column;
	parent->key = NULL;
	*(parent->last ? &parent->last->next : &parent->node->child) = node;
	parent->last = node;
	parent->node->n_children++;
	return 0;
}

static int open_node(struct builder *b, enum sc_yaml_kind kind, const yaml_event_t *event)
{
	struct sc_yaml *node;
	int rc;

	if (b->depth == SC_YAML_MAX_DEPTH)
		return yaml_fail(b, SC_ELIMIT, &event->start_mark,
				 "nested too deeply; at most 32 levels are read");
	rc = add_node(b, kind, event, &node);
	if (rc == 0)
		b->level[b->depth++] = (struct level){.node = node};
	return rc;
}

static bool comes_before(const struct sc_yaml *a, const struct sc_yaml *b)
{
	return a->key_line != b->key_line ? a->key_line < b->key_line
					  : a->key_column < b->key_column;
}

static int compare_keys(const void *a, const void *b)
{
	const struct sc_yaml *x = *(const struct sc_yaml *const *)a;
	const struct sc_yaml *y = *(const struct sc_yaml *const *)b;
	int order = strcmp(x->key, y->key);

	return order ? order : comes_before(y, x) - comes_before(x, y);
}

/* Sorted, so that a mapping made to be slow is not. */
static int check_unique_keys(struct builder *b, const struct sc_yaml *map)
{
	struct sc_arena_mark mark = sc_arena_mark(b->arena);
	const struct sc_yaml **sorted, *again = NULL, *first = NULL;
	size_t n = 0;

	sorted = sc_arena_calloc(b->arena, map->n_children, sizeof(*sorted));
	for (const struct sc_yaml *child = map->child; child; child = child->next)
		sorted[n++] = child;
	SC_SORT(sorted, n, compare_keys);
	for (size_t i = 1; i < n; i++) {
		if (strcmp(sorted[i - 1]->key, sorted[i]->key) != 0)
			continue;
		if (!again || comes_before(sorted[i], again)) {
			again = sorted[i];
			first = sorted[i - 1];
		}
	}
	sc_arena_rewind(b->arena, mark);
	return again ? sc_err_at(b->err, SC_EFORMAT, again->file, again->key_line,
				 again->key_column,
				 "duplicate key \"%.64s\"; it is already given on line %u",
				 again->key, first->key_line)
		     : 0;
}

static int take_key(struct builder *b, struct level *parent, const yaml_event_t *event)
{
	const char *text = (const char *)event->data.scalar.value;

	if (!text[0])
		return yaml_fail(b, SC_EFORMAT, &event->start_mark,
				 "a key is missing before the \":\"");
	parent->key = sc_arena_strndup(b->arena, text, event->data.scalar.length);
	parent->key_line = line_of(b, &event->start_mark);
	parent->key_column = (unsigned)event->start_mark.column + 1;
	return 0;
}

static int take_scalar(struct builder *b, const yaml_event_t *event)
{
	struct level *parent = b->depth ? &b->level[b->depth - 1] : NULL;
	const char *text = (const char *)event->data.scalar.value;
	size_t n = event->data.scalar.length;
	struct sc_yaml *node;
	int rc;

	if (memchr(text, '\0', n))
		return yaml_fail(b, SC_EFORMAT, &event->start_mark,
				 "a NUL character is not allowed");
	if (parent && parent->node->kind == SC_YAML_MAP && !parent->key)
		return take_key(b, parent, event);
	rc = add_node(b, SC_YAML_SCALAR, event, &node);
	if (rc)
		return rc;
	node->text = sc_arena_strndup(b->arena, text, n);
	node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	return 0;
}

static int begin_document(struct builder *b, const yaml_event_t *event)
{
	if (b->root)
		return yaml_fail(b, SC_EFORMAT, &event->start_mark,
				 "a second document begins here; keep one per file");
	if (event->data.document_start.tag_directives.start !=
	    event->data.document_start.tag_directives.end)
		return yaml_fail(b, SC_EFORMAT, &event->start_mark,
				 "tag directives (%TAG) are not allowed; remove the line");
	return 0;
}

static int take_event(struct builder *b, const yaml_event_t *event)
{
	const struct sc_yaml *node;
	int rc;

	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		return begin_document(b, event);
	case YAML_ALIAS_EVENT:
		return yaml_fail(
			b, SC_EFORMAT, &event->start_mark,
			"aliases (*name) are not allowed; write the value out, or quote the text");
	case YAML_SCALAR_EVENT:
		rc = check_plain(b, event, event->data.scalar.anchor, event->data.scalar.tag);
		return rc ? rc : take_scalar(b, event);
	case YAML_SEQUENCE_START_EVENT:
		rc = check_plain(b, event, event->data.sequence_start.anchor,
				 event->data.sequence_start.tag);
		return rc ? rc : open_node(b, SC_YAML_SEQ, event);
	case YAML_MAPPING_START_EVENT:
		rc = check_plain(b, event, event->data.mapping_start.anchor,
				 event->data.mapping_start.tag);
		return rc ? rc : open_node(b, SC_YAML_MAP, event);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		assert(b->depth); /* libyaml's begins and ends match */
		node = b->level[--b->depth].node;
		return node->kind == SC_YAML_MAP ? check_unique_keys(b, node) : 0;
	default:
		return 0;
	}
}

/* libyaml says what it did not find; these say what to do. */
static const struct {
	const char *problem, *advice;
} advices[] = {
	{"found character that cannot start any token",
	 "a value cannot begin with this character; quote it, and indent with spaces, not tabs"},
	{"found a tab character that violates indentation", "indent with spaces, not tabs"},
	{"mapping values are not allowed in this context",
	 "a \":\" is not expected here; check the indentation, or quote a text that contains \": \""},
	{"did not find expected node content",
	 "a value is missing here; write one, or quote a text that begins with this character"},
	{"did not find expected key", "expected a key; check the indentation of this line"},
	{"did not find expected '-' indicator",
	 "expected \"- \" of the list; check the indentation of this line"},
	{"could not find expected ':'", "expected \":\" after the key above; write `key: value`"},
	{"did not find expected ',' or ']'", "the list is not closed; expected \",\" or \"]\""},
	{"did not find expected ',' or '}'", "the mapping is not closed; expected \",\" or \"}\""},
	{"found unexpected end of stream", "the file ends inside a quoted text; close the quotes"},
	{"did not find expected <document start>",
	 "expected the end of the file here; keep one mapping at the top"},
};

static int syntax_error(struct builder *b, const yaml_parser_t *parser, const char *text, size_t n)
{
	const char *problem = parser->problem ? parser->problem : "unknown problem";
	unsigned line, column;

	if (parser->error == YAML_MEMORY_ERROR)
		return sc_err_at(b->err, SC_ELIMIT, b->file, 0, 0, "out of memory");
	if (parser->error == YAML_READER_ERROR) {
		size_t offset = parser->problem_offset < n ? parser->problem_offset : n;

		/* Only the reader's errors come as a byte offset. */
		line = column = 1;
		for (size_t i = 0; i < offset; i++) {
			if (text[i] == '\n') {
				++line;
				column = 1;
			} else if (((unsigned char)text[i] & 0xC0) != 0x80) {
				++column;
			}
		}
		return sc_err_at(b->err, SC_EFORMAT, b->file, b->line + line - 1, column,
				 "not a text file in UTF-8: %s", problem);
	}
	for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
		if (strcmp(problem, advices[i].problem) == 0)
			return yaml_fail(b, SC_EFORMAT, &parser->problem_mark, advices[i].advice);
	return sc_err_at(b->err, SC_EFORMAT, b->file, line_of(b, &parser->problem_mark),
			 (unsigned)parser->problem_mark.column + 1, "not valid YAML: %s", problem);
}

static int read_events(struct builder *b, yaml_parser_t *parser, const char *text, size_t n)
{
	bool ended = false;
	int rc = 0;

	while (!ended && rc == 0) {
		yaml_event_t event;

		if (!yaml_parser_parse(parser, &event))
			return syntax_error(b, parser, text, n);
		rc = take_event(b, &event);
		ended = event.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
	}
	return rc;
}

static int check_root(const struct builder *b)
{
	const struct sc_yaml *root = b->root;

	if (!root || (root->kind == SC_YAML_SCALAR && sc_yaml_is_null(root)))
		return sc_err_at(b->err, SC_EFORMAT, b->file, 0, 0, "empty: expected a mapping");
	if (root->kind != SC_YAML_MAP)
		return sc_err_at(b->err, SC_EFORMAT, b->file, root->line, root->column,
				 "expected a mapping (`key: value` lines), got a %s",
				 root->kind == SC_YAML_SEQ ? "list" : "single value");
	return 0;
}

int sc_yaml_parse(const struct sc_source *source, struct sc_arena *arena, struct sc_yaml **out,
		  struct sc_err *err)
{
	static const char bom[] = "\xEF\xBB\xBF";
	struct builder b = {.arena = arena, .err = err, .line = 1};
	const char *text = source->text;
	size_t n = source->n, begin = 0;
	yaml_parser_t parser;
	int rc;

	if (n > SC_YAML_MAX_BYTES)
		return sc_err_at(err, SC_ELIMIT, source->file, 0, 0,
				 "the file is too large; at most %d bytes are read",
				 SC_YAML_MAX_BYTES);
	if (!yaml_parser_initialize(&parser))
		return sc_err_at(err, SC_ELIMIT, source->file, 0, 0, "out of memory");
	b.file = sc_arena_strdup(arena, source->file);
	if (n >= sizeof(bom) - 1 && memcmp(text, bom, sizeof(bom) - 1) == 0) {
		text += sizeof(bom) - 1; /* libyaml would count it as a column */
		n -= sizeof(bom) - 1;
	}
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	/* Finds the end of the comments at the head of a file, which libyaml reads slowly; counts
	 * their lines. Characters that may be wrong are left to it. */
	for (size_t i = 0; i < n; i++)
		if (text[i] == '\n') {
			begin = i + 1;
			++b.line;
		} else if (text[i] < ' ' || text[i] > '~' || text[begin] != '#') {
			break;
		}
	text += begin;
	n -= begin;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
	rc = read_events(&b, &parser, text, n);
	yaml_parser_delete(&parser);
	if (rc == 0)
		rc = check_root(&b);
	if (rc == 0)
		*out = b.root;
	return rc;
}

int sc_yaml_load(const char *path, struct sc_arena *arena, struct sc_yaml **out, struct sc_err *err)
{
	struct sc_source source;
	int rc = sc_file_read(path, SC_YAML_MAX_BYTES, &source, err);

	if (rc == 0)
		rc = sc_yaml_parse(&source, arena, out, err);
	sc_source_release(&source);
	return rc;
}

const struct sc_yaml *sc_yaml_get(const struct sc_yaml *map, const char *key)
{
	assert(map->kind == SC_YAML_MAP);
	for (const struct sc_yaml *child = map->child; child; child = child->next)
		if (strcmp(child->key, key) == 0)
			return child;
	return NULL;
}

bool sc_yaml_is_null(const struct sc_yaml *node)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};

	if (node->kind != SC_YAML_SCALAR || node->quoted)
		return false;
	for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++)
		if (strcmp(node->text, nulls[i]) == 0)
			return true;
	return false;
}
