/* The common part of all schedules: where virtual stages are, whom a pass waits for, what is in
 * memory, when the order repeats; and the orders of GPipe, 1F1B and interleaving. */
#include "predict/schedule/schedule.h"

#include <assert.h>
#include <math.h>

#include "core/config/config_schedule.h"
#include "predict/schedule/schedule_file.h"
#include "predict/schedule/schedule_priv.h"

/* Schedules of a loop of chunks whose backward pass is whole: GPipe (Huang et al., NeurIPS 2019,
 * §2.2), all forward, then all backward; the same with chunks, breadth first (Lamy-Poirier, MLSys
 * 2023, §4); 1F1B (Narayanan et al., SC21, §2.2.1); interleaved (§2.2.2). */

/* Interleaving takes micro-batches in groups of pp, or a little larger where pp does not divide
 * them: smaller groups deadlock, as a chunk's output comes back before its turn. */
struct groups {
	uint32_t n, size, n_larger; /* the first n_larger groups have one more */
};

static struct groups groups_of(const struct sc_schedule_shape *shape)
{
	uint32_t m = shape->micro_batches;
	uint32_t n = shape->kind == SC_SCHED_INTERLEAVED ? m / shape->pp : 1;

	n = n ? n : 1;
	return (struct groups){n, m / n, m % n};
}

/* The passes that a stage has not put in one direction. Within a group all of a chunk's come before
 * the next chunk's; backward takes the chunks in reverse. */
struct turn {
	enum sc_pass_kind kind;
	struct groups groups;
	uint32_t first, within, chunk; /* of the next one; first: the group's micro-batch */
};

static void put_turn(const struct slot_writer *w, uint32_t stage, struct turn *turn)
{
	const uint32_t v = w->shape->virtual_stages;
	const uint32_t size = turn->groups.size + (turn->groups.n_larger > 0);
	const uint32_t chunk = turn->kind == SC_PASS_FORWARD ? turn->chunk : v - 1 - turn->chunk;

	put_slot(w, turn->kind, (struct slot_id){stage, chunk, turn->first + turn->within});
	if (++turn->within < size)
		return;
	turn->within = 0;
	if (++turn->chunk < v)
		return;
	turn->chunk = 0;
	turn->first += size;
	turn->groups.n_larger -= turn->groups.n_larger > 0;
}

/* Returns the number of forward passes before the first backward. */
static uint32_t warmup_passes(const struct sc_schedule_shape *shape, uint32_t stage)
{
	struct groups g = groups_of(shape);
	uint32_t total = shape->micro_batches * shape->virtual_stages;
	uint32_t behind = shape->pp - 1 - stage, n = behind + shape->delay;
	uint32_t largest = g.size + (g.n_larger > 0);

	if (shape->kind == SC_SCHED_GPIPE || shape->kind == SC_SCHED_BREADTH_FIRST)
		return total;
	if (shape->virtual_stages > 1) {
		if (shape->micro_batches == shape->pp)
			return total;
		largest = largest > shape->pp ? largest : shape->pp;
		n = 2 * behind + (shape->virtual_stages - 1) * largest;
	}
	return n < total ? n : total;
}

static void write_loop(const struct slot_writer *w)
{
	const uint32_t total = w->shape->micro_batches * w->shape->virtual_stages;
	const struct groups groups = groups_of(w->shape);

	for (uint32_t stage = 0; stage < w->shape->pp; stage++) {
		struct turn forward = {SC_PASS_FORWARD, groups, 0, 0, 0},
			    backward = {SC_PASS_BACKWARD, groups, 0, 0, 0};
		const uint32_t n_warmup = warmup_passes(w->shape, stage);

		for (uint32_t i = 0; i < total + n_warmup; i++) {
			if (i < total)
				put_turn(w, stage, &forward);
			if (i >= n_warmup)
				put_turn(w, stage, &backward);
		}
	}
}

/* Virtual stages lie on stages round after round, to and fro, or as replicas of one on each. */
enum lie { LIE_LOOP, LIE_ZIGZAG, LIE_REPLICAS };

