/* Zero-bubble schedules (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024). ZB-H1 and ZB-H2
 * (figure 3) are loops by hand; ZB-1p and ZB-2p are loops for the times at hand, within the memory
 * of one or two 1F1B, by the heuristic of §3.1; ZB-V (§6) is a V, so that a stage has its first and
 * its last chunk and the memory of 1F1B is enough for no bubble. The searches are those of the
 * authors' repository (sail-sg/zero-bubble-pipeline-parallelism, scheduler/zb.py and zbv.py): each
 * takes the best of some settings. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "predict/schedule/schedule_priv.h"

/* A micro-batch passes a stage of a V four times: forward down and up, backward down and up again;
 * and one of a loop twice, down and up. */
enum { DOWN_F, UP_F, DOWN_B, UP_B, N_LEGS, WEIGHT = N_LEGS };
enum { F, B, W, N_PARTS };

#define CLOSE 1e-9 /* values closer than this are the same */

/* A stage as far as it is written; what stands from `cost` on is the same for all settings. */
struct stage {
	uint32_t n[N_LEGS], n_weights, n_passes;
	double end, bubble, memory;
	double first;   /* the begin of its first pass */
	uint8_t *order; /* by pass: its leg, or WEIGHT of the oldest without */
	double cost[N_PARTS];
	double *ends[N_LEGS]; /* by micro-batch, of the `n` */
};
/* The settings of a loop, whose first lets a forward pass delay the first backward; and of a V. */
enum { BUBBLE_BEFORE_FIRST = 1, PREFER_BACKWARD = 2, FILL_GREEDILY = 4, ALL_OF_LOOP = 7 };
enum { FILL_FORWARD = 1, FILL_BACKWARD = 2, ALL_OF_V = 3 };

struct search {
	const struct slot_writer *w;
	uint32_t p, m, stride;
	double memory[N_PARTS], send, limit;
	uint32_t settings;
	/* By settings, those of them that decided something in that run. A run that differs from it
	 * in others alone is the same. */
	uint32_t decisive[ALL_OF_LOOP + 1];
	struct stage *stage;
	double most_bubble; /* the largest of a stage, so far */
	uint8_t *order;     /* [stage * stride + pass] */
	uint8_t *best_order;
	double best;
	uint8_t *wanted; /* by stage: a forward pass in this round; in a V, backward goes up */
	/* A V's bubbles in the run before, by stage, and the largest of them; negative: none. */
	double *approved, most_approved;
};

static uint32_t n_backward(const struct stage *st)
{
	return st->n[DOWN_B] + st->n[UP_B];
}

/* Returns when the next pass of a leg has its neighbour's input: 0 at the begin, < 0: not yet. */
static inline double ready_at(const struct search *s, int leg, const struct stage *st)
{
	const struct stage *from;

	if (st == (leg % 2 ? s->stage + s->p - 1 : s->stage))
		return 0;
	from = leg % 2 ? st + 1 : st - 1;
	return st->n[leg] < from->n[leg] ? from->ends[leg][st->n[leg]] + s->send : -1;
}

/* Puts a pass that has its input at `ready`, if a micro-batch is left for it. */
static inline void put_ready(struct search *s, int leg, struct stage *st, double ready)
{
	const double begin = ready > st->end ? ready : st->end;

	if (st->n[leg] >= s->m)
		return;
	if (st->n_passes == 0)
		st->first = begin;
	else
		st->bubble += begin - st->end;
	s->most_bubble = st->bubble > s->most_bubble ? st->bubble : s->most_bubble;
	st->order[st->n_passes++] = (uint8_t)leg;
	st->end = begin + st->cost[leg / 2];
	st->memory += s->memory[leg / 2];
	st->ends[leg][st->n[leg]++] = st->end;
}

static void put(struct search *s, int leg, uint32_t stage)
{
	struct stage *st = &s->stage[stage];

	put_ready(s, leg, st, ready_at(s, leg, st));
}

static inline void put_weight(const struct search *s, struct stage *st)
{
	st->order[st->n_passes++] = WEIGHT;
	st->end += st->cost[W];
	st->memory += s->memory[W];
	st->n_weights++;
}

static void put_rest(const struct search *s, struct stage *st)
{
	while (st->n_weights < n_backward(st))
		put_weight(s, st);
}

/* Puts a pass, and weight gradients before it where it would wait, or memory has no room for it;
 * one more where it waits longer than `slack`: [1] with the setting, [0] without. Where layers are
 * run again a backward pass leaves more than its forward pass did: one may, as in 1F1B, which makes
 * its weight gradients at once. */
