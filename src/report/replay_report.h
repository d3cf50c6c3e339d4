/* A replay as text, JSON and a timeline for Perfetto or chrome://tracing. */
#ifndef SC_REPORT_REPLAY_REPORT_H
#define SC_REPORT_REPLAY_REPORT_H

#include <stdio.h>

#include "base/json_out.h"
#include "base/strbuf.h"
#include "trace/replay/replay.h"

void sc_text_replay(const struct sc_replay_result *result, struct sc_strbuf *out);
int sc_json_replay(const struct sc_replay_result *result, FILE *out, struct sc_err *err);
/* The shown iteration: a process a rank, a thread a lane. */
int sc_chrome_replay_write(const struct sc_replay_result *result, FILE *out, struct sc_err *err);

/* The key `loss`, as `info` says it too: what traces lost; null where nothing is missing. */
void sc_json_loss(struct sc_json *json, json_t *parent, const struct sc_trace_loss *loss);

#endif
