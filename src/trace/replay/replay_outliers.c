/* Finds iterations that are unlike the others, or not as recorded, and what is to blame. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/stats.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "trace/replay/replay_study.h"

#define OFF_PCT 0.5

/* Whether the replay of an unmodified step gives back what was measured. */
static void warn_of_recorded(struct sc_replay_result *out)
{
	const struct sc_replay_iteration *worst = NULL;
	double worst_pct = 0;
	size_t n = 0;

	for (size_t i = 0; i < out->iterations.n; i++) {
		const struct sc_replay_iteration *it = &out->iterations.at[i];
		const double pct = SC_PCT * (it->simulated_ms / it->measured_ms - 1);

		if (!(fabs(pct) > OFF_PCT))
			continue;
		n++;
		if (fabs(pct) > fabs(worst_pct)) {
			worst = it;
			worst_pct = pct;
		}
	}
	if (worst)
		sc_warn(&out->warnings,
			"as recorded, step %" PRId64 " comes out %+.1f %% (n=%zu of %zu are off)",
			worst->step, worst_pct, n, out->iterations.n);
}

/* Steps that are not like the others: the first ones, those that load data or write checkpoints.
 * Judged by how far the prediction from the others is off, not by the time itself, since steps may
 * differ in what they do. Robust against nearly half of the steps: by the median and its absolute
 * deviations. */

enum { MIN_STEPS = 4, MAX_NAMED = 6 };
/* So many standard deviations, by the median of absolute deviations, and no less than a tenth. */
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
static void explain_outlier(const struct replay_study *study, size_t step,
			    struct sc_replay_iteration *it)
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
		explain_outlier(study, i, it);
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
	warn_of_recorded(r);
}
