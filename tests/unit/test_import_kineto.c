/* The variations of Kineto's JSON, one by one. */
#include <zlib.h>

#include "import_fixture.h"
#include "runner.h"

#define KERNEL(name, ts, dur)                                                                  \
	"{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"" name "\", \"pid\": 0, \"tid\": 7," \
	" \"ts\": " ts ", \"dur\": " dur ", \"args\": {\"device\": 0, \"stream\": 7}}"
#define TRACE(events) "{\"schemaVersion\": 1, \"traceEvents\": [" events "]}"

/* --- times --- */
static const struct {
	const char *text;
	int64_t second_ns; /* start of the second event; the first is 0 */
	int64_t dur_ns, base_ns;
} TIMES[] = {
	/* integer us since the epoch */
	{TRACE(KERNEL("a", "1694128201435418", "3") "," KERNEL("b", "1694128201435420", "52")),
	 2000, 52000, 1694128201435418000},
	/* absolute us with decimals, which a double cannot hold */
	{TRACE(KERNEL("a", "1712195495519689.047", "3") "," KERNEL("b", "1712195495519690.048",
								   "0.001")),
	 1001, 1, 1712195495519689047},
	/* relative, the base behind the events */
	{"{\"traceEvents\": [" KERNEL("a", "4458676522690.655", "3") "," KERNEL(
		 "b", "4458676522690.656",
		 "156.777") "], \"baseTimeNanoseconds\": 1711964646000000000}",
	 1, 156777, 1711964646000000000 + 4458676522690655},
	/* and before them */
	{"{\"baseTimeNanoseconds\": 1000, \"traceEvents\": [" KERNEL("a", "1", "3") "," KERNEL(
		 "b", "2.5e1", "1E-3") "]}",
	 24000, 1, 2000},
	/* quoted */
	{TRACE(KERNEL("a", "\"10\"", "3") "," KERNEL("b", "\"11.5\"", "\"2\"")), 1500, 2000, 10000},
	/* a base that cannot be: none is kept */
	{"{\"baseTimeNanoseconds\": 9223372036854775807, \"traceEvents\": [" KERNEL(
		 "a", "1", "3") "," KERNEL("b", "2", "1") "]}",
	 1000, 1000, 0},
	/* more digits than a nanosecond has */
	{TRACE(KERNEL("a", "10", "3") "," KERNEL("b", "10.0014999", "0.0005")), 1, 1, 10000},
};

LOOP_TEST(times_are_exact, N_OF(TIMES))
{
	struct fixture f;

	fixture_text(&f, "a.json", TIMES[_i].text);
	fixture_load(&f);
	ck_assert_int_eq(fixture_event(&f, "a")->start_ns, 0);
	ck_assert_int_eq(fixture_event(&f, "b")->start_ns, TIMES[_i].second_ns);
	ck_assert_int_eq(fixture_event(&f, "b")->dur_ns, TIMES[_i].dur_ns);
	ck_assert_int_eq(f.trace.identity.base_utc_ns, TIMES[_i].base_ns);
	fixture_close(&f);
}

/* --- faults of single events --- */
static const struct {
	const char *event, *reason; /* reason NULL: it is used */
} EVENTS[] = {
	{KERNEL("k", "1", "1"), NULL},
	{"{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\"}", "no time"},
	{KERNEL("k", "NaN", "1"), "time is not a number"},
	{KERNEL("k", "1e99", "1"), "time is not a number"},
	{"{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"k\", \"ts\": 1, \"dur\": -1}",
	 "negative duration"},
	{KERNEL("k", "1", "inf"), "duration is not a number"},
	{"{\"ph\": \"X\", \"cat\": \"strange\", \"name\": \"k\", \"ts\": 1}", "unknown category"},
	{"{\"ph\": \"X\", \"cat\": \"mtia_runtime\", \"name\": \"k\", \"ts\": 1}",
	 "category of no use here"},
	{"{\"ph\": \"X\", \"name\": \"k\", \"ts\": 1}", "no category"},
	{"{\"cat\": \"kernel\", \"name\": \"k\", \"ts\": 1}", "no phase"},
	{"{\"ph\": \"B\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 1}", "phase not used"},
	{"{\"ph\": \"C\", \"name\": \"k\", \"ts\": 1}", "counter, not used"},
	{"null", "not an object"},
	{"{\"ph\" \"X\" oops {]}", "syntax error"},
	{KERNEL("k", "1", "1, \"x\": N/A, \"y\": -inf, \"z\": Infinity, \"w\": nan,"), NULL},
	{KERNEL("say \"hi\" there", "1", "1"), NULL},  /* quotes not escaped */
	{KERNEL("C:\\path\\query", "1", "1"), NULL},   /* backslashes not escaped */
	{KERNEL("tab\there\x01\x7f", "1", "1"), NULL}, /* control characters */
	{"{\"args\": {\"stream\": 7, \"device\": 0}, \"cat\": \"kernel\", \"dur\": 1, \"name\": "
	 "\"k\", \"ph\": \"X\", \"pid\": 0, \"tid\": 7, \"ts\": 5}",
	 NULL}, /* keys sorted */
};

