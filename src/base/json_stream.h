/* JSON written as it comes, for arrays too large to hold: timelines of millions of events.
 * Memory is a buffer of 64 KiB. Write faults are remembered and reported by finish. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/strbuf.h"

enum { SC_JSON_STREAM_DEPTH = 16 };

struct sc_json_stream {
	FILE *out;
	struct sc_strbuf buf;
	char closer[SC_JSON_STREAM_DEPTH]; /* of what is open: '}' or ']' */
	unsigned depth;
	bool comma;       /* the next value is not the first here */
	bool is_indented; /* a line each value, by two; else a line each object of an array */
	unsigned margin;  /* of what is indented: spaces before the outermost */
	struct sc_err err;
};

/* Begins as {.out = file}. In an object each value has a key, in an array NULL. Keys are plain
 * names of ours: not escaped. */
void sc_json_stream_object(struct sc_json_stream *stream, const char *key);
void sc_json_stream_array(struct sc_json_stream *stream, const char *key);
void sc_json_stream_end(struct sc_json_stream *stream); /* of the innermost object or array */
void sc_json_stream_text(struct sc_json_stream *stream, const char *key, const char *text);
void sc_json_stream_int(struct sc_json_stream *stream, const char *key, int64_t value);
/* With n_decimals (0 to 6) after the point; not finite is a fault. */
void sc_json_stream_fixed(struct sc_json_stream *stream, const char *key, double value,
			  unsigned n_decimals);
/* As results have numbers: SC_JSON_DIGITS digits, with a point or an exponent. */
void sc_json_stream_real(struct sc_json_stream *stream, const char *key, double value);
/* Everything must have been ended. Flushes; frees in any case. */
int sc_json_stream_finish(struct sc_json_stream *stream, struct sc_err *err);
