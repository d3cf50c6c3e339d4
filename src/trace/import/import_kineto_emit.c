/* From an event as it stands in the file to one of ours. */
#include <ctype.h>
#include <string.h>

#include "trace/import/import_kineto_priv.h"

static int32_t to_32(int64_t value)
{
	return value < INT32_MIN || value > INT32_MAX ? -1 : (int32_t)value;
}

static uint32_t to_u32(int64_t value)
{
	return value < 0 || value > (int64_t)UINT32_MAX ? 0 : (uint32_t)value;
}

/* Ids that are texts ("Spans") become the lane's name. */
static uint32_t host_lane(struct kineto_import *im, const struct kineto_event *e)
{
	struct sc_trace_lane key = {.device = -1, .stream = -1};
	int64_t pid = 0, tid = 0;

	if (!sc_scan_any_integer(&e->pid, &pid) && e->pid.n)
		key.name = sc_import_text(&im->out.names, &e->pid);
	else
		sc_scan_any_integer(&e->tid, &tid);
	key.pid = to_32(pid);
	key.tid = to_32(tid);
	return sc_trace_writer_lane(im->out.writer, &key);
}

/* The arguments say it; else pid and tid are device and stream. */
static uint32_t stream_lane(struct kineto_import *im, const struct kineto_event *e)
{
	struct sc_trace_lane key = {.is_stream = 1};
	int64_t device = -1, stream = -1;

	if (e->has_num & 1u << NUM_DEVICE)
		device = e->num[NUM_DEVICE];
	else
		sc_scan_any_integer(&e->pid, &device);
	if (e->has_num & 1u << NUM_STREAM)
		stream = e->num[NUM_STREAM];
	else
		sc_scan_any_integer(&e->tid, &stream);
	key.device = to_32(device);
	key.stream = to_32(stream);
	return sc_trace_writer_lane(im->out.writer, &key);
}

static void take_triple(const struct sc_scan_value *list, uint32_t out[3])
{
	struct sc_scan scan = sc_scan_into(list);
	struct sc_scan_value item;
	int64_t value;

	if (list->kind != SC_SCAN_LIST || sc_scan_open(&scan, '['))
		return;
	for (int i = 0; i < 3 && sc_scan_item(&scan) == SC_SCAN_OK; i++) {
		if (sc_scan_value(&scan, &item))
			return;
		if (sc_scan_any_integer(&item, &value))
			out[i] = to_u32(value);
	}
}

static uint32_t launch_config(struct kineto_import *im, const struct kineto_event *e)
{
	struct sc_trace_config config;

	if (!(e->has_text & 1u << TEXT_GRID))
		return 0;
	memset(&config, 0, sizeof(config));
	take_triple(kineto_text(e, TEXT_GRID), config.grid);
	take_triple(kineto_text(e, TEXT_BLOCK), config.block);
	config.registers = to_u32(kineto_num(e, NUM_REGISTERS, 0));
	config.shared_bytes = to_u32(kineto_num(e, NUM_SHARED, 0));
	config.graph_id = to_32(kineto_num(e, NUM_GRAPH, 0));
	return sc_trace_writer_config(im->out.writer, &config);
}

static void comm_of_args(struct kineto_import *im, const struct kineto_event *e,
			 struct sc_trace_comm *comm)
{
	const struct sc_scan_value *dtype = kineto_text(e, TEXT_DTYPE);
	const struct sc_scan_value *name = kineto_text(e, TEXT_COLLECTIVE);
	const bool receives = name->n >= 4 && memcmp(name->at, "recv", 4) == 0;
	int64_t source = kineto_num(e, NUM_SOURCE_RANK, -1);
	int64_t target = kineto_num(e, NUM_TARGET_RANK, -1);