LOOP_TEST(a_bad_event_costs_only_itself, N_OF(EVENTS))
{
	struct fixture f;
	char text[2048];

	snprintf(text, sizeof(text), "{\"traceEvents\": [\n  %s,\n  %s,\n  %s,\n]\n, }\n",
		 KERNEL("before", "0.5", "1"), EVENTS[_i].event, KERNEL("after", "9", "1"));
	fixture_text(&f, "a.json", text);
	fixture_load(&f);
	ck_assert_int_eq(f.stats.n_records, 3);
	ck_assert_int_eq(f.stats.n_events, EVENTS[_i].reason ? 2 : 3);
	ck_assert_uint_eq(f.stats.n_reasons, EVENTS[_i].reason ? 1 : 0);
	if (EVENTS[_i].reason)
		ck_assert_int_eq(fixture_bad(&f, EVENTS[_i].reason), 1);
	ck_assert_int_eq(fixture_event(&f, "after")->start_ns, 8500);
	ck_assert_ptr_null(f.stats.truncated);
	fixture_close(&f);
}

/* Kernels without a time are kept, and said: what was launched beside them tells where they were.
 */
static const char *const UNTIMED[] = {KERNEL("k", "0", "0"), KERNEL("k", "1", "-1")};

LOOP_TEST(a_kernel_without_a_time_is_kept, N_OF(UNTIMED))
{
	struct fixture f;
	char text[1024];

	snprintf(text, sizeof(text), "{\"traceEvents\": [\n  %s,\n  %s\n]}\n",
		 KERNEL("before", "0.5", "1"), UNTIMED[_i]);
	fixture_text(&f, "a.json", text);
	fixture_load(&f);
	ck_assert_int_eq(f.stats.n_events, 2);
	ck_assert_int_eq(fixture_bad(&f, "activity of the GPU without a time"), 1);
	ck_assert_int_eq(fixture_event(&f, "k")->flags, SC_EVF_NO_TIME);
	ck_assert_int_eq(f.trace.gaps.at[0].n, 1);
	fixture_close(&f);
}

/* --- categories, old and new --- */
static const struct {
	const char *cat, *name;
	enum sc_event_class cls;
	uint8_t sub;
	bool is_stream;
} CATS[] = {
	{"Kernel", "k", SC_EV_KERNEL, 0, true},
	{"kernel", "k", SC_EV_KERNEL, 0, true},
	{"Memcpy", "Memcpy HtoD (Pageable -> Device)", SC_EV_COPY, SC_COPY_H2D, true},
	{"gpu_memcpy", "Memcpy DtoD (Device -> Device)", SC_EV_COPY, SC_COPY_D2D, true},
	{"gpu_memcpy", "Memcpy PtoP (Device -> Device)", SC_EV_COPY, SC_COPY_P2P, true},
	{"gpu_memset", "Memset (Device)", SC_EV_SET, 0, true},
	{"Operator", "aten::mm", SC_EV_OP, 0, false},
	{"cpu_op", "aten::mm", SC_EV_OP, 0, false},
	{"cpu_op", "record_param_comms", SC_EV_COMM, 0, false},
	{"Operator", "ProfilerStep#3", SC_EV_RANGE, 0, false},
	{"user_annotation", "## forward ##", SC_EV_RANGE, 0, false},
	{"gpu_user_annotation", "## forward ##", SC_EV_GPU_RANGE, 0, true},
	{"Runtime", "cudaLaunchKernel", SC_EV_API, 0, false},
	{"cuda_driver", "cuLaunchKernel", SC_EV_API, 0, false},
	{"python_function", "train.py(3): main", SC_EV_PYTHON, 0, false},
	{"overhead", "Buffer Flush", SC_EV_OVERHEAD, 0, false},
	{"cuda_sync", "Stream Sync", SC_EV_SYNC, SC_SYNC_STREAM, true},
	{"cuda_sync", "Context Sync", SC_EV_SYNC, SC_SYNC_CONTEXT, true},
	{"cuda_event", "cudaEventRecord", SC_EV_EVENT_RECORD, 0, true},
	{"Trace", "PyTorch Profiler (0)", SC_EV_OTHER, 0, false},
};

