/* Results as JSON documents (keys: DESIGN.md §7, a contract). */
#ifndef SC_REPORT_JSON_H
#define SC_REPORT_JSON_H

#include <stdio.h>

#include "base/json_out.h"
#include "study/validate/validate.h"

/* How a result stands in a sentence, first on every page: well, not so well, badly; or only what it is. */
enum sc_standing { SC_STANDS_WELL, SC_STANDS_FAIR, SC_STANDS_BADLY, SC_STANDS };
void sc_json_verdict(struct sc_json *json, enum sc_standing standing, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The GPUs, the cluster and the model of a config before it is resolved, as "config". */
void sc_json_base(struct sc_json *json, const struct sc_config *config);
/* The same of a resolved one, with its split and its hash. */
json_t *sc_json_request(struct sc_json *json, const struct sc_request *request);

/* The keys of a reading that predictions and replays have, into `object`. */
void sc_json_breakdown(struct sc_json *json, json_t *object, const struct sc_reading *reading);
/* The key `warnings` of the document. */
void sc_json_warnings(struct sc_json *json, const struct sc_warnings *warnings);

#endif
