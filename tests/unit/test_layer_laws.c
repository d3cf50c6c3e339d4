/* Laws of what a layer costs, over configs at random: a window is an area, and as many
 * micro-batches again cost no more than as much again. */
#include "random_config.h"
#include "runner.h"

enum { N_RANDOM = 1000, N_AT_ONCE = 100 };

static struct sc_request request;
static double memory_gib; /* of random_ms's last */

static void set_up(void)
{
	requests_begin();
}

static void tear_down(void)
{
	requests_end();
}

/* A config at random with `more` over it. 0: refused. */
static double random_ms(uint64_t seed, const char *more)
{
	static struct sc_prediction out;
	struct sc_predict_opts opts;
	struct sc_config config;
	struct sc_err err = {0};

	load_random(seed, &config);
	set_all(&config, more);
	sc_predict_opts_init(&opts);
	if (sc_config_resolve(&config, catalog, NULL, &request, &err) ||
	    sc_predict(predictor, &request, &opts, &out, &err))
		return 0;
	memory_gib = out.memory.total_gib;
	return out.iteration_ms;
}

FIXTURE(set_up, tear_down)

/* Kernels are monotone in their window (test_op_models). Beside a collective a shorter one may cost
 * a little: they share the path to memory by what each would move alone, and lanes in order are not
 * monotone (Graham 1969). */
LOOP_TEST(a_wider_window_is_no_faster, N_RANDOM / N_AT_ONCE)
{
	int n_faster = 0;

	for (int i = 0; i < n_cases(N_AT_ONCE); i++) {
		const uint64_t seed = (uint64_t)(_i * N_AT_ONCE + i);
		const char *const kernels =
			seed % 8 ? "training.attention=flash" : "training.attention=unfused";
		struct sc_rng rng;
		char text[128];
		double whole_ms = random_ms(seed, kernels), ms, least_ms = 0;
		int64_t seq = request.config.model.seq, window = 1;

		if (!(whole_ms > 0) || request.config.model.sliding_window > 0)
			continue;
		sc_rng_init(&rng, seed);
		while (window < seq) {
			snprintf(text, sizeof(text), "%s model.sliding_window=%d", kernels,
				 (int)window);
			ms = random_ms(seed, text);
			ck_assert_msg(ms >= least_ms * 0.985 && ms <= whole_ms * 1.015,
				      "config %d: a window of %d takes %g ms, less %g, none %g",
				      (int)seed, (int)window, ms, least_ms, whole_ms);
			n_faster += ms < least_ms * 0.9999 || ms > whole_ms * 1.0001;
			least_ms = ms;
			window += 1 + (int64_t)sc_rng_below(&rng, (uint64_t)seq / 2);
		}
		snprintf(text, sizeof(text), "%s model.sliding_window=%d", kernels,
			 (int)(seq + (int64_t)sc_rng_below(&rng, 2)));
		ck_assert_double_eq(random_ms(seed, text), whole_ms);
	}
	ck_assert_int_le(n_faster, 3 + n_cases(N_AT_ONCE) / 25);
}

/* Whichever layers have no window, a model costs no less than with one in all and no more than with
 * one in none: layers without experts still come first in a pass, and what is gathered of a layer
 * is as much. A step that the host holds is up to 1.5 % off at coarse detail, to either side. */
LOOP_TEST(some_layers_with_a_window_are_between_all_and_none, N_RANDOM / N_AT_ONCE)
{
	for (int i = 0; i < n_cases(N_AT_ONCE); i++) {
		const uint64_t seed = (uint64_t)(_i * N_AT_ONCE + i);
		double whole_ms, whole_gib, least_ms, ms;
		char text[192];
		struct sc_rng rng;
		int n;

		sc_rng_init(&rng, seed);
		n = snprintf(
			text, sizeof(text),
			"training.precision=fp16 training.attention=flash parallel.sharding=%s "
			"model.experts_every=%d",
			seed % 2 ? "zero3" : "none", 1 + (int)sc_rng_below(&rng, 3));
		whole_ms = random_ms(seed, text);
		whole_gib = memory_gib;
		if (!(whole_ms > 0) || request.config.model.sliding_window > 0)
			continue;
		n += snprintf(text + n, sizeof(text) - (size_t)n, " model.sliding_window=%d",
			      1 + (int)request.config.model.seq / 4);
		least_ms = random_ms(seed, text);
		snprintf(text + n, sizeof(text) - (size_t)n, " model.full_attention_every=%d",
			 2 + (int)sc_rng_below(&rng, 3));
		ms = random_ms(seed, text);
		ck_assert_msg(ms >= 0.98 * least_ms && ms <= 1.03 * whole_ms &&
				      fabs(memory_gib - whole_gib) <= 1e-9 * whole_gib,
			      "config %d, %s: %g ms and %g GiB, in all %g ms, in none %g and %g",
			      (int)seed, text, ms, memory_gib, least_ms, whole_ms, whole_gib);
	}
}

