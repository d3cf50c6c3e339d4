/* A column in a payload: u8 id, u8 form (low bits: how values are predicted; high bits: flags), varint unit if
 * the form has one, varint bytes unpacked, varint bytes stored, then these bytes. Knows nothing of frames or
 * what rows mean. */
#include "trace/format/trace_columns.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#ifndef SC_NO_ZSTD
#include <zstd.h>
#endif

enum { SC_FORM_KEYS = 1024 }; /* keys that are told apart, by their low bits */

/* Columns of the frame so far that others are predicted from; 0 in all rows without them. */
struct sc_column_roles {
	int64_t durations[SC_FRAME_MAX_ROWS], calls[SC_FRAME_MAX_ROWS];
	uint32_t keys[SC_FRAME_MAX_ROWS];
	bool has_keys, has_calls;
	int64_t last[SC_FORM_KEYS];
};

/* ---- Residuals are zigzag coded: small ones of both signs are small numbers ---- */

enum {
	N_SAMPLED = 2048,  /* rows from which the form is chosen */
	MIN_UNIT_GAIN = 16 /* bits that a unit must save */
};

/* --- what is predicted from --- */

static void column_roles_clear(struct sc_column_roles *roles, size_t n)
{
	memset(roles->durations, 0, n * sizeof(*roles->durations));
	memset(roles->calls, 0, n * sizeof(*roles->calls));
	memset(roles->keys, 0, n * sizeof(*roles->keys));
	roles->has_keys = roles->has_calls = false;
}

static void column_roles_keep(struct sc_column_roles *roles, const struct sc_column_field *field,
			      const int64_t *values, size_t n)
{
	if (field->role == SC_FIELD_DURATION)
		memcpy(roles->durations, values, n * sizeof(*values));
	if (field->role == SC_FIELD_CALL)
		memcpy(roles->calls, values, n * sizeof(*values));
	for (size_t i = 0; field->role == SC_FIELD_KEY && i < n; i++)
		roles->keys[i] = (uint32_t)values[i];
	roles->has_calls |= field->role == SC_FIELD_CALL;
	roles->has_keys |= field->role == SC_FIELD_KEY;
}

/* --- forms --- */

static void by_key_residuals(struct sc_column_roles *roles, const int64_t *v, size_t n,
			     uint64_t *out)
{
	memset(roles->last, 0, sizeof(roles->last));
	for (size_t i = 0; i < n; i++) {
		int64_t *last = &roles->last[roles->keys[i] % SC_FORM_KEYS];

		out[i] = sc_zigzag((uint64_t)v[i] - (uint64_t)*last);
		*last = v[i];
	}
}

static void by_key_values(struct sc_column_roles *roles, const uint64_t *residuals, size_t n,
			  int64_t *v)
{
	memset(roles->last, 0, sizeof(roles->last));
	for (size_t i = 0; i < n; i++) {
		int64_t *last = &roles->last[roles->keys[i] % SC_FORM_KEYS];

		v[i] = *last = (int64_t)(sc_unzigzag(residuals[i]) + (uint64_t)*last);
	}
}

/* Differences wrap: any values are exact. */
static void form_residuals(struct sc_column_roles *roles, enum sc_column_form form,
			   const int64_t *values, size_t n, uint64_t *residuals)
{
	uint64_t last = 0;

	if (form == SC_FORM_BY_KEY) {
		by_key_residuals(roles, values, n, residuals);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t value = (uint64_t)values[i];

		if (form == SC_FORM_LIKE_CALL)
			last = (uint64_t)roles->calls[i];
		residuals[i] = sc_zigzag(value - last);
		if (form == SC_FORM_DELTA)
			last = value;
		else if (form == SC_FORM_GAP)
			last = value + (uint64_t)roles->durations[i];
	}
}

