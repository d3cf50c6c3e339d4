/* Finds what activities and calls waited for, and the gaps that are left then (see build_trace.h
 * for the rules). Everything here points backwards: an activity waits for those launched before it
 * that ended before it began, a call for activities launched before it that ended before it
 * returned. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/units.h"
#include "trace/graph/build_trace_priv.h"
#include "trace/graph/trace_order.h"

enum {
	INFER_GAP_NS = 2 * 1000, /* what is left unexplained from there on needs a cause */
	QUIET_NS = 50 * 1000,    /* a thread that calls nothing for so long may wait for another */
	TOLERANCE_NS = 1000,     /* many traces have whole microseconds */
	MAX_LOOK_BACK = 64
};

struct lane_acts {
	SC_VEC(uint32_t) acts;
};
struct waits {
	struct rank_load *load;
	struct sc_correlations records; /* of events */
	struct lane_acts *lanes;        /* of streams */
	uint32_t *by_end;               /* activities; of equal ends the first lane is last */
	uint32_t *by_stream;            /* lanes, by the number of their stream */
	uint32_t *call_last_act;        /* by call: the last activity it launched */
};

static int64_t launch_time(const struct sc_trace_rank *r, const struct sc_act *act)
{
	return act->launch == SC_NONE ? INT64_MIN : r->calls.at[act->launch].start_ns;
}

/* Launched before call `c`; those without a call where they may be at the latest. */
static bool launched_before(const struct sc_trace_rank *r, uint32_t act, uint32_t c)
{
	const struct sc_act *a = &r->acts.at[act];

	return a->place == SC_NONE || a->place < c;
}

/* The last activity of a lane that was launched before a call; SC_NONE if there is none. */
static uint32_t last_before(const struct waits *w, size_t lane, uint32_t c)
{
	const struct sc_trace_rank *r = w->load->rank;
	const struct lane_acts *l = &w->lanes[lane];
	size_t low;

	SC_FIRST_NOT(low, i, 0, l->acts.n, launched_before(r, l->acts.at[i], c));
	return low ? l->acts.at[low - 1] : SC_NONE;
}

static void add_wait(struct sc_trace_rank *r, uint32_t *first, uint8_t *n, uint32_t act)
{
	if (*n == 0)
		*first = (uint32_t)r->waits.n;
	for (uint8_t i = 0; i < *n; i++)
		if (r->waits.at[*first + i] == act)
			return;
	if (*n == UINT8_MAX)
		return;
	SC_VEC_PUSH(&r->waits, act);
	(*n)++;
}

/* ---- activities ---- */

static bool may_wait_for(const struct sc_trace_rank *r, const struct sc_act *act, uint32_t other)
{
	const struct sc_act *o = &r->acts.at[other];
	const bool earlier = act->launch == SC_NONE || o->launch == SC_NONE
				     ? o->start_ns < act->start_ns
				     : o->launch < act->launch;

	return earlier && o->lane != act->lane && sc_act_end(o) <= act->start_ns + TOLERANCE_NS &&
	       o->start_ns < act->start_ns;
}

/* How many of by_end ended until then. */
static size_t n_ended(const struct waits *w, int64_t ns)
{
	const struct sc_trace_rank *r = w->load->rank;
	size_t low;

	SC_FIRST_NOT(low, i, 0, r->acts.n, sc_act_end(&r->acts.at[w->by_end[i]]) <= ns);
	return low;
}

/* The last to end after `since` of those that the activity may wait for. */
static uint32_t latest_end(const struct waits *w, const struct sc_act *act, int64_t since)
{
	const struct sc_trace_rank *r = w->load->rank;

	for (size_t i = n_ended(w, act->start_ns + TOLERANCE_NS); i > 0; i--) {
		const uint32_t other = w->by_end[i - 1];

		if (sc_act_end(&r->acts.at[other]) <= since)
			break;
		if (may_wait_for(r, act, other))
			return other;
	}
	return SC_NONE;
}

