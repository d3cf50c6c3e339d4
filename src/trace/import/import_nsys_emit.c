/* Rows of Nsight Systems' tables as events. */
#include <stdlib.h>
#include <string.h>

#include "trace/import/import_nsys_priv.h"

enum { NVTX_MARK = 34, NVTX_PUSH_POP = 59, NVTX_START_END = 60 }; /* eventType */
enum { CALL_WRAPPER = 67 };                                       /* eventClass */
enum { THREAD_MASK = 0xFFFFFF };

static int64_t number(sqlite3_stmt *row, int column, int64_t otherwise)
{
	return sqlite3_column_type(row, column) == SQLITE_INTEGER
		       ? sqlite3_column_int64(row, column)
		       : otherwise;
}

static int32_t number_32(sqlite3_stmt *row, int column, int32_t otherwise)
{
	int64_t value = number(row, column, otherwise);

	return value < INT32_MIN || value > INT32_MAX ? otherwise : (int32_t)value;
}

static uint32_t number_u32(sqlite3_stmt *row, int column)
{
	int64_t value = number(row, column, 0);

	return value < 0 || value > (int64_t)UINT32_MAX ? 0 : (uint32_t)value;
}

/* Never NULL. */
static const char *text(sqlite3_stmt *row, int column)
{
	const unsigned char *value = sqlite3_column_text(row, column);

	return value ? (const char *)value : "";
}

static uint32_t lane(struct nsys_import *im, sqlite3_stmt *row, bool is_stream)
{
	struct sc_trace_lane lane = {.device = -1, .stream = -1, .is_stream = is_stream};

	if (is_stream) {
		lane.device = number_32(row, NSYS_DEVICE, -1);
		lane.stream = number_32(row, NSYS_STREAM, -1);
		lane.context = number_32(row, NSYS_CONTEXT, 0);
	} else {
		lane.pid = (int32_t)im->process;
		lane.tid = (int32_t)(number(row, NSYS_WHOSE, 0) & THREAD_MASK);
	}
	return sc_trace_writer_lane(im->out.writer, &lane);
}

/* "cudaMemcpy_v3020" is cudaMemcpy. */
static uint32_t call_name(struct nsys_import *im, const char *name)
{
	size_t n = strlen(name), at = n;

	while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9')
		at--;
	if (at < n && at > 2 && name[at - 1] == 'v' && name[at - 2] == '_')
		n = at - 2;
	return sc_trace_writer_string(im->out.writer, name, n);
}

static const struct {
	const char *label;
	int64_t number; /* CUPTI's, of exports without labels */
	uint8_t kind;
	const char *name; /* as PyTorch's profiler calls it */
} COPIES[] = {
	{"Host-to-Device", 1, SC_COPY_H2D, "Memcpy HtoD"},
	{"Device-to-Host", 2, SC_COPY_D2H, "Memcpy DtoH"},
	{"Device-to-Device", 8, SC_COPY_D2D, "Memcpy DtoD"},
	{"Host-to-Host", 9, SC_COPY_H2H, "Memcpy HtoH"},
	{"Peer-to-Peer", 10, SC_COPY_P2P, "Memcpy PtoP"},
};

static void fill_copy(struct nsys_import *im, sqlite3_stmt *row, struct sc_trace_event *event)
{
	const char *label = text(row, NSYS_LABEL);

	for (size_t i = 0; i < sizeof(COPIES) / sizeof(COPIES[0]); i++) {
		if (*label ? strcmp(label, COPIES[i].label) == 0
			   : number(row, NSYS_KIND, 0) == COPIES[i].number) {
			event->sub = COPIES[i].kind;
			event->name = sc_trace_writer_string(im->out.writer, COPIES[i].name,
							     strlen(COPIES[i].name));
		}
	}
}

static uint8_t sync_kind(sqlite3_stmt *row)
{
	static const struct {
		const char *word;
		int64_t number;
		uint8_t kind;
	} kinds[] = {
		{"Stream wait", 2, SC_SYNC_STREAM_WAIT},
		{"Event", 1, SC_SYNC_EVENT},
		{"Stream", 3, SC_SYNC_STREAM},
		{"Context", 4, SC_SYNC_CONTEXT},
	};
	const char *label = text(row, NSYS_LABEL);

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (*label ? strncmp(label, kinds[i].word, strlen(kinds[i].word)) == 0
			   : number(row, NSYS_KIND, 0) == kinds[i].number)
			return kinds[i].kind;
	}
	return SC_SYNC_OTHER;
}

static int compare_records(const void *left, const void *right)
{
	const struct nsys_event_record *a = left, *b = right;

	return a->sync_id < b->sync_id ? -1 : a->sync_id > b->sync_id;
}

void nsys_load_records(struct nsys_import *im)
{
	sqlite3_stmt *rows = nsys_select(im, &nsys_tables[0]);

	im->records.n = 0;
	while (rows && nsys_step(im, rows)) {
		const struct nsys_event_record record = {
			.sync_id = number(rows, NSYS_EVENT_SYNC, 0),
			.correlation = number(rows, NSYS_CORRELATION, -1),
		};

		if (record.sync_id)
			SC_VEC_PUSH(&im->records, record);
	}
	sqlite3_finalize(rows);
	if (im->records.n)
		qsort(im->records.at, im->records.n, sizeof(*im->records.at), compare_records);
}

