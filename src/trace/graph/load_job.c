/* A job's operations from a trace's events, step by step and worker by worker, and the run they make. Knows the types,
 * not how they depend on each other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/units.h"
#include "core/graph/op.h"
#include "trace/graph/build_trace_priv.h"
#include "trace/graph/job.h"
#include "trace/graph/kernel_family.h"

struct job_op {
	int64_t start_ns, end_ns;
	uint32_t worker, event;
	uint32_t group; /* in its step, or SC_NONE */
	uint32_t act;   /* of its rank */
	int32_t step, seq, chunk;
	uint8_t type; /* enum sc_job_type */
};
/* Operations of one worker and type in a step. */
struct job_ops {
	uint32_t first, n;
};
struct job {
	struct sc_trace_run *run;
	uint32_t n_dp, n_stages, n_workers, n_chunks;
	bool overlaps;             /* gradients are reduced while others are computed */
	SC_VEC(struct job_op) all; /* by step, worker, type, number */
	/* The step at hand: */
	struct job_op *ops;
	uint32_t n_ops;
	struct job_ops *of;           /* [worker][type] */
	uint32_t n_groups;            /* find_rules sets them, op.group, and */
	SC_VEC(uint64_t) waits;       /* operation << 32 | one that it waits for; rising */
	uint32_t *first_group, *n_of; /* scratch: [type][worker] */
};
static inline const struct job_ops *job_ops_of(const struct job *job, uint32_t worker, int type)
{
	return &job->of[(size_t)worker * SC_N_JOB_TYPES + (size_t)type];
}

enum { ARENA_BYTES = 64 << 10, N_LANES = 6, NO_RANK = INT32_MIN };

/* The types of the publisher's job traces (ByteDance-Seed/StragglerAnalysis, readme). */
const struct sc_job_type_info sc_job_types[SC_N_JOB_TYPES] = {
	[SC_JOB_FORWARD] = {"forward-compute", -1, SC_SPAN_SELF, SC_OWN_COMPUTE, 0},
	[SC_JOB_BACKWARD] = {"backward-compute", -1, SC_SPAN_SELF, SC_OWN_COMPUTE, 0},
	[SC_JOB_GC] = {"gc", -1, SC_SPAN_SELF, SC_OWN_HOST, 0},
	[SC_JOB_LAYERNORM] = {"layernorm-grads-all-reduce", SC_ALL_REDUCE, SC_SPAN_SELF,
			      SC_OWN_COMM, 0},
	[SC_JOB_EMBEDDING] = {"embedding-grads-all-reduce", SC_ALL_REDUCE, SC_SPAN_ENDS,
			      SC_OWN_COMM, 0},
	[SC_JOB_SEPARATE] = {"separate-grads-all-reduce", SC_ALL_REDUCE, SC_SPAN_STAGE, SC_OWN_COMM,
			     0},
	[SC_JOB_CLIP] = {"optimizer-clip-main-grad", SC_ALL_REDUCE, SC_SPAN_ALL, SC_OWN_OPTIMIZER,
			 0},
	[SC_JOB_OPTIMIZER] = {"optimizer", -1, SC_SPAN_SELF, SC_OWN_OPTIMIZER, 0},
	[SC_JOB_FORWARD_SEND] = {"forward-send", SC_SEND_RECV, SC_SPAN_PAIR, SC_OWN_COMM, 1},
	[SC_JOB_FORWARD_RECV] = {"forward-recv", SC_SEND_RECV, SC_SPAN_PAIR, SC_OWN_COMM, 2},
	[SC_JOB_BACKWARD_SEND] = {"backward-send", SC_SEND_RECV, SC_SPAN_PAIR, SC_OWN_COMM, 3},
	[SC_JOB_BACKWARD_RECV] = {"backward-recv", SC_SEND_RECV, SC_SPAN_PAIR, SC_OWN_COMM, 4},
	[SC_JOB_GATHER] = {"params-all-gather", SC_ALL_GATHER, SC_SPAN_STAGE, SC_OWN_COMM, 5},
	[SC_JOB_SCATTER] = {"grads-reduce-scatter", SC_REDUCE_SCATTER, SC_SPAN_STAGE, SC_OWN_COMM,
			    5},
};

/* ---- operations in order ---- */

