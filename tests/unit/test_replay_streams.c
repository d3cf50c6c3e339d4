/* Replay of GPU streams: as recorded, from other iterations, with changes; where the time goes. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "predict/replay.h"
#include "stream_fixture.h"

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

START_TEST(test_as_recorded)
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
END_TEST

START_TEST(test_where_time_goes)
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
	/* Rank 0 waits 200 us; 30 of them beside its elementwise kernel, but for its 0.5 us gap of a launch
	 * and the first microsecond, which the collective needs to begin. */
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
END_TEST

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

START_TEST(test_changes)
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
END_TEST

/* A ring of 16 sends 2 x 15/16 of the message, one of 2 all of it. */
START_TEST(test_more_gpus)
{
	struct sc_replay_opts opts;

	begin(&PAIR);
	sc_replay_opts_init(&opts);
	opts.gpus = 16;
	run_opts(&opts);
	ck_assert_int_eq(result.gpus, 16);
	ck_assert_double_eq_tol((result.changed_ms - result.reference_ms) * 1000, 50 * 0.875, 0.1);
	sc_replay_result_release(&result);
	end();
}
END_TEST

/* Of one rank the waiting in a collective stays what it is: only what the shortest took is scaled. */
START_TEST(test_one_rank)
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
END_TEST

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

START_TEST(test_refused)
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
END_TEST

int main(void)
{
	Suite *suite = suite_create("replay_streams");
	TCase *tc = tcase_create("replay_streams");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, test_as_recorded);
	tcase_add_test(tc, test_where_time_goes);
	tcase_add_loop_test(tc, test_changes, 0, (int)(sizeof(CHANGES) / sizeof(CHANGES[0])));
	tcase_add_test(tc, test_more_gpus);
	tcase_add_test(tc, test_one_rank);
	tcase_add_test(tc, test_refused);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
