#include "trace/capture/wide_text.h"

#include <stdint.h>

size_t sc_wide_to_utf8(const wchar_t *text, char *out, size_t n)
{
	size_t used = 0;

	for (; *text; text++) {
		uint32_t c = (uint32_t)*text;
		unsigned extra;

		if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
			c = 0xFFFD;
		extra = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
		if (used + extra + 1 >= n)
			break;
		if (!extra) {
			out[used++] = (char)c;
			continue;
		}
		/* 110xxxxx, 1110xxxx, 11110xxx, then 10xxxxxx each. */
		out[used++] = (char)((0xFF00 >> (extra + 1) & 0xFF) | c >> (6 * extra));
		while (extra--)
			out[used++] = (char)(0x80 | (c >> (6 * extra) & 0x3F));
	}
	out[used] = '\0';
	return used;
}
