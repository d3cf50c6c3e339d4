/* See the header. */
#include "lib/predict_run.h"

#include "study/schedule/schedule_choose.h"

static const char *const DETAILS[] = {
	[SC_DETAIL_COARSE] = "coarse", [SC_DETAIL_FULL] = "full", NULL};

#define AT(member) offsetof(struct sc_predict_args, member)
const struct sc_cli_option sc_predict_options[] = {
	{.name = "set",
	 .kind = SC_ARG_LIST,
	 .arg = "PATH=VALUE",
	 .offset = AT(sets),
	 .help = "override one key of the config, as parallel.tp=4; may be given again"},
	{.name = "json", .kind = SC_ARG_FLAG, .offset = AT(json), .help = "write JSON to stdout"},
	{.name = "explain",
	 .kind = SC_ARG_FLAG,
	 .offset = AT(explain),
	 .help = "add the largest contributors, what 10 % more of each resource would buy, and what other "
		 "settings would do"},
	{.name = "require-fit",
	 .kind = SC_ARG_FLAG,
	 .offset = AT(require_fit),
	 .help = "end with exit code 3 where it does not fit the memory"},
	{.name = "price",
	 .kind = SC_ARG_NUMBER,
	 .arg = "USD",
	 .offset = AT(price),
	 .min = 0,
	 .max = 1e6,
	 .help = "of a GPU for an hour, as cluster.price_usd_gpu_hour: say what a step costs"},
	{.name = "tokens",
	 .kind = SC_ARG_NUMBER,
	 .arg = "N",
	 .offset = AT(tokens),
	 .min = 0,
	 .max = 1e18,
	 .help = "say what a run over so many tokens takes and costs, as 15e12"},
	{.name = "samples",
	 .kind = SC_ARG_NUMBER,
	 .arg = "N",
	 .offset = AT(samples),
	 .min = 0,
	 .max = 1e18,
	 .help = "the same over so many samples"},
	{.name = "timeline",
	 .kind = SC_ARG_TEXT,
	 .file = SC_FILE_OUT,
	 .arg = "FILE.json",
	 .offset = AT(timeline),
	 .help = "write the simulated timeline for Perfetto or chrome://tracing"},
	SC_CLI_OPTION_REPORT(AT(report)),
	{.name = "detail",
	 .kind = SC_ARG_CHOICE,
	 .arg = "coarse|full",
	 .offset = AT(detail),
	 .choices = DETAILS,
	 .help = "coarse simulates layers as blocks (default), full simulates every operation"},
	{.name = "no-jump",
	 .kind = SC_ARG_FLAG,
	 .offset = AT(no_jump),
	 .help = "simulate every micro-batch instead of skipping the proven steady state"},
	{0},
};

void sc_predict_args_init(struct sc_predict_args *args)
{
	*args = (struct sc_predict_args){
		.detail = SC_DETAIL_COARSE, .price = -1, .tokens = -1, .samples = -1};
}

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
		run->opts.plan = &run->chosen.planned.plan;
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
