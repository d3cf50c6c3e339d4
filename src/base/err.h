/* Errors of the user's data or the system. The caller owns the struct and may pass NULL;
 * the first error set wins; callers may prefix context. Our own mistakes are asserts. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

enum sc_errc {
	SC_OK = 0,
	SC_EIO,       /* the system refused: open, read, write */
	SC_EFORMAT,   /* not the format it should be (YAML, CSV, JSON syntax) */
	SC_EVALUE,    /* well-formed, but a value is unknown, missing, mistyped or out of range */
	SC_ECONFLICT, /* values that do not fit together */
	SC_ELIMIT,    /* too large, too deep, too many */
	SC_EDEADLOCK, /* a simulation that cannot end */
	SC_EUNSUPPORTED,
	SC_EUSAGE,  /* wrong command line: exit code 2 */
	SC_EMISFIT, /* no candidate fits the memory: exit code 3 */
};

struct sc_err {
	enum sc_errc code;
	unsigned line, column; /* 1-based; 0 = not known */
	char file[128];
	char text[256];
};

/* All return -code, so that `return sc_err_set(err, ...)` reads well. A second call on a set
 * error leaves it as it is. Text longer than the buffer is cut with "...". */
int sc_err_set(struct sc_err *err, enum sc_errc code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int sc_err_at(struct sc_err *err, enum sc_errc code, const char *file, unsigned line,
	      unsigned column, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* The place of what has file, line and column, as arguments of sc_err_at. */
#define SC_AT(place) (place)->file, (place)->line, (place)->column
/* Puts "context: " before the text of an error that is set. */
void sc_err_prefix(struct sc_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "file:line:col: error: text" without a newline, into buf. Returns buf. */
const char *sc_err_format(const struct sc_err *err, char *buf, unsigned n_buf);

/* Remarks that a result must be read with: few, short, in the order in which they were found. */
enum { SC_MAX_WARNINGS = 16 };
struct sc_warnings {
	size_t n;
	char text[SC_MAX_WARNINGS][160];
};
void sc_warn(struct sc_warnings *warnings, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
