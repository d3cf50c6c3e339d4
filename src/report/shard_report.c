/* Sharding plans as text: a line a plan, then what makes the best one's busiest rank busy. */
#include "report/shard_report.h"

#include <math.h>

#include "base/json_out.h"
#include "base/units.h"
#include "report/parts.h"

/* Sums of the same costs in another order differ by less than this. */
#define ROUNDING_PCT 1e-7

/* 100 (cost / bound - 1); 0 where there is no bound. */
static double shard_gap_pct(double cost, double bound)
{
	double pct = bound > 0 ? SC_PCT * (cost / bound - 1) : 0;

	return fabs(pct) < ROUNDING_PCT ? 0 : pct;
}

/* The plan is at its bound. A plan below it (its gap is negative) has shards that the problem has
 * no option for. */
static bool shard_is_proven(const struct sc_study *study, const struct sc_ranked_plan *plan)
{
	double cost = plan->solution.cost;

	return cost <= plan->bound * (1 + study->opts.solve.stop_gap) &&
	       shard_gap_pct(cost, plan->bound) >= 0;
}

static void put_head(const struct sc_shard_report *report, struct sc_strbuf *out)
{
	const struct sc_study *study = report->study;
	const struct sc_objective *objective = study->objective;
	const struct sc_shard_problem *problem = &objective->problem;

	sc_strbuf_printf(out, "%s objective, %zu table%s on %u rank%s, %u a host\n",
			 sc_objective_names[objective->kind], problem->n_tables,
			 sc_plural(problem->n_tables), problem->world, sc_plural(problem->world),
			 problem->ranks_per_host);
	sc_strbuf_printf(
		out, "lower bound of the busiest rank's cost%s %.6g %s (linear relaxation %.6g)\n",
		study->predictor ? " by the proxy" : "", study->bound, objective->unit,
		study->lp_bound);
	if (shard_gap_pct(study->kept_bound, study->bound) > 0)
		sc_strbuf_printf(out, "of plans that keep to constraints and moves %.6g %s\n",
				 study->kept_bound, objective->unit);
	sc_strbuf_append_char(out, '\n');
}

/* The band of a predicted step, as a factor. */
static double band_factor(const struct sc_shard_report *report)
{
	return sc_band_factor(report->study->objective->request->band, report->confidence_pct);
}

/* Other plans that cost what the best one does, but for rounding. */
static size_t count_ties(const struct sc_study *study)
{
	const struct sc_ranked_plan *best = &study->plans.at[0];
	const double least = sc_ranked_cost(study, best);
	size_t n = 0;

	for (size_t i = 1; i < study->plans.n && !best->error; i++) {
		const struct sc_ranked_plan *plan = &study->plans.at[i];

		n += !plan->error && plan->solution.over_budget == best->solution.over_budget &&
		     plan->is_barred == best->is_barred &&
		     fabs(sc_ranked_cost(study, plan) - least) <= ROUNDING_PCT / SC_PCT * least &&
		     fabs(plan->solution.cost - best->solution.cost) <=
			     ROUNDING_PCT / SC_PCT * best->solution.cost;
	}
	return n;
}

