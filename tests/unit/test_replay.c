/* Whole replays of jobs whose times under a change are known: they come from the same small
 * pipeline model as the trace, with the change in it. */
#include <unistd.h>

#include "job_fixture.h"
#include "runner.h"
#include "trace/replay/replay.h"

#define TOLERANCE_MS 1e-4
enum { N_STEPS = 5 };

static struct job_trace trace;
static struct job_times times;
static struct sc_replay_result result;
static struct sc_replay_opts opts;
static struct sc_replay_change change;
static struct sc_arena arena;
static struct sc_err err;
static char path[] = "/tmp/stepcast-replay-XXXXXX";

static const struct job_shape SHAPE = {
	.n_dp = 2,
	.n_stages = 3,
	.n_batches = 5,
	.forward_us = 1000,
	.backward_us = 2000,
	.send_us = 50,
	.gather_us = 300,
	.scatter_us = 400,
	.clip_us = 20,
	.optimizer_us = 500,
	.slow = {{1.5, 1, 1}, {1, 1, 1}},
};

static void write_steps(const struct job_shape *shape, double growth)
{
	job_trace_begin(&trace);
	for (int step = 0; step < N_STEPS; step++) {
		struct job_shape grown = *shape;

		grown.forward_us *= 1 + growth * step;
		job_simulate(&grown, &times);
		job_trace_add(&trace, &times, 10 + step);
	}
	job_trace_write(&trace, path);
}

static void setup(void)
{
	const int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
	sc_arena_init(&arena, 1024);
	sc_replay_opts_init(&opts);
	err = (struct sc_err){.code = SC_OK};
}

static void teardown(void)
{
	sc_replay_result_release(&result);
	sc_arena_release(&arena);
	unlink(path);
	memset(path + sizeof(path) - 7, 'X', 6);
}

static void replay(void)
{
	ck_assert_msg(sc_replay(path, &opts, &result, &err) == 0, "%s", err.text);
}

static double would_be_ms(const struct job_shape *shape)
{
	job_simulate(shape, &times);
	return job_total_us(&times) / 1000;
}

static void set_change(const char *selector, enum sc_replay_action action, double factor)
{
	ck_assert_int_eq(sc_selector_parse(selector, &arena, &change.selector, &err), 0);
	change.action = action;
	change.factor = factor;
	opts.changes = &change;
	opts.n_changes = 1;
}

FIXTURE(setup, teardown)

TEST(test_as_recorded)
{
	struct sc_replay_error error;

	write_steps(&SHAPE, 0.1);
	opts.jobs = 2;
	replay();
	ck_assert_uint_eq(result.iterations.n, N_STEPS);
	ck_assert_int_eq(result.n_ranks, 6);
	for (size_t i = 0; i < N_STEPS; i++) {
		const struct sc_replay_iteration *it = &result.iterations.at[i];

		ck_assert_int_eq(it->step, 10 + (int)i);
		ck_assert_double_eq_tol(it->simulated_ms, it->measured_ms, TOLERANCE_MS);
		ck_assert(isnan(it->changed_ms));
	}
	sc_replay_error_of(&result, SC_REPLAY_SIMULATED, &error);
	ck_assert_double_lt(error.max_pct, 0.001);
	ck_assert_int_eq(result.show_step, 12);
	ck_assert_double_eq_tol(result.reading.iteration_ms, result.iterations.at[2].measured_ms,
				TOLERANCE_MS);
}

TEST(test_parts_sum)
{
	double path_ms = 0;

	write_steps(&SHAPE, 0);
	replay();
	for (size_t r = 0; r < result.ranks.n; r++) {
		double ms = 0;

		for (int p = 0; p < SC_N_PARTS; p++) {
			ck_assert_double_ge(result.ranks.at[r].part_ms[p], -1e-9);
			ms += result.ranks.at[r].part_ms[p];
		}
		ck_assert_double_eq_tol(ms, result.simulated_ms, TOLERANCE_MS);
	}
	for (int o = 0; o < SC_N_OWNERS; o++)
		path_ms += result.reading.breakdown_ms[o];
	ck_assert_double_eq_tol(path_ms, result.reading.iteration_ms, TOLERANCE_MS);
	ck_assert_double_gt(result.ranks.at[0].part_ms[SC_PART_COMPUTE],
			    1.4 * result.ranks.at[1].part_ms[SC_PART_COMPUTE]);
	ck_assert_double_gt(result.ranks.at[1].part_ms[SC_PART_PEERS], 0.5);
}