static int type_of(const struct sc_trace *trace, const struct sc_trace_event *event)
{
	const char *name = trace->strings.at[event->name];

	for (int t = 0; t < SC_N_JOB_TYPES && event->job.dp_rank >= 0 && event->job.stage >= 0; t++)
		if (name && strcmp(name, sc_job_types[t].name) == 0)
			return t;
	return -1;
}

SC_COMPARE(compare_ops, struct job_op,
	   16 * SC_ORDER(a->step, b->step) + 8 * SC_ORDER(a->worker, b->worker) +
		   4 * SC_ORDER(a->type, b->type) + 2 * SC_ORDER(a->seq, b->seq) +
		   SC_ORDER(a->event, b->event));

static void add_ops(struct job *job, const struct sc_trace *trace)
{
	int *types = sc_xmalloc((trace->events.n + 1) * sizeof(*types));

	for (size_t i = 0; i < trace->events.n; i++) {
		const struct sc_trace_event *e = &trace->events.at[i];

		types[i] = e->cls == SC_EV_JOB_OP ? type_of(trace, e) : -1;
		job->run->n_unknown += e->cls == SC_EV_JOB_OP && types[i] < 0;
		if (types[i] >= 0 && (uint32_t)e->job.dp_rank >= job->n_dp)
			job->n_dp = (uint32_t)e->job.dp_rank + 1;
		if (types[i] >= 0 && (uint32_t)e->job.stage >= job->n_stages)
			job->n_stages = (uint32_t)e->job.stage + 1;
	}
	for (size_t i = 0; i < trace->events.n; i++) {
		const struct sc_trace_event *e = &trace->events.at[i];
		const struct job_op op = {
			.start_ns = e->start_ns,
			.end_ns = e->start_ns + e->dur_ns,
			.worker = (uint32_t)e->job.stage * job->n_dp + (uint32_t)e->job.dp_rank,
			.event = (uint32_t)i,
			.group = SC_NONE,
			.step = e->job.step,
			.seq = e->job.seq,
			.chunk = e->job.chunk,
			.type = (uint8_t)types[i],
		};

		if (types[i] < 0)
			continue;
		SC_VEC_PUSH(&job->all, op);
		job->overlaps |= op.type == SC_JOB_SEPARATE;
		if (op.type <= SC_JOB_BACKWARD && op.chunk >= (int32_t)job->n_chunks)
			job->n_chunks = (uint32_t)op.chunk + 1;
	}
	free(types);
}

/* Every stage has a worker of every replica, by stage, then replica: their ranks. Of more than there are operations one is
 * missing, and the first such is named. */
static int find_workers(struct job *job, const struct sc_trace *trace, struct sc_err *err)
{
	const uint64_t n_all = (uint64_t)job->n_dp * job->n_stages;
	const size_t n = n_all > job->all.n ? job->all.n + 1 : (size_t)n_all;
	int32_t *ranks = sc_xmalloc(n * sizeof(*ranks));
	size_t i = 0;

	for (i = 0; i < n; i++)
		ranks[i] = NO_RANK;
	for (i = 0; i < job->all.n; i++) {
		const struct sc_trace_event *e = &trace->events.at[job->all.at[i].event];
		const uint64_t w = (uint64_t)e->job.stage * job->n_dp + (uint64_t)e->job.dp_rank;

		if (w < n && ranks[w] == NO_RANK)
			ranks[w] = trace->lanes.at[e->lane].pid;
	}
	for (i = 0; i < n && ranks[i] != NO_RANK; i++) {
		struct sc_trace_rank rank = {
			.rank = ranks[i],
			.dp_rank = (int32_t)(i % job->n_dp),
			.stage = (int32_t)(i / job->n_dp),
			.path = sc_arena_strdup(&job->run->arena, trace->path ? trace->path : ""),
			.host = "",
			.gpu = "",
			.n_threads = 1,
			.has_waits = true,
		};

		for (uint32_t l = 0; l < N_LANES; l++) {
			const struct sc_trace_stream stream = {
				.stream = (int32_t)l, .first_lane = l, .comm = l > 0};

			SC_VEC_PUSH(&rank.streams, stream);
		}
		SC_VEC_PUSH(&job->run->ranks, rank);
		sc_merge_add_rank(&job->run->merge, rank.rank, 0);
	}
	free(ranks);
	job->n_workers = (uint32_t)n_all;
	if (i == n)
		return 0;
	return sc_err_at(
		err, SC_EVALUE, trace->path, 0, 0,
		"the trace has no worker of data-parallel rank %d and stage %d; every stage "
		"of every replica is needed",
		(int)(i % job->n_dp), (int)(i / job->n_dp));
}

