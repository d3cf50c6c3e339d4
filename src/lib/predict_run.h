/* Questions to `stepcast predict` and `sweep`, and a run of predict: a config's prediction, for the
 * commands and the library. */
#pragma once

#include "base/csv.h"
#include "base/ranks.h"
#include "lib/options.h"
#include "report/prediction_report.h"
#include "study/sweep/run_cost.h"

/* Reads the size of the run and its prices into the arena. `asked` is true if one was given, or the
 * config has a price. */
int sc_cost_args_read(const struct sc_cost_args *args, const struct sc_config *config,
		      struct sc_arena *arena, struct sc_run_size *out, bool *asked,
		      struct sc_err *err);

struct sc_predict_args {
	struct sc_common common;
	struct sc_arg_list sets;
	int json, explain, no_jump, detail, require_fit;
	const char *timeline, *chakra, *report;
	int64_t confidence;
	struct sc_cost_args cost;
};
extern const struct sc_cli_option sc_predict_options[];
extern const struct sc_predict_args sc_predict_defaults; /* before they are parsed */

/* A prediction and all that it stands on. */
struct sc_predict_run {
	const struct sc_predict_args
		*args; /* these two are the caller's, all else zeros before it */
	struct sc_catalog *catalog;
	struct sc_evaluator *by; /* what was asked for is the last that it evaluated */
	struct sc_run_cost cost;
	struct sc_explanation explanation;
	struct sc_alternatives alternatives;
	struct sc_prediction_report report; /* all of it that was found */
};
/* Resolves, chooses what is open, predicts. `path` is the file that errors name, or NULL. */
int sc_predict_run(struct sc_predict_run *run, const struct sc_config *config, const char *path,
		   struct sc_err *err);
/* Returns whether an explanation is asked for, or a file whose ending names a page or JSON: by -o
 * as by --report it has all. */
bool sc_predict_is_drawn(const struct sc_predict_args *args);
/* Explains the prediction if that is asked for, or if it does not fit. `config` and `path` are
 * those of sc_predict_run. */
int sc_predict_run_explain(struct sc_predict_run *run, const struct sc_config *config,
			   const char *path, struct sc_err *err);
void sc_predict_run_release(struct sc_predict_run *run);

struct sc_sweep_args {
	struct sc_common common;
	struct sc_arg_list sets, grid;
	const char *table, *report, *part;
	int64_t jobs, confidence;
	struct sc_cost_args cost;
	int json, merge;
};
extern const struct sc_cli_option sc_sweep_options[];
extern const struct sc_sweep_args sc_sweep_defaults;

/* The table or the grid that they ask for, with no column that the result has too. */
int sc_sweep_args_cases(const struct sc_sweep_args *args, struct sc_arena *arena,
			struct sc_csv *out, struct sc_err *err);
