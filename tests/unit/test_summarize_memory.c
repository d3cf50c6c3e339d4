/* Memory of whole requests: which micro-batches, layers and replicas a rank holds. */
#include "base/rng.h"
#include "base/units.h"
#include "models/memory.h"
#include "predict/transformer/summarize.h"
#include "predict/transformer/transformer_memory.h"
#include "request_fixture.h"
#include "runner.h"

#define TOLERANCE 1e-9

static struct sc_request request; /* of the last prediction */

/* "key=value ..." over a small model on A100s, into `request`; false: it cannot be. */
static bool resolve(const char *overrides, struct sc_err *err)
{
	struct sc_config cfg;

	sc_config_init(&cfg);
	set_all(&cfg, "cluster.gpu=a100-sxm-80gb cluster.gpus_per_node=8 cluster.nics_per_node=8 "
		      "cluster.nic_gbit_s=200 model.layers=16 model.hidden=2048 model.heads=16 "
		      "model.seq=1024 model.vocab=51200 training.precision=bf16");
	set_all(&cfg, sc_arena_printf(&arena, "training.software=%s", overrides));
	return sc_config_resolve(&cfg, catalog, "test", &request, err) == 0;
}

/* False: it cannot be. */
static bool may_predict(const char *overrides, struct sc_memory *memory, struct sc_err *err)
{
	static struct sc_prediction out;
	struct sc_predict_opts opts;

	sc_predict_opts_init(&opts);
	memset(&out, 0, sizeof(out));
	if (!resolve(overrides, err) || sc_predict(predictor, &request, &opts, &out, err))
		return false;
	*memory = out.memory;
	return true;
}

static struct sc_memory predict(const char *overrides)
{
	struct sc_memory memory;
	struct sc_err err = {0};

	ck_assert_msg(may_predict(overrides, &memory, &err), "%s", err.text);
	return memory;
}

#define PIPELINE                                                                                     \
	"megatron-lm model.family=gpt model.vocab=1024 gpus=4 parallel.pp=4 training.micro_batch=1 " \
	"training.recompute=none "

FIXTURE(requests_begin, requests_end)

TEST(first_stage_holds_as_many_micro_batches_as_stages)
{
	double one = predict(PIPELINE "training.global_batch=1").activations_gib;
	double two = predict(PIPELINE "training.global_batch=2").activations_gib;
	double four = predict(PIPELINE "training.global_batch=4").activations_gib;
	double many = predict(PIPELINE "training.global_batch=32").activations_gib;
	double all = predict(PIPELINE "training.global_batch=32 parallel.schedule=gpipe")
			     .activations_gib;
	/* four layers, and what the stage sends */
	double each = 4 * sc_layer_bytes_of(&request, 1, 0).kept +
		      2.0 * (double)(request.config.model.seq * request.config.model.hidden);

	ck_assert_double_le(one, two);
	ck_assert_double_eq_tol((four - two) * SC_BYTES_PER_GIB, 2 * each, 1);
	ck_assert_double_eq_tol(many, four, TOLERANCE);
	ck_assert_double_eq_tol((all - many) * SC_BYTES_PER_GIB, 28 * each, 1);
}

TEST(interleaving_holds_more)
{
	double plain = predict(PIPELINE "training.global_batch=32").activations_gib;
	double two = predict(PIPELINE "training.global_batch=32 parallel.virtual_stages=2")
			     .activations_gib;

	ck_assert_double_gt(two, plain);
	ck_assert_double_lt(two, plain * (1 + 3.0 / 8) + TOLERANCE);
}

TEST(hybrid_sharding_spreads_over_fewer)
{
#define SHARDED \
	"torchtitan model.family=llama gpus=16 training.global_batch=16 parallel.sharding=fsdp "
	struct sc_memory all = predict(SHARDED), some = predict(SHARDED "parallel.shard_ranks=4");

	ck_assert_double_eq_tol(some.weights_gib, 4 * all.weights_gib, TOLERANCE);
	ck_assert_double_eq_tol(some.optimizer_gib, 4 * all.optimizer_gib, TOLERANCE);
}

TEST(states_take_the_bytes_that_are_given)
{
	double all = predict(SHARDED).optimizer_gib;
	double half = predict(SHARDED "training.moment_bytes=2").optimizer_gib;
	double least =
		predict(SHARDED "training.moment_bytes=2 training.master_bytes=0").optimizer_gib;

	/* two moments and a copy of four bytes each */
	ck_assert_double_eq_tol(half, all * 8 / 12, TOLERANCE);
	ck_assert_double_eq_tol(least, all * 4 / 12, TOLERANCE);
}