	sc_trace_comm_init(comm);
	comm->collective = sc_import_text(&im->out.names, name);
	comm->dtype = sc_import_text(&im->out.names, dtype);
	comm->group_name = sc_import_text(&im->out.names, kineto_text(e, TEXT_GROUP_NAME));
	comm->group_ranks = sc_import_text(&im->out.names, kineto_text(e, TEXT_GROUP_RANKS));
	comm->comm_hash = (uint64_t)kineto_num(e, NUM_COMMS_ID, 0);
	comm->in_elems = kineto_num(e, NUM_IN_ELEMS, -1);
	comm->out_elems = kineto_num(e, NUM_OUT_ELEMS, -1);
	comm->group_size = to_32(kineto_num(e, NUM_GROUP_SIZE, -1));
	/* The other side of sends is the target, that of receives the source. */
	comm->peer = to_32((receives || target < 0) && source >= 0 ? source : target);
	comm->root = to_32(kineto_num(e, NUM_ROOT, -1));
	comm->seq = kineto_num(e, NUM_SEQ, -1);
	sc_import_comm_bytes(comm, dtype->n ? sc_import_dtype_bytes(dtype->at, dtype->n) : 0);
}

/* The first type of ["float", ""]; of ["Tensor(float)"] its inside. */
static struct sc_scan_value first_text(const struct sc_scan_value *list)
{
	struct sc_scan scan = sc_scan_into(list);
	struct sc_scan_value item = {.kind = SC_SCAN_WORD};

	if (list->kind != SC_SCAN_LIST || sc_scan_open(&scan, '[') || sc_scan_item(&scan) ||
	    sc_scan_value(&scan, &item) || item.kind != SC_SCAN_TEXT)
		item.n = 0;
	if (item.n > 8 && memcmp(item.at, "Tensor(", 7) == 0 && item.at[item.n - 1] == ')') {
		item.at += 7;
		item.n -= 8;
	}
	return item;
}

/* Elements of a list of dims "[[8, 1024], [3]]": of its first tensor; -1 if there is none. */
static int64_t elems_of(const char *at, size_t n)
{
	const char *end = at + n;
	int64_t product = 1;
	bool any = false;

	/* The innermost list that has a number is the first tensor's. */
	while (at < end && !isdigit((unsigned char)*at))
		at++;
	for (; at < end && *at != ']'; at++) {
		int64_t dim = 0;

		if (!isdigit((unsigned char)*at))
			continue;
		for (; at < end && isdigit((unsigned char)*at); at++) {
			if (dim > INT32_MAX)
				return -1;
			dim = dim * 10 + (*at - '0');
		}
		if (dim && product > INT64_MAX / dim)
			return -1;
		product *= dim;
		any = true;
		at--;
	}
	return any ? product : -1;
}

/* "nccl:all_reduce" with "Input Dims": [[112]], "Input type": ["float"]. */
static void comm_of_range(struct kineto_import *im, const struct kineto_event *e,
			  struct sc_trace_comm *comm)
{
	const char *colon = memchr(e->name.at, ':', e->name.n);
	const struct sc_scan_value *dims = kineto_text(e, TEXT_DIMS);
	struct sc_scan_value dtype = first_text(kineto_text(e, TEXT_TYPES));
	size_t skip = colon ? (size_t)(colon - e->name.at) + 1 : 0;

	comm_of_args(im, e, comm);
	if (!comm->collective && skip < e->name.n)
		comm->collective =
			sc_import_name(&im->out.names, e->name.at + skip, e->name.n - skip)->id;
	if (comm->in_elems < 0 && dims->kind == SC_SCAN_LIST)
		comm->in_elems = elems_of(dims->at, dims->n);
	if (!comm->dtype && dtype.n)
		comm->dtype = sc_import_text(&im->out.names, &dtype);
	sc_import_comm_bytes(comm, dtype.n ? sc_import_dtype_bytes(dtype.at, dtype.n) : 0);
}

void kineto_comm(struct kineto_import *im, const struct kineto_event *e, uint32_t flags,
		 struct sc_trace_comm *comm)
{
	sc_trace_comm_init(comm);
	if (flags & SC_NAME_CALL)
		comm_of_range(im, e, comm);
	else if (flags & SC_NAME_PARAM_COMMS)
		comm_of_args(im, e, comm);
}

static bool write_kernel(struct kineto_import *im, const struct kineto_event *e, uint32_t flags,
			 struct sc_trace_event *event)
{
	struct sc_trace_comm comm;

