/* Replay of GPU streams: as recorded, from other iterations, with changes; where the time goes. */
#include "runner.h"
#include "stream_fixture.h"
#include "trace/replay/replay.h"

static const struct stream_script PAIR = {.n_ranks = 2, .n_steps = 4, .gemm_ns = {100000, 300000}};
/* Of the slower rank; the other waits for it. */
#define STEP_US (20 + 6 + 300 + 1 + 50 + 2.5 + 40 + 0.5 + 3 + 35)

static struct sc_replay_result result;
static struct sc_arena arena;

static int replay(const struct sc_replay_opts *opts, struct sc_err *err)
{
	return sc_replay(scratch_dir, opts, &result, err);
}

static void begin(const struct stream_script *script)
{
	scratch_begin();
	sc_arena_init(&arena, 4096);
	write_streams(scratch_dir, script);
}

static void end(void)
{
	sc_arena_release(&arena);
	scratch_end();
}

static void run_opts(const struct sc_replay_opts *opts)
{
	struct sc_err err = {.code = SC_OK};

	ck_assert_msg(replay(opts, &err) == 0, "%s", err.text);
}

TEST(test_as_recorded)
{
	struct sc_replay_opts opts;

	begin(&PAIR);
	sc_replay_opts_init(&opts);
	run_opts(&opts);
	ck_assert_str_eq(result.source, "streams");
	ck_assert_uint_eq(result.iterations.n, 4);
	for (size_t i = 0; i < 4; i++) {
		const struct sc_replay_iteration *it = &result.iterations.at[i];

		ck_assert_double_eq_tol(it->measured_ms, STEP_US / 1000, 1e-9);
		ck_assert_double_eq_tol(it->simulated_ms, it->measured_ms, 1e-4);
		ck_assert_double_eq_tol(it->predicted_ms, it->measured_ms, 1e-4);
		ck_assert(isnan(it->changed_ms));
	}
	sc_replay_result_release(&result);
	end();
}

/* A first step that takes long is named, and the others are predicted without it. */
TEST(test_outlier)
{
	struct stream_script script = PAIR;
	struct sc_replay_opts opts;
	struct sc_replay_error error;

	script.n_steps = 6;
	script.first_step_ns = 400000;
	begin(&script);
	sc_replay_opts_init(&opts);
	run_opts(&opts);
	for (size_t i = 0; i < 6; i++) {
		const struct sc_replay_iteration *it = &result.iterations.at[i];

		ck_assert_int_eq(it->outlier, i == 0);
		ck_assert_double_eq_tol(it->predicted_ms, STEP_US / 1000, 1e-4);
	}
	ck_assert_int_eq(result.iterations.at[0].more_of, SC_PART_COMPUTE);
	ck_assert_double_eq_tol(result.iterations.at[0].more_ms, 0.4, 1e-4);
	ck_assert_double_eq_tol(result.reference_ms, STEP_US / 1000 + 0.4 / 6, 1e-4);
	sc_replay_error_of(&result, SC_REPLAY_PREDICTED, &error);
	ck_assert_double_lt(error.typical_max_pct, 0.1);
	ck_assert_double_gt(error.max_pct, 40);
	ck_assert_double_eq_tol(error.high_pct, 100 * 400 / STEP_US, 0.1);
	ck_assert_double_lt(error.typical_high_pct, 0.1);
	sc_replay_result_release(&result);
	end();
}

/* Times of public traces beside what the others said, and which of them stand out. */
static const struct {
	size_t n;
	double measured[6], predicted[6];
	bool outlier[6];
} TIMES[] = {
	{5, {35.1, 72.1, 95.7, 95.6, 95.7}, {89.8, 80.5, 95.7, 95.4, 95.9}, {true, true}},
	{6,
	 {160, 122, 123, 118, 127, 207},
	 {139, 149, 149, 150, 149, 139},
	 {true, false, false, false, false, true}},
	{6, {75.5, 76.9, 76.2, 76.7, 78.5, 81.1}, {75.0, 78.0, 75.4, 78.0, 76.0, 75.4}, {false}},
	{3, {10, 10, 90}, {50, 50, 10}, {false}}, /* of three none can be told */
	{6, {10, 20, 40, 80, 160, 320}, {99, 98, 92, 84, 68, 36}, {false}}, /* nor here */
};

