/* Text goes to a buffer, the buffer to the file when it is large. */
#include "base/json_stream.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/json_text.h"

enum { BUFFER_BYTES = 1 << 16 };

static void stream_flush(struct sc_json_stream *stream)
{
	struct sc_strbuf *buf = &stream->buf;

	if (stream->err.code == SC_OK && fwrite(buf->at, 1, buf->n, stream->out) != buf->n)
		sc_err_set(&stream->err, SC_EIO, "cannot write: %s", strerror(errno));
	sc_strbuf_clear(buf);
}

/* Writes what precedes a value: comma, line break, key. Each object of an array begins a line. */
static void begin_value(struct sc_json_stream *stream, const char *key, bool is_object)
{
	struct sc_strbuf *buf = &stream->buf;
	bool in_array = stream->depth && stream->closer[stream->depth - 1] == ']';

	assert(stream->depth ? in_array == !key : !key && !stream->comma);
	if (stream->comma)
		sc_strbuf_append_char(buf, ',');
	if (in_array && is_object)
		sc_strbuf_append_char(buf, '\n');
	if (key) {
		sc_strbuf_append_char(buf, '"');
		sc_strbuf_append(buf, key);
		sc_strbuf_append_n(buf, "\":", 2);
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
	sc_strbuf_append_char(&stream->buf, stream->closer[--stream->depth]);
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

void sc_json_stream_fixed(struct sc_json_stream *stream, const char *key, double value,
			  unsigned n_decimals)
{
	static const double scales[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6};
	double scaled;

	assert(n_decimals < sizeof(scales) / sizeof(scales[0]));
	begin_value(stream, key, false);
	if (!isfinite(value)) {
		sc_err_set(&stream->err, SC_EVALUE,
			   "a result is not a finite number: key=%s value=%g", key ? key : "-",
			   value);
		return;
	}
	scaled = round(fabs(value) * scales[n_decimals]);
	if (scaled < 0x1p63)
		append_decimal(&stream->buf, (uint64_t)scaled, value < 0.0 && scaled > 0.0,
			       n_decimals);
	else
		sc_strbuf_printf(&stream->buf, "%.17g", value);
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
