/* Whole predictions: coarse against full detail, the steady-state jump against the whole run,
 * folded against unfolded, and what must not change a prediction. */
#include "base/rng.h"
#include "request_fixture.h"
#include "runner.h"

/* "key=value key=value ..." over a small GPT on A100s. */
static struct sc_request *make_request(const char *overrides)
{
	return request_of(
		"model.family=gpt cluster.gpu=a100-sxm-80gb cluster.gpus_per_node=8 "
		"cluster.nics_per_node=8 cluster.nic_gbit_s=200 model.hidden=2048 model.heads=16 "
		"model.seq=1024 model.vocab=51200 training.precision=fp16 training.recompute=full "
		"training.attention=unfused training.software=megatron-lm",
		overrides);
}

static struct sc_prediction *run(const struct sc_request *req, const struct sc_predict_opts *opts)
{
	return predict_request(req, opts);
}

static struct sc_predict_opts defaults(void)
{
	struct sc_predict_opts opts;

	sc_predict_opts_init(&opts);
	return opts;
}

static const char *const COARSE_CASES[] = {
	/* plain pipeline */
	"gpus=4 model.layers=16 parallel.pp=4 training.global_batch=16 training.micro_batch=2",
	/* interleaved */
	"gpus=8 model.layers=16 parallel.tp=2 parallel.pp=4 parallel.virtual_stages=2 "
	"training.global_batch=16 training.micro_batch=1",
	/* only experts have replicas, whose gradients are reduced beside products that the memory
	   bounds */
	"gpus=16 model=models/qwen3-30b-a3b.yaml model.layers=16 parallel.tp=8 parallel.pp=2 "
	"parallel.etp=1 cluster.gpu=h100-sxm-80gb training.global_batch=1 training.precision=bf16 "
	"training.micro_batch=1 training.software=megatron-core training.cuda_graphs=true "
	"training.recompute=none training.routing=balanced",
	/* uneven stages */
	"gpus=4 model.layers=14 parallel.pp=4 parallel.stage_layers=3,2,6,3 training.global_batch=12 "
	"training.micro_batch=1",
	/* overlapped gradient reduction */
	"gpus=16 model.layers=12 parallel.dp=16 training.global_batch=64 training.micro_batch=2 "
	"training.software=default training.recompute=none",
	/* ZeRO-1 */
	"gpus=16 model.layers=8 parallel.tp=2 parallel.pp=2 parallel.dp=4 parallel.sharding=zero1 "
	"training.global_batch=32 training.micro_batch=2",
	/* the host bounds it */
	"gpus=2 model.layers=12 model.hidden=512 parallel.dp=2 training.global_batch=16 "
	"training.micro_batch=1 training.software=megatron-deepspeed",
	/* tensor-parallel groups straddle nodes */
	"gpus=24 model.layers=8 model.hidden=3072 model.heads=24 parallel.tp=3 parallel.dp=8 "
	"cluster.gpus_per_node=8 model.ffn_hidden=12288 training.global_batch=16 training.micro_batch=1",
	/* GPipe, several stages a node, no synchronisation with the host */
	"gpus=8 model.layers=8 parallel.tp=2 parallel.pp=4 parallel.schedule=gpipe "
	"training.global_batch=8 training.micro_batch=1 training.software=default",
	/* sharded weights */
	"gpus=16 model.layers=6 parallel.dp=16 parallel.sharding=zero3 training.global_batch=32 "
	"training.micro_batch=2 training.software=deepspeed-zero3",
	/* partial last micro-batch */
	"gpus=2 model.layers=6 parallel.pp=2 training.global_batch=7 training.micro_batch=2",
	/* FSDP with prefetch, overlapped reduction */
	"gpus=16 model.family=llama model.layers=6 model.hidden=4096 model.heads=32 model.seq=4096 "
	"parallel.sharding=fsdp training.global_batch=32 "
	"training.micro_batch=1 training.recompute=none training.attention=flash "
	"training.software=torchtitan",
	/* FSDP under a pipeline, groups that straddle nodes */
	"gpus=24 model.family=llama model.layers=8 parallel.tp=3 model.heads=24 model.hidden=3072 "
	"parallel.sequence_parallel=false model.kv_heads=24 parallel.pp=2 parallel.sharding=fsdp training.global_batch=16 "
	"training.micro_batch=1 training.attention=flash training.software=torchtitan",
	/* the same with a host that waits for transfers */
	"gpus=12 model.layers=6 model.hidden=512 model.heads=8 parallel.pp=3 parallel.sharding=zero3 "
	"training.global_batch=8 training.micro_batch=1 training.software=hf-pytorch",
	/* weights, or gradients alone, move for every micro-batch of a pipeline */
	"gpus=12 model.layers=6 model.hidden=512 model.heads=8 parallel.pp=3 parallel.sharding=zero3 "
	"training.global_batch=16 training.micro_batch=1 training.software=megatron-core",
	"gpus=12 model.layers=6 model.hidden=512 model.heads=8 parallel.pp=3 parallel.sharding=zero2 "
	"training.global_batch=16 training.micro_batch=1 training.software=megatron-core",
	/* HSDP: shards on a node, copies on others */
	"gpus=32 model.family=mpt model.layers=6 parallel.sharding=fsdp parallel.shard_ranks=8 "
	"training.global_batch=64 training.micro_batch=2 training.recompute=none "
	"training.attention=flash training.software=llm-foundry",
	/* sharded weights of more equal layers than are simulated alone; one chunk, several */
	"gpus=16 model.family=llama model.layers=23 model.hidden=4096 model.heads=32 model.seq=4096 "
	"parallel.sharding=fsdp training.global_batch=32 "
	"training.micro_batch=1 training.recompute=none training.attention=flash "
	"training.software=torchtitan",
	"gpus=8 model.family=llama model.layers=40 parallel.pp=2 parallel.virtual_stages=2 "
	"parallel.sharding=fsdp training.global_batch=16 training.micro_batch=1 "
	"training.attention=flash training.software=megatron-core",
	"gpus=16 model.layers=30 parallel.dp=16 parallel.sharding=zero3 training.global_batch=32 "
	"training.micro_batch=2 training.software=deepspeed-zero3",
	/* reductions that nothing waits for fall behind the blocks of the last backward pass */
	"gpus=16 model.family=llama model.layers=40 model.hidden=4096 model.heads=32 parallel.pp=2 "
	"parallel.sharding=fsdp cluster.nics_per_node=1 cluster.nic_gbit_s=50 cluster.gpus_per_node=4 "
	"training.global_batch=16 training.micro_batch=1 training.attention=flash "
	"training.software=torchtitan",
	/* context parallelism, within a node and over nodes */
	"gpus=8 model.family=llama model.layers=6 parallel.tp=2 parallel.cp=4 model.seq=8192 "
	"training.global_batch=2 training.micro_batch=1 training.attention=flash "
	"training.software=megatron-core",
	"gpus=32 model.family=llama model.layers=6 parallel.cp=16 model.seq=16384 "
	"training.global_batch=4 training.micro_batch=1 training.attention=flash "
	"training.software=megatron-core",
	/* experts over nodes, first layers without, pipeline */
	"gpus=32 model.family=moe model.layers=8 model.dense_layers=1 model.experts=32 model.top_k=4 "
	"model.shared_experts=1 model.expert_ffn_hidden=1024 parallel.ep=16 parallel.pp=2 "
	"training.global_batch=64 training.micro_batch=1 training.attention=flash "
	"training.software=megatron-core",
	/* latent attention */
	"gpus=8 model.family=moe-mla model.layers=4 model.experts=16 model.top_k=2 "
	"model.expert_ffn_hidden=1024 parallel.ep=8 training.global_batch=16 training.micro_batch=1 "
	"training.attention=flash training.software=megatron-core",
	/* adapters alone are trained */
	"gpus=8 model.family=llama model.layers=6 parallel.tp=4 training.trainable=lora "
	"training.global_batch=8 training.micro_batch=1 training.attention=flash "
	"training.software=nemo",
	/* tensor-parallel collectives overlap their GEMMs */
	"gpus=8 model.family=llama model.layers=6 parallel.tp=8 parallel.tp_overlap=true "
	"parallel.sequence_parallel=true training.global_batch=4 training.micro_batch=2 "
	"training.attention=flash training.software=megatron-core",
	/* unpadded BERT, replayed launches, fp8 */
	"gpus=8 model.family=bert model.layers=6 training.unpadded=true training.fill_fraction=0.5 "
	"cluster.gpu=h100-sxm-80gb training.precision=fp8 training.cuda_graphs=true "
	"training.global_batch=64 training.micro_batch=4 training.recompute=none "
	"training.attention=flash training.software=nvidia-pytorch",
};
#define N_COARSE ((int)(sizeof(COARSE_CASES) / sizeof(COARSE_CASES[0])))

