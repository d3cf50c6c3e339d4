/* Graph of a step: streams, dependencies, groups; then gaps and transfers from the measured times. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "trace/graph/build_job_priv.h"

enum lane {
	LANE_COMPUTE,
	LANE_FORWARD_SEND,
	LANE_FORWARD_RECV,
	LANE_BACKWARD_SEND,
	LANE_BACKWARD_RECV,
	LANE_REPLICAS,
	N_LANES
};

void sc_job_graph_release(struct sc_job_graph *out)
{
	sc_graph_release(&out->graph);
	free(out->node);
	free(out->group);
	free(out->gap_us);
	free(out->work_us);
	*out = (struct sc_job_graph){0};
}

static void reserve(struct sc_job_graph *out, size_t n)
{
	out->n_ops = n;
	if (out->cap >= n)
		return;
	out->cap = n;
	out->node = sc_xrealloc(out->node, n, sizeof(*out->node));
	out->group = sc_xrealloc(out->group, n, sizeof(*out->group));
	out->gap_us = sc_xrealloc(out->gap_us, n, sizeof(*out->gap_us));
	out->work_us = sc_xrealloc(out->work_us, n, sizeof(*out->work_us));
}

static void find_runs(struct job_builder *b)
{
	for (uint32_t i = 0; i < b->out->n_ops; i++) {
		struct job_ops *run = sc_job_ops_of(b, b->ops[i].worker, b->ops[i].type);

		if (!run->n)
			run->first = i;
		run->n++;
	}
}

/* ---- nodes ---- */

static void add_op(struct job_builder *b, uint32_t lane, uint32_t op)
{
	const uint32_t group = b->out->group[op];

	if (group != SC_NONE)
		b->out->node[op] =
			sc_graph_add_member(b->graph, lane, group, (struct sc_node_use){op, op});
	else
		b->out->node[op] = sc_graph_add_node(b->graph, SC_NODE_KERNEL, lane,
						     (struct sc_node_use){op, op});
}

static void add_run(struct job_builder *b, uint32_t lane, const struct job_ops *run)
{
	for (uint32_t i = 0; i < run->n; i++)
		add_op(b, lane, run->first + i);
}

/* Forward and backward as they were measured, one after another. */
static void add_computations(struct job_builder *b, uint32_t lane, uint32_t worker)
{
	const struct job_ops *f = sc_job_ops_of(b, worker, SC_JOB_FORWARD);
	const struct job_ops *r = sc_job_ops_of(b, worker, SC_JOB_BACKWARD);
	uint32_t i = 0, k = 0;

	while (i < f->n || k < r->n) {
		if (k == r->n ||
		    (i < f->n && b->ops[f->first + i].start_ns <= b->ops[r->first + k].start_ns))
			add_op(b, lane, f->first + i++);
		else
			add_op(b, lane, r->first + k++);
	}
}

static void add_nodes(struct job_builder *b)
{
	static const struct {
		enum sc_lane_kind kind;
		int type;
	} lanes[N_LANES] = {
		[LANE_COMPUTE] = {SC_LANE_COMPUTE, 0},
		[LANE_FORWARD_SEND] = {SC_LANE_COMM, SC_JOB_FORWARD_SEND},
		[LANE_FORWARD_RECV] = {SC_LANE_COMM, SC_JOB_FORWARD_RECV},
		[LANE_BACKWARD_SEND] = {SC_LANE_COMM, SC_JOB_BACKWARD_SEND},
		[LANE_BACKWARD_RECV] = {SC_LANE_COMM, SC_JOB_BACKWARD_RECV},
		[LANE_REPLICAS] = {SC_LANE_COMM, SC_JOB_GATHER},
	};

	for (uint32_t w = 0; w < b->job->workers.n; w++) {
		sc_graph_add_class(b->graph, (struct sc_class){.multiplicity = 1,
							       .nic_domain = w,
							       .ranks_per_domain = 1,
							       .slowdown = 1,
							       .name = SC_NONE});
		for (int l = 0; l < N_LANES; l++) {
			const uint32_t lane = sc_graph_add_lane(b->graph, w, lanes[l].kind);

			if (l != LANE_COMPUTE) {
				add_run(b, lane, sc_job_ops_of(b, w, lanes[l].type));
				continue;
			}
			add_computations(b, lane, w);
			for (int t = SC_JOB_GC; t <= SC_JOB_OPTIMIZER; t++)
				add_run(b, lane, sc_job_ops_of(b, w, t));
		}
		add_run(b, w * N_LANES + LANE_REPLICAS, sc_job_ops_of(b, w, SC_JOB_SCATTER));
	}
}

