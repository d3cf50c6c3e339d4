/* A collective by size: the library's choice and time beside measured ones and a file's. */
#pragma once

#include "base/csv.h"
#include "models/collective/collective.h"
#include "models/msccl/msccl.h"

struct sc_collective_point {
	double bytes, time_us, algbw_gbps, busbw_gbps; /* nccl-tests' definitions */
	const char *algorithm, *protocol, *limit;
	int channels;
	double measured_us;     /* NAN: not measured at this size */
	double file_us;         /* of the other algorithm; NAN: there is none, or it does not end */
	const char *file_limit; /* NULL: there is none */
	double together_us;     /* beside the others; NAN: there are none */
};
struct sc_collective_sizes_opts {
	enum sc_collective kind;
	const struct sc_fabric *fabric;
	struct sc_span span;
	const char *device;  /* the GPU, for reports */
	const double *bytes; /* rising */
	size_t n;
	const struct sc_msccl *file; /* may be NULL; read and proved */
	int asked; /* in place of a file, the library's algorithm: 1 + enum sc_algo; 0: none */
	const struct sc_csv *measured;            /* may be NULL: columns bytes and time_us */
	const struct sc_collective_shape *others; /* that begin with it, between the same ranks */
	size_t n_others;
};
struct sc_collective_sizes {
	const struct sc_collective_sizes_opts *opts; /* what was asked */
	struct sc_collective_point *points;
	size_t n;
	/* The file's largest gain over the library, and its size. 0: no file. */
	double best_speedup, best_bytes;
	size_t n_wins;
	/* The errors over the sizes that were measured. */
	size_t n_measured;
	double median_ape_pct, p90_ape_pct;
};
/* The name of the algorithm that is set beside the library's choice; NULL: none. */
const char *sc_collective_other(const struct sc_collective_sizes_opts *opts);
/* SC_ECONFLICT means that the algorithm is for another collective or number of ranks. */
int sc_collective_sizes_run(const struct sc_collective_sizes_opts *opts, struct sc_arena *arena,
			    struct sc_collective_sizes *out, struct sc_err *err);

/* The time of a collective while others run between the same GPUs, each on a communicator of its
 * own: links, NICs, SMs and memory are shared as they are between all that runs
 * (predict/engine/simulate.h). It lasts until `shape` ends, when it begins with the `n` others, and
 * is never less than alone. */
int sc_collective_together_us(const struct sc_fabric *fabric, const struct sc_span *span,
			      const struct sc_collective_shape *shape,
			      const struct sc_collective_shape *others, size_t n, double *out,
			      struct sc_err *err);
