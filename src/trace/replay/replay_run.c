/* A replay: the source, the variants of its iterations and what they are compared with, errors. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/threads.h"
#include "base/units.h"
#include "trace/graph/job.h"
#include "trace/replay/replay_study.h"

enum { ARENA_BYTES = 64 << 10 };

const char *const sc_replay_idle_names[SC_N_IDLES] = {[SC_IDLE_HOST] = "host",
						      [SC_IDLE_DATA] = "data",
						      [SC_IDLE_COMM] = "communication",
						      [SC_IDLE_SYNC] = "sync"};

const char *const sc_replay_part_names[SC_N_PARTS] = {
	[SC_PART_COMPUTE] = "compute",   [SC_PART_MEMORY] = "memory",
	[SC_PART_COMM] = "exposed_comm", [SC_PART_PIPELINE] = "pipeline_wait",
	[SC_PART_PEERS] = "peer_wait",   [SC_PART_HOST] = "host",
	[SC_PART_DONE] = "done_early",
};

void sc_replay_opts_init(struct sc_replay_opts *opts)
{
	*opts = (struct sc_replay_opts){.without_rank = -1, .show_step = -1};
}

static bool wants_reshaping(const struct sc_replay_opts *opts)
{
	return opts->overlap != SC_OVERLAP_AS_RECORDED || opts->missing != SC_MISSING_RECORDED;
}

void sc_replay_result_release(struct sc_replay_result *result)
{
	SC_VEC_RELEASE(&result->iterations);
	SC_VEC_RELEASE(&result->ranks);
	SC_VEC_RELEASE(&result->factors);
	SC_VEC_RELEASE(&result->by_range);
	SC_VEC_RELEASE(&result->by_op);
	sc_graph_release(&result->graph);
	sc_timeline_release(&result->timeline);
	sc_arena_release(&result->arena);
}

enum { MAX_OUTLIER_PASSES = 3 };

/* ---- the study: variants of iterations, on threads where none begins with another's rest ---- */

/* Adds what each replica, stage and name of operation of a job brings alone. */
static void add_picks(struct replay_study *study)
{
	const struct sc_trace_run *run = &study->run;
	struct replay_variant v = {TIMES_ZERO, TIMES_MEAN, PICK_DP, 0};

	for (v.which = 0; v.which < run->n_replicas; v.which++)
		SC_VEC_PUSH(&study->variants, v);
	v.pick = PICK_STAGE;
	for (v.which = 0; v.which < run->n_stages; v.which++)
		SC_VEC_PUSH(&study->variants, v);
	v.pick = PICK_OP;
	for (v.which = 0; run->n_replicas && v.which < SC_N_JOB_TYPES; v.which++)
		if (study->mean_us[v.which] >= 0 && v.which != SC_JOB_FORWARD_RECV &&
		    v.which != SC_JOB_BACKWARD_RECV)
			SC_VEC_PUSH(&study->variants, v);
}

static void add_variants(struct replay_study *study)
{
	static const enum replay_times of[] = {[SC_GAPS_AUTO] = TIMES_TYPICAL,
					       [SC_GAPS_MEASURED] = TIMES_MEASURED,
					       [SC_GAPS_TYPICAL] = TIMES_TYPICAL,
					       [SC_GAPS_NONE] = TIMES_ZERO};
	const enum replay_times gaps = of[study->opts->gaps];
	const struct replay_variant fixed[N_FIXED] = {
		[V_RECORDED] = {TIMES_MEASURED, TIMES_MEASURED, PICK_NONE, 0},
		[V_OTHERS] = {TIMES_OTHERS, TIMES_OTHERS, PICK_NONE, 0},
		[V_CHANGED] = {gaps, TIMES_MEASURED, PICK_CHANGED, 0},
		[V_REFERENCE] = {gaps, TIMES_MEASURED, PICK_NONE, 0},
		[V_NO_GAPS] = {TIMES_ZERO, TIMES_MEASURED, PICK_NONE, 0},
		[V_TYPICAL] = {TIMES_ZERO, TIMES_MEAN, PICK_NONE, 0},
		[V_LOSS] = {gaps, TIMES_MEASURED, PICK_NONE, 0},
		[V_EXPLAINED] = {TIMES_MEASURED, TIMES_MEASURED, PICK_NONE, 0},
		[V_FREE] = {gaps, TIMES_MEASURED, PICK_CHANGED, 0},
	};

	for (size_t i = 0; i < N_FIXED; i++)
		SC_VEC_PUSH(&study->variants, fixed[i]);
	if (study->opts->no_what_if)
		return;
	for (uint32_t r = 0; r < study->out->ranks.n && study->out->ranks.n > 1; r++) {
		const struct replay_variant without = {gaps, TIMES_MEASURED, PICK_WITHOUT, r};

		SC_VEC_PUSH(&study->variants, without);
	}
	add_picks(study);
}

