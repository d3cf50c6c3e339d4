/* The pure parts of the tracer: what needs no CUDA, no threads and no host. */
#include <unistd.h>

#include "base/utf8.h"
#include "runner.h"
#include "trace/capture/capture_file.h"
#include "trace/capture/hash_ids.h"
#include "trace/capture/rank_identity.h"
#include "trace/capture/recover.h"
#include "trace/format/trace_frames.h"

static char dir[] = "capture-test-XXXXXX";
static char raw_path[128], trace_path[128];

static void set_up(void)
{
	memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(raw_path, sizeof(raw_path), "%s/run.raw", dir);
	snprintf(trace_path, sizeof(trace_path), "%s/run.sctrace", dir);
}

static void tear_down(void)
{
	unlink(raw_path);
	unlink(trace_path);
	rmdir(dir);
}

/* --- identity --- */

static const char *from_list(void *ctx, const char *name)
{
	const char *const *list = ctx;

	for (; *list; list += 2) {
		if (strcmp(list[0], name) == 0)
			return list[1];
	}
	return NULL;
}

LOOP_TEST(ranks_come_from_launchers, 8)
{
	static const struct {
		const char *list[10];
		int rank, world, local;
	} cases[] = {
		{{"RANK", "3", "WORLD_SIZE", "8", "LOCAL_RANK", "1", NULL}, 3, 8, 1},
		{{"OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE", "4", NULL}, 2, 4, -1},
		{{"SLURM_PROCID", "7", "SLURM_NTASKS", "16", "SLURM_LOCALID", "7", NULL}, 7, 16, 7},
		/* The launcher nearest to the program holds. */
		{{"SLURM_PROCID", "0", "SLURM_NTASKS", "2", "RANK", "5", "WORLD_SIZE", "9", NULL},
		 5,
		 9,
		 -1},
		{{"RANK", "-1", NULL}, -1, -1, -1},
		{{"RANK", "x", "PMI_RANK", "1", NULL}, 1, -1, -1},
		{{"RANK", "99999999999", NULL}, -1, -1, -1},
		{{NULL}, -1, -1, -1},
	};
	struct sc_trace_identity identity;

	sc_rank_identity_read(&identity, from_list, (void *)(uintptr_t)cases[_i].list);
	ck_assert_int_eq(identity.rank, cases[_i].rank);
	ck_assert_int_eq(identity.world, cases[_i].world);
	ck_assert_int_eq(identity.local_rank, cases[_i].local);
}

/* --- texts --- */

TEST(wide_text_is_utf8)
{
	char out[16];

	ck_assert_uint_eq(sc_wide_to_utf8(L"a\u00e9\u20ac", out, sizeof(out)), 6);
	ck_assert_str_eq(out, "a\xc3\xa9\xe2\x82\xac");
	ck_assert_uint_eq(sc_wide_to_utf8(L"\U0001F600", out, sizeof(out)), 4);
	ck_assert_str_eq(out, "\xf0\x9f\x98\x80");
	ck_assert_uint_eq(sc_wide_to_utf8(L"abc\u20ac", out, 6), 3); /* no half characters */
	ck_assert_str_eq(out, "abc");
}

LOOP_TEST(api_names_lose_versions, 6)
{
	static const struct {
		const char *name, *want;
	} cases[] = {
		{"cudaLaunchKernel_v7000", "cudaLaunchKernel"},
		{"cudaStreamIsCapturing_ptsz_v10000", "cudaStreamIsCapturing"},
		{"cuMemcpyHtoD_v2", "cuMemcpyHtoD"},
		{"cudaMemset2D", "cudaMemset2D"},
		{"_v1", ""},
		{"", ""},
	};

	ck_assert_uint_eq(sc_api_name_length(cases[_i].name), strlen(cases[_i].want));
}

TEST(hashes_give_dense_ids)
{
	struct sc_hash_ids ids = {.limit = 5000};
	int is_new;

	for (uint64_t i = 0; i < 5000; i++) {
		ck_assert_uint_eq(sc_hash_ids_put(&ids, sc_hash_bytes(&i, sizeof(i)), &is_new),
				  i + 1);
		ck_assert(is_new);
	}
	for (uint64_t i = 0; i < 5000; i++) {
		ck_assert_uint_eq(sc_hash_ids_put(&ids, sc_hash_bytes(&i, sizeof(i)), &is_new),
				  i + 1);
		ck_assert(!is_new);
	}
	ck_assert_uint_eq(sc_hash_ids_put(&ids, 12345, &is_new), 0); /* full */
	ck_assert(!is_new);
	sc_hash_ids_release(&ids);
}

