/* Nsight Systems' exports, as versions differ: columns that are missing, kinds by label or number,
 * names in the row or by id, several processes, files that are no such export. */
#include <sqlite3.h>
#include <zlib.h>

#include "import_fixture.h"
#include "runner.h"

/* globalTid of thread t of process p, as the exports pack it. */
#define TID(p, t) "((1 << 48) + (" #p " << 24) + " #t ")"

#define STRINGS                                                                           \
	"CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"                    \
	"INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'gemm<float>')," \
	"(3, 'cuMemcpyHtoD_v2'), (4, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'),"         \
	"(5, 'registered'), (6, 'cudaEventRecord');"
#define CALLS                                                                               \
	"CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass " \
	"INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);"               \
	"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES"                                    \
	"(100, 150, 0, " TID(7, 9) ", 11, 1), (99, 151, 67, " TID(                          \
		7, 9) ", 11, 1),"                                                           \
		      "(200, 260, 1, " TID(7, 9) ", 12, 3), (300, 310, 0, " TID(            \
			      7, 9) ", 13, 6),"                                             \
				    "(400, 390, 0, " TID(7, 9) ", 14, 1);"
/* A table is there, though nothing was called. */
#define NO_CALLS                                                                            \
	"CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass " \
	"INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);"
#define KERNELS                                                                           \
	"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId "  \
	"INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid " \
	"INTEGER, demangledName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, "   \
	"blockX INTEGER, blockY INTEGER, blockZ INTEGER, registersPerThread INTEGER, "    \
	"staticSharedMemory INTEGER, dynamicSharedMemory INTEGER);"                       \
	"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"                                   \
	"(160, 190, 1, 1, 7, 11, " TID(                                                   \
		7, 0) ", 2, 8, 4, 2, 256, 1, 1, 32, 100, 24),"                            \
		      "(500, 600, 1, 1, 20, 15, " TID(                                    \
			      7, 0) ", 4, 8, 1, 1, 512, 1, 1, 96, 4294967295, 24);"

static void build(const char *path, const char *sql)
{
	sqlite3 *db;
	char *error = NULL;

	ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_exec(db, sql, NULL, NULL, &error);
	ck_assert_msg(!error, "%s", error);
	ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
}

static void open_database(struct fixture *f, const char *sql)
{
	fixture_text(f, "a.sqlite", "");
	build(f->path, sql);
}

TEST(test_calls_and_kernels)
{
	const struct sc_trace_event *event;
	struct fixture f;

	open_database(&f, STRINGS CALLS KERNELS
		      "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);"
		      "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1687813257637297504);"
		      "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER);"
		      "INSERT INTO TARGET_INFO_GPU VALUES (1, 'A100', 108);");
	fixture_load(&f);
	ck_assert_str_eq(f.stats.importer, "nsys");
	ck_assert_int_eq(f.trace.identity.base_utc_ns, INT64_C(1687813257637297504));
	ck_assert_int_eq(f.trace.identity.pid, 7);
	ck_assert_int_eq(f.stats.n_records, 7);
	ck_assert_int_eq(f.stats.n_events, 5);
	ck_assert_int_eq(f.stats.n_kernels, 2);
	ck_assert_int_eq(f.stats.n_nccl, 1);
	ck_assert_int_eq(fixture_bad(&f, "second record of a call"), 1);
	ck_assert_int_eq(fixture_bad(&f, "negative duration"), 1);
	ck_assert_uint_eq(f.trace.meta.n, 2);
	ck_assert_str_eq(f.trace.meta.at[0].value, "A100");
	event = fixture_event(&f, "gemm<float>");
	ck_assert_int_eq(event->start_ns, 160);
	ck_assert_int_eq(event->dur_ns, 30);
	ck_assert_uint_eq(event->correlation, 11);
	ck_assert_int_eq(f.trace.lanes.at[event->lane].stream, 7);
	ck_assert_int_eq(f.trace.lanes.at[event->lane].device, 1);
	ck_assert_uint_eq(f.trace.configs.at[event->config].grid[1], 4);
	ck_assert_uint_eq(f.trace.configs.at[event->config].shared_bytes, 124);
	/* of two sizes whose sum is no 32 bits */
	ck_assert_uint_eq(f.trace.configs.at[f.trace.configs.n - 1].shared_bytes, UINT32_MAX);
	event = fixture_event(&f, "cudaLaunchKernel");
	ck_assert_uint_eq(event->correlation, 11);
	ck_assert_uint_eq(event->flags, 0);
	ck_assert_int_eq(f.trace.lanes.at[event->lane].tid, 9);
	ck_assert_uint_eq(fixture_event(&f, "cuMemcpyHtoD")->flags, SC_EVF_DRIVER);
	fixture_close(&f);
}

