/* The study: variants of all iterations, on threads where no iteration begins with what the one before left; what they are
 * compared with, and what is said of them. */
#include "trace/replay/replay_study.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/strbuf.h"
#include "base/threads.h"
#include "base/units.h"
#include "trace/graph/job.h"

/* ---- Whether the replay of an unmodified step gives back what was measured; where it does not, what is to blame ---- */

#define OFF_PCT 0.5

static double off_pct(const struct sc_replay_iteration *it)
{
	return SC_PCT * (it->simulated_ms / it->measured_ms - 1);
}

static size_t worst_off(const struct sc_replay_result *result)
{
	size_t worst = SIZE_MAX;

	for (size_t i = 0; i < result->iterations.n; i++) {
		const double pct = fabs(off_pct(&result->iterations.at[i]));

		if (pct > OFF_PCT &&
		    (worst == SIZE_MAX || pct > fabs(off_pct(&result->iterations.at[worst]))))
			worst = i;
	}
	return worst;
}

/* Of the simulated path to the last node, the link whose time differs most from the recorded, the way in which
 * the whole does. `by` is SC_NONE where nothing does. */
struct link {
	uint32_t node, by;
	double off_us;
};

static struct link find_link(const struct sc_timeline *t, const double *recorded_us, uint32_t last)
{
	const double way = t->end_us[last] < recorded_us[last] ? -1 : 1;
	struct link worst = {.by = SC_NONE};

	for (uint32_t node = last, by; (by = t->bound_by[node]) != SC_NONE; node = by) {
		const double off_us =
			(t->end_us[node] - t->end_us[by]) - (recorded_us[node] - recorded_us[by]);

		if (way * off_us > way * worst.off_us)
			worst = (struct link){node, by, off_us};
	}
	return worst;
}

static double recorded_us(const struct replay_at *at, uint32_t node)
{
	const struct sc_trace_run *run = &at->study->run;
	const struct sc_trace_rank *rank = &run->ranks.at[sc_replay_class(at, node)];
	const struct sc_trace_node *ref = &at->s->graph.refs.at[node];
	int64_t end_ns;

	if (ref->kind == SC_TRACE_NODE_ACT || ref->kind == SC_TRACE_NODE_CARRIED)
		end_ns = sc_act_end(&rank->acts.at[ref->index]);
	else
		end_ns = rank->calls.at[ref->index].start_ns +
			 (ref->kind == SC_TRACE_NODE_SYNC ? rank->calls.at[ref->index].dur_ns : 0);
	return sc_ns_us(end_ns - sc_trace_first_begin(run, at->iteration));
}

/* The link to the last of the nodes that may end the iteration. */
static struct link worst_link(const struct replay_at *at)
{
	const uint32_t n = (uint32_t)at->s->graph.graph.nodes.n;
	double *ends_us = sc_xmalloc((n + 1) * sizeof(*ends_us));
	uint32_t last = SC_NONE;
	struct link link;

	for (uint32_t i = 0; i < n; i++) {
		ends_us[i] = recorded_us(at, i);
		if (at->s->graph.end.at[sc_replay_class(at, i)] == i &&
		    (last == SC_NONE || ends_us[i] > ends_us[last]))
			last = i;
	}
	link = find_link(&at->s->timeline, ends_us, last);
	free(ends_us);
	return link;
}

static const char *name_of(const struct replay_at *at, uint32_t node)
{
	return sc_trace_run_name(&at->study->run, at->s->graph.graph.nodes.at[node].op);
}

static void blame(const struct replay_at *at, const struct link *link)
{
	struct sc_replay_result *out = at->study->out;
	const struct sc_replay_iteration *it = &out->iterations.at[at->iteration];
	char cause[512] = "";
	size_t n = 0;

	for (size_t i = 0; i < out->iterations.n; i++)
		n += fabs(off_pct(&out->iterations.at[i])) > OFF_PCT;
	if (link->by != SC_NONE)
		snprintf(cause, sizeof(cause),
			 ": %.32s of %s ends %.3f ms %s after %.24s than it did",
			 name_of(at, link->node),
			 out->ranks.at[sc_replay_class(at, link->node)].name,
			 fabs(link->off_us) / SC_US_PER_MS, link->off_us < 0 ? "sooner" : "later",
			 name_of(at, link->by));
	sc_warn(&out->warnings,
		"as recorded, step %" PRId64 " comes out %+.1f %% (n=%zu of %zu are off)%s",
		it->step, off_pct(it), n, out->iterations.n, cause);
}

/* Warns of the iteration that does not come out as recorded, and names the cause. */
static int replay_check_recorded(const struct replay_study *study, struct sc_err *err)
{
	const size_t worst = worst_off(study->out);
	struct sc_reading_input in;
	struct replay_at at;
	struct link link;
	int rc;

	if (worst == SIZE_MAX)
		return 0;
	at = sc_replay_at(study, &study->scratch[0], worst, V_RECORDED);
	rc = sc_replay_simulate(&at, &in, err);
	if (rc)
		return rc;
	link = worst_link(&at);
	blame(&at, &link);
	return 0;
}