/* `study` has run, opts and out; ranks and iterations are described. */
static void replay_study_begin(struct replay_study *study)
{
	const size_t n = study->out->iterations.n, n_ranks = study->out->ranks.n;
	const struct sc_replay_opts *opts = study->opts;

	study->n_iterations = n;
	study->changed = opts->n_changes || opts->gpus || opts->without_rank >= 0 ||
			 opts->gaps != SC_GAPS_AUTO || wants_reshaping(opts);
	study->outlier = sc_xcalloc(n, sizeof(*study->outlier));
	study->parts = sc_xcalloc(n * n_ranks, sizeof(*study->parts));
	study->medians = sc_xcalloc(n_ranks, sizeof(*study->medians));
	sc_replay_means(study);
	add_variants(study);
	study->follow = sc_xcalloc(study->variants.n, sizeof(*study->follow));
	for (size_t v = 0; v < study->variants.n; v++)
		study->follow[v].behind_frac = 1;
	study->n_jobs = study->run.n_replicas && study->opts->jobs ? study->opts->jobs : 1;
	if (study->n_jobs > n)
		study->n_jobs = (unsigned)n;
	study->scratch = sc_xcalloc(study->n_jobs + 1, sizeof(*study->scratch));
	for (unsigned i = 0; i < study->n_jobs; i++) {
		struct replay_scratch *s = &study->scratch[i];

		s->sim = sc_simulator_create();
		s->begin_us = sc_xcalloc(5 * n_ranks, sizeof(double));
		s->host_us = s->begin_us + n_ranks;
		s->work_us = s->host_us + n_ranks;
		s->free_us = s->work_us + n_ranks;
		s->device_us = s->free_us + n_ranks;
		sc_graph_init(&s->graph.graph);
	}
}

static void replay_study_release(struct replay_study *study)
{
	for (unsigned i = 0; study->scratch && i < study->n_jobs; i++) {
		struct replay_scratch *s = &study->scratch[i];

		sc_simulator_destroy(s->sim);
		sc_timeline_release(&s->timeline);
		sc_accountant_release(&s->accountant);
		sc_trace_graph_release(&s->graph);
		free(s->begin_us);
	}
	for (size_t r = 0; r < study->run.ranks.n; r++)
		sc_replay_release_medians(&study->medians[r]);
	for (size_t v = 0; v < study->variants.n; v++)
		SC_VEC_RELEASE(&study->follow[v].left);
	free(study->scratch);
	free(study->us);
	free(study->outlier);
	free(study->parts);
	free(study->follow);
	free(study->medians);
	free(study->mean_us);
	free(study->slowness);
	free(study->host_slowness);
	SC_VEC_RELEASE(&study->variants);
	sc_trace_run_release(&study->run);
}

/* Finds the iteration of the middle time, or the one that was asked for. */
static int find_shown(struct replay_study *study, struct sc_err *err)
{
	const struct sc_replay_iteration *its = study->out->iterations.at;
	const size_t n = study->n_iterations;
	const int64_t step = study->opts->show_step;
	double *ms = sc_xmalloc((n + 1) * sizeof(*ms)), middle;

	for (size_t i = 0; i < n; i++)
		ms[i] = its[i].measured_ms;
	sc_sort_doubles(ms, n);
	middle = ms[(n - 1) / 2];
	free(ms);
	for (study->shown = 0; study->shown < n; study->shown++) {
		const struct sc_replay_iteration *it = &its[study->shown];

		if (step < 0 ? !(it->measured_ms < middle || it->measured_ms > middle)
			     : it->step == step)
			return 0;
	}
	return sc_err_set(err, SC_EVALUE, "the trace has no step %" PRId64, step);
}

/* ---- one iteration in one variant ---- */

static struct replay_at at_of(const struct replay_study *study, struct replay_scratch *s,
			      size_t iteration, size_t v)
{
	return (struct replay_at){.study = study,
				  .s = s,
				  .iteration = iteration,
				  .v = v,
				  .variant = &study->variants.at[v]};
}

