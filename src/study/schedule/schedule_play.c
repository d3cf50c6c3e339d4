/* A graph of one class a stage: its passes on one lane, what is sent on a lane a peer. */
#include "study/schedule/schedule_play.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "predict/engine/simulate.h"

struct play {
	const struct sc_passes *passes;
	const struct sc_pass_times *times; /* by stage */
	struct sc_graph graph;
	uint32_t *node; /* by slot */
	uint32_t *made; /* [kind][micro-batch * depth + virtual stage]: node, or SC_NONE */
	uint32_t send_cost;
};

static double chunk_time(const struct play *p, uint32_t stage, const struct sc_slot *slot)
{
	const struct sc_pass_times *t = &p->times[stage];
	const double by_kind[SC_N_PASS_KINDS] = {
		[SC_PASS_FORWARD] = t->forward,
		[SC_PASS_BACKWARD] = t->input + t->weight,
		[SC_PASS_BACKWARD_INPUT] = t->input,
		[SC_PASS_BACKWARD_WEIGHT] = t->weight,
	};

	return by_kind[slot->kind] * p->passes->map->replicas / p->passes->map->n_chunks;
}

static uint32_t *made_at(const struct play *p, int kind, uint32_t micro_batch, uint32_t vs)
{
	size_t n = (size_t)p->passes->micro_batches * p->passes->map->depth;

	return &p->made[(size_t)kind * n + (size_t)micro_batch * p->passes->map->depth + vs];
}

/* The nodes of a stage: a pair is one. */
static void add_stage(struct play *p, uint32_t stage)
{
	const struct sc_slot *slots = sc_passes_of(p->passes, stage);
	uint32_t *node = p->node + (size_t)stage * p->passes->stride;
	uint32_t lane = 2 * stage;

	for (uint32_t i = 0; i < p->passes->n[stage]; i++) {
		bool second = i > 0 && slots[i - 1].paired;
		struct sc_cost cost = {.work_us = chunk_time(p, stage, &slots[i])};

		if (slots[i].paired)
			cost.work_us += chunk_time(p, stage, &slots[i + 1]);
		node[i] =
			second ? node[i - 1]
			       : sc_graph_add_node(&p->graph, SC_NODE_KERNEL, lane,
						   (struct sc_node_use){
							   sc_graph_add_cost(&p->graph, &cost), i});
		*made_at(p, slots[i].kind, slots[i].micro_batch, slots[i].virtual_stage) = node[i];
	}
}

static void add_input(struct play *p, uint32_t stage, const struct sc_slot *slot, uint32_t node)
{
	uint32_t m = slot->micro_batch, vs = slot->virtual_stage, from, sent;
	struct sc_stage_place peer;

	if (slot->kind == SC_PASS_BACKWARD_WEIGHT)
		sc_graph_add_dep(&p->graph, node, *made_at(p, SC_PASS_BACKWARD_INPUT, m, vs));
	else if (sc_pass_is_backward((enum sc_pass_kind)slot->kind))
		sc_graph_add_dep(&p->graph, node, *made_at(p, SC_PASS_FORWARD, m, vs));
	if (!sc_slot_peer(p->passes->map, slot, true, &peer))
		return;
	from = slot->kind == SC_PASS_FORWARD ? *made_at(p, SC_PASS_FORWARD, m, vs - 1)
					     : *made_at(p, SC_PASS_BACKWARD, m, vs + 1);
	if (from == SC_NONE && slot->kind != SC_PASS_FORWARD)
		from = *made_at(p, SC_PASS_BACKWARD_INPUT, m, vs + 1);
	if (peer.stage == stage || p->times[0].send <= 0) {
		sc_graph_add_dep(&p->graph, node, from);
		return;
	}
	sent = sc_graph_add_node(&p->graph, SC_NODE_COPY,
				 sc_graph_add_lane(&p->graph, peer.stage, SC_LANE_COPY),
				 (struct sc_node_use){p->send_cost, SC_NONE});
	sc_graph_add_dep(&p->graph, sent, from);
	sc_graph_add_dep(&p->graph, node, sent);
}

