/* The ranges that a host was in while it worked: record_function, NVTX, data loaders, operators,
 * nodes of autograd. The host's work before a call is cut where ranges begin and end, and each
 * piece names the innermost range around it; ranges form a tree, so that a piece is in all that are
 * around. Read after all else of a rank, so that operators, which are most of many traces, are in
 * memory alone. */
#include <stdlib.h>

#include "base/search.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "trace/graph/build_trace_priv.h"

enum { MAX_DEPTH = 256 };

/* A thread on its way: the ranges that it is in, and the pieces since its last call. */
struct host_walk {
	struct rank_load *load;
	size_t depth;
	int64_t since_ns; /* up to here its time is told */
	struct {
		int64_t end_ns;
		uint32_t range;
	} open[MAX_DEPTH + 1]; /* [0]: no range */
	SC_VEC(struct sc_host_piece) pieces;
};

bool sc_trace_loads_data(const char *name)
{
	return sc_text_has(name, "dataload", 8) || sc_text_has(name, "data_load", 9) ||
	       sc_text_has(name, "data load", 9);
}

/* The tree has a node a name and parent. What holds a whole iteration labels none of its parts. */
static uint32_t host_range_of(struct host_walk *w, const struct sc_trace_event *e)
{
	struct sc_trace_run *run = w->load->run;
	const uint32_t name = sc_trace_load_name(w->load, e->name);
	const uint32_t key[2] = {w->open[w->depth].range, name};
	const uint32_t node = sc_intern_add_n(&run->range_keys, (const char *)key, sizeof(key)) + 1;
	const char *text = sc_trace_run_name(run, name);
	struct sc_host_range range = run->ranges.at[key[0]];
	bool holds_step = false;

	if (node < run->ranges.n)
		return node;
	for (size_t m = 0; m < w->load->marks.list.n && !holds_step; m++)
		holds_step = e->start_ns <= w->load->marks.list.at[m].start_ns &&
			     e->start_ns + e->dur_ns >= w->load->marks.list.at[m].end_ns;
	range.parent = key[0];
	range.name = name;
	range.is_op = e->cls == SC_EV_OP;
	range.loads_data = range.loads_data || sc_trace_loads_data(text);
	if (!holds_step && (range.label == SC_NONE || !range.is_op)) {
		range.label = name;
		range.labels_range = !range.is_op;
	}
	SC_VEC_PUSH(&run->ranges, range);
	return node;
}

static void tell_until(struct host_walk *w, int64_t ns)
{
	const struct sc_host_piece piece = {w->open[w->depth].range,
					    (float)sc_ns_us(ns - w->since_ns)};

	if (ns <= w->since_ns)
		return;
	SC_VEC_PUSH(&w->pieces, piece);
	w->since_ns = ns;
}

static void walk_until(struct host_walk *w, int64_t ns)
{
	while (w->depth && w->open[w->depth].end_ns <= ns) {
		tell_until(w, w->open[w->depth].end_ns);
		w->depth--;
	}
	tell_until(w, ns);
}

/* Ranges that overlap as no calls can: the inner one ends with the outer. */
static void enter_range(struct host_walk *w, const struct sc_trace_event *e)
{
	int64_t end_ns = e->start_ns + e->dur_ns;
	uint32_t range;

	walk_until(w, e->start_ns);
	if (w->depth == MAX_DEPTH)
		return;
	if (w->depth && end_ns > w->open[w->depth].end_ns)
		end_ns = w->open[w->depth].end_ns;
	range = host_range_of(w, e);
	w->depth++;
	w->open[w->depth].end_ns = end_ns;
	w->open[w->depth].range = range;
}

/* The work before a call: the last pieces, as long as it. */
static void take_pieces(struct host_walk *w, struct sc_call *call)
{
	struct sc_trace_rank *r = w->load->rank;
	float left_us = call->gap_us;

	walk_until(w, call->start_ns);
	call->range = w->open[w->depth].range;
	call->first_piece = (uint32_t)r->pieces.n;
	for (size_t i = w->pieces.n; i-- > 0 && left_us > 0;) {
		struct sc_host_piece piece = w->pieces.at[i];

		piece.us = piece.us < left_us ? piece.us : left_us;
		left_us -= piece.us;
		SC_VEC_PUSH(&r->pieces, piece);
	}
	call->n_pieces = (uint32_t)r->pieces.n - call->first_piece;
	w->pieces.n = 0;
	if (sc_call_waits(call))
		w->since_ns = call->start_ns + call->dur_ns;
}

/* By thread; of what starts together the longer is around the shorter. */
SC_COMPARE(compare_ranges, struct sc_trace_event *const,
	   8 * SC_ORDER((*a)->lane, (*b)->lane) + 4 * SC_ORDER((*a)->start_ns, (*b)->start_ns) +
		   2 * SC_ORDER((*b)->dur_ns, (*a)->dur_ns) + SC_ORDER(*a, *b));

int sc_trace_load_ranges(struct rank_load *load, const char *path, struct sc_err *err)
{
	const struct sc_trace_load_opts opts = {.classes = 1u << SC_EV_RANGE | 1u << SC_EV_OP};
	struct sc_trace_rank *r = load->rank;
	struct host_walk w = {.load = load};
	struct sc_trace host;
	const struct sc_trace_event **events;
	int rc;

	SC_VEC_RELEASE(&load->trace.events);
	rc = sc_trace_load(path, &opts, &host, err);
	if (rc)
		return rc;
	events = sc_xmalloc((host.events.n + 1) * sizeof(*events));
	for (size_t i = 0; i < host.events.n; i++)
		events[i] = &host.events.at[i];
	SC_SORT(events, host.events.n, compare_ranges);
	for (size_t i = 0, end; i < host.events.n; i = end) {
		const uint32_t lane = events[i]->lane;
		size_t next = i;

		for (end = i; end < host.events.n && events[end]->lane == lane; end++)
			;
		w.depth = w.pieces.n = 0;
		w.since_ns = INT64_MIN / 2;
		for (uint32_t c = 0; load->lane_of[lane] != SC_TRACE_NO_LANE && c < r->calls.n;
		     c++) {
			struct sc_call *call = &r->calls.at[c];

			if (call->lane != load->lane_of[lane])
				continue;
			for (; next < end && events[next]->start_ns <= call->start_ns; next++)
				enter_range(&w, events[next]);
			take_pieces(&w, call);
		}
	}
	free(events);
	SC_VEC_RELEASE(&w.pieces);
	sc_trace_release(&host);
	return 0;
}