struct kind {
	void (*write)(const struct slot_writer *w);
	enum lie lie;
	bool splits;
	uint8_t warmup; /* micro-batches of four stages until the order repeats; 0: it does not */
};
static const struct kind KINDS[SC_N_SCHEDULES] = {
	[SC_SCHED_GPIPE] = {write_loop, LIE_LOOP, false, 4},
	[SC_SCHED_1F1B] = {write_loop, LIE_LOOP, false, 4},
	[SC_SCHED_INTERLEAVED] = {write_loop, LIE_LOOP, false, 8},
	[SC_SCHED_BREADTH_FIRST] = {write_loop, LIE_LOOP, false, 4},
	[SC_SCHED_ZB_H1] = {write_zero_bubble, LIE_LOOP, true, 6},
	[SC_SCHED_ZB_H2] = {write_zero_bubble, LIE_LOOP, true, 12},
	[SC_SCHED_ZB_1P] = {write_zero_bubble, LIE_LOOP, true, 0},
	[SC_SCHED_ZB_2P] = {write_zero_bubble, LIE_LOOP, true, 0},
	[SC_SCHED_ZB_V] = {write_zb_v, LIE_ZIGZAG, true, 10},
	[SC_SCHED_V_HALF] = {write_v_pattern, LIE_ZIGZAG, true, 6},
	[SC_SCHED_V_MIN] = {write_v_pattern, LIE_ZIGZAG, true, 4},
	[SC_SCHED_CHIMERA] = {write_waves, LIE_REPLICAS, false, 8},
	[SC_SCHED_HANAYO] = {write_waves, LIE_ZIGZAG, false, 8},
	[SC_SCHED_DUALPIPE] = {write_dual_pipe, LIE_REPLICAS, true, 10},
	[SC_SCHED_DUALPIPEV] = {write_dual_pipe, LIE_ZIGZAG, true, 8},
	[SC_SCHED_GEMS] = {write_waves, LIE_REPLICAS, false, 4},
	[SC_SCHED_PIPEDREAM_2BW] = {write_loop, LIE_LOOP, false, 4},
	[SC_SCHED_FILE] = {NULL, LIE_ZIGZAG, true, 0},
};

/* Returns how many micro-batches more than the schedule's are in flight for the output layer's
 * barriers: each barrier delays backward by one (Yeung et al., arXiv:2411.05288, §5); in step, half
 * as many as stages. */
static int64_t vocab_delay(const struct sc_parallel *par)
{
	const int64_t delays[] = {
		[SC_VOCAB_1] = 2, [SC_VOCAB_2] = 1, [SC_VOCAB_INTERLACED] = par->pp / 2};

	return sc_vocab_shares(par) > 1 ? delays[par->vocab_stages] : 0;
}

struct sc_schedule_shape sc_schedule_shape_of(const struct sc_parallel *parallel,
					      uint32_t micro_batches)
{
	return (struct sc_schedule_shape){
		.kind = parallel->schedule,
		.pp = (uint32_t)parallel->pp,
		.virtual_stages = (uint32_t)parallel->virtual_stages,
		.micro_batches = micro_batches,
		.replicas = (uint32_t)sc_schedule_replicas(parallel),
		.delay = (uint32_t)vocab_delay(parallel),
	};
}

struct sc_schedule_traits sc_schedule_traits(enum sc_schedule kind)
{
	const struct kind *k = &KINDS[kind];

	return (struct sc_schedule_traits){
		.splits = k->splits,
		.pairs = k->write == write_dual_pipe,
		.loops = k->lie == LIE_LOOP,
		.is_found = k->write == write_waves,
		.is_timed = k->write == write_waves || k->write == write_zb_v ||
			    kind == SC_SCHED_ZB_1P || kind == SC_SCHED_ZB_2P};
}

/* ---- where virtual stages are ---- */

/* Returns where a virtual stage lies. Replicas go down the stages and up them in turns; each pair
 * begins so many stages further (Li & Hoefler, Chimera, SC21, §3.6). */
static struct sc_stage_place virtual_stage_place(const struct sc_stage_map *map, enum lie lie,
						 uint32_t replica, uint32_t v)
{
	uint32_t shift = replica / 2 * (2 * map->pp / map->replicas);
	uint32_t chunk = v / map->pp, stage = (v + shift) % map->pp;

	if (lie == LIE_REPLICAS ? replica % 2 : lie == LIE_ZIGZAG && chunk % 2)
		stage = map->pp - 1 - stage;
	return (struct sc_stage_place){stage, lie == LIE_REPLICAS ? replica : chunk};
}

void sc_stage_map_init(const struct sc_schedule_shape *shape, struct sc_arena *arena,
		       struct sc_stage_map *out)
{
	uint32_t replicas = shape->replicas ? shape->replicas : 1;
	enum lie lie = KINDS[shape->kind].lie;

