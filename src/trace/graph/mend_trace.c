/* A stream runs one activity after the other, in the order in which they were launched; none begins
 * before its launch, and no wait for it returns before its end. What contradicts that is a broken
 * record, if it is one of many: it is mended as far as its neighbours bound it. If all contradict
 * launches or waits by the same time, the clocks of host and device differ: the device's is shifted
 * by the least that agrees. */
#include "trace/graph/mend_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/stats.h"
#include "trace/graph/build_trace_priv.h"
#include "trace/graph/trace_order.h"

enum {
	TOLERANCE_NS = 1000,  /* many traces have whole microseconds */
	APART_NS = 50 * 1000, /* launches of two threads, and latencies, differ by less */
	AGREEING = 3,         /* that many bounds within APART_NS are no accident */
	UNLIKE = 100,         /* times what is typical of its name: none is so long */
	LIKE_FACTOR = 10,     /* times what is typical of its name, and a duration may be broken */
	MAX_BROKEN_SHARE =
		4 /* if one in so many is out of order, the order is not that of launches */
};

#define MAX_SHIFT_NS 86400e9   /* a day: no clock is off by more */
#define LATENCY_PERCENTILE 5.0 /* of the fastest, since others wait for something */

struct like {
	uint32_t name;
	int64_t dur_ns;
};
struct bounds {
	SC_VEC(double) list; /* ns */
};
struct mend {
	struct sc_trace *t;
	struct sc_trace_mended *out;
	struct sc_correlations calls;
	SC_VEC(struct like) likes; /* by name, then duration; once it is asked for */
	bool moved;                /* events are no longer in order */
};

static int64_t event_end(const struct sc_trace_event *e)
{
	return e->start_ns + e->dur_ns;
}

static bool is_timed(const struct sc_trace_event *e)
{
	return sc_event_on_device(e) && !(e->flags & SC_EVF_NO_TIME);
}

/* Some sources do not say which stream it was: what is on such a lane may be of several. */
static bool is_ordered(const struct mend *m, const struct sc_trace_event *e)
{
	return sc_event_on_device(e) && m->t->lanes.at[e->lane].stream >= 0;
}

static const struct sc_trace_event *call_of(const struct mend *m, const struct sc_trace_event *e)
{
	const uint32_t call =
		e->correlation ? sc_correlations_find(&m->calls, e->correlation) : SC_NONE;

	return call == SC_NONE ? NULL : &m->t->events.at[call];
}

/* ---- what is typical of a name ---- */

SC_COMPARE(compare_likes, struct like,
	   2 * SC_ORDER(a->name, b->name) + SC_ORDER(a->dur_ns, b->dur_ns));

/* The median duration of its name; -1: no other has it. */
static int64_t typical_of(struct mend *m, const struct sc_trace_event *e)
{
	const size_t n = m->likes.n ? 0 : m->t->events.n; /* they are there, or to be found */
	size_t low, high;

	for (size_t i = 0; i < n; i++) {
		const struct sc_trace_event *a = &m->t->events.at[i];

		if (is_timed(a))
			SC_VEC_PUSH(&m->likes, ((struct like){a->name, a->dur_ns}));
	}
	if (n)
		SC_SORT(m->likes.at, m->likes.n, compare_likes);
	SC_FIRST_NOT(low, i, 0, m->likes.n, m->likes.at[i].name < e->name);
	SC_FIRST_NOT(high, i, low, m->likes.n, m->likes.at[i].name <= e->name);
	return high - low > !(e->flags & SC_EVF_NO_TIME)
		       ? m->likes.at[low + (high - low - 1) / 2].dur_ns
		       : -1;
}

static void note_broken(struct mend *m, const struct sc_trace_event *e, enum sc_broken_why why,
			int64_t was_ns, int64_t now_ns)
{
	const struct sc_trace_event *call = call_of(m, e);

	if (m->out->broken[why].n++ == 0)
		m->out->broken[why] = (struct sc_broken){
			1, e->name, call ? call->start_ns : e->start_ns, was_ns, now_ns, -1};
}

