/* Refuses what a replay cannot tell before anything is simulated: changes that match nothing, or
 * nothing that they can change; GPUs that the groups of the trace do not divide into or whose
 * network nobody knows; a recording whose clocks leave open when the device did what. */
#include <inttypes.h>
#include <math.h>

#include "base/units.h"
#include "trace/replay/replay_study.h"

#define LEAST_SURE 0.01 /* of the shortest step: where the clock of the device is */

/* The things that an action can change. */
enum {
	ALL_KINDS = (1 << SC_N_REPLAY_KINDS) - 1,
	TRANSFERS = 1 << SC_REPLAY_COLLECTIVE | 1 << SC_REPLAY_P2P
};
static const struct {
	const char *text;
	unsigned kinds;
	const char *why;
} ACTIONS[] = {
	[SC_REPLAY_SCALE] = {"", ALL_KINDS, ""},
	[SC_REPLAY_MEAN] = {"=mean", ALL_KINDS & ~(1u << SC_REPLAY_HOST),
			    "work of the host stays; --gaps says which is taken"},
	[SC_REPLAY_MODEL] = {"=model", TRANSFERS,
			     "the models know the network; kernels, copies and the host stay"},
};

static int check_change(const struct replay_study *study, const struct sc_replay_change *change,
			struct sc_err *err)
{
	const char *text = change->selector.text;
	const unsigned kinds = sc_replay_matches(study, &change->selector);

	if (!kinds)
		return sc_err_set(err, SC_EVALUE, "%.64s: no recorded operation matches", text);
	if (change->action == SC_REPLAY_MODEL && study->run.n_replicas)
		return sc_err_set(
			err, SC_EUNSUPPORTED,
			"%.64s=model: an operator timeline does not say what was computed "
			"or how many bytes were sent",
			text);
	if (change->action == SC_REPLAY_MODEL && !study->opts->network.us && kinds & TRANSFERS)
		return sc_err_set(err, SC_EUSAGE,
				  "--replace %.64s=model: which network? give a config with "
				  "--cluster",
				  text);
	if (!(kinds & ACTIONS[change->action].kinds))
		return sc_err_set(err, SC_EUNSUPPORTED,
				  "--replace %.64s%s: would replace nothing: %s", text,
				  ACTIONS[change->action].text, ACTIONS[change->action].why);
	if (kinds & ~ACTIONS[change->action].kinds)
		sc_warn(&study->out->warnings, "--replace %.64s%s: %s", text,
			ACTIONS[change->action].text, ACTIONS[change->action].why);
	return 0;
}

/* The recording's largest group, or what it says of itself. */
static int recorded_gpus(const struct replay_study *study)
{
	int n = 1;

	if (study->run.world > 0)
		return study->run.world;
	for (size_t r = 0; r < study->run.ranks.n; r++)
		for (size_t c = 0; c < study->run.ranks.at[r].collectives.n; c++) {
			const int of = sc_trace_ranks_of(&study->run,
							 &study->run.ranks.at[r].collectives.at[c]);

			n = of > n ? of : n;
		}
	return n;
}

/* Replicas are added to a job, or taken from it. */
static int check_replicas(const struct sc_trace_run *run, int64_t gpus, struct sc_err *err)
{
	const int64_t mates = sc_replay_mates(run), unit = mates * run->n_stages;

	if (gpus % unit)
		return sc_err_set(err, SC_EVALUE,
				  "gpus=%lld: expected a multiple of %lld, the GPUs of one replica "
				  "(%u stages of %lld)",
				  (long long)gpus, (long long)unit, (unsigned)run->n_stages,
				  (long long)mates);
	if (run->n_replicas == 1 && gpus != unit)
		return sc_err_set(
			err, SC_EUNSUPPORTED,
			"gpus=%lld: the trace has one replica, and so no collective among "
			"replicas to take times from",
			(long long)gpus);
	return 0;
}

/* More GPUs than a node has are reached by a network that a recording on one node did not measure.
 * Groups of a part of the ranks (of tensors, stages, replicas: the trace does not say which) keep
 * their size. */
