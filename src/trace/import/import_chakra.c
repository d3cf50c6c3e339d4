/* Chakra execution traces (MLCommons): graphs of compute and communication nodes, of which those
 * with start times are of use here. The protobuf form, read by hand: a file is a sequence of
 * (length, message); the first message is the GlobalMetadata, the others are Nodes. Wire types: 0
 * varint, 1 eight bytes, 2 length and bytes, 5 four bytes (protobuf encoding guide). */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "trace/format/trace_columns.h"
#include "trace/import/import_priv.h"
#include "trace/import/inflate_stream.h"

enum { MAX_MESSAGE = 16 << 20, FIRST_CAP = 1 << 16, MAX_META = 32 };
#define MAX_TIME_US (INT64_MAX / 2 / SC_NS_PER_US) /* see sc_event_in_range */

/* MLCommons Chakra, schema/protobuf/et_def.proto */
enum node_type {
	CHAKRA_METADATA = 1,
	CHAKRA_MEM_LOAD = 2,
	CHAKRA_MEM_STORE = 3,
	CHAKRA_COMP = 4,
	CHAKRA_SEND = 5,
	CHAKRA_RECV = 6,
	CHAKRA_COLL = 7
};
struct node {
	struct sc_scan_value name, dims, types, group_name; /* n = 0: not said */
	int64_t type, start_us, dur_us;                     /* start 0: not said */
	int64_t on_host;                                    /* -1: not said */
	int64_t tid, stream, rf_id, seq_id, comm_type, comm_bytes, n_ranks, source,
		target; /* -1: not said */
};
struct chakra {
	struct sc_import_output out;
	struct sc_import_stats *stats;
	int64_t origin_us; /* start of the first node with one; 0 = none yet */
};

/* --- protobuf --- */

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct field {
	uint32_t number;
	enum wire wire;
	uint64_t value;        /* of the numbers */
	struct sc_slice bytes; /* WIRE_BYTES */
};

static bool take_varint(struct sc_slice *in, uint64_t *out)
{
	const unsigned char *next = sc_get_varint(in->at, in->end, out);

	in->at = next ? next : in->at;
	return next != NULL;
}

static bool take_fixed(struct sc_slice *in, size_t n, uint64_t *out)
{
	if ((size_t)(in->end - in->at) < n)
		return false;
	*out = 0;
	for (size_t i = 0; i < n; i++)
		*out |= (uint64_t)in->at[i] << 8 * i;
	in->at += n;
	return true;
}

/* False at the end, or where the message makes no sense: then in->at < in->end stays. */
static bool take_field(struct sc_slice *in, struct field *out)
{
	const unsigned char *start = in->at;
	uint64_t tag, n;
	bool ok = in->at < in->end && take_varint(in, &tag) && tag >> 3 > 0 && tag >> 3 < 1 << 29;

	if (ok) {
		out->number = (uint32_t)(tag >> 3);
		out->wire = (enum wire)(tag & 7);
		switch (tag & 7) {
		case WIRE_VARINT:
			ok = take_varint(in, &out->value);
			break;
		case WIRE_64:
			ok = take_fixed(in, 8, &out->value);
			break;
		case WIRE_32:
			ok = take_fixed(in, 4, &out->value);
			break;
		case WIRE_BYTES:
			ok = take_varint(in, &n) && n <= (uint64_t)(in->end - in->at);
			if (ok) {
				out->bytes = (struct sc_slice){.at = in->at, .end = in->at + n};
				in->at += n;
			}
			break;
		default:
			ok = false;
		}
	}
	if (!ok)
		in->at = start;
	return ok;
}

static struct sc_scan_value text_of(const struct sc_slice *bytes)
{
	return (struct sc_scan_value){.kind = SC_SCAN_LIST,
				      .at = (const char *)bytes->at,
				      .n = (size_t)(bytes->end - bytes->at)};
}

/* et_def.proto, AttributeProto: 1 name, 2 doc_string; values 3 double .. 31 bytes, each followed by
 * its list. sint32 (15) and sint64 (17) are zigzag. */
struct attr {
	struct sc_scan_value name, text;
	int64_t number;
	bool has_number;
};
enum {
	ATTR_NAME = 1,
	ATTR_DOUBLE = 3,
	ATTR_FLOAT = 5,
	ATTR_SINT32 = 15,
	ATTR_SINT64 = 17,
	ATTR_STRING = 29
};

