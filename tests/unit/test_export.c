/* Exported traces: what tools made for PyTorch's profiler look for, and CSV that reads back. */
#include <jansson.h>

#include "base/csv.h"
#include "runner.h"
#include "trace/export/export.h"
#include "trace_fixture.h"

static struct sc_err err;
static char *text;
static size_t n_text;

static void set_up(void)
{
	scratch_begin();
	memset(&err, 0, sizeof(err));
	text = NULL;
}

static void tear_down(void)
{
	free(text);
	scratch_end();
}

static void export_files(enum sc_export_format format, const char *const *files, size_t n)
{
	FILE *out = open_memstream(&text, &n_text);

	ck_assert_ptr_nonnull(out);
	ck_assert_int_eq(sc_export_run(format,
				       &(struct sc_export_run){.files = files, .n_files = n}, out,
				       &err),
			 0);
	ck_assert_int_eq(fclose(out), 0);
}

static json_t *chrome(const char *const *files, size_t n)
{
	json_t *root;

	export_files(SC_EXPORT_CHROME, files, n);
	root = json_loadb(text, n_text, JSON_REJECT_DUPLICATES, NULL);
	ck_assert_ptr_nonnull(root);
	return root;
}

/* A trace of one launch: op, call, kernel, wait and copy, in ns that are no whole us. */
static void write_launch(void)
{
	struct sc_trace_lane thread = {.pid = 100, .tid = 101};
	struct sc_trace_lane stream = {.is_stream = 1, .device = 1, .stream = 7, .context = 1};
	struct sc_trace_config config = {{8, 4, 2}, {256, 1, 1}, 32, 1024, -1};
	struct sc_trace_comm comm = {.in_elems = 1024,
				     .out_elems = 1024,
				     .bytes = -1,
				     .group_size = 8,
				     .peer = -1,
				     .root = -1,
				     .seq = 5};
	struct sc_trace_event event = {.start_ns = 1000001,
				       .dur_ns = 9000,
				       .cls = SC_EV_OP,
				       .external_id = 12,
				       .aux0 = 44};
	struct sc_trace_writer *w;

	ck_assert_int_eq(sc_trace_writer_create(scratch_path, &fixture_identity, &w, &err), 0);
	event.lane = sc_trace_writer_lane(w, &thread);
	event.name = sc_trace_writer_string(w, "aten::\"mm\"", 10);
	event.shapes = sc_trace_writer_string(w, "[[64,128],[],[-1]]|float,,int", 29);
	sc_trace_writer_add(w, &event);
	event = (struct sc_trace_event){.start_ns = 1002345,
					.dur_ns = 4321,
					.cls = SC_EV_API,
					.lane = event.lane,
					.correlation = 77,
					.external_id = 12};
	event.name = sc_trace_writer_string(w, "cudaLaunchKernel", 16);
	sc_trace_writer_add(w, &event);
	event.correlation = 78; /* starts nothing */
	event.start_ns += 5000;
	event.flags = SC_EVF_DRIVER;
	sc_trace_writer_add(w, &event);
	comm.collective = sc_trace_writer_string(w, "all_reduce", 10);
	comm.dtype = sc_trace_writer_string(w, "Float", 5);
	comm.group_name = sc_trace_writer_string(w, "0", 1);
	comm.group_ranks = sc_trace_writer_string(w, "[0, 1]", 6);
	event = (struct sc_trace_event){.start_ns = 1010999,
					.dur_ns = 2001,
					.cls = SC_EV_KERNEL,
					.correlation = 77,
					.external_id = 12};
	event.lane = sc_trace_writer_lane(w, &stream);
	event.config = sc_trace_writer_config(w, &config);
	event.comm = sc_trace_writer_comm(w, &comm);
	event.name = sc_trace_writer_string(w, "ncclKernel_AllReduce", 20);
	sc_trace_writer_add(w, &event);
	event = (struct sc_trace_event){.start_ns = 1020000,
					.dur_ns = 10,
					.cls = SC_EV_SYNC,
					.sub = SC_SYNC_STREAM_WAIT,
					.lane = event.lane,
					.aux0 = 3,
					.aux1 = SC_SYNC_AUX_STREAM(20)};
	sc_trace_writer_add(w, &event);
	event = (struct sc_trace_event){.start_ns = 1030000,
					.dur_ns = 2000,
					.cls = SC_EV_COPY,
					.lane = event.lane,
					.bytes = 5000};
	sc_trace_writer_add(w, &event);
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, &err), 0);
}

