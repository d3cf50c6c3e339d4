/* A graph that runs again with other costs is walked: what flows until something contends does so
 * in an order that its edges alone decide. The walk of a graph is a list of words: which costs
 * contend; each step with the nodes that it waits for, the one before on its lane first, then by
 * id; and how the rest begins. Of nodes that end at once the first is thus what binds, as in
 * simulate.c. */
#include <stdlib.h>
#include <string.h>

#include "predict/engine/simulate_priv.h"

enum { REASON_SHIFT = 29, NODE_MASK = (1u << REASON_SHIFT) - 1 };
#define STEP_OF_GROUP (1u << 31)

/* The state of who makes a walk: by node what it waits for, and how much of that is not done. */
struct walk_maker {
	const struct sc_graph *graph;
	const uint8_t *contends;
	struct sc_graph_notes *notes;
	uint32_t *pred_start, *pred, *open, *arrived;
	uint8_t *done;
	sim_ids stack, halted; /* the ready; those that did not flow, or had to wait for peers */
	uint32_t n_done;
};

static void walk_put(struct walk_maker *m, uint32_t word)
{
	SC_VEC_PUSH(&m->notes->walk, word);
}

/* Lists what each node waits for, with the reason that this is, if it ends last. */
static void find_preds(struct walk_maker *m)
{
	const struct sc_graph *g = m->graph;
	const uint32_t n = (uint32_t)g->nodes.n;
	uint32_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		m->pred_start[i] = sum;
		sum += g->n_deps[i];
	}
	m->pred_start[n] = sum;
	m->pred = sc_xrealloc(NULL, sum + 1, sizeof(*m->pred));
	memcpy(m->open, m->pred_start, n * sizeof(*m->open));
	for (uint32_t i = 0; i < n; i++)
		if (g->lane_next[i] != SC_NONE)
			m->pred[m->open[g->lane_next[i]]++] = i | SC_BY_LANE << REASON_SHIFT;
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t why =
			g->nodes.at[i].kind == SC_NODE_LAUNCH ? SC_BY_LAUNCH : SC_BY_DEP;

		for (uint32_t k = g->succ_start[i]; k < g->succ_start[i + 1]; k++)
			m->pred[m->open[g->succ[k]]++] = i | why << REASON_SHIFT;
	}
	memcpy(m->open, g->n_deps, n * sizeof(*m->open));
}

static void walk_put_node(struct walk_maker *m, uint32_t node)
{
	const size_t at = m->notes->walk.n + 1;

	walk_put(m, node);
	walk_put(m, 0);
	for (uint32_t i = m->pred_start[node]; i < m->pred_start[node + 1]; i++)
		if (m->done[m->pred[i] & NODE_MASK])
			walk_put(m, m->pred[i]);
	m->notes->walk.at[at] = (uint32_t)(m->notes->walk.n - at - 1);
}

static void walk_put_done(struct walk_maker *m, uint32_t node)
{
	const struct sc_graph *g = m->graph;

	m->done[node] = 1;
	m->n_done++;
	for (uint32_t k = g->succ_start[node]; k < g->succ_start[node + 1]; k++)
		if (--m->open[g->succ[k]] == 0)
			SC_VEC_PUSH(&m->stack, g->succ[k]);
	if (g->lane_next[node] != SC_NONE && --m->open[g->lane_next[node]] == 0)
		SC_VEC_PUSH(&m->stack, g->lane_next[node]);
}

/* Goes on with a node as simulate.c does, but for its times. */
static void walk_put_step(struct walk_maker *m, uint32_t node)
{
	const struct sc_graph *g = m->graph;
	const uint32_t group = g->nodes.at[node].group;
	const struct sc_group *of = group == SC_NONE ? NULL : &g->groups.at[group];

	if (!of && !m->contends[g->nodes.at[node].cost]) {
		walk_put_node(m, node);
		walk_put_done(m, node);
		return;
	}
	SC_VEC_PUSH(&m->halted, node);
	if (!of || m->contends[of->cost] || ++m->arrived[group] < of->n_members)
		return;
	walk_put(m, group | STEP_OF_GROUP);
	walk_put(m, g->group_node_start[group + 1] - g->group_node_start[group]);
	for (uint32_t i = g->group_node_start[group]; i < g->group_node_start[group + 1]; i++)
		walk_put_node(m, g->group_node[i]);
	for (uint32_t i = g->group_node_start[group]; i < g->group_node_start[group + 1]; i++)
		walk_put_done(m, g->group_node[i]);
}

/* Puts what is left to the simulation: groups, nodes with what they still wait for, and those among
 * them that are ready, the one to be taken first at the end. */
static void walk_put_rest(struct walk_maker *m)
{
	const struct sc_graph *g = m->graph;
	const size_t at = m->notes->walk.n;

	walk_put(m, 0);
	for (uint32_t i = 0; i < g->groups.n; i++)
		if (m->contends[g->groups.at[i].cost] || m->arrived[i] < g->groups.at[i].n_members)
			walk_put(m, i);
	m->notes->walk.at[at] = (uint32_t)(m->notes->walk.n - at - 1);
	walk_put(m, (uint32_t)g->nodes.n - m->n_done);
	for (uint32_t i = 0; i < g->nodes.n; i++)
		if (!m->done[i]) {
			walk_put_node(m, i);
			walk_put(m, m->open[i]);
		}
	for (size_t i = m->halted.n; i-- > 0;)
		if (!m->done[m->halted.at[i]])
			walk_put(m, m->halted.at[i]);
}

