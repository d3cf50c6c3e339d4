/* Ways are tried in the order of enum sc_found_by, up to the first that finds something. */
#include "trace/graph/iteration_ranges.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/search.h"
#include "trace/import/kernel_words.h"

#define STEP_RANGE "ProfilerStep"
enum { MAX_TRIED = 64 }; /* ranges named as iterations */
/* Shares of calls: of a piece beside the longest one, which two optimizers in a row cut off; by how
 * many a piece at the edge of the trace may differ; that ranges named as iterations must hold. */
#define SMALL_SHARE 0.1
#define EDGE_SHARE 0.05
#define HELD_SHARE 0.8

static const char *call_name(const struct sc_trace *t, const struct sc_trace_event *e)
{
	return t->strings.at[e->name];
}

/* "ProfilerStep#1009": of that range, with the number of its step. */
static bool is_numbered(const char *name, const char *range, int64_t *step)
{
	const size_t n = strlen(range);

	return strncmp(name, range, n) == 0 && (name[n] == '#' || name[n] == '*') &&
	       sc_parse_int(name + n + 1, step);
}

/* One after the other on one thread: of several threads that have them, the first. */
static void add_range(struct sc_marks *out, const struct sc_trace_event *e, int64_t step)
{
	const struct sc_mark *last = out->list.n ? &out->list.at[out->list.n - 1] : NULL;
	const struct sc_mark mark = {e->start_ns, e->start_ns + e->dur_ns, step, e->lane};

	if (last && (last->lane != mark.lane || mark.start_ns < last->end_ns))
		return;
	if (!last)
		out->name = e->name;
	SC_VEC_PUSH(&out->list, mark);
}

/* ---- by name ---- */

static void find_named(const struct sc_trace *t, const char *range, struct sc_marks *out)
{
	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];
		int64_t step = (int64_t)out->list.n;

		if (e->cls == SC_EV_RANGE && e->dur_ns > 0 &&
		    ((range && fnmatch(range, call_name(t, e), 0) == 0) ||
		     is_numbered(call_name(t, e), range ? range : STEP_RANGE, &step)))
			add_range(out, e, step);
	}
}

/* ---- calls ---- */

/* Counts the calls that start in [start, end). */
static size_t count_calls(const struct sc_trace *t, int64_t start_ns, int64_t end_ns)
{
	size_t n = 0, first;

	SC_FIRST_NOT(first, i, 0, t->events.n, t->events.at[i].start_ns < start_ns);
	for (size_t i = first; i < t->events.n && t->events.at[i].start_ns < end_ns; i++)
		n += t->events.at[i].cls == SC_EV_API;
	return n;
}

static void call_span(const struct sc_trace *t, int64_t *first_ns, int64_t *last_ns)
{
	*first_ns = INT64_MAX;
	*last_ns = INT64_MIN;
	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];

		if (e->cls != SC_EV_API)
			continue;
		*first_ns = e->start_ns < *first_ns ? e->start_ns : *first_ns;
		if (e->start_ns + e->dur_ns > *last_ns)
			*last_ns = e->start_ns + e->dur_ns;
	}
}

/* ---- cut where an optimizer is called ---- */

/* A cut, and how many calls are in the piece that ends there. */
struct cut {
	int64_t ns;
	size_t n_calls;
};
struct cuts {
	SC_VEC(struct cut) list;
	uint32_t name, lane;
};

/* At the ranges of one name: the first that begins so. Of zero_grad the start, of step the end. */
static void find_cuts(const struct sc_trace *t, const char *prefix, bool at_end, struct cuts *out)
{
	for (size_t i = 0; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];
		const struct cut cut = {.ns = e->start_ns + (at_end ? e->dur_ns : 0)};

		if (e->cls != SC_EV_RANGE ||
		    (out->name ? e->name != out->name || e->lane != out->lane
			       : strncmp(call_name(t, e), prefix, strlen(prefix)) != 0))
			continue;
		out->name = e->name;
		out->lane = e->lane;
		SC_VEC_PUSH(&out->list, cut);
	}
}

