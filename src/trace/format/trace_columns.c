/* A column in a payload: u8 id, u8 form (low bits: how values are predicted; bit 7: packed), varint
 * bytes unpacked, varint bytes stored, then these bytes. Knows nothing of frames. */
#include "trace/format/trace_columns.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#ifndef SC_NO_ZSTD
#include <zstd.h>
#endif

#include "trace/format/column_times.h"

enum {
	MIN_PACKED = 24, /* shorter columns are not worth a zstd header */
	/* zstd's levels: times are noise, other numbers are few once they repeat; texts are written
	 * once, and most of a small file. */
	TIMES_LEVEL = 1,
	NUMBERS_LEVEL = 7,
	TEXT_LEVEL = 13,
	RAW_BYTES = SC_TIMES_MAX_BYTES,
	MAX_COLUMN_HEADER = 2 + 2 * SC_MAX_VARINT,
	N_SLOTS = 4096,  /* keys that are told apart */
	N_SAMPLED = 2048 /* rows from which the form is chosen */
};
static_assert(RAW_BYTES >= SC_FRAME_MAX_ROWS * SC_MAX_VARINT, "numbers need more");
static_assert((size_t)RAW_BYTES >= SC_FRAME_MAX_TEXT, "texts need more");

/* The column of each role: the one at hand, and those before it that it is predicted from; 0 in all
 * rows if the frame has none. */
struct roles {
	int64_t columns[SC_N_FIELD_ROLES][SC_FRAME_MAX_ROWS];
	unsigned has;          /* 1 << role: of those that came before */
	int64_t last[N_SLOTS]; /* values of a key */
};
struct sc_column_coder {
	uint64_t residuals[SC_FRAME_MAX_ROWS];
	struct roles roles;
	struct sc_times *times;
	uint8_t raw[RAW_BYTES];
#ifndef SC_NO_ZSTD
	uint8_t packed[RAW_BYTES];
	ZSTD_CCtx *pack;
	ZSTD_DCtx *unpack;
#endif
};

struct sc_column_coder *sc_column_coder_create(void)
{
	struct sc_column_coder *coder = calloc(1, sizeof(*coder));
	bool good = coder && (coder->times = sc_times_create());

#ifndef SC_NO_ZSTD
	good = good && (coder->pack = ZSTD_createCCtx()) && (coder->unpack = ZSTD_createDCtx());
#endif
	if (!good) {
		sc_column_coder_destroy(coder);
		return NULL;
	}
#ifndef SC_NO_ZSTD
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
	sc_times_destroy(coder->times);
	free(coder);
}

static bool is_time(const struct sc_column_field *field)
{
	return field->role == SC_FIELD_START || field->role == SC_FIELD_DURATION;
}

/* --- rows to values and back --- */

#define GATHER(type)                                                                        \
	for (size_t i = 0; i < n; i++) {                                                    \
		type value_;                                                                \
		memcpy(&value_, from + (order ? order[i] : i) * row_bytes, sizeof(value_)); \
		to[i] = value_;                                                             \
	}                                                                                   \
	break