static inline void put_filled(struct search *s, int leg, struct stage *st, const double slack[2],
			      uint32_t setting)
{
	const uint32_t n_weights = n_backward(st);
	const double ready = ready_at(s, leg, st);
	const double more = leg / 2 == F ? s->memory[F] : s->memory[B] < 0 ? s->memory[B] : 0;

	while (st->memory + more > s->limit && st->n_weights < n_weights)
		put_weight(s, st);
	while (st->n_weights < n_weights && ready >= st->end + st->cost[W])
		put_weight(s, st);
	if (st->n_weights < n_weights) {
		const bool fills[] = {ready - st->end > slack[0], ready - st->end > slack[1]};

		if (fills[0] != fills[1])
			s->decisive[s->settings] |= setting;
		if (fills[(s->settings & setting) > 0])
			put_weight(s, st);
	}
	put_ready(s, leg, st, ready);
}

static void begin_run(struct search *s)
{
	for (uint32_t j = 0; j < s->p; j++) {
		struct stage *st = &s->stage[j];

		memset(st, 0, offsetof(struct stage, cost));
		st->order = s->order + (size_t)j * s->stride;
	}
	s->most_bubble = 0;
}

/* Says whether a run before was the same as one with these settings is; if not, sets them. */
static bool search_repeats(struct search *s, uint32_t settings)
{
	for (uint32_t before = 0; before < settings; before++)
		if (!((before ^ settings) & s->decisive[before])) {
			s->decisive[settings] = UINT32_MAX;
			return true;
		}
	s->settings = settings;
	s->decisive[settings] = 0;
	return false;
}

static void keep_better(struct search *s, double value)
{
	uint8_t *order = s->order;

	if (value < s->best - CLOSE) {
		s->order = s->best_order;
		s->best_order = order;
		s->best = value;
	}
}

/* Begins a search within so many memories of 1F1B. */
static void search_init(struct search *s, const struct slot_writer *w, double memories)
{
	const struct sc_pass_times *t = &w->times;
	const uint32_t p = w->map->pp, m = w->shape->micro_batches;
	double *ends;

	*s = (struct search){.w = w,
			     .p = p,
			     .m = m,
			     .stride = N_PARTS * m * w->map->n_chunks,
			     .memory = {1, t->kept - 1, -t->kept},
			     .send = t->send,
			     .limit = memories * p + CLOSE,
			     .best = INFINITY};
	s->stage = sc_arena_calloc(w->arena, p, sizeof(*s->stage));
	ends = sc_arena_alloc(w->arena, (size_t)N_LEGS * p * m * sizeof(double));
	for (uint32_t j = 0; j < p; j++) {
		const struct sc_pass_times *own = w->shape->stage_times && w->map->n_chunks == 1
							  ? &w->shape->stage_times[j]
							  : t;

		s->stage[j].cost[F] = own->forward;
		s->stage[j].cost[B] = own->input;
		s->stage[j].cost[W] = own->weight;
		for (int leg = 0; leg < N_LEGS; leg++, ends += m)
			s->stage[j].ends[leg] = ends;
	}
	s->order = sc_arena_calloc(w->arena, (size_t)p * s->stride, 1);
	s->best_order = sc_arena_calloc(w->arena, (size_t)p * s->stride, 1);
	s->wanted = sc_arena_calloc(w->arena, p, 1);
}

static void put_best_order(const struct search *s)
{
	for (uint32_t j = 0; j < s->p; j++) {
		const uint8_t *order = s->best_order + (size_t)j * s->stride;
		uint32_t n[N_PARTS][2] = {{0}},
			 next = 0; /* the backward pass whose weights come next */

		for (uint32_t i = 0; i < s->stride; i++) {
			static const enum sc_pass_kind KIND[] = {
				SC_PASS_FORWARD, SC_PASS_BACKWARD_INPUT, SC_PASS_BACKWARD_WEIGHT};
			uint32_t leg = order[i], chunk;

			if (order[i] == WEIGHT) {
				while (order[next] / 2 != B)
					next++;
				leg = order[next++];
			}
			chunk = leg == UP_F || leg == DOWN_B;
			put_slot(s->w, KIND[order[i] / 2],
				 (struct slot_id){j, chunk, n[order[i] / 2][chunk]++});
		}
	}
}

/* ---- a loop ---- */

/* Finds how many forward passes more each stage takes before its first backward, at `due`. */
static void find_extra(const struct search *s, bool bubble_before_first, uint32_t *extra)
{
	double last = s->stage[s->p - 1].end + s->stage[s->p - 1].cost[B];

	extra[s->p - 1] = 0;
	for (uint32_t j = s->p - 1; j-- > 0;) {
		const double due = last + s->send;
		const struct stage *st = &s->stage[j];
		double memory = st->memory, end = st->end;
		uint32_t n = 0;

		while (st->n[DOWN_F] + n < s->m && memory + s->memory[F] <= s->limit) {
			if (bubble_before_first ? end + st->cost[F] > due : end >= due)
				break;
			memory += s->memory[F];
			end += st->cost[F];
			n++;
		}
		extra[j] = n;
		last = fmax(st->end + extra[j] * st->cost[F], last + s->send) + st->cost[B];
	}
	for (uint32_t j = 1; j < s->p; j++)
		if (extra[j] > 0 && extra[j] >= extra[j - 1] &&
		    s->stage[j].n[DOWN_F] + extra[j] < s->m)
			extra[j] = extra[j - 1] > 0 ? extra[j - 1] - 1 : 0;
}

