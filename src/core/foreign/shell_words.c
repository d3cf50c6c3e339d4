#include "core/foreign/shell_words.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/strbuf.h"
#include "core/foreign/shell_args.h"

enum { MAX_VARIABLES = 4096, MAX_VALUE_BYTES = 1 << 20, MAX_EXPANDED = 16 << 20, MAX_DEPTH = 16 };

struct variable {
	const char *name;
	size_t n_name;
	sc_shell_words words; /* of an array; else one */
	bool array, known;
};
struct reader {
	const struct sc_source *text;
	const struct sc_shell_sink *sink;
	struct sc_err *err;
	size_t pos, line_begin, expanded;
	unsigned line, conditions, depth;
	bool once; /* behind && or ||: this command may not run */
	struct group {
		unsigned open;
		unsigned
			once; /* the open one that is a condition, as it is behind && or ||; or 0 */
	} braces, brackets;
	SC_VEC(struct variable) variables;
	/* The word that is being read. */
	struct sc_strbuf word;
	bool begun;
	unsigned word_line, word_column;
};

static int fail(struct reader *r, enum sc_errc code, const char *what)
{
	return sc_err_at(r->err, code, r->text->file, r->line,
			 (unsigned)(r->pos - r->line_begin) + 1, "%s", what);
}

static char at(const struct reader *r, size_t ahead)
{
	return r->pos + ahead < r->text->n ? r->text->text[r->pos + ahead] : '\0';
}

static void skip(struct reader *r)
{
	if (at(r, 0) == '\n') {
		r->line++;
		r->line_begin = r->pos + 1;
	}
	r->pos++;
}

static bool is_end(const struct reader *r)
{
	return r->pos >= r->text->n;
}

static bool in_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static struct variable *find(struct reader *r, const char *name, size_t n)
{
	for (size_t i = r->variables.n; i-- > 0;)
		if (r->variables.at[i].n_name == n && memcmp(r->variables.at[i].name, name, n) == 0)
			return &r->variables.at[i];
	return NULL;
}

static int add_text(struct reader *r, const char *text, size_t n)
{
	r->expanded += n;
	if (r->expanded > MAX_EXPANDED || r->word.n + n > MAX_VALUE_BYTES)
		return fail(r, SC_ELIMIT, "variables come to too much text here");
	sc_strbuf_append_n(&r->word, text, n);
	r->begun = true;
	return 0;
}

static int end_word(struct reader *r, sc_shell_words *out)
{
	struct sc_shell_word word = {.line = r->word_line, .column = r->word_column};

	if (!r->begun)
		return 0;
	if (out->n >= SC_SHELL_MAX_WORDS)
		return fail(r, SC_ELIMIT, "too many words in one command; at most 16384 are read");
	r->expanded += 2 * sizeof(word); /* an empty one takes room too */
	if (r->expanded > MAX_EXPANDED)
		return fail(r, SC_ELIMIT, "variables come to too much text here");
	word.text = sc_arena_strndup(r->sink->arena, sc_strbuf_get(&r->word), r->word.n);
	SC_VEC_PUSH(out, word);
	sc_strbuf_clear(&r->word);
	r->begun = false;
	return 0;
}

/* Unquoted text of a variable falls into words; lines in it are those of its assignment. */
static int add_split(struct reader *r, const struct sc_shell_word *value, sc_shell_words *out)
{
	unsigned line = value->line;
	bool first = true;
	int rc = 0;

	for (const char *c = value->text; *c && rc == 0; first = false) {
		size_t n = strcspn(c, " \t\n");

		if (n) {
			if (!r->begun && (!first || strpbrk(c, " \t\n"))) {
				r->word_line = line;
				r->word_column = value->column;
			}
			rc = add_text(r, c, n);
			c += n;
		}
		if (rc == 0 && *c)
			rc = end_word(r, out);
		for (; *c == ' ' || *c == '\t' || *c == '\n'; c++)
			line += *c == '\n';
	}
	return rc;
}

