/* Messages by level to a sink that cli sets; until then they go nowhere. The level and the sink are
 * the program's only mutable globals: set once, before any thread starts. */
#ifndef SC_BASE_LOG_H
#define SC_BASE_LOG_H

enum sc_log_level { SC_LOG_ERROR, SC_LOG_WARNING, SC_LOG_INFO, SC_LOG_DEBUG };
/* Called from any thread, one message a call, without a newline. */
typedef void (*sc_log_sink)(void *ctx, enum sc_log_level level, const char *text);

/* sink NULL: nowhere; `most`: the most detailed level that is kept. */
void sc_log_to(sc_log_sink sink, void *ctx, enum sc_log_level most);
/* A sentence, then key=value fields. Text beyond 1 KiB is cut with "...". */
void sc_log(enum sc_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
