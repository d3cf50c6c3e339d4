/* Trace files: what goes in comes out; files that are cut, damaged, newer or hostile. */
#include "runner.h"
#include "trace/format/crc32c.h"
#include "trace/format/trace_frames.h"
#include "trace_fixture.h"

static struct sc_err err;
static struct sc_trace trace;

static void set_up(void)
{
	scratch_begin();
	memset(&err, 0, sizeof(err));
}

static void tear_down(void)
{
	scratch_end();
}

static const char *text(uint32_t id)
{
	ck_assert_uint_lt(id, trace.strings.n);
	return trace.strings.at[id];
}

/* --- what goes in comes out --- */

static int by_start(const void *left, const void *right)
{
	const struct sc_trace_event *a = left, *b = right;

	return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* Of each of very many events: check writes down every one of its own assertions. */
#define HOLDS(condition)                                \
	do {                                            \
		if (!(condition))                       \
			ck_abort_msg("%s", #condition); \
	} while (0)
#define SAME(got, want) HOLDS((got) == (want))

static void expect_event(const struct sc_trace_event *got, const struct sc_trace_event *want,
			 unsigned i)
{
	char name[32];

	snprintf(name, sizeof(name), "%s %u", sc_event_class_name((enum sc_event_class)want->cls),
		 i % 9);
	SAME(got->start_ns, want->start_ns);
	SAME(got->dur_ns, want->dur_ns);
	SAME(got->cls, want->cls);
	SAME(got->sub, want->sub);
	SAME(got->flags, want->flags);
	SAME(got->correlation, want->correlation);
	SAME(got->external_id, want->external_id);
	SAME(got->bytes, want->bytes);
	SAME(got->aux0, want->aux0);
	SAME(got->aux1, want->aux1);
	HOLDS(memcmp(&got->job, &want->job, sizeof(got->job)) == 0);
	HOLDS(strcmp(text(got->name), name) == 0);
	SAME(trace.lanes.at[got->lane].stream, (int)(i % 4));
	SAME(trace.lanes.at[got->lane].tid, (int)(i % 3));
	HOLDS(strcmp(text(trace.lanes.at[got->lane].name), "a lane") == 0);
	if (got->cls == SC_EV_KERNEL)
		SAME(trace.configs.at[got->config].grid[0], i % 5 + 1);
	if (got->cls == SC_EV_COMM) {
		const struct sc_trace_comm *comm = &trace.comms.at[got->comm];

		HOLDS(strcmp(text(comm->collective), "all_to_all") == 0);
		SAME(comm->comm_hash, UINT64_MAX - i % 2);
		SAME(comm->seq, (int)i / 16);
		SAME(comm->out_elems, -1);
	}
	if (got->cls == SC_EV_OP)
		HOLDS((unsigned)text(got->shapes)[2] - '0' == i % 6);
}

/* Starts of the fixture differ, so that the order is one only. */
static void expect_fixture(unsigned n)
{
	struct sc_trace_event *want = calloc(n, sizeof(*want));

	ck_assert_ptr_nonnull(want);
	ck_assert_uint_eq(trace.events.n, n);
	for (unsigned i = 0; i < n; i++) {
		want[i] = fixture_event(i);
		want[i].config = i; /* not compared: remembers which it is */
	}
	qsort(want, n, sizeof(*want), by_start);
	for (unsigned i = 0; i < n; i++)
		expect_event(&trace.events.at[i], &want[i], want[i].config);
	free(want);
}

static const unsigned sizes[] = {0, 1, 300, 3 * SC_FRAME_MAX_ROWS + 5};

FIXTURE(set_up, tear_down)

LOOP_TEST(test_round_trip, N_OF(sizes))
{
	fixture_write(scratch_path, sizes[_i]);
	fixture_load(scratch_path, &trace);
	ck_assert(!trace.partial);
	ck_assert_int_eq(trace.n_bad_frames, 0);
	ck_assert_str_eq(trace.path, scratch_path);
	expect_fixture(sizes[_i]);
	sc_trace_release(&trace);
}

/* Bytes of a trace of so many equal steps of 1,000 calls with a kernel each. */
static int64_t write_steps(unsigned n_steps)
{
	struct sc_trace_event call = {.cls = SC_EV_API}, kernel = {.cls = SC_EV_KERNEL};
	struct sc_trace_writer *w;
	struct sc_trace_info info;
	uint64_t state = 1;

	ck_assert_int_eq(sc_trace_writer_create(scratch_path, &fixture_identity, &w, &err), 0);
	for (unsigned i = 0; i < n_steps * 1000; i++) {
		char name[16];
		size_t n = (size_t)snprintf(name, sizeof(name), "kernel %u", i % 1000 / 3);

		state = i % 1000 ? state * 6364136223846793005u + 1442695040888963407u : 1;
		call.name = kernel.name = sc_trace_writer_string(w, name, n);
		call.correlation = kernel.correlation = i + 1;
		call.start_ns += call.dur_ns + (int64_t)(state >> 54);
		call.dur_ns = 3000 + (int64_t)(state >> 53 & 1023);
		kernel.start_ns += kernel.dur_ns + 1000;
		kernel.dur_ns = 5000 + (int64_t)(state >> 50);
		sc_trace_writer_add(w, &call);
		sc_trace_writer_add(w, &kernel);
	}
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, &err), 0);
	ck_assert_int_eq(sc_trace_stat(scratch_path, &trace, &info, &err), 0);
	sc_trace_release(&trace);
	return info.file_bytes;
}