static void build(struct play *p, struct sc_arena *arena)
{
	const struct sc_passes *passes = p->passes;
	size_t n = (size_t)passes->micro_batches * passes->map->depth * SC_N_PASS_KINDS;
	struct sc_cost send = {.work_us = p->times[0].send};

	p->node =
		sc_arena_calloc(arena, (size_t)passes->map->pp * passes->stride, sizeof(uint32_t));
	p->made = sc_arena_alloc(arena, n * sizeof(uint32_t));
	memset(p->made, 0xff, n * sizeof(uint32_t));
	for (uint32_t s = 0; s < passes->map->pp; s++) {
		struct sc_class one = {.multiplicity = 1,
				       .nic_domain = s,
				       .ranks_per_domain = 1,
				       .slowdown = 1,
				       .name = SC_NONE};

		sc_graph_add_class(&p->graph, one);
		sc_graph_add_lane(&p->graph, s, SC_LANE_COMPUTE);
		sc_graph_add_lane(&p->graph, s, SC_LANE_COMM);
	}
	p->send_cost = sc_graph_add_cost(&p->graph, &send);
	for (uint32_t s = 0; s < passes->map->pp; s++)
		add_stage(p, s);
	for (uint32_t s = 0; s < passes->map->pp; s++)
		for (uint32_t i = 0; i < passes->n[s]; i++)
			add_input(p, s, &sc_passes_of(passes, s)[i],
				  p->node[(size_t)s * passes->stride + i]);
	sc_graph_seal(&p->graph);
}

static void read_timeline(const struct play *p, const struct sc_timeline *tl,
			  struct sc_schedule_play *out)
{
	const struct sc_passes *passes = p->passes;

	for (uint32_t s = 0; s < passes->map->pp; s++) {
		const struct sc_slot *slots = sc_passes_of(passes, s);
		size_t at = (size_t)s * passes->stride;

		for (uint32_t i = 0; i < passes->n[s]; i++) {
			out->start[at + i] = tl->start_us[p->node[at + i]];
			out->end[at + i] = tl->end_us[p->node[at + i]];
			if (i > 0 && slots[i - 1].paired)
				out->start[at + i] = out->end[at + i - 1] =
					out->end[at + i] - chunk_time(p, s, &slots[i]);
		}
		out->held[s] = (struct sc_stage_held){
			.each = (double)passes->map->replicas / passes->map->n_chunks,
			.kept = p->times[s].kept,
		};
	}
}

int sc_schedule_play(const struct sc_passes *passes, const struct sc_pass_times *times,
		     struct sc_arena *arena, struct sc_schedule_play *out, struct sc_err *err)
{
	struct sc_simulator *sim = sc_simulator_create();
	struct sc_timeline timeline = {0};
	struct play p = {.passes = passes, .times = times};
	size_t n = (size_t)passes->map->pp * passes->stride;
	int rc;

	sc_graph_init(&p.graph);
	build(&p, arena);
	*out = (struct sc_schedule_play){
		.passes = passes,
		.start = sc_arena_calloc(arena, n, sizeof(double)),
		.end = sc_arena_calloc(arena, n, sizeof(double)),
		.held = sc_arena_calloc(arena, passes->map->pp, sizeof(*out->held)),
		.time_unit = "",
		.held_unit = "micro-batches",
	};
	rc = sc_simulate(sim, &p.graph, NULL, &timeline, err);
	if (rc == 0)
		read_timeline(&p, &timeline, out);
	if (rc == 0)
		sc_schedule_measure(out, arena);
	sc_timeline_release(&timeline);
	sc_graph_release(&p.graph);
	sc_simulator_destroy(sim);
	return rc;
}

