/* Times sweeps over grids of layouts of today's models, on one thread: rows that were predicted in
 * a second of CPU time. Those that no layout allows are refused and not counted.
 *
 *   bench_sweep     prints lines of what, value, unit, parted by tabs */
#include <stdio.h>
#include <time.h>

#include "study/sweep/sweep.h"

enum { MAX_AXES = 9 };

/* Many rows of one model and one kind: neighbours share what they have in common. */
#define OF_175B(schedule, stages, virtual_stages, target)           \
	{                                                           \
		schedule ", 175B", "models/gpt-175b.yaml", "512",   \
			{"gpus=512",                                \
			 "parallel.schedule=" schedule,             \
			 "parallel.pp=" stages,                     \
			 "parallel.virtual_stages=" virtual_stages, \
			 "parallel.tp=4,8",                         \
			 "training.micro_batch=1,2",                \
			 "training.global_batch=256,512",           \
			 "training.recompute=none,selective,full",  \
			 "model.seq=512,1024,2048,3072,4096"},      \
			target                                      \
	}

static const struct grid {
	const char *name, *model, *batch;
	const char *axes[MAX_AXES];
	int per_core; /* configs a second: the target */
} GRIDS[] = {
	{"Qwen3-30B-A3B, up to 256 H100",
	 "models/qwen3-30b-a3b.yaml",
	 "512",
	 {"gpus=64,128,256", "parallel.tp=1,2,4", "parallel.pp=1,2,4,8", "parallel.ep=8,16",
	  "parallel.virtual_stages=1,2,3", "parallel.sharding=zero1,fsdp",
	  "training.micro_batch=1,2", "training.recompute=none,full"},
	 5000},
	{"Llama 3.1 405B, up to 1,024 H100",
	 "models/llama3.1-405b.yaml",
	 "256",
	 {"gpus=256,512,1024", "parallel.tp=4,8", "parallel.pp=1,2,4,8", "parallel.cp=1,2",
	  "parallel.virtual_stages=1,2,3", "parallel.sharding=zero1,fsdp",
	  "training.micro_batch=1,2", "training.recompute=none,full"},
	 5000},
	OF_175B("1f1b", "4,8,16", "1", 18000),
	OF_175B("interleaved", "4,8", "2,3", 11000),
	OF_175B("zb-h1", "8", "1", 5000),
	OF_175B("zb-2p", "8", "1", 5000),
	OF_175B("zb-v", "8", "2", 5000),
	OF_175B("v-half", "8", "2", 5000),
	OF_175B("chimera", "8", "1", 5000),
	OF_175B("hanayo", "8", "2", 5000),
	OF_175B("gems", "8", "1", 5000),
};

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int load(const struct grid *grid, struct sc_arena *arena, struct sc_config *out,
		struct sc_err *err)
{
	const struct sc_setting settings[] = {
		{"cluster", "clusters/dgx-h100.yaml", "bench"},
		{"model", grid->model, "bench"},
		{"training.global_batch", grid->batch, "bench"},
		{"training.precision", "bf16", "bench"},
		{"training.software", "megatron-bridge", "bench"},
	};
	int rc = 0;

	sc_config_init(out);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]) && rc == 0; i++)
		rc = sc_config_set(out, &settings[i], arena, err);
	return rc;
}

static int run(const struct grid *grid, struct sc_arena *arena, struct sc_err *err)
{
	struct sc_predict_opts opts;
	struct sc_outcome *out;
	struct sc_config config;
	struct sc_csv cases;
	struct sc_sweep sweep = {.base = &config, .cases = &cases, .n_jobs = 1, .opts = &opts};
	size_t n_axes = 0, n = 0;
	double start;
	int rc = load(grid, arena, &config, err);

	while (n_axes < MAX_AXES && grid->axes[n_axes])
		n_axes++;
	if (rc == 0)
		rc = sc_grid_build(grid->axes, n_axes, arena, &cases, err);
	if (rc)
		return rc;
	sc_predict_opts_init(&opts);
	out = sc_arena_calloc(arena, cases.n_rows, sizeof(*out));
	start = cpu_s();
	rc = sc_sweep_run(&sweep, arena, out, err);
	start = cpu_s() - start;
	for (size_t i = 0; rc == 0 && i < cases.n_rows; i++)
		n += out[i].code == SC_OK;
	printf("%s: predicted\t%zu\tof %zu\n", grid->name, n, cases.n_rows);
	printf("%s\t%.0f\tconfigs/s (%d)\n", grid->name, (double)n / start, grid->per_core);
	return rc;
}

int main(void)
{
	struct sc_err err = {.code = SC_OK};
	struct sc_arena arena;
	int rc = 0;

	sc_arena_init(&arena, 1 << 20);
	for (size_t i = 0; i < sizeof(GRIDS) / sizeof(GRIDS[0]) && rc == 0; i++)
		rc = run(&GRIDS[i], &arena, &err);
	if (rc)
		fprintf(stderr, "%s\n", err.text);
	sc_arena_release(&arena);
	return rc != 0;
}
