/* Finds what is typical of each call and activity: the same one of other iterations, that is of the
 * same name, thread or stream, and place among those of its name. Means without outliers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/stats.h"
#include "trace/graph/job.h"
#include "trace/replay/replay_study.h"

enum { MIN_FOR_TRIMMING = 8, MAX_LIKE = 64 };
#define OUTLIER_FACTOR 5.0
#define OUTLIER_US 20.0

/* One call or activity of one iteration. */
struct entry {
	uint32_t lane, name, place; /* place: how many of its name and lane were before it */
	uint32_t iteration, index;
	bool outlier; /* takes what is typical, and is no part of it */
	struct replay_pair us;
};
struct entries {
	SC_VEC(struct entry) list;
};

SC_COMPARE(compare_names, struct entry,
	   8 * SC_ORDER(a->lane, b->lane) + 4 * SC_ORDER(a->name, b->name) +
		   2 * SC_ORDER(a->iteration, b->iteration) + SC_ORDER(a->index, b->index));

SC_COMPARE(compare_places, struct entry,
	   8 * SC_ORDER(a->lane, b->lane) + 4 * SC_ORDER(a->name, b->name) +
		   2 * SC_ORDER(a->place, b->place) + SC_ORDER(a->iteration, b->iteration));

static bool same_name(const struct entry *a, const struct entry *b)
{
	return a->lane == b->lane && a->name == b->name;
}

struct scratch {
	double *x, *sorted, *below; /* rising; below[i]: sum of the first i */
	bool by_median;   /* of jobs: a step in which one operation stalls is not theirs */
	uint32_t *n_like; /* by iteration */
	uint32_t like[2 * MAX_LIKE];
};

/* Sorts n values, in s->x. */
static void sort_values(struct scratch *s, size_t n)
{
	memcpy(s->sorted, s->x, n * sizeof(*s->x));
	sc_sort_doubles(s->sorted, n);
	s->below[0] = 0;
	for (size_t i = 0; i < n; i++)
		s->below[i + 1] = s->below[i] + s->sorted[i];
}

/* The mean of n sorted values without the k-th, of all if k is n; of many, what is far above the
 * median counts as far only. Times are skewed, so that sums of medians would be too short; and of
 * few values none can be told to be an outlier. NAN: there is none. */
static float typical_us(const struct scratch *s, size_t n, size_t k)
{
	const size_t used = n - (k < n), low = used ? (used - 1) / 2 : 0, high = used / 2;
	double limit = (double)INFINITY, median, sum;
	size_t kept = n;

	if (used == 0)
		return NAN;
	median = (s->sorted[low + (low >= k)] + s->sorted[high + (high >= k)]) / 2;
	if (s->by_median)
		return (float)median;
	if (used >= MIN_FOR_TRIMMING) {
		limit = OUTLIER_FACTOR * median + OUTLIER_US;
		SC_FIRST_NOT(kept, i, 0, n, s->sorted[i] < limit);
	}
	sum = kept == n ? s->below[n] : s->below[kept] + (double)(n - kept) * limit;
	return (float)((k < n ? sum - fmin(s->sorted[k], limit) : sum) / (double)used);
}

static float *part_of(struct replay_pair *pair, int part)
{
	return part ? &pair->work_us : &pair->gap_us;
}

/* One run of entries of the same place. Where all are of outliers, they stand for themselves. */
static void means_of(struct entry *e, size_t n, struct scratch *s, struct replay_pair *const of[])
{
	for (int part = 0; part < 2; part++) {
		size_t m = 0, k = 0;
		float all;

		for (size_t i = 0; i < n; i++)
			if (!e[i].outlier)
				s->x[m++] = (double)*part_of(&e[i].us, part);
		sort_values(s, m);
		all = typical_us(s, m, m);
		for (size_t i = 0; i < n; i++) {
			size_t at = m;

			if (!e[i].outlier)
				SC_FIRST_NOT(at, q, 0, m, s->sorted[q] < s->x[k]);
			k += !e[i].outlier;
			*part_of(&of[TIMES_TYPICAL][e[i].index], part) =
				m ? all : *part_of(&e[i].us, part);
			*part_of(&of[TIMES_OTHERS][e[i].index], part) = typical_us(s, m, at);
		}
	}
}

/* A call that no other iteration has at its place takes what others of its name take in other
 * iterations: at most MAX_LIKE of one, until there are as many beside any. Returns how many have no
 * such. */
