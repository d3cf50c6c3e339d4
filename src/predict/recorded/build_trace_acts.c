/* Device activities, on lanes that run one at a time; the latency of launches; collectives for the merge. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/units.h"
#include "core/graph/op.h"
#include "predict/recorded/build_trace_priv.h"
#include "predict/recorded/kernel_family.h"
#include "trace/import.h"

enum { MAX_SAMPLES = 1 << 16, OVERLAP_TOLERANCE_NS = 1000, MAX_LATENCY_NS = 50 * 1000 };
#define LATENCY_PERCENTILE 5.0

static bool is_device_event(const struct sc_trace_event *e)
{
	return e->cls == SC_EV_KERNEL || e->cls == SC_EV_COPY || e->cls == SC_EV_SET;
}

/* From the start of a call to that of what it starts on an idle stream: of the fastest, since others wait
 * for something. Negative where the clocks of host and device differ. */
static int64_t launch_latency(const struct rank_load *load, const struct sc_correlations *table)
{
	const struct sc_trace *t = &load->trace;
	int64_t *lane_end = sc_xmalloc((t->lanes.n + 1) * sizeof(*lane_end));
	double *sample = sc_xmalloc(MAX_SAMPLES * sizeof(*sample)), latency;
	size_t n = 0;

	for (size_t l = 0; l <= t->lanes.n; l++)
		lane_end[l] = INT64_MIN;
	for (size_t i = 0; i < t->events.n && n < MAX_SAMPLES; i++) {
		const struct sc_trace_event *e = &t->events.at[i];
		uint32_t call;

		if (!is_device_event(e) || e->flags & SC_EVF_NO_TIME)
			continue;
		call = sc_correlations_find(table, e->correlation);
		if (call != SC_NONE && e->cls == SC_EV_KERNEL &&
		    lane_end[e->lane] < t->events.at[call].start_ns)
			sample[n++] = (double)(e->start_ns - t->events.at[call].start_ns);
		if (e->start_ns + e->dur_ns > lane_end[e->lane])
			lane_end[e->lane] = e->start_ns + e->dur_ns;
	}
	sc_sort_doubles(sample, n);
	latency = n ? sc_percentile_sorted(sample, n, LATENCY_PERCENTILE) : 0;
	free(sample);
	free(lane_end);
	return (int64_t)llround(fmin(fmax(latency, -MAX_LATENCY_NS), MAX_LATENCY_NS));
}

/* ---- lanes ---- */

struct side_lane {
	uint16_t lane;
	int64_t end_ns;
};
/* A stream of the trace: kernels of a graph may overlap on it, so it may need several lanes. */
struct stream_lanes {
	size_t n;
	struct side_lane side[SC_TRACE_MAX_SIDE_LANES];
};

static uint16_t new_lane(struct rank_load *load, const struct sc_trace_lane *lane, size_t side)
{
	struct sc_trace_stream s = {.device = lane->device, .stream = lane->stream, .comm = true};

	if (side)
		snprintf(s.name, sizeof(s.name), "stream %d (%zu)", (int)lane->stream, side + 1);
	else
		snprintf(s.name, sizeof(s.name), "stream %d", (int)lane->stream);
	SC_VEC_PUSH(&load->rank->streams, s);
	return (uint16_t)(load->rank->streams.n - 1);
}

static uint16_t lane_for(struct rank_load *load, struct stream_lanes *s,
			 const struct sc_trace_lane *lane, const struct sc_act *act)
{
	size_t best = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (s->side[i].end_ns <= act->start_ns + OVERLAP_TOLERANCE_NS) {
			best = i;
			break;
		}
		if (i + 1 == s->n && s->n < SC_TRACE_MAX_SIDE_LANES &&
		    load->rank->streams.n < SC_TRACE_MAX_LANES)
			best = s->n;
		else if (s->side[i].end_ns < s->side[best].end_ns)
			best = i;
	}
	if (best == s->n)
		s->side[s->n++] = (struct side_lane){new_lane(load, lane, best), INT64_MIN};
	if (s->side[best].end_ns < sc_act_end(act))
		s->side[best].end_ns = sc_act_end(act);
	return s->side[best].lane;
}

/* ---- collectives ---- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(1099511628211); /* FNV-1a */
	return hash;
}

/* The same on all ranks: hash, else name and ranks, else which of the rank's streams for collectives it is,
 * in order of first use. */
static uint64_t communicator(const struct rank_load *load, const struct sc_trace_comm *comm,
			     uint16_t lane)
{
	const char *name = load->trace.strings.at[comm->group_name];
	const char *ranks = load->trace.strings.at[comm->group_ranks];
	uint64_t hash = UINT64_C(14695981039346656037);
	uint64_t before = 0;

	if (comm->comm_hash)
		return comm->comm_hash;
	if (*name || *ranks)
		return hash_text(hash_text(hash, name) * 31, ranks);
	for (uint16_t l = 0; l < lane; l++)
		before += load->rank->streams.at[l].comm;
	return before + 1;
}

