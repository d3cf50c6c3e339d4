/* The pure parts of the tracer: what needs no CUDA, no threads and no host. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/capture/capture_file.h"
#include "trace/capture/hash_ids.h"
#include "trace/capture/iterations.h"
#include "trace/capture/rank_identity.h"
#include "trace/capture/recover.h"
#include "trace/capture/wide_text.h"

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

START_TEST(ranks_come_from_launchers)
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
END_TEST

/* --- texts --- */

START_TEST(wide_text_is_utf8)
{
	char out[16];

	ck_assert_uint_eq(sc_wide_to_utf8(L"a\u00e9\u20ac", out, sizeof(out)), 6);
	ck_assert_str_eq(out, "a\xc3\xa9\xe2\x82\xac");
	ck_assert_uint_eq(sc_wide_to_utf8(L"\U0001F600", out, sizeof(out)), 4);
	ck_assert_str_eq(out, "\xf0\x9f\x98\x80");
	ck_assert_uint_eq(sc_wide_to_utf8(L"abc\u20ac", out, 6), 3); /* no half characters */
	ck_assert_str_eq(out, "abc");
}
END_TEST

START_TEST(api_names_lose_versions)
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
END_TEST

START_TEST(hashes_give_dense_ids)
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
END_TEST

/* --- the raw file --- */

START_TEST(buffers_are_lent_once_and_come_in_order)
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
END_TEST

START_TEST(names_follow_their_text)
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
END_TEST

START_TEST(rings_wrap_and_fill_up)
{
	struct sc_raw_file raw = {.header = NULL};
	uint64_t at = 0, n_in = 0, n_out = 0;

	ck_assert_int_eq(sc_raw_create(&raw, raw_path, 2, 4096), 0);
	for (int round = 0; round < 5; round++) {
		const struct sc_host_record *record;
		struct sc_host_record *room;

		while ((room = sc_host_ring_reserve(&raw, 3, (uint32_t)(n_in % 900)))) {
			room->kind = SC_HOST_MARK;
			room->start_ns = (int64_t)n_in++;
			sc_host_ring_publish(&raw, 3, room);
		}
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
END_TEST

/* --- iterations --- */

/* `n` iterations of: begin, `layers` of three kernels, as many backwards, an optimizer; every other one
 * logs. The first two are warming up. */
static size_t make_names(uint32_t *names, int n, int layers)
{
	size_t at = 0;

	for (int k = 0; k < 40; k++)
		names[at++] = 90 + (uint32_t)(k * k % 7);
	for (int i = 0; i < n; i++) {
		names[at++] = 1;
		for (int k = 0; k < 3 * layers; k++)
			names[at++] = 2 + (uint32_t)(k % 3);
		for (int k = 0; k < 5 * layers; k++)
			names[at++] = 10 + (uint32_t)(k % 5);
		names[at++] = i % 2 ? 20 : 21;
		names[at++] = 22;
	}
	return at;
}

START_TEST(iterations_are_what_repeats)
{
	static uint32_t names[100000];
	size_t n = make_names(names, 10, 24), length = 24 * 8 + 3;
	struct sc_period period;

	ck_assert(sc_find_period(names, n, &period));
	ck_assert_uint_eq(period.length, length);
	ck_assert_uint_ge(period.n, 9);
	ck_assert_uint_le(period.first + period.n * period.length, n);
	ck_assert(!sc_find_period(names, 40 + 2 * length, &period)); /* two are no proof */
	ck_assert(!sc_find_period(names, 0, &period));
	for (size_t i = 0; i < n; i++)
		names[i] = (uint32_t)i;
	ck_assert(!sc_find_period(names, n, &period));
}
END_TEST

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
	static const struct sc_trace_identity identity = {.rank = 5, .source = "capture"};
	struct sc_capture_file *file = sc_capture_file_create();
	struct sc_event_sink sink;
	struct sc_decoder decoder;
	uint64_t begin, end;

	sc_capture_file_sink(file, &sink);
	ck_assert(sc_decoder_init(&decoder, raw, &sink, true));
	sc_decode_buffer(&decoder, sc_raw_buffer_at(raw, index),
			 raw->header->buffers[index].valid_bytes, false);
	ck_assert_int_eq(sc_capture_file_open(file, trace_path, &identity, 77), 0);
	sc_capture_file_prepare(file, &begin, &end);
	raw->header->buffers[index].frames_begin = begin;
	raw->header->buffers[index].frames_end = end;
	ck_assert_int_eq(sc_capture_file_write(file), 0);
	ck_assert_int_eq(sc_capture_file_events(file), N_KERNELS);
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
START_TEST(a_cut_trace_is_made_whole)
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
END_TEST

START_TEST(a_torn_record_is_left_out)
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
END_TEST

START_TEST(other_files_are_refused)
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
END_TEST

/* Killed while the file was made: empty, or all zeros. Nothing is lost but the file. */
START_TEST(a_file_without_its_head_goes)
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
END_TEST

int main(void)
{
	Suite *suite = suite_create("capture");
	TCase *pure = tcase_create("pure"), *files = tcase_create("files");
	SRunner *runner = srunner_create(suite);
	int n_failed;

	tcase_add_loop_test(pure, ranks_come_from_launchers, 0, 8);
	tcase_add_test(pure, wide_text_is_utf8);
	tcase_add_loop_test(pure, api_names_lose_versions, 0, 6);
	tcase_add_test(pure, iterations_are_what_repeats);
	tcase_add_test(pure, hashes_give_dense_ids);
	tcase_add_checked_fixture(files, set_up, tear_down);
	tcase_add_test(files, buffers_are_lent_once_and_come_in_order);
	tcase_add_test(files, names_follow_their_text);
	tcase_add_test(files, rings_wrap_and_fill_up);
	tcase_add_loop_test(files, a_cut_trace_is_made_whole, 0, 21);
	tcase_add_test(files, a_torn_record_is_left_out);
	tcase_add_test(files, other_files_are_refused);
	tcase_add_loop_test(files, a_file_without_its_head_goes, 0, 2);
	suite_add_tcase(suite, pure);
	suite_add_tcase(suite, files);
	srunner_run_all(runner, CK_NORMAL);
	n_failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