static const json_t *find(const json_t *root, const char *ph, const char *cat)
{
	const json_t *events = json_object_get(root, "traceEvents");
	const json_t *event;
	size_t i;

	json_array_foreach(events, i, event)
	{
		const char *cat_here = json_string_value(json_object_get(event, "cat"));

		if (strcmp(json_string_value(json_object_get(event, "ph")), ph) == 0 && cat_here &&
		    strcmp(cat_here, cat) == 0)
			return event;
	}
	ck_abort_msg("no event ph=%s cat=%s", ph, cat);
	return NULL;
}

static int64_t integer(const json_t *event, const char *key)
{
	const json_t *value = json_object_get(event, key);

	if (!value)
		value = json_object_get(json_object_get(event, "args"), key);
	ck_assert_msg(json_is_integer(value), "%s", key);
	return json_integer_value(value);
}

static const char *string(const json_t *event, const char *key)
{
	const json_t *value = json_object_get(event, key);

	if (!value)
		value = json_object_get(json_object_get(event, "args"), key);
	ck_assert_msg(json_is_string(value), "%s", key);
	return json_string_value(value);
}

FIXTURE(set_up, tear_down)

TEST(test_kernel)
{
	const char *files[] = {scratch_path};
	const json_t *kernel, *grid;
	json_t *root;

	write_launch();
	root = chrome(files, 1);
	ck_assert_int_eq(integer(root, "baseTimeNanoseconds"), INT64_C(1700000000001000001));
	ck_assert_int_eq(integer(json_object_get(root, "distributedInfo"), "rank"), 3);
	kernel = find(root, "X", "kernel");
	ck_assert_str_eq(string(kernel, "name"), "ncclKernel_AllReduce");
	ck_assert_int_eq(integer(kernel, "pid"), 1);
	ck_assert_int_eq(integer(kernel, "tid"), 7);
	ck_assert_int_eq(integer(kernel, "correlation"), 77);
	ck_assert_int_eq(integer(kernel, "External id"), 12);
	ck_assert_int_eq(integer(kernel, "stream"), 7);
	ck_assert_int_eq(integer(kernel, "Group size"), 8);
	ck_assert_int_eq(integer(kernel, "Seq"), 5);
	ck_assert_str_eq(string(kernel, "Collective name"), "all_reduce");
	ck_assert_str_eq(string(kernel, "Process Group Ranks"), "[0, 1]");
	grid = json_object_get(json_object_get(kernel, "args"), "grid");
	ck_assert_int_eq(json_integer_value(json_array_get(grid, 1)), 4);
	ck_assert_ptr_nonnull(strstr(text, "\"ts\":10.998,\"dur\":2.001,"));
	json_decref(root);
}

TEST(test_host_side)
{
	const char *files[] = {scratch_path};
	const json_t *op, *dims, *types, *sync, *copy;
	json_t *root;

	write_launch();
	root = chrome(files, 1);
	op = find(root, "X", "cpu_op");
	ck_assert_str_eq(string(op, "name"), "aten::\"mm\"");
	ck_assert_int_eq(integer(op, "Sequence number"), 44);
	ck_assert_int_eq(integer(op, "tid"), 101);
	dims = json_object_get(json_object_get(op, "args"), "Input Dims");
	ck_assert_uint_eq(json_array_size(dims), 3);
	ck_assert_int_eq(json_integer_value(json_array_get(json_array_get(dims, 0), 1)), 128);
	ck_assert_int_eq(json_integer_value(json_array_get(json_array_get(dims, 2), 0)), -1);
	types = json_object_get(json_object_get(op, "args"), "Input type");
	ck_assert_uint_eq(json_array_size(types), 3);
	ck_assert_str_eq(json_string_value(json_array_get(types, 1)), "");
	ck_assert_int_eq(integer(find(root, "X", "cuda_runtime"), "correlation"), 77);
	ck_assert_int_eq(integer(find(root, "X", "cuda_driver"), "correlation"), 78);
	sync = find(root, "X", "cuda_sync");
	ck_assert_str_eq(string(sync, "cuda_sync_kind"), "Stream Wait Event");
	ck_assert_int_eq(integer(sync, "wait_on_stream"), 20);
	ck_assert_int_eq(integer(sync, "wait_on_cuda_event_id"), 3);
	ck_assert_int_eq(integer(sync, "wait_on_cuda_event_record_corr_id"), -1);
	copy = find(root, "X", "gpu_memcpy");
	ck_assert_int_eq(integer(copy, "bytes"), 5000);
	ck_assert_ptr_nonnull(strstr(text, "\"memory bandwidth (GB/s)\":2.500000"));
	json_decref(root);
}