/* To what is typical of its name, and no more than there is room for. */
static void shorten_event(struct mend *m, struct sc_trace_event *e, int64_t room_ns)
{
	const int64_t was_ns = e->dur_ns, typical_ns = typical_of(m, e);

	e->dur_ns = typical_ns >= 0 && typical_ns < room_ns ? typical_ns : room_ns;
	note_broken(m, e, SC_BROKEN_DURATION, was_ns, e->dur_ns);
}

static void sort_again(struct mend *m)
{
	struct sc_trace *t = m->t;
	struct sc_trace_order *order;
	struct sc_trace_event *events;

	if (!m->moved)
		return;
	m->moved = false;
	order = sc_xmalloc((t->events.n + 1) * sizeof(*order));
	events = sc_xmalloc((t->events.n + 1) * sizeof(*events));
	for (uint32_t i = 0; i < t->events.n; i++)
		order[i] = (struct sc_trace_order){t->events.at[i].start_ns, 0, i};
	SC_SORT(order, t->events.n, sc_trace_compare_order);
	memcpy(events, t->events.at, t->events.n * sizeof(*events));
	for (size_t i = 0; i < t->events.n; i++)
		t->events.at[i] = events[order[i].index];
	free(order);
	free(events);
	SC_VEC_RELEASE(&m->calls.list);
	m->calls = sc_correlations_of(t, SC_EV_API);
}

/* ---- graphs ---- */

/* A launch of a graph without its kernels is what its stream did. */
static void take_graphs(struct mend *m)
{
	struct sc_correlations kernels = {.list = {0}};
	bool known = false;

	for (size_t i = 0; i < m->t->events.n; i++) {
		struct sc_trace_event *e = &m->t->events.at[i];

		if (e->cls != SC_EV_GRAPH || !m->t->lanes.at[e->lane].is_stream)
			continue;
		if (!known)
			kernels = sc_correlations_of(m->t, SC_EV_KERNEL);
		known = true;
		if (sc_correlations_find(&kernels, e->correlation) != SC_NONE)
			continue;
		e->cls = SC_EV_KERNEL;
		m->out->n_graphs++;
	}
	SC_VEC_RELEASE(&kernels.list);
}

/* ---- the order of launches ---- */

struct launched {
	uint32_t lane, event;
	int64_t call_ns, call_end_ns, start_ns;
};

SC_COMPARE(compare_launched, struct launched,
	   8 * SC_ORDER(a->lane, b->lane) + 4 * SC_ORDER(a->call_ns, b->call_ns) +
		   2 * SC_ORDER(a->start_ns, b->start_ns) + SC_ORDER(a->event, b->event));

/* Marks what is in the longest row of starts that never fall; records without time are in none. */
static void longest_row(const struct mend *m, const struct launched *of, size_t n, bool *in_row)
{
	uint32_t *top = sc_xmalloc((n + 1) * sizeof(*top)),
		 *before = sc_xmalloc((n + 1) * sizeof(*before));
	size_t length = 0, low;

	for (uint32_t i = 0; i < n; i++) {
		in_row[i] = false;
		if (m->t->events.at[of[i].event].flags & SC_EVF_NO_TIME)
			continue;
		SC_FIRST_NOT(low, k, 0, length, of[top[k]].start_ns <= of[i].start_ns);
		before[i] = low ? top[low - 1] : SC_NONE;
		top[low] = i;
		length += low == length;
	}
	for (uint32_t i = length ? top[length - 1] : SC_NONE; i != SC_NONE; i = before[i])
		in_row[i] = true;
	free(top);
	free(before);
}

