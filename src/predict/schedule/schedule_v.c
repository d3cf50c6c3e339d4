/* ZB-V (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, §6): a model folded into a V, so that a stage
 * has its first and its last chunk and the memory of 1F1B is enough for no bubble. By the greedy search of its
 * repository (sail-sg/zero-bubble-pipeline-parallelism, scheduler/zbv.py), for the times at hand. */
#include <math.h>
#include <string.h>

#include "predict/schedule/schedule_priv.h"

/* A micro-batch comes past a stage four times: forward down and up, backward down and up again. */
enum { DOWN_F, UP_F, DOWN_B, UP_B, N_LEGS };

struct stage {
	uint32_t n[N_LEGS];
	double end, bubble, memory;
	uint32_t *later, n_later, n_done; /* weight gradients to come: chunk, oldest first */
	uint32_t n_weight[2];
};
struct search {
	const struct slot_writer *w;
	uint32_t p, m;
	double cost[3], memory[3], send, limit;
	bool fill_forward, fill_backward;
	struct stage *stage;
	double *end;                       /* [leg][stage * m + micro-batch]; negative: not yet */
	double *approved;                  /* bubbles of the run before, by stage; negative: none */
	double most_approved, most_bubble; /* of a stage; the second so far */
	uint8_t *order; /* [stage * 6 m + i]: leg, or N_LEGS + chunk of a weight gradient */
};

static bool goes_up(int leg)
{
	return leg % 2;
}

/* When the next pass of a leg has its input from the neighbour: 0 at the fold's ends, negative: not yet. */
static double ready_at(const struct search *s, int leg, uint32_t stage)
{
	uint32_t i = s->stage[stage].n[leg];
	uint32_t last = goes_up(leg) ? s->p - 1 : 0;
	double end;

	if (stage == last)
		return 0;
	if (i >= s->m)
		return -1;
	end = s->end[((size_t)leg * s->p + (goes_up(leg) ? stage + 1 : stage - 1)) * s->m + i];
	return end < 0 ? -1 : end + s->send;
}

static double most_bubble(const struct search *s, uint32_t stage)
{
	double approved = s->most_approved - s->approved[stage];

	return approved > s->most_bubble ? approved : s->most_bubble;
}

static void record(struct search *s, uint32_t stage, uint32_t what)
{
	struct stage *st = &s->stage[stage];
	uint32_t at = st->n_weight[0] + st->n_weight[1];

	for (int leg = 0; leg < N_LEGS; leg++)
		at += st->n[leg];
	s->order[(size_t)stage * 6 * s->m + at] = (uint8_t)what;
}

static void put(struct search *s, int leg, uint32_t stage)
{
	struct stage *st = &s->stage[stage];
	int kind = leg / 2;
	uint32_t i = st->n[leg];
	double begin, ready;

	if (i >= s->m)
		return;
	ready = ready_at(s, leg, stage);
	begin = ready > st->end ? ready : st->end;
	if (st->n[DOWN_F] > 0)
		st->bubble += begin - st->end;
	if (st->bubble > s->most_bubble)
		s->most_bubble = st->bubble;
	record(s, stage, (uint32_t)leg);
	st->end = s->end[((size_t)leg * s->p + stage) * s->m + i] = begin + s->cost[kind];
	st->memory += s->memory[kind];
	st->n[leg]++;
	if (kind == 1) /* down again: through the last chunk */
		st->later[st->n_later++] = leg == DOWN_B;
}

static bool put_weight(struct search *s, uint32_t stage)
{
	struct stage *st = &s->stage[stage];
	uint32_t chunk;

	if (st->n_done == st->n_later)
		return false;
	chunk = st->later[st->n_done++];
	record(s, stage, N_LEGS + chunk);
	st->n_weight[chunk]++;
	st->end += s->cost[2];
	st->memory += s->memory[2];
	return true;
}

/* Weight gradients where a pass has to wait. */
static void fill_before(struct search *s, int leg, uint32_t stage, bool greedily)
{
	struct stage *st = &s->stage[stage];
	double ready = ready_at(s, leg, stage);

	while (st->memory + s->memory[leg / 2] > s->limit && put_weight(s, stage))
		;
	while (st->n_done < st->n_later && ready >= st->end + s->cost[2])
		put_weight(s, stage);
	if (greedily && ready - st->end > most_bubble(s, stage) - st->bubble)
		put_weight(s, stage);
}

static void warm_up(struct search *s)
{
	uint32_t leg = DOWN_F;

	for (uint32_t j = 0; j < s->p; j++)
		put(s, DOWN_F, j);
	for (uint32_t j = s->p; j-- > 0;) {
		const struct stage *st = &s->stage[j];

		while (j + 1 < s->p && st->memory + s->memory[0] * (2 + 2.0 * j) <= s->limit &&
		       st->end + s->cost[0] <= ready_at(s, UP_F, j) && st->n[DOWN_F] < s->m)
			for (uint32_t k = 0; k <= j; k++)
				put(s, DOWN_F, k);
		put(s, UP_F, j);
	}
	for (uint32_t j = 1; j < s->p; j++) {
		const struct stage *st = &s->stage[j], *before = st - 1;

		while (st->n[DOWN_F] + st->n[UP_F] < before->n[DOWN_F] + before->n[UP_F] ||
		       (st->n[UP_F] <= before->n[UP_F] && before->n[UP_F] < s->m)) {
			for (uint32_t k = s->p; k-- > j;)
				put(s, (int)leg, k);
			leg = DOWN_F + UP_F - leg;
		}
	}
}

