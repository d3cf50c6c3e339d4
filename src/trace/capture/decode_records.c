/* One function a kind of CUPTI record. */
#include <stdlib.h>
#include <string.h>

#include "trace/capture/decode_priv.h"

static int64_t trace_time(const struct sc_decoder *d, uint64_t cupti_ns)
{
	const struct sc_raw_header *header = d->raw->header;

	return (int64_t)cupti_ns - header->cupti_shift_ns - header->base_mono_ns;
}

static void set_time(const struct sc_decoder *d, struct sc_trace_event *event, uint64_t start,
		     uint64_t end)
{
	if (start == 0 || end < start) { /* no timestamp: kept, and said */
		event->flags |= SC_EVF_NO_TIME;
		event->start_ns = start ? trace_time(d, start) : d->tables->last_ns;
		return;
	}
	event->start_ns = trace_time(d, start);
	event->dur_ns = (int64_t)(end - start);
}

static uint32_t lane_of(struct sc_decoder *d, const struct sc_trace_lane *lane)
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

uint32_t sc_decode_host_lane(struct sc_decoder *d, int32_t pid, int32_t tid)
{
	struct sc_trace_lane lane = {.pid = pid, .tid = tid, .device = -1, .stream = -1};

	return lane_of(d, &lane);
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

	return lane_of(d, &lane);
}

/* Some records say only the context. */
static uint32_t device_of(const struct sc_decoder *d, uint32_t context)
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

static void add(struct sc_decoder *d, const struct sc_trace_event *event)
{
	d->counts.n_events++;
	d->sink.add(d->sink.ctx, event);
}

void sc_decode_kernel(struct sc_decoder *d, const struct sc_cupti_kernel *record, size_t stride)
{
	struct sc_trace_config config = {
		.registers = record->registers,
		.shared_bytes = (uint32_t)record->static_shared + (uint32_t)record->dynamic_shared,
		.graph_id = -1,
	};
	struct sc_trace_event event = {
		.cls = SC_EV_KERNEL,
		.correlation = record->correlation,
		.external_id = external_of(d, record->correlation),
		.name = kernel_name(d, record->name),
		.lane = stream_lane(d, record->device, record->context, record->stream),
	};

	for (int i = 0; i < 3; i++) {
		config.grid[i] = (uint32_t)record->grid[i];
		config.block[i] = (uint32_t)record->block[i];
	}
	if (SC_CUPTI_HAS(stride, struct sc_cupti_kernel, graph_node) && record->graph_node) {
		event.aux0 = (int64_t)record->graph_node;
		if (SC_CUPTI_HAS(stride, struct sc_cupti_kernel, graph_id))
			config.graph_id = (int32_t)record->graph_id;
	}
	event.config = config_of(d, &config);
	set_time(d, &event, record->start, record->end);
	add(d, &event);
}

static uint32_t api_name(struct sc_decoder *d, const struct sc_cupti_api *record)
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

void sc_decode_api(struct sc_decoder *d, const struct sc_cupti_api *record)
{
	struct sc_trace_event event = {
		.cls = SC_EV_API,
		.flags = record->kind == SC_CUPTI_DRIVER ? SC_EVF_DRIVER : 0,
		.correlation = record->correlation,
		.external_id = external_of(d, record->correlation),
		.name = api_name(d, record),
		.lane = sc_decode_host_lane(d, (int32_t)record->process, (int32_t)record->thread),
	};

	set_time(d, &event, record->start, record->end);
	d->tables->last_ns = event.start_ns;
	add(d, &event);
}

static uint8_t copy_kind(uint8_t cupti)
{
	/* By CUPTI's number: unknown, HtoD, DtoH, HtoA, AtoH, AtoA, AtoD, DtoA, DtoD, HtoH, PtoP; arrays
	 * are device memory. */
	static const uint8_t kinds[] = {
		SC_COPY_UNKNOWN, SC_COPY_H2D, SC_COPY_D2H, SC_COPY_H2D, SC_COPY_D2H, SC_COPY_D2D,
		SC_COPY_D2D,     SC_COPY_D2D, SC_COPY_D2D, SC_COPY_H2H, SC_COPY_P2P,
	};

	return cupti < sizeof(kinds) ? kinds[cupti] : SC_COPY_UNKNOWN;
}

