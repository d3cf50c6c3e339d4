/* Recordings with one fault each: what waits for what, records that cannot be, two clocks. Steps of kernels that a host
 * launches at once and then waits for, so that what is right can be told beforehand. */
#include "runner.h"
#include "stream_fixture.h"
#include "trace/replay/replay.h"

enum { N_STEPS = 4, N_KERNELS = 10, KERNEL_NS = 1000000, CALL_NS = 8000, LATENCY_NS = 20000 };
#define STEP_MS 10.05

/* What is done to a step and its kernels; 0: nothing. */
struct fault {
	int64_t shift_ns;        /* of all times of the device */
	int step, kernel, n;     /* which kernels: n from that on */
	int64_t late_ns, longer; /* they start later; take so many times as long */
	bool untimed;            /* or have no time */
	bool no_steps;           /* no ranges */
	int n_unlaunched;        /* kernels whose call was not recorded, from the first on */
	int64_t overlap_ns;      /* that kernels begin before the one before ends */
	bool pageable,
		pinned; /* a copy to the device before the kernels, which its call waits for or not */
	int graph;      /* kernels of a launch; -1: as wholes */
	int64_t gap_ns;         /* between kernels of a graph */
	int64_t unexplained_ns; /* before the first kernel */
	bool no_sync;
	const char *sync; /* the call that waits, if it is another */
	bool own_names;   /* of kernels, in each step: nothing is to be learnt from the others */
};

static struct sc_replay_result result;
static struct sc_arena arena;

static void put(struct stream_writer *s, enum sc_event_class cls, const char *name, int64_t start,
		int64_t dur, uint32_t correlation)
{
	const bool on_device = cls == SC_EV_KERNEL || cls == SC_EV_COPY || cls == SC_EV_GRAPH;
	const struct sc_trace_event e = {.cls = (uint8_t)cls,
					 .lane = on_device ? s->compute : s->thread,
					 .name = put_text(s, name),
					 .start_ns = start,
					 .dur_ns = dur,
					 .sub = cls == SC_EV_COPY ? SC_COPY_H2D : 0,
					 .correlation = correlation,
					 .flags = dur < 0 ? SC_EVF_NO_TIME : 0};
	struct sc_trace_event untimed = e;

	untimed.start_ns = untimed.dur_ns = 0;
	sc_trace_writer_add(s->w, dur < 0 ? &untimed : &e);
}

static bool hits(const struct fault *f, int step, int kernel)
{
	return step == f->step && kernel >= f->kernel && kernel < f->kernel + f->n;
}

/* Returns where the step ends; *busy: until when the device has work. */
static int64_t put_fault_step(struct stream_writer *s, const struct fault *f, int step,
			      int64_t begin, int64_t *busy)
{
	int64_t call = begin + 10000, device = call + LATENCY_NS + f->unexplained_ns, end;
	char name[32];

	device = device < *busy ? *busy : device;
	if (f->pageable || f->pinned) {
		put(s, SC_EV_API, "cudaMemcpyAsync", call, f->pageable ? 5000000 : CALL_NS,
		    s->correlation);
		put(s, SC_EV_COPY,
		    f->pageable ? "Memcpy HtoD (Pageable -> Device)"
				: "Memcpy HtoD (Pinned -> Device)",
		    device + f->shift_ns, 4995000, s->correlation++);
		call += f->pageable ? 5000000 : CALL_NS;
		device += f->pageable ? 5000000 : 4995000;
	}
	for (int k = 0; k < N_KERNELS; k++) {
		const bool hit = hits(f, step, k);
		const int64_t dur = KERNEL_NS * (hit && f->longer ? f->longer : 1);
		const bool launches = f->graph == 0 || (f->graph > 0 && k % f->graph == 0) ||
				      (f->graph < 0 && k == 0);

		snprintf(name, sizeof(name), "gemm_%d", f->own_names ? step * N_KERNELS + k : k);
		if (launches && step * N_KERNELS + k >= f->n_unlaunched)
			put(s, SC_EV_API, f->graph ? "cudaGraphLaunch" : "cudaLaunchKernel", call,
			    CALL_NS / 2, s->correlation);
		call += CALL_NS;
		device = device < call && f->graph == 0 ? call : device;
		if (f->graph >= 0)
			put(s, SC_EV_KERNEL, name, device + f->shift_ns + (hit ? f->late_ns : 0),
			    hit && f->untimed ? -1 : dur, s->correlation);
		else if (k == 0)
			put(s, SC_EV_GRAPH, "CUDA graph", device + f->shift_ns,
			    N_KERNELS * KERNEL_NS, s->correlation);
		device += KERNEL_NS - f->overlap_ns + f->gap_ns;
		if (f->graph == 0 || k % f->graph == f->graph - 1 || k + 1 == N_KERNELS)
			s->correlation++;
	}
	*busy = device;
	end = device + f->overlap_ns - f->gap_ns + 10000;
	if (!f->no_sync)
		put(s, SC_EV_API, f->sync ? f->sync : "cudaDeviceSynchronize", call, end - call,
		    s->correlation++);
	else
		end = call + 10000;
	snprintf(name, sizeof(name), "ProfilerStep#%d", step + 1);
	if (!f->no_steps)
		put(s, SC_EV_RANGE, name, begin, end + 10000 - begin, 0);
	return end + 10000;
}

