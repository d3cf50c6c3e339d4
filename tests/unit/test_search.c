/* What a search gives is what predicting every candidate gives: the best ten, the Pareto front, for
 * any number of threads; and with a limit of time no more than it can prove. */
#include "base/rng.h"
#include "example_fixture.h"
#include "random_config.h"
#include "report/forms.h"
#include "runner.h"
#include "study/search/split_search.h"

static const char *const EXAMPLES[] = {"gpt-22b-selene.yaml", "llama3-8b-torchtitan-h100.yaml",
				       "deepseek-v2-4-layers-b200.yaml", "bert-large-a100-256.yaml",
				       "qwen3-30b-a3b-h100.yaml"};
enum { N_EXAMPLES = sizeof(EXAMPLES) / sizeof(EXAMPLES[0]) };

static struct sc_config config;

static void load(const char *name)
{
	int n = find_examples();

	for (int i = 0; i < n; i++) {
		if (strcmp(example_name(i), name) == 0) {
			load_example(i, &config);
			config.parallel.dp = SC_NOT_GIVEN;
			return;
		}
	}
	ck_abort_msg("no example %s", name);
}

/* Small enough for the brute force. */
static struct sc_search small_search(void)
{
	static const char *const chosen[] = {
		"parallel.tp=1,2,4,8", "parallel.pp=1,2,4", "training.micro_batch=1,2,4",
		"parallel.sharding=none,zero1,fsdp", "training.recompute"};

	return (struct sc_search){
		.base = &config, .chosen = chosen, .n_chosen = 5, .n_jobs = 2, .all = false};
}

static void run(const struct sc_search *search, struct sc_search_result *out)
{
	struct sc_err err = {0};

	ck_assert_msg(sc_search_run(search, &arena, out, &err) == 0, "%s", err.text);
	ck_assert_uint_gt(out->n_shown, 0);
}

/* Every candidate, predicted. */
static struct sc_outcome *predict_all(const struct sc_search_result *r)
{
	struct sc_outcome *all = sc_arena_calloc(&arena, r->cases.n_rows, sizeof(*all));
	const struct sc_sweep sweep = {.base = &config,
				       .cases = &r->cases,
				       .n_jobs = 2,
				       .opts = &opts,
				       .catalog = catalog};
	struct sc_err err = {0};

	ck_assert_msg(sc_sweep_run(&sweep, &arena, all, &err) == 0, "%s", err.text);
	return all;
}

static bool competes(const struct sc_outcome *o, double margin)
{
	return o->code == SC_OK && o->memory_total_gib <= o->capacity_gib * (1 - margin);
}

static int by_ms(const void *a, const void *b)
{
	const struct sc_outcome *x = *(const struct sc_outcome *const *)a,
				*y = *(const struct sc_outcome *const *)b;

	return x->iteration_ms < y->iteration_ms ? -1 : x->iteration_ms > y->iteration_ms;
}

/* The times of those that compete, each once, ascending. */
static size_t rank_all(const struct sc_search_result *r, double margin,
		       const struct sc_outcome *all, const struct sc_outcome **out)
{
	size_t n = 0, n_distinct = 0;

	for (size_t i = 0; i < r->cases.n_rows; i++)
		if (competes(&all[i], margin))
			out[n++] = &all[i];
	if (n)
		qsort(out, n, sizeof(out[0]), by_ms);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || out[i]->iteration_ms > out[n_distinct - 1]->iteration_ms)
			out[n_distinct++] = out[i];
	return n_distinct;
}

/* Refused for the same reason, too large by the same memory, or simulated to the same time. */
static void check_case(const struct sc_search_case *c, const struct sc_outcome *o, double margin)
{
	if (c->state == SC_SEARCH_REFUSED) {
		ck_assert_str_eq(c->error, o->error);
		return;
	}
	ck_assert_int_eq(o->code, SC_OK);
	/* What takes too long need not be known to fit. */
	if (c->state != SC_SEARCH_PRUNED || !c->is_least)
		ck_assert_int_eq(c->state == SC_SEARCH_TOO_LARGE, !competes(o, margin));
	if (c->is_least)
		ck_assert_double_le(c->memory_gib, o->memory_total_gib);
	else
		ck_assert_double_eq_tol(c->memory_gib, o->memory_total_gib,
					1e-9 * o->memory_total_gib);
	if (c->state == SC_SEARCH_SIMULATED)
		ck_assert_double_eq(c->outcome->iteration_ms, o->iteration_ms);
}

