/* The table of well-formed sequences of RFC 3629, section 4. */
#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

static const struct {
	unsigned char first_min, first_max, second_min, second_max;
	unsigned char n_bytes;
} forms[] = {
	{0x00, 0x7F, 0x00, 0x00, 1}, {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
	{0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
	{0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
};

static bool in_range(unsigned char byte, unsigned char min, unsigned char max)
{
	return byte >= min && byte <= max;
}

size_t sc_utf8_length(const char *text)
{
	const unsigned char *byte = (const unsigned char *)text;

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (!in_range(byte[0], forms[i].first_min, forms[i].first_max))
			continue;
		if (forms[i].n_bytes > 1 &&
		    !in_range(byte[1], forms[i].second_min, forms[i].second_max))
			return 0;
		for (size_t k = 2; k < forms[i].n_bytes; k++)
			if (!in_range(byte[k], 0x80, 0xBF))
				return 0;
		return forms[i].n_bytes;
	}
	return 0;
}

size_t sc_wide_to_utf8(const wchar_t *text, char *out, size_t n)
{
	size_t used = 0;

	for (; *text; text++) {
		uint32_t c = (uint32_t)*text;
		char bytes[4];
		size_t width;

		if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
			c = 0xFFFD;
		width = sc_utf8_put(c, bytes);
		if (used + width >= n)
			break;
		memcpy(out + used, bytes, width);
		used += width;
	}
	out[used] = '\0';
	return used;
}
