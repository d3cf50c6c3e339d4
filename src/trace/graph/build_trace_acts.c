/* Device activities, on lanes that run one at a time; latency of launches; collectives to merge. */
#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"
#include "base/search.h"
#include "base/units.h"
#include "core/graph/op.h"
#include "trace/graph/build_trace_priv.h"
#include "trace/graph/kernel_family.h"
#include "trace/graph/trace_order.h"
#include "trace/import/import.h"

enum { OVERLAP_TOLERANCE_NS = 1000 };

/* ---- lanes ---- */

struct side_lane {
	uint32_t lane;
	int64_t end_ns;
};
/* A stream of the trace: kernels of a graph may overlap on it, so it may need several lanes. */
struct stream_lanes {
	size_t n;
	struct side_lane side[SC_TRACE_MAX_SIDE_LANES];
};

static uint32_t lane_for(struct rank_load *load, struct stream_lanes *s,
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
	if (best == s->n) {
		const uint32_t n = (uint32_t)load->rank->streams.n;
		const struct sc_trace_stream stream = {.device = lane->device,
						       .stream = lane->stream,
						       .first_lane = best ? s->side[0].lane : n,
						       .comm = true};

		SC_VEC_PUSH(&load->rank->streams, stream);
		s->side[s->n++] = (struct side_lane){n, INT64_MIN};
	}
	if (s->side[best].end_ns < sc_act_end(act))
		s->side[best].end_ns = sc_act_end(act);
	return s->side[best].lane;
}

/* ---- collectives ---- */

/* The same on all ranks: hash, else name and ranks, else which of the rank's streams for
 * collectives it is, in order of first use. */
static uint64_t communicator_id(const struct rank_load *load, const struct sc_trace_comm *comm,
				uint32_t lane)
{
	const char *name = load->trace.strings.at[comm->group_name];
	const char *ranks = load->trace.strings.at[comm->group_ranks];
	uint64_t hash = SC_FNV_START;

	if (comm->comm_hash)
		return comm->comm_hash;
	if (*name || *ranks)
		return sc_fnv(sc_fnv(hash, name, strlen(name) + 1), ranks, strlen(ranks));
	return load->comm_before[lane] + 1;
}

/* 1 + the number of the step that launched it, or 0. */
static int64_t step_of(const struct rank_load *load, const struct sc_act *act)
{
	const struct sc_marks *marks = &load->marks;
	size_t after = 0;
	int64_t at;

	if (act->launch == SC_NONE)
		return 0;
	at = load->rank->calls.at[act->launch].start_ns;
	SC_FIRST_NOT(after, i, 0, marks->list.n, marks->list.at[i].start_ns <= at);
	return after && at < marks->list.at[after - 1].end_ns ? marks->list.at[after - 1].step + 1
							      : 0;
}

static void add_merge_call(struct rank_load *load, const struct sc_trace_event *e, uint32_t act)
{
	static const struct sc_trace_comm none = {.bytes = -1, .seq = -1};
	const struct sc_trace_comm *comm = e->comm ? &load->trace.comms.at[e->comm] : &none;
	const char *said = load->trace.strings.at[comm->collective];
	int kind = *said ? sc_collective_of_name(said) : -1;
	struct sc_merge_call call;

	if (kind < 0)
		kind = sc_collective_of_name(load->trace.strings.at[e->name]);
	call = (struct sc_merge_call){
		.start_ns = e->start_ns + load->trace.identity.base_utc_ns - load->run->base_ns,
		.end_ns = e->start_ns + e->dur_ns + load->trace.identity.base_utc_ns -
			  load->run->base_ns,
		.comm = communicator_id(load, comm, load->rank->acts.at[act].lane),
		.seq = comm->seq,
		.step = step_of(load, &load->rank->acts.at[act]),
		.bytes = comm->bytes,
		.bytes_differ = kind != SC_ALL_REDUCE,
		.kind = kind,
		.group_size = e->comm ? comm->group_size : -1,
		/* Without its call, a SendRecv kernel may be between two. */
		.barrier = kind == SC_ALL_REDUCE || kind == SC_ALL_GATHER ||
			   kind == SC_REDUCE_SCATTER || kind == SC_ALL_TO_ALL,
		.instance = SC_MERGE_NO_INSTANCE,
	};
	SC_VEC_PUSH(&load->merged->calls, call);
}

