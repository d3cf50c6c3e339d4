#include "core/foreign/shell_args.h"

#include <ctype.h>
#include <string.h>

#include "core/foreign/shell_words.h"

struct finder {
	const char *file, *wanted;
	struct sc_arena *arena;
	struct sc_yaml *map; /* of the command, once it is found */
	struct sc_shell_word first;
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

static struct sc_yaml *scalar(const struct finder *f, const struct sc_shell_word *word,
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
static struct sc_yaml *value_of(const struct finder *f, const struct sc_shell_word *words,
				size_t n_values)
{
	const char *equals = strchr(words[0].text, '=');
	struct sc_yaml *list, **link;

	if (equals)
		return scalar(f, &words[0], equals + 1);
	if (n_values == 0)
		return scalar(f, &words[0], "true");
	if (n_values == 1)
		return scalar(f, &words[1], words[1].text);
	list = scalar(f, &words[1], NULL);
	list->kind = SC_YAML_SEQ;
	list->n_children = n_values;
	link = &list->child;
	for (size_t i = 1; i <= n_values; i++) {
		*link = scalar(f, &words[i], words[i].text);
		link = &(*link)->next;
	}
	return list;
}

static void put(struct sc_yaml *map, struct sc_yaml *node)
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

static void put_program(struct finder *f, const struct sc_shell_word *word)
{
	const char *slash = strrchr(word->text, '/');
	struct sc_yaml *node = scalar(f, word, slash ? slash + 1 : word->text);

	node->key = SC_SHELL_PROGRAM;
	node->key_line = word->line;
	node->key_column = word->column;
	put(f->map, node);
}

static int take_options(struct finder *f, const struct sc_shell_word *words, size_t n,
			struct sc_err *err)
{
	enum { MAX_OPTIONS = 4096 };

	for (size_t i = 0, n_values; i < n; i += 1 + n_values) {
		const char *name = words[i].text;
		struct sc_yaml *node;

		n_values = 0;
		if (is_program(words[i].text))
			put_program(f, &words[i]);
		if (strncmp(name, "--", 2) != 0 || !name[2] || name[2] == '=')
			continue;
		while (!strchr(name, '=') && i + n_values + 1 < n &&
		       !ends_values(words[i + n_values + 1].text))
			n_values++;
		node = value_of(f, &words[i], n_values);
		node->key = sc_arena_strndup(f->arena, name, strcspn(name, "="));
		node->key_line = words[i].line;
		node->key_column = words[i].column;
		put(f->map, node);
		if (f->map->n_children > MAX_OPTIONS)
			return sc_err_at(err, SC_ELIMIT, f->file, words[i].line, words[i].column,
					 "too many options; at most %d are read", MAX_OPTIONS);
	}
	return 0;
}

static bool has_option(const sc_shell_words *words, const char *wanted)
{
	size_t n = strlen(wanted);

	for (size_t i = 0; i < words->n; i++)
		if (strncmp(words->at[i].text, wanted, n) == 0 &&
		    (!words->at[i].text[n] || words->at[i].text[n] == '='))
			return true;
	return false;
}

/* `bash -c "command"`: the text that has the option is the command. */
static int take_inner(struct finder *f, const sc_shell_words *words, struct sc_err *err);

static int take_command(void *ctx, const sc_shell_words *words, struct sc_err *err)
{
	struct finder *f = ctx;
	const char *name = words->at[0].text;

	if (strcmp(name, "echo") == 0 || strcmp(name, "printf") == 0)
		return 0;
	if (!has_option(words, f->wanted))
		return take_inner(f, words, err);
	if (f->map)
		return sc_err_at(err, SC_ECONFLICT, f->file, words->at[0].line, words->at[0].column,
				 "a second command with %s; the first is on line %u; keep one",
				 f->wanted, f->first.line);
	f->first = words->at[0];
	f->map = scalar(f, &words->at[0], NULL);
	f->map->kind = SC_YAML_MAP;
	return take_options(f, words->at, words->n, err);
}

static int take_inner(struct finder *f, const sc_shell_words *words, struct sc_err *err)
{
	for (size_t i = 0; i < words->n; i++) {
		const struct sc_shell_word *word = &words->at[i];
		sc_shell_words inner = {0};
		unsigned line = word->line;
		int rc = 0;

		if (!strstr(word->text, f->wanted) || !strpbrk(word->text, " \t\n"))
			continue;
		for (const char *c = word->text; *c;) {
			size_t n = strcspn(c, " \t\n");

			if (n)
				SC_VEC_PUSH(&inner, ((struct sc_shell_word){
							    sc_arena_strndup(f->arena, c, n), line,
							    word->column}));
			c += n;
			for (; *c && strchr(" \t\n", *c); c++)
				line += *c == '\n';
		}
		if (has_option(&inner, f->wanted))
			rc = take_command(f, &inner, err);
		SC_VEC_RELEASE(&inner);
		if (rc)
			return rc;
	}
	return 0;
}

int sc_shell_args_parse(const struct sc_source *text, const char *wanted, struct sc_arena *arena,
			struct sc_yaml **out, struct sc_err *err)
{
	struct finder finder = {.wanted = wanted, .arena = arena};
	const struct sc_shell_sink sink = {take_command, &finder, arena};
	int rc;

	finder.file = sc_arena_strdup(arena, text->file);
	rc = sc_shell_read(text, &sink, err);
	if (rc == 0 && !finder.map)
		rc = sc_err_at(err, SC_EFORMAT, finder.file, 0, 0,
			       "no command with the option %s is in this file", wanted);
	if (rc == 0)
		*out = finder.map;
	return rc;
}