static bool take_attr(struct sc_slice in, struct attr *out)
{
	struct field field;

	memset(out, 0, sizeof(*out));
	while (take_field(&in, &field)) {
		if (field.wire == WIRE_BYTES && field.number == ATTR_NAME) {
			out->name = text_of(&field.bytes);
		} else if (field.wire == WIRE_BYTES && field.number == ATTR_STRING) {
			out->text = text_of(&field.bytes);
		} else if (field.wire != WIRE_BYTES && field.number != ATTR_DOUBLE &&
			   field.number != ATTR_FLOAT) {
			bool zigzag = field.number == ATTR_SINT32 || field.number == ATTR_SINT64;
			uint64_t value = field.value;

			out->number = (int64_t)(zigzag ? sc_unzigzag(value) : value);
			out->has_number = true;
		}
	}
	return in.at == in.end;
}

static const struct {
	const char *name;
	size_t offset;
} NUMBERS[] = {
	{"is_cpu_op", offsetof(struct node, on_host)},
	{"tid", offsetof(struct node, tid)},
	{"stream", offsetof(struct node, stream)},
	{"rf_id", offsetof(struct node, rf_id)},
	{"seq_id", offsetof(struct node, seq_id)},
	{"comm_type", offsetof(struct node, comm_type)},
	{"comm_size", offsetof(struct node, comm_bytes)},
	{"pg_size", offsetof(struct node, n_ranks)},
	{"comm_src", offsetof(struct node, source)},
	{"comm_dst", offsetof(struct node, target)},
};
enum { N_NUMBERS = sizeof(NUMBERS) / sizeof(NUMBERS[0]) };

static void put_number(struct node *node, size_t i, int64_t value)
{
	memcpy((char *)node + NUMBERS[i].offset, &value, sizeof(value));
}

static void use_attr(const struct attr *attr, struct node *out)
{
	if (sc_scan_is(&attr->name, "pg_name", 7) && attr->text.n)
		out->group_name = attr->text;
	for (size_t i = 0; attr->has_number && i < N_NUMBERS; i++)
		if (sc_scan_is(&attr->name, NUMBERS[i].name, strlen(NUMBERS[i].name)))
			put_number(out, i, attr->number);
}

/* Node: 1 id, 2 name, 3 type, 4 ctrl_deps, 5 data_deps, 6 start, 7 duration (us), 8 inputs, 9
 * outputs, 10 attr. False if it makes no sense. */
static bool take_node(struct sc_slice in, struct node *out)
{
	struct field field, input;
	struct attr attr;

	*out = (struct node){.name.at = ""};
	for (size_t i = 0; i < N_NUMBERS; i++)
		put_number(out, i, -1);
	while (take_field(&in, &field)) {
		bool bytes = field.wire == WIRE_BYTES;

		if (field.number == 2 && bytes) {
			out->name = text_of(&field.bytes);
		} else if (field.number == 3 && !bytes) {
			out->type = (int64_t)field.value;
		} else if (field.number == 6 && !bytes) {
			out->start_us = (int64_t)field.value;
		} else if (field.number == 7 && !bytes) {
			out->dur_us = (int64_t)field.value;
		} else if (field.number == 8 && bytes) {
			/* IOInfo: 1 values, 2 shapes, 3 types, as texts in Python's form. */
			while (take_field(&field.bytes, &input))
				if (input.wire == WIRE_BYTES && input.number == 2)
					out->dims = text_of(&input.bytes);
				else if (input.wire == WIRE_BYTES && input.number == 3)
					out->types = text_of(&input.bytes);
		} else if (field.number == 10 && bytes) {
			if (!take_attr(field.bytes, &attr))
				return false;
			use_attr(&attr, out);
		}
	}
	return in.at == in.end;
}

/* --- from a node to an event --- */

static int32_t int32_or_unknown(int64_t value)
{
	return value < 0 || value > INT32_MAX ? -1 : (int32_t)value;
}

/* et_def.proto: CollectiveCommType */
static const char *collective_name(const struct node *node)
{
	static const char *const names[] = {
		"all_reduce", "reduce",         "all_gather",
		"gather",     "scatter",        "broadcast",
		"all_to_all", "reduce_scatter", "reduce_scatter_block",
		"barrier",
	};

	if (node->type == CHAKRA_SEND)
		return "send";
	if (node->type == CHAKRA_RECV)
		return "recv";
	if (node->comm_type >= 0 && node->comm_type < (int64_t)(sizeof(names) / sizeof(names[0])))
		return names[node->comm_type];
	return NULL;
}

