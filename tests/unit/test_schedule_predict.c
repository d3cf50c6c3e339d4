/* Schedules in whole predictions: backward in two does the work of one, skipping the steady state
 * changes nothing, full detail agrees, shares of the vocabulary balance the stages. */
#include "base/rng.h"
#include "predict/schedule/schedule_file.h"
#include "random_config.h"
#include "runner.h"

static struct sc_prediction out;
static struct sc_straggler slow; /* where slow.ranks.n is not 0 */

static void set_up(void)
{
	requests_begin();
	slow.ranks.n = 0;
}

/* A small model on four stages, with "key=value ..." besides. */
static const struct sc_prediction *predict(const struct sc_predict_opts *opts,
					   const char *overrides)
{
	struct sc_config cfg;
	struct sc_err err = {0};

	sc_config_init(&cfg);
	set_all(&cfg,
		"cluster.gpu=a100-sxm-80gb gpus=4 parallel.pp=4 model.family=gpt model.layers=32 "
		"model.hidden=4096 model.heads=32 model.seq=1024 model.vocab=32000 "
		"training.micro_batch=2 training.precision=bf16 training.software=megatron-core");
	set_all(&cfg, overrides);
	if (slow.ranks.n > 0)
		cfg.stragglers = (struct sc_structs){.at = &slow, .n = 1};
	evaluator->opts = *opts;
	ck_assert_msg(sc_evaluate(evaluator, &(struct sc_candidate){.base = &cfg, .file = "test"},
				  &err) == 0,
		      "%s", err.text);
	out = evaluator->prediction;
	return &out;
}

#define ALL "parallel.auto_among=all"

static const char *const NAMES[] = {"breadth-first", "zb-h1",  "zb-h2",    "zb-1p",
				    "zb-2p",         "zb-v",   "v-half",   "v-min",
				    "chimera",       "hanayo", "dualpipe", "dualpipev"};
enum { N_NAMES = sizeof(NAMES) / sizeof(NAMES[0]) };

FIXTURE(set_up, requests_end)

/* A jump over the steady state, and every op apart: within 1 %. */
LOOP_TEST(details_agree, N_NAMES)
{
	char text[128];
	struct sc_predict_opts opts;
	double coarse, whole, full;

	sc_predict_opts_init(&opts);
	snprintf(text, sizeof(text), "training.global_batch=160 parallel.schedule=%s", NAMES[_i]);
	coarse = predict(&opts, text)->iteration_ms;
	opts.no_jump = true;
	whole = predict(&opts, text)->iteration_ms;
	ck_assert_double_eq_tol(coarse, whole, 0.01 * whole);
	snprintf(text, sizeof(text), "training.global_batch=32 parallel.schedule=%s", NAMES[_i]);
	coarse = predict(&opts, text)->iteration_ms;
	opts.detail = SC_DETAIL_FULL;
	full = predict(&opts, text)->iteration_ms;
	ck_assert_double_eq_tol(coarse, full, 0.01 * full);
}

/* Of two replicas one's first stage is slow: the others' first passes begin, and end, before its
 * own. */
LOOP_TEST(details_agree_of_a_slow_rank, N_NAMES)
{
	int64_t rank = 0;
	char text[128];
	struct sc_predict_opts opts;
	double coarse, full;

	sc_predict_opts_init(&opts);
	slow = (struct sc_straggler){.ranks = {.at = &rank, .n = 1}, .slowdown = 3};
	snprintf(text, sizeof(text), "gpus=8 training.global_batch=32 parallel.schedule=%s",
		 NAMES[_i]);
	coarse = predict(&opts, text)->iteration_ms;
	opts.detail = SC_DETAIL_FULL;
	full = predict(&opts, text)->iteration_ms;
	ck_assert_double_eq_tol(coarse, full, 0.01 * full);
}

/* Skipping the steady state changes nothing, with stages that differ a little and go ahead of the
 * slowest for long: the head makes one longer. (Where the iteration is that of the longest stage,
 * what others do before it begins is not counted, and how much that is may differ by a pass.) What
 * orders depend on times (zb-1p, zb-2p) is chosen for the micro-batches that run. */
