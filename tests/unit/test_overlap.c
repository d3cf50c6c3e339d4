/* What of a recording ran at once, against a count over its raw events that knows nothing of
 * streams or sides: every pair of kernels near in time is looked at. The public traces are counted
 * too where they are. */
#include <unistd.h>

#include "base/search.h"
#include "base/units.h"
#include "import_fixture.h"
#include "runner.h"
#include "trace/graph/overlap.h"
#include "trace/import/import.h"

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

/* An id of a host event, and what it leads to. */
struct key {
	int64_t id;
	size_t event;
};

/* The kernels of a trace, and which of them communicate. */
struct kernels {
	struct sc_trace t, host; /* host: calls and ops */
	int64_t longest_ns;
	struct key *calls,
		*ops; /* of correlations and external ids, in order; the first is taken */
	size_t n_calls, n_ops;
	bool *comm;
	uint32_t *shapes; /* of the op, 0 where the count is without */
	/* Of the iteration that launched it, from 1, or 0; of those on its stream with its launch
	 * there, how many came before and how many there are. */
	size_t *iteration, *before, *all;
	size_t n_iterations;
};

static int32_t device_of(const struct kernels *k, size_t i)
{
	return k->t.lanes.at[k->t.events.at[i].lane].device;
}

/* The first event, in order of start, that may end after a time. */
static size_t first_that_may_reach(const struct kernels *k, int64_t ns)
{
	size_t low;

	SC_FIRST_NOT(low, i, 0, k->t.events.n, k->t.events.at[i].start_ns + k->longest_ns < ns);
	return low;
}

