/* Tables of a recording: where hosts worked and what they launched there, by range and by operator;
 * and why devices that could compute did not. */
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/units.h"
#include "trace/replay/replay_study.h"

enum { MAX_WHERE = 64 };

/* ---- by range and by operator ---- */

/* The innermost operator around, or the range that labels it; SC_NONE: there is none. */
static uint32_t where_name(const struct sc_trace_run *run, uint32_t range, bool by_op)
{
	if (!by_op)
		return run->ranges.at[range].labels_range ? run->ranges.at[range].label : SC_NONE;
	while (range && !run->ranges.at[range].is_op)
		range = run->ranges.at[range].parent;
	return range ? run->ranges.at[range].name : SC_NONE;
}

static void add_iteration(const struct sc_trace_run *run, const struct sc_trace_rank *rank,
			  const struct sc_trace_iteration *it, struct sc_replay_where *at[2])
{
	for (int by_op = 0; by_op < 2; by_op++) {
		uint32_t name;

		for (uint32_t c = it->begin + 1; c <= it->end; c++)
			for (uint32_t p = 0; p < rank->calls.at[c].n_pieces; p++) {
				const struct sc_host_piece *piece =
					&rank->pieces.at[rank->calls.at[c].first_piece + p];

				name = where_name(run, piece->range, by_op);
				if (name != SC_NONE)
					at[by_op][name].host_ms += (double)piece->us / SC_US_PER_MS;
			}
		for (uint32_t a = it->first_act; a < it->end_act; a++) {
			const struct sc_act *act = &rank->acts.at[a];

			if (act->launch == SC_NONE || act->launch < it->begin ||
			    act->launch > it->end)
				continue;
			name = where_name(run, rank->calls.at[act->launch].range, by_op);
			if (name == SC_NONE)
				continue;
			at[by_op][name].device_ms += sc_ns_us(act->dur_ns) / SC_US_PER_MS;
			at[by_op][name].n_launched++;
		}
	}
}

/* The largest first. */
static int compare_where(const void *left, const void *right)
{
	const struct sc_replay_where *a = left, *b = right;
	const double of_a = a->host_ms > a->device_ms ? a->host_ms : a->device_ms;
	const double of_b = b->host_ms > b->device_ms ? b->host_ms : b->device_ms;

	return of_a > of_b || of_a < of_b ? SC_ORDER(of_b, of_a) : strcmp(a->name, b->name);
}

/* Means over ranks and iterations of the sums by name. */
static void put_where(const struct replay_study *study, struct sc_replay_where *at,
		      struct sc_replay_wheres *out)
{
	const size_t n_names = sc_intern_count(&study->run.names);
	const double n = (double)(study->run.n_iterations * study->run.ranks.n);
	size_t kept = 0;

	for (uint32_t name = 0; name < n_names; name++)
		if (at[name].host_ms > 0 || at[name].device_ms > 0) {
			at[kept].name = sc_trace_run_name(&study->run, name);
			at[kept].host_ms = at[name].host_ms / n;
			at[kept].device_ms = at[name].device_ms / n;
			at[kept++].n_launched = at[name].n_launched / n;
		}
	SC_SORT(at, kept, compare_where);
	for (size_t i = 0; i < kept && i < MAX_WHERE; i++) {
		at[i].name = sc_arena_strdup(&study->out->arena, at[i].name);
		SC_VEC_PUSH(out, at[i]);
	}
}

/* ---- why devices are idle ---- */

static double overlap_ns(int64_t from, int64_t to, int64_t begin, int64_t end)
{
	from = from > begin ? from : begin;
	to = to < end ? to : end;
	return to > from ? (double)(to - from) : 0;
}

