/* JSON read piece by piece from memory, fast and forgiving: traces are written by many programs,
 * and cut by many more. Nothing is copied: texts are slices of the input, as they stand there.
 * Accepts NaN, inf, N/A and other bare words, missing and trailing commas, control characters in
 * texts. Where the input ends, SC_SCAN_MORE is returned: begin again at the last place when there
 * is more. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Readable bytes that must follow the end of the input. */
enum { SC_SCAN_PADDING = 32, SC_SCAN_MAX_DEPTH = 512 };

enum sc_scan_rc { SC_SCAN_OK, SC_SCAN_END /* of the object or list */, SC_SCAN_MORE, SC_SCAN_BAD };
struct sc_scan {
	const char *at, *end;
	bool loose; /* a quote ends a value only where one may end: for quotes not escaped */
};

enum sc_scan_kind { SC_SCAN_WORD, SC_SCAN_NUMBER, SC_SCAN_TEXT, SC_SCAN_LIST, SC_SCAN_OBJECT };
/* digits * 10^exponent */
struct sc_scan_decimal {
	uint64_t digits;
	int32_t exponent;
	bool negative, inexact; /* inexact: it has more digits than fit */
};
struct sc_scan_value {
	enum sc_scan_kind kind;
	const char *at; /* without the quotes of a text; lists and objects as they stand there */
	size_t n;
	struct sc_scan_decimal number; /* SC_SCAN_NUMBER */
};

/* Steps into an object '{' or a list '['. */
enum sc_scan_rc sc_scan_open(struct sc_scan *scan, char bracket);
/* The next key, after which its value is to be taken; or SC_SCAN_END behind the '}'. */
enum sc_scan_rc sc_scan_key(struct sc_scan *scan, struct sc_scan_value *key);
/* SC_SCAN_OK: an item stands next; SC_SCAN_END: behind the ']'. */
enum sc_scan_rc sc_scan_item(struct sc_scan *scan);
/* Any value; lists and objects as a whole. */
enum sc_scan_rc sc_scan_value(struct sc_scan *scan, struct sc_scan_value *out);
/* Behind the end of the object or list that the scan is in. */
enum sc_scan_rc sc_scan_leave(struct sc_scan *scan);
/* A value of a list or object taken as a whole, to be scanned itself. */
struct sc_scan sc_scan_into(const struct sc_scan_value *value);

/* Decimal times 10^shift as an integer, rounded half away from 0. False if it does not fit. */
bool sc_scan_integer(const struct sc_scan_decimal *number, int shift, int64_t *out);
/* An integer from a number, or from a text such as "12", "0x1f", "stream 7". */
bool sc_scan_any_integer(const struct sc_scan_value *value, int64_t *out);
/* A member of an object taken as a whole; false if it has none of the name, or no integer. */
bool sc_scan_member(const struct sc_scan_value *object, const char *name,
		    struct sc_scan_value *out);
bool sc_scan_member_integer(const struct sc_scan_value *object, const char *name, int64_t *out);
/* Words to look up by text: a table ordered by length. */
struct sc_scan_word {
	const char *text;
	uint8_t n;
	uint8_t id;
};
enum { SC_SCAN_MAX_WORD = 48, SC_SCAN_MAX_WORDS = 64 };
struct sc_scan_words {
	const struct sc_scan_word *at;
	uint8_t first[SC_SCAN_MAX_WORD + 2]; /* of each length */
	uint64_t heads[SC_SCAN_MAX_WORDS];   /* the first eight bytes of each */
};
#define SC_SCAN_W(text_, id_)                                                            \
	{                                                                                \
		.text = (text_), .n = (uint8_t)(sizeof(text_) - 1), .id = (uint8_t)(id_) \
	}
void sc_scan_words_init(struct sc_scan_words *words, const struct sc_scan_word *table, size_t n);
/* The first eight bytes of a word, of which n count. */
static inline uint64_t sc_scan_head(const char *text, size_t n)
{
	const unsigned unused = n < 8 ? 64 - 8 * (unsigned)n : 0;
	uint64_t head;

	memcpy(&head, text, sizeof(head));
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? head << unused : head >> unused;
}
/* The id, or -1. Eight bytes of the text are readable, however long it is. */
static inline int sc_scan_words_find(const struct sc_scan_words *words, const char *text, size_t n)
{
	uint64_t head;

	if (n == 0 || n > SC_SCAN_MAX_WORD || words->first[n] == words->first[n + 1])
		return -1;
	head = sc_scan_head(text, n);
	for (size_t i = words->first[n]; i < words->first[n + 1]; i++) {
		if (words->heads[i] == head &&
		    (n <= 8 || memcmp(words->at[i].text + 8, text + 8, n - 8) == 0))
			return words->at[i].id;
	}
	return -1;
}

static inline bool sc_scan_is(const struct sc_scan_value *value, const char *text, size_t n)
{
	return value->n == n && memcmp(value->at, text, n) == 0;
}