/* If it is to be shown, what was just simulated is read and becomes the result's. */
static void keep_shown(const struct replay_at *at, struct sc_reading_input *in)
{
	const struct replay_study *study = at->study;
	struct sc_replay_result *out = study->out;
	struct replay_scratch *s = at->s;
	struct sc_graph *graph = &s->graph.graph;

	if (at->iteration != study->shown || at->v != (study->changed ? V_CHANGED : V_RECORDED))
		return;
	out->node_names = sc_arena_calloc(&out->arena, graph->nodes.n, sizeof(*out->node_names));
	for (uint32_t i = 0; i < graph->nodes.n; i++)
		out->node_names[i] = sc_arena_strdup(
			&out->arena, sc_trace_run_name(&study->run, graph->nodes.at[i].op));
	out->show_step = out->iterations.at[at->iteration].step;
	sc_replay_read(at, in);
	out->graph = *graph;
	out->timeline = s->timeline;
	sc_graph_init(graph);
	s->timeline = (struct sc_timeline){.n = 0};
	s->is_built = false;
}

static int simulate_variant(const struct replay_at at, struct sc_err *err)
{
	struct sc_reading_input in;
	int rc = sc_replay_simulate(&at, &in, err);

	if (rc == 0)
		keep_shown(&at, &in);
	return rc;
}

/* ---- all ---- */

typedef int (*iteration_fn)(void *study, void *scratch, size_t iteration, struct sc_err *err);

static int for_iterations(struct replay_study *study, iteration_fn item, struct sc_err *err)
{
	void **contexts = sc_xmalloc((study->n_jobs + 1) * sizeof(*contexts));
	const struct sc_work work = {.n_items = study->n_iterations,
				     .n_jobs = study->n_jobs,
				     .item = item,
				     .shared = study,
				     .contexts = contexts};
	int rc;

	for (unsigned i = 0; i < study->n_jobs; i++)
		contexts[i] = &study->scratch[i];
	rc = sc_parallel_for(&work, err);
	free(contexts);
	return rc;
}

/* As recorded: also where the time of each rank went, and for whom others waited. */
static int replay_recorded(void *shared, void *context, size_t iteration, struct sc_err *err)
{
	const struct replay_at at = at_of(shared, context, iteration, V_RECORDED);
	const size_t n = at.study->out->ranks.n;
	struct replay_part *part = &at.study->parts[iteration * n];
	struct sc_reading_input in;
	struct sc_account account;
	const int rc = sc_replay_simulate(&at, &in, err);
	double *late_us;

	if (rc)
		return rc;
	late_us = sc_xcalloc(n, sizeof(*late_us));
	sc_accountant_begin(&at.s->accountant, &in.account);
	sc_add_late(&in.account.ran, late_us);
	for (uint32_t r = 0; r < n; r++) {
		sc_account_of_class(&at.s->accountant, r, &account);
		memcpy(part[r].us, account.part_us, sizeof(part[r].us));
		part[r].memory_bound_us =
			account.owner_us[SC_OWN_MEMORY] - account.part_us[SC_PART_MEMORY];
		part[r].late_us = late_us[r];
	}
	free(late_us);
	keep_shown(&at, &in);
	return 0;
}

static int replay_others(void *shared, void *context, size_t iteration, struct sc_err *err)
{
	return simulate_variant(at_of(shared, context, iteration, V_OTHERS), err);
}

static int replay_variants(void *shared, void *context, size_t iteration, struct sc_err *err)
{
	const struct replay_study *study = shared;
	int rc = 0;

	for (size_t v = V_OTHERS + 1; rc == 0 && v < study->variants.n; v++)
		if (v == V_CHANGED ? study->changed
		    : v == V_EXPLAINED || v == V_FREE
			    ? study->changed && !study->run.n_replicas
			    : v < V_NO_GAPS || (v != V_LOSS && !study->opts->no_what_if))
			rc = simulate_variant(at_of(study, context, iteration, v), err);
	return rc;
}

/* Once what is typical is known without some, others may stand out. */
static int predict_all(struct replay_study *study, struct sc_err *err)
{
	const size_t n = study->n_iterations;
	double *measured = sc_xmalloc((n + 1) * sizeof(*measured));
	int rc = 0;

	sc_replay_medians(study);
	for (size_t i = 0; i < n; i++)
		measured[i] = study->out->iterations.at[i].measured_ms * SC_US_PER_MS;
	if (n > 1)
		rc = for_iterations(study, replay_others, err);
	for (int pass = 0; rc == 0 && n > 1 && pass < MAX_OUTLIER_PASSES; pass++) {
		if (!sc_replay_mark_outliers(measured, &study->us[V_OTHERS * n], n, study->outlier))
			break;
		sc_replay_medians(study);
		rc = for_iterations(study, replay_others, err);
	}
	free(measured);
	return rc;
}

