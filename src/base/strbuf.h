/* Text that grows. Invariants: at == NULL only if cap == 0; else n < cap and at[n] == '\0'.
 * A zeroed struct is an empty text. Out of memory ends the program. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct sc_strbuf {
	char *at;
	size_t n, cap; /* bytes without the NUL; bytes allocated */
};

void sc_strbuf_release(struct sc_strbuf *buf); /* leaves it empty, ready for use */
void sc_strbuf_clear(struct sc_strbuf *buf);   /* empty, memory kept */
void sc_strbuf_append_n(struct sc_strbuf *buf, const char *text, size_t n);
void sc_strbuf_printf(struct sc_strbuf *buf, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void sc_strbuf_vprintf(struct sc_strbuf *buf, const char *fmt, va_list args)
	__attribute__((format(printf, 2, 0)));

static inline void sc_strbuf_append(struct sc_strbuf *buf, const char *text)
{
	sc_strbuf_append_n(buf, text, strlen(text));
}
static inline void sc_strbuf_append_char(struct sc_strbuf *buf, char c)
{
	sc_strbuf_append_n(buf, &c, 1);
}

/* never NULL; until the next change */
static inline const char *sc_strbuf_get(const struct sc_strbuf *buf)
{
	return buf->at ? buf->at : "";
}

/* The text, now the caller's to free; the buffer is empty. */
char *sc_strbuf_detach(struct sc_strbuf *buf);
/* Is the word (n bytes) in the text, letters' case apart? No text has none. */
bool sc_text_has(const char *text, const char *word, size_t n);

/* The end of a noun: "" for one of them, else "s". */
static inline const char *sc_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}
