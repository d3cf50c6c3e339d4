/* Replay of operator timelines. Every step is built once and simulated in several variants; steps are
 * independent, so they run on threads. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/threads.h"
#include "study/replay/replay_job_priv.h"

/* ---- over steps, on threads ---- */

typedef int (*step_fn)(void *run, void *scratch, size_t step, struct sc_err *err);

static int for_steps(struct job_run *run, step_fn item, struct sc_err *err)
{
	const struct sc_work work = {
		.n_items = run->job.steps.n,
		.n_jobs = run->n_jobs,
		.item = item,
		.shared = run,
		.contexts = (void *const *)run->scratch,
	};

	return sc_parallel_for(&work, err);
}

static int simulate(const struct sc_job *job, size_t step, struct job_scratch *s,
		    struct sc_err *err)
{
	const struct sc_sim_opts opts = {.no_contention = 1};
	const int rc = sc_simulate(s->sim, &s->graph.graph, &opts, &s->timeline, err);

	if (rc)
		sc_err_prefix(err, "step %" PRId64, job->steps.at[step].id);
	return rc;
}

static int simulate_variant(const struct job_study *study, size_t step,
			    const struct job_variant *variant, struct job_scratch *s, double *us,
			    struct sc_err *err)
{
	int rc;

	sc_job_variant_set(study, step, variant, s);
	rc = simulate(study->job, step, s, err);
	if (rc == 0)
		*us = s->timeline.total_us;
	return rc;
}

/* As recorded, and without gaps; keeps what the statistics need. */
static int measure_step(void *shared, void *context, size_t step, struct sc_err *err)
{
	static const struct job_variant no_gaps = {.gaps = JOB_GAPS_NONE};
	struct job_run *run = shared;
	struct job_study *study = &run->study;
	struct job_scratch *s = context;
	const size_t first = run->job.steps.at[step].first_op;
	int rc;

	sc_build_job_step(&run->job, step, &s->graph);
	study->n_unpaired[step] = s->graph.n_unpaired;
	for (size_t i = 0; i < s->graph.n_ops; i++) {
		study->gap_us[first + i] = s->graph.gap_us[i];
		study->work_us[first + i] = s->graph.work_us[i];
	}
	rc = simulate(&run->job, step, s, err);
	if (rc)
		return rc;
	study->measured_us[step] = s->timeline.total_us;
	sc_job_parts(&run->job, step, s, &study->parts[step * run->job.workers.n]);
	return simulate_variant(study, step, &no_gaps, s, &study->no_gaps_us[step], err);
}

static int vary_step(void *shared, void *context, size_t step, struct sc_err *err)
{
	struct job_run *run = shared;
	struct job_scratch *s = context;
	const struct job_study *built = NULL;
	int rc = 0;

	for (size_t v = 0; rc == 0 && v < run->variants.n; v++) {
		const struct job_variant *variant = &run->variants.at[v];
		const struct job_study *study =
			variant->pick == JOB_CHANGED ? &run->resized : &run->study;

		if (!built || study->job != built->job)
			sc_build_job_step(study->job, step, &s->graph);
		built = study;
		rc = simulate_variant(study, step, variant, s,
				      &run->variant_us[v * run->job.steps.n + step], err);
	}
	return rc;
}

/* ---- variants ---- */

static enum job_gaps changed_gaps(const struct sc_replay_opts *opts)
{
	switch (opts->gaps) {
	case SC_GAPS_MEASURED:
		return JOB_GAPS_MEASURED;
	case SC_GAPS_NONE:
		return JOB_GAPS_NONE;
	case SC_GAPS_AUTO:
	case SC_GAPS_TYPICAL:
		break;
	}
	return JOB_GAPS_TYPICAL;
}

static void add_variant(struct job_run *run, enum job_gaps gaps, enum job_work work,
			enum job_pick pick, uint32_t which)
{
	const struct job_variant variant = {gaps, work, pick, which};

	SC_VEC_PUSH(&run->variants, variant);
}

static bool has_type(const struct sc_job *job, int type)
{
	for (size_t i = 0; i < job->steps.at[0].n_ops; i++)
		if (job->ops.at[i].type == type)
			return true;
	return false;
}