/* Steps 0 to 4 take 1.0 to 1.4 forwards: without itself, the median of step 0 is between 1.2
 * and 1.3. */
TEST(test_from_others)
{
	struct job_shape middle = SHAPE;

	write_steps(&SHAPE, 0.1);
	replay();
	middle.forward_us *= 1.25;
	ck_assert_double_eq_tol(result.iterations.at[0].predicted_ms, would_be_ms(&middle),
				TOLERANCE_MS);
	middle.forward_us *= 1.15 / 1.25;
	ck_assert_double_eq_tol(result.iterations.at[4].predicted_ms, would_be_ms(&middle),
				TOLERANCE_MS);
}

TEST(test_scale_rank)
{
	struct job_shape faster = SHAPE;

	write_steps(&SHAPE, 0);
	set_change("kernel:compute,rank:0", SC_REPLAY_SCALE, 0.5);
	replay();
	faster.slow[0][0] = 0.75;
	ck_assert_double_eq_tol(result.changed_ms, would_be_ms(&faster), TOLERANCE_MS);
	ck_assert_double_eq_tol(result.reference_ms, result.measured_ms, TOLERANCE_MS);
}

TEST(test_scale_groups)
{
	struct job_shape slower = SHAPE;

	write_steps(&SHAPE, 0);
	set_change("collective:reduce-scatter,dp:1", SC_REPLAY_SCALE, 10);
	replay();
	slower.scatter_us *= 10;
	ck_assert_double_eq_tol(result.changed_ms, would_be_ms(&slower), TOLERANCE_MS);
}

/* What of a kind is replaced by the mean: five ranks of 1 and one of 1.5. */
TEST(test_mean)
{
	struct job_shape even = SHAPE;

	write_steps(&SHAPE, 0);
	set_change("all", SC_REPLAY_MEAN, 0);
	replay();
	even.slow[0][0] = 1;
	even.forward_us *= 6.5 / 6;
	even.backward_us *= 6.5 / 6;
	ck_assert_double_eq_tol(result.changed_ms, would_be_ms(&even), TOLERANCE_MS);
	ck_assert_double_eq_tol(result.typical_ms, would_be_ms(&even), TOLERANCE_MS);
}

TEST(test_stragglers)
{
	struct job_shape even = SHAPE;

	write_steps(&SHAPE, 0);
	opts.without_rank = 0;
	replay();
	even.slow[0][0] = 1;
	ck_assert_double_eq_tol(result.changed_ms, would_be_ms(&even), TOLERANCE_MS);
	ck_assert_double_eq_tol(result.ranks.at[0].without_ms, would_be_ms(&even), TOLERANCE_MS);
	ck_assert_double_eq_tol(result.ranks.at[0].slowness, 1.5, 1e-6);
	ck_assert_double_eq_tol(result.ranks.at[1].without_ms, result.reference_ms, TOLERANCE_MS);
}

/* Of stage 0 both workers are as recorded, one slow and one fast; all others are at the mean. */
TEST(test_factors)
{
	const double mean = 6.5 / 6;
	struct job_shape even = SHAPE, stage = SHAPE;
	double even_ms;
	size_t n = 0;

	write_steps(&SHAPE, 0);
	replay();
	even.forward_us = stage.forward_us *= mean;
	even.backward_us = stage.backward_us *= mean;
	even.slow[0][0] = 1;
	stage.slow[0][0] = 1.5 / mean;
	stage.slow[1][0] = 1 / mean;
	even_ms = would_be_ms(&even);
	for (size_t i = 0; i < result.factors.n; i++) {
		const struct sc_replay_factor *f = &result.factors.at[i];
		double expected = (double)NAN;

		if (strcmp(f->by, "stage") == 0 && strcmp(f->name, "0") == 0)
			expected = would_be_ms(&stage) / even_ms;
		if (strcmp(f->name, "grads-reduce-scatter") == 0)
			expected = 1;
		if (isnan(expected))
			continue;
		ck_assert_double_eq_tol(f->slowdown, expected, 1e-5);
		n++;
	}
	ck_assert_uint_eq(n, 2);
}

