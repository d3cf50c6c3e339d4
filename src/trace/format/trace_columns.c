/* A column in a payload: u8 id, u8 form (low bits: how values are predicted; high bits: flags), varint unit if
 * the form has one, varint bytes unpacked, varint bytes stored, then these bytes. Knows nothing of frames or
 * what rows mean. */
#include "trace/format/trace_columns.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "trace/format/column_forms.h"
#ifndef SC_NO_ZSTD
#include <zstd.h>
#endif

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
	unsigned forms = sc_form_candidates(&c->roles, field);
	enum sc_column_form form = sc_form_choose(&c->roles, forms, c->values, n, c->residuals);
	struct stored column = {.form = form};
	uint8_t *at = c->raw;

	sc_form_residuals(&c->roles, form, c->values, n, c->residuals);
	column.unit = PACKS ? sc_form_divide(c->residuals, n) : 1;
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
	sc_column_roles_clear(&coder->roles, n);
	for (size_t i = 0; i < format->n_fields; i++) {
		const struct sc_column_field *field = &format->fields[i];

		gather(field, set, rows, coder->values);
		put_values(coder, field, n, out);
		sc_column_roles_keep(&coder->roles, field, coder->values, n);
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
	sc_column_roles_clear(&coder->roles, n);
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

	if (!sc_form_is_number(column->form))
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
		sc_form_multiply(c->residuals, n, column->unit);
	sc_form_values(&c->roles, (enum sc_column_form)column->form, c->residuals, n, c->values);
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
	sc_column_roles_clear(&coder->roles, n);
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
		sc_column_roles_keep(&coder->roles, field, coder->values, n);
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
	sc_column_roles_clear(&coder->roles, n);
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
