/* Schedules whose stages take passes as they come: Chimera (Li & Hoefler, SC21, §3), pipelines in two directions
 * or more, each with its share of the micro-batches; Hanayo (Liu et al., SC23, §3), one pipeline that goes to and
 * fro in waves. Each micro-batch in flight has a place from its first pass to its last, as many as stages; of
 * passes that can begin, backward comes first, or forward where that ends earlier, then the older micro-batch. */
#include <math.h>

#include "predict/schedule/schedule_priv.h"

#define CLOSE 1e-9 /* times as equal as these are the same */

struct choice {
	double begin;
	uint32_t stage, chunk, nth, micro_batch; /* nth: of the replica */
	bool backward;
};
struct flow {
	const struct slot_writer *w;
	uint32_t places; /* of a replica */
	uint32_t n;      /* micro-batches */
	bool forward_first;
	double *free_at; /* by stage */
	double *end
		[2]; /* forward, backward: [micro-batch * depth + virtual stage]; negative: not yet */
	uint32_t *next[2];   /* by [stage * n_chunks + chunk]: micro-batches of the replica done */
	struct choice *best; /* by stage */
	double *begin;       /* of the best; INFINITY: none is found */
};

static double end_of(const struct flow *f, bool backward, uint32_t micro_batch, uint32_t vs)
{
	return f->end[backward][(size_t)micro_batch * f->w->map->depth + vs];
}

/* When the input of a pass is there; negative: not yet. */
static double ready_at(const struct flow *f, const struct choice *c)
{
	const struct sc_stage_map *map = f->w->map;
	uint32_t vs = sc_virtual_stage(map, c->stage, c->chunk);
	double end;

	if (c->backward && vs + 1 == map->depth)
		return end_of(f, false, c->micro_batch, vs);
	if (!c->backward && vs == 0) /* the one that had the place before */
		return c->nth < f->places
			       ? 0
			       : end_of(f, true, c->micro_batch - f->places * map->replicas, 0);
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

/* The next pass of a chunk, if its input is there or known. */
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

/* The best pass of a stage: it changes where the stage is busy or one of its inputs comes. */
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

static bool choose(const struct flow *f, struct choice *best)
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

/* Runs a pass of virtual stage `vs`. */
static void take(struct flow *f, const struct choice *c, uint32_t vs)
{
	const struct sc_stage_map *map = f->w->map;
	const struct sc_pass_times *t = &f->w->times;
	uint32_t next = c->backward ? vs - 1 : vs + 1;

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

static void write_flow(const struct slot_writer *w, uint32_t places, bool forward_first)
{
	struct flow f = {.w = w,
			 .places = places,
			 .n = w->shape->micro_batches,
			 .forward_first = forward_first};
	struct choice c = {0};

	flow_init(&f);
	while (choose(&f, &c)) {
		take(&f, &c, sc_virtual_stage(w->map, c.stage, c.chunk));
		put_slot(w, c.backward ? SC_PASS_BACKWARD : SC_PASS_FORWARD,
			 (struct slot_id){c.stage, c.chunk, c.micro_batch});
	}
}

/* How long so many micro-batches take. */
static double flow_time(const struct slot_writer *w, uint32_t places, uint32_t n,
			bool forward_first)
{
	struct flow f = {.w = w, .places = places, .n = n, .forward_first = forward_first};
	struct choice c = {0};
	double end = 0;

	flow_init(&f);
	while (choose(&f, &c))
		take(&f, &c, sc_virtual_stage(w->map, c.stage, c.chunk));
	for (uint32_t stage = 0; stage < w->map->pp; stage++)
		end = fmax(end, f.free_at[stage]);
	return end;
}

void write_chimera(const struct slot_writer *w)
{
	uint32_t share = w->map->pp / w->map->replicas;

	write_flow(w, share ? share : 1, false);
}

/* Which comes first is chosen by so many micro-batches a stage, whatever there are: the order of more goes on as that
 * of fewer begins. Of pipelines with more passes than MOST_TRIED backward comes first. */
enum { TRIED = 8, MOST_TRIED = 1 << 22 };

void write_hanayo(const struct slot_writer *w)
{
	uint32_t places = w->map->pp, n = TRIED * places;
	bool tries = (double)n * w->map->depth < MOST_TRIED;

	write_flow(w, places,
		   tries && flow_time(w, places, n, true) <
				    flow_time(w, places, n, false) * (1 - CLOSE));
}