/* A climb in the space of pass times: the heuristic is fast, and small lies about times lead it to other orders, each
 * judged by the true ones. */

enum { SEED = 1, MIN_TRIES = 64, MAX_TRIES = 300, SLOTS_TRIED = 1200000 };
#define CLOSE_ENOUGH 1e-6

struct climb {
	const struct sc_schedule_shape *shape;
	const struct sc_stage_map *map;
	struct sc_rng rng;
	struct sc_arena *arena;
	struct sc_pass_times *lied, *best_lied; /* by stage */
	double *end[2];                         /* forward, backward of inputs: [stage * m + i] */
	uint32_t *at;                           /* by stage: slots that have run */
	double *free_at, *first;
};

static const struct sc_pass_times *true_times(const struct sc_schedule_shape *shape, uint32_t stage)
{
	return shape->stage_times ? &shape->stage_times[stage] : &shape->times;
}

/* ---- what an order takes ---- */

/* Runs a stage as far as its inputs are there. */
static bool run_stage(struct climb *c, const struct sc_passes *passes, uint32_t stage)
{
	const struct sc_slot *slots = sc_passes_of(passes, stage);
	const struct sc_pass_times *t = true_times(c->shape, stage);
	const double took[SC_N_PASS_KINDS] = {[SC_PASS_FORWARD] = t->forward,
					      [SC_PASS_BACKWARD_INPUT] = t->input,
					      [SC_PASS_BACKWARD_WEIGHT] = t->weight};
	uint32_t before = c->at[stage], m = c->shape->micro_batches;

	for (; c->at[stage] < passes->n[stage]; c->at[stage]++) {
		const struct sc_slot *slot = &slots[c->at[stage]];
		const bool backward = slot->kind != SC_PASS_FORWARD;
		const uint32_t from = backward ? stage + 1 : stage - 1;
		const bool waits = slot->kind != SC_PASS_BACKWARD_WEIGHT &&
				   (backward ? from < c->map->pp : stage > 0);
		double ready = waits ? c->end[backward][(size_t)from * m + slot->micro_batch] : 0;
		double begin;

		if (ready < 0) /* its input is not there yet */
			break;
		begin = fmax(ready + (waits ? c->shape->times.send : 0), c->free_at[stage]);
		if (c->at[stage] == 0)
			c->first[stage] = begin;
		c->free_at[stage] = begin + took[slot->kind];
		if (slot->kind != SC_PASS_BACKWARD_WEIGHT)
			c->end[slot->kind != SC_PASS_FORWARD]
			      [(size_t)stage * c->shape->micro_batches + slot->micro_batch] =
				c->free_at[stage];
	}
	return c->at[stage] > before;
}

static double longest_stage(struct climb *c, const struct sc_passes *passes)
{
	uint32_t pp = c->map->pp;
	double longest = 0;
	bool moves = true;

	for (size_t i = 0; i < (size_t)pp * c->shape->micro_batches; i++)
		c->end[0][i] = c->end[1][i] = -1;
	memset(c->at, 0, pp * sizeof(*c->at));
	memset(c->free_at, 0, pp * sizeof(*c->free_at));
	while (moves) {
		moves = false;
		for (uint32_t s = 0; s < pp; s++)
			moves |= run_stage(c, passes, s);
		for (uint32_t s = pp; s-- > 0;)
			moves |= run_stage(c, passes, s);
	}
	for (uint32_t s = 0; s < pp; s++)
		longest = fmax(longest, c->free_at[s] - c->first[s]);
	return longest;
}

/* ---- what no order can beat ---- */

/* Every stage has its work. From its first forward pass to its first backward the micro-batch goes down all later
 * stages and comes back, and meanwhile it only has the forward passes that memory holds. */
