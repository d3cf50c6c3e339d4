/* A rank while it is loaded. */
#pragma once

#include "trace/graph/build_trace.h"
#include "trace/graph/iteration_ranges.h"
#include "trace/graph/trace_order.h"

struct trace_launch {
	int64_t ns;
	bool lost; /* no activity has its correlation */
};
struct rank_load {
	struct sc_trace_run *run;
	struct sc_trace_rank *rank;
	struct sc_merge_rank *merged;
	struct sc_trace trace;
	struct sc_correlations call_of; /* calls, by correlation */
	struct sc_marks marks;
	uint32_t *names;         /* of the trace -> of the run + 1; 0 = not yet */
	uint32_t *call_of_event; /* events -> calls, or SC_NONE */
	uint32_t *call_before;   /* calls -> the one before on the thread, or SC_NONE */
	uint16_t *lane_of;       /* trace lanes -> rank's, or NO_LANE */
	uint32_t *comm_before;   /* lanes of collectives before each of the rank's */
	int64_t latency_ns;
	SC_VEC(struct trace_launch) launches; /* of kernels, by time */
	uint32_t *act_event;                  /* acts -> events */
};
enum { SC_TRACE_NO_LANE = UINT16_MAX };
enum { SC_TRACE_LAST_PIECE = 4 }; /* of a copy from pageable memory, at most: one part in so many */
enum { SC_TRACE_MAX_LANES = 4096, SC_TRACE_MAX_SIDE_LANES = 8 };

/* Each instance's last start and first end of those that wait, on the common clock. Free it. */
struct trace_meeting {
	int64_t last_start_ns, first_end_ns;
};
struct trace_meeting *sc_trace_meetings(const struct sc_trace_run *run);
/* Once all calls of the merge are there. */
static inline void sc_trace_show_collectives(struct sc_trace_run *run)
{
	for (size_t r = 0; r < run->ranks.n; r++) {
		run->ranks.at[r].collectives.at = run->merge.ranks.at[r].calls.at;
		run->ranks.at[r].collectives.n = run->merge.ranks.at[r].calls.n;
	}
}
uint32_t sc_trace_load_name(struct rank_load *load, uint32_t string);

/* build_trace_calls.c */
void sc_trace_load_calls(struct rank_load *load);
/* The thing that a call waits for, by its name. */
enum trace_sync {
	TRACE_SYNC_NONE,
	TRACE_SYNC_STREAM,
	TRACE_SYNC_EVENT,
	TRACE_SYNC_DEVICE,
	TRACE_SYNC_COPY
};
enum trace_sync sc_trace_sync_of(const char *name);
/* Does its call wait for the copy in any case: no "Async", or the host may use what is copied? */
bool sc_trace_copy_blocks(const struct sc_trace_event *copy, const char *copy_name,
			  const char *call);

/* build_trace_acts.c */
void sc_trace_load_acts(struct rank_load *load);

/* build_trace_queue.c: launches that waited for room, before other waits are looked for. */
void sc_trace_load_queues(struct rank_load *load);
/* And kernels that a thread waited for in a loop of its own: their launches block. */
void sc_trace_load_loops(struct rank_load *load);

/* build_trace_waits.c: waits, gaps, tails. */
void sc_trace_load_waits(struct rank_load *load);

/* host_ranges.c: which ranges the host's work was in. The rank's events are gone then. */
int sc_trace_load_ranges(struct rank_load *load, const char *path, struct sc_err *err);

/* Is it the name of a range in which data are loaded? */
bool sc_trace_loads_data(const char *name);

/* build_trace_marks.c */
void sc_trace_find_marks(struct rank_load *load, const char *range);
/* Fills rank->iterations from the BEGIN and END calls. */
void sc_trace_number_iterations(struct rank_load *load);
