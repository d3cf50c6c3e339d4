/* PyTorch execution traces: both forms of nodes, with times of their own or of a Kineto mate. */
#include "import_fixture.h"
#include "runner.h"

static const char OLD[] =
	"{\n  \"schema\": \"1.0.1\", \"pid\": 59, \"nodes\": [\n"
	"{\"name\": \"aten::mm\", \"id\": 8, \"rf_id\": 4, \"parent\": 7, \"seq_id\": 440, \"tid\": 2, \"fw_tid\": 1,"
	" \"inputs\": [[5, 6, 0, 112, 4, \"cuda:0\"]], \"input_shapes\": [[64, 32], []],"
	" \"input_types\": [\"Tensor(float)\", \"Int\"]},\n"
	"{\"name\": \"nccl:all_reduce\", \"id\": 9, \"rf_id\": 5, \"seq_id\": -1, \"tid\": 2,"
	" \"input_shapes\": [[394241]], \"input_types\": [\"Tensor(float)\"]},\n"
	"{\"name\": \"aten::mm\", \"id\": 10, \"rf_id\": 6, \"tid\": 2, \"ts\": 1694128201426693, \"dur\": 12,"
	" \"input_shapes\": [[1]], \"input_types\": [\"Int\"]},\n"
	"{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", \"pid\": 0, \"tid\": 7, \"ts\": 1694128201426700,"
	" \"dur\": 8, \"args\": {\"stream\": 7, \"device\": 0, \"grid\": [32, 2, 1], \"block\": [128, 1, 1]},"
	" \"parent\": 10, \"id\": 11}\n]}\n";

static const char NEW[] =
	"{\"schema\": \"1.1.0-chakra.0.0.4\", \"pid\": 7, \"nodes\": [\n"
	"{\"id\": 8, \"name\": \"aten::mm\", \"ctrl_deps\": 7, \"inputs\": {\"values\": [1], \"shapes\": [[64, 32], []],"
	" \"types\": [\"Tensor(float)\", \"Int\"]}, \"outputs\": {\"shapes\": [[9]]}, \"attrs\": ["
	"{\"name\": \"rf_id\", \"type\": \"uint64\", \"value\": 4}, {\"name\": \"seq_id\", \"type\": \"int64\", \"value\": 440},"
	" {\"name\": \"tid\", \"type\": \"uint64\", \"value\": 2}, {\"name\": \"fw_tid\", \"value\": 1}]},\n"
	"{\"id\": 9, \"name\": \"record_param_comms\", \"inputs\": {\"shapes\": [[[53120]]], \"types\": []}, \"attrs\": ["
	"{\"name\": \"rf_id\", \"value\": 5}, {\"name\": \"collective_name\", \"type\": \"string\", \"value\": \"broadcast\"},"
	" {\"name\": \"dtype\", \"value\": \"Float\"}, {\"name\": \"in_msg_nelems\", \"value\": 53120},"
	" {\"name\": \"out_msg_nelems\", \"value\": 53120}, {\"name\": \"pg_name\", \"value\": \"0\"},"
	" {\"name\": \"pg_size\", \"value\": 2}]}]}";

/* What a profiler's events were joined to; nodes without a time are left out, and counted. */
TEST(nodes_with_times)
{
	const struct sc_trace_event *op, *kernel;
	struct fixture f;

	fixture_text(&f, "rank3.et.json", OLD);
	fixture_load(&f);
	ck_assert_str_eq(f.stats.importer, "execution trace");
	ck_assert_int_eq(f.stats.n_records, 4);
	ck_assert_int_eq(f.stats.n_events, 2);
	ck_assert_int_eq(fixture_bad(&f, "node without a time"), 2);
	ck_assert_int_eq(f.stats.n_kernels, 1);
	ck_assert_int_eq(f.trace.identity.rank, 3);
	ck_assert_int_eq(f.trace.identity.pid, 59);
	op = fixture_event(&f, "aten::mm");
	ck_assert_int_eq(op->cls, SC_EV_OP);
	ck_assert_int_eq(op->external_id, 6);
	ck_assert_int_eq(op->dur_ns, 12000);
	ck_assert_int_eq(f.trace.lanes.at[op->lane].tid, 2);
	ck_assert_str_eq(fixture_string(&f, op->shapes), "[[1]]|Int");
	kernel = fixture_event(&f, "gemm");
	ck_assert_int_eq(kernel->cls, SC_EV_KERNEL);
	ck_assert_int_eq(kernel->start_ns, 7000);
	ck_assert_int_eq(kernel->dur_ns, 8000);
	ck_assert_int_eq(f.trace.identity.base_utc_ns, 1694128201426693000);
	fixture_close(&f);
}

TEST(no_times)
{
	struct fixture f;

	fixture_text(&f, "a.json", NEW);
	ck_assert_int_ne(fixture_import(&f), 0);
	ck_assert_str_eq(
		f.err.text,
		"an execution trace without times; import it with --mate, the Kineto trace "
		"of the same run");
	fixture_close(&f);
}

