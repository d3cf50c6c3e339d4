/* Host calls that matter: those that started something on a device, those that wait, and the marks
 * of iterations, in order of time over all threads. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/search.h"
#include "trace/graph/build_trace_priv.h"
#include "trace/graph/trace_order.h"

/* ---- correlation -> call, or record of an event ---- */

struct sc_correlations sc_correlations_of(const struct sc_trace *trace, enum sc_event_class cls)
{
	struct sc_correlations table = {.list = {0}};

	for (uint32_t i = 0; i < trace->events.n; i++) {
		const struct sc_correlation one = {trace->events.at[i].correlation, i};

		if (trace->events.at[i].cls == cls && one.correlation)
			SC_VEC_PUSH(&table.list, one);
	}
	SC_SORT(table.list.at, table.list.n, sc_trace_compare_pair);
	return table;
}

uint32_t sc_correlations_find(const struct sc_correlations *table, uint32_t correlation)
{
	size_t low;

	SC_FIRST_NOT(low, i, 0, table->list.n, table->list.at[i].correlation < correlation);
	return low < table->list.n && table->list.at[low].correlation == correlation
		       ? table->list.at[low].event
		       : SC_NONE;
}

/* ---- calls ---- */

enum trace_sync sc_trace_sync_of(const char *name)
{
	static const struct {
		const char *prefix;
		enum trace_sync sync;
	} names[] = {
		{"StreamSynchronize", TRACE_SYNC_STREAM},
		{"EventSynchronize", TRACE_SYNC_EVENT},
		{"DeviceSynchronize", TRACE_SYNC_DEVICE},
		{"CtxSynchronize", TRACE_SYNC_DEVICE},
		{"ThreadSynchronize", TRACE_SYNC_DEVICE},
		{"FreeHost", TRACE_SYNC_DEVICE},
		{"FreeAsync", TRACE_SYNC_NONE},
		{"FreeArray", TRACE_SYNC_DEVICE},
		{"Free", TRACE_SYNC_DEVICE},
		{"MemFree_v2", TRACE_SYNC_DEVICE},
		{"MemcpyPeerAsync", TRACE_SYNC_NONE},
		{"MemcpyWithStream", TRACE_SYNC_COPY},
		{"Memcpy", TRACE_SYNC_COPY},
	};

	if (sc_begins_with(name, "cuda"))
		name += 4;
	else if (sc_begins_with(name, "hip"))
		name += 3;
	else if (sc_begins_with(name, "cu"))
		name += 2;
	else
		return TRACE_SYNC_NONE;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (sc_begins_with(name, names[i].prefix))
			return names[i].sync;
	return TRACE_SYNC_NONE;
}

enum { NOT_NEEDED, NEEDED_LAUNCH, NEEDED_SYNC };
enum {
	QUIET_NS = 50 * 1000, /* calls take less by themselves, most of them */
	TOLERANCE_NS = 1000   /* many traces have whole microseconds */
};

bool sc_trace_copy_blocks(const struct sc_trace_event *copy, const char *copy_name,
			  const char *call)
{
	if (copy->cls != SC_EV_COPY)
		return false;
	if (strstr(call, "Async") == NULL && sc_trace_sync_of(call) == TRACE_SYNC_COPY)
		return true;
	return copy->sub == SC_COPY_D2H && strstr(copy_name, "Pageable") != NULL;
}

/* The call of an activity waited for it: it went on until that ended. From pageable memory a call
 * copies all but the last piece, so that it ends a little earlier. Short ones may end within a call
 * by accident. */
static bool shows_wait(const struct sc_trace_event *act, const char *act_name,
		       const struct sc_trace_event *call)
{
	const int64_t after_ns = call->start_ns + call->dur_ns - act->start_ns - act->dur_ns;

	if (act->dur_ns < SC_TRACE_LATENCY_NS || act->start_ns < call->start_ns)
		return false;
	if (act->cls == SC_EV_COPY && strstr(act_name, "Pageable"))
		return after_ns >= -act->dur_ns / SC_TRACE_LAST_PIECE;
	return after_ns >= -TOLERANCE_NS && after_ns <= SC_TRACE_LATENCY_NS;
}