/* Pieces of hardly a call are between optimizers of one step. Returns the most calls of a piece. */
static size_t drop_small(const struct sc_trace *t, struct cuts *cuts)
{
	size_t kept = 1, most = 0;

	for (size_t i = 1; i < cuts->list.n; i++) {
		struct cut *cut = &cuts->list.at[i];

		cut->n_calls = count_calls(t, cuts->list.at[i - 1].ns, cut->ns);
		most = cut->n_calls > most ? cut->n_calls : most;
	}
	for (size_t i = 1; i < cuts->list.n; i++)
		if ((double)cuts->list.at[i].n_calls >= SMALL_SHARE * (double)most)
			cuts->list.at[kept++] = cuts->list.at[i];
	cuts->list.n = kept;
	return most;
}

/* Like a piece between two cuts: the trace begins or ends by chance, or has a whole iteration. */
static bool is_whole(const struct sc_trace *t, const struct cuts *cuts, int64_t start_ns,
		     int64_t end_ns)
{
	const double n = (double)count_calls(t, start_ns, end_ns);

	for (size_t i = 1; i < cuts->list.n; i++) {
		const double other = (double)cuts->list.at[i].n_calls;

		if (n >= (1 - EDGE_SHARE) * other && n <= (1 + EDGE_SHARE) * other)
			return true;
	}
	return false;
}

static void find_cut(const struct sc_trace *t, const char *prefix, bool at_end,
		     struct sc_marks *out)
{
	struct cuts cuts = {.name = 0};
	int64_t first_ns, last_ns;
	size_t n;

	find_cuts(t, prefix, at_end, &cuts);
	if (cuts.list.n >= 2 && drop_small(t, &cuts) > 0 && cuts.list.n >= 2) {
		n = cuts.list.n;
		call_span(t, &first_ns, &last_ns);
		/* Piece i ends at cut i; the first begins and the last ends with the calls. */
		for (size_t i = 0; i <= n; i++) {
			const struct sc_mark mark = {.start_ns =
							     i ? cuts.list.at[i - 1].ns : first_ns,
						     .end_ns = i < n ? cuts.list.at[i].ns : last_ns,
						     .step = (int64_t)i,
						     .lane = cuts.lane};

			if ((i > 0 && i < n) ||
			    is_whole(t, &cuts, mark.start_ns, mark.end_ns + (i == n)))
				SC_VEC_PUSH(&out->list, mark);
		}
		out->name = cuts.name;
	}
	SC_VEC_RELEASE(&cuts.list);
}

/* Takes the cut that gives the most whole pieces: which call begins a step is the user's choice. */
static void find_optimizer(const struct sc_trace *t, struct sc_marks *out)
{
	static const struct {
		const char *prefix;
		bool at_end;
		enum sc_found_by found_by;
	} ways[] = {
		{"Optimizer.zero_grad", false, SC_FOUND_ZERO_GRAD},
		{"## zero_grad ##", false, SC_FOUND_ZERO_GRAD},
		{"Optimizer.step", true, SC_FOUND_OPTIMIZER},
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct sc_marks marks = {.found_by = ways[i].found_by};

		find_cut(t, ways[i].prefix, ways[i].at_end, &marks);
		if (marks.list.n > out->list.n) {
			SC_VEC_RELEASE(&out->list);
			*out = marks;
		} else {
			SC_VEC_RELEASE(&marks.list);
		}
	}
}

/* ---- ranges that say so ---- */

/* Is one of an iteration: "train_step", "iteration 12"; not "micro_batch 3". Of servers: SGLang's
 * "step[DECODE bs=4]", vLLM's "execute_3_context_1(512)_generation_0(0)". */