static void gather_column(const struct sc_column_field *field, const struct sc_row_set *set,
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
static bool scatter_column(const struct sc_column_field *field, const struct sc_row_set *set,
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

/* --- forms: how the values of a column get small ---
 * Each is told as what is left of it after a prediction from the rows and columns before it, of the
 * simplest kind: the row before, what the key had before. What repeats beyond that, as the steps of
 * a run, is left to zstd. Residuals are zigzag coded: small ones of both signs are small. All is
 * exact: differences wrap. */

static inline int64_t *last_of(struct roles *roles, size_t row)
{
	static_assert(N_SLOTS == 1 << 12, "the shift below");
	return &roles->last[(uint32_t)roles->columns[SC_FIELD_KEY][row] * 0x9E3779B1u >> 20];
}

/* The value that is subtracted from that of row i. */
static inline uint64_t expected_value(struct roles *roles, enum sc_column_form form,
				      const int64_t *values, size_t i)
{
	switch (form) {
	case SC_FORM_DELTA:
		return i ? (uint64_t)values[i - 1] : 0;
	case SC_FORM_BY_KEY:
		return (uint64_t)*last_of(roles, i);
	case SC_FORM_LIKE_CALL:
		return (uint64_t)roles->columns[SC_FIELD_CALL][i];
	default:
		return 0;
	}
}

static void residuals_of(struct roles *roles, enum sc_column_form form, const int64_t *values,
			 size_t n, uint64_t *residuals)
{
	if (form == SC_FORM_BY_KEY)
		memset(roles->last, 0, sizeof(roles->last));
	for (size_t i = 0; i < n; i++) {
		residuals[i] =
			sc_zigzag((uint64_t)values[i] - expected_value(roles, form, values, i));
		if (form == SC_FORM_BY_KEY)
			*last_of(roles, i) = values[i];
	}
}

static void values_of(struct roles *roles, enum sc_field_role role, enum sc_column_form form,
		      size_t n, const uint64_t *residuals)
{
	int64_t *values = roles->columns[role];

	if (form == SC_FORM_BY_KEY)
		memset(roles->last, 0, sizeof(roles->last));
	for (size_t i = 0; i < n; i++) {
		values[i] = (int64_t)(sc_unzigzag(residuals[i]) +
				      expected_value(roles, form, values, i));
		if (form == SC_FORM_BY_KEY)
			*last_of(roles, i) = values[i];
	}
}

static enum sc_column_form best_residuals(struct roles *roles, enum sc_field_role role, size_t n,
					  uint64_t *residuals)
{
	const int64_t *values = roles->columns[role];
	const bool is_possible[SC_N_FORMS] = {
		[SC_FORM_PLAIN] = true,
		[SC_FORM_DELTA] = true,
		[SC_FORM_BY_KEY] = roles->has >> SC_FIELD_KEY & 1,
		[SC_FORM_LIKE_CALL] = roles->has >> SC_FIELD_CALL & 1 && role == SC_FIELD_LIKE_CALL,
	};
	uint64_t least = UINT64_MAX;
	enum sc_column_form best = SC_FORM_PLAIN;

	for (unsigned form = SC_FORM_PLAIN; form < SC_N_FORMS; form++) {
		size_t n_sampled = n < N_SAMPLED ? n : N_SAMPLED;
		uint64_t bits = 0; /* about what they take; 0 is nearly free */

		if (!is_possible[form])
			continue;
		residuals_of(roles, (enum sc_column_form)form, values, n_sampled, residuals);
		for (size_t i = 0; i < n_sampled; i++)
			bits += residuals[i] ? 66 - (unsigned)__builtin_clzll(residuals[i]) : 0;
		if (bits < least) {
			least = bits;
			best = (enum sc_column_form)form;
		}
	}
	residuals_of(roles, best, values, n, residuals);
	return best;
}

/* --- columns --- */

/* A column as it will be stored. */
struct stored {
	unsigned form; /* with the flag */
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
	at = sc_put_varint(at, column->n_raw);
	at = sc_put_varint(at, column->n);
	memcpy(at, column->at, column->n);
	out->n = (size_t)(at + column->n - out->at);
}

/* The first n_raw bytes of c->raw, packed if that is shorter; of `parts` that add up to n_raw each
 * has its own statistics. */
static void pack_column(struct sc_column_coder *c, size_t n_raw, const size_t *parts,
			size_t n_parts, struct stored *column)
{
	column->n_raw = column->n = n_raw;
	column->at = c->raw;
#ifndef SC_NO_ZSTD
	if (n_raw >= MIN_PACKED) {
		ZSTD_outBuffer out = {c->packed, n_raw - 1, 0};
		ZSTD_inBuffer in = {c->raw, 0, 0};
		size_t left = 0;

		ZSTD_CCtx_reset(c->pack, ZSTD_reset_session_only);
		ZSTD_CCtx_setParameter(c->pack, ZSTD_c_compressionLevel,
				       column->form == SC_FORM_BYTES   ? TEXT_LEVEL
				       : column->form == SC_FORM_TIMES ? TIMES_LEVEL
								       : NUMBERS_LEVEL);
		if (column->form == SC_FORM_BYTES)
			ZSTD_CCtx_setPledgedSrcSize(c->pack, n_raw);
		for (size_t i = 0; i < n_parts && left == 0; i++) {
			in.size += parts[i];
			left = ZSTD_compressStream2(c->pack, &out, &in,
						    i + 1 < n_parts ? ZSTD_e_flush : ZSTD_e_end);
		}
		if (left == 0) {
			column->n = out.pos;
			column->at = c->packed;
			column->form |= SC_FORM_ZSTD;
		}
	}
#else
	(void)parts, (void)n_parts;
#endif
}

/* The column of a field whose values are not all the same. */
static void put_varied(struct sc_column_coder *c, const struct sc_column_field *field, size_t n,
		       struct sc_payload *out)
{
	struct stored column = {.form = best_residuals(&c->roles, field->role, n, c->residuals)};
	uint8_t *at = c->raw;
	size_t n_raw;

	for (size_t i = 0; i < n; i++)
		at = sc_put_varint(at, c->residuals[i]);
	n_raw = (size_t)(at - c->raw);
	pack_column(c, n_raw, &n_raw, 1, &column);
	put_column(field, &column, out);
}

static struct sc_times_rows times_rows(struct sc_column_coder *c, size_t n)
{
	return (struct sc_times_rows){
		c->roles.columns[SC_FIELD_START], c->roles.columns[SC_FIELD_DURATION],
		c->roles.columns[SC_FIELD_DEPTH], c->roles.columns[SC_FIELD_KEY], n};
}

/* None if it is 0 in all rows; depths are always said, so that times are known to be nested. */
static void put_values(struct sc_column_coder *c, const struct sc_column_field *field, size_t n,
		       struct sc_payload *out)
{
	const int64_t *values = c->roles.columns[field->role];
	struct stored column = {.form = SC_FORM_CONSTANT};
	size_t n_equal = 1, n_raw;

	while (n_equal < n && values[n_equal] == values[0])
		n_equal++;
	if (n_equal < n) {
		put_varied(c, field, n, out);
	} else if (n && (values[0] || field->role == SC_FIELD_DEPTH)) {
		n_raw = (size_t)(sc_put_varint(c->raw, sc_zigzag((uint64_t)values[0])) - c->raw);
		pack_column(c, n_raw, &n_raw, 1, &column);
		put_column(field, &column, out);
	}
}

void sc_columns_put(struct sc_column_coder *coder, const struct sc_row_set *set, const void *rows,
		    struct sc_payload *out)
{
	const struct sc_row_format *format = set->format;
	size_t n = set->n;
	const struct sc_column_field *end = format->fields + format->n_fields;
	const struct sc_times_rows times = times_rows(coder, n);
	size_t parts[SC_TIMES_MAX_PARTS], n_parts;

	assert(n <= SC_FRAME_MAX_ROWS);
	coder->roles.has = 0;
	for (const struct sc_column_field *field = format->fields; field < end; field++) {
		if (is_time(field) && coder->roles.has >> SC_FIELD_TIMES & 1)
			continue;
		if (field->role == SC_FIELD_TIMES) {
			struct stored column = {.form = SC_FORM_TIMES};
			const size_t n_raw =
				sc_times_put(coder->times, &times, coder->raw, parts, &n_parts);

			pack_column(coder, n_raw, parts, n_parts, &column);
			put_column(field, &column, out);
		} else if (field->role == SC_FIELD_DEPTH) {
			/* A table with depths has starts and durations. */
			for (const struct sc_column_field *time = field; time < end; time++)
				if (is_time(time))
					gather_column(time, set, rows,
						      coder->roles.columns[time->role]);
			sc_times_nest(coder->times, &times);
			put_values(coder, field, n, out);
		} else {
			gather_column(field, set, rows, coder->roles.columns[field->role]);
			put_values(coder, field, n, out);
		}
		coder->roles.has |= 1u << field->role;
	}
}

/* --- texts --- */

static const struct sc_column_field lengths = {.id = SC_COLUMN_LENGTHS};

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
	static const struct sc_column_field text = {.id = SC_COLUMN_TEXT};
	struct stored column = {.form = SC_FORM_BYTES};
	size_t n_bytes;

	assert(n <= SC_FRAME_MAX_ROWS);
	for (size_t i = 0; i < n; i++)
		coder->roles.columns[SC_FIELD_VALUE][i] = (int64_t)texts[i].n;
	coder->roles.has = 0;
	put_values(coder, &lengths, n, out);
	n_bytes = gather_texts(coder, texts, n);
	if (!n_bytes)
		return;
	pack_column(coder, n_bytes, &n_bytes, 1, &column);
	put_column(&text, &column, out);
}

/* --- reading --- */

static void clear_roles(struct roles *roles, size_t n)
{
	for (size_t role = 0; role < SC_N_FIELD_ROLES; role++)
		memset(roles->columns[role], 0, n * sizeof(**roles->columns));
	roles->has = 0;
}

struct column {
	uint8_t id, form;
	bool is_packed;
	const uint8_t *raw; /* the bytes unpacked */
	size_t n_raw, n_stored;
};

static bool unpack_column(struct sc_column_coder *c, struct column *column)
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
	out->is_packed = (*at)[1] & SC_FORM_ZSTD;
	out->form = (*at)[1] & (uint8_t)~SC_FORM_ZSTD;
	*at = sc_get_varint(*at + 2, end, &n_raw);
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
	return out->is_packed ? unpack_column(c, out) : out->n_raw == out->n_stored;
}

