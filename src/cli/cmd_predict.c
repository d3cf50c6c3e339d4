/* stepcast predict: one config, one prediction, in any of its forms. */
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/start.h"
#include "report/chrome_trace.h"
#include "report/html_prediction.h"
#include "report/json.h"
#include "report/text.h"
#include "study/explain/explain.h"
#include "study/schedule/schedule_choose.h"
#include "study/shard/shard_choose.h"

struct predict_args {
	struct sc_common common;
	struct sc_arg_list sets;
	int json, explain, no_jump, detail;
	const char *timeline, *report;
};

static const char *const DETAILS[] = {
	[SC_DETAIL_COARSE] = "coarse", [SC_DETAIL_FULL] = "full", NULL};

#define AT(member) offsetof(struct predict_args, member)
static const struct sc_cli_option OPTIONS[] = {
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

/* All that one prediction needs, released together. */
struct session {
	const struct predict_args *args;
	struct sc_predict_opts opts;
	struct sc_catalog *catalog;
	struct sc_predictor *predictor;
	struct sc_request request;
	struct sc_chosen_plan chosen;
	struct sc_prediction prediction;
	struct sc_explanation explanation;
	struct sc_schedule_play play;
	bool has_play;
};

static int put_timeline(const void *ctx, FILE *out, struct sc_err *err)
{
	const struct session *s = ctx;

	return sc_chrome_trace_write(s->predictor, &s->prediction, out, err);
}

static int put_json(const void *ctx, FILE *out, struct sc_err *err)
{
	const struct session *s = ctx;

	return sc_json_prediction(&s->prediction, s->args->explain ? &s->explanation : NULL, out,
				  err);
}

static void put_page(const void *ctx, struct sc_strbuf *out)
{
	const struct session *s = ctx;
	const struct sc_html_more more = {&s->explanation, s->has_play ? &s->play : NULL};

	sc_html_prediction(s->args->common.words.at[0], &s->request, &s->prediction, &more, out);
}

static int write_result(const struct session *s, struct sc_err *err)
{
	const char *output = s->args->common.output;
	struct sc_strbuf text = {0};
	int rc;

	if (s->args->json)
		return sc_cli_write(output, put_json, s, err);
	sc_text_prediction(&s->request, &s->prediction, &text);
	if (s->args->explain)
		sc_text_explanation(&s->prediction, &s->explanation, &text);
	rc = sc_cli_write_text(output, &text, err);
	sc_strbuf_release(&text);
	return rc;
}

static int predict(struct session *s, struct sc_arena *arena, struct sc_err *err)
{
	const char *path = s->args->common.words.at[0];
	struct sc_config config;
	int rc = sc_cli_config(path, &s->args->sets, arena, &config, err);

	if (rc == 0)
		rc = sc_resolve_chosen(&(struct sc_schedule_ask){&config, s->catalog, path,
								 s->predictor, &s->opts},
				       &s->request, err);
	if (rc == 0)
		rc = sc_chosen_plan_init(&s->chosen, &s->request, err);
	if (rc == 0 && s->chosen.is_there)
		s->opts.plan = &s->chosen.planned.plan;
	if (rc == 0)
		rc = sc_predict(s->predictor, &s->request, &s->opts, &s->prediction, err);
	if (rc == 0)
		sc_chosen_plan_warn(&s->chosen, &s->prediction);
	if (rc == 0)
		sc_cli_warn_all(&s->args->common, &s->prediction.warnings);
	/* Before anything else is predicted: the timeline is the predictor's scratch. */
	if (rc == 0 && s->args->timeline)
		rc = sc_cli_write(s->args->timeline, put_timeline, s, err);
	if (rc == 0 && s->args->report)
		s->has_play = sc_predictor_play(s->predictor, arena, &s->play);
	if (rc == 0 && (s->args->explain || s->args->report))
		rc = sc_explain(s->predictor, &s->request, &s->opts, &s->prediction,
				&s->explanation, err);
	if (rc == 0)
		rc = sc_cli_write_page(s->args->report, put_page, s, err);
	return rc ? rc : write_result(s, err);
}

static int run_predict(const struct sc_line *line)
{
	struct predict_args args = {.detail = SC_DETAIL_COARSE};
	struct sc_err err = {.code = SC_OK};
	struct session *s;
	struct sc_arena arena;
	int exit_code = SC_EXIT_DONE;

	sc_arena_init(&arena, SC_CLI_ARENA_BYTES);
	if (!sc_cli_begin(line, &args, &arena, &exit_code)) {
		sc_arena_release(&arena);
		return exit_code;
	}
	s = sc_arena_calloc(&arena, 1, sizeof(*s));
	s->args = &args;
	sc_predict_opts_init(&s->opts);
	s->opts.detail = (enum sc_detail)args.detail;
	s->opts.no_jump = args.no_jump;
	s->opts.keep_graph = args.timeline != NULL;
	s->catalog = sc_catalog_create();
	s->predictor = sc_predictor_create();
	if (predict(s, &arena, &err))
		exit_code = sc_cli_fail(&err);
	sc_chosen_plan_release(&s->chosen);
	sc_predictor_destroy(s->predictor);
	sc_catalog_destroy(s->catalog);
	sc_arena_release(&arena);
	return exit_code;
}

const struct sc_command sc_command_predict = {
	.name = "predict",
	.n_words = 1,
	.words_asked = "one CONFIG",
	.summary = "predict the time of one iteration from a config",
	.synopsis =
		"CONFIG [--set PATH=VALUE]... [--json] [--timeline FILE.json] [--report FILE.html] "
		"[--explain]",
	.details =
		"Predicts one training iteration of the CONFIG (YAML): its time with a band that holds "
		"the central 80 %, where the time of its busiest GPU goes, its critical path, memory "
		"per GPU, throughput and MFU.\n\n"
		"  stepcast predict configs/examples/gpt-22b-selene.yaml\n"
		"  stepcast predict x.yaml --set parallel.tp=4 --set gpus=16 --json",
	.words = "file",
	.options = OPTIONS,
	.run = run_predict,
};
