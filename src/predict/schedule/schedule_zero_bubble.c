/* Zero-bubble schedules (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024). ZB-H1 and ZB-H2
 * (figure 3) are loops by hand; ZB-1p and ZB-2p are loops for the times at hand, within the memory
 * of one or two 1F1B, by the heuristic of §3.1; ZB-V (§6) is a V, so that a stage has its first and
 * its last chunk and the memory of 1F1B is enough for no bubble. The searches are those of the
 * authors' repository (sail-sg/zero-bubble-pipeline-parallelism, scheduler/zb.py and zbv.py): each
 * takes the best of some settings. */
#include <math.h>
#include <string.h>

#include "predict/schedule/schedule_priv.h"

/* A micro-batch passes a stage of a V four times: forward down and up, backward down and up again;
 * and one of a loop twice, down and up. */
enum { DOWN_F, UP_F, DOWN_B, UP_B, N_LEGS, WEIGHT = N_LEGS };
enum { F, B, W, N_PARTS };

/* A stage as far as it is written. */
struct stage {
	uint32_t n[N_LEGS], n_weights;
	double end, bubble, memory;
	double first; /* the begin of its first pass */
};
struct search {
	const struct slot_writer *w;
	uint32_t p, m, stride;
	double (*cost)[N_PARTS]; /* by stage */
	double memory[N_PARTS], send, limit;
	/* A loop's settings; the first lets a forward pass delay the first backward. */
	bool bubble_before_first, prefer_backward, fill_greedily;
	bool fill_forward, fill_backward; /* a V's settings */
	struct stage *stage;
	double most_bubble; /* the largest of a stage, so far */
	double *end;        /* [leg][stage * m + micro-batch]; negative: not yet */
	uint8_t *order;     /* [stage * stride + i]: leg, or WEIGHT of the oldest without */
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

/* Returns when the next pass of a leg has its input from the neighbour: 0 where the leg begins,
 * negative: not yet. */
static double ready_at(const struct search *s, int leg, uint32_t stage)
{
	const bool up = leg % 2;
	uint32_t i = s->stage[stage].n[leg];
	double end;

	if (stage == (up ? s->p - 1 : 0))
		return 0;
	if (i >= s->m)
		return -1;
	end = s->end[((size_t)leg * s->p + (up ? stage + 1 : stage - 1)) * s->m + i];
	return end < 0 ? -1 : end + s->send;
}

static void put(struct search *s, int leg, uint32_t stage)
{
	struct stage *st = &s->stage[stage];
	const int part = leg / 2;
	uint32_t all = st->n[DOWN_F] + st->n[UP_F] + n_backward(st) + st->n_weights;
	double begin = st->end;

	if (leg != WEIGHT && st->n[leg] >= s->m)
		return;
	if (leg != WEIGHT)
		begin = fmax(begin, ready_at(s, leg, stage));
	if (all == 0)
		st->first = begin;
	else
		st->bubble += begin - st->end;
	s->most_bubble = fmax(s->most_bubble, st->bubble);
	s->order[(size_t)stage * s->stride + all] = (uint8_t)leg;
	st->end = begin + s->cost[stage][part];
	st->memory += s->memory[part];
	if (leg == WEIGHT)
		st->n_weights++;
	else
		s->end[((size_t)leg * s->p + stage) * s->m + st->n[leg]++] = st->end;
}

/* Puts weight gradients before a pass that would wait, or that memory has no room for; one more
 * where it waits longer than `slack`. Where layers are run again a backward pass leaves more than
 * its forward pass did: one may, as in 1F1B, which makes its weight gradients at once. */
static void fill_before(struct search *s, int leg, uint32_t stage, double slack)
{
	struct stage *st = &s->stage[stage];
	double ready = ready_at(s, leg, stage);
	double more = leg / 2 == F ? s->memory[F] : fmin(s->memory[B], 0);

	while (st->memory + more > s->limit && st->n_weights < n_backward(st))
		put(s, WEIGHT, stage);
	while (st->n_weights < n_backward(st) && ready >= st->end + s->cost[stage][W])
		put(s, WEIGHT, stage);
	if (st->n_weights < n_backward(st) && ready - st->end > slack)
		put(s, WEIGHT, stage);
}

static void begin_run(struct search *s)
{
	memset(s->stage, 0, s->p * sizeof(*s->stage));
	s->most_bubble = 0;
	for (size_t i = 0; i < (size_t)N_LEGS * s->p * s->m; i++)
		s->end[i] = -1;
}

static void put_rest(struct search *s, uint32_t stage)
{
	while (s->stage[stage].n_weights < n_backward(&s->stage[stage]))
		put(s, WEIGHT, stage);
}

static void keep_better(struct search *s, double value)
{
	uint8_t *order = s->order;

	if (value < s->best - 1e-9) {
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

	*s = (struct search){.w = w,
			     .p = p,
			     .m = m,
			     .stride = N_PARTS * m * w->map->n_chunks,
			     .memory = {1, t->kept - 1, -t->kept},
			     .send = t->send,
			     .limit = memories * p + 1e-9,
			     .best = INFINITY};
	s->stage = sc_arena_calloc(w->arena, p, sizeof(*s->stage));
	s->cost = sc_arena_calloc(w->arena, p, sizeof(*s->cost));
	for (uint32_t j = 0; j < p; j++) {
		const struct sc_pass_times *own = w->shape->stage_times && w->map->n_chunks == 1
							  ? &w->shape->stage_times[j]
							  : t;

		s->cost[j][F] = own->forward;
		s->cost[j][B] = own->input;
		s->cost[j][W] = own->weight;
	}
	s->end = sc_arena_alloc(w->arena, (size_t)N_LEGS * p * m * sizeof(double));
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

/* Puts the first micro-batch forward on all stages; as many more as fit; and its backward. */
static void warm_up_loop(struct search *s, uint32_t *extra)
{
	double last;

	for (uint32_t j = 0; j < s->p; j++)
		put(s, DOWN_F, j);
	last = s->stage[s->p - 1].end + s->cost[s->p - 1][B];
	extra[s->p - 1] = 0;
	for (uint32_t j = s->p - 1; j-- > 0;) {
		/* A stage takes so many forward passes more before its first backward, which comes
		 * at `due`. */
		const double due = last + s->send;
		const struct stage *st = &s->stage[j];
		double memory = st->memory, end = st->end;
		uint32_t n = 0;

		while (st->n[DOWN_F] + n < s->m && memory + s->memory[F] <= s->limit) {
			if (s->bubble_before_first ? end + s->cost[j][F] > due : end >= due)
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
		if (extra[j] > 0 && extra[j] >= extra[j - 1] &&
		    s->stage[j].n[DOWN_F] + extra[j] < s->m)
			extra[j] = extra[j - 1] > 0 ? extra[j - 1] - 1 : 0;
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
	double due = next->end + s->cost[j + 1][F] + s->cost[j + 1][B] + s->send;
	double memory = st->memory + s->memory[F], fill = 0;

	if (st->end >= due)
		return true;
	for (uint32_t w = st->n_weights; memory > s->limit && w < n_backward(st); w++) {
		fill += s->cost[j][W];
		memory += s->memory[W];
	}
	if (st->end + s->cost[j][F] + fill <= due)
		return false;
	return due - st->end <= s->most_bubble - st->bubble;
}

static double slack(const struct search *s, uint32_t j)
{
	return s->fill_greedily ? 0 : s->most_bubble - s->stage[j].bubble;
}

/* Runs one setting; returns the longest stage, infinite where the setting leaves passes out. */
static double run_loop(struct search *s, uint32_t *extra)
{
	double longest = 0;

	begin_run(s);
	warm_up_loop(s, extra);
	for (uint32_t i = 1; i < s->m; i++) {
		/* Each round is one micro-batch more: forward where wanted, backward everywhere. */
		for (uint32_t j = 0; j < s->p; j++) {
			const struct stage *st = &s->stage[j];

			s->wanted[j] = st->n[DOWN_F] < s->m &&
				       !(s->prefer_backward && j + 1 < s->p &&
					 st->n[DOWN_F] >= st[1].n[DOWN_F] + 2 && can_wait(s, j));
		}
		/* A stage takes none that the next one leaves. */
		for (uint32_t j = s->p - 1; j-- > 0;)
			s->wanted[j] = s->wanted[j] && s->wanted[j + 1];
		for (uint32_t j = 0; j < s->p; j++)
			if (s->wanted[j]) {
				fill_before(s, DOWN_F, j, slack(s, j));
				put(s, DOWN_F, j);
			}
		for (uint32_t j = s->p; j-- > 0;) {
			fill_before(s, UP_B, j, slack(s, j));
			if (j == 0 && s->stage[j].n[DOWN_F] == s->m)
				put_rest(s, j);
			put(s, UP_B, j);
		}
	}
	for (uint32_t j = 0; j < s->p; j++) {
		if (s->stage[j].n[DOWN_F] < s->m || s->stage[j].n[UP_B] < s->m)
			return INFINITY;
		put_rest(s, j);
		longest = fmax(longest, s->stage[j].end - s->stage[j].first);
	}
	return longest;
}

/* Writes the best order; returns false where none keeps within the memory. */
static bool write_automatic(const struct slot_writer *w, double memories)
{
	uint32_t *extra = sc_arena_calloc(w->arena, w->map->pp, sizeof(*extra));
	struct search s;

	search_init(&s, w, memories);
	for (uint32_t bits = 0; bits < 8; bits++) {
		s.bubble_before_first = bits & 1;
		s.prefer_backward = bits & 2;
		s.fill_greedily = bits & 4;
		keep_better(&s, run_loop(&s, extra));
	}
	if (isfinite(s.best))
		put_best_order(&s);
	return isfinite(s.best);
}

/* Writes ZB-H1 by hand, also where the automatic search finds no order; and ZB-H2 with twice its
 * memory. */
void write_zero_bubble(const struct slot_writer *w)
{
	const enum sc_schedule kind = w->shape->kind;
	const uint32_t times = kind == SC_SCHED_ZB_H2 ? 2 : 1;

	if ((kind == SC_SCHED_ZB_1P && write_automatic(w, 1)) ||
	    (kind == SC_SCHED_ZB_2P && write_automatic(w, 2)))
		return;
	for (uint32_t s = 0; s < w->map->pp; s++) {
		/* It is 1F1B after a longer warm-up, with weight gradients some micro-batches
		 * later. */
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
		       st->end + s->cost[j][F] <= ready_at(s, UP_F, j) && st->n[DOWN_F] < s->m)
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

static void put_filled(struct search *s, int leg, uint32_t j, bool greedily)
{
	double most = fmax(s->most_approved - s->approved[j], s->most_bubble);

	fill_before(s, leg, j, greedily ? most - s->stage[j].bubble : (double)INFINITY);
	put(s, leg, j);
}

/* Runs one setting; returns the largest bubble of a stage. */
static double run_v(struct search *s)
{
	begin_run(s);
	warm_up_v(s);
	for (uint32_t i = 0; i < 2 * s->m; i++) {
		/* Backward goes up where the stage below is done or nothing else is left, else
		 * down. */
		for (uint32_t j = 0; j < s->p; j++) {
			const struct stage *st = &s->stage[j];

			s->wanted[j] = st->n[UP_B] < st->n[DOWN_B] &&
				       (j + 1 == s->p || ready_at(s, UP_B, j) >= 0 ||
					st->n[DOWN_B] >= s->m);
		}
		for (uint32_t j = s->p; j-- > 0;)
			if (s->wanted[j])
				put_filled(s, UP_B, j, true);
		for (uint32_t j = 0; j < s->p; j++)
			if (!s->wanted[j])
				put_filled(s, DOWN_B, j, s->fill_backward);
		for (uint32_t j = 0; j < s->p; j++) {
			const struct stage *st = &s->stage[j];
			int leg = DOWN_F;

			if (st->n[UP_F] >= s->m)
				continue;
			if (st->n[UP_F] < st->n[DOWN_F] && ready_at(s, UP_F, j) >= 0)
				leg = UP_F;
			else if (st->n[DOWN_F] >= s->m || ready_at(s, DOWN_F, j) < 0)
				continue;
			put_filled(s, leg, j, s->fill_forward);
		}
	}
	for (uint32_t j = 0; j < s->p; j++)
		put_rest(s, j);
	return s->most_bubble;
}

void write_zb_v(const struct slot_writer *w)
{
	struct search s;

	search_init(&s, w, 2);
	s.approved = sc_arena_calloc(w->arena, s.p, sizeof(double));
	for (int bits = 0; bits < 4; bits++) {
		/* A run is repeated with what the run before left each stage to waste, as long as
		 * that helps. */
		double bubble, before = INFINITY;

		s.fill_forward = bits & 1;
		s.fill_backward = bits & 2;
		for (uint32_t j = 0; j < s.p; j++)
			s.approved[j] = -1;
		s.most_approved = -1;
		while ((bubble = run_v(&s)) < before - 1e-9) {
			keep_better(&s, bubble);
			before = bubble;
			for (uint32_t j = 0; j < s.p; j++)
				s.approved[j] = s.stage[j].bubble;
			s.most_approved = s.most_bubble;
		}
	}
	put_best_order(&s);
}
