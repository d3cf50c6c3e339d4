/* Zero-bubble schedules of a loop (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024). By hand: ZB-H1
 * (§2.2) and ZB-H2 (§2.1 of the figures: both in figure 3). Automatic, within the memory of one or two 1F1B:
 * ZB-1p and ZB-2p, by the heuristic of §3.1 in the form of its repository (sail-sg/zero-bubble-pipeline-
 * parallelism, scheduler/zb.py), which takes the best of eight settings. */
#include <math.h>
#include <string.h>

#include "predict/schedule/schedule_priv.h"

enum { F, B, W, N_PARTS };

/* A stage as far as it is written. */
struct stage {
	uint32_t n[N_PARTS]; /* passes of each kind */
	double end, bubble, memory;
	double first; /* when its first pass began */
};
struct setting {
	bool bubble_before_first; /* a forward pass may delay the first backward */
	bool prefer_backward, fill_greedily;
};
struct search {
	const struct slot_writer *w;
	uint32_t p, m;
	double (*cost)[N_PARTS]; /* by stage */
	double memory[N_PARTS], send, limit;
	struct setting setting;
	struct stage *stage;
	double most_bubble; /* of a stage, so far */
	double *end[2];     /* of F and B: [stage * m + micro-batch] */
	uint8_t *order;     /* [stage * 3 m + i]: kinds */
	uint8_t *wanted;    /* by stage: a forward pass, in this round */
};

static double end_of(const struct search *s, int kind, uint32_t stage, uint32_t i)
{
	return s->end[kind][stage * s->m + i];
}

/* When the pass's input is there. */
static double ready_at(const struct search *s, int kind, uint32_t stage)
{
	uint32_t i = s->stage[stage].n[kind];

	if (kind == F && stage > 0)
		return end_of(s, F, stage - 1, i) + s->send;
	if (kind == B && stage + 1 < s->p)
		return end_of(s, B, stage + 1, i) + s->send;
	return 0;
}

static void put(struct search *s, uint32_t stage, int kind)
{
	struct stage *st = &s->stage[stage];
	uint32_t all = st->n[F] + st->n[B] + st->n[W];
	double ready = ready_at(s, kind, stage), begin = ready > st->end ? ready : st->end;

	if (kind != W)
		s->end[kind][stage * s->m + st->n[kind]] = begin + s->cost[stage][kind];
	if (all == 0)
		st->first = begin;
	else
		st->bubble += begin - st->end;
	if (st->bubble > s->most_bubble)
		s->most_bubble = st->bubble;
	st->end = begin + s->cost[stage][kind];
	st->memory += s->memory[kind];
	st->n[kind]++;
	s->order[stage * 3 * s->m + all] = (uint8_t)kind;
}

/* Weight gradients before a pass that would wait, or that memory has no room for. */
static void fill_before(struct search *s, uint32_t j, int kind)
{
	struct stage *st = &s->stage[j];
	double ready = ready_at(s, kind, j), wait;

	while (st->memory + s->memory[kind] > s->limit && st->n[W] < st->n[B])
		put(s, j, W);
	while (st->n[W] < st->n[B] && st->end + s->cost[j][W] <= ready)
		put(s, j, W);
	wait = ready - st->end;
	if (st->n[W] < st->n[B] && wait > 0 &&
	    (s->setting.fill_greedily || wait > s->most_bubble - st->bubble))
		put(s, j, W);
}

/* The first micro-batch forward on all stages; as many more as fit; its backward. */
static void warm_up(struct search *s, uint32_t *extra)
{
	double last;

	for (uint32_t j = 0; j < s->p; j++)
		put(s, j, F);
	last = s->stage[s->p - 1].end + s->cost[s->p - 1][B];
	extra[s->p - 1] = 0;
	for (uint32_t j = s->p - 1; j-- > 0;) {
		/* Forward passes that a stage takes before its first backward, which comes at `due`. */
		const double due = last + s->send;
		const struct stage *st = &s->stage[j];
		double memory = st->memory, end = st->end;
		uint32_t n = 0;

		while (st->n[F] + n < s->m && memory + s->memory[F] <= s->limit) {
			if (s->setting.bubble_before_first ? end + s->cost[j][F] > due : end >= due)
				break;
			memory += s->memory[F];
			end += s->cost[j][F];
			n++;
		}
		extra[j] = n;
		last = fmax(s->stage[j].end + extra[j] * s->cost[j][F], last + s->send) +
		       s->cost[j][B];
	}
	for (uint32_t j = 1; j < s->p; j++)
		if (extra[j] > 0 && extra[j] >= extra[j - 1] && s->stage[j].n[F] + extra[j] < s->m)
			extra[j] = extra[j - 1] > 0 ? extra[j - 1] - 1 : 0;
	for (uint32_t j = 0; j < s->p; j++)
		for (uint32_t k = 0; k < extra[j]; k++)
			put(s, j, F);
	for (uint32_t j = s->p; j-- > 0;)
		put(s, j, B);
}

/* The next stage is behind: would a forward pass here only make it wait longer for its gradients? */
static bool can_wait(const struct search *s, uint32_t j)
{
	const struct stage *st = &s->stage[j], *next = st + 1;
	double due = next->end + s->cost[j + 1][F] + s->cost[j + 1][B] + s->send;
	double memory = st->memory + s->memory[F], fill = 0;

	if (st->end >= due)
		return true;
	for (uint32_t w = st->n[W]; memory > s->limit && w < st->n[B]; w++) {
		fill += s->cost[j][W];
		memory += s->memory[W];
	}
	if (st->end + s->cost[j][F] + fill <= due)
		return false;
	return due - st->end <= s->most_bubble - st->bubble;
}