/* A collective's stream waits for what its thread launched last elsewhere. */
static uint32_t before_collective(const struct waits *w, const struct sc_act *act)
{
	const struct sc_trace_rank *r = w->load->rank;
	uint32_t call = act->launch;

	if (act->kind != SC_ACT_COLLECTIVE || call == SC_NONE)
		return SC_NONE;
	for (int i = 0; i < MAX_LOOK_BACK && call != SC_NONE; i++) {
		const uint32_t other = w->call_last_act[call];

		if (other != SC_NONE && r->acts.at[other].kind != SC_ACT_COLLECTIVE)
			return may_wait_for(r, act, other) ? other : SC_NONE;
		call = w->load->call_before[call];
	}
	return SC_NONE;
}

static void infer_waits(struct waits *w, uint32_t a, int64_t ready)
{
	struct sc_trace_rank *r = w->load->rank;
	struct sc_act *act = &r->acts.at[a];
	uint32_t other = before_collective(w, act);

	if (other != SC_NONE)
		add_wait(r, &act->first_wait, &act->n_waits, other);
	if (ready == INT64_MIN || act->start_ns - ready <= INFER_GAP_NS)
		return;
	if (ready < act->start_ns - SC_TRACE_LATENCY_NS)
		ready = act->start_ns - SC_TRACE_LATENCY_NS - 1;
	other = latest_end(w, act, ready);
	if (other != SC_NONE)
		add_wait(r, &act->first_wait, &act->n_waits, other);
}

static void wait_of_act(struct waits *w, uint32_t a, uint32_t lane_before)
{
	struct sc_trace_rank *r = w->load->rank;
	struct sc_act *act = &r->acts.at[a];
	int64_t ready = launch_time(r, act);

	/* The act before it on its lane ended, and its call began: it could start. */
	if (lane_before != SC_NONE && sc_act_end(&r->acts.at[lane_before]) > ready)
		ready = sc_act_end(&r->acts.at[lane_before]);
	if (!r->has_waits)
		infer_waits(w, a, ready);
	ready = sc_trace_waits_end(r, act->first_wait, act->n_waits, ready);
	if (ready == INT64_MIN)
		act->gap_us = INFINITY;
	else
		act->gap_us = ready > act->start_ns ? 0 : (float)sc_ns_us(act->start_ns - ready);
}

/* ---- event waits that the trace has ---- */

/* Lanes of a stream: kernels of graphs may need several. */
struct lane_list {
	const uint32_t *first, *end;
};

static size_t lanes_below(const struct waits *w, int64_t stream)
{
	const struct sc_trace_rank *r = w->load->rank;
	size_t low;

	SC_FIRST_NOT(low, i, 0, r->streams.n, r->streams.at[w->by_stream[i]].stream < stream);
	return low;
}

static struct lane_list lanes_of(const struct waits *w, int64_t stream)
{
	return (struct lane_list){w->by_stream + lanes_below(w, stream),
				  w->by_stream + lanes_below(w, stream + 1)};
}

/* The last activity of what had been launched there when the event was recorded. */
static uint32_t awaited_act(const struct waits *w, const struct sc_trace_event *sync)
{
	const struct sc_trace *t = &w->load->trace;
	const struct sc_trace_rank *r = w->load->rank;
	struct lane_list lanes = {w->by_stream, w->by_stream + r->streams.n};
	uint32_t api, best = SC_NONE, record = SC_NONE;
	int64_t stream =
		-1; /* on which the event was recorded; -1: not said, any but the waiting one */
	size_t wait_call;
	int64_t until;

	if (sync->aux1 < -1)
		stream = SC_SYNC_AUX_STREAM(sync->aux1);
	else if (sync->aux1 >= 0)
		record = sc_correlations_find(&w->records, (uint32_t)sync->aux1);
	if (record != SC_NONE)
		stream = t->lanes.at[t->events.at[record].lane].stream;
	api = sc_correlations_find(&w->load->call_of, sync->correlation);
	until = api == SC_NONE ? sync->start_ns : t->events.at[api].start_ns;
	if (sync->aux1 >= 0) {
		record = sc_correlations_find(&w->load->call_of, (uint32_t)sync->aux1);
		if (record != SC_NONE)
			until = t->events.at[record].start_ns;
	}
	/* The first call after the record: all launched before it count. */
	SC_FIRST_NOT(wait_call, i, 0, r->calls.n, r->calls.at[i].start_ns < until);
	if (wait_call == r->calls.n)
		return SC_NONE;
	if (stream >= 0)
		lanes = lanes_of(w, stream);
	for (const uint32_t *l = lanes.first; l < lanes.end; l++) {
		uint32_t other;

		if (stream < 0 && r->streams.at[*l].stream == t->lanes.at[sync->lane].stream)
			continue;
		other = last_before(w, *l, (uint32_t)wait_call);
		if (other != SC_NONE && (best == SC_NONE || sc_act_end(&r->acts.at[other]) >
								    sc_act_end(&r->acts.at[best])))
			best = other;
	}
	return best;
}

