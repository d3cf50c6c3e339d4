/* A replay of streams beside its iterations: ranks, and what is to be known of the recording. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "trace/graph/job.h"
#include "trace/replay/replay_study.h"

#define UNEXPLAINED_FRAC 0.01 /* of the ranks' time, from which on it is said */

/* As find_end() of a replay; how far the device is behind the last host in *lag_us. */
static double measured_us(const struct sc_trace_run *run, size_t iteration, double *lag_us)
{
	int64_t from = INT64_MIN, host = INT64_MIN, last = INT64_MIN, work = 0, end;

	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct sc_trace_rank *rank = &run->ranks.at[r];
		const struct sc_trace_iteration *it = &rank->iterations.at[iteration];
		const int64_t begin_ns = rank->calls.at[it->begin].start_ns;
		int64_t work_ns = rank->calls.at[it->end].start_ns - begin_ns;

		for (uint32_t c = it->begin; c <= it->end; c++)
			if (sc_call_waits(&rank->calls.at[c]))
				work_ns -= rank->calls.at[c].dur_ns;
		work = work_ns > work ? work_ns : work;
		from = begin_ns > from ? begin_ns : from;
		if (rank->calls.at[it->end].start_ns > host)
			host = rank->calls.at[it->end].start_ns;
		for (uint32_t a = it->first_act; a < it->end_act; a++) {
			const struct sc_act *act = &rank->acts.at[a];
			const bool before = act->place == SC_NONE || act->place < it->begin;
			int64_t *until = before ? &from : &last;

			if ((before || act->place < it->end) && sc_act_end(act) > *until)
				*until = sc_act_end(act);
		}
	}
	*lag_us = last > host ? sc_ns_us(last - host) : 0;
	end = last > host ? last : host;
	return sc_ns_us(end - (end - work < from ? end - work : from));
}

void sc_replay_describe(const struct replay_study *study, struct sc_replay_result *out)
{
	for (size_t r = 0; r < study->run.ranks.n; r++) {
		struct sc_replay_rank rank = {
			.rank = study->run.ranks.at[r].rank,
			.dp_rank = study->run.ranks.at[r].dp_rank,
			.stage = study->run.ranks.at[r].stage,
			.without_ms = NAN,
		};
		int n = snprintf(rank.name, sizeof(rank.name), "rank %d", (int)rank.rank);

		if (study->run.n_replicas)
			snprintf(rank.name + n, sizeof(rank.name) - (size_t)n, " (dp %d, stage %d)",
				 (int)rank.dp_rank, (int)rank.stage);
		SC_VEC_PUSH(&out->ranks, rank);
	}
	for (size_t i = 0; i < study->run.n_iterations; i++) {
		double lag_us;
		const double us = measured_us(&study->run, i, &lag_us);
		const struct sc_replay_iteration it = {
			.step = study->run.ranks.at[0].iterations.at[i].step,
			.measured_ms = us / SC_US_PER_MS,
			.lag_ms = lag_us / SC_US_PER_MS};

		SC_VEC_PUSH(&out->iterations, it);
	}
}

static void put_families(const struct replay_study *study, struct sc_replay_result *out)
{
	const double n = (double)(study->run.n_iterations * study->run.ranks.n);

	for (size_t r = 0; r < study->run.ranks.n; r++) {
		const struct sc_trace_rank *rank = &study->run.ranks.at[r];

		for (size_t i = 0; i < study->run.n_iterations; i++)
			for (uint32_t a = rank->iterations.at[i].first_act;
			     a < rank->iterations.at[i].end_act; a++) {
				const struct sc_act *act = &rank->acts.at[a];

				if (act->launch >= rank->iterations.at[i].begin &&
				    act->launch <= rank->iterations.at[i].end)
					out->family_ms[study->run.family.at[act->name]] +=
						(double)act->dur_ns / (double)SC_NS_PER_MS / n;
			}
	}
}

