/* The events of all frames by start: frames are merged, each decoded when the merge reaches its first
 * event, so that besides the result only frames that overlap in time are in memory. */
#include <stdlib.h>
#include <string.h>

#include "trace/format/row_sort.h"
#include "trace/format/trace_reader_priv.h"

/* A frame that is being merged. */
struct run {
	int64_t start_ns; /* of the event at `at` */
	size_t place;     /* of equal starts the frame written first comes first */
	struct sc_trace_event *events;
	uint32_t *order; /* n events by start */
	size_t n, at, cap;
};
struct merge {
	struct sc_frame_file *file;
	const struct sc_trace_load_opts *opts;
	struct sc_trace *trace;
	SC_VEC(size_t) places;      /* of frames to come, by first start, then place */
	SC_VEC(struct run *) heap;  /* the earliest at [0] */
	SC_VEC(struct run *) spare; /* memory of frames that are done */
	struct sc_row_key *keys;    /* 2 * SC_FRAME_MAX_ROWS */
};

static inline int64_t end_ns(const struct sc_trace_event *event)
{
	return (int64_t)((uint64_t)event->start_ns + (uint64_t)event->dur_ns);
}

static bool is_windowed(const struct sc_trace_load_opts *opts)
{
	return opts && (opts->first_ns || opts->last_ns);
}

static bool overlaps(const struct sc_trace_load_opts *opts, int64_t first_ns, int64_t last_ns)
{
	return !is_windowed(opts) || (first_ns <= opts->last_ns && last_ns >= opts->first_ns);
}

static bool is_wanted(const struct sc_trace_load_opts *opts, const struct sc_frame_place *place)
{
	if (!sc_has_events(place) || (opts && opts->classes && !(opts->classes >> place->sub & 1)))
		return false;
	return overlaps(opts, place->first, place->last);
}

/* --- the heap --- */

static inline bool is_before(const struct run *a, const struct run *b)
{
	return a->start_ns != b->start_ns ? a->start_ns < b->start_ns : a->place < b->place;
}

static void sift_down(struct merge *m)
{
	struct run **heap = m->heap.at, *run = heap[0];
	size_t at = 0, n = m->heap.n;

	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= n)
			break;
		if (child + 1 < n && is_before(heap[child + 1], heap[child]))
			child++;
		if (!is_before(heap[child], run))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = run;
}

static void push_run(struct merge *m, struct run *run)
{
	size_t at = m->heap.n;

	SC_VEC_PUSH(&m->heap, run);
	for (; at > 0 && is_before(run, m->heap.at[(at - 1) / 2]); at = (at - 1) / 2)
		m->heap.at[at] = m->heap.at[(at - 1) / 2];
	m->heap.at[at] = run;
}

/* --- frames --- */

static struct run *take_run(struct merge *m, size_t n)
{
	struct run *run = m->spare.n ? m->spare.at[--m->spare.n] : NULL;

	if (!run) {
		run = sc_xmalloc(sizeof(*run));
		*run = (struct run){.cap = 0};
	}
	if (run->cap < n) {
		free(run->events);
		free(run->order);
		run->events = sc_xrealloc(NULL, n, sizeof(*run->events));
		run->order = sc_xrealloc(NULL, n, sizeof(*run->order));
		run->cap = n;
	}
	return run;
}

/* The events of a run that are wanted, by start. */
static void order_run(struct merge *m, struct run *run, const struct sc_frame_place *place)
{
	struct sc_row_key *keys = m->keys;
	size_t n = 0;

	for (uint32_t i = 0; i < place->count; i++) {
		const struct sc_trace_event *event = &run->events[i];

		if (overlaps(m->opts, event->start_ns, end_ns(event)))
			keys[n++] = (struct sc_row_key){
				.time = (uint64_t)event->start_ns - (uint64_t)place->first,
				.row = i,
			};
	}
	keys = sc_row_sort(keys, keys + SC_FRAME_MAX_ROWS, n);
	for (size_t i = 0; i < n; i++)
		run->order[i] = keys[i].row;
	run->n = n;
	run->at = 0;
}

static void begin_frame(struct merge *m, size_t index)
{
	const struct sc_frame_place *place = &m->file->places.at[index];
	struct run *run = take_run(m, place->count);

	run->n = 0;
	if (sc_read_events(m->file, place, m->trace, run->events))
		order_run(m, run, place);
	if (run->n == 0) {
		SC_VEC_PUSH(&m->spare, run);
		return;
	}
	run->place = index;
	run->start_ns = run->events[run->order[0]].start_ns;
	push_run(m, run);
}

static void take_event(struct merge *m)
{
	struct run *run = m->heap.at[0];

	SC_VEC_PUSH(&m->trace->events, run->events[run->order[run->at]]);
	if (++run->at < run->n) {
		run->start_ns = run->events[run->order[run->at]].start_ns;
	} else {
		SC_VEC_PUSH(&m->spare, run);
		m->heap.at[0] = m->heap.at[--m->heap.n];
	}
	if (m->heap.n)
		sift_down(m);
}

static void merge_frames(struct merge *m)
{
	const struct sc_frame_place *places = m->file->places.at;
	size_t next = 0;

	while (next < m->places.n || m->heap.n) {
		while (next < m->places.n &&
		       (!m->heap.n || places[m->places.at[next]].first <= m->heap.at[0]->start_ns))
			begin_frame(m, m->places.at[next++]);
		if (m->heap.n)
			take_event(m);
	}
}

/* --- what is to be merged --- */

/* Returns the number of events of these frames. */
static size_t choose_frames(struct merge *m)
{
	const struct sc_frame_place *places = m->file->places.at;
	struct sc_row_key *keys, *sorted;
	size_t n = 0, n_events = 0;

	keys = sc_xrealloc(NULL, m->file->places.n + 1, 2 * sizeof(*keys));
	for (size_t i = 0; i < m->file->places.n; i++) {
		if (!is_wanted(m->opts, &places[i]))
			continue;
		/* The order of int64 as that of uint64. */
		keys[n].time = (uint64_t)places[i].first ^ UINT64_C(1) << 63;
		keys[n].group = 0;
		keys[n++].row = (uint32_t)i;
		n_events += places[i].count;
	}
	sorted = sc_row_sort(keys, keys + n, n);
	for (size_t i = 0; i < n; i++)
		SC_VEC_PUSH(&m->places, (size_t)sorted[i].row);
	free(keys);
	return n_events;
}

static void release_merge(struct merge *m)
{
	for (size_t i = 0; i < m->spare.n; i++) {
		free(m->spare.at[i]->events);
		free(m->spare.at[i]->order);
		free(m->spare.at[i]);
	}
	SC_VEC_RELEASE(&m->places);
	SC_VEC_RELEASE(&m->heap);
	SC_VEC_RELEASE(&m->spare);
	free(m->keys);
}

int sc_load_events(struct sc_frame_file *file, const struct sc_trace_load_opts *opts,
		   struct sc_trace *trace, struct sc_err *err)
{
	struct merge m = {.file = file, .opts = opts, .trace = trace};
	size_t n_events = choose_frames(&m);
	int rc = 0;

	if (n_events > UINT32_MAX) {
		rc = sc_err_at(
			err, SC_ELIMIT, file->path, 0, 0,
			"%zu events are too many to load at once; choose classes or a window",
			n_events);
	} else {
		m.keys = sc_xrealloc(NULL, SC_FRAME_MAX_ROWS, 2 * sizeof(*m.keys));
		if (!is_windowed(opts))
			SC_VEC_RESERVE(&trace->events, n_events);
		merge_frames(&m);
	}
	release_merge(&m);
	return rc;
}
