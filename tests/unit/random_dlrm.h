/* DLRM requests at random: devices, networks, tables, software; and plans of them. */
#pragma once

#include <math.h>

#include "base/rng.h"
#include "base/units.h"
#include "request_fixture.h"
#include "study/shard/shard_solve_priv.h"

#define PICK(rng, list) (list)[sc_rng_below(rng, sizeof(list) / sizeof((list)[0]))]

enum { RANDOM_TABLES = 16 };
struct random_dlrm {
	struct sc_table tables[RANDOM_TABLES];
	char names[RANDOM_TABLES][24];
	size_t n;
	char keys[1024];
	double even_gib; /* of tables and their states, were they spread evenly over the ranks */
};

static inline double random_power(struct sc_rng *rng, double low, double high)
{
	return low * pow(high / low, sc_rng_uniform(rng));
}

static inline void random_tables(struct sc_rng *rng, struct random_dlrm *out)
{
	static const int DIMS[] = {16, 32, 48, 64, 128, 256};

	out->n = 2 + sc_rng_below(rng, RANDOM_TABLES - 1);
	for (size_t i = 0; i < out->n; i++) {
		struct sc_table *t = &out->tables[i];

		snprintf(out->names[i], sizeof(out->names[i]), "t%zu", i);
		*t = (struct sc_table){.name = out->names[i],
				       .rows = (int64_t)random_power(rng, 10, 2e7),
				       .dim = PICK(rng, DIMS),
				       .count = 1,
				       .features = 1 + (int64_t)sc_rng_below(rng, 8) / 6,
				       .pooling = round(random_power(rng, 1, 100)),
				       .weighted = sc_rng_below(rng, 8) == 0,
				       .reuse = {.kind = SC_REUSE_UNIFORM}};
		if (sc_rng_below(rng, 2))
			t->reuse = (struct sc_reuse){.kind = SC_REUSE_ZIPF,
						     .zipf = 0.5 + sc_rng_uniform(rng)};
	}
}

/* The request's keys, over its tables. */
static inline void random_dlrm(uint64_t seed, struct random_dlrm *out)
{
	static const char *const GPUS[] = {"v100-sxm-16gb", "a100-sxm-80gb", "h100-sxm-80gb",
					   "l40s", "b200-sxm-180gb"};
	static const char *const SOFTWARE[] = {"torchrec", "hugectr", "default", "nvidia-dlrm-pt",
					       "distributed-embeddings"};
	static const char *const OPTIMIZERS[] = {"sgd", "adagrad", "adam", "rowwise_adagrad"};
	static const char *const PRECISIONS[] = {"fp32", "amp_fp16"};
	static const int PER_NODE[] = {1, 2, 4, 8, 8}, NODES[] = {1, 1, 2, 4},
			 GBIT[] = {100, 200, 400};
	static const int SAMPLES[] = {128, 512, 2048, 8192}, STATES[] = {0, 1, 2, 0};
	struct sc_rng rng;
	int per_node, gpus;
	size_t optimizer;

	sc_rng_init(&rng, seed);
	random_tables(&rng, out);
	per_node = PICK(&rng, PER_NODE);
	gpus = per_node * PICK(&rng, NODES);
	if (gpus == 1)
		gpus = 2 * (per_node = 2);
	optimizer = sc_rng_below(&rng, 4);
	out->even_gib = 0;
	for (size_t i = 0; i < out->n; i++)
		out->even_gib += (double)out->tables[i].rows * (double)out->tables[i].dim *
				 (1 + STATES[optimizer]) * 4 / gpus / SC_BYTES_PER_GIB;
	snprintf(out->keys, sizeof(out->keys),
		 "gpus=%d cluster.gpu=%s cluster.gpus_per_node=%d cluster.nics_per_node=%d "
		 "cluster.nic_gbit_s=%d model.family=dlrm model.dense_features=13 "
		 "model.bottom_mlp=256,64 model.top_mlp=256,1 model.interaction=cat "
		 "training.global_batch=%d training.precision=%s training.optimizer=%s "
		 "training.software=%s",
		 gpus, PICK(&rng, GPUS), per_node, per_node, PICK(&rng, GBIT),
		 gpus * PICK(&rng, SAMPLES), PICK(&rng, PRECISIONS), OPTIMIZERS[optimizer],
		 PICK(&rng, SOFTWARE));
	if (!strstr(out->keys, "=hugectr") || sc_rng_below(&rng, 2))
		return;
	/* Its hybrid embedding, with hot rows, takes one lookup a sample and table, and SGD. */
	for (size_t i = 0; i < out->n; i++) {
		out->tables[i].pooling = 1;
		out->tables[i].features = 1;
		out->tables[i].weighted = false;
	}
	strcat(out->keys, " training.optimizer=sgd");
}

static inline struct sc_request *random_request(struct random_dlrm *of, const char *overrides)
{
	struct sc_config cfg;

	sc_config_init(&cfg);
	set_all(&cfg, of->keys);
	set_all(&cfg, overrides);
	cfg.model.tables = (struct sc_structs){.at = of->tables, .n = of->n};
	return resolve_config(&cfg);
}

/* Any option for each table, its shards anywhere that their kind of option may lie. */
static inline void random_plan(const struct sc_shard_problem *p, struct sc_rng *rng,
			       struct sc_shard_plan *out)
{
	*out = (struct sc_shard_plan){.world = p->world, .ranks_per_host = p->ranks_per_host};
	for (uint32_t t = 0; t < p->n_tables; t++) {
		uint32_t first = p->first_option.at[t], n = p->first_option.at[t + 1] - first;
		const struct sc_option *o = &p->options.at[first + sc_rng_below(rng, n)];
		uint32_t n_shards = sc_option_n_shards(p, o), at;
		int32_t *ranks = sc_arena_calloc(&arena, n_shards, sizeof(*ranks));

		at = (uint32_t)sc_rng_below(rng, p->world);
		if (o->spread == SC_SPREAD_UNIFORM)
			at = 0;
		if (o->spread == SC_SPREAD_HOST)
			at -= at % p->ranks_per_host;
		for (uint32_t i = 0; i < n_shards; i++)
			ranks[i] = (int32_t)((at + i) % p->world);
		sc_plan_add_option(out, p, (uint32_t)(o - p->options.at), ranks);
	}
}
