/* Ranges of hosts in replays: what they hold, what a change of them brings, tables; and what a step
 * loses most by. */
#include "base/rng.h"
#include "runner.h"
#include "stream_fixture.h"
#include "trace/replay/replay.h"

/* A step: a loader of 600 us with an operator of 500 us in it, then 100 us of a forward pass before
 * a kernel, one of 20 us more, and 30 us of nothing named before the end. The device takes 50 us at
 * most, so that the host decides. */
enum { N_STEPS = 5, STEP_NS = 760 * 1000, KERNEL_NS = 5000 };

static struct sc_replay_result result;
static struct sc_arena arena;

static void put_host(struct stream_writer *s, enum sc_event_class cls, const char *name,
		     int64_t begin, int64_t us)
{
	put_event(s, cls, s->thread, name, begin, us * 1000, 0);
}

static void put_loading_step(struct stream_writer *s, int step, int64_t t)
{
	char name[32];

	snprintf(name, sizeof(name), "ProfilerStep#%d", step);
	put_host(s, SC_EV_RANGE, name, t, 751);
	/* As profilers write it: what begins together in any order, and a range that outlasts the
	 * one around it. */
	put_host(s, SC_EV_OP, "aten::stack", t, 500);
	put_host(s, SC_EV_RANGE, "enumerate(DataLoader)#_Iter.__next__", t, 600);
	put_host(s, SC_EV_OP, "aten::pin", t + 550 * 1000, 60);
	put_host(s, SC_EV_RANGE, "forward", t + 600 * 1000, 121);
	put_host(s, SC_EV_OP, "aten::mm", t + 610 * 1000, 100);
	put_launch(s, s->compute, "gemm_a", t + 700 * 1000, t + 706 * 1000, KERNEL_NS);
	put_launch(s, s->compute, "gemm_b", t + 720 * 1000, t + 726 * 1000, KERNEL_NS);
	put_event(s, SC_EV_API, s->thread, "cudaDeviceSynchronize", t + 740 * 1000, 10000, 0);
}

static void set_up(void)
{
	struct stream_writer s;

	scratch_begin();
	sc_arena_init(&arena, 4096);
	s = open_rank(scratch_dir, 0, 1);
	for (int step = 0; step < N_STEPS; step++)
		put_loading_step(&s, step, 1000000 + step * (int64_t)STEP_NS);
	ck_assert_int_eq(sc_trace_writer_finish(s.w, NULL, NULL), 0);
}

static void tear_down(void)
{
	sc_arena_release(&arena);
	scratch_end();
}

static void run_scaled(const char *selector, double factor)
{
	struct sc_replay_change change = {.action = SC_REPLAY_SCALE, .factor = factor};
	struct sc_replay_opts opts;
	struct sc_err err = {.code = SC_OK};

	sc_replay_opts_init(&opts);
	if (selector) {
		ck_assert_int_eq(sc_selector_parse(selector, &arena, &change.selector, &err), 0);
		opts.changes = &change;
		opts.n_changes = 1;
	}
	ck_assert_msg(sc_replay(scratch_dir, &opts, &result, &err) == 0, "%s", err.text);
}

FIXTURE(set_up, tear_down)

/* What is left of the work in it, and no more: of ranges within, and of those around. */
static const struct {
	const char *selector;
	double factor, saved_us;
} SCALED[] = {
	{"range:DataLoader", 0, 600},
	{"range:dataloader", 0.5, 300},
	{"range:aten::stack", 0, 500},
	{"range:aten::pin", 0, 50},
	{"range:ProfilerStep", 0, 740},
	{"range:forward,range:aten::mm", 0, 100},
	{"host,range:DataLoader,step:1", 0, 600.0 / N_STEPS},
	{"range:DataLoader", 2, -600},
	{"kernel,range:forward", 0, 0}, /* which launched them; the host decides */
};

LOOP_TEST(test_scaled, N_OF(SCALED))
{
	run_scaled(SCALED[_i].selector, SCALED[_i].factor);
	ck_assert_double_eq_tol(result.reference_ms - result.changed_ms, SCALED[_i].saved_us / 1000,
				0.002);
	sc_replay_result_release(&result);
}

TEST(test_no_such_range)
{
	struct sc_replay_change change = {.action = SC_REPLAY_SCALE, .factor = 0};
	struct sc_replay_opts opts;
	struct sc_err err = {.code = SC_OK};

	sc_replay_opts_init(&opts);
	ck_assert_int_eq(sc_selector_parse("range:backward", &arena, &change.selector, &err), 0);
	opts.changes = &change;
	opts.n_changes = 1;
	ck_assert_int_eq(sc_replay(scratch_dir, &opts, &result, &err), -SC_EVALUE);
	ck_assert_str_eq(err.text, "range:backward: no recorded operation matches");
}

