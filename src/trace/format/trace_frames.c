/* The rows of each frame, and the bytes around them. This file knows nothing of files. */
#include "trace/format/trace_frames.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "trace/format/crc32c.h"
#include "trace/format/row_sort.h"
#include "trace/format/trace_file.h"

static const uint8_t FILE_MAGIC[8] = {'S', 'C', 'T', 'R', 'A', 'C', 'E', '\n'};
static const uint32_t FRAME_MAGIC = 0x9E465343; /* "CSF" and a byte that no text has */

/* Ids of columns stay as they are: files have them. */
#define EV(id_, type_, member, ...)                                                              \
	{                                                                                        \
		.id = (id_), .type = (type_), .offset = offsetof(struct sc_trace_event, member), \
		__VA_ARGS__                                                                      \
	}
static const struct sc_column_field EVENT_FIELDS[] = {
	EV(1, SC_FIELD_U32, name, .role = SC_FIELD_KEY),
	EV(2, SC_FIELD_U32, lane, .role = SC_FIELD_VALUE),
	{.id = 21, .type = SC_FIELD_I64, .role = SC_FIELD_DEPTH},
	{.id = 22, .type = SC_FIELD_I64, .role = SC_FIELD_TIMES},
	EV(3, SC_FIELD_I64, dur_ns, .role = SC_FIELD_DURATION),
	EV(4, SC_FIELD_I64, start_ns, .role = SC_FIELD_START),
	EV(5, SC_FIELD_U8, sub, .role = SC_FIELD_VALUE),
	EV(6, SC_FIELD_U16, flags, .role = SC_FIELD_VALUE),
	EV(7, SC_FIELD_U32, correlation, .role = SC_FIELD_CALL),
	EV(8, SC_FIELD_I64, external_id, .role = SC_FIELD_LIKE_CALL),
	EV(9, SC_FIELD_U32, config, .role = SC_FIELD_VALUE),
	EV(10, SC_FIELD_U32, comm, .role = SC_FIELD_VALUE),
	EV(11, SC_FIELD_U32, shapes, .role = SC_FIELD_VALUE),
	EV(12, SC_FIELD_I64, bytes, .role = SC_FIELD_VALUE),
	EV(13, SC_FIELD_I64, aux0, .role = SC_FIELD_VALUE),
	EV(14, SC_FIELD_I64, aux1, .role = SC_FIELD_VALUE),
	EV(15, SC_FIELD_I32, job.step, .role = SC_FIELD_VALUE),
	EV(16, SC_FIELD_I32, job.dp_rank, .role = SC_FIELD_VALUE),
	EV(17, SC_FIELD_I32, job.stage, .role = SC_FIELD_VALUE),
	EV(18, SC_FIELD_I32, job.micro_batch, .role = SC_FIELD_VALUE),
	EV(19, SC_FIELD_I32, job.chunk, .role = SC_FIELD_VALUE),
	EV(20, SC_FIELD_I32, job.seq, .role = SC_FIELD_VALUE),
};
#define FIELD(id_, type_, row, member)                                               \
	{                                                                            \
		.id = (id_), .type = (type_), .offset = offsetof(struct row, member) \
	}
