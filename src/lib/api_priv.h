/* Structs and checks that the parts of libstepcast share. Every public function that does something
 * is between sc_api_enter and sc_api_leave. */
#pragma once

#include <jansson.h>
#include <locale.h>
#include <stdatomic.h>

#include "base/vec.h"
#include "core/config/config.h"
#include "lib/options.h"
#include "lib/stepcast.h"

struct sc_api_call {
	locale_t caller;       /* its locale: ours is C's */
	struct sc_arena arena; /* of the call */
	struct sc_err err;
};
void sc_api_enter(struct sc_api_call *call);
/* Keeps the error, if there is one, for stepcast_error. */
void sc_api_leave(struct sc_api_call *call);

/* Copies of a request share it; it does not change. */
struct sc_api_loaded {
	atomic_uint n_users;
	struct sc_arena arena;
	struct sc_config config;
	struct sc_catalog *catalog;
};
struct sc_api_setting {
	const char *key, *value;
};
struct stepcast_request {
	struct sc_api_loaded *loaded;
	struct sc_arena arena;
	struct sc_config config; /* with what was set */
	SC_VEC(struct sc_api_setting) settings;
};