/* The activity that comes after the wait on the waiting stream takes it over. */
static void explicit_wait(struct waits *w, const struct sc_trace_event *sync)
{
	const struct sc_trace *t = &w->load->trace;
	struct sc_trace_rank *r = w->load->rank;
	const uint32_t api = sc_correlations_find(&w->load->call_of, sync->correlation);
	const int64_t at = api == SC_NONE ? sync->start_ns : t->events.at[api].start_ns;
	const uint32_t other = awaited_act(w, sync);
	const struct lane_list lanes = lanes_of(w, t->lanes.at[sync->lane].stream);
	uint32_t best = SC_NONE;

	for (const uint32_t *l = lanes.first; l < lanes.end && other != SC_NONE; l++) {
		size_t low;

		SC_FIRST_NOT(low, i, 0, w->lanes[*l].acts.n,
			     launch_time(r, &r->acts.at[w->lanes[*l].acts.at[i]]) < at);
		if (low < w->lanes[*l].acts.n &&
		    (best == SC_NONE || w->lanes[*l].acts.at[low] < best))
			best = w->lanes[*l].acts.at[low];
	}
	if (best != SC_NONE && may_wait_for(r, &r->acts.at[best], other))
		add_wait(r, &r->acts.at[best].first_wait, &r->acts.at[best].n_waits, other);
}

/* ---- calls ---- */

static int64_t call_end(const struct sc_call *call)
{
	return call->start_ns + call->dur_ns;
}

/* When the thread goes on: a call that does not wait counts to the gap after it. */
static int64_t resume_ns(const struct sc_call *call)
{
	return sc_call_waits(call) ? call_end(call) : call->start_ns;
}

static bool call_may_wait_for(const struct sc_trace_rank *r, uint32_t c, uint32_t act)
{
	return act != SC_NONE &&
	       sc_act_end(&r->acts.at[act]) <= call_end(&r->calls.at[c]) + TOLERANCE_NS;
}

/* The activity launched before that ended last while the call was going on. */
static uint32_t ended_within(const struct waits *w, uint32_t c)
{
	const struct sc_trace_rank *r = w->load->rank;
	const struct sc_call *call = &r->calls.at[c];

	for (size_t i = n_ended(w, call_end(call) + TOLERANCE_NS); i > 0; i--) {
		const uint32_t act = w->by_end[i - 1];

		if (sc_act_end(&r->acts.at[act]) <= call->start_ns)
			break;
		if (launched_before(r, act, c))
			return act;
	}
	return SC_NONE;
}

/* The lane of what the thread launched last. */
static uint32_t lane_used_last(const struct waits *w, uint32_t c)
{
	uint32_t call = w->load->call_before[c];

	for (int i = 0; i < MAX_LOOK_BACK && call != SC_NONE; i++) {
		if (w->call_last_act[call] != SC_NONE)
			return w->load->rank->acts.at[w->call_last_act[call]].lane;
		call = w->load->call_before[call];
	}
	return SC_NONE;
}

