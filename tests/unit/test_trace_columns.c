/* The pieces of trace files: checksums, sorting, columns of rows and texts. */
#include "runner.h"
#include "trace/format/crc32c.h"
#include "trace/format/row_sort.h"
#include "trace/format/trace_columns.h"

/* --- checksum --- */

TEST(test_crc_known)
{
	static const uint8_t zeros[32];

	/* RFC 3720, B.4, and the check value of the catalogue of CRCs. */
	ck_assert_uint_eq(sc_crc32c(0, "123456789", 9), 0xE3069283u);
	ck_assert_uint_eq(sc_crc32c(0, zeros, sizeof(zeros)), 0x8A9136AAu);
	ck_assert_uint_eq(sc_crc32c(0, "", 0), 0);
}

TEST(test_crc_in_pieces)
{
	const char *text = "a text that is longer than one word of eight bytes";
	size_t n = strlen(text);

	for (size_t i = 0; i <= n; i++)
		ck_assert_uint_eq(sc_crc32c(sc_crc32c(0, text, i), text + i, n - i),
				  sc_crc32c(0, text, n));
}

/* --- sorting --- */

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Number of keys, bits of time and of group. */
static const unsigned sorts[][3] = {{0, 8, 8},      {1, 8, 8},      {40, 3, 2},
				    {1000, 64, 32}, {1000, 4, 1},   {5000, 40, 0},
				    {5000, 0, 3},   {5000, 12, 20}, {16384, 33, 4}};

LOOP_TEST(test_sort, N_OF(sorts))
{
	size_t n = sorts[_i][0];
	struct sc_row_key *keys = calloc(2 * n + 1, sizeof(*keys)), *sorted;
	uint64_t state = 88172645463325252u + (unsigned)_i;

	ck_assert_ptr_nonnull(keys);
	for (size_t i = 0; i < n; i++) {
		keys[i].time = sorts[_i][1] ? next_random(&state) >> (64 - sorts[_i][1]) : 0;
		keys[i].group =
			sorts[_i][2] ? (uint32_t)(next_random(&state) >> (64 - sorts[_i][2])) : 0;
		keys[i].row = (uint32_t)i;
	}
	sorted = sc_row_sort(keys, keys + n, n);
	for (size_t i = 1; i < n; i++) {
		const struct sc_row_key *a = &sorted[i - 1], *b = &sorted[i];

		ck_assert(a->group < b->group ||
			  (a->group == b->group &&
			   (a->time < b->time || (a->time == b->time && a->row < b->row))));
	}
	free(keys);
}

/* --- columns --- */

struct row {
	int64_t start, dur;
	uint32_t name;
	int32_t level;
	uint16_t flags;
	uint8_t kind;
};
#define FIELD(id_, type_, member, role_)                       \
	{                                                      \
		.id = (id_), .type = (type_), .role = (role_), \
		.offset = offsetof(struct row, member)         \
	}
static const struct sc_column_field FIELDS[] = {
	FIELD(1, SC_FIELD_U32, name, SC_FIELD_KEY),
	FIELD(2, SC_FIELD_I64, dur, SC_FIELD_DURATION),
	FIELD(3, SC_FIELD_I64, start, SC_FIELD_START),
	FIELD(4, SC_FIELD_I32, level, SC_FIELD_VALUE),
	FIELD(5, SC_FIELD_U16, flags, SC_FIELD_VALUE),
	FIELD(6, SC_FIELD_U8, kind, SC_FIELD_VALUE),
};
static const struct sc_row_format FORMAT = {FIELDS, 6, sizeof(struct row)};
/* As events have it: times nested. */
static const struct sc_column_field NESTED_FIELDS[] = {
	FIELD(1, SC_FIELD_U32, name, SC_FIELD_KEY),
	{.id = 7, .type = SC_FIELD_I64, .role = SC_FIELD_DEPTH},
	{.id = 8, .type = SC_FIELD_I64, .role = SC_FIELD_TIMES},
	FIELD(2, SC_FIELD_I64, dur, SC_FIELD_DURATION),
	FIELD(3, SC_FIELD_I64, start, SC_FIELD_START),
	FIELD(4, SC_FIELD_I32, level, SC_FIELD_VALUE),
	FIELD(5, SC_FIELD_U16, flags, SC_FIELD_VALUE),
	FIELD(6, SC_FIELD_U8, kind, SC_FIELD_VALUE),
};
static const struct sc_row_format NESTED = {NESTED_FIELDS, 8, sizeof(struct row)};
/* As a version that does not know `dur` and `level`. */
static const struct sc_column_field OLD_FIELDS[] = {
	FIELD(1, SC_FIELD_U32, name, SC_FIELD_KEY),
	FIELD(5, SC_FIELD_U16, flags, SC_FIELD_VALUE),
};
static const struct sc_row_format OLD_FORMAT = {OLD_FIELDS, 2, sizeof(struct row)};

