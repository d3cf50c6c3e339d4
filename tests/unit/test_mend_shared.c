/* Laws of replays over every trace of GPU streams in the data folder beside the checkout: the clock of the device may be
 * off, and any record broken. Exits 77 where the folder is not. */
#include <dirent.h>

#include "base/rng.h"
#include "runner.h"
#include "trace/import/import.h"
#include "trace/replay/replay.h"
#include "trace_fixture.h"

enum { MAX_PATH = 512 };

static const char *const FILES[] = {
	"deepseek-train-64xh800-rank0/rank0.json.gz",
	"hta-ddp-2xv100-rank1/rank1.json.gz",
	"hta-dlrm-2xv100-rank1/rank1.json.gz",
	"hta-dlrm-8xa100-rank3/rank3.json.gz",
	"hta-ncclargs-2xa100/rank0.json.gz",
	"hta-nsres-v100/rank0.json.gz",
	"hta-sampled-128ranks/rank0.json.gz",
	"hta-torchrec-16xa100-rank0/rank0.json.gz",
	"hta-small-fixtures/amd_mi250_minitoy.json.gz",
	"hta-small-fixtures/critical_path_alexnet.json.gz",
	"hta-small-fixtures/cuda_event_sync.json.gz",
	"hta-small-fixtures/cuda_event_sync_multi_stream.json.gz",
	"hta-small-fixtures/gpu_user_annotation.json.gz",
	"hta-small-fixtures/triton.json.gz",
	"kineto-tb-resnet50-v100/num_workers_0.json.gz",
	"kineto-tb-resnet50-v100/num_workers_4.json.gz",
	"param-linear-2080ti/linear_kineto.json.gz",
	"pipit-nsys-saxpy-mpi/saxpy-mpi-cuda.sqlite.gz",
	"tracelens-ddp-8xmi300x/trace.json.gz",
	"tracelens-qwen05b-h100-mi300x/h100.json.gz",
	"tracelens-qwen05b-h100-mi300x/mi300x.json.gz",
};

static const char *folder(void)
{
	const char *given = getenv("STEPCAST_TRACES");

	return given ? given : "../shared/data/traces";
}

NEEDS(folder())

static struct sc_trace trace;
static struct sc_arena arena;
static struct sc_replay_result result;

/* Imports it, and loads the one trace of it that has work of a GPU. */
static void begin(size_t i)
{
	struct sc_import_opts opts = {.rank = -1, .other_rank = -1};
	struct sc_import_stats stats;
	struct sc_err err = {.code = SC_OK};
	char path[MAX_PATH], made[MAX_PATH];
	struct dirent *entry;
	DIR *dir;

	scratch_begin();
	sc_arena_init(&arena, 4096);
	opts.dir = scratch_dir;
	snprintf(path, sizeof(path), "%s/%s", folder(), FILES[i]);
	ck_assert_msg(sc_import(path, &opts, &stats, &err) == 0, "%s", err.text);
	dir = opendir(scratch_dir);
	made[0] = '\0';
	while ((entry = readdir(dir)) != NULL)
		if (strstr(entry->d_name, SC_TRACE_SUFFIX) && made[0] == '\0') {
			snprintf(made, sizeof(made), "%s/%.200s", scratch_dir, entry->d_name);
			ck_assert_int_eq(sc_trace_load(made, NULL, &trace, NULL), 0);
		}
	rewinddir(dir);
	while ((entry = readdir(dir)) != NULL)
		if (strstr(entry->d_name, SC_TRACE_SUFFIX)) {
			snprintf(made, sizeof(made), "%s/%.200s", scratch_dir, entry->d_name);
			unlink(made);
		}
	closedir(dir);
}

static void end(void)
{
	sc_trace_release(&trace);
	sc_arena_release(&arena);
	scratch_end();
}