static enum sc_act_kind act_kind(const struct rank_load *load, const struct sc_trace_event *e,
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
	struct sc_trace_run *run = load->run;
	struct sc_trace_rank *r = load->rank;
	const uint32_t name = sc_trace_load_name(load, e->name);
	struct sc_act act = {
		.start_ns = e->start_ns - load->latency_ns,
		.dur_ns = e->dur_ns,
		.name = name,
		.launch = call_event == SC_NONE ? SC_NONE : load->call_of_event[call_event],
		.merge_call = SC_NONE,
		.kind = (uint8_t)act_kind(load, e, name),
		.config = e->config < r->configs.n ? (uint16_t)e->config : 0,
	};

	if (act.launch != SC_NONE && act.start_ns < r->calls.at[act.launch].start_ns) {
		const int64_t late = r->calls.at[act.launch].start_ns - act.start_ns;
		const int64_t cut = act.dur_ns > late ? late : act.dur_ns;

		act.start_ns += late;
		act.dur_ns -= cut;
		act.cut_ns = cut < UINT16_MAX ? (uint16_t)cut : UINT16_MAX;
	}
	run->n_unlaunched += act.launch == SC_NONE;
	act.lane = (uint16_t)lane_for(load, &lanes[e->lane], &load->trace.lanes.at[e->lane], &act);
	if (act.kind != SC_ACT_COLLECTIVE)
		r->streams.at[act.lane].comm = false;
	SC_VEC_PUSH(&r->acts, act);
}

/* By start, which moving starts behind calls may have changed. */
static void order_acts(struct rank_load *load, const uint32_t *events)
{
	struct sc_trace_rank *r = load->rank;
	struct sc_trace_order *order = sc_xmalloc((r->acts.n + 1) * sizeof(*order));
	struct sc_act *acts = sc_xmalloc((r->acts.n + 1) * sizeof(*acts));

	load->act_event = sc_xmalloc((r->acts.n + 1) * sizeof(*load->act_event));
	for (uint32_t i = 0; i < r->acts.n; i++) {
		acts[i] = r->acts.at[i];
		order[i] = (struct sc_trace_order){.key = acts[i].start_ns, .index = i};
	}
	SC_SORT(order, r->acts.n, sc_trace_compare_order);
	for (size_t i = 0; i < r->acts.n; i++) {
		r->acts.at[i] = acts[order[i].index];
		load->act_event[i] = events[order[i].index];
	}
	free(acts);
	free(order);
}

static uint32_t call_at(const struct sc_trace_rank *r, int64_t ns)
{
	size_t low;

	SC_FIRST_NOT(low, i, 0, r->calls.n, r->calls.at[i].start_ns <= ns);
	return low ? (uint32_t)low - 1 : SC_NONE;
}

/* A stream's activities are in the order of the launches: without its call, an activity is no later
 * than the next, and what comes before the first with a call was there when the recording began. */
static void place_acts(struct sc_trace_rank *r)
{
	uint32_t *next = sc_xmalloc((r->streams.n + 1) * sizeof(*next)); /* activity, by lane */

	memset(next, 0xff, (r->streams.n + 1) * sizeof(*next));
	for (uint32_t a = (uint32_t)r->acts.n; a-- > 0;) {
		struct sc_act *act = &r->acts.at[a];
		const uint32_t after = next[act->lane];

		act->place = act->launch;
		if (act->launch != SC_NONE)
			next[act->lane] = a;
		else
			act->place = call_at(r, act->start_ns);
		if (act->launch == SC_NONE && after != SC_NONE && act->place != SC_NONE &&
		    r->acts.at[after].launch < act->place)
			act->place = r->acts.at[after].launch;
	}
	for (uint32_t a = 0; a < r->acts.n; a++) {
		const uint32_t first = next[r->acts.at[a].lane];

		if (first != SC_NONE && a < first)
			r->acts.at[a].place = SC_NONE;
	}
	free(next);
}

