/* Rows of a struct as columns of a frame's payload, and back: constant columns cost a few bytes,
 * the others are differences as varints, each column compressed by itself. Pure C; zstd unless
 * SC_NO_ZSTD is defined (then columns are stored as they are, and compressed ones cannot be read).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SC_FRAME_MAX_ROWS = 16384,
	SC_FRAME_MAX_TEXT = 256 << 10,  /* bytes of all texts of a frame */
	SC_FRAME_MAX_PAYLOAD = 4 << 20, /* 20 columns of varints of ten bytes are less */
	SC_COLUMN_LENGTHS = 62,         /* ids of the two columns of a list of texts */
	SC_COLUMN_TEXT = 63,
	SC_COLUMN_MAX_ID = 63
};

/* How the values of a column are predicted. The numbers are those of files. */
enum sc_column_form {
	SC_FORM_CONSTANT,  /* one value for all rows */
	SC_FORM_PLAIN,     /* the value itself */
	SC_FORM_DELTA,     /* less the row before */
	SC_FORM_BY_KEY,    /* less the last one of the same key */
	SC_FORM_TIMES,     /* of nested rows: column_times.h */
	SC_FORM_BYTES,     /* text */
	SC_FORM_LIKE_CALL, /* less the correlation of the row */
	SC_N_FORMS,
	/* Flag. */
	SC_FORM_ZSTD = 0x80 /* the bytes are packed */
};
enum { SC_MAX_VARINT = 10 }; /* bytes of 64 bits, seven a byte */

static inline uint64_t sc_zigzag(uint64_t value)
{
	return value << 1 ^ (0 - (value >> 63));
}
static inline uint64_t sc_unzigzag(uint64_t value)
{
	return value >> 1 ^ (0 - (value & 1));
}
/* Returns where the next byte goes. */
static inline uint8_t *sc_put_varint(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at++ = (uint8_t)value;
	return at;
}
/* NULL: it does not end before `end`, or is longer than 64 bits. */
static inline const uint8_t *sc_get_varint(const uint8_t *at, const uint8_t *end, uint64_t *out)
{
	uint64_t value = 0;

	if (at < end && *at < 0x80) {
		*out = *at;
		return at + 1;
	}
	for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
		uint8_t byte = *at++;

		value |= (uint64_t)(byte & 0x7F) << shift;
		if (byte < 0x80) {
			*out = value;
			return at;
		}
	}
	return NULL;
}

enum sc_field_type { SC_FIELD_U8, SC_FIELD_U16, SC_FIELD_U32, SC_FIELD_I32, SC_FIELD_I64 };
/* The roles that other columns are predicted from: these come before the columns that use them. */
enum sc_field_role {
	SC_FIELD_VALUE,
	SC_FIELD_KEY,
	SC_FIELD_DEPTH, /* no member of the row: how many rows are open where it starts */
	SC_FIELD_TIMES, /* no member: starts and durations, for those of nested rows */
	SC_FIELD_DURATION,
	SC_FIELD_START,
	SC_FIELD_CALL,      /* correlation */
	SC_FIELD_LIKE_CALL, /* often the same */
	SC_N_FIELD_ROLES
};
struct sc_column_field {
	uint8_t id; /* of the column in files: never reused for something else */
	uint8_t type, role;
	uint16_t offset;
};
struct sc_row_format {
	const struct sc_column_field *fields;
	size_t n_fields, row_bytes;
};
/* Rows of one format: in the order given, or as they stand. */
struct sc_row_set {
	const struct sc_row_format *format;
	const uint32_t *order; /* or NULL */
	size_t n;
};
struct sc_slice {
	const uint8_t *at, *end;
};
struct sc_text {
	const char *at;
	size_t n;
};
struct sc_column_coder;
struct sc_column_coder *sc_column_coder_create(void); /* NULL: no memory */
void sc_column_coder_destroy(struct sc_column_coder *coder);

/* Payload being built; it has room for SC_FRAME_MAX_PAYLOAD. */
struct sc_payload {
	uint8_t *at;
	size_t n;
};
/* n <= SC_FRAME_MAX_ROWS rows; row i is rows[order[i]], or rows[i] if order is NULL. */
void sc_columns_put(struct sc_column_coder *coder, const struct sc_row_set *set, const void *rows,
		    struct sc_payload *out);
/* n <= SC_FRAME_MAX_ROWS texts of at most SC_FRAME_MAX_TEXT bytes together. */
void sc_columns_put_texts(struct sc_column_coder *coder, const struct sc_text *texts, size_t n,
			  struct sc_payload *out);
/* Fills rows[0..n-1]; columns that are absent give 0, those it does not know are skipped. False:
 * the payload is not well formed; the rows are then not to be used. */
bool sc_columns_get(struct sc_column_coder *coder, struct sc_slice payload,
		    const struct sc_row_set *set, void *rows);
/* Texts point into memory of the coder, good until its next call; not ended by NUL. */
bool sc_columns_get_texts(struct sc_column_coder *coder, struct sc_slice payload,
			  struct sc_text *texts, size_t n);
