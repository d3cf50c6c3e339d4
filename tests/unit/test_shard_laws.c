/* Laws of sharding, over requests and plans at random. */
#include "core/graph/graph.h"
#include "predict/dlrm/dlrm.h"
#include "predict/engine/simulate.h"
#include "predict/transformer/build_transformer.h"
#include "random_dlrm.h"
#include "study/shard/shard_iteration.h"
#include "study/shard/shard_step.h"
#include "study/shard/shard_study.h"

enum { N_CASES = 1000, N_MEMORY_CASES = 200, MEMORY_TABLES = 4 };

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

/* The answer of a search that is soon ended, and the plan of a planner: how many of them there
 * were. */
static size_t check_case(uint64_t seed, enum sc_objective_kind kind)
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
	size_t n;

	begin_case();
	random_dlrm(seed, &dlrm);
	ck_assert_msg(sc_objective_init(&objective, kind, false, random_request(&dlrm, ""), NULL,
					&arena, &err) == 0,
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
	n = study.plans.n;
	sc_study_release(&study);
	return n;
}

LOOP_TEST(plans_are_what_their_files_hold, SC_OBJECTIVE_HUGECTR + 1)
{
	size_t n_plans = 0;

	for (int i = 0; i < n_cases(N_CASES); i++)
		n_plans += check_case((uint64_t)nth_case(i, N_CASES), (enum sc_objective_kind)_i);
	ck_assert_uint_ge(n_plans, 18 * (size_t)n_cases(N_CASES) / 10);
}

/* Nor is a plan of whoever that its reader would refuse, whichever shard lacks its first row:
 * a cost is known by sizes, and where a shard lies is asked of the plan alone. */
LOOP_TEST(a_plan_with_rows_on_no_rank_is_not_rated, SC_OBJECTIVE_HUGECTR + 1)
{
	struct sc_shard_plan plan = {.world = 0};
	struct sc_study study;
	struct sc_err err = {0};
	struct sc_rng rng;
	size_t n = 1;

	random_dlrm(1, &dlrm);
	ck_assert_int_eq(sc_objective_init(&objective, (enum sc_objective_kind)_i, false,
					   random_request(&dlrm, ""), NULL, &arena, &err),
			 0);
	for (size_t i = 0; i < n; i++) {
		sc_rng_init(&rng, 1);
		random_plan(&objective.problem, &rng, &plan);
		n = plan.shards.n;
		plan.shards.at[i].row_offset++;
		sc_study_init(&study, &objective, &arena);
		sc_study_add_plan(&study, "cut", &plan);
		ck_assert_ptr_nonnull(study.plans.at[0].error);
		ck_assert_int_ne(sc_study_rank(&study, &err), 0);
		sc_study_release(&study);
	}
}

/* ---- a step under a given plan ---- */

/* The case's plan; host and kernels' launches count in one case of two. */
static struct sc_request *placed_case(uint64_t seed, struct sc_shard_plan *plan)
{
	struct sc_request *req;
	struct sc_err err = {0};
	struct sc_rng rng;

	begin_case();
	random_dlrm(seed, &dlrm);
	req = random_request(&dlrm, seed % 2 ? "" : "cluster.ssd_gib=1000");
	if (seed % 4 < 2) {
		req->software.host_step_us = req->software.host_op_us = 0;
		req->software.comm_host_us = req->software.dlrm.host_sample_us = 0;
	}
	ck_assert_int_eq(sc_objective_init(&objective, SC_OBJECTIVE_ITERATION, false, req, NULL,
					   &arena, &err),
			 0);
	sc_rng_init(&rng, seed);
	random_plan(&objective.problem, &rng, plan);
	return req;
}

static double step_ms(const struct sc_request *req, const struct sc_shard_plan *plan)
{
	static struct sc_prediction out;
	struct sc_err err = {0};

	ck_assert_msg(sc_iteration_rate(predictor, req, plan, &out, &err) == 0, "%s", err.text);
	return out.iteration_ms;
}

/* Of many steps in a row, without the first ones and the last, which has nothing beside its end. */
static double mean_step_ms(const struct sc_request *req, const struct sc_shard_plan *plan)
{
	enum { FIRST = 7, LAST = 23, N_STEPS = LAST + 2 };
	struct sc_predict_opts opts;
	struct sc_build_scratch scratch;
	struct sc_simulator *sim = sc_simulator_create();
	struct sc_timeline timeline = {0};
	struct sc_dlrm_built built = {.print = 0};
	struct sc_graph graph;
	struct sc_dlrm of;
	struct sc_err err = {0};
	double first = 0, last = 0;

	sc_predict_opts_init(&opts);
	opts.plan = plan;
	sc_graph_init(&graph);
	sc_build_scratch_init(&scratch, &arena);
	ck_assert_int_eq(sc_dlrm_init(&of, &(struct sc_setup){req, &opts, &scratch, NULL}, &err),
			 0);
	sc_dlrm_build(&of, N_STEPS, &graph, &built);
	ck_assert_int_eq(sc_simulate(sim, &graph, NULL, &timeline, NULL), 0);
	for (size_t c = 0; c < of.n_classes; c++) {
		first = fmax(first, timeline.end_us[built.step_end.at[FIRST * of.n_classes + c]]);
		last = fmax(last, timeline.end_us[built.step_end.at[LAST * of.n_classes + c]]);
	}
	sc_timeline_release(&timeline);
	sc_graph_release(&graph);
	sc_dlrm_built_release(&built);
	sc_simulator_destroy(sim);
	sc_build_scratch_release(&scratch);
	return (last - first) / (LAST - FIRST) / SC_US_PER_MS;
}

