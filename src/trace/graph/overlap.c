/* By GPU: each side's activities in order of start, their union, and where the two unions meet. */
#include "trace/graph/overlap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"
#include "base/search.h"
#include "base/units.h"

enum { COMPUTE, COMM, N_SIDES };

/* Kernels before and after one that make its place known, in a recording of one iteration. */
enum { NEIGHBOURS = 4 };

/* A kernel among those of its name and launch, on its stream, in its iteration. */
struct same_launch {
	uint64_t key; /* of all these */
	uint32_t act;
};

struct span {
	int64_t begin, end;
};
struct side {
	SC_VEC(struct sc_beside) acts; /* of one GPU, by start */
	SC_VEC(int64_t) last_end;      /* of those up to each */
	SC_VEC(struct span) busy;
	SC_VEC(struct same_launch) launches; /* sorted */
};
struct finder {
	const struct sc_trace_run *run;
	const struct sc_trace_rank *rank;
	int32_t device;
	struct side side[N_SIDES];
	SC_VEC(struct span) both;
	struct sc_overlaps *out;
};

static const struct sc_act *act_of(const struct finder *f, const struct sc_beside *b)
{
	return &f->rank->acts.at[b->act];
}

/* As recorded: an activity of the run may have lost the part before its call. */
static struct span span_of(const struct finder *f, const struct sc_beside *b)
{
	const struct sc_act *act = act_of(f, b);

	return (struct span){act->start_ns - act->cut_ns, sc_act_end(act)};
}