static bool is_iteration_word(const char *name)
{
	static const char *const WORDS[] = {"iteration", "iter", "step", "batch"};
	struct sc_kernel_words words;
	bool found = strncmp(name, "execute_", 8) == 0 && strstr(name, "context_");

	sc_kernel_words_split(name, &words);
	for (size_t i = 0; i < sizeof(WORDS) / sizeof(WORDS[0]); i++)
		found = found || sc_words_have(&words.own, WORDS[i]);
	return found && !sc_words_have(&words.own, "micro") &&
	       !sc_words_have(&words.own, "optimizer");
}

/* Alike but for numbers, and what brackets say of the work in it. */
static bool same_but_numbers(const char *a, const char *b)
{
	for (;;) {
		a += strspn(a, "0123456789");
		b += strspn(b, "0123456789");
		if (*a != *b)
			return false;
		if (!*a || *a == '(' || *a == '[')
			return true;
		a++;
		b++;
	}
}

/* The ranges like one, if nearly all calls between the first and the last are in them. Their names
 * need not be looked at again. */
static void find_like(const struct sc_trace *t, size_t first, bool *seen, struct sc_marks *out)
{
	const char *like = call_name(t, &t->events.at[first]);
	size_t n_held = 0, n_all;

	for (size_t i = first; i < t->events.n; i++) {
		const struct sc_trace_event *e = &t->events.at[i];

		if (e->cls != SC_EV_RANGE || e->dur_ns <= 0 ||
		    !same_but_numbers(call_name(t, e), like))
			continue;
		seen[e->name] = true;
		add_range(out, e, (int64_t)out->list.n);
	}
	for (size_t i = 0; i < out->list.n; i++)
		n_held += count_calls(t, out->list.at[i].start_ns, out->list.at[i].end_ns);
	n_all = count_calls(t, out->list.at[0].start_ns, out->list.at[out->list.n - 1].end_ns);
	if (out->list.n < 2 || n_held == 0 || (double)n_held < HELD_SHARE * (double)n_all)
		out->list.n = 0;
}

static void find_words(const struct sc_trace *t, struct sc_marks *out)
{
	bool *seen = sc_xcalloc(t->strings.n + 1, sizeof(*seen)); /* by string */
	int n_tried = 0;

	for (size_t i = 0; i < t->events.n && out->list.n == 0; i++) {
		const struct sc_trace_event *e = &t->events.at[i];

		if (e->cls != SC_EV_RANGE || e->dur_ns <= 0 || seen[e->name])
			continue;
		seen[e->name] = true;
		if (is_iteration_word(call_name(t, e)) && n_tried++ < MAX_TRIED)
			find_like(t, i, seen, out);
	}
	free(seen);
}

/* ---- all ---- */

bool sc_marks_find(const struct sc_trace *trace, const char *range, struct sc_marks *out)
{
	*out = (struct sc_marks){.found_by = range ? SC_FOUND_RANGE : SC_FOUND_STEPS};
	find_named(trace, range, out);
	if (!range && out->list.n == 0)
		find_optimizer(trace, out);
	if (!range && out->list.n == 0) {
		out->found_by = SC_FOUND_NAMED;
		find_words(trace, out);
	}
	return out->list.n > 0;
}

const char *sc_marks_text(enum sc_found_by found_by, const char *name, char text[128])
{
	static const char *const TEXTS[] = {
		[SC_FOUND_RANGE] = "marked by the range ",
		[SC_FOUND_STEPS] = "marked by ",
		[SC_FOUND_ZERO_GRAD] = "cut at ",
		[SC_FOUND_OPTIMIZER] = "cut at the ends of ",
		[SC_FOUND_NAMED] = "marked by the ranges ",
		[SC_FOUND_PERIOD] = "not marked, cut by the period of the kernels",
		[SC_FOUND_WHOLE] = "not marked, and no period was found: the trace is one",
	};
	const size_t n = found_by == SC_FOUND_STEPS ? strlen(STEP_RANGE) : 64;

	snprintf(text, 128, "%s%.*s", TEXTS[found_by], found_by < SC_FOUND_PERIOD ? (int)n : 0,
		 name);
	return text;
}