LOOP_TEST(test_which_are_outliers, N_OF(TIMES))
{
	bool outlier[6] = {false};

	sc_replay_mark_outliers(TIMES[_i].measured, TIMES[_i].predicted, TIMES[_i].n, outlier);
	for (size_t i = 0; i < TIMES[_i].n; i++)
		ck_assert_msg(outlier[i] == TIMES[_i].outlier[i], "step %zu", i);
}

TEST(test_where_time_goes)
{
	struct sc_replay_opts opts;

	begin(&PAIR);
	sc_replay_opts_init(&opts);
	run_opts(&opts);
	ck_assert_uint_eq(result.ranks.n, 2);
	for (size_t r = 0; r < 2; r++) {
		const struct sc_replay_rank *rank = &result.ranks.at[r];
		double sum = 0;

		for (int p = 0; p < SC_N_PARTS; p++) {
			ck_assert_double_ge(rank->part_ms[p], 0);
			sum += rank->part_ms[p];
		}
		ck_assert_double_eq_tol(sum, result.simulated_ms, 1e-6);
	}
	/* Rank 0 waits 200 us; 30 of them beside its elementwise kernel, but for its 0.5 us gap of
	 * a launch and the first microsecond, which the collective needs to begin. */
	ck_assert_double_eq_tol(result.ranks.at[0].part_ms[SC_PART_PEERS], 0.1705, 2e-3);
	ck_assert_double_eq_tol(result.ranks.at[1].part_ms[SC_PART_PEERS], 0, 1e-9);
	ck_assert_double_eq_tol(result.ranks.at[1].late_ms, 0.2, 1e-3);
	ck_assert_double_eq_tol(result.ranks.at[1].slowness, 370.0 / 170, 1e-6);
	ck_assert_double_eq_tol(result.ranks.at[1].without_ms,
				(STEP_US - 300 + 300 / result.ranks.at[1].slowness) / 1000, 1e-3);
	ck_assert_double_eq_tol(result.ranks.at[0].without_ms, result.simulated_ms, 1e-4);
	sc_replay_result_release(&result);
	end();
}

static const struct change_case {
	const char *selector;
	double factor, longer_us;
} CHANGES[] = {
	{"kernel:gemm", 0.5, -150},
	{"kernel:gemm,rank:0", 2, 0}, /* it waits anyway */
	{"kernel:gemm,rank:1", 2, 300},
	{"kernel:optimizer", 2, 40},
	{"collective", 2, 50},
	{"collective", 0, -20.5}, /* then the elementwise kernel is in the way */
	{"copy", 3, 6},
	{"host", 1, 0},
	{"kernel:elementwise", 0, 0}, /* hidden behind the collective */
};

LOOP_TEST(test_changes, N_OF(CHANGES))
{
	const struct change_case *c = &CHANGES[_i];
	struct sc_replay_change change = {.action = SC_REPLAY_SCALE, .factor = c->factor};
	struct sc_replay_opts opts;

	begin(&PAIR);
	sc_replay_opts_init(&opts);
	ck_assert_int_eq(sc_selector_parse(c->selector, &arena, &change.selector, NULL), 0);
	opts.changes = &change;
	opts.n_changes = 1;
	run_opts(&opts);
	ck_assert_double_eq_tol((result.changed_ms - result.reference_ms) * 1000, c->longer_us,
				0.1);
	sc_replay_result_release(&result);
	end();
}

/* A ring of 16 sends 2 x 15/16 of the message, one of 2 all of it: on one node, or on nodes of one
 * that was recorded on several. */
