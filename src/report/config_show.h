/* A resolved request as YAML that can be read again, each line with where its value came from. */
#ifndef SC_REPORT_CONFIG_SHOW_H
#define SC_REPORT_CONFIG_SHOW_H

#include "base/strbuf.h"
#include "core/config/config.h"

/* Appends a value as YAML, on one line. */
void sc_config_show_value(const struct sc_field *field, const void *place, struct sc_strbuf *out);
void sc_config_show(const struct sc_request *request, struct sc_strbuf *out);

#endif