static int add_array(struct reader *r, const struct variable *var, sc_shell_words *out)
{
	int rc = 0;

	for (size_t i = 0; i < var->words.n && rc == 0; i++) {
		const struct sc_shell_word *word = &var->words.at[i];

		if (!r->begun) {
			r->word_line = word->line;
			r->word_column = word->column;
		}
		rc = add_text(r, word->text, strlen(word->text));
		if (rc == 0 && i + 1 < var->words.n)
			rc = end_word(r, out);
	}
	return rc;
}

/* --- $(( )) --- */

struct sum {
	struct reader *reader;
	const char *at, *end;
	unsigned depth;
	bool known;
};

static int64_t sum_of(struct sum *s);

static char next(struct sum *s)
{
	while (s->at < s->end &&
	       (isspace((unsigned char)*s->at) || *s->at == '$' || *s->at == '{' || *s->at == '}'))
		s->at++;
	return s->at < s->end ? *s->at : '\0';
}

static int64_t name_value(struct sum *s, const char *name, size_t n)
{
	const struct variable *var = find(s->reader, name, n);
	int64_t value = 0;

	if (isdigit((unsigned char)*name)) {
		char text[24] = "";

		if (n < sizeof(text))
			memcpy(text, name, n);
		s->known = s->known && sc_parse_int(text, &value);
	} else {
		s->known = s->known && var && var->known && !var->array &&
			   sc_parse_int(var->words.at[0].text, &value);
	}
	return value;
}

static int64_t atom(struct sum *s)
{
	const char *begin;
	char c = next(s);
	int64_t value;

	if (c == '(' && s->depth < MAX_DEPTH) {
		s->depth++;
		s->at++;
		value = sum_of(s);
		s->known = s->known && next(s) == ')';
		s->at += s->at < s->end;
		s->depth--;
		return value;
	}
	for (begin = s->at; s->at < s->end && in_name(*s->at);)
		s->at++;
	if (s->at == begin) {
		s->known = false;
		return 0;
	}
	return name_value(s, begin, (size_t)(s->at - begin));
}

static int64_t product_of(struct sum *s)
{
	int64_t value = atom(s);

	for (char c = next(s); s->known && (c == '*' || c == '/' || c == '%'); c = next(s)) {
		int64_t by;

		s->at++;
		by = atom(s);
		if (c == '*')
			s->known = s->known && !__builtin_mul_overflow(value, by, &value);
		else if (by > 0)
			value = c == '/' ? value / by : value % by;
		else
			s->known = false;
	}
	return value;
}

static int64_t sum_of(struct sum *s)
{
	int64_t value = product_of(s);

	for (char c = next(s); s->known && (c == '+' || c == '-'); c = next(s)) {
		int64_t by;

		s->at++;
		by = product_of(s);
		s->known = s->known && !(c == '+' ? __builtin_add_overflow(value, by, &value)
						  : __builtin_sub_overflow(value, by, &value));
	}
	return value;
}

/* --- $ --- */

/* To the closing bracket of what is run, `open` and what follows of it read already. */
static int skip_run(struct reader *r)
{
	int depth = 0;

	do {
		if (is_end(r))
			return fail(r, SC_EFORMAT, "the text ends inside $( )");
		depth += at(r, 0) == '(';
		depth -= at(r, 0) == ')';
		skip(r);
	} while (depth > 0);
	return 0;
}

static int add_run(struct reader *r)
{
	size_t begin = r->pos;
	struct sum sum = {.reader = r, .known = true};
	char number[24];
	int64_t value = 0;
	int rc;

	skip(r);
	rc = skip_run(r);
	if (rc)
		return rc;
	sum.at = r->text->text + begin + 3;
	sum.end = r->text->text + r->pos - 2;
	sum.known = r->pos - begin > 5 && sum.at[-1] == '(' && sum.end[0] == ')';
	if (sum.known)
		value = sum_of(&sum);
	if (!sum.known || next(&sum))
		return add_text(r, r->text->text + begin, r->pos - begin);
	snprintf(number, sizeof(number), "%" PRId64, value);
	return add_text(r, number, strlen(number));
}