/* A call that starts nothing waited for the device: it took long, and ended when all that was
 * launched before it had. */
static bool ends_with_device(const struct sc_trace_event *call, int64_t device_end_ns)
{
	const int64_t end_ns = call->start_ns + call->dur_ns;

	return call->dur_ns >= QUIET_NS && device_end_ns > call->start_ns + SC_TRACE_LATENCY_NS &&
	       device_end_ns >= end_ns - SC_TRACE_LATENCY_NS &&
	       device_end_ns <= end_ns + TOLERANCE_NS;
}

static uint8_t *find_needed(const struct rank_load *load)
{
	const struct sc_trace *t = &load->trace;
	uint8_t *need = sc_xmalloc(t->events.n + 1);
	uint8_t *sync_name = sc_xmalloc(t->strings.n + 1);
	int64_t *end_ns =
		sc_xmalloc((t->events.n + 1) * sizeof(*end_ns)); /* of what a call launched */
	int64_t device_end_ns = INT64_MIN;

	memset(need, NOT_NEEDED, t->events.n + 1);
	for (size_t i = 0; i < t->events.n; i++)
		end_ns[i] = INT64_MIN;
	for (size_t s = 0; s < t->strings.n; s++) {
		const enum trace_sync sync = sc_trace_sync_of(t->strings.at[s]);

		sync_name[s] = sync != TRACE_SYNC_NONE && sync != TRACE_SYNC_COPY;
	}
	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];
		uint32_t call;

		if (e->cls == SC_EV_API && sync_name[e->name])
			need[i] = NEEDED_SYNC;
		if (!sc_event_on_device(e))
			continue;
		call = sc_correlations_find(&load->call_of, e->correlation);
		if (call == SC_NONE)
			continue;
		if (e->start_ns + e->dur_ns > end_ns[call])
			end_ns[call] = e->start_ns + e->dur_ns;
		if (sc_trace_copy_blocks(e, t->strings.at[e->name],
					 t->strings.at[t->events.at[call].name]) ||
		    shows_wait(e, t->strings.at[e->name], &t->events.at[call]))
			need[call] = NEEDED_SYNC;
		else if (need[call] == NOT_NEEDED)
			need[call] = NEEDED_LAUNCH;
	}
	for (size_t i = 0; i < t->events.n; i++) {
		if (t->events.at[i].cls != SC_EV_API)
			continue;
		if (need[i] == NOT_NEEDED && ends_with_device(&t->events.at[i], device_end_ns))
			need[i] = NEEDED_SYNC;
		device_end_ns = end_ns[i] > device_end_ns ? end_ns[i] : device_end_ns;
	}
	free(end_ns);
	free(sync_name);
	return need;
}

static uint16_t thread_of(struct rank_load *load, uint32_t lane)
{
	if (load->lane_of[lane] == SC_TRACE_NO_LANE && load->rank->n_threads < SC_TRACE_MAX_LANES)
		load->lane_of[lane] = (uint16_t)load->rank->n_threads++;
	return load->lane_of[lane] == SC_TRACE_NO_LANE ? 0 : load->lane_of[lane];
}

static void add_call(struct rank_load *load, const struct sc_trace_event *e, enum sc_call_kind kind)
{
	const struct sc_call call = {
		.start_ns = e->start_ns,
		.dur_ns = e->dur_ns,
		.name = sc_trace_load_name(load, e->name),
		.after = SC_NONE,
		.lane = thread_of(load, e->lane),
		.kind = (uint8_t)kind,
	};

	SC_VEC_PUSH(&load->rank->calls, call);
}

