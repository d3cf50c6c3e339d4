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
int sc_api_options_read(const struct sc_api_options *options, void *into, struct sc_arena *arena,
			struct sc_err *err);

/* `json` and `plan` (or NULL) are taken. */
stepcast_result *sc_api_result(char *json, char *plan);
/* Of one row, whose first columns the caller gave. Bytes that are not UTF-8 become "?"; in a name they are an error. */
stepcast_result *sc_api_row(const struct sc_csv *row, size_t n_given, struct sc_err *err);

#endif