/* An optimizer reads gradients of its own copy's type. */
TEST(gradients_of_a_step_are_as_wide_as_the_copy)
{
#define GROWN                                                                                \
	"hf-pytorch model.family=gpt gpus=8 training.global_batch=8 training.micro_batch=1 " \
	"training.grad_bytes=2 model.seq=128 "
	struct sc_memory wide = predict(GROWN), narrow = predict(GROWN "training.master_bytes=2");

	ck_assert_double_lt(narrow.gradients_gib, wide.gradients_gib);
}

TEST(experts_spread_over_expert_ranks)
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

/* ---- laws, over random requests ---- */

enum { N_RANDOM = 1000, WORDS = 1024 };

static long one_of(struct sc_rng *rng, const long *of, size_t n)
{
	return of[sc_rng_below(rng, n)];
}
#define PICK(rng, ...) \
	one_of(rng, (const long[]){__VA_ARGS__}, sizeof((const long[]){__VA_ARGS__}) / sizeof(long))

/* Of all GPUs, empty of activations. */
static struct sc_memory sum_over_gpus(void)
{
	struct sc_transformer *tf = sc_arena_calloc(&arena, 1, sizeof(*tf));
	struct sc_predict_opts opts;
	struct sc_build_scratch scratch;
	const struct sc_run run = {.tf = tf};
	struct sc_memory sum = {0}, one;
	struct sc_err err = {0};

	sc_predict_opts_init(&opts);
	sc_build_scratch_init(&scratch, &arena);
	ck_assert_msg(sc_transformer_init(tf, &(struct sc_setup){&request, &opts, &scratch, NULL},
					  &err) == 0,
		      "%s", err.text);
	for (uint32_t c = 0; c < tf->placement.n_classes; c++) {
		double n = tf->placement.classes[c].multiplicity;

		sc_memory_of_class(&run, c, 0, &one);
		sum.weights_gib += n * one.weights_gib;
		sum.gradients_gib += n * one.gradients_gib;
		sum.optimizer_gib += n * one.optimizer_gib;
	}
	sc_build_scratch_release(&scratch);
	sc_transformer_release(tf);
	return sum;
}

static void is_all(const char *text, const char *what, double got, double want)
{
	ck_assert_msg(fabs(got / want - 1) < 0.01, "%s: %s are %g GiB, not %g", text, what, got,
		      want);
}

/* What each rank has of it, sharded or replicated, adds up to what one GPU has, as often as there
 * are copies. */
TEST(gpus_hold_all_and_no_more)
{
	static const char *const SHARDING[] = {"none", "zero1", "zero2", "zero3", "fsdp"};
	static const char *const SOFTWARE[] = {"megatron-core", "torchtitan", "megatron-bridge",
					       "default"};
	struct sc_arena_mark mark = sc_arena_mark(&arena);
	struct sc_rng rng;
	int n_tried = 0;

	sc_rng_init(&rng, 5);
	for (int i = 0; i < n_cases(N_RANDOM); i++) {
		long tp = PICK(&rng, 1, 2, 4), pp = PICK(&rng, 1, 1, 2, 4),
		     cp = PICK(&rng, 1, 1, 2), dp = PICK(&rng, 1, 2, 4, 8);
		long experts = PICK(&rng, 0, 8), ep = experts ? PICK(&rng, 1, 2, 4) : 1;
		long etp = experts && PICK(&rng, 0, 1) ? 1 : tp, copies = PICK(&rng, 1, 1, 2);
		int z = (int)sc_rng_below(&rng, 5);
		bool split[] = {z >= 3, z >= 2, z >= 1}; /* weights, gradients, states */
		const double dense = 16 * 12.0 * 2048 * 2048 + 2 * 51200.0 * 2048;
		const double expert = experts ? 16 * 8 * 3 * 2048.0 * 512 : 0;
		double per[3], all[3];
		char model[WORDS / 2], text[WORDS];
		struct sc_memory one, sum;
		struct sc_err err = {0};

		sc_arena_rewind(&arena, mark);
		snprintf(model, sizeof(model),
			 "%s model.family=%s model.tied_embeddings=false model.kv_heads=16 "
			 "model.ffn_hidden=%d parallel.sharding=%s%s",
			 SOFTWARE[sc_rng_below(&rng, 4)], experts ? "moe" : "gpt", 4 * 2048,
			 SHARDING[z],
			 experts ? " model.experts=8 model.top_k=2 model.expert_ffn_hidden=512 "
				   "model.shared_experts=0"
				 : "");
		if (copies > dp || z == 0)
			copies = 1;
		snprintf(text, sizeof(text),
			 "%s gpus=%ld parallel.tp=%ld parallel.pp=%ld parallel.cp=%ld "
			 "parallel.ep=%ld training.global_batch=%ld training.micro_batch=1 "
			 "parallel.shard_ranks=%ld",
			 model, tp * pp * cp * dp, tp, pp, cp, ep, dp, cp * dp / copies);
		if (experts)
			snprintf(text + strlen(text), sizeof(text) - strlen(text),
				 " parallel.etp=%ld", etp);
		if (!resolve(text, &err))
			continue;
		n_tried++;
		sum = sum_over_gpus();
		snprintf(model + strlen(model), sizeof(model) - strlen(model),
			 " gpus=1 training.global_batch=1 training.micro_batch=1");
		ck_assert_msg(resolve(model, &err), "%s: %s", model, err.text);
		one = sum_over_gpus();
		per[0] = one.weights_gib;
		per[1] = one.gradients_gib;
		per[2] = one.optimizer_gib;
		for (int k = 0; k < 3; k++) {
			double own = 4.0 * 2048 * 2048 * 16 + 2 * 51200.0 * 2048;
			double n = (double)(split[k] ? copies : cp * dp);
			double n_expert = (double)(split[k] ? copies : tp * cp * dp / (etp * ep));

			own = experts ? own : dense;
			all[k] = per[k] / (own + expert) * (n * own + n_expert * expert);
		}
		is_all(text, "weights", sum.weights_gib, all[0]);
		is_all(text, "gradients", sum.gradients_gib, all[1]);
		is_all(text, "states", sum.optimizer_gib, all[2]);
	}
	ck_assert_int_gt(n_tried, n_cases(N_RANDOM) / 8);
}