static uint32_t copy_name(struct sc_decoder *d, uint8_t kind)
{
	static const char *const names[] = {"Memcpy",      "Memcpy HtoD", "Memcpy DtoH",
					    "Memcpy DtoD", "Memcpy PtoP", "Memcpy HtoH"};

	return d->sink.string(d->sink.ctx, names[kind], strlen(names[kind]));
}

void sc_decode_memcpy(struct sc_decoder *d, const struct sc_cupti_memcpy *record)
{
	uint8_t kind = copy_kind(record->copy_kind);
	struct sc_trace_event event = {
		.cls = SC_EV_COPY,
		.sub = kind,
		.correlation = record->correlation,
		.external_id = external_of(d, record->correlation),
		.name = copy_name(d, kind),
		.lane = stream_lane(d, record->device, record->context, record->stream),
		.bytes = (int64_t)record->bytes,
	};

	set_time(d, &event, record->start, record->end);
	add(d, &event);
}

void sc_decode_memcpy_p2p(struct sc_decoder *d, const struct sc_cupti_memcpy_p2p *record)
{
	struct sc_trace_event event = {
		.cls = SC_EV_COPY,
		.sub = SC_COPY_P2P,
		.correlation = record->correlation,
		.external_id = external_of(d, record->correlation),
		.name = copy_name(d, SC_COPY_P2P),
		.lane = stream_lane(d, record->device, record->context, record->stream),
		.bytes = (int64_t)record->bytes,
		.aux0 = record->src_device,
		.aux1 = record->dst_device,
	};

	set_time(d, &event, record->start, record->end);
	add(d, &event);
}

void sc_decode_memset(struct sc_decoder *d, const struct sc_cupti_memset *record)
{
	struct sc_trace_event event = {
		.cls = SC_EV_SET,
		.correlation = record->correlation,
		.external_id = external_of(d, record->correlation),
		.name = d->sink.string(d->sink.ctx, "Memset", 6),
		.lane = stream_lane(d, record->device, record->context, record->stream),
		.bytes = (int64_t)record->bytes,
	};

	set_time(d, &event, record->start, record->end);
	add(d, &event);
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

void sc_decode_sync(struct sc_decoder *d, const struct sc_cupti_sync *record, size_t stride)
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
	struct sc_trace_event event = {
		.cls = SC_EV_SYNC,
		.sub = (uint8_t)types[type].kind,
		.correlation = record->correlation,
		.external_id = external_of(d, record->correlation),
		.name = d->sink.string(d->sink.ctx, types[type].name, strlen(types[type].name)),
		.lane = stream_lane(d, device_of(d, record->context), record->context,
				    record->stream),
		.aux0 = of_event ? (int64_t)record->event : -1,
		.aux1 = of_event ? recorded_by(d, record, stride) : -1,
	};

	set_time(d, &event, record->start, record->end);
	add(d, &event);
}

void sc_decode_event_record(struct sc_decoder *d, const struct sc_cupti_event *record,
			    size_t stride)
{
	uint64_t key = event_key(record->context, record->event);
	bool has_device = SC_CUPTI_HAS(stride, struct sc_cupti_event, device);
	struct sc_trace_event event = {
		.cls = SC_EV_EVENT_RECORD,
		.flags = SC_EVF_NO_TIME, /* its API call has one */
		.start_ns = d->tables->last_ns,
		.correlation = record->correlation,
		.name = d->sink.string(d->sink.ctx, "Event Record", 12),
		.lane = stream_lane(d, has_device ? record->device : device_of(d, record->context),
				    record->context, record->stream),
		.aux0 = record->event,
	};

	*sc_event_entry(d->tables->events, key) =
		(struct sc_event_entry){.key = key, .correlation = record->correlation};
	add(d, &event);
}

void sc_decode_overhead(struct sc_decoder *d, const struct sc_cupti_overhead *record, size_t stride)
{
	struct sc_trace_event event = {
		.cls = SC_EV_OVERHEAD,
		.sub = (uint8_t)(record->overhead_kind >>
				 16), /* CUPTI's kinds are multiples of 2^16 */
		.name = d->sink.string(d->sink.ctx, "CUPTI overhead", 14),
		.lane = sc_decode_host_lane(d, (int32_t)record->object[0],
					    (int32_t)record->object[1]),
	};

	set_time(d, &event, record->start, record->end);
	add(d, &event);
	if (d->live && SC_CUPTI_HAS(stride, struct sc_cupti_overhead, data))
		free(record->data);
}
