/* Recordings that are odd: ranks that began at different steps, on clocks far apart or with numbers
 * of their own; files that end early, captures of graphs, kernels that no profiler recorded. */
#include "runner.h"
#include "stream_fixture.h"
#include "trace/replay/replay.h"

static struct sc_replay_result result;
static struct sc_err err;

static int run_replay(void)
{
	struct sc_replay_opts opts;

	err = (struct sc_err){.code = SC_OK};
	sc_replay_opts_init(&opts);
	return sc_replay(scratch_dir, &opts, &result, &err);
}

FIXTURE(scratch_begin, scratch_end)

/* ---- a straggler that was recorded two steps later ---- */

static const struct {
	int64_t clock_ns; /* of the second rank */
	int numbered_from;
} LATE[] = {{0, 0}, {1230000000, 0}, {0, -2}, {-777000000, 0}};

LOOP_TEST(test_late_straggler, N_OF(LATE))
{
	const struct stream_script script = {.n_ranks = 2, .gemm_ns = {600000, 900000}};

	for (int r = 0; r < 2; r++) {
		struct stream_writer s = open_rank(scratch_dir, r, 2);

		for (int step = 2 * r; step < 6; step++)
			put_step(&s, &script, r, step + (r ? LATE[_i].numbered_from : 0),
				 1000000 + step * (int64_t)FIXTURE_STEP_NS +
					 (r ? LATE[_i].clock_ns : 0));
		ck_assert_int_eq(sc_trace_writer_finish(s.w, NULL, NULL), 0);
	}
	ck_assert_msg(run_replay() == 0, "%s", err.text);
	ck_assert_uint_eq(result.iterations.n, 4);
	ck_assert_int_eq(result.iterations.at[0].step, 12);
	ck_assert_int_eq(result.loss_by, SC_LOSS_STRAGGLER);
	ck_assert_uint_eq(result.slowest, 1);
	/* of 970 us that it computes against 670 */
	ck_assert_double_eq_tol(result.ranks.at[1].slowness, 970.0 / 670, 0.001);
	ck_assert_double_eq_tol(result.loss_ms, 0.3, 0.03);
	for (size_t i = 0; i < result.warnings.n; i++)
		ck_assert_ptr_null(strstr(result.warnings.text[i], "causality bounds"));
	sc_replay_result_release(&result);
}

/* The same recording under two names is one rank. */
TEST(test_same_recording)
{
	for (int k = 0; k < 2; k++) {
		const struct stream_script script = {.n_ranks = 2, .gemm_ns = {600000, 600000}};
		struct stream_writer s = open_rank(scratch_dir, k, 2);
		struct sc_trace_identity identity = {.rank = 0,
						     .world = 2,
						     .base_utc_ns = INT64_C(1700000000000000000),
						     .source = "kineto"};

		for (int step = 0; step < 3; step++)
			put_step(&s, &script, 0, step, 1000000 + step * (int64_t)FIXTURE_STEP_NS);
		sc_trace_writer_identity(s.w, &identity);
		ck_assert_int_eq(sc_trace_writer_finish(s.w, NULL, NULL), 0);
	}
	ck_assert_int_eq(run_replay(), -SC_ECONFLICT);
	ck_assert_msg(strncmp(err.text, "the same recording of rank 0 is in ", 35) == 0, "%s",
		      err.text);
}

/* ---- what a file lacks ---- */

/* A step of 1 ms: `quiet_us` of a loader, then as many kernels of 10 us as are given, of `n`
 * launches. */
static void put_lacking_step(struct stream_writer *s, int step, int64_t quiet_us, int n,
			     int n_kernels)
{
	const int64_t begin = 1000000 + step * (int64_t)1200000;
	char name[32];

	for (int k = 0; k < n; k++) {
		const int64_t at = begin + quiet_us * 1000 + k * 20000;

		if (k < n_kernels)
			put_launch(s, s->compute, "gemm", at, at + 6000, 10000);
		else
			put_event(s, SC_EV_API, s->thread, "cudaLaunchKernel", at, 4000,
				  s->correlation++);
	}
	snprintf(name, sizeof(name), "ProfilerStep#%d", step);
	put_event(s, SC_EV_RANGE, s->thread, name, begin, 1000000, 0);
}

