/* Each begin and end is expected after the last two begins and ends, and after the last 15: what
 * followed them before, whichever of the two was less often wrong. What a value misses it by is a
 * token, packed with those of like certainty, and bits that nothing foretells. */
#include "trace/format/column_times.h"

#include <stdlib.h>
#include <string.h>

enum {
	SLOT_BITS = 14, /* contexts that are told apart */
	LONG = 16,      /* begins and ends that make the longer context; a power of 2 */
	SHORT = 4,
	SLACK = 8,   /* a value may differ so much from what is expected, and count in full */
	DIRECT = 16, /* smaller values are their own tokens */
	MAX_SPREAD_BITS = 60,
	MAX_SLACK = 4,    /* ns that a multiple of a unit may be off */
	N_PER_ODD = 6,    /* values of which one may be no multiple */
	N_SAMPLED = 2048, /* begins and ends from which the unit is chosen */
	MIN_PART = 64     /* shorter parts are not worth statistics of their own */
};
static const uint64_t FACTOR = 0x9E3779B97F4A7C15u;

/* The values that followed a context. */
struct slot {
	int64_t mean;
	uint64_t spread; /* mean distance from it */
	uint32_t frame, n;
};
struct sc_times {
	struct slot slots[2][1 << SLOT_BITS];
	uint32_t frame;
	/* The begins and ends that came last, and sums of them, the latest in full, older ones
	 * times powers. */
	uint64_t recent[LONG], sums[2], powers[2];
	size_t n_seen;
	/* In order of time: the row, times 2, and 1 for ends. */
	uint32_t order[2 * SC_FRAME_MAX_ROWS];
	int64_t values[2 * SC_FRAME_MAX_ROWS];
	uint64_t remainders[2 * SC_FRAME_MAX_ROWS];
	uint8_t tokens[2 * SC_FRAME_MAX_ROWS], classes[2 * SC_FRAME_MAX_ROWS];
	uint8_t bits[2 * SC_FRAME_MAX_ROWS * sizeof(uint64_t) + sizeof(uint64_t)];
	/* Rows that are open, the innermost last. */
	uint64_t open_ends[SC_FRAME_MAX_ROWS];
	uint32_t open_rows[SC_FRAME_MAX_ROWS];
};

struct sc_times *sc_times_create(void)
{
	return calloc(1, sizeof(struct sc_times));
}

void sc_times_destroy(struct sc_times *times)
{
	free(times);
}

/* --- begins and ends --- */

void sc_times_nest(struct sc_times *times, const struct sc_times_rows *rows)
{
	uint64_t *ends = times->open_ends;
	size_t n_open = 0;

	for (size_t i = 0; i < rows->n; i++) {
		int64_t start = rows->starts[i];

		if (i && start < rows->starts[i - 1])
			n_open = 0;
		while (n_open && (int64_t)ends[n_open - 1] <= start)
			n_open--;
		rows->depths[i] = (int64_t)n_open;
		ends[n_open++] = (uint64_t)start + (uint64_t)rows->durations[i];
	}
}

/* False: a row is deeper than there are open ones. */
static bool set_order(struct sc_times *times, const struct sc_times_rows *rows)
{
	uint32_t *order = times->order;
	int64_t n_open = 0;

	for (size_t i = 0; i <= rows->n; i++) {
		int64_t depth = i < rows->n ? rows->depths[i] : 0;

		if (depth < 0 || depth > n_open)
			return false;
		while (n_open > depth)
			*order++ = times->open_rows[--n_open] << 1 | 1;
		if (i < rows->n) {
			*order++ = (uint32_t)i << 1;
			times->open_rows[n_open++] = (uint32_t)i;
		}
	}
	return true;
}

/* --- what is expected --- */

struct expected {
	struct slot *after[2];
	int64_t mean;
	unsigned cls; /* how well it is known */
};