LOOP_TEST(categories, N_OF(CATS))
{
	const struct sc_trace_event *event;
	const struct sc_trace_lane *lane;
	struct fixture f;
	char text[512];

	snprintf(text, sizeof(text),
		 TRACE("{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": 3, \"tid\": "
		       "\"stream 21\", \"ts\": 7, \"dur\": 2}"),
		 CATS[_i].cat, CATS[_i].name);
	fixture_text(&f, "a.json", text);
	fixture_load(&f);
	event = fixture_event(&f, CATS[_i].name);
	lane = &f.trace.lanes.at[event->lane];
	ck_assert_int_eq(event->cls, CATS[_i].cls);
	ck_assert_int_eq(event->sub, CATS[_i].sub);
	ck_assert_int_eq(lane->is_stream, CATS[_i].is_stream);
	ck_assert_int_eq(CATS[_i].is_stream ? lane->device : lane->pid, 3);
	ck_assert_int_eq(CATS[_i].is_stream ? lane->stream : lane->tid, 21);
	ck_assert_int_eq(f.stats.n_steps, strncmp(CATS[_i].name, "ProfilerStep", 12) == 0);
	fixture_close(&f);
}

/* A wait that names the record and its stream: the record is there, once, be it in the file or not.
 */
#define WAIT(ts, record, stream)                                                                          \
	"{\"ph\": \"X\", \"cat\": \"cuda_sync\", \"name\": \"w\", \"pid\": 0, \"tid\": 24, \"ts\": " ts   \
	", \"dur\": 0, \"args\": {\"cuda_sync_kind\": \"Stream Wait Event\", \"wait_on_stream\": " stream \
	", \"wait_on_cuda_event_record_corr_id\": " record ", \"wait_on_cuda_event_id\": 19,"             \
	" \"stream\": 24, \"correlation\": 1389, \"device\": 0}}"

TEST(records_follow_from_waits)
{
	static const char text[] = TRACE(WAIT("5", "1385", "20") "," WAIT("6", "1385", "20") "," WAIT(
		"7", "1386",
		"7") ","
		     "{\"ph\": \"X\", \"cat\": \"cuda_event\", \"name\": \"r\", \"pid\": 0, \"tid\": 7, \"ts\": 4,"
		     " \"dur\": 0, \"args\": {\"event_id\": 19, \"stream\": 7, \"correlation\": 1386,"
		     " \"device\": 0}}");
	int n[2] = {0, 0};
	struct fixture f;

	fixture_text(&f, "a.json", text);
	fixture_load(&f);
	for (size_t i = 0; i < f.trace.events.n; i++) {
		const struct sc_trace_event *event = &f.trace.events.at[i];

		if (event->cls != SC_EV_EVENT_RECORD)
			continue;
		n[event->correlation - 1385]++;
		ck_assert_int_eq(f.trace.lanes.at[event->lane].stream,
				 event->correlation == 1385 ? 20 : 7);
		ck_assert_int_eq(event->aux0, 19);
	}
	ck_assert_int_eq(n[0], 1);
	ck_assert_int_eq(n[1], 1);
	fixture_close(&f);
}