static uint32_t write_comm(struct chakra *im, const struct node *node)
{
	const char *name = collective_name(node);
	struct sc_trace_comm comm;

	sc_trace_comm_init(&comm);
	if (name)
		comm.collective = sc_trace_writer_string(im->out.writer, name, strlen(name));
	comm.group_name = sc_import_text(&im->out.names, &node->group_name);
	comm.bytes = node->comm_bytes;
	comm.group_size = int32_or_unknown(node->n_ranks);
	comm.peer = int32_or_unknown(node->type == CHAKRA_RECV ? node->source : node->target);
	return sc_trace_writer_comm(im->out.writer, &comm);
}

static bool is_comm(const struct node *node)
{
	return node->type >= CHAKRA_SEND && node->type <= CHAKRA_COLL;
}

static const char *take_times(struct chakra *im, const struct node *node,
			      struct sc_trace_event *event)
{
	if (node->dur_us < 0 || node->dur_us > MAX_TIME_US)
		return "duration out of range";
	event->dur_ns = node->dur_us * SC_NS_PER_US;
	if (!im->origin_us)
		im->origin_us = node->start_us;
	if (__builtin_sub_overflow(node->start_us, im->origin_us, &event->start_ns) ||
	    event->start_ns > MAX_TIME_US || event->start_ns < -MAX_TIME_US)
		return "time out of range";
	event->start_ns *= SC_NS_PER_US;
	return sc_event_in_range(event) ? NULL : "time out of range";
}

static void write_node(struct chakra *im, const struct node *node)
{
	/* If it is not said, communication is the device's and everything else the host's. */
	const bool host = node->on_host < 0 ? !is_comm(node) : node->on_host > 0;
	const bool is_copy = node->type == CHAKRA_MEM_LOAD || node->type == CHAKRA_MEM_STORE;
	struct sc_trace_event event = {.start_ns = 0};
	struct sc_import_name name;
	const char *fault;

	im->stats->n_records++;
	if (node->type == CHAKRA_METADATA) {
		im->stats->n_metadata++;
		return;
	}
	if (!node->start_us) {
		sc_import_count_unused(im->stats, "node without a time");
		return;
	}
	fault = node->type < CHAKRA_METADATA || node->type > CHAKRA_COLL
			? "unknown type of node"
			: take_times(im, node, &event);
	if (fault) {
		sc_import_count_bad(im->stats, fault);
		return;
	}
	name = *sc_import_name(&im->out.names, node->name.at, node->name.n);
	im->stats->n_repaired += name.n_repaired;
	im->stats->n_events++;
	im->stats->n_steps += (name.flags & SC_NAME_STEP) != 0;
	event.name = name.id;
	event.cls = host      ? (is_comm(node) ? SC_EV_COMM : SC_EV_OP)
		    : is_copy ? SC_EV_COPY
			      : SC_EV_KERNEL;
	event.lane = sc_trace_writer_lane(
		im->out.writer, &(struct sc_trace_lane){
					.is_stream = !host,
					.device = host ? -1 : 0,
					.stream = host ? -1 : int32_or_unknown(node->stream),
					.tid = host ? int32_or_unknown(node->tid) : 0,
				});
	event.external_id = node->rf_id < 0 ? 0 : node->rf_id;
	event.shapes = sc_import_shapes(&im->out.names, &node->dims, &node->types);
	if (event.cls == SC_EV_OP)
		event.aux0 = node->seq_id;
	if (is_comm(node))
		event.comm = write_comm(im, node);
	if (event.cls == SC_EV_KERNEL) {
		im->stats->n_kernels++;
		im->stats->n_nccl += (name.flags & SC_NAME_NCCL) != 0;
		im->stats->n_collectives += is_comm(node) || (name.flags & SC_NAME_COMM);
		im->stats->n_joined += is_comm(node);
	}
	if (event.cls == SC_EV_COMM)
		im->stats->n_calls++;
	sc_trace_writer_add(im->out.writer, &event);
}

/* --- the sequence of messages --- */
enum next { NEXT_MESSAGE, NEXT_END, NEXT_CUT, NEXT_DAMAGED };

static enum next next_message(struct sc_inflate_window *w, struct sc_slice *out)
{
	for (;;) {
		struct sc_slice in = {(const unsigned char *)w->at, (const unsigned char *)w->end};
		uint64_t n = 0;
		bool known = take_varint(&in, &n);

		if (n > MAX_MESSAGE || (!known && w->end - w->at >= 10))
			return NEXT_DAMAGED;
		if (known && n <= (uint64_t)(in.end - in.at)) {
			*out = (struct sc_slice){.at = in.at, .end = in.at + n};
			w->at = (const char *)out->end;
			return NEXT_MESSAGE;
		}
		if (!sc_inflate_more(w, 2 * MAX_MESSAGE))
			return w->at == w->end ? NEXT_END : NEXT_CUT;
	}
}

