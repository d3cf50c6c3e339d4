/* The kernels of a recorded rank that ran at once on one GPU: those that compute beside those of
 * collectives, with the times of the same kernels alone. Two kernels are the same that have one
 * name, one launch (grid, block, registers, shared memory) and one op's shapes or, where the run
 * has none, one place: the n-th of their launch on their stream in iterations with as many of them;
 * without several iterations, the same kernels before and after. Collectives are that have one
 * name, launch, kind, size and group. Copies are neither. */
#pragma once

#include "trace/graph/build_trace.h"

/* One that ran beside any of the other side, be it for a part of its time. */
struct sc_beside {
	uint32_t act, beside; /* the one of the other side that it ran beside for longest */
	double time_us;       /* of a collective that several ranks have: its transfer */
	double overlap_us;    /* of its time on the GPU, beside the other side */
	double frac;          /* the same as a share of it */
	double alone_us; /* median of the same that ran alone on that GPU; NAN: none did, or the
			    trace does not say how it was launched */
};
/* A maximal interval in which both sides run on one GPU. */
struct sc_overlap_stretch {
	int32_t rank, device;
	double start_us, us;
	/* All that ran in it takes so long alone, each by its share; NAN: not known. */
	double compute_us, comm_us;
};
struct sc_overlaps {
	SC_VEC(struct sc_beside) kernels;     /* by start */
	SC_VEC(struct sc_beside) collectives; /* the same */
	SC_VEC(struct sc_overlap_stretch) stretches;
	size_t n_kernels, n_collectives; /* of the rank, alone or not */
	/* Sums over GPUs: a kernel of the side runs; both run; from first start to last end. */
	double compute_us, comm_us, both_us, span_us;
};
void sc_overlaps_find(const struct sc_trace_run *run, const struct sc_trace_rank *rank,
		      struct sc_overlaps *out);
void sc_overlaps_release(struct sc_overlaps *overlaps);
