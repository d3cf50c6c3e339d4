/* Records of the tracer itself (NVTX ranges, NCCL calls, losses) on their way from the host's
 * threads to the writer: one ring a thread in the raw file, one writer and one reader each,
 * positions published after the record is whole. */
#pragma once

#include "trace/capture/raw_file.h"

enum sc_host_kind {
	SC_HOST_PAD,
	SC_HOST_RANGE, /* text: name */
	SC_HOST_MARK,  /* text: name */
	SC_HOST_NCCL,  /* text: function, NUL, data type, NUL, communicator's name */
	SC_HOST_META,  /* text: key, NUL, value */
	SC_HOST_GAP,   /* text: reason; sub: event class; count in `external_id`, -1 unknown */
	SC_HOST_N_KINDS
};
/* The facts known of a communication call; -1 where not said. */
struct sc_host_comm {
	uint64_t hash;
	int64_t count, bytes, seq;
	int32_t group_size, peer, root, pad;
};
enum { SC_HOST_HAS_COMM = 1, SC_HOST_IS_CALL = 2 /* class COMM, not RANGE */ };
enum sc_host_sub { SC_HOST_SUB_PLUGIN, SC_HOST_SUB_NVTX, SC_HOST_SUB_PLUGIN_API };
struct sc_host_record {
	uint32_t bytes; /* all of it, a multiple of 8 */
	uint16_t kind;
	uint8_t flags, sub;
	int32_t tid;
	uint32_t n_text;
	int64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
	int64_t external_id;
	struct sc_host_comm comm; /* if SC_HOST_HAS_COMM */
};
enum { SC_HOST_MAX_TEXT = 1024 };

/* A record, but for its `bytes`, and its n_text bytes of text into ring `index`, of which the
 * caller is the only writer. False: it does not fit now. */
bool sc_host_ring_put(struct sc_raw_file *raw, uint32_t index, const struct sc_host_record *record,
		      const char *text);
/* The record at position `at` of ring `index` if at < head, and where the next begins. NULL at the
 * end, or if it makes no sense (only in a damaged file). */
const struct sc_host_record *sc_host_ring_read(const struct sc_raw_file *raw, uint32_t index,
					       uint64_t *at);