/* Each part of the breakdown, as a share of the iteration. */
static void check_parts(const struct sc_prediction *a, const struct sc_prediction *b,
			double tol_frac, const char *overrides)
{
	for (int o = 0; o < SC_N_OWNERS; o++) {
		const double x = a->reading.breakdown_ms[o] / a->iteration_ms;
		const double y = b->reading.breakdown_ms[o] / b->iteration_ms;

		ck_assert_msg(fabs(x - y) <= tol_frac, "%s: %.4f, %.4f of the iteration: %s",
			      sc_owner_names[o], x, y, overrides);
	}
}

static void check_sums(const struct sc_prediction *p, const char *overrides)
{
	double account_ms = 0, path_ms = 0, stretches_ms = 0;

	for (int o = 0; o < SC_N_OWNERS; o++) {
		ck_assert_double_ge(p->reading.breakdown_ms[o], -1e-9);
		account_ms += p->reading.breakdown_ms[o];
		path_ms += p->reading.path_owner_ms[o];
	}
	for (size_t i = 0; i < p->reading.n_path; i++)
		stretches_ms += p->reading.path[i].ms;
	ck_assert_msg(fabs(account_ms / p->iteration_ms - 1) < 1e-9, "parts: %s", overrides);
	ck_assert_msg(fabs(path_ms / p->iteration_ms - 1) < 1e-9, "path: %s", overrides);
	ck_assert_msg(fabs(stretches_ms / p->iteration_ms - 1) < 1e-9, "stretches: %s", overrides);
}

