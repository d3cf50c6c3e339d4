/* Traces out, event by event: as PyTorch's profiler writes them (Chrome's trace format, read by
 * Perfetto and HTA), and as CSV; or tables of measured operations, as CSV that `fit` and people
 * read. */
#pragma once

#include <stdio.h>

#include "base/err.h"
#include "trace/merge/merge.h"

enum sc_export_format {
	SC_EXPORT_CHROME,
	SC_EXPORT_CSV,
	SC_EXPORT_OPS,         /* matrix products with the shapes of the op that launched them */
	SC_EXPORT_COLLECTIVES, /* without waiting: the shortest of all recorded members */
	SC_EXPORT_HOST,        /* what the host takes for the launches of each op */
	SC_N_EXPORT_FORMATS
};
/* The trace files of a run, one document. Times are those of the hosts' clocks. With one file,
 * processes and threads have the ids that the trace has; with several, process 256 * i + d is
 * device d of file i, process 256 * i + 128 its host. On one clock where `merge` says how: of
 * Chrome's format, "clock" then names for each rank what its clock was set by, and the bound of the
 * error. */
struct sc_export_run {
	const char *const *files;
	size_t n_files;
	const struct sc_merge *merge; /* ranks as files; NULL: the hosts' clocks */
	int64_t base_utc_ns;          /* times of `merge` are from here */
	/* The name that rows of tables get, as in configs/devices; NULL: what the trace says,
	 * "unknown" if nothing. */
	const char *device;
};
int sc_export_run(enum sc_export_format format, const struct sc_export_run *run, FILE *out,
		  struct sc_err *err);
