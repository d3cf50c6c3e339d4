/* A resolved request as YAML that can be read again, each line with where its value came from. */
#ifndef SC_REPORT_CONFIG_SHOW_H
#define SC_REPORT_CONFIG_SHOW_H

#include "base/strbuf.h"
#include "core/config/config.h"

void sc_config_show(const struct sc_request *request, struct sc_strbuf *out);

#endif
