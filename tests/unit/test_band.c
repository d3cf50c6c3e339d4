/* The error band: what it is made of by hand, wider where nothing was measured, and said so. */
#include "base/stats.h"
#include "models/op_model.h"
#include "request_fixture.h"
#include "runner.h"

#define TOLERANCE 1e-9

static struct sc_request request;

static void resolve(const char *gpu, const char *precision, const char *pp)
{
	request = *request_of("gpus=8 cluster.gpus_per_node=8 cluster.nics_per_node=8 "
			      "cluster.nic_gbit_s=200 model.family=gpt model.layers=16 "
			      "model.heads=16 model.hidden=2048 model.seq=1024 model.vocab=51200 "
			      "training.global_batch=64",
			      sc_arena_printf(&arena,
					      "cluster.gpu=%s training.precision=%s parallel.pp=%s",
					      gpu, precision, pp));
}

static void predict(enum sc_detail detail, struct sc_prediction *out)
{
	struct sc_predict_opts opts;

	sc_predict_opts_init(&opts);
	opts.detail = detail;
	*out = *predict_request(&request, &opts);
}

/* One sigma of the iteration, relative; the band is as far up as down, in the logarithm. */
static double sigma(const struct sc_prediction *p)
{
	double up = log(p->high_ms / p->iteration_ms), down = log(p->iteration_ms / p->low_ms);

	ck_assert_double_eq_tol(up, down, TOLERANCE);
	return up / SC_Z_CENTRAL_80;
}

static double predicted_sigma(void)
{
	static struct sc_prediction out;

	predict(SC_DETAIL_COARSE, &out);
	return sigma(&out);
}

static void no_spread(void)
{
	struct sc_device *d = &request.device;

	d->gemm.spread_frac = d->attention.spread_frac = d->rowwise.spread_frac = 0;
	d->band.trend_frac = 0;
	d->band.shared_frac = 1;
	request.fabric_profile.spread_frac = 0;
	request.device.host.spread_frac = request.software.residual_frac = 0;
}

static void set_up(void)
{
	sc_arena_init(&arena, 1 << 16);
	catalog = sc_catalog_create();
	predictor = sc_predictor_create();
	resolve("a100-sxm-80gb", "bf16", "1");
}

static void tear_down(void)
{
	sc_predictor_destroy(predictor);
	sc_catalog_destroy(catalog);
	sc_arena_release(&arena);
}

FIXTURE(set_up, tear_down)

TEST(no_spread_no_band)
{
	no_spread();
	ck_assert_double_eq_tol(predicted_sigma(), 0, TOLERANCE);
	request.software.residual_frac = 0.1;
	ck_assert_double_eq_tol(predicted_sigma(), 0.1, TOLERANCE);
}

/* Alike within a model: times add up before they are weighted, over stages too. */
LOOP_TEST(models_weigh_by_their_time, 2)
{
	static struct sc_prediction out;
	const double *b = out.reading.path_owner_ms;
	struct sc_device *d = &request.device;

	resolve("a100-sxm-80gb", "bf16", _i ? "4" : "1");
	no_spread();
	d->gemm.spread_frac = d->attention.spread_frac = d->rowwise.spread_frac = 0.1;
	d->rowwise.spread_frac = 0;
	predict(SC_DETAIL_COARSE, &out);
	ck_assert_double_gt(sigma(&out), 0.03);
	ck_assert_double_lt(sigma(&out), 0.1);
	no_spread();
	request.fabric_profile.spread_frac = 0.1;
	predict(SC_DETAIL_COARSE, &out);
	ck_assert_double_eq_tol(
		sigma(&out), 0.1 * (b[SC_OWN_COMM] + b[SC_OWN_PEER]) / out.iteration_ms, TOLERANCE);
	no_spread();
	request.device.host.spread_frac = 0.5;
	predict(SC_DETAIL_COARSE, &out);
	ck_assert_double_eq_tol(sigma(&out), 0.5 * b[SC_OWN_HOST] / out.iteration_ms, TOLERANCE);
}

TEST(models_are_independent)
{
	double gemm, residual = 0.07;

	no_spread();
	request.device.gemm.spread_frac = 0.1;
	gemm = predicted_sigma();
	ck_assert_double_gt(gemm, 0.02);
	request.software.residual_frac = residual;
	ck_assert_double_eq_tol(predicted_sigma(), hypot(gemm, residual), TOLERANCE);
}

