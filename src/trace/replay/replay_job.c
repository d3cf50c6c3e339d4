/* Operator timelines as a kind of recording to study: its steps are independent, so they run on threads. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "trace/replay/replay_job_priv.h"

/* ---- steps ---- */

static bool predicts(const void *model, size_t step)
{
	const struct job_run *run = model;

	return !isnan(run->study.other_work_us[run->job.steps.at[step].first_op]);
}

static bool reshapes(const void *model)
{
	const struct job_run *run = model;

	return run->resized.job != run->study.job;
}

static const struct job_study *study_of(const struct replay_at *at)
{
	const struct job_run *run = at->model;

	return at->v == V_CHANGED ? &run->resized : &run->study;
}

static const struct sc_job_op *op_of(const struct replay_at *at, uint32_t node)
{
	const struct sc_job *job = study_of(at)->job;

	return &job->ops.at[job->steps.at[at->iteration].first_op +
			    at->s->graph->nodes.at[node].op];
}

/* ---- their graphs ---- */

static int build(void *self, struct sc_graph **graph, struct sc_err *err)
{
	const struct replay_at *at = self;
	struct job_built *built = at->s->built;

	(void)err;
	if (!sc_replay_is_built(at))
		sc_build_job_step(study_of(at)->job, at->iteration, &built->graph);
	if (at->v != V_RECORDED)
		sc_job_variant_set(study_of(at), at->iteration, at->variant, built);
	*graph = &built->graph.graph;
	return 0;
}

/* What the statistics need. */
static void recorded(const struct replay_at *at)
{
	struct job_run *run = at->model;
	const struct sc_job_graph *graph = &((const struct job_built *)at->s->built)->graph;
	const size_t first = run->job.steps.at[at->iteration].first_op;

	run->study.n_unpaired[at->iteration] = graph->n_unpaired;
	memcpy(&run->study.gap_us[first], graph->gap_us, graph->n_ops * sizeof(double));
	memcpy(&run->study.work_us[first], graph->work_us, graph->n_ops * sizeof(double));
}

static int typical(struct replay_study *study, struct sc_err *err)
{
	struct job_run *run = study->model;

	sc_job_study_typical(&run->study);
	sc_job_study_others(&run->study);
	return sc_job_resize(run, study->opts->gpus, err);
}

static enum sc_wait wait_of(const void *ctx, uint32_t node)
{
	return sc_job_types[op_of(ctx, node)->type].span == SC_SPAN_PAIR ? SC_WAIT_STAGE
									 : SC_WAIT_PEERS;
}

static void op_info(void *self, const struct sc_timeline *timeline, struct sc_reading_input *out)
{
	const struct replay_at *at = self;

	*out = (struct sc_reading_input){
		.account = {.ran = {at->s->graph, timeline, wait_of, at},
			    .period = {.to_us = timeline->total_us}},
		.last = SC_NONE,
	};
}

static const char *node_name(const struct replay_at *at, uint32_t node)
{
	return sc_job_types[op_of(at, node)->type].name;
}

static double recorded_us(const struct replay_at *at, uint32_t node)
{
	return sc_ns_us(op_of(at, node)->end_ns);
}

static bool ends(const struct replay_at *at, uint32_t node)
{
	(void)at;
	(void)node;
	return true;
}

/* ---- changes ---- */

static unsigned matches(const void *model, const struct sc_selector *selector)
{
	const struct job_run *run = model;
	unsigned kinds = 0;

	for (size_t step = 0; step < run->job.steps.n; step++) {
		const struct sc_job_step *s = &run->job.steps.at[step];

		for (size_t i = 0; i < s->n_ops; i++) {
			struct sc_replay_subject subject =
				sc_job_subject(&run->job, step, &run->job.ops.at[s->first_op + i]);

			if (sc_selector_match(selector, &subject))
				kinds |= 1u << subject.kind;
			subject.kind = SC_REPLAY_HOST;
			subject.name = "launch";
			if (sc_selector_match(selector, &subject))
				kinds |= 1u << SC_REPLAY_HOST;
		}
	}
	return kinds;
}

static int check(const void *model, const struct sc_replay_change *change, unsigned kinds,
		 struct sc_warnings *warnings, struct sc_err *err)
{
	(void)model;
	(void)kinds;
	(void)warnings;
	if (change->action != SC_REPLAY_MODEL)
		return 0;
	return sc_err_set(err, SC_EUNSUPPORTED,
			  "%.64s=model: an operator timeline does not say what was computed or how "
			  "many bytes were sent",
			  change->selector.text);
}