/* What is expected of a name are its last three times: then the same step is said again in next to
 * nothing. */
TEST(test_steps_alike)
{
	const int64_t four = write_steps(4);

	ck_assert_int_gt(write_steps(1), 2000 * 3);
	ck_assert_int_lt(write_steps(5) - four, 2000 / 10);
	ck_assert_int_lt(write_steps(100) - four, 96 * 2000 / 2);
}

/* Frames that overlap in time are merged; what starts together stays as it was added. */
LOOP_TEST(test_order, 2)
{
	const unsigned n = 3 * SC_FRAME_MAX_ROWS + 100;
	struct sc_trace_writer *w;

	ck_assert_int_eq(sc_trace_writer_create(scratch_path, &fixture_identity, &w, &err), 0);
	for (unsigned i = 0; i < n; i++) {
		struct sc_trace_event event = {.cls = SC_EV_KERNEL, .correlation = i};

		event.start_ns = -5000 + (_i ? (int64_t)(i * 2654435761u % 5000) : 0);
		sc_trace_writer_add(w, &event);
	}
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, &err), 0);
	fixture_load(scratch_path, &trace);
	ck_assert_uint_eq(trace.events.n, n);
	for (unsigned i = 1; i < n; i++) {
		const struct sc_trace_event *a = &trace.events.at[i - 1], *b = a + 1;

		ck_assert(a->start_ns < b->start_ns ||
			  (a->start_ns == b->start_ns && a->correlation < b->correlation));
	}
	sc_trace_release(&trace);
}

TEST(test_facts)
{
	fixture_write(scratch_path, 10);
	fixture_load(scratch_path, &trace);
	ck_assert_mem_eq(&trace.identity, &fixture_identity, sizeof(fixture_identity));
	ck_assert_uint_eq(trace.meta.n, 2);
	ck_assert_str_eq(trace.meta.at[0].key, "device.0.name");
	ck_assert_str_eq(trace.meta.at[0].value, "NVIDIA H200");
	ck_assert_str_eq(trace.meta.at[1].value, "");
	ck_assert_uint_eq(trace.clocks.n, 1);
	ck_assert_int_eq(trace.clocks.at[0].utc_ns, INT64_C(1700000000000000005));
	ck_assert_uint_eq(trace.gaps.n, 1);
	ck_assert_uint_eq(trace.gaps.at[0].cls, SC_EV_API);
	ck_assert_int_eq(trace.gaps.at[0].n, -1);
	ck_assert_int_eq(trace.gaps.at[0].last_ns, 20);
	ck_assert_str_eq(trace.gaps.at[0].reason, "buffers were full");
	sc_trace_release(&trace);
}

