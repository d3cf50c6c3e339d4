/* The graph of one iteration: nodes of all ranks, edges, then the collectives of several ranks. */
#include "trace/graph/build_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/units.h"
#include "trace/graph/trace_order.h"

void sc_trace_graph_release(struct sc_trace_graph *graph)
{
	sc_graph_release(&graph->graph);
	SC_VEC_RELEASE(&graph->refs);
	SC_VEC_RELEASE(&graph->begin);
	SC_VEC_RELEASE(&graph->end);
	SC_VEC_RELEASE(&graph->call_node);
	SC_VEC_RELEASE(&graph->act_node);
	SC_VEC_RELEASE(&graph->lane_last);
	SC_VEC_RELEASE(&graph->instance_group);
}

/* One rank's part while it is built. */
struct part {
	const struct sc_trace_run *run;
	const struct sc_trace_rank *rank;
	const struct sc_trace_iteration *it;
	uint32_t lane; /* first of the rank */
	int64_t begin_ns;
	uint32_t begin_node;
	struct sc_trace_graph *out;
};

struct gap {
	double us;
	enum sc_gap by;
};

/* A latency, or longer than any. */
static struct gap gap_of_latency(double us, enum sc_gap latency)
{
	const bool explained = us <= sc_ns_us(SC_TRACE_LATENCY_NS);

	return (struct gap){us, explained ? latency : SC_GAP_UNEXPLAINED};
}

static uint32_t add_node(struct part *p, enum sc_node_kind kind, uint32_t lane, struct gap gap,
			 double work_us, enum sc_owner owner)
{
	struct sc_cost cost = {.latency_us = gap.us, .work_us = work_us, .gap = (uint8_t)gap.by};

	cost.owner_frac[owner] = 1;
	return sc_graph_add_node(
		&p->out->graph, kind, lane,
		(struct sc_node_use){sc_graph_add_cost(&p->out->graph, &cost), SC_NONE});
}

static uint32_t node_refer(struct part *p, uint32_t node, enum sc_trace_node_kind kind,
			   uint32_t index, uint32_t name)
{
	const struct sc_trace_node ref = {.index = index, .kind = (uint8_t)kind};

	p->out->graph.nodes.at[node].op = name;
	SC_VEC_PUSH(&p->out->refs, ref);
	return node;
}

/* ---- calls ---- */

/* A call that waits is two nodes: the host's work before it, and the wait. */
static void add_call(struct part *p, uint32_t c)
{
	const struct sc_call *call = &p->rank->calls.at[c];
	const bool is_launch = call->kind == SC_CALL_LAUNCH || call->kind == SC_CALL_QUEUED;
	const uint32_t lane = p->lane + call->lane;
	const struct gap work = {(double)call->gap_us, SC_GAP_HOST};
	const struct gap tail = gap_of_latency(
		(double)call->tail_us, call->kind == SC_CALL_QUEUED ? SC_GAP_QUEUE : SC_GAP_HOST);
	uint32_t node;

	node = add_node(p, is_launch ? SC_NODE_LAUNCH : SC_NODE_HOST, lane, work, 0, SC_OWN_HOST);
	node_refer(p, node, SC_TRACE_NODE_CALL, c, call->name);
	if (call->after != SC_NONE && call->after >= p->it->begin)
		sc_graph_add_dep(&p->out->graph, node,
				 p->out->call_node.at[call->after - p->it->begin]);
	if (sc_call_waits(call)) {
		node = add_node(p, SC_NODE_SYNC, lane, tail, 0, SC_OWN_HOST);
		node_refer(p, node, SC_TRACE_NODE_SYNC, c, call->name);
	}
	p->out->call_node.at[c - p->it->begin] = node;
}

