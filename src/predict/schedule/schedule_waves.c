/* Schedules whose stages take passes as they come: Chimera (Li & Hoefler, SC21, §3), pipelines in
 * two directions or more, each with its share of the micro-batches; GEMS (Jain et al., SC20), two,
 * of which one begins when the other has gone forward; Hanayo (Liu et al., SC23, §3), one that goes
 * to and fro in waves. A micro-batch in flight has a place from its first pass to its last, as many
 * as stages; of passes that can begin, backward comes first, or forward where that ends earlier,
 * then the older micro-batch. */
#include <math.h>
#include <string.h>

#include "predict/schedule/schedule_priv.h"

#define CLOSE 1e-9 /* times closer than this are the same */

struct choice {
	double begin;
	uint32_t stage, chunk, nth, micro_batch; /* nth: within the replica */
	bool backward;
};
struct flow {
	const struct slot_writer *w;
	uint32_t places; /* a replica's */
	uint32_t n;      /* the number of micro-batches */
	bool forward_first,
		in_turn;     /* in_turn: the second begins where the first has gone forward */
	double *free_at;     /* by stage */
	double *end[2];      /* by direction, [micro-batch * depth + virtual stage]; < 0: not yet */
	uint32_t *next[2];   /* micro-batches of the replica done, [stage * n_chunks + chunk] */
	struct choice *best; /* by stage */
	double *begin;       /* the begin of the best; INFINITY: none is found */
};

static double end_of(const struct flow *f, bool backward, uint32_t micro_batch, uint32_t vs)
{
	return f->end[backward][(size_t)micro_batch * f->w->map->depth + vs];
}

/* Returns when the input of a pass is there; negative: not yet. */
static double ready_at(const struct flow *f, const struct choice *c)
{
	const struct sc_stage_map *map = f->w->map;
	uint32_t vs = sc_virtual_stage(map, c->stage, c->chunk);
	double end;

	if (c->backward && vs + 1 == map->depth)
		return end_of(f, false, c->micro_batch, vs);
	if (!c->backward && vs == 0) { /* waits for the one that had its place before */
		end = c->nth < f->places
			      ? 0
			      : end_of(f, true, c->micro_batch - f->places * map->replicas, 0);
		if (end >= 0 && f->in_turn && c->micro_batch % 2) {
			double forward = end_of(f, false, c->micro_batch - 1, map->depth - 1);

			end = forward < 0 ? forward : fmax(end, forward);
		}
		return end;
	}
	end = end_of(f, c->backward, c->micro_batch, c->backward ? vs + 1 : vs - 1);
	return end < 0 ? end : end + f->w->times.send;
}

static bool is_better(const struct flow *f, const struct choice *a, const struct choice *b)
{
	if (fabs(a->begin - b->begin) > CLOSE)
		return a->begin < b->begin;
	if (a->backward != b->backward)
		return a->backward != f->forward_first;
	return a->micro_batch < b->micro_batch;
}

/* Finds the next pass of a chunk; returns whether its input is there or known. */
static bool next_of(const struct flow *f, struct choice *c)
{
	const struct sc_stage_map *map = f->w->map;
	uint32_t replica = map->replicas > 1 ? c->chunk : 0;
	double ready;

	c->nth = f->next[c->backward][c->stage * map->n_chunks + c->chunk];
	c->micro_batch = c->nth * map->replicas + replica;
	if (c->micro_batch >= f->n)
		return false;
	ready = ready_at(f, c);
	c->begin = ready > f->free_at[c->stage] ? ready : f->free_at[c->stage];
	return ready >= 0;
}

/* Finds the best pass of a stage anew: it changes where the stage is busy or one of its inputs
 * comes. */
static void look_again(struct flow *f, uint32_t stage)
{
	const uint32_t n_chunks = f->w->map->n_chunks;
	struct choice *best = &f->best[stage];

	best->begin = INFINITY;
	for (uint32_t i = 0; i < 2 * n_chunks; i++) {
		struct choice c = {.stage = stage, .chunk = i / 2, .backward = i % 2};

		if (next_of(f, &c) && is_better(f, &c, best))
			*best = c;
	}
	f->begin[stage] = best->begin;
}

static bool flow_choose(const struct flow *f, struct choice *best)
{
	double begin = INFINITY;

	for (uint32_t s = 0; s < f->w->map->pp; s++)
		begin = f->begin[s] < begin ? f->begin[s] : begin;
	best->begin = INFINITY;
	for (uint32_t s = 0; s < f->w->map->pp && isfinite(begin); s++)
		if (f->begin[s] <= begin + CLOSE && is_better(f, &f->best[s], best))
			*best = f->best[s];
	return isfinite(begin);
}

static void flow_take(struct flow *f, const struct choice *c)
{
	const struct sc_stage_map *map = f->w->map;
	uint32_t vs = sc_virtual_stage(map, c->stage, c->chunk);
	uint32_t next = c->backward ? vs - 1 : vs + 1;
	const struct sc_pass_times *t = &f->w->times;

	f->free_at[c->stage] = f->end[c->backward][(size_t)c->micro_batch * map->depth + vs] =
		c->begin + (c->backward ? t->input + t->weight : t->forward);
	f->next[c->backward][c->stage * map->n_chunks + c->chunk]++;
	look_again(f, c->stage);
	if (next < map->depth)
		look_again(f, map->place[c->micro_batch % map->replicas * map->depth + next].stage);
}