/* More of each than one frame holds. */
TEST(test_many_facts)
{
	const unsigned n = 3000;
	struct sc_trace_writer *w;
	char key[32];

	ck_assert_int_eq(sc_trace_writer_create(scratch_path, &fixture_identity, &w, &err), 0);
	for (unsigned i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "key.%u", i);
		sc_trace_writer_meta(w, key, key + 4);
		sc_trace_writer_clock(w, i, i + 1);
		sc_trace_writer_gap(w, &(struct sc_trace_gap){SC_EV_COPY, i, i, i, key});
	}
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, &err), 0);
	fixture_load(scratch_path, &trace);
	ck_assert_uint_eq(trace.meta.n, n);
	ck_assert_uint_eq(trace.clocks.n, n);
	ck_assert_uint_eq(trace.gaps.n, n);
	ck_assert_str_eq(trace.meta.at[n - 1].value, "2999");
	ck_assert_str_eq(trace.gaps.at[n - 1].reason, "key.2999");
	sc_trace_release(&trace);
}

TEST(test_equal_entries_have_one_id)
{
	struct sc_trace_lane lane = {.is_stream = 1, .stream = 7};
	struct sc_trace_config config = {.registers = 3};
	struct sc_trace_comm comm = {.seq = 1};
	struct sc_trace_writer *w;
	uint32_t first;

	ck_assert_int_eq(sc_trace_writer_create(scratch_path, &fixture_identity, &w, &err), 0);
	ck_assert_uint_eq(sc_trace_writer_string(w, "", 0), SC_TRACE_NO_ID);
	first = sc_trace_writer_string(w, "gemm", 4);
	ck_assert_uint_ne(first, SC_TRACE_NO_ID);
	ck_assert_uint_eq(sc_trace_writer_string(w, "gemms", 4), first);
	ck_assert_uint_eq(sc_trace_writer_string(w, "gemm\0x", 6), first);
	ck_assert_uint_ne(sc_trace_writer_string(w, "gemms", 5), first);
	ck_assert_uint_eq(sc_trace_writer_lane(w, &lane), 1);
	ck_assert_uint_eq(sc_trace_writer_lane(w, &lane), 1);
	lane.stream = 8;
	ck_assert_uint_eq(sc_trace_writer_lane(w, &lane), 2);
	ck_assert_uint_eq(sc_trace_writer_config(w, &config), 1);
	ck_assert_uint_eq(sc_trace_writer_config(w, &config), 1);
	ck_assert_uint_eq(sc_trace_writer_comm(w, &comm), 1);
	comm.seq = 2;
	ck_assert_uint_eq(sc_trace_writer_comm(w, &comm), 2);
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, &err), 0);
}

/* Many and long strings: several frames; longer than 64 KiB is cut. */
TEST(test_long_strings)
{
	const size_t n_long = 70000, n_strings = 20000;
	struct sc_trace_writer *w;
	char *big = malloc(n_long), name[32];

	ck_assert_ptr_nonnull(big);
	memset(big, 'x', n_long);
	ck_assert_int_eq(sc_trace_writer_create(scratch_path, &fixture_identity, &w, &err), 0);
	for (unsigned i = 0; i < 8; i++) {
		big[0] = (char)('a' + i);
		ck_assert_uint_eq(sc_trace_writer_string(w, big, n_long), i + 1);
	}
	for (unsigned i = 0; i < n_strings; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		sc_trace_writer_string(w, name, strlen(name));
	}
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, &err), 0);
	fixture_load(scratch_path, &trace);
	ck_assert_uint_eq(trace.strings.n, 1 + 8 + n_strings);
	ck_assert_uint_eq(strlen(trace.strings.at[8]), SC_FRAME_MAX_STRING);
	ck_assert_int_eq(trace.strings.at[8][0], 'h');
	ck_assert_str_eq(trace.strings.at[8 + n_strings], "name 19999");
	sc_trace_release(&trace);
	free(big);
}

