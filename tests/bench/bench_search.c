/* CPU time and memory of searches of splits: all of what a config of a model, its GPUs and its
 * batch leaves open, two threads; with an argument of ten million candidates, too, which takes
 * minutes.
 *
 *   bench_search [all]     prints lines of what, value, unit, parted by tabs */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "study/search/split_search.h"

static const struct space {
	const char *name, *cluster, *model, *gpus, *batch;
	bool is_large;
} SPACES[] = {
	{"GPT-3 175B, 512 A100", "clusters/selene.yaml", "models/gpt-175b.yaml", "512", "1536",
	 false},
	{"GPT-3 175B, 4,096 A100", "clusters/selene.yaml", "models/gpt-175b.yaml", "4096", "4096",
	 false},
	{"Llama 3.1 405B, 8,192 H100", "clusters/dgx-h100.yaml", "models/llama3.1-405b.yaml",
	 "8192", "2048", false},
	{"DeepSeek-V3, 2,048 H100", "clusters/dgx-h100.yaml", "models/deepseek-v3.yaml", "2048",
	 "15360", false},
	{"GPT-3 175B, 1,024 A100, schedules and more", "clusters/selene.yaml",
	 "models/gpt-175b.yaml", "1024", "1536", true},
};
static const char *const LARGE[] = {
	"parallel.schedule=1f1b,gpipe,zb-h1,zb-h2,interleaved,zb-v,dualpipev",
	"parallel.tp_overlap",
	"training.cuda_graphs=true,false",
	"training.attention=flash,unfused",
	"training.optimizer=adam,sgd",
	"training.global_batch=512,768,1024,1280,1536,1792,2048,2304,2560,3072"};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int load(const struct space *space, struct sc_arena *arena, struct sc_config *out,
		struct sc_err *err)
{
	const struct sc_setting settings[] = {
		{"cluster", space->cluster, "bench"},
		{"model", space->model, "bench"},
		{"gpus", space->gpus, "bench"},
		{"training.global_batch", space->batch, "bench"},
		{"training.precision", "bf16", "bench"},
		{"training.software", "megatron-lm", "bench"},
	};
	int rc = 0;

	sc_config_init(out);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]) && rc == 0; i++)
		rc = sc_config_set(out, &settings[i], arena, err);
	return rc;
}

static int run(const struct space *space, struct sc_err *err)
{
	struct sc_search_result r;
	struct sc_search search = {.n_jobs = 2};
	struct sc_config config;
	struct sc_arena arena;
	struct rusage usage;
	double start = now_s();
	int rc;

	sc_arena_init(&arena, 1 << 20);
	rc = load(space, &arena, &config, err);
	search.base = &config;
	search.best_only = true;
	search.chosen = LARGE;
	search.n_chosen = space->is_large ? sizeof(LARGE) / sizeof(LARGE[0]) : 0;
	if (rc == 0)
		rc = sc_search_run(&search, &arena, &r, err);
	if (rc == 0) {
		printf("%s: candidates\t%zu\t\n", space->name, r.cases.n_rows);
		printf("%s: simulated\t%zu\t\n", space->name, r.n_in[SC_SEARCH_SIMULATED]);
		printf("%s\t%.2f\tCPU-s\n", space->name, now_s() - start);
		getrusage(RUSAGE_SELF, &usage);
		printf("%s: memory so far\t%ld\tMiB\n", space->name, usage.ru_maxrss >> 10);
	}
	sc_arena_release(&arena);
	return rc;
}

int main(int argc, char **argv)
{
	struct sc_err err = {.code = SC_OK};

	(void)argv;
	for (size_t i = 0; i < sizeof(SPACES) / sizeof(SPACES[0]); i++) {
		if ((argc > 1 || !SPACES[i].is_large) && run(&SPACES[i], &err)) {
			fprintf(stderr, "%s: %s\n", SPACES[i].name, err.text);
			return 1;
		}
	}
	return 0;
}