	event->cls = SC_EV_KERNEL;
	event->lane = stream_lane(im, e);
	event->config = launch_config(im, e);
	if (!event->config) /* an earlier launch call may have brought it */
		event->config = kineto_join_config(im->join, event->correlation);
	im->stats->n_kernels++;
	im->stats->n_nccl += (flags & SC_NAME_NCCL) != 0;
	if (e->has_text & 1u << TEXT_COLLECTIVE ||
	    e->has_num & (1u << NUM_COMMS_ID | 1u << NUM_GROUP_SIZE)) {
		comm_of_args(im, e, &comm);
		event->comm = sc_trace_writer_comm(im->out.writer, &comm);
	}
	if (!(flags & SC_NAME_COMM))
		return true;
	im->stats->n_collectives++;
	im->stats->n_joined += event->comm != 0;
	return event->comm || !kineto_join_kernel(im->join, event);
}

static void fill_sync(struct kineto_import *im, const struct kineto_event *e,
		      struct sc_trace_event *event)
{
	static const struct {
		const char *text;
		uint8_t kind;
	} kinds[] = {
		{"Event Sync", SC_SYNC_EVENT},
		{"Stream Wait Event", SC_SYNC_STREAM_WAIT},
		{"Stream Sync", SC_SYNC_STREAM},
		{"Stream Synchronize", SC_SYNC_STREAM},
		{"Context Sync", SC_SYNC_CONTEXT},
		{"Event Synchronize", SC_SYNC_EVENT},
		{"Context Synchronize", SC_SYNC_CONTEXT},
	};
	const struct sc_scan_value *kind = kineto_text(e, TEXT_SYNC_KIND);
	int64_t stream = to_32(kineto_num(e, NUM_WAIT_STREAM, -1));

	event->cls = SC_EV_SYNC;
	event->sub = SC_SYNC_OTHER;
	event->lane = stream_lane(im, e);
	kind = kind->n ? kind : &e->name;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (sc_scan_is(kind, kinds[i].text, strlen(kinds[i].text)))
			event->sub = kinds[i].kind;
	event->aux0 = kineto_num(e, NUM_WAIT_EVENT, -1);
	event->aux1 = kineto_num(e, NUM_WAIT_RECORD, -1);
	if (event->aux1 < 0 && stream >= 0)
		event->aux1 = SC_SYNC_AUX_STREAM(stream);
	else if (event->aux1 > 0 && stream >= 0)
		SC_VEC_PUSH(&im->records,
			    ((struct kineto_record){.start_ns = event->start_ns,
						    .correlation = to_u32(event->aux1),
						    .device = to_32(kineto_num(e, NUM_DEVICE, -1)),
						    .stream = to_32(stream),
						    .event = to_32(event->aux0)}));
}

static void take_caller(struct kineto_import *im, const struct kineto_event *e)
{
	int64_t pid = -1;

	if (!sc_scan_any_integer(&e->pid, &pid))
		return;
	im->many_callers = im->many_callers || (im->caller && im->caller != to_32(pid));
	im->caller = to_32(pid);
}

/* Ops, annotations and c10d's calls; profiler steps and optimizers were ops until 2022. */
static void fill_host(struct kineto_import *im, const struct kineto_event *e,
		      const struct sc_import_name *name, struct sc_trace_event *event)
{
	struct sc_trace_comm comm;
	uint32_t flags = name->flags;

	event->cls = e->cat == CAT_OP && !(flags & SC_NAME_OPTIMIZER) ? SC_EV_OP : SC_EV_RANGE;
	event->lane = host_lane(im, e);
	event->aux0 = kineto_num(e, NUM_SEQUENCE, -1);
	event->aux1 = kineto_num(e, NUM_FORWARD_THREAD, 0);
	if (flags & SC_NAME_STEP) {
		event->cls = SC_EV_RANGE;
		im->stats->n_steps++;
	}
	im->stats->n_calls += (flags & SC_NAME_CALL) != 0;
	if (flags & SC_NAME_CALL)
		event->cls = SC_EV_RANGE;
	else if (flags & SC_NAME_PARAM_COMMS)
		event->cls = SC_EV_COMM;
	kineto_comm(im, e, flags, &comm);
	if (e->has_text & (1u << TEXT_DIMS | 1u << TEXT_TYPES))
		event->shapes = sc_import_shapes(&im->out.names, kineto_text(e, TEXT_DIMS),
						 kineto_text(e, TEXT_TYPES));
	if (im->ops.each)
		im->ops.each(im->ops.ctx, im, event, &comm);
	if (comm.collective || comm.comm_hash || comm.group_size > 0) {
		event->comm = sc_trace_writer_comm(im->out.writer, &comm);
		kineto_join_call(im->join, event, &comm);
	}
}