LOOP_TEST(test_more_gpus, 2)
{
	struct stream_script script = PAIR;
	struct sc_replay_opts opts;

	script.n_devices = _i ? 0 : 16;
	script.n_hosts = _i ? 2 : 0;
	begin(&script);
	sc_replay_opts_init(&opts);
	opts.gpus = 16;
	run_opts(&opts);
	ck_assert_int_eq(result.gpus, 16);
	ck_assert_double_eq_tol((result.changed_ms - result.reference_ms) * 1000, 50 * 0.875, 0.1);
	sc_replay_result_release(&result);
	end();
}

/* Of what is beyond the node, a recording within one says nothing. */
LOOP_TEST(test_more_gpus_than_a_node, 4)
{
	static const struct {
		int n_devices, n_hosts;
		const char *message;
	} nodes[] = {
		{8, 0, "more than the 8 GPUs of a node of the trace"},
		{0, 1, "more than the 2 GPUs of a node of the trace"},
		{0, 0, "does not say on how many nodes its 2 GPUs were"},
		{1, 0, "does not say on how many nodes its 2 GPUs were"},
	};
	struct stream_script script = PAIR;
	struct sc_err err = {.code = SC_OK};
	struct sc_replay_opts opts;

	script.n_devices = nodes[_i].n_devices;
	script.n_hosts = nodes[_i].n_hosts;
	begin(&script);
	sc_replay_opts_init(&opts);
	opts.gpus = 16;
	ck_assert_int_eq(replay(&opts, &err), -SC_EUSAGE);
	ck_assert_msg(strstr(err.text, nodes[_i].message), "%s", err.text);
	end();
}

/* Of one rank the waiting in a collective stays what it is: only what the shortest took is scaled.
 */
TEST(test_one_rank)
{
	static const struct stream_script one = {.n_ranks = 1, .n_steps = 3, .gemm_ns = {100000}};
	struct sc_replay_change change = {.action = SC_REPLAY_SCALE, .factor = 2};
	struct sc_replay_opts opts;

	begin(&one);
	sc_replay_opts_init(&opts);
	ck_assert_int_eq(sc_selector_parse("collective", &arena, &change.selector, NULL), 0);
	opts.changes = &change;
	opts.n_changes = 1;
	run_opts(&opts);
	ck_assert_double_eq_tol((result.changed_ms - result.reference_ms) * 1000, 50, 0.1);
	ck_assert_uint_ge(result.warnings.n, 1);
	sc_replay_result_release(&result);
	end();
}

/* ---- gradients ---- */

enum { STEPS = 4, LATE_NS = 40000 };

static void put_range(struct stream_writer *s, int step, int64_t begin, int64_t end)
{
	char name[32];

	snprintf(name, sizeof(name), "ProfilerStep#%d", step);
	put_event(s, SC_EV_RANGE, s->thread, name, begin, end - begin, 0);
}

static void finish(struct stream_writer *s)
{
	ck_assert_int_eq(sc_trace_writer_finish(s->w, NULL, NULL), 0);
}

/* A launch beside others on the one thread, 5 us apart. */
static int64_t put_next(struct stream_writer *s, uint32_t lane, const char *name, int64_t *call,
			int64_t start, int64_t dur)
{
	*call += 5000;
	put_launch(s, lane, name, *call, start, dur);
	return start + dur;
}

/* Kernels of 100, 100, 50 and 50 us; all-reduces of 1, 1 and 2 MiB after the first, second and last
 * take 10 us and 20 us a MiB; an optimizer waits for the last. In step 1 the last takes `late_ns`
 * more. */