FIXTURE(set_up, tear_down)

/* --- the raw file --- */

TEST(buffers_are_lent_once_and_come_in_order)
{
	struct sc_raw_file raw = {.header = NULL};

	ck_assert_int_eq(sc_raw_create(&raw, raw_path, 3, 4096), 0);
	ck_assert_int_eq(sc_raw_lend(&raw, 1), 1);
	ck_assert_int_eq(sc_raw_lend(&raw, 1), 2);
	ck_assert_int_eq(sc_raw_lend(&raw, 1), 0);
	ck_assert_int_eq(sc_raw_lend(&raw, 1), -1);
	ck_assert_int_eq(sc_raw_first_full(&raw), -1);
	sc_raw_give(&raw, 2, 8, 10);
	sc_raw_give(&raw, 1, 8, 11);
	ck_assert_int_eq(sc_raw_first_full(&raw), 2);
	memset(sc_raw_buffer_at(&raw, 2), 7, 8);
	sc_raw_recycle(&raw, 2);
	ck_assert_int_eq(sc_raw_buffer_at(&raw, 2)[0], 0);
	ck_assert_int_eq(sc_raw_first_full(&raw), 1);
	ck_assert_int_eq(sc_raw_buffer_index(&raw, sc_raw_buffer_at(&raw, 2)), 2);
	ck_assert_int_eq(sc_raw_buffer_index(&raw, (const uint8_t *)raw_path), -1);
	sc_raw_close(&raw, true);
	ck_assert_int_ne(access(raw_path, F_OK), 0);
}

TEST(names_follow_their_text)
{
	struct sc_raw_file raw = {.header = NULL};
	const struct sc_raw_name *name;

	ck_assert_int_eq(sc_raw_create(&raw, raw_path, 2, 4096), 0);
	ck_assert_ptr_nonnull(sc_raw_name_put(&raw, 0x1000, "first"));
	name = sc_raw_name_put(&raw, 0x1000, "first");
	ck_assert_str_eq(raw.texts + name->at, "first");
	/* A module was unloaded, another has its address. */
	name = sc_raw_name_put(&raw, 0x1000, "second");
	ck_assert_str_eq(raw.texts + name->at, "second");
	ck_assert_str_eq(raw.texts + sc_raw_name_get(&raw, 0x1000)->at, "second");
	ck_assert_ptr_null(sc_raw_name_get(&raw, 0x2000));
	sc_raw_close(&raw, true);
}

TEST(rings_wrap_and_fill_up)
{
	struct sc_raw_file raw = {.header = NULL};
	uint64_t at = 0, n_in = 0, n_out = 0;

	ck_assert_int_eq(sc_raw_create(&raw, raw_path, 2, 4096), 0);
	for (int round = 0; round < 5; round++) {
		const struct sc_host_record *record;
		static const char text[900] = "";

		while (sc_host_ring_put(&raw, 3,
					&(struct sc_host_record){.kind = SC_HOST_MARK,
								 .n_text = (uint32_t)(n_in % 900),
								 .start_ns = (int64_t)n_in},
					text))
			n_in++;
		while ((record = sc_host_ring_read(&raw, 3, &at))) {
			ck_assert_int_eq(record->start_ns, (int64_t)n_out++);
			ck_assert_uint_eq(record->n_text, (uint32_t)(record->start_ns % 900));
		}
		atomic_store(&raw.header->rings[3].tail, at);
		ck_assert_uint_eq(n_in, n_out);
	}
	ck_assert_uint_gt(n_in, 5 * SC_RAW_RING_BYTES / 2048);
	sc_raw_close(&raw, true);
}

/* --- recovery --- */

enum { N_KERNELS = 100, STRIDE = sizeof(struct sc_cupti_kernel) };
static const char KERNEL_NAME[] = "a_kernel";

static void make_raw(struct sc_raw_file *raw)
{
	ck_assert_int_eq(sc_raw_create(raw, raw_path, 4, 64 << 10), 0);
	raw->header->strides[SC_CUPTI_KERNEL] = STRIDE;
	raw->header->pid = 1 << 22; /* nobody's */
	raw->header->base_mono_ns = 1000;
	snprintf(raw->header->trace_name, SC_RAW_TRACE_NAME, "run.sctrace");
	sc_raw_name_put(raw, (uintptr_t)KERNEL_NAME, KERNEL_NAME);
}

