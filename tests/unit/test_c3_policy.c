/* Whole iterations whose computation and communication share GPUs: coarse against full detail, and
 * the limits of every policy by family. */
#include "base/rng.h"
#include "example_fixture.h"
#include "runner.h"

enum { N_ITERATIONS = 1000 };
#define CLOSE 1e-6
#define TURNED                                                                                     \
	6e-3 /* without kernels, collectives may take turns in another order: one of 1,000 by more \
		than 0.2 % */

static double predict_ms(const struct sc_request *req, const struct sc_predict_opts *how)
{
	return predict_request(req, how)->iteration_ms;
}

static void resolve(const struct sc_config *config, struct sc_request *req)
{
	struct sc_err err = {0};

	ck_assert_msg(sc_config_resolve(config, catalog, NULL, req, &err) == 0, "%s", err.text);
}

FIXTURE(set_up, tear_down)

/* By every policy that all families may have, the coarse answer is that of the whole graph. */
LOOP_TEST(coarse_equals_full_detail, find_examples())
{
	static const char *const policies[] = {"", "c3.policy.dp=reserve", "c3.policy=copy_engine",
					       "c3.policy.tp=tile_fused"};
	struct sc_predict_opts full = opts;
	struct sc_config config;
	struct sc_request req;

	full.detail = SC_DETAIL_FULL;
	if (!takes_case(_i, find_examples()))
		return;
	load_example(_i, &config);
	for (int i = 0; i < n_cases(sizeof(policies) / sizeof(policies[0])); i++) {
		struct sc_config with = config;
		double coarse, all;

		set_all(&with, policies[i]);
		resolve(&with, &req);
		if (req.config.model.family == SC_DLRM || req.config.gpus > 512)
			return;
		coarse = predict_ms(&req, &opts);
		all = predict_ms(&req, &full);
		ck_assert_msg(fabs(coarse / all - 1) < 0.01, "%s %s: coarse %.6g, full %.6g",
			      example_name(_i), policies[i], coarse, all);
	}
}

static int draw(struct sc_rng *rng, int n)
{
	return (int)sc_rng_below(rng, (uint64_t)n);
}

/* A split of 8 to 32 GPUs on one or several nodes. */
static void random_config(struct sc_rng *rng, struct sc_config *config)
{
	static const char *const gpus[] = {"a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb",
					   "mi300x", "l40s"};
	static const char *const software[] = {"megatron-core", "torchtitan", "nemo",
					       "llm-foundry"};
	static const char *const sharding[] = {"none", "zero1", "fsdp"};
	int tp = 1 << draw(rng, 4), cp = 1 << draw(rng, 2), dp = 1 << draw(rng, 3);

	sc_config_init(config);
	set_all(config,
		sc_arena_printf(
			&arena,
			"model.family=llama model.layers=%d model.hidden=%d model.heads=32 "
			"model.seq=4096 model.vocab=32000 cluster.gpu=%s "
			"cluster.gpus_per_node=8 cluster.nics_per_node=8 "
			"cluster.nic_gbit_s=200 gpus=%d parallel.tp=%d parallel.cp=%d parallel.dp=%d "
			"parallel.sharding=%s training.global_batch=%d "
			"training.micro_batch=1 training.precision=bf16 "
			"training.attention=flash training.software=%s",
			1 + draw(rng, 4), 1024 << draw(rng, 3), gpus[draw(rng, 5)], tp * cp * dp,
			tp, cp, dp, sharding[draw(rng, 3)], dp * (1 + draw(rng, 2)),
			software[draw(rng, 4)]));
}

static double with_policy(const struct sc_config *config, const char *policy,
			  const struct sc_predict_opts *how)
{
	struct sc_config with = *config;
	struct sc_request req;

	set_all(&with, policy);
	resolve(&with, &req);
	return predict_ms(&req, how);
}

/* Together never faster than the longer alone, nor slower than one after the other by more than
 * what both load of the path to memory. */