static int check_gpus(const struct replay_study *study, struct sc_warnings *warnings,
		      struct sc_err *err)
{
	const int64_t gpus = study->opts->gpus;
	const int recorded = recorded_gpus(study), node = study->run.node_gpus;
	size_t n_collectives = 0;
	int part = 0;

	if (study->run.n_replicas && gpus)
		return check_replicas(&study->run, gpus, err);
	for (size_t r = 0; r < study->run.ranks.n; r++)
		for (size_t c = 0; c < study->run.ranks.at[r].collectives.n; c++, n_collectives++) {
			const int of = sc_trace_ranks_of(&study->run,
							 &study->run.ranks.at[r].collectives.at[c]);

			if (of > part && of < recorded)
				part = of;
			if (of > 1 && of < recorded && gpus % of)
				return sc_err_set(
					err, SC_EVALUE,
					"--set gpus=%lld: the trace has groups of %d ranks; "
					"expected a multiple of that",
					(long long)gpus, of);
		}
	if (part > 1 && gpus)
		sc_warn(warnings,
			"gpus=%lld: groups of up to %d ranks stay as they are; if data-parallel ones are "
			"among them, their reductions are not scaled",
			(long long)gpus, part);
	if (gpus <= recorded || gpus <= node || study->opts->network.us || study->run.spans_nodes ||
	    n_collectives == 0)
		return 0;
	if (node > 0)
		return sc_err_set(err, SC_EUSAGE,
				  "--set gpus=%lld: more than the %d GPUs of a node of the trace, "
				  "and it has nothing of the network between nodes; give a config "
				  "with --cluster",
				  (long long)gpus, node);
	return sc_err_set(err, SC_EUSAGE,
			  "--set gpus=%lld: the trace does not say on how many nodes its %d GPUs "
			  "were, and so not what the network between nodes does; give a config "
			  "with --cluster",
			  (long long)gpus, recorded);
}

/* The effect of a change depends on when the device did what: where the records do not tell, nor
 * does a replay. */
static int check_times(const struct replay_study *study, struct sc_err *err)
{
	double ms = INFINITY;

	for (size_t i = 0; i < study->out->iterations.n; i++)
		ms = fmin(ms, study->out->iterations.at[i].measured_ms);
	for (size_t r = 0; r < study->run.ranks.n && study->changed; r++) {
		const struct sc_trace_mended *m = &study->run.ranks.at[r].mended;

		if (m->contradicts)
			return sc_err_at(
				err, SC_EUNSUPPORTED, study->run.ranks.at[r].path, 0, 0,
				"its launches, waits and streams contradict each other: it "
				"does not tell what a change would bring");
		if ((double)m->unsure_ns > LEAST_SURE * ms * (double)SC_NS_PER_MS)
			return sc_err_at(
				err, SC_EUNSUPPORTED, study->run.ranks.at[r].path, 0, 0,
				"its device's clock is off by %.3f ms or more, and nothing bounds it "
				"on both sides: it does not tell what a change would bring",
				fabs((double)m->shift_ns) / (double)SC_NS_PER_MS);
	}
	return 0;
}

int sc_replay_check(const struct replay_study *study, struct sc_err *err)
{
	const int64_t without = study->opts->without_rank;
	const size_t n = study->run.ranks.n;
	size_t r = 0;
	int rc = check_times(study, err);

	while (r < n && study->run.ranks.at[r].rank != without)
		r++;
	if (without >= 0 && (r == n || n == 1))
		return sc_err_set(err, SC_EVALUE, "the trace has no rank %" PRId64 " among others",
				  without);
	for (size_t i = 0; rc == 0 && i < study->opts->n_changes; i++)
		rc = check_change(study, &study->opts->changes[i], err);
	if (rc == 0 && without >= 0 && !(study->slowness[r] > 1) && !(study->host_slowness[r] > 1))
		sc_warn(&study->out->warnings,
			"--without-straggler %" PRId64 ": its kernels and its host take no longer "
			"than those of the others; nothing is changed",
			without);
	return rc ? rc : check_gpus(study, &study->out->warnings, err);
}
