/* What of a recording ran at once, against a count over its raw events that knows nothing of streams, sides or
 * orders: every pair of kernels is looked at. The public traces are counted too where they are. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "import_fixture.h"
#include "predict/recorded/overlap.h"
#include "runner.h"
#include "trace/import.h"

enum { MAX_PATH = 512, MAX_CLIPS = 1 << 15 };
#define CLOSE_US 1e-3

struct count {
	size_t n_kernels, n_collectives, n_beside, n_collectives_beside, n_known;
	double overlap_us, time_us, alone_us; /* of kernels beside, of those known */
	double compute_us, comm_us, both_us;  /* busy */
};
struct clip {
	int64_t begin, end;
};

static int compare_clips(const void *left, const void *right)
{
	const struct clip *a = left, *b = right;

	return (a->begin > b->begin) - (a->begin < b->begin);
}

static int compare_us(const void *left, const void *right)
{
	const double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double covered_us(struct clip *clips, size_t n)
{
	int64_t sum = 0, last = INT64_MIN;

	qsort(clips, n, sizeof(*clips), compare_clips);
	for (size_t i = 0; i < n; i++) {
		const int64_t begin = clips[i].begin > last ? clips[i].begin : last;

		sum += clips[i].end > begin ? clips[i].end - begin : 0;
		last = clips[i].end > last ? clips[i].end : last;
	}
	return (double)sum / (double)SC_NS_PER_US;
}

/* The kernels of a trace, and which of them communicate. */
struct kernels {
	struct sc_trace t, host; /* host: calls and ops */
	bool *comm;
	uint32_t *shapes; /* of the op, 0 where the count is without */
};

static int32_t device_of(const struct kernels *k, size_t i)
{
	return k->t.lanes.at[k->t.events.at[i].lane].device;
}

/* What of kernel `of` lies beside kernels of the other side. */
static double overlap_of(const struct kernels *k, size_t of, struct clip *clips)
{
	const struct sc_trace_event *e = &k->t.events.at[of];
	size_t n = 0;

	for (size_t i = 0; i < k->t.events.n; i++) {
		const struct sc_trace_event *o = &k->t.events.at[i];
		const int64_t end = e->start_ns + e->dur_ns, o_end = o->start_ns + o->dur_ns;
		const struct clip clip = {o->start_ns > e->start_ns ? o->start_ns : e->start_ns,
					  o_end < end ? o_end : end};

		if (k->comm[i] == k->comm[of] || clip.end <= clip.begin ||
		    device_of(k, i) != device_of(k, of))
			continue;
		ck_assert_uint_lt(n, MAX_CLIPS);
		clips[n++] = clip;
	}
	return covered_us(clips, n);
}

static double busy_us(const struct kernels *k, bool comm, bool both)
{
	struct clip *clips = malloc((k->t.events.n + 1) * sizeof(*clips));
	size_t n = 0;
	double us;

	for (size_t i = 0; i < k->t.events.n; i++) {
		const struct sc_trace_event *e = &k->t.events.at[i];

		if (both || k->comm[i] == comm)
			clips[n++] = (struct clip){e->start_ns, e->start_ns + e->dur_ns};
	}
	us = covered_us(clips, n);
	free(clips);
	return us;
}

static double median_alone(const struct kernels *k, const double *overlap, size_t of)
{
	const struct sc_trace_event *e = &k->t.events.at[of];
	double *us = malloc((k->t.events.n + 1) * sizeof(*us)), median = NAN;
	size_t n = 0;

	for (size_t i = 0; i < k->t.events.n; i++) {
		const struct sc_trace_event *o = &k->t.events.at[i];

		if (o->name == e->name && o->config == e->config && e->config && overlap[i] <= 0 &&
		    k->shapes[i] == k->shapes[of])
			us[n++] = (double)o->dur_ns / (double)SC_NS_PER_US;
	}
	qsort(us, n, sizeof(*us), compare_us);
	if (n)
		median = 0.5 * (us[(n - 1) / 2] + us[n / 2]);
	free(us);
	return median;
}

static void count_kernel(const struct kernels *k, const double *overlap, size_t i,
			 struct count *out)
{
	double alone;

	*(k->comm[i] ? &out->n_collectives : &out->n_kernels) += 1;
	if (overlap[i] <= 0)
		return;
	*(k->comm[i] ? &out->n_collectives_beside : &out->n_beside) += 1;
	if (k->comm[i])
		return;
	out->overlap_us += overlap[i];
	alone = median_alone(k, overlap, i);
	if (isnan(alone))
		return;
	out->n_known++;
	out->alone_us += alone;
	out->time_us += (double)k->t.events.at[i].dur_ns / (double)SC_NS_PER_US;
}

/* Of the op that the kernel, or else the call that started it, names. */
static uint32_t shapes_of(const struct kernels *k, const struct sc_trace_event *e)
{
	int64_t id = e->external_id;

	for (size_t i = 0; i < k->host.events.n && !id; i++) {
		const struct sc_trace_event *call = &k->host.events.at[i];

		if (call->cls == SC_EV_API && call->correlation == e->correlation && e->correlation)
			id = call->external_id;
	}
	for (size_t i = 0; i < k->host.events.n && id; i++) {
		const struct sc_trace_event *op = &k->host.events.at[i];

		if (op->cls == SC_EV_OP && op->external_id == id && op->shapes)
			return op->shapes;
	}
	return 0;
}

static void load_kernels(const char *path, bool with_shapes, struct kernels *k)
{
	const struct sc_trace_load_opts only = {.classes = 1u << SC_EV_KERNEL};
	const struct sc_trace_load_opts host = {.classes = 1u << SC_EV_API | 1u << SC_EV_OP};

	ck_assert_int_eq(sc_trace_load(path, &only, &k->t, NULL), 0);
	ck_assert_int_eq(sc_trace_load(path, &host, &k->host, NULL), 0);
	k->comm = calloc(k->t.events.n + 1, sizeof(*k->comm));
	k->shapes = calloc(k->t.events.n + 1, sizeof(*k->shapes));
	for (size_t i = 0; i < k->t.events.n; i++) {
		k->comm[i] = sc_is_comm_kernel(k->t.strings.at[k->t.events.at[i].name], NULL);
		if (with_shapes)
			k->shapes[i] = shapes_of(k, &k->t.events.at[i]);
	}
}

static void count(const char *path, bool with_shapes, struct count *out)
{
	struct clip *clips = malloc(MAX_CLIPS * sizeof(*clips));
	struct kernels k;
	double *overlap;

	memset(out, 0, sizeof(*out));
	load_kernels(path, with_shapes, &k);
	overlap = malloc((k.t.events.n + 1) * sizeof(*overlap));
	for (size_t i = 0; i < k.t.events.n; i++)
		overlap[i] = overlap_of(&k, i, clips);
	for (size_t i = 0; i < k.t.events.n; i++)
		count_kernel(&k, overlap, i, out);
	out->compute_us = busy_us(&k, false, false);
	out->comm_us = busy_us(&k, true, false);
	out->both_us = out->compute_us + out->comm_us - busy_us(&k, false, true);
	free(k.comm);
	free(k.shapes);
	free(overlap);
	free(clips);
	sc_trace_release(&k.t);
	sc_trace_release(&k.host);
}

static void sum_found(const struct sc_overlaps *o, struct count *out)
{
	*out = (struct count){.n_kernels = o->n_kernels,
			      .n_collectives = o->n_collectives,
			      .n_beside = o->kernels.n,
			      .n_collectives_beside = o->collectives.n,
			      .compute_us = o->compute_us,
			      .comm_us = o->comm_us,
			      .both_us = o->both_us};
	for (size_t i = 0; i < o->kernels.n; i++) {
		const struct sc_beside *b = &o->kernels.at[i];

		ck_assert_uint_ne(b->beside, SC_NONE);
		out->overlap_us += b->overlap_us;
		if (isnan(b->alone_us))
			continue;
		out->n_known++;
		out->alone_us += b->alone_us;
		out->time_us += b->time_us;
	}
}

static void check_stretches(const struct sc_overlaps *o)
{
	double us = 0;

	for (size_t i = 0; i < o->stretches.n; i++) {
		const struct sc_stretch *s = &o->stretches.at[i];

		ck_assert_double_gt(s->us, 0);
		us += s->us;
		if (i)
			ck_assert_int_gt(s->start_ns, s[-1].start_ns);
	}
	ck_assert_double_eq_tol(us, o->both_us, CLOSE_US);
}

static void check_file(const char *path, bool with_shapes, struct count *expected)
{
	struct sc_trace_run run;
	struct sc_overlaps found;
	struct sc_err err = {.code = SC_OK};
	struct count got;
	int rc;

	count(path, with_shapes, expected);
	rc = with_shapes ? sc_trace_run_load_shapes(&(struct sc_trace_files){&path, 1}, &run, &err)
			 : sc_trace_run_load(&(struct sc_trace_files){&path, 1}, NULL, &run, &err);
	ck_assert_msg(rc == 0, "%s: %s", path, err.text);
	sc_overlaps_find(&run, &run.ranks.at[0], &found);
	sum_found(&found, &got);
	ck_assert_uint_eq(got.n_kernels, expected->n_kernels);
	ck_assert_uint_eq(got.n_collectives, expected->n_collectives);
	ck_assert_uint_eq(got.n_beside, expected->n_beside);
	ck_assert_uint_eq(got.n_collectives_beside, expected->n_collectives_beside);
	ck_assert_uint_eq(got.n_known, expected->n_known);
	ck_assert_double_eq_tol(got.overlap_us, expected->overlap_us, CLOSE_US);
	ck_assert_double_eq_tol(got.time_us, expected->time_us, CLOSE_US);
	ck_assert_double_eq_tol(got.alone_us, expected->alone_us, CLOSE_US);
	ck_assert_double_eq_tol(got.compute_us, expected->compute_us, CLOSE_US);
	ck_assert_double_eq_tol(got.comm_us, expected->comm_us, CLOSE_US);
	ck_assert_double_eq_tol(got.both_us, expected->both_us, CLOSE_US);
	check_stretches(&found);
	sc_overlaps_release(&found);
	sc_trace_run_release(&run);
}

/* The script of the job says what runs beside its collectives: 160 kernels in all ranks. */
START_TEST(counts_of_the_small_job)
{
	size_t n_beside = 0, n_known = 0;

	for (int rank = 0; rank < 8; rank++) {
		struct count expected;
		char path[MAX_PATH];

		snprintf(path, sizeof(path), "traces/job/rank%d.sctrace", rank);
		check_file(path, true, &expected);
		n_beside += expected.n_beside;
		n_known += expected.n_known;
	}
	ck_assert_uint_eq(n_beside, 160);
	ck_assert_uint_eq(n_known, 160);
}
END_TEST

/* Public traces with overlap; what their facts.json, made by another program, says of it. */
static const struct {
	const char *file, *made;
	double compute_us, comm_us, both_us;
} PUBLIC[] = {
	{"hta-dlrm-2xv100-rank1/rank1.json.gz", "rank1", 548148, 251341, 178043},
	{"hta-dlrm-8xa100-rank3/rank3.json.gz", "rank3", 281336, 163535, 75614},
	{"deepseek-train-64xh800-rank0/rank0.json.gz", "rank0", 124300, 113000, NAN},
	{"tracelens-ddp-8xmi300x/trace.json.gz", "trace.rank0", 25739.4, 71516.5, 15891.3},
};

START_TEST(counts_of_public_traces)
{
	const char *given = getenv("STEPCAST_TRACES");
	char dir[] = "/tmp/stepcast-overlap-XXXXXX", path[MAX_PATH];
	struct sc_import_opts opts = {.dir = dir, .rank = -1, .other_rank = -1};
	struct sc_import_stats stats;
	struct count count;
	size_t n_known;

	snprintf(path, sizeof(path), "%s/%s", given ? given : "../shared/data/traces",
		 PUBLIC[_i].file);
	if (access(path, R_OK) != 0)
		return;
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(sc_import(path, &opts, &stats, NULL), 0);
	snprintf(path, sizeof(path), "%s/%s.sctrace", dir, PUBLIC[_i].made);
	check_file(path, false, &count);
	n_known = count.n_known;
	check_file(path, true, &count);
	unlink(path);
	rmdir(dir);
	ck_assert_double_eq_tol(count.compute_us, PUBLIC[_i].compute_us, 60);
	ck_assert_double_eq_tol(count.comm_us, PUBLIC[_i].comm_us, 60);
	/* only the last was recorded with shapes: they tell kernels of one launch apart */
	if (_i == 3)
		ck_assert_uint_lt(count.n_known, n_known);
	else
		ck_assert_uint_eq(count.n_known, n_known);
	if (!isnan(PUBLIC[_i].both_us))
		ck_assert_double_eq_tol(count.both_us, PUBLIC[_i].both_us, 1);
}
END_TEST

static Suite *overlap_suite(void)
{
	Suite *suite = suite_create("overlap");
	TCase *tcase = tcase_create("all");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, counts_of_the_small_job);
	tcase_add_loop_test(tcase, counts_of_public_traces, 0,
			    (int)(sizeof(PUBLIC) / sizeof(PUBLIC[0])));
	suite_add_tcase(suite, tcase);
	return suite;
}

TEST_MAIN(overlap_suite)