LOOP_TEST(a_jump_changes_nothing, 13 * 5)
{
	static const char *const KINDS[] = {
		"gpipe",  "breadth-first", "1f1b",     "interleaved", "zb-h1",   "zb-h2", "zb-v",
		"v-half", "v-min",         "dualpipe", "dualpipev",   "chimera", "hanayo"};
	static const int VOCAB[] = {1000, 32000, 50304, 70000, 256000};
	struct sc_predict_opts opts;
	struct sc_prediction jumped;
	char text[256];

	sc_predict_opts_init(&opts);
	snprintf(text, sizeof(text),
		 "training.global_batch=%d parallel.schedule=%s model.vocab=%d model.layers=30%s",
		 2 * 160, KINDS[_i / 5], VOCAB[_i % 5],
		 _i / 5 == 1 || _i / 5 == 3 ? " parallel.virtual_stages=2" : "");
	jumped = *predict(&opts, text);
	opts.no_jump = true;
	predict(&opts, text);
	ck_assert_double_eq_tol(jumped.iteration_ms, out.iteration_ms, 1e-6 * out.iteration_ms);
	for (int o = 0; o < SC_N_OWNERS; o++)
		ck_assert_double_eq_tol(jumped.reading.breakdown_ms[o], out.reading.breakdown_ms[o],
					1e-5 * out.iteration_ms);
	for (size_t c = 0; c < out.reading.n_classes; c++)
		ck_assert_double_eq_tol(jumped.reading.classes[c].busy_ms,
					out.reading.classes[c].busy_ms, 1e-3 * out.iteration_ms);
}

/* Neither for splits at random. */
LOOP_TEST(a_jump_changes_nothing_at_random, 13)
{
	static const char *const KINDS[] = {
		"gpipe",  "breadth-first", "1f1b",    "interleaved", "zb-h1",    "zb-h2",    "zb-v",
		"v-half", "v-min",         "chimera", "hanayo",      "dualpipe", "dualpipev"};
	static const int CHUNKS[] = {1, 2, 1, 2, 1, 1, 2, 2, 2, 1, 1, 1, 2};
	static const char *const SOFTWARE[] = {"megatron-lm", "nemo", "megatron-deepspeed",
					       "default"};
	struct sc_rng rng;

	sc_rng_init(&rng, (uint64_t)_i + 500);
	for (int i = 0; i < 10; i++) {
		int pp = 2 << sc_rng_below(&rng, 3), chunks = CHUNKS[_i];
		int layers = 2 * pp * chunks + (int)sc_rng_below(&rng, 8);
		int batch = 4 * pp * (2 + (int)sc_rng_below(&rng, 12));
		struct sc_predict_opts opts;
		struct sc_prediction jumped;
		char text[256];

		snprintf(text, sizeof(text),
			 "gpus=%d parallel.pp=%d parallel.schedule=%s parallel.virtual_stages=%d "
			 "model.layers=%d training.global_batch=%d training.software=%s",
			 pp, pp, KINDS[_i], chunks, layers, batch, SOFTWARE[sc_rng_below(&rng, 4)]);
		sc_predict_opts_init(&opts);
		jumped = *predict(&opts, text);
		opts.no_jump = true;
		predict(&opts, text);
		ck_assert_msg(fabs(jumped.iteration_ms / out.iteration_ms - 1) < 1e-9,
			      "%.12g, not %.12g: %s", jumped.iteration_ms, out.iteration_ms, text);
	}
}

/* Neither beside copies of all that training.offload may move, at rates from less than a pass needs
 * to more. */
