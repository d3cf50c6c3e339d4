/* One rank, a lane for each collective. */
#include "study/collective/collective_together.h"

#include <stdlib.h>
#include <string.h>

#include "predict/engine/simulate.h"

struct sc_collective_together {
	struct sc_simulator *sim;
	struct sc_graph graph;
	struct sc_timeline timeline;
};

struct sc_collective_together *sc_collective_together_create(void)
{
	struct sc_collective_together *together = sc_xcalloc(1, sizeof(*together));

	together->sim = sc_simulator_create();
	sc_graph_init(&together->graph);
	return together;
}

void sc_collective_together_destroy(struct sc_collective_together *together)
{
	if (!together)
		return;
	sc_simulator_destroy(together->sim);
	sc_graph_release(&together->graph);
	sc_timeline_release(&together->timeline);
	free(together);
}

/* All run between the same GPUs, so they share these GPUs' NICs, not all of the node's. */
static void add(struct sc_graph *graph, const struct sc_fabric *fabric, const struct sc_span *span,
		const struct sc_collective_shape *shape)
{
	struct sc_cost cost = sc_collective_cost(fabric, shape, span, NULL);
	uint32_t lane = sc_graph_add_lane(graph, 0, SC_LANE_COMM), id;

	cost.demand[SC_RES_NIC] = sc_collective_nic_load(fabric, shape->kind, span, &cost);
	id = sc_graph_add_cost(graph, &cost);
	sc_graph_add_node(graph, SC_NODE_KERNEL, lane, (struct sc_node_use){id, SC_NONE});
}

int sc_collective_together_us(struct sc_collective_together *together,
			      const struct sc_fabric *fabric, const struct sc_span *span,
			      const struct sc_collective_shape *shape,
			      const struct sc_collective_shape *others, size_t n, double *out,
			      struct sc_err *err)
{
	const struct sc_class rank = {.multiplicity = 1, .ranks_per_domain = 1, .slowdown = 1};
	int rc;

	sc_graph_clear(&together->graph);
	sc_graph_add_class(&together->graph, rank);
	add(&together->graph, fabric, span, shape);
	for (size_t i = 0; i < n; i++)
		add(&together->graph, fabric, span, &others[i]);
	sc_graph_seal(&together->graph);
	rc = sc_simulate(together->sim, &together->graph, NULL, &together->timeline, err);
	if (rc == 0)
		*out = together->timeline.end_us[0];
	return rc;
}