static struct sc_column_coder *coder;
static struct sc_payload payload;
static struct row rows[SC_FRAME_MAX_ROWS], got[SC_FRAME_MAX_ROWS];

static void set_up(void)
{
	coder = sc_column_coder_create();
	payload = (struct sc_payload){.at = malloc(SC_FRAME_MAX_PAYLOAD)};
	ck_assert_ptr_nonnull(coder);
	ck_assert_ptr_nonnull(payload.at);
	memset(rows, 0, sizeof(rows));
}

static void tear_down(void)
{
	sc_column_coder_destroy(coder);
	free(payload.at);
}

FIXTURE(set_up, tear_down)

static void expect_same_as(const struct sc_row_format *format, size_t n)
{
	ck_assert(sc_columns_get(coder, (struct sc_slice){payload.at, payload.at + payload.n},
				 &(struct sc_row_set){format, NULL, n}, got));
	for (size_t i = 0; i < n; i++) {
		ck_assert_int_eq(got[i].start, rows[i].start);
		ck_assert_int_eq(got[i].dur, rows[i].dur);
		ck_assert_uint_eq(got[i].name, rows[i].name);
		ck_assert_int_eq(got[i].level, rows[i].level);
		ck_assert_uint_eq(got[i].flags, rows[i].flags);
		ck_assert_uint_eq(got[i].kind, rows[i].kind);
	}
}

static void expect_same(size_t n)
{
	expect_same_as(&FORMAT, n);
}

/* Bytes that n rows take; what is read back is the same. */
static size_t put_nested(size_t n)
{
	payload.n = 0;
	sc_columns_put(coder, &(struct sc_row_set){&NESTED, NULL, n}, rows, &payload);
	expect_same_as(&NESTED, n);
	return payload.n;
}

LOOP_TEST(test_random_rows, 8)
{
	static const size_t counts[] = {1, 2, 1000, SC_FRAME_MAX_ROWS};
	const struct sc_row_format *format = _i < 4 ? &FORMAT : &NESTED;
	size_t n = counts[_i % 4];
	uint64_t state = 4711;

	for (size_t i = 0; i < n; i++) {
		rows[i].start = (int64_t)next_random(&state);
		rows[i].dur = (int64_t)next_random(&state);
		rows[i].name = (uint32_t)next_random(&state);
		rows[i].level = (int32_t)next_random(&state);
		rows[i].flags = (uint16_t)next_random(&state);
		rows[i].kind = (uint8_t)next_random(&state);
	}
	sc_columns_put(coder, &(struct sc_row_set){format, NULL, n}, rows, &payload);
	expect_same_as(format, n);
}

/* Five operators in one another, a thousand times on each of two threads; between two begins or
 * ends are 1000 ns and a jitter of less than `jitter`. */
static size_t nested_operators(uint64_t jitter)
{
	enum { N_DEEP = 5, N_TIMES = 2000 };
	uint64_t state = 9;
	int64_t now = 0;

	for (size_t i = 0; i < N_TIMES; i++) {
		struct row *op = &rows[i * N_DEEP];

		now = i == N_TIMES / 2 ? 0 : now;
		for (unsigned k = 0; k < N_DEEP; k++) {
			now += 1000 + (int64_t)(next_random(&state) % jitter);
			op[k] = (struct row){.start = now, .name = k + 1};
		}
		for (unsigned k = N_DEEP; k-- > 0;) {
			now += 1000 + (int64_t)(next_random(&state) % jitter);
			op[k].dur = now - op[k].start;
		}
	}
	return (size_t)N_DEEP * N_TIMES;
}

