/* A replay as a page: how well it says what was measured, iterations, ranks, who slows, where time goes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "report/html_reading.h"
#include "report/replay_report.h"

enum { MAX_ROWS = 2000 };

static void put_verdict(struct sc_page *page, const struct sc_replay_result *r)
{
	struct sc_replay_error error;
	char figure[64];

	sc_replay_error_of(r, SC_REPLAY_SIMULATED, &error);
	snprintf(figure, sizeof(figure), "%.2f ms", r->measured_ms);
	sc_page_figure(page, figure, "an iteration, measured; %.2f ms replayed", r->simulated_ms);
	if (isfinite(error.median_pct))
		sc_page_verdict(page,
				error.median_pct < 5    ? SC_VERDICT_GOOD
				: error.median_pct < 15 ? SC_VERDICT_FAIR
							: SC_VERDICT_BAD,
				"The replay is off by %.2f %% (median), %.2f %% at most.",
				error.median_pct, error.max_pct);
	if (isfinite(r->changed_ms))
		sc_page_text(page, "With the changes: %.2f ms, %+.2f %% of %.2f ms.", r->changed_ms,
			     SC_PCT * (r->changed_ms / r->reference_ms - 1), r->reference_ms);
	sc_page_text(page,
		     "%" PRId64 " ranks of %" PRId64 " GPUs, %zu iterations, %" PRId64
		     " operations; iterations are %s; reused: %s.",
		     r->n_ranks, r->gpus, r->iterations.n, r->n_events, r->marked_by, r->reused);
}

static void put_iterations(struct sc_page *page, const struct sc_replay_result *r)
{
	size_t n = r->iterations.n;
	double *x = sc_xcalloc(4 * n + 1, sizeof(*x));
	struct sc_series series[] = {
		{"measured", sc_chart_color(0), x, x + n, NULL, n, SC_LINE_AND_POINTS},
		{"simulated", sc_chart_color(1), x, x + 2 * n, NULL, n, SC_LINE_AND_POINTS},
		{"changed", sc_chart_color(2), x, x + 3 * n, NULL, n, SC_LINE_AND_POINTS},
	};

	sc_page_heading(page, "Iterations");
	for (size_t i = 0; i < n; i++) {
		x[i] = (double)r->iterations.at[i].step;
		x[n + i] = r->iterations.at[i].measured_ms;
		x[2 * n + i] = r->iterations.at[i].simulated_ms;
		x[3 * n + i] = r->iterations.at[i].changed_ms;
	}
	sc_chart(page, &(struct sc_chart){.x_label = "step",
					  .y_label = "ms",
					  .from_zero = true,
					  .series = series,
					  .n_series = isfinite(r->changed_ms) ? 3 : 2});
	free(x);
	sc_page_table(page, "step#|measured ms#|simulated ms#|from others ms#|changed ms#|");
	for (size_t i = 0; i < n && i < MAX_ROWS; i++) {
		const struct sc_replay_iteration *it = &r->iterations.at[i];

		sc_page_cell(page, "%" PRId64, it->step);
		sc_page_number(page, 2, it->measured_ms);
		sc_page_number(page, 2, it->simulated_ms);
		sc_page_number(page, 2, it->predicted_ms);
		sc_page_number(page, 2, it->changed_ms);
		if (it->outlier)
			sc_page_cell(page, "outlier: %s %+.1f ms",
				     sc_replay_part_names[it->more_of], it->more_ms);
		else
			sc_page_cell(page, "%s", "");
	}
	sc_page_table_end(page);
}

static void put_ranks(struct sc_page *page, const struct sc_replay_result *r)
{
	struct sc_strbuf heads = {0};

	sc_strbuf_append(&heads, "rank");
	for (int p = 0; p < SC_N_PARTS; p++)
		sc_strbuf_printf(&heads, "|%s ms#", sc_replay_part_names[p]);
	sc_strbuf_append(&heads, "|slowness#|costs ms#");
	sc_page_heading(page, "Where ranks spend their time");
	sc_page_table(page, sc_strbuf_get(&heads));
	for (size_t i = 0; i < r->ranks.n && i < MAX_ROWS; i++) {
		const struct sc_replay_rank *rank = &r->ranks.at[i];

		sc_page_cell(page, "%s", rank->name);
		for (int p = 0; p < SC_N_PARTS; p++)
			sc_page_number(page, 2, rank->part_ms[p]);
		sc_page_number(page, 3, rank->slowness);
		sc_page_number(page, 2, r->reference_ms - rank->without_ms);
	}
	sc_page_table_end(page);
	sc_strbuf_release(&heads);
}

static void put_factors(struct sc_page *page, const struct sc_replay_result *r)
{
	if (!r->factors.n)
		return;
	sc_page_heading(page, "Slowdown over all typical, with these as recorded");
	sc_page_table(page, "by||slowdown#");
	for (size_t i = 0; i < r->factors.n; i++) {
		sc_page_cell(page, "%s", r->factors.at[i].by);
		sc_page_cell(page, "%s", r->factors.at[i].name);
		sc_page_number(page, 4, r->factors.at[i].slowdown);
	}
	sc_page_table_end(page);
}

void sc_html_replay(const char *title, const struct sc_replay_result *r, struct sc_strbuf *out)
{
	struct sc_page page;

	sc_page_begin(&page, "replay", title, out);
	put_verdict(&page, r);
	sc_page_warnings(&page, &r->warnings);
	sc_page_breakdown(&page, &r->reading);
	put_iterations(&page, r);
	put_ranks(&page, r);
	put_factors(&page, r);
	sc_page_contributors(&page, &r->reading);
	sc_page_end(&page);
}