static const struct replay_kind JOB = {
	.workload = {.build = build, .op_info = op_info, .no_contention = true},
	.create = sc_job_built_create,
	.destroy = sc_job_built_destroy,
	.reshapes = reshapes,
	.recorded = recorded,
	.typical = typical,
	.predicts = predicts,
	.name = node_name,
	.recorded_us = recorded_us,
	.ends = ends,
	.say = sc_job_results,
	.matches = matches,
	.check = check,
};

/* ---- the whole ---- */

static bool has_type(const struct sc_job *job, int type)
{
	for (size_t i = 0; i < job->steps.at[0].n_ops; i++)
		if (job->ops.at[i].type == type)
			return true;
	return false;
}

/* What each replica, stage and type of operation alone brings. */
static void add_picks(const struct sc_job *job, struct replay_study *study)
{
	struct replay_variant v = {TIMES_ZERO, TIMES_MEAN, PICK_DP, 0};

	for (v.which = 0; v.which < job->n_dp; v.which++)
		sc_replay_study_add(study, v);
	v.pick = PICK_STAGE;
	for (v.which = 0; v.which < job->n_stages; v.which++)
		sc_replay_study_add(study, v);
	v.pick = PICK_OP;
	for (v.which = 0; v.which < SC_N_JOB_TYPES; v.which++)
		if (v.which != SC_JOB_FORWARD_RECV && v.which != SC_JOB_BACKWARD_RECV &&
		    has_type(job, (int)v.which))
			sc_replay_study_add(study, v);
}

static void begin_run(struct job_run *run, const struct sc_replay_opts *opts)
{
	const size_t n = run->job.ops.n, n_steps = run->job.steps.n, n_workers = run->job.workers.n;
	struct job_study *s = &run->study;

	*s = (struct job_study){.job = &run->job, .opts = opts, .ring = 1};
	s->gap_us = sc_xmalloc(n * sizeof(double));
	s->work_us = sc_xmalloc(n * sizeof(double));
	s->other_gap_us = sc_xmalloc(n * sizeof(double));
	s->other_work_us = sc_xmalloc(n * sizeof(double));
	s->worker_us = sc_xmalloc(n_workers * SC_N_JOB_TYPES * sizeof(double));
	s->n_unpaired = sc_xmalloc(n_steps * sizeof(*s->n_unpaired));
	run->resized = *s;
}

static void end_run(struct job_run *run)
{
	if (run->resized.job == &run->resized_job) {
		free(run->resized.gap_us);
		free(run->resized.work_us);
		free(run->resized.worker_us);
	}
	free(run->study.gap_us);
	free(run->study.work_us);
	free(run->study.other_gap_us);
	free(run->study.other_work_us);
	free(run->study.worker_us);
	free(run->study.n_unpaired);
	sc_job_release(&run->resized_job);
	sc_job_release(&run->job);
}

static int study_job(struct job_run *run, const struct sc_replay_opts *opts,
		     struct sc_replay_result *out, struct sc_err *err)
{
	struct replay_study study = {
		.kind = &JOB, .model = run, .opts = opts, .out = out, .n_jobs = opts->jobs};
	int rc;

	sc_job_describe(run, out);
	sc_replay_study_begin(&study);
	if (!opts->no_what_if)
		add_picks(&run->job, &study);
	rc = sc_replay_study_check(&study, err);
	if (rc == 0)
		rc = sc_replay_study_run(&study, err);
	sc_replay_study_release(&study);
	return rc;
}

static bool takes_job(const struct sc_trace *tables)
{
	return strcmp(tables->identity.source, "job") == 0;
}

static int run_job(const struct sc_trace_files *files, const struct sc_replay_opts *opts,
		   struct sc_replay_result *out, struct sc_err *err)
{
	const struct sc_trace_load_opts only_job = {.classes = 1u << SC_EV_JOB_OP};
	struct job_run run = {.job = {.n_dp = 0}};
	struct sc_trace trace;
	int rc;

	if (files->n > 1)
		return sc_err_at(err, SC_EUNSUPPORTED, files->at[1], 0, 0,
				 "a second operator timeline; replay one job at a time");
	rc = sc_trace_load(files->at[0], &only_job, &trace, err);
	if (rc)
		return rc;
	rc = sc_job_from_trace(&trace, &run.job, err);
	sc_trace_release(&trace);
	if (rc)
		return rc;
	begin_run(&run, opts);
	rc = study_job(&run, opts, out, err);
	end_run(&run);
	return rc;
}

const struct sc_replay_source sc_replay_job = {.name = "job", .takes = takes_job, .run = run_job};
