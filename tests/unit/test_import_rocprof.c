/* What rocprofv3 writes: JSON, whose names stand anywhere, and CSV with its tables; what is
 * refused, and why. */
#include "import_fixture.h"

#define KERNEL(corr, begin, end, id)                                                             \
	"{\"kind\": 2, \"operation\": 0, \"correlation_id\": {\"internal\": " corr               \
	", \"external\": 0}, \"start_timestamp\": " begin ", \"end_timestamp\": " end            \
	", \"thread_id\": 77, \"dispatch_info\": {\"agent_id\": {\"handle\": 4}, \"queue_id\": " \
	"{\"handle\": 1}, \"kernel_id\": " id "}}"
#define CALL(corr, op, begin, end)                                                      \
	"{\"kind\": 1, \"operation\": " op ", \"correlation_id\": {\"internal\": " corr \
	"}, \"start_timestamp\": " begin ", \"end_timestamp\": " end ", \"thread_id\": 77}"
#define PROCESS                                                                                                                                             \
	"{\"metadata\": {\"pid\": 77}, \"buffer_records\": {\"kernel_dispatch\": [" KERNEL(                                                                 \
		"2", "5000200", "5000500",                                                                                                                  \
		"9") ", " KERNEL("3", "5000600", "5000550",                                                                                                 \
				 "9") "], \"hip_api\": [" CALL("2", "1", "5000100",                                                                         \
							       "5000110") "], \"marker_api\": ["                                                            \
									  "{\"kind\": 3, \"operation\": 0, \"correlation_id\": {\"internal\": 50}, "        \
									  "\"start_timestamp\": 5000000, \"end_timestamp\": 5001000, \"thread_id\": 77}], " \
									  "\"memory_copy\": [{\"kind\": 4, \"operation\": 1, \"correlation_id\": "          \
									  "{\"internal\": 4}, \"start_timestamp\": 5000700, \"end_timestamp\": 5000800, "   \
									  "\"dst_agent_id\": {\"handle\": 4}, \"stream_id\": {\"handle\": 6}, "             \
									  "\"bytes\": 4096}]}, "                                                            \
									  "\"strings\": {\"buffer_records\": [{\"kind\": \"NONE\", \"operations\": []}, "   \
									  "{\"kind\": \"HIP_RUNTIME_API\", \"operations\": [\"hipFree\", "                  \
									  "\"hipLaunchKernel\"]}, {\"operations\": [\"COMPLETE\"]}, {\"operations\": []}, " \
									  "{\"operations\": [\"NONE\", \"MEMORY_COPY_HOST_TO_DEVICE\"]}], "                 \
									  "\"marker_api\": [{\"key\": 50, \"value\": \"train_step 0\"}]}, "                 \
									  "\"kernel_symbols\": [{\"kernel_id\": 9, \"formatted_kernel_name\": \"gemm(int)\"}]}"
#define DOCUMENT(processes) "{\"rocprofiler-sdk-tool\": [" processes "]}"

static struct fixture f;

static const struct sc_trace_event *event_of(enum sc_event_class cls)
{
	for (size_t i = 0; i < f.trace.events.n; i++)
		if (f.trace.events.at[i].cls == cls)
			return &f.trace.events.at[i];
	ck_abort_msg("no event of class %d", (int)cls);
}

static const char *name_of(enum sc_event_class cls)
{
	return f.trace.strings.at[event_of(cls)->name];
}

static void check_records(void)
{
	ck_assert_str_eq(f.stats.importer, "rocprofv3");
	ck_assert_int_eq(f.stats.n_events, 4);
	ck_assert_int_eq(f.stats.n_kernels, 1);
	ck_assert_uint_eq(f.stats.n_reasons, 1); /* the kernel that ends before it starts */
	ck_assert_int_eq(f.stats.bad[0].n, 1);
	ck_assert_str_eq(name_of(SC_EV_KERNEL), "gemm(int)");
	ck_assert_str_eq(name_of(SC_EV_API), "hipLaunchKernel");
	ck_assert_str_eq(name_of(SC_EV_RANGE), "train_step 0");
	ck_assert_str_eq(name_of(SC_EV_COPY), "Memcpy HtoD");
	ck_assert_int_eq(event_of(SC_EV_COPY)->sub, SC_COPY_H2D);
	ck_assert_uint_eq(event_of(SC_EV_KERNEL)->correlation, event_of(SC_EV_API)->correlation);
	ck_assert_int_eq(event_of(SC_EV_KERNEL)->start_ns - event_of(SC_EV_RANGE)->start_ns, 200);
	ck_assert_int_eq(event_of(SC_EV_KERNEL)->dur_ns, 300);
	ck_assert_int_eq(f.trace.lanes.at[event_of(SC_EV_KERNEL)->lane].stream, 1); /* its queue */
	ck_assert_int_eq(f.trace.lanes.at[event_of(SC_EV_COPY)->lane].stream, 6);
	ck_assert_int_eq(f.trace.lanes.at[event_of(SC_EV_KERNEL)->lane].device, 4);
	ck_assert_int_eq(f.trace.lanes.at[event_of(SC_EV_API)->lane].tid, 77);
}

TEST(test_json)
{
	static const char text[] = DOCUMENT(PROCESS);

	fixture_open(&f, "run_results.json", text, sizeof(text) - 1);
	fixture_load(&f);
	check_records();
	ck_assert_int_eq(f.trace.identity.pid, 77);
	fixture_close(&f);
}