static void waits_of_sync(struct waits *w, uint32_t c, const uint32_t *sync_lane)
{
	struct sc_trace_rank *r = w->load->rank;
	struct sc_call *call = &r->calls.at[c];
	const enum trace_sync sync = sc_trace_sync_of(sc_trace_run_name(w->load->run, call->name));
	uint32_t act = SC_NONE, lane;

	act = w->call_last_act[c];
	if (act !=
	    SC_NONE) { /* a blocking copy, whose last piece the call may leave to the device */
		const int64_t left_ns = sc_act_end(&r->acts.at[act]) - call_end(call);

		if (left_ns > 0 && left_ns <= r->acts.at[act].dur_ns / SC_TRACE_LAST_PIECE)
			call->dur_ns += left_ns;
		if (call_may_wait_for(r, c, act))
			add_wait(r, &call->first_wait, &call->n_waits, act);
		else /* what it did is the host's */
			call->kind = SC_CALL_LAUNCH;
		return;
	}
	if (sync == TRACE_SYNC_DEVICE) {
		for (size_t l = 0; l < r->streams.n; l++) {
			act = last_before(w, l, c);
			if (call_may_wait_for(r, c, act))
				add_wait(r, &call->first_wait, &call->n_waits, act);
		}
		return;
	}
	if (sync == TRACE_SYNC_STREAM) {
		lane = sync_lane[c] != SC_NONE ? sync_lane[c] : lane_used_last(w, c);
		if (lane != SC_NONE)
			act = last_before(w, lane, c);
	}
	if (!call_may_wait_for(r, c, act))
		act = ended_within(w, c);
	if (act != SC_NONE)
		add_wait(r, &call->first_wait, &call->n_waits, act);
}

/* Streams that synchronizing calls name, where the trace says it. */
static uint32_t *sync_lanes(const struct waits *w)
{
	const struct sc_trace *t = &w->load->trace;
	const struct sc_trace_rank *r = w->load->rank;
	uint32_t *lanes = sc_xmalloc((r->calls.n + 1) * sizeof(*lanes));

	memset(lanes, 0xff, (r->calls.n + 1) * sizeof(*lanes));
	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];
		struct lane_list of_stream;
		uint32_t api;

		if (e->cls != SC_EV_SYNC || e->sub != SC_SYNC_STREAM)
			continue;
		api = sc_correlations_find(&w->load->call_of, e->correlation);
		if (api == SC_NONE || w->load->call_of_event[api] == SC_NONE)
			continue;
		of_stream = lanes_of(w, t->lanes.at[e->lane].stream);
		if (of_stream.first < of_stream.end)
			lanes[w->load->call_of_event[api]] = of_stream.end[-1];
	}
	return lanes;
}

/* The last call of another thread since this one went quiet. */
static uint32_t handed_over_by(const struct sc_trace_rank *r, uint32_t c, int64_t since)
{
	for (uint32_t i = c; i > 0 && c - i < MAX_LOOK_BACK; i--) {
		const struct sc_call *other = &r->calls.at[i - 1];

		if (other->start_ns < since)
			return SC_NONE;
		if (other->lane != r->calls.at[c].lane &&
		    resume_ns(other) <= r->calls.at[c].start_ns)
			return i - 1;
	}
	return SC_NONE;
}

/* Gaps of all calls. `begin` is the mark of the iteration a call is in: a thread's first call of it
 * waits for it, if for nothing else. */
static void gaps_of_calls(struct waits *w)
{
	struct sc_trace_rank *r = w->load->rank;
	uint32_t begin = SC_NONE;

	for (uint32_t c = 0; c < r->calls.n; c++) {
		struct sc_call *call = &r->calls.at[c];
		const uint32_t before = w->load->call_before[c];
		int64_t since = before == SC_NONE ? INT64_MIN : resume_ns(&r->calls.at[before]);

		if (call->kind == SC_CALL_BEGIN)
			begin = c;
		if (before == SC_NONE || call->start_ns - since >= QUIET_NS)
			call->after = handed_over_by(r, c, since);
		if (begin != SC_NONE && c != begin && (before == SC_NONE || before < begin) &&
		    (call->after == SC_NONE || call->after < begin)) {
			call->after = begin;
			since = r->calls.at[begin].start_ns;
		} else if (call->after != SC_NONE) {
			since = resume_ns(&r->calls.at[call->after]);
		}
		if (since != INT64_MIN && since <= call->start_ns)
			call->gap_us += (float)sc_ns_us(call->start_ns - since);
	}
}