/* Random ranges within ranges: a change of those of one name saves the time that any of them
 * covers, once. */
enum { MAX_RANGES = 12, WINDOW_US = 600, N_NAMES = 3 };

static void put_random_ranges(struct stream_writer *s, struct sc_rng *rng, int64_t t,
			      bool covered[N_NAMES][WINDOW_US])
{
	int64_t from[MAX_RANGES + 1] = {0}, to[MAX_RANGES + 1] = {WINDOW_US};
	const uint64_t n = 1 + sc_rng_below(rng, MAX_RANGES);

	for (uint64_t i = 1; i <= n; i++) {
		/* Within one that is there, or beside it where that one is the whole. */
		const uint64_t around = sc_rng_below(rng, i), name = sc_rng_below(rng, N_NAMES);
		const int64_t length = to[around] - from[around];
		const int64_t begin = from[around] + (int64_t)sc_rng_below(rng, (uint64_t)length);
		const int64_t longest = to[around] - begin;
		bool crosses = false;
		char text[8];

		from[i] = begin;
		to[i] = begin + 1 + (int64_t)sc_rng_below(rng, (uint64_t)longest);
		for (uint64_t k = 1; k < i; k++)
			crosses = crosses ||
				  (from[k] < from[i] && to[k] > from[i] && to[k] < to[i]) ||
				  (from[i] < from[k] && to[i] > from[k] && to[i] < to[k]);
		if (crosses) {
			to[i] = from[i] = from[around];
			to[i] += length;
			continue;
		}
		snprintf(text, sizeof(text), "range%c", (char)('A' + name));
		put_host(s, sc_rng_below(rng, 2) ? SC_EV_OP : SC_EV_RANGE, text, t + from[i] * 1000,
			 to[i] - from[i]);
		for (int64_t us = from[i]; us < to[i]; us++)
			covered[name][us] = true;
	}
}

TEST(test_random_ranges)
{
	for (int i = 0; i < n_cases(40); i++) {
		bool covered[N_NAMES][WINDOW_US] = {{false}};
		struct stream_writer s = open_rank(scratch_dir, 0, 1);
		const int64_t t = 1000000;
		struct sc_rng rng;

		sc_rng_init(&rng, 77 + (uint64_t)nth_case(i, 40));
		put_host(&s, SC_EV_RANGE, "ProfilerStep#1", t, WINDOW_US + 100);
		put_random_ranges(&s, &rng, t, covered);
		put_launch(&s, s.compute, "gemm", t + WINDOW_US * 1000, t + (WINDOW_US + 6) * 1000,
			   KERNEL_NS);
		ck_assert_int_eq(sc_trace_writer_finish(s.w, NULL, NULL), 0);
		for (int name = 0; name < N_NAMES; name++) {
			char text[16];
			double us = 0;

			for (int64_t k = 0; k < WINDOW_US; k++)
				us += covered[name][k];
			snprintf(text, sizeof(text), "range:range%c", (char)('A' + name));
			if (!(us > 0))
				continue;
			run_scaled(text, 0);
			ck_assert_double_eq_tol(result.reference_ms - result.changed_ms, us / 1000,
						0.0005);
			sc_replay_result_release(&result);
		}
	}
}

static const struct sc_replay_where *find(const struct sc_replay_wheres *table, const char *name)
{
	for (size_t i = 0; i < table->n; i++)
		if (strcmp(table->at[i].name, name) == 0)
			return &table->at[i];
	ck_abort_msg("no row of %s", name);
}

/* Each piece of work is in one row of a table; steps are no range of theirs. */
TEST(test_tables)
{
	run_scaled(NULL, 1);
	ck_assert_uint_eq(result.by_range.n, 2);
	ck_assert_str_eq(result.by_range.at[0].name, "enumerate(DataLoader)#_Iter.__next__");
	ck_assert_double_eq_tol(result.by_range.at[0].host_ms, 0.6, 1e-6);
	ck_assert_double_eq_tol(find(&result.by_range, "forward")->host_ms, 0.121, 1e-6);
	ck_assert_double_eq_tol(find(&result.by_range, "forward")->n_launched, 2, 1e-9);
	ck_assert_double_eq_tol(find(&result.by_op, "aten::mm")->host_ms, 0.1, 1e-6);
	ck_assert_double_eq_tol(find(&result.by_op, "aten::mm")->device_ms, 0.005, 1e-6);
	ck_assert_double_eq_tol(find(&result.by_op, "aten::pin")->host_ms, 0.05, 1e-6);
	ck_assert_str_eq(result.reading.contributors[0].what,
			 "host work in enumerate(DataLoader)#_Iter.__next__ of rank 0");
	ck_assert_double_eq_tol(result.reading.contributors[0].ms, 0.6, 1e-3);
	sc_replay_result_release(&result);
}

