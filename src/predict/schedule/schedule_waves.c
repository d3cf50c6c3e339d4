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

/* The passes of a chunk in one direction, by micro-batch. A replica's lanes are a ring: forward
 * down the model, backward up again, and then the first ones forward, whose micro-batches take the
 * places that backward leaves. */
struct lane {
	/* When the next pass has its input; INFINITY: that is not known, or none is left. Only a
	 * pass of this lane or of those it waits for changes it. */
	double ready;
	double *end; /* by pass, of the `n` that are taken */
	double took, send;
	/* A pass waits for the one of `from` so many before (behind), and for the same one of
	 * `turn`, if not NULL; so do passes of `to` and `late` for this lane's. */
	const struct lane *from, *turn;
	struct lane *to, *late;
	uint32_t n, all, behind, micro_batch; /* micro_batch: the next pass's */
	uint32_t stage, chunk;
	bool backward;
};
/* The next pass of a lane. */
struct choice {
	double begin; /* INFINITY: none */
	struct lane *lane;
};
struct taken {
	struct lane *lane;
	uint32_t micro_batch;
};
struct flow {
	const struct slot_writer *w;
	struct sc_pass_times times;
	uint32_t places; /* a replica's */
	uint32_t n,
		unit; /* micro-batches: all, and as many as the order is found for; it repeats */
	bool forward_first;
	struct lane *lane;   /* [2 * (stage * n_chunks + chunk) + backward] */
	double *free_at;     /* by stage */
	struct choice *best; /* by stage: what it takes next, of the lanes that are ready */
	struct taken *taken; /* a unit's passes, each behind those that it waits for */
	size_t n_taken;
};

static void lane_look(struct lane *l)
{
	l->ready = INFINITY;
	if (l->n < l->all && l->n < l->behind)
		l->ready = 0;
	else if (l->n < l->all && l->n - l->behind < l->from->n)
		l->ready = l->from->end[l->n - l->behind] + l->send;
	if (l->turn)
		l->ready =
			fmax(l->ready, l->n < l->turn->n ? l->turn->end[l->n] : (double)INFINITY);
}

static bool is_better(const struct flow *f, const struct choice *a, const struct choice *b)
{
	if (fabs(a->begin - b->begin) > CLOSE)
		return a->begin < b->begin;
	if (a->lane->backward != b->lane->backward)
		return a->lane->backward != f->forward_first;
	return a->lane->micro_batch < b->lane->micro_batch;
}

/* Finds the best pass of a stage anew: it changes where the stage is busy or a lane gets ready. */
static void stage_look(struct flow *f, uint32_t stage)
{
	const uint32_t n_lanes = 2 * f->w->map->n_chunks;
	struct lane *lanes = f->lane + (size_t)stage * n_lanes;
	const double free_at = f->free_at[stage];
	struct choice best = {.begin = INFINITY};

	for (uint32_t i = 0; i < n_lanes; i++) {
		const double ready = lanes[i].ready;
		struct choice c = {ready > free_at ? ready : free_at, &lanes[i]};

		if (isfinite(ready) && is_better(f, &c, &best))
			best = c;
	}
	f->best[stage] = best;
}

static void flow_take(struct flow *f, uint32_t stage)
{
	struct lane *l = f->best[stage].lane, *to = l->to;
	const bool was_ready = isfinite(to->ready);

	f->taken[f->n_taken++] = (struct taken){l, l->micro_batch};
	f->free_at[stage] = l->end[l->n++] = f->best[stage].begin + l->took;
	l->micro_batch += f->w->map->replicas;
	lane_look(l);
	if (!was_ready)
		lane_look(to);
	if (l->late)
		lane_look(l->late);
	stage_look(f, stage);
	/* A pass that begins later than another stage's best one changes nothing there. */
	if (!was_ready && to->stage != stage && !(to->ready - f->best[to->stage].begin > CLOSE))
		stage_look(f, to->stage);
}

/* Takes passes that come next; returns whether there are any. What begins before `until` is no
 * input of what else does, as it ends later: these passes are taken in any order. Where passes take
 * no time it is the best one alone. */
