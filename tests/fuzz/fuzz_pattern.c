/* sc_pattern_parse on any text: what it accepts is a list of layers, the same as that list said one
 * by one. */
#include <stdlib.h>
#include <string.h>

#include "core/config/config_priv.h"
#include "fuzz.h"

static void expect(int holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_pattern once, twice;
	char *text = malloc(2 * size + 8);
	size_t n = 0;

	for (size_t i = 0; i < size; i++)
		if (data[i])
			text[n++] = (char)data[i];
	text[n] = '\0';
	if (sc_pattern_parse(text, &once, &err)) {
		expect(err.code != SC_OK && err.text[0]);
		free(text);
		return 0;
	}
	expect(once.n > 0 && once.n <= SC_MAX_PATTERN);
	if (text[0] != '*' && text[0] != '-' &&
	    !strpbrk(text, "ME")) { /* no letters: in brackets it is the same */
		memmove(text + 1, text, n);
		text[0] = '(';
		memcpy(text + n + 1, ")", 2);
		expect(sc_pattern_parse(text, &twice, &err) != 0 ||
		       (twice.n == once.n && memcmp(twice.at, once.at, once.n) == 0));
	}
	free(text);
	return 0;
}
