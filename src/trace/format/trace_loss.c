/* Losses that were counted, then those that only their time or their frames tell. */
#include "trace/format/trace_loss.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/units.h"

#define MAX_LOST (INT64_MAX / 4) /* that sums may have: beyond it nobody knows */

/* --- counting --- */

static void give_reason(struct sc_trace_loss *out, const char *reason)
{
	if (!out->reason[0])
		snprintf(out->reason, sizeof(out->reason), "%s", reason);
}

SC_COMPARE(compare_begin, struct sc_trace_gap *const, SC_ORDER((*a)->first_ns, (*b)->first_ns));

/* The share of the recording's time that gaps of unknown size take, each moment once. */
static double unknown_time_frac(const struct sc_trace *t, const struct sc_trace_info *info)
{
	const struct sc_trace_gap **gaps = sc_xmalloc((t->gaps.n + 1) * sizeof(const void *));
	double total = 0, end = -INFINITY, span_end = (double)info->last_ns, span_begin;
	size_t n = 0;

	for (size_t i = 0; i < t->gaps.n; i++)
		if (t->gaps.at[i].n < 0)
			gaps[n++] = &t->gaps.at[i];
	SC_SORT(gaps, n, compare_begin);
	for (size_t i = 0; i < n; i++) {
		double first = fmax((double)gaps[i]->first_ns, end);

		end = fmax(end, (double)gaps[i]->last_ns);
		total += end > first ? end - first : 0;
	}
	span_begin = n ? fmin((double)info->first_ns, (double)gaps[0]->first_ns) : 0;
	span_end = fmax(span_end, end);
	free(gaps);
	return total > 0 ? total / (span_end - span_begin) : 0;
}

static void add_lost(struct sc_trace_loss *out, int64_t n)
{
	if (n <= MAX_LOST - out->n_lost)
		out->n_lost += n;
	else
		out->is_unknown = true;
}

/* As many more as what is there has in the rest. */
static void add_estimate(struct sc_trace_loss *out, double frac)
{
	if (frac <= 0)
		return;
	out->is_estimate = true;
	add_lost(out, (int64_t)fmin(ceil((double)out->n_events * frac / (1 - frac) - 1e-6),
				    2 * (double)MAX_LOST));
}

static void add_gaps(const struct sc_trace *t, const struct sc_trace_info *info,
		     struct sc_trace_loss *out)
{
	for (size_t i = 0; i < t->gaps.n; i++) {
		const struct sc_trace_gap *gap = &t->gaps.at[i];

		give_reason(out, gap->reason);
		if (gap->n >= 0)
			add_lost(out, gap->n);
		else if (gap->last_ns <= gap->first_ns)
			out->is_unknown = true;
	}
	add_estimate(out, unknown_time_frac(t, info));
}

void sc_trace_loss(const struct sc_trace *t, const struct sc_trace_info *info,
		   struct sc_trace_loss *out)
{
	const char *cut = sc_trace_meta_of(t, SC_META_PARTIAL);

	*out = (struct sc_trace_loss){.n_events = info->counts.total, .n_all = 1};
	out->is_cut = t->partial;
	if (out->is_cut)
		give_reason(out, cut ? cut : "the recording was not ended");
	if (t->n_bad_frames > 0) {
		give_reason(out, "damaged frames");
		add_estimate(out,
			     (double)t->n_bad_frames / (double)(t->n_bad_frames + info->n_frames));
	}
	add_gaps(t, info, out);
	out->n_files = out->reason[0] != '\0';
	if (out->n_files)
		snprintf(out->file, sizeof(out->file), "%s", t->path);
}

static void add_up(struct sc_trace_loss *sum, const struct sc_trace_loss *one)
{
	if (!sum->n_files && one->n_files) {
		memcpy(sum->reason, one->reason, sizeof(sum->reason));
		memcpy(sum->file, one->file, sizeof(sum->file));
	}
	sum->n_events += one->n_events;
	add_lost(sum, one->n_lost);
	sum->is_estimate |= one->is_estimate;
	sum->is_unknown |= one->is_unknown;
	sum->is_cut |= one->is_cut;
	sum->n_files += one->n_files;
	sum->n_all += one->n_all;
}

int sc_trace_loss_of_run(const char *const *files, size_t n, struct sc_trace_loss *out,
			 struct sc_err *err)
{
	struct sc_trace_loss one;

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < n; i++) {
		struct sc_trace tables;
		struct sc_trace_info info;
		int rc = sc_trace_stat(files[i], &tables, &info, err);

		if (rc)
			return rc;
		sc_trace_loss(&tables, &info, &one);
		sc_trace_release(&tables);
		add_up(out, &one);
	}
	return 0;
}

/* --- saying --- */

double sc_trace_loss_frac(const struct sc_trace_loss *loss)
{
	const double all = (double)loss->n_events + (double)loss->n_lost;

	return all > 0 ? (double)loss->n_lost / all : 0;
}

bool sc_trace_loss_stands(const struct sc_trace_loss *loss)
{
	return !loss->is_unknown && sc_trace_loss_frac(loss) <= SC_LOSS_STANDS_FRAC;
}

static void put_share(const struct sc_trace_loss *loss, struct sc_strbuf *out)
{
	const char *about = loss->is_estimate ? "about " : "";

	if (loss->n_lost)
		sc_strbuf_printf(
			out, "%s%.3g %% of the events were lost (%" PRId64 " of %" PRId64 ")",
			loss->is_unknown ? "more than " : about, SC_PCT * sc_trace_loss_frac(loss),
			loss->n_lost, loss->n_lost + loss->n_events);
	else if (loss->is_unknown)
		sc_strbuf_append(out, "events were lost, how many is not known");
	if (loss->is_cut)
		sc_strbuf_printf(out, "%sthe trace ends early",
				 loss->n_lost || loss->is_unknown ? ", and " : "");
}

void sc_trace_loss_text(const struct sc_trace_loss *loss, struct sc_strbuf *out)
{
	if (!loss->n_files)
		return;
	put_share(loss, out);
	sc_strbuf_printf(out, "; reason: %s; what is computed from it %s", loss->reason,
			 !sc_trace_loss_stands(loss) ? "does not stand"
			 : loss->is_cut              ? "stands for what is there"
						     : "stands");
}

void sc_trace_loss_warning(const struct sc_trace_loss *loss, struct sc_strbuf *out)
{
	if (!loss->n_files)
		return;
	if (loss->n_all > 1)
		sc_strbuf_printf(out, "%zu of %zu traces have losses, first ", loss->n_files,
				 loss->n_all);
	sc_strbuf_printf(out, "%s: ", loss->file);
	sc_trace_loss_text(loss, out);
}