LOOP_TEST(a_jump_changes_nothing_beside_copies, 14)
{
	static const char *const KINDS[] = {"gpipe", "1f1b",         "interleaved", "breadth-first",
					    "zb-h1", "zb-h2",        "zb-v",        "v-half",
					    "v-min", "chimera",      "hanayo",      "gems",
					    "1f1b",  "pipedream-2bw"};
	static const char *const HOW[] = {"training.software=megatron-lm",
					  "training.software=default",
					  "training.software=megatron-core parallel.sharding=zero1",
					  "training.software=torchtitan parallel.sharding=zero3"};
	static const char *const TIERS[] = {"none", "cpu", "cpu", "nvme"};
	static const int GB_S[] = {2, 8, 13, 30, 60};
	struct sc_rng rng;
	int n_jumped = 0;

	sc_rng_init(&rng, (uint64_t)_i + 900);
	for (int i = 0; i < 12; i++) {
		int pp = 2 + 2 * (int)sc_rng_below(&rng, 4), dp = 1 + (int)sc_rng_below(&rng, 2);
		const char *gradients = PICK(&rng, TIERS), *activations = PICK(&rng, TIERS);
		const char *weights = PICK(&rng, TIERS);
		int ahead = (int)sc_rng_below(&rng, 2), gb_s = PICK(&rng, GB_S);
		const char *how = PICK(&rng, HOW);
		int batches = 8 + (int)sc_rng_below(&rng, 8), each = 1 + (int)sc_rng_below(&rng, 2);
		struct sc_predict_opts opts;
		struct sc_prediction jumped;
		char text[1024];

		snprintf(
			text, sizeof(text),
			"gpus=%d parallel.pp=%d parallel.schedule=%s%s model.layers=%d "
			"training.global_batch=%d training.micro_batch=1 %s cluster.host_link_gbps=%d cluster.ssd_read_gbps=200 "
			"cluster.ssd_write_gbps=20 training.offload.prefetch_layers=%d "
			"training.offload.weights=%s training.offload.activations=%s "
			"training.offload.gradients=%s training.offload.optimizer=%s",
			pp * dp, pp, KINDS[_i],
			_i == 2 || _i == 3 ? " parallel.virtual_stages=2" : "",
			2 * pp * each + (_i == 12), dp * pp * batches, how, gb_s, ahead, weights,
			activations, gradients, strcmp(gradients, "none") == 0 ? "cpu" : gradients);
		sc_predict_opts_init(&opts);
		jumped = *predict(&opts, text);
		opts.no_jump = true;
		predict(&opts, text);
		n_jumped += jumped.n_nodes < out.n_nodes;
		ck_assert_msg(fabs(jumped.iteration_ms / out.iteration_ms - 1) < 1e-9,
			      "%.12g, not %.12g: %s", jumped.iteration_ms, out.iteration_ms, text);
	}
	ck_assert_int_ge(
		n_jumped,
		_i == 13 ? 1 : 4); /* one that never drains jumps where all stages are as one */
}

/* The order that a predictor found for a request is that of the next one only where it would be
 * found again. */
LOOP_TEST(orders_of_one_request_after_another, 3)
{
	static const char *const KINDS[] = {"chimera", "hanayo", "gems"};
	struct sc_predictor *shared = predictor;
	struct sc_predict_opts opts;
	struct sc_rng rng;

	sc_rng_init(&rng, (uint64_t)_i + 1300);
	sc_predict_opts_init(&opts);
	for (int i = 0; i < 20; i++) {
		static const char *const RECOMPUTE[] = {"none", "selective", "full"};
		int pp = 4 << sc_rng_below(&rng, 2);
		char text[256];
		double after_others;

		snprintf(text, sizeof(text),
			 "gpus=%d parallel.pp=%d parallel.schedule=%s training.recompute=%s "
			 "training.global_batch=%d model.seq=%d",
			 pp, pp, KINDS[_i], PICK(&rng, RECOMPUTE),
			 2 * pp * (1 + (int)sc_rng_below(&rng, 12)), 1024 << sc_rng_below(&rng, 3));
		after_others = predict(&opts, text)->iteration_ms;
		predictor = sc_predictor_create();
		predict(&opts, text);
		sc_predictor_destroy(predictor);
		predictor = shared;
		ck_assert_msg(fabs(after_others / out.iteration_ms - 1) < 1e-12,
			      "%.12g, not %.12g: %s", after_others, out.iteration_ms, text);
	}
}

