/* What a replayed job is reported as. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/stats.h"
#include "base/units.h"
#include "trace/replay/replay_job_priv.h"

#define UNEXPLAINED_FRAC 0.01 /* of the ranks' time, from which on it is said */

/* Time of the worker's computation over the mean of the other workers', of the types both have. */
static double slowness(const struct job_run *run, uint32_t worker)
{
	const size_t n = run->job.workers.n;
	double own_us = 0, others_us = 0;

	for (int t = SC_JOB_FORWARD; t <= SC_JOB_BACKWARD; t++) {
		for (uint32_t w = 0; w < n; w++) {
			const double us = run->study.worker_us[w * SC_N_JOB_TYPES + (size_t)t];

			*(w == worker ? &own_us : &others_us) += us;
		}
	}
	return others_us > 0 ? own_us * (double)(n - 1) / others_us : (double)NAN;
}

void sc_job_describe(const struct job_run *run, struct sc_replay_result *out)
{
	for (size_t w = 0; w < run->job.workers.n; w++) {
		const struct sc_job_worker *worker = &run->job.workers.at[w];
		struct sc_replay_rank rank = {
			.rank = worker->rank,
			.dp_rank = worker->dp_rank,
			.stage = worker->stage,
			.slowness = NAN,
			.host_slowness = NAN,
			.without_ms = NAN,
		};

		snprintf(rank.name, sizeof(rank.name), "rank %d (dp %d, stage %d)",
			 (int)worker->rank, (int)worker->dp_rank, (int)worker->stage);
		SC_VEC_PUSH(&out->ranks, rank);
	}
	for (size_t i = 0; i < run->job.steps.n; i++) {
		const struct sc_job_step *step = &run->job.steps.at[i];
		const struct sc_replay_iteration it = {
			.step = step->id, .measured_ms = step->measured_us / SC_US_PER_MS};

		SC_VEC_PUSH(&out->iterations, it);
	}
}

static const char *pair_name(int type)
{
	if (type == SC_JOB_FORWARD_SEND)
		return "forward-pp-comm";
	return type == SC_JOB_BACKWARD_SEND ? "backward-pp-comm" : sc_job_types[type].name;
}

static void put_factors(const struct replay_study *study, struct sc_replay_result *out)
{
	static const char *const by[] = {
		[PICK_DP] = "dp_rank", [PICK_STAGE] = "stage", [PICK_OP] = "op"};

	for (size_t v = N_FIXED; v < study->variants.n; v++) {
		const struct replay_variant *variant = &study->variants.at[v];
		struct sc_replay_factor factor = {.slowdown = sc_replay_study_ms(study, v) /
							      out->typical_ms};

		if (variant->pick == PICK_WITHOUT)
			continue;
		factor.by = by[variant->pick];
		if (variant->pick == PICK_OP)
			snprintf(factor.name, sizeof(factor.name), "%s",
				 pair_name((int)variant->which));
		else
			snprintf(factor.name, sizeof(factor.name), "%u", (unsigned)variant->which);
		SC_VEC_PUSH(&out->factors, factor);
	}
}

/* What gaps have beyond the typical of their like is waiting that the trace does not explain. */
static void warn_of_gaps(const struct job_run *run, struct sc_replay_result *out)
{
	const struct job_study *s = &run->study;
	double beyond_us = 0, all_us = 0;
	size_t largest = 0;

	for (size_t i = 0; i < run->job.ops.n; i++) {
		const double us = s->gap_us[i] - s->typical_gap_us[sc_job_gap_class(&run->job, i)];

		beyond_us += us > 0 ? us : 0;
		if (s->gap_us[i] > s->gap_us[largest])
			largest = i;
	}
	for (size_t i = 0; i < run->job.steps.n; i++)
		all_us += run->job.steps.at[i].measured_us * (double)run->job.workers.n;
	if (beyond_us > UNEXPLAINED_FRAC * all_us)
		sc_warn(&out->warnings,
			"launch gaps hold waits that the trace does not explain: %.1f %% of the "
			"ranks' time; the longest is before %s of %s",
			SC_PCT * beyond_us / all_us,
			sc_job_types[run->job.ops.at[largest].type].name,
			out->ranks.at[run->job.ops.at[largest].worker].name);
}

static void warn(const struct job_run *run, const struct sc_replay_opts *opts,
		 struct sc_replay_result *out)
{
	uint64_t n_unpaired = 0;
	size_t n_odd = 0;

	for (size_t i = 0; i < run->job.steps.n; i++) {
		n_unpaired += run->study.n_unpaired[i];
		n_odd += isnan(run->study.other_work_us[run->job.steps.at[i].first_op]) ? 1 : 0;
	}
	if (run->job.n_unknown)
		sc_warn(&out->warnings, "events of unknown operations are left out: n=%" PRId64,
			run->job.n_unknown);
	if (n_unpaired)
		sc_warn(&out->warnings,
			"sends or receives without their other side wait for nobody: n=%" PRIu64,
			n_unpaired);
	if (n_odd)
		sc_warn(&out->warnings,
			"steps that cannot be predicted from others with the same operations: n=%zu",
			n_odd);
	warn_of_gaps(run, out);
	if (opts->gpus)
		sc_warn(&out->warnings,
			"gpus=%" PRId64 ": recorded replicas stand for the new ones; their "
			"collectives are scaled as rings of %u instead of %u",
			opts->gpus, (unsigned)run->resized.job->n_dp, (unsigned)run->job.n_dp);
}

static void put_head(const struct job_run *run, const struct sc_replay_opts *opts,
		     struct sc_replay_result *out)
{
	const int64_t n_ops = (int64_t)run->job.ops.n;

	out->source = "job";
	snprintf(out->marked_by, sizeof(out->marked_by), "the steps of the job");
	out->reused = "durations of computation, transfers from the last arrival on, launch gaps";
	out->n_events = n_ops;
	out->n_ranks = (int64_t)run->job.workers.n;
	out->gpus = opts->gpus ? opts->gpus : out->n_ranks * sc_job_mates(&run->job);
}

void sc_job_results(struct replay_study *study)
{
	const struct job_run *run = study->model;

	put_head(run, study->opts, study->out);
	for (uint32_t w = 0; w < run->job.workers.n; w++)
		study->out->ranks.at[w].slowness = slowness(run, w);
	put_factors(study, study->out);
	warn(run, study->opts, study->out);
}
