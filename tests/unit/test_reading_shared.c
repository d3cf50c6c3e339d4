/* Every iteration of every trace of the data folder beside the checkout, replayed: what owns its
 * time sums to it, on the busiest GPU, on the critical path and on every rank. Prints the largest
 * difference. Exits 77 where the folder is not. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner.h"
#include "trace/import/import.h"
#include "trace/replay/replay.h"

#define TOLERANCE_FRAC 1e-9
enum { MAX_PATH = 1024 };

static size_t n_looked_at, n_traces, n_iterations;
static double largest_frac;

static const char *folder(void)
{
	const char *given = getenv("STEPCAST_TRACES");

	return given ? given : "../shared/data/traces";
}

static void remove_dir(const char *dir)
{
	char file[MAX_PATH];
	struct dirent *entry;
	DIR *list = opendir(dir);

	while (list && (entry = readdir(list)) != NULL) {
		snprintf(file, sizeof(file), "%s/%.200s", dir, entry->d_name);
		unlink(file);
	}
	if (list)
		closedir(list);
	rmdir(dir);
}

static void check_sum(const double *parts, int n, double all, const char *what, const char *path)
{
	double sum = 0;

	for (int i = 0; i < n; i++) {
		ck_assert_msg(parts[i] >= -TOLERANCE_FRAC * all, "%s: %s: part %d", path, what, i);
		sum += parts[i];
	}
	if (all > 0)
		largest_frac = fmax(largest_frac, fabs(sum / all - 1));
	ck_assert_msg(fabs(sum - all) <= TOLERANCE_FRAC * all, "%s: %s: %.9g ms of %.9g", path,
		      what, sum, all);
}

static void check_step(const struct sc_replay_result *r, size_t i, bool changed, const char *path)
{
	const struct sc_reading *reading = &r->reading;
	const struct sc_replay_iteration *it = &r->iterations.at[i];
	const double ms = changed ? it->changed_ms : it->simulated_ms;

	check_sum(reading->breakdown_ms, SC_N_OWNERS, reading->iteration_ms, "breakdown", path);
	check_sum(reading->path_owner_ms, SC_N_OWNERS, reading->iteration_ms, "path", path);
	ck_assert_msg(fabs(reading->iteration_ms - ms) <= TOLERANCE_FRAC * ms,
		      "%s: step %lld: %g ms are read, %g simulated", path, (long long)r->show_step,
		      reading->iteration_ms, ms);
}

/* As recorded, or without launch gaps: where the device may be what ends the iteration. */
static int replay(const char *dir, int64_t step, bool changed, struct sc_replay_result *out)
{
	struct sc_replay_opts opts;

	sc_replay_opts_init(&opts);
	opts.no_what_if = true;
	opts.show_step = step;
	opts.gaps = changed ? SC_GAPS_NONE : SC_GAPS_AUTO;
	return sc_replay(dir, &opts, out, NULL);
}

static void check_trace(const char *dir, const char *path)
{
	struct sc_replay_result all, one;

	if (replay(dir, -1, false, &all) != 0)
		return; /* without activity of a GPU, or without its times */
	for (size_t k = 0; k < all.ranks.n; k++)
		check_sum(all.ranks.at[k].part_ms, SC_N_PARTS, all.simulated_ms, "rank", path);
	for (size_t i = 0; i < (size_t)n_cases((int)all.iterations.n); i++)
		for (int changed = 0; changed < (i ? 1 : 2); changed++) {
			ck_assert_int_eq(replay(dir, all.iterations.at[i].step, changed, &one), 0);
			check_step(&one, i, changed, path);
			sc_replay_result_release(&one);
		}
	n_iterations += (size_t)n_cases((int)all.iterations.n);
	n_traces++;
	sc_replay_result_release(&all);
}