/* Between the one before and the one after of its stream, as long as those of its name. */
static void place_between(struct mend *m, struct launched *x, const struct launched *before,
			  const struct launched *after)
{
	struct sc_trace_event *e = &m->t->events.at[x->event];
	const int64_t was_ns = e->dur_ns, typical_ns = typical_of(m, e);
	const enum sc_broken_why why =
		e->flags & SC_EVF_NO_TIME ? SC_BROKEN_UNTIMED : SC_BROKEN_ORDER;
	const bool has_dur = why == SC_BROKEN_ORDER && was_ns < LIKE_FACTOR * typical_ns;
	int64_t start_ns = x->call_ns, dur_ns = has_dur ? was_ns : typical_ns > 0 ? typical_ns : 0;

	if (before && event_end(&m->t->events.at[before->event]) > start_ns)
		start_ns = event_end(&m->t->events.at[before->event]);
	if (after && after->start_ns - start_ns < dur_ns)
		dur_ns = after->start_ns > start_ns ? after->start_ns - start_ns : 0;
	if (after && start_ns > after->start_ns)
		start_ns = after->start_ns;
	e->start_ns = x->start_ns = start_ns;
	e->dur_ns = dur_ns;
	e->flags &= (uint16_t)~SC_EVF_NO_TIME;
	m->moved = true;
	note_broken(m, e, why, was_ns, dur_ns);
}

/* Out of order: by more than threads that launch at once may be. */
static bool is_misplaced(const struct mend *m, const struct launched *x,
			 const struct launched *before, const struct launched *after)
{
	if (m->t->events.at[x->event].flags & SC_EVF_NO_TIME)
		return before || after;
	return (before && before->call_end_ns <= x->call_ns &&
		x->start_ns < before->start_ns - APART_NS) ||
	       (after && x->call_end_ns <= after->call_ns &&
		x->start_ns > after->start_ns + APART_NS);
}

/* Mends the order of one stream. If many are out of order, theirs is not the order of launches. */
static void mend_order(struct mend *m, struct launched *of, size_t n)
{
	bool *in_row = sc_xmalloc((n + 1) * sizeof(*in_row));
	uint32_t *after = sc_xmalloc((n + 1) * sizeof(*after));
	size_t n_out = 0;

	longest_row(m, of, n, in_row);
	after[n] = SC_NONE;
	for (uint32_t i = (uint32_t)n; i-- > 0;)
		after[i] = i + 1 < n && in_row[i + 1] ? i + 1 : after[i + 1];
	for (int mends = 0; mends < 2 && MAX_BROKEN_SHARE * n_out <= n; mends++) {
		uint32_t before = SC_NONE;

		for (uint32_t i = 0; i < n; i++) {
			const struct launched *b = before == SC_NONE ? NULL : &of[before];
			const struct launched *a = after[i] == SC_NONE ? NULL : &of[after[i]];
			const bool is_out = !in_row[i] && is_misplaced(m, &of[i], b, a);

			n_out += is_out && !mends;
			if (is_out && mends)
				place_between(m, &of[i], b, a);
			if (in_row[i] || (is_out && mends))
				before = i;
		}
	}
	m->out->contradicts |= MAX_BROKEN_SHARE * n_out > n;
	free(in_row);
	free(after);
}

/* In nearly all traces all have a time, and start as they were launched: nothing is to be found. */
static void mend_orders(struct mend *m)
{
	int64_t *last = sc_xmalloc((m->t->lanes.n + 1) * sizeof(*last)); /* launch, by lane */
	SC_VEC(struct launched) list = {0};
	bool in_order = true;

	for (size_t l = 0; l <= m->t->lanes.n; l++)
		last[l] = INT64_MIN;
	for (uint32_t i = 0; i < m->t->events.n; i++) {
		const struct sc_trace_event *e = &m->t->events.at[i], *call;

		call = is_ordered(m, e) ? call_of(m, e) : NULL;
		m->out->n_acts += sc_event_on_device(e);
		if (!call)
			continue;
		in_order =
			in_order && !(e->flags & SC_EVF_NO_TIME) && call->start_ns >= last[e->lane];
		last[e->lane] = call->start_ns;
		SC_VEC_PUSH(&list, ((struct launched){e->lane, i, call->start_ns, event_end(call),
						      e->start_ns}));
	}
	if (!in_order)
		SC_SORT(list.at, list.n, compare_launched);
	for (size_t i = 0, end; i < list.n && !in_order; i = end) {
		for (end = i; end < list.n && list.at[end].lane == list.at[i].lane; end++)
			;
		mend_order(m, &list.at[i], end - i);
	}
	SC_VEC_RELEASE(&list);
	free(last);
	sort_again(m);
}