FIXTURE(requests_begin, requests_end)

LOOP_TEST(coarse_equals_full_detail, N_COARSE)
{
	struct sc_request *req = make_request(COARSE_CASES[_i]);
	struct sc_predict_opts opts = defaults();
	struct sc_prediction *coarse = run(req, &opts), *full;

	opts.detail = SC_DETAIL_FULL;
	full = run(req, &opts);
	ck_assert_msg(fabs(coarse->iteration_ms / full->iteration_ms - 1) < 0.01,
		      "coarse %.4f full %.4f: %s", coarse->iteration_ms, full->iteration_ms,
		      COARSE_CASES[_i]);
	check_sums(coarse, COARSE_CASES[_i]);
	check_sums(full, COARSE_CASES[_i]);
	check_parts(coarse, full, 0.02, COARSE_CASES[_i]);
}

/* A dispatcher that sends less, an exchange beside other work, and launches that are replayed take
 * no longer. */
static const char *const MOE_BETTER[][2] = {
	{"training.moe_dispatcher=all_to_all", "training.moe_dispatcher=deepep"},
	{"training.moe_dispatcher=deepep", "training.moe_dispatcher=deepep model.top_groups=4"},
	{"training.moe_dispatcher=deepep",
	 "training.moe_dispatcher=deepep training.moe_overlap=true"},
	{"training.cuda_graphs=false", "training.cuda_graphs=true"},
	{"training.cuda_graphs=[moe_router]", "training.cuda_graphs=true"},
	{"training.software=megatron-bridge", "training.software=megatron-bridge-26.06"},
};

LOOP_TEST(experts_gain_by_what_helps, N_OF(MOE_BETTER))
{
	struct sc_predict_opts opts = defaults();
	double ms[2];

	for (int i = 0; i < 2; i++)
		ms[i] = run(make_request(sc_arena_printf(
				    &arena,
				    "model.family=moe model.experts=64 model.expert_groups=8 "
				    "model.top_k=8 model.layers=4 model.expert_ffn_hidden=1024 gpus=32 "
				    "cluster.gpu=h100-sxm-80gb parallel.ep=32 training.global_batch=64 "
				    "training.micro_batch=2 training.attention=flash "
				    "training.software=megatron-bridge %s",
				    MOE_BETTER[_i][i])),
			    &opts)
				->iteration_ms;
	ck_assert_msg(ms[1] < ms[0], "%s: %g, %s: %g", MOE_BETTER[_i][0], ms[0], MOE_BETTER[_i][1],
		      ms[1]);
}

/* Tokens that are no multiple of 8, of a batch or of an expert, cost what tokens cost. */
static const char *const TOKEN_CASES[] = {
	"model.layers=4 gpus=1 training.global_batch=1 training.attention=flash",
	"model.layers=4 gpus=1 training.global_batch=1 training.attention=flash "
	"training.precision=fp8 cluster.gpu=h100-sxm-80gb",
	/* 4 experts a rank with 256 tokens each, then 255.9 */
	"model.family=moe model.experts=32 model.top_k=4 model.layers=4 model.expert_ffn_hidden=1024 "
	"gpus=8 parallel.ep=8 training.global_batch=8 training.attention=flash",
};
#define N_TOKENS ((int)(sizeof(TOKEN_CASES) / sizeof(TOKEN_CASES[0])))