static void put_gradients(struct stream_writer *s, uint32_t large, int step, int64_t late_ns)
{
	static const char *const reduce = "ncclKernel_AllReduce_RING_LL_Sum_float(x)";
	const int64_t begin = 1000000 + step * (int64_t)FIXTURE_STEP_NS;
	const uint32_t small = s->reduce;
	int64_t call = begin, t = begin + 5000 + FIXTURE_LATENCY_NS;
	char name[32];

	t = put_next(s, s->compute, "gemm_1", &call, t, 100000);
	put_next(s, s->comm, reduce, &call, t + 1000, 30000);
	t = put_next(s, s->compute, "gemm_2", &call, t, 100000);
	put_next(s, s->comm, reduce, &call, t + 1000, 30000);
	t = put_next(s, s->compute, "gemm_3", &call, t, 50000);
	t = put_next(s, s->compute, "gemm_4", &call, t, 50000);
	s->reduce = large;
	t = put_next(s, s->comm, reduce, &call, t + 1000, 50000 + (step == 1 ? late_ns : 0));
	s->reduce = small;
	t = put_next(s, s->compute, "multi_tensor_apply_kernel", &call, t + 2500, 40000);
	call += 5000;
	put_event(s, SC_EV_API, s->thread, "cudaDeviceSynchronize", call, t + 10000 - call, 0);
	snprintf(name, sizeof(name), "ProfilerStep#%d", step);
	put_event(s, SC_EV_RANGE, s->thread, name, begin, t + 20000 - begin, 0);
}

static void write_gradients(int n_recorded, int world, int64_t late_ns)
{
	scratch_begin();
	sc_arena_init(&arena, 4096);
	for (int r = 0; r < n_recorded; r++) {
		struct stream_writer s = open_rank(scratch_dir, r, world);
		struct sc_trace_comm comm = {.comm_hash = 11,
					     .bytes = 2 << 20,
					     .group_size = world,
					     .peer = -1,
					     .root = -1,
					     .seq = -1};
		uint32_t large;

		comm.collective = put_text(&s, "allreduce");
		large = sc_trace_writer_comm(s.w, &comm);
		for (int step = 0; step < STEPS; step++)
			put_gradients(&s, large, step, late_ns);
		ck_assert_int_eq(sc_trace_writer_finish(s.w, NULL, NULL), 0);
	}
}

/* What is changed, and by how much a step is longer. A gap of 1 us is before each all-reduce. */
static const struct reshape_case {
	enum sc_replay_overlap overlap;
	double longer_us;
} RESHAPES[] = {
	/* 3 us of gaps, and the first two all-reduces. */
	{SC_OVERLAP_NONE, 62},
	/* The optimizer is done before the last all-reduce, for which the device is synchronized.
	 */
	{SC_OVERLAP_FREE, -42.5},
};

LOOP_TEST(test_reshapes, 2 * (int)(sizeof(RESHAPES) / sizeof(RESHAPES[0])))
{
	const struct reshape_case *c = &RESHAPES[_i / 2];
	struct sc_replay_opts opts;

	write_gradients(1 + _i % 2, 2, 0);
	sc_replay_opts_init(&opts);
	opts.overlap = c->overlap;
	run_opts(&opts);
	ck_assert_double_eq_tol((result.changed_ms - result.reference_ms) * 1000, c->longer_us,
				0.1);
	ck_assert_double_eq_tol(result.simulated_ms, result.measured_ms, 1e-4);
	sc_replay_result_release(&result);
	end();
}

/* The peer that was not recorded was late once. */
TEST(test_missing)
{
	struct sc_replay_opts opts;

	write_gradients(1, 2, LATE_NS);
	sc_replay_opts_init(&opts);
	opts.missing = SC_MISSING_SYMMETRIC;
	run_opts(&opts);
	ck_assert_double_eq_tol((result.changed_ms - result.reference_ms) * 1000, -40.0 / STEPS,
				0.1);
	sc_replay_result_release(&result);
	opts.missing = SC_MISSING_RECORDED;
	run_opts(&opts);
	ck_assert(isnan(result.changed_ms));
	sc_replay_result_release(&result);
	end();
}

/* Of all ranks recorded none is missing: what they wait is simulated. */
TEST(test_none_missing)
{
	struct sc_replay_opts opts;

	begin(&PAIR);
	sc_replay_opts_init(&opts);
	opts.missing = SC_MISSING_SYMMETRIC;
	run_opts(&opts);
	ck_assert_double_eq_tol(result.changed_ms, result.reference_ms, 1e-6);
	sc_replay_result_release(&result);
	end();
}

