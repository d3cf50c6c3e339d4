/* See the header. jansson fails only without memory (which ends the program) or on bad UTF-8
 * (which is made good first). */
#include "base/json_out.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"

void sc_json_init(struct sc_json *json, const char *schema, int version)
{
	*json = (struct sc_json){.root = json_object()};
	sc_json_text(json, json->root, "schema", schema);
	sc_json_int(json, json->root, "version", version);
	sc_json_array(json, json->root, "warnings");
}

void sc_json_release(struct sc_json *json)
{
	json_decref(json->root);
	*json = (struct sc_json){0};
}

static const char *json_name(const char *key)
{
	return key ? key : "an array element";
}

/* Takes `value`. */
static json_t *json_put(struct sc_json *json, json_t *parent, const char *key, json_t *value)
{
	int rc;

	if (json_is_array(parent)) {
		assert(!key);
		rc = json_array_append_new(parent, value);
	} else {
		assert(!parent || (key && !json_object_get(parent, key)));
		rc = json_object_set_new(parent, key, value);
	}
	if (rc)
		sc_err_set(&json->err, SC_ELIMIT, "cannot build the JSON result: key=%s",
			   json_name(key));
	return rc ? NULL : value;
}

json_t *sc_json_object(struct sc_json *json, json_t *parent, const char *key)
{
	return json_put(json, parent, key, json_object());
}

json_t *sc_json_array(struct sc_json *json, json_t *parent, const char *key)
{
	return json_put(json, parent, key, json_array());
}

void sc_json_real(struct sc_json *json, json_t *parent, const char *key, double value)
{
	if (!isfinite(value))
		sc_err_set(&json->err, SC_EVALUE,
			   "a result is not a finite number: key=%s value=%g", json_name(key),
			   value);
	else
		json_put(json, parent, key, json_real(value + 0.0)); /* -0 is written as 0 */
}

void sc_json_int(struct sc_json *json, json_t *parent, const char *key, int64_t value)
{
	json_put(json, parent, key, json_integer(value));
}

void sc_json_bool(struct sc_json *json, json_t *parent, const char *key, bool value)
{
	json_put(json, parent, key, json_boolean(value));
}

void sc_json_text(struct sc_json *json, json_t *parent, const char *key, const char *text)
{
	struct sc_strbuf clean = {0};

	if (!text) {
		json_put(json, parent, key, json_null());
		return;
	}
	while (*text) {
		size_t n = sc_utf8_length(text);

		sc_strbuf_append_n(&clean, n ? text : "?", n ? n : 1);
		text += n ? n : 1;
	}
	json_put(json, parent, key, json_string(sc_strbuf_get(&clean)));
	sc_strbuf_release(&clean);
}

/* No result has an integer that is so low: the i-th rows stand in the place of this one plus i. */
#define ROWS_MARK INT64_MIN
static const char ROWS_TEXT[] = "\": -9223372036854";

void sc_json_rows(struct sc_json *json, json_t *parent, const char *key, size_t i)
{
	sc_json_int(json, parent, key, ROWS_MARK + (int64_t)i);
}

/* Writes the document with its rows, each in its place; a quote in a text would be escaped. */
static int write_rows(const struct sc_json *json, const char *text, FILE *out, struct sc_err *err)
{
	struct sc_json_stream stream = {.out = out, .is_indented = true};
	const char *at = text, *place = text, *line;
	char *end;

	while ((place = strstr(place, ROWS_TEXT))) {
		place += 3;
		if (place[-4] == '\\')
			continue;
		for (line = place; line > text && line[-1] != '\n';)
			line--;
		sc_strbuf_append_n(&stream.buf, at, (size_t)(place - at));
		stream.margin = (unsigned)strspn(line, " ");
		stream.comma = false;
		sc_json_stream_array(&stream, NULL);
		json->put_rows(json->rows, (size_t)(strtoll(place, &end, 10) - ROWS_MARK), &stream);
		sc_json_stream_end(&stream);
		at = place = end;
	}
	sc_strbuf_append(&stream.buf, at);
	return sc_json_stream_finish(&stream, err);
}

int sc_json_write(struct sc_json *json, FILE *out, struct sc_err *err)
{
	const size_t flags = JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(SC_JSON_DIGITS);
	char *text = NULL;
	int rc = 0;

	errno = 0;
	if (json->err.code != SC_OK)
		rc = sc_err_set(err, json->err.code, "%s", json->err.text);
	else if (json->put_rows && (text = json_dumps(json->root, flags)))
		rc = write_rows(json, text, out, err);
	else if (json_dumpf(json->root, out, flags) != 0 || fputc('\n', out) == EOF ||
		 fflush(out) != 0)
		rc = sc_err_set(err, SC_EIO, "cannot write the JSON result: %s", strerror(errno));
	free(text);
	sc_json_release(json);
	return rc;
}
