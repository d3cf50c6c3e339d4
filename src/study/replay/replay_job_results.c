/* What a replayed job is reported as. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/stats.h"
#include "base/units.h"
#include "study/replay/replay_job_priv.h"

#define UNEXPLAINED_FRAC 0.01 /* of the ranks' time, from which on it is said */

/* NAN: it was not asked for. */
static double variant_ms(const struct job_run *run, size_t variant)
{
	if (variant >= run->variants.n)
		return (double)NAN;
	return sc_mean(&run->variant_us[variant * run->job.steps.n], run->job.steps.n) /
	       SC_US_PER_MS;
}

static void put_iterations(const struct job_run *run, bool changed, struct sc_replay_result *out)
{
	const size_t n = run->job.steps.n;
	double measured_us = 0;

	for (size_t i = 0; i < n; i++) {
		const struct sc_job_step *step = &run->job.steps.at[i];
		const bool has_others = !isnan(run->study.other_work_us[step->first_op]);
		const struct sc_replay_iteration it = {
			.step = step->id,
			.measured_ms = step->measured_us / SC_US_PER_MS,
			.simulated_ms = run->study.measured_us[i] / SC_US_PER_MS,
			.predicted_ms =
				has_others ? run->variant_us[SC_JOB_V_OTHERS * n + i] / SC_US_PER_MS
					   : (double)NAN,
			.changed_ms =
				changed ? run->variant_us[SC_JOB_V_CHANGED * n + i] / SC_US_PER_MS
					: (double)NAN,
		};

		measured_us += step->measured_us;
		SC_VEC_PUSH(&out->iterations, it);
	}
	out->measured_ms = measured_us / (double)n / SC_US_PER_MS;
	out->simulated_ms = sc_mean(run->study.measured_us, n) / SC_US_PER_MS;
	out->no_gaps_ms = sc_mean(run->study.no_gaps_us, n) / SC_US_PER_MS;
	out->predicted_ms = variant_ms(run, SC_JOB_V_OTHERS);
	out->reference_ms = variant_ms(run, SC_JOB_V_REFERENCE);
	out->typical_ms = variant_ms(run, SC_JOB_V_TYPICAL);
	out->changed_ms = changed ? variant_ms(run, SC_JOB_V_CHANGED) : (double)NAN;
}

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

static void put_ranks(const struct job_run *run, struct sc_replay_result *out)
{
	const size_t n = run->job.workers.n, n_steps = run->job.steps.n;

	for (uint32_t w = 0; w < n; w++) {
		const struct sc_job_worker *worker = &run->job.workers.at[w];
		struct sc_replay_rank rank = {
			.rank = worker->rank,
			.dp_rank = worker->dp_rank,
			.stage = worker->stage,
			.slowness = slowness(run, w),
			.without_ms = NAN,
		};

		snprintf(rank.name, sizeof(rank.name), "rank %d (dp %d, stage %d)",
			 (int)worker->rank, (int)worker->dp_rank, (int)worker->stage);
		for (size_t s = 0; s < n_steps; s++) {
			const struct job_part *part = &run->study.parts[s * n + w];

			for (int p = 0; p < SC_N_PARTS; p++)
				rank.part_ms[p] += part->us[p] / SC_US_PER_MS / (double)n_steps;
			rank.late_ms += part->late_us / SC_US_PER_MS / (double)n_steps;
		}
		SC_VEC_PUSH(&out->ranks, rank);
	}
}

static const char *pair_name(int type)
{
	if (type == SC_JOB_FORWARD_SEND)
		return "forward-pp-comm";
	return type == SC_JOB_BACKWARD_SEND ? "backward-pp-comm" : sc_job_types[type].name;
}

static void put_factors(const struct job_run *run, struct sc_replay_result *out)
{
	static const char *const by[] = {
		[JOB_PICK_DP] = "dp_rank", [JOB_PICK_STAGE] = "stage", [JOB_PICK_TYPE] = "op"};

	for (size_t v = SC_JOB_N_FIXED; v < run->variants.n; v++) {
		const struct job_variant *variant = &run->variants.at[v];
		const double ms = variant_ms(run, v);
		struct sc_replay_factor factor = {.slowdown = ms / out->typical_ms};

		if (variant->pick == JOB_WITHOUT) {
			out->ranks.at[variant->which].without_ms = ms;
			continue;
		}
		factor.by = by[variant->pick];
		if (variant->pick == JOB_PICK_TYPE)
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
	out->reused = "durations of computation, transfers from the last arrival on, launch gaps";
	out->n_events = n_ops;
	out->n_simulated = n_ops * (int64_t)(2 + run->variants.n);
	out->n_ranks = (int64_t)run->job.workers.n;
	out->gpus = opts->gpus ? opts->gpus : out->n_ranks * sc_job_mates(&run->job);
}

void sc_job_results(const struct job_run *run, bool changed, struct sc_replay_result *out)
{
	put_head(run, run->study.opts, out);
	put_iterations(run, changed, out);
	put_ranks(run, out);
	put_factors(run, out);
	warn(run, run->study.opts, out);
}
