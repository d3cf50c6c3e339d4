#include "trace/capture/wide_text.h"

#include <string.h>

#include "base/utf8.h"

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
