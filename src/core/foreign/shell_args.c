/* Finds the command of a training program in a shell script, a log or the output of ps, and gives
 * its options as a tree. Quotes, escapes, comments and joined lines are read as sh reads them;
 * nothing is run, and the value of a variable is not known. */
#include "core/foreign/foreign.h"

#include <ctype.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/vec.h"

struct word {
	const char *text;
	unsigned line, column;
};
typedef SC_VEC(struct word) word_list;
struct finder {
	const char *file, *wanted;
	struct sc_arena *arena;
	struct sc_yaml *map; /* of the command, once it is found */
	struct word first;
};

static bool is_program(const char *word)
{
	return sc_ends_with(word, ".py");
}

/* An option, a program, or the switch of an interpreter: the values before it end. */
static bool ends_values(const char *word)
{
	return (word[0] == '-' && (word[1] == '-' || isalpha((unsigned char)word[1]))) ||
	       is_program(word);
}

static struct sc_yaml *scalar_node(const struct finder *f, const struct word *word,
				   const char *text)
{
	struct sc_yaml *node = sc_arena_calloc(f->arena, 1, sizeof(*node));

	*node = (struct sc_yaml){.kind = SC_YAML_SCALAR,
				 .file = f->file,
				 .line = word->line,
				 .column = word->column,
				 .text = text};
	return node;
}

/* The value of the option, words[0]: none, one or a list. */
static struct sc_yaml *value_of(const struct finder *f, const struct word *words, size_t n_values)
{
	const char *equals = strchr(words[0].text, '=');
	struct sc_yaml *list, **link;

	if (equals)
		return scalar_node(f, &words[0], equals + 1);
	if (n_values == 0)
		return scalar_node(f, &words[0], "true");
	if (n_values == 1)
		return scalar_node(f, &words[1], words[1].text);
	list = scalar_node(f, &words[1], NULL);
	list->kind = SC_YAML_SEQ;
	list->n_children = n_values;
	link = &list->child;
	for (size_t i = 1; i <= n_values; i++) {
		*link = scalar_node(f, &words[i], words[i].text);
		link = &(*link)->next;
	}
	return list;
}

static void option_put(struct sc_yaml *map, struct sc_yaml *node)
{
	struct sc_yaml **link = &map->child;

	for (; *link; link = &(*link)->next)
		if (strcmp((*link)->key, node->key) == 0) {
			node->next = (*link)->next;
			*link = node;
			return;
		}
	*link = node;
	map->n_children++;
}

static void put_named(struct finder *f, const char *key, const struct word *at,
		      struct sc_yaml *node)
{
	node->key = key;
	node->key_line = at->line;
	node->key_column = at->column;
	option_put(f->map, node);
}

/* Options of what starts a program, the first `n_start` words, have a value each. */
static int take_options(struct finder *f, const word_list *list, size_t n_start, struct sc_err *err)
{
	enum { MAX_OPTIONS = 4096 };
	const struct word *words = list->at;
	const size_t n = list->n;

	for (size_t i = 0, n_values; i < n; i += 1 + n_values) {
		const char *name = words[i].text;

		n_values = 0;
		if (is_program(name))
			put_named(f, SC_SHELL_PROGRAM, &words[i],
				  scalar_node(f, &words[i], sc_file_name(name)));
		if (strncmp(name, "--", 2) != 0 || !name[2] || name[2] == '=')
			continue;
		while (!strchr(name, '=') && i + n_values + 1 < n &&
		       (n_values == 0 || i >= n_start) &&
		       !ends_values(words[i + n_values + 1].text))
			n_values++;
		put_named(f, sc_arena_strndup(f->arena, name, strcspn(name, "=")), &words[i],
			  value_of(f, &words[i], n_values));
		if (f->map->n_children > MAX_OPTIONS)
			return sc_err_at(err, SC_ELIMIT, f->file, words[i].line, words[i].column,
					 "too many options; at most %d are read", MAX_OPTIONS);
	}
	return 0;
}