static void walk_make(const struct sc_simulator *sim)
{
	const struct sc_graph *g = sim->graph;
	const size_t n = g->nodes.n;
	struct walk_maker m = {
		.graph = g,
		.contends = sim->contends.at,
		.notes = g->notes,
		.pred_start = sc_xcalloc(n + 1, sizeof(uint32_t)),
		.open = sc_xcalloc(n + 1, sizeof(uint32_t)),
		.arrived = sc_xcalloc(g->groups.n + 1, sizeof(uint32_t)),
		.done = sc_xcalloc(n + 1, 1),
	};

	find_preds(&m);
	walk_put(&m, (uint32_t)g->costs.n);
	for (size_t i = 0; i < g->costs.n; i++)
		walk_put(&m, sim->contends.at[i]);
	for (size_t i = n; i-- > 0;)
		if (!g->n_deps[i])
			SC_VEC_PUSH(&m.stack, (uint32_t)i);
	const size_t at = g->notes->walk.n;

	walk_put(&m, 0);
	while (m.stack.n)
		walk_put_step(&m, m.stack.at[--m.stack.n]);
	g->notes->walk.at[at] = (uint32_t)g->notes->walk.n;
	walk_put_rest(&m);
	free(m.pred_start);
	free(m.pred);
	free(m.open);
	free(m.arrived);
	free(m.done);
	SC_VEC_RELEASE(&m.stack);
	SC_VEC_RELEASE(&m.halted);
}

/* Takes a node's words; returns the next ones. */
static inline const uint32_t *pull_node(const struct sim_flow *f, const uint32_t *word,
					uint32_t node)
{
	const uint32_t *const end = word + *word + 1;
	uint32_t by = SC_NONE;
	double ready_us = 0;

	while (++word < end) {
		const double at_us = f->end_us[*word & NODE_MASK];

		if (at_us > ready_us) {
			ready_us = at_us;
			by = *word;
		}
	}
	f->ready_us[node] = ready_us;
	f->bound_by[node] = by == SC_NONE ? SC_NONE : by & NODE_MASK;
	f->reason[node] = by == SC_NONE ? SC_BY_NONE : (uint8_t)(by >> REASON_SHIFT);
	return end;
}

static const uint32_t *pull_group(const struct sim_flow *f, const struct sc_cost *cost,
				  const uint32_t *word, double *end_us)
{
	const uint32_t n = *word++;
	const uint32_t *member = word;
	uint32_t last = SC_NONE;
	double last_us = -1;

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t node = *word;

		word = pull_node(f, word + 1, node);
		f->ready_us[node] += sc_cost_alone_us(&f->cost[f->node[node].cost]);
		if (f->ready_us[node] > last_us) {
			last_us = f->ready_us[node];
			last = node;
		}
	}
	*end_us = last_us + cost->latency_us + cost->work_us;
	for (uint32_t i = 0; i < n; i++, member += 2 + member[1]) {
		if (f->ready_us[*member] < last_us) {
			f->bound_by[*member] = last;
			f->reason[*member] = SC_BY_PEER;
		}
		f->start_us[*member] = last_us;
		f->end_us[*member] = *end_us;
	}
	return word;
}

static const uint32_t *walk_steps(struct sc_simulator *sim, const uint32_t *word,
				  const uint32_t *end)
{
	const struct sim_flow f = sim->flow;
	double total_us = 0;

	while (word < end) {
		const uint32_t step = *word++;
		double end_us;

		if (step & STEP_OF_GROUP) {
			const uint32_t group = step & ~STEP_OF_GROUP;

			word = pull_group(&f, &f.cost[sim->graph->groups.at[group].cost], word,
					  &end_us);
		} else {
			const struct sc_cost *cost = &f.cost[f.node[step].cost];

			word = pull_node(&f, word, step);
			f.start_us[step] = f.ready_us[step];
			end_us = f.ready_us[step] + cost->latency_us + cost->work_us;
			f.end_us[step] = end_us;
		}
		if (end_us > total_us)
			total_us = end_us;
	}
	sim->total_us = total_us;
	return word;
}

static void walk_begin_rest(struct sc_simulator *sim, const uint32_t *word, const uint32_t *end)
{
	const struct sim_flow *f = &sim->flow;
	uint32_t n = *word++;

	for (; n > 0; n--, word++)
		sim->groups.at[*word] = (struct sim_group){.holders = SC_NONE, .act = SC_NONE};
	n = *word++;
	sim->n_done = sim->graph->nodes.n - n;
	for (; n > 0; n--) {
		const uint32_t node = *word;

		word = pull_node(f, word + 1, node);
		f->start_us[node] = -(double)*word++;
		f->end_us[node] = -1;
	}
	while (word < end)
		f->stack[sim->n_stack++] = *word++;
}

bool sc_sim_walk(struct sc_simulator *sim)
{
	const struct sc_graph *g = sim->graph;
	const uint32_t *word;

	if (!g->notes || sim->observe || sim->flow.slowed || g->nodes.n > NODE_MASK)
		return false;
	if (!g->notes->walk.n)
		walk_make(sim);
	word = g->notes->walk.at;
	for (uint32_t i = 0; i < g->costs.n; i++)
		if (word[1 + i] != sim->contends.at[i])
			return false;
	word += 1 + word[0];
	word = walk_steps(sim, word + 1, g->notes->walk.at + *word);
	walk_begin_rest(sim, word, g->notes->walk.at + g->notes->walk.n);
	return true;
}