/* The device's clock is off by `shift_ns`; record `broken` of the device has a duration of a thousand times, or the time 0. */
static void write_as(int64_t shift_ns, size_t broken, bool zero)
{
	struct sc_trace_writer *w;
	size_t n = 0;

	ck_assert_int_eq(sc_trace_writer_create(scratch_path, &trace.identity, &w, NULL), 0);
	for (size_t i = 1; i < trace.strings.n; i++)
		ck_assert_uint_eq(
			sc_trace_writer_string(w, trace.strings.at[i], strlen(trace.strings.at[i])),
			i);
	for (size_t i = 1; i < trace.lanes.n; i++)
		sc_trace_writer_lane(w, &trace.lanes.at[i]);
	for (size_t i = 1; i < trace.configs.n; i++)
		sc_trace_writer_config(w, &trace.configs.at[i]);
	for (size_t i = 1; i < trace.comms.n; i++)
		sc_trace_writer_comm(w, &trace.comms.at[i]);
	for (size_t i = 0; i < trace.events.n; i++) {
		struct sc_trace_event e = trace.events.at[i];

		if (sc_event_on_device(&e)) {
			e.start_ns += shift_ns;
			if (n == broken && zero)
				e.start_ns = 0;
			else if (n == broken)
				e.dur_ns *= 1000;
			n++;
		}
		sc_trace_writer_add(w, &e);
	}
	ck_assert_int_eq(sc_trace_writer_finish(w, NULL, NULL), 0);
}

static size_t n_records(void)
{
	size_t n = 0;

	for (size_t i = 0; i < trace.events.n; i++)
		n += sc_event_on_device(&trace.events.at[i]);
	return n;
}

static const char *const SELECTORS[] = {"kernel", "copy", "collective", "host"};

/* In percent; NAN: none is there, or it is refused. `is_sure`: it has one answer. */
static double change(const char *selector, double factor, bool *is_sure)
{
	struct sc_replay_change one = {.action = SC_REPLAY_SCALE, .factor = factor};
	struct sc_replay_opts opts;
	double pct;

	sc_replay_opts_init(&opts);
	ck_assert_int_eq(sc_selector_parse(selector, &arena, &one.selector, NULL), 0);
	opts.changes = &one;
	opts.n_changes = 1;
	opts.no_what_if = true;
	*is_sure = false;
	if (sc_replay(scratch_dir, &opts, &result, NULL))
		return NAN;
	*is_sure = isnan(result.changed_free_ms);
	pct = 100 * (result.changed_ms / result.reference_ms - 1);
	sc_replay_result_release(&result);
	return pct;
}

static const int64_t SHIFTS[] = {200000, -50000, -50000000, 50000000};

/* A change comes out as without the shift, or has no single answer. Files take turns with two of the shifts. */
static void check_shifts(int file)
{
	double pct[N_OF(SELECTORS)];
	bool is_sure, was_sure[N_OF(SELECTORS)];

	for (size_t s = 0; s < N_OF(SELECTORS); s++)
		pct[s] = change(SELECTORS[s], 0.5, &was_sure[s]);
	for (size_t k = 0; k < (many_cases() ? 2 : 1); k++) {
		const int64_t shift_ns = SHIFTS[((size_t)file + k) % N_OF(SHIFTS)];

		write_as(shift_ns, SIZE_MAX, false);
		for (size_t s = 0; s < N_OF(SELECTORS); s++) {
			const double now = change(SELECTORS[s], 0.5, &is_sure);

			ck_assert_msg(!is_sure || !was_sure[s] || fabs(now - pct[s]) <= 1,
				      "%s %s %lld ns: %.2f %%, was %.2f", FILES[file], SELECTORS[s],
				      (long long)shift_ns, now, pct[s]);
		}
	}
}

static double mean_ms(void)
{
	struct sc_replay_opts opts;
	struct sc_err err = {.code = SC_OK};

	sc_replay_opts_init(&opts);
	opts.no_what_if = true;
	ck_assert_msg(sc_replay(scratch_dir, &opts, &result, &err) == 0, "%s", err.text);
	return result.measured_ms;
}

/* Any single record may be broken: the mean stays, or the record is named. */
static void check_broken(int file)
{
	const size_t n = n_records();
	struct sc_rng rng;
	double was_ms;

	was_ms = mean_ms();
	sc_replay_result_release(&result);
	sc_rng_init(&rng, 4711);
	for (int k = 0; k < (many_cases() ? 4 : 2); k++) {
		const size_t broken = (size_t)sc_rng_below(&rng, n);
		bool is_named = false;
		double ms;

		write_as(0, broken, k % 2);
		ms = mean_ms();
		for (size_t i = 0; i < result.warnings.n; i++)
			is_named = is_named || strstr(result.warnings.text[i], "mended: n=1 of");
		ck_assert_msg(is_named || fabs(ms / was_ms - 1) <= 0.02,
			      "%s record %zu %s: %.3f ms, was %.3f", FILES[file], broken,
			      k % 2 ? "at time 0" : "times 1000", ms, was_ms);
		sc_replay_result_release(&result);
	}
}

