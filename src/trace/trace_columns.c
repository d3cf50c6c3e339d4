/* A column in a payload: u8 id, u8 form (low bits: how values are predicted; high bit: zstd), varint
 * bytes unpacked, varint bytes stored, then these bytes. Knows nothing of frames or what rows mean. */
#include "trace/trace_columns.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#ifndef SC_NO_ZSTD
#include <zstd.h>
#endif

enum {
	MIN_PACKED = 24, /* shorter columns are not worth a zstd header */
	PACK_LEVEL = 3,
	TEXT_PACK_LEVEL = 12, /* written once, and most of a small file */
	N_KEYS = 1024,        /* keys that are told apart, by their low bits */
	N_SAMPLED = 2048,     /* rows from which the form is chosen */
	RAW_BYTES = SC_FRAME_MAX_TEXT > SC_FRAME_MAX_ROWS *SC_MAX_VARINT
			    ? SC_FRAME_MAX_TEXT
			    : SC_FRAME_MAX_ROWS *SC_MAX_VARINT
};

struct sc_column_coder {
	int64_t values[SC_FRAME_MAX_ROWS], durations[SC_FRAME_MAX_ROWS];
	uint64_t residuals[SC_FRAME_MAX_ROWS];
	uint32_t keys[SC_FRAME_MAX_ROWS];
	int64_t last[N_KEYS];
	uint8_t raw[RAW_BYTES];
#ifndef SC_NO_ZSTD
	ZSTD_CCtx *pack;
	ZSTD_DCtx *unpack;
#endif
};

struct sc_column_coder *sc_column_coder_create(void)
{
	struct sc_column_coder *coder = malloc(sizeof(*coder));

	if (!coder)
		return NULL;
#ifndef SC_NO_ZSTD
	coder->pack = ZSTD_createCCtx();
	coder->unpack = ZSTD_createDCtx();
	if (!coder->pack || !coder->unpack) {
		sc_column_coder_destroy(coder);
		return NULL;
	}
	ZSTD_CCtx_setParameter(coder->pack, ZSTD_c_contentSizeFlag, 0);
#endif
	return coder;
}

void sc_column_coder_destroy(struct sc_column_coder *coder)
{
	if (!coder)
		return;
#ifndef SC_NO_ZSTD
	ZSTD_freeCCtx(coder->pack);
	ZSTD_freeDCtx(coder->unpack);
#endif
	free(coder);
}

/* --- numbers --- */

static inline uint64_t unzigzag(uint64_t value)
{
	return value >> 1 ^ (0 - (value & 1));
}

/* NULL: it does not end before `end`, or is longer than 64 bits. */
static inline const uint8_t *get_varint(const uint8_t *at, const uint8_t *end, uint64_t *out)
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

/* --- rows to values and back --- */

#define GATHER(type)                                                                        \
	for (size_t i = 0; i < n; i++) {                                                    \
		type value_;                                                                \
		memcpy(&value_, from + (order ? order[i] : i) * row_bytes, sizeof(value_)); \
		to[i] = value_;                                                             \
	}                                                                                   \
	break

static void gather(const struct sc_field *field, const uint8_t *from, size_t row_bytes,
		   const uint32_t *order, size_t n, int64_t *to)
{
	from += field->offset;
	switch (field->type) {
	case SC_FIELD_U8:
		GATHER(uint8_t);
	case SC_FIELD_U16:
		GATHER(uint16_t);
	case SC_FIELD_U32:
		GATHER(uint32_t);
	case SC_FIELD_I32:
		GATHER(int32_t);
	default:
		GATHER(int64_t);
	}
}

#define SCATTER(type)                                                \
	for (size_t i = 0; i < n; i++) {                             \
		type value_ = (type)from[i];                         \
		fits &= value_ == from[i];                           \
		memcpy(to + i * row_bytes, &value_, sizeof(value_)); \
	}                                                            \
	break

/* False: a value is out of the field's range. */
static bool scatter(const struct sc_field *field, const int64_t *from, size_t n, uint8_t *to,
		    size_t row_bytes)
{
	bool fits = true;

	to += field->offset;
	switch (field->type) {
	case SC_FIELD_U8:
		SCATTER(uint8_t);
	case SC_FIELD_U16:
		SCATTER(uint16_t);
	case SC_FIELD_U32:
		SCATTER(uint32_t);
	case SC_FIELD_I32:
		SCATTER(int32_t);
	default:
		SCATTER(int64_t);
	}
	return fits;
}

