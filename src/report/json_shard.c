/* Sharding plans as JSON: "stepcast/shard". The plans themselves are files of their own (-o). */
#include "base/json_out.h"
#include "base/units.h"
#include "report/json.h"
#include "report/shard_report.h"

enum { SHARD_VERSION = 1 };

static void put_lints(struct sc_json *json, json_t *parent, const sc_lints *lints)
{
	json_t *list = sc_json_array(json, parent, "notes");

	for (size_t i = 0; i < lints->n; i++) {
		json_t *lint = sc_json_object(json, list, NULL);

		sc_json_text(json, lint, "code", lints->at[i].code);
		sc_json_text(json, lint, "text", lints->at[i].text);
	}
}

static void put_bottleneck(struct sc_json *json, json_t *parent,
			   const struct sc_shard_report *report, const struct sc_ranked_plan *plan)
{
	struct sc_rank_part parts[SC_SHARD_REPORT_TABLES];
	uint32_t rank = plan->solution.bottleneck;
	size_t n = sc_rank_parts(&plan->terms, rank, parts, SC_SHARD_REPORT_TABLES);
	json_t *out = sc_json_object(json, parent, "bottleneck"), *list;

	sc_json_int(json, out, "rank", rank);
	list = sc_json_array(json, out, "tables");
	for (size_t i = 0; i < n && i < report->n_tables; i++) {
		const struct sc_table *table =
			&report->study->objective->problem.tables[parts[i].table];
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

	sc_json_text(json, out, "name", plan->name);
	sc_json_text(json, out, "origin", plan->origin);
	if (plan->error) {
		sc_json_text(json, out, "error", plan->error);
		return;
	}
	if (plan->has_cost) {
		double gap_pct = sc_shard_gap_pct(plan->solution.cost, plan->bound);

		sc_json_real(json, out, "cost", plan->solution.cost);
		sc_json_real(json, out, "bound", plan->bound);
		if (gap_pct >= 0)
			sc_json_real(json, out, "gap_pct", gap_pct);
		sc_json_bool(json, out, "proven", sc_shard_is_proven(study, plan));
		put_bottleneck(json, out, report, plan);
	}
	sc_json_bool(json, out, "over_budget", plan->over_budget);
	sc_json_bool(json, out, "barred", plan->is_barred);
	if (plan->is_predicted) {
		sc_json_real(json, out, "iteration_ms", plan->iteration_ms);
		sc_json_real(json, out, "low_ms", plan->low_ms);
		sc_json_real(json, out, "high_ms", plan->high_ms);
	}
	memory = sc_json_object(json, out, "memory_gib");
	sc_json_real(json, memory, "hbm_rank_max", plan->memory.hbm_bytes / SC_BYTES_PER_GIB);
	sc_json_real(json, memory, "host_max", plan->memory.host_bytes / SC_BYTES_PER_GIB);
	sc_json_real(json, memory, "ssd_host_max", plan->memory.ssd_bytes / SC_BYTES_PER_GIB);
	if (study->opts.confidence.samples > 0) {
		const struct sc_confidence *c = &plan->confidence;
		json_t *confidence = sc_json_object(json, out, "confidence");

		sc_json_real(json, confidence, "p_best_pct", SC_PCT * c->p_best);
		sc_json_real(json, confidence, "regret_pct", c->regret_pct);
		sc_json_real(json, confidence, "mean_cost", c->mean_ms);
		sc_json_real(json, confidence, "low_cost", c->low_ms);
		sc_json_real(json, confidence, "high_cost", c->high_ms);
		sc_json_bool(json, confidence, "tied", c->tied);
	}
	put_lints(json, out, &plan->lints);
}

static void put_pareto(struct sc_json *json, const struct sc_pareto *pareto)
{
	json_t *list = sc_json_array(json, json->root, "pareto");

	for (size_t i = 0; i < pareto->n; i++) {
		json_t *point = sc_json_object(json, list, NULL);

		sc_json_real(json, point, "cost", pareto->at[i].cost);
		sc_json_real(json, point, "bound", pareto->at[i].bound);
		sc_json_real(json, point, "hbm_rank_max_gib",
			     pareto->at[i].hbm_bytes / SC_BYTES_PER_GIB);
	}
}

static void put_side(struct sc_json *json, json_t *parent, const char *key,
		     const struct sc_shard_side *of)
{
	json_t *side = sc_json_object(json, parent, key);

	sc_json_text(json, side, "sharding_type", sc_enum_name(sc_shard_type_names, (int)of->type));
	sc_json_text(json, side, "compute_kernel", sc_enum_name(sc_tier_names, (int)of->tier));
	sc_json_int(json, side, "shards", of->shards);
}

static void put_diff(struct sc_json *json, const struct sc_shard_report *report)
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
		put_side(json, move, "from", &m->from);
		put_side(json, move, "to", &m->to);
	}
}

static void put_verdict(struct sc_json *json, const struct sc_study *study)
{
	const struct sc_ranked_plan *best = &study->plans.at[0];

	if (best->error || !best->has_cost)
		sc_json_verdict(json, SC_STANDS_FAIR, "%s: %s.", best->name,
				best->error ? best->error : "its cost is not known");
	else if (best->over_budget)
		sc_json_verdict(json, SC_STANDS_BADLY,
				"Does not fit the memory: %s is over budget.", best->name);
	else if (sc_shard_is_proven(study, best))
		sc_json_verdict(json, SC_STANDS_WELL, "Fits, and is proven: no plan costs less.");
	else
		sc_json_verdict(json, SC_STANDS_FAIR,
				"Fits; at most %.2f %% above the least possible cost.",
				sc_shard_gap_pct(best->solution.cost, best->bound));
}

int sc_json_shard(const struct sc_shard_report *report, FILE *out, struct sc_err *err)
{
	const struct sc_study *study = report->study;
	struct sc_json json;
	json_t *list;

	sc_json_init(&json, "stepcast/shard", SHARD_VERSION);
	sc_json_text(&json, json.root, "objective", sc_objective_names[study->objective->kind]);
	sc_json_text(&json, json.root, "cost_unit", study->objective->unit);
	sc_json_int(&json, json.root, "world_size", study->objective->problem.world);
	sc_json_int(&json, json.root, "ranks_per_host", study->objective->problem.ranks_per_host);
	sc_json_int(&json, json.root, "n_tables", (int64_t)study->objective->problem.n_tables);
	sc_json_real(&json, json.root, "bound", study->bound);
	sc_json_real(&json, json.root, "bound_within_constraints", study->kept_bound);
	sc_json_real(&json, json.root, "lp_bound", study->lp_bound);
	sc_json_request(&json, study->objective->request);
	put_verdict(&json, study);
	if (study->plans.at[0].has_cost) {
		const struct sc_shard_solution *best = &study->plans.at[0].solution;

		list = sc_json_array(&json, json.root, "rank_costs");
		for (uint32_t i = 0; i < best->plan.world; i++)
			sc_json_real(&json, list, NULL, best->rank_cost[i]);
	}
	list = sc_json_array(&json, json.root, "plans");
	for (size_t i = 0; i < study->plans.n; i++)
		put_plan(&json, list, report, &study->plans.at[i]);
	if (report->pareto)
		put_pareto(&json, report->pareto);
	if (report->diff)
		put_diff(&json, report);
	put_lints(&json, json.root, &study->lints);
	sc_json_warnings(&json, &study->objective->request->warnings);
	return sc_json_write(&json, out, err);
}
