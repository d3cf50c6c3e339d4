/* A recording under study: how computation and communication slowed each other in it, and what it
 * would take under each policy. This study meets recorded runs here alone. */
#pragma once

#include "study/c3/c3.h"
#include "trace/format/trace_loss.h"
#include "trace/graph/build_trace.h"
#include "trace/graph/overlap.h"

/* A kernel beside a collective, or a collective beside kernels. */
struct sc_c3_seen {
	int32_t rank;
	const char *name,
		*group; /* group: family of a kernel, kind of a collective ("" = not known) */
	const char *collective; /* of the two, the same */
	int64_t bytes;          /* of the collective; -1 = not said */
	double time_us, overlap_us;
	double alone_us; /* of the same in this recording; NAN: none ran alone */
	struct sc_interfere_seen known;
	double predicted_us; /* from its time alone, and how long it was beside the other; NAN */
};
struct sc_c3_seen_group {
	const char *name; /* NULL: all */
	size_t n, n_known;
	double time_us, alone_us, predicted_us; /* sums of those known */
	struct sc_accuracy accuracy;            /* of predicted times */
};
struct sc_c3_seen_side {
	SC_VEC(struct sc_c3_seen) list;
	SC_VEC(struct sc_c3_seen_group) groups; /* by name */
	struct sc_c3_seen_group all;
	size_t n_recorded; /* beside the other or not */
};
/* The time that the iterations take when replayed: means, us. `nothing_lost`: kernels beside
 * collectives are as fast as alone. Policies: plain is the recording itself, as frameworks launch;
 * serial takes turns; comm_first and reserve give collectives as many SMs as they have blocks,
 * while they run or always; copy engines take those that only move. Collectives stay as long as
 * they were recorded, for their times have waiting in them. NAN: not known, or the policy needs
 * products that wait for the collective piece by piece, which a recording does not tell. */
struct sc_c3_what_if {
	size_t n; /* iterations; 0: nothing is known */
	double recorded_us, nothing_lost_us, policy_us[SC_N_C3_POLICIES];
};
struct sc_c3_recording {
	const char *gpu, *device; /* as recorded; its file, or NULL: then nothing is predicted */
	size_t n_ranks;
	double compute_us, comm_us, both_us, span_us; /* busy; sums over ranks */
	struct sc_c3_seen_side kernels, collectives;
	SC_VEC(struct sc_overlap_stretch) stretches; /* the two alone: at most the time of both */
	size_t n_shorter;                            /* than a side of them alone elsewhere */
	/* Sums over stretches whose both sides are known: */
	size_t n_known;
	double known_us, serial_us, longer_us;
	struct sc_c3_what_if what_if;
	struct sc_warnings warnings;
	struct sc_trace_loss loss;
	struct sc_arena arena;
};
/* `device` is an id, or NULL: the trace names it. */
int sc_c3_recording_load(const char *path, const char *device, struct sc_c3_recording *out,
			 struct sc_err *err);
void sc_c3_recording_release(struct sc_c3_recording *recording);