static void check_against_all(const struct sc_search *search)
{
	const struct sc_outcome **ranked, *all;
	struct sc_search_result r;
	size_t n, distinct = 0;
	double before = 0;

	run(search, &r);
	ck_assert(r.proven);
	all = predict_all(&r);
	for (size_t i = 0; i < r.cases.n_rows; i++) {
		const struct sc_search_case c = sc_search_case_of(&r, i);

		check_case(&c, &all[i], search->memory_margin);
	}
	ranked = sc_arena_calloc(&arena, r.cases.n_rows, sizeof(const struct sc_outcome *));
	n = rank_all(&r, search->memory_margin, all, ranked);
	ck_assert_uint_gt(n, 0);
	for (size_t i = 0; i < r.n_shown; i++) {
		distinct += i == 0 || r.shown[i].value[0] > before;
		before = r.shown[i].value[0];
		ck_assert_double_eq(before, ranked[distinct - 1]->iteration_ms);
	}
	ck_assert(r.n_shown == SC_SEARCH_MAX_SHOWN || distinct == n);
}

FIXTURE(set_up, tear_down)

/* Sharding chooses a stack where none is named; a search compares splits under one of them, and
 * says which. */
TEST(splits_of_a_nameless_stack_run_on_one)
{
	struct sc_search search;

	load("llama3-8b-torchtitan-h100.yaml");
	config.training.software = NULL;
	config.training.precision = SC_P_BF16;
	config.parallel.sharding = (enum sc_zero)SC_NOT_GIVEN;
	search = small_search();
	search.all = search.best_only = true;
	search.n_chosen = 1;
	for (int i = 0; i < 2; i++) {
		struct sc_search_result r;

		run(&search, &r);
		ck_assert_str_eq(r.search->base->training.software, i ? "default-fsdp" : "default");
		config.parallel.sharding = SC_FSDP;
	}
}

LOOP_TEST(best_is_that_of_the_brute_force, n_cases(N_EXAMPLES))
{
	struct sc_search search = small_search();

	load(EXAMPLES[_i]);
	search.memory_margin = 0.02;
	search.best_only = true; /* in the order of their times */
	check_against_all(&search);
}

/* Keys drawn at random, among them schedules whose order of passes, and so memory, depends on keys
 * of time. */
LOOP_TEST(best_of_random_spaces_is_that_of_the_brute_force, n_cases(6))
{
	static const char *const KEYS[] = {
		"parallel.tp=1,2,4,8",
		"parallel.pp=1,2,4",
		"parallel.virtual_stages=1,2",
		"parallel.schedule=1f1b,gpipe,interleaved,zb-h1,zb-1p,zb-v,hanayo",
		"training.micro_batch=1,2,4",
		"parallel.sharding=none,zero1,fsdp",
		"training.recompute",
		"training.attention=flash,unfused",
		"training.optimizer=adam,sgd",
		"parallel.cp=1,2",
		"parallel.ep=1,2,8",
		"parallel.etp=1,2",
		"parallel.shard_ranks=2,4"};
	const char *chosen[N_OF(KEYS) + 2] = {"parallel.tp_overlap",
					      "training.cuda_graphs=false,true"};
	struct sc_search search = {.base = &config,
				   .chosen = chosen,
				   .n_chosen = 2,
				   .n_jobs = 2,
				   .memory_margin = 0.1,
				   .best_only = true};
	struct sc_rng rng;

	sc_rng_init(&rng, (uint64_t)_i);
	load(EXAMPLES[_i % N_EXAMPLES]);
	for (size_t i = 0; i < N_OF(KEYS); i++)
		if (i < 2 || i == 3 || sc_rng_below(&rng, 2))
			chosen[search.n_chosen++] =
				i == 8 && _i % 2 ? "training.optimizer=sgd,muon" : KEYS[i];
	check_against_all(&search);
}