LOOP_TEST(tokens_need_no_alignment, N_TOKENS)
{
	struct sc_predict_opts opts = defaults();
	double ms[3];

	for (int i = 0; i < 3; i++)
		ms[i] = run(make_request(sc_arena_printf(&arena, "model.seq=%d %s", 2047 + i,
							 TOKEN_CASES[_i])),
			    &opts)
				->iteration_ms;
	ck_assert_msg(ms[0] < 1.001 * ms[1] && ms[0] > 0.97 * ms[1], "2047: %g, 2048: %g", ms[0],
		      ms[1]);
	ck_assert_msg(ms[2] < 1.07 * ms[1], "2048: %g, 2049: %g", ms[1], ms[2]);
}

/* Parts of the breakdown differ by no more than a share of the iteration. */
static void check_jump_within(const char *overrides, bool must_skip, double parts_frac)
{
	struct sc_request *req = make_request(overrides);
	struct sc_predict_opts opts = defaults();
	struct sc_prediction *jump = run(req, &opts), *whole;

	opts.no_jump = true;
	whole = run(req, &opts);
	ck_assert_msg(jump->iteration_ms == whole->iteration_ms, "%.17g != %.17g: %s",
		      jump->iteration_ms, whole->iteration_ms, overrides);
	if (must_skip)
		ck_assert_uint_lt(jump->n_nodes, whole->n_nodes);
	check_sums(jump, overrides);
	check_sums(whole, overrides);
	check_parts(jump, whole, parts_frac, overrides);
}

static void check_jump(const char *overrides, bool must_skip)
{
	check_jump_within(overrides, must_skip, 1e-9);
}

TEST(jump_equals_whole_run)
{
	check_jump("gpus=8 model.layers=16 parallel.pp=8 training.global_batch=200 "
		   "training.micro_batch=1",
		   true);
	check_jump("gpus=8 model.layers=24 parallel.pp=4 parallel.tp=2 parallel.virtual_stages=3 "
		   "training.global_batch=256 training.micro_batch=1",
		   true);
	check_jump("gpus=1 model.layers=4 training.global_batch=300 training.micro_batch=1 "
		   "training.software=nemo",
		   true);
	check_jump("gpus=8 model.layers=11 parallel.pp=4 parallel.dp=2 training.global_batch=201 "
		   "training.micro_batch=1 training.software=nemo",
		   true);
	/* the host of the stage with the head sets the pace */
	check_jump("gpus=2 model.layers=12 model.hidden=512 model.heads=8 parallel.pp=2 "
		   "training.global_batch=200 training.micro_batch=1 training.software=nemo",
		   true);
	/* gathers hide behind waits of stages that are ahead, which grow through the run */
	check_jump_within("gpus=8 model.layers=24 model.hidden=512 model.heads=8 parallel.pp=4 "
			  "parallel.virtual_stages=2 parallel.sharding=fsdp "
			  "training.global_batch=256 training.micro_batch=1 "
			  "training.software=torchtitan",
			  true, 0.015);
	/* every micro-batch's gradients are reduced, and fall behind the passes */
	check_jump("gpus=16 model.layers=4 parallel.tp=2 parallel.dp=8 parallel.sharding=zero2 "
		   "cluster.nics_per_node=1 cluster.gpus_per_node=2 training.global_batch=640 "
		   "training.micro_batch=1 model.seq=128 training.software=nemo",
		   false);
	for (int zero = 2; zero <= 3; zero++) {
		char text[256];

		snprintf(text, sizeof(text),
			 "gpus=16 model.layers=8 parallel.pp=2 parallel.sharding=zero%d "
			 "training.global_batch=1280 training.micro_batch=1 model.seq=128 "
			 "training.software=megatron-core",
			 zero);
		check_jump(text, false);
	}
}