/* The operations of a job's step as they are to each other: sends with their receives and
 * collectives are one; the others wait as a pipeline does. */

static bool is_recv(int type)
{
	return type == SC_JOB_FORWARD_RECV || type == SC_JOB_BACKWARD_RECV;
}

/* The first chunk receives nothing forward and sends nothing backward; the last the other way. Chunks of the job count
 * from the first layers on. */
static bool transfers(const struct job *job, int type, uint32_t compute)
{
	const struct job_op *op = &job->ops[compute];
	const uint32_t stage = op->worker / job->n_dp;
	const uint32_t chunk = (op->chunk > 0 ? (uint32_t)op->chunk : 0) * job->n_stages + stage;

	if (type == SC_JOB_FORWARD_RECV || type == SC_JOB_BACKWARD_SEND)
		return chunk > 0;
	return chunk + 1 < job->n_chunks * job->n_stages;
}

/* A walk over a worker's operations of a type; of sends or receives with the computation each belongs to. Where the trace
 * has these for all computations, those of the model's ends moved nothing; the very first may be missing. */
struct walk {
	const struct job *job;
	const struct job_ops *run, *compute; /* compute: NULL, no send or receive */
	int type;
	bool all;             /* every computation has one */
	uint32_t i, c;        /* next operation, next computation */
	uint32_t op, matched; /* of this step of the walk; matched: or SC_NONE */
	bool moves;           /* it is one with others' */
};

static struct walk walk_begin(const struct job *job, uint32_t worker, int type)
{
	const bool forward = type == SC_JOB_FORWARD_SEND || type == SC_JOB_FORWARD_RECV;
	struct walk walk = {.job = job, .run = job_ops_of(job, worker, type), .type = type};
	uint32_t n = 0;

	if (sc_job_types[type].span != SC_SPAN_PAIR)
		return walk;
	walk.compute = job_ops_of(job, worker, forward ? SC_JOB_FORWARD : SC_JOB_BACKWARD);
	for (uint32_t i = 0; i < walk.compute->n; i++)
		n += transfers(job, type, walk.compute->first + i);
	if (walk.run->n != n) {
		walk.all = true;
		walk.c = walk.run->n + 1 == walk.compute->n && type == SC_JOB_FORWARD_RECV;
	}
	return walk;
}

static bool walk_next(struct walk *w)
{
	if (w->i == w->run->n)
		return false;
	w->op = w->run->first + w->i++;
	w->matched = SC_NONE;
	w->moves = !w->compute;
	if (!w->compute)
		return true;
	while (!w->all && w->c < w->compute->n &&
	       !transfers(w->job, w->type, w->compute->first + w->c))
		w->c++;
	if (w->c < w->compute->n)
		w->matched = w->compute->first + w->c++;
	w->moves = w->matched != SC_NONE && transfers(w->job, w->type, w->matched);
	return true;
}

/* ---- which are one ---- */

/* Groups are told apart by their type, receives being with their sends, and by who takes part; of these the k-th of each
 * worker are one. */
static size_t job_slot(const struct job *job, uint32_t worker, int type)
{
	const uint32_t dp = worker % job->n_dp, n_stages = job->n_stages;
	uint32_t stage = worker / job->n_dp, who = 0;

	if (type == SC_JOB_FORWARD_RECV)
		stage = (stage + n_stages - 1) % n_stages;
	if (type == SC_JOB_BACKWARD_RECV)
		stage = (stage + 1) % n_stages;
	if (sc_job_types[type].span == SC_SPAN_STAGE)
		who = stage;
	if (sc_job_types[type].span == SC_SPAN_ENDS)
		who = dp;
	if (sc_job_types[type].span == SC_SPAN_PAIR)
		who = stage * job->n_dp + dp;
	return (size_t)(is_recv(type) ? type - 1 : type) * job->n_workers + who;
}

