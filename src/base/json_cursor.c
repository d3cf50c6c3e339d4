/* See the header. Text between quotes is decoded into the arena; numbers go through base/num.h. */
#include "base/json_cursor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/strbuf.h"
#include "base/utf8.h"

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

bool sc_json_cursor_failed(const struct sc_json_cursor *cursor)
{
	return cursor->err.code != SC_OK;
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

static bool take(struct sc_json_cursor *c, char want)
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
static bool another(struct sc_json_cursor *c, char closer)
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
	if (!c->first && !take(c, ','))
		return false;
	c->first = false;
	return true;
}

bool sc_json_cursor_next(struct sc_json_cursor *c)
{
	return another(c, ']');
}

const char *sc_json_cursor_key(struct sc_json_cursor *c, struct sc_arena *arena)
{
	const char *key;

	if (!another(c, '}'))
		return NULL;
	if (sc_json_cursor_peek(c) != '"') {
		sc_json_cursor_fail(c, SC_EFORMAT, "expected a key in quotes");
		return NULL;
	}
	key = sc_json_cursor_text(c, arena);
	return key && take(c, ':') ? key : NULL;
}

static bool hex4(struct sc_json_cursor *c, unsigned *out)
{
	static const char digits[] = "0123456789abcdef";

	*out = 0;
	for (int i = 0; i < 4; i++, c->at++) {
		char low = c->at < c->end ? (char)(*c->at | 0x20) : 0;
		const char *digit = low ? strchr(digits, low) : NULL;

		if (!digit)
			return sc_json_cursor_fail(c, SC_EFORMAT, "a bad \\u escape");
		*out = *out * 16 + (unsigned)(digit - digits);
	}
	return true;
}

static void put_utf8(struct sc_strbuf *out, unsigned code)
{
	if (code < 0x80) {
		sc_strbuf_append_char(out, (char)code);
		return;
	}
	if (code < 0x800) {
		sc_strbuf_append_char(out, (char)(0xc0 | code >> 6));
	} else if (code < 0x10000) {
		sc_strbuf_append_char(out, (char)(0xe0 | code >> 12));
		sc_strbuf_append_char(out, (char)(0x80 | (code >> 6 & 0x3f)));
	} else {
		sc_strbuf_append_char(out, (char)(0xf0 | code >> 18));
		sc_strbuf_append_char(out, (char)(0x80 | (code >> 12 & 0x3f)));
		sc_strbuf_append_char(out, (char)(0x80 | (code >> 6 & 0x3f)));
	}
	sc_strbuf_append_char(out, (char)(0x80 | (code & 0x3f)));
}

static bool put_unicode(struct sc_json_cursor *c, struct sc_strbuf *out)
{
	unsigned code, low;

	if (!hex4(c, &code))
		return false;
	if (code >= 0xd800 && code < 0xdc00) {
		if (c->end - c->at < 2 || c->at[0] != '\\' || c->at[1] != 'u')
			return sc_json_cursor_fail(c, SC_EFORMAT, "half a surrogate pair");
		c->at += 2;
		if (!hex4(c, &low))
			return false;
		if (low < 0xdc00 || low > 0xdfff)
			return sc_json_cursor_fail(c, SC_EFORMAT, "half a surrogate pair");
		code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
	} else if (code >= 0xdc00 && code <= 0xdfff) {
		return sc_json_cursor_fail(c, SC_EFORMAT, "half a surrogate pair");
	}
	if (code == 0)
		return sc_json_cursor_fail(c, SC_EVALUE, "a NUL in a text");
	put_utf8(out, code);
	return true;
}

static bool put_escape(struct sc_json_cursor *c, struct sc_strbuf *out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at;

	if (c->at < c->end && *c->at == 'u') {
		c->at++;
		return put_unicode(c, out);
	}
	at = c->at < c->end && *c->at ? strchr(from, *c->at) : NULL;
	if (!at)
		return sc_json_cursor_fail(c, SC_EFORMAT, "a bad escape");
	sc_strbuf_append_char(out, to[at - from]);
	c->at++;
	return true;
}

static bool put_text(struct sc_json_cursor *c, struct sc_strbuf *out)
{
	while (c->at < c->end && *c->at != '"') {
		if (out->n > SC_JSON_CURSOR_MAX_TEXT)
			return sc_json_cursor_fail(c, SC_ELIMIT, "a text longer than %d bytes",
						   SC_JSON_CURSOR_MAX_TEXT);
		if ((unsigned char)*c->at < ' ')
			return sc_json_cursor_fail(c, SC_EFORMAT, "a control character in a text");
		if (*c->at == '\\') {
			c->at++;
			if (!put_escape(c, out))
				return false;
		} else {
			sc_strbuf_append_char(out, *c->at++);
		}
	}
	if (c->at == c->end)
		return sc_json_cursor_fail(c, SC_EFORMAT, "a text without its closing quote");
	c->at++;
	for (const char *at = sc_strbuf_get(out); *at;) {
		size_t n = sc_utf8_length(at);

		if (!n)
			return sc_json_cursor_fail(c, SC_EFORMAT, "a text that is not UTF-8");
		at += n;
	}
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
	c->at++;
	if (put_text(c, &text))
		out = sc_arena_strndup(arena, sc_strbuf_get(&text), text.n);
	sc_strbuf_release(&text);
	return out;
}

/* The bytes of a number, as text; JSON allows no leading zeros or plus, which num.h does not mind. */
static bool number(struct sc_json_cursor *c, char *out)
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

	if (!number(c, text))
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

	if (!number(c, text))
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

static void skip_text(struct sc_json_cursor *c)
{
	struct sc_strbuf text = {0};

	c->at++;
	put_text(c, &text);
	sc_strbuf_release(&text);
}

void sc_json_cursor_skip(struct sc_json_cursor *c)
{
	switch (sc_json_cursor_peek(c)) {
	case '{':
		if (!sc_json_cursor_open(c, '{'))
			return;
		while (another(c, '}')) {
			if (sc_json_cursor_peek(c) != '"') {
				sc_json_cursor_fail(c, SC_EFORMAT, "expected a key in quotes");
				return;
			}
			skip_text(c);
			if (!take(c, ':'))
				return;
			sc_json_cursor_skip(c);
		}
		return;
	case '[':
		if (!sc_json_cursor_open(c, '['))
			return;
		while (another(c, ']'))
			sc_json_cursor_skip(c);
		return;
	case '"':
		skip_text(c);
		return;
	case 't':
	case 'f':
	case 'n':
		skip_word(c);
		return;
	case 0:
		if (!sc_json_cursor_failed(c))
			sc_json_cursor_fail(c, SC_EFORMAT, "expected a value");
		return;
	default:
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