static double bound_of(const struct climb *c)
{
	const struct sc_schedule_shape *shape = c->shape;
	uint32_t memories = shape->kind == SC_SCHED_ZB_2P ? 2 : 1;
	double m = shape->micro_batches, held = fmin(m, memories * c->map->pp), away = 0, most = 0;

	for (uint32_t s = c->map->pp; s-- > 0;) {
		const struct sc_pass_times *t = true_times(shape, s);

		most = fmax(most, m * (t->forward + t->input + t->weight) +
					  fmax(0, t->forward + away - held * t->forward));
		away += t->forward + t->input + 2 * shape->times.send;
	}
	return most;
}

/* ---- the climb ---- */

static double lie(struct climb *c, double value, double by)
{
	return value * (1 + by * (2 * sc_rng_uniform(&c->rng) - 1));
}

/* Times near the best ones, from nearly the same to half as much again. */
static struct sc_schedule_shape next_shape(struct climb *c, unsigned i)
{
	static const double BY[] = {0.02, 0.1, 0.25, 0.5};
	const double by = BY[i % (sizeof(BY) / sizeof(BY[0]))];
	struct sc_schedule_shape shape = *c->shape;

	for (uint32_t s = 0; s < c->map->pp; s++) {
		c->lied[s] = c->best_lied[s];
		c->lied[s].forward = lie(c, c->lied[s].forward, by);
		c->lied[s].input = lie(c, c->lied[s].input, by);
		c->lied[s].weight = lie(c, c->lied[s].weight, by);
	}
	shape.times.send += 0.25 * sc_rng_uniform(&c->rng) * shape.times.forward * (i % 3);
	shape.stage_times = c->lied;
	return shape;
}

static void climb_init(struct climb *c, struct sc_arena *arena)
{
	uint32_t pp = c->map->pp;
	size_t n = (size_t)pp * c->shape->micro_batches;

	c->arena = arena;
	sc_rng_init(&c->rng, SEED);
	c->lied = sc_arena_calloc(arena, pp, sizeof(*c->lied));
	c->best_lied = sc_arena_calloc(arena, pp, sizeof(*c->best_lied));
	for (uint32_t s = 0; s < pp; s++)
		c->best_lied[s] = *true_times(c->shape, s);
	for (int b = 0; b < 2; b++)
		c->end[b] = sc_arena_calloc(arena, n, sizeof(double));
	c->at = sc_arena_calloc(arena, pp, sizeof(*c->at));
	c->free_at = sc_arena_calloc(arena, pp, sizeof(double));
	c->first = sc_arena_calloc(arena, pp, sizeof(double));
}

void sc_schedule_optimize(const struct sc_schedule_shape *shape, struct sc_arena *arena,
			  struct sc_passes *passes, struct sc_optimized *out)
{
	struct climb c = {.shape = shape, .map = passes->map};
	size_t n_slots = (size_t)passes->map->pp * passes->stride;
	unsigned n_tries =
		(unsigned)fmin(MAX_TRIES, fmax(MIN_TRIES, SLOTS_TRIED / (double)n_slots));

	assert(shape->kind == SC_SCHED_ZB_1P || shape->kind == SC_SCHED_ZB_2P);
	climb_init(&c, arena);
	*out = (struct sc_optimized){.longest = longest_stage(&c, passes), .bound = bound_of(&c)};
	while (out->n_tried < n_tries && out->longest > out->bound * (1 + CLOSE_ENOUGH)) {
		struct sc_arena_mark mark = sc_arena_mark(arena);
		struct sc_schedule_shape tried = next_shape(&c, out->n_tried++);
		struct sc_passes now;
		double longest;

		sc_passes_build(&tried, passes->map, arena, &now);
		longest = longest_stage(&c, &now);
		if (longest < out->longest) {
			out->longest = longest;
			memcpy(passes->slots, now.slots, n_slots * sizeof(*now.slots));
			memcpy(c.best_lied, c.lied, passes->map->pp * sizeof(*c.lied));
		}
		sc_arena_rewind(arena, mark);
	}
}