/* `at`: a time of a mark, its number, and whether it ends there. */
static void add_mark(struct rank_load *load, const struct sc_trace_order *at)
{
	const struct sc_mark *mark = &load->marks.list.at[at->tie];
	const struct sc_call call = {
		.start_ns = at->key,
		.name = sc_intern_add(&load->run->names, at->index ? "iteration end" : "iteration"),
		.after = SC_NONE,
		.lane = thread_of(load, mark->lane),
		.kind = at->index ? SC_CALL_END : SC_CALL_BEGIN,
	};

	SC_VEC_PUSH(&load->rank->calls, call);
}

/* The thread with the most calls: where marks go that no range gives. */
static uint32_t busiest_thread(const struct sc_trace *t, const uint8_t *need)
{
	uint32_t *count = sc_xmalloc((t->lanes.n + 1) * sizeof(*count)), best = 0;

	memset(count, 0, (t->lanes.n + 1) * sizeof(*count));
	for (size_t i = 0; i < t->events.n; i++)
		if (need[i])
			count[t->events.at[i].lane]++;
	for (uint32_t l = 1; l < t->lanes.n; l++)
		if (count[l] > count[best])
			best = l;
	free(count);
	return best;
}

static void find_before(struct rank_load *load)
{
	const struct sc_trace_rank *r = load->rank;
	uint32_t *last = sc_xmalloc((r->n_threads + 1) * sizeof(*last));

	memset(last, 0xff, (r->n_threads + 1) * sizeof(*last));
	load->call_before = sc_xmalloc((r->calls.n + 1) * sizeof(*load->call_before));
	for (uint32_t c = 0; c < r->calls.n; c++) {
		load->call_before[c] = last[r->calls.at[c].lane];
		last[r->calls.at[c].lane] = c;
	}
	free(last);
}

void sc_trace_load_calls(struct rank_load *load)
{
	const struct sc_trace *t = &load->trace;
	const size_t n_marks = load->marks.list.n;
	struct sc_trace_order *marks = sc_xmalloc((2 * n_marks + 1) * sizeof(*marks));
	bool *capturing = sc_xcalloc(t->lanes.n + 1, sizeof(*capturing));
	uint8_t *need = find_needed(load);
	const uint32_t busiest = busiest_thread(t, need);
	size_t next = 0;

	for (size_t m = 0; m < n_marks; m++) {
		struct sc_mark *mark = &load->marks.list.at[m];

		if (mark->lane == 0)
			mark->lane = busiest;
		marks[2 * m] = (struct sc_trace_order){mark->start_ns, (uint32_t)m, false};
		marks[2 * m + 1] = (struct sc_trace_order){mark->end_ns, (uint32_t)m, true};
	}
	SC_SORT(marks, 2 * n_marks, sc_trace_compare_order);
	for (size_t i = 0; i < t->events.n; i++) {
		const char *name = t->strings.at[t->events.at[i].name];
		bool *captures = &capturing[t->events.at[i].lane];

		load->call_of_event[i] = SC_NONE;
		/* Launches into a graph that is captured run only later, and as the graph. */
		if (t->events.at[i].cls == SC_EV_API && strstr(name, "StreamBeginCapture"))
			*captures = true;
		else if (t->events.at[i].cls == SC_EV_API && strstr(name, "StreamEndCapture"))
			*captures = false;
		else if (t->events.at[i].cls == SC_EV_API && strstr(name, "LaunchKernel") &&
			 (need[i] || !*captures))
			SC_VEC_PUSH(
				&load->launches,
				((struct trace_launch){t->events.at[i].start_ns,
						       t->events.at[i].correlation && !need[i]}));
		if (!need[i])
			continue;
		for (; next < 2 * n_marks && marks[next].key <= t->events.at[i].start_ns; next++)
			add_mark(load, &marks[next]);
		load->call_of_event[i] = (uint32_t)load->rank->calls.n;
		add_call(load, &t->events.at[i],
			 need[i] == NEEDED_SYNC ? SC_CALL_SYNC : SC_CALL_LAUNCH);
	}
	for (; next < 2 * n_marks; next++)
		add_mark(load, &marks[next]);
	free(need);
	free(marks);
	free(capturing);
	find_before(load);
}