/* ---- results ---- */

double sc_replay_study_ms(const struct replay_study *study, size_t v)
{
	const size_t n = study->n_iterations;

	if (v >= study->variants.n)
		return NAN;
	return sc_mean(&study->us[v * n], n) / SC_US_PER_MS;
}

static void put_iterations(const struct replay_study *study)
{
	const size_t n = study->n_iterations;
	struct sc_replay_result *out = study->out;
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		struct sc_replay_iteration *it = &out->iterations.at[i];

		it->simulated_ms = study->us[V_RECORDED * n + i] / SC_US_PER_MS;
		it->changed_ms = study->us[V_CHANGED * n + i] / SC_US_PER_MS;
		it->predicted_ms = study->us[V_OTHERS * n + i] / SC_US_PER_MS;
		it->outlier = study->outlier[i];
		sum += it->measured_ms;
	}
	out->measured_ms = sum / (double)n;
	out->simulated_ms = sc_replay_study_ms(study, V_RECORDED);
	out->predicted_ms = sc_replay_study_ms(study, V_OTHERS);
	out->changed_ms = sc_replay_study_ms(study, V_CHANGED);
	out->unexplained_frac = 1 - sc_replay_study_ms(study, V_EXPLAINED) / out->simulated_ms;
	if (out->unexplained_frac > SC_UNEXPLAINED_FRAC)
		out->changed_free_ms = sc_replay_study_ms(study, V_FREE);
	out->reference_ms = sc_replay_study_ms(study, V_REFERENCE);
	out->no_gaps_ms = sc_replay_study_ms(study, V_NO_GAPS);
	out->typical_ms = sc_replay_study_ms(study, V_TYPICAL);
}

static void put_ranks(const struct replay_study *study)
{
	const double n = (double)study->n_iterations;
	const size_t n_ranks = study->out->ranks.n;

	for (size_t i = 0; i < study->n_iterations * n_ranks; i++) {
		struct sc_replay_rank *rank = &study->out->ranks.at[i % n_ranks];

		for (size_t p = 0; p < SC_N_PARTS; p++)
			rank->part_ms[p] += study->parts[i].us[p];
		rank->memory_bound_ms += study->parts[i].memory_bound_us / (SC_US_PER_MS * n);
		rank->late_ms += study->parts[i].late_us;
	}
	for (size_t r = 0; r < n_ranks; r++) {
		for (size_t p = 0; p < SC_N_PARTS; p++)
			study->out->ranks.at[r].part_ms[p] /= SC_US_PER_MS * n;
		study->out->ranks.at[r].late_ms /= SC_US_PER_MS * n;
	}
	for (size_t v = N_FIXED; v < study->variants.n; v++)
		if (study->variants.at[v].pick == PICK_WITHOUT)
			study->out->ranks.at[study->variants.at[v].which].without_ms =
				sc_replay_study_ms(study, v);
}

static int without_loss(void *shared, void *context, size_t iteration, struct sc_err *err)
{
	return simulate_variant(at_of(shared, context, iteration, V_LOSS), err);
}

/* Simulates all and fills iterations, means, what ranks cost and the shown iteration. */
static int replay_study_run(struct replay_study *study, struct sc_err *err)
{
	const size_t n = study->variants.n * study->n_iterations;
	int rc = find_shown(study, err);

	study->us = sc_xmalloc((n + 1) * sizeof(double));
	for (size_t i = 0; i < n; i++)
		study->us[i] = NAN;
	if (rc == 0)
		rc = for_iterations(study, replay_recorded, err);
	if (rc == 0)
		rc = predict_all(study, err);
	if (rc == 0)
		rc = for_iterations(study, replay_variants, err);
	if (rc)
		return rc;
	put_iterations(study);
	put_ranks(study);
	study->variants.at[V_LOSS].pick = sc_replay_find_worst_loss(study->out);
	if (study->variants.at[V_LOSS].pick != PICK_NONE && !study->opts->no_what_if) {
		rc = for_iterations(study, without_loss, err);
		study->out->without_loss_ms = sc_replay_study_ms(study, V_LOSS);
	}
	if (rc)
		return rc;
	sc_replay_tables(study);
	for (unsigned i = 0; i < study->n_jobs; i++)
		study->out->n_simulated += study->scratch[i].n_simulated;
	sc_replay_results(study);
	sc_replay_explain_outliers(study);
	return 0;
}

/* ---- a replay ---- */