TEST(one_replica_is_not_sharded)
{
#define TWO_STAGES                                                                    \
	"torchtitan model.family=llama gpus=2 parallel.pp=2 training.global_batch=4 " \
	"training.micro_batch=1 parallel.sharding="
	struct sc_memory one = predict(TWO_STAGES "zero1"), two = predict(TWO_STAGES "zero2");

	ck_assert_double_eq_tol(two.gradients_gib, one.gradients_gib, TOLERANCE);
}

/* But for the layer that runs again. */
TEST(recomputing_more_takes_no_more)
{
	static const char *const SCHEDULE[] = {"1f1b",   "gpipe", "interleaved", "zb-h1",
					       "zb-h2",  "zb-1p", "zb-2p",       "zb-v",
					       "v-half", "v-min", "dualpipev"};
	static const char *const SOFTWARE[] = {"megatron-core", "torchtitan", "megatron-lm", "nemo",
					       "default"};
	static const char *const MODE[] = {"full", "selective", "none"};
	struct sc_arena_mark mark = sc_arena_mark(&arena);
	struct sc_rng rng;
	int n_tried = 0;

	sc_rng_init(&rng, 14);
	for (int i = 0; i < n_cases(N_RANDOM) / 4; i++) {
		long tp = PICK(&rng, 1, 2, 4), pp = PICK(&rng, 1, 2, 4, 8);
		long layers = pp * PICK(&rng, 2, 4), n = PICK(&rng, 1, 4, 16);
		bool moe = PICK(&rng, 0, 0, 1);
		double less = 0, layer;
		char base[WORDS / 2], text[WORDS];
		struct sc_memory memory;
		struct sc_err err = {0};
		int m;

		sc_arena_rewind(&arena, mark);
		snprintf(
			base, sizeof(base),
			"%s model.family=%s%s model.layers=%ld gpus=%ld parallel.tp=%ld parallel.pp=%ld "
			"training.global_batch=%ld training.micro_batch=%ld parallel.schedule=%s",
			SOFTWARE[sc_rng_below(&rng, 5)],
			moe                ? "moe"
			: PICK(&rng, 0, 1) ? "llama"
					   : "gpt",
			moe ? " model.experts=8 model.top_k=2 model.expert_ffn_hidden=512" : "",
			layers, tp * pp, tp, pp, 2 * n, PICK(&rng, 1, 2),
			SCHEDULE[sc_rng_below(&rng, 11)]);
		for (m = 0; m < 3; m++) {
			snprintf(text, sizeof(text), "%s training.recompute=%s", base, MODE[m]);
			if (!may_predict(text, &memory, &err))
				break;
			layer = (sc_layer_bytes_of(&request, 2, 0).kept +
				 sc_layer_bytes_of(&request, 2, 0).working) /
				SC_BYTES_PER_GIB * (1 + request.software.reserve_frac);
			ck_assert_msg(less <= memory.total_gib + layer,
				      "%s takes %g GiB; more recomputation takes %g", text,
				      memory.total_gib, less);
			less = memory.total_gib;
		}
		n_tried += m == 3;
	}
	ck_assert_int_gt(n_tried, n_cases(N_RANDOM) / 8);
}
