/* Decimal text to numbers. The grammar is checked here, so that what the C library also takes
 * (hex, inf, nan, leading spaces) is refused. */
#include "base/num.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* Of an integer: far beyond what 19 digits need, far below what would overflow a long. */
enum { MAX_EXPONENT = 1 << 20 };

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
	if (*p == '.') {
		for (p++; is_digit(*p); p++)
			n_digits++;
	}
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

/* magnitude = magnitude * 10 + digit, or false if it no longer fits a uint64_t. */
static bool push_digit(uint64_t *magnitude, unsigned digit)
{
	if (*magnitude > (UINT64_MAX - digit) / 10)
		return false;
	*magnitude = *magnitude * 10 + digit;
	return true;
}

/* Exact: value = magnitude * 10^exponent where magnitude does not end in 0 (zeros are held back
 * until another digit follows), so it is integral if and only if the exponent is not negative. */
static bool parse_mantissa(const char **text, uint64_t *magnitude, long *exponent)
{
	const char *p = *text;
	bool after_point = false;
	long zeros = 0;

	*magnitude = 0;
	*exponent = 0;
	for (; is_digit(*p) || *p == '.'; p++) {
		if (*p == '.') {
			after_point = true;
			continue;
		}
		*exponent -= after_point;
		if (*p == '0') {
			zeros += *magnitude != 0;
			continue;
		}
		for (; zeros > 0; zeros--) {
			if (!push_digit(magnitude, 0))
				return false;
		}
		if (!push_digit(magnitude, (unsigned)(*p - '0')))
			return false;
	}
	*exponent += zeros;
	*text = p;
	return true;
}

bool sc_parse_int(const char *text, int64_t *out)
{
	uint64_t magnitude, limit;
	long exponent;
	bool negative;

	if (!text || !is_decimal(text))
		return false;
	negative = *text == '-';
	text += *text == '+' || *text == '-';
	if (!parse_mantissa(&text, &magnitude, &exponent))
		return false;
	if (magnitude == 0) {
		*out = 0;
		return true;
	}
	if (*text) {
		long given = strtol(text + 1, NULL, 10); /* saturates */

		if (given > MAX_EXPONENT || given < -MAX_EXPONENT)
			return false;
		exponent += given;
	}
	if (exponent < 0)
		return false;
	for (; exponent > 0; exponent--) {
		if (!push_digit(&magnitude, 0))
			return false;
	}
	limit = (uint64_t)INT64_MAX + negative;
	if (magnitude > limit)
		return false;
	*out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
	return true;
}
