/* Operator timelines from CSV: rows to events, bad rows by reason, headers that are refused. */
#include "trace_fixture.h"

#include <zlib.h>

#include "runner.h"
#include "trace/import/import.h"

static struct sc_import_stats stats;
static struct sc_trace trace;
static struct sc_err err;
static char csv_path[96];
static const struct sc_import_opts OPTS = {.dir = scratch_dir, .rank = -1};

#define HEADER "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n"

static void setup(void)
{
	scratch_begin();
	snprintf(csv_path, sizeof(csv_path), "%s/a.csv", scratch_dir);
	stats = (struct sc_import_stats){.n_events = 0};
	trace = (struct sc_trace){.path = NULL};
	err = (struct sc_err){.code = SC_OK};
}

static void teardown(void)
{
	sc_trace_release(&trace);
	scratch_end();
}

static int import_text(const char *text)
{
	FILE *out = fopen(csv_path, "w");

	ck_assert_ptr_nonnull(out);
	fputs(text, out);
	ck_assert_int_eq(fclose(out), 0);
	return sc_import_job.run(csv_path, &OPTS, &stats, &err);
}

static void load(void)
{
	ck_assert_msg(sc_trace_load(scratch_path, NULL, &trace, &err) == 0, "%s", err.text);
}

static int64_t bad(const char *reason)
{
	for (size_t i = 0; i < stats.n_reasons; i++)
		if (strcmp(stats.bad[i].reason, reason) == 0)
			return stats.bad[i].n;
	return 0;
}

FIXTURE(setup, teardown)

TEST(test_rows)
{
	const struct sc_trace_event *e;

	ck_assert_msg(import_text(HEADER "0,1,4,23,forward-compute,0.25,0.0625,3,0,5,1\n"
					 "1,0,1,23,forward-send,0.5,0.000001,0,-1,-1,-1\r\n"
					 "0,1,4,24,forward-compute,0.125,0.5,0,,,1") == 0,
		      "%s", err.text);
	ck_assert_int_eq(stats.n_records, 3);
	ck_assert_int_eq(stats.n_events, 3);
	ck_assert_int_eq(stats.n_steps, 2);
	load();
	ck_assert_str_eq(trace.identity.source, "job");
	ck_assert_uint_eq(trace.events.n, 3);
	e = &trace.events.at[0];
	ck_assert_int_eq(e->cls, SC_EV_JOB_OP);
	ck_assert_int_eq(e->start_ns, 250000000);
	ck_assert_int_eq(e->dur_ns, 62500000);
	ck_assert_str_eq(trace.strings.at[e->name], "forward-compute");
	ck_assert_int_eq(trace.lanes.at[e->lane].pid, 4);
	ck_assert_str_eq(trace.strings.at[trace.lanes.at[e->lane].name], "dp 0, stage 1: compute");
	ck_assert_int_eq(e->job.step, 23);
	ck_assert_int_eq(e->job.dp_rank, 0);
	ck_assert_int_eq(e->job.stage, 1);
	ck_assert_int_eq(e->job.seq, 3);
	ck_assert_int_eq(e->job.chunk, 0);
	ck_assert_int_eq(e->job.micro_batch, 5);
	ck_assert_int_eq(trace.events.at[1].dur_ns, 1000);
	ck_assert_int_eq(trace.events.at[1].job.chunk, -1);
	/* The clock of step 24 began again: it is laid behind step 23. */
	ck_assert_int_gt(trace.events.at[2].start_ns, 500001000);
	ck_assert_int_eq(trace.events.at[2].job.micro_batch, -1);
}

TEST(test_bad_rows)
{
	ck_assert_int_eq(import_text(HEADER "0,0,0,1,gc,0,0,0,0,0,0\n"
					    "-1,0,0,1,gc,0,0,0,0,0,0\n"
					    "0,x,0,1,gc,0,0,0,0,0,0\n"
					    "0,0,0,,gc,0,0,0,0,0,0\n"
					    "0,0,0,1,gc,nan,0,0,0,0,0\n"
					    "0,0,0,1,gc,1e300,0,0,0,0,0\n"
					    "0,0,0,1,gc,1,-1,0,0,0,0\n"
					    "0,0,0,1,,1,1,0,0,0,0\n"
					    "0,0,0,1,gc,1,1,1.5,0,0,0\n"
					    "0,0,99999999999,1,gc,1,1,1,0,0,0\n"
					    "0,0,0,1,gc,1\n"
					    "\n"
					    "0,0,0,1,gc,1,1,1,0,0,0,0,0\n"),
			 0);
	ck_assert_int_eq(stats.n_events, 1);
	ck_assert_int_eq(stats.n_records, 12);
	ck_assert_int_eq(bad("bad worker"), 2);
	ck_assert_int_eq(bad("bad step"), 1);
	ck_assert_int_eq(bad("bad time"), 2);
	ck_assert_int_eq(bad("negative duration"), 1);
	ck_assert_int_eq(bad("bad operation name"), 1);
	ck_assert_int_eq(bad("bad number"), 1);
	ck_assert_int_eq(bad("bad rank"), 1);
	ck_assert_int_eq(bad("wrong number of cells"), 2);
}

