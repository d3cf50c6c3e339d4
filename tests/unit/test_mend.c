/* Recordings with one fault each: what waits for what, records that cannot be, two clocks. Steps of
 * kernels that a host launches at once and then waits for, so that what is right can be told
 * beforehand. Laws of replays over every trace of GPU streams in the data folder beside the
 * checkout: the clock of the device may be off, and any record broken. Exits 77 where the folder is
 * not. */
#include <dirent.h>

#include "base/rng.h"
#include "runner.h"
#include "stream_fixture.h"
#include "trace/import/import.h"
#include "trace/replay/replay.h"
#include "trace_fixture.h"

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
	bool pageable, pinned;  /* a copy to the device before the kernels, which its call waits for
				   or not */
	int graph;              /* kernels of a launch; -1: as wholes */
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

/* A call that goes on until its copy from pageable memory is done waits for it, whatever its name.
 */
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

/* Nothing waits for the device, and its kernels begin before their launch: when they were is not
 * known. */
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

/* ---- mend shared ---- */

enum { MAX_PATH = 512 };

static const char *const FILES[] = {
	"deepseek-train-64xh800-rank0/rank0.json.gz",
	"hta-ddp-2xv100-rank1/rank1.json.gz",
	"hta-dlrm-2xv100-rank1/rank1.json.gz",
	"hta-dlrm-8xa100-rank3/rank3.json.gz",
	"hta-ncclargs-2xa100/rank0.json.gz",
	"hta-nsres-v100/rank0.json.gz",
	"hta-sampled-128ranks/rank0.json.gz",
	"hta-torchrec-16xa100-rank0/rank0.json.gz",
	"hta-small-fixtures/amd_mi250_minitoy.json.gz",
	"hta-small-fixtures/critical_path_alexnet.json.gz",
	"hta-small-fixtures/cuda_event_sync.json.gz",
	"hta-small-fixtures/cuda_event_sync_multi_stream.json.gz",
	"hta-small-fixtures/gpu_user_annotation.json.gz",
	"hta-small-fixtures/triton.json.gz",
	"kineto-tb-resnet50-v100/num_workers_0.json.gz",
	"kineto-tb-resnet50-v100/num_workers_4.json.gz",
	"param-linear-2080ti/linear_kineto.json.gz",
	"pipit-nsys-saxpy-mpi/saxpy-mpi-cuda.sqlite.gz",
	"tracelens-ddp-8xmi300x/trace.json.gz",
	"tracelens-qwen05b-h100-mi300x/h100.json.gz",
	"tracelens-qwen05b-h100-mi300x/mi300x.json.gz",
};

static const char *folder(void)
{
	const char *given = getenv("STEPCAST_TRACES");

	return given ? given : "../shared/data/traces";
}

NEEDS(folder())

static struct sc_trace trace;
static struct sc_arena mend_shared_arena;
static struct sc_replay_result mend_shared_result;

/* Imports it, and loads the one trace of it that has work of a GPU. */
static void begin(size_t i)
{
	struct sc_import_opts opts = {.rank = -1, .other_rank = -1};
	struct sc_import_stats stats;
	struct sc_err err = {.code = SC_OK};
	char path[MAX_PATH], made[MAX_PATH];
	struct dirent *entry;
	DIR *dir;

	scratch_begin();
	sc_arena_init(&mend_shared_arena, 4096);
	opts.dir = scratch_dir;
	snprintf(path, sizeof(path), "%s/%s", folder(), FILES[i]);
	ck_assert_msg(sc_import(path, &opts, &stats, &err) == 0, "%s", err.text);
	dir = opendir(scratch_dir);
	made[0] = '\0';
	while ((entry = readdir(dir)) != NULL)
		if (strstr(entry->d_name, SC_TRACE_SUFFIX) && made[0] == '\0') {
			snprintf(made, sizeof(made), "%s/%.200s", scratch_dir, entry->d_name);
			ck_assert_int_eq(sc_trace_load(made, NULL, &trace, NULL), 0);
		}
	rewinddir(dir);
	while ((entry = readdir(dir)) != NULL)
		if (strstr(entry->d_name, SC_TRACE_SUFFIX)) {
			snprintf(made, sizeof(made), "%s/%.200s", scratch_dir, entry->d_name);
			unlink(made);
		}
	closedir(dir);
}

static void end(void)
{
	sc_trace_release(&trace);
	sc_arena_release(&mend_shared_arena);
	scratch_end();
}

/* The device's clock is off by `shift_ns`; record `broken` of the device has a duration of a
 * thousand times, or the time 0. */
