/* stepcast predict: one config, one prediction, in any of its forms. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/start.h"
#include "lib/predict_run.h"
#include "report/chakra_trace.h"
#include "report/chrome_trace.h"

struct session {
	struct sc_predict_run run;
	struct sc_schedule_play play;
};

static int put_timeline(const void *ctx, FILE *out, struct sc_err *err)
{
	const struct session *s = ctx;

	return sc_chrome_trace_write(s->run.by->predictor, &s->run.by->prediction, out, err);
}

static int predict_command(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	const struct sc_predict_args *args = into;
	struct session *s = sc_arena_calloc(call->arena, 1, sizeof(*s));
	const char *path = args->common.words.at[0];
	struct sc_config config;
	int rc = sc_cli_config(path, &args->sets, call->arena, &config, err);

	s->run.args = args;
	s->run.catalog = call->catalog;
	if (rc == 0)
		rc = sc_predict_run(&s->run, &config, path, err);
	if (rc == 0)
		sc_cli_warn_all(&args->common, &s->run.by->prediction.warnings);
	if (rc == 0 && args->timeline)
		rc = sc_cli_write(args->timeline, put_timeline, s, err);
	if (rc == 0 && args->chakra)
		rc = sc_chakra_write(s->run.by->predictor, args->chakra, err);
	if (rc == 0 && sc_predict_is_drawn(args) &&
	    sc_predictor_play(s->run.by->predictor, call->arena, &s->play))
		s->run.report.play = &s->play;
	if (rc == 0)
		rc = sc_predict_run_explain(&s->run, &config, path, err);
	if (rc == 0)
		rc = sc_cli_give(call, &sc_prediction_forms, &s->run.report, err);
	if (rc == 0 && args->require_fit && sc_memory_fullness(&s->run.by->prediction.memory) > 1) {
		fprintf(stderr, "check failed: it does not fit the memory\n");
		call->exit_code = SC_EXIT_CHECK;
	}
	sc_predict_run_release(&s->run);
	return rc;
}

const struct sc_command sc_command_predict = {
	.name = "predict",
	.n_words = 1,
	.words_asked = "one CONFIG",
	.summary = "predict the time of one iteration from a config",
	.synopsis =
		"CONFIG [--set PATH=VALUE]... [--json] [--timeline FILE.json] [--chakra DIR] [--report FILE.html] "
		"[--explain] [--require-fit] [--confidence PCT] [--price USD|GPU=USD]... [--tokens N]",
	.details =
		"Predicts one training iteration of the CONFIG (YAML; - is stdin): its time with a band that holds "
		"the central 80 % (--confidence), where the time of its busiest GPU goes, its critical path, memory "
		"per GPU, throughput and MFU.\n\n"
		"  stepcast predict configs/examples/gpt-22b-selene.yaml\n"
		"  stepcast predict x.yaml --set parallel.tp=4 --set gpus=16 --json",
	.words = "file",
	.options = sc_predict_options,
	.args_bytes = sizeof(struct sc_predict_args),
	.defaults = &sc_predict_defaults,
	.run = predict_command,
};