/* ---- orders ---- */

static uint32_t *sort_order(struct sc_trace_order *order, size_t n)
{
	uint32_t *sorted = sc_xmalloc((n + 1) * sizeof(*sorted));

	SC_SORT(order, n, sc_trace_compare_order);
	for (size_t i = 0; i < n; i++)
		sorted[i] = order[i].index;
	free(order);
	return sorted;
}

static void find_orders(struct waits *w)
{
	const struct sc_trace_rank *r = w->load->rank;
	struct sc_trace_order *ends = sc_xmalloc((r->acts.n + 1) * sizeof(*ends));
	struct sc_trace_order *streams = sc_xmalloc((r->streams.n + 1) * sizeof(*streams));

	for (uint32_t a = 0; a < r->acts.n; a++)
		ends[a] = (struct sc_trace_order){sc_act_end(&r->acts.at[a]),
						  ~(uint32_t)r->acts.at[a].lane, a};
	for (uint32_t l = 0; l < r->streams.n; l++)
		streams[l] = (struct sc_trace_order){r->streams.at[l].stream, 0, l};
	w->by_end = sort_order(ends, r->acts.n);
	w->by_stream = sort_order(streams, r->streams.n);
}

/* ---- the whole ---- */

static void find_explicit_waits(struct waits *w)
{
	const struct sc_trace *t = &w->load->trace;

	w->records = sc_correlations_of(t, SC_EV_EVENT_RECORD);
	for (size_t i = 0; i < t->events.n; i++)
		if (t->events.at[i].cls == SC_EV_SYNC &&
		    t->events.at[i].sub == SC_SYNC_STREAM_WAIT) {
			w->load->rank->has_waits = true;
			explicit_wait(w, &t->events.at[i]);
		}
	SC_VEC_RELEASE(&w->records.list);
}

void sc_trace_load_waits(struct rank_load *load)
{
	struct sc_trace_rank *r = load->rank;
	struct waits w = {.load = load};
	uint32_t *lanes, *last; /* sync_lanes; by lane, the last activity */

	w.lanes = sc_xcalloc(r->streams.n + 1, sizeof(*w.lanes));
	w.call_last_act = sc_xmalloc((r->calls.n + 1) * sizeof(*w.call_last_act));
	memset(w.call_last_act, 0xff, (r->calls.n + 1) * sizeof(*w.call_last_act));
	for (uint32_t a = 0; a < r->acts.n; a++) {
		SC_VEC_PUSH(&w.lanes[r->acts.at[a].lane].acts, a);
		if (r->acts.at[a].launch != SC_NONE)
			w.call_last_act[r->acts.at[a].launch] = a;
	}
	find_orders(&w);
	find_explicit_waits(&w);
	last = sc_xmalloc((r->streams.n + 1) * sizeof(*last));
	memset(last, 0xff, (r->streams.n + 1) * sizeof(*last));
	for (uint32_t a = 0; a < r->acts.n; a++) {
		wait_of_act(&w, a, last[r->acts.at[a].lane]);
		last[r->acts.at[a].lane] = a;
	}
	lanes = sync_lanes(&w);
	for (uint32_t c = 0; c < r->calls.n; c++)
		if (r->calls.at[c].kind == SC_CALL_SYNC) {
			struct sc_call *call = &r->calls.at[c];
			int64_t ready;

			waits_of_sync(&w, c, lanes);
			ready = sc_trace_waits_end(r, call->first_wait, call->n_waits,
						   call->start_ns);
			call->tail_us = ready < call_end(call)
						? (float)sc_ns_us(call_end(call) - ready)
						: 0;
		}
	gaps_of_calls(&w);
	free(lanes);
	free(last);
	for (size_t l = 0; l < r->streams.n; l++)
		SC_VEC_RELEASE(&w.lanes[l].acts);
	free(w.lanes);
	free(w.call_last_act);
	free(w.by_end);
	free(w.by_stream);
}