/* One arrow: the call that started something, and what it started. */
TEST(test_flows)
{
	const char *files[] = {scratch_path}, *at;
	const json_t *from, *to;
	json_t *root;
	int n = 0;

	write_launch();
	root = chrome(files, 1);
	from = find(root, "s", "ac2g");
	to = find(root, "f", "ac2g");
	ck_assert_int_eq(integer(from, "id"), 77);
	ck_assert_int_eq(integer(to, "id"), 77);
	ck_assert_int_eq(integer(from, "tid"), 101);
	ck_assert_int_eq(integer(to, "tid"), 7);
	ck_assert_str_eq(string(to, "bp"), "e");
	for (at = text; (at = strstr(at, "\"cat\":\"ac2g\"")); at++)
		n++;
	ck_assert_int_eq(n, 2);
	json_decref(root);
}

/* Every event of every class is there once; two ranks keep apart. */
TEST(test_two_ranks)
{
	char other[160];
	const char *files[] = {scratch_path, other};
	const json_t *event;
	json_t *root;
	size_t i, n_spans = 0, n_instants = 0, n_other = 0;

	snprintf(other, sizeof(other), "%s/b.sctrace", scratch_dir);
	fixture_write(scratch_path, 160);
	fixture_write(other, 160);
	root = chrome(files, 2);
	ck_assert_ptr_null(json_object_get(root, "distributedInfo"));
	json_array_foreach(json_object_get(root, "traceEvents"), i, event)
	{
		const char *ph = json_string_value(json_object_get(event, "ph"));

		n_spans += *ph == 'X';
		n_instants += *ph == 'i';
		n_other += *ph == 'X' && integer(event, "pid") >= 256;
		if (*ph == 'X' || *ph == 'i')
			ck_assert(json_number_value(json_object_get(event, "ts")) >= 0);
	}
	ck_assert_uint_eq(n_spans, 2 * (160 - 10));
	ck_assert_uint_eq(n_instants, 2 * 10);
	ck_assert_uint_eq(n_other, 160 - 10);
	json_decref(root);
}

/* Rank 1's clock is 2 us ahead and fast by a thousandth from the run's base on. */
TEST(test_one_clock)
{
	char other[160];
	const char *files[] = {scratch_path, other};
	struct sc_merge merge = {.ranks = {0}};
	const struct sc_merge_piece piece = {.from_ns = 1000000,
					     .to_ns = 2000000,
					     .offset_ns = -2000,
					     .drift = -1e-3,
					     .low_ns = -700,
					     .high_ns = 900};
	const struct sc_export_run run = {files, 2, &merge, INT64_C(1700000000000000000), NULL};
	const json_t *clock;
	struct sc_merge_rank *rank;
	FILE *out = open_memstream(&text, &n_text);
	json_t *root;

	snprintf(other, sizeof(other), "%s/b.sctrace", scratch_dir);
	write_launch();
	ck_assert_int_eq(rename(scratch_path, other), 0);
	write_launch();
	sc_merge_add_rank(&merge, 0, 0)->basis = SC_MERGE_REFERENCE;
	rank = sc_merge_add_rank(&merge, 1, 0);
	rank->basis = SC_MERGE_COLLECTIVES;
	SC_VEC_PUSH(&rank->pieces, piece);
	ck_assert_ptr_nonnull(out);
	ck_assert_int_eq(sc_export_run(SC_EXPORT_CHROME, &run, out, &err), 0);
	ck_assert_int_eq(fclose(out), 0);
	root = json_loadb(text, n_text, JSON_REJECT_DUPLICATES, NULL);
	ck_assert_ptr_nonnull(root);
	/* The first event of rank 1, at 1000001, is at 998001: ts 0. Its kernel at 1010999 is 2011
	 * earlier. */
	ck_assert_int_eq(integer(root, "baseTimeNanoseconds"), INT64_C(1700000000000998001));
	ck_assert_ptr_nonnull(strstr(text, "\"pid\":1,\"tid\":7,\"ts\":12.998,"));
	ck_assert_ptr_nonnull(strstr(text, "\"pid\":257,\"tid\":7,\"ts\":10.987,"));
	clock = json_array_get(json_object_get(root, "clock"), 1);
	ck_assert_str_eq(string(clock, "set_by"), "collectives");
	ck_assert_double_eq_tol(json_real_value(json_object_get(clock, "offset_us")), -2, 1e-9);
	ck_assert_double_eq_tol(json_real_value(json_object_get(clock, "error_at_most_us")), 0.8,
				1e-9);
	json_decref(root);
	sc_merge_release(&merge);
}