static void begin_fault(const struct fault *f)
{
	struct stream_writer s;
	int64_t at = 1000000, busy = 0;

	scratch_begin();
	sc_arena_init(&arena, 4096);
	s = open_rank(scratch_dir, 0, 1);
	for (int step = 0; step < N_STEPS; step++)
		at = put_fault_step(&s, f, step, at, &busy);
	ck_assert_int_eq(sc_trace_writer_finish(s.w, NULL, NULL), 0);
}

static void end_fault(void)
{
	sc_arena_release(&arena);
	scratch_end();
}

/* The change in percent; NAN: refused. *free_pct: the other bound, or NAN. */
static double change(const char *selector, double factor, double *free_pct)
{
	struct sc_replay_change one = {.action = SC_REPLAY_SCALE, .factor = factor};
	struct sc_replay_opts opts;
	double pct;

	sc_replay_opts_init(&opts);
	ck_assert_int_eq(sc_selector_parse(selector, &arena, &one.selector, NULL), 0);
	opts.changes = &one;
	opts.n_changes = 1;
	opts.no_what_if = true;
	if (sc_replay(scratch_dir, &opts, &result, NULL))
		return NAN;
	pct = 100 * (result.changed_ms / result.reference_ms - 1);
	if (free_pct)
		*free_pct = 100 * (result.changed_free_ms / result.reference_ms - 1);
	sc_replay_result_release(&result);
	return pct;
}

static double mean_ms(void)
{
	struct sc_replay_opts opts;
	struct sc_err err = {.code = SC_OK};

	sc_replay_opts_init(&opts);
	opts.no_what_if = true;
	ck_assert_msg(sc_replay(scratch_dir, &opts, &result, &err) == 0, "%s", err.text);
	return result.measured_ms;
}

static bool is_warned(const char *text)
{
	for (size_t i = 0; i < result.warnings.n; i++)
		if (strstr(result.warnings.text[i], text))
			return true;
	return false;
}

/* ---- waits ---- */

/* A call that goes on until its copy from pageable memory is done waits for it, whatever its name. */
TEST(a_pageable_copy_holds_its_host)
{
	begin_fault(&(struct fault){.pageable = true});
	ck_assert_double_eq_tol(change("copy", 0.5, NULL), -100 * 2.5 / 15.05, 0.5);
	ck_assert_double_eq_tol(change("kernel", 0.5, NULL), -100 * 5 / 15.05, 0.5);
	end_fault();
	/* Of pinned memory it returns at once: with half the kernels the copy is as long. */
	begin_fault(&(struct fault){.pinned = true});
	ck_assert_double_eq_tol(change("host", 0, NULL), 0, 1);
	ck_assert_double_eq_tol(change("copy", 0.5, NULL), -100 * 2.5 / 15.05, 0.5);
	end_fault();
}

/* So does a call that starts nothing and ends as the device has nothing left to do. */
TEST(a_call_waits_by_what_it_does)
{
	begin_fault(&(struct fault){.sync = "cudaHostAlloc", .own_names = true});
	ck_assert_double_eq_tol(change("kernel", 0.5, NULL), -49.75, 1);
	ck_assert_double_eq_tol(change("host", 0, NULL), 0, 1);
	end_fault();
}

/* ---- graphs ---- */

TEST(graphs_as_wholes_are_activities)
{
	begin_fault(&(struct fault){.graph = -1});
	ck_assert_double_eq_tol(mean_ms(), STEP_MS, 0.02);
	ck_assert(is_warned("--cuda-graph-trace=node"));
	sc_replay_result_release(&result);
	ck_assert_double_eq_tol(change("host", 0.5, NULL), 0, 0.5);
	ck_assert_double_eq_tol(change("kernel", 0.5, NULL), -50, 1);
	end_fault();
}

TEST(gaps_in_a_graph_are_not_of_the_host)
{
	begin_fault(&(struct fault){.graph = 5, .gap_ns = 500000});
	ck_assert_double_gt(change("host", 0.5, NULL), -5);
	ck_assert_double_eq_tol(change("kernel", 0.5, NULL), -100 * 5 / 14.55, 2);
	end_fault();
	/* Though they are as short as latencies. */
	begin_fault(&(struct fault){.graph = 10, .gap_ns = 18000});
	ck_assert_double_gt(change("host", 0, NULL), -1);
	end_fault();
}

/* ---- two clocks ---- */

static const int64_t SHIFTS[] = {-50000000, -1000000, -200000, -50000,
				 50000,     200000,   1000000, 50000000};

