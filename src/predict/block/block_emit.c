/* A block emitted op by op into a graph, and the graph of a GPU that runs one block alone. Steps go
 * to a host, a compute and a communication lane; a hidden collective lets the next kernels pass it
 * by. */
#include "predict/block.h"

#include <string.h>

/* Adds the costs of a step to the graph: [0] on the GPU, [1] on the host. */
static void add_step_costs(const struct sc_step *step, const struct sc_emit *emit, bool contends,
			   uint32_t cost[2])
{
	struct sc_cost host = {.work_us = step->host_us, .owner_frac[SC_OWN_HOST] = 1};
	struct sc_cost gpu = step->cost;

	if (step->kind == SC_STEP_KERNEL)
		gpu.amount = step->flop;
	if (!contends)
		memset(gpu.demand, 0, sizeof(gpu.demand));
	cost[0] = sc_graph_add_cost(emit->graph, &gpu);
	cost[1] = emit->early ? emit->zero_cost : sc_graph_add_cost(emit->graph, &host);
}

static uint32_t emit_gpu_step(const struct sc_step *step, struct sc_emit *emit, uint32_t launch,
			      uint32_t cost)
{
	struct sc_graph *g = emit->graph;
	uint32_t node;

	if (step->kind == SC_STEP_KERNEL)
		node = sc_graph_add_node(g, SC_NODE_KERNEL, emit->lanes.compute,
					 (struct sc_node_use){cost, step->name});
	else
		node = sc_graph_add_member(g, emit->lanes.comm,
					   emit->comm_group(emit->ctx, step, cost),
					   (struct sc_node_use){emit->zero_cost, step->name});
	sc_graph_add_dep(g, node, launch);
	sc_graph_add_dep(g, node, emit->compute_dep);
	return node;
}

void sc_block_emit_end(struct sc_emit *emit)
{
	if (emit->in_flight == SC_NONE)
		return;
	emit->compute_dep = sc_graph_add_node(emit->graph, SC_NODE_EVENT, emit->lanes.compute,
					      (struct sc_node_use){emit->zero_cost, SC_NONE});
	sc_graph_add_dep(emit->graph, emit->compute_dep, emit->in_flight);
	emit->in_flight = SC_NONE;
}

void sc_block_emit_step(const struct sc_block *block, size_t at, struct sc_emit *emit,
			uint32_t *costs)
{
	const struct sc_step *step = &block->steps.at[at];
	uint32_t *cost = costs + 2 * at, launch = SC_NONE, node;

	if (emit->kernels_left == 0 || step->kind == SC_STEP_COMM)
		sc_block_emit_end(emit);
	if (cost[1] == SC_NONE)
		add_step_costs(step, emit,
			       emit->shared || emit->in_flight != SC_NONE || step->hidden > 0,
			       cost);
	if (!emit->early)
		launch = sc_graph_add_node(
			emit->graph, step->kind == SC_STEP_HOST ? SC_NODE_HOST : SC_NODE_LAUNCH,
			emit->lanes.host, (struct sc_node_use){cost[1], step->name});
	if (step->kind == SC_STEP_HOST)
		return;
	node = emit_gpu_step(step, emit, launch, cost[0]);
	if (emit->node)
		emit->node[at] = node;
	if (step->kind == SC_STEP_COMM && step->hidden > 0) {
		emit->in_flight = node;
		emit->kernels_left = step->hidden;
	} else {
		emit->compute_dep = node;
	}
	if (emit->in_flight != SC_NONE && step->kind == SC_STEP_KERNEL)
		emit->kernels_left--;
}

void sc_block_emit(const struct sc_block *block, struct sc_emit *emit, uint32_t *costs)
{
	emit->in_flight = SC_NONE;
	for (size_t i = 0; i < block->steps.n; i++)
		sc_block_emit_step(block, i, emit, costs);
	sc_block_emit_end(emit);
	if (emit->host_waits && emit->compute_dep != SC_NONE)
		sc_graph_add_dep(emit->graph,
				 sc_graph_add_node(emit->graph, SC_NODE_SYNC, emit->lanes.host,
						   (struct sc_node_use){emit->zero_cost, SC_NONE}),
				 emit->compute_dep);
}

void sc_block_add_costs(const struct sc_block *block, const struct sc_emit *emit, uint32_t *costs)
{
	for (size_t i = 0; i < block->steps.n; i++)
		add_step_costs(&block->steps.at[i], emit, true, costs + 2 * i);
}

uint32_t *sc_block_no_costs(const struct sc_block *block, struct sc_arena *arena)
{
	const size_t n = 2 * block->steps.n * sizeof(uint32_t);

	return memset(sc_arena_alloc(arena, n + 1), 0xff, n);
}

uint32_t sc_block_alone_group(void *ctx, const struct sc_step *step, uint32_t graph_cost)
{
	struct sc_graph *graph = ctx;
	struct sc_member self = {0, 1};

	return sc_graph_add_group(graph, (struct sc_node_use){graph_cost, step->name}, &self, 1);
}

void sc_block_alone_begin(struct sc_build_scratch *scratch, double gpu_free_us, struct sc_emit *out)
{
	struct sc_graph *g = &scratch->graph;
	struct sc_class one = {
		.multiplicity = 1, .ranks_per_domain = 1, .slowdown = 1, .name = SC_NONE};
	struct sc_cost zero = {0}, busy = {.work_us = gpu_free_us, .owner_frac[SC_OWN_OTHER] = 1};

	*out = (struct sc_emit){
		.graph = g, .comm_group = sc_block_alone_group, .ctx = g, .in_flight = SC_NONE};
	sc_graph_clear(g);
	sc_graph_add_class(g, one);
	out->lanes.host = sc_graph_add_lane(g, 0, SC_LANE_HOST);
	out->lanes.compute = sc_graph_add_lane(g, 0, SC_LANE_COMPUTE);
	out->lanes.comm = sc_graph_add_lane(g, 0, SC_LANE_COMM);
	out->zero_cost = sc_graph_add_cost(g, &zero);
	out->compute_dep =
		sc_graph_add_node(g, SC_NODE_KERNEL, out->lanes.compute,
				  (struct sc_node_use){sc_graph_add_cost(g, &busy), SC_NONE});
}
