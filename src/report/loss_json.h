/* What traces lost, as info and replay say it in JSON. */
#ifndef SC_REPORT_LOSS_JSON_H
#define SC_REPORT_LOSS_JSON_H

#include "base/json_out.h"
#include "trace/format/trace_loss.h"

/* The key `loss`; null where nothing is missing. */
void sc_json_loss(struct sc_json *json, json_t *parent, const struct sc_trace_loss *loss);

#endif
