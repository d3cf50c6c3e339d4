/* The protobuf form, read by hand: a file is a sequence of (length, message); the first message is the
 * GlobalMetadata, the others are Nodes. Wire types: 0 varint, 1 eight bytes, 2 length and bytes, 5 four
 * bytes (protobuf encoding guide). */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "trace/import/import_chakra_priv.h"

enum { MAX_MESSAGE = 16 << 20, FIRST_CAP = 1 << 16, MAX_META = 32 };
enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct slice {
	const unsigned char *at, *end;
};
struct field {
	uint32_t number;
	enum wire wire;
	uint64_t value;     /* of the numbers */
	struct slice bytes; /* WIRE_BYTES */
};

static bool take_varint(struct slice *in, uint64_t *out)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
		unsigned char byte = *in->at++;

		value |= (uint64_t)(byte & 0x7F) << shift;
		if (!(byte & 0x80)) {
			*out = value;
			return true;
		}
	}
	return false;
}

static bool take_fixed(struct slice *in, size_t n, uint64_t *out)
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
static bool take_field(struct slice *in, struct field *out)
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
				out->bytes = (struct slice){.at = in->at, .end = in->at + n};
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

static struct sc_scan_value text_of(const struct slice *bytes)
{
	return (struct sc_scan_value){.kind = SC_SCAN_LIST,
				      .at = (const char *)bytes->at,
				      .n = (size_t)(bytes->end - bytes->at)};
}

/* et_def.proto, AttributeProto: 1 name, 2 doc_string; values 3 double .. 31 bytes, each followed by its
 * list. sint32 (15) and sint64 (17) are zigzag. */
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

static bool take_attr(struct slice in, struct attr *out)
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

			out->number = zigzag ? (int64_t)(value >> 1) ^ -(int64_t)(value & 1)
					     : (int64_t)value;
			out->has_number = true;
		}
	}
	return in.at == in.end;
}

static void use_attr(const struct attr *attr, struct chakra_node *out)
{
	static const struct {
		const char *name;
		size_t offset;
	} numbers[] = {
		{"is_cpu_op", offsetof(struct chakra_node, on_host)},
		{"tid", offsetof(struct chakra_node, tid)},
		{"stream", offsetof(struct chakra_node, stream)},
		{"rf_id", offsetof(struct chakra_node, rf_id)},
		{"seq_id", offsetof(struct chakra_node, seq_id)},
		{"comm_type", offsetof(struct chakra_node, comm_type)},
		{"comm_size", offsetof(struct chakra_node, comm_bytes)},
		{"comm_src", offsetof(struct chakra_node, source)},
		{"comm_dst", offsetof(struct chakra_node, target)},
	};

	if (sc_scan_is(&attr->name, "pg_name", 7) && attr->text.n)
		out->group_name = attr->text;
	for (size_t i = 0; attr->has_number && i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (sc_scan_is(&attr->name, numbers[i].name, strlen(numbers[i].name)))
			memcpy((char *)out + numbers[i].offset, &attr->number,
			       sizeof(attr->number));
	}
}

/* IOInfo: 1 values, 2 shapes, 3 types, as texts in Python's form. */
static void take_inputs(struct slice in, struct chakra_node *out)
{
	struct field field;

	while (take_field(&in, &field)) {
		if (field.wire == WIRE_BYTES && field.number == 2)
			out->dims = text_of(&field.bytes);
		else if (field.wire == WIRE_BYTES && field.number == 3)
			out->types = text_of(&field.bytes);
	}
}

/* Node: 1 id, 2 name, 3 type, 4 ctrl_deps, 5 data_deps, 6 start, 7 duration (us), 8 inputs, 9 outputs,
 * 10 attr. False if it makes no sense. */
static bool take_node(struct slice in, struct chakra_node *out)
{
	struct field field;
	struct attr attr;

	chakra_node_init(out);
	while (take_field(&in, &field)) {
		bool bytes = field.wire == WIRE_BYTES;

		if (field.number == 2 && bytes) {
			out->name = text_of(&field.bytes);
		} else if (field.number == 3 && !bytes) {
			out->type = (int64_t)field.value;
		} else if (field.number == 6 && !bytes) {
			out->start_us = (int64_t)field.value;
			out->has_start = field.value > 0;
		} else if (field.number == 7 && !bytes) {
			out->dur_us = (int64_t)field.value;
		} else if (field.number == 8 && bytes) {
			take_inputs(field.bytes, out);
		} else if (field.number == 10 && bytes) {
			if (!take_attr(field.bytes, &attr))
				return false;
			use_attr(&attr, out);
		}
	}
	return in.at == in.end;
}

