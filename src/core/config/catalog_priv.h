/* Profiles loaded once and shared; what is returned lives as long as the catalog. Thread-safe. */
#pragma once

#include "core/config/config.h"
#include "core/config/likeness.h"

int sc_catalog_device(struct sc_catalog *catalog, const char *id, const struct sc_device **out,
		      struct sc_err *err);
int sc_catalog_software(struct sc_catalog *catalog, const char *id, const struct sc_software **out,
			struct sc_err *err);
/* `name`: cluster.fabric; one that is no file gives the default profile, as NULL does. */
int sc_catalog_fabric(struct sc_catalog *catalog, const char *name,
		      const struct sc_fabric_profile **out, struct sc_err *err);
/* The band of an iteration like that, which is kept; its texts live as long as the catalog. own_ln:
 * what the software's profile says of it, or 0. */
int sc_catalog_band(struct sc_catalog *catalog, const struct sc_like *like, double own_ln,
		    const struct sc_band **out, struct sc_err *err);
/* A file of configs/models as it is written: what it leaves out is SC_NOT_GIVEN. */
struct sc_known_model {
	const char *id;
	struct sc_model model;
	const struct sc_known_model *next;
};

#define SC_DEFAULT_SOFTWARE SC_NAMELESS
#define SC_DEFAULT_FABRIC "default"
