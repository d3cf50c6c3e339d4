/* The bound that a search prunes with lies below every simulation, and its memory is the
 * prediction's: every example, as it is and split otherwise. */
#include "base/rng.h"
#include "example_fixture.h"
#include "runner.h"

enum { N_SPLITS = 60, N_KEYS = 14, MOST_VALUES = 16 };
static const struct {
	const char *path, *values[MOST_VALUES];
} KEYS[N_KEYS] = {
	{"parallel.tp", {"1", "2", "4", "8"}},
	{"parallel.pp", {"1", "2", "3", "4", "8"}},
	{"parallel.cp", {"1", "1", "1", "2"}},
	{"parallel.virtual_stages", {"1", "1", "2", "3"}},
	{"parallel.schedule",
	 {"1f1b", "1f1b", "gpipe", "interleaved", "breadth-first", "zb-h1", "zb-h2", "zb-v",
	  "v-half", "v-min", "chimera", "hanayo", "dualpipe", "dualpipev", "gems",
	  "pipedream-2bw"}},
	{"parallel.sharding", {"none", "zero1", "zero3", "fsdp"}},
	{"training.micro_batch", {"1", "2", "3", "4"}},
	{"training.recompute", {"none", "selective", "full"}},
	{"parallel.ep", {"1", "2", "4"}},
	{"training.software",
	 {"", "torchtitan", "megatron-core", "deepspeed-zero-infinity", "primus"}},
	{"cluster.nic_gbit_s", {"", "10", "50"}},
	{"training.global_batch", {"", "", "16", "48", "100"}},
	{"parallel.vocab_stages", {"none", "none", "vocab-1", "vocab-2", "interlaced"}},
	{"c3.policy",
	 {"", "", "serial", "plain", "comm_first", "copy_engine", "chunked:4", "reserve:20"}},
};

static void split_otherwise(struct sc_rng *rng, struct sc_config *config)
{
	config->parallel.dp = SC_NOT_GIVEN;
	for (int k = 0; k < N_KEYS; k++) {
		size_t n = 0;
		const char *value;
		struct sc_err err = {0};

		while (n < MOST_VALUES && KEYS[k].values[n])
			n++;
		value = KEYS[k].values[sc_rng_below(rng, n)];
		if (sc_rng_below(rng, 2) || !*value)
			continue;
		ck_assert_msg(sc_config_set(config,
					    &(struct sc_setting){KEYS[k].path, value, "--set"},
					    &arena, &err) == 0,
			      "%s", err.text);
	}
}

/* What is asked for its memory first has the same floor if it leaves the margin, else none, and its
 * memory or less. */
static void check_memory_first(const struct sc_request *req, const struct sc_floor *low)
{
	struct sc_predict_opts first = opts;
	struct sc_floor now;
	struct sc_err err = {0};

	first.memory_first = true;
	first.margin_frac = 0.3;
	ck_assert_int_eq(sc_predict_floor(predictor, req, &first, &now, &err), 0);
	if (now.is_least) {
		ck_assert_double_le(now.memory.total_gib, low->memory.total_gib);
		ck_assert(now.iteration_ms <= 0);
	} else {
		ck_assert_double_eq(now.memory.total_gib, low->memory.total_gib);
		ck_assert_double_eq(now.memory.host_gib, low->memory.host_gib);
	}
	if (sc_memory_leaves(&now.memory, first.margin_frac))
		ck_assert_double_eq(now.iteration_ms, low->iteration_ms);
	else
		ck_assert(now.iteration_ms <= 0);
}

/* False: it cannot be. */
static bool is_below(const char *name, const struct sc_config *config)
{
	struct sc_prediction *out = sc_arena_calloc(&arena, 1, sizeof(*out));
	struct sc_request *req = sc_arena_calloc(&arena, 1, sizeof(*req));
	struct sc_floor low;
	struct sc_err err = {0};

	if (sc_config_resolve(config, catalog, NULL, req, &err))
		return false;
	if (req->config.model.family == SC_DLRM || req->config.model.family == SC_LAYERS) {
		ck_assert_int_eq(sc_predict_floor(predictor, req, &opts, &low, &err),
				 -(int)SC_EUNSUPPORTED);
		return true;
	}
	if (sc_predict_floor(predictor, req, &opts, &low, &err))
		return false;
	ck_assert_msg(sc_predict(predictor, req, &opts, out, &err) == 0, "%s", err.text);
	ck_assert_msg(low.iteration_ms >= 0 && low.iteration_ms <= out->iteration_ms,
		      "%s: %s, tp %d, pp %d, v %d, micro-batch %d: %.9g ms is not below %.9g ms",
		      name, "floor", (int)req->config.parallel.tp, (int)req->config.parallel.pp,
		      (int)req->config.parallel.virtual_stages,
		      (int)req->config.training.micro_batch, low.iteration_ms, out->iteration_ms);
	ck_assert_double_eq_tol(low.memory.total_gib, out->memory.total_gib, 1e-9);
	ck_assert_double_eq(low.memory.capacity_gib, out->memory.capacity_gib);
	check_memory_first(req, &low);
	return true;
}

FIXTURE(set_up, tear_down)

LOOP_TEST(floors_are_below, find_examples())
{
	struct sc_arena_mark mark = sc_arena_mark(&arena);
	struct sc_rng rng;
	int n = 0;

	sc_rng_init(&rng, (uint64_t)_i);
	for (int i = 0; i < n_cases(N_SPLITS); i++) {
		struct sc_config config;

		sc_arena_rewind(&arena, mark);
		load_example(_i, &config);
		if (i > 0)
			split_otherwise(&rng, &config);
		n += is_below(example_name(_i), &config);
	}
	ck_assert_int_gt(n, 0);
}

static double floor_ms(const char *policy)
{
	struct sc_request *req = sc_arena_calloc(&arena, 1, sizeof(*req));
	struct sc_config config;
	struct sc_floor low;
	struct sc_err err = {0};
	int i = 0;

	while (strcmp(example_name(i), "gpt-22b-selene.yaml") != 0)
		i++;
	load_example(i, &config);
	config.gpus *= 2;
	config.parallel.dp = SC_NOT_GIVEN;
	ck_assert_int_eq(sc_config_set(&config,
				       &(struct sc_setting){"c3.policy.dp", policy, "--set"},
				       &arena, &err),
			 0);
	ck_assert_int_eq(sc_config_resolve(&config, catalog, NULL, req, &err), 0);
	ck_assert_int_eq(sc_predict_floor(predictor, req, &opts, &low, &err), 0);
	return low.iteration_ms;
}

/* Reductions beside passes are left out of a floor, but for SMs that are kept for them. */
TEST(sms_that_reductions_keep_are_no_kernels)
{
	const double plain = floor_ms("plain");

	ck_assert_double_eq(floor_ms("comm_first"), plain);
	ck_assert_double_gt(floor_ms("reserve"), plain);
}