static void add_calls(struct part *p)
{
	const struct sc_call *begin = &p->rank->calls.at[p->it->begin];
	const uint32_t n = p->it->end - p->it->begin + 1;
	const struct gap late = {sc_ns_us(p->begin_ns), SC_GAP_PEER};

	SC_VEC_RESERVE(&p->out->call_node, n);
	p->out->call_node.n = n;
	p->out->call_node.at[0] = p->begin_node =
		add_node(p, SC_NODE_HOST, p->lane + begin->lane, late, 0, SC_OWN_PEER);
	node_refer(p, p->begin_node, SC_TRACE_NODE_BEGIN, p->it->begin, begin->name);
	SC_VEC_PUSH(&p->out->begin, p->begin_node);
	for (uint32_t c = p->it->begin + 1; c <= p->it->end; c++)
		add_call(p, c);
	SC_VEC_PUSH(&p->out->end, p->out->call_node.at[n - 1]);
}

/* ---- activities ---- */

static bool is_own(const struct part *p, const struct sc_act *a)
{
	return a->place != SC_NONE && a->place >= p->it->begin && a->place < p->it->end;
}

static int32_t instance_of(const struct sc_trace_rank *rank, const struct sc_act *a)
{
	return a->merge_call == SC_NONE ? SC_MERGE_NO_INSTANCE
					: rank->collectives.at[a->merge_call].instance;
}

int sc_trace_ranks_of(const struct sc_trace_run *run, const struct sc_merge_call *collective)
{
	if (collective->group_size > 0)
		return collective->group_size;
	if (run->world > 0)
		return run->world;
	return collective->instance < 0 ? 0 : (int)run->merge.n_members.at[collective->instance];
}

double sc_trace_act_work_us(const struct sc_trace_run *run, const struct sc_trace_rank *rank,
			    const struct sc_act *act)
{
	const int32_t instance = instance_of(rank, act);

	if (instance >= 0 && !isnan(run->transfer_us.at[instance]))
		return run->transfer_us.at[instance];
	return sc_ns_us(act->dur_ns);
}

struct sc_trace_rest sc_trace_act_rest(const struct sc_trace_rank *rank, uint32_t begin,
				       const struct sc_act *act, uint32_t before)
{
	struct sc_trace_rest rest = {0};
	int64_t ready = rank->calls.at[begin].start_ns;

	if (before != SC_NONE && sc_act_end(&rank->acts.at[before]) > ready)
		ready = sc_act_end(&rank->acts.at[before]);
	rest.gap_us = act->start_ns > ready ? sc_ns_us(act->start_ns - ready) : 0;
	rest.work_us = sc_ns_us(act->start_ns > ready ? act->dur_ns : sc_act_end(act) - ready);
	rest.work_us = fmax(0, rest.work_us);
	return rest;
}

static uint32_t node_of_act(const struct part *p, uint32_t act)
{
	if (act == SC_NONE || act < p->it->first_act || act >= p->it->end_act)
		return SC_NONE;
	return p->out->act_node.at[act - p->it->first_act];
}

static void add_waits(struct part *p, uint32_t node, uint32_t first, uint8_t n)
{
	for (uint8_t i = 0; i < n; i++) {
		const uint32_t other = node_of_act(p, p->rank->waits.at[first + i]);

		sc_graph_add_dep(&p->out->graph, node, other);
	}
}

static const enum sc_node_kind NODE_KINDS[] = {
	[SC_ACT_KERNEL] = SC_NODE_KERNEL,
	[SC_ACT_COLLECTIVE] = SC_NODE_KERNEL,
	[SC_ACT_COPY] = SC_NODE_COPY,
	[SC_ACT_SET] = SC_NODE_COPY,
};

