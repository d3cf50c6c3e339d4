/* CUPTI's records and the tracer's own, turned into events of a trace. Knows neither CUPTI nor
 * files: it walks memory with the strides of the raw file and gives events to a sink, the tracer's
 * frames or, after a crash, a trace writer. */
#pragma once

#include "trace/capture/host_ring.h"
#include "trace/format/event.h"

/* Ids count from 1; 0 = none. Equal entries may get equal ids. */
struct sc_event_sink {
	void *ctx;
	uint32_t (*string)(void *ctx, const char *text, size_t n);
	uint32_t (*lane)(void *ctx, const struct sc_trace_lane *lane);
	uint32_t (*config)(void *ctx, const struct sc_trace_config *config);
	uint32_t (*comm)(void *ctx, const struct sc_trace_comm *comm);
	void (*add)(void *ctx, const struct sc_trace_event *event);
	void (*gap)(void *ctx, const struct sc_trace_gap *gap);
	void (*meta)(void *ctx, const char *key, const char *value);
};

struct sc_decode_counts {
	int64_t n_records, n_events;
	int64_t n_unknown; /* of kinds that are not traced */
	int64_t n_unnamed; /* kernels whose name was lost with the process */
	int64_t n_torn;    /* last records of unfinished buffers that were not whole */
	int64_t n_ended;   /* walks that ended at a kind without a stride, before the valid end */
	int64_t n_own;     /* calls of the tracer's own, which are no events */
};
struct sc_decoder {
	struct sc_raw_file *raw;
	struct sc_event_sink sink;
	int64_t now_ns; /* when records are read, in the trace's time; INT64_MAX: not known */
	bool live; /* names are read through their pointers and what CUPTI allocated is freed */
	struct sc_decode_counts counts;
	struct sc_decoder_tables *tables;
};

/* False: out of memory. */
bool sc_decoder_init(struct sc_decoder *decoder, struct sc_raw_file *raw,
		     const struct sc_event_sink *sink, bool live);
void sc_decoder_release(struct sc_decoder *decoder);
/* All records of a finished buffer; of one that was still lent (`torn_end`), all but a last record
 * that is not whole. */
void sc_decode_buffer(struct sc_decoder *decoder, const uint8_t *at, size_t n, bool torn_end);
void sc_decode_host(struct sc_decoder *decoder, const struct sc_host_record *record);
/* Ids of lanes, which the sink is asked for once while they stay in the table. */
uint32_t sc_decoder_host_lane(struct sc_decoder *d, int32_t pid, int32_t tid);
uint32_t sc_decoder_lane(struct sc_decoder *d, const struct sc_trace_lane *lane);

/* How many events of each class finished records would be. */
void sc_count_records(const struct sc_raw_file *raw, const uint8_t *at, size_t n,
		      int64_t counts[SC_N_EVENT_CLASSES]);
