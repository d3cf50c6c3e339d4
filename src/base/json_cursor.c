/* See the header. Text between quotes is decoded into the arena; numbers go through base/num.h. */
#include "base/json_cursor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json_text.h"
#include "base/num.h"

enum { MAX_NUMBER = 64 };

void sc_json_cursor_init(struct sc_json_cursor *cursor, const char *text, size_t n,
			 const char *file)
{
	*cursor = (struct sc_json_cursor){
		.at = text,
		.end = text + n,
		.line_start = text,
		.line = 1,
		.file = file,
		.first = true,
	};
}

/* Behind a comment that begins here; one that does not end goes to the end of the file. */
static bool skip_comment(struct sc_json_cursor *c)
{
	bool lines = c->end - c->at >= 2 && c->at[0] == '/' && c->at[1] == '*';

	if (!c->comments || c->end - c->at < 2 || c->at[0] != '/' || (!lines && c->at[1] != '/'))
		return false;
	for (c->at += 2; c->at < c->end; c->at++) {
		if (!lines && *c->at == '\n')
			return true;
		if (*c->at == '\n') {
			c->line++;
			c->line_start = c->at + 1;
		} else if (lines && *c->at == '*' && c->end - c->at > 1 && c->at[1] == '/') {
			c->at += 2;
			return true;
		}
	}
	return true;
}

static void skip_spaces(struct sc_json_cursor *c)
{
	while (c->at < c->end) {
		if (skip_comment(c))
			continue;
		if (*c->at == '\n') {
			c->line++;
			c->line_start = c->at + 1;
		} else if (*c->at != ' ' && *c->at != '\t' && *c->at != '\r') {
			return;
		}
		c->at++;
	}
}

bool sc_json_cursor_fail(struct sc_json_cursor *c, enum sc_errc code, const char *fmt, ...)
{
	char text[sizeof(c->err.text)];
	va_list args;

	skip_spaces(c);
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	sc_err_at(&c->err, code, c->file, c->line, (unsigned)(c->at - c->line_start) + 1, "%s",
		  text);
	return false;
}

void sc_json_cursor_where(struct sc_json_cursor *c, unsigned *line, unsigned *column)
{
	skip_spaces(c);
	*line = c->line;
	*column = (unsigned)(c->at - c->line_start) + 1;
}

char sc_json_cursor_peek(struct sc_json_cursor *c)
{
	if (sc_json_cursor_failed(c))
		return 0;
	skip_spaces(c);
	if (c->at == c->end)
		sc_json_cursor_fail(c, SC_EFORMAT, "the file ends too early");
	return c->at < c->end ? *c->at : 0;
}

static bool cursor_take(struct sc_json_cursor *c, char want)
{
	char got = sc_json_cursor_peek(c);

	if (!got && sc_json_cursor_failed(c))
		return false;
	if (got != want)
		return sc_json_cursor_fail(c, SC_EFORMAT, "expected \"%c\"", want);
	c->at++;
	return true;
}

bool sc_json_cursor_open(struct sc_json_cursor *c, char bracket)
{
	char got = sc_json_cursor_peek(c);

	if (sc_json_cursor_failed(c))
		return false;
	if (got != bracket)
		return sc_json_cursor_fail(c, SC_EVALUE, "expected %s",
					   bracket == '{' ? "an object" : "an array");
	if (c->depth == SC_JSON_CURSOR_DEPTH)
		return sc_json_cursor_fail(c, SC_ELIMIT, "nested deeper than %d",
					   SC_JSON_CURSOR_DEPTH);
	c->depth++;
	c->at++;
	c->first = true;
	return true;
}

/* Before each key or element: the comma, or the end. */
static bool has_another(struct sc_json_cursor *c, char closer)
{
	char got = sc_json_cursor_peek(c);

	if (sc_json_cursor_failed(c))
		return false;
	if (got == closer) {
		c->at++;
		c->depth--;
		c->first = false;
		return false;
	}
	if (!c->first && !cursor_take(c, ','))
		return false;
	c->first = false;
	return true;
}

bool sc_json_cursor_next(struct sc_json_cursor *c)
{
	return has_another(c, ']');
}

static bool at_key(struct sc_json_cursor *c)
{
	return sc_json_cursor_peek(c) == '"' ||
	       sc_json_cursor_fail(c, SC_EFORMAT, "expected a key in quotes");
}

const char *sc_json_cursor_key(struct sc_json_cursor *c, struct sc_arena *arena)
{
	const char *key;

	if (!has_another(c, '}') || !at_key(c))
		return NULL;
	key = sc_json_cursor_text(c, arena);
	return key && cursor_take(c, ':') ? key : NULL;
}