/* `before`: the activity before it on its lane, if that is in the graph. */
static void add_own_act(struct part *p, uint32_t a, uint32_t before)
{
	const struct sc_act *act = &p->rank->acts.at[a];
	const int32_t instance = instance_of(p->rank, act);
	const uint32_t lane = p->lane + p->rank->n_threads + act->lane;
	const uint32_t group = instance < 0 ? SC_NONE : p->out->instance_group.at[instance];
	const enum sc_owner owner = (enum sc_owner)p->run->owner.at[act->name];
	const double gap_us =
		act->launch != SC_NONE
			? (double)act->gap_us
			: fmin(sc_trace_act_rest(p->rank, p->it->begin, act, before).gap_us,
			       (double)act->gap_us);
	const struct gap gap = p->run->n_replicas ? (struct gap){gap_us, SC_GAP_HOST}
			       : sc_act_in_graph(p->rank, a)
				       ? (struct gap){gap_us, SC_GAP_GRAPH}
				       : gap_of_latency(gap_us, SC_GAP_LAUNCH);
	uint32_t node, launch;

	if (group != SC_NONE) {
		node = add_node(p, SC_NODE_MEMBER, lane, gap, 0, owner);
		p->out->graph.nodes.at[node].group = group;
	} else {
		node = add_node(p, NODE_KINDS[act->kind], lane, gap, sc_ns_us(act->dur_ns), owner);
	}
	node_refer(p, node, SC_TRACE_NODE_ACT, a, act->name);
	p->out->act_node.at[a - p->it->first_act] = node;
	if (act->launch == SC_NONE)
		launch = p->begin_node;
	else /* the node at whose end the call begins, and not the wait in it */
		launch = p->out->call_node.at[act->launch - p->it->begin] -
			 sc_call_waits(&p->rank->calls.at[act->launch]);
	sc_graph_add_dep(&p->out->graph, node, launch);
}

static void add_carried_act(struct part *p, uint32_t a, uint32_t before)
{
	const struct sc_act *act = &p->rank->acts.at[a];
	const struct sc_trace_rest rest = sc_trace_act_rest(p->rank, p->it->begin, act, before);
	const uint32_t lane = p->lane + p->rank->n_threads + act->lane;
	uint32_t node;

	node = add_node(p, NODE_KINDS[act->kind], lane, gap_of_latency(rest.gap_us, SC_GAP_LAUNCH),
			rest.work_us, (enum sc_owner)p->run->owner.at[act->name]);
	node_refer(p, node, SC_TRACE_NODE_CARRIED, a, act->name);
	p->out->act_node.at[a - p->it->first_act] = node;
	sc_graph_add_dep(&p->out->graph, node, p->begin_node);
}

static void add_acts(struct part *p)
{
	const uint32_t n = p->it->end_act - p->it->first_act;
	uint32_t *last;

	SC_VEC_RESERVE(&p->out->act_node, n + 1);
	p->out->act_node.n = n;
	SC_VEC_RESERVE(&p->out->lane_last, p->rank->streams.n + 1);
	last = p->out->lane_last.at;
	memset(last, 0xff, (p->rank->streams.n + 1) * sizeof(*last));
	for (uint32_t a = p->it->first_act; a < p->it->end_act; a++) {
		const struct sc_act *act = &p->rank->acts.at[a];

		p->out->act_node.at[a - p->it->first_act] = SC_NONE;
		if (is_own(p, act))
			add_own_act(p, a, last[act->lane]);
		else if ((act->place == SC_NONE || act->place < p->it->begin) &&
			 sc_act_end(act) > p->rank->calls.at[p->it->begin].start_ns)
			add_carried_act(p, a, last[act->lane]);
		else
			continue;
		last[act->lane] = a;
	}
}

/* Activities and calls wait for activities: all are there now. */
static void add_all_waits(struct part *p)
{
	for (uint32_t a = p->it->first_act; a < p->it->end_act; a++) {
		const struct sc_act *act = &p->rank->acts.at[a];
		const uint32_t node = node_of_act(p, a);

		if (node != SC_NONE && p->out->refs.at[node].kind == SC_TRACE_NODE_ACT)
			add_waits(p, node, act->first_wait, act->n_waits);
	}
	for (uint32_t c = p->it->begin; c <= p->it->end; c++) {
		const struct sc_call *call = &p->rank->calls.at[c];

		if (call->n_waits)
			add_waits(p, p->out->call_node.at[c - p->it->begin], call->first_wait,
				  call->n_waits);
	}
}

/* ---- groups ---- */

/* A member in this iteration of an instance. */
struct part_of {
	uint32_t instance, rank; /* sc_trace_compare_pair */
	uint32_t name;
};

