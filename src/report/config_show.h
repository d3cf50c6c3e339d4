/* A resolved or imported request as YAML to be read again, each line with its value's origin. */
#pragma once

#include "base/strbuf.h"
#include "core/config/config.h"
#include "core/foreign/foreign.h"

/* Appends a value as YAML, on one line. */
void sc_config_show_value(const struct sc_field *field, const void *place, struct sc_strbuf *out);
void sc_config_show(const struct sc_request *request, struct sc_strbuf *out);
/* A hash of all resolved values, wherever they came from: equal for requests that are predicted
 * alike by one version with the same profiles. Returns `buf`. */
enum { SC_CONFIG_HASH_BYTES = 17 };
const char *sc_config_hash(const struct sc_request *request, char buf[static SC_CONFIG_HASH_BYTES]);
/* Shows the values that other programs' files and --set gave, each with its key there; then those
 * that have no effect. */
void sc_config_show_import(const struct sc_config *config, const struct sc_foreign_lines *lines,
			   struct sc_strbuf *out);
