/* c3 --from on the traces with overlap of the data folder beside the checkout, against a count made
 * apart: what is busy, how many kernels ran beside a collective, and what an iteration takes when
 * both sides take turns. Exits 77 where the folder is not. */
#include <unistd.h>

#include "base/units.h"
#include "runner.h"
#include "study/c3/c3.h"
#include "study/c3/c3_recording.h"
#include "trace/import/import.h"

enum { MAX_PATH = 512 };
#define CLOSE 1e-9

static const char *const FILES[] = {
	"hta-dlrm-2xv100-rank1/rank1.json.gz", "hta-dlrm-8xa100-rank3/rank3.json.gz",
	"deepseek-train-64xh800-rank0/rank0.json.gz", "tracelens-ddp-8xmi300x/trace.json.gz"};
enum { N_FILES = sizeof(FILES) / sizeof(FILES[0]) };

static const char *folder(void)
{
	const char *given = getenv("STEPCAST_TRACES");

	return given ? given : "../shared/data/traces";
}

/* By brute force over one rank: activities are by start. */
struct count {
	double kernel_us, comm_us; /* any runs */
	size_t n_beside;           /* kernels beside any collective */
	double of_steps_us;        /* of both, of what the steps launched */
};

static bool is_beside(const struct sc_trace_rank *rank, const struct sc_act *kernel)
{
	for (size_t i = 0; i < rank->acts.n; i++) {
		const struct sc_act *a = &rank->acts.at[i];

		if (a->kind == SC_ACT_COLLECTIVE && a->start_ns - a->cut_ns < sc_act_end(kernel) &&
		    sc_act_end(a) > kernel->start_ns - kernel->cut_ns)
			return true;
	}
	return false;
}

/* What the steps launched: what ran before the first is none of theirs. */
static bool is_of_iterations(const struct sc_trace_rank *rank, const struct sc_act *a)
{
	const size_t n = rank->iterations.n;

	return n && a->place != SC_NONE && a->place >= rank->iterations.at[0].begin &&
	       a->place < rank->iterations.at[n - 1].end;
}

static void count_apart(const struct sc_trace_rank *rank, struct count *out)
{
	int64_t busy_ns[2] = {0}, end_ns[2] = {INT64_MIN, INT64_MIN};

	*out = (struct count){0};
	for (size_t i = 0; i < rank->acts.n; i++) {
		const struct sc_act *a = &rank->acts.at[i];
		const int side = a->kind == SC_ACT_COLLECTIVE;
		int64_t from = a->start_ns - a->cut_ns;

		if (a->kind != SC_ACT_KERNEL && !side)
			continue;
		from = from > end_ns[side] ? from : end_ns[side];
		if (sc_act_end(a) > from && is_of_iterations(rank, a))
			out->of_steps_us += (double)(sc_act_end(a) - from) / SC_NS_PER_US;
		if (sc_act_end(a) > from) {
			busy_ns[side] += sc_act_end(a) - from;
			end_ns[side] = sc_act_end(a);
		}
		out->n_beside += !side && is_beside(rank, a);
	}
	out->kernel_us = (double)busy_ns[0] / SC_NS_PER_US;
	out->comm_us = (double)busy_ns[1] / SC_NS_PER_US;
}

static void check_policies(const struct sc_c3_what_if *w, const struct count *c, const char *name)
{
	const double both_us = c->kernel_us + c->comm_us, *us = w->policy_us;
	const double turns_us = us[SC_C3_SERIAL] * (double)w->n;

	ck_assert_uint_gt(w->n, 0);
	ck_assert_double_eq_tol(us[SC_C3_PLAIN], w->recorded_us, CLOSE * w->recorded_us);
	ck_assert_double_gt(us[SC_C3_SERIAL], 1.05 * w->recorded_us);
	ck_assert_double_eq_tol(us[SC_C3_COMM_FIRST_RESERVE], us[SC_C3_COMM_FIRST],
				CLOSE * w->recorded_us);
	ck_assert_double_ge(us[SC_C3_RESERVE], w->nothing_lost_us * (1 - CLOSE));
	ck_assert_double_nan(us[SC_C3_CHUNKED]);
	if (strstr(name, "64xh800")) /* exchanges that leave their node: no copy engine does */
		ck_assert_double_eq_tol(us[SC_C3_COPY_ENGINE], w->recorded_us,
					CLOSE * w->recorded_us);
	/* no less than all that both sides do, but for what they lost beside each other; where one
	 * iteration is all of the trace and its GPU is never idle, no more */
	ck_assert_double_ge(turns_us, 0.98 * c->of_steps_us);
	if (w->n == 1)
		ck_assert_double_eq_tol(turns_us, c->of_steps_us, 0.01 * both_us);
	printf("%s: %zu kernels beside collectives; turns %.3f ms an iteration, %.3f ms of both sides "
	       "in %zu\n",
	       name, c->n_beside, us[SC_C3_SERIAL] / SC_US_PER_MS, both_us / SC_US_PER_MS, w->n);
}

static void check_imported(const char *dir, const char *name)
{
	const char *const *files;
	struct sc_c3_recording r;
	struct sc_trace_run run;
	struct sc_arena arena;
	struct count c;
	size_t n;

	sc_arena_init(&arena, 1 << 12);
	ck_assert_int_eq(sc_trace_list(dir, &arena, &files, &n, NULL), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_int_eq(sc_c3_recording_load(dir, NULL, &r, NULL), 0);
	ck_assert_int_eq(sc_trace_run_load(&(struct sc_trace_files){files, n}, NULL, &run, NULL),
			 0);
	count_apart(&run.ranks.at[0], &c);
	ck_assert_double_eq_tol(r.compute_us, c.kernel_us, 1e-6 * c.kernel_us);
	ck_assert_double_eq_tol(r.comm_us, c.comm_us, 1e-6 * c.comm_us);
	ck_assert_uint_eq(r.kernels.list.n, c.n_beside);
	ck_assert_double_le(r.longer_us, r.known_us * (1 + CLOSE)); /* no speedup above the ideal */
	for (size_t i = 0; i < r.stretches.n; i++) {
		const struct sc_overlap_stretch *s = &r.stretches.at[i];

		ck_assert(!(s->compute_us > s->us) && !(s->comm_us > s->us));
	}
	check_policies(&r.what_if, &c, name);
	sc_trace_run_release(&run);
	sc_c3_recording_release(&r);
	for (size_t i = 0; i < n; i++)
		unlink(files[i]);
	sc_arena_release(&arena);
}

NEEDS(folder())

LOOP_TEST(as_counted_apart, N_FILES)
{
	char dir[] = "/tmp/stepcast-c3-XXXXXX", path[MAX_PATH];
	const struct sc_import_opts opts = {.dir = dir, .rank = -1, .other_rank = -1};
	struct sc_import_stats stats;

	snprintf(path, sizeof(path), "%s/%s", folder(), FILES[_i]);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(sc_import(path, &opts, &stats, NULL), 0);
	check_imported(dir, FILES[_i]);
	rmdir(dir);
}