/* Instances of which several ranks have a member. */
static void add_groups(const struct sc_trace_run *run, size_t iteration, struct sc_trace_graph *out)
{
	SC_VEC(struct part_of) parts = {0};
	SC_VEC(struct sc_member) members = {0};

	SC_VEC_RESERVE(&out->instance_group, run->merge.n_members.n + 1);
	memset(out->instance_group.at, 0xff, (run->merge.n_members.n + 1) * sizeof(uint32_t));
	for (uint32_t r = 0; r < run->ranks.n; r++) {
		const struct part p = {.run = run,
				       .rank = &run->ranks.at[r],
				       .it = &run->ranks.at[r].iterations.at[iteration]};

		for (uint32_t a = p.it->first_act; a < p.it->end_act; a++) {
			const struct sc_act *act = &p.rank->acts.at[a];
			const int32_t i = instance_of(p.rank, act);

			if (i >= 0 && !isnan(run->transfer_us.at[i]) && is_own(&p, act))
				SC_VEC_PUSH(&parts, ((struct part_of){(uint32_t)i, r, act->name}));
		}
	}
	SC_SORT(parts.at, parts.n, sc_trace_compare_pair);
	for (size_t k = 0, end; k < parts.n; k = end) {
		const uint32_t i = parts.at[k].instance;
		struct sc_cost cost = {.work_us = run->transfer_us.at[i]};

		members.n = 0;
		for (end = k; end < parts.n && parts.at[end].instance == i; end++)
			SC_VEC_PUSH(&members, ((struct sc_member){parts.at[end].rank, 1}));
		if (end - k < 2)
			continue;
		cost.owner_frac[run->n_replicas ? run->owner.at[parts.at[k].name] : SC_OWN_COMM] =
			1;
		out->instance_group.at[i] = sc_graph_add_group(
			&out->graph,
			(struct sc_node_use){sc_graph_add_cost(&out->graph, &cost), SC_NONE},
			members.at, (uint32_t)members.n);
	}
	SC_VEC_RELEASE(&members);
	SC_VEC_RELEASE(&parts);
}

/* ---- the whole ---- */

void sc_build_trace(const struct sc_trace_run *run, size_t iteration, struct sc_trace_graph *out)
{
	int64_t first_ns = INT64_MAX; /* when the first rank begins: 0 of the graph */
	uint32_t lane = 0;

	sc_graph_clear(&out->graph);
	out->refs.n = out->begin.n = out->end.n = 0;
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct sc_class class = {.multiplicity = 1,
					       .nic_domain = (uint32_t)r,
					       .ranks_per_domain = 1,
					       .slowdown = 1,
					       .name = SC_NONE};
		const struct sc_trace_rank *rank = &run->ranks.at[r];
		const uint32_t class_id = sc_graph_add_class(&out->graph, class);
		const int64_t begin_ns =
			rank->calls.at[rank->iterations.at[iteration].begin].start_ns;

		first_ns = begin_ns < first_ns ? begin_ns : first_ns;
		for (uint32_t t = 0; t < rank->n_threads; t++)
			sc_graph_add_lane(&out->graph, class_id, SC_LANE_HOST);
		for (size_t s = 0; s < rank->streams.n; s++)
			sc_graph_add_lane(&out->graph, class_id,
					  rank->streams.at[s].comm ? SC_LANE_COMM
								   : SC_LANE_COMPUTE);
	}
	add_groups(run, iteration, out);
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct sc_trace_rank *rank = &run->ranks.at[r];
		struct part p = {
			.run = run,
			.rank = rank,
			.it = &rank->iterations.at[iteration],
			.lane = lane,
			.out = out,
		};

		p.begin_ns = rank->calls.at[p.it->begin].start_ns - first_ns;
		add_calls(&p);
		add_acts(&p);
		add_all_waits(&p);
		lane += rank->n_threads + (uint32_t)rank->streams.n;
	}
	sc_graph_seal(&out->graph);
}