static const struct sc_column_field LANE_FIELDS[] = {
	FIELD(1, SC_FIELD_U32, sc_trace_lane, is_stream),
	FIELD(2, SC_FIELD_I32, sc_trace_lane, pid),
	FIELD(3, SC_FIELD_I32, sc_trace_lane, tid),
	FIELD(4, SC_FIELD_I32, sc_trace_lane, device),
	FIELD(5, SC_FIELD_I32, sc_trace_lane, stream),
	FIELD(6, SC_FIELD_I32, sc_trace_lane, context),
	FIELD(7, SC_FIELD_U32, sc_trace_lane, name),
};
static const struct sc_column_field CONFIG_FIELDS[] = {
	FIELD(1, SC_FIELD_U32, sc_trace_config, grid[0]),
	FIELD(2, SC_FIELD_U32, sc_trace_config, grid[1]),
	FIELD(3, SC_FIELD_U32, sc_trace_config, grid[2]),
	FIELD(4, SC_FIELD_U32, sc_trace_config, block[0]),
	FIELD(5, SC_FIELD_U32, sc_trace_config, block[1]),
	FIELD(6, SC_FIELD_U32, sc_trace_config, block[2]),
	FIELD(7, SC_FIELD_U32, sc_trace_config, registers),
	FIELD(8, SC_FIELD_U32, sc_trace_config, shared_bytes),
	FIELD(9, SC_FIELD_I32, sc_trace_config, graph_id),
};
static const struct sc_column_field COMM_FIELDS[] = {
	FIELD(1, SC_FIELD_U32, sc_trace_comm, collective),
	FIELD(2, SC_FIELD_U32, sc_trace_comm, dtype),
	FIELD(3, SC_FIELD_U32, sc_trace_comm, group_name),
	FIELD(4, SC_FIELD_U32, sc_trace_comm, group_ranks),
	FIELD(5, SC_FIELD_I64, sc_trace_comm, comm_hash), /* the same 64 bits */
	FIELD(6, SC_FIELD_I64, sc_trace_comm, in_elems),
	FIELD(7, SC_FIELD_I64, sc_trace_comm, out_elems),
	FIELD(8, SC_FIELD_I64, sc_trace_comm, bytes),
	FIELD(9, SC_FIELD_I32, sc_trace_comm, group_size),
	FIELD(10, SC_FIELD_I32, sc_trace_comm, peer),
	FIELD(11, SC_FIELD_I32, sc_trace_comm, root),
	FIELD(12, SC_FIELD_I64, sc_trace_comm, seq),
};
static const struct sc_column_field CLOCK_FIELDS[] = {
	FIELD(1, SC_FIELD_I64, sc_trace_clock, trace_ns),
	FIELD(2, SC_FIELD_I64, sc_trace_clock, utc_ns),
};
static const struct sc_column_field GAP_FIELDS[] = {
	FIELD(1, SC_FIELD_I64, sc_trace_gap, n),
	FIELD(2, SC_FIELD_I64, sc_trace_gap, first_ns),
	FIELD(3, SC_FIELD_I64, sc_trace_gap, last_ns),
	FIELD(4, SC_FIELD_U8, sc_trace_gap, cls),
};
static const struct sc_column_field IDENTITY_FIELDS[] = {
	FIELD(1, SC_FIELD_I32, sc_trace_identity, rank),
	FIELD(2, SC_FIELD_I32, sc_trace_identity, world),
	FIELD(3, SC_FIELD_I32, sc_trace_identity, local_rank),
	FIELD(4, SC_FIELD_I32, sc_trace_identity, pid),
	FIELD(5, SC_FIELD_I64, sc_trace_identity, run_id),
	FIELD(6, SC_FIELD_I64, sc_trace_identity, host_hash),
	FIELD(7, SC_FIELD_I64, sc_trace_identity, base_utc_ns),
};
#define FORMAT(fields, type)                                                 \
	{                                                                    \
		(fields), sizeof(fields) / sizeof((fields)[0]), sizeof(type) \
	}
static const struct sc_row_format FORMATS[] = {
	[SC_FRAME_IDENTITY] = FORMAT(IDENTITY_FIELDS, struct sc_trace_identity),
	[SC_FRAME_LANES] = FORMAT(LANE_FIELDS, struct sc_trace_lane),
	[SC_FRAME_CONFIGS] = FORMAT(CONFIG_FIELDS, struct sc_trace_config),
	[SC_FRAME_COMMS] = FORMAT(COMM_FIELDS, struct sc_trace_comm),
	[SC_FRAME_EVENTS] = FORMAT(EVENT_FIELDS, struct sc_trace_event),
	[SC_FRAME_CLOCKS] = FORMAT(CLOCK_FIELDS, struct sc_trace_clock),
	[SC_FRAME_GAPS] = FORMAT(GAP_FIELDS, struct sc_trace_gap),
	[SC_FRAME_END] = {NULL, 0, 0},
};

/* --- little-endian numbers --- */

static uint8_t *put_le(uint8_t *at, uint64_t value, unsigned n_bytes)
{
	for (; n_bytes; n_bytes--, value >>= 8)
		*at++ = (uint8_t)value;
	return at;
}

static uint64_t get_le(const uint8_t **at, unsigned n_bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < n_bytes; i++)
		value |= (uint64_t) * (*at)++ << (8 * i);
	return value;
}

/* --- file header --- */

void sc_file_header_put(uint8_t out[SC_FILE_HEADER_BYTES])
{
	memcpy(out, FILE_MAGIC, sizeof(FILE_MAGIC));
	put_le(out + 8, SC_TRACE_VERSION, 4);
	put_le(out + 12, sc_crc32c(0, out, 12), 4);
}

/* A damaged version number is no reason to refuse: the frames are checked by themselves. */
enum sc_file_kind sc_file_header_get(const uint8_t at[SC_FILE_HEADER_BYTES], uint32_t *version)
{
	const uint8_t *number = at + 8;
	uint32_t crc;

	if (memcmp(at, FILE_MAGIC, sizeof(FILE_MAGIC)) != 0)
		return SC_FILE_OTHER;
	*version = (uint32_t)get_le(&number, 4);
	crc = (uint32_t)get_le(&number, 4);
	if (crc == sc_crc32c(0, at, 12) && *version != SC_TRACE_VERSION)
		return SC_FILE_OTHER_VERSION;
	return SC_FILE_OURS;
}