/* What of kernel `of` lies beside kernels of the other side. */
static double overlap_of(const struct kernels *k, size_t of, struct clip *clips)
{
	const struct sc_trace_event *e = &k->t.events.at[of];
	const int64_t end = e->start_ns + e->dur_ns;
	size_t n = 0;

	for (size_t i = first_that_may_reach(k, e->start_ns); i < k->t.events.n; i++) {
		const struct sc_trace_event *o = &k->t.events.at[i];
		const int64_t o_end = o->start_ns + o->dur_ns;
		const struct clip clip = {o->start_ns > e->start_ns ? o->start_ns : e->start_ns,
					  o_end < end ? o_end : end};

		if (o->start_ns >= end)
			break;
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

static bool same_launch(const struct kernels *k, size_t a, size_t b)
{
	const struct sc_trace_event *x = &k->t.events.at[a], *y = &k->t.events.at[b];

	return x->name == y->name && x->config == y->config;
}

/* The kernel that computes `steps` after (or before) one of its stream; SIZE_MAX: none. */
static size_t neighbour(const struct kernels *k, size_t of, int steps)
{
	const int step = steps > 0 ? 1 : -1;

	for (size_t i = of + (size_t)step; i < k->t.events.n; i += (size_t)step) {
		if (k->comm[i] || k->t.events.at[i].lane != k->t.events.at[of].lane)
			continue;
		steps -= step;
		if (steps == 0)
			return i;
	}
	return SIZE_MAX;
}

static bool same_place(const struct kernels *k, size_t a, size_t b)
{
	if (k->n_iterations > 1)
		return k->iteration[a] && k->iteration[b] && k->before[a] == k->before[b] &&
		       k->all[a] == k->all[b] && k->t.events.at[a].lane == k->t.events.at[b].lane;
	for (int steps = -4; steps <= 4; steps++) {
		const size_t x = steps ? neighbour(k, a, steps) : a;
		const size_t y = steps ? neighbour(k, b, steps) : b;

		if ((x == SIZE_MAX) != (y == SIZE_MAX) || (x != SIZE_MAX && !same_launch(k, x, y)))
			return false;
	}
	return true;
}

static bool same_work(const struct kernels *k, size_t a, size_t b)
{
	if (k->shapes[a] || k->shapes[b])
		return k->shapes[a] == k->shapes[b];
	return same_place(k, a, b);
}

static double median_alone(const struct kernels *k, const double *overlap, size_t of)
{
	const struct sc_trace_event *e = &k->t.events.at[of];
	double *us = malloc((k->t.events.n + 1) * sizeof(*us)), median = NAN;
	size_t n = 0;

	for (size_t i = 0; i < k->t.events.n; i++) {
		const struct sc_trace_event *o = &k->t.events.at[i];

		if (same_launch(k, i, of) && e->config && overlap[i] <= 0 && same_work(k, i, of))
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

static int compare_keys(const void *left, const void *right)
{
	const struct key *a = left, *b = right;

	return a->id != b->id ? (a->id > b->id) - (a->id < b->id)
			      : (a->event > b->event) - (a->event < b->event);
}

static const struct sc_trace_event *first_of(const struct kernels *k, const struct key *keys,
					     size_t n, int64_t id)
{
	size_t low;

	SC_FIRST_NOT(low, i, 0, n, keys[i].id < id);
	return low < n && keys[low].id == id && id ? &k->host.events.at[keys[low].event] : NULL;
}

static void index_host(struct kernels *k)
{
	k->calls = malloc((k->host.events.n + 1) * sizeof(*k->calls));
	k->ops = malloc((k->host.events.n + 1) * sizeof(*k->ops));
	k->n_calls = k->n_ops = 0;
	for (size_t i = 0; i < k->host.events.n; i++) {
		const struct sc_trace_event *e = &k->host.events.at[i];

		if (e->cls == SC_EV_API && e->external_id)
			k->calls[k->n_calls++] = (struct key){(int64_t)e->correlation, i};
		else if (e->cls == SC_EV_OP && e->shapes)
			k->ops[k->n_ops++] = (struct key){e->external_id, i};
	}
	qsort(k->calls, k->n_calls, sizeof(*k->calls), compare_keys);
	qsort(k->ops, k->n_ops, sizeof(*k->ops), compare_keys);
}

/* Of the op that the kernel, or else the call that started it, names. */
static uint32_t shapes_of(const struct kernels *k, const struct sc_trace_event *e)
{
	const struct sc_trace_event *call =
		first_of(k, k->calls, k->n_calls, (int64_t)e->correlation);
	const int64_t id = e->external_id ? e->external_id : call ? call->external_id : 0;
	const struct sc_trace_event *op = first_of(k, k->ops, k->n_ops, id);

	return op ? op->shapes : 0;
}

static void load_kernels(const char *path, bool with_shapes, struct kernels *k)
{
	const struct sc_trace_load_opts only = {.classes = 1u << SC_EV_KERNEL};
	const struct sc_trace_load_opts host = {.classes = 1u << SC_EV_API | 1u << SC_EV_OP};

	ck_assert_int_eq(sc_trace_load(path, &only, &k->t, NULL), 0);
	ck_assert_int_eq(sc_trace_load(path, &host, &k->host, NULL), 0);
	k->comm = calloc(k->t.events.n + 1, sizeof(*k->comm));
	k->shapes = calloc(k->t.events.n + 1, sizeof(*k->shapes));
	index_host(k);
	k->longest_ns = 0;
	for (size_t i = 0; i < k->t.events.n; i++) {
		const struct sc_trace_event *e = &k->t.events.at[i];

		ck_assert(i == 0 || e[-1].start_ns <= e->start_ns);
		k->longest_ns = e->dur_ns > k->longest_ns ? e->dur_ns : k->longest_ns;
		k->comm[i] = sc_is_comm_kernel(k->t.strings.at[e->name], NULL);
		if (with_shapes)
			k->shapes[i] = shapes_of(k, &k->t.events.at[i]);
	}
}

/* Which iteration launched each kernel, as the run has it: its kernels are the trace's in order of
 * start. */
static void set_iterations(const struct sc_trace_rank *rank, struct kernels *k)
{
	size_t at = 0;

	k->n_iterations = rank->iterations.n;
	for (size_t a = 0; a < rank->acts.n; a++) {
		const struct sc_act *act = &rank->acts.at[a];

		if (act->kind != SC_ACT_KERNEL && act->kind != SC_ACT_COLLECTIVE)
			continue;
		ck_assert_uint_lt(at, k->t.events.n);
		ck_assert_int_eq(k->t.events.at[at].dur_ns, act->dur_ns + act->cut_ns);
		for (size_t i = 0; i < rank->iterations.n; i++)
			if (act->place != SC_NONE && act->place >= rank->iterations.at[i].begin &&
			    act->place < rank->iterations.at[i].end)
				k->iteration[at] = i + 1;
		at++;
	}
	for (size_t a = 0; a < k->t.events.n; a++)
		for (size_t b = 0; b < k->t.events.n; b++)
			if (k->comm[a] == k->comm[b] && same_launch(k, a, b) &&
			    k->t.events.at[a].lane == k->t.events.at[b].lane &&
			    k->iteration[a] == k->iteration[b]) {
				k->before[a] += b < a;
				k->all[a]++;
			}
}

static void count(const char *path, const struct sc_trace_rank *rank, bool with_shapes,
		  struct count *out)
{
	struct clip *clips = malloc(MAX_CLIPS * sizeof(*clips));
	struct kernels k;
	double *overlap;

	memset(out, 0, sizeof(*out));
	load_kernels(path, with_shapes, &k);
	k.iteration = calloc(k.t.events.n + 1, sizeof(*k.iteration));
	k.before = calloc(k.t.events.n + 1, sizeof(*k.before));
	k.all = calloc(k.t.events.n + 1, sizeof(*k.all));
	set_iterations(rank, &k);
	overlap = malloc((k.t.events.n + 1) * sizeof(*overlap));
	for (size_t i = 0; i < k.t.events.n; i++)
		overlap[i] = overlap_of(&k, i, clips);
	for (size_t i = 0; i < k.t.events.n; i++)
		count_kernel(&k, overlap, i, out);
	out->compute_us = busy_us(&k, false, false);
	out->comm_us = busy_us(&k, true, false);
	out->both_us = out->compute_us + out->comm_us - busy_us(&k, false, true);
	free(k.calls);
	free(k.ops);
	free(k.comm);
	free(k.shapes);
	free(k.iteration);
	free(k.before);
	free(k.all);
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
		const struct sc_overlap_stretch *s = &o->stretches.at[i];

		ck_assert_double_gt(s->us, 0);
		us += s->us;
		if (i)
			ck_assert_double_gt(s->start_us, s[-1].start_us);
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

	rc = sc_trace_run_load(&(struct sc_trace_files){&path, 1},
			       &(struct sc_trace_run_opts){.shapes = with_shapes}, &run, &err);
	ck_assert_msg(rc == 0, "%s: %s", path, err.text);
	count(path, &run.ranks.at[0], with_shapes, expected);
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

/* The script of the job says what runs beside its collectives: 160 kernels in all ranks, at the
 * same places in each iteration, so that none of them runs alone. */
TEST(counts_of_the_small_job)
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
	ck_assert_uint_eq(n_known, 0);
}

/* Kernels of one launch, the second of each iteration on more data; a collective beside both in the
 * first iteration: each is compared with the one at its place. */
static void make_run(struct sc_trace_run *run, struct sc_trace_rank *rank, size_t n_iterations)
{
	static const struct sc_trace_stream streams[2] = {{.device = 0}, {.device = 0}};

	*run = (struct sc_trace_run){.with_shapes = false};
	*rank = (struct sc_trace_rank){.rank = 0};
	for (int i = 0; i < 2; i++)
		SC_VEC_PUSH(&rank->streams, streams[i]);
	for (uint32_t i = 0; i < n_iterations; i++) {
		const struct sc_trace_iteration one = {.begin = 10 * i, .end = 10 * i + 10};
		const int64_t start = (int64_t)i * 1000000;
		const int64_t dur[2] = {i ? 10000 : 12000, i ? 100000 : 130000};
		const struct sc_act comm = {.start_ns = start,
					    .dur_ns = 200000,
					    .kind = SC_ACT_COLLECTIVE,
					    .merge_call = SC_NONE,
					    .lane = 1};

		SC_VEC_PUSH(&rank->iterations, one);
		if (i == 0)
			SC_VEC_PUSH(&rank->acts, comm);
		for (uint32_t n = 0; n < 2; n++) {
			const struct sc_act kernel = {.start_ns = start + (n ? 20000 : 0),
						      .dur_ns = dur[n],
						      .name = 7,
						      .config = 1,
						      .place = 10 * i + 1 + n,
						      .merge_call = SC_NONE,
						      .kind = SC_ACT_KERNEL};

			SC_VEC_PUSH(&rank->acts, kernel);
		}
	}
}

TEST(places_tell_kernels_of_one_launch_apart)
{
	for (size_t n = 1; n <= 3; n++) {
		struct sc_trace_run run;
		struct sc_trace_rank rank;
		struct sc_overlaps o;

		make_run(&run, &rank, n);
		sc_overlaps_find(&run, &rank, &o);
		ck_assert_uint_eq(o.kernels.n, 2);
		for (size_t i = 0; i < 2; i++) {
			const double alone_us = i ? 100 : 10;

			ck_assert_int_eq(isnan(o.kernels.at[i].alone_us), n == 1);
			if (n > 1)
				ck_assert_double_eq_tol(o.kernels.at[i].alone_us, alone_us,
							CLOSE_US);
		}
		sc_overlaps_release(&o);
		SC_VEC_RELEASE(&rank.streams);
		SC_VEC_RELEASE(&rank.iterations);
		SC_VEC_RELEASE(&rank.acts);
	}
}

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

enum { N_PUBLIC = sizeof(PUBLIC) / sizeof(PUBLIC[0]) };

LOOP_TEST(counts_of_public_traces, N_PUBLIC)
{
	const char *given = getenv("STEPCAST_TRACES");
	char dir[] = "/tmp/stepcast-overlap-XXXXXX", path[MAX_PATH];
	struct sc_import_opts opts = {.dir = dir, .rank = -1, .other_rank = -1};
	struct sc_import_stats stats;
	struct count count;
	size_t n_known;

	snprintf(path, sizeof(path), "%s/%s", given ? given : "../shared/data/traces",
		 PUBLIC[_i].file);
	if (access(path, R_OK) != 0 || !takes_case(_i, N_PUBLIC))
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
	/* only the last was recorded with shapes: they make kernels at other places the same */
	if (_i == 3)
		ck_assert_uint_gt(count.n_known, n_known);
	else
		ck_assert_uint_eq(count.n_known, n_known);
	if (!isnan(PUBLIC[_i].both_us))
		ck_assert_double_eq_tol(count.both_us, PUBLIC[_i].both_us, 1);
}