static void write_as(int64_t shift_ns, size_t broken, bool zero)
{
	struct sc_trace_writer *w;
	size_t n = 0;

	ck_assert_int_eq(sc_trace_writer_create(scratch_path, &trace.identity, &w, NULL), 0);
	for (size_t i = 1; i < trace.strings.n; i++)
		ck_assert_uint_eq(
			sc_trace_writer_string(w, trace.strings.at[i], strlen(trace.strings.at[i])),
			i);
	for (size_t i = 1; i < trace.lanes.n; i++)
		sc_trace_writer_lane(w, &trace.lanes.at[i]);
	for (size_t i = 1; i < trace.configs.n; i++)
		sc_trace_writer_config(w, &trace.configs.at[i]);
	for (size_t i = 1; i < trace.comms.n; i++)
		sc_trace_writer_comm(w, &trace.comms.at[i]);
	for (size_t i = 0; i < trace.events.n; i++) {
		struct sc_trace_event e = trace.events.at[i];

		if (sc_event_on_device(&e)) {
			e.start_ns += shift_ns;
			if (n == broken && zero)
				e.start_ns = 0;
			else if (n == broken)
				e.dur_ns *= 1000;
			n++;
		}
		sc_trace_writer_add(w, &e);
	}
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, NULL), 0);
}

static size_t n_records(void)
{
	size_t n = 0;

	for (size_t i = 0; i < trace.events.n; i++)
		n += sc_event_on_device(&trace.events.at[i]);
	return n;
}

static const char *const SELECTORS[] = {"kernel", "copy", "collective", "host"};

/* In percent; NAN: none is there, or it is refused. `is_sure`: it has one answer. */
static double mend_shared_change(const char *selector, double factor, bool *is_sure)
{
	struct sc_replay_change one = {.action = SC_REPLAY_SCALE, .factor = factor};
	struct sc_replay_opts opts;
	double pct;

	sc_replay_opts_init(&opts);
	ck_assert_int_eq(sc_selector_parse(selector, &mend_shared_arena, &one.selector, NULL), 0);
	opts.changes = &one;
	opts.n_changes = 1;
	opts.no_what_if = true;
	*is_sure = false;
	if (sc_replay(scratch_dir, &opts, &mend_shared_result, NULL))
		return NAN;
	*is_sure = isnan(mend_shared_result.changed_free_ms);
	pct = 100 * (mend_shared_result.changed_ms / mend_shared_result.reference_ms - 1);
	sc_replay_result_release(&mend_shared_result);
	return pct;
}

static const int64_t MEND_SHARED_SHIFTS[] = {200000, -50000, -50000000, 50000000};

/* A mend_shared_change comes out as without the shift, or has no single answer. Files take turns
 * with two of the shifts. */
static void check_shifts(int file)
{
	double pct[N_OF(SELECTORS)];
	bool is_sure, was_sure[N_OF(SELECTORS)];

	for (size_t s = 0; s < N_OF(SELECTORS); s++)
		pct[s] = mend_shared_change(SELECTORS[s], 0.5, &was_sure[s]);
	for (size_t k = 0; k < (many_cases() ? 2 : 1); k++) {
		const int64_t shift_ns =
			MEND_SHARED_SHIFTS[((size_t)file + k) % N_OF(MEND_SHARED_SHIFTS)];

		write_as(shift_ns, SIZE_MAX, false);
		for (size_t s = 0; s < N_OF(SELECTORS); s++) {
			const double now = mend_shared_change(SELECTORS[s], 0.5, &is_sure);

			ck_assert_msg(!is_sure || !was_sure[s] || fabs(now - pct[s]) <= 1,
				      "%s %s %lld ns: %.2f %%, was %.2f", FILES[file], SELECTORS[s],
				      (long long)shift_ns, now, pct[s]);
		}
	}
}

static double mend_shared_mean_ms(void)
{
	struct sc_replay_opts opts;
	struct sc_err err = {.code = SC_OK};

	sc_replay_opts_init(&opts);
	opts.no_what_if = true;
	ck_assert_msg(sc_replay(scratch_dir, &opts, &mend_shared_result, &err) == 0, "%s",
		      err.text);
	return mend_shared_result.measured_ms;
}