static int add_value(struct reader *r, const struct variable *var, bool quoted, bool all,
		     sc_shell_words *out)
{
	if (var->array && (all || !var->words.n))
		return add_array(r, var, out);
	if (quoted)
		return add_text(r, var->words.at[0].text, strlen(var->words.at[0].text));
	return add_split(r, &var->words.at[0], out);
}

static int add_part(struct reader *r, bool quoted, sc_shell_words *out);

/* ${ }, as far as it is read. */
struct braced {
	size_t begin;
	const struct variable *var; /* NULL: nobody assigned to it */
	bool quoted, all;
};

static bool is_empty(const struct variable *var)
{
	return !var->words.n || (var->words.n == 1 && !var->words.at[0].text[0]);
}

/* To the closing bracket: its words, with variables filled in. */
static int add_to_bracket(struct reader *r, sc_shell_words *out)
{
	int rc = 0;

	while (rc == 0 && !is_end(r) && at(r, 0) != '}')
		rc = add_part(r, true, out);
	if (rc == 0 && is_end(r))
		rc = fail(r, SC_EFORMAT, "the text ends inside ${ }");
	r->pos += rc == 0;
	return rc;
}

static int skip_to_bracket(struct reader *r)
{
	const unsigned line = r->word_line, column = r->word_column;
	struct sc_strbuf kept = r->word;
	sc_shell_words none = {0};
	bool begun = r->begun;
	int rc;

	r->word = (struct sc_strbuf){0};
	rc = add_to_bracket(r, &none);
	SC_VEC_RELEASE(&none);
	sc_strbuf_release(&r->word);
	r->word = kept;
	r->begun = begun;
	r->word_line = line;
	r->word_column = column;
	return rc;
}

/* :-default, :=default, -default. Of a variable that is not known, neither it nor the default is. */
static int add_default(struct reader *r, const struct braced *b, sc_shell_words *out)
{
	bool or_empty = at(r, 0) == ':';
	int rc;

	r->pos += or_empty ? 2 : 1;
	if (!b->var || (b->var->known && or_empty && is_empty(b->var)))
		return add_to_bracket(r, out);
	if (b->var->known) {
		rc = add_value(r, b->var, b->quoted, b->all, out);
		return rc ? rc : skip_to_bracket(r);
	}
	rc = skip_to_bracket(r);
	return rc ? rc : add_text(r, r->text->text + b->begin, r->pos - b->begin);
}

/* ${NAME}, ${NAME[@]}, ${NAME:-default}; what else there is in braces stays as it is. */
static int add_braced(struct reader *r, bool quoted, sc_shell_words *out)
{
	struct braced b = {.begin = r->pos, .quoted = quoted};
	size_t name = b.begin + 2, n = 0;
	bool other;

	for (r->pos = name; in_name(at(r, 0)); n++)
		r->pos++;
	b.var = find(r, r->text->text + name, n);
	b.all = at(r, 0) == '[' && (at(r, 1) == '@' || at(r, 1) == '*') && at(r, 2) == ']';
	r->pos += b.all ? 3 : 0;
	other = (at(r, 0) == ':' && (at(r, 1) == '-' || at(r, 1) == '=')) || at(r, 0) == '-';
	if (n && at(r, 0) == '}' && b.var && b.var->known) {
		r->pos++;
		return add_value(r, b.var, quoted, b.all, out);
	}
	if (n && other)
		return add_default(r, &b, out);
	while (!is_end(r) && at(r, 0) != '}')
		skip(r);
	if (is_end(r))
		return fail(r, SC_EFORMAT, "the text ends inside ${ }");
	r->pos++;
	return add_text(r, r->text->text + b.begin, r->pos - b.begin);
}