/* Candidates that differ in idle keys alone are judged by one of them: each is what it would be by
 * itself, whatever the base is. */
LOOP_TEST(candidates_alike_are_what_each_is, n_cases(10))
{
	static const char *const chosen[] = {"parallel.tp=1,2",
					     "parallel.pp=1,2",
					     "training.micro_batch=1,8",
					     "training.cuda_graphs=false,true,attn",
					     "parallel.tp_overlap",
					     "training.attention=flash,unfused,sdpa",
					     "training.optimizer=adam,sgd,muon"};
	struct sc_search search = {.base = &config,
				   .chosen = chosen,
				   .n_chosen = (size_t)(N_OF(chosen) - _i % 2),
				   .n_jobs = 1};
	struct sc_request *req = sc_arena_calloc(&arena, 1, sizeof(*req));
	struct sc_search_result r;
	uint64_t seed = 100 * (uint64_t)_i;
	struct sc_err err = {0};
	struct sc_outcome *all;

	do
		load_random(seed++, &config);
	while (sc_config_resolve(&config, catalog, NULL, req, &err));
	config.parallel.dp = SC_NOT_GIVEN;
	config.gpus = req->config.gpus;
	if (sc_search_run(&search, &arena, &r, &err)) {
		ck_assert_msg(strstr(err.text, "Does not fit"), "%s", err.text);
		return;
	}
	all = predict_all(&r);
	for (size_t i = 0; i < r.cases.n_rows; i++) {
		const struct sc_search_case c = sc_search_case_of(&r, i);

		check_case(&c, &all[i], search.memory_margin);
	}
}

/* One value that cannot be says nothing of its neighbours, not even where it changes times alone.
 */
TEST(a_value_that_cannot_be_refuses_itself_alone)
{
	static const char *const chosen[] = {"training.cuda_graphs=bogus,true",
					     "parallel.tp_overlap=maybe,false"};
	struct sc_search search = small_search();
	struct sc_search_result r;

	load("gpt-22b-selene.yaml");
	search.chosen = chosen;
	search.n_chosen = N_OF(chosen);
	search.best_only = true;
	check_against_all(&search);
	run(&search, &r);
	ck_assert_uint_eq(r.n_in[SC_SEARCH_REFUSED], 3);
	ck_assert_uint_eq(r.n_in[SC_SEARCH_SIMULATED], 1);
}

/* All that a search opens: some 7,500 candidates, and a mixture's. */
LOOP_TEST(best_of_a_whole_space_is_that_of_the_brute_force, many_cases() ? n_cases(2) : 0)
{
	static const char *const names[] = {"gpt-175b-selene.yaml", "qwen3-30b-a3b-h100.yaml"};
	const struct sc_search search = {
		.base = &config, .all = true, .n_jobs = 2, .best_only = true};

	load(names[_i]);
	check_against_all(&search);
}

/* Of each key every value but the best's is told once. */
TEST(neighbours_of_the_best_are_its_keys_other_values)
{
	static const char *const chosen[] = {"parallel.tp=1,2,4,8", "training.micro_batch=1,2"};
	struct sc_search search = small_search();
	struct sc_search_result r;

	load(EXAMPLES[0]);
	search.chosen = chosen;
	search.n_chosen = N_OF(chosen);
	run(&search, &r);
	ck_assert_uint_ge(r.n_others, 4);
	for (size_t i = 0; i < r.n_others; i++) {
		const size_t column = (size_t)sc_csv_column(&r.cases, r.others[i].path);

		ck_assert_str_ne(r.others[i].value, sc_csv_cell(&r.cases, r.shown[0].row, column));
		for (size_t k = 0; k < i; k++)
			ck_assert(strcmp(r.others[k].path, r.others[i].path) != 0 ||
				  strcmp(r.others[k].value, r.others[i].value) != 0);
	}
}