LOOP_TEST(jump_equals_whole_run_at_random, 5)
{
	static const char *const SOFTWARE[] = {"megatron-lm", "megatron-deepspeed",
					       "default training.precision=bf16"};
	struct sc_rng rng;

	sc_rng_init(&rng, (uint64_t)_i + 100);
	for (int i = 0; i < 20; i++) {
		char text[512];
		int pp = 1 << sc_rng_below(&rng, 4),
		    v = pp > 1 ? 1 + (int)sc_rng_below(&rng, 3) : 1;
		int layers = pp * v + (int)sc_rng_below(&rng, 8);
		int m = pp * (4 + (int)sc_rng_below(&rng, 24)) + (int)sc_rng_below(&rng, 2);

		snprintf(
			text, sizeof(text),
			"gpus=%d parallel.pp=%d parallel.dp=2 parallel.virtual_stages=%d model.layers=%d "
			"training.global_batch=%d training.micro_batch=1 training.software=%s "
			"model.hidden=%d",
			pp * 2, pp, v, layers, 2 * m, SOFTWARE[sc_rng_below(&rng, 3)],
			512 << sc_rng_below(&rng, 3));
		check_jump(text, false);
	}
}

static const char *const FOLD_CASES[] = {
	/* tensor parallelism smaller than a node */
	"gpus=16 model.layers=4 parallel.tp=2 parallel.pp=2 parallel.dp=4 training.global_batch=8 "
	"training.micro_batch=1 training.software=default",
	/* groups that straddle nodes */
	"gpus=12 model.layers=4 model.hidden=3072 model.heads=24 model.ffn_hidden=12288 parallel.tp=3 "
	"parallel.dp=4 cluster.gpus_per_node=4 cluster.nics_per_node=4 training.global_batch=4 "
	"training.micro_batch=1",
	/* eight data-parallel rings on four NICs */
	"gpus=32 model.layers=4 parallel.tp=8 parallel.dp=4 cluster.nics_per_node=4 "
	"training.global_batch=8 training.micro_batch=1 training.software=default",
	/* stages of one node share its NICs */
	"gpus=16 model.layers=8 parallel.tp=2 parallel.pp=4 parallel.dp=2 training.global_batch=8 "
	"training.micro_batch=1 cluster.nics_per_node=2",
};

LOOP_TEST(folded_equals_unfolded, 4)
{
	struct sc_request *req = make_request(FOLD_CASES[_i]);
	struct sc_predict_opts opts = defaults();
	struct sc_prediction *folded = run(req, &opts), *unfolded;

	opts.unfolded = true;
	unfolded = run(req, &opts);
	ck_assert_uint_lt(folded->n_nodes, unfolded->n_nodes);
	ck_assert_double_eq_tol(folded->iteration_ms, unfolded->iteration_ms,
				1e-9 * unfolded->iteration_ms);
}

TEST(two_runs_give_the_same_bytes)
{
	struct sc_request *req = make_request(COARSE_CASES[4]);
	struct sc_predict_opts opts = defaults();
	struct sc_prediction *first = run(req, &opts), *second;

	run(make_request(COARSE_CASES[1]), &opts); /* something else in between */
	second = run(req, &opts);
	ck_assert_int_eq(memcmp(first, second, sizeof(*first)), 0);
}

static const struct narrow {
	const char *precision, *model;
} NARROW[] = {
	{"fp8", "model.family=llama model.layers=12 parallel.pp=2"},
	{"mxfp8", "model.family=llama model.layers=12 parallel.pp=4 parallel.virtual_stages=3"},
	{"nvfp4", "model.family=llama model.layers=12 model.sliding_window=512 "
		  "model.full_attention_every=3 parallel.pp=2"},
	{"nvfp4", "model.family=moe model.layers=12 model.experts=8 model.top_k=2 "
		  "model.dense_layers=3 parallel.ep=8"},
	{"mxfp8", "model.family=llama model.layers_pattern=(2*gdn,attn)*4 model.layers=12 "
		  "model.gdn.value_heads=32 model.gdn.key_dim=128"},
};

/* Layers in bf16 beside narrow ones are those of the same model in bf16, at either end; each takes
 * as long or longer. */
LOOP_TEST(layers_in_bf16_are_those_of_bf16, N_OF(NARROW))
{
	static const char *const shape =
		"gpus=8 cluster.gpu=b200-sxm-180gb model.hidden=4096 model.heads=32 model.seq=4096 "
		"training.global_batch=16 training.micro_batch=1 training.software=megatron-core "
		"training.recompute=none training.attention=flash training.grad_bytes=4 "
		"training.cuda_graphs=true";
	struct sc_predict_opts opts = defaults();
	double last = 0, ms = 0;
	char text[768];

	for (int n = 0; n <= 12; n += 3) {
		snprintf(text, sizeof(text),
			 "%s %s training.precision=%s training.bf16_first_layers=%d "
			 "training.bf16_last_layers=%d",
			 shape, NARROW[_i].model, NARROW[_i].precision, n / 2, n - n / 2);
		ms = run(make_request(text), &opts)->iteration_ms;
		ck_assert_double_ge(ms, last);
		ck_assert(n != 12 || ms > last);
		last = ms;
	}
	snprintf(text, sizeof(text), "%s %s training.precision=bf16", shape, NARROW[_i].model);
	ck_assert_double_eq_tol(run(make_request(text), &opts)->iteration_ms, ms, 1e-6 * ms);
}