TEST(what_shapes_do_not_share_averages_out)
{
	double whole;

	no_spread();
	request.device.gemm.spread_frac = 0.1;
	whole = predicted_sigma();
	request.device.band.shared_frac = 0.5;
	ck_assert_double_eq_tol(predicted_sigma(), whole / 2, TOLERANCE);
}

TEST(not_measured_is_wider_and_says_so)
{
	static struct sc_prediction measured, trend;

	predict(SC_DETAIL_COARSE, &measured);
	ck_assert_uint_eq(measured.warnings.n, 0);
	request.device.fitted = "simt";
	predict(SC_DETAIL_COARSE, &trend);
	ck_assert_double_gt(sigma(&trend), 1.15 * sigma(&measured));
	ck_assert_double_eq_tol(trend.iteration_ms, measured.iteration_ms, TOLERANCE);
	ck_assert_uint_eq(trend.warnings.n, 1);
	ck_assert_str_eq(
		trend.warnings.text[0],
		"gemm coefficients of a100-sxm-80gb: trend, not measured; the band is wider");
}

/* The block that counts is that of the precision: without tensor cores, "simt". */
LOOP_TEST(fp32_is_of_simt, 2)
{
	static struct sc_prediction out;
	int n_trend = 0;

	resolve("v100-pcie-32gb", _i ? "fp16" : "fp32", "1");
	predict(SC_DETAIL_COARSE, &out);
	for (size_t i = 0; i < out.warnings.n; i++)
		n_trend += strstr(out.warnings.text[i], "trend") != NULL;
	ck_assert_int_eq(n_trend, _i);
}

TEST(full_detail_has_the_same_band)
{
	static struct sc_prediction coarse, full;

	predict(SC_DETAIL_COARSE, &coarse);
	predict(SC_DETAIL_FULL, &full);
	ck_assert_double_eq_tol(sigma(&full), sigma(&coarse), 0.05 * sigma(&coarse));
}

/* ---- one op ---- */

static struct sc_op_time gemm_time(double m)
{
	struct sc_op op = {SC_OP_GEMM, SC_FP16, {.gemm = {1, m, 1024, 1024, false, false}}};
	struct sc_op_time time;

	sc_op_model_get(SC_OP_GEMM)->time(&request.device, &op, &time);
	return time;
}

TEST(short_kernels_extrapolate)
{
	struct sc_op_time small = gemm_time(128), large = gemm_time(65536);

	request.device.band.shortest_us = 2 * small.total_us;
	small = gemm_time(128);
	large = gemm_time(65536);
	ck_assert(small.measured && small.extrapolated);
	ck_assert(large.measured && !large.extrapolated);
	ck_assert_double_eq_tol(small.spread_frac,
				hypot(large.spread_frac, request.device.band.trend_frac),
				TOLERANCE);
	ck_assert_double_lt(large.level_frac, large.spread_frac);
}

TEST(long_kernels_extrapolate)
{
	struct sc_op_time small = gemm_time(8192), large = gemm_time(65536);

	ck_assert(!large.extrapolated);
	request.device.band.longest_us = large.total_us / 2;
	small = gemm_time(8192);
	large = gemm_time(65536);
	ck_assert(!small.extrapolated);
	ck_assert(large.measured && large.extrapolated);
	ck_assert_double_eq_tol(large.spread_frac,
				hypot(small.spread_frac, request.device.band.trend_frac),
				TOLERANCE);
	request.device.band.longest_us = 0;
	ck_assert(!gemm_time(1e9).extrapolated);
}

LOOP_TEST(blocks_are_whole_words, 8)
{
	static const struct {
		const char *fitted;
		bool gemm;
	} cases[] = {{NULL, false},    {"", false},    {"gemm", true},   {"simt gemm", true},
		     {"gemms", false}, {"gem", false}, {" gemm ", true}, {"simt  gemm", true}};

	request.device.fitted = cases[_i].fitted;
	ck_assert_int_eq(sc_device_is_fitted(&request.device, "gemm"), cases[_i].gemm);
	ck_assert_int_eq(gemm_time(65536).measured, cases[_i].gemm);
}