/* ---- dependencies ---- */

static void add_dep(struct job_builder *b, uint32_t op, uint32_t on)
{
	sc_graph_add_dep(b->graph, b->out->node[op], b->out->node[on]);
}

static void depend_transfers(struct job_builder *b, uint32_t worker, int type)
{
	const struct job_ops *compute = sc_job_compute_of(b, worker, type);
	struct job_walk walk = sc_job_walk_begin(b, worker, type);

	while (sc_job_walk_next(&walk)) {
		b->out->n_unpaired += walk.moves && b->out->group[walk.op] == SC_NONE;
		if (walk.matched == SC_NONE)
			continue;
		if (!sc_job_is_recv(type)) {
			add_dep(b, walk.op, walk.matched);
			continue;
		}
		add_dep(b, walk.matched, walk.op);
		if (walk.matched > compute->first)
			add_dep(b, walk.op, walk.matched - 1);
	}
}

/* Of the first pass back nothing is posted before the second last forward of the warm-up. */
static void depend_first_back(struct job_builder *b, uint32_t worker)
{
	const struct job_ops *f = sc_job_ops_of(b, worker, SC_JOB_FORWARD);
	const struct job_ops *r = sc_job_ops_of(b, worker, SC_JOB_BACKWARD);
	uint32_t n_before = 0;

	if (!r->n)
		return;
	while (n_before < f->n && b->ops[f->first + n_before].start_ns <= b->ops[r->first].start_ns)
		n_before++;
	if (n_before < 2)
		return;
	for (int t = SC_JOB_BACKWARD_SEND; t <= SC_JOB_BACKWARD_RECV; t++)
		if (sc_job_ops_of(b, worker, t)->n)
			add_dep(b, sc_job_ops_of(b, worker, t)->first, f->first + n_before - 2);
}

/* Receives that start at the same instant as a send were posted in one call with it. */
static void depend_batched(struct job_builder *b, uint32_t worker, int send, int recv)
{
	struct job_walk walk = sc_job_walk_begin(b, worker, send);
	const struct job_ops *run = sc_job_ops_of(b, worker, recv);
	uint32_t i = 0;

	while (sc_job_walk_next(&walk)) {
		const int64_t at_ns = b->ops[walk.op].start_ns;

		while (i < run->n && b->ops[run->first + i].start_ns < at_ns)
			i++;
		if (i < run->n && b->ops[run->first + i].start_ns == at_ns &&
		    walk.matched != SC_NONE)
			add_dep(b, run->first + i, walk.matched);
	}
}

/* Parameters of a chunk come before its first forward. */
static void depend_gathers(struct job_builder *b, uint32_t worker)
{
	const struct job_ops *gather = sc_job_ops_of(b, worker, SC_JOB_GATHER);
	const struct job_ops *f = sc_job_ops_of(b, worker, SC_JOB_FORWARD);

	for (uint32_t g = gather->first; g < gather->first + gather->n; g++) {
		const int32_t chunk = b->ops[g].chunk;
		const bool last =
			g + 1 == gather->first + gather->n || b->ops[g + 1].chunk != chunk;

		for (uint32_t i = f->first; last && i < f->first + f->n; i++) {
			if (b->ops[i].chunk != chunk && chunk >= 0)
				continue;
			add_dep(b, i, g);
			break;
		}
	}
}