LOOP_TEST(a_shifted_clock_is_set_right, N_OF(SHIFTS))
{
	begin_fault(&(struct fault){.shift_ns = SHIFTS[_i]});
	ck_assert_double_eq_tol(mean_ms(), STEP_MS, 0.1);
	ck_assert(is_warned("the device's clock is") || SHIFTS[_i] == -50000);
	sc_replay_result_release(&result);
	ck_assert_double_eq_tol(change("kernel", 0.5, NULL), -49.75, 1);
	ck_assert_double_eq_tol(change("host", 0, NULL), 0, 1);
	end_fault();
}

/* Nothing waits for the device, and its kernels begin before their launch: when they were is not known. */
TEST(a_clock_that_nothing_bounds)
{
	begin_fault(&(struct fault){.shift_ns = -50000000, .no_sync = true});
	mean_ms();
	sc_replay_result_release(&result);
	ck_assert(isnan(change("kernel", 0.5, NULL)));
	end_fault();
}

/* ---- records that cannot be ---- */

static const struct broken_case {
	struct fault f;
	const char *said;
} BROKEN[] = {
	{{.step = 1, .kernel = 3, .n = 1, .longer = 1000},
	 "that run on after they must have ended"},
	{{.step = 3, .kernel = 9, .n = 1, .longer = 1000},
	 "that run on after they must have ended"},
	{{.step = 1, .kernel = 9, .n = 1, .longer = 1000},
	 "that run on after they must have ended"},
	{{.step = 1, .kernel = 3, .n = 1, .longer = 5}, "that run on after they must have ended"},
	{{.step = 3, .kernel = 9, .n = 1, .longer = 3}, "that run on after they must have ended"},
	{{.step = 3, .kernel = 9, .n = 1, .longer = 1000, .no_sync = true},
	 "that run on after they must have ended"},
	{{.step = 2, .kernel = 5, .n = 1, .late_ns = -25000000},
	 "out of the order of their stream"},
	{{.step = 0, .kernel = 2, .n = 2, .late_ns = 15000000}, "out of the order of their stream"},
	{{.step = 0, .kernel = 0, .n = 1, .late_ns = -900000}, "that begin before their launch"},
	{{.step = 1, .kernel = 0, .n = 4, .untimed = true}, "without a time, mended: n=4"},
	{{.step = 3, .kernel = 9, .n = 1, .untimed = true}, "without a time, mended: n=1"},
};

LOOP_TEST(a_broken_record_is_mended_and_named, N_OF(BROKEN))
{
	char step[32];

	begin_fault(&BROKEN[_i].f);
	snprintf(step, sizeof(step), "of step %d,", BROKEN[_i].f.step + 1);
	ck_assert_double_eq_tol(mean_ms(), STEP_MS, 0.02 * STEP_MS);
	ck_assert_uint_eq(result.iterations.n, N_STEPS);
	ck_assert_msg(is_warned(BROKEN[_i].said), "%s", result.warnings.text[0]);
	ck_assert(is_warned(step));
	ck_assert(!is_warned("the device's clock is"));
	sc_replay_result_release(&result);
	ck_assert_double_eq_tol(change("kernel", 0.5, NULL), -49.75, 1);
	end_fault();
}

/* ---- what stands still ---- */

TEST(waits_without_a_cause_bound_the_answer)
{
	double free_pct;

	begin_fault(&(struct fault){.unexplained_ns = 5000000});
	ck_assert_double_eq_tol(change("kernel", 0.5, &free_pct), -100 * 5 / 15.05, 1);
	ck_assert_double_eq_tol(free_pct, -100 * 7.5 / 15.05, 1);
	ck_assert_double_eq_tol(change("host", 0, &free_pct), 0, 1);
	end_fault();
	/* A small part of a step leaves one answer. */
	begin_fault(&(struct fault){.unexplained_ns = 500000});
	change("kernel", 0.5, &free_pct);
	ck_assert(isnan(free_pct));
	end_fault();
}

/* ---- programmatic launch ---- */

TEST(an_overlap_by_design_stays_a_share)
{
	begin_fault(&(struct fault){.overlap_ns = 200000});
	ck_assert_double_eq_tol(mean_ms(), STEP_MS - 9 * 0.2, 0.05);
	ck_assert(is_warned("beside the end of the one before"));
	sc_replay_result_release(&result);
	ck_assert_double_eq_tol(change("kernel", 0.5, NULL), -50, 1);
	ck_assert_double_eq_tol(change("host", 0, NULL), 0, 1);
	end_fault();
}

/* ---- the first iteration ---- */

/* What the device had left to do when the recording began is none. */
TEST(the_first_iteration_was_launched)
{
	begin_fault(&(struct fault){.no_steps = true, .no_sync = true, .n_unlaunched = N_KERNELS});
	mean_ms();
	ck_assert_uint_eq(result.iterations.n, N_STEPS - 1);
	for (size_t i = 0; i < result.iterations.n; i++)
		ck_assert_double_eq_tol(result.iterations.at[i].measured_ms, 10, 0.3);
	sc_replay_result_release(&result);
	ck_assert_double_lt(change("kernel", 0.5, NULL), -40);
	end_fault();
}