/* ---- durations ---- */

/* A record that runs on while later ones of its stream end is broken: it ended when the next began.
 * One that runs on into the next only, as programmatic launch lets it, is whole: the next one takes
 * what it takes longer, so that the overlap stays a share of both as they get faster. Kernels of
 * one graph run beside each other. */
static void mend_durations(struct mend *m)
{
	struct {
		struct sc_trace_event *e; /* the next */
		int64_t end_ns;           /* the first of all later ones */
	} *next = sc_xcalloc(m->t->lanes.n + 1, sizeof(*next));

	for (size_t i = m->t->events.n; i-- > 0;) {
		struct sc_trace_event *e = &m->t->events.at[i], *after = next[e->lane].e;

		if (!is_timed(e) || !is_ordered(m, e))
			continue;
		if (!after || (e->correlation && e->correlation == after->correlation)) {
			;
		} else if (event_end(e) > next[e->lane].end_ns + TOLERANCE_NS) {
			shorten_event(m, e, after->start_ns - e->start_ns);
		} else if (event_end(e) > after->start_ns + TOLERANCE_NS &&
			   e->cls == SC_EV_KERNEL && after->cls == SC_EV_KERNEL) {
			after->dur_ns = event_end(after) > event_end(e)
						? event_end(after) - event_end(e)
						: 0;
			after->start_ns = event_end(e);
			m->out->n_overlaps++;
			m->moved = true;
		}
		if (!after || event_end(e) < next[e->lane].end_ns)
			next[e->lane].end_ns = event_end(e);
		next[e->lane].e = e;
	}
	free(next);
	sort_again(m);
}

/* ---- the clocks ---- */

static void sort_bounds(struct bounds *b)
{
	if (b->list.n)
		sc_sort_doubles(b->list.at, b->list.n);
}

/* The smallest of sorted bounds that others are near, which one broken record cannot be; that of
 * all if many say that the clock is off. False: there is none. */
static bool agreed_bound(const struct bounds *b, double *out)
{
	size_t i = 0;

	while (i + AGREEING <= b->list.n && b->list.at[i + AGREEING - 1] - b->list.at[i] > APART_NS)
		i++;
	if (i + AGREEING > b->list.n)
		i = 0;
	if (b->list.n < AGREEING ||
	    (i == 0 && b->list.at[AGREEING - 1] - b->list.at[0] > APART_NS &&
	     b->list.at[b->list.n / MAX_BROKEN_SHARE] >= -APART_NS))
		return false;
	*out = b->list.at[i];
	return true;
}

/* Is called with what the host waited for when its call returned. */
typedef void (*returned_fn)(struct mend *m, struct sc_trace_event *act, int64_t end_ns, void *ctx);

/* Each wait that surely is one, and the last activity of a stream that it was for: of devices, of
 * streams where the trace says which or has one, of copies to memory that the host may use. */
