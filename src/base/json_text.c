/* See the header. */
#include "base/json_text.h"

#include <string.h>

#include "base/utf8.h"

int sc_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void utf8_put(uint32_t code, struct sc_strbuf *out)
{
	char text[4];

	sc_strbuf_append_n(out, text, sc_utf8_put(code, text));
}

static bool hex4(const char *at, const char *end, uint32_t *out)
{
	*out = 0;
	if (end - at < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		int digit = sc_hex_digit(at[i]);

		if (digit < 0)
			return false;
		*out = *out << 4 | (uint32_t)digit;
	}
	return true;
}

/* After "\u". Returns the bytes used, 0 if these are not four hex digits. */
static size_t decode_unicode(const char *at, const char *end, struct sc_strbuf *out,
			     struct sc_json_faults *faults)
{
	uint32_t code, low;
	size_t n = 4;

	if (!hex4(at, end, &code))
		return 0;
	if (code >= 0xD800 && code < 0xDC00 && end - at >= 10 && at[4] == '\\' && at[5] == 'u' &&
	    hex4(at + 6, end, &low) && low >= 0xDC00 && low <= 0xDFFF) {
		code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
		n = 10;
	} else if ((code >= 0xD800 && code <= 0xDFFF) || code == 0 || code == 0xFFFD) {
		code = 0xFFFD;
		faults->n_bad++;
	}
	utf8_put(code, out);
	return n;
}

/* At a backslash. Returns the bytes used. */
static size_t decode_escape(const char *at, const char *end, struct sc_strbuf *out,
			    struct sc_json_faults *faults)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *known = end - at >= 2 && at[1] ? strchr(from, at[1]) : NULL;
	size_t n = end - at >= 2 && at[1] == 'u' ? decode_unicode(at + 2, end, out, faults) : 0;

	if (n)
		return 2 + n;
	if (known)
		sc_strbuf_append_char(out, to[known - from]);
	else
		sc_strbuf_append_char(out, '\\');
	faults->n_escapes += !known;
	return known ? 2 : 1;
}

struct sc_json_faults sc_json_decode(const char *at, size_t n, struct sc_strbuf *out)
{
	const char *end = n ? at + n : at;
	struct sc_json_faults faults = {0, 0};

	while (at < end) {
		const char *first = at;
		char next[5] = "";
		size_t width;

		while (at < end && (unsigned char)*at >= ' ' && (unsigned char)*at <= 0x7F &&
		       *at != '\\')
			at++;
		sc_strbuf_append_n(out, first, (size_t)(at - first));
		if (at == end)
			break;
		if (*at == '\\') {
			at += decode_escape(at, end, out, &faults);
			continue;
		}
		memcpy(next, at, end - at < 4 ? (size_t)(end - at) : 4);
		width = (unsigned char)*at < 0x80 ? 0 : sc_utf8_length(next);
		if (width) {
			sc_strbuf_append_n(out, at, width);
			at += width;
		} else {
			utf8_put(0xFFFD, out);
			faults.n_bad++;
			at++;
		}
	}
	return faults;
}

void sc_json_quote(const char *text, struct sc_strbuf *out)
{
	sc_strbuf_append_char(out, '"');
	while (*text) {
		size_t n = sc_utf8_length(text);

		if (*text == '"' || *text == '\\')
			sc_strbuf_printf(out, "\\%c", *text);
		else if ((unsigned char)*text < ' ')
			sc_strbuf_printf(out, "\\u%04x", (unsigned)*text);
		else
			sc_strbuf_append_n(out, n ? text : "?", n ? n : 1);
		text += n ? n : 1;
	}
	sc_strbuf_append_char(out, '"');
}