/* Of an operator around others only what is its own has to be told: 4 bits a begin or end here,
 * while the durations as they are differ by 5 or 6. */
TEST(test_nested_operators)
{
	const size_t n = nested_operators(16);
	const size_t n_nested = put_nested(n);

	payload.n = 0;
	sc_columns_put(coder, &(struct sc_row_set){&FORMAT, NULL, n}, rows, &payload);
	expect_same(n);
	ck_assert_uint_lt(n_nested, n * 13 / 10);
	ck_assert_uint_gt(payload.n, n * 15 / 10);
}

/* Neither in one another nor apart: operators that go on beside each other, and events without
 * duration. */
TEST(test_overlapping_rows)
{
	const size_t n = nested_operators(16);

	for (size_t i = 0; i < n; i++)
		rows[i].dur = i % 3 ? rows[i].dur * (int64_t)(i % 7) : 0;
	put_nested(n);
}

/* A jitter of 10 bits costs little more than 10. */
TEST(test_noise_costs_its_bits)
{
	const size_t n = nested_operators(1024);

	ck_assert_uint_lt(put_nested(n), n * 27 / 10);
}

/* What ends at once after what began, `n` times: the time that passes before it is what the caller
 * says. */
static void put_after(size_t row, uint32_t name, int64_t ns)
{
	rows[row] = (struct row){
		.name = name,
		.start = (row ? rows[row - 1].start + rows[row - 1].dur : 0) + ns,
		.dur = 500,
	};
}

/* One odd time does not spoil what is expected next. */
TEST(test_odd_times)
{
	const size_t n = 10000;
	uint64_t state = 3;

	for (size_t i = 0; i < n; i++)
		put_after(i, 1,
			  next_random(&state) % 8 ? 5037 : (int64_t)(next_random(&state) % 4096));
	ck_assert_uint_lt(put_nested(n), n * 80 / 100);
}

/* Of eight calls alike, each has its own time: where it stands is seen from the calls before. */
TEST(test_long_context)
{
	const size_t n = 8000;
	uint64_t state = 4;

	for (size_t i = 0; i < n; i++)
		put_after(i, i % 8 == 0,
			  100000 * (int64_t)(i % 8 * 5 % 8) + (int64_t)(next_random(&state) % 16));
	ck_assert_uint_lt(put_nested(n), n * 75 / 100);
}

/* What is known well does not pay for what is not, in whatever order they come. */
TEST(test_noise_of_others)
{
	const size_t n = 16000;
	uint64_t state = 8;

	for (size_t i = 0; i < n; i++) {
		bool is_noisy = next_random(&state) % 2;

		put_after(i, is_noisy,
			  (int64_t)(next_random(&state) % (is_noisy ? 4096 : 8)) * 3 + 777);
	}
	ck_assert_uint_lt(put_nested(n), n * 145 / 100);
}

/* A clock that ticks every 32 ns, told in another's ns. */
TEST(test_ticks)
{
	const size_t n = 10000;
	uint64_t state = 5;

	for (size_t i = 0; i < n; i++)
		put_after(i, 1,
			  (int64_t)(next_random(&state) % 64) * 32 +
				  (int64_t)(next_random(&state) % 32 == 0));
	ck_assert_uint_lt(put_nested(n), n * 145 / 100);
}

TEST(test_limits)
{
	rows[0] = (struct row){INT64_MIN, INT64_MAX, UINT32_MAX, INT32_MIN, UINT16_MAX, UINT8_MAX};
	rows[1] = (struct row){INT64_MAX, INT64_MIN, 0, INT32_MAX, 0, 0};
	rows[2] = (struct row){-1, -1, 1, -1, 1, 1};
	sc_columns_put(coder, &(struct sc_row_set){&FORMAT, NULL, 3}, rows, &payload);
	expect_same(3);
}

TEST(test_order)
{
	const uint32_t order[] = {2, 0, 1};

	for (size_t i = 0; i < 3; i++)
		rows[i].name = (uint32_t)i + 10;
	sc_columns_put(coder, &(struct sc_row_set){&FORMAT, order, 3}, rows, &payload);
	ck_assert(sc_columns_get(coder, (struct sc_slice){payload.at, payload.at + payload.n},
				 &(struct sc_row_set){&FORMAT, NULL, 3}, got));
	ck_assert_uint_eq(got[0].name, 12);
	ck_assert_uint_eq(got[1].name, 10);
	ck_assert_uint_eq(got[2].name, 11);
}