static void put_kernels(struct sc_raw_file *raw, uint32_t index, uint32_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct sc_cupti_kernel kernel = {.kind = SC_CUPTI_KERNEL,
						 .start = 2000 + 10 * (first + i),
						 .end = 2005 + 10 * (first + i),
						 .name = KERNEL_NAME,
						 .correlation = first + i,
						 .grid = {1, 1, 1},
						 .block = {1, 1, 1}};

		memcpy(sc_raw_buffer_at(raw, index) + (size_t)i * STRIDE, &kernel, STRIDE);
	}
	raw->header->buffers[index].valid_bytes = n * STRIDE;
	raw->header->buffers[index].state = SC_RAW_FULL;
}

/* As the writer's thread does it; the bytes it would have written until it died. */
static uint64_t write_trace(struct sc_raw_file *raw, uint32_t index)
{
	static const struct sc_trace_identity identity = {
		.rank = 5, .base_utc_ns = 77, .source = "capture"};
	struct sc_capture_file *file = sc_capture_file_create();
	struct sc_event_sink sink;
	struct sc_decoder decoder;
	uint64_t begin, end;

	sc_capture_file_sink(file, &sink);
	ck_assert(sc_decoder_init(&decoder, raw, &sink, true));
	sc_decode_buffer(&decoder, sc_raw_buffer_at(raw, index),
			 raw->header->buffers[index].valid_bytes, false);
	ck_assert_int_eq(sc_capture_file_open(file, trace_path, &identity), 0);
	sc_capture_file_prepare(file, &begin, &end);
	raw->header->buffers[index].frames_begin = begin;
	raw->header->buffers[index].frames_end = end;
	ck_assert_int_eq(sc_capture_file_write(file), 0);
	sc_decoder_release(&decoder);
	sc_capture_file_destroy(file); /* neither index nor end */
	return end;
}

static void check_recovered(int64_t n_recovered, uint32_t n)
{
	struct sc_recovery result;
	struct sc_err err = {.code = SC_OK};
	struct sc_trace trace;

	ck_assert(!sc_capture_is_running(raw_path));
	ck_assert_msg(sc_capture_recover(raw_path, &result, &err) == 0, "%s", err.text);
	ck_assert_int_eq(result.n_recovered, n_recovered);
	ck_assert_int_eq(result.n_events, n);
	ck_assert_int_ne(access(raw_path, F_OK), 0);
	ck_assert_int_eq(sc_trace_load(trace_path, NULL, &trace, &err), 0);
	ck_assert_uint_eq(trace.events.n, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct sc_trace_event *event = &trace.events.at[i];

		ck_assert_uint_eq(event->correlation, i + 1);
		ck_assert_int_eq(event->start_ns, 1000 + 10 * (int64_t)(i + 1));
		ck_assert_int_eq(event->dur_ns, 5);
		ck_assert_str_eq(trace.strings.at[event->name], KERNEL_NAME);
	}
	ck_assert(!trace.partial);
	sc_trace_release(&trace);
}

/* Whatever of the frames had been written when the process died: each event is there once. */
LOOP_TEST(a_cut_trace_is_made_whole, 21)
{
	struct sc_raw_file raw = {.header = NULL};
	uint64_t end;

	make_raw(&raw);
	put_kernels(&raw, 2, 1, N_KERNELS);
	end = write_trace(&raw, 2);
	put_kernels(&raw, 0, N_KERNELS + 1, N_KERNELS);
	atomic_store(&raw.header->buffers[0].order, 1);
	sc_raw_close(&raw, false);
	ck_assert_int_eq(truncate(trace_path, (off_t)(end * (uint64_t)_i / 20)), 0);
	check_recovered(_i == 20 ? N_KERNELS : 2 * N_KERNELS, 2 * N_KERNELS);
}

