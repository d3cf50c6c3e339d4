/* Builds and prints struct sc_err. Knows nothing of where errors come from. */
#include "base/err.h"

#include <stdio.h>
#include <string.h>

static const char cut_mark[] = "...";

/* Ends a cut text with "...", never inside a UTF-8 sequence. */
static void mark_cut(char *text, size_t size)
{
	size_t end = size - sizeof(cut_mark);

	while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80)
		end--;
	memcpy(text + end, cut_mark, sizeof(cut_mark));
}

/* Texts quote the user's data: no control byte of it may reach a terminal. */
static void mask_controls(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7F)
			*text = '?';
}

__attribute__((format(printf, 3, 0))) static void format_text(char *text, size_t size,
							      const char *fmt, va_list args)
{
	int n = vsnprintf(text, size, fmt, args);

	if (n < 0)
		text[0] = '\0';
	else if ((size_t)n >= size)
		mark_cut(text, size);
	mask_controls(text);
}

int sc_err_set(struct sc_err *err, enum sc_errc code, const char *fmt, ...)
{
	va_list args;

	if (!err)
		return -(int)code;
	if (err->code != SC_OK)
		return -(int)err->code;
	err->code = code;
	err->line = err->column = 0;
	err->file[0] = '\0';
	va_start(args, fmt);
	format_text(err->text, sizeof(err->text), fmt, args);
	va_end(args);
	return -(int)code;
}

int sc_err_at(struct sc_err *err, enum sc_errc code, const char *file, unsigned line,
	      unsigned column, const char *fmt, ...)
{
	va_list args;

	if (!err)
		return -(int)code;
	if (err->code != SC_OK)
		return -(int)err->code;
	err->code = code;
	err->line = line;
	err->column = column;
	/* A long path's end says more than its beginning. */
	const size_t size = sizeof(err->file);
	size_t n = file ? strlen(file) : 0;

	if (n < size) {
		memcpy(err->file, file ? file : "", n);
		err->file[n] = '\0';
	} else {
		const char *tail = file + n - (size - sizeof(cut_mark));

		memcpy(err->file, cut_mark, sizeof(cut_mark) - 1);
		memcpy(err->file + sizeof(cut_mark) - 1, tail, size - sizeof(cut_mark) + 1);
	}
	mask_controls(err->file);
	va_start(args, fmt);
	format_text(err->text, sizeof(err->text), fmt, args);
	va_end(args);
	return -(int)code;
}

void sc_err_prefix(struct sc_err *err, const char *fmt, ...)
{
	char context[sizeof(err->text)], text[sizeof(err->text)];
	va_list args;
	int n;

	if (!err || err->code == SC_OK)
		return;
	va_start(args, fmt);
	format_text(context, sizeof(context), fmt, args);
	va_end(args);
	memcpy(text, err->text, sizeof(text));
	n = snprintf(err->text, sizeof(err->text), "%s: %s", context, text);
	if (n >= (int)sizeof(err->text))
		mark_cut(err->text, sizeof(err->text));
}

const char *sc_err_format(const struct sc_err *err, char *buf, unsigned n_buf)
{
	char where[sizeof(err->file) + 32] = "";

	if (err->file[0] && err->line && err->column)
		snprintf(where, sizeof(where), "%s:%u:%u: ", err->file, err->line, err->column);
	else if (err->file[0] && err->line)
		snprintf(where, sizeof(where), "%s:%u: ", err->file, err->line);
	else if (err->file[0])
		snprintf(where, sizeof(where), "%s: ", err->file);
	snprintf(buf, n_buf, "%serror: %s", where, err->text);
	return buf;
}

void sc_warn(struct sc_warnings *warnings, const char *fmt, ...)
{
	size_t n_max = sizeof(warnings->text[0]);
	va_list args;
	char *text;
	int n;

	if (warnings->n == SC_MAX_WARNINGS)
		return;
	text = warnings->text[warnings->n++];
	va_start(args, fmt);
	n = vsnprintf(text, n_max, fmt, args);
	va_end(args);
	if (n >= (int)n_max)
		memcpy(text + n_max - 4, "...", 4);
}