TEST(arguments_are_kept)
{
	static const char text[] = TRACE(
		"{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 5, \"tid\": 6, \"ts\": 1,"
		" \"dur\": 9, \"args\": {\"External id\": 77, \"Input Dims\": [[64, 128], []], \"Input type\": "
		"[\"long int\", \"\"], \"Sequence number\": 12, \"Fwd thread id\": 1}},"
		"{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", \"pid\": 1, \"tid\": 7, \"ts\": 4, \"dur\": 2,"
		" \"args\": {\"external id\": 77, \"device\": 1, \"stream\": 24, \"correlation\": 4294967295,"
		" \"registers per thread\": 72, \"shared memory\": 13824, \"blocks per SM\": 0.8,"
		" \"grid\": [32, 2, 1], \"block\": [128, 1, 1]}},"
		"{\"ph\": \"X\", \"cat\": \"cuda_sync\", \"name\": \"w\", \"pid\": 0, \"tid\": 24, \"ts\": 5, \"dur\": 0,"
		" \"args\": {\"cuda_sync_kind\": \"Stream Wait Event\", \"wait_on_stream\": 20,"
		" \"wait_on_cuda_event_record_corr_id\": 1385, \"wait_on_cuda_event_id\": 19, \"stream\": 24,"
		" \"correlation\": 1389, \"device\": 0}},"
		"{\"ph\": \"X\", \"cat\": \"cuda_sync\", \"name\": \"v\", \"pid\": 0, \"tid\": 24, \"ts\": 6, \"dur\": 0,"
		" \"args\": {\"cuda_sync_kind\": \"Stream Wait Event\", \"wait_on_stream\": 20, \"stream\": 24}}");
	const struct sc_trace_event *op, *kernel;
	const struct sc_trace_config *config;
	struct fixture f;

	fixture_text(&f, "a.json", text);
	fixture_load(&f);
	op = fixture_event(&f, "aten::mm");
	kernel = fixture_event(&f, "gemm");
	config = &f.trace.configs.at[kernel->config];
	ck_assert_int_eq(op->external_id, 77);
	ck_assert_str_eq(fixture_string(&f, op->shapes), "[[64,128],[]]|long int,");
	ck_assert_int_eq(op->aux0, 12);
	ck_assert_int_eq(op->aux1, 1);
	ck_assert_int_eq(kernel->external_id, 77);
	ck_assert_uint_eq(kernel->correlation, UINT32_MAX);
	ck_assert_int_eq(f.trace.lanes.at[kernel->lane].stream, 24);
	ck_assert_uint_eq(config->grid[0], 32);
	ck_assert_uint_eq(config->grid[1], 2);
	ck_assert_uint_eq(config->block[0], 128);
	ck_assert_uint_eq(config->registers, 72);
	ck_assert_uint_eq(config->shared_bytes, 13824);
	ck_assert_int_eq(fixture_event(&f, "w")->sub, SC_SYNC_STREAM_WAIT);
	ck_assert_int_eq(fixture_event(&f, "w")->aux0, 19);
	ck_assert_int_eq(fixture_event(&f, "w")->aux1, 1385);
	ck_assert_int_eq(fixture_event(&f, "v")->aux1, SC_SYNC_AUX_STREAM(20));
	fixture_close(&f);
}

/* --- collectives --- */
#define RANGE(cat, name, ts, dur, args)                                                         \
	"{\"ph\": \"X\", \"cat\": \"" cat "\", \"name\": \"" name "\", \"pid\": 5, \"tid\": 6," \
	" \"ts\": " ts ", \"dur\": " dur ", \"args\": {" args "}}"
#define NCCL(name, ts, args)                                                                    \
	"{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"" name "\", \"pid\": 0, \"tid\": 21," \
	" \"ts\": " ts ", \"dur\": 50, \"args\": {\"device\": 0, \"stream\": 21, " args "}}"
#define LAUNCH(ts, correlation)                                                                     \
	"{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernelExC\", \"pid\": 5," \
	" \"tid\": 6, \"ts\": " ts ", \"dur\": 1, \"args\": {\"correlation\": " correlation "}}"

/* A mark of UTF-8 is read over; what follows the document is said. */
TEST(test_around_the_document)
{
	static const char document[] =
		"{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 0, \"tid\": 7, "
		"\"ts\": 1, \"dur\": 2, \"args\": {\"device\": 0, \"stream\": 7}}]}";
	char text[1024];
	struct fixture f;

	snprintf(text, sizeof(text), "\xEF\xBB\xBF%s\n", document);
	fixture_text(&f, "a.json", text);
	ck_assert_int_eq(fixture_import(&f), 0);
	ck_assert_int_eq(f.stats.n_events, 1);
	ck_assert_uint_eq(f.stats.n_reasons, 0);
	fixture_close(&f);
	snprintf(text, sizeof(text), "%s%s", document, document);
	fixture_text(&f, "a.json", text);
	ck_assert_int_eq(fixture_import(&f), 0);
	ck_assert_int_eq(f.stats.n_events, 1);
	ck_assert_uint_eq(f.stats.n_reasons, 1);
	ck_assert_msg(strstr(f.stats.bad[0].reason, "after the end") != NULL, "%s",
		      f.stats.bad[0].reason);
	fixture_close(&f);
}

static const struct sc_trace_comm *comm_of(const struct fixture *f, const char *name)
{
	return &f->trace.comms.at[fixture_event(f, name)->comm];
}