/* Of a folder all files at once, or each alone; of the latter as many as there are cases. */
static void check_files(const char *from, bool together)
{
	struct dirent *entry;
	DIR *list = opendir(from);
	char dir[] = "/tmp/stepcast-reading-XXXXXX", path[MAX_PATH];
	const struct sc_import_opts opts = {.dir = dir, .rank = -1, .other_rank = -1};

	ck_assert_ptr_nonnull(list);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	while ((entry = readdir(list)) != NULL) {
		struct sc_import_stats stats;
		struct stat info;

		snprintf(path, sizeof(path), "%s/%.200s", from, entry->d_name);
		if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) ||
		    (!together && n_looked_at++ % (100 / (size_t)n_cases(100)) != 0) ||
		    sc_import(path, &opts, &stats, NULL) != 0)
			continue;
		if (together)
			continue;
		check_trace(dir, path);
		remove_dir(dir);
		ck_assert_int_eq(mkdir(dir, 0700), 0);
	}
	closedir(list);
	if (together)
		check_trace(dir, from);
	remove_dir(dir);
}

NEEDS(folder())

/* A ResNet-50 of kineto's plugin, recorded with a loader in the process and with four workers: what
 * the loader's range takes with workers, put on the recording without, gives the step with workers
 * (of the middle time: two of six wait for a worker). */
TEST(a_loader_is_scaled_as_recorded)
{
	char dirs[2][64], path[MAX_PATH];
	struct sc_replay_change change = {.action = SC_REPLAY_SCALE};
	struct sc_replay_result results[2];
	struct sc_replay_opts opts;
	struct sc_arena arena;
	double ms[2] = {0}, step_ms[2];

	sc_arena_init(&arena, 4096);
	sc_replay_opts_init(&opts);
	for (int k = 0; k < 2; k++) {
		struct sc_import_opts import = {.dir = dirs[k], .rank = -1, .other_rank = -1};
		struct sc_import_stats stats;

		snprintf(dirs[k], sizeof(dirs[k]), "/tmp/stepcast-loader-XXXXXX");
		ck_assert_ptr_nonnull(mkdtemp(dirs[k]));
		snprintf(path, sizeof(path), "%s/kineto-tb-resnet50-v100/num_workers_%d.json.gz",
			 folder(), 4 * k);
		ck_assert_int_eq(sc_import(path, &import, &stats, NULL), 0);
		ck_assert_int_eq(sc_replay(dirs[k], &opts, &results[k], NULL), 0);
		for (size_t i = 0; i < results[k].by_range.n; i++)
			if (strstr(results[k].by_range.at[i].name, "DataLoader"))
				ms[k] = results[k].by_range.at[i].host_ms;
		step_ms[k] = results[k].reading.iteration_ms;
		sc_replay_result_release(&results[k]);
	}
	ck_assert_int_eq(sc_selector_parse("range:DataLoader", &arena, &change.selector, NULL), 0);
	change.factor = ms[1] / ms[0];
	opts.changes = &change;
	opts.n_changes = 1;
	ck_assert_int_eq(sc_replay(dirs[0], &opts, &results[0], NULL), 0);
	printf("loader %.1f -> %.1f ms: a step of %.1f ms takes %.1f, recorded %.1f\n", ms[0],
	       ms[1], step_ms[0], results[0].changed_ms, step_ms[1]);
	ck_assert_double_lt(fabs(results[0].changed_ms / step_ms[1] - 1), 0.08);
	sc_replay_result_release(&results[0]);
	sc_arena_release(&arena);
	remove_dir(dirs[0]);
	remove_dir(dirs[1]);
}

TEST(owners_sum_to_every_iteration)
{
	struct dirent *entry;
	DIR *list = opendir(folder());
	char path[MAX_PATH];

	ck_assert_ptr_nonnull(list);
	while ((entry = readdir(list)) != NULL) {
		struct stat info;

		snprintf(path, sizeof(path), "%s/%.200s", folder(), entry->d_name);
		if (entry->d_name[0] == '.' || stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
			continue;
		check_files(path, false);
	}
	closedir(list);
	snprintf(path, sizeof(path), "%s/param-dlrm-8xv100/kineto", folder());
	check_files(path, true);
	printf("%zu traces, %zu iterations: owners differ from the iteration by %.2g at most\n",
	       n_traces, n_iterations, largest_frac);
	ck_assert_uint_ge(n_traces, (size_t)n_cases(20));
	ck_assert_uint_ge(n_iterations, n_traces);
}
