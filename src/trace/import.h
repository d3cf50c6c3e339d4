/* Foreign traces in: each importer streams a file into a trace writer and counts what it could not use. */
#ifndef SC_TRACE_IMPORT_H
#define SC_TRACE_IMPORT_H

#include "base/progress.h"
#include "trace/trace_file.h"

enum { SC_IMPORT_MAX_REASONS = 24 };
struct sc_import_reason {
	const char *reason; /* static text: "no ts", "unknown phase" */
	int64_t n;
};
/* What a file gave. */
struct sc_import_stats {
	int64_t n_records;  /* entries of traceEvents, rows, nodes: all that were seen */
	int64_t n_events;   /* written */
	int64_t n_flows, n_metadata; /* understood, not events of their own */
	int64_t n_kernels, n_collectives; /* collective kernels among them */
	int64_t n_steps;            /* ProfilerStep ranges on the host */
	int64_t in_bytes;           /* uncompressed */
	bool truncated;             /* it ended in the middle; whole records were kept */
	const char *why_truncated;
	size_t n_reasons;
	struct sc_import_reason bad[SC_IMPORT_MAX_REASONS]; /* skipped, by reason */
};
void sc_import_count_bad(struct sc_import_stats *stats, const char *reason);

struct sc_import_opts {
	int32_t rank;  /* -1 = what the file says */
	unsigned jobs; /* threads for one file; 0 or 1: one */
	const char *mate; /* the Kineto mate of an execution trace, or NULL */
	struct sc_progress *progress;
};
struct sc_importer {
	const char *name; /* "kineto" */
	/* Is it one of this kind? From the first bytes, decompressed; the name is a hint only. */
	bool (*probe)(const char *path, const char *head, size_t n);
	/* Writes one or more .sctrace files into `dir`, named after the input and rank. Output is removed
	 * on failure. */
	int (*run)(const char *path, const char *dir, const struct sc_import_opts *opts,
		   struct sc_import_stats *stats, struct sc_err *err);
};
extern const struct sc_importer sc_import_kineto, sc_import_execution_trace, sc_import_chakra,
	sc_import_nsys, sc_import_job;
/* Finds the importer by content and runs it. SC_EUNSUPPORTED with what it looks like instead. */
int sc_import(const char *path, const char *dir, const struct sc_import_opts *opts,
	      struct sc_import_stats *stats, struct sc_err *err);
/* Is the name that of a collective or point-to-point kernel (NCCL, RCCL, oneCCL, DeepEP)? Which:
 * enum sc_collective of core/op.h, or -1 if it is not said ("ncclDevKernel_Generic"). */
bool sc_is_comm_kernel(const char *name, int *collective);

#endif