/* --- parts of a file --- */

TEST(test_classes)
{
	struct sc_trace_load_opts opts = {.classes = 1u << SC_EV_KERNEL | 1u << SC_EV_MARK};

	fixture_write(scratch_path, 320);
	ck_assert_int_eq(sc_trace_load(scratch_path, &opts, &trace, &err), 0);
	ck_assert_uint_eq(trace.events.n, 2 * 320 / SC_N_EVENT_CLASSES);
	for (size_t i = 0; i < trace.events.n; i++)
		ck_assert(opts.classes >> trace.events.at[i].cls & 1);
	sc_trace_release(&trace);
}

TEST(test_tables_only)
{
	struct sc_trace_load_opts opts = {.skip_events = true};

	fixture_write(scratch_path, 320);
	ck_assert_int_eq(sc_trace_load(scratch_path, &opts, &trace, &err), 0);
	ck_assert_uint_eq(trace.events.n, 0);
	ck_assert_uint_gt(trace.strings.n, 100);
	sc_trace_release(&trace);
}

static int add_up(void *ctx, const struct sc_trace *tables, const struct sc_trace_event *event,
		  struct sc_err *failed)
{
	int64_t *sum = ctx;

	ck_assert_uint_lt(event->name, tables->strings.n);
	ck_assert_str_ne(tables->strings.at[event->name], "");
	sum[0]++;
	sum[1] += event->dur_ns;
	return sum[0] == sum[2] ? sc_err_set(failed, SC_EVALUE, "enough") : 0;
}

TEST(test_scan)
{
	int64_t sum[3] = {0}, want = 0;

	fixture_write(scratch_path, 20000);
	for (unsigned i = 0; i < 20000; i++)
		want += fixture_event(i).dur_ns;
	ck_assert_int_eq(sc_trace_scan(scratch_path, add_up, sum, &trace, &err), 0);
	ck_assert_int_eq(sum[0], 20000);
	ck_assert_int_eq(sum[1], want);
	ck_assert_uint_eq(trace.events.n, 0);
	sc_trace_release(&trace);
	memset(sum, 0, sizeof(sum));
	sum[2] = 77;
	ck_assert_int_eq(sc_trace_scan(scratch_path, add_up, sum, &trace, &err), -SC_EVALUE);
	ck_assert_int_eq(sum[0], 77);
	sc_trace_release(&trace);
}

static void expect_stat(const struct sc_trace_info *info, int64_t n)
{
	int64_t first = INT64_MAX, last = INT64_MIN;

	for (unsigned i = 0; i < n; i++) {
		struct sc_trace_event e = fixture_event(i);

		first = e.start_ns < first ? e.start_ns : first;
		last = e.start_ns + e.dur_ns > last ? e.start_ns + e.dur_ns : last;
	}
	ck_assert_int_eq(info->counts.total, n);
	for (int cls = 0; cls < SC_N_EVENT_CLASSES; cls++)
		ck_assert_int_eq(info->counts.n[cls], n / SC_N_EVENT_CLASSES);
	ck_assert_int_eq(info->first_ns, first);
	ck_assert_int_eq(info->last_ns, last);
}

/* Of a whole file, and of one without its end. */
TEST(test_stat)
{
	struct sc_trace_info info;
	unsigned char *bytes;
	size_t n;

	fixture_write(scratch_path, 3200);
	ck_assert_int_eq(sc_trace_stat(scratch_path, &trace, &info, &err), 0);
	expect_stat(&info, 3200);
	ck_assert(!trace.partial);
	sc_trace_release(&trace);
	bytes = bytes_read(scratch_path, &n);
	ck_assert_int_eq(info.file_bytes, (int64_t)n);
	bytes_write(scratch_path, bytes, n - SC_FRAME_HEADER_BYTES);
	ck_assert_int_eq(sc_trace_stat(scratch_path, &trace, &info, &err), 0);
	expect_stat(&info, 3200);
	ck_assert(trace.partial);
	ck_assert_int_eq(trace.n_bad_frames, 0);
	sc_trace_release(&trace);
	free(bytes);
}

