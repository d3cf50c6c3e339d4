/* The options of a prediction and its run: the config is resolved, open choices are made, costs are
 * added, and what else a command or the library asks for is explained. */
#include "lib/predict_run.h"

#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "report/sweep_report.h"
#include "study/sweep/sweep.h"

#define MAX_PRICE 1e6

static const char *const DETAILS[] = {
	[SC_DETAIL_COARSE] = "coarse", [SC_DETAIL_FULL] = "full", NULL};

#define SC_ARGS struct sc_predict_args
const struct sc_cli_option sc_predict_options[] = {
	SC_OPT_SET(sets),
	SC_OPT_JSON(json),
	SC_OPT_CONFIDENCE(confidence),
	SC_OPT_FLAG(
		explain, "explain",
		"add the largest contributors, what 10 % more of each resource would buy, and what other settings would do"),
	SC_OPT_FLAG(require_fit, "require-fit",
		    "end with exit code 3 if it does not fit in memory"),
	SC_OPT_COSTS(cost),
	SC_OPT_OUT(
		timeline, "timeline", "FILE.json",
		"write the simulated timeline for Perfetto or chrome://tracing; a DLRM's, or that of layers, has steps before and after the iteration, which it marks"),
	SC_OPT(TEXT, chakra, "chakra", .arg = "DIR", .of_command = true,
	       .help = "write it as Chakra execution traces, DIR/chakra.N.et for class N of ranks; --detail full adds each "
		       "operation and collective"),
	SC_OPT_REPORT(report),
	SC_OPT_CHOICE(
		detail, "detail", "coarse|full", DETAILS,
		"coarse simulates layers as blocks (default), full simulates every operation"),
	SC_OPT_FLAG(no_jump, "no-jump",
		    "simulate every micro-batch instead of skipping the proven steady state"),
	{0},
};

const struct sc_predict_args sc_predict_defaults = {.detail = SC_DETAIL_COARSE,
						    .confidence = SC_CONFIDENCE};

void sc_predict_run_release(struct sc_predict_run *run)
{
	sc_evaluator_destroy(run->by);
}

static int read_price(const char *text, struct sc_arena *arena, struct sc_gpu_price *out,
		      struct sc_err *err)
{
	const char *equals = strchr(text, '=');

	if (equals)
		out->gpu = sc_arena_strndup(arena, text, (size_t)(equals - text));
	if (sc_parse_double(equals ? equals + 1 : text, &out->usd_per_hour) &&
	    out->usd_per_hour >= 0 && out->usd_per_hour <= MAX_PRICE)
		return 0;
	return sc_err_set(err, SC_EUSAGE,
			  "--price: expected USD or GPU=USD, a number from 0 to %g, got \"%.64s\"",
			  MAX_PRICE, text);
}

int sc_cost_args_read(const struct sc_cost_args *args, const struct sc_config *config,
		      struct sc_arena *arena, struct sc_run_size *out, bool *asked,
		      struct sc_err *err)
{
	struct sc_gpu_price *prices = sc_arena_calloc(arena, args->prices.n + 1, sizeof(*prices));
	int rc = 0;

	if (args->tokens > 0 && args->samples > 0)
		return sc_err_set(err, SC_EUSAGE, "--tokens and --samples say the same: give one");
	for (size_t i = 0; i < args->prices.n && rc == 0; i++) {
		rc = read_price(args->prices.at[i], arena, &prices[i], err);
		for (size_t k = 0; k < i && rc == 0; k++)
			if (strcmp(prices[k].gpu ? prices[k].gpu : "",
				   prices[i].gpu ? prices[i].gpu : "") == 0)
				rc = sc_err_set(err, SC_EUSAGE,
						"--price %.64s: this price is given twice",
						args->prices.at[i]);
	}
	*out = (struct sc_run_size){args->tokens, args->samples, prices, args->prices.n};
	*asked = args->prices.n || args->tokens > 0 || args->samples > 0 ||
		 config->cluster.price_usd_gpu_hour >= 0;
	return rc;
}

/* A run has costs only if a price or its length was given. */
static int find_cost(struct sc_predict_run *run, struct sc_err *err)
{
	struct sc_run_size size;
	struct sc_arena arena;
	bool is_asked;
	int rc;

	sc_arena_init(&arena, 0);
	rc = sc_cost_args_read(&run->args->cost, &run->by->request.config, &arena, &size, &is_asked,
			       err);
	if (rc == 0 && is_asked) {
		rc = sc_run_cost(&run->by->request, &run->by->prediction, &size, &run->cost, err);
		run->report.cost = &run->cost;
	}
	sc_arena_release(&arena);
	return rc;
}

int sc_predict_run(struct sc_predict_run *run, const struct sc_config *config, const char *path,
		   struct sc_err *err)
{
	const struct sc_candidate candidate = {.base = config, .file = path};
	struct sc_evaluator *by = run->by = sc_evaluator_create(run->catalog);
	int rc;

	run->report = (struct sc_prediction_report){.request = &by->request,
						    .prediction = &by->prediction};
	by->opts.detail = (enum sc_detail)run->args->detail;
	by->opts.confidence_pct = (int)run->args->confidence;
	by->opts.no_jump = run->args->no_jump;
	by->opts.keep_graph = run->args->timeline || run->args->chakra;
	rc = sc_evaluate(by, &candidate, err);
	return rc ? rc : find_cost(run, err);
}

bool sc_predict_is_drawn(const struct sc_predict_args *args)
{
	const char *to = args->common.output;

	return args->explain || args->report ||
	       (!args->json && (sc_ends_with(to, ".html") || sc_ends_with(to, ".json")));
}

int sc_predict_run_explain(struct sc_predict_run *run, const struct sc_config *config,
			   const char *path, struct sc_err *err)
{
	const bool is_asked = sc_predict_is_drawn(run->args);

	if (!is_asked && sc_memory_fullness(&run->by->prediction.memory) <= 1)
		return 0;
	if (sc_model_is_transformer(&run->by->request.config.model))
		run->report.alternatives = &run->alternatives;
	sc_find_alternatives(run->by, config, path, &run->alternatives);
	if (!is_asked)
		return 0;
	run->report.explanation = &run->explanation;
	return sc_explain(run->by, &run->explanation, err);
}

#undef SC_ARGS
#define SC_ARGS struct sc_sweep_args
const struct sc_cli_option sc_sweep_options[] = {
	SC_OPT_IN(
		table, "table", "CASES.csv",
		"one case per row; header cells with a dot are config keys, others are carried through"),
	SC_OPT_LIST(
		grid, "grid", "PATH=A,B,...",
		"one axis of a grid; several give all combinations, in which the last varies fastest"),
	SC_OPT_CONFIDENCE(confidence),
	SC_OPT(TEXT, part, "part", .arg = "I/N", .of_command = true,
	       .help = "predict the I-th of N parts of the cases alone, as a job of an array does"),
	SC_OPT(FLAG, merge, "merge", .of_command = true,
	       .help = "make one table of the PARTs that are given in place of a CONFIG"),
	SC_OPT(FLAG, json, "json", .of_command = true,
	       .help = "write JSON to stdout, and the CSV to -o alone"),
	SC_OPT_COSTS(cost),
	SC_OPT_REPORT(report),
	SC_OPT_SET(sets),
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
