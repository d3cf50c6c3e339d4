/* A job's operations from a trace's events, step by step and worker by worker, and the run they
 * make. Knows the types, not how they depend on each other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/units.h"
#include "core/graph/op.h"
#include "trace/graph/build_trace_priv.h"
#include "trace/graph/job_priv.h"
#include "trace/graph/kernel_family.h"

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

/* Every stage has a worker of every replica, by stage, then replica: their ranks. Of more than
 * there are operations one is missing, and the first such is named. */
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

	for (uint32_t i = 0, k = 0; i < f->n || k < r->n;)
		if (k == r->n || (i < f->n && job->ops[f->first + i].start_ns <=
						      job->ops[r->first + k].start_ns))
			add_act(job, f->first + i++);
		else
			add_act(job, r->first + k++);
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

/* From the end of all that it waits for, the one before on its lane among them, to its start. The
 * last call waits for the last of each lane. */
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

static void run_step(struct job *job)
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
	job_find_rules(job);
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
		run_step(job);
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