static void warn_of_ranks(const struct replay_study *study)
{
	const struct sc_trace_run *run = &study->run;
	struct sc_warnings *warnings = &study->out->warnings;
	const int64_t n = (int64_t)run->ranks.n;
	bool doubled = false;

	if (run->world > n)
		sc_warn(warnings,
			"%" PRId64 " of %d ranks were recorded: the others are only seen through "
			"what these waited for",
			n, (int)run->world);
	if (run->merge.n_solo && run->merge.n_solo == run->merge.n_calls)
		sc_warn(warnings,
			"collectives of one recorded rank cannot be split into transfer and waiting "
			"(n=%zu): both are used again; changes apply to the shortest of each size",
			run->merge.n_solo);
	else if (run->merge.n_matched < run->merge.n_calls)
		sc_warn(warnings,
			"collectives without a partner among the recorded ranks keep their waiting: "
			"n=%zu of %zu",
			run->merge.n_calls - run->merge.n_matched, run->merge.n_calls);
	if (run->n_idle)
		sc_warn(warnings, "files without activity of a GPU are left out: n=%zu",
			run->n_idle);
	if (run->n_contradictions)
		sc_warn(warnings,
			"collectives whose ranks did not overlap in time are not replayed as groups: "
			"n=%zu",
			run->n_contradictions);
	/* Each file is a rank, whatever it says: collectives of two that are one do not match. */
	for (size_t b = 1; b < run->ranks.n && !doubled; b++)
		for (size_t a = 0; a < b && !doubled; a++) {
			doubled = run->ranks.at[a].rank == run->ranks.at[b].rank;
			if (doubled)
				sc_warn(warnings,
					"rank %d is in more than one file; each is replayed as a rank of "
					"its own: remove those that are of another run",
					(int)run->ranks.at[b].rank);
		}
}

/* Warns of what cannot have been, with the first of each kind by name; the clocks of host and
 * device. Returns its share. */
static double warn_of_mended(const struct sc_trace_rank *rank, const char *name,
			     const struct sc_trace_run *run, struct sc_warnings *warnings)
{
	static const char *const why[SC_N_BROKEN] = {
		[SC_BROKEN_UNTIMED] = "without a time",
		[SC_BROKEN_ORDER] = "out of the order of their stream",
		[SC_BROKEN_LAUNCH] = "that begin before their launch",
		[SC_BROKEN_DURATION] = "that run on after they must have ended",
	};
	const struct sc_trace_mended *m = &rank->mended;
	double frac = m->contradicts ? 2 : 0, cut_us = 0;
	size_t n_cut = 0;

	for (size_t a = 0; a < rank->acts.n; a++) {
		const struct sc_act *act = &rank->acts.at[a];

		n_cut += act->cut_ns && act->dur_ns == 0;
		cut_us += act->dur_ns == 0 ? sc_ns_us(act->cut_ns) : 0;
	}
	if (n_cut)
		sc_warn(warnings,
			"%s: activities that end before their launch could have started them count as "
			"nothing: n=%zu, %.3f ms",
			name, n_cut, cut_us / SC_US_PER_MS);

	for (int i = 0; i < SC_N_BROKEN; i++) {
		const struct sc_broken *b = &m->broken[i];

		frac += (double)b->n / fmax(1, (double)m->n_acts);
		if (b->n)
			sc_warn(warnings,
				"%s: records %s, mended: n=%" PRId64 " of %" PRId64
				", first %.24s of step %" PRId64 ", %.3f ms, now %.3f",
				name, why[i], b->n, m->n_acts, sc_trace_run_name(run, b->name),
				b->step, (double)b->was_ns / SC_NS_PER_MS,
				(double)b->now_ns / SC_NS_PER_MS);
	}
	if (m->shift_ns)
		sc_warn(warnings, "%s: the device's clock is %.3f ms %s: %s; it is set right", name,
			fabs((double)m->shift_ns) / SC_NS_PER_MS,
			m->shift_ns < 0 ? "late" : "early",
			m->shift_ns < 0 ? "waits return before what they wait for ends"
					: "kernels begin before their launch");
	if (m->contradicts)
		sc_warn(warnings,
			"%s: launches, waits and the order of streams contradict each other", name);
	if (m->n_graphs)
		sc_warn(warnings,
			"%s: CUDA graphs were recorded as wholes (n=%" PRId64
			"); nsys profile --cuda-graph-trace=node shows their kernels",
			name, m->n_graphs);
	if (m->n_overlaps)
		sc_warn(warnings,
			"%s: kernels that begin beside the end of the one before them on their stream: "
			"n=%" PRId64 "; the overlap stays as a share",
			name, m->n_overlaps);
	return frac;
}