/* Takes what stands between the quotes, decoded; all faults of it are told of its begin. */
static bool take_text(struct sc_json_cursor *c, struct sc_strbuf *out)
{
	const char *begin = c->at + 1, *at = begin;
	struct sc_json_faults faults;

	for (; at < c->end && *at != '"'; at += at[0] == '\\' ? 2 : 1) {
		if ((unsigned char)*at < ' ')
			return sc_json_cursor_fail(c, SC_EFORMAT, "a control character in a text");
		if (at - begin > SC_JSON_CURSOR_MAX_TEXT)
			return sc_json_cursor_fail(c, SC_ELIMIT, "a text longer than %d bytes",
						   SC_JSON_CURSOR_MAX_TEXT);
	}
	if (at >= c->end)
		return sc_json_cursor_fail(c, SC_EFORMAT, "a text without its closing quote");
	faults = sc_json_decode(begin, (size_t)(at - begin), out);
	if (faults.n_escapes)
		return sc_json_cursor_fail(c, SC_EFORMAT, "a text with a bad escape");
	if (faults.n_bad)
		return sc_json_cursor_fail(c, SC_EFORMAT, "a text that is not UTF-8, or has a NUL");
	c->at = at + 1;
	return true;
}

const char *sc_json_cursor_text(struct sc_json_cursor *c, struct sc_arena *arena)
{
	struct sc_strbuf text = {0};
	const char *out = NULL;

	if (sc_json_cursor_peek(c) != '"') {
		sc_json_cursor_fail(c, SC_EVALUE, "expected a text");
		return NULL;
	}
	if (take_text(c, &text))
		out = sc_arena_strndup(arena, sc_strbuf_get(&text), text.n);
	sc_strbuf_release(&text);
	return out;
}

/* The bytes of a number, as text; JSON has no leading zeros or plus, which num.h does not mind. */
static bool cursor_number(struct sc_json_cursor *c, char *out)
{
	size_t n = 0;

	if (!sc_json_cursor_peek(c))
		return false;
	while (c->at + n < c->end && n < MAX_NUMBER - 1 && strchr("+-.0123456789eE", c->at[n]) &&
	       c->at[n])
		n++;
	memcpy(out, c->at, n);
	out[n] = '\0';
	if (!n || out[0] == '+' || out[0] == '.')
		return sc_json_cursor_fail(c, SC_EVALUE, "expected a number");
	return true;
}

double sc_json_cursor_real(struct sc_json_cursor *c)
{
	char text[MAX_NUMBER];
	double value = 0;

	if (!cursor_number(c, text))
		return 0;
	if (!sc_parse_double(text, &value)) {
		sc_json_cursor_fail(c, SC_EVALUE, "not a finite number: %s", text);
		return 0;
	}
	c->at += strlen(text);
	return value;
}

int64_t sc_json_cursor_int(struct sc_json_cursor *c, int64_t min, int64_t max)
{
	char text[MAX_NUMBER];
	int64_t value = 0;

	if (!cursor_number(c, text))
		return 0;
	if (!sc_parse_int(text, &value) || value < min || value > max) {
		sc_json_cursor_fail(c, SC_EVALUE, "expected an integer from %lld to %lld, got %s",
				    (long long)min, (long long)max, text);
		return 0;
	}
	c->at += strlen(text);
	return value;
}

static bool skip_word(struct sc_json_cursor *c)
{
	static const char *const words[] = {"true", "false", "null"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(c->end - c->at) >= n && memcmp(c->at, words[i], n) == 0) {
			c->at += n;
			return true;
		}
	}
	return sc_json_cursor_fail(c, SC_EFORMAT, "expected a value");
}

static bool skip_text(struct sc_json_cursor *c)
{
	struct sc_strbuf text = {0};
	bool good = take_text(c, &text);

	sc_strbuf_release(&text);
	return good;
}

void sc_json_cursor_skip(struct sc_json_cursor *c)
{
	const char open = sc_json_cursor_peek(c);

	if (open == '{' || open == '[') {
		if (!sc_json_cursor_open(c, open))
			return;
		while (has_another(c, open == '{' ? '}' : ']')) {
			if (open == '{' && !(at_key(c) && skip_text(c) && cursor_take(c, ':')))
				return;
			sc_json_cursor_skip(c);
		}
	} else if (open == '"') {
		skip_text(c);
	} else if (open == 't' || open == 'f' || open == 'n') {
		skip_word(c);
	} else if (open || !sc_json_cursor_failed(c)) {
		sc_json_cursor_real(c);
	}
}

void sc_json_cursor_finish(struct sc_json_cursor *c)
{
	if (sc_json_cursor_failed(c))
		return;
	skip_spaces(c);
	if (c->at < c->end)
		sc_json_cursor_fail(c, SC_EFORMAT, "something follows the end of the JSON text");
}