/* Tables beside that of the kernels come with it. */
TEST(test_csv)
{
	static const char *const tables[][2] = {
		{"77_hip_api_trace.csv",
		 "\"Domain\",\"Function\",\"Process_Id\",\"Thread_Id\",\"Correlation_Id\","
		 "\"Start_Timestamp\",\"End_Timestamp\"\n"
		 "\"HIP_RUNTIME_API\",\"hipLaunchKernel\",77,77,2,5000100,5000110\n"},
		{"77_marker_api_trace.csv",
		 "\"Domain\",\"Function\",\"Process_Id\",\"Thread_Id\",\"Correlation_Id\","
		 "\"Start_Timestamp\",\"End_Timestamp\"\n"
		 "\"MARKER_CORE_RANGE_API\",\"train_step 0\",77,77,50,5000000,5001000\n"},
		{"77_memory_copy_trace.csv",
		 "\"Kind\",\"Direction\",\"Stream_Id\",\"Source_Agent_Id\",\"Destination_Agent_Id\","
		 "\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n"
		 "\"MEMORY_COPY\",\"HOST_TO_DEVICE\",6,\"Agent 0\",\"Agent 4\",4,5000700,5000800\n"},
	};
	static const char kernels[] =
		"\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\",\"Correlation_Id\","
		"\"Start_Timestamp\",\"End_Timestamp\"\n"
		"\"KERNEL_DISPATCH\",\"Agent 4\",1,\"gemm(int)\",2,5000200,5000500\n"
		"\"KERNEL_DISPATCH\",\"Agent 4\",1,\"gemm(int)\",3,5000600,5000550\n";
	char path[256];

	fixture_open(&f, "77_kernel_trace.csv", kernels, sizeof(kernels) - 1);
	for (int i = 0; i < N_OF(tables); i++) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/%s", f.dir, tables[i][0]);
		file = fopen(path, "w");
		ck_assert_ptr_nonnull(file);
		fputs(tables[i][1], file);
		fclose(file);
	}
	fixture_load(&f);
	check_records();
	for (int i = 0; i < N_OF(tables); i++) {
		snprintf(path, sizeof(path), "%s/%s", f.dir, tables[i][0]);
		unlink(path);
	}
	fixture_close(&f);
}

/* ---- what is refused, by its name ---- */

static const struct {
	const char *file, *text, *why;
} REFUSED[] = {
	{"cut.json", "{\"rocprofiler-sdk-tool\": [{\"metadata\": {\"pid\": 7",
	 "rocprofv3's JSON, damaged or cut: it names its records at its end; write it again"},
	{"two.json", DOCUMENT(PROCESS ", " PROCESS),
	 "several processes in one JSON, which would become one rank: let rocprofv3 write a file "
	 "for each (-o %pid%)"},
	{"none.json", DOCUMENT("{\"metadata\": {}}"), "the trace has no events"},
	{"77_hip_api_trace.csv",
	 "\"Function\",\"Start_Timestamp\",\"End_Timestamp\"\n\"hipFree\",1,2\n",
	 "a table of rocprofv3 without the column \"Kernel_Name\": give NAME_kernel_trace.csv, "
	 "which brings the others of that name"},
	{"plugin.json",
	 "[{\"name\": \"AllReduce\", \"cat\": \"COLL\", \"ph\": \"b\", \"id\": 0, \"ts\": 1.5, "
	 "\"args\": {\"SeqNum\": 0, \"CommHash\": 17}}]",
	 "not a trace: it looks like NCCL's example profiler plugin: it has no kernels but NCCL's; "
	 "record the run with stepcast record or torch.profiler"},
	{"results.json",
	 "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"hipFree\", \"pid\": 2, \"tid\": 4, \"ts\": "
	 "\"1\", \"dur\": \"6\", \"args\": {\"DurationNs\": \"6000\"}}]}",
	 "not a trace: it looks like rocprof's results.json: record the run with rocprofv3 "
	 "--output-format json or csv"},
	{"autograd.json",
	 "[{\"name\": \"mm\", \"ph\": \"X\", \"ts\": 5.0, \"dur\": 3.0, \"tid\": 1, \"pid\": \"CPU "
	 "functions\", \"args\": {}}]",
	 "not a trace: it looks like the old autograd profiler's, which does not say what was "
	 "launched when: record the run with torch.profiler"},
	{"fused.json",
	 "{\"traceEvents\": ["
	 "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 100, "
	 "\"tid\": 100, \"ts\": 5, \"dur\": 2, \"args\": {\"correlation\": 1}},"
	 "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", \"pid\": 0, \"tid\": 7, \"ts\": 9, "
	 "\"dur\": 2, \"args\": {\"correlation\": 1}},"
	 "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 100101, "
	 "\"tid\": 101, \"ts\": 5, \"dur\": 2, \"args\": {\"correlation\": 2}}]}",
	 "ranks fused into one file: several processes call the GPU, and would become one rank; "
	 "import the file of each rank"},
};

LOOP_TEST(test_refused, N_OF(REFUSED))
{
	fixture_open(&f, REFUSED[_i].file, REFUSED[_i].text, strlen(REFUSED[_i].text));
	ck_assert_int_ne(fixture_import(&f), 0);
	ck_assert_str_eq(f.err.text, REFUSED[_i].why);
	fixture_close(&f);
}

TEST(test_perfetto)
{
	static const char packet[] = "\n\x05hello\0world";

	fixture_open(&f, "run.pftrace", packet, sizeof(packet) - 1);
	ck_assert_int_ne(fixture_import(&f), 0);
	ck_assert_str_eq(f.err.text,
			 "not a trace: it looks like Perfetto's binary trace (.pftrace): "
			 "let rocprofv3 write JSON or CSV (--output-format)");
	fixture_close(&f);
}