static void warn_of_clocks(const struct replay_study *study)
{
	const struct sc_trace_run *run = &study->run;
	struct sc_warnings *warnings = &study->out->warnings;
	double widest_us = 0, spread_us = 0;
	size_t n = 0, n_few = 0;

	for (size_t r = 0; r < run->merge.ranks.n; r++) {
		const struct sc_merge_rank *rank = &run->merge.ranks.at[r];
		const double bound_us = sc_merge_bound_ns(rank) / (double)SC_NS_PER_US;

		n_few += rank->basis == SC_MERGE_FEW;
		if (rank->basis != SC_MERGE_COLLECTIVES)
			continue;
		n++;
		widest_us = fmax(widest_us, bound_us);
		spread_us = fmax(spread_us, rank->spread_ns / (double)SC_NS_PER_US);
	}
	if (n_few)
		sc_warn(warnings,
			"clocks of %zu ranks rest on fewer than five collectives, which cannot say how "
			"far they are off",
			n_few);
	if (n)
		sc_warn(warnings,
			"clocks of %zu ranks set by the ends of collectives: half of the ends agree "
			"within %.1f us, causality bounds the error by %.1f us",
			n, spread_us, widest_us);
}

/* Launches that waited, and a host that runs ahead further and further: what it does at this pace,
 * the device does not follow. */
static void warn_of_lag(const struct replay_study *study)
{
	struct sc_replay_result *out = study->out;
	const size_t n = out->iterations.n;
	const struct sc_replay_iteration *it = out->iterations.at;
	size_t n_grown = 1;

	if (study->run.n_queued)
		sc_warn(&out->warnings,
			"the launch queue was full (entries=%u): n=%" PRId64
			" launches waited for the device, %.3f ms in all; no host work",
			(unsigned)study->run.queue_depth, study->run.n_queued,
			study->run.queued_us / SC_US_PER_MS);
	while (n_grown < n && it[n_grown].lag_ms > it[n_grown - 1].lag_ms)
		n_grown++;
	if (n > 1 && n_grown == n)
		sc_warn(&out->warnings,
			"the device falls behind its host: by %.3f ms at the end of step %" PRId64
			", %.3f ms at the end of step %" PRId64
			"; steps are told from device end to device end",
			it[0].lag_ms, it[0].step, it[n - 1].lag_ms, it[n - 1].step);
}

static void warn_of_holes(const struct replay_study *study)
{
	struct sc_replay_result *out = study->out;
	int64_t n_lost = 0, n_doubled = 0;
	size_t n_cut = 0;

	for (size_t r = 0; r < study->run.ranks.n; r++) {
		n_cut += study->run.ranks.at[r].n_cut;
		n_lost += study->run.ranks.at[r].n_lost;
		n_doubled += study->run.ranks.at[r].n_doubled;
	}
	if (n_cut)
		sc_warn(&out->warnings,
			"steps that lost calls or kernels are left out: n=%zu beside %zu kept; launches "
			"without their kernel n=%" PRId64,
			n_cut, out->iterations.n, n_lost);
	if (out->loss.is_cut && out->iterations.n == 1)
		sc_warn(&out->warnings,
			"the recording was cut, and has one step: its end may be missing, and with it time");
	if (n_doubled)
		sc_warn(&out->warnings,
			"activities that are in the trace twice, at one time on one stream: n=%" PRId64
			"; it may be two copies of one",
			n_doubled);
}

