/* Paired draws: certain where errors are shared, even where plans are alike, the same by seed. */
#include "runner.h"
#include "shard_study_fixture.h"
#include "study/shard/shard_confidence.h"

static struct sc_shard_problem problem;
static struct sc_err err;

static void set_up(void)
{
	fixture_problem(&problem);
	memset(&err, 0, sizeof(err));
}

static void tear_down(void)
{
	fixture_release(&problem);
}

static struct sc_confidence_opts opts;

/* Judges two plans. */
static void judge(const char *first, const char *second, double step_ms, double exposed_frac,
		  struct sc_confidence *out)
{
	const char *const how[] = {first, second};
	struct sc_shard_terms terms[2];
	struct sc_shard_plan plans[2];
	struct sc_confidence_plan judged[2];

	for (int i = 0; i < 2; i++) {
		fixture_plan(&plans[i], how[i]);
		ck_assert_int_eq(sc_shard_terms_of(&problem, &plans[i], &terms[i], &err), 0);
		judged[i] = (struct sc_confidence_plan){&terms[i], step_ms, exposed_frac};
	}
	ck_assert_int_eq(sc_shard_confidence(&problem, judged, 2, &opts, out, &err), 0);
	for (int i = 0; i < 2; i++) {
		SC_VEC_RELEASE(&terms[i].at);
		sc_shard_plan_release(&plans[i]);
	}
}

static void set_errors(double kernel, double shard, double drift)
{
	opts = (struct sc_confidence_opts){.samples = 4000, .seed = 1};
	opts.kernel_frac = kernel;
	opts.shard_frac = shard;
	opts.drift_frac = drift;
}

FIXTURE(set_up, tear_down)

/* An error that all share changes no order: 4 ms against 2 + 1 with the kernels 50 % off. */
TEST(test_shared)
{
	struct sc_confidence out[2];

	set_errors(0.5, 0, 0);
	judge("011", "000", 0, 0, out);
	ck_assert_double_eq_tol(out[0].p_best, 1, 1e-12);
	ck_assert_double_eq_tol(out[0].regret_pct, 0, 1e-12);
	ck_assert_double_eq_tol(out[1].regret_pct, 75, 1e-9); /* 7 / 4 */
	ck_assert(!out[1].tied);
	ck_assert_double_eq_tol(out[0].mean_ms, 4, 0.15);
	ck_assert_double_lt(out[0].low_ms, 4);
	ck_assert_double_gt(out[0].high_ms, 4);
}

/* Mirrored plans: the same costs, whatever is drawn. */
TEST(test_mirrored)
{
	struct sc_confidence out[2];

	set_errors(0.3, 0.3, 0.3);
	judge("011", "100", 0, 0, out);
	ck_assert_double_eq_tol(out[0].p_best, 0.5, 1e-12);
	ck_assert(out[0].tied && out[1].tied);
	ck_assert_double_eq_tol(out[1].regret_pct, 0, 1e-12);
}

/* 4 ms whole against 2.5 + 2 sliced: near enough that errors of one kind of shard decide. */
TEST(test_near)
{
	struct sc_confidence out[2], again[2];

	set_errors(0, 0.2, 0);
	judge("011", "c0d", 0, 0, out);
	ck_assert_double_eq_tol(out[0].p_best + out[1].p_best, 1, 1e-9);
	ck_assert_double_gt(out[0].p_best, 0.5);
	ck_assert_double_lt(out[0].p_best, 0.95);
	ck_assert_double_gt(out[0].regret_pct, 0);
	judge("011", "c0d", 0, 0, again);
	ck_assert_int_eq(memcmp(out, again, sizeof(out)), 0);
	opts.seed = 2;
	judge("011", "c0d", 0, 0, again);
	ck_assert_int_ne(memcmp(out, again, sizeof(out)), 0);
}

/* A step that sees nothing of the embeddings is the same under both. */
TEST(test_hidden)
{
	struct sc_confidence out[2];

	set_errors(0.3, 0.3, 0.3);
	judge("011", "000", 100, 0, out);
	ck_assert_double_eq_tol(out[0].p_best, 0.5, 1e-12);
	ck_assert_double_eq_tol(out[1].mean_ms, 100, 1e-9);
	ck_assert(out[1].tied);
}

TEST(test_limits)
{
	struct sc_confidence out[1];

	set_errors(0, 0, 0);
	opts.samples = 0;
	ck_assert_int_ne(sc_shard_confidence(&problem, NULL, 0, &opts, out, &err), 0);
	ck_assert_int_eq(err.code, SC_ELIMIT);
}
