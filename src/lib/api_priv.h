/* What the parts of libstepcast share. Every public function that does something is between sc_api_enter and
 * sc_api_leave. */
#ifndef SC_LIB_API_PRIV_H
#define SC_LIB_API_PRIV_H

#include <jansson.h>
#include <locale.h>

#include "core/config/config.h"
#include "lib/options.h"
#include "lib/stepcast.h"

struct sc_api_call {
	locale_t caller; /* its locale: ours is C's */
	struct sc_err err;
};
void sc_api_enter(struct sc_api_call *call);
/* Keeps the error, if there is one, for stepcast_error. */
void sc_api_leave(const struct sc_api_call *call);

/* The config with what was set, and who loads what it names; borrowed. */
const struct sc_config *sc_api_config(const stepcast_request *request);
struct sc_catalog *sc_api_catalog(const stepcast_request *request);

/* Reads the options of a library call into a command's struct. */
struct sc_api_options {
	const char *const *words;
	size_t n;
	const char *command;
	const struct sc_cli_option *table;
};

#endif