TEST(test_memory_apart)
{
	struct sc_replay_opts opts;

	begin(&PAIR);
	sc_replay_opts_init(&opts);
	run_opts(&opts);
	ck_assert_double_eq_tol(result.ranks.at[0].part_ms[SC_PART_MEMORY], 3e-3, 1e-6);
	ck_assert_double_eq_tol(result.ranks.at[0].part_ms[SC_PART_COMPUTE], 170e-3, 1e-6);
	ck_assert_double_eq_tol(result.ranks.at[1].part_ms[SC_PART_COMPUTE], 370e-3, 1e-6);
	sc_replay_result_release(&result);
	end();
}

/* ---- activities whose calls the trace does not have ---- */

static void put_read_back(struct stream_writer *s, int64_t call, int64_t start)
{
	put_event(s, SC_EV_API, s->thread, "cudaMemcpyAsync", call, start + 13000 - call,
		  s->correlation);
	put_event(s, SC_EV_COPY, s->compute, "Memcpy DtoH (Device -> Pageable)", start, 3000,
		  s->correlation++);
}

/* Launched before the recording began, and nothing before it on its stream: it starts when it did.
 * The step is what the device takes after it. */
TEST(test_launched_before)
{
	const int64_t begin = 1000000;
	struct sc_replay_opts opts;
	struct stream_writer s;

	scratch_begin();
	sc_arena_init(&arena, 4096);
	s = open_rank(scratch_dir, 0, 1);
	put_event(&s, SC_EV_KERNEL, s.compute, "sm80_gemm_f16", begin + 500000, 300000, 0);
	put_launch(&s, s.compute, "multi_tensor_apply_kernel", begin + 20000, begin + 801000,
		   40000);
	put_read_back(&s, begin + 30000, begin + 842000);
	put_range(&s, 1, begin, begin + 880000);
	finish(&s);
	sc_replay_opts_init(&opts);
	run_opts(&opts);
	ck_assert_double_eq_tol(result.iterations.at[0].simulated_ms, 0.080, 1e-4);
	ck_assert_double_eq_tol(result.iterations.at[0].measured_ms, 0.080, 1e-4);
	sc_replay_result_release(&result);
	end();
}

/* A source that gives no correlation ids has lost nothing by that; of one that was cut, its only
 * step may be. */
LOOP_TEST(test_no_correlations, 2)
{
	static const char said[] = "the recording was cut, and has one step";
	const int64_t begin = 1000000;
	struct sc_replay_opts opts;
	struct stream_writer s;
	bool warned = false;

	scratch_begin();
	sc_arena_init(&arena, 4096);
	s = open_rank(scratch_dir, 0, 1);
	put_event(&s, SC_EV_API, s.thread, "cudaLaunchKernel", begin + 10000, 4000, 0);
	put_event(&s, SC_EV_KERNEL, s.compute, "sm80_gemm_f16", begin + 20000, 60000, 0);
	put_range(&s, 1, begin, begin + 90000);
	for (int64_t k = 1; _i && k < 5; k++)
		put_launch(&s, s.compute, "sm80_gemm_f16", begin + 18000 * k,
			   begin + 18000 * k + 64000, 2000);
	if (_i)
		sc_trace_writer_meta(s.w, SC_META_PARTIAL, "it ends inside an event");
	finish(&s);
	sc_replay_opts_init(&opts);
	run_opts(&opts);
	ck_assert_uint_eq(result.iterations.n, 1);
	for (size_t i = 0; i < result.warnings.n; i++)
		warned = warned || strncmp(result.warnings.text[i], said, strlen(said)) == 0;
	ck_assert(warned == (_i == 1));
	sc_replay_result_release(&result);
	end();
}

/* A host that needs 100 us a step and a device that needs 300: what they run faster counts until
 * the host sets the pace. */
