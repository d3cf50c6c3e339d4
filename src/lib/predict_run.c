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
	 .help = "add the largest contributors, and what 10 % more of each resource would buy"},
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
	*args = (struct sc_predict_args){.detail = SC_DETAIL_COARSE};
}

void sc_predict_run_init(struct sc_predict_run *run, const struct sc_predict_args *args,
			 struct sc_catalog *catalog)
{
	run->args = args;
	run->catalog = catalog;
	run->chosen = (struct sc_chosen_plan){.is_there = false};
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
	return rc;
}

int sc_predict_run_explain(struct sc_predict_run *run, struct sc_err *err)
{
	if (!run->args->explain && !run->args->report)
		return 0;
	return sc_explain(run->predictor, &run->request, &run->opts, &run->prediction,
			  &run->explanation, err);
}