static void fill_kernel(struct nsys_import *im, sqlite3_stmt *row, struct sc_trace_event *event)
{
	const struct sc_trace_config config = {
		.grid = {number_u32(row, NSYS_GRID_X), number_u32(row, NSYS_GRID_Y),
			 number_u32(row, NSYS_GRID_Z)},
		.block = {number_u32(row, NSYS_BLOCK_X), number_u32(row, NSYS_BLOCK_Y),
			  number_u32(row, NSYS_BLOCK_Z)},
		.registers = number_u32(row, NSYS_REGISTERS),
		.shared_bytes =
			number_u32(row, NSYS_STATIC_SHARED) + number_u32(row, NSYS_DYNAMIC_SHARED),
		.graph_id = number_32(row, NSYS_GRAPH, 0),
	};
	const char *name = text(row, NSYS_NAME);
	int collective;

	event->config = sc_trace_writer_config(im->out.writer, &config);
	im->stats->n_kernels++;
	im->stats->n_nccl += sc_is_nccl_kernel(name);
	im->stats->n_collectives += sc_is_comm_kernel(name, &collective);
}

static const char SECOND_RECORD[] = "second record of a call";

/* What the class needs besides; NULL, or why the row is no event. */
static const char *fill(struct nsys_import *im, sqlite3_stmt *row, struct sc_trace_event *event)
{
	const struct nsys_event_record key = {.sync_id = number(row, NSYS_EVENT_SYNC, 0)};
	const struct nsys_event_record *record = NULL;
	int64_t kind = number(row, NSYS_KIND, -1);

	switch (event->cls) {
	case SC_EV_KERNEL:
		fill_kernel(im, row, event);
		break;
	case SC_EV_COPY:
		fill_copy(im, row, event);
		break;
	case SC_EV_API:
		event->name = call_name(im, text(row, NSYS_NAME));
		event->flags = strncmp(text(row, NSYS_NAME), "cuda", 4) != 0 ? SC_EVF_DRIVER : 0;
		return kind == CALL_WRAPPER && im->has_calls ? SECOND_RECORD : NULL;
	case SC_EV_SYNC:
		event->sub = sync_kind(row);
		event->aux0 = number(row, NSYS_EVENT, -1);
		if (key.sync_id && im->records.n)
			record = bsearch(&key, im->records.at, im->records.n, sizeof(key),
					 compare_records);
		event->aux1 = record ? record->correlation : -1;
		break;
	case SC_EV_EVENT_RECORD:
		event->aux0 = number(row, NSYS_EVENT, -1);
		break;
	case SC_EV_RANGE:
		if (kind == NVTX_MARK)
			event->cls = SC_EV_MARK;
		else if (sqlite3_column_type(row, NSYS_END) != SQLITE_INTEGER)
			return "range without an end";
		break;
	default:
		break;
	}
	return NULL;
}

static const char *const FIXED_NAMES[SC_N_EVENT_CLASSES] = {
	[SC_EV_COPY] = "Memcpy",      [SC_EV_SET] = "Memset",
	[SC_EV_SYNC] = "Synchronize", [SC_EV_EVENT_RECORD] = "cudaEventRecord",
	[SC_EV_GRAPH] = "CUDA graph", [SC_EV_OVERHEAD] = "Overhead",
};

/* A record of an event whose call is not there has no time. */
static const char *fill_times(sqlite3_stmt *row, struct sc_trace_event *event)
{
	int64_t end;

	if (sqlite3_column_type(row, NSYS_START) != SQLITE_INTEGER) {
		if (event->cls != SC_EV_EVENT_RECORD)
			return "no time";
		event->flags |= SC_EVF_NO_TIME;
		return NULL;
	}
	event->start_ns = sqlite3_column_int64(row, NSYS_START);
	end = number(row, NSYS_END, event->start_ns);
	if (end < event->start_ns)
		return "negative duration";
	if (event->start_ns < INT64_MIN / 2 || end > INT64_MAX / 2)
		return "time out of range";
	event->dur_ns = end - event->start_ns;
	return NULL;
}

void nsys_emit(struct nsys_import *im, const struct nsys_table *table, sqlite3_stmt *row)
{
	struct sc_trace_event event = {.cls = table->cls};
	const char *name = text(row, NSYS_NAME), *fault = NULL;
	int64_t kind = number(row, NSYS_KIND, -1);

	im->stats->n_records++;
	if (table->cls == SC_EV_RANGE && kind != NVTX_MARK && kind != NVTX_PUSH_POP &&
	    kind != NVTX_START_END) {
		im->stats->n_metadata++; /* names of domains, categories, threads */
		return;
	}
	if (!*name && FIXED_NAMES[table->cls])
		name = FIXED_NAMES[table->cls];
	event.name = sc_trace_writer_string(im->out.writer, name, strlen(name));
	event.lane = lane(im, row,
			  table->cls <= SC_EV_SET || table->cls == SC_EV_SYNC ||
				  table->cls == SC_EV_EVENT_RECORD || table->cls == SC_EV_GRAPH);
	event.correlation = number_u32(row, NSYS_CORRELATION);
	event.bytes = number(row, NSYS_BYTES, 0);
	fault = fill_times(row, &event);
	if (!fault)
		fault = fill(im, row, &event);
	if (fault == SECOND_RECORD)
		sc_import_count_unused(im->stats, fault);
	else if (fault)
		sc_import_count_bad(im->stats, fault);
	if (fault)
		return;
	im->stats->n_events++;
	sc_trace_writer_add(im->out.writer, &event);
}