static bool has_option(const word_list *list, const char *wanted)
{
	size_t n = strlen(wanted);

	for (size_t i = 0; i < list->n; i++)
		if (strncmp(list->at[i].text, wanted, n) == 0 &&
		    (!list->at[i].text[n] || list->at[i].text[n] == '='))
			return true;
	return false;
}

/* The commands of a text that begins where `begin` does. */
static int take_text(struct finder *f, const struct sc_source *text, const struct word *begin,
		     struct sc_err *err);

static struct sc_yaml *map_of(struct finder *f, const word_list *list)
{
	struct sc_yaml *map = scalar_node(f, &list->at[0], NULL);

	f->first = list->at[0];
	map->kind = SC_YAML_MAP;
	return map;
}

/* `srun bash -c "command"`: the word with the option is the command; srun's options are its. */
static int take_inner(struct finder *f, const word_list *list, const struct sc_source *text,
		      struct sc_err *err)
{
	struct sc_yaml *inner = NULL, *next;
	int rc = 0;

	for (size_t i = 0; i < list->n && rc == 0; i++) {
		const char *word = list->at[i].text;

		inner = f->map;
		if (!strstr(word, f->wanted) || !strpbrk(word, " \t\n") || strlen(word) >= text->n)
			continue;
		rc = take_text(f, &(struct sc_source){word, strlen(word), f->file}, &list->at[i],
			       err);
		if (rc || inner || !f->map)
			continue;
		inner = f->map;
		f->map = map_of(f, list);
		rc = take_options(f, list, list->n, err);
		for (inner = inner->child; inner; inner = next) {
			next = inner->next;
			inner->next = NULL;
			option_put(f->map, inner);
		}
	}
	return rc;
}

static int take_command(struct finder *f, const word_list *list, const struct sc_source *text,
			struct sc_err *err)
{
	size_t n_start = list->n;

	if (list->n == 0 || strcmp(list->at[0].text, "echo") == 0 ||
	    strcmp(list->at[0].text, "printf") == 0)
		return 0;
	if (!has_option(list, f->wanted))
		return take_inner(f, list, text, err);
	if (f->map)
		return sc_err_at(err, SC_ECONFLICT, f->file, list->at[0].line, list->at[0].column,
				 "a second command with %s; the first is on line %u; keep one",
				 f->wanted, f->first.line);
	while (n_start > 0 && !is_program(list->at[n_start - 1].text))
		n_start--;
	f->map = map_of(f, list);
	return take_options(f, list, n_start, err);
}

/* --- words --- */

struct reader {
	const char *at, *end, *line_begin;
	unsigned line, column; /* column: of line_begin */
};

static bool is_line_end(const struct reader *r)
{
	return *r->at == '\n' || (*r->at == '\r' && r->at + 1 < r->end && r->at[1] == '\n');
}

/* Behind it; the end of a line counts. */
static void skip_char(struct reader *r)
{
	if (*r->at++ == '\n') {
		r->line++;
		r->line_begin = r->at;
		r->column = 1;
	}
}

/* A backslash at the end of a line goes on with the next one. */
static bool skip_continued(struct reader *r)
{
	struct reader next = *r;

	if (*r->at != '\\' || ++next.at == r->end || !is_line_end(&next))
		return false;
	while (*next.at != '\n')
		skip_char(&next);
	skip_char(&next);
	*r = next;
	return true;
}

/* One word into `out`; quotes and backslashes are taken off. False: a quote is open at the end. */
static bool read_word(struct reader *r, struct sc_strbuf *out)
{
	char quote = '\0';

	while (r->at < r->end) {
		if (!quote && (isspace((unsigned char)*r->at) || *r->at == ';'))
			break;
		if (quote != '\'' && skip_continued(r))
			continue;
		if (*r->at == quote || (!quote && (*r->at == '\'' || *r->at == '"'))) {
			quote = quote ? '\0' : *r->at;
			skip_char(r);
			continue;
		}
		if (*r->at == '\\' && quote != '\'' && r->at + 1 < r->end &&
		    (!quote || strchr("\"\\$`", r->at[1])))
			skip_char(r);
		sc_strbuf_append_char(out, *r->at);
		skip_char(r);
	}
	return !quote;
}

