/* Times whole predictions inside one process, beside the peers' figures: bench_predict [PART OF A
 * NAME]. Not a test: machines are noisy, quote ratios; the least CPU time of the repeats is the
 * least disturbed. Peers were timed on a machine like ours: 2 shared cores. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "core/config/config_schedule.h"
#include "predict/predict.h"
#include "study/explain/explain.h"

struct bench_case {
	const char *name, *overrides;
	int repeats;
	double target_ms;
	const char *peer;
};
static const struct bench_case CASES[] = {
	{"GPT 22B, 8 GPUs",
	 "gpus=8 model.layers=48 model.hidden=6144 model.heads=64 parallel.tp=8 "
	 "training.global_batch=4 training.micro_batch=4",
	 2000, 1, "Calculon inner loop 10 ms"},
	{"GPT 1T, 3,072 GPUs",
	 "gpus=3072 model.layers=128 model.hidden=25600 model.heads=160 parallel.tp=8 parallel.pp=64 "
	 "training.global_batch=3072 training.micro_batch=1",
	 200, 5, "Calculon inner loop 10 ms"},
	{"GPT 1T, 100,000 GPUs, dp 125 x pp 100",
	 "gpus=100000 model.layers=200 model.hidden=25600 model.heads=160 parallel.tp=8 parallel.pp=100 "
	 "training.global_batch=64000 training.micro_batch=1",
	 100, 20, "SimAI analytical 2,260 ms at 9,216 GPUs"},
	{"GPT 175B interleaved, 1,536 GPUs",
	 "gpus=1536 model.layers=96 model.hidden=12288 model.heads=96 parallel.tp=8 parallel.pp=8 "
	 "parallel.virtual_stages=3 training.global_batch=1536 training.micro_batch=1",
	 200, 5, "Calculon inner loop 10 ms"},
	{"GPT 3.6B, uneven groups (tp 3 on 8-GPU nodes), 96 GPUs",
	 "gpus=96 model.layers=30 model.hidden=3072 model.heads=24 parallel.tp=3 parallel.dp=32 "
	 "training.global_batch=512 training.micro_batch=1",
	 200, 5, "-"},
	{"MPT 70B, 512 GPUs, sharded weights",
	 "gpus=512 model.family=mpt model.layers=80 model.hidden=8192 model.heads=64 "
	 "cluster.gpu=h100-sxm-80gb parallel.sharding=fsdp training.attention=flash "
	 "training.precision=bf16 training.software=llm-foundry training.global_batch=4096 "
	 "training.micro_batch=8",
	 200, 5, "-"},
	{"Llama 405B, 8,192 GPUs, tp 8 x cp 2 x pp 8 interleaved",
	 "gpus=8192 model.family=llama model.layers=126 model.hidden=16384 model.heads=128 "
	 "model.kv_heads=8 model.ffn_hidden=53248 model.seq=8192 cluster.gpu=h100-sxm-80gb "
	 "parallel.tp=8 parallel.cp=2 parallel.pp=8 parallel.virtual_stages=8 "
	 "training.attention=flash training.precision=fp8 training.recompute=none "
	 "training.software=nemo training.global_batch=1536 training.micro_batch=1",
	 200, 5, "-"},
	{"DeepSeek-V3, 2,048 GPUs, ep 64 x pp 16",
	 "gpus=2048 model.family=moe model.layers=61 model.hidden=7168 model.heads=128 "
	 "model.seq=4096 model.vocab=129280 cluster.gpu=h100-sxm-80gb parallel.pp=16 parallel.ep=64 "
	 "training.attention=flash training.precision=bf16 training.recompute=none "
	 "training.software=megatron-bridge training.global_batch=15360 training.micro_batch=1",
	 200, 5, "-"},
};

static double clock_ms(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static double cpu_ms(void)
{
	return clock_ms(CLOCK_PROCESS_CPUTIME_ID);
}

static void set_all(struct sc_config *cfg, const char *overrides, struct sc_arena *arena)
{
	char text[1024], *word, *save = NULL;
	struct sc_err err = {0};

	snprintf(text, sizeof(text),
		 "model.family=gpt cluster.gpu=a100-sxm-80gb cluster.gpus_per_node=8 "
		 "cluster.nics_per_node=8 cluster.nic_gbit_s=200 model.seq=2048 model.vocab=51200 "
		 "training.precision=fp16 training.recompute=full training.attention=unfused "
		 "training.software=megatron-lm %s",
		 overrides);
	for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *value = strchr(word, '=');

		*value++ = '\0';
		if (sc_config_set(cfg, &(struct sc_setting){word, value, "bench"}, arena, &err)) {
			fprintf(stderr, "%s\n", err.text);
			exit(EXIT_FAILURE);
		}
	}
}

static void run_case(const struct bench_case *c, struct sc_catalog *catalog,
		     struct sc_predictor *predictor, struct sc_arena *arena)
{
	static struct sc_request req;
	static struct sc_prediction out;
	struct sc_predict_opts opts;
	struct sc_err err = {0};
	struct sc_config cfg;
	double first, rest, least = 1e9;

	sc_config_init(&cfg);
	set_all(&cfg, c->overrides, arena);
	sc_predict_opts_init(&opts);
	if (sc_config_resolve(&cfg, catalog, "bench", &req, &err)) {
		fprintf(stderr, "%s\n", err.text);
		exit(EXIT_FAILURE);
	}
	first = cpu_ms();
	if (sc_predict(predictor, &req, &opts, &out, &err)) {
		fprintf(stderr, "%s\n", err.text);
		exit(EXIT_FAILURE);
	}
	rest = cpu_ms();
	for (int i = 0; i < c->repeats; i++) {
		double begin = clock_ms(CLOCK_THREAD_CPUTIME_ID), took;

		sc_predict(predictor, &req, &opts, &out, &err);
		took = clock_ms(CLOCK_THREAD_CPUTIME_ID) - begin;
		least = took < least ? took : least;
	}
	printf("%-56s first %7.3f ms, then %7.3f ms, least CPU %7.3f ms (target %g ms; %s), %zu nodes, %.1f s iteration\n",
	       c->name, rest - first, (cpu_ms() - rest) / c->repeats, least, c->target_ms, c->peer,
	       out.n_nodes, out.iteration_ms / 1e3);
}

/* A grid as a user would sweep: every row is resolved and predicted anew. */
static void run_grid(struct sc_catalog *catalog, struct sc_predictor *predictor,
		     struct sc_arena *arena)
{
	static struct sc_request req;
	static struct sc_prediction out;
	struct sc_predict_opts opts;
	struct sc_config cfg;
	double start = cpu_ms();
	int n = 0;

