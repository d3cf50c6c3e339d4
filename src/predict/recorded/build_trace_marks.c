/* Where iterations are: ranges that a framework or the user marked, else the period of what is launched. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "predict/recorded/build_trace_priv.h"

enum { MIN_PERIOD = 8, MAX_PERIOD = 8192, MAX_SEQUENCE = 1 << 15 };
#define STEP_RANGE "ProfilerStep"
#define ALIKE 0.97 /* of launches a period apart that are of one kernel */

/* "ProfilerStep#1009": of that range, with the number of its step. */
static bool is_numbered(const char *name, const char *range, int64_t *step)
{
	const size_t n = strlen(range);

	return strncmp(name, range, n) == 0 && (name[n] == '#' || name[n] == '*') &&
	       sc_parse_int(name + n + 1, step);
}

/* Ranges one after the other on one thread: of several threads that have them, the first. */
static void ranges_named(struct rank_load *load, const char *range)
{
	const struct sc_trace *t = &load->trace;
	int64_t count = 0;
	uint32_t lane = 0;
	int64_t end = INT64_MIN;

	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];
		struct trace_mark mark = {.step = count};

		if (e->cls != SC_EV_RANGE || e->dur_ns <= 0)
			continue;
		if (!(range && strcmp(t->strings.at[e->name], range) == 0) &&
		    !is_numbered(t->strings.at[e->name], range ? range : STEP_RANGE, &mark.step))
			continue;
		if (lane == 0)
			lane = e->lane;
		if (e->lane != lane || e->start_ns < end)
			continue;
		end = e->start_ns + e->dur_ns;
		count++;
		mark.start_ns = e->start_ns;
		mark.end_ns = end;
		mark.lane = e->lane;
		SC_VEC_PUSH(&load->marks.list, mark);
	}
}

/* ---- by period ---- */

struct sequence {
	SC_VEC(uint32_t) names;
	SC_VEC(int64_t) start_ns; /* of the calls that launched them */
};

static void launches(const struct rank_load *load, const struct sc_correlations *table,
		     struct sequence *out)
{
	const struct sc_trace *t = &load->trace;

	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];
		const uint32_t call = e->cls == SC_EV_KERNEL
					      ? sc_correlations_find(table, e->correlation)
					      : SC_NONE;

		if (e->cls != SC_EV_KERNEL)
			continue;
		SC_VEC_PUSH(&out->names, e->name);
		SC_VEC_PUSH(&out->start_ns, t->events.at[call == SC_NONE ? i : call].start_ns);
	}
}

static double alike_at(const struct sequence *s, size_t period)
{
	const size_t end = s->names.n < MAX_SEQUENCE ? s->names.n : MAX_SEQUENCE;
	size_t same = 0;

	for (size_t i = period; i < end; i++)
		same += s->names.at[i] == s->names.at[i - period];
	return (double)same / (double)(end - period);
}

/* The shortest that is nearly as good as the best; 0 if none is good. */
static size_t find_period(const struct sequence *s)
{
	const size_t n = s->names.n < MAX_SEQUENCE ? s->names.n : MAX_SEQUENCE;
	size_t best = 0;
	double best_alike = ALIKE;

	for (size_t p = MIN_PERIOD; p <= n / 2 && p <= MAX_PERIOD; p++) {
		const double alike = alike_at(s, p);

		if (alike > best_alike + 0.01 || (best == 0 && alike >= best_alike)) {
			best = p;
			best_alike = alike;
		}
	}
	return best;
}

/* The place in the period with the longest pause before it. */
static size_t find_phase(const struct sequence *s, size_t period)
{
	size_t best = 0;
	double longest = -1;

	for (size_t phase = 0; phase < period; phase++) {
		double sum = 0;
		size_t n = 0;

		for (size_t i = phase; i < s->names.n; i += period) {
			if (i == 0)
				continue;
			sum += (double)(s->start_ns.at[i] - s->start_ns.at[i - 1]);
			n++;
		}
		if (n && sum / (double)n > longest) {
			longest = sum / (double)n;
			best = phase;
		}
	}
	return best;
}