LOOP_TEST(test_host_runs_ahead, 4)
{
	static const struct {
		double factor, ms;
	} cases[] = {{1, 0.3}, {0.5, 0.15}, {0.1, 0.1}, {2, 0.6}};
	struct sc_replay_change change = {.action = SC_REPLAY_SCALE, .factor = cases[_i].factor};
	struct sc_err err = {.code = SC_OK};
	struct sc_replay_opts opts;
	struct stream_writer s;

	scratch_begin();
	sc_arena_init(&arena, 4096);
	s = open_rank(scratch_dir, 0, 1);
	for (int64_t i = 0; i < 5; i++) {
		const int64_t host = 1000000 + i * 100000, device = 1010000 + i * 300000;

		put_launch(&s, s.compute, "sm80_gemm_f16", host + 5000, device, 200000);
		put_launch(&s, s.compute, "multi_tensor_apply_kernel", host + 50000,
			   device + 200000, 100000);
		put_range(&s, (int)i, host, host + 99999);
	}
	finish(&s);
	ck_assert(sc_selector_parse("kernel", &arena, &change.selector, &err) == 0);
	sc_replay_opts_init(&opts);
	opts.changes = &change;
	opts.n_changes = 1;
	run_opts(&opts);
	for (size_t i = 1; i < 5; i++) {
		ck_assert_double_eq_tol(result.iterations.at[i].measured_ms, 0.3, 1e-6);
		ck_assert_double_eq_tol(result.iterations.at[i].simulated_ms, 0.3, 1e-4);
		ck_assert_double_eq_tol(result.iterations.at[i].changed_ms, cases[_i].ms, 5e-3);
	}
	ck_assert_double_eq_tol(result.iterations.at[4].lag_ms, 1.005, 1e-3);
	sc_replay_result_release(&result);
	end();
}

/* A host that looks in a loop until a kernel has counted is no work of the host. */
TEST(test_host_loops)
{
	static const int64_t counts_ns[] = {400000, 900000, 650000, 1500000};
	struct sc_replay_change change = {.action = SC_REPLAY_SCALE, .factor = 0.5};
	struct sc_err err = {.code = SC_OK};
	struct sc_replay_opts opts;
	struct stream_writer s;
	int64_t at = 1000000;

	scratch_begin();
	sc_arena_init(&arena, 4096);
	s = open_rank(scratch_dir, 0, 1);
	for (int64_t i = 0; i < 4; i++) {
		const int64_t begin = at;

		put_launch(&s, s.compute, "count_tokens", at + 5000, at + 10000, counts_ns[i]);
		at += counts_ns[i] + 12000;
		put_launch(&s, s.compute, "sm80_gemm_f16", at, at + 4000, 100000);
		at += 104000;
		put_range(&s, (int)i, begin, at - 1);
	}
	finish(&s);
	ck_assert(sc_selector_parse("kernel:count", &arena, &change.selector, &err) == 0);
	sc_replay_opts_init(&opts);
	opts.changes = &change;
	opts.n_changes = 1;
	run_opts(&opts);
	for (size_t i = 0; i < 4; i++)
		ck_assert_double_eq_tol(result.iterations.at[i].measured_ms -
						result.iterations.at[i].changed_ms,
					(double)counts_ns[i] / 2e6, 5e-3);
	sc_replay_result_release(&result);
	end();
}

/* Two files that share nothing are two runs. */
TEST(test_unrelated)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_replay_opts opts;

	scratch_begin();
	sc_arena_init(&arena, 4096);
	for (int rank = 0; rank < 2; rank++) {
		const int64_t begin = 1000000 + rank * INT64_C(3600000000000);
		struct stream_writer s = open_rank(scratch_dir, rank, 1);

		put_launch(&s, s.compute, "sm80_gemm_f16", begin + 5000, begin + 10000, 200000);
		put_range(&s, 1, begin, begin + 300000);
		finish(&s);
	}
	sc_replay_opts_init(&opts);
	ck_assert_int_eq(replay(&opts, &err), -SC_ECONFLICT);
	ck_assert_msg(strstr(err.text, "not of one run") != NULL, "%s", err.text);
	end();
}