/* ---- shapes ---- */

/* Kernels, or the calls that launched them, name the op by its id. */
static void keep_shapes(struct rank_load *load)
{
	const struct sc_trace *t = &load->trace;
	struct sc_trace_rank *r = load->rank;
	SC_VEC(struct sc_trace_order) ops = {0}; /* by external id */

	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];
		const struct sc_trace_order op = {e->external_id, (uint32_t)i, e->shapes};

		if (e->cls == SC_EV_OP && e->external_id && e->shapes)
			SC_VEC_PUSH(&ops, op);
	}
	SC_SORT(ops.at, ops.n, sc_trace_compare_order);
	for (size_t a = 0; a < r->acts.n; a++) {
		const struct sc_trace_event *e = &t->events.at[load->act_event[a]];
		const uint32_t call = sc_correlations_find(&load->call_of, e->correlation);
		int64_t id = e->external_id;
		size_t op;

		if (!id && call != SC_NONE)
			id = t->events.at[call].external_id;
		SC_FIRST_NOT(op, i, 0, ops.n, ops.at[i].key < id);
		SC_VEC_PUSH(&r->shapes, op < ops.n && ops.at[op].key == id ? ops.at[op].index : 0);
	}
	SC_VEC_RELEASE(&ops);
}

void sc_trace_load_acts(struct rank_load *load)
{
	const struct sc_trace *t = &load->trace;
	struct stream_lanes *lanes = sc_xmalloc((t->lanes.n + 1) * sizeof(*lanes));
	SC_VEC(uint32_t) events = {0};

	/* As many as an activity can name. */
	for (size_t i = 0; i < t->configs.n && i <= UINT16_MAX; i++)
		SC_VEC_PUSH(&load->rank->configs, t->configs.at[i]);
	memset(lanes, 0, (t->lanes.n + 1) * sizeof(*lanes));
	load->latency_ns = load->rank->mended.latency_ns;
	load->rank->launch_latency_us = sc_ns_us(load->latency_ns);
	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];

		if (!sc_event_on_device(e) || e->flags & SC_EVF_NO_TIME)
			continue;
		add_act(load, e, sc_correlations_find(&load->call_of, e->correlation), lanes);
		SC_VEC_PUSH(&events, (uint32_t)i);
		for (size_t k = i; k-- > 0 && t->events.at[k].start_ns == e->start_ns;)
			if (t->events.at[k].correlation == e->correlation && e->correlation &&
			    t->events.at[k].lane == e->lane && t->events.at[k].cls == e->cls &&
			    t->events.at[k].dur_ns == e->dur_ns &&
			    t->events.at[k].name == e->name) {
				load->rank->n_doubled++;
				break;
			}
	}
	order_acts(load, events.at);
	SC_VEC_RELEASE(&events);
	place_acts(load->rank);
	load->comm_before = sc_xcalloc(load->rank->streams.n + 1, sizeof(*load->comm_before));
	for (size_t l = 0; l < load->rank->streams.n; l++)
		load->comm_before[l + 1] = load->comm_before[l] + load->rank->streams.at[l].comm;
	for (uint32_t a = 0; a < load->rank->acts.n; a++)
		if (load->rank->acts.at[a].kind == SC_ACT_COLLECTIVE) {
			load->rank->acts.at[a].merge_call = (uint32_t)load->merged->calls.n;
			add_merge_call(load, &t->events.at[load->act_event[a]], a);
		}
	if (load->run->with_shapes)
		keep_shapes(load);
	free(lanes);
}