static const struct {
	const char *labels, *value;
	uint8_t kind;
	const char *name;
} copies[] = {
	{"", "1", SC_COPY_H2D, "Memcpy HtoD"},
	{"", "8", SC_COPY_D2D, "Memcpy DtoD"},
	{"", "77", SC_COPY_UNKNOWN, "Memcpy"},
	{"CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER, name TEXT, label TEXT);"
	 "INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'X', 'Device-to-Host');",
	 "1", SC_COPY_D2H, "Memcpy DtoH"},
};

LOOP_TEST(test_copies, N_OF(copies))
{
	struct fixture f;
	char sql[1024];

	snprintf(sql, sizeof(sql),
		 STRINGS
		 "%s CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, "
		 "streamId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);"
		 "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 5, 7, " TID(7, 0) ", "
										      "4096, %s);",
		 copies[_i].labels, copies[_i].value);
	open_database(&f, sql);
	fixture_load(&f);
	ck_assert_uint_eq(f.trace.events.n, 1);
	ck_assert_uint_eq(fixture_event(&f, copies[_i].name)->sub, copies[_i].kind);
	ck_assert_int_eq(f.trace.events.at[0].bytes, 4096);
	ck_assert_int_eq(f.trace.lanes.at[1].device, -1); /* no such column */
	fixture_close(&f);
}

/* A wait finds the record that it is for; a record has the time of its call. */
TEST(test_waits)
{
	const struct sc_trace_event *event;
	struct fixture f;

	open_database(
		&f, STRINGS CALLS
		"CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INTEGER, streamId INTEGER, "
		"correlationId INTEGER, globalPid INTEGER, eventId INTEGER, eventSyncId INTEGER);"
		"INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 7, 13, " TID(
			7,
			0) ", 5, 900);"
			   "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, "
			   "deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, "
			   "syncType INTEGER, eventId INTEGER, eventSyncId INTEGER);"
			   "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES"
			   "(350, 351, 0, 8, 17, " TID(7, 0) ", 2, 5, 900);");
	fixture_load(&f);
	event = fixture_event(&f, "Synchronize");
	ck_assert_uint_eq(event->cls, SC_EV_SYNC);
	ck_assert_uint_eq(event->sub, SC_SYNC_STREAM_WAIT);
	ck_assert_int_eq(event->aux0, 5);
	ck_assert_int_eq(event->aux1, 13);
	for (size_t i = 0; i < f.trace.events.n; i++) {
		event = &f.trace.events.at[i];
		if (event->cls == SC_EV_EVENT_RECORD)
			break;
	}
	ck_assert_uint_eq(event->cls, SC_EV_EVENT_RECORD);
	ck_assert_int_eq(event->start_ns, 300);
	ck_assert_int_eq(event->aux0, 5);
	ck_assert_uint_eq(event->correlation, 13);
	fixture_close(&f);
}

