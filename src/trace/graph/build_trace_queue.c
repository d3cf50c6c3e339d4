/* Hosts that wait without a call that says so.
 *
 * Queues of launches. What is launched on a stream takes an entry of its queue until the device
 * starts it; when all entries are taken, the launch blocks the host until one is free. A trace does
 * not say so. A queue was full where launches took long again and again, each until an activity of
 * the stream ended, at the same number of entries. That time is waiting for the device, not work of
 * the host; and however fast the host is, no launch is further ahead of the device.
 *
 * Loops of the host. After some kernels a thread does nothing until memory has what they write, as
 * after those that count the tokens of experts. Such a kernel is one after whose launches the
 * thread pauses for times that differ, and always goes on about when it ends. Its launch is then
 * one that blocks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/stats.h"
#include "base/units.h"
#include "trace/graph/build_trace_priv.h"
#include "trace/graph/trace_order.h"

enum {
	MIN_ENTRIES = 64, /* no queue is that short */
	MIN_BLOCKED = 8   /* launches, for a queue to have been full */
};
/* Pauses of a loop, and how near its kernel's end they end: what is written last shows before. */
enum { MIN_PAUSE_NS = 200 * 1000, NEAR_END_NS = 100 * 1000, MIN_PAUSES = 3 };
#define PAUSES_DIFFER 10.0 /* by that many times what their ends do */
#define OWN_PERCENTILE                                                                       \
	10.0            /* of the durations of a call: what it takes where it does not block \
			 */
#define LONG_FACTOR 3.0 /* times that: it may have blocked */
#define NEAR_FULL \
	0.85 /* of the entries that the stream had at most: calls without activity take some */

/* An activity that a call launched on a stream. */
struct entry {
	uint32_t stream, call; /* sc_trace_compare_pair */
	uint32_t last_act;
	int64_t start_ns; /* of the first activity, and no earlier than that of the entry before */
};
/* A queue: entries of one stream, by call. */
struct queue {
	struct sc_trace_run *run;
	struct sc_trace_rank *rank;
	const double *own_ns; /* by name of call */
	const struct entry *entry;
	uint32_t n;
	uint32_t depth; /* entries taken at most when a launch returned, this one's included */
};

/* By stream and call; returns how many. */
static size_t find_entries(const struct sc_trace_rank *r, struct entry *entry)
{
	uint32_t *of_call = sc_xmalloc((r->calls.n + 1) * sizeof(*of_call));
	size_t n = 0;

	memset(of_call, 0xff, (r->calls.n + 1) * sizeof(*of_call));
	for (uint32_t a = 0; a < r->acts.n; a++) {
		const struct sc_act *act = &r->acts.at[a];

		if (act->launch == SC_NONE)
			continue;
		if (of_call[act->launch] == SC_NONE) {
			of_call[act->launch] = (uint32_t)n;
			entry[n++] = (struct entry){r->streams.at[act->lane].first_lane,
						    act->launch, a, act->start_ns};
		}
		entry[of_call[act->launch]].last_act = a;
	}
	free(of_call);
	SC_SORT(entry, n, sc_trace_compare_pair);
	for (size_t i = 1; i < n; i++)
		if (entry[i].stream == entry[i - 1].stream &&
		    entry[i].start_ns < entry[i - 1].start_ns)
			entry[i].start_ns = entry[i - 1].start_ns;
	return n;
}

/* ---- what calls take by themselves ---- */

struct duration {
	uint32_t name;
	double ns;
};

SC_COMPARE(compare_durations, struct duration,
	   2 * SC_ORDER(a->name, b->name) + SC_ORDER(a->ns, b->ns));

static double *own_times(const struct rank_load *load)
{
	const struct sc_trace_rank *r = load->rank;
	double *own_ns = sc_xmalloc((sc_intern_count(&load->run->names) + 1) * sizeof(*own_ns));
	struct duration *list = sc_xmalloc((r->calls.n + 1) * sizeof(*list));
	double *ns = sc_xmalloc((r->calls.n + 1) * sizeof(*ns));
	size_t n = 0;

	for (size_t c = 0; c < r->calls.n; c++)
		if (r->calls.at[c].kind == SC_CALL_LAUNCH)
			list[n++] = (struct duration){r->calls.at[c].name,
						      (double)r->calls.at[c].dur_ns};
	SC_SORT(list, n, compare_durations);
	for (size_t i = 0; i < n; i++)
		ns[i] = list[i].ns;
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && list[end].name == list[i].name; end++)
			;
		own_ns[list[i].name] = sc_percentile_sorted(&ns[i], end - i, OWN_PERCENTILE);
	}
	free(ns);
	free(list);
	return own_ns;
}

