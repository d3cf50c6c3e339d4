/* Turns a run that stopped early into the wait cycle that stopped it. */
#include <stdlib.h>
#include <string.h>

#include "core/graph/graph_cycle.h"
#include "predict/engine/simulate_priv.h"

/* Waiters for SMs wait for the lowest member node that holds some on their class: kernels always end,
 * so only collectives can hold SMs for ever. */
static void find_holders(const struct sc_simulator *sim, struct sc_waits *waits)
{
	const size_t n = sim->graph->classes.n;
	uint32_t *holder = sc_xrealloc(NULL, n + 1, sizeof(*holder));

	memset(holder, 0xff, (n + 1) * sizeof(*holder));
	for (size_t i = 0; i < sim->acts.n; i++) {
		const struct sim_act *act = &sim->acts.at[i];

		if (act->state == SIM_HOLDING && act->id < holder[act->class_id])
			holder[act->class_id] = act->id;
	}
	for (size_t i = 0; i < sim->acts.n; i++) {
		const struct sim_act *act = &sim->acts.at[i];

		if (act->state != SIM_QUEUED)
			continue;
		waits->state[act->id] = SC_WAIT_SM;
		waits->on[act->id] = holder[act->class_id];
	}
	free(holder);
}

int sc_sim_deadlock(const struct sc_simulator *sim, struct sc_err *err)
{
	const struct sim_flow *f = &sim->flow;
	struct sc_waits waits;
	int rc;

	sc_waits_alloc(&waits, sim->graph->nodes.n);
	for (size_t i = 0; i < sim->graph->nodes.n; i++) {
		if (f->end_us[i] < 0)
			waits.state[i] = f->start_us[i] < 0 ? SC_WAIT_BLOCKED : SC_WAIT_PEER;
	}
	if (f->contends)
		find_holders(sim, &waits);
	rc = sc_waits_error(sim->graph, &waits, err);
	sc_waits_release(&waits);
	return rc;
}