TEST(shorter_documents_never_take_longer)
{
	static const char *const tokens[] = {"8192", "4096", "3000", "1024", "1000", "200", "64"};
	struct sc_predict_opts opts = defaults();
	double last = HUGE_VAL;

	for (int i = 0; i < N_OF(tokens); i++) {
		char text[512];
		double ms;

		snprintf(
			text, sizeof(text),
			"gpus=8 cluster.gpu=h100-sxm-80gb model.family=llama model.layers=8 model.hidden=4096 "
			"model.heads=32 model.seq=4096 training.attention=flash training.global_batch=16 "
			"training.micro_batch=1 training.recompute=none training.software=megatron-core "
			"training.precision=bf16 training.document_tokens=%s",
			tokens[i]);
		ms = run(make_request(text), &opts)->iteration_ms;
		ck_assert_double_le(ms, last);
		ck_assert(i < 2 || ms < last);
		last = ms;
	}
}

TEST(faster_parts_never_slow_it_down)
{
	struct sc_request *req = make_request(COARSE_CASES[4]);
	struct sc_predict_opts opts = defaults();
	double base = run(req, &opts)->iteration_ms;
	double *speeds[] = {&opts.gemm_speed, &opts.hbm_speed, &opts.link_speed, &opts.nic_speed,
			    &opts.host_speed};

	for (int i = 0; i < 5; i++) {
		opts = defaults();
		*speeds[i] = 1.1;
		ck_assert_double_le(run(req, &opts)->iteration_ms, base);
	}
	opts = defaults();
	opts.gemm_speed = 1.1;
	ck_assert_double_lt(run(req, &opts)->iteration_ms, base);
}

TEST(a_straggler_slows_everybody)
{
	struct sc_request *even = make_request("gpus=8 model.layers=4 parallel.dp=8 "
					       "training.global_batch=16 training.micro_batch=1");
	struct sc_predict_opts opts = defaults();
	int64_t rank[] = {3};
	struct sc_straggler slow = {.ranks = {rank, 1}, .slowdown = 1.5};
	double base = run(even, &opts)->iteration_ms, with;

	even->config.stragglers = (struct sc_structs){&slow, 1};
	with = run(even, &opts)->iteration_ms;
	ck_assert_double_gt(with, 1.3 * base);
	ck_assert_double_lt(with, 1.5 * base);
}

TEST(memory_warns_when_it_does_not_fit)
{
	struct sc_request *req = make_request("gpus=1 model.layers=48 model.hidden=8192 "
					      "model.heads=64 training.global_batch=1 "
					      "training.micro_batch=1");
	struct sc_predict_opts opts = defaults();
	struct sc_prediction *out = run(req, &opts);
	bool warned = false;

	for (size_t i = 0; i < out->warnings.n; i++)
		warned |= strstr(out->warnings.text[i], "will not fit") != NULL;
	ck_assert(warned);
	ck_assert_double_gt(out->memory.total_gib, out->memory.capacity_gib);
	ck_assert_double_gt(out->iteration_ms, 0);
}

TEST(band_and_rates_are_sane)
{
	struct sc_request *req = make_request(COARSE_CASES[0]);
	struct sc_predict_opts opts = defaults();
	struct sc_prediction *out = run(req, &opts);

	ck_assert(out->low_ms < out->iteration_ms && out->iteration_ms < out->high_ms);
	ck_assert(out->mfu > 0 && out->mfu < 1);
	ck_assert_double_eq_tol(out->samples_per_s, 16 / (out->iteration_ms / 1e3), 1e-9);
	ck_assert_double_eq_tol(out->tokens_per_s, 1024 * out->samples_per_s, 1e-6);
	ck_assert_uint_gt(out->reading.n_contributors, 10);
	ck_assert_uint_gt(out->reading.n_path, 0);
}

/* 8,192 GPUs in domains of 56, which no group divides and of which no like part leaves few GPUs
 * idle: some dozens of kinds of ranks. It is predicted, twice alike, between the same in domains of
 * one node and in domains of 64. */
