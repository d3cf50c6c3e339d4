/* Decimal text to numbers. The grammar is checked here, so that what the C library also takes
 * (hex, inf, nan, leading spaces) is refused. */
#include "base/num.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EXACT 9007199254740992.0 /* 2^53 */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before or after the point. */
static bool is_decimal(const char *p)
{
	size_t n_digits = 0;

	p += *p == '+' || *p == '-';
	for (; is_digit(*p); p++)
		n_digits++;
	if (*p == '.')
		for (p++; is_digit(*p); p++)
			n_digits++;
	if (!n_digits)
		return false;
	if (*p == 'e' || *p == 'E') {
		p++;
		p += *p == '+' || *p == '-';
		if (!is_digit(*p))
			return false;
		while (is_digit(*p))
			p++;
	}
	return *p == '\0';
}

bool sc_parse_double(const char *text, double *out)
{
	double value;
	char *end;

	if (!text || !is_decimal(text))
		return false;
	errno = 0;
	value = strtod(text, &end);
	if (*end || errno || !isfinite(value))
		return false;
	*out = value;
	return true;
}

bool sc_parse_int(const char *text, int64_t *out)
{
	long long whole;
	double real;
	char *end;

	if (!text || !is_decimal(text))
		return false;
	errno = 0;
	whole = strtoll(text, &end, 10);
	if (*end) { /* a point or an exponent: as far as a double is exact */
		if (!sc_parse_double(text, &real) || fabs(real) > EXACT || floor(real) < real)
			return false;
		whole = (long long)real;
	} else if (errno) {
		return false;
	}
	*out = whole;
	return true;
}

size_t sc_put_digits(double number, char text[SC_JSON_DIGITS + 8])
{
	const double least = 1e8; /* 10 to one less than SC_JSON_DIGITS */
	double scaled = number, scale = 1, whole;
	int point = SC_JSON_DIGITS, n = SC_JSON_DIGITS;
	char *to = text;

	if (!(number > 0)) {
		*to = '0';
		return number >= 0 && !signbit(number);
	}
	for (; scaled < least && point > -3; point--)
		scaled = number * (scale *= 10);
	whole = floor(scaled);
	if (!(scaled >= least && scaled < 10 * least - 1) || fabs(scaled - whole - 0.5) < 1e-6)
		return 0;
	uint32_t left = (uint32_t)whole + (scaled - whole > 0.5);

	for (; left % 10 == 0; left /= 10)
		n--;
	if (point <= 0) {
		memcpy(to, "0.000", 5);
		to += 2 - point;
	}
	for (int i = n; i < point; i++) /* zeros before the point */
		to[i] = '0';
	for (int i = n; i-- > 0; left /= 10)
		to[i + (point > 0 && i >= point)] = (char)('0' + left % 10);
	if (point > 0 && n > point)
		to[point] = '.';
	return (size_t)(to - text) + (size_t)(n > point ? n + (point > 0) : point);
}