/* Counts the groups of each slot, then gives operations theirs: a receive that no send is left for has none. */
static void walk_groups(struct job *job, bool give)
{
	for (uint32_t w = 0; w < job->n_workers; w++)
		for (int t = 0; t < SC_N_JOB_TYPES; t++) {
			struct walk walk = walk_begin(job, w, t);
			const size_t slot = job_slot(job, w, t);
			uint32_t k = 0;

			if (sc_job_types[t].span == SC_SPAN_SELF)
				continue;
			while (walk_next(&walk)) {
				if (give && walk.moves && k < job->n_of[slot])
					job->ops[walk.op].group = job->first_group[slot] + k;
				k += walk.moves;
			}
			if (!give && !is_recv(t) && k > job->n_of[slot])
				job->n_of[slot] = k;
		}
}

static void find_groups(struct job *job)
{
	const size_t n = (size_t)job->n_workers * SC_N_JOB_TYPES;

	memset(job->n_of, 0, n * sizeof(*job->n_of));
	job->n_groups = 0;
	walk_groups(job, false);
	for (size_t i = 0; i < n; i++) {
		job->first_group[i] = job->n_groups;
		job->n_groups += job->n_of[i];
	}
	walk_groups(job, true);
}

/* ---- what waits for what ---- */

static void add_wait(struct job *job, uint32_t op, uint32_t on)
{
	SC_VEC_PUSH(&job->waits, (uint64_t)op << 32 | on);
}

static uint32_t last_of(const struct job_ops *ops)
{
	return ops->first + ops->n - 1;
}

static void wait_of_transfers(struct job *job, uint32_t worker, int type)
{
	struct walk walk = walk_begin(job, worker, type);

	while (walk_next(&walk)) {
		job->run->n_unpaired += walk.moves && job->ops[walk.op].group == SC_NONE;
		if (walk.matched == SC_NONE)
			continue;
		if (!is_recv(type)) {
			add_wait(job, walk.op, walk.matched);
			continue;
		}
		add_wait(job, walk.matched, walk.op);
		if (walk.matched > walk.compute->first)
			add_wait(job, walk.op, walk.matched - 1);
	}
}

/* Receives that start at the same instant as a send were posted in one call with it. */
static void wait_of_batched(struct job *job, uint32_t worker, int send, int recv)
{
	struct walk walk = walk_begin(job, worker, send);
	const struct job_ops *run = job_ops_of(job, worker, recv);
	uint32_t i = 0;

	while (walk_next(&walk)) {
		const int64_t at_ns = job->ops[walk.op].start_ns;

		while (i < run->n && job->ops[run->first + i].start_ns < at_ns)
			i++;
		if (i < run->n && job->ops[run->first + i].start_ns == at_ns &&
		    walk.matched != SC_NONE)
			add_wait(job, run->first + i, walk.matched);
	}
}

/* Parameters of a chunk come before its first forward, its gradients are reduced after its last backward. */
static void wait_of_chunks(struct job *job, uint32_t worker)
{
	const struct job_ops *gather = job_ops_of(job, worker, SC_JOB_GATHER);
	const struct job_ops *scatter = job_ops_of(job, worker, SC_JOB_SCATTER);
	const struct job_ops *f = job_ops_of(job, worker, SC_JOB_FORWARD);
	const struct job_ops *r = job_ops_of(job, worker, SC_JOB_BACKWARD);

	for (uint32_t g = gather->first; g < gather->first + gather->n; g++) {
		const int32_t chunk = job->ops[g].chunk;
		uint32_t i = f->first;

		if (g != last_of(gather) && job->ops[g + 1].chunk == chunk)
			continue;
		while (i < f->first + f->n && job->ops[i].chunk != chunk && chunk >= 0)
			i++;
		if (i < f->first + f->n)
			add_wait(job, i, g);
	}
	for (uint32_t s = scatter->first; job->overlaps && s < scatter->first + scatter->n; s++) {
		const int32_t chunk = job->ops[s].chunk;
		uint32_t i = r->first + r->n;

		while (i > r->first && job->ops[i - 1].chunk != chunk && chunk >= 0)
			i--;
		if (i > r->first)
			add_wait(job, s, i - 1);
	}
}