/* --- cut and damaged files --- */

/* Puts the checksum of a frame's header right. */
static void seal(unsigned char *frame)
{
	uint32_t crc = sc_crc32c(0, frame, SC_FRAME_HEADER_BYTES - 4);

	for (unsigned i = 0; i < 4; i++)
		frame[SC_FRAME_HEADER_BYTES - 4 + i] = (unsigned char)(crc >> (8 * i));
}

/* The first frame of a type in a file. */
static unsigned char *find_frame(unsigned char *bytes, unsigned type)
{
	struct sc_frame_header header;
	size_t at = SC_FILE_HEADER_BYTES;

	ck_assert(sc_frame_header_get(bytes + at, &header));
	while (header.type != type) {
		at += sc_frame_bytes(&header);
		ck_assert(sc_frame_header_get(bytes + at, &header));
	}
	return bytes + at;
}

/* Every event that is there is one of the fixture, whole. */
static void expect_subset(unsigned n_most)
{
	ck_assert_uint_le(trace.events.n, n_most);
	for (size_t k = 0; k < trace.events.n; k++) {
		const struct sc_trace_event *got = &trace.events.at[k];
		unsigned i = got->correlation / 3;
		struct sc_trace_event want;

		HOLDS(i < n_most);
		want = fixture_event(i);
		SAME(got->start_ns, want.start_ns);
		SAME(got->dur_ns, want.dur_ns);
		SAME(got->cls, want.cls);
		SAME(got->aux0, want.aux0);
	}
}

/* The events of whole frames that end at or before `end`. */
static size_t whole_events(const unsigned char *bytes, size_t end)
{
	struct sc_frame_header header;
	size_t at = SC_FILE_HEADER_BYTES, n = 0;

	while (at + SC_FRAME_HEADER_BYTES <= end && sc_frame_header_get(bytes + at, &header) &&
	       header.n_payload <= end - at - SC_FRAME_HEADER_BYTES) {
		n += header.type == SC_FRAME_EVENTS ? header.count : 0;
		at += sc_frame_bytes(&header);
	}
	return n;
}

/* Every byte of a small file is cut at, or damaged. */
enum { N_SMALL = 40 };

TEST(test_cut_anywhere)
{
	unsigned char *bytes;
	size_t n, most = 0;

	fixture_write(scratch_path, N_SMALL);
	bytes = bytes_read(scratch_path, &n);
	for (int i = 0; i < n_cases((int)n); i++) {
		size_t end = (size_t)nth_case(i, (int)n);

		bytes_write(scratch_path, bytes, end);
		memset(&err, 0, sizeof(err));
		if (end < SC_FILE_HEADER_BYTES) {
			ck_assert_int_eq(sc_trace_load(scratch_path, NULL, &trace, &err),
					 -SC_EFORMAT);
			continue;
		}
		ck_assert_int_eq(sc_trace_load(scratch_path, NULL, &trace, &err), 0);
		ck_assert(trace.partial);
		ck_assert_int_eq(trace.n_bad_frames, 0);
		ck_assert_uint_eq(trace.events.n, whole_events(bytes, end));
		expect_subset(N_SMALL);
		most = trace.events.n > most ? trace.events.n : most;
		sc_trace_release(&trace);
	}
	ck_assert_uint_eq(most, N_SMALL);
	free(bytes);
}

/* A changed byte costs the frame that it is in. */
TEST(test_damage_anywhere)
{
	const size_t n_class = (N_SMALL + SC_N_EVENT_CLASSES - 1) / SC_N_EVENT_CLASSES;
	size_t n, n_costly = 0;
	unsigned char *bytes;

	fixture_write(scratch_path, N_SMALL);
	bytes = bytes_read(scratch_path, &n);
	for (int i = 0; i < n_cases((int)n); i++) {
		size_t at = (size_t)nth_case(i, (int)n);

		if (at < SC_FILE_HEADER_BYTES)
			continue;
		bytes[at] ^= 0x41;
		bytes_write(scratch_path, bytes, n);
		bytes[at] ^= 0x41;
		ck_assert_int_eq(sc_trace_load(scratch_path, NULL, &trace, &err), 0);
		expect_subset(N_SMALL);
		if (trace.n_bad_frames > 1 || trace.events.n + n_class < N_SMALL)
			n_costly++;
		sc_trace_release(&trace);
	}
	ck_assert_int_lt((int)n_costly, n_cases((int)n) / 8);
	free(bytes);
}