/* Steps that are not like the others: the first ones, those that load data or write checkpoints. Judged by
 * how far the prediction from the others is off, not by the time itself, since steps may differ in what
 * they do. Robust against nearly half of the steps: by the median and its absolute deviations. */

enum { MIN_STEPS = 4, MAX_NAMED = 6 };
/* So many standard deviations, as the median of absolute deviations tells them, and no less than a tenth. */
#define FAR 4.0
#define SIGMA_OF_MAD 1.4826
#define LEAST_OFF 0.1

size_t sc_replay_mark_outliers(const double *measured, const double *predicted, size_t n,
			       bool *outlier)
{
	double *off = sc_xmalloc((n + 1) * sizeof(*off)), middle, limit;
	size_t n_known = 0, n_new = 0, n_marked = 0;

	for (size_t i = 0; i < n; i++) {
		n_marked += outlier[i];
		if (!outlier[i] && predicted[i] > 0 && measured[i] > 0)
			off[n_known++] = log(measured[i] / predicted[i]);
	}
	if (n_known >= MIN_STEPS) {
		middle = sc_median_sorting(off, n_known);
		for (size_t i = 0; i < n_known; i++)
			off[i] = fabs(off[i] - middle);
		limit = fmax(FAR * SIGMA_OF_MAD * sc_median_sorting(off, n_known), LEAST_OFF);
		for (size_t i = 0; i < n && 2 * (n_marked + n_new + 1) < n; i++)
			if (!outlier[i] && predicted[i] > 0 && measured[i] > 0 &&
			    fabs(log(measured[i] / predicted[i]) - middle) > limit) {
				outlier[i] = true;
				n_new++;
			}
	}
	free(off);
	return n_new;
}

/* Mean of the ranks. */
static double part_ms(const struct replay_study *study, size_t step, int part)
{
	const size_t n_ranks = study->out->ranks.n;
	double ms = 0;

	for (size_t r = 0; r < n_ranks; r++)
		ms += study->parts[step * n_ranks + r].us[part] / SC_US_PER_MS / (double)n_ranks;
	return ms;
}

/* The largest difference of a part from what it is in the other steps. */
static void explain(const struct replay_study *study, size_t step, struct sc_replay_iteration *it)
{
	const struct sc_replay_result *r = study->out;
	size_t n = 0;

	for (size_t i = 0; i < r->iterations.n; i++)
		n += !r->iterations.at[i].outlier;
	for (int p = 0; p < SC_N_PARTS; p++) {
		double sum = 0, more;

		for (size_t i = 0; i < r->iterations.n; i++)
			if (!r->iterations.at[i].outlier)
				sum += part_ms(study, i, p);
		more = part_ms(study, step, p) - sum / (double)n;
		if (fabs(more) > fabs(it->more_ms)) {
			it->more_of = (enum sc_part)p;
			it->more_ms = more;
		}
	}
}

/* What differs in the iterations that are marked, with a warning that names them. */
static void replay_explain_outliers(const struct replay_study *study)
{
	struct sc_replay_result *r = study->out;
	struct sc_strbuf text = {0};
	size_t n = 0;

	for (size_t i = 0; i < r->iterations.n; i++) {
		struct sc_replay_iteration *it = &r->iterations.at[i];

		if (!it->outlier)
			continue;
		explain(study, i, it);
		if (n++ < MAX_NAMED)
			sc_strbuf_printf(&text, "%s%lld (%+.0f %%)", n > 1 ? ", " : "",
					 (long long)it->step,
					 SC_PCT * (it->measured_ms / it->predicted_ms - 1));
	}
	if (n > MAX_NAMED)
		sc_strbuf_printf(&text, " and %zu more", n - MAX_NAMED);
	if (n)
		sc_warn(&r->warnings, "steps far from what the others say: %s", text.at);
	sc_strbuf_release(&text);
}

void sc_replay_band(const struct sc_replay_result *r, bool typical_only, double *low_pct,
		    double *high_pct)
{
	*low_pct = *high_pct = (double)NAN;
	for (size_t i = 0; i < r->iterations.n; i++) {
		const struct sc_replay_iteration *it = &r->iterations.at[i];
		const double off_pct = SC_PCT * (it->measured_ms / it->predicted_ms - 1);

		if (!isfinite(off_pct) || (typical_only && it->outlier))
			continue;
		*low_pct = fmin(off_pct, isnan(*low_pct) ? off_pct : *low_pct);
		*high_pct = fmax(off_pct, isnan(*high_pct) ? off_pct : *high_pct);
	}
}

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
	replay_explain_outliers(study);
	return replay_check_recorded(study, err);
}
