/* A job with another number of replicas: those recorded stand for the new ones in turn. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/search.h"
#include "trace/replay/replay_job_priv.h"

enum { MAX_RESIZED_OPS = 1 << 25, MAX_GPUS = 1 << 24 };

static int64_t gcd(int64_t a, int64_t b)
{
	while (b) {
		const int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* The distance of ranks, as far as they fill the job: workers are all of its replicas and stages. */
int64_t sc_job_mates(const struct sc_job *job)
{
	int64_t unit = 0, lowest = INT64_MAX, highest = 0;

	for (size_t i = 0; i < job->workers.n; i++) {
		const int64_t rank = job->workers.at[i].rank;

		lowest = rank < lowest ? rank : lowest;
		highest = rank > highest ? rank : highest;
	}
	for (size_t i = 0; i < job->workers.n; i++)
		unit = gcd(unit, job->workers.at[i].rank - lowest);
	return unit > 0 && highest - lowest < unit * (int64_t)job->workers.n ? unit : 1;
}

/* Data per link of a ring over n ranks, of a buffer (Patarasuk and Yuan 2009): all-gather and
 * reduce-scatter move (n - 1) / n of it. */
static double ring_share(double n)
{
	return (n - 1) / n;
}

static void copy_worker_ops(const struct job_study *from, size_t first, size_t n, uint32_t worker,
			    struct sc_job *job, struct job_study *to)
{
	for (size_t i = first; i < first + n; i++) {
		struct sc_job_op op = from->job->ops.at[i];

		op.worker = worker;
		to->gap_us[job->ops.n] = from->gap_us[i];
		to->work_us[job->ops.n] = from->work_us[i];
		SC_VEC_PUSH(&job->ops, op);
	}
}

/* Operations of a worker in a step, which are together. */
static size_t find_worker_ops(const struct sc_job *job, const struct sc_job_step *step,
			      uint32_t worker, size_t *n)
{
	const size_t end = step->first_op + step->n_ops;
	size_t low;

	SC_FIRST_NOT(low, i, step->first_op, end, job->ops.at[i].worker < worker);
	for (*n = 0; low + *n < end && job->ops.at[low + *n].worker == worker;)
		(*n)++;
	return low;
}

static void resize_step(const struct job_study *from, size_t step, struct sc_job *job,
			struct job_study *to)
{
	const struct sc_job *old = from->job;
	struct sc_job_step resized = old->steps.at[step];

	resized.first_op = job->ops.n;
	for (uint32_t w = 0; w < job->workers.n; w++) {
		const uint32_t stage = w / job->n_dp, dp = w % job->n_dp;
		size_t n;
		const size_t first = find_worker_ops(old, &old->steps.at[step],
						     stage * old->n_dp + dp % old->n_dp, &n);

		copy_worker_ops(from, first, n, w, job, to);
	}
	resized.n_ops = job->ops.n - resized.first_op;
	SC_VEC_PUSH(&job->steps, resized);
}

static void resize_workers(const struct sc_job *old, struct sc_job *job)
{
	for (uint32_t stage = 0; stage < job->n_stages; stage++) {
		for (uint32_t dp = 0; dp < job->n_dp; dp++) {
			struct sc_job_worker worker =
				old->workers.at[stage * old->n_dp + dp % old->n_dp];

			if (dp >= old->n_dp)
				worker.rank = -1;
			worker.dp_rank = (int32_t)dp;
			SC_VEC_PUSH(&job->workers, worker);
		}
	}
}

static int check_gpus(const struct job_run *run, int64_t gpus, struct sc_err *err)
{
	const int64_t unit = sc_job_mates(&run->job) * run->job.n_stages;

	if (gpus <= 0 || gpus % unit || gpus > MAX_GPUS)
		return sc_err_set(err, SC_EVALUE,
				  "gpus=%" PRId64 ": expected a multiple of %" PRId64
				  ", the GPUs of one replica (%u stages of %" PRId64 ")",
				  gpus, unit, (unsigned)run->job.n_stages, sc_job_mates(&run->job));
	if (run->job.n_dp == 1 && gpus != unit)
		return sc_err_set(
			err, SC_EUNSUPPORTED,
			"gpus=%" PRId64
			": the trace has one replica, and so no collective among replicas "
			"to take times from",
			gpus);
	return 0;
}

/* Replicas are those recorded, in turn; their collectives take what a ring of that size does. What is typical
 * stays that of all recorded ones: of some, it would have what these waited for. */
int sc_job_resize(struct job_run *run, int64_t gpus, struct sc_err *err)
{
	struct sc_job *job = &run->resized_job;
	size_t n_ops;
	int rc;

	run->resized = run->study;
	if (!gpus)
		return 0;
	rc = check_gpus(run, gpus, err);
	if (rc)
		return rc;
	*job = (struct sc_job){
		.n_dp = (uint32_t)(gpus / (sc_job_mates(&run->job) * run->job.n_stages)),
		.n_stages = run->job.n_stages,
		.n_chunks = run->job.n_chunks,
		.overlaps = run->job.overlaps,
	};
	n_ops = run->job.ops.n * (job->n_dp / run->job.n_dp + 1);
	if (n_ops > MAX_RESIZED_OPS)
		return sc_err_set(err, SC_ELIMIT, "gpus=%" PRId64 ": too many operations", gpus);
	resize_workers(&run->job, job);
	run->resized.gap_us = sc_xmalloc(n_ops * sizeof(double));
	run->resized.work_us = sc_xmalloc(n_ops * sizeof(double));
	run->resized.worker_us = sc_xmalloc(job->workers.n * SC_N_JOB_TYPES * sizeof(double));
	for (size_t step = 0; step < run->job.steps.n; step++)
		resize_step(&run->study, step, job, &run->resized);
	run->resized.job = job;
	run->resized.ring = ring_share(job->n_dp) / ring_share(run->job.n_dp);
	sc_job_study_workers(&run->resized);
	return 0;
}
