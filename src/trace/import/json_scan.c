/* Texts are searched 16 bytes at a time where the machine has SSE2, else 8. */
#include "trace/import/json_scan.h"

#include <assert.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/json_text.h"

enum { MAX_DIGITS = 19 };

static inline bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static inline bool is_digit(char c)
{
	return (unsigned char)(c - '0') <= 9;
}

/* Does the character end a number or a bare word? */
static inline bool is_end(char c)
{
	return c == ',' || c == '}' || c == ']' || c == ':' || is_space(c);
}

static inline enum sc_scan_rc skip_space(struct sc_scan *scan)
{
	const char *at = scan->at;

	while (is_space(*at))
		at++;
	if (at >= scan->end) {
		scan->at = scan->end;
		return SC_SCAN_MORE;
	}
	scan->at = at;
	return SC_SCAN_OK;
}

/* The next quote or backslash; at or behind the end if there is none. */
static inline const char *find_quote(const char *at, const char *end)
{
#ifdef __SSE2__
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');

	for (; at < end; at += 16) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
		int hits = _mm_movemask_epi8(
			_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, slash)));

		if (hits)
			return at + __builtin_ctz((unsigned)hits);
	}
#else
	for (; at < end; at += 8) {
		uint64_t bytes, q, s;

		memcpy(&bytes, at, sizeof(bytes));
		q = bytes ^ 0x2222222222222222u;
		s = bytes ^ 0x5C5C5C5C5C5C5C5Cu;
		q = (q - 0x0101010101010101u) & ~q & 0x8080808080808080u;
		s = (s - 0x0101010101010101u) & ~s & 0x8080808080808080u;
		if (q | s)
			break;
	}
	while (at < end && *at != '"' && *at != '\\')
		at++;
#endif
	return at;
}

/* May a value end with the quote at `at`? */
static enum sc_scan_rc ends_text(const struct sc_scan *scan, const char *at)
{
	at++;
	while (at < scan->end && is_space(*at))
		at++;
	if (at >= scan->end)
		return SC_SCAN_MORE;
	return *at == ',' || *at == '}' || *at == ']' ? SC_SCAN_OK : SC_SCAN_BAD;
}

static inline __attribute__((always_inline)) enum sc_scan_rc take_text(struct sc_scan *scan,
								       bool loose,
								       struct sc_scan_value *out)
{
	const char *at = scan->at + 1;

	out->kind = SC_SCAN_TEXT;
	out->at = at;
	for (;;) {
		at = find_quote(at, scan->end);
		if (at >= scan->end)
			return SC_SCAN_MORE;
		if (*at == '\\') {
			at += 2;
			continue;
		}
		if (loose) {
			enum sc_scan_rc rc = ends_text(scan, at);

			if (rc == SC_SCAN_MORE)
				return rc;
			if (rc == SC_SCAN_BAD) {
				at++;
				continue;
			}
		}
		out->n = (size_t)(at - out->at);
		scan->at = at + 1;
		return SC_SCAN_OK;
	}
}

static enum sc_scan_rc take_word(struct sc_scan *scan, struct sc_scan_value *out)
{
	const char *at = scan->at;

	while (at < scan->end && !is_end(*at) && *at != '"' && *at != '{' && *at != '[')
		at++;
	if (at >= scan->end)
		return SC_SCAN_MORE;
	if (at == scan->at || *at == '"' || *at == '{' || *at == '[')
		return SC_SCAN_BAD;
	out->kind = SC_SCAN_WORD;
	out->at = scan->at;
	out->n = (size_t)(at - scan->at);
	scan->at = at;
	return SC_SCAN_OK;
}

/* Digits into the number; those that do not fit any more count as exponent. */
static const char *take_digits(const char *at, struct sc_scan_decimal *number, unsigned *n_digits,
			       int per_digit)
{
	for (; is_digit(*at); at++) {
		if (*n_digits < MAX_DIGITS) {
			number->digits = number->digits * 10 + (uint64_t)(*at - '0');
			number->exponent += per_digit;
			*n_digits += number->digits > 0;
		} else {
			number->inexact = number->inexact || *at != '0';
			number->exponent += per_digit + 1;
		}
	}
	return at;
}

static const char *take_exponent(const char *at, struct sc_scan_decimal *number)
{
	const char *digits = at + 1;
	int32_t value = 0;
	bool negative = *digits == '-';

	if (*digits == '-' || *digits == '+')
		digits++;
	if (!is_digit(*digits))
		return at;
	for (; is_digit(*digits); digits++)
		value = value < 100000 ? value * 10 + (*digits - '0') : value;
	number->exponent += negative ? -value : value;
	return digits;
}

