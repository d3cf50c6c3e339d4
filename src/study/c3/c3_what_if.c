/* A recorded iteration replayed with its kernels as long as they would be beside nothing, or beside copy engines.
 * Collectives stay as long as they were recorded: their times have waiting in them. */
#include <math.h>

#include "predict/engine/simulate.h"
#include "study/c3/c3_priv.h"

struct replayer {
	const struct sc_c3_kernel_times *times; /* by rank */
	struct sc_trace_graph graph;
	struct sc_simulator *sim;
	struct sc_timeline timeline;
};

/* Kernels that ran beside a collective get their new times; each node has a cost of its own. */
static void set_times(struct replayer *r, enum sc_c3_what_if_kind kind)
{
	for (size_t n = 0; n < r->graph.refs.n; n++) {
		const struct sc_trace_node *ref = &r->graph.refs.at[n];
		const struct sc_node *node = &r->graph.graph.nodes.at[n];
		const size_t rank = r->graph.graph.lanes.at[node->lane].class_id;
		double us;

		if (ref->kind != SC_TRACE_NODE_ACT)
			continue;
		us = r->times[rank].us[kind][ref->index];
		if (!isnan(us))
			r->graph.graph.costs.at[node->cost].work_us = us;
	}
}

static int replay(struct replayer *r, double *us, struct sc_err *err)
{
	const struct sc_sim_opts opts = {.no_contention = 1};
	int rc = sc_simulate(r->sim, &r->graph.graph, &opts, &r->timeline, err);
	double end_us = 0;

	for (size_t i = 0; rc == 0 && i < r->graph.end.n; i++)
		end_us = fmax(end_us, r->timeline.end_us[r->graph.end.at[i]]);
	*us += end_us;
	return rc;
}

int sc_c3_what_if(const struct sc_trace_run *run, const struct sc_c3_kernel_times *times,
		  struct sc_c3_what_if *out, struct sc_err *err)
{
	struct replayer r = {.times = times, .sim = sc_simulator_create()};
	int rc = 0;

	*out = (struct sc_c3_what_if){.n = run->n_iterations};
	for (size_t i = 0; rc == 0 && i < run->n_iterations; i++) {
		sc_build_trace(run, i, &r.graph);
		rc = replay(&r, &out->recorded_us, err);
		for (int k = 0; rc == 0 && k < SC_C3_N_WHAT_IFS; k++) {
			sc_build_trace(run, i, &r.graph); /* with the costs as recorded */
			set_times(&r, (enum sc_c3_what_if_kind)k);
			rc = replay(&r, &out->us[k], err);
		}
	}
	out->recorded_us /= fmax(1, (double)out->n);
	for (int k = 0; k < SC_C3_N_WHAT_IFS; k++)
		out->us[k] /= fmax(1, (double)out->n);
	sc_trace_graph_release(&r.graph);
	sc_timeline_release(&r.timeline);
	sc_simulator_destroy(r.sim);
	return rc;
}