/* Any single record may be broken: the mean stays, or the record is named. */
static void check_broken(int file)
{
	const size_t n = n_records();
	struct sc_rng rng;
	double was_ms;

	was_ms = mend_shared_mean_ms();
	sc_replay_result_release(&mend_shared_result);
	sc_rng_init(&rng, 4711);
	for (int k = 0; k < (many_cases() ? 4 : 2); k++) {
		const size_t broken = (size_t)sc_rng_below(&rng, n);
		bool is_named = false;
		double ms;

		write_as(0, broken, k % 2);
		ms = mend_shared_mean_ms();
		for (size_t i = 0; i < mend_shared_result.warnings.n; i++)
			is_named = is_named ||
				   strstr(mend_shared_result.warnings.text[i], "mended: n=1 of");
		ck_assert_msg(is_named || fabs(ms / was_ms - 1) <= 0.02,
			      "%s record %zu %s: %.3f ms, was %.3f", FILES[file], broken,
			      k % 2 ? "at time 0" : "times 1000", ms, was_ms);
		sc_replay_result_release(&mend_shared_result);
	}
}

/* Nothing gets slower as something takes no time; and what that saves is what it has of the path,
 * unless something else stands still then, which the path says. */
static void check_saved(int file)
{
	for (size_t s = 0; s < N_OF(SELECTORS); s++) {
		bool is_sure;
		const double pct = mend_shared_change(SELECTORS[s], 0, &is_sure);

		ck_assert_msg(isnan(pct) || pct <= 0.1, "%s %s=0: %.2f %%", FILES[file],
			      SELECTORS[s], pct);
	}
}

/* All laws of a file after one import; one law in turn, where few cases are asked for. */
LOOP_TEST(laws_hold_of_each_recording, N_OF(FILES))
{
	static void (*const LAWS[])(int file) = {check_saved, check_broken, check_shifts};

	begin((size_t)_i);
	for (int law = 0; law < N_OF(LAWS); law++) {
		if (!many_cases() && law != _i % N_OF(LAWS))
			continue;
		write_as(0, SIZE_MAX, false);
		LAWS[law](_i);
	}
	end();
}

/* ---- a recorded pair ---- */

/* The mean of the trace of a file with changes; the time of families, and without its device. */
struct side {
	double ms, host_ms, family_ms[SC_N_KERNEL_FAMILIES];
};

static double changed_ms(const struct sc_replay_change *changes, size_t n)
{
	struct sc_replay_opts opts;
	struct sc_err err = {.code = SC_OK};
	double ms;

	sc_replay_opts_init(&opts);
	opts.changes = changes;
	opts.n_changes = n;
	opts.no_what_if = true;
	ck_assert_msg(sc_replay(scratch_dir, &opts, &mend_shared_result, &err) == 0, "%s",
		      err.text);
	ms = n ? mend_shared_result.changed_ms : mend_shared_result.measured_ms;
	if (n)
		sc_replay_result_release(&mend_shared_result);
	return ms;
}

static void scale(struct sc_replay_change *mend_shared_change, const char *selector, double factor)
{
	*mend_shared_change =
		(struct sc_replay_change){.action = SC_REPLAY_SCALE, .factor = factor};
	ck_assert_int_eq(sc_selector_parse(selector, &mend_shared_arena,
					   &mend_shared_change->selector, NULL),
			 0);
}

static struct side side_of(size_t file)
{
	struct sc_replay_change none[2];
	struct side side;

	begin(file);
	write_as(0, SIZE_MAX, false);
	side.ms = changed_ms(NULL, 0);
	memcpy(side.family_ms, mend_shared_result.family_ms, sizeof(side.family_ms));
	sc_replay_result_release(&mend_shared_result);
	scale(&none[0], "kernel", 0);
	scale(&none[1], "copy", 0);
	side.host_ms = changed_ms(none, 2);
	end();
	return side;
}

/* The same model on another GPU: with its kernels, family by family, and then with its host, which
 * is what a step takes without the device. */
LOOP_TEST(a_step_on_another_gpu, 2)
{
	const size_t own = N_OF(FILES) - 2 + (size_t)_i, other = N_OF(FILES) - 1 - (size_t)_i;
	const struct side from = side_of(own), to = side_of(other);
	struct sc_replay_change changes[SC_N_KERNEL_FAMILIES + 1];
	char selector[64];
	size_t n = 0;

	begin(own);
	write_as(0, SIZE_MAX, false);
	for (int f = 0; f < SC_N_KERNEL_FAMILIES; f++)
		if (from.family_ms[f] > 0 && to.family_ms[f] > 0) {
			snprintf(selector, sizeof(selector), "kernel:%s",
				 sc_kernel_family_name((enum sc_kernel_family)f));
			scale(&changes[n++], selector, to.family_ms[f] / from.family_ms[f]);
		}
	ck_assert_double_eq_tol(changed_ms(changes, n) / to.ms, 1, 0.03);
	scale(&changes[n++], "host", to.host_ms / from.host_ms);
	ck_assert_double_eq_tol(changed_ms(changes, n) / to.ms, 1, 0.05);
	end();
}