/* Tables stand twice in a file that is much larger than they are. */
enum { N_LARGE = 40000 };
LOOP_TEST(test_damaged_tables, 5)
{
	static const unsigned types[] = {SC_FRAME_STRINGS, SC_FRAME_LANES, SC_FRAME_CONFIGS,
					 SC_FRAME_COMMS, SC_FRAME_IDENTITY};
	struct sc_trace_writer *w;
	unsigned char *bytes;
	size_t n;

	if (!takes_case(_i, 5))
		return;
	ck_assert_int_eq(sc_trace_writer_create(scratch_path, &fixture_identity, &w, &err), 0);
	for (unsigned i = 0; i < N_LARGE; i++) {
		struct sc_trace_event event = fixture_event(i);

		fixture_tables(w, i % 50, &event);
		event.start_ns += i * 7919 % 10007; /* so that events take some room */
		sc_trace_writer_add(w, &event);
	}
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, &err), 0);
	bytes = bytes_read(scratch_path, &n);
	find_frame(bytes, types[_i])[SC_FRAME_HEADER_BYTES + 1] ^= 0x55;
	bytes_write(scratch_path, bytes, n);
	fixture_load(scratch_path, &trace);
	ck_assert_int_eq(trace.n_bad_frames, 1);
	ck_assert_int_eq(trace.identity.rank, fixture_identity.rank);
	ck_assert_uint_eq(trace.events.n, N_LARGE);
	for (size_t i = 0; i < trace.events.n; i++) {
		HOLDS(text(trace.events.at[i].name)[0]);
		HOLDS(trace.events.at[i].lane != 0);
		HOLDS(trace.events.at[i].cls != SC_EV_KERNEL || trace.events.at[i].config);
		HOLDS(trace.events.at[i].cls != SC_EV_COMM || trace.events.at[i].comm);
	}
	sc_trace_release(&trace);
	free(bytes);
}

/* Bytes of a block device that were never written. */
TEST(test_hole_in_the_middle)
{
	unsigned char *bytes;
	size_t n;

	fixture_write(scratch_path, 4000);
	bytes = bytes_read(scratch_path, &n);
	memset(bytes + n / 3, 0, n / 4);
	bytes_write(scratch_path, bytes, n);
	fixture_load(scratch_path, &trace);
	ck_assert(!trace.partial);
	ck_assert_int_gt(trace.n_bad_frames, 1);
	ck_assert_uint_gt(trace.events.n, 500);
	expect_subset(4000);
	sc_trace_release(&trace);
	/* Without the end, the frames lost are counted all the same. */
	bytes_write(scratch_path, bytes, n - SC_FRAME_HEADER_BYTES);
	fixture_load(scratch_path, &trace);
	ck_assert(trace.partial);
	ck_assert_int_gt(trace.n_bad_frames, 1);
	ck_assert_uint_gt(trace.events.n, 500);
	sc_trace_release(&trace);
	free(bytes);
}

TEST(test_zeros_behind_a_cut)
{
	unsigned char *bytes;
	size_t n;

	fixture_write(scratch_path, 200);
	bytes = bytes_read(scratch_path, &n);
	memset(bytes + n - SC_FRAME_HEADER_BYTES, 0, SC_FRAME_HEADER_BYTES + 999);
	bytes_write(scratch_path, bytes, n + 999);
	fixture_load(scratch_path, &trace);
	ck_assert(trace.partial);
	ck_assert_uint_eq(trace.events.n, 200);
	sc_trace_release(&trace);
	free(bytes);
}