/* --- making frames --- */

struct sc_frame_coder *sc_frame_coder_create(void)
{
	struct sc_frame_coder *coder = calloc(1, sizeof(*coder));

	if (!coder)
		return NULL;
	coder->columns = sc_column_coder_create();
	coder->out = malloc(SC_FRAME_HEADER_BYTES + SC_FRAME_MAX_PAYLOAD + SC_FRAME_ALIGN);
	coder->keys = malloc(2 * SC_FRAME_MAX_ROWS * sizeof(*coder->keys));
	coder->order = malloc(SC_FRAME_MAX_ROWS * sizeof(*coder->order));
	if (!coder->columns || !coder->out || !coder->keys || !coder->order) {
		sc_frame_coder_destroy(coder);
		return NULL;
	}
	return coder;
}

void sc_frame_coder_destroy(struct sc_frame_coder *coder)
{
	if (!coder)
		return;
	sc_column_coder_destroy(coder->columns);
	free(coder->out);
	free(coder->keys);
	free(coder->order);
	free(coder);
}

static struct sc_payload begin_payload(struct sc_frame_coder *coder)
{
	return (struct sc_payload){.at = coder->out + SC_FRAME_HEADER_BYTES};
}

size_t sc_frame_bytes(const struct sc_frame_header *header)
{
	return (SC_FRAME_HEADER_BYTES + (size_t)header->n_payload + SC_FRAME_ALIGN - 1) /
	       SC_FRAME_ALIGN * SC_FRAME_ALIGN;
}

size_t sc_frame_seal(uint8_t *frame, struct sc_frame_header *header)
{
	uint8_t *payload = frame + SC_FRAME_HEADER_BYTES, *at = frame;
	size_t n = sc_frame_bytes(header);

	header->payload_crc = sc_crc32c(0, payload, header->n_payload);
	at = put_le(at, FRAME_MAGIC, 4);
	at = put_le(at, header->type, 2);
	at = put_le(at, header->sub, 2);
	at = put_le(at, header->n_payload, 4);
	at = put_le(at, header->count, 4);
	at = put_le(at, header->seq, 8);
	at = put_le(at, (uint64_t)header->first, 8);
	at = put_le(at, (uint64_t)header->last, 8);
	at = put_le(at, header->payload_crc, 4);
	put_le(at, sc_crc32c(0, frame, SC_FRAME_HEADER_BYTES - 4), 4);
	at = payload + header->n_payload;
	memset(at, 0, n - (size_t)(at - frame));
	return n;
}

static void end_frame(struct sc_frame_coder *coder, struct sc_frame_header header,
		      const struct sc_payload *payload)
{
	header.seq = coder->next_seq++;
	header.n_payload = (uint32_t)payload->n;
	coder->n_out = sc_frame_seal(coder->out, &header);
}

/* The time that events span goes into `header`, their order by lane and start into coder->order. */
static void order_events(struct sc_frame_coder *coder, const struct sc_trace_event *events,
			 size_t n, struct sc_frame_header *header)
{
	struct sc_row_key *keys = coder->keys;

	header->first = events[0].start_ns;
	header->last = INT64_MIN;
	for (size_t i = 0; i < n; i++) {
		const struct sc_trace_event *e = &events[i];
		int64_t end = (int64_t)((uint64_t)e->start_ns + (uint64_t)e->dur_ns);

		if (e->start_ns < header->first)
			header->first = e->start_ns;
		if (end < e->start_ns)
			end = e->start_ns;
		if (end > header->last)
			header->last = end;
	}
	for (size_t i = 0; i < n; i++) {
		keys[i].time = (uint64_t)events[i].start_ns - (uint64_t)header->first;
		keys[i].group = events[i].lane;
		keys[i].row = (uint32_t)i;
	}
	keys = sc_row_sort(keys, keys + SC_FRAME_MAX_ROWS, n);
	for (size_t i = 0; i < n; i++)
		coder->order[i] = keys[i].row;
}

void sc_frame_put_events(struct sc_frame_coder *coder, const struct sc_trace_event *events,
			 size_t n)
{
	struct sc_payload payload = begin_payload(coder);
	struct sc_frame_header header = {
		.type = SC_FRAME_EVENTS, .sub = events[0].cls, .count = (uint32_t)n};

	assert(n > 0 && n <= SC_FRAME_MAX_ROWS);
	order_events(coder, events, n, &header);
	sc_columns_put(coder->columns,
		       &(struct sc_row_set){&FORMATS[SC_FRAME_EVENTS], coder->order, n}, events,
		       &payload);
	end_frame(coder, header, &payload);
}

