/* Decides whether a message is kept; the sink decides where it goes. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TEXT = 1024 };

static struct {
	sc_log_sink sink;
	void *ctx;
	enum sc_log_level level;
} log_state = {.level = SC_LOG_WARNING};

void sc_log_to(sc_log_sink sink, void *ctx, enum sc_log_level most)
{
	log_state.sink = sink;
	log_state.ctx = ctx;
	log_state.level = most;
}

void sc_log(enum sc_log_level level, const char *fmt, ...)
{
	char text[MAX_TEXT];
	va_list args;
	int n;

	if (!log_state.sink || level > log_state.level)
		return;
	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (n >= MAX_TEXT)
		memcpy(text + MAX_TEXT - sizeof("..."), "...", sizeof("..."));
	log_state.sink(log_state.ctx, level, text);
}