/* Shapes that are not brackets and numbers leave a document that is JSON. */
static const char *const odd_shapes[] = {
	"[[64,128]",
	"]]",
	"[1]]|a",
	"[\"x\"]",
	"|",
	"[[[[[[[[[[1]]]]]]]]]]",
	"[1,,--5,99999999999999999999]",
	"no shapes",
	"[1|2]",
	"[[],[]]|,,,",
	"[1] [2]",
};

LOOP_TEST(test_odd_shapes, N_OF(odd_shapes))
{
	const char *files[] = {scratch_path};
	struct sc_trace_event event = {.cls = SC_EV_OP};
	struct sc_trace_writer *w;

	ck_assert_int_eq(sc_trace_writer_create(scratch_path, &fixture_identity, &w, &err), 0);
	event.shapes = sc_trace_writer_string(w, odd_shapes[_i], strlen(odd_shapes[_i]));
	sc_trace_writer_add(w, &event);
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, &err), 0);
	json_decref(chrome(files, 1));
}

TEST(test_empty)
{
	const char *files[] = {scratch_path};
	json_t *root;

	fixture_write(scratch_path, 0);
	root = chrome(files, 1);
	ck_assert_uint_eq(json_array_size(json_object_get(root, "traceEvents")), 0);
	json_decref(root);
}

TEST(test_csv)
{
	const char *files[] = {scratch_path};
	struct sc_arena arena;
	struct sc_csv csv;

	write_launch();
	export_files(SC_EXPORT_CSV, files, 1);
	sc_arena_init(&arena, 4096);
	ck_assert_int_eq(sc_csv_parse(&(struct sc_source){text, n_text, "out"}, &arena, &csv, &err),
			 0);
	ck_assert_uint_eq(csv.n_rows, 6);
	for (size_t row = 0; row < csv.n_rows; row++) {
		const char *cls = sc_csv_cell(&csv, row, (size_t)sc_csv_column(&csv, "class"));
		const char *name = sc_csv_cell(&csv, row, (size_t)sc_csv_column(&csv, "name"));

		ck_assert_str_eq(sc_csv_cell(&csv, row, 0), "3");
		if (strcmp(cls, "op") == 0) {
			ck_assert_str_eq(name, "aten::\"mm\"");
			ck_assert_str_eq(
				sc_csv_cell(&csv, row, (size_t)sc_csv_column(&csv, "start_ns")),
				"1700000000001000001");
			ck_assert_str_eq(
				sc_csv_cell(&csv, row, (size_t)sc_csv_column(&csv, "shapes")),
				"[[64,128],[],[-1]]|float,,int");
		}
		if (strcmp(cls, "kernel") == 0) {
			ck_assert_str_eq(
				sc_csv_cell(&csv, row, (size_t)sc_csv_column(&csv, "grid")),
				"8x4x2");
			ck_assert_str_eq(
				sc_csv_cell(&csv, row, (size_t)sc_csv_column(&csv, "group_size")),
				"8");
			ck_assert_str_eq(
				sc_csv_cell(&csv, row, (size_t)sc_csv_column(&csv, "peer")), "");
		}
	}
	sc_arena_release(&arena);
}

LOOP_TEST(test_faults, 2)
{
	const char *files[] = {"no/such.sctrace"}, *good[] = {scratch_path};
	FILE *full = fopen("/dev/full", "w");
	enum sc_export_format format = _i ? SC_EXPORT_CSV : SC_EXPORT_CHROME;

	ck_assert_int_eq(sc_export_run(format,
				       &(struct sc_export_run){.files = files, .n_files = 1},
				       stdout, &err),
			 -SC_EIO);
	ck_assert_str_eq(err.file, "no/such.sctrace");
	memset(&err, 0, sizeof(err));
	fixture_write(scratch_path, 3000);
	if (!full)
		return;
	ck_assert_int_eq(sc_export_run(format, &(struct sc_export_run){.files = good, .n_files = 1},
				       full, &err),
			 -SC_EIO);
	fclose(full);
}
