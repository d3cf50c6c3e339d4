/* Configs of Transformers at random: devices, networks, models, splits, software, as users may
 * write them. */
#pragma once

#include "base/rng.h"
#include "request_fixture.h"

#define PICK(rng, list) (list)[sc_rng_below(rng, sizeof(list) / sizeof((list)[0]))]

enum { RANDOM_TEXT = 1024 };

/* As "key=value ...", for set_all. Not every one can be: resolving refuses some. */
static inline void random_config(uint64_t seed, char out[RANDOM_TEXT])
{
	static const char *const GPUS[] = {"a100-sxm-80gb", "a100-pcie-80gb", "a40",
					   "l40s",          "h100-sxm-80gb",  "h100-pcie-80gb",
					   "h20",           "b200-sxm-180gb", "gb200",
					   "mi300x",        "v100-sxm-32gb",  "h200-sxm-141gb",
					   "gh200-96gb"};
	static const char *const MODELS[] = {
		"bert-large",    "gpt2-large",       "opt-350m",    "opt-1.3b",
		"gpt-1.7b",      "gpt-7.5b",         "gpt-22b",     "gpt-145.6b",
		"llama2-7b",     "llama2-13b",       "llama3-8b",   "llama3-70b",
		"mpt-1b",        "mpt-7b",           "mpt-30b",     "mixtral-8x7b",
		"qwen3-30b-a3b", "deepseek-v2-lite", "olmoe-1b-7b", "gpt-oss-20b",
		"llama4-scout",  "deepseek-moe-16b", "dbrx"};
	enum { FIRST_MIXTURE = 15 };
	static const char *const SOFTWARE[] = {
		"default",    "megatron-core",   "megatron-lm",
		"nemo",       "torchtitan",      "llm-foundry",
		"fms-fsdp",   "deepspeed-zero3", "megatron-deepspeed",
		"hf-pytorch", "megatron-bridge", "primus",
		"maxtext"};
	static const char *const SHARDING[] = {"none", "zero1", "zero2", "zero3", "zero3"};
	static const char *const RECOMPUTE[] = {"none", "selective", "full"};
	static const int TP[] = {1, 1, 1, 2, 4, 8}, PP[] = {1, 1, 1, 2, 4}, CP[] = {1, 1, 1, 2, 4};
	static const int DP[] = {1, 2, 4, 8, 12, 16, 32}, EP[] = {1, 2, 4, 8},
			 NICS[] = {1, 2, 4, 8};
	static const int GBIT[] = {100, 200, 400, 800}, SEQ[] = {512, 1024, 2048, 4096};
	const char *gpu, *sharding, *recompute, *software;
	int nics, gbit, seq, tp, pp, cp, dp, micro, n, ep;
	struct sc_rng rng;
	size_t model;

	sc_rng_init(&rng, seed);
	gpu = PICK(&rng, GPUS);
	nics = PICK(&rng, NICS);
	gbit = PICK(&rng, GBIT);
	model = sc_rng_below(&rng, sizeof(MODELS) / sizeof(MODELS[0]));
	seq = PICK(&rng, SEQ);
	tp = PICK(&rng, TP);
	pp = PICK(&rng, PP);
	cp = PICK(&rng, CP);
	dp = PICK(&rng, DP);
	ep = PICK(&rng, EP);
	sharding = PICK(&rng, SHARDING);
	recompute = PICK(&rng, RECOMPUTE);
	software = PICK(&rng, SOFTWARE);
	micro = 1 << sc_rng_below(&rng, 3);
	n = 1 + (int)sc_rng_below(&rng, 4);
	snprintf(out, RANDOM_TEXT,
		 "cluster.gpu=%s cluster.gpus_per_node=8 cluster.nics_per_node=%d "
		 "cluster.nic_gbit_s=%d model=models/%s.yaml model.seq=%d parallel.tp=%d "
		 "parallel.pp=%d parallel.cp=%d parallel.dp=%d parallel.sharding=%s "
		 "training.global_batch=%d training.micro_batch=%d training.precision=fp16 "
		 "training.recompute=%s training.software=%s",
		 gpu, nics, gbit, MODELS[model], seq, tp, pp, cp, dp, sharding, dp * micro * n * pp,
		 micro, recompute, software);
	if (model >= FIRST_MIXTURE)
		snprintf(out + strlen(out), RANDOM_TEXT - strlen(out), " parallel.ep=%d", ep);
}

static inline void load_random(uint64_t seed, struct sc_config *config)
{
	char text[RANDOM_TEXT];

	random_config(seed, text);
	sc_config_init(config);
	set_all(config, text);
}
