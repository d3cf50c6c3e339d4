/* The writers of each export format, as export.c calls them, and the run's clock that they share.
 * Sums of times wrap in place of overflowing, since a hostile file may hold any. */
#pragma once

#include "base/json_stream.h"
#include "trace/export/export.h"
#include "trace/format/trace_file.h"

int sc_export_chrome(const struct sc_export_run *run, FILE *out, struct sc_err *err);
int sc_export_table(enum sc_export_format format, const struct sc_export_run *run, FILE *out,
		    struct sc_err *err);
/* export_chrome_args.c: the member "args" of an event. */
void sc_chrome_put_args(struct sc_json_stream *json, const struct sc_trace *trace,
			const struct sc_trace_event *event);
/* A time of a file on the clock of the run. */
int64_t sc_export_utc(const struct sc_export_run *run, size_t file, int64_t utc_ns);

/* Times wrap: a hostile file may have any. */
static inline int64_t sc_time_add(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t sc_time_sub(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}