TEST(a_kernel_says_its_collective)
{
	static const char text[] = TRACE(NCCL(
		"ncclDevKernel_Generic(x)", "10",
		"\"Collective name\": \"allreduce\", \"In msg nelems\": 8, \"Out msg nelems\": 8, \"Group size\": 2,"
		"\"dtype\": \"BFloat16\", \"Process Group Name\": \"0\", \"Process Group Ranks\": \"[0, 1]\", \"Seq\": 4,"
		"\"Comms Id\": 10159970886766084423"));
	const struct sc_trace_comm *comm;
	struct fixture f;

	fixture_text(&f, "a.json", text);
	fixture_load(&f);
	comm = comm_of(&f, "ncclDevKernel_Generic(x)");
	ck_assert_str_eq(fixture_string(&f, comm->collective), "allreduce");
	ck_assert_str_eq(fixture_string(&f, comm->dtype), "BFloat16");
	ck_assert_str_eq(fixture_string(&f, comm->group_name), "0");
	ck_assert_str_eq(fixture_string(&f, comm->group_ranks), "[0, 1]");
	ck_assert_int_eq(comm->bytes, 16);
	ck_assert_int_eq(comm->group_size, 2);
	ck_assert_int_eq(comm->seq, 4);
	ck_assert_uint_eq(comm->comm_hash, 10159970886766084423u);
	ck_assert_int_eq(f.stats.n_collectives, 1);
	ck_assert_int_eq(f.stats.n_joined, 1);
	fixture_close(&f);
}

/* One type has a capital or not, and c10's namespace or not. */
static const struct {
	const char *dtype;
	int n_bytes; /* -1: not known */
} DTYPES[] = {
	{"BFloat16", 2}, {"c10::BFloat16", 2}, {"bfloat16", 2}, {"c10::Float8_e4m3fn", 1},
	{"Float", 4},    {"float", 4},         {"float32", 4},  {"c10::Half", 2},
	{"long int", 8}, {"bool", 1},          {"c10::", -1},   {"Float128", -1},
};

LOOP_TEST(dtypes_have_bytes, N_OF(DTYPES))
{
	char text[512];
	struct fixture f;

	snprintf(
		text, sizeof(text),
		TRACE(NCCL(
			"ncclDevKernel_AllReduce(x)", "10",
			"\"Collective name\": \"allreduce\", \"In msg nelems\": 8, \"Out msg nelems\": 8, \"dtype\": \"%s\"")),
		DTYPES[_i].dtype);
	fixture_text(&f, "a.json", text);
	fixture_load(&f);
	ck_assert_int_eq(comm_of(&f, "ncclDevKernel_AllReduce(x)")->bytes,
			 DTYPES[_i].n_bytes < 0 ? -1 : 8 * DTYPES[_i].n_bytes);
	fixture_close(&f);
}

/* Whatever comes first in the file: range, launch or kernel. */
static const char *const JOINS[] = {
	TRACE(RANGE("cpu_op", "record_param_comms", "1", "90", "\"Group size\": 8") "," RANGE(
		"user_annotation", "nccl:all_to_all", "10", "50",
		"\"Input Dims\": [[6144]], \"Input type\": [\"float\"]") "," LAUNCH("20",
										    "41") "," NCCL("ncclKernel_SendRecv",
												   "30",
												   "\"correlation\": 41")),
	TRACE(NCCL("ncclKernel_SendRecv", "30", "\"correlation\": 41") "," LAUNCH("20", "41") "," RANGE(
		"user_annotation", "nccl:all_to_all", "10", "50",
		"\"Input Dims\": [[6144]], \"Input type\": [\"float\"]") "," RANGE("cpu_op",
										   "record_param_comms",
										   "1", "90",
										   "\"Group size\": 8")),
};

LOOP_TEST(a_kernel_is_joined_to_its_call, N_OF(JOINS))
{
	const struct sc_trace_comm *comm;
	struct fixture f;

	fixture_text(&f, "a.json", JOINS[_i]);
	fixture_load(&f);
	comm = comm_of(&f, "ncclKernel_SendRecv");
	ck_assert_str_eq(fixture_string(&f, comm->collective), "all_to_all");
	ck_assert_str_eq(fixture_string(&f, comm->dtype), "float");
	ck_assert_int_eq(comm->in_elems, 6144);
	ck_assert_int_eq(comm->bytes, 4 * 6144);
	ck_assert_int_eq(comm->group_size, 8); /* of the outer one */
	ck_assert_int_eq(f.stats.n_joined, 1);
	ck_assert_int_eq(f.stats.n_calls, 1);
	fixture_close(&f);
}

