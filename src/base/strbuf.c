/* See the header: one growing allocation, always ended by a NUL. */
#include "base/strbuf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"

enum { FIRST_CAP = 64 };

void sc_strbuf_release(struct sc_strbuf *buf)
{
	free(buf->at);
	*buf = (struct sc_strbuf){0};
}

void sc_strbuf_clear(struct sc_strbuf *buf)
{
	buf->n = 0;
	if (buf->at)
		buf->at[0] = '\0';
}

static void strbuf_reserve(struct sc_strbuf *buf, size_t n_more)
{
	size_t want, cap;

	/* An impossible size goes to the allocator, which ends the program. */
	want = n_more > SIZE_MAX - buf->n - 1 ? SIZE_MAX : buf->n + n_more + 1;
	if (want <= buf->cap)
		return;
	cap = buf->cap ? buf->cap * 2 : FIRST_CAP;
	if (cap < want)
		cap = want;
	buf->at = sc_xrealloc(buf->at, cap, 1);
	buf->cap = cap;
	buf->at[buf->n] = '\0';
}

void sc_strbuf_append_n(struct sc_strbuf *buf, const char *text, size_t n)
{
	strbuf_reserve(buf, n);
	memcpy(buf->at + buf->n, text, n);
	buf->n += n;
	buf->at[buf->n] = '\0';
}

void sc_strbuf_vprintf(struct sc_strbuf *buf, const char *fmt, va_list args)
{
	va_list again;
	int n;

	assert(fmt);
	va_copy(again, args);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	assert(n >= 0);
	strbuf_reserve(buf, (size_t)n);
	vsnprintf(buf->at + buf->n, (size_t)n + 1, fmt, args);
	buf->n += (size_t)n;
}

void sc_strbuf_printf(struct sc_strbuf *buf, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	sc_strbuf_vprintf(buf, fmt, args);
	va_end(args);
}

char *sc_strbuf_detach(struct sc_strbuf *buf)
{
	char *text;

	strbuf_reserve(buf, 0);
	text = buf->at;
	*buf = (struct sc_strbuf){0};
	return text;
}

bool sc_text_has(const char *text, const char *word, size_t n)
{
	for (; text && *text; text++)
		if (strncasecmp(text, word, n) == 0)
			return true;
	return false;
}