static bool flow_go_on(struct flow *f)
{
	const uint32_t pp = f->w->map->pp;
	const struct sc_pass_times *t = &f->times;
	double begin = INFINITY, until;
	uint32_t best = 0;

	for (uint32_t s = 0; s < pp; s++)
		begin = f->best[s].begin < begin ? f->best[s].begin : begin;
	if (!isfinite(begin))
		return false;
	until = begin + fmin(t->forward, t->input + t->weight) - 2 * CLOSE;
	for (uint32_t s = 0; s < pp && until > begin; s++)
		if (f->best[s].begin < until)
			flow_take(f, s);
	if (until > begin)
		return true;
	while (f->best[best].begin > begin + CLOSE)
		best++;
	for (uint32_t s = best + 1; s < pp; s++)
		if (f->best[s].begin <= begin + CLOSE && is_better(f, &f->best[s], &f->best[best]))
			best = s;
	flow_take(f, best);
	return true;
}

static struct lane *lane_of(const struct flow *f, struct sc_stage_place at, bool backward)
{
	return &f->lane[2 * (at.stage * f->w->map->n_chunks + at.chunk) + backward];
}

/* Joins the lanes of a replica to their ring. */
static void flow_join(struct flow *f, uint32_t replica)
{
	const struct sc_stage_map *map = f->w->map;
	const struct sc_stage_place *place = map->place + (size_t)replica * map->depth;
	const uint32_t all = f->unit > replica ? (f->unit - 1 - replica) / map->replicas + 1 : 0;
	struct lane *before = lane_of(f, place[0], true);

	for (uint32_t i = 0; i < 2 * map->depth; i++) {
		const bool backward = i >= map->depth;
		const struct sc_stage_place at = place[backward ? 2 * map->depth - 1 - i : i];
		struct lane *l = lane_of(f, at, backward);

		*l = (struct lane){
			.end = sc_arena_alloc(f->w->arena,
					      (f->n / map->replicas + 1) * sizeof(double)),
			.took = backward ? f->times.input + f->times.weight : f->times.forward,
			.send = i == 0 || i == map->depth ? 0 : f->times.send,
			.from = before,
			.all = all,
			.behind = i == 0 ? f->places : 0,
			.micro_batch = replica,
			.stage = at.stage,
			.chunk = at.chunk,
			.backward = backward,
		};
		before->to = l;
		before = l;
	}
	before->to = lane_of(f, place[0], false);
}