/* Neither where 16 stages differ by a layer: a run of few micro-batches shows what 256 do. */
LOOP_TEST(a_jump_from_few_micro_batches, 7 * 2)
{
	static const char *const KINDS[] = {"gpipe",  "1f1b",  "zb-h1",   "zb-v",
					    "v-half", "v-min", "dualpipe"};
	static const int LAYERS[] = {62, 37};
	struct sc_predict_opts opts;
	struct sc_prediction jumped;
	char text[256];

	sc_predict_opts_init(&opts);
	snprintf(text, sizeof(text),
		 "gpus=16 parallel.pp=16 training.global_batch=512 parallel.schedule=%s "
		 "model.layers=%d training.software=megatron-lm-2023",
		 KINDS[_i / 2], LAYERS[_i % 2]);
	jumped = *predict(&opts, text);
	opts.no_jump = true;
	predict(&opts, text);
	ck_assert_uint_lt(4 * jumped.n_nodes, out.n_nodes);
	ck_assert_double_eq_tol(jumped.iteration_ms, out.iteration_ms, 1e-9 * out.iteration_ms);
	ck_assert_double_eq_tol(jumped.memory.total_gib, out.memory.total_gib, 1e-9);
	for (int o = 0; o < SC_N_OWNERS; o++)
		ck_assert_double_eq_tol(jumped.reading.breakdown_ms[o], out.reading.breakdown_ms[o],
					1e-5 * out.iteration_ms);
}

/* One round of interleaving shows what the others do: of 512 micro-batches 64 are run. */
TEST(a_jump_from_a_round)
{
	const char *text = "gpus=16 parallel.pp=16 parallel.schedule=interleaved model.layers=64 "
			   "parallel.virtual_stages=2 training.global_batch=1024 "
			   "training.software=megatron-lm-2023";
	struct sc_predict_opts opts;
	struct sc_prediction jumped;

	sc_predict_opts_init(&opts);
	jumped = *predict(&opts, text);
	opts.no_jump = true;
	predict(&opts, text);
	ck_assert_uint_lt(7 * jumped.n_nodes, out.n_nodes);
	ck_assert_double_eq_tol(jumped.iteration_ms, out.iteration_ms, 1e-9 * out.iteration_ms);
}

/* Neither where a chunk's gradients are reduced for longer than few passes of the next one take. */
LOOP_TEST(a_jump_beside_reductions, 24)
{
	static const char *const SOFTWARE[] = {"default", "nemo"};
	struct sc_predict_opts opts;
	int pp = _i % 2 ? 4 : 2, dp = _i / 2 % 2 ? 8 : 2, gbit_s = 5 << 2 * (_i / 4 % 3);
	char text[512];
	double jumped;

	sc_predict_opts_init(&opts);
	snprintf(text, sizeof(text),
		 "gpus=%d cluster.gpus_per_node=1 cluster.nics_per_node=1 cluster.nic_gbit_s=%d "
		 "parallel.pp=%d parallel.schedule=breadth-first parallel.virtual_stages=2 "
		 "model.layers=%d training.global_batch=%d training.software=%s",
		 pp * dp, gbit_s, pp, 4 * pp + 1, 2 * dp * 32, SOFTWARE[_i / 12]);
	jumped = predict(&opts, text)->iteration_ms;
	opts.no_jump = true;
	predict(&opts, text);
	ck_assert_double_eq_tol(jumped, out.iteration_ms, 1e-9 * out.iteration_ms);
}

/* Nor where a stage waits for outputs that come round, which it does not in a longer run. */
TEST(a_jump_over_rounds)
{
	struct sc_predict_opts opts;
	double jumped;
	const char *text =
		"gpus=192 cluster.gpus_per_node=8 cluster.nics_per_node=8 cluster.nic_gbit_s=200 "
		"model=models/deepseek-v4-pro.yaml model.seq=2048 parallel.pp=16 parallel.dp=12 "
		"parallel.ep=4 parallel.schedule=breadth-first parallel.virtual_stages=2 "
		"parallel.sharding=zero3 training.global_batch=1536 training.precision=fp16 "
		"training.software=torchrec";

	sc_predict_opts_init(&opts);
	jumped = predict(&opts, text)->iteration_ms;
	opts.no_jump = true;
	predict(&opts, text);
	ck_assert_double_eq_tol(jumped, out.iteration_ms, 1e-9 * out.iteration_ms);
}

/* One replica has nothing to shard, and a host that waits for transfers waits for them. */
LOOP_TEST(one_replica_shards_nothing, 2)
{
	struct sc_predict_opts opts;
	char text[256];
	double none;

	sc_predict_opts_init(&opts);
	snprintf(text, sizeof(text),
		 "parallel.schedule=1f1b model.hidden=512 model.heads=8 training.global_batch=32 "
		 "training.software=megatron-bridge c3.policy=serial parallel.sharding=");
	none = predict(&opts, strcat(text, "none"))->iteration_ms;
	strcpy(strstr(text, "none"), _i ? "zero3" : "zero2");
	predict(&opts, text);
	ck_assert_double_eq_tol(out.iteration_ms, none, 1e-9 * none);
}