static void put_plans(const struct sc_study *study, struct sc_strbuf *out)
{
	const char *unit = study->objective->unit;
	double host = 0, ssd = 0; /* columns of those that some plan uses */
	char cost[32];

	for (size_t i = 0; i < study->plans.n; i++) {
		host = fmax(host, study->plans.at[i].solution.memory.host_bytes);
		ssd = fmax(ssd, study->plans.at[i].solution.memory.ssd_bytes);
	}
	snprintf(cost, sizeof(cost), "%s %s", study->predictor ? "proxy" : "cost", unit);
	sc_strbuf_printf(out, "%-24s", "plan");
	if (study->is_by_gpu)
		sc_strbuf_printf(out, " %8s", "GPUs ms");
	if (study->predictor)
		sc_strbuf_printf(out, " %8s", "step ms");
	sc_strbuf_printf(out, " %8s %5s %4s %7s", cost, "gap %", "rank", "HBM GiB");
	if (host > 0)
		sc_strbuf_printf(out, " %8s", "host GiB");
	if (ssd > 0)
		sc_strbuf_printf(out, " %7s", "SSD GiB");
	if (study->opts.confidence.samples > 0)
		sc_strbuf_printf(out, " %6s %6s", "best %", "regret");
	sc_strbuf_append_char(out, '\n');
	for (size_t i = 0; i < study->plans.n; i++) {
		const struct sc_ranked_plan *plan = &study->plans.at[i];
		const struct sc_shard_solution *s = &plan->solution;
		double gap_pct = shard_gap_pct(s->cost, plan->bound);
		char gap[32] = "-"; /* of shards that the bound knows nothing of */

		sc_strbuf_printf(out, "%-24.60s", plan->name);
		if (plan->error) {
			sc_strbuf_printf(out, " not rated: %s\n", plan->error);
			continue;
		}
		if (gap_pct >= 0)
			snprintf(gap, sizeof(gap), "%.2f", gap_pct);
		if (study->is_by_gpu)
			sc_strbuf_printf(out, " %8.4g", plan->rank_ms);
		if (study->predictor)
			sc_strbuf_printf(out, " %8.4g", plan->iteration_ms);
		if (plan->has_cost)
			sc_strbuf_printf(out, " %8.4g %5s %4u %7.2f", s->cost, gap, s->bottleneck,
					 s->memory.hbm_bytes / SC_BYTES_PER_GIB);
		else
			sc_strbuf_printf(out, " %8s %5s %4s %7s", "-", "-", "-", "-");
		if (host > 0)
			sc_strbuf_printf(out, " %8.2f", s->memory.host_bytes / SC_BYTES_PER_GIB);
		if (ssd > 0)
			sc_strbuf_printf(out, " %7.2f", s->memory.ssd_bytes / SC_BYTES_PER_GIB);
		if (study->opts.confidence.samples > 0)
			sc_strbuf_printf(out, " %6.1f %5.1f%%%s", SC_PCT * plan->confidence.p_best,
					 plan->confidence.regret_pct,
					 plan->confidence.tied ? "  tied" : "");
		sc_strbuf_printf(out, "%s%s%s\n",
				 plan->has_cost && shard_is_proven(study, plan) ? "  proven" : "",
				 s->over_budget ? "  over budget" : "",
				 plan->is_barred ? "  against constraints or moves" : "");
	}
	if (count_ties(study))
		sc_strbuf_printf(out,
				 "\na tie: %zu of them cost the same; their order says nothing\n",
				 count_ties(study) + 1);
}

static void put_bottleneck(const struct sc_shard_report *report, const struct sc_ranked_plan *plan,
			   struct sc_strbuf *out)
{
	const struct sc_study *study = report->study;
	struct sc_rank_part parts[SC_SHARD_REPORT_TABLES];
	uint32_t rank = plan->solution.bottleneck;
	size_t n = sc_rank_parts(&plan->terms, rank, parts, SC_SHARD_REPORT_TABLES);
	double cost = plan->solution.cost, mean = 0;

	for (uint32_t i = 0; i < plan->solution.plan.world; i++)
		mean += plan->solution.rank_cost[i] / plan->solution.plan.world;
	sc_strbuf_printf(out,
			 "\nbusiest rank of %s: %u with %.6g %s, the mean is %.6g; its tables:\n",
			 plan->name, rank, cost, study->objective->unit, mean);
	for (size_t i = 0; i < n; i++) {
		const struct sc_shard_term *term = parts[i].term;
		const struct sc_table *whole = &study->objective->problem.tables[term->table];

		/* "row_wise, fused, 64 of 128 columns" */
		sc_strbuf_printf(out, "  %-32.60s %12.6g %5.1f %%  %s, %s", whole->name,
				 parts[i].ms, cost > 0 ? SC_PCT * parts[i].ms / cost : 0.0,
				 sc_enum_name(sc_shard_type_names, (int)term->type),
				 sc_enum_name(sc_tier_names, (int)term->tier));
		if (term->cols < whole->dim)
			sc_strbuf_printf(out, ", %lld of %lld columns", (long long)term->cols,
					 (long long)whole->dim);
		if (term->rows < whole->rows)
			sc_strbuf_printf(out, ", %lld of %lld rows", (long long)term->rows,
					 (long long)whole->rows);
		if (term->hot_rows)
			sc_strbuf_printf(out, ", %lld hot on every rank",
					 (long long)term->hot_rows);
		sc_strbuf_append_char(out, '\n');
	}
}

static void put_lints(const sc_lints *lints, struct sc_strbuf *out)
{
	for (size_t i = 0; i < lints->n; i++)
		sc_strbuf_printf(out, "note: %s: %s\n", lints->at[i].code, lints->at[i].text);
}

