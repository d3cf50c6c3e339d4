/* V-Half and V-Min (Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024, §4): a
 * model folded into a V, its passes in a pattern of six that repeats for every micro-batch, whose
 * length decides the memory. Where the first and last micro-batches leave places free, later passes
 * move there (appendix on reordering and squeezing; sail-sg/zero-bubble-pipeline-parallelism,
 * scheduler/zbv_greedy.py). */
#include <string.h>

#include "predict/schedule/schedule_priv.h"

enum { DOWN_F, UP_F, DOWN_B, UP_B, WEIGHT, N_TYPES, PERIOD = 6 };
enum { IDLE = UINT32_MAX };

/* A grid of equal places that hold passes. */
struct grid {
	const struct slot_writer *w;
	uint32_t p, m, width;
	uint32_t *at;       /* [stage * width + place]: type | micro-batch << 3, or IDLE */
	uint32_t *when;     /* [(type * p + stage) * 2 m + micro-batch]: place */
	uint32_t *moved;    /* the next grid */
	uint32_t *backward; /* [stage * 2 m + i]: places of backward passes, in order */
	uint32_t *n_backward;
	bool has_weights; /* weight gradients are on the grid */
	int32_t most;     /* the most chunks that a stage may hold */
};
struct pass {
	uint32_t stage, type, micro_batch, place;
};

static uint32_t *when(const struct grid *g, uint32_t type, uint32_t stage, uint32_t i)
{
	return &g->when[((size_t)type * g->p + stage) * 2 * g->m + i];
}

static uint32_t *grid_place(uint32_t *at, const struct grid *g, uint32_t stage, uint32_t t)
{
	return &at[(size_t)stage * g->width + t];
}

static struct pass pass_at(const struct grid *g, uint32_t stage, uint32_t t)
{
	uint32_t id = *grid_place(g->at, g, stage, t);

	return (struct pass){stage, id & 7, id >> 3, t};
}

static void set(uint32_t *at, const struct grid *g, const struct pass *pass, uint32_t t)
{
	*grid_place(at, g, pass->stage, t) = pass->type | pass->micro_batch << 3;
	*when(g, pass->type, pass->stage, pass->micro_batch) = t;
}

/* Adds weight gradients at the first free places after their backward pass, in its order. */
static void add_weights(struct grid *g)
{
	for (uint32_t s = 0; s < g->p; s++) {
		uint32_t n = 0, done = 0;

		for (uint32_t t = 0; done < 2 * g->m && t < g->width; t++) {
			struct pass pass = pass_at(g, s, t);

			if (*grid_place(g->at, g, s, t) == IDLE && done < n) {
				struct pass weight = {s, WEIGHT, done++, t};

				set(g->at, g, &weight, t);
			} else if (*grid_place(g->at, g, s, t) != IDLE) {
				n += pass.type == DOWN_B || pass.type == UP_B;
			}
		}
	}
}

static void drop_weights(struct grid *g)
{
	for (size_t i = 0; i < (size_t)g->p * g->width; i++)
		if (g->at[i] != IDLE && (g->at[i] & 7) == WEIGHT)
			g->at[i] = IDLE;
}

/* Returns the first place after all that the pass waits for. */
static uint32_t earliest(const struct grid *g, const struct pass *p)
{
	bool up = p->type == UP_F || p->type == UP_B;
	int64_t after = -1;

	if (p->type == WEIGHT)
		after = g->backward[p->stage * 2 * g->m + p->micro_batch];
	else if (up ? p->stage + 1 < g->p : p->stage > 0)
		after = *when(g, p->type, up ? p->stage + 1 : p->stage - 1, p->micro_batch);
	if (p->type != WEIGHT && p->type != DOWN_F) {
		int64_t before = *when(g, p->type - 1, p->stage, p->micro_batch);

		after = before > after ? before : after;
	}
	if (p->micro_batch > 0) {
		int64_t before = *when(g, p->type, p->stage, p->micro_batch - 1);

		after = before > after ? before : after;
	}
	return (uint32_t)(after + 1);
}

