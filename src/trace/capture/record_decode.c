/* Two walks a buffer: external ids, event records and the devices of contexts first, as they may
 * stand behind what refers to them. The first is only so far ahead that the second finds all in the
 * cache. Ids of CUPTI wrap; tables are direct-mapped and the newest entry holds. */
#include "trace/capture/record_decode.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"

enum {
	SC_EXTERNAL_ENTRIES = 16 << 10, /* more than are learned ahead */
	SC_EVENT_ENTRIES = 64 << 10,
	SC_LANE_ENTRIES = 256,
	SC_CONFIG_ENTRIES = 1 << 10,
	SC_CONTEXT_ENTRIES = 256,
	SC_POINTER_ENTRIES = 1 << 10,
	SC_API_ENTRIES = 1 << 10
};
/* A record can be by far less ahead of the time when it is read. */
#define MAX_AHEAD_NS (60 * SC_NS_PER_S)
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
/* The place where the text of a name was found last. */
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

uint32_t sc_decoder_lane(struct sc_decoder *d, const struct sc_trace_lane *lane)
{
	uint32_t hash = ((uint32_t)lane->tid * 31 + (uint32_t)lane->stream) * 31 +
			(uint32_t)lane->context * 7 + (uint32_t)lane->device;
	struct sc_lane_entry *entry = &d->tables->lanes[hash % SC_LANE_ENTRIES];

	if (entry->id && memcmp(&entry->lane, lane, sizeof(*lane)) == 0)
		return entry->id;
	entry->lane = *lane;
	entry->id = d->sink.lane(d->sink.ctx, lane);
	return entry->id;
}

uint32_t sc_decoder_host_lane(struct sc_decoder *d, int32_t pid, int32_t tid)
{
	struct sc_trace_lane lane = {.pid = pid, .tid = tid, .device = -1, .stream = -1};

	return sc_decoder_lane(d, &lane);
}

/* The offsets of what most kinds have; 0: not there. */
struct record_kind {
	bool is_event;
	uint8_t cls, start, end, correlation, bytes;
	uint8_t device; /* followed by context and stream */
	const char *name;
};
#define AT(type, member) (uint8_t) offsetof(struct sc_cupti_##type, member)
#define TIMES(type) \
	.start = AT(type, start), .end = AT(type, end), .correlation = AT(type, correlation)
static const struct record_kind KINDS[SC_CUPTI_MAX_KIND + 1] = {
	[SC_CUPTI_KERNEL] = {true, SC_EV_KERNEL, TIMES(kernel), .device = AT(kernel, device)},
	[SC_CUPTI_RUNTIME] = {true, SC_EV_API, TIMES(api)},
	[SC_CUPTI_DRIVER] = {true, SC_EV_API, TIMES(api)},
	[SC_CUPTI_MEMCPY] = {true, SC_EV_COPY, TIMES(memcpy), .bytes = AT(memcpy, bytes),
			     .device = AT(memcpy, device)},
	[SC_CUPTI_MEMCPY_P2P] = {true, SC_EV_COPY, TIMES(memcpy_p2p),
				 .bytes = AT(memcpy_p2p, bytes), .device = AT(memcpy_p2p, device)},
	[SC_CUPTI_MEMSET] = {true, SC_EV_SET, TIMES(memset), .bytes = AT(memset, bytes),
			     .device = AT(memset, device), .name = "Memset"},
	[SC_CUPTI_SYNC] = {true, SC_EV_SYNC, TIMES(sync)},
	[SC_CUPTI_CUDA_EVENT] = {true, SC_EV_EVENT_RECORD, .correlation = AT(event, correlation),
				 .name = "Event Record"},
	[SC_CUPTI_OVERHEAD] = {true, SC_EV_OVERHEAD, .start = AT(overhead, start),
			       .end = AT(overhead, end)},
};