void sc_frame_put(struct sc_frame_coder *coder, struct sc_frame_header header, const void *rows,
		  const struct sc_text *texts)
{
	struct sc_payload payload = begin_payload(coder);

	assert(header.count <= SC_FRAME_MAX_ROWS && (!rows || FORMATS[header.type].row_bytes));
	if (rows)
		sc_columns_put(coder->columns,
			       &(struct sc_row_set){&FORMATS[header.type], NULL, header.count},
			       rows, &payload);
	if (texts)
		sc_columns_put_texts(coder->columns, texts, header.count, &payload);
	end_frame(coder, header, &payload);
}

void sc_frame_put_identity(struct sc_frame_coder *coder, const struct sc_trace_identity *identity)
{
	struct sc_payload payload = begin_payload(coder);
	const struct sc_text texts[] = {
		{identity->host, strnlen(identity->host, sizeof(identity->host))},
		{identity->source, strnlen(identity->source, sizeof(identity->source))},
	};

	sc_columns_put(coder->columns, &(struct sc_row_set){&FORMATS[SC_FRAME_IDENTITY], NULL, 1},
		       identity, &payload);
	sc_columns_put_texts(coder->columns, texts, 2, &payload);
	end_frame(coder, (struct sc_frame_header){.type = SC_FRAME_IDENTITY, .count = 1}, &payload);
}

void sc_frame_put_gaps(struct sc_frame_coder *coder, const struct sc_trace_gap *gaps, size_t n)
{
	struct sc_text reasons[SC_FRAME_MAX_GAPS];

	assert(n <= SC_FRAME_MAX_GAPS);
	for (size_t i = 0; i < n; i++)
		reasons[i] = (struct sc_text){gaps[i].reason,
					      strnlen(gaps[i].reason, SC_FRAME_MAX_REASON)};
	sc_frame_put(coder, (struct sc_frame_header){.type = SC_FRAME_GAPS, .count = (uint32_t)n},
		     gaps, reasons);
}

/* --- reading frames --- */

bool sc_frame_header_get(const uint8_t at[SC_FRAME_HEADER_BYTES], struct sc_frame_header *out)
{
	uint32_t crc = sc_crc32c(0, at, SC_FRAME_HEADER_BYTES - 4);

	if (get_le(&at, 4) != FRAME_MAGIC)
		return false;
	out->type = (uint16_t)get_le(&at, 2);
	out->sub = (uint16_t)get_le(&at, 2);
	out->n_payload = (uint32_t)get_le(&at, 4);
	out->count = (uint32_t)get_le(&at, 4);
	out->seq = get_le(&at, 8);
	out->first = (int64_t)get_le(&at, 8);
	out->last = (int64_t)get_le(&at, 8);
	out->payload_crc = (uint32_t)get_le(&at, 4);
	return get_le(&at, 4) == crc && out->n_payload <= SC_FRAME_MAX_PAYLOAD;
}

bool sc_frame_check(const struct sc_frame_header *header, const uint8_t *payload)
{
	return sc_crc32c(0, payload, header->n_payload) == header->payload_crc;
}

bool sc_frame_get_rows(struct sc_frame_coder *coder, const struct sc_frame_header *header,
		       const uint8_t *payload, void *rows)
{
	const struct sc_row_format *format;

	if (header->type >= sizeof(FORMATS) / sizeof(FORMATS[0]) ||
	    header->count > SC_FRAME_MAX_ROWS)
		return false;
	format = &FORMATS[header->type];
	return format->n_fields &&
	       sc_columns_get(coder->columns,
			      (struct sc_slice){payload, payload + header->n_payload},
			      &(struct sc_row_set){format, NULL, header->count}, rows);
}

bool sc_frame_get_texts(struct sc_frame_coder *coder, const struct sc_frame_header *header,
			const uint8_t *payload, struct sc_text *texts, size_t n)
{
	return sc_columns_get_texts(
		coder->columns, (struct sc_slice){payload, payload + header->n_payload}, texts, n);
}

static void copy_text(const struct sc_text *text, char *out, size_t size)
{
	size_t n = text->n < size ? text->n : size - 1;

	memcpy(out, text->at, n);
	out[n] = '\0';
}

bool sc_frame_get_identity(struct sc_frame_coder *coder, const struct sc_frame_header *header,
			   const uint8_t *payload, struct sc_trace_identity *out)
{
	struct sc_trace_identity row;
	struct sc_text texts[2];

	if (header->count != 1 || !sc_frame_get_rows(coder, header, payload, &row) ||
	    !sc_frame_get_texts(coder, header, payload, texts, 2))
		return false;
	copy_text(&texts[0], row.host, sizeof(row.host));
	copy_text(&texts[1], row.source, sizeof(row.source));
	*out = row;
	return true;
}