	if (shape->file) {
		*out = shape->file->map;
		return;
	}
	*out = (struct sc_stage_map){
		.pp = shape->pp,
		.n_chunks = shape->virtual_stages * replicas,
		.depth = shape->pp * shape->virtual_stages,
		.replicas = replicas,
	};
	out->virtual_stage =
		sc_arena_calloc(arena, out->pp * out->n_chunks, sizeof(*out->virtual_stage));
	out->place = sc_arena_calloc(arena, replicas * out->depth, sizeof(*out->place));
	for (uint32_t r = 0; r < replicas; r++)
		for (uint32_t v = 0; v < out->depth; v++) {
			struct sc_stage_place at = virtual_stage_place(out, lie, r, v);

			out->place[r * out->depth + v] = at;
			out->virtual_stage[at.stage * out->n_chunks + at.chunk] = v;
		}
}

bool sc_slot_peer(const struct sc_stage_map *map, const struct sc_slot *slot, bool incoming,
		  struct sc_stage_place *out)
{
	bool deeper = incoming == sc_pass_is_backward((enum sc_pass_kind)slot->kind);
	uint32_t vs = slot->virtual_stage;

	if (slot->kind == SC_PASS_BACKWARD_WEIGHT)
		return false;
	if (deeper ? vs + 1 == map->depth : vs == 0)
		return false;
	vs = deeper ? vs + 1 : vs - 1;
	*out = map->place[slot->micro_batch % map->replicas * map->depth + vs];
	return true;
}

void sc_passes_mark_last(struct sc_passes *passes)
{
	for (uint32_t s = 0; s < passes->map->pp; s++) {
		struct sc_slot *slots = passes->slots + (size_t)s * passes->stride;
		uint64_t seen = 0; /* chunks seen from the end */

		assert(passes->map->n_chunks <= 64);
		for (uint32_t i = passes->n[s]; i-- > 0;) {
			uint64_t chunk = (uint64_t)1 << slots[i].chunk;

			if (!sc_pass_makes_gradients((enum sc_pass_kind)slots[i].kind) ||
			    (seen & chunk))
				continue;
			slots[i].last = true;
			seen |= chunk;
		}
	}
}

void sc_passes_build(const struct sc_schedule_shape *shape, const struct sc_stage_map *map,
		     struct sc_arena *arena, struct sc_passes *out)
{
	const struct kind *kind = &KINDS[shape->kind];
	uint32_t micro_batches = (shape->micro_batches + map->replicas - 1) / map->replicas;
	struct slot_writer w = {
		.shape = shape, .map = map, .times = shape->times, .arena = arena, .out = out};

	if (w.times.forward + w.times.input + w.times.weight <= 0)
		w.times = (struct sc_pass_times){.forward = 1, .input = 1, .weight = 1, .kept = 1};
	if (shape->file) {
		*out = shape->file->passes;
		return;
	}
	*out = (struct sc_passes){
		/* A phase is one of equal parts of a stage's slots, each of which has a steady
		   state of its own. */
		.map = map,
		.micro_batches = shape->micro_batches,
		.left_out = shape->left_out,
		.n_phases = shape->kind == SC_SCHED_GPIPE || shape->kind == SC_SCHED_BREADTH_FIRST
				    ? 2 * shape->virtual_stages
				    : 1,
		.stride = (kind->splits ? 3 : 2) * micro_batches * map->n_chunks,
	};
	out->n = sc_arena_calloc(arena, map->pp, sizeof(*out->n));
	out->slots = sc_arena_alloc(arena, (size_t)map->pp * out->stride * sizeof(*out->slots));
	kind->write(&w);
	sc_passes_mark_last(out);
}

bool sc_passes_are_equal(const struct sc_passes *a, const struct sc_passes *b)
{
	for (uint32_t s = 0; s < a->map->pp; s++) {
		const struct sc_slot *x = sc_passes_of(a, s), *y = sc_passes_of(b, s);

		if (a->n[s] != b->n[s])
			return false;
		for (uint32_t i = 0; i < a->n[s]; i++)
			if (x[i].micro_batch != y[i].micro_batch || x[i].kind != y[i].kind ||
			    x[i].virtual_stage != y[i].virtual_stage || x[i].paired != y[i].paired)
				return false;
	}
	return true;
}

/* ---- memory, and periods ---- */

/* Returns what a slot adds to the chunks held; in a phase of one kind the middle one stands for
 * those left out too. */
static double slot_keeps(const struct sc_passes *passes, uint32_t stage, uint32_t i, double kept)
{
	/* A pass adds a share of a chunk's activations; a backward of the input leaves `kept`. */
	const uint8_t kind = sc_passes_of(passes, stage)[i].kind;
	const double one = kind == SC_PASS_FORWARD          ? 1
			   : kind == SC_PASS_BACKWARD       ? -1
			   : kind == SC_PASS_BACKWARD_INPUT ? kept - 1
							    : -kept;
	const bool middle =
		passes->n_phases > 1 && i % passes->micro_batches == passes->micro_batches / 2;

	return middle ? one * (1 + passes->left_out) : one;
}