/* --- the sequence of messages --- */
struct reader {
	struct sc_inflate *in;
	unsigned char *buf;
	size_t cap, at, n;
	bool eof;
	int rc;
	struct sc_err *err;
};

/* At least `want` bytes from buf + at on, as far as the file has them. */
static bool fill(struct reader *r, size_t want)
{
	size_t got = 0;

	if (r->n - r->at >= want)
		return true;
	memmove(r->buf, r->buf + r->at, r->n - r->at);
	r->n -= r->at;
	r->at = 0;
	if (want > r->cap) {
		r->cap = want;
		r->buf = sc_xrealloc(r->buf, r->cap, 1);
	}
	if (!r->eof && !r->rc) {
		got = r->cap - r->n;
		r->rc = sc_inflate_read(r->in, (char *)r->buf + r->n, &got, r->err);
		r->eof = got < r->cap - r->n;
		r->n += got;
	}
	return r->n - r->at >= want;
}

enum next { NEXT_MESSAGE, NEXT_END, NEXT_CUT, NEXT_DAMAGED };

static enum next next_message(struct reader *r, struct slice *out)
{
	struct slice in;
	uint64_t n;

	fill(r, 10);
	if (r->at == r->n)
		return NEXT_END;
	in = (struct slice){.at = r->buf + r->at, .end = r->buf + r->n};
	if (!take_varint(&in, &n))
		return r->n - r->at >= 10 ? NEXT_DAMAGED : NEXT_CUT;
	if (n > MAX_MESSAGE)
		return NEXT_DAMAGED;
	r->at = (size_t)(in.at - r->buf);
	if (!fill(r, (size_t)n))
		return NEXT_CUT;
	*out = (struct slice){.at = r->buf + r->at, .end = r->buf + r->at + n};
	r->at += (size_t)n;
	return NEXT_MESSAGE;
}

/* GlobalMetadata: 1 version, 2 attr. */
static void take_metadata(struct chakra_import *im, struct slice in)
{
	struct field field;
	struct attr attr;

	for (int i = 0; i < MAX_META && take_field(&in, &field); i++) {
		struct sc_strbuf text = {0};

		if (field.wire != WIRE_BYTES || field.number != 2 || !take_attr(field.bytes, &attr))
			continue;
		if (sc_scan_is(&attr.name, "schema", 6) && attr.text.n < 256) {
			sc_scan_decode(attr.text.at, attr.text.n, &text);
			sc_trace_writer_meta(im->out.writer, "file.schema", sc_strbuf_get(&text));
		} else if (sc_scan_is(&attr.name, "pid", 3) && attr.number > 0 &&
			   attr.number <= INT32_MAX) {
			im->out.identity.pid = (int32_t)attr.number;
		}
		sc_strbuf_release(&text);
	}
}

int chakra_read_proto(struct chakra_import *im, struct sc_inflate *in, struct sc_err *err)
{
	struct reader r = {.in = in, .cap = FIRST_CAP, .err = err};
	struct chakra_node node;
	struct slice message;
	enum next next;

	r.buf = sc_xmalloc(r.cap);
	next = next_message(&r, &message);
	if (next == NEXT_MESSAGE)
		take_metadata(im, message);
	while (next == NEXT_MESSAGE && (next = next_message(&r, &message)) == NEXT_MESSAGE) {
		if (take_node(message, &node)) {
			chakra_write(im, &node);
		} else {
			im->stats->n_records++;
			sc_import_count_bad(im->stats, "damaged message");
		}
	}
	if (next == NEXT_CUT)
		im->stats->why_truncated = "it ends inside a message";
	else if (next == NEXT_DAMAGED)
		im->stats->why_truncated = "nothing makes sense after a damaged message";
	if (sc_inflate_damage(in))
		im->stats->why_truncated = sc_inflate_damage(in);
	im->stats->truncated = im->stats->why_truncated != NULL;
	free(r.buf);
	return r.rc;
}

/* Its first message must be metadata and nothing else, and the second one begin with an id. */
bool chakra_probe_proto(const char *head, size_t n)
{
	struct slice in = {.at = (const unsigned char *)head};
	struct slice message;
	struct field field;
	uint64_t n_message;

	in.end = in.at + n;
	if (!take_varint(&in, &n_message) || n_message == 0 ||
	    n_message > (uint64_t)(in.end - in.at))
		return false;
	message = (struct slice){.at = in.at, .end = in.at + n_message};
	in.at = message.end;
	while (take_field(&message, &field)) {
		if (field.wire != WIRE_BYTES || field.number < 1 || field.number > 2)
			return false;
	}
	if (message.at != message.end)
		return false;
	return in.at == in.end ||
	       (take_varint(&in, &n_message) && in.at < in.end && *in.at == 0x08);
}