TEST(limits_of_iterations)
{
	static const char *const policies[] = {"c3.policy=plain", "c3.policy=comm_first",
					       "c3.policy.dp=comm_first c3.policy.tp=serial"};
	struct sc_predict_opts free_comm = opts, free_kernels = opts;
	struct sc_rng rng;

	free_comm.link_speed = free_comm.nic_speed = 1e9;
	free_kernels.gemm_speed = free_kernels.hbm_speed = 1e9;
	sc_rng_init(&rng, 1);
	for (int i = 0; i < n_cases(N_ITERATIONS); i++) {
		struct sc_arena_mark mark = sc_arena_mark(&arena);
		struct sc_config config;
		double serial, load;
		struct sc_request req;

		random_config(&rng, &config);
		resolve(&config, &req);
		load = req.device.interference.path_compute + req.device.interference.path_comm;
		serial = with_policy(&config, "c3.policy=serial", &opts);
		for (size_t p = 0; p < sizeof(policies) / sizeof(policies[0]); p++) {
			double ms = with_policy(&config, policies[p], &opts);
			double longer = fmax(with_policy(&config, policies[p], &free_comm),
					     with_policy(&config, policies[p], &free_kernels));

			ck_assert_msg(ms >= longer * (1 - TURNED),
				      "case %d, %s: %.6g, longer alone %.6g", i, policies[p], ms,
				      longer);
			ck_assert_msg(ms <= serial * fmax(1, load) * (1 + CLOSE),
				      "case %d, %s: %.6g, serial %.6g", i, policies[p], ms, serial);
		}
		sc_arena_rewind(&arena, mark);
	}
}

/* More NICs bring more channels, of which those kept for collectives carry no less: never slower by
 * more than what of the SMs goes to collectives that are faster. Fewer SMs than feed their rate
 * make them slower, others do not. */
TEST(kept_sms_and_nics)
{
	static const char *const policies[] = {"reserve:2", "reserve:8", "reserve:24", "reserve",
					       "comm_first+reserve"};
	struct sc_rng rng;

	sc_rng_init(&rng, 2);
	for (int i = 0; i < n_cases(N_ITERATIONS / 5); i++) {
		struct sc_arena_mark mark = sc_arena_mark(&arena);
		const char *policy = policies[draw(&rng, 5)];
		struct sc_config config;
		double before = HUGE_VAL;

		random_config(&rng, &config);
		for (int nics = 1; nics <= 16; nics *= 2) {
			const char *sets = sc_arena_printf(
				&arena,
				"cluster.gpus_per_node=4 cluster.nics_per_node=%d c3.policy=%s",
				nics, policy);
			double ms = with_policy(&config, sets, &opts);

			ck_assert_msg(ms <= before * 1.005, "case %d, %s: %.6g, half the NICs %.6g",
				      i, sets, ms, before);
			before = ms;
		}
		sc_arena_rewind(&arena, mark);
	}
}

static bool warned_of(const struct sc_request *req, const char *words)
{
	for (size_t i = 0; i < req->warnings.n; i++)
		if (strstr(req->warnings.text[i], words))
			return true;
	return false;
}

/* Channels of a config are the collectives': more of them make no iteration without overlap slower,
 * and one alone is slow. */
TEST(channels_of_a_config)
{
	struct sc_rng rng;
	int n_slow = 0;

	sc_rng_init(&rng, 39);
	for (int i = 0; i < n_cases(N_ITERATIONS / 5); i++) {
		struct sc_arena_mark mark = sc_arena_mark(&arena);
		struct sc_config config;
		double before = HUGE_VAL, usual;

		random_config(&rng, &config);
		usual = with_policy(&config, "c3.policy=serial", &opts);
		for (int n = 1; n <= 64; n *= 2) {
			const char *sets =
				sc_arena_printf(&arena, "c3.policy=serial c3.channels=%d", n);
			double ms = with_policy(&config, sets, &opts);

			ck_assert_msg(ms <= before * (1 + CLOSE) && ms >= usual * (1 - CLOSE),
				      "case %d, %d channels: %.6g, half %.6g, usual %.6g", i, n, ms,
				      before, usual);
			n_slow += n == 1 && ms > usual * 1.01;
			before = ms;
		}
		sc_arena_rewind(&arena, mark);
	}
	ck_assert_int_gt(n_slow, 0);
}