/* --- other versions --- */

TEST(test_unknown_frames_and_classes)
{
	unsigned char *bytes, *clocks, *events;
	size_t n;

	fixture_write(scratch_path, 200);
	bytes = bytes_read(scratch_path, &n);
	n = (size_t)(find_frame(bytes, SC_FRAME_END) - bytes);
	clocks = find_frame(bytes, SC_FRAME_CLOCKS);
	clocks[4] = 200;
	seal(clocks);
	events = find_frame(bytes, SC_FRAME_EVENTS);
	events[6] = SC_N_EVENT_CLASSES;
	seal(events);
	bytes_write(scratch_path, bytes, n);
	fixture_load(scratch_path, &trace);
	ck_assert_int_eq(trace.n_bad_frames, 0);
	ck_assert_uint_eq(trace.clocks.n, 0);
	ck_assert_uint_eq(trace.events.n, 200 - 200 / SC_N_EVENT_CLASSES - 1);
	sc_trace_release(&trace);
	free(bytes);
}

TEST(test_version)
{
	unsigned char bytes[SC_FILE_HEADER_BYTES];
	uint32_t crc;

	sc_file_header_put(bytes);
	bytes[8] = 9;
	crc = sc_crc32c(0, bytes, 12);
	for (unsigned i = 0; i < 4; i++)
		bytes[12 + i] = (unsigned char)(crc >> (8 * i));
	bytes_write(scratch_path, bytes, sizeof(bytes));
	ck_assert_int_eq(sc_trace_load(scratch_path, NULL, &trace, &err), -SC_EUNSUPPORTED);
	ck_assert_str_eq(
		err.text,
		"a trace of version 9; this stepcast reads version 6: import or record its source "
		"again, or read it with the stepcast that wrote it");
	ck_assert_str_eq(err.file, scratch_path);
}

static const char *const others[] = {"", "{", "{\"traceEvents\": [ {\"ph\": \"X\"} ] }",
				     "SQLite format 3 and more bytes"};

/* Bytes as they were written once: without units. */
TEST(test_bytes_of_once)
{
	fixture_load("tests/fuzz/seeds/trace/whole.sctrace", &trace);
	ck_assert(!trace.partial);
	ck_assert_int_eq(trace.n_bad_frames, 0);
	expect_fixture(48);
	sc_trace_release(&trace);
}

LOOP_TEST(test_not_ours, N_OF(others))
{
	bytes_write(scratch_path, others[_i], strlen(others[_i]));
	ck_assert_int_eq(sc_trace_load(scratch_path, NULL, &trace, &err), -SC_EFORMAT);
	ck_assert_str_eq(err.text,
			 "not a trace of stepcast; other traces are read by stepcast import");
}

TEST(test_not_a_file)
{
	ck_assert_int_eq(sc_trace_load("no/such/file", NULL, &trace, &err), -SC_EIO);
	memset(&err, 0, sizeof(err));
	ck_assert_int_eq(sc_trace_load(scratch_dir, NULL, &trace, &err), -SC_EIO);
	memset(&err, 0, sizeof(err));
	ck_assert_int_eq(sc_trace_load("/dev/null", NULL, &trace, &err), -SC_EIO);
}

