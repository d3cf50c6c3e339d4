/* JSON read where it lies, a value at a time, by a reader that knows what it wants: no tree, and
 * every error has its line and column. Strict RFC 8259, or with comments; depth and the length of
 * texts are limited. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

enum { SC_JSON_CURSOR_DEPTH = 32, SC_JSON_CURSOR_MAX_TEXT = 4096 };
/* After a fault every function fails, so that callers may check once. */
struct sc_json_cursor {
	const char *at, *end, *line_start;
	unsigned line, depth;
	const char *file;
	bool first;    /* no value of the innermost object or array has been read */
	bool comments; /* to be set after init: // to the end of the line, and those of C, are
			  spaces */
	struct sc_err err;
};
void sc_json_cursor_init(struct sc_json_cursor *cursor, const char *text, size_t n,
			 const char *file);
/* The first byte of the next value: { [ " t f n - or a digit; 0 after a fault. */
char sc_json_cursor_peek(struct sc_json_cursor *cursor);
/* Line and column of what comes next. */
void sc_json_cursor_where(struct sc_json_cursor *cursor, unsigned *line, unsigned *column);

bool sc_json_cursor_open(struct sc_json_cursor *cursor, char bracket); /* '{' or '[' */
/* The next key of the object, NULL at its end (which is then behind) or after a fault. */
const char *sc_json_cursor_key(struct sc_json_cursor *cursor, struct sc_arena *arena);
/* Is there another element in the array? At its end it is behind. */
bool sc_json_cursor_next(struct sc_json_cursor *cursor);
const char *sc_json_cursor_text(struct sc_json_cursor *cursor, struct sc_arena *arena);
double sc_json_cursor_real(struct sc_json_cursor *cursor);
int64_t sc_json_cursor_int(struct sc_json_cursor *cursor, int64_t min, int64_t max);
void sc_json_cursor_skip(struct sc_json_cursor *cursor);   /* any value */
void sc_json_cursor_finish(struct sc_json_cursor *cursor); /* nothing may follow */
/* A fault at the next value; returns false. */
bool sc_json_cursor_fail(struct sc_json_cursor *cursor, enum sc_errc code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static inline bool sc_json_cursor_failed(const struct sc_json_cursor *cursor)
{
	return cursor->err.code != SC_OK;
}