static void marks_by_period(struct rank_load *load)
{
	struct sc_correlations *table = sc_correlations_create(&load->trace);
	struct sequence s = {.names = {0}};
	size_t period, phase;

	launches(load, table, &s);
	period = find_period(&s);
	phase = period ? find_phase(&s, period) : 0;
	for (size_t i = phase; period && i + period < s.names.n; i += period) {
		const struct trace_mark mark = {
			.start_ns = s.start_ns.at[i],
			.end_ns = s.start_ns.at[i + period],
			.step = (int64_t)load->marks.list.n,
		};

		if (mark.end_ns > mark.start_ns)
			SC_VEC_PUSH(&load->marks.list, mark);
	}
	SC_VEC_RELEASE(&s.names);
	SC_VEC_RELEASE(&s.start_ns);
	sc_correlations_destroy(table);
}

/* From the first to the end of the last call or activity. */
static void mark_whole(struct rank_load *load)
{
	const struct sc_trace *t = &load->trace;
	struct trace_mark mark = {.start_ns = INT64_MAX, .end_ns = INT64_MIN};

	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];

		if (e->cls != SC_EV_API && e->cls != SC_EV_KERNEL && e->cls != SC_EV_COPY &&
		    e->cls != SC_EV_SET)
			continue;
		if (e->start_ns < mark.start_ns)
			mark.start_ns = e->start_ns;
		if (e->start_ns + e->dur_ns > mark.end_ns)
			mark.end_ns = e->start_ns + e->dur_ns;
	}
	if (mark.end_ns > mark.start_ns)
		SC_VEC_PUSH(&load->marks.list, mark);
}

void sc_trace_find_marks(struct rank_load *load, const char *range,
			 enum sc_trace_iterations *found_by)
{
	ranges_named(load, range);
	*found_by = range ? SC_ITERATIONS_RANGE : SC_ITERATIONS_STEPS;
	if (load->marks.list.n == 0 && !range) {
		marks_by_period(load);
		*found_by = SC_ITERATIONS_PERIOD;
	}
	if (load->marks.list.n == 0) {
		mark_whole(load);
		*found_by = SC_ITERATIONS_WHOLE;
	}
}

/* ---- iterations ---- */

static uint32_t iteration_of_call(const struct sc_trace_rank *r, uint32_t call)
{
	size_t low = 0, high = r->iterations.n;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (r->iterations.at[middle].begin <= call)
			low = middle + 1;
		else
			high = middle;
	}
	return low && call <= r->iterations.at[low - 1].end ? (uint32_t)low - 1 : SC_NONE;
}

static uint32_t call_at(const struct sc_trace_rank *r, int64_t ns)
{
	uint32_t low = 0, high = (uint32_t)r->calls.n;

	while (low < high) {
		const uint32_t middle = (low + high) / 2;

		if (r->calls.at[middle].start_ns <= ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : SC_NONE;
}

static void widen(struct sc_trace_iteration *it, uint32_t act)
{
	if (it->first_act == it->end_act)
		it->first_act = it->end_act = act;
	if (act < it->first_act)
		it->first_act = act;
	if (act >= it->end_act)
		it->end_act = act + 1;
}

/* An activity is in the iteration that launched it, and in the later ones that it runs into. */
static void place_act(struct sc_trace_rank *r, uint32_t act)
{
	const struct sc_act *a = &r->acts.at[act];
	const uint32_t call = a->launch == SC_NONE ? call_at(r, a->start_ns) : a->launch;
	const uint32_t own = call == SC_NONE ? SC_NONE : iteration_of_call(r, call);

	if (own != SC_NONE)
		widen(&r->iterations.at[own], act);
	/* Iterations that begin after its launch and before its end. */
	for (size_t i = own == SC_NONE ? 0 : own + 1; i < r->iterations.n; i++) {
		const struct sc_call *begin = &r->calls.at[r->iterations.at[i].begin];

		if (begin->start_ns >= sc_act_end(a))
			break;
		if (call == SC_NONE || r->iterations.at[i].begin > call)
			widen(&r->iterations.at[i], act);
	}
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
		place_act(r, a);
}