static const struct {
	const char *text, *message;
	unsigned line;
} refused[] = {
	{"", "the file is empty", 1},
	{"dp_rank,stage\n", "an operator timeline needs the column \"step\"", 1},
	{"dp_rank,stage,step,optype,start_ts,duration\n0,0,0,gc,0,0\n",
	 "an operator timeline needs the column \"seq_id\"", 1},
	{HEADER, "no row of it is an operation", 0},
	{HEADER "a,b\n", "no row of it is an operation", 0},
};

/* Each step is laid behind the one before, as far as there is time. */
TEST(test_years_a_step)
{
	char text[4096] = HEADER;
	size_t n = strlen(text);

	for (int i = 0; i < 20; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "0,0,0,%d,optimizer,%s,1e9,0,,,\n", i, i % 2 ? "-1e9" : "0");
	ck_assert_int_eq(import_text(text), 0);
	ck_assert_int_ge(stats.n_events, 2);
	ck_assert_int_eq(stats.n_events + bad("time out of range"), 20);
	load();
	ck_assert_int_eq(trace.n_bad_frames, 0);
	ck_assert_uint_eq(trace.events.n, (size_t)stats.n_events);
}

LOOP_TEST(test_refused, N_OF(refused))
{
	ck_assert_int_eq(import_text(refused[_i].text), -SC_EFORMAT);
	ck_assert_str_eq(err.text, refused[_i].message);
	ck_assert_str_eq(err.file, csv_path);
	ck_assert_uint_eq(err.line, refused[_i].line);
	ck_assert_int_ne(access(scratch_path, F_OK), 0);
}

/* Without ranks they are numbered; without chunks and micro-batches these are not known. */
TEST(test_few_columns)
{
	ck_assert_int_eq(import_text("step,optype,start_ts,duration,stage,dp_rank,seq_id\n"
				     "1,optimizer,0,1,3,0,0\n1,optimizer,1,1,3,1,0\n"),
			 0);
	load();
	ck_assert_int_eq(trace.lanes.at[trace.events.at[0].lane].pid, 0);
	ck_assert_int_eq(trace.lanes.at[trace.events.at[1].lane].pid, 1);
	ck_assert_int_eq(trace.events.at[1].job.chunk, -1);
}

/* Of a gzip file that was cut, whole rows are kept. */
TEST(test_cut_gzip)
{
	enum { N_ROWS = 20000 };
	gzFile gz = gzopen(csv_path, "wb");
	FILE *file;
	long size;

	ck_assert_ptr_nonnull(gz);
	gzputs(gz, HEADER);
	for (int i = 0; i < N_ROWS; i++)
		gzprintf(gz, "0,0,0,1,gc,%d.%d,0.%d,%d,0,0,0\n", i, i * 7919 % 1000,
			 i * 104729 % 1000, i);
	ck_assert_int_eq(gzclose(gz), Z_OK);
	file = fopen(csv_path, "r");
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	fclose(file);
	ck_assert_int_eq(truncate(csv_path, size / 2), 0);
	ck_assert_msg(sc_import_job.run(csv_path, &OPTS, &stats, &err) == 0, "%s", err.text);
	ck_assert_ptr_nonnull(stats.truncated);
	ck_assert_int_gt(stats.n_events, N_ROWS / 4);
	ck_assert_int_lt(stats.n_events, N_ROWS);
	ck_assert_uint_eq(stats.n_reasons, 0);
}

TEST(test_long_line)
{
	char *text = malloc((1 << 20) + 1);

	memset(text, 'x', 1 << 20);
	text[1 << 20] = '\0';
	ck_assert_int_eq(import_text(text), -SC_ELIMIT);
	ck_assert_str_eq(err.text, "a line of more than 262144 bytes");
	free(text);
}

static const struct {
	const char *head;
	bool is_job;
} heads[] = {
	{HEADER "0,0", true},          {"optype,start_ts", true},
	{"optypes,start_ts\n", false}, {"name\noptype,start_ts\n", false},
	{"{\"optype\": 1}", false},    {"", false},
};

LOOP_TEST(test_probe, N_OF(heads))
{
	ck_assert_int_eq(sc_import_job.probe(heads[_i].head, strlen(heads[_i].head)),
			 heads[_i].is_job);
}
