/* The micro-batch that is taken where none is given: what is predicted of it fits, and of twice as
 * much does not. Every example without a pipeline, with batches of many sizes, sharded and
 * offloaded ways. */
#include <inttypes.h>

#include "example_fixture.h"
#include "runner.h"

static const char *const WAYS[][2] = {
	{"notes", "as it is"},
	{"parallel.sharding", "fsdp"},
	{"parallel.sharding", "none"},
	{"training.recompute", "full"},
	{"training.recompute", "none"},
	{"training.optimizer", "shampoo"},
	{"training.offload.optimizer", "cpu"},
	{"training.offload.activations", "cpu"},
	{"parallel.schedule", "gpipe"},
	{"cluster.host_memory_gib", "64"},
};
enum { N_WAYS = sizeof(WAYS) / sizeof(WAYS[0]) };

static double fullness(const struct sc_config *config, struct sc_request *request)
{
	struct sc_err err = {0};
	struct sc_floor floor; /* has the memory of the prediction */

	if (sc_resolve_request(config, catalog, "test", request, &err))
		return -1; /* not so */
	ck_assert_msg(sc_predict_floor(predictor, request, &opts, &floor, &err) == 0, "%s",
		      err.text);
	return sc_memory_fullness(&floor.memory);
}

/* 1 if what fits is less than all. */
static int check_default(struct sc_config config, int64_t batch)
{
	struct sc_request *request = sc_arena_calloc(&arena, 1, sizeof(*request));
	double full;
	int64_t n, samples;

	config.training.micro_batch = SC_NOT_GIVEN;
	config.training.global_batch = batch;
	full = fullness(&config, request);
	if (full < 0 || request->config.parallel.pp > 1 ||
	    sc_habit_of(request, "training.micro_batch"))
		return 0;
	n = request->config.training.micro_batch;
	samples = (batch + request->config.parallel.dp - 1) / request->config.parallel.dp;
	ck_assert_msg(full <= 1 || n == 1, "%" PRId64 " of %" PRId64 " samples fill %g", n, samples,
		      full);
	if (n == samples)
		return 0;
	ck_assert_int_eq(samples % n, 0);
	ck_assert_int_eq(n & (n - 1), 0);
	config.training.micro_batch = samples;
	ck_assert_double_gt(fullness(&config, request), 1);
	config.training.micro_batch = 2 * n;
	if (samples % (2 * n) == 0)
		ck_assert_msg(fullness(&config, request) > 1, "%" PRId64 " would fit", 2 * n);
	return 1;
}

FIXTURE(set_up, tear_down)

LOOP_TEST(the_largest_that_fits, find_examples())
{
	const int64_t factors[] = {1, 3, 16, 64};
	struct sc_config config, given;
	struct sc_err err = {0};
	int reduced = 0;

	load_example(_i, &given);
	if (!sc_model_is_transformer(&given.model))
		return;
	for (int way = 0; way < N_WAYS; way++)
		for (size_t f = 0; f < sizeof(factors) / sizeof(factors[0]); f++) {
			const struct sc_setting set = {WAYS[way][0], WAYS[way][1], "test"};

			config = given;
			if (sc_config_set(&config, &set, &arena, &err) == 0)
				reduced += check_default(config,
							 factors[f] * given.training.global_batch);
		}
	if (strcmp(example_name(_i), "mpt-7b-h100-512.yaml") == 0)
		ck_assert_int_gt(reduced, 0);
}

/* What is sharded is sharded over the context-parallel ranks, too. */
LOOP_TEST(of_context_parallel_ranks, 2)
{
	static const char *const SETS[][2] = {{"cluster.gpu", "h100-sxm-80gb"},
					      {"model", "models/llama3-8b.yaml"},
					      {"parallel.tp", "1"},
					      {"parallel.pp", "1"},
					      {"parallel.cp", "8"},
					      {"parallel.dp", "4"},
					      {"parallel.sharding", "zero3"},
					      {"parallel.shard_ranks", "32"}};
	struct sc_config config;
	struct sc_err err = {0};

	sc_config_init(&config);
	for (size_t i = 0; i < N_OF(SETS) - (size_t)_i; i++) {
		const struct sc_setting set = {SETS[i][0], SETS[i][1], "test"};

		ck_assert_int_eq(sc_config_set(&config, &set, &arena, &err), 0);
	}
	ck_assert_int_eq(check_default(config, 64), 1);
}

/* ResNet-50's rows keep some 0.1 GiB a sample. */
TEST(of_a_table_of_layers)
{
	static const char *const SETS[][2] = {{"gpus", "2"},
					      {"cluster.gpu", "v100-sxm-16gb"},
					      {"model", "models/resnet50-layers.yaml"},
					      {"training.global_batch", "4096"}};
	struct sc_prediction *out = sc_arena_calloc(&arena, 1, sizeof(*out));
	struct sc_request *request = sc_arena_calloc(&arena, 1, sizeof(*request));
	struct sc_config config;
	struct sc_err err = {0};

	sc_config_init(&config);
	for (size_t i = 0; i < 4; i++) {
		const struct sc_setting set = {SETS[i][0], SETS[i][1], "test"};

		ck_assert_int_eq(sc_config_set(&config, &set, &arena, &err), 0);
	}
	for (int more = 0; more < 2; more++) {
		int rc = sc_resolve_request(&config, catalog, "test", request, &err);

		ck_assert_msg(rc == 0, "%s", err.text);
		rc = sc_predict(predictor, request, &opts, out, &err);
		ck_assert_msg(rc == 0, "%s", err.text);
		ck_assert_int_eq(sc_memory_fullness(&out->memory) > 1, more);
		ck_assert_int_lt(request->config.training.micro_batch, 2048);
		config.training.micro_batch = 2 * request->config.training.micro_batch;
	}
}