static void add_merge_call(struct rank_load *load, const struct sc_trace_event *e, uint32_t act)
{
	static const struct sc_trace_comm none = {.bytes = -1, .seq = -1};
	const struct sc_trace_comm *comm = e->comm ? &load->trace.comms.at[e->comm] : &none;
	const char *said = load->trace.strings.at[comm->collective];
	int kind = *said ? sc_collective_of_name(said) : -1;
	struct sc_trace_collective collective = {.group_size = -1, .bytes = comm->bytes};
	struct sc_merge_call call;

	if (kind < 0)
		kind = sc_collective_of_name(load->trace.strings.at[e->name]);
	call = (struct sc_merge_call){
		.start_ns = e->start_ns + load->trace.base_utc_ns - load->run->base_ns,
		.end_ns = e->start_ns + e->dur_ns + load->trace.base_utc_ns - load->run->base_ns,
		.comm = communicator(load, comm, load->rank->acts.at[act].lane),
		.seq = comm->seq,
		.bytes = kind == SC_ALL_REDUCE ? comm->bytes : -1,
		.ref = act,
		.kind = kind,
		/* Without its call, a SendRecv kernel may be between two. */
		.barrier = kind == SC_ALL_REDUCE || kind == SC_ALL_GATHER ||
			   kind == SC_REDUCE_SCATTER || kind == SC_ALL_TO_ALL,
		.instance = SC_MERGE_NO_INSTANCE,
	};
	SC_VEC_PUSH(&load->merged->calls, call);
	collective.kind = kind;
	collective.comm_name = sc_trace_load_name(load, comm->group_name);
	if (e->comm)
		collective.group_size = comm->group_size;
	SC_VEC_PUSH(&load->rank->collectives, collective);
}

static enum sc_act_kind kind_of(const struct rank_load *load, const struct sc_trace_event *e,
				uint32_t name)
{
	if (e->cls == SC_EV_COPY)
		return SC_ACT_COPY;
	if (e->cls == SC_EV_SET)
		return SC_ACT_SET;
	return load->run->family.at[name] == SC_FAMILY_COLLECTIVE ? SC_ACT_COLLECTIVE
								  : SC_ACT_KERNEL;
}

/* Not before its call: a start that is, by what the latency varies, keeps its end. */
static void add_act(struct rank_load *load, const struct sc_trace_event *e, uint32_t call_event,
		    struct stream_lanes *lanes)
{
	struct sc_trace_rank *r = load->rank;
	const uint32_t name = sc_trace_load_name(load, e->name);
	struct sc_act act = {
		.start_ns = e->start_ns - load->latency_ns,
		.dur_ns = e->dur_ns,
		.name = name,
		.launch = call_event == SC_NONE ? SC_NONE : load->call_of_event[call_event],
		.merge_call = SC_NONE,
		.kind = (uint8_t)kind_of(load, e, name),
	};

	if (act.launch != SC_NONE && act.start_ns < r->calls.at[act.launch].start_ns) {
		const int64_t late = r->calls.at[act.launch].start_ns - act.start_ns;

		act.start_ns += late;
		act.dur_ns = act.dur_ns > late ? act.dur_ns - late : 0;
	}
	r->n_unlaunched += act.launch == SC_NONE;
	act.lane = lane_for(load, &lanes[e->lane], &load->trace.lanes.at[e->lane], &act);
	if (act.kind != SC_ACT_COLLECTIVE)
		r->streams.at[act.lane].comm = false;
	SC_VEC_PUSH(&r->acts, act);
}

struct act_order {
	int64_t start_ns;
	uint32_t act;
};

static int compare_order(const void *left, const void *right)
{
	const struct act_order *a = left, *b = right;

	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	return (a->act > b->act) - (a->act < b->act);
}

/* By start, which moving starts behind calls may have changed. */
static void order_acts(struct rank_load *load, uint32_t *events)
{
	struct sc_trace_rank *r = load->rank;
	struct act_order *order;
	struct sc_act *acts;
	size_t i = 1;

	while (i < r->acts.n && r->acts.at[i].start_ns >= r->acts.at[i - 1].start_ns)
		i++;
	if (i >= r->acts.n) {
		load->act_event = events;
		return;
	}
	order = sc_xmalloc(r->acts.n * sizeof(*order));
	acts = sc_xmalloc(r->acts.n * sizeof(*acts));
	load->act_event = sc_xmalloc(r->acts.n * sizeof(*load->act_event));
	for (i = 0; i < r->acts.n; i++)
		order[i] = (struct act_order){r->acts.at[i].start_ns, (uint32_t)i};
	qsort(order, r->acts.n, sizeof(*order), compare_order);
	for (i = 0; i < r->acts.n; i++) {
		acts[i] = r->acts.at[order[i].act];
		load->act_event[i] = events[order[i].act];
	}
	memcpy(r->acts.at, acts, r->acts.n * sizeof(*acts));
	free(acts);
	free(order);
	free(events);
}

void sc_trace_load_acts(struct rank_load *load, const struct sc_correlations *table)
{
	const struct sc_trace *t = &load->trace;
	struct stream_lanes *lanes = sc_xmalloc((t->lanes.n + 1) * sizeof(*lanes));
	SC_VEC(uint32_t) events = {0};

	memset(lanes, 0, (t->lanes.n + 1) * sizeof(*lanes));
	load->latency_ns = launch_latency(load, table);
	load->rank->launch_latency_us = (double)load->latency_ns / (double)SC_NS_PER_US;
	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];

		if (!is_device_event(e) || e->flags & SC_EVF_NO_TIME)
			continue;
		add_act(load, e, sc_correlations_find(table, e->correlation), lanes);
		SC_VEC_PUSH(&events, (uint32_t)i);
	}
	SC_VEC_RESERVE(&events, 1);
	order_acts(load, events.at);
	for (uint32_t a = 0; a < load->rank->acts.n; a++)
		if (load->rank->acts.at[a].kind == SC_ACT_COLLECTIVE) {
			load->rank->acts.at[a].merge_call = (uint32_t)load->merged->calls.n;
			add_merge_call(load, &t->events.at[load->act_event[a]], a);
		}
	free(lanes);
}
