/* Rows of Nsight Systems' tables as events. A row's columns are those of enum nsys_column, whatever
 * the version called them; kinds are numbers of CUPTI's or, in newer exports, labels. */
#include <string.h>

#include "trace/import/import_nsys_priv.h"

enum { NVTX_MARK = 34, NVTX_PUSH_POP = 59, NVTX_START_END = 60 }; /* eventType */
enum { CALL_WRAPPER = 67 };                                       /* eventClass */
enum { THREAD_MASK = 0xFFFFFF };

static int64_t row_number(sqlite3_stmt *row, int column, int64_t otherwise)
{
	return sqlite3_column_type(row, column) == SQLITE_INTEGER
		       ? sqlite3_column_int64(row, column)
		       : otherwise;
}

static int32_t number_32(sqlite3_stmt *row, int column, int32_t otherwise)
{
	int64_t value = row_number(row, column, otherwise);

	return value < INT32_MIN || value > INT32_MAX ? otherwise : (int32_t)value;
}

static uint32_t number_u32(sqlite3_stmt *row, int column)
{
	int64_t value = row_number(row, column, 0);

	return value < 0 || value > (int64_t)UINT32_MAX ? 0 : (uint32_t)value;
}

/* Never NULL. */
static const char *row_text(sqlite3_stmt *row, int column)
{
	const unsigned char *value = sqlite3_column_text(row, column);

	return value ? (const char *)value : "";
}