static void form_values(struct sc_column_roles *roles, enum sc_column_form form,
			const uint64_t *residuals, size_t n, int64_t *values)
{
	uint64_t last = 0;

	if (form == SC_FORM_BY_KEY) {
		by_key_values(roles, residuals, n, values);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (form == SC_FORM_LIKE_CALL)
			last = (uint64_t)roles->calls[i];
		values[i] = (int64_t)(sc_unzigzag(residuals[i]) + last);
		if (form == SC_FORM_DELTA)
			last = (uint64_t)values[i];
		else if (form == SC_FORM_GAP)
			last = (uint64_t)values[i] + (uint64_t)roles->durations[i];
	}
}

/* --- which one --- */

/* About the bits that residuals take; 0 is nearly free. */
static uint64_t cost(const uint64_t *residuals, size_t n)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < n; i++)
		bits += residuals[i] ? 66 - (unsigned)__builtin_clzll(residuals[i]) : 0;
	return bits;
}

/* Those that are possible for this field. */
static unsigned form_candidates(const struct sc_column_roles *roles,
				const struct sc_column_field *field)
{
	unsigned forms = 1u << SC_FORM_PLAIN | 1u << SC_FORM_DELTA;

	if (field->role == SC_FIELD_START)
		return forms | 1u << SC_FORM_GAP;
	if (roles->has_keys)
		forms |= 1u << SC_FORM_BY_KEY;
	if (roles->has_calls && field->role == SC_FIELD_LIKE_CALL)
		forms |= 1u << SC_FORM_LIKE_CALL;
	return forms;
}

/* The form whose residuals have the fewest bits, of those in `forms`: 1 << enum sc_column_form. */
static enum sc_column_form form_choose(struct sc_column_roles *roles, unsigned forms,
				       const int64_t *values, size_t n, uint64_t *scratch)
{
	uint64_t least = UINT64_MAX;
	enum sc_column_form best = SC_FORM_PLAIN;

	if (n > N_SAMPLED)
		n = N_SAMPLED;
	for (unsigned form = SC_FORM_PLAIN; form < SC_N_FORMS; form++) {
		uint64_t bits;

		if (!(forms >> form & 1))
			continue;
		form_residuals(roles, (enum sc_column_form)form, values, n, scratch);
		bits = cost(scratch, n);
		if (bits < least) {
			least = bits;
			best = (enum sc_column_form)form;
		}
	}
	return best;
}

/* --- units --- */

