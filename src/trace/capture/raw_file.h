/* The memory that survives the death of its process: a file, mapped shared, with the buffers that
 * CUPTI fills, a ring for each thread's own records, and the names that records point to. The
 * tracer writes its trace from here; after a SIGKILL `stepcast record` reads the rest from the
 * file. One process writes it; states and positions are atomic, everything else has one writer. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/capture/cupti_abi.h"

#define SC_RAW_SUFFIX ".raw"
/* The name of a file in place of the raw one, which says why a process was not recorded. It is in
 * words in the file, or, if that is empty, an errno in its name. */
#define SC_RAW_FAILED ".failed-"
#define SC_RAW_MAGIC "SCRAW\r\n\1"
enum {
	SC_RAW_MAX_BUFFERS = 256,
	SC_RAW_RINGS = 32,
	SC_RAW_RING_BYTES = 256 << 10, /* a power of two */
	SC_RAW_NAME_SLOTS = 16 << 10,  /* a power of two */
	SC_RAW_NAME_BYTES = 4 << 20,
	SC_RAW_TRACE_NAME = 256
};

enum sc_raw_state { SC_RAW_FREE, SC_RAW_LENT, SC_RAW_FULL };
struct sc_raw_buffer {
	_Atomic uint32_t state; /* enum sc_raw_state */
	uint32_t valid_bytes;   /* of a full one */
	_Atomic uint64_t order; /* full ones are written in this order */
	/* The places where the frames made of it begin and end in the trace; end 0 while there are
	 * none. If the trace is whole up to the end, the buffer has been written. */
	_Atomic uint64_t frames_begin, frames_end;
};
enum sc_raw_owner { SC_RAW_RING_FREE, SC_RAW_RING_OWNED, SC_RAW_RING_LEFT };
struct sc_raw_ring {
	_Atomic uint32_t owner; /* enum sc_raw_owner */
	int32_t tid;
	_Atomic uint64_t head, tail; /* bytes ever written and read */
	_Atomic uint64_t next_tail;  /* what tail becomes when the frames below are written */
	_Atomic uint64_t frames_begin, frames_end;
};
/* A text and what stands for it in records: an address, or SC_RAW_API_KEY. Once `key` is set the
 * slot is whole. */
struct sc_raw_name {
	_Atomic uint64_t key;
	uint32_t at, n; /* in the text area; not counting the NUL */
};
#define SC_RAW_API_KEY(domain, cbid) \
	(UINT64_C(1) << 63 | (uint64_t)(uint32_t)(domain) << 32 | (uint32_t)(cbid))

/* The beginning of the file. Sizes are checked when a file is opened for recovery. */
struct sc_raw_header {
	char magic[8];
	uint32_t version, header_bytes;
	uint32_t n_buffers, buffer_bytes;
	uint64_t names_at, texts_at, rings_at, buffers_at, total_bytes;
	int32_t pid;
	_Atomic uint32_t own_tid; /* the thread whose calls are the tracer's own */
	char host[64];            /* as gethostname says it */
	uint64_t run_id;
	int64_t base_mono_ns, base_utc_ns, cupti_shift_ns; /* cupti_shift: CUPTI's time less ours */
	uint16_t strides[SC_CUPTI_MAX_KIND + 1];
	uint32_t n_text_bytes; /* of names used */
	uint32_t n_names;
	int32_t has_ended; /* the process ended in order: what is left here could not be written */
	int32_t write_error;                /* errno of why; 0: CUPTI kept its last buffers */
	char trace_name[SC_RAW_TRACE_NAME]; /* beside the raw file; empty until there is one */
	struct sc_raw_ring rings[SC_RAW_RINGS];
	struct sc_raw_buffer buffers[SC_RAW_MAX_BUFFERS];
};
struct sc_raw_file {
	struct sc_raw_header *header; /* the mapping */
	struct sc_raw_name *names;
	char *texts;
	uint8_t *rings, *buffers;
	size_t n_bytes;
	int fd; /* of the process that writes it, locked as long as that runs; else -1 */
	char path[4096];
};

/* Makes and maps the file, every page of it touched. -errno on failure. */
int sc_raw_create(struct sc_raw_file *raw, const char *path, uint32_t n_buffers,
		  uint32_t buffer_bytes);
/* Maps one that a dead process left, privately: nothing in the file changes. -errno; -EINVAL: it is
 * no raw file; -ENODATA: the process died while it was made, nothing is in it. */
int sc_raw_open(struct sc_raw_file *raw, const char *path);
void sc_raw_close(struct sc_raw_file *raw, bool remove_file);

uint8_t *sc_raw_buffer_at(const struct sc_raw_file *raw, uint32_t index);
/* The number of the buffer at an address, or -1. */
int sc_raw_buffer_index(const struct sc_raw_file *raw, const uint8_t *at);
uint8_t *sc_raw_ring_at(const struct sc_raw_file *raw, uint32_t index);

/* Takes a free buffer: its index, or -1. `start` spreads threads. Any thread. */
int sc_raw_lend(struct sc_raw_file *raw, uint32_t start);
void sc_raw_give(struct sc_raw_file *raw, uint32_t index, uint32_t valid_bytes, uint64_t order);
/* The full buffer that came first, or -1. The writer only. */
int sc_raw_first_full(const struct sc_raw_file *raw);
void sc_raw_recycle(struct sc_raw_file *raw, uint32_t index); /* zeroes it */

/* The slot of a key with exactly this text; made, or changed, if need be. NULL when the table or
 * the text area is full. One thread. */
struct sc_raw_name *sc_raw_name_put(struct sc_raw_file *raw, uint64_t key, const char *text);
const struct sc_raw_name *sc_raw_name_get(const struct sc_raw_file *raw,
					  uint64_t key); /* or NULL */

/* Returns how long a name is without what CUPTI appends to it, as in "cudaLaunchKernel_v7000" and
 * "cudaStreamIsCapturing_ptsz_v10000". */
size_t sc_api_name_length(const char *name);