static void for_waits(struct mend *m, returned_fn each, void *ctx)
{
	struct sc_trace *t = m->t;
	SC_VEC(struct sc_trace_order) launched = {0}; /* by call */
	struct sc_trace_event **last = sc_xcalloc(t->lanes.n + 1, sizeof(*last));
	size_t n_lanes = 0, n_devices = 0, next = 0;
	int32_t device = -2;

	for (uint32_t i = 0; i < t->events.n; i++) {
		struct sc_trace_event *e = &t->events.at[i];
		const struct sc_trace_event *call = is_timed(e) ? call_of(m, e) : NULL;

		if (!call)
			continue;
		SC_VEC_PUSH(&launched, ((struct sc_trace_order){call->start_ns, 0, i}));
		n_devices += t->lanes.at[e->lane].device != device;
		device = t->lanes.at[e->lane].device;
		if (e->sub == SC_COPY_D2H &&
		    sc_trace_copy_blocks(e, t->strings.at[e->name], t->strings.at[call->name]))
			each(m, e, event_end(call), ctx);
	}
	SC_SORT(launched.at, launched.n, sc_trace_compare_order);
	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];
		const char *name = t->strings.at[e->name];
		enum trace_sync sync = TRACE_SYNC_NONE;

		for (; next < launched.n && launched.at[next].key < e->start_ns; next++) {
			struct sc_trace_event *act = &t->events.at[launched.at[next].index];

			n_lanes += last[act->lane] == NULL;
			last[act->lane] = act;
		}
		if (e->cls == SC_EV_SYNC && e->sub == SC_SYNC_STREAM && last[e->lane])
			each(m, last[e->lane], event_end(e), ctx);
		if (e->cls == SC_EV_API && strstr(name, "Synchronize"))
			sync = sc_trace_sync_of(name);
		for (size_t l = 0; sync != TRACE_SYNC_NONE && l < t->lanes.n; l++)
			if (last[l] && ((sync == TRACE_SYNC_DEVICE && n_devices == 1) ||
					(sync == TRACE_SYNC_STREAM && n_lanes == 1)))
				each(m, last[l], event_end(e), ctx);
	}
	SC_VEC_RELEASE(&launched);
	free(last);
}

static void add_bound(struct mend *m, struct sc_trace_event *act, int64_t end_ns, void *ctx)
{
	struct bounds *most = ctx;

	(void)m;
	SC_VEC_PUSH(&most->list, (double)(end_ns - event_end(act)));
}

/* By the launches at least, by the waits at most; one record against many is broken, and the clocks
 * are not. What begins when nothing ran was woken by its launch, a few microseconds before: if none
 * was, that says the shift itself. */
static bool find_shift(struct mend *m)
{
	struct bounds least = {.list = {0}}, most = {.list = {0}}, woken = {.list = {0}};
	double low = (double)INFINITY, high = (double)INFINITY, latency = 0, shift = 0;
	int64_t busy_ns = INT64_MAX;
	bool clean, is_woken;

	for (size_t i = 0; i < m->t->events.n; i++) {
		const struct sc_trace_event *e = &m->t->events.at[i], *call;

		call = is_timed(e) ? call_of(m, e) : NULL;
		if (call)
			SC_VEC_PUSH(&least.list, (double)(e->start_ns - call->start_ns));
		if (call && busy_ns < e->start_ns - 2 * TOLERANCE_NS)
			SC_VEC_PUSH(&woken.list, (double)(e->start_ns - call->start_ns));
		if (is_timed(e) && (busy_ns == INT64_MAX || event_end(e) > busy_ns))
			busy_ns = event_end(e);
	}
	for_waits(m, add_bound, &most);
	sort_bounds(&least);
	sort_bounds(&most);
	sort_bounds(&woken);
	clean = least.list.n && most.list.n && -least.list.at[0] <= most.list.at[0] + TOLERANCE_NS;
	if (clean)
		low = least.list.at[0], high = most.list.at[0];
	else
		agreed_bound(&least, &low), agreed_bound(&most, &high);
	is_woken = agreed_bound(&woken, &latency) && latency <= low + TOLERANCE_NS &&
		   -latency <= high + TOLERANCE_NS;
	if (is_woken && (high < -TOLERANCE_NS || fabs(latency) > APART_NS))
		shift = -latency;
	else if (high < -TOLERANCE_NS)
		shift = high;
	else if (-low > SC_TRACE_LATENCY_NS)
		shift = -low;
	m->out->contradicts |= -low > high + APART_NS || fabs(shift) > MAX_SHIFT_NS;
	m->out->shift_ns = m->out->contradicts ? 0 : (int64_t)shift;
	if (m->out->shift_ns && !is_woken)
		m->out->unsure_ns = (int64_t)fmin(high + low, MAX_SHIFT_NS);
	/* The latency is that of launches which found the device idle, and of the fastest of all if
	 * that is long, since it waits for others. */
	latency = woken.list.n
			  ? sc_percentile_sorted(woken.list.at, woken.list.n, LATENCY_PERCENTILE)
			  : (double)INFINITY;
	if (latency + shift > APART_NS && least.list.n)
		latency = least.list.at[0];
	if (latency + shift <= APART_NS)
		m->out->latency_ns = (int64_t)fmax(latency + shift, -APART_NS);
	SC_VEC_RELEASE(&least.list);
	SC_VEC_RELEASE(&most.list);
	SC_VEC_RELEASE(&woken.list);
	return clean;
}

