/* stepcast sweep: many cases over one config, as a CSV. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/output.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "lib/predict_run.h"
#include "report/sweep_report.h"
#include "study/sweep/sweep.h"

/* Rows go into the file as they come, or beside one that is there, which stays till all are done.
 */
struct sink {
	const struct sc_sweep_args *args;
	const struct sc_csv *cases;
	struct sc_sweep_report report;
	struct sc_output *file; /* NULL: stdout */
	FILE *out;              /* NULL: nowhere, they come as JSON */
	size_t n_taken, n_same, n_failed;
	size_t first_failed; /* if n_failed */
	int exit_code;
};

static int print_row(void *ctx, size_t index, const struct sc_outcome *outcome, struct sc_err *err)
{
	struct sink *sink = ctx;

	if (outcome->code != SC_OK && sink->n_failed++ == 0)
		sink->first_failed = index;
	sink->n_same += outcome->same_as > 0;
	sink->n_taken++;
	return sink->out ? sc_sweep_csv_row(&sink->report, index, outcome, sink->out, err) : 0;
}

/* Tells how many rows failed and why the first did; each row's reason is in the column `error`.
 * Returns the exit code. */
static int warn_rows(const struct sink *sink, const struct sc_outcome *outcomes)
{
	const struct sc_common *common = &sink->args->common;
	const struct sc_csv *cases = sink->cases;
	unsigned line = sink->n_failed ? cases->line[sink->first_failed] : 0;
	const char *why = sink->n_failed ? outcomes[sink->first_failed].error : "";

	if (sink->n_failed)
		sc_cli_warn(common, "%zu of %zu cases failed; first: %s:%u: %s", sink->n_failed,
			    cases->n_rows, cases->file, line, why);
	if (sink->n_same)
		sc_cli_warn(common,
			    "%zu of %zu cases are predicted as an earlier one to the last digit: "
			    "what differs has no effect there; see the column same_as",
			    sink->n_same, cases->n_rows);
	if (sink->n_failed == 0)
		return SC_EXIT_DONE;
	return sink->n_failed == cases->n_rows ? SC_EXIT_DATA : SC_EXIT_CHECK;
}

/* sink->exit_code is set if 0 is returned. */
static int run_cases(struct sc_sweep *sweep, struct sink *sink, const struct sc_cli_call *call,
		     struct sc_err *err)
{
	const struct sc_common *common = &sink->args->common;
	size_t n_rows = sink->cases->n_rows;
	struct sc_outcome *outcomes = sc_arena_calloc(call->arena, n_rows, sizeof(*outcomes));
	int rc = 0;

	sink->report.base = sweep->base;
	sink->report.cases = sweep->cases;
	sink->report.size = sweep->size;
	sink->report.outcomes = outcomes;
	sweep->stop = sc_cli_catch_stop();
	if (sweep->ranks)
		sweep->ranks->signal = sweep->stop;
	sweep->take = print_row;
	sweep->ctx = sink;
	if (sc_ranks_helps(sweep->ranks))
		return sc_sweep_run(sweep, call->arena, outcomes, err);
	sink->out = sink->args->json ? NULL : stdout;
	if (strcmp(common->output, "-") != 0)
		rc = sc_output_create(common->output, true, &sink->file, err);
	if (sink->file)
		sink->out = sc_output_stream(sink->file);
	if (rc == 0 && sink->out)
		rc = sc_sweep_csv_header(&sink->report, sink->out, err);
	if (rc == 0) {
		sweep->progress = sc_cli_progress(common, "sweep", n_rows);
		rc = sc_sweep_run(sweep, call->arena, outcomes, err);
		sc_progress_destroy(sweep->progress);
	}
	if (rc && sink->out && (*sweep->stop || (sweep->ranks && sweep->ranks->is_lost)))
		sc_err_prefix(err, "the first %zu of %zu rows are in %s", sink->n_taken, n_rows,
			      sink->file ? sc_output_part(sink->file) : "stdout");
	/* An error of writing names the file that holds the rows until then. */
	if (rc && sink->file && ferror(sink->out))
		snprintf(err->file, sizeof(err->file), "%s", sc_output_part(sink->file));
	if (rc && sink->file)
		sc_output_discard(sink->file);
	else if (sink->file)
		rc = sc_output_commit(sink->file, NULL, err);
	if (rc == 0)
		sink->exit_code = warn_rows(sink, outcomes);
	return rc ? rc : sc_cli_give(call, &sc_sweep_forms, &sink->report, err);
}

/* Parts that were read. */
struct merge {
	struct sc_csv *parts;
	size_t n;
};

static int put_merged(const void *ctx, FILE *out, struct sc_err *err)
{
	const struct merge *merge = ctx;

	return sc_sweep_merge(merge->parts, merge->n, out, err);
}

static int merge_parts(const struct sc_sweep_args *args, struct sc_arena *arena, struct sc_err *err)
{
	const struct sc_arg_list *words = &args->common.words;
	struct merge merge = {sc_arena_calloc(arena, words->n + 1, sizeof(*merge.parts)), words->n};
	const struct sc_cost_args *cost = &args->cost;
	int rc = words->n ? 0 : sc_err_set(err, SC_EUSAGE, "sweep --merge needs PARTs");

	if (args->table || args->grid.n || args->sets.n || args->part || args->json ||
	    args->report || cost->prices.n || cost->tokens > 0 || cost->samples > 0)
		return sc_err_set(err, SC_EUSAGE, "sweep --merge takes PARTs and -o alone");
	for (size_t i = 0; i < words->n && rc == 0; i++)
		rc = sc_csv_load(words->at[i], arena, &merge.parts[i], err);
	return rc ? rc : sc_cli_write(args->common.output, put_merged, &merge, err);
}