uint32_t sc_schedule_period(const struct sc_schedule_shape *shape)
{
	/* The automatic order of a short run need not be that of a long one. */
	if (!KINDS[shape->kind].warmup)
		return 0;
	if (sc_schedule_traits(shape->kind).is_found)
		return shape->period;
	return KINDS[shape->kind].lie == LIE_REPLICAS ? shape->replicas
	       : shape->kind == SC_SCHED_INTERLEAVED  ? shape->pp
						      : 1;
}

/* Says whether a stage does from slot `first` on for a period what it does in the next. */
static bool order_repeats(const struct sc_passes *passes, uint32_t stage, uint32_t first,
			  uint32_t period)
{
	const struct sc_slot *slots = sc_passes_of(passes, stage) + first;
	uint32_t n = passes->n[stage] / passes->micro_batches * period;

	assert(2 * (first + n) <= passes->n[stage]);
	for (uint32_t i = 0; i < n; i++)
		if (slots[i].kind != slots[i + n].kind || slots[i].chunk != slots[i + n].chunk ||
		    slots[i].micro_batch + period != slots[i + n].micro_batch)
			return false;
	return true;
}

/* Pipelines fill and drain during the first and the last 1.5 pp of 5 pp micro-batches: two periods
 * of at most pp lie between. */
uint32_t sc_schedule_find_period(const struct sc_schedule_shape *shape,
				 const struct sc_stage_map *map, struct sc_arena *arena)
{
	struct sc_schedule_shape probe = *shape;
	struct sc_passes passes;
	uint32_t period, s;

	probe.micro_batches = 5 * map->pp;
	if (shape->micro_batches > probe.micro_batches)
		probe.left_out = shape->micro_batches - probe.micro_batches;
	sc_passes_build(&probe, map, arena, &passes);
	for (period = map->replicas; period <= map->pp; period += map->replicas) {
		for (s = 0; s < map->pp; s++)
			if (!order_repeats(&passes, s, passes.n[s] * 3 / 10, period))
				break;
		if (s == map->pp)
			return period;
	}
	return 0;
}

uint32_t sc_schedule_warmup(const struct sc_schedule_shape *shape)
{
	uint32_t behind = shape->pp - 1, v = shape->virtual_stages;

	if (shape->kind == SC_SCHED_1F1B)
		return behind + shape->delay;
	if (shape->kind == SC_SCHED_INTERLEAVED)
		return (2 * behind + (v - 1) * shape->pp) / v;
	return KINDS[shape->kind].warmup * shape->pp / 4 + shape->delay;
}

double sc_passes_peak(const struct sc_passes *passes, uint32_t stage, double kept)
{
	double now = 0, most = 0;

	for (uint32_t i = 0; i < passes->n[stage]; i++) {
		now += slot_keeps(passes, stage, i, kept);
		most = now > most ? now : most;
	}
	return most;
}

/* ---- an order that runs ---- */

static double pass_time(const struct sc_passes *passes, const struct sc_pass_times *t, uint8_t kind)
{
	const double by_kind[SC_N_PASS_KINDS] = {
		[SC_PASS_FORWARD] = t->forward,
		[SC_PASS_BACKWARD] = t->input + t->weight,
		[SC_PASS_BACKWARD_INPUT] = t->input,
		[SC_PASS_BACKWARD_WEIGHT] = t->weight,
	};

	return by_kind[kind] * passes->map->replicas / passes->map->n_chunks;
}

/* Returns when all that a pass waits for is there; negative: not yet. */
static double inputs_at(const struct sc_passes *passes, const struct sc_passes_ran *ran,
			uint32_t stage, const struct sc_slot *slot, double send)
{
	const bool backward = slot->kind != SC_PASS_FORWARD;
	size_t at = (size_t)slot->micro_batch * passes->map->depth + slot->virtual_stage;
	double own = backward ? ran->done[slot->kind == SC_PASS_BACKWARD_WEIGHT][at] : 0, from;
	struct sc_stage_place peer;

	if (own < 0 || !sc_slot_peer(passes->map, slot, true, &peer))
		return own;
	from = ran->done[backward][backward ? at + 1 : at - 1];
	return from < 0 ? from : fmax(own, peer.stage == stage ? from : from + send);
}