/* Gradients of a chunk are reduced after its last backward. */
static void depend_scatters(struct job_builder *b, uint32_t worker)
{
	const struct job_ops *scatter = sc_job_ops_of(b, worker, SC_JOB_SCATTER);
	const struct job_ops *r = sc_job_ops_of(b, worker, SC_JOB_BACKWARD);

	for (uint32_t s = scatter->first; s < scatter->first + scatter->n; s++) {
		const int32_t chunk = b->ops[s].chunk;

		for (uint32_t i = r->first + r->n; i-- > r->first;) {
			if (b->ops[i].chunk != chunk && chunk >= 0)
				continue;
			add_dep(b, s, i);
			break;
		}
	}
}

/* The end of the step is one chain on the stream of computation; reduced gradients are part of it. */
static void depend_end(struct job_builder *b, uint32_t worker)
{
	const struct job_ops *scatter = sc_job_ops_of(b, worker, SC_JOB_SCATTER);
	const int after = b->job->overlaps ? SC_JOB_LAYERNORM : SC_JOB_CLIP;
	const struct job_ops *next = sc_job_ops_of(b, worker, after);
	uint32_t before = SC_NONE;

	if (!scatter->n)
		return;
	for (int t = SC_JOB_BACKWARD; t < SC_JOB_CLIP && !b->job->overlaps; t++)
		if (sc_job_ops_of(b, worker, t)->n)
			before = sc_job_ops_of(b, worker, t)->first +
				 sc_job_ops_of(b, worker, t)->n - 1;
	if (before != SC_NONE)
		add_dep(b, scatter->first, before);
	if (next->n)
		add_dep(b, next->first, scatter->first + scatter->n - 1);
	for (int t = SC_JOB_FORWARD_SEND; t <= SC_JOB_BACKWARD_RECV; t++) {
		const struct job_ops *run = sc_job_ops_of(b, worker, t);
		const struct job_ops *norm = sc_job_ops_of(b, worker, SC_JOB_LAYERNORM);

		if (run->n && norm->n)
			add_dep(b, norm->first, run->first + run->n - 1);
	}
}

static void add_deps(struct job_builder *b)
{
	for (uint32_t w = 0; w < b->job->workers.n; w++) {
		for (int t = SC_JOB_FORWARD_SEND; t <= SC_JOB_BACKWARD_RECV; t++)
			depend_transfers(b, w, t);
		depend_first_back(b, w);
		depend_batched(b, w, SC_JOB_FORWARD_SEND, SC_JOB_FORWARD_RECV);
		depend_batched(b, w, SC_JOB_FORWARD_SEND, SC_JOB_BACKWARD_RECV);
		depend_batched(b, w, SC_JOB_BACKWARD_SEND, SC_JOB_FORWARD_RECV);
		depend_batched(b, w, SC_JOB_BACKWARD_SEND, SC_JOB_BACKWARD_RECV);
		depend_gathers(b, w);
		if (b->job->overlaps)
			depend_scatters(b, w);
		depend_end(b, w);
	}
}

/* ---- measured times ---- */

/* From the end of all that it waits for, its lane's last operation among them, to its start. */
static void measure_gaps(struct job_builder *b)
{
	const struct sc_graph *graph = b->graph;
	struct sc_job_graph *out = b->out;
	const size_t n = out->n_ops;
	int64_t *free_ns = sc_xmalloc(n * sizeof(*free_ns) + 1);

	memset(free_ns, 0, n * sizeof(*free_ns));
	for (size_t i = 0; i < graph->edges.n; i++) {
		const uint32_t from = graph->nodes.at[graph->edges.at[i] >> 32].op;
		const uint32_t to = graph->nodes.at[(uint32_t)graph->edges.at[i]].op;

		if (b->ops[from].end_ns > free_ns[to])
			free_ns[to] = b->ops[from].end_ns;
	}
	for (size_t i = 1; i < n; i++) {
		const uint32_t from = graph->nodes.at[i - 1].op, to = graph->nodes.at[i].op;

		if (graph->nodes.at[i].lane == graph->nodes.at[i - 1].lane &&
		    b->ops[from].end_ns > free_ns[to])
			free_ns[to] = b->ops[from].end_ns;
	}
	for (size_t i = 0; i < n; i++) {
		const int64_t gap_ns = b->ops[i].start_ns - free_ns[i];

		out->gap_us[i] = gap_ns > 0 ? sc_ns_us(gap_ns) : 0;
		out->work_us[i] = sc_ns_us(b->ops[i].end_ns - b->ops[i].start_ns);
	}
	free(free_ns);
}

