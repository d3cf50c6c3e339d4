/* stepcast sweep: many cases over one config, as a CSV. */
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "study/sweep/sweep.h"
#include "report/sweep_csv.h"

struct sweep_args {
	struct sc_common common;
	struct sc_arg_list sets, grid;
	const char *table;
	int64_t jobs;
};

#define AT(member) offsetof(struct sweep_args, member)
static const struct sc_option OPTIONS[] = {
	{.name = "table",
	 .kind = SC_ARG_TEXT,
	 .arg = "CASES.csv",
	 .offset = AT(table),
	 .help = "one case a row; header cells with a dot are config keys, others are carried through"},
	{.name = "grid",
	 .kind = SC_ARG_LIST,
	 .arg = "PATH=A,B,...",
	 .offset = AT(grid),
	 .help = "one axis of a grid; given again, all combinations, the last axis fastest"},
	SC_CLI_OPTION_BASE_SET(AT(sets)),
	SC_CLI_OPTION_JOBS(AT(jobs)),
	{0},
};

static int read_cases(const struct sweep_args *args, struct sc_arena *arena, struct sc_csv *out,
		      struct sc_err *err)
{
	if (!args->table == !args->grid.n)
		return sc_err_set(err, SC_EUSAGE, "sweep needs either --table or --grid");
	if (args->table)
		return sc_csv_load(args->table, arena, out, err);
	return sc_grid_build(args->grid.at, args->grid.n, arena, out, err);
}

/* How many rows failed and why the first did; each row's reason is in the column `error`. */
static void report_failures(const struct sweep_args *args, const struct sc_csv *cases,
			    const struct sc_outcome *outcomes)
{
	size_t n_failed = 0, first = 0;

	for (size_t i = cases->n_rows; i-- > 0;) {
		if (outcomes[i].code != SC_OK) {
			n_failed++;
			first = i;
		}
	}
	if (n_failed)
		sc_cli_warn(&args->common, "%zu of %zu cases failed; first: %s:%u: %s", n_failed,
			    cases->n_rows, cases->file, cases->line[first], outcomes[first].error);
}

struct result {
	const struct sc_csv *cases;
	const struct sc_outcome *outcomes;
};

static int put_result(const void *ctx, FILE *out, struct sc_err *err)
{
	const struct result *result = ctx;

	return sc_sweep_csv_write(result->cases, result->outcomes, out, err);
}

static int sweep(const struct sweep_args *args, struct sc_arena *arena, struct sc_err *err)
{
	const char *path = args->common.words.at[0];
	struct sc_predict_opts opts;
	struct sc_outcome *outcomes;
	struct sc_config config;
	struct sc_csv cases = {.file = NULL};
	struct sc_sweep sweep = {
		.base = &config,
		.base_file = path,
		.cases = &cases,
		.n_jobs = (unsigned)args->jobs,
		.opts = &opts,
	};
	struct result result = {.cases = &cases};
	int rc = read_cases(args, arena, &cases, err);

	if (rc == 0)
		rc = sc_sweep_csv_check(&cases, err);
	if (rc == 0)
		rc = sc_cli_config(path, &args->sets, arena, &config, err);
	if (rc)
		return rc;
	sc_predict_opts_init(&opts);
	outcomes = sc_arena_calloc(arena, cases.n_rows, sizeof(*outcomes));
	sweep.progress = sc_cli_progress(&args->common, "sweep", cases.n_rows);
	rc = sc_sweep_run(&sweep, arena, outcomes, err);
	sc_progress_destroy(sweep.progress);
	if (rc)
		return rc;
	report_failures(args, &cases, outcomes);
	result.outcomes = outcomes;
	return sc_cli_write(args->common.output, put_result, &result, err);
}

static int run_sweep(const struct sc_command *command, int argc, char **argv)
{
	struct sweep_args args = {.jobs = sc_cpu_count()};
	struct sc_err err = {.code = SC_OK};
	struct sc_arena arena;
	int exit_code = SC_EXIT_DONE;

	sc_arena_init(&arena, SC_CLI_ARENA_BYTES);
	if (sc_cli_begin_words(command, argc, argv, &args, &arena, 1, "one CONFIG", &exit_code) &&
	    sweep(&args, &arena, &err))
		exit_code = sc_cli_fail(&err);
	sc_arena_release(&arena);
	return exit_code;
}

const struct sc_command sc_command_sweep = {
	.name = "sweep",
	.summary = "predict many cases over one config",
	.synopsis = "CONFIG (--table CASES.csv | --grid PATH=A,B,...) [--jobs N] [-o OUT.csv]",
	.details =
		"Predicts every case of a table, or every point of a grid, over the base CONFIG. The "
		"result is a CSV: the columns of the input, then the prediction. A case that cannot be "
		"predicted has its reason in the column `error`, and the others go on.\n\n"
		"  stepcast sweep x.yaml --grid parallel.tp=1,2,4,8 --grid parallel.pp=1,2,4 -o out.csv",
	.words = "file",
	.options = OPTIONS,
	.run = run_sweep,
};