/* --cluster, where nothing asks its network. */
static void warn_unused_cluster(const struct replay_study *study, struct sc_replay_result *out)
{
	const struct sc_replay_opts *opts = study->opts;
	bool asked = opts->gpus > 0;

	for (size_t i = 0; i < opts->n_changes; i++)
		asked = asked || opts->changes[i].action == SC_REPLAY_MODEL;
	if (!opts->network.us)
		return;
	if (study->run.n_replicas)
		sc_warn(&out->warnings,
			"the config of --cluster is not used: the trace of a job has no sizes to ask "
			"its network about");
	else if (!asked)
		sc_warn(&out->warnings, "the config of --cluster is not used: nothing asks it, as "
					"--replace collective=model and --set gpus do");
}

static int load_recording(const struct sc_trace_files *files, const struct sc_replay_opts *opts,
			  struct sc_trace_run *out, struct sc_err *err)
{
	const struct sc_trace_load_opts only_tables = {.skip_events = true};
	struct sc_trace tables;
	int rc = sc_trace_load(files->at[0], &only_tables, &tables, err);
	bool job;

	if (rc)
		return rc;
	job = strcmp(tables.identity.source, "job") == 0;
	sc_trace_release(&tables);
	if (job && (wants_reshaping(opts) || opts->range))
		return sc_err_at(err, SC_EUNSUPPORTED, files->at[0], 0, 0,
				 "--overlap, --missing and --iteration-range are for traces of GPU "
				 "streams; this is a job");
	return job ? sc_trace_run_load_job(files, out, err)
		   : sc_trace_run_load(
			     files,
			     &(struct sc_trace_run_opts){.range = opts->range, .ranges = true}, out,
			     err);
}

int sc_replay(const char *path, const struct sc_replay_opts *opts, struct sc_replay_result *out,
	      struct sc_err *err)
{
	struct replay_study study = {.opts = opts, .out = out};
	struct sc_trace_files files;
	int rc;

	*out = (struct sc_replay_result){
		.gaps = opts->gaps,
		.measured_ms = NAN,
		.simulated_ms = NAN,
		.predicted_ms = NAN,
		.no_gaps_ms = NAN,
		.reference_ms = NAN,
		.typical_ms = NAN,
		.changed_ms = NAN,
		.changed_free_ms = NAN,
	};
	sc_arena_init(&out->arena, ARENA_BYTES);
	rc = sc_trace_list(path, &out->arena, &files.at, &files.n, err);
	if (rc == 0)
		rc = sc_trace_loss_of_run(files.at, files.n, &out->loss, err);
	if (rc == 0)
		rc = load_recording(&files, opts, &study.run, err);
	if (rc) {
		sc_replay_result_release(out);
		return rc;
	}
	sc_replay_describe(&study, out);
	replay_study_begin(&study);
	rc = sc_replay_check(&study, err);
	if (rc == 0)
		rc = replay_study_run(&study, err);
	if (rc == 0)
		warn_unused_cluster(&study, out);
	else
		sc_replay_result_release(out);
	replay_study_release(&study);
	return rc;
}

/* ---- errors ---- */

void sc_replay_error_of(const struct sc_replay_result *result, enum sc_replay_column column,
			struct sc_replay_error *out)
{
	const double none = (double)NAN;
	double *pct = sc_xmalloc(result->iterations.n * sizeof(*pct) + 1), sum = 0;
	struct sc_replay_error e = {none, none, none, none, none, none, none, none};
	size_t n = 0;

	for (size_t i = 0; i < result->iterations.n; i++) {
		const struct sc_replay_iteration *it = &result->iterations.at[i];
		const double ms =
			column == SC_REPLAY_SIMULATED ? it->simulated_ms : it->predicted_ms;
		const double error_pct = SC_PCT * (ms / it->measured_ms - 1);
		const double off_pct = SC_PCT * (it->measured_ms / ms - 1);

		if (!isfinite(error_pct) || !isfinite(off_pct))
			continue;
		sum += error_pct;
		pct[n++] = fabs(error_pct);
		e.low_pct = fmin(e.low_pct, off_pct);
		e.high_pct = fmax(e.high_pct, off_pct);
		if (it->outlier)
			continue;
		e.typical_max_pct = fmax(e.typical_max_pct, fabs(error_pct));
		e.typical_low_pct = fmin(e.typical_low_pct, off_pct);
		e.typical_high_pct = fmax(e.typical_high_pct, off_pct);
	}
	sc_sort_doubles(pct, n);
	e.median_pct = sc_percentile_sorted(pct, n, 50);
	if (n) {
		e.max_pct = pct[n - 1];
		e.bias_pct = sum / (double)n;
	}
	*out = e;
	free(pct);
}