#define MIXTURE                                                                              \
	"gpus=32 parallel.ep=8 cluster.gpu=h100-sxm-80gb model.family=moe model.experts=32 " \
	"model.top_k=4 model.expert_ffn_hidden=1024"
static const char *const PAIRS[] = {
	"training.moe_dispatcher=deepep",
	"training.moe_dispatcher=all_to_all",
	"training.moe_dispatcher=deepep training.software=megatron-bridge",
	"training.moe_dispatcher=deepep c3.policy=reserve:20",
	"model.dense_layers=5 model.vocab=200000",
};
enum { N_PAIRS = sizeof(PAIRS) / sizeof(PAIRS[0]) };
static const char *const DUAL[] = {"dualpipe", "dualpipev"};

/* Passes are as slow beside gradients that each backward reduces as their ops are. */
LOOP_TEST(gradients_of_each_pass, 4)
{
	static const char *const SCHEDULES[] = {"1f1b", "zb-v", "dualpipev", "v-min"};
	struct sc_predict_opts opts;
	char text[512];
	double coarse;

	sc_predict_opts_init(&opts);
	snprintf(
		text, sizeof(text),
		"gpus=16 cluster.gpu=b200-sxm-180gb model.family=moe model.layers=8 "
		"model.experts=160 model.top_k=6 model.expert_ffn_hidden=1536 model.hidden=5120 "
		"model.heads=40 model.seq=4096 training.global_batch=128 parallel.sharding=zero2 parallel.schedule=%s",
		SCHEDULES[_i]);
	coarse = predict(&opts, text)->iteration_ms;
	opts.detail = SC_DETAIL_FULL;
	ck_assert_double_eq_tol(coarse, predict(&opts, text)->iteration_ms, 0.01 * coarse);
}

static bool warned_of(const char *words)
{
	bool warned = false;

	for (size_t i = 0; i < out.warnings.n; i++)
		warned |= strstr(out.warnings.text[i], words) != NULL;
	return warned;
}

/* training.moe_overlap hides exchanges, too, where gradients of each pass are reduced and no passes
 * are pairs; without it nothing does, which is said. */
LOOP_TEST(overlap_without_pairs, 2)
{
	struct sc_predict_opts opts;
	char text[512];
	double ms[2];

	sc_predict_opts_init(&opts);
	for (int i = 0; i < 2; i++) {
		snprintf(text, sizeof(text),
			 MIXTURE " parallel.schedule=%s training.global_batch=160 "
				 "parallel.sharding=zero2 training.moe_overlap=%s",
			 DUAL[_i], i ? "true" : "false");
		ms[i] = predict(&opts, text)->iteration_ms;
		ck_assert_int_eq(warned_of("passes run one by one"), i == 0);
	}
	ck_assert_double_lt(ms[1], 0.99 * ms[0]);
}

/* Kernels of exchanges on few SMs are slow; on many the rest has none. */
LOOP_TEST(reserved_for_exchanges, 2)
{
	static const int SMS[] = {2, 20, 100};
	struct sc_predict_opts opts;
	char text[512];
	double ms[3];

	sc_predict_opts_init(&opts);
	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof(text),
			 MIXTURE " parallel.schedule=%s training.global_batch=160 "
				 "training.moe_dispatcher=deepep c3.policy.ep=reserve:%d",
			 _i ? "dualpipe" : "1f1b", SMS[i]);
		ms[i] = predict(&opts, text)->iteration_ms;
	}
	ck_assert_double_gt(ms[0], 1.05 * ms[1]);
	ck_assert_double_gt(ms[2], 1.05 * ms[1]);
}