/* And the shares of draws in which each is the best sum to one. */
LOOP_TEST(threads_change_nothing, n_cases(N_EXAMPLES))
{
	struct sc_search search = small_search();
	struct sc_search_result one, four;
	double sum = 0;

	load(EXAMPLES[_i]);
	search.n_jobs = 1;
	run(&search, &one);
	search.n_jobs = 4;
	run(&search, &four);
	ck_assert_mem_eq(one.n_in, four.n_in, sizeof(one.n_in));
	ck_assert_uint_eq(one.n_shown, four.n_shown);
	for (size_t i = 0; i < one.n_shown; i++) {
		ck_assert_uint_eq(one.shown[i].row, four.shown[i].row);
		ck_assert_double_eq(one.shown[i].best_in, four.shown[i].best_in);
		ck_assert_double_eq(one.shown[i].regret_frac, four.shown[i].regret_frac);
		ck_assert_double_ge(one.shown[i].regret_frac, 0);
		sum += one.shown[i].best_in;
	}
	ck_assert_double_eq_tol(sum, 1, 1e-9);
}

/* No candidate that competes has less of both; and the front holds one of every candidate that none
 * beats. */
LOOP_TEST(front_is_that_of_the_brute_force, n_cases(2))
{
	static const char *const chosen[] = {"gpus=8,16,32", "parallel.tp=1,2,4,8",
					     "parallel.pp=1,2", "training.micro_batch=1,2",
					     "training.recompute"};
	struct sc_search search = small_search();
	struct sc_search_result r;
	const struct sc_outcome *all;
	size_t gpus;

	load(EXAMPLES[_i]);
	search.chosen = chosen;
	search.pareto = true;
	search.objective[1] = SC_SEARCH_THROUGHPUT;
	run(&search, &r);
	all = predict_all(&r);
	gpus = (size_t)sc_csv_column(&r.cases, "gpus");
	for (size_t row = 0; row < r.cases.n_rows; row++) {
		const struct sc_search_case c = sc_search_case_of(&r, row);
		double x = c.factor[0] * all[row].iteration_ms;
		double y = c.factor[1] * all[row].iteration_ms;
		bool covered = false;

		if (competes(&all[row], 0))
			ck_assert_double_eq(c.factor[1],
					    strtod(sc_csv_cell(&r.cases, row, gpus), NULL) /
						    (double)config.training.global_batch);

		for (size_t i = 0; i < r.n_shown && competes(&all[row], 0); i++) {
			const double *v = r.shown[i].value;

			covered |= v[0] <= x && v[1] <= y;
			ck_assert(r.shown[i].row == row || !(x <= v[0] && y < v[1]));
		}
		ck_assert(covered || !competes(&all[row], 0));
	}
}

/* However short the time: something that fits is simulated, though the first candidates do not fit,
 * and what was left is said. */
TEST(limit_of_time_leaves_the_best_so_far)
{
	static const char *const fixed[] = {"training.micro_batch=1", "training.recompute=none",
					    "parallel.sequence_parallel=true"};
	volatile sig_atomic_t stop = 1;
	struct sc_search search = {.base = &config,
				   .all = true,
				   .n_jobs = 2,
				   .fixed = fixed,
				   .n_fixed = N_OF(fixed),
				   .memory_margin = 0.05,
				   .best_only = true};
	struct sc_search_result r, whole;
	struct sc_search_case best;

	load("gpt-175b-selene.yaml");
	run(&search, &whole);
	ck_assert(whole.proven);
	search.best_only = false;
	search.time_limit_s = 1e-9;
	for (int i = 0; i < 2; i++) {
		search.stop = i ? NULL : &stop;
		run(&search, &r);
		best = sc_search_case_of(&r, r.shown[0].row);
		ck_assert(!r.proven && !r.by_regret);
		ck_assert_int_eq(best.state, SC_SEARCH_SIMULATED);
		ck_assert_double_le(best.memory_gib, 0.95 * best.capacity_gib);
		ck_assert_uint_gt(r.n_in[SC_SEARCH_TOO_LARGE], 0);
		ck_assert_uint_gt(r.n_in[SC_SEARCH_LEFT], 0);
		ck_assert_uint_eq(r.n_in[SC_SEARCH_PRUNED], 0);
		/* It has the least floor of those that were judged; none left takes less than is
		 * said. */
		ck_assert_double_gt(r.floor_value, 0);
		ck_assert_double_le(r.floor_value, whole.shown[0].value[0]);
		for (size_t row = 0; row < r.cases.n_rows; row++) {
			const struct sc_search_case c = sc_search_case_of(&r, row);
			const struct sc_search_case known = sc_search_case_of(&whole, row);

			if (c.state != SC_SEARCH_LEFT)
				continue;
			if (c.memory_gib > 0)
				ck_assert_double_ge(c.floor_ms, best.floor_ms);
			if (known.state == SC_SEARCH_SIMULATED)
				ck_assert_double_le(c.floor_ms, known.outcome->iteration_ms);
		}
	}
}