	sc_predict_opts_init(&opts);
	for (int tp = 1; tp <= 8; tp *= 2)
		for (int pp = 1; pp <= 16; pp *= 2)
			for (int mb = 1; mb <= 8; mb *= 2)
				for (int layers = 32; layers <= 96; layers += 16) {
					sc_config_init(&cfg);
					set_all(&cfg,
						"gpus=512 model.hidden=8192 model.heads=64 "
						"training.global_batch=1024",
						arena);
					cfg.parallel.tp = tp;
					cfg.parallel.pp = pp;
					cfg.training.micro_batch = mb;
					cfg.model.layers = layers;
					if (sc_config_resolve(&cfg, catalog, "bench", &req, NULL) ==
						    0 &&
					    sc_predict(predictor, &req, &opts, &out, NULL) == 0)
						n++;
				}
	printf("%-56s %.0f configs/s on one core (target 1,000; Calculon 98)\n",
	       "grid of 512-GPU layouts", n / (cpu_ms() - start) * 1e3);
}

/* Every schedule of 16 stages and 256 micro-batches. */
static void run_schedules(struct sc_catalog *catalog, struct sc_predictor *predictor,
			  struct sc_arena *arena, const char *part)
{
	char name[64], overrides[512];

	for (const struct sc_name *n = sc_schedule_names; n->value != SC_SCHED_AUTO; n++) {
		struct bench_case c = {name, overrides, 20, 2, "-"};

		snprintf(name, sizeof(name), "GPT 28B, pp 16, 256 micro-batches: %s", n->name);
		snprintf(overrides, sizeof(overrides),
			 "gpus=16 model.layers=62 model.hidden=6144 model.heads=48 model.seq=1024 "
			 "parallel.pp=16 training.global_batch=256 training.micro_batch=1 "
			 "training.software=megatron-lm-2023 training.precision=bf16 "
			 "training.recompute=none training.attention=flash parallel.schedule=%s%s",
			 n->name,
			 n->value == SC_SCHED_INTERLEAVED || n->value == SC_SCHED_BREADTH_FIRST
				 ? " parallel.virtual_stages=2"
				 : "");
		if (strstr(name, part))
			run_case(&c, catalog, predictor, arena);
	}
}