/* The end of the step is one chain on the stream of computation; reduced gradients are part of it. */
static void wait_of_end(struct job *job, uint32_t worker)
{
	const struct job_ops *scatter = job_ops_of(job, worker, SC_JOB_SCATTER);
	const struct job_ops *norm = job_ops_of(job, worker, SC_JOB_LAYERNORM);
	const struct job_ops *next = job->overlaps ? norm : job_ops_of(job, worker, SC_JOB_CLIP);
	uint32_t before = SC_NONE;

	if (!scatter->n)
		return;
	for (int t = SC_JOB_BACKWARD; t < SC_JOB_CLIP && !job->overlaps; t++)
		if (job_ops_of(job, worker, t)->n)
			before = last_of(job_ops_of(job, worker, t));
	if (before != SC_NONE)
		add_wait(job, scatter->first, before);
	if (next->n)
		add_wait(job, next->first, last_of(scatter));
	for (int t = SC_JOB_FORWARD_SEND; norm->n && t <= SC_JOB_BACKWARD_RECV; t++)
		if (job_ops_of(job, worker, t)->n)
			add_wait(job, norm->first, last_of(job_ops_of(job, worker, t)));
}

SC_COMPARE(compare_waits, uint64_t, SC_ORDER(*a, *b));

/* Finds which operations of the step are one, and what waits for what. Counts the sends and
 * receives without the other side in the run. */
static void find_rules(struct job *job)
{
	find_groups(job);
	job->waits.n = 0;
	for (uint32_t w = 0; w < job->n_workers; w++) {
		for (int t = SC_JOB_FORWARD_SEND; t <= SC_JOB_BACKWARD_RECV; t++)
			wait_of_transfers(job, w, t);
		for (int send = SC_JOB_FORWARD_SEND; send <= SC_JOB_BACKWARD_SEND; send += 2)
			for (int recv = SC_JOB_FORWARD_RECV; recv <= SC_JOB_BACKWARD_RECV;
			     recv += 2)
				wait_of_batched(job, w, send, recv);
		wait_of_chunks(job, w);
		wait_of_end(job, w);
	}
	SC_SORT(job->waits.at, job->waits.n, compare_waits);
}

/* ---- a step ---- */

static void add_act(struct job *job, uint32_t i)
{
	struct job_op *op = &job->ops[i];
	const struct sc_job_type_info *type = &sc_job_types[op->type];
	struct sc_trace_rank *rank = &job->run->ranks.at[op->worker];
	struct sc_merge_rank *merged = &job->run->merge.ranks.at[op->worker];
	const uint32_t begin = (uint32_t)rank->calls.n - 1;
	struct sc_act act = {
		.start_ns = op->start_ns,
		.dur_ns = op->end_ns - op->start_ns,
		.name = op->type,
		.launch = begin,
		.place = begin,
		.merge_call = SC_NONE,
		.lane = type->lane,
		.kind = SC_ACT_KERNEL,
	};

	if (type->collective >= 0) {
		const size_t first = job->run->merge.n_members.n - job->n_groups;
		const struct sc_merge_call call = {
			.start_ns = op->start_ns,
			.end_ns = op->end_ns,
			.seq = -1,
			.bytes = -1,
			.kind = type->collective,
			.barrier = true,
			.instance = op->group == SC_NONE ? SC_MERGE_NO_INSTANCE
							 : (int32_t)(first + op->group),
			.group_size = -1,
			.of_replicas = type->span == SC_SPAN_STAGE,
			.bound_us = INFINITY,
		};

		if (op->group != SC_NONE)
			job->run->merge.n_members.at[first + op->group]++;
		act.kind = SC_ACT_COLLECTIVE;
		act.merge_call = (uint32_t)merged->calls.n;
		SC_VEC_PUSH(&merged->calls, call);
	}
	op->act = (uint32_t)rank->acts.n;
	SC_VEC_PUSH(&rank->acts, act);
}

/* Lane by lane: forward and backward as they were measured, then the types in turn. */
static void add_acts(struct job *job, uint32_t worker)
{
	const struct job_ops *f = job_ops_of(job, worker, SC_JOB_FORWARD);
	const struct job_ops *r = job_ops_of(job, worker, SC_JOB_BACKWARD);

	for (uint32_t i = 0, k = 0; i < f->n || k < r->n;) {
		if (k == r->n || (i < f->n && job->ops[f->first + i].start_ns <=
						      job->ops[r->first + k].start_ns))
			add_act(job, f->first + i++);
		else
			add_act(job, r->first + k++);
	}
	for (int t = SC_JOB_GC; t < SC_N_JOB_TYPES; t++)
		for (uint32_t i = 0; i < job_ops_of(job, worker, t)->n; i++)
			add_act(job, job_ops_of(job, worker, t)->first + i);
}

/* An activity with more waits than it can name has the last: computations are in order, so that
 * these imply the others. */