/* More than a frame of a class may come before the tracer knows where its file goes. */
TEST(what_came_before_the_file_is_in_it)
{
	static const struct sc_trace_identity identity = {.rank = 5, .source = "capture"};
	enum { N = SC_FRAME_MAX_ROWS + 1 };
	struct sc_capture_file *file = sc_capture_file_create();
	struct sc_err err = {.code = SC_OK};
	struct sc_event_sink sink;
	struct sc_trace trace;

	sc_capture_file_sink(file, &sink);
	for (int64_t i = 0; i < N; i++) {
		struct sc_trace_event event = {.name = sink.string(file, "a", 1), .start_ns = i};

		sink.add(file, &event);
	}
	ck_assert_int_eq(sc_capture_file_open(file, trace_path, &identity), 0);
	ck_assert_int_eq(sc_capture_file_finish(file), 0);
	ck_assert_int_eq(sc_capture_file_lost(file), 0);
	sc_capture_file_destroy(file);
	ck_assert_int_eq(sc_trace_load(trace_path, NULL, &trace, &err), 0);
	ck_assert_uint_eq(trace.events.n, N);
	ck_assert_str_eq(trace.strings.at[trace.events.at[0].name], "a");
	sc_trace_release(&trace);
}

TEST(a_torn_record_is_left_out)
{
	struct sc_raw_file raw = {.header = NULL};
	struct sc_cupti_kernel *last;

	make_raw(&raw);
	put_kernels(&raw, 1, 1, 10);
	raw.header->buffers[1].state = SC_RAW_LENT; /* CUPTI was filling it */
	last = (struct sc_cupti_kernel *)(void *)(sc_raw_buffer_at(&raw, 1) + 9 * STRIDE);
	last->end = 0;
	sc_raw_close(&raw, false);
	check_recovered(9, 9);
}

TEST(other_files_are_refused)
{
	struct sc_recovery result;
	struct sc_err err = {.code = SC_OK};
	FILE *file = fopen(raw_path, "w");

	for (int i = 0; i < 40000; i++)
		fputc(i & 0xff, file);
	fclose(file);
	ck_assert_int_eq(sc_capture_recover(raw_path, &result, &err), -SC_EFORMAT);
	ck_assert_int_eq(access(raw_path, F_OK), 0);
	ck_assert(!sc_capture_is_running(raw_path));
}

/* Killed while the file was made: empty, or all zeros. Nothing is lost but the file. */
LOOP_TEST(a_file_without_its_head_goes, 2)
{
	struct sc_recovery result;
	struct sc_err err = {.code = SC_OK};
	FILE *file = fopen(raw_path, "w");

	ck_assert_int_eq(ftruncate(fileno(file), _i ? 1 << 20 : 0), 0);
	fclose(file);
	ck_assert_msg(sc_capture_recover(raw_path, &result, &err) == 0, "%s", err.text);
	ck_assert_int_eq(result.n_events, 0);
	ck_assert_str_eq(result.path, "");
	ck_assert_int_ne(access(raw_path, F_OK), 0);
	ck_assert_int_ne(access(trace_path, F_OK), 0);
}

/* Places that CUPTI had reserved and not written: what is behind them is there. */
TEST(a_hole_ends_no_walk)
{
	struct sc_raw_file raw = {.header = NULL};
	struct sc_recovery result;
	struct sc_err err = {.code = SC_OK};

	make_raw(&raw);
	put_kernels(&raw, 1, 1, 10);
	raw.header->buffers[1].state = SC_RAW_LENT;
	memset(sc_raw_buffer_at(&raw, 1), 0, STRIDE);
	memset(sc_raw_buffer_at(&raw, 1) + 4 * STRIDE, 0, 2 * STRIDE);
	sc_raw_close(&raw, false);
	ck_assert_int_eq(sc_capture_recover(raw_path, &result, &err), 0);
	ck_assert_int_eq(result.n_recovered, 7);
	ck_assert_int_eq(result.n_torn, 2);
}

/* --- single records --- */

static struct sc_trace_event events[8];
static struct sc_trace_lane event_lanes[8];
static char event_names[8][32];
static size_t n_events, n_texts, n_lanes;

static uint32_t keep_string(void *ctx, const char *text, size_t n)
{
	(void)ctx;
	snprintf(event_names[n_texts], sizeof(event_names[0]), "%.*s", (int)n, text);
	return (uint32_t)++n_texts;
}

static uint32_t keep_lane(void *ctx, const struct sc_trace_lane *lane)
{
	(void)ctx;
	event_lanes[n_lanes] = *lane;
	return (uint32_t)++n_lanes;
}

static uint32_t keep_config(void *ctx, const struct sc_trace_config *config)
{
	(void)ctx, (void)config;
	return 1;
}