TEST(many_kinds_of_ranks)
{
#define KINDS                                                                                 \
	"gpus=8192 model.layers=32 model.heads=32 model.hidden=4096 cluster.gpus_per_node=4 " \
	"cluster.nics_per_node=4 parallel.tp=16 parallel.pp=8 parallel.cp=2 "                 \
	"training.global_batch=64 training.micro_batch=1 training.attention=flash "
	const struct sc_predict_opts opts = defaults();
	double node = run(make_request(KINDS), &opts)->iteration_ms;
	double even = run(make_request(KINDS "cluster.scale_up_gpus=64"), &opts)->iteration_ms;
	struct sc_prediction *some = run(make_request(KINDS "cluster.scale_up_gpus=56"), &opts);

	ck_assert_uint_gt(some->reading.n_classes, 16);
	ck_assert_double_gt(some->iteration_ms, even);
	ck_assert_double_lt(some->iteration_ms, node);
	ck_assert_double_eq(
		run(make_request(KINDS "cluster.scale_up_gpus=56"), &opts)->iteration_ms,
		some->iteration_ms);
	/* what was made for them does not reach the next request */
	ck_assert_double_eq(run(make_request(KINDS), &opts)->iteration_ms, node);
}

/* A whole NVLink domain wider than a host is one node to its groups. */
TEST(scale_up_domain_is_one_node)
{
	static const char COMMON[] = "gpus=32 cluster.gpu=gb200 model.layers=4 model.hidden=4096 "
				     "model.heads=32 parallel.tp=16 training.global_batch=4 "
				     "training.micro_batch=2 training.precision=bf16 "
				     "training.software=default";
	struct sc_predict_opts opts = defaults();
	char text[512];
	double host, domain, wide;

	snprintf(text, sizeof(text), "%s cluster.gpus_per_node=4 cluster.scale_up_gpus=4", COMMON);
	host = run(make_request(text), &opts)->iteration_ms;
	snprintf(text, sizeof(text), "%s cluster.gpus_per_node=4 cluster.scale_up_gpus=32", COMMON);
	domain = run(make_request(text), &opts)->iteration_ms;
	snprintf(text, sizeof(text), "%s cluster.gpus_per_node=32", COMMON);
	wide = run(make_request(text), &opts)->iteration_ms;
	ck_assert_double_lt(domain, 0.8 * host);
	ck_assert_double_eq_tol(domain, wide, 0.01 * wide);
}

static double count_of(const struct sc_prediction *p, const char *name)
{
	for (size_t i = 0; i < p->reading.n_contributors; i++)
		if (strcmp(p->reading.contributors[i].what, name) == 0)
			return p->reading.contributors[i].count;
	return 0;
}

/* Layers whose gradients are reduced one by one are told by their own kinds. */
TEST(contributors_of_unlike_layers)
{
	struct sc_request *req = make_request(
		"gpus=8 model.family=llama model.layers=12 model.layers_pattern=(3*gdn,attn)*3 "
		"model.gdn.key_heads=16 model.gdn.value_heads=16 model.gdn.key_dim=128 "
		"model.gdn.value_dim=128 model.gdn.conv=4 parallel.dp=8 training.global_batch=16 "
		"training.micro_batch=1 training.attention=flash training.recompute=none "
		"training.software=megatron-core");
	struct sc_predict_opts opts = defaults();
	struct sc_prediction *coarse = run(req, &opts), *full;

	opts.detail = SC_DETAIL_FULL;
	full = run(req, &opts);
	ck_assert_double_eq_tol(count_of(full, "linear attention gradient"), 2 * 9, 1e-9);
	ck_assert_double_eq_tol(count_of(coarse, "linear attention gradient"), 2 * 9, 1e-9);
	ck_assert_double_eq_tol(count_of(coarse, "flash attention gradient"), 2 * 3, 1e-9);
}

LOOP_TEST(contributors_stay_within_the_iteration, N_COARSE)
{
	struct sc_request *req = make_request(COARSE_CASES[_i]);
	struct sc_predict_opts opts = defaults();
	struct sc_prediction *out = run(req, &opts);
	double sum = 0;

	for (size_t i = 0; i < out->reading.n_contributors; i++)
		sum += out->reading.contributors[i].ms;
	/* Until experts' numbers of tokens are read, a host's wait lies beside the GPU's own work
	 * in part. */
	ck_assert_double_le(sum,
			    (req->software.host_sync_us > 0 ? 1.04 : 1.02) * out->iteration_ms);
	ck_assert_double_ge(sum, 0.6 * out->iteration_ms);
}