/* Idle times add up to what the device does not compute; a loader is told from other work. */
TEST(test_idle)
{
	double sum = 0;

	run_scaled(NULL, 1);
	for (int k = 0; k < SC_N_IDLES; k++)
		sum += result.idle_ms[k];
	ck_assert_double_eq_tol(result.idle_ms[SC_IDLE_DATA], 0.6, 0.001);
	ck_assert_double_eq_tol(result.idle_ms[SC_IDLE_COMM], 0, 1e-9);
	ck_assert_double_eq_tol(sum, 0.751 - 0.010, 0.001);
	sc_replay_result_release(&result);
}

TEST(test_loss_of_host)
{
	run_scaled(NULL, 1);
	ck_assert_int_eq(result.loss_by, SC_LOSS_HOST);
	ck_assert_double_eq_tol(result.without_loss_ms, result.no_gaps_ms, 1e-9);
	sc_replay_result_release(&result);
}

/* ---- what other steps lose by ---- */

/* Kernels by name and how long, us, one after the other, behind 20 us of host. */
static const struct loss_case {
	const char *kernel[3];
	int64_t us[3];
	enum sc_replay_loss loss;
	double loss_ms, without_ms;
} LOSSES[] = {
	{{"gemm_a", "gemm_b", "gemm_c"}, {900, 900, 900}, SC_LOSS_NONE, 2.7, NAN},
	{{"gemm_a", "layer_norm_kernel", "gemm_c"}, {500, 900, 200}, SC_LOSS_MEMORY, 0.9, 1.186},
	{{"gemm_a", "ncclKernel_AllReduce_RING_LL_Sum_float(x)", "gemm_c"},
	 {500, 900, 200},
	 SC_LOSS_COMM,
	 0.9,
	 0.736},
	{{"gemm_a", "Memcpy HtoD (Pinned -> Device)", "gemm_c"},
	 {500, 900, 200},
	 SC_LOSS_COPIES,
	 0.9,
	 0.736},
};

LOOP_TEST(test_loss, N_OF(LOSSES))
{
	const struct loss_case *c = &LOSSES[_i];
	struct stream_writer s = open_rank(scratch_dir, 0, 1);

	for (int step = 0; step < N_STEPS; step++) {
		const int64_t begin = 1000000 + step * (int64_t)4000000;
		int64_t t = begin + 26000;
		char name[32];

		for (int k = 0; k < 3; k++) {
			put_launch(&s, s.compute, c->kernel[k], begin + 20000 + 4000 * k, t,
				   c->us[k] * 1000);
			t += c->us[k] * 1000;
		}
		put_event(&s, SC_EV_API, s.thread, "cudaDeviceSynchronize", begin + 40000,
			  t + 5000 - begin - 40000, 0);
		snprintf(name, sizeof(name), "ProfilerStep#%d", step);
		put_host(&s, SC_EV_RANGE, name, begin, (t + 10000 - begin) / 1000);
	}
	ck_assert_int_eq(sc_trace_writer_finish(s.w, NULL, NULL), 0);
	run_scaled(NULL, 1);
	ck_assert_int_eq(result.loss_by, c->loss);
	ck_assert_double_eq_tol(result.loss_ms, c->loss_ms, 0.001);
	if (isnan(c->without_ms))
		ck_assert(isnan(result.without_loss_ms));
	else
		ck_assert_double_eq_tol(result.without_loss_ms, c->without_ms, 0.005);
	sc_replay_result_release(&result);
}

TEST(test_loss_of_straggler)
{
	const struct stream_script script = {
		.n_ranks = 4, .n_steps = 4, .gemm_ns = {300000, 300000, 900000, 300000}};

	write_streams(scratch_dir, &script);
	run_scaled(NULL, 1);
	ck_assert_int_eq(result.loss_by, SC_LOSS_STRAGGLER);
	ck_assert_uint_eq(result.slowest, 2);
	ck_assert_double_eq_tol(result.loss_ms, 0.6, 0.05);
	sc_replay_result_release(&result);
}
