/* A graph of one class a stage: its passes on one lane, what is sent on a lane a peer. */
#include "study/schedule/schedule_play.h"

#include <string.h>

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

static uint32_t backward_of(const struct play *p, uint32_t micro_batch, uint32_t vs)
{
	uint32_t whole = *made_at(p, SC_PASS_BACKWARD, micro_batch, vs);

	return whole != SC_NONE ? whole : *made_at(p, SC_PASS_BACKWARD_INPUT, micro_batch, vs);
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
					     : backward_of(p, m, vs + 1);
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