/* --- prediction --- */

/* Differences wrap: any values are exact. */
static void to_residuals(struct sc_column_coder *c, enum sc_column_form form, size_t n)
{
	const int64_t *v = c->values;
	uint64_t last = 0, *out = c->residuals;

	if (form == SC_FORM_BY_KEY)
		memset(c->last, 0, sizeof(c->last));
	for (size_t i = 0; i < n; i++) {
		uint64_t value = (uint64_t)v[i];

		out[i] = sc_zigzag(value - last);
		if (form == SC_FORM_DELTA) {
			last = value;
		} else if (form == SC_FORM_GAP) {
			last = value + (uint64_t)c->durations[i];
		} else if (form == SC_FORM_BY_KEY) {
			out[i] = sc_zigzag(value - (uint64_t)c->last[c->keys[i] % N_KEYS]);
			c->last[c->keys[i] % N_KEYS] = v[i];
		}
	}
}

static void from_residuals(struct sc_column_coder *c, enum sc_column_form form, size_t n)
{
	int64_t *v = c->values;
	uint64_t last = 0;

	if (form == SC_FORM_BY_KEY)
		memset(c->last, 0, sizeof(c->last));
	for (size_t i = 0; i < n; i++) {
		uint64_t residual = unzigzag(c->residuals[i]);

		if (form == SC_FORM_BY_KEY) {
			v[i] = (int64_t)(residual + (uint64_t)c->last[c->keys[i] % N_KEYS]);
			c->last[c->keys[i] % N_KEYS] = v[i];
			continue;
		}
		v[i] = (int64_t)(residual + last);
		if (form == SC_FORM_DELTA)
			last = (uint64_t)v[i];
		else if (form == SC_FORM_GAP)
			last = (uint64_t)v[i] + (uint64_t)c->durations[i];
	}
}

/* About the bits that residuals take; 0 is nearly free. */
static uint64_t cost(const uint64_t *residuals, size_t n)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < n; i++)
		bits += residuals[i] ? 66 - (unsigned)__builtin_clzll(residuals[i]) : 0;
	return bits;
}

static enum sc_column_form choose_form(struct sc_column_coder *c, const struct sc_field *field,
				       bool has_keys, size_t n)
{
	uint64_t least = UINT64_MAX;
	enum sc_column_form best = SC_FORM_PLAIN;

	if (n > N_SAMPLED)
		n = N_SAMPLED;
	for (enum sc_column_form form = SC_FORM_PLAIN; form < SC_N_FORMS; form++) {
		uint64_t bits;

		if ((form == SC_FORM_GAP && field->role != SC_FIELD_START) ||
		    (form == SC_FORM_BY_KEY && (!has_keys || field->role == SC_FIELD_START)))
			continue;
		to_residuals(c, form, n);
		bits = cost(c->residuals, n);
		if (bits < least) {
			least = bits;
			best = form;
		}
	}
	return best;
}

/* --- columns --- */

/* Header and bytes of a column, packed if that is shorter. */
static void put_bytes(struct sc_column_coder *c, const struct sc_field *field, unsigned form,
		      size_t n_raw, struct sc_payload *out)
{
	uint8_t *at = out->at + out->n, *body = at + 2 + 2 * SC_MAX_VARINT;
	size_t n_stored = n_raw;

	assert(out->n + n_raw + 32 <= SC_FRAME_MAX_PAYLOAD);
#ifndef SC_NO_ZSTD
	if (n_raw >= MIN_PACKED) {
		int level = form == SC_FORM_BYTES ? TEXT_PACK_LEVEL : PACK_LEVEL;
		size_t n;

		ZSTD_CCtx_setParameter(c->pack, ZSTD_c_compressionLevel, level);
		n = ZSTD_compress2(c->pack, body, n_raw - 1, c->raw, n_raw);

		if (!ZSTD_isError(n)) {
			n_stored = n;
			form |= SC_FORM_ZSTD;
		}
	}
#endif
	*at++ = field->id;
	*at++ = (uint8_t)form;
	at = sc_put_varint(at, n_raw);
	at = sc_put_varint(at, n_stored);
	memmove(at, form & SC_FORM_ZSTD ? body : c->raw, n_stored);
	out->n = (size_t)(at + n_stored - out->at);
}

