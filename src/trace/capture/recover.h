/* After a recording: what a dead process left in its raw file goes into its trace, and traces are
 * written anew, packed. In the program, not in the injected library. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct sc_recovery {
	int64_t n_events;    /* in the trace now */
	int64_t n_recovered; /* of them from the raw file */
	int64_t n_torn;      /* records that were not whole, left out */
	int64_t n_unnamed;   /* kernels whose name is lost */
	int write_error;     /* errno: the trace could not be written; 0: see was_killed */
	bool was_killed;     /* else CUPTI kept its last buffers */
	char path[4096];     /* of the trace */
};
/* Makes the trace whole and removes the raw file. The process must be gone. On failure both files
 * stay as they were. A raw file without any record leaves no trace: then n_events is 0; `path` is
 * empty if the process died before it could record. */
int sc_capture_recover(const char *raw_path, struct sc_recovery *out, struct sc_err *err);
/* Writes a whole trace again, packed, with its iterations marked. */
int sc_capture_pack(const char *trace_path, struct sc_recovery *out, struct sc_err *err);
/* Does the process that wrote this raw file run still, on this host? */
bool sc_capture_is_running(const char *raw_path);