static uint32_t u32_at(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static uint64_t u64_at(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static int64_t trace_time(const struct sc_decoder *d, uint64_t cupti_ns)
{
	const struct sc_raw_header *header = d->raw->header;

	return (int64_t)cupti_ns - header->cupti_shift_ns - header->base_mono_ns;
}

/* Another client's clock (Kineto's counts cycles) is far from ours: what it stamped has no time. */
static inline bool of_our_clock(const struct sc_decoder *d, int64_t ns)
{
	return ns > -MAX_AHEAD_NS && ns - MAX_AHEAD_NS < d->now_ns;
}

static inline void set_time(const struct sc_decoder *d, struct sc_trace_event *event,
			    uint64_t start, uint64_t end)
{
	const bool is_ours = start && of_our_clock(d, trace_time(d, start));

	event->start_ns = is_ours ? trace_time(d, start) : d->tables->last_ns;
	if (is_ours && end >= start)
		event->dur_ns = (int64_t)(end - start);
	else
		event->flags |= SC_EVF_NO_TIME; /* no timestamp: kept, and said */
}

static uint32_t stream_lane(struct sc_decoder *d, uint32_t device, uint32_t context,
			    uint32_t stream)
{
	struct sc_trace_lane lane = {
		.is_stream = 1,
		.pid = d->raw->header->pid,
		.device = (int32_t)device,
		.context = (int32_t)context,
		.stream = (int32_t)stream,
	};

	return sc_decoder_lane(d, &lane);
}

/* Some records say only the context. */
static uint32_t context_device(const struct sc_decoder *d, uint32_t context)
{
	return d->tables->devices[context % SC_CONTEXT_ENTRIES] - 1;
}

static uint32_t name_id(struct sc_decoder *d, const struct sc_raw_name *name)
{
	struct sc_name_entry *entry = &d->tables->names[name - d->raw->names];

	if (!entry->id || entry->at != name->at) {
		entry->id = d->sink.string(d->sink.ctx, d->raw->texts + name->at, name->n);
		entry->at = name->at;
	}
	return entry->id;
}

/* The text decides: another module may have got the address. */
static uint32_t kernel_name(struct sc_decoder *d, const char *pointer)
{
	const struct sc_raw_name *name;
	uint64_t key = (uint64_t)(uintptr_t)pointer;
	struct sc_pointer_entry *entry =
		&d->tables->pointers[(key >> 4 ^ key >> 14) % SC_POINTER_ENTRIES];

	if (!pointer)
		return 0;
	if (d->live && entry->pointer == pointer &&
	    strcmp(d->raw->texts + entry->name->at, pointer) == 0)
		return name_id(d, entry->name);
	name = d->live ? sc_raw_name_put(d->raw, key, pointer) : sc_raw_name_get(d->raw, key);
	if (name)
		*entry = (struct sc_pointer_entry){pointer, name};
	if (name)
		return name_id(d, name);
	if (d->live)
		return d->sink.string(d->sink.ctx, pointer, strlen(pointer));
	d->counts.n_unnamed++;
	return 0;
}

static uint32_t config_of(struct sc_decoder *d, const struct sc_trace_config *config)
{
	/* Products that do not wait for each other. */
	uint32_t hash =
		config->grid[0] * UINT32_C(0x9e3779b1) ^ config->grid[1] * UINT32_C(0x85ebca6b) ^
		config->grid[2] * UINT32_C(0xc2b2ae35) ^ config->block[0] * UINT32_C(0x27d4eb2f) ^
		config->shared_bytes * UINT32_C(0x165667b1) ^
		config->registers * UINT32_C(0xd3a2646c);
	struct sc_config_entry *entry = &d->tables->configs[(hash >> 16) % SC_CONFIG_ENTRIES];

	if (entry->id && memcmp(&entry->config, config, sizeof(*config)) == 0)
		return entry->id;
	entry->config = *config;
	entry->id = d->sink.config(d->sink.ctx, config);
	return entry->id;
}

static int64_t external_of(const struct sc_decoder *d, uint32_t correlation)
{
	const struct sc_external_entry *entry =
		&d->tables->externals[correlation % SC_EXTERNAL_ENTRIES];

	return correlation && entry->correlation == correlation ? entry->external_id : 0;
}

static inline __attribute__((always_inline)) void fill_kernel(struct sc_decoder *d,
							      const struct sc_cupti_kernel *record,
							      size_t stride,
							      struct sc_trace_event *event)
{
	struct sc_trace_config config = {
		.registers = record->registers,
		.shared_bytes = (uint32_t)record->static_shared + (uint32_t)record->dynamic_shared,
		.graph_id = -1,
	};

	for (int i = 0; i < 3; i++) {
		config.grid[i] = (uint32_t)record->grid[i];
		config.block[i] = (uint32_t)record->block[i];
	}
	if (SC_CUPTI_HAS(stride, struct sc_cupti_kernel, graph_node) && record->graph_node) {
		event->aux0 = (int64_t)record->graph_node;
		if (SC_CUPTI_HAS(stride, struct sc_cupti_kernel, graph_id))
			config.graph_id = (int32_t)record->graph_id;
	}
	event->name = kernel_name(d, record->name);
	event->config = config_of(d, &config);
}

static inline uint32_t api_name(struct sc_decoder *d, const struct sc_cupti_api *record)
{
	const bool of_driver = record->kind == SC_CUPTI_DRIVER;
	const int domain = of_driver ? SC_CUPTI_DOMAIN_DRIVER : SC_CUPTI_DOMAIN_RUNTIME;
	uint32_t beyond = 0;
	uint32_t *id = record->cbid < SC_API_ENTRIES
			       ? &d->tables->api_names[of_driver][record->cbid]
			       : &beyond;

	if (*id == 0) {
		const struct sc_raw_name *name =
			sc_raw_name_get(d->raw, SC_RAW_API_KEY(domain, record->cbid));

		*id = name ? name_id(d, name) : 0;
	}
	return *id;
}

static void fill_copy(struct sc_decoder *d, const uint8_t *at, struct sc_trace_event *event)
{
	/* By CUPTI's number: unknown, HtoD, DtoH, HtoA, AtoH, AtoA, AtoD, DtoA, DtoD, HtoH, PtoP;
	 * arrays are device memory. */
	static const uint8_t kinds[] = {
		SC_COPY_UNKNOWN, SC_COPY_H2D, SC_COPY_D2H, SC_COPY_H2D, SC_COPY_D2H, SC_COPY_D2D,
		SC_COPY_D2D,     SC_COPY_D2D, SC_COPY_D2D, SC_COPY_H2H, SC_COPY_P2P,
	};
	const void *record = at;
	const struct sc_cupti_memcpy *copy = record;
	const struct sc_cupti_memcpy_p2p *p2p = record;
	const char *name;
	char text[64];

	if (copy->kind == SC_CUPTI_MEMCPY_P2P) {
		event->sub = SC_COPY_P2P;
		event->aux0 = p2p->src_device;
		event->aux1 = p2p->dst_device;
	} else {
		event->sub =
			copy->copy_kind < sizeof(kinds) ? kinds[copy->copy_kind] : SC_COPY_UNKNOWN;
	}
	name = sc_copy_name((enum sc_copy_kind)event->sub, copy->src_kind, copy->dst_kind, text);
	event->name = d->sink.string(d->sink.ctx, name, strlen(name));
}

static uint64_t event_key(uint32_t context, uint32_t event)
{
	return (uint64_t)context << 32 | event;
}

/* Correlation of the record that is waited for, -1 if not known. */
static int64_t recorded_by(const struct sc_decoder *d, const struct sc_cupti_sync *record,
			   size_t stride)
{
	uint64_t key = event_key(record->context, record->event);
	const struct sc_event_entry *entry = sc_event_entry(d->tables->events, key);

	if (SC_CUPTI_HAS(stride, struct sc_cupti_sync, event_sync) && record->event_sync) {
		key = record->event_sync;
		entry = sc_event_entry(d->tables->syncs, key);
	}
	return entry->key == key && entry->correlation ? (int64_t)entry->correlation : -1;
}

static void fill_sync(struct sc_decoder *d, const struct sc_cupti_sync *record, size_t stride,
		      struct sc_trace_event *event)
{
	static const struct {
		const char *name;
		enum sc_sync_kind kind;
	} types[] = {
		{"Sync", SC_SYNC_OTHER},
		{"Event Sync", SC_SYNC_EVENT},
		{"Stream Wait Event", SC_SYNC_STREAM_WAIT},
		{"Stream Sync", SC_SYNC_STREAM},
		{"Context Sync", SC_SYNC_CONTEXT},
	};
	uint32_t type = record->type < 5 ? record->type : 0;
	bool of_event = type == 1 || type == 2;

	event->sub = (uint8_t)types[type].kind;
	event->name = d->sink.string(d->sink.ctx, types[type].name, strlen(types[type].name));
	event->lane =
		stream_lane(d, context_device(d, record->context), record->context, record->stream);
	event->aux0 = of_event ? (int64_t)record->event : -1;
	event->aux1 = of_event ? recorded_by(d, record, stride) : -1;
}

static void fill_event_record(struct sc_decoder *d, const struct sc_cupti_event *record,
			      size_t stride, struct sc_trace_event *event)
{
	uint64_t key = event_key(record->context, record->event);
	bool has_device = SC_CUPTI_HAS(stride, struct sc_cupti_event, device);
	bool has_time = SC_CUPTI_HAS(stride, struct sc_cupti_event, device_timestamp);
	uint64_t stamp = has_time ? record->device_timestamp : 0;

	set_time(d, event, stamp, stamp); /* without, its API call has one */
	event->lane =
		stream_lane(d, has_device ? record->device : context_device(d, record->context),
			    record->context, record->stream);
	event->aux0 = record->event;
	*sc_event_entry(d->tables->events, key) =
		(struct sc_event_entry){.key = key, .correlation = record->correlation};
}

static void fill_overhead(struct sc_decoder *d, const struct sc_cupti_overhead *record,
			  size_t stride, struct sc_trace_event *event)
{
	const uint32_t low = record->overhead_kind & UINT16_MAX, high = record->overhead_kind >> 16;
	const char *name = low ? "Compiler" : high == 6 ? "Command Buffer Full" : "CUPTI overhead";

	event->sub = (uint8_t)(low ? SC_OVERHEAD_LOW + low : high);
	event->name = d->sink.string(d->sink.ctx, name, strlen(name));
	event->lane =
		record->object_kind < SC_CUPTI_OBJECT_DEVICE
			? sc_decoder_host_lane(d, (int32_t)record->object[0],
					       (int32_t)record->object[1])
			: stream_lane(d, record->object[0], record->object[1], record->object[2]);
	if (SC_CUPTI_HAS(stride, struct sc_cupti_overhead, correlation))
		event->correlation = record->correlation;
}

static inline __attribute__((always_inline)) void decode_as(struct sc_decoder *d, const uint8_t *at,
							    size_t stride,
							    const struct record_kind *kind)
{
	const void *record = at;
	const struct sc_cupti_api *api = record;
	const struct sc_cupti_overhead *overhead = record;
	struct sc_trace_event event = {.cls = kind->cls};

	if (kind->cls == SC_EV_API && kind->is_event && api->kind == SC_CUPTI_DRIVER &&
	    api->thread == atomic_load_explicit(&d->raw->header->own_tid, memory_order_relaxed)) {
		d->counts.n_own++;
		return;
	}
	if (!kind->is_event) {
		d->counts.n_unknown++;
		return;
	}
	if (kind->correlation)
		event.correlation = u32_at(at + kind->correlation);
	event.external_id = external_of(d, event.correlation);
	if (kind->name)
		event.name = d->sink.string(d->sink.ctx, kind->name, strlen(kind->name));
	if (kind->device)
		event.lane =
			stream_lane(d, u32_at(at + kind->device), u32_at(at + kind->device + 4),
				    u32_at(at + kind->device + 8));
	if (kind->bytes)
		event.bytes = (int64_t)u64_at(at + kind->bytes);
	if (kind->start)
		set_time(d, &event, u64_at(at + kind->start), u64_at(at + kind->end));
	switch (kind->cls) {
	case SC_EV_KERNEL:
		fill_kernel(d, record, stride, &event);
		break;
	case SC_EV_API:
		event.flags |= api->kind == SC_CUPTI_DRIVER ? SC_EVF_DRIVER : 0;
		event.name = api_name(d, api);
		event.lane = sc_decoder_host_lane(d, (int32_t)api->process, (int32_t)api->thread);
		d->tables->last_ns = event.start_ns;
		break;
	case SC_EV_COPY:
		fill_copy(d, at, &event);
		break;
	case SC_EV_SYNC:
		fill_sync(d, record, stride, &event);
		break;
	case SC_EV_EVENT_RECORD:
		fill_event_record(d, record, stride, &event);
		break;
	case SC_EV_OVERHEAD:
		fill_overhead(d, overhead, stride, &event);
		break;
	default:
		break;
	}
	d->counts.n_events++;
	d->sink.add(d->sink.ctx, &event);
	if (kind->cls == SC_EV_OVERHEAD && d->live &&
	    SC_CUPTI_HAS(stride, struct sc_cupti_overhead, data))
		free(overhead->data);
}

/* For the kinds that nearly all records are of, KINDS is known when this is compiled. */
static inline __attribute__((always_inline)) void decode_one(struct sc_decoder *d,
							     const uint8_t *at, size_t stride)
{
	d->counts.n_records++;
	switch (u32_at(at)) {
	case SC_CUPTI_EXTERNAL:
		break;
	case SC_CUPTI_KERNEL:
		decode_as(d, at, stride, &KINDS[SC_CUPTI_KERNEL]);
		break;
	case SC_CUPTI_RUNTIME:
		decode_as(d, at, stride, &KINDS[SC_CUPTI_RUNTIME]);
		break;
	default:
		decode_as(d, at, stride, &KINDS[u32_at(at)]);
	}
}

bool sc_decoder_init(struct sc_decoder *decoder, struct sc_raw_file *raw,
		     const struct sc_event_sink *sink, bool live)
{
	*decoder =
		(struct sc_decoder){.raw = raw, .sink = *sink, .live = live, .now_ns = INT64_MAX};
	decoder->tables = calloc(1, sizeof(*decoder->tables));
	return decoder->tables != NULL;
}

void sc_decoder_release(struct sc_decoder *decoder)
{
	free(decoder->tables);
	decoder->tables = NULL;
}

/* Bytes of the record at `at`, 0 where the walk ends. */
static size_t stride_at(const struct sc_raw_file *raw, const uint8_t *at, size_t n)
{
	uint32_t kind;
	size_t stride;

	if (n < sizeof(uint64_t))
		return 0;
	kind = u32_at(at);
	stride = kind <= SC_CUPTI_MAX_KIND ? raw->header->strides[kind] : 0;
	return stride <= n ? stride : 0;
}

static void learn_record(struct sc_decoder *decoder, const uint8_t *at, size_t stride)
{
	struct sc_decoder_tables *tables = decoder->tables;
	const void *record = at;

	if (u32_at(at) == SC_CUPTI_EXTERNAL) {
		const struct sc_cupti_external *external = record;

		if (external->external_kind == SC_CUPTI_CUSTOM2)
			tables->externals[external->correlation % SC_EXTERNAL_ENTRIES] =
				(struct sc_external_entry){external->correlation,
							   (int64_t)external->external_id};
	} else if (u32_at(at) == SC_CUPTI_CUDA_EVENT &&
		   SC_CUPTI_HAS(stride, struct sc_cupti_event, event_sync)) {
		const struct sc_cupti_event *event = record;

		*sc_event_entry(tables->syncs, event->event_sync) =
			(struct sc_event_entry){event->event_sync, event->correlation};
	} else if (u32_at(at) == SC_CUPTI_KERNEL) {
		const struct sc_cupti_kernel *kernel = record;

		tables->devices[kernel->context % SC_CONTEXT_ENTRIES] = kernel->device + 1;
	}
}

/* Was all of it written? What has no times is a few words, written in one go. */
static bool is_whole(const uint8_t *at)
{
	const struct record_kind *kind = &KINDS[u32_at(at)];
	const void *record = at;
	const struct sc_cupti_kernel *kernel = record;
	const struct sc_cupti_api *api = record;

	if ((kind->is_event && kind->cls == SC_EV_KERNEL &&
	     (!kernel->name || kernel->grid[0] <= 0 || kernel->block[0] <= 0)) ||
	    (kind->cls == SC_EV_API && !api->thread) ||
	    (kind->correlation && !u32_at(at + kind->correlation)))
		return false;
	return !kind->start ||
	       (u64_at(at + kind->start) && u64_at(at + kind->end) >= u64_at(at + kind->start));
}

enum {
	PREFETCH_BYTES = 4096,
	AHEAD_BYTES = 128 << 10 /* at least, up to the end of the buffer */
};

/* Bytes of the record at *next, 0: there is none. In a buffer that was not finished, places may be
 * reserved and zero still: what is behind them is another record. */
static size_t find_record(struct sc_decoder *decoder, const uint8_t *at, size_t n, bool torn_end,
			  size_t *next)
{
	size_t stride = stride_at(decoder->raw, at + *next, n - *next), i = *next;

	if (stride > 0)
		return stride;
	while (n - i >= sizeof(uint64_t) && u64_at(at + i) == 0)
		i += sizeof(uint64_t);
	if (n - i < sizeof(uint64_t))
		return 0;
	if (torn_end)
		stride = stride_at(decoder->raw, at + i, n - i);
	*(torn_end ? &decoder->counts.n_torn : &decoder->counts.n_ended) += 1;
	*next = i;
	return stride && is_whole(at + i) ? stride : 0;
}

void sc_decode_buffer(struct sc_decoder *decoder, const uint8_t *at, size_t n, bool torn_end)
{
	size_t next = 0, learned = 0;
	size_t stride = find_record(decoder, at, n, torn_end, &next), next_stride;

	for (size_t i = next; stride > 0; i = next, stride = next_stride) {
		if (learned < i)
			learned = i; /* behind a hole */
		if (learned < n && i + AHEAD_BYTES >= learned) {
			const size_t until = i + 2 * AHEAD_BYTES;
			size_t bytes;

			/* Records come from another core's cache: who looks first waits. */
			for (; learned < until &&
			       (bytes = stride_at(decoder->raw, at + learned, n - learned)) > 0;
			     learned += bytes) {
				__builtin_prefetch(at + learned + PREFETCH_BYTES);
				learn_record(decoder, at + learned, bytes);
			}
		}
		next = i + stride;
		next_stride = find_record(decoder, at, n, torn_end, &next);
		if (next_stride == 0 && torn_end && !is_whole(at + i)) {
			decoder->counts.n_torn++;
			return;
		}
		decode_one(decoder, at + i, stride);
	}
}

void sc_count_records(const struct sc_raw_file *raw, const uint8_t *at, size_t n,
		      int64_t counts[SC_N_EVENT_CLASSES])
{
	size_t stride;

	for (size_t i = 0; (stride = stride_at(raw, at + i, n - i)) > 0; i += stride) {
		const struct record_kind *kind = &KINDS[u32_at(at + i)];

		if (kind->is_event)
			counts[kind->cls]++;
	}
}