/* ---- moving passes to free places ---- */

/* Returns the most chunks that a stage holds if pass `p` comes at `to`: before it stand passes that
 * have moved, behind its old place those that may. Weight gradients that are not on the grid come
 * where nothing else is. With `to` the width none moves. */
static int32_t most_held(const struct grid *g, const struct pass *p, uint32_t to)
{
	const uint32_t *moved = grid_place(g->moved, g, p->stage, 0),
		       *at = grid_place(g->at, g, p->stage, 0);
	int32_t now = 0, most = 0, later = 0;

	for (uint32_t t = 0; t < g->width; t++) {
		uint32_t id = t > p->place || to == g->width ? at[t] : moved[t];
		uint32_t type = t == to ? p->type : id & 7;

		if (id == IDLE && t != to) {
			now -= !g->has_weights && later > 0;
			later -= later > 0;
			continue;
		}
		now += type == WEIGHT ? -1 : type <= UP_F;
		later += type > UP_F;
		most = now > most ? now : most;
	}
	return most;
}

static void note_backward(struct grid *g, const struct pass *p, uint32_t t)
{
	uint32_t *list = g->backward + (size_t)p->stage * 2 * g->m;
	uint32_t n = g->n_backward[p->stage];

	if (p->type != DOWN_B && p->type != UP_B)
		return;
	for (; n > 0 && list[n - 1] > t; n--)
		list[n] = list[n - 1];
	list[n] = t;
	g->n_backward[p->stage]++;
}

static void move(struct grid *g, const struct pass *p, bool may_move)
{
	uint32_t to = may_move ? earliest(g, p) : p->place;

	/* A forward pass that comes earlier is held that much longer. */
	while (to < p->place &&
	       (*grid_place(g->moved, g, p->stage, to) != IDLE ||
		(!(g->has_weights && p->type > UP_F) && most_held(g, p, to) > g->most)))
		to++;
	set(g->moved, g, p, to);
	note_backward(g, p, to);
}

/* Moves passes of the last micro-batches, once the last one has begun, to earlier places; and, with
 * `early`, those of the first ones, until the first stage's first is done. */
static void reorder(struct grid *g, bool early)
{
	size_t n = (size_t)g->p * g->width;
	int phase = 0;
	uint32_t *swap = g->at;

	g->has_weights = early;
	memset(g->moved, 0xff, n * sizeof(*g->moved));
	for (uint32_t s = 0; early && s < g->p; s++) {
		int32_t most = most_held(g, &(struct pass){.stage = s}, g->width);

		g->most = most > g->most ? most : g->most;
	}
	memset(g->n_backward, 0, g->p * sizeof(*g->n_backward));
	for (uint32_t t = 0; t < g->width; t++)
		for (uint32_t s = 0; s < g->p; s++) {
			struct pass pass = pass_at(g, s, t);
			bool fixed;

			if (*grid_place(g->at, g, s, t) == IDLE)
				continue;
			if (phase == 0 && pass.type == UP_B && s == 0)
				phase = 1;
			fixed = phase == 1 || (phase == 0 && !early);
			if (phase == 1 && pass.type == DOWN_F && pass.micro_batch + 1 == g->m)
				phase = 2;
			move(g, &pass, !fixed);
		}
	g->at = g->moved;
	g->moved = swap;
}

/* Puts every pass as early as what it waits for is done, in the order of the grid. */
static void squeeze(struct grid *g)
{
	size_t n = (size_t)g->p * g->width;
	uint32_t *swap = g->at, *end = g->n_backward;

	memset(g->moved, 0xff, n * sizeof(*g->moved));
	memset(end, 0, g->p * sizeof(*end));
	for (uint32_t t = 0; t < g->width; t++)
		for (uint32_t s = 0; s < g->p; s++) {
			struct pass pass = pass_at(g, s, t);
			uint32_t to;

			if (*grid_place(g->at, g, s, t) == IDLE)
				continue;
			to = pass.type == WEIGHT ? 0 : earliest(g, &pass);
			to = to > end[s] ? to : end[s];
			set(g->moved, g, &pass, to);
			end[s] = to + 1;
		}
	g->at = g->moved;
	g->moved = swap;
}

