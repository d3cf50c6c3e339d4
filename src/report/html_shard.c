/* A study of sharding plans as a page: the best plan and how sure it is, all plans, the busiest rank, the load of
 * ranks, cost against memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "report/chart.h"
#include "report/shard_report.h"

static void put_verdict(struct sc_page *page, const struct sc_study *study)
{
	const struct sc_ranked_plan *best = &study->plans.at[0];
	char figure[64];

	snprintf(figure, sizeof(figure), "%s", best->name);
	if (study->predictor && best->is_predicted)
		sc_page_figure(page, figure, "the best plan: %.3f ms a step", best->iteration_ms);
	else if (best->has_cost)
		sc_page_figure(page, figure, "the best plan: %.4g %s on its busiest rank",
			       best->solution.cost, study->objective->unit);
	else
		sc_page_figure(page, figure, "the best plan");
	if (!best->has_cost)
		return;
	if (best->over_budget)
		sc_page_verdict(page, SC_VERDICT_BAD,
				"Does not fit the memory: it is over budget.");
	else if (sc_shard_is_proven(study, best))
		sc_page_verdict(page, SC_VERDICT_GOOD, "Fits, and is proven: no plan costs less.");
	else
		sc_page_verdict(page, SC_VERDICT_FAIR,
				"Fits; at most %.2f %% above the least possible cost.",
				sc_shard_gap_pct(best->solution.cost, best->bound));
}

static void put_plans(struct sc_page *page, const struct sc_study *study)
{
	const bool sure = study->opts.confidence.samples > 0;
	const double none = (double)NAN;

	sc_page_heading(page, "Plans");
	sc_page_table(page,
		      "plan|step ms#|cost#|gap %#|busiest rank#|HBM GiB#|host GiB#|best in %#|"
		      "regret %#|");
	for (size_t i = 0; i < study->plans.n; i++) {
		const struct sc_ranked_plan *p = &study->plans.at[i];
		bool rated = !p->error, costed = rated && p->has_cost;

		sc_page_cell(page, "%s", p->name);
		sc_page_number(page, 4, rated && p->is_predicted ? p->iteration_ms : none);
		sc_page_number(page, 4, costed ? p->solution.cost : none);
		sc_page_number(page, 2,
			       costed ? sc_shard_gap_pct(p->solution.cost, p->bound) : none);
		sc_page_number(page, 0, costed ? p->solution.bottleneck : none);
		sc_page_number(page, 2, costed ? p->memory.hbm_bytes / SC_BYTES_PER_GIB : none);
		sc_page_number(page, 2, rated ? p->memory.host_bytes / SC_BYTES_PER_GIB : none);
		sc_page_number(page, 1, rated && sure ? SC_PCT * p->confidence.p_best : none);
		sc_page_number(page, 2, rated && sure ? p->confidence.regret_pct : none);
		sc_page_cell(page, "%s",
			     p->error             ? p->error
			     : p->over_budget     ? "over budget"
			     : p->is_barred       ? "against constraints or moves"
			     : p->confidence.tied ? "tied"
						  : "");
	}
	sc_page_table_end(page);
}

static void put_ranks(struct sc_page *page, const struct sc_study *study)
{
	const struct sc_shard_solution *s = &study->plans.at[0].solution;
	uint32_t world = s->plan.world;
	double *rank = sc_xcalloc(world + 1, sizeof(*rank));
	const struct sc_series series = {
		study->plans.at[0].name, sc_chart_color(0), rank, s->rank_cost, NULL, world,
		SC_LINE_AND_POINTS};

	for (uint32_t i = 0; i < world; i++)
		rank[i] = i;
	sc_page_heading(page, "Load of ranks under the best plan");
	sc_chart(page, &(struct sc_chart){.x_label = "rank",
					  .y_label = study->objective->unit,
					  .from_zero = true,
					  .series = &series,
					  .n_series = 1});
	free(rank);
}

static void put_bottleneck(struct sc_page *page, const struct sc_shard_report *report)
{
	const struct sc_study *study = report->study;
	const struct sc_ranked_plan *best = &study->plans.at[0];
	struct sc_rank_part parts[SC_SHARD_REPORT_TABLES];
	size_t n = sc_rank_parts(&best->terms, best->solution.bottleneck, parts,
				 SC_SHARD_REPORT_TABLES);

	sc_page_heading(page, "Tables of the busiest rank");
	sc_page_table(page, "table|cost#|%#");
	for (size_t i = 0; i < n; i++) {
		sc_page_cell(page, "%s", study->objective->problem.tables[parts[i].table].name);
		sc_page_cell(page, "%.6g", parts[i].ms);
		sc_page_cell(page, "%.1f",
			     best->solution.cost > 0 ? SC_PCT * parts[i].ms / best->solution.cost
						     : 0);
	}
	sc_page_table_end(page);
}

static void put_pareto(struct sc_page *page, const struct sc_pareto *pareto, const char *unit)
{
	double *x = sc_xcalloc(2 * pareto->n + 1, sizeof(*x)), *y = x + pareto->n;
	const struct sc_series series = {"plans",   sc_chart_color(0), x, y, NULL,
					 pareto->n, SC_LINE_AND_POINTS};

	for (size_t i = 0; i < pareto->n; i++) {
		x[i] = pareto->at[i].hbm_bytes / SC_BYTES_PER_GIB;
		y[i] = pareto->at[i].cost;
	}
	sc_page_heading(page, "Cost against memory");
	sc_chart(page,
		 &(struct sc_chart){
			 .x_label = "HBM, GiB", .y_label = unit, .series = &series, .n_series = 1});
	free(x);
}

static void put_lints(struct sc_page *page, const sc_lints *lints)
{
	for (size_t i = 0; i < lints->n; i++)
		sc_page_text(page, "Note: %s: %s", lints->at[i].code, lints->at[i].text);
}

void sc_html_shard(const char *title, const struct sc_shard_report *report, struct sc_strbuf *out)
{
	const struct sc_study *study = report->study;
	const struct sc_shard_problem *problem = &study->objective->problem;
	struct sc_page page;

	sc_page_begin(&page, "shard", title, out);
	sc_page_text(&page, "%s objective, %zu tables on %u ranks, %u a host",
		     sc_objective_names[study->objective->kind], problem->n_tables, problem->world,
		     problem->ranks_per_host);
	put_verdict(&page, study);
	put_lints(&page, &study->lints);
	put_lints(&page, &study->plans.at[0].lints);
	put_plans(&page, study);
	if (study->plans.at[0].has_cost) {
		put_ranks(&page, study);
		put_bottleneck(&page, report);
	}
	if (report->pareto)
		put_pareto(&page, report->pareto, study->objective->unit);
	sc_page_end(&page);
}