#define NVTX                                                                                        \
	"CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text "            \
	"TEXT, globalTid INTEGER, textId INTEGER);"                                                 \
	"INSERT INTO NVTX_EVENTS VALUES (1, NULL, 75, 'domain', " TID(                              \
		7,                                                                                  \
		9) ", NULL),"                                                                       \
		   "(2, NULL, 39, 'MPI Rank 3', " TID(                                              \
			   7,                                                                       \
			   9) ", NULL),"                                                            \
			      "(10, 20, 59, 'step', " TID(7, 9) ", NULL), (30, 40, 60, NULL, " TID( \
				      7,                                                            \
				      9) ", 5),"                                                    \
					 "(50, NULL, 34, 'here', " TID(                             \
						 7,                                                 \
						 9) ", NULL), (60, NULL, 59, 'open', " TID(7,       \
											   9) ", NULL);"

TEST(test_nvtx)
{
	struct fixture f;

	open_database(&f, STRINGS NO_CALLS NVTX);
	fixture_load(&f);
	ck_assert_int_eq(f.stats.n_records, 6);
	ck_assert_int_eq(f.stats.n_metadata, 2);
	ck_assert_int_eq(f.stats.n_events, 3);
	ck_assert_int_eq(fixture_bad(&f, "range without an end"), 1);
	ck_assert_uint_eq(fixture_event(&f, "step")->cls, SC_EV_RANGE);
	ck_assert_int_eq(fixture_event(&f, "registered")->dur_ns, 10);
	ck_assert_uint_eq(fixture_event(&f, "here")->cls, SC_EV_MARK);
	ck_assert_int_eq(f.trace.identity.rank, 3);
	fixture_close(&f);
}

/* Without CUDA there is nothing to replay: what to record is said. */
TEST(test_only_nvtx)
{
	struct fixture f;

	open_database(&f, STRINGS NVTX);
	ck_assert_int_eq(fixture_import(&f), -SC_EVALUE);
	ck_assert_str_eq(f.err.text, "it has no CUDA calls or activities: record it with nsys "
				     "profile --trace=cuda,nvtx");
	fixture_close(&f);
}

/* srcKind and dstKind: pageable memory, from which and to which calls wait. */
TEST(test_memory_of_copies)
{
	struct fixture f;

	open_database(
		&f, STRINGS
		"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, "
		"streamId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, "
		"srcKind INTEGER, dstKind INTEGER);"
		"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES "
		"(1, 5, 7, " TID(7, 0) ", 4096, 1, 0, 2), (6, 9, 7, " TID(
			7, 0) ", 4096, 2, 2, 1), (0, 0, 7, " TID(7,
								 0) ", 4096, 8, 2, 4294967295);");
	fixture_load(&f);
	ck_assert_uint_eq(fixture_event(&f, "Memcpy HtoD (Pageable -> Device)")->sub, SC_COPY_H2D);
	ck_assert_uint_eq(fixture_event(&f, "Memcpy DtoH (Device -> Pinned)")->sub, SC_COPY_D2H);
	ck_assert_uint_eq(fixture_event(&f, "Memcpy DtoD")->flags, SC_EVF_NO_TIME);
	ck_assert_int_eq(fixture_bad(&f, "activity of the GPU without a time"), 1);
	fixture_close(&f);
}

TEST(test_two_processes)
{
	struct fixture f;
	char name[256];

	open_database(&f, STRINGS NO_CALLS NVTX
		      "INSERT INTO NVTX_EVENTS VALUES (70, 80, 59, 'other', " TID(8, 1) ", NULL);");
	ck_assert_int_eq(fixture_import(&f), 0);
	ck_assert_int_eq(f.stats.n_events, 4);
	ck_assert_int_eq(fixture_list(&f, name, sizeof(name)), 2);
	fixture_close(&f);
}

TEST(test_packed)
{
	struct fixture f;
	char packed[160], name[256], bytes[64 << 10];
	gzFile out;
	FILE *in;
	size_t n;

	open_database(&f, STRINGS CALLS KERNELS);
	in = fopen(f.path, "rb");
	ck_assert_ptr_nonnull(in);
	n = fread(bytes, 1, sizeof(bytes), in);
	fclose(in);
	snprintf(packed, sizeof(packed), "%s.gz", f.path);
	out = gzopen(packed, "wb");
	ck_assert_ptr_nonnull(out);
	ck_assert_int_eq(gzwrite(out, bytes, (unsigned)n), (int)n);
	ck_assert_int_eq(gzclose(out), Z_OK);
	unlink(f.path);
	strcpy(f.path, packed);
	fixture_load(&f);
	ck_assert_int_eq(f.stats.n_kernels, 2);
	ck_assert_int_eq(f.stats.in_bytes, (int64_t)n);
	ck_assert_int_eq(fixture_list(&f, name, sizeof(name)), 1);
	ck_assert_str_eq(name, "a.sctrace");
	fixture_close(&f);
}

