/* Device and software files: FOLDER/ID.yaml, `schema: stepcast/1`, perhaps `sources:`, perhaps
 * `defaults: FOLDER/x.yaml`, read first. Shared by device.c and software.c. */
#pragma once

#include "base/fields.h"
#include "base/yaml.h"

#define SC_SCHEMA "stepcast/1"

struct sc_profile_kind {
	const char *folder; /* "devices" */
	const char *noun;   /* "device", for messages */
	const char *hidden; /* ids that begin so are files of defaults, not profiles; or NULL */
	const struct sc_field *fields;
	/* Takes what no field holds from each file, that of the defaults first; or NULL. */
	void (*take)(const struct sc_yaml *file, void *object, struct sc_arena *arena);
};
/* The keys that every profile file may have and no profile holds. */
#define SC_PROFILE_KEYS                                                              \
	{.key = "schema", .type = SC_F_IGNORE, .help = "stepcast/1"},                \
		{.key = "defaults", .type = SC_F_IGNORE, .help = "file read first"}, \
	{                                                                            \
		.key = "sources", .type = SC_F_IGNORE, .help = "provenance"          \
	}

/* A number of a profile that a file must give. */
#define SC_REQUIRED (-1)
/* Reads FOLDER/ID.yaml into `object`. A number that is SC_REQUIRED and not given is an error. */
int sc_profile_load(const struct sc_profile_kind *kind, const char *id, void *object,
		    struct sc_arena *arena, struct sc_err *err);
/* Checks the key `schema` of a mapping: stepcast/1, or absent where `required` is false. */
int sc_schema_check(const struct sc_yaml *map, bool required, struct sc_err *err);

extern const struct sc_profile_kind sc_software_kind;