/* What keeps the host from calling in every step is no hole where it is said to load data: then
 * only the step that lacks calls is cut. */
static const struct {
	const char *range;
	size_t n;
} QUIET[] = {{"enumerate(DataLoader)#_Iter.__next__", 5}, {"forward", 0}};

LOOP_TEST(test_cut, N_OF(QUIET))
{
	struct stream_writer s = open_rank(scratch_dir, 0, 1);

	for (int step = 0; step < 6; step++) {
		put_event(&s, SC_EV_RANGE, s.thread, QUIET[_i].range,
			  1000000 + step * (int64_t)1200000 + 10000, 480000, 0);
		put_lacking_step(&s, step, 500, step == 5 ? 15 : 20, step == 5 ? 15 : 20);
	}
	sc_trace_writer_meta(s.w, SC_META_PARTIAL, "it ends inside an event");
	ck_assert_int_eq(sc_trace_writer_finish(s.w, NULL, NULL), 0);
	ck_assert_int_eq(run_replay() == 0, QUIET[_i].n > 0);
	if (QUIET[_i].n) {
		ck_assert_uint_eq(result.iterations.n, QUIET[_i].n);
		sc_replay_result_release(&result);
	}
}

/* Launches that a graph captures run nothing: what is captured is not lost. */
TEST(test_capture)
{
	struct stream_writer s = open_rank(scratch_dir, 0, 1);

	for (int step = 0; step < 4; step++) {
		const int64_t begin = 1000000 + step * (int64_t)1200000;

		put_event(&s, SC_EV_API, s.thread, "cudaStreamBeginCapture", begin + 105000, 1000,
			  0);
		put_lacking_step(&s, step, 50, 20, 3);
		put_event(&s, SC_EV_API, s.thread, "cudaStreamEndCapture", begin + 900000, 1000, 0);
	}
	ck_assert_int_eq(sc_trace_writer_finish(s.w, NULL, NULL), 0);
	ck_assert_msg(run_replay() == 0, "%s", err.text);
	ck_assert_uint_eq(result.iterations.n, 4);
	sc_replay_result_release(&result);
}

/* A file that is whole was not cut, whatever its profiler lost. */
static const struct {
	bool nccl, partial;
	const char *why;
} LOST[] = {
	{false, false,
	 "its 3 steps lost calls or kernels (18 launches without their kernel): the file is whole, but "
	 "the profiler did not record them; record again, with fewer steps or larger buffers"},
	{true, false,
	 "its 3 steps lost calls or kernels (18 launches without their kernel): the file is whole, but "
	 "the profiler recorded none of NCCL's kernels; record again with a profiler that does"},
	{false, true,
	 "its 3 steps lost calls or kernels (18 launches without their kernel): the file was cut; import "
	 "a whole one"},
};

LOOP_TEST(test_lost, N_OF(LOST))
{
	struct stream_writer s = open_rank(scratch_dir, 0, 1);

	for (int step = 0; step < 3; step++) {
		if (LOST[_i].nccl)
			put_event(&s, SC_EV_RANGE, s.thread, "nccl:all_reduce",
				  1000000 + step * (int64_t)1200000 + 300000, 100000, 0);
		put_lacking_step(&s, step, 50, 20, 14);
	}
	if (LOST[_i].partial)
		sc_trace_writer_meta(s.w, SC_META_PARTIAL, "it ends inside an event");
	ck_assert_int_eq(sc_trace_writer_finish(s.w, NULL, NULL), 0);
	ck_assert_int_eq(run_replay(), -SC_EVALUE);
	ck_assert_str_eq(err.text, LOST[_i].why);
}
