/* Which iterations are unlike the others, or do not come out as recorded, and what is to blame. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/stats.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "trace/replay/replay_study.h"

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

int sc_replay_check_recorded(const struct replay_study *study, struct sc_err *err)
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

void sc_replay_explain_outliers(const struct replay_study *study)
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