/* ---- one queue ---- */

static const struct sc_call *call_of(const struct queue *q, uint32_t k)
{
	return &q->rank->calls.at[q->entry[k].call];
}

/* Entries whose activity had started. */
static uint32_t n_started(const struct queue *q, int64_t ns)
{
	size_t low;

	SC_FIRST_NOT(low, i, 0, q->n, q->entry[i].start_ns <= ns);
	return (uint32_t)low;
}

/* Taken when launch k returned. */
static uint32_t n_taken(const struct queue *q, uint32_t k)
{
	const struct sc_call *call = call_of(q, k);
	const uint32_t started = n_started(q, call->start_ns + call->dur_ns);

	return started > k ? 0 : k + 1 - started;
}

/* The activity at whose end launch k went on if it blocked: the one before the last that started.
 * SC_NONE if it did not block. */
static uint32_t freed_by(const struct queue *q, uint32_t k)
{
	const struct sc_call *call = call_of(q, k);
	const int64_t end_ns = call->start_ns + call->dur_ns;
	const uint32_t started = n_started(q, end_ns);

	if (call->kind != SC_CALL_LAUNCH ||
	    (double)call->dur_ns <= LONG_FACTOR * q->own_ns[call->name] || started > k)
		return SC_NONE;
	for (uint32_t i = started; i > 0; i--) {
		const struct sc_act *act = &q->rank->acts.at[q->entry[i - 1].last_act];

		if (sc_act_end(act) <= call->start_ns)
			break;
		if (sc_act_end(act) <= end_ns)
			return q->entry[i - 1].last_act;
	}
	return SC_NONE;
}

static bool is_near_full(const struct queue *q, uint32_t k)
{
	return n_taken(q, k) >= NEAR_FULL * q->depth;
}

static bool was_full(struct queue *q)
{
	uint32_t n = 0;

	q->depth = 0;
	for (uint32_t k = 0; k < q->n; k++)
		q->depth = n_taken(q, k) > q->depth ? n_taken(q, k) : q->depth;
	if (q->depth < MIN_ENTRIES)
		return false;
	for (uint32_t k = 0; k < q->n && n < MIN_BLOCKED; k++)
		n += is_near_full(q, k) && freed_by(q, k) != SC_NONE;
	return n >= MIN_BLOCKED;
}

static void add_wait(struct sc_trace_rank *r, struct sc_call *call, uint32_t act)
{
	call->first_wait = (uint32_t)r->waits.n;
	call->n_waits = 1;
	SC_VEC_PUSH(&r->waits, act);
}

/* The call's own work after the wait counts to the gap of the next call, as of all launches; the
 * rest is how long the host took to see that there is room. What it did before the wait is host's
 * work, too. */
static void block_call(struct queue *q, uint32_t k, uint32_t act)
{
	struct sc_call *call = &q->rank->calls.at[q->entry[k].call];
	const double own_ns = q->own_ns[call->name];
	const double waited_ns = (double)(sc_act_end(&q->rank->acts.at[act]) - call->start_ns);
	const double after_ns = (double)call->dur_ns - waited_ns;
	const double before_ns = fmin(fmax(own_ns - after_ns, 0), waited_ns);
	const double tail_ns = fmax(after_ns - own_ns, 0);

	call->kind = SC_CALL_QUEUED;
	call->dur_ns = (int64_t)llround(waited_ns + tail_ns);
	call->gap_us = (float)(before_ns / (double)SC_NS_PER_US);
	call->tail_us = (float)(tail_ns / (double)SC_NS_PER_US);
	add_wait(q->rank, call, act);
	q->run->n_queued++;
	q->run->queued_us += (waited_ns - before_ns + tail_ns) / (double)SC_NS_PER_US;
}

