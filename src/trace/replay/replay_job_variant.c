/* The costs of a variant of a step: measured, typical or other steps' values, then what was picked. A
 * change of a group's member is one of the group. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/replay/replay_job_priv.h"

/* One step while its costs are made. */
struct costs {
	const struct job_study *study;
	struct job_built *built;
	size_t step, first, n; /* operations of the step, in job->ops */
	const struct sc_job_op *ops;
};

static void reserve(struct job_built *s, size_t n_ops, size_t n_groups)
{
	if (s->cap < n_ops) {
		s->cap = n_ops;
		s->gap_us = sc_xrealloc(s->gap_us, n_ops, sizeof(*s->gap_us));
		s->work_us = sc_xrealloc(s->work_us, n_ops, sizeof(*s->work_us));
	}
	if (s->cap_marks < n_groups + 1) {
		s->cap_marks = n_groups + 1;
		s->mark = sc_xrealloc(s->mark, n_groups + 1, 1);
	}
}

struct sc_replay_subject sc_job_subject(const struct sc_job *job, size_t step,
					const struct sc_job_op *op)
{
	const struct sc_job_worker *worker = &job->workers.at[op->worker];

	return (struct sc_replay_subject){
		.kind = sc_job_types[op->type].kind,
		.name = sc_job_types[op->type].name,
		.rank = worker->rank,
		.dp_rank = worker->dp_rank,
		.stage = worker->stage,
		.step = job->steps.at[step].id,
	};
}

static double typical_gap(const struct costs *c, size_t i)
{
	return c->study->typical_gap_us[sc_job_gap_class(c->study->job, c->first + i)];
}

static double base_gap(const struct costs *c, enum replay_times gaps, size_t i)
{
	double us;

	switch (gaps) {
	case TIMES_ZERO:
		return 0;
	case TIMES_TYPICAL:
	case TIMES_MEAN:
		return typical_gap(c, i);
	case TIMES_OTHERS:
		us = c->study->other_gap_us[c->first + i];
		return isnan(us) ? typical_gap(c, i) : us;
	case TIMES_MEASURED:
		break;
	}
	return c->study->gap_us[c->first + i];
}

static double base_work(const struct costs *c, enum replay_times work, size_t i)
{
	const double typical_us = c->study->type_us[c->ops[i].type];
	double us;

	switch (work) {
	case TIMES_ZERO:
		return 0;
	case TIMES_TYPICAL:
	case TIMES_MEAN:
		return typical_us;
	case TIMES_OTHERS:
		us = c->study->other_work_us[c->first + i];
		return isnan(us) ? typical_us : us;
	case TIMES_MEASURED:
		break;
	}
	return c->study->work_us[c->first + i];
}

/* Sends and receives of a direction are one operation. */
static int pair_type(int type)
{
	if (type == SC_JOB_FORWARD_RECV)
		return SC_JOB_FORWARD_SEND;
	return type == SC_JOB_BACKWARD_RECV ? SC_JOB_BACKWARD_SEND : type;
}

static bool picks(const struct costs *c, const struct replay_variant *v, const struct sc_job_op *op)
{
	const struct sc_job_worker *worker = &c->study->job->workers.at[op->worker];

	switch (v->pick) {
	case PICK_DP:
		return (uint32_t)worker->dp_rank == v->which;
	case PICK_STAGE:
		return (uint32_t)worker->stage == v->which;
	case PICK_OP:
		return pair_type(op->type) == (int)v->which;
	case PICK_NONE:
	case PICK_WITHOUT:
	case PICK_CHANGED:
		break;
	}
	return false;
}

/* Marks the operations that `wanted` says, and with one of a group all of it; then calls `apply`. */
typedef bool (*wanted_fn)(const struct costs *c, const void *what, const struct sc_job_op *op);
typedef void (*apply_fn)(const struct costs *c, const void *what, size_t i);
static void change_ops(const struct costs *c, wanted_fn wanted, apply_fn apply, const void *what)
{
	const struct sc_job_graph *graph = &c->built->graph;

	memset(c->built->mark, 0, graph->graph.groups.n + 1);
	for (size_t i = 0; i < c->n; i++) {
		if (!wanted(c, what, &c->ops[i]))
			continue;
		if (graph->group[i] == SC_NONE)
			apply(c, what, i);
		else
			c->built->mark[graph->group[i]] = 1;
	}
	for (size_t i = 0; i < c->n; i++)
		if (graph->group[i] != SC_NONE && c->built->mark[graph->group[i]])
			apply(c, what, i);
}

