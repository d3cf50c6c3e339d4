/* The state of the tracer in its process, shared by its three doors (CUDA injection, NVTX
 * injection, NCCL's profiler plugin) and its two threads. An injected library has nowhere else to
 * keep it: this is the one mutable global. */
#pragma once

#include <pthread.h>

#include "trace/capture/capture_file.h"
#include "trace/capture/cupti_load.h"
#include "trace/capture/nvtx_abi.h"

/* Reasons of gaps. */
#define SC_UNWALKABLE "a buffer of CUPTI's could not be read to its end"
#define SC_TAKEN "another client of CUPTI took the records"
struct sc_latency {
	_Atomic uint64_t n, sum_ns, max_ns;
};
enum sc_tracer_state { SC_TRACER_OFF, SC_TRACER_ON, SC_TRACER_ENDED };
struct sc_tracer {
	_Atomic int state; /* enum sc_tracer_state: nothing is recorded unless ON */
	_Atomic int cupti_on;
	int32_t pid; /* of the process that records: a forked child is another */
	struct sc_raw_file raw;
	struct sc_cupti cupti;
	struct sc_capture_file *file;
	struct sc_decoder decoder;
	char dir[3072], host[64], run[64];
	struct sc_trace_identity identity;
	pthread_mutex_t identity_lock;
	_Atomic int identity_changed;
	int64_t wait_ns; /* how long threads are held back before records are dropped, until there
			    is room */

	pthread_t writer, flusher;
	_Atomic int stop_writer, stop_flusher, flushed;

	_Atomic uint64_t order;       /* of the next full buffer */
	_Atomic uint64_t n_completed; /* buffers */
	_Atomic uint64_t n_discarded; /* buffers for which there was no room */
	/* The events that were in them, and when, since the trace last said so; 0: nothing. */
	_Atomic int64_t lost[SC_N_EVENT_CLASSES], lost_since_ns;
	_Atomic uint64_t n_waits, waited_ns;
	_Atomic int starved;       /* a wait was in vain: no more of them until a buffer is free */
	_Atomic int rings_starved; /* alike, until the writer has read a ring */
	_Atomic int64_t last_buffer_ns;
	_Atomic uint64_t
		n_own_calls;      /* of the flusher's, as the writer has found them in buffers */
	_Atomic int has_conflict; /* another client of CUPTI has the callbacks */
	_Atomic uint64_t n_host_lost;   /* own records for which there was no room */
	_Atomic uint64_t next_external; /* ids of ours for external correlation */
	_Atomic int plugin_on;
	struct sc_latency callbacks; /* CUPTI's request and complete, waits not counted */
	int64_t n_host_said, n_ended_said,
		losses_said_ns; /* of what was lost and when, in the trace; the writer's */
};
extern struct sc_tracer sc_tracer;

static inline bool sc_tracer_is_on(void)
{
	return atomic_load_explicit(&sc_tracer.state, memory_order_acquire) == SC_TRACER_ON;
}
int64_t sc_tracer_now_ns(void); /* CLOCK_MONOTONIC */
void sc_tracer_sleep_us(long us);
void sc_latency_add(struct sc_latency *latency, int64_t ns);
/* Leaves SC_RAW_FAILED: an errno, or CUPTI's code (0: none) with what there is not, and why. */
void sc_tracer_say_failure(int code, const char *what, const char *why);

/* tracer.c: memory, trace, threads; 0 or -1. Called again: 0 if it is on. */
int sc_tracer_start(void);
/* Flushes, writes everything, ends the file; at most some seconds. One recording a process. */
void sc_tracer_stop(void);
/* NCCL says who this process is in a communicator: the ranks may be set late. */
void sc_tracer_learn_rank(int32_t rank, int32_t world);
void sc_tracer_identity(struct sc_trace_identity *out); /* as known now */

/* cupti_session.c: false if CUPTI or the driver is missing. The tracer is on. */
bool sc_cupti_session_start(void);
/* The flusher's, again and again; how long until the next, ns. */
int64_t sc_cupti_session_tick(void);
void sc_cupti_session_stop(void); /* the last flush; no more records */
/* Launches of this thread carry `id` until it is taken off; no-ops without CUPTI. */
void sc_cupti_session_push_id(uint64_t id);
void sc_cupti_session_pop_id(void);

/* host_emit.c: a record of this thread into its ring, with its kind, flags, times and what else it
 * has. `text` may have NULs. */
void sc_host_emit(struct sc_host_record *record, const char *text, size_t n_text);
void sc_host_emit_meta(const char *key, const char *value);
void sc_host_emit_gap(const struct sc_trace_gap *gap);

/* nvtx_handler.c: puts our functions into NVTX's tables. False: it is not an NVTX we understand. */
bool sc_nvtx_attach(sc_nvtx_get_table get_table);