static bool is_constant(const int64_t *values, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		if (values[i] != values[0])
			return false;
	}
	return true;
}

/* The column of what is in c->values; none if that is 0 in all rows. */
static void put_values(struct sc_column_coder *c, const struct sc_field *field, bool has_keys,
		       size_t n, struct sc_payload *out)
{
	uint8_t *at = c->raw;
	enum sc_column_form form = SC_FORM_CONSTANT;

	if (n == 0)
		return;
	if (is_constant(c->values, n)) {
		if (c->values[0] == 0)
			return;
		at = sc_put_varint(at, sc_zigzag((uint64_t)c->values[0]));
	} else {
		form = choose_form(c, field, has_keys, n);
		to_residuals(c, form, n);
		for (size_t i = 0; i < n; i++)
			at = sc_put_varint(at, c->residuals[i]);
	}
	put_bytes(c, field, (unsigned)form, (size_t)(at - c->raw), out);
}

static void keep_role(struct sc_column_coder *c, const struct sc_field *field, size_t n)
{
	if (field->role == SC_FIELD_DURATION)
		memcpy(c->durations, c->values, n * sizeof(*c->values));
	for (size_t i = 0; field->role == SC_FIELD_KEY && i < n; i++)
		c->keys[i] = (uint32_t)c->values[i];
}

/* Without such columns, predictions from them are from 0. */
static void forget_roles(struct sc_column_coder *c, size_t n)
{
	memset(c->durations, 0, n * sizeof(*c->durations));
	memset(c->keys, 0, n * sizeof(*c->keys));
}

void sc_columns_put(struct sc_column_coder *coder, const struct sc_row_format *format,
		    const void *rows, const uint32_t *order, size_t n, struct sc_payload *out)
{
	bool has_keys = false;

	assert(n <= SC_FRAME_MAX_ROWS);
	forget_roles(coder, n);
	for (size_t i = 0; i < format->n_fields; i++) {
		const struct sc_field *field = &format->fields[i];

		gather(field, rows, format->row_bytes, order, n, coder->values);
		put_values(coder, field, has_keys, n, out);
		keep_role(coder, field, n);
		has_keys |= field->role == SC_FIELD_KEY;
	}
}

void sc_columns_put_texts(struct sc_column_coder *coder, const struct sc_text *texts, size_t n,
			  struct sc_payload *out)
{
	static const struct sc_field lengths = {.id = SC_COLUMN_LENGTHS};
	static const struct sc_field text = {.id = SC_COLUMN_TEXT};
	size_t n_bytes = 0;

	assert(n <= SC_FRAME_MAX_ROWS);
	for (size_t i = 0; i < n; i++)
		coder->values[i] = (int64_t)texts[i].n;
	put_values(coder, &lengths, false, n, out);
	for (size_t i = 0; i < n; i++) {
		assert(texts[i].n <= RAW_BYTES - n_bytes);
		if (texts[i].n)
			memcpy(coder->raw + n_bytes, texts[i].at, texts[i].n);
		n_bytes += texts[i].n;
	}
	if (n_bytes)
		put_bytes(coder, &text, SC_FORM_BYTES, n_bytes, out);
}

/* --- reading --- */

struct column {
	uint8_t id, form;
	bool is_packed;
	const uint8_t *raw;
	size_t n_raw;
};

static bool unpack(struct sc_column_coder *c, const uint8_t *stored, size_t n_stored, size_t n_raw)
{
#ifndef SC_NO_ZSTD
	size_t n = ZSTD_decompressDCtx(c->unpack, c->raw, n_raw, stored, n_stored);

	return !ZSTD_isError(n) && n == n_raw;
#else
	(void)c, (void)stored, (void)n_stored, (void)n_raw;
	return false;
#endif
}