static int64_t min_ns(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t max_ns(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* ---- who ran when ---- */

static void sort_side(struct finder *f, struct side *s)
{
	/* nearly in order: only what was before its call may have to move ahead */
	for (size_t i = 1; i < s->acts.n; i++) {
		const struct sc_beside one = s->acts.at[i];
		size_t to = i;

		for (; to > 0 && span_of(f, &s->acts.at[to - 1]).begin > span_of(f, &one).begin;
		     to--)
			s->acts.at[to] = s->acts.at[to - 1];
		s->acts.at[to] = one;
	}
}

static void take_side(struct finder *f, int which)
{
	const enum sc_act_kind kind = which == COMM ? SC_ACT_COLLECTIVE : SC_ACT_KERNEL;
	struct side *s = &f->side[which];

	s->acts.n = s->last_end.n = s->busy.n = 0;
	for (uint32_t a = 0; a < f->rank->acts.n; a++) {
		const struct sc_act *act = &f->rank->acts.at[a];
		const struct sc_beside one = {
			.act = a,
			.beside = SC_NONE,
			.time_us = which == COMM ? sc_trace_act_work_us(f->run, f->rank, act)
						 : sc_ns_us(act->dur_ns + act->cut_ns),
			.alone_us = NAN};

		if (act->kind == kind && f->rank->streams.at[act->lane].device == f->device)
			SC_VEC_PUSH(&s->acts, one);
	}
	sort_side(f, s);
	for (size_t i = 0; i < s->acts.n; i++) {
		const struct span span = span_of(f, &s->acts.at[i]);
		struct span *last = s->busy.n ? &s->busy.at[s->busy.n - 1] : NULL;

		SC_VEC_PUSH(&s->last_end, i ? max_ns(s->last_end.at[i - 1], span.end) : span.end);
		if (last && span.begin <= last->end)
			last->end = max_ns(last->end, span.end);
		else if (span.end > span.begin)
			SC_VEC_PUSH(&s->busy, span);
	}
}

static void find_both_busy(struct finder *f)
{
	const struct side *a = &f->side[COMPUTE], *b = &f->side[COMM];
	size_t i = 0, k = 0;

	f->both.n = 0;
	while (i < a->busy.n && k < b->busy.n) {
		const struct span x = a->busy.at[i], y = b->busy.at[k];
		const struct span both = {max_ns(x.begin, y.begin), min_ns(x.end, y.end)};

		if (both.end > both.begin)
			SC_VEC_PUSH(&f->both, both);
		if (x.end < y.end)
			i++;
		else
			k++;
	}
}

/* ---- beside what, and for how long ---- */

/* Measures how much of the time in which both sides run lies in stretches. */
static void measure_overlap(const struct finder *f, struct sc_beside *b)
{
	const struct span span = span_of(f, b);
	int64_t ns = 0;
	size_t first;

	SC_FIRST_NOT(first, i, 0, f->both.n, f->both.at[i].end <= span.begin);
	for (size_t i = first; i < f->both.n && f->both.at[i].begin < span.end; i++)
		ns += min_ns(f->both.at[i].end, span.end) - max_ns(f->both.at[i].begin, span.begin);
	b->overlap_us = sc_ns_us(ns);
	b->frac = ns ? (double)ns / (double)(span.end - span.begin) : 0;
}

static void find_longest(const struct finder *f, const struct side *others, struct sc_beside *b)
{
	const struct span span = span_of(f, b);
	int64_t longest = 0;
	size_t low;

	/* the first that starts when this one has ended */
	SC_FIRST_NOT(low, i, 0, others->acts.n, span_of(f, &others->acts.at[i]).begin < span.end);
	for (; low > 0 && others->last_end.at[low - 1] > span.begin; low--) {
		const struct span other = span_of(f, &others->acts.at[low - 1]);
		const int64_t ns = min_ns(other.end, span.end) - max_ns(other.begin, span.begin);

		if (ns > 0 && ns >= longest) {
			longest = ns;
			b->beside = others->acts.at[low - 1].act;
		}
	}
}

/* ---- the same alone ---- */

/* The keys that make two the same, then what ran alone before what did not, then time. */
struct same {
	uint64_t key[5];
	bool beside;
	double time_us;
	uint32_t index; /* in the side */
};

static int compare_keys(const struct same *a, const struct same *b)
{
	for (int i = 0; i < 5; i++)
		if (a->key[i] != b->key[i])
			return a->key[i] < b->key[i] ? -1 : 1;
	return 0;
}

SC_COMPARE(compare_same, struct same,
	   8 * compare_keys(a, b) + 4 * SC_ORDER(a->beside, b->beside) +
		   2 * SC_ORDER(a->time_us, b->time_us) + SC_ORDER(a->index, b->index));

static uint64_t hash_number(uint64_t hash, uint64_t value)
{
	return sc_fnv(hash, &value, sizeof(value));
}

static uint64_t hash_of(const struct sc_act *act)
{
	return hash_number(hash_number(SC_FNV_START, act->name), act->config);
}

static uint32_t stream_of(const struct finder *f, const struct sc_act *act)
{
	return f->rank->streams.at[act->lane].first_lane;
}

/* 0: launched by none of them. */
static uint64_t iteration_of(const struct finder *f, const struct sc_act *act)
{
	for (size_t i = 0; i < f->rank->iterations.n; i++)
		if (act->place != SC_NONE && act->place >= f->rank->iterations.at[i].begin &&
		    act->place < f->rank->iterations.at[i].end)
			return i + 1;
	return 0;
}

SC_COMPARE(compare_launches, struct same_launch,
	   2 * SC_ORDER(a->key, b->key) + SC_ORDER(a->act, b->act));

static struct same_launch launch_of(const struct finder *f, uint32_t act)
{
	const struct sc_act *a = &f->rank->acts.at[act];

	return (struct same_launch){
		hash_number(hash_number(hash_of(a), stream_of(f, a)), iteration_of(f, a)), act};
}

/* A print of the kernels of its stream that come before and after it. */
static uint64_t neighbours_of(const struct finder *f, const struct side *s, uint32_t index)
{
	const uint32_t stream = stream_of(f, act_of(f, &s->acts.at[index]));
	uint64_t hash = 0;

	for (int step = -1; step <= 1; step += 2) {
		int left = NEIGHBOURS;

		for (size_t i = index + (size_t)step; i < s->acts.n && left; i += (size_t)step) {
			const struct sc_act *act = act_of(f, &s->acts.at[i]);

			if (stream_of(f, act) != stream)
				continue;
			hash = hash_number(hash, hash_of(act));
			left--;
		}
		hash = hash_number(hash, (uint64_t)left);
	}
	return hash;
}

/* A launch differs by its place in what it works on, where no shapes say it: which of its launch it
 * is in its iteration, if that has as many of them; in a recording without several iterations, what
 * runs before and after it. */
static void set_place(const struct finder *f, const struct side *s, uint32_t index,
		      struct same *same)
{
	const struct same_launch own = launch_of(f, s->acts.at[index].act);
	size_t first, at, end;

	if (f->rank->iterations.n < 2) {
		same->key[3] = neighbours_of(f, s, index);
		return;
	}
	if (!iteration_of(f, &f->rank->acts.at[own.act]))
		same->key[1] = 0; /* never known */
	SC_FIRST_NOT(first, i, 0, s->launches.n, s->launches.at[i].key < own.key);
	SC_FIRST_NOT(end, i, first, s->launches.n, s->launches.at[i].key == own.key);
	SC_FIRST_NOT(at, i, first, end, s->launches.at[i].act < own.act);
	same->key[3] = (uint64_t)(end - first) << 32 | (at - first);
	same->key[4] = stream_of(f, &f->rank->acts.at[own.act]);
}

static struct same same_of(const struct finder *f, const struct side *s, uint32_t index)
{
	const struct sc_beside *b = &s->acts.at[index];
	const struct sc_act *act = act_of(f, b);
	struct same same = {.key = {act->name, act->config},
			    .beside = b->beside != SC_NONE,
			    .time_us = b->time_us,
			    .index = index};

	if (act->kind == SC_ACT_KERNEL && f->rank->shapes.n && f->rank->shapes.at[b->act])
		same.key[2] = f->rank->shapes.at[b->act];
	else if (act->kind == SC_ACT_KERNEL)
		set_place(f, s, index, &same);
	if (act->merge_call != SC_NONE) {
		const struct sc_merge_call *c = &f->rank->collectives.at[act->merge_call];

		same.key[2] = (uint64_t)c->bytes;
		same.key[3] = (uint64_t)(c->kind + 1);
		same.key[4] = (uint64_t)(c->group_size + 1);
	}
	return same;
}

static void find_alone(struct finder *f, struct side *s)
{
	struct same *all = sc_xmalloc((s->acts.n + 1) * sizeof(*all));

	s->launches.n = 0;
	for (size_t i = 0; i < s->acts.n; i++)
		SC_VEC_PUSH(&s->launches, launch_of(f, s->acts.at[i].act));
	SC_SORT(s->launches.at, s->launches.n, compare_launches);
	for (uint32_t i = 0; i < s->acts.n; i++)
		all[i] = same_of(f, s, i);
	SC_SORT(all, s->acts.n, compare_same);
	for (size_t i = 0, end; i < s->acts.n; i = end) {
		size_t alone = i;
		double us;

		for (end = i; end < s->acts.n && compare_keys(&all[i], &all[end]) == 0; end++)
			alone += !all[end].beside;
		if (alone == i || all[i].key[1] == 0)
			continue;
		us = 0.5 *
		     (all[i + (alone - i - 1) / 2].time_us + all[i + (alone - i) / 2].time_us);
		for (size_t k = alone; k < end; k++)
			s->acts.at[all[k].index].alone_us = us;
	}
	free(all);
}

/* ---- stretches ---- */

/* The time that the side's part in `both` takes alone. */
static double alone_in(const struct finder *f, const struct side *s, const struct span *both)
{
	double us = 0;
	size_t low;

	SC_FIRST_NOT(low, i, 0, s->acts.n, span_of(f, &s->acts.at[i]).begin < both->end);
	for (; low > 0 && s->last_end.at[low - 1] > both->begin; low--) {
		const struct sc_beside *b = &s->acts.at[low - 1];
		const struct span span = span_of(f, b);
		const int64_t ns = min_ns(span.end, both->end) - max_ns(span.begin, both->begin);

		if (ns > 0)
			us += b->alone_us * (double)ns / (double)(span.end - span.begin);
	}
	return us;
}

static double total_us(const struct span *spans, size_t n)
{
	double us = 0;

	for (size_t i = 0; i < n; i++)
		us += sc_ns_us(spans[i].end - spans[i].begin);
	return us;
}

static void put_device(struct finder *f)
{
	const struct side *a = &f->side[COMPUTE], *b = &f->side[COMM];
	struct sc_overlaps *out = f->out;
	int64_t begin = INT64_MAX, end = INT64_MIN;

	for (size_t i = 0; i < f->both.n; i++) {
		const struct span *both = &f->both.at[i];
		const struct sc_overlap_stretch stretch = {
			f->rank->rank,         f->device,
			sc_ns_us(both->begin), sc_ns_us(both->end - both->begin),
			alone_in(f, a, both),  alone_in(f, b, both)};

		SC_VEC_PUSH(&out->stretches, stretch);
	}
	for (int w = 0; w < N_SIDES; w++) {
		const struct side *s = &f->side[w];

		for (size_t i = 0; i < s->acts.n; i++) {
			const struct sc_beside *one = &s->acts.at[i];

			if (one->beside != SC_NONE && w == COMPUTE)
				SC_VEC_PUSH(&out->kernels, *one);
			else if (one->beside != SC_NONE)
				SC_VEC_PUSH(&out->collectives, *one);
		}
		if (s->busy.n) {
			begin = min_ns(begin, s->busy.at[0].begin);
			end = max_ns(end, s->busy.at[s->busy.n - 1].end);
		}
	}
	out->n_kernels += a->acts.n;
	out->n_collectives += b->acts.n;
	out->compute_us += total_us(a->busy.at, a->busy.n);
	out->comm_us += total_us(b->busy.at, b->busy.n);
	out->both_us += total_us(f->both.at, f->both.n);
	out->span_us += end > begin ? sc_ns_us(end - begin) : 0;
}

static void find_device(struct finder *f)
{
	take_side(f, COMPUTE);
	take_side(f, COMM);
	find_both_busy(f);
	for (int w = 0; w < N_SIDES; w++) {
		struct side *s = &f->side[w];

		for (size_t i = 0; i < s->acts.n; i++) {
			find_longest(f, &f->side[!w], &s->acts.at[i]);
			measure_overlap(f, &s->acts.at[i]);
		}
		find_alone(f, s);
	}
	put_device(f);
}

void sc_overlaps_find(const struct sc_trace_run *run, const struct sc_trace_rank *rank,
		      struct sc_overlaps *out)
{
	struct finder f = {.run = run, .rank = rank, .out = out};

	*out = (struct sc_overlaps){.n_kernels = 0};
	for (size_t i = 0; i < rank->streams.n; i++) {
		size_t first = 0; /* stream of its device */

		f.device = rank->streams.at[i].device;
		while (rank->streams.at[first].device != f.device)
			first++;
		if (first == i)
			find_device(&f);
	}
	for (int w = 0; w < N_SIDES; w++) {
		SC_VEC_RELEASE(&f.side[w].acts);
		SC_VEC_RELEASE(&f.side[w].last_end);
		SC_VEC_RELEASE(&f.side[w].busy);
		SC_VEC_RELEASE(&f.side[w].launches);
	}
	SC_VEC_RELEASE(&f.both);
}

void sc_overlaps_release(struct sc_overlaps *overlaps)
{
	SC_VEC_RELEASE(&overlaps->kernels);
	SC_VEC_RELEASE(&overlaps->collectives);
	SC_VEC_RELEASE(&overlaps->stretches);
}