/* Gradients of a micro-batch are added to those before: to all of them, or to a rank's shard. */
LOOP_TEST(twice_the_micro_batches_are_at_most_twice_the_step, N_RANDOM / N_AT_ONCE)
{
	static const char *const PRECISIONS[] = {"fp16", "amp_fp16"};
	static const char *const SHARDINGS[] = {"none", "zero1", "zero2", "zero3"};

	for (int i = 0; i < n_cases(N_AT_ONCE); i++) {
		const uint64_t seed = (uint64_t)(_i * N_AT_ONCE + i);
		char text[128];
		double once_ms, ms;
		struct sc_rng rng;
		int n;

		sc_rng_init(&rng, seed);
		n = snprintf(text, sizeof(text), "training.precision=%s parallel.sharding=%s",
			     PICK(&rng, PRECISIONS), PICK(&rng, SHARDINGS));
		once_ms = random_ms(seed, text);
		if (!(once_ms > 0))
			continue;
		snprintf(text + n, sizeof(text) - (size_t)n, " training.global_batch=%d",
			 2 * (int)request.config.training.global_batch);
		ms = random_ms(seed, text);
		ck_assert_msg(ms <= 2.03 * once_ms, "config %d: %g ms, of twice the batch %g",
			      (int)seed, once_ms, ms);
	}
}

/* Products in pieces hide collectives at the price of their pieces, which small work pays for
 * nothing: up to a quarter. What is waited for once a collective is waited for once a product. */
LOOP_TEST(pieces_of_small_work_cost_little, N_RANDOM / N_AT_ONCE)
{
	for (int i = 0; i < n_cases(N_AT_ONCE); i++) {
		static const char *const SOFTWARE[] = {"torchtitan", "megatron-core", "nemo"};
		const uint64_t seed = (uint64_t)(_i * N_AT_ONCE + i);
		char text[192];
		double plain_ms, ms;
		struct sc_rng rng;
		int n;

		sc_rng_init(&rng, seed);
		n = snprintf(text, sizeof(text),
			     "training.software=%s parallel.tp=%d parallel.sequence_parallel=true",
			     PICK(&rng, SOFTWARE), 2 << sc_rng_below(&rng, 3));
		plain_ms = random_ms(seed, text);
		snprintf(text + n, sizeof(text) - (size_t)n, " parallel.tp_overlap=true");
		ms = random_ms(seed, text);
		ck_assert_msg(ms <= 1.3 * plain_ms, "config %d, %s: %g ms, in pieces %g", (int)seed,
			      text, plain_ms, ms);
	}
}

/* A layer more that is run again never needs more memory, whatever the schedule makes of its
 * passes. The first one needs room to run again in. Orders that are found for the times at hand may
 * use what others leave of the same limit. */
static void check_recomputed_layers(uint64_t seed)
{
	static const char *const SCHEDULES[] = {"zb-v",  "zb-v",   "zb-1p", "zb-2p", "zb-h1",
						"zb-h2", "v-half", "v-min", "1f1b",  "dualpipev"};
	static const int PP[] = {2, 4, 8};
	double least_gib = HUGE_VAL;
	char text[256];
	struct sc_rng rng;
	int n, pp;

	sc_rng_init(&rng, seed);
	pp = PICK(&rng, PP);
	n = snprintf(text, sizeof(text),
		     "parallel.schedule=%s parallel.pp=%d parallel.tp=1 parallel.cp=1 "
		     "parallel.dp=1 parallel.ep=1 parallel.sharding=none "
		     "training.software=megatron-core training.micro_batch=1 "
		     "training.global_batch=%d training.recompute=",
		     PICK(&rng, SCHEDULES), pp, pp * (2 + (int)sc_rng_below(&rng, 4)));
	for (int layers = 1; layers <= 4; layers++) {
		snprintf(text + n, sizeof(text) - (size_t)n, "full training.recompute_layers=%d",
			 layers);
		if (!(random_ms(seed, text) > 0))
			break;
		ck_assert_msg(memory_gib <= least_gib * 1.02,
			      "config %d: %s: %.4g GiB, with a layer less %.4g", (int)seed, text,
			      memory_gib, least_gib);
		least_gib = fmin(least_gib, memory_gib);
	}
}

LOOP_TEST(recomputed_layers_need_less_memory, N_RANDOM / N_AT_ONCE)
{
	for (int i = 0; i < n_cases(N_AT_ONCE); i++)
		check_recomputed_layers((uint64_t)(_i * N_AT_ONCE + i));
}

/* A zb-v of which some stages keep more of a micro-batch for its gradients than they did for its
 * backward pass. */
TEST(layers_that_run_again_have_room)
{
	check_recomputed_layers(53);
}