static void put_confidence(const struct sc_study *study, struct sc_strbuf *out)
{
	const struct sc_confidence_opts *opts = &study->opts.confidence;
	size_t n_tied = 0, n_rated = 0;

	for (size_t i = 0; i < study->plans.n; i++) {
		n_rated += !study->plans.at[i].error;
		n_tied += !study->plans.at[i].error && study->plans.at[i].confidence.tied;
	}
	if (opts->samples < 1 || n_rated < 2)
		return;
	sc_strbuf_printf(
		out,
		"\n%lld paired draws: errors of kernels %.0f %%, collectives %.0f %%, of one "
		"kind of shard %.0f %%, drift of lookups %.0f %%\n",
		(long long)opts->samples, SC_PCT * opts->kernel_frac,
		SC_PCT * opts->collective_frac, SC_PCT * opts->shard_frac,
		SC_PCT * opts->drift_frac);
	if (n_tied > 1)
		sc_strbuf_printf(out, "%zu of %zu plans are tied within these errors\n", n_tied,
				 n_rated);
}

static void put_pareto(const struct sc_shard_report *report, struct sc_strbuf *out)
{
	const struct sc_pareto_point *first = &report->pareto->at[0];

	sc_strbuf_printf(out, "\ncost against memory\n%12s %12s %12s %10s %12s\n", "HBM GiB",
			 report->study->objective->unit, "bound", "cost +%", "HBM -%");
	for (size_t i = 0; i < report->pareto->n; i++) {
		const struct sc_pareto_point *p = &report->pareto->at[i];

		sc_strbuf_printf(out, "%12.2f %12.6g %12.6g %10.2f %12.2f\n",
				 p->hbm_bytes / SC_BYTES_PER_GIB, p->cost, p->bound,
				 shard_gap_pct(p->cost, first->cost),
				 first->hbm_bytes > 0
					 ? SC_PCT * (1 - p->hbm_bytes / first->hbm_bytes)
					 : 0.0);
	}
}

static void put_side(const struct sc_shard_side *side, struct sc_strbuf *out)
{
	sc_strbuf_append(out, sc_enum_name(sc_shard_type_names, (int)side->type));
	if (side->tier != SC_TIER_HBM)
		sc_strbuf_printf(out, " %s", sc_enum_name(sc_tier_names, (int)side->tier));
	if (side->rank >= 0)
		sc_strbuf_printf(out, " rank %d", (int)side->rank);
	else
		sc_strbuf_printf(out, " %u shard%s", side->shards, sc_plural(side->shards));
}

static void put_diff(const struct sc_shard_report *report, struct sc_strbuf *out)
{
	const struct sc_shard_diff *diff = report->diff;
	double cost = sc_ranked_cost(report->study, &report->study->plans.at[0]);

	sc_strbuf_printf(
		out, "\nfrom %.60s: %zu table%s %s, %.3f GiB %s", report->diff_from, diff->moves.n,
		sc_plural(diff->moves.n), diff->moves.n == 1 ? "changes" : "change",
		diff->moved_bytes / SC_BYTES_PER_GIB, diff->moves.n == 1 ? "moves" : "move");
	if (report->diff_cost > 0)
		sc_strbuf_printf(out, "; cost %.6g to %.6g (%+.2f %%)", report->diff_cost, cost,
				 shard_gap_pct(cost, report->diff_cost));
	sc_strbuf_append_char(out, '\n');
	for (size_t i = 0; i < diff->moves.n && i < SC_SHARD_REPORT_MOVES; i++) {
		const struct sc_shard_move *m = &diff->moves.at[i];

		sc_strbuf_printf(out, "  %-32.60s %9.3f GiB  ", m->table,
				 m->moved_bytes / SC_BYTES_PER_GIB);
		put_side(&m->from, out);
		sc_strbuf_append(out, " -> ");
		put_side(&m->to, out);
		sc_strbuf_append_char(out, '\n');
	}
	if (diff->moves.n > SC_SHARD_REPORT_MOVES)
		sc_strbuf_printf(out, "  and %zu more; --json lists them\n",
				 diff->moves.n - SC_SHARD_REPORT_MOVES);
}

static void put_shard_text(const void *result, struct sc_strbuf *out)
{
	const struct sc_shard_report *report = result;
	const struct sc_study *study = report->study;

	put_head(report, out);
	put_plans(study, out);
	if (study->plans.at[0].is_predicted)
		sc_strbuf_printf(out, "\nstep of %s: %d %% band %.4f to %.4f ms\n",
				 study->plans.at[0].name, report->confidence_pct,
				 study->plans.at[0].iteration_ms / band_factor(report),
				 study->plans.at[0].iteration_ms * band_factor(report));
	if (study->plans.at[0].has_cost)
		put_bottleneck(report, &study->plans.at[0], out);
	put_confidence(study, out);
	if (report->pareto)
		put_pareto(report, out);
	if (report->diff)
		put_diff(report, out);
	if (study->lints.n || study->plans.at[0].lints.n)
		sc_strbuf_append_char(out, '\n');
	put_lints(&study->lints, out);
	put_lints(&study->plans.at[0].lints, out);
}