/* Columns that say nothing cost nothing; regular ones next to nothing. */
TEST(test_cheap_columns)
{
	const size_t n = SC_FRAME_MAX_ROWS;

	sc_columns_put(coder, &(struct sc_row_set){&FORMAT, NULL, n}, rows, &payload);
	ck_assert_uint_eq(payload.n, 0);
	for (size_t i = 0; i < n; i++)
		rows[i] = (struct row){.start = (int64_t)i * 1000, .dur = 990, .level = -5};
	sc_columns_put(coder, &(struct sc_row_set){&FORMAT, NULL, n}, rows, &payload);
	ck_assert_uint_lt(payload.n, 64);
	expect_same(n);
}

/* A kernel takes about as long as when it ran before, whatever runs between. */
TEST(test_duration_by_name)
{
	const size_t n = 4096;
	size_t n_by_name;
	uint64_t state = 5;

	for (size_t i = 0; i < n; i++) {
		rows[i].name = (uint32_t)(next_random(&state) % 100);
		rows[i].dur = rows[i].name * 100003 + (int64_t)(next_random(&state) % 4);
	}
	sc_columns_put(coder, &(struct sc_row_set){&FORMAT, NULL, n}, rows, &payload);
	expect_same(n);
	n_by_name = payload.n;
	for (size_t i = 0; i < n; i++)
		rows[i].name = 1;
	payload.n = 0;
	sc_columns_put(coder, &(struct sc_row_set){&FORMAT, NULL, n}, rows, &payload);
	ck_assert_uint_lt(n_by_name, payload.n);
}

/* Microseconds cost no more than their number, in columns of any length. */
LOOP_TEST(test_units, 2)
{
	const size_t n = _i ? SC_FRAME_MAX_ROWS : 1000;
	uint64_t state = 6;
	size_t n_micro;

	for (size_t i = 0; i < n; i++) {
		rows[i].name = 1;
		rows[i].start =
			(i ? rows[i - 1].start : 7) + (int64_t)(next_random(&state) % 64) * 1000;
	}
	n_micro = put_nested(n);
	for (size_t i = 0; i < n; i++)
		rows[i].start += (int64_t)(next_random(&state) % 1000);
	ck_assert_uint_lt(n_micro, n);
	ck_assert_uint_gt(put_nested(n), n * 3 / 2);
}

TEST(test_unknown_columns_are_skipped)
{
	for (size_t i = 0; i < 100; i++)
		rows[i] = (struct row){.dur = (int64_t)i, .name = (uint32_t)i, .flags = 7};
	sc_columns_put(coder, &(struct sc_row_set){&FORMAT, NULL, 100}, rows, &payload);
	ck_assert(sc_columns_get(coder, (struct sc_slice){payload.at, payload.at + payload.n},
				 &(struct sc_row_set){&OLD_FORMAT, NULL, 100}, got));
	ck_assert_uint_eq(got[99].name, 99);
	ck_assert_uint_eq(got[99].flags, 7);
	ck_assert_int_eq(got[99].dur, 0);
}

TEST(test_texts)
{
	struct sc_text texts[] = {{"gemm", 4}, {"", 0}, {"a longer name, a longer name", 28}},
		       read[3];

	sc_columns_put_texts(coder, texts, 3, &payload);
	ck_assert(sc_columns_get_texts(coder, (struct sc_slice){payload.at, payload.at + payload.n},
				       read, 3));
	for (size_t i = 0; i < 3; i++) {
		ck_assert_uint_eq(read[i].n, texts[i].n);
		ck_assert_mem_eq(read[i].at, texts[i].at, texts[i].n);
	}
	ck_assert(!sc_columns_get_texts(
		coder, (struct sc_slice){payload.at, payload.at + payload.n}, read, 2));
	ck_assert(!sc_columns_get_texts(
		coder, (struct sc_slice){payload.at, payload.at + payload.n - 1}, read, 3));
}