/* A page that is overwritten ends that table, and is said. */
TEST(test_damaged)
{
	struct fixture f;
	FILE *file;

	open_database(&f, STRINGS CALLS KERNELS);
	file = fopen(f.path, "r+b");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(fseek(file, -4096, SEEK_END), 0);
	for (int i = 0; i < 4096; i++)
		putc(0xEE, file);
	fclose(file);
	ck_assert_int_eq(fixture_import(&f), 0);
	ck_assert_ptr_nonnull(f.stats.truncated);
	ck_assert_str_eq(f.stats.truncated, "database disk image is malformed");
	fixture_close(&f);
}

static const char *const others[] = {
	"CREATE TABLE things (a INTEGER); INSERT INTO things VALUES (1);",
	STRINGS,
	/* a view that would never end */
	"CREATE TABLE x (a INTEGER); CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE c(n) AS "
	"(SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n AS start, n AS end, n AS globalPid FROM c;",
	/* a table of another program */
	"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (a INTEGER);"
	"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1);",
};

LOOP_TEST(test_not_nsys, N_OF(others))
{
	struct fixture f;

	open_database(&f, others[_i]);
	ck_assert_int_eq(fixture_import(&f), -SC_EVALUE);
	ck_assert_str_eq(f.err.text,
			 "an SQLite file without CUDA or NVTX events of Nsight Systems");
	fixture_close(&f);
}

/* What the import cannot do without is asked for by name: no file of no kernels comes of it. */
static const struct {
	const char *sql, *missing;
} CUT[] = {
	{STRINGS KERNELS "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN start TO a;",
	 "start"},
	{STRINGS KERNELS "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN end TO a;", "end"},
	{STRINGS KERNELS "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN globalPid TO a;",
	 "globalPid"},
	{KERNELS, "StringIds"},
};

LOOP_TEST(test_missing_columns, N_OF(CUT))
{
	struct fixture f;

	open_database(&f, CUT[_i].sql);
	ck_assert_int_eq(fixture_import(&f), -SC_EFORMAT);
	ck_assert_msg(strstr(f.err.text, CUT[_i].missing) != NULL, "%s", f.err.text);
	fixture_close(&f);
}

/* The export of an MPI program in the data folder beside the checkout, where there is one; counts
 * are those of the rows of its tables: 5 kernels, 15 copies, 95 calls, 24 of NVTX, 16 of overhead.
 */
TEST(test_shared)
{
	const char *given = getenv("STEPCAST_TRACES");
	char path[512];
	struct fixture f;

	snprintf(path, sizeof(path), "%s/pipit-nsys-saxpy-mpi/saxpy-mpi-cuda.sqlite.gz",
		 given ? given : "../shared/data/traces");
	if (access(path, R_OK) != 0) {
		fprintf(stderr, "not there, skipped: %s\n", path);
		return;
	}
	fixture_text(&f, "none", "");
	f.opts.dir = f.out;
	ck_assert_int_eq(sc_import(path, &f.opts, &f.stats, &f.err), 0);
	ck_assert_int_eq(f.stats.n_records, 5 + 15 + 95 + 24 + 16);
	ck_assert_int_eq(f.stats.n_kernels, 5);
	ck_assert_int_eq(f.stats.n_metadata, 2);
	ck_assert_int_eq(f.stats.n_events + fixture_bad(&f, "second record of a call"), 155 - 2);
	ck_assert_int_eq(f.stats.rank, 0);
	ck_assert_ptr_null(f.stats.truncated);
	fixture_close(&f);
}
