/* Shared by record_decode.c (walks), decode_records.c (CUPTI's records) and decode_host.c (our own). */
#ifndef SC_TRACE_CAPTURE_DECODE_PRIV_H
#define SC_TRACE_CAPTURE_DECODE_PRIV_H

#include "trace/capture/record_decode.h"

enum {
	SC_EXTERNAL_ENTRIES = 16 << 10, /* more than are learned ahead */
	SC_EVENT_ENTRIES = 64 << 10,
	SC_LANE_ENTRIES = 256,
	SC_CONFIG_ENTRIES = 1 << 10,
	SC_CONTEXT_ENTRIES = 256,
	SC_POINTER_ENTRIES = 1 << 10,
	SC_API_ENTRIES = 1 << 10
};
struct sc_external_entry {
	uint32_t correlation;
	int64_t external_id;
};
struct sc_event_entry {
	uint64_t key; /* CUPTI's id of one recording, or context and event */
	uint32_t correlation;
};
struct sc_lane_entry {
	struct sc_trace_lane lane;
	uint32_t id;
};
struct sc_config_entry {
	struct sc_trace_config config;
	uint32_t id;
};
/* Where the text of a name was found last. */
struct sc_pointer_entry {
	const char *pointer;
	const struct sc_raw_name *name;
};
struct sc_name_entry {
	uint32_t at, id; /* where the text was when it got its id */
};
struct sc_decoder_tables {
	struct sc_external_entry externals[SC_EXTERNAL_ENTRIES];
	struct sc_event_entry syncs[SC_EVENT_ENTRIES]; /* by CUPTI's id of one recording */
	struct sc_event_entry
		events[SC_EVENT_ENTRIES]; /* by context and event: libraries before 12.8 */
	struct sc_lane_entry lanes[SC_LANE_ENTRIES];
	struct sc_config_entry configs[SC_CONFIG_ENTRIES];
	struct sc_name_entry names[SC_RAW_NAME_SLOTS];
	struct sc_pointer_entry pointers[SC_POINTER_ENTRIES];
	uint32_t api_names[2][SC_API_ENTRIES]; /* of the runtime and the driver, by number */
	uint32_t devices[SC_CONTEXT_ENTRIES];  /* of contexts, plus 1; 0: not seen yet */
	int64_t last_ns; /* of the last API call: for records without a time */
};

/* Ids come in steps: all bits count. */
static inline struct sc_event_entry *sc_event_entry(struct sc_event_entry *table, uint64_t key)
{
	return &table[key * UINT64_C(0x9e3779b97f4a7c15) >> 48];
}
_Static_assert(SC_EVENT_ENTRIES == 1 << 16, "the upper 16 bits");

uint32_t sc_decode_host_lane(struct sc_decoder *decoder, int32_t pid, int32_t tid);

void sc_decode_kernel(struct sc_decoder *d, const struct sc_cupti_kernel *record, size_t stride);
void sc_decode_api(struct sc_decoder *d, const struct sc_cupti_api *record);
void sc_decode_memcpy(struct sc_decoder *d, const struct sc_cupti_memcpy *record);
void sc_decode_memcpy_p2p(struct sc_decoder *d, const struct sc_cupti_memcpy_p2p *record);
void sc_decode_memset(struct sc_decoder *d, const struct sc_cupti_memset *record);
void sc_decode_sync(struct sc_decoder *d, const struct sc_cupti_sync *record, size_t stride);
void sc_decode_event_record(struct sc_decoder *d, const struct sc_cupti_event *record,
			    size_t stride);
void sc_decode_overhead(struct sc_decoder *d, const struct sc_cupti_overhead *record,
			size_t stride);

#endif