static void add_waits(struct job *job, uint32_t i, size_t *at)
{
	struct sc_trace_rank *rank = &job->run->ranks.at[job->ops[i].worker];
	struct sc_act *act = &rank->acts.at[job->ops[i].act];
	size_t end = *at;

	while (end < job->waits.n && job->waits.at[end] >> 32 == i)
		end++;
	if (end - *at > UINT8_MAX)
		*at = end - UINT8_MAX;
	act->first_wait = (uint32_t)rank->waits.n;
	act->n_waits = (uint8_t)(end - *at);
	for (; *at < end; ++*at)
		SC_VEC_PUSH(&rank->waits, job->ops[(uint32_t)job->waits.at[*at]].act);
}

/* From the end of all that it waits for, the one before on its lane among them, to its start. The last call waits for the
 * last of each lane. */
static void end_worker(struct job *job, uint32_t worker, const struct sc_trace_iteration *it,
		       const int64_t span_ns[2])
{
	struct sc_trace_rank *rank = &job->run->ranks.at[worker];
	struct sc_call end = {.start_ns = span_ns[1],
			      .name = SC_N_JOB_TYPES,
			      .first_wait = (uint32_t)rank->waits.n,
			      .after = SC_NONE,
			      .kind = SC_CALL_SYNC};
	uint32_t last[N_LANES];

	memset(last, 0xff, sizeof(last));
	for (uint32_t a = it->first_act; a < it->end_act; a++) {
		struct sc_act *act = &rank->acts.at[a];
		int64_t free_ns = span_ns[0];

		if (last[act->lane] != SC_NONE &&
		    sc_act_end(&rank->acts.at[last[act->lane]]) > free_ns)
			free_ns = sc_act_end(&rank->acts.at[last[act->lane]]);
		free_ns = sc_trace_waits_end(rank, act->first_wait, act->n_waits, free_ns);
		act->gap_us =
			act->start_ns > free_ns ? (float)sc_ns_us(act->start_ns - free_ns) : 0;
		last[act->lane] = a;
	}
	for (int l = 0; l < N_LANES; l++)
		if (last[l] != SC_NONE) {
			SC_VEC_PUSH(&rank->waits, last[l]);
			end.n_waits++;
		}
	SC_VEC_PUSH(&rank->calls, end);
}

static void add_step(struct job *job)
{
	int64_t span_ns[2] = {INT64_MAX, INT64_MIN};
	size_t wait = 0;

	memset(job->of, 0, (size_t)job->n_workers * SC_N_JOB_TYPES * sizeof(*job->of));
	for (uint32_t i = 0; i < job->n_ops; i++) {
		const struct job_op *op = &job->ops[i];
		struct job_ops *of = &job->of[(size_t)op->worker * SC_N_JOB_TYPES + op->type];

		of->first = of->n++ ? of->first : i;
		span_ns[0] = op->start_ns < span_ns[0] ? op->start_ns : span_ns[0];
		span_ns[1] = op->end_ns > span_ns[1] ? op->end_ns : span_ns[1];
	}
	find_rules(job);
	for (uint32_t g = 0; g < job->n_groups; g++)
		SC_VEC_PUSH(&job->run->merge.n_members, 0);
	for (uint32_t w = 0, i = 0; w < job->n_workers; w++) {
		struct sc_trace_rank *rank = &job->run->ranks.at[w];
		struct sc_trace_iteration it = {.step = job->ops[0].step,
						.begin = (uint32_t)rank->calls.n,
						.end = (uint32_t)rank->calls.n + 1,
						.first_act = (uint32_t)rank->acts.n};
		const struct sc_call begin = {.start_ns = span_ns[0],
					      .name = SC_N_JOB_TYPES,
					      .after = SC_NONE,
					      .kind = SC_CALL_BEGIN};

		SC_VEC_PUSH(&rank->calls, begin);
		add_acts(job, w);
		it.end_act = (uint32_t)rank->acts.n;
		for (; i < job->n_ops && job->ops[i].worker == w; i++)
			add_waits(job, i, &wait);
		job->run->n_events += it.end_act - it.first_act;
		end_worker(job, w, &it, span_ns);
		SC_VEC_PUSH(&rank->iterations, it);
	}
	job->run->n_iterations++;
}