static void flow_init(struct flow *f)
{
	const struct sc_stage_map *map = f->w->map;

	f->free_at = sc_arena_calloc(f->w->arena, map->pp, sizeof(double));
	f->best = sc_arena_calloc(f->w->arena, map->pp, sizeof(*f->best));
	f->lane =
		sc_arena_calloc(f->w->arena, 2 * (size_t)map->pp * map->n_chunks, sizeof(*f->lane));
	f->taken =
		sc_arena_alloc(f->w->arena, 2 * (size_t)f->unit * map->depth * sizeof(*f->taken));
	f->n_taken = 0;
	for (uint32_t replica = 0; replica < map->replicas; replica++)
		flow_join(f, replica);
	if (f->w->shape->kind == SC_SCHED_GEMS) {
		struct lane *first = lane_of(f, map->place[map->depth], false),
			    *last = lane_of(f, map->place[map->depth - 1], false);

		first->turn = last;
		last->late = first;
	}
	for (size_t i = 0; i < 2 * (size_t)map->pp * map->n_chunks; i++)
		lane_look(&f->lane[i]);
	for (uint32_t stage = 0; stage < map->pp; stage++)
		stage_look(f, stage);
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

static void flow_run(struct flow *f, const struct way *way)
{
	f->times = f->w->times;
	if (way->backward > 0)
		f->times.forward = (f->times.input + f->times.weight) / way->backward;
	f->forward_first = way->forward_first;
	f->unit = way->units && f->places * f->w->map->replicas < f->n
			  ? f->places * f->w->map->replicas
			  : f->n;
	flow_init(f);
	while (flow_go_on(f))
		;
}

/* Returns when the last pass of the order that a flow took ends, by the true times and without
 * sends within a stage. It sums as sc_passes_run does, so that both say the same to the bit. */
static double flow_ends(struct flow *f)
{
	const struct sc_stage_map *map = f->w->map;
	const struct sc_pass_times *t = &f->w->times;
	const double chunks = (double)map->n_chunks / map->replicas;
	const double took[] = {chunks * t->forward * map->replicas / map->n_chunks,
			       (chunks * t->input + chunks * t->weight) * map->replicas /
				       map->n_chunks};
	double last = 0;

	memset(f->free_at, 0, map->pp * sizeof(*f->free_at));
	for (size_t i = 0; i < 2 * (size_t)map->pp * map->n_chunks; i++)
		f->lane[i].n = 0;
	for (uint32_t first = 0; first < f->n; first += f->unit)
		for (size_t i = 0; i < f->n_taken; i++) {
			struct lane *l = f->taken[i].lane;
			double *free_at = &f->free_at[l->stage], ready = 0;

			if (f->taken[i].micro_batch + first >= f->n)
				continue;
			if (!l->behind)
				ready = l->from->end[l->n] +
					(l->from->stage == l->stage ? 0 : t->send);
			*free_at = (ready > *free_at ? ready : *free_at) + took[l->backward];
			l->end[l->n++] = *free_at;
			last = fmax(last, *free_at);
		}
	return last;
}

/* The shortest way is found with TRIED micro-batches a stage where there are more: the order of
 * more goes on as that of fewer begins. With more passes than MOST_TRIED the first way is taken. */
enum { TRIED = 2, MOST_TRIED = 1 << 20 };

static uint32_t find_way(struct flow *f)
{
	const struct sc_schedule_shape *shape = f->w->shape;
	const uint32_t pp = f->w->map->pp;
	struct sc_arena_mark mark = sc_arena_mark(f->w->arena);
	double least = INFINITY;
	uint32_t best = 0;

	f->n = shape->micro_batches + shape->left_out;
	f->n = f->n < TRIED * pp ? f->n : TRIED * pp;
	for (uint32_t i = 0; i < N_WAYS && (double)f->n * f->w->map->depth < MOST_TRIED; i++) {
		double end;

		flow_run(f, &WAYS[i]);
		end = flow_ends(f);
		if (end < least * (1 - CLOSE)) {
			least = end;
			best = i;
		}
		sc_arena_rewind(f->w->arena, mark);
	}
	return best;
}

void write_waves(const struct slot_writer *w)
{
	const struct sc_schedule_shape *shape = w->shape;
	struct sc_schedule_way *known = shape->way, now = {.of = *shape};
	/* Chimera has so many; Hanayo one replica; GEMS one micro-batch a direction (§4.1). */
	const uint32_t places = shape->kind == SC_SCHED_GEMS ? 1 : w->map->pp / w->map->replicas;
	struct flow f = {.w = w, .places = places ? places : 1};

	now.of.micro_batches += shape->left_out;
	now.of.left_out = now.of.period = 0;
	now.of.stage_times = NULL;
	if (known && memcmp(&known->of, &now.of, sizeof(now.of)) == 0)
		now.index = known->index;
	else if (shape->kind != SC_SCHED_GEMS)
		now.index = find_way(&f);
	if (known)
		*known = now;
	f.n = shape->micro_batches;
	flow_run(&f, &WAYS[now.index]);
	for (uint32_t first = 0; first < f.n; first += f.unit)
		for (size_t i = 0; i < f.n_taken; i++) {
			const struct lane *l = f.taken[i].lane;
			const uint32_t micro_batch = f.taken[i].micro_batch + first;

			if (micro_batch < f.n)
				put_slot(w, l->backward ? SC_PASS_BACKWARD : SC_PASS_FORWARD,
					 (struct slot_id){l->stage, l->chunk, micro_batch});
		}
}