/* The product without a call seems to be launched when it starts, after all the calls; the
 * collective that was launched first waits for it. */
TEST(test_serial_without_calls)
{
	const int64_t begin = 1000000;
	struct sc_replay_opts opts;
	struct stream_writer s;

	scratch_begin();
	sc_arena_init(&arena, 4096);
	s = open_rank(scratch_dir, 0, 2);
	put_launch(&s, s.comm, "ncclKernel_AllReduce_RING_LL_Sum_float(x)", begin + 20000,
		   begin + 405000, 50000);
	put_launch(&s, s.compute, "vectorized_elementwise_kernel", begin + 30000, begin + 36000,
		   10000);
	put_launch(&s, s.compute, "vectorized_elementwise_kernel", begin + 250000, begin + 256000,
		   10000);
	put_event(&s, SC_EV_KERNEL, s.compute, "sm80_gemm_f16", begin + 300000, 100000, 0);
	put_read_back(&s, begin + 260000, begin + 460000);
	put_range(&s, 1, begin, begin + 500000);
	finish(&s);
	sc_replay_opts_init(&opts);
	opts.overlap = SC_OVERLAP_NONE;
	run_opts(&opts);
	ck_assert_double_ge(result.changed_ms, result.reference_ms - 1e-9);
	sc_replay_result_release(&result);
	end();
}

/* ---- many streams ---- */

/* Each with one kernel, and now and then a synchronization: what takes a time for each pair of
 * streams does not end within the limit. */
TEST(test_many_streams)
{
	enum { N = 40000 };
	struct sc_trace_lane stream = {.is_stream = 1, .pid = -1, .tid = -1};
	const int64_t begin = 1000000;
	struct sc_replay_opts opts;
	struct stream_writer s;
	int64_t t = begin;

	scratch_begin();
	sc_arena_init(&arena, 4096);
	s = open_rank(scratch_dir, 0, 1);
	for (int i = 0; i < N; i++) {
		uint32_t lane;

		stream.stream = 100 + i;
		lane = sc_trace_writer_lane(s.w, &stream);
		put_launch(&s, lane,
			   i % 3 ? "sm80_gemm_f16" : "ncclKernel_AllReduce_RING_LL_Sum_float(x)",
			   t + 2000, t + 14000, 8000);
		t += 10000;
		if (i % 10 != 9)
			continue;
		put_event(&s, SC_EV_API, s.thread, "cudaStreamSynchronize", t, 20000,
			  s.correlation++);
		t += 30000;
	}
	put_range(&s, 1, begin, t);
	finish(&s);
	sc_replay_opts_init(&opts);
	opts.overlap = SC_OVERLAP_NONE;
	run_opts(&opts);
	ck_assert_double_eq_tol(result.simulated_ms, (double)(t - begin) * 1e-6, 1e-3);
	sc_replay_result_release(&result);
	end();
}

/* ---- a rank whose host is slow ---- */

/* The slow host takes 300 us before it launches what the other reaches after 20: the other waits
 * for it. */
TEST(test_slow_host)
{
	static const int64_t host_ns[] = {20000, 300000};
	struct sc_replay_opts opts;

	scratch_begin();
	sc_arena_init(&arena, 4096);
	for (int r = 0; r < 2; r++) {
		struct stream_writer s = open_rank(scratch_dir, r, 2);

		for (int step = 0; step < 3; step++) {
			const int64_t begin = 1000000 + step * (int64_t)FIXTURE_STEP_NS;
			const int64_t own = begin + host_ns[r], last = begin + host_ns[1];

			put_launch(&s, s.compute, "sm80_gemm_f16", own, own + 6000, 100000);
			put_launch(&s, s.comm, "ncclKernel_AllReduce_RING_LL_Sum_float(x)",
				   own + 5000, own + 107000, last + 157000 - own - 107000);
			put_read_back(&s, own + 10000, last + 160000);
			put_range(&s, step, begin, last + 200000);
		}
		finish(&s);
	}
	sc_replay_opts_init(&opts);
	run_opts(&opts);
	ck_assert_double_eq_tol(result.ranks.at[1].slowness, 1, 1e-6);
	ck_assert_double_gt(result.ranks.at[1].host_slowness, 5);
	ck_assert_double_gt(result.reference_ms - result.ranks.at[1].without_ms, 0.2);
	ck_assert_double_eq_tol(result.ranks.at[0].without_ms, result.reference_ms, 1e-6);
	sc_replay_result_release(&result);
	opts.without_rank = 1;
	run_opts(&opts);
	ck_assert_double_lt(result.changed_ms, result.reference_ms - 0.2);
	sc_replay_result_release(&result);
	end();
}