/* Nearly all numbers: "digits" or "digits.digits", few enough to fit. False: it is another one. */
static inline bool take_short_number(const char **from, struct sc_scan_decimal *number)
{
	const char *at = *from, *first = at;
	uint64_t digits = 0;

	for (; is_digit(*at); at++)
		digits = digits * 10 + (uint64_t)(*at - '0');
	if (*at == '.' && at > first) {
		const char *point = at++;

		for (; is_digit(*at); at++)
			digits = digits * 10 + (uint64_t)(*at - '0');
		number->exponent = (int32_t)(point + 1 - at);
	}
	if (at - first > MAX_DIGITS || at == first || *at == 'e' || *at == 'E')
		return false;
	number->digits = digits;
	*from = at;
	return true;
}

/* Reads into the padding at most: a number ends where no digit is. */
static enum sc_scan_rc take_number(struct sc_scan *scan, struct sc_scan_value *out)
{
	struct sc_scan_decimal *number = &out->number;
	const char *at = scan->at, *first;
	unsigned n_digits = 0;

	*number = (struct sc_scan_decimal){.negative = *at == '-'};
	at += *at == '-' || *at == '+';
	first = at;
	if (!take_short_number(&at, number)) {
		number->exponent = 0;
		at = take_digits(at, number, &n_digits, 0);
		if (*at == '.')
			at = take_digits(at + 1, number, &n_digits, -1);
		if (at > first && (*at == 'e' || *at == 'E'))
			at = take_exponent(at, number);
	}
	if (at >= scan->end)
		return SC_SCAN_MORE;
	if (at == first || !is_end(*at))
		return take_word(scan, out); /* -inf, 0x10, 12abc */
	out->kind = SC_SCAN_NUMBER;
	out->at = scan->at;
	out->n = (size_t)(at - scan->at);
	scan->at = at;
	return SC_SCAN_OK;
}

#ifdef __SSE2__
/* The places of 16 bytes that have the character, a bit each. */
static inline unsigned bits_equal(__m128i bytes, char c)
{
	return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)));
}

/* From a bit to the one before the next, all are set. */
static inline unsigned between_quotes(unsigned quotes)
{
	quotes ^= quotes << 1;
	quotes ^= quotes << 2;
	quotes ^= quotes << 4;
	return (quotes ^ quotes << 8) & 0xFFFF;
}
#endif

/* Behind the bracket that closes the outermost of `depth` that are open. */
static enum sc_scan_rc leave_nested(struct sc_scan *scan, unsigned depth)
{
	struct sc_scan_value text;
	bool in_text = false;
	char c;

	while (scan->at < scan->end) {
#ifdef __SSE2__
		const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)scan->at);

		if (!scan->loose && !bits_equal(bytes, '\\')) {
			/* With this bit [ is {, and ] is }. */
			const __m128i curly = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
			const unsigned inside =
				between_quotes(bits_equal(bytes, '"')) ^ (in_text ? 0xFFFF : 0);
			const unsigned opens = bits_equal(curly, '{') & ~inside;
			unsigned hits = (opens | bits_equal(curly, '}')) & ~inside;

			for (; hits; hits &= hits - 1) {
				const char *at = scan->at + __builtin_ctz(hits);

				if (at >= scan->end)
					return SC_SCAN_MORE;
				depth += opens & hits & -hits ? 1 : -1u;
				if (depth > SC_SCAN_MAX_DEPTH)
					return SC_SCAN_BAD;
				if (depth == 0) {
					scan->at = at + 1;
					return SC_SCAN_OK;
				}
			}
			in_text = inside >> 15;
			scan->at += 16;
			continue;
		}
#endif
		c = *scan->at;
		if (in_text || c == '"') {
			/* take_text begins behind a quote. */
			const enum sc_scan_rc rc =
				(scan->at -= in_text, take_text(scan, scan->loose, &text));

			if (rc)
				return rc;
			in_text = false;
			continue;
		}
		scan->at++;
		if (c == '{' || c == '[') {
			if (++depth > SC_SCAN_MAX_DEPTH)
				return SC_SCAN_BAD;
		} else if ((c == '}' || c == ']') && --depth == 0) {
			return SC_SCAN_OK;
		}
	}
	return SC_SCAN_MORE;
}

enum sc_scan_rc sc_scan_leave(struct sc_scan *scan)
{
	return leave_nested(scan, 1);
}

enum sc_scan_rc sc_scan_value(struct sc_scan *scan, struct sc_scan_value *out)
{
	char c = *scan->at;

	if (is_space(c) || scan->at >= scan->end) {
		if (skip_space(scan))
			return SC_SCAN_MORE;
		c = *scan->at;
	}
	if (c == '"')
		return take_text(scan, scan->loose, out);
	if (is_digit(c) || c == '-' || c == '+' || c == '.')
		return take_number(scan, out);
	if (c == '{' || c == '[') {
		enum sc_scan_rc rc;

		out->kind = c == '{' ? SC_SCAN_OBJECT : SC_SCAN_LIST;
		out->at = scan->at;
		rc = leave_nested(scan, 0);
		out->n = (size_t)(scan->at - out->at);
		return rc;
	}
	return take_word(scan, out);
}

