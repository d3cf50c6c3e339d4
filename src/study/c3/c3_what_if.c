/* A recorded iteration replayed with its kernels as long as they would be beside nothing, or under a policy.
 * Collectives stay as long as they were recorded: their times have waiting in them. */
#include <math.h>

#include "predict/engine/simulate.h"
#include "study/c3/c3_recording.h"

struct replayer {
	const struct sc_trace_run *run;
	struct sc_trace_graph graph;
	struct sc_simulator *sim;
	struct sc_timeline timeline;
	SC_VEC(uint32_t)
	node_of; /* activities of the rank at hand; SC_NONE: not of the iteration */
	SC_VEC(uint32_t)
	turn, before; /* last nodes of each lane: of the turn at hand, of the one before */
};

/* Each node has a cost of its own. */
static void set_times(struct replayer *r, size_t rank, const double *us)
{
	for (size_t n = 0; us && n < r->graph.refs.n; n++) {
		const struct sc_trace_node *ref = &r->graph.refs.at[n];

		if (ref->kind == SC_TRACE_NODE_ACT &&
		    sc_graph_class_of(&r->graph.graph, (uint32_t)n) == rank &&
		    !isnan(us[ref->index]))
			r->graph.graph.costs.at[r->graph.graph.nodes.at[n].cost].work_us =
				us[ref->index];
	}
}

static void take_turn(struct replayer *r, uint32_t node)
{
	const struct sc_node *nodes = r->graph.graph.nodes.at;
	size_t i = 0;

	while (i < r->turn.n && nodes[r->turn.at[i]].lane != nodes[node].lane)
		i++;
	if (i == r->turn.n)
		SC_VEC_PUSH(&r->turn, node);
	r->turn.at[i] = node;
	for (i = 0; i < r->before.n; i++)
		sc_graph_add_dep(&r->graph.graph, node, r->before.at[i]);
}

/* Kernels that compute and those of collectives by turns, in the order in which they began. */
static void serialize(struct replayer *r, size_t rank)
{
	const struct sc_trace_rank *recorded = &r->run->ranks.at[rank];
	int turn = -1;

	r->node_of.n = 0;
	for (size_t i = 0; i < recorded->acts.n; i++)
		SC_VEC_PUSH(&r->node_of, SC_NONE);
	for (size_t n = 0; n < r->graph.refs.n; n++)
		if (r->graph.refs.at[n].kind == SC_TRACE_NODE_ACT &&
		    sc_graph_class_of(&r->graph.graph, (uint32_t)n) == rank)
			r->node_of.at[r->graph.refs.at[n].index] = (uint32_t)n;
	r->turn.n = r->before.n = 0;
	for (size_t i = 0; i < recorded->acts.n; i++) {
		const int kind = recorded->acts.at[i].kind;

		if (r->node_of.at[i] == SC_NONE ||
		    (kind != SC_ACT_KERNEL && kind != SC_ACT_COLLECTIVE))
			continue;
		if (kind != turn) {
			r->before.n = 0;
			for (size_t k = 0; k < r->turn.n; k++)
				SC_VEC_PUSH(&r->before, r->turn.at[k]);
			r->turn.n = 0;
			turn = kind;
		}
		take_turn(r, r->node_of.at[i]);
	}
}

/* From where hosts and GPUs are done with what was before until they are with it, as in `replay`. */
static int replay(struct replayer *r, double *us, struct sc_err *err)
{
	const struct sc_sim_opts opts = {.no_contention = 1};
	int rc = sc_simulate(r->sim, &r->graph.graph, &opts, &r->timeline, err);

	if (rc == 0) {
		double from_us = 0;

		for (size_t k = 0; k < r->graph.begin.n; k++)
			from_us = fmax(from_us, r->timeline.end_us[r->graph.begin.at[k]]);
		for (size_t i = 0; i < r->graph.refs.n; i++)
			if (r->graph.refs.at[i].kind == SC_TRACE_NODE_CARRIED)
				from_us = fmax(from_us, r->timeline.end_us[i]);
		*us += r->timeline.total_us - from_us;
	}
	return rc;
}

/* One iteration under a policy. Ranks whose collectives began in different orders cannot take turns: not known. */
static void replay_policy(struct replayer *r, size_t iteration,
			  const struct sc_c3_kernel_times *times, enum sc_c3_policy policy,
			  double *us)
{
	sc_build_trace(r->run, iteration, &r->graph); /* with the costs as recorded */
	for (size_t k = 0; k < r->run->ranks.n; k++) {
		set_times(r, k,
			  policy == SC_C3_SERIAL ? times[k].alone_us : times[k].policy_us[policy]);
		if (policy == SC_C3_SERIAL)
			serialize(r, k);
	}
	sc_graph_seal(&r->graph.graph);
	if (replay(r, us, NULL))
		*us = NAN;
}

static int replay_iteration(struct replayer *r, size_t iteration,
			    const struct sc_c3_kernel_times *times, struct sc_c3_what_if *out,
			    struct sc_err *err)
{
	int rc;

	sc_build_trace(r->run, iteration, &r->graph);
	rc = replay(r, &out->recorded_us, err);
	for (size_t k = 0; k < r->run->ranks.n; k++)
		set_times(r, k, times[k].alone_us);
	if (rc == 0)
		rc = replay(r, &out->nothing_lost_us, err);
	for (int p = 0; rc == 0 && p < SC_N_C3_POLICIES; p++)
		if (!isnan(out->policy_us[p]))
			replay_policy(r, iteration, times, (enum sc_c3_policy)p,
				      &out->policy_us[p]);
	return rc;
}

int sc_c3_what_if(const struct sc_trace_run *run, const struct sc_c3_kernel_times *times,
		  struct sc_c3_what_if *out, struct sc_err *err)
{
	struct replayer r = {.run = run, .sim = sc_simulator_create()};
	const double n = fmax(1, (double)run->n_iterations);
	int rc = 0;

	*out = (struct sc_c3_what_if){.n = run->n_iterations};
	out->policy_us[SC_C3_CHUNKED] = out->policy_us[SC_C3_TILE_FUSED] = NAN;
	for (size_t i = 0; rc == 0 && i < run->n_iterations; i++)
		rc = replay_iteration(&r, i, times, out, err);
	out->recorded_us /= n;
	out->nothing_lost_us /= n;
	for (int p = 0; p < SC_N_C3_POLICIES; p++)
		out->policy_us[p] /= n;
	SC_VEC_RELEASE(&r.node_of);
	SC_VEC_RELEASE(&r.turn);
	SC_VEC_RELEASE(&r.before);
	sc_trace_graph_release(&r.graph);
	sc_timeline_release(&r.timeline);
	sc_simulator_destroy(r.sim);
	return rc;
}
