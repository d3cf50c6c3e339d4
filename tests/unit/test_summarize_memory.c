/* Memory of whole requests: which micro-batches, layers and replicas a rank holds. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "models/activations.h"
#include "predict/predict.h"
#include "runner.h"

#define TOLERANCE 1e-9

static struct sc_arena arena;
static struct sc_catalog *catalog;
static struct sc_predictor *predictor;
static struct sc_request request; /* of the last prediction */

static void set_up(void)
{
	sc_arena_init(&arena, 1 << 16);
	catalog = sc_catalog_create();
	predictor = sc_predictor_create();
}

static void tear_down(void)
{
	sc_predictor_destroy(predictor);
	sc_catalog_destroy(catalog);
	sc_arena_release(&arena);
}

/* "key=value ..." over a small model on A100s. */
static struct sc_memory predict(const char *overrides)
{
	static struct sc_prediction out;
	char text[1024], *word, *save = NULL;
	struct sc_predict_opts opts;
	struct sc_config cfg;
	struct sc_err err = {0};

	sc_config_init(&cfg);
	snprintf(text, sizeof(text),
		 "cluster.gpu=a100-sxm-80gb cluster.gpus_per_node=8 cluster.nics_per_node=8 "
		 "cluster.nic_gbit_s=200 model.layers=16 model.hidden=2048 model.heads=16 "
		 "model.seq=1024 model.vocab=51200 training.precision=bf16 training.software=%s",
		 overrides);
	for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *value = strchr(word, '=');

		*value++ = '\0';
		ck_assert_msg(sc_config_set(&cfg, &(struct sc_setting){word, value, "test"}, &arena,
					    &err) == 0,
			      "%s", err.text);
	}
	ck_assert_msg(sc_config_resolve(&cfg, catalog, "test", &request, &err) == 0, "%s",
		      err.text);
	sc_predict_opts_init(&opts);
	memset(&out, 0, sizeof(out));
	ck_assert_msg(sc_predict(predictor, &request, &opts, &out, &err) == 0, "%s", err.text);
	return out.memory;
}

#define PIPELINE                                                                                     \
	"megatron-lm model.family=gpt model.vocab=1024 gpus=4 parallel.pp=4 training.micro_batch=1 " \
	"training.recompute=none "

START_TEST(first_stage_holds_as_many_micro_batches_as_stages)
{
	double one = predict(PIPELINE "training.global_batch=1").activations_gib;
	double two = predict(PIPELINE "training.global_batch=2").activations_gib;
	double four = predict(PIPELINE "training.global_batch=4").activations_gib;
	double many = predict(PIPELINE "training.global_batch=32").activations_gib;
	double all = predict(PIPELINE "training.global_batch=32 parallel.schedule=gpipe")
			     .activations_gib;
	/* four layers, and what the stage sends */
	double each =
		4 * sc_layer_kept_bytes(&request, 1, false) + sc_layer_input_bytes(&request, 1);

	ck_assert_double_le(one, two);
	ck_assert_double_eq_tol((four - two) * SC_BYTES_PER_GIB, 2 * each, 1);
	ck_assert_double_eq_tol(many, four, TOLERANCE);
	ck_assert_double_eq_tol((all - many) * SC_BYTES_PER_GIB, 28 * each, 1);
}
END_TEST

START_TEST(interleaving_holds_more)
{
	double plain = predict(PIPELINE "training.global_batch=32").activations_gib;
	double two = predict(PIPELINE "training.global_batch=32 parallel.virtual_stages=2")
			     .activations_gib;

	ck_assert_double_gt(two, plain);
	ck_assert_double_lt(two, plain * (1 + 3.0 / 8) + TOLERANCE);
}
END_TEST

START_TEST(hybrid_sharding_spreads_over_fewer)
{
#define SHARDED \
	"torchtitan model.family=llama gpus=16 training.global_batch=16 parallel.sharding=fsdp "
	struct sc_memory all = predict(SHARDED), some = predict(SHARDED "parallel.shard_ranks=4");

	ck_assert_double_eq_tol(some.weights_gib, 4 * all.weights_gib, TOLERANCE);
	ck_assert_double_eq_tol(some.optimizer_gib, 4 * all.optimizer_gib, TOLERANCE);
}
END_TEST

START_TEST(experts_spread_over_expert_ranks)
{
#define MIXTURE                                                          \
	"megatron-core model.family=moe gpus=8 training.global_batch=8 " \
	"model.experts=16 model.top_k=2 model.expert_ffn_hidden=2048 parallel.ep="
	/* per layer 16 experts of three matrices */
	double experts = 16.0 * 16 * 3 * 2048 * 2048 * 2 / SC_BYTES_PER_GIB;
	double one = predict(MIXTURE "1").weights_gib, eight = predict(MIXTURE "8").weights_gib;

	ck_assert_double_eq_tol(one - eight, experts * 7 / 8, TOLERANCE * one);
	/* their states are sharded over fewer replicas: the sum is the same */
	ck_assert_double_eq_tol(predict(MIXTURE "1").optimizer_gib,
				predict(MIXTURE "8").optimizer_gib, 1e-6);
}
END_TEST

static Suite *summarize_memory_suite(void)
{
	Suite *suite = suite_create("summarize_memory");
	TCase *tcase = tcase_create("summarize_memory");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, first_stage_holds_as_many_micro_batches_as_stages);
	tcase_add_test(tcase, interleaving_holds_more);
	tcase_add_test(tcase, hybrid_sharding_spreads_over_fewer);
	tcase_add_test(tcase, experts_spread_over_expert_ranks);
	suite_add_tcase(suite, tcase);
	return suite;
}

TEST_MAIN(summarize_memory_suite)
