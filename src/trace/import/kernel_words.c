/* A word ends at what is no letter or digit, between letters and digits, and at humps: "softMax",
 * "LAMBStage". */
#include "trace/import/kernel_words.h"

#include <ctype.h>
#include <string.h>

/* ---- words ---- */

enum kind { K_NONE, K_LOWER, K_UPPER, K_DIGIT };

static enum kind char_kind(char c)
{
	if (c >= '0' && c <= '9')
		return K_DIGIT;
	if (c >= 'a' && c <= 'z')
		return K_LOWER;
	return c >= 'A' && c <= 'Z' ? K_UPPER : K_NONE;
}

static void words_put(struct sc_words *words, char c, bool edge)
{
	if (words->n == SC_WORDS_MAX - 1)
		return;
	words->edge[words->n] = edge;
	words->text[words->n++] = (char)tolower((unsigned char)c);
}

static void put_blank(struct sc_words *words)
{
	if (words->n && words->text[words->n - 1] != ' ')
		words_put(words, ' ', true);
}

static void put_identifier(struct sc_words *words, const char *at, size_t n)
{
	enum kind before = K_NONE;

	for (size_t i = 0; i < n; i++) {
		const enum kind kind = char_kind(at[i]);
		const enum kind after = i + 1 < n ? char_kind(at[i + 1]) : K_NONE;

		if (kind != K_NONE)
			words_put(words, at[i],
				  kind == K_UPPER ? before != K_UPPER || after == K_LOWER
						  : kind != before && !(kind == K_LOWER &&
									before == K_UPPER));
		before = kind;
	}
}

bool sc_words_have(const struct sc_words *words, const char *wanted)
{
	const size_t n = strlen(wanted);

	for (const char *at = strstr(words->text, wanted); at; at = strstr(at + 1, wanted)) {
		const size_t first = (size_t)(at - words->text);

		if (words->edge[first] && words->edge[first + n])
			return true;
	}
	return false;
}

/* ---- names as people read them ---- */

/* "(anonymous namespace)", and the brackets of "operator()" and "{lambda()#1}". */
static size_t skip_brackets(const char *at, const char *name)
{
	static const char ANONYMOUS[] = "(anonymous namespace)";
	static const char OPERATOR[] = "operator", LAMBDA[] = "lambda";
	const size_t before = (size_t)(at - name);

	if (strncmp(at, ANONYMOUS, sizeof(ANONYMOUS) - 1) == 0)
		return sizeof(ANONYMOUS) - 1;
	if (before >= sizeof(OPERATOR) - 1 && at[1] == ')' &&
	    strncmp(at - (sizeof(OPERATOR) - 1), OPERATOR, sizeof(OPERATOR) - 1) == 0)
		return 2;
	if (before >= sizeof(LAMBDA) - 1 &&
	    strncmp(at - (sizeof(LAMBDA) - 1), LAMBDA, sizeof(LAMBDA) - 1) == 0)
		return strcspn(at, ")") + (strchr(at, ')') != NULL);
	return 0;
}

/* Up to the parameters: the first bracket that is no part of the name. */
static void split_readable(const char *name, struct sc_kernel_words *out)
{
	size_t depth = 0, n;

	for (const char *at = name; *at; at += n) {
		struct sc_words *words = depth ? &out->arguments : &out->own;

		for (n = 0; char_kind(at[n]) != K_NONE || at[n] == '_'; n++)
			;
		if (n) {
			put_identifier(words, at, n);
			continue;
		}
		n = 1;
		if (*at == '(' && skip_brackets(at, name))
			n = skip_brackets(at, name);
		else if (*at == '(' && depth == 0)
			break;
		if (*at == '<')
			depth++;
		else if (*at == '>' && depth)
			depth--;
		if (*at != ':')
			put_blank(words);
	}
}

/* ---- mangled names ---- */

/* "S1_", "T_", "Li128E": a digit in these is no length of a name. Characters, 0: none of these. */
static size_t skip_reference(const char *at)
{
	size_t n = 1;

	if (*at == 'S' || *at == 'T') {
		n += strspn(at + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		return at[n] == '_' ? n + 1 : 0;
	}
	if (*at == 'L' && at[1] && char_kind(at[1]) == K_LOWER) {
		n = 2 + strspn(at + 2, "n0123456789");
		return at[n] == 'E' ? n + 1 : 0;
	}
	return 0;
}

/* Names are "7softmax"; the first I begins the template arguments. */
static void split_mangled(const char *name, struct sc_kernel_words *out)
{
	struct sc_words *words = &out->own;
	const char *end = name + strlen(name);

	for (const char *at = name + 2; at < end;) {
		size_t n = 0;

		if (char_kind(*at) == K_DIGIT) {
			while (at < end && char_kind(*at) == K_DIGIT && n < SC_WORDS_MAX)
				n = 10 * n + (size_t)(*at++ - '0');
			n = n < (size_t)(end - at) ? n : (size_t)(end - at);
			put_identifier(words, at, n);
		} else {
			n = skip_reference(at);
			if (*at == 'I' && n == 0) {
				words = &out->arguments;
				put_blank(words);
			}
			n = n ? n : 1;
		}
		at += n;
	}
}

void sc_kernel_words_split(const char *name, struct sc_kernel_words *out)
{
	struct sc_words *both[] = {&out->own, &out->arguments};

	out->own.n = out->arguments.n = 0;
	if (strncmp(name, "_Z", 2) == 0)
		split_mangled(name, out);
	else
		split_readable(name, out);
	for (size_t i = 0; i < 2; i++) {
		both[i]->edge[both[i]->n] = true;
		both[i]->text[both[i]->n] = '\0';
	}
}