/* Four replicas for two: the recorded ones stand for them, in rings of 3/4 over 1/2 of the buffer.
 */
TEST(test_more_replicas)
{
	struct job_shape larger = SHAPE;

	write_steps(&SHAPE, 0);
	opts.gpus = 12;
	replay();
	larger.gather_us *= 1.5;
	larger.scatter_us *= 1.5;
	ck_assert_double_eq_tol(result.changed_ms, would_be_ms(&larger), TOLERANCE_MS);
	ck_assert_int_eq(result.gpus, 12);
}

/* A replica has a wait that the trace does not explain. With less of the others it must not become
 * typical: fewer GPUs are never slower. */
TEST(test_gpus_are_monotone)
{
	static const int64_t gpus[] = {3, 6, 9, 12, 24, 48};
	struct job_shape shape = SHAPE;
	double before_ms = 0;

	shape.n_dp = 4;
	shape.stall_us[0] = 3000;
	write_steps(&shape, 0);
	for (size_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++) {
		opts.gpus = gpus[i];
		replay();
		ck_assert_double_ge(result.changed_ms, before_ms - 1e-9);
		before_ms = result.changed_ms;
		sc_replay_result_release(&result);
	}
	opts.gpus = 12;
	replay();
}

/* One replica: nothing is moved among replicas. */
TEST(test_fewer_replicas)
{
	struct job_shape smaller = SHAPE;

	write_steps(&SHAPE, 0);
	opts.gpus = 3;
	replay();
	smaller.n_dp = 1;
	smaller.gather_us = smaller.scatter_us = 0;
	ck_assert_double_eq_tol(result.changed_ms, would_be_ms(&smaller), TOLERANCE_MS);
}

TEST(test_gaps)
{
	struct job_shape with_gaps = SHAPE;

	with_gaps.first_gap_us = 700;
	write_steps(&with_gaps, 0);
	replay();
	ck_assert_double_eq_tol(result.no_gaps_ms, would_be_ms(&SHAPE), TOLERANCE_MS);
	sc_replay_result_release(&result);
	set_change("host:launch", SC_REPLAY_SCALE, 2);
	replay();
	with_gaps.first_gap_us = 1400;
	ck_assert_double_eq_tol(result.changed_ms, would_be_ms(&with_gaps), TOLERANCE_MS);
}

static void expect_error(enum sc_errc code, const char *text)
{
	ck_assert_int_eq(sc_replay(path, &opts, &result, &err), -(int)code);
	ck_assert_str_eq(err.text, text);
	err = (struct sc_err){.code = SC_OK};
	sc_replay_opts_init(&opts);
}

TEST(test_refused)
{
	write_steps(&SHAPE, 0);
	set_change("kernel:attention", SC_REPLAY_SCALE, 2);
	expect_error(SC_EVALUE, "kernel:attention: no recorded operation matches");
	set_change("collective", SC_REPLAY_MODEL, 0);
	expect_error(SC_EUNSUPPORTED,
		     "collective=model: an operator timeline does not say what was "
		     "computed or how many bytes were sent");
	opts.without_rank = 99;
	expect_error(SC_EVALUE, "the trace has no rank 99 among others");
	opts.gpus = 7;
	expect_error(SC_EVALUE,
		     "gpus=7: expected a multiple of 3, the GPUs of one replica (3 stages "
		     "of 1)");
	opts.show_step = 3;
	expect_error(SC_EVALUE, "the trace has no step 3");
}
