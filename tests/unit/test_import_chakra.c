/* Chakra's protobuf form, written here by hand. */
#include "import_fixture.h"
#include "runner.h"

struct bytes {
	unsigned char at[4096];
	size_t n;
};

static void put_varint(struct bytes *b, uint64_t value)
{
	for (; value > 0x7F; value >>= 7)
		b->at[b->n++] = (unsigned char)(value | 0x80);
	b->at[b->n++] = (unsigned char)value;
}

static void put_number(struct bytes *b, unsigned field, uint64_t value)
{
	put_varint(b, field << 3);
	put_varint(b, value);
}

static void put_bytes(struct bytes *b, unsigned field, const void *at, size_t n)
{
	put_varint(b, field << 3 | 2);
	put_varint(b, n);
	memcpy(b->at + b->n, at, n);
	b->n += n;
}

static void put_attr(struct bytes *b, unsigned attr_field, const char *name, unsigned value_field,
		     uint64_t number, const char *text)
{
	struct bytes attr = {.n = 0};

	put_bytes(&attr, 1, name, strlen(name));
	if (text)
		put_bytes(&attr, value_field, text, strlen(text));
	else
		put_number(&attr, value_field, number);
	put_bytes(b, attr_field, attr.at, attr.n);
}

static void put_message(struct bytes *out, const struct bytes *message)
{
	put_varint(out, message->n);
	memcpy(out->at + out->n, message->at, message->n);
	out->n += message->n;
}

enum { NO_TIME = 0 };
#define START_US UINT64_C(1700000000000000)

static void put_node(struct bytes *out, const char *name, unsigned type, uint64_t start_us,
		     bool host)
{
	struct bytes node = {.n = 0}, inputs = {.n = 0};
	static const unsigned char deps[] = {1, 2};

	put_number(&node, 1, 7);
	put_bytes(&node, 2, name, strlen(name));
	put_number(&node, 3, type);
	put_bytes(&node, 4, deps, sizeof(deps));
	if (start_us)
		put_number(&node, 6, start_us);
	put_number(&node, 7, 556);
	put_bytes(&inputs, 1, "[1]", 3);
	put_bytes(&inputs, 2, "[[64, 2]]", 9);
	put_bytes(&inputs, 3, "['Tensor(int)']", 15);
	put_bytes(&node, 8, inputs.at, inputs.n);
	put_attr(&node, 10, "rf_id", 9, 432, NULL);
	put_attr(&node, 10, "seq_id", 9, UINT64_MAX, NULL);
	put_attr(&node, 10, "tid", 17, 6, NULL); /* sint64: zigzag 3 */
	put_attr(&node, 10, "op_schema", 29, 0, "x");
	put_attr(&node, 10, "is_cpu_op", 27, host, NULL);
	if (type >= 5) {
		put_attr(&node, 10, "comm_type", 9, 2, NULL);
		put_attr(&node, 10, "comm_size", 9, 4096, NULL);
		put_attr(&node, 10, "comm_dst", 7, 5, NULL);
		put_attr(&node, 10, "pg_name", 29, 0, "dp");
	}
	put_message(out, &node);
}

static void put_file(struct bytes *out, uint64_t start_us)
{
	struct bytes meta = {.n = 0};

	out->n = 0;
	put_attr(&meta, 2, "schema", 29, 0, "1.1.0-chakra.0.0.4");
	put_attr(&meta, 2, "pid", 9, 18360, NULL);
	put_message(out, &meta);
	put_node(out, "aten::zero_", 4, start_us, true);
	put_node(out, "gemm", 4, start_us ? start_us + 5 : 0, false);
	put_node(out, "ncclDevKernel_AllGather_RING_LL", 7, start_us ? start_us + 9 : 0, false);
	put_node(out, "isend", 5, start_us ? start_us + 11 : 0, true);
	put_node(out, "about", 1, 0, true);
}

