/* Foreign traces in: an importer streams a file into a trace writer, and counts what is no use. */
#pragma once

#include "base/progress.h"
#include "trace/format/trace_file.h"

enum { SC_IMPORT_MAX_REASONS = 24 };
struct sc_import_reason {
	const char *reason; /* static text: "no ts", "unknown phase" */
	bool is_loss;       /* false: sound, but nothing that a trace of ours has */
	int64_t n, n_said;  /* n_said: of n, those that a trace says were lost */
};
/* The numbers of what a file gave. */
struct sc_import_stats {
	const char *importer; /* its name; set by sc_import */
	int64_t n_records;    /* entries of traceEvents, rows, nodes: all that were seen */
	int64_t n_events;     /* written */
	int64_t n_derived;    /* written besides: what others say of events the file has not */
	int64_t n_flows, n_metadata;      /* understood, not events of their own */
	int64_t n_kernels, n_collectives; /* collective kernels among them */
	int64_t n_nccl;                   /* kernels that NCCL or RCCL calls its own by name */
	int64_t n_steps;                  /* ProfilerStep ranges on the host */
	int64_t n_calls;  /* collective calls on the host: ranges such as "nccl:all_reduce" */
	int64_t n_joined; /* collective kernels whose call is known */
	int64_t n_nodes, n_nodes_joined; /* with a mate: nodes, and ops of the mate that have one */
	int64_t n_repaired;              /* bytes of names that were not UTF-8: now U+FFFD */
	int64_t in_bytes;                /* uncompressed */
	int32_t rank;                    /* of the file written; -1 = not known */
	const char *truncated; /* why it ended in the middle, or NULL; whole records were kept */
	size_t n_reasons;
	struct sc_import_reason bad[SC_IMPORT_MAX_REASONS]; /* skipped, by reason */
};
void sc_import_count_bad(struct sc_import_stats *stats, const char *reason);
void sc_import_count_unused(struct sc_import_stats *stats, const char *reason);

struct sc_import_opts {
	const char *dir;    /* of the output */
	int32_t rank;       /* -1 = what the file says */
	int32_t other_rank; /* if neither the file nor its name says it; -1 = not known */
	const char *stem; /* name of the output without rank and suffix; NULL = from the input's */
	const char *mate; /* the Kineto mate of an execution trace, or NULL */
	struct sc_progress *progress;
};
/* The key of an exported document of several ranks: how many. It is refused: nothing parts them. */
#define SC_CHROME_RANKS "stepcastRanks"
/* And of one whose trace ended early: why. */
#define SC_CHROME_PARTIAL "stepcastPartial"

struct sc_importer {
	const char *name; /* "kineto" */
	/* Is it one of this kind? From the first bytes, decompressed. */
	bool (*probe)(const char *head, size_t n);
	/* Writes one or more .sctrace files into opts->dir, named after the input and rank. Output
	 * is removed on failure. */
	int (*run)(const char *path, const struct sc_import_opts *opts,
		   struct sc_import_stats *stats, struct sc_err *err);
};
extern const struct sc_importer sc_import_kineto, sc_import_execution_trace, sc_import_chakra,
	sc_import_nsys, sc_import_job, sc_import_rocprof;
/* Finds the importer by content and runs it. SC_EUNSUPPORTED with what it looks like instead. */
int sc_import(const char *path, const struct sc_import_opts *opts, struct sc_import_stats *stats,
	      struct sc_err *err);
/* How output is named: "dir/rank0.pt.trace.json.gz" is "rank0". */
void sc_import_stem(const char *path, char *buf, size_t n_buf);
/* Is the name that of a collective or point-to-point kernel (NCCL, RCCL, oneCCL, DeepEP)? Which:
 * enum sc_collective of core/graph/op.h, or -1 if it is not said ("ncclDevKernel_Generic"). */
bool sc_is_comm_kernel(const char *name, int *collective);
bool sc_is_nccl_kernel(const char *name); /* NCCL's or RCCL's, as most tools count them */
/* The collective that a name speaks of ("nccl:all_reduce"), or -1. */
int sc_collective_of_name(const char *name);