/* Of 160 sequences more. */
static double exposed_of_more(const char *schedule, const char *more)
{
	struct sc_predict_opts opts;
	char text[512];
	double ms[2];

	sc_predict_opts_init(&opts);
	for (int i = 0; i < 2; i++) {
		snprintf(text, sizeof(text),
			 MIXTURE " parallel.schedule=%s training.global_batch=%d %s", schedule,
			 160 + 160 * i, more);
		ms[i] = predict(&opts, text)->reading.breakdown_ms[SC_OWN_COMM];
	}
	return ms[1] - ms[0];
}

/* Passes beside each other hide most of their exchanges. */
LOOP_TEST(pairs_hide_exchanges, 2 * N_PAIRS)
{
	double alone = exposed_of_more("1f1b", PAIRS[_i / 2]),
	       pairs = exposed_of_more(DUAL[_i % 2], PAIRS[_i / 2]);

	ck_assert_msg(pairs < 0.5 * alone, "%s, %s: %g of %g ms", DUAL[_i % 2], PAIRS[_i / 2],
		      pairs, alone);
}

/* By c3.policy.ep serial they hide none of them: as much shows as of passes one by one, op by op,
 * too. */
LOOP_TEST(pairs_in_turn, 2)
{
	static const char *const serial = "training.moe_dispatcher=deepep c3.policy.ep=serial";
	struct sc_predict_opts opts;
	char text[512];
	double coarse;
	double alone = exposed_of_more("1f1b", serial), pairs = exposed_of_more(DUAL[_i], serial);

	ck_assert_double_eq_tol(pairs, alone, 0.1 * alone);
	sc_predict_opts_init(&opts);
	snprintf(text, sizeof(text), MIXTURE " parallel.schedule=%s training.global_batch=160 %s",
		 DUAL[_i], serial);
	coarse = predict(&opts, text)->iteration_ms;
	opts.detail = SC_DETAIL_FULL;
	ck_assert_double_eq_tol(predict(&opts, text)->iteration_ms, coarse, 5e-3 * coarse);
}

/* A jump over their steady state, and each op apart, say the same, with a last micro-batch that is
 * smaller, too. */
LOOP_TEST(pairs_agree, 4 * N_PAIRS)
{
	struct sc_predict_opts opts;
	struct sc_prediction jumped;
	char text[512];

	sc_predict_opts_init(&opts);
	snprintf(text, sizeof(text), MIXTURE " parallel.schedule=%s training.global_batch=%d %s",
		 DUAL[_i % 2], _i / 2 % 2 ? 310 : 320, PAIRS[_i / 4]);
	jumped = *predict(&opts, text);
	opts.no_jump = true;
	predict(&opts, text);
	ck_assert_double_eq_tol(jumped.iteration_ms, out.iteration_ms, 1e-6 * out.iteration_ms);
	opts.detail = SC_DETAIL_FULL;
	predict(&opts, text);
	ck_assert_double_eq_tol(jumped.iteration_ms, out.iteration_ms, 5e-3 * out.iteration_ms);
	for (int o = 0; o < SC_N_OWNERS; o++)
		ck_assert_double_eq_tol(jumped.reading.breakdown_ms[o], out.reading.breakdown_ms[o],
					0.025 * out.iteration_ms);
}

/* A slow rank has the order of the others of its groups: no wait cycle, and what it takes is the
 * whole's. */
LOOP_TEST(pairs_of_a_slow_rank, 6)
{
	struct sc_predict_opts opts;
	int64_t rank = 5 + 9 * _i;
	char text[512];
	double coarse;

	slow = (struct sc_straggler){.ranks = {.at = &rank, .n = 1}, .slowdown = 1.3};
	sc_predict_opts_init(&opts);
	snprintf(text, sizeof(text),
		 MIXTURE " parallel.schedule=%s training.global_batch=160 parallel.tp=2 gpus=64",
		 DUAL[_i % 2]);
	coarse = predict(&opts, text)->iteration_ms;
	opts.detail = SC_DETAIL_FULL;
	predict(&opts, text);
	ck_assert_double_eq_tol(coarse, out.iteration_ms, 0.02 * out.iteration_ms);
}

/* The breakdown is of the longest stage and sums to the iteration. */
LOOP_TEST(breakdown_sums, N_NAMES)
{
	char text[128];
	struct sc_predict_opts opts;
	const struct sc_prediction *p;
	double sum = 0;

	sc_predict_opts_init(&opts);
	snprintf(text, sizeof(text), "training.global_batch=96 parallel.schedule=%s", NAMES[_i]);
	p = predict(&opts, text);
	for (int o = 0; o < SC_N_OWNERS; o++)
		sum += p->reading.breakdown_ms[o];
	ck_assert_double_eq_tol(sum, p->iteration_ms, 1e-6 * p->iteration_ms);
}