/* Bytes of a payload that is wrong, for one row. */
static const struct {
	const char *what;
	uint8_t bytes[16];
	size_t n;
} bads[] = {
	{"cut header", {1, 1, 1}, 3},
	{"more stored than there is", {1, 1, 2, 2, 0}, 5},
	{"raw is not stored", {1, 1, 2, 1, 0}, 5},
	{"varint cut", {1, 1, 1, 1, 0x80}, 5},
	{"varint of more than 64 bits",
	 {1, 1, 11, 11, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 1},
	 15},
	{"two values for one row", {1, 1, 2, 2, 0, 0}, 6},
	{"no value for one row", {1, 1, 0, 0}, 4},
	{"constant without value", {1, 0, 0, 0}, 4},
	{"constant with two", {1, 0, 2, 2, 0, 0}, 6},
	{"unknown form", {1, 9, 1, 1, 0}, 5},
	{"text for numbers", {1, 7, 1, 1, 0}, 5},
	{"an unknown flag", {1, 0x41, 1, 1, 0}, 5},
	{"times as numbers", {1, 4, 1, 1, 0}, 5},
	{"beyond the type", {6, 1, 2, 2, 0x80, 0x04}, 6},
	{"negative for unsigned", {1, 1, 1, 1, 1}, 5},
	{"not zstd", {1, 0x81, 1, 1, 0}, 5},
	{"unpacks to too much", {1, 0x81, 0xFF, 0xFF, 0xFF, 0x7F, 1, 0}, 8},
};

LOOP_TEST(test_bad_payload, N_OF(bads))
{
	ck_assert_msg(!sc_columns_get(
			      coder, (struct sc_slice){bads[_i].bytes, bads[_i].bytes + bads[_i].n},
			      &(struct sc_row_set){&FORMAT, NULL, 1}, got),
		      "%s", bads[_i].what);
}

/* Of one row, depth 0: bytes of times. They are 10 counts of tokens behind a unit, the tokens, and
 * their bits. */
static const struct {
	const char *what;
	uint8_t bytes[20];
	size_t n;
} bad_times[] = {
	{"nothing", {0}, 0},
	{"a count cut", {2, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 10},
	{"one token of two", {2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, 12},
	{"tokens cut", {2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0}, 12},
	{"of another class", {2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 13},
	{"a byte too many", {2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0}, 14},
	{"bits cut", {2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 255, 0}, 13},
	{"remainders cut", {3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0}, 14},
};

LOOP_TEST(test_bad_times, N_OF(bad_times))
{
	uint8_t bytes[40] = {7, 0, 1, 1, 0, 8, 4};
	struct sc_slice all = {bytes, bytes + 9 + bad_times[_i].n};

	bytes[7] = bytes[8] = (uint8_t)bad_times[_i].n;
	memcpy(bytes + 9, bad_times[_i].bytes, bad_times[_i].n);
	ck_assert_msg(!sc_columns_get(coder, all, &(struct sc_row_set){&NESTED, NULL, 1}, got),
		      "%s", bad_times[_i].what);
	/* Well-formed ones: a begin and an end of nothing. */
	bytes[7] = bytes[8] = 13;
	memcpy(bytes + 9, (uint8_t[]){2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 6, 4}, 13);
	all.end = bytes + 22;
	ck_assert(sc_columns_get(coder, all, &(struct sc_row_set){&NESTED, NULL, 1}, got));
	ck_assert_int_eq(got[0].start, 3);
	ck_assert_int_eq(got[0].dur, 2);
}

/* The depths of two rows. */
LOOP_TEST(test_depths_of_what_is_not_open, 3)
{
	static const uint8_t depths[][2] = {{2, 0}, {0, 4}, {0, 1}};
	const uint8_t bytes[] = {7, 1, 2, 2, depths[_i][0], depths[_i][1]};

	ck_assert(!sc_columns_get(coder, (struct sc_slice){bytes, bytes + sizeof(bytes)},
				  &(struct sc_row_set){&NESTED, NULL, 2}, got));
}

TEST(test_column_given_twice)
{
	static const uint8_t twice[] = {1, 1, 1, 1, 4, 1, 1, 1, 1, 6};

	ck_assert(sc_columns_get(coder, (struct sc_slice){twice, twice + sizeof(twice)},
				 &(struct sc_row_set){&FORMAT, NULL, 1}, got));
	ck_assert_uint_eq(got[0].name, 2);
}
