/* A replay as text, JSON and a timeline for Perfetto or chrome://tracing. */
#pragma once

#include "base/json_out.h"
#include "report/forms.h"
#include "trace/replay/replay.h"

extern const struct sc_forms sc_replay_forms; /* of a struct sc_replay_result */
/* The shown iteration: a process a rank, a thread a lane. */
int sc_chrome_replay_write(const struct sc_replay_result *result, FILE *out, struct sc_err *err);

/* The key `loss`, as `info` says it too: what traces lost; null where nothing is missing. */
void sc_json_loss(struct sc_json *json, json_t *parent, const struct sc_trace_loss *loss);