/* Puts the first micro-batch forward on all stages; as many more as fit; and its backward. */
static void put_warm_up(struct search *s, uint32_t *extra)
{
	for (uint32_t j = 0; j < s->p; j++)
		put(s, DOWN_F, j);
	find_extra(s, !(s->settings & BUBBLE_BEFORE_FIRST), extra + s->p);
	find_extra(s, s->settings & BUBBLE_BEFORE_FIRST, extra);
	if (memcmp(extra, extra + s->p, s->p * sizeof(*extra)) != 0)
		s->decisive[s->settings] |= BUBBLE_BEFORE_FIRST;
	for (uint32_t j = 0; j < s->p; j++)
		for (uint32_t k = 0; k < extra[j]; k++)
			put(s, DOWN_F, j);
	for (uint32_t j = s->p; j-- > 0;)
		put(s, UP_B, j);
}

/* Says, where the next stage is behind, whether a forward pass here would only wait there. */
static bool can_wait(const struct search *s, uint32_t j)
{
	const struct stage *st = &s->stage[j], *next = st + 1;
	double due = next->end + next->cost[F] + next->cost[B] + s->send;
	double memory = st->memory + s->memory[F], fill = 0;

	if (st->end >= due)
		return true;
	for (uint32_t w = st->n_weights; memory > s->limit && w < n_backward(st); w++) {
		fill += st->cost[W];
		memory += s->memory[W];
	}
	if (st->end + st->cost[F] + fill <= due)
		return false;
	return due - st->end <= s->most_bubble - st->bubble;
}

static void put_filled_loop(struct search *s, int leg, struct stage *st)
{
	put_filled(s, leg, st, (const double[]){s->most_bubble - st->bubble, 0}, FILL_GREEDILY);
}

/* Runs one setting; returns the longest stage, infinite where the setting leaves passes out. */
static double run_loop(struct search *s, uint32_t *extra)
{
	double longest = 0;

	begin_run(s);
	put_warm_up(s, extra);
	for (uint32_t i = 1; i < s->m; i++) {
		/* Each round is one micro-batch more: forward where wanted, backward everywhere. */
		for (uint32_t j = 0; j < s->p; j++) {
			const struct stage *st = &s->stage[j];
			const bool waits = st->n[DOWN_F] < s->m && j + 1 < s->p &&
					   st->n[DOWN_F] >= st[1].n[DOWN_F] + 2 && can_wait(s, j);

			if (waits)
				s->decisive[s->settings] |= PREFER_BACKWARD;
			s->wanted[j] =
				st->n[DOWN_F] < s->m && !(waits && s->settings & PREFER_BACKWARD);
		}
		/* A stage takes none that the next one leaves. */
		for (uint32_t j = s->p - 1; j-- > 0;)
			s->wanted[j] = s->wanted[j] && s->wanted[j + 1];
		for (uint32_t j = 0; j < s->p; j++)
			if (s->wanted[j])
				put_filled_loop(s, DOWN_F, &s->stage[j]);
		for (uint32_t j = s->p; j-- > 0;) {
			if (j == 0 && s->stage[j].n[DOWN_F] == s->m)
				put_rest(s, &s->stage[j]);
			put_filled_loop(s, UP_B, &s->stage[j]);
		}
	}
	for (uint32_t j = 0; j < s->p; j++) {
		if (s->stage[j].n[DOWN_F] < s->m || s->stage[j].n[UP_B] < s->m)
			return INFINITY;
		put_rest(s, &s->stage[j]);
		longest = fmax(longest, s->stage[j].end - s->stage[j].first);
	}
	return longest;
}

/* Writes the best order; returns false where none keeps within the memory. */
static bool write_automatic(const struct slot_writer *w, double memories)
{
	uint32_t *extra = sc_arena_calloc(w->arena, 2 * (size_t)w->map->pp, sizeof(*extra));
	struct search s;

	search_init(&s, w, memories);
	for (uint32_t settings = 0; settings <= ALL_OF_LOOP; settings++)
		if (!search_repeats(&s, settings))
			keep_better(&s, run_loop(&s, extra));
	if (isfinite(s.best))
		put_best_order(&s);
	return isfinite(s.best);
}