enum sc_scan_rc sc_scan_open(struct sc_scan *scan, char bracket)
{
	if (skip_space(scan))
		return SC_SCAN_MORE;
	if (*scan->at != bracket)
		return SC_SCAN_BAD;
	scan->at++;
	return SC_SCAN_OK;
}

/* To what comes next, over commas. */
static inline enum sc_scan_rc skip_commas(struct sc_scan *scan)
{
	if (skip_space(scan))
		return SC_SCAN_MORE;
	while (*scan->at == ',') {
		scan->at++;
		if (skip_space(scan))
			return SC_SCAN_MORE;
	}
	return SC_SCAN_OK;
}

enum sc_scan_rc sc_scan_key(struct sc_scan *scan, struct sc_scan_value *key)
{
	enum sc_scan_rc rc = SC_SCAN_OK;

	/* Nearly all keys stand behind a comma and a space. */
	if (scan->at < scan->end && scan->at[0] == ',' && scan->at[1] == ' ' && scan->at[2] == '"')
		scan->at += 2;
	else
		rc = skip_commas(scan);
	if (rc)
		return rc;
	if (*scan->at == '}') {
		scan->at++;
		return SC_SCAN_END;
	}
	if (*scan->at != '"')
		return SC_SCAN_BAD;
	rc = take_text(scan, false, key);
	if (rc)
		return rc;
	if ((*scan->at != ':' || scan->at >= scan->end) && skip_space(scan))
		return SC_SCAN_MORE;
	if (*scan->at != ':')
		return SC_SCAN_BAD;
	scan->at += scan->end - scan->at > 1 && scan->at[1] == ' ' ? 2 : 1;
	return SC_SCAN_OK;
}

enum sc_scan_rc sc_scan_item(struct sc_scan *scan)
{
	enum sc_scan_rc rc = skip_commas(scan);

	if (rc)
		return rc;
	if (*scan->at != ']')
		return SC_SCAN_OK;
	scan->at++;
	return SC_SCAN_END;
}

struct sc_scan sc_scan_into(const struct sc_scan_value *value)
{
	/* A value that was never said has no text at all. */
	const char *at = value->n ? value->at : "";

	return (struct sc_scan){.at = at, .end = at + value->n};
}

bool sc_scan_integer(const struct sc_scan_decimal *number, int shift, int64_t *out)
{
	uint64_t value = number->digits;
	int exponent = number->exponent + shift;

	if (value == 0) {
		*out = 0;
		return true;
	}
	for (; exponent > 0; exponent--) {
		if (value > (uint64_t)INT64_MAX / 10)
			return false;
		value *= 10;
	}
	if (exponent < -MAX_DIGITS)
		value = 0;
	else if (exponent < 0) {
		for (; exponent < -1; exponent++)
			value /= 10;
		value = (value + 5) / 10;
	}
	if (value > (uint64_t)INT64_MAX)
		return false;
	*out = number->negative ? -(int64_t)value : (int64_t)value;
	return true;
}

static bool hex_integer(const char *at, const char *end, int64_t *out)
{
	uint64_t value = 0;

	if (at == end || end - at > 16)
		return false;
	for (; at < end; at++) {
		int digit = sc_hex_digit(*at);

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

void sc_scan_words_init(struct sc_scan_words *words, const struct sc_scan_word *table, size_t n)
{
	size_t at = 0;

	assert(n <= SC_SCAN_MAX_WORDS);
	words->at = table;
	for (size_t len = 0; len <= SC_SCAN_MAX_WORD + 1; len++) {
		while (at < n && table[at].n < len)
			at++;
		words->first[len] = (uint8_t)at;
	}
	assert(at == n || table[n - 1].n <= SC_SCAN_MAX_WORD);
	for (size_t i = 0; i < n; i++) {
		char padded[8] = "";

		assert(i == 0 || table[i - 1].n <= table[i].n);
		memcpy(padded, table[i].text, table[i].n < 8 ? table[i].n : 8);
		words->heads[i] = sc_scan_head(padded, table[i].n);
	}
}

bool sc_scan_member(const struct sc_scan_value *object, const char *name, struct sc_scan_value *out)
{
	struct sc_scan scan = sc_scan_into(object);
	struct sc_scan_value key;

	if (object->kind != SC_SCAN_OBJECT || sc_scan_open(&scan, '{'))
		return false;
	while (sc_scan_key(&scan, &key) == SC_SCAN_OK && sc_scan_value(&scan, out) == SC_SCAN_OK)
		if (sc_scan_is(&key, name, strlen(name)))
			return true;
	return false;
}

bool sc_scan_member_integer(const struct sc_scan_value *object, const char *name, int64_t *out)
{
	struct sc_scan_value value;

	return sc_scan_member(object, name, &value) && sc_scan_any_integer(&value, out);
}
