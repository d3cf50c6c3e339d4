/* The frames that trace files consist of (docs/trace-format.md): each can be checked and found by
 * itself. Shared by the reader, the writer and the capture library: pure C, never exits, allocates
 * only when a coder is made. */
#pragma once

#include "trace/format/event.h"
#include "trace/format/trace_columns.h"

struct sc_trace_identity;

enum {
	SC_TRACE_VERSION = 6, /* the only one that is read */
	SC_FILE_HEADER_BYTES = 16,
	SC_FRAME_HEADER_BYTES = 48,
	SC_FRAME_ALIGN = 8, /* frames begin at multiples of it */
	SC_FRAME_MAX_STRING = 65535,
	SC_FRAME_MAX_GAPS = 512,
	SC_FRAME_MAX_REASON = 255 /* bytes of a gap's */
};
enum sc_frame_type {
	SC_FRAME_IDENTITY = 1, /* the last one holds */
	SC_FRAME_META,         /* texts: key, value, key, value; the last value of a key holds */
	SC_FRAME_STRINGS,      /* additions to a table; first: id of the first one */
	SC_FRAME_LANES,
	SC_FRAME_CONFIGS,
	SC_FRAME_COMMS,
	SC_FRAME_EVENTS, /* of one class, `sub` of the header; first, last: earliest start, latest
			    end */
	SC_FRAME_CLOCKS,
	SC_FRAME_GAPS,
	SC_FRAME_END = 11 /* the last frame of a whole file */
};
struct sc_frame_header {
	uint16_t type, sub;
	uint32_t n_payload, count;
	uint64_t seq; /* number of the frame in its file, from 0 */
	int64_t first, last;
	uint32_t payload_crc;
	int64_t offset; /* where the frame is: a reader's */
};
/* --- file header: magic, version, checksum --- */
enum sc_file_kind { SC_FILE_OURS, SC_FILE_OTHER, SC_FILE_OTHER_VERSION };
void sc_file_header_put(uint8_t out[SC_FILE_HEADER_BYTES]);
enum sc_file_kind sc_file_header_get(const uint8_t at[SC_FILE_HEADER_BYTES], uint32_t *version);

/* --- making frames --- */
/* Around a payload that stands SC_FRAME_HEADER_BYTES into `frame`: its checksum, the header, zeros
 * up to the next frame. Returns the bytes of all. */
size_t sc_frame_seal(uint8_t *frame, struct sc_frame_header *header);
struct sc_frame_coder {
	struct sc_column_coder *columns;
	uint64_t next_seq;
	uint8_t *out; /* the frame made last, header and padding included */
	size_t n_out;
	struct sc_row_key *keys; /* 2 * SC_FRAME_MAX_ROWS */
	uint32_t *order;
};
struct sc_frame_coder *sc_frame_coder_create(void); /* NULL: no memory */
void sc_frame_coder_destroy(struct sc_frame_coder *coder);
/* All leave the frame in coder->out, n_out; 0 < n <= SC_FRAME_MAX_ROWS. Events are all of the class
 * of the first one; they are stored by lane and start, what is equal in the order given. */
void sc_frame_put_events(struct sc_frame_coder *coder, const struct sc_trace_event *events,
			 size_t n);
/* `header` says the type, how many, and the first id. LANES, CONFIGS, COMMS, CLOCKS have rows of
 * sc_trace_lane, sc_trace_config, sc_trace_comm, sc_trace_clock; STRINGS, META texts, at most
 * SC_FRAME_MAX_TEXT bytes in all, SC_FRAME_MAX_STRING each; END nothing. What a type does not have
 * is NULL. */
void sc_frame_put(struct sc_frame_coder *coder, struct sc_frame_header header, const void *rows,
		  const struct sc_text *texts);
void sc_frame_put_identity(struct sc_frame_coder *coder, const struct sc_trace_identity *identity);
/* n <= SC_FRAME_MAX_GAPS; of reasons the first SC_FRAME_MAX_REASON bytes. */
void sc_frame_put_gaps(struct sc_frame_coder *coder, const struct sc_trace_gap *gaps, size_t n);

/* --- reading frames --- */
/* False: these are not the bytes of a frame's header. */
bool sc_frame_header_get(const uint8_t at[SC_FRAME_HEADER_BYTES], struct sc_frame_header *out);
/* Bytes from one frame to the next. */
size_t sc_frame_bytes(const struct sc_frame_header *header);
/* Is the payload what was written? */
bool sc_frame_check(const struct sc_frame_header *header, const uint8_t *payload);
/* header->count rows of the type that belongs to header->type. False: not well formed. */
bool sc_frame_get_rows(struct sc_frame_coder *coder, const struct sc_frame_header *header,
		       const uint8_t *payload, void *rows);
/* `n` texts; they are good until the coder is used again. */
bool sc_frame_get_texts(struct sc_frame_coder *coder, const struct sc_frame_header *header,
			const uint8_t *payload, struct sc_text *texts, size_t n);
bool sc_frame_get_identity(struct sc_frame_coder *coder, const struct sc_frame_header *header,
			   const uint8_t *payload, struct sc_trace_identity *out);