static void shift_device(struct mend *m)
{
	for (size_t i = 0; i < m->t->events.n; i++) {
		struct sc_trace_event *e = &m->t->events.at[i];
		const struct sc_trace_event *call;

		if (!is_timed(e))
			continue;
		e->start_ns += m->out->shift_ns;
		call = call_of(m, e);
		if (call && e->start_ns < call->start_ns - APART_NS) {
			note_broken(m, e, SC_BROKEN_LAUNCH, call->start_ns - e->start_ns, 0);
			e->start_ns = call->start_ns;
		}
		m->moved = true;
	}
	m->out->contradicts |=
		MAX_BROKEN_SHARE * m->out->broken[SC_BROKEN_LAUNCH].n > m->out->n_acts;
	sort_again(m);
}

/* It ended before the wait for it returned. */
static void clip_act(struct mend *m, struct sc_trace_event *act, int64_t end_ns, void *ctx)
{
	(void)ctx;
	if (event_end(act) > end_ns + APART_NS)
		shorten_event(m, act, end_ns > act->start_ns ? end_ns - act->start_ns : 0);
}

/* The last of all, by much more than what is typical of its name: nothing after it bounds it. */
static void mend_last(struct mend *m)
{
	struct sc_trace_event *last = NULL;
	int64_t others_ns = INT64_MIN, typical_ns;

	for (size_t i = 0; i < m->t->events.n; i++) {
		struct sc_trace_event *e = &m->t->events.at[i];

		if (e->flags & SC_EVF_NO_TIME)
			continue;
		if (!last || event_end(e) > event_end(last)) {
			others_ns = last ? event_end(last) : others_ns;
			last = e;
		} else if (event_end(e) > others_ns) {
			others_ns = event_end(e);
		}
	}
	typical_ns = last && is_timed(last) ? typical_of(m, last) : -1;
	if (typical_ns >= 0 && last->dur_ns / UNLIKE > typical_ns &&
	    event_end(last) - typical_ns > others_ns)
		shorten_event(m, last, typical_ns);
}

void sc_trace_mend(struct sc_trace *trace, struct sc_trace_mended *out)
{
	struct mend m = {.t = trace, .out = out};
	bool clean;

	memset(out, 0, sizeof(*out));
	m.calls = sc_correlations_of(trace, SC_EV_API);
	take_graphs(&m);
	mend_orders(&m);
	clean = find_shift(&m);
	if (!clean || out->shift_ns)
		shift_device(&m);
	mend_last(&m);
	mend_durations(&m);
	if (!clean)
		for_waits(&m, clip_act, NULL);
	SC_VEC_RELEASE(&m.calls.list);
	SC_VEC_RELEASE(&m.likes);
}
