/* A trace consists of the events of one process, with the small tables they refer to. Times are
 * int64 nanoseconds from the trace's base, exact. The same for every source: our tracer, Kineto,
 * Nsight Systems, Chakra, operator timelines. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum sc_event_class {
	SC_EV_KERNEL,
	SC_EV_COPY,
	SC_EV_SET,
	SC_EV_API,          /* runtime or driver call */
	SC_EV_SYNC,         /* `sub`: enum sc_sync_kind */
	SC_EV_EVENT_RECORD, /* aux0: event id */
	SC_EV_OP,           /* framework operator on the host (cpu_op, execution-trace node) */
	SC_EV_RANGE,        /* NVTX range, user annotation */
	SC_EV_GPU_RANGE,    /* annotation as seen on the device */
	SC_EV_PYTHON,
	SC_EV_OVERHEAD, /* of profiling */
	SC_EV_COMM, /* host side of a collective call: record_param_comms, NCCL's NVTX or plugin */
	SC_EV_JOB_OP, /* operation of an operator timeline; `job` says which */
	SC_EV_GRAPH,  /* a whole CUDA graph launch on the device */
	SC_EV_MARK,   /* instant */
	SC_EV_OTHER,
	SC_N_EVENT_CLASSES
};
const char *sc_event_class_name(enum sc_event_class cls); /* event.c */

enum sc_sync_kind {
	SC_SYNC_EVENT,
	SC_SYNC_STREAM_WAIT,
	SC_SYNC_STREAM,
	SC_SYNC_CONTEXT,
	SC_SYNC_OTHER
};
/* A stream in `aux1` of a SYNC, told from a correlation by being below -1; and back. */
#define SC_SYNC_AUX_STREAM(stream) (-2 - (stream))
enum sc_copy_kind {
	SC_COPY_UNKNOWN,
	SC_COPY_H2D,
	SC_COPY_D2H,
	SC_COPY_D2D,
	SC_COPY_P2P,
	SC_COPY_H2H
};
/* `sub` of an OVERHEAD is CUPTI's kind: shifted by 16, or, of the few below 2^16 (the compiler's),
 * with this added. 6 is a launch that waited for room in the command buffer. */
enum { SC_OVERHEAD_LOW = 128 };
/* The name of a copy, as PyTorch's profiler gives it: "Memcpy HtoD (Pageable -> Device)", without
 * the memory where that is not said. `from` and `to` are CUPTI's kinds of memory; 0 = unknown. */
const char *sc_copy_name(enum sc_copy_kind kind, uint32_t from, uint32_t to, char text[64]);
enum { SC_EVF_NO_TIME = 1, SC_EVF_DRIVER = 2 /* API: a driver call */ };

enum { SC_TRACE_NO_ID = 0 }; /* of strings, lanes, configs, comms: ids count from 1 */

/* The place where an event happened: a host thread, or a stream of a device. Lanes and configs are
 * compared as bytes: they have no padding. */
struct sc_trace_lane {
	uint32_t is_stream;
	int32_t pid, tid;       /* host threads */
	int32_t device, stream; /* streams; -1 = unknown */
	int32_t context;
	uint32_t name; /* string, or 0 */
};
_Static_assert(sizeof(struct sc_trace_lane) == 7 * sizeof(uint32_t), "padding");
/* Launch configuration of a kernel. */
struct sc_trace_config {
	uint32_t grid[3], block[3];
	uint32_t registers, shared_bytes; /* a thread's; a block's, static and dynamic */
	int32_t graph_id;
};
/* A collective or point-to-point call as far as the source says. */
struct sc_trace_comm {
	uint32_t collective; /* string, as the source writes it: "all_to_all", "ncclAllReduce" */
	uint32_t dtype, group_name, group_ranks; /* strings; ranks as "[0, 1]" */
	uint64_t comm_hash;
	int64_t in_elems, out_elems, bytes; /* -1 = not said */
	int32_t group_size, peer, root;     /* -1 = not said */
	int32_t unused;                     /* 0: compared as bytes, without padding */
	int64_t seq;                        /* number within the communicator, -1 = not said */
};
_Static_assert(sizeof(struct sc_trace_comm) == 18 * sizeof(uint32_t), "padding");
void sc_trace_comm_init(struct sc_trace_comm *comm); /* nothing said; event.c */
/* The place of an operation in a training job's timeline. */
struct sc_trace_job {
	int32_t step, dp_rank, stage, micro_batch, chunk, seq;
};

struct sc_trace_event {
	int64_t start_ns, dur_ns;
	uint32_t name; /* string */
	uint32_t lane;
	uint8_t cls, sub;
	uint16_t flags;
	uint32_t correlation; /* API and what it started; 0 = none */
	int64_t external_id;  /* op and what it started; 0 = none */
	uint32_t config;      /* KERNEL */
	uint32_t comm;        /* KERNEL, OP, COMM, RANGE */
	uint32_t shapes;      /* OP: string "[[64,128],[128]]|float,float" */
	int64_t bytes;        /* COPY, SET */
	int64_t aux0, aux1; /* SYNC: event id, correlation of its record (-1 unknown); stream waited
			     * on in `aux1` for STREAM_WAIT if no record:
			     * SC_SYNC_AUX_STREAM(stream); OP: sequence number, forward thread */
	struct sc_trace_job job; /* JOB_OP */
};

static inline bool sc_event_on_device(const struct sc_trace_event *event)
{
	return event->cls == SC_EV_KERNEL || event->cls == SC_EV_COPY || event->cls == SC_EV_SET;
}
/* Times are from INT64_MIN / 2 to INT64_MAX / 2, 146 years each way, so that no difference of two
 * overflows. Writers of events see to it; readers take what is beyond as damage. */
static inline bool sc_event_in_range(const struct sc_trace_event *event)
{
	return event->dur_ns >= 0 && event->start_ns >= INT64_MIN / 2 &&
	       event->start_ns <= INT64_MAX / 2 - event->dur_ns;
}

/* Times of two clocks that were read together. */
struct sc_trace_clock {
	int64_t trace_ns, utc_ns;
};
/* A gap of a trace: n of a class (-1: not known how many), and why. */
struct sc_trace_gap {
	uint8_t cls;
	int64_t n, first_ns, last_ns;
	const char *reason;
};
