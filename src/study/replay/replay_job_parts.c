/* Where each worker's time went: its stream of computation from the first to the last microsecond, every
 * idle stretch owned by what ended it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/replay/replay_job_priv.h"

struct view {
	const struct sc_job_op *ops;
	const struct sc_graph *graph;
	const struct sc_timeline *tl;
	uint32_t *blocker; /* of each node the explicit dependency that ends last, or SC_NONE */
};

static uint32_t class_of(const struct view *v, uint32_t node)
{
	return v->graph->lanes.at[v->graph->nodes.at[node].lane].class_id;
}

static double gap_of(const struct view *v, uint32_t node)
{
	return v->graph->costs.at[v->graph->nodes.at[node].cost].latency_us;
}

static const struct sc_job_type_info *type_of(const struct view *v, uint32_t node)
{
	return &sc_job_types[v->ops[v->graph->nodes.at[node].op].type];
}

static void find_blockers(struct view *v)
{
	for (size_t i = 0; i < v->graph->nodes.n; i++)
		v->blocker[i] = SC_NONE;
	for (size_t i = 0; i < v->graph->edges.n; i++) {
		const uint32_t from = (uint32_t)(v->graph->edges.at[i] >> 32);
		uint32_t *blocker = &v->blocker[(uint32_t)v->graph->edges.at[i]];

		if (*blocker == SC_NONE || v->tl->end_us[from] > v->tl->end_us[*blocker])
			*blocker = from;
	}
}

static double overlap(double from, double to, double begin, double end)
{
	const double us = fmin(to, end) - fmax(from, begin);

	return us > 0 ? us : 0;
}

static enum sc_replay_part wait_part(const struct sc_job_type_info *type)
{
	return type->span == SC_SPAN_PAIR ? SC_PART_PIPELINE : SC_PART_PEERS;
}

/* Idle until `to` because of a node on another stream: its transfer, what it waited for its peers, its
 * launch gap; before that the transfers ahead of it on its stream. */
static void own_idle(const struct view *v, uint32_t by, double from, double to, double *us)
{
	const struct sc_timeline *tl = v->tl;
	double left = to - from, part;

	if (by == SC_NONE) {
		us[SC_PART_HOST] += left;
		return;
	}
	part = overlap(from, to, tl->start_us[by], tl->end_us[by]);
	us[SC_PART_COMM] += part;
	left -= part;
	part = overlap(from, to, tl->ready_us[by], tl->start_us[by]);
	us[wait_part(type_of(v, by))] += part;
	left -= part;
	part = overlap(from, to, tl->ready_us[by] - gap_of(v, by), tl->ready_us[by]);
	us[SC_PART_HOST] += part;
	left -= part;
	us[type_of(v, by)->span == SC_SPAN_PAIR ? SC_PART_PIPELINE : SC_PART_COMM] +=
		left > 0 ? left : 0;
}

static enum sc_replay_part work_part(const struct sc_job_type_info *type)
{
	if (type->kind == SC_REPLAY_KERNEL)
		return SC_PART_COMPUTE;
	return type->kind == SC_REPLAY_HOST ? SC_PART_HOST : SC_PART_COMM;
}

/* One node of the stream of computation, which was free from `from` on. */
static void own_node(const struct view *v, uint32_t node, double from, double *us)
{
	const struct sc_job_type_info *type = type_of(v, node);
	const double gap_us = gap_of(v, node), start_us = v->tl->start_us[node];
	const bool member = v->graph->nodes.at[node].kind == SC_NODE_MEMBER;
	const double begin_us = member ? v->tl->ready_us[node] - gap_us : start_us;

	if (begin_us > from)
		own_idle(v, v->blocker[node], from, begin_us, us);
	us[SC_PART_HOST] += gap_us;
	if (member) {
		us[wait_part(type)] += start_us - v->tl->ready_us[node];
		us[work_part(type)] += v->tl->end_us[node] - start_us;
	} else {
		us[work_part(type)] += v->tl->end_us[node] - start_us - gap_us;
	}
}

void sc_job_parts(const struct sc_job *job, size_t step, const struct job_scratch *scratch,
		  struct job_part *parts)
{
	struct view v = {
		.ops = &job->ops.at[job->steps.at[step].first_op],
		.graph = &scratch->graph.graph,
		.tl = &scratch->timeline,
	};
	double *free_us = sc_xmalloc(job->workers.n * sizeof(*free_us));

	v.blocker = sc_xmalloc(v.graph->nodes.n * sizeof(*v.blocker) + 1);
	find_blockers(&v);
	for (size_t w = 0; w < job->workers.n; w++) {
		parts[w] = (struct job_part){.late_us = 0};
		free_us[w] = 0;
	}
	for (uint32_t i = 0; i < v.graph->nodes.n; i++) {
		const uint32_t w = class_of(&v, i);

		if (v.tl->reason[i] == SC_BY_PEER)
			parts[class_of(&v, v.tl->bound_by[i])].late_us +=
				v.tl->start_us[i] - v.tl->ready_us[i];
		if (v.graph->lanes.at[v.graph->nodes.at[i].lane].kind != SC_LANE_COMPUTE)
			continue;
		own_node(&v, i, free_us[w], parts[w].us);
		free_us[w] = v.tl->end_us[i];
	}
	for (size_t w = 0; w < job->workers.n; w++)
		parts[w].us[SC_PART_DONE] += v.tl->total_us - free_us[w];
	free(v.blocker);
	free(free_us);
}