TEST(a_call_elsewhere_is_not_taken)
{
	static const char text[] = TRACE(RANGE(
		"user_annotation", "nccl:all_reduce", "10", "5",
		"\"Input Dims\": [[4]]") "," LAUNCH("20", "41") "," NCCL("ncclKernel_AllReduce",
									 "30",
									 "\"correlation\": 41"));
	struct fixture f;

	fixture_text(&f, "a.json", text);
	fixture_load(&f);
	ck_assert_uint_eq(fixture_event(&f, "ncclKernel_AllReduce")->comm, 0);
	ck_assert_int_eq(f.stats.n_joined, 0);
	ck_assert_int_eq(f.stats.n_collectives, 1);
	fixture_close(&f);
}

/* ROCm: the launch has what the kernel has not. */
TEST(a_launch_brings_the_config)
{
	static const char text[] = TRACE(
		"{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"hipLaunchKernel\", \"pid\": 5, \"tid\": 6,"
		" \"ts\": 1, \"dur\": 1, \"args\": {\"stream\": \"0x0\", \"cid\": 107, \"correlation\": 9,"
		" \"grid\": [4, 1, 1], \"block\": [256, 1, 1], \"shared memory\": 32}},"
		"{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"Cijk\", \"pid\": 2, \"tid\": 0, \"ts\": 3, \"dur\": 1,"
		" \"args\": {\"device\": 2, \"stream\": 0, \"correlation\": 9, \"kind\": \"Dispatch Kernel\"}}");
	const struct sc_trace_event *kernel;
	struct fixture f;

	fixture_text(&f, "a.json", text);
	fixture_load(&f);
	kernel = fixture_event(&f, "Cijk");
	ck_assert_uint_ne(kernel->config, 0);
	ck_assert_uint_eq(f.trace.configs.at[kernel->config].grid[0], 4);
	ck_assert_uint_eq(f.trace.configs.at[kernel->config].block[0], 256);
	fixture_close(&f);
}

TEST(identity)
{
	static const char text[] = "{\"traceEvents\": [" KERNEL(
		"k", "1",
		"1") "], \"distributedInfo\": {\"backend\": \"nccl\", "
		     "\"rank\": 3, \"world_size\": 8, \"pg_config\": [{\"pg_name\": \"1\", \"ranks\": [0, 3]}]}, "
		     "\"deviceProperties\": [{\"id\": 0, \"name\": \"A\\u0042\", \"numSms\": 108}], \"host_name\": \"h1\"}";
	struct fixture f;
	char name[256];
	int n_seen = 0;

	fixture_text(&f, "worker5.pt.trace.json", text);
	fixture_load(&f);
	ck_assert_int_eq(f.trace.identity.rank, 3);
	ck_assert_int_eq(f.trace.identity.world, 8);
	ck_assert_str_eq(f.trace.identity.host, "h1");
	for (size_t i = 0; i < f.trace.meta.n; i++) {
		const struct sc_trace_meta *meta = &f.trace.meta.at[i];

		if (strcmp(meta->key, "device.0.name") == 0)
			n_seen += strcmp(meta->value, "AB") == 0;
		if (strcmp(meta->key, "group.1.ranks") == 0)
			n_seen += strcmp(meta->value, "[0, 3]") == 0;
	}
	ck_assert_int_eq(n_seen, 2);
	fixture_list(&f, name, sizeof(name));
	ck_assert_str_eq(name, "worker5.rank3.sctrace");
	fixture_close(&f);
}

static const struct {
	const char *name;
	int32_t rank, other, want;
} RANKS[] = {
	{"rank7.json", -1, -1, 7},        {"worker_12.pt.trace.json", -1, 4, 12},
	{"rank7.json", 2, -1, 2},         {"num_workers_0.json", -1, -1, -1},
	{"num_workers_0.json", -1, 4, 4}, {"1.0.2-v.0.0.4.json", -1, -1, -1},
	{"trace.3.json", -1, -1, 3},      {"rank99999999999.json", -1, -1, -1},
};

LOOP_TEST(rank_of_name, N_OF(RANKS))
{
	struct fixture f;

	fixture_text(&f, RANKS[_i].name, TRACE(KERNEL("k", "1", "1")));
	f.opts.rank = RANKS[_i].rank;
	f.opts.other_rank = RANKS[_i].other;
	fixture_load(&f);
	ck_assert_int_eq(f.trace.identity.rank, RANKS[_i].want);
	ck_assert_int_eq(f.stats.rank, RANKS[_i].want);
	fixture_close(&f);
}