/* What differs from a pair's policy of the same name is said; N comes in the device's granule. */
TEST(words_of_policies)
{
	static const struct {
		const char *policy, *words;
	} said[] = {{"copy_engine", "do not add"},
		    {"reserve", "without N"},
		    {"comm_first+reserve", "without N"},
		    {"reserve:1", NULL},
		    {"plain", NULL}};
	struct sc_config config;
	struct sc_request req;

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		sc_config_init(&config);
		set_all(&config,
			sc_arena_printf(&arena,
					"model.family=llama model.layers=4 model.hidden=4096 "
					"model.heads=32 model.seq=4096 model.vocab=32000 "
					"cluster.gpu=mi300x gpus=8 training.global_batch=8 "
					"c3.policy.dp=%s",
					said[i].policy));
		resolve(&config, &req);
		ck_assert_int_eq(warned_of(&req, "c3.policy.dp"), said[i].words != NULL);
		ck_assert(!said[i].words || warned_of(&req, said[i].words));
		ck_assert_double_eq(req.c3[SC_C3_DP].n, i == 3 ? 8 : 0);
	}
	/* reductions on engines, whose sums would be free: no faster than on SMs */
	ck_assert_double_eq_tol(with_policy(&config, "c3.policy.dp=copy_engine", &opts),
				with_policy(&config, "c3.policy.dp=comm_first", &opts), CLOSE);
}

/* A key by family goes before one for all, which leaves out those that cannot have it; what is not
 * given is the software's. */
TEST(policies_by_family)
{
	struct sc_config config;
	struct sc_request req;

	sc_config_init(&config);
	set_all(&config,
		"model=models/mixtral-8x7b.yaml cluster.gpu=h100-sxm-80gb gpus=32 parallel.tp=8 parallel.cp=2 parallel.ep=2 "
		"training.global_batch=16 training.software=megatron-core c3.policy=chunked:4 c3.policy.dp=plain "
		"c3.policy.ep=reserve:20");
	resolve(&config, &req);
	ck_assert_int_eq(req.c3[SC_C3_TP].policy, SC_C3_CHUNKED);
	ck_assert_double_eq(req.c3[SC_C3_TP].n, 4);
	ck_assert(req.config.parallel.tp_overlap);
	ck_assert_int_eq(req.c3[SC_C3_DP].policy, SC_C3_PLAIN);
	ck_assert_int_eq(req.c3[SC_C3_EP].policy, SC_C3_RESERVE);
	ck_assert_double_eq(req.c3[SC_C3_EP].n, 20);
	ck_assert_int_eq(req.c3[SC_C3_CP].policy, SC_C3_COMM_FIRST);
	set_all(&config, "c3.policy=serial");
	resolve(&config, &req);
	ck_assert_int_eq(req.c3[SC_C3_CP].policy, SC_C3_SERIAL);
	ck_assert(!req.config.parallel.tp_overlap);
	ck_assert_int_eq(req.software.grad_sync, SC_GRAD_OVERLAP); /* dp is plain still */
}

/* Inputs gathered in fp8 travel in half the time, where a tensor has one scale. */
TEST(inputs_are_gathered_in_fp8)
{
	static const char *const recipes[] = {"current", "rowwise", "blockwise"};
	struct sc_config config;
	struct sc_request req;

	for (int i = 0; i < 3; i++) {
		double in_fp8, in_bf16;

		sc_config_init(&config);
		set_all(&config,
			sc_arena_printf(&arena,
					"model.family=llama model.layers=4 model.hidden=8192 "
					"model.heads=64 model.seq=8192 model.vocab=32000 "
					"cluster.gpu=h100-sxm-80gb gpus=8 parallel.tp=8 "
					"training.global_batch=4 training.micro_batch=4 "
					"training.precision=fp8 training.fp8_recipe=%s "
					"training.software=torchtitan",
					recipes[i]));
		resolve(&config, &req);
		ck_assert(req.software.gather_fp8);
		in_fp8 = predict_ms(&req, &opts);
		req.software.gather_fp8 = false;
		in_bf16 = predict_ms(&req, &opts);
		if (i == 0)
			ck_assert_double_gt(in_bf16, in_fp8 * 1.01);
		else
			ck_assert_double_eq_tol(in_bf16, in_fp8, CLOSE * in_fp8);
	}
}
