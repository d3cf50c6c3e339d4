/* Timelines of a pipeline-parallel job, made by a small model of one-forward-one-backward of its
 * own: longest paths by relaxation, so that what a replay says can be compared with what would have
 * been. */
#pragma once

#include "runner.h"
#include "trace/graph/job.h"

enum { JOB_MAX_STAGES = 4, JOB_MAX_DP = 4, JOB_MAX_BATCHES = 8, JOB_MAX_OPS = 4096 };

/* Microseconds. */
struct job_shape {
	int n_dp, n_stages, n_batches;
	double forward_us, backward_us, send_us, gather_us, scatter_us, clip_us, optimizer_us;
	double first_gap_us;                     /* before the first forward of each worker */
	double stall_us[JOB_MAX_DP];             /* the same of a replica alone */
	double slow[JOB_MAX_DP][JOB_MAX_STAGES]; /* of computation; 0 = 1 */
};
struct job_time {
	double start, end;
};
enum { FIX_FORWARD, FIX_BACKWARD, FIX_N };
struct job_worker_times {
	struct job_time compute[FIX_N][JOB_MAX_BATCHES], send[FIX_N][JOB_MAX_BATCHES],
		recv[FIX_N][JOB_MAX_BATCHES], gather, gc, scatter, clip, optimizer;
};
struct job_times {
	struct job_shape shape;
	struct job_worker_times at[JOB_MAX_DP][JOB_MAX_STAGES];
};

static inline double later(double a, double b)
{
	return a > b ? a : b;
}

static inline double job_work(const struct job_shape *shape, int dp, int stage, int pass)
{
	const double slow = shape->slow[dp][stage] > 0 ? shape->slow[dp][stage] : 1;

	return slow * (pass == FIX_FORWARD ? shape->forward_us : shape->backward_us);
}

/* The stage that a pass comes from, or -1. */
static inline int job_source(const struct job_shape *shape, int stage, int pass)
{
	if (pass == FIX_FORWARD)
		return stage - 1;
	return stage + 1 < shape->n_stages ? stage + 1 : -1;
}

static inline bool job_sends(const struct job_shape *shape, int stage, int pass)
{
	return pass == FIX_FORWARD ? stage + 1 < shape->n_stages : stage > 0;
}

/* One pass over a worker: everything starts as soon as what it waits for has ended, as known so
 * far. */
static inline void relax_worker(struct job_times *t, int dp, int stage)
{
	const struct job_shape *shape = &t->shape;
	struct job_worker_times *w = &t->at[dp][stage];
	const int n = shape->n_batches;
	int warm = shape->n_stages - 1 - stage, done[FIX_N] = {0, 0};
	double free_us = 0, second_last = 0;

	warm = warm < n ? warm : n;
	while (done[FIX_FORWARD] < n || done[FIX_BACKWARD] < n) {
		const int ahead = done[FIX_FORWARD] - done[FIX_BACKWARD];
		const int pass =
			done[FIX_FORWARD] < n && ahead <= warm ? FIX_FORWARD : FIX_BACKWARD;
		const int i = done[pass]++, from = job_source(shape, stage, pass);
		struct job_time *c = &w->compute[pass][i], *r = &w->recv[pass][i];
		struct job_time *s = &w->send[pass][i];

		c->start = free_us;
		if (pass == FIX_FORWARD && i == 0)
			c->start = later(c->start, w->gather.end);
		if (from >= 0) {
			const struct job_time *peer = &t->at[dp][from].send[pass][i];

			r->start = i ? later(w->compute[pass][i - 1].end, w->recv[pass][i - 1].end)
				     : 0;
			if (i == 0 && pass == FIX_BACKWARD && done[FIX_FORWARD] > 1)
				r->start = second_last;
			r->end = later(r->start, peer->start) + shape->send_us;
			c->start = later(c->start, r->end);
		}
		if (pass == FIX_FORWARD && i == 0)
			c->start += (shape->first_gap_us + shape->stall_us[dp]);
		c->end = c->start + job_work(shape, dp, stage, pass);
		if (job_sends(shape, stage, pass)) {
			const int to = pass == FIX_FORWARD ? stage + 1 : stage - 1;

			s->start = i ? later(c->end, w->send[pass][i - 1].end) : c->end;
			s->end =
				later(s->start, t->at[dp][to].recv[pass][i].start) + shape->send_us;
		}
		if (pass == FIX_FORWARD && done[FIX_BACKWARD] == 0)
			second_last = i ? w->compute[pass][i - 1].end : 0;
		free_us = c->end;
	}
	w->gc.start = w->gc.end = free_us;
	w->scatter.start = free_us;
}

static inline void relax_collectives(struct job_times *t)
{
	const struct job_shape *shape = &t->shape;
	double clip_us = 0;

	for (int s = 0; s < shape->n_stages; s++) {
		double arrived_us = 0;

		for (int d = 0; d < shape->n_dp; d++)
			arrived_us = later(arrived_us, t->at[d][s].scatter.start);
		for (int d = 0; d < shape->n_dp; d++) {
			struct job_worker_times *w = &t->at[d][s];

			w->gather = (struct job_time){0, shape->gather_us};
			w->scatter.end = arrived_us + shape->scatter_us;
			w->clip.start = w->scatter.end;
			clip_us = later(clip_us, w->clip.start);
		}
	}
	for (int s = 0; s < shape->n_stages; s++) {
		for (int d = 0; d < shape->n_dp; d++) {
			struct job_worker_times *w = &t->at[d][s];

			w->clip.end = clip_us + shape->clip_us;
			w->optimizer.start = w->clip.end;
			w->optimizer.end = w->clip.end + shape->optimizer_us;
		}
	}
}