/* Writes ZB-H1 by hand, also where the search finds no order; and ZB-H2 with twice its memory. */
void write_zero_bubble(const struct slot_writer *w)
{
	const enum sc_schedule kind = w->shape->kind;
	const uint32_t times = kind == SC_SCHED_ZB_H2 ? 2 : 1;

	if ((kind == SC_SCHED_ZB_1P && write_automatic(w, 1)) ||
	    (kind == SC_SCHED_ZB_2P && write_automatic(w, 2)))
		return;
	for (uint32_t s = 0; s < w->map->pp; s++) {
		/* It is 1F1B after a longer warm-up, weight gradients some micro-batches later. */
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

/* ---- a V ---- */

static void warm_up_v(struct search *s)
{
	int leg = DOWN_F;

	for (uint32_t j = 0; j < s->p; j++)
		put(s, DOWN_F, j);
	for (uint32_t j = s->p; j-- > 0;) {
		const struct stage *st = &s->stage[j];

		while (j + 1 < s->p && st->memory + s->memory[F] * (2 + 2.0 * j) <= s->limit &&
		       st->end + st->cost[F] <= ready_at(s, UP_F, st) && st->n[DOWN_F] < s->m)
			for (uint32_t k = 0; k <= j; k++)
				put(s, DOWN_F, k);
		put(s, UP_F, j);
	}
	for (uint32_t j = 1; j < s->p; j++) {
		const struct stage *st = &s->stage[j], *before = st - 1;

		while (st->n[DOWN_F] + st->n[UP_F] < before->n[DOWN_F] + before->n[UP_F] ||
		       (st->n[UP_F] <= before->n[UP_F] && before->n[UP_F] < s->m)) {
			for (uint32_t k = s->p; k-- > j;)
				put(s, leg, k);
			leg = DOWN_F + UP_F - leg;
		}
	}
}

static void put_filled_v(struct search *s, int leg, uint32_t j, uint32_t setting)
{
	const double approved = s->most_approved - s->approved[j];
	const double slack =
		(approved > s->most_bubble ? approved : s->most_bubble) - s->stage[j].bubble;

	put_filled(s, leg, &s->stage[j],
		   (const double[]){setting ? (double)INFINITY : slack, slack}, setting);
}

/* Runs one setting; returns the largest bubble of a stage. */
static double run_v(struct search *s)
{
	begin_run(s);
	warm_up_v(s);
	for (uint32_t i = 0; i < 2 * s->m; i++) {
		/* Backward goes up if the stage below is done or all else is, else down. */
		for (uint32_t j = 0; j < s->p; j++) {
			const struct stage *st = &s->stage[j];

			s->wanted[j] = st->n[UP_B] < st->n[DOWN_B] &&
				       (j + 1 == s->p || ready_at(s, UP_B, st) >= 0 ||
					st->n[DOWN_B] >= s->m);
		}
		for (uint32_t j = s->p; j-- > 0;)
			if (s->wanted[j])
				put_filled_v(s, UP_B, j, 0);
		for (uint32_t j = 0; j < s->p; j++)
			if (!s->wanted[j])
				put_filled_v(s, DOWN_B, j, FILL_BACKWARD);
		for (uint32_t j = 0; j < s->p; j++) {
			const struct stage *st = &s->stage[j];
			int leg = DOWN_F;

			if (st->n[UP_F] >= s->m)
				continue;
			if (st->n[UP_F] < st->n[DOWN_F] && ready_at(s, UP_F, st) >= 0)
				leg = UP_F;
			else if (st->n[DOWN_F] >= s->m || ready_at(s, DOWN_F, st) < 0)
				continue;
			put_filled_v(s, leg, j, FILL_FORWARD);
		}
	}
	for (uint32_t j = 0; j < s->p; j++)
		put_rest(s, &s->stage[j]);
	return s->most_bubble;
}

void write_zb_v(const struct slot_writer *w)
{
	struct search s;

	search_init(&s, w, 2);
	s.approved = sc_arena_calloc(w->arena, s.p, sizeof(double));
	for (uint32_t settings = 0; settings <= ALL_OF_V; settings++) {
		/* A run is repeated with what the last left stages to waste, while that helps. */
		double bubble, before = INFINITY;

		if (search_repeats(&s, settings))
			continue;
		for (uint32_t j = 0; j < s.p; j++)
			s.approved[j] = -1;
		s.most_approved = -1;
		while ((bubble = run_v(&s)) < before - CLOSE) {
			keep_better(&s, bubble);
			before = bubble;
			for (uint32_t j = 0; j < s.p; j++)
				s.approved[j] = s.stage[j].bubble;
			s.most_approved = s.most_bubble;
		}
	}
	put_best_order(&s);
}
