/* See the header. */
#include "lib/predict_run.h"

#include "report/sweep_report.h"
#include "study/schedule/schedule_choose.h"
#include "study/sweep/sweep.h"

static const char *const DETAILS[] = {
	[SC_DETAIL_COARSE] = "coarse", [SC_DETAIL_FULL] = "full", NULL};

#define SC_ARGS struct sc_predict_args
const struct sc_cli_option sc_predict_options[] = {
	SC_OPT_LIST(sets, "set", "PATH=VALUE",
		    "override one key of the config, as parallel.tp=4; may be given again"),
	SC_OPT_FLAG(json, "json", "write JSON to stdout"),
	SC_OPT_CONFIDENCE(confidence),
	SC_OPT_FLAG(
		explain, "explain",
		"add the largest contributors, what 10 % more of each resource would buy, and what other settings would do"),
	SC_OPT_FLAG(require_fit, "require-fit",
		    "end with exit code 3 where it does not fit the memory"),
	SC_OPT_NUMBER(price, "price", "USD", 0, 1e6,
		      "of a GPU for an hour, as cluster.price_usd_gpu_hour: say what a step costs"),
	SC_OPT_NUMBER(tokens, "tokens", "N", 0, 1e18,
		      "say what a run over so many tokens takes and costs, as 15e12"),
	SC_OPT_NUMBER(samples, "samples", "N", 0, 1e18, "the same over so many samples"),
	SC_OPT_OUT(timeline, "timeline", "FILE.json",
		   "write the simulated timeline for Perfetto or chrome://tracing"),
	SC_OPT_REPORT(report),
	SC_OPT_CHOICE(
		detail, "detail", "coarse|full", DETAILS,
		"coarse simulates layers as blocks (default), full simulates every operation"),
	SC_OPT_FLAG(no_jump, "no-jump",
		    "simulate every micro-batch instead of skipping the proven steady state"),
	{0},
};

const struct sc_predict_args sc_predict_defaults = {.detail = SC_DETAIL_COARSE,
						    .confidence = SC_CONFIDENCE,
						    .price = -1,
						    .tokens = -1,
						    .samples = -1};

void sc_predict_run_init(struct sc_predict_run *run, const struct sc_predict_args *args,
			 struct sc_catalog *catalog)
{
	run->args = args;
	run->catalog = catalog;
	run->chosen = (struct sc_chosen_plan){.is_there = false};
	run->alternatives.n = 0;
	run->is_explained = run->has_cost = run->has_alternatives = false;
	sc_predict_opts_init(&run->opts);
	run->opts.detail = (enum sc_detail)args->detail;
	run->opts.confidence_pct = (int)args->confidence;
	run->opts.no_jump = args->no_jump;
	run->opts.keep_graph = args->timeline != NULL;
	run->predictor = sc_predictor_create();
}

void sc_predict_run_release(struct sc_predict_run *run)
{
	sc_chosen_plan_release(&run->chosen);
	sc_predictor_destroy(run->predictor);
}

/* Where a price, or how long the run is, was given. */
static int find_cost(struct sc_predict_run *run, struct sc_err *err)
{
	const struct sc_predict_args *args = run->args;
	const struct sc_run_size size = {args->tokens, args->samples, args->price};

	if (args->tokens >= 0 && args->samples >= 0)
		return sc_err_set(err, SC_EUSAGE, "--tokens and --samples say the same: give one");
	run->has_cost = args->price >= 0 || args->tokens >= 0 || args->samples >= 0 ||
			run->request.config.cluster.price_usd_gpu_hour >= 0;
	if (!run->has_cost)
		return 0;
	return sc_run_cost(&run->request, &run->prediction, &size, &run->cost, err);
}

int sc_predict_run(struct sc_predict_run *run, const struct sc_config *config, const char *path,
		   struct sc_err *err)
{
	const struct sc_schedule_ask ask = {config, run->catalog, path, run->predictor, &run->opts};
	int rc = sc_resolve_chosen(&ask, &run->request, err);

	if (rc == 0)
		rc = sc_chosen_plan_init(&run->chosen, &run->request, err);
	if (rc == 0 && run->chosen.is_there)
		run->opts.plan = &run->chosen.made.plan;
	if (rc == 0)
		rc = sc_predict(run->predictor, &run->request, &run->opts, &run->prediction, err);
	if (rc == 0)
		sc_chosen_plan_warn(&run->chosen, &run->prediction);
	return rc ? rc : find_cost(run, err);
}

int sc_predict_run_explain(struct sc_predict_run *run, const struct sc_config *config,
			   const char *path, struct sc_err *err)
{
	const struct sc_schedule_ask ask = {config, run->catalog, path, run->predictor, &run->opts};
	struct sc_arena arena;
	int rc = 0;

	run->is_explained = run->args->explain || run->args->report;
	if (!run->is_explained && sc_memory_fullness(&run->prediction.memory) <= 1)
		return 0;
	run->has_alternatives = sc_model_is_transformer(&run->request.config.model);
	sc_arena_init(&arena, 0);
	run->opts.keep_graph = false;
	sc_find_alternatives(&ask, &run->request, &run->prediction, &arena, &run->alternatives);
	sc_arena_release(&arena);
	if (run->is_explained)
		rc = sc_explain(run->predictor, &run->request, &run->opts, &run->prediction,
				&run->explanation, err);
	return rc;
}

void sc_predict_run_report(const struct sc_predict_run *run, struct sc_prediction_report *out)
{
	*out = (struct sc_prediction_report){
		.request = &run->request,
		.prediction = &run->prediction,
		.explanation = run->is_explained ? &run->explanation : NULL,
		.alternatives = run->has_alternatives ? &run->alternatives : NULL,
		.cost = run->has_cost ? &run->cost : NULL,
	};
}

#undef SC_ARGS
#define SC_ARGS struct sc_sweep_args
const struct sc_cli_option sc_sweep_options[] = {
	SC_OPT_IN(
		table, "table", "CASES.csv",
		"one case a row; header cells with a dot are config keys, others are carried through"),
	SC_OPT_LIST(grid, "grid", "PATH=A,B,...",
		    "one axis of a grid; given again, all combinations, the last axis fastest"),
	SC_OPT_CONFIDENCE(confidence),
	SC_OPT_FLAG(json, "json", "write JSON to stdout; the CSV then only to -o"),
	SC_OPT_REPORT(report),
	SC_OPT_BASE_SET(sets),
	SC_OPT_JOBS(jobs),
	{0},
};
const struct sc_sweep_args sc_sweep_defaults = {.confidence = SC_CONFIDENCE};

int sc_sweep_args_cases(const struct sc_sweep_args *args, struct sc_arena *arena,
			struct sc_csv *out, struct sc_err *err)
{
	int rc;

	if (!args->table == !args->grid.n)
		return sc_err_set(err, SC_EUSAGE, "sweep needs either --table or --grid");
	if (args->table)
		rc = sc_csv_load(args->table, arena, out, err);
	else
		rc = sc_grid_build(args->grid.at, args->grid.n, arena, out, err);
	return rc ? rc : sc_sweep_csv_check(out, err);
}
