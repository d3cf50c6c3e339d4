/* What other settings would do for configs at random that do not fit: memory comes first, and what
 * is said of each is what its own prediction says. */
#include <math.h>

#include "random_config.h"
#include "runner.h"
#include "study/explain/explain.h"

enum { N_RANDOM = 1200, N_AT_ONCE = 100 };

static struct sc_config config_of_experts;
static struct sc_request other;
static struct sc_prediction expected;
static struct sc_alternatives found;
static struct sc_predict_opts opts;

static void set_up(void)
{
	requests_begin();
	sc_predict_opts_init(&opts);
}

static bool predict(const struct sc_config *config, struct sc_request *req,
		    struct sc_prediction *out)
{
	struct sc_err err = {0};

	return sc_resolve_request(config, catalog, NULL, req, &err) == 0 &&
	       sc_predict(predictor, req, &opts, out, &err) == 0;
}

/* As the base of alternatives. */
static bool evaluate(const struct sc_config *config)
{
	struct sc_err err = {0};

	evaluator->opts = opts;
	return sc_evaluate(evaluator, &(struct sc_candidate){.base = config}, &err) == 0;
}

static bool is_set(const struct sc_alternative *a, const char *path)
{
	return strstr(a->settings, path) != NULL;
}

/* Of what fits, an offload more is no faster. */
static void check_offloads(const struct sc_config *config, const struct sc_alternative *best)
{
	static const char *const MORE[] = {"training.offload.optimizer",
					   "training.offload.activations"};

	for (size_t i = 0; i < 2; i++) {
		struct sc_config changed = *config;
		char text[64];

		if (is_set(best, MORE[i]))
			continue;
		snprintf(text, sizeof(text), "%s=cpu", MORE[i]);
		set_all(&changed, text);
		if (predict(&changed, &other, &expected) && sc_memory_has_margin(&expected.memory))
			ck_assert_msg(expected.iteration_ms >= best->iteration_ms * (1 - 1e-9),
				      "%s %s: %.12g, not above %.12g", best->settings, text,
				      expected.iteration_ms, best->iteration_ms);
	}
}

static void check(const struct sc_config *config, const struct sc_alternative *a)
{
	struct sc_config changed = *config;

	set_all(&changed, a->settings);
	ck_assert(predict(&changed, &other, &expected));
	ck_assert_double_eq_tol(a->memory_gib, expected.memory.total_gib, 1e-9);
	ck_assert_int_eq(a->fits, sc_memory_has_margin(&expected.memory));
	if (a->fits)
		ck_assert_double_eq_tol(a->iteration_ms, expected.iteration_ms,
					1e-9 * expected.iteration_ms);
	else
		ck_assert(isnan(a->iteration_ms));
	if (a == found.at && a->fits)
		check_offloads(&changed, a);
}

FIXTURE(set_up, requests_end)

/* Experts that nobody divided are what does not fit, and what most imports leave open. */
TEST(undivided_experts_are_advised)
{
	const char *best = NULL;

	sc_config_init(&config_of_experts);
	set_all(&config_of_experts,
		"model=models/qwen3-30b-a3b.yaml cluster.gpu=h100-sxm-80gb gpus=8 "
		"training.global_batch=64");
	ck_assert(evaluate(&config_of_experts));
	ck_assert_double_gt(sc_memory_fullness(&evaluator->prediction.memory), 1);
	sc_find_alternatives(evaluator, &config_of_experts, NULL, &found);
	best = found.at[0].settings;
	/* Their predictions have the room of this one. */
	ck_assert_uint_eq(sc_predictor_ran(evaluator->predictor).timeline->cap, 0);
	ck_assert_msg(found.at[0].fits && strstr(best, "parallel.ep=8"), "%s", best);
}

LOOP_TEST(memory_first, N_RANDOM / N_AT_ONCE)
{
	struct sc_arena_mark mark = sc_arena_mark(&arena);
	int n_misfits = 0, n_fit = 0;

	for (int i = 0; i < n_cases(N_AT_ONCE); i++) {
		struct sc_config config;

		sc_arena_rewind(&arena, mark);
		load_random((uint64_t)(_i * N_AT_ONCE + i), &config);
		if (!evaluate(&config) || sc_memory_fullness(&evaluator->prediction.memory) <= 1)
			continue;
		n_misfits++;
		sc_find_alternatives(evaluator, &config, NULL, &found);
		for (size_t k = 0; k < found.n; k++) {
			const struct sc_alternative *a = &found.at[k];

			check(&config, a);
			n_fit += a->fits;
			if (k == 0)
				continue;
			ck_assert_int_ge(a[-1].fits, a->fits);
			if (a[-1].fits == a->fits)
				ck_assert(a->fits ? a[-1].iteration_ms <= a->iteration_ms
						  : a[-1].fullness <= a->fullness);
		}
	}
	if (many_cases()) { /* of a few configs all may fit, or none have an alternative that does
			     */
		ck_assert_int_gt(n_misfits, 0);
		ck_assert_int_gt(n_fit, 0);
	}
}

/* Of what fits, the time of what does not is told, too. */
TEST(times_of_what_does_not_fit)
{
	struct sc_config config;
	int n_misfits = 0;

	sc_config_init(&config);
	set_all(&config, "cluster.gpu=a100-sxm-80gb gpus=8 parallel.tp=8 model=models/gpt-22b.yaml "
			 "training.global_batch=4 training.micro_batch=1 training.recompute=full "
			 "training.software=megatron-lm");
	ck_assert(evaluate(&config));
	ck_assert_double_le(sc_memory_fullness(&evaluator->prediction.memory), 1);
	sc_find_alternatives(evaluator, &config, NULL, &found);
	for (size_t k = 0; k < found.n; k++) {
		n_misfits += !found.at[k].fits;
		ck_assert_double_gt(found.at[k].iteration_ms, found.at[k].floor_ms);
	}
	ck_assert_int_gt(n_misfits, 0);
}