/* Backward: up where the stage below is done or nothing else is left, else down. */
static bool backward_goes_up(const struct search *s, uint32_t j)
{
	const struct stage *st = &s->stage[j];

	if (st->n[UP_B] >= st->n[DOWN_B])
		return false;
	return j + 1 == s->p || ready_at(s, UP_B, j) >= 0 || st->n[DOWN_B] >= s->m;
}

static void put_backward(struct search *s, int leg, uint32_t j)
{
	fill_before(s, leg, j, leg == UP_B || s->fill_backward);
	put(s, leg, j);
}

/* The largest bubble of a stage. */
static double run(struct search *s, bool *up)
{
	for (uint32_t j = 0; j < s->p; j++)
		s->stage[j] = (struct stage){.later = s->stage[j].later};
	s->most_bubble = 0;
	for (size_t i = 0; i < (size_t)N_LEGS * s->p * s->m; i++)
		s->end[i] = -1;
	warm_up(s);
	for (uint32_t i = 0; i < 2 * s->m; i++) {
		for (uint32_t j = 0; j < s->p; j++)
			up[j] = backward_goes_up(s, j);
		for (uint32_t j = s->p; j-- > 0;)
			if (up[j])
				put_backward(s, UP_B, j);
		for (uint32_t j = 0; j < s->p; j++)
			if (!up[j])
				put_backward(s, DOWN_B, j);
		for (uint32_t j = 0; j < s->p; j++) {
			const struct stage *st = &s->stage[j];
			int leg = DOWN_F;

			if (st->n[UP_F] >= s->m)
				continue;
			if (st->n[UP_F] < st->n[DOWN_F] && ready_at(s, UP_F, j) >= 0)
				leg = UP_F;
			else if (st->n[DOWN_F] >= s->m || ready_at(s, DOWN_F, j) < 0)
				continue;
			fill_before(s, leg, j, s->fill_forward);
			put(s, leg, j);
		}
	}
	for (uint32_t j = 0; j < s->p; j++)
		while (put_weight(s, j))
			;
	return s->most_bubble;
}

static void emit(const struct search *s, const uint8_t *order)
{
	static const enum sc_pass_kind KIND[] = {SC_PASS_FORWARD, SC_PASS_BACKWARD_INPUT,
						 SC_PASS_BACKWARD_WEIGHT};

	for (uint32_t j = 0; j < s->p; j++) {
		uint32_t n[3][2] = {{0}};

		for (uint32_t i = 0; i < 6 * s->m; i++) {
			uint32_t what = order[(size_t)j * 6 * s->m + i], kind = what / 2;
			uint32_t chunk = kind == 1 ? what == DOWN_B : what % 2;

			put_slot(s->w, KIND[kind], (struct slot_id){j, chunk, n[kind][chunk]++});
		}
	}
}

void write_zb_v(const struct slot_writer *w)
{
	uint32_t p = w->map->pp, m = w->shape->micro_batches;
	const struct sc_pass_times *t = &w->times;
	size_t n = (size_t)p * m;
	struct search s = {.w = w,
			   .p = p,
			   .m = m,
			   .cost = {t->forward, t->input, t->weight},
			   .memory = {1, t->kept - 1, -t->kept},
			   .send = t->send,
			   .limit = 2.0 * p + 1e-9};
	uint8_t *best_order = sc_arena_calloc(w->arena, 6 * n, 1);
	bool *up = sc_arena_calloc(w->arena, p, sizeof(*up));
	double best = INFINITY;

	s.stage = sc_arena_calloc(w->arena, p, sizeof(*s.stage));
	for (uint32_t j = 0; j < p; j++)
		s.stage[j].later = sc_arena_calloc(w->arena, 2 * m, sizeof(uint32_t));
	s.end = sc_arena_calloc(w->arena, N_LEGS * n, sizeof(double));
	s.approved = sc_arena_calloc(w->arena, p, sizeof(double));
	s.order = sc_arena_calloc(w->arena, 6 * n, 1);
	for (int bits = 0; bits < 4; bits++) {
		s.fill_forward = bits & 1;
		s.fill_backward = bits & 2;
		/* Again with what the run before leaves each stage to waste, as long as that helps. */
		double bubble, before = INFINITY;

		for (uint32_t j = 0; j < s.p; j++)
			s.approved[j] = -1;
		s.most_approved = -1;
		while ((bubble = run(&s, up)) < before - 1e-9) {
			if (bubble < best - 1e-9) {
				best = bubble;
				memcpy(best_order, s.order, (size_t)s.p * 6 * s.m);
			}
			before = bubble;
			for (uint32_t j = 0; j < s.p; j++)
				s.approved[j] = s.stage[j].bubble;
			s.most_approved = s.most_bubble;
		}
	}
	emit(&s, best_order);
}