static uint32_t row_lane(struct nsys_import *im, sqlite3_stmt *row, bool is_stream)
{
	struct sc_trace_lane lane = {.device = -1, .stream = -1, .is_stream = is_stream};

	if (is_stream) {
		lane.device = number_32(row, NSYS_DEVICE, -1);
		lane.stream = number_32(row, NSYS_STREAM, -1);
		lane.context = number_32(row, NSYS_CONTEXT, 0);
	} else {
		lane.pid = (int32_t)im->process;
		lane.tid = (int32_t)(row_number(row, NSYS_WHOSE, 0) & THREAD_MASK);
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

/* The meaning of a number of CUPTI's or, in newer exports, of a label that begins so. */
struct kind {
	const char *label;
	int64_t number;
	uint8_t kind;
};
static const struct kind COPIES[] = {
	{"Host-to-Device", 1, SC_COPY_H2D},   {"Device-to-Host", 2, SC_COPY_D2H},
	{"Device-to-Device", 8, SC_COPY_D2D}, {"Host-to-Host", 9, SC_COPY_H2H},
	{"Peer-to-Peer", 10, SC_COPY_P2P},    {NULL, 0, SC_COPY_UNKNOWN},
};
static const struct kind SYNCS[] = {
	{"Stream wait", 2, SC_SYNC_STREAM_WAIT},
	{"Event", 1, SC_SYNC_EVENT},
	{"Stream", 3, SC_SYNC_STREAM},
	{"Context", 4, SC_SYNC_CONTEXT},
	{NULL, 0, SC_SYNC_OTHER},
};

static const struct kind *nsys_kind(sqlite3_stmt *row, const struct kind *kind)
{
	const char *label = row_text(row, NSYS_LABEL);

	while (kind->label && !(*label ? strncmp(label, kind->label, strlen(kind->label)) == 0
				       : row_number(row, NSYS_KIND, 0) == kind->number))
		kind++;
	return kind;
}

/* Kinds of memory count from 0 here, from 1 in CUPTI: pageable is the first. */
static void fill_copy(struct nsys_import *im, sqlite3_stmt *row, struct sc_trace_event *event)
{
	const struct kind *kind = nsys_kind(row, COPIES);
	const uint32_t from = (uint32_t)(number_32(row, NSYS_FROM, -1) + 1);
	const uint32_t to = (uint32_t)(number_32(row, NSYS_TO, -1) + 1);
	char buf[64];
	const char *name = sc_copy_name((enum sc_copy_kind)kind->kind, from, to, buf);

	event->sub = kind->kind;
	event->name = sc_trace_writer_string(im->out.writer, name, strlen(name));
}

static void fill_kernel(struct nsys_import *im, sqlite3_stmt *row, struct sc_trace_event *event)
{
	const uint64_t shared = (uint64_t)number_u32(row, NSYS_STATIC_SHARED) +
				number_u32(row, NSYS_DYNAMIC_SHARED);
	const struct sc_trace_config config = {
		.grid = {number_u32(row, NSYS_GRID_X), number_u32(row, NSYS_GRID_Y),
			 number_u32(row, NSYS_GRID_Z)},
		.block = {number_u32(row, NSYS_BLOCK_X), number_u32(row, NSYS_BLOCK_Y),
			  number_u32(row, NSYS_BLOCK_Z)},
		.registers = number_u32(row, NSYS_REGISTERS),
		.shared_bytes = shared < UINT32_MAX ? (uint32_t)shared : UINT32_MAX,
		.graph_id = number_32(row, NSYS_GRAPH, 0),
	};
	const char *name = row_text(row, NSYS_NAME);
	int collective;

	event->config = sc_trace_writer_config(im->out.writer, &config);
	im->stats->n_kernels++;
	im->stats->n_nccl += sc_is_nccl_kernel(name);
	im->stats->n_collectives += sc_is_comm_kernel(name, &collective);
}

static const char SECOND_RECORD[] = "second record of a call";

/* Fills in what the class needs besides; NULL, or why the row is no event. */
static const char *fill_event(struct nsys_import *im, sqlite3_stmt *row,
			      struct sc_trace_event *event)
{
	int64_t kind = row_number(row, NSYS_KIND, -1);

	switch (event->cls) {
	case SC_EV_KERNEL:
		fill_kernel(im, row, event);
		break;
	case SC_EV_COPY:
		fill_copy(im, row, event);
		break;
	case SC_EV_API:
		event->name = call_name(im, row_text(row, NSYS_NAME));
		event->flags =
			strncmp(row_text(row, NSYS_NAME), "cuda", 4) != 0 ? SC_EVF_DRIVER : 0;
		return kind == CALL_WRAPPER && im->has_calls ? SECOND_RECORD : NULL;
	case SC_EV_SYNC:
		event->sub = nsys_kind(row, SYNCS)->kind;
		event->aux0 = row_number(row, NSYS_EVENT, -1);
		event->aux1 = row_number(row, NSYS_RECORD, -1);
		break;
	case SC_EV_EVENT_RECORD:
		event->aux0 = row_number(row, NSYS_EVENT, -1);
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

static const char UNTIMED[] = "activity of the GPU without a time";

/* A record of an event whose call is not there has no time. An activity without one is worth
 * keeping: its neighbours say where it was. */
static const char *fill_times(struct nsys_import *im, sqlite3_stmt *row,
			      struct sc_trace_event *event)
{
	const bool is_act = sc_event_on_device(event);
	int64_t end;

	if (sqlite3_column_type(row, NSYS_START) != SQLITE_INTEGER) {
		if (event->cls != SC_EV_EVENT_RECORD)
			return "no time";
		event->flags |= SC_EVF_NO_TIME;
		return NULL;
	}
	event->start_ns = sqlite3_column_int64(row, NSYS_START);
	end = row_number(row, NSYS_END, event->start_ns);
	if (is_act && (event->start_ns == 0 || end < event->start_ns)) {
		event->flags |= SC_EVF_NO_TIME;
		event->start_ns = 0;
		sc_import_count_bad(im->stats, UNTIMED);
		return NULL;
	}
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
	const char *name = row_text(row, NSYS_NAME), *fault = NULL;
	int64_t kind = row_number(row, NSYS_KIND, -1);

	im->stats->n_records++;
	if (table->cls == SC_EV_RANGE && kind != NVTX_MARK && kind != NVTX_PUSH_POP &&
	    kind != NVTX_START_END) {
		im->stats->n_metadata++; /* names of domains, categories, threads */
		return;
	}
	if (!*name && FIXED_NAMES[table->cls])
		name = FIXED_NAMES[table->cls];
	event.name = sc_trace_writer_string(im->out.writer, name, strlen(name));
	event.lane =
		row_lane(im, row,
			 table->cls <= SC_EV_SET || table->cls == SC_EV_SYNC ||
				 table->cls == SC_EV_EVENT_RECORD || table->cls == SC_EV_GRAPH);
	event.correlation = number_u32(row, NSYS_CORRELATION);
	event.bytes = row_number(row, NSYS_BYTES, 0);
	fault = fill_times(im, row, &event);
	if (!fault)
		fault = fill_event(im, row, &event);
	if (fault == SECOND_RECORD)
		sc_import_count_unused(im->stats, fault);
	else if (fault)
		sc_import_count_bad(im->stats, fault);
	if (fault)
		return;
	im->stats->n_events++;
	sc_trace_writer_add(im->out.writer, &event);
}