static bool is_picked(const struct costs *c, const void *what, const struct sc_job_op *op)
{
	return picks(c, what, op);
}

static void put_measured(const struct costs *c, const void *what, size_t i)
{
	(void)what;
	c->built->work_us[i] = c->study->work_us[c->first + i];
}

/* The worker's computation times what makes it as fast as the others are on average, if it is slower. */
static void take_slowness(const struct costs *c, uint32_t worker)
{
	const size_t n_workers = c->study->job->workers.n;

	for (size_t i = 0; i < c->n; i++) {
		const uint8_t type = c->ops[i].type;
		const double own_us = c->study->worker_us[worker * SC_N_JOB_TYPES + type];
		double others_us = 0;

		if (c->ops[i].worker != worker || sc_job_types[type].kind != SC_REPLAY_KERNEL)
			continue;
		for (uint32_t w = 0; w < n_workers; w++)
			others_us +=
				w == worker ? 0 : c->study->worker_us[w * SC_N_JOB_TYPES + type];
		others_us /= (double)(n_workers - 1);
		if (own_us > others_us)
			c->built->work_us[i] *= others_us / own_us;
	}
}

/* ---- what was asked for ---- */

static bool is_selected(const struct costs *c, const void *what, const struct sc_job_op *op)
{
	const struct sc_replay_change *change = what;
	const struct sc_replay_subject subject = sc_job_subject(c->study->job, c->step, op);

	return sc_selector_match(&change->selector, &subject);
}

static void apply_change(const struct costs *c, const void *what, size_t i)
{
	const struct sc_replay_change *change = what;
	double *work_us = &c->built->work_us[i];

	if (change->action == SC_REPLAY_SCALE)
		*work_us *= change->factor;
	else
		*work_us = c->study->type_us[c->ops[i].type];
}

/* Launch gaps are host work named "launch". */
static void change_gaps(const struct costs *c, const struct sc_replay_change *change)
{
	for (size_t i = 0; i < c->n; i++) {
		struct sc_replay_subject subject =
			sc_job_subject(c->study->job, c->step, &c->ops[i]);

		subject.kind = SC_REPLAY_HOST;
		subject.name = "launch";
		if (!sc_selector_match(&change->selector, &subject))
			continue;
		if (change->action == SC_REPLAY_SCALE)
			c->built->gap_us[i] *= change->factor;
		else
			c->built->gap_us[i] = typical_gap(c, i);
	}
}

static void apply_changes(const struct costs *c)
{
	const struct sc_replay_opts *opts = c->study->opts;
	const struct sc_job *job = c->study->job;

	for (size_t i = 0; i < opts->n_changes; i++) {
		change_ops(c, is_selected, apply_change, &opts->changes[i]);
		change_gaps(c, &opts->changes[i]);
	}
	for (uint32_t w = 0; w < job->workers.n && opts->without_rank >= 0; w++)
		if (job->workers.at[w].rank == opts->without_rank)
			take_slowness(c, w);
	for (size_t i = 0; i < c->n; i++)
		if (sc_job_types[c->ops[i].type].span == SC_SPAN_STAGE)
			c->built->work_us[i] *= c->study->ring;
}

void sc_job_variant_set(const struct job_study *study, size_t step, const struct replay_variant *v,
			struct job_built *built)
{
	const struct sc_job_step *at = &study->job->steps.at[step];
	const struct costs c = {
		.study = study,
		.built = built,
		.step = step,
		.first = at->first_op,
		.n = at->n_ops,
		.ops = &study->job->ops.at[at->first_op],
	};

	reserve(built, c.n, built->graph.graph.groups.n);
	for (size_t i = 0; i < c.n; i++) {
		built->gap_us[i] = base_gap(&c, v->gaps, i);
		built->work_us[i] = base_work(&c, v->work, i);
	}
	if (v->pick == PICK_WITHOUT)
		take_slowness(&c, v->which);
	else if (v->pick == PICK_CHANGED)
		apply_changes(&c);
	else if (v->pick != PICK_NONE)
		change_ops(&c, is_picked, put_measured, v);
	sc_job_graph_set(study->job, step, &built->graph, built->gap_us, built->work_us);
}

void *sc_job_built_create(void)
{
	struct job_built *built = sc_xmalloc(sizeof(*built));

	*built = (struct job_built){.cap = 0};
	return built;
}

void sc_job_built_destroy(void *p)
{
	struct job_built *built = p;

	sc_job_graph_release(&built->graph);
	free(built->gap_us);
	free(built->work_us);
	free(built->mark);
	free(built);
}