/* The longest stage; infinite where the setting leaves passes out. */
static double run(struct search *s, uint32_t *extra)
{
	double longest = 0;

	memset(s->stage, 0, s->p * sizeof(*s->stage));
	s->most_bubble = 0;
	warm_up(s, extra);
	for (uint32_t i = 1; i < s->m; i++) {
		/* One micro-batch more: forward where wanted, backward everywhere. */
		for (uint32_t j = 0; j < s->p; j++) {
			const struct stage *st = &s->stage[j];

			s->wanted[j] =
				st->n[F] < s->m && !(s->setting.prefer_backward && j + 1 < s->p &&
						     st->n[F] >= st[1].n[F] + 2 && can_wait(s, j));
		}
		/* a stage takes none that the next one leaves */
		for (uint32_t j = s->p - 1; j-- > 0;)
			s->wanted[j] = s->wanted[j] && s->wanted[j + 1];
		for (uint32_t j = 0; j < s->p; j++)
			if (s->wanted[j]) {
				fill_before(s, j, F);
				put(s, j, F);
			}
		for (uint32_t j = s->p; j-- > 0;) {
			struct stage *st = &s->stage[j];

			fill_before(s, j, B);
			while (j == 0 && st->n[F] == s->m && st->n[W] < st->n[B])
				put(s, j, W);
			put(s, j, B);
		}
	}
	for (uint32_t j = 0; j < s->p; j++) {
		if (s->stage[j].n[F] < s->m || s->stage[j].n[B] < s->m)
			return INFINITY;
		while (s->stage[j].n[W] < s->m)
			put(s, j, W);
		longest = fmax(longest, s->stage[j].end - s->stage[j].first);
	}
	return longest;
}

static void emit(const struct search *s)
{
	static const enum sc_pass_kind KIND[] = {SC_PASS_FORWARD, SC_PASS_BACKWARD_INPUT,
						 SC_PASS_BACKWARD_WEIGHT};

	for (uint32_t j = 0; j < s->p; j++) {
		uint32_t n[N_PARTS] = {0};

		for (uint32_t i = 0; i < 3 * s->m; i++) {
			int kind = s->order[j * 3 * s->m + i];

			put_slot(s->w, KIND[kind], (struct slot_id){j, 0, n[kind]++});
		}
	}
}

/* False where no order keeps within the memory. */
static bool write_automatic(const struct slot_writer *w, double memories)
{
	uint32_t p = w->map->pp, m = w->shape->micro_batches, *extra;
	uint8_t *best;
	const struct sc_pass_times *t = &w->times;
	size_t n = (size_t)p * m;
	double best_time = INFINITY;
	struct search s = {.w = w,
			   .p = p,
			   .m = m,
			   .memory = {1, t->kept - 1, -t->kept},
			   .send = t->send,
			   .limit = memories * p + 1e-9};

	s.stage = sc_arena_calloc(w->arena, p, sizeof(*s.stage));
	s.cost = sc_arena_calloc(w->arena, p, sizeof(*s.cost));
	for (uint32_t j = 0; j < p; j++) {
		const struct sc_pass_times *own =
			w->shape->stage_times ? &w->shape->stage_times[j] : t;

		s.cost[j][F] = own->forward;
		s.cost[j][B] = own->input;
		s.cost[j][W] = own->weight;
	}
	s.end[F] = sc_arena_calloc(w->arena, n, sizeof(double));
	s.end[B] = sc_arena_calloc(w->arena, n, sizeof(double));
	s.order = sc_arena_calloc(w->arena, 3 * n, 1);
	best = sc_arena_calloc(w->arena, 3 * n, 1);
	s.wanted = sc_arena_calloc(w->arena, p, 1);
	extra = sc_arena_calloc(w->arena, p, sizeof(*extra));
	for (uint32_t bits = 0; bits < 8; bits++) {
		double time;

		s.setting = (struct setting){bits & 1, bits & 2, bits & 4};
		time = run(&s, extra);
		if (time < best_time - 1e-9) {
			uint8_t *order = s.order;

			s.order = best;
			best = order;
			best_time = time;
		}
	}
	if (isinf(best_time))
		return false;
	s.order = best;
	emit(&s);
	return true;
}

/* By hand ZB-H1, of the warm-up of 1F1B and its memory, where the automatic ones find none, too; ZB-H2 of twice that. */
void write_zero_bubble(const struct slot_writer *w)
{
	const enum sc_schedule kind = w->shape->kind;
	const uint32_t times = kind == SC_SCHED_ZB_H2 ? 2 : 1;

	if ((kind == SC_SCHED_ZB_1P && write_automatic(w, 1)) ||
	    (kind == SC_SCHED_ZB_2P && write_automatic(w, 2)))
		return;
	for (uint32_t s = 0; s < w->map->pp; s++) {
		/* 1F1B after `warmup` passes, each weight gradient `lag` micro-batches later than its input's. */
		uint32_t m = w->shape->micro_batches, f = 0, b = 0, done = 0;

		while (f < m && f < times * (w->map->pp - 1 - s))
			put_slot(w, SC_PASS_FORWARD, (struct slot_id){s, 0, f++});
		while (b < m) {
			if (f < m)
				put_slot(w, SC_PASS_FORWARD, (struct slot_id){s, 0, f++});
			put_slot(w, SC_PASS_BACKWARD_INPUT, (struct slot_id){s, 0, b++});
			if (b > times * s)
				put_slot(w, SC_PASS_BACKWARD_WEIGHT,
					 (struct slot_id){s, 0, done++});
		}
		while (done < m)
			put_slot(w, SC_PASS_BACKWARD_WEIGHT, (struct slot_id){s, 0, done++});
	}
}