/* Runs a stage as far as its inputs are there. */
static bool run_stage(const struct sc_passes *passes, const struct sc_pass_times *times,
		      uint32_t stage, struct sc_passes_ran *ran)
{
	const struct sc_slot *slots = sc_passes_of(passes, stage);
	double *start = ran->start + (size_t)stage * passes->stride;
	double *end = ran->end + (size_t)stage * passes->stride;
	uint32_t i = ran->n[stage], first, n;

	i -= i > 0 && slots[i - 1].paired; /* the one that waits is the second of a pair */
	for (first = i; i < passes->n[stage]; i += n) {
		double begin = i > 0 ? end[i - 1] : 0, took = 0;

		n = slots[i].paired && i + 1 < passes->n[stage] ? 2 : 1;
		for (uint32_t k = i; k < i + n; k++) {
			double ready = inputs_at(passes, ran, stage, &slots[k], times[0].send);

			ran->n[stage] = k;
			if (ready < 0)
				return i > first;
			begin = fmax(begin, ready);
			took += pass_time(passes, &times[stage], slots[k].kind);
		}
		for (uint32_t k = i; k < i + n; k++)
			if (slots[k].kind != SC_PASS_BACKWARD_WEIGHT)
				ran->done[slots[k].kind != SC_PASS_FORWARD]
					 [(size_t)slots[k].micro_batch * passes->map->depth +
					  slots[k].virtual_stage] = begin + took;
		start[i] = begin;
		end[i] = end[i + n - 1] = begin + took;
		if (n == 2)
			start[i + 1] = end[i] =
				begin + took - pass_time(passes, &times[stage], slots[i + 1].kind);
	}
	ran->n[stage] = i;
	return i > first;
}

void sc_passes_run(const struct sc_passes *passes, const struct sc_pass_times *times,
		   struct sc_arena *arena, struct sc_passes_ran *out)
{
	const uint32_t pp = passes->map->pp;
	size_t n = (size_t)passes->micro_batches * passes->map->depth;

	*out = (struct sc_passes_ran){
		.n = sc_arena_calloc(arena, pp, sizeof(*out->n)),
		.start = sc_arena_calloc(arena, (size_t)pp * passes->stride, sizeof(double)),
		.end = sc_arena_calloc(arena, (size_t)pp * passes->stride, sizeof(double)),
	};
	for (int b = 0; b < 2; b++) {
		out->done[b] = sc_arena_alloc(arena, n * sizeof(double));
		for (size_t i = 0; i < n; i++)
			out->done[b][i] = -1;
	}
	/* Stages are visited down and up again, as passes go. */
	for (bool moves = true; moves;) {
		moves = false;
		for (uint32_t i = 0; i < 2 * pp; i++)
			moves |= run_stage(passes, times, i < pp ? i : 2 * pp - 1 - i, out);
	}
	for (uint32_t s = 0; s < pp; s++) {
		size_t at = (size_t)s * passes->stride;
		double end = out->n[s] ? out->end[at + out->n[s] - 1] : 0;

		out->makespan = fmax(out->makespan, end);
		out->longest = fmax(out->longest, end - out->start[at]);
	}
}

/* Measures a stage that ran; returns its work. */
static double measure_stage(struct sc_schedule_play *play, uint32_t s)
{
	size_t at = (size_t)s * play->passes->stride;
	uint32_t n = play->passes->n[s];
	const struct sc_stage_held *held = &play->held[s];
	double now = held->before, work = 0;

	play->peak[s] = now;
	for (uint32_t i = 0; i < n; i++) {
		now += held->each * slot_keeps(play->passes, s, i, held->kept);
		play->after[at + i] = now;
		play->peak[s] = fmax(play->peak[s], now);
		play->makespan = fmax(play->makespan, play->end[at + i]);
		work += play->end[at + i] - play->start[at + i];
	}
	if (n)
		play->longest = fmax(play->longest, play->end[at + n - 1] - play->start[at]);
	return work;
}

void sc_schedule_measure(struct sc_schedule_play *play, struct sc_arena *arena)
{
	uint32_t pp = play->passes->map->pp;
	double work = 0;

	play->makespan = play->longest = play->bubble_pct = 0;
	play->peak = sc_arena_calloc(arena, pp, sizeof(*play->peak));
	play->after = sc_arena_calloc(arena, (size_t)pp * play->passes->stride, sizeof(double));
	for (uint32_t s = 0; s < pp; s++)
		work += measure_stage(play, s);
	if (play->longest > 0)
		play->bubble_pct = 100 * (1 - work / (pp * play->longest));
}