/* Ids that no table has become 0; a table that begins far behind the others is left out. */
TEST(test_ids_out_of_range)
{
	struct sc_frame_coder *coder = sc_frame_coder_create();
	struct sc_trace_lane lane = {.name = 77, .stream = 5};
	struct sc_trace_event event = {
		.name = 9, .lane = 9, .config = UINT32_MAX, .comm = 1, .shapes = 3};
	uint8_t header[SC_FILE_HEADER_BYTES];
	FILE *file = fopen(scratch_path, "wb");

	ck_assert_ptr_nonnull(coder);
	ck_assert_ptr_nonnull(file);
	sc_file_header_put(header);
	fwrite(header, 1, sizeof(header), file);
	sc_frame_put(coder,
		     (struct sc_frame_header){.type = SC_FRAME_LANES, .count = 1, .first = 1},
		     &lane, NULL);
	fwrite(coder->out, 1, coder->n_out, file);
	sc_frame_put(
		coder,
		(struct sc_frame_header){.type = SC_FRAME_LANES, .count = 1, .first = INT32_MAX},
		&lane, NULL);
	fwrite(coder->out, 1, coder->n_out, file);
	sc_frame_put(coder,
		     (struct sc_frame_header){.type = SC_FRAME_LANES, .count = 1, .first = -5},
		     &lane, NULL);
	fwrite(coder->out, 1, coder->n_out, file);
	sc_frame_put_events(coder, &event, 1);
	fwrite(coder->out, 1, coder->n_out, file);
	ck_assert_int_eq(fclose(file), 0);
	fixture_load(scratch_path, &trace);
	ck_assert_int_eq(trace.n_bad_frames, 2);
	ck_assert_uint_eq(trace.lanes.n, 2);
	ck_assert_int_eq(trace.lanes.at[1].stream, 5);
	ck_assert_uint_eq(trace.lanes.at[1].name, 0);
	ck_assert_uint_eq(trace.events.n, 1);
	ck_assert_uint_eq(trace.events.at[0].name, 0);
	ck_assert_uint_eq(trace.events.at[0].lane, 0);
	ck_assert_uint_eq(trace.events.at[0].config, 0);
	ck_assert_int_eq(trace.lanes.at[0].device, -1);
	sc_trace_release(&trace);
	sc_frame_coder_destroy(coder);
}

TEST(test_disk_full)
{
	struct sc_trace_writer *w;

	ck_assert_int_eq(sc_trace_writer_create("/dev/full", &fixture_identity, &w, &err), 0);
	for (unsigned i = 0; i < 100; i++) {
		struct sc_trace_event event = fixture_event(i);

		sc_trace_writer_add(w, &event);
	}
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, &err), -SC_EIO);
	ck_assert_str_eq(err.text, "cannot write: No space left on device");
	ck_assert_str_eq(err.file, "/dev/full");
}

/* --- runs --- */

TEST(test_list)
{
	static const struct {
		const char *name;
		int32_t rank;
	} files[] = {{"z", 0}, {"b", 10}, {"a", -1}, {"c", 2}, {"d", 2}};
	struct sc_arena arena;
	const char *const *paths;
	char path[192];
	size_t n;

	sc_arena_init(&arena, 4096);
	ck_assert_int_eq(sc_trace_list(scratch_dir, &arena, &paths, &n, &err), -SC_EVALUE);
	ck_assert_str_eq(err.text, "no trace here (*.sctrace); stepcast import makes one of a "
				   "profiler's files");
	memset(&err, 0, sizeof(err));
	for (size_t i = 0; i < 5; i++) {
		struct sc_trace_identity identity = fixture_identity;
		struct sc_trace_writer *w;

		snprintf(path, sizeof(path), "%s/%s.sctrace", scratch_dir, files[i].name);
		ck_assert_int_eq(sc_trace_writer_create(path, &identity, &w, &err), 0);
		identity.rank = files[i].rank; /* known late: the last one holds */
		sc_trace_writer_identity(w, &identity);
		ck_assert_int_eq(sc_trace_writer_finish(w, NULL, &err), 0);
	}
	snprintf(path, sizeof(path), "%s/", scratch_dir);
	ck_assert_int_eq(sc_trace_list(path, &arena, &paths, &n, &err), 0);
	ck_assert_uint_eq(n, 5);
	for (size_t i = 0; i < 5; i++) {
		snprintf(path, sizeof(path), "%s/%c.sctrace", scratch_dir, "zcdba"[i]);
		ck_assert_str_eq(paths[i], path);
	}
	ck_assert_int_eq(sc_trace_list(path, &arena, &paths, &n, &err), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_str_eq(paths[0], path);
	ck_assert_int_eq(sc_trace_list("no/such", &arena, &paths, &n, &err), -SC_EIO);
	sc_arena_release(&arena);
}