/* GlobalMetadata: 1 version, 2 attr. */
static void take_metadata(struct chakra *im, struct sc_slice in)
{
	struct field field;
	struct attr attr;

	for (int i = 0; i < MAX_META && take_field(&in, &field); i++) {
		struct sc_strbuf text = {0};

		if (field.wire != WIRE_BYTES || field.number != 2 || !take_attr(field.bytes, &attr))
			continue;
		if (sc_scan_is(&attr.name, "schema", 6) && attr.text.n < 256) {
			sc_json_decode(attr.text.at, attr.text.n, &text);
			sc_trace_writer_meta(im->out.writer, "file.schema", sc_strbuf_get(&text));
		} else if (sc_scan_is(&attr.name, "pid", 3) && attr.number > 0 &&
			   attr.number <= INT32_MAX) {
			im->out.identity.pid = (int32_t)attr.number;
		}
		sc_strbuf_release(&text);
	}
}

static int chakra_read_file(struct chakra *im, struct sc_inflate *in, struct sc_err *err)
{
	struct sc_inflate_window window = {.in = in, .cap = FIRST_CAP, .err = err};
	struct node node;
	struct sc_slice message;
	enum next next;

	next = next_message(&window, &message);
	if (next == NEXT_MESSAGE)
		take_metadata(im, message);
	while (next == NEXT_MESSAGE && (next = next_message(&window, &message)) == NEXT_MESSAGE) {
		if (take_node(message, &node)) {
			write_node(im, &node);
		} else {
			im->stats->n_records++;
			sc_import_count_bad(im->stats, "damaged message");
		}
	}
	if (next == NEXT_CUT)
		im->stats->truncated = "it ends inside a message";
	else if (next == NEXT_DAMAGED)
		im->stats->truncated = "nothing makes sense after a damaged message";
	if (sc_inflate_damage(in))
		im->stats->truncated = sc_inflate_damage(in);
	free(window.buf);
	return window.rc;
}

/* Its first message must be metadata and nothing else, and the second one begin with an id. */
static bool is_chakra(const char *head, size_t n)
{
	struct sc_slice in = {.at = (const unsigned char *)head};
	struct sc_slice message;
	struct field field;
	uint64_t n_message;

	in.end = in.at + n;
	if (!take_varint(&in, &n_message) || n_message == 0 ||
	    n_message > (uint64_t)(in.end - in.at))
		return false;
	message = (struct sc_slice){.at = in.at, .end = in.at + n_message};
	in.at = message.end;
	while (take_field(&message, &field))
		if (field.wire != WIRE_BYTES || field.number < 1 || field.number > 2)
			return false;
	if (message.at != message.end)
		return false;
	return in.at == in.end ||
	       (take_varint(&in, &n_message) && in.at < in.end && *in.at == 0x08);
}

static int chakra_run(const char *path, const struct sc_import_opts *opts,
		      struct sc_import_stats *stats, struct sc_err *err)
{
	struct chakra im = {.stats = stats, .out = {.in_path = path, .opts = opts}};
	struct sc_inflate *in;
	int rc = sc_inflate_open(path, opts->progress, &in, err);

	if (rc)
		return rc;
	rc = sc_import_output_create(&im.out, "chakra", err);
	if (rc == 0)
		rc = chakra_read_file(&im, in, err);
	stats->in_bytes = sc_inflate_bytes(in);
	if (rc == 0 && stats->n_events == 0)
		rc = sc_err_at(
			err, SC_EUNSUPPORTED, path, 0, 0,
			"a Chakra file without times%s%s; import the profiler's own trace of "
			"the run, as Kineto's",
			stats->truncated ? ": " : "", stats->truncated ? stats->truncated : "");
	if (rc == 0) {
		if (im.origin_us >= 0 && im.origin_us <= INT64_MAX / SC_NS_PER_US)
			im.out.identity.base_utc_ns = im.origin_us * SC_NS_PER_US;
		rc = sc_import_output_finish(&im.out, stats, err);
	}
	sc_import_output_discard(&im.out);
	sc_inflate_close(in);
	return rc;
}

const struct sc_importer sc_import_chakra = {
	.name = "chakra", .probe = is_chakra, .run = chakra_run};