static size_t fill_alone(struct entry *e, size_t n, struct scratch *s, struct replay_pair *other)
{
	size_t n_like = 0, n_alone = 0;

	for (size_t i = 0; i < n; i++)
		s->n_like[e[i].iteration] = 0;
	for (size_t i = 0; i < n && n_like < 2 * MAX_LIKE; i++)
		if (!e[i].outlier && s->n_like[e[i].iteration]++ < MAX_LIKE)
			s->like[n_like++] = (uint32_t)i;
	for (size_t i = 0; i < n; i++) {
		size_t m = 0;

		if (!isnan(other[e[i].index].work_us))
			continue;
		other[e[i].index] = e[i].us;
		for (int part = 0; part < 2; part++) {
			m = 0;
			for (size_t j = 0; j < n_like && m < MAX_LIKE; j++)
				if (e[s->like[j]].iteration != e[i].iteration)
					s->x[m++] = (double)*part_of(&e[s->like[j]].us, part);
			if (m == 0)
				break;
			sort_values(s, m);
			*part_of(&other[e[i].index], part) = typical_us(s, m, m);
		}
		n_alone += m == 0;
	}
	return n_alone;
}

static size_t find_typical(struct entries *entries, const struct sc_trace_run *run,
			   struct replay_pair *const of[])
{
	struct entry *e = entries->list.at;
	const size_t n = entries->list.n;
	struct scratch s = {.by_median = run->n_replicas > 0};
	size_t n_alone = 0;

	s.x = sc_xmalloc((n + 1) * sizeof(double));
	s.sorted = sc_xmalloc((n + 1) * sizeof(double));
	s.below = sc_xmalloc((n + 1) * sizeof(double));
	s.n_like = sc_xmalloc((run->n_iterations + 1) * sizeof(*s.n_like));
	SC_SORT(e, n, compare_names);
	for (size_t i = 1; i < n; i++)
		if (same_name(&e[i], &e[i - 1]) && e[i].iteration == e[i - 1].iteration)
			e[i].place = e[i - 1].place + 1;
	SC_SORT(e, n, compare_places);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && same_name(&e[end], &e[i]) && e[end].place == e[i].place;
		     end++)
			;
		means_of(&e[i], end - i, &s, of);
	}
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && same_name(&e[end], &e[i]); end++)
			;
		n_alone += fill_alone(&e[i], end - i, &s, of[TIMES_OTHERS]);
	}
	free(s.x);
	free(s.sorted);
	free(s.below);
	free(s.n_like);
	return n_alone;
}

void sc_replay_release_medians(struct replay_medians *medians)
{
	for (int times = 0; times < TIMES_MEASURED; times++) {
		free(medians->calls[times]);
		free(medians->acts[times]);
	}
}

static void rank_medians(const struct replay_study *study, const struct sc_trace_rank *r,
			 struct replay_medians *m)
{
	const struct sc_trace_run *run = &study->run;
	struct entries calls = {.list = {0}}, acts = {.list = {0}};

	for (int times = 0; times < TIMES_MEASURED; times++) {
		m->calls[times] = sc_xcalloc(r->calls.n + 1, sizeof(struct replay_pair));
		m->acts[times] = sc_xcalloc(r->acts.n + 1, sizeof(struct replay_pair));
	}
	for (uint32_t i = 0; i < run->n_iterations; i++) {
		const struct sc_trace_iteration *it = &r->iterations.at[i];

		for (uint32_t c = it->begin + 1; c <= it->end; c++) {
			const struct sc_call *call = &r->calls.at[c];
			const struct entry e = {.lane = call->lane,
						.name = call->name,
						.iteration = i,
						.index = c,
						.outlier = study->outlier[i],
						.us = {call->gap_us, call->tail_us}};

			SC_VEC_PUSH(&calls.list, e);
		}
		for (uint32_t a = it->first_act; a < it->end_act; a++) {
			const struct sc_act *act = &r->acts.at[a];
			const struct entry e = {
				.lane = act->lane,
				.name = act->name,
				.iteration = i,
				.index = a,
				.outlier = study->outlier[i],
				.us = {act->gap_us, (float)sc_trace_act_work_us(run, r, act)},
			};

			if (act->launch >= it->begin && act->launch <= it->end)
				SC_VEC_PUSH(&acts.list, e);
		}
	}
	m->n_alone = find_typical(&calls, run, m->calls) + find_typical(&acts, run, m->acts);
	SC_VEC_RELEASE(&calls.list);
	SC_VEC_RELEASE(&acts.list);
}

/* Gaps of a job hold waits that its timeline does not explain, of some workers in every step. What
 * is typical of one is the median over all workers and steps of its name, the first in a step and
 * later ones apart. */