/* An operator that ends a command or sends its output away stands at the begin of a word; in one it
 * is text, as ps and logs print it. */
static size_t operator_length(const struct reader *r)
{
	const char *c = r->at;

	while (c < r->end && isdigit((unsigned char)*c))
		c++;
	if (c == r->end || !strchr(c == r->at ? "|&;<>" : "<>", *c))
		return 0;
	while (c < r->end && strchr("|&;<>", *c))
		c++;
	return (size_t)(c - r->at);
}

static bool skip_operator(struct reader *r)
{
	size_t n = operator_length(r);
	bool sends = memchr(r->at, '>', n) || memchr(r->at, '<', n);
	struct sc_strbuf file = {0};

	r->at += n;
	while (sends && r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
		skip_char(r);
	if (sends)
		read_word(r, &file);
	sc_strbuf_release(&file);
	return sends;
}

static int read_commands(struct finder *f, struct reader *r, const struct sc_source *text,
			 word_list *list, struct sc_err *err)
{
	struct sc_strbuf word = {0};
	int rc = 0;

	while (r->at < r->end && rc == 0) {
		struct word next = {.line = r->line,
				    .column = (unsigned)(r->at - r->line_begin) + r->column};
		bool is_operator = operator_length(r) > 0;

		if (is_operator && skip_operator(r))
			continue;
		if (is_operator || *r->at == '\n') {
			rc = take_command(f, list, text, err);
			list->n = 0;
			if (r->at < r->end && *r->at == '\n')
				skip_char(r);
		} else if (*r->at == '#') {
			while (r->at < r->end && *r->at != '\n')
				skip_char(r);
		} else if (isspace((unsigned char)*r->at)) {
			skip_char(r);
		} else if (!skip_continued(r)) {
			sc_strbuf_clear(&word);
			if (!read_word(r, &word))
				rc = sc_err_at(err, SC_EFORMAT, f->file, next.line, next.column,
					       "the text ends inside quotes; close them");
			else if (list->n >= SC_SHELL_MAX_WORDS)
				rc = sc_err_at(err, SC_ELIMIT, f->file, next.line, next.column,
					       "too many words in one command; at most %d are read",
					       SC_SHELL_MAX_WORDS);
			next.text = sc_arena_strndup(f->arena, sc_strbuf_get(&word), word.n);
			SC_VEC_PUSH(list, next);
		}
	}
	sc_strbuf_release(&word);
	return rc ? rc : take_command(f, list, text, err);
}

static int take_text(struct finder *f, const struct sc_source *text, const struct word *begin,
		     struct sc_err *err)
{
	struct reader r = {text->text, text->text + text->n, text->text, begin->line,
			   begin->column};
	word_list list = {0};
	int rc = read_commands(f, &r, text, &list, err);
	SC_VEC_RELEASE(&list);
	return rc;
}

int sc_shell_args_parse(const struct sc_source *text, const char *wanted, struct sc_arena *arena,
			struct sc_yaml **out, struct sc_err *err)
{
	struct finder finder = {.wanted = wanted, .arena = arena};
	int rc;

	finder.file = sc_arena_strdup(arena, text->file);
	if (text->n > SC_SHELL_MAX_BYTES)
		return sc_err_at(err, SC_ELIMIT, finder.file, 0, 0,
				 "too long for arguments of a command; at most 1 MiB is read");
	rc = take_text(&finder, text, &(struct word){.line = 1, .column = 1}, err);
	if (rc == 0 && !finder.map)
		rc = sc_err_at(err, SC_EFORMAT, finder.file, 0, 0,
			       "no command with the option %s is in this file", wanted);
	if (rc == 0)
		*out = finder.map;
	return rc;
}