/* ZeRO-2 keeps a share of the gradients, so each micro-batch's are reduced; ZeRO-3 gathers weights,
 * too. */
TEST(sharding_costs_communication)
{
	static const char *const SHARDING[] = {"none", "zero2", "zero3"};
	struct sc_predict_opts opts = defaults();
	double before = 0;

	for (int i = 0; i < 3; i++) {
		char text[512];
		double comm;

		snprintf(
			text, sizeof(text),
			"gpus=16 model.layers=8 parallel.dp=16 parallel.sharding=%s "
			"training.global_batch=128 training.micro_batch=1 training.software=default",
			SHARDING[i]);
		comm = run(make_request(text), &opts)->reading.breakdown_ms[SC_OWN_COMM];
		ck_assert_msg(comm > before, "%s: %g <= %g ms", SHARDING[i], comm, before);
		before = comm;
	}
}

/* By software: once an iteration, ZeRO-2 and -3 cost what ZeRO-1 does, in time and in memory; for
 * every micro-batch, the more is sharded the longer it takes, and the less it needs. */
LOOP_TEST(sharding_with_stages_trades_time_for_memory, 2)
{
	static const char *const SHARDING[] = {"zero1", "zero2", "zero3"};
	bool each = _i;
	struct sc_predict_opts opts = defaults();
	double ms[3], gib[3];

	for (int i = 0; i < 3; i++) {
		char text[512];
		struct sc_prediction *p;

		snprintf(text, sizeof(text),
			 "gpus=64 model.layers=16 model.hidden=4096 model.heads=32 parallel.pp=4 "
			 "parallel.sharding=%s training.global_batch=512 training.micro_batch=2 "
			 "training.software=%s",
			 SHARDING[i], each ? "megatron-core" : "torchtitan");
		p = run(make_request(text), &opts);
		ms[i] = p->iteration_ms;
		gib[i] = p->memory.total_gib;
	}
	for (int i = 1; i < 3; i++) {
		ck_assert_double_ge(ms[i], (each ? 1.01 : 0.95) * ms[i - 1]);
		ck_assert_double_le(gib[i], (each ? 0.95 : 1.1) * gib[i - 1]);
		if (!each)
			ck_assert_double_le(ms[i], 1.1 * ms[i - 1]);
		if (!each)
			ck_assert_double_ge(gib[i], 0.85 * gib[i - 1]);
	}
}

TEST(throughput_counts_no_padding)
{
	struct sc_predict_opts opts = defaults();
	struct sc_prediction *padded, *unpadded;

	padded = run(
		make_request("gpus=8 model.family=bert model.layers=4 training.global_batch=64"),
		&opts);
	unpadded =
		run(make_request("gpus=8 model.family=bert model.layers=4 training.global_batch=64 "
				 "training.unpadded=true training.fill_fraction=0.5"),
		    &opts);
	ck_assert_double_eq_tol(padded->tokens_per_s, 1024 * padded->samples_per_s, 1e-6);
	ck_assert_double_eq_tol(unpadded->tokens_per_s, 512 * unpadded->samples_per_s, 1e-6);
	ck_assert_double_gt(unpadded->samples_per_s, 1.5 * padded->samples_per_s);
}

TEST(gradients_are_as_wide_as_the_weights)
{
	struct sc_predict_opts opts = defaults();
	struct sc_request *half = make_request(COARSE_CASES[0]);
	struct sc_request *full = make_request(COARSE_CASES[0]);
	struct sc_prediction *a, *b;

	full->config.training.precision = SC_P_FP32;
	a = run(half, &opts);
	b = run(full, &opts);
	ck_assert_double_eq_tol(sc_grad_bytes(half), 2, 1e-12);
	ck_assert_double_eq_tol(sc_grad_bytes(full), 4, 1e-12);
	ck_assert_double_gt(b->memory.weights_gib, 1.9 * a->memory.weights_gib);
}

TEST(absurd_sizes_are_refused)
{
	struct sc_request *req =
		make_request("gpus=8 model.layers=8 parallel.pp=8 "
			     "parallel.schedule=zb-2p training.global_batch=60000000 "
			     "training.micro_batch=1");
	struct sc_predict_opts opts = defaults();
	struct sc_prediction out;
	struct sc_err err = {0};

	ck_assert_int_eq(sc_predict(predictor, req, &opts, &out, &err), -SC_ELIMIT);
	ck_assert_ptr_nonnull(strstr(err.text, "graph nodes"));
}
