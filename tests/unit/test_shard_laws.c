/* Laws of sharding, over requests and plans at random. */
#include "random_dlrm.h"
#include "study/shard/shard_study.h"

enum { N_CASES = 2000 };

static struct random_dlrm dlrm;
static struct sc_objective objective;
static struct sc_arena_mark begun;

static void set_up(void)
{
	requests_begin();
	begun = sc_arena_mark(&arena);
}

static void tear_down(void)
{
	sc_shard_problem_release(&objective.problem);
	requests_end();
}

FIXTURE(set_up, tear_down)

/* Takes all of a case back, so that thousands fit the memory. */
static void begin_case(void)
{
	sc_shard_problem_release(&objective.problem);
	memset(&objective, 0, sizeof(objective));
	sc_arena_rewind(&arena, begun);
}

/* ---- what a plan says is what its file holds ---- */

/* A baseline may know other budgets, or have none: it is not rated then. */
static void check_plan(const struct sc_ranked_plan *plan, uint64_t seed)
{
	struct sc_shard_plan back = {.world = 0};
	struct sc_shard_solution rated;
	struct sc_strbuf text = {0};
	struct sc_err err = {0};

	if (plan->error) {
		ck_assert_msg(strncmp(plan->name, "search", 6) != 0, "%llu, search: %s",
			      (unsigned long long)seed, plan->error);
		return;
	}
	ck_assert_msg(sc_shard_plan_check(&plan->solution.plan, &err) == 0, "%llu, %s: %s",
		      (unsigned long long)seed, plan->name, err.text);
	sc_shard_plan_print(&plan->solution.plan, &text);
	ck_assert_msg(sc_shard_plan_parse(sc_strbuf_get(&text), text.n, "plan.json",
					  &objective.tables, &arena, &back, &err) == 0,
		      "%llu, %s: %s", (unsigned long long)seed, plan->name, err.text);
	if (plan->has_cost) {
		ck_assert_msg(
			sc_shard_rate(&objective.problem, &back, true, &arena, &rated, &err) == 0,
			"%llu, %s: %s", (unsigned long long)seed, plan->name, err.text);
		ck_assert_msg(
			fabs(rated.cost - plan->solution.cost) <= 1e-9 * rated.cost &&
				fabs(rated.memory.hbm_bytes - plan->solution.memory.hbm_bytes) <= 1,
			"%llu, %s: cost %.12g, of its file %.12g", (unsigned long long)seed,
			plan->name, plan->solution.cost, rated.cost);
		sc_shard_plan_release(&rated.plan);
	}
	sc_shard_plan_release(&back);
	sc_strbuf_release(&text);
}

/* The answer of a search that is soon ended, and the plan of a planner. */
static void check_case(uint64_t seed, enum sc_objective_kind kind)
{
	static const char *const STARTS[] = {
		"search, exchanges first", "lpt", "torchrec", "hugectr", "lookups", "random"};
	const struct sc_start *start = sc_start_find(STARTS[seed % N_OF(STARTS)]);
	struct sc_search_watch watch = {.most_asked = 100};
	struct sc_solve_opts solve = sc_solve_defaults;
	struct sc_made_plan made = {0};
	struct sc_start_ask ask;
	struct sc_study study;
	struct sc_err err = {0};

	begin_case();
	random_dlrm(seed, &dlrm);
	ck_assert_msg(sc_objective_init(&objective, kind, false, random_request(&dlrm, ""), &arena,
					&err) == 0,
		      "%s", err.text);
	sc_study_init(&study, &objective, &arena);
	solve.watch = &watch;
	ask = (struct sc_start_ask){.request = objective.request,
				    .problem = &objective.problem,
				    .solve = &solve,
				    .arena = &arena};
	for (int k = 0; k < 2; k++, start = sc_starts) { /* "search" */
		if (start->make(start, &ask, &made, NULL) == 0)
			sc_study_add_plan(&study, start->name, &made.plan);
	}
	for (size_t k = 0; k < study.plans.n; k++)
		check_plan(&study.plans.at[k], seed);
	ck_assert_uint_gt(study.plans.n, 0);
	sc_study_release(&study);
}

LOOP_TEST(plans_are_what_their_files_hold, SC_OBJECTIVE_HUGECTR + 1)
{
	for (int i = 0; i < n_cases(N_CASES); i++)
		check_case((uint64_t)nth_case(i, N_CASES), (enum sc_objective_kind)_i);
}

/* Nor is a plan of whoever that its reader would refuse. */
TEST(a_plan_with_rows_on_no_rank_is_not_rated)
{
	struct sc_shard_plan plan;
	struct sc_study study;
	struct sc_err err = {0};
	struct sc_rng rng;

	random_dlrm(1, &dlrm);
	ck_assert_int_eq(sc_objective_init(&objective, SC_OBJECTIVE_ITERATION, false,
					   random_request(&dlrm, ""), &arena, &err),
			 0);
	sc_rng_init(&rng, 1);
	random_plan(&objective.problem, &rng, &plan);
	plan.shards.at[0].rows--;
	sc_study_init(&study, &objective, &arena);
	sc_study_add_plan(&study, "cut", &plan);
	ck_assert_ptr_nonnull(study.plans.at[0].error);
	ck_assert_int_ne(sc_study_rank(&study, &err), 0);
	sc_study_release(&study);
}
