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

void sc_log_set_sink(sc_log_sink sink, void *ctx)
{
	log_state.sink = sink;
	log_state.ctx = ctx;
}

void sc_log_set_level(enum sc_log_level level)
{
	log_state.level = level;
}

bool sc_log_enabled(enum sc_log_level level)
{
	return log_state.sink && level <= log_state.level;
}

const char *sc_log_level_name(enum sc_log_level level)
{
	static const char *const names[] = {
		[SC_LOG_ERROR] = "error",
		[SC_LOG_WARNING] = "warning",
		[SC_LOG_INFO] = "info",
		[SC_LOG_DEBUG] = "debug",
	};

	return names[level];
}

void sc_log(enum sc_log_level level, const char *fmt, ...)
{
	char text[MAX_TEXT];
	va_list args;
	int n;

	if (!sc_log_enabled(level))
		return;
	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (n >= MAX_TEXT)
		memcpy(text + MAX_TEXT - sizeof("..."), "...", sizeof("..."));
	log_state.sink(log_state.ctx, level, text);
}
