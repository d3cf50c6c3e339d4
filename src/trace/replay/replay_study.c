/* The study: variants of all iterations, on threads where no iteration begins with what the one before left; what they are
 * compared with, and what is said of them. */
#include "trace/replay/replay_study.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/threads.h"
#include "base/units.h"
#include "trace/graph/job.h"

enum { MAX_OUTLIER_PASSES = 3 };

/* ---- begin and end ---- */

/* What each replica, stage and name of operation of a job alone brings. */
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

void sc_replay_study_begin(struct replay_study *study)
{
	const size_t n = study->out->iterations.n, n_ranks = study->out->ranks.n;

	study->n_iterations = n;
	study->changed = sc_replay_has_change(study->opts);
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
		study->scratch[i].sim = sc_simulator_create();
		study->scratch[i].ends_us = sc_xcalloc(4 * n_ranks, sizeof(double));
		sc_graph_init(&study->scratch[i].graph.graph);
	}
}

void sc_replay_study_release(struct replay_study *study)
{
	for (unsigned i = 0; study->scratch && i < study->n_jobs; i++) {
		struct replay_scratch *s = &study->scratch[i];

		sc_simulator_destroy(s->sim);
		sc_timeline_release(&s->timeline);
		sc_accountant_release(&s->accountant);
		sc_trace_graph_release(&s->graph);
		SC_VEC_RELEASE(&s->begin_us);
		SC_VEC_RELEASE(&s->end_us);
		free(s->ends_us);
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

/* ---- before anything is simulated ---- */

int sc_replay_study_check(const struct replay_study *study, struct sc_err *err)
{
	const int64_t without = study->opts->without_rank;
	bool found = without < 0;
	int rc = 0;

	for (size_t r = 0; r < study->out->ranks.n && study->out->ranks.n > 1; r++)
		found = found || study->out->ranks.at[r].rank == without;
	if (!found)
		return sc_err_set(err, SC_EVALUE, "the trace has no rank %" PRId64 " among others",
				  without);
	for (size_t i = 0; rc == 0 && i < study->opts->n_changes; i++) {
		const struct sc_replay_change *change = &study->opts->changes[i];
		const unsigned kinds = sc_replay_matches(study, &change->selector);

		if (!kinds)
			return sc_err_set(err, SC_EVALUE, "%.64s: no recorded operation matches",
					  change->selector.text);
		rc = sc_replay_check_change(study, change, kinds, &study->out->warnings, err);
	}
	return rc;
}

/* That of the middle time, or the one that was asked for. */
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

struct replay_at sc_replay_at(const struct replay_study *study, struct replay_scratch *s,
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
	sc_replay_read(in, out);
	out->graph = *graph;
	out->timeline = s->timeline;
	sc_graph_init(graph);
	s->timeline = (struct sc_timeline){.n = 0};
	s->is_built = false;
}

static int simulate(const struct replay_at at, struct sc_err *err)
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
static int record(void *shared, void *context, size_t iteration, struct sc_err *err)
{
	const struct replay_at at = sc_replay_at(shared, context, iteration, V_RECORDED);
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
		part[r].late_us = late_us[r];
	}
	free(late_us);
	keep_shown(&at, &in);
	return 0;
}

static int predict(void *shared, void *context, size_t iteration, struct sc_err *err)
{
	return simulate(sc_replay_at(shared, context, iteration, V_OTHERS), err);
}

static int vary(void *shared, void *context, size_t iteration, struct sc_err *err)
{
	const struct replay_study *study = shared;
	int rc = 0;

	for (size_t v = V_OTHERS + 1; rc == 0 && v < study->variants.n; v++)
		if (v == V_CHANGED ? study->changed : v < V_NO_GAPS || !study->opts->no_what_if)
			rc = simulate(sc_replay_at(study, context, iteration, v), err);
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
		rc = for_iterations(study, predict, err);
	for (int pass = 0; rc == 0 && n > 1 && pass < MAX_OUTLIER_PASSES; pass++) {
		if (!sc_replay_mark_outliers(measured, &study->us[V_OTHERS * n], n, study->outlier))
			break;
		sc_replay_medians(study);
		rc = for_iterations(study, predict, err);
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

int sc_replay_study_run(struct replay_study *study, struct sc_err *err)
{
	const size_t n = study->variants.n * study->n_iterations;
	int rc = find_shown(study, err);

	study->us = sc_xmalloc((n + 1) * sizeof(double));
	for (size_t i = 0; i < n; i++)
		study->us[i] = NAN;
	if (rc == 0)
		rc = for_iterations(study, record, err);
	if (rc == 0)
		rc = predict_all(study, err);
	if (rc == 0)
		rc = for_iterations(study, vary, err);
	if (rc)
		return rc;
	put_iterations(study);
	put_ranks(study);
	for (unsigned i = 0; i < study->n_jobs; i++)
		study->out->n_simulated += study->scratch[i].n_simulated;
	sc_replay_results(study);
	sc_replay_explain_outliers(study);
	return sc_replay_check_recorded(study, err);
}
