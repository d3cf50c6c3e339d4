/* The operations of a job's step as they are to each other: sends with their receives and
 * collectives are one; the others wait as a pipeline does. */
#include <string.h>

#include "base/search.h"
#include "trace/graph/job_priv.h"

static bool is_recv(int type)
{
	return type == SC_JOB_FORWARD_RECV || type == SC_JOB_BACKWARD_RECV;
}

/* The first chunk receives nothing forward and sends nothing backward; the last the other way.
 * Chunks of the job count from the first layers on. */
static bool op_transfers(const struct job *job, int type, uint32_t compute)
{
	const struct job_op *op = &job->ops[compute];
	const uint32_t stage = op->worker / job->n_dp;
	const uint32_t chunk = (op->chunk > 0 ? (uint32_t)op->chunk : 0) * job->n_stages + stage;

	if (type == SC_JOB_FORWARD_RECV || type == SC_JOB_BACKWARD_SEND)
		return chunk > 0;
	return chunk + 1 < job->n_chunks * job->n_stages;
}

/* A walk over a worker's operations of a type; of sends or receives with the computation each
 * belongs to. Where the trace has these for all computations, those of the model's ends moved
 * nothing; the very first may be missing. */
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
		n += op_transfers(job, type, walk.compute->first + i);
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
	       !op_transfers(w->job, w->type, w->compute->first + w->c))
		w->c++;
	if (w->c < w->compute->n)
		w->matched = w->compute->first + w->c++;
	w->moves = w->matched != SC_NONE && op_transfers(w->job, w->type, w->matched);
	return true;
}

/* ---- which are one ---- */

/* Groups are told apart by their type, receives being with their sends, and by who takes part; of
 * these the k-th of each worker are one. */
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

/* Counts the groups of a slot, then gives operations theirs: a receive without a send has none. */
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

/* A chunk's parameters come before its first forward, its gradients go after its last backward. */
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

/* The step's end is one chain on the stream of computation; reduced gradients are part of it. */
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

void job_find_rules(struct job *job)
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