/* Nodes of the newer form: what stands in attrs. */
TEST(a_mate_of_nested_nodes)
{
	static const char kineto[] =
		"{\"traceEvents\": ["
		"{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 1, \"tid\": 1, \"ts\": 5, "
		"\"dur\": 1, \"args\": {\"Record function id\": 4}},"
		"{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"record_param_comms\", \"pid\": 1, \"tid\": 1, "
		"\"ts\": 7, \"dur\": 1, \"args\": {\"Record function id\": 5}}]}";
	const struct sc_trace_event *op, *call;
	const struct sc_trace_comm *comm;
	struct fixture f, mate;

	fixture_text(&mate, "mate.json", kineto);
	fixture_text(&f, "a.json", NEW);
	f.opts.mate = mate.path;
	fixture_load(&f);
	ck_assert_int_eq(f.stats.n_nodes_joined, 2);
	op = fixture_event(&f, "aten::mm");
	ck_assert_int_eq(op->aux0, 440);
	ck_assert_str_eq(fixture_string(&f, op->shapes), "[[64,32],[]]|Tensor(float),Int");
	call = fixture_event(&f, "record_param_comms");
	comm = &f.trace.comms.at[call->comm];
	ck_assert_int_eq(call->cls, SC_EV_COMM);
	ck_assert_str_eq(fixture_string(&f, comm->collective), "broadcast");
	ck_assert_str_eq(fixture_string(&f, comm->group_name), "0");
	ck_assert_int_eq(comm->group_size, 2);
	ck_assert_int_eq(comm->bytes, 4 * 53120);
	fixture_close(&f);
	fixture_close(&mate);
}

/* Ops that differ in their ids, or agree in them; their order in the file is not that of time. */
static const struct {
	const char *args[3];   /* of mm at 5, nccl:all_reduce at 7, mm at 3 */
	const char *shapes[2]; /* of the mm at 3, and at 5 */
} MATES[] = {
	{{"\"Record function id\": 6", "\"Record function id\": 5", "\"Record function id\": 4"},
	 {"[[64,32],[]]|Tensor(float),Int", "[[1]]|Int"}},
	{{"\"External id\": 4", "\"External id\": 5", "\"External id\": 6"},
	 {"[[1]]|Int", "[[64,32],[]]|Tensor(float),Int"}},
	{{"\"External id\": 1025", "\"External id\": 1026", "\"External id\": 1"},
	 {"[[64,32],[]]|Tensor(float),Int", "[[1]]|Int"}},
};

LOOP_TEST(a_mate_gets_shapes_and_calls, N_OF(MATES))
{
	struct fixture f, mate;
	const struct sc_trace_event *mm[2] = {NULL, NULL};
	char text[1024];
	size_t n = 0;

	snprintf(
		text, sizeof(text),
		"{\"traceEvents\": ["
		"{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 1, \"tid\": 1, \"ts\": 5, "
		"\"dur\": 1, \"args\": {%s}},"
		"{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"nccl:all_reduce\", \"pid\": 1, \"tid\": 1, \"ts\": 7, "
		"\"dur\": 1, \"args\": {%s}},"
		"{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 1, \"tid\": 1, \"ts\": 3, "
		"\"dur\": 1, \"args\": {%s}}]}",
		MATES[_i].args[0], MATES[_i].args[1], MATES[_i].args[2]);
	fixture_text(&mate, "mate.json", text);
	fixture_text(&f, "a.json", OLD);
	f.opts.mate = mate.path;
	fixture_load(&f);
	ck_assert_int_eq(f.stats.n_nodes, 3);
	ck_assert_int_eq(f.stats.n_nodes_joined, 3);
	ck_assert_int_eq(f.stats.n_records, 3);
	for (size_t i = 0; i < f.trace.events.n && n < 2; i++) {
		if (f.trace.events.at[i].cls == SC_EV_OP)
			mm[n++] = &f.trace.events.at[i];
	}
	ck_assert_uint_eq(n, 2);
	ck_assert_str_eq(fixture_string(&f, mm[0]->shapes), MATES[_i].shapes[0]);
	ck_assert_str_eq(fixture_string(&f, mm[1]->shapes), MATES[_i].shapes[1]);
	ck_assert_int_eq(f.trace.comms.at[fixture_event(&f, "nccl:all_reduce")->comm].in_elems,
			 394241);
	ck_assert_str_eq(fixture_string(&f, fixture_event(&f, "nccl:all_reduce")->shapes),
			 "[[394241]]|Tensor(float)");
	fixture_close(&f);
	fixture_close(&mate);
}

TEST(a_mate_that_is_none)
{
	struct fixture f, mate;
	char name[256];

	fixture_text(&mate, "mate.json", "{\"a\": 1}");
	fixture_text(&f, "a.json", OLD);
	f.opts.mate = mate.path;
	ck_assert_int_ne(fixture_import(&f), 0);
	ck_assert_str_eq(f.err.text, "no traceEvents: the file has none");
	ck_assert_int_eq(fixture_list(&f, name, sizeof(name)), 0);
	fixture_close(&f);
	fixture_close(&mate);
}

TEST(only_execution_traces_have_mates)
{
	struct fixture f;

	fixture_text(&f, "a.json", "{\"traceEvents\": []}");
	f.opts.mate = f.path;
	ck_assert_int_ne(fixture_import(&f), 0);
	ck_assert_str_eq(f.err.text, "a mate goes with an execution trace; this is kineto");
	fixture_close(&f);
}

TEST(cut_off)
{
	struct fixture f;

	fixture_open(&f, "a.json", OLD, (size_t)(strstr(OLD, "\"ph\"") - OLD));
	fixture_load(&f);
	ck_assert_int_eq(f.stats.n_records, 3);
	ck_assert_ptr_nonnull(f.stats.truncated);
	fixture_close(&f);
}
