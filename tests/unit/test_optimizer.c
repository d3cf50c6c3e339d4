/* training.optimizer: bytes of its states and of its step as the papers say, and Muon's matrix products. */
#include <check.h>
#include <math.h>

#include "base/units.h"
#include "example_fixture.h"
#include "runner.h"

static void set(struct sc_config *config, const char *path, const char *value)
{
	struct sc_err err = {0};

	ck_assert_msg(sc_config_set(config, &(struct sc_setting){path, value, "--set"}, &arena,
				    &err) == 0,
		      "%s", err.text);
}

static struct sc_prediction *predict(const char *optimizer)
{
	struct sc_prediction *out = sc_arena_calloc(&arena, 1, sizeof(*out));
	struct sc_request *req = sc_arena_calloc(&arena, 1, sizeof(*req));
	struct sc_config config;
	struct sc_err err = {0};
	int at = 0;

	while (strcmp(example_name(at), "llama3-70b-nemo-h100.yaml") != 0)
		at++;
	load_example(at, &config);
	set(&config, "parallel.sharding", "none");
	set(&config, "training.optimizer", optimizer);
	ck_assert_msg(sc_config_resolve(&config, catalog, NULL, req, &err) == 0, "%s", err.text);
	ck_assert_msg(sc_predict(predictor, req, &opts, out, &err) == 0, "%s", err.text);
	return out;
}

/* Bytes a parameter of states beside the fp32 weight; of a step: fp32 gradient, weight and states, bf16 copy. */
static const struct {
	const char *name;
	double state_bytes, step_bytes;
} OPTIMIZERS[] = {
	{"adam", 8, 4 + 8 + 16 + 2},      {"sgd", 4, 4 + 8 + 8 + 2},
	{"lion", 4, 4 + 8 + 8 + 2},       {"adam8bit", 2 + 8 / 2048.0, 4 + 8 + 4 + 16 / 2048.0 + 2},
	{"lamb", 8, 4 + 8 + 16 + 2 + 16}, {"adafactor", 0, 4 + 8 + 2 + 8},
};

START_TEST(states_and_steps)
{
	const struct sc_prediction *adam = predict("adam"), *p = predict(OPTIMIZERS[_i].name);
	double params =
		adam->memory.optimizer_gib / (8 + 4); /* two moments and the master weight */
	double ms = p->reading.breakdown_ms[SC_OWN_OPTIMIZER] -
		    adam->reading.breakdown_ms[SC_OWN_OPTIMIZER];
	double bytes =
		(OPTIMIZERS[_i].step_bytes - OPTIMIZERS[0].step_bytes) * params * SC_BYTES_PER_GIB;
	double peak_ms = bytes / 3.35e9; /* of an H100's memory */

	ck_assert_double_eq_tol(p->memory.optimizer_gib, params * (OPTIMIZERS[_i].state_bytes + 4),
				1e-6);
	ck_assert_double_ge(fabs(ms), fabs(peak_ms) * 0.98);
	ck_assert_double_le(fabs(ms), fabs(peak_ms) * 1.5 + 0.01);
}
END_TEST

/* Llama 3 70B's layer: width 8192, 8 of 64 heads for keys, feed-forward 28672; split over tp. Five steps, each
 * 4 m^2 n + 2 m^3 FLOP for a matrix m x n, m <= n. */
static double flop_of(double m, double n)
{
	double low = fmin(m, n), high = fmax(m, n);

	return 5 * (4 * low * low * high + 2 * low * low * low);
}

START_TEST(muon_orthogonalises)
{
	const struct sc_prediction *sgd = predict("sgd"), *muon = predict("muon");
	const double tp = 4, pp = 4, peak_flop_ms = 989e9;
	double layer = flop_of((8192 + 2 * 1024) / tp, 8192) + flop_of(8192, 8192 / tp) +
		       3 * flop_of(28672 / tp, 8192);
	double least_ms = 80 / pp * layer / peak_flop_ms;
	double ms = muon->reading.breakdown_ms[SC_OWN_OPTIMIZER] -
		    sgd->reading.breakdown_ms[SC_OWN_OPTIMIZER];

	ck_assert_double_eq(muon->memory.optimizer_gib, sgd->memory.optimizer_gib);
	ck_assert_double_ge(
		ms, 0.8 * least_ms); /* the embedding's share of the stage is not one of them */
	ck_assert_double_le(ms, 2.5 * least_ms);
}
END_TEST

static Suite *optimizer_suite(void)
{
	Suite *suite = suite_create("optimizer");
	TCase *tc = tcase_create("optimizer");

	find_examples();
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_loop_test(tc, states_and_steps, 0,
			    (int)(sizeof(OPTIMIZERS) / sizeof(OPTIMIZERS[0])));
	tcase_add_test(tc, muon_orthogonalises);
	suite_add_tcase(suite, tc);
	return suite;
}

TEST_MAIN(optimizer_suite)