static void keep_event(void *ctx, const struct sc_trace_event *event)
{
	(void)ctx;
	events[n_events++] = *event;
}

/* Into events[]; records are of the trace's second hour. */
static struct sc_decode_counts decode(struct sc_raw_file *raw, const void *records, size_t n)
{
	const struct sc_event_sink sink = {
		.string = keep_string, .lane = keep_lane, .config = keep_config, .add = keep_event};
	struct sc_decoder decoder;

	n_events = n_texts = n_lanes = 0;
	ck_assert(sc_decoder_init(&decoder, raw, &sink, false));
	decoder.now_ns = INT64_C(3600000000000);
	sc_decode_buffer(&decoder, records, n, false);
	sc_decoder_release(&decoder);
	return decoder.counts;
}

LOOP_TEST(overheads_say_their_kind, 5)
{
	static const struct {
		uint32_t kind, object;
		uint8_t sub;
		const char *name;
	} cases[] = {
		{0, 2, 0, "CUPTI overhead"},
		{1, 2, SC_OVERHEAD_LOW + 1, "Compiler"}, /* not the same as a flush */
		{1 << 16, 2, 1, "CUPTI overhead"},
		{6 << 16, 2, 6, "Command Buffer Full"},
		{6 << 16, 5, 6, "Command Buffer Full"}, /* of a stream, not of a thread */
	};
	const struct sc_cupti_overhead record = {.kind = SC_CUPTI_OVERHEAD,
						 .overhead_kind = cases[_i].kind,
						 .object_kind = cases[_i].object,
						 .object = {3, 4, 5},
						 .start = 2000,
						 .end = 2500,
						 .correlation = 77};
	struct sc_raw_file raw = {.header = NULL};

	make_raw(&raw);
	raw.header->strides[SC_CUPTI_OVERHEAD] = sizeof(record);
	decode(&raw, &record, sizeof(record));
	ck_assert_uint_eq(n_events, 1);
	ck_assert_uint_eq(events[0].sub, cases[_i].sub);
	ck_assert_str_eq(event_names[events[0].name - 1], cases[_i].name);
	ck_assert_int_eq(events[0].dur_ns, 500);
	ck_assert_uint_eq(events[0].correlation, 77);
	if (cases[_i].object == 5)
		ck_assert_int_eq(event_lanes[0].stream, 5);
	else
		ck_assert_int_eq(event_lanes[0].tid, 4);
	raw.header->strides[SC_CUPTI_OVERHEAD] = 40; /* of CUDA 12.0: no correlation */
	decode(&raw, &record, 40);
	ck_assert_uint_eq(events[0].correlation, 0);
	sc_raw_close(&raw, true);
}

TEST(what_cannot_be_walked_is_counted)
{
	struct sc_raw_file raw = {.header = NULL};
	uint64_t words[64] = {SC_CUPTI_MEMSET, 1};

	make_raw(&raw);
	ck_assert_int_eq(decode(&raw, words, sizeof(words)).n_ended, 1);
	words[0] = words[1] = 0;
	ck_assert_int_eq(decode(&raw, words, sizeof(words)).n_ended, 0); /* nothing is in it */
	words[60] = SC_CUPTI_KERNEL; /* finished buffers have no holes */
	ck_assert_int_eq(decode(&raw, words, sizeof(words)).n_ended, 1);
	ck_assert_uint_eq(n_events, 0);
	sc_raw_close(&raw, true);
}

