/* What is odd about a plan is said once, with its count and first table. */
#include "runner.h"
#include "shard_study_fixture.h"
#include "study/shard/shard_lint.h"

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

static const char *find(const sc_lints *lints, const char *code)
{
	for (size_t i = 0; i < lints->n; i++) {
		if (strcmp(lints->at[i].code, code) == 0)
			return lints->at[i].text;
	}
	return NULL;
}

static void lint(const char *how, int64_t rows_of_c, sc_lints *out)
{
	struct sc_table tables[FIXTURE_TABLES];
	struct sc_shard_plan plan;
	struct sc_shard_terms terms;

	fixture_plan(&plan, how);
	ck_assert_int_eq(sc_shard_terms_of(&problem, &plan, &terms, &err), 0);
	memcpy(tables, fixture_tables, sizeof(tables));
	tables[2].rows = rows_of_c;
	problem.tables = tables;
	sc_lint_plan(&problem, &plan, &terms, out);
	problem.tables = fixture_tables;
	SC_VEC_RELEASE(&terms.at);
	sc_shard_plan_release(&plan);
}

FIXTURE(set_up, tear_down)

TEST(test_clean)
{
	sc_lints lints = {0};

	lint("01d", 10, &lints);
	ck_assert_uint_eq(lints.n, 0);
}

TEST(test_odd)
{
	sc_lints lints = {0};

	problem.hbm_bytes = 30000;
	lint("00c", 10000000, &lints);
	ck_assert_ptr_nonnull(find(&lints, "narrow-columns"));
	ck_assert_ptr_nonnull(
		strstr(find(&lints, "narrow-columns"), "1 table has slices below 32"));
	ck_assert_ptr_nonnull(find(&lints, "over-budget"));
	ck_assert_ptr_null(find(&lints, "large-replicas"));
	ck_assert_ptr_null(find(&lints, "idle-ranks"));
	lints.n = 0;
	lint("00d", 10000000, &lints);
	ck_assert_ptr_nonnull(strstr(find(&lints, "large-replicas"), "first=c"));
	lints.n = 0;
	lint("000", 10000000, &lints);
	ck_assert_ptr_nonnull(strstr(find(&lints, "idle-ranks"), "1 rank has no shard; first=1"));
	SC_VEC_RELEASE(&lints);
}

TEST(test_constants)
{
	struct sc_torchrec_topology topology;
	struct sc_device device = {.id = "gpu", .hbm_gbps = 900};
	sc_lints lints = {0};

	sc_torchrec_topology_init(&topology);
	sc_lint_constants(&topology, &device, &lints);
	ck_assert_uint_eq(lints.n, 0);
	device.hbm_gbps = 3350;
	sc_lint_constants(&topology, &device, &lints);
	ck_assert_ptr_nonnull(find(&lints, "hbm-constant"));
	SC_VEC_RELEASE(&lints);
}
