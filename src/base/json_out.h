/* Building a JSON result over jansson: numbers checked finite and written with a fixed number of
 * significant digits, keys sorted, writing checked. The first fault is remembered and reported by
 * sc_json_write, so that callers do not check every value. */
#pragma once

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json_stream.h"
#include "base/num.h"

struct sc_json {
	json_t *root; /* an object */
	struct sc_err err;
	/* Arrays too large to hold, of sc_json_rows: they are put into the file as it is written.
	 * NULL: there are none. */
	void (*put_rows)(const void *rows, size_t i, struct sc_json_stream *out);
	const void *rows;
};

/* Every document says what it is: {"schema": "stepcast-predict", "version": 1}. */
void sc_json_init(struct sc_json *json, const char *schema, int version);
void sc_json_release(struct sc_json *json);

/* `parent` is json->root or what sc_json_object and sc_json_array returned (borrowed; it lives as
 * long as the document). In an object `key` must be new; in an array it is NULL, and appends. */
json_t *sc_json_object(struct sc_json *json, json_t *parent, const char *key);
json_t *sc_json_array(struct sc_json *json, json_t *parent, const char *key);
void sc_json_real(struct sc_json *json, json_t *parent, const char *key, double value);
void sc_json_int(struct sc_json *json, json_t *parent, const char *key, int64_t value);
void sc_json_bool(struct sc_json *json, json_t *parent, const char *key, bool value);
/* Bytes that are not UTF-8 become "?". NULL is written as null. */
void sc_json_text(struct sc_json *json, json_t *parent, const char *key, const char *text);
/* The array whose elements put_rows writes, as its i-th. */
void sc_json_rows(struct sc_json *json, json_t *parent, const char *key, size_t i);
/* null where the value is not known: NAN, or below 0. */
static inline void sc_json_known_real(struct sc_json *json, json_t *parent, const char *key,
				      double value)
{
	isnan(value) ? sc_json_text(json, parent, key, NULL)
		     : sc_json_real(json, parent, key, value);
}
static inline void sc_json_known_int(struct sc_json *json, json_t *parent, const char *key,
				     int64_t value)
{
	value < 0 ? sc_json_text(json, parent, key, NULL) : sc_json_int(json, parent, key, value);
}

static inline void sc_json_count(struct sc_json *json, json_t *parent, const char *key, size_t n)
{
	sc_json_int(json, parent, key, (int64_t)n);
}

/* Up to six members of a struct as values of an object, each under its own name:
 * SC_JSON_PUT(json, object, *rank, name, busy_ms, idle_ms). SC_JSON_KNOWN writes numbers as the two
 * functions above do. */
#define SC_JSON_PUT(json, object, row, ...) \
	SC_JSON_EACH(SC_JSON_ONE, json, object, row, __VA_ARGS__)
#define SC_JSON_KNOWN(json, object, row, ...) \
	SC_JSON_EACH(SC_JSON_ONE_KNOWN, json, object, row, __VA_ARGS__)
/* clang-format off */
#define SC_JSON_ONE(j, o, r, m)                                                          \
	_Generic((r).m, double: sc_json_real, bool: sc_json_bool, size_t: sc_json_count, \
		 char *: sc_json_text, const char *: sc_json_text,                       \
		 default: sc_json_int)(j, o, #m, (r).m)
#define SC_JSON_ONE_KNOWN(j, o, r, m) \
	_Generic((r).m, double: sc_json_known_real, default: sc_json_known_int)(j, o, #m, (r).m)
#define SC_JSON_EACH(one, j, o, r, ...)                                                  \
	SC_JSON_COUNTED(__VA_ARGS__, SC_JSON_6, SC_JSON_5, SC_JSON_4, SC_JSON_3,         \
			SC_JSON_2, SC_JSON_1, 0)(one, j, o, r, __VA_ARGS__)
/* clang-format on */
#define SC_JSON_COUNTED(a, b, c, d, e, f, counted, ...) counted
#define SC_JSON_1(one, j, o, r, m) one(j, o, r, m)
#define SC_JSON_2(one, j, o, r, m, ...) one(j, o, r, m), SC_JSON_1(one, j, o, r, __VA_ARGS__)
#define SC_JSON_3(one, j, o, r, m, ...) one(j, o, r, m), SC_JSON_2(one, j, o, r, __VA_ARGS__)
#define SC_JSON_4(one, j, o, r, m, ...) one(j, o, r, m), SC_JSON_3(one, j, o, r, __VA_ARGS__)
#define SC_JSON_5(one, j, o, r, m, ...) one(j, o, r, m), SC_JSON_4(one, j, o, r, __VA_ARGS__)
#define SC_JSON_6(one, j, o, r, m, ...) one(j, o, r, m), SC_JSON_5(one, j, o, r, __VA_ARGS__)

/* Indented by two, sorted keys, a newline at the end, flushed. Nothing is written after a fault
 * but one of rows. Releases the document. */
int sc_json_write(struct sc_json *json, FILE *out, struct sc_err *err);