static void put_grid(const struct grid *g)
{
	for (uint32_t s = 0; s < g->p; s++) {
		uint32_t later[2] = {0}, done[2] = {0};

		for (uint32_t t = 0; t < g->width; t++) {
			struct pass pass = pass_at(g, s, t);
			uint32_t chunk = pass.type == UP_F || pass.type == DOWN_B;

			if (*grid_place(g->at, g, s, t) == IDLE)
				continue;
			if (pass.type == WEIGHT) {
				chunk = done[1] < later[1];
				put_slot(g->w, SC_PASS_BACKWARD_WEIGHT,
					 (struct slot_id){s, chunk, done[chunk]++});
				continue;
			}
			later[chunk] += pass.type >= DOWN_B;
			put_slot(g->w,
				 pass.type >= DOWN_B ? SC_PASS_BACKWARD_INPUT : SC_PASS_FORWARD,
				 (struct slot_id){s, chunk, pass.micro_batch});
		}
	}
}

/* One of a micro-batch's four ways along the stages: its pass on stage s is at first + step * s. */
struct leg {
	int64_t first, step;
};

static void write_pattern(const struct slot_writer *w, const struct leg legs[WEIGHT])
{
	uint32_t p = w->map->pp, m = w->shape->micro_batches;
	struct grid g = {
		.w = w, .p = p, .m = m, .width = 8 * m + 8 * p + 16 + PERIOD * w->shape->delay};
	size_t n = (size_t)p * g.width;

	g.at = sc_arena_alloc(w->arena, n * sizeof(*g.at));
	g.moved = sc_arena_alloc(w->arena, n * sizeof(*g.moved));
	g.when = sc_arena_calloc(w->arena, (size_t)N_TYPES * p * 2 * m, sizeof(*g.when));
	g.backward = sc_arena_calloc(w->arena, (size_t)p * 2 * m + 1, sizeof(*g.backward));
	g.n_backward = sc_arena_calloc(w->arena, p, sizeof(*g.n_backward));
	memset(g.at, 0xff, n * sizeof(*g.at));
	for (uint32_t type = 0; type < WEIGHT; type++)
		for (uint32_t s = 0; s < p; s++)
			for (uint32_t i = 0; i < m; i++) {
				struct pass pass = {s, type, i, 0};
				int64_t wait = type >= DOWN_B ? w->shape->delay : 0;
				int64_t t = legs[type].first + legs[type].step * s +
					    PERIOD * (i + wait);

				set(g.at, &g, &pass, (uint32_t)t);
			}
	add_weights(&g);
	reorder(&g, true);
	squeeze(&g);
	drop_weights(&g);
	reorder(&g, false);
	add_weights(&g);
	squeeze(&g);
	drop_weights(&g);
	add_weights(&g);
	put_grid(&g);
}

/* V-Half takes half the memory of 1F1B; V-Min a third, the least that such a pattern can have. */
void write_v_pattern(const struct slot_writer *w)
{
	int64_t p = w->map->pp, half = p % 2 ? 0 : 3, third = p % 3 ? 0 : 2;
	const struct leg halves[] = {
		{0, 2}, {3 * p - 2, -1}, {3 * p + half - 1, 2}, {6 * p + half - 2, -1}};
	const struct leg thirds[] = {
		{0, 1}, {2 * p - 1, -1}, {2 * p + third, 1}, {4 * p + third - 1, -1}};

	write_pattern(w, w->shape->kind == SC_SCHED_V_HALF ? halves : thirds);
}
