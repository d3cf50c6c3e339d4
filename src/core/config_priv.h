/* Shared by config_resolve.c (fills defaults) and config_check.c (proves that it fits together). */
#ifndef SC_CORE_CONFIG_PRIV_H
#define SC_CORE_CONFIG_PRIV_H

#include "core/config.h"

enum { SC_MAX_GPUS = 1 << 20 };
struct sc_resolver {
	struct sc_request *request;
	const char *file; /* or NULL */
	struct sc_err *err;
};
/* An error about the key `path`, placed where its value was given. Returns -code. */
int sc_resolve_fail(const struct sc_resolver *res, enum sc_errc code, const char *path,
		    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* After every default is filled. */
int sc_config_check(const struct sc_resolver *res);

#endif