/* Starts only grow, and each sweep settles at least one more operation. */
static inline void job_simulate(const struct job_shape *shape, struct job_times *t)
{
	*t = (struct job_times){.shape = *shape};
	for (int sweep = 0; sweep < 4 * JOB_MAX_STAGES * JOB_MAX_BATCHES; sweep++) {
		for (int d = 0; d < shape->n_dp; d++)
			for (int s = 0; s < shape->n_stages; s++)
				relax_worker(t, d, s);
		relax_collectives(t);
	}
}

static inline double job_total_us(const struct job_times *t)
{
	return t->at[0][0].optimizer.end;
}

/* ---- as a trace in memory ---- */

struct job_trace {
	struct sc_trace trace;
	const char *strings[SC_N_JOB_TYPES + 1];
	struct sc_trace_lane lanes[JOB_MAX_DP * JOB_MAX_STAGES + 1];
	struct sc_trace_event events[JOB_MAX_OPS];
};

static inline void job_put(struct job_trace *out, int type, int step, int dp, int stage, int seq,
			   const struct job_time *time)
{
	struct sc_trace_event *e = &out->events[out->trace.events.n++];

	ck_assert_uint_le(out->trace.events.n, JOB_MAX_OPS);
	*e = (struct sc_trace_event){
		.start_ns = (int64_t)(time->start * 1000 + 0.5),
		.name = (uint32_t)type + 1,
		.lane = (uint32_t)(stage * JOB_MAX_DP + dp) + 1,
		.cls = SC_EV_JOB_OP,
		.job = {.step = step,
			.dp_rank = dp,
			.stage = stage,
			.seq = seq,
			.chunk = 0,
			.micro_batch = seq},
	};
	e->dur_ns = (int64_t)(time->end * 1000 + 0.5) - e->start_ns;
}

static inline void job_put_worker(struct job_trace *out, const struct job_times *t, int step,
				  int dp, int stage)
{
	static const int types[FIX_N][3] = {
		{SC_JOB_FORWARD, SC_JOB_FORWARD_SEND, SC_JOB_FORWARD_RECV},
		{SC_JOB_BACKWARD, SC_JOB_BACKWARD_SEND, SC_JOB_BACKWARD_RECV},
	};
	const struct job_worker_times *w = &t->at[dp][stage];

	for (int p = 0; p < FIX_N; p++) {
		for (int i = 0; i < t->shape.n_batches; i++) {
			job_put(out, types[p][0], step, dp, stage, i, &w->compute[p][i]);
			if (job_sends(&t->shape, stage, p))
				job_put(out, types[p][1], step, dp, stage, i, &w->send[p][i]);
			if (job_source(&t->shape, stage, p) >= 0)
				job_put(out, types[p][2], step, dp, stage, i, &w->recv[p][i]);
		}
	}
	job_put(out, SC_JOB_GATHER, step, dp, stage, 0, &w->gather);
	job_put(out, SC_JOB_GC, step, dp, stage, 0, &w->gc);
	job_put(out, SC_JOB_SCATTER, step, dp, stage, 0, &w->scatter);
	job_put(out, SC_JOB_CLIP, step, dp, stage, 0, &w->clip);
	job_put(out, SC_JOB_OPTIMIZER, step, dp, stage, 0, &w->optimizer);
}

static inline void job_trace_begin(struct job_trace *out)
{
	memset(out, 0, sizeof(*out));
	for (int t = 0; t < SC_N_JOB_TYPES; t++)
		out->strings[t + 1] = sc_job_types[t].name;
	out->trace.strings.at = out->strings;
	out->trace.strings.n = SC_N_JOB_TYPES + 1;
	for (int i = 0; i < JOB_MAX_DP * JOB_MAX_STAGES; i++)
		out->lanes[i + 1] = (struct sc_trace_lane){.pid = i};
	out->trace.lanes.at = out->lanes;
	out->trace.lanes.n = JOB_MAX_DP * JOB_MAX_STAGES + 1;
	out->trace.events.at = out->events;
}

static inline void job_trace_add(struct job_trace *out, const struct job_times *t, int step)
{
	for (int s = 0; s < t->shape.n_stages; s++)
		for (int d = 0; d < t->shape.n_dp; d++)
			job_put_worker(out, t, step, d, s);
}

/* Written as the importer does: one file of the job. */
static inline void job_trace_write(const struct job_trace *job, const char *path)
{
	const struct sc_trace_identity identity = {
		.rank = -1, .world = -1, .local_rank = -1, .pid = -1, .source = "job"};
	struct sc_trace_writer *writer;
	struct sc_err err = {.code = SC_OK};

	ck_assert_msg(sc_trace_writer_create(path, &identity, &writer, &err) == 0, "%s", err.text);
	for (size_t i = 0; i < job->trace.events.n; i++) {
		struct sc_trace_event e = job->events[i];

		e.name = sc_trace_writer_string(writer, job->strings[e.name],
						strlen(job->strings[e.name]));
		e.lane = sc_trace_writer_lane(writer, &job->lanes[e.lane]);
		sc_trace_writer_add(writer, &e);
	}
	ck_assert_msg(sc_trace_writer_finish(writer, NULL, &err) == 0, "%s", err.text);
}