/* The values of a column into those of its role. */
static bool get_values(struct sc_column_coder *c, const struct sc_column_field *field,
		       const struct column *column, size_t n)
{
	int64_t *values = c->roles.columns[field->role];
	bool is_constant = column->form == SC_FORM_CONSTANT;
	const uint8_t *at = column->raw, *end = at + column->n_raw;

	if (field->role == SC_FIELD_TIMES) {
		const struct sc_times_rows rows = times_rows(c, n);

		return column->form == SC_FORM_TIMES && (c->roles.has >> SC_FIELD_DEPTH & 1) &&
		       sc_times_get(c->times, &rows, column->raw, column->n_raw);
	}
	if (column->form > SC_FORM_BY_KEY && column->form != SC_FORM_LIKE_CALL)
		return false;
	for (size_t i = 0; at && i < (is_constant ? 1 : n); i++)
		at = sc_get_varint(at, end, &c->residuals[i]);
	if (at != end)
		return false;
	for (size_t i = 0; is_constant && i < n; i++)
		values[i] = (int64_t)sc_unzigzag(c->residuals[0]);
	if (is_constant)
		return true;
	values_of(&c->roles, field->role, (enum sc_column_form)column->form, n, c->residuals);
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
	clear_roles(&coder->roles, n);
	while (payload.at < payload.end) {
		const struct sc_column_field *field = format->fields;

		if (!next_column(coder, &payload, wanted, &column))
			return false;
		if (column.id > SC_COLUMN_MAX_ID || !(wanted >> column.id & 1))
			continue;
		wanted &= ~(UINT64_C(1) << column.id); /* once only */
		while (field->id != column.id)
			field++;
		if (!get_values(coder, field, &column, n))
			return false;
		coder->roles.has |= 1u << field->role;
		if (!is_time(field) && field->role != SC_FIELD_DEPTH &&
		    field->role != SC_FIELD_TIMES &&
		    !scatter_column(field, set, coder->roles.columns[field->role], rows))
			return false;
	}
	/* Times may be of their own columns, or of one for both; that one comes with depths. */
	if ((coder->roles.has >> SC_FIELD_DEPTH & 1) != (coder->roles.has >> SC_FIELD_TIMES & 1))
		return false;
	for (size_t i = 0; i < format->n_fields; i++) {
		const struct sc_column_field *field = &format->fields[i];

		if (is_time(field) &&
		    !scatter_column(field, set, coder->roles.columns[field->role], rows))
			return false;
	}
	return true;
}

/* --- reading texts --- */

static bool share_out(const struct column *text, const int64_t *n_bytes, size_t n,
		      struct sc_text *texts)
{
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		if (n_bytes[i] < 0 || (uint64_t)n_bytes[i] > text->n_raw - used)
			return false;
		texts[i].at = (const char *)text->raw + used;
		texts[i].n = (size_t)n_bytes[i];
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
	clear_roles(&coder->roles, n);
	while (payload.at < payload.end) {
		if (!next_column(coder, &payload, wanted, &column))
			return false;
		if (column.id == SC_COLUMN_LENGTHS && !get_values(coder, &lengths, &column, n))
			return false;
		if (column.id == SC_COLUMN_TEXT) {
			text = column;
			break; /* the last one: its bytes stay where they are */
		}
	}
	return text.form == SC_FORM_BYTES &&
	       share_out(&text, coder->roles.columns[SC_FIELD_VALUE], n, texts);
}
