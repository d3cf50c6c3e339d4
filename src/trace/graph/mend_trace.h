/* Mends what a loaded trace cannot have recorded, by the order of its streams and by its launches
 * and waits; and the shift between the clocks of its host and its device. */
#pragma once

#include "trace/format/trace_file.h"

enum sc_broken_why {
	SC_BROKEN_UNTIMED,  /* no time: it takes the place that its neighbours leave */
	SC_BROKEN_ORDER,    /* starts before what its stream began earlier, or after what it began
			       later */
	SC_BROKEN_LAUNCH,   /* starts before its launch */
	SC_BROKEN_DURATION, /* runs on while later ones of its stream end, or after a wait for it
			       returned */
	SC_N_BROKEN
};
/* How many records are broken in one way, and the first of them. Times are those of the trace. */
struct sc_broken {
	int64_t n;
	uint32_t name;          /* string */
	int64_t at_ns;          /* of its launch, or its start */
	int64_t was_ns, now_ns; /* durations; of BROKEN_LAUNCH by how much it was early, and 0 */
	int64_t step;           /* -1: in none; the loader of a rank fills it in */
};
struct sc_trace_mended {
	int64_t n_acts; /* activities */
	struct sc_broken broken[SC_N_BROKEN];
	int64_t n_graphs;   /* launches of graphs that were recorded as wholes: they are kernels now
			     */
	int64_t n_overlaps; /* kernels that began while the one before still ran (programmatic
			       launch) */
	int64_t shift_ns;   /* that all times of the device got */
	int64_t latency_ns; /* of a launch that finds the device idle */
	int64_t unsure_ns;  /* of a shift: how far from it the true one may be; 0: latencies */
	bool contradicts;   /* no shift agrees with both, or the order says nothing */
};
/* Changes the events in place, which stay in order of time. They must be those of devices, graphs
 * and calls at least. */
void sc_trace_mend(struct sc_trace *trace, struct sc_trace_mended *out);