/* Seconds: before the trace, in it, far after it, as another client's clock would say. */
LOOP_TEST(times_of_other_clocks_are_none, 5)
{
	static const int64_t at_s[] = {-90, -1, 3590, 3601, 4000};
	static const bool is_time[] = {false, true, true, true, false};
	struct sc_raw_file raw = {.header = NULL};
	struct {
		struct sc_cupti_api call;
		struct sc_cupti_kernel kernel;
		struct sc_cupti_event event;
	} records = {.call = {.kind = SC_CUPTI_DRIVER, .thread = 9},
		     .kernel = {.kind = SC_CUPTI_KERNEL},
		     .event = {.kind = SC_CUPTI_CUDA_EVENT}};
	uint64_t ns;

	make_raw(&raw);
	raw.header->base_mono_ns = INT64_C(100000000000);
	raw.header->strides[SC_CUPTI_DRIVER] = sizeof(records.call);
	raw.header->strides[SC_CUPTI_CUDA_EVENT] = sizeof(records.event);
	ns = (uint64_t)(raw.header->base_mono_ns + at_s[_i] * 1000000000);
	records.call.start = records.kernel.start = records.event.device_timestamp = ns;
	records.call.end = records.kernel.end = ns + 50;
	decode(&raw, &records, sizeof(records));
	ck_assert_uint_eq(n_events, 3);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(!(events[i].flags & SC_EVF_NO_TIME), is_time[_i]);
		ck_assert_int_eq(events[i].start_ns, is_time[_i] ? at_s[_i] * 1000000000 : 0);
	}
	/* Calls of the tracer's own thread are no events. */
	raw.header->own_tid = 9;
	ck_assert_int_eq(decode(&raw, &records, sizeof(records)).n_own, 1);
	ck_assert_uint_eq(n_events, 2);
	sc_raw_close(&raw, true);
}

/* --- kernels and the NCCL calls they are of --- */

struct group {
	const char *calls[4]; /* "NAME:BYTES:COMMUNICATOR" */
	int n_kernels;
	int64_t bytes[2]; /* of each kernel; 0: no call is named */
	const char *collective;
};
static const struct group GROUPS[] = {
	{{"AllReduce:64:1"}, 1, {64}, "AllReduce"},
	{{"AllReduce:64:1", "AllReduce:32:1"}, 1, {96}, "AllReduce"},
	{{"AllReduce:64:1", "AllReduce:32:1"}, 2, {64, 32}, "AllReduce"},
	{{"Send:64:1", "Recv:48:1", "Send:8:1"}, 1, {72}, "Send"},
	{{"AllReduce:64:1", "AllReduce:32:2"}, 1, {0}, ""},
	{{"AllReduce:64:1", "AllGather:32:1"}, 1, {0}, ""},
	{{"AllReduce:64:1", "AllReduce:32:1", "AllReduce:16:1"}, 2, {0, 0}, ""},
	{{NULL}, 1, {0}, ""},
};
enum { N_GROUPS = sizeof(GROUPS) / sizeof(GROUPS[0]) };

static void write_call(struct sc_trace_writer *w, const char *call, int64_t id, int64_t start_ns)
{
	const size_t n = strcspn(call, ":");
	struct sc_trace_comm comm;
	struct sc_trace_event event = {.cls = SC_EV_COMM, .external_id = id, .start_ns = start_ns};
	char *rest;

	sc_trace_comm_init(&comm);
	comm.collective = sc_trace_writer_string(w, call, n);
	comm.bytes = strtoll(call + n + 1, &rest, 10);
	comm.comm_hash = strtoull(rest + 1, NULL, 10);
	event.comm = sc_trace_writer_comm(w, &comm);
	sc_trace_writer_add(w, &event);
}

/* A kernel, of which only every other one has the id itself, and the calls that launched it. */
static void write_launch(struct sc_trace_writer *w, int g, int k, int64_t start_ns)
{
	static const char *const names[] = {"cudaLaunchKernelExC", "cuLaunchKernelEx"};
	struct sc_trace_event event = {.cls = SC_EV_KERNEL,
				       .external_id = g % 2 ? g + 1 : 0,
				       .start_ns = start_ns,
				       .correlation = (uint32_t)(10 * g + k + 1)};

	sc_trace_writer_add(w, &event);
	event.cls = SC_EV_API;
	event.external_id = g + 1;
	for (int i = 0; i < 2; i++) {
		event.name = sc_trace_writer_string(w, names[i], strlen(names[i]));
		sc_trace_writer_add(w, &event);
	}
}

static void write_groups(void)
{
	const struct sc_trace_identity identity = {.rank = 0, .world = 2, .source = "capture"};
	struct sc_trace_writer *w;
	int64_t start_ns = 0;

	ck_assert_int_eq(sc_trace_writer_create(trace_path, &identity, &w, NULL), 0);
	for (int g = 0; g < N_GROUPS; g++) {
		for (int k = 0; k < GROUPS[g].n_kernels; k++)
			write_launch(w, g, k, ++start_ns);
		for (int c = 0; c < 4 && GROUPS[g].calls[c]; c++)
			write_call(w, GROUPS[g].calls[c], g + 1, ++start_ns);
	}
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, NULL), 0);
}