static void warn_of_trace(const struct replay_study *study, bool inferred)
{
	const struct sc_trace_run *run = &study->run;
	struct sc_warnings *warnings = &study->out->warnings;
	size_t n_alone = 0;

	for (size_t r = 0; r < run->ranks.n; r++)
		n_alone += study->medians[r].n_alone;
	if (run->found_by == SC_FOUND_PERIOD)
		sc_warn(warnings,
			"no range marks iterations: they are cut by the period of the kernels");
	if (run->found_by == SC_FOUND_WHOLE && study->opts->range)
		sc_warn(warnings, "no range is named \"%.64s\": the trace is one iteration",
			study->opts->range);
	else if (run->found_by == SC_FOUND_WHOLE)
		sc_warn(warnings,
			"no range marks iterations and no period was found: the trace is one");
	if (run->n_unlaunched)
		sc_warn(warnings,
			"device activities without their call start as recorded after what is "
			"before them: n=%" PRId64,
			run->n_unlaunched);
	if (inferred)
		sc_warn(warnings,
			"the trace does not say what streams wait for: inferred from collectives and "
			"from starts just after ends");
	if (n_alone && run->n_iterations > 1)
		sc_warn(warnings,
			"calls and activities that no other iteration has stand for themselves: "
			"n=%zu",
			n_alone);
	if (study->opts->gpus)
		sc_warn(warnings,
			"gpus=%" PRId64 ": transfers of groups of all ranks are %s; the recorded "
			"ranks stand for the new ones",
			study->opts->gpus,
			study->opts->network.us ? "scaled by the model of the cluster"
			: run->spans_nodes
				? "scaled as rings at the recorded speed between nodes, no --cluster"
			: run->node_gpus > 0
				? "scaled as rings at the recorded speed within a node, no --cluster"
				: "scaled as rings at the recorded speed, without --cluster");
	if (study->opts->overlap == SC_OVERLAP_NONE)
		sc_warn(warnings,
			"overlap none: in the order of launches, collectives wait for all device work "
			"before them, and all after them for their end");
	else if (study->opts->overlap == SC_OVERLAP_FREE && inferred)
		sc_warn(warnings,
			"overlap free: waits for collectives that were inferred from times are "
			"dropped; stream order and synchronizing calls stay");
	else if (study->opts->overlap == SC_OVERLAP_FREE)
		sc_warn(warnings,
			"overlap free: the trace says what streams wait for, and that stays: nothing "
			"to drop");
}

static void warn_of_missing(const struct replay_study *study)
{
	struct sc_warnings *warnings = &study->out->warnings;
	const double n = (double)study->run.n_iterations;
	int64_t n_unknown = 0;
	double sum = 0;

	for (size_t r = 0; r < study->run.ranks.n; r++) {
		const double us = sc_replay_rank_waiting_us(study, r, &n_unknown);

		sum += us;
		if (us > 0)
			sc_warn(warnings,
				"symmetric: rank %d no longer waits for ranks that were not recorded, "
				"%.3f ms an iteration (over the shortest of each size)",
				(int)study->run.ranks.at[r].rank, us / SC_US_PER_MS / n);
	}
	if (!(sum > 0) && n_unknown == 0)
		sc_warn(warnings,
			"symmetric: no recorded rank waited for one that was not recorded");
	if (n_unknown)
		sc_warn(warnings,
			"symmetric: collectives whose size the trace does not say keep their "
			"waiting: n=%" PRId64,
			n_unknown);
}

/* Collectives that no model can be asked about. */
static void warn_of_model(const struct replay_study *study)
{
	struct sc_warnings *warnings = &study->out->warnings;
	size_t n = 0, n_unknown = 0;
	bool model = false;

	for (size_t r = 0; r < study->run.ranks.n; r++)
		for (size_t i = 0; i < study->run.ranks.at[r].collectives.n; i++, n++) {
			const struct sc_merge_call *c = &study->run.ranks.at[r].collectives.at[i];

			n_unknown += c->kind < 0 || c->bytes < 0;
		}
	for (size_t i = 0; i < study->opts->n_changes; i++)
		model = model || study->opts->changes[i].action == SC_REPLAY_MODEL;
	if (n_unknown && study->opts->gpus && study->opts->network.us)
		sc_warn(warnings,
			"gpus: collectives whose kind or size the trace does not say are scaled as "
			"rings at the recorded speed, not by the model: n=%zu of %zu",
			n_unknown, n);
	if (n_unknown && model)
		sc_warn(warnings,
			"model: collectives whose kind or size the trace does not say stay as "
			"recorded: n=%zu of %zu",
			n_unknown, n);
}

/* ---- of jobs ---- */

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
		if (variant->pick != PICK_OP)
			snprintf(factor.name, sizeof(factor.name), "%u", (unsigned)variant->which);
		else if (variant->which == SC_JOB_FORWARD_SEND)
			snprintf(factor.name, sizeof(factor.name), "forward-pp-comm");
		else if (variant->which == SC_JOB_BACKWARD_SEND)
			snprintf(factor.name, sizeof(factor.name), "backward-pp-comm");
		else
			snprintf(factor.name, sizeof(factor.name), "%.47s",
				 sc_trace_run_name(&study->run, variant->which));
		SC_VEC_PUSH(&out->factors, factor);
	}
}

