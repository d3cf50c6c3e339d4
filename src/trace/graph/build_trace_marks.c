/* Finds the iterations: by what marks them, else by the period of what is launched. */
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "trace/graph/build_trace_priv.h"
#include "trace/graph/period.h"
#include "trace/graph/trace_order.h"

/* The shares of an iteration from which on it counts as lost: launches without kernels, or calls
 * that others have; time without a call. */
#define CUT_SHARE 0.1
#define QUIET_SHARE 0.25

struct call_times {
	int64_t start_ns, end_ns;
	bool is_call; /* else the kernel itself, which was launched before the recording began */
};

/* ---- by period ---- */

struct sequence {
	SC_VEC(uint32_t) names;
	SC_VEC(bool) meets;
	SC_VEC(struct call_times) calls; /* that launched them */
	size_t n_calls;                  /* that were recorded */
};

struct order_list {
	SC_VEC(struct sc_trace_order) list;
};

/* When the host sent data to the device, or waited for what it does: for all of it, as profilers do
 * when they begin and end, says nothing. */
static void list_meetings(const struct rank_load *load, struct order_list *out)
{
	const struct sc_trace *t = &load->trace;

	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];
		const enum trace_sync sync = e->cls == SC_EV_API
						     ? sc_trace_sync_of(t->strings.at[e->name])
						     : TRACE_SYNC_NONE;

		if (e->cls == SC_EV_COPY && (e->sub == SC_COPY_H2D || e->sub == SC_COPY_D2H)) {
			const uint32_t call = sc_correlations_find(&load->call_of, e->correlation);

			SC_VEC_PUSH(
				&out->list,
				((struct sc_trace_order){
					.key = t->events.at[call == SC_NONE ? i : call].start_ns}));
		} else if (sync != TRACE_SYNC_NONE && sync != TRACE_SYNC_DEVICE) {
			SC_VEC_PUSH(&out->list,
				    ((struct sc_trace_order){.key = e->start_ns + e->dur_ns}));
		}
	}
	SC_SORT(out->list.at, out->list.n, sc_trace_compare_order);
}

static void list_launches(const struct rank_load *load, struct sequence *out)
{
	const struct sc_trace *t = &load->trace;
	struct order_list met = {.list = {0}};
	size_t next = 0;

	list_meetings(load, &met);
	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];
		uint32_t call;
		size_t before = next;

		if (e->cls != SC_EV_KERNEL)
			continue;
		call = sc_correlations_find(&load->call_of, e->correlation);
		e = call == SC_NONE ? e : &t->events.at[call];
		out->n_calls += call != SC_NONE;
		while (next < met.list.n && met.list.at[next].key <= e->start_ns)
			next++;
		SC_VEC_PUSH(&out->names, t->events.at[i].name);
		SC_VEC_PUSH(&out->meets, next > before);
		SC_VEC_PUSH(&out->calls, ((struct call_times){e->start_ns, e->start_ns + e->dur_ns,
							      call != SC_NONE}));
	}
	SC_VEC_PUSH(&out->meets, next < met.list.n);
	SC_VEC_RELEASE(&met.list);
}

/* Was a slice launched while it was recorded? What the device had left to do at its begin is no
 * iteration: nobody knows when its host was where. */
static bool is_launched(const struct sequence *s, size_t first, size_t length)
{
	size_t n = 0;

	for (size_t i = first; i < first + length; i++)
		n += s->calls.at[i].is_call;
	return s->n_calls == 0 || (double)n >= (1 - CUT_SHARE) * (double)length;
}

/* To the next one's first call; the last one to the end of its last. Those beyond the period's own,
 * of which they have a part, if they are like the ones before. */
static void put_slices(struct rank_load *load, const struct sequence *s,
		       const struct sc_period *period)
{
	const size_t n = s->calls.n, length = period->length;
	const size_t end = period->first + period->n * length;

	for (size_t i = period->first; i + length <= n; i += length) {
		const struct sc_mark mark = {
			.start_ns = s->calls.at[i].start_ns,
			.end_ns = i + length < n ? s->calls.at[i + length].start_ns
						 : s->calls.at[n - 1].end_ns,
			.step = (int64_t)load->marks.list.n,
		};

		if (i + length > end &&
		    !sc_period_alike(&s->names.at[i - length], &s->names.at[i], length))
			break;
		if (mark.end_ns > mark.start_ns && is_launched(s, i, length))
			SC_VEC_PUSH(&load->marks.list, mark);
	}
}

static void marks_by_period(struct rank_load *load)
{
	struct sequence s = {.names = {0}};
	struct sc_launches all;
	struct sc_period period;

	list_launches(load, &s);
	all = (struct sc_launches){s.names.at, s.meets.at, s.names.n};
	if (sc_period_find(&all, &period))
		put_slices(load, &s, &period);
	SC_VEC_RELEASE(&s.names);
	SC_VEC_RELEASE(&s.meets);
	SC_VEC_RELEASE(&s.calls);
}

/* From the first call or activity to the end of the last call: the device ends later by itself. */
static void mark_whole(struct rank_load *load)
{
	const struct sc_trace *t = &load->trace;
	struct sc_mark mark = {.start_ns = INT64_MAX, .end_ns = INT64_MIN};
	bool has_calls = false;

	for (size_t i = 0; i < t->events.n && !has_calls; i++)
		has_calls = t->events.at[i].cls == SC_EV_API;
	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];

		if (e->cls != SC_EV_API && !sc_event_on_device(e))
			continue;
		if (e->start_ns < mark.start_ns)
			mark.start_ns = e->start_ns;
		if (e->start_ns + e->dur_ns > mark.end_ns && (!has_calls || e->cls == SC_EV_API))
			mark.end_ns = e->start_ns + e->dur_ns;
	}
	if (mark.end_ns > mark.start_ns)
		SC_VEC_PUSH(&load->marks.list, mark);
}