/* A key that changes no product leaves a bound on what was not judged; one that may, as the
 * precision does, leaves none, and the words say so. */
LOOP_TEST(bound_beside_other_keys, 2)
{
	static const char *const chosen[2][2] = {
		{"training.cuda_graphs=false,true", "training.offload.optimizer=none,cpu"},
		{"training.cuda_graphs=false,true", "training.precision=fp16,bf16"}};
	struct sc_search search = {.base = &config,
				   .all = true,
				   .chosen = chosen[_i],
				   .n_chosen = 2,
				   .n_jobs = 2,
				   .memory_margin = 0.05,
				   .best_only = true,
				   .time_limit_s = 1e-9};
	struct sc_strbuf text = {0};
	struct sc_search_result r;

	load("gpt-175b-selene.yaml");
	run(&search, &r);
	ck_assert(!r.proven);
	ck_assert_int_eq(r.floor_value > 0, _i == 0);
	sc_search_forms.text(&r, &text);
	ck_assert_ptr_nonnull(strstr(sc_strbuf_get(&text),
				     _i ? "no bound on what was left" : "% above what was left"));
	sc_strbuf_release(&text);
}

/* Where millions are listed that is over, too: here it stops at the first million. */
TEST(listing_ends_with_the_search)
{
	volatile sig_atomic_t stop = 1;
	const char *batches = "training.global_batch=1024";
	const struct sc_search search = {.base = &config,
					 .all = true,
					 .chosen = &batches,
					 .n_chosen = 1,
					 .n_jobs = 2,
					 .stop = &stop};
	struct sc_search_result r;
	struct sc_err err = {0};

	load("gpt-175b-selene.yaml");
	set_all(&config, "gpus=1024 training.global_batch=1536");
	for (int i = 2; i < 800; i++)
		batches = sc_arena_printf(&arena, "%s,%d", batches, 1024 * i);
	ck_assert_int_eq(sc_search_run(&search, &arena, &r, &err), -SC_ELIMIT);
	ck_assert_str_eq(err.text, "search: stopped at 3145728 candidates and more, before any was "
				   "judged; fix a key, as --fix parallel.sharding=zero1");
}

/* A mixture's experts are whole or cut by tp, whatever tp a candidate has; a model without experts
 * has no such key. */
TEST(experts_are_searched_whole_and_cut)
{
	struct sc_search search = small_search();
	struct sc_search_result r;
	size_t n[2] = {0};
	int column;

	load("qwen3-30b-a3b-h100.yaml");
	search.best_only = true;
	run(&search, &r);
	column = sc_csv_column(&r.cases, "parallel.etp");
	ck_assert_int_ge(column, 0);
	for (size_t row = 0; row < r.cases.n_rows; row++) {
		const char *tp =
			sc_csv_cell(&r.cases, row, (size_t)sc_csv_column(&r.cases, "parallel.tp"));
		const char *etp = sc_csv_cell(&r.cases, row, (size_t)column);
		const bool is_cut = strcmp(etp, "1") != 0;

		ck_assert(!is_cut || strcmp(etp, tp) == 0);
		n[is_cut]++;
	}
	ck_assert_uint_gt(n[0], 0);
	ck_assert_uint_gt(n[1], 0);
	load("gpt-22b-selene.yaml");
	run(&search, &r);
	ck_assert_int_lt(sc_csv_column(&r.cases, "parallel.etp"), 0);
}