static int add_dollar(struct reader *r, bool quoted, sc_shell_words *out)
{
	const struct variable *var;
	size_t begin = r->pos, n = 1;

	if (at(r, 1) == '(')
		return add_run(r);
	if (at(r, 1) == '{')
		return add_braced(r, quoted, out);
	while (in_name(at(r, n)))
		n++;
	var = find(r, r->text->text + begin + 1, n - 1);
	r->pos += n;
	if (n > 1 && var && var->known)
		return add_value(r, var, quoted, false, out);
	if (n == 1 && !is_end(r) && strchr("@*#?!$", at(r, 0)))
		r->pos++;
	return add_text(r, r->text->text + begin, r->pos - begin);
}

/* One piece of a word: a character, an escape, what a '$' stands for. */
static int add_part(struct reader *r, bool quoted, sc_shell_words *out)
{
	char c = at(r, 0);
	int rc;

	if (++r->depth > MAX_DEPTH) {
		rc = fail(r, SC_ELIMIT, "nested too deeply; at most 16 levels are read");
	} else if (c == '$') {
		rc = add_dollar(r, quoted, out);
	} else if (c == '\\' && r->pos + 1 < r->text->n) {
		/* A line's end inside quotes stays, so that lines can be counted. */
		skip(r);
		rc = at(r, 0) == '\n' && !quoted ? 0 : add_text(r, r->text->text + r->pos, 1);
		skip(r);
	} else {
		rc = add_text(r, r->text->text + r->pos, 1);
		skip(r);
	}
	r->depth--;
	return rc;
}

static int add_quoted(struct reader *r, char quote, sc_shell_words *out)
{
	int rc = 0;

	skip(r);
	r->begun = true;
	while (rc == 0 && at(r, 0) != quote) {
		if (is_end(r))
			return fail(r, SC_EFORMAT, "the text ends inside quotes; close them");
		if (quote == '"') {
			rc = add_part(r, true, out);
		} else {
			rc = add_text(r, r->text->text + r->pos, 1);
			skip(r);
		}
	}
	if (rc == 0)
		skip(r);
	return rc;
}

/* What a program would print: not known. */
static int add_backticks(struct reader *r)
{
	size_t begin = r->pos;
	int rc = add_text(r, "$", 1);

	do
		skip(r);
	while (!is_end(r) && at(r, 0) != '`');
	if (is_end(r))
		return fail(r, SC_EFORMAT, "the text ends inside ` `");
	skip(r);
	return rc ? rc : add_text(r, r->text->text + begin, r->pos - begin);
}

static bool ends_word(char c)
{
	return c == '\0' || strchr(" \t\r\n;&|()<>", c) != NULL;
}

static int read_word(struct reader *r, sc_shell_words *out)
{
	int rc = 0;

	r->word_line = r->line;
	r->word_column = (unsigned)(r->pos - r->line_begin) + 1;
	while (rc == 0 && !is_end(r) && !ends_word(at(r, 0))) {
		char c = at(r, 0);

		if (c == '"' || c == '\'')
			rc = add_quoted(r, c, out);
		else if (c == '`')
			rc = add_backticks(r);
		else
			rc = add_part(r, false, out);
	}
	return rc ? rc : end_word(r, out);
}

static void skip_blanks(struct reader *r, bool lines)
{
	for (; !is_end(r); skip(r)) {
		char c = at(r, 0);

		if (c == '\\' && at(r, 1) == '\n')
			skip(r);
		else if (c == '\\' && at(r, 1) == '\r' && at(r, 2) == '\n')
			r->pos += 2;
		else if (c == '#')
			while (!is_end(r) && at(r, 1) != '\n' && r->pos + 1 < r->text->n)
				skip(r);
		else if (c != ' ' && c != '\t' && c != '\r' && !(lines && c == '\n'))
			return;
	}
}

/* --- commands --- */

