/* Operations of a job from a trace's events: sorted so that each worker's operations of a step and type are
 * together, in the order of their numbers. Knows the types, not how they depend on each other. */
#include "trace/graph/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"

/* The types of the publisher's job traces (ByteDance-Seed/StragglerAnalysis, readme). */
const struct sc_job_type_info sc_job_types[SC_N_JOB_TYPES] = {
	[SC_JOB_FORWARD] = {"forward-compute", SC_REPLAY_KERNEL, SC_SPAN_SELF, SC_OWN_COMPUTE,
			    true},
	[SC_JOB_BACKWARD] = {"backward-compute", SC_REPLAY_KERNEL, SC_SPAN_SELF, SC_OWN_COMPUTE,
			     true},
	[SC_JOB_GC] = {"gc", SC_REPLAY_HOST, SC_SPAN_SELF, SC_OWN_HOST, true},
	[SC_JOB_LAYERNORM] = {"layernorm-grads-all-reduce", SC_REPLAY_COLLECTIVE, SC_SPAN_SELF,
			      SC_OWN_COMM, false},
	[SC_JOB_EMBEDDING] = {"embedding-grads-all-reduce", SC_REPLAY_COLLECTIVE, SC_SPAN_ENDS,
			      SC_OWN_COMM, false},
	[SC_JOB_SEPARATE] = {"separate-grads-all-reduce", SC_REPLAY_COLLECTIVE, SC_SPAN_STAGE,
			     SC_OWN_COMM, false},
	[SC_JOB_CLIP] = {"optimizer-clip-main-grad", SC_REPLAY_COLLECTIVE, SC_SPAN_ALL,
			 SC_OWN_OPTIMIZER, false},
	[SC_JOB_OPTIMIZER] = {"optimizer", SC_REPLAY_KERNEL, SC_SPAN_SELF, SC_OWN_OPTIMIZER, true},
	[SC_JOB_FORWARD_SEND] = {"forward-send", SC_REPLAY_P2P, SC_SPAN_PAIR, SC_OWN_COMM, false},
	[SC_JOB_FORWARD_RECV] = {"forward-recv", SC_REPLAY_P2P, SC_SPAN_PAIR, SC_OWN_COMM, false},
	[SC_JOB_BACKWARD_SEND] = {"backward-send", SC_REPLAY_P2P, SC_SPAN_PAIR, SC_OWN_COMM, false},
	[SC_JOB_BACKWARD_RECV] = {"backward-recv", SC_REPLAY_P2P, SC_SPAN_PAIR, SC_OWN_COMM, false},
	[SC_JOB_GATHER] = {"params-all-gather", SC_REPLAY_COLLECTIVE, SC_SPAN_STAGE, SC_OWN_COMM,
			   false},
	[SC_JOB_SCATTER] = {"grads-reduce-scatter", SC_REPLAY_COLLECTIVE, SC_SPAN_STAGE,
			    SC_OWN_COMM, false},
};

void sc_job_release(struct sc_job *job)
{
	SC_VEC_RELEASE(&job->workers);
	SC_VEC_RELEASE(&job->ops);
	SC_VEC_RELEASE(&job->steps);
}

/* ---- numbering: type of each string, worker of each (dp, stage), step of each id ---- */

enum { NO_TYPE = 0xff };

static uint8_t *number_types(const struct sc_trace *trace)
{
	uint8_t *type = sc_xmalloc(trace->strings.n + 1);

	for (size_t i = 0; i < trace->strings.n; i++) {
		type[i] = NO_TYPE;
		for (unsigned t = 0; t < SC_N_JOB_TYPES; t++)
			if (trace->strings.at[i] &&
			    strcmp(trace->strings.at[i], sc_job_types[t].name) == 0)
				type[i] = (uint8_t)t;
	}
	return type;
}