/* What a search judges first is like all that it has: of the first tenth of the time, splits of all
 * kinds. Rows are judged in blocks, of which a busy machine gets to a few dozen; in the order of
 * the list a half would have twice its share, or none. */
TEST(a_sample_of_all)
{
	struct sc_search search = {.base = &config,
				   .all = true,
				   .memory_margin = 0.05,
				   .n_jobs = 2,
				   .time_limit_s = 0.3};
	struct sc_search_result r;
	size_t n_judged[2] = {0}, n[2] = {0};

	load("gpt-175b-selene.yaml");
	run(&search, &r);
	for (size_t row = 0; row < r.cases.n_rows; row++) {
		const struct sc_search_case c = sc_search_case_of(&r, row);
		int half = row >= r.cases.n_rows / 2;

		n[half]++;
		n_judged[half] += c.state != SC_SEARCH_LEFT || c.memory_gib > 0;
	}
	for (int half = 0; half < 2; half++)
		ck_assert_double_eq_tol(
			(double)n_judged[half] / (double)n[half],
			(double)(n_judged[0] + n_judged[1]) / (double)r.cases.n_rows, 0.12);
}

/* The first one has the least expected regret, here not the least time; without draws, the least
 * time. */
TEST(least_regret_leads)
{
	static const char *const fixed[] = {"parallel.cp=1", "training.recompute=none",
					    "parallel.sequence_parallel=true"};
	struct sc_search search = {.base = &config,
				   .all = true,
				   .fixed = fixed,
				   .n_fixed = N_OF(fixed),
				   .n_jobs = 2,
				   .memory_margin = 0.05};
	struct sc_search_result r;
	double least = HUGE_VAL;

	load("llama3-70b-nemo-h100.yaml");
	set_all(&config, "model.seq=1024 parallel.cp=1 training.recompute=none "
			 "parallel.sequence_parallel=true");
	run(&search, &r);
	ck_assert(r.by_regret && r.proven);
	for (size_t i = 0; i < r.n_shown; i++) {
		least = fmin(least, r.shown[i].value[0]);
		if (i > 0)
			ck_assert_double_ge(r.shown[i].regret_frac, r.shown[i - 1].regret_frac);
	}
	ck_assert_double_lt(least, r.shown[0].value[0]);
	search.best_only = true;
	run(&search, &r);
	ck_assert(!r.by_regret);
	ck_assert_double_eq(r.shown[0].value[0], least);
}

/* The draws may be done in time though candidates are left: nothing is proven then, in the words
 * either. */
TEST(what_is_left_is_not_proven_by_draws)
{
	const struct sc_search search = small_search();
	struct sc_search_result r;
	struct sc_strbuf text = {0};
	struct sc_json json;
	char *page;

	load(EXAMPLES[0]);
	run(&search, &r);
	ck_assert(r.by_regret && r.proven);
	for (int left = 0; left < 2; left++) {
		r.proven = left == 0;
		r.n_in[SC_SEARCH_LEFT] = (size_t)left;
		r.floor_value = r.shown[0].value[0] / 2;
		sc_strbuf_clear(&text);
		sc_search_forms.text(&r, &text);
		sc_search_forms.json(&r, &json);
		page = json_dumps(json.root, 0);
		ck_assert_int_eq(strstr(sc_strbuf_get(&text), "proven") != NULL, !left);
		ck_assert_int_eq(strstr(sc_strbuf_get(&text), "at most 100.0 % above") != NULL,
				 left);
		ck_assert_int_eq(strstr(page, "is the best, proven") != NULL, !left);
		free(page);
		sc_json_release(&json);
	}
	sc_strbuf_release(&text);
}

/* Who does not ask why may give no place for it. */
TEST(a_search_that_fails_needs_no_place_for_why)
{
	const int64_t sizes[] = {8};
	struct sc_search search = {.base = &config, .n_jobs = 1};
	struct sc_scaling scaling = {.search = &search, .sizes = sizes, .n = 1};

	load("dlrm-criteo-a100.yaml");
	ck_assert_int_eq(sc_scaling_run(&scaling, &arena, NULL), -SC_EUNSUPPORTED);
}