static void choose_variants(struct job_run *run, const struct sc_replay_opts *opts)
{
	const struct sc_job *job = &run->job;

	add_variant(run, JOB_GAPS_OTHERS, JOB_WORK_OTHERS, JOB_PICK_NONE, 0);
	if (opts->no_what_if && !sc_replay_has_change(opts))
		return;
	add_variant(run, sc_replay_has_change(opts) ? changed_gaps(opts) : JOB_GAPS_TYPICAL,
		    JOB_WORK_MEASURED, sc_replay_has_change(opts) ? JOB_CHANGED : JOB_PICK_NONE, 0);
	add_variant(run, changed_gaps(opts), JOB_WORK_MEASURED, JOB_PICK_NONE, 0);
	add_variant(run, JOB_GAPS_NONE, JOB_WORK_TYPICAL, JOB_PICK_NONE, 0);
	if (opts->no_what_if)
		return;
	for (uint32_t w = 0; w < job->workers.n && job->workers.n > 1; w++)
		add_variant(run, changed_gaps(opts), JOB_WORK_MEASURED, JOB_WITHOUT, w);
	for (uint32_t d = 0; d < job->n_dp; d++)
		add_variant(run, JOB_GAPS_NONE, JOB_WORK_TYPICAL, JOB_PICK_DP, d);
	for (uint32_t s = 0; s < job->n_stages; s++)
		add_variant(run, JOB_GAPS_NONE, JOB_WORK_TYPICAL, JOB_PICK_STAGE, s);
	for (uint32_t t = 0; t < SC_N_JOB_TYPES; t++)
		if (t != SC_JOB_FORWARD_RECV && t != SC_JOB_BACKWARD_RECV && has_type(job, (int)t))
			add_variant(run, JOB_GAPS_NONE, JOB_WORK_TYPICAL, JOB_PICK_TYPE, t);
}

/* ---- the shown step ---- */

/* The step whose measured time is in the middle. */
static size_t middle_step(const struct sc_job *job, struct sc_arena *arena)
{
	double *us = sc_arena_calloc(arena, job->steps.n, sizeof(*us)), middle_us;

	for (size_t i = 0; i < job->steps.n; i++)
		us[i] = job->steps.at[i].measured_us;
	sc_sort_doubles(us, job->steps.n);
	middle_us = us[(job->steps.n - 1) / 2];
	for (size_t i = 0; i < job->steps.n; i++)
		if (job->steps.at[i].measured_us <= middle_us &&
		    job->steps.at[i].measured_us >= middle_us)
			return i;
	return 0;
}

static int find_shown(const struct job_run *run, const struct sc_replay_opts *opts,
		      struct sc_arena *arena, size_t *step, struct sc_err *err)
{
	*step = middle_step(&run->job, arena);
	for (size_t i = 0; opts->show_step >= 0 && i <= run->job.steps.n; i++) {
		if (i == run->job.steps.n)
			return sc_err_set(err, SC_EVALUE, "the trace has no step %" PRId64,
					  opts->show_step);
		if (run->job.steps.at[i].id == opts->show_step) {
			*step = i;
			break;
		}
	}
	return 0;
}

/* Simulates the shown step once more and leaves its graph and timeline in the result. */
static int put_shown(struct job_run *run, const struct sc_replay_opts *opts, bool changed,
		     struct sc_replay_result *out, struct sc_err *err)
{
	static const struct job_variant as_recorded = {.gaps = JOB_GAPS_MEASURED};
	const struct job_study *study = changed ? &run->resized : &run->study;
	struct job_scratch *s = run->scratch[0];
	double us;
	size_t step;
	int rc = find_shown(run, opts, &out->arena, &step, err);

	if (rc)
		return rc;
	sc_build_job_step(study->job, step, &s->graph);
	rc = simulate_variant(study, step,
			      changed ? &run->variants.at[SC_JOB_V_CHANGED] : &as_recorded, s, &us,
			      err);
	if (rc)
		return rc;
	out->node_names =
		sc_arena_calloc(&out->arena, s->graph.graph.nodes.n, sizeof(*out->node_names));
	for (size_t i = 0; i < s->graph.graph.nodes.n; i++) {
		const size_t op =
			study->job->steps.at[step].first_op + s->graph.graph.nodes.at[i].op;

		out->node_names[i] = sc_job_types[study->job->ops.at[op].type].name;
	}
	out->show_step = study->job->steps.at[step].id;
	out->graph = s->graph.graph;
	out->timeline = s->timeline;
	sc_graph_init(&s->graph.graph);
	s->timeline = (struct sc_timeline){.n = 0};
	sc_replay_show(out);
	return 0;
}

/* ---- the whole ---- */