static int compare_steps(const void *a, const void *b)
{
	const struct sc_job_step *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int compare_workers(const void *a, const void *b)
{
	const struct sc_job_worker *x = a, *y = b;

	if (x->stage != y->stage)
		return x->stage < y->stage ? -1 : 1;
	return (x->dp_rank > y->dp_rank) - (x->dp_rank < y->dp_rank);
}

static bool is_job_op(const struct sc_trace_event *event, const uint8_t *type)
{
	return event->cls == SC_EV_JOB_OP && type[event->name] != NO_TYPE &&
	       event->job.dp_rank >= 0 && event->job.stage >= 0;
}

/* Steps are noted wherever they change: each once, by id. */
static void order_steps(struct sc_job *job)
{
	size_t n = 0;

	qsort(job->steps.at, job->steps.n, sizeof(*job->steps.at), compare_steps);
	for (size_t i = 0; i < job->steps.n; i++)
		if (n == 0 || job->steps.at[n - 1].id != job->steps.at[i].id)
			job->steps.at[n++] = job->steps.at[i];
	job->steps.n = n;
}

/* `of_lane`: for each lane the worker last seen there, counted from 1. */
static void note_worker(struct sc_job *job, const struct sc_trace *trace,
			const struct sc_trace_event *event, uint32_t *of_lane)
{
	const struct sc_job_worker worker = {
		.rank = trace->lanes.at[event->lane].pid,
		.dp_rank = event->job.dp_rank,
		.stage = event->job.stage,
	};
	uint32_t *last = &of_lane[event->lane];

	if (*last && compare_workers(&job->workers.at[*last - 1], &worker) == 0)
		return;
	for (*last = 1; *last <= job->workers.n; (*last)++)
		if (compare_workers(&job->workers.at[*last - 1], &worker) == 0)
			return;
	SC_VEC_PUSH(&job->workers, worker);
}

static size_t find_step(const struct sc_job *job, int64_t id)
{
	const struct sc_job_step key = {.id = id};
	const struct sc_job_step *step =
		bsearch(&key, job->steps.at, job->steps.n, sizeof(*job->steps.at), compare_steps);

	return (size_t)(step - job->steps.at);
}

/* Every stage has a worker of every replica: then its index follows from where it is. */
static int check_workers(struct sc_job *job, const char *path, struct sc_err *err)
{
	for (size_t i = 0; i < job->workers.n; i++) {
		const struct sc_job_worker *w = &job->workers.at[i];

		if ((uint32_t)w->dp_rank >= job->n_dp)
			job->n_dp = (uint32_t)w->dp_rank + 1;
		if ((uint32_t)w->stage >= job->n_stages)
			job->n_stages = (uint32_t)w->stage + 1;
	}
	for (size_t i = 0; i < job->workers.n; i++) {
		const struct sc_job_worker *w = &job->workers.at[i];

		if (i != (size_t)w->stage * job->n_dp + (size_t)w->dp_rank)
			return sc_err_at(err, SC_EVALUE, path, 0, 0,
					 "the trace has no worker of data-parallel rank %d and "
					 "stage %d; every stage of every replica is needed",
					 (int)(i % job->n_dp), (int)(i / job->n_dp));
	}
	if (job->workers.n != (size_t)job->n_dp * job->n_stages)
		return sc_err_at(err, SC_EVALUE, path, 0, 0,
				 "the trace has no worker of data-parallel rank %d and stage %d; "
				 "every stage of every replica is needed",
				 (int)(job->workers.n % job->n_dp),
				 (int)(job->workers.n / job->n_dp));
	return 0;
}

/* ---- operations in order ---- */

struct sort_key {
	uint64_t place; /* step, worker, type */
	int32_t seq;
	uint32_t event;
};

static int compare_keys(const void *a, const void *b)
{
	const struct sort_key *x = a, *y = b;

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	return (x->event > y->event) - (x->event < y->event);
}

static struct sort_key *sort_events(const struct sc_trace *trace, const struct sc_job *job,
				    const uint8_t *type, size_t n)
{
	struct sort_key *keys = sc_xmalloc(n * sizeof(*keys) + 1);
	size_t at = 0, step = 0;

	for (size_t i = 0; i < trace->events.n; i++) {
		const struct sc_trace_event *e = &trace->events.at[i];
		uint64_t worker = (uint64_t)e->job.stage * job->n_dp + (uint64_t)e->job.dp_rank;

		if (!is_job_op(e, type))
			continue;
		if (job->steps.at[step].id != e->job.step)
			step = find_step(job, e->job.step);
		keys[at++] = (struct sort_key){
			.place = ((uint64_t)step * job->workers.n + worker) * SC_N_JOB_TYPES +
				 type[e->name],
			.seq = e->job.seq,
			.event = (uint32_t)i,
		};
	}
	qsort(keys, n, sizeof(*keys), compare_keys);
	return keys;
}

static void add_ops(const struct sc_trace *trace, const struct sort_key *keys, size_t n,
		    struct sc_job *job)
{
	SC_VEC_RESERVE(&job->ops, n);
	for (size_t i = 0; i < n; i++) {
		const struct sc_trace_event *e = &trace->events.at[keys[i].event];
		struct sc_job_step *step =
			&job->steps.at[keys[i].place / SC_N_JOB_TYPES / job->workers.n];
		const struct sc_job_op op = {
			.start_ns = e->start_ns,
			.end_ns = e->start_ns + e->dur_ns,
			.worker = (uint32_t)(keys[i].place / SC_N_JOB_TYPES % job->workers.n),
			.seq = e->job.seq,
			.chunk = e->job.chunk,
			.micro_batch = e->job.micro_batch,
			.type = (uint8_t)(keys[i].place % SC_N_JOB_TYPES),
		};

		if (!step->n_ops)
			step->first_op = i;
		step->n_ops++;
		job->overlaps |= op.type == SC_JOB_SEPARATE;
		if (op.type <= SC_JOB_BACKWARD && op.chunk >= (int32_t)job->n_chunks)
			job->n_chunks = (uint32_t)op.chunk + 1;
		job->ops.at[job->ops.n++] = op;
	}
}

static void measure_step(const struct sc_job *job, struct sc_job_step *step)
{
	struct sc_job_op *op = &job->ops.at[step->first_op];
	int64_t first_ns = op->start_ns, last_ns = op->end_ns;

	for (size_t i = 0; i < step->n_ops; i++) {
		first_ns = op[i].start_ns < first_ns ? op[i].start_ns : first_ns;
		last_ns = op[i].end_ns > last_ns ? op[i].end_ns : last_ns;
	}
	for (size_t i = 0; i < step->n_ops; i++) {
		op[i].start_ns -= first_ns;
		op[i].end_ns -= first_ns;
	}
	step->measured_us = sc_ns_us(last_ns - first_ns);
}

/* How many events are operations; their steps and workers. */
static size_t note_events(const struct sc_trace *trace, const uint8_t *type, struct sc_job *job)
{
	uint32_t *of_lane = sc_xmalloc((trace->lanes.n + 1) * sizeof(*of_lane));
	int64_t step = -1;
	size_t n = 0;

	memset(of_lane, 0, (trace->lanes.n + 1) * sizeof(*of_lane));
	for (size_t i = 0; i < trace->events.n; i++) {
		const struct sc_trace_event *e = &trace->events.at[i];

		if (!is_job_op(e, type)) {
			job->n_unknown += e->cls == SC_EV_JOB_OP;
			continue;
		}
		if (n == 0 || e->job.step != step)
			SC_VEC_PUSH(&job->steps, ((struct sc_job_step){.id = e->job.step}));
		step = e->job.step;
		note_worker(job, trace, e, of_lane);
		n++;
	}
	free(of_lane);
	return n;
}

int sc_job_from_trace(const struct sc_trace *trace, struct sc_job *out, struct sc_err *err)
{
	struct sc_job job = {.n_chunks = 1};
	uint8_t *type = number_types(trace);
	struct sort_key *keys = NULL;
	const size_t n = note_events(trace, type, &job);
	int rc = 0;

	if (n == 0)
		rc = sc_err_at(err, SC_EVALUE, trace->path, 0, 0,
			       "the trace has no operations of a job");
	if (n > SC_NONE)
		rc = sc_err_at(err, SC_ELIMIT, trace->path, 0, 0,
			       "the job has too many operations: n=%zu", n);
	if (rc == 0) {
		order_steps(&job);
		qsort(job.workers.at, job.workers.n, sizeof(*job.workers.at), compare_workers);
		rc = check_workers(&job, trace->path, err);
	}
	if (rc == 0) {
		keys = sort_events(trace, &job, type, n);
		add_ops(trace, keys, n, &job);
		for (size_t i = 0; i < job.steps.n; i++)
			measure_step(&job, &job.steps.at[i]);
		*out = job;
	} else {
		sc_job_release(&job);
	}
	free(keys);
	free(type);
	return rc;
}