/* From the last arrival to the first end; what each member waited is no part of it. */
static void measure_transfers(struct job_builder *b)
{
	struct sc_job_graph *out = b->out;
	const size_t n_groups = b->graph->groups.n;
	int64_t *arrived = sc_xmalloc((n_groups + 1) * sizeof(*arrived));
	int64_t *ended = sc_xmalloc((n_groups + 1) * sizeof(*ended));

	for (size_t g = 0; g < n_groups; g++) {
		arrived[g] = INT64_MIN;
		ended[g] = INT64_MAX;
	}
	for (size_t i = 0; i < out->n_ops; i++) {
		const uint32_t g = out->group[i];

		if (g == SC_NONE)
			continue;
		if (b->ops[i].start_ns > arrived[g])
			arrived[g] = b->ops[i].start_ns;
		if (b->ops[i].end_ns < ended[g])
			ended[g] = b->ops[i].end_ns;
	}
	for (size_t i = 0; i < out->n_ops; i++) {
		const uint32_t g = out->group[i];

		if (g != SC_NONE)
			out->work_us[i] =
				ended[g] > arrived[g] ? sc_ns_us(ended[g] - arrived[g]) : 0;
	}
	free(arrived);
	free(ended);
}

/* Of a cost that is all 0 but for its times and owners: the host's gap before, work after. */
static void set_cost(struct sc_cost *cost, double gap_us, double work_us, enum sc_owner owner)
{
	cost->latency_us = gap_us;
	cost->work_us = work_us;
	cost->owner_frac[owner] = 1;
	cost->gap = SC_GAP_HOST;
}

void sc_job_graph_set(const struct sc_job *job, size_t step, struct sc_job_graph *graph,
		      const double *gap_us, const double *work_us)
{
	const struct sc_job_op *ops = &job->ops.at[job->steps.at[step].first_op];
	struct sc_cost *cost = graph->graph.costs.at;

	assert(graph->n_ops == job->steps.at[step].n_ops);
	for (size_t i = 0; i < graph->n_ops; i++) {
		const enum sc_owner owner = sc_job_types[ops[i].type].owner;
		const uint32_t group = graph->group[i];

		set_cost(&cost[i], gap_us[i], group == SC_NONE ? work_us[i] : 0, owner);
		if (group != SC_NONE)
			set_cost(&cost[graph->n_ops + group], 0, work_us[i], owner);
	}
}

void sc_build_job_step(const struct sc_job *job, size_t step, struct sc_job_graph *out)
{
	const size_t n_workers = job->workers.n, n_tables = n_workers * SC_N_JOB_TYPES;
	struct job_builder b = {
		.job = job,
		.ops = &job->ops.at[job->steps.at[step].first_op],
		.out = out,
		.graph = &out->graph,
		.runs = sc_xmalloc(n_tables * sizeof(*b.runs)),
		.group_base = sc_xmalloc(n_tables * sizeof(*b.group_base)),
		.n_groups = sc_xmalloc(n_tables * sizeof(*b.n_groups)),
	};
	size_t n_groups;

	memset(b.runs, 0, n_tables * sizeof(*b.runs));
	memset(b.n_groups, 0, n_tables * sizeof(*b.n_groups));
	reserve(out, job->steps.at[step].n_ops);
	out->n_unpaired = 0;
	sc_graph_clear(b.graph);
	find_runs(&b);
	sc_job_add_groups(&b);
	n_groups = b.graph->groups.n;
	add_nodes(&b);
	add_deps(&b);
	measure_gaps(&b);
	measure_transfers(&b);
	SC_VEC_RESERVE(&b.graph->costs, out->n_ops + n_groups);
	b.graph->costs.n = out->n_ops + n_groups;
	memset(b.graph->costs.at, 0, b.graph->costs.n * sizeof(*b.graph->costs.at));
	sc_job_graph_set(job, step, out, out->gap_us, out->work_us);
	sc_graph_seal(b.graph);
	free(b.runs);
	free(b.group_base);
	free(b.n_groups);
}
