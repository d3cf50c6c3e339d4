/* A simulated timeline in the trace event format that Perfetto and chrome://tracing read: a process a class of
 * ranks, a thread a lane, arrows from launches and between the members of a group, SMs in use as a counter. */
#ifndef SC_REPORT_CHROME_TIMELINE_H
#define SC_REPORT_CHROME_TIMELINE_H

#include <stdio.h>

#include "base/json_stream.h"
#include "core/graph/graph.h"
#include "core/graph/timeline.h"

enum { SC_CHROME_NAME = 96 };
struct sc_chrome_timeline {
	const struct sc_graph *graph;
	const struct sc_timeline *timeline;
	const void *ctx;
	/* Into a buffer of SC_CHROME_NAME bytes. */
	void (*class_name)(const void *ctx, uint32_t class_id, char *buf);
	void (*node_name)(const void *ctx, uint32_t node, char *buf);
	/* Members of otherData, and events of the kind's own; either may be NULL. */
	void (*put_facts)(const void *ctx, struct sc_json_stream *json);
	void (*put_more)(const void *ctx, struct sc_json_stream *json);
	bool blank_latency; /* a node's launch gap is no part of its slice */
};
int sc_chrome_timeline_write(const struct sc_chrome_timeline *timeline, FILE *out,
			     struct sc_err *err);

#endif