/* False: not written now. */
static bool fill_event(struct kineto_import *im, const struct kineto_event *e,
		       const struct sc_import_name *found, struct sc_trace_event *event)
{
	const struct sc_import_name name = *found; /* the slot may change below */

	switch (e->cat) {
	case CAT_OP:
	case CAT_ANNOTATION:
		fill_host(im, e, &name, event);
		return true;
	case CAT_RUNTIME:
	case CAT_DRIVER:
		event->cls = SC_EV_API;
		event->flags = e->cat == CAT_DRIVER ? SC_EVF_DRIVER : 0;
		event->lane = host_lane(im, e);
		take_caller(im, e);
		if (event->correlation) {
			event->config = launch_config(im, e);
			kineto_join_launch(im->join, event);
			event->config = 0;
		}
		return true;
	case CAT_KERNEL:
		return write_kernel(im, e, name.flags, event);
	case CAT_COPY:
	case CAT_SET:
		event->cls = e->cat == CAT_COPY ? SC_EV_COPY : SC_EV_SET;
		event->sub = name.copy_kind;
		event->lane = stream_lane(im, e);
		event->bytes = kineto_num(e, NUM_BYTES, 0);
		return true;
	case CAT_SYNC:
		fill_sync(im, e, event);
		return true;
	case CAT_EVENT:
		event->cls = SC_EV_EVENT_RECORD;
		event->lane = stream_lane(im, e);
		event->aux0 = kineto_num(e, NUM_EVENT, -1);
		SC_VEC_PUSH(&im->records, ((struct kineto_record){.correlation = event->correlation,
								  .is_in_file = true}));
		return true;
	case CAT_GPU_ANNOTATION:
		event->cls = SC_EV_GPU_RANGE;
		event->lane = stream_lane(im, e);
		return true;
	default:
		event->cls = e->cat == CAT_PYTHON     ? SC_EV_PYTHON
			     : e->cat == CAT_OVERHEAD ? SC_EV_OVERHEAD
						      : SC_EV_OTHER;
		event->lane = host_lane(im, e);
		return true;
	}
}

static bool is_activity(const struct kineto_event *e)
{
	return e->cat == CAT_KERNEL || e->cat == CAT_COPY || e->cat == CAT_SET;
}

/* NULL, or why the event cannot be used. */
static const char *fault_of(const struct kineto_event *e)
{
	if (e->bad_ts)
		return "time is not a number";
	if (!e->has_ts)
		return "no time";
	if (e->bad_dur)
		return "duration is not a number";
	if (e->has_dur && e->dur_ns < 0 && !is_activity(e))
		return "negative duration";
	if (e->cat == CAT_UNKNOWN)
		return "unknown category";
	if (e->cat == CAT_NONE)
		return "no category";
	if (e->cat == CAT_UNUSED)
		return "category of no use here";
	if (e->has_dur && e->dur_ns > 0 && e->ts_ns > INT64_MAX - e->dur_ns)
		return "time out of range";
	return NULL;
}

/* Starts are kept relative to the first event's; false if one is too far from it to be a time. */
static bool take_start(struct kineto_import *im, const struct kineto_event *e,
		       struct sc_trace_event *event)
{
	event->dur_ns = e->has_dur ? e->dur_ns : 0;
	if (is_activity(e) && (e->ts_ns == 0 || event->dur_ns < 0)) {
		/* CUPTI gave no time: its neighbours say where the record was. */
		event->flags |= SC_EVF_NO_TIME;
		event->dur_ns = 0;
		sc_import_count_bad(im->stats, "activity of the GPU without a time");
		return true;
	}
	if (!im->has_origin) {
		im->has_origin = true;
		im->origin_ns = e->ts_ns;
	}
	if (__builtin_sub_overflow(e->ts_ns, im->origin_ns, &event->start_ns))
		return false;
	return sc_event_in_range(event);
}