/* Sharding plans as JSON: "stepcast/shard". The plans themselves are files of their own (-o). */

enum { SHARD_VERSION = 1 };

static void add_lints(struct sc_json *json, json_t *parent, const sc_lints *lints)
{
	json_t *list = sc_json_array(json, parent, "notes");

	for (size_t i = 0; i < lints->n; i++) {
		json_t *lint = sc_json_object(json, list, NULL);

		SC_JSON_PUT(json, lint, lints->at[i], code, text);
	}
}

static void add_bottleneck(struct sc_json *json, json_t *parent,
			   const struct sc_shard_report *report, const struct sc_ranked_plan *plan)
{
	struct sc_rank_part parts[SC_SHARD_REPORT_TABLES];
	uint32_t rank = plan->solution.bottleneck;
	size_t n = sc_rank_parts(&plan->terms, rank, parts, SC_SHARD_REPORT_TABLES);
	json_t *out = sc_json_object(json, parent, "bottleneck"), *list;

	sc_json_int(json, out, "rank", rank);
	list = sc_json_array(json, out, "tables");
	for (size_t i = 0; i < n; i++) {
		const struct sc_table *table =
			&report->study->objective->problem.tables[parts[i].term->table];
		json_t *part = sc_json_object(json, list, NULL);

		sc_json_text(json, part, "table", table->name);
		sc_json_real(json, part, "cost", parts[i].ms);
		sc_json_real(json, part, "hbm_gib", parts[i].hbm_bytes / SC_BYTES_PER_GIB);
	}
}

static void put_plan(struct sc_json *json, json_t *parent, const struct sc_shard_report *report,
		     const struct sc_ranked_plan *plan)
{
	const struct sc_study *study = report->study;
	json_t *out = sc_json_object(json, parent, NULL), *memory;

	SC_JSON_PUT(json, out, *plan, name, origin);
	if (plan->error) {
		sc_json_text(json, out, "error", plan->error);
		return;
	}
	if (plan->has_cost) {
		double gap_pct = shard_gap_pct(plan->solution.cost, plan->bound);

		sc_json_real(json, out, "cost", plan->solution.cost);
		sc_json_real(json, out, "bound", plan->bound);
		if (gap_pct >= 0)
			sc_json_real(json, out, "gap_pct", gap_pct);
		sc_json_bool(json, out, "proven", shard_is_proven(study, plan));
		add_bottleneck(json, out, report, plan);
	}
	sc_json_bool(json, out, "over_budget", plan->solution.over_budget);
	sc_json_bool(json, out, "barred", plan->is_barred);
	if (study->is_by_gpu)
		sc_json_real(json, out, "gpu_ms", plan->rank_ms);
	if (plan->is_predicted) {
		sc_json_real(json, out, "iteration_ms", plan->iteration_ms);
		sc_json_real(json, out, "low_ms", plan->iteration_ms / band_factor(report));
		sc_json_real(json, out, "high_ms", plan->iteration_ms * band_factor(report));
	}
	memory = sc_json_object(json, out, "memory_gib");
	sc_json_real(json, memory, "hbm_rank_max",
		     plan->solution.memory.hbm_bytes / SC_BYTES_PER_GIB);
	sc_json_real(json, memory, "host_max", plan->solution.memory.host_bytes / SC_BYTES_PER_GIB);
	sc_json_real(json, memory, "ssd_host_max",
		     plan->solution.memory.ssd_bytes / SC_BYTES_PER_GIB);
	if (study->opts.confidence.samples > 0) {
		const struct sc_confidence *c = &plan->confidence;
		json_t *confidence = sc_json_object(json, out, "confidence");

		sc_json_real(json, confidence, "p_best_pct", SC_PCT * c->p_best);
		SC_JSON_PUT(json, confidence, *c, regret_pct, tied);
		sc_json_real(json, confidence, "mean_cost", c->mean_ms);
		sc_json_real(json, confidence, "low_cost", c->low_ms);
		sc_json_real(json, confidence, "high_cost", c->high_ms);
	}
	add_lints(json, out, &plan->lints);
}