TEST(packed_kernels_name_their_calls)
{
	struct sc_recovery result;
	struct sc_trace trace;
	int n_seen = 0;

	write_groups();
	ck_assert_int_eq(sc_capture_pack(trace_path, &result, NULL), 0);
	ck_assert_int_eq(sc_trace_load(trace_path, NULL, &trace, NULL), 0);
	for (size_t i = 0; i < trace.events.n; i++) {
		const struct sc_trace_event *event = &trace.events.at[i];
		const struct sc_trace_comm *comm = &trace.comms.at[event->comm];
		const struct group *group;
		int64_t bytes;

		if (event->cls != SC_EV_KERNEL)
			continue;
		group = &GROUPS[(event->correlation - 1) / 10];
		bytes = group->bytes[(event->correlation - 1) % 10 & 1];
		n_seen++;
		ck_assert_int_eq(event->external_id, group - GROUPS + 1);
		ck_assert_int_eq(event->comm != 0, bytes != 0);
		if (bytes)
			ck_assert_int_eq(comm->bytes, bytes);
		ck_assert_str_eq(trace.strings.at[comm->collective], group->collective);
	}
	ck_assert_int_eq(n_seen, 10);
	sc_trace_release(&trace);
}

/* Records in an order that no writer can complete: the wait first, then the events' records, the
 * kernel that tells the device of the context last. The wait is for the record before it, not for
 * the later one. */
static void write_late_records(struct sc_trace_writer *w)
{
	static const struct {
		enum sc_event_class cls;
		const char *name;
		uint32_t correlation;
		int64_t start_ns;
		int device;
	} rows[] = {
		{SC_EV_SYNC, "Stream Wait Event", 3, 300, -1},
		{SC_EV_API, "cudaStreamWaitEvent", 3, 300, -1},
		{SC_EV_EVENT_RECORD, "Event Record", 4, 0, -1},
		{SC_EV_EVENT_RECORD, "Event Record", 2, 0, -1},
		{SC_EV_EVENT_RECORD, "Event Record", 1, 0, -1},
		{SC_EV_API, "cudaEventRecord", 1, 100, -1},
		{SC_EV_API, "cudaEventRecord", 2, 200, -1},
		{SC_EV_API, "cudaEventRecord", 4, 400, -1},
		{SC_EV_KERNEL, "k", 9, 500, 2},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct sc_trace_lane stream = {
			.is_stream = 1, .device = rows[i].device, .stream = 7, .context = 5};
		const struct sc_trace_lane thread = {.pid = 1, .tid = 1, .device = -1};
		const struct sc_trace_event event = {
			.cls = (uint8_t)rows[i].cls,
			.sub = SC_SYNC_STREAM_WAIT,
			.name = sc_trace_writer_string(w, rows[i].name, strlen(rows[i].name)),
			.lane = sc_trace_writer_lane(w,
						     rows[i].cls == SC_EV_API ? &thread : &stream),
			.correlation = rows[i].correlation,
			.start_ns = rows[i].start_ns,
			.aux0 = rows[i].cls == SC_EV_API ? 0 : 6,
			.aux1 = rows[i].cls == SC_EV_SYNC ? -1 : 0,
		};

		sc_trace_writer_add(w, &event);
	}
}

TEST(packing_completes_late_records)
{
	const struct sc_trace_identity identity = {.rank = 0, .world = 1, .source = "capture"};
	struct sc_recovery result;
	struct sc_trace_writer *w;
	struct sc_trace trace;
	int n_waits = 0;

	ck_assert_int_eq(sc_trace_writer_create(trace_path, &identity, &w, NULL), 0);
	write_late_records(w);
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, NULL), 0);
	ck_assert_int_eq(sc_capture_pack(trace_path, &result, NULL), 0);
	ck_assert_int_eq(sc_trace_load(trace_path, NULL, &trace, NULL), 0);
	for (size_t i = 0; i < trace.events.n; i++) {
		const struct sc_trace_event *event = &trace.events.at[i];

		if (trace.lanes.at[event->lane].is_stream)
			ck_assert_int_eq(trace.lanes.at[event->lane].device, 2);
		if (event->cls == SC_EV_SYNC)
			ck_assert_int_eq(event->aux1, 2);
		n_waits += event->cls == SC_EV_SYNC;
	}
	ck_assert_int_eq(n_waits, 1);
	sc_trace_release(&trace);
}