TEST(names_become_utf8)
{
	struct fixture f;

	fixture_text(&f, "a.json", TRACE(KERNEL("a\xff\\u00e9\\ud83d\\ude00\\udc00z", "1", "1")));
	fixture_load(&f);
	ck_assert_str_eq(fixture_string(&f, f.trace.events.at[0].name),
			 "a\xef\xbf\xbd\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbdz");
	ck_assert_int_eq(f.stats.n_repaired, 2);
	fixture_close(&f);
}

/* Cut anywhere: whole events stay, the cut is told, nothing is made up. */
static const char CUT[] = "{\"schemaVersion\": 1, \"traceEvents\": [\n" KERNEL(
	"a", "1", "2") ",\n" KERNEL("b", "3", "4") "\n], \"traceName\": \"x\"\n}";

LOOP_TEST(cut_anywhere, n_cases(sizeof(CUT) - 1))
{
	size_t n_two = (size_t)(strstr(CUT, "\n]") - CUT),
	       n = 1 + (size_t)nth_case(_i, sizeof(CUT) - 1);
	size_t n_one = (size_t)(strstr(CUT, ",\n{") - CUT);
	struct fixture f;
	int64_t want = n >= n_two ? 2 : n >= n_one ? 1 : 0;

	fixture_open(&f, "a.json", CUT, n);
	if (want == 0) {
		ck_assert_int_ne(fixture_import(&f), 0);
		ck_assert_int_ne(f.err.code, SC_OK);
	} else {
		fixture_load(&f);
		ck_assert_int_eq(f.stats.n_events, want);
		ck_assert_int_eq(f.stats.truncated != NULL, n < sizeof(CUT) - 1);
	}
	fixture_close(&f);
}

static size_t pack(const char *text, size_t n, unsigned char *out, size_t n_out)
{
	z_stream z;
	size_t got;

	memset(&z, 0, sizeof(z));
	ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
			 Z_OK);
	z.next_in = (unsigned char *)(uintptr_t)text;
	z.avail_in = (uInt)n;
	z.next_out = out;
	z.avail_out = (uInt)n_out;
	ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	got = n_out - z.avail_out;
	deflateEnd(&z);
	return got;
}

/* Two members, split inside an event; then cut short. */
TEST(gzip)
{
	static const char text[] = TRACE(KERNEL("a", "1", "2") "," KERNEL("b", "3", "4"));
	unsigned char packed[2048];
	size_t n = pack(text, 150, packed, sizeof(packed));
	struct fixture f;

	n += pack(text + 150, sizeof(text) - 151, packed + n, sizeof(packed) - n);
	fixture_open(&f, "a.json.gz", packed, n);
	fixture_load(&f);
	ck_assert_int_eq(f.stats.n_events, 2);
	ck_assert_ptr_null(f.stats.truncated);
	ck_assert_int_eq(f.stats.in_bytes, sizeof(text) - 1);
	fixture_close(&f);
	n = pack(text, sizeof(text) - 1, packed, sizeof(packed));
	fixture_open(&f, "a.json.gz", packed, n - 14);
	if (fixture_import(&f) == 0) {
		ck_assert_ptr_nonnull(f.stats.truncated);
		ck_assert_str_eq(f.stats.truncated, "the gzip stream is cut off");
	}
	fixture_close(&f);
	for (size_t i = 1; i <= 8; i++) { /* the checksum, the length */
		packed[n - i] ^= 1;
		fixture_open(&f, "a.json.gz", packed, n);
		fixture_load(&f);
		ck_assert_str_eq(f.stats.truncated, "the gzip stream is damaged");
		fixture_close(&f);
		packed[n - i] ^= 1;
	}
}

static const struct {
	const char *text, *message;
} REFUSED[] = {
	{"", "not a trace: it looks like an empty file"},
	{"[[1, 2], [3]]",
	 "not a trace: it looks like a list of lists, as torch.profiler's memory timelines are"},
	{"{\"a\": 1}", "not a trace: it looks like a JSON object that is no trace"},
	{"[1, 2]", "not a trace: it looks like a JSON list that is no trace"},
	{"hello", "not a trace: it looks like text of unknown kind"},
	{"{\"traceEvents\": []}", "the trace has no events"},
	{"{\"traceEvents\": 3}", "no traceEvents: its list of events is no list"},
	{"{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"other\", \"name\": \"a\", \"ts\": 1}]}",
	 "none of its 1 events is a profiler's (the first reason: unknown category)"},
};

