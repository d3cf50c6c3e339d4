/* Text goes to a buffer, the buffer to the file when it is large. */
#include "base/json_stream.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "base/num.h"

enum { BUFFER_BYTES = 1 << 16 };

static void stream_flush(struct sc_json_stream *stream)
{
	struct sc_strbuf *buf = &stream->buf;

	if (stream->err.code == SC_OK && fwrite(buf->at, 1, buf->n, stream->out) != buf->n)
		sc_err_set(&stream->err, SC_EIO, "cannot write: %s", strerror(errno));
	sc_strbuf_clear(buf);
}

static void begin_line(struct sc_json_stream *stream)
{
	static const char line[] = "\n                                                ";
	const unsigned n = stream->is_indented ? stream->margin + 2 * stream->depth : 0;

	assert(n + 1 < sizeof(line));
	sc_strbuf_append_n(&stream->buf, line, n + 1);
}

/* Writes what precedes a value: comma, line break, key. Each object of an array begins a line. */
static void begin_value(struct sc_json_stream *stream, const char *key, bool is_object)
{
	struct sc_strbuf *buf = &stream->buf;
	bool in_array = stream->depth && stream->closer[stream->depth - 1] == ']';

	assert(stream->depth ? in_array == !key : !key && !stream->comma);
	if (stream->comma)
		sc_strbuf_append_char(buf, ',');
	if (stream->is_indented ? stream->depth > 0 : in_array && is_object)
		begin_line(stream);
	if (key) {
		sc_strbuf_append_char(buf, '"');
		sc_strbuf_append(buf, key);
		sc_strbuf_append_n(buf, "\": ", stream->is_indented ? 3 : 2);
	}
	stream->comma = true;
}

static void open_value(struct sc_json_stream *stream, const char *key, const char *brackets)
{
	assert(stream->depth < SC_JSON_STREAM_DEPTH);
	begin_value(stream, key, brackets[0] == '{');
	sc_strbuf_append_char(&stream->buf, brackets[0]);
	stream->closer[stream->depth++] = brackets[1];
	stream->comma = false;
}

void sc_json_stream_object(struct sc_json_stream *stream, const char *key)
{
	open_value(stream, key, "{}");
}

void sc_json_stream_array(struct sc_json_stream *stream, const char *key)
{
	open_value(stream, key, "[]");
}

void sc_json_stream_end(struct sc_json_stream *stream)
{
	assert(stream->depth);
	stream->depth--;
	if (stream->is_indented && stream->comma)
		begin_line(stream);
	sc_strbuf_append_char(&stream->buf, stream->closer[stream->depth]);
	stream->comma = true;
	if (stream->buf.n > BUFFER_BYTES)
		stream_flush(stream);
}

void sc_json_stream_text(struct sc_json_stream *stream, const char *key, const char *text)
{
	begin_value(stream, key, false);
	sc_json_quote(text, &stream->buf);
}

/* Digits of `value` / 10^n_decimals, with the point. */
static void append_decimal(struct sc_strbuf *buf, uint64_t value, bool negative,
			   unsigned n_decimals)
{
	char text[32], *p = text + sizeof(text);
	unsigned n_digits = 0;

	while (value || n_digits <= n_decimals) {
		if (n_decimals && n_digits == n_decimals)
			*--p = '.';
		*--p = (char)('0' + value % 10);
		value /= 10;
		n_digits++;
	}
	if (negative)
		*--p = '-';
	sc_strbuf_append_n(buf, p, (size_t)(text + sizeof(text) - p));
}

void sc_json_stream_int(struct sc_json_stream *stream, const char *key, int64_t value)
{
	uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

	begin_value(stream, key, false);
	append_decimal(&stream->buf, magnitude, value < 0, 0);
}

static void stream_fault(struct sc_json_stream *stream, const char *key, double value)
{
	sc_err_set(&stream->err, SC_EVALUE, "a result is not a finite number: key=%s value=%g",
		   key ? key : "-", value);
}

void sc_json_stream_fixed(struct sc_json_stream *stream, const char *key, double value,
			  unsigned n_decimals)
{
	static const double scales[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6};
	double scaled;

	assert(n_decimals < sizeof(scales) / sizeof(scales[0]));
	begin_value(stream, key, false);
	if (!isfinite(value)) {
		stream_fault(stream, key, value);
		return;
	}
	scaled = round(fabs(value) * scales[n_decimals]);
	if (scaled < 0x1p63)
		append_decimal(&stream->buf, (uint64_t)scaled, value < 0.0 && scaled > 0.0,
			       n_decimals);
	else
		sc_strbuf_printf(&stream->buf, "%.17g", value);
}

void sc_json_stream_real(struct sc_json_stream *stream, const char *key, double value)
{
	char text[SC_JSON_DIGITS + 16], *exponent = NULL;
	size_t n = sc_put_digits(value + 0.0, text); /* -0 is written as 0 */

	begin_value(stream, key, false);
	if (!isfinite(value)) {
		stream_fault(stream, key, value);
		return;
	}
	if (n == 0) {
		n = (size_t)snprintf(text, sizeof(text), "%.*g", SC_JSON_DIGITS, value);
		exponent = strchr(text, 'e');
	}
	if (exponent)
		n = (size_t)(exponent - text) +
		    (size_t)sprintf(exponent, "e%ld", strtol(exponent + 1, NULL, 10));
	else if (!memchr(text, '.', n)) {
		memcpy(text + n, ".0", 2);
		n += 2;
	}
	sc_strbuf_append_n(&stream->buf, text, n);
}

int sc_json_stream_finish(struct sc_json_stream *stream, struct sc_err *err)
{
	assert(stream->depth == 0);
	sc_strbuf_append_char(&stream->buf, '\n');
	stream_flush(stream);
	if (fflush(stream->out) != 0)
		sc_err_set(&stream->err, SC_EIO, "cannot write: %s", strerror(errno));
	sc_strbuf_release(&stream->buf);
	if (stream->err.code == SC_OK)
		return 0;
	return sc_err_set(err, stream->err.code, "%s", stream->err.text);
}