/* No schedule that fits takes less than the one chosen. */
LOOP_TEST(auto_takes_the_least, N_NAMES)
{
	char text[128];
	struct sc_predict_opts opts;
	double least;

	sc_predict_opts_init(&opts);
	least = predict(&opts, "training.global_batch=64 parallel.schedule=auto " ALL)
			->iteration_ms;
	ck_assert(out.memory.total_gib <= out.memory.capacity_gib);
	ck_assert(strstr(out.warnings.text[0], "parallel.schedule auto: "));
	snprintf(text, sizeof(text), "training.global_batch=64 parallel.schedule=%s", NAMES[_i]);
	predict(&opts, text);
	ck_assert(out.memory.total_gib > out.memory.capacity_gib || out.iteration_ms >= least);
}

/* Of those that do not fit, the one that needs least; what is given stays. */
TEST(auto_without_memory)
{
	struct sc_predict_opts opts;
	double least;

	sc_predict_opts_init(&opts);
	least = predict(&opts,
			"training.global_batch=64 parallel.schedule=auto " ALL " model.seq=32768")
			->memory.total_gib;
	ck_assert(least > out.memory.capacity_gib);
	predict(&opts, "training.global_batch=64 parallel.schedule=zb-2p model.seq=32768");
	ck_assert(out.memory.total_gib > least);
}

/* Without a word about it, what the software runs. */
TEST(auto_among_those_of_the_software)
{
	struct sc_predict_opts opts;

	sc_predict_opts_init(&opts);
	predict(&opts, "training.global_batch=64 parallel.schedule=auto");
	ck_assert(strstr(out.warnings.text[0], "auto: interleaved with "));
	predict(&opts, "training.global_batch=64 parallel.schedule=auto "
		       "parallel.auto_among=[1f1b,zb-h1]");
	ck_assert(strstr(out.warnings.text[0], "auto: zb-h1; 1f1b would take "));
}

/* A file with the order of a named schedule is that one, whatever the software waits for. */
LOOP_TEST(a_file_is_the_named_schedule, 6 * 3)
{
	static const struct {
		const char *name;
		int virtual_stages;
		enum sc_schedule kind;
	} NAMED[] = {{"1f1b", 1, SC_SCHED_1F1B},
		     {"gpipe", 1, SC_SCHED_GPIPE},
		     {"zb-h1", 1, SC_SCHED_ZB_H1},
		     {"zb-h2", 1, SC_SCHED_ZB_H2},
		     {"interleaved", 2, SC_SCHED_INTERLEAVED},
		     {"breadth-first", 2, SC_SCHED_BREADTH_FIRST}};
	static const char *const SOFTWARE[] = {"megatron-lm", "megatron-core", "torchtitan"};
	const struct sc_schedule_shape shape = {.kind = NAMED[_i / 3].kind,
						.pp = 4,
						.virtual_stages =
							(uint32_t)NAMED[_i / 3].virtual_stages,
						.micro_batches = 8};
	struct sc_predict_opts opts;
	struct sc_stage_map map;
	struct sc_passes passes;
	char text[200], path[] = "/tmp/stepcast-XXXXXX", csv[40];
	FILE *file = fdopen(mkstemp(path), "w");
	double named_ms;

	sc_stage_map_init(&shape, &arena, &map);
	sc_passes_build(&shape, &map, &arena, &passes);
	sc_schedule_file_write(&passes, NULL, file);
	fclose(file);
	snprintf(csv, sizeof(csv), "%s.csv", path);
	ck_assert_int_eq(rename(path, csv), 0);
	sc_predict_opts_init(&opts);
	snprintf(text, sizeof(text),
		 "training.global_batch=16 training.software=%s parallel.virtual_stages=%d "
		 "parallel.schedule=%s",
		 SOFTWARE[_i % 3], NAMED[_i / 3].virtual_stages, NAMED[_i / 3].name);
	named_ms = predict(&opts, text)->iteration_ms;
	snprintf(strrchr(text, '=') + 1, sizeof(csv), "%s", csv);
	ck_assert_double_eq_tol(predict(&opts, text)->iteration_ms, named_ms, 1e-9 * named_ms);
	remove(csv);
}