/* Time of gaps beyond the typical of their like is waiting that the trace does not explain. */
static void warn_of_gaps(const struct replay_study *study, struct sc_replay_result *out)
{
	double beyond_us = 0, all_us = 0;
	const struct sc_act *largest = NULL;
	size_t whose = 0;

	for (size_t r = 0; r < study->run.ranks.n; r++)
		for (size_t a = 0; a < study->run.ranks.at[r].acts.n; a++) {
			const struct sc_act *act = &study->run.ranks.at[r].acts.at[a];
			const float typical_us = study->medians[r].acts[TIMES_TYPICAL][a].gap_us;

			beyond_us += fmax(0, (double)(act->gap_us - typical_us));
			if (!largest || act->gap_us > largest->gap_us) {
				largest = act;
				whose = r;
			}
		}
	for (size_t i = 0; i < out->iterations.n; i++)
		all_us += out->iterations.at[i].measured_ms * SC_US_PER_MS * (double)out->ranks.n;
	if (beyond_us > UNEXPLAINED_FRAC * all_us)
		sc_warn(&out->warnings,
			"launch gaps hold waits that the trace does not explain: %.1f %% of the "
			"ranks' time; the longest is before %s of %s",
			SC_PCT * beyond_us / all_us, sc_trace_run_name(&study->run, largest->name),
			out->ranks.at[whose].name);
}

static void put_job(const struct replay_study *study, struct sc_replay_result *out)
{
	const struct sc_trace_run *run = &study->run;

	out->source = "job";
	out->reused = "durations of computation, transfers from the last arrival on, launch gaps";
	if (!study->opts->gpus)
		out->gpus = out->n_ranks * sc_replay_mates(run);
	put_factors(study, out);
	if (run->n_unknown)
		sc_warn(&out->warnings, "events of unknown operations are left out: n=%" PRId64,
			run->n_unknown);
	if (run->n_unpaired)
		sc_warn(&out->warnings,
			"sends or receives without their other side wait for nobody: n=%" PRId64,
			run->n_unpaired);
	warn_of_gaps(study, out);
	if (study->opts->gpus)
		sc_warn(&out->warnings,
			"gpus=%" PRId64 ": recorded replicas stand for the new ones; their "
			"collectives are scaled as rings of %d instead of %u",
			study->opts->gpus,
			(int)(study->opts->gpus / (sc_replay_mates(run) * run->n_stages)),
			(unsigned)run->n_replicas);
}

/* ---- all ---- */

void sc_replay_results(struct replay_study *study)
{
	struct sc_replay_result *out = study->out;
	bool inferred = false;

	out->source = "streams";
	out->reused =
		study->run.ranks.n > 1
			? "durations of kernels and copies, shortest member of each collective "
			  "(no waiting), host work between calls, launch latencies"
			: "durations of kernels, copies and collectives (with their waiting), host "
			  "work between calls, launch latencies";
	memcpy(out->marked_by, study->run.marked_by, sizeof(out->marked_by));
	out->n_ranks = (int64_t)study->run.ranks.n;
	if (out->n_ranks && study->run.ranks.at[0].gpu && *study->run.ranks.at[0].gpu)
		out->gpu = sc_arena_strdup(&out->arena, study->run.ranks.at[0].gpu);
	out->gpus = study->opts->gpus      ? study->opts->gpus
		    : study->run.world > 0 ? study->run.world
					   : out->n_ranks;
	out->n_events = study->run.n_events;
	out->world = study->run.world;
	for (size_t r = 0; r < out->ranks.n; r++) {
		inferred = inferred || !study->run.ranks.at[r].has_waits;
		out->ranks.at[r].slowness = study->slowness[r];
		out->ranks.at[r].host_slowness = study->host_slowness[r];
	}
	if (study->run.n_replicas) {
		warn_of_holes(study);
		put_job(study, out);
		return;
	}
	put_families(study, out);
	warn_of_ranks(study);
	for (size_t r = 0; r < out->ranks.n; r++)
		out->broken_frac =
			fmax(out->broken_frac,
			     warn_of_mended(&study->run.ranks.at[r], out->ranks.at[r].name,
					    &study->run, &out->warnings));
	warn_of_clocks(study);
	warn_of_lag(study);
	warn_of_holes(study);
	warn_of_trace(study, inferred);
	warn_of_model(study);
	if (study->opts->missing == SC_MISSING_SYMMETRIC)
		warn_of_missing(study);
}