void sc_trace_load_queues(struct rank_load *load)
{
	struct sc_trace_rank *r = load->rank;
	struct entry *entry = sc_xmalloc((r->acts.n + 1) * sizeof(*entry));
	const size_t n = find_entries(r, entry);
	double *own_ns = own_times(load);

	for (size_t i = 0, end; i < n; i = end) {
		struct queue q = {
			.run = load->run, .rank = r, .own_ns = own_ns, .entry = &entry[i]};

		for (end = i; end < n && entry[end].stream == entry[i].stream; end++)
			;
		q.n = (uint32_t)(end - i);
		if (!was_full(&q))
			continue;
		if (q.depth > load->run->queue_depth)
			load->run->queue_depth = q.depth;
		for (uint32_t k = 0; k < q.n; k++) {
			struct sc_call *call = &r->calls.at[q.entry[k].call];
			uint32_t act = is_near_full(&q, k) ? freed_by(&q, k) : SC_NONE, before;

			if (act != SC_NONE) {
				block_call(&q, k, act);
				continue;
			}
			/* One that did not block had an entry when the thread came to it. */
			act = k > q.depth ? q.entry[k - q.depth - 1].last_act : SC_NONE;
			before = load->call_before[q.entry[k].call];
			if (act != SC_NONE && before != SC_NONE && call->kind == SC_CALL_LAUNCH &&
			    sc_act_end(&r->acts.at[act]) <= r->calls.at[before].start_ns)
				add_wait(r, call, act);
		}
	}
	free(own_ns);
	free(entry);
}

/* ---- loops ---- */

/* A pause after a launch, and how long after it the kernel ended. */
struct pause {
	uint32_t name, call; /* sc_trace_compare_pair */
	int64_t ns, end_ns;
};

static size_t find_pauses(const struct rank_load *load, struct pause *pause)
{
	const struct sc_trace_rank *r = load->rank;
	uint32_t *next = sc_xmalloc((r->calls.n + 1) * sizeof(*next));
	size_t n = 0;

	memset(next, 0xff, (r->calls.n + 1) * sizeof(*next));
	for (uint32_t c = 0; c < r->calls.n; c++)
		if (load->call_before[c] != SC_NONE)
			next[load->call_before[c]] = c;
	for (uint32_t a = 0; a < r->acts.n; a++) {
		const struct sc_act *act = &r->acts.at[a];
		const struct sc_call *call;
		int64_t ns;

		if (act->kind != SC_ACT_KERNEL && act->kind != SC_ACT_COLLECTIVE)
			continue;
		if (act->launch == SC_NONE || next[act->launch] == SC_NONE)
			continue;
		call = &r->calls.at[act->launch];
		ns = r->calls.at[next[act->launch]].start_ns - call->start_ns - call->dur_ns;
		if (call->kind == SC_CALL_LAUNCH && ns >= MIN_PAUSE_NS)
			pause[n++] = (struct pause){act->name, act->launch, ns,
						    sc_act_end(act) - call->start_ns -
							    call->dur_ns - ns};
	}
	free(next);
	return n;
}

static bool is_loop(const struct pause *pause, size_t n)
{
	int64_t ns[2] = {INT64_MAX, INT64_MIN}, end_ns[2] = {INT64_MAX, INT64_MIN};

	for (size_t i = 0; i < n; i++) {
		ns[0] = pause[i].ns < ns[0] ? pause[i].ns : ns[0];
		ns[1] = pause[i].ns > ns[1] ? pause[i].ns : ns[1];
		end_ns[0] = pause[i].end_ns < end_ns[0] ? pause[i].end_ns : end_ns[0];
		end_ns[1] = pause[i].end_ns > end_ns[1] ? pause[i].end_ns : end_ns[1];
	}
	return n >= MIN_PAUSES && end_ns[0] >= -NEAR_END_NS && end_ns[1] <= NEAR_END_NS &&
	       (double)(ns[1] - ns[0]) >= PAUSES_DIFFER * (double)(end_ns[1] - end_ns[0]);
}

void sc_trace_load_loops(struct rank_load *load)
{
	struct sc_trace_rank *r = load->rank;
	struct pause *pause = sc_xmalloc((r->acts.n + 1) * sizeof(*pause));
	const size_t n = find_pauses(load, pause);

	SC_SORT(pause, n, sc_trace_compare_pair);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && pause[end].name == pause[i].name; end++)
			;
		for (size_t k = i; k < end && is_loop(&pause[i], end - i); k++) {
			struct sc_call *call = &r->calls.at[pause[k].call];

			call->kind = SC_CALL_SYNC;
			call->dur_ns += pause[k].ns + (pause[k].end_ns > 0 ? pause[k].end_ns : 0);
		}
	}
	free(pause);
}
