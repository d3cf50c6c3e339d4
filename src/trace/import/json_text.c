/* What the texts of a scan mean: integers in quotes, escapes, known words. */
#include <assert.h>
#include <string.h>

#include "base/utf8.h"
#include "trace/import/json_scan.h"

enum { MAX_DIGITS = 19, WIDTH_UTF8_MAX = 4 };

static inline bool is_digit(char c)
{
	return (unsigned char)(c - '0') <= 9;
}

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool hex_integer(const char *at, const char *end, int64_t *out)
{
	uint64_t value = 0;

	if (at == end || end - at > 16)
		return false;
	for (; at < end; at++) {
		int digit = hex_digit(*at);

		if (digit < 0)
			return false;
		value = value << 4 | (uint64_t)digit;
	}
	*out = (int64_t)value;
	return true;
}

bool sc_scan_any_integer(const struct sc_scan_value *value, int64_t *out)
{
	const char *at = value->at, *end = at + value->n;
	struct sc_scan_decimal number = {0};
	unsigned n_digits = 0;

	if (value->kind == SC_SCAN_NUMBER)
		return sc_scan_integer(&value->number, 0, out);
	if ((value->kind != SC_SCAN_TEXT && value->kind != SC_SCAN_WORD) || value->n == 0)
		return false;
	if (value->n > 2 && at[0] == '0' && (at[1] | 0x20) == 'x')
		return hex_integer(at + 2, end, out);
	while (at < end && !is_digit(*at) && *at != '-')
		at++; /* "stream 7" */
	if (at < end && *at == '-') {
		number.negative = true;
		at++;
	}
	if (at == end || !is_digit(*at))
		return false;
	for (; at < end && is_digit(*at) && n_digits < MAX_DIGITS; at++, n_digits++)
		number.digits = number.digits * 10 + (uint64_t)(*at - '0');
	return at == end && sc_scan_integer(&number, 0, out);
}

static void put_utf8(struct sc_strbuf *out, uint32_t code)
{
	char text[WIDTH_UTF8_MAX];
	size_t n = 0;

	if (code < 0x80) {
		text[n++] = (char)code;
	} else if (code < 0x800) {
		text[n++] = (char)(0xC0 | code >> 6);
		text[n++] = (char)(0x80 | (code & 0x3F));
	} else if (code < 0x10000) {
		text[n++] = (char)(0xE0 | code >> 12);
		text[n++] = (char)(0x80 | (code >> 6 & 0x3F));
		text[n++] = (char)(0x80 | (code & 0x3F));
	} else {
		text[n++] = (char)(0xF0 | code >> 18);
		text[n++] = (char)(0x80 | (code >> 12 & 0x3F));
		text[n++] = (char)(0x80 | (code >> 6 & 0x3F));
		text[n++] = (char)(0x80 | (code & 0x3F));
	}
	sc_strbuf_append_n(out, text, n);
}

static bool hex4(const char *at, const char *end, uint32_t *out)
{
	*out = 0;
	if (end - at < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		int digit = hex_digit(at[i]);

		if (digit < 0)
			return false;
		*out = *out << 4 | (uint32_t)digit;
	}
	return true;
}

/* After "\u". Returns the bytes used, 0 if these are not four hex digits. */
static size_t decode_unicode(const char *at, const char *end, uint32_t *code)
{
	uint32_t low;

	if (!hex4(at, end, code))
		return 0;
	if (*code < 0xD800 || *code > 0xDFFF)
		return 4;
	if (*code < 0xDC00 && end - at >= 10 && at[4] == '\\' && at[5] == 'u' &&
	    hex4(at + 6, end, &low) && low >= 0xDC00 && low <= 0xDFFF) {
		*code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
		return 10;
	}
	*code = 0xFFFD;
	return 4;
}

/* At a backslash. Returns the bytes used; an unknown escape stands for itself. */
static size_t decode_escape(const char *at, const char *end, struct sc_strbuf *out, size_t *n_bad)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *known = end - at >= 2 && at[1] ? strchr(from, at[1]) : NULL;
	uint32_t code = 0;
	size_t n;

	if (known) {
		sc_strbuf_append_char(out, to[known - from]);
		return 2;
	}
	if (end - at >= 2 && at[1] == 'u') {
		n = decode_unicode(at + 2, end, &code);
		if (n) {
			code = code ? code : 0xFFFD;
			*n_bad += code == 0xFFFD;
			put_utf8(out, code);
			return 2 + n;
		}
	}
	sc_strbuf_append_char(out, '\\');
	return 1;
}

static size_t utf8_at(const char *at, const char *end)
{
	char text[WIDTH_UTF8_MAX + 1] = {0};
	size_t n = (size_t)(end - at) < WIDTH_UTF8_MAX ? (size_t)(end - at) : WIDTH_UTF8_MAX;

	memcpy(text, at, n);
	n = sc_utf8_length(text);
	return n;
}

size_t sc_scan_decode(const char *at, size_t n, struct sc_strbuf *out)
{
	const char *end = n ? at + n : at;
	size_t n_bad = 0, width;

	while (at < end) {
		const char *first = at;

		while (at < end && (unsigned char)*at >= ' ' && (unsigned char)*at < 0x7F &&
		       *at != '\\')
			at++;
		sc_strbuf_append_n(out, first, (size_t)(at - first));
		if (at == end)
			break;
		if (*at == '\\') {
			at += decode_escape(at, end, out, &n_bad);
			continue;
		}
		width = (unsigned char)*at < 0x80 ? 0 : utf8_at(at, end);
		if (width) {
			sc_strbuf_append_n(out, at, width);
			at += width;
		} else {
			put_utf8(out, 0xFFFD);
			n_bad++;
			at++;
		}
	}
	return n_bad;
}

void sc_scan_words_init(struct sc_scan_words *words, const struct sc_scan_word *table, size_t n)
{
	size_t at = 0;

	words->at = table;
	for (size_t len = 0; len <= SC_SCAN_MAX_WORD + 1; len++) {
		while (at < n && table[at].n < len)
			at++;
		words->first[len] = (uint8_t)at;
	}
	assert(at == n || table[n - 1].n <= SC_SCAN_MAX_WORD);
	for (size_t i = 1; i < n; i++)
		assert(table[i - 1].n <= table[i].n);
}

int sc_scan_words_find(const struct sc_scan_words *words, const char *text, size_t n)
{
	const struct sc_scan_word *word, *end;

	if (n == 0 || n > SC_SCAN_MAX_WORD)
		return -1;
	word = words->at + words->first[n];
	end = words->at + words->first[n + 1];
	for (; word < end; word++) {
		if (word->text[0] == text[0] && memcmp(word->text, text, n) == 0)
			return word->id;
	}
	return -1;
}
