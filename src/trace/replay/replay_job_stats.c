/* What is typical of a job's operations: over all workers and steps, and of one operation over the steps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "trace/replay/replay_job_priv.h"

/* ---- typical work of a type ---- */

typedef SC_VEC(double) doubles;

static double median_of(doubles *x)
{
	return x->n ? sc_median_sorting(x->at, x->n) : 0;
}

/* The mean of computation, whose differences are real, and the median of communication, whose outliers are
 * not (as the publisher's analysis does). */
static void typical_work(struct job_study *s)
{
	doubles of_type[SC_N_JOB_TYPES] = {{0}};

	for (size_t i = 0; i < s->job->ops.n; i++)
		SC_VEC_PUSH(&of_type[s->job->ops.at[i].type], s->work_us[i]);
	for (int t = 0; t < SC_N_JOB_TYPES; t++) {
		if (!of_type[t].n)
			s->type_us[t] = 0;
		else if (sc_job_types[t].by_mean)
			s->type_us[t] = sc_mean(of_type[t].at, of_type[t].n);
		else
			s->type_us[t] = median_of(&of_type[t]);
		SC_VEC_RELEASE(&of_type[t]);
	}
}

void sc_job_study_workers(struct job_study *s)
{
	const size_t n = s->job->workers.n * SC_N_JOB_TYPES;
	double *count = sc_xmalloc(n * sizeof(*count));

	for (size_t i = 0; i < n; i++)
		s->worker_us[i] = count[i] = 0;
	for (size_t i = 0; i < s->job->ops.n; i++) {
		const struct sc_job_op *op = &s->job->ops.at[i];
		const size_t at = (size_t)op->worker * SC_N_JOB_TYPES + op->type;

		s->worker_us[at] += s->work_us[i];
		count[at]++;
	}
	for (size_t i = 0; i < n; i++)
		s->worker_us[i] = count[i] > 0 ? s->worker_us[i] / count[i] : 0;
	free(count);
}

/* ---- typical gaps ---- */

/* Gaps differ by what comes after them and by whether it is the first of its type in the step. */
size_t sc_job_gap_class(const struct sc_job *job, size_t op)
{
	const struct sc_job_op *o = &job->ops.at[op];
	const bool first = op == 0 || o[-1].worker != o->worker || o[-1].type != o->type ||
			   o[-1].seq >= o->seq;

	return (size_t)o->type * 2 + !first;
}

static void typical_gaps(struct job_study *s)
{
	doubles of_class[N_JOB_GAP_CLASSES] = {{0}};

	for (size_t i = 0; i < s->job->ops.n; i++)
		SC_VEC_PUSH(&of_class[sc_job_gap_class(s->job, i)], s->gap_us[i]);
	for (size_t c = 0; c < N_JOB_GAP_CLASSES; c++) {
		s->typical_gap_us[c] = median_of(&of_class[c]);
		SC_VEC_RELEASE(&of_class[c]);
	}
}

void sc_job_study_typical(struct job_study *s)
{
	typical_work(s);
	typical_gaps(s);
	sc_job_study_workers(s);
}

/* ---- one operation over the steps ---- */

static bool same_operations(const struct sc_job *job, size_t a, size_t b)
{
	const struct sc_job_step *x = &job->steps.at[a], *y = &job->steps.at[b];

	if (x->n_ops != y->n_ops)
		return false;
	for (size_t i = 0; i < x->n_ops; i++) {
		const struct sc_job_op *p = &job->ops.at[x->first_op + i];
		const struct sc_job_op *q = &job->ops.at[y->first_op + i];

		if (p->worker != q->worker || p->type != q->type || p->seq != q->seq)
			return false;
	}
	return true;
}

struct sample {
	double value;
	size_t step;
};

static int compare_samples(const void *left, const void *right)
{
	const struct sample *a = left, *b = right;

	if (a->value > b->value || a->value < b->value)
		return a->value > b->value ? 1 : -1;
	return (a->step > b->step) - (a->step < b->step);
}

struct columns {
	size_t *steps; /* that have the same operations as the usual one */
	size_t n;
	struct sample *samples;
	double *sorted;
};

static void others_of_column(const struct sc_job *job, const struct columns *c, size_t op,
			     const double *values, double *out)
{
	for (size_t k = 0; k < c->n; k++)
		c->samples[k] = (struct sample){
			.value = values[job->steps.at[c->steps[k]].first_op + op], .step = k};
	qsort(c->samples, c->n, sizeof(*c->samples), compare_samples);
	for (size_t k = 0; k < c->n; k++)
		c->sorted[k] = c->samples[k].value;
	for (size_t k = 0; k < c->n; k++)
		out[job->steps.at[c->steps[c->samples[k].step]].first_op + op] =
			sc_median_without(c->sorted, c->n, k);
}

/* The step whose operations most steps have, if more than half have them (Boyer and Moore 1981): a row that the
 * first step lost must not cost the others. */
static size_t usual_step(const struct sc_job *job)
{
	size_t usual = 0, lead = 0;

	for (size_t k = 0; k < job->steps.n; k++) {
		if (lead == 0)
			usual = k;
		lead += same_operations(job, usual, k) ? 1 : (size_t)-1;
	}
	return usual;
}

/* Steps whose operations differ from those of the usual one are left out: NAN. */
void sc_job_study_others(struct job_study *s)
{
	const struct sc_job *job = s->job;
	const size_t usual = usual_step(job);
	struct columns c = {
		.steps = sc_xmalloc(job->steps.n * sizeof(*c.steps)),
		.samples = sc_xmalloc(job->steps.n * sizeof(*c.samples)),
		.sorted = sc_xmalloc(job->steps.n * sizeof(*c.sorted)),
	};

	for (size_t i = 0; i < job->ops.n; i++)
		s->other_gap_us[i] = s->other_work_us[i] = NAN;
	for (size_t k = 0; k < job->steps.n; k++)
		if (same_operations(job, usual, k))
			c.steps[c.n++] = k;
	for (size_t op = 0; c.n > 1 && op < job->steps.at[usual].n_ops; op++) {
		others_of_column(job, &c, op, s->gap_us, s->other_gap_us);
		others_of_column(job, &c, op, s->work_us, s->other_work_us);
	}
	free(c.steps);
	free(c.samples);
	free(c.sorted);
}