/* ---- a replay that does not give back what was measured ---- */

static void put_reduced_step(struct stream_writer *s, int step, int64_t later)
{
	const int64_t begin = 1000000 + step * (int64_t)FIXTURE_STEP_NS;

	put_launch(s, s->compute, "sm80_gemm_f16", begin + 20000, begin + 26000, 300000);
	put_launch(s, s->comm, "ncclKernel_AllReduce_RING_LL_Sum_float(x)", begin + 30000,
		   begin + 327000, 50000 + later);
	put_launch(s, s->compute, "multi_tensor_apply_kernel", begin + 50000,
		   begin + 379500 + later, 40000);
	put_read_back(s, begin + 60000, begin + 420000 + later);
	put_range(s, step, begin, begin + 480000 + later);
}

/* The transfer is that of the shortest member: of one that ended later once nothing explains it. */
TEST(test_says_that_it_is_off)
{
	const char *said = "as recorded, step 2 comes out -7.7 % (n=1 of 4 are off)";
	struct sc_replay_opts opts;

	scratch_begin();
	sc_arena_init(&arena, 4096);
	for (int r = 0; r < 2; r++) {
		struct stream_writer s = open_rank(scratch_dir, r, 2);

		for (int step = 0; step < 4; step++)
			put_reduced_step(&s, step, r == 1 && step == 2 ? 40000 : 0);
		finish(&s);
	}
	sc_replay_opts_init(&opts);
	run_opts(&opts);
	for (size_t i = 0; i <= result.warnings.n; i++) {
		ck_assert_msg(i < result.warnings.n, "nothing is said");
		if (strncmp(result.warnings.text[i], said, strlen(said)) == 0)
			break;
	}
	sc_replay_result_release(&result);
	end();
}

static int replay_with(const char *selector, enum sc_replay_action action, int64_t without,
		       struct sc_err *err)
{
	struct sc_replay_change change = {.action = action, .factor = 1};
	struct sc_replay_opts opts;

	sc_replay_opts_init(&opts);
	ck_assert_int_eq(sc_selector_parse(selector, &arena, &change.selector, NULL), 0);
	opts.changes = &change;
	opts.n_changes = 1;
	opts.without_rank = without;
	return replay(&opts, err);
}

TEST(test_refused)
{
	struct sc_err no_network = {.code = SC_OK}, no_match = {.code = SC_OK},
		      no_rank = {.code = SC_OK}, no_range = {.code = SC_OK};
	struct sc_replay_opts opts;

	begin(&PAIR);
	ck_assert_int_eq(replay_with("collective", SC_REPLAY_MODEL, -1, &no_network), -SC_EUSAGE);
	ck_assert_ptr_nonnull(strstr(no_network.text, "--cluster"));
	ck_assert_int_eq(replay_with("kernel:attention", SC_REPLAY_SCALE, -1, &no_match),
			 -SC_EVALUE);
	ck_assert_int_eq(replay_with("kernel", SC_REPLAY_SCALE, 9, &no_rank), -SC_EVALUE);
	sc_replay_opts_init(&opts);
	opts.range = "train_step";
	ck_assert_int_eq(replay(&opts, &no_range), 0); /* none: the whole trace is one */
	ck_assert_uint_eq(result.iterations.n, 1);
	sc_replay_result_release(&result);
	end();
}