/* Configs that do not fit, with what other settings would do: at most three times what the row
 * alone takes, as a sweep predicts it; up to 64 stages within 50 ms. */
static void run_misfits(struct sc_catalog *catalog, struct sc_arena *arena, const char *part)
{
	static const struct {
		const char *name, *overrides;
		int repeats;
	} MISFITS[] = {
		{"pp 16, 256 micro-batches", "gpus=128 parallel.pp=16 training.global_batch=256",
		 10},
		{"pp 16, 524,288 micro-batches",
		 "gpus=128 parallel.pp=16 training.global_batch=524288", 10},
		{"pp 64, 8,192 micro-batches",
		 "gpus=512 parallel.pp=64 training.global_batch=8192 training.recompute=none", 5},
		{"pp 16, hanayo",
		 "gpus=128 parallel.pp=16 training.global_batch=256 "
		 "parallel.schedule=hanayo",
		 5},
		{"pp 16, chimera",
		 "gpus=128 parallel.pp=16 training.global_batch=256 "
		 "parallel.schedule=chimera",
		 5},
		{"pp 128 interleaved, 8 chunks",
		 "gpus=1024 model.layers=1024 parallel.pp=128 parallel.virtual_stages=8 "
		 "training.global_batch=4096",
		 1},
		{"pp 512", "gpus=4096 model.layers=512 parallel.pp=512 training.global_batch=8192",
		 1},
		{"pp 1,024",
		 "gpus=8192 model.layers=1024 parallel.pp=1024 training.global_batch=8192", 1},
	};
	static struct sc_alternatives alternatives;
	int64_t pp = 0;

	for (size_t i = 0; i < sizeof(MISFITS) / sizeof(MISFITS[0]); i++) {
		double row_ms = 1e9, all_ms = 1e9;
		char name[96], overrides[512];

		snprintf(name, sizeof(name), "GPT 1T that does not fit, %s", MISFITS[i].name);
		if (!strstr(name, part))
			continue;
		snprintf(overrides, sizeof(overrides),
			 "model.layers=128 model.hidden=25600 model.heads=160 parallel.tp=8 "
			 "parallel.sequence_parallel=true training.micro_batch=1 "
			 "training.recompute=selective %s",
			 MISFITS[i].overrides);
		for (int k = 0; k < MISFITS[i].repeats; k++) {
			struct sc_evaluator *by = sc_evaluator_create(catalog);
			double begin = clock_ms(CLOCK_THREAD_CPUTIME_ID), row, all;
			struct sc_config cfg;
			const struct sc_candidate candidate = {.base = &cfg, .file = "bench"};

			sc_config_init(&cfg);
			set_all(&cfg, overrides, arena);
			if (sc_evaluate(by, &candidate, NULL) ||
			    sc_memory_fullness(&by->prediction.memory) <= 1)
				exit(EXIT_FAILURE);
			row = clock_ms(CLOCK_THREAD_CPUTIME_ID) - begin;
			sc_find_alternatives(by, &cfg, "bench", &alternatives);
			all = clock_ms(CLOCK_THREAD_CPUTIME_ID) - begin;
			row_ms = row < row_ms ? row : row_ms;
			all_ms = all < all_ms ? all : all_ms;
			pp = by->request.config.parallel.pp;
			sc_evaluator_destroy(by);
		}
		printf("%-56s row %8.2f ms, with %zu alternatives %8.2f ms CPU (limit %.0f ms)\n",
		       name, row_ms, alternatives.n, all_ms, pp <= 64 ? 50 : 3 * row_ms);
	}
}

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";
	struct sc_arena arena = {0};
	struct sc_catalog *catalog = sc_catalog_create();
	struct sc_predictor *predictor = sc_predictor_create();
	struct rusage usage;

	sc_arena_init(&arena, 1 << 16);
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++)
		if (strstr(CASES[i].name, part))
			run_case(&CASES[i], catalog, predictor, &arena);
	run_schedules(catalog, predictor, &arena, part);
	run_misfits(catalog, &arena, part);
	if (!*part)
		run_grid(catalog, predictor, &arena);
	getrusage(RUSAGE_SELF, &usage);
	printf("%-56s %.1f MiB (Calculon 68 MB, LogGOPSim 150 MB and up)\n", "peak RSS",
	       (double)usage.ru_maxrss / 1024);
	sc_predictor_destroy(predictor);
	sc_catalog_destroy(catalog);
	sc_arena_release(&arena);
	return EXIT_SUCCESS;
}