static int assign(struct reader *r, const struct variable *made, bool more)
{
	struct variable *old = find(r, made->name, made->n_name);
	bool known = !r->conditions && !r->once;

	if (!old) {
		if (r->variables.n >= MAX_VARIABLES)
			return fail(r, SC_ELIMIT, "too many variables; at most 4096 are read");
		SC_VEC_PUSH(&r->variables, ((struct variable){.known = true}));
		old = &r->variables.at[r->variables.n - 1];
		more = false;
	}
	known = known && (!more || old->known);
	if (more && made->array)
		for (size_t i = 0; i < made->words.n; i++)
			SC_VEC_PUSH(&old->words, made->words.at[i]);
	if (!(more && made->array)) {
		SC_VEC_RELEASE(&old->words);
		for (size_t i = 0; i < made->words.n; i++)
			SC_VEC_PUSH(&old->words, made->words.at[i]);
	}
	if (old->words.n > SC_SHELL_MAX_WORDS)
		return fail(r, SC_ELIMIT, "too many words in an array; at most 16384 are read");
	old->name = made->name;
	old->n_name = made->n_name;
	old->array = made->array;
	old->known = known;
	return 0;
}

/* The bytes of NAME= or NAME+= here, else 0. */
static size_t assignment(const struct reader *r)
{
	size_t n = 0;

	if (isdigit((unsigned char)at(r, 0)))
		return 0;
	while (in_name(at(r, n)))
		n++;
	if (n && at(r, n) == '+' && at(r, n + 1) == '=')
		return n + 2;
	return n && at(r, n) == '=' ? n + 1 : 0;
}

static int read_array(struct reader *r, sc_shell_words *out)
{
	int rc = 0;

	skip(r);
	for (skip_blanks(r, true); rc == 0 && at(r, 0) != ')'; skip_blanks(r, true)) {
		if (is_end(r))
			return fail(r, SC_EFORMAT, "the text ends inside an array; close it");
		if (ends_word(at(r, 0)))
			return fail(r, SC_EFORMAT, "not expected in an array; quote it");
		rc = read_word(r, out);
	}
	if (rc == 0)
		skip(r);
	return rc;
}

/* A value, its words joined: an assignment does not split. */
static int read_scalar(struct reader *r, const struct variable *made, bool more,
		       sc_shell_words *out)
{
	const struct variable *old = more ? find(r, made->name, made->n_name) : NULL;
	const unsigned line = r->line, column = (unsigned)(r->pos - r->line_begin) + 1;
	struct sc_strbuf text = {0};
	sc_shell_words words = {0};
	int rc = read_word(r, &words);

	if (old && !old->array)
		sc_strbuf_append(&text, old->words.at[0].text);
	for (size_t i = 0; i < words.n; i++)
		sc_strbuf_printf(&text, "%s%s", i ? " " : "", words.at[i].text);
	if (rc == 0 && text.n > MAX_VALUE_BYTES)
		rc = fail(r, SC_ELIMIT, "variables come to too much text here");
	r->expanded += text.n;
	if (rc == 0)
		SC_VEC_PUSH(out,
			    ((struct sc_shell_word){
				    sc_arena_strdup(r->sink->arena, sc_strbuf_get(&text)),
				    old && !old->array ? old->words.at[0].line : line, column}));
	SC_VEC_RELEASE(&words);
	sc_strbuf_release(&text);
	return rc;
}

static int read_assignment(struct reader *r, size_t n)
{
	struct variable made = {.name = r->text->text + r->pos};
	bool more = made.name[n - 2] == '+';
	int rc;

	made.n_name = n - (more ? 2 : 1);
	r->pos += n;
	made.array = at(r, 0) == '(';
	rc = made.array ? read_array(r, &made.words) : read_scalar(r, &made, more, &made.words);
	if (rc == 0)
		rc = assign(r, &made, more);
	SC_VEC_RELEASE(&made.words);
	return rc;
}

static bool is_one_of(const char *text, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(text, *list) == 0)
			return true;
	return false;
}

static void open_group(struct reader *r, struct group *group)
{
	group->open++;
	if (r->once && !group->once) {
		group->once = group->open;
		r->conditions++;
	}
}