static void write_span(struct kineto_import *im, const struct kineto_event *e)
{
	const struct sc_import_name *name;
	struct sc_trace_event event;
	const char *fault = fault_of(e);

	memset(&event, 0, sizeof(event));
	if (!fault && !take_start(im, e, &event))
		fault = "time out of range";
	if (fault) {
		sc_import_count_bad(im->stats, fault);
		return;
	}
	name = sc_import_name(&im->out.names, e->name.at, e->name.n);
	im->stats->n_repaired += name->n_repaired;
	event.name = name->id;
	event.correlation = to_u32(kineto_num(e, NUM_CORRELATION, 0));
	event.external_id = kineto_num(e, NUM_EXTERNAL_ID, 0);
	im->stats->n_events++;
	if (fill_event(im, e, name, &event))
		sc_trace_writer_add(im->out.writer, &event);
}

static void write_instant(struct kineto_import *im, const struct kineto_event *e)
{
	const struct sc_import_name *name = sc_import_name(&im->out.names, e->name.at, e->name.n);
	struct sc_trace_event event;

	memset(&event, 0, sizeof(event));
	if (name->flags & SC_NAME_MEMORY) {
		sc_import_count_unused(im->stats, "memory event, not used");
		return;
	}
	if (!e->has_ts || e->bad_ts || !take_start(im, e, &event)) {
		sc_import_count_bad(im->stats, "no time");
		return;
	}
	event.cls = SC_EV_MARK;
	event.dur_ns = 0;
	event.name = name->id;
	event.lane = host_lane(im, e);
	im->stats->n_events++;
	sc_trace_writer_add(im->out.writer, &event);
}

/* Nodes of an execution trace are ops, which have a time where a profiler's were joined to them. */
static void write_node(struct kineto_import *im, const struct kineto_event *node)
{
	struct kineto_event op = *node;

	if (strcmp(im->list, KINETO_NODES) != 0) {
		sc_import_count_bad(im->stats, "no phase");
	} else if (!node->has_ts) {
		sc_import_count_unused(im->stats, "node without a time");
	} else {
		op.cat = CAT_OP;
		op.num[NUM_EXTERNAL_ID] = kineto_num(node, NUM_RECORD_FUNCTION, 0);
		op.has_num |= 1u << NUM_EXTERNAL_ID;
		write_span(im, &op);
	}
}

/* Names of threads and processes, as "thread.<pid>.<tid>". */
static void take_metadata(struct kineto_import *im, const struct kineto_event *e)
{
	const struct sc_scan_value *label = kineto_text(e, TEXT_NAME);
	bool thread = sc_scan_is(&e->name, "thread_name", 11);
	char key[96];
	int64_t pid, tid = 0;

	im->stats->n_metadata++;
	if (!label->n || label->n > 256 || (!thread && !sc_scan_is(&e->name, "process_name", 12)) ||
	    im->n_named >= KINETO_MAX_NAMED_LANES || !sc_scan_any_integer(&e->pid, &pid))
		return;
	sc_scan_any_integer(&e->tid, &tid);
	if (thread)
		snprintf(key, sizeof(key), "thread.%lld.%lld", (long long)pid, (long long)tid);
	else
		snprintf(key, sizeof(key), "process.%lld", (long long)pid);
	im->n_named++;
	sc_strbuf_clear(&im->out.names.text);
	sc_json_decode(label->at, label->n, &im->out.names.text);
	sc_trace_writer_meta(im->out.writer, key, sc_strbuf_get(&im->out.names.text));
}

void kineto_emit(struct kineto_import *im, const struct kineto_event *e)
{
	im->stats->n_records++;
	switch (e->phase) {
	case 'X':
		write_span(im, e);
		break;
	case 'i':
	case 'I':
	case 'R':
		write_instant(im, e);
		break;
	case 's':
	case 't':
	case 'f':
		im->stats->n_flows++;
		break;
	case 'M':
		take_metadata(im, e);
		break;
	case 'C':
		sc_import_count_unused(im->stats, "counter, not used");
		break;
	case 0:
		write_node(im, e);
		break;
	default:
		sc_import_count_unused(im->stats, "phase not used");
		break;
	}
}