void sc_trace_find_marks(struct rank_load *load, const char *range)
{
	if (sc_marks_find(&load->trace, range, &load->marks))
		return;
	if (!range) {
		marks_by_period(load);
		load->marks.found_by = SC_FOUND_PERIOD;
	}
	if (load->marks.list.n == 0) {
		mark_whole(load);
		load->marks.found_by = SC_FOUND_WHOLE;
	}
}

/* ---- iterations ---- */

static void widen_iteration(struct sc_trace_iteration *it, uint32_t act)
{
	if (it->first_act == it->end_act)
		it->first_act = it->end_act = act;
	if (act < it->first_act)
		it->first_act = act;
	if (act >= it->end_act)
		it->end_act = act + 1;
}

/* An activity is in the iteration that launched it, and in the later ones that it runs into. */
static void widen_iterations(struct sc_trace_rank *r, uint32_t act)
{
	const struct sc_act *a = &r->acts.at[act];
	const uint32_t call = a->place;
	size_t later = 0; /* the first iteration that begins after its launch */

	if (call != SC_NONE)
		SC_FIRST_NOT(later, i, 0, r->iterations.n, r->iterations.at[i].begin <= call);
	if (later && call <= r->iterations.at[later - 1].end)
		widen_iteration(&r->iterations.at[later - 1], act);
	for (size_t i = later; i < r->iterations.n; i++) {
		const struct sc_call *begin = &r->calls.at[r->iterations.at[i].begin];

		if (begin->start_ns >= sc_act_end(a))
			break;
		widen_iteration(&r->iterations.at[i], act);
	}
}

/* The part of a time in which the host loads data, and need not call. */
static int64_t loading_ns(const struct rank_load *load, int64_t from, int64_t to)
{
	int64_t ns = 0;

	for (size_t i = 0; i < load->trace.events.n; i++) {
		const struct sc_trace_event *e = &load->trace.events.at[i];
		const int64_t begin = e->start_ns > from ? e->start_ns : from;
		const int64_t end = e->start_ns + e->dur_ns < to ? e->start_ns + e->dur_ns : to;

		if (e->cls == SC_EV_RANGE && end > begin &&
		    sc_trace_loads_data(load->trace.strings.at[e->name]))
			ns += end - begin;
	}
	return ns;
}

/* Profilers write what they have by buffers, in no order of time. Of a file that was cut, steps
 * lack calls with their kernels: they have fewer than others, or none for long. */
static bool lacks_calls(const struct rank_load *load, const struct sc_trace_iteration *it,
			uint32_t most)
{
	const struct sc_trace_rank *r = load->rank;
	int64_t at = r->calls.at[it->begin].start_ns, from = at, to = at;
	const int64_t all = r->calls.at[it->end].start_ns - at;

	for (uint32_t c = it->begin; c <= it->end; c++) {
		if (r->calls.at[c].start_ns - at > to - from) {
			from = at;
			to = r->calls.at[c].start_ns;
		}
		at = r->calls.at[c].start_ns + r->calls.at[c].dur_ns;
	}
	return it->end - it->begin < (1 - CUT_SHARE) * most ||
	       (double)(to - from - loading_ns(load, from, to)) > QUIET_SHARE * (double)all;
}

/* A file that was cut may have calls and not their kernels, or neither: such steps are none. */
static void leave_cut(struct rank_load *load)
{
	struct sc_trace_rank *r = load->rank;
	size_t kept = 0, next = 0;
	uint32_t most = 0;

	for (size_t i = 0; i < r->iterations.n; i++)
		if (r->iterations.at[i].end - r->iterations.at[i].begin > most)
			most = r->iterations.at[i].end - r->iterations.at[i].begin;
	for (size_t i = 0; i < r->iterations.n; i++) {
		struct sc_trace_iteration it = r->iterations.at[i];
		const int64_t from = r->calls.at[it.begin].start_ns;
		const int64_t to = r->calls.at[it.end].start_ns;

		for (; next < load->launches.n && load->launches.at[next].ns < to; next++)
			if (load->launches.at[next].ns >= from) {
				it.n_launches++;
				it.n_lost += load->launches.at[next].lost;
			}
		if (it.n_lost > CUT_SHARE * it.n_launches ||
		    (load->trace.partial && lacks_calls(load, &it, most))) {
			r->n_cut++;
			r->n_lost += it.n_lost;
		} else {
			r->iterations.at[kept++] = it;
		}
	}
	r->iterations.n = kept;
	r->is_cut = load->trace.partial;
	for (size_t i = 0; i < load->trace.strings.n; i++)
		r->lost_nccl = r->lost_nccl || strncmp(load->trace.strings.at[i], "nccl:", 5) == 0;
	for (size_t a = 0; a < r->acts.n; a++)
		r->lost_nccl = r->lost_nccl && r->acts.at[a].kind != SC_ACT_COLLECTIVE;
}

void sc_trace_number_iterations(struct rank_load *load)
{
	struct sc_trace_rank *r = load->rank;
	size_t mark = 0;

	for (uint32_t c = 0; c < r->calls.n; c++) {
		if (r->calls.at[c].kind == SC_CALL_BEGIN) {
			const struct sc_trace_iteration it = {
				.step = load->marks.list.at[mark++].step,
				.begin = c,
				.end = c,
			};

			SC_VEC_PUSH(&r->iterations, it);
		} else if (r->calls.at[c].kind == SC_CALL_END) {
			r->iterations.at[r->iterations.n - 1].end = c;
		}
	}
	for (uint32_t a = 0; a < r->acts.n; a++)
		widen_iterations(r, a);
	leave_cut(load);
}