static void typical_job_gaps(struct replay_study *study)
{
	enum { N_CLASSES = 2 * SC_N_JOB_TYPES };
	SC_VEC(double) of[N_CLASSES] = {{0}};
	double median_us[N_CLASSES] = {0};

	for (int put = 0; put < 2; put++) {
		for (size_t r = 0; r < study->run.ranks.n; r++) {
			const struct sc_trace_rank *rank = &study->run.ranks.at[r];

			for (size_t i = 0; i < rank->iterations.n; i++) {
				const struct sc_trace_iteration *it = &rank->iterations.at[i];
				bool later[SC_N_JOB_TYPES] = {false};

				for (uint32_t a = it->first_act; a < it->end_act; a++) {
					const struct sc_act *act = &rank->acts.at[a];
					const uint32_t class = 2 * act->name + later[act->name];

					later[act->name] = true;
					if (put)
						study->medians[r].acts[TIMES_TYPICAL][a].gap_us =
							(float)median_us[class];
					else
						SC_VEC_PUSH(&of[class], (double)act->gap_us);
				}
			}
		}
		for (size_t c = 0; c < N_CLASSES; c++) {
			median_us[c] = of[c].n ? sc_median_sorting(of[c].at, of[c].n) : 0;
			SC_VEC_RELEASE(&of[c]);
		}
	}
}

void sc_replay_medians(struct replay_study *study)
{
	for (size_t r = 0; r < study->run.ranks.n; r++) {
		sc_replay_release_medians(&study->medians[r]);
		rank_medians(study, &study->run.ranks.at[r], &study->medians[r]);
	}
	if (study->run.n_replicas)
		typical_job_gaps(study);
}

/* Times of ranks -> each over the mean of the others; NAN where there are none. */
static void over_others(double *us, size_t n)
{
	double sum = 0;

	for (size_t r = 0; r < n; r++)
		sum += us[r];
	for (size_t r = 0; r < n; r++)
		us[r] = n > 1 && sum > us[r] ? us[r] * (double)(n - 1) / (sum - us[r])
					     : (double)NAN;
}

bool sc_replay_computes(const struct sc_trace_run *run, const struct sc_act *act)
{
	return act->kind == SC_ACT_KERNEL &&
	       (!run->n_replicas || run->owner.at[act->name] == SC_OWN_COMPUTE);
}

/* A job's communication takes the median: its outliers are not real, as differences of computation
 * are (so does the publisher's analysis). */
static void medians_of_communication(struct replay_study *study)
{
	SC_VEC(double) us = {0};

	for (uint32_t name = 0; name < SC_N_JOB_TYPES; name++) {
		us.n = 0;
		for (size_t r = 0; sc_job_types[name].collective >= 0 && r < study->run.ranks.n;
		     r++) {
			const struct sc_trace_rank *rank = &study->run.ranks.at[r];

			for (size_t a = 0; a < rank->acts.n; a++)
				if (rank->acts.at[a].name == name)
					SC_VEC_PUSH(&us, sc_trace_act_work_us(&study->run, rank,
									      &rank->acts.at[a]));
		}
		if (us.n)
			study->mean_us[name] = sc_median_sorting(us.at, us.n);
	}
	SC_VEC_RELEASE(&us);
}

/* Means by name, NAN where no activity has it, and how slow each rank computes against the others:
 * over iterations, activities that are no collectives; and its host. */
void sc_replay_means(struct replay_study *study)
{
	const struct sc_trace_run *run = &study->run;
	const size_t n_names = sc_intern_count(&run->names) + 1, n = run->ranks.n;
	int64_t *count = sc_xcalloc(n_names, sizeof(*count));

	study->mean_us = sc_xcalloc(n_names, sizeof(double));
	study->slowness = sc_xmalloc((n + 1) * sizeof(double));
	study->host_slowness = sc_xmalloc((n + 1) * sizeof(double));
	for (size_t r = 0; r < n; r++) {
		const struct sc_trace_rank *rank = &run->ranks.at[r];

		study->host_slowness[r] = study->slowness[r] = 0;
		/* Only iterations count: between them a rank may do what others need not, or were
		 * not recorded at. */
		for (size_t i = 0; i < rank->iterations.n; i++) {
			const struct sc_trace_iteration *it = &rank->iterations.at[i];

			for (uint32_t c = it->begin + 1; c <= it->end; c++)
				study->host_slowness[r] += (double)rank->calls.at[c].gap_us;
			for (uint32_t a = it->first_act; a < it->end_act; a++) {
				const struct sc_act *act = &rank->acts.at[a];
				const double us = sc_trace_act_work_us(run, rank, act);

				if (act->place == SC_NONE || act->place < it->begin ||
				    act->place > it->end)
					continue;
				study->mean_us[act->name] += us;
				count[act->name]++;
				if (sc_replay_computes(run, act))
					study->slowness[r] += us;
			}
		}
	}
	for (size_t i = 0; i < n_names; i++)
		study->mean_us[i] = count[i] ? study->mean_us[i] / (double)count[i] : (double)NAN;
	if (run->n_replicas)
		medians_of_communication(study);
	over_others(study->slowness, n);
	over_others(study->host_slowness, n);
	free(count);
}