static uint64_t magnitude(uint64_t residual)
{
	return (residual >> 1) + (residual & 1);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Residuals after the first are multiples of the unit, and then told as how many. Returns it; 1: there is
 * none that is worth its byte. */
static uint64_t form_divide(uint64_t *residuals, size_t n)
{
	uint64_t unit = 0;

	for (size_t i = 1; i < n && unit != 1; i++) {
		if (residuals[i] && (!unit || magnitude(residuals[i]) % unit))
			unit = common_divisor(magnitude(residuals[i]), unit);
	}
	if (unit < 2 || (n - 1) * (63 - (unsigned)__builtin_clzll(unit)) < MIN_UNIT_GAIN)
		return 1;
	for (size_t i = 1; i < n; i++) {
		if (residuals[i])
			residuals[i] = magnitude(residuals[i]) / unit * 2 - (residuals[i] & 1);
	}
	return unit;
}

static void form_multiply(uint64_t *residuals, size_t n, uint64_t unit)
{
	for (size_t i = 1; i < n; i++)
		residuals[i] = sc_zigzag(sc_unzigzag(residuals[i]) * unit);
}

enum {
	MIN_PACKED = 24, /* shorter columns are not worth a zstd header */
	PACK_LEVEL = 3,
	TEXT_PACK_LEVEL = 12, /* written once, and most of a small file */
	RAW_BYTES = SC_FRAME_MAX_TEXT,
	MAX_COLUMN_HEADER = 2 + 3 * SC_MAX_VARINT,
#ifndef SC_NO_ZSTD
	PACKS = 1
#else
	PACKS = 0
#endif
};
static_assert(RAW_BYTES >= SC_FRAME_MAX_ROWS * SC_MAX_VARINT, "numbers need more");

struct sc_column_coder {
	int64_t values[SC_FRAME_MAX_ROWS];
	uint64_t residuals[SC_FRAME_MAX_ROWS];
	struct sc_column_roles roles;
	uint8_t raw[RAW_BYTES];
#ifndef SC_NO_ZSTD
	uint8_t packed[RAW_BYTES];
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

/* --- rows to values and back --- */

#define GATHER(type)                                                                        \
	for (size_t i = 0; i < n; i++) {                                                    \
		type value_;                                                                \
		memcpy(&value_, from + (order ? order[i] : i) * row_bytes, sizeof(value_)); \
		to[i] = value_;                                                             \
	}                                                                                   \
	break

static void gather(const struct sc_column_field *field, const struct sc_row_set *set,
		   const uint8_t *from, int64_t *to)
{
	const size_t row_bytes = set->format->row_bytes, n = set->n;
	const uint32_t *order = set->order;

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
static bool scatter(const struct sc_column_field *field, const struct sc_row_set *set,
		    const int64_t *from, uint8_t *to)
{
	const size_t row_bytes = set->format->row_bytes, n = set->n;
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

/* --- columns --- */

/* A column as it will be stored. */
struct stored {
	unsigned form; /* with flags */
	uint64_t unit;
	size_t n_raw, n;
	const uint8_t *at;
};

static void put_column(const struct sc_column_field *field, const struct stored *column,
		       struct sc_payload *out)
{
	uint8_t *at = out->at + out->n;

	assert(out->n + column->n + MAX_COLUMN_HEADER <= SC_FRAME_MAX_PAYLOAD);
	*at++ = field->id;
	*at++ = (uint8_t)column->form;
	if (column->form & SC_FORM_UNIT)
		at = sc_put_varint(at, column->unit);
	at = sc_put_varint(at, column->n_raw);
	at = sc_put_varint(at, column->n);
	memcpy(at, column->at, column->n);
	out->n = (size_t)(at + column->n - out->at);
}

/* The first n_raw bytes of c->raw, packed if that is shorter. */
static void pack(struct sc_column_coder *c, size_t n_raw, struct stored *column)
{
	column->n_raw = column->n = n_raw;
	column->at = c->raw;
#ifndef SC_NO_ZSTD
	if (n_raw >= MIN_PACKED) {
		int level = column->form == SC_FORM_BYTES ? TEXT_PACK_LEVEL : PACK_LEVEL;
		size_t n;

		ZSTD_CCtx_setParameter(c->pack, ZSTD_c_compressionLevel, level);
		n = ZSTD_compress2(c->pack, c->packed, n_raw - 1, c->raw, n_raw);
		if (!ZSTD_isError(n)) {
			column->n = n;
			column->at = c->packed;
			column->form |= SC_FORM_ZSTD;
		}
	}
#endif
}

/* The column of what is in c->values; not all are the same. */
static void put_varied(struct sc_column_coder *c, const struct sc_column_field *field, size_t n,
		       struct sc_payload *out)
{
	unsigned forms = form_candidates(&c->roles, field);
	enum sc_column_form form = form_choose(&c->roles, forms, c->values, n, c->residuals);
	struct stored column = {.form = form};
	uint8_t *at = c->raw;

	form_residuals(&c->roles, form, c->values, n, c->residuals);
	column.unit = PACKS ? form_divide(c->residuals, n) : 1;
	column.form |= column.unit > 1 ? SC_FORM_UNIT : 0;
	for (size_t i = 0; i < n; i++)
		at = sc_put_varint(at, c->residuals[i]);
	pack(c, (size_t)(at - c->raw), &column);
	put_column(field, &column, out);
}

/* None if it is 0 in all rows. */
static void put_values(struct sc_column_coder *c, const struct sc_column_field *field, size_t n,
		       struct sc_payload *out)
{
	struct stored column = {.form = SC_FORM_CONSTANT};
	size_t n_equal = 1;
	uint8_t *at;

	while (n_equal < n && c->values[n_equal] == c->values[0])
		n_equal++;
	if (n_equal < n)
		put_varied(c, field, n, out);
	if (n_equal < n || n == 0 || c->values[0] == 0)
		return;
	at = sc_put_varint(c->raw, sc_zigzag((uint64_t)c->values[0]));
	pack(c, (size_t)(at - c->raw), &column);
	put_column(field, &column, out);
}

void sc_columns_put(struct sc_column_coder *coder, const struct sc_row_set *set, const void *rows,
		    struct sc_payload *out)
{
	const struct sc_row_format *format = set->format;
	size_t n = set->n;

	assert(n <= SC_FRAME_MAX_ROWS);
	column_roles_clear(&coder->roles, n);
	for (size_t i = 0; i < format->n_fields; i++) {
		const struct sc_column_field *field = &format->fields[i];

		gather(field, set, rows, coder->values);
		put_values(coder, field, n, out);
		column_roles_keep(&coder->roles, field, coder->values, n);
	}
}

/* --- texts --- */

/* Into c->raw. Returns the bytes. */
static size_t gather_texts(struct sc_column_coder *c, const struct sc_text *texts, size_t n)
{
	size_t n_bytes = 0;

	for (size_t i = 0; i < n; i++) {
		assert(texts[i].n <= RAW_BYTES - n_bytes);
		if (texts[i].n)
			memcpy(c->raw + n_bytes, texts[i].at, texts[i].n);
		n_bytes += texts[i].n;
	}
	return n_bytes;
}

void sc_columns_put_texts(struct sc_column_coder *coder, const struct sc_text *texts, size_t n,
			  struct sc_payload *out)
{
	static const struct sc_column_field lengths = {.id = SC_COLUMN_LENGTHS};
	static const struct sc_column_field text = {.id = SC_COLUMN_TEXT};
	struct stored column = {.form = SC_FORM_BYTES};
	size_t n_bytes;

	assert(n <= SC_FRAME_MAX_ROWS);
	for (size_t i = 0; i < n; i++)
		coder->values[i] = (int64_t)texts[i].n;
	column_roles_clear(&coder->roles, n);
	put_values(coder, &lengths, n, out);
	n_bytes = gather_texts(coder, texts, n);
	if (!n_bytes)
		return;
	pack(coder, n_bytes, &column);
	put_column(&text, &column, out);
}

/* --- reading --- */

struct column {
	uint8_t id, form, flags;
	uint64_t unit;
	const uint8_t *raw; /* the bytes unpacked */
	size_t n_raw, n_stored;
};
static const uint8_t FLAGS = SC_FORM_UNIT | SC_FORM_ZSTD;

static bool unpack(struct sc_column_coder *c, struct column *column)
{
#ifndef SC_NO_ZSTD
	size_t n;

	if (column->n_raw > RAW_BYTES)
		return false;
	n = ZSTD_decompressDCtx(c->unpack, c->raw, column->n_raw, column->raw, column->n_stored);
	column->raw = c->raw;
	return !ZSTD_isError(n) && n == column->n_raw;
#else
	(void)c, (void)column;
	return false;
#endif
}

/* Its header; *at moves behind it and the bytes. */
static bool get_header(const uint8_t **at, const uint8_t *end, struct column *out)
{
	uint64_t n_raw, n_stored;

	if (end - *at < 4)
		return false;
	out->id = (*at)[0];
	out->flags = (*at)[1] & FLAGS;
	out->form = (*at)[1] & (uint8_t)~FLAGS;
	out->unit = 1;
	*at += 2;
	if (out->flags & SC_FORM_UNIT)
		*at = sc_get_varint(*at, end, &out->unit);
	*at = *at ? sc_get_varint(*at, end, &n_raw) : NULL;
	*at = *at ? sc_get_varint(*at, end, &n_stored) : NULL;
	if (!*at || n_stored > (uint64_t)(end - *at))
		return false;
	out->n_raw = (size_t)n_raw;
	out->n_stored = (size_t)n_stored;
	out->raw = *at;
	*at += n_stored;
	return true;
}

/* The next column, without its bytes if it is not `wanted`; *at moves behind it. */
static bool next_column(struct sc_column_coder *c, struct sc_slice *from, uint64_t wanted,
			struct column *out)
{
	if (!get_header(&from->at, from->end, out))
		return false;
	if (out->id > SC_COLUMN_MAX_ID || !(wanted >> out->id & 1))
		return true;
	return out->flags & SC_FORM_ZSTD ? unpack(c, out) : out->n_raw == out->n_stored;
}

/* The values of a column into c->values. */
static bool get_values(struct sc_column_coder *c, const struct column *column, size_t n)
{
	const uint8_t *at = column->raw, *end = at + column->n_raw;

	if (column->form > SC_FORM_BY_KEY && column->form != SC_FORM_LIKE_CALL)
		return false;
	if (column->form == SC_FORM_CONSTANT) {
		uint64_t value = 0;

		if (sc_get_varint(at, end, &value) != end)
			return false;
		for (size_t i = 0; i < n; i++)
			c->values[i] = (int64_t)sc_unzigzag(value);
		return true;
	}
	for (size_t i = 0; at && i < n; i++)
		at = sc_get_varint(at, end, &c->residuals[i]);
	if (at != end)
		return false;
	if (column->unit != 1)
		form_multiply(c->residuals, n, column->unit);
	form_values(&c->roles, (enum sc_column_form)column->form, c->residuals, n, c->values);
	return true;
}

bool sc_columns_get(struct sc_column_coder *coder, struct sc_slice payload,
		    const struct sc_row_set *set, void *rows)
{
	const struct sc_row_format *format = set->format;
	size_t n = set->n;
	uint64_t wanted = 0;
	struct column column;

	if (n > SC_FRAME_MAX_ROWS)
		return false;
	for (size_t i = 0; i < format->n_fields; i++)
		wanted |= UINT64_C(1) << format->fields[i].id;
	memset(rows, 0, n * format->row_bytes);
	column_roles_clear(&coder->roles, n);
	while (payload.at < payload.end) {
		const struct sc_column_field *field = format->fields;

		if (!next_column(coder, &payload, wanted, &column))
			return false;
		if (column.id > SC_COLUMN_MAX_ID || !(wanted >> column.id & 1))
			continue;
		wanted &= ~(UINT64_C(1) << column.id); /* once only */
		while (field->id != column.id)
			field++;
		if (!get_values(coder, &column, n) || !scatter(field, set, coder->values, rows))
			return false;
		column_roles_keep(&coder->roles, field, coder->values, n);
	}
	return true;
}

/* --- reading texts --- */

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

bool sc_columns_get_texts(struct sc_column_coder *coder, struct sc_slice payload,
			  struct sc_text *texts, size_t n)
{
	static const uint64_t wanted = UINT64_C(1) << SC_COLUMN_LENGTHS | UINT64_C(1)
										  << SC_COLUMN_TEXT;
	struct column column, text = {.form = SC_FORM_BYTES, .raw = (const uint8_t *)""};

	if (n > SC_FRAME_MAX_ROWS)
		return false;
	memset(coder->values, 0, n * sizeof(*coder->values));
	column_roles_clear(&coder->roles, n);
	while (payload.at < payload.end) {
		if (!next_column(coder, &payload, wanted, &column))
			return false;
		if (column.id == SC_COLUMN_LENGTHS && !get_values(coder, &column, n))
			return false;
		if (column.id == SC_COLUMN_TEXT) {
			text = column;
			break; /* the last one: its bytes stay where they are */
		}
	}
	return text.form == SC_FORM_BYTES && share_out(&text, coder->values, n, texts);
}