LOOP_TEST(refused, N_OF(REFUSED))
{
	struct fixture f;
	char name[256];

	fixture_text(&f, "a.json", REFUSED[_i].text);
	ck_assert_int_ne(fixture_import(&f), 0);
	ck_assert_str_eq(f.err.text, REFUSED[_i].message);
	ck_assert_int_eq(fixture_list(&f, name, sizeof(name)), 0);
	fixture_close(&f);
}

/* More events than the window holds, with one that is larger than it may be. */
TEST(long_files)
{
	enum { N_EVENTS = 30000, N_LARGE = 17 << 20 };
	char *text = malloc(N_EVENTS * 300 + N_LARGE + 1000);
	size_t n = 0;
	struct fixture f;

	ck_assert_ptr_nonnull(text);
	n += (size_t)sprintf(text + n, "[\n");
	for (int i = 0; i < N_EVENTS; i++) {
		if (i == N_EVENTS / 2) {
			n += (size_t)sprintf(text + n, "{\"ph\": \"X\", \"name\": \"");
			memset(text + n, 'x', N_LARGE);
			n += N_LARGE;
			n += (size_t)sprintf(text + n, "\", \"cat\": \"kernel\", \"ts\": 1},\n");
		}
		n += (size_t)sprintf(
			text + n,
			"{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k%d\", \"pid\": 0, "
			"\"tid\": 7, \"ts\": %d, \"dur\": 1},\n",
			i % 100, i);
	}
	n += (size_t)sprintf(text + n, "]\n");
	fixture_open(&f, "a.json", text, n);
	free(text);
	fixture_load(&f);
	ck_assert_int_eq(f.stats.n_events, N_EVENTS);
	ck_assert_int_eq(fixture_bad(&f, "larger than 16 MiB"), 1);
	ck_assert_ptr_null(f.stats.truncated);
	fixture_close(&f);
}

/* Each of them seems to go on to the end of the window: what is read in vain is bounded. */
LOOP_TEST(damaged_throughout, many_cases() ? 1 : 0)
{
	static const char damaged[] = "{\"a\":\"x\"y},\n";
	enum { N_DAMAGED = 2 << 20 };
	char *text = malloc(N_DAMAGED * sizeof(damaged) + 1000);
	size_t n = 0;
	struct fixture f;

	ck_assert_ptr_nonnull(text);
	n += (size_t)sprintf(text + n, "[" KERNEL("k", "1", "1") ",\n");
	for (int i = 0; i < N_DAMAGED; i++, n += sizeof(damaged) - 1)
		memcpy(text + n, damaged, sizeof(damaged));
	fixture_open(&f, "a.json", text, n);
	free(text);
	fixture_load(&f);
	ck_assert_int_eq(f.stats.n_events, 1);
	ck_assert_str_eq(f.stats.truncated, "too many of its events are damaged");
	fixture_close(&f);
}

static const struct {
	const char *name;
	bool comm, nccl;
	int collective;
} NAMES[] = {
	{"ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", true,
	 true, 0},
	{"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", true, true, 1},
	{"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", true, true, 2},
	{"ncclKernel_Broadcast_RING_LL", true, true, 3},
	{"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", true, true, 5},
	{"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", true, true, -1},
	{"void dpsk::ep::internode::dispatch<false, 4>(int)", true, false, 4},
	{"EpDispatchInterNodeKernel_bf16", true, false, 4},
	{"void moe_alltoall::moeA2ACombineKernel<8>(int)", true, false, 4},
	{"void vllm::cross_device_reduce_1stage<__half, 8>(int)", true, false, 0},
	{"void multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", true, false, 0},
	{"void multimem_all_gather_kernel<16>(void*)", true, false, 1},
	{"void two_shot_all_reduce_kernel<float, 16, 8>(float**)", true, false, 0},
	{"void f::BlockAllReduceSoftmax<float>(float*)", false, false, -1},
	{"void kernel<AllReduceParams>(int)", false, false, -1},
	{"void gemm_kernel<float>(int)", false, false, -1},
	{"void at::native::sendrecv_like(int)", false, false, -1},
};

LOOP_TEST(comm_kernels, N_OF(NAMES))
{
	int collective = 99;

	ck_assert_int_eq(sc_is_comm_kernel(NAMES[_i].name, &collective), NAMES[_i].comm);
	ck_assert_int_eq(collective, NAMES[_i].collective);
	ck_assert_int_eq(sc_is_nccl_kernel(NAMES[_i].name), NAMES[_i].nccl);
}