/* Leaves the part's rows alone in the cases. */
static int take_part(const struct sc_sweep_args *args, const struct sc_sweep *sweep,
		     struct sc_csv *cases, struct sc_sweep_part *out, struct sc_err *err)
{
	size_t begin;
	int rc = sc_sweep_part_parse(args->part, out, err);

	if (rc)
		return rc;
	if (args->json || args->report)
		return sc_err_set(err, SC_EUSAGE, "--part writes a CSV; --merge makes one of all");
	if (out->n > cases->n_rows)
		return sc_err_set(err, SC_EUSAGE, "--part: %zu parts of %zu cases", out->n,
				  cases->n_rows);
	out->of = sc_sweep_fingerprint(sweep);
	out->n_rows = cases->n_rows;
	begin = sc_sweep_part_begin(out, out->index - 1);
	cases->n_rows = sc_sweep_part_begin(out, out->index) - begin;
	cases->cell += begin * cases->n_cols;
	cases->line += begin;
	return 0;
}

static int sweep(void *into, struct sc_cli_call *call, struct sc_err *err)
{
	struct sc_sweep_args *args = into;
	struct sc_arena *arena = call->arena;
	const char *path = args->common.words.at[0], *to = args->common.output;
	struct sc_predict_opts opts;
	struct sc_config config;
	struct sc_csv cases = {.file = NULL};
	struct sink sink = {.args = args, .cases = &cases};
	struct sc_sweep sweep = {
		.base = &config,
		.cases = &cases,
		.n_jobs = sc_cli_jobs(call, args->jobs),
		.opts = &opts,
		.ranks = call->line->ranks,
	};
	struct sc_sweep_part part;
	struct sc_run_size size;
	bool has_costs = false;
	int rc;

	if (args->merge)
		return merge_parts(args, arena, err);
	if (args->common.words.n != 1)
		return sc_err_set(err, SC_EUSAGE, "sweep needs one CONFIG");
	if (sc_ends_with(to, ".json") || sc_ends_with(to, ".html"))
		return sc_err_set(err, SC_EUSAGE, "-o: rows are a CSV; --report writes %s", to);
	if (args->report && !sc_ends_with(args->report, ".json") &&
	    !sc_ends_with(args->report, ".html"))
		return sc_err_set(err, SC_EUSAGE, "--report: expected FILE.html or FILE.json");
	rc = sc_sweep_args_cases(args, arena, &cases, err);
	if (rc == 0)
		rc = sc_cli_config(path, &args->sets, arena, &config, err);
	if (rc == 0)
		rc = sc_cost_args_read(&args->cost, &config, arena, &size, &has_costs, err);
	if (rc)
		return rc;
	has_costs |= sc_csv_column(&cases, "cluster.price_usd_gpu_hour") >= 0;
	sweep.size = has_costs ? &size : NULL;
	sc_cli_warn_headers(&args->common, &cases);
	sc_predict_opts_init(&opts);
	opts.confidence_pct = (int)args->confidence;
	if (args->part) {
		rc = take_part(args, &sweep, &cases, &part, err);
		sink.report.part = &part;
	}
	if (rc == 0)
		rc = run_cases(&sweep, &sink, call, err);
	call->exit_code = sink.exit_code;
	return rc;
}

const struct sc_command sc_command_sweep = {
	.name = "sweep",
	.summary = "predict many cases over one config",
	.synopsis =
		"CONFIG (--table CASES.csv | --grid PATH=A,B,...) [--part I/N] [--confidence PCT] [--price USD|GPU=USD]... [--tokens N] [--jobs N] [-o OUT.csv] [--json] [--report FILE.html] | --merge PART... [-o OUT.csv]",
	.details =
		"Predicts every case of a table, or every point of a grid, over the base CONFIG. The result is a CSV: the "
		"columns of the input, then the prediction. A case that cannot be predicted has its reason in the column "
		"`error`, and the others go on; the exit code is then 3, and 1 if none can be predicted.\n\n"
		"Look at `fits` first: a case that needs more memory (memory_total_gib) than a GPU has (capacity_gib) is "
		"predicted all the same. `same_as` is the number of an earlier row (the first is 1) that is predicted the "
		"same to the last digit: what differs has no effect there, such as a micro-batch above the batch. "
		"`warnings` are those that predict gives.\n\n"
		"Rows are written in order, as they come. SIGINT and SIGTERM end the sweep with the rows that are done, "
		"and exit code 1. If OUT.csv was there before, the rows go to OUT.csv.part, which replaces it once all are "
		"done.\n\n"
		"Under mpirun the processes share the cases, and the first writes what one alone would. If one dies or "
		"hangs, the sweep ends with the rows of the rounds before, and the error says how many are written. Jobs of an "
		"array need no MPI: each predicts its --part, and --merge makes of the parts what one sweep would have written, "
		"or says which part is missing or not whole.\n\n"
		"  stepcast sweep x.yaml --grid parallel.tp=1,2,4,8 --grid parallel.pp=1,2,4 -o out.csv\n"
		"  mpirun stepcast sweep x.yaml --table cases.csv -o out.csv\n"
		"  stepcast sweep x.yaml --table cases.csv --part $SLURM_ARRAY_TASK_ID/64 -o part.$SLURM_ARRAY_TASK_ID.csv\n"
		"  stepcast sweep --merge part.*.csv -o out.csv",
	.words = "file",
	.options = sc_sweep_options,
	.shares = true,
	.args_bytes = sizeof(struct sc_sweep_args),
	.defaults = &sc_sweep_defaults,
	.run = sweep,
};