static void begin_frame(struct sc_times *times)
{
	static const unsigned lengths[] = {SHORT, LONG};

	if (++times->frame == 0) {
		memset(times->slots, 0, sizeof(times->slots));
		times->frame = 1;
	}
	memset(times->recent, 0, sizeof(times->recent));
	times->n_seen = 0;
	for (unsigned i = 0; i < 2; i++) {
		times->sums[i] = 0;
		times->powers[i] = 1;
		for (unsigned k = 0; k < lengths[i]; k++)
			times->powers[i] *= FACTOR;
	}
}

static unsigned bits_of(uint64_t value)
{
	return value ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

static inline struct expected expect_time(struct sc_times *t, int64_t name, uint32_t is_end)
{
	uint64_t symbol = ((uint64_t)name * 2 + is_end + 1) * FACTOR;
	struct expected e = {.cls = SC_TIMES_CLASSES - 1};
	const struct slot *best = NULL;

	t->sums[0] =
		t->sums[0] * FACTOR + symbol - t->recent[(t->n_seen - SHORT) % LONG] * t->powers[0];
	t->sums[1] = t->sums[1] * FACTOR + symbol - t->recent[t->n_seen % LONG] * t->powers[1];
	t->recent[t->n_seen++ % LONG] = symbol;
	for (unsigned i = 0; i < 2; i++) {
		struct slot *slot = &t->slots[i][t->sums[i] >> (64 - SLOT_BITS)];

		e.after[i] = slot;
		if (slot->frame != t->frame)
			*slot = (struct slot){.frame = t->frame};
		else if (!best || slot->spread <= best->spread)
			best = slot;
	}
	if (best) {
		unsigned half = bits_of(best->spread) / 2;

		e.mean = best->mean;
		e.cls = half < SC_TIMES_CLASSES - 2 ? half : SC_TIMES_CLASSES - 2;
	}
	return e;
}

/* The mean moves by a half to an eighth of the distance, but no further for what is far off. */
static inline void learn_time(const struct expected *e, int64_t value)
{
	for (unsigned i = 0; i < 2; i++) {
		struct slot *slot = e->after[i];
		int64_t by = (int64_t)((uint64_t)value - (uint64_t)slot->mean);
		uint64_t far = by < 0 ? 0 - (uint64_t)by : (uint64_t)by;
		uint64_t limit = slot->spread + SLACK;
		unsigned shift = slot->n < 3 ? 1 : slot->n < 7 ? 2 : 3;

		if (slot->n++ == 0) {
			slot->mean = value;
			slot->spread = (value < 0 ? 0 - (uint64_t)value : (uint64_t)value) >> 1;
		} else {
			if (slot->n > 2 && far > limit)
				by = by < 0 ? -(int64_t)limit : (int64_t)limit;
			slot->mean = (int64_t)((uint64_t)slot->mean + (uint64_t)(by >> shift));
			far = far < 4 * limit ? far : 4 * limit;
			/* The first one told nothing of how far others are. */
			shift = slot->n == 2 ? 0 : shift < 2 ? shift : 2;
			slot->spread += (uint64_t)((int64_t)(far - slot->spread) >> shift);
		}
		if (slot->spread >> MAX_SPREAD_BITS)
			slot->spread = UINT64_C(1) << MAX_SPREAD_BITS;
	}
}

/* --- tokens: of larger values the length, the bit after the first, and the sign --- */

static inline unsigned n_rest(unsigned token)
{
	return token < DIRECT ? 0 : (token - DIRECT) / 4 + 2;
}

struct bit_sink {
	uint8_t *at;
	uint64_t waiting;
	unsigned n;
};

static inline void put_bits(struct bit_sink *sink, uint64_t bits, unsigned n)
{
	sink->waiting |= bits << sink->n;
	if (sink->n + n >= 64) {
		for (unsigned i = 0; i < 64; i += 8)
			*sink->at++ = (uint8_t)(sink->waiting >> i);
		n -= 64 - sink->n;
		sink->waiting = sink->n ? bits >> (64 - sink->n) : 0;
		sink->n = 0;
	}
	sink->n += n;
}

struct bit_source {
	const uint8_t *at, *end;
	unsigned n; /* of *at that are used */
};

/* Bits after the end are 0; whether it was passed, `at` says. */
static inline uint64_t get_bits(struct bit_source *from, unsigned n)
{
	uint64_t bits = 0;
	unsigned have = 0;

	while (have < n) {
		unsigned take = 8 - from->n < n - have ? 8 - from->n : n - have;
		uint64_t byte = from->at < from->end ? *from->at : 0;

		bits |= (byte >> from->n & ((1u << take) - 1)) << have;
		have += take;
		from->n += take;
		from->at += from->n / 8;
		from->n %= 8;
	}
	return bits;
}

/* --- units --- */

/* Ticks that clocks were seen to have, in ns. */
static const uint16_t UNITS[] = {1000, 500, 250, 128, 125, 100, 64, 50, 40, 32, 25, 20, 16, 10, 8};

static inline int64_t divide_rounded(int64_t value, int64_t unit, int64_t *rest)
{
	int64_t n = value / unit;

	*rest = value - n * unit;
	if (*rest > unit / 2) {
		*rest -= unit;
		n++;
	} else if (*rest < -(unit / 2)) {
		*rest += unit;
		n--;
	}
	return n;
}

/* The largest of which nearly all values are multiples, but for what two clocks' ns differ by. */
static int64_t find_unit(const int64_t *values, size_t n)
{
	n = n < N_SAMPLED ? n : N_SAMPLED;
	for (size_t i = 0; i < sizeof(UNITS) / sizeof(UNITS[0]); i++) {
		int64_t slack = UNITS[i] / 8 < MAX_SLACK ? UNITS[i] / 8 : MAX_SLACK;
		size_t n_off = 0;

		for (size_t k = 1; k < n && n_off <= n / N_PER_ODD; k++) {
			int64_t rest;

			divide_rounded(values[k], UNITS[i], &rest);
			n_off += rest < -slack || rest > slack;
		}
		if (n_off <= n / N_PER_ODD)
			return UNITS[i];
	}
	return 1;
}

/* The values become multiples. Whether there are remainders. */
static bool divide_times(struct sc_times *times, size_t n, int64_t unit)
{
	uint64_t any = 0;

	for (size_t i = 0; unit > 1 && i < n; i++) {
		int64_t rest;

		times->values[i] = divide_rounded(times->values[i], unit, &rest);
		any |= times->remainders[i] = sc_zigzag((uint64_t)rest);
	}
	return any;
}

/* --- writing --- */

static void set_values(struct sc_times *times, const struct sc_times_rows *rows)
{
	uint64_t last = 0;

	for (size_t i = 0; i < 2 * rows->n; i++) {
		uint32_t row = times->order[i] >> 1;
		uint64_t now = (uint64_t)rows->starts[row];

		if (times->order[i] & 1)
			now += (uint64_t)rows->durations[row];
		times->values[i] = (int64_t)(now - last);
		last = now;
	}
}

/* Returns the bytes of times->bits. */
static size_t set_tokens(struct sc_times *times, const struct sc_times_rows *rows,
			 size_t counts[SC_TIMES_CLASSES])
{
	struct bit_sink sink = {.at = times->bits};

	begin_frame(times);
	for (size_t i = 0; i < 2 * rows->n; i++) {
		struct expected e =
			expect_time(times, rows->names[times->order[i] >> 1], times->order[i] & 1);
		uint64_t off = sc_zigzag((uint64_t)times->values[i] - (uint64_t)e.mean);
		unsigned n_bits = bits_of(off), token = (unsigned)off;

		if (off >= DIRECT) {
			token = DIRECT + (n_bits - 5) * 4 +
				(unsigned)(off >> (n_bits - 2) & 1) * 2 + (unsigned)(off & 1);
			put_bits(&sink, off >> 1 & ((UINT64_C(1) << (n_bits - 3)) - 1), n_bits - 3);
		}
		times->tokens[i] = (uint8_t)token;
		times->classes[i] = (uint8_t)e.cls;
		counts[e.cls]++;
		learn_time(&e, times->values[i]);
	}
	for (; sink.n; sink.n = sink.n > 8 ? sink.n - 8 : 0, sink.waiting >>= 8)
		*sink.at++ = (uint8_t)sink.waiting;
	return (size_t)(sink.at - times->bits);
}

size_t sc_times_put(struct sc_times *times, const struct sc_times_rows *rows, uint8_t *out,
		    size_t parts[SC_TIMES_MAX_PARTS], size_t *n_parts)
{
	size_t counts[SC_TIMES_CLASSES] = {0}, n = 2 * rows->n, n_bits, n_new;
	uint8_t *at = out, *of_class[SC_TIMES_CLASSES], *part = out;
	bool has_rest;
	int64_t unit;

	set_order(times, rows);
	set_values(times, rows);
	unit = find_unit(times->values, n);
	has_rest = divide_times(times, n, unit);
	n_bits = set_tokens(times, rows, counts);
	*n_parts = 0;
	at = sc_put_varint(at, (uint64_t)unit << 1 | has_rest);
	for (unsigned i = 0; i < SC_TIMES_CLASSES; i++)
		at = sc_put_varint(at, counts[i]);
	for (unsigned i = 0; i <= SC_TIMES_CLASSES + 1; i++) {
		if (i < SC_TIMES_CLASSES) {
			of_class[i] = at;
			at += counts[i];
		} else if (i == SC_TIMES_CLASSES) {
			for (size_t k = 0; has_rest && k < n; k++)
				at = sc_put_varint(at, times->remainders[k]);
		} else {
			memcpy(at, times->bits, n_bits);
			at += n_bits;
		}
		n_new = (size_t)(at - part);
		if (n_new >= MIN_PART || i > SC_TIMES_CLASSES) {
			parts[(*n_parts)++] = n_new;
			part = at;
		}
	}
	for (size_t i = 0; i < n; i++)
		*of_class[times->classes[i]]++ = times->tokens[i];
	return (size_t)(at - out);
}

/* --- reading --- */

bool sc_times_get(struct sc_times *times, const struct sc_times_rows *rows, const uint8_t *at,
		  size_t n_bytes)
{
	const uint8_t *of_class[SC_TIMES_CLASSES + 1], *end = at + n_bytes;
	uint64_t unit = 0, last = 0, counts[SC_TIMES_CLASSES];
	size_t n_values = 2 * rows->n, left = n_values;
	struct bit_source bits = {.end = end};

	at = sc_get_varint(at, end, &unit);
	for (unsigned i = 0; at && i < SC_TIMES_CLASSES; i++)
		at = sc_get_varint(at, end, &counts[i]);
	for (unsigned i = 0; at && i < SC_TIMES_CLASSES; i++) {
		if (counts[i] > left || counts[i] > (size_t)(end - at))
			return false;
		of_class[i] = at;
		at += counts[i];
		left -= counts[i];
	}
	memset(times->remainders, 0, n_values * sizeof(*times->remainders));
	for (size_t i = 0; at && unit & 1 && i < n_values; i++)
		at = sc_get_varint(at, end, &times->remainders[i]);
	if (!at || left || !set_order(times, rows))
		return false;
	of_class[SC_TIMES_CLASSES] = at;
	bits.at = at;
	begin_frame(times);
	for (size_t i = 0; i < n_values; i++) {
		uint32_t row = times->order[i] >> 1;
		struct expected e = expect_time(times, rows->names[row], times->order[i] & 1);
		uint64_t value;
		unsigned token, n;

		if (counts[e.cls]-- == 0)
			return false;
		token = *of_class[e.cls]++;
		n = n_rest(token);
		value = token;
		if (token >= DIRECT)
			value = (UINT64_C(2) | (token >> 1 & 1)) << (n + 1) |
				get_bits(&bits, n) << 1 | (token & 1);
		value = sc_unzigzag(value) + (uint64_t)e.mean;
		learn_time(&e, (int64_t)value);
		last += value * (unit >> 1) + sc_unzigzag(times->remainders[i]);
		if (times->order[i] & 1)
			rows->durations[row] = (int64_t)(last - (uint64_t)rows->starts[row]);
		else
			rows->starts[row] = (int64_t)last;
	}
	return bits.at + (bits.n > 0) == end;
}