/* Before anything is simulated: what no variant can do, and selectors that nothing matches. */
static int check_changes(const struct job_run *run, const struct sc_replay_opts *opts,
			 struct sc_err *err)
{
	for (size_t c = 0; c < opts->n_changes; c++) {
		const struct sc_replay_change *change = &opts->changes[c];
		bool found = false;

		if (change->action == SC_REPLAY_MODEL)
			return sc_err_set(err, SC_EUNSUPPORTED,
					  "%.64s=model: an operator timeline does not say what was "
					  "computed or how many bytes were sent",
					  change->selector.text);
		for (size_t step = 0; step < run->job.steps.n && !found; step++) {
			const struct sc_job_step *s = &run->job.steps.at[step];

			for (size_t i = 0; i < s->n_ops && !found; i++) {
				struct sc_replay_subject subject = sc_job_subject(
					&run->job, step, &run->job.ops.at[s->first_op + i]);

				found = sc_selector_match(&change->selector, &subject);
				subject.kind = SC_REPLAY_HOST;
				subject.name = "launch";
				found = found || sc_selector_match(&change->selector, &subject);
			}
		}
		if (!found)
			return sc_err_set(err, SC_EVALUE, "%.64s: no recorded operation matches",
					  change->selector.text);
	}
	return 0;
}

static int check_rank(const struct job_run *run, const struct sc_replay_opts *opts,
		      struct sc_err *err)
{
	for (size_t w = 0; w < run->job.workers.n && opts->without_rank >= 0; w++)
		if (run->job.workers.at[w].rank == opts->without_rank && run->job.workers.n > 1)
			return 0;
	if (opts->without_rank < 0)
		return 0;
	return sc_err_set(err, SC_EVALUE, "the trace has no rank %" PRId64 " among others",
			  opts->without_rank);
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
	s->parts = sc_xmalloc(n_steps * n_workers * sizeof(*s->parts));
	s->measured_us = sc_xmalloc(n_steps * sizeof(double));
	s->no_gaps_us = sc_xmalloc(n_steps * sizeof(double));
	s->n_unpaired = sc_xmalloc(n_steps * sizeof(*s->n_unpaired));
	run->n_jobs = opts->jobs ? opts->jobs : 1;
	if (run->n_jobs > n_steps)
		run->n_jobs = (unsigned)n_steps;
	run->scratch = sc_xmalloc(run->n_jobs * sizeof(struct job_scratch *));
	for (unsigned i = 0; i < run->n_jobs; i++)
		run->scratch[i] = sc_job_scratch_create();
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
	free(run->study.parts);
	free(run->study.measured_us);
	free(run->study.no_gaps_us);
	free(run->study.n_unpaired);
	for (unsigned i = 0; i < run->n_jobs; i++)
		sc_job_scratch_destroy(run->scratch[i]);
	free(run->scratch);
	free(run->variant_us);
	SC_VEC_RELEASE(&run->variants);
	sc_job_release(&run->resized_job);
	sc_job_release(&run->job);
}

static int replay(struct job_run *run, const struct sc_replay_opts *opts,
		  struct sc_replay_result *out, struct sc_err *err)
{
	const bool changed = sc_replay_has_change(opts);
	int rc = check_changes(run, opts, err);

	if (rc == 0)
		rc = check_rank(run, opts, err);
	if (rc == 0)
		rc = for_steps(run, measure_step, err);
	if (rc)
		return rc;
	sc_job_study_typical(&run->study);
	sc_job_study_others(&run->study);
	rc = sc_job_resize(run, opts->gpus, err);
	if (rc)
		return rc;
	choose_variants(run, opts);
	run->variant_us = sc_xmalloc(run->variants.n * run->job.steps.n * sizeof(double));
	rc = for_steps(run, vary_step, err);
	if (rc)
		return rc;
	sc_job_results(run, changed, out);
	return put_shown(run, opts, changed, out, err);
}

static bool takes_job(const struct sc_trace *tables)
{
	return strcmp(tables->identity.source, "job") == 0;
}

static int run_job(const char *const *files, size_t n_files, const struct sc_replay_opts *opts,
		   struct sc_replay_result *out, struct sc_err *err)
{
	const struct sc_trace_load_opts only_job = {.classes = 1u << SC_EV_JOB_OP};
	struct job_run run = {.n_jobs = 0};
	struct sc_trace trace;
	int rc;

	if (n_files > 1)
		return sc_err_at(err, SC_EUNSUPPORTED, files[1], 0, 0,
				 "a second operator timeline; replay one job at a time");
	rc = sc_trace_load(files[0], &only_job, &trace, err);
	if (rc)
		return rc;
	rc = sc_job_from_trace(&trace, &run.job, err);
	sc_trace_release(&trace);
	if (rc)
		return rc;
	begin_run(&run, opts);
	rc = replay(&run, opts, out, err);
	end_run(&run);
	return rc;
}

const struct sc_replay_source sc_replay_job = {.name = "job", .takes = takes_job, .run = run_job};