/* Rows that are there twice count once, as a worker is not twice in one operation. */
static void drop_doubles(struct job *job)
{
	size_t kept = 0;

	for (size_t i = 0; i < job->all.n; i++) {
		const struct job_op *op = &job->all.at[i];
		const struct job_op *last = kept ? &job->all.at[kept - 1] : NULL;

		if (last && last->step == op->step && last->worker == op->worker &&
		    last->type == op->type && last->seq == op->seq && last->chunk == op->chunk &&
		    last->start_ns == op->start_ns && last->end_ns == op->end_ns)
			job->run->ranks.at[op->worker].n_doubled++;
		else
			job->all.at[kept++] = *op;
	}
	job->all.n = kept;
}

static void add_steps(struct job *job)
{
	const size_t n = (size_t)job->n_workers * SC_N_JOB_TYPES;

	SC_SORT(job->all.at, job->all.n, compare_ops);
	drop_doubles(job);
	job->of = sc_xmalloc(n * sizeof(*job->of));
	job->first_group = sc_xmalloc(n * sizeof(*job->first_group));
	job->n_of = sc_xmalloc(n * sizeof(*job->n_of));
	for (size_t i = 0, end; i < job->all.n; i = end) {
		for (end = i; end < job->all.n && job->all.at[end].step == job->all.at[i].step;)
			end++;
		job->ops = &job->all.at[i];
		job->n_ops = (uint32_t)(end - i);
		add_step(job);
	}
	free(job->of);
	free(job->first_group);
	free(job->n_of);
	SC_VEC_RELEASE(&job->waits);
}

/* From the last arrival to the first end; what each member waited is no part of it. */
static void find_transfers(struct sc_trace_run *run)
{
	struct trace_meeting *meeting = sc_trace_meetings(run);

	for (size_t i = 0; i < run->merge.n_members.n; i++) {
		double us = NAN;

		if (run->merge.n_members.at[i] > 1)
			us = fmax(0, sc_ns_us(meeting[i].first_end_ns - meeting[i].last_start_ns));
		SC_VEC_PUSH(&run->transfer_us, us);
	}
	free(meeting);
}

int sc_trace_run_of_job(const struct sc_trace *trace, struct sc_trace_run *out, struct sc_err *err)
{
	struct job job = {.run = out, .n_chunks = 1};
	int rc = 0;

	*out = (struct sc_trace_run){.world = -1, .found_by = SC_FOUND_STEPS};
	sc_arena_init(&out->arena, ARENA_BYTES);
	snprintf(out->marked_by, sizeof(out->marked_by), "the steps of the job");
	add_ops(&job, trace);
	if (job.all.n == 0)
		rc = sc_err_at(err, SC_EVALUE, trace->path, 0, 0,
			       "the trace has no operations of a job");
	else if (job.all.n >= SC_NONE)
		rc = sc_err_at(err, SC_ELIMIT, trace->path, 0, 0,
			       "the job has too many operations: n=%zu", job.all.n);
	else
		rc = find_workers(&job, trace, err);
	if (rc == 0) {
		/* In the order of types; then that of the calls. */
		for (int t = 0; t <= SC_N_JOB_TYPES; t++) {
			const bool is_op = t < SC_N_JOB_TYPES;

			sc_intern_add(&out->names, is_op ? sc_job_types[t].name : "step");
			SC_VEC_PUSH(&out->family, (uint8_t)SC_FAMILY_OTHER);
			SC_VEC_PUSH(&out->owner,
				    (uint8_t)(is_op ? sc_job_types[t].owner : SC_OWN_HOST));
		}
		add_steps(&job);
		sc_trace_show_collectives(out);
		find_transfers(out);
		out->n_replicas = job.n_dp;
		out->n_stages = job.n_stages;
	} else {
		sc_trace_run_release(out);
	}
	SC_VEC_RELEASE(&job.all);
	return rc;
}

int sc_trace_run_load_job(const struct sc_trace_files *files, struct sc_trace_run *out,
			  struct sc_err *err)
{
	const struct sc_trace_load_opts only_job = {.classes = 1u << SC_EV_JOB_OP};
	struct sc_trace trace;
	int rc;

	if (files->n > 1)
		return sc_err_at(err, SC_EUNSUPPORTED, files->at[1], 0, 0,
				 "a second operator timeline; replay one job at a time");
	rc = sc_trace_load(files->at[0], &only_job, &trace, err);
	if (rc)
		return rc;
	rc = sc_trace_run_of_job(&trace, out, err);
	sc_trace_release(&trace);
	return rc;
}