/* The next column, without its bytes if it is not `wanted`; *at moves behind it. */
static bool next_column(struct sc_column_coder *c, const uint8_t **at, const uint8_t *end,
			uint64_t wanted, struct column *out)
{
	uint64_t n_raw, n_stored;

	if (end - *at < 4)
		return false;
	out->id = (*at)[0];
	out->form = (*at)[1] & (uint8_t)~SC_FORM_ZSTD;
	out->is_packed = (*at)[1] & SC_FORM_ZSTD;
	*at = get_varint(*at + 2, end, &n_raw);
	*at = *at ? get_varint(*at, end, &n_stored) : NULL;
	if (!*at || n_stored > (uint64_t)(end - *at))
		return false;
	out->n_raw = (size_t)n_raw;
	out->raw = *at;
	*at += n_stored;
	if (out->id > SC_COLUMN_MAX_ID || !(wanted >> out->id & 1))
		return true;
	if (!out->is_packed)
		return n_raw == n_stored;
	if (n_raw > RAW_BYTES || !unpack(c, out->raw, (size_t)n_stored, (size_t)n_raw))
		return false;
	out->raw = c->raw;
	return true;
}

/* The values of a column into c->values. */
static bool get_values(struct sc_column_coder *c, const struct column *column, size_t n)
{
	const uint8_t *at = column->raw, *end = at + column->n_raw;

	if (column->form == SC_FORM_CONSTANT) {
		uint64_t value;

		at = get_varint(at, end, &value);
		for (size_t i = 0; at && i < n; i++)
			c->values[i] = (int64_t)unzigzag(value);
		return at == end;
	}
	if (column->form >= SC_N_FORMS)
		return false;
	for (size_t i = 0; i < n; i++) {
		at = get_varint(at, end, &c->residuals[i]);
		if (!at)
			return false;
	}
	from_residuals(c, (enum sc_column_form)column->form, n);
	return at == end;
}

static uint64_t ids_of(const struct sc_row_format *format)
{
	uint64_t ids = 0;

	for (size_t i = 0; i < format->n_fields; i++)
		ids |= UINT64_C(1) << format->fields[i].id;
	return ids;
}

static const struct sc_field *find_field(const struct sc_row_format *format, uint8_t id)
{
	const struct sc_field *field = format->fields;

	while (field->id != id)
		field++;
	return field;
}

bool sc_columns_get(struct sc_column_coder *coder, const struct sc_row_format *format,
		    const uint8_t *payload, size_t n_payload, void *rows, size_t n)
{
	const uint8_t *at = payload, *end = payload + n_payload;
	uint64_t wanted = ids_of(format);
	struct column column;

	if (n > SC_FRAME_MAX_ROWS)
		return false;
	memset(rows, 0, n * format->row_bytes);
	forget_roles(coder, n);
	while (at < end) {
		const struct sc_field *field;

		if (!next_column(coder, &at, end, wanted, &column))
			return false;
		if (column.id > SC_COLUMN_MAX_ID || !(wanted >> column.id & 1))
			continue;
		wanted &= ~(UINT64_C(1) << column.id); /* once only */
		field = find_field(format, column.id);
		if (!get_values(coder, &column, n) ||
		    !scatter(field, coder->values, n, rows, format->row_bytes))
			return false;
		keep_role(coder, field, n);
	}
	return true;
}

static bool share_out(const struct column *text, const int64_t *lengths, size_t n,
		      struct sc_text *texts)
{
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		if (lengths[i] < 0 || (uint64_t)lengths[i] > text->n_raw - used)
			return false;
		texts[i].at = (const char *)text->raw + used;
		texts[i].n = (size_t)lengths[i];
		used += texts[i].n;
	}
	return used == text->n_raw;
}

bool sc_columns_get_texts(struct sc_column_coder *coder, const uint8_t *payload, size_t n_payload,
			  struct sc_text *texts, size_t n)
{
	static const uint64_t wanted = UINT64_C(1) << SC_COLUMN_LENGTHS | UINT64_C(1)
										  << SC_COLUMN_TEXT;
	const uint8_t *at = payload, *end = payload + n_payload;
	struct column column, text = {.n_raw = 0, .raw = (const uint8_t *)""};

	if (n > SC_FRAME_MAX_ROWS)
		return false;
	memset(coder->values, 0, n * sizeof(*coder->values));
	while (at < end) {
		if (!next_column(coder, &at, end, wanted, &column))
			return false;
		if (column.id == SC_COLUMN_LENGTHS && !get_values(coder, &column, n))
			return false;
		if (column.id != SC_COLUMN_TEXT)
			continue;
		if (column.form != SC_FORM_BYTES || column.n_raw > RAW_BYTES)
			return false;
		text = column;
		break; /* the last one: its bytes stay where they are */
	}
	return share_out(&text, coder->values, n, texts);
}