static void flow_init(struct flow *f)
{
	const struct slot_writer *w = f->w;
	const struct sc_stage_map *map = w->map;
	size_t n = (size_t)f->n * map->depth;

	f->free_at = sc_arena_calloc(w->arena, map->pp, sizeof(double));
	for (int b = 0; b < 2; b++) {
		f->end[b] = sc_arena_alloc(w->arena, n * sizeof(double));
		f->next[b] = sc_arena_calloc(w->arena, map->pp * map->n_chunks, sizeof(uint32_t));
		for (size_t i = 0; i < n; i++)
			f->end[b][i] = -1;
	}
	f->best = sc_arena_calloc(w->arena, map->pp, sizeof(*f->best));
	f->begin = sc_arena_calloc(w->arena, map->pp, sizeof(*f->begin));
	for (uint32_t stage = 0; stage < map->pp; stage++)
		look_again(f, stage);
}

/* ---- ways to take passes ---- */

/* A way takes passes as they come, as if backward took so many times as long as forward (0: as long
 * as it takes); or, in units, as many micro-batches as have a place, and then the next as many
 * (Chimera, §3.5). A greedy order may be far from the best, and another for times that differ by
 * little. Some ways do not ask for the times, so the shortest of all changes by little where these
 * do; where passes tie, at whole ratios, orders for ratios beside are better. */
struct way {
	double backward;
	bool forward_first, units;
};
static const struct way WAYS[] = {
	{0, false, false},   {0, true, false},    {0, false, true},     {0, true, true},
	{1.4, false, false}, {1.95, true, false}, {2.05, false, false}, {1.4, true, false},
};
enum { N_WAYS = sizeof(WAYS) / sizeof(WAYS[0]) };

static void write_way(const struct slot_writer *w, uint32_t places, const struct way *way)
{
	uint32_t n = w->shape->micro_batches, unit = places * w->map->replicas;
	struct slot_writer own = *w;
	struct flow f = {.w = &own,
			 .places = places,
			 .n = way->units && unit < n ? unit : n,
			 .forward_first = way->forward_first,
			 .in_turn = w->shape->kind == SC_SCHED_GEMS};
	struct choice c = {0};

	if (way->backward > 0)
		own.times.forward = (w->times.input + w->times.weight) / way->backward;
	flow_init(&f);
	while (flow_choose(&f, &c)) {
		flow_take(&f, &c);
		put_slot(w, c.backward ? SC_PASS_BACKWARD : SC_PASS_FORWARD,
			 (struct slot_id){c.stage, c.chunk, c.micro_batch});
	}
	for (uint32_t s = 0; s < w->map->pp; s++) {
		const struct sc_slot *slots = sc_passes_of(w->out, s);

		for (uint32_t i = 0, first = w->out->n[s]; w->out->n[s] < first / f.n * n; i++)
			if (slots[i].micro_batch + unit < n)
				put_slot(w, (enum sc_pass_kind)slots[i].kind,
					 (struct slot_id){s, slots[i].chunk,
							  slots[i].micro_batch + unit});
	}
}

/* The shortest way is found with TRIED micro-batches a stage where there are more: the order of
 * more goes on as that of fewer begins. Pipelines with more passes than MOST_TRIED take the first
 * way. */
enum { TRIED = 2, MOST_TRIED = 1 << 20 };

static uint32_t find_way(const struct slot_writer *w, uint32_t places)
{
	struct sc_schedule_shape shape = *w->shape;
	struct sc_passes passes = *w->out;
	struct slot_writer trial = *w;
	struct sc_pass_times *times = sc_arena_calloc(w->arena, w->map->pp, sizeof(*times));
	double least = INFINITY, chunks = (double)w->map->n_chunks / w->map->replicas;
	uint32_t best = 0;

	for (uint32_t s = 0; s < w->map->pp; s++)
		times[s] = (struct sc_pass_times){.forward = chunks * w->times.forward,
						  .input = chunks * w->times.input,
						  .weight = chunks * w->times.weight,
						  .send = w->times.send};
	shape.micro_batches += shape.left_out;
	if (shape.micro_batches > TRIED * w->map->pp)
		shape.micro_batches = TRIED * w->map->pp;
	trial.shape = &shape;
	trial.out = &passes;
	passes.micro_batches = shape.micro_batches;
	passes.stride = 2 * shape.micro_batches * w->map->n_chunks;
	passes.slots = sc_arena_calloc(w->arena, (size_t)w->map->pp * passes.stride,
				       sizeof(*passes.slots));
	for (uint32_t i = 0; i < N_WAYS && (double)shape.micro_batches * w->map->depth < MOST_TRIED;
	     i++) {
		struct sc_passes_ran ran;

		passes.n = sc_arena_calloc(w->arena, w->map->pp, sizeof(*passes.n));
		write_way(&trial, places, &WAYS[i]);
		sc_passes_run(&passes, times, w->arena, &ran);
		if (ran.makespan < least * (1 - CLOSE)) {
			least = ran.makespan;
			best = i;
		}
	}
	return best;
}

void write_waves(const struct slot_writer *w)
{
	const struct sc_schedule_shape *shape = w->shape;
	struct sc_schedule_way *known = shape->way, now = {.of = *shape};
	/* Chimera has so many; Hanayo has one replica; GEMS has one micro-batch a direction (§4.1).
	 */
	uint32_t places = shape->kind == SC_SCHED_GEMS ? 1 : w->map->pp / w->map->replicas;

	places = places ? places : 1;
	now.of.micro_batches += shape->left_out;
	now.of.left_out = now.of.period = 0;
	now.of.stage_times = NULL;
	if (known && memcmp(&known->of, &now.of, sizeof(now.of)) == 0)
		now.index = known->index;
	else if (shape->kind != SC_SCHED_GEMS)
		now.index = find_way(w, places);
	if (known)
		*known = now;
	write_way(w, places, &WAYS[now.index]);
}