/* Steps that share links beside each other may alternate for good: few do. */
TEST(a_step_is_like_those_after_it)
{
	int n = n_cases(N_CASES), n_off = 0;

	for (int i = 0; i < n; i++) {
		uint64_t seed = (uint64_t)nth_case(i, N_CASES);
		struct sc_shard_plan plan;
		const struct sc_request *req = placed_case(seed, &plan);
		double ms = step_ms(req, &plan), mean = mean_step_ms(req, &plan);

		ck_assert_msg(fabs(ms / mean - 1) < 0.11, "%llu: %g ms, on average %g",
			      (unsigned long long)seed, ms, mean);
		n_off += fabs(ms / mean - 1) > 0.005;
		sc_shard_plan_release(&plan);
	}
	ck_assert_int_le(n_off, 1 + n / 200);
}

/* But for exchanges that come later, and so are less beside the reduction that a step ends with. */
TEST(more_lookups_are_not_faster)
{
	int n = n_cases(N_CASES), n_off = 0;

	for (int i = 0; i < n; i++) {
		uint64_t seed = (uint64_t)nth_case(i, N_CASES);
		struct sc_shard_plan plan;
		struct sc_request *req = placed_case(seed, &plan);
		struct sc_table *tables = req->config.model.tables.at;
		double ms = step_ms(req, &plan), more;

		for (size_t t = 0; t < dlrm.n; t++)
			tables[t].pooling *= 2;
		more = step_ms(req, &plan);
		ck_assert_msg(more > ms * 0.96, "%llu: %g ms, with twice the lookups %g",
			      (unsigned long long)seed, ms, more);
		n_off += more < ms * (1 - 1e-4);
		sc_shard_plan_release(&plan);
	}
	ck_assert_int_le(n_off, 1 + n / 400);
}

/* ---- memory ---- */

/* The step of the best plan that a short search finds; in `part` of what holds all tables with room
 * to spare. */
static double best_step_ms(uint64_t seed, double part)
{
	static struct sc_prediction prediction;
	struct sc_step_search q = {.solve = sc_solve_defaults, .work = 2e4, .predictor = predictor};
	sc_step_candidates list = {0};
	struct sc_request *req;
	struct sc_err err = {0};

	q.solve.without = "shakes"; /* a search of a millisecond */
	begin_case();
	random_dlrm(seed, &dlrm);
	dlrm.n = dlrm.n > MEMORY_TABLES ? MEMORY_TABLES : dlrm.n;
	req = random_request(&dlrm, "");
	ck_assert_int_eq(sc_objective_init(&objective, SC_OBJECTIVE_ITERATION, false, req, NULL,
					   &arena, &err),
			 0);
	objective.problem.hbm_bytes = part * objective.problem.hold_bytes;
	req->config.sharding.hbm_gib = objective.problem.hbm_bytes / SC_BYTES_PER_GIB;
	q.request = sc_ranking_request(objective.request, &arena);
	q.problem = &objective.problem;
	q.prediction = &prediction;
	ck_assert_msg(sc_step_search_run(&q, &arena, &list, &err) == 0, "%llu: %s",
		      (unsigned long long)seed, err.text);
	sc_step_candidates_release(&list);
	sc_strbuf_release(&q.left_out);
	return q.step_ms;
}

/* A plan within a budget is one within twice the budget, where GPUs hold all tables. */
TEST(more_memory_is_never_a_worse_plan)
{
	int n = n_cases(N_MEMORY_CASES);

	for (int i = 0; i < n; i++) {
		uint64_t seed = (uint64_t)nth_case(i, N_MEMORY_CASES);
		struct sc_rng rng;
		double part, ms, more;

		sc_rng_init(&rng, seed);
		part = random_power(&rng, 1, 6);
		ms = best_step_ms(seed, part);
		more = best_step_ms(seed, 2 * part);
		ck_assert_msg(more <= ms * (1 + 1e-9), "%llu: %g ms, %g in twice the memory",
			      (unsigned long long)seed, ms, more);
	}
}