TEST(protobuf)
{
	const struct sc_trace_event *op, *kernel;
	const struct sc_trace_comm *comm;
	struct bytes file;
	struct fixture f;

	put_file(&file, START_US);
	fixture_open(&f, "chakra.6.et", file.at, file.n);
	fixture_load(&f);
	ck_assert_str_eq(f.stats.importer, "chakra");
	ck_assert_int_eq(f.stats.n_records, 5);
	ck_assert_int_eq(f.stats.n_events, 4);
	ck_assert_int_eq(f.stats.n_metadata, 1);
	ck_assert_int_eq(f.stats.n_kernels, 2);
	ck_assert_int_eq(f.stats.n_collectives, 1);
	ck_assert_int_eq(f.trace.identity.rank, 6);
	ck_assert_int_eq(f.trace.identity.pid, 18360);
	op = fixture_event(&f, "aten::zero_");
	ck_assert_int_eq(op->cls, SC_EV_OP);
	ck_assert_int_eq(op->external_id, 432);
	ck_assert_int_eq(op->aux0, -1);
	ck_assert_int_eq(f.trace.lanes.at[op->lane].tid, 3);
	ck_assert_str_eq(fixture_string(&f, op->shapes), "[[64,2]]|Tensor(int)");
	ck_assert_int_eq(op->dur_ns, 556000);
	kernel = fixture_event(&f, "gemm");
	ck_assert_int_eq(kernel->start_ns, 5000);
	ck_assert_int_eq(kernel->flags, 0);
	ck_assert(f.trace.lanes.at[kernel->lane].is_stream);
	comm = &f.trace.comms.at[fixture_event(&f, "ncclDevKernel_AllGather_RING_LL")->comm];
	ck_assert_str_eq(fixture_string(&f, comm->collective), "all_gather");
	ck_assert_str_eq(fixture_string(&f, comm->group_name), "dp");
	ck_assert_int_eq(comm->bytes, 4096);
	comm = &f.trace.comms.at[fixture_event(&f, "isend")->comm];
	ck_assert_str_eq(fixture_string(&f, comm->collective), "send");
	ck_assert_int_eq(comm->peer, 5);
	fixture_close(&f);
}

TEST(protobuf_cut)
{
	struct bytes file;
	struct fixture f;

	put_file(&file, START_US);
	fixture_open(&f, "a.et", file.at, file.n - 3);
	fixture_load(&f);
	ck_assert_int_eq(f.stats.n_records, 4);
	ck_assert_str_eq(f.stats.truncated, "it ends inside a message");
	fixture_close(&f);
}

/* A field that runs over the end of its message costs that node. */
TEST(protobuf_damaged)
{
	struct bytes file, bad = {.n = 0};
	struct fixture f;

	put_file(&file, START_US);
	put_number(&bad, 1, 3);
	put_varint(&bad, 2 << 3 | 2);
	put_varint(&bad, 100);
	put_message(&file, &bad);
	put_node(&file, "after", 4, START_US, true);
	fixture_open(&f, "a.et", file.at, file.n);
	fixture_load(&f);
	ck_assert_int_eq(f.stats.n_records, 7);
	ck_assert_int_eq(fixture_bad(&f, "damaged message"), 1);
	ck_assert_int_eq(fixture_event(&f, "after")->cls, SC_EV_OP);
	fixture_close(&f);
}

TEST(no_times)
{
	struct bytes file;
	struct fixture f;

	put_file(&file, NO_TIME);
	fixture_open(&f, "a.et", file.at, file.n);
	ck_assert_int_ne(fixture_import(&f), 0);
	ck_assert_str_eq(
		f.err.text,
		"a Chakra file without times; import the profiler's own trace of the run, as Kineto's");
	fixture_close(&f);
	fixture_text(&f, "a.json", "{\"workload_graph\": [{\"Id\": 216}]}");
	ck_assert_int_ne(fixture_import(&f), 0);
	ck_assert_str_eq(
		f.err.text,
		"not a trace: it looks like Chakra's JSON, which says no times: import the "
		"profiler's own trace of the run");
	fixture_close(&f);
}