/* Adds what a thread did from `from` to its call `c`: waited, loaded data, or worked. */
static void idle_for_host(const struct sc_trace_run *run, const struct sc_trace_rank *rank,
			  uint32_t c, int64_t from, double idle_ns[SC_N_IDLES])
{
	const int64_t to = rank->calls.at[c].start_ns;
	double host_ns = (double)(to - from), ns;

	for (uint32_t i = c + 1; i-- > 0;) {
		const struct sc_call *call = &rank->calls.at[i];
		int64_t at = call->start_ns;

		if (call->lane != rank->calls.at[c].lane)
			continue;
		ns = sc_call_waits(call) && i < c ? overlap_ns(from, to, at, at + call->dur_ns) : 0;
		idle_ns[SC_IDLE_SYNC] += ns;
		host_ns -= ns;
		for (uint32_t p = 0; p < call->n_pieces; p++) {
			const struct sc_host_piece *piece = &rank->pieces.at[call->first_piece + p];
			const int64_t begin = at - (int64_t)((double)piece->us * SC_NS_PER_US);

			ns = overlap_ns(from, to, begin, at);
			at = begin;
			if (!run->ranges.at[piece->range].loads_data)
				continue;
			idle_ns[SC_IDLE_DATA] += ns;
			host_ns -= ns;
		}
		if (at <= from)
			break;
	}
	idle_ns[SC_IDLE_HOST] += host_ns > 0 ? host_ns : 0;
}

/* From `at`, when the last rank began, to where the rank was done: `at` moves over what its device
 * computes, and what is between is for collectives where they run, else for the host until the next
 * launch, else for what its stream waits for. */
static void idle_of(const struct sc_trace_run *run, const struct sc_trace_rank *rank,
		    const struct sc_trace_iteration *it, int64_t at, double idle_ns[SC_N_IDLES])
{
	int64_t comm_end = INT64_MIN;

	for (uint32_t a = it->first_act; a <= it->end_act; a++) {
		const struct sc_act *act = a < it->end_act ? &rank->acts.at[a] : NULL;
		const uint32_t call = act ? act->launch : it->end;
		const int64_t start = act ? act->start_ns : rank->calls.at[it->end].start_ns;
		const int64_t launch = call == SC_NONE ? at : rank->calls.at[call].start_ns;

		if (act && act->place != SC_NONE && act->place >= it->end)
			continue;
		if (start > at && comm_end > at) {
			idle_ns[SC_IDLE_COMM] += overlap_ns(at, start, at, comm_end);
			at = comm_end < start ? comm_end : start;
		}
		if (start > at) {
			if (launch > at)
				idle_for_host(run, rank, call, at, idle_ns);
			idle_ns[SC_IDLE_SYNC] += overlap_ns(at, start, launch, start);
			at = start;
		}
		if (!act)
			break;
		if (act->kind == SC_ACT_COLLECTIVE)
			comm_end = sc_act_end(act) > comm_end ? sc_act_end(act) : comm_end;
		else
			at = sc_act_end(act) > at ? sc_act_end(act) : at;
	}
	idle_ns[SC_IDLE_COMM] += overlap_ns(at, comm_end, at, comm_end);
}

void sc_replay_tables(const struct replay_study *study)
{
	const struct sc_trace_run *run = &study->run;
	const size_t n_names = sc_intern_count(&run->names);
	struct sc_replay_where *at[2] = {sc_xcalloc(n_names + 1, sizeof(**at)),
					 sc_xcalloc(n_names + 1, sizeof(**at))};
	double idle_ns[SC_N_IDLES] = {0};

	for (size_t i = 0; i < run->n_iterations && run->ranges.n; i++) {
		int64_t from = INT64_MIN;

		for (size_t r = 0; r < run->ranks.n; r++) {
			const struct sc_trace_rank *rank = &run->ranks.at[r];
			const int64_t begin = rank->calls.at[rank->iterations.at[i].begin].start_ns;

			from = begin > from ? begin : from;
			add_iteration(run, rank, &rank->iterations.at[i], at);
		}
		for (size_t r = 0; r < run->ranks.n; r++)
			idle_of(run, &run->ranks.at[r], &run->ranks.at[r].iterations.at[i], from,
				idle_ns);
	}
	put_where(study, at[0], &study->out->by_range);
	put_where(study, at[1], &study->out->by_op);
	for (int k = 0; k < SC_N_IDLES; k++)
		study->out->idle_ms[k] =
			idle_ns[k] / SC_NS_PER_MS / (double)(run->n_iterations * run->ranks.n);
	free(at[0]);
	free(at[1]);
}