static void add_side(struct sc_json *json, json_t *parent, const char *key,
		     const struct sc_shard_side *of)
{
	json_t *side = sc_json_object(json, parent, key);

	sc_json_text(json, side, "sharding_type", sc_enum_name(sc_shard_type_names, (int)of->type));
	sc_json_text(json, side, "compute_kernel", sc_enum_name(sc_tier_names, (int)of->tier));
	sc_json_int(json, side, "shards", of->shards);
}

static void add_diff(struct sc_json *json, const struct sc_shard_report *report)
{
	json_t *diff = sc_json_object(json, json->root, "diff"), *list;

	sc_json_text(json, diff, "from", report->diff_from);
	sc_json_real(json, diff, "moved_gib", report->diff->moved_bytes / SC_BYTES_PER_GIB);
	if (report->diff_cost > 0)
		sc_json_real(json, diff, "from_cost", report->diff_cost);
	list = sc_json_array(json, diff, "tables");
	for (size_t i = 0; i < report->diff->moves.n; i++) {
		const struct sc_shard_move *m = &report->diff->moves.at[i];
		json_t *move = sc_json_object(json, list, NULL);

		sc_json_text(json, move, "table", m->table);
		sc_json_real(json, move, "moved_gib", m->moved_bytes / SC_BYTES_PER_GIB);
		add_side(json, move, "from", &m->from);
		add_side(json, move, "to", &m->to);
	}
}

static void put_shard_json(const void *result, struct sc_json *json)
{
	const struct sc_shard_report *report = result;
	const struct sc_study *study = report->study;
	const struct sc_ranked_plan *best = &study->plans.at[0];
	const char *tie = count_ties(study) ? " Others cost the same." : "";
	const char *by = sc_objective_names[study->objective->kind];
	const char *cost_of = study->predictor ? "the proxy; of steps no bound is known" : by;
	json_t *list;

	sc_json_init(json, "stepcast/shard", SHARD_VERSION);
	sc_json_text(json, json->root, "objective", sc_objective_names[study->objective->kind]);
	sc_json_text(json, json->root, "cost_unit", study->objective->unit);
	sc_json_int(json, json->root, "world_size", study->objective->problem.world);
	SC_JSON_PUT(json, json->root, study->objective->problem, ranks_per_host, n_tables);
	SC_JSON_PUT(json, json->root, *study, bound, lp_bound);
	sc_json_real(json, json->root, "bound_within_constraints", study->kept_bound);
	sc_json_text(json, json->root, "bound_of", study->predictor ? "proxy" : by);
	sc_json_request(json, study->objective->request);
	if (!best->error && best->has_cost)
		sc_json_bool(json, json->root, "fits", !best->solution.over_budget);
	if (best->error || !best->has_cost)
		sc_json_verdict(json, SC_STANDS_FAIR, "%s: %s.", best->name,
				best->error ? best->error : "its cost is not known");
	else if (best->solution.over_budget)
		sc_json_verdict(json, SC_STANDS_BADLY,
				"Does not fit the memory: %s is over budget.", best->name);
	else if (shard_is_proven(study, best))
		sc_json_verdict(json, SC_STANDS_WELL,
				"Fits, and is proven: no plan costs less by %s.%s", cost_of, tie);
	else
		sc_json_verdict(json, SC_STANDS_FAIR,
				"Fits; at most %.2f %% above the least possible cost by %s.%s",
				shard_gap_pct(best->solution.cost, best->bound), cost_of, tie);
	list = best->has_cost ? sc_json_array(json, json->root, "rank_costs") : NULL;
	for (uint32_t i = 0; best->has_cost && i < best->solution.plan.world; i++)
		sc_json_real(json, list, NULL, best->solution.rank_cost[i]);
	list = sc_json_array(json, json->root, "plans");
	for (size_t i = 0; i < study->plans.n; i++)
		put_plan(json, list, report, &study->plans.at[i]);
	list = report->pareto ? sc_json_array(json, json->root, "pareto") : NULL;
	for (size_t i = 0; report->pareto && i < report->pareto->n; i++) {
		const struct sc_pareto_point *p = &report->pareto->at[i];
		json_t *point = sc_json_object(json, list, NULL);

		SC_JSON_PUT(json, point, *p, cost, bound);
		sc_json_real(json, point, "hbm_rank_max_gib", p->hbm_bytes / SC_BYTES_PER_GIB);
	}
	if (report->diff)
		add_diff(json, report);
	add_lints(json, json->root, &study->lints);
	sc_json_warnings(json, report->warnings);
}

const struct sc_forms sc_shard_forms = {.json = put_shard_json, .text = put_shard_text};