/* The optimizer's validation before the step waits for all stages. */
/* Without a flush an iteration has its passes, at the pace of the slowest stage, and one step: what
 * a batch more takes 1F1B that is twice as long; nothing is drained, of few micro-batches nor of
 * many. Two versions of weights. */
LOOP_TEST(two_versions_never_drain, 3 * 2)
{
	static const int batches[] = {8, 64, 1600};
	const int batch = batches[_i / 2];
	const char *how = _i % 2 ? " c3.policy=serial" : "";
	struct sc_predict_opts opts;
	char text[3][128];
	double twice, more, bubble;
	struct sc_prediction plain;

	sc_predict_opts_init(&opts);
	for (int i = 0; i < 3; i++)
		snprintf(text[i], sizeof(text[i]),
			 "training.global_batch=%d parallel.schedule=%s%s", (i + 1) * batch,
			 i ? "1f1b" : "pipedream-2bw", how);
	more = predict(&opts, text[2])->iteration_ms;
	plain = *predict(&opts, text[1]);
	twice = predict(&opts, text[0])->iteration_ms;
	ck_assert_double_eq_tol(out.memory.weights_gib, 2 * plain.memory.weights_gib, 1e-9);
	bubble = out.reading.breakdown_ms[SC_OWN_BUBBLE];
	ck_assert_double_le(bubble, 0.1 * plain.reading.breakdown_ms[SC_OWN_BUBBLE]);
	ck_assert_double_ge(twice, more - plain.iteration_ms + 50); /* the step */
	ck_assert_double_le(twice, more - plain.iteration_ms + 70);
	opts.no_jump = true;
	ck_assert_double_eq_tol(predict(&opts, text[0])->iteration_ms, twice, 1e-6 * twice);
	opts.no_jump = false;
}

TEST(validation_before_takes_longer)
{
	struct sc_predict_opts opts;
	double after, before;

	sc_predict_opts_init(&opts);
	after = predict(&opts, "training.global_batch=32 parallel.schedule=zb-h2")->iteration_ms;
	before = predict(&opts, "training.global_batch=32 parallel.schedule=zb-h2 "
				"parallel.optimizer_validation=before")
			 ->iteration_ms;
	ck_assert_double_gt(before, after);
}

/* A large vocabulary holds up the last stage; in shares it does not, and its logits are spread. */
TEST(shares_of_the_vocabulary)
{
	struct sc_predict_opts opts;
	struct sc_memory whole;
	double whole_ms;

	sc_predict_opts_init(&opts);
	whole_ms = predict(&opts, "training.global_batch=64 model.vocab=256000")->iteration_ms;
	whole = out.memory;
	predict(&opts, "training.global_batch=64 model.vocab=256000 parallel.vocab_stages=vocab-2");
	ck_assert_double_lt(out.iteration_ms, 0.95 * whole_ms);
	ck_assert_double_lt(out.memory.weights_gib, whole.weights_gib);
}

/* A drawn stage holds at its peak what it was found to need, though gradients of weights come after
 * those of inputs. */
LOOP_TEST(a_drawn_stage_holds_what_it_needs, 3)
{
	static const char *const SCHEDULES[] = {
		"zb-h2", "zb-v parallel.virtual_stages=2",
		"v-half parallel.virtual_stages=2 training.recompute=full"};
	char text[128];
	struct sc_predict_opts opts;
	struct sc_schedule_play play;
	double most_gib = 0;

	sc_predict_opts_init(&opts);
	opts.keep_graph = true;
	snprintf(text, sizeof(text), "training.global_batch=32 parallel.schedule=%s",
		 SCHEDULES[_i]);
	predict(&opts, text);
	ck_assert(sc_predictor_play(predictor, &arena, &play));
	for (uint32_t s = 0; s < play.passes->map->pp; s++)
		most_gib = fmax(most_gib, play.peak[s]);
	ck_assert_double_eq_tol(most_gib, out.memory.total_gib, 1e-9 * most_gib);
}
