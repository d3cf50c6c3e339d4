/* Python's printed lists. See shard_plan_priv.h. */
#include <string.h>

#include "base/num.h"
#include "core/embedding/shard_plan_priv.h"

enum { MAX_DEPTH = 8, MAX_LITERALS = 1 << 24 };

struct literal_reader {
	const struct sc_plan_text *text;
	size_t pos;
	struct sc_arena *arena;
	sc_literals *out;
	unsigned depth;
	unsigned line;
	size_t line_begin;
};

void sc_plan_where(const struct sc_plan_text *text, size_t pos, unsigned *line, unsigned *column)
{
	size_t begin = 0;

	*line = 1;
	for (size_t i = 0; i < pos && i < text->n; i++) {
		if (text->at[i] == '\n') {
			++*line;
			begin = i + 1;
		}
	}
	*column = (unsigned)(pos - begin) + 1;
}

static int bad(const struct literal_reader *r, struct sc_err *err, const char *what)
{
	return sc_err_at(err, SC_EFORMAT, r->text->file, r->line,
			 (unsigned)(r->pos - r->line_begin) + 1, "%s", what);
}

static char peek(struct literal_reader *r)
{
	for (; r->pos < r->text->n; r->pos++) {
		char c = r->text->at[r->pos];

		if (c == '\n') {
			r->line++;
			r->line_begin = r->pos + 1;
		} else if (c != ' ' && c != '\t' && c != '\r') {
			return c;
		}
	}
	return 0;
}

static size_t push(struct literal_reader *r, enum sc_literal_kind kind)
{
	struct sc_literal literal = {
		.kind = kind,
		.line = r->line,
		.column = (unsigned)(r->pos - r->line_begin) + 1,
	};

	SC_VEC_PUSH(r->out, literal);
	return r->out->n - 1;
}

static int read_number(struct literal_reader *r, struct sc_err *err)
{
	size_t at = push(r, SC_LIT_INT), n;
	char text[24];

	n = strspn(r->text->at + r->pos, "-0123456789");
	if (n == 0 || n >= sizeof(text))
		return bad(r, err, "expected a list, a number or a text in quotes");
	memcpy(text, r->text->at + r->pos, n);
	text[n] = '\0';
	if (!sc_parse_int(text, &r->out->at[at].number))
		return bad(r, err, "expected an integer");
	r->pos += n;
	return 0;
}

static int read_quoted(struct literal_reader *r, char quote, struct sc_err *err)
{
	size_t at = push(r, SC_LIT_TEXT);
	const char *begin = r->text->at + r->pos + 1;
	const char *end = memchr(begin, quote, r->text->n - r->pos - 1);

	if (!end || memchr(begin, '\n', (size_t)(end - begin)))
		return bad(r, err, "a text without its closing quote");
	r->out->at[at].text = sc_arena_strndup(r->arena, begin, (size_t)(end - begin));
	r->pos += (size_t)(end - begin) + 2;
	return 0;
}

static int read_value(struct literal_reader *r, struct sc_err *err);

static int read_list(struct literal_reader *r, char closer, struct sc_err *err)
{
	size_t at = push(r, SC_LIT_LIST);
	int rc = 0;

	if (++r->depth > MAX_DEPTH)
		return bad(r, err, "lists nested too deep");
	r->pos++;
	while (rc == 0 && peek(r) != closer) {
		r->out->at[at].number++;
		rc = read_value(r, err);
		if (rc == 0 && peek(r) == ',')
			r->pos++;
		else if (rc == 0 && peek(r) != closer)
			return bad(r, err, "a list without its end");
	}
	r->pos++;
	r->depth--;
	r->out->at[at].n_below = (uint32_t)(r->out->n - at - 1);
	return rc;
}

static int read_value(struct literal_reader *r, struct sc_err *err)
{
	char c = peek(r);

	if (r->out->n >= MAX_LITERALS)
		return bad(r, err, "too many values");
	if (c == '[' || c == '(')
		return read_list(r, c == '[' ? ']' : ')', err);
	if (c == '\'' || c == '"')
		return read_quoted(r, c, err);
	return read_number(r, err);
}

int sc_literal_read(const struct sc_plan_text *text, size_t *pos, struct sc_arena *arena,
		    sc_literals *out, struct sc_err *err)
{
	struct literal_reader r = {.text = text, .pos = *pos, .arena = arena, .out = out};
	int rc;

	sc_plan_where(text, *pos, &r.line, &r.depth);
	r.line_begin = *pos + 1 - r.depth;
	r.depth = 0;
	rc = read_value(&r, err);
	*pos = r.pos;
	return rc;
}