static void close_group(struct reader *r, struct group *group)
{
	if (group->open && group->open == group->once) {
		group->once = 0;
		r->conditions -= r->conditions > 0;
	}
	group->open -= group->open > 0;
}

/* Words before a command that are none of it. True: the command begins behind. */
static bool take_keyword(struct reader *r, const char *word)
{
	static const char *const begin[] = {"if", "for", "while", "until", "case", NULL};
	static const char *const end[] = {"fi", "done", "esac", NULL};
	static const char *const between[] = {"then",    "else",   "elif",    "do",    "!",
					      "time",    "export", "declare", "local", "readonly",
					      "typeset", "exec",   "env",     "eval",  NULL};

	if (is_one_of(word, begin))
		r->conditions++;
	else if (is_one_of(word, end))
		r->conditions -= r->conditions > 0;
	else if (strcmp(word, "{") == 0)
		open_group(r, &r->braces);
	else if (strcmp(word, "}") == 0)
		close_group(r, &r->braces);
	else
		return is_one_of(word, between);
	return true;
}

/* `2>&1`, `> file`: no words of the command. */
static int skip_redirection(struct reader *r, sc_shell_words *words)
{
	size_t n = words->n;
	int rc;

	if (n && isdigit((unsigned char)r->text->text[r->pos - 1]) && !words->at[n - 1].text[1])
		n--;
	while (at(r, 0) == '<' || at(r, 0) == '>' || at(r, 0) == '&')
		skip(r);
	skip_blanks(r, false);
	rc = read_word(r, words);
	words->n = n;
	return rc;
}

static int read_command(struct reader *r, sc_shell_words *words)
{
	bool begins = true;
	int rc = 0;

	for (skip_blanks(r, false); rc == 0 && !is_end(r); skip_blanks(r, false)) {
		size_t n = begins ? assignment(r) : 0;

		if (n) {
			rc = read_assignment(r, n);
			continue;
		}
		if (at(r, 0) == '<' || at(r, 0) == '>') {
			rc = skip_redirection(r, words);
			continue;
		}
		if (ends_word(at(r, 0)))
			break;
		rc = read_word(r, words);
		if (rc == 0 && begins && words->n == 1 && take_keyword(r, words->at[0].text))
			words->n = 0;
		else
			begins = begins && words->n == 0;
	}
	return rc;
}

/* The sign between commands. */
static void skip_sign(struct reader *r)
{
	bool twice = (at(r, 0) == '&' || at(r, 0) == '|') && at(r, 1) == at(r, 0);

	if (at(r, 0) == '(')
		open_group(r, &r->brackets);
	else if (at(r, 0) == ')')
		close_group(r, &r->brackets);
	r->once = twice;
	skip(r);
	if (!twice)
		return;
	skip(r);
	skip_blanks(r, true);
}

int sc_shell_read(const struct sc_source *text, const struct sc_shell_sink *sink,
		  struct sc_err *err)
{
	struct reader r = {.text = text, .sink = sink, .err = err, .line = 1};
	sc_shell_words words = {0};
	int rc = 0;

	if (text->n > SC_SHELL_MAX_BYTES)
		return sc_err_at(err, SC_ELIMIT, text->file, 0, 0,
				 "the script is too large; at most %d bytes are read",
				 SC_SHELL_MAX_BYTES);
	while (rc == 0 && !is_end(&r)) {
		words.n = 0;
		rc = read_command(&r, &words);
		if (rc == 0 && words.n)
			rc = sink->command(sink->ctx, &words, err);
		if (rc == 0 && !is_end(&r))
			skip_sign(&r);
	}
	SC_VEC_RELEASE(&words);
	for (size_t i = 0; i < r.variables.n; i++)
		SC_VEC_RELEASE(&r.variables.at[i].words);
	SC_VEC_RELEASE(&r.variables);
	sc_strbuf_release(&r.word);
	return rc;
}