/* Nothing gets slower as something takes no time; and what that saves is what it has of the path, unless something else
 * stands still then, which the path says. */
static void check_saved(int file)
{
	for (size_t s = 0; s < N_OF(SELECTORS); s++) {
		bool is_sure;
		const double pct = change(SELECTORS[s], 0, &is_sure);

		ck_assert_msg(isnan(pct) || pct <= 0.1, "%s %s=0: %.2f %%", FILES[file],
			      SELECTORS[s], pct);
	}
}

/* All laws of a file after one import; one law in turn, where few cases are asked for. */
LOOP_TEST(laws_hold_of_each_recording, N_OF(FILES))
{
	static void (*const LAWS[])(int file) = {check_saved, check_broken, check_shifts};

	begin((size_t)_i);
	for (int law = 0; law < N_OF(LAWS); law++) {
		if (!many_cases() && law != _i % N_OF(LAWS))
			continue;
		write_as(0, SIZE_MAX, false);
		LAWS[law](_i);
	}
	end();
}

/* ---- a recorded pair ---- */

/* The mean of the trace of a file with changes; the time of families, and without its device. */
struct side {
	double ms, host_ms, family_ms[SC_N_KERNEL_FAMILIES];
};

static double changed_ms(const struct sc_replay_change *changes, size_t n)
{
	struct sc_replay_opts opts;
	struct sc_err err = {.code = SC_OK};
	double ms;

	sc_replay_opts_init(&opts);
	opts.changes = changes;
	opts.n_changes = n;
	opts.no_what_if = true;
	ck_assert_msg(sc_replay(scratch_dir, &opts, &result, &err) == 0, "%s", err.text);
	ms = n ? result.changed_ms : result.measured_ms;
	if (n)
		sc_replay_result_release(&result);
	return ms;
}

static void scale(struct sc_replay_change *change, const char *selector, double factor)
{
	*change = (struct sc_replay_change){.action = SC_REPLAY_SCALE, .factor = factor};
	ck_assert_int_eq(sc_selector_parse(selector, &arena, &change->selector, NULL), 0);
}

static struct side side_of(size_t file)
{
	struct sc_replay_change none[2];
	struct side side;

	begin(file);
	write_as(0, SIZE_MAX, false);
	side.ms = changed_ms(NULL, 0);
	memcpy(side.family_ms, result.family_ms, sizeof(side.family_ms));
	sc_replay_result_release(&result);
	scale(&none[0], "kernel", 0);
	scale(&none[1], "copy", 0);
	side.host_ms = changed_ms(none, 2);
	end();
	return side;
}

/* The same model on another GPU: with its kernels, family by family, and then with its host, which is what a step takes
 * without the device. */
LOOP_TEST(a_step_on_another_gpu, 2)
{
	const size_t own = N_OF(FILES) - 2 + (size_t)_i, other = N_OF(FILES) - 1 - (size_t)_i;
	const struct side from = side_of(own), to = side_of(other);
	struct sc_replay_change changes[SC_N_KERNEL_FAMILIES + 1];
	char selector[64];
	size_t n = 0;

	begin(own);
	write_as(0, SIZE_MAX, false);
	for (int f = 0; f < SC_N_KERNEL_FAMILIES; f++)
		if (from.family_ms[f] > 0 && to.family_ms[f] > 0) {
			snprintf(selector, sizeof(selector), "kernel:%s",
				 sc_kernel_family_name((enum sc_kernel_family)f));
			scale(&changes[n++], selector, to.family_ms[f] / from.family_ms[f]);
		}
	ck_assert_double_eq_tol(changed_ms(changes, n) / to.ms, 1, 0.03);
	scale(&changes[n++], "host", to.host_ms / from.host_ms);
	ck_assert_double_eq_tol(changed_ms(changes, n) / to.ms, 1, 0.05);
	end();
}
